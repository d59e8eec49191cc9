//! Chooses the next cell of a sweep, from the readings so far: on a line by a ladder that repeats only
//! peak and knee, by the cell that shows most of both, or by a limit of latency; or each cell until it is
//! known. Pure functions of readings, so that a sweep that was killed goes on with the same choice.

mod cells;
mod curve;
mod lines;
pub(crate) mod repeats;
#[cfg(test)]
mod tests;
mod within;

use crate::estimate::mean;
use crate::seeded_rng::SeededRng;
pub use cells::CellReading;
use curve::PossibleCurves;
pub use lines::{FoundOnLine, found, next, runs_most};
pub use repeats::{CellEnd, RepeatedCell};
pub use within::{LoadWithinLatency, within_latency};

/// Fixed, so that the same readings give the same choice.
const SEED: u64 = 0x006e_6578_7463_656c;
/// Weight of the knee in the choice: power varies twice as much as load, and four times in squares.
const KNEE_WEIGHT: f64 = 4.0;
/// Standard errors on each side of a 95 % interval.
const SIDES: f64 = 1.96;

/// A run on a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineReading {
    /// Position of its cell on the line.
    pub at: usize,
    /// PIOPS; None if the run has no figure.
    pub load: Option<f64>,
    /// PIOPS over read latency; None if unknown.
    pub power: Option<f64>,
    /// The latency that the sweep limits, over the limit; None if unknown or nothing is limited.
    pub latency_share: Option<f64>,
}

/// Peak and knee of a line, from all its readings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeakAndKnee {
    /// Position of the cell with the highest load, and the load.
    pub peak: usize,
    pub load: f64,
    /// Half of the load's 95 % interval, as a share.
    pub load_off: f64,
    /// Position of the cell with the most power; None if no power is known.
    pub knee: Option<usize>,
    /// The share of the most power that the knee may lack, with 95 %; None without a knee.
    pub power_off: Option<f64>,
}

impl PeakAndKnee {
    /// Returns whether the peak, and the knee if there is one, are known within a share.
    pub fn is_within(&self, precision: f64) -> bool {
        self.load_off <= precision && self.power_off.is_none_or(|off| off <= precision)
    }
}

/// Returns the next cell of a ladder: each cell once, from the fewest sessions; then the peak, the
/// knee and the knee's neighbours until each has `repeats` runs. None if nothing is left.
pub fn ladder(cells: usize, readings: &[LineReading], repeats: usize) -> Option<usize> {
    let runs = |at: usize| readings.iter().filter(|reading| reading.at == at).count();
    if let Some(next) = (0..cells).find(|&at| runs(at) == 0) {
        return Some(next);
    }
    let is_bad = |at: usize| readings.iter().any(|r| r.at == at && r.load.is_none());
    let peak = best(cells, readings, |reading| reading.load);
    let knee = best(cells, readings, |reading| reading.power);
    let around =
        knee.map(|at| [at.checked_sub(1), Some(at), Some(at + 1).filter(|at| *at < cells)]);
    let wanted = peak.into_iter().chain(around.into_iter().flatten().flatten());
    wanted.filter(|&at| runs(at) < repeats && !is_bad(at)).min_by_key(|&at| runs(at))
}

/// The cell with the largest mean of a figure.
fn best(
    cells: usize,
    readings: &[LineReading],
    figure: impl Fn(&LineReading) -> Option<f64>,
) -> Option<usize> {
    let of = |at: usize| {
        let own = readings.iter().filter(|reading| reading.at == at);
        mean(&own.filter_map(&figure).collect::<Vec<_>>())
    };
    let known = (0..cells).filter_map(|at| Some((at, of(at)?)));
    known.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
}

/// Possible curves of load and power through the readings of a line.
pub struct LineCurves {
    load: PossibleCurves,
    power: Option<PossibleCurves>,
}

impl LineCurves {
    pub fn through(sessions: &[u32], readings: &[LineReading]) -> Option<Self> {
        let mut rng = SeededRng::seeded(SEED);
        let mut curves = |figure: &dyn Fn(&LineReading) -> Option<f64>| {
            let known = readings.iter().filter_map(|reading| {
                let value = figure(reading).filter(|value| *value > 0.0)?;
                Some((reading.at, value.ln()))
            });
            PossibleCurves::through(sessions, &known.collect::<Vec<_>>(), &mut rng)
        };
        Some(Self { load: curves(&|r| r.load)?, power: curves(&|r| r.power) })
    }

    pub fn peak_and_knee(&self) -> PeakAndKnee {
        let tops = tops(&self.load);
        let (top, variance) = moments(&tops);
        let lacks = self.power.as_ref().map(lacking);
        PeakAndKnee {
            peak: highest(&self.load.mean()),
            load: top.exp(),
            load_off: (SIDES * variance.sqrt()).exp_m1(),
            knee: self.power.as_ref().map(|power| highest(&power.mean())),
            power_off: lacks.map(|lacks| quantile(lacks, 0.95)),
        }
    }

    /// Returns the cell of which one more run shows most of peak and knee.
    fn most_informative(&self, is_bad: impl Fn(usize) -> bool) -> Option<usize> {
        let peak = gains(&self.load, &tops(&self.load));
        let knee = self.power.as_ref().map(|power| gains(power, &lacking(power)));
        let gain = |at: usize| peak[at] + knee.as_ref().map_or(0.0, |knee| KNEE_WEIGHT * knee[at]);
        let cells = (0..peak.len()).filter(|&at| !is_bad(at));
        cells.max_by(|&a, &b| gain(a).total_cmp(&gain(b)))
    }
}

/// Reduction of a figure's variance by one more reading of each cell.
fn gains(curves: &PossibleCurves, figure: &[f64]) -> Vec<f64> {
    let (middle, _) = moments(figure);
    let cells = curves.mean();
    let gain = |(at, mean): (usize, &f64)| {
        let (mut with, mut own) = (0.0, 0.0);
        for (path, value) in curves.paths.iter().zip(figure) {
            with += (path[at] - mean) * (value - middle);
            own += (path[at] - mean).powi(2);
        }
        let count = curves.paths.len() as f64;
        (with / count).powi(2) / (own / count + curves.noise)
    };
    cells.iter().enumerate().map(gain).collect()
}

/// The highest value of each possible curve.
fn tops(curves: &PossibleCurves) -> Vec<f64> {
    let top = |path: &Vec<f64>| path.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    curves.paths.iter().map(top).collect()
}

/// The share of its highest value that each possible curve lacks at the best cell of their mean.
fn lacking(curves: &PossibleCurves) -> Vec<f64> {
    let best = highest(&curves.mean());
    let tops = tops(curves);
    curves.paths.iter().zip(tops).map(|(path, top)| -(path[best] - top).exp_m1()).collect()
}

fn highest(values: &[f64]) -> usize {
    let known = values.iter().enumerate();
    known.max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(at, _)| at)
}

fn moments(values: &[f64]) -> (f64, f64) {
    let middle = mean(values).unwrap_or(0.0);
    let squares = values.iter().map(|value| (value - middle).powi(2)).sum::<f64>();
    (middle, squares / values.len().max(1) as f64)
}

fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1));
    values.get(at).copied().unwrap_or(0.0)
}

/// Positions of the first cell, of each that at least doubles the one before, and of the last.
pub fn doublings(sessions: &[u32]) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for (at, &count) in sessions.iter().enumerate() {
        let is_far = |&before: &usize| u64::from(count) >= 2 * u64::from(sessions[before]);
        if at + 1 == sessions.len() || found.last().is_none_or(is_far) {
            found.push(at);
        }
    }
    found
}

/// Returns the next cell of an adaptive line: the doublings first, then the most informative one,
/// until peak and knee are within `precision` (a share), or there are `most` runs.
pub fn adaptive(
    sessions: &[u32],
    readings: &[LineReading],
    precision: f64,
    most: usize,
) -> Option<usize> {
    if readings.len() >= most {
        return None;
    }
    let is_read = |at: usize| readings.iter().any(|reading| reading.at == at);
    let outline = doublings(sessions);
    if let Some(next) = outline.into_iter().find(|&at| !is_read(at)) {
        return Some(next);
    }
    let is_bad = |at: usize| readings.iter().any(|r| r.at == at && r.load.is_none());
    let curves = LineCurves::through(sessions, readings)?;
    let found = curves.peak_and_knee();
    if found.is_within(precision) {
        return None;
    }
    curves.most_informative(is_bad)
}
