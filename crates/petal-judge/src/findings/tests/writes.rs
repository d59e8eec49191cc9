//! Durability, checkpoints, the log, rows that moved.

use super::super::{judge, not_judged};
use super::{gains, ids, message};
use petal_record::counters::{IoCounts, Wait, WaitClass, WaitSource};
use petal_record::target::Durability;
use petal_record::{Run, Severity, WaitRow, fixture};
use serde_json::json;

#[test]
fn data_that_went_in_the_run_have_not_moved() {
    gains(&["data-vanished"], |run| {
        run.details.data_vanished = Some("petal1.db: No such file or directory".into());
        run.details.data_bytes_after = Some(0);
    });
}

#[test]
fn unreported_waits_are_unknown_not_zero() {
    let mut run = fixture::mixed_run();
    run.summary.waits.clear();
    run.details.io = IoCounts::default();
    let unknown: Vec<_> = not_judged(&run).into_iter().filter(|n| n.id == "small-log").collect();
    assert!(unknown.iter().any(|n| n.reason.contains("waits of the sessions")), "{unknown:?}");
}

#[test]
fn durability() {
    gains(&["not-durable"], |run| {
        let setting = "synchronous=OFF".to_owned();
        run.details.target.durability = Some(Durability { durable: false, setting });
    });
    let syncs = |run: &mut Run, syncs: u64| run.details.io.log_syncs = Some(syncs);
    // 8 sessions: one sync covers at most 8 commits.
    let run = gains(&["not-durable"], |run| syncs(run, run.summary.ops.update / 16 - 1));
    assert!(message(&run, "not-durable").contains("at least 50."));
    gains(&["not-durable"], |run| syncs(run, run.summary.ops.update / 8 - 2));
    let run = gains(&["group-commit"], |run| syncs(run, run.summary.ops.update / 8));
    assert!(message(&run, "group-commit").starts_with("8.0 commits per log sync"));
    gains(&["not-durable"], |run| {
        run.summary.settings.insert("writers".into(), json!(2));
        syncs(run, run.summary.ops.update / 8);
    });
}

#[test]
fn commits_without_a_wait_are_counted_if_each_wait_is() {
    let syncs = |run: &mut Run, syncs: u64| {
        run.details.target.sync_per_commit = true;
        run.details.io.log_syncs = Some(syncs);
    };
    // Enough for group commit anywhere else.
    let run = gains(&["not-durable"], |run| syncs(run, run.summary.ops.update / 8));
    assert!(message(&run, "not-durable").contains("87.5 % of"));
    gains(&[], |run| syncs(run, run.summary.ops.update));
}

#[test]
fn writes_that_were_not_paid_for() {
    let checkpoints = |run: &mut Run, count: u64| {
        run.summary.counters.insert("checkpoints".into(), count);
    };
    gains(&["deferred-writes"], |run| checkpoints(run, 0));
    // A run without updates leaves no writes for later.
    gains(&[], |run| {
        checkpoints(run, 0);
        run.summary.ops.update = 0;
    });
    gains(&["moved-rows"], |run| {
        run.details.data_bytes_after = run.details.data_bytes_before.map(|bytes| bytes + 8192);
    });
    // Rows may move into blocks that are there, which no size shows.
    for (share, severity) in [(0.0004, Severity::Info), (0.02, Severity::Warning)] {
        let run = gains(&["moved-rows"], |run| {
            let rows = (run.summary.rows.update as f64 * share).ceil() as u64;
            run.summary.counters.insert("rows_moved".into(), rows);
        });
        let found = judge(&run).into_iter().find(|found| found.id == "moved-rows").unwrap();
        assert_eq!(found.severity, severity, "{}", found.message);
    }
    gains(&[], |run| {
        run.summary.counters.insert("rows_moved".into(), 0);
    });
    // A run of SELECTs that notes commits in the blocks that it reads.
    let reads = fixture::mixed_run().summary.rows.total();
    let cleaned = |run: &mut Run, blocks: u64| {
        (run.summary.ops.update, run.summary.rows.update) = (0, 0);
        run.summary.counters.insert("blocks_cleaned_by_reads".into(), blocks);
    };
    let has_finding = |blocks| {
        let mut run = fixture::mixed_run();
        cleaned(&mut run, blocks);
        ids(&run).iter().any(|id| id == "reads-wrote")
    };
    assert_eq!([0, reads / 50].map(has_finding), [false, true]);
    gains(&[], |run| {
        run.summary.counters.insert("blocks_cleaned_by_reads".into(), reads);
    });
    let followed = |run: &mut Run, fetches: u64| {
        (run.details.data_bytes_before, run.details.data_bytes_after) = (None, None);
        run.summary.counters.insert("rows_followed".into(), fetches);
    };
    let one_in_a_hundred = fixture::mixed_run().summary.rows.total() / 100;
    gains(&[], |run| followed(run, one_in_a_hundred));
    let run = gains(&["moved-rows"], |run| followed(run, one_in_a_hundred + 1));
    assert!(message(&run, "moved-rows").contains("into a second block"));
    let run = gains(&["wal-not-reset"], |run| {
        run.summary.counters.insert("wal_reset_failures".into(), 3);
        run.summary.counters.insert("wal_bytes_max".into(), 1 << 30);
    });
    assert!(message(&run, "wal-not-reset").contains("1.00 GiB"));
}

#[test]
fn log_waits() {
    let mut run = fixture::mixed_run();
    let time_ns = (run.details.db_time_s * 0.02 * 1e9) as u64;
    let wait = Wait::counted("log file switch", WaitClass::Configuration, Some(4), time_ns);
    run.summary.waits.push(WaitRow::from(&wait));
    let found = judge(&run).into_iter().find(|f| f.severity == Severity::Warning).unwrap();
    assert_eq!(found.id, "small-log");
    assert!(found.message.starts_with("2.0 % of DB time"), "{}", found.message);
    // A server that counts the checkpoints that its log's size forced.
    let by_size = |checkpoints: u64| {
        let mut run = fixture::mixed_run();
        run.details.target.in_process = false;
        let every_s = 29.0;
        run.summary.elapsed_s = every_s * checkpoints as f64;
        run.summary.counters.insert("checkpoints_by_log_size".into(), checkpoints);
        judge(&run).into_iter().find(|found| found.id == "small-log")
    };
    let found = by_size(2).unwrap();
    assert_eq!(found.severity, Severity::Warning);
    assert_eq!(found.message, "the log filled and forced a checkpoint every 29.0 s");
    assert!(by_size(1).is_none(), "one alone has no distance");
}

#[test]
fn a_finding_advises_in_the_terms_of_the_runs_own_engine() {
    let advice_of = |run: &Run| {
        let found = judge(run).into_iter().find(|finding| finding.id == "small-log");
        found.unwrap().advice
    };
    let mut run = fixture::mixed_run();
    assert_eq!(
        advice_of(&run),
        "A larger log would write blocks that are changed twice only once."
    );
    run.details.target.advice.checkpoints_by_log_size = Some("Set log_size.".into());
    assert_eq!(advice_of(&run), "Set log_size.");
    run.summary.counters.insert("checkpoints_by_log_size".into(), 6);
    assert_eq!(advice_of(&run), "Make the log larger, so that time and not size decides.");
    run.details.target.advice.enlarge_log = Some("Set log_size to more.".into());
    assert_eq!(advice_of(&run), "Set log_size to more.");
}

/// The log of a run that began with a checkpoint holds whole blocks first, and fewer later.
#[test]
fn whole_blocks_in_the_log_of_a_run_within_one_checkpoint_cycle_are_named_with_their_fall() {
    let run = |checkpoints: u64| {
        let mut run = fixture::mixed_run();
        run.summary.counters.insert("checkpoints".into(), checkpoints);
        run.summary.counters.insert("block_images_logged".into(), 500);
        let seconds = run.details.timeline.len() as u64;
        for (at, second) in run.details.timeline.iter_mut().enumerate() {
            second.rows.update = 100;
            second.block_images = Some(seconds - at as u64);
        }
        run
    };
    let found = message(&run(0), "block-images");
    assert!(found.contains("500 images of whole blocks"), "{found}");
    let figure = |after: &str| -> f64 {
        let text = found
            .split_once(after)
            .unwrap()
            .0
            .rsplit([' ', ':'])
            .find(|word| word.parse::<f64>().is_ok());
        text.unwrap().parse().unwrap()
    };
    assert!(figure(" in the first") > figure(" in the last"), "{found}");
    // A run with whole cycles has their mean, which is not the begin of a cycle.
    assert!(!ids(&run(2)).iter().any(|id| id == "block-images"));
}

#[test]
fn a_database_that_does_not_time_its_log_waits_is_named() {
    let log = fixture::mixed_run().details.target.io_events.log;
    let timed = fixture::mixed_run().summary.wait(&log).expect("the fixture times its log").clone();
    let is_named = |syncs: u64, sampled: Option<WaitRow>| {
        let mut run = fixture::mixed_run();
        run.summary.waits.retain(|wait| wait.name != log);
        run.summary.waits.extend(sampled);
        run.details.io.log_syncs = Some(syncs);
        ids(&run).iter().any(|id| id == "untimed-log")
    };
    // A database that synced nothing waited for nothing.
    assert_eq!([100, 0].map(|syncs| is_named(syncs, None)), [true, false]);
    // Sessions may be asked if they wait for the log.
    let source = WaitSource::Sampled;
    let sampled = WaitRow { name: "commit".to_owned(), source, waits: None, ..timed };
    assert!(!is_named(100, Some(sampled)));
}
