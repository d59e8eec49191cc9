//! Cumulative counters that begin again while petal counts: a user resets a server's statistics or
//! truncates a view of them, or the server restarts. A reader looks once a second; a group of
//! counters is lost if one of them fell, or if the server says that the group began again.

use std::collections::BTreeMap;

/// The group of counters that begin again only with the server itself, such as its uptime.
pub const SERVER: &str = "server";

/// The counters of one server since a run began.
#[derive(Debug, Default)]
pub struct ResetWatch {
    /// The newest value of each counter. One that is missing in a look keeps its value.
    latest: BTreeMap<String, u64>,
    /// The server's own statement of when each group began, if it makes one.
    stamps: BTreeMap<String, String>,
    /// Groups that began again, each with the reason.
    lost: BTreeMap<String, String>,
    groups: usize,
    /// Resets that were ever seen.
    seen: u64,
}

impl ResetWatch {
    /// Compares a look with the one before. `group_of` returns the group of a counter.
    pub fn look(
        &mut self,
        counts: &BTreeMap<String, u64>,
        stamps: BTreeMap<String, String>,
        group_of: fn(&str) -> &str,
    ) {
        for (group, stamp) in stamps {
            let then = self.stamps.insert(group.clone(), stamp.clone());
            if then.is_some_and(|then| then != stamp) {
                self.note_reset(&group, || {
                    format!("{group} began again, at {stamp} by the server")
                });
            }
        }
        for (name, &now) in counts {
            if let Some(then) = self.latest.insert(name.clone(), now)
                && now < then
            {
                let group = group_of(name);
                self.note_reset(group, || {
                    format!("{group} began again: {name} fell from {then} to {now}")
                });
            }
        }
        let mut groups: Vec<&str> = self.latest.keys().map(|name| group_of(name)).collect();
        groups.sort_unstable();
        groups.dedup();
        groups.retain(|group| *group != SERVER);
        self.groups = groups.len();
    }

    fn note_reset(&mut self, group: &str, why: impl FnOnce() -> String) {
        self.seen += 1;
        self.lost.entry(group.to_owned()).or_insert_with(why);
    }

    /// Forgets the resets until now: the counters of a run begin.
    pub fn begin(&mut self) {
        self.lost.clear();
    }

    /// Why all counters began again; None if some go on.
    pub fn restarted(&self) -> Option<String> {
        let all = self.groups > 0 && self.lost.len() >= self.groups;
        let why = self.lost.get(SERVER);
        why.or_else(|| self.lost.values().next().filter(|_| all)).cloned()
    }

    pub fn is_lost(&self, group: &str) -> bool {
        self.restarted().is_none() && self.lost.contains_key(group)
    }

    /// The reasons, a sentence for each group that is lost.
    pub fn resets(&self) -> Vec<String> {
        self.lost.values().cloned().collect()
    }

    /// Another number means that some counters began again in between.
    pub fn reset_count(&self) -> u64 {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn group_of(name: &str) -> &str {
        name.split('.').next().unwrap_or(name)
    }

    fn counts(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
        all.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    fn stamps(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(group, stamp)| ((*group).to_owned(), (*stamp).to_owned())).collect()
    }

    #[test]
    fn a_group_that_fell_or_says_that_it_began_again_is_lost_until_the_next_run() {
        let mut watch = ResetWatch::default();
        let look = |watch: &mut ResetWatch, writes, syncs, reads, stamp| {
            let counts = counts(&[("a.writes", writes), ("b.syncs", syncs), ("c.reads", reads)]);
            watch.look(&counts, stamps(&[("b", stamp)]), group_of);
            ["a", "b", "c"].map(|group| watch.is_lost(group))
        };
        assert_eq!(look(&mut watch, 10, 10, 10, "x"), [false; 3]);
        assert_eq!(look(&mut watch, 2, 11, 11, "x"), [true, false, false]);
        assert_eq!(watch.resets(), ["a began again: a.writes fell from 10 to 2"]);
        // Higher than before, but the server says that it began again.
        assert_eq!(look(&mut watch, 90, 99, 12, "y"), [true, true, false]);
        assert_eq!((watch.reset_count(), watch.restarted()), (2, None));
        watch.begin();
        assert_eq!(look(&mut watch, 91, 100, 13, "y"), [false; 3]);
        assert_eq!(watch.reset_count(), 2);
    }

    #[test]
    fn a_server_whose_groups_all_began_again_was_restarted() {
        let mut watch = ResetWatch::default();
        watch.look(&counts(&[("a.x", 10), ("b.x", 10)]), stamps(&[]), group_of);
        watch.look(&counts(&[("a.x", 1), ("b.x", 1)]), stamps(&[]), group_of);
        assert!(watch.restarted().is_some() && !watch.is_lost("a"));
        let mut watch = ResetWatch::default();
        watch.look(&counts(&[("a.x", 10)]), stamps(&[(SERVER, "monday")]), group_of);
        watch.look(&counts(&[("a.x", 20)]), stamps(&[(SERVER, "tuesday")]), group_of);
        assert!(watch.restarted().unwrap().contains("tuesday"));
    }

    proptest! {
        /// Each counter zeroed, stepped back or frozen, one at a time, at any look.
        #[test]
        fn no_counter_that_is_set_back_stays_known(
            steps in prop::collection::vec(prop::array::uniform4(0u64..50), 2..20),
            victim in 0usize..4, at in 1usize..19, to in 0u64..3,
        ) {
            let names = ["a.one", "a.two", "b.one", "c.one"];
            let (mut sums, mut watch) = ([100u64; 4], ResetWatch::default());
            let mut fell = false;
            for (number, step) in steps.iter().enumerate() {
                for (sum, step) in sums.iter_mut().zip(step) {
                    *sum += step;
                }
                if number == at {
                    fell = to < 2;
                    // Zeroed, stepped back, or frozen at what it was: only the last is no fall.
                    sums[victim] = match to {
                        0 => 0,
                        1 => sums[victim] - steps[number][victim] - 1,
                        _ => sums[victim] - steps[number][victim],
                    };
                }
                let all: Vec<_> = names.into_iter().zip(sums).collect();
                watch.look(&counts(&all), BTreeMap::new(), group_of);
                for name in names {
                    let is_victims = group_of(name) == group_of(names[victim]);
                    prop_assert_eq!(watch.is_lost(group_of(name)), fell && is_victims);
                }
            }
        }
    }
}
