//! The text report, read from top to bottom as a DBA reads an AWR report: the line to paste, what
//! to beware of, what was tested, the load, where time went, the layers, the seconds, the findings
//! with their evidence. Every section names the layer its figures come from.

mod events;
mod header;
mod judgement;
mod layers;
mod load;
mod seconds;

use super::table::{WIDTH, paragraph};
use crate::analysis;
use crate::record::Run;

/// The whole report, at most 100 columns wide, without colours.
pub fn render(run: &Run) -> String {
    let mut out = String::new();
    top(&mut out, run);
    header::render(&mut out, run);
    load::render(&mut out, run);
    events::render(&mut out, run);
    layers::render(&mut out, run);
    seconds::render(&mut out, run);
    judgement::render(&mut out, run);
    footnotes(&mut out);
    out
}

fn top(out: &mut String, run: &Run) {
    let summary = &run.summary;
    out.push_str(&format!("petal {} run report\n\n", run.details.petal_version));
    out.push_str(&paragraph("", "  ", &analysis::verdict(run).to_string()));
    out.push('\n');
    if run.details.rebuilt {
        let partial = "PARTIAL: petal was killed; these are the seconds that it had journaled.";
        out.push_str(&paragraph("", "  ", partial));
    }
    out.push_str(&format!("status {}\n", summary.status.name()));
    judgement::summary(out, run);
}

/// A section's title, and the layer its figures come from.
fn section(out: &mut String, title: &str, layer: &str) {
    let title = title.to_uppercase();
    let layer = if layer.is_empty() { String::new() } else { format!("[{layer}]") };
    let used = title.chars().count() + layer.chars().count();
    let space = " ".repeat(WIDTH.saturating_sub(used).max(2));
    let line = format!("{title}{space}{layer}");
    out.push_str(&format!("\n{}\n{}\n", line.trim_end(), "=".repeat(WIDTH)));
}

/// `name   value`, the values under each other; long ones go on in the same column.
fn fact(out: &mut String, name: &str, value: &str) {
    const NAME_WIDTH: usize = 22;
    out.push_str(&paragraph(&format!("{name:<NAME_WIDTH$}"), &" ".repeat(NAME_WIDTH), value));
}

fn footnotes(out: &mut String) {
    section(out, "how to read this", "");
    let lines = [
        "`-` is unknown: the engine or this host does not tell it. It is never a zero.",
        "us are microseconds. MB are millions of bytes; KiB, MiB, GiB are powers of 1024.",
        "Operation latency is petal's clock and covers a whole operation. I/O latency is that of one \
         read, write or sync as the source beside it timed it. The two are never mixed.",
        "Layers are compared in bytes: requests split and merge on their way down.",
        "docs/numbers.md of petal tells of every figure how it is computed.",
    ];
    for line in lines {
        out.push_str(&paragraph("- ", "  ", line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    fn judged(mut run: Run) -> Run {
        run.summary.findings = analysis::judge(&run);
        run
    }

    fn killed() -> Run {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), 4);
        judged(crate::record::load(dir.path()).unwrap())
    }

    #[test]
    fn no_line_is_wider_than_a_page_or_ends_in_spaces() {
        for run in [judged(fixture::mixed_run()), killed(), Run::begin("x", Default::default())] {
            for line in render(&run).lines() {
                assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
                assert_eq!(line, line.trim_end());
            }
        }
    }

    #[test]
    fn a_complete_mixed_run() {
        insta::assert_snapshot!(render(&judged(fixture::mixed_run())), @"");
    }

    #[test]
    fn a_killed_run_rebuilt() {
        insta::assert_snapshot!(render(&killed()), @"");
    }

    #[test]
    fn a_run_that_knows_nothing_shows_dashes_and_no_figure() {
        let report = render(&Run::begin("sqlite", Default::default()));
        assert!(report.contains("PIOPS -+- | single-block read - us | redo - MB/s"), "{report}");
        let profile = report.split("LOAD PROFILE").nth(1).unwrap();
        let redo = profile.lines().find(|line| line.starts_with("redo, MB")).unwrap();
        assert_eq!(redo.split_whitespace().skip(2).collect::<Vec<_>>(), ["-", "-", "-"]);
        assert!(!report.contains("NaN") && !report.contains("inf"));
    }
}
