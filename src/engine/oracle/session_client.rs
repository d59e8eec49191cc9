//! LOOP=client: one statement per operation, as an application would. Round trips are part of each
//! latency, on petal's own clock; an UPDATE takes a second one for its COMMIT.

use std::collections::BTreeMap;
use std::time::Instant;

use super::link::{LinkError, Value};
use super::meta::number;
use super::sql;
use super::work::{Failure, Work};
use crate::engine::{CUT, Outcome, Outcomes, SessionError, Stop};
use crate::workload::op::{Kind, Operation};

pub struct ClientLoop {
    statements: BTreeMap<u32, Statements>,
    /// COMMIT_WAIT=TRUE says so in SQL; else the driver's own commit, which waits unless the
    /// instance is told otherwise.
    commit: Option<String>,
}

struct Statements {
    select: String,
    scan: String,
    update: String,
}

impl ClientLoop {
    pub fn new(work: &Work) -> Self {
        let statements = work.metas.iter().map(|meta| {
            let statements = Statements {
                select: sql::select(&meta.tables),
                scan: sql::scan(&meta.tables),
                update: sql::update(&meta.tables, work.changed_columns()),
            };
            (meta.schema, statements)
        });
        let wait = work.config.commit_wait;
        Self {
            statements: statements.collect(),
            commit: wait.then(|| sql::section(sql::OPERATIONS, "commit_and_wait")),
        }
    }

    pub fn execute(
        &mut self,
        work: &mut Work,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        let mut begin = Instant::now();
        for (operation, index) in batch.iter().zip(0u32..) {
            if stop.is_due(begin) {
                break;
            }
            work.limit_calls(stop, begin)?;
            let Some(statements) = self.statements.get(&operation.schema) else {
                return work.meta(operation.schema).map(|_| ());
            };
            let (rows, error) = match self.run(work, statements, operation) {
                Ok(rows) => (rows, None),
                Err(error) => match work.failure(&error, stop) {
                    Failure::Counted(code) => (0, Some(code)),
                    Failure::Fatal(error) => return Err(error),
                },
            };
            if error.is_some() && operation.kind == Kind::Update {
                // What a statement that failed left open must not go into the next commit. After
                // a cut there is none, and perhaps no connection.
                let rollback = work.link.execute("ROLLBACK", &[]);
                if error.as_deref() != Some(CUT) {
                    rollback.map_err(|error| work.fatal(&error))?;
                }
            }
            let end = Instant::now();
            done.ended.push(Outcome::timed(index, (begin, end), stop, rows, error));
            begin = end;
        }
        Ok(())
    }

    /// One operation; an UPDATE is a transaction of its own.
    fn run(
        &self,
        work: &mut Work,
        statements: &Statements,
        operation: &Operation,
    ) -> Result<u64, LinkError> {
        let keys = [
            operation.first,
            match operation.kind {
                Kind::Scan => 0,
                _ => operation.last(),
            },
        ]
        .map(|key| Value::Number(key.cast_signed()));
        match operation.kind {
            Kind::Select => count(work, &statements.select, &keys),
            Kind::Scan => count(work, &statements.scan, &[]),
            Kind::Update => {
                let columns = work.changed_columns();
                let width = work.width();
                // Owned, because the link is borrowed with it.
                let text = work.filler(operation, columns).to_owned();
                let texts = (0..columns).filter_map(|at| text.get(at * width..(at + 1) * width));
                let binds: Vec<Value<'_>> = texts.map(Value::Text).chain(keys).collect();
                let rows = work.link.execute(&statements.update, &binds)?;
                match &self.commit {
                    Some(commit) => work.link.execute(commit, &[]).map(|_| ())?,
                    None => work.link.commit()?,
                }
                Ok(rows)
            }
        }
    }
}

fn count(work: &mut Work, statement: &str, binds: &[Value<'_>]) -> Result<u64, LinkError> {
    let rows = work.link.query(statement, binds)?;
    Ok(rows.first().map_or(0, |row| number(row, 0)))
}
