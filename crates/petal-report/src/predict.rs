//! A prediction as text: the held-out errors of each family, then each line.

use super::numbers::{counted, decimal, micros, or_dash, percent, rate, signed_percent};
use super::table::{Table, paragraph};
use petal_judge::predict::{Family, PredictedCell, PredictedLine, over_lines};

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
                        "{}: the medians of {} have the median {} % and the mean {} %",
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
    let mut table =
        Table::headed("sessions: | PIOPS: | read us: | measured PIOPS: | off %: | note");
    for cell in &line.predicted {
        let off = cell.piops.zip(cell.measured_piops).map(|(piops, was)| piops / was - 1.0);
        table.row([
            cell.sessions.to_string(),
            or_dash(cell.piops, rate),
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
    cell.unknown.clone().or(other).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_names_its_family_if_it_is_not_the_lines() {
        let cell = |sessions, family, piops, unknown: Option<&str>| PredictedCell {
            sessions,
            piops,
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
        insta::assert_snapshot!(render(&[line]), @r"

        all: by interpolation
        sessions  PIOPS  read us  measured PIOPS  off %  note
        --------  -----  -------  --------------  -----  ----------------------
              12  7,000    800.0               -      -
              64  8,000    800.0               -      -  by USL
              99      -        -               -      -  over twice 32 sessions
        ");
    }
}
