//! What libpq reads of a URL and the environment, and what petal does while it settles.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use petal::engine::{self, Engine, Silent, Stop};
use petal::settings::Settings;
use petal::settings::url::TargetUrl;
use petal::workload::seat::{Role, Seat};
use rustix::process::Signal;

use crate::postgres::{certificates, encrypt};
use crate::postgres_silence::load;
use crate::server_postgres::{Server, is_there, shared};
use crate::support::Workplace;

fn open(url: &str) -> Arc<dyn Engine> {
    let db = TargetUrl::parse(url).unwrap();
    engine::open(&Settings { db, ..Settings::default() }).unwrap()
}

fn refusal(url: &str) -> String {
    open(url).loaded().map(|_| ()).unwrap_err().to_string()
}

#[test]
fn addresses_options_and_names_are_those_of_psql() {
    if !is_there() {
        return;
    }
    let server = shared();
    load(&server.url("way_in"), 1);
    let url = format!(
        "postgres://petal@no.such.name.invalid:{}/way_in?hostaddr=127.0.0.1&application_name=ours\
         &options=-c%20deadlock_timeout%3D7s%20-c%20statement_timeout%3D54321",
        server.port
    );
    let engine = open(&url);
    let (_, details) = engine.describe(1, 1).unwrap();
    let told = details.settings.iter().find(|(name, _)| name == "statement_timeout").unwrap();
    assert!(told.1.starts_with("54321"), "{told:?}");
    let seat = Seat { session: 1, schema: 1, endpoint: 0, role: Role::Mixed };
    let _session = engine.connect(seat).unwrap();
    let names = "SELECT DISTINCT application_name FROM pg_stat_activity \
                 WHERE datname = 'way_in' AND pid <> pg_backend_pid()";
    let rows = server.client("way_in").query(names, &[]).unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(names, ["ours"]);
}

#[test]
fn a_variable_is_heeded_or_refused() {
    if !is_there() {
        return;
    }
    let server = shared();
    load(&server.url("variables"), 1);
    let work = Workplace::new();
    let url = "postgres://petal@no.such.name.invalid/variables";
    let petal = |name: &str, value: &str| {
        work.petal(["run", "--work-loop", "10", "--db", url])
            .env("PGHOSTADDR", "127.0.0.1")
            .env("PGPORT", server.port.to_string())
            .env(name, value)
    };
    petal("PGOPTIONS", "-c geqo=off").exits(0);
    petal("PGOPTIONS", "-c no_such_setting=1").exits(3).telling(&["no_such_setting"]);
    petal("PGSSLCRL", "/revoked").exits(2).telling(&["PGSSLCRL=/revoked", "unset PGSSLCRL"]);
    petal("PGTARGETSESSIONATTRS", "standby").exits(3).telling(&["it is a primary, read-write"]);
    petal("PGHOSTADDR", "here").exits(2).telling(&["PGHOSTADDR"]);
    work.petal(["run", "--prefetch", "1001", "--db", url]).exits(2).telling(&["PREFETCH=1001"]);
}

#[test]
fn a_server_that_is_not_what_was_asked_for_is_refused() {
    if !is_there() {
        return;
    }
    let primary = Server::start(&["shared_buffers=16MB"]);
    load(&primary.url("asked"), 1);
    let standby = primary.standby();
    let url = |server: &Server, wanted: &str| {
        format!("postgres://petal@127.0.0.1:{}/asked?target_session_attrs={wanted}", server.port)
    };
    for (server, wanted) in [(&primary, "read-write"), (&primary, "primary"), (&standby, "standby")]
    {
        assert_eq!(open(&url(server, wanted)).loaded().unwrap().len(), 1, "{wanted}");
    }
    let told = refusal(&url(&standby, "read-write"));
    assert!(told.contains("it is a standby, read-only; target_session_attrs"), "{told}");
    assert!(refusal(&url(&primary, "standby")).contains("it is a primary, read-write"));
}

#[test]
fn channel_binding_is_required_where_it_is_asked_for() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let server = Server::start(&["shared_buffers=16MB", "password_encryption=scram-sha-256"]);
    load(&server.url("bound"), 1);
    let mut client = server.client("bound");
    let file: String = client
        .query_one("SELECT setting FROM pg_settings WHERE name = 'hba_file'", &[])
        .unwrap()
        .get(0);
    client
        .batch_execute(&format!(
            "CREATE ROLE bound SUPERUSER LOGIN PASSWORD 'tight'; \
             COPY (VALUES ('host all bound all scram-sha-256'), ('local all all trust'), \
             ('host all all all trust')) TO '{file}'"
        ))
        .unwrap();
    encrypt(&server, folder.path(), "server");
    let url = |user: &str, options: &str| {
        format!("postgres://{user}@127.0.0.1:{}/bound?{options}", server.port)
    };
    for options in ["sslmode=require&channel_binding=require", "channel_binding=prefer"] {
        assert_eq!(open(&url("bound:tight", options)).loaded().unwrap().len(), 1, "{options}");
    }
    // Nothing to bind to, or nobody who asks for a password.
    for (user, options) in [("bound:tight", "sslmode=disable"), ("petal", "sslmode=require")] {
        let told = refusal(&url(user, &format!("{options}&channel_binding=require")));
        assert!(told.contains("channel_binding"), "{told}");
    }
}

/// A transaction that keeps VACUUM of petal1.cf1 waiting.
const HOLD: &str = "BEGIN; LOCK TABLE petal1.cf1 IN SHARE UPDATE EXCLUSIVE MODE";
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                       AND query LIKE 'VACUUM%' AND wait_event_type = 'Lock'";

#[test]
fn a_signal_is_heard_while_settling_waits() {
    if !is_there() {
        return;
    }
    load(&shared().url("settling"), 1);
    let mut holder = shared().client("settling");
    holder.batch_execute(HOLD).unwrap();
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &shared().url("settling")]).start();
    let mut client = shared().client("settling");
    running.until("VACUUM", || client.query_one(WAITING, &[]).unwrap().get::<_, i64>(0) == 1);
    let begin = Instant::now();
    running.signal(Signal::INT);
    running.ends().exited(130);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!(client.query_one(WAITING, &[]).unwrap().get::<_, i64>(0), 0, "it was cancelled");
}

#[test]
fn settling_and_loading_may_take_longer_than_statements_of_the_role() {
    if !is_there() {
        return;
    }
    let url = shared().url("unhurried");
    shared()
        .client("unhurried")
        .batch_execute("ALTER ROLE petal IN DATABASE unhurried SET statement_timeout = '100ms'")
        .unwrap();
    let work = Workplace::new();
    work.petal(["setup", "--db", &url, "--scale", "64M"]).exits(0);
    let mut holder = shared().client("unhurried");
    holder.batch_execute(HOLD).unwrap();
    let engine = open(&url);
    let settling = thread::spawn(move || engine.settle(&Silent, &Stop::unlimited(Arc::default())));
    let mut client = shared().client("unhurried");
    while client.query_one(WAITING, &[]).unwrap().get::<_, i64>(0) == 0 {
        assert!(!settling.is_finished());
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(300));
    holder.batch_execute("ROLLBACK").unwrap();
    let settled = settling.join().unwrap().unwrap();
    assert_eq!(settled.done[0], "1 main tables vacuumed");
}
