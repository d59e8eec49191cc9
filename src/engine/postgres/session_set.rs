//! LOOP=set: one statement for all the SELECTs of a batch that follow each other in one schema,
//! with a clock read after each. UPDATEs and scans go one by one, as with LOOP=client: each UPDATE
//! has its own commit, which a single statement cannot give.

use std::collections::BTreeMap;
use std::time::Instant;

use tokio_postgres::Statement;

use super::connect::engine_error;
use super::schema;
use super::session_client::ClientLoop;
use super::session_server::Micros;
use super::work::{Failure, Work, keys, prepared};
use crate::engine::{EngineError, Outcome, Outcomes, SessionError, Stop};
use crate::workload::op::{Kind, Operation};

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
        let sql = SELECTS.replace("{schema}", &schema::name(number));
        let statement = work
            .client
            .prepare(&sql)
            .map_err(|error| engine_error(&work.server, "preparing statements", &error))?;
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
                self.single.execute_from(work, &rest[..1], from, stop, done)?;
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
        let statement = prepared(self.prepare(work, schema))?;
        let (lows, highs): (Vec<i64>, Vec<i64>) = operations.iter().map(keys).unzip();
        let left = stop.time_left(Instant::now());
        let left_us = left.map_or(i64::MAX >> 10, |left| {
            i64::try_from(left.as_micros()).unwrap_or(i64::MAX >> 10)
        });
        let answer = work.client.query(&statement, &[&lows, &highs, &left_us]);
        let returned_ns = stop.since_trigger_ns(Instant::now());
        let rows = match answer {
            Ok(rows) => rows,
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
        let failed = |error: tokio_postgres::Error| SessionError {
            code: "answer".to_owned(),
            message: format!("{}: {error}", work.server),
        };
        let ends: Vec<Micros> =
            rows.iter().map(|row| row.try_get(1)).collect::<Result<_, _>>().map_err(failed)?;
        let Some(&last) = ends.last() else { return Ok(()) };
        let mut begin = rows[0].try_get::<_, Micros>(0).map_err(failed)?;
        for (at, (row, end)) in rows.iter().zip(ends).enumerate() {
            done.ended.push(Outcome {
                operation: (from + at) as u32,
                latency_ns: end.since_ns(begin),
                end_ns: returned_ns.saturating_sub(last.since_ns(end)),
                rows: row.try_get::<_, i64>(2).map_err(failed)?.cast_unsigned(),
                error: None,
            });
            begin = end;
        }
        Ok(())
    }
}
