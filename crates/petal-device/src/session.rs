//! Session of the device engine: its operations go through a queue of IO_DEPTH blocks.
//!
//! Blocks of the next operation are requested as soon as slots are free, even before the last
//! operation ended; operations end in order. An operation's latency is from its first submit, or
//! its first wait, to its last completion. One UPDATE at a time holds its keys, reads, changes,
//! writes its log record, waits for the log's sync, and hands its blocks to the background writer.
//! A scan begins when all earlier operations ended, and runs alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::Shared;
use super::context::{BAD_BLOCK, SessionContext};
use super::flow::{Flow, Pending, SlotUse};
use super::request::{Completion, IoRequest};
use super::scan::scan;
use super::statistics::Event;
use super::target::AlignedBuffer;
use super::update::{self, BeginOutcome};
use petal_engine::{Batch, CUT, Cancel, Outcome, Outcomes, Result, Session, SessionError, Stop};
use petal_workload::op::{Kind, Operation};

pub struct DeviceSession {
    context: SessionContext,
    /// Operations in flight; `None` after an error, and until the working thread is known.
    flow: Option<Flow>,
    scan_buffer: Option<AlignedBuffer>,
}

impl DeviceSession {
    pub fn connect(shared: &Arc<Shared>) -> Result<Self> {
        let context = SessionContext::new(shared)?;
        let flow = Some(Flow::new(&context)?);
        Ok(Self { context, flow, scan_buffer: None })
    }

    /// Runs a batch, which begins with the pending operations. If another batch follows, it ends as
    /// soon as a slot would be idle.
    fn run(&mut self, flow: &mut Flow, batch: Batch<'_>) -> Result<(), SessionError> {
        let Batch { operations: batch, stop, done, is_followed: may_leave } = batch;
        let mut next = flow.pending.len();
        flow.renumber();
        let mut now = Instant::now();
        loop {
            while let Some(&slot) = flow.free.last() {
                let used = self.next_read(flow, batch, &mut next, stop, done, &mut now)?;
                let Some(used @ SlotUse::Read { identity, .. }) = used else { break };
                let bytes = self.context.data.header.block_bytes;
                let call = IoRequest::Read { offset: identity.address, bytes };
                flow.free.pop();
                flow.submit(&self.context, slot, call, used)?;
            }
            let is_begun = next >= batch.len();
            if may_leave && is_begun && flow.has_room() && !stop.is_due(now) {
                let submitted = flow.queue.submit();
                return submitted
                    .map_err(|error| self.context.fatal("submitting requests", &error));
            }
            if flow.in_flight > 0 {
                now = self.reap(flow)?;
            }
            self.finish_heads(flow, stop, done, &mut now)?;
            let is_over = next >= batch.len() || stop.is_due(now);
            if flow.pending.is_empty() && flow.in_flight == 0 && is_over {
                return Ok(());
            }
        }
    }

    /// Returns the next block to request; begins operations as needed. Visits blocks that are in
    /// the dirty set.
    fn next_read(
        &mut self,
        flow: &mut Flow,
        batch: &[Operation],
        next: &mut usize,
        stop: &Stop,
        done: &mut Outcomes,
        now: &mut Instant,
    ) -> Result<Option<SlotUse>, SessionError> {
        loop {
            let is_single = self.context.shared.io_depth == 1;
            if flow.pending.front().is_some_and(|head| head.comes_first(is_single)) {
                return Ok(None);
            }
            let number = flow.first + flow.pending.len() as u64;
            if let Some(last) = flow.pending.back_mut().filter(|last| !last.is_asked()) {
                if self.context.is_cut(stop) {
                    last.cut();
                    continue;
                }
                let area = &self.context.data.areas[last.area];
                let identity = area.identity(last.operation.first + u64::from(last.next_row));
                last.next_row += 1;
                self.context.visited += 1;
                if let Some(image) = self.context.shared.dirty.get(identity.address) {
                    self.context.dirty_hits += 1;
                    update::visit(&self.context, last, &identity, &image);
                    continue;
                }
                last.in_flight += 1;
                let mark = area.version_mark(&identity);
                let begin = Instant::now();
                return Ok(Some(SlotUse::Read { operation: number - 1, identity, mark, begin }));
            }
            let Some(operation) = batch.get(*next).filter(|_| !stop.is_due(*now)) else {
                return Ok(None);
            };
            let begin = *now;
            let (update, error) = match operation.kind {
                Kind::Scan if flow.pending.is_empty() => {
                    let (context, buffer) = (&mut self.context, &mut self.scan_buffer);
                    *now = scan(context, buffer, operation, *next as u32, *now, stop, done)?;
                    *next += 1;
                    continue;
                }
                Kind::Scan => return Ok(None),
                Kind::Select => (None, None),
                Kind::Update => {
                    let begun = update::begin(&self.context, flow, operation, stop)?;
                    *now = Instant::now(); // It may have waited for a row's lock or the writer.
                    match begun {
                        BeginOutcome::NotNow => return Ok(None),
                        BeginOutcome::Update(update) => (Some(update), None),
                        BeginOutcome::Cut => (None, Some(CUT)),
                    }
                }
            };
            flow.pending.push_back(Pending {
                index: *next as u32,
                operation: *operation,
                area: self.context.area(operation.schema)?,
                begin,
                next_row: if error.is_some() { operation.rows } else { 0 },
                in_flight: 0,
                error,
                update,
            });
            *next += 1;
        }
    }

    /// Waits for completions and takes them in; returns the time at which it saw them.
    fn reap(&mut self, flow: &mut Flow) -> Result<Instant, SessionError> {
        let mut done = std::mem::take(&mut flow.done);
        let waited = flow.queue.wait(&mut done);
        waited.map_err(|error| self.context.fatal("waiting for requests", &error))?;
        let now = Instant::now();
        let mut result = Ok(());
        for completion in done.drain(..) {
            flow.in_flight -= 1;
            let Some(used) = flow.uses[completion.slot].take() else { continue };
            let ended = self.complete_request(flow, completion, used, now);
            result = result.and(ended);
        }
        flow.done = done;
        result.map(|()| now)
    }

    fn complete_request(
        &mut self,
        flow: &mut Flow,
        completion: Completion,
        used: SlotUse,
        now: Instant,
    ) -> Result<(), SessionError> {
        let Completion { slot, result } = completion;
        match used {
            SlotUse::Read { operation, identity, mark, begin } => {
                flow.free.push(slot);
                let place = (operation - flow.first) as usize;
                if let Err(error) = result {
                    return Err(self.context.failed_read(&identity, &error));
                }
                let bytes = u64::from(self.context.data.header.block_bytes);
                self.context.record(Event::BlockRead, begin, now, bytes);
                let Some(pending) = flow.pending.get_mut(place) else { return Ok(()) };
                pending.in_flight -= 1;
                let block = flow.queue.slot(slot);
                let area = pending.area;
                match self.context.check(&self.context.data.areas[area], &identity, mark, block) {
                    Ok(()) => update::visit(&self.context, pending, &identity, block),
                    Err(flaw) => match self.context.read_again(area, &identity, flaw)? {
                        Ok(whole) => update::visit(&self.context, pending, &identity, &whole),
                        Err(flaw) => {
                            pending.error = Some(BAD_BLOCK);
                            self.context.bad_block(&identity, flaw)?;
                        }
                    },
                }
            }
            SlotUse::Log { begin, bytes } => {
                result.map_err(|error| self.context.fatal("writing the log", &error))?;
                self.context.record(Event::LogWrite, begin, now, bytes);
                update::logged(flow);
            }
            SlotUse::Sync { begin } => {
                update::synced(&self.context, flow, result)?;
                self.context.record(Event::LogSync, begin, now, 0);
            }
        }
        Ok(())
    }

    /// Ends complete operations, in order, and advances the UPDATE at the head by a step.
    fn finish_heads(
        &mut self,
        flow: &mut Flow,
        stop: &Stop,
        done: &mut Outcomes,
        now: &mut Instant,
    ) -> Result<(), SessionError> {
        while let Some(head) = flow.pending.front_mut().filter(|head| head.is_read()) {
            if !head.is_complete() {
                let stepped = update::step(&self.context, flow, stop);
                *now = Instant::now(); // It may have waited for the log.
                return stepped;
            }
            let Some(head) = flow.pending.pop_front() else { return Ok(()) };
            flow.first += 1;
            if *now <= head.begin {
                *now = Instant::now(); // Nothing of it was read from the target.
            }
            let Pending { index, operation, area, begin, error, update, .. } = head;
            if let Some(update) = update {
                update::end(&mut self.context, &operation, area, update, error.is_none());
            }
            let rows = if error.is_none() { u64::from(operation.rows) } else { 0 };
            let error = error.map(Into::into);
            done.ended.push(Outcome::timed(index, (begin, *now), stop, rows, error));
        }
        Ok(())
    }

    /// Releases all that the session holds: after an error, if another thread takes over, or at its
    /// end.
    fn let_go(&mut self) {
        if let Some(mut flow) = self.flow.take() {
            flow.drain();
            update::give_up(&mut self.context, &mut flow);
        }
    }
}

impl Session for DeviceSession {
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        self.context.is_cancelled.store(false, Ordering::Relaxed);
        if !self.context.shared.only_reads {
            let started = self.context.shared.dirty.start(&self.context.shared, &self.context.data);
            started
                .map_err(|error| self.context.fatal("starting the background writer", &error))?;
        }
        let here = std::thread::current().id();
        if self.flow.as_ref().is_none_or(|flow| flow.thread != here) {
            self.let_go();
            let made = Flow::new(&self.context).map_err(|error| SessionError {
                code: "no-queue".into(),
                message: error.to_string(),
            });
            self.flow = Some(made?);
        }
        let Some(mut flow) = self.flow.take() else { return Ok(()) };
        let result = self.run(&mut flow, batch);
        self.flow = Some(flow);
        if result.is_err() {
            self.let_go();
        }
        result
    }

    fn in_flight(&self) -> usize {
        self.flow.as_ref().map_or(0, |flow| flow.pending.len())
    }

    fn flush_statistics(&mut self) -> Result<(), SessionError> {
        self.context.flush();
        Ok(())
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(Canceller(Arc::clone(&self.context.is_cancelled)))
    }
}

impl Drop for DeviceSession {
    fn drop(&mut self) {
        self.let_go();
        self.context.flush();
    }
}

struct Canceller(Arc<AtomicBool>);

impl Cancel for Canceller {
    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
