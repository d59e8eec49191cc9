//! Prepared statements of LOOP=client and LOOP=set. A set is one statement with a range for each
//! operation, which the server visits in the order of their keys, with a clock read at each row.

use mysql_async::{Params, Statement, Value};

use super::schema::{self, SET_RANGES};
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
        let by_key = by_key(part.operations);
        let mut bounds: Vec<Value> = by_key
            .iter()
            .map(|&at| keys(&part.operations[at]))
            .flat_map(|(first, last)| [Value::Int(first), Value::Int(last)])
            .collect();
        let nothing = [Value::Int(1), Value::Int(0)];
        bounds.extend(nothing.into_iter().cycle().take(2 * SET_RANGES - bounds.len()));
        let visited = self.client.rows(statement, Params::Positional(bounds));
        let visited = visited.map_err(|error| self.failure(&error))?;
        Ok(executed(part.operations, &by_key, &visited))
    }
}

/// Positions of operations in the order of their keys, in which the server visits them.
fn by_key(operations: &[Operation]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..operations.len()).collect();
    order.sort_unstable_by_key(|&at| operations[at].first);
    order
}

/// The outcome of each operation, from the rows visited: key, and microseconds since the statement began.
/// An operation begins when the one before it in the order of keys has ended.
fn executed(operations: &[Operation], by_key: &[usize], visited: &[(u64, u64)]) -> Vec<Executed> {
    let nothing = || Executed { latency_ns: 0, rows: 0, failure: None };
    let mut all: Vec<Executed> = operations.iter().map(|_| nothing()).collect();
    let mut visited = visited.iter().peekable();
    let mut begin_us = 0;
    for &at in by_key {
        let (operation, executed) = (&operations[at], &mut all[at]);
        let mut end_us = begin_us;
        while let Some((_, visited_us)) = visited.next_if(|row| row.0 <= operation.last()) {
            executed.rows += 1;
            end_us = *visited_us;
        }
        // A clock that was set back gives 0.
        executed.latency_ns = end_us.saturating_sub(begin_us) * 1000;
        begin_us = end_us.max(begin_us);
    }
    all
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
        let visited = [(1, 100), (2, 130), (20, 150), (21, 190), (40, 200)];
        let executed = executed(&all, &by_key(&all), &visited);
        let of = |one: &Executed| (one.rows, one.latency_ns / 1000);
        // Of the last one nothing is there, and of the one before it half.
        let expected = [(2, 60), (2, 130), (1, 10), (0, 0)];
        assert_eq!(executed.iter().map(of).collect::<Vec<_>>(), expected);
    }
}
