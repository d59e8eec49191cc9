//! Reads the rows of a run back, and compares them with its ledger.

use std::collections::HashSet;

use petal_engine::{
    Engine, EngineError, FoundRow, LoggedUpdate, ProgressUnit, Result, RowReader, Server,
};
use petal_host::numbers::whole;
use petal_judge::survival::Survival;
use petal_record::ledger::{Acknowledged, Ledger};
use petal_record::verification::{Recovery, Verification};
use petal_settings::Settings;
use petal_workload::version::RunStamps;

use super::{RunError, WorkContext};

/// Number of rows requested at once.
const RANGE_ROWS: u64 = 64;

/// Verifies a ledger against the target of these settings.
pub fn verify(
    ledger: &Ledger,
    settings: &Settings,
    context: &WorkContext<'_>,
) -> Result<Verification, RunError> {
    verify_at(context.open(settings)?.as_ref(), ledger, settings, (context, None))
}

/// Verifies a ledger against this target; an outage of its run began at this time.
pub fn verify_at(
    engine: &dyn Engine,
    ledger: &Ledger,
    settings: &Settings,
    (context, outage_ns): (&WorkContext<'_>, Option<u64>),
) -> Result<Verification, RunError> {
    let url = settings.db.redacted();
    let header = &ledger.header;
    refuse_other_runs(engine, header.schemas.len() as u32, &url)?;
    let recovery = match engine.server().map(Server::recovery).transpose()?.flatten() {
        Some(recovery) => Some(compared_with_ledger(recovery, engine, ledger)?),
        None => None,
    };
    let mut survival = Survival::new(ledger).with_outage_at(outage_ns);
    let mut logged: Option<HashSet<u64>> = None;
    let all = header.rows.saturating_mul(header.schemas.len() as u64);
    context.watch.phase("verifying", all, ProgressUnit::Items);
    for schema in &header.schemas {
        let mut reader = engine.row_reader(schema.number)?;
        if reader.load() != schema.load {
            return Err(RunError::Environment(format!(
                "{url}: the ledger is of another load of schema {} (load {}, and there is load \
                 {}): its rows cannot be verified here; name the target of that run by --db",
                schema.number,
                schema.load,
                reader.load()
            )));
        }
        // A ledger may come from anybody, so its counts alone reserve no memory.
        if header.rows > reader.rows() {
            return Err(RunError::Environment(format!(
                "{url}: the ledger is of {} rows in schema {}, and {} are loaded: it is damaged, or of \
                 another target; name the target of that run by --db",
                whole(header.rows),
                schema.number,
                whole(reader.rows())
            )));
        }
        survival.begin_schema(schema.number);
        let rows = SchemaRows { schema: schema.number, rows: header.rows };
        rows.read(reader.as_mut(), &mut survival, context)?;
        let of_schema = ledger.commits.iter().filter(|commit| commit.schema == schema.number);
        let updates = updates(of_schema, RunStamps::of_mask(header.stamp_mask));
        if let Some(stamps) = reader.logged(&updates)? {
            logged.get_or_insert_default().extend(stamps);
        }
    }
    let found = survival.judge(&url, logged.as_ref());
    Ok(match recovery {
        Some(recovery) => found.in_recovery(recovery),
        None => found,
    })
}

/// Looks for the ledger's last commit at a server in recovery, before reading any other row: a
/// commit that is replayed in the meantime does not count.
fn compared_with_ledger(
    recovery: Recovery,
    engine: &dyn Engine,
    ledger: &Ledger,
) -> std::result::Result<Recovery, RunError> {
    let mut survival = Survival::new(ledger);
    if let Some(last) = survival.last_commit() {
        let mut found = Vec::new();
        let keys = last.keys();
        engine.row_reader(last.schema)?.read(keys.start, keys.end - 1, &mut found)?;
        found.into_iter().for_each(|row| survival.found(last.schema, row.key, row.stamps));
    }
    let has_last_commit = survival.holds_last_commit();
    Ok(Recovery { has_last_commit, ledger_until: survival.last_acknowledged(), ..recovery })
}

/// Fails if others use the data: rows that somebody changes in the meantime prove nothing.
fn refuse_other_runs(
    engine: &dyn Engine,
    schemas: u32,
    url: &str,
) -> std::result::Result<(), RunError> {
    // A read-only server, such as a standby, may not let petal check.
    let Ok(data_use) = engine.begin_use(schemas) else { return Ok(()) };
    let others = data_use.other_runs().unwrap_or_default();
    match others.first() {
        None => Ok(()),
        Some(other) => Err(RunError::Environment(format!(
            "{url}: a run is at work there ({other}); wait for its end, or stop it"
        ))),
    }
}

fn updates<'a>(
    commits: impl Iterator<Item = &'a Acknowledged>,
    stamps: RunStamps,
) -> Vec<LoggedUpdate> {
    let update = |commit: &Acknowledged| LoggedUpdate {
        stamp: stamps.stamp(commit.version),
        rows: commit.rows.into(),
    };
    commits.map(update).collect()
}

/// Rows of one schema.
struct SchemaRows {
    schema: u32,
    rows: u64,
}

impl SchemaRows {
    fn read(
        &self,
        reader: &mut dyn RowReader,
        survival: &mut Survival<'_>,
        context: &WorkContext<'_>,
    ) -> Result<()> {
        let mut found = Vec::with_capacity(RANGE_ROWS as usize);
        let mut first = 1;
        while first <= self.rows {
            if context.caller.is_interrupted() {
                return Err(EngineError::Interrupted);
            }
            let last = self.rows.min(first + RANGE_ROWS - 1);
            self.read_range(reader, (first, last), &mut found, survival)?;
            context.watch.advance(last - first + 1);
            first = last + 1;
        }
        Ok(())
    }

    /// Reads a range of rows. If the range cannot be read, reads each of its rows separately.
    fn read_range(
        &self,
        reader: &mut dyn RowReader,
        (first, last): (u64, u64),
        found: &mut Vec<FoundRow>,
        survival: &mut Survival<'_>,
    ) -> Result<()> {
        found.clear();
        match reader.read(first, last, found) {
            Ok(()) => {}
            Err(EngineError::Data(_) | EngineError::Database(_)) if first < last => {
                for key in first..=last {
                    self.read_range(reader, (key, key), found, survival)?;
                }
                return Ok(());
            }
            Err(EngineError::Data(why) | EngineError::Database(why)) => {
                survival.bad(self.schema, first, format!("it cannot be read: {why}"));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        found.sort_by_key(|row| row.key);
        let mut rows = found.drain(..).peekable();
        for key in first..=last {
            let Some(row) = rows.next_if(|row| row.key <= key) else {
                survival.missing(self.schema, key);
                continue;
            };
            let mut copies = 1;
            while rows.next_if(|row| row.key <= key).is_some() {
                copies += 1;
            }
            match copies {
                1 => survival.found(self.schema, key, row.stamps),
                copies => {
                    survival.bad(self.schema, key, format!("the row is there {copies} times"));
                }
            }
        }
        Ok(())
    }
}
