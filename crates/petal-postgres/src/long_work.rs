//! Work of unknown length that petal does on its own account: loading, VACUUM, CHECKPOINT. It has no
//! time limit, as with the database's own tools, and ends when it is cancelled.

use super::client::Client;
use super::connect::{Endpoint, OpenedConnection};
use petal_engine::server::liveness;
use petal_engine::{EngineError, Result};

/// Lifts the role's limits for this connection, as far as the version has them.
const NO_LIMITS: &str = "SELECT pg_catalog.set_config(name, '0', false) FROM \
    pg_catalog.pg_settings \
                         WHERE name IN ('statement_timeout', 'transaction_timeout')";

/// A setting with which a server from 14 on checks this often whether a statement's client is still
/// there: the statement of a killed petal ends. Not every platform can.
const NOTICE_END: &str = "SELECT pg_catalog.set_config(name, '1s', false) FROM \
    pg_catalog.pg_settings \
                          WHERE name = 'client_connection_check_interval'";

/// A connection without the role's time limits.
pub fn open(endpoint: &Endpoint, application: &str) -> Result<OpenedConnection> {
    let mut opened = endpoint.open(application)?;
    let _ = opened.client.query(NOTICE_END, &[]);
    opened.client.ask("lifting time limits", NO_LIMITS, &[])?;
    Ok(opened)
}

/// Refuses pgpool, behind which a COPY hangs: it greets with the server's own process. Only pgpool knows the
/// question, which a server logs as an error, so it is not asked for each connection.
pub fn refuse_pgpool(client: &mut Client) -> Result<()> {
    if client.simple_query("SHOW pool_version").is_err() {
        return Ok(());
    }
    Err(EngineError::Environment(format!(
        "{}: pgpool answers, a connection pooler, not the server; connect to the server itself: its own host \
         and port",
        client.server
    )))
}

/// Works on `client` until it is done or `is_over`; see [`liveness::until_over`].
pub fn until_over<T>(
    endpoint: &Endpoint,
    client: &mut Client,
    is_over: &(dyn Fn() -> bool + Sync),
    meanwhile: &(dyn Fn() + Sync),
    work: impl FnOnce(&mut Client) -> Result<T>,
) -> Result<T> {
    let (token, connection) = (endpoint.cancel_token(client), client.abort_handle());
    let cancel = || token.cancel();
    liveness::until_over(&connection, &cancel, is_over, meanwhile, || work(client))
}
