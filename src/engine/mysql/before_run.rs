//! Preparations before a run. petal asks, before any session connects, whether the server takes the
//! run's UPDATEs; what else the user may do is for `petal check`. Then it pays the debts of the run
//! before: rows that are still to be purged, dirty pages.

use std::time::{Duration, Instant};

use super::client::{Client, Error};
use super::connect::Endpoint;
use super::counters::{history_length, is_timed};
use super::errors::engine_error;
use super::schema;
use crate::engine::server::liveness;
use crate::engine::{EngineError, Progress, ProgressUnit, Result, Stop};
use crate::stats::target::{Privilege, Settled};

/// An undo history of so many transactions is none.
const HISTORY_SETTLED: u64 = 100;
/// Somebody's open transaction may keep the history for ever.
const PURGE_LIMIT: Duration = Duration::from_secs(60);

/// An UPDATE of no row: it needs what an UPDATE of rows needs.
fn try_update(schema: u32) -> String {
    format!("UPDATE {}_cf1 SET c2 = c2 WHERE custid = 0", schema::name(schema))
}

/// Refuses a run with UPDATEs that is sure to fail.
pub fn check_updates(endpoint: &Endpoint, schemas: u32) -> Result<()> {
    let mut client = endpoint.connect()?;
    for schema in 1..=schemas {
        client.run(&try_update(schema)).map_err(|error| {
            let doing = format!(
                "an UPDATE of {}_cf1, which this run makes (UPDATE_PCT=0 makes none)",
                schema::name(schema)
            );
            engine_error(&endpoint.name, &doing, &error)
        })?;
    }
    Ok(())
}

/// The user's privileges at a server, by what petal does with it. Without `schemas` nothing can be
/// said of their tables.
pub fn privileges(endpoint: &Endpoint, schemas: &[u32]) -> Result<Vec<Privilege>> {
    let mut client = endpoint.connect()?;
    let mut privileges = vec![Privilege {
        what: "page statistics".to_owned(),
        is_granted: client.query::<i64>("SELECT 1 FROM mysql.innodb_index_stats LIMIT 1").is_ok(),
        without: "A load cannot be proved, so the user cannot load here.".to_owned(),
        advice: "GRANT SELECT ON mysql.innodb_index_stats TO the user".to_owned(),
    }];
    if schemas.is_empty() {
        privileges.push(Privilege {
            what: "I/O timing".to_owned(),
            is_granted: is_timed(&mut client),
            without: "The latency of a single-block read is then unknown.".to_owned(),
            advice: "start the server with performance_schema=ON; GRANT SELECT ON \
                     performance_schema.* TO the user"
                .to_owned(),
        });
    }
    if let Some(&first) = schemas.first() {
        privileges.push(Privilege {
            what: "UPDATEs".to_owned(),
            is_granted: client.run(&try_update(first)).is_ok(),
            without: "The user can only run with UPDATE_PCT=0.".to_owned(),
            advice: "GRANT SELECT, UPDATE ON the database TO the user".to_owned(),
        });
        privileges.push(Privilege {
            what: "flush".to_owned(),
            is_granted: flush(&mut client, first).is_ok(),
            without: "Dirty pages of a run are then written in the next one, within its figures."
                .to_owned(),
            advice: "GRANT RELOAD ON *.*, LOCK TABLES ON the database TO the user".to_owned(),
        });
    }
    Ok(privileges)
}

/// Writes the dirty pages of a main table: that is what an export begins with.
fn flush(client: &mut Client, schema: u32) -> Result<(), Error> {
    let flushed = client.run(&format!("FLUSH TABLES {}_cf1 FOR EXPORT", schema::name(schema)));
    let unlocked = client.run("UNLOCK TABLES");
    flushed.and(unlocked)
}

pub struct Settling<'a> {
    pub endpoint: &'a Endpoint,
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

impl Settling<'_> {
    /// Waits until old versions are purged, then has dirty pages written. A stop ends either.
    pub fn run(&self, schemas: &[u32]) -> Result<Settled> {
        let begin = Instant::now();
        let mut client = self.endpoint.connect()?;
        self.progress.phase("settling", schemas.len() as u64 + 1, ProgressUnit::Items);
        let mut done = vec![self.purge(&mut client)?];
        self.progress.advance(1);
        let mut refused = None;
        let mut flushed = 0;
        for &schema in schemas {
            if self.stop.is_requested() {
                return Err(EngineError::Interrupted);
            }
            match self.flush(&mut client, schema) {
                Ok(()) => flushed += 1,
                Err(EngineError::Environment(why)) => refused = Some(why),
                Err(error) => return Err(error),
            }
            self.progress.advance(1);
        }
        done.push(format!("dirty pages of {flushed} main tables written"));
        if let Some(why) = refused {
            done.push(format!(
                "dirty pages of {} main tables left: {why}",
                schemas.len() - flushed
            ));
        }
        Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
    }

    fn purge(&self, client: &mut Client) -> Result<String> {
        let begin = Instant::now();
        loop {
            let Some(length) = history_length(client) else {
                return Ok("purge not waited for: the user may not see its history".to_owned());
            };
            if length <= HISTORY_SETTLED {
                return Ok("old versions purged".to_owned());
            }
            if self.stop.is_requested() {
                return Err(EngineError::Interrupted);
            }
            if begin.elapsed() > PURGE_LIMIT {
                return Ok(format!(
                    "old versions of {length} transactions not purged after {} s: somebody's \
                     transaction is open, or purge lags (innodb_purge_threads)",
                    PURGE_LIMIT.as_secs()
                ));
            }
            std::thread::sleep(liveness::TICK);
        }
    }

    fn flush(&self, client: &mut Client, schema: u32) -> Result<()> {
        let (id, connection) = (client.id(), client.abort_handle());
        let cancel = || self.endpoint.kill_query(id);
        let is_over = || self.stop.is_requested();
        liveness::until_over(&connection, &cancel, &is_over, &|| (), || {
            flush(client, schema).map_err(|error| {
                let doing = format!("writing dirty pages of {}_cf1", schema::name(schema));
                engine_error(&self.endpoint.name, &doing, &error)
            })
        })
    }
}
