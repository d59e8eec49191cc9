//! LOOP=set: one statement for all the SELECTs of a batch that follow each other in one schema, with
//! a clock read at each row; UPDATEs and scans go one by one, because a single statement cannot give
//! each UPDATE its own commit.

use mysql_async::Statement;

use super::schema;
use super::session_client::{ClientLoop, prepared};
use super::session_server::check_clock;
use super::work::Work;
use crate::engine::server::batch_loop::{
    self, BUDGET_MAX, BatchPart, Executed, keys, selects_or_one, timed,
};
use crate::engine::server::failure::Failure;
use crate::engine::server::per_schema::PerSchema;
use crate::engine::{Batch, Result, SessionError};
use crate::workload::op::Kind;

/// The most SELECTs of one statement, which ends only when all are done.
const SELECTS_MAX: usize = 500;

pub struct SetLoop {
    single: ClientLoop,
    selects: PerSchema<Work, Statement>,
}

impl SetLoop {
    pub fn new(work: &mut Work) -> Result<Self> {
        check_clock(work)?;
        let selects = PerSchema::new(work, |work, number| {
            prepared(work, &schema::select_set(&schema::name(number)))
        })?;
        Ok(Self { single: ClientLoop::new(work)?, selects })
    }

    pub fn execute(&mut self, work: &mut Work, batch: Batch<'_>) -> Result<(), SessionError> {
        batch_loop::run(&selects_or_one(SELECTS_MAX), BUDGET_MAX, batch, &mut |part| match part
            .operations
        {
            [one] if one.kind != Kind::Select => {
                Ok(vec![timed(|| self.single.execute_one(work, one))])
            }
            _ => self.select_all(work, part),
        })
    }

    fn select_all(
        &mut self,
        work: &mut Work,
        part: &BatchPart<'_>,
    ) -> Result<Vec<Executed>, Failure> {
        let statement = self.selects.get(work, part.home)?;
        let ranges: Vec<String> = part
            .operations
            .iter()
            .map(|operation| {
                let (first, last) = keys(operation);
                format!("[{first},{last}]")
            })
            .collect();
        let answer = work.client.rows(&statement, (format!("[{}]", ranges.join(",")),));
        let ended: Vec<(u64, u64, u64)> = answer.map_err(|error| work.failure(&error))?;
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
