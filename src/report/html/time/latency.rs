//! Percentiles over time, of one kind of operation.

use super::super::super::charts::{Axis, Color, Figure, Frame, Plot, Scale, Series, Use, Variant};
use super::super::super::numbers::{decimal, micros, or_dash, whole};
use super::{HEIGHT, Piece, WIDTH, hits, known_runs, pieces_note, time_axis};
use crate::record::Run;

/// The percentiles of one piece.
#[derive(Debug, Clone, Copy)]
struct Percentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
    count: u64,
}

fn percentiles(piece: &Piece<'_>, kind: &str) -> Option<Percentiles> {
    let all: Vec<_> =
        piece.seconds.iter().filter_map(|second| second.latency_us.get(kind)).collect();
    let middle = |pick: fn(&crate::stats::histogram::LatencySummary) -> Option<f64>| {
        let mut values: Vec<f64> = all.iter().filter_map(|latency| pick(latency)).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len().checked_sub(1)? / 2).copied()
    };
    let worst = |pick: fn(&crate::stats::histogram::LatencySummary) -> Option<f64>| {
        all.iter().filter_map(|latency| pick(latency)).reduce(f64::max)
    };
    Some(Percentiles {
        p50: middle(|latency| latency.p50)?,
        p90: middle(|latency| latency.p90)?,
        p99: worst(|latency| latency.p99)?,
        max: worst(|latency| latency.max)?,
        count: all.iter().map(|latency| latency.count).sum(),
    })
}

pub(super) fn of_kind(
    run: &Run,
    pieces: &[Piece<'_>],
    kind: &str,
    number: usize,
) -> Option<Figure> {
    let values: Vec<Option<Percentiles>> =
        pieces.iter().map(|piece| percentiles(piece, kind)).collect();
    let known = || values.iter().flatten();
    known().next()?;
    let color = Color::Series([3, 4, 6][number % 3]);
    let id = format!("latency-{number}");
    let title = format!("Latency of {kind} over time");
    let draw = |name: &'static str, y: Scale| -> Variant {
        let mut plot = Plot::new(&Frame {
            id: &format!("{id}-{name}"),
            title: &title,
            description: "p50, p90, p99 and the slowest operation over the seconds of the run.",
            width: WIDTH,
            height: HEIGHT,
            x: time_axis(run, pieces),
            y: Axis::new(y, "operation latency, us (petal's clock)"),
            shown: Use::Page,
        });
        draw_percentiles(&mut plot, &known_runs(pieces, &values), color);
        hits(&mut plot, pieces);
        Variant { name, svg: plot.finish() }
    };
    let log = known().flat_map(|value| [value.p50, value.max]);
    let linear = known().map(|value| value.max);
    let row = |(piece, value): (&Piece<'_>, &Option<Percentiles>)| {
        let mut cells = vec![decimal(piece.begin_s(), 0)];
        let figures: [fn(Percentiles) -> f64; 4] = [|v| v.p50, |v| v.p90, |v| v.p99, |v| v.max];
        cells.extend(figures.map(|figure| or_dash(*value, |value| micros(figure(value)))));
        cells.push(or_dash(*value, |value| whole(value.count)));
        cells
    };
    let what = "p50 and p90 are those of its middle second, p99 and the slowest of its worst";
    Some(Figure {
        note: format!(
            "A whole operation, commit included. Bands: p50 to p90, and to p99.{}",
            pieces_note(pieces, what)
        ),
        is_wide: false,
        variants: vec![draw("log", Scale::log(log)), draw("linear", Scale::linear(linear))],
        series: vec![
            Series::line(0, "p50", color, "", None),
            Series::line(1, "p90", color, "7 3", None),
            Series::line(2, "p99", color, "3 3", None),
            Series::line(3, "slowest", Color::Muted, "1 3", None),
        ],
        head: ["from s", "p50 us", "p90 us", "p99 us", "slowest us", "operations"]
            .map(str::to_owned)
            .into(),
        rows: pieces.iter().zip(&values).map(row).collect(),
        id,
        title,
    })
}

fn draw_percentiles(plot: &mut Plot, runs: &[Vec<(f64, Percentiles)>], color: Color) {
    type Pick = fn(&Percentiles) -> f64;
    struct Edge {
        upper: Pick,
        lower: Option<Pick>,
        color: Color,
        dash: &'static str,
        width: f64,
    }
    let edges = [
        Edge { upper: |v| v.p50, lower: None, color, dash: "none", width: 1.8 },
        Edge { upper: |v| v.p90, lower: Some(|v| v.p50), color, dash: "7 3", width: 1.1 },
        Edge { upper: |v| v.p99, lower: Some(|v| v.p90), color, dash: "3 3", width: 1.1 },
        Edge { upper: |v| v.max, lower: None, color: Color::Muted, dash: "1 3", width: 1.1 },
    ];
    for (number, edge) in edges.iter().enumerate().rev() {
        let attributes =
            format!("class=\"series\" data-series=\"{number}\" stroke-dasharray=\"{}\"", edge.dash);
        plot.group(&attributes, |plot| {
            for run in runs {
                if let Some(lower) = edge.lower {
                    let band: Vec<_> =
                        run.iter().map(|(x, v)| (*x, lower(v), (edge.upper)(v))).collect();
                    plot.band(&band, edge.color, if number == 1 { 0.3 } else { 0.15 });
                }
                let line: Vec<_> = run.iter().map(|(x, v)| (*x, (edge.upper)(v))).collect();
                plot.line(&line, edge.color, edge.width);
            }
        });
    }
}
