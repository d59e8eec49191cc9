//! The identity of a server and of petal's data there: after an outage a session goes on only where
//! the server and the load of before answer.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{EngineError, Result};
use petal_record::target::ServerIdentity;

/// The server that the sessions of a run met first. Sessions that connect again go on only there, or
/// at its successor.
#[derive(Clone, Default)]
pub struct KnownServer(Option<Arc<Mutex<ServerIdentity>>>);

impl KnownServer {
    /// Sessions that connect again compare the server that they meet.
    pub fn new(reconnect: bool) -> Self {
        Self(reconnect.then(Arc::default))
    }

    /// True if sessions compare the server that they meet.
    pub fn is_compared(&self) -> bool {
        self.0.is_some()
    }

    /// Refuses another server than the known one.
    pub fn check(&self, server: &str, system: Option<String>, timeline: Option<u64>) -> Result<()> {
        self.compare(server, |known| {
            (known.system, known.timeline) = (system, timeline);
        })
    }

    /// Refuses data of another load than the known one of this schema.
    pub fn check_load(&self, server: &str, schema: u32, load: &str) -> Result<()> {
        self.compare(server, |known| {
            known.loads.insert(schema, load.to_owned());
        })
    }

    /// Compares the known facts with those that `meet` puts in their place, and keeps these.
    fn compare(&self, server: &str, meet: impl FnOnce(&mut ServerIdentity)) -> Result<()> {
        let Some(known) = &self.0 else { return Ok(()) };
        let mut known = known.lock();
        let mut met = known.clone();
        meet(&mut met);
        match known.difference(&met) {
            None => {
                *known = met;
                Ok(())
            }
            Some(why) => Err(EngineError::WrongServer(format!(
                "{server}: another server than before answers: {why}; petal does not go on there"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_server_and_its_successors_are_gone_on_with() {
        let known = KnownServer::new(true);
        let check = |server, system: &str, timeline| {
            known.check(server, Some(system.to_owned()), Some(timeline))
        };
        check("db1", "7", 1).unwrap();
        insta::assert_snapshot!(check("db1", "8", 1).unwrap_err(), @"db1: another server than before answers: its system is 8, and was 7; petal does not go on there");
        check("db2", "7", 2).unwrap();
        insta::assert_snapshot!(check("db1", "7", 1).unwrap_err(), @"db1: another server than before answers: its timeline is 1, and was 2; petal does not go on there");
        insta::assert_snapshot!(known.check("db2", None, None).unwrap_err(), @"db2: another server than before answers: its system is unknown, and was 7; petal does not go on there");
    }

    #[test]
    fn another_load_is_refused_and_a_schema_that_was_not_met_is_kept() {
        let known = KnownServer::new(true);
        known.check_load("db1", 1, "a").unwrap();
        known.check_load("db1", 2, "b").unwrap();
        known.check_load("db1", 1, "a").unwrap();
        insta::assert_snapshot!(known.check_load("db1", 2, "c").unwrap_err(), @"db1: another server than before answers: schema 2 is of another load; petal does not go on there");
        let others = KnownServer::default();
        others.check_load("db1", 1, "a").unwrap();
        others.check_load("db1", 1, "b").unwrap();
    }
}
