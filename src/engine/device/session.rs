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
use std::thread::ThreadId;
use std::time::Instant;

use super::Shared;
use super::block::{self, Flaw, Identity};
use super::data::{Area, Cancelled, Data};
use super::dirty::NoRoom;
use super::log::{self, PIECE_BYTES_MAX};
use super::queue::{Call, Completion, Queue};
use super::statistics::{Count, Event};
use super::target::{AlignedBuffer, Target};
use crate::engine::{CUT, Cancel, EngineError, Outcome, Outcomes, Session, SessionError, Stop};
use crate::settings::Verify;
use crate::stats::ledger::Recorder;
use crate::workload::op::{Kind, Operation};

/// The code of an operation that met a block that is not what was asked for.
pub const BAD_BLOCK: &str = "bad-block";
/// A session that met more of them ends.
const BAD_BLOCKS_MAX: u64 = 100;
/// A block that looked torn is read so many times more.
const REREADS_MAX: usize = 3;
/// Bytes of a scan's requests.
pub const SCAN_BYTES: usize = 1 << 20;

pub struct DeviceSession {
    shared: Arc<Shared>,
    data: Arc<Data>,
    target: Target,
    recorder: Arc<Recorder>,
    cancelled: Arc<Cancelled>,
    flow: Option<Flow>,
    scan: Option<AlignedBuffer>,
    visited: u64,
    dirty_hits: u64,
    commits: u64,
    bad_blocks: u64,
    last_flaw: String,
}

/// What is under way. The ring belongs to the thread that made it.
struct Flow {
    thread: ThreadId,
    queue: Queue,
    uses: Vec<Option<Use>>,
    free: Vec<usize>,
    in_flight: usize,
    done: Vec<Completion>,
    pending: VecDeque<Pending>,
    /// The number of the first pending operation, counted over all batches.
    first: u64,
}

/// What a slot's request is for.
#[derive(Clone, Copy)]
enum Use {
    Read { operation: u64, identity: Identity, mark: u8, begin: Instant },
    Log { begin: Instant, bytes: u64 },
    Sync { begin: Instant },
}

/// An operation that has begun.
struct Pending {
    index: u32,
    operation: Operation,
    area: usize,
    begin: Instant,
    next_row: u32,
    in_flight: u32,
    error: Option<&'static str>,
    update: Option<Update>,
}

/// What an UPDATE holds until its end.
struct Update {
    staged: Vec<(u64, Box<[u8]>)>,
    step: Step,
    log_bytes_left: u64,
    log_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Reading,
    Logging,
    Logged,
    Syncing,
    Durable,
}

impl Pending {
    fn is_read(&self) -> bool {
        self.next_row == self.operation.rows && self.in_flight == 0
    }

    /// Whether it goes on before anything else is asked for: at depth 1 nothing flows beside it.
    fn comes_first(&self, is_single: bool) -> bool {
        let waits = |update: &Update| !matches!(update.step, Step::Reading | Step::Logged);
        self.is_read()
            && (is_single || self.is_complete() || !self.update.as_ref().is_some_and(waits))
    }

    fn is_complete(&self) -> bool {
        self.is_read()
            && (self.error.is_some()
                || self.update.as_ref().is_none_or(|update| update.step == Step::Durable))
    }
}

/// What comes next for a free slot.
enum Next {
    Read { operation: u64, identity: Identity, mark: u8 },
    Nothing,
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

    fn run(
        &mut self,
        flow: &mut Flow,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        let mut next = 0;
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

    fn submit(
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

    fn area(&self, schema: u32) -> Result<usize, SessionError> {
        self.data.position(schema).ok_or_else(|| SessionError {
            code: "not-loaded".into(),
            message: format!("{}: schema {schema} is not loaded", self.target.path.display()),
        })
    }

    /// Takes keys and room for an UPDATE. None: not now, but when what is in flight has ended.
    fn begin_update(
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
    fn visit(&self, pending: &mut Pending, identity: &Identity, block: &[u8]) {
        if let Some(update) = &mut pending.update {
            let mut image: Box<[u8]> = block.into();
            let area = &self.data.areas[pending.area];
            let (redo, stamp) = (self.shared.redo_stress, pending.operation.stamp);
            block::update(&mut image, redo, area.filler, stamp);
            update.staged.push((identity.address, image));
        }
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
    fn bad_block(&mut self, identity: &Identity, flaw: Flaw) -> Result<(), SessionError> {
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
                "{}; it is the {}th in this session; check the device, then load again (petal \
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

    /// Log first: piece after piece of the record, then its sync.
    fn step_update(&mut self, flow: &mut Flow) -> Result<(), SessionError> {
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
    fn end_update(&mut self, operation: &Operation, area: usize, update: Update, is_done: bool) {
        let rows = u64::from(operation.rows);
        if is_done {
            self.shared.dirty.put(update.staged.into_iter(), update.log_bytes);
            self.commits += 1;
        } else {
            self.shared.dirty.give_back(rows);
        }
        self.data.areas[area].held.give_back(operation.first, operation.last());
    }

    /// One scan, in order and in large requests. Returns when it ended.
    fn scan(
        &mut self,
        operation: &Operation,
        index: u32,
        begin: Instant,
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<Instant, SessionError> {
        let position = self.area(operation.schema)?;
        let data = Arc::clone(&self.data);
        let area = &data.areas[position];
        let block_bytes = data.header.block_bytes as usize;
        let mut buffer = self.scan.take().unwrap_or_else(|| AlignedBuffer::new(SCAN_BYTES));
        let (mut rows, mut error) = (0, None);
        while rows < area.about.scan_rows && error.is_none() {
            if self.cancelled.is_set() || stop.is_cutting() {
                error = Some(CUT);
                break;
            }
            let blocks = (area.about.scan_rows - rows).min((SCAN_BYTES / block_bytes) as u64);
            let part = &mut buffer.bytes_mut()[..blocks as usize * block_bytes];
            let asked = Instant::now();
            let first = area.scan_identity(rows);
            let read = self.target.file.read_exact_at(part, first.address);
            read.map_err(|error| self.failed_read(&first, &error))?;
            self.record(Event::ScanRead, asked, Instant::now(), part.len() as u64);
            self.visited += blocks;
            for (block, number) in part.chunks_exact(block_bytes).zip(rows..) {
                let identity = area.scan_identity(number);
                if let Err(flaw) = block::check(block, &identity, self.shared.verify) {
                    error = Some(BAD_BLOCK);
                    self.bad_block(&identity, flaw)?;
                }
            }
            rows += blocks;
        }
        self.scan = Some(buffer);
        let end = Instant::now();
        done.ended.push(Outcome {
            operation: index,
            latency_ns: (end - begin).as_nanos() as u64,
            end_ns: stop.since_trigger_ns(end),
            rows: if error.is_none() { rows } else { 0 },
            error: error.map(Into::into),
        });
        Ok(end)
    }

    /// After an error: waits for what is in flight and lets go of what UPDATEs hold.
    fn give_up(&mut self, flow: &mut Flow) {
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

    fn record(&self, event: Event, begin: Instant, end: Instant, bytes: u64) {
        self.recorder.record(event as usize, (end - begin).as_nanos() as u64, bytes);
    }

    fn failed_read(&self, identity: &Identity, error: &std::io::Error) -> SessionError {
        let what = format!(
            "reading at byte {} (schema {}, key {})",
            identity.address, identity.schema, identity.key
        );
        self.fatal(&what, error)
    }

    fn fatal(&self, what: &str, error: &std::io::Error) -> SessionError {
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

    fn writer_failed(&self, why: String) -> SessionError {
        SessionError {
            code: "background-write".into(),
            message: format!("the background writer failed: {why}"),
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

impl Pending {
    fn is_asked(&self) -> bool {
        self.next_row == self.operation.rows
    }
}

/// The UPDATE that logs is always at the head.
fn set_step(flow: &mut Flow, step: Step) {
    if let Some(update) = flow.pending.front_mut().and_then(|head| head.update.as_mut()) {
        update.step = step;
    }
}

impl Session for DeviceSession {
    fn execute(
        &mut self,
        batch: &[Operation],
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
            self.flow = None;
            self.make_flow().map_err(|error| SessionError {
                code: "no-queue".into(),
                message: error.to_string(),
            })?;
        }
        let Some(mut flow) = self.flow.take() else { return Ok(()) };
        let result = self.run(&mut flow, batch, stop, done);
        if result.is_err() {
            self.give_up(&mut flow);
        } else {
            self.flow = Some(flow);
        }
        result
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
        self.flush();
    }
}

struct Canceller(Arc<Cancelled>);

impl Cancel for Canceller {
    fn cancel(&self) {
        self.0.set(true);
    }
}
