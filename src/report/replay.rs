//! A replay for a person: how a profile becomes operations, before the run; what of it was imitated,
//! after it; and up to which multiple a platform holds it.

use super::numbers::{micros, or_dash, rate};
use super::table::{Table, line, paragraph};
use crate::analysis::break_point::{BreakPoint, LoadStep};
use crate::analysis::replay::ReplayPlan;
use crate::record::Run;
use crate::record::replay::ReplayOf;
use crate::stats::server_work::WorkCount;

/// A plan, before its run.
pub fn plan(plan: &ReplayPlan) -> String {
    let mut out = line(&format!("replay of {}: {}", plan.of.database, plan.of.time));
    out.push('\n');
    bulleted(&mut out, "how       ", &plan.of.how);
    let parameters = plan.parameters();
    let shown: Vec<String> =
        parameters.iter().map(|(key, value)| format!("{key}={}", shortened(value))).collect();
    out.push_str(&paragraph("set       ", "          ", &shown.join(" ")));
    out.push('\n');
    let mut table = Table::of_figures("per second | production | expected here | times");
    for figure in WorkCount::ALL {
        let (of, here) = (plan.of.per_second.get(&figure), plan.expected.get(&figure));
        table.row([
            figure.words().to_owned(),
            or_dash(of.copied(), rate),
            or_dash(here.copied(), rate),
            or_dash(plan.ratio(figure), |ratio| format!("{ratio:.2}")),
        ]);
    }
    out.push_str(&table.render());
    bulleted(&mut out, "not alike ", &plan.of.not_imitated);
    out
}

/// Steps of a day are too many for a line.
fn shortened(value: &str) -> String {
    let steps: Vec<&str> = value.split(' ').collect();
    match steps.as_slice() {
        [first, .., last] if steps.len() > 4 => {
            format!("'{first} ... {last}' ({} steps)", steps.len())
        }
        [_] => value.to_owned(),
        _ => format!("'{value}'"),
    }
}

fn bulleted(out: &mut String, name: &str, lines: &[String]) {
    for (at, text) in lines.iter().enumerate() {
        let first = if at == 0 { name } else { "          " };
        out.push_str(&paragraph(&format!("{first}- "), "            ", text));
    }
}

/// What a run imitated; None of a run that is no replay.
pub fn imitated(run: &Run) -> Option<String> {
    let of = run.details.replay.as_ref()?;
    let scale = run.summary.setting_number("rate_scale").unwrap_or(1.0);
    let mut out = line(&format!("{scale}x of {}: {}", of.database, of.time));
    out.push('\n');
    let mut table = Table::of_figures("per second | production | x scale | this run | times");
    for (figure, here) in done(run) {
        let asked = of.per_second.get(&figure).map(|rate| rate * scale);
        let times = asked.filter(|asked| *asked > 0.0).zip(here).map(|(asked, here)| here / asked);
        table.row([
            figure.words().to_owned(),
            or_dash(of.per_second.get(&figure).copied(), rate),
            or_dash(asked, rate),
            or_dash(here, rate),
            or_dash(times, |times| format!("{times:.2}")),
        ]);
    }
    out.push_str(&table.render());
    out.push('\n');
    bulleted(&mut out, "not alike ", &of.not_imitated);
    Some(out)
}

/// What a run did per second, by the figures of profiles.
pub fn done(run: &Run) -> Vec<(WorkCount, Option<f64>)> {
    let shown = run.headline().run;
    let per = &shown.summary.per_second;
    let scanned = match (run.summary.ops.scan, shown.summary.elapsed_s) {
        (0, _) => Some(0.0),
        (_, elapsed_s) if elapsed_s > 0.0 => {
            Some(run.summary.rows.scan as f64 / run.summary.elapsed_s)
        }
        _ => None,
    };
    let single =
        per.physical_read_blocks.zip(scanned).map(|(all, scanned)| (all - scanned).max(0.0));
    vec![
        (WorkCount::SingleBlockReads, single),
        (WorkCount::MultiBlockReadBlocks, scanned),
        (WorkCount::BlockWrites, per.physical_write_blocks),
        (WorkCount::Commits, per.commits),
        (WorkCount::RedoBytes, per.redo_bytes),
    ]
}

/// The answer: the line, the steps, and what was assumed.
pub fn break_point(found: &BreakPoint) -> String {
    let mut out = paragraph("", "  ", &found.line());
    out.push('\n');
    out.push_str(&steps(found).render());
    out.push('\n');
    out.push_str(&line(&format!("load      {}: {}", found.of.database, found.of.time)));
    out.push_str(&line(&format!("platform  {}", found.target)));
    for note in &found.notes {
        out.push_str(&paragraph("note      ", "          ", note));
    }
    bulleted(&mut out, "not alike ", &found.of.not_imitated);
    out
}

pub(super) fn steps(found: &BreakPoint) -> Table {
    let mut table = Table::of_figures(
        "scale | held | operations/s | PIOPS | read us | log us | op p99 us | why not",
    );
    for LoadStep { scale, runs, held, reasons, figures } in &found.steps {
        let figure =
            |name: &str, show: fn(f64) -> String| or_dash(figures.get(name).copied(), show);
        table.row([
            format!("{scale}"),
            format!("{held} of {runs}"),
            figure("ops_s", rate),
            figure("piops", rate),
            figure("read_us", micros),
            figure("log_us", micros),
            figure("op_p99_us", micros),
            reasons.first().cloned().unwrap_or_default(),
        ]);
    }
    table
}

/// Several platforms under the same load, a row each.
pub fn side_by_side(found: &[(String, BreakPoint)]) -> String {
    let mut table =
        Table::of_figures("platform | holds | fails at | breaks at, 95 % | room | limited by");
    for (name, found) in found {
        table.row([
            name.clone(),
            or_dash(found.holds, |scale| format!("{scale}x")),
            or_dash(found.fails, |scale| format!("{scale}x")),
            found.interval_words().unwrap_or_else(|| "-".to_owned()),
            or_dash(found.holds, |scale| format!("{:.1}", scale - 1.0)),
            or_dash(found.cause.as_deref(), |cause| {
                // The column says it.
                cause.strip_prefix("limited by: ").unwrap_or(cause).to_owned()
            }),
        ]);
    }
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
