//! `seconds.ndjson.gz`: everything that a run counts, a line a second, and the only place where a record
//! keeps it. The first line holds the run as known before the trigger ([`super::ndjson`]). The file
//! survives a kill: each line can be read as soon as it is written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::figures::wait_rows;
use super::kinds::KindNames;
use super::ndjson::{self, LinesFile};
use super::os::SecondSeen;
use super::rows::RowList;
use super::{IntervalTotals, RecordError, RecordFolder, Run, Second, SessionLost};
use crate::counters::{Counters, Wait};
use petal_host::delta;
use petal_host::facts::FactChange;
use petal_host::os::Whole;

pub const FORMAT: &str = "petal-seconds/1";
pub const NAME: &str = "seconds.ndjson.gz";
pub(super) const WANTED: &str = "the first line of a run's seconds";
/// Clock noise at the bounds of a second.
pub(super) const BOUND_SLACK_S: f64 = 0.005;
/// Maximum number of kept lines that end with an interval: each costs a copy of all totals.
const MATCHES_MAX: usize = 16;
/// Seconds that are read, about six days: a small compressed file may hold any number.
const SECONDS_MAX: usize = 500_000;

/// The first line: everything known before the trigger (target, settings, seed, host, load,
/// settling), as a [`Run`] without figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    pub format: String,
    pub run: Box<Run>,
}

impl Opening {
    /// `run` before the trigger; see [`Run::begin`].
    pub fn new(run: Run) -> Self {
        Self { format: FORMAT.to_owned(), run: Box::new(run) }
    }
}

/// A second of the run: petal's counts, the database's and the operating system's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecondsLine {
    /// None if the operating system was sampled once more in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second: Option<Second>,
    /// Counts of the operating system between two samples, near the second's bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<SecondSeen>,
    /// Waits since the trigger. The file holds the difference from the line before, of those that
    /// changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// The database's own counters since the trigger; written in the same way as `waits`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// The database's counters could not be sampled: `waits` and `counters` are unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub uncounted: bool,
    /// Names of waits and counters that began again: in this line they count from 0, or are unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<String>,
    /// True if a name that appears later counts from 0, as in [`Counters`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub omits_zeros: bool,
    /// Names without a figure, as in [`Counters`].
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub unknown: BTreeSet<String>,
    /// Errors so far, by code.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Sessions lost since the line before: a day's run may lose many, and each is written once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sessions_lost: Vec<SessionLost>,
    /// Changes of facts since the line before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FactChange>,
    pub petal_cpu_s: Option<f64>,
    /// Times since the trigger, as in [`super::Details`].
    pub db_time_s: f64,
    pub think_time_s: f64,
}

/// The seconds of a run in progress.
#[derive(Debug)]
pub struct SecondsFile {
    lines: LinesFile,
    latest: LatestTotals,
}

impl SecondsFile {
    pub fn begin(folder: &RecordFolder, opening: &Opening) -> Result<Self, RecordError> {
        let lines = LinesFile::begin((folder, NAME.as_ref()), "a second", opening)?;
        Ok(Self { lines, latest: LatestTotals::default() })
    }

    /// Appends one second. An error is returned once; later calls do nothing.
    pub fn second(&mut self, line: SecondsLine) -> Result<(), RecordError> {
        self.lines.append(&self.latest.changed_in(line))
    }

    /// Appends counts of the operating system alone. An error is returned once, likewise.
    pub fn os_alone(&mut self, seen: SecondSeen) -> Result<(), RecordError> {
        self.lines.append(&SecondsLine { os: Some(seen), ..SecondsLine::default() })
    }
}

/// Writes the seconds of a record that was made of others, without the database's waits and counters.
pub fn save(folder: &RecordFolder, run: &Run) -> Result<(), RecordError> {
    let mut file = SecondsFile::begin(folder, &Opening::new(run.clone()))?;
    let mut seen = run.details.os.iter().flat_map(|seen| &seen.seconds).cloned().peekable();
    for second in &run.details.timeline {
        let end_s = second.from_s + second.length_s;
        while let Some(early) = seen.next_if(|seen| seen.from_s < second.from_s - BOUND_SLACK_S) {
            file.os_alone(early)?;
        }
        let os = seen.next_if(|seen| seen.from_s < end_s);
        file.second(SecondsLine {
            second: Some(second.clone()),
            os,
            uncounted: true,
            ..SecondsLine::default()
        })?;
    }
    seen.try_for_each(|late| file.os_alone(late))
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
    /// Keeps a line's totals, and leaves their differences in it.
    fn changed_in(&mut self, mut line: SecondsLine) -> SecondsLine {
        if !line.uncounted {
            let names: HashSet<&String> = line.waits.iter().map(|wait| &wait.name).collect();
            let waits = self.waits.iter().flatten().map(|wait| &wait.name);
            let waits = waits.filter(|name| !names.contains(*name));
            let counters = self.counters.keys().filter(|name| !line.counters.contains_key(*name));
            line.forgotten = waits.chain(counters).cloned().collect();
        }
        let mut began_again = Vec::new();
        let changed = line.waits.iter().filter_map(|now| match self.latest(&now.name) {
            Some(then) if then == now => None,
            Some(then) => Some(risen(now, then).unwrap_or_else(|| {
                began_again.push(now.name.clone());
                now.clone()
            })),
            None => Some(now.clone()),
        });
        let waits = changed.collect();
        let counters = line.counters.iter().filter_map(|(name, &now)| {
            let then = self.counters.get(name).copied();
            if then == Some(now) {
                return None;
            }
            let since = then.map_or(Some(now), |then| delta(then, now));
            Some((
                name.clone(),
                since.unwrap_or_else(|| {
                    began_again.push(name.clone());
                    now
                }),
            ))
        });
        line.counters = counters.collect();
        line.waits = waits;
        line.forgotten.append(&mut began_again);
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
    fn counted(&self, rows: usize, last: Option<&SecondsLine>) -> Option<CountedSeconds> {
        let (waits, counters) = (self.known(), self.counters.clone());
        Some(CountedSeconds { rows, line: SecondsLine { waits, counters, ..last?.clone() } })
    }

    fn take(&mut self, line: &SecondsLine) {
        if line.uncounted {
            *self = Self::default(); // They are written whole when it is known again.
        }
        self.forget(&line.forgotten);
        for wait in &line.waits {
            match self.places.get(&wait.name).and_then(|&place| self.waits.get_mut(place)) {
                Some(Some(known)) => known.add(wait),
                Some(known) => *known = Some(wait.clone()),
                None => {
                    self.places.insert(wait.name.clone(), self.waits.len());
                    self.waits.push(Some(wait.clone()));
                }
            }
        }
        for (name, count) in &line.counters {
            let total = self.counters.entry(name.clone()).or_default();
            *total = total.saturating_add(*count);
        }
    }
}

/// The rise of a wait; None if it is not known from these two totals.
fn risen(now: &Wait, then: &Wait) -> Option<Wait> {
    let is_alike = now.class == then.class && now.waits.is_some() == then.waits.is_some();
    now.since(then).filter(|_| is_alike)
}

#[derive(Debug)]
pub struct SecondsContent<F = Opening> {
    pub opening: F,
    pub rows: Vec<Second>,
    /// Number of seconds in them.
    pub seconds: usize,
    /// Counts of the operating system, without single processors.
    pub os_rows: Vec<SecondSeen>,
    /// Their sums.
    pub os: Whole,
    /// The last line, with the run's totals; None for a run without a second.
    pub last: Option<SecondsLine>,
    /// None if the database's counters are known for no second.
    pub counted: Option<CountedSeconds>,
    pub sessions_lost: Vec<SessionLost>,
    pub changes: Vec<FactChange>,
    /// True if data after the last readable line was cut off or damaged.
    pub torn: bool,
    /// Content that was left out, in a sentence.
    pub gap: Option<String>,
}

/// The first rows of a run, as long as they have the database's counters without a break.
#[derive(Debug)]
pub struct CountedSeconds {
    /// Number of rows, from the first on.
    pub rows: usize,
    /// The line of the last of them, with the totals until then.
    pub line: SecondsLine,
}

/// A first line that is not needed, because `run.json` has more.
#[derive(Debug, Deserialize)]
pub struct UnreadOpening {}

/// Reads the seconds up to the first line that is torn or damaged, into the rows that `begin` makes of
/// the first line. `F` is its content: [`Opening`] or [`UnreadOpening`].
pub fn read<F: DeserializeOwned>(
    path: &Path,
    begin: impl FnOnce(&F) -> RowList,
) -> Result<SecondsContent<F>, RecordError> {
    let mut begin = Some(begin);
    let (mut rows, mut last) = (RowList::default(), None);
    let (mut seen_count, mut os) = (0, Whole::default());
    let mut latest = LatestTotals::default();
    let (mut sessions_lost, mut changes) = (Vec::new(), Vec::new());
    let mut until_break: Option<Option<CountedSeconds>> = None;
    let (mut kinds, mut has_left_out) = (KindNames::default(), false);
    let (opening, torn) =
        ndjson::read(path, FORMAT, WANTED, |first: &F, mut line: SecondsLine| {
            if let Some(begin) = begin.take() {
                rows = begin(first);
            }
            if rows.count().max(seen_count) >= SECONDS_MAX {
                has_left_out = true;
                return;
            }
            let seen = line.os.take().map(|mut seen| {
                seen_count += 1;
                os.add(&seen.interval);
                // Single processors of a second are only for readers of the file.
                seen.interval.cpus.each = Vec::new();
                seen
            });
            let Some(mut second) = line.second.take() else {
                seen.into_iter().for_each(|seen| rows.push_seen(seen));
                return;
            };
            sessions_lost.append(&mut line.sessions_lost);
            changes.append(&mut line.changes);
            kinds.retain(&mut second.latency_us);
            if until_break.is_none() && (line.uncounted || second.io.is_none()) {
                rows.end_row();
                let [before, _] = rows.rows_and_open();
                until_break = Some(latest.counted(before.len(), last.as_ref()));
            }
            rows.push(second, seen);
            latest.take(&line);
            last = Some(line);
        })?;
    let seconds = rows.count();
    let (rows, os_rows) = rows.finish();
    let counted = until_break.unwrap_or_else(|| latest.counted(rows.len(), last.as_ref()));
    let last =
        last.map(|line| SecondsLine { waits: latest.known(), counters: latest.counters, ..line });
    let too_many = || format!("it has more than {SECONDS_MAX} seconds");
    let gap = kinds.gap().or_else(|| has_left_out.then(too_many));
    Ok(SecondsContent {
        opening,
        rows,
        seconds,
        os_rows,
        os,
        last,
        counted,
        sessions_lost,
        changes,
        torn,
        gap,
    })
}

/// Waits, counters and times between the ends of two seconds; None if one of them is missing or was
/// not sampled.
pub fn between(
    path: &Path,
    (from_s, to_s): (f64, f64),
) -> Result<Option<IntervalTotals>, RecordError> {
    let ends_at =
        |second: &Second, at_s: f64| (second.from_s + second.length_s - at_s).abs() < BOUND_SLACK_S;
    let mut latest = LatestTotals::default();
    let mut matches = 0;
    let trigger = SecondsLine { petal_cpu_s: Some(0.0), ..SecondsLine::default() };
    let (mut from, mut to) = ((from_s < BOUND_SLACK_S).then_some(trigger), None);
    ndjson::read(path, FORMAT, WANTED, |_: &UnreadOpening, line: SecondsLine| {
        let Some(second) = &line.second else { return };
        latest.take(&line);
        let bound = match (ends_at(second, from_s), ends_at(second, to_s)) {
            (true, _) => &mut from,
            (_, true) => &mut to,
            _ => return,
        };
        matches += 1;
        if matches > MATCHES_MAX {
            return;
        }
        let (waits, counters) = (latest.known(), latest.counters.clone());
        *bound = Some(SecondsLine { waits, counters, ..line });
    })?;
    let both = from.zip(to).filter(|(from, to)| !from.uncounted && !to.uncounted);
    Ok(both.map(|(from, to)| difference(from, to)))
}

/// Returns a line's totals since the trigger.
fn counters_of(line: &SecondsLine) -> Counters {
    Counters {
        waits: line.waits.clone(),
        raw: line.counters.clone(),
        omits_zeros: line.omits_zeros,
        unknown: line.unknown.clone(),
        ..Counters::default()
    }
}

fn difference(from: SecondsLine, to: SecondsLine) -> IntervalTotals {
    let (now, then) = (counters_of(&to), counters_of(&from));
    // At the trigger, all counts are 0.
    let counted = if from.second.is_some() { now.since(&then) } else { now };
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

    fn read_each(path: &Path) -> Result<SecondsContent, RecordError> {
        read(path, |_: &Opening| RowList::of_each_second())
    }

    #[test]
    fn seconds_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), 3);
        let read = read_each(&dir.path().join(NAME)).unwrap();
        assert_eq!(*read.opening.run, fixture::opening());
        assert_eq!(read.seconds, 3);
        assert_eq!(read.rows[2].ops, fixture::timeline(3)[2].ops);
        assert_eq!((read.os_rows.len(), read.os.intervals), (3, 3));
        assert!(!read.torn);
    }

    #[test]
    fn each_second_is_on_disk_when_it_was_reported() {
        let dir = tempfile::tempdir().unwrap();
        let opening = Opening::new(fixture::opening());
        let mut file = SecondsFile::begin(&RecordFolder::open(dir.path()), &opening).unwrap();
        for seconds in 1..4 {
            file.second(empty()).unwrap();
            assert_eq!(read_each(&dir.path().join(NAME)).unwrap().seconds, seconds);
        }
    }

    fn empty() -> SecondsLine {
        SecondsLine { second: Some(Second::default()), ..SecondsLine::default() }
    }

    #[test]
    fn totals_not_sampled_are_unknown_and_written_whole_at_the_next_sample() {
        let dir = tempfile::tempdir().unwrap();
        let opening = Opening::new(fixture::opening());
        let mut file = SecondsFile::begin(&RecordFolder::open(dir.path()), &opening).unwrap();
        let known =
            SecondsLine { counters: BTreeMap::from([("commits".to_owned(), 7)]), ..empty() };
        let unknown = SecondsLine { uncounted: true, ..empty() };
        for line in [&known, &unknown, &known] {
            file.second(line.clone()).unwrap();
            let last = read_each(&dir.path().join(NAME)).unwrap().last.unwrap();
            assert_eq!(last.counters, line.counters);
        }
    }

    proptest! {
        #[test]
        fn totals_are_read_back_though_lines_hold_only_differences(
            seconds in prop::collection::vec(prop::collection::vec(0u64..5, 4), 1..12),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let opening = Opening::new(fixture::opening());
            let mut file = SecondsFile::begin(&RecordFolder::open(dir.path()), &opening).unwrap();
            // One more counter and wait each second; some stay constant, some fall.
            let mut totals = [0; 4];
            let mut latest = LatestTotals::default();
            for (at, steps) in seconds.iter().enumerate() {
                for (total, step) in totals.iter_mut().zip(steps) {
                    *total = if *step == 4 { 1 } else { *total + step };
                }
                let known = || totals.iter().enumerate().take(at + 1);
                let waits = known().map(|(n, &time_ns)| {
                    let name = format!("wait {n}");
                    Wait::counted(&name, WaitClass::UserIo, Some(time_ns), time_ns)
                });
                let counters = known().map(|(n, &total)| (format!("counter {n}"), total));
                let line =
                    SecondsLine { waits: waits.collect(), counters: counters.collect(), ..empty() };
                latest.changed_in(line.clone());
                let still = latest.changed_in(line.clone());
                prop_assert!(still.waits.is_empty() && still.counters.is_empty());
                file.second(line.clone()).unwrap();
                let mut last = read_each(&dir.path().join(NAME)).unwrap().last.unwrap();
                last.waits.sort_by(|a, b| a.name.cmp(&b.name));
                prop_assert_eq!((last.waits, last.counters), (line.waits, line.counters));
            }
        }
    }

    #[test]
    fn a_counter_that_appears_in_a_window_is_unknown_unless_the_database_omits_zeros() {
        let in_window = |from_s, omits_zeros, unknown: &[&str]| {
            let dir = tempfile::tempdir().unwrap();
            let opening = Opening::new(fixture::opening());
            let mut file = SecondsFile::begin(&RecordFolder::open(dir.path()), &opening).unwrap();
            for (from_s, names) in [(0.0, &["commits"][..]), (1.0, &["commits", "late"])] {
                let count = (from_s as u64 + 1) * 5;
                let wait = |name: &&str| Wait::counted(name, WaitClass::UserIo, Some(count), count);
                let line = SecondsLine {
                    second: Some(Second { from_s, length_s: 1.0, ..Second::default() }),
                    waits: names.iter().map(wait).collect(),
                    counters: names.iter().map(|name| ((*name).to_owned(), count)).collect(),
                    unknown: unknown.iter().map(|name| (*name).to_owned()).collect(),
                    omits_zeros,
                    ..SecondsLine::default()
                };
                file.second(line).unwrap();
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
    fn a_small_file_of_very_many_seconds_is_read_in_part() {
        let dir = tempfile::tempdir().unwrap();
        let opening = Opening::new(fixture::opening());
        let folder = RecordFolder::open(dir.path());
        let mut file = LinesFile::begin((&folder, NAME.as_ref()), "a second", &opening).unwrap();
        for _ in 0..SECONDS_MAX / 1000 + 1 {
            file.append_text(&"{\"second\":{}}\n".repeat(1000)).unwrap();
        }
        drop(file);
        assert!(std::fs::metadata(dir.path().join(NAME)).unwrap().len() < 1 << 20);
        let read = read_each(&dir.path().join(NAME)).unwrap();
        assert_eq!(read.seconds, SECONDS_MAX);
        assert!(read.gap.unwrap().contains("500000 seconds"));
    }
}
