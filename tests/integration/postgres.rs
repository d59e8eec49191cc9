//! What PostgreSQL's sessions do: HOT updates, plans, errors that cost one operation, the routine, and
//! what the server counts of it all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use petal_engine::{Batch, EngineError, LoadPlan, Outcomes, Silent, Stop};
use petal_settings::{LoopSide, RedoStress, Settings};
use petal_workload::op::Operation;
use petal_workload::row::Filler;

use crate::engine_postgres::{ROWS, SEAT, load, open, open_with, plan, select, unlimited, update};
use crate::server_postgres::{WAITS_FOR_LOCK, alone, is_there, sessions, shared};
use crate::support::{Workplace, count, findings, number, record, timeline, until};

#[test]
fn every_update_is_hot_and_nothing_grows() {
    if !is_there() {
        return;
    }
    let _alone = alone();
    for (number, redo_stress, side, filler) in [
        (1, RedoStress::Lite, LoopSide::Server, Filler::Constant),
        (2, RedoStress::Heavy, LoopSide::Server, Filler::Random),
        (3, RedoStress::Heavy, LoopSide::Client, Filler::Ratio(2.0)),
    ] {
        let database = format!("hot{number}");
        let url = shared().url(&database);
        open(&url).load(&LoadPlan { filler, ..plan(1) }, &Silent, &unlimited()).unwrap();
        // The server's own ANALYZE would keep old versions, as any snapshot does, and pages would be full.
        let unwatched = "ALTER TABLE petal1.cf1 SET (autovacuum_enabled = false)";
        shared().client(&database).batch_execute(unwatched).unwrap();
        let settings = Settings { redo_stress, loop_side: Some(side), ..Settings::default() };
        let engine = open_with(&url, settings);
        let before = engine.data_bytes().unwrap();
        let updates: Vec<Operation> =
            (0..400u64).map(|at| update(at * 37 % (ROWS - 64) + 1, 64, at + 1)).collect();
        let mut session = engine.connect(SEAT).unwrap();
        let mut done = Outcomes::default();
        session.execute(Batch::new(&updates, &unlimited(), &mut done)).unwrap();
        session.flush_statistics().unwrap();
        // Counted by the reader that sees it all: before 15 only ended sessions have said all.
        engine.read_counters(true).unwrap();
        engine.quiesce().unwrap();
        assert_eq!(done.ended.iter().map(|outcome| outcome.rows).sum::<u64>(), 400 * 64);
        let raw = engine.read_counters(true).unwrap().remove(0).raw;
        assert_eq!(raw["tables.n_tup_upd"], 400 * 64);
        assert_eq!(raw["tables.n_tup_hot_upd"], raw["tables.n_tup_upd"], "{side:?}");
        assert_eq!(engine.data_bytes().unwrap(), before);
        assert!(engine.placement(1).unwrap().is_one_row_per_block());
        // As many columns as asked hold the text that the filler has for them.
        let mut texts = [[0u8; 128]; 2];
        filler.fill(&mut texts[0], 400, 3);
        filler.fill(&mut texts[1], 400, 20);
        let first = updates[399].first as i64;
        let row = shared()
            .client(&database)
            .query_one("SELECT c3, c20 FROM petal1.cf1 WHERE custid = $1", &[&first])
            .unwrap();
        assert_eq!(row.get::<_, &str>(0).as_bytes(), texts[0]);
        let is_heavy = redo_stress == RedoStress::Heavy;
        assert_eq!(row.get::<_, &str>(1).as_bytes() == texts[1], is_heavy);
    }
}

#[test]
fn a_limit_in_other_waits_names_the_event() {
    if !is_there() {
        return;
    }
    let url = shared().url("sleeping");
    load(&url, 1);
    let trigger = "CREATE FUNCTION petal1.slow() RETURNS trigger LANGUAGE plpgsql AS \
                   'BEGIN PERFORM pg_catalog.pg_sleep(0.2); RETURN NULL; END'; \
                   CREATE TRIGGER slow AFTER UPDATE ON petal1.cf1 EXECUTE FUNCTION petal1.slow()";
    shared().client("sleeping").batch_execute(trigger).unwrap();
    let work = Workplace::new();
    let args = ["run", "--db", &url, "--update-pct", "100", "--run-time", "3", "--json"];
    let run = work.petal(args).exits(0).json();
    let limit = run["limited_by"]["words"].as_str().unwrap();
    assert!(limit.starts_with("wait event Timeout:PgSleep ("), "{limit}");
}

#[test]
fn counters_agree_with_the_rows_visited() {
    if !is_there() {
        return;
    }
    let url = shared().url("agreeing");
    load(&url, 2);
    let work = Workplace::new();
    let args = ["run", "--db", &url, "--update-pct", "0", "--run-time", "5", "--json"];
    let run = work.petal(args).exits(0).json();
    let visited = count(&run, "/rows/select") as f64;
    let heap =
        number(&run, "/counters/cf1.heap_blks_read") + number(&run, "/counters/cf1.heap_blks_hit");
    assert!((heap / visited - 1.0).abs() < 0.02, "{heap} of {visited}");
    assert_eq!(number(&run, "/counters/tables.idx_tup_fetch"), visited);
    assert!(number(&run, "/counters/petal_wait_samples") > 0.0);
    assert!(!findings(&run).contains(&"wrong-plan"));
    if shared().version() < 150_000 {
        return; // Its sessions report when they like.
    }
    // The first second shows its own work, not that of the one before.
    let first = &timeline(&work.run_folder())[0];
    let (logical, rows) = (count(first, "/io/logical_reads"), count(first, "/rows/select"));
    assert!(logical * 2 > rows, "{logical} logical reads for {rows} rows in the first second");
}

#[test]
fn the_plan_is_the_meant_one_with_and_without_prefetch() {
    if !is_there() {
        return;
    }
    let url = shared().url("plans");
    load(&url, 1);
    for (prefetch, node) in [(0, "Index Scan"), (16, "Bitmap Heap Scan")] {
        let engine = open_with(&url, Settings { prefetch, ..Settings::default() });
        let (target, details) = engine.describe(1, 1).unwrap();
        let plan = details.plan.unwrap();
        assert!(plan.as_meant && plan.text.contains(node), "{}", plan.text);
        assert_eq!(target.cache_bytes, Some(64 << 20));
        assert!(details.local && details.durability.unwrap().durable);
        let setting = |name: &str| {
            details.settings.iter().find(|(known, _)| known == name).unwrap().1.clone()
        };
        assert_eq!(setting("effective_io_concurrency"), format!("{prefetch} (set by petal)"));
        let mut session = engine.connect(SEAT).unwrap();
        let mut done = Outcomes::default();
        session.execute(Batch::new(&[select(1, 64)], &unlimited(), &mut done)).unwrap();
        assert_eq!(done.ended[0].rows, 64);
    }
    // Without its index the plan is another, and is reported.
    shared().client("plans").batch_execute("DROP INDEX petal1.cf1_custid").unwrap();
    let engine = open(&url);
    assert!(matches!(engine.loaded(), Err(EngineError::Data(text)) if text.contains("cf1_custid")));
    assert!(!engine.describe(1, 1).unwrap().1.plan.unwrap().as_meant);
}

#[test]
fn an_error_costs_one_operation_and_not_the_batch() {
    if !is_there() {
        return;
    }
    let url = shared().url("deadlocks");
    load(&url, 1);
    for side in [LoopSide::Server, LoopSide::Client] {
        let engine = open_with(&url, Settings { loop_side: Some(side), ..Settings::default() });
        let mut client = shared().client("deadlocks");
        client
            .batch_execute("ALTER ROLE petal IN DATABASE deadlocks SET lock_timeout = 100")
            .unwrap();
        let mut session = engine.connect(SEAT).unwrap();
        client
            .batch_execute("BEGIN; SELECT FROM petal1.cf1 WHERE custid = 500 FOR UPDATE")
            .unwrap();
        let batch =
            [update(1, 8, 1), select(1, 8), update(498, 8, 2), select(498, 8), update(20, 8, 3)];
        let mut done = Outcomes::default();
        session.execute(Batch::new(&batch, &unlimited(), &mut done)).unwrap();
        let ended: Vec<_> =
            done.ended.iter().map(|outcome| (outcome.rows, outcome.error.as_deref())).collect();
        let locked = (0, Some("55P03"));
        assert_eq!(ended, [(8, None), (8, None), locked, (8, None), (8, None)], "{side:?}");
        assert!(done.ended[2].latency_ns >= Some(100_000_000));
        client.batch_execute("ROLLBACK").unwrap();
    }
}

#[test]
fn an_operation_in_flight_is_cut() {
    if !is_there() {
        return;
    }
    let url = shared().url("cut");
    load(&url, 1);
    let engine = open(&url);
    let (mut holder, mut client) = (shared().client("cut"), shared().client("cut"));
    holder.batch_execute("BEGIN; SELECT FROM petal1.cf1 WHERE custid = 5 FOR UPDATE").unwrap();
    // The server signals the process and then its group. Where the second signal comes late, as one
    // in four does on a busy machine, it ends the call with what it had done: of twenty attempts one
    // has to keep the SELECT.
    let attempts = (0..20).map(|_| {
        let mut session = engine.connect(SEAT).unwrap();
        let cancel = session.canceller();
        let signals = Arc::new(AtomicU8::new(0));
        let stop = Stop::unlimited(signals.clone());
        let mut done = Outcomes::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                until("a wait", || sessions(&mut client, WAITS_FOR_LOCK) == 1);
                signals.store(1, Ordering::Relaxed);
                cancel.cancel();
            });
            let batch = [select(1, 8), update(1, 8, 1), select(1, 8)];
            session.execute(Batch::new(&batch, &stop, &mut done)).unwrap();
        });
        let last = done.ended.last().unwrap();
        assert_eq!(last.error.as_deref(), Some(petal_engine::CUT));
        done.ended.iter().map(|outcome| outcome.error.is_none()).collect::<Vec<_>>()
    });
    let kept: Vec<_> = attempts.take_while(|kept| *kept != [true, false]).collect();
    assert!(kept.len() < 20, "{kept:?}");
}

#[test]
fn rows_that_are_missing_are_missed_in_their_operation_alone() {
    if !is_there() {
        return;
    }
    let url = shared().url("missing_rows");
    load(&url, 1);
    let deleted = "DELETE FROM petal1.cf1 WHERE custid IN (12, 13)";
    assert_eq!(shared().client("missing_rows").execute(deleted, &[]).unwrap(), 2);
    let engine = open(&url);
    let mut session = engine.connect(SEAT).unwrap();
    let mut done = Outcomes::default();
    let batch = [select(1, 8), select(9, 8), select(17, 8), select(12, 1), select(1, 16)];
    session.execute(Batch::new(&batch, &unlimited(), &mut done)).unwrap();
    let rows: Vec<u64> = done.ended.iter().map(|outcome| outcome.rows).collect();
    assert_eq!(rows, [8, 6, 8, 0, 14]);
    assert!(done.ended.iter().all(|outcome| outcome.error.is_none()));
}

#[test]
fn an_older_routine_is_replaced_and_a_newer_one_refused() {
    if !is_there() {
        return;
    }
    let url = shared().url("routines");
    load(&url, 1);
    let mut client = shared().client("routines");
    let name = client
        .query_one("SELECT oid::regprocedure::text FROM pg_proc WHERE proname = 'petal_run'", &[])
        .unwrap()
        .get::<_, String>(0);
    let mut comment = |version: u32| {
        let sql = format!("COMMENT ON PROCEDURE {name} IS 'loop of petal, version {version}'");
        client.batch_execute(&sql).unwrap();
    };
    comment(4_000_000_000);
    let refused = open(&url).connect(SEAT).err().unwrap().to_string();
    assert!(refused.contains("newer petal") && refused.contains("LOOP=client"), "{refused}");
    let by_client = Settings { loop_side: Some(LoopSide::Client), ..Settings::default() };
    open_with(&url, by_client).connect(SEAT).unwrap();
    comment(0);
    let mut client = shared().client("routines");
    // An older one with other arguments, which would stand beside the new one.
    let older = "CREATE PROCEDURE petal1.petal_run(x int) LANGUAGE sql AS 'SELECT 1'";
    client.batch_execute(&format!("DROP PROCEDURE {name}; {older}")).unwrap();
    let engine = open(&url);
    let mut session = engine.connect(SEAT).unwrap();
    let mut done = Outcomes::default();
    session.execute(Batch::new(&[select(1, 8)], &unlimited(), &mut done)).unwrap();
    assert_eq!(done.ended[0].rows, 8);
    let sql = "SELECT count(*) FROM pg_proc WHERE proname = 'petal_run'";
    assert_eq!(client.query_one(sql, &[]).unwrap().get::<_, i64>(0), 1);
}

#[test]
fn the_servers_own_processes_are_separated_from_others() {
    if !is_there() {
        return;
    }
    let _alone = alone();
    let work = Workplace::new();
    let url = shared().url("processes");
    load(&url, 2);
    let args = ["run", "-s", "2", "-t", "2", "--run-time", "3", "--db", &url];
    work.petal(args).watching().exits(0);
    let whole = record(&work.run_folder());
    let seen = &whole["details"]["os"];
    // The first process, its helpers, and a session each.
    assert!(number(seen, "/whole/ranges/server_processes/most") >= 8.0, "{seen}");
    assert!(number(seen, "/whole/sum/counts/server_cpu_us") > 0.0);
    assert!(seen.pointer("/whole/sum/log_writer_on/0/0").unwrap().is_u64(), "{seen}");
    let engine = open(&url);
    assert!(engine.server().unwrap().clock().unwrap().ahead_s.abs() < 0.5);
    assert!(engine.server().unwrap().server_processes()[0].log_writer.is_some());
}

#[test]
fn a_server_that_quotes_all_identifiers_has_the_plan_that_petal_wants() {
    if !is_there() {
        return;
    }
    let url = shared().url("quoted");
    let quotes = "ALTER DATABASE quoted SET quote_all_identifiers = on; \
                  ALTER ROLE petal IN DATABASE quoted SET quote_all_identifiers = on";
    shared().client("postgres").batch_execute(quotes).unwrap();
    let work = Workplace::new();
    let db = ["--db", &url];
    work.petal([&["setup", "--scale", "8M"][..], &db].concat()).exits(0);
    for side in ["server", "client"] {
        let args = ["run", "--work-loop", "5", "--update-pct", "20", "--loop", side, "--json"];
        let run = work.petal([&args[..], &db].concat()).exits(0).json();
        assert!(!findings(&run).contains(&"wrong-plan"), "{side}: {:?}", findings(&run));
    }
    // Its exit code is that of the host, too.
    let check = work.petal([&["check"][..], &db].concat()).ends();
    assert!(check.stdout.contains("good     plan of the SELECT"), "{}", check.stdout);
}
