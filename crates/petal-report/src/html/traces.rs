//! A figure of points over another figure, such as latency over depth: some joined by a line, some
//! alone. [`super::calibrated`], for one, decides the meaning of the points.

use super::super::charts::{
    Chart, ChartFrame, ChartSeries, ChartUse, Color, Labels, Marker, Plot, PlotAxis, Scale,
    Variant, Weight, Word,
};
use crate::table::Table;

const WIDTH: f64 = 556.0;
const HEIGHT: f64 = 330.0;

/// A row of a figure's table, and the places of its points.
pub struct TraceRow {
    pub x: f64,
    pub cells: Vec<String>,
}

pub struct Trace {
    pub name: String,
    pub color: Color,
    pub marker: Marker,
    pub is_hollow: bool,
    /// Dash of the line that joins them; None if they are not joined.
    pub dash: Option<&'static str>,
    /// Points by row of the table: the row's index, and the height of the point.
    pub points: Vec<(usize, f64)>,
    /// Label at its last point.
    pub label: Option<String>,
}

impl Trace {
    /// Builds one curve of several, by its number: its known points joined, and hollow if the line
    /// is dashed.
    pub fn curve(
        number: usize,
        name: String,
        dash: &'static str,
        points: impl Iterator<Item = (usize, Option<f64>)>,
    ) -> Self {
        Self {
            name,
            color: Color::Series(number),
            marker: Marker::of(number),
            is_hollow: !dash.is_empty(),
            dash: Some(dash),
            points: points.filter_map(|(row, y)| Some((row, y?))).collect(),
            label: None,
        }
    }
}

/// Common parts of several charts over the same table.
pub struct ChartSubject<'a> {
    pub description: &'a str,
    pub x_title: &'a str,
    /// Even steps instead of a logarithmic scale.
    pub is_x_linear: bool,
    pub heading: &'a str,
    pub rows: &'a [TraceRow],
}

pub struct TraceChart<'a> {
    pub id: &'a str,
    pub title: &'a str,
    pub y_title: &'a str,
    pub note: &'a str,
    pub traces: Vec<Trace>,
}

/// The charts that have a point to draw.
pub fn parts<'a>(
    subject: &ChartSubject<'_>,
    charts: impl IntoIterator<Item = TraceChart<'a>>,
) -> Vec<Chart> {
    charts.into_iter().filter_map(|chart| figure(subject, chart)).collect()
}

fn figure(subject: &ChartSubject<'_>, mut chart: TraceChart<'_>) -> Option<Chart> {
    chart.traces.retain(|trace| !trace.points.is_empty());
    if chart.traces.is_empty() {
        return None;
    }
    let series = chart.traces.iter().enumerate().map(|(number, trace)| {
        let mark = Some((trace.marker, trace.is_hollow));
        ChartSeries::line(number, &trace.name, trace.color, trace.dash.unwrap_or("0 99"), mark)
    });
    let rows = subject.rows.iter().map(|row| row.cells.clone());
    let values = Table::of_figures(subject.heading).with_rows(rows);
    let variants = Variant::linear_and_log(|is_log| drawn(subject, &chart, is_log));
    let drawn = Chart::new(chart.id, chart.title, chart.note, variants, values);
    Some(drawn.with_series(series).narrow())
}

fn drawn(subject: &ChartSubject<'_>, chart: &TraceChart<'_>, is_log: bool) -> String {
    let place = |row: usize| subject.rows.get(row).map_or(0.0, |row| row.x);
    let traces = &chart.traces;
    let heights = traces.iter().flat_map(|trace| trace.points.iter().map(|(_, y)| *y));
    let across = traces.iter().flat_map(|trace| trace.points.iter().map(|(row, _)| place(*row)));
    let mut plot = Plot::new(&ChartFrame {
        id: &format!("{}-{}", chart.id, if is_log { "log" } else { "linear" }),
        title: chart.title,
        description: subject.description,
        width: WIDTH,
        height: HEIGHT,
        x: PlotAxis::new(Scale::over(across, !subject.is_x_linear), subject.x_title),
        y: PlotAxis::new(Scale::over(heights, is_log), chart.y_title),
        shown: ChartUse::Page,
    });
    let mut labels = plot.labels();
    for (number, trace) in traces.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            trace.points.iter().map(|(row, y)| (place(*row), *y)).collect();
        plot.series(number, |plot| {
            if let Some(dash) = trace.dash {
                plot.dashed("", dash, |plot| plot.line(&points, trace.color, 2.0));
            }
            for &point in &points {
                plot.marker(point, trace.marker, trace.color, trace.is_hollow);
                if trace.dash.is_none() {
                    plot.ring(point, trace.color);
                }
            }
            if let (Some(text), Some(&(x, y))) = (&trace.label, points.last()) {
                label(plot, &mut labels, (x, y), text, trace.color);
            }
            for (&(row, _), &point) in trace.points.iter().zip(&points) {
                plot.hit_point(point, row, "");
            }
        });
    }
    plot.finish()
}

fn label(plot: &mut Plot, labels: &mut Labels, at: (f64, f64), text: &str, color: Color) {
    const SIZE: f64 = 12.0;
    let Some((x, y)) = labels.place(plot.at(at.0, at.1), text, SIZE, Weight::Must) else { return };
    let word = Word { size: SIZE, is_bold: true, ..Word::new(text, color) };
    plot.words_over_marks([(x, y, word)]);
}
