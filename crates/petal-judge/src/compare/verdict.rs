//! The verdict of a comparison before its differences: whether its sides can be compared, and are
//! tests of one kind.

use std::collections::BTreeSet;

use serde::Serialize;

use super::ComparedSide;
use crate::by_key;
use crate::verdict::{OTHER_LOAD, not_storage};
use petal_host::numbers::counted;
use petal_record::headline::{AskedFor, Tested};
use petal_record::observation::Observation;

/// Runs that are named as the reason for no comparison.
const NAMED_MAX: usize = 3;

/// The reason why figures of storage, or all figures, are not compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ComparisonVerdict {
    /// The verdict in a sentence.
    pub words: String,
    /// The command to type next; empty if no record has one.
    pub next: String,
    /// True if a side has no valid run: nothing is compared.
    pub is_without_a_side: bool,
}

/// The source of the work's figures: runs of several kinds are different tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TestKind {
    Storage,
    DatabaseCache,
    Redo,
    /// A test of storage that a cache or memory served.
    Cached(&'static str),
}

/// The kind of test that a run was; None if its source does not say.
pub(super) fn kind(seen: &Observation) -> Option<TestKind> {
    if not_storage(seen).is_some() {
        let tested = seen.headline.as_ref().map_or(Tested::PageCache, |it| it.verdict.tested);
        return Some(TestKind::Cached(tested.words()));
    }
    Some(match seen.headline.as_ref()?.verdict.asked_for {
        AskedFor::PhysicalIo => TestKind::Storage,
        AskedFor::LogicalReads => TestKind::DatabaseCache,
        AskedFor::Redo => TestKind::Redo,
    })
}

impl TestKind {
    fn words(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::DatabaseCache => Tested::DatabaseCache.words(),
            Self::Redo => "redo of cached data",
            Self::Cached(tested) => tested,
        }
    }
}

/// The reason why figures of storage of these runs are not compared with each other; None if they
/// are.
pub(super) fn why_struck_out<'a>(
    runs: impl Iterator<Item = &'a Observation> + Clone,
) -> Option<&'static str> {
    if runs.clone().any(|seen| not_storage(seen).is_some()) {
        return Some(super::limits::NOT_STORAGE);
    }
    are_different(runs).then_some(DIFFERENT_TESTS)
}

/// True if runs that are valid are tests of several kinds.
pub(super) fn are_different<'a>(runs: impl Iterator<Item = &'a Observation>) -> bool {
    let valid = runs.filter(|seen| not_storage(seen).is_none());
    valid.filter_map(kind).collect::<BTreeSet<_>>().len() > 1
}

/// The reason for no comparison of runs of several kinds.
pub(super) const DIFFERENT_TESTS: &str = "different tests";

/// None if all runs that were to read from storage did, or do not say, and are tests of one kind.
/// `struck_out`: the number of cells without a comparison of storage, and of all.
pub(super) fn of(sides: &[ComparedSide], struck_out: (usize, usize)) -> Option<ComparisonVerdict> {
    let found = of_kinds(sides).or_else(|| of_caches(sides))?;
    let (struck, all) = struck_out;
    let words = match struck < all {
        true => {
            let others = format!(" not compared in {struck} of {all} cells.");
            found.words.replace(" not compared.", &others)
        }
        false => found.words,
    };
    Some(ComparisonVerdict { words, ..found })
}

/// The verdict on sides that test different things.
fn of_kinds(sides: &[ComparedSide]) -> Option<ComparisonVerdict> {
    let kinds =
        |side: &ComparedSide| side.observations.iter().filter_map(kind).collect::<BTreeSet<_>>();
    let all: Vec<BTreeSet<TestKind>> = sides.iter().map(kinds).collect();
    let mut known = all.iter().filter(|kinds| !kinds.is_empty());
    let first = known.next()?;
    if known.all(|side| side == first) {
        return None;
    }
    let parts = sides.iter().map(|side| {
        let runs = side.observations.len();
        let of_kind = by_key(side.observations.iter().filter_map(kind).map(|kind| (kind, ())));
        let kinds = of_kind.iter().map(|(kind, known)| match known.len() == runs {
            true => kind.words().to_owned(),
            false => {
                format!("{} in {} of {}", kind.words(), known.len(), counted(runs as u64, "run"))
            }
        });
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        format!("{}: {}", side.name, if kinds.is_empty() { "not known" } else { &kinds })
    });
    let words = format!(
        "The sides test different things: {}. PIOPS, operations and their times are not compared.",
        parts.collect::<Vec<_>>().join("; ")
    );
    let mut next = sides.iter().flat_map(|side| &side.observations);
    let next = next.find(|seen| not_storage(seen).is_some()).and_then(next_of);
    Some(ComparisonVerdict { words, next: next.unwrap_or_default(), is_without_a_side: false })
}

/// The verdict on records that are followed over time: those of other kinds are no change of one.
pub(super) fn of_records(records: &ComparedSide) -> Option<ComparisonVerdict> {
    let tests = records.observations.iter().filter(|seen| not_storage(seen).is_none());
    let kinds = by_key(tests.filter_map(kind).map(|kind| (kind, ())));
    let all = records.observations.len() as u64;
    if kinds.len() < 2 {
        let verdict = of_caches(std::slice::from_ref(records))?;
        let found = records.observations.iter().filter_map(not_storage);
        let ids = by_key(found.map(|id| (id, ())));
        let left_out: usize = ids.iter().map(|(_, runs)| runs.len()).sum();
        let parts = ids.iter().map(|(id, runs)| format!("{id} in {}", runs.len()));
        let words = format!(
            "Left out of PIOPS, operations and their times: {left_out} of {} that {} no storage test: \
             {}. The others are compared.",
            counted(all, "record"),
            if left_out == 1 { "is" } else { "are" },
            parts.collect::<Vec<_>>().join(", ")
        );
        let is_some = left_out < records.observations.len();
        return Some(if is_some { ComparisonVerdict { words, ..verdict } } else { verdict });
    }
    let parts = kinds.iter().map(|(kind, runs)| {
        format!("{} in {} of {}", kind.words(), runs.len(), counted(all, "record"))
    });
    Some(ComparisonVerdict {
        words: format!(
            "The records test different things: {}. PIOPS, operations and their times are followed \
             in cells of one kind alone.",
            parts.collect::<Vec<_>>().join(", ")
        ),
        ..ComparisonVerdict::default()
    })
}

/// The verdict on sides whose reads a cache served.
fn of_caches(sides: &[ComparedSide]) -> Option<ComparisonVerdict> {
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
    let of_others = || all().filter_map(not_storage).map(|id| id == OTHER_LOAD);
    let cause = match (of_others().any(|it| it), of_others().all(|it| it)) {
        (_, true) => "others' work on the processors limited",
        (true, _) => "caches or others' work decided",
        (false, _) => "a cache served the reads of",
    };
    let which = match found.len() {
        0 => return None,
        _ if all().all(|seen| not_storage(seen).is_some()) => "every side",
        count if count == sides.len() => "some runs",
        _ => "some sides only, and the difference is one of caches",
    };
    let mut next = all().filter(|seen| not_storage(seen).is_some()).filter_map(next_of);
    Some(ComparisonVerdict {
        words: format!(
            "Not a storage test: {cause} {which}: {}. PIOPS, operations and their times are not compared.",
            found.join("; ")
        ),
        next: next.next().unwrap_or_default(),
        is_without_a_side: false,
    })
}

/// The verdict on sides of which one has no run that can be compared.
pub(super) fn without_a_side(all: &[ComparedSide]) -> ComparisonVerdict {
    let is_usable = |seen: &Observation| seen.why_unusable().is_none();
    let empty = all.iter().filter(|side| !side.observations.iter().any(is_usable));
    let parts = empty.map(|side| {
        let why = side.observations.iter().filter_map(|seen| {
            let reason = seen.headline.as_ref().and_then(|it| it.verdict.reason.as_ref());
            let why = seen.why_unusable()?;
            Some(match reason.filter(|_| why.starts_with("it is invalid")) {
                Some(reason) => format!("{why}: {}", reason.sentence),
                None => why,
            })
        });
        let mut why: Vec<String> = crate::distinct(why);
        let more = crate::and_more("; ", why.len().saturating_sub(NAMED_MAX));
        why.truncate(NAMED_MAX);
        let why = if why.is_empty() { "it has no run".to_owned() } else { why.join("; ") + &more };
        format!("no run of {} is valid ({why})", side.name)
    });
    let words = format!("Nothing is compared: {}.", parts.collect::<Vec<_>>().join("; "));
    let mut unusable =
        all.iter().flat_map(|side| &side.observations).filter(|seen| !is_usable(seen));
    let next = unusable.find_map(next_of).unwrap_or_default();
    ComparisonVerdict { words, next, is_without_a_side: true }
}

fn next_of(seen: &Observation) -> Option<String> {
    Some(seen.headline.as_ref()?.next.clone())
}
