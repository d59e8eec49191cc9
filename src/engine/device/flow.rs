//! What a session has under way: its operations, and what each slot's request is for.

use std::collections::VecDeque;
use std::thread::ThreadId;
use std::time::Instant;

use super::block::Identity;
use super::queue::{Completion, Queue};
use super::update::{Step, Update};
use crate::workload::op::Operation;

/// What is under way. The ring belongs to the thread that made it.
pub struct Flow {
    pub thread: ThreadId,
    pub queue: Queue,
    pub uses: Vec<Option<Use>>,
    pub free: Vec<usize>,
    pub in_flight: usize,
    pub done: Vec<Completion>,
    pub pending: VecDeque<Pending>,
    /// The number of the first pending operation, counted over all batches.
    pub first: u64,
}

/// What a slot's request is for.
#[derive(Clone, Copy)]
pub enum Use {
    Read { operation: u64, identity: Identity, mark: u8, begin: Instant },
    Log { begin: Instant, bytes: u64 },
    Sync { begin: Instant },
}

/// An operation that has begun.
pub struct Pending {
    /// Its place in the batch.
    pub index: u32,
    pub operation: Operation,
    pub area: usize,
    pub begin: Instant,
    pub next_row: u32,
    pub in_flight: u32,
    pub error: Option<&'static str>,
    pub update: Option<Update>,
}

/// What comes next for a free slot.
pub enum Next {
    Read { operation: u64, identity: Identity, mark: u8 },
    Nothing,
}

impl Flow {
    /// An operation is in its place for as long as it is under way: the batch begins with it.
    pub fn renumber(&mut self) {
        for (index, pending) in self.pending.iter_mut().enumerate() {
            pending.index = index as u32;
        }
    }

    /// Every block of every operation that has begun was asked for, and there is room for more.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() && self.pending.back().is_none_or(Pending::is_asked)
    }
}

impl Pending {
    /// All of its blocks were asked for.
    pub fn is_asked(&self) -> bool {
        self.next_row == self.operation.rows
    }

    /// All of its blocks are there.
    pub fn is_read(&self) -> bool {
        self.is_asked() && self.in_flight == 0
    }

    /// Whether it goes on before anything else is asked for: at depth 1 nothing flows beside it.
    pub fn comes_first(&self, is_single: bool) -> bool {
        let waits = |update: &Update| !matches!(update.step, Step::Reading | Step::Logged);
        self.is_read()
            && (is_single || self.is_complete() || !self.update.as_ref().is_some_and(waits))
    }

    pub fn is_complete(&self) -> bool {
        self.is_read()
            && (self.error.is_some()
                || self.update.as_ref().is_none_or(|update| update.step == Step::Durable))
    }
}
