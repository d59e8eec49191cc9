//! A bound for answers that the driver collects itself.
//!
//! The driver keeps all packets of an answer until its end, which a false server never sends. It has
//! no bound, and takes no socket from its caller. So a thread looks at the driver's sockets, and
//! closes one that received too much: the driver's next read ends. The `unsafe` code reads options of
//! a socket by its number and shuts it down, because the driver owns the descriptor.

#![allow(unsafe_code)]

use std::collections::HashSet;
use std::fs;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use petal_engine::server::answer::{BYTES_MAX, TOO_LONG};
use petal_engine::server::endpoint;
use petal_engine::threads::{Thread, ThreadError};

/// Time between two looks: a network brings some hundred megabytes in it.
const TICK: Duration = Duration::from_millis(100);
/// First read timeout that marks the socket of a connection: about 12 days.
const MARK_S: u64 = 1_000_000;
/// Place of `tcpi_bytes_received` in the kernel's `struct tcp_info`.
const BYTES_RECEIVED: usize = 128;

/// Watch over the connections of a driver.
#[derive(Default)]
pub struct ReceiveWatch {
    connections: Mutex<Vec<Weak<Watched>>>,
}

/// A connection that the driver makes or has.
pub struct Watched {
    calls: AtomicU64,
    state: Mutex<WatchState>,
}

#[derive(Default)]
struct WatchState {
    /// Sockets that existed before the connection; empty as soon as its own is known.
    before: HashSet<String>,
    /// The connection's socket, as soon as it is known; -1 if this host does not show it.
    socket: Option<Socket>,
    /// Calls at the last look, and bytes received when they were first seen.
    calls: u64,
    bytes: u64,
    /// True if the watch closed the socket.
    is_closed: bool,
}

/// A socket by its number and by the name that it has in /proc for all its life.
struct Socket {
    number: RawFd,
    name: String,
}

impl ReceiveWatch {
    /// Watches a connection that is made next; the first one starts the thread, which ends with the
    /// watch.
    pub fn begin(self: &Arc<Self>) -> Result<Arc<Watched>, ThreadError> {
        let before = sockets().map(|socket| socket.name).collect();
        let state = Mutex::new(WatchState { before, ..WatchState::default() });
        let connection = Arc::new(Watched { calls: AtomicU64::new(0), state });
        let mut connections = self.connections.lock();
        if connections.is_empty() {
            let watch = Arc::downgrade(self);
            Thread::named("oracle watch").start(move || {
                while watch.upgrade().is_some_and(|watch| watch.look()) {
                    std::thread::sleep(TICK);
                }
            })?;
        }
        connections.push(Arc::downgrade(&connection));
        Ok(connection)
    }

    /// Looks at each connection, and returns false if it found no connection.
    fn look(&self) -> bool {
        let mut listed = self.connections.lock();
        listed.retain(|connection| connection.strong_count() > 0);
        let connections: Vec<_> = listed.iter().filter_map(Weak::upgrade).collect();
        let is_any = !listed.is_empty();
        drop(listed);
        let known: HashSet<String> = connections.iter().filter_map(|one| one.name()).collect();
        for connection in connections {
            connection.look(&known);
        }
        is_any
    }
}

impl Watched {
    fn name(&self) -> Option<String> {
        self.state.lock().socket.as_ref().map(|socket| socket.name.clone())
    }

    /// Finds the connection's socket by a read timeout that no other socket has.
    pub fn found_by<E>(
        &self,
        set_timeout: impl Fn(Option<Duration>) -> Result<(), E>,
    ) -> Result<(), E> {
        static NEXT: AtomicU64 = AtomicU64::new(MARK_S);
        let mark_s = NEXT.fetch_add(1, Ordering::Relaxed);
        set_timeout(Some(Duration::from_secs(mark_s)))?;
        let found = sockets().find(|socket| read_timeout_s(socket.number) == Some(mark_s));
        let socket = found.unwrap_or(Socket { number: -1, name: String::new() });
        socket.keep_alive();
        let socket = Some(socket);
        *self.state.lock() = WatchState { socket, ..WatchState::default() };
        set_timeout(None)
    }

    /// Begins a call, whose answer has its own bound.
    pub fn begin_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the reason why the watch closed the connection.
    pub fn reason(&self) -> Option<String> {
        let mib = BYTES_MAX >> 20;
        let reason = || format!("{TOO_LONG} (it exceeds {mib} MiB; petal closed the connection)");
        self.state.lock().is_closed.then(reason)
    }

    fn look(&self, known: &HashSet<String>) {
        const MOST: u64 = BYTES_MAX as u64;
        let mut state = self.state.lock();
        let Some(socket) = &state.socket else {
            // A log-on: all that its socket receives counts.
            let is_ours = |socket: &Socket| {
                !state.before.contains(&socket.name) && !known.contains(&socket.name)
            };
            let too_long =
                |socket: &Socket| bytes_received(socket.number).is_some_and(|bytes| bytes > MOST);
            let long = sockets().filter(is_ours).filter(too_long);
            let is_closed = long.fold(false, |is_closed, socket| is_closed | socket.close());
            state.is_closed |= is_closed;
            return;
        };
        let Some(bytes) = bytes_received(socket.number) else { return };
        let calls = self.calls.load(Ordering::Relaxed);
        if state.calls != calls {
            (state.calls, state.bytes) = (calls, bytes);
        } else if bytes.saturating_sub(state.bytes) > MOST {
            state.is_closed |= socket.close();
        }
    }
}

impl Socket {
    /// Has the system keep the connection of a long call in the tables of firewalls, and notice a peer
    /// that is gone. The driver has no such option.
    fn keep_alive(&self) {
        if self.number >= 0 {
            // SAFETY: the descriptor is that of the driver's connection, which outlives the call.
            let _ = endpoint::keep_alive(unsafe { BorrowedFd::borrow_raw(self.number) });
        }
    }

    /// Ends the connection for both sides, and leaves the descriptor to its owner.
    fn close(&self) -> bool {
        let is_same = sockets().any(|now| now.number == self.number && now.name == self.name);
        // SAFETY: the call has no pointer, and a number without a socket is an error.
        is_same && unsafe { libc::shutdown(self.number, libc::SHUT_RDWR) } == 0
    }
}

/// Returns the sockets of this process.
fn sockets() -> impl Iterator<Item = Socket> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_link(entry.path()).ok()?.to_str()?.to_owned();
        name.starts_with("socket:").then_some(Socket { number, name })
    })
}

/// Returns the bytes that a TCP connection has received so far.
fn bytes_received(socket: RawFd) -> Option<u64> {
    let info: [u8; BYTES_RECEIVED + 8] = option(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    info[BYTES_RECEIVED..].try_into().ok().map(u64::from_ne_bytes)
}

fn read_timeout_s(socket: RawFd) -> Option<u64> {
    let time: [u8; size_of::<libc::timeval>()] =
        option(socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO)?;
    time[..8].try_into().ok().map(u64::from_ne_bytes)
}

/// Returns the first `N` bytes of a socket's option, or `None` if it has fewer.
fn option<const N: usize>(socket: RawFd, level: i32, name: i32) -> Option<[u8; N]> {
    let mut value = [0; N];
    let mut length = libc::socklen_t::try_from(N).ok()?;
    // SAFETY: the kernel writes at most `length` bytes to `value`, which has as many and outlives the
    // call; a number without a socket is an error.
    let result = unsafe {
        libc::getsockopt(socket, level, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    (result == 0 && length as usize == N).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_found_by_its_timeout_and_its_bytes_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_other, mut own) = (connect(), connect());
        let _ = listener.accept().unwrap();
        let mut server = listener.accept().unwrap().0;
        let watched = Arc::<ReceiveWatch>::default().begin().unwrap();
        watched.found_by(|timeout| own.set_read_timeout(timeout)).unwrap();
        assert_eq!(own.read_timeout().unwrap(), None);
        assert!(rustix::net::sockopt::socket_keepalive(&own).unwrap());
        server.write_all(b"answer").unwrap();
        own.read_exact(&mut [0; 6]).unwrap();
        let state = watched.state.lock();
        let socket = state.socket.as_ref().unwrap();
        assert_eq!(socket.number, std::os::fd::AsRawFd::as_raw_fd(&own));
        assert_eq!(bytes_received(socket.number), Some(6));
        assert!(socket.close());
        assert_eq!(own.read(&mut [0]).unwrap(), 0);
    }
}
