//! Tests of the layers that served the reads, and of the intended reads.

use super::super::{judge, not_judged};
use super::{gains, ids, message, seen};
use petal_host::os::DeviceCounts;
use petal_record::target::{DirectIo, PlanCheck};
use petal_record::{CountedUntil, IntervalTotals, Run, fixture};
use serde_json::json;

#[test]
fn reads_from_the_page_cache_are_reported() {
    let buffered = |run: &mut Run, percent: u64| {
        run.details.target.direct_io = Some(DirectIo { asked: false, used: false, reason: None });
        let read_bytes = run.details.io.physical_read_bytes.unwrap() / 100 * percent;
        seen(run).whole.sum.counts.petal_read_bytes = Some(read_bytes);
        run.details.device = run.details.device.map(|d| DeviceCounts { read_bytes, ..d });
    };
    let run = gains(&["cached-by-os"], |run| buffered(run, 10));
    let message = message(&run, "cached-by-os");
    assert!(message.starts_with("90 % of the bytes") && message.contains("page cache"));
    // Within the tolerance it is silent.
    gains(&[], |run| buffered(run, 91));
    gains(&["device-unseen"], |run| {
        let read_bytes = run.details.io.physical_read_bytes.unwrap() / 4;
        run.details.device = run.details.device.map(|d| DeviceCounts { read_bytes, ..d });
    });
}

#[test]
fn a_foreign_reader_does_not_turn_the_page_cache_into_the_device() {
    let run = gains(&["cached-by-os", "other-load"], |run| {
        run.details.target.direct_io = Some(DirectIo { asked: false, used: false, reason: None });
        seen(run).whole.sum.counts.petal_read_bytes = Some(4096);
    });
    assert_eq!(crate::headline(&run).served_by.words, "page cache 100 %, device 0 %");
}

#[test]
fn reads_that_were_not_timed_are_said_with_the_engines_hint() {
    let run = gains(&["untimed-io"], |run| {
        run.details.target.io_untimed = Some("grant it".into());
    });
    let finding = judge(&run).into_iter().find(|finding| finding.id == "untimed-io");
    assert_eq!(finding.unwrap().advice, "grant it");
    gains(&[], |run| {
        run.details.target.io_untimed = Some("grant it".into());
        run.details.io.physical_read_blocks = None;
    });
}

#[test]
fn log_reads_through_the_page_cache_are_no_fault_of_direct_runs() {
    gains(&[], |run| {
        // The WAL served as much as the main file, and no device saw it.
        let io = &mut run.details.io;
        io.physical_read_bytes = io.physical_read_bytes.map(|bytes| bytes * 2);
    });
}

#[test]
fn a_journal_that_mixes_data_and_log_proves_no_cache() {
    let mut run = fixture::mixed_run();
    run.details.rebuilt = true;
    run.details.files.clear();
    run.details.io.physical_read_bytes = run.details.io.physical_read_bytes.map(|b| b * 2);
    assert!(!ids(&run).iter().any(|id| id == "cached-by-os" || id == "device-unseen"));
    assert!(not_judged(&run).iter().any(|judged| judged.id == "cached-by-os"));
}

#[test]
fn caches_that_hold_the_data_are_reported() {
    gains(&["cached-by-storage"], |run| {
        run.summary.settings.insert("storage_cache".into(), json!(1_u64 << 40));
    });
    let run = gains(&["cache-misses", "cached-by-database"], |run| {
        run.summary.target.cache_bytes = Some(run.summary.active_bytes);
    });
    assert!(message(&run, "cached-by-database").contains("logical reads"));
    let run = gains(&["cache-misses", "cached-by-database"], |run| {
        run.summary.target.cache_bytes = Some(run.summary.active_bytes);
        let second = run.summary.endpoints[0].clone();
        run.summary.endpoints.push(second);
    });
    let reported = message(&run, "cached-by-database");
    assert!(reported.contains("the first endpoint's cache"), "{reported}");
    gains(&["cached-by-database"], |run| {
        run.summary.target.cache_bytes = Some(run.summary.active_bytes);
        let io = &mut run.details.io;
        io.logical_reads = io.physical_read_blocks.map(|blocks| blocks * 1001);
    });
}

#[test]
fn a_mostly_cached_run_is_known_by_its_reads_per_row() {
    let reads_each = |run: &mut Run, each: f64| {
        let rows = run.summary.rows.total() as f64;
        run.details.io.physical_read_blocks = Some((rows * each) as u64);
        run.details.io.log_read_blocks = None;
    };
    let run = gains(&["cached-by-database"], |run| reads_each(run, 0.068));
    assert!(message(&run, "cached-by-database").starts_with("0.068 block reads for each row"));
    assert!(crate::headline(&run).served_by.words.starts_with("database cache 93 % of the rows"));
    gains(&["cached-by-database"], |run| reads_each(run, 0.8));
    gains(&[], |run| reads_each(run, 0.95));
}

#[test]
fn misses_of_the_warm_up_are_no_cache_misses() {
    let cached = |in_window: u64| {
        let mut run = fixture::windowed_run();
        run.summary.target.cache_bytes = Some(run.summary.active_bytes);
        let window = &mut run.details.steady.as_mut().unwrap().io;
        window.logical_reads = Some(1_000_000);
        window.physical_read_blocks = Some(in_window);
        run
    };
    assert!(!ids(&cached(1)).iter().any(|id| id == "cache-misses"));
    assert!(message(&cached(2_000), "cache-misses").starts_with("0.20 %"));
}

#[test]
fn a_cache_of_each_sessions_own_is_judged_by_one_session() {
    let schemas = u64::from(fixture::mixed_run().summary.schemas);
    let own = |run: &mut Run, bytes: u64| {
        // All sessions' together could hold the data many times.
        run.summary.target.cache_bytes = Some(run.summary.active_bytes * 64);
        run.details.target.session_cache_bytes = Some(bytes);
    };
    gains(&[], |run| own(run, run.summary.active_bytes / schemas - 1));
    let run = gains(&["cache-misses", "cached-by-database"], |run| {
        own(run, run.summary.active_bytes / schemas);
    });
    assert!(message(&run, "cache-misses").contains("sessions' own caches"));
    assert!(message(&run, "cached-by-database").contains("each session's own cache"));
}

#[test]
fn prefetched_blocks_are_reported_where_they_are_counted() {
    let prefetch = |run: &mut Run, prefetched: u64| {
        run.summary.counters.insert("blocks_read_into_cache".into(), 1000);
        run.summary.counters.insert("blocks_prefetched".into(), prefetched);
    };
    let run = gains(&["not-single-block"], |run| prefetch(run, 51));
    assert!(message(&run, "not-single-block").starts_with("5.1 %"));
    gains(&[], |run| prefetch(run, 50));
}

#[test]
fn rows_that_cost_more_than_a_read() {
    let run = gains(&["extra-reads"], |run| {
        run.details.io.physical_read_blocks = Some(run.summary.rows.total() * 3 / 2);
        run.details.io.physical_read_requests = run.details.io.physical_read_blocks;
    });
    assert!(message(&run, "extra-reads").starts_with("1.5"), "{}", message(&run, "extra-reads"));
    assert!(message(&run, "extra-reads").contains("missed the cache"));
    let run = gains(&["extra-reads"], |run| {
        let rows = run.summary.rows.total();
        run.details.io.physical_read_blocks = Some(rows * 3 / 2);
        run.details.io.physical_read_requests = run.details.io.physical_read_blocks;
        run.summary.counters.insert("row_blocks_visited".into(), rows * 5);
    });
    assert!(message(&run, "extra-reads").contains("5.0 blocks of rows were visited, because"));
}

#[test]
fn fewer_logical_reads_than_rows_are_an_error() {
    let reads_each = |run: &mut Run, each: f64| {
        let rows = run.summary.rows.total() as f64;
        run.details.io.logical_reads = Some((rows * each) as u64);
    };
    let run = gains(&["fewer-reads-than-rows"], |run| reads_each(run, 0.028));
    assert_eq!(judge(&run)[0].id, "fewer-reads-than-rows", "errors come first");
    assert!(message(&run, "fewer-reads-than-rows").starts_with("0.028 logical reads"));
    gains(&[], |run| reads_each(run, 1.0));
    let mut run = fixture::mixed_run();
    run.details.io.logical_reads = None;
    assert!(not_judged(&run).iter().any(|judged| judged.id == "fewer-reads-than-rows"));
}

#[test]
fn a_plan_that_changes_in_the_run_is_an_error() {
    let plan = |as_meant| Some(PlanCheck { text: "SCAN cf1".into(), as_meant });
    let run = gains(&["wrong-plan"], |run| {
        run.details.target.plan = plan(true);
        run.details.plan_after = plan(false);
    });
    assert!(message(&run, "wrong-plan").contains("no longer an index scan on custid"));
    gains(&[], |run| run.details.plan_after = plan(true));
    // A plan that was wrong from the start is reported once.
    let run = gains(&["wrong-plan"], |run| {
        run.details.target.plan = plan(false);
        run.details.plan_after = plan(false);
    });
    assert!(!message(&run, "wrong-plan").contains("ceased"));
}

#[test]
fn plans_prefetch_and_direct_io() {
    let run = gains(&["wrong-plan"], |run| {
        run.details.target.plan = Some(PlanCheck { text: "SCAN cf1".into(), as_meant: false });
    });
    assert_eq!(judge(&run)[0].id, "wrong-plan", "errors come first");
    let two_a_request = |run: &mut Run| {
        let io = &mut run.details.io;
        io.physical_read_requests = io.physical_read_blocks.map(|blocks| blocks / 2);
    };
    gains(&["not-single-block"], two_a_request);
    gains(&[], |run| {
        two_a_request(run);
        run.summary.settings.insert("prefetch".into(), json!(64));
    });
    let run = gains(&["not-direct"], |run| {
        let reason = Some("the file system (overlay) refused O_DIRECT".to_owned());
        run.details.target.direct_io = Some(DirectIo { asked: true, used: false, reason });
    });
    assert!(message(&run, "not-direct").contains("overlay"));
}

#[test]
fn layers_are_compared_until_the_database_stopped_reporting() {
    let whole = fixture::mixed_run();
    // Half of the run was counted: compared with all of the device's work half would be missing.
    let half = |run: &mut Run| {
        let totals = IntervalTotals::of(&whole.details.timeline[..30]);
        run.details.io = totals.io;
        run.details.files.iter_mut().for_each(|file| file.read_bytes /= 2);
        run.summary.counted_until = Some(CountedUntil {
            second: 30.0,
            of_s: run.summary.elapsed_s,
            db_time_s: run.details.db_time_s / 2.0,
            think_time_s: 0.0,
        });
    };
    gains(&[], half);
    let run = gains(&["other-load", "cached-by-database", "group-commit"], |run| {
        half(run);
        run.summary.counted_until = None;
        seen(run).whole.sum.counts.petal_read_bytes = None;
    });
    assert!(message(&run, "other-load").contains("more than the database asked for"));
}
