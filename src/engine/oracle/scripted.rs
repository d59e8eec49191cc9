//! A scripted database behind the same narrow door as the driver's: it answers by what a statement
//! contains, executes the loop's text as the block would, and keeps what it was sent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::errors::TRANSIENT;
use super::link::{Connector, Kind, Link, LinkError, Row, Value};

/// What a statement that contains a text is answered with.
#[derive(Clone)]
pub enum Answer {
    Rows(Vec<Row>),
    Fails(LinkError),
    /// No answer until this says so.
    Hangs(Arc<dyn Fn(&Scripted) -> bool + Send + Sync>),
}

#[derive(Default)]
pub struct State {
    answers: Vec<(String, Answer)>,
    /// For the next operations of loops, in order: the error that each ends with.
    pub faults: VecDeque<Option<u32>>,
    /// The next call itself fails.
    pub call_fails: Option<LinkError>,
    /// Endpoints that sessions came through, in order.
    pub endpoints: Vec<usize>,
    /// The texts of the loops that were called.
    pub blocks: Vec<String>,
    /// What was sent, one line each.
    pub sent: Vec<String>,
    /// Operations that the loop executes before its text is full.
    pub told_max: Option<usize>,
    pub limits: Vec<Option<Duration>>,
}

#[derive(Clone, Default)]
pub struct Scripted(pub Arc<Mutex<State>>);

impl Scripted {
    pub fn answers(self, contains: &str, rows: &[&[&str]]) -> Self {
        let rows = rows.iter().map(|row| cells(row)).collect();
        self.with(contains, Answer::Rows(rows))
    }

    pub fn fails(self, contains: &str, code: u32, message: &str) -> Self {
        self.fails_as(contains, error(code, message))
    }

    pub fn fails_as(self, contains: &str, error: LinkError) -> Self {
        self.with(contains, Answer::Fails(error))
    }

    /// A peer that keeps the connection and says nothing.
    pub fn hangs(self, contains: &str) -> Self {
        self.hangs_until(contains, |_| false)
    }

    pub fn hangs_until(
        self,
        contains: &str,
        over: impl Fn(&Scripted) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.with(contains, Answer::Hangs(Arc::new(over)))
    }

    fn with(self, contains: &str, answer: Answer) -> Self {
        // The latest word counts.
        self.0.lock().answers.insert(0, (contains.to_owned(), answer));
        self
    }

    /// What was sent since the last look.
    pub fn sent(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().sent)
    }
}

pub fn error(code: u32, message: &str) -> LinkError {
    let kind = if matches!(code, 28 | 3113 | 12541) { Kind::Connection } else { Kind::Database };
    LinkError { code: Some(code), message: format!("ORA-{code:05}: {message}"), kind }
}

fn cells(row: &[&str]) -> Row {
    row.iter().map(|cell| (!cell.is_empty()).then(|| (*cell).to_owned())).collect()
}

impl Connector for Scripted {
    fn session(&self, endpoint: usize, purpose: &str) -> Result<Box<dyn Link>, LinkError> {
        self.0.lock().endpoints.push(endpoint);
        self.clone().link(purpose)
    }

    fn admin(&self, purpose: &str) -> Result<Box<dyn Link>, LinkError> {
        self.clone().link(&format!("admin: {purpose}"))
    }
}

impl Scripted {
    fn link(self, purpose: &str) -> Result<Box<dyn Link>, LinkError> {
        match self.find(&format!("CONNECT {purpose}")) {
            Some(Answer::Fails(error)) => Err(error),
            _ => Ok(Box::new(self)),
        }
    }

    fn find(&self, sql: &str) -> Option<Answer> {
        let state = self.0.lock();
        let found = state.answers.iter().find(|(contains, _)| sql.contains(contains.as_str()));
        let answer = found.map(|(_, answer)| answer.clone());
        drop(state);
        if let Some(Answer::Hangs(over)) = &answer {
            while !over(self) {
                std::thread::sleep(Duration::from_millis(1));
            }
            return None;
        }
        answer
    }

    fn keep(&self, what: &str, sql: &str, binds: &[Value<'_>]) {
        let told: Vec<String> = binds
            .iter()
            .map(|bind| match bind {
                Value::Text(text) => format!("'{}'", text.chars().take(20).collect::<String>()),
                Value::Number(number) => number.to_string(),
            })
            .collect();
        let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = match told.is_empty() {
            true => format!("{what} {sql}"),
            false => format!("{what} {sql} [{}]", told.join(", ")),
        };
        self.0.lock().sent.push(line);
    }
}

impl Link for Scripted {
    fn execute(&mut self, sql: &str, binds: &[Value<'_>]) -> Result<u64, LinkError> {
        self.keep("execute", sql, binds);
        match self.find(sql) {
            Some(Answer::Fails(error)) => Err(error),
            Some(Answer::Rows(rows)) => Ok(rows.len() as u64),
            _ => Ok(1),
        }
    }

    fn query(&mut self, sql: &str, binds: &[Value<'_>]) -> Result<Vec<Row>, LinkError> {
        self.keep("query", sql, binds);
        match self.find(sql) {
            Some(Answer::Fails(error)) => Err(error),
            Some(Answer::Rows(rows)) => Ok(rows),
            _ => Ok(Vec::new()),
        }
    }

    fn execute_many(&mut self, sql: &str, rows: &[Vec<Value<'_>>]) -> Result<u64, LinkError> {
        self.keep(&format!("execute {} rows", rows.len()), sql, &[]);
        match self.find(sql) {
            Some(Answer::Fails(error)) => Err(error),
            _ => Ok(rows.len() as u64),
        }
    }

    fn call(
        &mut self,
        block: &str,
        ins: &[(&str, Value<'_>)],
        outs: &[&str],
    ) -> Result<Row, LinkError> {
        match self.find(block) {
            Some(Answer::Rows(rows)) => {
                self.keep("call", block, &[]);
                return Ok(rows[0].clone());
            }
            Some(Answer::Fails(error)) => return Err(error),
            _ => {}
        }
        let binds: Vec<Value<'_>> = ins.iter().map(|(_, value)| *value).collect();
        self.keep("call", "the loop", &binds);
        assert_eq!(outs, ["told", "errors"]);
        let mut state = self.0.lock();
        state.blocks.push(block.to_owned());
        if let Some(error) = state.call_fails.take() {
            return Err(error);
        }
        Ok(execute_loop(&mut state, &binds))
    }

    fn commit(&mut self) -> Result<(), LinkError> {
        self.keep("commit", "", &[]);
        Ok(())
    }

    fn limit(&mut self, longest: Option<Duration>) -> Result<(), LinkError> {
        self.0.lock().limits.push(longest);
        Ok(())
    }

    fn identity(&self) -> (u64, u64) {
        (7, 70)
    }
}

/// As `sql/loop.sql` does: an operation of n rows takes 10 n microseconds.
fn execute_loop(state: &mut State, binds: &[Value<'_>]) -> Row {
    let text = |at: usize| match binds[at] {
        Value::Text(text) => text,
        Value::Number(_) => panic!("a text is bound there"),
    };
    let number = |at: usize| match binds[at] {
        Value::Number(number) => number as usize,
        Value::Text(_) => panic!("a number is bound there"),
    };
    let (ops, fillers, tail, width, total) = (text(0), text(1), text(2), number(3), number(4));
    assert!(ops.len() <= 32_767 && fillers.len() <= 32_767 && ops.len() == total * 25);
    let updates = ops.as_bytes().chunks(25).filter(|op| op[0].eq_ignore_ascii_case(&b'U')).count();
    if updates > 0 && !tail.is_empty() {
        assert_eq!(fillers.len(), updates * 13, "a stamp for each UPDATE");
        assert_eq!(tail.len(), width - 13);
    } else {
        assert!(updates == 0 || fillers.len().is_multiple_of(updates * width), "whole columns");
    }
    let (mut told, mut errors) = (String::new(), String::new());
    for at in 0..total.min(state.told_max.unwrap_or(total)) {
        let op = &ops[at * 25..(at + 1) * 25];
        let (first, last): (u64, u64) = (op[1..13].parse().unwrap(), op[13..].parse().unwrap());
        let rows = if op[..1].eq_ignore_ascii_case("C") { 48 } else { last - first + 1 };
        match state.faults.pop_front().flatten() {
            None => told.push_str(&format!("{},{rows};", rows * 10)),
            Some(code) => {
                told.push_str("5,0;");
                errors.push_str(&format!("{} -{code} ORA-{code:05}: scripted\n", at + 1));
                if !TRANSIENT.contains(&format!("ORA-{code:05}").as_str()) {
                    break;
                }
            }
        }
    }
    vec![Some(told), (!errors.is_empty()).then_some(errors)]
}
