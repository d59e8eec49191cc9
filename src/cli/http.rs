//! A small HTTP server: a request, an answer, and the connection is closed. Each peer has a thread and
//! deadlines, so that a slow one keeps nobody else waiting.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use petal_engine::threads::Thread;
use petal_report::html;

/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
/// Time from a peer's connect to the last byte of its request.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// Time for all bytes of an answer, or of one event, from the moment when it is made.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Peers at once; petal refuses more.
const PEERS_MAX: usize = 16;
/// Pause after a connection that cannot be accepted, as without a free descriptor.
const REST: Duration = Duration::from_millis(200);
const TEXT: &str = "text/plain; charset=utf-8";

/// A GET request.
pub struct HttpRequest<'a> {
    /// Path, as the peer wrote it.
    pub path: &'a str,
    pub query: &'a str,
    pub host: Option<&'a str>,
    pub origin: Option<&'a str>,
}

pub struct HttpAnswer {
    status: &'static str,
    content_type: &'static str,
    /// Further lines of the head, each with its line end.
    headers: String,
    body: HttpBody,
}

enum HttpBody {
    Whole(Vec<u8>),
    /// Server-sent events, as long as there are more.
    Events(HttpEvents),
}

/// Pieces of an answer, each sent when it is there. One that takes long may be empty, so that a peer that
/// left is noticed.
pub type HttpEvents = Box<dyn Iterator<Item = String> + Send>;

impl HttpAnswer {
    pub fn new(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let body = HttpBody::Whole(body.into());
        Self { status: "200 OK", content_type, headers: String::new(), body }
    }

    pub fn events(events: HttpEvents) -> Self {
        Self { body: HttpBody::Events(events), ..Self::new("text/event-stream", "") }
    }

    /// An answer that says why there is no other.
    pub fn refusal(status: &'static str, reason: &str) -> Self {
        Self { status, ..Self::new(TEXT, format!("{reason}\n")) }
    }

    pub fn not_found(reason: &str) -> Self {
        Self::refusal("404 Not Found", reason)
    }

    /// Adds lines to the head that keep the page to itself: its own policy, no frame around it, no
    /// referrer.
    pub fn guarded(self) -> Self {
        let policy = format!("{}; frame-ancestors 'none'", html::policy(true, true));
        self.with_header("Content-Security-Policy", &policy)
            .with_header("X-Content-Type-Options", "nosniff")
            .with_header("Referrer-Policy", "no-referrer")
            .with_header("Cross-Origin-Resource-Policy", "same-origin")
            .with_header("Cache-Control", "no-store")
    }

    /// Adds a line to the head. The value is petal's own text.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers += &format!("{name}: {value}\r\n");
        self
    }
}

/// Answers requests from now on, on threads with this name that live as long as petal.
pub fn serve(
    listener: TcpListener,
    name: &'static str,
    respond: impl Fn(&HttpRequest<'_>) -> HttpAnswer + Send + Sync + 'static,
) -> io::Result<()> {
    let respond = Arc::new(respond);
    let peers = Arc::new(());
    let answer_all = move || {
        for peer in listener.incoming() {
            match peer {
                // One peer's trouble is not the next one's.
                Ok(peer) if Arc::strong_count(&peers) <= PEERS_MAX => {
                    let (respond, counted) = (Arc::clone(&respond), Arc::clone(&peers));
                    let answer = move || {
                        let _ = answer(Peer::new(peer), &*respond);
                        drop(counted);
                    };
                    let _ = Thread::named(name).start(answer);
                }
                Ok(_) => {}
                Err(_) => thread::sleep(REST),
            }
        }
    };
    Thread::named(name).start(answer_all)?;
    Ok(())
}

/// A peer whose reads and writes all end at one deadline.
struct Peer {
    stream: TcpStream,
    deadline: Instant,
}

impl Peer {
    fn new(stream: TcpStream) -> Self {
        Self { stream, deadline: Instant::now() + REQUEST_LIMIT }
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

fn answer(mut peer: Peer, respond: &dyn Fn(&HttpRequest<'_>) -> HttpAnswer) -> io::Result<()> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    let answer = loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&head) {
            Ok(parsed) if parsed.is_complete() => break answer_to(&request, respond),
            Ok(_) if head.len() < HEAD_BYTES_MAX => {}
            _ => break HttpAnswer::refusal("400 Bad Request", "petal cannot read this request"),
        }
        match peer.read(&mut part)? {
            0 => return Ok(()),
            bytes => head.extend_from_slice(&part[..bytes]),
        }
    };
    peer.deadline = Instant::now() + ANSWER_LIMIT;
    let HttpAnswer { status, content_type, headers, body } = answer;
    let length = match &body {
        HttpBody::Whole(body) => format!("Content-Length: {}\r\n", body.len()),
        HttpBody::Events(_) => String::new(),
    };
    write!(
        peer,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{length}Connection: close\r\n\
         {headers}\r\n"
    )?;
    match body {
        HttpBody::Whole(body) => peer.write_all(&body),
        HttpBody::Events(events) => {
            for piece in events {
                peer.deadline = Instant::now() + ANSWER_LIMIT;
                peer.write_all(piece.as_bytes())?;
            }
            Ok(())
        }
    }
}

fn answer_to(
    request: &httparse::Request<'_, '_>,
    respond: &dyn Fn(&HttpRequest<'_>) -> HttpAnswer,
) -> HttpAnswer {
    if request.method != Some("GET") {
        return HttpAnswer::refusal("405 Method Not Allowed", "petal answers GET only");
    }
    // A header that is there twice is not trusted.
    let header = |name: &str| {
        let mut found = request.headers.iter().filter(|it| it.name.eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (None, _) => None,
            (Some(one), None) => Some(std::str::from_utf8(one.value).unwrap_or_default().trim()),
            (Some(_), Some(_)) => Some(""),
        }
    };
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    respond(&HttpRequest { path, query, host: header("host"), origin: header("origin") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(mut peer: TcpStream) -> String {
        write!(peer, "GET /page HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        peer.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_silent_peer_blocks_no_other_and_is_answered_when_it_asks() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        serve(listener, "test", |request| HttpAnswer::new(TEXT, request.path)).unwrap();
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
