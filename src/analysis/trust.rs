//! How far the record can be trusted: is it whole, long enough, steady, repeated, even.

use serde_json::json;

use super::judgement::{Judgement, error, info, unknown, warning};
use super::steady::{self, Steadiness, Windows};
use super::writes;
use crate::record::{Run, Second, figures};

const RUN_TIME_S_MIN: f64 = 30.0;
pub(super) const ENDPOINT_SHARE_MAX: f64 = 0.05;
/// So many stalled seconds are named; the rest are counted.
const STALLS_NAMED: usize = 10;

pub(super) fn judge(run: &Run) -> Vec<Judgement> {
    vec![
        partial_record(run),
        gaps(run),
        lost_sessions(run),
        short_run(run),
        unstable(run),
        stalls(run),
        single_run(run),
        uneven_endpoints(run),
        backlog(run),
        unknown("repeats-vary", "it takes several runs"),
        unknown("active-set-varies", "it takes several runs"),
        unknown("mixed-run-lengths", "it takes several runs"),
    ]
}

fn partial_record(run: &Run) -> Judgement {
    if !run.details.rebuilt {
        return Judgement::Clear;
    }
    warning(
        "partial-record",
        format!(
            "petal was killed: this is rebuilt from {} journaled seconds, and what came after \
             them is not in it",
            run.details.timeline.len()
        ),
        "Do not compare it with whole runs; run it again.",
    )
    .with("seconds", run.details.timeline.len())
    .judged()
}

fn gaps(run: &Run) -> Judgement {
    if run.details.gaps.is_empty() {
        return Judgement::Clear;
    }
    warning(
        "gaps",
        format!("parts of the record are missing: {}", run.details.gaps.join("; ")),
        "Figures that rest on them are shown as unknown.",
    )
    .with("gaps", run.details.gaps.clone())
    .judged()
}

fn lost_sessions(run: &Run) -> Judgement {
    let lost = &run.summary.sessions_lost;
    let Some(first) = lost.first() else { return Judgement::Clear };
    error(
        "lost-sessions",
        format!(
            "{} of {} sessions ended before their time; the first was session {} after {:.1} s: \
             {} ({})",
            lost.len(),
            run.summary.sessions,
            first.session,
            first.at_s,
            first.message,
            first.code
        ),
        "Find out why before using the figures: the load was not the one that was asked for.",
    )
    .with("sessions_lost", lost.len())
    .with("sessions", run.summary.sessions)
    .with("codes", lost.iter().map(|session| session.code.clone()).collect::<Vec<_>>())
    .judged()
}

fn short_run(run: &Run) -> Judgement {
    // A run of a fixed number of operations is as long as it takes.
    let timed = run.summary.setting_number("work_loop").unwrap_or(0.0) == 0.0;
    let seconds = if timed {
        run.summary.setting_number("run_time").unwrap_or(run.summary.elapsed_s)
    } else {
        run.summary.elapsed_s
    };
    if seconds >= RUN_TIME_S_MIN {
        return Judgement::Clear;
    }
    warning(
        "short-run",
        format!("{seconds:.1} s is a short run: caches, drives and checkpoints have not settled"),
        "Use RUN_TIME=300 or more for figures to rely on.",
    )
    .with("seconds", seconds)
    .judged()
}

/// The part of the run that is judged: the steady window, else all of it.
fn window(run: &Run) -> (f64, f64) {
    let steady = run.summary.steady.as_ref();
    steady.map_or((0.0, run.summary.elapsed_s), |steady| (steady.from_s, steady.to_s))
}

fn unstable(run: &Run) -> Judgement {
    let (from_s, to_s) = window(run);
    match steady::steadiness(&run.details.timeline, from_s, to_s) {
        Steadiness::TooShort { seconds } => info(
            "too-short-to-judge",
            format!(
                "{seconds:.0} s are too short to judge steadiness, which takes {} windows of {} s",
                steady::WINDOWS,
                steady::WINDOW_S_MIN
            ),
            "Use RUN_TIME=300 plus the warm-up, or more.",
        )
        .with("seconds", seconds)
        .judged(),
        Steadiness::Unstable(windows) => warning(
            "unstable",
            format!(
                "the rate was not steady over five windows: range {:.0} % and slope {:+.0} % of \
                 the mean (20 % and 10 % are allowed)",
                windows.range_share * 100.0,
                windows.slope_share * 100.0
            ),
            "Find the cause in the timeline, or run until it is steady; do not quote the mean.",
        )
        .with("ops_per_second", windows.ops_per_second.to_vec())
        .with("range_share", windows.range_share)
        .with("slope_share", windows.slope_share)
        .judged(),
        Steadiness::Steady(windows) => steady_without_cycles(run, &windows),
    }
}

/// Steady by the numbers, while not every window can hold a whole checkpoint cycle.
fn steady_without_cycles(run: &Run, windows: &Windows) -> Judgement {
    let checkpoints = writes::checkpoints(run);
    match checkpoints {
        Some(count) if run.summary.ops.update > 0 && count < steady::WINDOWS as u64 => info(
            "too-short-to-judge",
            format!(
                "the rate was steady, but {count} checkpoints do not give each of the {} windows \
                 a whole cycle",
                steady::WINDOWS
            ),
            "Run longer, until every window holds a whole checkpoint cycle.",
        )
        .with("checkpoints", count)
        .with("range_share", windows.range_share)
        .judged(),
        _ => Judgement::Clear,
    }
}

fn stalls(run: &Run) -> Judgement {
    let (from_s, to_s) = window(run);
    let seconds = figures::seconds_within(&run.details.timeline, from_s, to_s);
    let stalled = steady::stalls(&seconds);
    if stalled.is_empty() {
        return Judgement::Clear;
    }
    let at: Vec<String> =
        stalled.iter().take(STALLS_NAMED).map(|second| format!("{:.0} s", second.from_s)).collect();
    let more = stalled.len().saturating_sub(STALLS_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let candidates = candidates(&seconds, &stalled);
    let named = if candidates.is_empty() {
        "nothing in the record stands out in them".to_owned()
    } else {
        format!("in them {}", candidates.join(", "))
    };
    info(
        "stalls",
        format!(
            "{} of {} seconds ran at under half the median rate (at {}{more}); {named}",
            stalled.len(),
            seconds.len(),
            at.join(", ")
        ),
        "Look at those seconds in timeline.csv beside the device's and the database's own logs.",
    )
    .with("stalled_at_s", stalled.iter().map(|second| second.from_s).collect::<Vec<_>>())
    .with("median_ops_per_second", steady::median(seconds.iter().map(|s| steady::rate(s))))
    .judged()
}

/// What was out of the ordinary in the stalled seconds, by the record's own figures.
fn candidates(all: &[&Second], stalled: &[&Second]) -> Vec<String> {
    type Figure = fn(&Second) -> Option<f64>;
    let figures: [(Figure, f64, &str); 4] = [
        (|s| Some(s.io?.physical_write_bytes? as f64), 2.0, "the database wrote more (checkpoint)"),
        (
            |s| Some(s.device?.write_bytes as f64),
            2.0,
            "the device wrote more (checkpoint, write-back)",
        ),
        (|s| Some(s.cpu?.steal + 1.0), 2.0, "processor time was stolen"),
        (|s| Some(s.cpu?.iowait + 1.0), 1.5, "processors waited for I/O (drive cache, throttling)"),
    ];
    figures
        .iter()
        .filter_map(|(figure, factor, words)| {
            let usual = steady::median(all.iter().filter_map(|second| figure(second)))?;
            let here = steady::median(stalled.iter().filter_map(|second| figure(second)))?;
            (here > usual * factor && here > 0.0).then(|| (*words).to_owned())
        })
        .collect()
}

fn single_run(run: &Run) -> Judgement {
    if run.details.repeats > 1 {
        return Judgement::Clear;
    }
    info(
        "single-run",
        "one run proves nothing: how much the next one would differ is unknown".to_owned(),
        "Use REPEATS=3 or more before comparing.",
    )
    .with("repeats", run.details.repeats)
    .judged()
}

fn uneven_endpoints(run: &Run) -> Judgement {
    const ID: &str = "uneven-endpoints";
    let endpoints = &run.summary.endpoints;
    if endpoints.len() < 2 {
        return Judgement::Clear;
    }
    let shares: Option<Vec<f64>> = endpoints
        .iter()
        .map(|endpoint| {
            let requests =
                endpoint.io.physical_read_requests? + endpoint.io.physical_write_requests?;
            (endpoint.sessions > 0).then(|| requests as f64 / f64::from(endpoint.sessions))
        })
        .collect();
    let Some(shares) = shares else {
        return unknown(ID, "not every endpoint tells its physical requests");
    };
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let off = |share: f64| if mean > 0.0 { (share / mean - 1.0).abs() } else { 0.0 };
    let worst = endpoints.iter().zip(&shares).max_by(|a, b| off(*a.1).total_cmp(&off(*b.1)));
    match worst {
        Some((endpoint, &share)) if off(share) > ENDPOINT_SHARE_MAX => warning(
            ID,
            format!(
                "{} did {:+.1} % of the mean's requests per session",
                endpoint.endpoint,
                (share / mean - 1.0) * 100.0
            ),
            "Compare the nodes: paths, caches, other load.",
        )
        .with("requests_per_session", json!(shares))
        .judged(),
        _ => Judgement::Clear,
    }
}

/// An operation that came due while a session's last one was in flight is no queue: one for each
/// session is normal at the end.
fn backlog(run: &Run) -> Judgement {
    match run.details.backlog {
        Some(backlog) if backlog > u64::from(run.summary.sessions) => warning(
            "backlog",
            format!("{backlog} operations were due at the end and not begun: RATE was not kept"),
            "Lower RATE, or add sessions: response times contain this queue.",
        )
        .with("backlog", backlog)
        .judged(),
        _ => Judgement::Clear,
    }
}
