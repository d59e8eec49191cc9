//! LOOP=server: the texts in which a batch travels to the block inside the database, and the
//! block's answer. It measures each operation to a microsecond.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::link::{BindValue, LinkError, LinkErrorKind, Row};
use super::meta::cell;
use super::sql;
use super::work::Work;
use petal_engine::server::answer::bounded;
use petal_engine::server::batch_loop::{
    self, BUDGET_MAX, BatchPart, Executed, NotedError, budget_us, by_schema, keys,
};
use petal_engine::server::failure::Failure;
use petal_engine::server::per_schema::SchemaWork as _;
use petal_engine::server::row_layout::{STAMP_BYTES, split_stamp};
use petal_engine::server::sides::Routine;
use petal_engine::{Batch, Result, SessionError};
use petal_workload::op::{Kind, Operation};

/// Length of one operation in the block's text, in characters.
pub const OPERATION_CHARACTERS: usize = 25;
/// Maximum length of a text in PL/SQL, which holds 32,767.
const TEXT_MAX: usize = 32_000;
const OPERATIONS_MAX: usize = TEXT_MAX / OPERATION_CHARACTERS;

#[derive(Default)]
pub struct ServerLoop {
    /// Blocks by their home schema.
    blocks: BTreeMap<u32, String>,
    /// Kinds of operations so far. A block has branches for these alone, because a user need not
    /// have CF2, or may only SELECT.
    letters: BTreeSet<char>,
    ops: String,
    fillers: String,
    tail: String,
}

impl Routine<Work> for ServerLoop {
    fn new(_: &mut Work) -> Result<Self> {
        Ok(Self::default())
    }

    fn execute(&mut self, work: &mut Work, batch: Batch<'_>) -> Result<(), SessionError> {
        let split = by_schema(work.schemas.home);
        batch_loop::run(&split, BUDGET_MAX, batch, &mut |part| self.call(work, part))
    }
}

impl ServerLoop {
    /// Makes the block with home schema `home`, unless it exists.
    fn make_block(&mut self, work: &Work, home: u32) -> Result<()> {
        if let Entry::Vacant(vacant) = self.blocks.entry(home) {
            let tables = &work.schema(home)?.tables;
            let hot = work.schema(1).map_or(tables, |meta| &meta.tables);
            let columns = work.schemas.changed_columns();
            let wait = work.config.commit_wait;
            vacant.insert(sql::run_batch(tables, hot, &self.letters, columns, wait));
        }
        Ok(())
    }

    fn call(&mut self, work: &mut Work, part: &BatchPart<'_>) -> Result<Vec<Executed>, Failure> {
        work.limit_calls()?;
        let total = self.fill(work, part.home, part.operations)?;
        self.make_block(work, part.home)?;
        let block = self.blocks.get(&part.home).map_or("", String::as_str);
        let budget_us = budget_us(part.budget);
        let answer = work.link.call(
            block,
            &[
                ("ops", BindValue::from(&self.ops)),
                ("fillers", BindValue::from(&self.fillers)),
                ("tail", BindValue::from(&self.tail)),
                ("width", BindValue::Number(work.width() as i64)),
                ("total", BindValue::Number(total as i64)),
                ("budget_us", BindValue::Number(budget_us)),
            ],
            &["ended", "errors"],
        );
        let answer = answer.and_then(|row| Answer::read(&row, total));
        let answer = answer.map_err(|error| work.failure(&error))?;
        Ok(answer.executed(work))
    }

    /// Fills one call with as many operations as fit; returns their number.
    fn fill(&mut self, work: &mut Work, home: u32, operations: &[Operation]) -> Result<usize> {
        self.ops.clear();
        self.fillers.clear();
        self.tail.clear();
        // If all columns are alike and longer than the stamp, send one stamp per operation and the
        // rest once.
        let is_short = work.is_constant() && work.width() > STAMP_BYTES;
        let columns = if is_short { 1 } else { work.schemas.changed_columns() };
        let mut total = 0;
        for operation in operations.iter().take(OPERATIONS_MAX) {
            if operation.kind == Kind::Update {
                let text = work.update_text(operation, columns)?;
                let (stamp, tail) = split_stamp(text);
                let text = if is_short { stamp } else { text };
                if self.fillers.len() + text.len() > TEXT_MAX {
                    break;
                }
                self.fillers.push_str(text);
                if is_short && self.tail.is_empty() {
                    self.tail.push_str(tail);
                }
            }
            let letter = match operation.kind {
                Kind::Select => 'S',
                Kind::Scan => 'C',
                Kind::Update => 'U',
            };
            let letter =
                if operation.schema == home { letter } else { letter.to_ascii_lowercase() };
            if self.letters.insert(letter) {
                self.blocks.clear();
            }
            let (first, last) = keys(operation);
            // Writing into a String cannot fail.
            let _ = write!(self.ops, "{letter}{first:012}{last:012}");
            total += 1;
        }
        Ok(total)
    }
}

/// Answer of the block.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    /// Microseconds and rows of each ended operation; `None` if the clock was set back during it.
    ended: Vec<(Option<u64>, u64)>,
    /// Errors that the block noted, with their positions from 0.
    failed: Vec<(usize, LinkError)>,
}

impl Answer {
    fn read(row: &Row, total: usize) -> Result<Self, LinkError> {
        let odd = || {
            LinkError::unexpected(&format!(
                "the loop in the database answered oddly: {}",
                cell(row, 0)
            ))
        };
        let ended: Option<Vec<(Option<u64>, u64)>> = cell(row, 0)
            .split_terminator(';')
            .map(|one| {
                let (micros, rows) = one.split_once(',')?;
                let micros = u64::try_from(micros.parse::<i64>().ok()?).ok();
                Some((micros, rows.parse().ok()?))
            })
            .collect();
        let ended = ended.filter(|ended| ended.len() <= total).ok_or_else(odd)?;
        let failed: Option<Vec<_>> = cell(row, 1).lines().map(failed).collect();
        Ok(Self { ended, failed: failed.ok_or_else(odd)? })
    }

    fn executed(&self, work: &Work) -> Vec<Executed> {
        let mut failed = self.failed.iter().peekable();
        let ended = self.ended.iter().enumerate().map(|(at, &(micros, rows))| Executed {
            latency_ns: micros.and_then(|micros| micros.checked_mul(1000)),
            rows,
            failure: failed.next_if(|noted| noted.0 == at).map(|(_, error)| work.failure(error)),
        });
        ended.collect()
    }
}

/// Parses an error as the block notes it, with its SQLCODE below 0.
fn failed(line: &str) -> Option<(usize, LinkError)> {
    let NotedError { at, code, message } = NotedError::parse(line)?;
    let code = u32::try_from(code.parse::<i64>().ok()?.unsigned_abs()).ok();
    let message = bounded(message).into_owned();
    let error = LinkError { code, message, kind: LinkErrorKind::Database };
    Some((at, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(ended: &str, errors: Option<&str>) -> Row {
        vec![Some(ended.to_owned()), errors.map(str::to_owned)]
    }

    #[test]
    fn answers_are_read() {
        let errors = "2 -60 ORA-00060: deadlock detected\n";
        let answer = Answer::read(&row("120,64;-5,0;7,1;", Some(errors)), 3).unwrap();
        assert_eq!(answer.ended, [(Some(120), 64), (None, 0), (Some(7), 1)]);
        assert_eq!(answer.failed[0].0, 1);
        assert_eq!(answer.failed[0].1.name(), "ORA-00060");
        assert_eq!(Answer::read(&vec![None, None], 3).unwrap(), Answer::default());
    }

    #[test]
    fn an_odd_answer_is_no_lost_connection() {
        let error = Answer::read(&row("7", None), 5).unwrap_err();
        assert_eq!(error.name(), "odd-answer");
        assert_eq!(error.to_string(), "the loop in the database answered oddly: 7");
    }

    #[test]
    fn an_odd_answer_or_error_of_megabytes_is_cut() {
        let long = "x".repeat(3 << 20);
        let odd = Answer::read(&row(&long, None), 5).unwrap_err();
        let noted = Answer::read(&row("7,1;", Some(&format!("1 -60 {long}"))), 5).unwrap();
        let lengths = [odd.message.len(), noted.failed[0].1.message.len()];
        assert!(lengths.iter().all(|length| *length < 2100), "{lengths:?}");
    }

    proptest! {
        #[test]
        fn odd_answers_are_refused_and_never_panic(ended in "[0-9,;-]{0,40}", errors in ".{0,40}") {
            if let Ok(answer) = Answer::read(&row(&ended, Some(&errors)), 5) {
                prop_assert!(answer.ended.len() <= 5);
            }
        }
    }
}
