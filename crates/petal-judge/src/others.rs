//! Judges whether other processes used the devices or the processors, before or during the run.

use petal_host::numbers::decimal;
use serde_json::{Value, json};

use super::judgement::{
    FindingParts, Judgement, NoFinding::Clear, advised, clear_if, known, seen, seen_on, warning,
};
use super::limits;
use super::other_processors::{self, Others};
use petal_host::numbers::bytes as size;
use petal_host::os::DeviceCounts;
use petal_record::Run;
use petal_record::counters::CommonCounter::{
    self, DoublewriteBytes, OtherLogicalReads, OtherReadBlocks, OtherRowsChanged, RowsFetched,
};
use petal_record::os::HostSeen;

const DEVICE_SHARE_MIN: f64 = 0.20;
const DEVICE_BYTES_MIN: u64 = 16 << 20;
/// Others' work in the database, as a share of petal's own. Less does not show in the figures.
const IN_DATABASE_SHARE_MIN: f64 = 0.05;
/// Others' work of up to this many blocks or rows is not reported.
const IN_DATABASE_MIN: u64 = 500;
/// Blocks that petal's own looks visit: each second at the counters, ten times at the waits.
const BLOCKS_OF_A_LOOK_MAX: f64 = 3000.0;
/// A device that serves fewer requests a second is idle.
const IDLE_REQUESTS: f64 = 100.0;

/// Work in the same database that is not petal's: on other tables, or on petal's own.
pub(super) fn in_the_database(run: &Run) -> Judgement {
    let counter = |counter| run.summary.counter(counter).unwrap_or(0);
    let (io, rows) = (&run.details.io, run.summary.rows);
    // Scans are not fetched by key; operations that failed were, and are in no figure.
    let by_key = rows.select + rows.update;
    // petal visits at most this number of dictionary blocks to read the counters.
    let own_looks = BLOCKS_OF_A_LOOK_MAX * (run.summary.elapsed_s + 2.0);
    let visited = (counter(OtherLogicalReads) as f64 - own_looks).max(0.0) as u64;
    let fetched = counter(RowsFetched).saturating_sub(by_key);
    let work = [
        ("blocks visited in other tables", visited, io.logical_reads),
        ("blocks read of other tables", counter(OtherReadBlocks), io.physical_read_blocks),
        ("rows changed in other tables", counter(OtherRowsChanged), Some(rows.update)),
        ("rows visited in petal's tables", fetched, Some(by_key)),
    ];
    let shown = work.into_iter().filter(|&(_, others, own)| {
        let share = own.unwrap_or(0) as f64 * IN_DATABASE_SHARE_MIN;
        others > IN_DATABASE_MIN && others as f64 > share
    });
    let shown = shown.map(|(what, others, own)| match own {
        Some(own) => format!("{others} {what} (petal: {own})"),
        None => format!("{others} {what}"),
    });
    let shown: Vec<String> = shown.collect();
    clear_if(shown.is_empty())?;
    let counters = [OtherLogicalReads, OtherReadBlocks, OtherRowsChanged, RowsFetched].map(
        |counter: CommonCounter| (counter.name().to_owned(), run.summary.counter(counter).into()),
    );
    warning(
        format!(
            "others worked in the same database: {}. Reads, hit ratios and reads per row are of \
             petal's own tables; read latencies, writes, redo, log syncs and the device's figures are \
             of all of them",
            shown.join(", ")
        ),
        advised(
            &run.details.target.advice.find_others,
            "Repeat it alone in the database, whose list of sessions names the others.",
        ),
    )
    .with(Value::Object(counters.into_iter().collect()))
    .with(json!({ "rows_visited": by_key }))
}

/// Another petal on the same data.
pub(super) fn other_runs(run: &Run) -> Judgement {
    let others = &run.details.other_runs;
    clear_if(others.is_empty())?;
    warning(
        format!(
            "{} used the same data: the counts of the database, the operating system and the \
             device cover the work of all of them",
            others.join(", ")
        ),
        "Repeat it alone. Several petals that load one database on purpose are one test: add up \
         the petals' own counts, and take the database's figures once.",
    )
    .with(json!({ "other_runs": others }))
}

pub(super) fn device(run: &Run) -> Judgement {
    seen(run, "devices")?;
    let io = &run.details.io;
    // The processes' own reads, if the kernel reports them: cache hits are not included.
    let read = run.serving_bytes().map(|own| own.read).or(io.physical_read_bytes);
    let own = read.zip(io.physical_write_bytes).zip(io.redo_bytes);
    let (device, ((read, written), redo)) = known(
        run.details.device.as_ref().zip(own),
        "the bytes of the device, or of the layers above it, are not known",
    )?;
    let doublewrite = run.summary.counter(DoublewriteBytes);
    let (own, served) = (read + written + redo + doublewrite.unwrap_or(0), moved(device));
    let excess = excess(served, own).ok_or(Clear)?;
    warning(
        format!(
            "the device moved {} more than {} asked for ({} against {}): another program used it, or \
             read-ahead, the file system's own log or write-back of earlier work did",
            size(excess),
            run.reported_by(),
            size(served),
            size(own)
        ),
        "Repeat on a quiet device; iotop names the other programs.",
    )
    .with(json!({
        "device_read_bytes": device.read_bytes, "device_write_bytes": device.write_bytes,
        "own_read_bytes": read, "database_write_bytes": written, "redo_bytes": redo,
        "doublewrite_bytes": doublewrite,
    }))
}

/// Bytes that were moved beyond one's own, if they are many.
fn excess(moved: u64, own: u64) -> Option<u64> {
    let excess = moved.saturating_sub(own);
    let is_much = excess >= DEVICE_BYTES_MIN && excess as f64 > own as f64 * DEVICE_SHARE_MIN;
    is_much.then_some(excess)
}

fn moved(device: &DeviceCounts) -> u64 {
    device.read_bytes + device.write_bytes
}

/// A disk that moved more than all that lies on it and belongs to the data: the rest is another
/// partition's or volume's.
pub(super) fn disk_below(run: &Run) -> Judgement {
    let seen = run.database_host().ok_or(Clear)?;
    let sum = &seen.whole.sum;
    let (data, devices) = sum.device().zip(sum.devices.as_ref()).ok_or(Clear)?;
    let below = devices.iter().filter(|device| !device.data);
    let most = below.max_by_key(|device| moved(&device.counts)).ok_or(Clear)?;
    let (own, all) = (moved(&data), moved(&most.counts));
    let excess = excess(all, own).ok_or(Clear)?;
    warning(
        format!(
            "the disk {} moved {} more than the data's devices on it{}: something else on the same \
             disk was at work",
            most.name,
            size(excess),
            seen_on(seen)
        ),
        "Give the data a separate disk, or stop its other users.",
    )
    .with(json!({ "disk": most.name, "disk_bytes": all, "data_devices_bytes": own }))
}

pub(super) fn processors(run: &Run) -> Judgement {
    self::seen(run, "processors")?;
    let host = known(run.database_host(), "this record has no processor times")?;
    let others = other_processors::of(run, host, &host.whole.sum);
    let others = known(others, "the processor time of the database's processes is not known")?;
    // That finding names them.
    let is_named = limits::others_on_full_processors(run).is_some();
    clear_if(is_named || others.processors < others.processors_min())?;
    let (during, before) = (processors_words(&others), before_run(run, host));
    let words = match before {
        Some(before) => format!("{during} during the run ({:.1} before)", before.processors),
        None => format!("{during} during the run"),
    };
    let found = by_others(host, &words, &others);
    let before = before.map(|before| json!({ "other_processors_before": before.processors }));
    found.with(json!({ "other_processors": others.processors })).with(before.unwrap_or(json!({})))
}

fn processors_words(others: &Others) -> String {
    format!("other programs used {:.1} of {} processors", others.processors, others.of)
}

/// Others' processors in the last look before the run, when petal was idle; None if they were few.
fn before_run(run: &Run, seen: &HostSeen) -> Option<Others> {
    let others = other_processors::of(run, seen, seen.before.as_ref()?)?;
    (others.processors >= others.processors_min()).then_some(others)
}

/// Reports the processor time of others.
fn by_others(seen: &HostSeen, words: &str, others: &Others) -> Judgement {
    warning(
        format!("{words}{}", seen_on(seen)),
        "Repeat on a quiet host; top names the other programs.",
    )
    .with(json!({ "own_processors": others.own, "processors": others.of }))
}

/// The last look before the run, when petal was idle.
pub(super) fn before(run: &Run) -> Judgement {
    let seen = run.database_host().ok_or(Clear)?;
    let before = seen.before.as_ref().ok_or(Clear)?;
    if let Some(others) = before_run(run, seen) {
        // One finding for one fact.
        clear_if(limits::others_on_full_processors(run).is_some() || processors(run).is_ok())?;
        let words = format!("{} before the run", processors_words(&others));
        return by_others(seen, &words, &others)
            .with(json!({ "other_processors_before": others.processors }));
    }
    // On another host these seconds hold petal's own settling.
    let device = before.device().filter(|_| seen.file.is_none() && before.seconds > 0.0);
    let requests = device.map(|device| device.read_requests + device.write_requests);
    let rate = requests.map(|requests| requests as f64 / before.seconds);
    let rate = rate.filter(|&rate| rate > IDLE_REQUESTS).ok_or(Clear)?;
    warning(
        format!(
            "the data's device served {rate} requests a second before the run, when petal was \
             idle",
            rate = decimal(rate, 0)
        ),
        "Wait until it is idle; iotop names the other programs.",
    )
    .with(json!({ "requests_per_second_before": rate }))
}
