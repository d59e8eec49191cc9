//! Operations of a session in flight, and the purpose of each slot's request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Instant;

use super::Shared;
use super::block::Identity;
use super::context::SessionContext;
use super::log::{LogRoom, PIECE_BYTES_MAX};
use super::request::{Completion, IoRequest, RequestQueue};
use super::statistics::Count;
use super::target::AlignedBuffer;
use petal_engine::{CUT, EngineError, Needs, Result, SessionError};
use petal_workload::op::Operation;

/// Operations in flight. The ring belongs to the thread that created it.
pub struct Flow {
    pub thread: ThreadId,
    pub queue: Box<dyn RequestQueue>,
    pub uses: Vec<Option<SlotUse>>,
    pub free: Vec<usize>,
    pub in_flight: usize,
    pub done: Vec<Completion>,
    pub pending: VecDeque<Pending>,
    /// Number of the first pending operation, counted over all batches.
    pub first: u64,
}

/// Purpose of a slot's request.
#[derive(Clone, Copy)]
pub enum SlotUse {
    Read { operation: u64, identity: Identity, mark: u8, begin: Instant },
    Log { begin: Instant, bytes: u64 },
    Sync { begin: Instant },
}

/// Operation that has begun.
pub struct Pending {
    /// Position in the batch.
    pub index: u32,
    pub operation: Operation,
    pub area: usize,
    pub begin: Instant,
    pub next_row: u32,
    pub in_flight: u32,
    pub error: Option<&'static str>,
    pub update: Option<Update>,
}

/// State of an UPDATE until its end.
pub struct Update {
    pub staged: Vec<(u64, Box<[u8]>)>,
    pub stage: UpdateStage,
    pub log_bytes_left: u64,
    pub log_bytes: u64,
    /// Room of its record in the log.
    pub log_room: Option<LogRoom>,
}

/// Stage of an UPDATE.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum UpdateStage {
    Reading,
    Logging,
    Logged,
    Syncing,
    Durable,
}

impl Flow {
    /// Memory for the buffers of one session.
    pub fn needs(shared: &Shared, block_bytes: usize) -> Needs {
        let bytes = shared.io_depth as usize * block_bytes;
        let log_bytes = Self::log_slot_bytes(shared, block_bytes);
        let threads =
            shared.backend().map_or(0, |backend| backend.threads(shared.io_depth as usize + 1));
        Needs { files: 1, memory_bytes: (bytes + log_bytes) as u64, threads: threads as u64 }
    }

    fn log_slot_bytes(shared: &Shared, block_bytes: usize) -> usize {
        if shared.only_reads { block_bytes } else { PIECE_BYTES_MAX as usize }
    }

    /// Creates a queue for this thread: IO_DEPTH slots for blocks, and one more for the log.
    pub fn new(context: &SessionContext) -> Result<Self> {
        let shared: &Arc<Shared> = &context.shared;
        let depth = shared.io_depth as usize;
        let block_bytes = context.data.header.block_bytes as usize;
        let log_slot_bytes = Self::log_slot_bytes(shared, block_bytes);
        let mut slots: Vec<_> = (0..depth).map(|_| AlignedBuffer::new(block_bytes)).collect();
        slots.push(AlignedBuffer::new(log_slot_bytes));
        let file = &context.target.file;
        let backend = shared.backend()?;
        let queue = backend.queue(file, slots).map_err(|error| {
            EngineError::Environment(format!(
                "{}: no queue of {depth} requests for a session: {error}; lower IO_DEPTH or the \
                 number of sessions, raise the limits of locked memory and open files (ulimit -l, \
                 -n), or use ?io=pread",
                context.target.path.display()
            ))
        })?;
        if backend.exceeds(queue.as_ref()) {
            shared.statistics.count(Count::UnregisteredQueues, 1);
        }
        Ok(Self {
            thread: std::thread::current().id(),
            queue,
            uses: vec![None; depth + 1],
            free: (0..depth).rev().collect(),
            in_flight: 0,
            done: Vec::with_capacity(depth + 1),
            pending: VecDeque::new(),
            first: 0,
        })
    }

    /// Returns the slot for log records.
    pub fn log_slot(&self) -> usize {
        self.uses.len() - 1
    }

    /// Submits a request in a free slot.
    pub fn submit(
        &mut self,
        context: &SessionContext,
        slot: usize,
        call: IoRequest,
        used: SlotUse,
    ) -> Result<(), SessionError> {
        let pushed = self.queue.push(slot, call);
        pushed.map_err(|error| context.fatal("submitting a request", &error))?;
        self.uses[slot] = Some(used);
        self.in_flight += 1;
        Ok(())
    }

    /// Renumbers the pending operations: the next batch begins with them.
    pub fn renumber(&mut self) {
        for (index, pending) in self.pending.iter_mut().enumerate() {
            pending.index = index as u32;
        }
    }

    /// True if every block of every begun operation was requested, and a slot is free.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() && self.pending.back().is_none_or(Pending::is_asked)
    }

    /// Waits for the requests in flight, after an error.
    pub fn drain(&mut self) {
        while self.in_flight > 0 && self.queue.wait(&mut self.done).is_ok() {
            self.in_flight = self.in_flight.saturating_sub(self.done.len());
            self.done.clear();
        }
    }
}

impl Pending {
    /// True if all of its blocks were requested.
    pub fn is_asked(&self) -> bool {
        self.next_row == self.operation.rows
    }

    /// Requests no more blocks: the operation ends with those in flight.
    pub fn cut(&mut self) {
        self.error.get_or_insert(CUT);
        self.next_row = self.operation.rows;
    }

    /// True if all of its blocks were read.
    pub fn is_read(&self) -> bool {
        self.is_asked() && self.in_flight == 0
    }

    /// True if it continues before other requests: at depth 1, nothing else is in flight.
    pub fn comes_first(&self, is_single: bool) -> bool {
        let waits =
            |update: &Update| !matches!(update.stage, UpdateStage::Reading | UpdateStage::Logged);
        self.is_read()
            && (is_single || self.is_complete() || !self.update.as_ref().is_some_and(waits))
    }

    pub fn is_complete(&self) -> bool {
        self.is_read()
            && (self.error.is_some()
                || self.update.as_ref().is_none_or(|update| update.stage == UpdateStage::Durable))
    }
}
