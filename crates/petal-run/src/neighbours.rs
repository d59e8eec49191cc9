//! Neighbours of a run (`petal interfere`): in short slots of time, in a random order, other work
//! is on or off. Each slot's counted part begins when its neighbour is at work and a settling time
//! has passed.
//!
//! A command runs in a separate process group, which ends with its slot, and with petal, however
//! petal ends; so do processes that leave the group.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use petal_engine::neighbour::{NeighbourSession, NeighbourWork};
use petal_engine::threads::Thread;
use petal_engine::{EngineError, Result};
use petal_record::interference::{
    Interference, InterferenceSlot, Neighbour, NeighbourStart, ResponseSecond,
};
use petal_record::timeline::Tally;
use petal_record::{IntervalTotals, RecordFolder};

use super::hook_group::HookGroup;
use super::hooks::words;
use super::job::Job;
use super::neighbour_plan::{NeighbourPlan, PlannedNeighbour, first_slot_s};
use super::orphans::Orphans;
use super::slots::{RunEnd, Slots};
use super::steady_window::{Mark, SteadyWindow};
use super::tenant::Tenant;
use super::{assemble, secrets};

const SECOND_NS: u64 = 1_000_000_000;
/// Time after the begin of a slot within which a start counts as one at its begin.
const PROMPT_NS: u64 = 100_000_000;
/// Longest part of a neighbour's name in a line of progress.
const NAME_LETTERS_SHOWN: usize = 16;
const POLL: Duration = Duration::from_millis(20);
/// Least time from one start of a neighbour to the next one.
const START_EACH: Duration = Duration::from_millis(100);
/// Time from the cancel of a neighbour's statement until its connection is given up.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);
/// Neighbours of one run.
pub struct Neighbours<'a> {
    plan: &'a NeighbourPlan,
    slots: Slots<Option<usize>>,
    seen: Mutex<Vec<SlotSeen>>,
    seconds: Mutex<Vec<ResponseSecond>>,
    end: RunEnd,
    /// Set if a neighbour failed at once: the run has nothing to measure.
    gave_up: AtomicBool,
}

/// A slot that has begun.
struct SlotSeen {
    slot: InterferenceSlot,
    /// Time since which it is as planned: its neighbour at work, or the one before gone.
    ready_ns: Option<u64>,
    window: SteadyWindow,
    ops_within: u64,
}

impl<'a> Neighbours<'a> {
    /// Returns the neighbours of a run; None if it has none.
    pub fn of(job: &Job<'a>) -> Option<Self> {
        let plan = job.neighbours?;
        let ns = |time: Duration| time.as_nanos() as u64;
        let from_ns = first_slot_s(job.settings.warm_up_s()) * SECOND_NS;
        let times = (from_ns, ns(plan.slot), ns(plan.settling));
        let round = (0..plan.neighbours.len()).map(Some).chain([None]).collect();
        Some(Self {
            plan,
            slots: Slots::in_rounds(times, round, plan.pairs, job.workload.seed),
            seen: Mutex::default(),
            seconds: Mutex::default(),
            end: RunEnd::default(),
            gave_up: AtomicBool::new(false),
        })
    }

    /// True if the run is to end, because a neighbour cannot work.
    pub fn has_given_up(&self) -> bool {
        self.gave_up.load(Ordering::Relaxed)
    }

    /// Ends the neighbours; the thread that conducts them is to be unparked.
    pub fn end(&self) {
        self.end.set();
    }

    /// Starts and ends the neighbours, on a separate thread.
    pub fn conduct(&self, job: &Job<'_>, trigger: Instant) {
        self.conduct_slots(job, trigger);
        job.watch.heading("", Duration::ZERO);
    }

    fn conduct_slots(&self, job: &Job<'_>, trigger: Instant) {
        for (at, &neighbour) in self.slots.order.iter().enumerate() {
            if !self.end.wait_until(trigger, self.slots.begin_ns(at)) || self.has_given_up() {
                return;
            }
            job.watch.heading(&self.heading(at, neighbour), Duration::ZERO);
            let end_ns = self.slots.begin_ns(at + 1);
            let seconds = |ns: u64| ns as f64 / 1e9;
            let (from_s, to_s) = (seconds(self.slots.begin_ns(at)), seconds(end_ns));
            let slot = InterferenceSlot { neighbour, from_s, to_s, ..InterferenceSlot::default() };
            let (window, ops_within) = (SteadyWindow::default(), 0);
            self.seen.lock().push(SlotSeen { slot, ready_ns: None, window, ops_within });
            let now = SlotClock { trigger, end_ns, seen: self };
            match neighbour.map(|index| (index, &self.plan.neighbours[index])) {
                None => now.ready(),
                Some((_, PlannedNeighbour::Nothing)) => now.rest(),
                Some((index, planned)) => {
                    if let Err(why) = work(job, planned, index, &now) {
                        now.ended(now.now_ns(), None, Some(why.to_string()));
                    }
                }
            }
        }
        self.end.wait_until(trigger, self.slots.begin_ns(self.slots.order.len()));
    }

    /// The slot in a line of progress.
    fn heading(&self, at: usize, neighbour: Option<usize>) -> String {
        let name = neighbour.map_or("no neighbour".to_owned(), |n| self.plan.neighbours[n].name());
        let name: String = name.chars().take(NAME_LETTERS_SHOWN).collect();
        format!("slot {} of {}, {name}, ", at + 1, self.slots.order.len())
    }

    /// Counts a whole second of the run in its slot, with the samples at its bounds.
    pub fn count(&self, second: u64, tally: &Tally, bounds: (Option<Mark>, Option<Mark>)) {
        let from_ns = second * SECOND_NS;
        if let Some(response_us) = IntervalTotals::of_tally(tally).op_response_us {
            self.seconds.lock().push(ResponseSecond { from_s: second as f64, response_us });
        }
        let Some((at, _)) = self.slots.at(from_ns) else { return };
        let mut seen = self.seen.lock();
        let Some(slot) = seen.get_mut(at) else { return };
        let is_settled = slot
            .ready_ns
            .is_some_and(|ready_ns| from_ns + PROMPT_NS >= ready_ns + self.slots.settling_ns);
        if !is_settled || slot.slot.has_failed() {
            return;
        }
        slot.window.add(second as f64, tally, bounds);
        if let Some(within_us) = self.plan.within_us {
            let within = tally.response.iter().flatten();
            slot.ops_within += within.map(|it| it.count_within_us(within_us)).sum::<u64>();
        }
    }

    /// The slots for the record. All sessions and neighbours have ended.
    pub fn made(&self, folder: Option<&Path>, is_local: bool) -> Interference {
        let is_there = |name: &String| folder.is_some_and(|it| it.join(name).is_file());
        let names = self.plan.neighbours.iter().enumerate().map(|(index, planned)| Neighbour {
            name: planned.name(),
            output: Some(output_name(index)).filter(is_there),
        });
        let slots = std::mem::take(&mut *self.seen.lock()).into_iter().map(|seen| {
            let window = seen.window.close();
            let (from_s, to_s) = (window.seconds.from_s, window.seconds.to_s);
            let is_counted = to_s > from_s;
            InterferenceSlot {
                counted_from_s: from_s,
                counted_to_s: to_s,
                totals: is_counted.then(|| assemble::totals_of_slot(&window, is_local)),
                ops_within: self.plan.within_us.filter(|_| is_counted).map(|_| seen.ops_within),
                ..seen.slot
            }
        });
        Interference {
            neighbours: names.collect(),
            slot_s: self.plan.slot.as_secs_f64(),
            settling_s: self.plan.settling.as_secs_f64(),
            within_us: self.plan.within_us,
            slots: slots.collect(),
            seconds: std::mem::take(&mut *self.seconds.lock()),
        }
    }

    /// Returns whether every start of a neighbour so far failed.
    fn never_worked(&self, neighbour: Option<usize>) -> bool {
        let seen = self.seen.lock();
        let slots = seen.iter().filter(|seen| seen.slot.neighbour == neighbour);
        slots.flat_map(|seen| &seen.slot.starts).all(|start| start.failure.is_some())
    }
}

/// The time of the slot in progress, and its notes.
#[derive(Clone, Copy)]
struct SlotClock<'a> {
    trigger: Instant,
    end_ns: u64,
    seen: &'a Neighbours<'a>,
}

impl SlotClock<'_> {
    fn now_ns(&self) -> u64 {
        self.trigger.elapsed().as_nanos() as u64
    }

    fn with<T>(&self, note: impl FnOnce(&mut SlotSeen) -> T) -> Option<T> {
        self.seen.seen.lock().last_mut().map(note)
    }

    /// Notes that the slot is as planned from now on, if it was not before.
    fn ready(&self) {
        let now_ns = self.now_ns();
        self.with(|slot| {
            slot.ready_ns.get_or_insert(now_ns);
        });
    }

    /// Notes a start that has ended.
    fn ended(&self, began_ns: u64, exit_code: Option<i32>, failure: Option<String>) {
        let (at_s, ended_s) = (began_ns as f64 / 1e9, self.now_ns() as f64 / 1e9);
        let has_failed = failure.is_some();
        let neighbour = self.with(|slot| {
            slot.slot.starts.push(NeighbourStart { at_s, ended_s, exit_code, failure });
            slot.slot.neighbour
        });
        if has_failed && neighbour.is_some_and(|it| self.seen.never_worked(it)) {
            self.seen.gave_up.store(true, Ordering::Relaxed);
        }
    }

    /// Waits for the slot's end, at most this long; false at its end.
    fn wait(&self, time: Duration) -> bool {
        let until_ns = self.now_ns() + time.as_nanos() as u64;
        self.seen.end.wait_until(self.trigger, until_ns.min(self.end_ns)) && until_ns < self.end_ns
    }

    /// Does nothing until the slot's end.
    fn rest(&self) {
        let began_ns = self.now_ns();
        self.ready();
        self.seen.end.wait_until(self.trigger, self.end_ns);
        self.ended(began_ns, None, None);
    }
}

fn output_name(index: usize) -> String {
    format!("neighbour-{}.log", index + 1)
}

/// Works as a neighbour until the slot's end, or until it fails.
fn work(
    job: &Job<'_>,
    planned: &PlannedNeighbour,
    index: usize,
    slot: &SlotClock<'_>,
) -> Result<()> {
    let output = job.folder.map(|folder| (folder, output_name(index)));
    let shell = |body: &str| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", body]);
        secrets::remove_from(&mut command);
        command
    };
    let program = match planned {
        PlannedNeighbour::Nothing => return Ok(()),
        PlannedNeighbour::Tenant => {
            return work_by_statements(Box::new(Tenant::open(job)?), slot);
        }
        PlannedNeighbour::Shell(body) => NeighbourProgram { command: shell(body), keeps_all: true },
        PlannedNeighbour::Known(name) => match open(job, name)? {
            NeighbourWork::Statements(session) => return work_by_statements(session, slot),
            NeighbourWork::Program { path, arguments, environment } => {
                let mut command = Command::new(path);
                command.args(arguments);
                secrets::remove_from(&mut command);
                command.envs(environment);
                NeighbourProgram { command, keeps_all: false }
            }
        },
    };
    work_by_program(program, output, slot)
        .map_err(|error| EngineError::Environment(error.to_string()))
}

/// Opens a neighbour that the engine knows, on the last loaded schema.
fn open(job: &Job<'_>, name: &str) -> Result<NeighbourWork> {
    let schema = job.loaded.last().map_or(1, |schema| schema.number);
    match job.engine.neighbours() {
        Some(known) => known.open_neighbour(name, schema),
        None => Err(EngineError::Setting(format!("{name}: this engine knows no neighbours"))),
    }
}

/// A program, and whether its output is kept, or only its errors.
struct NeighbourProgram {
    command: Command,
    keeps_all: bool,
}

/// Starts a program again and again until the slot's end, and ends its process group then.
fn work_by_program(
    NeighbourProgram { mut command, keeps_all }: NeighbourProgram,
    output: Option<(&RecordFolder, String)>,
    slot: &SlotClock<'_>,
) -> io::Result<()> {
    // Dropped after the group.
    let _orphans = Orphans::adopt()?;
    let group = HookGroup::default();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some((folder, output)) = &output {
        if let Some(moved) = folder.moved_words() {
            return Err(io::Error::other(moved));
        }
        let log = folder.opened()?.keep(output.as_ref())?;
        if keeps_all {
            command.stdout(log.try_clone()?);
        }
        command.stderr(log);
        command.env("PETAL_RUN_DIR", std::path::absolute(folder.path())?);
    }
    loop {
        group.take(&mut command)?;
        let mut child = command.spawn()?;
        let began = Instant::now();
        let began_ns = slot.now_ns();
        slot.ready();
        let ended = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if !slot.wait(POLL) {
                break None;
            }
        };
        let Some(status) = ended else {
            slot.ended(began_ns, None, None);
            group.end();
            return child.wait().map(drop);
        };
        let failure = (!status.success()).then(|| {
            let output = output.as_ref().map(|(folder, output)| {
                format!("; its output is in {}", folder.path().join(output).display())
            });
            format!("it ended with {}{}", words(status), output.unwrap_or_default())
        });
        let has_failed = failure.is_some();
        slot.ended(began_ns, status.code(), failure);
        if has_failed || !slot.wait(START_EACH.saturating_sub(began.elapsed())) {
            return Ok(());
        }
    }
}

/// Works on a connection until the slot's end, and cuts its statement then.
fn work_by_statements(mut session: Box<dyn NeighbourSession>, slot: &SlotClock<'_>) -> Result<()> {
    let canceller = session.canceller();
    let is_over = AtomicBool::new(false);
    // Begin of the work in progress, and 0 between two.
    let working_since_ns = AtomicU64::new(0);
    thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        let (is_over, working_since_ns) = (&is_over, &working_since_ns);
        let clock = *slot;
        let work = move || {
            while !is_over.load(Ordering::Relaxed) {
                let began = Instant::now();
                working_since_ns.store(clock.now_ns(), Ordering::Relaxed);
                let result = session.work();
                let began_ns = working_since_ns.swap(0, Ordering::Relaxed);
                if is_over.load(Ordering::Relaxed) || sender.send((began_ns, result)).is_err() {
                    return;
                }
                thread::sleep(START_EACH.saturating_sub(began.elapsed()));
            }
        };
        Thread::named("neighbour").start_in(scope, work)?;
        slot.ready();
        let end = || {
            is_over.store(true, Ordering::Relaxed);
            let began_ns = working_since_ns.load(Ordering::Relaxed);
            if began_ns > 0 {
                slot.ended(began_ns, None, None);
            }
            canceller.cancel();
        };
        while slot.wait(Duration::ZERO) {
            match ended.recv_timeout(POLL) {
                Ok((began_ns, result)) => {
                    let failure = result.err().map(|why| why.to_string());
                    let has_failed = failure.is_some();
                    slot.ended(began_ns, None, failure);
                    if has_failed {
                        is_over.store(true, Ordering::Relaxed);
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
        end();
        // The channel closes with the thread.
        let asked = Instant::now();
        while !matches!(ended.recv_timeout(POLL), Err(RecvTimeoutError::Disconnected)) {
            if asked.elapsed() > CANCEL_LIMIT {
                canceller.abort();
                break;
            }
        }
        Ok(())
    })
}
