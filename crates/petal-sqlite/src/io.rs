//! Events of the VFS shim, in safe code: kinds, a recorder per connection, and statistics.
//!
//! [`petal_record::event_stats`] keeps and folds them. Nothing here knows SQLite's types.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use petal_engine::perturbation::Perturbation;
use petal_record::counters::{CommonCounter, Counters, FileCounts, IoCounts};
use petal_record::event_stats::{self, EventStats, EventTotals, plain_counts, timed_events};

/// The kind of connection that does the I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoSource {
    Session,
    Checkpoint,
}

/// The kind of a file, by the flags SQLite opened it with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Main,
    Wal,
    /// Rollback journals, temporary databases, sorter runs.
    Temp,
}

impl FileKind {
    /// The name in messages.
    pub fn words(self) -> &'static str {
        match self {
            Self::Main => "the database file",
            Self::Wal => "the WAL",
            Self::Temp => "a temporary file",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCall {
    Read,
    Write,
    Sync,
}

timed_events! {
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

impl Event {
    /// The event of a call, by whose connection makes it and on which kind of file.
    pub fn of(source: IoSource, kind: FileKind, call: FileCall) -> Self {
        let [read, write, sync] = match (source, kind) {
            (_, FileKind::Temp) => [Self::TempRead, Self::TempWrite, Self::TempSync],
            (IoSource::Checkpoint, _) => {
                [Self::CheckpointRead, Self::CheckpointWrite, Self::CheckpointSync]
            }
            (_, FileKind::Main) => [Self::MainRead, Self::MainWrite, Self::MainSync],
            (_, FileKind::Wal) => [Self::WalRead, Self::WalWrite, Self::WalSync],
        };
        match call {
            FileCall::Read => read,
            FileCall::Write => write,
            FileCall::Sync => sync,
        }
    }
}

plain_counts! {
    CacheHit "CACHE_HIT", // Capitals are SQLite's own.
    CacheMiss "CACHE_MISS",
    CacheWrite "CACHE_WRITE",
    CacheSpill "CACHE_SPILL",
    Commits "commits",
    Checkpoints CommonCounter::Checkpoints.name(),
    CheckpointErrors CommonCounter::CheckpointErrors.name(),
    WalResets "wal_resets",
    WalResetFailures CommonCounter::LogResetFailures.name(),
    /// Bytes around synced parts of the WAL up to whole blocks of the page cache.
    WalPadding "wal_padding_bytes",
    /// Failed calls on files, of sessions and checkpoints.
    IoErrors CommonCounter::IoErrors.name(),
}

/// Counts of an engine since it was opened.
pub struct Statistics {
    stats: Arc<EventStats>,
    wal_bytes_max: AtomicU64,
    pub perturbation: Arc<Perturbation>,
}

impl Default for Statistics {
    fn default() -> Self {
        let stats = Arc::new(EventStats::new(Event::NAMES, COUNTS));
        Self { stats, wal_bytes_max: AtomicU64::new(0), perturbation: Arc::default() }
    }
}

impl Statistics {
    /// A recorder for one more connection.
    pub fn recorder(self: &Arc<Self>, source: IoSource) -> Arc<ConnectionRecorder> {
        Arc::new(ConnectionRecorder {
            source,
            events: self.stats.recorder(),
            statistics: Arc::clone(self),
            wal_end_bytes: AtomicU64::new(0),
            unsynced: Mutex::default(),
        })
    }

    pub fn count(&self, count: Count, more: u64) {
        self.stats.count(count as usize, more);
    }

    pub fn counted(&self, count: Count) -> u64 {
        self.stats.counted(count as usize)
    }

    /// Resets the largest WAL, which is a peak and not a sum, at every run's settling.
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
        let (totals, latencies) = self.stats.collect(with_latencies);
        Counters {
            endpoint: endpoint.to_owned(),
            io: self.io_counts(&totals),
            waits: self.stats.waits(&totals, latencies),
            files: files(&totals),
            raw: self.raw(&totals),
            ..Counters::default()
        }
    }

    fn io_counts(&self, totals: &[EventTotals]) -> IoCounts {
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

    fn raw(&self, totals: &[EventTotals]) -> BTreeMap<String, u64> {
        let mut raw = self.stats.counts();
        raw.insert(
            CommonCounter::LogBytesMax.name().to_owned(),
            self.wal_bytes_max.load(Ordering::Relaxed),
        );
        let log_file_bytes =
            totals[Event::WalWrite as usize].bytes + self.counted(Count::WalPadding);
        raw.insert(CommonCounter::LogFileBytes.name().to_owned(), log_file_bytes);
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

/// I/O by kind of file, of sessions and checkpoints together. A checkpoint reads the WAL and writes
/// the main file; its syncs of both count with the main file.
fn files(totals: &[EventTotals]) -> Vec<FileCounts> {
    let sum = |events: &[Event]| {
        let mut sum = EventTotals::default();
        events.iter().for_each(|&event| sum.merge(&totals[event as usize]));
        sum
    };
    let file = |kind, reads: &[Event], writes: &[Event], syncs: &[Event]| {
        event_stats::file_counts(kind, sum(reads), sum(writes), sum(syncs))
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

/// Events of one connection, which alone records them (on one thread); anybody may fold.
pub struct ConnectionRecorder {
    pub source: IoSource,
    events: Arc<event_stats::EventRecorder>,
    statistics: Arc<Statistics>,
    /// The end of this connection's last write to the WAL: the WAL's size in use.
    wal_end_bytes: AtomicU64,
    /// The WAL's bytes that this connection has written and not synced.
    unsynced: Mutex<UnsyncedBytes>,
}

/// Bytes of the page cache's blocks, which are written whole.
const CACHE_BLOCK_BYTES: u64 = 4096;

/// Writes to the WAL since its last sync.
#[derive(Debug, Default)]
struct UnsyncedBytes {
    range: Option<Range<u64>>,
    bytes: u64,
}

impl UnsyncedBytes {
    fn write(&mut self, written: Range<u64>) {
        self.bytes += written.end - written.start;
        let range = self.range.get_or_insert(written.clone());
        *range = range.start.min(written.start)..range.end.max(written.end);
    }

    /// Returns the bytes around them up to whole blocks; then nothing is unsynced.
    fn sync(&mut self) -> u64 {
        let Self { range, bytes } = std::mem::take(self);
        let Some(range) = range else { return 0 };
        let begin = range.start / CACHE_BLOCK_BYTES * CACHE_BLOCK_BYTES;
        let end = range.end.next_multiple_of(CACHE_BLOCK_BYTES);
        (end - begin).saturating_sub(bytes)
    }
}

impl ConnectionRecorder {
    /// Changes of a session's reads and commits; None for other connections.
    pub fn perturbation(&self) -> Option<&Perturbation> {
        (self.source == IoSource::Session).then_some(&*self.statistics.perturbation)
    }

    pub fn record(&self, event: Event, latency_ns: u64, bytes: u64) {
        self.events.record(event as usize, latency_ns, bytes);
    }

    /// These bytes of the WAL were written.
    pub fn wal_written(&self, written: Range<u64>) {
        let end_bytes = written.end;
        self.unsynced.lock().write(written);
        self.wal_end_bytes.store(end_bytes, Ordering::Relaxed);
        self.statistics.saw_wal_end(end_bytes);
    }

    /// The WAL was synced.
    pub fn wal_synced(&self) {
        self.count(Count::WalPadding, self.unsynced.lock().sync());
    }

    pub fn wal_end_bytes(&self) -> u64 {
        self.wal_end_bytes.load(Ordering::Relaxed)
    }

    pub fn count(&self, count: Count, more: u64) {
        self.statistics.count(count, more);
    }

    /// Makes the statistics current.
    pub fn fold(&self) {
        self.events.fold();
    }
}

/// The settings for files that SQLite opens on this thread.
#[derive(Clone, Default)]
pub struct IoContext {
    /// Recorder of the calls; `None` while loading, describing and settling.
    pub recorder: Option<Arc<ConnectionRecorder>>,
    /// Pages of main files pass the page cache if the file system can.
    pub direct: bool,
    /// Pages of main files are written many at once, and go to disk meanwhile: for a load.
    pub gathers: bool,
}

thread_local! {
    static CONTEXT: RefCell<IoContext> = RefCell::default();
    static FAILURE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the system's error of a failed call, which SQLite's codes do not contain.
pub fn keep_failure(what: String) {
    FAILURE.with(|failure| *failure.borrow_mut() = Some(what));
}

/// The system's error of this thread's last call that failed, once.
pub fn take_failure() -> Option<String> {
    FAILURE.with(|failure| failure.borrow_mut().take())
}

impl IoContext {
    /// Runs `work` with every file opened in it served by this context.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        take_failure();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_found_in_a_snapshot_with_its_bytes_and_time() {
        let statistics = Arc::new(Statistics::default());
        let recorder = statistics.recorder(IoSource::Session);
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
                let recorder = statistics.recorder(IoSource::Session);
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
    fn a_synced_part_of_the_wal_is_written_in_whole_blocks() {
        let mut unsynced = UnsyncedBytes::default();
        assert_eq!(unsynced.sync(), 0);
        // A frame of 4,120 bytes behind a header of 32 lies in two blocks, the next one too.
        unsynced.write(32..56);
        unsynced.write(56..4152);
        assert_eq!(unsynced.sync(), 8192 - 4120);
        unsynced.write(4152..8272);
        assert_eq!(unsynced.sync(), 8192 - 4120);
        // Two frames at once share the block between them.
        unsynced.write(8272..12392);
        unsynced.write(12392..16512);
        assert_eq!(unsynced.sync(), 12288 - 8240);
    }

    #[test]
    fn checkpoint_io_is_counted_separately_from_sessions() {
        let event = |source, kind, call| Event::of(source, kind, call).name();
        assert_eq!(event(IoSource::Session, FileKind::Wal, FileCall::Sync), "wal sync");
        assert_eq!(event(IoSource::Checkpoint, FileKind::Wal, FileCall::Sync), "checkpoint sync");
        assert_eq!(
            event(IoSource::Checkpoint, FileKind::Main, FileCall::Write),
            "checkpoint write"
        );
        assert_eq!(event(IoSource::Checkpoint, FileKind::Temp, FileCall::Write), "temp write");
    }
}
