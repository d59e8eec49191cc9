//! Up to which multiple of a replayed load a platform holds it, and what ends it. A load is held
//! when the run was whole, operations did not queue up, and the stated objective was met.

use std::collections::{BTreeMap, BTreeSet};

use super::estimate::Estimate;
use super::verdict::verdict;
use crate::record::observation::Observation;
use crate::record::replay::ReplayOf;
use crate::record::sweep::Swept;
use crate::record::{Run, Status, as_text};
use crate::settings::objective::Objective;

/// The axis that multiplies the load.
pub const AXIS: &str = "rate_scale";

/// Whether a run held the load that was due.
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
            "{} sessions were lost, the first by {}",
            summary.sessions_lost.len(),
            lost.code
        ));
    }
    match run.details.backlog {
        None => return LoadHeld::Unknown("it was no open loop: nothing was due".to_owned()),
        Some(backlog) if backlog > u64::from(summary.sessions) => {
            return LoadHeld::No(format!("{backlog} operations were due and not begun at the end"));
        }
        Some(_) => {}
    }
    let Some(objective) = objective else { return LoadHeld::Yes };
    let seen = Observation::of_run("", Vec::new(), run);
    match seen.metric(objective.metric()) {
        Some(value) if objective.is_met(value) => LoadHeld::Yes,
        Some(value) => LoadHeld::No(format!("{objective} was not met: {value:.0} us")),
        None => LoadHeld::Unknown(format!("{objective}: the run does not tell that figure")),
    }
}

/// A multiple of the load, over all rounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadStep {
    pub scale: f64,
    pub runs: usize,
    pub held: usize,
    /// Of the runs that did not hold it, or of which it is not known.
    pub reasons: Vec<String>,
    /// Means of what the runs did, by the names of observations.
    pub figures: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BreakPoint {
    pub of: ReplayOf,
    pub target: String,
    pub objective: Option<String>,
    /// In the order of the scales.
    pub steps: Vec<LoadStep>,
    pub rounds: usize,
    /// The highest scale that every round held, with all below it; None: not even the lowest.
    pub holds: Option<f64>,
    /// The lowest scale that some round did not hold, and the lowest that no round held.
    pub fails: Option<f64>,
    pub fails_always: Option<f64>,
    /// The 95 % interval of the scale at which a round breaks, steps and rounds in it. None under
    /// three rounds, and where a round held all that was tried.
    pub interval: Option<(f64, f64)>,
    /// Why the lowest failing runs failed, and what limited them.
    pub cause: Option<String>,
    pub notes: Vec<String>,
}

/// Finds the break point of a sweep. None where no run of the sweep is a replay.
pub fn of(swept: &Swept, objective: Option<&Objective>) -> Option<BreakPoint> {
    let replayed = swept.runs.iter().find_map(|run| run.details.replay.clone())?;
    // As it was stated then, unless another is stated now.
    let stated = replayed.objective.as_deref().and_then(|text| text.parse().ok());
    let objective = objective.or(stated.as_ref());
    let cells = swept.sweep.cells.iter().zip(&swept.runs);
    let mut runs: Vec<(f64, u32, &Run, LoadHeld)> = cells
        .filter_map(|(cell, run)| {
            let scale = cell.factors.iter().find(|(key, _)| key == AXIS)?.1.parse().ok()?;
            Some((scale, cell.repeat, run, load_held(run, objective)))
        })
        .collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let rounds: BTreeSet<u32> = runs.iter().map(|(_, repeat, ..)| *repeat).collect();
    // Of each round the highest scale up to which all were held, and the first that was not.
    let mut held: Vec<Option<f64>> = Vec::new();
    let mut failed: Vec<f64> = Vec::new();
    for round in &rounds {
        let of_round = runs.iter().filter(|(_, repeat, ..)| repeat == round);
        let broken = of_round.clone().find(|(.., held)| *held != LoadHeld::Yes).map(|run| run.0);
        let below = |scale: &f64| broken.is_none_or(|broken| *scale < broken);
        held.push(of_round.map(|run| run.0).filter(below).reduce(f64::max));
        failed.extend(broken);
    }
    let lowest_failed = failed.iter().copied().reduce(f64::min);
    let first_failed = runs.iter().find(|run| run.3 != LoadHeld::Yes);
    let first = runs.first().map(|run| run.2);
    Some(BreakPoint {
        of: replayed,
        target: first
            .and_then(|run| run.summary.setting("db"))
            .map_or_else(String::new, |db| as_text(db, "-")),
        objective: objective.map(ToString::to_string),
        holds: held.iter().copied().reduce(|one, other| Some(one?.min(other?))).flatten(),
        fails: lowest_failed,
        fails_always: failed
            .iter()
            .copied()
            .reduce(f64::max)
            .filter(|_| failed.len() == rounds.len()),
        interval: interval(&held, &failed),
        cause: first_failed.map(|(_, _, run, held)| cause(run, held)),
        rounds: rounds.len(),
        notes: notes(rounds.len(), &runs),
        steps: steps(&runs),
    })
}

/// A round breaks between what it held, or nothing, and what it did not. The interval goes from the
/// lower end of the interval of the one to the upper end of the interval of the other.
fn interval(held: &[Option<f64>], failed: &[f64]) -> Option<(f64, f64)> {
    if held.len() != failed.len() {
        return None;
    }
    let held = held.iter().map(|scale| scale.unwrap_or(0.0)).collect();
    let (low, _) = Estimate::of(held)?.interval?;
    let (_, high) = Estimate::of(failed.to_vec())?.interval?;
    Some((low.max(0.0), high))
}

fn steps(runs: &[(f64, u32, &Run, LoadHeld)]) -> Vec<LoadStep> {
    const FIGURES: [&str; 9] = [
        "ops_s",
        "piops",
        "commits_s",
        "redo_mb_s",
        "read_us",
        "log_us",
        "op_p99_us",
        "select_p99_us",
        "update_p99_us",
    ];
    let mut steps: Vec<LoadStep> = Vec::new();
    for (scale, _, run, held) in runs {
        if steps.last().is_none_or(|last| last.scale != *scale) {
            steps.push(LoadStep { scale: *scale, ..LoadStep::default() });
        }
        let Some(step) = steps.last_mut() else { continue };
        step.runs += 1;
        match held {
            LoadHeld::Yes => step.held += 1,
            LoadHeld::No(why) | LoadHeld::Unknown(why) => step.reasons.push(why.clone()),
        }
        let seen = Observation::of_run("", Vec::new(), run);
        for name in FIGURES {
            let Some(value) = seen.metric(name) else { continue };
            let mean = step.figures.entry(name.to_owned()).or_insert(0.0);
            *mean += (value - *mean) / step.runs as f64;
        }
    }
    steps
}

/// The reason, then what limited the run, by the evidence that findings rest on.
fn cause(run: &Run, held: &LoadHeld) -> String {
    let why = match held {
        LoadHeld::Yes => String::new(),
        LoadHeld::No(why) => why.clone(),
        LoadHeld::Unknown(why) => format!("not known: {why}"),
    };
    let io = |name: &str, words: &str| {
        let mean = run.headline().run.summary.io_latency_us.get(name)?.mean?;
        Some(format!("{words} {}", micros(mean)))
    };
    let latencies = [io("read", "read"), io("write", "block write"), io("log", "log write")];
    let latencies: Vec<String> = latencies.into_iter().flatten().collect();
    let limit = verdict(run).limited_by;
    let mut all = format!("limited by: {limit}; {why}");
    if !latencies.is_empty() {
        all.push_str(&format!(" ({})", latencies.join(", ")));
    }
    all
}

fn micros(us: f64) -> String {
    if us < 1000.0 { format!("{us:.0} us") } else { format!("{:.1} ms", us / 1000.0) }
}

fn notes(rounds: usize, runs: &[(f64, u32, &Run, LoadHeld)]) -> Vec<String> {
    let mut notes = Vec::new();
    if rounds < 3 {
        notes.push(format!(
            "{} of each step: three or more (REPEATS) tell how far the answer varies",
            if rounds == 1 { "one run" } else { "two runs" }
        ));
    }
    let held = runs.iter().filter(|run| run.3 == LoadHeld::Yes);
    let warned = |id: &str| held.clone().filter(|run| run.2.summary.finding(id).is_some()).count();
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

impl BreakPoint {
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
        match (self.holds, self.fails) {
            (None, None) => "no run ended: nothing is known".to_owned(),
            (None, Some(_)) => format!(
                "does not hold {what} of {}{objective}: fails {range}; {cause}",
                self.of.database
            ),
            (Some(holds), None) => format!(
                "holds {holds}x {what} of {}{objective}, the highest that was tried{}",
                self.of.database,
                room(holds)
            ),
            (Some(holds), Some(_)) => format!(
                "holds {holds}x {what} of {}{objective}, fails {range}; {cause}{}",
                self.of.database,
                room(holds)
            ),
        }
    }

    /// Such as `1.2x to 2.8x`.
    pub fn interval_words(&self) -> Option<String> {
        let short = |scale: f64| (scale * 100.0).round() / 100.0;
        self.interval.map(|(low, high)| format!("{}x to {}x", short(low), short(high)))
    }
}

fn room(holds: f64) -> String {
    match holds - 1.0 {
        room if room >= 0.05 => format!("; room for {room:.1} more of this database"),
        room if room >= 0.0 => "; no room beside it".to_owned(),
        _ => "; it does not fit".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;
    use crate::record::sweep::{Axis, Sweep, SweepCell, SweepPlan};

    /// A round of runs at these scales, each with its backlog.
    fn swept(cells: &[(f64, u32, u64)]) -> Swept {
        let mut runs = Vec::new();
        let mut kept = Vec::new();
        for (scale, repeat, backlog) in cells {
            let mut run = fixture::mixed_run();
            run.details.backlog = Some(*backlog);
            let of =
                ReplayOf { database: "PROD".into(), time: "busiest".into(), ..ReplayOf::default() };
            run.details.replay = Some(of);
            runs.push(run);
            kept.push(SweepCell {
                number: 1,
                repeat: *repeat,
                factors: vec![(AXIS.to_owned(), scale.to_string())],
                folder: String::new(),
                status: Status::Complete,
            });
        }
        let axes = vec![Axis { key: AXIS.to_owned(), values: Vec::new() }];
        let sweep = Sweep {
            format: String::new(),
            petal_version: String::new(),
            engine: String::new(),
            started_at: String::new(),
            status: Status::Complete,
            plan: SweepPlan { axes, ..SweepPlan::default() },
            cells: kept,
            failures: Vec::new(),
            skipped: Vec::new(),
            replay: None,
        };
        Swept { sweep, runs }
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
                "holds 1x the busiest interval of PROD, fails between 2x and 3x in 2 rounds"
            ),
            "{line}"
        );
        assert!(line.contains("limited by:") && line.ends_with("no room beside it"), "{line}");
        assert_eq!(
            found.steps.iter().map(|step| (step.runs, step.held)).collect::<Vec<_>>(),
            [(2, 2), (2, 1), (1, 0)]
        );
        assert!(found.notes[0].starts_with("two runs of each step"));
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
        assert!(
            at_once.line().starts_with("does not hold the busiest interval of PROD: fails at 3x")
        );
        let never = of(&swept(&[(0.5, 1, 0), (2.5, 1, 0)]), None).unwrap();
        assert_eq!(
            never.line(),
            "holds 2.5x the busiest interval of PROD, the highest that was tried; room for 1.5 more of this database"
        );
        assert!(of(&swept(&[(0.5, 1, 0)]), None).unwrap().line().ends_with("it does not fit"));
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
