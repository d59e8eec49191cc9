use super::*;
use crate::profile::parts::profile;
use petal_awr::samples::{folder, log_line, sample};
use petal_awr::{read, source};
use petal_record::profile::Profile;

fn of_sample(name: &str) -> Profile {
    profile(vec![part(&sample(name))]).unwrap()
}

#[test]
fn rates_are_the_reports_own_figures() {
    let made = of_sample("awr_19c.html");
    let report = sample("awr_19c.html");
    let interval = &made.intervals[0];
    let printed = |name: &str| columns::value(&report, name).unwrap();
    assert_eq!(interval.rate(WorkCount::RedoBytes), Some(printed("redo_bytes_per_s")));
    assert_eq!(interval.rate(WorkCount::BlockWrites), Some(printed("physical_write_blocks_per_s")));
    let waits = printed("read_waits");
    let single = interval.rate(WorkCount::SingleBlockReads).unwrap();
    assert!((single - waits / interval.length_s).abs() < 1e-6, "{single} of {waits} waits");
    let several = interval.rate(WorkCount::MultiBlockReadBlocks).unwrap();
    let blocks = printed("physical_read_blocks_per_s");
    assert!((several - (blocks - single).max(0.0)).abs() < 1e-6, "{several} of {blocks}");
    assert_eq!(interval.latency(WorkTime::SingleBlockRead), Some(printed("read_us")));
    assert_eq!(interval.begin, begin_iso(&report).map(|time| time.shown()));
    for figure in interval.per_second.keys() {
        assert!(made.inputs[0].sources.contains_key(&figure.name()), "{figure:?} has no source");
    }
}

/// Samples of the project, and real reports if they are present.
#[test]
fn every_report_gives_a_profile_or_says_what_it_lacks() {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/awr");
    let schema = include_str!("../../../../../docs/petal-profile.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let mut given = 0;
    for folder in [Some(own), folder()].into_iter().flatten() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_report = path.extension().is_some_and(|end| end == "txt" || end == "html");
            if !is_report {
                continue;
            }
            for report in read(&path).reports {
                let report = report.unwrap();
                let part = part(&report);
                for figure in WorkCount::ALL {
                    let name = figure.name();
                    let is_known = part.input.sources.contains_key(&name);
                    let is_gap = part.input.gaps.contains_key(&name);
                    assert!(is_known || is_gap, "{}: nothing is said of {name}", report.file);
                }
                match profile(vec![part]) {
                    Ok(made) => {
                        given += 1;
                        let text = made.text(&path).unwrap();
                        let back: Profile = serde_json::from_slice(&text).unwrap();
                        assert_eq!(back, made, "{}", report.file);
                        let value = serde_json::to_value(&made).unwrap();
                        let faults: Vec<_> =
                            schema.iter_errors(&value).map(|e| e.to_string()).collect();
                        assert!(faults.is_empty(), "{}: {faults:?}", report.file);
                    }
                    Err(why) => {
                        let why = why.to_string();
                        assert!(why.contains(&report.file), "{why}");
                        log_line(&format!("no profile: {why}"));
                    }
                }
            }
        }
    }
    assert!(given >= 10, "{given}");
}

#[test]
fn a_restart_a_lost_time_and_a_clock_set_back_are_reported() {
    let mut report = sample("awr_19c.html");
    let note = |report: &Report| part(report).input.notes.join("; ");
    assert!(!note(&report).contains("clock"), "{}", note(&report));
    let end = report.header.end_time.clone();
    report.header.end_time = report.header.begin_time.clone();
    assert!(note(&report).contains("its clock moved 0.0: the clock was set"), "{}", note(&report));
    report.header.end_time = end;
    report.spans_restart = true;
    assert!(part(&report).intervals.is_empty() && note(&report).contains("restarted"));
    report.spans_restart = false;
    report.header.elapsed_min = None;
    assert!(part(&report).intervals.is_empty());
    let why = profile(vec![part(&report)]).unwrap_err().to_string();
    assert!(why.contains("awr_19c.html") && why.contains("no elapsed time"), "{why}");
}

#[test]
fn a_report_cut_short_gives_what_it_has_and_says_that_it_is_cut() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/awr/awr_11204.txt");
    let whole = source::read(std::path::Path::new(path)).unwrap();
    let at = whole.text.find("Top 10 Foreground").or_else(|| whole.text.find("Instance Activity"));
    let cut = source::Source { text: whole.text[..at.unwrap()].to_owned(), ..Default::default() };
    let mut report = petal_awr::parse("cut.txt", cut).unwrap();
    report.spans_restart = false;
    let made = profile(vec![part(&report)]).unwrap();
    assert!(made.inputs[0].notes.iter().any(|note| note.contains("its end was not found")));
    assert!(made.intervals[0].rate(WorkCount::RedoBytes).is_some());
    assert!(made.intervals[0].rate(WorkCount::SingleBlockReads).is_none());
    let reported = made.gaps.iter().find(|gap| gap.starts_with("single-block reads are not known"));
    assert!(reported.is_some(), "{:?}", made.gaps);
}

#[test]
fn reports_of_other_databases_are_not_mixed() {
    let mut other = sample("awr_11204.txt");
    other.spans_restart = false;
    let why = profile(vec![part(&sample("awr_19c.html")), part(&other)]);
    assert!(why.unwrap_err().to_string().contains("several databases"));
}

/// Tests names of single-block reads that begin alike, where a text report cuts them.
#[test]
fn an_event_whose_name_was_cut_counts_once() {
    let text = include_str!("../../../../../tests/data/awr/awr_12c.txt");
    let cut = text.replace("db file sequential read   ", "cell single block physical");
    assert_ne!(cut, text);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exadata.txt");
    std::fs::write(&path, cut).unwrap();
    let reads = |report: &Report| part(report).intervals[0].rate(WorkCount::SingleBlockReads);
    let exadata = read(&path).reports.remove(0).unwrap();
    assert!(reads(&exadata).is_some());
    assert_eq!(reads(&exadata), reads(&sample("awr_12c.txt")));
}
