//! Options of a target's URL: what engines that keep files of their own share in reading them.

use std::ops::RangeInclusive;

use super::EngineError;
use crate::settings::size::{format_bytes, parse_bytes};

/// Shown in place of the value of an option that petal does not know: it may be a password.
pub const HIDDEN: &str = "...";

/// Refuses an option: names the key, its value, the rule and what to do.
pub fn refused(scheme: &str, key: &str, value: &str, rule: &str, hint: &str) -> EngineError {
    EngineError::Setting(format!("DB={scheme}:...?{key}={value}: {key} {rule}; {hint}"))
}

/// A size in bytes within `range`.
pub fn size(
    scheme: &str,
    key: &str,
    value: &str,
    range: RangeInclusive<u64>,
    hint: &str,
) -> Result<u64, EngineError> {
    let refused = |rule: &str| refused(scheme, key, value, rule, hint);
    let bytes = parse_bytes(value).map_err(|_| refused("is not a size"))?;
    if range.contains(&bytes) {
        return Ok(bytes);
    }
    let (min, max) = (format_bytes(*range.start()), format_bytes(*range.end()));
    Err(refused(&format!("is not between {min} and {max}")))
}
