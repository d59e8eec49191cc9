//! The outcome of a rule: a finding with its evidence, nothing, or "unknown from this record".

use std::collections::BTreeMap;

use serde_json::Value;

use petal_record::os::HostSeen;
use petal_record::{Finding, Run, Severity};

/// A rule that the record cannot answer, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotJudged {
    pub id: &'static str,
    pub reason: String,
}

/// The answer of a rule; `?` ends a rule that finds nothing.
pub(super) type Judgement = Result<Finding, NoFinding>;

#[derive(Debug)]
pub(super) enum NoFinding {
    Clear,
    /// The reason why the record does not answer.
    Unknown(String),
}

/// Ends a rule that has nothing to find.
pub(super) fn clear_if(is_clear: bool) -> Result<(), NoFinding> {
    if is_clear { Err(NoFinding::Clear) } else { Ok(()) }
}

/// Ends a rule for which the record lacks a figure.
pub(super) fn known<T>(figure: Option<T>, reason: &str) -> Result<T, NoFinding> {
    figure.ok_or_else(|| NoFinding::Unknown(reason.to_owned()))
}

pub(super) fn unknown(reason: impl Into<String>) -> Judgement {
    Err(NoFinding::Unknown(reason.into()))
}

/// The answer of a rule that needs the database's host, which was not seen.
pub(super) fn unseen(run: &Run, what: &str) -> Judgement {
    unknown(format!("{}: its {what} are not seen", run.why_database_host_is_unseen()))
}

/// Ends a rule that needs the database's host, if that was not seen.
pub(super) fn seen(run: &Run, what: &str) -> Result<(), NoFinding> {
    if run.is_database_host_seen() { Ok(()) } else { unseen(run, what).map(drop) }
}

pub(super) fn info(message: impl Into<String>, advice: &str) -> Judgement {
    found(Severity::Info, message, advice)
}

pub(super) fn warning(message: impl Into<String>, advice: &str) -> Judgement {
    found(Severity::Warning, message, advice)
}

pub(super) fn error(message: impl Into<String>, advice: &str) -> Judgement {
    found(Severity::Error, message, advice)
}

/// Makes a finding without an id: it gets that of its rule.
fn found(severity: Severity, message: impl Into<String>, advice: &str) -> Judgement {
    let (message, advice) = (message.into(), advice.to_owned());
    Ok(Finding { id: String::new(), severity, message, advice, evidence: BTreeMap::new() })
}

pub(super) trait FindingParts {
    /// Adds the figures that a finding rests on, an object of JSON, as they were measured.
    fn with(self, figures: Value) -> Self;
    /// Names a finding otherwise than its rule.
    fn named(self, id: &str) -> Self;
}

impl FindingParts for Judgement {
    fn with(mut self, figures: Value) -> Self {
        if let (Ok(finding), Value::Object(figures)) = (&mut self, figures) {
            finding.evidence.extend(figures);
        }
        self
    }

    fn named(self, id: &str) -> Self {
        self.map(|finding| Finding { id: id.to_owned(), ..finding })
    }
}

/// Returns the advice of the database's own engine, or the general one.
pub(super) fn advised<'a>(of_engine: &'a Option<String>, general: &'a str) -> &'a str {
    of_engine.as_deref().unwrap_or(general)
}

/// Returns the source of figures that are not from petal's own host: ` (from FILE, host NAME)`.
pub(super) fn seen_on(seen: &HostSeen) -> String {
    seen.file
        .as_ref()
        .map_or_else(String::new, |file| format!(" (from {file}, host {})", seen.host))
}
