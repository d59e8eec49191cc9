//! Numbers as people read them, in every message and report: thousands apart, significant digits,
//! `-` if unknown. Settings are shown as they were given.

use std::time::Duration;

/// Placeholder for an unknown figure. Never 0.
pub const UNKNOWN: &str = "-";
const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// `1,234,567`.
pub fn whole(value: u64) -> String {
    let digits = value.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A count with its noun: `1 repeat`, `3 repeats`.
pub fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    format!("{} {noun}{}", whole(count), if count == 1 { "" } else { "s" })
}

/// Formats a number with this many decimals, thousands apart.
pub fn decimal(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (units, fraction) = match text.split_once('.') {
        Some((units, fraction)) => (units, Some(fraction)),
        None => (text.as_str(), None),
    };
    let sign = if value < 0.0 && text.bytes().any(|b| matches!(b, b'1'..=b'9')) { "-" } else { "" };
    let units = units.parse().map_or_else(|_| units.to_owned(), whole);
    fraction.map_or_else(|| format!("{sign}{units}"), |f| format!("{sign}{units}.{f}"))
}

/// A change as percent with its sign, thousands apart: `+1,612.3`, `-4.0`.
pub fn signed_percent(share: f64, decimals: usize) -> String {
    let text = decimal(share * 100.0, decimals);
    if text.starts_with('-') { text } else { format!("+{text}") }
}

/// A size in powers of 1024 with three significant digits: `512 B`, `8.00 KiB`, `1.25 GiB`.
pub fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for larger in &UNITS[1..] {
        // 999.5 rounds to 1000, four digits.
        if value < 999.5 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    let digits = usize::from(value < 9.995) + usize::from(value < 99.95);
    format!("{value:.digits$} {unit}")
}

/// A rate or ratio: no decimals from 100 on, one from 10 on, else two; a tiny one keeps a digit.
pub fn rate(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.01 || size == 0.0 => 2,
        _ => 5,
    };
    decimal(value, decimals)
}

/// Microseconds: one decimal below a thousand.
pub fn micros(value: f64) -> String {
    decimal(value, usize::from(value.abs() < 999.95))
}

/// A share of one as percent with one decimal.
pub fn percent(share: f64) -> String {
    decimal(share * 100.0, 1)
}

/// Applies `show` to a known value, and returns `-` for an unknown one.
pub fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), show)
}

/// Returns the shortest text that reads back as the same value; empty if unknown.
pub fn exact(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Divides one by the other; None if either is unknown, or if the divisor is 0.
pub fn ratio(over: Option<u64>, under: Option<u64>) -> Option<f64> {
    let (over, under) = over.zip(under)?;
    (under > 0).then(|| over as f64 / under as f64)
}

/// `2 h 5 min`, `3 min 20 s`, `45 s`.
pub fn span(time: Duration) -> String {
    let s = time.as_secs_f64().round() as u64;
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, min, s) => format!("{min} min {s} s"),
        (h, min, _) => format!("{h} h {min} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        let shown: Vec<String> = [0, 999, 1000, 1_234_567, u64::MAX].map(whole).into();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567", "18,446,744,073,709,551,615"]);
        assert_eq!(decimal(-1234.56, 1), "-1,234.6");
        assert_eq!(decimal(-0.01, 1), "0.0");
    }

    #[test]
    fn digits_that_matter() {
        let shown: Vec<String> =
            [0.0, 0.0021, 0.25, 9.994, 9.999, 99.94, 99.96, 12345.6].map(rate).into();
        assert_eq!(shown, ["0.00", "0.00210", "0.25", "9.99", "10.0", "99.9", "100", "12,346"]);
        assert_eq!([84.3, 999.94, 999.96].map(micros), ["84.3", "999.9", "1,000"]);
        assert_eq!(percent(0.9966), "99.7");
    }

    #[test]
    fn unknown_is_never_zero() {
        assert_eq!(or_dash(None::<u64>, whole), "-");
        assert_eq!(or_dash(Some(0), whole), "0");
        assert_eq!(ratio(Some(1), Some(0)), None);
        assert_eq!(ratio(None, Some(1)), None);
    }

    #[test]
    fn spans_of_time() {
        let shown = [45, 60, 200, 3600 * 2 + 305].map(|s| span(Duration::from_secs(s)));
        assert_eq!(shown, ["45 s", "1 min 0 s", "3 min 20 s", "2 h 5 min"]);
    }

    #[test]
    fn three_digits_and_the_largest_unit_that_keeps_them() {
        let shown: Vec<String> =
            [0, 1023, 1024, 8192, 10_235, 67_108_864, 1_047_527_424, 1 << 40, u64::MAX]
                .into_iter()
                .map(bytes)
                .collect();
        let expected = [
            "0 B",
            "1023 B",
            "1.00 KiB",
            "8.00 KiB",
            "10.0 KiB",
            "64.0 MiB",
            "999 MiB",
            "1.00 TiB",
            "16384 PiB",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn one_has_no_plural() {
        assert_eq!(
            [0u32, 1, 1200].map(|n| counted(n, "repeat")),
            ["0 repeats", "1 repeat", "1,200 repeats"]
        );
    }
}
