//! Events of the storage below redb: kinds, a recorder per session, and statistics.

use std::cell::RefCell;
use std::sync::Arc;

use petal_record::counters::{CommonCounter, Counters, IoCounts};
use petal_record::event_stats::{
    EventRecorder, EventStats, file_counts, plain_counts, timed_events,
};

timed_events! {
    PageRead "page read" UserIo,
    PageWrite "page write" Commit,
    FileSync "file sync" Commit,
    FileResize "file resize" Commit,
    WriterLock "writer lock" Concurrency,
}

plain_counts! {
    CacheHit "cache_hits",
    CacheMiss "cache_misses",
    Commits "commits",
    /// Failed calls on files.
    IoErrors CommonCounter::IoErrors.name(),
}

/// Counts of an engine since it was opened.
pub struct Statistics(Arc<EventStats>);

impl Default for Statistics {
    fn default() -> Self {
        Self(Arc::new(EventStats::new(Event::NAMES, COUNTS)))
    }
}

impl Statistics {
    /// A recorder for one more session.
    pub fn recorder(&self) -> Arc<EventRecorder> {
        self.0.recorder()
    }

    pub fn count(&self, count: Count, more: u64) {
        self.0.count(count as usize, more);
    }

    /// Counters of all work so far; with single waits if asked.
    pub fn collect(&self, endpoint: &str, with_latencies: bool) -> Counters {
        let (totals, latencies) = self.0.collect(with_latencies);
        let [read, write, sync] = [Event::PageRead, Event::PageWrite, Event::FileSync]
            .map(|event| totals[event as usize]);
        let counted = |count: Count| self.0.counted(count as usize);
        let io = IoCounts {
            logical_reads: Some(counted(Count::CacheHit) + counted(Count::CacheMiss)),
            physical_read_blocks: Some(read.pages),
            physical_read_requests: Some(read.calls),
            physical_read_bytes: Some(read.bytes),
            physical_write_blocks: Some(write.pages),
            physical_write_requests: Some(write.calls),
            physical_write_bytes: Some(write.bytes),
            commits: Some(counted(Count::Commits)),
            log_syncs: Some(sync.calls),
            ..IoCounts::default()
        };
        Counters {
            endpoint: endpoint.to_owned(),
            io,
            waits: self.0.waits(&totals, latencies),
            files: vec![file_counts("main", read, write, sync)],
            raw: self.0.counts(),
            ..Counters::default()
        }
    }
}

thread_local! {
    static RECORDER: RefCell<Option<Arc<EventRecorder>>> = const { RefCell::new(None) };
}

/// Records the storage's calls on this thread there from now on; without a recorder they are not
/// counted.
pub fn record_to(recorder: Option<&Arc<EventRecorder>>) {
    RECORDER.set(recorder.cloned());
}

/// Runs `work` with its calls not counted: loading, opening, settling.
pub fn unrecorded<T>(work: impl FnOnce() -> T) -> T {
    let before = RECORDER.take();
    let result = work();
    RECORDER.set(before);
    result
}

/// Records a call of this thread.
pub fn record(event: Event, latency_ns: u64, bytes: u64) {
    RECORDER.with_borrow(|recorder| {
        if let Some(recorder) = recorder {
            recorder.record(event as usize, latency_ns, bytes);
        }
    });
}
