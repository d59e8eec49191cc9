//! Petals: mean single-block read latency against PIOPS, a line per UPDATE_PCT, a point per number
//! of sessions; peak, knee and bend-back of each line, and the evidence for the cause. Pure
//! functions of observations; drawing is the reports' part.
//!
//! [`lines`] groups observations into lines, [`shape`] finds peak, plateau, knee and bend-back,
//! by [`rising`] tests if a line falls, [`rate_limit`] finds a rate that sessions do not change, [`cause`] weighs the evidence, [`writer_cost`] compares readers alone and with writers, [`verdict`] finds points that are no result, [`notes`] lists
//! warnings for the reader.

mod cause;
mod lines;
mod notes;
mod rate_limit;
mod rising;
mod shape;
#[cfg(test)]
mod tests;
mod verdict;
mod writer_cost;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use super::estimate::Estimate;
use petal_record::headline::AskedFor;
use petal_record::observation::{Observation, metric};
use petal_settings::objective::Objective;
pub use rate_limit::RateLimit;
pub(crate) use shape::POINTS_MIN;
pub use verdict::{Highest, PetalsVerdict};
pub use writer_cost::{WriterCost, WriterCostRow};

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A cell: a number of sessions on a line.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Point {
    pub sessions: u32,
    /// The folders or files of its repeats.
    pub sources: Vec<String>,
    /// The number of its other runs, which are tests of something else: they are in no figure.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
    pub active_bytes: Option<u64>,
    pub piops: Option<Estimate>,
    pub mb_s: Option<Estimate>,
    /// Mean single-block read as the database timed it.
    pub read_us: Option<Estimate>,
    pub ops_s: Option<Estimate>,
    pub logical_reads_s: Option<Estimate>,
    pub redo_mb_s: Option<Estimate>,
    /// Means over the repeats of the percentiles of each run: no percentiles of the cell.
    pub op_p50_us: Option<Estimate>,
    pub op_p99_us: Option<Estimate>,
    /// The ids of its runs' warnings and errors, each once.
    pub warnings: BTreeSet<String>,
    /// Layers that served the reads, of the repeat to which the device served the least; None if
    /// unknown.
    pub served_by: Option<String>,
    /// The limit that most of its repeats met; None if unknown.
    pub limited_by: Option<String>,
    /// The finding that makes one of its runs no storage test; None if all are.
    pub not_storage: Option<String>,
    /// The verdict of its repeats in a few words; None if no record has one.
    #[serde(skip)]
    pub verdict: Option<String>,
    /// Duration of its runs, in seconds.
    pub elapsed_s: Option<Estimate>,
    /// The means over its repeats of all figures, by the names of
    /// [`metric`](petal_record::observation::metric).
    pub means: BTreeMap<String, f64>,
}

/// The points that differ only in sessions, in their order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PetalLine {
    /// Factor that distinguishes it from the other lines, such as `UPDATE_PCT 20`.
    pub name: String,
    /// The factors that are constant on it.
    pub factors: Vec<(String, String)>,
    pub points: Vec<Point>,
    /// The kind of test of all its runs: of physical I/O, unless all are of another kind.
    pub asked_for: AskedFor,
    /// The position in `points` of the highest load: PIOPS in a test of physical I/O. None if no
    /// point is a storage test.
    pub peak: Option<usize>,
    /// The position of the highest of the points that are no storage test, if there is no peak.
    pub struck_out: Option<usize>,
    /// The points around the peak that the repeats do not separate from it; None if the peak is
    /// alone.
    pub plateau: Option<Plateau>,
    /// The position of the plateau's first point, if that is before the peak.
    pub saturated_from: Option<usize>,
    /// The position of the largest PIOPS over read latency, if the intervals of four or more points
    /// show that it is there or at the next point.
    pub knee: Option<usize>,
    /// Change from the knee to the last point.
    pub beyond_knee: Option<BeyondKnee>,
    /// The first point that bends back, else the lowest after the peak; None if the peak is last.
    pub after_peak: Option<AfterPeak>,
    pub bend_back: Option<BendBack>,
    /// The limit that kept the line from rising further, if latency rose much faster. If a line
    /// bends back it is the same cause.
    pub limit: Option<Limit>,
    pub rate_limit: Option<RateLimit>,
    /// The position of the highest load that meets the objective; None without one, too.
    pub within_objective: Option<usize>,
    /// The number of points that the objective does not judge: they lack its figure.
    pub not_judged: usize,
}

/// Neighbouring points that are all as high as the peak, as far as the repeats show.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Plateau {
    /// Positions of the first and the last point.
    pub from: usize,
    pub to: usize,
    /// Mean over the runs of all its points: the peak alone is too high by chance.
    pub piops: f64,
    /// A point on it may be lower than the peak by up to this share, and the runs do not show it.
    pub hides: f64,
}

impl PetalLine {
    /// The limit at the peak, or at one of the line's points: the rate limit that the line proves,
    /// unless a run named its file. None if unknown.
    pub fn limited_by(&self, at: usize) -> Option<&str> {
        let point = self.points.get(at)?;
        let is_held =
            |limit: &&RateLimit| at >= limit.from && !point.warnings.contains(rate_limit::IO_LIMIT);
        let proven = self.rate_limit.as_ref().filter(is_held).map(|limit| limit.words.as_str());
        proven.or(point.limited_by.as_deref())
    }

    /// The verdict, the source of the reads and the warnings at the peak, next to its figure.
    pub fn trust(&self) -> String {
        let point = self.peak.or(self.struck_out).and_then(|at| self.points.get(at));
        let verdict = point.and_then(|point| point.verdict.as_deref());
        let verdict = verdict.map(|verdict| format!("{verdict}; "));
        let struck = match self.struck_out {
            Some(_) => "not a storage test; ".to_owned(),
            None => verdict.unwrap_or_default(),
        };
        let served = point.and_then(|point| point.served_by.as_deref()).unwrap_or("-");
        let warnings = point.into_iter().flat_map(|point| &point.warnings);
        let warnings: Vec<&str> = warnings.map(String::as_str).collect();
        let warnings = match warnings.len() {
            0 => "no warnings".to_owned(),
            1 => format!("warning {}", warnings[0]),
            _ => format!("warnings {}", warnings.join(", ")),
        };
        format!("{struck}served by {served}; {warnings}")
    }
}

/// Changes of PIOPS and read latency from the knee to the last point, as shares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BeyondKnee {
    /// Position in the line's points.
    pub from: usize,
    pub piops_change: f64,
    pub read_us_change: f64,
}

/// A point after the peak, and whether it is lower by more than the repeats differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AfterPeak {
    /// Position in the line's points.
    pub at: usize,
    /// Share of the peak's PIOPS that it lacks.
    pub lower_by: f64,
    pub noise: Noise,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Noise {
    Within,
    Beyond,
    /// Too few repeats: how much they differ is not known.
    Unknown,
}

/// A fall of throughput after the peak, and its cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BendBack {
    /// Position in the line's points.
    pub at: usize,
    /// `processor`, `storage`, `storage or processors: not known`, `log`, `locks`, `cache`,
    /// `generator` or `unknown`.
    pub cause: String,
    /// A sentence per piece of evidence.
    pub evidence: Vec<String>,
}

/// The limit of a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// Cause, as in [`BendBack::cause`].
    pub cause: String,
    pub evidence: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Petals {
    /// Null if all points are storage tests.
    pub verdict: Option<PetalsVerdict>,
    /// The verdicts of the runs, each with their number; says so if the figures have none.
    #[serde(skip)]
    pub tested: String,
    /// The command to type next; empty if no record has one.
    #[serde(skip)]
    pub next: String,
    pub lines: Vec<PetalLine>,
    /// Warnings before a comparison: cells that may not be joined, and the reasons. Each begins
    /// with the id of its finding: `active-set-varies: ...`.
    pub notes: Vec<String>,
    /// Costs for readers that ran alone and with writers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writer_costs: Vec<WriterCost>,
}

/// Ending of the name of a line whose writes are unknown.
pub const READS_ONLY: &str = " (reads only)";

/// Takes the reads for PIOPS if the writes of a run are unknown.
fn with_reads(seen: &Observation) -> Observation {
    let mut seen = seen.clone();
    if let (None, Some(reads)) = (seen.metric(metric::PIOPS), seen.metric(metric::READS)) {
        seen.metrics.insert(metric::PIOPS.to_owned(), reads);
        seen.metrics.insert(metric::READS_ONLY.to_owned(), 1.0);
    }
    seen
}

impl Petals {
    pub fn of(observations: &[Observation]) -> Self {
        let observations: Vec<Observation> = observations.iter().map(with_reads).collect();
        let observations = observations.as_slice();
        let (mut lines, mut notes) = lines::of(observations);
        for line in &mut lines {
            shape::find(line);
            let mut points = line.points.iter();
            if points.any(|point| point.figure(metric::READS_ONLY).is_some()) {
                line.name.push_str(READS_ONLY);
            }
        }
        notes.extend(super::windows::note(observations));
        notes.extend(notes::of(&lines));
        let verdict = verdict::of(&lines, observations);
        let tested = verdict::tested(observations);
        let writer_costs = writer_cost::of(observations);
        let mut petals = Self { verdict, tested, next: String::new(), lines, notes, writer_costs };
        petals.next = petals.next_of(observations);
        petals
    }

    /// Marks on each line the highest load that meets the objective: the most PIOPS (operations if
    /// PIOPS are unknown) among the points whose mean is within it. Without an objective nothing is
    /// marked.
    pub fn with_objective(mut self, objective: Option<&Objective>) -> Self {
        let Some(objective) = objective else { return self };
        for line in &mut self.lines {
            let value = |point: &Point| objective.figure(|name| point.figure(name));
            line.within_objective = shape::highest(
                &line.points,
                |point| value(point).is_some_and(|value| objective.is_met(value)),
                line.asked_for,
            );
            line.not_judged = line.points.iter().filter(|point| value(point).is_none()).count();
        }
        self
    }
}

impl Point {
    /// The load in a test of this kind: PIOPS, logical reads, or redo.
    pub fn load(&self, asked_for: AskedFor) -> Option<&Estimate> {
        match asked_for {
            AskedFor::PhysicalIo => self.piops.as_ref(),
            AskedFor::LogicalReads => self.logical_reads_s.as_ref(),
            AskedFor::Redo => self.redo_mb_s.as_ref(),
        }
    }

    /// The mean over the repeats of any figure, by the names of
    /// [`metric`](petal_record::observation::metric).
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.means.get(name).copied()
    }
}
