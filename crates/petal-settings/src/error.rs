//! Errors of settings, so that a person can act on them: key, value, origin, rule, hint. A secret's
//! value never gets in here.

use std::fmt;

use super::Origin;
use super::table::Parameter;

/// Why a text was refused, and what to write instead. It never quotes the text, which may be a
/// secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub rule: String,
    pub hint: String,
}

impl Refusal {
    pub fn new(rule: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { rule: rule.into(), hint: hint.into() }
    }
}

/// A violation. Its text is one sentence with the fault and the reason, and one with the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError {
    /// Empty if the fault is not in one parameter, such as a line that is no setting.
    pub key: String,
    /// `KEY=VALUE (ORIGIN)`, or a file and line.
    pub subject: String,
    pub rule: String,
    /// The next step; empty if the rule says it.
    pub hint: String,
}

/// All violations at once, so that a person need not come back for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingErrors(pub Vec<SettingError>);

impl std::error::Error for SettingErrors {}

impl fmt::Display for SettingErrors {
    /// A line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl SettingError {
    /// `shown` must hold no secret.
    pub fn of(
        parameter: &Parameter,
        shown: &str,
        origin: &Origin,
        rule: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            key: parameter.key.to_owned(),
            subject: format!("{}={shown} ({})", parameter.key, where_from(parameter.key, origin)),
            rule: rule.into(),
            hint: hint.into(),
        }
    }

    /// A fault of a file rather than of a parameter.
    pub fn elsewhere(
        subject: impl Into<String>,
        rule: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { key: String::new(), subject: subject.into(), rule: rule.into(), hint: hint.into() }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hint.as_str() {
            "" => write!(f, "{}: {}", self.subject, self.rule),
            hint => write!(f, "{}: {}. {hint}", self.subject, self.rule),
        }
    }
}

/// The source of a value of `key`, in words.
pub fn where_from(key: &str, origin: &Origin) -> String {
    match origin {
        Origin::Flag => super::table::find(key)
            .map_or_else(|| "a flag".to_owned(), |parameter| format!("--{}", parameter.flag())),
        Origin::Environment(name) => format!("environment variable {name}"),
        Origin::File(path, line) => format!("{}:{line}", path.display()),
        Origin::Default => "default".to_owned(),
    }
}
