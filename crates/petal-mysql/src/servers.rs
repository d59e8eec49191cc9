//! The servers of a run, and questions to each before it: how many sessions it admits, which process it is on this
//! host, and how its clock differs.

use std::path::Path;

use mysql_async::Row;

use super::connect::Endpoint;
use super::options::Options;
use super::this_host::LocalMysql;
use petal_engine::server::clock::{self, ClockReading};
use petal_engine::server::login::FirstLogins;
use petal_engine::server::room::{self, Need, RESERVE_BYTES};
use petal_engine::server::servers::Servers;
use petal_engine::url_option::process_environment;
use petal_engine::{EngineError, Result};
use petal_host::os::ServerProcesses;
use petal_record::verification::Recovery;
use petal_settings::Settings;

/// The servers that the URL and SLOB's parameters name.
pub fn of_run(settings: &Settings) -> Result<Servers<Endpoint>> {
    let logins = FirstLogins::new(settings);
    let command = settings.password_command.as_deref();
    let of = |service: Option<&str>| {
        Options::new(&settings.db, service, &process_environment)
            .map(|options| Endpoint::all(&options, command, &logins))
    };
    Servers::new(settings, || of(None), |name| of(Some(name)), false, |server| &server.name)
}

/// Connections that are left for this user.
pub fn free_connections(endpoint: &Endpoint) -> Result<Option<i64>> {
    let mut client = endpoint.connect()?;
    let doing = "asking how many sessions it admits";
    let (limit, own_limit): (i64, i64) =
        client.ask_row(doing, "SELECT @@max_connections, @@max_user_connections")?;
    let (_, taken): (String, i64) =
        client.ask_row(doing, "SHOW GLOBAL STATUS LIKE 'Threads_connected'")?;
    // This connection is counted, and goes.
    let free = limit - (taken - 1);
    Ok(Some(if own_limit > 0 { free.min(own_limit) } else { free }))
}

/// Refuses a server that takes no UPDATEs of ordinary users, such as a replica.
pub fn check_writable(endpoint: &Endpoint) -> Result<()> {
    let doing = "asking whether it is read-only";
    let read_only: i64 = endpoint.connect()?.ask_row(doing, "SELECT @@global.read_only")?;
    match read_only {
        0 => Ok(()),
        _ => {
            let name = &endpoint.name;
            Err(EngineError::Environment(format!("{name}: only reads (read_only is on)")))
        }
    }
}

/// Returns a replica's position; None for a server that is no replica, or no longer one. A user
/// without the privilege to see the replication knows a replica by its read_only alone.
pub fn recovery(endpoint: &Endpoint) -> Result<Option<Recovery>> {
    let mut client = endpoint.connect()?;
    let read_only: i64 =
        client.ask_row("asking whether it is read-only", "SELECT @@global.read_only")?;
    let mut status = client.query::<Row>("SHOW REPLICA STATUS");
    if status.is_err() {
        status = client.query::<Row>("SHOW SLAVE STATUS");
    }
    let row = match status {
        Ok(rows) if rows.is_empty() => return Ok(None),
        Ok(rows) => rows.into_iter().next(),
        Err(_) => None,
    };
    // MariaDB and older releases call the other server a master.
    let get = |name: &str| {
        let names = [name.to_owned(), name.replace("Source", "Master").replace("Replica", "Slave")];
        let value = |name: &String| row.as_ref()?.get_opt::<String, _>(name.as_str())?.ok();
        names.iter().find_map(value)
    };
    let runs = |name: &str| get(name).is_some_and(|state| state != "No");
    if read_only == 0 && !runs("Replica_IO_Running") && !runs("Replica_SQL_Running") {
        return Ok(None);
    }
    let position = |file: &str, at: &str| Some(format!("{}:{}", get(file)?, get(at)?));
    Ok(Some(Recovery {
        server: client.server.clone(),
        replayed: position("Relay_Source_Log_File", "Exec_Source_Log_Pos"),
        received: position("Source_Log_File", "Read_Source_Log_Pos"),
        ..Recovery::default()
    }))
}

/// Returns the server's process if it runs on this host.
pub fn processes(endpoint: &Endpoint) -> Option<ServerProcesses> {
    let mut client = endpoint.connect_to_look().ok()?;
    Some(LocalMysql::find(endpoint, &mut client)?.ok()?.processes)
}

/// Refuses work whose data, or the log of the server on this host, have no room; false for a server
/// elsewhere. `data` names the data that the work writes, with their bytes.
pub fn check_room(endpoint: &Endpoint, work: &str, data: Vec<(&str, u64)>) -> Result<bool> {
    let mut client = endpoint.connect()?;
    let Some(Ok(server)) = LocalMysql::find(endpoint, &mut client) else { return Ok(false) };
    let sql = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_data_home_dir', \
               'innodb_log_group_home_dir', 'innodb_redo_log_capacity', 'log_bin_basename')";
    let settings: Vec<(String, String)> = client.ask("asking for its folders", sql)?;
    let get = |name: &str| {
        let found = settings.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map_or("", |(_, value)| value.as_str())
    };
    // A folder that is not seen is left out.
    let folder = |name: &str| server.see(get(name)).unwrap_or_default();
    let log_folder = folder("innodb_log_group_home_dir");
    // Where the log's files are of a fixed size, they are there already.
    let capacity: u64 = get("innodb_redo_log_capacity").parse().unwrap_or(0);
    let files = std::fs::read_dir(log_folder.join("#innodb_redo")).into_iter().flatten().flatten();
    let there: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    let mut needs = Vec::new();
    for (what, bytes) in data {
        let basename = Some(get("log_bin_basename")).filter(|name| !name.is_empty());
        let binlog = basename.and_then(|name| server.see(Path::new(name).parent()?));
        needs.push(Need::new(folder("innodb_data_home_dir"), what, bytes));
        needs
            .extend(binlog.map(|folder| Need::new(folder, format!("the binlog of {what}"), bytes)));
    }
    let redo = capacity.saturating_sub(there);
    needs.push(Need::new(&log_folder, "the log (innodb_redo_log_capacity)", redo));
    needs.push(Need::new(
        &server.folder,
        "undo, doublewrite and others, in reserve",
        RESERVE_BYTES,
    ));
    room::check(&client.server, work, &needs).map(|()| true)
}

pub fn clock(endpoint: &Endpoint) -> Option<ClockReading> {
    let mut client = endpoint.connect_to_look().ok()?;
    clock::read(|| client.query_one("SELECT UNIX_TIMESTAMP(SYSDATE(6)) + 0e0").ok())
}
