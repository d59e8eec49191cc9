//! The search for the most sessions that keep a latency: doubled until one exceeds it, halved
//! between both, and then repeated on both sides of the border.

use serde::Serialize;

use super::cells::{CellLine, CellReading};
use super::{LineReading, doublings};
use crate::estimate::{Estimate, mean};
use crate::factor_words;
use petal_record::sweep::Swept;
use petal_record::sweep_design::Design;

/// The two cells of a line, as positions, between which the latency is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Border {
    /// The most sessions that keep it; None if the fewest exceed it.
    kept: Option<usize>,
    /// The fewest sessions above them that exceed it; None if the most keep it.
    exceeded: Option<usize>,
}

fn border(cells: usize, readings: &[LineReading]) -> Border {
    let shares: Vec<Option<f64>> = (0..cells).map(|at| share_of(readings, at)).collect();
    let exceeded = shares.iter().position(|share| share.is_some_and(|share| share > 1.0));
    let below = exceeded.unwrap_or(cells);
    Border { kept: shares[..below].iter().rposition(Option::is_some), exceeded }
}

/// The mean latency of a cell's runs, over the limit.
fn share_of(readings: &[LineReading], at: usize) -> Option<f64> {
    let own = readings.iter().filter(|reading| reading.at == at);
    mean(&own.filter_map(|reading| reading.latency_share).collect::<Vec<_>>())
}

/// Returns the next cell of the search. None at its end, or if a cell that it needs has no figure.
pub(super) fn next(sessions: &[u32], readings: &[LineReading], repeats: usize) -> Option<usize> {
    let runs = |at: usize| readings.iter().filter(|reading| reading.at == at).count();
    if readings.iter().any(|reading| reading.latency_share.is_none()) {
        return None;
    }
    let border = border(sessions.len(), readings);
    let Some(exceeded) = border.exceeded else {
        let further = doublings(sessions).into_iter().find(|&at| runs(at) == 0);
        return further.or_else(|| border.kept.filter(|&at| runs(at) < repeats));
    };
    let from = border.kept.map_or(0, |kept| kept + 1);
    if from < exceeded {
        return Some(usize::midpoint(from, exceeded - 1));
    }
    let both = border.kept.into_iter().chain([exceeded]);
    both.filter(|&at| runs(at) < repeats).min_by_key(|&at| runs(at))
}

/// The most runs that a search usually has: the doublings, the halvings between two of them, and
/// the repeats of both cells at the border.
pub(super) fn runs_most(sessions: &[u32], repeats: usize) -> usize {
    let outline = doublings(sessions);
    let widest = outline.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1);
    outline.len() + widest.next_power_of_two().ilog2() as usize + 2 * repeats.saturating_sub(1)
}

/// The most sessions of a line that keep the latency.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadWithinLatency {
    /// The factors of the line, such as `UPDATE_PCT 20`.
    pub name: String,
    pub runs: usize,
    /// None if the fewest sessions exceed the latency, or nothing is known.
    pub sessions: Option<u32>,
    /// PIOPS with those sessions, or operations per second.
    pub piops: Option<f64>,
    /// Ends of their 95 % interval; None with fewer than three runs.
    pub interval: Option<(f64, f64)>,
    /// The mean of the limited figure with those sessions, us.
    pub latency_us: Option<f64>,
    /// The fewest sessions that exceed the latency; None if the most keep it.
    pub exceeded_at: Option<u32>,
    /// True if both have all their repeats.
    pub is_confirmed: bool,
    /// True if a run lacks the limited figure.
    pub is_unknown: bool,
}

/// Returns the end of each line of a search; nothing of another sweep.
pub fn within_latency(swept: &Swept) -> Vec<LoadWithinLatency> {
    let plan = &swept.sweep.plan;
    let Design::Search { .. } = plan.design else { return Vec::new() };
    let Some(limit_us) = plan.design.objective().map(|objective| objective.limit_us) else {
        return Vec::new();
    };
    let readings = CellReading::all(swept);
    let ends = CellLine::all(plan).into_iter().map(|line| {
        let own = line.readings(&readings);
        let border = border(line.sessions.len(), &own);
        let at = |at: usize| own.iter().filter(move |reading| reading.at == at);
        let loads = border.kept.map(|kept| at(kept).filter_map(|run| run.load).collect());
        let load = loads.and_then(Estimate::of);
        let sessions = |at: usize| line.sessions[at];
        LoadWithinLatency {
            name: factor_words(&line.factors),
            runs: own.len(),
            sessions: border.kept.map(sessions),
            piops: load.as_ref().map(|load| load.mean),
            interval: load.as_ref().and_then(|load| load.interval),
            latency_us: border.kept.and_then(|kept| Some(share_of(&own, kept)? * limit_us)),
            exceeded_at: border.exceeded.map(sessions),
            is_confirmed: next(&line.sessions, &own, plan.repeats as usize).is_none(),
            is_unknown: own.iter().any(|reading| reading.latency_share.is_none()),
        }
    });
    ends.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reading(at: usize, share: Option<f64>) -> LineReading {
        LineReading { at, load: Some(1.0), power: None, latency_share: share }
    }

    /// Searches a line whose latency is known, until the search ends.
    fn search(sessions: &[u32], share: impl Fn(u32) -> f64, repeats: usize) -> Vec<LineReading> {
        let mut readings = Vec::new();
        while let Some(at) = next(sessions, &readings, repeats) {
            readings.push(reading(at, Some(share(sessions[at]))));
            assert!(readings.len() <= runs_most(sessions, repeats), "{readings:?}");
        }
        readings
    }

    #[test]
    fn a_run_without_the_figure_ends_the_search() {
        assert_eq!(next(&[1, 2, 4], &[reading(0, Some(0.5)), reading(1, None)], 3), None);
    }

    proptest! {
        #[test]
        fn the_last_cell_that_keeps_the_latency_is_found_and_repeated(
            most in 1_u32..64, limit in 0_u32..70, repeats in 1_usize..5,
        ) {
            let sessions: Vec<u32> = (1..=most).collect();
            let readings = search(&sessions, |count| if count > limit { 1.5 } else { 0.5 }, repeats);
            let found = border(sessions.len(), &readings);
            let kept = (limit > 0).then(|| limit.min(most));
            prop_assert_eq!(found.kept.map(|at| sessions[at]), kept);
            prop_assert_eq!(found.exceeded.map(|at| sessions[at]), (limit < most).then_some(limit + 1));
            for at in [found.kept, found.exceeded].into_iter().flatten() {
                prop_assert_eq!(readings.iter().filter(|reading| reading.at == at).count(), repeats);
            }
        }
    }
}
