//! Steps before a run: a log switch and a checkpoint, so that the run does not pay for earlier
//! writes; and a shared lock on petal_meta, which makes setup and drop fail until the run's session
//! ends.

use std::time::Instant;

use parking_lot::Mutex;

use super::database::Database;
use super::errors::is_missing;
use super::link::LinkError;
use super::meta::{cell, number};
use super::sql;
use petal_engine::in_use::DataUse;
use petal_engine::{EngineError, Progress, ProgressUnit, Result, Stop};
use petal_record::target::Settled;

/// ORA number if another session holds the lock.
const BUSY: u32 = 54;
/// ORA number if only the root container may execute an ALTER SYSTEM.
const NOT_IN_PLUGGABLE: u32 = 65040;
/// ORA numbers of a database that is open read-only, as a standby is.
const READ_ONLY: [u32; 2] = [16000, 16456];
/// Maximum number of log groups of a thread to switch, as in SLOB.
const SWITCHES_MAX: u64 = 16;

/// A statement that settles the database, and how often to send it.
struct SettleStep {
    statement: &'static str,
    in_rds: &'static str,
    name: String,
    times: u64,
}

/// Switches every log group and checkpoints, if the user may.
pub fn settle(database: &mut Database, progress: &dyn Progress, stop: &Stop) -> Result<Settled> {
    let begin = Instant::now();
    let checkpoint = SettleStep {
        statement: "checkpoint",
        in_rds: "rds_checkpoint",
        name: "checkpoint".to_owned(),
        times: 1,
    };
    let steps = [log_switch(database), checkpoint];
    progress.phase("settling", steps.iter().map(|step| step.times).sum(), ProgressUnit::Items);
    let mut done = Vec::new();
    for step in &steps {
        done.push(step.run(database, progress, stop)?);
    }
    Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
}

/// Returns a step with one switch for each group of a thread. ARCHIVE LOG CURRENT switches the
/// threads of all instances; a database without archiving refuses it, and then only the connected
/// instance switches.
fn log_switch(database: &mut Database) -> SettleStep {
    let logs = database.look_if_allowed("redo_logs");
    let (groups, threads) =
        logs.first().map_or((1, 1), |row| (number(row, 0).max(1), number(row, 3).max(1)));
    let mode = database.look_if_allowed("log_mode");
    let archives = mode.first().is_some_and(|row| cell(row, 0) == "ARCHIVELOG");
    let times = groups.div_ceil(threads).min(SWITCHES_MAX);
    let (statement, of) = match (threads, archives) {
        (2.., true) => ("archive_log", " of all instances"),
        (2.., false) => ("switch_log", " of the connected instance alone (NOARCHIVELOG)"),
        _ => ("switch_log", ""),
    };
    let name = match times {
        1 => format!("log switch{of}"),
        _ => format!("{times} log switches{of}"),
    };
    SettleStep { statement, in_rds: "rds_switch_log", name, times }
}

impl SettleStep {
    /// Sends the statement, and returns its outcome.
    fn run(&self, database: &mut Database, progress: &dyn Progress, stop: &Stop) -> Result<String> {
        for _ in 0..self.times {
            if stop.is_requested() {
                return Err(EngineError::Interrupted);
            }
            let sent = database.link.execute(&sql::section(sql::OPERATIONS, self.statement), &[]);
            if let Err(error) = sent {
                return self.without(database, &error);
            }
            progress.advance(1);
        }
        Ok(self.name.clone())
    }

    /// Returns the step's outcome if its statement was refused.
    fn without(&self, database: &mut Database, error: &LinkError) -> Result<String> {
        let name = &self.name;
        let left = "the writes that the run before left are part of this one";
        let reason = match error.code {
            Some(code) if READ_ONLY.contains(&code) => {
                return Ok(format!("no {name}: the database is open read-only ({})", error.name()));
            }
            // Amazon RDS grants no ALTER SYSTEM, but has procedures instead.
            _ if is_missing(error)
                && rds(database, &sql::section(sql::OPERATIONS, self.in_rds)) =>
            {
                return Ok(format!("{name} (rdsadmin)"));
            }
            Some(NOT_IN_PLUGGABLE) => {
                "only the root container may; let ADMIN_SQLNET_SERVICE lead into the root, with a \
                 common user as DBA_PRIV_USER"
            }
            _ if is_missing(error) => {
                "the user may not; GRANT ALTER SYSTEM, or name a DBA_PRIV_USER who may"
            }
            _ => return Err(database.error(name, error)),
        };
        Ok(format!("no {name} ({}): {reason}; {left}", error.name()))
    }
}

/// Calls a procedure of Amazon RDS; returns false if it does not exist.
pub fn rds(database: &mut Database, call: &str) -> bool {
    database.refuse_callers_rights("RDSADMIN", "RDSADMIN_UTIL").is_ok()
        && database.link.execute(call, &[]).is_ok()
}

/// Lock of a run on petal_meta.
pub struct MetaInUse {
    _database: Mutex<Database>,
}

impl DataUse for MetaInUse {}

/// Locks petal_meta for a run, in a transaction that stays open.
pub fn begin_use(mut database: Database) -> Result<MetaInUse> {
    database.execute("marking petal_meta as in use", &sql::section(sql::LOAD, "lock_for_run"))?;
    Ok(MetaInUse { _database: Mutex::new(database) })
}

/// Fails if a run uses petal's tables.
pub fn refuse_in_use(database: &mut Database) -> Result<()> {
    match database.link.execute(&sql::section(sql::LOAD, "lock_alone"), &[]) {
        Ok(_) => Ok(()),
        Err(error) if error.code == Some(BUSY) => Err(EngineError::Environment(format!(
            "{}: another petal uses petal's tables ({error}); wait until it is done, or stop it",
            database.place
        ))),
        Err(error) => Err(database.error("locking petal_meta", &error)),
    }
}
