//! A limit held against a comparison: passed, failed or inconclusive. The change over all cells
//! decides first, by its whole interval. A cell alone fails a limit if it is proven to be past it
//! among all cells, or if its figure fell to zero in every run.

use serde::Serialize;

use super::cells::label;
use super::verdict::ComparisonVerdict;
use super::{Change, ComparedFigure, Comparison};
use crate::estimate::REPEATS_MIN;
use crate::significance;
use petal_host::numbers::{counted, signed_percent};
use petal_settings::limit::{ChangeLimit, ForbiddenSide};

/// Outcome of a limit, sorted from best to worst: the worst one represents several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitOutcome {
    /// The interval over all cells lies wholly on the good side, and no cell is proven past it.
    Passed,
    /// The interval includes the limit, or one is missing: not enough repeats, or no whole run on a
    /// side.
    Inconclusive,
    /// The interval lies wholly past the limit, or a cell is proven past it.
    Failed,
}

/// A limit with the comparison that decided it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitResult {
    pub limit: String,
    pub outcome: LimitOutcome,
    /// The change over all cells and the cells that failed; of an inconclusive limit those that could
    /// not be judged.
    pub because: Vec<String>,
    /// The change over all cells, and every cell that was judged.
    #[serde(skip)]
    pub cases: Vec<LimitCase>,
}

pub(super) const NOT_STORAGE: &str = "not a storage test";

/// A limit held against one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitCase {
    pub outcome: LimitOutcome,
    /// Name of the cell, with its side if there are several.
    pub place: String,
    /// The change with its interval, or the reason why it is unknown.
    pub words: String,
}

/// A change that a limit is held against.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldChange<'a> {
    pub share: f64,
    pub interval: Option<(f64, f64)>,
    /// Reason for an unknown interval, with a way to know it.
    pub unknown: Option<&'a str>,
}

/// A limit that nothing can hold or break, because a side has no valid run; None if each side has one.
pub(super) fn without_a_side(
    limit: &ChangeLimit,
    verdict: Option<&ComparisonVerdict>,
) -> Option<LimitResult> {
    let verdict = verdict.filter(|verdict| verdict.is_without_a_side)?;
    let outcome = LimitOutcome::Inconclusive;
    let (place, words) = ("all".to_owned(), verdict.words.clone());
    Some(worst(limit, vec![LimitCase { outcome, place, words }]))
}

/// Holds a limit against each later side: against the change over all its cells, and against each
/// cell, so that a single one that fell is found as well. A cell that is not on both sides, or has
/// too few runs, leaves it open.
pub fn hold(limit: &ChangeLimit, comparison: &Comparison) -> LimitResult {
    if let Some(open) = without_a_side(limit, comparison.verdict.as_ref()) {
        return open;
    }
    let several = comparison.sides.len() > 2;
    let mut cases = Vec::new();
    for (at, side) in comparison.sides.iter().enumerate().skip(1) {
        let side = if several { format!("{}, ", side.name) } else { String::new() };
        let of_side = against(limit, comparison, at).into_iter();
        cases.extend(
            of_side.map(|case| LimitCase { place: format!("{side}{}", case.place), ..case }),
        );
    }
    cases.extend(comparison.not_on_both_sides.iter().map(|factors| LimitCase {
        outcome: LimitOutcome::Inconclusive,
        place: label(factors),
        words: "not measured on both sides".to_owned(),
    }));
    worst(limit, cases)
}

/// A cell of a metric, with its change on one side.
struct JudgedCell<'a> {
    factors: &'a [(String, String)],
    figure: Option<&'a ComparedFigure>,
    change: Option<&'a Change>,
}

impl JudgedCell<'_> {
    fn changed(&self) -> Option<HeldChange<'_>> {
        let difference = &self.change?.difference;
        let (share, interval) = (difference.share, difference.interval);
        Some(HeldChange { share, interval, unknown: difference.unknown.as_deref() })
    }

    fn case(&self, outcome: LimitOutcome) -> LimitCase {
        let place = label(self.factors);
        match self.figure {
            _ if self.is_struck_out() => LimitCase {
                outcome: LimitOutcome::Inconclusive,
                place,
                words: self
                    .figure
                    .and_then(|it| it.why_struck_out)
                    .unwrap_or(NOT_STORAGE)
                    .to_owned(),
            },
            Some(figure) if figure.is_known() && self.change.is_none() => LimitCase {
                outcome: LimitOutcome::Inconclusive,
                place,
                words: "the baseline is 0 and has no share".to_owned(),
            },
            _ => LimitCase { outcome, place, words: words(self.changed()) },
        }
    }

    /// A fall below any limit, whatever the noise: every run of the baseline has some, and no run of
    /// the other side.
    fn is_fall_to_zero(&self, limit: &ChangeLimit, side: usize) -> bool {
        let values = |side: usize| Some(self.figure?.sides[side].as_ref()?.values.as_slice());
        let is_fallen =
            values(0).zip(values(side)).is_some_and(|(a, b)| significance::is_fall_to_zero(a, b));
        is_fallen && limit.side == ForbiddenSide::Below && self.change.is_some()
    }

    /// A rise from zero, which is no share: enough runs of the baseline have none, and every run of the
    /// other side has some.
    fn of_rise_from_zero(&self, limit: &ChangeLimit, side: usize) -> Option<LimitCase> {
        let values = |side: usize| Some(self.figure?.sides[side].as_ref()?.values.as_slice());
        let (a, b) = values(0).zip(values(side))?;
        let are_enough = a.len().min(b.len()) >= REPEATS_MIN;
        let outcome = match limit.side {
            ForbiddenSide::Below => LimitOutcome::Passed,
            ForbiddenSide::Above => LimitOutcome::Failed,
        };
        let words = "rose from 0 in every run".to_owned();
        (are_enough && significance::is_fall_to_zero(b, a) && !self.is_struck_out())
            .then(|| LimitCase { outcome, place: label(self.factors), words })
    }

    fn is_struck_out(&self) -> bool {
        self.figure.is_some_and(|figure| figure.is_struck_out)
    }

    fn p(&self, limit: &ChangeLimit, side: usize) -> Option<f64> {
        let (figure, change) = (self.figure?, self.change?);
        let values = |side: usize| Some(figure.sides[side].as_ref()?.values.as_slice());
        let (a, b) = (values(0)?, values(side)?);
        significance::p_of_limit(&change.difference, a, b, change.rounds, limit)
    }
}

/// The change over all cells of a later side, and each cell: past the limit only if it is proven
/// among all. A single cell is judged by its own interval.
fn against(limit: &ChangeLimit, comparison: &Comparison, side: usize) -> Vec<LimitCase> {
    let cells = comparison.cells.iter().map(|cell| {
        let figure = cell.figures.iter().find(|figure| figure.metric == limit.metric);
        let change = figure.and_then(|figure| figure.changes[side - 1].as_ref());
        JudgedCell { factors: &cell.factors, figure, change }
    });
    let (nothing, cells): (Vec<_>, Vec<JudgedCell<'_>>) =
        cells.partition(|cell| cell.figure.is_some_and(ComparedFigure::is_nothing));
    if cells.is_empty() && !nothing.is_empty() {
        let words = "0 in every run of every side".to_owned();
        let (outcome, place) = (LimitOutcome::Inconclusive, "all".to_owned());
        return vec![LimitCase { outcome, place, words }];
    }
    let (risen, cells): (Vec<_>, Vec<_>) = cells
        .into_iter()
        .map(|cell| (cell.of_rise_from_zero(limit, side), cell))
        .partition(|(risen, _)| risen.is_some());
    let risen = risen.into_iter().filter_map(|(case, _)| case);
    let cells: Vec<JudgedCell<'_>> = cells.into_iter().map(|(_, cell)| cell).collect();
    let p: Vec<Option<f64>> = cells.iter().map(|cell| cell.p(limit, side)).collect();
    let is_proven = |p: Option<f64>| p.is_some_and(significance::is_significant_one_sided);
    let corrected = cells.iter().zip(significance::holm(&p));
    let Some(whole) = comparison.whole(&limit.metric, side) else {
        let alone = corrected.map(|(cell, p)| {
            cell.case(match outcome(limit, cell.changed()) {
                _ if cell.is_fall_to_zero(limit, side) => LimitOutcome::Failed,
                LimitOutcome::Failed if !is_proven(p) => LimitOutcome::Inconclusive,
                outcome => outcome,
            })
        });
        return alone.chain(risen).collect();
    };
    let changed = Some(HeldChange { share: whole.share, interval: whole.interval, unknown: None });
    let place = format!("over {}", counted(whole.cells as u64, "cell"));
    let over_all = LimitCase { outcome: outcome(limit, changed), place, words: words(changed) };
    let of_cells = corrected.map(|(cell, p)| {
        cell.case(match p {
            _ if cell.is_fall_to_zero(limit, side) => LimitOutcome::Failed,
            None => LimitOutcome::Inconclusive,
            Some(_) if is_proven(p) => LimitOutcome::Failed,
            Some(_) => LimitOutcome::Passed,
        })
    });
    std::iter::once(over_all).chain(of_cells).chain(risen).collect()
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

pub(super) fn outcome(limit: &ChangeLimit, changed: Option<HeldChange<'_>>) -> LimitOutcome {
    let interval = changed.and_then(|changed| changed.interval);
    let Some((low, high)) = interval else { return LimitOutcome::Inconclusive };
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

pub(super) fn words(changed: Option<HeldChange<'_>>) -> String {
    let percent = |share: f64| format!("{} %", signed_percent(share, 1));
    let Some(HeldChange { share, interval, unknown }) = changed else {
        return "not measured".to_owned();
    };
    match interval {
        Some((low, high)) => {
            format!("{}, interval {} to {}", percent(share), percent(low), percent(high))
        }
        None => {
            let why = unknown.map_or_else(String::new, |why| format!(": {why}"));
            format!("{}, interval unknown{why}", percent(share))
        }
    }
}
