//! The page of a comparison: the answer, the change of each cell with its interval on one scale, then
//! findings and figures.

use super::super::answer::{letter, metrics_different_first, of_comparison};
use super::super::charts::{Color, Marker, Scale, chart};
use super::super::compare::{
    cells_with, cost_table, difference_table, limit_table, over_all_cells, priced_load, reading,
    side_findings, side_words, table,
};
use super::super::numbers::{UNKNOWN, counted, signed_percent};
use super::super::table::{Align, Cell, Table};
use super::HtmlError;
use super::page::{Page, Section};
use petal_judge::compare::limits::{LimitOutcome, LimitResult};
use petal_judge::compare::{Change, ComparedFigure, Comparison, Significance};
use petal_record::observation::metric;

const NAME_LETTERS_MAX: usize = 24;
/// Rows of the table of changes; more are in the tables of figures.
const ROWS_MAX: usize = 120;
/// Percent that an interval may pass the largest change by, before the frame cuts it.
const BEYOND_PCT: f64 = 50.0;
const NOTE: &str = "The mark is the change from A, the bar its 95 % interval: unknown without a bar, \
                    longer than drawn without a cap. All rows have one scale. Better: up and green; \
                    worse: down and orange; hollow: within the noise, or unknown.";

pub fn comparison(comparison: &Comparison, held: &[LimitResult]) -> Result<String, HtmlError> {
    let names: Vec<&str> = comparison.sides.iter().map(|side| side.name.as_str()).collect();
    let metrics = metrics_different_first(comparison);
    let wholes = metrics.iter().flat_map(|metric| {
        over_all_cells(comparison, metric).into_iter().map(move |line| format!("{metric}, {line}"))
    });
    let sides = || comparison.sides.iter().enumerate();
    let found = sides().flat_map(|(at, side)| side_findings(side).map(move |it| [letter(at), it]));
    let figures = metrics.iter().enumerate().fold(
        Section::new("figures", "Figures", "means of runs, 95 % intervals"),
        |section, (at, metric)| {
            let of_metric = table(comparison, &cells_with(comparison, metric));
            match at {
                0 => section.table(*metric, of_metric),
                _ => section.folded(*metric, of_metric),
            }
        },
    );
    let load = comparison.costs.first().map(priced_load).unwrap_or_default();
    let page = Page {
        title: format!("petal compare: {}", names.join(", ")),
        heading: names.join(" and "),
        answer: of_comparison(comparison),
        next: comparison.verdict.as_ref().map_or_else(String::new, |verdict| verdict.next.clone()),
        facts: sides()
            .map(|(at, side)| format!("{}: {}", letter(at), side_words(at, side)))
            .collect(),
        status: status(comparison, held),
        sections: vec![
            Section::new("limits", "Limits", "fail only when the whole interval is past them")
                .table("", limit_table(held)),
            Section::new("change", "Change of each cell", "in percent of A")
                .table("", changes(comparison, &metrics))
                .notes(wholes),
            Section::new("findings", "Before you believe it", "")
                .notes(comparison.effects.iter().chain(&comparison.notes).map(String::as_str))
                .table(
                    "Warnings and errors of each side's runs",
                    Table::headed("side | finding").with_rows(found),
                ),
            figures,
            Section::new("price", "Price of delivered I/O", "")
                .table(load, cost_table(&comparison.costs)),
            Section::new("differences", "What differs", "settings, database, host")
                .table("", difference_table(comparison)),
            Section::new("reading", "How to read this", "").notes(reading(comparison)),
        ],
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Page::default()
    };
    page.render()
}

/// The verdict of sides that are no storage tests, then the outcome of the gravest limit.
fn status(comparison: &Comparison, held: &[LimitResult]) -> Vec<(&'static str, String)> {
    let is_valid = comparison.verdict.is_none();
    let limits = held.iter().map(|one| one.outcome).max().map(|gravest| match gravest {
        LimitOutcome::Passed if is_valid => ("good", "limits kept"),
        LimitOutcome::Passed => ("", "limits kept"),
        LimitOutcome::Inconclusive => ("warning", "a limit is inconclusive"),
        LimitOutcome::Failed => ("error", "a limit failed"),
    });
    let verdict = (!is_valid).then_some(("warning", "not all sides are storage tests"));
    let all = verdict.into_iter().chain(limits);
    all.map(|(class, words)| (class, words.to_owned())).collect()
}

/// A row of the table of changes: a figure of a cell and a later side.
struct ChartRow<'a> {
    metric: &'a str,
    name: String,
    figure: &'a ComparedFigure,
    change: Option<&'a Change>,
}

impl ChartRow<'_> {
    /// The result in words, with its mark.
    fn result(&self) -> (&'static str, Marker, Color, bool) {
        let noise = |words| (words, Marker::Circle, Color::Muted, true);
        let Some(change) = self.change else {
            return noise(self.figure.why_struck_out.unwrap_or(UNKNOWN));
        };
        let is_more = change.difference.share > 0.0;
        let is_better = metric::is_more_better(self.metric).map(|more| more == is_more);
        match (change.significance, is_better) {
            (Significance::NotSignificant, _) => noise("within the noise"),
            (Significance::Unknown, _) => noise("too few runs"),
            (_, Some(true)) => ("better", Marker::Triangle, Color::Series(2), false),
            (_, Some(false)) => ("worse", Marker::Down, Color::Series(1), false),
            (_, None) => {
                (if is_more { "more" } else { "less" }, Marker::Diamond, Color::Series(0), false)
            }
        }
    }

    /// The change with its interval, drawn and in words.
    fn cell(&self, scale: &Scale) -> Cell {
        let Some((change, interval)) = self.percents() else { return UNKNOWN.into() };
        let signed = |percent: f64| signed_percent(percent / 100.0, 1);
        let words = interval.map(|(low, high)| format!(" ({} to {})", signed(low), signed(high)));
        let (_, marker, color, is_hollow) = self.result();
        let ends = interval.map(|(low, high)| (scale.share(low), scale.share(high)));
        let places = (scale.share(0.0), scale.share(change), ends);
        Cell {
            picture: chart::change(places, marker, color, is_hollow),
            ..format!("{}{}", signed(change), words.unwrap_or_default()).into()
        }
    }
    /// Returns the change and the ends of its interval, in percent.
    fn percents(&self) -> Option<(f64, Option<(f64, f64)>)> {
        let difference = &self.change?.difference;
        let interval = difference.interval.map(|(low, high)| (low * 100.0, high * 100.0));
        Some((difference.share * 100.0, interval))
    }
}

fn rows<'a>(metric: &'a str, comparison: &'a Comparison) -> Vec<ChartRow<'a>> {
    let several = comparison.sides.len() > 2;
    let mut rows = Vec::new();
    for (cell, figure) in cells_with(comparison, metric) {
        let values = cell.factors.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>();
        let values = if values.is_empty() { "all".to_owned() } else { values.join(", ") };
        for (at, change) in figure.changes.iter().enumerate() {
            let side = if several { letter(at + 1) + ": " } else { String::new() };
            let name: String = format!("{side}{values}").chars().take(NAME_LETTERS_MAX).collect();
            rows.push(ChartRow { metric, name, figure, change: change.as_ref() });
        }
    }
    rows
}

/// All changes on one scale. A figure without a known change is in its own table alone.
fn changes(comparison: &Comparison, metrics: &[&str]) -> Table {
    let of_metrics = metrics.iter().map(|metric| rows(metric, comparison));
    let is_known = |rows: &Vec<ChartRow<'_>>| rows.iter().any(|row| row.change.is_some());
    let mut rows: Vec<ChartRow<'_>> = of_metrics.filter(is_known).flatten().collect();
    if rows.is_empty() {
        return Table::default();
    }
    let more = rows.len().saturating_sub(ROWS_MAX) as u64;
    rows.truncate(ROWS_MAX);
    let scale = scale(&rows);
    let keys = comparison.cells.first().into_iter().flat_map(|cell| &cell.factors);
    let keys: Vec<String> = keys.map(|(key, _)| key.to_uppercase()).collect();
    let keys = if keys.is_empty() { "cell".to_owned() } else { keys.join(", ") };
    let names = ["figure", keys.as_str(), "change from A, %", "result"];
    let mut table = Table::new(&names.map(|name| (name, Align::Left)));
    let ticks = scale.ticks(5).into_iter().map(|tick| (scale.share(tick), tick));
    let axis = Cell { picture: chart::axis(ticks), ..Cell::default() };
    table.row(["scale".into(), Cell::default(), axis, Cell::default()]);
    for row in &rows {
        let (result, ..) = row.result();
        table.row([row.metric.into(), row.name.clone().into(), row.cell(&scale), result.into()]);
    }
    let rest = (more > 0).then(|| format!(" {} more in the tables below.", counted(more, "row")));
    table.with_note(format!("{NOTE}{}", rest.unwrap_or_default()))
}

/// Builds a scale over all changes and zero, and over intervals as far as they are not much wider.
fn scale(rows: &[ChartRow<'_>]) -> Scale {
    let known: Vec<_> = rows.iter().filter_map(ChartRow::percents).collect();
    let changes = known.iter().map(|(change, _)| *change);
    let (least, most) = changes
        .fold((0.0, 0.0), |(low, high): (f64, f64), change| (low.min(change), high.max(change)));
    let (floor, roof) = (least - BEYOND_PCT, most + BEYOND_PCT);
    let ends = known.iter().filter_map(|(_, interval)| *interval);
    let (from, to) = ends.fold((least, most), |(from, to), (low, high)| {
        (from.min(low.max(floor)), to.max(high.min(roof)))
    });
    let room = ((to - from) * 0.05).max(0.5);
    Scale::between(from - room, to + room)
}
