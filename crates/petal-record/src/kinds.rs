//! Kinds of operation by name, as the files of a record have them. Reports go through all seconds
//! for each kind, so a record that names another kind in each second would take hours.

use std::collections::BTreeSet;

use super::{ByName, Run};

/// Petal has eight; a later one may have more.
const KINDS_MAX: usize = 32;

/// The names seen so far.
#[derive(Debug, Default)]
pub(super) struct KindNames {
    names: BTreeSet<String>,
    has_left_out: bool,
}

impl KindNames {
    /// Whether a name is among the first ones.
    pub fn take(&mut self, name: &str) -> bool {
        let is_taken = self.names.contains(name)
            || (self.names.len() < KINDS_MAX && self.names.insert(name.to_owned()));
        self.has_left_out |= !is_taken;
        is_taken
    }

    pub fn retain<T>(&mut self, by_kind: &mut ByName<T>) {
        by_kind.retain(|name| self.take(name));
    }

    /// Gap of a record that names more kinds.
    pub fn gap(&self) -> Option<String> {
        let words = || format!("it names more than {KINDS_MAX} kinds of operation");
        self.has_left_out.then(words)
    }
}

/// Reason why a run's figures are not petal's, if they have more kinds than petal has.
pub(super) fn too_many(run: &Run) -> Option<String> {
    let (summary, details) = (&run.summary, &run.details);
    let mut kinds = KindNames::default();
    let steady = summary.steady.iter().flat_map(|steady| steady.latency_us.keys());
    let whole = summary.latency_us.keys().chain(summary.hot_latency_us.keys());
    let names = whole.chain(steady).chain(details.histograms.keys());
    names.for_each(|name| {
        kinds.take(name);
    });
    kinds.gap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_kinds_stay_and_the_others_are_a_gap() {
        let mut kinds = KindNames::default();
        let mut of = |names: std::ops::Range<usize>| {
            let mut by_kind: ByName<usize> = names.map(|at| (format!("k{at}"), at)).collect();
            kinds.retain(&mut by_kind);
            by_kind.keys().count()
        };
        assert_eq!(of(0..8), 8);
        assert_eq!(of(4..4 + KINDS_MAX), KINDS_MAX - 4);
        assert_eq!(of(0..8), 8);
        assert!(kinds.gap().is_some() && KindNames::default().gap().is_none());
    }
}
