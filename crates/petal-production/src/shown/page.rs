//! The page of reports over time: a chart for each figure with its outliers ringed, rises with
//! their causes, the figures that moved together.

use super::over_time::{anomalies, figures, moment, rises};
use crate::moments::{FigureOverTime, OverTime};
use crate::reports::over_time::ReportsOverTime;
use petal_record::profile::time_text;
use petal_report::charts::{Chart, ChartFrame, ChartSeries, Color, Plot, PlotAxis, Scale, Variant};
use petal_report::html::HtmlError;
use petal_report::html::page::{Page, Section};
use petal_report::numbers::{counted, rate};
use petal_report::table::Table;
use time::PrimitiveDateTime;

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
    // A single value is in the table.
    let is_line = |figure: &FigureOverTime| figure.values.iter().flatten().nth(1).is_some();
    let charts = found.figures.iter().filter(|figure| is_line(figure)).enumerate();
    let id = format!("over-time-{number}");
    let charts = charts.map(|(at, figure)| chart(&format!("{id}-{at}"), found, figure));
    let charts: Vec<Chart> = charts.collect();
    Section::new(id, of.name.clone(), "the reports' own figures")
        .notes(lines)
        .table("", figures(found))
        .table("Outliers", anomalies(found))
        .charts(charts)
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

/// An axis of clock times, with the date at midnight. Ends are hours since the begin of `day`.
fn clock(day: PrimitiveDateTime, from: f64, to: f64) -> PlotAxis {
    const TICKS_MAX: f64 = 12.0;
    const STEPS: [f64; 9] = [0.25, 0.5, 1.0, 2.0, 3.0, 6.0, 12.0, 24.0, 48.0];
    let week = 24.0 * 7.0;
    let weeks = ((to - from) / TICKS_MAX / week).ceil().max(1.0) * week;
    let fits = |step: &f64| (to - from) / step <= TICKS_MAX;
    let step = STEPS.into_iter().find(fits).unwrap_or(weeks);
    let ticks = (0..).map(|tick| ((from / step).ceil() + f64::from(tick)) * step);
    let word = |hours: f64| {
        let at = time_text(day + time::Duration::seconds_f64(hours * 3600.0));
        let date_or_time = if hours % 24.0 == 0.0 { at.get(5..10) } else { at.get(11..16) };
        (hours, date_or_time.unwrap_or_default().to_owned())
    };
    let words = ticks.take_while(|at| *at <= to).map(word).collect();
    let title = time_text(day).get(..10).map(|date| format!("from {date}"));
    let scale = Scale::between(from, to);
    PlotAxis { words: Some(words), ..PlotAxis::new(scale, &title.unwrap_or_default()) }
}

fn draw(id: &str, found: &OverTime, figure: &FigureOverTime) -> String {
    let begins: Option<Vec<PrimitiveDateTime>> =
        found.moments.iter().map(|moment| moment.begin).collect();
    let day =
        begins.as_ref().and_then(|begins| begins.first()).map(|first| first.date().midnight());
    let hours = |at: usize| {
        let begin = found.moments.get(at).and_then(|moment| moment.begin);
        begin.zip(day).map(|(begin, day)| (begin - day).as_seconds_f64() / 3600.0)
    };
    let x = |at: usize| hours(at).filter(|_| begins.is_some()).unwrap_or(at as f64);
    let (first, end) = (x(0), x(found.moments.len().saturating_sub(1)));
    let values = figure.values.iter().flatten().map(|value| value * 1.05);
    let name = format!("{id}-linear");
    let description = format!("{} over {} reports", figure.name, found.moments.len());
    let across = match day {
        Some(day) => clock(day, first, end),
        None => PlotAxis::new(Scale::linear([0.0, end.max(1.0)]), "reports"),
    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn the_axis_has_clock_times_and_dates_at_midnight() {
        let words = |from, to| {
            let axis = clock(datetime!(2026-03-02 00:00), from, to);
            let words = axis.words.unwrap_or_default().into_iter().map(|(_, word)| word);
            (words.collect::<Vec<_>>().join(" "), axis.title)
        };
        assert_eq!(
            words(14.5, 17.0).0,
            "14:30 14:45 15:00 15:15 15:30 15:45 16:00 16:15 16:30 16:45 17:00"
        );
        let day = "03-02 02:00 04:00 06:00 08:00 10:00 12:00 14:00 16:00 18:00 20:00 22:00";
        assert_eq!(words(0.0, 23.0), (day.to_owned(), "from 2026-03-02".to_owned()));
        assert_eq!(words(20.0, 120.0).0, "03-03 12:00 03-04 12:00 03-05 12:00 03-06 12:00 03-07");
        assert_eq!(words(0.0, 24.0 * 200.0).0.split(' ').nth(1), Some("03-23"));
        assert_eq!(words(9.0, 9.0).0, "09:00");
    }

    #[test]
    fn each_instance_has_a_section_and_a_single_report_no_chart() {
        let of = |name: &str, values: &[f64]| {
            let begin =
                |at: usize| Some(datetime!(2026-03-02 00:00) + time::Duration::hours(at as i64));
            let moment =
                |at| crate::moments::ReportMoment { begin: begin(at), source: String::new() };
            let moments = (0..values.len()).map(moment).collect();
            let series = vec![("aas", "sessions", values.iter().copied().map(Some).collect())];
            let found = OverTime::of(moments, series, &[]);
            ReportsOverTime {
                name: name.to_owned(),
                found,
                rises: Vec::new(),
                stopped: None,
                notes: Vec::new(),
            }
        };
        let page = over_time(&[of("SHOP shop1", &[1.0, 2.0]), of("SHOP shop2", &[1.0])]).unwrap();
        assert!(page.contains(">SHOP shop1 <small>") && page.contains(">SHOP shop2 <small>"));
        assert!(page.contains("id=\"over-time-0-0"));
        assert!(!page.contains("over-time-1-0"), "a single value is no line");
        let ids: Vec<&str> =
            page.split(" id=\"").skip(1).filter_map(|it| it.split('"').next()).collect();
        assert_eq!(petal_judge::distinct(ids.iter().copied()).len(), ids.len(), "{ids:?}");
    }
}
