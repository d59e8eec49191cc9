//! The rule that chose the cells of a sweep, and the peak and knee that it found.

use super::super::numbers::{counted, percent, rate};
use petal_judge::next_cell::{self, FoundOnLine};
use petal_model::record::Status;
use petal_model::record::sweep::{SweepPlan, Swept};
use petal_model::record::sweep_design::Design;

/// Runs that are done, and of how many; each next cell of some designs is only chosen then.
pub fn runs_done(swept: &Swept) -> String {
    let (sweep, plan) = (&swept.sweep, &swept.sweep.plan);
    let done = sweep.cells.len();
    match plan.design.is_grid() {
        true => format!("{done} of {} runs done", plan.cells().len() * plan.repeats as usize),
        false => format!("{} done", counted(done as u64, "run")),
    }
}

/// Whether these are all runs.
pub(super) fn state(swept: &Swept) -> String {
    let (sweep, plan) = (&swept.sweep, &swept.sweep.plan);
    let is_whole = match plan.design.is_grid() {
        true => sweep.cells.len() == plan.cells().len() * plan.repeats as usize,
        false => sweep.status == Status::Complete,
    };
    let state = match (sweep.status, is_whole) {
        (Status::Complete, true) => "complete",
        (_, true) => "every cell is done",
        _ => "not complete: the same command goes on with it",
    };
    format!("{}; {state}", runs_done(swept))
}

/// The repeats of a plan.
pub fn repeats(plan: &SweepPlan) -> String {
    match &plan.design {
        Design::Grid if plan.repeats == 1 => counted(1_u32, "repeat"),
        Design::Grid => format!("{}, interleaved", counted(plan.repeats, "repeat")),
        Design::Ladder => format!("{} at peak and knee (ladder)", plan.repeats),
        Design::Adaptive { precision, runs_max } => format!(
            "adaptive: until peak and knee are within {} %, {runs_max} runs a line at most",
            percent(*precision)
        ),
    }
}

/// Peak and knee of each line of a sweep that chose its cells; nothing of a grid.
pub fn found(swept: &Swept) -> Vec<String> {
    next_cell::found(swept).iter().map(|line| words(line, &swept.sweep.plan)).collect()
}

fn words(line: &FoundOnLine, plan: &SweepPlan) -> String {
    let found = &line.found;
    let runs = counted(line.runs as u64, "run");
    let mut words = format!(
        "{}, by a curve through {runs}: peak {} PIOPS within {} % at about {}",
        line.name,
        rate(found.load),
        percent(found.load_off),
        counted(line.peak_sessions, "session"),
    );
    words.push_str(&match line.knee_sessions.zip(found.power_off) {
        Some((knee, off)) => format!(
            "; knee at {}, at most {} % below the best PIOPS over latency",
            counted(knee, "session"),
            percent(off)
        ),
        None => "; no knee, because no read latency is known".to_owned(),
    });
    if let Design::Adaptive { precision, runs_max } = plan.design
        && !found.is_within(precision)
        && line.runs >= runs_max as usize
    {
        let more = 2 * runs_max;
        words.push_str(&format!(
            "; not within {} % after the most runs: --max-runs {more} goes on",
            percent(precision)
        ));
    }
    words
}
