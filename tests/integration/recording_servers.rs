//! A server that records what it is sent, and has what it asks for: petal sends it no more than the
//! database's own programs do.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::support::Workplace;

pub const SECRET: &str = "t0p-s3cret";

/// Serves connections one after the other, and hands over what each has sent.
pub fn listen(
    serve: impl Fn(&mut TcpStream) -> Vec<u8> + Send + 'static,
) -> (u16, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
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
pub fn words(heard: &[u8]) -> BTreeSet<String> {
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
