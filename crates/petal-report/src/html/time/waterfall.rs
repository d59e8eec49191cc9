//! The waterfall of an operation over time: its mean time in parts, one upon the other.

use super::super::super::charts::{Chart, ChartSeries, Color, PlotAxis, Scale, Variant};
use super::super::super::numbers::{decimal, micros, or_dash};
use super::super::super::run::waterfall::names;
use super::{ChartPiece, TimeAxis, known_runs};
use crate::table::Table;
use petal_judge::waterfall::of_second;
use petal_record::Second;
use petal_record::waterfall::{PartOfTime, Waterfall};

const HEIGHT: f64 = 250.0;
const PARTS: usize = PartOfTime::ALL.len();
/// Color and opacity of a part. Only neighbours in one layer share a hue.
pub(in crate::html) fn look(part: PartOfTime) -> (Color, f64) {
    let (hue, opacity) = match part {
        PartOfTime::Petal => (0, 0.8),
        PartOfTime::Wire => (0, 0.4),
        PartOfTime::Processor => (2, 0.8),
        PartOfTime::RunQueue => (4, 0.8),
        PartOfTime::FileSystem => (3, 0.8),
        PartOfTime::BlockQueue => (1, 0.4),
        PartOfTime::Device | PartOfTime::Reads => (1, 0.8),
        PartOfTime::Writes => (6, 0.8),
        PartOfTime::Other => (5, 0.8),
    };
    (Color::Series(hue), opacity)
}

/// Means of a piece, each weighted by its operations.
#[derive(Clone, Copy)]
struct Means {
    parts: [Option<f64>; PARTS],
    gap: f64,
    operation: f64,
}

impl Means {
    /// None if no second of the piece has a waterfall.
    fn of(seconds: &[Waterfall]) -> Option<Self> {
        let operations: u64 = seconds.iter().map(|second| second.operations).sum();
        let mean = |figure: &dyn Fn(&Waterfall) -> Option<f64>| {
            let sum = seconds
                .iter()
                .filter_map(|second| Some(figure(second)? * second.operations as f64));
            sum.reduce(|sum, one| sum + one).map(|sum| sum / operations.max(1) as f64)
        };
        Some(Self {
            parts: PartOfTime::ALL.map(|part| mean(&|second| second.part(part))),
            gap: mean(&|second| second.gap_us)?,
            operation: mean(&|second| second.operation_us)?,
        })
    }

    /// The parts that come before this one in the drawing; a difference below 0 draws nothing.
    fn below(&self, number: usize) -> f64 {
        self.parts[..number].iter().flatten().map(|us| us.max(0.0)).sum()
    }
}

/// None if no second of the run is divided.
pub(super) fn of_operations(axis: &TimeAxis<'_>) -> Option<Chart> {
    let divided = |second: &Second| of_second(axis.run, second).filter(|it| !it.parts.is_empty());
    let of_piece = |piece: &ChartPiece<'_>| {
        Means::of(&piece.seconds.iter().filter_map(divided).collect::<Vec<_>>())
    };
    let values: Vec<Option<Means>> = axis.pieces.iter().map(of_piece).collect();
    values.iter().flatten().next()?;
    let (id, title) = ("waterfall", "Waterfall of an operation over time");
    let description = "The mean time of an operation in parts, one upon the other.";
    let top = |means: &Means| means.below(PARTS).max(means.operation);
    let y = PlotAxis::new(Scale::linear(values.iter().flatten().map(top)), "us of an operation");
    let is_known = |number: usize| {
        values.iter().flatten().any(|means| means.parts[number].is_some_and(|us| us > 0.0))
    };
    let svg = axis.drawing((id, title, description), HEIGHT, y, |plot| {
        let runs = known_runs(&axis.pieces, &values);
        for number in (0..PARTS).filter(|&number| is_known(number)) {
            let (color, opacity) = look(PartOfTime::ALL[number]);
            plot.series(number, |plot| {
                for run in &runs {
                    let edges = |(x, means): &(f64, Means)| {
                        (*x, means.below(number), means.below(number + 1))
                    };
                    plot.band(&run.iter().map(edges).collect::<Vec<_>>(), color, opacity);
                }
            });
        }
        plot.series(PARTS, |plot| {
            for run in &runs {
                let line: Vec<_> = run.iter().map(|(x, means)| (*x, means.operation)).collect();
                plot.line(&line, Color::Text, 1.6);
            }
        });
    });
    let heading: String = names().map(|name| format!(" | {name} us")).collect();
    let row = |(piece, means): (&ChartPiece<'_>, &Option<Means>)| {
        let cell = |figure: &dyn Fn(&Means) -> Option<f64>| {
            or_dash(means.as_ref().and_then(figure), micros)
        };
        let mut cells = vec![decimal(piece.begin_s(), 0)];
        cells.extend((0..PARTS).map(|number| cell(&|means| means.parts[number])));
        cells.push(cell(&|means| Some(means.gap)));
        cells.push(cell(&|means| Some(means.operation)));
        cells
    };
    let table = Table::of_figures(&format!("from s{heading} | gap us | operation us"))
        .with_rows(axis.pieces.iter().zip(&values).map(row));
    let note = format!(
        "The line is the operation's time by the clock of its latency; the areas are measured in \
         the kernel. Reads, writes and scans together.{}",
        axis.note("each the mean of its operations")
    );
    let areas = (0..PARTS).filter(|&number| is_known(number)).map(|number| {
        let part = PartOfTime::ALL[number];
        ChartSeries::area(number, part.name(), look(part).0)
    });
    let line = ChartSeries::line(PARTS, "operation", Color::Text, "", None);
    let series: Vec<ChartSeries> = areas.chain([line]).collect();
    Some(Chart::new(id, title, note, Variant::linear(svg), table).with_series(series))
}
