//! The work of a whole server for all its users, for a profile: read from its statistics views on a
//! connection that looks and changes nothing.

use super::answer::Columns as _;
use super::connect::{Endpoint, server_version};
use super::load;
use petal_engine::Result;
use petal_record::server_work::{ServerWork, WorkCount, WorkTime};

/// First version that counts sequential scans of tables above a quarter of the cache, which read
/// ahead into a ring.
const BULK_VERSION_MIN: u32 = 160_000;
const IO_BYTES_VERSION_MIN: u32 = 180_000;

const COMMITS: &str = "transaction ids given out (txid_snapshot_xmax)";
const COMMITS_GAP: &str = "transactions that changed nothing have no id; savepoints and PL/pgSQL \
    blocks with EXCEPTION have one each, as do transactions that were rolled back: with these it \
    is more than the commits";

/// All figures as text, so that one statement serves all versions.
const LOOK: &str = "SELECT pg_catalog.current_setting('block_size')::int,
    pg_catalog.version(),
    pg_catalog.concat_ws(' ', pg_catalog.pg_postmaster_start_time(),
        (SELECT pg_catalog.max(stats_reset) FROM pg_catalog.pg_stat_database),
        (SELECT stats_reset FROM pg_catalog.pg_stat_bgwriter)),
    pg_catalog.current_setting('track_io_timing') = 'on',
    pg_catalog.pg_is_in_recovery(),
    pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot()),
    CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL
        ELSE pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint END,
    (SELECT pg_catalog.sum(blks_read)::bigint FROM pg_catalog.pg_stat_database),
    (SELECT (pg_catalog.sum(blk_read_time) * 1000)::bigint FROM pg_catalog.pg_stat_database)";

/// Queries for the begin of counters in views that only some versions have.
const RESETS: [(u32, &str); 3] =
    [(140_000, "pg_stat_wal"), (160_000, "pg_stat_io"), (170_000, "pg_stat_checkpointer")];

const WRITTEN: &str = "SELECT buffers_checkpoint + buffers_clean + buffers_backend \
    FROM pg_catalog.pg_stat_bgwriter";
const IO: &str = "SELECT
    pg_catalog.sum(reads) FILTER (WHERE context NOT IN ('bulkread', 'vacuum'))::bigint,
    pg_catalog.sum(reads) FILTER (WHERE context IN ('bulkread', 'vacuum'))::bigint,
    pg_catalog.sum({bulk_bytes}) FILTER (WHERE context IN ('bulkread', 'vacuum'))::bigint,
    sum({write_bytes})::bigint,
    (pg_catalog.sum(read_time) FILTER (WHERE context NOT IN ('bulkread', 'vacuum')) * 1000)::bigint
    FROM pg_catalog.pg_stat_io WHERE object = 'relation'";
const LOG: &str = "SELECT wal_sync::bigint, (wal_sync_time * 1000)::bigint, \
    pg_catalog.current_setting('track_wal_io_timing') = 'on' FROM pg_catalog.pg_stat_wal";
const LOG_18: &str = "SELECT pg_catalog.sum(fsyncs)::bigint, (pg_catalog.sum(fsync_time) * \
    1000)::bigint, \
    pg_catalog.current_setting('track_wal_io_timing') = 'on' FROM pg_catalog.pg_stat_io WHERE object = 'wal'";

/// The work of one server until now.
pub fn look(endpoint: &Endpoint) -> Result<ServerWork> {
    let doing = "reading the server's counts";
    let mut client = endpoint.connect_to_look("petal profile")?;
    let version = server_version(&mut client)?;
    let row = client.ask_row(doing, LOOK, &[])?;
    let product: String = row.read(1)?;
    let (is_timed, is_standby): (bool, bool) = (row.read(3)?, row.read(4)?);
    let block_bytes = load::sound_block_bytes(row.read(0)?, &endpoint.name)?;
    let mut work = ServerWork {
        endpoint: endpoint.name.clone(),
        product: product.split(" on ").next().unwrap_or(&product).to_owned(),
        block_bytes: Some(block_bytes),
        counted_since: row.read(2)?,
        ..ServerWork::default()
    };
    for (_, view) in RESETS.into_iter().filter(|(from, _)| version >= *from) {
        let sql = format!(
            "SELECT coalesce(pg_catalog.max(stats_reset)::pg_catalog.text, '') FROM pg_catalog.{view}"
        );
        let began: String = client.ask_value(doing, &sql, &[])?;
        work.counted_since.push_str(&format!(" {began}"));
    }
    if is_standby {
        let why = "it is a standby: these are the primary's";
        work.gap(WorkCount::Commits, why);
        work.gap(WorkCount::RedoBytes, why);
    } else {
        work.count(WorkCount::Commits, unsigned(row.read(5)?), COMMITS);
        work.gap(WorkCount::Commits, COMMITS_GAP);
        work.count(WorkCount::RedoBytes, unsigned(row.read(6)?), "pg_current_wal_insert_lsn");
    }
    if version < BULK_VERSION_MIN {
        before_16(&mut work, unsigned(row.read(7)?), unsigned(row.read(8)?).filter(|_| is_timed));
        let row = client.ask_row(doing, WRITTEN, &[])?;
        work.count(WorkCount::BlockWrites, unsigned(row.read(0)?), "pg_stat_bgwriter.buffers_*");
    } else {
        let is_18 = version >= IO_BYTES_VERSION_MIN;
        let (bulk, written) = if is_18 {
            ("read_bytes", format!("(write_bytes + extend_bytes) / {block_bytes}"))
        } else {
            ("reads * op_bytes", "writes + extends".to_owned())
        };
        let sql = IO.replace("{bulk_bytes}", bulk).replace("{write_bytes}", &written);
        let row = client.ask_row(doing, sql.as_str(), &[])?;
        let get = |at: usize| row.read(at).map(unsigned);
        from_16(&mut work, (get(0)?, get(1)?.filter(|_| is_18), get(2)?), block_bytes);
        work.count(WorkCount::BlockWrites, get(3)?, "pg_stat_io, relation: writes and extends");
        let time = get(0)?.zip(get(4)?.filter(|_| is_timed)).map(in_nanoseconds);
        work.time(WorkTime::SingleBlockRead, time, "pg_stat_io.read_time over reads");
    }
    if !is_timed {
        let why = "track_io_timing is off on the server: it times no reads";
        work.time_gap(WorkTime::SingleBlockRead, why);
    }
    if version >= 140_000 {
        let sql = if version >= IO_BYTES_VERSION_MIN { LOG_18 } else { LOG };
        let row = client.ask_row(doing, sql, &[])?;
        let is_log_timed: bool = row.read(2)?;
        let time = unsigned(row.read(0)?).zip(unsigned(row.read(1)?).filter(|_| is_log_timed));
        work.time(WorkTime::LogWrite, time.map(in_nanoseconds), "time over count of WAL syncs");
        if !is_log_timed {
            let why = "track_wal_io_timing is off on the server: it times no syncs of the log";
            work.time_gap(WorkTime::LogWrite, why);
        }
    }
    Ok(work)
}

fn unsigned(value: Option<i64>) -> Option<u64> {
    value.and_then(|value| u64::try_from(value).ok())
}

fn in_nanoseconds((count, micros): (u64, u64)) -> (u64, u64) {
    (count, micros.saturating_mul(1000))
}

/// Counts all reads of blocks by one view, for all processes.
fn before_16(work: &mut ServerWork, reads: Option<u64>, read_us: Option<u64>) {
    work.count(WorkCount::SingleBlockReads, reads, "pg_stat_database.blks_read of all databases");
    work.gap(
        WorkCount::SingleBlockReads,
        "before 16 the server does not separate the blocks of sequential scans: they are in it",
    );
    for figure in [WorkCount::MultiBlockReads, WorkCount::MultiBlockReadBlocks] {
        work.gap(figure, "before 16 they are among the single-block reads");
    }
    let time = reads.zip(read_us).map(in_nanoseconds);
    work.time(WorkTime::SingleBlockRead, time, "pg_stat_database.blk_read_time over blks_read");
}

fn from_16(
    work: &mut ServerWork,
    (single, bulk, bulk_bytes): (Option<u64>, Option<u64>, Option<u64>),
    block_bytes: u32,
) {
    let source = "pg_stat_io, relation: reads of the contexts normal, init and bulkwrite";
    work.count(WorkCount::SingleBlockReads, single, source);
    let source = "pg_stat_io, relation: reads of the contexts bulkread and vacuum";
    work.count(WorkCount::MultiBlockReads, bulk, source);
    let blocks = bulk_bytes.map(|bytes| bytes / u64::from(block_bytes));
    work.count(WorkCount::MultiBlockReadBlocks, blocks, source);
    if bulk.is_none() {
        let why = "before 18 the server counts the blocks of these reads, not their requests";
        work.gap(WorkCount::MultiBlockReads, why);
    }
    work.gap(
        WorkCount::SingleBlockReads,
        "sequential scans of tables under a quarter of shared_buffers are in it",
    );
}
