//! Answers of a real server with one column changed on the way: NULL, no bytes, the largest or the
//! smallest value, another type. petal ends in time with an exit code, or with figures that are
//! unknown; it neither panics nor makes a figure of what it did not get.
//!
//! `make test` tries some changes; `PETAL_TEST_LONG=1` each column of each answer.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, Read, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::engine_postgres::load;
use crate::server_postgres::{is_there, shared};
use crate::support::{Ended, Workplace, record};

/// More than petal waits for any single answer.
const LIMIT: Duration = Duration::from_secs(120);
const WORKERS: usize = 3;
const SHORT_FORM: usize = 12;

/// What becomes of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Becomes {
    Null,
    Empty,
    /// As many bytes, each of this value.
    Filled(u8),
    /// Each number in a text becomes this; other values stay.
    Numbers(&'static str),
    /// Its type, by the server's number.
    Type(u32),
}

const CHANGES: [Becomes; 10] = [
    Becomes::Null,
    Becomes::Empty,
    Becomes::Filled(0xff),
    Becomes::Filled(0x7f),
    Becomes::Numbers("0"),
    Becomes::Numbers("-1"),
    Becomes::Numbers("18446744073709551615"),
    Becomes::Numbers("null"),
    // text, and interval, which petal reads nowhere.
    Becomes::Type(25),
    Becomes::Type(1186),
];

/// A change of a column of each answer to a question, or of those after the first one.
#[derive(Debug, Clone)]
struct Change {
    question: String,
    column: usize,
    becomes: Becomes,
    spares_first: bool,
}

/// Questions with the most columns of their answers.
type Questions = BTreeMap<String, usize>;

/// A relay to a server; it changes answers and knows the questions.
struct Relay {
    port: u16,
    state: Arc<Mutex<RelayState>>,
}

#[derive(Default)]
struct RelayState {
    change: Option<Change>,
    answered: u32,
    changed: u32,
    questions: Questions,
}

impl Relay {
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state: Arc<Mutex<RelayState>> = Arc::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, state) = (client.unwrap(), Arc::clone(&shared));
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                // Otherwise each message waits for the receipt of the one before.
                [&client, &server].iter().for_each(|stream| stream.set_nodelay(true).unwrap());
                let asked: Asked = Arc::new(Mutex::new(VecDeque::from([String::new()])));
                let answered = Arc::clone(&asked);
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = hand_on_questions(from, &to, &asked);
                    let _ = to.shutdown(Shutdown::Write);
                });
                thread::spawn(move || {
                    let _ = hand_on_answers(server, &client, &answered, &state);
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        Self { port, state }
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://petal@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    fn set(&self, change: Option<Change>) {
        let mut state = self.state.lock().unwrap();
        (state.change, state.answered, state.changed) = (change, 0, 0);
    }
}

/// Questions under way of one connection, oldest first; the first is its start.
type Asked = Arc<Mutex<VecDeque<String>>>;

/// A kind and what follows the length.
fn message(from: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut header = [0; 5];
    from.read_exact(&mut header)?;
    let mut body = vec![0; u32::from_be_bytes(header[1..].try_into().unwrap()) as usize - 4];
    from.read_exact(&mut body)?;
    Ok((header[0], body))
}

fn bytes(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

/// Texts that end with a zero.
fn texts(body: &[u8]) -> impl Iterator<Item = String> {
    body.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned())
}

/// A statement without the numbers of this run.
fn question(sql: &str) -> String {
    let digit = |c: char| if c.is_ascii_digit() { '#' } else { c };
    let mut text: String = sql.chars().map(digit).collect();
    while text.contains("##") {
        text = text.replace("##", "#");
    }
    text
}

fn hand_on_questions(mut from: TcpStream, mut to: &TcpStream, asked: &Asked) -> io::Result<()> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut start = vec![0; u32::from_be_bytes(length) as usize - 4];
    from.read_exact(&mut start)?;
    to.write_all(&[&length[..], &start].concat())?;
    let (mut statements, mut asks) = (HashMap::new(), String::new());
    loop {
        let (kind, body) = message(&mut from)?;
        let mut words = texts(&body);
        match kind {
            b'P' => {
                let (name, sql) = (words.next().unwrap(), question(&words.next().unwrap()));
                statements.insert(name, sql.clone());
                asks = sql;
            }
            b'B' => {
                let name = words.nth(1).unwrap();
                asks = statements.get(&name).cloned().unwrap_or_default();
            }
            b'Q' => asked.lock().unwrap().push_back(question(&words.next().unwrap())),
            b'S' => asked.lock().unwrap().push_back(std::mem::take(&mut asks)),
            _ => {}
        }
        to.write_all(&bytes(kind, &body))?;
    }
}

fn hand_on_answers(
    server: TcpStream,
    mut to: &TcpStream,
    asked: &Asked,
    state: &Mutex<RelayState>,
) -> io::Result<()> {
    let mut server = io::BufReader::new(server);
    loop {
        let (kind, mut body) = message(&mut server)?;
        let question = asked.lock().unwrap().front().cloned().unwrap_or_default();
        match kind {
            b'D' => state.lock().unwrap().row(&question, &mut body),
            b'T' => state.lock().unwrap().columns(&question, &mut body),
            b'Z' => {
                asked.lock().unwrap().pop_front();
                let mut state = state.lock().unwrap();
                let is_it = state.change.as_ref().is_some_and(|of| of.question == question);
                state.answered += u32::from(is_it);
            }
            _ => {}
        }
        to.write_all(&bytes(kind, &body))?;
    }
}

impl RelayState {
    fn change_of(&self, question: &str) -> Option<Change> {
        let is_it = |change: &&Change| {
            change.question == question && !(change.spares_first && self.answered == 0)
        };
        self.change.as_ref().filter(is_it).cloned()
    }

    fn row(&mut self, question: &str, body: &mut Vec<u8>) {
        let count = usize::from(u16::from_be_bytes(body[..2].try_into().unwrap()));
        let most = self.questions.entry(question.to_owned()).or_default();
        *most = count.max(*most);
        let Some(change) = self.change_of(question).filter(|change| change.column < count) else {
            return;
        };
        let mut at = 2;
        let length_at =
            |body: &[u8], at: usize| i32::from_be_bytes(body[at..at + 4].try_into().unwrap());
        for _ in 0..change.column {
            at += 4 + length_at(body, at).max(0) as usize;
        }
        let bytes = length_at(body, at).max(0) as usize;
        let value: Option<Vec<u8>> = match change.becomes {
            Becomes::Null => None,
            Becomes::Empty => Some(Vec::new()),
            Becomes::Filled(byte) => Some(vec![byte; bytes]),
            Becomes::Numbers(number) => Some(with_numbers(&body[at + 4..at + 4 + bytes], number)),
            Becomes::Type(_) => return,
        };
        let length = value.as_ref().map_or(-1, |value| value.len() as i32);
        let field = [&length.to_be_bytes()[..], &value.unwrap_or_default()].concat();
        body.splice(at..at + 4 + bytes, field);
        self.changed += 1;
    }

    fn columns(&mut self, question: &str, body: &mut [u8]) {
        let Some(change) = self.change_of(question) else { return };
        let Becomes::Type(number) = change.becomes else { return };
        let count = usize::from(u16::from_be_bytes(body[..2].try_into().unwrap()));
        let mut at = 2;
        for column in 0..count {
            // A name, its table and place there, then the type.
            at += body[at..].iter().position(|byte| *byte == 0).unwrap() + 1 + 6;
            if column == change.column {
                body[at..at + 4].copy_from_slice(&number.to_be_bytes());
                self.changed += 1;
            }
            at += 12;
        }
    }
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

/// The commands that only read answers or measure.
const COMMANDS: [&[&str]; 2] =
    [&["check"], &["run", "--run-time", "1", "--update-pct", "30", "-s", "1"]];

fn call(work: &Workplace, command: &[&str], relay: &Relay, database: &str) -> Ended {
    let url = relay.url(database);
    let began = Instant::now();
    let ended = work.petal(command.iter().chain(&["--db", &url])).ends();
    assert!(began.elapsed() < LIMIT, "{command:?} took {:?}", began.elapsed());
    ended
}

/// Figures of a record that count more than a few, by their place.
fn counts(value: &Value, at: &str, found: &mut BTreeMap<String, f64>) {
    match value {
        Value::Number(number) => {
            found.insert(at.to_owned(), number.as_f64().unwrap());
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| counts(value, &format!("{at}/{name}"), found));
        }
        _ => {}
    }
}

/// Figures of the database: those that a run on an unchanged server has.
fn database_figures(run: &Value) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for place in ["/counters", "/per_second", "/details/io"] {
        counts(run.pointer(place).unwrap(), place, &mut found);
    }
    found
}

/// What is wrong with the way in which petal ended, if anything.
fn wrong(change: &Change, ended: &Ended, run: Option<&Value>, usual: &Value) -> Option<String> {
    if ended.stderr.contains("panicked") || ended.code.is_none_or(|code| code >= 100) {
        return Some("it panicked or was killed".to_owned());
    }
    let run = run?;
    let figures = database_figures(run);
    // Numbers below zero that were taken for a number of 64 bits.
    if let Some((place, figure)) = figures.iter().find(|(_, figure)| **figure > 9.3e18) {
        return Some(format!("{place} is {figure}"));
    }
    // Without an answer of the loop the run does nothing, and its counters stand still.
    let is_loop = ["CALL ", "SELECT pg_catalog.count(c#)"];
    let is_loop = is_loop.iter().any(|begin| change.question.starts_with(begin));
    if change.becomes == Becomes::Null && !is_loop {
        let usual = database_figures(usual);
        let invented = figures.iter().find(|(place, figure)| {
            **figure == 0.0 && usual.get(*place).is_some_and(|n| *n > 99.0)
        });
        return invented.map(|(place, _)| format!("{place} is 0, and was {}", usual[place]));
    }
    None
}

/// Shows how far the long form is.
fn say(text: &str) {
    if std::env::var_os("PETAL_TEST_LONG").is_some() {
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// The figures of the run that a command left, if it left one.
fn run_of(work: &Workplace) -> Option<Value> {
    let folder = work.runs().pop()?;
    folder.join("run.json").exists().then(|| record(&folder))
}

/// Tries changes until there are no more, on data of its own; returns what went wrong.
fn try_changes(
    database: &str,
    changes: &Mutex<VecDeque<(usize, Change)>>,
    usual: &Value,
) -> Vec<String> {
    let mut failed = Vec::new();
    let relay = Relay::to(shared().port);
    load(&shared().url(database), 1);
    loop {
        let Some((command, change)) = changes.lock().unwrap().pop_front() else { break };
        relay.set(Some(change.clone()));
        let work = Workplace::new();
        let began = Instant::now();
        let ended = call(&work, COMMANDS[command], &relay, database);
        let took_s = began.elapsed().as_secs_f64();
        say(&format!("{took_s:.1} s: {command} {change:?}: {:?}", ended.code));
        let run = run_of(&work);
        if let Some(why) = wrong(&change, &ended, run.as_ref(), usual) {
            failed.push(format!("{command} {change:?}: {why}\n{}", ended.stderr));
        }
    }
    failed
}

#[test]
fn whatever_column_a_server_of_postgres_changes_petal_ends_and_invents_nothing() {
    if !is_there() {
        return;
    }
    let (relay, work) = (Relay::to(shared().port), Workplace::new());
    load(&shared().url("mutated"), 1);
    let (mut all, mut usual) = (Vec::new(), Value::Null);
    for (number, command) in COMMANDS.iter().enumerate() {
        relay.state.lock().unwrap().questions.clear();
        let ended = call(&work, command, &relay, "mutated");
        assert!(ended.code.is_some_and(|code| code < 2), "{command:?}: {ended:?}");
        usual = run_of(&work).unwrap_or_default();
        for (question, columns) in relay.state.lock().unwrap().questions.clone() {
            let cases = (0..columns).flat_map(|column| CHANGES.map(|becomes| (column, becomes)));
            let cases = cases.flat_map(|case| [(case, false), (case, true)]);
            all.extend(cases.map(|((column, becomes), spares_first)| {
                let question = question.clone();
                (number, Change { question, column, becomes, spares_first })
            }));
        }
    }
    assert!(all.len() > 500, "{}", all.len());
    let is_long = std::env::var_os("PETAL_TEST_LONG").is_some();
    if !is_long {
        // A step without a common divisor with anything that repeats.
        let step = all.len() / SHORT_FORM + 1;
        all = all.into_iter().step_by(step | 1).collect();
    }
    say(&format!("{} changes", all.len()));
    let changes = Mutex::new(all.into());
    let failed: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (changes, usual) = (&changes, &usual);
                scope.spawn(move || try_changes(&format!("mutated_{worker}"), changes, usual))
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{}:\n{}", failed.len(), failed.join("\n\n"));
}
