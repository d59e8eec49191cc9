use time::macros::datetime;

use super::*;

/// Pseudo-random numbers that are the same each time (splitmix64).
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
    }

    /// A factor of which most are within `noise` of 1.
    fn about_one(&mut self, noise: f64) -> f64 {
        let normal = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        (normal * noise).exp()
    }
}

const EVENTS: [(&str, f64); 10] = [
    ("DB CPU", 2.2),
    ("db file sequential read", 0.35),
    ("log file sync", 0.1),
    ("db file scattered read", 0.05),
    ("gc cr block busy", 0.025),
    ("direct path read temp", 0.02),
    ("enq: TX - row lock contention", 0.003),
    ("log file switch completion", 0.002),
    ("cursor: pin S wait on X", 0.001),
    ("buffer busy waits", 0.0),
];

/// Something that happens in one of the hours.
#[derive(Clone, Copy)]
struct Incident {
    part: &'static str,
    sessions: f64,
    hours: (usize, usize),
    /// Share of the work that still gets done.
    work: f64,
}

struct Day {
    moments: Vec<ReportMoment>,
    loads: Vec<f64>,
    total: Total,
}

/// Days of hours whose load rises until noon, with noise.
fn days(seed: u64, days: usize, noise: f64, incident: Option<Incident>) -> Day {
    let mut random = Random(seed);
    let first = datetime!(2026-03-02 00:00);
    let hours = 24 * days;
    let mut parts: Vec<TotalPart> = EVENTS
        .iter()
        .map(|(name, _)| TotalPart { name: (*name).to_owned(), values: Vec::new() })
        .collect();
    let mut counters = vec![Vec::new(); 4];
    for hour in 0..hours {
        let of_day = (hour % 24) as f64;
        let load = 0.35 + 0.65 * (-((of_day - 13.0) / 5.0).powi(2)).exp();
        let load = load * random.about_one(noise / 2.0);
        let is_in = |it: &Incident| (it.hours.0..=it.hours.1).contains(&(hour + 24 - hours));
        let now = incident.filter(|it| hour + 24 >= hours && is_in(it));
        let work = now.map_or(1.0, |it| it.work);
        for (part, (name, usual)) in parts.iter_mut().zip(EVENTS) {
            let more = now.filter(|it| it.part == name).map_or(0.0, |it| it.sessions);
            part.values.push(usual * load * work * random.about_one(noise) + more);
        }
        for counter in &mut counters {
            counter.push(Some(load * work * random.about_one(noise / 3.0)));
        }
    }
    let values = (0..hours).map(|at| Some(parts.iter().map(|part| part.values[at]).sum()));
    Day {
        moments: (0..hours)
            .map(|hour| ReportMoment {
                begin: Some(first + time::Duration::hours(hour as i64)),
                source: hour.to_string(),
            })
            .collect(),
        loads: loads(hours, &counters),
        total: Total { values: values.collect(), parts, classes: Vec::new() },
    }
}

fn found(day: &Day) -> Option<Rise> {
    largest(&day.moments, &day.loads, &day.total)
}

#[test]
fn the_cause_of_a_rise_is_named_with_its_share() {
    let mut seed = 100;
    for (part, _) in EVENTS {
        for (sessions, hours, work, of_days) in [
            (1.0, (15, 15), 1.0, 1),
            (3.0, (9, 11), 1.0, 1),
            (10.0, (2, 2), 0.5, 1),
            (2.0, (22, 23), 0.8, 5),
            // A quarter of all hours: the others alone are the noise.
            (2.0, (11, 16), 1.0, 1),
        ] {
            seed += 1;
            let incident = Incident { part, sessions, hours, work };
            let day = days(seed, of_days, 0.05, Some(incident));
            let rise = found(&day).unwrap_or_else(|| panic!("{part} {sessions} {hours:?}"));
            let hour = rise.at + 24 - 24 * of_days;
            assert!((hours.0..=hours.1).contains(&hour), "{part}: {hour} and not {hours:?}");
            assert_eq!(rise.shares[0].name, part, "{rise:?}");
            let apart = rise.shares[0].more() - sessions;
            assert!(apart.abs() < 0.5 * sessions.max(1.0), "{part}: {rise:?}");
        }
    }
}

#[test]
fn a_quiet_day_has_no_rise() {
    let false_ones = (0..100).filter(|seed| found(&days(*seed, 1, 0.1, None)).is_some()).count();
    assert!(false_ones <= 1, "{false_ones} of 100 quiet days");
    let weeks = (0..4).filter(|seed| found(&days(7000 + seed, 7, 0.1, None)).is_some()).count();
    assert!(weeks == 0, "{weeks} of 4 quiet weeks");
}

#[test]
fn work_of_every_night_and_a_higher_load_are_usual() {
    let mut day = days(5, 5, 0.05, None);
    let backup = (0..120).map(|hour| if hour % 24 == 2 { 4.0 } else { 0.0 });
    for (value, more) in day.total.values.iter_mut().zip(backup.clone()) {
        *value = value.map(|value| value + more);
    }
    day.total.parts.push(TotalPart { name: "backup".to_owned(), values: backup.collect() });
    assert_eq!(found(&day), None);
    // In one night of one day it is not.
    let mut day = days(5, 1, 0.05, None);
    let mut values = vec![0.0; 24];
    values[2] = 4.0;
    day.total.values[2] = day.total.values[2].map(|value| value + 4.0);
    day.total.parts.push(TotalPart { name: "backup".to_owned(), values });
    assert_eq!(found(&day).unwrap().shares[0].name, "backup");
}

#[test]
fn the_usual_value_stays_that_of_the_total_while_other_parts_fall() {
    let mut day = days(11, 1, 0.02, None);
    let (work, lock) = ([8.0; 24], [0.0; 24]);
    let [mut work, mut lock] = [work, lock].map(Vec::from);
    (work[15], lock[15]) = (1.0, 10.0);
    day.total.values = work.iter().zip(&lock).map(|(one, other)| Some(one + other)).collect();
    let part = |name: &str, values| TotalPart { name: name.to_owned(), values };
    day.total.parts = vec![part("work", work), part("lock", lock)];
    day.loads.fill(1.0);
    let rise = found(&day).unwrap();
    assert_eq!((rise.at, rise.value, rise.usual), (15, 11.0, 8.0));
    assert_eq!((rise.shares[0].name.as_str(), rise.shares[0].more()), ("lock", 10.0));
}

#[test]
fn a_rise_that_no_part_explains_has_no_share() {
    let mut day = days(9, 1, 0.05, None);
    day.total.values[20] = Some(30.0);
    let rise = found(&day).unwrap();
    assert_eq!((rise.at, rise.shares.len()), (20, 0));
    // Too few hours say nothing.
    day.moments.truncate(6);
    assert_eq!(found(&day), None);
}
