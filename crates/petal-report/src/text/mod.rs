//! The text report, read from top to bottom as a DBA reads an AWR report: the line to paste,
//! warnings, the tested system, the load, the time spent, the layers, the seconds, the findings
//! with their evidence. Every section names the layer of its figures.

mod brief;
mod judgement;
mod sections;
mod steadiness;

use super::table::{columns, command, line, paragraph};
use petal_record::headline::Headline;
use petal_record::{RebuiltBecause, Run};

/// The whole report, no wider than [`columns`] but for the line to paste, without colors.
pub fn render(run: &Run) -> String {
    let mut out = String::new();
    top(&mut out, run);
    sections::target(&mut out, run);
    // Sections that compare layers show all of them over the same time.
    let counted = run.counted();
    sections::replay(&mut out, run);
    sections::work(&mut out, &counted);
    sections::own_report(&mut out, &counted);
    sections::drivers(&mut out, run);
    let own = run.without_experiments();
    sections::hosts(&mut out, &own);
    sections::with_device(&mut out, run);
    sections::over_time(&mut out, &own);
    steadiness::render(&mut out, run);
    sections::own_counters(&mut out, &counted);
    judgement::render(&mut out, run);
    footnotes(&mut out);
    out
}

fn top(out: &mut String, run: &Run) {
    out.push_str(&line(&format!("petal {} run report", run.details.petal_version)));
    out.push('\n');
    // The one line that may be wider than the page: it is for pasting, so it is not broken.
    let headline = petal_judge::headline(run);
    out.push_str(&line(&headline.to_string()));
    out.push_str(&verdict(&headline));
    out.push('\n');
    if run.details.rebuilt {
        let because = run.details.rebuilt_because.unwrap_or(RebuiltBecause::NotWritten);
        let partial = format!("PARTIAL: {}; these are its seconds.", because.words());
        out.push_str(&paragraph("", "  ", &partial));
    }
    status(out, run);
}

pub use brief::{brief, brief_with};

/// Returns the reason for a verdict other than valid, and the command to type next.
fn verdict(headline: &Headline) -> String {
    let sentence = || paragraph("verdict ", "  ", &headline.verdict.sentence());
    let reason = headline.verdict.reason.as_ref().map(|_| sentence());
    reason.unwrap_or_default() + &command("next ", &headline.next)
}

/// Writes the status, a note if the database's totals end before the run, and the findings in
/// short.
fn status(out: &mut String, run: &Run) {
    out.push_str(&format!("status {}\n", run.status_words()));
    if let Some(until) = run.counted_until() {
        let cut_short = format!(
            "The database reported its figures {until}. Load profile, timed events, layers and counters are of that \
             time, petal's and the device's figures there too; operation latency is of the whole run."
        );
        out.push_str(&paragraph("", "  ", &cut_short));
    }
    if let Some((from_s, to_s)) = run.experiments_s() {
        let text = format!(
            "Experiments changed the run from second {from_s:.0} to {to_s:.0}: these seconds are in \
             no table but that of elasticity."
        );
        out.push_str(&paragraph("", "  ", &text));
    }
    judgement::summary(out, run);
}

/// A section's title, and the layer its figures come from.
pub(super) fn section(out: &mut String, title: &str, layer: &str) {
    let title = title.to_uppercase();
    let layer = if layer.is_empty() { String::new() } else { format!("[{layer}]") };
    let used = title.chars().count() + layer.chars().count();
    let title = match columns().checked_sub(used).filter(|&space| space > 1) {
        Some(space) => line(format!("{title}{}{layer}", " ".repeat(space)).trim_end()),
        None => line(&title) + &line(&format!("{layer:>width$}", width = columns())),
    };
    out.push_str(&format!("\n{title}{}\n", "=".repeat(columns())));
}

/// Texts as the items of a list.
pub(super) fn bullets(out: &mut String, texts: impl IntoIterator<Item = impl AsRef<str>>) {
    for text in texts {
        out.push_str(&paragraph("- ", "  ", text.as_ref()));
    }
}

/// A section of warnings before figures are compared; none without notes.
pub(super) fn caveats(out: &mut String, notes: &[String]) {
    if !notes.is_empty() {
        section(out, "before you believe it", "");
        bullets(out, notes);
    }
}

/// `name   value`, the values under each other; long ones go on in the same column.
fn fact(out: &mut String, name: &str, value: &str) {
    const NAME_WIDTH: usize = 22;
    out.push_str(&paragraph(&format!("{name:<NAME_WIDTH$}"), &" ".repeat(NAME_WIDTH), value));
}

fn footnotes(out: &mut String) {
    section(out, "how to read this", "");
    let lines = [
        "`-` is unknown: the engine or this host does not report it. It is never a zero.",
        "us are microseconds. MB are millions of bytes; KiB, MiB, GiB are powers of 1024.",
        "Operation latency is petal's clock and covers a whole operation. I/O latency is that of \
         one read, write or sync by the named source. The two are never mixed.",
        "Layers are compared in bytes: requests split and merge on their way down.",
        "docs/numbers.md of petal has the formula of every figure.",
    ];
    bullets(out, lines);
}

#[cfg(test)]
mod own_report_tests;
#[cfg(test)]
mod tests;
