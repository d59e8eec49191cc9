//! Checks of a host that find problems for an I/O test: one check per fact, with the reason and the
//! command that changes it. Pure functions of [`HostFacts`]; nothing here reads, changes or prints
//! anything. An unknown fact never fails a check.
//!
//! A warning is for a fact that distorts figures; a note for a fact that a reader should know.

mod devices;
mod memory;
mod processors;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use devices::limit_words;
use devices::{DEVICE, FILE_SYSTEM, RAID, io_limit, unseen};
use memory::MEMORY;
use petal_host::host::HostFacts;
use processors::PROCESSORS;

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
    /// The effect of the fact on a test, in one sentence.
    pub why: String,
    /// Shell command that changes it, or shows more; empty if there is nothing to do.
    pub advice: String,
}

/// Returns all checks, in the order of a report: processors, memory, others, devices.
pub fn check(host: &HostFacts) -> Vec<Check> {
    let of_host = PROCESSORS.iter().chain(&MEMORY).chain([&RAID]);
    let mut checks: Vec<Check> = of_host.map(|check| check.of("", host)).collect();
    checks.extend(processors::own_limit(host));
    for device in &host.devices {
        let file_system = FILE_SYSTEM.iter().filter(|_| device.file_system.is_some());
        let of_device = DEVICE.iter().chain(file_system);
        checks.extend(of_device.map(|check| check.of(&format!("{}: ", device.name), device)));
    }
    checks.extend(host.io_limits.iter().map(io_limit));
    checks.extend(host.unseen.iter().map(|file| unseen(file)));
    checks
}

/// Makes the check of a fact from the value, its judgement and the advice.
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

/// A check of a fact of a host or of one of its devices.
struct FactCheck<F> {
    name: &'static str,
    /// The effect of the fact on a test, in one sentence.
    why: &'static str,
    /// None if the fact is unknown.
    judge: fn(&F) -> Option<JudgedValue>,
}

impl<F> FactCheck<F> {
    fn of(&self, whose: &str, fact: &F) -> Check {
        let unknown = || ("not known".to_owned(), CheckResult::Unknown, String::new());
        let seen = (self.judge)(fact).unwrap_or_else(unknown);
        judged(format!("{whose}{}", self.name), self.why, seen)
    }
}

fn good(value: impl Into<String>) -> JudgedValue {
    (value.into(), CheckResult::Good, String::new())
}
