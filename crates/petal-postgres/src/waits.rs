//! Waits of petal's sessions, found by asking pg_stat_activity ten times a second per server.

use std::time::Duration;

use tokio_postgres::Statement;

use super::answer::{Columns as _, NonNegative};
use super::client::Client;
use super::connect::Endpoint;
use petal_engine::server::wait_sampler::{SampledEndpoint, SampledWait};
use petal_record::counters::WaitClass;

/// The source of pg_stat_activity, without the names that it looks up for every session.
const SAMPLE: &str = "SELECT coalesce(wait_event_type, ''), coalesce(wait_event, ''), \
    pg_catalog.count(*) \
                      FROM pg_catalog.pg_stat_get_activity(NULL) \
                      WHERE pid = ANY($1) AND state = 'active' GROUP BY 1, 2";

/// Sessions that are not waiting.
pub const ON_CPU: &str = "on CPU";

impl SampledEndpoint for Endpoint {
    type SessionId = i32;
    type Sampling = (Client, Statement);

    const EVERY: Duration = Duration::from_millis(100);

    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) -> Option<Self::Sampling> {
        let mut client = self.connect_to_look("petal waits").ok()?;
        let sample = client.prepare(SAMPLE).ok()?;
        Some((client, sample))
    }

    fn sample((client, sample): &mut Self::Sampling, of: &[i32]) -> Option<Vec<SampledWait>> {
        let rows = client.query(sample, &[&of]).ok()?;
        let waits = rows.iter().filter_map(|row| {
            // One that is odd is left out.
            let kind: String = row.read(0).ok()?;
            let event: String = row.read(1).ok()?;
            let NonNegative(sessions) = row.read(2).ok()?;
            let (name, class) = (name(&kind, &event), class(&kind, &event));
            Some(SampledWait { name, class, sessions })
        });
        Some(waits.collect())
    }
}

/// Names an event. I/O events have no prefix, as petal counts them under the same names; the rest
/// have their type.
fn name(kind: &str, event: &str) -> String {
    match kind {
        "" => ON_CPU.to_owned(),
        "IO" => event.to_owned(),
        _ => format!("{kind}:{event}"),
    }
}

fn class(kind: &str, event: &str) -> WaitClass {
    match (kind, event) {
        ("", _) => WaitClass::Cpu,
        ("IO", _) if event.starts_with("WAL") => WaitClass::Commit,
        ("IO", _) => WaitClass::UserIo,
        ("LWLock", "WALWrite" | "WALWriteLock") => WaitClass::Commit,
        ("LWLock" | "BufferPin", _) => WaitClass::Concurrency,
        ("Lock", _) => WaitClass::Application,
        ("IPC", "SyncRep") => WaitClass::Replica,
        ("Client", _) => WaitClass::Network,
        ("Activity", _) => WaitClass::Idle,
        _ => WaitClass::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_have_names_and_classes_of_their_own() {
        assert_eq!(name("IO", "DataFileRead"), "DataFileRead");
        assert_eq!(name("LWLock", "WALWrite"), "LWLock:WALWrite");
        assert_eq!(class("IO", "DataFileRead"), WaitClass::UserIo);
        assert_eq!(class("IO", "WALSync"), WaitClass::Commit);
        assert_eq!(class("LWLock", "WALWrite"), WaitClass::Commit);
        assert_eq!(class("IPC", "SyncRep"), WaitClass::Replica);
        assert_eq!(class("Lock", "transactionid"), WaitClass::Application);
        assert_eq!((name("", ""), class("", "")), (ON_CPU.to_owned(), WaitClass::Cpu));
    }
}
