//! A history as text: a table for each figure of each cell, a row for each group of runs.

use std::collections::BTreeSet;

use super::compare::{csv_side, verdicts};
use super::exact_rows::ExactRows;
use super::numbers::{UNKNOWN, exact, or_dash, rate, signed_percent};
use super::table::{Table, paragraph};
use super::text::{bullets, caveats, section};
use petal_judge::compare::ContextDifference;
use petal_judge::compare::history::{FigureHistory, History, HistoryGroup, LevelChange, Shift};
use petal_judge::compare::limits::LimitResult;

/// The most facts that are named of the difference between two groups.
const FACTS_MAX: usize = 4;

pub fn render(history: &History, held: &[LimitResult]) -> String {
    let mut out = format!("petal history by {}\n\n", history.by);
    out.push_str(&paragraph("", "", &super::answer::of_history(history)));
    verdicts(&mut out, held);
    out.extend(history.series.iter().map(|series| one(series, &history.by)));
    caveats(&mut out, &history.notes);
    section(&mut out, "how to read this", "");
    bullets(&mut out, READING);
    out
}

/// A figure of a cell: its groups, its trend and its changes.
pub(super) fn one(series: &FigureHistory, by: &str) -> String {
    let mut out = String::new();
    section(&mut out, &title(series), "means of runs, 95 % intervals");
    out.push_str(&table(series, by).render());
    out.push_str(&paragraph("", "  ", &trend(series)));
    let shown: BTreeSet<&str> = series.steps.iter().map(|step| step.group.as_str()).collect();
    let changes = series.changes.iter().filter(|change| shown.contains(change.group.as_str()));
    bullets(&mut out, changes.map(|change| changed(change, &series.steps)));
    out
}

/// Returns a heading, such as `piops, SESSIONS 8`.
pub(super) fn title(series: &FigureHistory) -> String {
    let cell = series.factors.iter().map(|(key, value)| format!("{} {value}", key.to_uppercase()));
    std::iter::once(series.metric.clone()).chain(cell).collect::<Vec<_>>().join(", ")
}

const READING: [&str; 3] = [
    "change % is from the earlier groups at the same level, or from the level before if a new one \
     begins: the mean of its groups, however many runs each has. The variation between groups makes \
     the interval, from the fourth group on. A history without any change shows one in 5 % of cases.",
    "From first to newest is the straight line through the groups' means, or the difference of both \
     levels if levels fit better; it needs four groups.",
    "A limit fails if the whole interval of the newest change, or from first to newest, is past it. \
     It is inconclusive if the interval of the newest change or groups includes it, or if the newest \
     group has no complete run.",
];

pub(super) fn table(series: &FigureHistory, by: &str) -> Table {
    let rows = series.steps.iter().map(|step| {
        let half = step.figures.interval.map(|(low, high)| (high - low) / 2.0);
        let [change, from, to] = shifted(step.shift);
        [
            step.group.clone(),
            step.figures.values.len().to_string(),
            rate(step.figures.mean),
            or_dash(half, rate),
            change,
            from,
            to,
            if step.is_change { "changed" } else { "" }.to_owned(),
        ]
    });
    let heading = format!("{by} | n: | mean: | +-: | change %: | from: | to: | ");
    Table::headed(&heading).with_rows(rows)
}

pub(super) fn shifted(shift: Option<Shift>) -> [String; 3] {
    let percent = |share: f64| signed_percent(share, 1);
    let (low, high) = shift.and_then(|shift| shift.interval).unzip();
    [or_dash(shift, |shift| percent(shift.share)), or_dash(low, percent), or_dash(high, percent)]
}

pub(super) fn trend(series: &FigureHistory) -> String {
    match shifted(series.trend) {
        [share, ..] if share == UNKNOWN => {
            "from first to newest: fewer than four groups".to_owned()
        }
        [share, from, to] => format!("from first to newest: {share} % ({from} to {to})"),
    }
}

/// A change of level: its first group, its size, and other changes at the same time.
fn changed(change: &LevelChange, steps: &[HistoryGroup]) -> String {
    let Some(step) = steps.iter().find(|step| step.group == change.group) else {
        return change.group.clone();
    };
    let fact = |fact: &ContextDifference| {
        let [before, after] =
            [0, 1].map(|at| or_dash(fact.values.get(at).and_then(Option::as_deref), str::to_owned));
        format!("{} {before} -> {after}", fact.name)
    };
    let mut facts: Vec<String> = step.differences.iter().take(FACTS_MAX).map(fact).collect();
    let more = step.differences.len().saturating_sub(FACTS_MAX);
    if more > 0 {
        facts.push(format!("{more} more"));
    }
    let facts = match facts.is_empty() {
        true => "nothing else that was recorded is different".to_owned(),
        false => format!("also different: {}", facts.join("; ")),
    };
    let [share, from, to] = shifted(change.shift);
    let kind = match change.is_lasting {
        true => "a lasting change",
        false => "a change of the newest groups, not yet a lasting one",
    };
    format!("{}: {share} % ({from} to {to}), {kind}; {facts}", step.group)
}

/// The columns of the CSV after the factors.
const CSV_FIGURES: &str = "metric group runs mean low high change_pct change_low_pct \
                           change_high_pct p changed";

/// A row per cell, metric and group.
pub fn csv(history: &History) -> Result<String, csv::Error> {
    let first = history.series.first().into_iter().flat_map(|series| &series.factors);
    let names = first.map(|(key, _)| key.as_str()).chain(CSV_FIGURES.split_whitespace());
    let rows = history.series.iter().flat_map(|series| {
        series.steps.iter().map(move |step| {
            let factors = series.factors.iter().map(|(_, value)| value.clone());
            let mut row: Vec<String> = factors.collect();
            row.extend([series.metric.clone(), step.group.clone()]);
            row.extend(csv_side(Some(&step.figures)));
            let (low, high) = step.shift.and_then(|shift| shift.interval).unzip();
            let shares = [step.shift.map(|shift| shift.share), low, high];
            row.extend(shares.map(|share| exact(share.map(|share| share * 100.0))));
            row.push(exact(step.shift.and_then(|shift| shift.p)));
            row.push(if step.is_change { "changed" } else { "" }.to_owned());
            row
        })
    });
    ExactRows::new(names, rows).csv()
}
