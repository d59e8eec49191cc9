//! Requests of one thread to the target, several in flight: by io_uring, or where that is
//! forbidden by calls, on threads where the depth is above one.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::calls::{Inline, Pool};
use super::request::{Completion, IoRequest};
use super::target::AlignedBuffer;
use super::uring::Ring;

/// The way in which requests reach the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    Uring {
        registered: &'static str,
    },
    /// pread, pwrite and fdatasync; and why.
    Calls {
        reason: String,
    },
}

/// The choice of the user: `?io=`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// io_uring where it works.
    #[default]
    Best,
    Uring,
    Calls,
}

impl Backend {
    /// The backend that this file allows. An error only where io_uring was asked for.
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

    /// The number of threads of a queue of so many slots.
    pub fn threads(&self, slots: usize) -> usize {
        match self {
            Self::Calls { .. } if slots > INLINE_SLOTS => slots,
            _ => 0,
        }
    }

    /// In words, for the record.
    pub fn words(&self) -> String {
        match self {
            Self::Uring { registered } => format!("io_uring, {registered}"),
            Self::Calls { reason } => {
                format!("pread and pwrite, threads above depth 1; {reason}")
            }
        }
    }
}

/// The requests of one thread. A slot has memory and at most one request.
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

    /// The kernel registered less for it than for the first queue: the limit of locked memory
    /// (ulimit -l) counts all queues of a user.
    pub fn lacks(&self, backend: &Backend) -> bool {
        match (self, backend) {
            (Self::Ring(ring), Backend::Uring { registered }) => ring.registered() != *registered,
            _ => false,
        }
    }

    /// The memory of a slot that has no request.
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

    /// Submits what is queued, and does not wait.
    pub fn submit(&mut self) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.submit(),
            Self::Inline(_) | Self::Pool(_) => Ok(()),
        }
    }

    /// Submits what is queued and takes what ended: none where all of it has to be made again.
    pub fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        match self {
            Self::Ring(ring) => return ring.wait(done),
            Self::Inline(inline) => inline.wait(done),
            Self::Pool(pool) => pool.wait(done),
        }
        Ok(())
    }
}

/// A session of depth 1 has a slot for blocks and one for its log, never both in use.
const INLINE_SLOTS: usize = 2;
