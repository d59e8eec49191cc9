//! Findings as text: in short at the top, with evidence at the end, and the rules that this record
//! cannot judge.

use super::super::table::paragraph;
use super::section;
use petal_record::{Run, Severity};

/// Writes a line for each severity, for the top of the report.
pub(super) fn summary(out: &mut String, run: &Run) {
    let findings = &run.summary.findings;
    if findings.is_empty() {
        out.push_str("findings none\n");
    }
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let mut ids: Vec<&str> =
            findings.iter().filter(|f| f.severity == severity).map(|f| f.id.as_str()).collect();
        // A rule that found several things is named once.
        ids.dedup();
        if !ids.is_empty() {
            out.push_str(&paragraph(&format!("{}: ", label(severity)), "  ", &ids.join(", ")));
        }
    }
}

fn label(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "ERRORS",
        Severity::Warning => "WARNINGS",
        Severity::Info => "info",
    }
}

pub(super) fn render(out: &mut String, run: &Run) {
    section(out, "findings", "judged from this record");
    if run.summary.findings.is_empty() {
        out.push_str("none\n");
    }
    for finding in &run.summary.findings {
        let first = format!("{} {}: ", finding.severity.name().to_uppercase(), finding.id);
        out.push_str(&paragraph(&first, "  ", &finding.message));
        out.push_str(&paragraph("  advice: ", "    ", &finding.advice));
        let evidence: Vec<String> =
            finding.evidence.iter().map(|(name, value)| format!("{name}={value}")).collect();
        out.push_str(&paragraph("  evidence: ", "    ", &evidence.join(", ")));
    }
    section(out, "not judged here", "and why");
    for judged in petal_judge::not_judged(run) {
        out.push_str(&paragraph(&format!("{}: ", judged.id), "  ", &judged.reason));
    }
}
