//! An HTTP server of one page, for scrapers: a request, an answer, and the connection is closed. Each
//! peer has a thread and a deadline, so that a slow one keeps nobody else waiting.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Metrics, exposition};
use petal_engine::threads::Thread;

/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
/// A peer gets so long, from its connect to the last byte of its answer.
const PEER_LIMIT: Duration = Duration::from_secs(5);
/// Peers at once; petal refuses more.
const PEERS_MAX: usize = 16;
/// Pause after a connection that cannot be accepted, as without a free descriptor.
const REST: Duration = Duration::from_millis(200);
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Listens from now on, on a thread that lives as long as petal.
pub fn serve(address: SocketAddr, metrics: Metrics) -> io::Result<()> {
    serve_on(TcpListener::bind(address)?, metrics)
}

fn serve_on(listener: TcpListener, metrics: Metrics) -> io::Result<()> {
    let peers = Arc::new(());
    let answer_all = move || {
        for peer in listener.incoming() {
            match peer {
                // One peer's trouble is not the next one's.
                Ok(peer) if Arc::strong_count(&peers) <= PEERS_MAX => {
                    let (metrics, counted) = (metrics.clone(), Arc::clone(&peers));
                    let answer = move || {
                        let _ = answer(Peer::new(peer), &metrics);
                        drop(counted);
                    };
                    let _ = Thread::named("scrape").start(answer);
                }
                Ok(_) => {}
                Err(_) => thread::sleep(REST),
            }
        }
    };
    Thread::named("metrics").start(answer_all)?;
    Ok(())
}

/// A peer whose reads and writes all end at one deadline.
struct Peer {
    stream: TcpStream,
    deadline: Instant,
}

impl Peer {
    fn new(stream: TcpStream) -> Self {
        Self { stream, deadline: Instant::now() + PEER_LIMIT }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Peer {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn answer(mut peer: Peer, metrics: &Metrics) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(mut peer: TcpStream) -> String {
        write!(peer, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        peer.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_silent_peer_blocks_no_other_and_is_answered_when_it_asks() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        serve_on(listener, Metrics(Arc::default())).unwrap();
        let silent = TcpStream::connect(address).unwrap();
        let asks = TcpStream::connect(address).unwrap();
        assert!(answered(asks).starts_with("HTTP/1.1 200 OK"));
        assert!(answered(silent).starts_with("HTTP/1.1 200 OK"));
    }

    #[test]
    fn a_peer_that_trickles_is_left_at_its_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let mut peer = Peer { stream: accepted, deadline: Instant::now() };
        (&stream).write_all(b"G").unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(peer.write(b"x").unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
