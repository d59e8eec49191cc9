//! Messages between the hosts of a run: the plan, readiness, the seconds, a signal, and finally the
//! records.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use petal_engine::waits_now::{WaitNow, wait_for};
use petal_engine::{Caller, EngineError};
use petal_host::files;
use petal_record::{self as record, RecordFolder, Second, latency_log, os, seconds};
use petal_workload::op::Kind;
use petal_workload::share::Share;

use super::super::RunError;
use super::{MessageTag, PeerError, PeerWait, Peers};

/// Time limits between hosts.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeLimits {
    /// Maximum time for connecting, warming up and settling on one host while others wait.
    pub ready: Duration,
    /// Maximum silence of one host when all are ready.
    pub trigger: Duration,
    /// Maximum time after RUN_TIME until a host's last session ends.
    pub end: Duration,
    /// Maximum time in which a host that has ended writes and sends its record.
    pub record: Duration,
    /// Maximum wait for the others after the first host has ended; they have nothing left to do.
    pub part: Duration,
}

impl Default for ExchangeLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            ready: seconds(1800),
            trigger: seconds(60),
            end: seconds(60),
            record: seconds(120),
            part: seconds(10),
        }
    }
}

/// Time after which unsent progress is dropped.
const PROGRESS_LIMIT: Duration = Duration::from_secs(1);
/// Timeout for short control messages.
const WORD_LIMIT: Duration = Duration::from_secs(5);
/// Time after which a host that others wait for is named.
const NAMED_AFTER: Duration = Duration::from_secs(10);
/// Reason that a host reports if a signal stopped it.
const SIGNAL: &str = "a signal";
/// Files of a record that the merge reads.
const FILES: [&str; 4] = [seconds::NAME, latency_log::NAME, os::SERVER_NAME, "run.json"];

/// A finished second of one host, with its counts since the trigger.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSecond {
    pub second: Second,
    /// Operations by kind.
    pub ops: [u64; Kind::ALL.len()],
    pub rows: [u64; Kind::ALL.len()],
    /// Errors by code.
    pub errors: BTreeMap<String, u64>,
}

/// Plan of a run on its first host; the others must have the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedPlan {
    pub petal_version: String,
    pub url: String,
    pub sessions: u32,
    pub seed: u64,
    pub attempt: u64,
    pub settings: serde_json::Map<String, serde_json::Value>,
}

/// Hosts of a run that can exchange messages.
pub struct Together {
    peers: Arc<dyn Peers>,
    /// Signals that end a wait, and the function that reports a late host.
    caller: Caller,
    limits: ExchangeLimits,
    /// Set while others wait for this host's readiness.
    is_awaited: AtomicBool,
    /// Number of the run that messages belong to, from 0. Late messages of an earlier run are
    /// ignored.
    round: AtomicU32,
    /// Set if a host did not answer in time, or could not be reached.
    is_lost: AtomicBool,
    /// Hosts that have not reported their end.
    silent: Mutex<Vec<u32>>,
}

impl Together {
    pub fn new(peers: Arc<dyn Peers>, caller: Caller) -> Self {
        Self {
            peers,
            caller,
            limits: ExchangeLimits::default(),
            is_awaited: AtomicBool::new(true),
            round: AtomicU32::new(0),
            is_lost: AtomicBool::new(false),
            silent: Mutex::default(),
        }
    }

    pub fn with_limits(self, limits: ExchangeLimits) -> Self {
        Self { limits, ..self }
    }

    pub fn share(&self) -> Share {
        self.peers.share()
    }

    /// True if a host did not answer: the others cannot finish with it in order.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        1..self.peers.size()
    }

    pub fn is_first(&self) -> bool {
        self.peers.rank() == 0
    }

    fn signals(&self) -> u8 {
        self.caller.signals.load(Ordering::Relaxed)
    }

    fn send(
        &self,
        to: u32,
        tag: MessageTag,
        bytes: &[u8],
        wait: &PeerWait<'_>,
    ) -> Result<(), PeerError> {
        let round = self.round.load(Ordering::Relaxed).to_le_bytes();
        let _now = self.waits_for(to, tag);
        let sent = self.peers.send(to, tag, &[&round[..], bytes].concat(), wait);
        self.note_lost(sent)
    }

    fn receive(
        &self,
        from: u32,
        tag: MessageTag,
        wait: &PeerWait<'_>,
    ) -> Result<Vec<u8>, PeerError> {
        let _now = self.waits_for(from, tag);
        loop {
            let heard = self.note_lost(self.peers.receive(from, tag, wait))?;
            if let Some((round, bytes)) = heard.split_first_chunk()
                && u32::from_le_bytes(*round) >= self.round.load(Ordering::Relaxed)
            {
                return Ok(bytes.to_vec());
            }
        }
    }

    /// A wait that names the host.
    fn waits_for(&self, rank: u32, tag: MessageTag) -> WaitNow {
        let host = self.named(rank, "is waited for");
        wait_for(move || format!("{host} ({})", tag.words()))
    }

    fn note_lost<T>(&self, done: Result<T, PeerError>) -> Result<T, PeerError> {
        if matches!(done, Err(PeerError::Silent(_) | PeerError::Failed(_))) {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        done
    }

    /// Waits at most this long, and until this many signals.
    fn wait<T>(
        &self,
        limit: Duration,
        signals: u8,
        work: impl FnOnce(&PeerWait<'_>) -> Result<T, PeerError>,
    ) -> Result<T, PeerError> {
        let is_enough = || self.signals() >= signals;
        work(&PeerWait::at_most(limit, &is_enough))
    }

    /// Begins a run, in which other hosts wait for this one's readiness.
    pub fn begin(&self) {
        self.is_awaited.store(true, Ordering::Relaxed);
    }

    /// Marks that no host waits for this one any more.
    pub fn is_over(&self) {
        self.is_awaited.store(false, Ordering::Relaxed);
    }

    /// Sends the next step to the other hosts, on the first one. From now on, late messages of the
    /// previous run are ignored.
    pub fn send_next(&self, next: &impl Serialize) -> Result<(), PeerError> {
        let text = serde_json::to_vec(next).unwrap_or_default();
        for rank in self.others() {
            self.send(rank, MessageTag::Next, &text, &PeerWait::uninterrupted(WORD_LIMIT))?;
        }
        self.next_round();
        Ok(())
    }

    /// Receives the first host's next step on another host, within this time.
    pub fn receive_next<T: DeserializeOwned>(&self, limit: Duration) -> Result<T, PeerError> {
        // After a signal, the first host gets the answer when it asks.
        let text = self.wait(limit, 2, |wait| self.receive(0, MessageTag::Next, wait))?;
        self.next_round();
        serde_json::from_slice(&text).map_err(|error| {
            PeerError::Failed(format!("unreadable message from the first host: {error}"))
        })
    }

    fn next_round(&self) {
        self.round.fetch_add(1, Ordering::Relaxed);
        self.begin();
    }

    /// Returns when every host is ready. If one is not, every host gets an error with the reason.
    pub fn agree(&self, own: Result<(), String>) -> Result<(), PeerError> {
        self.begin();
        let agreed = if self.is_first() { self.decide(own) } else { self.report_ready(own) };
        agreed.inspect_err(|_| self.is_over())
    }

    /// Reports that this host cannot run, if the others wait for it.
    pub fn call_off(&self, why: &str) {
        if self.is_awaited.swap(false, Ordering::Relaxed) {
            // If they do not receive it, they wait until their timeout.
            let _ = self.agree(Err(why.to_owned()));
        }
    }

    fn decide(&self, own: Result<(), String>) -> Result<(), PeerError> {
        let mut refusals: Vec<String> =
            own.err().map(|why| self.named(0, &why)).into_iter().collect();
        let mut interrupted = false;
        for rank in self.others() {
            let reported = match refusals.is_empty() {
                true => self.ready(rank),
                false => {
                    let limit = if interrupted { WORD_LIMIT } else { self.limits.trigger };
                    self.receive(rank, MessageTag::Ready, &PeerWait::uninterrupted(limit))
                }
            };
            match reported {
                Ok(why) if why.is_empty() => {}
                Ok(why) => refusals.push(self.named(rank, &String::from_utf8_lossy(&why))),
                Err(PeerError::Interrupted) => {
                    interrupted = true;
                    refusals.push(self.named(0, SIGNAL));
                }
                Err(error) => refusals.push(self.named(rank, &error.to_string())),
            }
        }
        let verdict = refusals.join("; ");
        for rank in self.others() {
            let wait = PeerWait::uninterrupted(WORD_LIMIT);
            let sent = self.send(rank, MessageTag::Verdict, verdict.as_bytes(), &wait);
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

    /// Returns the reason why a host is not ready, or an empty text. Names the host if it takes
    /// long.
    fn ready(&self, rank: u32) -> Result<Vec<u8>, PeerError> {
        let (began, named) = (Instant::now(), AtomicBool::new(false));
        let is_over = || {
            if began.elapsed() >= NAMED_AFTER && !named.swap(true, Ordering::Relaxed) {
                (self.caller.note)(&self.named(rank, "is not ready yet; the others wait for it"));
            }
            self.signals() > 0
        };
        self.receive(rank, MessageTag::Ready, &PeerWait::at_most(self.limits.ready, &is_over))
    }

    fn report_ready(&self, own: Result<(), String>) -> Result<(), PeerError> {
        let interrupted = || if self.signals() > 0 { Err(SIGNAL.to_owned()) } else { Ok(()) };
        let word = own.and_then(|()| interrupted()).err().unwrap_or_default();
        self.send(0, MessageTag::Ready, word.as_bytes(), &PeerWait::uninterrupted(WORD_LIMIT))?;
        match word.as_str() {
            "" => {}
            // Already reported by the sender.
            SIGNAL => return Err(PeerError::Interrupted),
            _ => return Err(PeerError::CalledOff(word)),
        }
        // After a signal, the first host gets the answer when it asks the next time.
        // The first host may wait for all others as long as for this one.
        let limit = self.limits.ready * 2;
        let verdict = self.wait(limit, 2, |wait| self.receive(0, MessageTag::Verdict, wait))?;
        match verdict.is_empty() {
            true => Ok(()),
            false => Err(PeerError::CalledOff(String::from_utf8_lossy(&verdict).into_owned())),
        }
    }

    fn named(&self, rank: u32, why: &str) -> String {
        format!("share {} of {}: {why}", rank + 1, self.peers.size())
    }

    /// Takes over the first host's plan. A host with a different petal, database or settings calls
    /// the run off.
    pub fn same_plan(&self, own: &SharedPlan) -> Result<SharedPlan, RunError> {
        let text = self.plan_of_first(serde_json::to_vec(own).unwrap_or_default())?;
        let first: SharedPlan = serde_json::from_slice(&text).unwrap_or_default();
        let differs = own.differs_from(&first).map_or(Ok(()), Err);
        self.agree(differs)?;
        Ok(first)
    }

    /// Returns the first host's plan, on all hosts.
    fn plan_of_first(&self, own: Vec<u8>) -> Result<Vec<u8>, PeerError> {
        if !self.is_first() {
            return self.wait(self.limits.ready, 2, |wait| self.receive(0, MessageTag::Plan, wait));
        }
        for rank in self.others() {
            self.wait(self.limits.trigger, 2, |wait| {
                self.send(rank, MessageTag::Plan, &own, wait)
            })?;
        }
        Ok(own)
    }

    /// Returns at the same moment on all hosts: the trigger.
    pub fn barrier(&self) -> Result<(), PeerError> {
        self.is_over();
        // One signal stops the run as soon as it has begun, on all hosts.
        let _now = wait_for(|| "the other shares are waited for (the trigger)".to_owned());
        let met = self.wait(self.limits.trigger, 2, |wait| self.peers.barrier(wait));
        self.note_lost(met)
    }

    /// Ends the exchange: returns true once every host is here, so that no host waits for one that
    /// has left.
    pub fn part(&self) -> bool {
        // The first host has merged and written by now; the others wait for that.
        let limit = match self.is_first() {
            true if self.signals() > 0 => WORD_LIMIT,
            true => self.limits.part,
            false => self.limits.ready,
        };
        let met = !self.is_lost() && self.wait(limit, 2, |wait| self.peers.barrier(wait)).is_ok();
        // No message is left in transit.
        self.look_for_stop();
        met
    }

    /// Reports to the first host that this one's sessions have ended. On the first host, waits for
    /// the others, which must end at `deadline`, and returns true if all of them have ended.
    pub fn ended(&self, deadline: Instant) -> bool {
        self.send_stop();
        if !self.is_first() {
            return self
                .send(0, MessageTag::Ended, &[], &PeerWait::uninterrupted(WORD_LIMIT))
                .is_ok();
        }
        let is_enough = || self.signals() > 1;
        let limit = deadline.saturating_duration_since(Instant::now()) + self.limits.end;
        let wait = PeerWait::at_most(limit, &is_enough);
        let is_silent = |rank: &u32| self.receive(*rank, MessageTag::Ended, &wait).is_err();
        let silent: Vec<u32> = self.others().filter(is_silent).collect();
        for &rank in &silent {
            (self.caller.note)(&self.named(rank, "has not reported that its sessions ended"));
        }
        let all_ended = silent.is_empty();
        *self.silent.lock() = silent;
        all_ended
    }

    /// Reports to the first host, and from there to all others, that a signal stopped this host's
    /// sessions.
    fn send_stop(&self) {
        if self.signals() == 0 {
            return;
        }
        let round = self.round.load(Ordering::Relaxed).to_le_bytes();
        let to = if self.is_first() { 1..self.peers.size() } else { 0..1 };
        for rank in to {
            // A host that cannot receive it runs to its end, and the others wait for it.
            let _ = self.peers.send(
                rank,
                MessageTag::Stop,
                &round,
                &PeerWait::uninterrupted(PROGRESS_LIMIT),
            );
        }
    }

    /// Stops this host's sessions, as its own signal would, if another host was signalled.
    fn look_for_stop(&self) {
        while let Ok(Some(rank)) = self.peers.arrived(MessageTag::Stop) {
            let wait = PeerWait::uninterrupted(PROGRESS_LIMIT);
            let Ok(round) = self.peers.receive(rank, MessageTag::Stop, &wait) else { break };
            if round == self.round.load(Ordering::Relaxed).to_le_bytes() {
                self.caller.signals.fetch_max(1, Ordering::Relaxed);
            }
        }
    }

    /// Sends a finished second to the first host.
    pub fn send_second(&self, second: &HostSecond) {
        self.look_for_stop();
        let text = serde_json::to_vec(second).unwrap_or_default();
        let round = self.round.load(Ordering::Relaxed).to_le_bytes();
        let text = [&round[..], &text].concat();
        // It is only displayed.
        let _ =
            self.peers.send(0, MessageTag::Second, &text, &PeerWait::uninterrupted(PROGRESS_LIMIT));
    }

    /// Returns the seconds of other hosts that arrived since the last call.
    pub fn seconds(&self) -> Vec<(Share, HostSecond)> {
        self.look_for_stop();
        let mut come = Vec::new();
        while let Ok(Some(rank)) = self.peers.arrived(MessageTag::Second) {
            let wait = PeerWait::uninterrupted(PROGRESS_LIMIT);
            let Ok(text) = self.peers.receive(rank, MessageTag::Second, &wait) else { break };
            let Some((round, text)) = text.split_first_chunk() else { continue };
            if u32::from_le_bytes(*round) != self.round.load(Ordering::Relaxed) {
                continue;
            }
            let share = Share { number: rank + 1, of: self.peers.size() };
            come.extend(serde_json::from_slice(text).ok().map(|second| (share, second)));
        }
        come
    }

    /// Sends this host's record to the first one.
    pub fn send_record(&self, folder: &RecordFolder) -> Result<(), PeerError> {
        // The first host may wait for a script before it takes it.
        let wait = PeerWait::uninterrupted(self.limits.ready);
        for name in FILES {
            let Ok(text) = files::read(folder.path().join(name)) else { continue };
            self.send(0, MessageTag::Record, name.as_bytes(), &wait)?;
            self.send(0, MessageTag::Record, &text, &wait)?;
        }
        self.send(0, MessageTag::Record, &[], &wait)
    }

    /// Writes the records of all other hosts into folders below this one; returns the reason for
    /// each missing record.
    pub fn gather(&self, below: &RecordFolder) -> (Vec<PathBuf>, Vec<String>) {
        let (mut folders, mut missing) = (Vec::new(), Vec::new());
        for rank in self.others() {
            let name = format!("share-{}", rank + 1);
            let folder = below.path().join(&name);
            let kept = self
                .receive_record(rank, below, &name)
                .and_then(|()| record::load(&folder).map(drop).map_err(|error| error.to_string()));
            match kept {
                Ok(()) => folders.push(folder),
                Err(why) => {
                    // A partial record must not be merged: the host has its own.
                    let _ = below.opened().and_then(|below| below.remove_all(name.as_ref()));
                    missing.push(self.named(rank, &why));
                }
            }
        }
        // Progress messages still in transit are dropped.
        self.seconds();
        (folders, missing)
    }

    fn receive_record(&self, rank: u32, below: &RecordFolder, name: &str) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let folder = below.inside(name).map_err(|error| text(&error))?;
        let is_silent = self.silent.lock().contains(&rank);
        let limit = if is_silent { WORD_LIMIT } else { self.limits.record };
        let receive = || {
            let received = self.receive(rank, MessageTag::Record, &PeerWait::uninterrupted(limit));
            received.map_err(|error| text(&error))
        };
        loop {
            let name = receive()?;
            if name.is_empty() {
                return Ok(());
            }
            let content = receive()?;
            // Only file names of a record are accepted.
            if let Some(known) = FILES.iter().find(|known| known.as_bytes() == name) {
                folder.write_atomically(known, &content).map_err(|error| text(&error))?;
            }
        }
    }
}

impl SharedPlan {
    /// Describes the differences of this host's plan from the first host's.
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
                "the run of several hosts is called off: {other}; each host's seconds, if it has \
                 begun one, can still be merged (petal merge DIR...)"
            )),
        }
    }
}
