//! The proof that each row has a block of its own: every main block is read and must say so.

use std::os::unix::fs::FileExt as _;

use super::block;
use super::data::{Area, Data};
use super::target::{AlignedBuffer, OpenTarget};
use crate::engine::on_path::OnPath;
use crate::engine::{EngineError, Placement, Progress, Result, Stop};
use crate::settings::Verify;

const CHUNK_BYTES: u64 = 1 << 20;

/// Counts the blocks of a schema that hold the row that belongs there.
pub fn prove(
    target: &OpenTarget,
    data: &Data,
    area: &Area,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<Placement> {
    let block_bytes = u64::from(data.header.block_bytes);
    let bytes = area.about.rows * block_bytes;
    let mut buffer = AlignedBuffer::new(CHUNK_BYTES as usize);
    let mut rows = 0;
    for from in (0..bytes).step_by(CHUNK_BYTES as usize) {
        if stop.is_requested() {
            return Err(EngineError::Interrupted);
        }
        let part = &mut buffer.bytes_mut()[..CHUNK_BYTES.min(bytes - from) as usize];
        let read = target.file.read_exact_at(part, area.about.main_offset + from);
        read.on(&target.path)?;
        for (bytes, number) in part.chunks_exact(block_bytes as usize).zip(from / block_bytes..) {
            let identity = area.main_identity(number);
            rows += u64::from(block::check(bytes, &identity, Verify::Checksum).is_ok());
        }
        progress.advance(part.len() as u64);
    }
    Ok(Placement {
        rows,
        blocks: area.about.rows,
        rows_per_block_max: 1,
        overflow_blocks: Some(0),
        source: "the blocks' own headers",
    })
}
