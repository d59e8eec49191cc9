//! A server that says more than it was asked: petal leaves it in time and in little memory.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::support::Workplace;

/// Far more than petal needs, and less than the server sends.
const BUDGET: &str = "ulimit -t 60; ulimit -v 3000000";
const MEBIBYTE: usize = 1 << 20;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

/// What petal says at once, however much it is.
fn hear(stream: &mut TcpStream) -> io::Result<()> {
    stream.read(&mut [0; 4096]).map(drop)
}

/// A log-on without a password, as a server of PostgreSQL answers it.
fn log_on(stream: &mut TcpStream) -> io::Result<()> {
    hear(stream)?;
    stream.write_all(&message(b'R', &[0; 4]))
}

fn ready(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(&message(b'K', &[0, 0, 0, 7, 0, 0, 0, 7]))?;
    stream.write_all(&message(b'Z', b"I"))?;
    hear(stream)
}

/// One row that claims a gibibyte, and sends twice as much.
fn a_long_row(stream: &mut TcpStream) -> io::Result<()> {
    log_on(stream)?;
    ready(stream)?;
    stream.write_all(&[&[b'D'][..], &(1_u32 << 30).to_be_bytes()].concat())?;
    (0..2 << 10).try_for_each(|_| stream.write_all(&[0; MEBIBYTE]))
}

/// Settings of the server without an end, before it is ready.
fn many_settings(stream: &mut TcpStream) -> io::Result<()> {
    log_on(stream)?;
    (0..4 << 10).try_for_each(|number| {
        let value = "v".repeat(MEBIBYTE);
        stream.write_all(&message(b'S', format!("s{number}\0{value}\0").as_bytes()))
    })
}

fn serve(serve: fn(&mut TcpStream) -> io::Result<()>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            // petal leaves in the middle.
            let _ = serve(&mut stream.unwrap());
        }
    });
    port
}

#[test]
fn a_message_longer_than_any_answer_is_refused_before_it_is_kept() {
    let work = Workplace::new();
    for server in [a_long_row, many_settings] {
        let url = format!("postgres://anna@127.0.0.1:{}/own?sslmode=disable", serve(server));
        let ended = work.petal(["check", "--db", &url]).after(BUDGET).exits(3);
        ended.telling(&["the answer is larger than any that petal asks for"]);
    }
}
