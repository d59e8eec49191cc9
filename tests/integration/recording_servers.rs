//! A server that records what it is sent, and has what it asks for: petal sends it no more than the
//! database's own programs do.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::fchown;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::support::{Workplace, skip};

const SECRET: &str = "t0p-s3cret";

/// Serves connections one after the other, and hands over what each has sent.
fn listen(serve: fn(&mut TcpStream) -> Vec<u8>) -> (u16, Receiver<Vec<u8>>) {
    serve_on(TcpListener::bind("127.0.0.1:0").unwrap(), serve)
}

fn serve_on(
    listener: TcpListener,
    serve: fn(&mut TcpStream) -> Vec<u8>,
) -> (u16, Receiver<Vec<u8>>) {
    let port = listener.local_addr().unwrap().port();
    let (sender, received) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let heard = serve(&mut stream);
            if sender.send(heard).is_err() {
                return;
            }
        }
    });
    (port, received)
}

/// The next bytes, as far as they come.
fn hear(stream: &mut TcpStream, heard: &mut Vec<u8>) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let length = stream.read(&mut bytes).unwrap_or(0);
    bytes.truncate(length);
    heard.extend_from_slice(&bytes);
    bytes
}

/// PostgreSQL without TLS, which asks for the password as it is.
fn serve_postgres(stream: &mut TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    if hear(stream, &mut heard).len() == 8 {
        let _ = stream.write_all(b"N");
        heard.clear();
        hear(stream, &mut heard);
    }
    let _ = stream.write_all(b"R\0\0\0\x08\0\0\0\x03");
    hear(stream, &mut heard);
    let _ = stream.write_all(b"E\0\0\0\x1dSFATAL\0C28P01\0Mrefused\0\0");
    heard
}

/// Words of what was sent: names and values of the startup, and the password.
fn words(heard: &[u8]) -> BTreeSet<String> {
    let text = heard.split(|byte| !(b' '..=b'~').contains(byte));
    let text = text.map(|word| String::from_utf8_lossy(word).into_owned());
    text.filter(|word| word.len() > 2).collect()
}

#[test]
fn petal_sends_a_server_of_postgres_no_more_than_psql_does() {
    let psql = crate::server_postgres::programs().map(|folder| folder.join("psql"));
    let Some(psql) = psql.filter(|psql| psql.exists()) else { return };
    let (port, received) = listen(serve_postgres);
    let url = format!("postgres://anna:{SECRET}@127.0.0.1:{port}/own");
    let mut command = Command::new(psql);
    command.arg(&url).args(["-c", "SELECT 1"]).stdin(Stdio::null()).output().unwrap();
    let psqls = words(&received.recv().unwrap());
    assert!(psqls.contains(SECRET) && psqls.contains("application_name"), "{psqls:?}");
    Workplace::new().petal(["check", "--db", &url]).exits(3);
    let petals = words(&received.recv().unwrap());
    // psql names its encoding on a terminal.
    let own = ["petal", "UTF8", "client_encoding"];
    let is_own = |word: &&String| own.iter().any(|own| word.starts_with(own));
    let more: Vec<&String> = petals.difference(&psqls).filter(|word| !is_own(word)).collect();
    assert!(more.is_empty(), "{more:?} of {petals:?}, {psqls:?}");
    assert!(petals.contains(SECRET));
}

/// MySQL without TLS, which finds no quick proof of the password and asks for all of it.
fn serve_mysql(stream: &mut TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    let mut greeting = b"\x0a8.0.36\0\x07\0\0\0abcdefgh\0".to_vec();
    // Flags: 4.1 protocol, secure connection, plugins, database; no TLS.
    greeting.extend_from_slice(&[0x08, 0xa2, 0x21, 0x02, 0x00, 0x08, 0x00, 21]);
    greeting.extend_from_slice(&[0; 10]);
    greeting.extend_from_slice(b"ijklmnopqrst\0caching_sha2_password\0");
    let packet = |number: u8, payload: &[u8]| {
        let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
        bytes[3] = number;
        bytes.extend_from_slice(payload);
        bytes
    };
    let _ = stream.write_all(&packet(0, &greeting));
    if hear(stream, &mut heard).is_empty() {
        return heard;
    }
    let _ = stream.write_all(&packet(2, b"\x01\x04"));
    hear(stream, &mut heard);
    heard
}

/// The request for the server's key, as `mysql --get-server-public-key` sends it.
const KEY_REQUEST: &[u8] = b"\x01\0\0\x03\x02";

#[test]
fn a_server_without_tls_is_not_asked_for_a_key_for_the_password() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can make a socket another user's");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    fchown(&listener, Some(12345), None).unwrap();
    let (port, received) = serve_on(listener, serve_mysql);
    let work = Workplace::new();
    let check = |url: String| work.petal(["check", "--db", &url]).exits(3);
    let url = format!("mysql://anna:{SECRET}@127.0.0.1:{port}/own");
    for url in [url.clone(), format!("{url}?ssl_mode=DISABLED")] {
        check(url).telling(&["the server has no TLS", "get_server_public_key=1"]);
        assert!(received.recv().unwrap().is_empty(), "neither user nor password");
    }
    // An authority that is named asks for TLS, too, with a password or without.
    let cnf = format!(
        "[client]\nssl-ca={}\nssl-verify-server-cert\n",
        "/etc/ssl/certs/ca-certificates.crt"
    );
    let cnf = work.write("client.cnf", cnf);
    let verifying = format!("mysql://anna@127.0.0.1:{port}/own?defaults_file={}", cnf.display());
    check(verifying).telling(&["the server has no TLS"]);
    assert!(received.recv().unwrap().is_empty());
    // Only the caller's option sends the request for the key.
    check(format!("{url}?get_server_public_key=1"));
    let heard: Vec<Vec<u8>> = received.try_iter().collect();
    assert!(heard.iter().any(|heard| heard.ends_with(KEY_REQUEST)), "{heard:?}");
}

#[test]
fn a_server_of_petals_own_user_on_this_host_may_have_the_password_without_tls() {
    let (port, received) = listen(serve_mysql);
    let work = Workplace::new();
    let url = format!("mysql://anna:{SECRET}@127.0.0.1:{port}/own");
    work.petal(["check", "--db", &url]).exits(3);
    let heard: Vec<Vec<u8>> = received.try_iter().collect();
    assert!(heard.iter().any(|heard| heard.ends_with(KEY_REQUEST)), "{heard:?}");
    // A caller who asks for verification gets it.
    let url = format!("{url}?ssl_ca=/etc/ssl/certs/ca-certificates.crt");
    work.petal(["check", "--db", &url]).exits(3).telling(&["the server has no TLS"]);
    assert!(received.recv().unwrap().is_empty());
}
