//! Events of a session: kinds, a recorder per session, and statistics. LMDB reads by page faults and
//! writes in its own calls, so petal times the touch of a page and the commit, and takes counts from
//! the kernel.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::layout::PAGE_BYTES;
use petal_host::files::{self, OFlags};
use petal_record::counters::{Counters, FileCounts, IoCounts};
use petal_record::event_stats::{
    EventRecorder, EventStats, EventTotals, plain_counts, timed_events,
};

timed_events! {
    RowFault "row page fault" UserIo,
    TreeFault "tree page fault" UserIo,
    Commit "commit" Commit,
    WriterLock "writer lock" Concurrency,
}

plain_counts! {
    /// Visits of rows, each of one page.
    RowVisits "row_visits",
    /// Page faults within a commit and the changes before it.
    WriterFaults "writer_faults",
    Commits "commits",
    WriteCalls "write_calls",
    WriteBytes "write_bytes",
}

/// Counts of an engine since it was opened.
pub struct Statistics {
    events: Arc<EventStats>,
    /// The kernel counts each thread's writes.
    sees_writes: bool,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            events: Arc::new(EventStats::new(Event::NAMES, COUNTS)),
            sees_writes: ThreadWrites::open().and_then(|writes| writes.so_far()).is_ok(),
        }
    }
}

impl Statistics {
    /// A recorder for one more session.
    pub fn recorder(&self) -> Arc<EventRecorder> {
        self.events.recorder()
    }

    /// True if the kernel counts each thread's writes.
    pub fn sees_writes(&self) -> bool {
        self.sees_writes
    }

    pub fn count(&self, count: Count, more: u64) {
        self.events.count(count as usize, more);
    }

    /// Counters of all work so far; with single waits if asked.
    pub fn collect(&self, endpoint: &str, with_latencies: bool) -> Counters {
        let (totals, latencies) = self.events.collect(with_latencies);
        let [row, tree, commit] =
            [Event::RowFault, Event::TreeFault, Event::Commit].map(|event| totals[event as usize]);
        let counted = |count: Count| self.events.counted(count as usize);
        let read = row.calls + tree.calls + counted(Count::WriterFaults);
        let written = |count: Count| self.sees_writes.then(|| counted(count));
        let io = IoCounts {
            logical_reads: Some(counted(Count::RowVisits) + tree.calls),
            physical_read_blocks: Some(read),
            physical_read_requests: Some(read),
            physical_read_bytes: Some(read * PAGE_BYTES),
            physical_write_blocks: written(Count::WriteBytes).map(|bytes| bytes / PAGE_BYTES),
            physical_write_requests: written(Count::WriteCalls),
            physical_write_bytes: written(Count::WriteBytes),
            commits: Some(counted(Count::Commits)),
            log_syncs: Some(commit.calls),
            ..IoCounts::default()
        };
        Counters {
            endpoint: endpoint.to_owned(),
            io,
            waits: self.events.waits(&totals, latencies),
            files: vec![self.main_file(read, row, tree, commit)],
            raw: self.events.counts(),
            ..Counters::default()
        }
    }

    fn main_file(
        &self,
        reads: u64,
        row: EventTotals,
        tree: EventTotals,
        commit: EventTotals,
    ) -> FileCounts {
        FileCounts {
            kind: "main".to_owned(),
            read_requests: reads,
            read_bytes: reads * PAGE_BYTES,
            read_ns: row.time_ns + tree.time_ns,
            write_requests: self.events.counted(Count::WriteCalls as usize),
            write_bytes: self.events.counted(Count::WriteBytes as usize),
            write_ns: 0,
            syncs: commit.calls,
            sync_ns: commit.time_ns,
        }
    }
}

/// Writes of one thread, as the kernel counts them.
pub struct ThreadWrites(File);

impl ThreadWrites {
    /// Opens the counts of the calling thread.
    pub fn open() -> io::Result<Self> {
        files::open("/proc/thread-self/io", OFlags::RDONLY).map(Self)
    }

    /// Calls and bytes so far.
    pub fn so_far(&self) -> io::Result<[u64; 2]> {
        let mut bytes = [0; 512];
        let read = self.0.read_at(&mut bytes, 0)?;
        let text = std::str::from_utf8(&bytes[..read]).unwrap_or_default();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).ok_or(io::ErrorKind::InvalidData)
        };
        Ok([value("syscw:")?, value("wchar:")?])
    }
}
