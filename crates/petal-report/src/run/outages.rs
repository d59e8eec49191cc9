//! Outages of a run whose sessions reconnect: facts of each, and a chart of the successes.

use std::collections::BTreeMap;

use petal_host::numbers::decimal;
use petal_record::Run;
use petal_record::connections::{CommitOutcome, ConnectionLosses, Outage};

use super::Facts;
use crate::charts::{Chart, ChartFrame, Color, Plot, PlotAxis, Scale, Variant};
use crate::numbers::{UNKNOWN, or_dash, rate, whole};
use crate::table::Table;
use crate::verification;

/// Outages that are described; a record has all of them.
const SHOWN_MAX: usize = 10;
/// Outages on a screen.
const LINES_MAX: usize = 3;

/// The facts of the outages, one after the other; empty if no connection was lost.
pub(crate) fn facts(run: &Run) -> Vec<(String, Facts)> {
    let outages = run.summary.outages.iter().flatten();
    let of_one = |(number, outage): (usize, &Outage)| {
        let title = format!("outage {} at second {}", number + 1, decimal(outage.first_error_s, 2));
        (title, of_outage(outage))
    };
    outages.take(SHOWN_MAX).enumerate().map(of_one).collect()
}

fn of_outage(outage: &Outage) -> Facts {
    let at = |seconds: Option<f64>| {
        or_dash(seconds, |seconds| format!("second {}", decimal(seconds, 3)))
    };
    let lasted = |seconds: Option<f64>| or_dash(seconds, |s| format!("{} s", decimal(s, 3)));
    let counts = |counts: &BTreeMap<String, u64>| {
        let each = counts.iter().map(|(name, count)| format!("{name} {}", whole(*count)));
        let all: Vec<String> = each.collect();
        if all.is_empty() { UNKNOWN.to_owned() } else { all.join(", ") }
    };
    let kinds = outage.by_kind.iter().map(|(kind, it)| {
        let (down, last, first) =
            (lasted(it.down_s), at(it.last_success_s), at(it.first_success_s));
        (format!("  without {kind}"), format!("{down}: {last} to {first}"))
    });
    let doubts: Vec<String> = outage
        .in_doubt
        .iter()
        .map(|(outcome, count)| format!("{} {}", whole(*count), outcome_words(*outcome)))
        .collect();
    let back = format!(
        "50 % after {}, 95 % after {}",
        lasted(outage.half_rate_after_s),
        lasted(outage.full_rate_after_s)
    );
    let sessions = match outage.not_back {
        0 => format!("{}, all connected again", whole(outage.sessions.into())),
        not_back => format!(
            "{}, {} not connected again",
            whole(outage.sessions.into()),
            whole(not_back.into())
        ),
    };
    let named = |(name, value): (&str, String)| (name.to_owned(), value);
    let first = [
        ("no success for", lasted(outage.down_s)),
        ("  last success", at(outage.last_success_s)),
        ("  first error", at(Some(outage.first_error_s))),
        ("  first success after", at(outage.first_success_s)),
    ];
    let rest = [
        ("rate back at", back),
        ("sessions", sessions),
        ("  lost at", counts(&outage.lost_at)),
        ("  back at", counts(&outage.back_at)),
        ("errors", counts(&outage.errors)),
    ];
    let doubts = (!doubts.is_empty()).then(|| ("commits in doubt", doubts.join(", ")));
    let wrong = outage.wrong_servers.iter().map(|why| ("refused", why.clone()));
    let rest = rest.into_iter().chain(wrong).chain(doubts).map(named);
    first.into_iter().map(named).chain(kinds).chain(rest).collect()
}

/// Each outage in one line, and the ledger's answer: for a screen.
pub(crate) fn lines(run: &Run) -> Vec<String> {
    let outages = run.summary.outages.as_deref().unwrap_or_default();
    let seconds = |seconds: Option<f64>| or_dash(seconds, |s| format!("{} s", decimal(s, 2)));
    let mut lines: Vec<String> = outages
        .iter()
        .take(LINES_MAX)
        .map(|outage| {
            format!(
                "outage at second {}: no success for {}; 95 % of the rate after {}; {} sessions lost \
                 their connections, {} are not back",
                decimal(outage.first_error_s, 2),
                seconds(outage.down_s),
                seconds(outage.full_rate_after_s),
                outage.sessions,
                outage.not_back
            )
        })
        .collect();
    let more = outages.len().saturating_sub(LINES_MAX);
    lines.extend((more > 0).then(|| format!("{more} more outages are in the report")));
    lines.extend(verified(run).map(|answer| format!("ledger: {answer}")));
    lines
}

fn outcome_words(outcome: CommitOutcome) -> &'static str {
    match outcome {
        CommitOutcome::Committed => "committed",
        CommitOutcome::NotCommitted => "not committed",
        CommitOutcome::Unknown => "unknown",
    }
}

/// The answer of the ledger, verified after the run.
pub(crate) fn verified(run: &Run) -> Option<String> {
    let found = run.details.verification.as_ref()?;
    let mut last = run.summary.outages.iter().flatten().filter_map(|it| it.last_success_s);
    let span = found.first_lost_s.and_then(|first_s| {
        // The outage that took it.
        let span_s = last.find(|&last_s| last_s >= first_s)? - first_s;
        Some(format!(", of the last {} s before the outage", decimal(span_s, 3)))
    });
    let span = span.unwrap_or_default();
    let more = match found.overwritten_commits {
        None | Some(0) => String::new(),
        Some(more) => format!(
            "; {} more may be lost: others changed their rows again after the outage",
            whole(more)
        ),
    };
    Some(format!("{}{span}{more}", verification::answer(found)))
}

/// Successes over time, with each outage shaded.
pub(crate) fn chart(run: &Run) -> Option<Chart> {
    let seen = run.details.connections.as_ref().filter(|seen| seen.steps.len() > 1)?;
    let outages = run.summary.outages.as_deref().unwrap_or_default();
    let rows = seen
        .steps
        .iter()
        .map(|step| [decimal(step.at_s, 1), rate(step.successes as f64 / seen.step_s)]);
    let values = Table::of_columns(["second", "successes/s"]).with_rows(rows);
    let svg = draw(seen, outages);
    let note = "Operations that ended well, in steps of 0.1 s by petal's clock. Shaded: no operation \
                succeeded.";
    Some(Chart::new("outage", "Successes around the outage", note, Variant::linear(svg), values))
}

fn draw(seen: &ConnectionLosses, outages: &[Outage]) -> String {
    let per_second = |successes: u64| successes as f64 / seen.step_s;
    let (from_s, to_s) = (
        seen.steps.first().map_or(0.0, |step| step.at_s),
        seen.steps.last().map_or(1.0, |step| step.at_s + seen.step_s),
    );
    let most = seen.steps.iter().map(|step| per_second(step.successes)).fold(0.0, f64::max) * 1.05;
    let across = PlotAxis::new(Scale::between(from_s, to_s), "s");
    let up = PlotAxis::new(Scale::linear([0.0, most]), "successes/s");
    let texts = ("outage-linear", "Successes around the outage", "successes per second over time");
    let mut plot = Plot::new(&ChartFrame::wide(texts, 200.0, across, up));
    for outage in outages {
        let until_s = outage.first_success_s.unwrap_or(to_s);
        if let Some(last_s) = outage.last_success_s {
            plot.rectangle([(last_s, 0.0), (until_s, most)], Color::Series(1), 0.15);
        }
    }
    plot.series(0, |plot| {
        // A step without a success is not kept.
        let mut line: Vec<(f64, f64)> = Vec::new();
        for step in &seen.steps {
            let gap = line.last().is_some_and(|(at, _)| step.at_s - at > seen.step_s * 1.5);
            if let Some(&(at, _)) = line.last().filter(|_| gap) {
                line.push((at + seen.step_s, 0.0));
                line.push((step.at_s - seen.step_s, 0.0));
            }
            line.push((step.at_s, per_second(step.successes)));
        }
        plot.line(&line, Color::Series(0), 1.6);
    });
    plot.finish()
}
