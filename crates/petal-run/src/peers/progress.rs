//! Progress of a run of several hosts: each sends its seconds to the first one, a few hundred
//! bytes, and the first one shows their sum.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use petal_engine::{Progress, ProgressUnit};
use petal_record::timeline::Tally;
use petal_record::{Finding, Second};

use super::super::{Subject, Watch};
use super::{HostSecond, Together};

/// Watch on a host that is not the first: it shows errors, and the first host shows the seconds.
pub struct ProgressShare<'a> {
    pub hosts: &'a Together,
    pub shown: &'a dyn Watch,
}

/// Watch on the first host, which shows all hosts' seconds as one.
pub struct CombinedProgress<'a> {
    hosts: &'a Together,
    shown: &'a dyn Watch,
    /// Newest second of each other host, by its share.
    newest: Mutex<BTreeMap<u32, HostSecond>>,
}

/// A host whose newest second is older is not shown: it is silent.
const SILENT_S: f64 = 3.0;

impl<'a> CombinedProgress<'a> {
    pub fn new(hosts: &'a Together, shown: &'a dyn Watch) -> Self {
        Self { hosts, shown, newest: Mutex::default() }
    }

    /// Takes the seconds that arrived.
    fn receive(&self) {
        let arrived = self.hosts.seconds().into_iter();
        self.newest.lock().extend(arrived.map(|(share, second)| (share.number, second)));
    }

    /// Adds the newest second of each other host to this host's second.
    fn with_others(&self, own: &Second) -> Second {
        let newest = self.newest.lock();
        let heard = newest.values().map(|host| &host.second);
        let heard = heard.filter(|other| other.from_s + SILENT_S >= own.from_s);
        heard.fold(own.clone(), |mut sum, other| {
            sum.ops = sum.ops.plus(&other.ops);
            sum.rows = sum.rows.plus(&other.rows);
            sum.errors += other.errors;
            sum.sessions += other.sessions;
            for (kind, latency) in other.latency_us.iter() {
                let all = sum.latency_us.entry(kind);
                // The slowest host's percentile represents all: it is shown as a warning, not a
                // figure.
                let p99 = [all.p99, latency.p99].into_iter().flatten().reduce(f64::max);
                *all = all.plus_without_percentiles(latency);
                all.p99 = p99;
            }
            sum
        })
    }

    /// The counts of all hosts since the trigger. Histograms are in no message: none is of all.
    fn totals(&self, own: &Tally) -> Tally {
        let newest = self.newest.lock();
        if newest.is_empty() {
            return own.clone();
        }
        let counts = Tally {
            service: Default::default(),
            response: Default::default(),
            hot: Default::default(),
            lateness: None,
            ..own.clone()
        };
        newest.values().fold(counts, |mut sum, host| {
            sum.ops.iter_mut().zip(host.ops).for_each(|(sum, ops)| *sum += ops);
            sum.rows.iter_mut().zip(host.rows).for_each(|(sum, rows)| *sum += rows);
            for (code, count) in &host.errors {
                *sum.errors.entry(code.clone()).or_default() += count;
            }
            sum
        })
    }
}

impl Progress for ProgressShare<'_> {
    fn phase(&self, _: &str, _: u64, _: ProgressUnit) {}
    fn advance(&self, _: u64) {}
    fn note(&self, _: &str) {}
}

impl Watch for ProgressShare<'_> {
    fn second(&self, second: &Second, so_far: &Tally, _: f64) {
        self.hosts.send_second(&HostSecond {
            second: second.clone(),
            ops: so_far.ops,
            rows: so_far.rows,
            errors: so_far.errors.clone(),
        });
    }

    fn ended(&self, last: &[Second], total: &Tally) {
        last.iter().for_each(|second| self.second(second, total, 0.0));
    }

    fn error(&self, message: &str) {
        self.shown.error(&format!("share {}: {message}", self.hosts.share()));
    }

    fn leave(&self, message: &str) -> ! {
        self.hosts.call_off(message);
        self.shown.leave(&format!("share {}: {message}", self.hosts.share()))
    }
}

impl Progress for CombinedProgress<'_> {
    fn phase(&self, what: &str, total: u64, unit: ProgressUnit) {
        self.shown.phase(what, total, unit);
    }

    fn advance(&self, units: u64) {
        self.shown.advance(units);
    }

    fn note(&self, line: &str) {
        self.shown.note(line);
    }

    fn note_once(&self, kind: &'static str, line: &str) {
        self.shown.note_once(kind, line);
    }
}

impl Watch for CombinedProgress<'_> {
    fn begins(&self, subject: &Subject) {
        self.shown.begins(subject);
    }

    fn triggered(&self, sessions: u32, seconds: f64) {
        self.newest.lock().clear();
        self.shown.triggered(sessions, seconds);
    }

    fn second(&self, second: &Second, so_far: &Tally, left_s: f64) {
        self.receive();
        self.shown.second(&self.with_others(second), &self.totals(so_far), left_s);
    }

    fn ended(&self, last: &[Second], total: &Tally) {
        self.receive();
        self.shown.ended(last, &self.totals(total));
    }

    fn judged(&self, findings: &[Finding]) {
        self.shown.judged(findings);
    }

    fn error(&self, message: &str) {
        self.shown.error(message);
    }

    fn heading(&self, heading: &str, after: Duration) {
        self.shown.heading(heading, after);
    }

    fn leave(&self, message: &str) -> ! {
        self.hosts.call_off(message);
        self.shown.leave(message)
    }
}
