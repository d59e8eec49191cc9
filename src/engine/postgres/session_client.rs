//! Prepared statements of LOOP=client and LOOP=set. A set has a clock read after each SELECT.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::client::Error;
use super::schema;
use super::session_server::{Micros, ServerLoop};
use super::work::Work;
use crate::engine::Result;
use crate::engine::server::batch_loop::{BatchPart, Executed, budget_us, keys};
use crate::engine::server::failure::Failure;
use crate::engine::server::liveness::TimeoutPolicy;
use crate::engine::server::per_schema::SchemaWork as _;
use crate::engine::server::session::SessionControl;
use crate::engine::server::sides::{LoopWork, Statements};
use crate::workload::op::Operation;

const PREPARING: &str = "preparing statements";

/// Operations begin while the time lasts; OFFSET keeps that question before the operation.
const SELECTS: &str = "\
SELECT pg_catalog.statement_timestamp() AS started, pg_catalog.clock_timestamp() AS ended, \
visited.rows
FROM (SELECT low, high
      FROM ROWS FROM (pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::bigint[]))
          AS ranges (low, high)
      WHERE pg_catalog.clock_timestamp() < pg_catalog.statement_timestamp() + $3::bigint * \
      interval '1 microsecond'
      OFFSET 0) AS operations
CROSS JOIN LATERAL (SELECT pg_catalog.count(c2) AS rows FROM {schema}.cf1
                    WHERE custid BETWEEN low AND high) AS visited";

impl LoopWork for Work {
    type Statement = Statement;
    type Routine = ServerLoop;

    const SELECTS_MAX: usize = usize::MAX;

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

    fn prepare_set(&mut self, number: u32) -> Result<Statement> {
        let sql = SELECTS.replace("{schema}", &schema::name(number));
        self.client.prepare_for(PREPARING, &sql)
    }

    fn count(&mut self, statement: &Statement, bounds: &[i64]) -> Result<u64, Failure> {
        let bounds: Vec<&(dyn ToSql + Sync)> =
            bounds.iter().map(|bound| bound as &(dyn ToSql + Sync)).collect();
        let row = self.client.query_one(statement, &bounds);
        let rows = row.and_then(|row| Ok(row.try_get::<_, i64>(0)?.cast_unsigned()));
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

    fn select_all(
        &mut self,
        statement: &Statement,
        part: &BatchPart<'_>,
    ) -> Result<Vec<Executed>, Failure> {
        let (lows, highs): (Vec<i64>, Vec<i64>) = part.operations.iter().map(keys).unzip();
        let budget_us = budget_us(part.budget);
        let answer = self.client.query(statement, &[&lows, &highs, &budget_us]);
        let ended = answer.and_then(|rows| rows.iter().map(read).collect::<Result<Vec<_>, _>>());
        let ended = ended.map_err(|error| self.failure(&error))?;
        let mut begin = ended.first().map(|&(started, ..)| started);
        let executed = ended.into_iter().map(|(_, end, rows)| {
            let latency_ns = begin.replace(end).and_then(|begin| end.since_ns(begin));
            Executed { latency_ns, rows, failure: None }
        });
        Ok(executed.collect())
    }
}

/// When the statement began, when one operation ended, and how many rows it visited.
type StatementEnd = (Micros, Micros, u64);

fn read(row: &Row) -> Result<StatementEnd, Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get::<_, i64>(2)?.cast_unsigned()))
}
