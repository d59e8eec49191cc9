//! A scripted database that implements the driver's interface: it answers by the text in a
//! statement, executes the loop's text like the block, and records all statements.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::errors::TRANSIENT;
use super::link::{
    BindValue, Connector, Destination, Link, LinkError, LinkErrorKind, NamedValue, Result, Row,
};
use super::session_server::OPERATION_CHARACTERS;
use petal_engine::server::scripted::{ScriptedAnswer, StatementScript, cells};

#[derive(Default)]
pub struct DatabaseState {
    /// Errors of the next operations of loops, in order.
    pub faults: VecDeque<Option<u32>>,
    /// Error of the next call itself.
    pub call_fails: Option<LinkError>,
    /// Endpoints that sessions used, in order.
    pub endpoints: Vec<usize>,
    /// Texts of the loops that were called.
    pub blocks: Vec<String>,
    /// Number of operations that the loop executes before its text is full.
    pub ended_max: Option<usize>,
    pub limits: Vec<Option<Duration>>,
}

#[derive(Clone, Default)]
pub struct ScriptedOracle(pub Arc<Mutex<DatabaseState>>, StatementScript<LinkError>);

impl ScriptedOracle {
    pub fn answers(self, contains: &str, rows: &[&[&str]]) -> Self {
        self.with(contains, ScriptedAnswer::Rows(rows.iter().map(|row| cells(row)).collect()))
    }

    pub fn fails(self, contains: &str, code: u32, message: &str) -> Self {
        self.fails_as(contains, error(code, message))
    }

    pub fn fails_as(self, contains: &str, error: LinkError) -> Self {
        self.with(contains, ScriptedAnswer::Fails(error))
    }

    /// Makes the peer keep the connection and stay silent for a matching statement.
    pub fn hangs(self, contains: &str) -> Self {
        self.hangs_until(contains, |_| false)
    }

    pub fn hangs_until(
        self,
        contains: &str,
        over: impl Fn(&StatementScript<LinkError>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.with(contains, ScriptedAnswer::Hangs(Arc::new(over)))
    }

    fn with(self, contains: &str, answer: ScriptedAnswer<LinkError>) -> Self {
        self.1.add(contains, answer);
        self
    }

    /// Returns everything that was sent since the last call.
    pub fn sent(&self) -> Vec<String> {
        self.1.sent()
    }
}

pub fn error(code: u32, message: &str) -> LinkError {
    let kind = if matches!(code, 28 | 3113 | 12541) {
        LinkErrorKind::Connection
    } else {
        LinkErrorKind::Database
    };
    LinkError { code: Some(code), message: format!("ORA-{code:05}: {message}"), kind }
}

impl Connector for ScriptedOracle {
    fn connect(&self, to: Destination, purpose: &str) -> Result<Box<dyn Link>> {
        match to {
            Destination::Endpoint(endpoint) => {
                self.0.lock().endpoints.push(endpoint);
                self.clone().link(purpose)
            }
            Destination::Admin => self.clone().link(&format!("admin: {purpose}")),
        }
    }
}

impl ScriptedOracle {
    fn link(self, purpose: &str) -> Result<Box<dyn Link>> {
        match self.1.find(&format!("CONNECT {purpose}")) {
            Some(ScriptedAnswer::Fails(error)) => Err(error),
            _ => Ok(Box::new(self)),
        }
    }

    fn keep(&self, what: &str, sql: &str, binds: &[BindValue<'_>]) {
        let shown: Vec<String> = binds
            .iter()
            .map(|bind| match bind {
                BindValue::Text(text) => format!("'{}'", text.chars().take(20).collect::<String>()),
                BindValue::Number(number) => number.to_string(),
            })
            .collect();
        let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = match shown.is_empty() {
            true => format!("{what} {sql}"),
            false => format!("{what} {sql} [{}]", shown.join(", ")),
        };
        self.1.keep(line);
    }
}

impl Link for ScriptedOracle {
    fn execute(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<u64> {
        self.keep("execute", sql, binds);
        match self.1.find(sql) {
            Some(ScriptedAnswer::Fails(error)) => Err(error),
            Some(ScriptedAnswer::Rows(rows)) => Ok(rows.len() as u64),
            _ => Ok(1),
        }
    }

    fn query(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<Vec<Row>> {
        self.keep("query", sql, binds);
        match self.1.find(sql) {
            Some(ScriptedAnswer::Fails(error)) => Err(error),
            Some(ScriptedAnswer::Rows(rows)) => Ok(rows),
            _ => Ok(Vec::new()),
        }
    }

    fn execute_many(&mut self, sql: &str, rows: &[Vec<BindValue<'_>>]) -> Result<u64> {
        self.keep(&format!("execute {} rows", rows.len()), sql, &[]);
        match self.1.find(sql) {
            Some(ScriptedAnswer::Fails(error)) => Err(error),
            _ => Ok(rows.len() as u64),
        }
    }

    fn call(&mut self, block: &str, ins: &[NamedValue<'_>], outs: &[&'static str]) -> Result<Row> {
        match self.1.find(block) {
            Some(ScriptedAnswer::Rows(rows)) => {
                self.keep("call", block, &[]);
                return Ok(rows[0].clone());
            }
            Some(ScriptedAnswer::Fails(error)) => return Err(error),
            _ => {}
        }
        let binds: Vec<BindValue<'_>> = ins.iter().map(|(_, value)| value.clone()).collect();
        self.keep("call", "the loop", &binds);
        assert_eq!(outs, ["ended", "errors"]);
        let mut state = self.0.lock();
        state.blocks.push(block.to_owned());
        if let Some(error) = state.call_fails.take() {
            return Err(error);
        }
        Ok(execute_loop(&mut state, block, &binds))
    }

    fn commit(&mut self) -> Result<()> {
        self.keep("commit", "", &[]);
        Ok(())
    }

    fn limit(&mut self, longest: Option<Duration>) -> Result<()> {
        self.0.lock().limits.push(longest);
        Ok(())
    }

    fn identity(&self) -> (u64, u64) {
        (7, 70)
    }
}

/// Executes the loop like `sql/loop.sql`: an operation of n rows takes 10 n microseconds.
fn execute_loop(state: &mut DatabaseState, block: &str, binds: &[BindValue<'_>]) -> Row {
    let text = |at: usize| match &binds[at] {
        BindValue::Text(text) => text,
        BindValue::Number(_) => panic!("a text is bound there"),
    };
    let number = |at: usize| match binds[at] {
        BindValue::Number(number) => number as usize,
        BindValue::Text(_) => panic!("a number is bound there"),
    };
    let (ops, fillers, tail, width, total) = (text(0), text(1), text(2), number(3), number(4));
    assert!(ops.len() <= 32_767 && fillers.len() <= 32_767);
    assert_eq!(ops.len(), total * OPERATION_CHARACTERS);
    let ops: Vec<&[u8]> = ops.as_bytes().chunks(OPERATION_CHARACTERS).collect();
    let updates = ops.iter().filter(|op| op[0].eq_ignore_ascii_case(&b'U')).count();
    if updates > 0 && !tail.is_empty() {
        let stamp_bytes = stamp_bytes(block);
        assert_eq!(fillers.len(), updates * stamp_bytes, "a stamp for each UPDATE");
        assert_eq!(tail.len(), width - stamp_bytes);
    } else {
        assert!(updates == 0 || fillers.len().is_multiple_of(updates * width), "whole columns");
    }
    let (mut ended, mut errors) = (String::new(), String::new());
    let taken = total.min(state.ended_max.unwrap_or(total));
    for (op, position) in ops.iter().take(taken).zip(1..) {
        let op = std::str::from_utf8(op).unwrap();
        let (first, last): (u64, u64) = (op[1..13].parse().unwrap(), op[13..].parse().unwrap());
        assert!(block.contains(&format!("WHEN '{}' THEN", &op[..1])), "no branch for {op}");
        let rows = if op[..1].eq_ignore_ascii_case("C") { 48 } else { last - first + 1 };
        match state.faults.pop_front().flatten() {
            None => ended.push_str(&format!("{},{rows};", rows * 10)),
            Some(code) => {
                ended.push_str("5,0;");
                errors.push_str(&format!("{} -{code} ORA-{code:05}: scripted\n", position));
                if !TRANSIENT.contains(&format!("ORA-{code:05}").as_str()) {
                    break;
                }
            }
        }
    }
    // No call is shorter than its operations.
    let took_us = ended.split(';').filter_map(|end| end.split(',').next()?.parse::<u64>().ok());
    std::thread::sleep(Duration::from_micros(took_us.sum()));
    vec![Some(ended), (!errors.is_empty()).then_some(errors)]
}

/// Returns the length of a stamp as the block cuts it from the fillers and skips it.
fn stamp_bytes(block: &str) -> usize {
    let number = |before: &str| -> usize {
        let (_, after) = block.split_once(before).unwrap();
        let digits = after.split(|sign: char| !sign.is_ascii_digit()).next();
        digits.unwrap().parse().unwrap()
    };
    let taken = number("v2 := SUBSTRB(fillers, filler_at, ");
    let (_, with_tail) = block.split_once("|| tail").unwrap();
    let stepped = with_tail.split_once("filler_at := filler_at + ").unwrap().1;
    assert!(stepped.starts_with(&format!("{taken};")), "{stepped:.40}");
    taken
}
