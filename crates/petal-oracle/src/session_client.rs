//! LOOP=client: one statement per operation, as an application would send it. Round trips are part
//! of each latency, on petal's own clock; an UPDATE takes a second one for its COMMIT.

use std::collections::BTreeMap;
use std::time::Instant;

use super::link::{BindValue, LinkError};
use super::meta::number;
use super::sql;
use super::work::Work;
use petal_engine::server::batch_loop::keys;
use petal_engine::server::failure::Failure;
use petal_engine::server::sides::Statements;
use petal_engine::server::statement_loop;
use petal_engine::{Batch, CUT, Result, SessionError};
use petal_model::workload::op::{Kind, Operation};

pub struct ClientLoop {
    statements: BTreeMap<u32, Statements<String>>,
    /// Statement for COMMIT_WAIT=TRUE; otherwise the driver's commit, which waits by default.
    commit: Option<String>,
}

impl ClientLoop {
    pub fn new(work: &Work) -> Self {
        let statements = work.metas.iter().map(|meta| {
            let statements = Statements {
                select: sql::select(&meta.tables),
                scan: sql::scan(&meta.tables),
                update: sql::update(&meta.tables, work.changed_columns()),
            };
            (meta.about.schema, statements)
        });
        let wait = work.config.commit_wait;
        Self {
            statements: statements.collect(),
            commit: wait.then(|| sql::section(sql::OPERATIONS, "commit_and_wait")),
        }
    }

    pub fn execute(&mut self, work: &mut Work, batch: Batch<'_>) -> Result<(), SessionError> {
        let stop = batch.stop;
        statement_loop::run(batch, &mut |operation| {
            work.limit_calls(stop, Instant::now())?;
            let statements = self.statements(work, operation.schema)?;
            self.run(work, statements, operation).map_err(|error| failed(work, operation, &error))
        })
    }

    fn statements(&self, work: &Work, schema: u32) -> Result<&Statements<String>> {
        self.statements.get(&schema).ok_or_else(|| work.not_loaded(schema))
    }

    /// Runs one operation; each UPDATE is a separate transaction.
    fn run(
        &self,
        work: &mut Work,
        statements: &Statements<String>,
        operation: &Operation,
    ) -> Result<u64, LinkError> {
        let (first, last) = keys(operation);
        let keys = [first, last].map(BindValue::Number);
        match operation.kind {
            Kind::Select => count(work, &statements.select, &keys),
            Kind::Scan => count(work, &statements.scan, &[]),
            Kind::Update => {
                let (columns, width) = (work.changed_columns(), work.width());
                // Owned copy, because the link is borrowed at the same time.
                let text = work.update_text(operation, columns).to_owned();
                let texts = (0..columns).filter_map(|at| text.get(at * width..(at + 1) * width));
                let binds: Vec<BindValue<'_>> = texts.map(BindValue::from).chain(keys).collect();
                let rows = work.link.execute(&statements.update, &binds)?;
                match &self.commit {
                    Some(commit) => work.link.execute(commit, &[]).map(|_| ())?,
                    None => work.link.commit()?,
                }
                Ok(rows)
            }
        }
    }
}

/// Decides the result of a failed operation. An UPDATE is rolled back, so that the next commit does
/// not include its changes; after a cut there is no next commit, and perhaps no connection.
fn failed(work: &mut Work, operation: &Operation, error: &LinkError) -> Failure {
    let failure = work.failure(error);
    let Failure::Counted(code) = &failure else { return failure };
    if operation.kind == Kind::Update {
        let rollback = work.link.execute("ROLLBACK", &[]);
        if let Err(error) = rollback
            && **code != *CUT
        {
            return work.loss(&error).into();
        }
    }
    failure
}

fn count(work: &mut Work, statement: &str, binds: &[BindValue<'_>]) -> Result<u64, LinkError> {
    let rows = work.link.query(statement, binds)?;
    Ok(rows.first().map_or(0, |row| number(row, 0)))
}
