//! Numbers in files that petal reads, times ten to the n: petal ends within a budget of processor time
//! and memory, by itself, without a panic. The short form multiplies some numbers alone, and all of a
//! file at once. `PETAL_TEST_LONG=1` halves the numbers of a file that petal does not read as before,
//! down to each number alone that changes the exit code.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::read_files::{LEDGER_START, ReadFile, ledger_header, some, with_header, words, written};
use crate::support::{Petal, Workplace, free_port, is_long, text_of, write_text};

/// Far more than any of these needs, and far less than what a file claims.
const BUDGET: &str = "ulimit -t 60; ulimit -v 4000000";
/// Zeros behind a number: a thousand, beyond 32 bits, beyond 64 bits, beyond a double's range.
const ZEROS: [usize; 4] = [3, 9, 18, 320];
const SHORT_FORM: usize = 2;
/// Numbers tried alone of those that are refused in the same way.
const SAME_WAY: usize = 8;

/// A number, and what JSON and tables put around it: `"ops":12}`, `12.5%`, `8K`.
fn has_number(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit())
}

/// The places after the digits before a point, in words that have a number.
fn ends_of_numbers(text: &str) -> Vec<usize> {
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let ends = words(text, has_number).into_iter().flat_map(|word| {
        word.filter(|&at| is_digit(at) && !is_digit(at + 1)).map(|at| at + 1).collect::<Vec<_>>()
    });
    ends.collect()
}

/// A text with zeros in these places.
fn multiplied(text: &str, ends: &[usize], zeros: usize) -> String {
    let (mut changed, mut from) = (String::new(), 0);
    for &end in ends {
        changed.push_str(&text[from..end]);
        changed.push_str(&"0".repeat(zeros));
        from = end;
    }
    changed + &text[from..]
}

/// Numbers whose bound only they have, which a short form multiplies too.
const BOUNDED: &str = "\"repeats\":";

fn ends_of_bounded(text: &str) -> Vec<usize> {
    let places = text.match_indices(BOUNDED).map(|(at, key)| at + key.len());
    let end = |at: usize| {
        let digits = text[at..].trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        text.len() - digits.len()
    };
    places.map(end).collect()
}

/// Each number alone, and all at once; a short form takes some.
fn variants(text: &str) -> Vec<String> {
    let ends = ends_of_numbers(text);
    let (most, alone, all) = match is_long() {
        true => (usize::MAX, &ZEROS[..], &ZEROS[..]),
        false => (SHORT_FORM, &ZEROS[1..3], &ZEROS[..1]),
    };
    let mut one = some(ends.clone(), most);
    if !is_long() {
        one.extend(ends_of_bounded(text));
    }
    let one = one.into_iter();
    let one = one.flat_map(|end| alone.iter().map(move |zeros| (vec![end], zeros)));
    let cases = one.chain(all.iter().map(|zeros| (ends.clone(), zeros)));
    cases.map(|(ends, zeros)| multiplied(text, &ends, *zeros)).collect()
}

/// Fails unless petal ends within its budget; returns the exit code.
#[track_caller]
fn ends(petal: Petal, what: &str) -> i32 {
    let ended = petal.after(BUDGET).ends();
    let said = format!("{}{}", ended.stdout, ended.stderr);
    let said = &said[..said.len().min(4000)];
    let code = ended.code.unwrap_or_else(|| panic!("{what}: it was ended from outside: {said}"));
    assert!(code < 100 && !said.contains("panicked"), "{what}: {code}: {said}");
    code
}

/// A file and a command that reads it.
struct Reading<'a> {
    work: &'a Workplace,
    path: PathBuf,
    text: String,
    call: &'a [String],
}

impl Reading<'_> {
    /// The exit code with this text in the file.
    fn code(&self, changed: &str) -> i32 {
        let Self { work, path, text, call } = self;
        write_text(path, changed);
        let differs = text.bytes().zip(changed.bytes()).position(|(a, b)| a != b).unwrap_or(0);
        let near = changed.get(differs.saturating_sub(60)..differs + 10).unwrap_or("");
        let code = ends(work.petal(call.iter()), &format!("{call:?} near {near:?}"));
        write_text(path, text);
        code
    }

    /// Multiplies all of these numbers; if petal then ends in another way, which may hide what one
    /// of them does, each half of them.
    fn halve(&self, numbers: &[usize], zeros: usize, usual: i32) {
        let code = self.code(&multiplied(&self.text, numbers, zeros));
        if code == usual || numbers.len() < 2 {
            return;
        }
        // No number has so many digits: a reader of numbers refuses each in the same way.
        let parts: Vec<&[usize]> = match zeros == ZEROS[3] {
            true => numbers.chunks(1).step_by(numbers.len().div_ceil(SAME_WAY)).collect(),
            false => numbers.chunks(numbers.len().div_ceil(2)).collect(),
        };
        parts.into_iter().for_each(|part| self.halve(part, zeros, usual));
    }
}

fn try_all(work: &Workplace, file: &ReadFile) {
    let path = work.path(&file.name);
    let text = text_of(&path);
    let calls = if is_long() { file.calls.len() } else { 1 };
    for call in &file.calls[..calls] {
        let reading = Reading { work, path: path.clone(), text: text.clone(), call };
        if !is_long() {
            for changed in variants(&text) {
                reading.code(&changed);
            }
            continue;
        }
        let (numbers, usual) = (ends_of_numbers(&text), reading.code(&text));
        for zeros in ZEROS {
            reading.halve(&numbers, zeros, usual);
        }
        let _ = writeln!(io::stderr(), "{call:?}: {} numbers of {}", numbers.len(), file.name);
    }
}

#[test]
fn counts_times_ten_to_the_n_cost_neither_time_nor_memory() {
    let (work, files) = written();
    for file in &files {
        try_all(&work, file);
    }
    settings_are_bounded();
    addresses_are_bounded();
}

/// Bytes of a frame's head, and the places and lengths of numbers in a head and in a record.
const FRAME_HEAD: usize = 48;
const RECORD: usize = 36;
const IN_HEAD: [(usize, usize); 5] = [(4, 4), (8, 8), (16, 4), (24, 8), (32, 8)];
const IN_RECORD: [(usize, usize); 6] = [(0, 8), (8, 8), (16, 8), (24, 8), (32, 2), (34, 2)];

fn number(bytes: &[u8], (at, length): (usize, usize)) -> u64 {
    let mut all = [0; 8];
    all[..length].copy_from_slice(&bytes[at..at + length]);
    u64::from_le_bytes(all)
}

/// A number of so many bytes times ten to the n, or the largest one.
fn grow(bytes: &mut [u8], (at, length): (usize, usize), zeros: usize) {
    let factor = 10_u64.saturating_pow(zeros as u32);
    let most = u64::MAX >> (64 - 8 * length);
    let grown = number(bytes, (at, length)).max(1).saturating_mul(factor).min(most);
    bytes[at..at + length].copy_from_slice(&grown.to_le_bytes()[..length]);
}

fn with_checksum(bytes: &mut [u8], at: usize, of: std::ops::Range<usize>) {
    let checksum = crc32fast::hash(&bytes[of]);
    bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Ledgers whose checksums are right.
fn changed_ledgers(ledger: &[u8]) -> Vec<Vec<u8>> {
    let header = ledger_header(ledger);
    let begin = LEDGER_START + header.len();
    let headers = variants(header).into_iter().map(|header| with_header(ledger, &header));
    let first = begin + FRAME_HEAD;
    let records = number(ledger, (begin + 16, 4)) as usize * RECORD;
    let zeros = if is_long() { &ZEROS[..3] } else { &ZEROS[1..3] };
    let in_head = IN_HEAD.map(|(at, length)| (begin + at, length));
    let in_record = IN_RECORD.map(|(at, length)| (first + at, length));
    let places = [&[(8, 4)][..], &in_head, &in_record].concat();
    let grown = places.into_iter().flat_map(|place| zeros.iter().map(move |zeros| (place, *zeros)));
    let grown = grown.map(|(place, zeros)| {
        let mut changed = ledger.to_vec();
        grow(&mut changed, place, zeros);
        with_checksum(&mut changed, begin + 20, first..first + records);
        with_checksum(&mut changed, begin + 44, begin..begin + 44);
        changed
    });
    headers.chain(grown).collect()
}

#[test]
fn ledgers_with_counts_times_ten_to_the_n_cost_neither_time_nor_memory() {
    let work = Workplace::loaded(1, "8M");
    let run = ["run", "--work-loop", "20", "--update-pct", "90", "--ledger", "kept.ledger"];
    work.petal(run).exits(0);
    let db = fs::canonicalize(work.path("petal-data")).unwrap();
    let db = format!("sqlite:{}", db.display());
    let verify = ["verify", "kept.ledger", "--db", &db];
    work.petal(verify).exits(0);
    for changed in changed_ledgers(&fs::read(work.path("kept.ledger")).unwrap()) {
        work.write("kept.ledger", &changed);
        ends(work.petal(verify), "kept.ledger");
    }
}

/// A slob.conf, whose data are not loaded.
fn settings_are_bounded() {
    let work = Workplace::new();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/slob/slob.conf");
    for changed in variants(&fs::read_to_string(sample).unwrap()) {
        work.write("slob.conf", changed);
        ends(work.petal(["run", "--db", "sqlite:nowhere"]), "slob.conf");
    }
}

/// A tnsnames.ora that names a port where nobody listens.
fn addresses_are_bounded() {
    let work = Workplace::new();
    let port = free_port();
    let text = format!(
        "own = (DESCRIPTION=(CONNECT_TIMEOUT=1)(RETRY_COUNT=1)(ADDRESS=(PROTOCOL=tcp)\
         (HOST=127.0.0.1)(PORT={port}))(CONNECT_DATA=(SERVICE_NAME=own)))\n"
    );
    for changed in variants(&text) {
        let file = work.write("tnsnames.ora", changed);
        let check = work.petal(["check", "--db", "oracle://anna:x@own"]);
        ends(check.env("TNS_ADMIN", file.parent().unwrap()), "tnsnames.ora");
    }
}
