//! A run's work as each layer saw it, and by kind of file.

use super::super::numbers::{decimal, micros, or_dash, whole};
use super::super::sources;
use super::super::table::Table;
use petal_record::Run;
use petal_record::counters::CommonCounter;

fn megabytes(bytes: u64) -> String {
    decimal(bytes as f64 / 1e6, 1)
}

/// Read blocks, read requests and read bytes, then the same for writes; None is unknown.
type LayerCounts = [Option<u64>; 6];

/// Lists the same work on every layer, in blocks, requests and bytes.
pub(crate) fn layers(run: &Run) -> Table {
    let (summary, io) = (&run.summary, &run.details.io);
    let above = sources::of(run).name;
    let in_bytes = |blocks: Option<u64>| blocks.map(|blocks| blocks * summary.target.block_size);
    let mut table =
        Table::of_figures("layer | read blocks | requests | MB | write blocks | requests | MB");
    let mut row = |name: String, counts: LayerCounts| {
        let show = [whole, whole, megabytes, whole, whole, megabytes];
        let cells = counts.into_iter().zip(show).map(|(count, show)| or_dash(count, show));
        table.row(std::iter::once(name).chain(cells));
    };
    let petals = [("asked by petal", summary.rows_asked), ("visited", Some(summary.rows))];
    for (name, rows) in petals {
        let (read, updated) = (rows.map(|rows| rows.total()), rows.map(|rows| rows.update));
        let counts = [read, None, in_bytes(read), updated, None, in_bytes(updated)];
        row(format!("{name}, a block a row"), counts);
    }
    let logical = io.logical_reads;
    row(format!("{above}, logical"), [logical, None, in_bytes(logical), None, None, None]);
    row(
        format!("{above}, physical"),
        [
            io.physical_read_blocks,
            io.physical_read_requests,
            io.physical_read_bytes,
            io.physical_write_blocks,
            io.physical_write_requests,
            io.physical_write_bytes,
        ],
    );
    if let read @ Some(_) = summary.counter(CommonCounter::OtherReadBlocks) {
        row(format!("{above}, other tables"), [read, None, in_bytes(read), None, None, None]);
    }
    let log = io.log_read_blocks;
    row(format!("{above}, log"), [log, None, in_bytes(log), None, None, io.redo_bytes]);
    let (read, written) = run.serving_bytes().map(|bytes| (bytes.read, bytes.write)).unzip();
    let serving = format!("{}, storage", run.serving_processes());
    row(serving, [None, None, read, None, None, written]);
    let device = run.details.device.as_ref();
    let (reads, writes) = device.map(|d| (d.read_requests, d.write_requests)).unzip();
    let (read, written) = device.map(|d| (d.read_bytes, d.write_bytes)).unzip();
    let name = format!("device {}", run.details.devices.join(", "));
    row(name.trim_end().to_owned(), [None, reads, read, None, writes, written]);
    let flushes = device.map(|device| {
        let busy_s = decimal(device.busy_ms as f64 / 1000.0, 2);
        format!("device flushes {}, time with I/O in flight {busy_s} s", whole(device.flushes))
    });
    table.with_note(flushes.unwrap_or_default())
}

/// Lists I/O by kind of file; empty if the engine does not see files.
pub(crate) fn files(run: &Run) -> Table {
    let average = |time_ns: u64, count: u64| {
        or_dash((count > 0).then(|| time_ns as f64 / 1e3 / count as f64), micros)
    };
    let heading = "file | reads | MB | avg us | writes | MB | avg us | syncs | avg us";
    Table::of_figures(heading).with_rows(run.details.files.iter().map(|file| {
        [
            file.kind.clone(),
            whole(file.read_requests),
            megabytes(file.read_bytes),
            average(file.read_ns, file.read_requests),
            whole(file.write_requests),
            megabytes(file.write_bytes),
            average(file.write_ns, file.write_requests),
            whole(file.syncs),
            average(file.sync_ns, file.syncs),
        ]
    }))
}

pub(crate) fn endpoints(run: &Run) -> Table {
    let heading = "endpoint | sessions | read requests | read MB | read us | write requests | \
                   write MB | redo MB";
    let rows = run.summary.endpoints.iter().map(|endpoint| {
        let io = &endpoint.io;
        [
            match endpoint.is_standby {
                true => format!("{} (standby)", endpoint.endpoint),
                false => endpoint.endpoint.clone(),
            },
            endpoint.sessions.to_string(),
            or_dash(io.physical_read_requests, whole),
            or_dash(io.physical_read_bytes, megabytes),
            or_dash(endpoint.read_us, micros),
            or_dash(io.physical_write_requests, whole),
            or_dash(io.physical_write_bytes, megabytes),
            or_dash(io.redo_bytes, megabytes),
        ]
    });
    let replayed = run.summary.counter(CommonCounter::ReplayedBlocks);
    let note = replayed.map(|blocks| {
        format!(
            "Replay wrote {} blocks at the standbys, which are in none of these.",
            whole(blocks)
        )
    });
    Table::of_figures(heading).with_rows(rows).with_note(note.unwrap_or_default())
}
