//! Waits of petal's sessions, found by asking each server many times a second for their states.
//! Samples give shares of time, neither counts nor single waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::Result;
use crate::threads::Thread;
use petal_record::counters::{Counters, Wait, WaitClass, WaitSource};

/// Maximum gap between samples: a longer one says nothing about the time in it.
const GAP_MAX: Duration = Duration::from_secs(1);
/// A server that could not be asked is asked again after so long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A server that can be asked for the states of its sessions.
pub trait SampledEndpoint: Clone + Send + 'static {
    /// The server's number of a session.
    type SessionId: Clone + Send;
    /// A connection that is ready for the question.
    type Sampling;

    const EVERY: Duration;

    fn name(&self) -> &str;
    /// Returns None if the server cannot be asked now.
    fn begin(&self) -> Option<Self::Sampling>;
    /// Returns how many of these sessions wait, by wait; None if the connection is lost.
    fn sample(sampling: &mut Self::Sampling, of: &[Self::SessionId]) -> Option<Vec<SampledWait>>;
}

/// A wait and the number of sessions that are in it.
pub struct SampledWait {
    pub name: String,
    pub class: WaitClass,
    pub sessions: u64,
}

/// All sampling of an engine.
pub struct WaitSampler<E: SampledEndpoint> {
    servers: Arc<WatchedServers<E>>,
    thread: Mutex<Option<SamplerThread>>,
}

struct SamplerThread {
    stop: Arc<AtomicBool>,
    handle: JoinHandle<()>,
}

/// Servers by name.
type WatchedServers<E> = Mutex<BTreeMap<String, WatchedServer<E>>>;

/// A server: the sessions to watch, and the samples since petal began.
struct WatchedServer<E: SampledEndpoint> {
    endpoint: E,
    sessions: Vec<E::SessionId>,
    waits: BTreeMap<String, (WaitClass, u64)>,
    samples: u64,
    /// Time that asking took, petal's side.
    asking_ns: u64,
}

impl<E: SampledEndpoint> Default for WaitSampler<E> {
    fn default() -> Self {
        Self { servers: Arc::default(), thread: Mutex::default() }
    }
}

impl<E: SampledEndpoint> WaitSampler<E> {
    /// Watches one more session, and begins if nothing is watched yet.
    pub fn watch(&self, endpoint: &E, session: E::SessionId) -> Result<()> {
        let new = || WatchedServer {
            endpoint: endpoint.clone(),
            sessions: Vec::new(),
            waits: BTreeMap::new(),
            samples: 0,
            asking_ns: 0,
        };
        let mut servers = self.servers.lock();
        servers.entry(endpoint.name().to_owned()).or_insert_with(new).sessions.push(session);
        drop(servers);
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
            watched.sessions.clear();
        }
    }

    /// The sessions that are watched.
    pub fn sessions(&self, endpoint: &str) -> Vec<E::SessionId> {
        let servers = self.servers.lock();
        servers.get(endpoint).map_or_else(Vec::new, |watched| watched.sessions.clone())
    }

    /// Adds the samples of a server so far, but for waits that it counts: their time would count
    /// twice.
    pub fn add_to(&self, counters: &mut Counters, endpoint: &str) {
        let servers = self.servers.lock();
        let watched = servers.get(endpoint);
        for (name, &(class, time_ns)) in watched.iter().flat_map(|watched| &watched.waits) {
            if counters.wait(name).is_none_or(|counted| counted.time_ns == 0) {
                counters.waits.push(Wait {
                    source: WaitSource::Sampled,
                    ..Wait::counted(name, class, None, time_ns)
                });
            }
        }
        let (samples, asking_ns) = watched.map_or((0, 0), |it| (it.samples, it.asking_ns));
        counters.raw.insert("petal_wait_samples".to_owned(), samples);
        counters.raw.insert("petal_wait_sampling_us".to_owned(), asking_ns / 1000);
    }
}

impl<E: SampledEndpoint> Drop for WaitSampler<E> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<E: SampledEndpoint> WatchedServer<E> {
    /// Adds a sample, which is of the time since the one before.
    fn add(&mut self, sampled: Vec<SampledWait>, watched: usize, span: Duration) {
        for SampledWait { name, class, sessions } in sampled {
            // An odd answer is left out.
            if sessions <= watched as u64 {
                let (_, time_ns) = self.waits.entry(name).or_insert((class, 0));
                *time_ns += span.as_nanos() as u64 * sessions;
            }
        }
    }
}

fn sample_until<E: SampledEndpoint>(servers: &WatchedServers<E>, stop: &AtomicBool) {
    // A connection, or the time at which it was lost.
    let mut connections: BTreeMap<String, Result<E::Sampling, Instant>> = BTreeMap::new();
    let begin = |endpoint: &E| endpoint.begin().ok_or_else(Instant::now);
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(E::EVERY.saturating_sub(last.elapsed()));
        let now = Instant::now();
        let span = now - last;
        last = now;
        let watched: Vec<(E, Vec<E::SessionId>)> = servers
            .lock()
            .values()
            .map(|watched| (watched.endpoint.clone(), watched.sessions.clone()))
            .collect();
        for (endpoint, sessions) in watched {
            let name = endpoint.name();
            // A server that cannot be asked has no samples, and is tried again.
            let connection = connections.entry(name.to_owned()).or_insert_with(|| begin(&endpoint));
            if connection.as_ref().is_err_and(|since| since.elapsed() >= RETRY_AFTER) {
                *connection = begin(&endpoint);
            }
            let Ok(sampling) = connection else { continue };
            let asking = Instant::now();
            let Some(sampled) = E::sample(sampling, &sessions) else {
                *connection = Err(Instant::now());
                continue;
            };
            let mut servers = servers.lock();
            let Some(watched) = servers.get_mut(name) else { continue };
            watched.samples += 1;
            watched.asking_ns += asking.elapsed().as_nanos() as u64;
            if span <= GAP_MAX {
                watched.add(sampled, sessions.len(), span);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct NoServer;

    impl SampledEndpoint for NoServer {
        type SessionId = u32;
        type Sampling = ();
        const EVERY: Duration = Duration::from_secs(1);

        fn name(&self) -> &str {
            "none"
        }

        fn begin(&self) -> Option<()> {
            None
        }

        fn sample(&mut (): &mut (), _: &[u32]) -> Option<Vec<SampledWait>> {
            None
        }
    }

    #[test]
    fn samples_are_time_and_a_wait_that_is_counted_is_not_sampled_too() {
        let sampler = WaitSampler::<NoServer>::default();
        let wait = |name: &str, sessions| SampledWait {
            name: name.to_owned(),
            class: WaitClass::Commit,
            sessions,
        };
        let mut watched = WatchedServer {
            endpoint: NoServer,
            sessions: vec![1, 2],
            waits: BTreeMap::new(),
            samples: 2,
            asking_ns: 5000,
        };
        let span = Duration::from_millis(100);
        watched.add(vec![wait("sync", 2), wait("write", 1), wait("odd", 3)], 2, span);
        watched.add(vec![wait("sync", 1), wait("none", 0)], 2, span);
        sampler.servers.lock().insert("none".to_owned(), watched);
        let mut counters = Counters {
            waits: vec![Wait::counted("write", WaitClass::Commit, Some(4), 7)],
            ..Counters::default()
        };
        sampler.add_to(&mut counters, "none");
        sampler.add_to(&mut Counters::default(), "another");
        let of =
            |name: &str| counters.wait(name).map(|wait| (wait.source, wait.waits, wait.time_ns));
        assert_eq!(of("sync"), Some((WaitSource::Sampled, None, 300_000_000)));
        assert_eq!(of("write"), Some((WaitSource::Counted, Some(4), 7)));
        assert_eq!(of("none"), Some((WaitSource::Sampled, None, 0)));
        assert_eq!(of("odd"), None);
        assert_eq!(counters.raw["petal_wait_samples"], 2);
        assert_eq!(counters.raw["petal_wait_sampling_us"], 5);
    }
}
