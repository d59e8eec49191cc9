//! Statistics of repeats of one figure: mean, spread, interval, and the outlier. The run is the
//! unit of evidence; the seconds within a run are not used here. Pure functions of values.

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};

/// The level of every interval.
pub const CONFIDENCE: f64 = 0.95;
/// Fewest repeats that give an interval.
pub const REPEATS_MIN: usize = 3;
/// A standard deviation over this share of the mean is the finding `repeats-vary`.
pub const VARIATION_MAX: f64 = 0.05;
/// Fewest repeats that are resampled: with fewer, the result never leaves their own range.
const BOOTSTRAP_MIN: usize = 5;
/// Fewest repeats of which one may be an outlier: of three or four, two that happen to agree make one
/// of the others.
const OUTLIER_MIN: usize = 5;
/// Rounding error: some thousands of the last bits of a float.
const ROUNDING: f64 = 1e-12;
/// Precision (inverse variance, in deviations) of the differences that the anytime-valid interval
/// looks for.
const ANYTIME_PRECISION: f64 = 0.03;
const RESAMPLES: usize = 10_000;
/// Fixed, so that a report says the same each time it is made.
const BOOTSTRAP_SEED: u64 = 0x0070_6574_616c;

/// A figure with its standard error, and the degrees of freedom of that. All intervals and tests by t are
/// made here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uncertain {
    pub mid: f64,
    pub error: f64,
    pub freedom: f64,
}

impl Uncertain {
    /// The mean of values. None under two.
    pub fn mean_of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let error = deviation(values)? / count.sqrt();
        Some(Self { mid: mean(values)?, error, freedom: count - 1.0 })
    }

    /// The figure that has this 95 % interval.
    pub fn of_interval((low, high): (f64, f64), freedom: f64) -> Option<Self> {
        let half = (high - low) / 2.0;
        let error = half / t_quantile(CONFIDENCE, freedom)?;
        Some(Self { mid: low.midpoint(high), error, freedom })
    }

    /// Another unit has it so many times larger.
    pub fn times(self, factor: f64) -> Self {
        Self { mid: self.mid * factor, error: self.error * factor.abs(), ..self }
    }

    /// Half the width of the 95 % interval.
    pub fn half_width(self) -> Option<f64> {
        self.half_width_at(CONFIDENCE)
    }

    /// Half the width of the interval at this level.
    pub fn half_width_at(self, confidence: f64) -> Option<f64> {
        Some(t_quantile(confidence, self.freedom)? * self.error)
    }

    /// The 95 % interval.
    pub fn interval(self) -> Option<(f64, f64)> {
        self.half_width().map(|half| (self.mid - half, self.mid + half))
    }

    /// The two-sided p value of a difference from zero; None if that is not a number.
    pub fn p(self) -> Option<f64> {
        t_p_value(self.t(), self.freedom)
    }

    /// Student's t of a difference from zero.
    pub fn t(self) -> f64 {
        self.mid / self.error
    }
}

/// The repeats of one figure of one cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// Values of the repeats, in the order of the rounds; outliers are included.
    pub values: Vec<f64>,
    pub mean: f64,
    /// Sample standard deviation; None of one value.
    pub deviation: Option<f64>,
    /// Half the width of the 95 % interval of the mean; None under three values.
    pub half_width: Option<f64>,
    /// The 95 % interval of the mean: by t, so `mean` plus and minus `half_width`; of percentiles
    /// by bootstrap, which need not lie evenly about the mean. None under three values.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// The estimate of a rate or a mean, with a t interval. None without values.
    pub fn of(values: Vec<f64>) -> Option<Self> {
        let mean = mean(&values)?;
        let deviation = deviation(&values);
        let known = Uncertain::mean_of(&values).filter(|_| values.len() >= REPEATS_MIN);
        let half_width = known.and_then(Uncertain::half_width);
        let interval = half_width.map(|half| (mean - half, mean + half));
        Some(Self { values, mean, deviation, half_width, interval })
    }

    /// The estimate of a percentile, which is not a mean and has a tail: by bootstrap from five
    /// repeats on. Three or four give the t interval: resampled, they would never leave their own
    /// range.
    pub fn of_percentile(values: Vec<f64>) -> Option<Self> {
        let plain = Self::of(values)?;
        if plain.values.len() < BOOTSTRAP_MIN {
            return Some(plain);
        }
        let interval = bootstrap(&plain.values);
        Some(Self { half_width: interval.map(|(low, high)| (high - low) / 2.0), interval, ..plain })
    }

    /// Replaces the interval by the one that holds at any number of values, for figures that
    /// decided how often they were repeated.
    pub fn anytime(self) -> Self {
        let half_width = anytime_half_width(&self.values, CONFIDENCE);
        let interval = half_width.map(|half| (self.mean - half, self.mean + half));
        Self { half_width, interval, ..self }
    }

    /// The standard deviation as a share of the mean (the coefficient of variation).
    pub fn variation(&self) -> Option<f64> {
        self.deviation.filter(|_| self.mean != 0.0).map(|deviation| deviation / self.mean.abs())
    }

    /// Returns true if repeats differ by more than repeats should (`repeats-vary`).
    pub fn varies(&self) -> bool {
        self.variation().is_some_and(|variation| variation > VARIATION_MAX)
    }

    /// The repeat that lies apart, as its position in `values`: by Grubbs' test, two-sided, at
    /// 5 %, from five repeats on. It is shown, and stays in every figure.
    pub fn outlier(&self) -> Option<usize> {
        let deviation = self.deviation.filter(|&deviation| deviation > 0.0)?;
        let limit = grubbs_limit(self.values.len())?;
        let distance = |value: f64| (value - self.mean).abs() / deviation;
        let (at, &value) = self
            .values
            .iter()
            .enumerate()
            .max_by(|a, b| distance(*a.1).total_cmp(&distance(*b.1)))?;
        (distance(value) > limit).then_some(at)
    }
}

/// The arithmetic mean; None without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sample standard deviation; None under two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() >= 2)?;
    // Differences by rounding alone do not count.
    if values.iter().all(|value| (value - mean).abs() <= mean.abs() * ROUNDING) {
        return Some(0.0);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() as f64 - 1.0)).sqrt())
}

/// Half the width of the interval of a mean that holds with `confidence` at every number of values
/// together, so that the values may decide when to stop: a t test whose alternatives are mixed by a
/// normal distribution (Robbins 1970, Lai 1976). None if it is unbounded, as of two values.
pub fn anytime_half_width(values: &[f64], confidence: f64) -> Option<f64> {
    let deviation = deviation(values)?;
    let count = values.len() as f64;
    let shrinkage = ANYTIME_PRECISION / (count + ANYTIME_PRECISION);
    let bound = ((1.0 - confidence) * shrinkage.sqrt()).powf(-2.0 / count);
    let squared_t = (count - 1.0) * (bound - 1.0) / (1.0 - bound * shrinkage);
    (bound * shrinkage < 1.0).then(|| (squared_t / count).sqrt() * deviation)
}

/// The value of Student's t with these degrees of freedom that has `confidence` between minus and
/// plus.
pub fn t_quantile(confidence: f64, freedom: f64) -> Option<f64> {
    let distribution = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(distribution.inverse_cdf(0.5 + confidence / 2.0))
}

/// The two-sided p value of a t statistic; None if that is not a number.
fn t_p_value(t: f64, freedom: f64) -> Option<f64> {
    let distribution = StudentsT::new(0.0, 1.0, freedom).ok().filter(|_| !t.is_nan())?;
    Some((2.0 * distribution.cdf(-t.abs())).min(1.0))
}

/// Grubbs (1969), two-sided at 5 %, as in the NIST/SEMATECH e-Handbook, 1.3.5.17.1.
fn grubbs_limit(count: usize) -> Option<f64> {
    if count < OUTLIER_MIN {
        return None;
    }
    let n = count as f64;
    // Half of 5 % over n at either end.
    let t = t_quantile(1.0 - (1.0 - CONFIDENCE) / n, n - 2.0)?;
    Some((n - 1.0) / n.sqrt() * (t * t / (n - 2.0 + t * t)).sqrt())
}

/// The expanded percentile interval of the mean (T. Hesterberg, The American Statistician 69,
/// 2015): the runs resampled, and the quantiles moved outwards until they cover as much as t does,
/// because few resampled values are too narrow.
fn bootstrap(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let t = t_quantile(CONFIDENCE, n - 1.0)?;
    let tail = Normal::new(0.0, 1.0).ok()?.cdf(-t * (n / (n - 1.0)).sqrt());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(BOOTSTRAP_SEED);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn = (0..values.len()).map(|_| values[random.random_range(0..values.len())]);
            drawn.sum::<f64>() / n
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let last = RESAMPLES - 1;
    let position = (tail * last as f64).floor() as usize;
    Some((means[position], means[last - position]))
}

/// Returns the middle value, or the mean of both middle ones; None of no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    let is_even = sorted.len().is_multiple_of(2);
    Some(if is_even { (sorted.get(half.checked_sub(1)?)? + upper) / 2.0 } else { upper })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance * b.abs().max(1.0)
    }

    /// Reads per second of two nodes together, three repeats with compression off and on, and the
    /// intervals published with them.
    #[test]
    fn published_intervals_of_three_repeats() {
        let published: [([f64; 3], f64, f64); 6] = [
            ([79463.0, 79751.0, 79398.0], 79_537.0, 467.0),
            ([56919.0, 57007.0, 56643.0], 56_856.0, 472.0),
            ([49759.0, 48346.0, 48508.0], 48_871.0, 1_921.0),
            ([56141.0, 57311.0, 57530.0], 56_994.0, 1_855.0),
            ([43110.0, 42167.0, 42819.0], 42_699.0, 1_200.0),
            ([37742.0, 36984.0, 37353.0], 37_360.0, 942.0),
        ];
        for (values, mean, half_width) in published {
            let estimate = Estimate::of(values.to_vec()).unwrap();
            assert_eq!(estimate.mean.round(), mean);
            assert_eq!(estimate.half_width.unwrap().round(), half_width);
            assert!(!estimate.varies());
            assert_eq!(estimate.outlier(), None);
        }
    }

    /// Against SciPy 1.17: `stats.t.ppf(0.975, n)`.
    #[test]
    fn quantiles_of_t() {
        let known = [(1.0, 12.706204736174694), (2.0, 4.302652729749462), (9.0, 2.262157162798205)];
        for (freedom, quantile) in known {
            assert!(close(t_quantile(0.95, freedom).unwrap(), quantile, 1e-9));
            assert!(close(t_p_value(quantile, freedom).unwrap(), 0.05, 1e-9));
        }
        assert_eq!(t_quantile(0.95, 0.0), None);
    }

    /// The worked example of the NIST/SEMATECH e-Handbook, 1.3.5.17.1 (mass spectrometer, uranium
    /// isotopes): G = 2.4687; the limits against SciPy.
    #[test]
    fn the_repeat_that_lies_apart() {
        let values = vec![199.31, 199.53, 200.19, 200.82, 201.92, 201.95, 202.18, 245.57];
        let estimate = Estimate::of(values).unwrap();
        let g = (245.57 - estimate.mean) / estimate.deviation.unwrap();
        assert!(close(g, 2.4687, 1e-4), "{g}");
        assert_eq!(estimate.outlier(), Some(7));
        for (count, limit) in [(5, 1.7150373123433635), (8, 2.1266450871954667)] {
            assert!(close(grubbs_limit(count).unwrap(), limit, 1e-9));
        }
        // Four that agree and one far off; five that merely differ; three prove nothing.
        let outlier = |values: &[f64]| Estimate::of(values.to_vec()).unwrap().outlier();
        assert_eq!(outlier(&[100.0, 100.1, 99.9, 100.0, 130.0]), Some(4));
        assert_eq!(outlier(&[100.0, 110.0, 130.0, 105.0, 120.0]), None);
        assert_eq!(outlier(&[100.0, 100.1, 130.0]), None);
        assert_eq!(outlier(&[5.0; 5]), None);
    }

    /// By hand, of four values with the deviation 1: r = 0.03/4.03, K = (20/sqrt(r))^(1/2) = 15.225,
    /// t^2 = 3 (K - 1)/(1 - K r) = 48.13.
    #[test]
    fn the_interval_that_holds_at_any_number_of_runs_is_wider() {
        let half = 0.75_f64.sqrt();
        let plain = Estimate::of([-half, -half, half, half].map(|off| 100.0 + off).into()).unwrap();
        let anytime = plain.clone().anytime();
        assert!(close(anytime.half_width.unwrap(), 3.469, 1e-3), "{anytime:?}");
        assert!(anytime.half_width > plain.half_width && anytime.mean == plain.mean);
        assert_eq!(anytime_half_width(&[1.0, 2.0], CONFIDENCE), None, "unbounded");
        assert_eq!(anytime_half_width(&[1.0], CONFIDENCE), None);
    }

    #[test]
    fn under_three_repeats_there_is_no_interval() {
        assert_eq!(Estimate::of(Vec::new()), None);
        let one = Estimate::of(vec![7.0]).unwrap();
        assert_eq!((one.mean, one.deviation, one.interval), (7.0, None, None));
        let two = Estimate::of(vec![6.0, 8.0]).unwrap();
        assert!(two.deviation.is_some() && two.half_width.is_none() && two.outlier().is_none());
        assert!(two.varies());
    }

    /// Of samples from one process the interval holds the true mean as often as it says: of three
    /// normal values by t in 95 of 100 cases (2,000 seeded trials, within four binomial standard
    /// deviations, 0.0195); of five and of ten skewed ones by bootstrap in 90 and 93, as NumPy
    /// found with the same rule in 2,000 trials (here 200; 0.085).
    #[test]
    fn intervals_cover_as_stated() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let normal = Normal::new(0.0, 1.0).unwrap();
        let mut draw = || normal.inverse_cdf(random.random::<f64>().max(1e-12));
        let share = |trials: u32, of: &mut dyn FnMut() -> (Estimate, f64)| {
            let held = (0..trials).filter(|_| {
                let (estimate, truth) = of();
                estimate.interval.is_some_and(|(low, high)| low <= truth && truth <= high)
            });
            held.count() as f64 / f64::from(trials)
        };
        let by_t = share(2_000, &mut || {
            let values = (0..3).map(|_| 1000.0 + 20.0 * draw()).collect();
            (Estimate::of(values).unwrap(), 1000.0)
        });
        assert!((by_t - 0.95).abs() < 0.0195, "{by_t}");
        let spread: f64 = 0.4;
        for (repeats, known) in [(5, 0.90), (10, 0.93)] {
            let covered = share(200, &mut || {
                let values = (0..repeats).map(|_| (spread * draw()).exp()).collect();
                (Estimate::of_percentile(values).unwrap(), (spread * spread / 2.0).exp())
            });
            assert!((covered - known).abs() < 0.085, "{repeats}: {covered}");
        }
    }

    proptest! {
        // A bootstrap each, in a build without optimization.
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn units_do_not_matter(
            values in prop::collection::vec(1.0f64..1e6, 3..10),
            factor in 0.001f64..1000.0,
        ) {
            let plain = Estimate::of(values.clone()).unwrap();
            let scaled = Estimate::of(values.iter().map(|v| v * factor).collect()).unwrap();
            prop_assert!(close(scaled.mean, plain.mean * factor, 1e-9));
            let (plain_half, half) = (plain.half_width.unwrap(), scaled.half_width.unwrap());
            prop_assert!(close(half, plain_half * factor, 1e-6));
            prop_assert_eq!(scaled.outlier(), plain.outlier());
        }

        #[test]
        fn intervals_hold_the_mean_and_come_out_the_same(
            values in prop::collection::vec(1.0f64..1e6, 3..10),
        ) {
            for of in [Estimate::of, Estimate::of_percentile] {
                let estimate = of(values.clone()).unwrap();
                let (low, high) = estimate.interval.unwrap();
                prop_assert!(low <= estimate.mean * (1.0 + 1e-12));
                prop_assert!(high >= estimate.mean * (1.0 - 1e-12));
                prop_assert_eq!(&of(values.clone()).unwrap(), &estimate);
            }
        }
    }
}
