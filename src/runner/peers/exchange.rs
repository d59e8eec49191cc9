//! What the hosts of a run tell each other: the plan, whether all are ready, seconds as they pass,
//! and at the end the records.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::EngineError;
use crate::record::{Folder, RecordError, Second, journal, latency_log, os};
use crate::workload::share::Share;

use super::super::RunError;
use super::{PeerError, Peers, Tag, Wait};

/// Connecting, warming up and settling may take so long on one host while others wait.
const READY_LIMIT: Duration = Duration::from_secs(1800);
/// All hosts are ready: from one of them nothing is heard any more.
const TRIGGER_LIMIT: Duration = Duration::from_secs(60);
/// A host that has ended writes its record, and sends it, within this.
const RECORD_LIMIT: Duration = Duration::from_secs(120);
/// Progress that cannot be sent at once is left out.
const PROGRESS_LIMIT: Duration = Duration::from_secs(1);
/// Telling others that the run is called off.
const FAREWELL_LIMIT: Duration = Duration::from_secs(5);
/// The files of a record that the merge reads.
const FILES: [&str; 5] =
    [journal::NAME, latency_log::NAME, os::OWN_NAME, os::SERVER_NAME, "run.json"];

/// The plan of a run as its first host has it; the others must have the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub petal_version: String,
    pub url: String,
    pub sessions: u32,
    pub seed: u64,
    pub settings: serde_json::Map<String, serde_json::Value>,
}

/// The hosts of a run that can speak with each other.
pub struct Together {
    peers: Arc<dyn Peers>,
    /// How many times a signal asked to stop.
    signals: Arc<AtomicU8>,
    /// Others wait for this host's word.
    is_awaited: AtomicBool,
}

impl Together {
    pub fn new(peers: Arc<dyn Peers>, signals: Arc<AtomicU8>) -> Self {
        Self { peers, signals, is_awaited: AtomicBool::new(true) }
    }

    pub fn share(&self) -> Share {
        self.peers.share()
    }

    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        1..self.peers.size()
    }

    fn is_first(&self) -> bool {
        self.peers.rank() == 0
    }

    /// Waits at most so long, and until a signal.
    fn wait<T>(
        &self,
        limit: Duration,
        work: impl FnOnce(&Wait<'_>) -> Result<T, PeerError>,
    ) -> Result<T, PeerError> {
        let is_interrupted = || self.signals.load(Ordering::Relaxed) > 0;
        work(&Wait::at_most(limit, &is_interrupted))
    }

    /// Waits at most so long, whatever signal comes: for a few words at the end.
    fn wait_on<T>(
        limit: Duration,
        work: impl FnOnce(&Wait<'_>) -> Result<T, PeerError>,
    ) -> Result<T, PeerError> {
        work(&Wait::at_most(limit, &|| false))
    }

    /// A run begins, in which other hosts wait for this one's word.
    pub fn begin(&self) {
        self.is_awaited.store(true, Ordering::Relaxed);
    }

    /// Returns when every host is ready. Where one is not, an error on every host says why.
    pub fn agree(&self, own: Result<(), String>) -> Result<(), PeerError> {
        self.is_awaited.store(true, Ordering::Relaxed);
        let agreed = match self.is_first() {
            true => self.decide(own),
            false => self.obey(own),
        };
        if agreed.is_err() {
            self.is_awaited.store(false, Ordering::Relaxed);
        }
        agreed
    }

    /// This host cannot run: tells the others, where they wait for it.
    pub fn call_off(&self, why: &str) {
        if self.is_awaited.swap(false, Ordering::Relaxed) {
            // They learn it, or wait in vain for as long as they wait.
            let _ = self.agree(Err(why.to_owned()));
        }
    }

    fn decide(&self, own: Result<(), String>) -> Result<(), PeerError> {
        let mut refusals: Vec<String> =
            own.err().map(|why| self.named(0, &why)).into_iter().collect();
        let mut interrupted = false;
        for rank in self.others() {
            let limit = if refusals.is_empty() { READY_LIMIT } else { FAREWELL_LIMIT };
            let told = match interrupted {
                true => {
                    Self::wait_on(FAREWELL_LIMIT, |wait| self.peers.receive(rank, Tag::Ready, wait))
                }
                false => self.wait(limit, |wait| self.peers.receive(rank, Tag::Ready, wait)),
            };
            match told {
                Ok(why) if why.is_empty() => {}
                Ok(why) => refusals.push(self.named(rank, &String::from_utf8_lossy(&why))),
                Err(PeerError::Interrupted) => {
                    interrupted = true;
                    refusals.push(self.named(0, "a signal"));
                }
                Err(error) => refusals.push(self.named(rank, &error.to_string())),
            }
        }
        let verdict = refusals.join("; ");
        for rank in self.others() {
            let send =
                |wait: &Wait<'_>| self.peers.send(rank, Tag::Verdict, verdict.as_bytes(), wait);
            let sent = Self::wait_on(FAREWELL_LIMIT, send);
            if refusals.is_empty() {
                sent?;
            }
        }
        match (interrupted, refusals.is_empty()) {
            (true, _) => Err(PeerError::Interrupted),
            (false, true) => Ok(()),
            (false, false) => Err(PeerError::CalledOff(verdict)),
        }
    }

    fn obey(&self, own: Result<(), String>) -> Result<(), PeerError> {
        let word = own.err().unwrap_or_default();
        Self::wait_on(FAREWELL_LIMIT, |wait| {
            self.peers.send(0, Tag::Ready, word.as_bytes(), wait)
        })?;
        let verdict = match word.is_empty() {
            true => self.wait(READY_LIMIT, |wait| self.peers.receive(0, Tag::Verdict, wait)),
            // Nobody needs to hear it who has told why.
            false => return Err(PeerError::CalledOff(word)),
        }?;
        match verdict.is_empty() {
            true => Ok(()),
            false => Err(PeerError::CalledOff(String::from_utf8_lossy(&verdict).into_owned())),
        }
    }

    fn named(&self, rank: u32, why: &str) -> String {
        format!("share {} of {}: {why}", rank + 1, self.peers.size())
    }

    /// Takes over the first host's plan. A host with another petal, database or settings calls the
    /// run off.
    pub fn same_plan(&self, own: &Plan) -> Result<Plan, RunError> {
        let text = self.told_by_first(serde_json::to_vec(own).unwrap_or_default())?;
        let first: Plan = serde_json::from_slice(&text).unwrap_or_default();
        let differs = own.differs_from(&first).map_or(Ok(()), Err);
        self.agree(differs)?;
        Ok(first)
    }

    /// What the first host says, on all of them.
    fn told_by_first(&self, own: Vec<u8>) -> Result<Vec<u8>, PeerError> {
        if !self.is_first() {
            return self.wait(READY_LIMIT, |wait| self.peers.receive(0, Tag::Plan, wait));
        }
        for rank in self.others() {
            self.wait(TRIGGER_LIMIT, |wait| self.peers.send(rank, Tag::Plan, &own, wait))?;
        }
        Ok(own)
    }

    /// The trigger: returns at the same moment on all hosts.
    pub fn barrier(&self) -> Result<(), PeerError> {
        self.is_awaited.store(false, Ordering::Relaxed);
        self.wait(TRIGGER_LIMIT, |wait| self.peers.barrier(wait))
    }

    /// Tells the first host that this one's sessions have ended. On the first host: waits for the
    /// others, at most so long; true when all of them have ended.
    pub fn ended(&self, limit: Duration) -> bool {
        if !self.is_first() {
            let tell = |wait: &Wait<'_>| self.peers.send(0, Tag::Ended, &[], wait);
            return Self::wait_on(FAREWELL_LIMIT, tell).is_ok();
        }
        let is_enough = || self.signals.load(Ordering::Relaxed) > 1;
        let wait = Wait::at_most(limit, &is_enough);
        self.others().all(|rank| self.peers.receive(rank, Tag::Ended, &wait).is_ok())
    }

    /// Tells the first host of a second that has passed.
    pub fn tell_second(&self, second: &Second) {
        let text = serde_json::to_vec(second).unwrap_or_default();
        let tell = |wait: &Wait<'_>| self.peers.send(0, Tag::Second, &text, wait);
        // It is for a person's eyes alone.
        let _ = Self::wait_on(PROGRESS_LIMIT, tell);
    }

    /// Seconds of other hosts that have come since the last call.
    pub fn seconds(&self) -> Vec<(Share, Second)> {
        let mut come = Vec::new();
        while let Ok(Some(rank)) = self.peers.arrived(Tag::Second) {
            let hear = |wait: &Wait<'_>| self.peers.receive(rank, Tag::Second, wait);
            let Ok(text) = Self::wait_on(PROGRESS_LIMIT, hear) else { break };
            let share = Share { number: rank + 1, of: self.peers.size() };
            come.extend(serde_json::from_slice(&text).ok().map(|second| (share, second)));
        }
        come
    }

    /// Sends this host's record to the first one.
    pub fn send_record(&self, folder: &Folder) -> Result<(), PeerError> {
        let send = |wait: &Wait<'_>| {
            for name in FILES {
                let Ok(text) = std::fs::read(folder.path().join(name)) else { continue };
                self.peers.send(0, Tag::Record, name.as_bytes(), wait)?;
                self.peers.send(0, Tag::Record, &text, wait)?;
            }
            self.peers.send(0, Tag::Record, &[], wait)
        };
        Self::wait_on(RECORD_LIMIT, send)
    }

    /// The records of all other hosts, in folders below this one; and why one of them is missing.
    pub fn gather(&self, below: &Folder) -> (Vec<PathBuf>, Vec<String>) {
        let (mut folders, mut missing) = (Vec::new(), Vec::new());
        for rank in self.others() {
            let name = format!("share-{}", rank + 1);
            match self.receive_record(rank, &below.path().join(&name)) {
                Ok(folder) => folders.push(folder),
                Err(error) => missing.push(self.named(rank, &error)),
            }
        }
        // What is still on its way of their progress nobody shows any more.
        self.seconds();
        (folders, missing)
    }

    fn receive_record(&self, rank: u32, path: &Path) -> Result<PathBuf, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let made =
            std::fs::create_dir(path).map_err(|source| RecordError::io("make", path, source));
        made.map_err(|error| text(&error))?;
        let folder = Folder::open(path);
        loop {
            let hear = |wait: &Wait<'_>| self.peers.receive(rank, Tag::Record, wait);
            let name = Self::wait_on(RECORD_LIMIT, hear).map_err(|error| text(&error))?;
            if name.is_empty() {
                return Ok(path.to_owned());
            }
            let content = Self::wait_on(RECORD_LIMIT, hear).map_err(|error| text(&error))?;
            // Nothing is written under a name that is no record's.
            if let Some(known) = FILES.iter().find(|known| known.as_bytes() == name) {
                folder.write_atomically(known, &content).map_err(|error| text(&error))?;
            }
        }
    }
}

impl Plan {
    /// In what this host's plan is another one than the first host's.
    fn differs_from(&self, first: &Self) -> Option<String> {
        let said = |what: &str, own: &str, first: &str| {
            (own != first)
                .then(|| format!("{what} is {own:?} here and {first:?} on the first host"))
        };
        let (own_sessions, sessions) = (self.sessions.to_string(), first.sessions.to_string());
        let setting = || {
            let keys = self.settings.keys().chain(first.settings.keys());
            let mut keys =
                keys.filter(|key| !matches!(key.as_str(), "out" | "calibrations" | "seed"));
            let key = keys.find(|key| self.settings.get(*key) != first.settings.get(*key))?;
            let shown =
                |plan: &Self| plan.settings.get(key).map_or(String::new(), ToString::to_string);
            said(&key.to_ascii_uppercase(), &shown(self), &shown(first))
        };
        said("petal", &self.petal_version, &first.petal_version)
            .or_else(|| said("the URL", &self.url, &first.url))
            .or_else(|| said("the number of sessions", &own_sessions, &sessions))
            .or_else(setting)
    }
}

impl From<PeerError> for RunError {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::Interrupted => EngineError::Interrupted.into(),
            PeerError::CalledOff(why) => {
                Self::Environment(format!("the run of several hosts is called off: {why}"))
            }
            other => Self::Environment(format!(
                "the run of several hosts is called off: {other}; each host's journal, if it has \
                 begun one, can still be merged (petal merge DIR...)"
            )),
        }
    }
}
