//! How petal logs on to MariaDB or MySQL, and stays connected.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::certificates::certificates;
use crate::mysql::load;
use crate::server_mysql::{self, Server, is_there};
use crate::support::Workplace;

#[test]
fn a_server_that_ends_idle_connections_soon_keeps_those_of_petal() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["wait-timeout=1", "interactive-timeout=1"]);
    let url = server.url("idle");
    // The coordinator of the load is idle for longer than that, however fast the load is, because a
    // lock holds up its loader; and so is a profile between looks.
    let work = Workplace::new();
    let mut setup = work.petal(["setup", "--db", &url, "-s", "1", "--scale", "256M"]).start();
    let is_loading = |state: &str| {
        let loads = "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'INSERT%'";
        !server.sql("", &format!("{loads} AND state LIKE '{state}'")).is_empty()
    };
    setup.until("a loader", || is_loading("%"));
    let _lock = server.session("", "FLUSH TABLES WITH READ LOCK; DO SLEEP(3); UNLOCK TABLES");
    setup.until("a loader that waits for the lock", || is_loading("Waiting for %lock"));
    setup.ends().exited(0);
    let args = ["profile", "--db", &url, "--every", "2", "--for", "4", "-o", "p.json"];
    work.petal(args).exits(0);
    let profile = std::fs::read_to_string(work.path("p.json")).unwrap();
    let profile: serde_json::Value = serde_json::from_str(&profile).unwrap();
    assert_eq!(profile["intervals"].as_array().unwrap().len(), 2, "{profile}");
}

#[test]
fn every_plugin_of_the_server_lets_petal_in_or_is_refused_by_name() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    load(&server.url("log_on"), 1);
    server.sql("", "INSTALL SONAME 'auth_ed25519'; INSTALL SONAME 'auth_pam'");
    let work = Workplace::new();
    let petal = |user: &str, how: &str, password: &str| {
        let sql = format!(
            "CREATE USER IF NOT EXISTS {user}@'%' IDENTIFIED VIA {how}; \
             GRANT ALL ON *.* TO {user}@'%'"
        );
        server.sql("", &sql);
        let url = format!("mysql://{user}:{password}@127.0.0.1:{}/log_on", server.port);
        work.petal(["run", "--work-loop", "2", "-t", "1", "--db", &url])
    };
    for (user, how) in [("ed", "ed25519"), ("native", "mysql_native_password")] {
        let how = format!("{how} USING PASSWORD('pw')");
        // The driver drops a zero at the end of a nonce, one in 256, and then signs another one
        // (ed25519). petal connects again only to an account that was let in before.
        let is_let_in = (0..2).any(|_| petal(user, &how, "pw").ends().code == Some(0));
        assert!(is_let_in, "{user}");
        petal(user, &how, "wrong").exits(3).telling(&["Access denied"]);
    }
    // A server whose user may not enter the folder of its own tool for PAM denies without a question.
    let refused = petal("pam", "pam", "pw").exits(3);
    match server.asks_by_pam() {
        true => refused.telling(&["plugin `dialog'", "ed25519, parsec"]),
        false => refused.telling(&["Access denied"]),
    };
    // By the socket an account needs no password.
    let sql = "CREATE OR REPLACE USER root@localhost IDENTIFIED VIA unix_socket; \
               GRANT ALL ON *.* TO root@localhost";
    if rustix::process::geteuid().is_root() {
        server.sql("", sql);
        work.petal(["run", "--work-loop", "2", "-t", "1", "--db", &server.url("log_on")]).exits(0);
    }
}

const GREETING: &[u8] = b"\x0a11.8.1-MariaDB\0\x07\0\0\0saltsalt\0\xfe\xf7\x08\x02\0\xbf\x81\x15\
    \0\0\0\0\0\0\0\0\0\0saltsaltsalt\0mysql_native_password\0";

fn send(peer: &mut impl Write, number: u8, payload: &[u8]) {
    let length = u8::try_from(payload.len()).unwrap();
    peer.write_all(&[&[length, 0, 0, number], payload].concat()).unwrap();
}

fn receive(peer: &mut impl Read) -> Option<Vec<u8>> {
    let mut header = [0; 4];
    peer.read_exact(&mut header).ok()?;
    let mut payload = vec![0; usize::from(header[0]) | usize::from(header[1]) << 8];
    peer.read_exact(&mut payload).ok()?;
    Some(payload)
}

/// A server whose accounts are of this plugin, and what petal answers to `further` questions of it.
fn asks_for(plugin: &'static [u8], further: &'static [&'static [u8]]) -> (u16, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (answers, received) = channel();
    thread::spawn(move || {
        for peer in listener.incoming() {
            let mut peer = peer.unwrap();
            send(&mut peer, 0, GREETING);
            let Some(_) = receive(&mut peer) else { continue };
            let nonce = [b's'; 32];
            send(&mut peer, 2, &[b"\xfe", plugin, b"\0", &nonce, b"\0"].concat());
            for (at, question) in further.iter().enumerate() {
                let Some(answer) = receive(&mut peer) else { break };
                answers.send(answer).unwrap();
                send(&mut peer, 4 + 2 * at as u8, question);
            }
            let Some(answer) = receive(&mut peer) else { continue };
            answers.send(answer).unwrap();
            let denied = b"\xff\x15\x04#28000Access denied by the test";
            send(&mut peer, 4 + 2 * further.len() as u8, denied);
        }
    });
    (port, received)
}

#[test]
fn a_plugin_that_petal_does_not_have_is_refused_by_its_name() {
    let work = Workplace::new();
    for (plugin, words) in [
        (&b"dialog"[..], "`dialog'"),
        (b"sha256_password", "`sha256_password'"),
        (b"auth_gssapi_client", "`auth_gssapi_client'"),
        (b"authentication_ldap_sasl_client", "`authentication_ldap_sasl_client'"),
        (b"mysql_old_password", "mysql_old_password"),
    ] {
        let (port, answers) = asks_for(plugin, &[]);
        let url = format!("mysql://u:secret@127.0.0.1:{port}/d?ssl_mode=DISABLED");
        let refused = work.petal(["check", "--db", &url]).exits(3);
        refused.telling(&[words, "use an account of one of the plugins that petal has"]);
        let sent = answers.try_iter().flatten().collect::<Vec<u8>>();
        assert!(!sent.windows(6).any(|part| part == b"secret"), "{plugin:?}");
    }
}

/// A server with TLS that asks for the password in clear text; says what it got.
fn asks_in_clear(folder: &Path) -> (u16, Receiver<Vec<u8>>) {
    let chain = CertificateDer::pem_file_iter(folder.join("server.crt")).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (answers, received) = channel();
    // Its lower flags offer TLS.
    let greeting = [&GREETING[..30], b"\xff", &GREETING[31..]].concat();
    thread::spawn(move || {
        for peer in listener.incoming() {
            let mut peer = peer.unwrap();
            send(&mut peer, 0, &greeting);
            let Some(_) = receive(&mut peer) else { continue };
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut peer = StreamOwned::new(connection, peer);
            let Some(_) = receive(&mut peer) else { continue };
            send(&mut peer, 3, b"\xfemysql_clear_password\0");
            let Some(answer) = receive(&mut peer) else { continue };
            answers.send(answer).unwrap();
            send(&mut peer, 5, b"\xff\x15\x04#28000Access denied by the test");
        }
    });
    (port, received)
}

#[test]
fn the_password_goes_in_clear_text_to_a_verified_server_alone() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let (port, answers) = asks_in_clear(folder.path());
    let work = Workplace::new();
    let check = |options: &str| {
        let url = format!("mysql://u:secret@localhost:{port}/d?{options}");
        work.petal(["check", "--db", &url]).exits(3)
    };
    for options in ["ssl_mode=REQUIRED", "ssl_mode=PREFERRED"] {
        check(options).telling(&["only to a verified server", "ssl_mode=VERIFY_IDENTITY"]);
    }
    assert!(answers.try_iter().next().is_none());
    let authority = folder.path().join("ca.crt");
    check(&format!("ssl_mode=VERIFY_IDENTITY&ssl_ca={}", authority.display()))
        .telling(&["Access denied by the test"]);
    assert_eq!(answers.try_iter().next().unwrap(), b"secret\0");
}

#[test]
fn a_program_prints_the_password_and_it_is_asked_again_if_it_is_refused() {
    if !is_there() {
        return;
    }
    let server = server_mysql::shared();
    server.database("tokens");
    server.sql(
        "",
        "CREATE USER token@'%' IDENTIFIED BY 's3cret'; GRANT ALL ON tokens.* TO token@'%'",
    );
    let work = Workplace::new();
    // A wrong one first.
    let body = "echo asked >>${0%/*}/asked; test \"$(wc -l <${0%/*}/asked)\" = 1 && echo wrong || echo s3cret";
    let command = work.script("password.sh", body).display().to_string();
    let url = format!("mysql://token@127.0.0.1:{}/tokens", server.port);
    let said = work.petal(["check", "--db", &url]).env("PASSWORD_COMMAND", &command).exits(1);
    let said = format!("{}{}", said.stdout, said.stderr);
    assert!(!said.contains("s3cret"), "{said}");
    assert_eq!(std::fs::read_to_string(work.path("asked")).unwrap().lines().count(), 2);
}

#[test]
fn parsec_answers_with_a_nonce_and_a_signature() {
    // Its parameters: PBKDF2 of 1024 rounds, and a salt of 18 bytes.
    let salt: &[&[u8]] = &[b"\x01P\x0018 bytes of a salt"];
    let (port, answers) = asks_for(b"parsec", salt);
    let work = Workplace::new();
    let url = format!("mysql://u:pw@127.0.0.1:{port}/d?ssl_mode=DISABLED");
    work.petal(["check", "--db", &url]).exits(3).telling(&["Access denied by the test"]);
    assert_eq!(answers.try_iter().map(|answer| answer.len()).collect::<Vec<_>>(), [0, 96]);
    // The driver panics if there is no password.
    let url = format!("mysql://u@127.0.0.1:{port}/d?ssl_mode=DISABLED");
    work.petal(["check", "--db", &url]).ends().telling(&["give the account's password"]);
}
