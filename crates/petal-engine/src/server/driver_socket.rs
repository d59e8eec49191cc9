//! The socket that a driver opens and hides: found among the descriptors of the process, and
//! duplicated. The `unsafe` code duplicates a descriptor by its number.

#![allow(unsafe_code)]

use std::collections::HashSet;
use std::fs;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use parking_lot::Mutex;

/// Returns the result of `open`, and duplicates of the sockets that the process has since.
pub fn made_by<T>(open: impl FnOnce() -> T) -> (T, Vec<OwnedFd>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock();
    let before: HashSet<String> = sockets().map(|(_, name)| name).collect();
    let result = open();
    let made = sockets().filter(|(_, name)| !before.contains(name));
    let made = made.filter_map(|(number, _)| duplicate(number)).collect();
    drop(turn);
    (result, made)
}

/// The sockets of this process: numbers, and names that they have for all their lives.
fn sockets() -> impl Iterator<Item = (RawFd, String)> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_link(entry.path()).ok()?.to_str()?.to_owned();
        name.starts_with("socket:").then_some((number, name))
    })
}

fn duplicate(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: the call has no pointer, and a number without a descriptor is an error.
    let duplicated = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    // SAFETY: nobody else knows the new descriptor.
    (duplicated >= 0).then(|| unsafe { OwnedFd::from_raw_fd(duplicated) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::getpeername;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    #[test]
    fn a_socket_that_is_opened_is_found_and_others_are_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _other = TcpStream::connect(address).unwrap();
        let (opened, made) = made_by(|| TcpStream::connect(address).unwrap());
        let peer = |socket: &OwnedFd| SocketAddr::try_from(getpeername(socket).ok()??).ok();
        let found: Vec<_> = made.iter().filter(|socket| peer(socket) == Some(address)).collect();
        assert_eq!(found.len(), 1, "{made:?}");
        drop(opened);
    }
}
