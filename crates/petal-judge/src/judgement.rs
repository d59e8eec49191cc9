//! The outcome of a rule: a finding with its evidence, nothing, or "this record cannot tell".

use std::collections::BTreeMap;

use serde_json::Value;

use petal_model::record::os::HostSeen;
use petal_model::record::{Finding, Run, Severity};

/// One rule that the record cannot answer, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotJudged {
    pub id: &'static str,
    pub reason: String,
}

pub(super) enum Judgement {
    Found(Finding),
    Clear,
    Unknown(NotJudged),
}

pub(super) fn unknown(id: &'static str, reason: impl Into<String>) -> Judgement {
    Judgement::Unknown(NotJudged { id, reason: reason.into() })
}

/// A rule that needs the database's host, which was not seen.
pub(super) fn unseen(id: &'static str, run: &Run, what: &str) -> Judgement {
    unknown(id, format!("{}: its {what} are not seen", run.why_database_host_is_unseen()))
}

pub(super) fn info(id: &str, message: impl Into<String>, advice: &str) -> Judgement {
    found(id, Severity::Info, message, advice)
}

pub(super) fn warning(id: &str, message: impl Into<String>, advice: &str) -> Judgement {
    found(id, Severity::Warning, message, advice)
}

pub(super) fn error(id: &str, message: impl Into<String>, advice: &str) -> Judgement {
    found(id, Severity::Error, message, advice)
}

fn found(id: &str, severity: Severity, message: impl Into<String>, advice: &str) -> Judgement {
    let (id, advice) = (id.to_owned(), advice.to_owned());
    let evidence = BTreeMap::new();
    Judgement::Found(Finding { id, severity, message: message.into(), advice, evidence })
}

impl Judgement {
    /// Adds the figures that a finding rests on, an object of JSON, as they were measured.
    pub(super) fn with(mut self, figures: Value) -> Self {
        if let (Self::Found(finding), Value::Object(figures)) = (&mut self, figures) {
            finding.evidence.extend(figures);
        }
        self
    }
}

/// The advice of the database's own engine, or what holds for every database.
pub(super) fn advised<'a>(of_engine: &'a Option<String>, general: &'a str) -> &'a str {
    of_engine.as_deref().unwrap_or(general)
}

/// Where figures come from, if not from petal's own host: ` (from FILE, host NAME)`.
pub(super) fn seen_on(seen: &HostSeen) -> String {
    seen.file
        .as_ref()
        .map_or_else(String::new, |file| format!(" (from {file}, host {})", seen.host))
}
