//! LOOP=server: the arrays in which a batch travels to petal's routine inside the server, the
//! routine's results, and its making. The routine reports ends to a microsecond.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Row, Statement};

use super::answer::{ColumnValue as _, NonNegative};
use super::client::{Client, Error};
use super::connect::words;
use super::schema::{self, ROUTINE_VERSION};
use super::work::Work;
use super::{rights, trust};
use petal_engine::server::batch_loop::{
    self, BUDGET_MAX, BatchPart, Executed, NotedError, RoutineEnd, budget_us, by_schema, keys,
    routine_shape,
};
use petal_engine::server::failure::Failure;
use petal_engine::server::per_schema::{PerSchema, SchemaWork as _};
use petal_engine::server::row_layout::split_stamp;
use petal_engine::server::sides::Routine;
use petal_engine::{Batch, EngineError, Result, SessionError};
use petal_workload::op::{Kind, Operation};
/// A routine's comment begins with this.
const COMMENT: &str = "loop of petal, version ";

/// Microseconds of a timestamptz; only differences mean anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros(pub i64);

impl<'a> FromSql<'a> for Micros {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(i64::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TIMESTAMPTZ
    }
}

pub struct ServerLoop {
    calls: PerSchema<Work, Statement>,
    /// Half of the role's statement_timeout: a call stays below it.
    budget_max: Duration,
    arguments: Arguments,
}

/// The routine's arrays, reused from batch to batch.
#[derive(Default)]
struct Arguments {
    /// The runs of like operations: for each its kind, last key less first, and its end, from 1.
    kinds: Vec<i16>,
    reaches: Vec<i64>,
    untils: Vec<i32>,
    firsts: Vec<i64>,
    fillers: Vec<String>,
    width: i32,
    tail: Option<String>,
}

impl Routine<Work> for ServerLoop {
    fn new(work: &mut Work) -> Result<Self> {
        let sql = "SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = \
            'statement_timeout'";
        let NonNegative(timeout_ms) = work.client.ask_value("asking for its timeouts", sql, &[])?;
        let budget_max = match timeout_ms {
            0 => BUDGET_MAX,
            timeout_ms => Duration::from_millis(timeout_ms) / 2,
        };
        let calls = PerSchema::new(work, |work, number| {
            ensure_routine(work, number)?;
            let sql = format!(
                "CALL {}.petal_run($1, $2, $3, $4, $5, $6, $7, $8, NULL, NULL, NULL, NULL, NULL)",
                schema::name(number)
            );
            let call = work.client.prepare_for("preparing the routine", &sql)?;
            // A session's first call compiles the routine and plans its SELECT, here of a key that no
            // row has: no SELECT of the home schema waits for that.
            let mut nothing = Arguments::default();
            nothing.add(1, 0, 0);
            let called = nothing.send(&mut work.client, &call, BUDGET_MAX);
            called.map_err(|error| work.client.error("calling the routine", &error))?;
            Ok(call)
        })?;
        Ok(Self { calls, budget_max, arguments: Arguments::default() })
    }

    fn execute(&mut self, work: &mut Work, batch: Batch<'_>) -> Result<(), SessionError> {
        let (split, budget_max) = (by_schema(work.schemas.home), self.budget_max);
        batch_loop::run(&split, budget_max, batch, &mut |part| self.call(work, part))
    }
}

impl ServerLoop {
    fn call(&mut self, work: &mut Work, part: &BatchPart<'_>) -> Result<Vec<Executed>, Failure> {
        let call = self.calls.get(work, part.home)?;
        self.arguments.fill(work, part.home, part.operations)?;
        let answer = self.arguments.send(&mut work.client, &call, part.budget);
        let answer = answer.and_then(|row| Answer::read(&row));
        let answer = answer.map_err(|error| work.failure(&error))?;
        Ok(answer.executed(work, part.operations))
    }
}

/// Makes sure that a schema has this petal's routine. Each session looks before it calls.
fn ensure_routine(work: &mut Work, number: u32) -> Result<()> {
    let shared = Arc::clone(&work.shared);
    // Sessions connect at once: the first makes it, the others wait.
    let _one_makes_it = shared.routines.lock();
    make_routine(&mut work.client, number)
}

/// Makes the routine of a schema unless this petal's is there, by its text and its owner: another's
/// would run with this role's rights.
pub fn make_routine(client: &mut Client, number: u32) -> Result<()> {
    let name = schema::name(number);
    let routine = schema::routine(&name);
    if is_made(client, &name, &routine)? {
        return Ok(());
    }
    let doing = format!("making {name}.petal_run (LOOP=client needs none)");
    match client.run(&doing, &making(&name, &routine)) {
        // Another petal may have made it at the same time.
        Err(error) => match is_made(client, &name, &routine) {
            Ok(true) => Ok(()),
            _ => Err(error),
        },
        made => made,
    }
}

/// Statements that put the routine in place of all others of its name.
fn making(name: &str, routine: &str) -> String {
    format!(
        "DO $$ BEGIN EXECUTE (SELECT pg_catalog.string_agg('DROP ROUTINE ' \
         || oid::pg_catalog.regprocedure, '; ') FROM pg_catalog.pg_proc \
         WHERE proname = 'petal_run' AND pronamespace = '{name}'::pg_catalog.regnamespace \
         HAVING pg_catalog.count(*) > 0); EXCEPTION WHEN null_value_not_allowed THEN END $$; \
         {routine} COMMENT ON PROCEDURE {name}.petal_run IS '{COMMENT}{ROUTINE_VERSION}'"
    )
}

const TRYING: &str = "trying to make the routine";

/// Why the role cannot run petal's loop inside the server; None if it can. petal makes a routine that is not there
/// in a transaction that it rolls back; before a load, when there are no schemas, in a schema that goes with it.
pub fn refusal(client: &mut Client, schemas: &[u32]) -> Result<Option<String>> {
    let text = schema::routine(&schema::name(1));
    let mut names = &rights::names(&text) | &trust::routine_names();
    // Its assignments cast by it, without a name in the text.
    names.insert("float8");
    if let Some(refused) = rights::refused(client, names)? {
        return Ok(Some(format!("GRANT the role the use of {refused} (pg_catalog)")));
    }
    if schemas.is_empty() && client.batch_execute("BEGIN; CREATE SCHEMA petal_tried").is_ok() {
        let routine = making("petal_tried", &schema::routine("petal_tried"));
        if let Err(error) = client.batch_execute(&routine) {
            client.run(TRYING, "ROLLBACK")?;
            return Ok(Some(format!("the role may not make petal's routine ({})", words(&error))));
        }
    }
    client.run(TRYING, "ROLLBACK")?;
    for &number in schemas {
        let name = schema::name(number);
        let routine = schema::routine(&name);
        if is_made(client, &name, &routine)? {
            continue;
        }
        let tried = client.batch_execute(&format!("BEGIN; {}", making(&name, &routine)));
        client.run(TRYING, "ROLLBACK")?;
        if let Err(error) = tried {
            return Ok(Some(format!(
                "{name}.petal_run is not there, and the role may not make it ({}): GRANT CREATE ON SCHEMA \
                 {name} TO the role, or run once with LOOP=server as the role that loaded",
                words(&error)
            )));
        }
    }
    Ok(None)
}

/// Whether the one routine there is this petal's; refuses one of a newer petal.
fn is_made(client: &mut Client, name: &str, routine: &str) -> Result<bool> {
    let found = trust::routines(client, name, routine)?;
    let is_made = found.len() == 1 && found.iter().all(|found| found.is_petals);
    let comments = found.iter().filter_map(|found| found.comment.as_deref());
    let version = comments.filter_map(|text| text.strip_prefix(COMMENT)?.parse::<u32>().ok()).max();
    match version.filter(|version| *version > ROUTINE_VERSION) {
        Some(version) => Err(EngineError::Data(format!(
            "{}: {name}.petal_run is of a newer petal (version {version}, not \
             {ROUTINE_VERSION}); use that petal, or LOOP=client",
            client.server
        ))),
        None => Ok(is_made),
    }
}

impl Arguments {
    fn send(&self, client: &mut Client, call: &Statement, budget: Duration) -> Result<Row, Error> {
        let Self { kinds, reaches, untils, firsts, fillers, width, tail } = self;
        let budget_us = budget_us(budget);
        client.query_one(call, &[kinds, reaches, untils, firsts, fillers, width, tail, &budget_us])
    }

    /// Adds an operation, to the last run if it is like those.
    fn add(&mut self, kind: i16, reach: i64, first: i64) {
        self.firsts.push(first);
        let end = self.firsts.len() as i32;
        if let (Some(until), Some(&last)) = (self.untils.last_mut(), self.kinds.last())
            && (last, self.reaches.last()) == (kind, Some(&reach))
        {
            *until = end;
            return;
        }
        self.kinds.push(kind);
        self.reaches.push(reach);
        self.untils.push(end);
    }

    fn fill(&mut self, work: &mut Work, home: u32, operations: &[Operation]) -> Result<()> {
        let has_updates = operations.iter().any(|operation| operation.kind == Kind::Update);
        self.kinds.clear();
        self.reaches.clear();
        self.untils.clear();
        self.firsts.clear();
        self.fillers.resize(if has_updates { operations.len() } else { 0 }, String::new());
        // All columns alike: the stamp is enough, and the rest goes once.
        let (width, constant) = work.column_shape(home)?;
        self.width = width as i32;
        let columns = work.schemas.changed_columns();
        self.tail = None;
        for (at, operation) in operations.iter().enumerate() {
            let (kind, reach) = routine_shape(operation, home, work.shared.redo_stress);
            let reach = if operation.kind == Kind::Scan { -1 } else { reach };
            let (first, _) = keys(operation);
            self.add(kind, reach, first);
            if operation.kind != Kind::Update {
                // Values that an earlier batch left there need not travel.
                if let Some(filler) = self.fillers.get_mut(at) {
                    filler.clear();
                }
                continue;
            }
            let text = work.update_text(operation, if constant { 1 } else { columns })?;
            let (stamp, tail) = split_stamp(text);
            let filler = &mut self.fillers[at];
            filler.clear();
            if constant {
                filler.push_str(stamp);
                self.tail.get_or_insert_with(|| tail.to_owned());
            } else {
                filler.push_str(text);
            }
        }
        Ok(())
    }
}

/// The routine's results.
struct Answer {
    started: Micros,
    ends: Vec<Micros>,
    /// Rows visited if they were not as many as keys; shorter than `ends`.
    counts: Vec<Option<NonNegative>>,
    errors: Vec<String>,
}

impl Answer {
    fn read(row: &Row) -> Result<Self, Error> {
        let done: i32 = row.try_get("done")?;
        let mut ends: Vec<Micros> = row.try_get("ends")?;
        ends.truncate(usize::try_from(done).unwrap_or(0));
        Ok(Self {
            started: row.try_get("started")?,
            ends,
            counts: row.try_get("counts")?,
            errors: <Option<Vec<String>>>::of(row.try_get("errors")?).unwrap_or_default(),
        })
    }

    fn executed(&self, work: &Work, operations: &[Operation]) -> Vec<Executed> {
        let ends = self.ends.iter().enumerate().map(|(at, end)| RoutineEnd {
            end_us: Some(end.0),
            rows: self.counts.get(at).copied().flatten().map(|NonNegative(rows)| rows),
        });
        let errors = self.errors.iter().map(String::as_str);
        let failure = |noted: &NotedError<'_>| work.noted(noted);
        batch_loop::executed(self.started.0, ends, errors, operations, 0, failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_are_alike_make_a_run() {
        let mut arguments = Arguments::default();
        for (kind, reach, first) in [(1, 7, 5), (1, 7, 90), (3, 7, 4), (1, 7, 1), (1, 63, 2)] {
            arguments.add(kind, reach, first);
        }
        assert_eq!(arguments.kinds, [1, 3, 1, 1]);
        assert_eq!(arguments.reaches, [7, 7, 7, 63]);
        assert_eq!(arguments.untils, [2, 3, 4, 5]);
        assert_eq!(arguments.firsts, [5, 90, 4, 1, 2]);
    }
}
