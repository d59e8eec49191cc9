//! Filler: the content of the columns `c2`..`c20`.
//!
//! A column is printable ASCII. It begins with a stamp that differs for every write, so no UPDATE
//! writes the same value again (databases skip redo for an unchanged value); the rest is constant,
//! random, or a part of each. Loads and UPDATEs use the same filler, so length and compressibility
//! do not change.

use rand::Rng as _;
use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::scatter::mix;
use petal_settings::RedoStress;

/// Filler columns of a row, `c2` to `c20`.
pub const COLUMNS: usize = 19;

/// Length of the stamp at the start of each column: a u64 in base 36. Engines and their SQL texts
/// use this constant.
pub const STAMP_BYTES: usize = 13;
const STAMP_BASE: u64 = 36;
const _: () = assert!((STAMP_BASE as u128).pow(STAMP_BYTES as u32) > u64::MAX as u128);
const _: () = assert!((STAMP_BASE as u128).pow(STAMP_BYTES as u32 - 1) <= u64::MAX as u128);
const CONSTANT: u8 = b'x';
const ALPHABET: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

/// Columns that an UPDATE changes, from `c2` on.
pub fn changed_columns(redo_stress: RedoStress) -> usize {
    match redo_stress {
        RedoStress::Lite => 2,
        RedoStress::Heavy => COLUMNS,
    }
}

/// The content of columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Filler {
    /// A single letter repeated (the default, as in SLOB).
    Constant,
    /// Random text: OBFUSCATE_COLUMNS=TRUE.
    Random,
    /// Random text, with the stamp, in 1/ratio of each column: for loads whose COMPRESS_RATIO
    /// applied to the columns alone.
    Ratio(f64),
    /// COMPRESS_RATIO: this many bytes of a row are random text, spread over its columns. A whole
    /// block with its free space then compresses by that ratio.
    Part { ratio: f64, random_bytes: u32 },
}

impl Filler {
    /// Name in the meta table; [`Filler::parse`] reads it.
    pub fn name(self) -> String {
        match self {
            Self::Constant => "constant".to_owned(),
            Self::Random => "random".to_owned(),
            Self::Ratio(ratio) => format!("ratio {ratio}"),
            Self::Part { ratio, random_bytes } => {
                format!("ratio {ratio}, {random_bytes} random bytes a row")
            }
        }
    }

    /// Compression factor of a block: 1 for random text; None for constant text.
    pub fn ratio(self) -> Option<f64> {
        match self {
            Self::Constant => None,
            Self::Random => Some(1.0),
            Self::Ratio(ratio) | Self::Part { ratio, .. } => Some(ratio),
        }
    }

    /// None for a name that this petal does not know.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "constant" => Some(Self::Constant),
            "random" => Some(Self::Random),
            _ => Self::parse_ratio(name.strip_prefix("ratio ")?),
        }
    }

    fn parse_ratio(text: &str) -> Option<Self> {
        let Some((ratio, part)) = text.split_once(", ") else {
            return text.parse().ok().map(Self::Ratio);
        };
        let random_bytes = part.strip_suffix(" random bytes a row")?.parse().ok()?;
        Some(Self::Part { ratio: ratio.parse().ok()?, random_bytes })
    }

    /// Fills one column. `stamp` names the write; the same stamp and column give the same text.
    pub fn fill(self, column: &mut [u8], stamp: u64, column_number: u32) {
        let stamp_bytes = STAMP_BYTES.min(column.len());
        let (head, tail) = column.split_at_mut(stamp_bytes);
        write_stamp(head, stamp);
        // Random text of 64 letters itself shrinks by a quarter under an entropy coder, but not
        // under LZ4, which storage arrays use.
        let random_bytes = match self {
            Self::Constant => 0,
            Self::Random => tail.len(),
            Self::Ratio(ratio) => (((tail.len() + stamp_bytes) as f64 / ratio.max(1.0)) as usize)
                .saturating_sub(stamp_bytes),
            Self::Part { random_bytes, .. } => {
                let (each, more) = (random_bytes / COLUMNS as u32, random_bytes % COLUMNS as u32);
                (each + u32::from(column_number.saturating_sub(2) < more)) as usize
            }
        }
        .min(tail.len());
        let (random, constant) = tail.split_at_mut(random_bytes);
        if !random.is_empty() {
            let mut stream =
                Xoshiro256PlusPlus::seed_from_u64(mix(stamp) ^ u64::from(column_number));
            fill_random(random, &mut stream);
        }
        constant.fill(CONSTANT);
    }
}

fn write_stamp(head: &mut [u8], stamp: u64) {
    let mut rest = stamp;
    for byte in head.iter_mut().rev() {
        *byte = ALPHABET[(rest % STAMP_BASE) as usize];
        rest /= STAMP_BASE;
    }
}

/// The stamp at the start of a column; None if there is no stamp.
pub fn read_stamp(column: &[u8]) -> Option<u64> {
    column.get(..STAMP_BYTES)?.iter().try_fold(0u64, |stamp, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'z' => byte - b'a' + 10,
            _ => return None,
        };
        stamp.checked_mul(STAMP_BASE)?.checked_add(digit.into())
    })
}

fn fill_random(bytes: &mut [u8], stream: &mut Xoshiro256PlusPlus) {
    for chunk in bytes.chunks_mut(10) {
        let mut bits = stream.next_u64();
        for byte in chunk {
            *byte = ALPHABET[(bits & 63) as usize];
            bits >>= 6;
        }
    }
}

/// The stamp of a row as the load writes it: schemas and keys differ, and no UPDATE has it.
pub fn load_stamp(schema: u32, key: u64) -> u64 {
    mix(u64::from(schema) << 40 ^ key) | 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_read_back() {
        let part = Filler::Part { ratio: 2.5, random_bytes: 103 };
        for filler in [Filler::Constant, Filler::Random, Filler::Ratio(2.5), part] {
            assert_eq!(Filler::parse(&filler.name()), Some(filler));
        }
        assert_eq!(part.name(), "ratio 2.5, 103 random bytes a row");
        for odd in ["odd", "ratio", "ratio 2, many random bytes a row", "ratio 2, 3"] {
            assert_eq!(Filler::parse(odd), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn updates_differ_and_keep_their_length(a in 0u64..1 << 60, b in 0u64..1 << 60, length in STAMP_BYTES..600) {
            prop_assume!(a != b);
            for filler in [Filler::Constant, Filler::Random, Filler::Ratio(2.0)] {
                let (mut first, mut second) = (vec![0; length], vec![0; length]);
                filler.fill(&mut first, a, 2);
                filler.fill(&mut second, b, 2);
                prop_assert_ne!(&first, &second);
                prop_assert!(first.iter().all(|byte| byte.is_ascii_graphic()));
                prop_assert_eq!(read_stamp(&first), Some(a));
                prop_assert_eq!(read_stamp(&second[..STAMP_BYTES - 1]), None);
            }
        }
    }

    #[test]
    fn ratio_sets_how_many_bytes_are_random() {
        let compressed = |filler: Filler| {
            let mut column = vec![0u8; 8000];
            filler.fill(&mut column, 42, 2);
            8000.0 / lz4_flex::block::compress(&column).len() as f64
        };
        assert!(compressed(Filler::Constant) > 50.0);
        assert!(compressed(Filler::Random) < 1.05);
        let twice = compressed(Filler::Ratio(2.0));
        assert!((1.9..2.1).contains(&twice), "{twice}");
    }
}
