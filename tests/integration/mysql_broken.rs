//! MariaDB's or MySQL's connections that break: the network is cut or falls silent, the server stands
//! still or dies in a load, its disk is full, its certificate is not the trusted one.

use rustix::process::{Pid, Signal, kill_process};

use petal_settings::Settings;

use crate::certificates::certificates;
use crate::engine_postgres::open_with;
use crate::mysql::load;
use crate::proxy::Proxy;
use crate::server_mysql::{Server, is_there, shared};
use crate::support::{Mount, Workplace, count, number, record};

/// Far from its end is what a test does within such a run, also on a busy machine.
const RUN_S: &str = "12";

/// A loaded database behind a proxy.
fn behind_proxy(database: &str, schemas: u32) -> (Proxy, String) {
    if schemas > 0 {
        load(&shared().url(database), schemas);
    }
    let proxy = Proxy::to(shared().port);
    let url = shared().tcp_url(database, proxy.port);
    (proxy, format!("{url}?connect_timeout=2&ssl_mode=DISABLED"))
}

/// Sessions lost in a run, each with this code; the rest of the run is kept.
fn assert_lost(run: &serde_json::Value, sessions: usize, code: &str) {
    let lost = run["sessions_lost"].as_array().unwrap();
    assert_eq!(lost.len(), sessions, "{lost:?}");
    assert!(lost.iter().all(|lost| lost["code"] == code), "{lost:?}");
    assert!(count(run, "/ops/total") > 0);
}

#[test]
fn a_cut_network_loses_sessions_and_keeps_what_was_measured() {
    if !is_there() {
        return;
    }
    let (proxy, url) = behind_proxy("cutting", 2);
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &url, "--run-time", RUN_S, "--json"]).start();
    running.until("operations", || work.seconds().len() >= 3);
    proxy.cut();
    assert_lost(&running.ends().exited(1).json(), 2, "connection");
}

#[test]
fn a_network_that_falls_silent_in_a_run_ends_it_with_what_was_measured() {
    if !is_there() {
        return;
    }
    let (proxy, url) = behind_proxy("silent_run", 2);
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &url, "--run-time", RUN_S, "--json"]).start();
    running.until("operations", || work.seconds().len() >= 3);
    proxy.fall_silent();
    let run = running.ends().exited(1).json();
    assert_lost(&run, 2, "no-answer");
    assert!(number(&run, "/counted_until/second") >= 1.0);
    let gaps = record(&work.run_folder()).to_string();
    assert!(gaps.contains("the closing snapshot failed"), "{gaps}");
}

#[test]
fn a_network_that_falls_silent_in_a_load_ends_it() {
    if !is_there() {
        return;
    }
    let (proxy, url) = behind_proxy("silent_load", 0);
    let work = Workplace::new();
    let mut setup = work.petal(["setup", "--db", &url, "-s", "2", "--scale", "1G"]).start();
    let loads = "SELECT 1 FROM information_schema.processlist \
                 WHERE db = 'silent_load' AND info LIKE 'INSERT%'";
    setup.until("a loader", || !shared().sql("", loads).is_empty());
    proxy.fall_silent();
    setup.ends().exited(3).telling(&["no answer for 10 s"]);
    proxy.cut();
    let url = shared().url("silent_load");
    assert!(open_with(&url, Settings::default()).loaded().unwrap().is_empty());
}

#[test]
fn a_server_that_takes_connections_and_says_nothing_is_not_waited_for() {
    if !is_there() {
        return;
    }
    let (proxy, url) = behind_proxy("silent_door", 0);
    proxy.fall_silent();
    let work = Workplace::new();
    for args in [&["run", "--db", &url][..], &["setup", "--db", &url], &["drop", "--db", &url]] {
        let telling = [&*format!("127.0.0.1:{}", proxy.port), "no answer within"];
        work.petal(args).exits(3).telling(&telling);
    }
}

#[test]
fn a_stopped_server_loses_its_sessions() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    let url = server.url("still");
    load(&url, 1);
    let work = Workplace::new();
    let args = ["run", "--db", &url, "-t", "2", "--run-time", RUN_S, "--json"];
    let mut running = work.petal(args).start();
    running.until("operations", || work.seconds().len() >= 3);
    let process = Pid::from_raw(server.process()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let ended = running.ends();
    kill_process(process, Signal::CONT).unwrap();
    assert_lost(&ended.exited(1).json(), 2, "no-answer");
}

#[test]
fn a_load_that_dies_with_its_server_leaves_nothing() {
    if !is_there() {
        return;
    }
    let mut server = Server::start(&[]);
    let url = server.url("dying");
    let work = Workplace::new();
    let mut setup = work.petal(["setup", "--db", &url, "-s", "2", "--scale", "2G"]).start();
    let loads = "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'INSERT%'";
    setup.until("a loader", || !server.sql("", loads).is_empty());
    server.crash();
    setup.ends().exited(3);
    let engine = open_with(&url, Settings::default());
    assert!(engine.loaded().unwrap().is_empty());
    // What was cut off does not stand in the way of the next load.
    load(&url, 1);
    assert!(engine.placement(1).unwrap().is_one_row_per_block());
    assert_eq!(server.sql("dying", "SHOW TABLES").len(), 3);
}

#[test]
fn a_full_disk_ends_the_load_in_words_and_leaves_nothing() {
    if !is_there() {
        return;
    }
    let Some(disk) = Mount::tmpfs("size=700m,mode=777") else { return };
    let small = ["innodb-log-file-size=32M", "innodb-flush-method=fsync"];
    let server = Server::start_below(&disk.path(""), &small);
    let url = server.url("full");
    load(&url, 1);
    let work = Workplace::new();
    // It fits at first; somebody else fills the disk while a lock holds up the load, which is quick.
    let args = ["setup", "--db", &url, "-s", "2", "--scale", "64M", "--replace"];
    let mut setup = work.petal(args).start();
    let waiting = |state: &str| {
        let loads = "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'INSERT%'";
        !server.sql("", &format!("{loads} AND state LIKE '{state}'")).is_empty()
    };
    setup.until("a loader", || waiting("%"));
    let lock = server.session("", "FLUSH TABLES WITH READ LOCK");
    setup.until("a loader that waits for the lock", || waiting("Waiting for %lock"));
    let _ = std::fs::write(disk.path("others"), vec![1; 700 << 20]);
    drop(lock);
    setup.ends().exited(3).telling(&["make room on the server's disk"]);
    disk.free("others");
    // The load before is still there, and whole.
    let engine = open_with(&url, Settings::default());
    assert_eq!(engine.loaded().unwrap().len(), 1);
    assert!(engine.placement(1).unwrap().is_one_row_per_block());
}

#[test]
fn tls_verifies_as_much_as_ssl_mode_says() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let mut server = Server::start(&[]);
    load(&server.url("secure"), 1);
    let url = server.tcp_url("secure", server.port);
    server.stop("TERM");
    let secret = |name: &str| server.secret_file(name, &folder.path().join(name));
    let settings = ["ca.crt", "server.crt", "server.key"].map(secret);
    let [ca, certificate, key] = &settings;
    let settings =
        [format!("ssl-ca={ca}"), format!("ssl-cert={certificate}"), format!("ssl-key={key}")];
    server.restart(&settings.each_ref().map(String::as_str));
    let file = |name: &str| folder.path().join(name).display().to_string();
    let try_it = |host: &str, options: &str| {
        let url = format!("{}?{options}", url.replace("127.0.0.1", host));
        open_with(&url, Settings::default()).loaded().map_err(|error| error.to_string())
    };
    let (trusted, other) =
        (format!("ssl_ca={}", file("ca.crt")), format!("ssl_ca={}", file("self.crt")));
    for (host, options) in [
        ("127.0.0.1", "ssl_mode=REQUIRED".to_owned()),
        ("localhost", format!("ssl_mode=VERIFY_CA&{trusted}")),
        ("localhost", format!("ssl_mode=VERIFY_IDENTITY&{trusted}")),
    ] {
        assert_eq!(try_it(host, &options).unwrap().len(), 1, "{options}");
    }
    for (host, options) in [
        ("127.0.0.1", format!("ssl_mode=VERIFY_IDENTITY&{trusted}")),
        ("localhost", format!("ssl_mode=VERIFY_CA&{other}")),
    ] {
        let error = try_it(host, &options).unwrap_err();
        assert!(error.contains("certificate") && error.contains("ssl_ca"), "{error}");
    }
    // A user who must show a certificate of the authority's.
    server.sql("", "CREATE USER shown@'%' REQUIRE X509; GRANT ALL ON secure.* TO shown@'%'");
    let shown = |options: &str| {
        let url = format!("{}?ssl_mode=REQUIRED{options}", url.replace("petal@", "shown@"));
        open_with(&url, Settings::default()).loaded().map_err(|error| error.to_string())
    };
    let own = format!("&ssl_cert={}&ssl_key={}", file("client.crt"), file("client.key"));
    assert!(shown("").unwrap_err().contains("1045"));
    assert_eq!(shown(&own).unwrap().len(), 1);
}
