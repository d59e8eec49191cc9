//! LOOP=client: one prepared statement per operation, as an application would send them.

use mysql_async::{Params, Statement, Value};

use super::errors::engine_error;
use super::schema;
use super::work::Work;
use crate::engine::server::batch_loop::keys;
use crate::engine::server::failure::Failure;
use crate::engine::server::per_schema::{PerSchema, SchemaWork as _};
use crate::engine::server::statement_loop;
use crate::engine::{Batch, Result, SessionError};
use crate::workload::op::{Kind, Operation};

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
    pub fn execute_one(&mut self, work: &mut Work, operation: &Operation) -> Result<u64, Failure> {
        let statements = self.schemas.get(work, operation.schema)?;
        match operation.kind {
            Kind::Select => count(work, &statements.select, keys(operation).into()),
            Kind::Scan => count(work, &statements.scan, Params::Empty),
            Kind::Update => update(work, &statements.update, operation),
        }
    }
}

pub fn prepared(work: &mut Work, sql: &str) -> Result<Statement> {
    let prepared = work.client.prepare(sql);
    prepared.map_err(|error| engine_error(&work.server, "preparing statements", &error))
}

fn count(work: &mut Work, statement: &Statement, parameters: Params) -> Result<u64, Failure> {
    let rows = work.client.first::<u64>(statement, parameters);
    rows.map(Option::unwrap_or_default).map_err(|error| work.failure(&error))
}

fn update(work: &mut Work, statement: &Statement, operation: &Operation) -> Result<u64, Failure> {
    let (first, last) = keys(operation);
    let columns = work.schemas.changed_columns();
    let text = work.update_text(operation, columns)?.as_bytes();
    let texts = text.chunks_exact((text.len() / columns).max(1));
    let mut values: Vec<Value> = texts.map(|text| Value::Bytes(text.to_vec())).collect();
    values.extend([Value::Int(first), Value::Int(last)]);
    let updated = work.client.execute(statement, Params::Positional(values));
    updated.map_err(|error| work.failure(&error))
}
