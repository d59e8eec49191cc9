//! An operation of a run: its time in parts, its demands, and the bounds of its rate.

use serde::Serialize;

use petal_host::numbers::decimal;
use petal_host::os::requests::RequestKind;
use petal_judge::predict::DeviceCurves;
use petal_judge::predict::queues::{self, ServiceQueue};
use petal_judge::{Others, nearest_io_limit, others_at_work, served};
use petal_record::Run;
use petal_record::os_figures::HostFigures;

/// Share of a bound from which on it held the run.
const HELD_SHARE_MIN: f64 = 0.9;
/// The largest difference of the model from the run itself.
pub(super) const MODEL_ERROR_MAX: f64 = 0.15;

/// The most operations per second that a resource allows, in the run and with the changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperationsBound {
    pub of: String,
    pub now: Option<f64>,
    pub changed: Option<f64>,
    /// The figures that it is made of, or the reason why it is not known.
    pub evidence: String,
}

/// The lowest known bound with the changes.
pub(super) fn lowest(bounds: &[OperationsBound]) -> Option<(&OperationsBound, f64)> {
    let known = bounds.iter().filter_map(|bound| Some((bound, bound.changed?)));
    known.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Processor time of an operation, the host's processors that it can use, and the most of them that
/// a control group grants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ProcessorWork {
    pub demand_s: f64,
    pub processors: f64,
    pub granted: f64,
}

impl ProcessorWork {
    fn of(run: &Run, ops: f64) -> Result<Self, String> {
        let unknown = || match run.is_database_host_seen() {
            true => "processor time of the database is not in this record".to_owned(),
            false => run.why_database_host_is_unseen().to_owned(),
        };
        let group = run.database_host().and_then(|seen| HostFigures::of(seen).group);
        let on_host = others_at_work(run);
        let free = |it: &Others| (it.of as f64 - it.processors).max(0.05);
        let own = on_host.as_ref().map(|it| it.own).filter(|own| *own > 0.0);
        if let Some(group) = group {
            // A control group may have a quota, and no count of its use.
            let used = group.used_processors.or(own).ok_or_else(unknown)?;
            let granted = group.granted_processors;
            let processors = on_host.as_ref().map_or(granted, |it| it.of as f64).max(granted);
            return Ok(Self { demand_s: used / ops, processors, granted });
        }
        let on_host = on_host.filter(|it| it.own > 0.0).ok_or_else(unknown)?;
        let processors = free(&on_host);
        Ok(Self { demand_s: on_host.own / ops, processors, granted: processors })
    }

    fn capacity(&self) -> f64 {
        self.granted.min(self.processors)
    }

    pub fn bound(&self) -> f64 {
        self.capacity() / self.demand_s
    }
}

/// An operation of a run: its time in parts, its demands, and the bounds of its rate. Times are
/// seconds, or the reasons why they are unknown.
#[derive(Debug, Clone)]
pub(super) struct OperationWork {
    pub sessions: f64,
    pub ops: f64,
    pub processors: Result<ProcessorWork, String>,
    /// Time at the device, for reads.
    pub reads_s: Result<f64, String>,
    pub log_s: Result<f64, String>,
    pub think_s: f64,
    /// Time in none of these: locks, network, queues above the device.
    pub other_s: f64,
    /// The device's curve over the requests in flight, and its demand for reads with one in flight.
    pub curve: Option<(DeviceCurves, f64)>,
    /// The limit of a control group: requests of an operation, requests per second, reads or writes.
    pub io_limit: Option<(f64, f64, bool)>,
    pub rate: Option<f64>,
    /// Physical requests of an operation, over the run's own.
    pub requests: f64,
    /// Measured throughput over the model's.
    pub correction: f64,
    /// The bound that held the run.
    pub held: Option<String>,
    /// Share of the run in which a control group's quota stopped its processors.
    pub throttled_share: Option<f64>,
}

pub(super) const SESSIONS: &str = "sessions";
pub(super) const PROCESSORS: &str = "processors";
pub(super) const IO_LIMIT: &str = "I/O limit";
pub(super) const RATE: &str = "RATE";

impl OperationWork {
    pub fn of(run: &Run) -> Result<Self, String> {
        let summary = &run.summary;
        let total = summary.ops.total as f64;
        let ops = summary.per_second.ops.filter(|&ops| ops > 0.0 && total > 0.0);
        let ops = ops.ok_or("no operation ended")?;
        if run.io_depth() > 1.0 {
            return Err(
                "a session has several requests in flight, so that times overlap".to_owned()
            );
        }
        if summary.hosts.len() > 1 || summary.share.as_ref().is_some_and(|it| it.share.of > 1) {
            return Err("several hosts drove the run".to_owned());
        }
        let log = summary.io_latency_us.get("log").filter(|log| log.count > 0);
        let log_s = log.and_then(|log| Some(log.count as f64 * log.mean? / 1e6 / total));
        let no_updates = summary.ops.update == 0;
        let io_limit = nearest_io_limit(run).map(|nearest| {
            // Others' requests on the device are not under the limit.
            let limit = nearest.limit_per_second();
            (nearest.per_second.min(limit) / ops, limit, nearest.is_of_reads())
        });
        let mut work = Self {
            sessions: f64::from(summary.sessions),
            ops,
            processors: ProcessorWork::of(run, ops),
            reads_s: reads_s(run, total),
            log_s: match log_s {
                None if no_updates => Err("the run has no UPDATEs".to_owned()),
                None => Err("the database does not time its log".to_owned()),
                Some(log_s) => Ok(log_s),
            },
            think_s: run.details.think_time_s / total,
            other_s: 0.0,
            curve: None,
            io_limit,
            rate: summary.setting_number("rate").filter(|&rate| rate > 0.0),
            requests: 1.0,
            correction: 1.0,
            held: None,
            throttled_share: throttled_share(run),
        };
        work.curve = device_curve(run, total);
        let held = work.caps().into_iter().filter_map(|(name, cap, _)| Some((name, cap.ok()?)));
        let held = held.filter(|(_, cap)| ops >= cap * HELD_SHARE_MIN);
        let held = held.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name.to_owned());
        if held.as_deref() == Some(RATE) {
            // Sessions were mostly idle: an operation waited little.
            let parts = work.alone_s() - work.think_s;
            work.other_s = (run.details.db_time_s / total - parts).max(0.0);
        } else if held.is_none() {
            work.other_s = work.fitted_other_s();
        }
        if let (Some(IO_LIMIT), Some((.., is_of_reads))) = (held.as_deref(), work.io_limit) {
            let why = "it includes the wait for the control group's limit".to_owned();
            match is_of_reads {
                true if timed_reads_s(run).is_none() => work.reads_s = Err(why),
                true => {}
                false => work.log_s = Err(why),
            }
        }
        let closed = work.closed().ok_or("a network has up to 256 sessions")?;
        work.correction = (ops / closed).max(1.0);
        if work.correction > 1.0 + MODEL_ERROR_MAX {
            return Err(format!(
                "the times of an operation are more than its latency, so that parts overlap: they \
                 allow {} operations a second, and the run did {}",
                decimal(closed, 0),
                decimal(ops, 0)
            ));
        }
        work.held = held;
        Ok(work)
    }

    /// Time of an operation that waits for nobody.
    fn alone_s(&self) -> f64 {
        self.processors.as_ref().map_or(0.0, |it| it.demand_s)
            + self.reads_s.as_ref().copied().unwrap_or(0.0)
            + self.log_s.as_ref().copied().unwrap_or(0.0)
            + self.think_s
    }

    /// The time in other places with which the network has the measured throughput; 0 if it is
    /// slower without any.
    fn fitted_other_s(&self) -> f64 {
        let (mut low, mut high) = (0.0, self.sessions / self.ops);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            let tried = Self { other_s: middle, ..self.clone() };
            match tried.closed().is_some_and(|closed| closed > self.ops) {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }

    /// Throughput of the sessions with their processors and device, without other bounds.
    pub fn closed(&self) -> Option<f64> {
        let mut queues = Vec::new();
        if let Ok(work) = &self.processors {
            queues.push(ServiceQueue::servers(work.demand_s, work.processors));
        }
        let mut delay = self.think_s + self.other_s + self.log_s.as_ref().unwrap_or(&0.0);
        match &self.curve {
            Some((curve, demand_s)) => {
                queues.push(ServiceQueue::of(*demand_s, curve.speeds(false)))
            }
            None => delay += self.reads_s.as_ref().unwrap_or(&0.0),
        }
        queues::throughput(delay.max(0.0), &queues, self.sessions as usize).last().copied()
    }

    /// The bounds of single resources, each with its evidence.
    fn caps(&self) -> Vec<(&'static str, Result<f64, String>, String)> {
        let us = |s: f64| format!("{} us", decimal(s * 1e6, 1));
        let processors = self.processors.as_ref();
        let of_processors = processors.map_or_else(String::clone, |it| {
            format!("{} of {} processors an operation", us(it.demand_s), decimal(it.capacity(), 2))
        });
        let mut caps = vec![(
            PROCESSORS,
            processors.map(ProcessorWork::bound).map_err(String::clone),
            of_processors,
        )];
        if let Some((requests, limit, is_of_reads)) = self.io_limit {
            let kind = if is_of_reads { "reads" } else { "writes" };
            let evidence = format!(
                "{} {kind} an operation, of {} a second (requests or bytes)",
                decimal(requests, 1),
                decimal(limit, 0)
            );
            caps.push((IO_LIMIT, Ok(limit / requests), evidence));
        }
        if let Some(rate) = self.rate {
            caps.push((RATE, Ok(rate), "the asked rate".to_owned()));
        }
        caps
    }

    pub fn bounds(&self, changed: &Self) -> Vec<OperationsBound> {
        let closed = |work: &Self| work.closed().map(|ops| ops * self.correction);
        let time =
            |of: &Result<f64, String>| of.as_ref().map_or("-".to_owned(), |s| decimal(s * 1e6, 0));
        let Self { reads_s, log_s, .. } = changed;
        let evidence = format!(
            "{} sessions; an operation: {} us of reads at the device, {} us of log, {} us of think \
             time, {} us elsewhere",
            changed.sessions,
            time(reads_s),
            time(log_s),
            decimal(changed.think_s * 1e6, 0),
            decimal(changed.other_s * 1e6, 0)
        );
        let (now, then) = (closed(self), closed(changed));
        let mut bounds =
            vec![OperationsBound { of: SESSIONS.to_owned(), now, changed: then, evidence }];
        for ((of, now, _), (_, then, evidence)) in self.caps().into_iter().zip(changed.caps()) {
            let (now, changed) = (now.ok(), then.ok());
            bounds.push(OperationsBound { of: of.to_owned(), now, changed, evidence });
        }
        let unknown = |of: &str, evidence: &str| OperationsBound {
            of: of.to_owned(),
            now: None,
            changed: None,
            evidence: evidence.to_owned(),
        };
        if self.curve.is_none() {
            let why =
                "not known: petal calibrate measures it; its time for a read is taken as it was";
            bounds.push(unknown("device", why));
        }
        if self.log_s.is_ok() {
            let why = "not known: how many logs can sync at once is not in this record";
            bounds.push(unknown("log", why));
        }
        bounds
    }
}

fn throttled_share(run: &Run) -> Option<f64> {
    let group = HostFigures::of(run.database_host()?).group?;
    Some(group.throttled_s? / run.summary.elapsed_s).filter(|share| share.is_finite())
}

/// The curve that the run was compared with, unless the run contradicts it, and an operation's reads
/// over its throughput with one in flight.
fn device_curve(run: &Run, operations: f64) -> Option<(DeviceCurves, f64)> {
    let share = run.details.calibrated.as_ref()?;
    // A device that was faster or slower than its curve had another state.
    share.of_depth.filter(|of| (of - 1.0).abs() <= MODEL_ERROR_MAX)?;
    let curve = DeviceCurves::of_points(&share.points)?;
    let reads = run.details.device?.read_requests as f64 / operations;
    let demand_s = reads / curve.at(1.0, false);
    Some((curve, demand_s))
}

/// Time of an operation's reads at the device, in seconds: of the database's own requests if they
/// were timed, else the device's, but at most the time that the database waited for reads.
fn reads_s(run: &Run, operations: f64) -> Result<f64, String> {
    // Their time at the data's device includes all layers below it.
    let served = served::at_the_devices(run)?;
    if !served.is_by_device() {
        return Err("reads did not come from the device alone".to_owned());
    }
    let counts = run.details.device.ok_or("no device of the data was counted")?;
    let own = (served.device as f64 / counts.read_bytes.max(1) as f64).min(1.0);
    let read = run.summary.io_latency_us.get("read").filter(|read| read.count > 0);
    let waited_s = read.and_then(|read| Some(read.count as f64 * read.mean? / 1e6));
    let device_s = timed_reads_s(run).unwrap_or(counts.read_ms as f64 / 1e3 * own);
    Ok(device_s.min(waited_s.unwrap_or(f64::INFINITY)) / operations)
}

/// Service time of the database's own reads, below a control group's limit; None if its requests
/// were not timed.
fn timed_reads_s(run: &Run) -> Option<f64> {
    let seen = run.database_host()?;
    let devices = seen.timed_devices();
    let times = seen.whole.sum.requests.as_ref()?.times.iter();
    let own = times.filter(|times| {
        let is_own = times.kind == RequestKind::Read && times.of_database == Some(true);
        is_own && devices.contains(&times.device.as_str())
    });
    let ns: u64 = own.map(|times| times.service.total_ns).sum();
    (ns > 0).then_some(ns as f64 / 1e9)
}

#[cfg(test)]
impl OperationWork {
    /// Eight sessions with 1,000 operations a second, each of 3 ms of reads.
    pub(super) fn example() -> Self {
        let processors = ProcessorWork { demand_s: 5e-4, processors: 2.0, granted: 2.0 };
        Self {
            sessions: 8.0,
            ops: 1000.0,
            processors: Ok(processors),
            reads_s: Ok(3e-3),
            log_s: Err("the run has no UPDATEs".to_owned()),
            think_s: 0.0,
            other_s: 0.0,
            curve: None,
            io_limit: None,
            rate: None,
            requests: 1.0,
            correction: 1.0,
            held: None,
            throttled_share: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::calibration::{CalibratedPoint, CalibratedShare};
    use petal_record::fixture;

    #[test]
    fn time_in_no_part_is_fitted_so_that_the_model_has_the_measured_throughput() {
        let mut work = OperationWork::example();
        work.other_s = work.fitted_other_s();
        assert!((work.closed().unwrap() / 1000.0 - 1.0).abs() < 1e-9);
        assert!((4e-3..4.5e-3).contains(&work.other_s), "{}", work.other_s);
    }

    /// The device's curve is flat from four requests on: more sessions add nothing.
    #[test]
    fn more_sessions_follow_the_devices_curve() {
        let point =
            |depth: u32, iops| CalibratedPoint { depth, iops, ..CalibratedPoint::default() };
        let points = [point(1, 1000.0), point(4, 4000.0), point(64, 4000.0)];
        let curve = DeviceCurves::of_points(&points).unwrap();
        let mut work = OperationWork {
            processors: Err("not seen".to_owned()),
            reads_s: Ok(4e-3),
            curve: Some((curve, 1e-3)),
            ..OperationWork::example()
        };
        let at = |work: &mut OperationWork, sessions| {
            work.sessions = sessions;
            work.closed().unwrap()
        };
        assert!((at(&mut work, 2.0) - 2000.0).abs() < 1e-6);
        assert!((at(&mut work, 16.0) - 4000.0).abs() < 1e-6);
        assert!((at(&mut work, 64.0) - 4000.0).abs() < 1e-6);
    }

    #[test]
    fn a_curve_that_the_run_contradicts_is_not_used() {
        let curve = |of_depth| {
            let mut run = fixture::mixed_run();
            run.details.calibrated = Some(CalibratedShare {
                points: vec![CalibratedPoint { depth: 1, iops: 1000.0, ..Default::default() }],
                of_depth: Some(of_depth),
                ..CalibratedShare::default()
            });
            device_curve(&run, 100.0)
        };
        assert!(curve(1.05).is_some());
        assert!(curve(3.5).is_none() && curve(0.5).is_none());
    }
}
