//! A curve through noisy readings at a few numbers of sessions, and its uncertainty.
//!
//! The logarithm of a figure over the logarithm of the sessions is a line whose slope wanders (an
//! integrated Wiener process, the prior of cubic smoothing splines: Wahba 1978). No family of
//! curves is assumed, so a second hump remains possible. How fast the slope wanders and how much
//! runs differ is weighed by the likelihood of the readings. The result is a set of possible
//! curves; peak and knee are as uncertain as these differ.

use crate::seeded_rng::SeededRng;

/// Number of possible curves.
const PATHS: usize = 400;
/// Rates at which the slope wanders.
const BENDS: [f64; 4] = [0.05, 0.2, 0.8, 2.5];
/// Rates at which the value itself wanders, for lines that are not smooth.
const STEPS: [f64; 2] = [0.03, 0.2];
/// Deviations of one run from its cell's mean, as shares.
const NOISES: [f64; 5] = [0.005, 0.013, 0.033, 0.08, 0.2];
/// The slope at the fewest sessions: 1 if they do not share anything.
const SLOPE: (f64, f64) = (0.6, 0.6);
/// Deviation of the first value from the mean of all readings.
const LEVEL: f64 = 3.0;
/// Keeps a matrix that is singular by rounding positive.
const JITTER: f64 = 1e-9;

/// A reading: the position of its cell, and the logarithm of its figure.
pub(super) type LogReading = (usize, f64);

/// Possible curves, as logarithms at each cell.
pub(super) struct PossibleCurves {
    pub paths: Vec<Vec<f64>>,
    /// Variance of one more reading around its cell's mean.
    pub noise: f64,
}

impl PossibleCurves {
    /// Draws curves through the readings of cells at these numbers of sessions. None without
    /// readings.
    pub fn through(sessions: &[u32], readings: &[LogReading], rng: &mut SeededRng) -> Option<Self> {
        let first = f64::from(*sessions.first()?).ln();
        let at: Vec<f64> = sessions.iter().map(|&n| f64::from(n).ln() - first).collect();
        let cells = CellMeans::of(sessions.len(), readings)?;
        let fits = BENDS.iter().flat_map(|bend| {
            STEPS
                .iter()
                .flat_map(move |step| NOISES.iter().map(move |noise| (*bend, *step, *noise)))
        });
        let fits: Vec<CurveFit> = fits
            .filter_map(|(bend, step, noise)| CurveFit::of(&at, &cells, (bend, step), noise))
            .collect();
        let best = fits.iter().map(|fit| fit.likelihood).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = fits.iter().map(|fit| (fit.likelihood - best).exp()).collect();
        let all: f64 = weights.iter().sum();
        let noise = fits.iter().zip(&weights).map(|(fit, weight)| fit.noise * weight).sum::<f64>();
        let mut paths = Vec::with_capacity(PATHS);
        let mut due = 0.0;
        for (fit, weight) in fits.iter().zip(&weights) {
            due += PATHS as f64 * weight / all;
            while (paths.len() as f64) + 0.5 < due {
                paths.push(fit.draw(cells.level, rng));
            }
        }
        (!paths.is_empty()).then_some(Self { paths, noise: noise / all })
    }

    /// The mean curve.
    pub fn mean(&self) -> Vec<f64> {
        let cells = self.paths.first().map_or(0, Vec::len);
        let sum = |cell: usize| self.paths.iter().map(|path| path[cell]).sum::<f64>();
        (0..cells).map(|cell| sum(cell) / self.paths.len() as f64).collect()
    }
}

/// The readings of each cell that has some.
struct CellMeans {
    /// Mean of all readings.
    level: f64,
    /// Position, number of readings, and their mean less the level.
    cells: Vec<(usize, f64, f64)>,
    /// Squares around the means of the cells, and their degrees of freedom.
    squares: f64,
    freedom: f64,
}

impl CellMeans {
    fn of(count: usize, readings: &[LogReading]) -> Option<Self> {
        let all: Vec<f64> = readings.iter().map(|(_, value)| *value).collect();
        let level = crate::estimate::mean(&all)?;
        let mut cells = Vec::new();
        let mut squares = 0.0;
        for cell in 0..count {
            let values: Vec<f64> =
                readings.iter().filter(|(at, _)| *at == cell).map(|(_, value)| *value).collect();
            let Some(mean) = crate::estimate::mean(&values) else { continue };
            squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            cells.push((cell, values.len() as f64, mean - level));
        }
        let freedom = (all.len() - cells.len()) as f64;
        Some(Self { level, cells, squares, freedom })
    }
}

/// The curve for one rate of bending and one noise.
struct CurveFit {
    noise: f64,
    likelihood: f64,
    mean: Vec<f64>,
    /// Square root of the covariance of all cells.
    root: Matrix,
}

impl CurveFit {
    fn of(at: &[f64], cells: &CellMeans, (bend, step): (f64, f64), noise: f64) -> Option<Self> {
        let covariance = |a: f64, b: f64| {
            let (less, more) = (a.min(b), a.max(b));
            let wandering = less * less * (3.0 * more - less) / 6.0;
            LEVEL * LEVEL + SLOPE.1 * SLOPE.1 * a * b + bend * bend * wandering + step * step * less
        };
        let noise = noise * noise;
        let seen = &cells.cells;
        let root = root_of(seen.len(), |i, j| {
            let own = if i == j { noise / seen[i].1 } else { 0.0 };
            covariance(at[seen[i].0], at[seen[j].0]) + own
        })?;
        let off: Vec<f64> = seen.iter().map(|(cell, _, y)| y - SLOPE.0 * at[*cell]).collect();
        let white = forward(&root, &off);
        let loads: Vec<Vec<f64>> = at
            .iter()
            .map(|a| {
                let with: Vec<f64> = seen.iter().map(|cell| covariance(*a, at[cell.0])).collect();
                forward(&root, &with)
            })
            .collect();
        let mean = at.iter().zip(&loads).map(|(a, load)| SLOPE.0 * a + dot(load, &white)).collect();
        let rest = root_of(at.len(), |i, j| covariance(at[i], at[j]) - dot(&loads[i], &loads[j]))?;
        let size: f64 = root.iter().enumerate().map(|(i, row)| row[i].ln()).sum();
        let within = cells.squares / noise + cells.freedom * noise.ln();
        let likelihood = -0.5 * dot(&white, &white) - size - 0.5 * within;
        Some(Self { noise, likelihood, mean, root: rest })
    }

    fn draw(&self, level: f64, rng: &mut SeededRng) -> Vec<f64> {
        let normal: Vec<f64> = self.mean.iter().map(|_| rng.normal()).collect();
        let values = self.mean.iter().zip(&self.root);
        values.map(|(mean, row)| level + mean + dot(row, &normal)).collect()
    }
}

type Matrix = Vec<Vec<f64>>;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The lower triangle whose product with itself is the matrix (Cholesky); None if it has none.
fn root_of(size: usize, matrix: impl Fn(usize, usize) -> f64) -> Option<Matrix> {
    let mut root: Matrix = Vec::with_capacity(size);
    for i in 0..size {
        let mut row = Vec::with_capacity(i + 1);
        for j in 0..i {
            let rest = matrix(i, j) - dot(&row[..j], &root[j][..j]);
            row.push(rest / root[j][j]);
        }
        let rest = matrix(i, i) + JITTER - dot(&row, &row);
        row.push(Some(rest).filter(|rest| *rest > 0.0)?.sqrt());
        root.push(row);
    }
    Some(root)
}

/// Solves `root x = right` from the first row on.
fn forward(root: &Matrix, right: &[f64]) -> Vec<f64> {
    let mut solved: Vec<f64> = Vec::with_capacity(right.len());
    for (row, value) in root.iter().zip(right) {
        let at = solved.len();
        solved.push((value - dot(&row[..at], &solved)) / row[at]);
    }
    solved
}
