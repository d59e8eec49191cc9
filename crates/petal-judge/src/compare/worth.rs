//! Lists the findings of each side, and the effect of some of them on the answer of a comparison.

use std::collections::BTreeSet;

use serde::Serialize;

use super::ComparedSide;
use crate::by_key;
use petal_host::numbers::counted;
use petal_record::Severity;
use petal_record::headline::Tested;
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

/// A finding that limits the conclusions of a comparison: text for all runs, for some runs of every
/// side, and for some sides.
struct WorthEffect {
    id: &'static str,
    of_all: &'static str,
    of_every_side: &'static str,
    of_some: &'static str,
}

const NOT_DURABLE: &str = "commits did not wait for stable storage in runs of every side, so UPDATE, \
                           commit and log figures are not those of a durable system";

const EFFECTS: [WorthEffect; 2] = [
    WorthEffect {
        id: "processor-bound",
        of_all: "processors limited all runs, so this comparison does not show the storage",
        of_every_side: "processors limited some runs of every side, so the difference is not one of \
                        storage alone",
        of_some: "processors limited one side, so the difference is not one of storage alone",
    },
    WorthEffect {
        id: "not-durable",
        of_all: NOT_DURABLE,
        of_every_side: NOT_DURABLE,
        of_some: "commits waited for stable storage on one side and not on another, so UPDATE, \
                  commit, log and PIOPS figures cannot be compared",
    },
];

/// A finding that changes the answer, with the sides and runs that have it.
pub(super) struct FoundEffect {
    id: &'static str,
    sides: String,
    what: &'static str,
}

impl FoundEffect {
    /// `processor-bound: new (3 of 3 runs): processors limited ...`.
    pub(super) fn with_id(&self) -> String {
        format!("{}: {}: {}", self.id, self.sides, self.what)
    }

    /// The effect as a sentence, with the sides at its end.
    pub(super) fn sentence(&self) -> String {
        let mut letters = self.what.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        let what: String = first.into_iter().chain(letters).collect();
        format!("{what}: {}.", self.sides)
    }
}

/// True for a run that the effect is of. Processors limited a run if its verdict says so: the finding
/// alone may be of a run that waited elsewhere.
fn is_of(seen: &Observation, id: &str) -> bool {
    let has_finding = seen.warnings.iter().any(|warning| warning == id);
    match &seen.headline {
        Some(headline) if id == "processor-bound" => {
            let is_alone = headline.limited_by.shared_with.is_none();
            let tested = headline.verdict.tested;
            has_finding && is_alone && matches!(tested, Tested::Processors | Tested::Petal)
        }
        _ => has_finding,
    }
}

/// The findings that change the answer.
pub(super) fn effects(sides: &[ComparedSide]) -> Vec<FoundEffect> {
    let found = EFFECTS.iter().filter_map(|effect| {
        let runs = |side: &ComparedSide| {
            side.observations.iter().filter(|seen| is_of(seen, effect.id)).count()
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
        let is_all = found.iter().all(|(side, runs)| *runs == side.observations.len());
        let is_of_every_side = found.iter().all(|(_, runs)| *runs > 0);
        let what = match (is_all, is_of_every_side) {
            (true, _) => effect.of_all,
            (false, true) => effect.of_every_side,
            (false, false) => effect.of_some,
        };
        let sides = with.join(", ");
        (!with.is_empty()).then_some(FoundEffect { id: effect.id, sides, what })
    });
    found.collect()
}
