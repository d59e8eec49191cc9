//! Latency over time, of one kind of operation or of a device's requests: as a heat map if the record
//! has histograms, and as percentiles.

use std::collections::BTreeMap;

use super::super::super::charts::{Chart, ChartSeries, Color, Plot, PlotAxis, Scale, Variant};
use super::super::super::numbers::{decimal, micros, or_dash, whole};
use super::heat::Heat;
use super::{ChartPiece, PERCENTILES, TimeAxis, known_runs};
use crate::table::Table;
use petal_host::histogram::LatencySummary;
use petal_host::os::requests::RequestKind;
use petal_record::Second;
use petal_record::figures::lower_median;
use petal_record::latency_log::{Spread, step_of};

const HEIGHT: f64 = 250.0;

#[derive(Debug, Clone, Copy)]
struct ChartPercentiles {
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    max: f64,
    count: u64,
}

/// The percentiles of a piece from those of its seconds.
fn percentiles(seconds: &[LatencySummary]) -> Option<ChartPercentiles> {
    type Pick = fn(&LatencySummary) -> Option<f64>;
    let middle = |pick: Pick| lower_median(seconds.iter().filter_map(pick));
    let worst = |pick: Pick| seconds.iter().filter_map(pick).reduce(f64::max);
    Some(ChartPercentiles {
        p50: middle(|latency| latency.p50),
        p90: middle(|latency| latency.p90),
        p99: worst(|latency| latency.p99),
        max: worst(|latency| latency.max)?,
        count: seconds.iter().map(|latency| latency.count).sum(),
    })
}

/// The texts of a chart of latency over time.
struct Texts<'a> {
    id: String,
    title: String,
    y: &'a str,
    /// Operations, or requests.
    events: &'a str,
    note: String,
}

/// The latency of a kind of operation.
pub(super) fn of_kind(
    axis: &TimeAxis<'_>,
    kind: &str,
    spreads: &[Spread],
    number: usize,
) -> Option<Chart> {
    let texts = Texts {
        id: format!("latency-{number}"),
        title: format!("Latency of {kind} over time"),
        y: "operation latency, us (petal's clock)",
        events: "operations",
        note:
            "A whole operation, commit included; in log and linear, bands from p50 to p90 and to \
               p99."
                .to_owned(),
    };
    let heat = Heat::of(axis, spreads);
    chart(axis, &texts, heat.as_ref(), &|second| second.latency_us.get(kind).cloned())
}

/// The service time of a device's requests, on the time axis of the operations.
pub(super) fn of_device(axis: &TimeAxis<'_>, kind: RequestKind) -> Option<Chart> {
    let seen = axis.run.database_host()?;
    let devices = seen.timed_devices();
    let times = |second: &Second| {
        let requests = seen.second(second.from_s, second.length_s)?.requests.as_ref()?;
        Some(requests.service(kind, |device| devices.contains(&device)))
    };
    let spread = |second: &Second| {
        let mut counts = BTreeMap::new();
        for (ns, count) in times(second)?.buckets {
            *counts.entry(step_of(ns as f64 / 1000.0)).or_insert(0) += count;
        }
        Some(Spread { from_s: second.from_s, counts })
    };
    let timeline = axis.pieces.iter().flat_map(|piece| piece.seconds);
    let spreads: Vec<Spread> = timeline.filter_map(spread).collect();
    let heat = Heat::of(axis, &spreads)?;
    let texts = Texts {
        id: format!("device-{}", kind.name()),
        title: format!("Service time of the device's {} requests over time", kind.name()),
        y: "service time, us (the kernel's clock)",
        events: "requests",
        note: format!(
            "From issue to completion of each request ({}), of all processes, within 1.6 %.",
            devices.join(", ")
        ),
    };
    chart(axis, &texts, Some(&heat), &|second| Some(times(second)?.summary()))
}

fn chart(
    axis: &TimeAxis<'_>,
    texts: &Texts<'_>,
    heat: Option<&Heat>,
    of_second: &dyn Fn(&Second) -> Option<LatencySummary>,
) -> Option<Chart> {
    let Texts { id, title, y: y_title, events, note } = texts;
    let pieces = &axis.pieces;
    let of_piece = |piece: &ChartPiece<'_>| {
        let seconds: Vec<LatencySummary> = piece.seconds.iter().filter_map(of_second).collect();
        percentiles(&seconds)
    };
    let values: Vec<Option<ChartPercentiles>> = pieces.iter().map(of_piece).collect();
    let known = || values.iter().flatten();
    known().next()?;
    let description = format!("p50, p90, p99 and the slowest of the {events}, by second.");
    let runs = known_runs(pieces, &values);
    let variant = |name: &'static str, y: Scale, heat: Option<&Heat>| -> Variant {
        let y = PlotAxis::new(y, y_title);
        let id = format!("{id}-{name}");
        let svg = axis.drawing((&id, title, &description), HEIGHT, y, |plot| {
            if let Some(heat) = heat {
                heat.draw(plot, axis, events);
            }
            draw_percentiles(plot, &runs, heat.is_none());
        });
        Variant { name, svg }
    };
    let row = |(piece, value): (&ChartPiece<'_>, &Option<ChartPercentiles>)| {
        let mut cells = vec![decimal(piece.begin_s(), 0)];
        let figures: [fn(ChartPercentiles) -> Option<f64>; 4] =
            [|v| v.p50, |v| v.p90, |v| v.p99, |v| Some(v.max)];
        cells.extend(figures.map(|figure| or_dash(value.and_then(figure), micros)));
        cells.push(or_dash(*value, |value| whole(value.count)));
        cells
    };
    let log = known().flat_map(|value| [value.p50.unwrap_or(value.max), value.max]);
    let linear = known().map(|value| value.max);
    let mut variants: Vec<Variant> = heat
        .map(|heat| variant("heat map", Scale::log(heat.bounds_us()), Some(heat)))
        .into_iter()
        .collect();
    variants.push(variant("log", Scale::log(log), None));
    variants.push(variant("linear", Scale::linear(linear), None));
    let what = "p50 and p90 are those of its middle second, p99 and the slowest of its worst";
    let few = format!(
        " A percentile has a gap if fewer than ten {events} of a second are beyond it.{}",
        axis.note(what)
    );
    let shades = match heat {
        Some(_) => format!(
            "Heat map of the {events} of each moment by latency. Two bands: fast and slow path, such as \
             cache and disk; a missing band: a stall. "
        ),
        None => String::new(),
    };
    let note = format!("{shades}{note}{few}");
    let heading = format!("from s | p50 us | p90 us | p99 us | slowest us | {events}");
    let table = Table::of_figures(&heading).with_rows(pieces.iter().zip(&values).map(row));
    Some(Chart::new(id, title, note, variants, table).with_series([
        ChartSeries::line(0, "p50", PERCENTILES, "", None),
        ChartSeries::line(1, "p90", PERCENTILES, "7 3", None),
        ChartSeries::line(2, "p99", PERCENTILES, "3 3", None),
        ChartSeries::line(3, "slowest", Color::Muted, "1 3", None),
    ]))
}

fn draw_percentiles(plot: &mut Plot, runs: &[Vec<(f64, ChartPercentiles)>], has_bands: bool) {
    type Pick = fn(&ChartPercentiles) -> Option<f64>;
    struct Edge {
        upper: Pick,
        lower: Option<Pick>,
        color: Color,
        dash: &'static str,
        width: f64,
    }
    let color = PERCENTILES;
    let edges = [
        Edge { upper: |v| v.p50, lower: None, color, dash: "none", width: 1.8 },
        Edge { upper: |v| v.p90, lower: Some(|v| v.p50), color, dash: "7 3", width: 1.1 },
        Edge { upper: |v| v.p99, lower: Some(|v| v.p90), color, dash: "3 3", width: 1.3 },
        Edge { upper: |v| Some(v.max), lower: None, color: Color::Muted, dash: "1 3", width: 1.1 },
    ];
    for (number, edge) in edges.iter().enumerate().rev() {
        let attributes = format!("class=\"series\" data-series=\"{number}\" ");
        plot.dashed(&attributes, edge.dash, |plot| {
            // A moment with too few operations for a percentile is a gap in its line.
            for run in runs.iter().flat_map(|run| run.split(|(_, v)| (edge.upper)(v).is_none())) {
                if let Some(lower) = edge.lower.filter(|_| has_bands) {
                    let ends = |(x, v): &(f64, _)| Some((*x, lower(v)?, (edge.upper)(v)?));
                    let band: Vec<_> = run.iter().filter_map(ends).collect();
                    plot.band(&band, edge.color, if number == 1 { 0.3 } else { 0.15 });
                }
                let line = run.iter().filter_map(|(x, v)| Some((*x, (edge.upper)(v)?)));
                plot.line(&line.collect::<Vec<_>>(), edge.color, edge.width);
            }
        });
    }
}
