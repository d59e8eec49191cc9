//! Which servers serve a run: those of its sessions, and the one for setup; and facts about them
//! that are asked for once.

use std::sync::OnceLock;

use crate::engine::{EngineError, Result};
use crate::settings::Settings;

/// The servers of a run, one at least.
pub struct Servers<E> {
    /// The sessions', in order; after them the one for setup where it is another.
    pub all: Vec<E>,
    /// How many of them are the sessions'.
    pub sessions: usize,
    /// The one for setup, where it was named.
    pub admin: Option<usize>,
}

impl<E: Clone> Servers<E> {
    /// The sessions' are the services of SQLNET_SERVICE_BASE, or else the URL's. Setup's is
    /// ADMIN_SQLNET_SERVICE, or the URL's beside such services if it `names_one_for_setup`.
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

    /// The place of the server of a session at this endpoint of the run.
    pub fn place(&self, endpoint: u32) -> usize {
        endpoint as usize % self.sessions
    }
}

/// A fact about servers that does not change: asked for when it is first needed.
pub fn known<T>(cell: &OnceLock<T>, ask: impl FnOnce() -> Result<T>) -> Result<&T> {
    match cell.get() {
        Some(known) => Ok(known),
        None => ask().map(|asked| cell.get_or_init(|| asked)),
    }
}
