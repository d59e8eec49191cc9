//! Loops on petal's side of the connection.
//!
//! LOOP=client sends one prepared statement per operation, as an application would. LOOP=set sends
//! one statement for SELECTs of a batch that follow each other in one schema, with a clock read
//! after each; UPDATEs and scans go one by one, each UPDATE with its own commit.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::client::Error;
use super::schema;
use super::session_server::Micros;
use super::work::Work;
use crate::engine::server::batch_loop::{
    self, BUDGET_MAX, BatchPart, Executed, budget_us, keys, selects_or_one, timed,
};
use crate::engine::server::failure::Failure;
use crate::engine::server::per_schema::{PerSchema, SchemaWork as _};
use crate::engine::server::statement_loop;
use crate::engine::{Batch, Result, SessionError};
use crate::workload::op::{Kind, Operation};

/// LOOP=client.
pub struct ClientLoop {
    schemas: PerSchema<Work, Statements>,
}

#[derive(Clone)]
struct Statements {
    select: Statement,
    scan: Statement,
    update: Statement,
}

impl ClientLoop {
    pub fn new(work: &mut Work) -> Result<Self> {
        let schemas = PerSchema::new(work, |work, number| {
            let name = schema::name(number);
            let update = schema::update(&name, work.schemas.changed_columns());
            Ok(Statements {
                select: prepared(work, &schema::select(&name))?,
                scan: prepared(work, &schema::scan(&name))?,
                update: prepared(work, &update)?,
            })
        })?;
        Ok(Self { schemas })
    }

    pub fn execute(&mut self, work: &mut Work, batch: Batch<'_>) -> Result<(), SessionError> {
        statement_loop::run(batch, &mut |operation| self.execute_one(work, operation))
    }

    /// One operation; an UPDATE is a transaction of its own.
    fn execute_one(&mut self, work: &mut Work, operation: &Operation) -> Result<u64, Failure> {
        let statements = self.schemas.get(work, operation.schema)?;
        let (first, last) = keys(operation);
        match operation.kind {
            Kind::Select => count(work, &statements.select, &[&first, &last]),
            Kind::Scan => count(work, &statements.scan, &[]),
            Kind::Update => update(work, &statements.update, operation),
        }
    }
}

fn prepared(work: &mut Work, sql: &str) -> Result<Statement> {
    work.client.prepare_for("preparing statements", sql)
}

fn count(
    work: &mut Work,
    statement: &Statement,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<u64, Failure> {
    let row = work.client.query_one(statement, parameters);
    let rows = row.and_then(|row| Ok(row.try_get::<_, i64>(0)?.cast_unsigned()));
    rows.map_err(|error| work.failure(&error))
}

fn update(work: &mut Work, statement: &Statement, operation: &Operation) -> Result<u64, Failure> {
    let (first, last) = keys(operation);
    let columns = work.schemas.changed_columns();
    // Owned, because the connection is borrowed with it.
    let text = work.update_text(operation, columns)?.to_owned();
    let width = text.len() / columns;
    let texts: Vec<&str> =
        (0..columns).filter_map(|at| text.get(at * width..(at + 1) * width)).collect();
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&first, &last];
    parameters.extend(texts.iter().map(|text| text as &(dyn ToSql + Sync)));
    let updated = work.client.execute(statement, &parameters);
    updated.map_err(|error| work.failure(&error))
}

/// LOOP=set.
pub struct SetLoop {
    single: ClientLoop,
    selects: PerSchema<Work, Statement>,
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
    pub fn new(work: &mut Work) -> Result<Self> {
        let selects = PerSchema::new(work, |work, number| {
            prepared(work, &SELECTS.replace("{schema}", &schema::name(number)))
        })?;
        Ok(Self { single: ClientLoop::new(work)?, selects })
    }

    pub fn execute(&mut self, work: &mut Work, batch: Batch<'_>) -> Result<(), SessionError> {
        batch_loop::run(&selects_or_one(usize::MAX), BUDGET_MAX, batch, &mut |part| match part
            .operations
        {
            [one] if one.kind != Kind::Select => {
                Ok(vec![timed(|| self.single.execute_one(work, one))])
            }
            _ => self.select_all(work, part),
        })
    }

    fn select_all(
        &mut self,
        work: &mut Work,
        part: &BatchPart<'_>,
    ) -> Result<Vec<Executed>, Failure> {
        let statement = self.selects.get(work, part.home)?;
        let (lows, highs): (Vec<i64>, Vec<i64>) = part.operations.iter().map(keys).unzip();
        let budget_us = budget_us(part.budget);
        let answer = work.client.query(&statement, &[&lows, &highs, &budget_us]);
        let ended = answer.and_then(|rows| rows.iter().map(read).collect::<Result<Vec<_>, _>>());
        let ended = ended.map_err(|error| work.failure(&error))?;
        let mut begin = ended.first().map(|&(started, ..)| started);
        let executed = ended.into_iter().map(|(_, end, rows)| {
            let latency_ns = begin.replace(end).map_or(0, |begin| end.since_ns(begin));
            Executed { latency_ns, rows, failure: None }
        });
        Ok(executed.collect())
    }
}

/// When the statement began, when one operation ended, and how many rows it visited.
type Ended = (Micros, Micros, u64);

fn read(row: &Row) -> Result<Ended, Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get::<_, i64>(2)?.cast_unsigned()))
}
