//! A prediction as text: the held-out errors of each family, then each line.

use super::numbers::{counted, micros, or_dash, percent, rate};
use super::table::{Table, paragraph};
use petal_judge::predict::{Family, PredictedLine, over_lines};

pub fn render(lines: &[PredictedLine]) -> String {
    let mut out = String::new();
    let mut errors =
        Table::headed("line | cells: | family | median %: | largest %: | at the end %:");
    for line in lines {
        for held in &line.held_out {
            let share = |share: f64| format!("{:.1}", 100.0 * share);
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
            if let Some((median, mean)) = over_lines(lines, family) {
                let (name, lines) = (family.words(), counted(lines.len() as u64, "line"));
                let (median, mean) = (percent(median), percent(mean));
                out.push_str(&paragraph("- ", "  ", &format!(
                    "{name}: the medians of {lines} have the median {median} % and the mean {mean} %"
                )));
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
        Table::headed("sessions: | PIOPS: | read us: | measured PIOPS: | off %: | unknown");
    for cell in &line.predicted {
        let off = cell.piops.zip(cell.measured_piops).map(|(piops, was)| piops / was - 1.0);
        table.row([
            cell.sessions.to_string(),
            or_dash(cell.piops, rate),
            or_dash(cell.read_us, micros),
            or_dash(cell.measured_piops, rate),
            or_dash(off, |off| format!("{:+.1}", 100.0 * off)),
            cell.unknown.clone().unwrap_or_default(),
        ]);
    }
    out.push_str(&table.render());
    out
}
