//! The spread of repeats in several groups: a variance pooled from all groups, and the test whether
//! the groups vary alike. Few repeats of each of many cells know their common spread well,
//! though none of them does alone. Pure functions of values.

use statrs::distribution::{ChiSquared, ContinuousCDF as _};

use crate::estimate::deviation;

/// The variance of one value around the mean of its group, with its degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PooledSpread {
    pub variance: f64,
    pub freedom: f64,
}

impl PooledSpread {
    /// The spread of one group; None under two values.
    pub fn of(group: &[f64]) -> Option<Self> {
        Some(Self { variance: deviation(group)?.powi(2), freedom: group.len() as f64 - 1.0 })
    }

    /// The spread of all groups together; None if no group varies.
    pub fn pooled(spreads: &[Self]) -> Option<Self> {
        let freedom: f64 = spreads.iter().map(|spread| spread.freedom).sum();
        let squares: f64 = spreads.iter().map(|spread| spread.variance * spread.freedom).sum();
        (squares > 0.0).then(|| Self { variance: squares / freedom, freedom })
    }
}

/// Bartlett's test (1937): the p value of "all groups vary alike". A group without any variation
/// does not vary like one that has some. None under two groups, or if no group varies.
pub(crate) fn p_of_alike(spreads: &[PooledSpread]) -> Option<f64> {
    let pooled = PooledSpread::pooled(spreads).filter(|_| spreads.len() >= 2)?;
    let groups = spreads.len() as f64 - 1.0;
    let logarithms: f64 = spreads.iter().map(|one| one.freedom * one.variance.ln()).sum();
    let inverses: f64 = spreads.iter().map(|one| 1.0 / one.freedom).sum();
    let correction = 1.0 + (inverses - 1.0 / pooled.freedom) / (3.0 * groups);
    let statistic = (pooled.freedom * pooled.variance.ln() - logarithms) / correction;
    if statistic.is_infinite() {
        return Some(0.0);
    }
    Some(ChiSquared::new(groups).ok()?.sf(statistic.max(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By SciPy 1.17: `stats.bartlett`.
    #[test]
    fn a_published_test_of_equal_variances() {
        let a = [8.88, 9.12, 9.04, 8.98, 9.0, 9.08, 9.01, 8.85, 9.06, 8.99];
        let b = [8.88, 8.95, 9.29, 9.44, 9.15, 9.58, 8.36, 9.18, 8.67, 9.05];
        let c = [8.95, 9.12, 8.95, 8.85, 9.03, 8.84, 9.07, 8.98, 8.86, 8.98];
        let spreads = [&a, &b, &c].map(|group| PooledSpread::of(group).unwrap());
        let p = p_of_alike(&spreads).unwrap();
        assert!((p / 1.1254782518834628e-05 - 1.0).abs() < 1e-6, "{p}");
        let pooled = PooledSpread::pooled(&spreads).unwrap();
        assert!((pooled.freedom - 27.0).abs() < 1e-12 && pooled.variance > spreads[0].variance);
    }

    #[test]
    fn groups_that_do_not_vary_are_unlike_those_that_do() {
        let [still, moving] =
            [[5.0; 3], [4.0, 5.0, 6.0]].map(|group| PooledSpread::of(&group).unwrap());
        assert_eq!(p_of_alike(&[still, moving]), Some(0.0));
        assert_eq!((p_of_alike(&[still, still]), p_of_alike(&[moving])), (None, None));
        assert_eq!((PooledSpread::pooled(&[still]), PooledSpread::of(&[1.0])), (None, None));
    }
}
