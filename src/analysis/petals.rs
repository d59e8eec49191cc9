//! Petals: mean single-block read latency against PIOPS, a line per UPDATE_PCT, a point per
//! number of sessions; peak, knee and bend-back of each line, and what the evidence says of the
//! cause. Pure functions of observations; drawing is the reports'.

use crate::record::observation::Observation;

/// The repeats of one figure of one cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Estimate {
    /// Each repeat, in the order of the rounds; outlying ones are in here too.
    pub values: Vec<f64>,
    pub mean: f64,
    /// Sample standard deviation; None of one value.
    pub deviation: Option<f64>,
    /// Half the width of the 95 % interval of the mean (t); None under three values.
    pub half_width: Option<f64>,
}

/// One cell: a number of sessions on a line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    pub sessions: u32,
    /// The folders or files of its repeats.
    pub sources: Vec<String>,
    pub active_bytes: Option<u64>,
    pub piops: Option<Estimate>,
    pub mb_s: Option<Estimate>,
    /// Mean single-block read as the database timed it.
    pub read_us: Option<Estimate>,
    pub ops_s: Option<Estimate>,
    /// Of all operations of the cell together.
    pub op_p50_us: Option<Estimate>,
    pub op_p99_us: Option<Estimate>,
}

/// The points that differ only in sessions, in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    /// What tells it from the other lines, such as `UPDATE_PCT 20`.
    pub name: String,
    /// The factors that are constant on it.
    pub factors: Vec<(String, String)>,
    pub points: Vec<Point>,
    /// Positions in `points`.
    pub peak: Option<usize>,
    pub knee: Option<usize>,
    pub bend_back: Option<BendBack>,
}

/// Where throughput went back after the peak, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct BendBack {
    /// Position in the line's points.
    pub at: usize,
    /// `processor`, `storage`, `log`, `locks`, `cache`, `generator` or `unknown`.
    pub cause: String,
    /// One sentence per piece of evidence.
    pub evidence: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Petals {
    pub lines: Vec<Line>,
    /// What a reader must know before comparing: cells that may not be joined and why.
    pub notes: Vec<String>,
}

impl Petals {
    /// The lines of these observations.
    pub fn of(_observations: &[Observation]) -> Self {
        Self::default()
    }
}
