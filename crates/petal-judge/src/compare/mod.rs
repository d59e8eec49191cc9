//! Compares two or more sides cell by cell: each side's figures, the difference from the first side
//! with its interval, other differences of the sides, and warnings for the reader. Pure functions
//! of observations.
//!
//! [`cells`] matches the varied factors, [`rounds`] decides whether sides ran in turn, [`whole`]
//! has the change over all cells, [`verdict`] whether the sides are storage tests, [`worth`] the findings of each side and their effect on the
//! answer, [`notes`] lists problems of a comparison, [`limits`] checks a limit, [`history`] follows
//! a figure over many groups of runs.

mod cells;
pub mod history;
pub mod limits;
mod notes;
mod rounds;
mod sides;
#[cfg(test)]
mod tests;
mod verdict;
mod whole;
mod worth;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::estimate::Estimate;
use super::price::{self, Cost};
use super::significance::{self, Difference, Method};
pub(crate) use cells::is_workload;
pub use cells::label;
use petal_record::headline::Headline;
use petal_record::observation::{Observation, metric};
use petal_settings::objective::Objective;
use petal_settings::table::closest;
pub use verdict::ComparisonVerdict;
pub use whole::WholeChange;
pub use worth::SideFinding;

pub const FORMAT: &str = "petal-compare/1";

/// Metrics that are compared by default, in this order, if they are known. Figures of hooks come
/// after them.
const USUAL: [&str; 10] = [
    metric::PIOPS,
    metric::READS,
    metric::WRITES,
    metric::MB,
    metric::READ_US,
    metric::OPS,
    metric::OP_P50,
    metric::OP_P99,
    metric::COMMITS,
    metric::REDO_MB,
];
const HOOK: &str = "hook_";
/// Metrics of a message that names them all.
const KNOWN_LETTERS_MAX: usize = 100;

/// A side: a name, and its runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ComparedSide {
    pub name: String,
    pub observations: Vec<Observation>,
}

#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Empty: the usual ones.
    pub metrics: Vec<String>,
    /// The caller knows that the rounds were run in turn.
    pub in_turn: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Comparison {
    pub format: String,
    /// Null if the figures of storage can be compared: else the first thing to read.
    pub verdict: Option<ComparisonVerdict>,
    /// The first one is the baseline.
    pub sides: Vec<SideSummary>,
    /// The effects of the sides' findings on the answer. Each begins with the id of its finding.
    pub effects: Vec<String>,
    /// Sentences of the same effects, with which the answer begins.
    #[serde(skip)]
    pub caveats: Vec<String>,
    pub metrics: Vec<String>,
    pub cells: Vec<ComparedCell>,
    /// The change over all cells, for each metric and later side that is known in two or more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wholes: Vec<WholeChange>,
    /// The factors of cells without a whole run on the baseline or on any other side.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_on_both_sides: Vec<Vec<(String, String)>>,
    /// Settings and environment in which the sides differ, and factors.
    pub differences: Vec<ContextDifference>,
    /// Facts that a reader must know first. Each begins with the id of its finding.
    pub notes: Vec<String>,
    /// Sorted by line and side; empty if PRICE_PER_MONTH is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Cost>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SideSummary {
    pub name: String,
    pub runs: usize,
    /// Warnings and errors of its runs.
    pub findings: Vec<SideFinding>,
    /// The headline of each run that has one, by the place of its record.
    pub headlines: BTreeMap<String, Headline>,
}

/// Figures that were measured under the same factors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedCell {
    pub factors: Vec<(String, String)>,
    /// Sorted as [`Comparison::metrics`]; figures that no side knows here are left out.
    pub figures: Vec<ComparedFigure>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedFigure {
    pub metric: String,
    /// Figures by side; null if unknown.
    pub sides: Vec<Option<Figures>>,
    /// The change of each later side from the first.
    pub changes: Vec<Option<Change>>,
    /// A figure of storage in a cell with runs that are no storage test, or of different tests: it is
    /// not compared.
    pub is_struck_out: bool,
    /// The reason, if it is struck out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_struck_out: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    pub values: Vec<f64>,
    pub mean: f64,
    pub deviation: Option<f64>,
    /// 95 %, of the mean.
    pub interval: Option<(f64, f64)>,
}

/// A difference, and its significance among all cells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    #[serde(flatten)]
    pub difference: Difference,
    /// Value after Holm's correction over the cells of this metric and side.
    pub p_corrected: Option<f64>,
    pub significance: Significance,
    /// Number of pairs of runs; null for sides that ran one after the other.
    pub rounds: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Significance {
    Significant,
    NotSignificant,
    Unknown,
}

/// Something in which the sides differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextDifference {
    pub name: String,
    /// Values of each side's runs, null if no run has one.
    pub values: Vec<Option<String>>,
}

/// Reason why there is nothing to compare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    #[error(
        "no cell is on both sides: {0}. Compare runs of the same sessions and settings, or put \
         settings that differ on one side only"
    )]
    NothingInCommon(String),
    #[error("no record has the metric {metric}; {}", did_you_mean(near.as_deref(), known))]
    NoSuchMetric { metric: String, near: Option<String>, known: String },
    #[error("--by {key}: no record has it; {known}")]
    NoSuchKey { key: String, known: String },
}

/// The metric that was probably meant; else a short list, or the command that explains all.
fn did_you_mean(near: Option<&str>, known: &str) -> String {
    match near {
        Some(near) => format!("did you mean {near}? petal help metrics lists all"),
        None if known.len() < KNOWN_LETTERS_MAX => format!("they have: {known}"),
        None => "petal help metrics lists those that petal makes".to_owned(),
    }
}

/// Compares every later side with the first.
pub fn compare(sides: &[ComparedSide], rules: &Rules) -> Result<Comparison, CompareError> {
    // Cells are of all runs: one whose runs all failed is a cell that lacks a side.
    let all = sides;
    let (sides, mut notes) = notes::whole_runs(all);
    if sides.iter().any(|side| side.observations.is_empty()) {
        return Ok(without_a_side(all, notes));
    }
    let metrics = metrics(&sides, &rules.metrics)?;
    let keys = cells::keys(all);
    let (matched, rest) = cells::matched(all, &keys);
    let unmatched = cells::unmatched_cells_note(all, &rest);
    if matched.is_empty() {
        return Err(CompareError::NothingInCommon(unmatched.unwrap_or_default()));
    }
    let is_paired = |cell: &cells::CellRuns<'_>, side: usize| {
        (rules.in_turn || rounds::ran_in_turn(&cell.sides[0], &cell.sides[side]))
            && !cell.is_repeated_by_figures(side)
    };
    let mut compared: Vec<ComparedCell> = matched
        .iter()
        .map(|cell| {
            let paired: Vec<bool> = (1..sides.len()).map(|side| is_paired(cell, side)).collect();
            let figures = metrics.iter().filter_map(|metric| figure(cell, metric, &paired));
            ComparedCell { factors: cell.factors.clone(), figures: figures.collect() }
        })
        .collect();
    correct(&mut compared, &metrics, sides.len());
    let later = |metric| (1..sides.len()).map(move |side| (metric, side));
    // The interval of the whole is of fixed numbers of runs.
    let is_fixed = |side| !matched.iter().any(|cell| cell.is_repeated_by_figures(side));
    let wholes = metrics.iter().flat_map(later).filter(|(_, side)| is_fixed(*side));
    let is_result = |metric: &str| !metric::is_of_storage(metric);
    let struck_out_cells = matched.iter().filter(|cell| struck_out(cell).is_some()).count();
    let wholes = wholes.filter(|(metric, _)| struck_out_cells == 0 || is_result(metric));
    let wholes = wholes.filter_map(|(metric, side)| whole::of(&matched, metric, side, is_paired));
    let wholes = wholes.collect();
    notes.extend(unmatched);
    notes.extend(notes::of(&sides, &matched, &compared));
    let effects = worth::effects(&sides);
    let judged = sides.iter().enumerate().map(|(at, side)| {
        let runs = matched.iter().flat_map(|cell| cell.sides[at].iter().copied());
        ComparedSide { observations: runs.cloned().collect(), ..side.clone() }
    });
    Ok(Comparison {
        format: FORMAT.to_owned(),
        verdict: verdict::of(&judged.collect::<Vec<_>>(), (struck_out_cells, matched.len())),
        sides: sides.iter().map(summary).collect(),
        effects: effects.iter().map(worth::FoundEffect::with_id).collect(),
        caveats: effects.iter().map(worth::FoundEffect::sentence).collect(),
        metrics,
        costs: Vec::new(),
        cells: compared,
        wholes,
        not_on_both_sides: rest.into_iter().map(|cell| cell.factors).collect(),
        differences: cells::context_differences(&sides, &keys),
        notes,
    })
}

/// A comparison with a side that has no run to compare: its verdict, and the sides with their
/// findings.
fn without_a_side(all: &[ComparedSide], notes: Vec<String>) -> Comparison {
    Comparison {
        format: FORMAT.to_owned(),
        verdict: Some(verdict::without_a_side(all)),
        sides: all.iter().map(summary).collect(),
        notes,
        ..Comparison::default()
    }
}

fn summary(side: &ComparedSide) -> SideSummary {
    SideSummary {
        name: side.name.clone(),
        runs: side.observations.len(),
        findings: worth::findings(side),
        headlines: headlines(&side.observations),
    }
}

/// The reason why figures of storage of a cell are not compared.
fn struck_out(cell: &cells::CellRuns<'_>) -> Option<&'static str> {
    verdict::why_struck_out(cell.sides.iter().flatten().copied())
}

pub(crate) fn headlines(seen: &[Observation]) -> BTreeMap<String, Headline> {
    let known = seen.iter().filter_map(|seen| Some((seen.source.clone(), seen.headline.clone()?)));
    known.collect()
}

fn metrics(sides: &[ComparedSide], asked: &[String]) -> Result<Vec<String>, CompareError> {
    let all = sides.iter().flat_map(|side| &side.observations);
    let known: BTreeSet<&String> = all.flat_map(|seen| seen.metrics.keys()).collect();
    if let Some(missing) = asked.iter().find(|name| !known.contains(name)) {
        let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
        return Err(CompareError::NoSuchMetric {
            metric: missing.clone(),
            near: closest(missing, known.iter().copied(), 2).map(str::to_owned),
            known: known.join(", "),
        });
    }
    if !asked.is_empty() {
        return Ok(asked.to_vec());
    }
    let usual = USUAL.iter().map(|name| (*name).to_owned()).filter(|name| known.contains(name));
    let hooks = known.iter().filter(|name| name.starts_with(HOOK)).map(|name| (*name).clone());
    let chosen: Vec<String> = usual.chain(hooks).collect();
    // A table of other figures is compared by all of them.
    let all = || known.iter().map(|name| (*name).clone()).collect();
    Ok(if chosen.is_empty() { all() } else { chosen })
}

fn figure(cell: &cells::CellRuns<'_>, metric: &str, paired: &[bool]) -> Option<ComparedFigure> {
    let sides: Vec<Option<Figures>> = cell.sides.iter().map(|runs| figures(runs, metric)).collect();
    if sides.iter().all(Option::is_none) {
        return None;
    }
    let metric_name = metric.to_owned();
    let why_struck_out = struck_out(cell).filter(|_| metric::is_of_storage(metric));
    if why_struck_out.is_some() {
        let changes = vec![None; cell.sides.len() - 1];
        let is_struck_out = true;
        return Some(ComparedFigure {
            metric: metric_name,
            sides,
            changes,
            is_struck_out,
            why_struck_out,
        });
    }
    let changes = (1..cell.sides.len())
        .map(|side| {
            let (a, b) = (&cell.sides[0], &cell.sides[side]);
            let rounds = paired[side - 1].then(|| rounds::pairs(a, b, metric));
            let difference = match &rounds {
                Some(rounds) => significance::paired(rounds)?,
                None => {
                    let (a, b) = (sides[0].as_ref()?, sides[side].as_ref()?);
                    match cell.is_repeated_by_figures(side) {
                        true => significance::anytime(&a.values, &b.values)?,
                        false => significance::sequential(&a.values, &b.values)?,
                    }
                }
            };
            Some(Change {
                difference,
                p_corrected: None,
                significance: Significance::Unknown,
                rounds: rounds.map(|rounds| rounds.len()),
            })
        })
        .collect();
    Some(ComparedFigure {
        metric: metric_name,
        sides,
        changes,
        is_struck_out: false,
        why_struck_out: None,
    })
}

fn figures(runs: &[&Observation], metric: &str) -> Option<Figures> {
    let values: Vec<f64> = runs.iter().filter_map(|seen| seen.metric(metric)).collect();
    let estimate =
        if is_percentile(metric) { Estimate::of_percentile(values) } else { Estimate::of(values) };
    let is_by_figures = runs.iter().any(|seen| seen.is_repeated_by_figures);
    let estimate = estimate.map(|of| if is_by_figures { of.anytime() } else { of });
    estimate.map(|estimate| Figures {
        values: estimate.values,
        mean: estimate.mean,
        deviation: estimate.deviation,
        interval: estimate.interval,
    })
}

/// `op_p99_us`, `select_p99_9_us`.
fn is_percentile(metric: &str) -> bool {
    metric.split('_').any(|word| {
        word.strip_prefix('p')
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Holm's correction over the cells, for each metric and side.
fn correct(cells: &mut [ComparedCell], metrics: &[String], sides: usize) {
    for metric in metrics {
        for side in 0..sides.saturating_sub(1) {
            let mut changes: Vec<&mut Change> = cells
                .iter_mut()
                .filter_map(|cell| {
                    let figure = cell.figures.iter_mut().find(|f| f.metric == *metric)?;
                    figure.changes[side].as_mut()
                })
                .collect();
            let p: Vec<Option<f64>> = changes.iter().map(|change| change.difference.p).collect();
            for (change, corrected) in changes.iter_mut().zip(significance::holm(&p)) {
                change.p_corrected = corrected;
                change.significance = match corrected {
                    None => Significance::Unknown,
                    Some(p) if significance::is_significant(p) => Significance::Significant,
                    Some(_) => Significance::NotSignificant,
                };
            }
        }
    }
}

impl ComparedFigure {
    /// Later sides with runs outside of rounds, by position, each with its number of paired
    /// rounds.
    pub fn unpaired(&self) -> impl Iterator<Item = (usize, usize)> {
        let runs = |side: usize| self.sides[side].as_ref().map_or(0, |known| known.values.len());
        let changes = (1..).zip(&self.changes);
        let paired = changes.filter_map(|(side, change)| Some((side, change.as_ref()?.rounds?)));
        paired.filter(move |&(side, rounds)| rounds < runs(0).max(runs(side)))
    }
}

impl Comparison {
    /// Adds the cost of each line of each side, at the highest load within an objective.
    pub fn with_costs(mut self, sides: &[ComparedSide], objective: Option<&Objective>) -> Self {
        let of = |side: &ComparedSide| price::of_side(&side.name, &side.observations, objective);
        self.costs = sides.iter().flat_map(of).collect();
        self
    }

    /// Returns all changes of a metric, with their cell and the name of their side.
    pub fn changes<'a>(
        &'a self,
        metric: &'a str,
    ) -> impl Iterator<Item = (&'a ComparedCell, &'a str, Option<&'a Change>)> {
        self.cells.iter().flat_map(move |cell| {
            let figure = cell.figures.iter().find(|figure| figure.metric == metric);
            self.sides.iter().skip(1).enumerate().map(move |(at, side)| {
                let change = figure.and_then(|figure| figure.changes[at].as_ref());
                (cell, side.name.as_str(), change)
            })
        })
    }

    /// Returns the change over all cells of a metric on the later side at this position.
    pub fn whole(&self, metric: &str, side: usize) -> Option<&WholeChange> {
        self.wholes.iter().find(|whole| whole.metric == metric && whole.side == side)
    }

    /// Returns true if any difference is by this method.
    pub fn has(&self, method: Method) -> bool {
        let figures = self.cells.iter().flat_map(|cell| &cell.figures);
        let mut changes = figures.flat_map(|figure| figure.changes.iter().flatten());
        changes.any(|change| change.difference.method == method)
    }
}

impl Significance {
    pub fn words(self) -> &'static str {
        match self {
            Self::Significant => "significant",
            Self::NotSignificant => "not significant",
            Self::Unknown => "unknown",
        }
    }
}
