//! A network between petal and a server that can be cut, or falls silent. No test of its own.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Copies what is sent both ways.
pub struct Proxy {
    pub port: u16,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
    /// Connections in whose first words this stands get no further byte.
    held_back: Arc<Mutex<Option<String>>>,
}

impl Proxy {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let sockets: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let held_back: Arc<Mutex<Option<String>>> = Arc::default();
        let (kept, held) = (Arc::clone(&sockets), Arc::clone(&held_back));
        thread::spawn(move || {
            for from in listener.incoming() {
                let from = from.unwrap();
                let to = TcpStream::connect(("127.0.0.1", port)).unwrap();
                // Known before anything passes: who is connected can be cut.
                kept.lock().unwrap().extend([from.try_clone().unwrap(), to.try_clone().unwrap()]);
                let words: Arc<Mutex<String>> = Arc::default();
                for (a, b, is_petal) in
                    [(from.try_clone().unwrap(), to.try_clone().unwrap(), true), (to, from, false)]
                {
                    let (words, held) = (Arc::clone(&words), Arc::clone(&held));
                    thread::spawn(move || pump(a, b, is_petal, &words, &held));
                }
            }
        });
        Self { port: own, sockets, held_back }
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

    /// What was held back passes again.
    pub fn speak_again(&self) {
        *self.held_back.lock().unwrap() = None;
    }

    /// The same for connections that call themselves so.
    pub fn hold_back(&self, application: &str) {
        *self.held_back.lock().unwrap() = Some(application.to_owned());
    }
}

fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    is_petal: bool,
    words: &Mutex<String>,
    held_back: &Mutex<Option<String>>,
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
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
