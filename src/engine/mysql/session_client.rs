//! Prepared statements of LOOP=client and LOOP=set. A set's ranges travel as JSON, and the server reads
//! its clock at each row.

use mysql_async::{Params, Statement, Value};

use super::schema;
use super::session_server::{ServerLoop, check_clock};
use super::work::Work;
use crate::engine::Result;
use crate::engine::server::batch_loop::{BatchPart, Executed, keys};
use crate::engine::server::failure::Failure;
use crate::engine::server::liveness::TimeoutPolicy;
use crate::engine::server::per_schema::SchemaWork as _;
use crate::engine::server::session::SessionControl;
use crate::engine::server::sides::{LoopWork, Statements};
use crate::workload::op::Operation;

impl LoopWork for Work {
    type Statement = Statement;
    type Routine = ServerLoop;

    /// A statement ends only when all are done.
    const SELECTS_MAX: usize = 500;

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
            select: self.prepare(&schema::select(&name))?,
            scan: self.prepare(&schema::scan(&name))?,
            update: self.prepare(&update)?,
        })
    }

    fn prepare_set(&mut self, number: u32) -> Result<Statement> {
        check_clock(self)?;
        self.prepare(&schema::select_set(&schema::name(number)))
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

    fn select_all(
        &mut self,
        statement: &Statement,
        part: &BatchPart<'_>,
    ) -> Result<Vec<Executed>, Failure> {
        let ranges: Vec<String> = part
            .operations
            .iter()
            .map(|operation| {
                let (first, last) = keys(operation);
                format!("[{first},{last}]")
            })
            .collect();
        let answer = self.client.rows(statement, (format!("[{}]", ranges.join(",")),));
        let ended: Vec<(u64, u64, u64)> = answer.map_err(|error| self.failure(&error))?;
        // Ranges without any row are not in the answer: they took next to no time.
        let mut ended = ended.into_iter().peekable();
        let mut begin_us = 0;
        let executed = (1..).take(part.operations.len()).map(|at| {
            let (rows, end_us) = match ended.next_if(|one| one.0 == at) {
                Some((_, rows, end_us)) => (rows, end_us),
                None => (0, begin_us),
            };
            let latency_ns = end_us.saturating_sub(begin_us) * 1000;
            begin_us = end_us.max(begin_us);
            Executed { latency_ns, rows, failure: None }
        });
        Ok(executed.collect())
    }
}
