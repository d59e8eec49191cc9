//! The protocol of MySQL and MariaDB as a relay changes it: rows of texts and of binary values, and
//! their columns' descriptions, by the question that they answer. No test of its own.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::mutation::{Change, Shared, TYPES, Wire, question};

/// VAR_STRING, DATETIME, and a number that no type has.
const KINDS: [u8; TYPES] = [0xfd, 12, 32];

const DEPRECATE_EOF: u32 = 1 << 24;
const MORE_RESULTS: u16 = 8;

/// A command that the server answers.
enum Asked {
    Text(String),
    Prepare(String),
    Execute(u32),
    Other,
}

/// One connection.
#[derive(Default)]
pub struct Mysql {
    asked: Mutex<VecDeque<Asked>>,
    /// Results end with an OK; without it an EOF follows the columns and the rows.
    ends_are_ok: AtomicBool,
}

/// A packet with its number.
struct Packet(u8, Vec<u8>);

impl Packet {
    fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut header = [0; 4];
        from.read_exact(&mut header)?;
        let mut body = vec![0; u32::from_le_bytes(header) as usize & 0xff_ffff];
        from.read_exact(&mut body)?;
        Ok(Self(header[3], body))
    }

    fn write(&self, mut to: &TcpStream) -> io::Result<()> {
        let header = (self.1.len() as u32 | u32::from(self.0) << 24).to_le_bytes();
        to.write_all(&[&header, &self.1[..]].concat())
    }

    fn is_error(&self) -> bool {
        self.1.first() == Some(&0xff)
    }

    /// The end of columns or rows.
    fn is_end(&self) -> bool {
        self.1.first() == Some(&0xfe) && self.1.len() < 0xff_ffff
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// An integer of variable length, and the place after it.
fn number(bytes: &[u8], at: usize) -> (usize, usize) {
    let of = |count: usize| {
        let mut all = [0; 8];
        all[..count].copy_from_slice(&bytes[at + 1..=at + count]);
        (u64::from_le_bytes(all) as usize, at + 1 + count)
    };
    match bytes[at] {
        0xfc => of(2),
        0xfd => of(3),
        0xfe => of(8),
        one => (one.into(), at + 1),
    }
}

/// A text with its length before it.
fn with_length(text: &[u8]) -> Vec<u8> {
    let length = (text.len() as u32).to_le_bytes();
    match text.len() {
        0..=250 => [&length[..1], text].concat(),
        251..=0xffff => [&[0xfc], &length[..2], text].concat(),
        _ => [&[0xfd], &length[..3], text].concat(),
    }
}

/// A value in a row, without the length before it.
struct Place {
    /// With its length.
    all: Range<usize>,
    value: Range<usize>,
}

fn text_at(bytes: &[u8], at: usize) -> Place {
    let (length, begin) = number(bytes, at);
    Place { all: at..begin + length, value: begin..begin + length }
}

impl Wire for Mysql {
    fn hand_on_questions(&self, mut from: TcpStream, to: &TcpStream) -> io::Result<()> {
        loop {
            let packet = Packet::read(&mut from)?;
            let Packet(number, body) = &packet;
            let sql = || question(&String::from_utf8_lossy(&body[1..]));
            let asked = match body.first() {
                // The client's part of logging on begins with what it can.
                _ if *number == 1 && body.len() > 32 => {
                    let ends_are_ok = u32_at(body, 0) & DEPRECATE_EOF != 0;
                    self.ends_are_ok.store(ends_are_ok, Ordering::Relaxed);
                    None
                }
                _ if *number != 0 => None,
                Some(3) => Some(Asked::Text(sql())),
                Some(0x16) => Some(Asked::Prepare(sql())),
                Some(0x17) => Some(Asked::Execute(u32_at(body, 1))),
                // The end, a long value, and the end of a statement have no answer.
                Some(1 | 0x18 | 0x19) => None,
                _ => Some(Asked::Other),
            };
            self.asked.lock().unwrap().extend(asked);
            packet.write(to)?;
        }
    }

    fn hand_on_answers(
        &self,
        from: TcpStream,
        to: &TcpStream,
        mutation: &Shared,
    ) -> io::Result<()> {
        let mut answers = Answers { from: BufReader::new(from), to, mutation, ends_are_ok: false };
        answers.log_on()?;
        answers.ends_are_ok = self.ends_are_ok.load(Ordering::Relaxed);
        let mut statements: HashMap<u32, Statement> = HashMap::new();
        loop {
            let first = Packet::read(&mut answers.from)?;
            match self.asked.lock().unwrap().pop_front() {
                Some(Asked::Text(question)) => {
                    let mut statement = Statement { question, kinds: Vec::new() };
                    answers.results(first, &mut statement, false)?;
                }
                Some(Asked::Execute(id)) => {
                    answers.results(first, statements.entry(id).or_default(), true)?;
                }
                Some(Asked::Prepare(question)) => {
                    statements.extend(answers.prepared(first, question)?);
                }
                Some(Asked::Other) | None => first.write(to)?,
            }
        }
    }
}

/// A statement with the types of its columns.
#[derive(Default)]
struct Statement {
    question: String,
    kinds: Vec<u8>,
}

struct Answers<'a> {
    from: BufReader<TcpStream>,
    to: &'a TcpStream,
    mutation: &'a Shared,
    ends_are_ok: bool,
}

impl Answers<'_> {
    fn pass(&mut self) -> io::Result<Packet> {
        let packet = Packet::read(&mut self.from)?;
        packet.write(self.to)?;
        Ok(packet)
    }

    /// From the greeting to the OK.
    fn log_on(&mut self) -> io::Result<()> {
        self.pass()?;
        while self.pass()?.1.first() != Some(&0) {}
        Ok(())
    }

    /// The statement that is prepared, with its number, unless it was refused.
    fn prepared(
        &mut self,
        first: Packet,
        question: String,
    ) -> io::Result<Option<(u32, Statement)>> {
        first.write(self.to)?;
        if first.is_error() {
            return Ok(None);
        }
        let body = first.1;
        let (columns, parameters) = (u16_at(&body, 5), u16_at(&body, 7));
        self.descriptions(parameters.into(), None)?;
        let change = self.mutation.lock().of(&question, columns.into());
        let kinds = self.descriptions(columns.into(), change.as_ref())?;
        Ok(Some((u32_at(&body, 1), Statement { question, kinds })))
    }

    /// Descriptions of columns; their types as the server sends them.
    fn descriptions(&mut self, count: usize, change: Option<&Change>) -> io::Result<Vec<u8>> {
        let mut kinds = Vec::new();
        for column in 0..count {
            let mut packet = Packet::read(&mut self.from)?;
            let kind = kind_place(&packet.1);
            kinds.push(packet.1[kind]);
            let change = change.filter(|change| change.column == column);
            if let Some(changed) = change.and_then(|change| change.kind(KINDS)) {
                packet.1[kind] = changed;
            }
            packet.write(self.to)?;
        }
        if count > 0 && !self.ends_are_ok {
            self.pass()?;
        }
        Ok(kinds)
    }

    /// All results of a statement.
    fn results(
        &mut self,
        mut first: Packet,
        statement: &mut Statement,
        is_binary: bool,
    ) -> io::Result<()> {
        while self.result(first, statement, is_binary)? {
            first = Packet::read(&mut self.from)?;
        }
        self.mutation.lock().answered(&statement.question);
        Ok(())
    }

    /// One result; whether another follows.
    fn result(
        &mut self,
        first: Packet,
        statement: &mut Statement,
        is_binary: bool,
    ) -> io::Result<bool> {
        first.write(self.to)?;
        let (columns, end) = match first.1[0] {
            0xff => return Ok(false),
            0 => return Ok(follows(&first.1)),
            _ => number(&first.1, 0),
        };
        let change = self.mutation.lock().of(&statement.question, columns);
        // MariaDB spares descriptions that are as they were.
        if first.1.get(end) != Some(&0) {
            statement.kinds = self.descriptions(columns, change.as_ref())?;
        }
        loop {
            let mut packet = Packet::read(&mut self.from)?;
            let is_last = packet.is_end() || packet.is_error();
            match &change {
                Some(change) if !is_last && is_binary => {
                    binary_row(change, &statement.kinds, &mut packet.1)
                }
                Some(change) if !is_last => text_row(change, &mut packet.1),
                _ => {}
            }
            packet.write(self.to)?;
            if is_last {
                let old_end = |body: &[u8]| u16_at(body, 3) & MORE_RESULTS != 0;
                return Ok(!packet.is_error()
                    && match self.ends_are_ok {
                        true => follows(&packet.1),
                        false => old_end(&packet.1),
                    });
            }
        }
    }
}

/// Whether another result follows an OK: the flag comes after two numbers.
fn follows(ok: &[u8]) -> bool {
    let (_, at) = number(ok, 1);
    let (_, at) = number(ok, at);
    u16_at(ok, at) & MORE_RESULTS != 0
}

/// The place of a column's type in its description.
fn kind_place(body: &[u8]) -> usize {
    let mut at = 0;
    for _ in 0..6 {
        at = text_at(body, at).all.end;
    }
    // MariaDB may say more of the type, if both sides agree to it; then the fixed part.
    at + 1 + 2 + 4
}

fn text_row(change: &Change, body: &mut Vec<u8>) {
    const NULL: u8 = 0xfb;
    let place = |at: usize| match body[at] {
        NULL => Place { all: at..at + 1, value: at..at },
        _ => text_at(body, at),
    };
    let mut found = place(0);
    for _ in 0..change.column {
        found = place(found.all.end);
    }
    let is_null = body[found.all.start] == NULL;
    let value = change.value((!is_null).then(|| &body[found.value]));
    body.splice(found.all, value.map_or(vec![NULL], |value| with_length(&value)));
}

fn binary_row(change: &Change, kinds: &[u8], body: &mut Vec<u8>) {
    let is_null = |at: usize| body[1 + (at + 2) / 8] & 1 << ((at + 2) % 8) != 0;
    let mut at = 1 + (kinds.len() + 2).div_ceil(8);
    let place = |column: usize, at: usize| match fixed(kinds[column]) {
        _ if is_null(column) => Place { all: at..at, value: at..at },
        Some(bytes) => Place { all: at..at + bytes, value: at..at + bytes },
        None => text_at(body, at),
    };
    for column in 0..change.column {
        at = place(column, at).all.end;
    }
    let column = change.column;
    // A NULL has no room for a value.
    if is_null(column) {
        return;
    }
    let Place { all, value } = place(column, at);
    let value = change.value(Some(&body[value]));
    let field = match (&value, fixed(kinds[column])) {
        (None, _) => Vec::new(),
        (Some(value), Some(_)) => value.clone(),
        (Some(value), None) => with_length(value),
    };
    body.splice(all, field);
    if value.is_none() {
        body[1 + (column + 2) / 8] |= 1 << ((column + 2) % 8);
    }
}

/// The bytes of a binary value of this type; None: its length is before it.
fn fixed(kind: u8) -> Option<usize> {
    match kind {
        1 => Some(1),
        2 | 13 => Some(2),
        3 | 4 | 9 => Some(4),
        5 | 8 => Some(8),
        6 => Some(0),
        _ => None,
    }
}
