//! Proof that each row has its own block: reads every main block and checks its identity.

use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::AtomicBool;

use super::block;
use super::data::{Area, TargetData};
use super::target::{AlignedBuffer, OpenTarget};
use petal_engine::on_path::OnPath;
use petal_engine::server::loader::map_parallel;
use petal_engine::{EngineError, Placement, Progress, Result, Stop};
use petal_settings::Verify;

/// Bytes of each read.
const CHUNK_BYTES: u64 = 1 << 20;
/// Bytes that a thread takes at a time.
const PART_BYTES: u64 = 64 << 20;

/// Main blocks of a schema, to be checked.
pub struct Proof<'a> {
    pub target: &'a OpenTarget,
    pub data: &'a TargetData,
    pub area: &'a Area,
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

impl Proof<'_> {
    /// Counts the blocks that hold their own row, with this many threads.
    pub fn count(&self, threads: u32) -> Result<Placement> {
        let rows = self.area.about.rows;
        let bytes = rows * self.block_bytes();
        let parts: Vec<_> = (0..bytes)
            .step_by(PART_BYTES as usize)
            .map(|from| from..bytes.min(from + PART_BYTES))
            .collect();
        let failed = AtomicBool::new(false);
        let sound = map_parallel(threads as usize, &parts, &failed, |part| self.count_valid(part))?;
        Ok(Placement {
            rows: sound.into_iter().sum(),
            blocks: rows,
            rows_per_block_max: 1,
            overflow_blocks: Some(0),
            source: "the blocks' own headers",
        })
    }

    fn block_bytes(&self) -> u64 {
        u64::from(self.data.header.block_bytes)
    }

    /// Counts the blocks of these bytes that have the expected identity.
    fn count_valid(&self, part: &Range<u64>) -> Result<u64> {
        let block_bytes = self.block_bytes();
        let mut buffer = AlignedBuffer::new(CHUNK_BYTES as usize);
        let mut rows = 0;
        for from in part.clone().step_by(CHUNK_BYTES as usize) {
            if self.stop.is_requested() {
                return Err(EngineError::Interrupted);
            }
            let read = &mut buffer.bytes_mut()[..CHUNK_BYTES.min(part.end - from) as usize];
            let at = self.area.about.main_offset + from;
            self.target.file.read_exact_at(read, at).on(&self.target.path)?;
            let blocks = read.chunks_exact(block_bytes as usize).zip(from / block_bytes..);
            for (bytes, number) in blocks {
                let identity = self.area.main_identity(number);
                rows += u64::from(block::check(bytes, &identity, Verify::Checksum).is_ok());
            }
            self.progress.advance(read.len() as u64);
        }
        Ok(rows)
    }
}
