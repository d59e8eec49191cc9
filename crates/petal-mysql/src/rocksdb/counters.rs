//! RocksDB's counters: its status variables as they are, and the figures that every engine answers for,
//! made from them. They are the whole server's.
//!
//! A look for a block in the block cache is a logical read, one that misses a physical one, be it
//! of data, an index or a filter. The writes of background jobs are known in bytes, not in blocks.

use std::collections::BTreeMap;

use super::super::client::{Client, Error};
use super::super::storage::{StorageCounters, status, without_resets};
use petal_engine::server::reset_watch::ResetWatch;
use petal_model::stats::counters::{CommonCounter, Counters, IoCounts, Wait, WaitClass};
use petal_model::stats::server_work::{ServerWork, WorkCount, WorkTime};

pub const BLOCKS_MISSED: &str = "Rocksdb_block_cache_miss";
pub const READ_EVENT: &str = "RocksDB block read";
const ROW_LOCK_EVENT: &str = "RocksDB row lock";
const STALL_EVENT: &str = "RocksDB write stall";

/// Cumulative status variables.
const STATUS: &str = "\
SHOW GLOBAL STATUS WHERE Variable_name IN (
'Rocksdb_block_cache_hit', 'Rocksdb_block_cache_miss', 'Rocksdb_block_cache_data_hit',
'Rocksdb_block_cache_data_miss', 'Rocksdb_block_cache_index_hit', 'Rocksdb_block_cache_index_miss',
'Rocksdb_block_cache_filter_hit', 'Rocksdb_block_cache_filter_miss', 'Rocksdb_bloom_filter_useful',
'Rocksdb_bloom_filter_full_positive', 'Rocksdb_bloom_filter_full_true_positive',
'Rocksdb_memtable_hit', 'Rocksdb_memtable_miss', 'Rocksdb_get_hit_l0', 'Rocksdb_get_hit_l1',
'Rocksdb_get_hit_l2_and_up', 'Rocksdb_bytes_read', 'Rocksdb_iter_bytes_read',
'Rocksdb_bytes_written', 'Rocksdb_flush_write_bytes', 'Rocksdb_compact_read_bytes',
'Rocksdb_compact_write_bytes', 'Rocksdb_wal_bytes', 'Rocksdb_wal_synced', 'Rocksdb_wal_group_syncs',
'Rocksdb_number_keys_read', 'Rocksdb_number_keys_written', 'Rocksdb_number_db_seek',
'Rocksdb_number_block_not_compressed', 'Rocksdb_stall_micros', 'Rocksdb_stall_total_slowdowns',
'Rocksdb_stall_total_stops', 'Rocksdb_row_lock_wait_timeouts', 'Rocksdb_row_lock_deadlocks',
'Rocksdb_snapshot_conflict_errors', 'Rocksdb_rows_read', 'Rocksdb_rows_updated', 'Handler_commit',
'Handler_update', 'Com_update', 'Com_select', 'Com_call_procedure', 'Binlog_commits',
'Binlog_group_commits', 'Uptime', 'Uptime_since_flush_status')";

/// Work of statements in all sessions whose level was 2 at least; times from level 3 on.
const PERF_CONTEXT: &str = "\
SELECT CONCAT('rocksdb_perf_', LOWER(stat_type)), value
FROM information_schema.rocksdb_perf_context_global WHERE stat_type IN
('BLOCK_READ_COUNT', 'BLOCK_READ_BYTE', 'BLOCK_READ_TIME', 'KEY_LOCK_WAIT_COUNT', 'KEY_LOCK_WAIT_TIME')";
const BLOCK_READ_BYTES: &str = "rocksdb_perf_block_read_byte";
/// Levels of `rocksdb_perf_context_level`.
const COUNTS: u64 = 2;
pub const TIMES: u64 = 3;

const NS_PER_US: u64 = 1000;

pub struct RocksdbCounters;

pub fn perf_context_level(client: &mut Client) -> u64 {
    client.query_one("SELECT @@GLOBAL.rocksdb_perf_context_level").unwrap_or_default()
}

impl StorageCounters for RocksdbCounters {
    fn read(&mut self, client: &mut Client, resets: &mut ResetWatch) -> Result<Counters, Error> {
        let mut raw = status(client, STATUS)?;
        let level = perf_context_level(client);
        if level >= COUNTS {
            raw.extend(client.query::<(String, u64)>(PERF_CONTEXT)?);
        }
        without_resets(&mut raw, [], resets);
        for (counter, from) in [
            (CommonCounter::StatementBytesWritten, "Rocksdb_bytes_written"),
            (CommonCounter::FilesRuledOut, "Rocksdb_bloom_filter_useful"),
            (CommonCounter::RowsInNoBlock, "Rocksdb_memtable_hit"),
        ] {
            let value = raw.get(from).copied();
            raw.extend(value.map(|value| (counter.name().to_owned(), value)));
        }
        let (io, waits) = (io_counts(&raw), waits(&raw, level >= TIMES));
        Ok(Counters { io, waits, raw, ..Counters::default() })
    }
}

fn io_counts(raw: &BTreeMap<String, u64>) -> IoCounts {
    let get = |name: &str| raw.get(name).copied();
    let sum = |one: &str, other: &str| get(one).zip(get(other)).map(|(one, other)| one + other);
    IoCounts {
        logical_reads: sum("Rocksdb_block_cache_hit", BLOCKS_MISSED),
        physical_read_blocks: get(BLOCKS_MISSED),
        physical_read_requests: get(BLOCKS_MISSED),
        physical_read_bytes: get(BLOCK_READ_BYTES),
        physical_write_blocks: None,
        physical_write_requests: None,
        physical_write_bytes: sum("Rocksdb_flush_write_bytes", "Rocksdb_compact_write_bytes"),
        log_read_blocks: None,
        redo_bytes: get("Rocksdb_wal_bytes"),
        commits: get("Handler_commit"),
        log_syncs: get("Rocksdb_wal_synced"),
    }
}

fn waits(raw: &BTreeMap<String, u64>, is_timed: bool) -> Vec<Wait> {
    let get = |name: &str| raw.get(name).copied();
    let timed = |name: &str, class, count: &str, time: &str| {
        let both = get(count).zip(get(time)).filter(|_| is_timed);
        both.map(|(count, time_ns)| Wait::counted(name, class, Some(count), time_ns))
    };
    let read = timed(
        READ_EVENT,
        WaitClass::UserIo,
        "rocksdb_perf_block_read_count",
        "rocksdb_perf_block_read_time",
    );
    let lock = timed(
        ROW_LOCK_EVENT,
        WaitClass::Application,
        "rocksdb_perf_key_lock_wait_count",
        "rocksdb_perf_key_lock_wait_time",
    );
    let stalls = get("Rocksdb_stall_total_slowdowns").zip(get("Rocksdb_stall_total_stops"));
    let stall = stalls.zip(get("Rocksdb_stall_micros")).map(|((slow, stopped), time_us)| {
        let time_ns = time_us * NS_PER_US;
        Wait::counted(STALL_EVENT, WaitClass::Configuration, Some(slow + stopped), time_ns)
    });
    [read, lock, stall].into_iter().flatten().collect()
}

/// Work of a whole server, for a profile.
pub fn server_work(counters: &Counters) -> ServerWork {
    let mut work = ServerWork {
        endpoint: counters.endpoint.clone(),
        product: "MyRocks".to_owned(),
        ..ServerWork::default()
    };
    work.count(WorkCount::SingleBlockReads, counters.io.physical_read_blocks, BLOCKS_MISSED);
    work.gap(WorkCount::MultiBlockReads, "RocksDB does not count blocks that it reads ahead");
    work.gap(WorkCount::BlockWrites, "RocksDB writes files, whose blocks it does not count");
    work.count(WorkCount::Commits, counters.io.commits, "Handler_commit");
    work.gap(WorkCount::Commits, "transactions that only read are in it");
    work.count(WorkCount::RedoBytes, counters.io.redo_bytes, "Rocksdb_wal_bytes");
    let read = counters.count_and_time(READ_EVENT);
    work.time(WorkTime::SingleBlockRead, read, "rocksdb_perf_context_global: time over count");
    if read.is_none() {
        work.time_gap(WorkTime::SingleBlockRead, "rocksdb_perf_context_level is below 3");
    }
    work
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_reads_and_what_no_counter_has_is_unknown() {
        let raw = |names: &[(&str, u64)]| {
            let pairs = names.iter().map(|(name, value)| ((*name).to_owned(), *value));
            pairs.collect::<BTreeMap<_, _>>()
        };
        let mut counts = raw(&[
            ("Rocksdb_block_cache_hit", 30),
            (BLOCKS_MISSED, 10),
            ("Rocksdb_flush_write_bytes", 500),
            ("Rocksdb_compact_write_bytes", 1500),
            ("Rocksdb_wal_bytes", 400),
        ]);
        let io = io_counts(&counts);
        assert_eq!((io.logical_reads, io.physical_read_blocks), (Some(40), Some(10)));
        assert_eq!((io.physical_write_bytes, io.redo_bytes), (Some(2000), Some(400)));
        assert_eq!((io.physical_read_bytes, io.physical_write_blocks), (None, None));
        counts.insert(BLOCK_READ_BYTES.to_owned(), 41000);
        assert_eq!(io_counts(&counts).physical_read_bytes, Some(41000));
    }

    #[test]
    fn times_are_known_from_their_level_on() {
        let raw = BTreeMap::from([
            ("rocksdb_perf_block_read_count".to_owned(), 5),
            ("rocksdb_perf_block_read_time".to_owned(), 900),
            ("Rocksdb_stall_total_slowdowns".to_owned(), 1),
            ("Rocksdb_stall_total_stops".to_owned(), 2),
            ("Rocksdb_stall_micros".to_owned(), 7),
        ]);
        let of = |is_timed| {
            let all = waits(&raw, is_timed).into_iter();
            all.map(|wait| (wait.name, wait.waits, wait.time_ns)).collect::<Vec<_>>()
        };
        let stall = (STALL_EVENT.to_owned(), Some(3), 7000);
        assert_eq!(of(false).first(), Some(&stall));
        assert_eq!(of(true), [(READ_EVENT.to_owned(), Some(5), 900), stall]);
        let work = server_work(&Counters { raw, ..Counters::default() });
        assert!(work.gaps["single_block_read_us"].contains("rocksdb_perf_context_level"));
    }
}
