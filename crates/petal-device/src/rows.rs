//! Rows read back for the verification of a ledger, by the device's own rules: a block is whole or
//! not, and an UPDATE is durable if its record in the log is. petal does not write the record's
//! changes into the blocks again: there is no recovery.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::data::TargetData;
use super::log::{self, LOG_BLOCK_BYTES};
use super::target::{AlignedBuffer, OpenTarget};
use super::{Shared, block};
use petal_engine::on_path::OnPath;
use petal_engine::{FoundRow, LoggedUpdate, Result, RowReader};
use petal_settings::{RedoStress, Verify};
use petal_workload::version::RowStamps;

pub struct DeviceRows {
    data: Arc<TargetData>,
    target: OpenTarget,
    /// Index of the schema among the areas.
    area: usize,
    redo_stress: RedoStress,
    generation: String,
    buffer: AlignedBuffer,
}

impl DeviceRows {
    pub fn open(shared: &Shared, schema: u32) -> Result<Self> {
        let (data, target) = (shared.data()?, shared.target()?);
        let area = data.position(schema, &shared.path)?;
        let generation = data.areas[area].about.generation.to_string();
        let buffer = AlignedBuffer::new(data.header.block_bytes as usize);
        let redo_stress = shared.redo_stress;
        Ok(Self { data, target, area, redo_stress, generation, buffer })
    }
}

impl RowReader for DeviceRows {
    fn load(&self) -> &str {
        &self.generation
    }

    fn rows(&self) -> u64 {
        self.data.areas[self.area].about.rows
    }

    fn read(&mut self, first: u64, last: u64, found: &mut Vec<FoundRow>) -> Result<()> {
        let area = &self.data.areas[self.area];
        for key in first..=last.min(area.about.rows) {
            let identity = area.identity(key);
            let read = self.target.file.read_exact_at(self.buffer.bytes_mut(), identity.address);
            read.on(&self.target.path)?;
            let block = self.buffer.bytes();
            let stamps = block::check(block, &identity, Verify::Checksum)
                .map_err(|flaw| format!("the block at byte {}: {flaw}", identity.address))
                .and_then(|_| {
                    let stamp = block::stamp(block, area.filler);
                    stamp.ok_or_else(|| "its first column is no text of petal's".to_owned())
                });
            // Its checksum covers the whole block, so that no column can be from another write.
            let stamps = stamps.map(|stamp| RowStamps { row: stamp, rest: stamp });
            found.push(FoundRow { key, stamps });
        }
        Ok(())
    }

    fn logged(&mut self, updates: &[LoggedUpdate]) -> Result<Option<HashSet<u64>>> {
        let mut left: HashMap<u64, u64> = updates
            .iter()
            .map(|one| (one.stamp, log::record_bytes(self.redo_stress, one.rows)))
            .collect();
        let piece_max = self.data.log.piece_bytes_max();
        let (begin, bytes) = (self.data.header.log_offset(), self.data.header.log_bytes);
        let mut buffer = AlignedBuffer::new(piece_max as usize);
        let mut at = 0;
        while at < bytes {
            let length = piece_max.min(bytes - at);
            let part = &mut buffer.bytes_mut()[..length as usize];
            self.target.file.read_exact_at(part, begin + at).on(&self.target.path)?;
            let piece = log::stamp(part, begin + at).and_then(|stamp| {
                let left = left.get_mut(&stamp)?;
                let piece = part.get(..piece_max.min(*left) as usize)?;
                let is_whole = !piece.is_empty() && log::is_whole(piece);
                is_whole.then(|| {
                    *left -= piece.len() as u64;
                    piece.len() as u64
                })
            });
            at += piece.unwrap_or(LOG_BLOCK_BYTES);
        }
        let whole = left.into_iter().filter(|(_, left)| *left == 0);
        Ok(Some(whole.map(|(stamp, _)| stamp).collect()))
    }
}
