//! Predicts PIOPS and read latency at numbers of sessions that were not measured, from the lines of
//! a sweep. Each family of curves predicts cells that it has not seen; the one with the least error
//! is used, and its error is part of the answer. A line that no family fits is not predicted.
//!
//! [`curves`] has families of one line, [`network`] the queueing network of all lines together,
//! [`queues`] solves it.

mod curves;
mod least_squares;
mod network;
pub mod queues;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::by_key;
use crate::estimate::{mean, median, t_quantile};
use crate::petals::{PetalLine, Petals};
pub use curves::DeviceCurves;
use curves::{between, nearest};
use network::{NetworkOfLine, QueueNetwork};
use petal_host::numbers::{counted, decimal};

/// Fewest cells: three make a curve, and one more tests it.
const CELLS_MIN: usize = 4;
/// Fewest cells with a calibrated curve, which has its shape from elsewhere.
const CELLS_MIN_CALIBRATED: usize = 3;
/// The largest median error of held-out cells with which a line is predicted.
const ERROR_MAX: f64 = 0.2;
/// The largest step beyond the measured sessions, as a factor.
const BEYOND_MAX: f64 = 2.0;
/// The level of the interval of a prediction.
pub const PREDICTED_CONFIDENCE: f64 = 0.9;
const UPDATE_PCT: &str = "update_pct";

/// A family of curves of throughput over sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Straight lines between neighbouring cells, by the logarithms.
    Interpolation,
    /// Universal scalability law (Gunther 1993): waiting for a shared resource, and crosstalk that
    /// grows with each pair of sessions.
    Usl,
    /// The curve of a calibrated device, scaled to the cells.
    Calibrated,
    /// Closed queueing network that all lines share.
    Network,
}

impl Family {
    pub const ALL: [Self; 4] = [Self::Interpolation, Self::Usl, Self::Calibrated, Self::Network];

    pub fn words(self) -> &'static str {
        match self {
            Self::Interpolation => "interpolation",
            Self::Usl => "USL",
            Self::Calibrated => "calibrated curve",
            Self::Network => "network",
        }
    }

    fn cells_min(self) -> usize {
        if self == Self::Calibrated { CELLS_MIN_CALIBRATED } else { CELLS_MIN }
    }

    /// The curve of each line; None for a line without enough cells. `near` is a network to begin
    /// the search with.
    fn fit(
        self,
        lines: &[LineCells],
        device: Option<&DeviceCurves>,
        near: Option<&QueueNetwork>,
    ) -> Vec<Option<FittedCurve>> {
        let network = match self {
            Self::Network => QueueNetwork::fit(lines, device, near),
            _ => None,
        };
        let fit = |line: &LineCells| {
            let cells = line.cells.clone();
            let has_updates = line.update_share > 0.0;
            match self {
                Self::Interpolation => (cells.len() > 1).then_some(FittedCurve::Points(cells)),
                Self::Usl => curves::usl(&cells).map(FittedCurve::Usl),
                Self::Calibrated => {
                    let device = device.filter(|_| cells.len() > 1)?.clone();
                    Some(FittedCurve::Calibrated { device, has_updates, cells })
                }
                Self::Network => Some(FittedCurve::Network(network.as_ref()?.of_line(line))),
            }
        };
        lines.iter().map(fit).collect()
    }
}

/// A measured cell.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CellFigures {
    sessions: f64,
    piops: f64,
    /// Physical requests of an operation; 1 if operations are unknown.
    per_operation: f64,
    /// Share of the sessions' time that reads take, by Little's law: PIOPS times read latency over
    /// the sessions. Unknown without read latency.
    in_reads: Option<f64>,
}

/// The measured cells of a line that are storage tests.
#[derive(Debug, Clone)]
struct LineCells {
    name: String,
    /// UPDATEs among the operations; 0 if unknown.
    update_share: f64,
    cells: Vec<CellFigures>,
    /// Median deviation of repeats, as a share; None without repeats.
    noise: Option<f64>,
    /// The finding that makes other points no storage test.
    not_storage: Option<String>,
}

impl LineCells {
    fn of(line: &PetalLine) -> Self {
        let points = || line.points.iter().filter(|point| point.not_storage.is_none());
        let has_operations = points().all(|point| point.ops_s.is_some());
        let cell = |point: &crate::petals::Point| {
            let piops = point.piops.as_ref()?.mean;
            let sessions = f64::from(point.sessions);
            let ops = point.ops_s.as_ref().filter(|_| has_operations).map(|ops| ops.mean);
            let in_reads = point.read_us.as_ref().map(|read| piops * read.mean / 1e6 / sessions);
            let per_operation = ops.map_or(1.0, |ops| piops / ops);
            (piops > 0.0 && per_operation.is_finite()).then_some(CellFigures {
                sessions,
                piops,
                per_operation,
                in_reads,
            })
        };
        let update_pct = line.factors.iter().find(|(key, _)| key == UPDATE_PCT);
        let update_pct: Option<f64> = update_pct.and_then(|(_, value)| value.parse().ok());
        let variations = points().filter_map(|point| point.piops.as_ref()?.variation());
        let not_storage = line.points.iter().find_map(|point| point.not_storage.clone());
        Self {
            not_storage,
            name: line.name.clone(),
            update_share: update_pct.unwrap_or(0.0) / 100.0,
            cells: points().filter_map(cell).collect(),
            noise: median(&variations.collect::<Vec<_>>()),
        }
    }

    fn without(&self, sessions: f64) -> Self {
        let cells = self.cells.iter().filter(|cell| cell.sessions != sessions).copied();
        Self { cells: cells.collect(), ..self.clone() }
    }

    fn position(&self, sessions: f64) -> Option<usize> {
        self.cells.iter().position(|cell| cell.sessions == sessions)
    }

    fn ends(&self) -> Option<(f64, f64)> {
        self.cells.first().zip(self.cells.last()).map(|(low, high)| (low.sessions, high.sessions))
    }

    /// The assumption that the cells contradict, in words.
    fn broken_assumption(&self) -> String {
        let percent = |share: f64| decimal(100.0 * share, 0);
        if let Some(noise) = self.noise.filter(|noise| *noise > ERROR_MAX / 2.0) {
            return format!(
                "repeats of a cell differ by {} % (standard deviation), so that cells do not show the \
                 curve; repeat it on an idle machine",
                percent(noise)
            );
        }
        let per_operation = self.cells.iter().map(|cell| cell.per_operation);
        let most = per_operation.clone().fold(0.0, f64::max);
        let least = per_operation.fold(f64::INFINITY, f64::min);
        if most > least * (1.0 + ERROR_MAX) {
            return format!(
                "an operation takes {} to {} physical requests along the line, and a network takes one \
                 number; a cache that holds a changing share of the data explains it",
                decimal(least, 1),
                decimal(most, 1)
            );
        }
        let falls = |pair: &[CellFigures]| pair[1].piops < pair[0].piops * (1.0 - ERROR_MAX / 2.0);
        let fall = self.cells.windows(2).position(falls).map(|at| at + 1);
        let low = fall.and_then(|at| self.cells.get(at));
        let again = low.filter(|low| {
            let later = self.cells.iter().filter(|cell| cell.sessions > low.sessions);
            later.clone().any(|cell| cell.piops > low.piops * (1.0 + ERROR_MAX / 2.0))
        });
        match again {
            Some(low) => format!(
                "PIOPS fall at {} sessions and rise again, which no network of queues does; add \
                 repeats there",
                low.sessions
            ),
            None => "add cells between the present ones".to_owned(),
        }
    }
}

enum FittedCurve {
    Points(Vec<CellFigures>),
    /// Throughput of one session, waiting, crosstalk.
    Usl([f64; 3]),
    /// The ratio to the device's curve is interpolated between neighbouring cells.
    Calibrated {
        device: DeviceCurves,
        has_updates: bool,
        cells: Vec<CellFigures>,
    },
    Network(NetworkOfLine),
}

impl FittedCurve {
    fn piops(&self, sessions: f64) -> Option<f64> {
        match self {
            Self::Points(cells) => between(cells, sessions, |cell| Some(cell.piops)),
            Self::Usl(found) => Some(curves::usl_piops(*found, sessions)),
            Self::Calibrated { device, has_updates, cells } => {
                let shape = |sessions| device.at(sessions, *has_updates);
                let ratio = nearest(cells, sessions, |it| Some(it.piops / shape(it.sessions)))?;
                Some(ratio * shape(sessions))
            }
            Self::Network(network) => network.piops(sessions),
        }
    }
}

/// A family on lines that differ in UPDATE_PCT only.
struct FamilyTrial {
    family: Family,
    /// The curve of each line through all its cells.
    curves: Vec<Option<FittedCurve>>,
    /// PIOPS of each line's cells, each predicted without the cells of its number of sessions.
    held_out: Vec<Vec<Option<f64>>>,
}

impl FamilyTrial {
    fn of(family: Family, lines: &[LineCells], device: Option<&DeviceCurves>) -> Self {
        let is_judged = |line: &LineCells| line.cells.len() >= family.cells_min();
        let mut held_out: Vec<Vec<Option<f64>>> =
            lines.iter().map(|line| vec![None; line.cells.len()]).collect();
        if !lines.iter().any(is_judged) {
            return Self { family, curves: lines.iter().map(|_| None).collect(), held_out };
        }
        let curves = family.fit(lines, device, None);
        let near = curves.iter().flatten().find_map(|curve| match curve {
            FittedCurve::Network(of_line) => Some(of_line.network()),
            _ => None,
        });
        let mut all: Vec<f64> =
            lines.iter().flat_map(|line| &line.cells).map(|cell| cell.sessions).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        for sessions in all {
            let others: Vec<LineCells> = lines.iter().map(|line| line.without(sessions)).collect();
            let fitted = family.fit(&others, device, near);
            for ((line, curve), predicted) in lines.iter().zip(fitted).zip(&mut held_out) {
                let at = line.position(sessions);
                if let (Some(at), Some(curve)) = (at, curve)
                    && is_judged(line)
                {
                    predicted[at] = curve.piops(sessions);
                }
            }
        }
        Self { family, curves, held_out }
    }

    /// The error of a held-out cell, as the logarithm of predicted over measured PIOPS.
    fn error(&self, lines: &[LineCells], line: usize, cell: usize) -> Option<f64> {
        Some((self.held_out[line][cell]? / lines[line].cells[cell].piops).ln())
    }

    /// Errors as shares. None unless all cells between the ends have one.
    fn errors(&self, lines: &[LineCells], line: usize) -> Option<HeldOut> {
        let last = lines[line].cells.len().checked_sub(1)?;
        let share = |cell| Some((self.error(lines, line, cell)?.exp() - 1.0).abs());
        let inner: Vec<f64> = (1..last).map(share).collect::<Option<_>>()?;
        Some(HeldOut {
            family: self.family,
            median: median(&inner)?,
            largest: inner.iter().copied().fold(0.0, f64::max),
            beyond: share(last),
        })
    }

    /// The factor up to which a prediction may be off, by the held-out errors of all lines except
    /// the cell's own. None under two errors.
    fn reach(
        &self,
        lines: &[LineCells],
        (line, sessions): (usize, f64),
        is_inside: bool,
    ) -> Option<f64> {
        let mut squares = Vec::new();
        for (at, other) in lines.iter().enumerate() {
            let last = other.cells.len().saturating_sub(1);
            let cells = if is_inside { 1..last } else { last..other.cells.len() };
            let own = if at == line { other.position(sessions) } else { None };
            let errors = cells.filter(|cell| Some(*cell) != own);
            squares.extend(errors.filter_map(|cell| Some(self.error(lines, at, cell)?.powi(2))));
        }
        let t =
            t_quantile(PREDICTED_CONFIDENCE, squares.len() as f64).filter(|_| squares.len() > 1)?;
        Some((t * mean(&squares)?.sqrt()).exp())
    }
}

/// The errors of a family on cells that it was not fitted to, as shares.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldOut {
    pub family: Family,
    /// Median and largest error between the fewest and the most sessions, each cell held out once.
    pub median: f64,
    pub largest: f64,
    /// Error at the most sessions, from the other cells; None for interpolation.
    pub beyond: Option<f64>,
}

/// A number of sessions with its prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PredictedCell {
    pub sessions: u32,
    /// Predicted without this cell, if it was measured.
    pub piops: Option<f64>,
    /// The interval that contains the cell at the level [`PREDICTED_CONFIDENCE`], by the errors of
    /// held-out cells; None with too few of them.
    pub interval: Option<(f64, f64)>,
    pub read_us: Option<f64>,
    pub measured_piops: Option<f64>,
    /// The family that predicts it: beyond the cells never interpolation. None without a
    /// prediction.
    pub family: Option<Family>,
    /// Reason for an unknown prediction.
    pub unknown: Option<String>,
}

/// Prediction of one line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PredictedLine {
    pub name: String,
    /// Number of measured cells.
    pub cells: usize,
    /// Families that have enough cells.
    pub held_out: Vec<HeldOut>,
    /// The family with the least error; None if the line is not predicted.
    pub used: Option<Family>,
    /// Reason why the line is not predicted.
    pub refused: Option<String>,
    pub predicted: Vec<PredictedCell>,
}

/// Predicts each line, at the measured sessions and at `asked`. Lines that differ in UPDATE_PCT
/// only share a network.
pub fn predict(
    petals: &Petals,
    asked: &[u32],
    device: Option<&DeviceCurves>,
) -> Vec<PredictedLine> {
    let key = |line: &PetalLine| {
        let others = line.factors.iter().filter(|(key, _)| key != UPDATE_PCT).cloned();
        let active_bytes = line.points.first().and_then(|point| point.active_bytes);
        (others.collect::<Vec<_>>(), active_bytes)
    };
    let groups = by_key(petals.lines.iter().enumerate().map(|(at, line)| (key(line), at)));
    let mut found: Vec<(usize, PredictedLine)> = Vec::new();
    for (_, positions) in groups {
        let lines: Vec<LineCells> =
            positions.iter().map(|&at| LineCells::of(&petals.lines[at])).collect();
        let trial = |family| FamilyTrial::of(family, &lines, device);
        let trials: Vec<FamilyTrial> = Family::ALL.into_iter().map(trial).collect();
        let predict = |at| PredictedGroup { lines: &lines, trials: &trials }.line(at, asked);
        found.extend(positions.iter().enumerate().map(|(at, &place)| (place, predict(at))));
    }
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, line)| line).collect()
}

struct PredictedGroup<'a> {
    lines: &'a [LineCells],
    trials: &'a [FamilyTrial],
}

impl PredictedGroup<'_> {
    fn line(&self, at: usize, asked: &[u32]) -> PredictedLine {
        let line = &self.lines[at];
        let errors = |trial: &FamilyTrial| trial.errors(self.lines, at);
        let held_out: Vec<HeldOut> = self.trials.iter().filter_map(errors).collect();
        let best = held_out.iter().min_by(|a, b| a.median.total_cmp(&b.median));
        let mut predicted = PredictedLine {
            name: line.name.clone(),
            cells: line.cells.len(),
            held_out: held_out.clone(),
            used: None,
            refused: None,
            predicted: Vec::new(),
        };
        predicted.refused = match best {
            None => Some(format!(
                "it has {} with PIOPS{}; a prediction and its test take {CELLS_MIN}: name a sweep with \
                 more session counts, or a folder of such runs",
                counted(line.cells.len() as u64, "cell"),
                line.not_storage.as_ref().map_or_else(String::new, |finding| {
                    format!(" of storage (others are not a storage test: {finding})")
                })
            )),
            Some(best) if best.median > ERROR_MAX => Some(format!(
                "PIOPS do not follow a smooth curve: the best family, {}, has a median error of {} % \
                 on held-out cells, more than {:.0} %; {}",
                best.family.words(),
                decimal(100.0 * best.median, 0),
                100.0 * ERROR_MAX,
                line.broken_assumption()
            )),
            Some(_) => None,
        };
        let Some(best) = best.filter(|_| predicted.refused.is_none()) else { return predicted };
        predicted.used = Some(best.family);
        let measured = line.cells.iter().map(|cell| cell.sessions as u32);
        let mut sessions: Vec<u32> = measured.chain(asked.iter().copied()).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let cell = |sessions| self.cell(at, sessions, best.family, &held_out);
        predicted.predicted = sessions.into_iter().map(cell).collect();
        predicted
    }

    fn cell(&self, at: usize, sessions: u32, used: Family, held_out: &[HeldOut]) -> PredictedCell {
        let line = &self.lines[at];
        let sessions_f = f64::from(sessions);
        let measured = line.position(sessions_f);
        let others = line.without(sessions_f);
        let ends = others.ends();
        let is_inside = ends.is_some_and(|(low, high)| (low..=high).contains(&sessions_f));
        let family = match is_inside {
            true => Ok(used),
            false => family_beyond_cells(sessions_f, ends.map_or(0.0, |ends| ends.1), held_out),
        };
        let trial = family
            .as_ref()
            .ok()
            .and_then(|family| self.trials.iter().find(|trial| trial.family == *family));
        let piops = trial.and_then(|trial| match measured {
            Some(cell) => trial.held_out[at][cell],
            None => trial.curves[at].as_ref()?.piops(sessions_f),
        });
        let reach = trial.and_then(|it| it.reach(self.lines, (at, sessions_f), is_inside));
        let in_reads = nearest(&others.cells, sessions_f, |cell| cell.in_reads);
        PredictedCell {
            sessions,
            piops,
            interval: piops.zip(reach).map(|(piops, reach)| (piops / reach, piops * reach)),
            read_us: piops.zip(in_reads).map(|(piops, share)| share * sessions_f * 1e6 / piops),
            measured_piops: measured.map(|cell| line.cells[cell].piops),
            family: family.as_ref().ok().copied().filter(|_| piops.is_some()),
            unknown: family.err(),
        }
    }
}

/// The family that predicts beyond the cells, or the reason why none does: of those that can, the
/// one with the least error between the cells whose error at the end is small enough.
fn family_beyond_cells(at: f64, last: f64, held_out: &[HeldOut]) -> Result<Family, String> {
    if at < last {
        return Err("below all other cells".to_owned());
    }
    if at > last * BEYOND_MAX {
        return Err(format!("over twice {last} sessions"));
    }
    let mut able: Vec<(&HeldOut, f64)> =
        held_out.iter().filter_map(|held| Some((held, held.beyond?))).collect();
    able.sort_by(|a, b| a.0.median.total_cmp(&b.0.median));
    let fits = able.iter().find(|(_, beyond)| *beyond <= ERROR_MAX);
    let nearest = able.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    match (fits, nearest) {
        (Some((held, _)), _) => Ok(held.family),
        (None, Some((held, beyond))) => {
            let off = decimal(100.0 * beyond, 0);
            Err(format!("{} is off by {off} % at the end", held.family.words()))
        }
        (None, None) => Err("no family fits beyond the cells".to_owned()),
    }
}

/// Held-out errors of a family over the lines that have it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorOverLines {
    pub lines: usize,
    /// Median and mean of the lines' medians.
    pub median: f64,
    pub mean: f64,
}

/// Returns the errors of a family over several lines; None if fewer than two lines have it.
pub fn over_lines(lines: &[PredictedLine], family: Family) -> Option<ErrorOverLines> {
    let held = lines.iter().flat_map(|line| &line.held_out).filter(|held| held.family == family);
    let medians: Vec<f64> = held.map(|held| held.median).collect();
    let lines = Some(medians.len()).filter(|lines| *lines > 1)?;
    Some(ErrorOverLines { lines, median: median(&medians)?, mean: mean(&medians)? })
}
