//! Random draws with a fixed seed, so that a report says the same each time it is made.

use std::f64::consts::TAU;

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

pub struct SeededRng(Xoshiro256PlusPlus);

impl SeededRng {
    pub fn seeded(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns a number from 0 (not included) to 1.
    pub fn uniform(&mut self) -> f64 {
        1.0 - self.0.random::<f64>()
    }

    /// Returns a standard normal number (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (TAU * self.uniform()).cos()
    }

    /// Returns a chi-squared number: two degrees of freedom are an exponential number, a last one is
    /// a squared normal number.
    pub fn chi_squared(&mut self, freedom: u32) -> f64 {
        let pairs: f64 = (0..freedom / 2).map(|_| -2.0 * self.uniform().ln()).sum();
        if freedom % 2 == 1 { pairs + self.normal().powi(2) } else { pairs }
    }

    /// Puts values into a random order (Fisher and Yates 1938).
    pub fn shuffle(&mut self, values: &mut [f64]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.0.random_range(0..=last));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of 20,000 draws, within five of their standard errors.
    #[test]
    fn draws_have_their_moments() {
        let mut rng = SeededRng::seeded(1);
        let mut moments = |of: &mut dyn FnMut(&mut SeededRng) -> f64| {
            let all: Vec<f64> = (0..20_000).map(|_| of(&mut rng)).collect();
            let mean = crate::estimate::mean(&all).unwrap();
            (mean, crate::estimate::deviation(&all).unwrap().powi(2))
        };
        let near = |(mean, variance): (f64, f64), known: (f64, f64)| {
            let is_mean = (mean - known.0).abs() < 5.0 * (known.1 / 20_000.0_f64).sqrt();
            assert!(is_mean && (variance / known.1 - 1.0).abs() < 0.1, "{mean} {variance}");
        };
        near(moments(&mut SeededRng::normal), (0.0, 1.0));
        near(moments(&mut |rng| rng.chi_squared(6)), (6.0, 12.0));
        near(moments(&mut |rng| rng.chi_squared(3)), (3.0, 6.0));
        let mut cards: Vec<f64> = (0..10).map(f64::from).collect();
        SeededRng::seeded(2).shuffle(&mut cards);
        assert!(!cards.is_sorted());
        cards.sort_by(f64::total_cmp);
        assert_eq!(cards, (0..10).map(f64::from).collect::<Vec<_>>());
    }
}
