//! HAProxy between petal and a server, which closes connections on which nothing passed for five seconds: a load
//! is not lost at its last step, and a run keeps its hold on the data.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::keeper::Keeper;
use crate::oracle_wire::stand_in::{Release, StandIn};
use crate::proxy::Proxy;
use crate::support::{Workplace, findings, free_port, record, skip, until};
use crate::{server_mysql, server_postgres};

const HAPROXY: &str = "/usr/sbin/haproxy";

/// Whether tests of HAProxy can run here; says why not.
pub fn is_there() -> bool {
    let there = Path::new(HAPROXY).exists();
    if !there {
        skip("no HAProxy is installed: scripts/install-test-servers.sh does it");
    }
    there
}

pub struct HaProxy {
    pub port: u16,
    _keeper: Keeper,
    _folder: TempDir,
}

impl HaProxy {
    /// HAProxy before a server's port.
    pub fn before(server: u16) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let settings = format!(
            "defaults\n mode tcp\n timeout connect 10s\n timeout client 5s\n timeout server 5s\n\
             listen server\n bind 127.0.0.1:{port}\n server one 127.0.0.1:{server}\n"
        );
        let file = folder.path().join("haproxy.cfg");
        fs::write(&file, settings).unwrap();
        let mut program = Command::new(HAPROXY);
        program.args(["-db", "-f"]).arg(&file);
        let shell = Command::new("/bin/sh");
        let keeper = Keeper::start(shell, folder.path(), "KILL", &program);
        until("HAProxy listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { port, _keeper: keeper, _folder: folder }
    }
}

/// Loads two schemas one after the other over a slow network. Runs for longer than HAProxy waits, with sessions that
/// think for longer.
fn assert_kept(port: u16, delay_ms: u64, url: impl Fn(u16) -> String) {
    let network = Proxy::to(port);
    let proxy = HaProxy::before(network.port);
    let (work, url) = (Workplace::new(), url(proxy.port));
    network.delay(Duration::from_millis(delay_ms));
    let load = ["setup", "-s", "2", "--scale", "16M", "--load-parallel-degree", "1", "--db", &url];
    work.petal(load).exits(0);
    network.delay(Duration::ZERO);
    let think = ["--think-tm-frequency", "1", "--think-tm-min", "6", "--think-tm-max", "7"];
    let run = ["run", "-s", "2", "--run-time", "8", "--loop", "client", "--db", &url];
    work.petal([&run[..], &think].concat()).exits(0);
    let run = record(&work.run_folder());
    assert_eq!(
        run["details"]["gaps"].as_array().map_or(0, Vec::len),
        0,
        "{:#}",
        run["details"]["gaps"]
    );
    assert!(!findings(&run).contains(&"lost-sessions"), "{:?}", findings(&run));
}

#[test]
fn a_load_and_a_run_outlast_a_proxy_that_closes_idle_connections() {
    if is_there() && server_postgres::is_there() {
        let server = server_postgres::shared();
        let url = server.tcp_url("idle_proxy");
        let direct = format!(":{}/", server.port);
        assert_kept(server.port, 60, |port| url.replace(&direct, &format!(":{port}/")));
    }
}

/// Settling waits for somebody's lock for longer than HAProxy waits, as a CHECKPOINT or an index may take.
#[test]
fn a_statement_outlasts_a_proxy_that_closes_idle_connections() {
    if !is_there() || !server_postgres::is_there() {
        return;
    }
    let (server, work) = (server_postgres::shared(), Workplace::new());
    let (url, proxy) = (server.tcp_url("slow_statement"), HaProxy::before(server.port));
    let slow = url.replace(&format!(":{}/", server.port), &format!(":{}/", proxy.port));
    work.petal(["setup", "-s", "1", "--scale", "1024", "--db", &url]).exits(0);
    let mut other = server.client("slow_statement");
    other.batch_execute("BEGIN; LOCK TABLE petal1.cf1 IN SHARE UPDATE EXCLUSIVE MODE").unwrap();
    let mut run = work.petal(["run", "-s", "1", "--work-loop", "10", "--db", &slow]).start();
    let waiting = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'VACUUM petal1%' AND state = 'active' \
                   AND datname = 'slow_statement' AND now() - query_start > interval '7 s'";
    until("VACUUM waits", || {
        run.has_ended() || !server.client("slow_statement").query(waiting, &[]).unwrap().is_empty()
    });
    other.batch_execute("COMMIT").unwrap();
    run.ends().exited(0);
}

#[test]
fn a_load_and_a_run_on_oracle_outlast_a_proxy_that_closes_idle_connections() {
    if is_there() {
        let stand_in = StandIn::start(Release::Free23);
        let direct = format!(":{}/", stand_in.port);
        let url = |port| stand_in.url().replace(&direct, &format!(":{port}/"));
        assert_kept(stand_in.port, 10, url);
    }
}

#[test]
fn a_load_and_a_run_on_mysql_outlast_a_proxy_that_closes_idle_connections() {
    if is_there() && server_mysql::is_there() {
        let server = server_mysql::shared();
        assert_kept(server.port, 10, |port| server.tcp_url("idle_proxy", port));
    }
}
