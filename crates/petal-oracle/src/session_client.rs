//! LOOP=client: one statement per operation, as an application would send it. Round trips are part
//! of each latency, on petal's own clock; an UPDATE takes a second one for its COMMIT.

use super::link::{BindValue, LinkError};
use super::meta::number;
use super::session_server::ServerLoop;
use super::sql;
use super::work::Work;
use petal_engine::server::batch_loop::keys;
use petal_engine::server::failure::Failure;
use petal_engine::server::per_schema::SchemaWork as _;
use petal_engine::server::session::SessionControl;
use petal_engine::server::sides::{LoopWork, Statements};
use petal_engine::{CUT, Result};
use petal_workload::op::Operation;

impl LoopWork for Work {
    type Statement = String;
    type Routine = ServerLoop;

    fn control(&self) -> &SessionControl {
        &self.control
    }

    fn prepare_operations(&mut self, schema: u32) -> Result<Statements<String>> {
        let tables = &self.schema(schema)?.tables;
        Ok(Statements {
            select: sql::select(tables),
            scan: sql::scan(tables),
            update: sql::update(tables, self.schemas.changed_columns()),
        })
    }

    fn count(&mut self, statement: &String, bounds: &[i64]) -> Result<u64, Failure> {
        self.limit_calls()?;
        let binds: Vec<_> = bounds.iter().copied().map(BindValue::Number).collect();
        let rows = self.link.query(statement, &binds).map_err(|error| self.failure(&error))?;
        Ok(rows.first().map_or(0, |row| number(row, 0)))
    }

    fn update(&mut self, statement: &String, operation: &Operation) -> Result<u64, Failure> {
        self.limit_calls()?;
        let (columns, width) = (self.schemas.changed_columns(), self.width());
        let (first, last) = keys(operation);
        let text = self.update_text(operation, columns)?.to_owned();
        let texts = (0..columns).filter_map(|at| text.get(at * width..(at + 1) * width));
        let keys = [first, last].map(BindValue::Number);
        let binds: Vec<BindValue<'_>> = texts.map(BindValue::from).chain(keys).collect();
        let updated = self.link.execute(statement, &binds);
        let committed = updated.and_then(|rows| self.commit().map(|()| rows));
        committed.map_err(|error| self.rolled_back(&error))
    }
}

impl Work {
    fn commit(&mut self) -> Result<(), LinkError> {
        match &self.commit {
            Some(commit) => self.link.execute(commit, &[]).map(|_| ()),
            None => self.link.commit(),
        }
    }

    /// The meaning of a failed UPDATE, after it is rolled back. A session whose ROLLBACK fails is lost,
    /// unless the operation was cut.
    fn rolled_back(&mut self, error: &LinkError) -> Failure {
        let failure = self.failure(error);
        let Failure::Counted(code) = &failure else { return failure };
        match self.link.execute("ROLLBACK", &[]) {
            Err(error) if **code != *CUT => self.loss(&error).into(),
            _ => failure,
        }
    }
}
