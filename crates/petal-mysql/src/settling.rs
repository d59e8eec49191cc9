//! Limits on the time that settling works on a server and waits for it; a stop ends either.

use std::time::{Duration, Instant};

use super::client::{Client, Error};
use petal_engine::server::liveness;
use petal_engine::{EngineError, Progress, Result, Stop};

/// Somebody's open transaction may keep the debts for ever.
pub const SETTLE_LIMIT: Duration = Duration::from_secs(60);

pub struct Settling<'a> {
    /// Has the server cancel a connection's statement.
    pub kill_query: &'a (dyn Fn(u32) + Sync),
    /// The run's, whose data are settled.
    pub schemas: &'a [u32],
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

impl Settling<'_> {
    /// A statement that may take long; a stop cancels it.
    pub fn until_over(
        &self,
        client: &mut Client,
        doing: &str,
        work: impl FnOnce(&mut Client) -> Result<(), Error>,
    ) -> Result<()> {
        let (id, connection) = (client.id(), client.abort_handle());
        let cancel = || (self.kill_query)(id);
        let is_over = || self.stop.is_requested();
        liveness::until_over(&connection, &cancel, &is_over, &|| (), || {
            work(client).map_err(|error| client.error(doing, &error))
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
