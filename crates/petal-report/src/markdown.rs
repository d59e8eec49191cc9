//! A comparison and a history as a comment for a pull request: the answer, the cells that differ,
//! and the rest folded.

use super::answer::{different, letter, of_comparison, of_history};
use super::compare::{cells_with, difference_table, limit_table, side_findings, side_words};
use super::history::{shifted, title, trend};
use super::numbers::{or_dash, rate};
use super::table::{Table, markdown};
use petal_host::numbers::signed_percent;
use petal_judge::compare::history::History;
use petal_judge::compare::limits::LimitResult;
use petal_judge::compare::{Comparison, ComparisonVerdict, label};

/// Rows of the table that is not folded.
const ROWS_MAX: usize = 16;
/// Rows of a folded table.
const FOLDED_ROWS_MAX: usize = 100;
/// A comment on GitHub has at most 65,536 letters. Folded tables leave room for lists.
const LETTERS_MAX: usize = 60_000;
const LETTERS_OF_TABLES_MAX: usize = 45_000;

pub fn comparison(comparison: &Comparison, held: &[LimitResult]) -> String {
    let mut out = opening(&of_comparison(comparison), comparison.verdict.as_ref(), held);
    let heading = "figure | cell | A: | B: | change %: | from: | to:";
    let several = comparison.sides.len() > 2;
    let mut all = different(comparison);
    all.sort_by_key(|found| comparison.metrics.iter().position(|metric| metric == found.metric));
    let rows = all.into_iter().filter_map(|found| {
        let figure = found.cell.figures.iter().find(|figure| figure.metric == found.metric)?;
        let mean = |side: usize| or_dash(figure.sides[side].as_ref(), |known| rate(known.mean));
        let side = if several { letter(found.side) + ": " } else { String::new() };
        let place = format!("{side}{}", label(&found.cell.factors));
        let change = &found.change.difference;
        let figures = [mean(0), mean(found.side)].into_iter();
        let row = [found.metric.to_owned(), place].into_iter().chain(figures);
        Some(row.chain(percents(change.share, change.interval)))
    });
    let heading = if several { heading.replace(" B:", " other:") } else { heading.to_owned() };
    add_table(&mut out, &Table::headed(&heading).with_rows(rows), ROWS_MAX);
    let sides = comparison.sides.iter().enumerate();
    let names: Vec<String> =
        sides.map(|(at, side)| format!("{}: {}", letter(at), side_words(at, side))).collect();
    add_list(&mut out, &names);
    let figures = comparison.metrics.iter().map(|metric| {
        (metric.clone(), super::compare::table(comparison, &cells_with(comparison, metric)))
    });
    fold_tables(&mut out, "All figures", figures);
    let findings = comparison.sides.iter().enumerate().flat_map(|(at, side)| {
        side_findings(side).map(move |text| format!("{}: {text}", letter(at)))
    });
    let notes = comparison.effects.iter().chain(&comparison.notes).cloned();
    fold_list(&mut out, "Findings", &notes.chain(findings).collect::<Vec<_>>());
    fold_tables(&mut out, "What differs", [(String::new(), difference_table(comparison))]);
    fitting(out)
}

pub fn history(history: &History, held: &[LimitResult]) -> String {
    let mut out = opening(&of_history(history), history.verdict.as_ref(), held);
    let changed = history.series.iter().flat_map(|series| {
        series.changes.iter().map(move |it| {
            let [change, from, to] = shifted(it.shift);
            let place = label(&series.factors);
            let mean = or_dash(series.steps.get(it.at), |step| rate(step.figures.mean));
            [series.metric.clone(), place, it.group.clone(), mean, change, from, to]
        })
    });
    let heading = format!("figure | cell | {} | mean: | change %: | from: | to:", history.by);
    add_table(&mut out, &Table::headed(&heading).with_rows(changed), ROWS_MAX);
    let figures = history.series.iter().map(|series| {
        let name = format!("{}; {}", title(series), trend(series));
        (name, super::history::table(series, &history.by))
    });
    fold_tables(&mut out, "All figures", figures);
    fold_list(&mut out, "Findings", &history.notes);
    fitting(out)
}

/// A comment as long as one may be: the rest is cut between two lines.
fn fitting(mut out: String) -> String {
    if out.len() <= LETTERS_MAX {
        return out;
    }
    let end = out.bytes().take(LETTERS_MAX).rposition(|byte| byte == b'\n');
    out.truncate(end.map_or(0, |line| line + 1));
    let open = out.matches("<details>").count() - out.matches("</details>").count();
    out + &"\n</details>\n".repeat(open) + "\nThe comment ends here: --json has all of it.\n"
}

/// Formats a change and its interval.
fn percents(share: f64, interval: Option<(f64, f64)>) -> [String; 3] {
    let percent = |share: f64| signed_percent(share, 1);
    let (low, high) = interval.unzip();
    [percent(share), or_dash(low, percent), or_dash(high, percent)]
}

/// Returns the answer with the command to type next, and the outcomes of limits.
fn opening(answer: &str, verdict: Option<&ComparisonVerdict>, held: &[LimitResult]) -> String {
    let mut out = format!("**{}**\n", markdown(answer));
    if let Some(verdict) = verdict.filter(|verdict| !verdict.next.is_empty()) {
        out.push_str(&format!("\nNext: `{}`\n", verdict.next.replace('`', "'")));
    }
    add_table(&mut out, &limit_table(held), ROWS_MAX);
    out
}

fn add_table(out: &mut String, table: &Table, rows_max: usize) {
    if !table.is_empty() {
        out.push_str(&format!("\n{}", table.markdown(rows_max)));
    }
}

fn add_list(out: &mut String, items: &[String]) {
    let items = items.iter().map(|item| format!("- {}\n", markdown(item)));
    out.push_str(&format!("\n{}", items.collect::<String>()));
}

fn fold(out: &mut String, summary: &str, body: &str) {
    let summary = format!("<details><summary>{summary}</summary>\n");
    out.push_str(&format!("\n{summary}{body}\n</details>\n"));
}

fn fold_list(out: &mut String, summary: &str, items: &[String]) {
    if !items.is_empty() {
        let mut body = String::new();
        add_list(&mut body, items);
        fold(out, summary, &body);
    }
}

/// Folds tables, each under its name, as many as a comment has room for.
fn fold_tables(out: &mut String, summary: &str, tables: impl IntoIterator<Item = (String, Table)>) {
    let (mut body, mut left_out) = (String::new(), 0);
    for (name, table) in tables.into_iter().filter(|(_, table)| !table.is_empty()) {
        let mut part = if name.is_empty() { name } else { format!("\n{}\n", markdown(&name)) };
        add_table(&mut part, &table, FOLDED_ROWS_MAX);
        if out.len() + body.len() + part.len() > LETTERS_OF_TABLES_MAX {
            left_out += 1;
        } else {
            body.push_str(&part);
        }
    }
    if left_out > 0 {
        body.push_str(&format!("\n{left_out} more tables: --json has all figures\n"));
    }
    if !body.is_empty() {
        fold(out, summary, &body);
    }
}
