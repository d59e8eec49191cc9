//! `journal.ndjson`: the record that survives a kill. The first line holds the run as known before
//! the trigger, then there is a line for each second ([`super::ndjson`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::figures::wait_rows;
use super::kinds::KindNames;
use super::ndjson::{self, LinesFile};
use super::{IntervalTotals, RecordError, RecordFolder, Run, Second, SessionLost};
use crate::counters::{Counters, Wait};
use petal_host::facts::FactChange;

pub const FORMAT: &str = "petal-journal/1";
pub const NAME: &str = "journal.ndjson";
pub(super) const WANTED: &str = "the first line of a petal journal";
/// Clock noise at the bounds of a second.
const BOUND_SLACK_S: f64 = 0.005;
/// Maximum number of kept lines that end with an interval: each costs a copy of all totals.
const MATCHES_MAX: usize = 16;

/// The first line: everything known before the trigger (target, settings, seed, host, load,
/// settling), as a [`Run`] without figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    pub format: String,
    pub run: Run,
}

impl Opening {
    /// `run` before the trigger; see [`Run::begin`].
    pub fn new(run: Run) -> Self {
        Self { format: FORMAT.to_owned(), run }
    }
}

/// A second of the run, and the totals since the trigger that a killed run would lose.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalLine {
    pub second: Second,
    /// Waits since the trigger. The file holds only those that changed since the line before: a
    /// day's run must not fill a disk with constant totals.
    pub waits: Vec<Wait>,
    /// The database's own counters since the trigger; written in the same way as `waits`.
    pub counters: BTreeMap<String, u64>,
    /// The database's counters could not be sampled: `waits` and `counters` are unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncounted: bool,
    /// Names of waits and counters that are unknown from this second on: they began again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<String>,
    /// True if a name that appears later counts from 0, as in [`Counters`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omits_zeros: bool,
    /// Names without a figure, as in [`Counters`].
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unknown: BTreeSet<String>,
    /// Errors so far, by code.
    pub errors: BTreeMap<String, u64>,
    /// Sessions lost since the line before: a day's run may lose many, and each is written once.
    pub sessions_lost: Vec<SessionLost>,
    /// Changes of facts since the line before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FactChange>,
    pub petal_cpu_s: Option<f64>,
    /// Times since the trigger, as in [`super::Details`].
    pub db_time_s: f64,
    pub think_time_s: f64,
}

/// The journal of a run in progress.
#[derive(Debug)]
pub struct Journal {
    lines: LinesFile,
    latest: LatestTotals,
}

impl Journal {
    pub fn begin(folder: &RecordFolder, opening: &Opening) -> Result<Self, RecordError> {
        let lines = LinesFile::begin((folder, NAME.as_ref()), "a journal line", opening)?;
        Ok(Self { lines, latest: LatestTotals::default() })
    }

    /// Appends one second. An error is returned once; later calls do nothing.
    pub fn second(&mut self, line: JournalLine) -> Result<(), RecordError> {
        self.lines.append(&self.latest.changed_in(line))
    }
}

/// Waits and counters after the lines so far.
#[derive(Debug, Default)]
struct LatestTotals {
    /// Waits in the order in which they were first named; `None` in place of a forgotten one.
    waits: Vec<Option<Wait>>,
    /// The index of each wait.
    places: HashMap<String, usize>,
    counters: BTreeMap<String, u64>,
}

impl LatestTotals {
    /// Keeps a line's totals, and leaves only the changed ones in it.
    fn changed_in(&mut self, mut line: JournalLine) -> JournalLine {
        if !line.uncounted {
            let names: HashSet<&String> = line.waits.iter().map(|wait| &wait.name).collect();
            let waits = self.waits.iter().flatten().map(|wait| &wait.name);
            let waits = waits.filter(|name| !names.contains(*name));
            let counters = self.counters.keys().filter(|name| !line.counters.contains_key(*name));
            line.forgotten = waits.chain(counters).cloned().collect();
        }
        line.waits.retain(|wait| self.latest(&wait.name) != Some(wait));
        line.counters.retain(|name, count| self.counters.get(name) != Some(count));
        self.take(&line);
        line
    }

    fn forget(&mut self, names: &[String]) {
        for name in names {
            self.counters.remove(name);
            let place = self.places.remove(name);
            if let Some(wait) = place.and_then(|place| self.waits.get_mut(place)) {
                *wait = None;
            }
        }
    }

    fn latest(&self, name: &str) -> Option<&Wait> {
        self.places.get(name).and_then(|&place| self.waits.get(place)?.as_ref())
    }

    fn known(&self) -> Vec<Wait> {
        self.waits.iter().flatten().cloned().collect()
    }

    /// The totals after `last`, the line of the newest second.
    fn counted(&self, seconds: usize, last: Option<&JournalLine>) -> Option<CountedSeconds> {
        let (waits, counters) = (self.known(), self.counters.clone());
        Some(CountedSeconds { seconds, line: JournalLine { waits, counters, ..last?.clone() } })
    }

    fn take(&mut self, line: &JournalLine) {
        if line.uncounted {
            *self = Self::default(); // They are written whole when it is known again.
        }
        self.forget(&line.forgotten);
        for wait in &line.waits {
            match self.places.get(&wait.name).and_then(|&place| self.waits.get_mut(place)) {
                Some(known) => *known = Some(wait.clone()),
                None => {
                    self.places.insert(wait.name.clone(), self.waits.len());
                    self.waits.push(Some(wait.clone()));
                }
            }
        }
        self.counters.extend(line.counters.iter().map(|(name, count)| (name.clone(), *count)));
    }
}

#[derive(Debug)]
pub struct JournalContent {
    pub opening: Opening,
    pub seconds: Vec<Second>,
    /// The last line, with the run's totals; None for a run without a second.
    pub last: Option<JournalLine>,
    /// None if the database's counters are known for no second.
    pub counted: Option<CountedSeconds>,
    pub sessions_lost: Vec<SessionLost>,
    pub changes: Vec<FactChange>,
    /// True if data after the last readable line was cut off or damaged.
    pub torn: bool,
    /// Content that was left out, in a sentence.
    pub gap: Option<String>,
}

/// The first seconds of a run, as long as they have the database's counters without a break.
#[derive(Debug)]
pub struct CountedSeconds {
    /// Number of seconds, from the first on.
    pub seconds: usize,
    /// The line of the last of them, with the totals until then.
    pub line: JournalLine,
}

/// Reads a journal up to the first line that is torn or damaged.
pub fn read(path: &Path) -> Result<JournalContent, RecordError> {
    let (mut seconds, mut last) = (Vec::new(), None);
    let mut latest = LatestTotals::default();
    let (mut sessions_lost, mut known_lost) = (Vec::new(), HashSet::new());
    let mut changes = Vec::new();
    let mut until_break: Option<Option<CountedSeconds>> = None;
    let mut kinds = KindNames::default();
    let (opening, torn) =
        ndjson::read(path, FORMAT, WANTED, |_: &Opening, mut line: JournalLine| {
            for lost in std::mem::take(&mut line.sessions_lost) {
                // The first versions of petal wrote all totals in every line.
                if known_lost.insert(lost.session) {
                    sessions_lost.push(lost);
                }
            }
            changes.append(&mut line.changes);
            kinds.retain(&mut line.second.latency_us);
            if until_break.is_none() && (line.uncounted || line.second.io.is_none()) {
                until_break = Some(latest.counted(seconds.len(), last.as_ref()));
            }
            seconds.push(line.second.clone());
            latest.take(&line);
            last = Some(line);
        })?;
    let counted = until_break.unwrap_or_else(|| latest.counted(seconds.len(), last.as_ref()));
    let last =
        last.map(|line| JournalLine { waits: latest.known(), counters: latest.counters, ..line });
    let gap = kinds.gap();
    Ok(JournalContent { opening, seconds, last, counted, sessions_lost, changes, torn, gap })
}

/// Waits, counters and times between the ends of two seconds; None if one of them is missing or was
/// not sampled.
pub fn between(
    path: &Path,
    (from_s, to_s): (f64, f64),
) -> Result<Option<IntervalTotals>, RecordError> {
    let ends_at = |line: &JournalLine, at_s: f64| {
        (line.second.from_s + line.second.length_s - at_s).abs() < BOUND_SLACK_S
    };
    let mut latest = LatestTotals::default();
    let mut matches = 0;
    let trigger = JournalLine { petal_cpu_s: Some(0.0), ..JournalLine::default() };
    let (mut from, mut to) = ((from_s < BOUND_SLACK_S).then_some(trigger), None);
    ndjson::read(path, FORMAT, WANTED, |_: &Opening, line: JournalLine| {
        latest.take(&line);
        let bound = match (ends_at(&line, from_s), ends_at(&line, to_s)) {
            (true, _) => &mut from,
            (_, true) => &mut to,
            _ => return,
        };
        matches += 1;
        if matches > MATCHES_MAX {
            return;
        }
        let (waits, counters) = (latest.known(), latest.counters.clone());
        *bound = Some(JournalLine { waits, counters, ..line });
    })?;
    let both = from.zip(to).filter(|(from, to)| !from.uncounted && !to.uncounted);
    Ok(both.map(|(from, to)| difference(from, to)))
}

/// Returns a line's totals since the trigger.
fn counters_of(line: &JournalLine) -> Counters {
    Counters {
        waits: line.waits.clone(),
        raw: line.counters.clone(),
        omits_zeros: line.omits_zeros,
        unknown: line.unknown.clone(),
        ..Counters::default()
    }
}

fn difference(from: JournalLine, to: JournalLine) -> IntervalTotals {
    let (now, then) = (counters_of(&to), counters_of(&from));
    // At the trigger, all counts are 0.
    let counted = if from.second.length_s > 0.0 { now.since(&then) } else { now };
    IntervalTotals {
        waits: wait_rows(&counted.waits),
        counters: counted.raw,
        petal_cpu_s: to.petal_cpu_s.zip(from.petal_cpu_s).map(|(now, then)| now - then),
        db_time_s: to.db_time_s - from.db_time_s,
        think_time_s: to.think_time_s - from.think_time_s,
        ..IntervalTotals::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::WaitClass;
    use crate::fixture;
    use proptest::prelude::*;

    #[test]
    fn a_journal_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), 3);
        let read = read(&dir.path().join(NAME)).unwrap();
        assert_eq!(read.opening.run, fixture::opening());
        assert_eq!(read.seconds.len(), 3);
        assert_eq!(read.seconds[2].ops, fixture::timeline(3)[2].ops);
        assert_eq!(read.last.unwrap().second, read.seconds[2]);
        assert!(!read.torn);
    }

    #[test]
    fn each_second_is_on_disk_when_it_was_reported() {
        let dir = tempfile::tempdir().unwrap();
        let opening = Opening::new(fixture::opening());
        let mut journal = Journal::begin(&RecordFolder::open(dir.path()), &opening).unwrap();
        for seconds in 1..4 {
            journal.second(JournalLine::default()).unwrap();
            assert_eq!(read(&dir.path().join(NAME)).unwrap().seconds.len(), seconds);
        }
    }

    const NO_COUNTERS: &str = "\"counters\":{}";

    #[test]
    fn totals_not_sampled_are_unknown_and_written_whole_at_the_next_sample() {
        let dir = tempfile::tempdir().unwrap();
        let opening = Opening::new(fixture::opening());
        let mut journal = Journal::begin(&RecordFolder::open(dir.path()), &opening).unwrap();
        let known = JournalLine {
            counters: BTreeMap::from([("commits".to_owned(), 7)]),
            ..JournalLine::default()
        };
        let unknown = JournalLine { uncounted: true, ..JournalLine::default() };
        for line in [&known, &unknown, &known] {
            journal.second(line.clone()).unwrap();
            let last = read(&dir.path().join(NAME)).unwrap().last.unwrap();
            assert_eq!(last.counters, line.counters);
        }
    }

    proptest! {
        #[test]
        fn totals_are_read_back_though_lines_hold_only_changes(
            seconds in prop::collection::vec(prop::collection::vec(0u64..3, 4), 1..12),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let opening = Opening::new(fixture::opening());
            let mut journal = Journal::begin(&RecordFolder::open(dir.path()), &opening).unwrap();
            // One more counter and wait each second; some stay constant.
            let mut totals = [0; 4];
            for (at, steps) in seconds.iter().enumerate() {
                totals.iter_mut().zip(steps).for_each(|(total, step)| *total += step);
                let known = || totals.iter().enumerate().take(at + 1);
                let waits = known().map(|(n, &time_ns)| {
                    let name = format!("wait {n}");
                    Wait::counted(&name, WaitClass::UserIo, Some(time_ns), time_ns)
                });
                let counters = known().map(|(n, &total)| (format!("counter {n}"), total));
                let line = JournalLine {
                    waits: waits.collect(),
                    counters: counters.collect(),
                    ..JournalLine::default()
                };
                let (waits, counters) = (line.waits.clone(), line.counters.clone());
                journal.second(line).unwrap();
                let last = read(&dir.path().join(NAME)).unwrap().last.unwrap();
                prop_assert_eq!((last.waits, last.counters), (waits, counters));
            }
            // Unchanged totals are not written again.
            let still = JournalLine {
                counters: BTreeMap::from([("counter 0".to_owned(), totals[0])]),
                ..JournalLine::default()
            };
            journal.second(still).unwrap();
            let text = std::fs::read_to_string(dir.path().join(NAME)).unwrap();
            prop_assert!(text.lines().last().unwrap().contains(NO_COUNTERS));
        }
    }

    #[test]
    fn a_counter_that_appears_in_a_window_is_unknown_unless_the_database_omits_zeros() {
        let in_window = |from_s, omits_zeros, unknown: &[&str]| {
            let dir = tempfile::tempdir().unwrap();
            let opening = Opening::new(fixture::opening());
            let mut journal = Journal::begin(&RecordFolder::open(dir.path()), &opening).unwrap();
            for (from_s, names) in [(0.0, &["commits"][..]), (1.0, &["commits", "late"])] {
                let count = (from_s as u64 + 1) * 5;
                let wait = |name: &&str| Wait::counted(name, WaitClass::UserIo, Some(count), count);
                let line = JournalLine {
                    second: Second { from_s, length_s: 1.0, ..Second::default() },
                    waits: names.iter().map(wait).collect(),
                    counters: names.iter().map(|name| ((*name).to_owned(), count)).collect(),
                    unknown: unknown.iter().map(|name| (*name).to_owned()).collect(),
                    omits_zeros,
                    ..JournalLine::default()
                };
                journal.second(line).unwrap();
            }
            let totals = between(&dir.path().join(NAME), (from_s, 2.0)).unwrap().unwrap();
            let waits = totals.waits.into_iter().map(|wait| (wait.name, wait.waits.unwrap()));
            assert_eq!(waits.collect::<BTreeMap<_, _>>(), totals.counters);
            totals.counters.into_iter().collect::<Vec<_>>()
        };
        let both = |commits, late| vec![("commits".to_owned(), commits), ("late".to_owned(), late)];
        assert_eq!(in_window(1.0, false, &[]), both(5, 0)[..1]);
        assert_eq!(in_window(1.0, true, &[]), both(5, 10));
        assert_eq!(in_window(1.0, true, &["late"]), both(5, 0)[..1]);
        assert_eq!(in_window(0.0, false, &[]), both(10, 10));
    }

    #[test]
    fn a_lost_session_is_one_however_often_it_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let opening = Opening::new(fixture::opening());
        let mut journal = Journal::begin(&RecordFolder::open(dir.path()), &opening).unwrap();
        let lost = |session: u32| SessionLost {
            session,
            at_s: f64::from(session),
            code: "dead".to_owned(),
            message: "it died".to_owned(),
        };
        for sessions_lost in [vec![], vec![lost(2)], vec![lost(2), lost(1)], vec![lost(3)], vec![]]
        {
            journal.second(JournalLine { sessions_lost, ..JournalLine::default() }).unwrap();
        }
        let read = read(&dir.path().join(NAME)).unwrap();
        assert_eq!(read.sessions_lost, [lost(2), lost(1), lost(3)]);
    }
}
