//! Latency as a picture: for each piece of time, the share of its operations or requests by latency.

use super::super::super::charts::plot::{Anchor, Word};
use super::super::super::charts::{Color, Plot};
use super::TimeAxis;
use petal_record::latency_log::{Spread, step_us};
use std::collections::BTreeMap;

const COLOR: Color = Color::Series(0);
/// Shades: the highest share of a piece's operations, and the amount of color.
const SHADES: [(f64, f64, &str); 6] = [
    (0.001, 0.16, "0.1 %"),
    (0.01, 0.30, "1 %"),
    (0.03, 0.46, "3 %"),
    (0.1, 0.64, "10 %"),
    (0.3, 0.82, "30 %"),
    (f64::INFINITY, 1.0, "more"),
];

/// Operations by step of latency, in each piece.
pub(super) struct Heat(Vec<BTreeMap<i32, u64>>);

impl Heat {
    /// None if nothing was recorded in any piece.
    pub(super) fn of(axis: &TimeAxis<'_>, spreads: &[Spread]) -> Option<Self> {
        // A second begins a little before or after the sampler's.
        const SLACK_S: f64 = 0.001;
        let pieces = axis.pieces.iter().map(|piece| {
            let from = spreads.partition_point(|s| s.from_s + SLACK_S < piece.begin_s());
            let to = spreads.partition_point(|s| s.from_s + SLACK_S < piece.end_s());
            let mut sum = BTreeMap::new();
            for (step, count) in spreads[from..to.max(from)].iter().flat_map(|s| &s.counts) {
                *sum.entry(*step).or_insert(0) += count;
            }
            sum
        });
        let heat = Self(pieces.collect());
        let is_empty = heat.steps().next().is_none();
        (!is_empty).then_some(heat)
    }

    fn steps(&self) -> impl Iterator<Item = i32> {
        self.0.iter().flat_map(|piece| piece.keys().copied())
    }

    /// The least and the most latency that any operation had, in whole steps.
    pub(super) fn bounds_us(&self) -> [f64; 2] {
        let (low, high) = self
            .steps()
            .fold((i32::MAX, i32::MIN), |(low, high), step| (low.min(step), high.max(step)));
        [step_us(low), step_us(high.saturating_add(1))]
    }

    /// A rectangle for each stretch of pieces with one shade, all of a shade as one path.
    pub(super) fn draw(&self, plot: &mut Plot, axis: &TimeAxis<'_>, events: &str) {
        let shade = |piece: &BTreeMap<i32, u64>, step: i32| {
            let share = *piece.get(&step)? as f64 / piece.values().sum::<u64>() as f64;
            SHADES.iter().position(|(most, ..)| share <= *most)
        };
        let mut by_shade: [Vec<[(f64, f64); 2]>; SHADES.len()] = Default::default();
        let steps: std::collections::BTreeSet<i32> = self.steps().collect();
        for step in steps {
            let shades: Vec<Option<usize>> =
                self.0.iter().map(|piece| shade(piece, step)).collect();
            let mut at = 0;
            for stretch in shades.chunk_by(|a, b| a == b) {
                let pieces = axis.pieces.get(at..at + stretch.len()).unwrap_or_default();
                at += stretch.len();
                let ends = pieces.first().zip(pieces.last());
                if let (Some((first, last)), Some(Some(shade))) = (ends, stretch.first()) {
                    let (low, high) = (step_us(step), step_us(step + 1));
                    by_shade[*shade].push([(first.begin_s(), low), (last.end_s(), high)]);
                }
            }
        }
        for ((_, opacity, _), rectangles) in SHADES.iter().zip(&by_shade) {
            plot.rectangles(rectangles, COLOR, *opacity);
        }
        legend(plot, events);
    }
}

/// Draws the meaning of the shades, at the right of the axis' title.
fn legend(plot: &mut Plot, events: &str) {
    const SIDE: f64 = 12.0;
    const EACH: f64 = 60.0;
    let [_, top, right, _] = plot.edges();
    let left = right - EACH * SHADES.len() as f64;
    let word = |text, anchor| Word { anchor, size: 11.0, ..Word::new(text, Color::Muted) };
    let title = format!("{events} of the moment, up to");
    plot.word(left - 8.0, top - 17.0, word(&title, Anchor::Right));
    for (number, (_, opacity, name)) in SHADES.iter().enumerate() {
        let x = left + EACH * number as f64;
        plot.patch([x, top - 23.0, x + SIDE, top - 23.0 + SIDE], COLOR, *opacity);
        plot.word(x + SIDE + 4.0, top - 17.0, word(name, Anchor::Left));
    }
}
