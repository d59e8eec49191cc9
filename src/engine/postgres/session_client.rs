//! Loops on petal's side of the connection.
//!
//! LOOP=client sends one prepared statement per operation, as an application would. LOOP=set sends
//! one statement for SELECTs of a batch that follow each other in one schema, with a clock read
//! after each; UPDATEs and scans go one by one, each UPDATE with its own commit.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::client::Error;
use super::schema;
use super::session::Work;
use super::session_server::Micros;
use crate::engine::server::batch_loop::{self, BUDGET_MAX, BatchPart, Executed, budget_us, keys};
use crate::engine::server::failure::Failure;
use crate::engine::server::statement_loop;
use crate::engine::{EngineError, Outcomes, SessionError, Stop};
use crate::workload::op::{Kind, Operation};

/// LOOP=client.
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
        work.meta(number)?;
        let name = schema::name(number);
        let update = schema::update(&name, work.changed_columns());
        let statements = Statements {
            select: prepared(work, &schema::select(&name))?,
            scan: prepared(work, &schema::scan(&name))?,
            update: prepared(work, &update)?,
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
        statement_loop::run(batch, stop, done, &mut |operation| {
            self.execute_one(work, operation, stop)
        })
    }

    /// One operation; an UPDATE is a transaction of its own.
    fn execute_one(
        &mut self,
        work: &mut Work,
        operation: &Operation,
        stop: &Stop,
    ) -> Result<u64, Failure> {
        let statements = self.prepare(work, operation.schema)?;
        let (first, last) = keys(operation);
        match operation.kind {
            Kind::Select => count(work, &statements.select, &[&first, &last], stop),
            Kind::Scan => count(work, &statements.scan, &[], stop),
            Kind::Update => update(work, &statements.update, operation, stop),
        }
    }
}

fn prepared(work: &mut Work, sql: &str) -> Result<Statement, EngineError> {
    work.client.prepare_for("preparing statements", sql)
}

fn count(
    work: &mut Work,
    statement: &Statement,
    parameters: &[&(dyn ToSql + Sync)],
    stop: &Stop,
) -> Result<u64, Failure> {
    let row = work.client.query_one(statement, parameters);
    let rows = row.and_then(|row| Ok(row.try_get::<_, i64>(0)?.cast_unsigned()));
    rows.map_err(|error| work.failure(&error, stop))
}

fn update(
    work: &mut Work,
    statement: &Statement,
    operation: &Operation,
    stop: &Stop,
) -> Result<u64, Failure> {
    let (first, last) = keys(operation);
    let columns = work.changed_columns();
    // Owned, because the connection is borrowed with it.
    let text = work.update_text(operation, columns)?.to_owned();
    let width = text.len() / columns;
    let texts: Vec<&str> =
        (0..columns).filter_map(|at| text.get(at * width..(at + 1) * width)).collect();
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&first, &last];
    parameters.extend(texts.iter().map(|text| text as &(dyn ToSql + Sync)));
    let updated = work.client.execute(statement, &parameters);
    updated.map_err(|error| work.failure(&error, stop))
}

/// LOOP=set.
pub struct SetLoop {
    single: ClientLoop,
    selects: BTreeMap<u32, Statement>,
}

/// Operations begin while the time lasts; OFFSET keeps that question before the operation.
const SELECTS: &str = "\
SELECT statement_timestamp() AS started, clock_timestamp() AS ended, visited.rows
FROM (SELECT low, high FROM unnest($1::bigint[], $2::bigint[]) AS ranges (low, high)
      WHERE clock_timestamp() < statement_timestamp() + $3::bigint * interval '1 microsecond'
      OFFSET 0) AS operations
CROSS JOIN LATERAL (SELECT count(c2) AS rows FROM {schema}.cf1
                    WHERE custid BETWEEN low AND high) AS visited";

impl SetLoop {
    pub fn new(work: &mut Work) -> Result<Self, EngineError> {
        let mut side = Self { single: ClientLoop::new(work)?, selects: BTreeMap::new() };
        side.prepare(work, work.home)?;
        Ok(side)
    }

    fn prepare(&mut self, work: &mut Work, number: u32) -> Result<Statement, EngineError> {
        if let Some(statement) = self.selects.get(&number) {
            return Ok(statement.clone());
        }
        work.meta(number)?;
        let statement = prepared(work, &SELECTS.replace("{schema}", &schema::name(number)))?;
        self.selects.insert(number, statement.clone());
        Ok(statement)
    }

    pub fn execute(
        &mut self,
        work: &mut Work,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        batch_loop::run(
            &selects_or_one,
            BUDGET_MAX,
            batch,
            stop,
            done,
            &mut |part, budget, executed| match part.operations {
                [one] if one.kind != Kind::Select => {
                    executed.push(timed(|| self.single.execute_one(work, one, stop)));
                    Ok(())
                }
                _ => self.select_all(work, part, budget, stop, executed),
            },
        )
    }

    fn select_all(
        &mut self,
        work: &mut Work,
        part: &BatchPart<'_>,
        budget: Duration,
        stop: &Stop,
        executed: &mut Vec<Executed>,
    ) -> Result<(), Failure> {
        let statement = self.prepare(work, part.home)?;
        let (lows, highs): (Vec<i64>, Vec<i64>) = part.operations.iter().map(keys).unzip();
        let budget_us = budget_us(budget);
        let answer = work.client.query(&statement, &[&lows, &highs, &budget_us]);
        let ended = answer.and_then(|rows| rows.iter().map(read).collect::<Result<Vec<_>, _>>());
        let ended = ended.map_err(|error| work.failure(&error, stop))?;
        let mut begin = ended.first().map(|&(started, ..)| started);
        executed.extend(ended.into_iter().map(|(_, end, rows)| {
            let latency_ns = begin.replace(end).map_or(0, |begin| end.since_ns(begin));
            Executed { latency_ns, rows, failure: None }
        }));
        Ok(())
    }
}

/// All the SELECTs that follow each other in one schema, or one other operation.
fn selects_or_one(rest: &[Operation]) -> (u32, usize) {
    let schema = rest.first().map_or(1, |first| first.schema);
    let is_like = |next: &&Operation| next.kind == Kind::Select && next.schema == schema;
    (schema, rest.iter().take_while(is_like).count().max(1))
}

fn timed(execute: impl FnOnce() -> Result<u64, Failure>) -> Executed {
    let begin = Instant::now();
    let result = execute();
    let latency_ns = begin.elapsed().as_nanos() as u64;
    match result {
        Ok(rows) => Executed { latency_ns, rows, failure: None },
        Err(failure) => Executed { latency_ns, rows: 0, failure: Some(failure) },
    }
}

/// When the statement began, when one operation ended, and how many rows it visited.
type Ended = (Micros, Micros, u64);

fn read(row: &Row) -> Result<Ended, Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get::<_, i64>(2)?.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::server::scripted::operation;

    #[test]
    fn selects_of_one_schema_go_together_and_all_else_alone() {
        use Kind::{Scan, Select, Update};
        let of = |kinds: &[(Kind, u32)]| -> (u32, usize) {
            let all: Vec<Operation> =
                kinds.iter().map(|&(kind, schema)| operation(kind, schema, 1, 1)).collect();
            selects_or_one(&all)
        };
        assert_eq!(of(&[(Select, 2), (Select, 2), (Select, 1)]), (2, 2));
        assert_eq!(of(&[(Update, 3), (Update, 3)]), (3, 1));
        assert_eq!(of(&[(Scan, 1), (Select, 1)]), (1, 1));
    }
}
