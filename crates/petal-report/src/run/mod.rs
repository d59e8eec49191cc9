//! The parts of a run's report, as tables and facts: one module for each part of the report. Text
//! and pages lay the same values out; nothing here knows how they look.

use super::numbers::UNKNOWN;

pub(super) mod calibrated;
pub(super) mod counters;
pub(super) mod differences;
pub(super) mod drivers;
pub(super) mod elasticity;
pub(super) mod events;
pub(super) mod interference;
pub(super) mod layers;
pub(super) mod load;
pub(super) mod os;
pub(super) mod outages;
pub(super) mod resources;
pub(super) mod seconds;
pub(super) mod server_report;
pub(super) mod tested;
pub(super) mod waterfall;
pub(super) mod write_ledger;

/// Names and their values; a value without a name goes on with the one before.
pub(super) type Facts = Vec<(String, String)>;

/// Facts of which each value may be unknown.
fn facts<'a>(all: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Facts {
    let shown = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
    all.into_iter().map(|(name, value)| (name.to_owned(), shown(value))).collect()
}
