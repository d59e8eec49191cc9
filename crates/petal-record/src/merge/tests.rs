//! Shares made from one known whole: the merge must give that whole again.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::super::driver_hosts::HostShare;
use super::super::latency_log::LatencyLog;
use super::super::seconds::{Opening, SecondsFile, SecondsLine};
use super::super::{IntervalTotals, Ops, RecordFolder, Rows, Run, Second, fixture, load, save};
use super::*;
use crate::counters::{IoCounts, Wait, WaitClass};
use petal_host::histogram::Latencies;
use petal_host::os::DeviceCounts;

const SESSIONS: u32 = 2;

/// Latencies of SELECTs in nanoseconds, by second.
type Seconds = Vec<Vec<u64>>;

fn filled(values: &[u64]) -> Latencies {
    let mut latencies = Latencies::new();
    values.iter().for_each(|&ns| latencies.record(ns));
    latencies
}

fn row(at: usize, values: &[u64], reads: u64) -> Second {
    let ops = Ops { select: values.len() as u64, total: values.len() as u64, ..Ops::default() };
    let io = IoCounts { physical_read_requests: Some(reads), ..IoCounts::default() };
    let latencies = filled(values);
    let reported = (latencies.count() > 0).then(|| ("select".to_owned(), latencies.summary()));
    Second {
        from_s: at as f64,
        length_s: 1.0,
        ops,
        rows: Rows { select: ops.total * 64, ..Rows::default() },
        rows_asked: Some(Rows { select: ops.total * 64, ..Rows::default() }),
        sessions: SESSIONS,
        latency_us: reported.into_iter().collect(),
        io: Some(io),
        device: Some(DeviceCounts { read_requests: reads, ..DeviceCounts::default() }),
        ..Second::default()
    }
}

/// The record of one share, with `reads` physical reads each second if it counts the database's.
struct SharedList {
    number: u32,
    of: u32,
    reads: u64,
    counts_database: bool,
}

impl SharedList {
    fn opening(&self) -> Run {
        let mut run = fixture::opening();
        run.summary.sessions = SESSIONS;
        run.summary.started_at = "2026-11-20T14:05:00.002Z".into();
        run.summary.share = Some(HostShare {
            share: Share { number: self.number, of: self.of },
            plan_sessions: SESSIONS * self.of,
            host: format!("node{}", self.number),
            counts_database: self.counts_database,
            ..HostShare::default()
        });
        run
    }

    fn line(&self, row: &Second, so_far: u64) -> SecondsLine {
        let waits = so_far * self.reads;
        let wait = Wait::counted("main read", WaitClass::UserIo, Some(waits), waits * 1000);
        let waits = if self.counts_database { vec![wait] } else { Vec::new() };
        let mut second = row.clone();
        second.io = second.io.filter(|_| self.counts_database);
        second.device = second.device.filter(|_| self.counts_database);
        SecondsLine {
            second: Some(second),
            waits,
            db_time_s: so_far as f64,
            petal_cpu_s: Some(so_far as f64 / 10.0),
            ..SecondsLine::default()
        }
    }

    /// Writes petal's files of the share; `killed`: no run.json.
    fn written(&self, below: &Path, seconds: &Seconds, killed: bool) -> PathBuf {
        let path = below.join(format!("share{}", self.number));
        std::fs::create_dir(&path).unwrap();
        let folder = RecordFolder::open(&path);
        let mut file = SecondsFile::begin(&folder, &Opening::new(self.opening())).unwrap();
        let trigger = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_183_500);
        let mut log = LatencyLog::begin(&folder, trigger).unwrap();
        for (at, values) in seconds.iter().enumerate() {
            let row = row(at, values, self.reads);
            log.second(row.from_s, 1.0, [("select", &filled(values))]).unwrap();
            file.second(self.line(&row, at as u64 + 1)).unwrap();
        }
        if !killed {
            let mut run = load(&path).unwrap();
            run.summary.status = Status::Complete;
            run.details.rebuilt = false;
            run.details.rebuilt_because = None;
            run.details.gaps.clear();
            // From histograms and not from a log, as in the runner.
            let all = filled(&seconds.concat());
            if all.count() > 0 {
                run.summary.latency_us.insert("select".into(), all.summary());
            }
            save(&folder, &run).unwrap();
        }
        path
    }
}

fn share(number: u32, of: u32) -> SharedList {
    SharedList { number, of, reads: 700, counts_database: number == 1 }
}

/// Merges shares of these seconds; the last one was killed if `kill_last`.
fn merged_of(shares: &[Seconds], kill_last: bool) -> (Run, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let of = shares.len() as u32;
    let folders: Vec<PathBuf> = shares
        .iter()
        .zip(1..)
        .map(|(seconds, number)| {
            share(number, of).written(dir.path(), seconds, kill_last && number == of)
        })
        .collect();
    let into = dir.path().join("merged");
    std::fs::create_dir(&into).unwrap();
    let run = merge(&folders, &RecordFolder::open(&into)).unwrap();
    (run, dir)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn merged_shares_are_the_whole(
        shares in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(1u64..10_000_000_000, 0..30), 4..=4), 1..5),
    ) {
        let (run, dir) = merged_of(&shares, false);
        let all: Vec<u64> = shares.iter().flatten().flatten().copied().collect();
        let whole = filled(&all).summary();
        prop_assert_eq!(run.summary.ops.total, all.len() as u64);
        let close = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() <= b * 1e-9,
            (a, b) => a == b,
        };
        if whole.count > 0 {
            let merged = &run.summary.latency_us["select"];
            prop_assert_eq!(merged.count, whole.count);
            let percentiles = |s: &petal_host::histogram::LatencySummary| {
                [s.p50, s.p90, s.p95, s.p99, s.p99_9, s.max]
            };
            prop_assert_eq!(percentiles(merged), percentiles(&whole));
            prop_assert!(close(merged.mean, whole.mean));
            prop_assert_eq!(&run.details.histograms["select"], &filled(&all).bars());
        }
        for (at, row) in run.details.timeline.iter().enumerate() {
            let values: Vec<u64> = shares.iter().flat_map(|share| share[at].clone()).collect();
            let second = filled(&values).summary();
            let merged = row.latency_us.get("select").cloned().unwrap_or_default();
            prop_assert_eq!((merged.count, merged.p50, merged.p99), (second.count, second.p50, second.p99));
            prop_assert_eq!(row.io.unwrap().physical_read_requests, Some(700), "of the first alone");
            prop_assert_eq!(row.sessions, SESSIONS * shares.len() as u32);
        }
        // The log that it wrote holds the same latencies.
        let log = dir.path().join("merged/latency.hlog");
        let (logged, _) = super::super::latency_log::merged(&log, (0.0, 4.0)).unwrap();
        let logged = logged.get("select").map_or(0, Latencies::count);
        prop_assert_eq!(logged, whole.count);
    }
}

fn steady_load(hosts: usize, seconds: usize) -> Vec<Seconds> {
    vec![vec![vec![1_000_000; 10]; seconds]; hosts]
}

#[test]
fn the_database_is_counted_once_and_petals_counts_are_added_up() {
    let (run, _dir) = merged_of(&steady_load(4, 10), false);
    assert_eq!(run.summary.status, Status::Complete);
    assert_eq!((run.summary.ops.total, run.summary.sessions), (400, 8));
    assert_eq!(run.details.io.physical_read_requests, Some(7000));
    assert_eq!(run.summary.per_second.physical_read_requests, Some(700.0));
    assert_eq!(run.summary.per_second.ops, Some(40.0));
    assert_eq!(run.details.db_time_s, 40.0);
    assert!((run.summary.petal_cpu_s.unwrap() - 4.0).abs() < 1e-9);
    let steady = run.summary.steady.as_ref().unwrap();
    assert_eq!((steady.from_s, steady.to_s), (5.0, 10.0), "after the warm-up");
    assert_eq!(steady.latency_us["select"].count, 200);
    let totals: &IntervalTotals = run.details.steady.as_ref().unwrap();
    assert_eq!(totals.io.physical_read_requests, Some(3500));
    assert_eq!((totals.ops.total, totals.db_time_s), (200, 20.0));
    assert_eq!(run.headline_window().window.to_string(), "counted window 5.0-10.0 s");
    let hosts: Vec<String> = run.summary.hosts.iter().map(HostRun::name).collect();
    assert_eq!(hosts[3], "share 4 (node4)");
    assert!(run.summary.share.is_none());
}

#[test]
fn a_killed_and_a_missing_share_leave_an_incomplete_record() {
    let mut shares = steady_load(3, 10);
    shares[2].truncate(6);
    let (run, dir) = merged_of(&shares, true);
    assert_eq!(run.summary.status, Status::Incomplete);
    assert_eq!(run.summary.ops.total, 260);
    assert!(run.summary.hosts[2].rebuilt && run.summary.hosts[2].elapsed_s == 6.0);
    assert_eq!(run.details.timeline[7].ops.total, 20);
    // The second share is lost with its machine.
    let folders = [dir.path().join("share1"), dir.path().join("share3")];
    let again = dir.path().join("again");
    std::fs::create_dir(&again).unwrap();
    let run = merge(&folders, &RecordFolder::open(&again)).unwrap();
    assert_eq!(run.summary.status, Status::Incomplete);
    assert_eq!((run.summary.hosts[1].status, run.summary.hosts.len()), (None, 3));
}

#[test]
fn limits_that_changed_on_any_host_are_in_the_record_with_its_name() {
    use crate::facts::FactsProof;
    use petal_host::facts::{FactChange, FactKind};
    let (_, dir) = merged_of(&steady_load(2, 4), false);
    let shares = ["share1", "share2"].map(|name| dir.path().join(name));
    let mut run = load(&shares[1]).unwrap();
    let change = FactChange {
        kind: FactKind::Limit,
        name: "cpu.max".to_owned(),
        before: Some("max".to_owned()),
        after: Some("15000".to_owned()),
        between_s: (1.0, 2.0),
    };
    let limits = [("cpu.max".to_owned(), "max".to_owned())].into();
    run.details.facts =
        Some(FactsProof { count: 1, changes: vec![change], limits, ..FactsProof::default() });
    save(&RecordFolder::open(&shares[1]), &run).unwrap();
    let into = dir.path().join("again");
    std::fs::create_dir(&into).unwrap();
    let merged = merge(&shares, &RecordFolder::open(&into)).unwrap();
    let facts = merged.details.facts.unwrap();
    let named = "share 2 (node2): cpu.max";
    assert_eq!(facts.changes[0].words(), format!("{named}: max -> 15000 in second 1"));
    assert!(facts.count == 1 && facts.limits.contains_key(named), "{facts:?}");
}

#[test]
fn the_databases_figures_end_with_the_share_that_takes_them() {
    let mut shares = steady_load(2, 10);
    shares[0].truncate(4);
    let (run, dir) = merged_of(&shares, false);
    let until = run.summary.counted_until.unwrap();
    assert_eq!((until.second, until.of_s, until.db_time_s), (4.0, 10.0, 8.0));
    assert_eq!(run.details.io.physical_read_requests, Some(2800));
    assert_eq!(run.summary.per_second.physical_read_requests, Some(700.0));
    assert_eq!(run.details.device.unwrap().read_requests, 2800);
    assert_eq!(run.summary.per_second.device_read_requests, Some(700.0), "over its 4 s");
    assert_eq!(run.counted().summary.ops.total, 80);
    // Without that share the database's counters are unknown.
    let alone = dir.path().join("alone");
    std::fs::create_dir(&alone).unwrap();
    let run = merge(&[dir.path().join("share2")], &RecordFolder::open(&alone)).unwrap();
    assert_eq!(run.details.io, IoCounts::default());
    assert!(run.summary.waits.is_empty() && run.summary.per_second.physical_read_bytes.is_none());
    assert_eq!(run.summary.ops.total, 100);
}

#[test]
fn a_second_that_the_counting_share_did_not_see_whole_has_no_counts() {
    let seconds = |last_s: f64| {
        let mut seconds = vec![row(0, &[1000; 4], 700), row(1, &[1000; 4], 500)];
        seconds[1].length_s = last_s;
        seconds
    };
    let host = |counts_database, host: &str| HostShare {
        counts_database,
        host: host.into(),
        ..HostShare::default()
    };
    let (counting, other) = (host(true, "a"), host(false, "b"));
    let added = |shares: [(&HostShare, f64); 2]| {
        let mut rows = MergedSeconds::default();
        shares.iter().for_each(|(share, last_s)| rows.add(&seconds(*last_s), share));
        rows.into_timeline()
    };
    for shares in [[(&counting, 0.74), (&other, 1.0)], [(&other, 1.0), (&counting, 0.74)]] {
        let rows = added(shares);
        assert_eq!(rows[0].io.unwrap().physical_read_requests, Some(700));
        assert_eq!((rows[1].length_s, rows[1].ops.total), (1.0, 8));
        assert_eq!((rows[1].io, rows[1].device), (None, None));
    }
    assert!(added([(&counting, 1.0), (&other, 0.5)])[1].io.is_some(), "its own second is whole");
    // If each counts for itself, an engine that has ended did nothing in the rest.
    let rows = added([(&counting, 0.74), (&host(true, "b"), 1.0)]);
    assert_eq!(rows[1].io.unwrap().physical_read_requests, Some(1000));
}

#[test]
fn an_engine_in_petals_process_is_counted_by_every_share() {
    let dir = tempfile::tempdir().unwrap();
    let folders: Vec<PathBuf> = steady_load(2, 10)
        .iter()
        .zip(1..)
        .map(|(seconds, number)| {
            let share = SharedList { counts_database: true, ..share(number, 2) };
            share.written(dir.path(), seconds, false)
        })
        .collect();
    let into = dir.path().join("merged");
    std::fs::create_dir(&into).unwrap();
    let run = merge(&folders, &RecordFolder::open(&into)).unwrap();
    assert_eq!(run.details.io.physical_read_requests, Some(14_000));
    assert_eq!(run.summary.wait("main read").unwrap().waits, Some(14_000));
    assert_eq!(run.summary.io_latency_us["read"].mean, Some(1.0));
    assert_eq!(run.details.steady.unwrap().io.physical_read_requests, Some(7000));
}

/// A change that makes a share belong to another run.
type Change = fn(&mut Run);

#[test]
fn shares_of_different_runs_are_refused_in_words() {
    let refused = |change: Change| {
        let dir = tempfile::tempdir().unwrap();
        let load_of = &steady_load(1, 2)[0];
        let folders: Vec<PathBuf> =
            (1..=2).map(|n| share(n, 2).written(dir.path(), load_of, false)).collect();
        let mut run = load(&folders[1]).unwrap();
        change(&mut run);
        save(&RecordFolder::open(&folders[1]), &run).unwrap();
        let into = dir.path().join("merged");
        std::fs::create_dir(&into).unwrap();
        merge(&folders, &RecordFolder::open(&into)).unwrap_err().to_string()
    };
    let cases: [(Change, &str); 7] = [
        (|run| run.details.petal_version = "9.9.9".into(), "petal is \"9.9.9\""),
        (|run| run.summary.target.url = "sqlite:other".into(), "the URL is \"sqlite:other\""),
        (|run| run.details.loaded[0].rows += 1, "the data is"),
        (|run| run.summary.seed += 1, "the seed is"),
        (
            |run| drop(run.summary.settings.insert("update_pct".into(), 90.into())),
            "UPDATE_PCT is \"90\"",
        ),
        (|run| run.summary.share = None, "it is no share of a run"),
        (|run| run.summary.share.as_mut().unwrap().share.number = 1, "name each share once"),
    ];
    for (change, words) in cases {
        let message = refused(change);
        assert!(message.contains(words) && message.contains("share2"), "{message}");
    }
}
