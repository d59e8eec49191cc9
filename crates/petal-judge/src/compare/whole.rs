//! The change over all cells of a metric: the geometric mean of the cells' ratios, with its
//! interval. Every cell has its own noise; their mean has far less, so the whole is known if no
//! cell alone is.

use serde::Serialize;

use super::{ComparedFigure, cells, rounds};
use crate::estimate::{REPEATS_MIN, Uncertain, deviation, mean};
use crate::spread::{self, PooledSpread};

/// Cells whose repeats vary alike share one variance. The test for it is strict, because cells that
/// keep their own variances lose little.
const ALIKE_P_MIN: f64 = 0.25;

/// The change of a metric over all cells of a side that know it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WholeChange {
    pub metric: String,
    /// Position of the later side among the sides.
    pub side: usize,
    /// Number of cells in it.
    pub cells: usize,
    /// Geometric mean of the cells' ratios, less 1.
    pub share: f64,
    /// The 95 % interval of `share`.
    pub interval: Option<(f64, f64)>,
    /// Two-sided, of "no difference".
    pub p: Option<f64>,
    /// True if the cells share one variance, because a test finds no difference between theirs.
    pub is_pooled: bool,
}

/// The logarithms of a cell's ratio: of each round, or of the values of both sides.
enum Logarithms {
    OfRounds(Vec<f64>),
    OfSides([Vec<f64>; 2]),
}

impl Logarithms {
    /// None if a side has too few values, or one that is not above zero, or if no value differs from
    /// another, as rounded ones do not.
    fn of(cell: &cells::CellRuns<'_>, side: usize, metric: &str, is_paired: bool) -> Option<Self> {
        let (a, b) = (&cell.sides[0], &cell.sides[side]);
        let known = |values: &[f64]| values.len() >= REPEATS_MIN && values.iter().all(|v| *v > 0.0);
        let ln = |values: Vec<f64>| values.into_iter().map(f64::ln).collect::<Vec<f64>>();
        let (a, b): (Vec<f64>, Vec<f64>) = match is_paired {
            true => rounds::pairs(a, b, metric).into_iter().unzip(),
            false => {
                let values = |runs: &[&super::Observation]| {
                    runs.iter().filter_map(|seen| seen.metric(metric)).collect()
                };
                (values(a), values(b))
            }
        };
        if !known(&a) || !known(&b) {
            return None;
        }
        let (a, b) = (ln(a), ln(b));
        let logarithms = match is_paired {
            true => Self::OfRounds(a.iter().zip(&b).map(|(a, b)| b - a).collect()),
            false => Self::OfSides([a, b]),
        };
        let varies = |group: &Vec<f64>| deviation(group).is_some_and(|deviation| deviation > 0.0);
        logarithms.groups().iter().any(varies).then_some(logarithms)
    }

    fn change(&self) -> Option<f64> {
        match self {
            Self::OfRounds(rounds) => mean(rounds),
            Self::OfSides([a, b]) => Some(mean(b)? - mean(a)?),
        }
    }

    fn groups(&self) -> &[Vec<f64>] {
        match self {
            Self::OfRounds(rounds) => std::slice::from_ref(rounds),
            Self::OfSides(sides) => sides,
        }
    }
}

/// The change of a metric on a later side. None under two cells that know their noise.
pub(super) fn of(
    matched: &[cells::CellRuns<'_>],
    metric: &str,
    side: usize,
    is_paired: impl Fn(&cells::CellRuns<'_>, usize) -> bool,
) -> Option<WholeChange> {
    let logarithms = |cell| Logarithms::of(cell, side, metric, is_paired(cell, side));
    let known: Vec<Logarithms> = matched.iter().filter_map(logarithms).collect();
    let changes: Option<Vec<f64>> = known.iter().map(Logarithms::change).collect();
    let change = changes.filter(|changes| changes.len() >= 2).and_then(|all| mean(&all))?;
    let (error, freedom, is_pooled) = error(&known)?;
    let known_change = Uncertain { mid: change, error, freedom };
    Some(WholeChange {
        metric: metric.to_owned(),
        side,
        cells: known.len(),
        share: change.exp_m1(),
        interval: known_change.interval().map(|(low, high)| (low.exp_m1(), high.exp_m1())),
        p: known_change.p(),
        is_pooled,
    })
}

/// The standard error of the mean of these changes, its degrees of freedom, and whether it is of a
/// pooled variance. Without pooling they are Satterthwaite's (1946). None if nothing varies.
fn error(known: &[Logarithms]) -> Option<(f64, f64, bool)> {
    let groups: Vec<&Vec<f64>> = known.iter().flat_map(Logarithms::groups).collect();
    let spreads: Option<Vec<PooledSpread>> =
        groups.iter().map(|group| PooledSpread::of(group)).collect();
    let spreads = spreads?;
    let is_one_kind = known.windows(2).all(|two| two[0].groups().len() == two[1].groups().len());
    let is_pooled = is_one_kind && spread::p_of_alike(&spreads).is_some_and(|p| p > ALIKE_P_MIN);
    let pooled = PooledSpread::pooled(&spreads)?;
    let count = known.len() as f64;
    let of_means = spreads.iter().zip(&groups).map(|(own, group)| {
        let variance = if is_pooled { pooled.variance } else { own.variance };
        (variance / group.len() as f64, own.freedom)
    });
    let squared: f64 = of_means.clone().map(|(variance, _)| variance).sum();
    let parts: f64 = of_means.map(|(variance, freedom)| variance.powi(2) / freedom).sum();
    let freedom = if is_pooled { pooled.freedom } else { squared.powi(2) / parts };
    Some((squared.sqrt() / count, freedom, is_pooled))
}

impl ComparedFigure {
    /// Returns true if every side has values.
    pub(super) fn is_known(&self) -> bool {
        self.sides.iter().all(Option::is_some)
    }

    /// Returns true if every side counted nothing here: there is nothing that could change.
    pub(super) fn is_nothing(&self) -> bool {
        self.sides.iter().flatten().all(|known| known.values.iter().all(|value| *value == 0.0))
    }
}
