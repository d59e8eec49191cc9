//! Layout of the target, and the header that describes it. This module does no I/O.
//!
//! ```text
//! 0        header area (1 MiB): petal's mark, checksum, length, the rest as JSON
//! 512 KiB  the same once more, written and synced before the first
//! 1 MiB    log, written round and round
//! ...      schema 1: main blocks, then scan blocks; schema 2: ...
//! ```

use serde::{Deserialize, Serialize};

use super::log::LOG_BLOCK_BYTES;
use petal_record::target::LoadedSchema;
use petal_settings::table::support::BLOCK_SIZES;
use petal_workload::row::Filler;
use petal_workload::scatter::Permutation;

/// First bytes of a target that petal filled.
pub const MARK: &[u8; 8] = b"PETALDEV";
/// Format version, raised when older petals cannot read the data.
pub const FORMAT: u32 = 1;
pub const HEADER_BYTES: u64 = 1 << 20;
/// Offset of the second copy. A device does not write the whole header at once: a petal that is
/// killed during the write may leave the first copy torn, with loaded schemas behind it.
pub const COPY_OFFSET: u64 = HEADER_BYTES / 2;
/// Alignment of areas, so that large direct reads are aligned everywhere.
pub const ALIGNMENT: u64 = 64 << 10;
/// Maximum end of a file (off_t).
const END_MAX: u64 = i64::MAX as u64;
/// Size of mark, checksum and length, which precede the JSON.
const PREFIX_BYTES: usize = 16;

/// Header of a target, with all information about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetHeader {
    pub format: u32,
    pub petal_version: String,
    pub block_bytes: u32,
    pub log_bytes: u64,
    /// Complete schemas only, in the order of their offsets.
    pub schemas: Vec<SchemaArea>,
    /// Bytes after the header that a calibration wrote completely, if no schema is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated_bytes: Option<u64>,
    /// Set if a calibration created this file and removes it at its end; a killed one could not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remove_after_calibration: bool,
}

/// Loaded schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchemaArea {
    pub number: u32,
    pub rows: u64,
    pub scan_rows: u64,
    /// Seed of the scatter permutation.
    pub seed: u64,
    /// Number drawn by each load: a block of an earlier load has a different one.
    pub generation: u64,
    /// Filler, by [`Filler::name`].
    pub filler: String,
    pub main_offset: u64,
    pub scan_offset: u64,
}

impl TargetHeader {
    pub fn new(block_bytes: u32, log_bytes: u64) -> Self {
        Self {
            format: FORMAT,
            petal_version: env!("CARGO_PKG_VERSION").to_owned(),
            block_bytes,
            log_bytes,
            schemas: Vec::new(),
            calibrated_bytes: None,
            remove_after_calibration: false,
        }
    }

    pub fn log_offset(&self) -> u64 {
        HEADER_BYTES
    }

    /// Returns the offset of the next schema.
    pub fn end(&self) -> u64 {
        let log_end = aligned(self.log_offset() + self.log_bytes);
        self.schemas.iter().map(|area| area.end(self.block_bytes)).max().unwrap_or(log_end)
    }

    /// Returns the length of everything the header describes.
    pub fn bytes(&self) -> u64 {
        let gauge_end = HEADER_BYTES.saturating_add(self.calibrated_bytes.unwrap_or(0));
        self.end().max(gauge_end)
    }

    /// True if the fields are possible for a target: sizes that petal makes, areas in order, an end
    /// that a file can have. A checksum proves only that they are unchanged.
    fn is_sound(&self) -> bool {
        let block_bytes = u64::from(self.block_bytes);
        if !BLOCK_SIZES.contains(&self.block_bytes) {
            return false;
        }
        let is_log = self.log_bytes.is_multiple_of(LOG_BLOCK_BYTES)
            && (self.log_bytes > 0 || self.schemas.is_empty());
        let log_end = self.log_offset().checked_add(self.log_bytes).and_then(checked_aligned);
        let areas_end = self.schemas.iter().enumerate().try_fold(log_end, |begin, (at, area)| {
            let is_new = self.schemas[..at].iter().all(|other| other.number != area.number);
            let is_known = Filler::parse(&area.filler).is_some();
            Some(area.checked_end(block_bytes, begin?).filter(|_| is_new && is_known))
        });
        let areas_end = areas_end.flatten();
        let gauge_end = HEADER_BYTES.checked_add(self.calibrated_bytes.unwrap_or(0));
        is_log
            && [areas_end, gauge_end].into_iter().all(|end| end.is_some_and(|end| end <= END_MAX))
    }

    pub fn schema(&self, number: u32) -> Option<&SchemaArea> {
        self.schemas.iter().find(|area| area.number == number)
    }

    /// Encodes one copy as it is on the target, or returns `None` if it does not fit.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let json = serde_json::to_vec(self).ok()?;
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(&crc32fast::hash(&json).to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(json.len()).ok()?.to_le_bytes());
        bytes.extend_from_slice(&json);
        if bytes.len() as u64 > COPY_OFFSET {
            return None;
        }
        bytes.resize(COPY_OFFSET as usize, 0);
        Some(bytes)
    }

    /// Reads a header area: the first copy, or the second if the first is torn.
    pub fn find(area: &[u8]) -> TargetContent {
        match Self::decode(area) {
            TargetContent::Damaged => match area.get(COPY_OFFSET as usize..).map(Self::decode) {
                Some(TargetContent::Petal(header)) => TargetContent::Petal(header),
                _ => TargetContent::Damaged,
            },
            found => found,
        }
    }

    fn decode(bytes: &[u8]) -> TargetContent {
        if bytes.get(..8) != Some(&MARK[..]) {
            return TargetContent::Foreign;
        }
        let number = |at: usize| {
            let four = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(four.try_into().ok()?))
        };
        let header = || {
            let (checksum, length) = (number(8)?, number(12)? as usize);
            let json = bytes.get(PREFIX_BYTES..PREFIX_BYTES.checked_add(length)?)?;
            (crc32fast::hash(json) == checksum).then_some(())?;
            serde_json::from_slice::<Self>(json).ok()
        };
        match header() {
            Some(header) if header.format <= FORMAT && header.is_sound() => {
                TargetContent::Petal(header)
            }
            _ => TargetContent::Damaged,
        }
    }
}

/// Content at the start of a target.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetContent {
    /// Petal header with the complete schemas; none during a load.
    Petal(TargetHeader),
    /// Petal mark without a header that this petal understands.
    Damaged,
    Foreign,
}

impl TargetContent {
    /// Returns the header if it is petal's.
    pub fn petals(self) -> Option<TargetHeader> {
        match self {
            Self::Petal(header) => Some(header),
            Self::Damaged | Self::Foreign => None,
        }
    }
}

impl SchemaArea {
    /// Returns an area like `about` at `offset`.
    pub fn at(offset: u64, block_bytes: u32, about: &Self) -> Self {
        let main_bytes = about.rows * u64::from(block_bytes);
        Self { main_offset: offset, scan_offset: aligned(offset + main_bytes), ..about.clone() }
    }

    pub fn end(&self, block_bytes: u32) -> u64 {
        aligned(self.scan_offset + self.scan_rows * u64::from(block_bytes))
    }

    /// Returns the area's end if the area is plausible: it begins at or after `begin`, and its scan
    /// blocks follow its main blocks.
    fn checked_end(&self, block_bytes: u64, begin: u64) -> Option<u64> {
        let starts = [self.main_offset, self.scan_offset];
        let is_placed = starts.iter().all(|start| start.is_multiple_of(ALIGNMENT))
            && self.main_offset >= begin
            && self.number > 0
            && self.rows > 0;
        let main_bytes = self.rows.checked_mul(block_bytes).filter(|_| is_placed)?;
        let main_end = self.main_offset.checked_add(main_bytes)?;
        let scan_bytes = self.scan_rows.checked_mul(block_bytes)?;
        let scan_end = self.scan_offset.checked_add(scan_bytes);
        scan_end.filter(|_| self.scan_offset >= main_end).and_then(checked_aligned)
    }

    pub fn permutation(&self) -> Permutation {
        Permutation::new(self.rows.max(1), self.seed)
    }

    /// Returns the filler, which every valid header names.
    pub fn filler(&self) -> Filler {
        Filler::parse(&self.filler).unwrap_or(Filler::Random)
    }

    pub fn loaded(&self, block_bytes: u32) -> LoadedSchema {
        let block_size = u64::from(block_bytes);
        LoadedSchema {
            number: self.number,
            rows: self.rows,
            scan_rows: self.scan_rows,
            block_size,
            bytes: Some(self.rows * block_size),
            index_bytes: Some(0),
            filler: Some(self.filler.clone()),
            unique_index: None,
        }
    }
}

fn aligned(offset: u64) -> u64 {
    offset.next_multiple_of(ALIGNMENT)
}

fn checked_aligned(offset: u64) -> Option<u64> {
    offset.checked_next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn area(rows: u64, scan_rows: u64, filler: Filler) -> SchemaArea {
        SchemaArea {
            number: 1,
            rows,
            scan_rows,
            seed: u64::MAX,
            generation: u64::MAX - 1,
            filler: filler.name(),
            main_offset: 0,
            scan_offset: 0,
        }
    }

    proptest! {
        #[test]
        fn headers_come_back_and_areas_do_not_overlap(
            rows in 1u64..1 << 40, scan_rows in 0u64..1 << 30, schemas in 0usize..40, ratio in 1.0f64..50.0,
        ) {
            let mut header = TargetHeader::new(8192, 5 << 20);
            for number in 0..schemas {
                let offset = header.end();
                let about = area(rows + number as u64, scan_rows, Filler::Ratio(ratio));
                let area = SchemaArea::at(offset, 8192, &about);
                prop_assert!(area.main_offset >= header.log_offset() + header.log_bytes);
                prop_assert!(area.main_offset + area.rows * 8192 <= area.scan_offset);
                prop_assert!(header.schemas.iter().all(|other| other.end(8192) <= offset));
                let area = SchemaArea { number: number as u32 + 1, ..area };
                prop_assert_eq!(area.filler(), Filler::Ratio(ratio));
                header.schemas.push(area);
            }
            let bytes = header.encode().unwrap();
            prop_assert_eq!(bytes.len() as u64, COPY_OFFSET);
            prop_assert_eq!(TargetHeader::find(&bytes), TargetContent::Petal(header));
        }

        #[test]
        fn no_bytes_upset_the_reader(bytes: Vec<u8>) {
            TargetHeader::find(&bytes);
            TargetHeader::find(&[&MARK[..], &bytes].concat());
        }
    }

    #[test]
    fn a_header_that_cannot_be_true_is_damaged_whatever_its_checksum() {
        let sound = || {
            let mut header = TargetHeader::new(8192, 1 << 20);
            for _ in 0..2 {
                let about = area(2048, 16, Filler::Random);
                let number = header.schemas.len() as u32 + 1;
                let area = SchemaArea::at(header.end(), 8192, &about);
                header.schemas.push(SchemaArea { number, ..area });
            }
            header
        };
        let found = |change: &dyn Fn(&mut TargetHeader)| {
            let mut header = sound();
            change(&mut header);
            TargetHeader::find(&header.encode().unwrap())
        };
        assert!(matches!(found(&|_| {}), TargetContent::Petal(_)));
        let absurd: [&dyn Fn(&mut TargetHeader); 14] = [
            &|header| header.block_bytes = 0,
            &|header| header.block_bytes = 4097,
            &|header| header.log_bytes = 0,
            &|header| header.log_bytes = u64::MAX,
            &|header| header.log_bytes = 4000,
            &|header| header.calibrated_bytes = Some(u64::MAX),
            &|header| header.schemas[1].number = 1,
            &|header| header.schemas[0].rows = 0,
            &|header| header.schemas[1].rows = u64::MAX / 4096,
            &|header| header.schemas[1].scan_rows = u64::MAX,
            &|header| header.schemas[0].main_offset = 0,
            &|header| header.schemas[0].scan_offset = header.schemas[0].main_offset,
            &|header| header.schemas[1].main_offset = header.schemas[0].main_offset,
            &|header| header.schemas[1].filler = "velvet".to_owned(),
        ];
        for (at, change) in absurd.iter().enumerate() {
            assert_eq!(found(change), TargetContent::Damaged, "change {at}");
        }
    }

    #[test]
    fn damage_is_distinguished_from_foreign_data() {
        let mut bytes = TargetHeader::new(4096, 1 << 20).encode().unwrap();
        bytes[40] ^= 1;
        assert_eq!(TargetHeader::find(&bytes), TargetContent::Damaged);
        bytes[0] ^= 1;
        assert_eq!(TargetHeader::find(&bytes), TargetContent::Foreign);
        assert_eq!(TargetHeader::find(&[]), TargetContent::Foreign);
    }

    #[test]
    fn a_torn_header_is_read_from_its_second_copy() {
        let old = TargetHeader::new(4096, 1 << 20);
        let new = TargetHeader { calibrated_bytes: Some(7), ..old.clone() };
        let copy = |header: &TargetHeader| header.encode().unwrap();
        let mut torn = copy(&new);
        torn[40..].fill(0);
        assert_eq!(
            TargetHeader::find(&[torn.clone(), copy(&new)].concat()),
            TargetContent::Petal(new.clone())
        );
        // Until the first copy is overwritten it is valid; a load that was killed early left no
        // other.
        assert_eq!(
            TargetHeader::find(&[copy(&old), copy(&new)].concat()),
            TargetContent::Petal(old.clone())
        );
        assert_eq!(TargetHeader::find(&copy(&old)), TargetContent::Petal(old));
        assert_eq!(
            TargetHeader::find(&[torn.clone(), torn.clone()].concat()),
            TargetContent::Damaged
        );
        // A target without petal's mark is no longer petal's, whatever follows the mark.
        torn[..8].fill(0);
        assert_eq!(TargetHeader::find(&[torn, copy(&new)].concat()), TargetContent::Foreign);
    }
}
