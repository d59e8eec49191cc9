//! Profiles of several databases, added up by time of day: the load of one platform when all of
//! them move there.

use std::collections::BTreeMap;

use time::macros::date;
use time::{Duration, PrimitiveDateTime, Time};

use super::{ProfileError, together};
use petal_host::numbers::{decimal, whole};
use petal_judge::profile::summarise;
use petal_record::profile::{FORMAT, Input, Profile, ProfileInterval, time_text};
use petal_record::server_work::WorkCount;

const DAY_S: f64 = 86_400.0;
/// Shortest slot of a day: a minute.
const SLOT_S_MIN: f64 = 60.0;

/// The sum. Every profile needs times; of several days the highest at each time of day counts.
pub fn add(profiles: &[(String, Profile)]) -> Result<Profile, ProfileError> {
    for (name, profile) in profiles {
        if profile.intervals.iter().any(|interval| interval.begin_time().is_none()) {
            return Err(ProfileError::Other(format!(
                "{name}: an interval has no begin, so that its time of day is not known; write it \
                 into the file, such as \"begin\": \"2026-11-22T10:00:00\""
            )));
        }
    }
    let slot_s = slot_s(profiles);
    let slots = (DAY_S / slot_s).round() as usize;
    let days: Vec<Vec<Option<ProfileInterval>>> =
        profiles.iter().map(|(_, profile)| by_time_of_day(profile, slot_s, slots)).collect();
    let names: Vec<&str> = profiles.iter().map(|(_, profile)| profile.database.as_str()).collect();
    let first = profiles.first().map(|(_, profile)| profile);
    let mut sum = Profile {
        format: FORMAT.to_owned(),
        petal_version: env!("CARGO_PKG_VERSION").to_owned(),
        database: names.join(" + "),
        clock: first.map(|profile| profile.clock).unwrap_or_default(),
        block_bytes: first.and_then(|profile| profile.block_bytes).filter(|_| {
            profiles.windows(2).all(|two| two[0].1.block_bytes == two[1].1.block_bytes)
        }),
        inputs: profiles.iter().map(|(name, profile)| input(name, profile)).collect(),
        gaps: notes(profiles, slot_s),
        ..Profile::default()
    };
    let mut lacking: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for slot in 0..slots {
        let known: Vec<(usize, &ProfileInterval)> = days
            .iter()
            .enumerate()
            .filter_map(|(at, day)| Some((at, day.get(slot)?.as_ref()?)))
            .collect();
        if known.is_empty() {
            continue;
        }
        for at in (0..profiles.len()).filter(|at| known.iter().all(|(known, _)| known != at)) {
            lacking.entry(at).or_default().push(slot);
        }
        let parts: Vec<&ProfileInterval> = known.iter().map(|(_, interval)| *interval).collect();
        let (per_second, latency_us) = together(&parts);
        sum.intervals.push(ProfileInterval {
            begin: Some(time_text(slot_begin(slot, slot_s))),
            length_s: slot_s,
            inputs: known.iter().map(|(at, _)| *at).collect(),
            per_second,
            latency_us,
        });
    }
    for (at, slots) in lacking {
        let name = profiles.get(at).map_or("", |(name, _)| name.as_str());
        sum.gaps.push(format!(
            "{name} has no figures for {} of {} times of day, from {}: there the sum lacks it",
            whole(slots.len() as u64),
            whole(sum.intervals.len() as u64),
            slots.first().map_or_else(String::new, |slot| {
                time_text(slot_begin(*slot, slot_s)).split_off("2000-01-01T".len())
            }),
        ));
    }
    sum.gaps.extend(unknown(profiles));
    Ok(summarise(sum))
}

fn slot_begin(slot: usize, slot_s: f64) -> PrimitiveDateTime {
    // A day that represents all of them.
    PrimitiveDateTime::new(date!(2000 - 01 - 01), Time::MIDNIGHT)
        + Duration::seconds_f64(slot as f64 * slot_s)
}

/// Slot length: the usual interval of the coarsest profile, so that a day has whole slots.
fn slot_s(profiles: &[(String, Profile)]) -> f64 {
    let median = |profile: &Profile| {
        let mut lengths: Vec<f64> = profile.intervals.iter().map(|it| it.length_s).collect();
        lengths.sort_by(f64::total_cmp);
        lengths.get(lengths.len() / 2).copied().unwrap_or(SLOT_S_MIN)
    };
    let coarsest = profiles.iter().map(|(_, profile)| median(profile)).fold(SLOT_S_MIN, f64::max);
    let slots = (DAY_S / coarsest).round().max(1.0);
    DAY_S / slots
}

/// A profile's day: of each slot the highest of its days, by load.
fn by_time_of_day(profile: &Profile, slot_s: f64, slots: usize) -> Vec<Option<ProfileInterval>> {
    // Pieces of intervals that lie in a slot, by the slot's day.
    let mut pieces: Vec<BTreeMap<time::Date, Vec<ProfileInterval>>> = vec![BTreeMap::new(); slots];
    for interval in &profile.intervals {
        let Some(mut at) = interval.begin_time() else { continue };
        let mut left_s = interval.length_s;
        while left_s > 1e-6 {
            let of_day_s =
                (at - PrimitiveDateTime::new(at.date(), Time::MIDNIGHT)).as_seconds_f64();
            let slot = ((of_day_s / slot_s) as usize).min(slots - 1);
            let until_s = ((slot + 1) as f64 * slot_s - of_day_s).max(1e-3);
            let length_s = until_s.min(left_s);
            if let Some(days) = pieces.get_mut(slot) {
                let piece = ProfileInterval { length_s, ..interval.clone() };
                days.entry(at.date()).or_default().push(piece);
            }
            left_s -= length_s;
            let Some(next) = at.checked_add(Duration::seconds_f64(length_s)) else { break };
            at = next;
        }
    }
    let of_slot = |days: BTreeMap<time::Date, Vec<ProfileInterval>>| {
        let means = days.into_values().filter_map(|pieces| mean(&pieces, slot_s));
        means.reduce(|best, next| if next.load() > best.load() { next } else { best })
    };
    pieces.into_iter().map(of_slot).collect()
}

/// Shorter than a tenth of a slot says nothing about it.
const COVERED_MIN: f64 = 0.1;

/// The mean over the time that pieces cover.
fn mean(pieces: &[ProfileInterval], slot_s: f64) -> Option<ProfileInterval> {
    let length_s: f64 = pieces.iter().map(|piece| piece.length_s).sum();
    if length_s < slot_s * COVERED_MIN {
        return None;
    }
    let weighted: Vec<ProfileInterval> = pieces
        .iter()
        .map(|piece| ProfileInterval {
            per_second: piece
                .per_second
                .iter()
                .map(|(figure, rate)| (*figure, rate * piece.length_s / length_s))
                .collect(),
            ..piece.clone()
        })
        .collect();
    let (per_second, latency_us) = together(&weighted.iter().collect::<Vec<_>>());
    Some(ProfileInterval { length_s, per_second, latency_us, ..ProfileInterval::default() })
}

fn input(name: &str, profile: &Profile) -> Input {
    Input {
        name: name.to_owned(),
        kind: "profile".to_owned(),
        database: Some(profile.database.clone()),
        sources: WorkCount::ALL
            .into_iter()
            .filter(|figure| profile.summary.percentiles.contains_key(figure))
            .map(|figure| (figure.name(), "the profile's intervals, by time of day".to_owned()))
            .collect(),
        notes: profile.gaps.clone(),
        ..Input::default()
    }
}

fn notes(profiles: &[(String, Profile)], slot_s: f64) -> Vec<String> {
    let mut notes = vec![format!(
        "added up by time of day, in steps of {} s, onto one day; of several days the highest \
         at each time of day",
        decimal(slot_s, 0)
    )];
    if profiles.windows(2).any(|two| two[0].1.clock != two[1].1.clock) {
        notes.push(
            "some times are UTC and some by the databases' own clocks, which name no zone: they are \
             taken as one"
                .to_owned(),
        );
    }
    if profiles.windows(2).any(|two| two[0].1.block_bytes != two[1].1.block_bytes) {
        notes.push("their blocks are of different sizes: blocks are added as they are".to_owned());
    }
    notes
}

/// Figures that some of the profiles have and others lack: the sum lacks them.
fn unknown(profiles: &[(String, Profile)]) -> Vec<String> {
    let lacks = |figure: WorkCount| {
        let has = |profile: &Profile| profile.intervals.iter().any(|it| it.rate(figure).is_some());
        let lacking: Vec<&str> = profiles
            .iter()
            .filter(|(_, profile)| !has(profile))
            .map(|(name, _)| name.as_str())
            .collect();
        (!lacking.is_empty() && lacking.len() < profiles.len()).then(|| {
            format!("{} are not in the sum: {} lacks them", figure.words(), lacking.join(", "))
        })
    };
    WorkCount::ALL.into_iter().filter_map(lacks).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::interval;
    use super::*;

    fn profile(database: &str, intervals: Vec<ProfileInterval>) -> (String, Profile) {
        let profile = Profile { database: database.to_owned(), intervals, ..Profile::default() };
        (format!("{database}.json"), profile)
    }

    fn reads(profile: &Profile) -> Vec<(String, f64)> {
        let of = |it: &ProfileInterval| {
            let begin = it.begin.clone().unwrap().split_off(11);
            (begin, it.rate(WorkCount::SingleBlockReads).unwrap())
        };
        profile.intervals.iter().map(of).collect()
    }

    #[test]
    fn databases_are_added_by_time_of_day_and_days_by_their_highest() {
        let erp = profile(
            "ERP",
            vec![
                interval("2026-11-21T10:00:00", 3600.0, 100.0, 1.0),
                interval("2026-11-21T11:00:00", 3600.0, 500.0, 1.0),
                interval("2026-11-22T10:00:00", 3600.0, 300.0, 1.0),
            ],
        );
        // Half hours of another day.
        let crm = profile(
            "CRM",
            vec![
                interval("2024-02-03T10:00:00", 1800.0, 10.0, 1.0),
                interval("2024-02-03T10:30:00", 1800.0, 30.0, 1.0),
            ],
        );
        let sum = add(&[erp, crm]).unwrap();
        assert_eq!(sum.database, "ERP + CRM");
        let expected = [("10:00:00".to_owned(), 320.0), ("11:00:00".to_owned(), 500.0)];
        assert_eq!(reads(&sum), expected);
        assert_eq!(sum.intervals[0].inputs, [0, 1]);
        let reported = sum.gaps.iter().find(|gap| gap.contains("CRM.json")).unwrap();
        assert_eq!(
            reported,
            "CRM.json has no figures for 1 of 2 times of day, from 11:00:00: there the sum lacks \
             it"
        );
    }

    #[test]
    fn an_interval_over_midnight_is_in_both_days() {
        let night = profile("B", vec![interval("2026-11-21T23:30:00", 3600.0, 40.0, 1.0)]);
        let sum = add(&[night]).unwrap();
        let expected = [("00:00:00".to_owned(), 40.0), ("23:00:00".to_owned(), 40.0)];
        assert_eq!(reads(&sum), expected);
    }

    #[test]
    fn without_times_there_is_no_time_of_day() {
        let mut undated = profile("A", vec![interval("2026-11-21T23:30:00", 3600.0, 40.0, 1.0)]);
        undated.1.intervals[0].begin = None;
        let why = add(&[undated]).unwrap_err().to_string();
        assert!(why.starts_with("A.json: an interval has no begin"), "{why}");
    }

    #[test]
    fn figures_that_one_profile_lacks_are_reported_and_not_in_the_sum() {
        let whole = profile("A", vec![interval("2026-11-21T10:00:00", 3600.0, 40.0, 1.0)]);
        let mut other = profile("B", vec![interval("2026-11-21T10:00:00", 3600.0, 40.0, 1.0)]);
        other.1.intervals[0].per_second.remove(&WorkCount::Commits);
        let sum = add(&[whole, other]).unwrap();
        assert_eq!(sum.intervals[0].rate(WorkCount::Commits), None);
        assert!(sum.gaps.iter().any(|gap| gap == "commits are not in the sum: B.json lacks them"));
    }
}
