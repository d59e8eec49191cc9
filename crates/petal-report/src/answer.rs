//! The answer of a comparison or a history in a sentence.

use petal_host::numbers::signed_percent;
use petal_judge::compare::history::{FigureHistory, History, LevelChange};
use petal_judge::compare::{Change, ComparedCell, Comparison, Significance};

/// Differences that a sentence names.
const NAMED_MAX: usize = 3;
/// Sides are letters in tables: their names may be long.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// A difference of a cell, of the side at this position.
pub(super) struct Found<'a> {
    pub(super) metric: &'a str,
    pub(super) cell: &'a ComparedCell,
    pub(super) side: usize,
    pub(super) change: &'a Change,
}

/// The verdict, if the sides are not storage tests, then findings that change the answer, then the
/// differences.
pub fn of_comparison(comparison: &Comparison) -> String {
    let verdict = comparison.verdict.iter().map(|verdict| verdict.words.clone());
    let caveats = comparison.caveats.iter().cloned();
    verdict.chain(caveats).chain(differences(comparison)).collect::<Vec<_>>().join(" ")
}

/// Says how many cells differ, by how much at the most, and if the rest is noise. None if no figure
/// is compared.
fn differences(comparison: &Comparison) -> Option<String> {
    let all = changes(comparison);
    if all.is_empty() && comparison.verdict.is_some() {
        return None;
    }
    let is = |significance| move |found: &&Found<'_>| found.change.significance == significance;
    let count = comparison.cells.len();
    let cells = if count == 1 { "1 cell".to_owned() } else { format!("{count} cells") };
    let mut figures = comparison.cells.iter().flat_map(|cell| &cell.figures);
    if all.is_empty() && figures.all(|figure| figure.sides.iter().all(Option::is_some)) {
        return Some(format!(
            "No answer: the baseline of {cells} is 0, and no change is a share of it."
        ));
    }
    let unknown = all.iter().filter(is(Significance::Unknown)).count();
    if unknown == all.len() {
        return Some(format!(
            "No answer: {cells} and too few runs to know their noise. Give each side three runs or more."
        ));
    }
    let different: Vec<&Found<'_>> = all.iter().filter(is(Significance::Significant)).collect();
    let rest = match unknown {
        0 => String::new(),
        1 => format!(" 1 of {} figures has too few runs to judge.", all.len()),
        unknown => format!(" {unknown} of {} figures have too few runs to judge.", all.len()),
    };
    if different.is_empty() {
        let hidden = hidden(comparison, &all);
        return Some(format!(
            "No difference in {cells} is larger than the noise of the runs{hidden}.{rest}"
        ));
    }
    let is_different =
        |cell: &&ComparedCell| different.iter().any(|it| std::ptr::eq(it.cell, *cell));
    let cells_different = comparison.cells.iter().filter(is_different).count();
    let named = comparison.metrics.iter().filter_map(|metric| {
        let of_metric = different.iter().filter(|found| found.metric == metric);
        let size = |found: &Found<'_>| found.change.difference.share.abs();
        of_metric.max_by(|a, b| size(a).total_cmp(&size(b)))
    });
    let named: Vec<String> =
        named.take(NAMED_MAX).map(|found| words(found, comparison.sides.len())).collect();
    let others = match different.len() - named.len() {
        0 => "No other difference is larger than the noise of the runs.".to_owned(),
        1 => "1 more figure differs.".to_owned(),
        more => format!("{more} more figures differ."),
    };
    let which = match count {
        1 => "The cell differs".to_owned(),
        _ if cells_different == 1 => format!("1 of {cells} differs"),
        _ => format!("{cells_different} of {cells} differ"),
    };
    Some(format!("{which}, most: {}. {others}{rest}", named.join("; ")))
}

/// The widest interval of the first metric: a change of this size may be there unseen.
fn hidden(comparison: &Comparison, all: &[Found<'_>]) -> String {
    let is_compared = |metric: &&String| all.iter().any(|found| found.metric == metric.as_str());
    let Some(metric) = comparison.metrics.iter().find(is_compared) else { return String::new() };
    let of_metric = all.iter().filter(|found| found.metric == metric);
    let bounds = of_metric.filter_map(|found| found.change.difference.interval);
    let widest = bounds.max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
    widest.map_or_else(String::new, |(low, high)| {
        let [low, high] = [low, high].map(|share| signed_percent(share, 0));
        format!(
            "; a real change of {metric} by {low} to {high} % in one cell would not have been noticed"
        )
    })
}

fn changes(comparison: &Comparison) -> Vec<Found<'_>> {
    let mut all = Vec::new();
    for cell in &comparison.cells {
        for figure in &cell.figures {
            for (at, change) in figure.changes.iter().enumerate() {
                let metric = figure.metric.as_str();
                all.extend(change.as_ref().map(|change| Found {
                    metric,
                    cell,
                    side: at + 1,
                    change,
                }));
            }
        }
    }
    all
}

/// Describes a difference, such as `read_us +12 % at UPDATE_PCT 20, SESSIONS 16`.
fn words(found: &Found<'_>, sides: usize) -> String {
    let percent = signed_percent(found.change.difference.share, 1);
    let whose = if sides > 2 { format!("{}: ", letter(found.side)) } else { String::new() };
    let place = place(&found.cell.factors);
    format!("{whose}{} {percent} %{place}", found.metric)
}

pub(super) fn letter(at: usize) -> String {
    LETTERS.chars().nth(at).map_or_else(|| format!("#{}", at + 1), String::from)
}

fn place(factors: &[(String, String)]) -> String {
    let words = factors.iter().map(|(key, value)| format!("{} {value}", key.to_uppercase()));
    let words = words.collect::<Vec<_>>().join(", ");
    if words.is_empty() { words } else { format!(" at {words}") }
}

/// Returns all metrics: those that differ in a cell before those that do not.
pub(super) fn metrics_different_first(comparison: &Comparison) -> Vec<&str> {
    let all = different(comparison);
    let is_same = |metric: &&str| !all.iter().any(|found| found.metric == *metric);
    let mut metrics: Vec<&str> = comparison.metrics.iter().map(String::as_str).collect();
    metrics.sort_by_key(is_same);
    metrics
}

/// Returns the changes that are larger than the noise of the runs.
pub(super) fn different(comparison: &Comparison) -> Vec<Found<'_>> {
    let mut all = changes(comparison);
    all.retain(|found| found.change.significance == Significance::Significant);
    all
}

/// Says which figures changed last, by how much and when.
pub fn of_history(history: &History) -> String {
    let verdict = history.verdict.iter().map(|verdict| verdict.words.clone());
    let is_empty = history.verdict.as_ref().is_some_and(|verdict| verdict.is_without_a_side);
    let changes = (!is_empty).then(|| changes_over_time(history));
    verdict.chain(changes).collect::<Vec<_>>().join(" ")
}

fn changes_over_time(history: &History) -> String {
    let changed = history.series.iter().filter_map(|series| {
        let change = series.changes.last()?;
        Some((series, change, change.shift?.share))
    });
    let mut changed: Vec<_> = changed.collect();
    changed.sort_by(|a, b| b.2.abs().total_cmp(&a.2.abs()));
    let longest = history.series.iter().map(|series| series.steps.len()).max().unwrap_or(0);
    let (by, groups) = (&history.by, if longest == 1 { "group" } else { "groups" });
    if changed.is_empty() {
        let why = match longest {
            0 => return format!("No answer: no run has a recorded {by}."),
            1..4 => "too few to know the variation between groups",
            _ => "no figure changed by more than chance explains",
        };
        return format!("{longest} {groups} by {by}: {why}.");
    }
    let words = |series: &FigureHistory, change: &LevelChange, share: f64| {
        let (percent, place) = (signed_percent(share, 1), place(&series.factors));
        format!("{} {percent} % in {}{place}", series.metric, change.group)
    };
    let largest = changed.iter().take(NAMED_MAX);
    let named: Vec<String> =
        largest.map(|(series, change, share)| words(series, change, *share)).collect();
    let of = history.series.len();
    format!(
        "{} of {of} figures changed over {longest} {groups} by {by}: {}.",
        changed.len(),
        named.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_judge::compare::{ComparedSide, Rules, compare};
    use petal_record::observation::Observation;

    /// Runs of one cell with these figures.
    fn side(name: &str, piops: &[f64]) -> ComparedSide {
        let run = |&piops: &f64| Observation {
            factors: vec![("sessions".to_owned(), "4".to_owned())],
            metrics: [("piops".to_owned(), piops)].into(),
            ..Observation::default()
        };
        ComparedSide { name: name.to_owned(), observations: piops.iter().map(run).collect() }
    }

    fn answer(a: &[f64], b: &[f64]) -> String {
        let sides = [side("before", a), side("after", b)];
        of_comparison(&compare(&sides, &Rules::default()).unwrap())
    }

    #[test]
    fn the_answer_is_a_difference_none_or_unknown() {
        let before = [1000.0, 1010.0, 990.0, 1005.0];
        let slower = before.map(|piops| piops * 0.8);
        assert_eq!(
            answer(&before, &slower),
            "The cell differs, most: piops -20.0 %. No other difference is larger than the noise of \
             the runs."
        );
        let same = "No difference in 1 cell is larger than the noise of the runs; a real change of piops \
                    by -1 to +1 % in one cell would not have been noticed.";
        assert_eq!(answer(&before, &[1002.0, 1008.0, 992.0, 1003.0]), same);
        assert!(answer(&[1000.0], &[500.0]).starts_with("No answer: 1 cell and too few runs"));
    }
}
