//! Lists the findings of each side, and the effect of some of them on the answer of a comparison.

use std::collections::BTreeSet;

use serde::Serialize;

use super::ComparedSide;
use crate::by_key;
use petal_host::numbers::counted;
use petal_record::Severity;
use petal_record::observation::Observation;

/// A finding of weight on one side, once for all of its runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideFinding {
    pub id: String,
    /// None if the source has its id alone.
    pub severity: Option<Severity>,
    /// Number of the side's runs that have it.
    pub runs: usize,
    /// The first one's message; None if the source has its id alone.
    pub message: Option<String>,
}

/// Findings of weight of the side's runs, errors first.
pub(super) fn findings(side: &ComparedSide) -> Vec<SideFinding> {
    let all = side.observations.iter().flat_map(|seen| {
        let ids: BTreeSet<&String> = seen.warnings.iter().collect();
        ids.into_iter().map(move |id| (id, seen))
    });
    let of_id = |(id, runs): (&String, Vec<&Observation>)| {
        let whole = runs.first().and_then(|seen| seen.findings.iter().find(|it| it.id == *id));
        SideFinding {
            id: id.clone(),
            severity: whole.map(|finding| finding.severity),
            runs: runs.len(),
            message: whole.map(|finding| finding.message.clone()),
        }
    };
    let mut found: Vec<SideFinding> = by_key(all).into_iter().map(of_id).collect();
    found.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.id.cmp(&b.id)));
    found
}

/// A finding that limits the conclusions of a comparison: text for every side, and for some sides.
struct WorthEffect {
    id: &'static str,
    of_all: &'static str,
    of_some: &'static str,
}

const EFFECTS: [WorthEffect; 2] = [
    WorthEffect {
        id: "processor-bound",
        of_all: "processors limited runs of every side, so this comparison does not show the storage",
        of_some: "processors limited one side, so the difference is not one of storage alone",
    },
    WorthEffect {
        id: "not-durable",
        of_all: "commits did not wait for stable storage in runs of every side, so UPDATE, commit and log \
                 figures are not those of a durable system",
        of_some: "commits waited for stable storage on one side and not on another, so UPDATE, \
                  commit, log and PIOPS figures cannot be compared",
    },
];

/// A sentence for each finding that changes the answer, with the sides and runs that have it.
pub(super) fn effects(sides: &[ComparedSide]) -> Vec<String> {
    let sentences = EFFECTS.iter().filter_map(|effect| {
        let runs = |side: &ComparedSide| {
            let has = |seen: &&Observation| seen.warnings.iter().any(|id| id == effect.id);
            side.observations.iter().filter(has).count()
        };
        let found: Vec<(&ComparedSide, usize)> = sides.iter().map(|s| (s, runs(s))).collect();
        let with: Vec<String> = found
            .iter()
            .filter(|(_, runs)| *runs > 0)
            .map(|(side, runs)| {
                let all = counted(side.observations.len() as u64, "run");
                format!("{} ({runs} of {all})", side.name)
            })
            .collect();
        let is_of_all = found.iter().all(|(_, runs)| *runs > 0);
        let what = if is_of_all { effect.of_all } else { effect.of_some };
        (!with.is_empty()).then(|| format!("{}: {}: {what}", effect.id, with.join(", ")))
    });
    sentences.collect()
}
