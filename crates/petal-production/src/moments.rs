//! Figures over time: values that differ from the same hours of other days, and figures that moved
//! together. Knows names and values alone.

use petal_judge::estimate;
use std::cmp::Ordering;

use time::{PrimitiveDateTime, Weekday};

/// Values of the same hours that a median needs.
const SAME_HOURS_MIN: usize = 4;
/// Values of any hours, if there are fewer of the same.
const ALL_HOURS_MIN: usize = 6;
/// Minutes of the clock that hours may differ by to be the same.
const SAME_HOUR_MIN: i32 = 30;
/// A median absolute deviation as a standard deviation, of values that are normally distributed.
pub(crate) const MAD_TO_SIGMA: f64 = 1.4826;
/// Deviations from which on a value is an outlier.
const SIGMAS: f64 = 3.5;
/// The smallest outlier of a figure that hardly moves, as a share of its median.
const SPREAD_MIN: f64 = 0.03;
/// Values that a correlation of ranks needs, and how close it is to be.
const TOGETHER_MIN: usize = 8;
const TOGETHER_RHO: f64 = 0.8;
/// The other figure of a latency that follows the load.
const LOAD: &str = "load";

/// An interval of which figures are known.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportMoment {
    pub begin: Option<PrimitiveDateTime>,
    /// The file that the figures come from.
    pub source: String,
}

/// A value against those that it is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    pub median: f64,
    /// The median absolute deviation of the others.
    pub mad: f64,
    /// Deviations from the median, upwards positive.
    pub sigmas: f64,
    /// The others are of the same hours of other days, not of all hours.
    pub is_same_hour: bool,
    pub others: usize,
}

impl Judged {
    pub fn stands_out(&self) -> bool {
        self.sigmas.abs() > SIGMAS
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct FigureOverTime {
    pub name: &'static str,
    pub unit: &'static str,
    /// A value for each moment, in their order.
    pub values: Vec<Option<f64>>,
    pub judged: Vec<Option<Judged>>,
}

/// Two figures whose ranks go together, or against each other.
#[derive(Debug, Clone, PartialEq)]
pub struct CorrelatedFigures {
    pub one: &'static str,
    pub other: &'static str,
    pub rho: f64,
    pub moments: usize,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct OverTime {
    pub moments: Vec<ReportMoment>,
    pub figures: Vec<FigureOverTime>,
    /// The closest first.
    pub together: Vec<CorrelatedFigures>,
}

/// A figure's name, its unit, and a value for each moment.
pub type Series = (&'static str, &'static str, Vec<Option<f64>>);

impl OverTime {
    /// Figures of moments. Two figures that both follow `loads` did not move together for another
    /// reason; without loads all are compared.
    pub fn of(moments: Vec<ReportMoment>, series: Vec<Series>, loads: &[f64]) -> Self {
        let known = series.into_iter().filter(|(_, _, values)| values.iter().any(Option::is_some));
        let figures: Vec<FigureOverTime> = known
            .map(|(name, unit, values)| {
                let judged = (0..values.len()).map(|at| judge(&moments, &values, at)).collect();
                FigureOverTime { name, unit, values, judged }
            })
            .collect();
        let together = together(&figures, loads);
        Self { moments, figures, together }
    }

    /// Returns the moment with the farthest outlier, and its deviations. Faster latencies and values
    /// of the same hour of other days do not count.
    pub fn farthest(&self) -> Option<(usize, f64)> {
        let far = |at: usize| {
            let out = self.standing_out(at).into_iter();
            let mut odd = out.filter(|(figure, _, judged)| {
                let is_faster = figure.unit == "us" && judged.sigmas < 0.0;
                !is_faster && !self.repeats(figure, at, judged.sigmas)
            });
            odd.next().map(|(_, _, judged)| (at, judged.sigmas.abs()))
        };
        let all = (0..self.moments.len()).filter_map(far);
        all.max_by(|one, two| one.1.total_cmp(&two.1))
    }

    /// True if a figure deviates at least half as far at the same hour of another day.
    fn repeats(&self, figure: &FigureOverTime, at: usize, sigmas: f64) -> bool {
        let begin = |at: usize| self.moments.get(at).and_then(|moment| moment.begin);
        let is_same = |other: usize| {
            begin(at).zip(begin(other)).is_some_and(|(one, two)| is_same_hour(one, two))
        };
        let mut others = figure.judged.iter().enumerate().filter(|(other, _)| is_same(*other));
        others.any(|(_, it)| it.is_some_and(|it| it.sigmas / sigmas >= 0.5))
    }

    /// Returns the outliers of a moment, the farthest first.
    pub fn standing_out(&self, at: usize) -> Vec<(&FigureOverTime, f64, Judged)> {
        let of = |figure| standing_out(figure, at).map(|(value, judged)| (figure, value, judged));
        let mut found: Vec<_> = self.figures.iter().filter_map(of).collect();
        found.sort_by(|one, two| two.2.sigmas.abs().total_cmp(&one.2.sigmas.abs()));
        found
    }
}

fn standing_out(figure: &FigureOverTime, at: usize) -> Option<(f64, Judged)> {
    let judged = figure.judged.get(at).copied().flatten().filter(Judged::stands_out)?;
    Some((figure.values.get(at).copied().flatten()?, judged))
}

/// Judges a value by others, of the same hour if possible; None if there are too few. Weekends are
/// compared with weekends; too few of them are outliers only if they are among all hours too.
fn judge(moments: &[ReportMoment], values: &[Option<f64>], at: usize) -> Option<Judged> {
    let value = values.get(at).copied().flatten()?;
    let here = moments.get(at)?.begin;
    let others = |is_taken: &dyn Fn(&ReportMoment) -> bool| -> Vec<f64> {
        let all = moments.iter().zip(values).enumerate();
        let taken = all.filter(|(other, (moment, _))| *other != at && is_taken(moment));
        taken.filter_map(|(_, (_, value))| *value).collect()
    };
    let is_same = |other: &ReportMoment| {
        here.zip(other.begin).is_some_and(|(one, two)| is_same_hour(one, two))
    };
    let is_same_day =
        |other: &ReportMoment| is_same(other) && is_weekend(here) == is_weekend(other.begin);
    let of_days = against(value, &others(&is_same_day), true);
    if of_days.is_some() {
        return of_days;
    }
    let same = against(value, &others(&is_same), true);
    let all = against(value, &others(&|_| true), false);
    let is_nearer = |all: &Judged| same.is_some_and(|it| all.sigmas.abs() < it.sigmas.abs());
    all.filter(|all| is_weekend(here) && is_nearer(all)).or(same).or(all)
}

fn is_weekend(begin: Option<PrimitiveDateTime>) -> bool {
    begin.is_some_and(|begin| matches!(begin.weekday(), Weekday::Saturday | Weekday::Sunday))
}

fn against(value: f64, others: &[f64], is_same_hour: bool) -> Option<Judged> {
    if others.len() < if is_same_hour { SAME_HOURS_MIN } else { ALL_HOURS_MIN } {
        return None;
    }
    let median = estimate::median(others)?;
    let mad =
        estimate::median(&others.iter().map(|other| (other - median).abs()).collect::<Vec<_>>())?;
    let sigma = (mad * MAD_TO_SIGMA).max(median.abs() * SPREAD_MIN);
    let sigmas = if sigma > 0.0 { (value - median) / sigma } else { 0.0 };
    Some(Judged { median, mad, sigmas, is_same_hour, others: others.len() })
}

/// Returns whether two times of day are within half an hour, on different days.
pub(crate) fn is_same_hour(one: PrimitiveDateTime, two: PrimitiveDateTime) -> bool {
    const DAY: i32 = 24 * 60;
    let minutes = |time: PrimitiveDateTime| i32::from(time.hour()) * 60 + i32::from(time.minute());
    let apart = (minutes(one) - minutes(two)).abs();
    apart.min(DAY - apart) <= SAME_HOUR_MIN && (one - two).abs() > time::Duration::hours(12)
}

fn together(figures: &[FigureOverTime], loads: &[f64]) -> Vec<CorrelatedFigures> {
    let with_load = |figure: &FigureOverTime| {
        let pairs = figure.values.iter().zip(loads);
        let known: Vec<(f64, f64)> =
            pairs.filter_map(|(value, load)| Some(((*value)?, *load))).collect();
        let rho = rank_correlation(&known).filter(|rho| rho.abs() >= TOGETHER_RHO)?;
        let (one, other, moments) = (figure.name, LOAD, known.len());
        Some(CorrelatedFigures { one, other, rho, moments })
    };
    let with_load: Vec<Option<CorrelatedFigures>> = figures.iter().map(with_load).collect();
    let follow: Vec<bool> = with_load.iter().map(Option::is_some).collect();
    // A latency need not follow the load.
    let latencies = figures.iter().zip(with_load).filter(|(figure, _)| figure.unit == "us");
    let mut found: Vec<CorrelatedFigures> = latencies.filter_map(|(_, it)| it).collect();
    for (at, one) in figures.iter().enumerate() {
        for (other_at, other) in figures.iter().enumerate().skip(at + 1) {
            if follow[at] && follow[other_at] {
                continue;
            }
            let pairs = one.values.iter().zip(&other.values);
            let known: Vec<(f64, f64)> = pairs.filter_map(|(a, b)| (*a).zip(*b)).collect();
            if let Some(rho) = rank_correlation(&known).filter(|rho| rho.abs() >= TOGETHER_RHO) {
                let (one, other, moments) = (one.name, other.name, known.len());
                found.push(CorrelatedFigures { one, other, rho, moments });
            }
        }
    }
    found.sort_by(|one, two| two.rho.abs().partial_cmp(&one.rho.abs()).unwrap_or(Ordering::Equal));
    found
}

/// Spearman's; None of too few values, or of one that never changes.
fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < TOGETHER_MIN {
        return None;
    }
    let ones = ranks(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let twos = ranks(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let mean = (pairs.len() as f64 - 1.0) / 2.0;
    let (mut both, mut one_sq, mut two_sq) = (0.0, 0.0, 0.0);
    for (one, two) in ones.iter().zip(&twos) {
        both += (one - mean) * (two - mean);
        one_sq += (one - mean).powi(2);
        two_sq += (two - mean).powi(2);
    }
    (one_sq > 0.0 && two_sq > 0.0).then(|| both / (one_sq * two_sq).sqrt())
}

/// Returns the rank of each value; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: f64| values.iter().filter(|other| **other < value).count() as f64;
    let equal = |value: f64| values.iter().filter(|other| **other == value).count() as f64;
    values.iter().map(|&value| below(value) + (equal(value) - 1.0) / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    /// Ten days of hours: a backup every night at two, and a figure that follows it.
    fn days(change: impl Fn(usize, &mut f64)) -> OverTime {
        let first = datetime!(2026-11-01 00:00);
        let moments: Vec<ReportMoment> = (0..240)
            .map(|at| ReportMoment {
                begin: Some(first + time::Duration::hours(at)),
                source: String::new(),
            })
            .collect();
        let value = |at: usize| {
            let noise = (at * 7919 % 13) as f64;
            let mut value = if at % 24 == 2 { 5000.0 } else { 1000.0 } + noise;
            change(at, &mut value);
            Some(value)
        };
        let reads: Vec<Option<f64>> = (0..240).map(value).collect();
        let latency = reads.iter().map(|reads| reads.map(|reads| reads / 2.0)).collect();
        let idle = reads.iter().map(|reads| reads.map(|reads| -reads)).collect();
        let series =
            vec![("reads", "1/s", reads), ("read_us", "us", latency), ("idle", "percent", idle)];
        OverTime::of(moments, series, &[])
    }

    #[test]
    fn a_value_of_every_night_is_no_anomaly() {
        let quiet = days(|_, _| {});
        assert!((0..240).all(|at| quiet.standing_out(at).is_empty()));
        // The same load at another hour is one, and so is a night without it.
        let noon = days(|at, value| *value += if at == 108 { 4000.0 } else { 0.0 });
        let found = noon.standing_out(108);
        assert_eq!(found.len(), 3);
        assert!(found[0].2.is_same_hour && found[0].2.others == 6, "working days");
        let night = days(|at, value| *value -= if at == 98 { 4000.0 } else { 0.0 });
        assert!(night.standing_out(98)[0].2.sigmas.abs() > SIGMAS);
    }

    #[test]
    fn quiet_weekends_are_no_outliers_and_the_farthest_hour_is_the_odd_one() {
        // The first of November 2026 is a Sunday.
        let is_weekend = |at: usize| matches!(at / 24 % 7, 0 | 6);
        let week = |at: usize, value: &mut f64| {
            *value *= if is_weekend(at) { 0.4 } else { 1.0 } * (1.0 + (at % 24) as f64 / 24.0);
        };
        let quiet = days(week);
        assert!((0..240).all(|at| quiet.standing_out(at).is_empty()));
        assert_eq!(quiet.farthest(), None);
        let odd = days(|at, value| {
            week(at, value);
            *value *= if at == 108 { 0.5 } else { 1.0 };
        });
        assert_eq!(odd.farthest().map(|(at, far)| (at, far > 6.0)), Some((108, true)));
    }

    #[test]
    fn a_latency_that_follows_the_load_is_named() {
        let moment = |_| ReportMoment { begin: None, source: String::new() };
        let all = |of: &dyn Fn(usize) -> f64| (0..12).map(|at| Some(of(at))).collect();
        let load: Vec<f64> = (0..12).map(|at| (at * 7 % 12) as f64).collect();
        let series = vec![
            ("calls", "1/s", all(&|at| load[at] * 9.0)),
            ("read_us", "us", all(&|at| 100.0 + load[at])),
        ];
        let found = OverTime::of((0..12).map(moment).collect(), series, &load);
        let pairs: Vec<_> = found.together.iter().map(|it| (it.one, it.other, it.rho)).collect();
        assert_eq!(pairs, [("read_us", "load", 1.0)]);
    }

    #[test]
    fn correlated_figures_are_named_with_their_sign() {
        let all = days(|_, _| {});
        let pair = |one, other| {
            all.together.iter().find(|it| (it.one, it.other) == (one, other)).map(|it| it.rho)
        };
        assert!(pair("reads", "read_us").unwrap() > 0.999);
        assert!(pair("reads", "idle").unwrap() < -0.999);
    }

    #[test]
    fn figures_that_both_follow_the_load_are_left_out() {
        let moment = |_| ReportMoment { begin: None, source: String::new() };
        let load = |at: usize| (at * 7 % 12) as f64;
        let series = |of: &dyn Fn(usize) -> f64| (0..12).map(|at| Some(of(at))).collect();
        let found = OverTime::of(
            (0..12).map(moment).collect(),
            vec![
                ("calls", "1/s", series(&|at| load(at) * 9.0)),
                ("redo", "bytes/s", series(&|at| load(at) * 8e3)),
                ("read_us", "us", series(&|at| at as f64)),
                ("write_us", "us", series(&|at| at as f64 * 2.0)),
            ],
            &(0..12).map(load).collect::<Vec<_>>(),
        );
        let pairs: Vec<_> = found.together.iter().map(|it| (it.one, it.other)).collect();
        assert_eq!(pairs, [("read_us", "write_us")]);
    }

    #[test]
    fn too_few_others_judge_nothing() {
        let moment = |_| ReportMoment { begin: None, source: String::new() };
        let few = |values: &[f64]| {
            let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
            let moments: Vec<ReportMoment> = (0..values.len()).map(moment).collect();
            let found = OverTime::of(moments, vec![("x", "", values)], &[]);
            let is_out = |at: &usize| !found.standing_out(*at).is_empty();
            (0..found.moments.len()).filter(is_out).collect::<Vec<_>>()
        };
        assert!(few(&[1.0, 1.0, 1.0, 9.0]).is_empty());
        assert_eq!(few(&[1.0, 1.1, 1.0, 1.0, 1.2, 1.0, 9.0, 1.0]), [4, 6]);
        assert_eq!(estimate::median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(estimate::median(&[]), None);
    }
}
