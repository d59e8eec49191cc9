//! The proof that the facts of a run held: all changes that were seen during it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Details;
use crate::target::Durability;
use petal_host::facts::{FactChange, FactKind, FactValues};

/// Facts that were read before a run, during it and at its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FactsProof {
    /// Number of facts.
    pub count: u64,
    pub changes: Vec<FactChange>,
    /// Durability by the weakest settings during the run; None if the first ones were the weakest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weakest: Option<Durability>,
    /// Limits of control groups and processors at the trigger, by the file or name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// Limits at the trigger that had another value in the first cell of the sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub since_first_cell: Vec<FactChange>,
    /// The server did not answer at the end: changes after the last look are not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_end_unread: bool,
}

impl FactsProof {
    /// Keeps the limits at the trigger.
    pub fn keep_limits(&mut self, limits: &FactValues) {
        let named = limits.iter().map(|((_, name), value)| (name.clone(), value.clone()));
        self.limits = named.collect();
    }

    /// Adds the facts of another host, whose name is put before each.
    pub fn add_host(&mut self, host: &str, other: &Self) {
        let named = |name: &str| format!("{host}: {name}");
        let change = |it: &FactChange| FactChange { name: named(&it.name), ..it.clone() };
        self.count += other.count;
        self.changes.extend(other.changes.iter().map(change));
        let limits = other.limits.iter().map(|(name, value)| (named(name), value.clone()));
        self.limits.extend(limits);
    }

    /// Keeps the limits that had another value in the first cell of a sweep. A limit that only one of
    /// them has belongs to another process.
    pub fn compare_with_first_cell(&mut self, in_first_cell: &BTreeMap<String, String>) {
        let changed = self.limits.iter().filter_map(|(name, after)| {
            let before = in_first_cell.get(name).filter(|before| *before != after)?;
            Some(FactChange {
                kind: FactKind::Limit,
                name: name.clone(),
                before: Some(before.clone()),
                after: Some(after.clone()),
                between_s: (0.0, 0.0),
            })
        });
        self.since_first_cell = changed.collect();
    }
}

impl Details {
    /// Keeps the proof of the run's facts, and adds each change to the statement of its fact.
    pub fn keep_facts(&mut self, proof: FactsProof) {
        for change in proof.changes.iter().filter(|change| change.kind == FactKind::Setting) {
            let stated = self.target.settings.iter_mut().find(|(name, _)| *name == change.name);
            if let Some((_, value)) = stated {
                let after = change.after.as_deref().unwrap_or("none");
                *value = format!("{value}; {after} {}", change.when());
            }
        }
        if proof.weakest.is_some() || proof.is_end_unread {
            self.target.durability.clone_from(&proof.weakest);
        }
        self.facts = Some(proof);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_setting_is_stated_with_both_values() {
        let mut details = Details::default();
        details.target.settings = vec![("fsync".to_owned(), "on".to_owned())];
        let change = FactChange {
            kind: FactKind::Setting,
            name: "fsync".to_owned(),
            before: Some("on".to_owned()),
            after: Some("off".to_owned()),
            between_s: (1.0, 2.0),
        };
        let weakest = Durability { durable: false, setting: "fsync=off".to_owned() };
        let proof = FactsProof {
            count: 1,
            changes: vec![change],
            weakest: Some(weakest.clone()),
            ..FactsProof::default()
        };
        details.keep_facts(proof.clone());
        assert_eq!(details.target.settings[0].1, "on; off in second 1");
        assert_eq!(details.target.durability, Some(weakest));
        assert_eq!(details.facts, Some(proof));
        // A server that does not answer at the end says nothing of its last settings.
        details.target.durability = Some(Durability { durable: true, setting: String::new() });
        details.keep_facts(FactsProof { is_end_unread: true, ..FactsProof::default() });
        assert_eq!(details.target.durability, None);
    }
}
