//! A value: how it is read from text by its parameter's kind, and how it is shown. A refusal names
//! the rule and the next step, never the text.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use super::support::BLOCK_SIZES;
use super::{Parameter, ValueKind};
use crate::WarmUp;
use crate::error::Refusal;
use crate::rates::{RateOverTime, number};
use crate::size::{Extent, format_bytes, parse_bytes};
use crate::url::{Secret, TargetUrl, expand_home, redact_refused};

/// A value of a kind, or unset.
#[derive(Debug, Clone)]
pub enum Value {
    /// A value as a record has it: null if it is unset, numbers, words in the table's case, texts.
    Plain(Json),
    Secret(Secret),
    Url(TargetUrl),
}

/// Limit of blocks: with the largest blocks, about as many bytes as can be counted.
pub(super) const BLOCKS_MAX: u64 = 1 << 48;

/// A larger decimal number is a slip of the pen; in seconds it is a hundred years.
pub(super) const DECIMAL_MAX: f64 = 3.2e9;

impl Parameter {
    /// Reads a value; empty text is unset.
    pub fn parse(&self, text: &str) -> Result<Value, Refusal> {
        let text = match self.kind {
            ValueKind::Secret => text,
            _ => text.trim(),
        };
        if text.is_empty() {
            return Ok(Value::Plain(Json::Null));
        }
        self.kind.parse(text).map_err(|own| own.unwrap_or_else(|| self.refusal()))
    }

    /// A value of the record in the words of this parameter: sizes with their unit.
    pub fn words(&self, value: &Json) -> String {
        match (self.kind, value.as_u64()) {
            (ValueKind::Bytes | ValueKind::BlockSize, Some(bytes)) => format_bytes(bytes),
            (ValueKind::Times { .. }, Some(times)) => format!("{times}x"),
            _ => words(value),
        }
    }

    /// The text in a form that a refusal may show.
    pub fn shown(&self, text: &str) -> String {
        const SHOWN_CHARACTERS_MAX: usize = 200;
        let shown = match self.kind {
            ValueKind::Secret => return "***".to_owned(),
            ValueKind::User => match text.split_once('/') {
                Some((user, _)) => format!("{user}/***"),
                None => text.to_owned(),
            },
            ValueKind::Url => match TargetUrl::parse(text.trim()) {
                Ok(url) => url.redacted(),
                Err(_) => redact_refused(text.trim()),
            },
            _ => text.to_owned(),
        };
        let mut characters = shown.chars().flat_map(char::escape_debug);
        let mut kept: String = characters.by_ref().take(SHOWN_CHARACTERS_MAX).collect();
        if characters.next().is_some() {
            kept.push_str("...");
        }
        kept
    }

    /// The refusal of a value that is not of this kind. A number says its bounds and its default,
    /// which is example enough.
    fn refusal(&self) -> Refusal {
        let is_number = matches!(
            self.kind,
            ValueKind::Percent | ValueKind::Count { .. } | ValueKind::Seconds { .. }
        );
        let values = self.kind.values();
        if is_number && !self.default.is_empty() {
            let bounds =
                values.replace("a whole number from ", "").replace("a whole number of ", "");
            return Refusal::new(format!("must be {bounds} (default {})", self.default), "");
        }
        Refusal::new(format!("must be {values}"), format!("{}.", self.example()))
    }

    fn example(&self) -> String {
        match self.kind {
            ValueKind::OneOf(words) => format!("Choose {}", words.join(" or ")),
            ValueKind::Boolean => format!("Write {0}=TRUE or {0}=FALSE", self.key),
            ValueKind::Extent => {
                format!("Write {0}=10000 for blocks, or {0}=512M for bytes", self.key)
            }
            ValueKind::Bytes => format!("Write {}=64G, for example", self.key),
            ValueKind::BlockSize => format!("Write {}=8K, for example", self.key),
            _ if !self.default.is_empty() => {
                format!("The default is {}={}", self.key, self.default)
            }
            _ => format!("Write {}={}, for example, or leave it out", self.key, self.kind.sample()),
        }
    }
}

impl ValueKind {
    /// Reads a text. An error of None is the kind's own rule.
    fn parse(self, text: &str) -> Result<Value, Option<Refusal>> {
        let value = match self {
            Self::Percent => whole(text, 0, 100),
            Self::Count { min, max } | Self::Seconds { min, max } => whole(text, min, max),
            Self::Times { max } => whole(text.strip_suffix(['x', 'X']).unwrap_or(text), 1, max),
            Self::Decimal { min, above } => decimal(text)
                .filter(|number| if above { *number > min } else { *number >= min })
                .map(Json::from),
            Self::Rates { may_be_zero } => RateOverTime::parse(text)
                .filter(|rate| may_be_zero || !rate.is_zero())
                .map(|rate| json!(rate)),
            Self::Extent => Extent::parse(text)
                .ok()
                .filter(|extent| !matches!(extent, Extent::Blocks(n) if *n > BLOCKS_MAX))
                .map(|extent| json!(extent)),
            Self::Bytes => parse_bytes(text).ok().map(Json::from),
            Self::BlockSize => parse_bytes(text)
                .ok()
                .filter(|bytes| BLOCK_SIZES.iter().any(|size| u64::from(*size) == *bytes))
                .map(Json::from),
            Self::Boolean => {
                let words = [("TRUE", true), ("FALSE", false)];
                let known = words.iter().find(|(word, _)| text.eq_ignore_ascii_case(word));
                known.map(|(_, truth)| Json::from(*truth))
            }
            Self::OneOf(words) => {
                let known = words.iter().find(|word| word.eq_ignore_ascii_case(text));
                known.map(|word| Json::from(*word))
            }
            Self::User if text.contains('/') => {
                return Err(Some(Refusal::new(
                    "must be a user's name without a password",
                    "Give the password in SYSDBA_PASSWD.",
                )));
            }
            Self::Text | Self::User => Some(Json::from(text)),
            Self::Path => Some(Json::from(expand_home(text))),
            Self::Secret => return Ok(Value::Secret(Secret::given(text)?)),
            Self::Url => return Ok(Value::Url(TargetUrl::parse(text)?)),
            Self::WarmUp if text.eq_ignore_ascii_case("cache") => Some(Json::from("cache")),
            Self::WarmUp => decimal(text)
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .map(seconds_json),
        };
        value.map(Value::Plain).ok_or(None)
    }

    /// The values, in words that follow "must be".
    pub fn values(self) -> String {
        match self {
            Self::Percent => "a whole number from 0 to 100".to_owned(),
            Self::Count { min, max } if max == u64::MAX && min == 0 => {
                format!("a whole number up to {max}")
            }
            Self::Count { min, max } => format!("a whole number from {min} to {max}"),
            Self::Times { max } => format!("a whole number of times from 1x to {max}x"),
            Self::Seconds { min, max } => {
                format!("a whole number of seconds from {min} to {max}")
            }
            Self::Decimal { min, above: true } => {
                format!("a decimal number above {min}, up to {DECIMAL_MAX}")
            }
            Self::Decimal { min, above: false } => {
                format!("a decimal number from {min} to {DECIMAL_MAX}")
            }
            Self::Rates { may_be_zero } => format!(
                "operations per second{}, or steps such as '0:500 600:1000', by seconds from 0",
                if may_be_zero { "" } else { " above 0" }
            ),
            Self::Extent => "a number of blocks, or bytes with K, M, G or T".to_owned(),
            Self::Bytes => "bytes, also with K, M, G or T".to_owned(),
            Self::BlockSize => {
                let sizes = BLOCK_SIZES.iter().map(|size| format_bytes(u64::from(*size)));
                format!("one of {}", sizes.collect::<Vec<_>>().join(", "))
            }
            Self::Boolean => "TRUE or FALSE".to_owned(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Text => "a text".to_owned(),
            Self::User => "a user's name".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Secret => "a text, or @FILE for a file's first line".to_owned(),
            Self::Url => "sqlite:DIR, or a server's URL".to_owned(),
            Self::WarmUp => "seconds, or the word cache".to_owned(),
        }
    }

    /// A value that it takes, for a kind that has parameters without a default.
    fn sample(self) -> String {
        match self {
            Self::Count { min, max } => min.max(10).min(max).to_string(),
            Self::Decimal { min, .. } => format!("{:.1}", min.max(0.5) * 2.0),
            Self::Rates { .. } => "500".to_owned(),
            _ => "name".to_owned(),
        }
    }
}

fn whole(text: &str, min: u64, max: u64) -> Option<Json> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = text.parse().ok()?;
    (digits && (min..=max).contains(&number)).then(|| Json::from(number))
}

/// Digits with at most one point; no sign, exponent or names for infinity.
fn decimal(text: &str) -> Option<f64> {
    number(text).filter(|number| *number <= DECIMAL_MAX)
}

/// A field of the settings that holds a value as a record has it.
pub trait SettingField {
    /// Takes a value; one that is unset, or of another type, is the type's own default.
    fn set(&mut self, value: &Value);

    fn json(&self) -> Json;
}

impl<T: Serialize + DeserializeOwned + Default> SettingField for T {
    fn set(&mut self, value: &Value) {
        *self = value.get().unwrap_or_default();
    }

    fn json(&self) -> Json {
        json!(self)
    }
}

/// A value as an entry of the table needs it; each asks for its own kind.
impl Value {
    /// Returns `None` if it is unset, or of another type.
    pub fn get<T: DeserializeOwned>(&self) -> Option<T> {
        match self {
            Self::Plain(value) => T::deserialize(value).ok(),
            Self::Secret(_) | Self::Url(_) => None,
        }
    }

    pub fn is_true(&self) -> bool {
        self.get() == Some(true)
    }

    /// Bytes of a value in MiB.
    pub fn mebibytes(&self) -> u64 {
        self.get::<u64>().unwrap_or(0) << 20
    }

    pub fn seconds(&self) -> Duration {
        let seconds = self.get().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        seconds.unwrap_or_default()
    }

    pub fn warm_up(&self) -> WarmUp {
        match self.get::<String>() {
            Some(_) => WarmUp::Cache,
            None => WarmUp::Time(self.seconds()),
        }
    }

    pub fn secret(&self) -> Option<Secret> {
        if let Self::Secret(secret) = self { Some(secret.clone()) } else { None }
    }

    pub fn url(&self) -> TargetUrl {
        if let Self::Url(url) = self { url.clone() } else { TargetUrl::default() }
    }

    /// JSON for the record, without secrets.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Plain(value) => value.clone(),
            Self::Secret(_) => json!("***"),
            Self::Url(url) => json!(url.redacted()),
        }
    }
}

pub(super) fn warm_up_json(warm_up: WarmUp) -> Json {
    match warm_up {
        WarmUp::Cache => json!("cache"),
        WarmUp::Time(time) => seconds_json(time),
    }
}

/// Whole seconds as a whole number.
pub(super) fn seconds_json(time: Duration) -> Json {
    match time.subsec_nanos() {
        0 => json!(time.as_secs()),
        _ => json!(time.as_secs_f64()),
    }
}

/// The text of a value of the record, as a person writes it.
pub(super) fn words(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::Bool(truth) => truth.to_string().to_uppercase(),
        Json::String(text) => text.clone(),
        Json::Number(number) => match number.as_f64() {
            Some(decimal) if number.is_f64() => decimal.to_string(),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
