//! The table of promises for a terminal, and the text to send, which names no place.

use crate::{SCHEMAS, TriedPromise, Unproved};
use petal_engine::Engine;
use petal_record::counters::Counters;
use petal_report::numbers::decimal;
use petal_report::table::paragraph;
use petal_settings::Settings;

use super::ProofOf;
use super::hide::Identifiers;

/// The rule that all data are gone.
pub const DROPPED: &str = "nothing_is_left";

/// Every promise with its result, and the facts about the server.
pub struct Proofs {
    pub all: Vec<ProofOf>,
    server: String,
    /// Facts about the server; their values have no names.
    facts: Vec<(String, String)>,
    hidden: Identifiers,
}

/// A setting that lists names, such as of standbys, which are often hosts: with their number alone.
fn without_names((setting, value): (String, String)) -> (String, String) {
    let holds_names =
        ["names", "name", "hosts", "conninfo", "label", "comment", "container", "tablespace"];
    let is_named = setting.split(['_', '.', ' ', ':']).any(|part| holds_names.contains(&part));
    let count =
        value.split([',', ' ', '(', ')', '\'', '"']).filter(|part| !part.is_empty()).count();
    match is_named {
        true => (setting, format!("not shown (words: {count})")),
        false => (setting, value),
    }
}

impl ProofOf {
    fn verdict(&self) -> &'static str {
        match &self.proof {
            Ok(TriedPromise::Held(_) | TriedPromise::HeldByError(_)) => "held",
            Ok(TriedPromise::NotTried(_)) | Err(Unproved::Refused(_)) => "not tried",
            Err(Unproved::Broken { .. } | Unproved::Failed { .. }) => "BROKEN",
            Err(Unproved::Stopped) => "stopped",
        }
    }

    fn seen(&self) -> String {
        match &self.proof {
            Ok(
                TriedPromise::Held(seen)
                | TriedPromise::HeldByError(seen)
                | TriedPromise::NotTried(seen),
            ) => seen.clone(),
            Err(Unproved::Broken { item, seen } | Unproved::Failed { item, seen, .. }) => {
                format!("{item}: {seen}")
            }
            Err(Unproved::Refused(why)) => why.clone(),
            Err(Unproved::Stopped) => "a signal or the time ended it".to_owned(),
        }
    }

    /// The promise, how it was seen, and the figures or the reason. Petal's own words are not hidden: a
    /// name that is also one of them would spoil the text, and show itself.
    fn lines(&self, hide: impl Fn(&str) -> String) -> String {
        let rule = self.rule.replace('_', " ");
        let seconds = decimal(self.seconds, 1);
        let first = format!("{:<10}", self.verdict());
        let mut text = paragraph(&first, &" ".repeat(10), &format!("{rule} ({seconds} s)"));
        let seen = match self.proof {
            Ok(TriedPromise::Held(_)) => self.seen(),
            _ => hide(&self.seen()),
        };
        for line in std::iter::once(self.how).chain(seen.lines()) {
            text += &paragraph(&" ".repeat(10), &" ".repeat(10), line);
        }
        text
    }
}

impl Proofs {
    pub fn new(settings: &Settings) -> Self {
        Self {
            all: Vec::new(),
            server: settings.db.scheme.clone(),
            facts: Vec::new(),
            hidden: Identifiers::of(settings),
        }
    }

    /// Names the server with its version, which the text needs also if the load fails.
    pub fn name_server(&mut self, engine: &dyn Engine) {
        let version = engine.server().and_then(|server| server.version().ok().flatten());
        self.server = version.unwrap_or_else(|| self.server.clone());
    }

    /// Takes the facts about the server, and the names that are to be hidden.
    pub fn describe(&mut self, engine: &dyn Engine) {
        let Ok((target, details)) = engine.describe(SCHEMAS, 1) else { return };
        self.server = format!("{} {}", target.product, target.version);
        self.hidden.keep(&target.version);
        let cache = target.cache_bytes.map_or("-".to_owned(), |bytes| bytes.to_string());
        let blocks = format!("{}; cache {cache} bytes", target.block_size);
        self.facts = vec![("blocks".to_owned(), blocks)];
        for (name, value) in &details.settings {
            if name == "container" {
                self.hidden.add(value, "CONTAINER");
            }
        }
        let plan = details.plan.map(|plan| ("plan".to_owned(), plan.text));
        // They have words of the server, and names only where petal knows of them.
        for (name, value) in details.settings.into_iter().map(without_names).chain(plan) {
            self.facts.push((self.hidden.hide(&name), self.hidden.hide_shapes(&value)));
        }
        for counters in engine.read_counters(true).unwrap_or_default() {
            self.add_counters(&counters);
        }
    }

    /// Adds the server's own counters, by its names.
    fn add_counters(&mut self, counters: &Counters) {
        counters
            .endpoint
            .split(['@', ',', ' ', ':', '/'])
            .for_each(|name| self.hidden.add(name, "ENDPOINT"));
        let raw = counters.raw.iter().map(|(name, count)| format!("{name} {count}"));
        self.add_fact("counters", &raw.collect::<Vec<_>>().join("; "));
        let waits = counters.waits.iter().map(|wait| {
            let count = wait.waits.map_or("-".to_owned(), |waits| waits.to_string());
            format!("{} ({}) {count}", wait.name, wait.class.label())
        });
        self.add_fact("waits", &waits.collect::<Vec<_>>().join("; "));
        let unknown: Vec<&str> = counters.unknown.iter().map(String::as_str).collect();
        self.add_fact("unknown", &unknown.join("; "));
    }

    fn add_fact(&mut self, name: &str, value: &str) {
        self.facts.push((name.to_owned(), self.hidden.hide(value)));
    }

    fn count(&self, verdict: &str) -> usize {
        self.all.iter().filter(|proof| proof.verdict() == verdict).count()
    }

    /// The result in one line.
    pub fn verdict(&self) -> String {
        let [held, broken, not_tried, stopped] =
            ["held", "BROKEN", "not tried", "stopped"].map(|verdict| self.count(verdict));
        let stopped = if stopped > 0 { ", stopped before its end" } else { "" };
        format!(
            "petal {} and {}: {held} held, {broken} broken, {not_tried} not tried{stopped}",
            env!("CARGO_PKG_VERSION"),
            self.server
        )
    }

    pub fn is_broken(&self) -> bool {
        self.count("BROKEN") > 0
    }

    /// True if the data could not be loaded: nothing was tried.
    pub fn is_unloaded(&self) -> bool {
        let load = self.all.first().map(|load| &load.proof);
        matches!(load, Some(Err(Unproved::Refused(_) | Unproved::Broken { .. })))
    }

    /// Promises that the surroundings refused to try.
    pub fn refused(&self) -> usize {
        self.all.iter().filter(|proof| matches!(proof.proof, Err(Unproved::Refused(_)))).count()
    }

    pub fn is_stopped(&self) -> bool {
        self.count("stopped") > 0
    }

    /// The reason why data may be left, if the last drop failed.
    pub fn left(&self) -> Option<String> {
        let dropped = self.all.iter().find(|proof| proof.rule == DROPPED)?;
        dropped.proof.is_err().then(|| dropped.seen())
    }

    /// The table, with all names.
    pub fn table(&self) -> String {
        let rows: String = self.all.iter().map(|proof| proof.lines(str::to_owned)).collect();
        format!("{}\n\n{rows}", self.verdict())
    }

    /// The text to send: no host, service, path, user, database, container or address.
    pub fn to_send(&self) -> String {
        let hide = |text: &str| self.hidden.hide(text);
        let rows: String = self.all.iter().map(|proof| proof.lines(hide)).collect();
        let facts: String =
            self.facts.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        format!("{}\n\n{rows}\n{facts}", self.verdict())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_lists_hosts_shows_none() {
        let shown =
            |setting: &str, value: &str| without_names((setting.to_owned(), value.to_owned())).1;
        let names = shown("synchronous_standby_names", "ANY 1 (kassenserver7, \"two\")");
        assert_eq!(names, "not shown (words: 4)");
        assert_eq!(shown("fsync", "on"), "on");
        assert_eq!(shown("node1: cluster_name", "kassen"), "not shown (words: 1)");
    }
}
