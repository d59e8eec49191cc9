//! Options of a target's URL: what engines that keep files of their own share in reading them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{EngineError, Result};
use crate::settings::size::{format_bytes, parse_bytes};

/// Shown in place of the value of an option that petal does not know: it may be a password.
pub const HIDDEN: &str = "...";

/// The environment by name, so that tests have their own.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

pub fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Refuses an option: names the key, its value, the rule and what to do.
pub fn refused(scheme: &str, key: &str, value: &str, rule: &str, hint: &str) -> EngineError {
    EngineError::Setting(format!("DB={scheme}:...?{key}={value}: {key} {rule}; {hint}"))
}

/// Refuses an option that the engine does not know. `is_known` is asked for its name and value.
pub fn check_names(
    scheme: &str,
    options: &BTreeMap<String, String>,
    names: &[&str],
    is_known: impl Fn(&str, &str) -> bool,
) -> Result<()> {
    match options.iter().find(|(name, value)| !is_known(name, value)) {
        None => Ok(()),
        Some((name, _)) => {
            let rule = format!("is no option of {scheme}:");
            Err(refused(scheme, name, HIDDEN, &rule, &format!("it has {}", names.join(", "))))
        }
    }
}

/// Whole seconds in which to connect.
pub fn connect_timeout(scheme: &str, given: Option<&str>, default: Duration) -> Result<Duration> {
    let Some(text) = given else { return Ok(default) };
    match text.parse::<u32>() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds.into())),
        _ => {
            let hint = "give whole seconds from 1";
            Err(refused(scheme, "connect_timeout", text, "is no time", hint))
        }
    }
}

/// A size in bytes within `range`.
pub fn size(
    scheme: &str,
    key: &str,
    value: &str,
    range: RangeInclusive<u64>,
    hint: &str,
) -> Result<u64> {
    let refused = |rule: &str| refused(scheme, key, value, rule, hint);
    let bytes = parse_bytes(value).map_err(|_| refused("is not a size"))?;
    if range.contains(&bytes) {
        return Ok(bytes);
    }
    let (min, max) = (format_bytes(*range.start()), format_bytes(*range.end()));
    Err(refused(&format!("is not between {min} and {max}")))
}
