//! The rule's judgement of a record, as findings.

use petal_host::numbers::decimal;
use serde_json::json;

use super::fall::{self, Fall, Shape};
use super::{
    Steadiness, WINDOW_S_MIN, WINDOWS, Windows, longest_stall, onset, proof, steadiness, variation,
};
use crate::judgement::{
    FindingParts, Judgement, NoFinding::Clear, clear_if, info, unknown, warning,
};
use crate::{and_more, other_processors, trust, writes};
use petal_host::numbers::bytes as size;
use petal_record::figures::{self, lower_median};
use petal_record::{OneSecond, Run, Second, SecondAmount, Status, each_second};

/// Number of stalled seconds that are named; the rest are counted.
const STALLS_NAMED: usize = 10;
/// Time that the slow seconds of one stall lost together: about a second without operations.
const STALL_S_MIN: f64 = 0.95;
const TOO_SHORT: &str = "too-short-to-judge";

/// The part of the run that is judged: the counted window, else all of it.
pub fn window(run: &Run) -> (f64, f64) {
    let steady = run.summary.steady.as_ref();
    steady.map_or((0.0, run.summary.elapsed_s), |steady| (steady.from_s, steady.to_s))
}

/// The part of the run in which no stall may be: the counted window, and the planned time after it. A
/// server that stops before the end of RUN_TIME ends the window, because its counters are not read.
pub fn stall_window(run: &Run) -> (f64, f64) {
    let (from_s, to_s) = window(run);
    let setting = |name| run.summary.setting_number(name).unwrap_or(0.0);
    let is_timed = setting("work_loop") == 0.0 && run.details.experiments.is_none();
    let planned_s = setting("run_time").min(run.summary.elapsed_s);
    (from_s, if is_timed { to_s.max(planned_s) } else { to_s })
}

pub(crate) fn unstable(run: &Run) -> Judgement {
    let (from_s, to_s) = window(run);
    match steadiness(&run.details.timeline, from_s, to_s) {
        Steadiness::TooShort { .. } if run.is_still_running() => unknown("the run goes on"),
        // One finding for one fact: the run itself is too short.
        Steadiness::TooShort { .. } if trust::short_run(run).is_ok() => {
            unknown("the run is too short, see short-run")
        }
        Steadiness::TooShort { seconds } => info(
            format!(
                "{seconds} s are too short to judge steadiness, which takes {} windows of {} s",
                WINDOWS,
                WINDOW_S_MIN,
                seconds = decimal(seconds, 0)
            ),
            "Use RUN_TIME=300 plus the warm-up, or more.",
        )
        .named(TOO_SHORT)
        .with(json!({ "seconds": seconds })),
        Steadiness::Unstable(windows) => not_steady(run, &windows, (from_s, to_s)),
        Steadiness::Steady(windows) => steady_without_cycles(run, &windows),
    }
}

/// Judges an unsteady run: the second from which on it was steady, if it was, and the fall, if the
/// rate fell.
fn not_steady(run: &Run, windows: &Windows, (from_s, to_s): (f64, f64)) -> Judgement {
    let rows = figures::seconds_within(&run.details.timeline, from_s, to_s);
    let seconds: Vec<OneSecond> = each_second(rows.iter().copied()).collect();
    let onset = onset(&run.details.timeline, from_s, to_s);
    let fall = fall_of(run, &rows);
    let mut message = format!(
        "the rate was not steady over five windows: range {:.0} % and slope {:+.0} % of the mean \
         (20 % and 10 % are allowed)",
        windows.range_share * 100.0,
        windows.slope_share * 100.0
    );
    if let Some(fall) = &fall {
        message.push_str(&format!("; {}", fall_words(fall)));
    }
    if let Some((start_s, windows)) = &onset {
        message.push_str(&format!(
            "; from {start_s} s on it was steady, at {} operations/s",
            decimal(windows.mean(), 0),
            start_s = decimal(*start_s, 0)
        ));
    }
    let advice = match &onset {
        Some(_) => "Set WARM_UP past that second, and quote the counted window only.",
        None => "Find the cause in the timeline, or run until it is steady; do not quote the mean.",
    };
    let seconds_vary = variation(&seconds);
    warning(message, advice).with(json!({
        "ops_per_second": windows.ops_per_second.to_vec(), "range_share": windows.range_share,
        "slope_share": windows.slope_share, "variation_of_seconds": seconds_vary,
        "steady_from_s": onset.map(|(start_s, _)| start_s),
        "fell_at_s": fall.as_ref().map(|fall| fall.at_s),
        "fell_share": fall.as_ref().map(Fall::share),
        "candidates": fall.map(|fall| fall.candidates).unwrap_or_default(),
    }))
}

/// The fall of a stretch of a run's seconds, with the record's facts about that time.
pub fn fall_of(run: &Run, seconds: &[&Second]) -> Option<Fall> {
    fall::fall(seconds, &|from_s, to_s| other_processors::between(run, from_s, to_s))
}

pub fn fall_words(fall: &Fall) -> String {
    let how = match fall.shape {
        Shape::Step => format!("it fell at {:.0} s", fall.at_s),
        Shape::Drift => "it drifted down all the way".to_owned(),
    };
    let with = match fall.candidates.as_slice() {
        [] => "; nothing else in the record changed at that time".to_owned(),
        candidates => format!("; changes at the same time: {}", candidates.join("; ")),
    };
    format!(
        "{how}, from {} to {} operations/s ({:.0} % less){with}",
        decimal(fall.before, 0),
        decimal(fall.after, 0),
        fall.share() * 100.0
    )
}

pub(crate) fn until_steady(run: &Run) -> Judgement {
    let asked = run.details.until_steady.as_ref().ok_or(Clear)?;
    let written = proof::written_bytes(&run.details.timeline);
    let volume = match (asked.volume_bytes, written) {
        (0, _) | (_, None) => String::new(),
        (needed, Some(written)) => {
            format!(", and had written {} ({} were asked for)", size(written), size(needed))
        }
    };
    let (ended, advice) = match run.summary.status {
        Status::Complete => {
            ("RUN_TIME ended the run", "Raise RUN_TIME, or find out why the rate does not settle.")
        }
        _ => ("the run was ended", "Run it again, and let it go on."),
    };
    let found = match asked.steady_from_s {
        Some(from_s) => info(
            format!(
                "the run ended after {:.0} s because it was steady from {from_s} s on{volume}",
                run.summary.elapsed_s,
                from_s = decimal(from_s, 0)
            ),
            "Quote the figures of the steady stretch; RUN_TIME was only the limit.",
        ),
        None => warning(
            format!(
                "{ended} before it was proven steady{}",
                match asked.volume_bytes {
                    0 => String::new(),
                    needed => format!(
                        "; {} were written, {} and a whole checkpoint cycle in every window were \
                         asked for",
                        written.map_or("an unknown number of bytes".to_owned(), size),
                        size(needed)
                    ),
                }
            ),
            advice,
        ),
    };
    found.with(json!({
        "volume_bytes": asked.volume_bytes, "written_bytes": written,
        "steady_from_s": asked.steady_from_s,
    }))
}

/// Steady by the numbers, while not every window holds a whole checkpoint cycle.
fn steady_without_cycles(run: &Run, windows: &Windows) -> Judgement {
    let count = writes::checkpoints(run).filter(|_| run.summary.ops.update > 0).ok_or(Clear)?;
    clear_if(count >= WINDOWS as u64 && windows.have_cycles() != Some(false))?;
    info(
        format!(
            "the rate was steady, but {count} checkpoints do not give each of the {WINDOWS} windows \
             a whole cycle"
        ),
        "Run longer, until every window holds a whole checkpoint cycle.",
    )
    .named(TOO_SHORT)
    .with(json!({ "checkpoints": count, "range_share": windows.range_share }))
}

pub(crate) fn stalled(run: &Run) -> Judgement {
    let (from_s, to_s) = stall_window(run);
    let rows = figures::seconds_within(&run.details.timeline, from_s, to_s);
    let seconds: Vec<OneSecond> = each_second(rows).collect();
    let stalled = super::stalls(&seconds);
    clear_if(stalled.is_empty())?;
    let at: Vec<String> =
        stalled.iter().take(STALLS_NAMED).map(|second| format!("{:.0} s", second.from_s)).collect();
    let more = and_more(" ", stalled.len().saturating_sub(STALLS_NAMED));
    let candidates = candidates(&seconds, &stalled);
    let longest = longest_stall(&stalled);
    let (_, counted_to_s) = window(run);
    let is_after = longest.is_some_and(|stall| stall.from_s >= counted_to_s);
    let after = if is_after { ", after the counted window" } else { "" };
    let lasted = longest.map_or(String::new(), |stall| {
        format!("; the longest lasted {:.0} s from {:.0} s on{after}", stall.seconds, stall.from_s)
    });
    let median_rate = lower_median(seconds.iter().map(OneSecond::operations_rate));
    let lost_s = super::longest_loss(&stalled, median_rate.unwrap_or(0.0));
    let find = if lost_s >= STALL_S_MIN { warning } else { info };
    let named = if candidates.is_empty() {
        "nothing in the record is unusual in them".to_owned()
    } else {
        format!("in them {}", candidates.join(", "))
    };
    find(
        format!(
            "{} of {} seconds ran at under half the median rate (at {}{more}){lasted}; {named}",
            stalled.len(),
            seconds.len(),
            at.join(", ")
        ),
        "Look at those seconds (petal report --timeline), and in the logs of the host and the database.",
    )
    .with(json!({
        "longest_stall_s": longest.map(|stall| stall.seconds),
        "stalled_at_s": stalled.iter().map(|second| second.from_s).collect::<Vec<_>>(),
        "longest_stall_lost_s": lost_s, "median_ops_per_second": median_rate,
    }))
}

/// Lists unusual figures of the stalled seconds, from the record.
fn candidates(all: &[OneSecond], stalled: &[OneSecond]) -> Vec<String> {
    use SecondAmount as Amount;
    // What is added, so that a share of none can double.
    let figures: [(Amount, f64, f64, &str); 4] = [
        (Amount::WriteBytes, 0.0, 2.0, "more was written above the device (checkpoint)"),
        (Amount::DeviceWriteBytes, 0.0, 2.0, "the device wrote more (checkpoint, write-back)"),
        (Amount::Steal, 1.0, 2.0, "processor time was stolen"),
        (Amount::IoWait, 1.0, 1.5, "processors waited for I/O (drive cache, throttling)"),
    ];
    let found = figures.iter().filter_map(|&(amount, added, factor, words)| {
        let middle = |seconds: &[OneSecond]| {
            lower_median(seconds.iter().filter_map(|second| Some(second.amount(amount)? + added)))
        };
        let (usual, here) = (middle(all)?, middle(stalled)?);
        (here > usual * factor && here > 0.0).then(|| words.to_owned())
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture::run_over;
    use petal_record::{Finding, UntilSteadyResult};

    fn found(run: &Run) -> Vec<Finding> {
        const IDS: [&str; 4] = ["unstable", TOO_SHORT, "until-steady", "stalls"];
        let all = crate::judge(run).into_iter();
        all.filter(|finding| IDS.contains(&finding.id.as_str())).collect()
    }

    fn messages(run: &Run) -> String {
        let found = found(run);
        let reported: Vec<String> =
            found.iter().map(|f| format!("{}: {}", f.id, f.message)).collect();
        reported.join("\n")
    }

    #[test]
    fn a_steady_run_is_no_finding() {
        assert_eq!(messages(&run_over(305, |_, ops| ops)), "");
    }

    #[test]
    fn a_run_that_settled_says_from_when_on() {
        let run = run_over(905, |at, ops| if at < 200 { ops * 3 } else { ops });
        insta::assert_snapshot!(messages(&run), @"unstable: the rate was not steady over five windows: range 140 % and slope -116 % of the mean (20 % and 10 % are allowed); it fell at 200 s, from 2,744 to 915 operations/s (67 % less); changes at the same time: cache: an operation made 65.0 reads from storage, 21.7 before; from 200 s on it was steady, at 915 operations/s");
        assert!(found(&run)[0].advice.contains("WARM_UP"));
    }

    #[test]
    fn a_cliff_near_the_end_has_no_steady_stretch_after_it() {
        let run = run_over(605, |at, ops| if at < 500 { ops } else { ops / 4 });
        insta::assert_snapshot!(messages(&run), @"
        unstable: the rate was not steady over five windows: range 76 % and slope -61 % of the mean (20 % and 10 % are allowed); it fell at 500 s, from 915 to 229 operations/s (75 % less); changes at the same time: cache: an operation made 260.4 reads from storage, 65.0 before
        stalls: 105 of 600 seconds ran at under half the median rate (at 500 s, 501 s, 502 s, 503 s, 504 s, 505 s, 506 s, 507 s, 508 s, 509 s and 95 more); the longest lasted 105 s from 500 s on; nothing in the record is unusual in them
        ");
        assert!(found(&run)[0].advice.contains("do not quote the mean"));
    }

    #[test]
    fn stalls_are_reported_with_the_longest() {
        let run = run_over(305, |at, ops| if [100, 200, 201, 202].contains(&at) { 0 } else { ops });
        insta::assert_snapshot!(messages(&run), @"stalls: 4 of 300 seconds ran at under half the \
                                                  median rate (at 100 s, 200 s, 201 s, 202 s); the \
                                                  longest lasted 3 s from 200 s on; nothing in the \
                                                  record is unusual in them");
    }

    /// A server that stops until the run's end is not sampled any more.
    #[test]
    fn a_stall_at_the_end_of_the_run_is_reported_though_the_window_ends_before_it() {
        let mut run = run_over(305, |at, ops| if at >= 302 { 0 } else { ops });
        run.summary.settings.insert("run_time".into(), 305.into());
        run.summary.steady.as_mut().unwrap().to_s = 302.0;
        let found = messages(&run);
        assert!(
            found.contains("the longest lasted 3 s from 302 s on, after the counted"),
            "{found}"
        );
        // Sessions that end after a number of operations are no stall.
        run.summary.settings.insert("work_loop".into(), 100.into());
        assert!(!messages(&run).contains("stalls"));
    }

    #[test]
    fn until_steady_says_what_ended_the_run() {
        let mut run = run_over(305, |_, ops| ops);
        let mut asked = UntilSteadyResult { volume_bytes: 1 << 30, steady_from_s: Some(5.0) };
        run.details.until_steady = Some(asked);
        insta::assert_snapshot!(messages(&run), @"until-steady: the run ended after 305 s because it was steady from 5 s on, and had written 50.2 GiB (1.00 GiB were asked for)");
        asked.steady_from_s = None;
        run.details.until_steady = Some(asked);
        insta::assert_snapshot!(messages(&run), @"until-steady: RUN_TIME ended the run before it was proven steady; 50.2 GiB were written, 1.00 GiB and a whole checkpoint cycle in every window were asked for");
        let mut stopped = run.clone();
        stopped.summary.status = Status::Interrupted;
        let found = messages(&stopped);
        assert!(found.contains("the run was ended before it was proven steady"), "{found}");
        // A run that only reads needs no volume.
        asked = UntilSteadyResult { volume_bytes: 0, steady_from_s: Some(5.0) };
        run.details.until_steady = Some(asked);
        insta::assert_snapshot!(messages(&run), @"until-steady: the run ended after 305 s because it was steady from 5 s on");
    }

    #[test]
    fn windows_without_a_checkpoint_are_too_short_for_a_verdict() {
        let mut run = run_over(305, |_, ops| ops);
        for second in &mut run.details.timeline[60..140] {
            second.checkpoints = Some(0);
        }
        insta::assert_snapshot!(messages(&run), @"too-short-to-judge: the rate was steady, but 30 checkpoints do not give each of the 5 windows a whole cycle");
    }
}
