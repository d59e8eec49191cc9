//! Requests of one thread to the target, several in flight: by io_uring, or by system calls if
//! io_uring is forbidden. System calls use threads if the depth is above one.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::calls::Calls;
use super::request::RequestQueue;
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

    /// Creates a queue of the calling thread, over these slots.
    pub fn queue(
        &self,
        file: &Arc<File>,
        slots: Vec<AlignedBuffer>,
    ) -> io::Result<Box<dyn RequestQueue>> {
        let file = Arc::clone(file);
        Ok(match self {
            Self::Uring { .. } => Box::new(Ring::new(file, slots)?),
            Self::Calls { .. } => {
                let threads = self.threads(slots.len());
                Box::new(Calls::new(file, slots, threads)?)
            }
        })
    }

    /// True if the kernel registered fewer resources for this queue than for the first one: the limit
    /// of locked memory (ulimit -l) counts all queues of a user.
    pub fn exceeds(&self, queue: &dyn RequestQueue) -> bool {
        match self {
            Self::Uring { registered } => queue.registered() != *registered,
            Self::Calls { .. } => false,
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

/// Number of slots at depth 1: one for blocks and one for the log, never both in use.
const INLINE_SLOTS: usize = 2;
