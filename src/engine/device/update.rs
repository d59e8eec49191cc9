//! An UPDATE on its way: keys and room, then log first, and its blocks to the background writer.

use std::sync::Arc;
use std::time::Instant;

use super::block::{self, Identity};
use super::dirty::NoRoom;
use super::flow::{Flow, Pending, Use};
use super::log;
use super::queue::Call;
use super::session::DeviceSession;
use super::statistics::Event;
use crate::engine::{CUT, SessionError, Stop};
use crate::workload::op::Operation;

/// What an UPDATE holds until its end.
pub struct Update {
    pub staged: Vec<(u64, Box<[u8]>)>,
    pub step: Step,
    pub log_bytes_left: u64,
    pub log_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Reading,
    Logging,
    Logged,
    Syncing,
    Durable,
}

impl DeviceSession {
    /// Takes keys and room for an UPDATE. None: not now, but when what is in flight has ended.
    pub(super) fn begin_update(
        &mut self,
        flow: &Flow,
        operation: &Operation,
        stop: &Stop,
    ) -> Result<Option<Result<Update, &'static str>>, SessionError> {
        if flow.pending.iter().any(|other| other.update.is_some()) {
            return Ok(None);
        }
        let position = self.area(operation.schema)?;
        let data = Arc::clone(&self.data);
        let held = &data.areas[position].held;
        let (first, last, rows) = (operation.first, operation.last(), u64::from(operation.rows));
        let dirty = &self.shared.dirty;
        let cancelled = Arc::clone(&self.cancelled);
        let is_cut = || cancelled.is_set() || stop.is_cutting();
        let is_alone = flow.in_flight == 0;
        if !held.try_take(first, last) {
            if !is_alone {
                return Ok(None);
            }
            let begin = Instant::now();
            let is_taken = held.take(first, last, &is_cut);
            self.record(Event::RowLock, begin, Instant::now(), 0);
            if !is_taken {
                return Ok(Some(Err(CUT)));
            }
        }
        if !dirty.try_reserve(rows) {
            if !is_alone {
                held.give_back(first, last);
                return Ok(None);
            }
            let begin = Instant::now();
            let reserved = dirty.reserve(rows, &is_cut);
            self.record(Event::DirtyWait, begin, Instant::now(), 0);
            if let Err(reason) = reserved {
                held.give_back(first, last);
                return match reason {
                    NoRoom::Cut => Ok(Some(Err(CUT))),
                    NoRoom::Failed(why) => Err(self.writer_failed(why)),
                };
            }
        }
        let log_bytes = log::record_bytes(self.shared.redo_stress, rows);
        let staged = Vec::with_capacity(operation.rows as usize);
        let step = Step::Reading;
        Ok(Some(Ok(Update { staged, step, log_bytes_left: log_bytes, log_bytes })))
    }

    /// A block was found whole: an UPDATE changes it.
    pub(super) fn visit(&self, pending: &mut Pending, identity: &Identity, block: &[u8]) {
        if let Some(update) = &mut pending.update {
            let mut image: Box<[u8]> = block.into();
            let area = &self.data.areas[pending.area];
            let (redo, stamp) = (self.shared.redo_stress, pending.operation.stamp);
            block::update(&mut image, redo, area.filler, stamp);
            update.staged.push((identity.address, image));
        }
    }

    /// Log first: piece after piece of the record, then its sync.
    pub(super) fn step_update(&mut self, flow: &mut Flow) -> Result<(), SessionError> {
        let slot = flow.uses.len() - 1;
        let Some(head) = flow.pending.front_mut() else { return Ok(()) };
        let (stamp, area) = (head.operation.stamp, head.area);
        let Some(update) = &mut head.update else { return Ok(()) };
        if !matches!(update.step, Step::Reading | Step::Logged) {
            return Ok(()); // Under way.
        }
        if update.log_bytes_left == 0 {
            update.step = Step::Syncing;
            return self.submit(flow, slot, Call::Sync, Use::Sync { begin: Instant::now() });
        }
        let bytes = update.log_bytes_left.min(self.data.log.piece_bytes_max());
        update.log_bytes_left -= bytes;
        update.step = Step::Logging;
        let place = self.data.log.place(bytes);
        let piece = &mut flow.queue.slot(slot)[..bytes as usize];
        log::fill(piece, place, stamp, self.data.areas[area].filler);
        let call = Call::Write { offset: place, bytes: bytes as u32 };
        self.submit(flow, slot, call, Use::Log { begin: Instant::now(), bytes })
    }

    /// Hands the blocks of a durable UPDATE to the background writer, and lets go of its keys.
    pub(super) fn end_update(
        &mut self,
        operation: &Operation,
        area: usize,
        update: Update,
        is_done: bool,
    ) {
        let rows = u64::from(operation.rows);
        if is_done {
            self.shared.dirty.put(update.staged.into_iter(), update.log_bytes);
            self.commits += 1;
        } else {
            self.shared.dirty.give_back(rows);
        }
        self.data.areas[area].held.give_back(operation.first, operation.last());
    }

    /// After an error: waits for what is in flight and lets go of what UPDATEs hold.
    pub(super) fn give_up(&mut self, flow: &mut Flow) {
        while flow.in_flight > 0 && flow.queue.wait(&mut flow.done).is_ok() {
            flow.in_flight = flow.in_flight.saturating_sub(flow.done.len());
            flow.done.clear();
        }
        for pending in std::mem::take(&mut flow.pending) {
            if let Some(update) = pending.update {
                self.end_update(&pending.operation, pending.area, update, false);
            }
        }
    }
}

/// The UPDATE that logs is always at the head.
pub fn set_step(flow: &mut Flow, step: Step) {
    if let Some(update) = flow.pending.front_mut().and_then(|head| head.update.as_mut()) {
        update.step = step;
    }
}
