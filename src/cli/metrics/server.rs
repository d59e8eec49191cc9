//! One page over HTTP, for a scraper: a request, an answer, and the connection is closed.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::{Metrics, exposition};
use crate::engine::threads::Thread;

/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
/// A peer that is slower is left.
const IO_TIMEOUT: Duration = Duration::from_secs(2);
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Listens from now on, on a thread that lives as long as petal.
pub fn serve(address: SocketAddr, metrics: Metrics) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let answer_all = move || {
        // One peer's trouble is not the next one's.
        for peer in listener.incoming().flatten() {
            let _ = answer(peer, &metrics);
        }
    };
    Thread::named("metrics").start(answer_all)?;
    Ok(())
}

fn answer(mut peer: TcpStream, metrics: &Metrics) -> io::Result<()> {
    peer.set_read_timeout(Some(IO_TIMEOUT))?;
    peer.set_write_timeout(Some(IO_TIMEOUT))?;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    let (status, body) = loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&head) {
            Ok(parsed) if parsed.is_complete() => break respond(&request, metrics),
            Ok(_) if head.len() < HEAD_BYTES_MAX => {}
            _ => break ("400 Bad Request", String::new()),
        }
        match peer.read(&mut part)? {
            0 => return Ok(()),
            bytes => head.extend_from_slice(&part[..bytes]),
        }
    };
    let length = body.len();
    write!(
        peer,
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

fn respond(request: &httparse::Request<'_, '_>, metrics: &Metrics) -> (&'static str, String) {
    let path = request.path.map(|path| path.split('?').next().unwrap_or(path));
    match (request.method, path) {
        (Some("GET"), Some("/metrics")) => match exposition::text(metrics) {
            Ok(text) => ("200 OK", text),
            Err(_) => ("500 Internal Server Error", String::new()),
        },
        (Some("GET"), _) => ("404 Not Found", "the page is /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    }
}
