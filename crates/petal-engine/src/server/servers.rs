//! The servers of a run, those of its sessions and the one for setup, and facts about them: those
//! that are asked for once, their processes, the number of sessions they admit, and petal's tables
//! that are gone.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{EngineError, Result, Session};
use petal_host::os::ServerProcesses;
use petal_settings::Settings;

/// Petal's connections in addition to the sessions: counters, waits, the lock of a run, and one
/// for connections between two steps.
const PETALS_OWN: i64 = 4;

/// The servers of a run, one at least.
pub struct Servers<E> {
    /// Servers of the sessions, in order; after them the one for setup if it is another.
    pub all: Vec<E>,
    /// Number of servers of the sessions.
    pub sessions: usize,
    /// The one for setup, if it was named.
    pub admin: Option<usize>,
}

impl<E: Clone> Servers<E> {
    /// Finds the servers. The sessions use the services of SQLNET_SERVICE_BASE, or else the URL's
    /// servers. Setup uses ADMIN_SQLNET_SERVICE, or with such services the URL's server if it
    /// `names_one_for_setup`.
    pub fn new(
        settings: &Settings,
        by_url: impl Fn() -> Result<Vec<E>>,
        by_service: impl Fn(&str) -> Result<Vec<E>>,
        names_one_for_setup: bool,
        name: fn(&E) -> &str,
    ) -> Result<Self> {
        let services = settings.endpoints.services();
        let each = services.iter().map(|service| by_service(service));
        let mut all = match services.is_empty() {
            true => by_url()?,
            false => each.collect::<Result<Vec<_>>>()?.concat(),
        };
        let admin = match &settings.endpoints.admin_service {
            Some(service) => by_service(service)?,
            None if !services.is_empty() && names_one_for_setup => by_url()?,
            None => Vec::new(),
        };
        let sessions = all.len();
        if sessions == 0 {
            let url = settings.db.redacted();
            return Err(EngineError::Setting(format!("DB={url}: names no server")));
        }
        let admin = admin.into_iter().next().map(|admin| {
            all.iter().position(|server| name(server) == name(&admin)).unwrap_or_else(|| {
                all.push(admin);
                sessions
            })
        });
        Ok(Self { all, sessions, admin })
    }

    /// The servers of the sessions.
    pub fn of_sessions(&self) -> &[E] {
        &self.all[..self.sessions]
    }

    /// Number of sessions that the server with the fewest free connections admits, as far as known.
    pub fn sessions_max(&self, free: fn(&E) -> Result<Option<i64>>) -> Result<Option<u32>> {
        let free = self.of_sessions().iter().map(free).collect::<Result<Vec<_>>>()?;
        Ok(free.into_iter().flatten().min().map(admitted))
    }

    /// The place of the server of a session at this endpoint of the run.
    pub fn place(&self, endpoint: u32) -> usize {
        endpoint as usize % self.sessions
    }
}

/// The server that takes the work of all sessions, if these follow it to another one
/// (`--on-disconnect retry`).
#[derive(Default)]
pub struct FollowedServer(OnceLock<AtomicUsize>);

impl FollowedServer {
    /// Place of the server that took the last session; None before the first one.
    pub fn place(&self) -> Option<usize> {
        self.0.get().map(|place| place.load(Ordering::Relaxed))
    }

    /// Connects a session at the first server that takes it, from the last one on.
    pub fn connect<E>(
        &self,
        servers: &[E],
        connect: impl Fn(&E) -> Result<Box<dyn Session>>,
    ) -> Result<Box<dyn Session>> {
        let from = self.place().unwrap_or(0);
        let mut refused = None;
        for place in (0..servers.len()).map(|step| (from + step) % servers.len()) {
            match connect(&servers[place]) {
                Ok(session) => {
                    let followed = self.0.get_or_init(AtomicUsize::default);
                    followed.store(place, Ordering::Relaxed);
                    return Ok(session);
                }
                Err(EngineError::Interrupted) => return Err(EngineError::Interrupted),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or(EngineError::Interrupted))
    }
}

/// Number of sessions for which `free` connections are enough.
fn admitted(free: i64) -> u32 {
    u32::try_from((free - PETALS_OWN).max(0)).unwrap_or(u32::MAX)
}

/// The processes of servers, each once, also if two names are one server. Empty if the processes
/// of one are not known: the database's use of resources is then unknown.
pub fn each_once(found: impl Iterator<Item = Option<ServerProcesses>>) -> Vec<ServerProcesses> {
    let mut all = found.collect::<Option<Vec<_>>>().unwrap_or_default();
    all.sort_by_key(|server| server.parent);
    all.dedup();
    all
}

/// The first of petal's tables and indexes that is not at `server` as it was, in words; each is
/// known by the value from its creation.
pub fn vanished<T: PartialEq>(
    server: &str,
    tables: &BTreeMap<String, T>,
    now: &BTreeMap<String, T>,
) -> Option<String> {
    tables.iter().find_map(|(name, made)| match now.get(name) {
        Some(now) if now == made => None,
        Some(_) => Some(format!("{server}: {name} was dropped and made again")),
        None => Some(format!("{server}: {name} was dropped")),
    })
}

/// A fact about servers that does not change: asked for when it is first needed.
pub fn known<T>(cell: &OnceLock<T>, ask: impl FnOnce() -> Result<T>) -> Result<&T> {
    match cell.get() {
        Some(known) => Ok(known),
        None => ask().map(|asked| cell.get_or_init(|| asked)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn processes(parent: u32) -> ServerProcesses {
        ServerProcesses { parent, log_writer: None }
    }

    #[test]
    fn a_server_of_two_names_is_counted_once_and_an_unknown_one_hides_all() {
        let known = [7, 3, 7].map(|parent| Some(processes(parent)));
        assert_eq!(each_once(known.into_iter()), [processes(3), processes(7)]);
        assert!(each_once([Some(processes(7)), None].into_iter()).is_empty());
    }

    #[test]
    fn a_table_that_went_or_was_made_again_is_named() {
        let tables =
            |made: [(&str, u32); 2]| made.map(|(name, made)| (name.to_owned(), made)).into();
        let then = tables([("cf1", 1), ("cf2", 2)]);
        let gone = |now: BTreeMap<String, u32>| vanished("db1", &then, &now);
        assert_eq!(gone(then.clone()), None);
        let again = gone(tables([("cf1", 1), ("cf2", 3)]));
        assert_eq!(again.as_deref(), Some("db1: cf2 was dropped and made again"));
        let dropped = gone(tables([("cf2", 2), ("other", 1)]));
        assert_eq!(dropped.as_deref(), Some("db1: cf1 was dropped"));
    }

    proptest! {
        #[test]
        fn petals_own_connections_are_kept_free(free in any::<i32>()) {
            let free = i64::from(free);
            prop_assert_eq!(i64::from(admitted(free)), if free > 4 { free - 4 } else { 0 });
        }
    }
}
