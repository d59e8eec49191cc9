//! How a connection by a unix socket waits for an answer alone (Linux).
//!
//! The kernel wakes who watches such a socket for writing, too, when the peer takes a request, and
//! the driver's runtime watches for both: a session of small requests would wake twice for each
//! answer, at the cost of the server's processor as well as its own. So its thread first sleeps in
//! poll(2) until there is something to read. The driver keeps its socket to itself, but the system
//! tells what a runtime watches.

// SAFETY: both calls are given memory of ours that lives through them.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::OnceLock;

use tokio::net::UnixDatagram;
use tokio::runtime::Runtime;

use crate::engine::server::liveness::TICK;

/// The number of open files that the runtime of one connection watches: the connection's socket, and
/// the eventfd by which other threads wake the runtime.
const WATCHED: usize = 2;

/// The wait of one connection's runtime, which is as any other's until [`Self::begin`].
#[derive(Default)]
pub struct AnswerWait(OnceLock<[libc::pollfd; WATCHED]>);

impl AnswerWait {
    /// From now on the thread of the runtime sleeps until there is something to read. For requests that
    /// the socket takes whole: one that waits for room would be held up by a [`TICK`] each time.
    /// Nothing changes where the system does not tell what the runtime watches.
    pub fn begin(&self, runtime: &Runtime) {
        let watched = watched(runtime).and_then(|watched| watched.try_into().ok());
        if let Some(watched) = watched {
            let watched: [RawFd; WATCHED] = watched;
            watched.into_iter().filter(|&fd| is_waker(fd)).for_each(forget_wakes);
            let for_reading = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let _ = self.0.set(watched.map(for_reading));
        }
    }

    /// Sleeps until there is something to read, a [`TICK`] at most: the runtime's own clocks go on.
    /// Returns at once where the driver has closed the socket, and before [`Self::begin`].
    pub fn sleep(&self) {
        if let Some(mut watched) = self.0.get().copied() {
            // SAFETY: the array lives, and has as many elements.
            unsafe { libc::poll(watched.as_mut_ptr(), WATCHED as _, TICK.as_millis() as _) };
        }
    }
}

/// The open files that a runtime watches.
fn watched(runtime: &Runtime) -> Option<Vec<RawFd>> {
    // The list that has one of our own is the runtime's.
    let _entered = runtime.enter();
    let marker = UnixDatagram::unbound().ok()?;
    let marker = marker.as_raw_fd();
    let mut open = open_files().ok()?;
    // What was opened together mostly has numbers close together.
    open.sort_unstable_by_key(|fd| fd.abs_diff(marker));
    open.iter().find_map(|fd| {
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
        let mut watched: Vec<RawFd> = text.lines().filter_map(watched_file).collect();
        let at = watched.iter().position(|&fd| fd == marker)?;
        watched.swap_remove(at);
        Some(watched)
    })
}

fn open_files() -> io::Result<Vec<RawFd>> {
    let files = fs::read_dir("/proc/self/fdinfo")?;
    Ok(files.filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// A line of what the system tells of an epoll: `tfd:        5 events: 80002005d data: ...`
fn watched_file(line: &str) -> Option<RawFd> {
    line.strip_prefix("tfd:")?.split_whitespace().next()?.parse().ok()
}

fn is_waker(fd: RawFd) -> bool {
    let file = fs::read_link(format!("/proc/self/fd/{fd}"));
    file.is_ok_and(|file| file.ends_with("anon_inode:[eventfd]"))
}

/// A runtime leaves its wakes unread, which would end every sleep.
fn forget_wakes(waker: RawFd) {
    let mut count = [0_u8; size_of::<u64>()];
    // SAFETY: the array lives, and is as long. A waker is never waited for.
    unsafe { libc::read(waker, count.as_mut_ptr().cast(), count.len()) };
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::engine::server::future_wait::runtime;

    const EXCHANGES: u32 = 20;

    /// How often the thread wakes for so many answers of a peer that takes its time.
    fn wakes(is_begun: bool) -> u32 {
        let answer = Arc::<AnswerWait>::default();
        let (asleep, wakes) = (Arc::clone(&answer), Arc::<AtomicU32>::default());
        let woken = Arc::clone(&wakes);
        let runtime = runtime()
            .on_thread_park(move || asleep.sleep())
            .on_thread_unpark(move || {
                woken.fetch_add(1, Ordering::Relaxed);
            })
            .build()
            .unwrap();
        let (ours, mut peers) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let _entered = runtime.enter();
        let mut ours = tokio::net::UnixStream::from_std(ours).unwrap();
        if is_begun {
            answer.begin(&runtime);
        }
        let peer = std::thread::spawn(move || {
            for _ in 0..EXCHANGES {
                peers.read_exact(&mut [0]).unwrap();
                std::thread::sleep(TICK / 20);
                peers.write_all(b"a").unwrap();
            }
        });
        for _ in 0..EXCHANGES {
            runtime.block_on(async {
                ours.write_all(b"q").await.unwrap();
                ours.read_exact(&mut [0]).await.unwrap();
            });
        }
        peer.join().unwrap();
        wakes.load(Ordering::Relaxed)
    }

    #[test]
    fn a_runtime_watches_its_waker_and_its_socket() {
        let runtime = runtime().build().unwrap();
        let _entered = runtime.enter();
        let socket = UnixDatagram::unbound().unwrap();
        let watched = watched(&runtime).unwrap();
        let (wakers, sockets): (Vec<_>, Vec<_>) = watched.into_iter().partition(|&fd| is_waker(fd));
        assert_eq!((wakers.len(), sockets), (1, vec![socket.as_raw_fd()]));
    }

    #[test]
    fn an_answer_wakes_once() {
        let (plain, begun) = (wakes(false), wakes(true));
        // A busy machine differs a little: the peer takes a request before the thread sleeps, or it
        // pauses for a TICK.
        assert!(begun + EXCHANGES / 4 <= plain, "{plain} wakes, then {begun}");
    }
}
