//! The end of a sweep on one screen of a terminal: its state, the petals, a verdict for each line,
//! the gravest findings, and the place of the rest.

use super::super::numbers::{counted, micros, or_dash, rate, signed_percent};
use super::super::petals_text;
use super::super::table::{SCREEN_LINES, command, fitting_paragraphs, paragraph};
use super::chart;
use super::design;
use super::findings::grouped;
use super::peak_run;
use petal_judge::petals::{Highest, PetalLine, Petals, Point};
use petal_record::Severity;
use petal_record::conclusions::limit_clause;
use petal_record::headline::AskedFor;
use petal_record::sweep::Swept;
use petal_record::sweep_design::Design;
use petal_settings::objective::Objective;

const CHART_HEIGHT: usize = 12;
/// Lines of petals that have a verdict on the screen.
const VERDICTS_MAX: usize = 5;
/// Height of the chart next to the limit of the last run.
const CHART_HEIGHT_WITH_LIMIT: usize = 9;
const VERDICTS_MAX_WITH_LIMIT: usize = 3;
const FINDINGS_MAX: usize = 3;
/// Lines that verdicts leave for findings.
const FINDINGS_LINES: usize = 7;
const IN_REPORT: &str = "in the report";

/// Lays out a sweep on at most 40 lines; `place` is the folder of its reports.
pub fn brief(swept: &Swept, petals: &Petals, objective: Option<&Objective>, place: &str) -> String {
    let mut designed = design::found(swept);
    let answer = match swept.sweep.plan.design {
        Design::Search { .. } if !designed.is_empty() => Some(designed.remove(0)),
        _ => cost_of_writers(petals).or_else(|| self::answer(swept, petals)),
    };
    let answer = answer.map_or_else(String::new, |answer| format!("{answer}; "));
    let mut out = paragraph("", "  ", &format!("{answer}{}", design::state(swept)));
    out.push_str(&next(petals));
    let (height, verdicts_max) = match &swept.peak_run {
        Some(_) => (CHART_HEIGHT_WITH_LIMIT, VERDICTS_MAX_WITH_LIMIT),
        None => (CHART_HEIGHT, VERDICTS_MAX),
    };
    for (name, words) in swept.peak_run.iter().flat_map(peak_run::lines) {
        out.push_str(&paragraph(name, "  ", &words));
    }
    let where_else =
        "report.txt and report.html there hold the whole report; --full prints it here";
    let end = format!("\n{}", paragraph("record ", "  ", &format!("{place}: {where_else}")));
    out.push_str(&chart::drawing(petals, &[], height));
    let room = |out: &str| SCREEN_LINES.saturating_sub(out.lines().count() + end.lines().count());
    let found = findings(swept, petals);
    let for_verdicts = room(&out).saturating_sub(if found.is_empty() { 0 } else { FINDINGS_LINES });
    out.push_str(&verdicts(petals, objective, verdicts_max, for_verdicts, IN_REPORT));
    let designed = bullets("-  ", &designed);
    out.push_str(&fitting_paragraphs(&designed, VERDICTS_MAX, room(&out), "result", IN_REPORT));
    if !found.is_empty() {
        let found = gravest(&found, room(&out).saturating_sub(1), IN_REPORT);
        out.push_str(&format!("\n{found}"));
    }
    out + &end
}

/// Lays out the petals of runs or a table, without a sweep's record, on at most 40 lines.
pub fn of_petals(name: &str, petals: &Petals, objective: Option<&Objective>) -> String {
    const IN_WHOLE: &str = "with --full";
    const END: &str = "\n--full shows each point with its interval\n";
    let answer = highest(petals).map_or_else(String::new, |answer| format!(": {answer}"));
    let mut out = paragraph("petals of ", "  ", &format!("{name}{answer}"));
    out.push_str(&next(petals));
    out.push_str(&chart::drawing(petals, &[], CHART_HEIGHT));
    let room = |out: &str| SCREEN_LINES.saturating_sub(out.lines().count() + END.lines().count());
    let mut found = petals.notes.clone();
    found.extend(petals_text::findings(petals));
    let for_verdicts = room(&out).saturating_sub(if found.is_empty() { 0 } else { FINDINGS_LINES });
    out.push_str(&verdicts(petals, objective, VERDICTS_MAX, for_verdicts, IN_WHOLE));
    if !found.is_empty() {
        let found = gravest(&found, room(&out).saturating_sub(1), IN_WHOLE);
        out.push_str(&format!("\n{found}"));
    }
    out + END
}

/// The command to type after a sweep.
fn next(petals: &Petals) -> String {
    match petals.next.as_str() {
        "" => String::new(),
        next => command("next ", next),
    }
}

/// Change of the most readers' SELECTs next to the most writers; None without both.
fn cost_of_writers(petals: &Petals) -> Option<String> {
    let cost = petals.writer_costs.last()?;
    let row = cost.rows.last()?;
    let change = row.change.as_ref()?;
    let percent = |share: f64| signed_percent(share, 1);
    let interval = change.interval.map_or_else(String::new, |(low, high)| {
        format!(" (95 %: {} to {})", percent(low), percent(high))
    });
    let [readers, writers] =
        [(cost.readers, "reader"), (row.writers, "writer")].map(|(n, noun)| counted(n, noun));
    Some(format!(
        "mean SELECT of {readers} with {writers}: {} %{interval} from the readers alone",
        percent(change.share)
    ))
}

/// The verdict of the sweep, then its highest peak, or the platforms of which none is the winner; None
/// without a run.
pub(crate) fn highest(petals: &Petals) -> Option<String> {
    let verdict = petals.verdict.as_ref().map_or(&petals.tested, |verdict| &verdict.words);
    let name = |line: &PetalLine| match petals.lines.len() {
        0 | 1 => String::new(),
        _ => format!(" at {}", line.name),
    };
    let peak = petals.highest().map(|highest| match highest {
        Highest::Peak(line, point) => {
            let load = load(line, point, false);
            format!("peak {load}{} with {}", name(line), sessions(line, line.peak))
        }
        Highest::NoWinner(peaks) => {
            let known = |(line, point): &(&PetalLine, &Point)| {
                point.load(line.asked_for).is_some_and(|seen| seen.interval.is_some())
            };
            let has_single = peaks.iter().any(|(_, point)| point.sources.len() < 2);
            let why = match peaks.iter().all(known) {
                true => "the 95 % intervals overlap",
                false if has_single => "single runs show no spread (--repeats 3)",
                false => "not all have a 95 % interval (--repeats 3)",
            };
            let loads = peaks
                .iter()
                .map(|(line, point)| format!("{} {}", line.name, load(line, point, true)));
            format!("no winner, {why}: {}", loads.collect::<Vec<_>>().join(", "))
        }
    });
    let all: Vec<String> = Some(verdict.clone()).into_iter().chain(peak).collect();
    (!verdict.is_empty()).then(|| all.join("; "))
}

/// The answer of a sweep: its highest peak; of a sweep whose cells all failed the first one's reason.
pub(crate) fn answer(swept: &Swept, petals: &Petals) -> Option<String> {
    let failure = || swept.sweep.failures.first();
    highest(petals).or_else(|| Some(format!("no run has figures: {}", failure()?.message)))
}

/// The load of a point, in the unit of its kind of test; also half of its interval.
fn load(line: &PetalLine, point: &Point, with_interval: bool) -> String {
    let estimate = point.load(line.asked_for);
    let half = estimate.and_then(|seen| seen.half_width).filter(|_| with_interval);
    let half = half.map_or_else(String::new, |half| format!(" +- {}", rate(half)));
    let unit = load_unit(line);
    format!("{}{half} {unit}", or_dash(estimate, |seen| rate(seen.mean)))
}

/// The unit of a line's load.
pub(crate) fn load_unit(line: &PetalLine) -> &'static str {
    match line.asked_for {
        AskedFor::PhysicalIo => "PIOPS",
        AskedFor::LogicalReads => "logical reads/s",
        AskedFor::Redo => "MB/s of redo",
    }
}

/// The verdicts of the lines in the chart: at most `most`, in as many lines of text.
fn verdicts(
    petals: &Petals,
    objective: Option<&Objective>,
    most: usize,
    lines: usize,
    place: &str,
) -> String {
    let mut shown: Vec<(char, &PetalLine)> = chart::drawn_lines(petals).collect();
    if shown.is_empty() {
        // PIOPS and their limit are known without the latency of a read.
        shown = petals.lines.iter().map(|line| ('-', line)).collect();
    }
    let verdicts = shown
        .iter()
        .map(|(letter, of)| paragraph(&format!("{letter}  "), "   ", &verdict(of, objective)));
    fitting_paragraphs(&verdicts.collect::<Vec<_>>(), most, lines, "line", place)
}

/// Lists the first findings that fit in `lines`, and the number of the others.
pub(super) fn gravest(found: &[String], lines: usize, place: &str) -> String {
    fitting_paragraphs(&bullets("- ", found), FINDINGS_MAX, lines, "finding", place)
}

/// Paragraphs that begin with this mark.
fn bullets(mark: &str, texts: &[String]) -> Vec<String> {
    let below = " ".repeat(mark.len());
    texts.iter().map(|text| paragraph(mark, &below, text)).collect()
}

/// The peak of a line with its limit, its knee, and the highest load within an objective.
pub(crate) fn verdict(line: &PetalLine, objective: Option<&Objective>) -> String {
    let mut words = format!("{}: ", line.name);
    let at = line.peak.or(line.struck_out);
    let Some((at, point)) = at.and_then(|at| Some((at, line.points.get(at)?))) else {
        return words + "no point with PIOPS";
    };
    if let Some(finding) = &point.not_storage {
        words.push_str(&format!("not a storage test ({finding}), no result: "));
    }
    let load = load(line, point, true);
    let is_peak = line.points.len() > 1 && line.peak.is_some();
    let peak = if is_peak { "peak " } else { "" };
    words.push_str(&format!("{peak}{load} with {}", sessions(line, Some(at))));
    if line.asked_for == AskedFor::PhysicalIo {
        let read = or_dash(point.read_us.as_ref(), |estimate| micros(estimate.mean));
        words.push_str(&format!(", {read} us a read"));
    }
    if let Some(limit) = line.limited_by(at) {
        words.push_str(&format!("; {}", limit_clause(limit)));
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
    use petal_judge::petals::{WriterCost, WriterCostRow};
    use petal_judge::significance::{Difference, Method};

    #[test]
    fn a_sweep_of_readers_and_writers_begins_with_the_price_of_a_writer() {
        let swept = swept();
        let change = Difference {
            share: 0.017,
            interval: Some((-0.264, 0.434)),
            p: Some(0.9),
            method: Method::Welch,
            unknown: None,
        };
        let rows = [(0, None), (1, Some(change))].map(|(writers, change)| WriterCostRow {
            writers,
            change,
            ..WriterCostRow::default()
        });
        let cost = WriterCost { readers: 2, rows: rows.into(), ..WriterCost::default() };
        let petals = Petals { writer_costs: vec![cost], ..Petals::of(&swept.observations()) };
        let shown = brief(&swept, &petals, None, "petal-results/sweep");
        let price =
            "mean SELECT of 2 readers with 1 writer: +1.7 % (95 %: -26.4 to +43.4) from the";
        assert!(shown.starts_with(price), "{shown}");
    }

    #[test]
    fn a_sweep_whose_reads_were_cached_begins_with_that_and_has_no_peak() {
        let mut swept = swept();
        for run in &mut swept.runs {
            petal_record::fixture::read_through_page_cache(run);
            petal_judge::conclude(run);
        }
        let petals = Petals::of(&swept.observations());
        let shown = brief(&swept, &petals, None, "petal-results/sweep");
        assert!(shown.starts_with("not a storage test: cached-by-os in 6 cells; "), "{shown}");
        assert!(shown.contains("\nnext petal "), "{shown}");
        let line = "\na  UPDATE_PCT 0: not a storage test (cached-by-os), no result: ";
        assert!(shown.contains(line) && !shown.contains("peak "), "{shown}");
        let whole = super::super::render(&swept, &petals, None);
        let verdict = whole.find("verdict           not a storage test: ").unwrap();
        assert!(verdict < whole.find("PIOPS").unwrap(), "{whole}");
        assert!(!whole.contains("peak ") && !whole.contains("knee "), "{whole}");
    }

    #[test]
    fn two_targets_whose_intervals_overlap_have_no_winner_on_the_screen() {
        let mut swept = swept();
        for (at, cell) in swept.sweep.cells.iter_mut().enumerate() {
            let db = if at % 2 == 0 { "sqlite:old" } else { "sqlite:new" };
            cell.factors.retain(|(key, _)| key == "sessions");
            cell.factors.push(("db".to_owned(), db.to_owned()));
        }
        let petals = Petals::of(&swept.observations());
        let shown = brief(&swept, &petals, None, "x");
        assert!(shown.starts_with("not judged by petal; no winner, "), "{shown}");
        let shown = shown.replace("\n  ", " ");
        assert!(shown.contains("DB sqlite:old ") && shown.contains("DB sqlite:new "), "{shown}");
    }

    #[test]
    fn a_sweep_of_logical_reads_has_its_peak_in_them() {
        let mut swept = swept();
        for (run, cell) in swept.runs.iter_mut().zip(&swept.sweep.cells) {
            let sessions = cell.factors.iter().find(|(key, _)| key == "sessions").unwrap();
            run.details.target.session_cache_bytes = Some(run.summary.active_bytes);
            run.summary.per_second.logical_reads =
                Some(1000.0 * sessions.1.parse::<f64>().unwrap());
            petal_judge::conclude(run);
        }
        let petals = Petals::of(&swept.observations());
        let shown = brief(&swept, &petals, None, "x");
        let begin =
            "valid test of the database's cache; peak 16,000 logical reads/s at UPDATE_PCT ";
        assert!(shown.starts_with(begin), "{shown}");
        assert!(!shown.contains("us a read"), "{shown}");
    }

    #[test]
    fn petals_without_a_sweep_are_one_screen_too() {
        let swept = swept();
        let petals = Petals::of(&swept.observations());
        let shown = within(80, || of_petals("results/many", &petals, None));
        let answer =
            "petals of results/many: not judged by petal; peak 12,060 PIOPS at UPDATE_PCT 0 with";
        assert!(shown.replace("\n  ", " ").starts_with(answer), "{shown}");
        let verdict = "\na  UPDATE_PCT 0: peak 12,060 PIOPS with 16 sessions, 340.0 us a read\n";
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
        valid test of the device; peak 12,060 PIOPS at UPDATE_PCT 0 with 16 sessions; 11 of 12 runs done;
          not complete: the same command goes on with it
        next petal run -s 4 --update-pct 20 --scale 8192 --threads-per-schema 2 --repeats 3 --db \\
          sqlite:petal-data
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
        a  UPDATE_PCT 0: peak 12,060 PIOPS with 16 sessions, 340.0 us a read; limited by waiting for reads
           (63 % of DB time)
        b  UPDATE_PCT 20: peak 11,592 PIOPS with 16 sessions, 348.0 us a read; limited by waiting for reads
           (63 % of DB time)

        - whole-run: figures are of the whole run and not of its counted window in every run (the counted
          window's counters are not known)

        record petal-results/sweep: report.txt and report.html there hold the whole report; --full prints it
          here
        ");
        petals.notes = vec!["left-out: a note of many words ".repeat(20); 9];
        petals.lines = vec![petals.lines[0].clone(); 12];
        let shown = within(80, || brief(&swept, &petals, None, "petal-results/sweep"));
        assert!(shown.lines().count() <= 40, "{shown}");
        assert!(shown.contains("8 more lines in the report"), "{shown}");
        // Without a command there is room for a line more.
        petals.next.clear();
        let shown = within(80, || brief(&swept, &petals, None, "petal-results/sweep"));
        assert!(shown.lines().count() <= 40, "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(shown.contains("7 more lines in the report"), "{shown}");
        assert_eq!(shown.matches("(63 % of DB time)\n").count(), 5, "{shown}");
        assert!(shown.contains("\n9 findings in the report\n"), "{shown}");
        let notes = ["first", "second"].map(|at| format!("{at} {}", "of many words ".repeat(20)));
        petals.notes = notes.into();
        let shown = within(80, || brief(&swept, &petals, None, "petal-results/sweep"));
        assert_eq!(shown.replace("\n  ", " ").matches("of many words").count(), 20, "{shown}");
        assert!(shown.contains("\n1 more finding in the report\n"), "{shown}");
        // The last line of the demo's answer is the address of its page.
        let mut run = swept.runs[0].clone();
        petal_record::fixture::time_threads(&mut run, 1.0);
        petal_judge::conclude(&mut run);
        let headline = run.summary.headline.as_mut().unwrap();
        headline.limited_by.words = "reads; by experiment ".repeat(9);
        swept.peak_run = Some(run);
        let shown = within(80, || brief(&swept, &petals, None, "petal-results/sweep"));
        assert!(shown.lines().count() < 40, "{shown}");
        let second = shown.lines().nth(2).unwrap();
        assert!(second.starts_with("limited by reads; by experiment"), "{shown}");
        assert!(shown.contains("\ntime goes to page cache, file system "), "{shown}");
    }
}
