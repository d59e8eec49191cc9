//! MyRocks: rows in a log-structured merge tree. Nothing is changed in its place: an UPDATE writes a new
//! version of the whole row, files are merged in the background, and a row is looked for in memory, then
//! level by level.
//!
//! A data block is closed before it would become larger than `rocksdb_block_size`. petal's rows are
//! that long, so each version of a row is a separate data block.
//!
//! - `placement`: the proof of that
//! - `counters`: the server's reports

mod counters;
mod placement;

use super::client::{Client, Error};
use super::row_group::RowGroup;
use super::settling::Settling;
use super::storage::{ServerSettings, StorageCounters, StorageEngine, StorageTexts, direct_io};
pub use counters::{BLOCKS_MISSED, server_work};
use counters::{READ_EVENT, RocksdbCounters, TIMES, perf_context_level};
use petal_engine::{EngineError, Placement, Result};
use petal_model::stats::target::{Advice, Durability, IoEvents, NotableSetting, TargetDetails};
use petal_model::workload::row::COLUMNS;

/// The column family of petal's rows.
const FAMILY: &str = "petal_main";
/// Block sizes in which a row is one block and no column too long.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 4096..=32768;

static TEXTS: StorageTexts = StorageTexts {
    name: "rocksdb",
    cache_setting: "rocksdb_block_cache_size",
    block_setting: ("rocksdb_block_size", "which is fixed when it starts"),
    tables_sql: include_str!("tables.sql"),
    index_in_place: "ALGORITHM=INPLACE",
    proof_view: "information_schema.rocksdb_sst_props",
    proof_grant: "GRANT PROCESS, SUPER ON *.* TO the user",
    placement_hint: "somebody deleted rows of petal's (SET GLOBAL \
                     rocksdb_compact_cf='petal_main' removes their marks), or \
                     rocksdb_override_cf_options gives the column family petal_main another block \
                     size than rocksdb_block_size",
    flush_grant: "GRANT SUPER ON *.* TO the user",
    untimed: "SET GLOBAL rocksdb_perf_context_level = 3 before the run: the server then counts and \
              times the blocks that statements read.",
    settings: &[
        "rocksdb_block_size",
        "rocksdb_block_cache_size",
        "rocksdb_cache_index_and_filter_blocks",
        "rocksdb_default_cf_options",
        "rocksdb_override_cf_options",
        "rocksdb_flush_log_at_trx_commit",
        "rocksdb_write_disable_wal",
        "rocksdb_use_direct_reads",
        "rocksdb_use_direct_io_for_flush_and_compaction",
        "rocksdb_use_fsync",
        "rocksdb_wal_bytes_per_sync",
        "rocksdb_bytes_per_sync",
        "rocksdb_max_total_wal_size",
        "rocksdb_db_write_buffer_size",
        "rocksdb_max_background_jobs",
        "rocksdb_max_subcompactions",
        "rocksdb_rate_limiter_bytes_per_sec",
        "rocksdb_max_open_files",
        "rocksdb_skip_bloom_filter_on_read",
        "rocksdb_perf_context_level",
        "rocksdb_lock_wait_timeout",
        "rocksdb_deadlock_detect",
    ],
};

pub struct Rocksdb;

impl StorageEngine for Rocksdb {
    fn texts(&self) -> &'static StorageTexts {
        &TEXTS
    }

    fn row_group(&self, block_bytes: u32) -> Result<RowGroup> {
        if !BLOCK_BYTES.contains(&block_bytes) {
            return Err(EngineError::Setting(format!(
                "rocksdb_block_size={block_bytes}: petal's rows are one data block each from {} to \
                 {} bytes; start the server with a block size between",
                BLOCK_BYTES.start(),
                BLOCK_BYTES.end()
            )));
        }
        let alone = RowGroup::of_row(block_bytes);
        Ok(RowGroup { padding: block_bytes - alone.column * COLUMNS as u32, ..alone })
    }

    fn placement(&self, client: &mut Client, name: &str) -> Result<Placement> {
        placement::count(client, name)
    }

    fn table_bytes(&self, reported: u64, rows_bytes: u64) -> u64 {
        // The server reports the compressed size; blocks are cached uncompressed.
        reported.max(rows_bytes)
    }

    fn settle(&self, settling: &Settling<'_>, client: &mut Client) -> Result<Vec<String>> {
        let flushed = settling.until_over(client, "flushing memtables", placement::flush);
        settling.progress.advance(1);
        let mut done = vec![match flushed {
            Ok(()) => "memtables flushed".to_owned(),
            Err(EngineError::Environment(why)) => format!("memtables not flushed: {why}"),
            Err(error) => return Err(error),
        }];
        let mut compaction = placement::Compaction::default();
        let is_over = settling.wait_until(|| compaction.is_over(client))?;
        settling.progress.advance(settling.schemas.len() as u64);
        done.push(match is_over {
            true => "compaction over".to_owned(),
            false => "compaction still at work: the run has its reads and writes".to_owned(),
        });
        Ok(done)
    }

    fn flush(&self, client: &mut Client, _: u32) -> Result<(), Error> {
        placement::flush(client)
    }

    fn counters(&self, _: &mut Client) -> Result<Box<dyn StorageCounters>, Error> {
        Ok(Box::new(RocksdbCounters))
    }

    fn more_settings(&self, client: &mut Client) -> Vec<(String, String)> {
        let options = format!(
            "SELECT LOWER(REPLACE(option_type, 'TABLE_FACTORY::', '')), value \
             FROM information_schema.rocksdb_cf_options WHERE cf_name = '{FAMILY}' AND option_type \
             IN ('COMPRESSION_TYPE', 'BOTTOMMOST_COMPRESSION', 'WRITE_BUFFER_SIZE', \
             'TABLE_FACTORY::BLOCK_SIZE', 'TABLE_FACTORY::FILTER_POLICY')"
        );
        let levels = format!(
            "SELECT level, value FROM information_schema.rocksdb_compaction_stats \
             WHERE cf_name = '{FAMILY}' AND type = 'NumFiles' AND level <> 'Sum' ORDER BY level"
        );
        let named = |(name, value)| (format!("{FAMILY} {name}"), value);
        let options: Vec<(String, String)> = client.query(&options).unwrap_or_default();
        let levels: Vec<(String, f64)> = client.query(&levels).unwrap_or_default();
        let files = levels.iter().map(|(level, files)| format!("{level}: {files}"));
        let files = files.collect::<Vec<_>>().join(", ");
        let files = (!files.is_empty()).then(|| ("files by level".to_owned(), files));
        options.into_iter().chain(files).map(named).collect()
    }

    fn facts(&self, settings: &ServerSettings) -> TargetDetails {
        let get = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
        let synced = get("rocksdb_flush_log_at_trx_commit") == "1";
        let set = |name: &str| format!("{name}={}", get(name));
        TargetDetails {
            direct_io: direct_io(get("rocksdb_use_direct_reads") == "ON"),
            durability: Some(Durability {
                durable: synced && get("rocksdb_write_disable_wal") != "ON",
                setting: [
                    "rocksdb_flush_log_at_trx_commit",
                    "rocksdb_write_disable_wal",
                    "log_bin",
                    "sync_binlog",
                ]
                .map(set)
                .join(", "),
            }),
            io_events: IoEvents {
                read: READ_EVENT.to_owned(),
                write: String::new(),
                log: String::new(),
                timed_by: "the server (rocksdb_perf_context_level)".to_owned(),
            },
            checkpoint: Some(format!(
                "none: memtables are flushed and files compacted in the background; {}",
                set("rocksdb_max_background_jobs")
            )),
            notable_settings: notable_settings(settings),
            advice: advice(),
            ..TargetDetails::default()
        }
    }

    fn is_timed(&self, client: &mut Client) -> bool {
        perf_context_level(client) >= TIMES
    }
}

fn notable_settings(settings: &ServerSettings) -> Vec<NotableSetting> {
    let get = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
    let option = |name: &str| get(&format!("{FAMILY} {name}")).to_owned();
    let mut notable = Vec::new();
    let mut note = |effect: String, advice: &str| {
        notable.push(NotableSetting { effect, advice: advice.to_owned(), of_updates: false });
    };
    let compression = option("compression_type");
    if !["", "kNoCompression"].contains(&compression.as_str()) {
        note(
            format!(
                "compression={compression} of the column family {FAMILY}: blocks are read and \
                 written smaller than they are, by how much the text of the rows decides"
            ),
            "Load rows of random text (FILLER), or start the server with \
             rocksdb_default_cf_options='compression=kNoCompression' before the load.",
        );
    }
    if option("filter_policy") == "nullptr" {
        note(
            format!(
                "the column family {FAMILY} has no bloom filters: each file whose keys enclose a \
                 row's is asked for the row, a block each"
            ),
            "Start the server with filter_policy=bloomfilter:10:false in the \
             block_based_table_factory of rocksdb_default_cf_options, and load again.",
        );
    }
    if get("rocksdb_use_direct_reads") == "OFF" {
        note(
            "rocksdb_use_direct_reads=OFF: blocks are read through the page cache of the operating \
             system"
                .to_owned(),
            "Start the server with rocksdb_use_direct_reads=ON and \
             rocksdb_use_direct_io_for_flush_and_compaction=ON.",
        );
    }
    notable
}

fn advice() -> Advice {
    let some = |text: &str| Some(text.to_owned());
    Advice {
        keep_cached: some(
            "Make rocksdb_block_cache_size larger than the data, and read them once before the run \
             (WARM_UP).",
        ),
        write_faster: some(
            "Raise rocksdb_max_background_jobs, or make memtables larger (write_buffer_size in \
             rocksdb_default_cf_options).",
        ),
        find_others: some("Repeat it alone on the server; SHOW PROCESSLIST lists the others."),
        ..Advice::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_as_long_as_a_block_in_every_size_that_is_loaded() {
        for block_bytes in [4096, 8192, 16384, 32768] {
            let group = Rocksdb.row_group(block_bytes).unwrap();
            assert_eq!(group.column * COLUMNS as u32 + group.padding, block_bytes);
            assert_eq!(group.fillers, 0);
        }
        let refused = Rocksdb.row_group(65536).unwrap_err().to_string();
        assert!(refused.contains("rocksdb_block_size=65536"), "{refused}");
    }

    #[test]
    fn only_facts_that_shape_a_result_are_reported() {
        let settings = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            pairs.collect::<ServerSettings>()
        };
        let plain = settings(&[
            ("petal_main compression_type", "kNoCompression"),
            ("petal_main filter_policy", "rocksdb.BuiltinBloomFilter"),
            ("rocksdb_use_direct_reads", "ON"),
            ("rocksdb_flush_log_at_trx_commit", "1"),
        ]);
        assert_eq!(notable_settings(&plain), []);
        let is_durable = |settings| Rocksdb.facts(settings).durability.unwrap().durable;
        assert!(is_durable(&plain));
        let usual = settings(&[
            ("petal_main compression_type", "kSnappyCompression"),
            ("petal_main filter_policy", "nullptr"),
            ("rocksdb_use_direct_reads", "OFF"),
            ("rocksdb_flush_log_at_trx_commit", "2"),
        ]);
        assert_eq!(notable_settings(&usual).len(), 3);
        assert!(!is_durable(&usual) && Rocksdb.facts(&usual).direct_io.is_none());
        let no_log =
            [("rocksdb_write_disable_wal", "ON"), ("rocksdb_flush_log_at_trx_commit", "1")];
        assert!(!is_durable(&settings(&no_log)));
    }
}
