//! Checks of a host, for what would spoil an I/O test: one check per fact, with the reason and the
//! command that changes it. Pure functions of [`HostFacts`]; nothing here reads, changes or prints
//! anything. A fact that is not known is never held against the host.
//!
//! A warning is for what distorts figures; a note for what a reader of them should know.

mod devices;
mod memory;
mod processors;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use devices::limit_words;
use devices::{
    free_space, io_limit, mount_options, raid, read_ahead, scheduler, unseen, write_cache,
};
use memory::{dirty_pages, huge_pages, memory_limit, swap};
use petal_model::stats::host::HostFacts;
use processors::{clock_source, cpu_quota, governor, idle_states, other_load, virtual_machine};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckResult {
    Good,
    Note,
    Warn,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: String,
    pub value: String,
    pub verdict: CheckResult,
    /// One sentence: what it does to a test.
    pub why: String,
    /// A shell's line that changes it, or shows more; empty where there is nothing to do.
    pub advice: String,
}

/// Every check, in the order of a report: processors, memory, others, devices.
pub fn check(host: &HostFacts) -> Vec<Check> {
    let mut checks = vec![
        governor(host),
        idle_states(host),
        clock_source(host),
        cpu_quota(host),
        virtual_machine(host),
        other_load(host),
        swap(host),
        huge_pages(host),
        memory_limit(host),
        dirty_pages(host),
        raid(host),
    ];
    for device in &host.devices {
        checks.extend([scheduler(device), read_ahead(device), write_cache(device)]);
        // Members of a volume have no file system of their own.
        if device.file_system.is_some() {
            checks.extend([free_space(device), mount_options(device)]);
        }
    }
    checks.extend(host.io_limits.iter().map(io_limit));
    checks.extend(host.unseen.iter().map(|file| unseen(file)));
    checks
}

/// A check of a fact: what was seen, what it comes to, and the advice.
pub(super) fn judged(
    name: impl Into<String>,
    why: &str,
    (value, verdict, advice): (impl Into<String>, CheckResult, impl Into<String>),
) -> Check {
    let (name, value, advice) = (name.into(), value.into(), advice.into());
    Check { name, value, verdict, why: why.to_owned(), advice }
}

/// Value, verdict and advice of a check.
type JudgedValue = (String, CheckResult, String);

fn judged_if_known(name: impl Into<String>, why: &str, seen: Option<JudgedValue>) -> Check {
    let unknown = || ("not known".to_owned(), CheckResult::Unknown, String::new());
    judged(name, why, seen.unwrap_or_else(unknown))
}

fn good(value: impl Into<String>) -> JudgedValue {
    (value.into(), CheckResult::Good, String::new())
}
