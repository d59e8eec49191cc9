//! What only PostgreSQL has: schemas of others, HOT updates, plans, statistics that are flushed,
//! timeouts, terminated sessions, a server that dies.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use petal::engine::{self, Engine, EngineError, LoadPlan, Outcomes, Silent, Stop};
use petal::settings::url::TargetUrl;
use petal::settings::{LoopSide, RedoStress, Settings};
use petal::workload::op::{Kind, Operation};
use petal::workload::row::Filler;
use petal::workload::seat::{Role, Seat};

use crate::proxy::Proxy;
use crate::server_postgres::{Server, alone, is_there, shared};
use crate::support::{Mount, Workplace, count, findings, number, record};

const ROWS: u64 = 2048;

fn unlimited() -> Stop {
    Stop::unlimited(Arc::default())
}

fn open(url: &str, settings: Settings) -> Arc<dyn Engine> {
    engine::open(&Settings { db: TargetUrl::parse(url).unwrap(), ..settings }).unwrap()
}

fn plan(schemas: u32, filler: Filler) -> LoadPlan {
    LoadPlan {
        schemas: (1..=schemas).collect(),
        rows: ROWS,
        scan_rows: 32,
        block_size: 8192,
        degree: 2,
        unique_index: false,
        filler,
        seed: 7,
        replace: false,
    }
}

fn load(url: &str, schemas: u32, filler: Filler) {
    let engine = open(url, Settings::default());
    engine.load(&plan(schemas, filler), &Silent, &unlimited()).unwrap();
}

fn server_version(url: &str) -> u32 {
    let mut client = postgres::Client::connect(url, postgres::NoTls).unwrap();
    let row = client.query_one("SELECT current_setting('server_version_num')::integer", &[]);
    row.unwrap().get::<_, i32>(0).cast_unsigned()
}

fn seat(session: u32) -> Seat {
    Seat { session, schema: 1, endpoint: 0, role: Role::Mixed }
}

fn update(first: u64, rows: u32, stamp: u64) -> Operation {
    Operation { kind: Kind::Update, schema: 1, first, rows, stamp, due: None }
}

fn select(first: u64, rows: u32) -> Operation {
    Operation { kind: Kind::Select, ..update(first, rows, 0) }
}

#[test]
fn the_servers_own_processes_are_told_from_others() {
    if !is_there() {
        return;
    }
    let _alone = alone();
    let work = Workplace::new();
    let url = shared().url("processes");
    load(&url, 2, Filler::Constant);
    let args = ["run", "-s", "2", "-t", "2", "--run-time", "3", "--db", &url];
    work.petal(args).watching().exits(0);
    let whole = record(&work.run_folder());
    let seen = &whole["details"]["os"];
    // The first process, its helpers, and a session each.
    assert!(number(seen, "/whole/ranges/server_processes/most") >= 8.0, "{seen}");
    assert!(number(seen, "/whole/sum/counts/server_cpu_us") > 0.0);
    assert!(seen.pointer("/whole/sum/log_writer_on/0/0").unwrap().is_u64(), "{seen}");
    let engine = open(&url, Settings::default());
    assert!(engine.clock_ahead_s().unwrap().abs() < 0.5);
    assert!(engine.server_processes().unwrap().log_writer.is_some());
}

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
        load(&url, 1, filler);
        let settings = Settings { redo_stress, loop_side: Some(side), ..Settings::default() };
        let engine = open(&url, settings);
        let before = engine.data_bytes().unwrap();
        let updates: Vec<Operation> =
            (0..400u64).map(|at| update(at * 37 % (ROWS - 64) + 1, 64, at + 1)).collect();
        let mut session = engine.connect(seat(1)).unwrap();
        let mut done = Outcomes::default();
        session.execute(&updates, &unlimited(), &mut done).unwrap();
        session.flush_statistics().unwrap();
        // Counted by the reader that sees it all: before 15 only ended sessions have told all.
        engine.snapshot().unwrap();
        engine.quiesce().unwrap();
        assert_eq!(done.ended.iter().map(|outcome| outcome.rows).sum::<u64>(), 400 * 64);
        let raw = engine.snapshot().unwrap().remove(0).raw;
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
fn schemas_of_others_are_left_alone() {
    if !is_there() {
        return;
    }
    let url = shared().url("of_others");
    let mut client = shared().client("of_others");
    client
        .batch_execute(
            "CREATE SCHEMA petal1; CREATE TABLE petal1.petal_meta (key text, value text); \
             INSERT INTO petal1.petal_meta VALUES ('mine', 'yes'); CREATE SCHEMA petal2_loading",
        )
        .unwrap();
    let engine = open(&url, Settings::default());
    let loaded = engine.load(&plan(1, Filler::Constant), &Silent, &unlimited());
    assert!(matches!(&loaded, Err(EngineError::Data(text)) if text.contains("petal1 without")));
    let replacing = LoadPlan { replace: true, ..plan(2, Filler::Constant) };
    assert!(engine.load(&replacing, &Silent, &unlimited()).is_err());
    assert_eq!(engine.drop_data().unwrap(), [""; 0]);
    assert!(engine.loaded().unwrap().is_empty());
    let rows = client.query("SELECT value FROM petal1.petal_meta", &[]).unwrap();
    assert_eq!(rows[0].get::<_, &str>(0), "yes");
    client.batch_execute("DROP SCHEMA petal2_loading").unwrap();
}

#[test]
fn replacing_loads_anew_and_keeps_the_old_until_then() {
    if !is_there() {
        return;
    }
    let url = shared().url("replacing");
    load(&url, 1, Filler::Constant);
    let engine = open(&url, Settings::default());
    let again = LoadPlan { replace: true, rows: 1500, ..plan(2, Filler::Constant) };
    // Stopped at once: the old is there.
    let stopped = Stop::unlimited(Arc::new(1.into()));
    assert!(matches!(engine.load(&again, &Silent, &stopped), Err(EngineError::Interrupted)));
    assert_eq!(engine.loaded().unwrap()[0].rows, ROWS);
    engine.load(&again, &Silent, &unlimited()).unwrap();
    let rows: Vec<u64> = engine.loaded().unwrap().iter().map(|schema| schema.rows).collect();
    assert_eq!(rows, [1500, 1500]);
}

#[test]
fn counters_agree_with_the_rows_visited() {
    if !is_there() {
        return;
    }
    let url = shared().url("agreeing");
    load(&url, 2, Filler::Constant);
    let work = Workplace::new();
    let args = ["run", "--db", &url, "--update-pct", "0", "--run-time", "5", "--json"];
    let run = work.petal(args).exits(0).json();
    let visited = count(&run, "/rows/select") as f64;
    let heap =
        number(&run, "/counters/cf1.heap_blks_read") + number(&run, "/counters/cf1.heap_blks_hit");
    assert!((heap / visited - 1.0).abs() < 0.02, "{heap} of {visited}");
    assert_eq!(number(&run, "/counters/tables.idx_tup_fetch"), visited);
    assert!(number(&run, "/counters/petal_wait_samples") > 20.0);
    assert!(!findings(&run).contains(&"wrong-plan"));
    if server_version(&url) < 150_000 {
        return; // Its sessions report when they like.
    }
    // The first second shows its own work, not that of the one before.
    let first = &record(&work.run_folder())["details"]["timeline"][0];
    let (logical, rows) = (count(first, "/io/logical_reads"), count(first, "/rows/select"));
    assert!(logical * 2 > rows, "{logical} logical reads for {rows} rows in the first second");
}

#[test]
fn the_plan_is_the_meant_one_with_and_without_prefetch() {
    if !is_there() {
        return;
    }
    let url = shared().url("plans");
    load(&url, 1, Filler::Constant);
    for (prefetch, node) in [(0, "Index Scan"), (16, "Bitmap Heap Scan")] {
        let engine = open(&url, Settings { prefetch, ..Settings::default() });
        let (target, details) = engine.describe(1, 1).unwrap();
        let plan = details.plan.unwrap();
        assert!(plan.as_meant && plan.text.contains(node), "{}", plan.text);
        assert_eq!(target.cache_bytes, Some(64 << 20));
        assert!(details.local && details.durability.unwrap().durable);
        let setting = |name: &str| {
            details.settings.iter().find(|(known, _)| known == name).unwrap().1.clone()
        };
        assert_eq!(setting("effective_io_concurrency"), format!("{prefetch} (set by petal)"));
        let mut session = engine.connect(seat(1)).unwrap();
        let mut done = Outcomes::default();
        session.execute(&[select(1, 64)], &unlimited(), &mut done).unwrap();
        assert_eq!(done.ended[0].rows, 64);
    }
    // Without its index the plan is another, and is told.
    shared().client("plans").batch_execute("DROP INDEX petal1.cf1_custid").unwrap();
    let engine = open(&url, Settings::default());
    assert!(matches!(engine.loaded(), Err(EngineError::Data(text)) if text.contains("cf1_custid")));
    assert!(!engine.describe(1, 1).unwrap().1.plan.unwrap().as_meant);
}

#[test]
fn an_error_costs_one_operation_and_not_the_batch() {
    if !is_there() {
        return;
    }
    let url = shared().url("deadlocks");
    load(&url, 1, Filler::Constant);
    for side in [LoopSide::Server, LoopSide::Client] {
        let engine = open(&url, Settings { loop_side: Some(side), ..Settings::default() });
        let mut client = shared().client("deadlocks");
        client
            .batch_execute("ALTER ROLE petal IN DATABASE deadlocks SET lock_timeout = 100")
            .unwrap();
        let mut session = engine.connect(seat(1)).unwrap();
        client
            .batch_execute("BEGIN; SELECT FROM petal1.cf1 WHERE custid = 500 FOR UPDATE")
            .unwrap();
        let batch =
            [update(1, 8, 1), select(1, 8), update(498, 8, 2), select(498, 8), update(20, 8, 3)];
        let mut done = Outcomes::default();
        session.execute(&batch, &unlimited(), &mut done).unwrap();
        let ended: Vec<_> =
            done.ended.iter().map(|outcome| (outcome.rows, outcome.error.as_deref())).collect();
        let locked = (0, Some("55P03"));
        assert_eq!(ended, [(8, None), (8, None), locked, (8, None), (8, None)], "{side:?}");
        assert!(done.ended[2].latency_ns >= 100_000_000);
        client.batch_execute("ROLLBACK").unwrap();
    }
}

#[test]
fn timeouts_of_the_role_are_kept_and_explained() {
    if !is_there() {
        return;
    }
    let url = shared().url("timeouts");
    load(&url, 1, Filler::Constant);
    let mut client = shared().client("timeouts");
    client
        .batch_execute("ALTER ROLE petal IN DATABASE timeouts SET statement_timeout = '1s'")
        .unwrap();
    let engine = open(&url, Settings::default());
    let mut session = engine.connect(seat(1)).unwrap();
    // A batch far longer than the timeout ends in full.
    let batch: Vec<Operation> = (0..4096).map(|_| select(1, 1024)).collect();
    let mut done = Outcomes::default();
    session.execute(&batch, &unlimited(), &mut done).unwrap();
    assert_eq!(done.ended.len(), batch.len());
    // One operation that is longer is fatal, and told.
    client.batch_execute("BEGIN; SELECT FROM petal1.cf1 WHERE custid = 5 FOR UPDATE").unwrap();
    let mut done = Outcomes::default();
    let error =
        session.execute(&[select(1, 8), update(1, 8, 1)], &unlimited(), &mut done).unwrap_err();
    assert_eq!((error.code.as_str(), done.ended.len()), ("57014", 1));
    assert!(error.message.contains("statement_timeout"), "{error}");
}

#[test]
fn an_operation_in_flight_is_cut() {
    if !is_there() {
        return;
    }
    let url = shared().url("cut");
    load(&url, 1, Filler::Constant);
    let engine = open(&url, Settings::default());
    let mut client = shared().client("cut");
    client.batch_execute("BEGIN; SELECT FROM petal1.cf1 WHERE custid = 5 FOR UPDATE").unwrap();
    let mut session = engine.connect(seat(1)).unwrap();
    let cancel = session.canceller();
    let mut done = Outcomes::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            cancel.cancel();
        });
        let batch = [select(1, 8), update(1, 8, 1), select(1, 8)];
        session.execute(&batch, &unlimited(), &mut done).unwrap();
    });
    let errors: Vec<_> = done.ended.iter().map(|outcome| outcome.error.as_deref()).collect();
    assert_eq!(errors[..2], [None, Some(engine::CUT)]);
}

#[test]
fn a_terminated_session_is_named_and_the_others_go_on() {
    if !is_there() {
        return;
    }
    let url = shared().url("terminated");
    load(&url, 2, Filler::Constant);
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &url, "--run-time", "4", "--json"]).start();
    running.until("operations", || work.journal().len() >= 2);
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE application_name = 'petal session 2' AND datname = 'terminated'";
    let ended: i64 = shared().client("postgres").query_one(sql, &[]).unwrap().get(0);
    assert_eq!(ended, 1);
    let run = running.ends().exited(1).json();
    assert_eq!(run["sessions_lost"][0]["session"], 2);
    assert_eq!(run["sessions_lost"][0]["code"], "57P01");
    assert_eq!(run["status"], "complete");
}

#[test]
fn a_server_that_dies_ends_the_run_in_time_with_what_was_measured() {
    if !is_there() {
        return;
    }
    let mut server = Server::start(&["shared_buffers=16MB"]);
    let url = server.url("dying");
    load(&url, 2, Filler::Constant);
    let work = Workplace::new();
    let version = "SELECT current_setting('server_version_num')::integer";
    let version: i32 = server.client("dying").query_one(version, &[]).unwrap().get(0);
    let mut running = work.petal(["run", "--db", &url, "--run-time", "60", "--json"]).start();
    running.until("operations", || work.journal().len() >= 2);
    server.stop("QUIT");
    let run = running.ends().exited(1).json();
    assert_eq!(run["sessions_lost"].as_array().unwrap().len(), 2);
    assert!(count(&run, "/ops/total") > 0);
    assert!(number(&run, "/elapsed_s") < 30.0);
    // What the database told until then is not lost.
    assert!(number(&run, "/counted_until/second") >= 1.0);
    if version >= 150_000 {
        assert!(number(&run, "/per_second/logical_reads") > 0.0);
    }
    // A load that dies with its server leaves nothing.
    let mut server = Server::start(&["shared_buffers=16MB"]);
    let url = server.url("dying");
    let setup = work.petal(["setup", "--db", &url, "-s", "2", "--scale", "2G"]).start();
    thread::sleep(Duration::from_millis(500));
    server.crash();
    setup.ends().exited(3);
    assert!(open(&url, Settings::default()).loaded().unwrap().is_empty());
}

#[test]
fn more_sessions_than_the_server_admits_are_refused_before_any_connects() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["shared_buffers=16MB", "max_connections=12"]);
    let url = server.url("small");
    load(&url, 1, Filler::Constant);
    let work = Workplace::new();
    work.petal(["run", "--db", &url, "-t", "20", "--work-loop", "1"])
        .exits(2)
        .telling(&["20 sessions", "admits"]);
    work.petal(["run", "--db", &url, "-t", "6", "--work-loop", "1"]).exits(0);
}

#[test]
fn a_role_without_privileges_runs_and_is_told_what_it_misses() {
    if !is_there() {
        return;
    }
    let url = shared().url("plain");
    shared()
        .client("plain")
        .batch_execute("CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE plain TO plain")
        .unwrap();
    let url = url.replace("petal@", "plain@");
    load(&url, 1, Filler::Constant);
    let work = Workplace::new();
    let run = work.petal(["run", "--db", &url, "--run-time", "2", "--json"]).exits(0).json();
    assert!(count(&run, "/ops/update") > 0);
    let details = record(&work.run_folder())["details"].clone();
    let settled = details["settled"].to_string();
    assert!(settled.contains("pg_checkpoint"), "{settled}");
    assert!(settled.contains("1 main tables vacuumed"), "{settled}");
    let untimed = details["target"]["io_untimed"].to_string();
    assert!(untimed.contains("GRANT SET ON PARAMETER track_io_timing"), "{untimed}");
    // It may not know where the data lie; this host's processes show it.
    assert_eq!(details["target"]["local"], true, "{}", details["target"]);
    // Reads are not timed for it: unknown, not zero.
    let waits = run["waits"].as_array().unwrap();
    assert!(waits.iter().all(|wait| wait["source"] != "counted"), "{waits:?}");
}

#[test]
fn a_schema_that_is_closed_to_the_role_hinders_nobody() {
    if !is_there() {
        return;
    }
    let url = shared().url("closed");
    load(&url, 1, Filler::Constant);
    shared()
        .client("closed")
        .batch_execute(
            "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA petal1 TO reader; \
             GRANT SELECT ON ALL TABLES IN SCHEMA petal1 TO reader; \
             CREATE SCHEMA petal2; COMMENT ON SCHEMA petal2 IS 'petal test data'; \
             CREATE TABLE petal2.petal_meta (key text, value text)",
        )
        .unwrap();
    let url = url.replace("petal@", "reader@");
    let one = Settings { schemas: Some(1), ..Settings::default() };
    let engine = open(&url, one);
    assert_eq!(engine.loaded().unwrap().len(), 1);
    // Not its table: the server would pass over it with a mere warning.
    let settled = engine.settle(&Silent, &unlimited()).unwrap().done.join("; ");
    assert!(settled.contains("0 main tables vacuumed; 1 main tables not vacuumed"), "{settled}");
    let work = Workplace::new();
    let run = ["run", "-s", "1", "--db", &url, "--run-time", "1", "--update-pct", "0", "--json"];
    let run = work.petal(run).exits(0).json();
    assert!(count(&run, "/ops/select") > 0);
    let all = open(&url, Settings::default()).loaded().unwrap_err().to_string();
    assert!(all.contains("permission denied for schema petal2"), "{all}");
}

#[test]
fn a_server_that_dies_under_tls_is_said_to_have_ended_the_connection() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let server = Server::start(&["shared_buffers=16MB"]);
    let url = server.url("dying");
    load(&url, 1, Filler::Constant);
    encrypt(&server, folder.path(), "server");
    let proxy = Proxy::to(server.port);
    let engine = open(
        &format!("postgres://petal@127.0.0.1:{}/dying?sslmode=require", proxy.port),
        Settings::default(),
    );
    let mut session = engine.connect(seat(1)).unwrap();
    proxy.cut();
    let error =
        session.execute(&[select(1, 8)], &unlimited(), &mut Outcomes::default()).unwrap_err();
    assert_eq!(error.code, "connection");
    assert!(error.message.contains("the server ended the connection"), "{}", error.message);
    assert!(!error.message.contains("rustls"), "{}", error.message);
}

#[test]
fn a_cut_network_loses_sessions_and_keeps_what_was_measured() {
    if !is_there() {
        return;
    }
    load(&shared().url("cutting"), 2, Filler::Constant);
    let proxy = Proxy::to(shared().port);
    let url = format!("postgres://petal@127.0.0.1:{}/cutting", proxy.port);
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &url, "--run-time", "60", "--json"]).start();
    running.until("operations", || work.journal().len() >= 2);
    proxy.cut();
    let run = running.ends().exited(1).json();
    assert_eq!(run["sessions_lost"].as_array().unwrap().len(), 2);
    assert_eq!(run["sessions_lost"][0]["code"], "connection");
    assert!(count(&run, "/ops/total") > 0 && number(&run, "/elapsed_s") < 30.0);
}

#[test]
fn standbys_read_and_the_primary_writes() {
    if !is_there() {
        return;
    }
    let primary = Server::start(&["shared_buffers=16MB"]);
    let url = primary.url("scaled");
    load(&url, 3, Filler::Constant);
    let standbys = [primary.standby(), primary.standby()];
    let ports = [standbys[0].port, primary.port, standbys[1].port];
    let hosts = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    let work = Workplace::new();
    let url = format!("postgres://petal@{hosts}/scaled");
    let args = ["run", "--db", &url, "--update-pct", "20", "--work-loop", "100", "--json"];
    let run = work.petal(args).exits(0).json();
    assert_eq!((count(&run, "/ops/select"), count(&run, "/ops/update")), (240, 60));
    let endpoints = run["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 3);
    for (endpoint, port) in endpoints.iter().zip(ports) {
        assert_eq!(endpoint["endpoint"], format!("127.0.0.1:{port}"));
        assert_eq!(endpoint["sessions"], 1);
        assert!(count(endpoint, "/io/logical_reads") >= 80 * 64, "{endpoint}");
        let writes = count(endpoint, "/io/redo_bytes") > 0;
        assert_eq!(writes, port == primary.port, "{endpoint}");
    }
}

#[test]
fn numbered_services_are_the_endpoints_and_the_admin_service_is_for_setup() {
    if !is_there() {
        return;
    }
    let primary = Server::start(&["shared_buffers=16MB"]);
    primary.database("served");
    let work = Workplace::new();
    let own = |name: &str, port: u16| format!("[{name}]\nhost=127.0.0.1\nport={port}\n");
    let services = work.path("services.conf");
    std::fs::write(&services, own("boss", primary.port)).unwrap();
    let file = services.display().to_string();
    let url = "postgres://petal@/served";
    let petal = |args: &[&str]| {
        let named = ["--db", url, "--admin-sqlnet-service", "boss"];
        work.petal([args, &named].concat()).env("PGSERVICEFILE", &file)
    };
    petal(&["setup", "-s", "2", "--scale", "1024"]).exits(0);
    let standbys = [primary.standby(), primary.standby()];
    let text = own("boss", primary.port)
        + &own("read1", standbys[0].port)
        + &own("read2", standbys[1].port);
    std::fs::write(&services, text).unwrap();
    // Sessions on both standbys; their UPDATEs go to the only primary, which is no endpoint of
    // theirs, and is counted.
    let args = ["run", "--work-loop", "100", "--update-pct", "20", "--json"];
    let base = ["--sqlnet-service-base", "read", "--sqlnet-service-max", "2"];
    let run = petal(&[&args[..], &base].concat()).exits(0).json();
    assert_eq!((count(&run, "/ops/select"), count(&run, "/ops/update")), (160, 40));
    let endpoints: Vec<_> = run["endpoints"].as_array().unwrap().iter().collect();
    let told = |endpoint: &serde_json::Value| {
        (endpoint["endpoint"].as_str().unwrap().to_owned(), count(endpoint, "/sessions"))
    };
    let expected = [(standbys[0].port, 1), (standbys[1].port, 1), (primary.port, 0)]
        .map(|(port, sessions)| (format!("127.0.0.1:{port}"), sessions));
    assert_eq!(endpoints.iter().map(|endpoint| told(endpoint)).collect::<Vec<_>>(), expected);
    assert!(count(endpoints[2], "/io/redo_bytes") > 0);
    // One service of the base alone, no number.
    let args = ["run", "--work-loop", "10", "--update-pct", "0", "--json"];
    let run = petal(&[&args[..], &["--sqlnet-service-base", "read1"]].concat()).exits(0).json();
    assert_eq!(run["endpoints"].as_array().unwrap().len(), 1);
    // A name in no file is a host's, and is told as one.
    petal(&["run", "--sqlnet-service-base", "nowhere.invalid"])
        .exits(3)
        .telling(&["nowhere.invalid:5432"]);
}

/// An authority, and a server's certificate for `localhost` of it.
pub fn certificates(folder: &std::path::Path) {
    let openssl = |args: &str| {
        let made = std::process::Command::new("openssl")
            .args(args.split_whitespace())
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    std::fs::write(folder.join("leaf.conf"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=ca");
    openssl("req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost");
    openssl(
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt \
         -days 2 -extfile leaf.conf",
    );
    openssl("req -newkey rsa:2048 -nodes -keyout old.key -out old.csr -subj /CN=localhost");
    openssl("x509 -req -in old.csr -CA ca.crt -CAkey ca.key -out old.crt -days 2");
}

/// The server speaks TLS from now on, with this certificate.
pub fn encrypt(server: &Server, folder: &std::path::Path, certificate: &str) {
    let mut client = server.client("postgres");
    for (kind, setting) in [("key", "ssl_key_file"), ("crt", "ssl_cert_file")] {
        let name = format!("{certificate}.{kind}");
        server.secret_file(&name, &std::fs::read_to_string(folder.join(&name)).unwrap());
        let sql = format!("ALTER SYSTEM SET {setting} = '../{name}'");
        client.batch_execute(&sql).unwrap();
    }
    client.batch_execute("ALTER SYSTEM SET ssl = on").unwrap();
    reload(server);
}

fn reload(server: &Server) {
    server.client("postgres").batch_execute("SELECT pg_reload_conf()").unwrap();
    thread::sleep(Duration::from_millis(500));
}

#[test]
fn tls_verifies_as_much_as_sslmode_says() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let server = Server::start(&["shared_buffers=16MB"]);
    let url = server.url("secure");
    load(&url, 1, Filler::Constant);
    encrypt(&server, folder.path(), "server");
    let ca = folder.path().join("ca.crt").display().to_string();
    let try_it = |host: &str, options: &str| {
        let url = format!("postgres://petal@{host}:{}/secure?{options}", server.port);
        open(&url, Settings::default()).loaded().map_err(|error| error.to_string())
    };
    let trusting = format!("sslrootcert={ca}");
    for (host, options) in [
        ("127.0.0.1", "sslmode=disable".to_owned()),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", format!("sslmode=verify-ca&{trusting}")),
        ("localhost", format!("sslmode=verify-full&{trusting}")),
    ] {
        let loaded = try_it(host, &options);
        assert_eq!(loaded.unwrap().len(), 1, "{options}");
    }
    for (host, options) in [
        ("127.0.0.1", format!("sslmode=verify-full&{trusting}")),
        ("localhost", "sslmode=verify-full&sslrootcert=system".to_owned()),
        ("localhost", "sslmode=verify-ca&sslrootcert=system".to_owned()),
    ] {
        let error = try_it(host, &options).unwrap_err();
        assert!(error.contains("certificate") && error.contains("sslrootcert"), "{error}");
    }
    // A certificate without extensions, as PostgreSQL's manual makes one, is of version 1.
    encrypt(&server, folder.path(), "old");
    for options in ["sslmode=prefer", "sslmode=require"] {
        assert_eq!(try_it("127.0.0.1", options).unwrap().len(), 1, "{options}");
    }
    // Without TLS at the server, `require` does not go on in the clear.
    server.client("postgres").batch_execute("ALTER SYSTEM SET ssl = off").unwrap();
    reload(&server);
    let error = try_it("127.0.0.1", "sslmode=require").unwrap_err();
    assert!(error.contains("TLS"), "{error}");
    try_it("127.0.0.1", "sslmode=prefer").unwrap();
}

#[test]
fn a_full_disk_refuses_the_load_and_leaves_nothing() {
    if !is_there() {
        return;
    }
    let Some(disk) = Mount::tmpfs("size=64m,mode=777") else { return };
    let url = shared().url("fullness");
    shared().tablespace("full", &disk.path(""));
    let work = Workplace::new();
    let small = format!("{url}&tablespace=full");
    work.petal(["setup", "--db", &small, "-s", "2", "--scale", "200M"])
        .exits(3)
        // In the server's words it is a write that failed, or one that was cut short.
        .telling(&["53100", "make room on the server's disk"]);
    assert!(open(&url, Settings::default()).loaded().unwrap().is_empty());
    // Where there is room, that is where the data go.
    load(&small, 1, Filler::Constant);
    let sql = "SELECT count(*) FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace \
               WHERE spcname = 'full' AND relname IN ('cf1', 'cf2', 'cf1_custid')";
    let mut client = shared().client("fullness");
    assert_eq!(client.query_one(sql, &[]).unwrap().get::<_, i64>(0), 3);
    open(&url, Settings::default()).drop_data().unwrap();
    client.batch_execute("CHECKPOINT").unwrap();
    client.batch_execute("DROP TABLESPACE \"full\"").unwrap();
}

#[test]
fn a_signal_ends_a_load_also_while_its_index_is_made() {
    if !is_there() {
        return;
    }
    let url = shared().url("signalled");
    let work = Workplace::new();
    let mut setup = work.petal(["setup", "--db", &url, "--scale", "600M"]).start();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'signalled' \
               AND query LIKE '%CREATE INDEX%' AND pid <> pg_backend_pid()";
    let mut client = shared().client("postgres");
    setup.until("an index", || client.query_one(sql, &[]).unwrap().get::<_, i64>(0) == 1);
    setup.signal(rustix::process::Signal::INT);
    setup.ends().exited(130);
    assert!(open(&url, Settings::default()).loaded().unwrap().is_empty());
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'petal%'";
    let left: i64 = shared().client("signalled").query_one(left, &[]).unwrap().get(0);
    assert_eq!(left, 0);
}

#[test]
fn an_older_routine_is_made_anew_and_a_newer_one_refused() {
    if !is_there() {
        return;
    }
    let url = shared().url("routines");
    load(&url, 1, Filler::Constant);
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
    let refused = open(&url, Settings::default()).connect(seat(1)).err().unwrap().to_string();
    assert!(refused.contains("newer petal") && refused.contains("LOOP=client"), "{refused}");
    let by_client = Settings { loop_side: Some(LoopSide::Client), ..Settings::default() };
    open(&url, by_client).connect(seat(1)).unwrap();
    comment(0);
    let mut client = shared().client("routines");
    // An older one with other arguments, which would stand beside the new one.
    let older = "CREATE PROCEDURE petal1.petal_run(x int) LANGUAGE sql AS 'SELECT 1'";
    client.batch_execute(&format!("DROP PROCEDURE {name}; {older}")).unwrap();
    let engine = open(&url, Settings::default());
    let mut session = engine.connect(seat(1)).unwrap();
    let mut done = Outcomes::default();
    session.execute(&[select(1, 8)], &unlimited(), &mut done).unwrap();
    assert_eq!(done.ended[0].rows, 8);
    let sql = "SELECT count(*) FROM pg_proc WHERE proname = 'petal_run'";
    assert_eq!(client.query_one(sql, &[]).unwrap().get::<_, i64>(0), 1);
}

#[test]
fn rows_that_are_missing_are_missed_in_their_operation_alone() {
    if !is_there() {
        return;
    }
    let url = shared().url("missing_rows");
    load(&url, 1, Filler::Constant);
    let deleted = "DELETE FROM petal1.cf1 WHERE custid IN (12, 13)";
    assert_eq!(shared().client("missing_rows").execute(deleted, &[]).unwrap(), 2);
    let engine = open(&url, Settings::default());
    let mut session = engine.connect(seat(1)).unwrap();
    let mut done = Outcomes::default();
    let batch = [select(1, 8), select(9, 8), select(17, 8), select(12, 1), select(1, 16)];
    session.execute(&batch, &unlimited(), &mut done).unwrap();
    let rows: Vec<u64> = done.ended.iter().map(|outcome| outcome.rows).collect();
    assert_eq!(rows, [8, 6, 8, 0, 14]);
    assert!(done.ended.iter().all(|outcome| outcome.error.is_none()));
}
