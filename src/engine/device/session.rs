//! One session: its operations flow through a queue of IO_DEPTH blocks.
//!
//! Blocks of the next operation are asked for as soon as slots are free, also before the last one
//! ended; operations end in order. An operation's latency is from its first submit, or the first
//! thing that it had to wait for, to its last completion. One UPDATE at a time holds its keys,
//! reads, changes, writes its log record, waits for the log's sync, and hands its blocks to the
//! background writer. A scan begins when all before it ended, and nothing flows beside it.

use std::collections::VecDeque;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Instant;

use super::Shared;
use super::block::{self, Flaw, Identity};
use super::data::{Area, Cancelled, Data};
use super::flow::{Flow, Next, Pending, Use};
use super::log::PIECE_BYTES_MAX;
use super::queue::{Call, Completion, Queue};
use super::statistics::{Count, Event};
use super::target::{AlignedBuffer, Target};
use super::update::{Step, set_step};
use crate::engine::{Cancel, EngineError, Outcome, Outcomes, Session, SessionError, Stop};
use crate::settings::Verify;
use crate::stats::ledger::Recorder;
use crate::workload::op::{Kind, Operation};

/// The code of an operation that met a block that is not what was asked for.
pub const BAD_BLOCK: &str = "bad-block";
/// A session that met more of them ends.
const BAD_BLOCKS_MAX: u64 = 100;
/// A block that looked torn is read so many times more.
const REREADS_MAX: usize = 3;

pub struct DeviceSession {
    pub(super) shared: Arc<Shared>,
    pub(super) data: Arc<Data>,
    pub(super) target: Target,
    recorder: Arc<Recorder>,
    pub(super) cancelled: Arc<Cancelled>,
    flow: Option<Flow>,
    pub(super) scan: Option<AlignedBuffer>,
    pub(super) visited: u64,
    dirty_hits: u64,
    pub(super) commits: u64,
    bad_blocks: u64,
    last_flaw: String,
}

impl DeviceSession {
    pub fn connect(shared: &Arc<Shared>) -> Result<Self, EngineError> {
        let mut session = Self {
            shared: Arc::clone(shared),
            data: shared.data()?,
            target: shared.target()?,
            recorder: shared.statistics.recorder(),
            cancelled: Arc::default(),
            flow: None,
            scan: None,
            visited: 0,
            dirty_hits: 0,
            commits: 0,
            bad_blocks: 0,
            last_flaw: String::new(),
        };
        session.make_flow()?;
        Ok(session)
    }

    /// A queue for this thread, with a slot more for the log.
    fn make_flow(&mut self) -> Result<(), EngineError> {
        let depth = self.shared.io_depth as usize;
        let block_bytes = self.data.header.block_bytes as usize;
        let mut slots: Vec<_> = (0..depth).map(|_| AlignedBuffer::new(block_bytes)).collect();
        slots.push(AlignedBuffer::new(if self.shared.only_reads {
            block_bytes
        } else {
            PIECE_BYTES_MAX as usize
        }));
        let queue = Queue::new(&self.shared.means()?, &self.target.file, slots).map_err(|error| {
            EngineError::Environment(format!(
                "{}: no queue of {depth} requests for a session: {error}; lower IO_DEPTH or the \
                 number of sessions, raise the limits of locked memory and open files (ulimit -l, \
                 -n), or use ?io=pread",
                self.target.path.display()
            ))
        })?;
        self.flow = Some(Flow {
            thread: std::thread::current().id(),
            queue,
            uses: vec![None; depth + 1],
            free: (0..depth).rev().collect(),
            in_flight: 0,
            done: Vec::with_capacity(depth + 1),
            pending: VecDeque::new(),
            first: 0,
        });
        Ok(())
    }

    /// The batch begins with what is under way. `may_leave`: more is to come, so it ends as soon
    /// as a slot has nothing to do, with the rest in flight.
    fn run(
        &mut self,
        flow: &mut Flow,
        batch: &[Operation],
        may_leave: bool,
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        let mut next = flow.pending.len();
        flow.renumber();
        let mut now = Instant::now();
        loop {
            while let Some(&slot) = flow.free.last() {
                let step = self.next_read(flow, batch, &mut next, stop, done, &mut now)?;
                let Next::Read { operation, identity, mark } = step else { break };
                let bytes = self.data.header.block_bytes;
                let call = Call::Read { offset: identity.address, bytes };
                flow.free.pop();
                let used = Use::Read { operation, identity, mark, begin: Instant::now() };
                self.submit(flow, slot, call, used)?;
            }
            let is_begun = next >= batch.len();
            if may_leave && is_begun && flow.has_room() && !stop.is_due(now) {
                let submitted = flow.queue.submit();
                return submitted.map_err(|error| self.fatal("submitting requests", &error));
            }
            if flow.in_flight > 0 {
                now = self.reap(flow)?;
            }
            self.finish_heads(flow, stop, done, now)?;
            let is_over = next >= batch.len() || stop.is_due(now);
            if flow.pending.is_empty() && flow.in_flight == 0 && is_over {
                return Ok(());
            }
        }
    }

    pub(super) fn submit(
        &self,
        flow: &mut Flow,
        slot: usize,
        call: Call,
        used: Use,
    ) -> Result<(), SessionError> {
        flow.queue.push(slot, call).map_err(|error| self.fatal("submitting a request", &error))?;
        flow.uses[slot] = Some(used);
        flow.in_flight += 1;
        Ok(())
    }

    /// The next block to ask for; begins operations as needed. Blocks that are still to be written
    /// are visited on the way.
    fn next_read(
        &mut self,
        flow: &mut Flow,
        batch: &[Operation],
        next: &mut usize,
        stop: &Stop,
        done: &mut Outcomes,
        now: &mut Instant,
    ) -> Result<Next, SessionError> {
        loop {
            let is_single = self.shared.io_depth == 1;
            if flow.pending.front().is_some_and(|head| head.comes_first(is_single)) {
                return Ok(Next::Nothing);
            }
            let number = flow.first + flow.pending.len() as u64;
            if let Some(last) = flow.pending.back_mut().filter(|last| !last.is_asked()) {
                let area = &self.data.areas[last.area];
                let identity = area.identity(last.operation.first + u64::from(last.next_row));
                last.next_row += 1;
                self.visited += 1;
                if let Some(image) = self.shared.dirty.get(identity.address) {
                    self.dirty_hits += 1;
                    self.visit(last, &identity, &image);
                    continue;
                }
                last.in_flight += 1;
                let mark = area.version_mark(&identity);
                return Ok(Next::Read { operation: number - 1, identity, mark });
            }
            let Some(operation) = batch.get(*next) else { return Ok(Next::Nothing) };
            if stop.is_due(*now) {
                return Ok(Next::Nothing);
            }
            let begun = match operation.kind {
                Kind::Scan if flow.pending.is_empty() => {
                    *now = self.scan(operation, *next as u32, *now, stop, done)?;
                    *next += 1;
                    continue;
                }
                Kind::Scan => None,
                Kind::Select => Some(None),
                Kind::Update => self.begin_update(flow, operation, stop)?.map(Some),
            };
            let Some(update) = begun else { return Ok(Next::Nothing) };
            flow.pending.push_back(Pending {
                index: *next as u32,
                operation: *operation,
                area: self.area(operation.schema)?,
                begin: *now,
                next_row: if matches!(update, Some(Err(_))) { operation.rows } else { 0 },
                in_flight: 0,
                error: update.as_ref().and_then(|update| update.as_ref().err().copied()),
                update: update.and_then(Result::ok),
            });
            *next += 1;
        }
    }

    pub(super) fn area(&self, schema: u32) -> Result<usize, SessionError> {
        self.data.position(schema).ok_or_else(|| SessionError {
            code: "not-loaded".into(),
            message: format!("{}: schema {schema} is not loaded", self.target.path.display()),
        })
    }

    /// Waits for completions and takes them in. Returns when they were seen.
    fn reap(&mut self, flow: &mut Flow) -> Result<Instant, SessionError> {
        let mut done = std::mem::take(&mut flow.done);
        let waited = flow.queue.wait(&mut done);
        waited.map_err(|error| self.fatal("waiting for requests", &error))?;
        let now = Instant::now();
        let mut result = Ok(());
        for completion in done.drain(..) {
            flow.in_flight -= 1;
            let Some(used) = flow.uses[completion.slot].take() else { continue };
            let ended = self.took(flow, completion, used, now);
            result = result.and(ended);
        }
        flow.done = done;
        result.map(|()| now)
    }

    fn took(
        &mut self,
        flow: &mut Flow,
        completion: Completion,
        used: Use,
        now: Instant,
    ) -> Result<(), SessionError> {
        let Completion { slot, result } = completion;
        match used {
            Use::Read { operation, identity, mark, begin } => {
                flow.free.push(slot);
                let place = (operation - flow.first) as usize;
                if let Err(error) = result {
                    return Err(self.failed_read(&identity, &error));
                }
                let bytes = u64::from(self.data.header.block_bytes);
                self.record(Event::BlockRead, begin, now, bytes);
                let Some(pending) = flow.pending.get_mut(place) else { return Ok(()) };
                pending.in_flight -= 1;
                let block = flow.queue.slot(slot);
                let area = pending.area;
                match self.check(&self.data.areas[area], &identity, mark, block) {
                    Ok(()) => self.visit(pending, &identity, block),
                    Err(flaw) => match self.read_again(area, &identity, flaw)? {
                        Ok(whole) => self.visit(pending, &identity, &whole),
                        Err(flaw) => {
                            pending.error = Some(BAD_BLOCK);
                            self.bad_block(&identity, flaw)?;
                        }
                    },
                }
            }
            Use::Log { begin, bytes } => {
                result.map_err(|error| self.fatal("writing the log", &error))?;
                self.record(Event::LogWrite, begin, now, bytes);
                set_step(flow, Step::Logged);
            }
            Use::Sync { begin } => {
                result.map_err(|error| self.fatal("syncing the log", &error))?;
                self.record(Event::LogSync, begin, now, 0);
                set_step(flow, Step::Durable);
            }
        }
        Ok(())
    }

    fn check(&self, area: &Area, identity: &Identity, mark: u8, block: &[u8]) -> Result<(), Flaw> {
        let verify = self.shared.verify;
        let version = block::check(block, identity, verify)?;
        if verify == Verify::None || area.saw(identity, version, mark) {
            Ok(())
        } else {
            Err(Flaw::OldVersion { found: version })
        }
    }

    /// A read may have met a write of another session's: what a second look finds is true.
    fn read_again(
        &mut self,
        area: usize,
        identity: &Identity,
        mut flaw: Flaw,
    ) -> Result<Result<Box<[u8]>, Flaw>, SessionError> {
        let mut buffer = AlignedBuffer::new(self.data.header.block_bytes as usize);
        for _ in 0..REREADS_MAX {
            self.shared.statistics.count(Count::Rereads, 1);
            if let Some(image) = self.shared.dirty.get(identity.address) {
                return Ok(Ok((**image).into()));
            }
            let area = &self.data.areas[area];
            let mark = area.version_mark(identity);
            let begin = Instant::now();
            self.target
                .file
                .read_exact_at(buffer.bytes_mut(), identity.address)
                .map_err(|error| self.failed_read(identity, &error))?;
            self.record(Event::BlockRead, begin, Instant::now(), buffer.len() as u64);
            match self.check(area, identity, mark, buffer.bytes()) {
                Ok(()) => return Ok(Ok(buffer.bytes().into())),
                Err(again) => flaw = again,
            }
        }
        Ok(Err(flaw))
    }

    /// Counts it; too many end the session.
    pub(super) fn bad_block(
        &mut self,
        identity: &Identity,
        flaw: Flaw,
    ) -> Result<(), SessionError> {
        self.last_flaw = format!(
            "{}: the block at byte {} (schema {}, key {}) is not what was written there: {flaw}",
            self.target.path.display(),
            identity.address,
            identity.schema,
            identity.key,
        );
        self.shared.bad_block(&self.last_flaw);
        self.bad_blocks += 1;
        if self.bad_blocks <= BAD_BLOCKS_MAX {
            return Ok(());
        }
        Err(SessionError {
            code: BAD_BLOCK.into(),
            message: format!(
                "{}; it is bad block number {} in this session; check the device, then load again (petal \
                 setup --replace)",
                self.last_flaw, self.bad_blocks
            ),
        })
    }

    /// Ends what is complete, in order, and takes the UPDATE at the head a step further.
    fn finish_heads(
        &mut self,
        flow: &mut Flow,
        stop: &Stop,
        done: &mut Outcomes,
        mut now: Instant,
    ) -> Result<(), SessionError> {
        while let Some(head) = flow.pending.front_mut().filter(|head| head.is_read()) {
            if !head.is_complete() {
                return self.step_update(flow);
            }
            let Some(head) = flow.pending.pop_front() else { return Ok(()) };
            flow.first += 1;
            if now <= head.begin {
                now = Instant::now(); // Nothing of it was read from the target.
            }
            let Pending { index, operation, area, begin, error, update, .. } = head;
            if let Some(update) = update {
                self.end_update(&operation, area, update, error.is_none());
            }
            done.ended.push(Outcome {
                operation: index,
                latency_ns: (now - begin).as_nanos() as u64,
                end_ns: stop.since_trigger_ns(now),
                rows: if error.is_none() { u64::from(operation.rows) } else { 0 },
                error: error.map(Into::into),
            });
        }
        Ok(())
    }

    pub(super) fn record(&self, event: Event, begin: Instant, end: Instant, bytes: u64) {
        self.recorder.record(event as usize, (end - begin).as_nanos() as u64, bytes);
    }

    pub(super) fn failed_read(&self, identity: &Identity, error: &std::io::Error) -> SessionError {
        let what = format!(
            "reading at byte {} (schema {}, key {})",
            identity.address, identity.schema, identity.key
        );
        self.fatal(&what, error)
    }

    pub(super) fn fatal(&self, what: &str, error: &std::io::Error) -> SessionError {
        SessionError {
            code: error.raw_os_error().map_or_else(
                || "device-error".to_owned(),
                |number| format!("{:?}", rustix::io::Errno::from_raw_os_error(number)),
            ),
            message: format!(
                "{}: {what} failed: {error}; look into the system's log for the device",
                self.target.path.display()
            ),
        }
    }

    pub(super) fn writer_failed(&self, why: String) -> SessionError {
        SessionError {
            code: "background-write".into(),
            message: format!("the background writer failed: {why}"),
        }
    }

    fn work(
        &mut self,
        batch: &[Operation],
        may_leave: bool,
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        self.cancelled.set(false);
        if !self.shared.only_reads {
            let started = self.shared.dirty.start(&self.shared, &self.data);
            started.map_err(|error| self.fatal("starting the background writer", &error))?;
        }
        let is_here =
            self.flow.as_ref().is_some_and(|flow| flow.thread == std::thread::current().id());
        if !is_here {
            self.let_go();
            self.make_flow().map_err(|error| SessionError {
                code: "no-queue".into(),
                message: error.to_string(),
            })?;
        }
        let Some(mut flow) = self.flow.take() else { return Ok(()) };
        let result = self.run(&mut flow, batch, may_leave, stop, done);
        if result.is_err() {
            self.give_up(&mut flow);
        } else {
            self.flow = Some(flow);
        }
        result
    }

    /// Another thread takes over, or the session ends.
    fn let_go(&mut self) {
        if let Some(mut flow) = self.flow.take() {
            self.give_up(&mut flow);
        }
    }

    fn flush(&mut self) {
        for (count, more) in [
            (Count::Visited, &mut self.visited),
            (Count::DirtyHits, &mut self.dirty_hits),
            (Count::Commits, &mut self.commits),
        ] {
            self.shared.statistics.count(count, std::mem::take(more));
        }
        self.recorder.fold();
    }
}

impl Session for DeviceSession {
    fn execute(
        &mut self,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        self.work(batch, false, stop, done)
    }

    fn execute_on(
        &mut self,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        self.work(batch, true, stop, done)
    }

    fn under_way(&self) -> usize {
        self.flow.as_ref().map_or(0, |flow| flow.pending.len())
    }

    fn flush_statistics(&mut self) -> Result<(), EngineError> {
        self.flush();
        Ok(())
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(Canceller(Arc::clone(&self.cancelled)))
    }
}

impl Drop for DeviceSession {
    fn drop(&mut self) {
        self.let_go();
        self.flush();
    }
}

struct Canceller(Arc<Cancelled>);

impl Cancel for Canceller {
    fn cancel(&self) {
        self.0.set(true);
    }
}
