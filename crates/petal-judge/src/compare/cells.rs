//! Groups runs into cells. Factors that vary within a side make cells; facts that are constant on
//! each side and differ between sides are the subject of the comparison.

use std::collections::{BTreeMap, BTreeSet};

use super::{ComparedSide, ContextDifference};
use crate::distinct;
use crate::level::Level;
use crate::verdict::of_one_test;
use crate::{and_more, factor_words};
use petal_record::observation::Observation;
use petal_settings::table::{self, Group};

/// Facts that distinguish two runs of no sweep, as the parameters of the workload do: runs that
/// differ in one are different tests, not repeats.
const OF_A_RUN: [&str; 3] = ["sessions", "target", "schemas"];
/// The cells of one side only that are named.
const NAMED_MAX: usize = 5;

/// A cell with its usable runs on each side. A cell without any is a cell too: it should have been
/// measured.
pub(super) struct CellRuns<'a> {
    pub factors: Vec<(String, String)>,
    pub sides: Vec<Vec<&'a Observation>>,
    /// Runs on all sides whose figures do not represent the cell.
    pub unusable: Vec<&'a Observation>,
    /// The number of runs on all sides that are tests of something else than the others of their side.
    pub left_out: usize,
}

impl CellRuns<'_> {
    /// Returns whether figures decided how often the baseline or this side was repeated here.
    pub(super) fn is_repeated_by_figures(&self, side: usize) -> bool {
        let mut runs = self.sides[0].iter().chain(&self.sides[side]);
        runs.any(|seen| seen.is_repeated_by_figures)
    }
}

fn is_whole(seen: &Observation) -> bool {
    seen.why_unusable().is_none()
}

/// Returns the factors that vary within a side, in the order in which they are found. An unusable
/// run makes cells only by the factors of its series.
pub(super) fn keys(sides: &[ComparedSide]) -> Vec<String> {
    let all = || sides.iter().flat_map(|side| &side.observations);
    let mut candidates: Vec<&str> =
        all().flat_map(|seen| &seen.factors).map(|(key, _)| key.as_str()).collect();
    let whole = || all().filter(|seen| is_whole(seen));
    if whole().any(|seen| seen.factors.is_empty()) {
        let settings = whole().flat_map(|seen| seen.context.keys()).filter(|key| is_workload(key));
        candidates.extend(settings.map(String::as_str).chain(OF_A_RUN));
    }
    distinct(candidates)
        .into_iter()
        .map(str::to_owned)
        .filter(|key| {
            let counts = |seen: &&Observation| is_whole(seen) || seen.factor(key).is_some();
            sides.iter().any(|side| {
                let seen = side.observations.iter().filter(counts);
                seen.map(|seen| value(seen, key)).collect::<BTreeSet<_>>().len() > 1
            })
        })
        .collect()
}

/// Returns true for a parameter of the workload or of its data's size.
pub(crate) fn is_workload(key: &str) -> bool {
    use Group::{Data, Io, Mix, Pattern};
    let parameter = table::find(&key.to_uppercase());
    parameter.is_some_and(|parameter| [Data, Mix, Pattern, Io].contains(&parameter.group))
}

/// Returns a factor of a run: from its series, else from its own sessions or settings.
pub(super) fn value(seen: &Observation, key: &str) -> Option<String> {
    let counted =
        || seen.sessions.filter(|_| key == "sessions").map(|sessions| sessions.to_string());
    seen.factor(key).map(str::to_owned).or_else(counted).or_else(|| seen.context.get(key).cloned())
}

/// Facts that a list of keys names, also if they are alike in all records.
const NAMED_FACTS: [&str; 4] = ["database", "host", "kernel", "petal"];

/// Lists the keys that [`value`] knows for these runs, and says how to name one of them.
pub(super) fn known_keys(seen: &[Observation], always: Option<&str>) -> String {
    let factors = seen.iter().flat_map(|seen| seen.factors.iter().map(|(key, _)| key.as_str()));
    let sessions = seen.iter().any(|seen| seen.sessions.is_some()).then_some("sessions");
    let facts: BTreeSet<&str> =
        seen.iter().flat_map(|seen| seen.context.keys().map(String::as_str)).collect();
    let values = |key: &str| seen.iter().map(|seen| seen.context.get(key)).collect::<BTreeSet<_>>();
    let (differing, alike): (Vec<&str>, Vec<&str>) =
        facts.into_iter().partition(|key| NAMED_FACTS.contains(key) || values(key).len() > 1);
    let known = distinct(always.into_iter().chain(factors).chain(sessions).chain(differing));
    match (known.is_empty(), alike.len() as u64) {
        (true, _) => "it has no key to group by".to_owned(),
        (_, 0) => format!("name one of: {}", known.join(", ")),
        (_, alike) => format!(
            "name one of: {}; or a setting ({} alike in all records)",
            known.join(", "),
            if alike == 1 { "1 is".to_owned() } else { format!("{alike} are") }
        ),
    }
}

/// Returns all cells, sorted by their factors.
pub(super) fn all<'a>(sides: &'a [ComparedSide], keys: &[String]) -> Vec<CellRuns<'a>> {
    let mut by_values: BTreeMap<Vec<Level>, CellRuns<'a>> = BTreeMap::new();
    for (at, side) in sides.iter().enumerate() {
        for seen in &side.observations {
            let factors: Vec<(String, String)> = keys
                .iter()
                .map(|key| (key.clone(), value(seen, key).unwrap_or_else(|| "-".to_owned())))
                .collect();
            let order = factors.iter().map(|(_, value)| Level::of(value)).collect();
            let cell = by_values.entry(order).or_insert_with(|| CellRuns {
                factors,
                sides: vec![Vec::new(); sides.len()],
                unusable: Vec::new(),
                left_out: 0,
            });
            if is_whole(seen) { &mut cell.sides[at] } else { &mut cell.unusable }.push(seen);
        }
    }
    by_values.into_values().collect()
}

/// Returns the cells that the baseline shares with another side, and the cells that it does not.
/// Without a whole run on any side a cell exists only if a series should have measured it.
pub(super) fn matched<'a>(
    sides: &'a [ComparedSide],
    keys: &[String],
) -> (Vec<CellRuns<'a>>, Vec<CellRuns<'a>>) {
    let mut cells = all(sides, keys);
    cells.retain(|cell| {
        let of_series = cell.unusable.iter().any(|seen| !seen.factors.is_empty());
        of_series || cell.sides.iter().any(|runs| !runs.is_empty())
    });
    let (mut whole, rest): (Vec<_>, Vec<_>) = cells.into_iter().partition(|cell| {
        !cell.sides[0].is_empty() && cell.sides[1..].iter().any(|runs| !runs.is_empty())
    });
    for cell in &mut whole {
        for runs in &mut cell.sides {
            let (kept, left_out) = of_one_test(runs);
            *runs = kept;
            cell.left_out += left_out.len();
            runs.sort_by_key(|seen| (seen.repeat, seen.started_at.clone()));
        }
    }
    (whole, rest)
}

/// A note on the cells that are not on both sides.
pub(super) fn unmatched_cells_note(
    sides: &[ComparedSide],
    rest: &[CellRuns<'_>],
) -> Option<String> {
    let named: Vec<String> = rest
        .iter()
        .take(NAMED_MAX)
        .map(|cell| {
            let here = sides.iter().zip(&cell.sides).filter(|(_, runs)| !runs.is_empty());
            let here: Vec<&str> = here.map(|(side, _)| side.name.as_str()).collect();
            let here = match here.is_empty() {
                true => "no whole run on any side".to_owned(),
                false => format!("only in {}", here.join(", ")),
            };
            format!("{} ({here})", label(&cell.factors))
        })
        .collect();
    let more = and_more(", ", rest.len().saturating_sub(NAMED_MAX));
    (!rest.is_empty()).then(|| format!("not-on-both-sides: {}{more}", named.join(", ")))
}

/// `UPDATE_PCT 20, SESSIONS 8`; `all` of no factor.
pub fn label(factors: &[(String, String)]) -> String {
    if factors.is_empty() { "all".to_owned() } else { factor_words(factors) }
}

/// Lists the factors, settings and environment in which the sides differ, except the cells'
/// factors.
pub(super) fn context_differences(
    sides: &[ComparedSide],
    keys: &[String],
) -> Vec<ContextDifference> {
    let of = |side: &ComparedSide, name: &str| -> BTreeSet<String> {
        side.observations.iter().filter_map(|seen| value(seen, name)).collect()
    };
    let all = sides.iter().flat_map(|side| &side.observations);
    let names: BTreeSet<&String> = all
        .flat_map(|seen| seen.factors.iter().map(|(key, _)| key).chain(seen.context.keys()))
        .filter(|name| !keys.contains(name))
        .collect();
    names
        .into_iter()
        .filter_map(|name| {
            let values: Vec<BTreeSet<String>> = sides.iter().map(|side| of(side, name)).collect();
            let differs = values.windows(2).any(|two| two[0] != two[1]);
            let shown = |values: BTreeSet<String>| {
                let joined = values.into_iter().collect::<Vec<_>>().join(" | ");
                (!joined.is_empty()).then_some(joined)
            };
            differs.then(|| ContextDifference {
                name: name.clone(),
                values: values.into_iter().map(shown).collect(),
            })
        })
        .collect()
}
