//! Moments as records write them: UTC, RFC 3339.

use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime, UtcOffset};

/// Text of a moment with all its digits.
pub fn exact(at: OffsetDateTime) -> String {
    // RFC 3339 ends with the year 9999.
    at.format(&Rfc3339).unwrap_or_else(|_| at.unix_timestamp().to_string())
}

/// Reads a moment back, in UTC. None if the text is not a moment.
pub fn parse(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok()?.checked_to_offset(UtcOffset::UTC)
}

/// The moment a number of seconds later, for any number in a file: at most the last moment that can
/// be written.
pub fn after(at: OffsetDateTime, seconds: f64) -> OffsetDateTime {
    at.saturating_add(Duration::saturating_seconds_f64(seconds))
}

/// Text of a moment to the microsecond, for files with many of them.
pub fn stamp(at: OffsetDateTime) -> String {
    let micro = at.nanosecond() / 1000 * 1000;
    exact(at.replace_nanosecond(micro).unwrap_or(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_number_of_seconds_upsets_a_moment(seconds in proptest::num::f64::ANY) {
            let edges = ["2026-11-20T13:42:07Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"];
            for at in edges.map(|text| parse(text).unwrap()) {
                let then = after(at, seconds);
                prop_assert!(then >= at || seconds < 0.0);
                prop_assert!(then < at || seconds > -1.0 || seconds.is_nan());
                exact(then);
            }
        }
    }

    #[test]
    fn a_moment_is_read_in_utc_or_refused() {
        let noon = parse("2026-11-20T13:00:00+01:00").unwrap();
        assert_eq!(exact(noon), "2026-11-20T12:00:00Z");
        assert_eq!(exact(after(noon, 1.5)), "2026-11-20T12:00:01.5Z");
        assert_eq!(parse("9999-12-31T23:59:59-01:00"), None, "after the last moment");
    }
}
