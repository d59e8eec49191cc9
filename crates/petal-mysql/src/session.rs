//! A session: its connection, and the side of its loop.

use std::sync::Arc;

use super::client::{Client, Error};
use super::connect::Endpoint;
use super::errors::{AtServer as _, NO_SUCH_VARIABLE};
use super::work::{Shared, Work};
use petal_engine::server::per_schema::{KnownSchemas, SchemaWork as _};
use petal_engine::server::session::{Canceller, SessionControl};
use petal_engine::server::sides::Side;
use petal_engine::{Batch, Cancel, Result, Session, SessionError};
use petal_workload::seat::Seat;

pub struct MysqlSession {
    work: Work,
    side: Side<Work>,
}

/// Settings of a session. Without the locks of gaps, sessions of one schema lock the rows
/// that they change and no others.
pub const SESSION_SETTINGS: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// Keeps a server that has a query cache from answering SELECTs out of it.
const NO_QUERY_CACHE: &str = "SET SESSION query_cache_type = OFF";

/// Applies settings so that a session's SELECTs read the tables. Not every server has a query
/// cache.
pub fn read_tables(client: &mut Client) -> Result<(), Error> {
    match client.run(NO_QUERY_CACHE) {
        Err(error) if error.code() == Some(NO_SUCH_VARIABLE) => Ok(()),
        set => set,
    }
}

impl MysqlSession {
    pub fn connect(shared: &Arc<Shared>, endpoint: &Endpoint, seat: Seat) -> Result<Self> {
        let mut client = endpoint.connect()?;
        client.send("preparing a session", SESSION_SETTINGS)?;
        read_tables(&mut client).at(&client.server, "turning the query cache off")?;
        let sql = "SHOW GLOBAL VARIABLES LIKE 'wsrep_on'";
        let cluster: Vec<(String, String)> = client.ask("asking for its cluster", sql)?;
        let is_node = cluster.first().is_some_and(|(_, value)| value == "ON");
        let version: String = client.ask_row("asking for its version", "SELECT VERSION()")?;
        let (id, killer) = (client.id(), endpoint.clone());
        let control = SessionControl::new(client.abort_handle(), move || killer.kill_query(id));
        let mut work = Work {
            shared: Arc::clone(shared),
            client,
            schemas: KnownSchemas::new(seat.schema, shared.redo_stress, shared.known.clone()),
            control,
            is_node,
            commits_late: version.contains("MariaDB"),
        };
        work.meta(seat.schema)?;
        let side = Side::new(&mut work, shared.loop_side)?;
        // In a run a node answers as it is configured to. Others have no such variable.
        let _ = work.client.run("SET SESSION group_replication_consistency = DEFAULT");
        if is_node {
            work.client.send("preparing a session", "SET SESSION wsrep_sync_wait = DEFAULT")?;
        }
        if shared.writes {
            shared.waits.watch(endpoint, id)?;
        }
        Ok(Self { work, side })
    }
}

impl Session for MysqlSession {
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        self.side.execute(&mut self.work, batch)
    }

    fn keep_alive(&mut self) {
        self.work.client.pass_bytes();
    }

    fn server(&self) -> Option<String> {
        Some(self.work.client.server.clone())
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(Canceller(vec![Arc::clone(&self.work.control)]))
    }
}
