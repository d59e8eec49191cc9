//! The rule that chose the cells of a sweep, and the peak and knee that it found.

use super::super::numbers::{counted, percent, rate};
use petal_judge::next_cell::{self, CellEnd, FoundOnLine, LoadWithinLatency, RepeatedCell};
use petal_record::Status;
use petal_record::sweep::{SweepPlan, Swept};
use petal_record::sweep_design::Design;

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
        _ if swept.is_at_work => swept.status_words(),
        (Status::Complete, true) => "complete",
        (_, true) if plan.peak_run_s > 0 && swept.peak_run.is_none() => {
            "the last run at the peak is missing: the same command makes it"
        }
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
        Design::Repeated { precision, runs_max } => format!(
            "each cell until its PIOPS are within {} %, {runs_max} at most",
            percent(*precision)
        ),
        Design::Search { within } => {
            format!(
                "a search for the most sessions within {within}, {} of the last ones",
                plan.repeats
            )
        }
    }
}

/// Peak and knee of each line of a sweep that chose its cells, or how near its repeats are; nothing
/// of a grid.
pub fn found(swept: &Swept) -> Vec<String> {
    let plan = &swept.sweep.plan;
    let lines = next_cell::found(swept);
    let lines = lines.iter().map(|line| words(line, plan));
    let within = next_cell::within_latency(swept);
    let within = within.iter().map(|line| within_words(line, &plan.design));
    lines.chain(known(&RepeatedCell::of(swept), &plan.design)).chain(within).collect()
}

/// The number of cells that are known within the precision, and each other one.
fn known(cells: &[RepeatedCell], design: &Design) -> Vec<String> {
    let Design::Repeated { precision, runs_max } = design else { return Vec::new() };
    let (near, others): (Vec<&RepeatedCell>, Vec<&RepeatedCell>) =
        cells.iter().partition(|cell| cell.end == Some(CellEnd::Width));
    let runs = || near.iter().map(|cell| cell.runs as u64);
    let after = match runs().min().zip(runs().max()) {
        None => String::new(),
        Some((least, most)) if least == most => format!(", after {}", counted(most, "run")),
        Some((least, most)) => format!(", after {least} to {}", counted(most, "run")),
    };
    let all = counted(cells.len() as u64, "cell");
    let first = format!(
        "{} of {all} have PIOPS within {} %{after}, by intervals that hold at any number of runs",
        near.len(),
        percent(*precision)
    );
    let rest = others.into_iter().map(|cell| {
        let within =
            cell.off.map_or("not known".to_owned(), |off| format!("within {} %", percent(off)));
        let end = match cell.end {
            Some(CellEnd::MostRuns) => format!(", the most: --max-runs {} goes on", 2 * runs_max),
            Some(CellEnd::NoFigures) => {
                ", one without figures: --again-failed repeats it".to_owned()
            }
            Some(CellEnd::Width) | None => String::new(),
        };
        let runs = counted(cell.runs as u64, "run");
        format!("{}: PIOPS {within} after {runs}{end}", cell.name)
    });
    std::iter::once(first).chain(rest).collect()
}

/// The most sessions that keep the latency of a search, and the load that they gave.
fn within_words(line: &LoadWithinLatency, design: &Design) -> String {
    let objective = design.objective().map(|objective| objective.to_string()).unwrap_or_default();
    let runs = counted(line.runs as u64, "run");
    let Some(sessions) = line.sessions else {
        let least = line.exceeded_at.map_or_else(
            || "no run has this figure: make runs longer".to_owned(),
            |at| format!("it is exceeded with {}", counted(at, "session")),
        );
        return format!("{}: nothing within {objective}; {least}", line.name);
    };
    let interval = line
        .interval
        .map_or(String::new(), |(low, high)| format!(" (95 %: {} to {})", rate(low), rate(high)));
    let state = match (line.is_unknown, line.is_confirmed, line.exceeded_at) {
        (true, ..) => "; a run lacks the figure, so the search ended: make runs longer".to_owned(),
        (_, false, _) => "; not yet confirmed".to_owned(),
        (.., Some(at)) => format!("; it is exceeded with {}", counted(at, "session")),
        (.., None) => "; no more were tried".to_owned(),
    };
    format!(
        "{}: {} within {objective}, {} PIOPS{interval}, after {runs}{state}",
        line.name,
        counted(sessions, "session"),
        line.piops.map_or("-".to_owned(), rate),
    )
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
        None if found.knee.is_some() => "; no knee, which takes four cells".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_are_not_known_are_named() {
        let cell = |name: &str, runs, off, end| RepeatedCell {
            number: 1,
            name: name.to_owned(),
            runs,
            off,
            end,
        };
        let cells = [
            cell("SESSIONS 1", 5, Some(0.018), Some(CellEnd::Width)),
            cell("SESSIONS 2", 9, Some(0.0199), Some(CellEnd::Width)),
            cell("SESSIONS 4", 16, Some(0.034), Some(CellEnd::MostRuns)),
            cell("SESSIONS 8", 2, None, Some(CellEnd::NoFigures)),
            cell("SESSIONS 16", 1, None, None),
        ];
        let found = known(&cells, &Design::Repeated { precision: 0.02, runs_max: 16 });
        insta::assert_snapshot!(found.join("\n"), @"
        2 of 5 cells have PIOPS within 2.0 %, after 5 to 9 runs, by intervals that hold at any number of runs
        SESSIONS 4: PIOPS within 3.4 % after 16 runs, the most: --max-runs 32 goes on
        SESSIONS 8: PIOPS not known after 2 runs, one without figures: --again-failed repeats it
        SESSIONS 16: PIOPS not known after 1 run
        ");
        assert_eq!(known(&cells, &Design::Grid), [""; 0]);
    }
}
