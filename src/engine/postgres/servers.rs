//! Which servers serve a run, and what each is asked before it begins: whether it only reads, how many
//! sessions it admits, where it runs (its processes on this host), and how its clock differs.

use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::address::process_environment;
use super::client::Client;
use super::connect::Endpoint;
use super::options::Options;
use crate::engine::EngineError;
use crate::settings::Settings;
use crate::stats::os::ServerProcesses;

/// The servers of a run.
pub struct Servers {
    /// The sessions', in order; after them the one for setup where it is another.
    pub servers: Vec<Endpoint>,
    /// How many of them are the sessions'.
    pub endpoints: usize,
    /// The one for setup, where it was named.
    pub admin: Option<usize>,
}

impl Servers {
    /// The sessions' are the services of SQLNET_SERVICE_BASE, or else the URL's hosts. Setup's is
    /// ADMIN_SQLNET_SERVICE, else the URL's host beside such services, else the primary.
    pub fn new(settings: &Settings) -> Result<Self, EngineError> {
        let (url, environment) = (&settings.db, &process_environment);
        let by_service =
            |name: &String| Endpoint::all(&Options::of_service(url, name, environment)?);
        let services = settings.endpoints.services();
        let by_url = || Endpoint::all(&Options::new(url, environment)?);
        let mut servers = match services.is_empty() {
            true => by_url()?,
            false => services.iter().map(by_service).collect::<Result<Vec<_>, _>>()?.concat(),
        };
        let names_host = url.server().is_some_and(|server| !server.hosts.is_empty())
            || ["host", "service"].iter().any(|name| url.options.contains_key(*name));
        let admin = match &settings.endpoints.admin_service {
            Some(name) => by_service(name)?.into_iter().next(),
            None if !services.is_empty() && names_host => by_url()?.into_iter().next(),
            None => None,
        };
        let endpoints = servers.len();
        let admin = admin.map(|admin| {
            servers.iter().position(|server| server.name == admin.name).unwrap_or_else(|| {
                servers.push(admin);
                servers.len() - 1
            })
        });
        Ok(Self { servers, endpoints, admin })
    }
}

pub fn is_standby(endpoint: &Endpoint) -> Result<bool, EngineError> {
    let doing = "asking whether it is a standby";
    endpoint.connect("petal")?.ask_value(doing, "SELECT pg_is_in_recovery()", &[])
}

/// Connections free for this role: without those reserved for others or held by them.
pub fn free_connections(client: &mut Client) -> Result<u32, EngineError> {
    // Counters, waits, the lock of a run, and whoever connects between two steps.
    const PETALS_OWN: i64 = 4;
    let row = client.ask_row(
        "asking how many sessions it admits",
        "SELECT current_setting('max_connections')::bigint \
                 - CASE WHEN (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN 0 \
                   ELSE current_setting('superuser_reserved_connections')::bigint \
                   + CASE WHEN EXISTS (SELECT FROM pg_roles \
                                       WHERE rolname = 'pg_use_reserved_connections' \
                                       AND pg_has_role(oid, 'USAGE')) THEN 0 \
                     ELSE coalesce(current_setting('reserved_connections', true)::bigint, 0) \
                     END END, \
                 (SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database)::bigint, \
                 (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user)::bigint, \
                 (SELECT datconnlimit FROM pg_database WHERE datname = current_database())::bigint",
        &[],
    )?;
    // This connection is counted, and goes.
    let taken: i64 = row.get::<_, i64>(1) - 1;
    let limits = [Some(row.get::<_, i64>(0) - taken), limit(row.get(2)), limit(row.get(3))];
    let free = limits.into_iter().flatten().min().unwrap_or(0) - PETALS_OWN;
    Ok(u32::try_from(free.max(0)).unwrap_or(u32::MAX))
}

/// A limit of a role or database; -1 is none.
fn limit(limit: i64) -> Option<i64> {
    (limit >= 0).then_some(limit)
}

/// How often the clock is asked; the quickest answer is the most exact.
const CLOCK_QUESTIONS: usize = 5;

/// The processes of each server once, also where two endpoints are one server. Empty where one server
/// cannot be asked or seen: what the database used is then unknown.
pub fn processes_of_all<'a>(endpoints: impl Iterator<Item = &'a Endpoint>) -> Vec<ServerProcesses> {
    let mut all: Vec<ServerProcesses> = Vec::new();
    for endpoint in endpoints {
        match processes(endpoint) {
            Some(found) if all.contains(&found) => {}
            Some(found) => all.push(found),
            None => return Vec::new(),
        }
    }
    all
}

/// Each session is a process of its own, all children of one.
fn processes(endpoint: &Endpoint) -> Option<ServerProcesses> {
    let mut client = endpoint.connect_to_look("petal describe").ok()?;
    let row = client
        .query_one(
            "SELECT pg_backend_pid(), \
             (SELECT min(pid) FROM pg_stat_activity WHERE backend_type = 'walwriter')",
            &[],
        )
        .ok()?;
    let session: i32 = row.try_get(0).ok()?;
    let log_writer: Option<i32> = row.try_get(1).ok()?;
    ServerProcesses::of_session(session.cast_unsigned(), log_writer.map(i32::cast_unsigned))
}

/// Where a server on this host has its data, as its process shows it to who may look. The role need
/// not have the privilege to ask the server. None for a server in a container, whose process numbers are others here.
pub fn data_directory(client: &mut Client) -> Option<String> {
    let row = client.query_one("SELECT pg_backend_pid(), current_setting('port')", &[]).ok()?;
    let (process, port): (i32, String) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
    ServerProcesses::of_session(process.cast_unsigned(), None)?;
    let folder = std::fs::read_link(format!("/proc/{process}/cwd")).ok()?;
    // Its fourth line is the port: it is this server's folder, and no other's.
    let known = std::fs::read_to_string(folder.join("postmaster.pid")).ok()?;
    let is_its = known.lines().nth(3).is_some_and(|line| line.trim() == port);
    is_its.then(|| folder.display().to_string())
}

/// The folder of a server on this host, as the server tells it or its process shows it.
pub fn local_data_directory(endpoint: &Endpoint, client: &mut Client) -> Option<PathBuf> {
    if !endpoint.is_on_this_host() {
        return None;
    }
    let sql = "SELECT current_setting('data_directory') FROM pg_settings \
                WHERE name = 'data_directory'";
    let rows = client.query(sql, &[]).ok()?;
    let folder = rows.first().and_then(|row| row.try_get::<_, String>(0).ok());
    let folder = PathBuf::from(folder.or_else(|| data_directory(client))?);
    folder.is_dir().then_some(folder)
}

/// How many seconds the server's clock is ahead of this host's. The answer is taken to lie in the middle of its round trip.
pub fn clock_ahead_s(endpoint: &Endpoint) -> Option<f64> {
    let mut client = endpoint.connect_to_look("petal describe").ok()?;
    let answers = (0..CLOCK_QUESTIONS).filter_map(|_| {
        let asked = Instant::now();
        let here = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        let sql = "SELECT extract(epoch FROM clock_timestamp())::float8";
        let there: f64 = client.query_one(sql, &[]).ok()?.try_get(0).ok()?;
        let round_trip_s = asked.elapsed().as_secs_f64();
        Some((round_trip_s, there - here - round_trip_s / 2.0))
    });
    let quickest = answers.min_by(|a, b| a.0.total_cmp(&b.0));
    quickest.map(|(_, ahead_s)| ahead_s)
}
