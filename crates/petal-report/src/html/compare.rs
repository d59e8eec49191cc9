//! The page of a comparison: the answer, the change of each cell with its interval, then findings
//! and figures.

use super::super::answer::{letter, metrics_different_first, of_comparison};
use super::super::charts::{
    Chart, ChartFrame, ChartSeries, ChartUse, Color, Marker, Plot, PlotAxis, Scale, Variant, Word,
};
use super::super::compare::{
    cells_with, changed, cost_table, difference_table, limit_table, over_all_cells, priced_load,
    reading, side_findings, side_words, table,
};
use super::super::numbers::UNKNOWN;
use super::super::table::Table;
use super::HtmlError;
use super::page::{Page, Section};
use petal_judge::compare::limits::{LimitOutcome, LimitResult};
use petal_judge::compare::{Change, ComparedFigure, Comparison, Significance};

/// The chart is read on a telephone without moving it.
const WIDTH_PX: f64 = 440.0;
const ROW_PX: f64 = 24.0;
const NAME_LETTERS_MAX: usize = 24;
/// Percent that an interval may pass the largest change by, before the frame cuts it.
const BEYOND_PCT: f64 = 50.0;
const NOTE: &str = "The point is the change from A, the bar its 95 % interval: unknown without a bar, \
                    longer than drawn without a cap.";

pub fn comparison(comparison: &Comparison, held: &[LimitResult]) -> Result<String, HtmlError> {
    let names: Vec<&str> = comparison.sides.iter().map(|side| side.name.as_str()).collect();
    let metrics = metrics_different_first(comparison);
    // A figure without a known change is in its table alone.
    let is_known = |metric: &&&str| rows(metric, comparison).iter().any(|row| row.change.is_some());
    let drawn = metrics.iter().filter(is_known).enumerate();
    let charts = drawn.map(|(at, metric)| chart(at, metric, comparison));
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
        facts: sides()
            .map(|(at, side)| format!("{}: {}", letter(at), side_words(at, side)))
            .collect(),
        status: status(held).into_iter().collect(),
        sections: vec![
            Section::new("limits", "Limits", "fail only when the whole interval is past them")
                .table("", limit_table(held)),
            Section::new("change", "Change of each cell", "in percent of A").charts(charts),
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

/// Returns the outcome of the gravest limit.
fn status(held: &[LimitResult]) -> Option<(&'static str, String)> {
    let (class, words) = match held.iter().map(|one| one.outcome).max()? {
        LimitOutcome::Passed => ("good", "limits kept"),
        LimitOutcome::Inconclusive => ("warning", "a limit is inconclusive"),
        LimitOutcome::Failed => ("error", "a limit failed"),
    };
    Some((class, words.to_owned()))
}

/// A row of the chart: a cell and a later side.
struct ChartRow<'a> {
    name: String,
    figure: &'a ComparedFigure,
    change: Option<&'a Change>,
    /// Both sides have a figure.
    is_known: bool,
}

impl ChartRow<'_> {
    fn is_significant(&self) -> bool {
        self.change.is_some_and(|change| change.significance == Significance::Significant)
    }

    /// Returns the change and the ends of its interval, in percent.
    fn percents(&self) -> Option<(f64, Option<(f64, f64)>)> {
        let difference = &self.change?.difference;
        let interval = difference.interval.map(|(low, high)| (low * 100.0, high * 100.0));
        Some((difference.share * 100.0, interval))
    }
}

fn rows<'a>(metric: &str, comparison: &'a Comparison) -> Vec<ChartRow<'a>> {
    let several = comparison.sides.len() > 2;
    let mut rows = Vec::new();
    for (cell, figure) in cells_with(comparison, metric) {
        let values = cell.factors.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>();
        let values = if values.is_empty() { "all".to_owned() } else { values.join(", ") };
        for (at, change) in figure.changes.iter().enumerate() {
            let side = if several { letter(at + 1) + ": " } else { String::new() };
            let name: String = format!("{side}{values}").chars().take(NAME_LETTERS_MAX).collect();
            let is_known = figure.sides[0].is_some() && figure.sides[at + 1].is_some();
            rows.push(ChartRow { name, figure, change: change.as_ref(), is_known });
        }
    }
    rows
}

fn chart(at: usize, metric: &str, comparison: &Comparison) -> Chart {
    let rows = rows(metric, comparison);
    let id = format!("change-{at}");
    let keys = comparison.cells.first().into_iter().flat_map(|cell| &cell.factors);
    let keys: Vec<String> = keys.map(|(key, _)| key.to_uppercase()).collect();
    let count = rows.len() as f64;
    let middle = |row: usize| count - row as f64 - 0.5;
    let words = rows.iter().enumerate().map(|(row, of)| (middle(row), of.name.clone()));
    let description = format!("{metric}: the change of {} cells, with intervals", rows.len());
    let mut plot = Plot::new(&ChartFrame {
        id: &id,
        title: metric,
        description: &description,
        width: WIDTH_PX,
        height: 76.0 + ROW_PX * count,
        x: PlotAxis::new(scale(&rows), "change from A, %"),
        y: PlotAxis { title: keys.join(", "), ..PlotAxis::of_words(words, count) },
        shown: ChartUse::Page,
    });
    plot.line(&[(0.0, 0.0), (0.0, count)], Color::Axis, 1.4);
    for (number, (_, color)) in SERIES.into_iter().enumerate() {
        let is_filled = number == 0;
        plot.series(number, |plot| {
            for (row, of) in
                rows.iter().enumerate().filter(|(_, of)| of.is_significant() == is_filled)
            {
                draw(plot, of, middle(row), color, !is_filled);
            }
        });
    }
    let [left, top, right, bottom] = plot.edges();
    let height = (bottom - top) / count.max(1.0);
    for row in 0..rows.len() {
        let from = top + height * row as f64;
        plot.hit_box([left, from, right, from + height], row);
    }
    let values = rows.iter().map(|row| {
        std::iter::once(row.name.clone()).chain(changed(row.figure, row.change, row.is_known, None))
    });
    let values =
        Table::headed("cell | change %: | from: | to: | p: | significant").with_rows(values);
    let series = SERIES.into_iter().enumerate().map(|(number, (name, color))| {
        ChartSeries::line(number, name, color, "", Some((Marker::Circle, number > 0)))
    });
    let whole = over_all_cells(comparison, metric).into_iter().map(|line| {
        let mut letters = line.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        format!("{}{}.", first.unwrap_or_default(), letters.as_str())
    });
    let how = (at == 0).then(|| NOTE.to_owned());
    let note = whole.chain(how).collect::<Vec<_>>().join(" ");
    let variants = Variant::linear(plot.finish());
    Chart::new(&id, metric, note, variants, values).with_series(series).narrow()
}

const SERIES: [(&str, Color); 2] =
    [("differs", Color::Series(1)), ("within the noise, or unknown", Color::Series(0))];

fn draw(plot: &mut Plot, row: &ChartRow<'_>, level: f64, color: Color, is_hollow: bool) {
    let Some((change, interval)) = row.percents() else {
        let (x, y) = plot.at(0.0, level);
        plot.word(x + 6.0, y, Word::new(UNKNOWN, Color::Muted));
        return;
    };
    if let Some((low, high)) = interval {
        plot.reach(((low + high) / 2.0, level), Some((high - low) / 2.0), None, color);
    }
    plot.marker((change, level), Marker::Circle, color, is_hollow);
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
