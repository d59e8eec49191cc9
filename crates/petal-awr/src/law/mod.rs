//! Laws that printed figures must obey: sums, products, bounds and forms. A figure is known only
//! to its printed digits, so a law compares [`Interval`]s, and a law that is broken doubts as few
//! figures as possible. This module knows nothing about reports.

pub mod form;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Sum;
use std::ops::{Add, Div, Mul};

/// Largest rounding error of a printed value, in units of its last digit. Reports round to two more
/// digits first and then again, so that 0.2446 becomes 0.245, 0.25 and 0.3.
const ROUNDED: f64 = 0.5 + 0.05 + 0.006;

/// Range of the values that a figure may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    pub const fn exact(value: f64) -> Self {
        Self { low: value, high: value }
    }

    /// Returns the range of a printed value; `step` is one unit of its last digit.
    pub fn printed(value: f64, step: f64) -> Self {
        Self { low: value - ROUNDED * step, high: value + ROUNDED * step }
    }

    pub fn scaled(self, factor: f64) -> Self {
        Self { low: self.low * factor, high: self.high * factor }
    }

    /// Returns the distance to another range, 0 if they meet.
    fn gap(self, other: Self) -> f64 {
        (self.low - other.high).max(other.low - self.high).max(0.0)
    }

    pub fn meets(self, other: Self) -> bool {
        self.gap(other) == 0.0
    }

    fn width(self) -> f64 {
        self.high - self.low
    }

    pub fn middle(self) -> f64 {
        (self.low + self.high) / 2.0
    }
}

impl Add for Interval {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { low: self.low + other.low, high: self.high + other.high }
    }
}

impl Sum for Interval {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::exact(0.0), Add::add)
    }
}

impl Mul for Interval {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let ends = [self.low, self.high].map(|one| [one * other.low, one * other.high]);
        let ends = ends.as_flattened();
        Self {
            low: ends.iter().copied().fold(f64::INFINITY, f64::min),
            high: ends.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl Div for Interval {
    type Output = Self;

    /// A divisor that may be 0 gives no upper bound.
    fn div(self, other: Self) -> Self {
        let low =
            if self.low > 0.0 { self.low / other.high } else { self.low / other.low.max(0.0) };
        let high = if other.low > 0.0 { self.high / other.low } else { f64::INFINITY };
        Self { low: if low.is_nan() { 0.0 } else { low }, high }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    Equal,
    AtMost,
}

/// Two ways to one value, of which a law says how they compare.
#[derive(Debug, Clone, PartialEq)]
pub struct LawCheck<F> {
    pub law: &'static str,
    /// Figures of the check, each with its part of the value.
    pub figures: Vec<(F, f64)>,
    /// Name and range of each side.
    pub left: (&'static str, Interval),
    pub right: (&'static str, Interval),
    pub relation: Relation,
}

impl<F> LawCheck<F> {
    fn gap(&self) -> f64 {
        let (left, right) = (self.left.1, self.right.1);
        match self.relation {
            Relation::Equal => left.gap(right),
            Relation::AtMost => (left.low - right.high).max(0.0),
        }
    }

    pub fn holds(&self) -> bool {
        // The last bit is the computer's.
        let size = self.left.1.high.abs().min(self.right.1.high.abs());
        self.gap() <= size * 1e-9
    }

    /// Returns the largest relative change of a figure that the check would not notice.
    fn slack(&self, weight: f64) -> f64 {
        match self.relation {
            Relation::Equal => (self.left.1.width() + self.right.1.width()) / weight.abs(),
            Relation::AtMost => f64::INFINITY,
        }
    }
}

/// Support of a figure by checks that hold.
struct LawSupport {
    /// Largest relative error that the sharpest of them would not notice.
    slack: f64,
    checks: usize,
}

/// Returns the figures that a broken check makes doubtful, each with that check's position.
///
/// A figure is cleared if another check holds that would notice an error of the size seen. Of the
/// rest, one that explains several broken checks is doubted alone; if nothing decides, all are. If
/// all are cleared, the ones with the fewest checks are doubted.
pub fn doubts<F: Ord + Clone>(checks: &[LawCheck<F>]) -> BTreeMap<F, usize> {
    let (held, broken): (Vec<usize>, Vec<usize>) =
        (0..checks.len()).partition(|&at| checks[at].holds());
    if broken.is_empty() {
        return BTreeMap::new();
    }
    let mut supports: BTreeMap<&F, LawSupport> = BTreeMap::new();
    for check in held.iter().map(|&at| &checks[at]) {
        for (figure, weight) in &check.figures {
            let none = LawSupport { slack: f64::INFINITY, checks: 0 };
            let own = supports.entry(figure).or_insert(none);
            own.slack = own.slack.min(check.slack(*weight));
            own.checks += 1;
        }
    }
    let suspects = |&at: &usize| -> (usize, BTreeSet<&F>) {
        let check = &checks[at];
        let is_cleared = |(figure, weight): &&(F, f64)| {
            supports.get(figure).is_some_and(|own| own.slack < check.gap() / weight.abs())
        };
        let open: BTreeSet<&F> =
            check.figures.iter().filter(|it| !is_cleared(it)).map(|(figure, _)| figure).collect();
        if !open.is_empty() {
            return (at, open);
        }
        let count = |figure: &F| supports.get(figure).map_or(0, |own| own.checks);
        let fewest = check.figures.iter().map(|(figure, _)| count(figure)).min();
        let weakest = check.figures.iter().filter(|(figure, _)| Some(count(figure)) == fewest);
        (at, weakest.map(|(figure, _)| figure).collect())
    };
    let mut left: Vec<(usize, BTreeSet<&F>)> = broken.iter().map(suspects).collect();
    let mut found = BTreeMap::new();
    while let Some((_, first)) = left.first() {
        let explains = |figure: &F| left.iter().filter(|(_, open)| open.contains(figure)).count();
        let most = left.iter().flat_map(|(_, open)| open).max_by_key(|figure| explains(figure));
        let blamed: Vec<&F> = match most {
            Some(figure) if explains(figure) > 1 => vec![*figure],
            _ => first.iter().copied().collect(),
        };
        for figure in &blamed {
            let reason = left.iter().find(|(_, open)| open.contains(figure));
            found.extend(reason.map(|(at, _)| ((*figure).clone(), *at)));
        }
        left.retain(|(_, open)| !blamed.iter().any(|figure| open.contains(figure)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(value: f64, step: f64) -> Interval {
        Interval { low: value - step, high: value + step }
    }

    fn equal(names: &[&'static str], left: Interval, right: Interval) -> LawCheck<&'static str> {
        let figures = names.iter().map(|name| (*name, left.middle().max(right.middle()))).collect();
        LawCheck {
            law: "a law",
            figures,
            left: ("left", left),
            right: ("right", right),
            relation: Relation::Equal,
        }
    }

    #[test]
    fn a_value_is_known_to_its_digits() {
        assert!(Interval::printed(0.3, 0.1).gap(Interval::exact(0.2446)) < 1e-9);
        assert!(Interval::printed(0.3, 0.1).gap(Interval::exact(0.243)) > 0.0);
        let product = Interval::printed(10.0, 1.0) * Interval::printed(2.0, 1.0);
        assert!(product.low < 14.0 && product.high > 26.0, "{product:?}");
        assert_eq!((Interval::exact(1.0) / of(0.5, 0.5)).high, f64::INFINITY);
        let total: Interval = [of(1.0, 0.5), of(2.0, 0.5)].into_iter().sum();
        assert_eq!(total, of(3.0, 1.0));
    }

    #[test]
    fn the_figure_that_explains_all_is_doubted_alone() {
        // total / elapsed = rate; total / transactions = each; rate / each agrees.
        let checks = [
            equal(&["total", "rate"], of(9.0, 0.1), of(1.0, 0.1)),
            equal(&["total", "each"], of(9.0, 0.1), of(1.0, 0.1)),
            equal(&["rate", "each"], of(1.0, 0.1), of(1.0, 0.1)),
        ];
        assert_eq!(doubts(&checks).into_keys().collect::<Vec<_>>(), ["total"]);
        let checks = [
            equal(&["total", "rate"], of(9.0, 0.1), of(1.0, 0.1)),
            equal(&["total", "each"], of(9.0, 0.1), of(9.0, 0.1)),
        ];
        assert_eq!(doubts(&checks).into_keys().collect::<Vec<_>>(), ["rate"]);
    }

    #[test]
    fn a_check_that_would_not_notice_clears_nobody() {
        let checks = [
            equal(&["time", "waits"], of(9.0, 0.1), of(8.0, 0.1)),
            equal(&["time", "share"], of(9.0, 5.0), of(8.0, 5.0)),
        ];
        assert_eq!(doubts(&checks).into_keys().collect::<Vec<_>>(), ["time", "waits"]);
        assert!(doubts(&checks[1..]).is_empty());
        // If everything else agrees, all figures of the check are doubted.
        let checks = [
            equal(&["a", "b"], of(9.0, 0.1), of(1.0, 0.1)),
            equal(&["a"], of(9.0, 0.1), of(9.0, 0.1)),
            equal(&["b"], of(1.0, 0.1), of(1.0, 0.1)),
        ];
        assert_eq!(doubts(&checks).into_keys().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn an_upper_bound_is_no_proof_of_its_figures() {
        let mut bound = equal(&["part"], of(1.0, 0.0), of(9.0, 0.0));
        bound.relation = Relation::AtMost;
        let broken = equal(&["part", "other"], of(9.0, 0.1), of(1.0, 0.1));
        assert_eq!(doubts(&[bound.clone(), broken]).len(), 2);
        bound.left.1 = of(10.0, 0.0);
        assert!(!bound.holds());
    }
}
