//! Changes of one column of a server's answers: what becomes of it, in answers to which question,
//! and a relay that applies them between petal and a server. No test of its own.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What becomes of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Becomes {
    Null,
    Empty,
    /// As many bytes, each of this value.
    Filled(u8),
    /// Each number in a text becomes this; other values stay.
    Numbers(&'static str),
    /// Another type: one of the [`TYPES`] that each kind of server has for it.
    Type(usize),
}

/// A text, a moment or a length of time, and a number that no type has.
pub const TYPES: usize = 3;

pub const CHANGES: [Becomes; 12] = [
    Becomes::Null,
    Becomes::Empty,
    Becomes::Filled(0),
    Becomes::Filled(0xff),
    Becomes::Filled(0x7f),
    Becomes::Numbers("0"),
    Becomes::Numbers("-1"),
    Becomes::Numbers("18446744073709551615"),
    Becomes::Numbers("null"),
    Becomes::Type(0),
    Becomes::Type(1),
    Becomes::Type(2),
];

/// A change of a column of each answer to a question, or of those after the first one.
#[derive(Debug, Clone)]
pub struct Change {
    pub question: String,
    pub column: usize,
    pub becomes: Becomes,
    pub spares_first: bool,
}

impl Change {
    /// The column's value after the change; None is NULL.
    pub fn value(&self, value: Option<&[u8]>) -> Option<Vec<u8>> {
        let bytes = value.unwrap_or_default();
        match self.becomes {
            Becomes::Null => None,
            Becomes::Empty => Some(Vec::new()),
            Becomes::Filled(byte) => Some(vec![byte; bytes.len()]),
            Becomes::Numbers(number) => Some(with_numbers(bytes, number)),
            Becomes::Type(_) => value.map(<[u8]>::to_vec),
        }
    }

    /// The type that the column has after the change, if that is what changes.
    pub fn kind<T: Copy>(&self, types: [T; TYPES]) -> Option<T> {
        match self.becomes {
            Becomes::Type(at) => Some(types[at]),
            _ => None,
        }
    }
}

/// Answers to one question.
#[derive(Debug, Clone, Copy, Default)]
pub struct Answers {
    pub count: usize,
    /// The most that one of them has.
    pub columns: usize,
}

/// The change that is made now, and the questions that were asked.
#[derive(Default)]
pub struct Mutation {
    change: Option<Change>,
    answered: u32,
    pub questions: BTreeMap<String, Answers>,
}

impl Mutation {
    pub fn set(&mut self, change: Option<Change>) {
        (self.change, self.answered) = (change, 0);
    }

    /// The change of an answer that has this many columns.
    pub fn of(&mut self, question: &str, columns: usize) -> Option<Change> {
        let answers = self.questions.entry(question.to_owned()).or_default();
        answers.columns = columns.max(answers.columns);
        let is_it = |change: &&Change| {
            change.question == question
                && !(change.spares_first && self.answered == 0)
                && change.column < columns
        };
        self.change.as_ref().filter(is_it).cloned()
    }

    /// An answer to this question was complete.
    pub fn answered(&mut self, question: &str) {
        self.questions.entry(question.to_owned()).or_default().count += 1;
        let is_it = self.change.as_ref().is_some_and(|change| change.question == question);
        self.answered += u32::from(is_it);
    }
}

/// A mutation that threads share.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Mutation>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Mutation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands on what a client asks and what a server answers, in a thread each.
pub trait Wire: Default + Send + Sync + 'static {
    fn hand_on_questions(&self, from: TcpStream, to: &TcpStream) -> io::Result<()>;

    fn hand_on_answers(&self, from: TcpStream, to: &TcpStream, mutation: &Shared)
    -> io::Result<()>;
}

/// A relay to a server on this host, with a connection's own state for each client; its port.
pub fn relay<W: Wire>(server: u16, mutation: &Shared) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mutation = mutation.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, mutation) = (client.unwrap(), mutation.clone());
            let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
            // Otherwise each message waits for the receipt of the one before.
            [&client, &server].iter().for_each(|stream| stream.set_nodelay(true).unwrap());
            let wire = Arc::new(W::default());
            let answering = Arc::clone(&wire);
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                let _ = wire.hand_on_questions(from, &to);
                let _ = to.shutdown(Shutdown::Write);
            });
            thread::spawn(move || {
                let _ = answering.hand_on_answers(server, &client, &mutation);
                let _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    port
}

/// A statement without the numbers of this run, and with single spaces.
pub fn question(sql: &str) -> String {
    let digit = |c: char| if c.is_ascii_digit() { '#' } else { c };
    let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text: String = sql.chars().map(digit).collect();
    while text.contains("##") {
        text = text.replace("##", "#");
    }
    text
}

/// A text with this in the place of each number.
fn with_numbers(value: &[u8], number: &str) -> Vec<u8> {
    let is_text = value.iter().all(|byte| (b' '..=b'~').contains(byte));
    if !is_text {
        return value.to_vec();
    }
    let mut changed = Vec::new();
    for (at, &byte) in value.iter().enumerate() {
        let is_digit = |at: usize| value.get(at).is_some_and(u8::is_ascii_digit);
        let begins = is_digit(at) && !at.checked_sub(1).is_some_and(is_digit);
        match (byte.is_ascii_digit(), begins) {
            (true, true) => changed.extend(number.bytes()),
            (true, false) => {}
            (false, _) => changed.push(byte),
        }
    }
    changed
}
