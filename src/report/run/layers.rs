//! The same work as each layer saw it, and by kind of file.

use super::super::numbers::{decimal, micros, or_dash, whole};
use super::super::sources;
use super::super::table::Table;
use crate::record::Run;
use crate::stats::counters::CommonCounter;

fn megabytes(bytes: u64) -> String {
    decimal(bytes as f64 / 1e6, 1)
}

/// The same work on every layer, in blocks, requests and bytes.
pub(in crate::report) fn layers(run: &Run) -> Table {
    let (summary, io) = (&run.summary, &run.details.io);
    let block = summary.target.block_size;
    let above = sources::of(run).name;
    let dash = || "-".to_owned();
    let mut table = Table::of_figures(&[
        "layer",
        "read blocks",
        "requests",
        "MB",
        "write blocks",
        "requests",
        "MB",
    ]);
    let petals = [("asked by petal", summary.rows_asked), ("visited", Some(summary.rows))];
    for (name, rows) in petals {
        let (read, updated) = (rows.map(|rows| rows.total()), rows.map(|rows| rows.update));
        table.row([
            format!("{name}, a block a row"),
            or_dash(read, whole),
            dash(),
            or_dash(read, |rows| megabytes(rows * block)),
            or_dash(updated, whole),
            dash(),
            or_dash(updated, |rows| megabytes(rows * block)),
        ]);
    }
    table.row([
        format!("{above}, logical"),
        or_dash(io.logical_reads, whole),
        dash(),
        or_dash(io.logical_reads, |blocks| megabytes(blocks * block)),
        dash(),
        dash(),
        dash(),
    ]);
    table.row([
        format!("{above}, physical"),
        or_dash(io.physical_read_blocks, whole),
        or_dash(io.physical_read_requests, whole),
        or_dash(io.physical_read_bytes, megabytes),
        or_dash(io.physical_write_blocks, whole),
        or_dash(io.physical_write_requests, whole),
        or_dash(io.physical_write_bytes, megabytes),
    ]);
    if let Some(read) = summary.counter(CommonCounter::OtherReadBlocks) {
        table.row([
            format!("{above}, other tables"),
            whole(read),
            dash(),
            megabytes(read * block),
            dash(),
            dash(),
            dash(),
        ]);
    }
    table.row([
        format!("{above}, log"),
        or_dash(io.log_read_blocks, whole),
        dash(),
        or_dash(io.log_read_blocks, |blocks| megabytes(blocks * block)),
        dash(),
        dash(),
        or_dash(io.redo_bytes, megabytes),
    ]);
    let serving = run.serving_bytes();
    table.row([
        format!("{}, storage", run.serving_processes()),
        dash(),
        dash(),
        or_dash(serving.map(|bytes| bytes.read), megabytes),
        dash(),
        dash(),
        or_dash(serving.map(|bytes| bytes.write), megabytes),
    ]);
    let device = run.details.device.as_ref();
    let name = if run.details.devices.is_empty() {
        "device".to_owned()
    } else {
        format!("device {}", run.details.devices.join(", "))
    };
    table.row([
        name,
        dash(),
        or_dash(device.map(|d| d.read_requests), whole),
        or_dash(device.map(|d| d.read_bytes), megabytes),
        dash(),
        or_dash(device.map(|d| d.write_requests), whole),
        or_dash(device.map(|d| d.write_bytes), megabytes),
    ]);
    table.with_note(flushes(run).unwrap_or_default())
}

/// What the device did besides; None where it was not seen.
fn flushes(run: &Run) -> Option<String> {
    let device = run.details.device.as_ref()?;
    Some(format!(
        "device flushes {}, time with I/O in flight {} s",
        whole(device.flushes),
        decimal(device.busy_ms as f64 / 1000.0, 2)
    ))
}

/// I/O by kind of file; empty where the engine does not see files.
pub(in crate::report) fn files(run: &Run) -> Table {
    let average =
        |time_us: f64, count: u64| or_dash((count > 0).then(|| time_us / count as f64), micros);
    let mut table = Table::of_figures(&[
        "file", "reads", "MB", "avg us", "writes", "MB", "avg us", "syncs", "avg us",
    ]);
    for file in &run.details.files {
        table.row([
            file.kind.clone(),
            whole(file.read_requests),
            megabytes(file.read_bytes),
            average(file.read_us, file.read_requests),
            whole(file.write_requests),
            megabytes(file.write_bytes),
            average(file.write_us, file.write_requests),
            whole(file.syncs),
            average(file.sync_us, file.syncs),
        ]);
    }
    table
}

/// Each endpoint's share.
pub(in crate::report) fn endpoints(run: &Run) -> Table {
    let mut table = Table::of_figures(&[
        "endpoint",
        "sessions",
        "read requests",
        "read MB",
        "read us",
        "write requests",
        "write MB",
        "redo MB",
    ]);
    for endpoint in &run.summary.endpoints {
        let io = &endpoint.io;
        table.row([
            endpoint.endpoint.clone(),
            endpoint.sessions.to_string(),
            or_dash(io.physical_read_requests, whole),
            or_dash(io.physical_read_bytes, megabytes),
            or_dash(endpoint.read_us, micros),
            or_dash(io.physical_write_requests, whole),
            or_dash(io.physical_write_bytes, megabytes),
            or_dash(io.redo_bytes, megabytes),
        ]);
    }
    table
}
