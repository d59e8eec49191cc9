//! Request to the target and its result, for every backend. This module does no I/O.

use std::io;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoRequest {
    Read {
        offset: u64,
        bytes: u32,
    },
    Write {
        offset: u64,
        bytes: u32,
    },
    /// Request for fdatasync.
    Sync,
}

impl IoRequest {
    /// Returns the number of bytes to transfer.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Read { bytes, .. } | Self::Write { bytes, .. } => bytes,
            Self::Sync => 0,
        }
    }
}

/// Ended request. Fewer bytes than requested are an error.
#[derive(Debug)]
pub struct Completion {
    pub slot: usize,
    pub result: io::Result<()>,
}

/// Number of retries of a request that was cut short, or refused for the moment.
pub const TRIES_MORE: u8 = 3;

/// Result of an attempt at a request.
#[derive(Debug)]
pub enum Attempt {
    Ended(io::Result<()>),
    /// Interrupted, refused for lack of resources, or short; if it fails again, this error is
    /// reported.
    Again(io::Error),
}

/// Judges an attempt by the kernel's answer: the number of transferred bytes, or an error.
pub fn judge(call: IoRequest, answer: io::Result<usize>) -> Attempt {
    let wanted = call.bytes() as usize;
    match answer {
        Ok(moved) if moved == wanted => Attempt::Ended(Ok(())),
        Ok(0) => Attempt::Ended(Err(short(0, wanted))),
        Ok(moved) => Attempt::Again(short(moved, wanted)),
        Err(error) => match error.kind() {
            // A second sync does not repair a failed one: the data may be gone, and it would not
            // report that.
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock if call != IoRequest::Sync => {
                Attempt::Again(error)
            }
            _ => Attempt::Ended(Err(error)),
        },
    }
}

fn short(moved: usize, wanted: usize) -> io::Error {
    io::Error::other(format!("{moved} of {wanted} bytes were moved"))
}

/// Request queue of one thread. A slot has memory and at most one request.
pub trait RequestQueue: Send {
    /// Returns the memory of a slot that has no request.
    fn slot(&mut self, slot: usize) -> &mut [u8];

    fn push(&mut self, slot: usize, call: IoRequest) -> io::Result<()>;

    /// Submits queued requests, and does not wait.
    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Submits queued requests and takes completions; may return none if every request must be
    /// retried.
    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()>;

    /// Describes the parts that the kernel has registered.
    fn registered(&self) -> &'static str {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_yet_succeed_is_tried_again() {
        let read = IoRequest::Read { offset: 0, bytes: 4096 };
        let kind = |call, answer| match judge(call, answer) {
            Attempt::Ended(Ok(())) => "done",
            Attempt::Ended(Err(_)) => "failed",
            Attempt::Again(_) => "again",
        };
        let errno = |number| Err(io::Error::from_raw_os_error(number));
        assert_eq!(kind(read, Ok(4096)), "done");
        assert_eq!(kind(read, Ok(512)), "again");
        assert_eq!(kind(read, Ok(0)), "failed", "the end of the file stays where it is");
        assert_eq!(kind(read, errno(libc::EINTR)), "again");
        assert_eq!(kind(read, errno(libc::EAGAIN)), "again");
        assert_eq!(kind(read, errno(libc::EIO)), "failed");
        assert_eq!(kind(IoRequest::Sync, Ok(0)), "done");
        assert_eq!(kind(IoRequest::Sync, errno(libc::EIO)), "failed");
        assert_eq!(kind(IoRequest::Sync, errno(libc::EINTR)), "failed", "a sync is never repeated");
    }
}
