//! A limit that two resources share, because their shares of the time are level.

use serde_json::{Value, json};

use super::super::{limits, other_processors};
use petal_record::Run;
use petal_record::conclusions::{LimitedBy, Limiter};

/// The smaller of two level shares over the larger one, and both together, at least.
const LEVEL_MIN: f64 = 2.0 / 3.0;

/// A resource, with its share of the time.
pub(super) struct ResourceShare {
    pub by: Limiter,
    pub name: String,
    pub share: f64,
}

pub(super) fn are_level(larger: f64, smaller: f64) -> bool {
    smaller >= larger * LEVEL_MIN && larger + smaller >= LEVEL_MIN
}

/// The limit that two resources share, the larger first. Their shares are parts of `of`.
pub(super) fn between(
    run: &Run,
    mut both: [ResourceShare; 2],
    of: &str,
    mut evidence: Value,
) -> LimitedBy {
    both.sort_by(|a, b| b.share.total_cmp(&a.share));
    let [first, second] = both;
    let is_of_processors =
        |it: &ResourceShare| matches!(it.by, Limiter::Processors | Limiter::SessionProcessorTime);
    let others = match is_of_processors(&first) || is_of_processors(&second) {
        true => others_words(run),
        false => String::new(),
    };
    let words = format!(
        "{} and {} ({:.0} % and {:.0} % of {of}{others})",
        first.name,
        second.name,
        first.share * 100.0,
        second.share * 100.0
    );
    evidence["level_shares"] = json!([first.share, second.share]);
    let shared_with = Some(second.by);
    LimitedBy { shared_with, ..LimitedBy::new(first.by, words, evidence) }
}

/// Why processors were waited for, to end a limit's words: the quota of the own control group, else
/// others' work, `; others used 0.7 of 2 processors`.
pub(super) fn others_words(run: &Run) -> String {
    let others =
        || other_processors::noticeable(run).map(|it| format!("{} processors", it.words()));
    let why = limits::own_quota(run).or_else(others);
    why.map_or_else(String::new, |why| format!("; {why}"))
}
