//! The end of a sweep on one screen of a terminal: its state, the petals, a verdict for each line,
//! the gravest findings, and the place of the rest.

use super::super::numbers::{micros, or_dash, rate};
use super::super::petals_text;
use super::super::table::{clipped, line, paragraph, rest};
use super::chart;
use super::design;
use super::findings::grouped;
use super::peak_run;
use petal_judge::petals::{PetalLine, Petals};
use petal_model::record::Severity;
use petal_model::record::sweep::Swept;
use petal_model::settings::objective::Objective;

const CHART_HEIGHT: usize = 12;
/// Lines of petals that have a verdict on the screen.
const VERDICTS_MAX: usize = 5;
/// Height of the chart next to the limit of the last run.
const CHART_HEIGHT_WITH_LIMIT: usize = 9;
const VERDICTS_MAX_WITH_LIMIT: usize = 3;
const FINDINGS_MAX: usize = 3;
const IN_REPORT: &str = "in the report";

/// Lays out a sweep on at most 40 lines; `place` is the folder of its reports.
pub fn brief(swept: &Swept, petals: &Petals, objective: Option<&Objective>, place: &str) -> String {
    let mut out = line(&design::state(swept));
    let (height, verdicts_max) = match &swept.peak_run {
        Some(_) => (CHART_HEIGHT_WITH_LIMIT, VERDICTS_MAX_WITH_LIMIT),
        None => (CHART_HEIGHT, VERDICTS_MAX),
    };
    for (name, words) in swept.peak_run.iter().flat_map(peak_run::lines) {
        out.push_str(&clipped(name, "  ", &words));
    }
    out.push_str(&drawn(petals, objective, height, verdicts_max, IN_REPORT));
    for text in design::found(swept).iter().take(VERDICTS_MAX) {
        out.push_str(&clipped("-  ", "   ", text));
    }
    out.push('\n');
    let found = findings(swept, petals);
    out.push_str(&gravest(&found, IN_REPORT));
    if !found.is_empty() {
        out.push('\n');
    }
    let where_else =
        "report.txt and report.html there hold the whole report; --full prints it here";
    out.push_str(&paragraph("record ", "  ", &format!("{place}: {where_else}")));
    out
}

/// Lays out the petals of runs or a table, without a sweep's record, on at most 40 lines.
pub fn of_petals(name: &str, petals: &Petals, objective: Option<&Objective>) -> String {
    const IN_WHOLE: &str = "with --full";
    let mut out = clipped("petals of ", "  ", name);
    out.push_str(&drawn(petals, objective, CHART_HEIGHT, VERDICTS_MAX, IN_WHOLE));
    let mut found = petals.notes.clone();
    found.extend(petals_text::findings(petals));
    if !found.is_empty() {
        out.push_str(&format!("\n{}", gravest(&found, IN_WHOLE)));
    }
    out + "\n--full shows each point with its interval\n"
}

/// The chart, and a verdict for each line in it.
fn drawn(
    petals: &Petals,
    objective: Option<&Objective>,
    height: usize,
    verdicts_max: usize,
    place: &str,
) -> String {
    let mut out = chart::drawing(petals, &[], height);
    let mut shown: Vec<(char, &PetalLine)> = chart::drawn_lines(petals).collect();
    if shown.is_empty() {
        // PIOPS and their limit are known without the latency of a read.
        shown = petals.lines.iter().map(|line| ('-', line)).collect();
    }
    for (letter, of) in shown.iter().take(verdicts_max) {
        out.push_str(&clipped(&format!("{letter}  "), "   ", &verdict(of, objective)));
    }
    out + &rest(shown.len().saturating_sub(verdicts_max), "line", place)
}

/// Lists the first findings, and the number of the others.
pub(super) fn gravest(found: &[String], place: &str) -> String {
    let shown = found.iter().take(FINDINGS_MAX);
    let shown: String = shown.map(|text| clipped("- ", "  ", text)).collect();
    shown + &rest(found.len().saturating_sub(FINDINGS_MAX), "finding", place)
}

/// The peak of a line with its limit, its knee, and the highest load within an objective.
pub(super) fn verdict(line: &PetalLine, objective: Option<&Objective>) -> String {
    let mut words = format!("{}: ", line.name);
    let Some((at, point)) = line.peak.and_then(|at| Some((at, line.points.get(at)?))) else {
        return words + "no point with PIOPS";
    };
    let piops = or_dash(point.piops.as_ref(), |estimate| {
        let half =
            estimate.half_width.map_or_else(String::new, |half| format!(" +- {}", rate(half)));
        format!("{}{half}", rate(estimate.mean))
    });
    let peak = if line.points.len() > 1 { "peak " } else { "" };
    let read = or_dash(point.read_us.as_ref(), |estimate| micros(estimate.mean));
    let at_peak = sessions(line, line.peak);
    words.push_str(&format!("{peak}{piops} PIOPS with {at_peak}, {read} us a read"));
    if let Some(limit) = line.limited_by(at) {
        words.push_str(&format!("; limited by {limit}"));
    }
    if line.knee.is_some() && line.points.len() > 1 {
        words.push_str(&format!("; knee at {}", sessions(line, line.knee)));
    }
    if let Some(objective) = objective {
        let met = crate::petals::met(line, objective, |at| sessions(line, Some(at)));
        words.push_str(&format!("; {met}"));
    }
    words
}

fn sessions(line: &PetalLine, at: Option<usize>) -> String {
    let count = at.and_then(|at| line.points.get(at)).map_or(0, |point| point.sessions);
    format!("{count} {}", if count == 1 { "session" } else { "sessions" })
}

/// Errors, then the notes on all runs together, then warnings.
fn findings(swept: &Swept, petals: &Petals) -> Vec<String> {
    let grouped = grouped(swept);
    let of = |severity: Severity| {
        let found = grouped.iter().filter(move |found| found.finding.severity == severity);
        found.map(|found| {
            format!("{}: {}: {}", found.finding.id, found.place(), found.finding.message)
        })
    };
    of(Severity::Error)
        .chain(super::not_in_means(swept))
        .chain(petals.notes.iter().cloned())
        .chain(of(Severity::Warning))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::swept;
    use super::*;
    use crate::table::within;

    #[test]
    fn petals_without_a_sweep_are_one_screen_too() {
        let swept = swept();
        let petals = Petals::of(&swept.observations());
        let shown = within(80, || of_petals("results/many", &petals, None));
        assert!(shown.starts_with("petals of results/many\n  read us\n"), "{shown}");
        let verdict = "\na  UPDATE_PCT 0: peak 12,060 PIOPS with 16 sessions, 340.0 us a read;";
        assert!(shown.contains(verdict), "{shown}");
        let mut many = petals.clone();
        many.notes = vec!["left-out: a note of many words ".repeat(20); 9];
        many.lines = vec![petals.lines[0].clone(); 12];
        let shown = within(80, || of_petals("results/many", &many, None));
        assert!(shown.lines().count() <= 40 && shown.contains("--full"), "{shown}");
        assert!(shown.contains("7 more lines with --full"), "{shown}");
    }

    #[test]
    fn the_end_of_a_sweep_fits_on_a_screen() {
        let mut swept = swept();
        for run in &mut swept.runs {
            run.summary.findings = petal_judge::judge(run);
            petal_judge::conclude(run);
        }
        let mut petals = Petals::of(&swept.observations());
        insta::assert_snapshot!(brief(&swept, &petals, None, "petal-results/sweep"), @"
        11 of 12 runs done; not complete: the same command goes on with it
          read us
             400 +
                 |                                                    .b16
                 |                                                ....  .a16
             300 +                                             ...  ....
                 |                                          ...  ...
             200 +                                      .... ....
                 |                                ....b4 ....
                 |                       ..............a4
             100 +                 1ba1........
                 |
                 |
               0 +
                 ++----------------------+----------------------+----------------------+
                  0                    5,000                  10,000              15,000
                                                                 PIOPS, reads and writes
        a  UPDATE_PCT 0: peak 12,060 PIOPS with 16 sessions, 340.0 us a read; limited by reads waited for
           (63 % of DB time); knee at 4 sessions
        b  UPDATE_PCT 20: peak 11,592 PIOPS with 16 sessions, 348.0 us a read; limited by reads waited for
           (63 % of DB time); knee at 4 sessions

        - whole-run: figures are of the whole run and not of its steady window in every run (the steady
          window's counters are not known)

        record petal-results/sweep: report.txt and report.html there hold the whole report; --full prints it
          here
        ");
        petals.notes = vec!["left-out: a note of many words ".repeat(20); 9];
        petals.lines = vec![petals.lines[0].clone(); 12];
        let shown = within(80, || brief(&swept, &petals, None, "petal-results/sweep"));
        assert!(shown.lines().count() <= 40, "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(shown.contains("7 more lines in the report"), "{shown}");
        assert!(shown.contains(" ...\n"), "{shown}");
        // The last line of the demo's answer is the address of its page.
        let mut run = swept.runs[0].clone();
        petal_model::record::fixture::time_threads(&mut run, 1.0);
        petal_judge::conclude(&mut run);
        run.summary.limited_by.as_mut().unwrap().words = "reads; by experiment ".repeat(9);
        swept.peak_run = Some(run);
        let shown = within(80, || brief(&swept, &petals, None, "petal-results/sweep"));
        assert!(shown.lines().count() < 40, "{shown}");
        let second = shown.lines().nth(1).unwrap();
        assert!(second.starts_with("limited by reads; by experiment"), "{shown}");
        assert!(shown.contains("\ntime goes to page cache, file system "), "{shown}");
    }
}
