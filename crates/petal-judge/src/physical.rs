//! Judges which layer served the reads (the device, the page cache, the cache of the database or of
//! the array), and whether single blocks were read, by the intended plan.

use serde_json::json;

use super::judgement::{
    FindingParts, Judgement,
    NoFinding::{self, Clear},
    advised, clear_if, error, info, known, seen, unknown, warning,
};
use super::memory;
use super::served::{self, ReadsServed};
use petal_host::numbers::bytes as size;
use petal_record::Run;
use petal_record::counters::CommonCounter;
use petal_settings::table::{self, support};

/// Fewest bytes that show which layer served them.
pub(super) const READ_BYTES_MIN: u64 = 1 << 20;
const LOGICAL_MISS_SHARE_MAX: f64 = 0.001;
const PREFETCHED_SHARE_MAX: f64 = 0.05;
const BLOCKS_PER_REQUEST_MAX: f64 = 1.05;
const READS_PER_ROW_MAX: f64 = 1.10;
/// Reads per row below which the database's cache served some rows, and below which most of them.
const READS_PER_ROW_MIN: f64 = 0.90;
const MOSTLY_CACHED_MAX: f64 = 0.50;
/// Share of operations on data that is not hot, below which their reads do not show the cache.
const COLD_SHARE_MIN: f64 = 0.05;
/// Share for counters and rows of slightly different moments: each row needs one logical read.
const LOGICAL_READS_PER_ROW_MIN: f64 = 0.95;
/// Fewest rows that show the reads of a row.
pub(super) const ROWS_MIN: u64 = 1000;
/// Visits of blocks of rows, for a row read and for a row updated: PostgreSQL makes 1 and 3.9, the
/// visibility map's among them (version 15, 1.3 million rows).
const VISITS_PER_READ_MAX: f64 = 1.5;
const VISITS_PER_UPDATE_MAX: f64 = 4.5;

/// The data that a run can touch and the cache it has: of all sessions together, or, if each
/// session has a separate cache, of one schema and one such cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cache {
    bytes: u64,
    active: u64,
    is_per_session: bool,
}

impl Cache {
    fn of(run: &Run) -> Option<Self> {
        let active = run.summary.active_bytes;
        let own_bytes = run.details.target.session_cache_bytes;
        let (bytes, active) = match own_bytes {
            Some(bytes) => (bytes, active.div_ceil(u64::from(run.summary.schemas.max(1)))),
            None => (run.summary.target.cache_bytes?, active),
        };
        Some(Self { bytes, active, is_per_session: own_bytes.is_some() })
    }

    /// The one that can hold all that it is asked for.
    fn with_all_data(run: &Run) -> Option<Self> {
        Self::of(run).filter(|cache| cache.active > 0 && cache.bytes >= cache.active)
    }
}

/// Share of the data that the cache can hold; None if unknown.
pub fn cache_share(run: &Run) -> Option<f64> {
    let cache = Cache::of(run).filter(|cache| cache.active > 0)?;
    Some((cache.bytes as f64 / cache.active as f64).min(1.0))
}

/// Returns true if the database's cache holds all data that the run could touch: a test of logical
/// I/O.
pub(super) fn is_cached(run: &Run) -> bool {
    Cache::with_all_data(run).is_some()
}

pub(super) fn reached_the_device(run: &Run) -> Judgement {
    seen(run, "devices")?;
    let served = served::reads(run).map_err(NoFinding::Unknown)?;
    // Data that the database's cache can hold are no test of storage, whatever first filled it.
    clear_if(served.asked < READ_BYTES_MIN || served.is_by_device() || is_cached(run))?;
    // The larger part names it.
    if served.page_cache >= served.unseen {
        return by_page_cache(run, served);
    }
    let what = match &served.layer {
        Some(layer) => format!("came from below the data's device: {layer}"),
        None => "came from storage that is not counted: memory, a network, or a device that petal \
                 did not find"
            .to_owned(),
    };
    let advice = "Put the data on a local disk, or read the device's own statistics.";
    not_from(run, &served, &what, advice).named("device-unseen")
}

fn by_page_cache(run: &Run, served: ReadsServed) -> Judgement {
    if let Some(layer) = &served.layer {
        return not_from(
            run,
            &served,
            &format!("were served by the operating system's page cache: {layer}"),
            match served::is_direct(run) && served::cached_despite_direct_io(run).is_some() {
                true => "Load the data where neither compression nor data=journal is on.",
                false => {
                    "Put the data on the disk itself, or give the loop device direct I/O (losetup \
                     --direct-io=on)."
                }
            },
        );
    }
    let hint = match page_cache_remedy(run) {
        PageCacheRemedy::DirectIo => "DIRECT_IO=TRUE, or ".to_owned(),
        PageCacheRemedy::Limit => match memory::limit_command_of(run) {
            Some(command) => format!("a limit on the server's control group ({command}), or "),
            None => "PAGE_CACHE_LIMIT, or ".to_owned(),
        },
        PageCacheRemedy::DataForLimit => {
            let (bytes, needs_limit) = memory::least_data_of(run);
            let command = memory::limit_command_of(run);
            let command = command.map_or_else(String::new, |command| format!(" ({command})"));
            match needs_limit {
                true => format!(
                    "{} of data and a limit on the server's control group{command}, or ",
                    size(bytes)
                ),
                false => format!("{} of data under its control group's limit, or ", size(bytes)),
            }
        }
        PageCacheRemedy::MoreData => String::new(),
    };
    let hint = format!("Use {hint}a data set several times the memory.");
    not_from(run, &served, "were served by the operating system's page cache", &hint)
}

/// A way past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageCacheRemedy {
    DirectIo,
    Limit,
    /// A limit, once more data are loaded.
    DataForLimit,
    MoreData,
}

/// The best way past the page cache that the run's engine takes.
pub(super) fn page_cache_remedy(run: &Run) -> PageCacheRemedy {
    let target = &run.details.target;
    let is_asked = target.direct_io.as_ref().is_none_or(|direct| direct.asked);
    // petal limits no other host's page cache.
    let can_limit = !served::is_direct(run) && target.local && takes(run, "PAGE_CACHE_LIMIT", None);
    match (!is_asked && takes(run, "DIRECT_IO", Some("TRUE")), can_limit) {
        (true, _) => PageCacheRemedy::DirectIo,
        (_, true) if run.summary.active_bytes < memory::least_data_of(run).0 => {
            PageCacheRemedy::DataForLimit
        }
        (_, true) => PageCacheRemedy::Limit,
        _ => PageCacheRemedy::MoreData,
    }
}

fn not_from(run: &Run, served: &ReadsServed, what: &str, advice: &str) -> Judgement {
    let missing = served.asked - served.device;
    let share = served.share(missing);
    warning(
        format!(
            "{:.0} % of the bytes that {} read did not come from the device ({} of {}): they {what}",
            share * 100.0,
            run.reported_by(),
            size(missing),
            size(served.asked),
        ),
        advice,
    )
    .with(json!({
        "database_read_bytes": served.asked,
        "device_read_bytes": run.details.device.map(|device| device.read_bytes),
        "serving_processes_read_bytes": run.serving_bytes().map(|bytes| bytes.read),
        "missing_share": share, "direct_io_used": served::is_direct(run),
    }))
}

pub(super) fn storage_cache(run: &Run) -> Judgement {
    let cache = run.summary.setting("storage_cache").and_then(|value| value.as_u64());
    let active = run.summary.active_bytes;
    let cache = cache.filter(|&cache| active > 0 && active <= cache).ok_or(Clear)?;
    warning(
        format!(
            "the active data set ({}) fits in the storage's cache ({}, STORAGE_CACHE): reads may \
             never have reached a drive",
            size(active),
            size(cache)
        ),
        "Load more schemas or a larger SCALE, several times the storage's cache.",
    )
    .with(json!({ "active_bytes": active, "storage_cache_bytes": cache }))
}

/// Blocks that were read for each row visited, in the window that is quoted. None if the database
/// does not report them, of scans, whose rows are not blocks, and of few rows.
fn reads_per_row(run: &Run) -> Option<f64> {
    let shown = run.headline_window().run;
    let fetched = shown.summary.counter(CommonCounter::RowsFetched).unwrap_or(0);
    let rows = shown.summary.rows.total().max(fetched);
    let io = &shown.details.io;
    let read = io.physical_read_blocks? + io.log_read_blocks.unwrap_or(0);
    (rows >= ROWS_MIN && shown.summary.ops.scan == 0).then(|| read as f64 / rows as f64)
}

/// The share of the operations that the settings sent to no hot data; None if they made none hot, or
/// nearly all.
fn cold_share(run: &Run) -> Option<f64> {
    let number = |key: &str| run.summary.setting_number(key).filter(|&every| every >= 1.0);
    let is_spot = run.summary.setting("do_hotspot").and_then(|it| it.as_bool()) == Some(true);
    let spot = number("hotspot_frequency").filter(|_| is_spot);
    let frequencies = [spot, number("hot_schema_frequency")];
    let cold = frequencies.into_iter().flatten().map(|every| 1.0 - 1.0 / every).product::<f64>();
    (COLD_SHARE_MIN..1.0).contains(&cold).then_some(cold)
}

/// True if the settings sent all operations to the hot spots, which are of the same size in any data.
pub(super) fn is_all_in_a_hot_spot(run: &Run) -> bool {
    let is_spot = run.summary.setting("do_hotspot").and_then(|it| it.as_bool()) == Some(true);
    is_spot && run.summary.setting_number("hotspot_frequency") == Some(1.0)
}

/// Blocks that were read for each row visited which the settings meant to be read: of hot data a cache
/// serves the rest.
fn reads_per_cold_row(run: &Run) -> Option<f64> {
    Some(reads_per_row(run)? / cold_share(run).unwrap_or(1.0))
}

/// True if the database has a cache other than the page cache.
fn has_cache(run: &Run) -> bool {
    !run.is_bare_device() && !served::is_mapped(run)
}

/// The share of the rows that the database found in its cache, if it were most of them.
pub(super) fn mostly_cached(run: &Run) -> Option<f64> {
    let each = reads_per_row(run).filter(|_| has_cache(run))?;
    (reads_per_cold_row(run)? < MOSTLY_CACHED_MAX).then_some(1.0 - each)
}

/// A run of data that its cache cannot hold, and found many of its rows there all the same.
fn partly_cached(run: &Run) -> Judgement {
    let each = reads_per_row(run).filter(|&each| each < READS_PER_ROW_MIN).ok_or(Clear)?;
    let is_mostly_cached = reads_per_cold_row(run).is_some_and(|each| each < MOSTLY_CACHED_MAX);
    let judged: fn(String, &str) -> Judgement = if is_mostly_cached { warning } else { info };
    let hot = cold_share(run).map_or_else(String::new, |cold| {
        format!("; the settings sent {:.0} % of the operations to hot data", (1.0 - cold) * 100.0)
    });
    let hot = match is_all_in_a_hot_spot(run) {
        true => "; the settings sent all operations to hot spots".to_owned(),
        false => hot,
    };
    judged(
        format!(
            "{each:.3} block reads for each row visited: the database's cache served {:.0} % of the \
             rows{hot}",
            (1.0 - each) * 100.0
        ),
        match is_all_in_a_hot_spot(run) {
            true => {
                "For physical reads run without DO_HOTSPOT, or with a HOTSPOT_MB much larger than \
                 the cache."
            }
            false => {
                "For physical reads make the cache much smaller than the data, or load more; for \
                 logical reads make it hold all of them."
            }
        },
    )
    .with(json!({
        "reads_per_row": each, "active_bytes": run.summary.active_bytes,
        "cache_bytes": run.summary.target.cache_bytes,
    }))
}

pub(super) fn database_cache(run: &Run) -> Judgement {
    let Some(Cache { bytes, active, is_per_session }) = Cache::with_all_data(run) else {
        return if has_cache(run) { partly_cached(run) } else { Err(Clear) };
    };
    let (whose, what) = match is_per_session {
        true => ("each session's own cache", "the active data of its schema"),
        false if run.summary.endpoints.len() > 1 => {
            ("the first endpoint's cache", "the whole active data set")
        }
        false => ("the database's cache", "the whole active data set"),
    };
    info(
        format!(
            "a test of logical reads: {whose} ({}) can hold {what} ({})",
            size(bytes),
            size(active)
        ),
        "For physical reads make the cache much smaller than the data, or load more.",
    )
    .with(json!({ "active_bytes": active, "cache_bytes": bytes }))
}

pub(super) fn cached_misses(run: &Run) -> Judgement {
    let cache = Cache::with_all_data(run).ok_or(Clear)?;
    // A warm-up is there to fill the cache.
    let shown = run.headline_window().run;
    let io = &shown.details.io;
    let (misses, visited) = known(
        io.physical_read_blocks.zip(io.logical_reads),
        "the database does not report both logical and physical reads",
    )?;
    let share = misses as f64 / visited.max(1) as f64;
    clear_if(visited == 0 || share <= LOGICAL_MISS_SHARE_MAX)?;
    let (which, advice) = match cache.is_per_session {
        true => (
            "the sessions' own caches, each of which could hold its schema",
            "Fill them first with WARM_UP=cache. If sessions share a schema, a commit by one \
             empties the others' caches: give each its own schema.",
        ),
        false => (
            "a cache that could hold all",
            "Fill the cache first with WARM_UP=cache, or give it a little more room.",
        ),
    };
    warning(format!("{:.2} % of the logical reads missed {which}", share * 100.0), advice)
        .with(json!({ "physical_read_blocks": misses, "logical_reads": visited }))
}

pub(super) fn not_direct(run: &Run) -> Judgement {
    let direct = run.details.target.direct_io.as_ref();
    let direct = direct.filter(|direct| direct.asked && !direct.used).ok_or(Clear)?;
    let reason = direct.reason.as_deref().unwrap_or("no reason is known");
    warning(
        format!("direct I/O was asked for and not used: {reason}"),
        "Put the data on a file system with direct I/O (ext4, XFS), or say DIRECT_IO=FALSE.",
    )
    .with(json!({ "direct_io_reason": direct.reason }))
}

pub(super) fn single_block(run: &Run) -> Judgement {
    let meant = run.summary.setting_number("prefetch").unwrap_or(0.0) == 0.0;
    // A scan may read many blocks at once: this rule does not apply to it.
    clear_if(!meant || run.summary.ops.scan > 0)?;
    if let Some(judged) = prefetched(run) {
        return judged;
    }
    let io = &run.details.io;
    let (blocks, requests) = known(
        io.physical_read_blocks.zip(io.physical_read_requests),
        "the database does not report both blocks and requests",
    )?;
    let each = blocks as f64 / requests.max(1) as f64;
    clear_if(requests == 0 || each <= BLOCKS_PER_REQUEST_MAX)?;
    warning(
        format!("{each:.2} blocks per read request, though PREFETCH is 0"),
        prefetch_advice(run),
    )
    .with(json!({ "physical_read_blocks": blocks, "physical_read_requests": requests }))
}

/// Advice that the run's engine can follow: PREFETCH is not every engine's.
fn prefetch_advice(run: &Run) -> &str {
    let general = match takes(run, "PREFETCH", None) {
        true => "Turn the database's read-ahead off, or set PREFETCH to name its size.",
        false => {
            "Turn the read-ahead off: the database's own, and the device's (blockdev --setra)."
        }
    };
    advised(&run.details.target.advice.stop_prefetch, general)
}

/// Returns true if the run's engine takes a parameter with this value, or with any.
fn takes(run: &Run, key: &str, value: Option<&str>) -> bool {
    let parameter = table::find(key);
    support::of(&run.summary.engine)
        .zip(parameter)
        .is_none_or(|(engine, parameter)| engine.takes(parameter, value))
}

/// Judges prefetched blocks, if the database counts them: their number of requests does not show
/// them.
fn prefetched(run: &Run) -> Option<Judgement> {
    let prefetched = run.summary.counter(CommonCounter::BlocksPrefetched)?;
    let read = run.summary.counter(CommonCounter::BlocksCached)?;
    let share = prefetched as f64 / read.max(1) as f64;
    (read > 0 && share > PREFETCHED_SHARE_MAX).then(|| {
        warning(
            format!(
                "{:.1} % of the blocks read into the cache were prefetched, though PREFETCH is 0",
                share * 100.0
            ),
            prefetch_advice(run),
        )
        .with(json!({ "prefetched_blocks": prefetched, "blocks_read_into_cache": read }))
    })
}

/// A row is in a block: fewer logical reads than rows are impossible, whatever is cached.
pub(super) fn unread_rows(run: &Run) -> Judgement {
    let rows = run.summary.rows.total();
    clear_if(rows < ROWS_MIN || run.is_bare_device())?;
    let visited =
        known(run.details.io.logical_reads, "the database does not report its logical reads")?;
    let each = visited as f64 / rows as f64;
    clear_if(each >= LOGICAL_READS_PER_ROW_MIN)?;
    error(
        format!(
            "{each:.3} logical reads for each row visited, and each row is in its own block: \
             something other than the tables answered (a query cache), or the database did not \
             count all of its reads"
        ),
        "Use no figure of it. Find out who answered: a query cache, a proxy with a cache, a reset of \
         the counters.",
    )
    .with(json!({ "logical_reads": visited, "rows_visited": rows }))
}

/// Judges blocks that are read with the rows' own: index or interior blocks that missed the cache,
/// and blocks of a row's old versions.
pub(super) fn extra_reads(run: &Run) -> Judgement {
    // Rows that any process visited, if the database counts them.
    let fetched = run.summary.counter(CommonCounter::RowsFetched).unwrap_or(0);
    let rows = run.summary.rows.total().max(fetched);
    let read = known(
        run.details.io.physical_read_blocks,
        "the database does not report the blocks that it read",
    )?;
    let read = read + run.details.io.log_read_blocks.unwrap_or(0);
    let each = read as f64 / rows.max(1) as f64;
    // A scan reads blocks without rows: small ones, and the table's interior.
    clear_if(rows == 0 || run.summary.ops.scan > 0 || each <= READS_PER_ROW_MAX)?;
    let evidence = json!({ "block_reads": read, "rows_visited": rows });
    let advice = &run.details.target.advice;
    let selected = run.summary.rows.select;
    let visits_max = selected as f64 * VISITS_PER_READ_MAX
        + rows.saturating_sub(selected) as f64 * VISITS_PER_UPDATE_MAX;
    let visits = run.summary.counter(CommonCounter::RowBlocksVisited);
    if let Some(visits) = visits.filter(|&visits| visits as f64 > visits_max) {
        let visited = visits as f64 / rows as f64;
        let message = format!(
            "{each:.2} block reads per row visited: for each row {visited:.1} blocks of rows were \
             visited, because its old versions were still there"
        );
        return info(message, advised(&advice.purge_faster, "Run longer, or update less."))
            .with(evidence)
            .with(json!({ (CommonCounter::RowBlocksVisited.name()): visits }));
    }
    info(
        format!("{each:.2} block reads per row visited: index or interior blocks missed the cache"),
        advised(&advice.keep_cached, "Give the cache more room."),
    )
    .with(evidence)
}

pub(super) fn wrong_plan(run: &Run) -> Judgement {
    let before = &run.details.target.plan;
    if let Some(after) = run.details.plan_lost() {
        return error(
            format!(
                "the plan changed during the run: no longer an index scan on custid, but {}. The \
                 figures mix two plans",
                after.text
            ),
            "Use no figure of it. Find out who changed the index, then load again (petal setup \
             --replace).",
        )
        .with(
            json!({ "plan": after.text, "plan_before": before.as_ref().map(|plan| &plan.text) }),
        );
    }
    match before {
        Some(plan) if !plan.as_meant => error(
            format!("a statement does not go by the index on custid: {}", plan.text),
            "Check the index and the statistics; load again if the index is missing.",
        )
        .with(json!({ "plan": plan.text })),
        Some(_) => Err(Clear),
        None if run.is_bare_device() => Err(Clear), // It finds its blocks by arithmetic.
        None => unknown("the database did not explain its plan"),
    }
}

/// Judges a run without the database's own timing: it has no latency of a single read.
pub(super) fn untimed(run: &Run) -> Judgement {
    let reads = run.details.io.physical_read_blocks.filter(|&blocks| blocks > 0);
    let (why, reads) = run.details.target.io_untimed.as_ref().zip(reads).ok_or(Clear)?;
    info(
        "the database did not time its reads: their latency is unknown, and waits for them are \
         only sampled",
        why,
    )
    .with(json!({ "physical_read_blocks": reads }))
}

pub(super) fn logical_scan(run: &Run) -> Judgement {
    clear_if(run.summary.ops.scan == 0)?;
    let tables = run.details.loaded.iter().map(|schema| schema.scan_rows * schema.block_size);
    // A cache of one session's own is for one schema.
    let (cache, tables) = match run.details.target.session_cache_bytes {
        Some(own) => (Some(own), tables.max().unwrap_or(0)),
        None => (run.summary.target.cache_bytes, tables.sum()),
    };
    let cache = cache.filter(|&cache| tables <= cache).ok_or(Clear)?;
    info(
        format!("scan tables of {} fit in the cache: scans are logical", size(tables)),
        "Load larger scan tables with SCAN_TABLE_SZ for physical scans.",
    )
    .with(json!({ "scan_table_bytes": tables, "cache_bytes": cache }))
}
