//! Requests of one thread to the target, several in flight: by io_uring, or where that is
//! forbidden by pread and pwrite, on threads where the depth is above one.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::target::AlignedBuffer;
use super::uring::Ring;
use crate::stats::ledger::locked;

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Read {
        offset: u64,
        bytes: u32,
    },
    Write {
        offset: u64,
        bytes: u32,
    },
    /// fdatasync.
    Sync,
}

/// A request that ended. Fewer bytes than asked for are an error.
#[derive(Debug)]
pub struct Completion {
    pub slot: usize,
    pub result: io::Result<()>,
}

/// How requests reach the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Means {
    Uring {
        registered: &'static str,
    },
    /// pread, pwrite and fdatasync; and why.
    Calls {
        reason: String,
    },
}

/// What a person asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wish {
    /// io_uring where it works.
    #[default]
    Best,
    Uring,
    Calls,
}

impl Means {
    /// What this process may use on this file. An error only where io_uring was insisted on.
    pub fn find(file: &Arc<File>, wish: Wish) -> Result<Self, String> {
        if wish == Wish::Calls {
            return Ok(Self::Calls { reason: "as asked for (io=pread)".to_owned() });
        }
        match Ring::new(Arc::clone(file), vec![AlignedBuffer::new(4096)]) {
            Ok(ring) => Ok(Self::Uring { registered: ring.registered() }),
            Err(error) if wish == Wish::Uring => Err(error.to_string()),
            Err(error) => Ok(Self::Calls { reason: format!("io_uring is refused: {error}") }),
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
pub enum Queue {
    Ring(Box<Ring>),
    Inline(Inline),
    Pool(Pool),
}

impl Queue {
    pub fn new(means: &Means, file: &Arc<File>, slots: Vec<AlignedBuffer>) -> io::Result<Self> {
        let file = Arc::clone(file);
        match means {
            Means::Uring { .. } => Ok(Self::Ring(Box::new(Ring::new(file, slots)?))),
            Means::Calls { .. } if slots.len() <= INLINE_SLOTS => {
                Ok(Self::Inline(Inline { file, slots, queued: VecDeque::new() }))
            }
            Means::Calls { .. } => Ok(Self::Pool(Pool::new(file, slots)?)),
        }
    }

    /// The memory of a slot that has no request.
    pub fn slot(&mut self, slot: usize) -> &mut [u8] {
        match self {
            Self::Ring(ring) => ring.slot(slot),
            Self::Inline(inline) => inline.slots[slot].bytes_mut(),
            Self::Pool(pool) => pool.slots[slot].bytes_mut(),
        }
    }

    pub fn push(&mut self, slot: usize, call: Call) -> io::Result<()> {
        match self {
            Self::Ring(ring) => return ring.push(slot, call),
            Self::Inline(inline) => inline.queued.push_back((slot, call)),
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

    /// Submits what is queued and waits for at least one completion; takes all there are. There
    /// must be a request.
    pub fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        match self {
            Self::Ring(ring) => return ring.wait(1, done),
            Self::Inline(inline) => {
                if let Some((slot, call)) = inline.queued.pop_front() {
                    let result = perform(&inline.file, call, &mut inline.slots[slot]);
                    done.push(Completion { slot, result });
                }
            }
            Self::Pool(pool) => pool.wait(done),
        }
        Ok(())
    }
}

/// A session of depth 1 has a slot for blocks and one for its log, never both in use.
const INLINE_SLOTS: usize = 2;

/// One request at a time, on the caller's own thread.
pub struct Inline {
    file: Arc<File>,
    slots: Vec<AlignedBuffer>,
    queued: VecDeque<(usize, Call)>,
}

/// A thread for each slot.
pub struct Pool {
    shared: Arc<PoolShared>,
    slots: Vec<AlignedBuffer>,
    threads: Vec<JoinHandle<()>>,
}

struct PoolShared {
    file: Arc<File>,
    state: Mutex<PoolState>,
    asked: Condvar,
    ended: Condvar,
}

#[derive(Default)]
struct PoolState {
    asked: VecDeque<(usize, Call, AlignedBuffer)>,
    ended: Vec<(Completion, AlignedBuffer)>,
    closed: bool,
}

impl Pool {
    fn new(file: Arc<File>, slots: Vec<AlignedBuffer>) -> io::Result<Self> {
        let shared = Arc::new(PoolShared {
            file,
            state: Mutex::default(),
            asked: Condvar::new(),
            ended: Condvar::new(),
        });
        let mut pool = Self { shared, slots, threads: Vec::new() };
        for _ in 0..pool.slots.len() {
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new().name("device-io".into());
            pool.threads.push(thread.spawn(move || shared.work())?);
        }
        Ok(pool)
    }

    fn push(&mut self, slot: usize, call: Call) {
        let buffer = std::mem::take(&mut self.slots[slot]);
        locked(&self.shared.state).asked.push_back((slot, call, buffer));
        self.shared.asked.notify_one();
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        let mut state = locked(&self.shared.state);
        while state.ended.is_empty() {
            state = self.shared.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        for (completion, buffer) in state.ended.drain(..) {
            self.slots[completion.slot] = buffer;
            done.push(completion);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        locked(&self.shared.state).closed = true;
        self.shared.asked.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing to hand over.
            let _ = thread.join();
        }
    }
}

impl PoolShared {
    fn work(&self) {
        let mut state = locked(&self.state);
        loop {
            let Some((slot, call, mut buffer)) = state.asked.pop_front() else {
                if state.closed {
                    return;
                }
                state = self.asked.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let result = perform(&self.file, call, &mut buffer);
            state = locked(&self.state);
            state.ended.push((Completion { slot, result }, buffer));
            self.ended.notify_one();
        }
    }
}

fn perform(file: &File, call: Call, buffer: &mut AlignedBuffer) -> io::Result<()> {
    let (moved, wanted) = match call {
        Call::Read { offset, bytes } => {
            (file.read_at(&mut buffer.bytes_mut()[..bytes as usize], offset)?, bytes)
        }
        Call::Write { offset, bytes } => {
            (file.write_at(&buffer.bytes()[..bytes as usize], offset)?, bytes)
        }
        Call::Sync => return file.sync_data(),
    };
    if moved == wanted as usize { Ok(()) } else { Err(short(moved, wanted as usize)) }
}

/// Direct requests of whole blocks are served whole, or something is wrong.
pub fn short(moved: usize, wanted: usize) -> io::Error {
    io::Error::other(format!("{moved} of {wanted} bytes were moved"))
}
