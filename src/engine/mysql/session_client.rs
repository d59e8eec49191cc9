//! Prepared statements of LOOP=client and LOOP=set. A set is one statement with a range for each
//! operation, which the server visits in the order of their keys, with a clock read at the last row of each.

use mysql_async::{Params, Statement, Value};

use super::client::Error;
use super::errors::engine_error;
use super::schema::{self, SET_RANGES, VISITED};
use super::session_server::{ServerLoop, check_clock};
use super::work::Work;
use crate::engine::Result;
use crate::engine::server::batch_loop::{BatchPart, Executed, keys, latency_ns};
use crate::engine::server::failure::Failure;
use crate::engine::server::liveness::TimeoutPolicy;
use crate::engine::server::per_schema::SchemaWork as _;
use crate::engine::server::session::SessionControl;
use crate::engine::server::sides::{LoopWork, Statements};
use crate::workload::op::Operation;

/// The most rows of one statement of LOOP=set, which ends only when all are visited.
const SET_ROWS_MAX: u32 = 4096;

impl LoopWork for Work {
    type Statement = Statement;
    type Routine = ServerLoop;

    const SELECTS_MAX: usize = SET_RANGES;

    /// Ranges with a common row would visit it once.
    fn fitting(selects: &[Operation]) -> usize {
        let mut rows = 0;
        let together = selects.iter().enumerate().take_while(|(at, next)| {
            rows += next.rows;
            let before = &selects[..*at];
            let apart = |one: &Operation| one.last() < next.first || next.last() < one.first;
            *at == 0 || rows <= SET_ROWS_MAX && before.iter().all(apart)
        });
        together.count()
    }

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
        // Its type becomes that of the statement's column.
        self.begin_visited()
            .map_err(|error| engine_error(&self.server, "preparing statements", &error))?;
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
        if self.visited.is_none() {
            self.begin_visited().map_err(|error| self.failure(&error))?;
        }
        // Unknown again until the statement has ended well.
        let before = self.visited.take().unwrap_or_default();
        let by_key = by_key(part.operations);
        let ranges: Vec<_> = by_key.iter().map(|&at| keys(&part.operations[at])).collect();
        let values = schema::set_parameters(&ranges).into_iter().map(Value::Int).collect();
        let sent = self.client.rows(statement, Params::Positional(values));
        let sent: Vec<LastRow> = sent.map_err(|error| self.failure(&error))?;
        let asked: u64 = part.operations.iter().map(|one| u64::from(one.rows)).sum();
        self.visited = sent.last().map(|row| row.1).filter(|&now| now == before + asked);
        let mut executed = executed(part.operations, &by_key, &sent);
        if self.visited.is_none() {
            self.count_rows(part, &mut executed)?;
        }
        Ok(executed)
    }
}

impl Work {
    /// Begins to count the rows that the session's statements for many SELECTs visit.
    fn begin_visited(&mut self) -> Result<(), Error> {
        self.client.run(&format!("SET {VISITED} = 0"))?;
        self.visited = Some(0);
        Ok(())
    }

    /// Counts the rows of each operation again: not all of them are there.
    fn count_rows(
        &mut self,
        part: &BatchPart<'_>,
        executed: &mut [Executed],
    ) -> Result<(), Failure> {
        let ranges = part.operations.iter().map(keys);
        let ranges = ranges.map(|(first, last)| format!("custid BETWEEN {first} AND {last}"));
        let ranges = ranges.collect::<Vec<_>>().join(" OR ");
        let table = schema::main_table(&schema::name(part.home));
        let sql = format!("SELECT custid FROM {table} WHERE c2 IS NOT NULL AND ({ranges})");
        let there: Vec<u64> = self.client.query(&sql).map_err(|error| self.failure(&error))?;
        for (operation, executed) in part.operations.iter().zip(executed) {
            let is_its = |key: &&u64| (operation.first..=operation.last()).contains(key);
            executed.rows = there.iter().filter(is_its).count() as u64;
        }
        Ok(())
    }
}

/// The last row of a range: its key, the rows visited until then, the microseconds since the statement
/// began, and whether the row itself counts as visited.
type LastRow = (u64, u64, i64, bool);

/// Positions of operations in the order of their keys, in which the server visits them.
fn by_key(operations: &[Operation]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..operations.len()).collect();
    order.sort_unstable_by_key(|&at| operations[at].first);
    order
}

/// The outcome of each operation, if it visited all of its rows. It begins when the one before it in the
/// order of keys has ended. If its last row is missing, its end is unknown, and so is the begin of the
/// next one.
fn executed(operations: &[Operation], by_key: &[usize], sent: &[LastRow]) -> Vec<Executed> {
    let all = |one: &Operation| Executed { latency_ns: None, rows: one.rows.into(), failure: None };
    let mut executed: Vec<Executed> = operations.iter().map(all).collect();
    let (mut sent, mut begin_us) = (sent.iter().peekable(), Some(0));
    for &at in by_key {
        let last = sent.next_if(|row| row.0 == operations[at].last());
        let end_us = last.map(|&(_, _, end_us, _)| end_us);
        executed[at].latency_ns = latency_ns(begin_us, end_us);
        begin_us = end_us;
    }
    executed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::server::scripted::operation;
    use crate::workload::op::Kind;

    fn selects(ranges: &[(u64, u32)]) -> Vec<Operation> {
        let select = |&(first, rows)| operation(Kind::Select, 1, first, rows);
        ranges.iter().map(select).collect()
    }

    #[test]
    fn a_set_takes_ranges_without_a_common_row_and_not_too_many_rows() {
        let fitting = |ranges: &[(u64, u32)]| Work::fitting(&selects(ranges));
        assert_eq!(fitting(&[(10, 8), (1, 8), (18, 8)]), 3);
        assert_eq!(fitting(&[(10, 8), (30, 8), (17, 8), (50, 8)]), 2);
        assert_eq!(fitting(&[(10, 8), (30, 8), (3, 8)]), 2);
        assert_eq!(fitting(&[(10, 8), (10, 8)]), 1);
        let long: Vec<(u64, u32)> = (0..9).map(|at| (1 + at * 1024, 1024)).collect();
        assert_eq!(fitting(&long), 4);
        assert_eq!(fitting(&[(1, 1 << 20)]), 1);
    }

    #[test]
    fn rows_in_the_order_of_keys_go_to_their_operations() {
        let all = selects(&[(20, 2), (1, 2), (40, 2), (30, 2)]);
        let sent = [(2, 2, 130, true), (21, 4, 190, true), (41, 8, 200, true)];
        let executed = executed(&all, &by_key(&all), &sent);
        // The last row of one is missing: its end is unknown, and when the next one began.
        let us: Vec<_> = executed.iter().map(|one| one.latency_ns.map(|ns| ns / 1000)).collect();
        assert_eq!(us, [Some(60), Some(130), None, None]);
        // The server's clock was set back.
        let sent = [(2, 2, -1_999_000, true), (21, 4, -1_998_810, true)];
        let executed = super::executed(&all, &by_key(&all), &sent);
        assert_eq!((executed[1].latency_ns, executed[0].latency_ns), (None, Some(190_000)));
    }
}
