//! A comparison or a history on one screen of a terminal.

use super::answer::{self, letter, metrics_different_first};
use super::compare::{cells_with, over_all_cells, table, verdicts};
use super::history::one;
use super::table::{SCREEN_LINES, command, fitting, fitting_paragraphs, paragraph, rest};
use petal_judge::compare::history::{FigureHistory, History};
use petal_judge::compare::limits::LimitResult;
use petal_judge::compare::{Comparison, ComparisonVerdict};

const BULLETS_MAX: usize = 3;
/// Columns that a narrower terminal has no room for: runs, half of an interval, probability.
const OPTIONAL: [&str; 3] = ["n", "+-", "p"];
/// Lines that a table of a few cells needs.
const TABLE_LINES: usize = 12;

/// Lays out a comparison on one screen: the answer, limits, effects of findings, and the metric
/// that differs most.
pub fn of_comparison(comparison: &Comparison, held: &[LimitResult]) -> String {
    let mut out = paragraph("", "", &answer::of_comparison(comparison));
    out.push_str(&next(comparison.verdict.as_ref()));
    for (at, side) in comparison.sides.iter().enumerate() {
        out.push_str(&paragraph(&format!("{}  ", letter(at)), "   ", &side.name));
    }
    verdicts(&mut out, held);
    if !comparison.effects.is_empty() {
        out.push('\n');
        let effects = comparison.effects.iter().map(|effect| paragraph("- ", "  ", effect));
        let room = SCREEN_LINES.saturating_sub(out.lines().count() + TABLE_LINES);
        let effects = effects.collect::<Vec<_>>();
        out.push_str(&fitting_paragraphs(
            &effects,
            BULLETS_MAX,
            room,
            "effect",
            "in the whole report",
        ));
    }
    let metrics = metrics_different_first(comparison);
    if let Some(metric) = metrics.first() {
        let cells = cells_with(comparison, metric);
        let over_all: String =
            over_all_cells(comparison, metric).iter().map(|line| format!("{line}\n")).collect();
        let text = |count: usize| {
            let more = rest(cells.len() - count, "cell", "in the whole report");
            let table = table(comparison, &cells[..count]).render_without(&OPTIONAL).0;
            format!("\n{metric}\n{table}{more}{over_all}")
        };
        let lines = SCREEN_LINES.saturating_sub(out.lines().count() + 2);
        out.push_str(&fitting(cells.len(), lines, text));
    }
    if metrics.len() > 1 {
        out.push_str(&format!("\n--full shows all {} figures of each cell\n", metrics.len()));
    }
    out
}

/// The command to type after a comparison of no storage tests.
pub(super) fn next(verdict: Option<&ComparisonVerdict>) -> String {
    let next = verdict.filter(|verdict| !verdict.next.is_empty());
    next.map_or_else(String::new, |verdict| command("next ", &verdict.next))
}

/// Lays out a history on one screen: the answer, limits, and the figure that changed most.
pub fn of_history(history: &History, held: &[LimitResult]) -> String {
    let mut out = paragraph("", "", &answer::of_history(history));
    out.push_str(&next(history.verdict.as_ref()));
    verdicts(&mut out, held);
    let change = |series: &&FigureHistory| {
        let changes = series.changes.iter().filter_map(|change| change.shift);
        changes.map(|shift| shift.share.abs()).fold(0.0, f64::max)
    };
    // The first of equal figures.
    let most = history.series.iter().rev().max_by(|a, b| change(a).total_cmp(&change(b)));
    if let Some(series) = most {
        let text = |count: usize| {
            let mut newest = series.clone();
            newest.steps.drain(..series.steps.len() - count);
            one(&newest, &history.by)
        };
        let lines = SCREEN_LINES.saturating_sub(out.lines().count() + 2);
        out.push_str(&fitting(series.steps.len(), lines, text));
    }
    if history.series.len() > 1 {
        out.push_str(&format!("\n--full shows all {} figures\n", history.series.len()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_judge::compare::{ComparedSide, Rules, compare};
    use petal_record::observation::Observation;

    #[test]
    fn a_narrow_comparison_has_each_column_once() {
        let run = |sessions: u32, piops: f64| Observation {
            factors: [("update_pct", sessions + 4), ("sessions", sessions)]
                .map(|(key, value)| (key.to_owned(), value.to_string()))
                .into(),
            metrics: [("piops".to_owned(), piops)].into(),
            ..Observation::default()
        };
        let runs = |by: f64| {
            let all =
                [1, 16].map(|sessions| [0.9, 1.0, 1.1].map(|x| run(sessions, 123e3 * x * by)));
            ComparedSide { name: format!("by {by}"), observations: all.concat() }
        };
        let comparison = compare(&[runs(1.0), runs(2.0)], &Rules::default()).unwrap();
        let shown = crate::table::within(80, || of_comparison(&comparison, &[]));
        assert_eq!(shown.matches("update_pct").count(), 1, "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let names = shown.lines().find(|line| line.starts_with("update_pct")).unwrap();
        let names: Vec<&str> = names.split_whitespace().collect();
        let kept = ["update_pct", "sessions", "A", "B", "change", "%", "from", "to", "significant"];
        assert_eq!(names, kept);
        let wide = of_comparison(&comparison, &[]);
        assert_eq!(wide.matches("  n  ").count(), 2, "{wide}");
        assert!(!wide.contains("--full"), "the only figure is shown: {wide}");
    }

    #[test]
    fn a_comparison_fits_on_a_screen() {
        let cell = |at: usize, piops: f64| Observation {
            factors: vec![("sessions".to_owned(), at.to_string())],
            metrics: [("piops".to_owned(), piops)].into(),
            ..Observation::default()
        };
        let runs = |by: f64| {
            let cells = (1..60).flat_map(|at| [0.99, 1.0, 1.01].map(|x| cell(at, 100.0 * x * by)));
            ComparedSide { name: format!("by {by}"), observations: cells.collect() }
        };
        let comparison = compare(&[runs(1.0), runs(1.5)], &Rules::default()).unwrap();
        let shown = of_comparison(&comparison, &[]);
        assert!(shown.lines().count() <= 40, "{shown}");
        assert!(
            shown.contains(" more cells in the whole report")
                && shown.starts_with("59 of 59 cells"),
            "{shown}"
        );
    }
}
