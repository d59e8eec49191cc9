//! Describes the target before a run.

use std::os::unix::fs::FileExt as _;

use super::data::TargetData;
use super::queue::Backend;
use super::statistics::Event;
use super::target::{AlignedBuffer, OpenTarget, TargetKind};
use super::{Shared, log, scan};
use petal_engine::Result;
use petal_record::target::{Durability, IoEvents, Target as About, TargetDetails};
use petal_settings::Verify;
use petal_settings::size::format_bytes;
use petal_workload::compression;

pub fn describe(shared: &Shared) -> Result<(About, TargetDetails)> {
    let (data, target, backend) = (shared.data()?, shared.target()?, shared.backend()?);
    let about = About {
        product: "Device".to_owned(),
        version: format!("format {}", data.header.format),
        block_size: u64::from(data.header.block_bytes),
        // Changed blocks that wait to be written are not a read cache.
        cache_bytes: Some(0),
        url: shared.url.clone(),
    };
    let details = TargetDetails {
        local: true,
        in_process: true,
        settings: settings(shared, &data, &target, &backend),
        data_files: vec![std::path::absolute(&shared.path).unwrap_or(shared.path.clone())],
        clock_resolution_ns: 1,
        compression_ratio: compression::ratio(&sample_blocks(&target, &data)),
        direct_io: Some(target.direct.clone()),
        durability: Some(petal_record::target::durability_on(
            &target.path,
            Durability {
                durable: true,
                setting: "each UPDATE's log record is written and fdatasynced by itself".to_owned(),
            },
        )),
        io_events: IoEvents {
            read: Event::BlockRead.name().to_owned(),
            write: Event::BackgroundWrite.name().to_owned(),
            log: Event::LogSync.name().to_owned(),
            timed_by: "petal, from submit to completion".to_owned(),
        },
        checkpoint: Some(format!(
            "changed blocks are written at once in the background, {} in flight, synced after each \
             {} of log; the log is never read back",
            shared.options.write_depth,
            format_bytes(data.header.log_bytes / 4)
        )),
        ..TargetDetails::default()
    };
    Ok((about, details))
}

fn settings(
    shared: &Shared,
    data: &TargetData,
    target: &OpenTarget,
    backend: &Backend,
) -> Vec<(String, String)> {
    let kind = if target.kind == TargetKind::BlockDevice { "block device" } else { "file" };
    let verify = match shared.verify {
        Verify::None => "nothing",
        Verify::Header => "address, generation and version of each block",
        Verify::Checksum => "address, generation, version and checksum of each block",
    };
    let filler = data.header.schemas.first().map_or("", |area| area.filler.as_str());
    [
        ("target", kind.to_owned()),
        ("requests by", backend.words()),
        ("direct I/O", if target.direct.used { "on" } else { "off" }.to_owned()),
        ("requests in flight", format!("{} in each session", shared.io_depth)),
        ("verified", verify.to_owned()),
        ("scan requests", format_bytes(scan::SCAN_BYTES as u64)),
        ("log", format!("{}, written round and round", format_bytes(data.header.log_bytes))),
        (
            "log record",
            format!(
                "{} bytes a row, padded to {}",
                log::row_bytes(shared.redo_stress),
                log::LOG_BLOCK_BYTES
            ),
        ),
        ("changed blocks in memory", format!("up to {}", format_bytes(shared.options.dirty_bytes))),
        ("background writes in flight", shared.options.write_depth.to_string()),
        ("filler", filler.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

const SAMPLES: u64 = 64;

/// Reads blocks spread evenly over the first schema; skips unreadable ones.
fn sample_blocks(target: &OpenTarget, data: &TargetData) -> Vec<Vec<u8>> {
    let Some(area) = data.areas.first() else { return Vec::new() };
    let mut buffer = AlignedBuffer::new(data.header.block_bytes as usize);
    let step = (area.about.rows / SAMPLES).max(1);
    (0..area.about.rows)
        .step_by(step as usize)
        .filter_map(|number| {
            let address = area.main_identity(number).address;
            target.file.read_exact_at(buffer.bytes_mut(), address).ok()?;
            Some(buffer.bytes().to_vec())
        })
        .collect()
}
