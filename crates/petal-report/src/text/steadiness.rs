//! Was the rate steady: the five windows and the rule, since when, how the seconds vary, the
//! longest stall, and when and why the rate fell.

use super::super::numbers::{or_dash, percent, rate};
use super::{fact, section};
use petal_host::numbers::decimal;
use petal_judge::steady::{
    Steadiness, WINDOW_S_MIN, WINDOWS, Windows, fall_of, fall_words, longest_stall, onset,
    stall_window, stalls, steadiness, variation, window,
};
use petal_record::{OneSecond, Run, each_second, figures};

pub(super) fn render(out: &mut String, run: &Run) {
    section(out, "steadiness", "petal's operations per second");
    let (from_s, to_s) = window(run);
    let timeline = &run.details.timeline;
    let rows = figures::seconds_within(timeline, from_s, to_s);
    let seconds: Vec<OneSecond> = each_second(rows.iter().copied()).collect();
    fact(
        out,
        "judged",
        &format!(
            "from {from_s} s to {to_s} s",
            from_s = decimal(from_s, 0),
            to_s = decimal(to_s, 0)
        ),
    );
    match steadiness(timeline, from_s, to_s) {
        Steadiness::TooShort { seconds } => fact(
            out,
            "verdict",
            &format!(
                "too short to judge: {seconds} s, and it takes {WINDOWS} windows of \
                 {WINDOW_S_MIN:.0} s",
                seconds = decimal(seconds, 0)
            ),
        ),
        Steadiness::Steady(windows) => {
            fact(out, "verdict", "steady");
            of_windows(out, &windows);
        }
        Steadiness::Unstable(windows) => {
            fact(out, "verdict", "not steady");
            of_windows(out, &windows);
            let since = onset(timeline, from_s, to_s);
            let reported = or_dash(since, |(start_s, windows)| {
                format!(
                    "{start_s} s, at {} operations/s",
                    rate(windows.mean()),
                    start_s = decimal(start_s, 0)
                )
            });
            fact(out, "steady from", &reported);
            if let Some(fall) = fall_of(run, &rows) {
                fact(out, "fall", &fall_words(&fall));
            }
        }
    }
    let varies = or_dash(variation(&seconds), |share| format!("{} %", percent(share)));
    fact(out, "variation of seconds", &format!("{varies} (standard deviation over mean)"));
    let (from_s, to_s) = stall_window(run);
    let judged = figures::seconds_within(timeline, from_s, to_s);
    let judged: Vec<OneSecond> = each_second(judged).collect();
    let longest = longest_stall(&stalls(&judged)).map_or("none".to_owned(), |stall| {
        format!("{} s, from {} s on", decimal(stall.seconds, 0), decimal(stall.from_s, 0))
    });
    fact(out, "longest stall", &longest);
}

fn of_windows(out: &mut String, windows: &Windows) {
    let rates: Vec<String> = windows.ops_per_second.iter().copied().map(rate).collect();
    fact(out, "five windows", &format!("{} operations/s", rates.join(", ")));
    fact(
        out,
        "range and slope",
        &format!(
            "{} % and {} % of the mean (20 and 10 are allowed)",
            percent(windows.range_share),
            percent(windows.slope_share)
        ),
    );
    if let Some(ended) = windows.checkpoints {
        let ended: Vec<String> = ended.iter().map(u64::to_string).collect();
        fact(out, "checkpoints ended", &format!("{} in the windows", ended.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture::{self, run_over};

    fn shown(run: &Run) -> String {
        let mut out = String::new();
        render(&mut out, run);
        out
    }

    #[test]
    fn a_minute_is_too_short() {
        insta::assert_snapshot!(shown(&fixture::mixed_run()), @"
        STEADINESS                                                           [petal's operations per second]
        ====================================================================================================
        judged                from 5 s to 60 s
        verdict               too short to judge: 55 s, and it takes 5 windows of 60 s
        variation of seconds  5.5 % (standard deviation over mean)
        longest stall         none
        ");
    }

    #[test]
    fn a_steady_run_shows_its_windows() {
        insta::assert_snapshot!(shown(&run_over(305, |_, ops| ops)), @"
        STEADINESS                                                           [petal's operations per second]
        ====================================================================================================
        judged                from 5 s to 305 s
        verdict               steady
        five windows          916, 914, 915, 915, 915 operations/s
        range and slope       0.2 % and -0.1 % of the mean (20 and 10 are allowed)
        checkpoints ended     6, 6, 6, 6, 6 in the windows
        variation of seconds  5.3 % (standard deviation over mean)
        longest stall         none
        ");
    }

    #[test]
    fn a_cliff_is_reported_with_what_changed() {
        let mut run = run_over(900, |at, ops| if at < 400 { ops } else { ops / 3 });
        for second in &mut run.details.timeline[400..] {
            let device = second.device.as_mut().unwrap();
            (device.read_ms, device.write_ms) = (device.read_ms * 4, device.write_ms * 9);
        }
        run.details.timeline[700].ops.total = 0;
        run.details.timeline[701].ops.total = 1;
        insta::assert_snapshot!(shown(&run), @"
        STEADINESS                                                           [petal's operations per second]
        ====================================================================================================
        judged                from 5 s to 900 s
        verdict               not steady
        five windows          915, 915, 430, 301, 305 operations/s
        range and slope       107.1 % and -128.0 % of the mean (20 and 10 are allowed)
        checkpoints ended     18, 18, 18, 18, 18 in the windows
        steady from           400 s, at 303 operations/s
        fall                  it fell at 400 s, from 915 to 303 operations/s (67 % less); changes at the
                              same time: drive cache full or garbage collection: a device read took 267 us,
                              67 before and a write took 256 us, 28 before, for no more bytes; cache: an
                              operation made 196.0 reads from storage, 65.0 before
        variation of seconds  53.4 % (standard deviation over mean)
        longest stall         2 s, from 700 s on
        ");
    }
}
