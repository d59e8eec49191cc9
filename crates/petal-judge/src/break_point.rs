//! Finds the highest multiple of a replayed load that a platform holds, and its limit. A load is
//! held if the run was whole, operations did not queue up, and the stated objective was met.

use petal_host::numbers::{counted, decimal, whole};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::delivered::delivered;
use super::estimate::{self, Estimate};
use super::limited_by::limited_with_rate;
use petal_record::observation::Observation;
use petal_record::replay::ReplayOf;
use petal_record::server_work::WorkCount;
use petal_record::sweep::Swept;
use petal_record::{Run, Status, as_text};
use petal_settings::objective::Objective;

/// A figure of the load counts as delivered when its rate, over the rate that was asked, is within
/// this range. Outside of it the answer names the figure.
const DELIVERED: RangeInclusive<f64> = 0.9..=1.1;

/// The axis that multiplies the load.
pub const AXIS: &str = "rate_scale";

/// Verdict on a run: did it hold the load that was due?
#[derive(Debug, Clone, PartialEq)]
pub enum LoadHeld {
    Yes,
    /// The reason why not.
    No(String),
    /// The figure that is missing to call it held.
    Unknown(String),
}

/// Judges one run of an open loop.
pub fn load_held(run: &Run, objective: Option<&Objective>) -> LoadHeld {
    let summary = &run.summary;
    if summary.status != Status::Complete {
        return LoadHeld::No(format!("the run is {}", summary.status.name()));
    }
    if let Some(lost) = summary.sessions_lost.first() {
        return LoadHeld::No(format!(
            "sessions lost: {}, the first by {}",
            whole(summary.sessions_lost.len() as u64),
            lost.code
        ));
    }
    match run.details.backlog {
        None => return LoadHeld::Unknown("it was no open loop: nothing was due".to_owned()),
        Some(backlog) if backlog > u64::from(summary.sessions) => {
            return LoadHeld::No(format!(
                "{backlog} operations were due and not begun at the end",
                backlog = whole(backlog)
            ));
        }
        Some(_) => {}
    }
    let Some(objective) = objective else { return LoadHeld::Yes };
    let seen = Observation::of_run("", Vec::new(), run);
    match objective.figure(|name| seen.metric(name)) {
        Some(value) if objective.is_met(value) => LoadHeld::Yes,
        Some(value) => {
            LoadHeld::No(format!("{objective} was not met: {value} us", value = decimal(value, 0)))
        }
        None => LoadHeld::Unknown(objective.why_unknown()),
    }
}

/// A run at its multiple of the load.
struct JudgedRun<'a> {
    scale: f64,
    round: u32,
    run: &'a Run,
    held: LoadHeld,
}

/// A pass over the multiples, from the lowest upwards.
struct LoadRound {
    number: u32,
    /// The highest up to which all were held.
    held: Option<f64>,
    /// The first that was not.
    failed: Option<f64>,
    /// True of a round that failed a step, ran all of them, or left the higher ones out after a
    /// failure.
    is_over: bool,
}

/// A multiple of the load, over all rounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadStep {
    pub scale: f64,
    pub runs: usize,
    pub held: usize,
    /// Reasons of the runs that did not hold it, or whose outcome is unknown.
    pub reasons: Vec<String>,
    /// The figures of each run at this multiple.
    pub seen: Vec<Observation>,
    /// The rates of the runs for each figure of the load, divided by production's rate times the
    /// scale.
    pub delivered: BTreeMap<WorkCount, Vec<f64>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BreakPoint {
    pub of: ReplayOf,
    pub target: String,
    pub objective: Option<String>,
    /// Sorted by scale.
    pub steps: Vec<LoadStep>,
    /// Completed rounds: those that failed a step or passed the highest one.
    pub rounds: usize,
    /// The highest scale that every round held, with all below it; None: not even the lowest.
    pub holds: Option<f64>,
    /// The lowest scale that some round did not hold, and the lowest that no round held.
    pub fails: Option<f64>,
    pub fails_always: Option<f64>,
    /// A run at 1x or less did not hold it, and neither a cache nor others' work decided that.
    pub is_refuted: bool,
    /// The 95 % interval of the scale at which a round breaks; it includes step size and
    /// round-to-round variation. None if there are fewer than three rounds, or if a round held
    /// every step.
    pub interval: Option<(f64, f64)>,
    /// Reasons why the lowest failing runs failed, and their limits.
    pub cause: Option<String>,
    pub notes: Vec<String>,
}

/// Finds the break point of a sweep. None if no run of the sweep is a replay.
pub fn of(swept: &Swept, objective: Option<&Objective>) -> Option<BreakPoint> {
    let replayed = swept.runs.iter().find_map(|run| run.details.replay.clone())?;
    // The recorded objective, unless another one is given now.
    let stated = replayed.objective.as_deref().and_then(|text| text.parse().ok());
    let objective = objective.or(stated.as_ref());
    let cells = swept.sweep.cells.iter().zip(&swept.runs);
    let mut runs: Vec<JudgedRun<'_>> = cells
        // An interrupted run is repeated when the sweep goes on.
        .filter(|(_, run)| run.summary.status != Status::Interrupted)
        .filter_map(|(cell, run)| {
            let scale = cell.factors.iter().find(|(key, _)| key == AXIS)?.1.parse().ok()?;
            let held = load_held(run, objective);
            Some(JudgedRun { scale, round: cell.repeat, run, held })
        })
        .collect();
    runs.sort_by(|a, b| a.scale.total_cmp(&b.scale).then(a.round.cmp(&b.round)));
    let highest = runs.last().map(|run| run.scale);
    let numbers: BTreeSet<u32> = runs.iter().map(|run| run.round).collect();
    let skipped = |number| swept.sweep.skipped.iter().any(|cell| cell.repeat == number);
    let all = numbers.into_iter().map(|number| {
        let of_round = || runs.iter().filter(move |run| run.round == number);
        let first = of_round().find(|run| run.held != LoadHeld::Yes);
        let is_below = |scale: &f64| first.is_none_or(|first| *scale < first.scale);
        let held = of_round().map(|run| run.scale).rfind(is_below);
        let failed = first.filter(|first| matches!(first.held, LoadHeld::No(_)));
        let is_over = first.is_some() || held == highest || skipped(number);
        LoadRound { number, held, failed: failed.map(|first| first.scale), is_over }
    });
    // A stopped round neither held nor failed its remaining steps. A round without higher steps,
    // because the objective of that time left them out, counts up to its highest held step.
    let (rounds, stopped): (Vec<LoadRound>, Vec<LoadRound>) = all.partition(|round| round.is_over);
    let held: Vec<Option<f64>> = rounds.iter().map(|round| round.held).collect();
    let failed: Vec<f64> = rounds.iter().filter_map(|round| round.failed).collect();
    let first_failed = runs.iter().find(|run| run.held != LoadHeld::Yes);
    let mut notes = notes(rounds.len(), &runs);
    notes.extend(stopped.iter().filter_map(|LoadRound { number, held, .. }| {
        Some(format!("round {number} was stopped after {}x: the answer is without it", (*held)?))
    }));
    Some(BreakPoint {
        of: replayed,
        target: runs
            .first()
            .and_then(|first| first.run.summary.setting("db"))
            .map_or_else(String::new, |db| as_text(db, "-")),
        objective: objective.map(ToString::to_string),
        holds: held.iter().copied().reduce(|one, other| Some(one?.min(other?))).flatten(),
        fails: failed.iter().copied().reduce(f64::min),
        fails_always: failed
            .iter()
            .copied()
            .reduce(f64::max)
            .filter(|_| failed.len() == rounds.len()),
        is_refuted: runs.iter().any(|it| {
            let seen = || Observation::of_run("", Vec::new(), it.run);
            let is_failed = it.scale <= 1.0 && matches!(it.held, LoadHeld::No(_));
            is_failed && crate::not_storage(&seen()).is_none()
        }),
        interval: interval(&held, &failed),
        cause: first_failed.map(cause),
        rounds: rounds.len(),
        notes,
        steps: steps(&runs),
    })
}

/// Returns the interval of the break point. A round breaks between its highest held step (or 0) and
/// its first failed step. The interval goes from the lower end of the held steps' interval to the
/// upper end of the failed steps' interval.
fn interval(held: &[Option<f64>], failed: &[f64]) -> Option<(f64, f64)> {
    if held.len() != failed.len() {
        return None;
    }
    let held = held.iter().map(|scale| scale.unwrap_or(0.0)).collect();
    let (low, _) = Estimate::of(held)?.interval?;
    let (_, high) = Estimate::of(failed.to_vec())?.interval?;
    Some((low.max(0.0), high))
}

fn steps(runs: &[JudgedRun<'_>]) -> Vec<LoadStep> {
    let mut steps: Vec<LoadStep> = Vec::new();
    for JudgedRun { scale, run, held, .. } in runs {
        if steps.last().is_none_or(|last| last.scale != *scale) {
            steps.push(LoadStep { scale: *scale, ..LoadStep::default() });
        }
        let Some(step) = steps.last_mut() else { continue };
        step.runs += 1;
        match held {
            LoadHeld::Yes => step.held += 1,
            LoadHeld::No(why) | LoadHeld::Unknown(why) => step.reasons.push(why.clone()),
        }
        step.seen.push(Observation::of_run("", Vec::new(), run));
        for (figure, of) in delivered(run) {
            if let Some(ratio) = of.ratio() {
                step.delivered.entry(figure).or_default().push(ratio);
            }
        }
    }
    steps
}

/// Returns the reason, then the run's limit, by the evidence that findings use.
fn cause(JudgedRun { run, held, .. }: &JudgedRun<'_>) -> String {
    let why = match held {
        LoadHeld::Yes => String::new(),
        LoadHeld::No(why) => why.clone(),
        LoadHeld::Unknown(why) => return format!("not known: {why}"),
    };
    let io = |name: &str, words: &str| {
        let mean = run.headline_window().run.summary.io_latency_us.get(name)?.mean?;
        Some(format!("{words} {}", micros(mean)))
    };
    let latencies = [io("read", "read"), io("write", "block write"), io("log", "log write")];
    let latencies: Vec<String> = latencies.into_iter().flatten().collect();
    let limit = limited_with_rate(run);
    let mut all = format!("limited by: {limit}; {why}");
    if !latencies.is_empty() {
        all.push_str(&format!(" ({})", latencies.join(", ")));
    }
    all
}

fn micros(us: f64) -> String {
    if us < 1000.0 { format!("{us:.0} us") } else { format!("{} ms", decimal(us / 1000.0, 1)) }
}

fn notes(rounds: usize, runs: &[JudgedRun<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    if (1..3).contains(&rounds) {
        notes.push(format!(
            "{}: three or more (REPEATS) show how far the answer varies",
            if rounds == 1 { "one round" } else { "two rounds" }
        ));
    }
    let held = runs.iter().filter(|it| it.held == LoadHeld::Yes);
    let warned = |id: &str| held.clone().filter(|it| it.run.summary.finding(id).is_some()).count();
    for (id, means) in [
        ("cached-by-os", "the page cache served reads, which production's storage may have served"),
        ("cached-by-storage", "a cache of the storage served reads"),
        ("cached-by-database", "the database's cache served reads: load more data"),
        (
            "deferred-writes",
            "shorter than a checkpoint cycle, so that writes were put off, not paid",
        ),
        ("unstable", "the rate was not steady"),
        ("other-load", "others used the device or the processors"),
        ("not-durable", "commits did not wait for the log to be durable"),
        ("generator-bound", "petal itself took the processors"),
    ] {
        let count = warned(id);
        if count > 0 {
            notes.push(format!("{id} in {count} of the runs that held it: {means}"));
        }
    }
    notes
}

impl LoadStep {
    /// The mean over the runs of a figure; None unless all of them know it.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let values: Option<Vec<f64>> = self.seen.iter().map(|seen| seen.metric(name)).collect();
        estimate::mean(&values?)
    }

    /// Returns the mean delivered share of a figure over the runs; None if it is unknown.
    pub fn delivered(&self, figure: WorkCount) -> Option<f64> {
        estimate::mean(self.delivered.get(&figure).filter(|ratios| ratios.len() == self.runs)?)
    }
}

impl BreakPoint {
    /// Lists the figures whose rate at the highest held step is outside of [`DELIVERED`], such as
    /// `; at 2x it delivered 0.40x of its block writes`; None if all are within it.
    fn uneven_delivery(&self) -> Option<String> {
        let held = self.steps.iter().find(|step| Some(step.scale) == self.holds)?;
        let other = WorkCount::ALL.into_iter().filter_map(|figure| {
            let ratio = held.delivered(figure).filter(|ratio| !DELIVERED.contains(ratio))?;
            Some(format!("{ratio:.2}x of its {}", figure.words()))
        });
        let other: Vec<String> = other.collect();
        (!other.is_empty())
            .then(|| format!("; at {}x it delivered {}", held.scale, other.join(", ")))
    }

    /// The answer in one line.
    pub fn line(&self) -> String {
        let what =
            if self.of.time.starts_with("busiest") { "the busiest interval" } else { "the load" };
        let objective = self
            .objective
            .as_ref()
            .map_or_else(String::new, |objective| format!(" within {objective}"));
        let cause = self.cause.as_deref().unwrap_or("not determined");
        let range = match (self.fails, self.fails_always) {
            (Some(first), Some(always)) if first < always => {
                format!("between {first}x and {always}x in {} rounds", self.rounds)
            }
            (Some(first), _) => format!("at {first}x"),
            (None, _) => String::new(),
        };
        let range = match self.interval_words() {
            Some(interval) => format!("{range}, breaks at {interval} (95 %)"),
            None => range,
        };
        let of = &self.of.database;
        let answer = match (self.holds, self.fails) {
            (None, None) if self.cause.is_some() => {
                format!("whether {what} of {of} is held{objective} is {cause}")
            }
            (None, None) => "no run ended: nothing is known".to_owned(),
            (None, Some(_)) if self.is_refuted => {
                format!("does not sustain {what} of {of}{objective}: fails {range}; {cause}")
            }
            (None, Some(_)) => format!(
                "fails {range} {what} of {of}{objective}, the lowest tested; {cause}{}",
                self.room_words()
            ),
            (Some(holds), None) if self.cause.is_some() => format!(
                "sustains {holds}x {what} of {of}{objective}, above it {cause}{}",
                self.room_words()
            ),
            (Some(holds), None) => format!(
                "sustains {holds}x {what} of {of}{objective}, the highest tested{}",
                self.room_words()
            ),
            (Some(holds), Some(_)) => format!(
                "sustains {holds}x {what} of {of}{objective}, fails {range}; {cause}{}",
                self.room_words()
            ),
        };
        let struck_out = self.struck_out();
        let verdict =
            struck_out.map_or_else(String::new, |why| format!("not a storage test ({why}): "));
        verdict + &answer + &self.uneven_delivery().unwrap_or_default()
    }

    /// The findings that make held runs no storage test, each with its number of runs; None if all
    /// are.
    fn struck_out(&self) -> Option<String> {
        let is_held = |step: &&LoadStep| self.holds.is_some_and(|holds| step.scale <= holds);
        let seen = || self.steps.iter().filter(is_held).flat_map(|step| &step.seen);
        let ids = crate::by_key(seen().filter_map(crate::not_storage).map(|id| (id, ())));
        let parts = ids.iter().map(|(id, runs)| {
            format!("{id} in {} of {}", runs.len(), counted(seen().count() as u64, "run"))
        });
        let parts = parts.collect::<Vec<_>>().join(", ");
        (!parts.is_empty()).then_some(parts)
    }

    /// Returns whether one production fits; None if that was not tried or the runs cannot show it, as
    /// runs that a cache served.
    pub fn fits(&self) -> Option<bool> {
        match self.holds {
            Some(holds) if holds >= 1.0 => self.struck_out().is_none().then_some(true),
            _ => self.is_refuted.then_some(false),
        }
    }

    /// Returns how many more of this database fit; None if it does not fit, or if that is unknown.
    pub fn room(&self) -> Option<f64> {
        Some(self.holds.filter(|_| self.fits() == Some(true))? - 1.0)
    }

    /// Returns the room as text, such as `1.5`, or `at least 1.5` if nothing failed.
    pub fn room_figure(&self) -> Option<String> {
        let least = if self.fails.is_none() { "at least " } else { "" };
        Some(format!("{least}{:.1}", self.room()?))
    }

    fn room_words(&self) -> String {
        match (self.fits(), self.room()) {
            (_, Some(room)) if room >= 0.05 => {
                let room = self.room_figure().unwrap_or_default();
                format!("; room for {room} more of this database")
            }
            (Some(true), _) if self.fails.is_none() => "; it fits".to_owned(),
            (Some(true), _) => "; no room for more".to_owned(),
            (Some(false), _) => "; it does not fit".to_owned(),
            (None, _) if self.struck_out().is_some() => {
                "; whether the storage holds 1x is not known".to_owned()
            }
            (None, _) => "; it is not known whether 1x is held".to_owned(),
        }
    }

    /// Returns the interval as text, such as `1.2x to 2.8x`.
    pub fn interval_words(&self) -> Option<String> {
        let short = |scale: f64| (scale * 100.0).round() / 100.0;
        self.interval.map(|(low, high)| format!("{}x to {}x", short(low), short(high)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture::{self, replay_sweep as swept};
    use petal_record::sweep::CellFailure;

    #[test]
    fn a_load_that_a_cache_holds_does_not_fit_the_storage() {
        let mut cached = swept(&[(1.0, 1, 0), (2.0, 1, 0)]);
        assert_eq!(of(&cached, None).unwrap().fits(), Some(true));
        for run in &mut cached.runs {
            fixture::read_through_page_cache(run);
            (run.summary.served_by, run.summary.headline) = (None, None);
            crate::conclude(run);
        }
        let found = of(&cached, None).unwrap();
        let words = "not a storage test (cached-by-os in 2 of 2 runs): sustains 2x ";
        assert!(found.line().starts_with(words), "{}", found.line());
        assert_eq!(found.fits(), None);
    }

    #[test]
    fn others_work_refutes_no_fit() {
        use petal_record::headline::Tested;
        let mut failed = swept(&[(1.0, 1, 5000)]);
        assert_eq!(of(&failed, None).unwrap().fits(), Some(false));
        for run in &mut failed.runs {
            crate::conclude(run);
            let headline = run.summary.headline.as_mut().unwrap();
            headline.verdict.tested = Tested::SharedProcessors;
            (headline.verdict.asked_for, headline.limited_by.shared_with) = Default::default();
        }
        let found = of(&failed, None).unwrap();
        assert_eq!(found.fits(), None);
        assert!(found.line().contains("the lowest tested; limited by: "), "{}", found.line());
    }

    #[test]
    fn the_answer_is_bracketed_by_the_rounds() {
        let two = swept(&[(1.0, 1, 0), (2.0, 1, 3), (3.0, 1, 9999), (1.0, 2, 0), (2.0, 2, 5000)]);
        let found = of(&two, None).unwrap();
        assert_eq!(
            (found.holds, found.fails, found.fails_always),
            (Some(1.0), Some(2.0), Some(3.0))
        );
        let line = found.line();
        assert!(
            line.starts_with(
                "sustains 1x the busiest interval of PROD, fails between 2x and 3x in 2 rounds"
            ),
            "{line}"
        );
        assert!(line.contains("limited by:") && line.ends_with("no room for more"), "{line}");
        assert_eq!(
            found.steps.iter().map(|step| (step.runs, step.held)).collect::<Vec<_>>(),
            [(2, 2), (2, 1), (1, 0)]
        );
        assert!(found.notes[0].starts_with("two rounds: "));
    }

    #[test]
    fn the_answer_says_what_was_not_delivered() {
        let mut one = swept(&[(0.5, 1, 0), (1.0, 1, 0), (2.0, 1, 9999)]);
        let done = one.runs[0].headline_window().run.summary.per_second;
        let (commits, writes) = (done.commits.unwrap(), done.physical_write_blocks.unwrap());
        for (run, scale) in one.runs.iter_mut().zip([0.5, 1.0, 2.0]) {
            run.summary.settings.insert(AXIS.to_owned(), scale.into());
            let of = run.details.replay.as_mut().unwrap();
            of.per_second.insert(WorkCount::Commits, commits);
            of.per_second.insert(WorkCount::BlockWrites, writes * 4.0);
        }
        let found = of(&one, None).unwrap();
        let delivered = |step: usize| {
            [WorkCount::Commits, WorkCount::BlockWrites, WorkCount::RedoBytes]
                .map(|figure| found.steps[step].delivered(figure))
        };
        assert_eq!(delivered(0), [Some(2.0), Some(0.5), None]);
        assert_eq!(delivered(1), [Some(1.0), Some(0.25), None]);
        let line = found.line();
        assert!(line.ends_with("; at 1x it delivered 0.25x of its block writes"), "{line}");
    }

    #[test]
    fn three_rounds_give_an_interval_that_holds_steps_and_rounds() {
        let round = |repeat: u32, breaks: f64| {
            let backlog = move |scale: f64| if scale < breaks { 0 } else { 9999 };
            [1.0, 2.0, 3.0]
                .into_iter()
                .filter(move |scale| *scale <= breaks)
                .map(move |scale| (scale, repeat, backlog(scale)))
        };
        let rounds = |breaks: &[f64]| {
            let cells: Vec<_> =
                (1..).zip(breaks).flat_map(|(repeat, at)| round(repeat, *at)).collect();
            of(&swept(&cells), None).unwrap()
        };
        let alike = rounds(&[3.0, 3.0, 3.0]);
        assert_eq!(alike.interval, Some((2.0, 3.0)));
        assert!(
            alike.line().contains("fails at 3x, breaks at 2x to 3x (95 %)"),
            "{}",
            alike.line()
        );
        let (low, high) = rounds(&[2.0, 3.0, 3.0, 3.0]).interval.unwrap();
        // Means of 1.75 and 2.75, a standard error of 0.25, t of 3.18.
        assert!((low - 0.954).abs() < 0.01 && (high - 3.546).abs() < 0.01, "{low} to {high}");
        // A round that breaks below the lowest step.
        assert_eq!(rounds(&[1.0, 1.0, 1.0]).interval, Some((0.0, 1.0)));
        assert_eq!(rounds(&[3.0, 3.0]).interval, None);
        assert_eq!(rounds(&[3.0, 3.0, 3.5]).interval, None, "a round held all");
    }

    #[test]
    fn a_load_that_queues_up_is_not_held_and_one_that_never_fails_has_no_limit() {
        let at_once = of(&swept(&[(3.0, 1, 100_000)]), None).unwrap();
        assert_eq!(at_once.holds, None);
        let line = at_once.line();
        assert!(
            line.starts_with("fails at 3x the busiest interval of PROD, the lowest tested;")
                && line.ends_with("; it is not known whether 1x is held"),
            "{line}"
        );
        assert_eq!(at_once.fits(), None);
        let at_one = of(&swept(&[(0.5, 1, 0), (1.0, 1, 9999)]), None).unwrap();
        assert_eq!(at_one.fits(), Some(false));
        assert!(at_one.line().ends_with("; it does not fit"), "{}", at_one.line());
        let below = of(&swept(&[(0.5, 1, 9999)]), None).unwrap();
        assert!(
            below
                .line()
                .starts_with("does not sustain the busiest interval of PROD: fails at 0.5x"),
            "{}",
            below.line()
        );
        let never = of(&swept(&[(0.5, 1, 0), (2.5, 1, 0)]), None).unwrap();
        assert_eq!(
            never.line(),
            "sustains 2.5x the busiest interval of PROD, the highest tested; room for at least 1.5 more of this database"
        );
        assert_eq!(never.room_figure().unwrap(), "at least 1.5");
        // Nothing above was tried.
        let once = of(&swept(&[(0.5, 1, 0), (1.0, 1, 0)]), None).unwrap();
        assert!(once.line().ends_with("the highest tested; it fits"), "{}", once.line());
        let half = of(&swept(&[(0.5, 1, 0)]), None).unwrap();
        assert_eq!(half.fits(), None);
        assert!(half.line().ends_with("; it is not known whether 1x is held"), "{}", half.line());
    }

    #[test]
    fn a_round_that_was_stopped_lowers_no_answer() {
        let cells = [(1.0, 1, 0), (4.0, 1, 0), (16.0, 1, 0), (1.0, 2, 0)];
        let found = of(&swept(&cells), None).unwrap();
        assert_eq!((found.holds, found.rounds), (Some(16.0), 1));
        let stopped = "round 2 was stopped after 1x: the answer is without it";
        assert!(found.notes.iter().any(|note| note == stopped), "{:?}", found.notes);
        // An interrupted run is done again: it failed nothing.
        let mut cut = swept(&[(1.0, 1, 0), (2.0, 1, 9999)]);
        cut.runs[1].summary.status = Status::Interrupted;
        assert_eq!(of(&cut, None).unwrap().fails, None);
    }

    #[test]
    fn a_round_that_the_objective_of_then_ended_counts_for_what_it_held() {
        let mut two = swept(&[(1.0, 1, 0), (2.0, 1, 0), (1.0, 2, 0), (2.0, 2, 0), (4.0, 2, 0)]);
        let skipped = CellFailure { number: 3, repeat: 1, message: String::new() };
        two.sweep.skipped.push(skipped);
        assert_eq!(of(&two, None).unwrap().holds, Some(2.0));
    }

    #[test]
    fn a_run_that_cannot_be_judged_is_no_failure() {
        let mut two = swept(&[(1.0, 1, 0), (2.0, 1, 0)]);
        for run in &mut two.runs {
            run.summary.io_latency_us.clear();
            (run.summary.steady, run.details.steady) = (None, None);
        }
        let objective: Objective = "read.avg=1ms".parse().unwrap();
        let found = of(&two, Some(&objective)).unwrap();
        assert_eq!((found.holds, found.fails, found.fits()), (None, None, None));
        let line = found.line();
        assert!(line.contains("is held within read.avg=1ms is not known"), "{line}");
    }

    #[test]
    fn a_mean_of_a_step_needs_every_run() {
        let mut two = swept(&[(1.0, 1, 0), (1.0, 2, 0)]);
        let read_us = |two: &Swept| of(two, None).unwrap().steps[0].figure("read_us");
        assert!(read_us(&two).is_some());
        let run = &mut two.runs[0];
        run.summary.io_latency_us.clear();
        (run.summary.steady, run.details.steady) = (None, None);
        assert_eq!(read_us(&two), None);
    }

    #[test]
    fn the_cause_is_what_the_load_ran_into_and_not_its_rate() {
        let missed = swept(&[(1.0, 1, 0)]);
        let objective: Objective = "read.avg=1us".parse().unwrap();
        let cause = of(&missed, Some(&objective)).unwrap().cause.unwrap();
        assert!(cause.starts_with("limited by: ") && !cause.contains("RATE"), "{cause}");
    }

    #[test]
    fn an_objective_that_cannot_be_judged_is_not_met() {
        let mut run = fixture::mixed_run();
        run.details.backlog = Some(0);
        let strict: Objective = "read.avg=1us".parse().unwrap();
        let loose: Objective = "read.avg=10s".parse().unwrap();
        assert!(
            matches!(load_held(&run, Some(&strict)), LoadHeld::No(why) if why.starts_with("read.avg=1us was not met"))
        );
        assert_eq!(load_held(&run, Some(&loose)), LoadHeld::Yes);
        run.summary.io_latency_us.clear();
        run.summary.steady = None;
        run.details.steady = None;
        assert!(matches!(load_held(&run, Some(&loose)), LoadHeld::Unknown(_)));
        run.details.backlog = None;
        assert!(matches!(load_held(&run, None), LoadHeld::Unknown(_)));
    }
}
