//! Scan: reads all of a schema's scan blocks, in order and in large requests.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Instant;

use super::block::{self, Flaw, Identity};
use super::context::{BAD_BLOCK, SessionContext};
use super::statistics::Event;
use super::target::AlignedBuffer;
use petal_engine::{CUT, Outcome, Outcomes, SessionError, Stop};
use petal_workload::op::Operation;

/// Size of a scan's requests.
pub const SCAN_BYTES: usize = 1 << 20;

/// Scans once with a buffer that is kept for later scans; returns the time of its end.
pub fn scan(
    context: &mut SessionContext,
    buffer: &mut Option<AlignedBuffer>,
    operation: &Operation,
    index: u32,
    begin: Instant,
    stop: &Stop,
    done: &mut Outcomes,
) -> Result<Instant, SessionError> {
    let position = context.area(operation.schema)?;
    let data = Arc::clone(&context.data);
    let area = &data.areas[position];
    let block_bytes = data.header.block_bytes as usize;
    let buffer = buffer.get_or_insert_with(|| AlignedBuffer::new(SCAN_BYTES));
    let (mut rows, mut error) = (0, None);
    while rows < area.about.scan_rows && error.is_none() {
        if context.is_cut(stop) {
            error = Some(CUT);
            break;
        }
        let blocks = (area.about.scan_rows - rows).min((SCAN_BYTES / block_bytes) as u64);
        let part = &mut buffer.bytes_mut()[..blocks as usize * block_bytes];
        let asked = Instant::now();
        let first = area.scan_identity(rows);
        let read = context.target.file.read_exact_at(part, first.address);
        read.map_err(|error| context.failed_read(&first, &error))?;
        context.record(Event::ScanRead, asked, Instant::now(), part.len() as u64);
        context.visited += blocks;
        let verify = context.shared.verify;
        let flaws: Vec<(Identity, Flaw)> = context.verifying(blocks, || {
            let identities = (rows..).map(|number| area.scan_identity(number));
            let read = part.chunks_exact(block_bytes).zip(identities);
            let flawed = |(block, identity)| {
                let flaw = block::check(block, &identity, verify).err()?;
                Some((identity, flaw))
            };
            read.filter_map(flawed).collect()
        });
        for (identity, flaw) in flaws {
            error = Some(BAD_BLOCK);
            context.bad_block(&identity, flaw)?;
        }
        rows += blocks;
    }
    let end = Instant::now();
    let rows = if error.is_none() { rows } else { 0 };
    let error = error.map(Into::into);
    done.ended.push(Outcome::timed(index, (begin, end), stop, rows, error));
    Ok(end)
}
