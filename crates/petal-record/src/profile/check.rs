//! Checks of a profile that was read: files are edited by hand.

use super::{Profile, ProfileInterval, parse_time};
use crate::server_work::WorkCount;

/// Rate that no machine reaches, in operations, blocks or bytes per second.
const RATE_MAX: f64 = 1e15;
/// A hundred seconds.
const LATENCY_US_MAX: f64 = 1e8;
/// Ten years.
const LENGTH_S_MAX: f64 = 315_576_000.0;
/// Clocks of snapshots and the lengths between them are printed to the second.
const OVERLAP_S_MAX: f64 = 2.0;

/// Why a profile is nonsense.
pub fn check(profile: &Profile) -> Result<(), String> {
    if profile.intervals.is_empty() {
        return Err("it has no intervals".to_owned());
    }
    if profile.block_bytes == Some(0) {
        return Err("its block_bytes is 0".to_owned());
    }
    for (at, interval) in profile.intervals.iter().enumerate() {
        of_one(interval, profile.inputs.len()).map_err(|why| format!("interval {at}: {why}"))?;
    }
    for (at, pair) in profile.intervals.windows(2).enumerate() {
        let (Some(end), Some(begin)) = (pair[0].end_time(), pair[1].begin_time()) else { continue };
        if (end - begin).as_seconds_f64() > OVERLAP_S_MAX {
            return Err(format!("interval {at} ends after interval {} begins", at + 1));
        }
    }
    Ok(())
}

fn of_one(interval: &ProfileInterval, inputs: usize) -> Result<(), String> {
    if !(interval.length_s > 0.0 && interval.length_s <= LENGTH_S_MAX) {
        return Err(format!("its length_s is {}", interval.length_s));
    }
    if let Some(begin) = &interval.begin
        && parse_time(begin).is_none()
    {
        return Err(format!("its begin is {begin:?}, and not like 2026-11-22T10:00:00"));
    }
    if let Some(input) = interval.inputs.iter().find(|&&input| input >= inputs) {
        return Err(format!("it names input {input}, and there are {inputs}"));
    }
    for (figure, &rate) in &interval.per_second {
        if !(0.0..=RATE_MAX).contains(&rate) {
            return Err(format!("{} per second is {rate}", figure.name()));
        }
    }
    for (figure, &latency) in &interval.latency_us {
        if !(0.0..=LATENCY_US_MAX).contains(&latency) {
            return Err(format!("the latency of {} is {latency} us", figure.name()));
        }
    }
    let several = interval.rate(WorkCount::MultiBlockReads);
    let blocks = interval.rate(WorkCount::MultiBlockReadBlocks);
    match several.zip(blocks) {
        Some((reads, blocks)) if reads > blocks * 1.01 + 0.01 => {
            Err(format!("{reads} multi-block reads per second carry {blocks} blocks"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::*;
    use super::*;

    fn profile() -> Profile {
        let interval = |begin: &str| ProfileInterval {
            begin: Some(begin.to_owned()),
            length_s: 3600.0,
            inputs: vec![0],
            per_second: BTreeMap::from([(WorkCount::Commits, 12.5)]),
            latency_us: BTreeMap::new(),
        };
        Profile {
            format: FORMAT.to_owned(),
            database: "PROD".to_owned(),
            inputs: vec![Input::default()],
            intervals: vec![interval("2026-11-22T10:00:00"), interval("2026-11-22T11:00:00")],
            ..Profile::default()
        }
    }

    #[test]
    fn nonsense_that_was_written_by_hand_is_refused_with_its_place() {
        let why = |change: &dyn Fn(&mut Profile)| {
            let mut edited = profile();
            change(&mut edited);
            check(&edited).unwrap_err()
        };
        assert_eq!(check(&profile()), Ok(()));
        assert_eq!(why(&|it| it.intervals.clear()), "it has no intervals");
        let set = |rate: f64| {
            move |it: &mut Profile| {
                it.intervals[1].per_second.insert(WorkCount::Commits, rate);
            }
        };
        assert_eq!(why(&set(-1.0)), "interval 1: commits per second is -1");
        assert_eq!(why(&set(1e18)), "interval 1: commits per second is 1000000000000000000");
        assert_eq!(why(&|it| it.intervals[0].length_s = 0.0), "interval 0: its length_s is 0");
        assert!(why(&|it| it.intervals[0].length_s = f64::NAN).contains("NaN"));
        assert!(why(&|it| it.intervals[0].length_s = 7200.0).contains("ends after interval 1"));
        assert!(why(&|it| it.intervals.swap(0, 1)).contains("ends after interval 1 begins"));
        assert!(why(&|it| it.intervals[0].begin = Some("10:00".into())).contains("not like"));
        assert!(why(&|it| it.intervals[0].inputs = vec![4]).contains("input 4"));
        let several = |it: &mut Profile| {
            let rates = &mut it.intervals[0].per_second;
            rates.extend([
                (WorkCount::MultiBlockReads, 9.0),
                (WorkCount::MultiBlockReadBlocks, 3.0),
            ]);
        };
        assert!(why(&several).contains("9 multi-block reads per second carry 3 blocks"));
        let latency = |it: &mut Profile| {
            it.intervals[0].latency_us.insert(crate::server_work::WorkTime::Commit, -4.0);
        };
        assert!(why(&latency).contains("the latency of commit is -4 us"));
    }

    #[test]
    fn a_file_is_read_as_it_was_written_or_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prod.json");
        std::fs::write(&path, profile().text(&path).unwrap()).unwrap();
        assert_eq!(load(&path).unwrap(), profile());
        assert!(is_one(&path));
        let text = std::fs::read_to_string(&path).unwrap();
        let refused = |text: String| {
            std::fs::write(&path, text).unwrap();
            load(&path).unwrap_err().to_string()
        };
        assert!(refused(text.replace("\"commits\"", "\"comits\"")).contains("comits"));
        assert!(refused(text.replace("12.5", "\"many\"")).contains("prod.json"));
        assert!(refused(text.replace("petal-profile/1", "petal-profile/9")).contains("/9"));
        assert!(refused(text[..text.len() / 2].to_owned()).contains("prod.json"));
    }
}
