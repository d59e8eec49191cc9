//! UPDATE in progress: first keys and room, then the log, and then its blocks go to the background
//! writer.

use std::time::Instant;

use super::block::{self, Identity};
use super::context::SessionContext;
use super::flow::{Flow, Pending, SlotUse, Update, UpdateStage};
use super::log::{self, LogRoom};
use super::request::IoRequest;
use super::statistics::Event;
use super::write_back_cache::NoRoom;
use petal_engine::{CUT, SessionError, Stop};
use petal_workload::op::Operation;

/// Outcome of an attempt to begin an UPDATE.
pub enum BeginOutcome {
    Update(Update),
    /// Operation that was cut while it waited.
    Cut,
    /// Retry after the requests in flight have ended.
    NotNow,
}

/// Takes keys and room for an UPDATE.
pub fn begin(
    context: &SessionContext,
    flow: &Flow,
    operation: &Operation,
    stop: &Stop,
) -> Result<BeginOutcome, SessionError> {
    if flow.pending.iter().any(|other| other.update.is_some()) {
        return Ok(BeginOutcome::NotNow);
    }
    let dirty = &context.shared.dirty;
    if let Some(why) = dirty.failed() {
        return Err(writer_failed(why));
    }
    let held = &context.data.areas[context.area(operation.schema)?].held;
    let (first, last, rows) = (operation.first, operation.last(), u64::from(operation.rows));
    let is_cut = || context.is_cut(stop);
    let is_alone = flow.in_flight == 0;
    if !held.try_take(first, last) {
        if !is_alone {
            return Ok(BeginOutcome::NotNow);
        }
        let begin = Instant::now();
        let is_taken = held.take(first, last, &is_cut);
        context.record(Event::RowLock, begin, Instant::now(), 0);
        if !is_taken {
            return Ok(BeginOutcome::Cut);
        }
    }
    if !dirty.try_reserve(rows) {
        if !is_alone {
            held.give_back(first, last);
            return Ok(BeginOutcome::NotNow);
        }
        let begin = Instant::now();
        let reserved = dirty.reserve(rows, &is_cut);
        context.record(Event::DirtyWait, begin, Instant::now(), 0);
        if let Err(reason) = reserved {
            held.give_back(first, last);
            return match reason {
                NoRoom::Cut => Ok(BeginOutcome::Cut),
                NoRoom::Failed(why) => Err(writer_failed(why)),
            };
        }
    }
    let log_bytes = log::record_bytes(context.shared.redo_stress, rows);
    let staged = Vec::with_capacity(operation.rows as usize);
    let update = Update {
        staged,
        stage: UpdateStage::Reading,
        log_bytes_left: log_bytes,
        log_bytes,
        log_room: None,
    };
    Ok(BeginOutcome::Update(update))
}

/// Changes a block that was found whole, if the operation is an UPDATE.
pub fn visit(context: &SessionContext, pending: &mut Pending, identity: &Identity, block: &[u8]) {
    if let Some(update) = &mut pending.update {
        let mut image: Box<[u8]> = block.into();
        let filler = context.data.areas[pending.area].filler;
        block::update(&mut image, context.shared.redo_stress, filler, pending.operation.stamp);
        update.staged.push((identity.address, image));
    }
}

/// Advances the log: writes each piece of the record, then syncs.
pub fn step(context: &SessionContext, flow: &mut Flow, stop: &Stop) -> Result<(), SessionError> {
    let slot = flow.log_slot();
    let is_alone = flow.in_flight == 0;
    let Some(head) = flow.pending.front_mut() else { return Ok(()) };
    let (stamp, area) = (head.operation.stamp, head.area);
    let Some(update) = &mut head.update else { return Ok(()) };
    if !matches!(update.stage, UpdateStage::Reading | UpdateStage::Logged) {
        return Ok(()); // Under way.
    }
    if update.log_bytes_left == 0 {
        update.stage = UpdateStage::Syncing;
        return flow.submit(
            context,
            slot,
            IoRequest::Sync,
            SlotUse::Sync { begin: Instant::now() },
        );
    }
    let Some(room) = log_room(context, update, is_alone, stop)? else {
        if is_alone {
            head.error = Some(CUT);
        }
        return Ok(()); // Later, when something of its own has ended.
    };
    let bytes = update.log_bytes_left.min(context.data.log.piece_bytes_max());
    let place = room.offset + update.log_bytes - update.log_bytes_left;
    update.log_bytes_left -= bytes;
    update.stage = UpdateStage::Logging;
    let piece = &mut flow.queue.slot(slot)[..bytes as usize];
    log::fill(piece, place, stamp, context.data.areas[area].filler);
    let call = IoRequest::Write { offset: place, bytes: bytes as u32 };
    flow.submit(context, slot, call, SlotUse::Log { begin: Instant::now(), bytes })
}

/// Returns room for an UPDATE's record; waits for it if nothing else of its session is in flight.
fn log_room(
    context: &SessionContext,
    update: &mut Update,
    may_wait: bool,
    stop: &Stop,
) -> Result<Option<LogRoom>, SessionError> {
    let (log, dirty) = (&context.data.log, &context.shared.dirty);
    let mut room = update.log_room.or_else(|| log.room(update.log_bytes));
    if room.is_none() {
        dirty.wake();
    }
    if room.is_none() && may_wait {
        let begin = Instant::now();
        let is_over = || context.is_cut(stop) || dirty.failed().is_some();
        room = log.wait_for_room(update.log_bytes, &is_over);
        context.record(Event::LogWait, begin, Instant::now(), 0);
        if let (None, Some(why)) = (room, dirty.failed()) {
            return Err(writer_failed(why));
        }
    }
    update.log_room = room;
    Ok(room)
}

/// Records that a piece of the log was written.
pub fn logged(flow: &mut Flow) {
    if let Some(update) = flow.pending.front_mut().and_then(|head| head.update.as_mut()) {
        update.stage = UpdateStage::Logged;
    }
}

/// Records that the log was synced: the UPDATE is durable, unless a sync of this file ever failed.
/// The kernel reports a lost write to only one sync, which may be another session's.
pub fn synced(
    context: &SessionContext,
    flow: &mut Flow,
    result: std::io::Result<()>,
) -> Result<(), SessionError> {
    if let Err(error) = result {
        let failed = context.fatal("syncing the log", &error);
        context.shared.dirty.fail(&failed.message);
        return Err(failed);
    }
    if let Some(why) = context.shared.dirty.failed() {
        return Err(writer_failed(why));
    }
    // The UPDATE that logs is always at the head.
    if let Some(update) = flow.pending.front_mut().and_then(|head| head.update.as_mut()) {
        update.stage = UpdateStage::Durable;
    }
    Ok(())
}

/// Hands the blocks of a durable UPDATE to the background writer, and releases its keys.
pub fn end(
    context: &mut SessionContext,
    operation: &Operation,
    area: usize,
    update: Update,
    is_done: bool,
) {
    let position = update.log_room.map(|room| room.position);
    if is_done {
        let log = position.map(|position| (position, update.log_bytes));
        context.shared.dirty.put(update.staged.into_iter(), log.unwrap_or_default());
        context.commits += 1;
    } else {
        context.shared.dirty.give_back(u64::from(operation.rows));
    }
    // Only now: until here the UPDATE itself holds its record, from here on its blocks do.
    if let Some(position) = position {
        context.data.log.over(position);
    }
    context.data.areas[area].held.give_back(operation.first, operation.last());
}

/// Releases the keys and room of UPDATEs after an error, when nothing is in flight any more.
pub fn give_up(context: &mut SessionContext, flow: &mut Flow) {
    for pending in std::mem::take(&mut flow.pending) {
        if let Some(update) = pending.update {
            end(context, &pending.operation, pending.area, update, false);
        }
    }
}

fn writer_failed(why: String) -> SessionError {
    SessionError {
        code: "not-durable".into(),
        message: format!("committed blocks can no longer be made durable: {why}"),
    }
}
