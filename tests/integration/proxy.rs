//! A network between petal and a server that can be cut, or falls silent. No test of its own.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// Copies what is sent both ways.
pub struct Proxy {
    pub port: u16,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
    /// Connections in whose first words this stands get no further byte.
    held_back: Arc<Mutex<Option<String>>>,
    late: Arc<Late>,
    /// Port of the server.
    server: Arc<AtomicU16>,
}

/// Address of a relay that keeps ports.
const FAR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Delay of all that passes, and the sum of it.
#[derive(Default)]
struct Late {
    delay_ns: AtomicU64,
    held_ns: AtomicU64,
    passed: AtomicU64,
}

impl Late {
    fn hold(&self) {
        let delay_ns = self.delay_ns.load(Ordering::Relaxed);
        if delay_ns > 0 {
            let began = Instant::now();
            thread::sleep(Duration::from_nanos(delay_ns));
            self.held_ns.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
            self.passed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Proxy {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Arc::new(AtomicU16::new(port));
        let now = Arc::clone(&server);
        let port = move || now.load(Ordering::Relaxed);
        let connect = move |_| TcpStream::connect(("127.0.0.1", port())).unwrap();
        Self { server, ..Self::between(listener, connect) }
    }

    /// New connections lead to another server.
    pub fn lead_to(&self, port: u16) {
        self.server.store(port, Ordering::Relaxed);
    }

    /// At 127.0.0.2, with the same ports at both ends as without it: as a network has them.
    pub fn with_ports_of(port: u16) -> Self {
        let listener = TcpListener::bind((FAR, port)).unwrap();
        Self::between(listener, move |petal| {
            let stream = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            bind(&stream, &SocketAddrV4::new(FAR, petal.port())).unwrap();
            connect(&stream, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
            stream.into()
        })
    }

    fn between(
        listener: TcpListener,
        connect: impl Fn(SocketAddr) -> TcpStream + Send + 'static,
    ) -> Self {
        let own = listener.local_addr().unwrap().port();
        let sockets: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let held_back: Arc<Mutex<Option<String>>> = Arc::default();
        let late = Arc::<Late>::default();
        let (kept, held) = (Arc::clone(&sockets), Arc::clone(&held_back));
        let of_all = Arc::clone(&late);
        thread::spawn(move || {
            for from in listener.incoming() {
                let from = from.unwrap();
                // Who has left again already has no address.
                let Ok(petal) = from.peer_addr() else { continue };
                let to = connect(petal);
                let _ = (from.set_nodelay(true), to.set_nodelay(true));
                // Known before anything passes: who is connected can be cut.
                kept.lock().unwrap().extend([from.try_clone().unwrap(), to.try_clone().unwrap()]);
                let words: Arc<Mutex<String>> = Arc::default();
                for (a, b, is_petal) in
                    [(from.try_clone().unwrap(), to.try_clone().unwrap(), true), (to, from, false)]
                {
                    let (words, held) = (Arc::clone(&words), Arc::clone(&held));
                    let late = Arc::clone(&of_all);
                    thread::spawn(move || pump((a, b), is_petal, &words, &held, &late));
                }
            }
        });
        Self { port: own, sockets, held_back, late, server: Arc::default() }
    }

    /// Passes all on so much later.
    pub fn delay(&self, length: Duration) {
        self.late.delay_ns.store(length.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Seconds for which it has held what it passed on late, and how often.
    pub fn held(&self) -> (f64, u64) {
        let held_ns = self.late.held_ns.load(Ordering::Relaxed);
        (held_ns as f64 / 1e9, self.late.passed.load(Ordering::Relaxed))
    }

    /// Closes every connection.
    pub fn cut(&self) {
        for socket in self.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// From now on nothing passes, and nothing is closed; on new connections neither.
    pub fn fall_silent(&self) {
        self.hold_back("");
    }

    /// Lets everything pass that was held back, and all that follows.
    pub fn speak_again(&self) {
        *self.held_back.lock().unwrap() = None;
    }

    /// Holds back everything on connections whose client sends this application name.
    pub fn hold_back(&self, application: &str) {
        *self.held_back.lock().unwrap() = Some(application.to_owned());
    }
}

fn pump(
    (mut from, mut to): (TcpStream, TcpStream),
    is_petal: bool,
    words: &Mutex<String>,
    held_back: &Mutex<Option<String>>,
    late: &Late,
) {
    let mut buffer = [0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let mut said = words.lock().unwrap();
        if is_petal && said.len() < 256 {
            said.push_str(&String::from_utf8_lossy(&buffer[..length.min(256)]));
        }
        drop(said);
        let is_held = || {
            let held_back = held_back.lock().unwrap();
            held_back.as_ref().is_some_and(|held| words.lock().unwrap().contains(held))
        };
        while is_held() {
            thread::sleep(Duration::from_millis(20));
        }
        late.hold();
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
