//! Work next to a run that petal starts by name: `petal interfere`.
//!
//! An index is built in a temporary table, which ends with its connection, also if petal is killed.

use std::sync::Arc;

use super::client::Client;
use super::{Mysql, schema};
use petal_engine::neighbour::{KnownNeighbours, NeighbourStatements, NeighbourWork, find_program};
use petal_engine::{EngineError, Result};

const NAMES: [&str; 4] = ["full-scan", "index-build", "checkpoint", "backup"];

impl KnownNeighbours for Mysql {
    fn names(&self) -> &'static [&'static str] {
        &NAMES
    }

    fn open_neighbour(&self, name: &str, schema: u32) -> Result<NeighbourWork> {
        let table = format!("{}_cf1", schema::name(schema));
        let statements = match name {
            "backup" => return self.dump(),
            "full-scan" => vec![format!("SELECT COUNT(c2) FROM {table}")],
            "index-build" => vec![
                format!("CREATE TEMPORARY TABLE petal_neighbour AS SELECT custid, c2 FROM {table}"),
                "ALTER TABLE petal_neighbour ADD INDEX (custid)".to_owned(),
                "DROP TEMPORARY TABLE petal_neighbour".to_owned(),
            ],
            "checkpoint" => {
                vec![format!("FLUSH TABLES {table} FOR EXPORT"), "UNLOCK TABLES".to_owned()]
            }
            other => return Err(EngineError::Setting(format!("{other}: no neighbour of petal's"))),
        };
        let endpoint = self.first().clone();
        let client = endpoint.connect()?;
        let (connection, id) = (client.abort_handle(), client.id());
        Ok(NeighbourWork::Statements(Box::new(NeighbourStatements {
            client,
            run: |client: &mut Client, sql| client.send("working as a neighbour", sql),
            statements,
            cancel: Arc::new(move || endpoint.kill_query(id)),
            connection,
            clean_up: None,
        })))
    }
}

impl Mysql {
    /// A dump of the database in one transaction.
    fn dump(&self) -> Result<NeighbourWork> {
        let version: String =
            self.connect_first()?.ask_row("asking for its version", "SELECT VERSION()")?;
        let way = self.first().plain_way().ok_or_else(|| {
            EngineError::Setting(format!(
                "backup: {} takes the password only by TLS, whose options petal does not hand to the \
                 program of the dump; give the command with --with, or a socket in the URL",
                self.shared.url
            ))
        })?;
        let place = match way.socket() {
            Some(socket) => vec![format!("--socket={socket}")],
            None => vec![
                "--protocol=tcp".to_owned(),
                format!("--host={}", way.ip_or_hostname()),
                format!("--port={}", way.tcp_port()),
            ],
        };
        let of_user = way.user().map(|user| format!("--user={user}"));
        let fixed = ["--single-transaction", "--skip-lock-tables", "--no-tablespaces"];
        let fixed = fixed.map(str::to_owned);
        let database = way.db_name().map(str::to_owned);
        let password = way.pass().map(|word| ("MYSQL_PWD", word.to_owned()));
        Ok(NeighbourWork::Program {
            path: find_program(&dump_programs(&version))?,
            arguments: place.into_iter().chain(of_user).chain(fixed).chain(database).collect(),
            environment: password.into_iter().collect(),
        })
    }
}

/// Programs that dump a server of this version. Its own knows all its ways to authenticate.
fn dump_programs(version: &str) -> [&'static str; 2] {
    match version.contains("MariaDB") {
        true => ["mariadb-dump", "mysqldump"],
        false => ["mysqldump", "mariadb-dump"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_dumped_by_its_own_program_if_that_is_there() {
        assert_eq!(dump_programs("8.0.33")[0], "mysqldump");
        assert_eq!(dump_programs("10.11.19-MariaDB-0+deb12u1-log")[0], "mariadb-dump");
    }
}
