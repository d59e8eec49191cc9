//! A ledger on a port: a pipe or a character device, whose other end may stop reading.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::LedgerSink;

const POLL: Duration = Duration::from_millis(1);

/// A port opened with O_NONBLOCK. A write fails if the port accepts no byte in time.
pub struct Port {
    file: File,
    /// Signals that asked petal to stop.
    signals: Arc<AtomicU8>,
}

impl Port {
    pub fn new(file: File, signals: Arc<AtomicU8>) -> Self {
        Self { file, signals }
    }

    /// Timeout of a write: after a signal the timeout of operations, after a second one zero.
    fn limit(&self) -> Duration {
        match self.signals.load(Ordering::Relaxed) {
            0 => Duration::from_secs(10),
            1 => Duration::from_secs(3),
            _ => Duration::ZERO,
        }
    }
}

impl Write for Port {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return written,
            }
            let waited = began.elapsed();
            if waited >= self.limit() {
                let seconds = waited.as_secs();
                let why = format!("nothing was read from it for {seconds} s");
                return Err(io::Error::new(ErrorKind::TimedOut, why));
            }
            thread::sleep(POLL);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LedgerSink for Port {
    /// A port has nothing to sync.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::PathBuf;

    use super::super::read::tests::{commit, header};
    use super::super::{LedgerFile, SessionFrame};
    use super::*;

    fn fifo(folder: &tempfile::TempDir) -> PathBuf {
        let path = folder.path().join("fifo");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        path
    }

    /// Opened, and not read automatically.
    fn reader(path: &PathBuf) -> File {
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        OpenOptions::new().read(true).custom_flags(nonblock).open(path).unwrap()
    }

    #[test]
    fn a_pipe_without_a_reader_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = fifo(&folder);
        let refused = LedgerFile::create(&path, &header(), &Arc::default()).err().unwrap();
        assert!(refused.is_environment() && refused.to_string().contains("no program reads"));
        let mut reader = reader(&path);
        let file = LedgerFile::create(&path, &header(), &Arc::default()).unwrap();
        file.end(7).unwrap();
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert!(read.starts_with(b"PETALLDG"));
    }

    #[test]
    fn a_pipe_that_takes_no_bytes_ends_the_ledger_and_not_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = fifo(&folder);
        let reader = reader(&path);
        // The second signal: no wait at all.
        let signals = Arc::new(AtomicU8::new(2));
        let file = LedgerFile::create(&path, &header(), &signals).unwrap();
        let mut frame = SessionFrame::new(1);
        // A pipe holds 16 pages, or one if a user has many.
        let untaken = (1..1 << 20).find(|&sequence| {
            frame.add(&commit(1, sequence));
            file.append(&mut frame, sequence);
            file.commits() < sequence
        });
        assert!(untaken.is_some_and(|sequence| sequence > 1), "{untaken:?}");
        assert!(file.end(1).unwrap_err().contains("nothing was read from it"));
        drop(reader);
    }

    #[test]
    fn signals_shorten_the_timeout_of_a_write() {
        let signals = Arc::new(AtomicU8::new(0));
        let port = Port::new(File::open("/dev/null").unwrap(), signals.clone());
        let limits = [0, 1, 2].map(|level| {
            signals.store(level, Ordering::Relaxed);
            port.limit().as_secs()
        });
        assert_eq!(limits, [10, 3, 0]);
    }
}
