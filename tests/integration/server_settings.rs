//! `petal sweep --server-setting` and `petal restore-settings`: whatever happens to petal or to the
//! server, the server's settings are those before, or the journal says so.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::engine_postgres::load;
use crate::facts::{changed_in_run, finding};
use crate::server_mysql;
use crate::server_postgres::{Server, is_there, shared};
use crate::support::{Ended, Mount, Petal, Workplace, record, until};

/// A server of its own, with one entry that a sweep changes and one that it does not.
struct Changed {
    server: Server,
    work: Workplace,
    before: Vec<String>,
}

impl Drop for Changed {
    fn drop(&mut self) {
        self.shell("stop -m immediate");
    }
}

impl Changed {
    fn new() -> Option<Self> {
        if !is_there() {
            return None;
        }
        let server = Server::start(&[]);
        load(&server.url("swept"), 1);
        let mut client = server.client("swept");
        client.batch_execute("ALTER SYSTEM SET work_mem = '3MB'").unwrap();
        client.batch_execute("ALTER SYSTEM SET application_name = 'it''s'").unwrap();
        client.batch_execute("SELECT pg_reload_conf()").unwrap();
        let before = server.stored_settings();
        assert_eq!(before.len(), 2, "{before:?}");
        Some(Self { server, work: Workplace::new(), before })
    }

    fn shell(&self, order: &str) {
        let _ = Command::new("/bin/sh").args(["-c", &self.server.pg_ctl(order)]).status();
    }

    /// A restart command that counts its calls, and does `instead` in one of them.
    fn restart(&self, name: &str, call: u32, instead: &str) -> String {
        let count = self.work.path(format!("{name}.count"));
        let count = count.display();
        let restart = self.server.pg_ctl("restart");
        format!(
            "echo >>{count}; if [ $(wc -l <{count}) = {call} ]; then {instead}; else {restart}; fi"
        )
    }

    fn sweep(&self, out: &str, restart: &str, more: &[&str]) -> Petal {
        let url = self.server.url("swept");
        let args = ["sweep", "--db", &url, "--sessions", "1", "--run-time", "1", "--out", out];
        let settings =
            ["--server-setting", "shared_buffers=16MB,24MB", "--restart-server", restart];
        self.work.petal([&args[..], &settings, more].concat())
    }

    fn restore(&self, out: &str, more: &[&str]) -> Petal {
        let (url, restart) = (self.server.url("swept"), self.server.pg_ctl("restart"));
        let args = ["restore-settings", out, "--db", &url, "--restart-server", &restart];
        self.work.petal([&args[..], more].concat())
    }

    fn journal(&self, out: &str) -> Value {
        let text = fs::read_to_string(self.work.path(out).join("server-settings.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[track_caller]
    fn is_as_before(&self) {
        assert_eq!(self.server.stored_settings(), self.before);
        let sql = "SELECT current_setting('shared_buffers'), current_setting('work_mem')";
        let row = self.server.client("swept").query_one(sql, &[]).unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("128MB", "3MB"));
    }
}

fn cells(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.join("run.json").exists()).collect()
}

#[test]
fn each_cell_has_its_values_in_effect_and_the_server_has_its_own_afterwards() {
    let Some(it) = Changed::new() else { return };
    let restart = it.restart("whole", 0, "false");
    let more = ["--server-setting", "work_mem=1MB,2MB"];
    it.sweep("whole", &restart, &more).exits(0);
    it.is_as_before();
    let dir = it.work.path("whole");
    let cells = cells(&dir);
    assert_eq!(cells.len(), 4);
    for cell in cells {
        let run = record(&cell);
        let asked = run.pointer("/settings/server.shared_buffers").unwrap().as_str().unwrap();
        let settings = run.pointer("/details/target/settings").unwrap();
        let there = settings.as_array().unwrap().contains(&json!(["shared_buffers", asked]));
        assert!(there, "{asked}: {settings}");
    }
    let csv = fs::read_to_string(dir.join("sweep.csv")).unwrap();
    assert!(csv.lines().next().unwrap().contains("server.shared_buffers"), "{csv}");
    assert!(it.journal("whole")["restored_at"].is_string());
    // Two blocks and the end: work_mem needs none.
    let restarts = fs::read_to_string(it.work.path("whole.count")).unwrap().lines().count();
    assert!((3..=5).contains(&restarts), "{restarts} restarts");
    // The same command has nothing to do, and does not touch the server.
    it.sweep("whole", "false", &more).exits(0).telling(&["complete"]);
    it.restore("whole", &[]).exits(0);
}

#[test]
fn a_sweep_killed_at_any_step_is_put_back() {
    let Some(it) = Changed::new() else { return };
    let kill = "kill -9 $PPID; sleep 0.2";
    let stop = it.server.pg_ctl("stop");
    let restart = it.server.pg_ctl("restart");
    let steps = [
        ("stored", 1, kill.to_owned()),
        ("down", 1, format!("{stop}; {kill}")),
        ("second", 2, kill.to_owned()),
        ("changed", 2, format!("{restart}; {kill}")),
        ("end", 3, kill.to_owned()),
        ("restarted", 3, format!("{restart}; {kill}")),
    ];
    for (out, call, instead) in steps {
        let ended = it.sweep(out, &it.restart(out, call, &instead), &[]).ends();
        assert!(ended.code != Some(0), "{out}: {}", ended.stderr);
        assert!(it.journal(out)["restored_at"].is_null(), "{out}");
        it.restore(out, &[]).exits(0);
        it.is_as_before();
        it.restore(out, &[]).exits(0);
    }
    // In a cell; the same command goes on.
    let hook = it.work.script("hook.sh", "[ -e hooked ] || { touch hooked; kill -9 $PPID; }");
    let hook = hook.display().to_string();
    let more = ["--external-script", hook.as_str()];
    let restart = it.server.pg_ctl("restart");
    it.sweep("cell", &restart, &more).ends();
    assert!(it.journal("cell")["restored_at"].is_null());
    it.sweep("cell", &restart, &more).exits(0).telling(&["an earlier petal left settings"]);
    it.is_as_before();
    // After the journal, before the first change.
    let mut journal = it.journal("cell");
    journal["restored_at"] = Value::Null;
    let path = it.work.path("cell").join("server-settings.json");
    fs::write(&path, journal.to_string()).unwrap();
    it.restore("cell", &[]).exits(0);
    it.is_as_before();
}

#[test]
fn what_cannot_be_changed_is_refused_before_anything_is_changed() {
    let Some(it) = Changed::new() else { return };
    let sweep = |user: &str, settings: &[&str]| -> Petal {
        let url = it.server.url("swept").replace("petal@", &format!("{user}@"));
        let args = ["sweep", "--db", &url, "--sessions", "1", "--run-time", "1", "--out", "no"];
        let settings = settings.iter().flat_map(|setting| ["--server-setting", setting]);
        it.work.petal(args.into_iter().chain(settings).collect::<Vec<_>>())
    };
    let refused = |settings: &[&str], words: &[&str]| -> Ended {
        sweep("petal", settings).exits(2).telling(words)
    };
    refused(&["shared_buffers=16MB"], &["only when the server restarts", "--restart-server"]);
    refused(&["work_mem=1XB"], &["work_mem=1XB", "must be a number", "kB, MB, GB"]);
    refused(&["work_mem=1MB,1024kB"], &["is twice"]);
    refused(&["no_such=1"], &["no such setting"]);
    refused(&["enable_seqscan=on"], &["petal sets it in each session"]);
    for name in ["archive_command", "jit_provider", "hba_file", "log_directory", "block_size"] {
        refused(&[&format!("{name}=x")], &["does not change this setting", "server-settings.md"]);
    }
    for name in ["fsync=off", "full_page_writes=off", "zero_damaged_pages=on"] {
        refused(&[name], &["does not change this setting"]);
    }
    // A server that starts with it has no way back.
    refused(&["huge_pages=on"], &["must be one of off, try"]);
    refused(&["shared_buffers=900GB"], &["more than the memory of the server's host"]);
    refused(&["work_mem=100GB"], &["must be a number from 64 to 67108864"]);
    let mut client = it.server.client("swept");
    client.batch_execute("CREATE ROLE plain LOGIN; GRANT pg_read_all_data TO plain").unwrap();
    sweep("plain", &["work_mem=1MB"]).exits(3).telling(&["work_mem", "may not change it"]);
    assert!(!it.work.path("no").exists());
    it.is_as_before();
}

#[test]
fn a_restart_that_fails_fails_its_cell_and_a_server_that_stays_away_ends_the_sweep() {
    let Some(it) = Changed::new() else { return };
    let failed = it.sweep("failed", "echo no; false", &[]).ends();
    assert!(failed.code != Some(0));
    let failed = failed.telling(&["measured nothing", "exit status: 1", "restart-server.log"]);
    assert!(!failed.stderr.contains("restore-settings"), "{}", failed.stderr);
    assert!(cells(&it.work.path("failed")).is_empty());
    it.is_as_before();

    let restart = it.restart("away", 2, &it.server.pg_ctl("stop"));
    let away = it.sweep("away", &restart, &["--restart-limit", "10"]).exits(3);
    away.telling(&["did not answer within 10 s", "restore-settings", "postgresql.auto.conf"]);
    assert_eq!(cells(&it.work.path("away")).len(), 1, "measured data is kept");
    assert!(it.journal("away")["restored_at"].is_null());
    it.restore("away", &[]).exits(0);
    it.is_as_before();
}

#[test]
fn neither_another_server_nor_the_value_of_somebody_else_is_changed() {
    let Some(it) = Changed::new() else { return };
    it.sweep("foreign", &it.restart("foreign", 2, "kill -9 $PPID"), &[]).ends();
    let url = shared().url("swept");
    it.work
        .petal(["restore-settings", "foreign", "--db", &url])
        .exits(3)
        .telling(&["another server"]);
    let sql = "ALTER SYSTEM SET shared_buffers = '32MB'";
    it.server.client("swept").batch_execute(sql).unwrap();
    let refused = it.restore("foreign", &[]).exits(3);
    refused.telling(&["shared_buffers", "somebody else", "32MB", "--force"]);
    assert!(it.server.stored_settings().iter().any(|line| line.contains("32MB")));
    it.restore("foreign", &["--force"]).exits(0);
    it.is_as_before();
    it.work.petal(["restore-settings", "."]).exits(2).telling(&["server-settings.json"]);
}

/// A journal that somebody else made changes only settings of petal's list, within their ranges, and
/// nothing at all if one of its values is refused.
#[test]
fn a_strangers_journal_stores_nothing_but_permitted_settings() {
    let Some(it) = Changed::new() else { return };
    let sql = "SELECT system_identifier FROM pg_control_system()";
    let id: i64 = it.server.client("swept").query_one(sql, &[]).unwrap().get(0);
    let setting = |name: &str, stored: &str| json!({"name": name, "stored": stored, "in_effect": stored, "values": ["3MB"]});
    for (name, value, words) in [
        ("jit_provider", "evil", "does not change this setting"),
        ("fsync", "off", "does not change this setting"),
        ("work_mem", "100GB", "work_mem=100GB: must be a number"),
        ("shared_buffers", "900GB", "more than the memory"),
        ("synchronous_commit", "off'; DROP TABLE x; --", "must be one of"),
    ] {
        let journal = json!({
            "format": "petal-server-settings/1", "db": it.server.url("swept"), "place": "x",
            "server": format!("system identifier {}", id.cast_unsigned()),
            "changed_at": "2026-01-01T00:00:00Z", "restored_at": null,
            "settings": [setting("work_mem", "1MB"), setting(name, value)],
        });
        it.work.write("theirs/server-settings.json", journal.to_string());
        it.restore("theirs", &["--force"]).exits(2).telling(&[words]);
        it.is_as_before();
    }
}

/// The server has its settings, and the message says so, though the journal cannot be closed.
#[test]
fn settings_that_are_put_back_on_a_full_disk_are_not_reported_as_lost() {
    let (Some(it), Some(disk)) = (Changed::new(), Mount::tmpfs("size=4k,mode=755")) else { return };
    let mut client = it.server.client("swept");
    let sql = "SELECT system_identifier FROM pg_control_system()";
    let id: i64 = client.query_one(sql, &[]).unwrap().get(0);
    client.batch_execute("ALTER SYSTEM SET work_mem = '5MB'").unwrap();
    client.batch_execute("SELECT pg_reload_conf()").unwrap();
    let changed =
        json!({"name": "work_mem", "stored": "3MB", "in_effect": "3072", "values": ["5MB"]});
    let journal = json!({
        "format": "petal-server-settings/1", "db": it.server.url("swept"), "place": "x",
        "server": format!("system identifier {}", id.cast_unsigned()),
        "changed_at": "2026-01-01T00:00:00Z", "restored_at": null, "settings": [changed],
    });
    fs::write(disk.path("server-settings.json"), journal.to_string()).unwrap();
    let told = ["the server has its original settings again", "does not say so"];
    it.restore(disk.path("").to_str().unwrap(), &[]).exits(3).telling(&told);
    it.is_as_before();
}

/// The page has petal's lists, and servers have the settings in them.
#[test]
fn the_permitted_settings_are_those_of_the_page_and_of_servers() {
    use petal_engine::server_settings::PermittedSetting;
    let (postgres, mysql): (&[PermittedSetting], &[PermittedSetting]) =
        (petal_postgres::permitted_settings::PERMITTED, petal_mysql::permitted_settings::PERMITTED);
    let table = |product: &str, all: &[PermittedSetting]| {
        let rows: String = all.iter().map(PermittedSetting::row).collect();
        format!("\n| {product} | values | takes effect |\n|---|---|---|\n{rows}")
    };
    let made = table("PostgreSQL", postgres) + &table("MySQL, MariaDB", mysql) + "\n";
    let marks = ("<!-- Settings: written by a test. -->\n", "<!-- End of the settings. -->");
    crate::support::check_docs("docs/recipes/server-settings.md", marks, |_| made);
    if is_there() {
        let mut client = shared().client("postgres");
        for setting in postgres {
            let sql = "SELECT context = 'postmaster' FROM pg_settings WHERE name = $1";
            let found = client.query_opt(sql, &[&setting.name]).unwrap();
            let is_newer = setting.name.starts_with("io_") || setting.name.contains("_usage_limit");
            assert!(found.is_some() || is_newer, "{}", setting.name);
            found.iter().for_each(|row| assert_eq!(row.get::<_, bool>(0), setting.needs_restart));
        }
    }
}

#[test]
fn a_variable_of_mariadb_is_swept_and_set_back() {
    if server_mysql::mariadb().is_none() {
        return;
    }
    let server = server_mysql::Server::start(&[]);
    let url = server.url("swept");
    let work = Workplace::new();
    work.petal(["setup", "--db", &url, "-s", "1", "--scale", "16M"]).exits(0);
    let capacity = || server.sql("swept", "SELECT @@GLOBAL.innodb_io_capacity")[0][0].clone();
    let before = capacity();
    let sweep = |setting: &str| {
        let args = ["sweep", "--db", &url, "--sessions", "1", "--run-time", "1", "--out", "s"];
        work.petal([&args[..], &["--server-setting", setting]].concat())
    };
    sweep("innodb_flush_method=fsync").exits(2).telling(&["innodb_flush_method", "option files"]);
    for hostile in ["init_connect=GRANT ALL", "general_log_file=/tmp/x", "innodb_doublewrite=OFF"] {
        sweep(hostile).exits(2).telling(&["does not change this setting"]);
    }
    sweep("innodb_io_capacity=1x").exits(2).telling(&["must be a number"]);
    // petal does not take this name for the own host's, whose memory it would know.
    let elsewhere = server.tcp_url("swept", server.port).replace("127.0.0.1", "127.1");
    let args = ["sweep", "--db", &elsewhere, "--sessions", "1", "--run-time", "1", "--out", "s"];
    let large = ["--server-setting", "innodb_buffer_pool_size=9T", "--server-setting", "no_such=1"];
    let refused = work.petal([&args[..], &large].concat()).exits(2);
    refused.telling(&["petal cannot see the memory of the server's host", "no_such"]);
    sweep("innodb_io_capacity=150,300").exits(0);
    assert_eq!((cells(&work.path("s")).len(), capacity()), (2, before));
    let other = server.session("swept", "SELECT GET_LOCK('petal server settings', 9)");
    let is_locked = "SELECT IS_USED_LOCK('petal server settings') IS NOT NULL";
    until("the lock", || server.sql("swept", is_locked)[0][0] == "1");
    fs::remove_dir_all(work.path("s")).unwrap();
    sweep("innodb_io_capacity=170").exits(3).telling(&["another petal (connection"]);
    drop(other);
    // Each variable of the list takes a value as petal writes it.
    let engine = crate::engine_postgres::open(&url);
    let settings = engine.server().and_then(|server| server.settings()).unwrap();
    let there = petal_mysql::permitted_settings::PERMITTED.iter().filter_map(|permitted| {
        let setting = settings.read_setting(permitted.name).ok()?;
        let own = setting.permitted(&setting.in_effect).ok()?;
        settings.store_setting(&setting, Some(&own)).unwrap();
        Some(permitted.name)
    });
    let there: Vec<&str> = there.collect();
    assert!(there.len() > 15 && there.contains(&"innodb_flush_log_at_trx_commit"), "{there:?}");
    changed_in_run(&work, &url, || {
        server.sql("swept", "SET GLOBAL innodb_flush_log_at_trx_commit = 0");
    });
    let message = finding(&work, "settings-changed");
    assert!(message.contains("innodb_flush_log_at_trx_commit: 1 -> 0 in second "), "{message}");
    assert!(finding(&work, "not-durable").contains("innodb_flush_log_at_trx_commit=0"));
}
