//! Prepared statements of LOOP=client.

use mysql_async::{Params, Statement, Value};

use super::schema;
use super::session_server::ServerLoop;
use super::work::Work;
use petal_engine::Result;
use petal_engine::server::batch_loop::keys;
use petal_engine::server::failure::Failure;
use petal_engine::server::liveness::TimeoutPolicy;
use petal_engine::server::per_schema::SchemaWork as _;
use petal_engine::server::session::SessionControl;
use petal_engine::server::sides::{LoopWork, Statements};
use petal_workload::op::Operation;

impl LoopWork for Work {
    type Statement = Statement;
    type Routine = ServerLoop;

    fn control(&self) -> &SessionControl {
        &self.control
    }

    fn set_policy(&mut self, policy: TimeoutPolicy) {
        self.client.set_policy(policy);
    }

    fn prepare_operations(&mut self, number: u32) -> Result<Statements<Statement>> {
        let name = schema::name(number);
        let update = schema::update(&name, self.schemas.changed_columns());
        let select = self.prepare(&schema::select(&name))?;
        let update = match self.shared.writes {
            true => self.prepare(&update)?,
            // The server refuses it to a user who may only read.
            false => select.clone(),
        };
        Ok(Statements { select, scan: self.prepare(&schema::scan(&name))?, update })
    }

    fn count(&mut self, statement: &Statement, bounds: &[i64]) -> Result<u64, Failure> {
        let bounds = match bounds {
            [] => Params::Empty,
            bounds => Params::Positional(bounds.iter().map(|&bound| Value::Int(bound)).collect()),
        };
        let rows = self.client.first::<u64>(statement, bounds);
        rows.map(Option::unwrap_or_default).map_err(|error| self.failure(&error))
    }

    fn update(&mut self, statement: &Statement, operation: &Operation) -> Result<u64, Failure> {
        let (first, last) = keys(operation);
        let columns = self.schemas.changed_columns();
        let text = self.update_text(operation, columns)?.as_bytes();
        let texts = text.chunks_exact((text.len() / columns).max(1));
        let mut values: Vec<Value> = texts.map(|text| Value::Bytes(text.to_vec())).collect();
        values.extend([Value::Int(first), Value::Int(last)]);
        let updated = self.client.execute(statement, Params::Positional(values));
        updated.map_err(|error| self.failure(&error))
    }
}
