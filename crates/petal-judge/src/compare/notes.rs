//! Notes on a comparison: its problems, and facts that its reader must know.

use petal_host::numbers::{bytes, counted, decimal, percent};
use std::collections::BTreeSet;

use super::cells::{CellRuns, label};
use super::{ComparedCell, ComparedFigure, ComparedSide, Figures, Significance};
use crate::estimate::{Estimate, REPEATS_MIN};
use crate::significance::NO_RATIO;
use crate::trust::{ENDPOINT_SHARE_MAX, ROWS_MISSING};
use crate::verdict::OF_OTHERS_ALONE;
use crate::{and_more, run_length, windows};
use petal_record::observation::{Observation, metric};

/// The longest run of a cell over its shortest.
const LENGTHS_RATIO_MAX: f64 = 2.0;
/// Number of names of a kind that are printed; the rest are counted.
const NAMED_MAX: usize = 5;
/// Metrics for evenness, by preference: the first that endpoints report is used.
const EVEN_BY: [&str; 3] = [metric::PIOPS, metric::READS, metric::OPS];

/// Returns the sides without the runs whose figures do not represent their cell, and a note on
/// those runs.
pub(super) fn whole_runs(sides: &[ComparedSide]) -> (Vec<ComparedSide>, Vec<String>) {
    let mut left_out = Vec::new();
    let sides = sides
        .iter()
        .map(|side| {
            let whole = side.observations.iter().filter(|seen| match seen.why_unusable() {
                None => true,
                Some(why) => {
                    left_out.push(format!("{} ({why})", seen.source));
                    false
                }
            });
            ComparedSide { observations: whole.cloned().collect(), ..side.clone() }
        })
        .collect();
    let notes = reported("left-out", "not compared: ", left_out, "");
    (sides, notes.into_iter().collect())
}

pub(super) fn of(
    sides: &[ComparedSide],
    matched: &[CellRuns<'_>],
    cells: &[ComparedCell],
) -> Vec<String> {
    let notes = [
        left_out(matched),
        sessions_lost(matched),
        rows_missing(matched),
        windows::note(sides.iter().flat_map(|side| &side.observations)),
        drift(cells),
        single_runs(matched),
        unpaired(sides, cells),
        repeated_by_figures(sides),
        without_ratio(sides, cells),
        active_sets(matched),
        run_lengths(matched),
        uneven_endpoints(sides),
        repeats_vary(sides, cells),
        outlying(sides, matched, cells),
    ];
    notes.into_iter().flatten().collect()
}

/// Counts the runs whose limit was others' work alone, in cells with other runs.
fn left_out(matched: &[CellRuns<'_>]) -> Option<String> {
    let cells = matched.iter().filter(|cell| cell.left_out > 0);
    let parts = cells
        .map(|cell| format!("{}: {}", label(&cell.factors), counted(cell.left_out as u64, "run")));
    reported("left-out", "", parts.collect(), &format!("; {OF_OTHERS_ALONE}"))
}

/// `id: lead a, b and 3 more; advice`.
fn reported(id: &str, lead: &str, mut all: Vec<String>, advice: &str) -> Option<String> {
    if all.is_empty() {
        return None;
    }
    let more = and_more("; ", all.len().saturating_sub(NAMED_MAX));
    all.truncate(NAMED_MAX);
    Some(format!("{id}: {lead}{}{more}{advice}", all.join("; ")))
}

/// Notes runs that lost sessions: their figures are kept, for fewer sessions than requested.
fn sessions_lost(matched: &[CellRuns<'_>]) -> Option<String> {
    let runs = matched.iter().flat_map(|cell| cell.sides.iter().flatten());
    let short = runs.filter_map(|seen| {
        let lost = seen.sessions_lost.filter(|&lost| lost > 0)?;
        let of = seen.sessions.map_or(String::new(), |all| format!(" of {all}"));
        Some(format!("{} lost {lost}{of}", seen.source))
    });
    let advice = "; fewer sessions made these figures than the cell says: find out why, and repeat";
    reported("sessions-lost", "", short.collect(), advice)
}

/// Their figures are kept, and are of other work than the runs of the other side.
fn rows_missing(matched: &[CellRuns<'_>]) -> Option<String> {
    let runs = matched.iter().flat_map(|cell| cell.sides.iter().flatten());
    let short = runs.filter(|seen| seen.warnings.iter().any(|id| id == ROWS_MISSING));
    let short = short.map(|seen| seen.source.clone());
    let advice = "; operations of these runs did not visit the rows asked of them, so their figures \
                  are of other work: load the data again (petal setup --replace), and repeat";
    reported(ROWS_MISSING, "", short.collect(), advice)
}

fn drift(cells: &[ComparedCell]) -> Option<String> {
    let figures = cells.iter().flat_map(|cell| &cell.figures);
    let mut changes = figures.flat_map(|figure| figure.changes.iter().flatten());
    let sequential = changes.any(|change| {
        change.difference.method != super::Method::Paired
            && change.significance != Significance::Unknown
    });
    sequential.then(|| {
        "drift: the sides were not run in turn, so whatever else changed between them (other load, \
         temperature, a fuller drive) is in the difference too; where the change can be switched, \
         run a sweep with the sides as an axis"
            .to_owned()
    })
}

fn single_runs(matched: &[CellRuns<'_>]) -> Option<String> {
    let is_few = |runs: &Vec<&Observation>| (1..REPEATS_MIN).contains(&runs.len());
    let few = matched.iter().filter(|cell| cell.sides.iter().any(is_few)).count();
    (few > 0).then(|| {
        format!(
            "single-run: fewer than three runs on a side in {few} of {} cells: the difference is \
             shown, its significance is unknown; use --repeats 3 or more",
            matched.len()
        )
    })
}

/// Names sides whose figures decided the number of their runs: usual intervals are too narrow for them.
fn repeated_by_figures(sides: &[ComparedSide]) -> Option<String> {
    let is_one =
        |side: &&ComparedSide| side.observations.iter().any(|seen| seen.is_repeated_by_figures);
    let names = sides.iter().filter(is_one).map(|side| side.name.clone());
    let advice = "; figures decided how often each cell was repeated (--precision): its intervals hold at \
                  any number of runs and are wider, and there is no change over all cells";
    reported("repeated-by-figures", "", names.collect(), advice)
}

/// Their figures are in the means, and not in the change.
fn unpaired(sides: &[ComparedSide], cells: &[ComparedCell]) -> Option<String> {
    let runs = |known: &Option<Figures>| known.as_ref().map_or(0, |known| known.values.len());
    let shown = figures(cells).flat_map(|(place, figure)| {
        figure.unpaired().map(move |(side, rounds)| {
            let (a, b) = (runs(&figure.sides[0]), runs(&figure.sides[side]));
            let (metric, name) = (&figure.metric, &sides[side].name);
            format!("{name}, {place}: {metric} of {rounds} rounds, of {a} and {b} runs")
        })
    });
    let advice = "; the change is of these rounds alone, the means are of all runs";
    reported("unpaired", "", shown.collect(), advice)
}

fn without_ratio(sides: &[ComparedSide], cells: &[ComparedCell]) -> Option<String> {
    let shown = figures(cells).flat_map(|(place, figure)| {
        let changes = (1..).zip(&figure.changes);
        changes.filter_map(move |(side, change): (usize, _)| {
            let why = change.as_ref()?.difference.unknown.as_ref()?;
            let name = &sides[side].name;
            (why == NO_RATIO).then(|| format!("{name}, {place}: {}", figure.metric))
        })
    });
    let advice = format!(
        "; {NO_RATIO}: the change compares the rounds' means, and its significance is unknown"
    );
    reported("no-ratio", "", shown.collect(), &advice)
}

/// Returns all figures, each with the name of its cell.
fn figures(cells: &[ComparedCell]) -> impl Iterator<Item = (String, &ComparedFigure)> {
    cells.iter().flat_map(|cell| cell.figures.iter().map(|figure| (label(&cell.factors), figure)))
}

fn active_sets(matched: &[CellRuns<'_>]) -> Option<String> {
    let differing = matched.iter().filter_map(|cell| {
        let sizes: BTreeSet<u64> =
            cell.sides.iter().flatten().filter_map(|seen| seen.active_bytes).collect();
        let sizes: Vec<String> = sizes.into_iter().map(bytes).collect();
        (sizes.len() > 1).then(|| format!("{}: {}", label(&cell.factors), sizes.join(" and ")))
    });
    let advice = "; caches serve them differently, so this is no comparison of like with like";
    reported("active-set-varies", "", differing.collect(), advice)
}

fn run_lengths(matched: &[CellRuns<'_>]) -> Option<String> {
    let differing = matched.iter().filter_map(|cell| {
        let lengths = || cell.sides.iter().flatten().filter_map(|seen| seen.run_length_s());
        let (shortest, longest) = (lengths().reduce(f64::min)?, lengths().reduce(f64::max)?);
        let is_mixed = shortest > 0.0 && longest / shortest > LENGTHS_RATIO_MAX;
        let place = label(&cell.factors);
        is_mixed.then(|| {
            format!(
                "{place}: runs took from {shortest} to {longest} s",
                shortest = run_length(shortest),
                longest = run_length(longest)
            )
        })
    });
    reported("mixed-run-lengths", "", differing.collect(), "; short runs have not settled")
}

/// Notes each run in which an endpoint is too far from the mean of all, and its farthest endpoint.
fn uneven_endpoints(sides: &[ComparedSide]) -> Option<String> {
    let all = sides.iter().flat_map(|side| &side.observations);
    let advice = "; over 5 % from the mean of the endpoints: look at paths, caches and other load \
                  before trusting these runs";
    reported("uneven-endpoints", "", all.filter_map(uneven).collect(), advice)
}

fn uneven(seen: &Observation) -> Option<String> {
    let (name, values) =
        EVEN_BY.iter().find_map(|name| Some((name, seen.endpoints.get(*name)?)))?;
    let mean = values.values().sum::<f64>() / values.len() as f64;
    let share = |value: f64| if mean > 0.0 { value / mean - 1.0 } else { 0.0 };
    let (endpoint, &value) =
        values.iter().max_by(|a, b| share(*a.1).abs().total_cmp(&share(*b.1).abs()))?;
    (share(value).abs() > ENDPOINT_SHARE_MAX).then(|| {
        format!("{}: {endpoint} is {:+.1} % off in {name}", seen.source, share(value) * 100.0)
    })
}

/// The estimates of each cell, metric and side.
fn estimates<'a>(
    sides: &'a [ComparedSide],
    cells: &'a [ComparedCell],
) -> impl Iterator<Item = (&'a ComparedCell, &'a str, usize, &'a str, Estimate)> {
    cells.iter().flat_map(move |cell| {
        cell.figures.iter().flat_map(move |figure| {
            figure.sides.iter().enumerate().filter_map(move |(at, known)| {
                let estimate = Estimate::of(known.as_ref()?.values.clone())?;
                Some((cell, figure.metric.as_str(), at, sides[at].name.as_str(), estimate))
            })
        })
    })
}

fn repeats_vary(sides: &[ComparedSide], cells: &[ComparedCell]) -> Option<String> {
    let varying = estimates(sides, cells).filter(|(.., estimate)| estimate.varies());
    let shown = varying.map(|(cell, metric, _, side, estimate)| {
        let varied = percent(estimate.variation().unwrap_or(0.0));
        format!("{side}, {}: {metric} by {varied} %", label(&cell.factors))
    });
    let advice =
        "; their standard deviation is over 5 % of the mean: find out why before comparing";
    reported("repeats-vary", "", shown.collect(), advice)
}

fn outlying(
    sides: &[ComparedSide],
    matched: &[CellRuns<'_>],
    cells: &[ComparedCell],
) -> Option<String> {
    let shown = estimates(sides, cells).filter_map(|(cell, metric, side_at, side, estimate)| {
        let at = estimate.outlier()?;
        let whole = matched.iter().find(|matched| matched.factors == cell.factors)?;
        let mut known = whole.sides[side_at].iter().filter(|seen| seen.metric(metric).is_some());
        let source = known.nth(at).map_or(String::new(), |seen| seen.source.clone());
        let value = estimate.values[at];
        let mean = estimate.mean;
        let place = label(&cell.factors);
        Some(format!(
            "{side}, {place}: {metric} of {source} is {value}, the mean {mean}",
            value = decimal(value, 1),
            mean = decimal(mean, 1)
        ))
    });
    let advice = " (Grubbs' test, 5 %); they stay in every figure";
    reported("outlying-repeat", "", shown.collect(), advice)
}
