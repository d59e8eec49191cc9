//! The findings of a sweep's cells, or of a table's rows: each warning and error once, with the
//! cells that have it.

use std::collections::BTreeSet;

use super::super::text::{bullets, section};
use petal_judge::by_key;
use petal_judge::petals::Petals;
use petal_record::sweep::Swept;
use petal_record::{Finding, Run, Severity};

pub struct Grouped<'a> {
    /// Finding of the first run that has it.
    pub finding: &'a Finding,
    runs: usize,
    of_runs: usize,
    places: BTreeSet<u32>,
    /// Kind of the places: cell or row.
    noun: &'static str,
}

impl Grouped<'_> {
    /// Returns the runs that have it, and the source of its figures: `8 of 12 runs (cells 1, 2, 4);
    /// example: first run`.
    pub fn place(&self) -> String {
        let whose = if self.runs > 1 { "; example: first run" } else { "" };
        if self.runs == self.of_runs {
            return format!("every run{whose}");
        }
        let places: Vec<String> = self.places.iter().map(u32::to_string).collect();
        let plural = if places.len() == 1 { "" } else { "s" };
        format!(
            "{} of {} runs ({}{plural} {}){whose}",
            self.runs,
            self.of_runs,
            self.noun,
            places.join(", ")
        )
    }
}

/// Returns each finding of a sweep once, the gravest first.
pub fn grouped(swept: &Swept) -> Vec<Grouped<'_>> {
    let cells = swept.sweep.cells.iter().map(|cell| cell.number);
    grouped_by("cell", &cells.zip(&swept.runs).collect::<Vec<_>>())
}

/// Returns each warning and error of these runs once, as text.
pub(super) fn of_rows(runs: &[&Run]) -> Vec<String> {
    let rows: Vec<(u32, &Run)> = (1..).zip(runs.iter().copied()).collect();
    let found = grouped_by("row", &rows);
    let grave = found.iter().filter(|found| found.finding.severity >= Severity::Warning);
    grave
        .map(|found| format!("{}: {}: {}", found.finding.id, found.place(), found.finding.message))
        .collect()
}

fn grouped_by<'a>(noun: &'static str, runs: &[(u32, &'a Run)]) -> Vec<Grouped<'a>> {
    let found = runs.iter().flat_map(|&(number, run)| {
        // A run may have one finding several times, such as one for each endpoint.
        let by_id = by_key(run.summary.findings.iter().map(|finding| (&finding.id, finding)));
        let once = by_id.into_iter().filter_map(|(_, all)| all.first().copied());
        once.map(move |finding| ((&finding.id, finding.severity), (finding, number)))
    });
    let mut all: Vec<Grouped<'_>> = by_key(found)
        .into_iter()
        .filter_map(|(_, found)| {
            let places = found.iter().map(|(_, place)| *place).collect();
            let (count, of_runs) = (found.len(), runs.len());
            Some(Grouped { finding: found.first()?.0, runs: count, of_runs, places, noun })
        })
        .collect();
    all.sort_by(|a, b| {
        let order = |found: &Grouped<'_>| std::cmp::Reverse(found.finding.severity);
        order(a).cmp(&order(b)).then_with(|| a.finding.id.cmp(&b.finding.id))
    });
    all
}

/// Writes the warnings: the notes on all runs together, then the warnings of single cells.
pub(super) fn render(out: &mut String, swept: &Swept, petals: &Petals) {
    let grave = |found: &Grouped<'_>| found.finding.severity >= Severity::Warning;
    let found: Vec<Grouped<'_>> = grouped(swept).into_iter().filter(grave).collect();
    section(out, "findings", "all runs together, then single runs");
    if petals.notes.is_empty() && found.is_empty() {
        out.push_str("- none\n");
    }
    bullets(out, &petals.notes);
    let line = |found: &Grouped<'_>| {
        let Finding { id, severity, message, .. } = found.finding;
        format!("{} {id}: {}: {message}", severity.name(), found.place())
    };
    bullets(out, found.iter().map(line));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn finding(id: &str, severity: Severity) -> Finding {
        Finding {
            id: id.to_owned(),
            severity,
            message: "somebody read 90 MB/s".to_owned(),
            advice: String::new(),
            evidence: BTreeMap::new(),
        }
    }

    #[test]
    fn a_cells_warnings_are_reported_once_with_their_cells() {
        let mut swept = super::super::tests::swept();
        for (cell, run) in swept.sweep.cells.iter().zip(&mut swept.runs) {
            run.summary.findings = vec![finding("single-run", Severity::Info)];
            if [2, 3, 5].contains(&cell.number) {
                run.summary.findings.push(finding("other-load", Severity::Warning));
            }
        }
        swept.runs[0].summary.findings.push(finding("bad-blocks", Severity::Error));
        let first = swept.sweep.cells[0].number;
        let mut out = String::new();
        render(&mut out, &swept, &Petals { notes: vec!["a: b".to_owned()], ..Petals::default() });
        let reported: Vec<&str> = out.lines().skip(3).collect();
        // The figures are of one run: if several have it the report says so.
        let bad = format!("- error bad-blocks: 1 of 11 runs (cell {first}): somebody read 90 MB/s");
        let other = "- warning other-load: 5 of 11 runs (cells 2, 3, 5); example: first run: somebody read 90 \
                     MB/s";
        assert_eq!(reported, ["- a: b", &bad, other]);
    }
}
