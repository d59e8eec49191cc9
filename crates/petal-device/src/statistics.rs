//! Statistics of the engine: its timed events, and the counters derived from them.

use std::sync::Arc;

use petal_record::counters::{CommonCounter, Counters, FileCounts, IoCounts};
use petal_record::event_stats::{
    EventRecorder, EventStats, EventTotals, file_counts, plain_counts, timed_events,
};

timed_events! {
    BlockRead "block read" UserIo,
    ScanRead "scan read" UserIo,
    LogWrite "log write" Commit,
    LogSync "log sync" Commit,
    BackgroundWrite "background write" SystemIo,
    BackgroundSync "background sync" SystemIo,
    DirtyWait "dirty wait" Configuration,
    LogWait "log wait" Configuration,
    RowLock "row lock" Application,
}

plain_counts! {
    /// Blocks visited.
    Visited "blocks_visited",
    /// Reads that found their block in the dirty set.
    DirtyHits "dirty_hits",
    Commits "commits",
    /// Blocks read again because the first read overlapped a write.
    Rereads "blocks_reread",
    BadBlocks CommonCounter::BadBlocks.name(),
    /// Queues that the kernel did not register because the limit of locked memory is too low for
    /// all.
    UnregisteredQueues "queues_unregistered",
    /// Blocks whose checksum was computed, and the time of all verification in sessions' threads.
    BlocksVerified CommonCounter::BlocksVerified.name(),
    VerifyNs CommonCounter::VerifyNs.name(),
}

pub struct Statistics(Arc<EventStats>);

impl Default for Statistics {
    fn default() -> Self {
        Self(Arc::new(EventStats::new(Event::NAMES, COUNTS)))
    }
}

impl Statistics {
    pub fn recorder(&self) -> Arc<EventRecorder> {
        self.0.recorder()
    }

    pub fn count(&self, count: Count, more: u64) {
        self.0.count(count as usize, more);
    }

    pub fn counted(&self, count: Count) -> u64 {
        self.0.counted(count as usize)
    }

    /// Returns counters of all work so far; with single waits on request.
    pub fn collect(&self, endpoint: &str, block_bytes: u64, with_latencies: bool) -> Counters {
        let (totals, latencies) = self.0.collect(with_latencies);
        let of = |event: Event| totals[event as usize];
        let (blocks, scans) = (of(Event::BlockRead), of(Event::ScanRead));
        let writes = of(Event::BackgroundWrite);
        let read_bytes = blocks.bytes + scans.bytes;
        let io = IoCounts {
            logical_reads: Some(self.counted(Count::Visited)),
            physical_read_blocks: Some(read_bytes / block_bytes),
            physical_read_requests: Some(blocks.calls + scans.calls),
            physical_read_bytes: Some(read_bytes),
            physical_write_blocks: Some(writes.calls),
            physical_write_requests: Some(writes.calls),
            physical_write_bytes: Some(writes.bytes),
            log_read_blocks: None,
            redo_bytes: Some(of(Event::LogWrite).bytes),
            commits: Some(self.counted(Count::Commits)),
            log_syncs: Some(of(Event::LogSync).calls),
        };
        Counters {
            endpoint: endpoint.to_owned(),
            io,
            files: files(&totals),
            waits: self.0.waits(&totals, latencies),
            raw: self.0.counts(),
            ..Counters::default()
        }
    }
}

/// Returns separate counts for data and log, although both are on one target.
fn files(totals: &[EventTotals]) -> Vec<FileCounts> {
    let of = |event: Event| totals[event as usize];
    let mut reads = of(Event::BlockRead);
    reads.merge(&of(Event::ScanRead));
    vec![
        file_counts("data", reads, of(Event::BackgroundWrite), of(Event::BackgroundSync)),
        file_counts("log", EventTotals::default(), of(Event::LogWrite), of(Event::LogSync)),
    ]
}
