//! Tests of batches, their errors, and cancelling a session.

use super::*;
use petal_engine::Batch;

/// Length of a run that outlasts the test.
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_batch_is_one_call_and_every_operation_has_its_own_latency() {
    let scripted = loaded();
    let engine = engine(&scripted, &settings());
    let batch = [
        operation(Kind::Select, 2, 1, 64),
        operation(Kind::Update, 2, 100, 8),
        operation(Kind::Scan, 2, 0, 0),
        operation(Kind::Update, 1, 7, 16),
        operation(Kind::Select, 1, 2000, 2),
    ];
    let (ended, result) = execute(&engine, seat(1, 2), &batch);
    result.unwrap();
    let of = |rows: u64| (rows * 10, rows, None);
    assert_eq!(ended, [of(64), of(8), of(48), of(16), of(2)]);
    let sent = scripted.sent();
    let calls: Vec<&String> = sent.iter().filter(|line| line.starts_with("call")).collect();
    // Operations, a stamp for each UPDATE, the text after it, width, total, budget.
    insta::assert_snapshot!(calls[0], @"call the loop ['S0000000000010000000', '00000000000uk0000000', 'xxxxxxxxxxxxxxxxxxxx', 128, 5, 3600000000]");
    assert_eq!(calls.len(), 1);
}

/// Returns the table of each SELECT that a session with home schema 1 sends, in order.
fn selects_of_a_visitor(loop_side: LoopSide, batch: &[Operation]) -> Vec<String> {
    let scripted = loaded();
    let engine = engine(&scripted, &Settings { loop_side: Some(loop_side), ..settings() });
    let (ended, result) = execute(&engine, seat(1, 1), batch);
    result.unwrap();
    assert_eq!(ended.len(), batch.len());
    let sent = match loop_side {
        LoopSide::Client => scripted.sent(),
        _ => scripted.0.lock().blocks.clone(),
    };
    // The first SELECT of a block is for its home schema.
    let table = |text: &String| {
        let (_, after) = text.split_once("COUNT(c2)")?;
        let name = after.split_whitespace().find(|word| word.starts_with("petal"))?;
        Some(name.to_owned())
    };
    sent.iter().filter_map(table).collect()
}

#[test]
fn a_session_that_visits_several_schemas_reads_each_of_them() {
    let batch: Vec<Operation> =
        [1, 1, 3, 3, 1, 2].map(|schema| operation(Kind::Select, schema, 5, 4)).into();
    let each = selects_of_a_visitor(LoopSide::Client, &batch);
    let all = ["petal1_cf1", "petal1_cf1", "petal3_cf1", "petal3_cf1", "petal1_cf1", "petal2_cf1"];
    assert_eq!(each, all);
    // One call for each sequence in a schema.
    let calls = selects_of_a_visitor(LoopSide::Server, &batch);
    assert_eq!(calls, ["petal1_cf1", "petal3_cf1", "petal1_cf1", "petal2_cf1"]);
}

#[test]
fn a_schema_that_is_not_loaded_is_named_and_no_other_is_read_for_it() {
    for loop_side in [LoopSide::Server, LoopSide::Client] {
        let scripted = loaded();
        let engine = engine(&scripted, &Settings { loop_side: Some(loop_side), ..settings() });
        let (ended, result) = execute(&engine, seat(1, 1), &[operation(Kind::Select, 9, 1, 4)]);
        assert!(ended.is_empty());
        assert!(result.unwrap_err().ends_with("schema 9 is not loaded (not-loaded)"));
        let refused = engine.connect(seat(1, 9)).err();
        assert!(matches!(refused, Some(EngineError::NotLoaded { schema: 9, .. })));
    }
}

#[test]
fn operations_left_by_the_block_are_sent_again() {
    let scripted = loaded();
    scripted.0.lock().ended_max = Some(200);
    let engine = engine(&scripted, &settings());
    let batch: Vec<Operation> = (1..=1500).map(|at| operation(Kind::Select, 1, at, 4)).collect();
    let (ended, result) = execute(&engine, seat(1, 1), &batch);
    result.unwrap();
    assert_eq!(ended.len(), 1500);
    let calls = scripted.sent().iter().filter(|line| line.starts_with("call")).count();
    assert_eq!(calls, 1500usize.div_ceil(200));
}

#[test]
fn random_rows_go_in_as_many_calls_as_they_need() {
    let random = loaded();
    let state = |rows: &str| -> Vec<Vec<String>> {
        let keys = ["format 1", "rows 2048", "scan_rows 48", "block_size 8192", "width 128"];
        let more = ["tablespace IOPS", rows];
        keys.iter()
            .chain(&more)
            .map(|pair| {
                let (key, value) = pair.split_once(' ').unwrap();
                vec!["1".to_owned(), key.to_owned(), value.to_owned()]
            })
            .collect()
    };
    let rows = state("filler random");
    let rows: Vec<Vec<&str>> =
        rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
    let random = random.answers("FROM petal_meta", &rows);
    let heavy = Settings { redo_stress: RedoStress::Heavy, ..settings() };
    let engine = engine(&random, &heavy);
    let batch: Vec<Operation> = (1..=40).map(|at| operation(Kind::Update, 1, at, 1)).collect();
    let (ended, result) = execute(&engine, seat(1, 1), &batch);
    result.unwrap();
    assert_eq!(ended.len(), 40);
    // 32,000 characters hold 13 UPDATEs of 19 columns of 128.
    let calls = random.sent().iter().filter(|line| line.starts_with("call")).count();
    assert_eq!(calls, 40usize.div_ceil(13));
}

#[test]
fn some_errors_cost_an_operation_and_others_the_session() {
    let scripted = loaded();
    let faults = [None, Some(60), Some(8177), Some(1555), Some(54), None, Some(1653)];
    scripted.0.lock().faults = faults.into_iter().collect();
    let engine = engine(&scripted, &settings());
    let batch: Vec<Operation> = (1..=9).map(|at| operation(Kind::Update, 1, at, 1)).collect();
    let (ended, result) = execute(&engine, seat(1, 1), &batch);
    let errors: Vec<Option<String>> = ended.into_iter().map(|(_, _, error)| error).collect();
    let counted = |code: &str| Some(code.to_owned());
    assert_eq!(
        errors,
        [
            None,
            counted("ORA-00060"),
            counted("ORA-08177"),
            counted("ORA-01555"),
            counted("ORA-00054"),
            None
        ]
    );
    insta::assert_snapshot!(result.unwrap_err(), @"db1:1521/svc: ORA-01653: scripted; make room: add a data file to the tablespace or let it extend (ORA-01653)");
}

#[test]
fn a_killed_session_and_a_dying_instance_are_named() {
    for (error, shown) in [
        (error(28, "your session has been killed"), "ORA-00028"),
        (error(3113, "end-of-file on communication channel"), "ORA-03113"),
        (LinkError::connection("the database or network closed the connection"), "connection"),
    ] {
        let scripted = loaded();
        scripted.0.lock().call_fails = Some(error);
        let engine = engine(&scripted, &settings());
        let (ended, result) = execute(&engine, seat(1, 1), &[operation(Kind::Select, 1, 1, 4)]);
        assert!(ended.is_empty());
        let message = result.unwrap_err();
        assert!(message.contains(shown) && message.contains("db1:1521/svc"), "{message}");
        assert!(message.contains("the session was killed, the instance ended"), "{message}");
    }
}

#[test]
fn a_call_that_outlasts_the_stop_is_cut() {
    let scripted = loaded();
    let mut timed_out = LinkError::connection("the configured call timeout was exceeded");
    timed_out.kind = super::link::LinkErrorKind::TimedOut;
    scripted.0.lock().call_fails = Some(timed_out);
    let engine = engine(&scripted, &settings());
    let cutting = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let trigger = Instant::now();
    let deadline = trigger + HOUR;
    let stop = Stop::until(trigger, Some(deadline), Arc::default(), cutting);
    let mut done = Outcomes::default();
    let mut session = engine.connect(seat(1, 1)).unwrap();
    session.execute(Batch::new(&[operation(Kind::Select, 1, 1, 4)], &stop, &mut done)).unwrap();
    let left = deadline - Instant::now();
    assert_eq!(done.ended[0].error.as_deref(), Some(petal_engine::CUT));
    // The driver itself breaks off a call a little after the end.
    let limit = scripted.0.lock().limits.last().unwrap().unwrap();
    let grace = Duration::from_secs(6);
    assert!(limit > left + grace && limit <= HOUR + grace, "{limit:?}");
}

#[test]
fn an_update_that_is_cut_loses_no_session_though_its_connection_is_gone() {
    let mut timed_out = LinkError::connection("recovery was not possible");
    timed_out.kind = super::link::LinkErrorKind::TimedOut;
    let scripted = loaded().fails_as("UPDATE", timed_out).fails("ROLLBACK", 3113, "end-of-file");
    let client = Settings { loop_side: Some(LoopSide::Client), ..settings() };
    let mut session = engine(&scripted, &client).connect(seat(1, 1)).unwrap();
    let cutting = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let trigger = Instant::now();
    let stop = Stop::until(trigger, Some(trigger + HOUR), Arc::default(), cutting);
    let mut done = Outcomes::default();
    session.execute(Batch::new(&[operation(Kind::Update, 1, 1, 4)], &stop, &mut done)).unwrap();
    assert_eq!(done.ended[0].error.as_deref(), Some(petal_engine::CUT));
}

#[test]
fn a_session_whose_database_falls_silent_is_aborted_and_named() {
    for (loop_side, hangs) in [(LoopSide::Server, "DECLARE"), (LoopSide::Client, "COUNT(c2)")] {
        let scripted = loaded().hangs(hangs);
        let engine = engine(&scripted, &Settings { loop_side: Some(loop_side), ..settings() });
        let mut session = engine.connect(seat(1, 1)).unwrap();
        let canceller = session.canceller();
        let driver = thread::spawn(move || {
            canceller.cancel();
            canceller.abort();
        });
        let mut done = Outcomes::default();
        let batch = [operation(Kind::Select, 1, 1, 4)];
        let error = session.execute(Batch::new(&batch, &unlimited(), &mut done)).unwrap_err();
        driver.join().unwrap();
        assert_eq!(error.code, "no-answer");
        insta::allow_duplicates! {
            insta::assert_snapshot!(error.message, @"db1:1521/svc: no answer in time, nor to being cancelled; the database or the network fell silent: see whether its host, its storage or its archiver hangs");
        }
        // It stays lost, and releasing it does not wait, as the database never answers.
        assert!(session.execute(Batch::new(&batch, &unlimited(), &mut done)).is_err());
        drop(session);
    }
}

#[test]
fn a_canceller_asks_for_the_session_by_its_numbers() {
    let (sender, cancelled) = channel();
    let scripted = loaded().answers("'INSTANCE'", &[&["2"]]).hangs_until("CANCEL", move |_| {
        let _ = sender.send(());
        true
    });
    let engine = engine(&scripted, &settings());
    let session = engine.connect(seat(1, 1)).unwrap();
    session.canceller().cancel();
    cancelled.recv_timeout(HOUR).unwrap();
    let sent = scripted.sent();
    assert_eq!(sent.last().unwrap(), "execute ALTER SYSTEM CANCEL SQL '7, 70, @2'");
}

#[test]
fn if_cancelling_fails_the_session_is_killed_and_its_operation_is_cut() {
    // Release 12.2 has no CANCEL SQL.
    let (sender, killed) = channel();
    let scripted = loaded()
        .fails("CANCEL SQL", 2065, "illegal option for ALTER SYSTEM")
        .hangs_until("KILL SESSION", move |_| {
            let _ = sender.send(());
            true
        });
    let engine = engine(&scripted, &settings());
    let mut session = engine.connect(seat(1, 1)).unwrap();
    let canceller = session.canceller();
    let run = |session: &mut Box<dyn Session>| {
        // As the server reports it.
        let kind = super::link::LinkErrorKind::Database;
        let killed = LinkError { kind, ..error(28, "your session has been killed") };
        scripted.0.lock().call_fails = Some(killed);
        let cutting = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let trigger = Instant::now();
        let stop = Stop::until(trigger, Some(trigger + HOUR), Arc::default(), cutting);
        let mut done = Outcomes::default();
        let result =
            session.execute(Batch::new(&[operation(Kind::Select, 1, 1, 4)], &stop, &mut done));
        result.map(|()| done.ended[0].error.as_deref().map(str::to_owned))
    };
    // petal did not kill it: the session is lost.
    assert_eq!(run(&mut session).unwrap_err().code, "ORA-00028");
    canceller.cancel();
    killed.recv_timeout(HOUR).unwrap();
    let sent = scripted.sent();
    assert_eq!(sent.last().unwrap(), "execute ALTER SYSTEM KILL SESSION '7, 70' IMMEDIATE");
    assert_eq!(run(&mut session).unwrap().as_deref(), Some(petal_engine::CUT));
}

/// Amazon RDS grants no ALTER SYSTEM: its own procedures cancel, and kill if that fails.
#[test]
fn in_rds_a_session_is_cancelled_and_killed_by_its_procedures() {
    const REFUSED: (u32, &str) = (1031, "insufficient privileges");
    let last_sent = |is_cancelled: bool| {
        let (sender, ended) = channel();
        let mut scripted = loaded().fails("ALTER SYSTEM CANCEL", REFUSED.0, REFUSED.1).fails(
            "ALTER SYSTEM KILL",
            REFUSED.0,
            REFUSED.1,
        );
        if !is_cancelled {
            scripted = scripted.fails("rdsadmin_util.cancel", 20_001, "no such session");
        }
        let procedure = if is_cancelled { "rdsadmin_util.cancel" } else { "rdsadmin_util.kill" };
        let scripted = scripted.hangs_until(procedure, move |_| {
            let _ = sender.send(());
            true
        });
        let session = engine(&scripted, &settings()).connect(seat(1, 1)).unwrap();
        session.canceller().cancel();
        ended.recv_timeout(HOUR).unwrap();
        scripted.sent().last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        last_sent(true),
        "execute BEGIN rdsadmin.rdsadmin_util.cancel(sid => 7, serial => 70); END;"
    );
    assert_eq!(
        last_sent(false),
        "execute BEGIN rdsadmin.rdsadmin_util.kill(sid => 7, serial => 70, method => 'IMMEDIATE'); END;"
    );
}

#[test]
fn the_block_names_only_what_the_session_does() {
    let scripted = loaded();
    let engine = engine(&scripted, &settings());
    let mut session = engine.connect(seat(1, 2)).unwrap();
    let select = operation(Kind::Select, 2, 1, 4);
    let batches = [
        vec![select, select],
        vec![select, operation(Kind::Scan, 2, 0, 0)],
        vec![select],
        vec![operation(Kind::Update, 1, 1, 4)],
    ];
    for batch in &batches {
        session.execute(Batch::new(batch, &unlimited(), &mut Outcomes::default())).unwrap();
    }
    let blocks = scripted.0.lock().blocks.clone();
    let names = |block: &String| -> Vec<&str> {
        let words = ["petal2_cf1", "petal2_cf2", "petal1_cf1", "petal1_cf2", "UPDATE"];
        words.into_iter().filter(|word| block.contains(word)).collect()
    };
    assert_eq!(names(&blocks[0]), ["petal2_cf1"]);
    assert_eq!(names(&blocks[1]), ["petal2_cf1", "petal2_cf2"]);
    assert_eq!(blocks[2], blocks[1], "parsed once");
    assert_eq!(names(&blocks[3]), ["petal2_cf1", "petal2_cf2", "petal1_cf1", "UPDATE"]);
}

#[test]
fn sessions_use_hints_where_the_version_can_ignore_them() {
    let of = |scripted: ScriptedOracle| {
        drop(engine(&scripted, &settings()).connect(seat(1, 1)).unwrap());
        let sent = scripted.sent();
        sent.iter().filter(|line| line.contains("optimizer_ignore")).count()
    };
    assert_eq!(of(loaded()), 2);
    assert_eq!(of(loaded().fails("ALTER SESSION", 2248, "invalid option for ALTER SESSION")), 1);
}

#[test]
fn a_statement_that_failed_leaves_nothing_for_the_next_commit() {
    let scripted = loaded().fails("UPDATE", 60, "deadlock detected while waiting for resource");
    let settings = Settings { loop_side: Some(LoopSide::Client), ..settings() };
    let engine = engine(&scripted, &settings);
    let (ended, result) = execute(&engine, seat(1, 1), &[operation(Kind::Update, 1, 1, 1)]);
    result.unwrap();
    assert_eq!(ended[0].2.as_deref(), Some("ORA-00060"));
    assert_eq!(scripted.sent().last().unwrap(), "execute ROLLBACK");
}
