//! Block of the target: its identity, its content, and the check that it is the requested block.
//! This module does no I/O.
//!
//! ```text
//! 0   mark (4)      4  checksum (4)    8  address (8)    16  generation (8)
//! 24  key (8)      32  version (4)    36  schema (4)     40  nineteen columns ...
//! last 8: version (4), low half of the address (4): the tail of the same write
//! ```

use rand::Rng as _;
use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use petal_settings::{RedoStress, Verify};
use petal_workload::row::{COLUMNS, Filler, changed_columns, read_stamp};
use petal_workload::scatter::mix;

const MARK: u32 = u32::from_le_bytes(*b"PBLK");
const HEAD_BYTES: usize = 40;
const TAIL_BYTES: usize = 8;
/// Size of the stamp at the beginning of a column of incompressible bytes.
const BINARY_STAMP_BYTES: usize = 8;

/// Identity that a block's header must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Offset on the target.
    pub address: u64,
    /// Number of the load that wrote it.
    pub generation: u64,
    pub schema: u32,
    /// Key, from 1; for a scan block, its number.
    pub key: u64,
}

/// Reason why a block is not the requested one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    #[error("it is no block of petal's")]
    Foreign,
    #[error("misplaced: it says that it belongs at byte {0}")]
    Misplaced(u64),
    #[error("stale: an earlier load wrote it")]
    OldLoad,
    #[error("stale: version {found}, but a newer one was written")]
    OldVersion { found: u32 },
    #[error("torn: its end is not of the same write as its beginning")]
    Torn,
    #[error("its checksum does not match")]
    Checksum,
}

/// Size of each column in bytes.
pub fn column_bytes(block_bytes: usize) -> usize {
    (block_bytes - HEAD_BYTES - TAIL_BYTES) / COLUMNS
}

/// Returns a column by its number: column 0 is `c2`.
pub fn column(block: &[u8], number: usize) -> &[u8] {
    let bytes = column_bytes(block.len());
    &block[HEAD_BYTES + number * bytes..][..bytes]
}

/// Fills a new block, of version 1.
pub fn make(block: &mut [u8], identity: &Identity, filler: Filler, stamp: u64) {
    put32(block, 0, MARK);
    put64(block, 8, identity.address);
    put64(block, 16, identity.generation);
    put64(block, 24, identity.key);
    put32(block, 36, identity.schema);
    fill(block, COLUMNS, identity.key, filler, stamp);
    let columns_end = HEAD_BYTES + column_bytes(block.len()) * COLUMNS;
    let tail = block.len() - TAIL_BYTES;
    block[columns_end..tail].fill(0);
    seal(block, 1);
}

/// Changes the columns that an UPDATE changes; returns the new version.
pub fn update(block: &mut [u8], redo_stress: RedoStress, filler: Filler, stamp: u64) -> u32 {
    let key = get64(block, 24);
    fill(block, changed_columns(redo_stress), key, filler, stamp);
    let version = get32(block, 32).wrapping_add(1);
    seal(block, version);
    version
}

pub fn version(block: &[u8]) -> u32 {
    get32(block, 32)
}

pub fn key(block: &[u8]) -> u64 {
    get64(block, 24)
}

/// Returns the stamp of a block's last UPDATE, or of its load.
pub fn stamp(block: &[u8], filler: Filler) -> Option<u64> {
    let column = column(block, 0);
    match filler {
        Filler::Random => {
            Some(u64::from_le_bytes(column.get(..BINARY_STAMP_BYTES)?.try_into().ok()?))
        }
        _ => read_stamp(column),
    }
}

/// Checks that a block is the requested one, as thoroughly as `verify` says.
pub fn check(block: &[u8], identity: &Identity, verify: Verify) -> Result<u32, Flaw> {
    let version = get32(block, 32);
    if verify == Verify::None {
        return Ok(version);
    }
    if get32(block, 0) != MARK {
        return Err(Flaw::Foreign);
    }
    let address = get64(block, 8);
    if address != identity.address {
        return Err(Flaw::Misplaced(address));
    }
    if get64(block, 16) != identity.generation {
        return Err(Flaw::OldLoad);
    }
    let tail = block.len() - TAIL_BYTES;
    if get32(block, tail) != version || get32(block, tail + 4) != address as u32 {
        return Err(Flaw::Torn);
    }
    if verify == Verify::Checksum
        && (get32(block, 4) != checksum(block)
            || get64(block, 24) != identity.key
            || get32(block, 36) != identity.schema)
    {
        return Err(Flaw::Checksum);
    }
    Ok(version)
}

/// Writes version, tail and checksum.
fn seal(block: &mut [u8], version: u32) {
    let tail = block.len() - TAIL_BYTES;
    let address = get64(block, 8);
    put32(block, 32, version);
    put32(block, tail, version);
    put32(block, tail + 4, address as u32);
    put32(block, 4, checksum(block));
}

/// Computes the checksum over everything except its own bytes.
fn checksum(block: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&block[..4]);
    hasher.update(&block[8..]);
    hasher.finalize()
}

/// Fills the first columns. `c2` depends on the stamp alone; the others also depend on the key, so
/// that storage which deduplicates does not find equal blocks in one UPDATE.
fn fill(block: &mut [u8], columns: usize, key: u64, filler: Filler, stamp: u64) {
    let bytes = column_bytes(block.len());
    let area = &mut block[HEAD_BYTES..HEAD_BYTES + bytes * columns];
    for (number, column) in area.chunks_exact_mut(bytes).enumerate() {
        let own = if number == 0 { stamp } else { mix(stamp ^ mix(key)) };
        match filler {
            Filler::Random => noise(column, own, mix(own) ^ number as u64),
            other => other.fill(column, own, number as u32 + 2),
        }
    }
}

/// Fills with a stamp and incompressible bytes.
pub fn noise(bytes: &mut [u8], stamp: u64, seed: u64) {
    let (head, rest) = bytes.split_at_mut(BINARY_STAMP_BYTES.min(bytes.len()));
    head.copy_from_slice(&stamp.to_le_bytes()[..head.len()]);
    Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(rest);
}

fn get32(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|n| block[at + n]))
}

fn get64(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|n| block[at + n]))
}

fn put32(block: &mut [u8], at: usize, value: u32) {
    block[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(block: &mut [u8], at: usize, value: u64) {
    block[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IDENTITY: Identity =
        Identity { address: 1 << 33 | 4096, generation: 7, schema: 2, key: 9 };

    fn made(filler: Filler) -> Vec<u8> {
        let mut block = vec![0; 8192];
        make(&mut block, &IDENTITY, filler, 42);
        block
    }

    proptest! {
        #[test]
        fn a_checksum_finds_any_changed_byte(at in 0usize..8192, flip in 1u8..=255) {
            let mut block = made(Filler::Random);
            prop_assert_eq!(check(&block, &IDENTITY, Verify::Checksum), Ok(1));
            block[at] ^= flip;
            prop_assert!(check(&block, &IDENTITY, Verify::Checksum).is_err());
        }

        #[test]
        fn updates_change_what_they_should_and_stay_whole(stamp in 1u64..1 << 60) {
            for filler in [Filler::Constant, Filler::Random, Filler::Ratio(2.0)] {
                let before = made(filler);
                for (redo, changed) in [(RedoStress::Lite, 2), (RedoStress::Heavy, COLUMNS)] {
                    let mut block = before.clone();
                    prop_assert_eq!(update(&mut block, redo, filler, stamp ^ 1 << 61), 2);
                    prop_assert_eq!(check(&block, &IDENTITY, Verify::Checksum), Ok(2));
                    for number in 0..COLUMNS {
                        let differs = column(&block, number) != column(&before, number);
                        prop_assert_eq!(differs, number < changed);
                    }
                }
            }
        }
    }

    #[test]
    fn each_flaw_is_named() {
        let block = made(Filler::Constant);
        let asked = |identity: Identity| check(&block, &identity, Verify::Header);
        assert_eq!(asked(IDENTITY), Ok(1));
        let elsewhere = Identity { address: 8192, ..IDENTITY };
        assert_eq!(asked(elsewhere), Err(Flaw::Misplaced(IDENTITY.address)));
        assert_eq!(asked(Identity { generation: 8, ..IDENTITY }), Err(Flaw::OldLoad));
        assert_eq!(check(&[0; 8192], &IDENTITY, Verify::Header), Err(Flaw::Foreign));
        assert_eq!(check(&[0; 8192], &IDENTITY, Verify::None), Ok(0));
        // The first half is new, the second old.
        let mut newer = block.clone();
        update(&mut newer, RedoStress::Heavy, Filler::Constant, 77);
        newer[4096..].copy_from_slice(&block[4096..]);
        assert_eq!(check(&newer, &IDENTITY, Verify::Header), Err(Flaw::Torn));
        // The checksum finds a change that the header does not show.
        let mut flipped = block.clone();
        flipped[5000] ^= 1;
        assert_eq!(check(&flipped, &IDENTITY, Verify::Header), Ok(1));
        assert_eq!(check(&flipped, &IDENTITY, Verify::Checksum), Err(Flaw::Checksum));
    }

    #[test]
    fn random_blocks_do_not_compress_and_constant_ones_do() {
        let ratio = |filler| petal_workload::compression::ratio(&[made(filler)]).unwrap();
        assert!(ratio(Filler::Random) < 1.01);
        assert!(ratio(Filler::Constant) > 5.0);
    }
}
