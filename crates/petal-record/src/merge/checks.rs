//! Checks that two shares belong to one run: hosts with other versions, data or settings are
//! refused.

use super::super::{RecordError, as_text};
use super::HostRecord;

/// Parameters that may differ between hosts.
const OF_EACH_HOST: [&str; 2] = ["out", "calibrations"];

type Fact = (&'static str, fn(&HostRecord) -> String);

/// Facts that all shares of a run have in common.
const FACTS: [Fact; 10] = [
    ("petal", |part| part.run.details.petal_version.clone()),
    ("the engine", |part| part.run.summary.engine.clone()),
    ("the URL", |part| part.run.summary.target.url.clone()),
    ("the database", product),
    ("the data", data),
    ("the number of shares", |part| part.share.share.of.to_string()),
    ("sessions of all shares", |part| part.share.plan_sessions.to_string()),
    ("the seed", |part| part.run.summary.seed.to_string()),
    ("the start", start),
    ("the repeat", |part| format!("{} of {}", part.run.details.repeat, part.run.details.repeats)),
];

/// Refuses a share of another run than the first one, and names the difference.
pub(super) fn same_run(first: &HostRecord, other: &HostRecord) -> Result<(), RecordError> {
    let mut facts = FACTS.iter().map(|(what, of)| ((*what).to_owned(), of(first), of(other)));
    let differs = facts.find(|(_, ours, theirs)| ours != theirs);
    let Some((what, ours, theirs)) = differs.or_else(|| setting(first, other)) else {
        return Ok(());
    };
    let why = format!(
        "it is of another run than {}: {what} is {theirs:?} here and {ours:?} there; shares of one \
         run have the same petal, database, data and settings",
        first.folder.display()
    );
    Err(RecordError::Share { path: other.folder.clone(), why })
}

fn product(part: &HostRecord) -> String {
    let target = &part.run.summary.target;
    format!("{} {}, blocks of {}", target.product, target.version, target.block_size)
}

fn data(part: &HostRecord) -> String {
    let loaded = part.run.details.loaded.iter();
    let schemas: Vec<String> = loaded
        .map(|schema| format!("{}: {}+{}", schema.number, schema.rows, schema.scan_rows))
        .collect();
    format!("rows by schema {}, {} used", schemas.join(", "), part.run.details.active_rows)
}

fn start(part: &HostRecord) -> String {
    part.share.start.at.clone().unwrap_or_else(|| "by a barrier".to_owned())
}

fn setting(first: &HostRecord, other: &HostRecord) -> Option<(String, String, String)> {
    let (ours, theirs) = (&first.run.summary.settings, &other.run.summary.settings);
    let shown = |value: Option<&serde_json::Value>| {
        value.map_or_else(|| "unset".to_owned(), |value| as_text(value, "unset"))
    };
    let keys = ours.keys().chain(theirs.keys());
    let mut checked = keys.filter(|key| !OF_EACH_HOST.contains(&key.as_str()));
    let key = checked.find(|key| ours.get(*key) != theirs.get(*key))?;
    Some((key.to_ascii_uppercase(), shown(ours.get(key)), shown(theirs.get(key))))
}
