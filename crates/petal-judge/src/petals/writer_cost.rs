//! The cost of writers to readers: SELECT latency of the same readers alone and with writers, under
//! the same further factors.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Estimate;
use super::lines::{self, Kinds};
use crate::by_key;
use crate::significance::{self, Difference};
use petal_record::observation::{Observation, metric};

const SELECT_MEAN: &str = "select_mean_us";

/// Readers of one number and under the same factors; at least one row is of the readers alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WriterCost {
    pub readers: u32,
    /// Further factors and the readers' data, if a sweep varies these.
    pub factors: Vec<(String, String)>,
    pub active_bytes: Option<u64>,
    /// Sorted by the number of writers.
    pub rows: Vec<WriterCostRow>,
}

/// Latencies are of petal's clock but for `read_us`, a single block as the engine timed it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WriterCostRow {
    pub writers: u32,
    pub sources: Vec<String>,
    pub select_mean_us: Option<Estimate>,
    pub select_p50_us: Option<Estimate>,
    pub select_p99_us: Option<Estimate>,
    pub read_us: Option<Estimate>,
    /// Change of the mean SELECT from the readers alone; None if one of them is no storage test.
    pub change: Option<Difference>,
}

type ByWriters<'a> = BTreeMap<u32, Vec<&'a Observation>>;

/// An entry for each number of readers that ran alone and with writers.
pub(super) fn of(observations: &[Observation]) -> Vec<WriterCost> {
    let usable = observations.iter().filter(|seen| seen.why_unusable().is_none());
    let all = usable.filter_map(|seen| {
        let Kinds { readers, writers } = Kinds::of(seen)?;
        let factors: Vec<(String, String)> =
            seen.factors.iter().filter(|(key, _)| !lines::is_sessions(key)).cloned().collect();
        let active_bytes = seen.active_bytes;
        Some((WriterCost { readers, factors, active_bytes, rows: Vec::new() }, (writers, seen)))
    });
    let by_writers = |runs| -> ByWriters<'_> { by_key(runs).into_iter().collect() };
    let groups = by_key(all).into_iter().map(|(of, runs)| (of, by_writers(runs)));
    let mut groups: Vec<(WriterCost, ByWriters<'_>)> = groups.collect();
    groups.retain(|(of, runs)| of.readers > 0 && runs.contains_key(&0) && runs.len() > 1);
    groups.sort_by_key(|(of, _)| of.readers);
    groups.into_iter().map(|(of, runs)| WriterCost { rows: rows(&runs), ..of }).collect()
}

fn rows(runs: &ByWriters<'_>) -> Vec<WriterCostRow> {
    let mut rows: Vec<WriterCostRow> =
        runs.iter().map(|(&writers, repeats)| row(writers, repeats)).collect();
    let are_storage = |repeats: &Vec<&Observation>| {
        repeats.iter().all(|seen| crate::verdict::not_storage(seen).is_none())
    };
    let is_result: Vec<bool> = runs.values().map(are_storage).collect();
    let alone = rows.first().and_then(|row| row.select_mean_us.clone()).filter(|_| is_result[0]);
    for (row, _) in rows.iter_mut().zip(&is_result).skip(1).filter(|(_, is_result)| **is_result) {
        let both = alone.as_ref().zip(row.select_mean_us.as_ref());
        row.change = both.and_then(|(a, b)| significance::sequential(&a.values, &b.values));
    }
    rows
}

/// A figure that one of the repeats does not know is unknown.
fn row(writers: u32, repeats: &[&Observation]) -> WriterCostRow {
    let all = |name: &str| repeats.iter().map(|seen| seen.metric(name)).collect::<Option<_>>();
    WriterCostRow {
        writers,
        sources: repeats.iter().map(|seen| seen.source.clone()).collect(),
        select_mean_us: all(SELECT_MEAN).and_then(Estimate::of),
        select_p50_us: all("select_p50_us").and_then(Estimate::of_percentile),
        select_p99_us: all("select_p99_us").and_then(Estimate::of_percentile),
        read_us: all(metric::READ_US).and_then(Estimate::of),
        change: None,
    }
}
