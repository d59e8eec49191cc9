//! Status variables of a server as numbers, and the waits that petal makes of them.

use std::collections::BTreeMap;

use super::client::{Client, Error};
use crate::stats::counters::{Wait, WaitClass, WaitSource};

/// Status variables that are numbers, as a SHOW GLOBAL STATUS of some names answers.
pub fn status(client: &mut Client, sql: &str) -> Result<BTreeMap<String, u64>, Error> {
    let status: Vec<(String, String)> = client.query(sql)?;
    let number = |(name, value): (String, String)| Some((name, value.parse().ok()?));
    Ok(status.into_iter().filter_map(number).collect())
}

pub fn counted_wait(name: &str, class: WaitClass, waits: u64, time_ns: u64) -> Wait {
    Wait {
        name: name.to_owned(),
        class,
        source: WaitSource::Counted,
        waits: Some(waits),
        time_ns,
        latencies: None,
    }
}

/// The count and time of a wait, where both are known.
pub fn counted(wait: &Wait) -> Option<(u64, u64)> {
    Some((wait.waits?, wait.time_ns))
}
