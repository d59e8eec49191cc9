//! From what was counted to the record's own rows: tallies of operations, I/O by kind of file.

use super::{FileIo, Ops, Rows};
use crate::stats::counters::FileCounts;
use crate::stats::histogram::micros;
use crate::stats::timeline::Tally;
use crate::workload::op::Kind;

impl From<&Tally> for Ops {
    fn from(tally: &Tally) -> Self {
        let [select, scan, update] = Kind::ALL.map(|kind| tally.ops[kind.index()]);
        Self { select, scan, update, total: tally.ops_total(), cut: tally.cut }
    }
}

impl From<&Tally> for Rows {
    fn from(tally: &Tally) -> Self {
        Self::by_kind(&tally.rows)
    }
}

impl Rows {
    /// From counts in the order of [`Kind::ALL`].
    pub fn by_kind(rows: &[u64; Kind::ALL.len()]) -> Self {
        let [select, scan, update] = Kind::ALL.map(|kind| rows[kind.index()]);
        Self { select, scan, update }
    }
}

impl From<&FileCounts> for FileIo {
    fn from(file: &FileCounts) -> Self {
        Self {
            kind: file.kind.to_owned(),
            read_requests: file.read_requests,
            read_bytes: file.read_bytes,
            read_us: micros(file.read_ns),
            write_requests: file.write_requests,
            write_bytes: file.write_bytes,
            write_us: micros(file.write_ns),
            syncs: file.syncs,
            sync_us: micros(file.sync_ns),
        }
    }
}
