//! `run.json`: written once, by rename, at the end. The reader loads it, or rebuilds the record of
//! a killed run.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::os_figures::OsFigures;
use super::rows::RowList;
use super::{
    Details, FORMAT, IntervalTotals, RebuiltBecause, RecordError, RecordFolder, Run, Summary,
    format, input, kinds, os, rebuild, seconds,
};
use crate::counters::IoCounts;
use petal_host::host::HostFacts;

pub const NAME: &str = "run.json";
const WANTED: &str = "the record of a run";

/// Makes the list of a run's rows, from the moments at which one must end.
pub(super) type MakeRows = fn(Vec<f64>) -> RowList;

pub fn save(folder: &RecordFolder, run: &Run) -> Result<PathBuf, RecordError> {
    folder.write_json(NAME, "the run", run)
}

/// Whether a run left its record in this folder, whole or cut off.
pub fn is_one(path: &Path) -> bool {
    path.join(NAME).is_file() || path.join(seconds::NAME).is_file()
}

/// Reads the record of a run, by its folder or by the path of its `run.json`. If petal was killed,
/// or `run.json` cannot be read, the seconds give an interrupted run, marked
/// [`super::Details::rebuilt`], without findings: the caller judges it again.
pub fn load(path: &Path) -> Result<Run, RecordError> {
    load_in(path, RowList::cut_at)
}

/// Reads a record with each of its seconds alone, for exports and merges. A day takes some hundred
/// megabytes.
pub fn load_each_second(path: &Path) -> Result<Run, RecordError> {
    load_in(path, |_| RowList::of_each_second())
}

fn load_in(path: &Path, rows: MakeRows) -> Result<Run, RecordError> {
    let is_folder =
        std::fs::metadata(path).map_err(|source| RecordError::io("read", path, source))?.is_dir();
    let folder = if is_folder { Some(path) } else { path.parent() };
    let mut run = if is_folder { in_folder(path, rows) } else { whole(path) }?;
    if let Some(folder) = folder {
        if !run.details.rebuilt {
            os::attach(folder, &mut run, rows);
        }
        os::attach_server(folder, &mut run);
    }
    // Records of killed runs have the sums for these figures.
    if run.summary.os.is_none() {
        run.summary.os = OsFigures::of(&run);
    }
    Ok(run)
}

/// Reads the run in a folder for a list of runs: its summary, its host and the totals of its headline.
/// A run whose summary lacks the judgement, or whose totals end early, is read whole.
pub fn load_brief(folder: &Path) -> Result<Run, RecordError> {
    match brief(&folder.join(NAME)) {
        Some(run) if is_judged(&run.summary) && run.summary.counted_until.is_none() => Ok(run),
        _ => load(folder),
    }
}

fn is_judged(summary: &Summary) -> bool {
    summary.headline.is_some()
}

fn brief(path: &Path) -> Option<Run> {
    /// The small details, without the seconds.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct BriefDetails {
        petal_version: String,
        host: Option<HostFacts>,
        io: IoCounts,
        steady: Option<IntervalTotals>,
    }
    #[derive(Deserialize)]
    struct BriefRun {
        #[serde(flatten)]
        summary: Summary,
        details: BriefDetails,
    }
    let text = input::contents(path, input::BYTES_MAX).ok()?;
    // Read once: what is skipped is most of the file.
    let BriefRun { summary, details } = serde_json::from_slice(&text).ok()?;
    let BriefDetails { petal_version, host, io, steady } = details;
    let details = Details { petal_version, host, io, steady, ..Details::default() };
    (summary.format == FORMAT).then_some(Run { summary, details })
}

/// The folder of a run, named in any way that [`load`] accepts.
pub fn folder_of(path: &Path) -> RecordFolder {
    if path.is_dir() { RecordFolder::open(path) } else { RecordFolder::containing(path) }
}

fn in_folder(path: &Path, rows: MakeRows) -> Result<Run, RecordError> {
    let (run_path, seconds_path) = (path.join(NAME), path.join(seconds::NAME));
    let is_there =
        |path: &Path| path.try_exists().map_err(|error| RecordError::io("look for", path, error));
    match (is_there(&run_path)?, is_there(&seconds_path)?) {
        (true, has_seconds) => whole(&run_path).or_else(|error| match error {
            RecordError::Damaged { .. } if has_seconds => {
                let mut run = rebuild::from_folder(path, RebuiltBecause::Damaged, rows)?;
                run.details.gaps.push(error.to_string());
                Ok(run)
            }
            error => Err(error),
        }),
        (false, true) => {
            let because = match RecordFolder::open(path).is_live() {
                true => RebuiltBecause::StillRunning,
                false => RebuiltBecause::NotWritten,
            };
            rebuild::from_folder(path, because, rows)
        }
        (false, false) => Err(RecordError::NotARecord { path: path.to_owned() }),
    }
}

/// The record in a run.json.
pub(super) fn whole(path: &Path) -> Result<Run, RecordError> {
    let run = format::read(path, FORMAT, WANTED)?;
    match kinds::too_many(&run) {
        None => Ok(run),
        Some(why) => Err(RecordError::Damaged { path: path.to_owned(), wanted: WANTED, why }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Status, fixture, latency_log};
    use petal_host::files::Folder;
    use proptest::prelude::*;
    use std::fs;

    const SECONDS: u64 = 5;

    #[test]
    fn a_saved_run_is_loaded_by_folder_or_by_file() {
        let dir = tempfile::tempdir().unwrap();
        let run = fixture::mixed_run();
        fixture::save(dir.path(), &run);
        for place in [dir.path(), &dir.path().join(NAME)] {
            let loaded = load(place).unwrap();
            assert_eq!(loaded.summary.seed, run.summary.seed, "a seed uses all 64 bits");
            assert_eq!(
                serde_json::to_string(&loaded).unwrap(),
                serde_json::to_string(&run).unwrap()
            );
        }
    }

    #[test]
    fn a_brief_run_has_the_headline_of_the_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut run = fixture::mixed_run();
        fixture::save(dir.path(), &run);
        let whole = load(dir.path()).unwrap();
        assert_eq!(load_brief(dir.path()).unwrap(), whole, "it was not judged");
        run.summary.headline = Some(Default::default());
        save(&RecordFolder::open(dir.path()), &run).unwrap();
        let brief = load_brief(dir.path()).unwrap();
        assert!(brief.details.timeline.is_empty() && !whole.details.timeline.is_empty());
        let (brief, whole) = (brief.headline_window(), whole.headline_window());
        assert_eq!(brief.window.to_string(), whole.window.to_string());
        assert_eq!(brief.run.summary.per_second, whole.run.summary.per_second);
        assert!(whole.run.summary.per_second.physical_read_requests.is_some());
    }

    #[test]
    fn a_killed_run_is_rebuilt_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), SECONDS);
        let run = load(dir.path()).unwrap();
        let whole = {
            let mut run = fixture::opening();
            fixture::fill(&mut run, fixture::timeline(SECONDS));
            run
        };
        assert_eq!(run.summary.status, Status::Interrupted);
        assert!(run.details.rebuilt);
        assert_eq!(run.details.rebuilt_because, Some(RebuiltBecause::NotWritten));
        let filled = RecordFolder::begun(dir.path().to_owned(), Folder::open(dir.path()).unwrap());
        let because = load(dir.path()).unwrap().details.rebuilt_because;
        assert_eq!(because, Some(RebuiltBecause::StillRunning));
        drop(filled);
        assert_eq!(run.summary.ops, whole.summary.ops);
        assert_eq!(run.summary.per_second, whole.summary.per_second);
        assert_eq!(run.summary.waits, whole.summary.waits);
        assert_eq!(run.summary.sessions_lost.len(), 1);
        assert_eq!(run.details.histograms, whole.details.histograms);
        let (rebuilt, kept) =
            (&run.summary.latency_us["update"], &whole.summary.latency_us["update"]);
        assert_eq!((rebuilt.count, rebuilt.p50, rebuilt.p99), (kept.count, kept.p50, kept.p99));
        assert_eq!(run.summary.steady, None, "warm-up was not over");
    }

    #[test]
    fn a_last_second_without_counters_leaves_those_of_the_seconds_before() {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), SECONDS);
        let path = dir.path().join(seconds::NAME);
        let lines = fixture::lines(&path);
        let parsed = lines.iter().map(|line| serde_json::from_str(line).unwrap());
        let mut lines: Vec<serde_json::Value> = parsed.collect();
        // As a run ends: a stretch of a tenth of a second, and no counters.
        let mut stretch = lines.last().unwrap().clone();
        stretch["second"]["from_s"] = 5.0.into();
        stretch["second"]["length_s"] = 0.1.into();
        stretch["second"]["io"] = serde_json::Value::Null;
        stretch["second"]["device"] = serde_json::Value::Null;
        stretch["os"] = serde_json::Value::Null;
        stretch["counters"]["page_cache_misses"] = 1_u64.into();
        lines.push(stretch);
        let whole = load(dir.path()).unwrap();
        for uncounted in [false, true] {
            lines.last_mut().unwrap()["uncounted"] = uncounted.into();
            let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
            fixture::write_lines(&path, &text);
            let run = load(dir.path()).unwrap();
            let timeline = &run.details.timeline;
            assert_eq!(timeline.len() as u64, SECONDS + 1);
            let sum = |count: fn(&crate::counters::IoCounts) -> Option<u64>| {
                timeline.iter().filter_map(|second| count(second.io.as_ref()?)).sum::<u64>()
            };
            assert_eq!(run.details.io, whole.details.io);
            assert_eq!(
                run.details.io.physical_read_requests,
                Some(sum(|io| io.physical_read_requests))
            );
            assert_eq!(run.details.io.redo_bytes, Some(sum(|io| io.redo_bytes)));
            assert_eq!(run.summary.counters, whole.summary.counters);
            assert_eq!(run.summary.waits, whole.summary.waits);
            assert!(run.summary.ops.total > whole.summary.ops.total);
            let until = run.summary.counted_until.unwrap();
            assert_eq!((until.second, until.db_time_s), (5.0, whole.details.db_time_s));
            assert_eq!(run.counted().summary.ops, whole.summary.ops);
            assert_eq!(run.summary.piops(), whole.summary.piops());
            assert!(run.details.device.is_some(), "from the operating system's own file");
            assert!(run.details.gaps.iter().any(|gap| gap.contains("after second 5")));
        }
    }

    #[test]
    fn without_the_latency_log_means_stay_and_percentiles_are_unknown() {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), SECONDS);
        fs::remove_file(dir.path().join(latency_log::NAME)).unwrap();
        let run = load(dir.path()).unwrap();
        let select = &run.summary.latency_us["select"];
        assert_eq!(select.count, run.summary.ops.select);
        assert!(select.mean.is_some() && select.max.is_some() && select.p99.is_none());
        assert!(run.details.gaps.iter().any(|gap| gap.contains("latency.hlog")));
    }

    #[test]
    fn an_end_that_is_in_no_histogram_is_counted_and_said() {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), SECONDS);
        let whole = load(dir.path()).unwrap();
        let path = dir.path().join(latency_log::NAME);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        // Both kinds of the last second.
        fs::write(&path, lines[..lines.len() - 2].join("\n") + "\n").unwrap();
        let run = load(dir.path()).unwrap();
        for (kind, latency) in &run.summary.latency_us {
            let known = &whole.summary.latency_us[kind];
            assert_eq!(latency.count, known.count, "{kind}");
            assert!(latency.p50.is_some(), "{kind}");
            let is_said =
                |gap: &String| gap.contains(&format!("percentiles of {kind} are those of"));
            assert!(run.details.gaps.iter().any(is_said), "{:?}", run.details.gaps);
        }
        assert!(!whole.details.gaps.iter().any(|gap| gap.contains("in no histogram")));
    }

    #[test]
    fn a_damaged_run_json_falls_back_to_the_seconds() {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), SECONDS);
        fs::write(dir.path().join(NAME), b"{\"format\": \"petal-run/2\", \"sta").unwrap();
        let run = load(dir.path()).unwrap();
        assert_eq!(run.details.rebuilt_because, Some(RebuiltBecause::Damaged));
        assert!(run.details.gaps.iter().any(|gap| gap.contains("run.json cannot be read")));
    }

    #[test]
    fn a_file_that_is_not_a_record_is_reported_clearly() {
        let dir = tempfile::tempdir().unwrap();
        let message = |path: &Path| load(path).unwrap_err().to_string();
        let empty = message(dir.path());
        assert!(empty.contains("neither run.json nor seconds.ndjson.gz"), "{empty}");
        let missing = message(&dir.path().join("nowhere"));
        assert!(missing.contains("nowhere") && missing.contains("No such file"), "{missing}");
        for (text, expected) in [
            (
                "{\"format\": \"petal-run/1\"}",
                "\"petal-run/1\", and this petal reads \"petal-run/2\"",
            ),
            ("{\"results\": []}", "it has no \"format\""),
            ("not json", "cannot be read as the record of a run"),
        ] {
            fs::write(dir.path().join(NAME), text).unwrap();
            let message = message(dir.path());
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn seconds_of_another_format_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let line = "{\"format\": \"petal-seconds/9\"}".to_owned();
        fixture::write_lines(&dir.path().join(seconds::NAME), &[line]);
        let message = load(dir.path()).unwrap_err().to_string();
        assert!(message.contains("petal-seconds/9"), "{message}");
    }

    #[test]
    fn a_whole_record_is_read_back_with_its_seconds_or_says_that_they_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let run = fixture::mixed_run();
        fixture::save(dir.path(), &run);
        let read = load(dir.path()).unwrap();
        assert_eq!(read.details.timeline, run.details.timeline);
        let mut seen = run.details.os.clone().unwrap().seconds;
        seen.iter_mut().for_each(|second| second.interval.cpus.each.clear());
        assert_eq!(read.details.os.unwrap().seconds, seen);
        assert_eq!(read.details.gaps, run.details.gaps);
        fs::remove_file(dir.path().join(seconds::NAME)).unwrap();
        let without = load(dir.path()).unwrap();
        assert_eq!(without.summary, run.summary);
        assert!(without.details.gaps.last().unwrap().contains("no seconds"));
    }

    /// Records of the past, kept for ever: each later petal reads the records of every earlier one.
    #[test]
    fn old_records_stay_readable() {
        let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/records");
        let whole = load(&records.join("petal-run-2")).unwrap();
        assert_eq!((whole.summary.status, whole.summary.ops.total), (Status::Complete, 5535));
        assert_eq!(whole.details.timeline.len(), 6);
        assert!(!whole.details.rebuilt);
        let killed = load(&records.join("petal-seconds-1")).unwrap();
        assert_eq!((killed.summary.status, killed.summary.ops.total), (Status::Interrupted, 2740));
        assert_eq!(killed.summary.latency_us["update"].count, killed.summary.ops.update);
        assert_eq!(killed.details.timeline.len(), 3);
        let cut = |gap: &String| gap.contains("line 5 of the seconds is cut off");
        assert!(killed.details.gaps.iter().any(cut), "{:?}", killed.details.gaps);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn seconds_cut_at_any_byte_load_or_say_why(at in 0.0f64..1.0, hlog_at in 0.0f64..1.0) {
            let dir = tempfile::tempdir().unwrap();
            fixture::killed_run(dir.path(), 3);
            let cut = |name: &str, at: f64| {
                let text = fs::read(dir.path().join(name)).unwrap();
                fs::write(dir.path().join(name), &text[..(text.len() as f64 * at) as usize]).unwrap();
            };
            let path = dir.path().join(seconds::NAME);
            let lines = fixture::lines(&path);
            cut(seconds::NAME, at);
            cut(latency_log::NAME, hlog_at);
            let kept = fixture::lines(&path);
            let whole = kept.iter().zip(&lines).filter(|(kept, whole)| kept == whole).count();
            match load(dir.path()) {
                Ok(run) => {
                    prop_assert_eq!(run.details.timeline.len() + 1, whole);
                    let is_said = run.details.gaps.iter().any(|gap| gap.contains("is cut off"));
                    prop_assert!(kept.len() == whole || is_said);
                    prop_assert!(run.details.rebuilt);
                    let sum: u64 = run.details.timeline.iter().map(|s| s.ops.total).sum();
                    prop_assert_eq!(run.summary.ops.total, sum);
                }
                Err(error) => {
                    prop_assert!(whole == 0, "{} with {} lines", error, whole);
                    prop_assert!(error.to_string().contains(seconds::NAME));
                }
            }
        }
    }
}
