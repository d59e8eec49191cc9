//! LOOP=client: one prepared statement per operation, as an application would send them.

use std::collections::BTreeMap;

use mysql_async::{Params, Statement, Value};

use super::errors::engine_error;
use super::schema;
use super::session::Work;
use crate::engine::server::batch_loop::keys;
use crate::engine::server::failure::Failure;
use crate::engine::server::statement_loop;
use crate::engine::{EngineError, Outcomes, SessionError, Stop};
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
    pub fn execute_one(
        &mut self,
        work: &mut Work,
        operation: &Operation,
        stop: &Stop,
    ) -> Result<u64, Failure> {
        let statements = self.prepare(work, operation.schema)?;
        match operation.kind {
            Kind::Select => count(work, &statements.select, keys(operation).into(), stop),
            Kind::Scan => count(work, &statements.scan, Params::Empty, stop),
            Kind::Update => update(work, &statements.update, operation, stop),
        }
    }
}

pub fn prepared(work: &mut Work, sql: &str) -> Result<Statement, EngineError> {
    let prepared = work.client.prepare(sql);
    prepared.map_err(|error| engine_error(&work.server, "preparing statements", &error))
}

fn count(
    work: &mut Work,
    statement: &Statement,
    parameters: Params,
    stop: &Stop,
) -> Result<u64, Failure> {
    let rows = work.client.first::<u64>(statement, parameters);
    rows.map(Option::unwrap_or_default).map_err(|error| work.failure(&error, stop))
}

fn update(
    work: &mut Work,
    statement: &Statement,
    operation: &Operation,
    stop: &Stop,
) -> Result<u64, Failure> {
    let (first, last) = keys(operation);
    let columns = work.changed_columns();
    let text = work.update_text(operation, columns)?.as_bytes();
    let texts = text.chunks_exact((text.len() / columns).max(1));
    let mut values: Vec<Value> = texts.map(|text| Value::Bytes(text.to_vec())).collect();
    values.extend([Value::Int(first), Value::Int(last)]);
    let updated = work.client.execute(statement, Params::Positional(values));
    updated.map_err(|error| work.failure(&error, stop))
}
