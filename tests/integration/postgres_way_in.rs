//! What libpq reads of a URL and the environment, and petal too.

use crate::engine_postgres::{SEAT, load, open};
use crate::server_postgres::{Server, is_there, shared, slow_index};
use crate::support::{Workplace, contents};

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
    let reported = details.settings.iter().find(|(name, _)| name == "statement_timeout").unwrap();
    assert!(reported.1.starts_with("54321"), "{reported:?}");
    let _session = engine.connect(SEAT).unwrap();
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
    let reported = refusal(&url(&standby, "read-write"));
    assert!(reported.contains("it is a standby, read-only; target_session_attrs"), "{reported}");
    assert!(refusal(&url(&primary, "standby")).contains("it is a primary, read-write"));
}

#[test]
fn a_role_whose_idle_sessions_are_ended_soon_keeps_those_of_petal() {
    if !is_there() || shared().version() < 140_000 {
        return;
    }
    let server = shared();
    let url = server.url("idle").replace("petal@", "idle@");
    let mut client = server.client("idle");
    let sql = "CREATE ROLE idle LOGIN SUPERUSER; ALTER ROLE idle SET idle_session_timeout = '1s'; \
               ALTER ROLE idle SET idle_in_transaction_session_timeout = '1s'";
    client.batch_execute(sql).unwrap();
    // The coordinator of the load is idle for longer than that, and so are sessions before a run.
    slow_index(&mut client, 1.5);
    let work = Workplace::new();
    work.petal(["setup", "--db", &url, "-s", "1", "--scale", "16M"]).exits(0);
    let script = work.script("hook.sh", "sleep 1.5").display().to_string();
    let args = ["run", "--db", &url, "--work-loop", "5", "--external-script", &script];
    work.petal(args).exits(0);
}

/// A program whose password is in a file.
fn password_command(work: &Workplace) -> String {
    work.script("password.sh", "cat ${0%/*}/password; echo \"$@\" >>${0%/*}/asked")
        .display()
        .to_string()
}

#[test]
fn a_token_that_is_replaced_in_a_run_is_asked_for_again_and_never_shown() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["shared_buffers=16MB"]);
    load(&server.url("tokens"), 1);
    let mut client = server.client("tokens");
    let file: String = client.query_one("SHOW hba_file", &[]).unwrap().get(0);
    let sql = format!(
        "CREATE ROLE token SUPERUSER LOGIN PASSWORD 's3cret-first'; \
         COPY (VALUES ('host all token all scram-sha-256'), ('local all all trust')) TO '{file}'; \
         SELECT pg_reload_conf()"
    );
    client.batch_execute(&sql).unwrap();
    let work = Workplace::new();
    let command = password_command(&work);
    let url = format!("postgres://token@127.0.0.1:{}/tokens", server.port);
    work.write("password", "s3cret-wrong\n");
    let args = ["run", "--run-time", "6", "--on-disconnect", "retry", "--db", &url];
    let petal = || work.petal(args).env("PASSWORD_COMMAND", &command);
    petal().exits(3).telling(&["password authentication failed"]);
    work.write("password", "s3cret-first\n");
    let mut run = petal().start();
    // A session that still prepares would end the run.
    run.until("a second of the run", || !work.seconds().is_empty());
    work.write("password", "s3cret-second\n");
    let sql = "ALTER ROLE token PASSWORD 's3cret-second'; SELECT pg_terminate_backend(pid) \
               FROM pg_stat_activity \
               WHERE application_name LIKE 'petal session%'";
    client.batch_execute(sql).unwrap();
    run.ends().exited(0);
    let asked = std::fs::read_to_string(work.path("asked")).unwrap();
    assert!(asked.lines().all(|line| line == format!("127.0.0.1 {} token", server.port)));
    // Once for each wrong or new password, though some dozens of connections were made.
    let count = asked.lines().count();
    assert!((3..=6).contains(&count), "{count}");
    let folder = work.run_folder();
    for (path, bytes) in contents(folder.parent().unwrap()) {
        let shown = bytes.windows(6).any(|part| part == b"s3cret");
        assert!(!shown, "{}", path.display());
    }
    let given = url.replace("token@", "token:word@");
    work.petal(["check", "--db", &given])
        .env("PASSWORD_COMMAND", &command)
        .exits(2)
        .telling(&["PASSWORD_COMMAND", "prints a password, and DB has one"]);
}
