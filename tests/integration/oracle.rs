//! petal with `--db oracle:` where no database answers: exit codes, words, and no secret.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::certificates::certificates;
use crate::support::{Workplace, free_port};

/// A peer that does `serve` with each connection; its port.
fn peer(serve: fn(TcpStream)) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    port
}

#[test]
fn every_command_ends_with_3_without_a_listener() {
    let work = Workplace::new();
    for command in ["setup", "run", "drop", "check"] {
        let url = "oracle://petal:s3cret@127.0.0.1:1/iops";
        let ended = work.petal([command, "--db", url]).exits(3);
        let ended = ended.telling(&["127.0.0.1:1/iops", "Connection refused", "listener"]);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
}

#[test]
fn a_password_comes_from_the_environment_or_its_file() {
    let work = Workplace::new();
    let petal = || work.petal(["drop", "--db", "oracle://petal@127.0.0.1:1/iops"]);
    petal().exits(3).telling(&["no credentials", "ORACLE_PASSWORD"]);
    let file = work.write("password", "s3cret\n");
    for given in ["s3cret".to_owned(), format!("@{}", file.display())] {
        let ended = petal().env("ORACLE_PASSWORD", given).exits(3).telling(&["Connection refused"]);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
    petal().env("ORACLE_PASSWORD", "@/no/such/file").exits(2).telling(&["ORACLE_PASSWORD"]);
}

#[test]
fn aliases_come_from_tns_admin() {
    let work = Workplace::new();
    let alias = "(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=127.0.0.1)(PORT=1))\
                 (CONNECT_DATA=(SERVICE_NAME=iops)))";
    work.write("net/tnsnames.ora", format!("slob1 = {alias}\nslob2 = {alias}\n"));
    let petal = |db: &str, args: &[&str]| {
        let folder = work.path("net").display().to_string();
        let petal = work.petal([&["drop", "--db", db], args].concat());
        petal.env("TNS_ADMIN", folder).env("ORACLE_PASSWORD", "s3cret").exits(3)
    };
    petal("oracle://petal@slob2", &[]).telling(&["slob2: connecting", "Connection refused"]);
    petal("oracle://petal@slob3", &[]).telling(&[
        "slob3: unable to find this alias",
        "slob1, slob2",
        "TNS_ADMIN",
    ]);
    let numbered = ["--sqlnet-service-base", "slob", "--sqlnet-service-max", "2"];
    petal("oracle://petal@slob9", &numbered).telling(&["slob1: connecting", "Connection refused"]);
}

#[test]
fn silence_and_garbage_are_reported_without_a_trace() {
    let work = Workplace::new();
    let silent = peer(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    // A packet of a type that nobody knows: the driver itself would panic.
    let odd = peer(|mut stream| {
        let mut packet = [0u8; 32];
        (packet[1], packet[4]) = (32, 99);
        let _ = stream.write_all(&packet);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    // Its first words are, to Oracle's protocol, the length of a packet that never ends.
    let web = peer(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let not_oracle = "does not speak Oracle's protocol";
    let peers = [
        (silent, 1, "no answer within 1 s"),
        (odd, 60, not_oracle),
        (web, 1, "no answer within 1 s"),
    ];
    for (port, limit, reported) in peers {
        let url = format!("oracle://petal:s3cret@127.0.0.1:{port}/iops?connect_timeout={limit}");
        let ended = work.petal(["run", "--db", &url]).exits(3).telling(&[reported, "connecting"]);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    }
}

#[test]
fn the_grants_are_there_to_read_before_anything_is_granted() {
    let work = Workplace::new();
    let printed = work.petal(["setup", "--print-grants"]).exits(0);
    let script = include_str!("../../docs/engines/oracle-grants.sql");
    assert_eq!(printed.stdout, script);
    let grants = script.lines().filter(|line| line.trim_start_matches("-- ").starts_with("GRANT"));
    for grant in grants {
        let is_wide = grant.contains(" DBA") || grant.contains(" ANY ") || grant.contains("ALL ");
        assert!(!is_wide && grant.ends_with(" TO petal;"), "{grant}");
    }
}

/// Each certificate that the driver refuses, with the words that say what to do.
#[test]
fn a_certificate_that_is_refused_is_named_with_a_way_out() {
    let work = Workplace::new();
    certificates(&work.path(""));
    let read = |name: &str| std::fs::read_to_string(work.path(name)).unwrap();
    work.write("authority/ewallet.pem", read("ca.crt"));
    let client = ["client.crt", "client.key", "ca.crt"].map(read).concat();
    work.write("client/ewallet.pem", &client);
    let cases = [
        ("old", "localhost", "authority", 60, "X.509 version 3"),
        ("common", "localhost", "authority", 60, "SSL_SERVER_DN_MATCH"),
        ("server", "127.0.0.1", "authority", 60, "SSL_SERVER_DN_MATCH"),
        ("server", "localhost", "client", 60, "authority's certificate alone"),
        // A certificate that is trusted leads to a peer that speaks TLS and not Oracle's protocol.
        ("server", "localhost", "authority", 3, "no answer within 3 s"),
    ];
    for (name, host, wallet, limit, reported) in cases {
        let server =
            TlsServer::start(&work.path(format!("{name}.crt")), &work.path(format!("{name}.key")));
        let url = format!(
            "oracle://u:s3cret@{host}:{}/s?protocol=tcps&connect_timeout={limit}&wallet={}",
            server.1,
            work.path(wallet).display()
        );
        work.petal(["check", "--db", &url]).exits(3).telling(&[reported]);
    }
}

/// A server that shows a certificate, and its port. It ends when it is dropped.
struct TlsServer(std::process::Child, u16);

impl TlsServer {
    fn start(certificate: &std::path::Path, key: &std::path::Path) -> Self {
        let port = free_port();
        let server = std::process::Command::new("openssl")
            .args(["s_server", "-quiet", "-accept", &format!("127.0.0.1:{port}")])
            .arg("-cert")
            .arg(certificate)
            .arg("-key")
            .arg(key)
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            thread::sleep(std::time::Duration::from_millis(20));
        }
        Self(server, port)
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
