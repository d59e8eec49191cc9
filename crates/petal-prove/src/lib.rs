//! The promises of the contract that a live server can be held to. `petal prove` holds a user's own
//! server to them, and the conformance suite every engine. A promise loads nothing itself unless it is
//! about loads: it finds two schemas, and leaves them.

#![deny(clippy::use_debug, reason = "a proof is for people")]

mod counting;
mod data;
pub mod live;
mod operations;
mod runs;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use petal_engine::server::failure::{CONNECTION, NO_ANSWER};
use petal_engine::{
    Batch, CUT, Engine, EngineError, INTERRUPTED, LoadPlan, Outcome, Outcomes, Session,
    SessionError, Stop,
};
use petal_record::Run;
use petal_workload::op::{Kind, Operation};
use petal_workload::picker::Picker;
use petal_workload::plan::Workload;
use petal_workload::seat::{Role, Seat};

pub use counting::{
    counters_are_of_their_own_endpoint, counters_only_grow_and_agree_with_the_work,
};
pub use data::{
    a_stopped_load_leaves_nothing, data_in_use_stay, data_is_dropped_and_only_once,
    errors_name_the_target_and_no_password, n_rows_are_n_blocks,
};
pub use operations::*;
pub use runs::*;

/// Rows of the main table of each schema, and of its scan table.
pub const ROWS: u64 = 2048;
pub const SCAN_ROWS: u64 = 48;
/// Rows of a SELECT; an UPDATE has half as many.
pub const UNIT: u32 = 16;
/// Schemas of the data.
pub const SCHEMAS: u32 = 2;

/// Keys of a schema, each with a text that every UPDATE of the row changes and leaves as long as it was.
pub type ProvedRows = BTreeMap<u64, String>;

/// A target whose promises are looked at.
pub trait Provable {
    /// Opens the target. A promise closes it before it asks for rows.
    fn open(&self) -> petal_engine::Result<Arc<dyn Engine>>;

    /// The plan of its load.
    fn plan(&self, schemas: u32) -> LoadPlan;

    /// Reads the rows of a schema, past the sessions that wrote them.
    fn rows(&self, schema: u32) -> petal_engine::Result<ProvedRows>;

    /// Reads the rows as a process that is killed now would leave them; `None` if they are not visible
    /// so.
    fn rows_at_once(&self, schema: u32) -> petal_engine::Result<Option<ProvedRows>> {
        self.rows(schema).map(Some)
    }

    /// True if nobody else commits there, and reads do not count as commits.
    fn is_alone(&self) -> bool {
        false
    }

    /// True if others are known to work there, so that no upper bound of its counters is asked.
    fn is_shared(&self) -> bool {
        false
    }

    /// Keeps UPDATEs of schema 1 waiting until the value is dropped; `None` if it cannot.
    fn hold(&self) -> petal_engine::Result<Option<Box<dyn Any>>>;

    /// Makes a whole run of petal's, with these parameters.
    fn run(&self, parameters: &[(&'static str, &str)]) -> PromiseResult<Run>;

    /// Drops the data while another engine uses them; the error is the refusal.
    fn drop_elsewhere(&self) -> Result<(), String>;

    /// A target that cannot be, with the name that errors must have, and a password that they must not.
    fn unreachable(&self) -> petal_engine::Result<(Arc<dyn Engine>, String, &'static str)>;

    /// The stop of the whole work.
    fn stop(&self) -> Stop;
}

/// The result of a promise that was not broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriedPromise {
    /// Held: petal's figures, and the server's own next to them. It names no place and no person.
    Held(String),
    /// Held by an error, word for word. It may name places.
    HeldByError(String),
    /// The reason why it was not tried.
    NotTried(String),
}

/// The reason why a promise is not proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unproved {
    /// The item of the contract that is broken, and the figures that show it.
    Broken { item: &'static str, seen: String },
    /// A session or an operation failed with this code of the database.
    Failed { item: &'static str, code: String, seen: String },
    /// The surroundings refuse it: a missing right, no room, a server that ends, others' work.
    Refused(String),
    /// A signal ended the work.
    Stopped,
}

impl fmt::Display for Unproved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { item, seen } | Self::Failed { item, seen, .. } => {
                write!(f, "{item}: broken promise: {seen}")
            }
            Self::Refused(why) => write!(f, "not tried: {why}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl Unproved {
    /// An error of the engine under an item: broken, unless it comes from the surroundings.
    pub fn by(item: &'static str, error: EngineError) -> Self {
        match error {
            EngineError::Interrupted => Self::Stopped,
            EngineError::Environment(why)
            | EngineError::Setting(why)
            | EngineError::WrongServer(why) => Self::Refused(why),
            EngineError::Data(_) | EngineError::NotLoaded { .. } | EngineError::Database(_) => {
                Self::Broken { item, seen: error.to_string() }
            }
        }
    }

    /// The end of a session under an item.
    fn lost(item: &'static str, error: &SessionError) -> Self {
        match error.code.as_str() {
            INTERRUPTED => Self::Stopped,
            code => Self::Failed { item, code: code.to_owned(), seen: error.to_string() },
        }
    }

    /// A failed session is refused if its code is of the surroundings.
    pub fn judged(self, is_environment: impl Fn(&str) -> bool) -> Self {
        match self {
            Self::Failed { code, seen, .. }
                if [CONNECTION, NO_ANSWER].contains(&code.as_str()) || is_environment(&code) =>
            {
                Self::Refused(seen)
            }
            Self::Failed { item, seen, .. } => Self::Broken { item, seen },
            other => other,
        }
    }
}

pub type PromiseResult<T = TriedPromise> = Result<T, Unproved>;

/// A promise: its rule as the name of its test, how it is seen, and the check.
pub struct Promise {
    pub rule: &'static str,
    pub how: &'static str,
    pub check: fn(&dyn Provable) -> PromiseResult,
    /// True if it loads and drops data, which nobody may use meanwhile.
    pub drops_data: bool,
}

/// Promises that need the two schemas, then those that load and drop.
pub const PROMISES: &[Promise] = &[
    Promise {
        rule: "n_rows_are_n_blocks",
        how: "the database's own view of rows and blocks, before and after 1,000 UPDATEs",
        check: n_rows_are_n_blocks,
        drops_data: false,
    },
    Promise {
        rule: "an_operation_touches_its_work_unit",
        how: "rows that 500 operations report",
        check: an_operation_touches_its_work_unit,
        drops_data: false,
    },
    Promise {
        rule: "a_latency_holds_all_rows_of_its_operation",
        how: "latencies of single calls, compared with petal's own clock around them",
        check: a_latency_holds_all_rows_of_its_operation,
        drops_data: false,
    },
    Promise {
        rule: "a_latency_is_that_of_its_own_operation",
        how: "an UPDATE that waits for a lock, and SELECTs in the same call",
        check: a_latency_is_that_of_its_own_operation,
        drops_data: false,
    },
    Promise {
        rule: "updates_persist_and_reads_change_nothing",
        how: "all rows read back before and after",
        check: updates_persist_and_reads_change_nothing,
        drops_data: false,
    },
    Promise {
        rule: "a_commit_is_there_when_it_is_acknowledged",
        how: "rows read back on another connection while the session is open",
        check: a_commit_is_there_when_it_is_acknowledged,
        drops_data: false,
    },
    Promise {
        rule: "a_hot_spot_stays_inside",
        how: "rows that 300 UPDATEs changed",
        check: a_hot_spot_stays_inside,
        drops_data: false,
    },
    Promise {
        rule: "a_hot_schema_takes_the_operations_of_others",
        how: "rows that changed in each schema",
        check: a_hot_schema_takes_the_operations_of_others,
        drops_data: false,
    },
    Promise {
        rule: "nothing_begins_after_the_stop",
        how: "a batch after the stop",
        check: nothing_begins_after_the_stop,
        drops_data: false,
    },
    Promise {
        rule: "a_cancelled_operation_ends_and_is_not_done",
        how: "an UPDATE that waits for a lock is cancelled, and rows are read back",
        check: a_cancelled_operation_ends_and_is_not_done,
        drops_data: false,
    },
    Promise {
        rule: "counters_only_grow_and_agree_with_the_work",
        how: "the server's counters around 1,240 operations and long SELECTs; others' work is counted while petal is idle",
        check: counters_only_grow_and_agree_with_the_work,
        drops_data: false,
    },
    Promise {
        rule: "counters_are_of_their_own_endpoint",
        how: "the server's commits around UPDATEs at each endpoint",
        check: counters_are_of_their_own_endpoint,
        drops_data: false,
    },
    Promise {
        rule: "the_mix_and_fixed_work_are_exact",
        how: "a run of 2,400 operations, and the server's commits",
        check: the_mix_and_fixed_work_are_exact,
        drops_data: false,
    },
    Promise {
        rule: "readers_read_and_writers_write",
        how: "a run of three readers and two writers",
        check: readers_read_and_writers_write,
        drops_data: false,
    },
    Promise {
        rule: "both_loops_do_the_same_work",
        how: "a run with LOOP=server, and one with LOOP=client and HEAVY redo",
        check: both_loops_do_the_same_work,
        drops_data: false,
    },
    Promise {
        rule: "reads_after_a_load_write_nothing",
        how: "blocks that SELECTs had to clean",
        check: reads_after_a_load_write_nothing,
        drops_data: false,
    },
    Promise {
        rule: "errors_name_the_target_and_no_password",
        how: "a port that nobody listens at",
        check: errors_name_the_target_and_no_password,
        drops_data: false,
    },
    Promise {
        rule: "data_in_use_stay",
        how: "a drop while the data are in use",
        check: data_in_use_stay,
        drops_data: true,
    },
    Promise {
        rule: "data_is_dropped_and_only_once",
        how: "a load over the data, a drop, and another drop",
        check: data_is_dropped_and_only_once,
        drops_data: true,
    },
    Promise {
        rule: "a_stopped_load_leaves_nothing",
        how: "a load that is stopped on its way, and one after it",
        check: a_stopped_load_leaves_nothing,
        drops_data: true,
    },
    Promise {
        rule: "random_texts_load_in_ranges",
        how: "one schema of random text, loaded by four connections, HEAVY UPDATEs of it, and their redo",
        check: random_texts_load_in_ranges,
        drops_data: true,
    },
];

/// Ends a promise as broken unless the condition holds.
macro_rules! hold {
    ($item:expr, $condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err($crate::Unproved::Broken { item: $item, seen: format!($($words)+) });
        }
    };
}
use hold;

/// Turns an error into a broken promise of an item.
trait Of<T> {
    fn of(self, item: &'static str) -> PromiseResult<T>;
}

impl<T> Of<T> for petal_engine::Result<T> {
    fn of(self, item: &'static str) -> PromiseResult<T> {
        self.map_err(|error| Unproved::by(item, error))
    }
}

fn held(seen: impl Into<String>) -> PromiseResult {
    Ok(TriedPromise::Held(seen.into()))
}

fn unlimited() -> Stop {
    Stop::unlimited(Arc::default())
}

fn seat(session: u32, schema: u32, role: Role) -> Seat {
    Seat { session, schema, endpoint: 0, role }
}

fn operation(kind: Kind, schema: u32, first: u64, rows: u64) -> Operation {
    let rows = rows as u32;
    Operation { kind, schema, first, rows, stamp: 9, due: None, hot: [false; 2] }
}

/// The work from which operations are chosen.
pub fn workload() -> Workload {
    Workload {
        seed: 3,
        cell: 0,
        repeat: 1,
        attempt: 0,
        schemas: SCHEMAS,
        rows: ROWS,
        work_unit: UNIT,
        update_work_unit: UNIT / 2,
        update_pct: 40,
        scan_pct: 10,
        hot_spot: None,
        hot_schema_frequency: 0,
        think_time: None,
        work_loop: 0,
        rates: None,
        arrivals: Default::default(),
    }
}

pub fn choose(workload: &Workload, seat: Seat, count: usize) -> Vec<Operation> {
    let mut picker = Picker::new(workload, seat);
    (0..count).map(|_| picker.next_step().operation).collect()
}

const EXECUTE: &str = "Session::execute";

/// Executes all of them, none of which may fail; returns the rows of each. An outcome that is missing
/// breaks `item`.
pub fn execute(
    session: &mut dyn Session,
    batch: &[Operation],
    item: &'static str,
) -> PromiseResult<Vec<u64>> {
    let (stop, mut done) = (unlimited(), Outcomes::default());
    let executed = session.execute(Batch::new(batch, &stop, &mut done));
    let ended_ns = stop.since_trigger_ns(Instant::now());
    executed.map_err(|error| Unproved::lost(item, &error))?;
    let flushed = session.flush_statistics();
    flushed.map_err(|error| Unproved::lost("Session::flush_statistics", &error))?;
    let count = done.ended.len();
    hold!(EXECUTE, count == batch.len(), "{count} outcomes of {} operations", batch.len());
    for (at, outcome) in done.ended.iter().enumerate() {
        succeeded(outcome)?;
        let of = outcome.operation;
        hold!(EXECUTE, of as usize == at, "the outcome of operation {at} is of operation {of}");
        let has_latency = outcome.latency_ns > Some(0);
        hold!(EXECUTE, has_latency, "the latency of operation {at} is unknown or zero");
    }
    const END: &str = "Outcome::end_ns";
    hold!(END, done.ended.is_sorted_by_key(|it| it.end_ns), "the ends of operations go back");
    let last_ns = done.ended.last().map_or(0, |outcome| outcome.end_ns);
    // A server's clock is set by this host's, to some milliseconds.
    let is_within = last_ns <= ended_ns + 100_000_000;
    hold!(END, is_within, "an end after the call: {last_ns} of {ended_ns} ns");
    Ok(done.ended.iter().map(|outcome| outcome.rows).collect())
}

/// Fails if an operation did. After those errors a session goes on: they are conflicts with others, but
/// for a cut that nobody asked for.
fn succeeded(outcome: &Outcome) -> PromiseResult<()> {
    let Some(code) = outcome.error.as_deref() else { return Ok(()) };
    let of = outcome.operation;
    hold!(EXECUTE, code != CUT, "operation {of} was cut, and nobody asked for it");
    Err(Unproved::Refused(format!("operation {of} failed in a conflict with others: {code}")))
}

/// A figure in words.
fn figure(value: Option<u64>) -> String {
    value.map_or("unknown".to_owned(), |value| value.to_string())
}

/// Numbers of schemas in words.
fn numbers(schemas: impl IntoIterator<Item = u32>) -> String {
    let numbers: Vec<String> = schemas.into_iter().map(|number| number.to_string()).collect();
    if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") }
}

/// Keys whose row is not as `before`.
fn differing(before: &ProvedRows, now: &ProvedRows) -> PromiseResult<Vec<u64>> {
    hold!(EXECUTE, now.len() as u64 == ROWS, "{} of {ROWS} rows are there", now.len());
    let changed = now.iter().filter(|(key, text)| before.get(key) != Some(*text));
    Ok(changed.map(|(key, _)| *key).collect())
}

/// Keys that these UPDATEs touch.
fn touched(updates: &[Operation]) -> Vec<u64> {
    let keys = updates.iter().flat_map(|update| update.first..=update.last());
    keys.collect::<std::collections::BTreeSet<u64>>().into_iter().collect()
}

/// Names of keys, the first of them.
fn keys(keys: &[u64]) -> String {
    match keys {
        [] => "no row".to_owned(),
        [first, ..] => format!("{} rows from key {first} on", keys.len()),
    }
}
