//! Standard error behind a bounded queue. A terminal that takes no output (Ctrl-S), or a slow
//! reader, blocks a separate thread, and never a measurement: messages that do not fit are dropped
//! and counted.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use indicatif::TermLike;
use parking_lot::Mutex;

use petal_engine::threads::Thread;

/// Pieces that wait to be written; more are dropped.
const PIECES_MAX: usize = 1000;
/// Pieces in the queue above which a picture of the bar is dropped.
const BEFORE_A_PICTURE_MAX: u64 = 8;
const POLL: Duration = Duration::from_millis(10);
/// The width of a terminal that does not report it.
const COLUMNS: u16 = 80;

/// A stream and the thread that writes to it, which begins with the first text.
#[derive(Clone)]
pub struct Queued(Arc<QueuedShared>);

struct QueuedShared {
    queue: OnceLock<Option<SyncSender<Piece>>>,
    stream: Arc<Mutex<Box<dyn Write + Send>>>,
    counts: Arc<PieceCounts>,
}

#[derive(Default)]
struct PieceCounts {
    queued: AtomicU64,
    written: AtomicU64,
    lines_dropped: AtomicU64,
}

enum Piece {
    Text(String),
    /// Answers when all before it is written.
    Mark(std::sync::mpsc::Sender<()>),
}

impl Queued {
    pub fn stderr() -> Self {
        Self::to(io::stderr())
    }

    fn to(stream: impl Write + Send + 'static) -> Self {
        let stream: Box<dyn Write + Send> = Box::new(stream);
        Self(Arc::new(QueuedShared {
            queue: OnceLock::new(),
            stream: Arc::new(Mutex::new(stream)),
            counts: Arc::default(),
        }))
    }

    /// The queue; None if there is no thread for it.
    fn queue(&self) -> Option<&SyncSender<Piece>> {
        let begin = || {
            let (sender, pieces) = sync_channel(PIECES_MAX);
            let (stream, counts) = (Arc::clone(&self.0.stream), Arc::clone(&self.0.counts));
            let write_all = move || write_all(&pieces, &stream, &counts);
            Thread::named("console").start(write_all).ok().map(|_| sender)
        };
        self.0.queue.get_or_init(begin).as_ref()
    }

    /// Whole lines of text.
    pub fn lines(&self, text: String) {
        let lines = text.lines().count() as u64;
        if !self.push(text) {
            self.0.counts.lines_dropped.fetch_add(lines, Ordering::Relaxed);
        }
    }

    /// A picture that the next one replaces.
    fn picture(&self, text: String) {
        let counts = &self.0.counts;
        let waiting = counts.queued.load(Ordering::Relaxed);
        let waiting = waiting.saturating_sub(counts.written.load(Ordering::Relaxed));
        if waiting < BEFORE_A_PICTURE_MAX {
            self.push(text);
        }
    }

    fn push(&self, text: String) -> bool {
        let Some(queue) = self.queue() else {
            // An error of this stream cannot be reported.
            let _ = self.0.stream.lock().write_all(text.as_bytes());
            return true;
        };
        let is_queued = queue.try_send(Piece::Text(text)).is_ok();
        self.0.counts.queued.fetch_add(u64::from(is_queued), Ordering::Relaxed);
        is_queued
    }

    /// Waits until all is written, as long as something is within each `limit`.
    pub fn drain(&self, limit: Duration) {
        let Some(Some(queue)) = self.0.queue.get() else { return };
        let (sender, done) = channel();
        let mut mark = Some(Piece::Mark(sender));
        let written = || self.0.counts.written.load(Ordering::Relaxed);
        let (mut known, mut moved) = (written(), Instant::now());
        while moved.elapsed() < limit {
            mark = match mark.map(|mark| queue.try_send(mark)) {
                Some(Err(TrySendError::Full(mark))) => Some(mark),
                Some(Err(TrySendError::Disconnected(_))) => return,
                Some(Ok(())) | None => None,
            };
            if done.recv_timeout(POLL).is_ok() {
                return;
            }
            if written() != known {
                (known, moved) = (written(), Instant::now());
            }
        }
    }

    /// The terminal for a bar.
    pub fn terminal(&self) -> Terminal {
        Terminal { into: self.clone(), picture: Mutex::default() }
    }
}

fn write_all(
    pieces: &Receiver<Piece>,
    stream: &Mutex<Box<dyn Write + Send>>,
    counts: &PieceCounts,
) {
    for piece in pieces {
        let text = match piece {
            Piece::Text(text) => text,
            Piece::Mark(done) => {
                let _ = done.send(());
                continue;
            }
        };
        let mut stream = stream.lock();
        // A reader that went away reads no error either.
        let _ = stream.write_all(text.as_bytes());
        counts.written.fetch_add(1, Ordering::Relaxed);
        let dropped = counts.lines_dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let _ = writeln!(
                stream,
                "petal: {dropped} lines were dropped here, because nothing read the output"
            );
        }
        let _ = stream.flush();
    }
}

/// A terminal on which a bar is drawn, behind the same queue.
pub struct Terminal {
    into: Queued,
    /// Drawn and not yet queued.
    picture: Mutex<String>,
}

impl Terminal {
    fn draw(&self, text: &str) -> io::Result<()> {
        self.picture.lock().push_str(text);
        Ok(())
    }
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Terminal")
    }
}

impl TermLike for Terminal {
    fn width(&self) -> u16 {
        columns(io::stderr()).and_then(|n| n.try_into().ok()).unwrap_or(COLUMNS)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        if n > 0 { self.draw(&format!("\x1b[{n}A")) } else { Ok(()) }
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        if n > 0 { self.draw(&format!("\x1b[{n}B")) } else { Ok(()) }
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        if n > 0 { self.draw(&format!("\x1b[{n}C")) } else { Ok(()) }
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        if n > 0 { self.draw(&format!("\x1b[{n}D")) } else { Ok(()) }
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.draw(&format!("{text}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.draw(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.draw("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        let picture = std::mem::take(&mut *self.picture.lock());
        if !picture.is_empty() {
            self.into.picture(picture);
        }
        Ok(())
    }
}

/// Width of the terminal behind `stream`; None if there is no terminal, or its width is unknown.
pub fn columns(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes nothing until it may.
    struct Stopped {
        may_go_on: Receiver<()>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stopped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // With the sender's end nothing stops it any more.
            let _ = self.may_go_on.recv();
            self.taken.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_blocked_stream_stops_no_thread_and_dropped_lines_are_counted() {
        let (go_on, may_go_on) = channel();
        let taken = Arc::<Mutex<Vec<u8>>>::default();
        let queued = Queued::to(Stopped { may_go_on, taken: Arc::clone(&taken) });
        let lines = PIECES_MAX as u64 + 500;
        (0..lines).for_each(|line| queued.lines(format!("line {line}\n")));
        queued.drain(Duration::ZERO);
        drop(go_on);
        queued.drain(Duration::from_secs(60));
        let text = String::from_utf8(taken.lock().clone()).unwrap();
        let written = text.lines().filter(|line| line.starts_with("line ")).count() as u64;
        let notes = text.lines().filter_map(|line| line.strip_prefix("petal: "));
        let counts = notes.map(|note| note.split(' ').next().unwrap().parse::<u64>().unwrap());
        assert_eq!(written + counts.sum::<u64>(), lines, "{text}");
        assert!(written < lines && text.contains("were dropped here"));
    }
}
