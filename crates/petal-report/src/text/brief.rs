//! A run's end on one screen of a terminal: the line to paste, the warnings, and the path of the
//! whole report.

use super::super::run::{interference, outages};
use super::super::table::{paragraph, rest};
use petal_model::record::{Run, Severity};

/// Findings that are shown at most, the gravest; the rest is in the report.
const FINDINGS_MAX: usize = 3;

/// `place` is the run's folder. A run with neighbours begins with their price.
pub fn brief(run: &Run, place: &str) -> String {
    if run.summary.interference.is_some() {
        return brief_interference(run, place);
    }
    let mut out = paragraph("", "  ", &petal_judge::verdict(run).to_string());
    out.push('\n');
    super::status(&mut out, run);
    outages::lines(run).iter().for_each(|line| out.push_str(&paragraph("", "  ", line)));
    out.push_str(&findings(run));
    out.push_str(&record(place));
    out
}

fn brief_interference(run: &Run, place: &str) -> String {
    let mut out = String::new();
    interference::lines(run).iter().for_each(|line| out.push_str(&paragraph("", "  ", line)));
    let table = interference::brief_table(run);
    if !table.is_empty() {
        out.push_str(&format!("\n{}", table.render()));
    }
    out.push('\n');
    super::status(&mut out, run);
    out.push_str(&findings(run));
    out.push_str(&record(place));
    out
}

fn record(place: &str) -> String {
    let whole = "report.txt and report.html there hold the whole report; --full prints it here";
    format!("\n{}", paragraph("record ", "  ", &format!("{place}: {whole}")))
}

/// Lists errors, then warnings, with their meaning.
fn findings(run: &Run) -> String {
    let findings = run.summary.findings.iter();
    let mut grave: Vec<_> = findings.filter(|finding| finding.severity != Severity::Info).collect();
    grave.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let mut out = String::new();
    for finding in grave.iter().take(FINDINGS_MAX) {
        let first = format!("- {}: ", finding.id);
        let text = format!("{}. {}", finding.message, finding.advice);
        out.push_str(&paragraph(&first, "  ", &text));
    }
    out.push_str(&rest(grave.len().saturating_sub(FINDINGS_MAX), "finding", "in the report"));
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
        PIOPS 59,432+10,000 | single-block read 84.3 us | redo 96.2 MB/s | served by:
          device | limited by: reads waited for (63 % of DB time) | whole run 60.0 s
          (the steady window's counters are not known)

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
        assert!(shown.contains("27 more findings in the report"), "{shown}");
    }
}
