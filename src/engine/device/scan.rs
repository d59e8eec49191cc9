//! A scan: all of a schema's scan blocks, in order and in large requests.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Instant;

use super::block;
use super::session::{BAD_BLOCK, DeviceSession};
use super::statistics::Event;
use super::target::AlignedBuffer;
use crate::engine::{CUT, Outcome, Outcomes, SessionError, Stop};
use crate::workload::op::Operation;

/// Bytes of a scan's requests.
pub const SCAN_BYTES: usize = 1 << 20;

impl DeviceSession {
    /// One scan, in order and in large requests. Returns when it ended.
    pub(super) fn scan(
        &mut self,
        operation: &Operation,
        index: u32,
        begin: Instant,
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<Instant, SessionError> {
        let position = self.area(operation.schema)?;
        let data = Arc::clone(&self.data);
        let area = &data.areas[position];
        let block_bytes = data.header.block_bytes as usize;
        let mut buffer = self.scan.take().unwrap_or_else(|| AlignedBuffer::new(SCAN_BYTES));
        let (mut rows, mut error) = (0, None);
        while rows < area.about.scan_rows && error.is_none() {
            if self.cancelled.is_set() || stop.is_cutting() {
                error = Some(CUT);
                break;
            }
            let blocks = (area.about.scan_rows - rows).min((SCAN_BYTES / block_bytes) as u64);
            let part = &mut buffer.bytes_mut()[..blocks as usize * block_bytes];
            let asked = Instant::now();
            let first = area.scan_identity(rows);
            let read = self.target.file.read_exact_at(part, first.address);
            read.map_err(|error| self.failed_read(&first, &error))?;
            self.record(Event::ScanRead, asked, Instant::now(), part.len() as u64);
            self.visited += blocks;
            for (block, number) in part.chunks_exact(block_bytes).zip(rows..) {
                let identity = area.scan_identity(number);
                if let Err(flaw) = block::check(block, &identity, self.shared.verify) {
                    error = Some(BAD_BLOCK);
                    self.bad_block(&identity, flaw)?;
                }
            }
            rows += blocks;
        }
        self.scan = Some(buffer);
        let end = Instant::now();
        done.ended.push(Outcome {
            operation: index,
            latency_ns: (end - begin).as_nanos() as u64,
            end_ns: stop.since_trigger_ns(end),
            rows: if error.is_none() { rows } else { 0 },
            error: error.map(Into::into),
        });
        Ok(end)
    }
}
