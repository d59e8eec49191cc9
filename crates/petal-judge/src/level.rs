//! The order of a factor's values: 2 before 16, 4K before 16K, words by their letters.

use petal_settings::size::parse_bytes;

/// A value of a factor, in its order: numbers and sizes before words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// The bits of a positive float, which are in the order of the floats.
    Number(u64, String),
    Word(String),
}

impl Level {
    pub fn of(value: &str) -> Self {
        let size = || parse_bytes(value).ok().map(|bytes| bytes as f64);
        match value.parse::<f64>().ok().or_else(size) {
            Some(number) if number >= 0.0 => Self::Number(number.to_bits(), value.to_owned()),
            _ => Self::Word(value.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_order_that_people_expect() {
        let mut values = ["LITE", "16", "2", "16K", "0.5", "4K", "HEAVY", "-"];
        values.sort_by_key(|value| Level::of(value));
        assert_eq!(values, ["0.5", "2", "16", "4K", "16K", "-", "HEAVY", "LITE"]);
    }
}
