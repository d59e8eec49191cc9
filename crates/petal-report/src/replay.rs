//! A replay for a person: the part that it imitated, and the highest multiple that a platform holds.

use std::iter;

use super::numbers::{decimal, micros, or_dash, rate};
use super::table::{SCREEN_LINES, Table, fitting, fitting_paragraphs, line, paragraph, rest};
use petal_judge::break_point::{BreakPoint, LoadHeld, LoadStep, load_held};
use petal_judge::delivered::{Delivered, delivered, scale_of};
use petal_record::Run;
use petal_record::replay::ReplayOf;
use petal_record::server_work::WorkCount;
use petal_settings::objective::Objective;

pub fn times(ratio: Option<f64>) -> String {
    or_dash(ratio, |ratio| decimal(ratio, 2))
}

pub fn bulleted(out: &mut String, name: &str, lines: &[String]) {
    for (at, text) in lines.iter().enumerate() {
        let first = if at == 0 { name } else { "          " };
        out.push_str(&paragraph(&format!("{first}- "), "            ", text));
    }
}

/// Reports the imitated part of a replay; None if the run is not a replay.
pub fn replayed_load(run: &Run) -> Option<String> {
    let of = run.details.replay.as_ref()?;
    let scale = scale_of(run);
    let mut out = paragraph("", "  ", &format!("{scale}x of {}: {}", of.database, of.time));
    out.push('\n');
    let rows = delivered(run).into_iter().map(|(figure, delivered)| {
        let Delivered { asked, here } = delivered;
        let rates = [of.rate(figure), asked, here].map(|value| or_dash(value, rate));
        let rates = rates.into_iter().chain([times(delivered.ratio())]);
        iter::once(figure.words().to_owned()).chain(rates)
    });
    let heading = "per second | production | x scale | this run | times";
    out.push_str(&Table::of_figures(heading).with_rows(rows).render());
    out.push('\n');
    out.push_str(&paragraph("held      ", "          ", &held(run, of)));
    bulleted(&mut out, "differs   ", &of.not_imitated);
    Some(out)
}

fn held(run: &Run, of: &ReplayOf) -> String {
    let objective: Option<Objective> = of.objective.as_ref().and_then(|text| text.parse().ok());
    match load_held(run, objective.as_ref()) {
        LoadHeld::Yes => match &objective {
            Some(objective) => format!("yes, within {objective}"),
            None => "yes: all due operations began".to_owned(),
        },
        LoadHeld::No(why) => format!("no: {why}"),
        LoadHeld::Unknown(why) => format!("not known: {why}"),
    }
}

/// Reports the answer: the line, the steps, and the assumptions.
/// Findings on a screen.
const BULLETS_MAX: usize = 3;
const FINDINGS_LINES: usize = 15;

/// The begin of the other lines of a named text.
const WORDS_AT: &str = "          ";

/// Lays out the answer of a replay on one screen: the answer, as many steps as fit, the findings.
pub fn brief(found: &BreakPoint) -> String {
    let out = paragraph("", "  ", &found.line()) + "\n";
    let mut end = String::from("\n");
    end.push_str(&paragraph("platform  ", WORDS_AT, &found.target));
    let notes = found.notes.iter().enumerate().map(|(at, note)| {
        let name = if at == 0 { "findings" } else { "" };
        paragraph(&format!("{name:<10}- "), &" ".repeat(12), note)
    });
    let notes = notes.collect::<Vec<_>>();
    end.push_str(&fitting_paragraphs(
        &notes,
        BULLETS_MAX,
        FINDINGS_LINES,
        "finding",
        "with --full",
    ));
    let whole = "--full shows the delivered load, and everything that is not like production";
    end.push_str(&paragraph("", "  ", whole));
    let lines = SCREEN_LINES - out.lines().count() - end.lines().count();
    let text = |count: usize| {
        steps(&found.steps[..count]).render()
            + &rest(found.steps.len() - count, "step", "with --full")
    };
    let steps = fitting(found.steps.len(), lines, text);
    out + &steps + &end
}

pub fn break_point(found: &BreakPoint) -> String {
    let mut out = paragraph("", "  ", &found.line());
    out.push('\n');
    out.push_str(&steps(&found.steps).render());
    out.push('\n');
    let delivered = delivered_steps(found);
    if !delivered.is_empty() {
        out.push_str(&paragraph("", "  ", DELIVERED));
        out.push('\n');
        out.push_str(&delivered.render());
        out.push('\n');
    }
    let load = format!("{}: {}", found.of.database, found.of.time);
    out.push_str(&paragraph("load      ", WORDS_AT, &load));
    out.push_str(&paragraph("platform  ", WORDS_AT, &found.target));
    bulleted(&mut out, "findings  ", &found.notes);
    bulleted(&mut out, "differs   ", &found.of.not_imitated);
    out
}

pub(super) fn steps(found: &[LoadStep]) -> Table {
    let heading =
        "scale | held | operations/s | PIOPS | read us | log us | response p99 us | why not";
    Table::of_figures(heading).with_rows(found.iter().map(|step| {
        let figure = |name: &str, show: fn(f64) -> String| or_dash(step.figure(name), show);
        [
            step.scale.to_string(),
            format!("{} of {}", step.held, step.runs),
            figure("ops_s", rate),
            figure("piops", rate),
            figure("read_us", micros),
            figure("log_us", micros),
            figure("op_response_p99_us", micros),
            step.reasons.first().cloned().unwrap_or_default(),
        ]
    }))
}

/// Heading of [`delivered_steps`].
pub(super) const DELIVERED: &str =
    "delivered load, as a multiple of the load asked for (production's rates times the scale)";

/// Lists the delivered load of each step, means over the rounds; empty if no figure is known.
pub(super) fn delivered_steps(found: &BreakPoint) -> Table {
    let known: Vec<WorkCount> = WorkCount::ALL
        .into_iter()
        .filter(|figure| found.steps.iter().any(|step| step.delivered(*figure).is_some()))
        .collect();
    let names = iter::once("scale").chain(known.iter().map(|it| it.words()));
    let steps = found.steps.iter().filter(|_| !known.is_empty());
    Table::of_columns(names).with_rows(steps.map(|step| {
        let ratios = known.iter().map(|figure| times(step.delivered(*figure)));
        iter::once(step.scale.to_string()).chain(ratios)
    }))
}

/// Compares several platforms under the same load, a row each.
pub fn side_by_side(found: &[(String, BreakPoint)]) -> String {
    let rows = found.iter().map(|(name, found)| {
        [
            name.clone(),
            or_dash(found.holds, |scale| format!("{scale}x")),
            or_dash(found.fails, |scale| format!("{scale}x")),
            found.interval_words().unwrap_or_else(|| "-".to_owned()),
            found.room_figure().unwrap_or_else(|| "-".to_owned()),
            or_dash(found.cause.as_deref(), |cause| {
                // The column says the first, and the line below all of it.
                let cause = cause.strip_prefix("limited by: ").unwrap_or(cause);
                cause.split(';').next().unwrap_or(cause).to_owned()
            }),
        ]
    });
    let heading = "platform | holds | fails at | breaks at, 95 % | room | limited by";
    let table = Table::of_figures(heading).with_rows(rows);
    let mut out = String::from("Will it fit?\n\n");
    out.push_str(&table.render());
    out.push('\n');
    let loads: Vec<&ReplayOf> = found.iter().map(|(_, found)| &found.of).collect();
    if loads.windows(2).any(|two| two[0].per_second != two[1].per_second) {
        out.push_str(&line("The sides replay different loads: their multiples do not compare."));
        out.push('\n');
    }
    for (name, found) in found {
        out.push_str(&paragraph(&format!("{name}  "), "  ", &found.line()));
    }
    out.push('\n');
    out
}

/// Seconds as people say them.
pub fn length(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} hours", s / 3600.0),
        s => format!("{} days", decimal(s / 86_400.0, 1)),
    }
}
