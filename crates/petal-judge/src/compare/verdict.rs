//! The verdict of a comparison before its differences: whether the sides are storage tests at all.

use serde::Serialize;

use super::ComparedSide;
use crate::by_key;
use crate::verdict::not_storage;
use petal_host::numbers::counted;
use petal_record::observation::Observation;

/// The reason why figures of storage are not compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ComparisonVerdict {
    /// The verdict in a sentence.
    pub words: String,
    /// The command to type next; empty if no record has one.
    pub next: String,
}

/// None if all runs that were to read from storage did, or do not say.
pub(super) fn of(sides: &[ComparedSide]) -> Option<ComparisonVerdict> {
    let of_side = |side: &ComparedSide| {
        let ids = by_key(side.observations.iter().filter_map(not_storage).map(|id| (id, ())));
        let parts = ids.iter().map(|(id, runs)| {
            let all = counted(side.observations.len() as u64, "run");
            format!("{id} in {} of {all}", runs.len())
        });
        let parts = parts.collect::<Vec<_>>().join(", ");
        (!parts.is_empty()).then(|| format!("{} ({parts})", side.name))
    };
    let found: Vec<String> = sides.iter().filter_map(of_side).collect();
    let all = || sides.iter().flat_map(|side| &side.observations);
    let which = match found.len() {
        0 => return None,
        _ if all().all(|seen| not_storage(seen).is_some()) => {
            "a cache served the reads of every side"
        }
        count if count == sides.len() => "a cache served the reads of some runs",
        _ => "a cache served the reads of some sides only, and the difference is one of caches",
    };
    let mut next = all().filter(|seen| not_storage(seen).is_some()).filter_map(next_of);
    Some(ComparisonVerdict {
        words: format!(
            "Not a storage test: {which}: {}. PIOPS, operations and their times are not compared.",
            found.join("; ")
        ),
        next: next.next().unwrap_or_default(),
    })
}

fn next_of(seen: &Observation) -> Option<String> {
    Some(seen.headline.as_ref()?.next.clone())
}
