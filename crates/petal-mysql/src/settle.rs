//! Paying the server's debts before a run: rows that are still to be purged, dirty pages.

use std::time::{Duration, Instant};

use super::client::{Client, Error};
use super::connect::Endpoint;
use super::schema;
use super::server_counters::history_length;
use petal_engine::server::liveness;
use petal_engine::{EngineError, Progress, ProgressUnit, Result, Stop};
use petal_record::target::Settled;

/// An undo history of at most this many transactions counts as purged.
const HISTORY_SETTLED: u64 = 100;
/// Somebody's open transaction may keep the history for ever.
const PURGE_LIMIT: Duration = Duration::from_secs(60);

pub struct Settling<'a> {
    pub endpoint: &'a Endpoint,
    /// The run's, whose data are settled.
    pub schemas: &'a [u32],
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

impl Settling<'_> {
    /// Waits until old versions are purged, then has dirty pages written. A stop ends either.
    pub fn run(&self) -> Result<Settled> {
        let begin = Instant::now();
        let mut client = self.endpoint.connect()?;
        self.progress.phase("settling", self.schemas.len() as u64 + 1, ProgressUnit::Items);
        let mut done = vec![self.purge(&mut client)?];
        self.progress.advance(1);
        let mut refused = None;
        let mut flushed = 0;
        for &schema in self.schemas {
            self.go_on()?;
            match self.flush(&mut client, schema) {
                Ok(()) => flushed += 1,
                Err(EngineError::Environment(why)) => refused = Some(why),
                Err(error) => return Err(error),
            }
            self.progress.advance(1);
        }
        done.push(format!("dirty pages of {flushed} main tables written"));
        if let Some(why) = refused {
            let left = self.schemas.len() - flushed;
            done.push(format!("dirty pages of {left} main tables left: {why}"));
        }
        Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
    }

    fn go_on(&self) -> Result<()> {
        if self.stop.is_requested() { Err(EngineError::Interrupted) } else { Ok(()) }
    }

    fn purge(&self, client: &mut Client) -> Result<String> {
        let begin = Instant::now();
        loop {
            self.go_on()?;
            match history_length(client) {
                None => return Ok("purge not waited for: the user may not see its history".into()),
                Some(length) if length <= HISTORY_SETTLED => {
                    return Ok("old versions purged".into());
                }
                Some(length) if begin.elapsed() > PURGE_LIMIT => {
                    return Ok(format!(
                        "old versions of {length} transactions not purged after {} s: somebody's \
                         transaction is open, or purge lags (innodb_purge_threads)",
                        PURGE_LIMIT.as_secs()
                    ));
                }
                Some(_) => std::thread::sleep(liveness::TICK),
            }
        }
    }

    /// Writes the dirty pages of a main table, which may take long; a stop cancels it.
    fn flush(&self, client: &mut Client, schema: u32) -> Result<()> {
        let doing = format!("writing dirty pages of {}_cf1", schema::name(schema));
        let (id, connection) = (client.id(), client.abort_handle());
        let cancel = || self.endpoint.kill_query(id);
        liveness::until_over(&connection, &cancel, &|| self.stop.is_requested(), &|| (), || {
            flush(client, schema).map_err(|error| client.error(&doing, &error))
        })
    }
}

/// Writes the dirty pages of a main table, by the first step of an export.
pub fn flush(client: &mut Client, schema: u32) -> Result<(), Error> {
    let flushed = client.run(&format!("FLUSH TABLES {}_cf1 FOR EXPORT", schema::name(schema)));
    let unlocked = client.run("UNLOCK TABLES");
    flushed.and(unlocked)
}
