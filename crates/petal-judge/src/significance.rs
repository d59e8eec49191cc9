//! Do two sides differ, by how much, and how sure is that? Differences are shares of the baseline;
//! the run is the unit of evidence. Pure functions of values.
//!
//! Sides that ran one after the other are compared by Welch's test (Welch 1947, degrees of freedom
//! by Satterthwaite 1946); the interval of the ratio of the means holds every ratio that this test
//! does not refuse (Fieller 1954), so that it leaves out "no difference" exactly when the test is
//! significant. Sides that ran in turn are compared by the ratios of their rounds, whose mean is
//! the geometric one (Fleming and Wallace 1986). If figures decided the number of a side's runs,
//! intervals hold at any number of them. Many cells: Holm (1979).

use serde::Serialize;

use super::estimate::{
    CONFIDENCE, Estimate, REPEATS_MIN, Uncertain, anytime_half_width, deviation, mean,
};
use petal_settings::limit::{ChangeLimit, ForbiddenSide};

const LEVEL: f64 = 1.0 - CONFIDENCE;
/// Halvings of the search for an interval's bound.
const HALVINGS: u32 = 60;
/// The smallest p value of sides that are compared at any number of runs.
const P_MIN: f64 = 1e-12;
/// Doublings from the ratio to its farthest bound; a farther one counts as unbounded.
const DOUBLINGS_MAX: u32 = 24;

/// Reason why paired rounds give no interval: the difference is then between the means.
pub const NO_RATIO: &str = "a round has no ratio, because a figure of it is not above zero; rounds \
                            without it make it known";

const TOO_FEW: &str = "fewer than three runs on a side; three or more make it known (--repeats 3)";
const NO_SPREAD: &str = "no run differs from another, as rounded figures do; figures with more digits \
                         make it known";
const WIDE_BASELINE: &str = "the baseline varies too much; more repeats make it known";

/// Method of the comparison of two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Round by round, as they ran in turn.
    Paired,
    /// Sides in sequence.
    Welch,
    /// Sides of which at least one was repeated until its figures were known.
    Anytime,
}

/// A difference as a share of the baseline: 0.05 is five percent more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    pub share: f64,
    /// The 95 % interval of `share`; None if it is unknown.
    pub interval: Option<(f64, f64)>,
    /// Two-sided, of "no difference".
    pub p: Option<f64>,
    pub method: Method,
    /// Reason for an unknown `interval` or `p`.
    pub unknown: Option<String>,
}

impl Difference {
    fn without_proof(share: f64, method: Method, why: impl Into<String>) -> Self {
        Self { share, interval: None, p: None, method, unknown: Some(why.into()) }
    }
}

/// Returns true if every value of `a` is above zero and every value of `b` is zero.
pub fn is_fall_to_zero(a: &[f64], b: &[f64]) -> bool {
    let (some, none) = (a.iter().all(|value| *value > 0.0), b.iter().all(|value| *value == 0.0));
    !a.is_empty() && !b.is_empty() && some && none
}

/// A fall to zero in every one of enough runs; None for any other difference. No rate that is known
/// by counting is so far from zero by chance.
fn fallen(a: &[f64], b: &[f64], method: Method) -> Option<Difference> {
    let are_enough = a.len() >= REPEATS_MIN && b.len() >= REPEATS_MIN;
    let p = welch(a, b).map_or(P_MIN, |test| test.p.max(P_MIN));
    (are_enough && is_fall_to_zero(a, b)).then_some(Difference {
        share: -1.0,
        interval: Some((-1.0, -1.0)),
        p: Some(p),
        method,
        unknown: None,
    })
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    pub t: f64,
    pub freedom: f64,
    pub p: f64,
}

fn welch_of(a: Uncertain, b: Uncertain) -> Option<Welch> {
    let error = a.error.hypot(b.error);
    if error <= 0.0 {
        return None;
    }
    let part = |sample: Uncertain| sample.error.powi(4) / sample.freedom;
    let freedom = error.powi(4) / (part(a) + part(b));
    let difference = Uncertain { mid: b.mid - a.mid, error, freedom };
    Some(Welch { t: difference.t(), freedom, p: difference.p()? })
}

/// Welch's test of b against a; None under two values a side, or if neither side varies.
pub fn welch(a: &[f64], b: &[f64]) -> Option<Welch> {
    welch_of(Uncertain::mean_of(a)?, Uncertain::mean_of(b)?)
}

/// The difference of two sides that ran one after the other. None without values, or against a
/// baseline that is not above zero.
pub fn sequential(a: &[f64], b: &[f64]) -> Option<Difference> {
    if let Some(fallen) = fallen(a, b, Method::Welch) {
        return Some(fallen);
    }
    let share = mean(b)? / mean(a).filter(|mean| *mean > 0.0)? - 1.0;
    let without = |why: &str| Some(Difference::without_proof(share, Method::Welch, why));
    if a.len() < REPEATS_MIN || b.len() < REPEATS_MIN {
        return without(TOO_FEW);
    }
    let (Some(a), Some(b)) = (Uncertain::mean_of(a), Uncertain::mean_of(b)) else {
        return without("no spread");
    };
    let Some(test) = welch_of(a, b) else {
        return without(NO_SPREAD);
    };
    let interval = ratio_bound(a, b, -1.0).zip(ratio_bound(a, b, 1.0));
    let unknown = interval.is_none().then(|| WIDE_BASELINE.to_owned());
    Some(Difference {
        share,
        // No figure is below 0, whatever the model of its noise allows.
        interval: interval.map(|(low, high)| ((low - 1.0).max(-1.0), high - 1.0)),
        p: Some(test.p),
        method: Method::Welch,
        unknown,
    })
}

/// The difference of two sides if figures decided how often one of them was repeated. The interval
/// of each side holds at any number of runs, at half of the level, so that both hold together. None
/// without values, or against a baseline that is not above zero.
pub fn anytime(a: &[f64], b: &[f64]) -> Option<Difference> {
    if let Some(fallen) = fallen(a, b, Method::Anytime) {
        return Some(fallen);
    }
    let share = mean(b)? / mean(a).filter(|mean| *mean > 0.0)? - 1.0;
    let without = |why: &str| Some(Difference::without_proof(share, Method::Anytime, why));
    if a.len() < REPEATS_MIN || b.len() < REPEATS_MIN {
        return without(TOO_FEW);
    }
    if [a, b].iter().all(|side| deviation(side) == Some(0.0)) {
        return without(NO_SPREAD);
    }
    let ends = anytime_ends(a, b, LEVEL).filter(|(a, _)| a.0 > 0.0);
    let unknown = ends.is_none().then(|| WIDE_BASELINE.to_owned());
    let interval = ends.map(|(a, b)| {
        (((b.0 / a.0).min(b.0 / a.1) - 1.0).max(-1.0), (b.1 / a.0).max(b.1 / a.1) - 1.0)
    });
    Some(Difference { share, interval, p: Some(p_apart(a, b)), method: Method::Anytime, unknown })
}

/// The intervals of both means, which hold together at this level. None if one is unbounded.
fn anytime_ends(a: &[f64], b: &[f64], level: f64) -> Option<((f64, f64), (f64, f64))> {
    let ends = |values: &[f64]| {
        let (mean, half) = (mean(values)?, anytime_half_width(values, 1.0 - level / 2.0)?);
        Some((mean - half, mean + half))
    };
    Some((ends(a)?, ends(b)?))
}

/// The smallest level at which the intervals of both sides do not meet.
fn p_apart(a: &[f64], b: &[f64]) -> f64 {
    let are_apart =
        |level: f64| anytime_ends(a, b, level).is_some_and(|(a, b)| a.1 < b.0 || b.1 < a.0);
    if !are_apart(1.0) {
        return 1.0;
    }
    let (mut meet, mut apart) = (P_MIN.ln(), 0.0_f64);
    for _ in 0..HALVINGS {
        let middle = meet.midpoint(apart);
        if are_apart(middle.exp()) {
            apart = middle;
        } else {
            meet = middle;
        }
    }
    apart.exp()
}

/// The ratio b/a, from its estimate in one direction, at which the test of `b = ratio a` begins to
/// be significant.
fn ratio_bound(a: Uncertain, b: Uncertain, direction: f64) -> Option<f64> {
    let is_refused = |ratio: f64| welch_of(a.times(ratio), b).is_some_and(|test| test.p < LEVEL);
    let ratio = b.mid / a.mid;
    let error = b.error.hypot(ratio * a.error) / a.mid;
    let step = |doublings: u32| ratio + direction * error * f64::from(1_u32 << doublings);
    let outside = (0..DOUBLINGS_MAX).map(step).find(|&ratio| is_refused(ratio))?;
    let (mut inside, mut outside) = (ratio, outside);
    for _ in 0..HALVINGS {
        let middle = inside.midpoint(outside);
        if is_refused(middle) {
            outside = middle;
        } else {
            inside = middle;
        }
    }
    Some(inside)
}

/// The difference of two sides that ran in turn: the geometric mean of the rounds' own ratios, with
/// the t interval and test of their logarithms, so that the sides swapped give the inverse ratio.
/// None without rounds, or against a baseline that is not above zero.
pub fn paired(rounds: &[(f64, f64)]) -> Option<Difference> {
    let without =
        |share: f64, why: &str| Some(Difference::without_proof(share, Method::Paired, why));
    let (a, b): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
    if let Some(fallen) = fallen(&a, &b, Method::Paired) {
        return Some(fallen);
    }
    let of_means = mean(&b)? / mean(&a).filter(|mean| *mean > 0.0)? - 1.0;
    if rounds.iter().any(|&(a, b)| a <= 0.0 || b <= 0.0) {
        return without(of_means, NO_RATIO);
    }
    let logarithms = Estimate::of(rounds.iter().map(|(a, b)| b.ln() - a.ln()).collect())?;
    let share = logarithms.mean.exp_m1();
    if rounds.len() < REPEATS_MIN {
        return without(
            share,
            "fewer than three rounds; three or more make it known (--repeats 3)",
        );
    }
    let known = Uncertain::mean_of(&logarithms.values).filter(|known| known.error > 0.0);
    let Some(known) = known else {
        return without(share, NO_SPREAD);
    };
    Some(Difference {
        share,
        interval: logarithms.interval.map(|(low, high)| (low.exp_m1(), high.exp_m1())),
        p: known.p(),
        method: Method::Paired,
        unknown: None,
    })
}

/// The one-sided p value of "the change is not past this limit", by the method of the difference.
/// None if the difference is not proven by repeats.
pub fn p_of_limit(
    difference: &Difference,
    a: &[f64],
    b: &[f64],
    rounds: Option<usize>,
    limit: &ChangeLimit,
) -> Option<f64> {
    let p = difference.p?;
    let (t, two_sided) = match rounds {
        _ if is_fall_to_zero(a, b) => (-1.0, p),
        None if difference.method == Method::Anytime => {
            let scaled: Vec<f64> = a.iter().map(|value| value * (1.0 + limit.share)).collect();
            (mean(b)? - mean(&scaled)?, p_apart(&scaled, b))
        }
        None => {
            let scaled = Uncertain::mean_of(a)?.times(1.0 + limit.share);
            let test = welch_of(scaled, Uncertain::mean_of(b)?)?;
            (test.t, test.p)
        }
        // The interval holds the error of the rounds' mean logarithm.
        Some(rounds) => {
            let (low, high) = difference.interval?;
            let known = Uncertain::of_interval((low.ln_1p(), high.ln_1p()), rounds as f64 - 1.0)?;
            let mid = difference.share.ln_1p() - limit.share.ln_1p();
            let past = Uncertain { mid, ..known };
            (past.t(), past.p()?)
        }
    };
    let is_past = match limit.side {
        ForbiddenSide::Below => t < 0.0,
        ForbiddenSide::Above => t > 0.0,
    };
    Some(if is_past { two_sided / 2.0 } else { 1.0 - two_sided / 2.0 })
}

/// Holm's step-down correction: p values of a family of tests, each comparable with the level
/// alone. Unknown values are not members of the family.
pub fn holm(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> =
        p_values.iter().enumerate().filter_map(|(at, p)| Some((at, (*p)?))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut corrected = vec![None; p_values.len()];
    let mut least = 0.0_f64;
    for (rank, &(at, p)) in order.iter().enumerate() {
        least = least.max((p * (order.len() - rank) as f64).min(1.0));
        corrected[at] = Some(least);
    }
    corrected
}

/// Returns whether a corrected p value of one side is significant: a two-sided interval has half of
/// the level at either end.
pub fn is_significant_one_sided(p: f64) -> bool {
    p < LEVEL / 2.0
}

/// Returns whether a corrected p value is significant.
pub fn is_significant(p: f64) -> bool {
    p < LEVEL
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use statrs::distribution::{Binomial, ContinuousCDF as _, DiscreteCDF as _, Normal};

    #[track_caller]
    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance * b.abs().max(1e-9), "{a} and {b}");
    }

    /// The first example of Wikipedia's "Welch's t-test" (t = -2.46, 25.0 degrees of freedom,
    /// p = 0.021), and Student's sleep data in R's handbook (t = -1.8608, df = 17.776,
    /// p = 0.07939); more digits by SciPy 1.17.
    #[test]
    fn published_tests_of_welch() {
        let a = [
            27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7,
            21.4,
        ];
        let b = [
            27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5,
            24.4,
        ];
        let test = welch(&b, &a).unwrap();
        close(test.t, -2.455356398286006, 1e-9);
        close(test.freedom, 24.988529290231416, 1e-9);
        close(test.p, 0.021378001462866992, 1e-6);
        let test = welch(&SLEEP_2, &SLEEP_1).unwrap();
        close(test.t, -1.8608134674868526, 1e-9);
        close(test.freedom, 17.776473516178488, 1e-9);
        close(test.p, 0.0793941401873583, 1e-6);
    }

    const SLEEP_1: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    const SLEEP_2: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

    /// What compression costs in reads per second of two nodes: 28.3, 24.9 and 23.6 % as
    /// published; interval and p by SciPy 1.17 (Fieller's interval solved with `brentq`).
    #[test]
    fn the_published_cost_of_compression() {
        let off =
            [[79463.0, 79751.0, 79398.0], [56919.0, 57007.0, 56643.0], [49759.0, 48346.0, 48508.0]];
        let on =
            [[56141.0, 57311.0, 57530.0], [43110.0, 42167.0, 42819.0], [37742.0, 36984.0, 37353.0]];
        let shares = [-0.2834308417011717, -0.24900773294092138, -0.2355452790680227];
        let intervals = [
            (-0.30585126470898694, -0.2611163341524877),
            (-0.26824156917818376, -0.2299163466843479),
            (-0.2594922303685807, -0.21001239826589524),
        ];
        let p_values = [0.00017196945084630658, 6.811194613944545e-05, 0.0002167549267414693];
        for at in 0..3 {
            let difference = sequential(&off[at], &on[at]).unwrap();
            close(difference.share, shares[at], 1e-12);
            let (low, high) = difference.interval.unwrap();
            close(low, intervals[at].0, 1e-6);
            close(high, intervals[at].1, 1e-6);
            close(difference.p.unwrap(), p_values[at], 1e-6);
        }
    }

    /// Student's sleep data as the logarithms of ten rounds' ratios; by SciPy 1.17 the paired test
    /// of the differences has t = -4.0621 and p = 0.002833.
    #[test]
    fn rounds_are_paired() {
        let difference = paired(&sleep_rounds()).unwrap();
        close(difference.p.unwrap(), 0.002832890197384273, 1e-6);
        let (low, high) = difference.interval.unwrap();
        close(low.ln_1p() * 1000.0, -2.459885763276983, 1e-9);
        close(difference.share.ln_1p() * 1000.0, -1.58, 1e-9);
        close(high.ln_1p() * 1000.0, -0.7001142367230175, 1e-9);
        // Drift affects both sides of a round: pairs show a difference that Welch's test does not.
        let drifting = [(100.0, 103.0), (150.0, 154.0), (200.0, 206.5)];
        assert!(paired(&drifting).unwrap().p.unwrap() < 0.01);
        let (a, b): (Vec<f64>, Vec<f64>) = drifting.into_iter().unzip();
        assert!(sequential(&a, &b).unwrap().p.unwrap() > 0.8);
    }

    fn sleep_rounds() -> Vec<(f64, f64)> {
        let nights = SLEEP_1.iter().zip(&SLEEP_2);
        nights.map(|(one, two)| (1000.0, 1000.0 * ((one - two) / 1000.0).exp())).collect()
    }

    /// Two and four times as much, and a half and a quarter: neither side is more. The mean of the
    /// changes is +69 % from either.
    #[test]
    fn equal_sides_that_vary_are_equal() {
        let rounds = [(1.0, 2.0), (4.0, 1.0), (2.0, 1.0), (1.0, 4.0)];
        assert_eq!(paired(&rounds).unwrap().share, 0.0);
        // Without a ratio in one of the rounds there is the change of the means, and no proof.
        for rounds in [[(8.0, 6.0), (0.0, 1.0), (8.0, 5.0)], [(8.0, 6.0), (4.0, 0.0), (4.0, 6.0)]] {
            let change = paired(&rounds).unwrap();
            close(change.share, -0.25, 1e-12);
            assert_eq!((change.interval, change.p), (None, None));
            assert_eq!(change.unknown.as_deref(), Some(NO_RATIO));
        }
    }

    /// By hand, of the second family: 4 x 0.005, 3 x 0.01, 2 x 0.03, and 0.04 no less than that.
    #[test]
    fn families_are_corrected() {
        let known = |p: &[f64]| p.iter().map(|&p| Some(p)).collect::<Vec<_>>();
        let shown = |p: &[Option<f64>]| -> Vec<String> {
            holm(p).iter().map(|p| p.map_or("-".into(), |p| format!("{p:.3}"))).collect()
        };
        assert_eq!(shown(&known(&[0.01, 0.02, 0.03, 0.04])), ["0.040", "0.060", "0.060", "0.060"]);
        assert_eq!(shown(&known(&[0.01, 0.04, 0.03, 0.005])), ["0.030", "0.060", "0.060", "0.020"]);
        assert_eq!(shown(&[Some(0.04), None, Some(0.9)]), ["0.080", "-", "0.900"]);
    }

    /// The interval leaves out "no difference", or a limit, exactly if the test is significant.
    #[test]
    fn sides_that_their_figures_ended_are_compared_by_intervals_that_hold_at_any_number() {
        let a = [100.0, 101.0, 99.0, 100.5, 99.5];
        let times = |factor: f64| a.map(|value| value * factor);
        for (factor, is_known) in [(1.0, false), (1.03, false), (1.2, true), (0.8, true)] {
            let b = times(factor);
            let found = anytime(&a, &b).unwrap();
            close(found.share, factor - 1.0, 1e-9);
            let (low, high) = found.interval.unwrap();
            assert_eq!(found.p.is_some_and(is_significant), is_known, "{found:?}");
            assert_eq!(low > 0.0 || high < 0.0, is_known, "{found:?}");
            let by_t = sequential(&a, &b).unwrap();
            assert!(found.p >= by_t.p, "{found:?} {by_t:?}");
            let limit: ChangeLimit = "piops < -10%".parse().unwrap();
            let p = p_of_limit(&found, &a, &b, None, &limit).unwrap();
            assert_eq!(is_significant_one_sided(p), high < limit.share, "{factor}: {p}");
        }
        assert_eq!(anytime(&a, &[1.0, 2.0]).unwrap().p, None);
        assert_eq!(anytime(&[1.6; 3], &[2.2; 3]).unwrap().unknown.as_deref(), Some(NO_SPREAD));
        let wide = anytime(&[1.0, 100.0, 50.0], &a).unwrap();
        assert_eq!((wide.interval, wide.unknown.as_deref()), (None, Some(WIDE_BASELINE)));
    }

    #[test]
    fn unproved_placement_is_unknown_and_says_why() {
        let single = sequential(&[100.0], &[90.0]).unwrap();
        close(single.share, -0.1, 1e-12);
        assert_eq!((single.interval, single.p), (None, None));
        assert!(single.unknown.unwrap().contains("three or more make it known"));
        assert!(sequential(&[1.0, 2.0], &[1.0, 2.0, 3.0]).unwrap().p.is_none());
        let rounded = sequential(&[1.6; 3], &[2.2; 3]).unwrap();
        assert!(rounded.unknown.unwrap().contains("rounded") && rounded.p.is_none());
        assert_eq!(sequential(&[0.0; 3], &[1.0; 3]), None);
        assert_eq!(sequential(&[], &[1.0]), None);
        // A baseline that may as well be nothing bounds no ratio.
        let wild = sequential(&[0.1, 100.0, 0.2], &[50.0, 51.0, 52.0]).unwrap();
        assert!(wild.interval.is_none() && wild.p.is_some() && wild.unknown.is_some());
        assert!(paired(&[(1.0, 2.0)]).unwrap().interval.is_none());
        assert_eq!(paired(&[(0.0, 2.0)]), None);
    }

    /// Runs of one process: each has an offset (variance between runs), plus the mean of many
    /// noisy seconds.
    fn runs(random: &mut Xoshiro256PlusPlus, count: usize, spread: f64) -> Vec<f64> {
        let normal = Normal::new(0.0, 1.0).unwrap();
        let mut draw = || normal.inverse_cdf(random.random::<f64>().max(1e-12));
        (0..count)
            .map(|_| {
                let level = 50_000.0 * (1.0 + spread * draw());
                let seconds: f64 = (0..60).map(|_| level * (1.0 + 0.1 * draw())).sum();
                seconds / 60.0
            })
            .collect()
    }

    /// Two sides of the same process, three runs each, differ "significantly" no more often than
    /// the stated 5 %. 2,000 seeded trials a spread; the most that a true 5 % would show in 999 of
    /// 1,000 such counts (the binomial's quantile, 131) is allowed.
    #[test]
    fn the_same_process_differs_no_more_often_than_stated() {
        const TRIALS: u64 = 2_000;
        let allowed = Binomial::new(LEVEL, TRIALS).unwrap().inverse_cdf(0.999);
        assert_eq!(allowed, 131);
        for (seed, spreads) in [(1, (0.02, 0.02)), (2, (0.10, 0.10)), (3, (0.01, 0.08))] {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let (mut by_welch, mut by_rounds) = (0, 0);
            for _ in 0..TRIALS {
                let a = runs(&mut random, 3, spreads.0);
                let b = runs(&mut random, 3, spreads.1);
                let is_false = |difference: Difference| is_significant(difference.p.unwrap());
                by_welch += u64::from(is_false(sequential(&a, &b).unwrap()));
                let rounds: Vec<(f64, f64)> = a.into_iter().zip(b).collect();
                by_rounds += u64::from(is_false(paired(&rounds).unwrap()));
            }
            assert!(by_welch <= allowed, "Welch: {by_welch} of {TRIALS}, spreads {spreads:?}");
            assert!(by_rounds <= allowed, "paired: {by_rounds} of {TRIALS}, spreads {spreads:?}");
            // A test that never fires would pass too.
            assert!(by_welch > 20 && by_rounds > 20, "{by_welch}, {by_rounds}");
        }
    }

    /// Ten cells of the same process at once: at least one of them "differs" in no more than 5 %
    /// of 1,000 families (allowed: the binomial's 99.9 % quantile, 73).
    #[test]
    fn a_family_of_cells_is_wrong_no_more_often_than_stated() {
        const FAMILIES: u64 = 1_000;
        let allowed = Binomial::new(LEVEL, FAMILIES).unwrap().inverse_cdf(0.999);
        assert_eq!(allowed, 73);
        let normal = Normal::new(0.0, 1.0).unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
        let mut side = || -> Vec<f64> {
            let mut draw = || normal.inverse_cdf(random.random::<f64>().max(1e-12));
            (0..3).map(|_| 1000.0 + 30.0 * draw()).collect()
        };
        let wrong = (0..FAMILIES).filter(|_| {
            let p: Vec<Option<f64>> =
                (0..10).map(|_| welch(&side(), &side()).map(|test| test.p)).collect();
            holm(&p).into_iter().flatten().any(is_significant)
        });
        assert!(wrong.count() as u64 <= allowed);
    }

    /// A difference that is there is found: 20 % with runs that vary by 2 %.
    #[test]
    fn a_real_difference_is_found() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
        let found = (0..500).filter(|_| {
            let a = runs(&mut random, 3, 0.02);
            let b: Vec<f64> = runs(&mut random, 3, 0.02).iter().map(|run| run * 0.8).collect();
            sequential(&a, &b).unwrap().p.is_some_and(is_significant)
        });
        assert!(found.count() > 450);
    }

    proptest! {
        #[test]
        fn the_interval_leaves_out_zero_exactly_when_the_test_is_significant(
            a in prop::collection::vec(10.0f64..1000.0, 3..8),
            b in prop::collection::vec(10.0f64..1000.0, 3..8),
        ) {
            let difference = sequential(&a, &b).unwrap();
            if let Some(((low, high), p)) = difference.interval.zip(difference.p) {
                prop_assert!(low <= difference.share && difference.share <= high);
                // At the very bound rounding decides.
                prop_assume!((p - LEVEL).abs() > 1e-6);
                prop_assert_eq!(low > 0.0 || high < 0.0, p < LEVEL, "{:?}", difference);
            }
        }

        #[test]
        fn swapped_sides_have_the_inverse_ratio_and_the_same_p(
            rounds in prop::collection::vec((0.01f64..1e6, 0.01f64..1e6), 1..12),
        ) {
            let swapped: Vec<(f64, f64)> = rounds.iter().map(|&(a, b)| (b, a)).collect();
            let (there, back) = (paired(&rounds).unwrap(), paired(&swapped).unwrap());
            // A ratio near 0 keeps few digits of its logarithm.
            let is_inverse = |one: f64, other: f64| {
                one.min(other).ln_1p() < -20.0 || (one.ln_1p() + other.ln_1p()).abs() < 1e-6
            };
            prop_assert!(is_inverse(there.share, back.share), "{there:?} {back:?}");
            prop_assert_eq!(there.p, back.p);
            prop_assert_eq!(there.interval.is_some(), back.interval.is_some());
            if let Some(((low, high), (back_low, back_high))) = there.interval.zip(back.interval) {
                prop_assert!(low <= there.share && there.share <= high);
                prop_assert!(is_inverse(low, back_high), "{there:?} {back:?}");
                prop_assert!(is_inverse(high, back_low), "{there:?} {back:?}");
            }
        }

        #[test]
        fn units_do_not_matter(
            a in prop::collection::vec(10.0f64..1000.0, 3..8),
            b in prop::collection::vec(10.0f64..1000.0, 3..8),
            factor in 0.001f64..1000.0,
        ) {
            let scaled = |values: &[f64]| values.iter().map(|v| v * factor).collect::<Vec<_>>();
            let (plain, other) = (sequential(&a, &b), sequential(&scaled(&a), &scaled(&b)));
            let (plain, other) = (plain.unwrap(), other.unwrap());
            prop_assert!((plain.share - other.share).abs() < 1e-9);
            prop_assert!((plain.p.unwrap() - other.p.unwrap()).abs() < 1e-9);
        }

        #[test]
        fn holm_keeps_the_order_and_never_lowers(p in prop::collection::vec(0.0f64..1.0, 1..30)) {
            let given: Vec<Option<f64>> = p.iter().map(|&p| Some(p)).collect();
            let corrected: Vec<f64> = holm(&given).into_iter().flatten().collect();
            for (at, &p_at) in p.iter().enumerate() {
                prop_assert!(corrected[at] >= p_at && corrected[at] <= 1.0);
                for (other, &p_other) in p.iter().enumerate() {
                    prop_assert!(p_at > p_other || corrected[at] <= corrected[other]);
                }
            }
        }
    }
}
