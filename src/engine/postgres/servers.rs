//! Which servers serve a run, and what each is asked before it begins: whether it only reads, and how
//! many sessions it admits.

use super::address::process_environment;
use super::client::Client;
use super::connect::{Endpoint, engine_error};
use super::options::Options;
use crate::engine::EngineError;
use crate::settings::Settings;

/// Who serves a run.
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
    /// ADMIN_SQLNET_SERVICE, or else the host that the URL names beside such services, or else the
    /// primary among the sessions'.
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
    endpoint
        .connect("petal")?
        .query_one("SELECT pg_is_in_recovery()", &[])
        .map(|row| row.get(0))
        .map_err(|error| engine_error(&endpoint.name, "asking whether it is a standby", &error))
}

/// Free for this role: what is kept for superusers, from 16 on for others too, and what others hold
/// is not.
pub fn free_connections(client: &mut Client, server: &str) -> Result<u32, EngineError> {
    // Counters, waits, the lock of a run, and whoever connects between two steps.
    const PETALS_OWN: i64 = 4;
    let row = client
        .query_one(
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
        )
        .map_err(|error| engine_error(server, "asking how many sessions it admits", &error))?;
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
