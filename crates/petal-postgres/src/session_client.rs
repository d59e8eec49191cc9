//! Prepared statements of LOOP=client.

use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use super::answer::NonNegative;
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

const PREPARING: &str = "preparing statements";

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
        Ok(Statements {
            select: self.client.prepare_for(PREPARING, &schema::select(&name))?,
            scan: self.client.prepare_for(PREPARING, &schema::scan(&name))?,
            update: self.client.prepare_for(PREPARING, &update)?,
        })
    }

    fn count(&mut self, statement: &Statement, bounds: &[i64]) -> Result<u64, Failure> {
        let bounds: Vec<&(dyn ToSql + Sync)> =
            bounds.iter().map(|bound| bound as &(dyn ToSql + Sync)).collect();
        let row = self.client.query_one(statement, &bounds);
        let rows = row.and_then(|row| Ok(row.try_get::<_, NonNegative>(0)?.0));
        rows.map_err(|error| self.failure(&error))
    }

    fn update(&mut self, statement: &Statement, operation: &Operation) -> Result<u64, Failure> {
        let (first, last) = keys(operation);
        let columns = self.schemas.changed_columns();
        // Owned, because the connection is borrowed with it.
        let text = self.update_text(operation, columns)?.to_owned();
        let width = text.len() / columns;
        let texts: Vec<&str> =
            (0..columns).filter_map(|at| text.get(at * width..(at + 1) * width)).collect();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&first, &last];
        parameters.extend(texts.iter().map(|text| text as &(dyn ToSql + Sync)));
        let updated = self.client.execute(statement, &parameters);
        updated.map_err(|error| self.failure(&error))
    }
}
