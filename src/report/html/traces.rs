//! A figure of points over another figure, such as latency over depth: some joined by a line, some
//! on their own. What the points are is for [`super::calibrated`] and [`super::calibration`].

use plotters::style::text_anchor::HPos;

use super::super::charts::plot::Word;
use super::super::charts::{
    Axis, ChartError, Color, Figure, Frame, LINE, Marker, Plot, Scale, Series, Use, Variant, Weight,
};

const WIDTH: f64 = 556.0;
const HEIGHT: f64 = 330.0;

/// One row of a figure's table, and where its points are.
pub(super) struct Row {
    pub(super) x: f64,
    pub(super) cells: Vec<String>,
}

/// Points that belong together.
pub(super) struct Trace {
    pub(super) name: String,
    pub(super) color: Color,
    pub(super) marker: Marker,
    pub(super) is_hollow: bool,
    /// Of the line that joins them; None where they stand alone.
    pub(super) dash: Option<&'static str>,
    /// By row of the table: its place there, and how high the point is.
    pub(super) points: Vec<(usize, f64)>,
    /// A word beside its last point.
    pub(super) label: Option<String>,
}

/// What a figure of traces is about.
pub(super) struct Subject<'a> {
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    pub(super) description: &'a str,
    pub(super) note: &'a str,
    pub(super) x_title: &'a str,
    pub(super) y_title: &'a str,
    pub(super) head: &'a [&'a str],
}

/// None where there is no point to draw.
pub(super) fn figure(
    subject: &Subject<'_>,
    rows: &[Row],
    traces: &[Trace],
) -> Result<Option<Figure>, ChartError> {
    let traces: Vec<&Trace> = traces.iter().filter(|trace| !trace.points.is_empty()).collect();
    if traces.is_empty() {
        return Ok(None);
    }
    let mut variants = Vec::new();
    for (name, is_log) in [("linear", false), ("log", true)] {
        variants.push(Variant { name, svg: drawn(subject, rows, &traces, is_log)? });
    }
    let series = traces.iter().enumerate().map(|(number, trace)| {
        let mark = Some((trace.marker, trace.is_hollow));
        Series::line(number, &trace.name, trace.color, trace.dash.unwrap_or("0 99"), mark)
    });
    Ok(Some(Figure {
        id: subject.id.to_owned(),
        title: subject.title.to_owned(),
        note: subject.note.to_owned(),
        is_wide: false,
        variants,
        series: series.collect(),
        head: subject.head.iter().map(|&name| name.to_owned()).collect(),
        rows: rows.iter().map(|row| row.cells.clone()).collect(),
    }))
}

fn drawn(
    subject: &Subject<'_>,
    rows: &[Row],
    traces: &[&Trace],
    is_log: bool,
) -> Result<String, ChartError> {
    let place = |row: usize| rows.get(row).map_or(0.0, |row| row.x);
    let heights = || traces.iter().flat_map(|trace| trace.points.iter().map(|(_, y)| *y));
    let across = traces.iter().flat_map(|trace| trace.points.iter().map(|(row, _)| place(*row)));
    let mut plot = Plot::new(&Frame {
        id: &format!("{}-{}", subject.id, if is_log { "log" } else { "linear" }),
        title: subject.title,
        description: subject.description,
        width: WIDTH,
        height: HEIGHT,
        x: Axis::new(Scale::log(across), subject.x_title),
        y: Axis::new(
            if is_log { Scale::log(heights()) } else { Scale::linear(heights()) },
            subject.y_title,
        ),
        shown: Use::Page,
    });
    let mut labels = plot.labels();
    for (number, trace) in traces.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            trace.points.iter().map(|(row, y)| (place(*row), *y)).collect();
        plot.group(&format!("class=\"series\" data-series=\"{number}\""), |plot| {
            if let Some(dash) = trace.dash {
                let dash = if dash.is_empty() { "none" } else { dash };
                plot.group(&format!("stroke-dasharray=\"{dash}\""), |plot| {
                    plot.line(&points, trace.color, 2.0);
                });
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

fn label(
    plot: &mut Plot,
    labels: &mut super::super::charts::Labels,
    at: (f64, f64),
    text: &str,
    color: Color,
) {
    const SIZE: f64 = 12.0;
    let Some((x, y)) = labels.place(plot.at(at.0, at.1), text, SIZE, Weight::Must) else { return };
    let halo = format!(
        "class=\"halo l-paper\" stroke=\"{}\" stroke-width=\"3\" paint-order=\"stroke\" \
         stroke-linejoin=\"round\"",
        Color::Paper.hex()
    );
    plot.group(&halo, |plot| {
        for (number, text) in text.lines().enumerate() {
            let y = y + number as f64 * SIZE * LINE;
            plot.word(x, y, Word { text, color, size: SIZE, is_bold: true, across: HPos::Left });
        }
    });
}
