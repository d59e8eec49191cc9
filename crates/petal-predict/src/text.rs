//! A prediction as text: the held-out errors of each family, then each line.

use super::WhatIf;
use petal_judge::predict::{
    Family, PREDICTED_CONFIDENCE, PredictedCell, PredictedLine, over_lines,
};
use petal_report::numbers::{counted, decimal, micros, or_dash, percent, rate, signed_percent};
use petal_report::table::{SCREEN_LINES, Table, fitting, paragraph, rest};

/// Lines with an answer on one screen.
const ANSWERS_MAX: usize = 4;
/// Reason for a prediction without an interval.
const NO_INTERVAL: &str = "no interval: under two errors of the curve are known";
/// Session counts that an answer names; the table has all.
const NAMED_MAX: usize = 3;

/// Lays out a prediction on one screen: an answer for each line, then as many tables as fit.
pub fn brief(lines: &[PredictedLine]) -> String {
    const PLACE: &str = "with --full";
    let answers = lines.iter().take(ANSWERS_MAX).map(answer);
    let mut out: String = answers.map(|words| paragraph("", "  ", &words)).collect();
    out.push_str(&rest(lines.len().saturating_sub(ANSWERS_MAX), "line", PLACE));
    let is_tested = lines.iter().any(|line| !line.held_out.is_empty());
    let end = if is_tested { "\n--full shows the errors of every family of curves\n" } else { "" };
    let predicted: Vec<_> = lines.iter().filter(|line| line.refused.is_none()).collect();
    let tables = |count: usize| {
        let tables = predicted.iter().take(count).map(|line| format!("\n{}", of_line(line)));
        tables.collect::<String>() + &rest(predicted.len() - count, "line", PLACE)
    };
    let above = out.lines().count() + end.lines().count();
    let lines_left = SCREEN_LINES.saturating_sub(above).max(1);
    let shown = fitting(predicted.len(), lines_left, tables);
    let cut = shown.lines().count() > lines_left;
    let kept: Vec<&str> = shown.lines().take(lines_left - usize::from(cut)).collect();
    let more = rest(shown.lines().count() - kept.len(), "line", PLACE);
    let kept: String = kept.iter().map(|line| format!("{line}\n")).collect();
    out + &kept + &more + end
}

/// The new predictions of a line, and the error of its curves on measured cells.
fn answer(line: &PredictedLine) -> String {
    if let Some(why) = &line.refused {
        return format!("{}: not predicted: {why}", line.name);
    }
    let new = line.predicted.iter().filter(|cell| cell.measured_piops.is_none());
    let words = new.map(|cell| {
        let interval = |(low, high)| format!(" ({} to {})", rate(low), rate(high));
        let interval = cell.interval.map_or_else(|| format!(" ({NO_INTERVAL})"), interval);
        let with = sessions(cell.sessions);
        match (cell.piops, &cell.unknown) {
            (Some(piops), _) => format!("{} PIOPS{interval} with {with}", rate(piops)),
            (None, Some(why)) => format!("{with} not predicted ({why})"),
            (None, None) => format!("{with} not predicted"),
        }
    });
    let mut words: Vec<String> = words.collect();
    if words.len() > NAMED_MAX + 1 {
        let more = words.split_off(NAMED_MAX).len() as u64;
        words.push(format!("{} in the table", counted(more, "more session count")));
    }
    let held = line.held_out.iter().find(|held| Some(held.family) == line.used);
    words.extend(held.map(|held| {
        let [median, largest] = [held.median, held.largest].map(percent);
        format!(
            "by {}, off by {median} % (median) to {largest} % on cells left out",
            held.family.words()
        )
    }));
    format!("{}: {}", line.name, words.join("; "))
}

fn sessions(count: u32) -> String {
    counted(u64::from(count), "session")
}

pub fn render(lines: &[PredictedLine]) -> String {
    let mut out = String::new();
    let mut errors =
        Table::headed("line | cells: | family | median %: | largest %: | at the end %:");
    for line in lines {
        for held in &line.held_out {
            let share = |share: f64| decimal(100.0 * share, 1);
            errors.row([
                line.name.clone(),
                line.cells.to_string(),
                held.family.words().to_owned(),
                share(held.median),
                share(held.largest),
                or_dash(held.beyond, share),
            ]);
        }
    }
    if !errors.is_empty() {
        out.push_str("Errors of PIOPS on held-out cells\n\n");
        out.push_str(&errors.render());
        for family in Family::ALL {
            if let Some(over) = over_lines(lines, family) {
                out.push_str(&paragraph(
                    "- ",
                    "  ",
                    &format!(
                        "{}: over {}, the middle of these medians is {} % and their mean {} %",
                        family.words(),
                        counted(over.lines as u64, "line"),
                        percent(over.median),
                        percent(over.mean)
                    ),
                ));
            }
        }
    }
    for line in lines {
        out.push('\n');
        out.push_str(&of_line(line));
    }
    out
}

fn of_line(line: &PredictedLine) -> String {
    let family = match (&line.refused, line.used) {
        (Some(why), _) => {
            return paragraph("", "  ", &format!("{}: not predicted: {why}", line.name));
        }
        (None, used) => or_dash(used, |family| family.words().to_owned()),
    };
    let mut out = paragraph("", "  ", &format!("{}: by {family}", line.name));
    let level = decimal(100.0 * PREDICTED_CONFIDENCE, 0);
    let mut table = Table::headed(&format!(
        "sessions: | PIOPS: | {level} %: | read us: | measured PIOPS: | off %: | note"
    ));
    for cell in &line.predicted {
        let off = cell.piops.zip(cell.measured_piops).map(|(piops, was)| piops / was - 1.0);
        table.row([
            cell.sessions.to_string(),
            or_dash(cell.piops, rate),
            or_dash(cell.interval, |(low, high)| format!("{} to {}", rate(low), rate(high))),
            or_dash(cell.read_us, micros),
            or_dash(cell.measured_piops, rate),
            or_dash(off, |off| signed_percent(off, 1)),
            note(cell, line.used),
        ]);
    }
    out.push_str(&table.render());
    out
}

/// Reason for an unknown prediction, or the family if it is not the line's.
fn note(cell: &PredictedCell, used: Option<Family>) -> String {
    let other = cell.family.filter(|family| Some(*family) != used);
    let other = other.map(|family| format!("by {}", family.words()));
    let no_interval = cell.piops.is_some() && cell.interval.is_none();
    let no_interval = no_interval.then(|| NO_INTERVAL.to_owned());
    let notes = [cell.unknown.clone().or(other), no_interval].into_iter().flatten();
    notes.collect::<Vec<_>>().join("; ")
}

/// A run with changes: the predicted throughput, and the bounds of its resources.
pub fn what_if(found: &WhatIf) -> String {
    let ops = |ops| or_dash(ops, rate);
    let changes = found.changes.join(", ");
    let mut out = String::new();
    if let Some(predicted) = found.ops {
        let change = found.measured_ops.map(|measured| predicted / measured - 1.0);
        let least = if found.is_upper_bound { "at most " } else { "" };
        let answer = format!(
            "predicted with {changes}: {least}{} operations/s ({} %), {} PIOPS; limited by {}",
            rate(predicted),
            or_dash(change, |change| signed_percent(change, 1)),
            ops(found.piops),
            or_dash(found.limited_by.as_ref(), Clone::clone)
        );
        out.push_str(&paragraph("", "  ", &answer));
    }
    for why in &found.refused {
        out.push_str(&paragraph("", "  ", &format!("not predicted with {changes}: {why}")));
    }
    let measured = format!(
        "measured in {} with {}: {} operations/s, {} PIOPS",
        found.record,
        counted(found.sessions, "session"),
        ops(found.measured_ops),
        ops(found.measured_piops)
    );
    out.push_str(&paragraph("", "  ", &measured));
    if !found.bounds.is_empty() {
        let mut table = Table::headed("most by | operations/s: | with changes: | from");
        for bound in &found.bounds {
            let (now, changed) = (ops(bound.now), ops(bound.changed));
            table.row([bound.of.clone(), now, changed, bound.evidence.clone()]);
        }
        out.push_str(&format!("\n{}", table.render()));
    }
    if found.ops.is_some() && found.is_upper_bound {
        let note = "the run waited for the limit that is lifted, and where else an operation waits is \
                    not seen in it: measure again with the change";
        out.push_str(&format!("\n{}", paragraph("- ", "  ", note)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OperationsBound;
    use petal_report::{table, widths};

    #[test]
    fn a_run_with_changes_is_one_screen_or_its_reasons() {
        let bound = |of: &str, now: Option<f64>, changed, evidence: &str| OperationsBound {
            of: of.to_owned(),
            now,
            changed,
            evidence: evidence.to_owned(),
        };
        let found = WhatIf {
            record: "results/run".to_owned(),
            changes: vec!["processors 2x".to_owned()],
            sessions: 4,
            measured_ops: Some(100.0),
            measured_piops: Some(6400.0),
            bounds: vec![
                bound("processors", Some(102.0), Some(204.0), "2,941.0 us of 0.60 processors"),
                bound("device", None, None, "not known: petal calibrate measures it"),
            ],
            ops: Some(204.0),
            piops: Some(13056.0),
            limited_by: Some("processors".to_owned()),
            ..WhatIf::default()
        };
        insta::assert_snapshot!(what_if(&found), @r"
        predicted with processors 2x: 204 operations/s (+104.0 %), 13,056 PIOPS; limited by processors
        measured in results/run with 4 sessions: 100 operations/s, 6,400 PIOPS

        most by     operations/s  with changes  from
        ----------  ------------  ------------  --------------------------------------
        processors           102           204  2,941.0 us of 0.60 processors
        device                 -             -  not known: petal calibrate measures it
        ");
        let refused =
            WhatIf { refused: vec!["--rate: the run had no RATE".to_owned()], ops: None, ..found };
        let shown = what_if(&refused);
        let why = "not predicted with processors 2x: --rate: the run had no RATE\n";
        assert!(shown.starts_with(why), "{shown}");
    }

    #[test]
    fn a_cell_names_its_family_if_it_is_not_the_lines() {
        let cell = |sessions, family, piops, unknown: Option<&str>| PredictedCell {
            sessions,
            piops,
            interval: piops.map(|piops| (piops / 1.25, piops * 1.25)),
            read_us: piops.map(|_| 800.0),
            measured_piops: None,
            family,
            unknown: unknown.map(str::to_owned),
        };
        let line = PredictedLine {
            name: "all".to_owned(),
            cells: 4,
            held_out: Vec::new(),
            used: Some(Family::Interpolation),
            refused: None,
            predicted: vec![
                cell(12, Some(Family::Interpolation), Some(7000.0), None),
                cell(64, Some(Family::Usl), Some(8000.0), None),
                cell(99, None, None, Some("over twice 32 sessions")),
            ],
        };
        let many =
            vec![
                PredictedLine { predicted: vec![cell(12, None, None, None); 60], ..line.clone() };
                9
            ];
        for lines in [&many[..1], &many[..]] {
            let shown = table::within(80, || brief(lines));
            assert!(shown.lines().count() <= 40 && shown.contains("with --full"), "{shown}");
        }
        let shown = table::within(80, || brief(std::slice::from_ref(&line)));
        let answer = shown.replace("\n  ", " ");
        let wanted = "all: 7,000 PIOPS (5,600 to 8,750) with 12 sessions; 8,000 PIOPS (6,400 to 10,000) with 64 sessions; 99 sessions not predicted (over twice 32 sessions)\n\nall: by interpolation";
        assert!(answer.starts_with(wanted), "{shown}");
        insta::assert_snapshot!(render(&[line]), @r"

        all: by interpolation
        sessions  PIOPS             90 %  read us  measured PIOPS  off %  note
        --------  -----  ---------------  -------  --------------  -----  ----------------------
              12  7,000   5,600 to 8,750    800.0               -      -
              64  8,000  6,400 to 10,000    800.0               -      -  by USL
              99      -                -        -               -      -  over twice 32 sessions
        ");
    }

    #[test]
    fn no_line_of_a_prediction_is_longer_than_the_terminal() {
        const FLASH: &str = include_str!("../../../tests/samples/flash-pcie.csv");
        let rows = petal_record::plain_csv::parse(FLASH, "flash-pcie.csv", None).unwrap();
        let lines = petal_judge::predict::predict(
            &petal_judge::petals::Petals::of(&rows),
            &[12, 24, 48],
            None,
        );
        widths::look("predict", || render(&lines));
        widths::look("predict, brief", || brief(&lines));
    }
}
