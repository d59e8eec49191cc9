//! A session's loop on the side that LOOP names, for engines whose driver prepares statements.
//!
//! LOOP=client sends one prepared statement per operation, as an application would. LOOP=server is
//! the engine's own routine.

use super::batch_loop::keys;
use super::failure::Failure;
use super::liveness::TimeoutPolicy;
use super::per_schema::{PerSchema, SchemaWork};
use super::session::SessionControl;
use super::statement_loop;
use crate::{Batch, Result, SessionError};
use petal_settings::LoopSide;
use petal_workload::op::{Kind, Operation};

/// The statements of one schema, prepared if the driver prepares them.
#[derive(Clone)]
pub struct Statements<S> {
    pub select: S,
    pub scan: S,
    pub update: S,
}

/// A session's connection, as the loops use it.
pub trait LoopWork: SchemaWork + Sized {
    type Statement: Clone;
    type Routine: Routine<Self>;

    fn control(&self) -> &SessionControl;

    /// Sets how long an answer is waited for, if the connection does not limit its own calls.
    fn set_policy(&mut self, _: TimeoutPolicy) {}

    fn prepare_operations(&mut self, schema: u32) -> Result<Statements<Self::Statement>>;

    /// The rows that a SELECT counts, within these bounds if it has any.
    fn count(&mut self, statement: &Self::Statement, bounds: &[i64]) -> Result<u64, Failure>;

    /// Executes an UPDATE as one transaction; returns the rows that it found.
    fn update(
        &mut self,
        statement: &Self::Statement,
        operation: &Operation,
    ) -> Result<u64, Failure>;
}

/// The loop inside the server.
pub trait Routine<W>: Sized {
    fn new(work: &mut W) -> Result<Self>;

    fn execute(&mut self, work: &mut W, batch: Batch<'_>) -> Result<(), SessionError>;
}

/// The statements of single operations, of each schema that a session visits.
pub type SingleStatements<W> = PerSchema<W, Statements<<W as LoopWork>::Statement>>;

/// The side that a session's loop is on.
pub enum Side<W: LoopWork> {
    Server(W::Routine),
    Client(SingleStatements<W>),
}

impl<W: LoopWork> Side<W> {
    pub fn new(work: &mut W, side: LoopSide) -> Result<Self> {
        Ok(match side {
            LoopSide::Server => Self::Server(W::Routine::new(work)?),
            LoopSide::Client => Self::Client(PerSchema::new(work, W::prepare_operations)?),
        })
    }

    pub fn execute(&mut self, work: &mut W, batch: Batch<'_>) -> Result<(), SessionError> {
        work.control().begin_batch(batch.stop);
        work.set_policy(TimeoutPolicy::of_batch(batch.stop));
        match self {
            Self::Server(routine) => routine.execute(work, batch),
            Self::Client(single) => {
                statement_loop::run(batch, &mut |operation| run_one(single, work, operation))
            }
        }
    }
}

/// Executes one operation by its prepared statement.
pub fn run_one<W: LoopWork>(
    statements: &mut SingleStatements<W>,
    work: &mut W,
    operation: &Operation,
) -> Result<u64, Failure> {
    let statements = statements.get(work, operation.schema)?;
    let (first, last) = keys(operation);
    match operation.kind {
        Kind::Select => work.count(&statements.select, &[first, last]),
        Kind::Scan => work.count(&statements.scan, &[]),
        Kind::Update => work.update(&statements.update, operation),
    }
}
