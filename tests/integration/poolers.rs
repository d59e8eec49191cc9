//! Poolers between petal and a server: petal refuses them, and the next client finds the pooled
//! connection as it was.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::engine_postgres::load;
use crate::server_mysql;
use crate::server_postgres::{pgpool_is_there, pooler_is_there, shared};
use crate::support::Workplace;

/// Settings and locks of a connection that petal could have left behind.
pub const LEFT_BEHIND: [&str; 6] = [
    "SHOW enable_seqscan",
    "SHOW plan_cache_mode",
    "SHOW client_min_messages",
    "SHOW lock_timeout",
    "SHOW search_path",
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = \
     (SELECT oid FROM pg_database WHERE datname = current_database())",
];

#[test]
fn a_pooler_is_refused_and_its_connections_stay_as_they_were() {
    if !pooler_is_there() {
        return;
    }
    load(&shared().url("pooled"), 1);
    let work = Workplace::new();
    for mode in ["transaction", "session"] {
        let pooler = shared().pooler(mode);
        let before = pooler.answers("pooled", &LEFT_BEHIND);
        let url = format!("postgres://petal@127.0.0.1:{}/pooled", pooler.port);
        for call in
            [&["run", "--work-loop", "5"][..], &["check"], &["setup", "--replace"], &["drop"]]
        {
            let refused = work.petal(call.iter().chain(&["--db", &url])).exits(3);
            refused.telling(&["a connection pooler answers", "connect to the server itself"]);
        }
        assert_eq!(pooler.answers("pooled", &LEFT_BEHIND), before, "{mode}");
    }
    assert!(work.runs().is_empty());
}

#[test]
fn pgpool_is_named_before_a_copy_hangs() {
    if !pgpool_is_there() {
        return;
    }
    load(&shared().url("behind_pgpool"), 1);
    let pooler = shared().pgpool();
    let url = format!("postgres://petal@127.0.0.1:{}/behind_pgpool", pooler.port);
    for call in [&["setup", "--replace"][..], &["check"], &["run", "--work-loop", "5"]] {
        let refused = Workplace::new().petal(call.iter().chain(&["--db", &url])).exits(3);
        refused.telling(&["pgpool answers, a connection pooler", "connect to the server itself"]);
    }
}

/// Bytes of a packet before its payload.
const HEADER_BYTES: usize = 4;

/// A relay to a MySQL or MariaDB server that greets with a number of its own, as poolers do.
fn mysql_pooler(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let mut greeting = vec![0; 4096];
            let length = server.read(&mut greeting).unwrap();
            // Version of the protocol, the server's version up to a zero, then the number.
            let version = &greeting[HEADER_BYTES + 1..];
            let end = version.iter().position(|&byte| byte == 0).unwrap();
            greeting[HEADER_BYTES + 1 + end + 1] ^= 0x55;
            client.write_all(&greeting[..length]).unwrap();
            let (mut to, mut from) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from, &mut to));
            thread::spawn(move || std::io::copy(&mut server, &mut client));
        }
    });
    own
}

#[test]
fn a_proxy_that_greets_for_the_server_is_refused() {
    if !server_mysql::is_there() {
        return;
    }
    let server = server_mysql::shared();
    let work = Workplace::new();
    let direct = server.tcp_url("proxied", server.port);
    work.petal(["check", "--db", &direct]).exits(1).telling(&[]);
    let url = server.tcp_url("proxied", mysql_pooler(server.port));
    for call in ["check", "setup"] {
        let refused = work.petal([call, "--db", &url]).exits(3);
        refused.telling(&["a connection pooler or proxy answers", "connect to the server itself"]);
    }
}
