//! Throughput of a run with other processors, limits, latencies or sessions. Plain laws only: an
//! operation's times and demands as the run counted them, the bound of each resource, and a closed
//! network of the sessions and the processors (Lazowska and others, *Quantitative System
//! Performance*, 1984). A change whose assumption the record contradicts is refused; an unknown
//! figure is unknown.

use serde::Serialize;

use super::curves::DeviceCurves;
use super::queues::{self, ServiceQueue};
use crate::{io_limits, others, physical, served};
use petal_model::numbers::decimal;
use petal_model::record::Run;
use petal_model::record::os_figures::HostFigures;
use petal_model::stats::counters::WaitClass;
use petal_model::stats::os::requests::RequestKind;
use petal_model::workload::op::Kind;

/// Lock waits over this share of DB time forbid a change of latencies or sessions: locks are held
/// for other times then.
const LOCK_SHARE_MAX: f64 = 0.2;
/// Share of a bound from which on it held the run.
const HELD_SHARE_MIN: f64 = 0.9;
/// Share of the time of a run from which on a quota that stopped its processors held it.
const THROTTLED_SHARE_MIN: f64 = 0.1;
/// The largest difference of the model from the run itself.
const MODEL_ERROR_MAX: f64 = 0.15;
/// Share of the processors from which on another mix needs the demand of each kind.
const PROCESSORS_BUSY_MIN: f64 = 0.8;
/// Share of the processors' bound under which an operation's processor time is not that under load: it
/// falls to a third from one session to many.
const PROCESSORS_USED_MIN: f64 = 0.5;
/// Share of an operation's time at the device from which on another number of sessions needs the
/// device's curve.
const DEVICE_SHARE_MAX: f64 = 0.2;
/// Reads of a row that a cache may save beyond its share of the data.
const HITS_BEYOND_SHARE_MAX: f64 = 0.1;

/// The changes to predict: factors of the run's own values, or new values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AskedChanges {
    pub processors: Option<f64>,
    pub io_limit: Option<f64>,
    pub rate: Option<f64>,
    pub read_latency: Option<f64>,
    pub log_latency: Option<f64>,
    pub cache: Option<f64>,
    pub sessions: Option<u32>,
    pub update_pct: Option<f64>,
}

impl AskedChanges {
    /// Each change with its value, as its flag has them.
    pub fn words(&self) -> Vec<String> {
        let factors = [
            ("processors", self.processors),
            ("io-limit", self.io_limit),
            ("rate", self.rate),
            ("read-latency", self.read_latency),
            ("log-latency", self.log_latency),
            ("cache", self.cache),
        ];
        let factors = factors.into_iter().filter_map(|(of, by)| Some(format!("{of} {}x", by?)));
        let sessions = self.sessions.map(|sessions| format!("sessions {sessions}"));
        let update_pct = self.update_pct.map(|percent| format!("update-pct {percent}"));
        factors.chain(sessions).chain(update_pct).collect()
    }
}

/// The most operations per second that a resource allows, in the run and with the changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperationsBound {
    pub of: String,
    pub now: Option<f64>,
    pub changed: Option<f64>,
    /// The figures that it is made of, or the reason why it is not known.
    pub evidence: String,
}

/// A run with the changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WhatIf {
    /// The run's folder or file.
    pub record: String,
    pub changes: Vec<String>,
    /// Reasons why nothing is predicted; empty with a prediction.
    pub refused: Vec<String>,
    pub sessions: u32,
    pub measured_ops: Option<f64>,
    pub measured_piops: Option<f64>,
    pub bounds: Vec<OperationsBound>,
    pub ops: Option<f64>,
    pub piops: Option<f64>,
    /// The bound that is the lowest with the changes.
    pub limited_by: Option<String>,
    /// True if the run was held by a limit that the changes lift: time that it waited there in
    /// unknown places is missing, and the prediction is the most that is possible.
    pub is_upper_bound: bool,
}

/// Predicts a run with changes.
pub fn what_if(record: &str, run: &Run, asked: &AskedChanges) -> WhatIf {
    let headline = run.headline();
    let run = &headline.run;
    let answer = WhatIf {
        record: record.to_owned(),
        changes: asked.words(),
        sessions: run.summary.sessions,
        measured_ops: run.summary.per_second.ops,
        measured_piops: run.summary.piops(),
        ..WhatIf::default()
    };
    let work = match OperationWork::of(run) {
        Ok(work) => work,
        Err(why) => return WhatIf { refused: vec![why], ..answer },
    };
    let (changed, refused) = work.with(run, asked, CacheEffect::MIDDLE);
    let bounds = work.bounds(&changed);
    let answer = WhatIf { bounds, refused, ..answer };
    if !answer.refused.is_empty() {
        return answer;
    }
    let Some((lowest, ops)) = lowest(&answer.bounds) else { return answer };
    let checked = work.refuse_idle(&lowest.of).and_then(|()| work.refuse_unknown_time(&lowest.of));
    if let Err(why) = checked.and_then(|()| work.refuse_unlike_caches(run, asked)) {
        return WhatIf { refused: vec![why], ..answer };
    }
    let is_upper_bound = match work.held.as_deref() {
        None | Some(RATE) => false,
        Some(IO_LIMIT) => lowest.of != IO_LIMIT || lowest.changed > lowest.now,
        Some(held) => lowest.of != held,
    };
    let requests = run.summary.piops().map(|piops| piops / work.ops * changed.requests);
    WhatIf {
        ops: Some(ops),
        piops: requests.map(|requests| ops * requests),
        limited_by: Some(lowest.of.clone()),
        is_upper_bound,
        ..answer
    }
}

/// The lowest known bound with the changes.
fn lowest(bounds: &[OperationsBound]) -> Option<(&OperationsBound, f64)> {
    let known = bounds.iter().filter_map(|bound| Some((bound, bound.changed?)));
    known.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Assumptions on another cache that one run cannot check, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CacheEffect {
    /// The part of the cache that holds no rows: 0 if it keeps its size, 1 if it keeps its share.
    rest: f64,
    /// The part of the processor time that is for reads.
    processors: f64,
}

impl CacheEffect {
    const MIDDLE: Self = Self { rest: 0.5, processors: 0.5 };
}

/// Processor time of an operation, the host's processors that it can use, and the most of them that
/// a control group grants.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ProcessorWork {
    demand_s: f64,
    processors: f64,
    granted: f64,
}

impl ProcessorWork {
    fn of(run: &Run, ops: f64) -> Result<Self, String> {
        let unknown = || match run.is_database_host_seen() {
            true => "processor time of the database is not in this record".to_owned(),
            false => run.why_database_host_is_unseen().to_owned(),
        };
        let group = run.database_host().and_then(|seen| HostFigures::of(seen).group);
        let on_host = others::at_work(run);
        let free = |it: &others::Others| (it.of as f64 - it.processors).max(0.05);
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

    fn bound(&self) -> f64 {
        self.capacity() / self.demand_s
    }
}

/// An operation of a run: its time in parts, its demands, and the bounds of its rate. Times are
/// seconds, or the reasons why they are unknown.
#[derive(Debug, Clone)]
struct OperationWork {
    sessions: f64,
    ops: f64,
    processors: Result<ProcessorWork, String>,
    /// Time at the device, for reads.
    reads_s: Result<f64, String>,
    log_s: Result<f64, String>,
    think_s: f64,
    /// Time in none of these: locks, network, queues above the device.
    other_s: f64,
    /// The device's curve over the requests in flight, and its demand for reads with one in flight.
    curve: Option<(DeviceCurves, f64)>,
    /// The limit of a control group: requests of an operation, requests per second, reads or writes.
    io_limit: Option<(f64, f64, bool)>,
    rate: Option<f64>,
    /// Physical requests of an operation, over the run's own.
    requests: f64,
    /// Measured throughput over the model's.
    correction: f64,
    /// The bound that held the run.
    held: Option<String>,
    /// Share of the run in which a control group's quota stopped its processors.
    throttled_share: Option<f64>,
}

const SESSIONS: &str = "sessions";
const PROCESSORS: &str = "processors";
const IO_LIMIT: &str = "I/O limit";
const RATE: &str = "RATE";

impl OperationWork {
    fn of(run: &Run) -> Result<Self, String> {
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
        let io_limit = io_limits::nearest(run).map(|nearest| {
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
    fn closed(&self) -> Option<f64> {
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

    fn bounds(&self, changed: &Self) -> Vec<OperationsBound> {
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

    /// The work with the changes, and the reasons against them.
    fn with(&self, run: &Run, asked: &AskedChanges, cache: CacheEffect) -> (Self, Vec<String>) {
        let mut changed = self.clone();
        let mut refused = Vec::new();
        let mut make = |name: &str, made: Option<Result<(), String>>| {
            if let Some(Err(why)) = made {
                refused.push(format!("--{name}: {why}"));
            }
        };
        make("processors", asked.processors.map(|by| changed.change_processors(by)));
        make("io-limit", asked.io_limit.map(|by| changed.change_io_limit(by)));
        make("rate", asked.rate.map(|by| changed.change_rate(by)));
        make("read-latency", asked.read_latency.map(|by| changed.change_reads(run, by)));
        make("log-latency", asked.log_latency.map(|by| changed.change_log(run, by)));
        make("cache", asked.cache.map(|by| changed.change_cache(run, by, cache)));
        make("sessions", asked.sessions.map(|to| changed.change_sessions(run, to)));
        make("update-pct", asked.update_pct.map(|to| changed.change_mix(run, to)));
        (changed, refused)
    }

    /// Refuses the processors as the limit if the run left most of them idle.
    fn refuse_idle(&self, lowest: &str) -> Result<(), String> {
        let bound = self.processors.as_ref().map_or(f64::INFINITY, ProcessorWork::bound);
        match lowest == PROCESSORS && self.ops < bound * PROCESSORS_USED_MIN {
            true => Err(format!(
                "the processors would limit, and the run used {} % of them: an operation takes less \
                 of their time under load; run closer to their limit first",
                decimal(100.0 * self.ops / bound, 0)
            )),
            false => Ok(()),
        }
    }

    /// Refuses another limit than the I/O limit that held the run, if the time of an operation
    /// without the wait for it is not known.
    fn refuse_unknown_time(&self, lowest: &str) -> Result<(), String> {
        let (Some(IO_LIMIT), Some((.., is_of_reads))) = (self.held.as_deref(), self.io_limit)
        else {
            return Ok(());
        };
        let (of, time) = match is_of_reads {
            true => ("reads", &self.reads_s),
            false => ("the log", &self.log_s),
        };
        match time {
            Err(why) if lowest != IO_LIMIT => Err(format!(
                "{lowest} would limit instead of the I/O limit, and the time of {of} is not known: \
                 {why}"
            )),
            _ => Ok(()),
        }
    }

    /// True if a control group's quota of processors held the run.
    fn is_held_by_quota(&self) -> bool {
        let work = self.processors.as_ref();
        let has_quota = work.is_ok_and(|work| work.granted < work.processors);
        let is_stopped = self.throttled_share.is_some_and(|share| share > THROTTLED_SHARE_MIN);
        has_quota && (is_stopped || self.held.as_deref() == Some(PROCESSORS))
    }

    fn change_processors(&mut self, by: f64) -> Result<(), String> {
        let is_held = self.is_held_by_quota();
        let work = self.processors.as_mut().map_err(|why| format!("not known: {why}"))?;
        let has_grant = work.granted < work.processors;
        if is_held {
            return Err(
                "the control group's quota of processors held the run: the wait for it is \
                        also in the time of reads and of the log"
                    .to_owned(),
            );
        }
        work.granted *= by;
        // A grant is of the same processors, as far as they suffice.
        work.processors = if has_grant { work.processors.max(work.granted) } else { work.granted };
        Ok(())
    }

    fn change_io_limit(&mut self, by: f64) -> Result<(), String> {
        let limit = self.io_limit.as_mut();
        limit.ok_or("no control group limits the I/O of this run")?.1 *= by;
        Ok(())
    }

    fn change_rate(&mut self, by: f64) -> Result<(), String> {
        *self.rate.as_mut().ok_or("the run had no RATE")? *= by;
        Ok(())
    }

    fn change_reads(&mut self, run: &Run, by: f64) -> Result<(), String> {
        refuse_locks(run)?;
        *self.reads_s.as_mut().map_err(|why| format!("not known: {why}"))? *= by;
        if let Some((_, demand_s)) = &mut self.curve {
            *demand_s *= by;
        }
        Ok(())
    }

    fn change_log(&mut self, run: &Run, by: f64) -> Result<(), String> {
        refuse_locks(run)?;
        *self.log_s.as_mut().map_err(|why| format!("not known: {why}"))? *= by;
        Ok(())
    }

    /// Rows are visited at random, so that a cache saves its share of the reads.
    fn change_cache(&mut self, run: &Run, by: f64, effect: CacheEffect) -> Result<(), String> {
        let (share, misses) = cache_use(run)?;
        self.reads_s.as_ref().map_err(|why| format!("not known: {why}"))?;
        let most = misses.max(1.0);
        let rest_stays = misses - share * (by - 1.0);
        let rest_grows = most - (most - misses) * by;
        let changed = rest_stays + effect.rest * (rest_grows - rest_stays);
        let factor = changed.clamp(0.0, most) / misses;
        self.reads_s = self.reads_s.clone().map(|reads_s| reads_s * factor);
        if let Ok(work) = &mut self.processors {
            work.demand_s *= 1.0 + effect.processors * (factor - 1.0);
        }
        if let Some((_, demand_s)) = &mut self.curve {
            *demand_s *= factor;
        }
        if let Some((requests, _, true)) = &mut self.io_limit {
            *requests *= factor;
        }
        let writes = run.summary.per_second.physical_write_requests.unwrap_or(0.0);
        let all = run.summary.piops().unwrap_or(0.0);
        let reads = if all > 0.0 { 1.0 - writes / all } else { 1.0 };
        self.requests *= 1.0 - reads * (1.0 - factor);
        Ok(())
    }

    /// Refuses another cache if its assumptions lead to different predictions.
    fn refuse_unlike_caches(&self, run: &Run, asked: &AskedChanges) -> Result<(), String> {
        if asked.cache.is_none() {
            return Ok(());
        }
        let differ = |effects: [CacheEffect; 2]| {
            let bounds = effects.map(|effect| self.bounds(&self.with(run, asked, effect).0));
            let [a, b] = bounds.map(|bounds| lowest(&bounds).map(|(_, ops)| ops));
            let (low, high) = a.zip(b).map(|(a, b)| (a.min(b), a.max(b)))?;
            let words =
                || format!("{} to {} operations a second", decimal(low, 0), decimal(high, 0));
            (high > low * (1.0 + MODEL_ERROR_MAX)).then(words)
        };
        let middle = CacheEffect::MIDDLE;
        if let Some(range) = differ([0.0, 1.0].map(|rest| CacheEffect { rest, ..middle })) {
            let (share, misses) = cache_use(run)?;
            return Err(format!(
                "--cache: a row took {} reads, and a cache for {} % of the data would leave {}: if \
                 the rest of the cache changes with it is not known, which allows {range}",
                decimal(misses, 2),
                decimal(share * 100.0, 0),
                decimal(1.0 - share, 2)
            ));
        }
        let processors = [0.0, 1.0].map(|processors| CacheEffect { processors, ..middle });
        differ(processors).map_or(Ok(()), |range| {
            Err(format!(
                "--cache: the part of the processor time that is for reads is not in this record, \
                 which allows {range}"
            ))
        })
    }

    fn change_sessions(&mut self, run: &Run, to: u32) -> Result<(), String> {
        if self.is_held_by_quota() {
            return Err(
                "the control group's quota of processors held the run: an operation takes \
                        other processor time with other sessions, and the wait for the quota is \
                        in all times"
                    .to_owned(),
            );
        }
        refuse_locks(run)?;
        self.processors.as_ref().map_err(|why| format!("the processors are not known: {why}"))?;
        let response_s = run.details.db_time_s / run.summary.ops.total as f64;
        let at_device = self.reads_s.as_ref().map_or(1.0, |reads_s| reads_s / response_s);
        if at_device > DEVICE_SHARE_MAX && self.curve.is_none() && self.held.is_none() {
            return Err(format!(
                "an operation is at the device for {} % of its time, and the device's curve is not \
                 in this record: run petal calibrate first",
                decimal(at_device * 100.0, 0)
            ));
        }
        if to as usize > queues::SESSIONS_MAX {
            return Err(format!("a network has up to {} sessions", queues::SESSIONS_MAX));
        }
        self.sessions = f64::from(to);
        Ok(())
    }

    /// Operations of another mix take the mean time of their kinds.
    fn change_mix(&mut self, run: &Run, to: f64) -> Result<(), String> {
        refuse_locks(run)?;
        let ops = &run.summary.ops;
        let mean_s = |kind| Some(run.summary.latency(kind)?.mean? / 1e6);
        let both = mean_s(Kind::Select).zip(mean_s(Kind::Update));
        let both = both.filter(|_| ops.select > 0 && ops.update > 0);
        let (select_s, update_s) =
            both.ok_or("the run has no operations of one kind: their time is not known")?;
        let work = self.processors.as_ref().map_err(|why| format!("not known: {why}"))?;
        if work.bound() * PROCESSORS_BUSY_MIN < self.ops {
            return Err("the processors are nearly full, and the demand of each kind is not \
                        known"
                .to_owned());
        }
        let (was, to) = (ops.update as f64 / ops.total as f64, to / 100.0);
        self.other_s += (to - was) * (update_s - select_s);
        if let Some((requests, _, false)) = &mut self.io_limit {
            *requests *= to / was;
        }
        let per_operation = |update_share: f64| {
            let writes = run.summary.per_second.physical_write_requests.unwrap_or(0.0) / self.ops;
            let all = run.summary.piops().unwrap_or(0.0) / self.ops;
            all - writes + writes * update_share / was
        };
        self.requests *= per_operation(to) / per_operation(was);
        Ok(())
    }
}

/// The share of the data that the cache can hold, and the reads of a row.
fn cache_use(run: &Run) -> Result<(f64, f64), String> {
    let share = physical::cache_share(run).ok_or("the size of the cache is not known")?;
    let rows = run.summary.rows.total() as f64;
    let misses = run.details.io.physical_read_blocks.map(|blocks| blocks as f64 / rows);
    let misses = misses.filter(|misses| misses.is_finite()).ok_or("reads are not counted")?;
    if misses < 1.0 - share - HITS_BEYOND_SHARE_MAX || share >= 1.0 || misses <= 0.0 {
        return Err(format!(
            "a row took {} reads, and a cache for {} % of the data would leave {}: hits do not \
             follow its size",
            decimal(misses, 2),
            decimal(share * 100.0, 0),
            decimal(1.0 - share, 2)
        ));
    }
    Ok((share, misses))
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

/// Refuses a change after which locks would be held for another time.
fn refuse_locks(run: &Run) -> Result<(), String> {
    let is_lock = |class| matches!(class, WaitClass::Application | WaitClass::Concurrency);
    let locks = run.summary.waits.iter().filter(|wait| is_lock(wait.class));
    let time_us = locks.map(|wait| wait.time_us).sum::<f64>();
    let share = run.share_of_db_time(time_us).unwrap_or(0.0);
    match share > LOCK_SHARE_MAX {
        true => Err(format!(
            "sessions waited {} % of DB time for locks, which are held for another time then",
            decimal(share * 100.0, 0)
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_model::record::calibration::{CalibratedPoint, CalibratedShare};
    use petal_model::record::{WaitRow, fixture};
    use petal_model::stats::counters::WaitSource;
    use serde_json::json;

    fn work() -> OperationWork {
        let processors = ProcessorWork { demand_s: 5e-4, processors: 2.0, granted: 2.0 };
        OperationWork {
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

    fn bound<'a>(found: &'a [OperationsBound], of: &str) -> &'a OperationsBound {
        found.iter().find(|bound| bound.of == of).unwrap()
    }

    #[test]
    fn time_in_no_part_is_fitted_so_that_the_model_has_the_measured_throughput() {
        let mut work = work();
        work.other_s = work.fitted_other_s();
        assert!((work.closed().unwrap() / 1000.0 - 1.0).abs() < 1e-9);
        assert!((4e-3..4.5e-3).contains(&work.other_s), "{}", work.other_s);
    }

    #[test]
    fn more_processors_raise_their_bound_and_a_grant_stays_within_the_host() {
        let mut free = work();
        free.change_processors(2.0).unwrap();
        assert_eq!(bound(&work().bounds(&free), PROCESSORS).changed, Some(8000.0));
        assert_eq!(free.processors.as_ref().unwrap().processors, 4.0);
        let mut granted = work();
        granted.processors.as_mut().unwrap().granted = 0.5;
        let held = Some(PROCESSORS.to_owned());
        assert!(OperationWork { held, ..granted.clone() }.change_processors(2.0).is_err());
        granted.change_processors(2.0).unwrap();
        let found = granted.processors.unwrap();
        assert_eq!((found.granted, found.processors, found.bound()), (1.0, 2.0, 2000.0));
    }

    #[test]
    fn idle_processors_do_not_show_their_limit() {
        // Of 4,000 operations a second that the processors allow.
        for (ops, is_refused) in [(1000.0, true), (1900.0, true), (2100.0, false)] {
            let work = OperationWork { ops, ..work() };
            assert_eq!(work.refuse_idle(PROCESSORS).is_err(), is_refused, "{ops}");
            assert_eq!(work.refuse_idle(SESSIONS), Ok(()));
        }
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
            ..work()
        };
        let at = |work: &mut OperationWork, sessions| {
            work.sessions = sessions;
            work.closed().unwrap()
        };
        assert!((at(&mut work, 2.0) - 2000.0).abs() < 1e-6);
        assert!((at(&mut work, 16.0) - 4000.0).abs() < 1e-6);
        assert!((at(&mut work, 64.0) - 4000.0).abs() < 1e-6);
    }

    /// A run with a cache for a quarter of its data, and so many reads of each row.
    fn cached(misses: f64) -> Run {
        let mut run = fixture::mixed_run();
        run.details.target.session_cache_bytes = None;
        run.summary.target.cache_bytes = Some(run.summary.active_bytes / 4);
        let blocks = misses * run.summary.rows.total() as f64;
        run.details.io.physical_read_blocks = Some(blocks as u64);
        run
    }

    #[test]
    fn more_cache_saves_its_share_of_the_data_and_the_rest_of_it_stays_or_grows() {
        let reads_s = |misses, by, rest| {
            let mut work = OperationWork { reads_s: Ok(misses), ..work() };
            let effect = CacheEffect { rest, processors: 0.0 };
            work.change_cache(&cached(misses), by, effect).map(|()| work.reads_s.unwrap())
        };
        let near = |found: Result<f64, String>, expected: f64| {
            let found = found.unwrap();
            assert!((found - expected).abs() < 1e-3, "{found}, not {expected}");
        };
        for rest in [0.0, 1.0] {
            near(reads_s(0.75, 2.0, rest), 0.5);
            near(reads_s(0.75, 0.5, rest), 0.875);
            near(reads_s(0.75, 8.0, rest), 0.0);
        }
        // InnoDB's free pages: 0.90 reads a row with 32 MB for 128 MB, and 0.65 with 64 MB.
        near(reads_s(0.9, 2.0, 0.0), 0.65);
        near(reads_s(0.9, 2.0, 1.0), 0.8);
        // Commits empty SQLite's caches, of any size.
        near(reads_s(1.05, 2.0, 1.0), 1.05);
        assert!(reads_s(0.5, 2.0, 0.0).unwrap_err().contains("hits do not follow its size"));
    }

    #[test]
    fn another_cache_is_refused_if_the_record_does_not_divide_processor_time_or_hits() {
        let asked = AskedChanges { cache: Some(2.0), ..AskedChanges::default() };
        let refused = |work: &OperationWork, misses| {
            work.refuse_unlike_caches(&cached(misses), &asked).err().unwrap_or_default()
        };
        assert_eq!(refused(&work(), 0.75), "");
        let busy = ProcessorWork { demand_s: 5e-3, processors: 1.0, granted: 1.0 };
        let busy = OperationWork { processors: Ok(busy), ..work() };
        assert!(refused(&busy, 0.75).contains("part of the processor time that is for reads"));
        assert!(refused(&work(), 1.0).contains("rest of the cache"), "{}", refused(&work(), 1.0));
        let of_reads = OperationWork { io_limit: Some((50.0, 1000.0, true)), ..work() };
        assert_eq!(refused(&of_reads, 0.75), "");
    }

    #[test]
    fn an_io_limit_whose_wait_is_in_the_time_of_reads_names_no_other_limit() {
        let held = OperationWork {
            held: Some(IO_LIMIT.to_owned()),
            io_limit: Some((64.0, 1000.0, true)),
            reads_s: Err("it includes the wait".to_owned()),
            ..work()
        };
        assert_eq!(held.refuse_unknown_time(IO_LIMIT), Ok(()));
        for other in [SESSIONS, PROCESSORS] {
            let why = held.refuse_unknown_time(other).unwrap_err();
            assert!(why.contains("time of reads is not known: it includes the wait"), "{why}");
            let timed = OperationWork { reads_s: Ok(3e-3), ..held.clone() };
            assert_eq!(timed.refuse_unknown_time(other), Ok(()));
            let free = OperationWork { held: None, ..held.clone() };
            assert_eq!(free.refuse_unknown_time(other), Ok(()));
        }
        let of_writes = OperationWork { io_limit: Some((8.0, 500.0, false)), ..held };
        assert!(of_writes.refuse_unknown_time(SESSIONS).unwrap_err().contains("time of the log"));
    }

    #[test]
    fn a_run_that_its_quota_held_is_not_predicted_with_other_sessions() {
        let held = |granted| {
            let processors = ProcessorWork { demand_s: 5e-4, processors: 2.0, granted };
            let held = Some(PROCESSORS.to_owned());
            let mut work = OperationWork { processors: Ok(processors), held, ..work() };
            work.change_sessions(&fixture::mixed_run(), 2).err().unwrap_or_default()
        };
        assert!(held(0.5).contains("quota of processors held the run"));
        assert!(!held(2.0).contains("quota"));
        // 0.3 processors of which 16 sessions used 90 %, stopped in 25 of 30 periods.
        let stopped = |share| {
            let processors = ProcessorWork { demand_s: 2.5e-4, processors: 2.0, granted: 0.3 };
            let mut work =
                OperationWork { processors: Ok(processors), throttled_share: share, ..work() };
            work.change_processors(2.0).is_err()
        };
        assert!(stopped(Some(0.38)) && !stopped(Some(0.01)) && !stopped(None));
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

    #[test]
    fn changes_that_the_record_contradicts_are_refused() {
        let run = fixture::mixed_run();
        let asked = AskedChanges {
            rate: Some(2.0),
            io_limit: Some(2.0),
            sessions: Some(1000),
            ..AskedChanges::default()
        };
        let found = what_if("run", &run, &asked);
        assert_eq!(found.changes, ["io-limit 2x", "rate 2x", "sessions 1000"]);
        assert_eq!(found.refused.len(), 3, "{:?}", found.refused);
        assert_eq!((found.ops, found.piops), (None, None));
        let slower = AskedChanges { read_latency: Some(2.0), ..AskedChanges::default() };
        let mut locked = run.clone();
        locked.summary.steady = None;
        locked.summary.waits.push(WaitRow {
            name: "writer lock".to_owned(),
            class: WaitClass::Concurrency,
            source: WaitSource::Counted,
            waits: None,
            time_us: locked.details.db_time_s * 0.3e6,
            avg_us: None,
        });
        let found = what_if("run", &locked, &slower);
        assert!(found.refused[0].contains("% of DB time for locks"), "{found:?}");
        let mut deep = run;
        deep.summary.settings.insert("io_depth".to_owned(), json!(16));
        let found = what_if("run", &deep, &slower);
        assert!(found.refused[0].starts_with("a session has several requests in flight"));
    }

    #[test]
    fn a_run_at_its_rate_follows_the_rate_until_its_sessions_are_full() {
        let mut run = fixture::mixed_run();
        let ops = run.headline().run.summary.per_second.ops.unwrap();
        run.summary.settings.insert("rate".to_owned(), json!(ops));
        let at = |by| {
            let asked = AskedChanges { rate: Some(by), ..AskedChanges::default() };
            what_if("run", &run, &asked)
        };
        let half = at(0.5);
        assert!((half.ops.unwrap() / ops - 0.5).abs() < 1e-9, "{half:?}");
        assert_eq!(half.limited_by.as_deref(), Some(RATE));
        assert!((half.piops.unwrap() / half.measured_piops.unwrap() - 0.5).abs() < 1e-9);
        let much = at(1000.0);
        assert_ne!(much.limited_by.as_deref(), Some(RATE));
        assert!(much.ops.unwrap() < 1000.0 * ops && !much.is_upper_bound, "{much:?}");
    }
}
