//! Deltas of the database's counters since the opening snapshot, as long as the counters can be
//! trusted.

use std::collections::BTreeMap;

use petal_engine::Result;
use petal_host::numbers::decimal;
use petal_record::counters::{Counters, IoCounts};

/// Deltas since the opening snapshot.
pub struct Deltas {
    opening: Vec<Counters>,
    /// Newest counters of each endpoint.
    latest: Vec<IoCounts>,
    /// Reason why all counters of a server were reset: after that, none of them belongs to this run
    /// alone.
    restarted: Option<String>,
    /// Counters that were reset during the run, each with the reason, and when this was seen.
    resets: BTreeMap<String, f64>,
}

impl Deltas {
    pub fn new(opening: &[Counters]) -> Self {
        let latest = opening.iter().map(|counters| counters.io).collect();
        Self { opening: opening.to_vec(), latest, restarted: None, resets: BTreeMap::new() }
    }

    /// Returns the deltas since the opening snapshot at `at_s` seconds after the trigger, or the
    /// reason why they are unknown.
    pub fn take(
        &mut self,
        sampled: Result<Vec<Counters>>,
        at_s: f64,
    ) -> Result<Vec<Counters>, String> {
        let now = sampled.map_err(|error| error.to_string())?;
        let of = |old: &Counters| now.iter().find(|new| new.endpoint == old.endpoint);
        let ios: Vec<IoCounts> = self
            .opening
            .iter()
            .map(|old| {
                // A missing endpoint ends the sums: they would lack its counts up to then.
                let gone = || format!("no counters of {} any more", old.endpoint);
                of(old).map(|new| new.io).ok_or_else(gone)
            })
            .collect::<Result<_, _>>()?;
        let fell = self.latest.iter().zip(&ios).any(|(then, now)| has_decreased(then, now));
        let restarted = now.iter().find_map(|new| new.restarted.clone());
        if self.restarted.is_none() && (fell || restarted.is_some()) {
            let unknown = || "it started again, or somebody reset its statistics".to_owned();
            self.restarted = Some(restarted.unwrap_or_else(unknown));
        }
        if let Some(why) = &self.restarted {
            return Err(format!("its counters fell: {why}"));
        }
        // A counter that is missing this time is compared with its previous value.
        self.latest = self.latest.iter().zip(&ios).map(|(then, now)| now.or(then)).collect();
        for why in now.iter().flat_map(|new| &new.resets) {
            self.resets.entry(why.clone()).or_insert(at_s);
        }
        Ok(Counters::each_since(&now, &self.opening))
    }

    /// Describes each counter that was reset during the run, in a sentence.
    pub fn resets(&self) -> Vec<String> {
        let resets = self.resets.iter();
        resets.map(|(why, at_s)| format!("{why} (seen at second {})", decimal(*at_s, 0))).collect()
    }
}

/// True if a count decreased: a server's counts only increase. A position in the log may go back a
/// little after a crash, and a sum of commits over sessions (MariaDB) as one of them logs off.
fn has_decreased(then: &IoCounts, now: &IoCounts) -> bool {
    let [then, now] =
        [then, now].map(|io| IoCounts { redo_bytes: None, commits: None, ..*io }.each());
    then.into_iter().zip(now).any(|(then, now)| then.zip(now).is_some_and(|(then, now)| now < then))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use petal_record::counters::{Wait, WaitClass};

    pub fn sampled(reads: u64) -> Vec<Counters> {
        let io = IoCounts { logical_reads: Some(reads), ..IoCounts::default() };
        vec![Counters { endpoint: "scripted".into(), io, ..Counters::default() }]
    }

    fn instance(name: &str, reads: u64) -> Counters {
        Counters { endpoint: name.into(), ..sampled(reads).remove(0) }
    }

    #[test]
    fn a_sum_without_a_dead_instance_is_unknown() {
        let mut since = Deltas::new(&[instance("a", 1000), instance("b", 50)]);
        let all = since.take(Ok(vec![instance("a", 1500), instance("b", 70)]), 1.0).unwrap();
        assert_eq!(Counters::sum(&all).unwrap().io.logical_reads, Some(520));
        let why = since.take(Ok(vec![instance("a", 1600)]), 2.0).unwrap_err();
        assert_eq!(why, "no counters of b any more");
        // A different position in the list is not a reset: one more endpoint joined before them.
        let more = vec![instance("0", 5), instance("a", 1700), instance("b", 80)];
        assert_eq!(
            Counters::sum(&since.take(Ok(more), 3.0).unwrap()).unwrap().io.logical_reads,
            Some(735)
        );
    }

    #[test]
    fn counters_that_were_reset_are_not_totals() {
        let mut since = Deltas::new(&sampled(1000));
        let take = |since: &mut Deltas, reads| since.take(Ok(sampled(reads)), 1.0);
        assert_eq!(take(&mut since, 1500).unwrap()[0].io.logical_reads, Some(500));
        assert!(take(&mut since, 20).unwrap_err().contains("its counters fell"));
        // However far they increase again.
        assert!(take(&mut since, 9000).is_err());
    }

    #[test]
    fn commits_of_others_that_log_off_leave_the_other_counters_known() {
        let at = |count: u64, commits: u64| {
            let mut counters = sampled(count);
            counters[0].io.commits = Some(commits);
            Ok(counters)
        };
        let mut since = Deltas::new(&at(10, 100).unwrap());
        assert_eq!(since.take(at(20, 300), 1.0).unwrap()[0].io.commits, Some(200));
        let fallen = since.take(at(30, 290), 2.0).unwrap();
        assert_eq!((fallen[0].io.logical_reads, fallen[0].io.commits), (Some(20), Some(190)));
    }

    /// A fault of one counter from a snapshot on.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum CounterFault {
        Zeroed,
        Frozen,
        SteppedUp,
        SteppedDown,
    }

    const STEP: u64 = 500;
    const EACH_S: u64 = 10;
    const FAULT_S: u64 = 3;

    impl CounterFault {
        fn count(self, true_count: u64, at_s: u64) -> u64 {
            match self {
                Self::Zeroed => true_count % 1000 - FAULT_S * EACH_S,
                Self::Frozen => true_count - (at_s - FAULT_S) * EACH_S,
                Self::SteppedUp => true_count + STEP,
                Self::SteppedDown => true_count - STEP,
            }
        }
    }

    const RAW: [&str; 3] = ["own", "vacuums", "checkpoints"];
    const WAIT: &str = "read";

    /// The names of all figures of [`all_at`].
    fn all_names() -> impl Iterator<Item = &'static str> {
        IoCounts::NAMES.into_iter().chain(RAW).chain([WAIT])
    }

    /// A snapshot in which each figure is `count` of its name.
    fn all_at(count: impl Fn(&str) -> u64) -> Counters {
        let io = IoCounts::NAMES.map(|name| (name.to_owned(), count(name).into()));
        let io = serde_json::Value::Object(io.into_iter().collect());
        Counters {
            io: serde_json::from_value(io).unwrap(),
            raw: RAW.map(|name| (name.to_owned(), count(name))).into(),
            waits: vec![Wait::counted(WAIT, WaitClass::UserIo, Some(count(WAIT)), count(WAIT))],
            ..Counters::default()
        }
    }

    fn figure(counters: &Counters, name: &str) -> Option<u64> {
        let at = IoCounts::NAMES.iter().position(|own| *own == name);
        let wait = || counters.wait(name).and_then(|wait| wait.waits);
        at.map_or_else(
            || counters.raw.get(name).copied().or_else(wait),
            |at| counters.io.each()[at],
        )
    }

    #[test]
    fn one_counter_that_is_zeroed_frozen_or_stepped_changes_no_other_figure() {
        use CounterFault::{Frozen, SteppedDown, SteppedUp, Zeroed};
        let true_count = |at_s| 4000 + at_s * EACH_S;
        let faults = [Zeroed, Frozen, SteppedUp, SteppedDown];
        for (broken, fault) in all_names().flat_map(|name| faults.map(|fault| (name, fault))) {
            let at = |at_s: u64| {
                all_at(|name| match name == broken && at_s >= FAULT_S {
                    true => fault.count(true_count(at_s), at_s),
                    false => true_count(at_s),
                })
            };
            let mut deltas = Deltas::new(&[at(0)]);
            for at_s in 1..6 {
                let taken = deltas.take(Ok(vec![at(at_s)]), at_s as f64);
                let Ok(since) = taken else {
                    // Then no count is known.
                    let is_fall = [Zeroed, SteppedDown].contains(&fault);
                    assert!(is_fall && at_s >= FAULT_S, "{broken} {fault:?} {at_s}: {taken:?}");
                    continue;
                };
                for name in all_names() {
                    let (found, rise) = (figure(&since[0], name), at_s * EACH_S);
                    let expected = match (name == broken && at_s >= FAULT_S, fault) {
                        (false, _) => Some(rise),
                        (true, Frozen) => Some(FAULT_S * EACH_S),
                        (true, SteppedUp) => Some(rise + STEP),
                        (true, Zeroed | SteppedDown) => None,
                    };
                    assert_eq!(found, expected, "{broken} {fault:?}: {name} at {at_s}");
                }
            }
        }
    }
}
