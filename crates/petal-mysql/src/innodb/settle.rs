//! Paying InnoDB's debts before a run: rows that are still to be purged, dirty pages.

use super::super::client::{Client, Error};
use super::super::schema;
use super::super::settling::{SETTLE_LIMIT, Settling};
use super::counters::history_length;
use petal_engine::{EngineError, Result};

/// An undo history of at most this many transactions counts as purged.
const HISTORY_SETTLED: u64 = 100;

/// Waits until old versions are purged, then has dirty pages written. A stop ends either.
pub fn settle(settling: &Settling<'_>, client: &mut Client) -> Result<Vec<String>> {
    let mut done = vec![purge(settling, client)?];
    settling.progress.advance(1);
    let mut refused = None;
    let mut flushed = 0;
    for &schema in settling.schemas {
        if settling.stop.is_requested() {
            return Err(EngineError::Interrupted);
        }
        let doing = format!("writing dirty pages of {}_cf1", schema::name(schema));
        match settling.until_over(client, &doing, |client| flush(client, schema)) {
            Ok(()) => flushed += 1,
            Err(EngineError::Environment(why)) => refused = Some(why),
            Err(error) => return Err(error),
        }
        settling.progress.advance(1);
    }
    done.push(format!("dirty pages of {flushed} main tables written"));
    if let Some(why) = refused {
        done.push(format!(
            "dirty pages of {} main tables left: {why}",
            settling.schemas.len() - flushed
        ));
    }
    Ok(done)
}

fn purge(settling: &Settling<'_>, client: &mut Client) -> Result<String> {
    let mut length = history_length(client);
    let settled = |length: Option<u64>| length.is_none_or(|length| length <= HISTORY_SETTLED);
    settling.wait_until(|| {
        length = history_length(client);
        settled(length)
    })?;
    Ok(match length {
        None => "purge not waited for: the user may not see its history".to_owned(),
        Some(_) if settled(length) => "old versions purged".to_owned(),
        Some(length) => format!(
            "old versions of {length} transactions not purged after {} s: somebody's transaction is \
             open, or purge lags (innodb_purge_threads)",
            SETTLE_LIMIT.as_secs()
        ),
    })
}

/// Writes the dirty pages of a main table, by the first step of an export.
pub fn flush(client: &mut Client, schema: u32) -> Result<(), Error> {
    let flushed = client.run(&format!("FLUSH TABLES {}_cf1 FOR EXPORT", schema::name(schema)));
    let unlocked = client.run("UNLOCK TABLES");
    flushed.and(unlocked)
}
