//! LOOP=client: one prepared statement per operation, as an application would. Round trips are
//! part of each latency, on petal's own clock.

use std::collections::BTreeMap;
use std::time::Instant;

use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use super::client::Error;
use super::connect::engine_error;
use super::schema;
use super::work::{Failure, Work, keys, prepared};
use crate::engine::{EngineError, Outcome, Outcomes, SessionError, Stop};
use crate::workload::op::{Kind, Operation};

pub struct ClientLoop {
    schemas: BTreeMap<u32, Statements>,
}

#[derive(Clone)]
struct Statements {
    select: Statement,
    scan: Statement,
    update: Statement,
}

impl ClientLoop {
    pub fn new(work: &mut Work) -> Result<Self, EngineError> {
        let mut side = Self { schemas: BTreeMap::new() };
        side.prepare(work, work.home)?;
        Ok(side)
    }

    fn prepare(&mut self, work: &mut Work, number: u32) -> Result<Statements, EngineError> {
        if let Some(statements) = self.schemas.get(&number) {
            return Ok(statements.clone());
        }
        let name = schema::name(number);
        let update = schema::update(&name, work.changed_columns());
        let mut prepare = |sql: &str| {
            let prepared = work.client.prepare(sql);
            prepared.map_err(|error| engine_error(&work.server, "preparing statements", &error))
        };
        let statements = Statements {
            select: prepare(&schema::select(&name))?,
            scan: prepare(&schema::scan(&name))?,
            update: prepare(&update)?,
        };
        self.schemas.insert(number, statements.clone());
        Ok(statements)
    }

    pub fn execute(
        &mut self,
        work: &mut Work,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        self.execute_from(work, batch, 0, stop, done)
    }

    /// Some operations of a batch, of which the first has the index `from`.
    pub fn execute_from(
        &mut self,
        work: &mut Work,
        operations: &[Operation],
        from: usize,
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        let mut begin = Instant::now();
        for (operation, index) in operations.iter().zip(from as u32..) {
            if stop.is_due(begin) {
                break;
            }
            let statements = prepared(self.prepare(work, operation.schema))?;
            let (rows, error) = match run(work, &statements, operation)? {
                Ok(rows) => (rows, None),
                Err(error) => match work.failure(&error, stop) {
                    Failure::Counted(code) => (0, Some(code)),
                    Failure::Fatal(error) => return Err(error),
                },
            };
            let end = Instant::now();
            done.ended.push(Outcome::timed(index, (begin, end), stop, rows, error));
            begin = end;
        }
        Ok(())
    }
}

/// One operation; an UPDATE is a transaction of its own.
fn run(
    work: &mut Work,
    statements: &Statements,
    operation: &Operation,
) -> Result<Result<u64, Error>, SessionError> {
    let (first, last) = keys(operation);
    let rows = match operation.kind {
        Kind::Select => count(work, &statements.select, &[&first, &last]),
        Kind::Scan => count(work, &statements.scan, &[]),
        Kind::Update => {
            let columns = work.changed_columns();
            // Owned, because the connection is borrowed with it.
            let text = work.filler(operation, columns)?.to_owned();
            let (width, _) = work.shape(operation.schema)?;
            let texts: Vec<&str> =
                (0..columns).filter_map(|at| text.get(at * width..(at + 1) * width)).collect();
            let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&first, &last];
            parameters.extend(texts.iter().map(|text| text as &(dyn ToSql + Sync)));
            work.client.execute(&statements.update, &parameters)
        }
    };
    Ok(rows)
}

fn count(
    work: &mut Work,
    statement: &Statement,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<u64, Error> {
    let row = work.client.query_one(statement, parameters)?;
    Ok(row.try_get::<_, i64>(0).map(i64::cast_unsigned)?)
}
