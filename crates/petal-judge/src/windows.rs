//! Names the time that the figures of several runs cover, if that is not each run's counted window.

use std::collections::BTreeMap;

use petal_record::observation::Observation;

/// Number of names that are printed; the rest are counted.
const NAMED_MAX: usize = 5;

/// A note that names the runs whose figures do not cover their counted window, by reason.
pub(super) fn note<'a>(seen: impl IntoIterator<Item = &'a Observation>) -> Option<String> {
    let mut all = 0;
    let mut others: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (seen, window) in seen.into_iter().filter_map(|seen| Some((seen, seen.window.as_ref()?))) {
        all += 1;
        if let Some(why) = window.why() {
            others.entry(why).or_default().push(&seen.source);
        }
    }
    let reported: Vec<String> = others.iter().map(|(why, runs)| reported(why, runs, all)).collect();
    (!reported.is_empty()).then(|| {
        format!(
            "whole-run: figures are of the whole run and not of its counted window in {}",
            reported.join("; in ")
        )
    })
}

fn reported(why: &str, runs: &[&str], all: usize) -> String {
    if runs.len() == all {
        return format!("every run ({why})");
    }
    let named = &runs[..runs.len().min(NAMED_MAX)];
    let more = super::and_more(" ", runs.len() - named.len());
    format!("{} of {all} runs ({why}): {}{more}", runs.len(), named.join(", "))
}
