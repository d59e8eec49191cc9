//! Moments as records write them: UTC, RFC 3339.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// With all its digits.
pub fn exact(at: OffsetDateTime) -> String {
    // RFC 3339 ends with the year 9999.
    at.format(&Rfc3339).unwrap_or_else(|_| at.unix_timestamp().to_string())
}

/// Reads a moment back. None: the text is none.
pub fn parse(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok()
}

/// To the microsecond, for files with many of them.
pub fn stamp(at: OffsetDateTime) -> String {
    let micro = at.nanosecond() / 1000 * 1000;
    exact(at.replace_nanosecond(micro).unwrap_or(at))
}
