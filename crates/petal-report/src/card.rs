//! A record as a card, for a README or a ticket: one drawing, and a block of Markdown to go with
//! it.

use std::collections::BTreeSet;

use super::numbers::UNKNOWN;
use super::petals::{PIOPS, can_draw, svg_titled};
use super::records::ShownRecord;
use super::sweep::{highest, verdict};
use super::table::markdown as cell;
use petal_judge::petals::Petals;
use petal_record::headline::Headline;
use petal_record::{Run, Severity};
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

/// A card of a run, or of a sweep by its petals.
pub fn card(shown: &ShownRecord, run: Option<&Run>) -> Card {
    let headline = run.map(petal_judge::headline);
    let of_petals = || highest(&shown.petals).unwrap_or_else(|| UNKNOWN.to_owned());
    let heading = headline.as_ref().map_or_else(of_petals, Headline::brief);
    let verdict = match &headline {
        Some(headline) => headline.to_string(),
        None => of_lines(&shown.petals),
    };
    let platform = shown.title();
    let runs = if shown.runs == 1 { "run" } else { "runs" };
    let measured =
        format!("{}, {} {runs}, petal {}", shown.measured, shown.runs, shown.petal_version);
    let warned = warnings(shown, run).join(", ");
    let said = if warned.is_empty() { String::new() } else { format!("; warnings: {warned}") };
    let title = [&heading, &platform, &verdict, &format!("{measured}{said}")];
    let title: Vec<String> = title.iter().map(|line| cut(line)).collect();
    let petals = Petals { lines: shown.petals.lines.clone(), ..Petals::default() };
    let svg = can_draw(&petals, &PIOPS).then(|| svg_titled(&petals, &title.join("\n")));
    let picture = svg.as_ref().map(|_| format!("![petal: {}]({SVG_NAME})\n\n", cell(&heading)));
    let warned = if warned.is_empty() { "none".to_owned() } else { warned };
    let rows = [("verdict", verdict), ("platform", platform), ("measured", measured)];
    let rows = rows.into_iter().chain([("warnings", warned)]);
    let rows: String =
        rows.map(|(name, value)| format!("| {name} | {} |\n", cell(&value))).collect();
    let head = format!("| petal | {} |\n|---|---|\n", cell(&heading));
    Card { svg, markdown: format!("{}{head}{rows}", picture.unwrap_or_default()) }
}

/// Warnings and errors of a run; of a sweep those of its lines' peaks.
fn warnings(shown: &ShownRecord, run: Option<&Run>) -> Vec<String> {
    if let Some(run) = run {
        let found = run.summary.findings.iter();
        return found
            .filter(|it| it.severity >= Severity::Warning)
            .map(|it| it.id.clone())
            .collect();
    }
    let peaks = shown.petals.lines.iter().filter_map(|line| {
        let point = line.points.get(line.peak.or(line.struck_out)?)?;
        Some(&point.warnings)
    });
    let all: BTreeSet<&String> = peaks.flatten().collect();
    all.into_iter().cloned().collect()
}

/// The peak of each line with its verdict.
fn of_lines(petals: &Petals) -> String {
    let lines = petals.lines.iter().map(|line| {
        let words = verdict(line, None);
        let of_peak = line.peak.and_then(|at| line.points.get(at)?.verdict.as_deref());
        match of_peak {
            Some(of_peak) => format!("{of_peak}: {words}"),
            None => words,
        }
    });
    let all = lines.collect::<Vec<_>>().join("; ");
    if all.is_empty() { UNKNOWN.to_owned() } else { all }
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
    use super::super::sweep::tests::swept;
    use super::*;
    use petal_record::fixture;

    #[test]
    fn a_sweeps_card_names_its_highest_peak_and_its_platform() {
        let card = card(&ShownRecord::of_sweep("a".into(), &swept(), None), None);
        let begin = "![petal: not judged by petal; peak 12,060 PIOPS at UPDATE_PCT 0 with 16 sessions]\
                     (card.svg)\n\n| petal |";
        assert!(card.markdown.starts_with(begin), "{}", card.markdown);
        assert!(
            card.markdown.contains("| platform | SQLite 3.54.1, vda virtual disk ext4, dbhost |")
        );
        assert!(card.markdown.contains("| measured | 2026-11-20, 11 runs, petal 0.1.0 |"));
        assert!(card.markdown.contains("UPDATE_PCT 0: peak 12,060 PIOPS with 16 sessions"));
        let svg = card.svg.unwrap();
        assert!(svg.contains("peak 12,060 PIOPS") && svg.contains("vda virtual disk"));
    }

    #[test]
    fn a_card_begins_with_the_verdict_in_the_words_of_the_run() {
        let carded = |change: &dyn Fn(&mut Run)| {
            let mut run = fixture::mixed_run();
            change(&mut run);
            petal_judge::conclude(&mut run);
            let markdown = card(&ShownRecord::of_run("a".into(), &run), Some(&run)).markdown;
            (markdown, run.summary.headline.unwrap())
        };
        let (valid, headline) = carded(&|_| ());
        let heading = format!("| petal | {} |\n", headline.brief());
        assert!(
            valid.contains(&heading) && heading.starts_with("| petal | valid test of the device: ")
        );
        assert!(valid.contains(&headline.to_string().replace('|', "\\|")), "{valid}");
        let (cached, _) = carded(&fixture::read_through_page_cache);
        assert!(
            cached.contains("| petal | not a storage test (cached-by-os), no result: "),
            "{cached}"
        );
        assert!(cached.contains("| warnings | cached-by-os"), "{cached}");
        let (invalid, _) = carded(&|run| {
            run.summary.rows_asked = Some(run.summary.rows);
            run.summary.rows.select /= 2;
        });
        assert!(invalid.contains("| petal | invalid (rows-missing), no result: "), "{invalid}");
    }

    #[test]
    fn no_text_of_a_card_is_markup() {
        let run = hostile::run();
        let card = card(&ShownRecord::of_run(HOSTILE.into(), &run), Some(&run));
        let svg = card.svg.unwrap_or_default();
        assert!(!svg.contains("<script") && !svg.contains("<img"), "{svg}");
        assert!(!card.markdown.contains("<script") && !card.markdown.contains("<img"));
        assert!(card.markdown.lines().all(|line| line.is_empty() || line.starts_with(['|', '!'])));
    }
}
