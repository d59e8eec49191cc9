//! Loops on petal's side of the connection.
//!
//! LOOP=client sends one prepared statement per operation, as an application would. LOOP=set sends
//! one statement for all the SELECTs of a batch that follow each other in one schema, with a clock
//! read after each; UPDATEs and scans go one by one, because a single statement cannot give each
//! UPDATE its own commit.

use std::collections::BTreeMap;
use std::time::Instant;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::client::Error;
use super::connect::engine_error;
use super::schema;
use super::session::Work;
use super::session_server::Micros;
use crate::engine::server::batch_loop::keys;
use crate::engine::server::failure::Failure;
use crate::engine::server::statement_loop;
use crate::engine::{EngineError, Outcome, Outcomes, SessionError, Stop};
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

    /// Executes some operations of a batch, of which the first has the position `from`.
    pub fn execute(
        &mut self,
        work: &mut Work,
        operations: &[Operation],
        from: usize,
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        statement_loop::run(operations, from, stop, done, &mut |operation| {
            let statements = self.prepare(work, operation.schema)?;
            let (first, last) = keys(operation);
            match operation.kind {
                Kind::Select => count(work, &statements.select, &[&first, &last], stop),
                Kind::Scan => count(work, &statements.scan, &[], stop),
                Kind::Update => update(work, &statements.update, operation, stop),
            }
        })
    }
}

fn prepared(work: &mut Work, sql: &str) -> Result<Statement, EngineError> {
    let prepared = work.client.prepare(sql);
    prepared.map_err(|error| engine_error(&work.server, "preparing statements", &error))
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

/// An UPDATE is a transaction of its own.
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

/// The budget of a statement where the run has no deadline, far from an overflow.
const BUDGET_MAX_US: i64 = i64::MAX >> 10;

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
        let mut from = 0;
        while let Some(rest) = batch.get(from..).filter(|rest| !rest.is_empty()) {
            if stop.is_due(Instant::now()) {
                break;
            }
            let schema = rest[0].schema;
            let selects = rest
                .iter()
                .take_while(|next| next.kind == Kind::Select && next.schema == schema)
                .count();
            let before = done.ended.len();
            if selects == 0 {
                self.single.execute(work, &rest[..1], from, stop, done)?;
            } else {
                self.select_all(work, &rest[..selects], from, stop, done)?;
            }
            from += done.ended.len() - before;
        }
        Ok(())
    }

    fn select_all(
        &mut self,
        work: &mut Work,
        operations: &[Operation],
        from: usize,
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        let Some(schema) = operations.first().map(|operation| operation.schema) else {
            return Ok(());
        };
        let statement = self.prepare(work, schema)?;
        let (lows, highs): (Vec<i64>, Vec<i64>) = operations.iter().map(keys).unzip();
        let left_us = stop
            .time_left(Instant::now())
            .map_or(BUDGET_MAX_US, |left| i64::try_from(left.as_micros()).unwrap_or(BUDGET_MAX_US));
        let answer = work.client.query(&statement, &[&lows, &highs, &left_us]);
        let returned_ns = stop.since_trigger_ns(Instant::now());
        let ended = answer.and_then(|rows| rows.iter().map(read).collect::<Result<Vec<_>, _>>());
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                return match work.failure(&error, stop) {
                    Failure::Fatal(error) => Err(error),
                    Failure::Counted(code) => {
                        done.ended.push(Outcome::of_failed_call(from, returned_ns, code));
                        Ok(())
                    }
                };
            }
        };
        fold(&ended, from, returned_ns, done);
        Ok(())
    }
}

/// When the statement began, when one operation ended, and how many rows it visited.
type Ended = (Micros, Micros, u64);

fn read(row: &Row) -> Result<Ended, Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get::<_, i64>(2)?.cast_unsigned()))
}

fn fold(ended: &[Ended], from: usize, returned_ns: u64, done: &mut Outcomes) {
    let (Some(&(started, ..)), Some(&(_, last, _))) = (ended.first(), ended.last()) else { return };
    let mut begin = started;
    for (&(_, end, rows), at) in ended.iter().zip(from..) {
        done.ended.push(Outcome {
            operation: at as u32,
            latency_ns: end.since_ns(begin),
            end_ns: returned_ns.saturating_sub(last.since_ns(end)),
            rows,
            error: None,
        });
        begin = end;
    }
}
