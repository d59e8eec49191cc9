//! A run's end on one screen of a terminal: the line to paste, the warnings, and the path of the
//! whole report.

use super::super::table::{line, paragraph};
use petal_model::record::{Run, Severity};

/// Lines of findings that are shown at most; the rest is in the report.
const FINDINGS_LINES: usize = 14;

/// `place` is the run's folder.
pub fn brief(run: &Run, place: &str) -> String {
    let mut out = line(&petal_judge::verdict(run).to_string());
    out.push('\n');
    super::status(&mut out, run);
    out.push_str(&findings(run));
    let rest = "report.txt and report.html there hold the whole report; --full prints it here";
    out.push('\n');
    out.push_str(&paragraph("record ", "  ", &format!("{place}: {rest}")));
    out
}

/// Lists errors and warnings with their meaning, as many as fit.
fn findings(run: &Run) -> String {
    let mut out = String::new();
    let grave = run.summary.findings.iter().filter(|finding| finding.severity != Severity::Info);
    let (mut lines, mut left_out) = (0, 0);
    for finding in grave {
        let first = format!("- {}: ", finding.id);
        let text = paragraph(&first, "  ", &format!("{}. {}", finding.message, finding.advice));
        match lines + text.lines().count() <= FINDINGS_LINES {
            true => out.push_str(&text),
            false => left_out += 1,
        }
        lines += text.lines().count();
    }
    if left_out > 0 {
        out.push_str(&format!("- {left_out} more in the report\n"));
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::within;
    use petal_model::record::fixture;

    #[test]
    fn the_end_of_a_run_fits_on_a_screen() {
        let mut run = fixture::mixed_run();
        run.summary.findings = petal_judge::judge(&run);
        let shown = within(80, || brief(&run, "petal-results/20261120T140000Z-run"));
        insta::assert_snapshot!(shown, @"
        PIOPS 59,432+10,000 | single-block read 84.3 us | redo 96.2 MB/s | served by: device | limited by: reads waited for (63 % of DB time) | whole run 60.0 s (the steady window's counters are not known)

        status complete
        info: too-short-to-judge, single-run, small-log

        record petal-results/20261120T140000Z-run: report.txt and report.html there hold
          the whole report; --full prints it here
        ");
        let finding = run.summary.findings[0].clone();
        let warning = petal_model::record::Finding { severity: Severity::Warning, ..finding };
        run.summary.findings = vec![warning; 30];
        let shown = within(80, || brief(&run, "petal-results/20261120T140000Z-run"));
        assert!(shown.lines().count() <= 24, "{shown}");
        assert!(shown.contains("more in the report"), "{shown}");
    }
}
