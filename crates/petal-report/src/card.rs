//! A record as a card, for a README or a ticket: one drawing, and a block of Markdown to go with
//! it.

use super::numbers::{UNKNOWN, micros, or_dash, rate};
use super::petals::{PIOPS, can_draw, svg_titled};
use super::records::ShownRecord;
use super::sweep::load_unit;
use super::table::markdown as cell;
use petal_judge::petals::{PetalLine, Petals, Point};
use petal_record::headline::AskedFor;
use petal_settings::printable::printable_line;

pub const SVG_NAME: &str = "card.svg";
pub const MARKDOWN_NAME: &str = "card.md";

/// A longer line would leave the drawing.
const LETTERS_MAX: usize = 118;

pub struct Card {
    /// None if no point is known.
    pub svg: Option<String>,
    pub markdown: String,
}

/// `verdict` is the line to paste of a run; a sweep's is made of its petals.
pub fn card(shown: &ShownRecord, verdict: Option<&str>) -> Card {
    let best = shown.petals.highest_peak();
    let of_petals = || {
        let verdict = shown.petals.verdict.iter().map(|verdict| verdict.words.clone());
        let all: Vec<String> = verdict.chain(best.map(verdict_of)).collect();
        if all.is_empty() { UNKNOWN.to_owned() } else { all.join("; ") }
    };
    let verdict = verdict.map_or_else(of_petals, str::to_owned);
    let platform = shown.title();
    let runs = if shown.runs == 1 { "run" } else { "runs" };
    let measured =
        format!("{}, {} {runs}, petal {}", shown.measured, shown.runs, shown.petal_version);
    let warnings = best.map(|(_, point)| &point.warnings);
    let warnings: Vec<&str> = warnings.into_iter().flatten().map(String::as_str).collect();
    let heading = best.map(|(line, point)| {
        let load = or_dash(point.load(line.asked_for), |seen| rate(seen.mean));
        let read_us = or_dash(point.read_us.as_ref(), |seen| micros(seen.mean));
        match line.asked_for {
            AskedFor::PhysicalIo => format!("{load} PIOPS at {read_us} us"),
            AskedFor::LogicalReads | AskedFor::Redo => format!("{load} {}", load_unit(line)),
        }
    });
    let struck_out = || shown.petals.verdict.as_ref().map(|verdict| verdict.words.clone());
    let heading = heading.or_else(struck_out).unwrap_or_else(|| UNKNOWN.to_owned());
    let warned = warnings.join(", ");
    let said = if warned.is_empty() { String::new() } else { format!("; warnings: {warned}") };
    let title = [&heading, &platform, &verdict, &format!("{measured}{said}")];
    let title: Vec<String> = title.iter().map(|line| cut(line)).collect();
    let petals = Petals { lines: shown.petals.lines.clone(), ..Petals::default() };
    let svg = can_draw(&petals, &PIOPS).then(|| svg_titled(&petals, &title.join("\n")));
    let picture = svg.as_ref().map(|_| format!("![petal: {}]({SVG_NAME})\n\n", cell(&heading)));
    let warned = if warned.is_empty() { "none at the peak".to_owned() } else { warned };
    let rows = [("verdict", verdict), ("platform", platform), ("measured", measured)];
    let rows = rows.into_iter().chain([("warnings", warned)]);
    let rows: String =
        rows.map(|(name, value)| format!("| {name} | {} |\n", cell(&value))).collect();
    let head = format!("| petal | {} |\n|---|---|\n", cell(&heading));
    Card { svg, markdown: format!("{}{head}{rows}", picture.unwrap_or_default()) }
}

fn verdict_of((line, point): (&PetalLine, &Point)) -> String {
    let half = point.load(line.asked_for).and_then(|seen| seen.half_width);
    let half = half.map_or(String::new(), |half| format!(" +- {}", rate(half)));
    let limit =
        line.limit.as_ref().map_or(String::new(), |limit| format!("; limited by: {}", limit.cause));
    let served = point.served_by.as_ref();
    let served = served.map_or(String::new(), |served| format!("; served by: {served}"));
    let load = or_dash(point.load(line.asked_for), |seen| rate(seen.mean));
    let read_us = or_dash(point.read_us.as_ref(), |seen| micros(seen.mean));
    let read = format!(", single-block read {read_us} us");
    let read = if line.asked_for == AskedFor::PhysicalIo { read } else { String::new() };
    let noun = if point.sessions == 1 { "session" } else { "sessions" };
    let unit = load_unit(line);
    format!(
        "{}: most with {} {noun}, {load}{half} {unit}{read}{served}{limit}",
        line.name, point.sessions
    )
}

fn cut(line: &str) -> String {
    let line = printable_line(line);
    match line.chars().count() > LETTERS_MAX {
        true => line.chars().take(LETTERS_MAX - 3).chain("...".chars()).collect(),
        false => line.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::hostile::{self, HOSTILE};
    use super::super::records;
    use super::super::sweep::tests::swept;
    use super::*;
    use petal_record::fixture;

    #[test]
    fn a_sweeps_card_names_its_highest_peak_and_its_platform() {
        let card = card(&ShownRecord::of_sweep("a".into(), &swept(), None), None);
        assert!(
            card.markdown.starts_with("![petal: 12,060 PIOPS at 340.0 us](card.svg)\n\n| petal |")
        );
        assert!(
            card.markdown.contains("| platform | SQLite 3.54.1, vda virtual disk ext4, dbhost |")
        );
        assert!(card.markdown.contains("| measured | 2026-11-20, 11 runs, petal 0.1.0 |"));
        assert!(card.markdown.contains("UPDATE_PCT 0: most with 16 sessions, 12,060 PIOPS"));
        let svg = card.svg.unwrap();
        assert!(svg.contains("12,060 PIOPS at 340.0 us") && svg.contains("vda virtual disk"));
    }

    #[test]
    fn a_runs_card_has_its_line_to_paste_and_no_text_is_markup() {
        let run = fixture::mixed_run();
        let line = petal_judge::headline(&run).to_string();
        let shown = records::of_runs(&[("a".into(), run)], None).remove(0);
        let card = card(&shown, Some(&line));
        assert!(card.markdown.contains(&line.replace('|', "\\|")), "{}", card.markdown);
        let shown = records::of_runs(&[(HOSTILE.into(), hostile::run())], None).remove(0);
        let card = super::card(&shown, Some(HOSTILE));
        let svg = card.svg.unwrap_or_default();
        assert!(!svg.contains("<script") && !svg.contains("<img"), "{svg}");
        assert!(!card.markdown.contains("<script") && !card.markdown.contains("<img"));
        assert!(card.markdown.lines().all(|line| line.is_empty() || line.starts_with(['|', '!'])));
    }
}
