//! Preparations before a run. petal asks, before any session connects, whether the server takes the
//! run's UPDATEs; what else the user may do is for `petal check`. Then the storage engine pays the debts
//! of the run before.

use std::time::{Duration, Instant};

use super::client::{Client, Error};
use super::connect::Endpoint;
use super::errors::engine_error;
use super::{schema, storage};
use crate::engine::server::liveness;
use crate::engine::{EngineError, Progress, ProgressUnit, Result, Stop};
use crate::stats::target::{Privilege, Settled};

/// Somebody's open transaction may keep the debts for ever.
pub const SETTLE_LIMIT: Duration = Duration::from_secs(60);

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
    let storage = match schemas {
        [] => endpoint.storage,
        _ => storage::of_data(&mut client, &endpoint.name)?,
    };
    let mut privileges = Vec::new();
    if let Some(&first) = schemas.first() {
        privileges.push(Privilege {
            what: "UPDATEs".to_owned(),
            is_granted: client.run(&try_update(first)).is_ok(),
            without: "The user can only run with UPDATE_PCT=0.".to_owned(),
            advice: "GRANT SELECT, UPDATE ON the database TO the user".to_owned(),
        });
    }
    privileges.extend(storage.privileges(&mut client, schemas.first().copied()));
    Ok(privileges)
}

pub struct Settling<'a> {
    pub endpoint: &'a Endpoint,
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

impl Settling<'_> {
    pub fn run(&self, schemas: &[u32]) -> Result<Settled> {
        let begin = Instant::now();
        let mut client = self.endpoint.connect()?;
        let storage = storage::of_data(&mut client, &self.endpoint.name)?;
        self.progress.phase("settling", schemas.len() as u64 + 1, ProgressUnit::Items);
        let done = storage.settle(self, &mut client, schemas)?;
        Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
    }

    /// A statement that may take long; a stop cancels it.
    pub fn until_over(
        &self,
        client: &mut Client,
        doing: &str,
        work: impl FnOnce(&mut Client) -> Result<(), Error>,
    ) -> Result<()> {
        let (id, connection) = (client.id(), client.abort_handle());
        let cancel = || self.endpoint.kill_query(id);
        let is_over = || self.stop.is_requested();
        liveness::until_over(&connection, &cancel, &is_over, &|| (), || {
            work(client).map_err(|error| engine_error(&self.endpoint.name, doing, &error))
        })
    }

    /// Asks until something is true, for at most `SETTLE_LIMIT`; whether it is.
    pub fn wait_until(&self, mut is_true: impl FnMut() -> bool) -> Result<bool> {
        let begin = Instant::now();
        while !is_true() {
            if self.stop.is_requested() {
                return Err(EngineError::Interrupted);
            }
            if begin.elapsed() > SETTLE_LIMIT {
                return Ok(false);
            }
            std::thread::sleep(liveness::TICK);
        }
        Ok(true)
    }
}
