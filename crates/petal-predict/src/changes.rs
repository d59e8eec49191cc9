//! Changes of an operation's work, and reasons against them.

use super::cache::CacheEffect;
use super::work::{self, IO_LIMIT, OperationWork, PROCESSORS, ProcessorWork};
use petal_host::numbers::decimal;
use petal_judge::predict::queues;
use petal_record::Run;
use petal_record::counters::WaitClass;
use petal_workload::op::Kind;

/// Lock waits over this share of DB time forbid a change of latencies or sessions: locks are held
/// for other times then.
const LOCK_SHARE_MAX: f64 = 0.2;
/// Share of the time of a run from which on a quota that stopped its processors held it.
const THROTTLED_SHARE_MIN: f64 = 0.1;
/// Share of the processors from which on another mix needs the demand of each kind.
const PROCESSORS_BUSY_MIN: f64 = 0.8;
/// Share of the processors' bound under which an operation's processor time is not that under load: it
/// falls to a third from one session to many.
const PROCESSORS_USED_MIN: f64 = 0.5;
/// Share of an operation's time at the device from which on another number of sessions needs the
/// device's curve.
const DEVICE_SHARE_MAX: f64 = 0.2;

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

impl OperationWork {
    /// The work with the changes, and the reasons against them.
    pub fn with(&self, run: &Run, asked: &AskedChanges, cache: CacheEffect) -> (Self, Vec<String>) {
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

    /// Operations per second with the changes.
    pub fn ops_with(&self, run: &Run, asked: &AskedChanges, cache: CacheEffect) -> Option<f64> {
        work::lowest(&self.bounds(&self.with(run, asked, cache).0)).map(|(_, ops)| ops)
    }

    /// Refuses the processors as the limit if the run left most of them idle.
    pub fn refuse_idle(&self, lowest: &str) -> Result<(), String> {
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
    pub fn refuse_unknown_time(&self, lowest: &str) -> Result<(), String> {
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
    use crate::work::{OperationsBound, SESSIONS};
    use petal_record::fixture;

    fn bound<'a>(found: &'a [OperationsBound], of: &str) -> &'a OperationsBound {
        found.iter().find(|bound| bound.of == of).unwrap()
    }

    #[test]
    fn more_processors_raise_their_bound_and_a_grant_stays_within_the_host() {
        let mut free = OperationWork::example();
        free.change_processors(2.0).unwrap();
        assert_eq!(
            bound(&OperationWork::example().bounds(&free), PROCESSORS).changed,
            Some(8000.0)
        );
        assert_eq!(free.processors.as_ref().unwrap().processors, 4.0);
        let mut granted = OperationWork::example();
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
            let work = OperationWork { ops, ..OperationWork::example() };
            assert_eq!(work.refuse_idle(PROCESSORS).is_err(), is_refused, "{ops}");
            assert_eq!(work.refuse_idle(SESSIONS), Ok(()));
        }
    }

    #[test]
    fn an_io_limit_whose_wait_is_in_the_time_of_reads_names_no_other_limit() {
        let held = OperationWork {
            held: Some(IO_LIMIT.to_owned()),
            io_limit: Some((64.0, 1000.0, true)),
            reads_s: Err("it includes the wait".to_owned()),
            ..OperationWork::example()
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
            let mut work =
                OperationWork { processors: Ok(processors), held, ..OperationWork::example() };
            work.change_sessions(&fixture::mixed_run(), 2).err().unwrap_or_default()
        };
        assert!(held(0.5).contains("quota of processors held the run"));
        assert!(!held(2.0).contains("quota"));
        // 0.3 processors of which 16 sessions used 90 %, stopped in 25 of 30 periods.
        let stopped = |share| {
            let processors = ProcessorWork { demand_s: 2.5e-4, processors: 2.0, granted: 0.3 };
            let mut work = OperationWork {
                processors: Ok(processors),
                throttled_share: share,
                ..OperationWork::example()
            };
            work.change_processors(2.0).is_err()
        };
        assert!(stopped(Some(0.38)) && !stopped(Some(0.01)) && !stopped(None));
    }
}
