//! One value: from text by its parameter's kind, and how it is shown. A refusal says rule and
//! way out, never the text.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::json;

use super::support::BLOCK_SIZES;
use super::{Parameter, ValueKind};
use crate::settings::WarmUp;
use crate::settings::error::Refusal;
use crate::settings::rates::{RateOverTime, number};
use crate::settings::size::{Extent, format_bytes, parse_bytes};
use crate::settings::url::{Secret, TargetUrl, in_home, redact_refused};

/// A value of a kind.
#[derive(Debug, Clone)]
pub enum Value {
    Unset,
    Number(u64),
    Decimal(f64),
    Rates(RateOverTime),
    Extent(Extent),
    Boolean(bool),
    /// One of the table's own words, in the table's case.
    Word(&'static str),
    Text(String),
    Path(PathBuf),
    Secret(Secret),
    Url(TargetUrl),
    WarmUp(WarmUp),
}

/// So many of the largest blocks are as many bytes as can be counted.
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
            return Ok(Value::Unset);
        }
        self.kind.parse(text).map_err(|own| {
            let rule = || format!("must be {}", self.kind.values());
            own.unwrap_or_else(|| Refusal::new(rule(), format!("{}.", self.example())))
        })
    }

    /// A value of the record in the words of this parameter: sizes with their unit.
    pub fn words(&self, value: &serde_json::Value) -> String {
        match (self.kind, value.as_u64()) {
            (ValueKind::Bytes | ValueKind::BlockSize, Some(bytes)) => format_bytes(bytes),
            (ValueKind::Times { .. }, Some(times)) => format!("{times}x"),
            _ => words(value),
        }
    }

    /// The text as it may be shown where it was refused.
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
                format!("Write {}={}, the default, or another such value", self.key, self.default)
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
                .map(Value::Decimal),
            Self::Rates { may_be_zero } => RateOverTime::parse(text)
                .filter(|rate| may_be_zero || !rate.is_zero())
                .map(Value::Rates),
            Self::Extent => Extent::parse(text)
                .ok()
                .filter(|extent| !matches!(extent, Extent::Blocks(n) if *n > BLOCKS_MAX))
                .map(Value::Extent),
            Self::Bytes => parse_bytes(text).ok().map(Value::Number),
            Self::BlockSize => parse_bytes(text)
                .ok()
                .filter(|bytes| BLOCK_SIZES.iter().any(|size| u64::from(*size) == *bytes))
                .map(Value::Number),
            Self::Boolean => {
                let words = [("TRUE", true), ("FALSE", false)];
                let known = words.iter().find(|(word, _)| text.eq_ignore_ascii_case(word));
                known.map(|(_, truth)| Value::Boolean(*truth))
            }
            Self::OneOf(words) => words
                .iter()
                .find(|word| word.eq_ignore_ascii_case(text))
                .map(|word| Value::Word(word)),
            Self::User if text.contains('/') => {
                return Err(Some(Refusal::new(
                    "must be a user's name without a password",
                    "Give the password in SYSDBA_PASSWD.",
                )));
            }
            Self::Text | Self::User => Some(Value::Text(text.to_owned())),
            Self::Path => Some(Value::Path(PathBuf::from(in_home(text)))),
            Self::Secret => Some(Value::Secret(Secret::given(text)?)),
            Self::Url => Some(Value::Url(TargetUrl::parse(text)?)),
            Self::WarmUp if text.eq_ignore_ascii_case("cache") => {
                Some(Value::WarmUp(WarmUp::Cache))
            }
            Self::WarmUp => decimal(text)
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .map(|time| Value::WarmUp(WarmUp::Time(time))),
        };
        value.ok_or(None)
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

fn whole(text: &str, min: u64, max: u64) -> Option<Value> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| digits && (min..=max).contains(number))?;
    Some(Value::Number(number))
}

/// Digits with at most one point; no sign, exponent or names for infinity.
fn decimal(text: &str) -> Option<f64> {
    number(text).filter(|number| *number <= DECIMAL_MAX)
}

macro_rules! accessors {
    ($($name:ident: $variant:ident($type:ty)),+ $(,)?) => {
        $(pub fn $name(&self) -> Option<$type> {
            match self {
                Self::$variant(value) => Some(value.clone()),
                _ => None,
            }
        })+
    };
}

/// A value as a field of the settings. A value of another kind, or none, reads as unset; each entry
/// of the table asks for its own kind.
impl Value {
    accessors! {
        decimal: Decimal(f64),
        truth: Boolean(bool),
        extent: Extent(Extent),
        rates: Rates(RateOverTime),
        text: Text(String),
        path: Path(PathBuf),
        secret: Secret(Secret),
        url: Url(TargetUrl),
        warm_up: WarmUp(WarmUp),
    }

    pub fn number<T: TryFrom<u64>>(&self) -> Option<T> {
        match self {
            Self::Number(number) => T::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Bytes of so many MiB.
    pub fn mebibytes(&self) -> u64 {
        self.number().unwrap_or(0) << 20
    }

    pub fn seconds(&self) -> Option<Duration> {
        match self {
            Self::Number(seconds) => Some(Duration::from_secs(*seconds)),
            Self::Decimal(seconds) => Duration::try_from_secs_f64(*seconds).ok(),
            _ => None,
        }
    }

    /// The value that a word of the table stands for.
    pub fn one_of<T: DeserializeOwned>(&self) -> Option<T> {
        match self {
            Self::Word(word) => serde_json::from_value(json!(word)).ok(),
            _ => None,
        }
    }

    /// For the record: typed, and without secrets.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Unset => serde_json::Value::Null,
            Self::Number(number) => json!(number),
            Self::Decimal(number) => json!(number),
            Self::Extent(extent) => extent_json(*extent),
            Self::Rates(rate) => json!(rate),
            Self::Boolean(truth) => json!(truth),
            Self::Word(word) => json!(word),
            Self::Text(text) => json!(text),
            Self::Path(path) => json!(path.display().to_string()),
            Self::Secret(_) => json!("***"),
            Self::Url(url) => json!(url.redacted()),
            Self::WarmUp(warm_up) => warm_up_json(*warm_up),
        }
    }
}

/// Blocks are a number, bytes a text with a unit.
pub(super) fn extent_json(extent: Extent) -> serde_json::Value {
    match extent {
        Extent::Blocks(blocks) => json!(blocks),
        Extent::Bytes(_) => json!(extent.to_string()),
    }
}

pub(super) fn warm_up_json(warm_up: WarmUp) -> serde_json::Value {
    match warm_up {
        WarmUp::Cache => json!("cache"),
        WarmUp::Time(time) => seconds_json(time),
    }
}

/// Whole seconds as a whole number.
pub(super) fn seconds_json(time: Duration) -> serde_json::Value {
    match time.subsec_nanos() {
        0 => json!(time.as_secs()),
        _ => json!(time.as_secs_f64()),
    }
}

/// The text of a value of the record, as a person writes it.
pub(super) fn words(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::Bool(truth) => truth.to_string().to_uppercase(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) => match number.as_f64() {
            Some(decimal) if number.is_f64() => decimal.to_string(),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
