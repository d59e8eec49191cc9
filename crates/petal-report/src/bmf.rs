//! Figures in the Bencher Metric Format (<https://bencher.dev>): a benchmark for each cell, a measure
//! for each of its figures.

use serde_json::{Map, Value, json};

use super::json::pretty;
use petal_judge::compare::history::History;
use petal_judge::compare::{Comparison, label};

/// Longest names that the format takes.
const BENCHMARK_LETTERS_MAX: usize = 1024;
const MEASURE_LETTERS_MAX: usize = 64;

/// The figures, and those that are unknown: the format has no place for a reason.
#[derive(Debug, Default)]
pub struct Bmf {
    benchmarks: Map<String, Value>,
    /// Each with its reason.
    pub left_out: Vec<String>,
}

impl Bmf {
    /// Figures of each later side, and their changes from the baseline.
    pub fn of_comparison(comparison: &Comparison) -> Self {
        let mut bmf = Self::default();
        let several = comparison.sides.len() > 2;
        for cell in &comparison.cells {
            for (at, side) in comparison.sides.iter().enumerate().skip(1) {
                let name = label(&cell.factors);
                let name = if several { format!("{}, {name}", side.name) } else { name };
                for figure in &cell.figures {
                    if let Some(why) = figure.why_struck_out {
                        bmf.left_out.push(format!("{name}, {}: {why}", figure.metric));
                        continue;
                    }
                    let known = figure.sides[at].as_ref();
                    let mean = known.map(|known| (known.mean, known.interval));
                    bmf.add(&name, &figure.metric, mean);
                    let change = figure.changes[at - 1].as_ref().map(|change| &change.difference);
                    let change = change.map(|change| (change.share, change.interval));
                    bmf.add_change(&name, &figure.metric, change);
                }
            }
        }
        let nothing = comparison.verdict.iter().filter(|verdict| verdict.is_without_a_side);
        bmf.left_out.extend(nothing.map(|verdict| verdict.words.clone()));
        let missing = comparison.not_on_both_sides.iter();
        bmf.left_out.extend(missing.map(|cell| format!("{}: not on both sides", label(cell))));
        bmf
    }

    /// Figures of the newest group, and their changes from the level before it.
    pub fn of_history(history: &History) -> Self {
        let mut bmf = Self::default();
        for series in &history.series {
            let (name, metric) = (label(&series.factors), &series.metric);
            let newest = series.at_newest();
            let mean = newest.map(|group| (group.figures.mean, group.figures.interval));
            bmf.add(&name, metric, mean);
            let shift = newest.and_then(|group| group.shift);
            bmf.add_change(&name, metric, shift.map(|shift| (shift.share, shift.interval)));
        }
        let missing = history.not_measured();
        bmf.left_out.extend(missing.map(|case| format!("{}: {}", case.place, case.words)));
        bmf
    }

    pub fn render(&self) -> Result<String, serde_json::Error> {
        pretty(&self.benchmarks)
    }

    fn add_change(&mut self, cell: &str, metric: &str, share: Option<Measured>) {
        let percent = |share: f64| share * 100.0;
        let change = share.map(|(share, interval)| {
            (percent(share), interval.map(|(low, high)| (percent(low), percent(high))))
        });
        self.add(cell, &format!("{metric}_change_pct"), change);
    }

    fn add(&mut self, cell: &str, measure: &str, measured: Option<Measured>) {
        let why = match measured {
            None => "not measured",
            Some((value, _)) if !value.is_finite() => "not a number",
            _ if measure.chars().count() > MEASURE_LETTERS_MAX => "its name is too long",
            Some((value, interval)) => {
                let mut metric = json!({ "value": value });
                if let Some((low, high)) = interval.filter(|(a, b)| (b - a).is_finite()) {
                    metric["lower_value"] = low.into();
                    metric["upper_value"] = high.into();
                }
                let name: String = cell.chars().take(BENCHMARK_LETTERS_MAX).collect();
                let measures = self.benchmarks.entry(name).or_insert_with(|| json!({}));
                measures[measure] = metric;
                return;
            }
        };
        self.left_out.push(format!("{cell}, {measure}: {why}"));
    }
}

/// A value with its 95 % interval.
type Measured = (f64, Option<(f64, f64)>);
