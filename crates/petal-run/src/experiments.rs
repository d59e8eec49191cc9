//! Experiments that a run makes on itself (`--elasticity`): in short slots of time, in a random
//! order, reads are repeated or slowed down, commits slowed down, processor time burnt, sessions
//! paused. Judged by [`petal_judge`], they show what limits the run.
//!
//! The first half of the run is measured as it is; experiments fill the second half. Sessions
//! change their own pace, and engines that hand out a [`Perturbation`] their reads and commits.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use petal_engine::perturbation::{Perturbation, Perturbed};
use petal_engine::{EngineError, Outcome, Stop};
use petal_record::counters::{Counters, WaitClass};
use petal_record::experiments::{ChangedResource, ExperimentSlot, ExperimentsMade, ResourceChange};
use petal_record::timeline::Tally;
use petal_workload::seat::Seat;

use super::job::Job;
use super::slots::{RunEnd, Slots};

/// The shortest run with experiments, after the warm-up.
pub const SHORTEST_S: f64 = 30.0;
/// Part of each time or amount that a change adds.
const STEP: f64 = 0.25;
const READ_AGAIN_EACH: u32 = 4;
/// The least that reads and commits are delayed: a sleep of less takes as long.
const LATER_NS_MIN: u64 = 50_000;
/// A control group's throttle gives in steps of 100 ms.
const SLOT_NS_MIN: u64 = 500_000_000;
/// Operations of a session that a slot holds at least.
const OPERATIONS_PER_SLOT: u64 = 8;
/// Part of each slot in which operations of the slot before end.
const SETTLING_SHARE: f64 = 0.1;
/// Slots without a change in each round: each change is compared with all of them.
const PLAIN_SLOTS: usize = 2;
const ROUNDS_MIN: u64 = 4;
/// Time before the first slot in which it is planned.
const LEAD_NS: u64 = 100_000_000;

/// Experiments of one run.
pub struct Experiments {
    engine: Option<Arc<Perturbation>>,
    from_ns: u64,
    to_ns: u64,
    kinds: Vec<ChangedResource>,
    /// Sessions from this number on pause in slots of fewer sessions.
    paused_from: u32,
    factor_of_sessions: f64,
    seed: u64,
    /// Mean time of an operation so far.
    operation_ns: AtomicU64,
    schedule: OnceLock<Slots<Option<ChangedResource>>>,
    /// Operations in the counted part of each slot.
    work: Mutex<Vec<f64>>,
    end: RunEnd,
    made: Mutex<ExperimentsMade>,
}

/// Processor time of one session's thread.
#[derive(Default)]
pub struct OwnCost {
    pub operations: u64,
    began_ns: Option<u64>,
    per_operation_ns: Option<f64>,
}

impl Experiments {
    /// Returns the experiments of a run; None if it makes none.
    pub fn of(job: &Job<'_>) -> Option<Self> {
        if !job.settings.elasticity {
            return None;
        }
        let ns = |s: f64| (s * 1e9) as u64;
        let (warm_up_s, to_s) = (job.settings.warm_up_s(), job.settings.run_time.as_secs_f64());
        let sessions = job.seats.len() as u32;
        let fewer = (f64::from(sessions) * STEP).round().max(1.0) as u32;
        let is_in_process = job.engine.support().is_in_process();
        let engine = job.engine.perturbation();
        let mut kinds = Vec::new();
        if engine.is_some() {
            kinds.extend([ChangedResource::Reads, ChangedResource::ReadLatency]);
        }
        if engine.is_some() && !job.settings.only_reads() {
            kinds.push(ChangedResource::Commits);
        }
        kinds.push(match is_in_process {
            true => ChangedResource::Processors,
            false => ChangedResource::ClientProcessors,
        });
        // One session cannot be fewer.
        kinds.push(match sessions {
            1 => ChangedResource::Pauses,
            _ => ChangedResource::Sessions,
        });
        let mut made = ExperimentsMade::default();
        if engine.is_none() {
            made.gaps.push(
                "reads and commits of this engine are not changed: their elasticity is not known"
                    .to_owned(),
            );
        }
        Some(Self {
            engine,
            from_ns: ns((warm_up_s + (to_s - warm_up_s) / 2.0).ceil()),
            to_ns: ns(to_s),
            kinds,
            paused_from: sessions.saturating_sub(fewer) + 1,
            factor_of_sessions: f64::from(sessions - fewer) / f64::from(sessions),
            seed: job.workload.seed,
            operation_ns: AtomicU64::new(0),
            schedule: OnceLock::new(),
            work: Mutex::default(),
            end: RunEnd::default(),
            made: Mutex::new(made),
        })
    }

    /// Seconds of the run that are measured without experiments.
    pub fn from_s(&self) -> f64 {
        self.from_ns as f64 / 1e9
    }

    /// Takes note of the operations so far: the slots' length depends on them.
    pub fn follow(&self, totals: &Tally) {
        let mean_ns = totals.busy_ns.checked_div(totals.ops_total()).unwrap_or(0);
        self.operation_ns.store(mean_ns, Ordering::Relaxed);
    }

    /// True if a session's batches must be short.
    pub fn is_near(&self, now_ns: u64) -> bool {
        now_ns + LEAD_NS >= self.from_ns
    }

    /// Conducts the experiments on a thread of their own.
    pub fn conduct(&self, job: &Job<'_>, opening: &[Counters], trigger: Instant) {
        if !self.end.wait_until(trigger, self.from_ns.saturating_sub(LEAD_NS)) {
            return;
        }
        let [read_ns, commit_ns] = means_ns(job, opening);
        let later = |mean_ns: f64| ((mean_ns * STEP) as u64).max(LATER_NS_MIN);
        let mut kinds = self.kinds.clone();
        let mut unknown = |kind, mean_ns: f64, words: &str| {
            if mean_ns <= 0.0 && kinds.contains(&kind) {
                kinds.retain(|other| *other != kind);
                self.made.lock().gaps.push(words.to_owned());
            }
        };
        unknown(
            ChangedResource::ReadLatency,
            read_ns,
            "no reads were timed before the experiments",
        );
        unknown(
            ChangedResource::Commits,
            commit_ns,
            "no commits were timed before the experiments",
        );
        let Some(schedule) = self.schedule(&kinds) else { return };
        let schedule = self.schedule.get_or_init(|| schedule);
        *self.work.lock() = vec![0.0; schedule.order.len()];
        let mut delayed = [(0, 0); 2];
        for (slot, change) in schedule.order.iter().enumerate() {
            if !self.end.wait_until(trigger, schedule.begin_ns(slot)) {
                break;
            }
            let Some(engine) = &self.engine else { continue };
            let perturbed = match change {
                Some(ChangedResource::Reads) => {
                    Perturbed { read_again_each: READ_AGAIN_EACH, ..Perturbed::default() }
                }
                Some(ChangedResource::ReadLatency) => {
                    Perturbed { read_later_ns: later(read_ns), ..Perturbed::default() }
                }
                Some(ChangedResource::Commits) => {
                    Perturbed { commit_later_ns: later(commit_ns), ..Perturbed::default() }
                }
                _ => Perturbed::default(),
            };
            let before = engine.delays();
            engine.set(perturbed);
            let is_over = !self.end.wait_until(trigger, schedule.begin_ns(slot + 1));
            engine.set(Perturbed::default());
            let after = engine.delays();
            let of = match change {
                Some(ChangedResource::ReadLatency) => &mut delayed[0],
                Some(ChangedResource::Commits) => &mut delayed[1],
                _ => continue,
            };
            *of = (of.0 + after.0 - before.0, of.1 + after.1 - before.1);
            if is_over {
                break;
            }
        }
        self.end.wait_until(trigger, schedule.begin_ns(schedule.order.len()));
        let longer = |(delays, delayed_ns): (u64, u64), mean_ns: f64| {
            let mean_delay_ns = if delays > 0 { delayed_ns as f64 / delays as f64 } else { 0.0 };
            (1.0 + mean_delay_ns / mean_ns, mean_delay_ns / 1e3)
        };
        let (read, commit) = (longer(delayed[0], read_ns), longer(delayed[1], commit_ns));
        self.made.lock().changes = kinds.iter().map(|&of| self.change(of, read, commit)).collect();
    }

    /// The change of a resource; each delay is its factor and its mean in microseconds.
    fn change(&self, of: ChangedResource, read: (f64, f64), commit: (f64, f64)) -> ResourceChange {
        let more = 1.0 + STEP;
        let (words, factor) = match of {
            ChangedResource::Processors | ChangedResource::ClientProcessors => {
                ("a quarter more processor time for each operation".to_owned(), more)
            }
            ChangedResource::Reads => ("one read in four made twice".to_owned(), more),
            ChangedResource::ReadLatency => (format!("each read {:.0} us later", read.1), read.0),
            ChangedResource::Commits => (format!("each commit {:.0} us later", commit.1), commit.0),
            ChangedResource::Pauses => {
                ("a pause of a quarter of each operation's time".to_owned(), more)
            }
            ChangedResource::Sessions => {
                let paused = (1.0 - self.factor_of_sessions) * 100.0;
                (format!("{paused:.0} % fewer sessions"), self.factor_of_sessions)
            }
        };
        ResourceChange { of, words, factor }
    }

    /// Plans the slots: whole rounds, each in another order.
    fn schedule(&self, kinds: &[ChangedResource]) -> Option<Slots<Option<ChangedResource>>> {
        let operation_ns = self.operation_ns.load(Ordering::Relaxed);
        let slot_ns = SLOT_NS_MIN.max(operation_ns.saturating_mul(OPERATIONS_PER_SLOT));
        let plain = std::iter::repeat_n(None, PLAIN_SLOTS);
        let round: Vec<Option<ChangedResource>> =
            kinds.iter().copied().map(Some).chain(plain).collect();
        let rounds = self.to_ns.saturating_sub(self.from_ns) / (slot_ns * round.len() as u64);
        let mut made = self.made.lock();
        if rounds < ROUNDS_MIN {
            made.gaps.push(format!(
                "no experiments: an operation took {:.0} ms, so that {} slots of {:.1} s fill one of \
                 at least {ROUNDS_MIN} rounds; use a smaller WORK_UNIT or a longer RUN_TIME",
                operation_ns as f64 / 1e6,
                round.len(),
                slot_ns as f64 / 1e9
            ));
            return None;
        }
        let settling_ns = (slot_ns as f64 * SETTLING_SHARE) as u64;
        (made.from_s, made.slot_s) = (self.from_s(), slot_ns as f64 / 1e9);
        made.settling_s = settling_ns as f64 / 1e9;
        made.slots_per_round = round.len() as u32;
        let times = (self.from_ns, slot_ns, settling_ns);
        Some(Slots::in_rounds(times, round, rounds, self.seed))
    }

    /// Takes note that conducting them failed, and ends a change that was under way.
    pub fn failed(&self, why: &EngineError) {
        if let Some(engine) = &self.engine {
            engine.set(Perturbed::default());
        }
        self.made.lock().gaps.push(format!("the experiments ended early: {why}"));
    }

    /// Ends the experiments; the thread that conducts them is to be unparked.
    pub fn end(&self) {
        self.end.set();
    }

    /// Changes a session's own pace before a batch.
    pub fn pace(&self, seat: &Seat, batch: usize, own: &mut OwnCost, stop: &Stop) {
        let Some(schedule) = self.schedule.get() else {
            own.began_ns.get_or_insert_with(thread_ns);
            return;
        };
        let now_ns = || stop.since_trigger_ns(Instant::now());
        let per_operation_ns = own.per_operation_ns();
        let at = schedule.at(now_ns());
        match at.and_then(|(slot, change)| Some((schedule.begin_ns(slot + 1), change?))) {
            Some((_, ChangedResource::Processors | ChangedResource::ClientProcessors)) => {
                let until_ns = thread_ns() + (per_operation_ns * STEP * batch as f64) as u64;
                while thread_ns() < until_ns {
                    std::hint::spin_loop();
                }
            }
            Some((end_ns, ChangedResource::Pauses)) => {
                let mean_ns = self.operation_ns.load(Ordering::Relaxed) as f64;
                let pause_ns = (mean_ns * STEP * batch as f64) as u64;
                let left_ns = end_ns.saturating_sub(now_ns());
                thread::sleep(Duration::from_nanos(pause_ns.min(left_ns)));
            }
            Some((end_ns, ChangedResource::Sessions)) if seat.session >= self.paused_from => {
                while !stop.is_due(Instant::now()) {
                    let left_ns = end_ns.saturating_sub(now_ns());
                    if left_ns == 0 {
                        break;
                    }
                    thread::park_timeout(Duration::from_nanos(left_ns));
                }
            }
            _ => {}
        }
    }

    /// Counts operations in the slots in which they passed.
    pub fn count(&self, ended: &[Outcome]) {
        let Some(schedule) = self.schedule.get() else { return };
        let mut work = self.work.lock();
        for one in ended.iter().filter(|one| one.error.is_none()) {
            let begin_ns = one.end_ns.saturating_sub(one.busy_ns);
            spread(schedule, begin_ns, one.end_ns, &mut work);
        }
    }

    /// The experiments for the record. All sessions have ended.
    pub fn made(&self) -> ExperimentsMade {
        let mut made = self.made.lock().clone();
        if let Some(schedule) = self.schedule.get() {
            let work = self.work.lock();
            let slots = schedule.order.iter().zip(work.iter());
            made.slots =
                slots.map(|(&change, &operations)| ExperimentSlot { change, operations }).collect();
        }
        made
    }
}

impl OwnCost {
    /// The thread's processor time for each operation up to the first experiment.
    fn per_operation_ns(&mut self) -> f64 {
        let (began_ns, operations) = (self.began_ns, self.operations);
        *self.per_operation_ns.get_or_insert_with(|| match began_ns {
            Some(began_ns) if operations > 0 => (thread_ns() - began_ns) as f64 / operations as f64,
            _ => 0.0,
        })
    }
}

/// Adds an operation to the counted parts of the slots in which its time passed, by its share.
fn spread<T: Copy>(slots: &Slots<T>, begin_ns: u64, end_ns: u64, work: &mut [f64]) {
    let took_ns = (end_ns - begin_ns).max(1) as f64;
    let first = (begin_ns.saturating_sub(slots.from_ns) / slots.slot_ns) as usize;
    for (slot, part) in work.iter_mut().enumerate().skip(first) {
        let slot_ns = slots.begin_ns(slot);
        if slot_ns >= end_ns {
            break;
        }
        let from_ns = begin_ns.max(slot_ns + slots.settling_ns);
        let to_ns = end_ns.min(slot_ns + slots.slot_ns);
        *part += to_ns.saturating_sub(from_ns) as f64 / took_ns;
    }
}

/// Processor time of the calling thread.
pub fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Returns the mean time of a read and of a commit since the opening snapshot, 0 if unknown. Of
/// several waits of a class it takes the longest.
fn means_ns(job: &Job<'_>, opening: &[Counters]) -> [f64; 2] {
    let now = job.engine.read_counters(false).unwrap_or_default();
    let sum = Counters::sum(&Counters::each_since(&now, opening)).unwrap_or_default();
    [WaitClass::UserIo, WaitClass::Commit].map(|class| {
        let of_class = sum.waits.iter().filter(|wait| wait.class == class);
        let longest = of_class.max_by_key(|wait| wait.time_ns);
        let counted = longest.and_then(|wait| Some((wait, wait.waits.filter(|&all| all > 0)?)));
        counted.map_or(0.0, |(wait, all)| wait.time_ns as f64 / all as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_counts_in_the_slots_in_which_it_passed() {
        let order = vec![None, Some(ChangedResource::Reads), None];
        let schedule = Slots { from_ns: 1000, slot_ns: 100, settling_ns: 10, order };
        let mut work = [0.0; 3];
        // Before the slots, within one, in its settling part, over two, and at the end.
        for (begin_ns, end_ns) in
            [(0, 900), (1020, 1040), (1100, 1110), (1050, 1150), (1290, 1390), (0, 2000)]
        {
            spread(&schedule, begin_ns, end_ns, &mut work);
        }
        let whole = 90.0 / 2000.0;
        let expected = [1.0 + 0.5 + whole, 0.4 + whole, 0.1 + whole];
        for (found, expected) in work.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{work:?} {expected:?}");
        }
        assert_eq!(schedule.at(999), None);
        assert_eq!(schedule.at(1000), Some((0, None)));
        assert_eq!(schedule.at(1199), Some((1, Some(ChangedResource::Reads))));
        assert_eq!(schedule.at(1300), None);
    }
}
