//! Finds lasting changes of level in a series: by the split, or by the stretch, whose mean differs
//! most from the rest, and by how often a random order of the same values differs as much. The two
//! parts or three are searched again (binary segmentation: Vostrikova 1981; stretches: Olshen and
//! Venkatraman 2004; random orders: Matteson and James 2014). Pure functions of values.

use std::ops::Range;

use crate::estimate::{Uncertain, mean, median};
use crate::seeded_rng::SeededRng;
use crate::spread::PooledSpread;

/// Fewest values in a row that are a level.
pub(crate) const LEVEL_MIN: usize = 3;
/// The longest stretch inside of a series that is compared with the rest.
const STRETCH_MAX: usize = 60;
/// Random orders of a series, besides its own.
const ORDERS: usize = 999;
const SEED: u64 = 0x006c_6576_656c;
/// A value farther from its level than this number of standard deviations is an odd one. It counts
/// as one that is as far as this.
const OUTLIER_SIGMA: f64 = 5.0;
/// The largest p value of neighbouring levels that stay apart when all levels are known.
const APART_P_MAX: f64 = 0.01;

/// Returns the positions at which a new level begins. A series of one level has any with at most
/// this probability.
pub(crate) fn find(values: &[f64], level: f64) -> Vec<usize> {
    let mut found = Vec::new();
    search(&without_odd(values, noise(values)), level, 0, &mut found);
    found.sort_unstable();
    found.dedup();
    drop_needless(values, found)
}

fn search(values: &[f64], level: f64, offset: usize, found: &mut Vec<usize>) {
    let count = values.len();
    // A stretch takes a level on each side of it.
    let has_stretches = count >= 3 * LEVEL_MIN;
    let level_of_one = if has_stretches { level / 2.0 } else { level };
    let by_stretch = || has_stretches.then(|| unlikely(values, stretch, level_of_one)).flatten();
    let Some(part) = unlikely(values, split, level_of_one).or_else(by_stretch) else { return };
    let bounds = [0, part.start, part.end, count];
    found.extend([part.start, part.end].iter().filter(|&&at| at < count).map(|at| offset + at));
    // Each part is one more series that may seem to change.
    for pair in bounds.windows(2).filter(|pair| pair[0] < pair[1]) {
        search(&values[pair[0]..pair[1]], level / 2.0, offset + pair[0], found);
    }
}

type Scan = fn(&[f64]) -> Option<(f64, Range<usize>)>;

/// Returns the part that differs most from the rest, if few random orders have one that differs as
/// much.
fn unlikely(values: &[f64], scan: Scan, level: f64) -> Option<Range<usize>> {
    let (largest, part) = scan(values).filter(|(largest, _)| *largest > 0.0)?;
    let mut rng = SeededRng::seeded(SEED);
    let mut order = values.to_vec();
    // The series' own order is one of them.
    let allowed = level * (ORDERS + 1) as f64 - 1.0;
    let mut as_large = 0.0;
    for _ in 0..ORDERS {
        rng.shuffle(&mut order);
        // Rounding must not make equal orders differ.
        if scan(&order).is_some_and(|(other, _)| other >= largest * (1.0 - 1e-9)) {
            as_large += 1.0;
            if as_large > allowed {
                return None;
            }
        }
    }
    Some(part)
}

/// The end of a series whose mean differs most from the beginning, with the squares that this
/// explains. None if the series is too short.
pub(crate) fn split(values: &[f64]) -> Option<(f64, Range<usize>)> {
    let sums = sums(values);
    let count = values.len();
    let begins = LEVEL_MIN..(count + 1).saturating_sub(LEVEL_MIN);
    largest(begins.map(|from| (explained(&sums, &(from..count)), from..count)))
}

/// Returns the same for stretches, which have a level before and after them.
fn stretch(values: &[f64]) -> Option<(f64, Range<usize>)> {
    let sums = sums(values);
    let last = values.len().checked_sub(LEVEL_MIN)?;
    let all = (LEVEL_MIN..last).flat_map(|from| {
        let ends = from + LEVEL_MIN..=last.min(from + STRETCH_MAX);
        ends.map(move |to| from..to)
    });
    largest(all.map(|part| (explained(&sums, &part), part)))
}

fn largest(parts: impl Iterator<Item = (f64, Range<usize>)>) -> Option<(f64, Range<usize>)> {
    parts.reduce(|best, next| if next.0 > best.0 { next } else { best })
}

/// Sums of the first values, around their common mean.
fn sums(values: &[f64]) -> Vec<f64> {
    let middle = mean(values).unwrap_or(0.0);
    let mut sums = vec![0.0];
    let mut sum = 0.0;
    sums.extend(values.iter().map(|value| {
        sum += value - middle;
        sum
    }));
    sums
}

fn explained(sums: &[f64], part: &Range<usize>) -> f64 {
    let (count, length) = (sums.len() as f64 - 1.0, part.len() as f64);
    let sum = sums[part.end] - sums[part.start];
    count * sum * sum / (length * (count - length))
}

/// Joins neighbouring levels that do not differ, the most alike first: a search that begins with
/// the largest difference may leave some.
fn drop_needless(values: &[f64], mut found: Vec<usize>) -> Vec<usize> {
    loop {
        let levels = levels(values, &found);
        let spreads: Vec<PooledSpread> =
            levels.iter().filter_map(|level| PooledSpread::of(level)).collect();
        let Some(spread) = PooledSpread::pooled(&spreads) else { return found };
        let p = |at: usize| {
            let (a, b) = (&levels[at], &levels[at + 1]);
            let squared = spread.variance * (1.0 / a.len() as f64 + 1.0 / b.len() as f64);
            let (mid, error) = (mean(b)? - mean(a)?, squared.sqrt());
            Uncertain { mid, error, freedom: spread.freedom }.p()
        };
        let known = (0..found.len()).filter_map(|at| Some((p(at)?, at)));
        match known.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((p, at)) if p > APART_P_MAX => drop(found.remove(at)),
            _ => return found,
        }
    }
}

/// Returns the values of each level; odd ones are moved to the edge of their level.
pub(crate) fn levels(values: &[f64], begins: &[usize]) -> Vec<Vec<f64>> {
    let noise = noise(values);
    let bounds: Vec<usize> = [0].iter().chain(begins).chain(&[values.len()]).copied().collect();
    bounds.windows(2).map(|pair| without_odd(&values[pair[0]..pair[1]], noise)).collect()
}

/// The standard deviation of values around their level, by the median difference of neighbours,
/// which neither changes of level nor a few odd values move.
fn noise(values: &[f64]) -> f64 {
    // The median of a normal number's size.
    const MEDIAN_OF_NORMAL: f64 = 0.674_489_75;
    let differences: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    median(&differences).unwrap_or(0.0) / (MEDIAN_OF_NORMAL * std::f64::consts::SQRT_2)
}

fn without_odd(values: &[f64], noise: f64) -> Vec<f64> {
    // Two values do not show which of them is odd; rounded values have no noise to compare with.
    if values.len() < LEVEL_MIN || noise <= 0.0 {
        return values.to_vec();
    }
    let middle = median(values).unwrap_or(0.0);
    values
        .iter()
        .map(|value| value.clamp(middle - OUTLIER_SIGMA * noise, middle + OUTLIER_SIGMA * noise))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVEL: f64 = 0.05;

    /// Numbers of values, each with their level.
    type Parts = [(usize, f64)];

    fn series(parts: &Parts) -> Vec<f64> {
        let mut rng = SeededRng::seeded(7);
        let of = |&(count, level): &(usize, f64)| std::iter::repeat_n(level, count);
        parts.iter().flat_map(of).map(|level| level + rng.normal()).collect()
    }

    #[test]
    fn each_lasting_change_is_found_where_it_is() {
        let known: [(&Parts, &[usize]); 6] = [
            (&[(30, 100.0)], &[]),
            (&[(30, 100.0), (7, 94.0)], &[30]),
            (&[(6, 90.0), (30, 100.0)], &[6]),
            (&[(20, 100.0), (3, 80.0), (5, 100.0)], &[20, 23]),
            (&[(40, 100.0), (30, 110.0), (40, 100.0)], &[40, 70]),
            (&[(20, 100.0), (20, 106.0), (20, 112.0), (20, 100.0)], &[20, 40, 60]),
        ];
        for (parts, changes) in known {
            assert_eq!(find(&series(parts), LEVEL), changes, "{parts:?}");
        }
    }

    #[test]
    fn odd_values_neither_are_a_change_nor_hide_one() {
        let mut odd = series(&[(30, 100.0), (10, 95.0)]);
        odd[4] = 60.0;
        odd[20] = 150.0;
        assert_eq!(find(&odd, LEVEL), [30]);
        assert_eq!(find(&odd[..30], LEVEL), Vec::<usize>::new());
    }

    #[test]
    fn few_values_and_equal_ones_have_no_change() {
        assert_eq!(find(&[], LEVEL), Vec::<usize>::new());
        assert_eq!(find(&[1.0, 2.0, 9.0, 9.0, 9.0], LEVEL), Vec::<usize>::new());
        assert_eq!(find(&[5.0; 40], LEVEL), Vec::<usize>::new());
    }
}
