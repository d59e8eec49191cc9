//! Latency of operations and of the device's requests, in the same seconds.

use super::super::super::charts::{Chart, ChartSeries, Color, PlotAxis, Scale, Variant};
use super::super::super::numbers::{decimal, micros, or_dash};
use super::super::super::run::seconds::{SecondFigure, slowest};
use super::{ChartPiece, HEIGHT, TimeAxis, dashed, known_runs};
use crate::table::Table;
use petal_host::os::calls::{CallKind, CalledFiles};
use petal_host::os::requests::RequestKind;
use petal_record::Second;

/// A line: its name, and a figure of one second in microseconds.
struct LatencyLine<'a> {
    name: String,
    of_second: SecondFigure<'a>,
}

/// None if no request was timed.
pub(super) fn of_device(axis: &TimeAxis<'_>) -> Option<Chart> {
    let seen = axis.run.database_host()?;
    let data: Vec<&str> = seen.timed_devices();
    let mut lines: Vec<LatencyLine<'_>> = Vec::new();
    for (kind, percentile) in [
        (RequestKind::Read, "p50"),
        (RequestKind::Read, "p99"),
        (RequestKind::Write, "p99"),
        (RequestKind::Flush, "p99"),
    ] {
        let data = data.clone();
        let of_second = move |second: &Second| {
            let requests = seen.second(second.from_s, second.length_s)?.requests.as_ref()?;
            let summary = requests.service(kind, |device| data.contains(&device)).summary();
            if percentile == "p50" { summary.p50 } else { summary.p99 }
        };
        let name = format!("device {} {percentile}", kind.name());
        lines.push(LatencyLine { name, of_second: Box::new(of_second) });
    }
    for (call, files) in [
        (CallKind::Read, CalledFiles::Data),
        (CallKind::Write, CalledFiles::Data),
        (CallKind::Sync, CalledFiles::Log),
    ] {
        let of_second = move |second: &Second| {
            let calls = seen.second(second.from_s, second.length_s)?.calls.as_ref()?;
            let times = calls.times.iter().find(|it| (it.call, it.files) == (call, files))?;
            times.time.summary().p99
        };
        let name = format!("server's {} {} p99", files.name(), call.name());
        lines.push(LatencyLine { name, of_second: Box::new(of_second) });
    }
    let known = |line: &LatencyLine<'_>| {
        axis.run.details.timeline.iter().any(|second| (line.of_second)(second).is_some())
    };
    lines.retain(known);
    if lines.is_empty() {
        return None;
    }
    for kind in axis.run.summary.latency_us.keys() {
        let (name, of_second) = slowest(axis.run, kind);
        lines.push(LatencyLine { name: format!("{name} (petal)"), of_second });
    }
    let values: Vec<Vec<Option<f64>>> = lines
        .iter()
        .map(|line| {
            let worst = |piece: &ChartPiece<'_>| {
                piece.seconds.iter().filter_map(&line.of_second).reduce(f64::max)
            };
            axis.pieces.iter().map(worst).collect()
        })
        .collect();
    let (id, title) = ("requests", "Latency of operations and of the device's requests");
    let description = "Percentiles of each second, by petal's clock and of single requests.";
    let variant = |name: &'static str, scale: Scale| {
        let y = PlotAxis::new(scale, "us");
        let svg = axis.drawing((&format!("{id}-{name}"), title, description), HEIGHT, y, |plot| {
            for (number, values) in values.iter().enumerate() {
                let attributes = format!("class=\"series\" data-series=\"{number}\" ");
                plot.dashed(&attributes, dashed(number), |plot| {
                    for run in known_runs(&axis.pieces, values) {
                        plot.line(&run, Color::Series(number % 6), 1.6);
                    }
                });
            }
        });
        Variant { name, svg }
    };
    let all = || values.iter().flatten().flatten().copied();
    let variants = vec![variant("log", Scale::log(all())), variant("linear", Scale::linear(all()))];
    let heading: String = lines.iter().map(|line| format!(" | {} us", line.name)).collect();
    let row = |(at, piece): (usize, &ChartPiece<'_>)| {
        let cells = values.iter().map(|values| or_dash(values[at], micros));
        std::iter::once(decimal(piece.begin_s(), 0)).chain(cells).collect::<Vec<String>>()
    };
    let table = Table::of_figures(&format!("from s{heading}"))
        .with_rows(axis.pieces.iter().enumerate().map(row));
    let note = format!(
        "Device: from issue to completion of each request ({}), of all processes, within 1.6 %. \
         Server's calls: from entry to exit. \
         An operation is many requests, and may wait for none.{}",
        data.join(", "),
        axis.note("each figure is of its worst second")
    );
    let series = lines.iter().enumerate().map(|(number, line)| {
        ChartSeries::line(number, &line.name, Color::Series(number % 6), dashed(number), None)
    });
    Some(Chart::new(id, title, note, variants, table).with_series(series.collect::<Vec<_>>()))
}
