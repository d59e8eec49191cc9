//! A limit held against a comparison: passed, failed or inconclusive. Only a whole interval
//! proves anything.

use serde::Serialize;

use super::Comparison;
use petal_model::settings::limit::{ChangeLimit, ForbiddenSide};

/// Outcome of a limit, sorted from best to worst: the worst one represents several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitOutcome {
    /// Intervals lie wholly on the good side.
    Passed,
    /// An interval includes the limit, or is missing: not enough repeats, or no whole run on a
    /// side.
    Inconclusive,
    /// An interval lies wholly past the limit.
    Failed,
}

/// A limit with the comparison that decided it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitResult {
    pub limit: String,
    pub outcome: LimitOutcome,
    /// The cells that failed; of an inconclusive one those that could not be judged.
    pub because: Vec<String>,
}

/// The share of a change, and its interval if there is one.
pub(super) type ChangedShare = (f64, Option<(f64, f64)>);

/// Holds a limit against every cell and side; a cell that is not on both sides leaves it open.
pub fn hold(limit: &ChangeLimit, comparison: &Comparison) -> LimitResult {
    let several = comparison.sides.len() > 2;
    let judged = comparison.changes(&limit.metric).map(|(cell, side, change)| {
        let changed = change.map(|change| (change.difference.share, change.difference.interval));
        let side = if several { format!("{side}, ") } else { String::new() };
        let place = format!("{side}{}", super::cells::label(&cell.factors));
        (outcome(limit, changed), format!("{place}: {}", words(changed)))
    });
    let missing = comparison.not_on_both_sides.iter().map(|factors| {
        (
            LimitOutcome::Inconclusive,
            format!("{}: not measured on both sides", super::cells::label(factors)),
        )
    });
    worst(limit, judged.chain(missing).collect())
}

/// Judges a limit by the gravest of these outcomes; without any it is open.
pub(super) fn worst(limit: &ChangeLimit, outcomes: Vec<(LimitOutcome, String)>) -> LimitResult {
    let worst = outcomes.iter().map(|(outcome, _)| *outcome).max();
    let worst = worst.unwrap_or(LimitOutcome::Inconclusive);
    let because = outcomes.into_iter().filter(|(outcome, _)| *outcome == worst).map(|(_, why)| why);
    LimitResult {
        limit: limit.to_string(),
        outcome: worst,
        because: if worst == LimitOutcome::Passed { Vec::new() } else { because.collect() },
    }
}

pub(super) fn outcome(limit: &ChangeLimit, changed: Option<ChangedShare>) -> LimitOutcome {
    let Some((_, Some((low, high)))) = changed else { return LimitOutcome::Inconclusive };
    let (is_past, is_good) = match limit.side {
        ForbiddenSide::Below => (high < limit.share, low >= limit.share),
        ForbiddenSide::Above => (low > limit.share, high <= limit.share),
    };
    match (is_past, is_good) {
        (true, _) => LimitOutcome::Failed,
        (_, true) => LimitOutcome::Passed,
        _ => LimitOutcome::Inconclusive,
    }
}

pub(super) fn words(changed: Option<ChangedShare>) -> String {
    let percent = |share: f64| format!("{:+.1} %", share * 100.0);
    match changed {
        None => "not measured".to_owned(),
        Some((share, None)) => format!("{}, interval unknown", percent(share)),
        Some((share, Some((low, high)))) => {
            format!("{}, interval {} to {}", percent(share), percent(low), percent(high))
        }
    }
}
