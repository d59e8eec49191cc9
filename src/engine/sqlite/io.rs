//! What the VFS shim saw, on the safe side: the kinds of events, one recorder per connection, and
//! the statistics of the engine that they are folded into.
//!
//! A call of the shim costs a recorder two stores into its own ring: no lock, no histogram. The
//! ring is folded when it is full, when its session flushes, when a snapshot is taken and when
//! its connection closes. Nothing here knows SQLite's types.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::stats::counters::{Counters, FileCounts, IoCounts, Wait, WaitClass, WaitSource};
use crate::stats::histogram::Latencies;

/// Whose connection does the I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Session,
    Checkpoint,
    Loader,
}

/// What kind of file an I/O goes to, by the flags SQLite opened it with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Main,
    Wal,
    /// Rollback journals, temporary databases, sorter runs.
    Temp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Read,
    Write,
    Sync,
}

macro_rules! events {
    ($($event:ident $name:literal $class:ident),+ $(,)?) => {
        /// What can be waited for, by the names that reports show.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Event { $($event),+ }

        impl Event {
            const ALL: &'static [Event] = &[$(Event::$event),+];

            pub fn name(self) -> &'static str {
                match self { $(Event::$event => $name),+ }
            }

            fn class(self) -> WaitClass {
                match self { $(Event::$event => WaitClass::$class),+ }
            }
        }
    };
}

events! {
    MainRead "main read" UserIo,
    MainWrite "main write" UserIo,
    MainSync "main sync" UserIo,
    WalRead "wal read" UserIo,
    WalWrite "wal write" Commit,
    WalSync "wal sync" Commit,
    CheckpointRead "checkpoint read" SystemIo,
    CheckpointWrite "checkpoint write" SystemIo,
    CheckpointSync "checkpoint sync" SystemIo,
    CheckpointWait "checkpoint wait" SystemIo,
    TempRead "temp read" UserIo,
    TempWrite "temp write" UserIo,
    TempSync "temp sync" UserIo,
    WriterLock "writer lock" Concurrency,
}

const EVENTS: usize = Event::WriterLock as usize + 1;

impl Event {
    /// The event of a call, by whose connection makes it and on which kind of file.
    pub fn of(role: Role, kind: FileKind, call: Call) -> Self {
        match (role, kind, call) {
            (_, FileKind::Temp, Call::Read) => Self::TempRead,
            (_, FileKind::Temp, Call::Write) => Self::TempWrite,
            (_, FileKind::Temp, Call::Sync) => Self::TempSync,
            (Role::Checkpoint, _, Call::Read) => Self::CheckpointRead,
            (Role::Checkpoint, _, Call::Write) => Self::CheckpointWrite,
            (Role::Checkpoint, _, Call::Sync) => Self::CheckpointSync,
            (_, FileKind::Main, Call::Read) => Self::MainRead,
            (_, FileKind::Main, Call::Write) => Self::MainWrite,
            (_, FileKind::Main, Call::Sync) => Self::MainSync,
            (_, FileKind::Wal, Call::Read) => Self::WalRead,
            (_, FileKind::Wal, Call::Write) => Self::WalWrite,
            (_, FileKind::Wal, Call::Sync) => Self::WalSync,
        }
    }
}

/// SQLite reads and writes database files a page at a time. Smaller calls (the header, 100 bytes;
/// its change counter, 16) carry no page.
const PAGE_BYTES_MIN: u64 = 512;

/// What was counted of one event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub calls: u64,
    pub time_ns: u64,
    pub bytes: u64,
    /// Calls that carried a whole page.
    pub pages: u64,
}

impl Totals {
    fn add(&mut self, latency_ns: u64, bytes: u64) {
        self.calls += 1;
        self.time_ns += latency_ns;
        self.bytes += bytes;
        self.pages += u64::from(bytes >= PAGE_BYTES_MIN);
    }

    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.time_ns += other.time_ns;
        self.bytes += other.bytes;
        self.pages += other.pages;
    }
}

/// Totals and histograms of many recorders. A histogram exists once its event happened.
#[derive(Default)]
struct Shard {
    totals: [Totals; EVENTS],
    latencies: [Option<Box<Latencies>>; EVENTS],
}

/// Cumulative figures that are no timed events, by the names under which the record keeps them.
/// Those in capitals are SQLite's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    CacheHit,
    CacheMiss,
    CacheWrite,
    CacheSpill,
    Commits,
    Checkpoints,
    CheckpointErrors,
    WalResets,
    WalResetFailures,
    DirectFallbacks,
}

const COUNTS: [(Count, &str); 10] = [
    (Count::CacheHit, "CACHE_HIT"),
    (Count::CacheMiss, "CACHE_MISS"),
    (Count::CacheWrite, "CACHE_WRITE"),
    (Count::CacheSpill, "CACHE_SPILL"),
    (Count::Commits, "commits"),
    (Count::Checkpoints, "checkpoints"),
    (Count::CheckpointErrors, "checkpoint_errors"),
    (Count::WalResets, "wal_resets"),
    (Count::WalResetFailures, "wal_reset_failures"),
    (Count::DirectFallbacks, "direct_fallbacks"),
];

/// Few shards suffice: one is locked once per ring, not per call.
const SHARDS: usize = 4;

/// All that an engine counted since it was opened.
pub struct Statistics {
    shards: [Mutex<Shard>; SHARDS],
    counts: [AtomicU64; COUNTS.len()],
    wal_bytes_max: AtomicU64,
    /// For the next recorder's shard.
    recorders_made: AtomicU64,
    /// Those whose rings a snapshot must fold first.
    recorders: Mutex<Vec<Weak<Recorder>>>,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            shards: Default::default(),
            counts: Default::default(),
            wal_bytes_max: AtomicU64::new(0),
            recorders_made: AtomicU64::new(0),
            recorders: Mutex::default(),
        }
    }
}

impl Statistics {
    /// A recorder for one more connection.
    pub fn recorder(self: &Arc<Self>, role: Role) -> Arc<Recorder> {
        let made = self.recorders_made.fetch_add(1, Ordering::Relaxed);
        let recorder = Arc::new(Recorder {
            role,
            shard: made as usize % SHARDS,
            statistics: Arc::clone(self),
            ring: Ring::default(),
            folding: Mutex::default(),
            wal_end_bytes: AtomicU64::new(0),
        });
        let mut recorders = locked(&self.recorders);
        recorders.retain(|other| other.strong_count() > 0);
        recorders.push(Arc::downgrade(&recorder));
        recorder
    }

    pub fn count(&self, count: Count, more: u64) {
        self.counts[count as usize].fetch_add(more, Ordering::Relaxed);
    }

    pub fn counted(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    /// The largest WAL is a peak, not a sum: it starts anew with every run's settling.
    pub fn reset_peaks(&self) {
        self.wal_bytes_max.store(0, Ordering::Relaxed);
    }

    fn saw_wal_end(&self, bytes: u64) {
        if bytes > self.wal_bytes_max.load(Ordering::Relaxed) {
            self.wal_bytes_max.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// Counters of all work so far; with single waits if asked.
    pub fn collect(&self, endpoint: &str, with_latencies: bool) -> Counters {
        let live: Vec<_> = locked(&self.recorders).iter().filter_map(Weak::upgrade).collect();
        live.iter().for_each(|recorder| recorder.fold());
        drop(live);
        let mut totals = [Totals::default(); EVENTS];
        let mut latencies: [Option<Latencies>; EVENTS] = Default::default();
        for shard in &self.shards {
            let shard = locked(shard);
            for (sum, part) in totals.iter_mut().zip(&shard.totals) {
                sum.merge(part);
            }
            if with_latencies {
                for (sum, part) in latencies.iter_mut().zip(&shard.latencies) {
                    match (sum, part) {
                        (Some(sum), Some(part)) => sum.add(part),
                        (sum, Some(part)) => *sum = Some(part.as_ref().clone()),
                        (_, None) => {}
                    }
                }
            }
        }
        Counters {
            endpoint: endpoint.to_owned(),
            io: self.io_counts(&totals),
            waits: waits(&totals, latencies),
            files: files(&totals),
            raw: self.raw(&totals),
        }
    }

    fn io_counts(&self, totals: &[Totals; EVENTS]) -> IoCounts {
        let of = |event: Event| totals[event as usize];
        let (main, checkpoint) = (of(Event::MainWrite), of(Event::CheckpointWrite));
        IoCounts {
            logical_reads: Some(self.counted(Count::CacheHit) + self.counted(Count::CacheMiss)),
            physical_read_blocks: Some(of(Event::MainRead).pages),
            physical_read_requests: Some(of(Event::MainRead).calls),
            physical_read_bytes: Some(of(Event::MainRead).bytes),
            physical_write_blocks: Some(main.pages + checkpoint.pages),
            physical_write_requests: Some(main.calls + checkpoint.calls),
            physical_write_bytes: Some(main.bytes + checkpoint.bytes),
            log_read_blocks: Some(of(Event::WalRead).pages),
            redo_bytes: Some(of(Event::WalWrite).bytes),
            commits: Some(self.counted(Count::Commits)),
            log_syncs: Some(of(Event::WalSync).calls),
        }
    }

    fn raw(&self, totals: &[Totals; EVENTS]) -> BTreeMap<String, u64> {
        let mut raw: BTreeMap<String, u64> =
            COUNTS.iter().map(|&(count, name)| (name.to_owned(), self.counted(count))).collect();
        raw.insert("wal_bytes_max".to_owned(), self.wal_bytes_max.load(Ordering::Relaxed));
        for (event, prefix) in [
            (Event::WalRead, "wal_read"),
            (Event::WalWrite, "wal_write"),
            (Event::CheckpointRead, "checkpoint_read"),
            (Event::TempRead, "temp_read"),
            (Event::TempWrite, "temp_write"),
        ] {
            let total = totals[event as usize];
            raw.insert(format!("{prefix}_requests"), total.calls);
            raw.insert(format!("{prefix}_bytes"), total.bytes);
        }
        raw
    }
}

/// I/O by kind of file: what sessions, checkpoints and loaders did to it together. A checkpoint
/// reads the WAL and writes the main file; its syncs of both stand with the main file.
fn files(totals: &[Totals; EVENTS]) -> Vec<FileCounts> {
    let sum = |events: &[Event]| {
        let mut sum = Totals::default();
        events.iter().for_each(|&event| sum.merge(&totals[event as usize]));
        sum
    };
    let file = |kind, reads: &[Event], writes: &[Event], syncs: &[Event]| {
        let (read, write, sync) = (sum(reads), sum(writes), sum(syncs));
        FileCounts {
            kind,
            read_requests: read.calls,
            read_bytes: read.bytes,
            read_ns: read.time_ns,
            write_requests: write.calls,
            write_bytes: write.bytes,
            write_ns: write.time_ns,
            syncs: sync.calls,
            sync_ns: sync.time_ns,
        }
    };
    use Event::{
        CheckpointRead, CheckpointSync, CheckpointWrite, MainRead, MainSync, MainWrite, TempRead,
        TempSync, TempWrite, WalRead, WalSync, WalWrite,
    };
    vec![
        file("main", &[MainRead], &[MainWrite, CheckpointWrite], &[MainSync, CheckpointSync]),
        file("wal", &[WalRead, CheckpointRead], &[WalWrite], &[WalSync]),
        file("temp", &[TempRead], &[TempWrite], &[TempSync]),
    ]
}

fn waits(totals: &[Totals; EVENTS], latencies: [Option<Latencies>; EVENTS]) -> Vec<Wait> {
    let events = Event::ALL.iter().zip(totals).zip(latencies);
    events
        .filter(|((_, total), _)| total.calls > 0)
        .map(|((event, total), latencies)| Wait {
            name: event.name().to_owned(),
            class: event.class(),
            source: WaitSource::Timed,
            waits: Some(total.calls),
            time_ns: total.time_ns,
            latencies,
        })
        .collect()
}

/// Events that fit into a ring before it is folded.
const RING: usize = 256;
const BYTES_BITS: u32 = 56;

/// One writer's events: a latency and, packed, the event and its bytes.
struct Ring {
    slots: Box<[[AtomicU64; 2]]>,
    /// Events ever written.
    head: AtomicU64,
    /// Events ever folded.
    tail: AtomicU64,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            slots: (0..RING).map(|_| Default::default()).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
        }
    }
}

/// What one connection did. Only the connection itself records (SQLite allows one thread at a
/// time in it); anybody may fold.
pub struct Recorder {
    pub role: Role,
    shard: usize,
    statistics: Arc<Statistics>,
    ring: Ring,
    folding: Mutex<()>,
    /// Where this connection's last write to the WAL ended: the WAL's size in use.
    wal_end_bytes: AtomicU64,
}

impl Recorder {
    pub fn record(&self, event: Event, latency_ns: u64, bytes: u64) {
        let head = self.ring.head.load(Ordering::Relaxed);
        if head - self.ring.tail.load(Ordering::Acquire) >= RING as u64 {
            self.fold();
        }
        let [latency, what] = &self.ring.slots[head as usize % RING];
        latency.store(latency_ns, Ordering::Relaxed);
        what.store((event as u64) << BYTES_BITS | bytes, Ordering::Relaxed);
        self.ring.head.store(head + 1, Ordering::Release);
    }

    /// The WAL was written up to here.
    pub fn wal_written(&self, end_bytes: u64) {
        self.wal_end_bytes.store(end_bytes, Ordering::Relaxed);
        self.statistics.saw_wal_end(end_bytes);
    }

    pub fn wal_end_bytes(&self) -> u64 {
        self.wal_end_bytes.load(Ordering::Relaxed)
    }

    pub fn count(&self, count: Count, more: u64) {
        self.statistics.count(count, more);
    }

    /// Moves what the ring holds into the statistics.
    pub fn fold(&self) {
        let _folding = locked(&self.folding);
        let (tail, head) =
            (self.ring.tail.load(Ordering::Relaxed), self.ring.head.load(Ordering::Acquire));
        if tail == head {
            return;
        }
        let mut shard = locked(&self.statistics.shards[self.shard]);
        for index in tail..head {
            let [latency, what] = &self.ring.slots[index as usize % RING];
            let (latency_ns, what) =
                (latency.load(Ordering::Relaxed), what.load(Ordering::Relaxed));
            let (event, bytes) = ((what >> BYTES_BITS) as usize, what & ((1 << BYTES_BITS) - 1));
            shard.totals[event].add(latency_ns, bytes);
            shard.latencies[event].get_or_insert_default().record(latency_ns);
        }
        self.ring.tail.store(head, Ordering::Release);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.fold();
    }
}

/// How files that SQLite opens on this thread are served.
#[derive(Clone, Default)]
pub struct Context {
    /// None: not counted (describing, proving, settling).
    pub recorder: Option<Arc<Recorder>>,
    /// Pages of main files pass the page cache where the file system can.
    pub direct: bool,
}

thread_local! {
    static CONTEXT: RefCell<Context> = RefCell::default();
}

impl Context {
    /// Runs `work` with every file opened in it served by this context.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = CONTEXT.with(|context| context.replace(self.clone()));
        let result = work();
        CONTEXT.with(|context| context.replace(before));
        result
    }

    /// The context of this thread now.
    pub fn current() -> Self {
        CONTEXT.with(|context| context.borrow().clone())
    }
}

/// A lock whose holder panicked still holds counters that are right.
pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_found_in_a_snapshot_with_its_bytes_and_time() {
        let statistics = Arc::new(Statistics::default());
        let recorder = statistics.recorder(Role::Session);
        for n in 1..=1000u64 {
            recorder.record(Event::MainRead, n, if n % 10 == 0 { 100 } else { 8192 });
        }
        recorder.record(Event::WalSync, 7, 0);
        let counters = statistics.collect("here", true);
        assert_eq!(counters.io.physical_read_requests, Some(1000));
        assert_eq!(counters.io.physical_read_blocks, Some(900));
        assert_eq!(counters.io.physical_read_bytes, Some(900 * 8192 + 100 * 100));
        assert_eq!(counters.io.log_syncs, Some(1));
        let reads = counters.wait("main read").unwrap();
        assert_eq!((reads.waits, reads.time_ns), (Some(1000), 500_500));
        assert_eq!(reads.latencies.as_ref().unwrap().count(), 1000);
        assert!(counters.wait("wal write").is_none());
        assert!(statistics.collect("here", false).wait("main read").unwrap().latencies.is_none());
    }

    #[test]
    fn nothing_is_lost_when_snapshots_race_with_recorders() {
        let statistics = Arc::new(Statistics::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let recorder = statistics.recorder(Role::Session);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        recorder.record(Event::MainRead, 3, 8192);
                    }
                });
            }
            for _ in 0..200 {
                statistics.collect("here", false);
            }
        });
        let reads = statistics.collect("here", true);
        assert_eq!(reads.io.physical_read_blocks, Some(80_000));
        assert_eq!(reads.wait("main read").unwrap().time_ns, 240_000);
    }

    #[test]
    fn checkpoints_are_told_from_sessions() {
        let event = |role, kind, call| Event::of(role, kind, call).name();
        assert_eq!(event(Role::Session, FileKind::Wal, Call::Sync), "wal sync");
        assert_eq!(event(Role::Checkpoint, FileKind::Wal, Call::Sync), "checkpoint sync");
        assert_eq!(event(Role::Checkpoint, FileKind::Main, Call::Write), "checkpoint write");
        assert_eq!(event(Role::Checkpoint, FileKind::Temp, Call::Write), "temp write");
    }
}
