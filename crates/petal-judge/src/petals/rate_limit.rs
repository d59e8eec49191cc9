//! A rate limit: PIOPS stay the same while more sessions only wait longer for their reads, and the
//! processors have room. Provisioned volumes and control groups hold storage in this way.

use serde::Serialize;

use super::shape::POINTS_MIN;
use super::{Point, cause};
use petal_host::numbers::decimal;
use petal_record::observation::metric;

/// Points with the same PIOPS that prove a limit, on a line of enough points with intervals.
const CONSTANT_MIN: usize = 3;
/// The difference of the same PIOPS.
const CONSTANT_SHARE_MAX: f64 = 0.01;
/// The least growth of latency, as a power of the sessions. At constant throughput it grows as they
/// do (Little's law), if no other part of an operation grows.
const GROWTH_MIN: f64 = 0.5;
/// Share of the growth that the device's own time may have if the limit is above it.
const DEVICE_SHARE_MAX: f64 = 0.25;
/// The finding that names a control group's limit with its file.
pub(super) const IO_LIMIT: &str = "io-limit";

/// A rate that a line reached and more sessions did not change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RateLimit {
    pub iops: f64,
    /// Position of the first point at this rate; all later points have it too.
    pub from: usize,
    /// The limit with its rate.
    pub words: String,
    /// A sentence for each piece of evidence.
    pub evidence: Vec<String>,
}

impl RateLimit {
    /// The name of the cause.
    pub(super) const CAUSE: &str = "rate limit";

    pub(super) fn of(points: &[Point]) -> Option<Self> {
        let piops = |point: &Point| point.piops.as_ref().map(|seen| seen.mean);
        let known: Vec<f64> = points.iter().rev().map_while(piops).collect();
        let is_constant = |count: &usize| {
            let part = &known[..*count];
            let most = part.iter().copied().fold(0.0, f64::max);
            let least = part.iter().copied().fold(f64::INFINITY, f64::min);
            least > 0.0 && most <= least * (1.0 + CONSTANT_SHARE_MAX)
        };
        let count = (1..=known.len()).take_while(is_constant).last()?;
        let from = points.len() - count;
        let (first, last) = (&points[from], points.last()?);
        let read_us = first.figure(metric::READ_US).zip(last.figure(metric::READ_US))?;
        let sessions = f64::from(last.sessions) / f64::from(first.sessions);
        let is_slower = (read_us.1 / read_us.0).ln() >= GROWTH_MIN * sessions.ln();
        let has_interval =
            |point: &&Point| point.piops.as_ref().is_some_and(|seen| seen.interval.is_some());
        let are_intervals = points.iter().filter(has_interval).count() >= POINTS_MIN
            && points[from..].iter().all(|point| has_interval(&point));
        if count < CONSTANT_MIN || sessions <= 1.0 || !is_slower || !are_intervals {
            return None;
        }
        let room = cause::processors_with_room(first, last)?;
        let iops = known[..count].iter().sum::<f64>() / count as f64;
        let (place, device) = place(first, last, read_us);
        let (from_sessions, to_sessions) = (first.sessions, last.sessions);
        let constant = format!(
            "from {from_sessions} to {to_sessions} sessions PIOPS stayed at {} within 1 %, while a \
             read went from {} to {} us",
            decimal(iops, 0),
            decimal(read_us.0, 0),
            decimal(read_us.1, 0)
        );
        let words = format!("a rate limit {place}, {} IOPS", decimal(iops, 0));
        Some(Self { iops, from, words, evidence: vec![constant, device, room] })
    }
}

/// Returns the place of the limit, and its evidence: above the device, if the device's own time for
/// a read did not grow as the reads did.
fn place(first: &Point, last: &Point, read_us: (f64, f64)) -> (&'static str, String) {
    let await_us = |point: &Point| point.figure(metric::DEVICE_READ_AWAIT);
    let Some((before, after)) = await_us(first).zip(await_us(last)) else {
        let why = "the device's own time for a read is not known".to_owned();
        return ("of the storage", why);
    };
    let is_above = after - before <= (read_us.1 - read_us.0) * DEVICE_SHARE_MAX;
    let place = if is_above { "above the device" } else { "of the device or below it" };
    let grew = if is_above { "hardly changed" } else { "grew, too" };
    let (before, after) = (decimal(before, 0), decimal(after, 0));
    (place, format!("the device's own time for a read {grew}: from {before} to {after} us"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Estimate;
    use super::*;

    const LADDER: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

    fn point(sessions: u32, piops: f64, read_us: f64, figures: &[(&str, f64)]) -> Point {
        let figures = figures.iter().map(|(name, value)| ((*name).to_owned(), *value));
        let means = figures
            .chain([(metric::PIOPS.to_owned(), piops), (metric::READ_US.to_owned(), read_us)]);
        Point {
            sessions,
            piops: Estimate::of(vec![piops; 3]),
            read_us: Estimate::of(vec![read_us]),
            means: means.collect(),
            ..Point::default()
        }
    }

    /// A closed line of `sessions` that read in `alone_us`, and together at most `iops`. Noise is a
    /// share of PIOPS for each point.
    fn held(alone_us: f64, iops: f64, noise: &[f64], figures: &[(&str, f64)]) -> Vec<Point> {
        let each = LADDER.iter().zip(noise).map(|(&sessions, noise)| {
            let piops = (f64::from(sessions) * 1e6 / alone_us).min(iops) * (1.0 + noise);
            point(sessions, piops, f64::from(sessions) * 1e6 / piops, figures)
        });
        each.collect()
    }

    const QUIET: [f64; 7] = [0.0; 7];

    #[test]
    fn a_rate_that_sessions_do_not_change_is_a_rate_limit() {
        let room = [(metric::CPU_BUSY, 20.0), (metric::DEVICE_READ_AWAIT, 90.0)];
        let found = RateLimit::of(&held(100.0, 20_000.0, &QUIET, &room)).unwrap();
        assert_eq!((found.iops, found.from), (20_000.0, 1));
        assert_eq!(found.words, "a rate limit above the device, 20,000 IOPS");
        insta::assert_snapshot!(found.evidence.join("\n"), @"
        from 2 to 64 sessions PIOPS stayed at 20,000 within 1 %, while a read went from 100 to 3,200 us
        the device's own time for a read hardly changed: from 90 to 90 us
        the processors were at most 20.0 % busy
        ");
        let unseen = RateLimit::of(&held(100.0, 20_000.0, &QUIET, &room[..1])).unwrap();
        assert_eq!(unseen.words, "a rate limit of the storage, 20,000 IOPS");
        let mut below = held(100.0, 20_000.0, &QUIET, &room);
        for point in &mut below {
            let read_us = point.figure(metric::READ_US).unwrap();
            point.means.insert(metric::DEVICE_READ_AWAIT.to_owned(), read_us * 0.9);
        }
        let below = RateLimit::of(&below).unwrap();
        assert_eq!(below.words, "a rate limit of the device or below it, 20,000 IOPS");
    }

    #[test]
    fn constant_piops_of_other_causes_are_no_rate_limit() {
        // Two points are too few.
        let room = [(metric::CPU_BUSY, 20.0)];
        let short = held(100.0, 20_000.0, &QUIET, &room);
        assert_eq!(RateLimit::of(&short[..3]), None);
        // Three points alone, or points of single runs.
        assert_eq!(RateLimit::of(&short[1..4]), None);
        assert!(RateLimit::of(&short[1..5]).is_some());
        let mut single = short.clone();
        for point in &mut single {
            point.piops = Estimate::of(vec![point.piops.as_ref().unwrap().mean]);
        }
        assert_eq!(RateLimit::of(&single), None);
        assert_eq!(RateLimit::of(&[]), None);
        // Reads are no slower: the sessions wait for something else.
        let mut elsewhere = short.clone();
        for point in &mut elsewhere {
            point.means.insert(metric::READ_US.to_owned(), 100.0);
        }
        assert_eq!(RateLimit::of(&elsewhere), None);
        // A control group's processors.
        let mut quota = short.clone();
        quota[6].warnings.insert("processor-bound".to_owned());
        assert_eq!(RateLimit::of(&quota), None);
        // It still rises.
        let rising: Vec<Point> = (0..7)
            .map(|at| point(LADDER[at], 1e4 * 1.02_f64.powi(at as i32), 1e2, &room))
            .collect();
        assert_eq!(RateLimit::of(&rising), None);
    }

    proptest! {
        #[test]
        fn each_rate_under_noise_is_found(
            alone_us in 50.0f64..5_000.0,
            at in 0usize..5,
            noise in prop::array::uniform7(-0.004f64..0.004),
            busy in 0.0f64..90.0,
        ) {
            let iops = f64::from(LADDER[at]) * 1e6 / alone_us;
            let found = RateLimit::of(&held(alone_us, iops, &noise, &[(metric::CPU_BUSY, busy)]));
            let found = found.expect("a limit");
            prop_assert!((found.iops / iops - 1.0).abs() < 0.01);
            prop_assert_eq!(found.from, at);
        }

        #[test]
        fn full_or_unknown_processors_are_no_rate_limit(
            alone_us in 50.0f64..5_000.0,
            at in 0usize..5,
            busy in prop::option::of(90.1f64..100.0),
        ) {
            let iops = f64::from(LADDER[at]) * 1e6 / alone_us;
            let busy = busy.map(|busy| (metric::CPU_BUSY, busy));
            let figures: Vec<(&str, f64)> = busy.into_iter().collect();
            prop_assert_eq!(RateLimit::of(&held(alone_us, iops, &QUIET, &figures)), None);
        }
    }
}
