//! Conversions from tallies of operations to the record's own rows.

use super::{Ops, Rows};
use crate::timeline::Tally;
use petal_workload::op::Kind;

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
    /// Builds the row from counts in the order of [`Kind::ALL`].
    pub fn by_kind(rows: &[u64; Kind::ALL.len()]) -> Self {
        let [select, scan, update] = Kind::ALL.map(|kind| rows[kind.index()]);
        Self { select, scan, update }
    }
}
