//! LOOP=server: a batch goes to the block inside the database, which tells how long each operation
//! took. One SQL execution per operation, no round trip between them.
//!
//! The database's clock says how long an operation took, to a microsecond. When it ended, on
//! petal's clock, is counted back from the moment the batch came back.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::link::{Kind as Failed, LinkError, Row, Value};
use super::meta::cell;
use super::sql;
use super::work::{Failure, Work};
use crate::engine::turn::{self, Turn};
use crate::engine::{Outcome, Outcomes, SessionError, Stop};
use crate::workload::op::{Kind, Operation};

/// The clock of SYSTIMESTAMP, where the platform has microseconds.
pub const CLOCK_RESOLUTION_NS: u64 = 1000;
/// Characters of one operation in the block's text.
const OPERATION_CHARACTERS: usize = 25;
/// PL/SQL's text holds 32,767.
const TEXT_MAX: usize = 32_000;
const OPERATIONS_MAX: usize = TEXT_MAX / OPERATION_CHARACTERS;
/// Characters that differ from UPDATE to UPDATE; what follows is the same in all columns.
const STAMP_BYTES: usize = 13;
/// The block's budget where there is no deadline.
const BUDGET_MAX: Duration = Duration::from_secs(3600);

pub struct ServerLoop {
    /// By the schema that is home in it.
    blocks: BTreeMap<u32, String>,
    ops: String,
    fillers: String,
    tail: String,
}

impl ServerLoop {
    pub fn new() -> Self {
        Self {
            blocks: BTreeMap::new(),
            ops: String::new(),
            fillers: String::new(),
            tail: String::new(),
        }
    }

    /// Makes the block in which `home` is home, unless it is there.
    fn make_block(&mut self, work: &Work, home: u32) -> Result<(), SessionError> {
        if let Entry::Vacant(vacant) = self.blocks.entry(home) {
            let tables = &work.meta(home)?.tables;
            let hot = work.meta(1).map_or(tables, |meta| &meta.tables);
            let columns = work.changed_columns();
            vacant.insert(sql::run_batch(tables, hot, columns, work.config.commit_wait));
        }
        Ok(())
    }

    pub fn execute(
        &mut self,
        work: &mut Work,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        let mut from = 0;
        while let Some(turn) = turn::next(work.home, batch, from) {
            let now = Instant::now();
            if stop.is_due(now) {
                break;
            }
            work.limit_calls(stop, now)?;
            let budget = stop.time_left(now).map_or(BUDGET_MAX, |left| left.min(BUDGET_MAX));
            self.make_block(work, turn.home)?;
            let ended = self.call(work, &turn, budget, stop, done)?;
            if ended == 0 {
                break; // Only the budget can have ended it.
            }
            from += ended;
        }
        Ok(())
    }

    /// One call; returns how many operations ended.
    fn call(
        &mut self,
        work: &mut Work,
        turn: &Turn<'_>,
        budget: Duration,
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<usize, SessionError> {
        let total = self.fill(work, turn.home, turn.operations);
        let block = self.blocks.get(&turn.home).map_or("", String::as_str);
        let called_ns = stop.since_trigger_ns(Instant::now());
        let budget_us = i64::try_from(budget.as_micros()).unwrap_or(i64::MAX).max(1);
        let answer = work.link.call(
            block,
            &[
                ("ops", Value::Text(&self.ops)),
                ("fillers", Value::Text(&self.fillers)),
                ("tail", Value::Text(&self.tail)),
                ("width", Value::Number(work.width() as i64)),
                ("total", Value::Number(total as i64)),
                ("budget_us", Value::Number(budget_us)),
            ],
            &["told", "errors"],
        );
        let span = (called_ns, stop.since_trigger_ns(Instant::now()));
        let answer = match answer.and_then(|row| Answer::read(&row, total)) {
            Ok(answer) => answer,
            Err(error) => {
                // What the call did is not known: the first operation stands for it.
                return match work.failure(&error, stop) {
                    Failure::Fatal(error) => Err(error),
                    Failure::Counted(code) => {
                        done.ended.push(Outcome::of_failed_call(turn.from, span.1, code));
                        Ok(1)
                    }
                };
            }
        };
        answer.tell(work, turn.from, span, stop, done)
    }

    /// As many operations as fit into one call; how many these are.
    fn fill(&mut self, work: &mut Work, home: u32, operations: &[Operation]) -> usize {
        self.ops.clear();
        self.fillers.clear();
        self.tail.clear();
        // All columns alike and longer than what differs: that goes for each, the rest once.
        let is_short = work.is_constant() && work.width() > STAMP_BYTES;
        let columns = if is_short { 1 } else { work.changed_columns() };
        let mut total = 0;
        for operation in operations.iter().take(OPERATIONS_MAX) {
            if operation.kind == Kind::Update {
                let text = work.filler(operation, columns);
                let (stamp, tail) = text.split_at(STAMP_BYTES.min(text.len()));
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
            let (first, last) = match operation.kind {
                Kind::Scan => (0, 0),
                _ => (operation.first, operation.last()),
            };
            // Into a String, which cannot fail.
            let _ = write!(self.ops, "{letter}{first:012}{last:012}");
            total += 1;
        }
        total
    }
}

/// What the block told.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    /// Microseconds and rows of each operation that ended.
    ended: Vec<(u64, u64)>,
    failed: Vec<Noted>,
}

/// An error that the block noted; positions from 0.
#[derive(Debug, PartialEq)]
struct Noted {
    at: usize,
    error: LinkError,
}

impl Answer {
    fn read(row: &Row, total: usize) -> Result<Self, LinkError> {
        let odd = || LinkError {
            code: None,
            message: format!("the loop in the database answered oddly: {}", cell(row, 0)),
            kind: Failed::Database,
        };
        let ended: Option<Vec<(u64, u64)>> = cell(row, 0)
            .split_terminator(';')
            .map(|one| {
                let (micros, rows) = one.split_once(',')?;
                // A clock that was set back is no latency.
                let micros = micros.parse::<i64>().ok()?.max(0).cast_unsigned();
                Some((micros, rows.parse().ok()?))
            })
            .collect();
        let ended = ended.filter(|ended| ended.len() <= total).ok_or_else(odd)?;
        let failed: Option<Vec<Noted>> = cell(row, 1).lines().map(Noted::parse).collect();
        Ok(Self { ended, failed: failed.ok_or_else(odd)? })
    }

    fn tell(
        &self,
        work: &Work,
        from: usize,
        (called_ns, returned_ns): (u64, u64),
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<usize, SessionError> {
        let mut left_us: u64 = self.ended.iter().map(|(micros, _)| micros).sum();
        let mut failed = self.failed.iter().peekable();
        for (at, &(micros, rows)) in self.ended.iter().enumerate() {
            left_us -= micros;
            let error = match failed.next_if(|noted| noted.at == at) {
                None => None,
                Some(noted) => match work.failure(&noted.error, stop) {
                    Failure::Counted(code) => Some(code),
                    Failure::Fatal(error) => return Err(error),
                },
            };
            done.ended.push(Outcome {
                operation: (from + at) as u32,
                latency_ns: micros * 1000,
                // Two clocks may differ: nothing ended before it was asked for.
                end_ns: returned_ns.saturating_sub(left_us * 1000).max(called_ns),
                rows,
                error,
            });
        }
        Ok(self.ended.len())
    }
}

impl Noted {
    /// `position sqlcode message`, positions from 1, codes below 0.
    fn parse(line: &str) -> Option<Self> {
        let (position, rest) = line.split_once(' ')?;
        let (code, message) = rest.split_once(' ')?;
        let code = code.parse::<i64>().ok()?.unsigned_abs();
        Some(Self {
            at: position.parse::<usize>().ok()?.checked_sub(1)?,
            error: LinkError {
                code: u32::try_from(code).ok(),
                message: message.to_owned(),
                kind: Failed::Database,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(told: &str, errors: Option<&str>) -> Row {
        vec![Some(told.to_owned()), errors.map(str::to_owned)]
    }

    #[test]
    fn answers_are_read() {
        let errors = "2 -60 ORA-00060: deadlock detected\n";
        let answer = Answer::read(&row("120,64;-5,0;7,1;", Some(errors)), 3).unwrap();
        assert_eq!(answer.ended, [(120, 64), (0, 0), (7, 1)]);
        assert_eq!(answer.failed[0].at, 1);
        assert_eq!(answer.failed[0].error.name(), "ORA-00060");
        assert_eq!(Answer::read(&vec![None, None], 3).unwrap(), Answer::default());
    }

    #[test]
    fn an_odd_answer_is_no_lost_connection() {
        let error = Answer::read(&row("7", None), 5).unwrap_err();
        assert_eq!(error.name(), "odd-answer");
        assert_eq!(error.to_string(), "the loop in the database answered oddly: 7");
    }

    proptest! {
        #[test]
        fn odd_answers_are_refused_and_never_panic(told in "[0-9,;-]{0,40}", errors in ".{0,40}") {
            if let Ok(answer) = Answer::read(&row(&told, Some(&errors)), 5) {
                prop_assert!(answer.ended.len() <= 5);
            }
        }
    }
}
