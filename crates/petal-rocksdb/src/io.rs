//! Events of sessions, as RocksDB counts them for each thread, and its counts for each database.

use std::sync::Arc;

use parking_lot::Mutex;

use super::library::BlockReads;
use petal_model::stats::counters::{CommonCounter, Counters, IoCounts};
use petal_model::stats::event_stats::{EventRecorder, EventStats, plain_counts, timed_events};

timed_events! {
    BlockRead "block read" UserIo,
    Commit "commit" Commit,
}

plain_counts! {
    CacheHits "cache_hits",
    Commits "commits",
}

/// RocksDB's counts of a database, without their prefix, and the common names of some.
const TICKERS: [(&str, Option<CommonCounter>); 9] = [
    ("wal.bytes", None),
    ("wal.synced", None),
    ("flush.write.bytes", None),
    ("compact.write.bytes", None),
    ("compact.read.bytes", None),
    ("stall.micros", None),
    ("memtable.hit", Some(CommonCounter::RowsInNoBlock)),
    ("bloom.filter.useful", Some(CommonCounter::FilesRuledOut)),
    ("bytes.written", Some(CommonCounter::StatementBytesWritten)),
];
const WAL_BYTES: usize = 0;
const WAL_SYNCS: usize = 1;
const FLUSHED_BYTES: usize = 2;
const COMPACTED_BYTES: usize = 3;

/// Values of [`TICKERS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tickers([u64; TICKERS.len()]);

impl Tickers {
    /// Reads them from RocksDB's text: `rocksdb.wal.bytes COUNT : 7`.
    pub fn read(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let Some((name, value)) = line.split_once(" COUNT : ") else { continue };
            let name = name.strip_prefix("rocksdb.").unwrap_or(name);
            if let Some(at) = TICKERS.iter().position(|ticker| ticker.0 == name) {
                found.0[at] = value.trim().parse().unwrap_or(0);
            }
        }
        found
    }

    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

/// Counts of an engine since it was opened.
pub struct Statistics {
    events: Arc<EventStats>,
    /// Counts of databases that are closed.
    closed: Mutex<Tickers>,
}

impl Default for Statistics {
    fn default() -> Self {
        let events = Arc::new(EventStats::new(Event::NAMES, COUNTS));
        Self { events, closed: Mutex::default() }
    }
}

impl Statistics {
    /// A recorder for one more session.
    pub fn recorder(&self) -> Arc<EventRecorder> {
        self.events.recorder()
    }

    pub fn count(&self, count: Count, more: u64) {
        self.events.count(count as usize, more);
    }

    /// Keeps the counts of a database that is closed.
    pub fn close(&self, tickers: &Tickers) {
        self.closed.lock().add(tickers);
    }

    /// Counters of all work so far; with single waits if asked.
    pub fn collect(
        &self,
        endpoint: &str,
        open: impl Iterator<Item = Tickers>,
        with_latencies: bool,
    ) -> Counters {
        let (totals, latencies) = self.events.collect(with_latencies);
        let read = totals[Event::BlockRead as usize];
        let counted = |count: Count| self.events.counted(count as usize);
        let mut tickers = *self.closed.lock();
        open.for_each(|one| tickers.add(&one));
        let Tickers(value) = tickers;
        let io = IoCounts {
            logical_reads: Some(counted(Count::CacheHits) + read.calls),
            physical_read_blocks: Some(read.calls),
            physical_read_requests: Some(read.calls),
            physical_read_bytes: Some(read.bytes),
            physical_write_bytes: Some(value[FLUSHED_BYTES] + value[COMPACTED_BYTES]),
            redo_bytes: Some(value[WAL_BYTES]),
            commits: Some(counted(Count::Commits)),
            log_syncs: Some(value[WAL_SYNCS]),
            ..IoCounts::default()
        };
        let mut raw = self.events.counts();
        for ((name, common), value) in TICKERS.iter().zip(value) {
            raw.insert((*name).to_owned(), value);
            raw.extend(common.map(|common| (common.name().to_owned(), value)));
        }
        Counters {
            endpoint: endpoint.to_owned(),
            io,
            waits: self.events.waits(&totals, latencies),
            raw,
            ..Counters::default()
        }
    }
}

/// Records the block reads between two counts of a thread. The times of several are their mean.
pub fn record_reads(recorder: &EventRecorder, before: &BlockReads, after: &BlockReads) {
    let reads = after.reads - before.reads;
    for _ in 0..reads {
        let each = |before: u64, after: u64| (after - before) / reads;
        recorder.record(
            Event::BlockRead as usize,
            each(before.time_ns, after.time_ns),
            each(before.bytes, after.bytes),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickers_are_read_from_rocksdb_s_text() {
        let text = "rocksdb.wal.bytes COUNT : 7\nrocksdb.wal.synced COUNT : 3\n\
                    rocksdb.db.get.micros P50 : 1.0 P95 : 2.0\nrocksdb.no.file.opens COUNT : 9\n";
        let tickers = Tickers::read(text);
        assert_eq!((tickers.0[WAL_BYTES], tickers.0[WAL_SYNCS]), (7, 3));
        assert_eq!(tickers.0.iter().sum::<u64>(), 10);
    }
}
