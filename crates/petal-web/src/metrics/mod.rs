//! `--metrics ADDRESS`: the progress of the work, for Prometheus, as OpenMetrics. Every figure is one that petal
//! takes anyway: the newest totals of the run, when it is asked for.

mod exposition;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use parking_lot::Mutex;

use petal_engine::{Progress, ProgressUnit};
use petal_host::os::{CpuShare, DeviceCounts};
use petal_record::counters::IoCounts;
use petal_record::timeline::Tally;
use petal_record::{Finding, Second};
use petal_run::{Subject, Watch};

use super::http::{self, HttpAnswer, HttpRequest};

pub const PATH: &str = "/metrics";
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Begins to serve.
pub fn serve(address: SocketAddr, metrics: &Metrics) -> io::Result<()> {
    let shown = metrics.clone();
    TcpListener::bind(address)
        .and_then(|listener| http::serve(listener, "metrics", move |asked| respond(asked, &shown)))
}

pub fn respond(request: &HttpRequest<'_>, metrics: &Metrics) -> HttpAnswer {
    match request.path {
        PATH => page(metrics),
        _ => HttpAnswer::not_found("the page is /metrics"),
    }
}

pub fn page(metrics: &Metrics) -> HttpAnswer {
    match exposition::text(metrics) {
        Ok(text) => HttpAnswer::new(CONTENT_TYPE, text),
        Err(error) => HttpAnswer::refusal("500 Internal Server Error", &error.to_string()),
    }
}

/// The present state of the work.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Mutex<MetricsState>>);

#[derive(Debug, Default)]
struct MetricsState {
    subject: Subject,
    phase: Option<Phase>,
    /// The run that was triggered last, also while the next one settles.
    run: Option<RunState>,
}

#[derive(Debug)]
struct Phase {
    what: String,
    done: u64,
    total: u64,
    unit: ProgressUnit,
}

/// A run since its trigger.
#[derive(Debug, Default)]
struct RunState {
    subject: Subject,
    planned_s: f64,
    elapsed_s: f64,
    sessions: u32,
    totals: Tally,
    /// None if the database does not report it each second.
    io: Option<IoCounts>,
    device: Option<DeviceCounts>,
    cpu: Option<CpuShare>,
    findings: Vec<Finding>,
}

impl RunState {
    fn add(&mut self, second: &Second) {
        self.elapsed_s = second.from_s + second.length_s;
        self.sessions = second.sessions;
        self.cpu = second.cpu;
        let is_counted = second.io.is_some() || second.device.is_some();
        if second.from_s == 0.0 {
            (self.io, self.device) = (second.io, second.device);
        } else if second.length_s > 0.5 || is_counted {
            // A total with a missing second is unknown. The short rest of a run may have no counts:
            // the totals then end before it.
            self.io = self.io.zip(second.io).map(|(sum, new)| sum.plus(&new));
            self.device = self.device.zip(second.device).map(|(sum, new)| sum.plus(&new));
        }
    }
}

impl Progress for Metrics {
    fn phase(&self, what: &str, total: u64, unit: ProgressUnit) {
        self.0.lock().phase = Some(Phase { what: what.to_owned(), done: 0, total, unit });
    }

    fn advance(&self, units: u64) {
        if let Some(phase) = &mut self.0.lock().phase {
            phase.done += units;
        }
    }

    fn note(&self, _: &str) {}
}

impl Watch for Metrics {
    fn begins(&self, subject: &Subject) {
        let mut state = self.0.lock();
        (state.subject, state.phase) = (subject.clone(), None);
    }

    fn triggered(&self, sessions: u32, planned_s: f64) {
        let mut state = self.0.lock();
        state.phase = Some(Phase {
            what: "running".to_owned(),
            done: 0,
            total: planned_s as u64,
            unit: ProgressUnit::Seconds,
        });
        let subject = state.subject.clone();
        state.run = Some(RunState { subject, planned_s, sessions, ..RunState::default() });
    }

    fn second(&self, second: &Second, so_far: &Tally, _: f64) {
        let mut state = self.0.lock();
        if let Some(phase) = &mut state.phase {
            phase.done = (second.from_s + second.length_s) as u64;
        }
        let Some(run) = &mut state.run else { return };
        run.add(second);
        run.totals = so_far.clone();
    }

    fn ended(&self, last: &[Second], total: &Tally) {
        let mut state = self.0.lock();
        state.phase = None;
        let Some(run) = &mut state.run else { return };
        last.iter().for_each(|second| run.add(second));
        run.totals = total.clone();
        (run.sessions, run.cpu) = (0, None);
    }

    fn judged(&self, findings: &[Finding]) {
        if let Some(run) = &mut self.0.lock().run {
            run.findings = findings.to_vec();
        }
    }
}
