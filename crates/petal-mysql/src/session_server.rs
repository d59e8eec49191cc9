//! LOOP=server: the texts in which a batch travels to petal's routine inside the server, the
//! routine's results, and its making. The routine reports ends to a microsecond. On MariaDB UPDATEs
//! go one by one, outside the routine.

use std::fmt::Write as _;
use std::sync::Arc;

use mysql_async::Statement;

use super::client::{Client, Error, QUERY_INTERRUPTED};
use super::errors::AtServer as _;
use super::work::{CLUSTER_CONFLICT, Work};
use super::{schema, trust};
use petal_engine::server::batch_loop::{
    self, BUDGET_MAX, BatchPart, Executed, NotedError, RoutineEnd, budget_us, by_schema,
    routine_shape, timed,
};
use petal_engine::server::failure::Failure;
use petal_engine::server::per_schema::{PerSchema, SchemaWork as _};
use petal_engine::server::sides::{LoopWork as _, Routine, SingleStatements, run_one};
use petal_engine::{Batch, EngineError, Result, SessionError};
use petal_workload::op::{Kind, Operation};

/// The most operations of one call: the routine's texts stay short.
const OPERATIONS_MAX: usize = 1000;
/// Bytes of a call aside from texts of rows: of each operation, and of all.
const OPERATION_BYTES: usize = 26 + 12;
const CALL_BYTES: usize = 1024;
/// The remains of a call that did not return.
const REMAINS: &str = "SELECT COALESCE(@petal_ends, ''), COALESCE(@petal_errors, '')";

pub struct ServerLoop {
    calls: PerSchema<Work, Statement>,
    /// The loop of UPDATEs, if those of a call would not wait for their log.
    single: Option<SingleStatements<Work>>,
    arguments: Arguments,
    operations_max: usize,
}

/// The routine's texts, reused from batch to batch.
#[derive(Default)]
struct Arguments {
    runs: String,
    firsts: String,
    fillers: String,
    width: usize,
    /// Characters from one column's text to the next: 0 if all columns have the same text.
    step: usize,
}

impl Routine<Work> for ServerLoop {
    fn new(work: &mut Work) -> Result<Self> {
        let calls = PerSchema::new(work, |work, number| {
            ensure_routine(work, number)?;
            work.prepare(&format!("CALL {}_run(?, ?, ?, ?, ?, ?)", schema::name(number)))
        })?;
        let single = work.commits_late.then(|| PerSchema::new(work, Work::prepare_operations));
        let operations_max = operations_max(work)?;
        let arguments = Arguments::default();
        Ok(Self { calls, single: single.transpose()?, arguments, operations_max })
    }

    fn execute(&mut self, work: &mut Work, batch: Batch<'_>) -> Result<(), SessionError> {
        let (by_schema, commits_late) = (by_schema(work.schemas.home), work.commits_late);
        let operations_max = self.operations_max;
        let split = |rest: &[Operation]| {
            let (home, length) = by_schema(&rest[..rest.len().min(operations_max)]);
            (home, if commits_late { update_alone(&rest[..length]) } else { length })
        };
        batch_loop::run(&split, BUDGET_MAX, batch, &mut |part| match (
            part.operations,
            &mut self.single,
        ) {
            ([one], Some(single)) if one.kind == Kind::Update => {
                Ok(vec![timed(|| run_one(single, work, one))])
            }
            _ => self.call(work, part),
        })
    }
}

impl ServerLoop {
    fn call(&mut self, work: &mut Work, part: &BatchPart<'_>) -> Result<Vec<Executed>, Failure> {
        let call = self.calls.get(work, part.home)?;
        self.arguments.fill(work, part.home, part.operations)?;
        let Arguments { runs, firsts, fillers, width, step } = &self.arguments;
        let arguments = (
            runs.as_str(),
            firsts.as_str(),
            fillers.as_str(),
            *width as u64,
            *step as u64,
            budget_us(part.budget),
        );
        match work.client.first::<(String, String)>(&call, arguments) {
            Ok(answer) => Ok(read(work, &answer.unwrap_or_default(), part.operations)),
            Err(error) => remains(work, &error, part.operations),
        }
    }
}

/// Returns the maximum number of operations that the server takes in one call with the texts of
/// their rows.
fn operations_max(work: &mut Work) -> Result<usize> {
    let packet_bytes: u64 = work
        .client
        .ask_row("asking for max_allowed_packet", "SELECT @@SESSION.max_allowed_packet")?;
    let (width, is_constant) = work.column_shape(work.schemas.home)?;
    let columns = if is_constant { 1 } else { work.schemas.changed_columns() };
    let texts_bytes = (packet_bytes as usize).saturating_sub(CALL_BYTES);
    Ok((texts_bytes / (OPERATION_BYTES + width * columns)).clamp(1, OPERATIONS_MAX))
}

/// The operations up to the next UPDATE, or that alone.
fn update_alone(operations: &[Operation]) -> usize {
    let update = operations.iter().position(|operation| operation.kind == Kind::Update);
    update.map_or(operations.len(), |at| at.max(1))
}

/// Reads the results of a call that was killed, or that a cluster ended: earlier operations are
/// still known, and the one after them was cut.
fn remains(
    work: &mut Work,
    error: &Error,
    operations: &[Operation],
) -> Result<Vec<Executed>, Failure> {
    let failure = work.failure(error);
    if matches!(failure, Failure::Fatal(_)) {
        return Err(failure);
    }
    // A request to cancel that comes late ends this question; the next one is answered.
    let mut answer = work.client.query_one(REMAINS);
    if answer.as_ref().is_err_and(|late: &Error| late.code() == Some(QUERY_INTERRUPTED)) {
        answer = work.client.query_one(REMAINS);
    }
    let answer: (String, String) = answer.map_err(|error| work.failure(&error))?;
    let mut executed = read(work, &answer, operations);
    // A cluster may end the call at the statement after the one that lost, which did nothing then.
    let is_known = work.is_node && executed.last().is_some_and(|last| last.failure.is_some());
    if !is_known && executed.len() < operations.len() {
        executed.push(Executed { latency_ns: None, rows: 0, failure: Some(failure) });
    }
    Ok(executed)
}

/// Reads the routine's results: ends and errors.
fn read(work: &Work, (ends, errors): &(String, String), operations: &[Operation]) -> Vec<Executed> {
    let ends = ends.split_ascii_whitespace().map(routine_end);
    let failure = |noted: &NotedError<'_>| work.noted(noted);
    let mut executed = batch_loop::executed(0, ends, errors.lines(), operations, 1, failure);
    // A cluster may roll an UPDATE back without an error in the routine.
    for (one, operation) in executed.iter_mut().zip(operations).filter(|_| work.is_node) {
        if operation.kind == Kind::Update && one.rows == 0 {
            one.failure.get_or_insert_with(|| Failure::Counted(CLUSTER_CONFLICT.into()));
        }
    }
    executed
}

/// `microseconds` or `microseconds/rows`; below 0 if the server's clock was set back.
fn routine_end(text: &str) -> RoutineEnd {
    let (end, rows) = match text.split_once('/') {
        Some((end, rows)) => (end, rows.parse().ok()),
        None => (text, None),
    };
    RoutineEnd { end_us: end.parse().ok(), rows }
}

impl Arguments {
    fn fill(&mut self, work: &mut Work, home: u32, operations: &[Operation]) -> Result<()> {
        let (width, is_constant) = work.column_shape(home)?;
        (self.width, self.step) = (width, if is_constant { 0 } else { width });
        self.runs.clear();
        self.firsts.clear();
        self.fillers.clear();
        let columns = if is_constant { 1 } else { work.schemas.changed_columns() };
        let redo_stress = work.shared.redo_stress;
        let shape = |operation: &Operation| routine_shape(operation, home, redo_stress);
        for (at, operation) in operations.iter().enumerate() {
            let (kind, reach) = shape(operation);
            if operations.get(at + 1).map(shape) != Some((kind, reach)) {
                // Writing to a text cannot fail.
                let _ = write!(self.runs, "{kind:02}{reach:012}{:012}", at + 1);
            }
            let _ = write!(self.firsts, "{:012}", operation.first);
            if operation.kind == Kind::Update {
                self.fillers.push_str(work.update_text(operation, columns)?);
            }
        }
        Ok(())
    }
}

/// Refuses a server whose clock does not move within a call (`--sysdate-is-now`): every operation
/// would take no time.
pub fn check_clock(work: &mut Work) -> Result<()> {
    let goes = work.client.query_one("SELECT SLEEP(0.001) * 0 + (SYSDATE(6) > NOW(6))");
    let goes: u64 = goes.at(&work.client.server, "reading its clock")?;
    match goes {
        0 => Err(EngineError::Setting(format!(
            "LOOP: {} takes SYSDATE() for NOW() (sysdate_is_now), so operations inside it cannot be \
             timed; use LOOP=client, or start it without that option",
            work.client.server
        ))),
        _ => Ok(()),
    }
}

/// Makes sure that a schema has this petal's routine. Each session looks before it calls.
fn ensure_routine(work: &mut Work, number: u32) -> Result<()> {
    let shared = Arc::clone(&work.shared);
    // Sessions connect at once: the first makes it, the others wait.
    let _one_makes_it = shared.routines.lock();
    check_clock(work)?;
    make_routine(&mut work.client, number)
}

/// Makes the routine of a schema unless this petal's is there, by its text: another's would run with
/// this user's rights.
pub fn make_routine(client: &mut Client, number: u32) -> Result<()> {
    let name = schema::name(number);
    let routine = schema::routine(&name);
    if trust::is_petals(client, &name, &routine, schema::ROUTINE_COMMENT)? {
        return Ok(());
    }
    let doing = format!("making {name}_run from its text (LOOP=client needs none)");
    client.send(&doing, &format!("DROP PROCEDURE IF EXISTS {name}_run"))?;
    client.send(&doing, &routine)
}
