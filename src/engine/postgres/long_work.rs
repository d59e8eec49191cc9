//! Work of unknown length that petal does on its own account: loading, VACUUM, CHECKPOINT. It has no
//! time limit, as with the database's own tools, and ends when it is told to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::client::Client;
use super::connect::{Endpoint, Opened, engine_error};
use crate::engine::EngineError;
use crate::engine::threads::Thread;

/// Between two looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What does not end so long after it was first told to is given up.
const UNHEARD: Duration = Duration::from_secs(15);
/// Those of the role, for this connection alone; names that a version does not have are left out.
const NO_LIMITS: &str = "SELECT set_config(name, '0', false) FROM pg_settings \
                         WHERE name IN ('statement_timeout', 'transaction_timeout', \
                         'idle_session_timeout', 'idle_in_transaction_session_timeout')";

/// From 14 on a server looks so often whether the client of a statement is still there: what petal
/// leaves when it is killed is not done later. Not every platform can.
const NOTICE_END: &str = "SELECT set_config(name, '1s', false) FROM pg_settings \
                          WHERE name = 'client_connection_check_interval'";

/// A connection without the role's time limits.
pub fn open(endpoint: &Endpoint, application: &str) -> Result<Opened, EngineError> {
    let mut opened = endpoint.open(application)?;
    let _ = opened.client.query(NOTICE_END, &[]);
    opened
        .client
        .query(NO_LIMITS, &[])
        .map_err(|error| engine_error(&endpoint.name, "lifting time limits", &error))?;
    Ok(opened)
}

/// Works on `client`. As soon as `is_over` the server is asked to cut that, until it ends;
/// `Interrupted` is then its error. Between two looks `meanwhile` is called.
pub fn until_over<T>(
    endpoint: &Endpoint,
    client: &mut Client,
    is_over: &(dyn Fn() -> bool + Sync),
    meanwhile: &(dyn Fn() + Sync),
    work: impl FnOnce(&mut Client) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let (token, line) = (endpoint.cancel_token(client), client.line());
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = Thread::named("watcher").start_in(scope, || {
            let mut over_since: Option<Instant> = None;
            while !ended.load(Ordering::Relaxed) {
                if is_over() {
                    // Asked again until it is heard, or it is clear that it is not.
                    let _ = token.cancel();
                    if over_since.get_or_insert_with(Instant::now).elapsed() > UNHEARD {
                        line.abort("no answer, nor to being cancelled");
                    }
                }
                meanwhile();
                std::thread::park_timeout(LOOK_EVERY);
            }
        })?;
        let result = work(client);
        ended.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        result.map_err(|error| if is_over() { EngineError::Interrupted } else { error })
    })
}
