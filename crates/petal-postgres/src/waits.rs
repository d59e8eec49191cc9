//! Waits of petal's sessions, found by asking pg_stat_activity ten times a second per server.
//! Samples give shares of time, neither counts nor single waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_postgres::Statement;

use super::answer::{Columns as _, NonNegative};
use super::client::Client;
use super::connect::Endpoint;
use petal_engine::Result;
use petal_engine::threads::Thread;
use petal_model::stats::counters::{Wait, WaitClass, WaitSource};

const EVERY: Duration = Duration::from_millis(100);
/// Maximum gap between samples: a longer one says nothing about the time in it.
const GAP_MAX: Duration = Duration::from_secs(1);
/// A server that could not be asked is asked again after so long.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The source of pg_stat_activity, without the names that it looks up for every session.
const SAMPLE: &str = "SELECT coalesce(wait_event_type, ''), coalesce(wait_event, ''), \
    pg_catalog.count(*) \
                      FROM pg_catalog.pg_stat_get_activity(NULL) \
                      WHERE pid = ANY($1) AND state = 'active' GROUP BY 1, 2";

/// Sessions that are not waiting.
pub const ON_CPU: &str = "on CPU";

/// All sampling of an engine.
#[derive(Default)]
pub struct Waits {
    servers: Arc<WatchedServers>,
    thread: Mutex<Option<SamplerThread>>,
}

struct SamplerThread {
    stop: Arc<AtomicBool>,
    handle: JoinHandle<()>,
}

/// Servers by name.
type WatchedServers = Mutex<BTreeMap<String, WatchedServer>>;

/// A server: the sessions to watch, and the samples since petal began.
struct WatchedServer {
    endpoint: Endpoint,
    processes: Vec<i32>,
    totals: BTreeMap<(String, String), u64>,
    samples: u64,
    asking_ns: u64,
}

/// The samples of a server.
#[derive(Default)]
pub struct SampledWaits {
    pub waits: Vec<Wait>,
    pub samples: u64,
    /// Time that asking took, petal's side.
    pub asking_ns: u64,
}

impl Waits {
    /// Watches one more server process, and begins if nothing is watched yet.
    pub fn watch(&self, endpoint: &Endpoint, process: i32) -> Result<()> {
        self.servers
            .lock()
            .entry(endpoint.name.clone())
            .or_insert_with(|| WatchedServer {
                endpoint: endpoint.clone(),
                processes: Vec::new(),
                totals: BTreeMap::new(),
                samples: 0,
                asking_ns: 0,
            })
            .processes
            .push(process);
        let mut thread = self.thread.lock();
        if thread.is_some() {
            return Ok(());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (servers, flag) = (Arc::clone(&self.servers), Arc::clone(&stop));
        let handle = Thread::named("waits").start(move || sample_until(&servers, &flag))?;
        *thread = Some(SamplerThread { stop, handle });
        Ok(())
    }

    /// Ends sampling; totals stay.
    pub fn stop(&self) {
        let Some(sampler) = self.thread.lock().take() else { return };
        sampler.stop.store(true, Ordering::Relaxed);
        sampler.handle.thread().unpark();
        // Its panic would be a fault of petal's that costs only samples.
        let _ = sampler.handle.join();
        for watched in self.servers.lock().values_mut() {
            watched.processes.clear();
        }
    }

    /// The server processes that are watched.
    pub fn processes(&self, endpoint: &str) -> Vec<i32> {
        let servers = self.servers.lock();
        servers.get(endpoint).map_or_else(Vec::new, |watched| watched.processes.clone())
    }

    /// Returns the samples of a server so far.
    pub fn seen(&self, endpoint: &str) -> SampledWaits {
        let servers = self.servers.lock();
        let Some(watched) = servers.get(endpoint) else { return SampledWaits::default() };
        let waits = watched.totals.iter().map(|((kind, event), &time_ns)| Wait {
            name: name(kind, event),
            class: class(kind, event),
            source: WaitSource::Sampled,
            waits: None,
            time_ns,
            latencies: None,
            buckets: BTreeMap::new(),
        });
        SampledWaits {
            waits: waits.collect(),
            samples: watched.samples,
            asking_ns: watched.asking_ns,
        }
    }
}

/// A connection that can be asked, or the time at which it was lost.
fn prepared(endpoint: &Endpoint) -> Result<(Client, Statement), Instant> {
    let client = endpoint.connect_to_look("petal waits").ok();
    let prepared = client.and_then(|mut client| {
        let sample = client.prepare(SAMPLE).ok()?;
        Some((client, sample))
    });
    prepared.ok_or_else(Instant::now)
}

fn sample_until(servers: &WatchedServers, stop: &AtomicBool) {
    let mut clients: BTreeMap<String, Result<(Client, Statement), Instant>> = BTreeMap::new();
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(EVERY.saturating_sub(last.elapsed()));
        let now = Instant::now();
        let span = now - last;
        last = now;
        let watched: Vec<(Endpoint, Vec<i32>)> = servers
            .lock()
            .values()
            .map(|watched| (watched.endpoint.clone(), watched.processes.clone()))
            .collect();
        for (endpoint, processes) in watched {
            let name = endpoint.name.clone();
            // A server that cannot be asked has no samples, and is tried again.
            let client = clients.entry(name.clone()).or_insert_with(|| prepared(&endpoint));
            if client.as_ref().is_err_and(|since| since.elapsed() >= RETRY_AFTER) {
                *client = prepared(&endpoint);
            }
            let Ok((asked, sample)) = client else { continue };
            let asking = Instant::now();
            match asked.query(sample, &[&processes]) {
                Ok(rows) => {
                    let mut servers = servers.lock();
                    let Some(watched) = servers.get_mut(&name) else { continue };
                    watched.samples += 1;
                    watched.asking_ns += asking.elapsed().as_nanos() as u64;
                    if span > GAP_MAX {
                        continue;
                    }
                    for row in rows {
                        // One that is odd is left out.
                        let (Ok(kind), Ok(event), Ok(NonNegative(sessions))) =
                            (row.read(0), row.read(1), row.read(2))
                        else {
                            continue;
                        };
                        if sessions > processes.len() as u64 {
                            continue;
                        }
                        let time_ns = span.as_nanos() as u64 * sessions;
                        *watched.totals.entry((kind, event)).or_default() += time_ns;
                    }
                }
                Err(_) => *client = Err(Instant::now()),
            }
        }
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
        ("IPC", "SyncRep") => WaitClass::Commit,
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
        assert_eq!(class("Lock", "transactionid"), WaitClass::Application);
        assert_eq!((name("", ""), class("", "")), (ON_CPU.to_owned(), WaitClass::Cpu));
    }
}
