//! Numbers in files that petal reads, times ten to the n: petal ends within a budget of processor time
//! and memory, by itself, without a panic. `PETAL_TEST_LONG=1` multiplies each number alone; a short
//! form multiplies some, and all of a file at once.

use std::fs;
use std::net::TcpListener;

use crate::read_files::{ReadFile, some, words, written};
use crate::support::{Petal, Workplace};

/// Far more than any of these needs, and far less than what a file claims.
const BUDGET: &str = "ulimit -t 60; ulimit -v 4000000";
/// Zeros behind a number: a thousand, beyond 32 bits, beyond 64 bits, beyond a double's range.
const ZEROS: [usize; 4] = [3, 9, 18, 320];
const SHORT_FORM: usize = 2;

fn is_long() -> bool {
    std::env::var_os("PETAL_TEST_LONG").is_some()
}

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

/// Each number alone, and all at once; a short form takes some.
fn variants(text: &str) -> Vec<String> {
    let ends = ends_of_numbers(text);
    let (most, alone, all) = match is_long() {
        true => (usize::MAX, &ZEROS[..], &ZEROS[..]),
        false => (SHORT_FORM, &ZEROS[1..3], &ZEROS[..1]),
    };
    let one = some(ends.clone(), most).into_iter();
    let one = one.flat_map(|end| alone.iter().map(move |zeros| (vec![end], zeros)));
    let cases = one.chain(all.iter().map(|zeros| (ends.clone(), zeros)));
    cases.map(|(ends, zeros)| multiplied(text, &ends, *zeros)).collect()
}

#[track_caller]
fn ends(petal: Petal, what: &str) {
    let ended = petal.after(BUDGET).ends();
    let said = format!("{}{}", ended.stdout, ended.stderr);
    let said = &said[..said.len().min(4000)];
    let code = ended.code.unwrap_or_else(|| panic!("{what}: it was ended from outside: {said}"));
    assert!(code < 100 && !said.contains("panicked"), "{what}: {code}: {said}");
}

fn try_all(work: &Workplace, file: &ReadFile) {
    let path = work.path(&file.name);
    let text = fs::read_to_string(&path).unwrap();
    for changed in variants(&text) {
        fs::write(&path, &changed).unwrap();
        let calls = if is_long() { file.calls.len() } else { 1 };
        for call in &file.calls[..calls] {
            let differs = text.bytes().zip(changed.bytes()).position(|(a, b)| a != b).unwrap();
            let near = changed.get(differs.saturating_sub(60)..differs + 10).unwrap_or("");
            ends(work.petal(call), &format!("{call:?} near {near:?}"));
        }
    }
    fs::write(&path, text).unwrap();
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
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
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
