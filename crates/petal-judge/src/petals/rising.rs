//! Does a line fall after its peak, or is it one that only rises, measured with noise? Both shapes
//! are fitted to the means; a line falls if its better fit is larger than chance allows.
//!
//! The test is that of a simple order against an umbrella order (Barlow, Bartholomew, Bremner and
//! Brunk 1972). How large chance makes it is drawn from flat lines of the same points and repeats:
//! on them it is largest, so that lines that rise are wrong less often than stated.

use crate::estimate::CONFIDENCE;
use crate::seeded_rng::SeededRng;
use crate::spread::PooledSpread;

const DRAWS: u32 = 4_000;
const SEED: u64 = 0x7269_7365;
/// A point before the peak that is lower by more than this number of standard errors is no part of
/// a flat line.
const RISING: f64 = 3.0;

/// A point's mean, and its number of repeats.
#[derive(Clone, Copy)]
pub(super) struct Mean {
    pub value: f64,
    pub repeats: f64,
}

/// Returns true if the means, in the order of their sessions, fall after the highest one.
pub(super) fn falls(means: &[Mean], spread: PooledSpread) -> bool {
    let deviation = spread.variance.sqrt();
    let scaled: Vec<Mean> =
        means.iter().map(|mean| Mean { value: mean.value / deviation, ..*mean }).collect();
    let flat = &scaled[first_flat(&scaled)..];
    let gain = gain(flat);
    let mut rng = SeededRng::seeded(SEED);
    let freedom = spread.freedom.round() as u32;
    let allowed = f64::from(DRAWS) * (1.0 - CONFIDENCE);
    let mut as_large = 0.0;
    let mut noise = flat.to_vec();
    for _ in 0..DRAWS {
        for mean in &mut noise {
            mean.value = rng.normal() / mean.repeats.sqrt();
        }
        // The deviation is an estimate, too.
        let variance = rng.chi_squared(freedom) / spread.freedom;
        if self::gain(&noise) >= gain * variance {
            as_large += 1.0;
            if as_large > allowed {
                return false;
            }
        }
    }
    true
}

/// The position after the last point before the peak that is surely lower.
fn first_flat(means: &[Mean]) -> usize {
    let top = means.iter().enumerate().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let Some((peak, top)) = top else { return 0 };
    let is_lower = |mean: &Mean| {
        top.value - mean.value > RISING * (1.0 / top.repeats + 1.0 / mean.repeats).sqrt()
    };
    means[..peak].iter().rposition(is_lower).map_or(0, |at| at + 1)
}

/// The squares that a line which rises and falls leaves out fewer than one which only rises.
fn gain(means: &[Mean]) -> f64 {
    let up = squares_of_rising(means.iter().copied());
    let mut down = squares_of_rising(means.iter().rev().copied());
    down.reverse();
    let both = up.iter().zip(&down).map(|(up, down)| up + down);
    up.last().copied().unwrap_or(0.0) - both.fold(f64::INFINITY, f64::min)
}

/// Returns, for each number of first means, the squares around the best line through them that never
/// falls (pool adjacent violators: Ayer and others 1955).
fn squares_of_rising(means: impl Iterator<Item = Mean>) -> Vec<f64> {
    let mut blocks: Vec<Mean> = Vec::new();
    let (mut squares, mut all) = (0.0, vec![0.0]);
    for mut mean in means {
        while let Some(before) = blocks.pop_if(|before| before.value > mean.value) {
            let repeats = before.repeats + mean.repeats;
            let weight = before.repeats * mean.repeats / repeats;
            squares += weight * (before.value - mean.value).powi(2);
            let value = (before.value * before.repeats + mean.value * mean.repeats) / repeats;
            mean = Mean { value, repeats };
        }
        blocks.push(mean);
        all.push(squares);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(values: &[f64]) -> Vec<Mean> {
        values.iter().map(|&value| Mean { value, repeats: 3.0 }).collect()
    }

    /// By hand: 1, 3, 2 is 1, 2.5, 2.5 as a rising line, so that 3 x (0.25 + 0.25) is left out; as
    /// one that rises and falls it is itself.
    #[test]
    fn a_rising_line_leaves_out_what_falls() {
        assert_eq!(squares_of_rising(means(&[1.0, 3.0, 2.0]).into_iter()), [0.0, 0.0, 0.0, 1.5]);
        assert!((gain(&means(&[1.0, 3.0, 2.0])) - 1.5).abs() < 1e-12);
        assert_eq!(gain(&means(&[1.0, 2.0, 3.0])), 0.0);
        // Neither shape has a valley.
        assert_eq!(gain(&means(&[3.0, 1.0, 3.0])), 0.0);
    }

    #[test]
    fn only_what_is_beyond_the_noise_falls() {
        let spread = PooledSpread { variance: 1.0, freedom: 10.0 };
        assert!(falls(&means(&[10.0, 50.0, 60.0, 50.0]), spread));
        assert!(!falls(&means(&[10.0, 50.0, 60.0, 59.5]), spread));
        assert!(!falls(&means(&[10.0, 50.0, 60.0]), spread));
        assert!(!falls(&means(&[10.0]), spread));
    }
}
