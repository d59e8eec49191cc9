//! Sizes as people write them: `10000` blocks, or bytes with K, M, G or T (powers of 1024).
//! Reading and writing them lives here; which parameter takes which size does not.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// An amount of data, in blocks or in bytes until the block size is known. A record has blocks as a
/// number, bytes as a text with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub enum Extent {
    Blocks(u64),
    Bytes(u64),
}

/// Why a text is no size. It never quotes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    #[error("is not a whole number with K, M, G or T after it, or nothing")]
    Malformed,
    #[error("is larger than 16 EiB")]
    Overflow,
}

const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

impl Default for Extent {
    fn default() -> Self {
        Self::Blocks(0)
    }
}

impl Extent {
    /// Whole blocks of `block_size` bytes; a part of a block does not count. None of size 0.
    pub fn blocks(self, block_size: u64) -> u64 {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Bytes(bytes) => bytes.checked_div(block_size).unwrap_or(0),
        }
    }

    pub fn is_zero(self) -> bool {
        matches!(self, Self::Blocks(0) | Self::Bytes(0))
    }

    /// A plain number is blocks; with a unit it is bytes.
    pub fn parse(text: &str) -> Result<Self, SizeError> {
        let (number, shift) = split(text)?;
        match shift {
            None => Ok(Self::Blocks(number)),
            Some(shift) => scaled(number, shift).map(Self::Bytes),
        }
    }
}

impl TryFrom<serde_json::Value> for Extent {
    type Error = SizeError;

    fn try_from(value: serde_json::Value) -> Result<Self, SizeError> {
        value.as_str().map_or_else(|| Self::parse(&value.to_string()), Self::parse)
    }
}

impl Serialize for Extent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Blocks(blocks) => serializer.serialize_u64(*blocks),
            Self::Bytes(_) => serializer.collect_str(self),
        }
    }
}

impl fmt::Display for Extent {
    /// Prints it as it is read back: blocks as a plain number, bytes with a unit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocks(blocks) => write!(f, "{blocks}"),
            Self::Bytes(bytes) => f.write_str(&format_bytes(*bytes)),
        }
    }
}

/// Bytes: a plain number, or one with a unit.
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let (number, shift) = split(text)?;
    scaled(number, shift.unwrap_or(0))
}

/// Exact, in the largest unit that divides it: `64M`, `1536K`, `1000B`.
pub fn format_bytes(bytes: u64) -> String {
    for (letter, shift) in UNITS.into_iter().rev() {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{letter}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

/// The digits, and the unit as a shift: `None` if there was no unit at all.
fn split(text: &str) -> Result<(u64, Option<u32>), SizeError> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(SizeError::Malformed);
    }
    let shift = shift_of(unit.trim_start())?;
    let number = number.parse().map_err(|_| SizeError::Overflow)?;
    Ok((number, shift))
}

fn shift_of(unit: &str) -> Result<Option<u32>, SizeError> {
    let upper = unit.to_ascii_uppercase();
    let letters = match upper.as_str() {
        "" => return Ok(None),
        "B" => return Ok(Some(0)),
        other => other.strip_suffix('B').unwrap_or(other),
    };
    UNITS
        .into_iter()
        .find(|(letter, _)| letters.chars().eq([*letter]))
        .map(|(_, shift)| Some(shift))
        .ok_or(SizeError::Malformed)
}

fn scaled(number: u64, shift: u32) -> Result<u64, SizeError> {
    number.checked_mul(1 << shift).ok_or(SizeError::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_numbers_are_blocks_or_bytes() {
        assert_eq!(Extent::parse("10000"), Ok(Extent::Blocks(10_000)));
        assert_eq!(parse_bytes("8192"), Ok(8192));
    }

    #[test]
    fn units_are_powers_of_1024_in_any_case() {
        for (text, bytes) in [
            ("1K", 1024),
            ("2kb", 2048),
            ("80M", 80 << 20),
            ("3 g", 3 << 30),
            ("1TB", 1 << 40),
            ("512B", 512),
        ] {
            assert_eq!(Extent::parse(text), Ok(Extent::Bytes(bytes)), "{text}");
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_size_is_refused() {
        for text in ["", "M", "-1", "1.5G", "1X", "1MM", "1 M B", "0x10", "1BB", "1MiB", "१"] {
            assert_eq!(Extent::parse(text), Err(SizeError::Malformed), "{text}");
        }
    }

    #[test]
    fn overflow_is_refused_at_the_first_byte() {
        assert_eq!(parse_bytes("16777215T"), Ok(16_777_215 << 40));
        assert_eq!(parse_bytes("16777216T"), Err(SizeError::Overflow));
        assert_eq!(parse_bytes("18446744073709551616"), Err(SizeError::Overflow));
    }

    #[test]
    fn parts_of_blocks_do_not_count() {
        assert_eq!(Extent::Bytes(16_383).blocks(8192), 1);
        assert_eq!(Extent::Blocks(7).blocks(8192), 7);
    }

    proptest! {
        #[test]
        fn written_values_read_back(number: u64) {
            prop_assert_eq!(parse_bytes(&format_bytes(number)), Ok(number));
            for extent in [Extent::Blocks(number), Extent::Bytes(number)] {
                prop_assert_eq!(Extent::parse(&extent.to_string()), Ok(extent));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = Extent::parse(&text);
            let _ = parse_bytes(&text);
        }
    }
}
