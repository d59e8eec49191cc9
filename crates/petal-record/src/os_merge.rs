//! Merges observations by `petal os` on a database's host into a run's record, by time: both write
//! UTC, and the database, asked during the run, reported how far its clock is ahead. An interval
//! that lies partly in a second gives that part of its counts to it.

use petal_host::numbers::decimal;
use std::path::Path;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::figures;
use super::moment::{after, stamp};
use super::os::{self, HostSeen, SERVER_NAME, SecondSeen};
use super::os_figures::OsFigures;
use super::os_log::{self, OsLogHeader, OsLogLine};
use super::rows;
use super::{IntervalTotals, RecordError, RecordFolder, Run, Second};
use petal_host::os::{OsInterval, Whole};

/// Seconds before the run that are kept, to judge whether the host was idle.
const BEFORE_S: f64 = 10.0;
/// A second of the run is reported if at least this share of it is covered.
const COVERED_SHARE_MIN: f64 = 0.95;
/// Two clocks further apart, by their own estimates, show different seconds.
const CLOCKS_APART_MAX_S: f64 = 0.5;
/// A clock that moved by more than this against the elapsed time was set.
const CLOCK_STEP_MIN_S: f64 = 0.5;
/// Prefix of a merge's gaps: the next merge removes them.
const GAP: &str = "--os-data: ";

/// Gap of the record for a figure that a merge leaves unknown.
pub fn gap(why: impl std::fmt::Display) -> String {
    format!("{GAP}{why}")
}

impl SecondSeen {
    /// The part of it between two moments.
    fn within(&self, from_s: f64, to_s: f64) -> Option<OsInterval> {
        let to = to_s.min(self.from_s + self.interval.seconds);
        let share = (to - from_s.max(self.from_s)) / self.interval.seconds;
        (share > 0.0).then(|| self.interval.part(share.min(1.0)))
    }
}

/// Merges a file, and returns notes on the merge for the reader.
pub fn merge(run: &mut Run, path: &Path) -> Result<Vec<String>, RecordError> {
    if run.details.target.local && run.details.os.is_some() {
        return Err(RecordError::SeenAlready { path: path.to_owned() });
    }
    let trigger = trigger(run, path)?;
    let elapsed_s = run.summary.elapsed_s;
    let (header, placed, span) = placed(path, trigger, elapsed_s)?;
    let lines = SortedLines::new(placed);
    let mut total = lines.whole(0.0, elapsed_s);
    let covered_s = total.sum.seconds;
    if covered_s <= 0.0 {
        return Err(RecordError::NoOverlap {
            path: path.to_owned(),
            run: format!("{} to {}", stamp(trigger), stamp(after(trigger, elapsed_s))),
            file: span.map_or("nothing".to_owned(), |(from, to)| {
                format!("{} to {}", stamp(from), stamp(to))
            }),
        });
    }
    total.settle(header.allowed_cpus.as_deref());
    let before = lines.whole(-BEFORE_S, 0.0).sum;
    let mut seen = HostSeen {
        file: Some(path.display().to_string()),
        facts: Some(header.host.clone()),
        before: (before.seconds > 0.0).then_some(before),
        whole: total,
        ..HostSeen::from_header(&header)
    };
    seen.seconds = rows::each_second(&run.details.timeline)
        .filter_map(|second| {
            let (from_s, length_s) = (second.from_s, second.length_s());
            let interval = lines.whole(from_s, second.end_s()).sum;
            let enough = interval.seconds >= length_s * COVERED_SHARE_MIN;
            (enough && length_s > 0.0).then_some(SecondSeen {
                from_s,
                interval,
                ..SecondSeen::default()
            })
        })
        .collect();
    let clocks = Clocks::of(run, &header);
    seen.clock = Some(clocks.said.clone());
    // Gaps of an earlier merge; in a merged record they begin with the share.
    let gaps = &mut run.details.gaps;
    gaps.retain(|gap| !gap.contains(GAP));
    if !clocks.is_sure {
        gaps.push(gap(&clocks.said));
    }
    let mut notes = vec![clocks.said];
    let is_whole = os::covers(&seen.whole.sum, elapsed_s);
    if !is_whole {
        let note = format!(
            "{} covers {covered_s} s of the run's {elapsed_s} s: totals of the device are unknown",
            path.display(),
            covered_s = decimal(covered_s, 0),
            elapsed_s = decimal(elapsed_s, 0)
        );
        gaps.push(gap(&note));
        notes.push(note);
    }
    fill(run, &seen, is_whole);
    run.details.devices = header.devices;
    run.details.server_os = Some(seen);
    run.summary.os = OsFigures::of(run);
    Ok(notes)
}

/// Whether a file that still grows has reached the run's end: its last line may be a second late.
pub fn reaches_end(run: &Run, path: &Path) -> bool {
    let span = trigger(run, path).and_then(|trigger| {
        let (_, _, span) = placed(path, trigger, run.summary.elapsed_s)?;
        Ok(span.map(|(_, end)| end - trigger))
    });
    // A file that cannot be read is reported by the merge.
    span.map_or(true, |length| {
        length.is_some_and(|length| length.as_seconds_f64() >= run.summary.elapsed_s)
    })
}

/// The trigger by the clock of the database's host.
fn trigger(run: &Run, path: &Path) -> Result<OffsetDateTime, RecordError> {
    let ahead_s = run.details.server_clock_ahead_s.unwrap_or(0.0);
    Ok(after(parsed(path, &run.summary.started_at)?, ahead_s))
}

/// Writes the merged seconds next to the record.
pub fn save_seconds(folder: &RecordFolder, run: &Run) -> Result<(), RecordError> {
    let Some(seen) = &run.details.server_os else { return Ok(()) };
    let path = folder.path().join(SERVER_NAME);
    let header = seen.header(run, seen.facts.clone().unwrap_or_default());
    let began = parsed(&path, &run.summary.started_at)?;
    let lines = seen.seconds.iter().map(|second| {
        let end = after(began, second.from_s + second.interval.seconds);
        let from_s = Some(second.from_s);
        OsLogLine { at: stamp(end), from_s, interval: second.interval.clone() }
    });
    let text = os_log::text(&path, &header, lines)?;
    folder.write_atomically(SERVER_NAME, &text).map(|_| ())
}

/// Alignment of the two clocks, and whether it is reliable.
struct Clocks {
    said: String,
    is_sure: bool,
}

impl Clocks {
    fn of(run: &Run, header: &OsLogHeader) -> Self {
        let host = &header.host.name;
        let sure = |said: String| Self { said, is_sure: true };
        let unsure = |why: String| Self {
            said: format!(
                "how far the clock of {host} is from petal's is not known ({why}); it is taken \
                 as zero, so the host's seconds may be aligned with others of the run"
            ),
            is_sure: false,
        };
        if let Some(s) = run.details.server_clock_ahead_s {
            let (s, side) = (s.abs(), if s < 0.0 { "behind" } else { "ahead of" });
            return sure(format!(
                "the clock of {host} is taken as {s:.3} s {side} petal's, as the database reported"
            ));
        }
        if run.details.target.local {
            return sure(format!("the file is of {host}, where petal ran too: one clock"));
        }
        let mut error_s = Some(0.0);
        for (whose, clock) in [(host.as_str(), &header.clock), ("petal's host", &run.details.clock)]
        {
            match clock {
                None => {
                    return unsure(format!(
                        "{whose} does not report whether its clock is synchronised"
                    ));
                }
                Some(clock) if !clock.synchronised => {
                    return unsure(format!("that of {whose} is not synchronised"));
                }
                Some(clock) => error_s = error_s.zip(clock.error_s).map(|(a, b)| a + b),
            }
        }
        match error_s {
            Some(s) if s > CLOCKS_APART_MAX_S => {
                unsure(format!("by their own estimates they may be {s:.1} s apart"))
            }
            Some(s) => sure(format!(
                "the clocks of {host} and petal are both synchronised, and by their own estimates \
                 no more than {:.3} ms apart: taken as none",
                s * 1e3
            )),
            None => sure(format!(
                "the clocks of {host} and petal both say that they are synchronised, not how well: \
                 taken as not apart"
            )),
        }
    }
}

type TimeSpan = (OffsetDateTime, OffsetDateTime);

/// The lines around the run, and the time span of all lines.
fn placed(
    path: &Path,
    trigger: OffsetDateTime,
    elapsed_s: f64,
) -> Result<(OsLogHeader, Vec<SecondSeen>, Option<TimeSpan>), RecordError> {
    let (mut placed, mut span): (Vec<SecondSeen>, Option<TimeSpan>) = (Vec::new(), None);
    let mut set: Option<(f64, String)> = None;
    let (header, _) = os_log::read(path, |_, line| {
        let Ok(end) = parsed(path, &line.at) else { return };
        if line.interval.seconds.is_nan() || line.interval.seconds <= 0.0 {
            return;
        }
        let from = after(end, -line.interval.seconds);
        let step_s = span.map_or(0.0, |(_, before)| (from - before).as_seconds_f64());
        let (was_s, is_s) =
            ((from - trigger).as_seconds_f64() - step_s, (end - trigger).as_seconds_f64());
        // Either clock reading lies in the run.
        let in_run = |at_s: f64| (0.0..=elapsed_s).contains(&at_s);
        if step_s.abs() > CLOCK_STEP_MIN_S && (in_run(was_s) || in_run(is_s)) {
            set.get_or_insert((step_s, line.at.clone()));
        }
        span = Some((span.map_or(from, |(first, _)| first), end));
        let from_s = (from - trigger).as_seconds_f64();
        if from_s < elapsed_s && from_s + line.interval.seconds > -BEFORE_S {
            let mut interval = line.interval;
            // The petal process there is not the one of the run.
            interval.counts = interval.counts.without_petal();
            placed.push(SecondSeen { from_s, interval, ..SecondSeen::default() });
        }
    })?;
    match set {
        Some((by_s, at)) => Err(RecordError::ClockSet { path: path.to_owned(), by_s, at }),
        None => Ok((header, placed, span)),
    }
}

/// The lines in the order of their starts. Clocks are sometimes set back, so the file's order may
/// differ, and lines may overlap.
struct SortedLines {
    placed: Vec<SecondSeen>,
    longest_s: f64,
}

impl SortedLines {
    fn new(mut placed: Vec<SecondSeen>) -> Self {
        placed.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
        let longest_s = placed.iter().map(|line| line.interval.seconds).fold(0.0, f64::max);
        Self { placed, longest_s }
    }

    /// Counts between two moments. Reads only the lines near them: each second of a day would
    /// otherwise go through a day's lines.
    fn whole(&self, from_s: f64, to_s: f64) -> Whole {
        let first = self.placed.partition_point(|line| line.from_s < from_s - self.longest_s);
        let near = self.placed.iter().skip(first).take_while(|line| line.from_s < to_s);
        let mut whole = Whole::default();
        near.filter_map(|line| line.within(from_s, to_s)).for_each(|part| whole.add(&part));
        whole
    }
}

/// Sets the seconds' figures of the database's host.
pub(super) fn fill_rows(rows: &mut [Second], seen: &HostSeen) {
    for row in rows {
        let of_all = (!row.joined.is_empty()).then(|| seen.within(row.from_s, row.end_s()).sum);
        let of_all = of_all.filter(|sum| sum.seconds >= row.length_s * COVERED_SHARE_MIN);
        let interval = seen.second(row.from_s, row.length_s).or(of_all.as_ref());
        row.cpu = interval.and_then(OsInterval::cpu);
        row.device = interval.and_then(OsInterval::device);
    }
}

/// Sets the record's figures of the database's host.
fn fill(run: &mut Run, seen: &HostSeen, is_whole: bool) {
    fill_rows(&mut run.details.timeline, seen);
    run.summary.cpu = seen.whole.sum.cpu();
    run.details.device = seen.whole.sum.device().filter(|_| is_whole);
    let seconds = run.summary.elapsed_s;
    run.summary.per_second = run.summary.per_second.with_device(run.details.device, seconds);
    if let Some(steady) = &mut run.summary.steady {
        let rows = figures::seconds_within(&run.details.timeline, steady.from_s, steady.to_s);
        let IntervalTotals { device, cpu, .. } = IntervalTotals::of(rows);
        let seconds = steady.to_s - steady.from_s;
        steady.per_second = steady.per_second.with_device(device, seconds);
        if let Some(totals) = &mut run.details.steady {
            (totals.device, totals.cpu) = (device, cpu);
        }
    }
}

fn parsed(path: &Path, text: &str) -> Result<OffsetDateTime, RecordError> {
    OffsetDateTime::parse(text, &Rfc3339).map_err(|cause| RecordError::Damaged {
        path: path.to_owned(),
        wanted: "a time in UTC",
        why: cause.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, moment};
    use petal_host::os::{CpuTicks, DeviceCounts, DeviceUse, Gauges};
    use proptest::prelude::*;
    use std::fs;

    /// A host that reads 1,000 bytes more in each second than in the one before, from `from_s` of
    /// the run on. Its clock is `ahead_s` ahead.
    fn recorded(folder: &Path, from_s: i64, seconds: i64, ahead_s: f64) -> std::path::PathBuf {
        let path = folder.join("dbhost.ndjson");
        let host = petal_host::host::HostFacts { name: "dbhost2".into(), ..Default::default() };
        let header = OsLogHeader { host, devices: vec!["sdz".into()], ..OsLogHeader::default() };
        let began = parsed(&path, &fixture::opening().summary.started_at).unwrap();
        let lines = (from_s..from_s + seconds).map(|second| {
            let end = after(began, second as f64 + 1.0 + ahead_s);
            let counts = DeviceCounts { read_bytes: 100_000, ..DeviceCounts::default() };
            let device =
                DeviceUse { name: "sdz".into(), data: true, counts, ..DeviceUse::default() };
            let ticks = CpuTicks::from([60, 0, 20, 120, 0, 0, 0, 0]);
            let mut interval = OsInterval { seconds: 1.0, ..OsInterval::default() };
            interval.cpus.host = Some(ticks);
            interval.cpus.allowed = Some(ticks);
            interval.cpus.each = vec![(0, ticks)];
            interval.devices = Some(vec![device]);
            interval.gauges = Gauges { blocked: Some(second.unsigned_abs()), ..Gauges::default() };
            OsLogLine { at: stamp(end), from_s: None, interval }
        });
        fs::write(&path, os_log::text(&path, &header, lines).unwrap()).unwrap();
        path
    }

    fn remote() -> Run {
        let mut run = fixture::mixed_run();
        run.details.target.local = false;
        run.details.device = None;
        run.details.os = None;
        run.summary.cpu = None;
        run
    }

    #[test]
    fn a_hosts_seconds_are_merged_by_time_and_clock() {
        let dir = tempfile::tempdir().unwrap();
        for ahead_s in [0.0, 3.25, -0.5] {
            let path = recorded(dir.path(), -20, 200, ahead_s);
            let mut run = remote();
            run.details.server_clock_ahead_s = Some(ahead_s);
            let notes = merge(&mut run, &path).unwrap();
            assert_eq!(notes.len(), 1, "{notes:?}");
            let seen = run.database_host().unwrap();
            assert_eq!((seen.host.as_str(), seen.seconds.len()), ("dbhost2", 60));
            assert!((seen.whole.sum.seconds - 60.0).abs() < 1e-3);
            assert_eq!(run.details.devices, ["sdz"]);
            let bytes = run.details.device.unwrap().read_bytes;
            assert!(bytes.abs_diff(6_000_000) < 100, "{bytes}");
            let rate = run.summary.per_second.device_read_bytes.unwrap();
            assert!((rate - 100_000.0).abs() < 10.0, "{rate}");
            assert_eq!(run.summary.cpu.unwrap().user, 30.0);
            assert!((seen.before.as_ref().unwrap().seconds - BEFORE_S).abs() < 1e-3);
            assert_eq!(run.details.timeline[7].device.unwrap().read_bytes, 100_000);
            fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_shifted_second_takes_parts_of_two() {
        let dir = tempfile::tempdir().unwrap();
        let path = recorded(dir.path(), -20, 200, 0.4);
        let mut run = remote();
        let notes = merge(&mut run, &path).unwrap();
        assert!(notes[0].contains("not known"), "{notes:?}");
        let second = &run.database_host().unwrap().seconds[3].interval;
        assert_eq!(second.device().unwrap().read_bytes, 100_000);
        assert_eq!(second.gauges.blocked, Some(3), "the later line's, at its end");
    }

    #[test]
    fn without_the_databases_answer_the_clocks_answer_for_themselves() {
        use petal_host::clock::ClockState;
        let state = |synchronised, error_s| {
            Some(ClockState { told_by: "chronyc tracking".into(), synchronised, error_s })
        };
        let said = |own, theirs| {
            let mut run = remote();
            run.details.clock = own;
            let host = petal_host::host::HostFacts { name: "dbhost2".into(), ..Default::default() };
            let clocks =
                Clocks::of(&run, &OsLogHeader { clock: theirs, host, ..OsLogHeader::default() });
            (clocks.is_sure, clocks.said)
        };
        let (is_sure, reported) = said(state(true, Some(0.001)), state(true, Some(0.002)));
        assert!(is_sure && reported.contains("no more than 3.000 ms apart"), "{reported}");
        let (is_sure, reported) = said(state(true, None), state(true, Some(0.002)));
        assert!(is_sure && reported.contains("not how well"), "{reported}");
        let (is_sure, reported) = said(state(true, Some(0.4)), state(true, Some(0.3)));
        assert!(!is_sure && reported.contains("0.7 s apart"), "{reported}");
        let (is_sure, reported) = said(state(true, Some(0.001)), state(false, None));
        assert!(!is_sure && reported.contains("that of dbhost2 is not synchronised"), "{reported}");
        let (is_sure, reported) = said(None, state(true, None));
        assert!(!is_sure && reported.contains("petal's host does not report"), "{reported}");
        // A database on petal's own host uses petal's own clock.
        let mut run = remote();
        run.details.target.local = true;
        assert!(Clocks::of(&run, &OsLogHeader::default()).is_sure);
    }

    #[test]
    fn an_unsure_clock_is_a_gap_of_the_record_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = recorded(dir.path(), -20, 200, 0.0);
        let mut run = remote();
        merge(&mut run, &path).unwrap();
        merge(&mut run, &path).unwrap();
        let gaps = run.details.gaps.iter().filter(|gap| gap.contains("clock of dbhost2")).count();
        assert_eq!(gaps, 1, "{:?}", run.details.gaps);
        assert!(run.details.server_os.unwrap().clock.unwrap().contains("not known"));
    }

    #[test]
    fn a_clock_that_was_set_during_the_run_is_refused_and_before_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        for (after, is_refused) in [(-12, false), (30, true)] {
            let path = recorded(dir.path(), -20, 200, 0.0);
            let text = fs::read_to_string(&path).unwrap();
            let mut second = -21;
            // All lines up to then were stamped by a clock three seconds behind.
            let lines = text.lines().map(|line| {
                let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
                second += 1;
                if let Some(at) = line.get("at").filter(|_| second <= after) {
                    let at = parsed(&path, at.as_str().unwrap()).unwrap();
                    line["at"] = stamp(moment::after(at, -3.0)).into();
                }
                line.to_string() + "\n"
            });
            let text: String = lines.collect();
            fs::write(&path, text).unwrap();
            match merge(&mut remote(), &path) {
                Ok(_) => assert!(!is_refused),
                Err(error) => {
                    let reported = error.to_string();
                    assert!(
                        is_refused && reported.contains("was set forward by 3.0 s"),
                        "{reported}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_overlap_is_reported_with_both_spans() {
        let dir = tempfile::tempdir().unwrap();
        let path = recorded(dir.path(), 3600, 10, 0.0);
        let error = merge(&mut remote(), &path).unwrap_err().to_string();
        for word in ["2026-11-20T13:42:07Z to 2026-11-20T13:43:07Z", "2026-11-20T14:42:07Z"] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_part_is_reported_and_gives_no_totals() {
        let dir = tempfile::tempdir().unwrap();
        let path = recorded(dir.path(), 20, 100, 0.0);
        let mut run = remote();
        let notes = merge(&mut run, &path).unwrap();
        assert!(notes[1].contains("covers 40 s of the run's 60 s"), "{notes:?}");
        assert!(reaches_end(&run, &path));
        let short = recorded(&dir.path().join("."), 0, 59, 0.0);
        assert!(!reaches_end(&run, &short), "a second is missing");
        assert_eq!((run.details.device, run.summary.per_second.device_read_bytes), (None, None));
        assert_eq!(run.database_host().unwrap().seconds.len(), 40);
    }

    #[test]
    fn a_merge_takes_the_gaps_of_earlier_ones_out() {
        let dir = tempfile::tempdir().unwrap();
        let part = recorded(dir.path(), 20, 100, 0.0);
        let mut run = remote();
        run.details.server_clock_ahead_s = Some(0.0);
        run.details.gaps = vec!["another".to_owned(), gap("a file that could not be read")];
        merge(&mut run, &part).unwrap();
        assert!(run.details.gaps[1].contains("covers 40 s"), "{:?}", run.details.gaps);
        // Format of a share's gap in the merged record.
        run.details.gaps[1].insert_str(0, "share 1 (vm): ");
        let full = recorded(dir.path(), -20, 200, 0.0);
        merge(&mut run, &full).unwrap();
        assert_eq!(run.details.gaps, ["another"]);
    }

    #[test]
    fn a_run_that_saw_its_host_itself_takes_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = recorded(dir.path(), 0, 60, 0.0);
        let mut run = fixture::mixed_run();
        run.details.os = Some(HostSeen::default());
        let error = merge(&mut run, &path).unwrap_err().to_string();
        assert!(error.contains("itself"), "{error}");
    }

    #[test]
    fn merged_seconds_are_read_back_with_the_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = recorded(dir.path(), -20, 200, 0.0);
        let mut run = remote();
        merge(&mut run, &path).unwrap();
        let folder = RecordFolder::open(dir.path());
        save_seconds(&folder, &run).unwrap();
        super::super::save(&folder, &run).unwrap();
        let again = super::super::load(dir.path()).unwrap();
        let (kept, read) = (run.details.server_os.unwrap(), again.details.server_os.unwrap());
        assert_eq!(read.seconds.len(), kept.seconds.len());
        assert_eq!(read.seconds[5].interval.device(), kept.seconds[5].interval.device());
    }

    proptest! {
        #[test]
        fn no_time_in_a_file_upsets_the_merge(
            seconds in prop::num::f64::NORMAL | prop::num::f64::ZERO,
            year in prop::sample::select(vec!["0000", "2026", "9999"]),
            elapsed_s in prop::num::f64::POSITIVE | prop::num::f64::NEGATIVE,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = recorded(dir.path(), 0, 3, 0.0);
            let line = format!("{{\"at\":\"{year}-11-20T13:42:07Z\",\"seconds\":{seconds:e}}}\n");
            fs::write(&path, fs::read_to_string(&path).unwrap() + &line).unwrap();
            let mut run = remote();
            run.details.server_clock_ahead_s = Some(-seconds);
            let _ = merge(&mut run, &path);
            run.details.server_clock_ahead_s = Some(0.0);
            run.details.timeline[0].from_s = seconds;
            let _ = merge(&mut run, &path);
            run.summary.elapsed_s = elapsed_s;
            let _ = (reaches_end(&run, &path), merge(&mut run, &path));
            save_seconds(&RecordFolder::open(dir.path()), &run).unwrap();
        }

        #[test]
        fn only_lines_near_a_second_are_looked_at_and_none_is_missed(
            lines in prop::collection::vec((-20.0f64..80.0, 0.01f64..12.0, 0u64..1000), 0..40),
            from_s in -5.0f64..70.0, length_s in 0.1f64..30.0,
        ) {
            let placed: Vec<SecondSeen> = lines
                .iter()
                .map(|&(from_s, seconds, switches)| {
                    let mut interval = OsInterval { seconds, ..OsInterval::default() };
                    interval.counts.context_switches = Some(switches);
                    SecondSeen { from_s, interval, ..SecondSeen::default() }
                })
                .collect();
            let to_s = from_s + length_s;
            let all: Vec<OsInterval> =
                placed.iter().filter_map(|line| line.within(from_s, to_s)).collect();
            let switches = |part: &OsInterval| part.counts.context_switches.unwrap();
            let expected: u64 = all.iter().map(switches).sum();
            let whole = SortedLines::new(placed).whole(from_s, to_s);
            prop_assert_eq!(whole.intervals, all.len() as u64);
            prop_assert_eq!(whole.sum.counts.context_switches.unwrap_or(0), expected);
        }
    }
}
