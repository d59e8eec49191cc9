//! Requests of one thread to the target, several in flight: by io_uring, or by system calls if
//! io_uring is forbidden. System calls use threads if the depth is above one.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::calls::{Inline, Pool};
use super::request::{Completion, IoRequest};
use super::target::AlignedBuffer;
use super::uring::Ring;

/// Way in which requests reach the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    Uring {
        registered: &'static str,
    },
    /// System calls pread, pwrite and fdatasync, and the reason for using them.
    Calls {
        reason: String,
    },
}

/// Backend that the user chose with `?io=`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// Backend io_uring if it works, else system calls.
    #[default]
    Best,
    Uring,
    Calls,
}

impl Backend {
    /// Finds the backend that this file allows. Fails only if the user asked for io_uring.
    pub fn find(file: &Arc<File>, choice: BackendChoice) -> Result<Self, String> {
        if choice == BackendChoice::Calls {
            return Ok(Self::Calls { reason: "as asked for (io=pread)".to_owned() });
        }
        let proved = Ring::new(Arc::clone(file), vec![AlignedBuffer::new(4096)])
            .and_then(|mut ring| ring.prove().map(|()| ring.registered()));
        match proved {
            Ok(registered) => Ok(Self::Uring { registered }),
            Err(error) if choice == BackendChoice::Uring => Err(error.to_string()),
            Err(error) => Ok(Self::Calls { reason: format!("io_uring is refused: {error}") }),
        }
    }

    /// Returns the number of threads of a queue with this many slots.
    pub fn threads(&self, slots: usize) -> usize {
        match self {
            Self::Calls { .. } if slots > INLINE_SLOTS => slots,
            _ => 0,
        }
    }

    /// Describes the backend for the record.
    pub fn words(&self) -> String {
        match self {
            Self::Uring { registered } => format!("io_uring, {registered}"),
            Self::Calls { reason } => {
                format!("pread and pwrite, threads above depth 1; {reason}")
            }
        }
    }
}

/// Request queue of one thread. A slot has memory and at most one request.
pub enum RequestQueue {
    Ring(Box<Ring>),
    Inline(Inline),
    Pool(Pool),
}

impl RequestQueue {
    pub fn new(backend: &Backend, file: &Arc<File>, slots: Vec<AlignedBuffer>) -> io::Result<Self> {
        let file = Arc::clone(file);
        match backend {
            Backend::Uring { .. } => Ok(Self::Ring(Box::new(Ring::new(file, slots)?))),
            Backend::Calls { .. } if backend.threads(slots.len()) == 0 => {
                Ok(Self::Inline(Inline::new(file, slots)))
            }
            Backend::Calls { .. } => Ok(Self::Pool(Pool::new(file, slots)?)),
        }
    }

    /// True if the kernel registered fewer resources than for the first queue: the limit of locked
    /// memory (ulimit -l) counts all queues of a user.
    pub fn lacks(&self, backend: &Backend) -> bool {
        match (self, backend) {
            (Self::Ring(ring), Backend::Uring { registered }) => ring.registered() != *registered,
            _ => false,
        }
    }

    /// Returns the memory of a slot that has no request.
    pub fn slot(&mut self, slot: usize) -> &mut [u8] {
        match self {
            Self::Ring(ring) => ring.slot(slot),
            Self::Inline(inline) => inline.slot(slot),
            Self::Pool(pool) => pool.slot(slot),
        }
    }

    pub fn push(&mut self, slot: usize, call: IoRequest) -> io::Result<()> {
        match self {
            Self::Ring(ring) => return ring.push(slot, call),
            Self::Inline(inline) => inline.push(slot, call),
            Self::Pool(pool) => pool.push(slot, call),
        }
        Ok(())
    }

    /// Submits queued requests, and does not wait.
    pub fn submit(&mut self) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.submit(),
            Self::Inline(_) | Self::Pool(_) => Ok(()),
        }
    }

    /// Submits queued requests and takes completions; may return none if every request must be
    /// retried.
    pub fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        match self {
            Self::Ring(ring) => return ring.wait(done),
            Self::Inline(inline) => inline.wait(done),
            Self::Pool(pool) => pool.wait(done),
        }
        Ok(())
    }
}

/// Number of slots at depth 1: one for blocks and one for the log, never both in use.
const INLINE_SLOTS: usize = 2;
