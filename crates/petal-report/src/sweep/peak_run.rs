//! The last run of a sweep, at its peak: what limits it, by experiment, and where its time goes.

use super::super::run::{elasticity, waterfall};
use super::super::table::Table;
use petal_host::numbers::{counted, decimal};
use petal_record::Run;

/// The limit of the run.
pub fn limited_by(run: &Run) -> String {
    petal_judge::headline(run).limited_by.words
}

/// The load and length of the run, and whether an experiment proved its limit.
pub fn made(run: &Run) -> String {
    let summary = &run.summary;
    let limit = summary.limited_by.as_ref();
    let is_proven = limit.is_some_and(|limit| limit.evidence.contains_key("elasticity"));
    let proof = if is_proven { "" } else { "; no experiment moved the throughput beyond doubt" };
    format!(
        "last run, at the peak: {} s with {}{}{proof}",
        decimal(summary.elapsed_s, 0),
        counted(u64::from(summary.sessions), "session"),
        summary.setting_number("update_pct").map_or_else(String::new, |percent| {
            format!(", UPDATE_PCT {}", decimal(percent, 0))
        }),
    )
}

/// The largest parts of an operation's time, or the reason why they are unknown; None if nobody
/// asked.
pub fn time_goes_to(run: &Run) -> Option<String> {
    let all = run.summary.waterfall.as_ref()?;
    if let Some(why) = &all.why_unknown {
        return Some(format!("- ({why})"));
    }
    Some(match all.adds_up() {
        true => waterfall::largest(all),
        false => "- (the parts do not add up to the operation)".to_owned(),
    })
}

/// The limit, where the time goes, and the run, each with a heading.
pub(super) fn lines(run: &Run) -> Vec<(&'static str, String)> {
    let time = time_goes_to(run).map(|parts| ("time goes to ", parts));
    let limit = ("limited by ", limited_by(run));
    [Some(limit), time, Some(("", made(run)))].into_iter().flatten().collect()
}

/// Elasticities, and the notes on the experiments.
pub fn experiments(run: &Run) -> (Table, Vec<String>) {
    (elasticity::table(run), elasticity::notes(run))
}
