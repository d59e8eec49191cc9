//! The summary of a profile of a database's work over time.

use std::collections::BTreeMap;

use petal_host::numbers::whole;
use petal_record::profile::{
    Profile, ProfileInterval, ProfilePercentiles, ProfileSummary, time_text,
};
use petal_record::server_work::WorkCount;

/// Clocks of snapshots are precise to minutes in some reports.
pub const SLACK_S: f64 = 61.0;
const GAPS_SHOWN: usize = 20;
/// Rate below one read, write or commit in ten seconds.
const IDLE_PER_S: f64 = 0.1;

/// Returns true if no interval has work that a load could be made of.
pub fn is_idle(profile: &Profile) -> bool {
    profile.intervals.iter().all(|interval| interval.load() < IDLE_PER_S)
}

/// Computes the summary of a profile that was read again, because its intervals may have been
/// edited.
pub fn resummarise(profile: Profile) -> Profile {
    let gaps = profile.gaps.clone();
    Profile { gaps, ..summarise(profile) }
}

/// Adds the summary of the intervals: the busiest, percentiles, and notes on time.
pub fn summarise(mut profile: Profile) -> Profile {
    let figures = profile.intervals.iter().flat_map(|interval| interval.per_second.keys().copied());
    let mut percentiles = BTreeMap::new();
    for figure in figures {
        percentiles.entry(figure).or_insert_with(|| percentiles_of(&profile.intervals, figure));
    }
    let busiest = profile
        .intervals
        .iter()
        .enumerate()
        .reduce(|best, next| if next.1.load() > best.1.load() { next } else { best });
    profile.summary = ProfileSummary { busiest: busiest.map(|(at, _)| at), percentiles };
    if profile.intervals.len() == 1 {
        profile.gaps.push(
            "one interval only: its means hide every peak in it, and there is no curve over time"
                .to_owned(),
        );
    }
    if is_idle(&profile) {
        profile.gaps.push("idle: under one read, write or commit in ten seconds".to_owned());
    }
    let holes = times_without_figures(&profile.intervals);
    if holes.len() > GAPS_SHOWN {
        profile.gaps.push(format!(
            "{} times without figures, of which the first:",
            whole(holes.len() as u64)
        ));
    }
    profile.gaps.extend(holes.into_iter().take(GAPS_SHOWN));
    profile
}

/// Times between intervals of which nothing is known.
fn times_without_figures(intervals: &[ProfileInterval]) -> Vec<String> {
    let hole = |pair: &[ProfileInterval]| {
        let (end, begin) = (pair[0].end_time()?, pair[1].begin_time()?);
        let slack_s = SLACK_S.min(pair[1].length_s);
        ((begin - end).as_seconds_f64() > slack_s)
            .then(|| format!("no figures from {} to {}", time_text(end), time_text(begin)))
    };
    intervals.windows(2).filter_map(hole).collect()
}

fn percentiles_of(intervals: &[ProfileInterval], figure: WorkCount) -> ProfilePercentiles {
    let known = intervals.iter().filter_map(|it| Some((it.rate(figure)?, it.length_s)));
    let mut known: Vec<(f64, f64)> = known.collect();
    known.sort_by(|one, other| one.0.total_cmp(&other.0));
    let all_s: f64 = known.iter().map(|(_, length_s)| length_s).sum();
    let at = |share: f64| {
        let mut passed_s = 0.0;
        let reached = known.iter().find(|(_, length_s)| {
            passed_s += length_s;
            passed_s >= share * all_s * (1.0 - 1e-12)
        });
        reached.or(known.last()).map_or(0.0, |(rate, _)| *rate)
    };
    let total: f64 = known.iter().map(|(rate, length_s)| rate * length_s).sum();
    ProfilePercentiles {
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        max: at(1.0),
        mean: if all_s > 0.0 { total / all_s } else { 0.0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interval with as many reads, writes and commits a second.
    fn interval(begin: &str, length_s: f64, reads: f64, commits: f64) -> ProfileInterval {
        ProfileInterval {
            begin: Some(begin.to_owned()),
            length_s,
            inputs: vec![0],
            per_second: BTreeMap::from([
                (WorkCount::SingleBlockReads, reads),
                (WorkCount::Commits, commits),
            ]),
            ..ProfileInterval::default()
        }
    }

    fn profile(intervals: Vec<ProfileInterval>) -> Profile {
        summarise(Profile { intervals, ..Profile::default() })
    }

    #[test]
    fn the_busiest_interval_and_percentiles_by_time() {
        let profile = profile(vec![
            interval("2026-11-22T10:00:00", 3600.0, 100.0, 1.0),
            interval("2026-11-22T11:00:00", 3600.0, 900.0, 1.0),
            interval("2026-11-22T12:00:00", 7200.0, 300.0, 1.0),
        ]);
        assert_eq!(profile.summary.busiest, Some(1));
        let reads = profile.summary.percentiles[&WorkCount::SingleBlockReads];
        assert_eq!((reads.p50, reads.p90, reads.max, reads.mean), (300.0, 900.0, 900.0, 400.0));
        assert!(profile.gaps.is_empty(), "{:?}", profile.gaps);
    }

    #[test]
    fn gaps_one_interval_and_idleness_are_reported() {
        let holed = profile(vec![
            interval("2026-11-22T10:00:00", 3600.0, 100.0, 1.0),
            interval("2026-11-22T13:00:00", 3600.0, 900.0, 1.0),
        ]);
        assert_eq!(holed.gaps, ["no figures from 2026-11-22T11:00:00 to 2026-11-22T13:00:00"]);
        let one = profile(vec![interval("2026-11-22T10:00:00", 3600.0, 100.0, 1.0)]);
        assert!(one.gaps[0].starts_with("one interval only"));
        let idle = profile(vec![
            interval("2026-11-22T10:00:00", 3600.0, 0.01, 0.0),
            interval("2026-11-22T11:00:00", 3600.0, 0.02, 0.0),
        ]);
        assert!(is_idle(&idle) && idle.gaps[0].starts_with("idle"));
    }
}
