//! The version of a row that an UPDATE wrote: its session in the run, and the number of its
//! operation.
//!
//! The version is part of the stamp with which every column begins, so a row shows its last writer.
//! There is no room for a checksum after it and no need: the stamp determines everything in a
//! column, so a row is checked whole, byte by byte ([`read_stamps`]).

use super::plan::Workload;
use super::row::{COLUMNS, Filler, read_stamp};
use super::scatter::mix;

/// Bits of a stamp that hold the sequence number of the operation in its session.
const SEQUENCE_BITS: u32 = 40;
/// The top bit is the mark of stamps that loads write.
const LOADED: u64 = 1 << 63;

/// An UPDATE of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The session, from 1.
    pub session: u32,
    /// The number of the operation in its session, from 1; SELECTs are counted too.
    pub sequence: u64,
}

/// The stamps of one run. Runs differ in a mask, and so do attempts at the same choices, so that no
/// run writes a stamp of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunStamps {
    mask: u64,
}

impl RunStamps {
    pub fn of(workload: &Workload) -> Self {
        Self { mask: mix(!run_root(workload) ^ workload.attempt) >> 1 }
    }

    /// The mask as a ledger keeps it.
    pub fn mask(self) -> u64 {
        self.mask
    }

    pub fn of_mask(mask: u64) -> Self {
        Self { mask: mask & !LOADED }
    }

    pub fn stamp(self, version: Version) -> u64 {
        (u64::from(version.session) << SEQUENCE_BITS | version.sequence) ^ self.mask
    }

    /// The version that a stamp names, if a run with that many sessions can have written it.
    pub fn version(self, stamp: u64, sessions: u32) -> Option<Version> {
        let plain = stamp ^ self.mask;
        let session = u32::try_from(plain >> SEQUENCE_BITS).ok()?;
        let sequence = plain & ((1 << SEQUENCE_BITS) - 1);
        let is_one = stamp & LOADED == 0 && (1..=sessions).contains(&session) && sequence > 0;
        is_one.then_some(Version { session, sequence })
    }
}

/// The root of a run's random streams.
pub fn run_root(workload: &Workload) -> u64 {
    mix(workload.seed ^ mix(u64::from(workload.cell) << 32 | u64::from(workload.repeat)))
}

/// The stamps that a whole row holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowStamps {
    /// Stamp of the columns that every UPDATE writes: the row's version.
    pub row: u64,
    /// Stamp of the columns that only REDO_STRESS=HEAVY writes.
    pub rest: u64,
}

/// Columns that every UPDATE writes.
const ALWAYS_WRITTEN: usize = 2;

/// Reads a row's stamps and checks every byte of its columns, `c2` first. An error describes the
/// fault of the row.
pub fn read_stamps(
    columns: &[&[u8]],
    column_bytes: usize,
    filler: Filler,
) -> Result<RowStamps, String> {
    if columns.len() != COLUMNS {
        return Err(format!("it has {} columns instead of {COLUMNS}", columns.len()));
    }
    let mut stamps = [0; COLUMNS];
    let mut expected = vec![0; column_bytes];
    for ((column, number), stamp) in columns.iter().zip(2..).zip(&mut stamps) {
        let found = read_stamp(column).filter(|_| column.len() == column_bytes);
        let found = found.ok_or_else(|| format!("c{number} is no text of petal's"))?;
        filler.fill(&mut expected, found, number);
        if expected != *column {
            return Err(format!("c{number} is not the text that was written with its stamp"));
        }
        *stamp = found;
    }
    let (row, rest) = stamps.split_at(ALWAYS_WRITTEN);
    for (part, first) in [(row, 2), (rest, 2 + ALWAYS_WRITTEN)] {
        if let Some(at) = part.iter().position(|stamp| *stamp != part[0]) {
            return Err(format!("torn: c{} is not of the same write as c{first}", first + at));
        }
    }
    Ok(RowStamps { row: row[0], rest: rest[0] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::STAMP_BYTES;
    use proptest::prelude::*;

    fn row(filler: Filler, bytes: usize, stamps: [u64; 2]) -> Vec<Vec<u8>> {
        (0..COLUMNS)
            .map(|at| {
                let mut column = vec![0; bytes];
                let stamp = stamps[usize::from(at >= ALWAYS_WRITTEN)];
                filler.fill(&mut column, stamp, at as u32 + 2);
                column
            })
            .collect()
    }

    fn read(row: &[Vec<u8>], filler: Filler) -> Result<RowStamps, String> {
        let columns: Vec<&[u8]> = row.iter().map(Vec::as_slice).collect();
        read_stamps(&columns, row[0].len(), filler)
    }

    proptest! {
        #[test]
        fn a_version_comes_back_from_its_stamp_and_from_no_other_run(
            seed: u64, session in 1u32..10_000, sequence in 1u64..1 << 40,
        ) {
            let (stamps, other) = (RunStamps::of_mask(mix(seed)), RunStamps::of_mask(mix(!seed)));
            let version = Version { session, sequence };
            let stamp = stamps.stamp(version);
            prop_assert_eq!(stamps.version(stamp, 10_000), Some(version));
            prop_assert_eq!(stamps.version(stamp, session - 1), None);
            prop_assert_eq!(stamps.version(stamp | LOADED, 10_000), None);
            prop_assert_ne!(other.version(stamp, u32::MAX), Some(version));
        }

        #[test]
        fn any_changed_byte_of_a_row_is_found(
            column in 0..COLUMNS, at in 0usize..64, flip in 1u8..128, stamps: [u64; 2],
        ) {
            for filler in [Filler::Constant, Filler::Random, Filler::Ratio(2.0)] {
                let mut row = row(filler, 64, stamps);
                let whole = RowStamps { row: stamps[0], rest: stamps[1] };
                prop_assert_eq!(read(&row, filler), Ok(whole));
                row[column][at] ^= flip;
                prop_assert!(read(&row, filler).is_err());
            }
        }
    }

    #[test]
    fn the_fault_of_a_row_is_described() {
        let filler = Filler::Constant;
        let (one, other) = (row(filler, 64, [5, 6]), row(filler, 64, [7, 6]));
        let mut torn = one.clone();
        torn[1] = other[1].clone();
        assert_eq!(read(&torn, filler).unwrap_err(), "torn: c3 is not of the same write as c2");
        let mut foreign = one.clone();
        foreign[9] = b"something else".to_vec();
        assert_eq!(read(&foreign, filler).unwrap_err(), "c11 is no text of petal's");
        assert_eq!(read(&one[..3], filler).unwrap_err(), "it has 3 columns instead of 19");
        let mut tail = one.clone();
        tail[2][STAMP_BYTES + 1] = b'y';
        let why = read(&tail, filler).unwrap_err();
        assert_eq!(why, "c4 is not the text that was written with its stamp");
    }
}
