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
    /// Every cell that was judged.
    #[serde(skip)]
    pub cases: Vec<LimitCase>,
}

/// A limit held against one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitCase {
    pub outcome: LimitOutcome,
    /// Name of the cell, with its side if there are several.
    pub place: String,
    /// The change with its interval, or the reason why it is unknown.
    pub words: String,
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
        LimitCase { outcome: outcome(limit, changed), place, words: words(changed) }
    });
    let missing = comparison.not_on_both_sides.iter().map(|factors| LimitCase {
        outcome: LimitOutcome::Inconclusive,
        place: super::cells::label(factors),
        words: "not measured on both sides".to_owned(),
    });
    worst(limit, judged.chain(missing).collect())
}

/// Judges a limit by the gravest of these cases; without any it is open: one case says so.
pub(super) fn worst(limit: &ChangeLimit, mut cases: Vec<LimitCase>) -> LimitResult {
    if cases.is_empty() {
        let (outcome, place) = (LimitOutcome::Inconclusive, "all".to_owned());
        cases.push(LimitCase { outcome, place, words: "not measured".to_owned() });
    }
    let worst = cases.iter().map(|case| case.outcome).max();
    let worst = worst.unwrap_or(LimitOutcome::Inconclusive);
    let of_worst = cases.iter().filter(|case| case.outcome == worst);
    let because = of_worst.map(|case| format!("{}: {}", case.place, case.words));
    LimitResult {
        limit: limit.to_string(),
        outcome: worst,
        because: if worst == LimitOutcome::Passed { Vec::new() } else { because.collect() },
        cases,
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
