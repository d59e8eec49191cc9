//! The page of reports over time: a chart for each figure with its outliers ringed, rises with
//! their causes, the figures that moved together.

use super::super::awr::over_time::{anomalies, figures, moment, rises};
use super::super::charts::{Chart, ChartFrame, ChartSeries, Color, Plot, PlotAxis, Scale, Variant};
use super::super::numbers::{counted, rate};
use super::HtmlError;
use super::page::{Page, Section};
use crate::table::Table;
use petal_judge::awr::over_time::ReportsOverTime;
use petal_judge::over_time::{FigureOverTime, OverTime};

const NOTE: &str = "A ring marks an outlier: more than 3.5 deviations from the median of the same \
                    hours of other days, or of all hours if there are too few of these.";

pub fn over_time(all: &[ReportsOverTime]) -> Result<String, HtmlError> {
    let names: Vec<&str> = all.iter().map(|of| of.name.as_str()).collect();
    let reports: usize = all.iter().map(|of| of.found.moments.len()).sum();
    let page = Page {
        title: "petal: reports over time".to_owned(),
        heading: names.join(", "),
        facts: vec![counted(reports as u64, "report")],
        sections: all.iter().enumerate().map(|(at, of)| section(at, of)).collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Page::default()
    };
    page.render()
}

fn section(number: usize, of: &ReportsOverTime) -> Section {
    let found = &of.found;
    let lines = rises(of).into_iter().map(|text| format!("worst hour: {text}"));
    let mut lines: Vec<String> = lines.collect();
    lines.extend(found.together.iter().map(|it| {
        let how = if it.rho > 0.0 { "with" } else { "against" };
        format!(
            "{} moved {how} {}: rank correlation {:+.2} over {} reports",
            it.one, it.other, it.rho, it.moments
        )
    }));
    lines.extend(of.notes.iter().cloned());
    let charts = found.figures.iter().enumerate();
    Section::new("over-time", "Over time", "the reports' own figures")
        .notes(lines)
        .table("", figures(found))
        .table("Outliers", anomalies(found))
        .charts(
            charts.map(|(at, figure)| chart(&format!("over-time-{number}-{at}"), found, figure)),
        )
}

fn chart(id: &str, found: &OverTime, figure: &FigureOverTime) -> Chart {
    let row = |(at, value): (usize, &Option<f64>)| {
        let judged = figure.judged.get(at).copied().flatten();
        let out = judged.filter(|judged| judged.stands_out());
        let median = judged.map_or_else(String::new, |judged| rate(judged.median));
        let mark = if out.is_some() { "outlier" } else { "" };
        Some([moment(found, at), rate((*value)?), median, mark.to_owned()])
    };
    let rows = figure.values.iter().enumerate().filter_map(row);
    let values = Table::of_columns(["begin", figure.unit, "median", ""]).with_rows(rows);
    Chart::new(id, figure.name, NOTE, Variant::linear(draw(id, found, figure)), values)
        .with_series([ChartSeries::line(0, figure.name, Color::Series(0), "", None)])
}

fn draw(id: &str, found: &OverTime, figure: &FigureOverTime) -> String {
    let first = found.moments.first().and_then(|moment| moment.begin);
    let hours = |at: usize| {
        let begin = found.moments.get(at).and_then(|moment| moment.begin);
        begin.zip(first).map(|(begin, first)| (begin - first).as_seconds_f64() / 3600.0)
    };
    let is_dated = found.moments.iter().all(|moment| moment.begin.is_some());
    let x = |at: usize| hours(at).filter(|_| is_dated).unwrap_or(at as f64);
    let end = x(found.moments.len().saturating_sub(1));
    let values = figure.values.iter().flatten().map(|value| value * 1.05);
    let name = format!("{id}-linear");
    let description = format!("{} over {} reports", figure.name, found.moments.len());
    let unit = if is_dated { "hours" } else { "reports" };
    let across = PlotAxis::new(Scale::linear([0.0, end.max(1.0)]), unit);
    let up = PlotAxis::new(Scale::linear(values.chain([0.0])), figure.unit);
    let texts = (&*name, figure.name, &*description);
    let mut plot = Plot::new(&ChartFrame::wide(texts, 220.0, across, up));
    plot.series(0, |plot| {
        // A report without the figure breaks the line.
        let places: Vec<Option<(f64, f64)>> =
            figure.values.iter().enumerate().map(|(at, value)| Some((x(at), (*value)?))).collect();
        for run in places.split(Option::is_none) {
            let run: Vec<(f64, f64)> = run.iter().copied().flatten().collect();
            plot.line(&run, Color::Series(0), 1.8);
        }
        for (at, place) in places.iter().enumerate() {
            let is_out = figure.judged.get(at).copied().flatten().is_some_and(|it| it.stands_out());
            if let Some(place) = place.filter(|_| is_out) {
                plot.ring(place, Color::Series(1));
            }
        }
    });
    plot.finish()
}
