//! Work next to a run that petal starts by name: `petal interfere`.
//!
//! An index is built CONCURRENTLY, as in production. If petal is killed it stays, invalid or not, until
//! the next run settles.

use std::sync::Arc;

use super::client::Client;
use super::connect::Endpoint;
use super::{Postgres, schema};
use petal_engine::neighbour::{KnownNeighbours, NeighbourStatements, NeighbourWork, find_program};
use petal_engine::{EngineError, Result};

const NAMES: [&str; 5] = ["vacuum", "checkpoint", "index-build", "full-scan", "backup"];
const APPLICATION: &str = "petal neighbour";
const BACKUP: [&str; 8] =
    ["-D", "-", "-F", "t", "-X", "none", "--checkpoint=fast", "--no-password"];

impl KnownNeighbours for Postgres {
    fn names(&self) -> &'static [&'static str] {
        &NAMES
    }

    fn open_neighbour(&self, name: &str, schema: u32) -> Result<NeighbourWork> {
        let endpoint = self.first()?;
        if name == "backup" {
            return Ok(NeighbourWork::Program {
                path: find_program(&["pg_basebackup"])?,
                arguments: BACKUP.map(str::to_owned).into(),
                environment: endpoint.environment(),
            });
        }
        let table = format!("{}.cf1", schema::name(schema));
        let index = index(schema);
        let is_index_build = name == "index-build";
        let statements = match name {
            "vacuum" => vec![format!("VACUUM (DISABLE_PAGE_SKIPPING) {table}")],
            "checkpoint" => vec!["CHECKPOINT".to_owned()],
            "index-build" => vec![
                format!("DROP INDEX CONCURRENTLY IF EXISTS {index}"),
                format!("CREATE INDEX CONCURRENTLY {INDEX} ON {table} (custid)"),
                format!("DROP INDEX CONCURRENTLY IF EXISTS {index}"),
            ],
            "full-scan" => vec![
                "SET enable_indexscan = off".to_owned(),
                "SET enable_indexonlyscan = off".to_owned(),
                "SET enable_bitmapscan = off".to_owned(),
                format!("SELECT pg_catalog.count(c2) FROM {table}"),
            ],
            other => return Err(EngineError::Setting(format!("{other}: no neighbour of petal's"))),
        };
        let mut client = endpoint.connect(APPLICATION)?;
        client.run("beginning as a neighbour", "SET statement_timeout = 0")?;
        let (token, connection) = (endpoint.cancel_token(&client), client.abort_handle());
        let cleaned = endpoint.clone();
        let clean_up = move || {
            let _ = drop_index(&cleaned, schema);
        };
        Ok(NeighbourWork::Statements(Box::new(NeighbourStatements {
            client,
            run: |client: &mut Client, sql| client.run("working as a neighbour", sql),
            statements,
            cancel: Arc::new(move || token.cancel()),
            connection,
            clean_up: is_index_build.then(|| Box::new(clean_up) as _),
        })))
    }
}

/// Index that a neighbour builds on the column of the own one.
pub const INDEX: &str = "petal_neighbour";

fn index(schema: u32) -> String {
    format!("{}.{INDEX}", schema::name(schema))
}

/// Drops the index of a neighbour that was cut. The next run's settling drops it if this fails.
fn drop_index(endpoint: &Endpoint, schema: u32) -> Result<()> {
    let mut client = endpoint.connect_to_clean_up(APPLICATION)?;
    let doing = "removing the index of a neighbour";
    client.run(doing, &format!("DROP INDEX CONCURRENTLY IF EXISTS {}", index(schema)))
}

/// Drops the index that a killed neighbour left. Without one it asks for no lock.
pub fn drop_leftover(client: &mut Client, schema: u32) -> Result<()> {
    let doing = "looking for the index of a killed neighbour";
    let sql = "SELECT pg_catalog.to_regclass($1) IS NOT NULL";
    if client.ask_value(doing, sql, &[&index(schema)])? {
        let drop = format!("DROP INDEX CONCURRENTLY IF EXISTS {}", index(schema));
        client.run("removing the index of a killed neighbour", &drop)?;
    }
    Ok(())
}
