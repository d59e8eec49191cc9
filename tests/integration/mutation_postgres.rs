//! PostgreSQL's protocol as a relay changes it: rows and their description, by the question that
//! they answer. No test of its own.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;

use crate::mutation::{Change, Shared, TYPES, Wire, question};

/// text, and interval, which petal reads nowhere.
const KINDS: [u32; TYPES] = [25, 1186, 999_999];

/// Questions under way of one connection, oldest first; the first is its start.
pub struct Postgres(Mutex<VecDeque<String>>);

impl Default for Postgres {
    fn default() -> Self {
        Self(Mutex::new(VecDeque::from([String::new()])))
    }
}

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

impl Wire for Postgres {
    fn hand_on_questions(&self, mut from: TcpStream, mut to: &TcpStream) -> io::Result<()> {
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
                b'Q' => self.0.lock().unwrap().push_back(question(&words.next().unwrap())),
                b'S' => self.0.lock().unwrap().push_back(std::mem::take(&mut asks)),
                _ => {}
            }
            to.write_all(&bytes(kind, &body))?;
        }
    }

    fn hand_on_answers(
        &self,
        server: TcpStream,
        mut to: &TcpStream,
        mutation: &Shared,
    ) -> io::Result<()> {
        let mut server = io::BufReader::new(server);
        loop {
            let (kind, mut body) = message(&mut server)?;
            let question = self.0.lock().unwrap().front().cloned().unwrap_or_default();
            let columns = || usize::from(u16::from_be_bytes(body[..2].try_into().unwrap()));
            match kind {
                b'D' => {
                    let change = mutation.lock().of(&question, columns());
                    change.into_iter().for_each(|change| row(&change, &mut body));
                }
                b'T' => {
                    let change = mutation.lock().of(&question, columns());
                    change.into_iter().for_each(|change| description(&change, &mut body));
                }
                b'Z' => {
                    self.0.lock().unwrap().pop_front();
                    mutation.lock().answered(&question);
                }
                _ => {}
            }
            to.write_all(&bytes(kind, &body))?;
        }
    }
}

fn row(change: &Change, body: &mut Vec<u8>) {
    let length_at =
        |body: &[u8], at: usize| i32::from_be_bytes(body[at..at + 4].try_into().unwrap());
    let mut at = 2;
    for _ in 0..change.column {
        at += 4 + length_at(body, at).max(0) as usize;
    }
    let length = length_at(body, at);
    let end = at + 4 + length.max(0) as usize;
    let value = change.value((length >= 0).then(|| &body[at + 4..end]));
    let length = value.as_ref().map_or(-1, |value| value.len() as i32);
    let field = [&length.to_be_bytes()[..], &value.unwrap_or_default()].concat();
    body.splice(at..end, field);
}

fn description(change: &Change, body: &mut [u8]) {
    let Some(kind) = change.kind(KINDS) else { return };
    let mut at = 2;
    for column in 0..=change.column {
        // A name, its table and place there, then the type.
        at += body[at..].iter().position(|byte| *byte == 0).unwrap() + 1 + 6;
        if column == change.column {
            body[at..at + 4].copy_from_slice(&kind.to_be_bytes());
        }
        at += 12;
    }
}
