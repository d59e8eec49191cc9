//! A small HTTP server: a request, an answer, and the connection is closed. Each peer has a thread and
//! deadlines, and a silent one leaves its place to the next, so that nobody keeps others waiting.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use petal_engine::threads::Thread;
use petal_report::html;
use rustix::net::sockopt::set_socket_send_buffer_size;

/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
/// Time from a peer's connect to the last byte of its request.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// Time for all bytes of an answer, or of one event, from the moment when it is made.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Peers at once. One more takes the place of the peer that has been silent for longest.
const PEERS_MAX: usize = 16;
/// Wait for a place; then petal refuses the peer.
const PLACE_LIMIT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(2);
/// The kernel keeps so much of an answer, so that a peer that does not read it holds no place.
const SENT_BYTES_KEPT: usize = 200 << 10;
/// Pause after a connection that cannot be accepted, as without a free descriptor.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(200);
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
    let peers = HttpPeers::default();
    let answer_all = move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => {
                    let Some(peer) = peers.admit(stream) else { continue };
                    let respond = Arc::clone(&respond);
                    // One peer's trouble is not the next one's.
                    let answer = move || drop(answer(peer, &*respond));
                    let _ = Thread::named(name).start(answer);
                }
                Err(_) => thread::sleep(ACCEPT_RETRY_PAUSE),
            }
        }
    };
    Thread::named(name).start(answer_all)?;
    Ok(())
}

/// The peers of a server.
#[derive(Default)]
struct HttpPeers {
    /// Peers that may not have asked yet, the oldest first.
    silent: SilentPeers,
    /// A count of the peers that are there.
    places: Arc<()>,
}

type SilentPeers = Arc<Mutex<VecDeque<Weak<TcpStream>>>>;

impl HttpPeers {
    /// Returns a peer, if there is a place for it within a moment.
    fn admit(&self, stream: TcpStream) -> Option<Peer> {
        let is_full = || Arc::strong_count(&self.places) > PEERS_MAX;
        let begin = Instant::now();
        if is_full() {
            self.leave_one();
        }
        while is_full() && begin.elapsed() < PLACE_LIMIT {
            thread::sleep(LOOK);
        }
        let peer = || Peer::new(stream, Arc::clone(&self.silent), Arc::clone(&self.places));
        (!is_full()).then(peer)
    }

    /// Closes the connection of the peer that has been silent for longest.
    fn leave_one(&self) {
        let mut silent = self.silent.lock();
        let oldest = std::iter::from_fn(|| silent.pop_front()).find_map(|peer| peer.upgrade());
        if let Some(stream) = oldest {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A peer whose reads and writes all end at one deadline.
struct Peer {
    stream: Arc<TcpStream>,
    deadline: Instant,
    silent: SilentPeers,
    _place: Arc<()>,
}

impl Peer {
    fn new(stream: TcpStream, silent: SilentPeers, place: Arc<()>) -> Self {
        // Without it a peer only keeps its place for longer.
        let _ = set_socket_send_buffer_size(&stream, SENT_BYTES_KEPT);
        let stream = Arc::new(stream);
        silent.lock().push_back(Arc::downgrade(&stream));
        Self { stream, deadline: Instant::now() + REQUEST_LIMIT, silent, _place: place }
    }

    /// The peer has asked: it keeps its place until it has its answer.
    fn has_asked(&mut self) {
        self.silent.lock().retain(|silent| !std::ptr::eq(silent.as_ptr(), &*self.stream));
        self.deadline = Instant::now() + ANSWER_LIMIT;
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Peer {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        (&*self.stream).read(bytes)
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        (&*self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.stream).flush()
    }
}

fn answer(mut peer: Peer, respond: &dyn Fn(&HttpRequest<'_>) -> HttpAnswer) -> io::Result<()> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    let answer = loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&head) {
            Ok(parsed) if parsed.is_complete() => {
                peer.has_asked();
                break answer_to(&request, respond);
            }
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
    fn one_more_peer_takes_the_place_of_the_longest_silent_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let peers = HttpPeers::default();
        let connect = || {
            let stream = TcpStream::connect(address).unwrap();
            (stream, peers.admit(listener.accept().unwrap().0))
        };
        let mut connected = Vec::new();
        for number in 0..PEERS_MAX {
            let (stream, peer) = connect();
            let mut peer = peer.unwrap();
            if number == 0 {
                peer.has_asked();
            }
            peer.deadline += Duration::from_secs(3600);
            let silent = move || drop(peer.read(&mut [0]));
            Thread::named("test").start(silent).unwrap();
            connected.push(stream);
        }
        assert!(connect().1.is_some());
        assert_eq!(connected[1].read(&mut [0]).unwrap(), 0);
        for kept in [0, 2] {
            connected[kept].set_nonblocking(true).unwrap();
            let kind = connected[kept].read(&mut [0]).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_peer_that_trickles_is_left_at_its_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let mut peer = Peer::new(accepted, SilentPeers::default(), Arc::default());
        peer.deadline = Instant::now();
        (&stream).write_all(b"G").unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(peer.write(b"x").unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
