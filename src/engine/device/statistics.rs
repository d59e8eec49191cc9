//! Statistics of the engine: its timed events, and the counters that come from them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::stats::counters::{CommonCounter, Counters, FileCounts, IoCounts};
use crate::stats::event_stats::{EventStats, Recorder, Totals, file_counts, timed_events};

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

/// Cumulative figures that are no timed events, by the names under which the record keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Blocks visited.
    Visited,
    /// Reads that found their block among those still to be written.
    DirtyHits,
    Commits,
    /// Blocks read once more because the first read met a write.
    Rereads,
    BadBlocks,
    /// Queues that the kernel did not register: too little locked memory is allowed for all.
    UnregisteredQueues,
    /// Blocks whose checksum was computed, and the time of all verifying in sessions' threads.
    BlocksVerified,
    VerifyNs,
}

const COUNTS: [&str; 8] = [
    "blocks_visited",
    "dirty_hits",
    "commits",
    "blocks_reread",
    CommonCounter::BadBlocks.name(),
    "queues_unregistered",
    CommonCounter::BlocksVerified.name(),
    CommonCounter::VerifyNs.name(),
];

pub struct Statistics {
    stats: Arc<EventStats>,
    counts: [AtomicU64; COUNTS.len()],
}

impl Default for Statistics {
    fn default() -> Self {
        Self { stats: Arc::new(EventStats::new(Event::NAMES)), counts: Default::default() }
    }
}

impl Statistics {
    pub fn recorder(&self) -> Arc<Recorder> {
        self.stats.recorder()
    }

    pub fn count(&self, count: Count, more: u64) {
        self.counts[count as usize].fetch_add(more, Ordering::Relaxed);
    }

    pub fn counted(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    /// Counters of all work so far; with single waits if asked.
    pub fn collect(&self, endpoint: &str, block_bytes: u64, with_latencies: bool) -> Counters {
        let (totals, latencies) = self.stats.collect(with_latencies);
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
        let raw: BTreeMap<String, u64> = COUNTS
            .iter()
            .zip(&self.counts)
            .map(|(name, count)| ((*name).to_owned(), count.load(Ordering::Relaxed)))
            .collect();
        Counters {
            endpoint: endpoint.to_owned(),
            io,
            files: files(&totals),
            waits: self.stats.waits(&totals, latencies),
            raw,
        }
    }
}

/// Data and log lie on one target; they are told apart all the same.
fn files(totals: &[Totals]) -> Vec<FileCounts> {
    let of = |event: Event| totals[event as usize];
    let mut reads = of(Event::BlockRead);
    reads.merge(&of(Event::ScanRead));
    vec![
        file_counts("data", reads, of(Event::BackgroundWrite), of(Event::BackgroundSync)),
        file_counts("log", Totals::default(), of(Event::LogWrite), of(Event::LogSync)),
    ]
}
