//! LOOP=set: one statement for all the SELECTs of a batch that follow each other in one schema, with
//! a clock read at each row; UPDATEs and scans go one by one, because a single statement cannot give
//! each UPDATE its own commit.

use std::collections::BTreeMap;
use std::time::Instant;

use mysql_async::Statement;

use super::schema;
use super::session::Work;
use super::session_client::{ClientLoop, prepared};
use super::session_server::check_clock;
use crate::engine::server::batch_loop::{self, BUDGET_MAX, BatchPart, Executed, keys};
use crate::engine::server::failure::Failure;
use crate::engine::{EngineError, Outcomes, SessionError, Stop};
use crate::workload::op::{Kind, Operation};

/// The most SELECTs of one statement, which ends only when all are done.
const SELECTS_MAX: usize = 500;

pub struct SetLoop {
    single: ClientLoop,
    selects: BTreeMap<u32, Statement>,
}

impl SetLoop {
    pub fn new(work: &mut Work) -> Result<Self, EngineError> {
        check_clock(work)?;
        let mut side = Self { single: ClientLoop::new(work)?, selects: BTreeMap::new() };
        side.prepare(work, work.home)?;
        Ok(side)
    }

    fn prepare(&mut self, work: &mut Work, number: u32) -> Result<Statement, EngineError> {
        if let Some(statement) = self.selects.get(&number) {
            return Ok(statement.clone());
        }
        work.meta(number)?;
        let statement = prepared(work, &schema::select_set(&schema::name(number)))?;
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
        batch_loop::run(&selects_or_one, BUDGET_MAX, batch, stop, done, &mut |part, _, executed| {
            match part.operations {
                [one] if one.kind != Kind::Select => {
                    let begin = Instant::now();
                    let result = self.single.execute_one(work, one, stop);
                    let latency_ns = begin.elapsed().as_nanos() as u64;
                    let (rows, failure) = match result {
                        Ok(rows) => (rows, None),
                        Err(failure) => (0, Some(failure)),
                    };
                    executed.push(Executed { latency_ns, rows, failure });
                    Ok(())
                }
                _ => self.select_all(work, part, stop, executed),
            }
        })
    }

    fn select_all(
        &mut self,
        work: &mut Work,
        part: &BatchPart<'_>,
        stop: &Stop,
        executed: &mut Vec<Executed>,
    ) -> Result<(), Failure> {
        let statement = self.prepare(work, part.home)?;
        let ranges: Vec<String> = part
            .operations
            .iter()
            .map(|operation| {
                let (first, last) = keys(operation);
                format!("[{first},{last}]")
            })
            .collect();
        let answer = work.client.rows(&statement, (format!("[{}]", ranges.join(",")),));
        let ended: Vec<(u64, u64, u64)> = answer.map_err(|error| work.failure(&error, stop))?;
        // Ranges without any row are not in the answer: they took no time worth telling.
        let mut ended = ended.into_iter().peekable();
        let mut begin_us = 0;
        executed.extend((1..).take(part.operations.len()).map(|at| {
            let (rows, end_us) = match ended.next_if(|one| one.0 == at) {
                Some((_, rows, end_us)) => (rows, end_us),
                None => (0, begin_us),
            };
            let latency_ns = end_us.saturating_sub(begin_us) * 1000;
            begin_us = end_us.max(begin_us);
            Executed { latency_ns, rows, failure: None }
        }));
        Ok(())
    }
}

/// SELECTs that follow each other in one schema, or one other operation.
fn selects_or_one(rest: &[Operation]) -> (u32, usize) {
    let schema = rest.first().map_or(1, |first| first.schema);
    let is_like = |next: &&Operation| next.kind == Kind::Select && next.schema == schema;
    (schema, rest.iter().take(SELECTS_MAX).take_while(is_like).count().max(1))
}
