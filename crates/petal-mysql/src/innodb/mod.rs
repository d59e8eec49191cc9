//! InnoDB: pages of one size with exactly one row in each, a redo log. Pages are written twice
//! (doublewrite), in small steps of the server's own choice.
//!
//! - `page_layout`, `placement`: how each page gets one row, and its proof
//! - `counters`, `advice`: the server's reports; `settle`: the server's pending work, done before a
//!   run

mod advice;
pub mod counters;
mod page_layout;
mod placement;
mod settle;

use super::client::{Client, Error};
use super::row_group::RowGroup;
use super::settling::Settling;
use super::storage::{ServerSettings, StorageCounters, StorageEngine, StorageTexts, direct_io};
use counters::{InnodbCounters, LOG_EVENT, READ_EVENT, is_timed};
use std::path::{Path, PathBuf};

use petal_engine::{EngineError, Placement, Result};
use petal_model::stats::target::{Durability, IoEvents, TargetDetails};

static TEXTS: StorageTexts = StorageTexts {
    name: "innodb",
    cache_setting: "innodb_buffer_pool_size",
    block_setting: ("innodb_page_size", "which is fixed when its data directory is made"),
    tables_sql: include_str!("tables.sql"),
    index_in_place: "ALGORITHM=INPLACE, LOCK=NONE",
    proof_view: "mysql.innodb_index_stats",
    proof_grant: "GRANT SELECT ON mysql.innodb_index_stats TO the user",
    placement_hint: "please report this with the server's version and innodb_page_size",
    flush_grant: "GRANT RELOAD ON *.*, LOCK TABLES ON the database TO the user",
    untimed: "Start the server with performance_schema=ON and room for all accounts \
              (Performance_schema_accounts_lost is 0). Let petal's user read it (GRANT SELECT ON \
              performance_schema.* TO the user).",
    settings: &[
        "innodb_page_size",
        "innodb_buffer_pool_size",
        "innodb_buffer_pool_instances",
        "innodb_flush_log_at_trx_commit",
        "innodb_flush_method",
        "innodb_doublewrite",
        "innodb_log_file_size",
        "innodb_log_files_in_group",
        "innodb_redo_log_capacity",
        "innodb_log_buffer_size",
        "innodb_io_capacity",
        "innodb_io_capacity_max",
        "innodb_flush_neighbors",
        "innodb_adaptive_flushing",
        "innodb_max_dirty_pages_pct",
        "innodb_lru_scan_depth",
        "innodb_adaptive_hash_index",
        "innodb_change_buffering",
        "innodb_random_read_ahead",
        "innodb_read_ahead_threshold",
        "innodb_read_io_threads",
        "innodb_write_io_threads",
        "innodb_use_native_aio",
        "innodb_purge_threads",
        "innodb_checksum_algorithm",
        "innodb_lock_wait_timeout",
    ],
};

pub struct Innodb;

impl StorageEngine for Innodb {
    fn texts(&self) -> &'static StorageTexts {
        &TEXTS
    }

    fn row_group(&self, block_bytes: u32) -> Result<RowGroup> {
        if !page_layout::PAGE_BYTES.contains(&block_bytes) {
            let why = format!("innodb_page_size is {block_bytes}, which InnoDB does not have");
            return Err(EngineError::Data(why));
        }
        Ok(page_layout::row_group(block_bytes))
    }

    fn placement(&self, client: &mut Client, name: &str) -> Result<Placement> {
        placement::count(client, name)
    }

    fn main_bytes(&self, client: &mut Client, name: &str) -> Result<Option<u64>> {
        placement::main_bytes(client, name)
    }

    fn settle(&self, settling: &Settling<'_>, client: &mut Client) -> Result<Vec<String>> {
        settle::settle(settling, client)
    }

    fn flush(&self, client: &mut Client, schema: u32) -> Result<(), Error> {
        settle::flush(client, schema)
    }

    fn counters(&self, client: &mut Client) -> Result<Box<dyn StorageCounters>, Error> {
        Ok(Box::new(InnodbCounters::new(client)?))
    }

    fn facts(&self, settings: &ServerSettings) -> TargetDetails {
        let get = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
        TargetDetails {
            direct_io: direct_io(get("innodb_flush_method").starts_with("O_DIRECT")),
            durability: Some(Durability {
                durable: get("innodb_flush_log_at_trx_commit") == "1",
                setting: format!(
                    "innodb_flush_log_at_trx_commit={}, innodb_doublewrite={}, log_bin={}, \
                     sync_binlog={}",
                    get("innodb_flush_log_at_trx_commit"),
                    get("innodb_doublewrite"),
                    get("log_bin"),
                    get("sync_binlog")
                ),
            }),
            io_events: IoEvents {
                read: READ_EVENT.to_owned(),
                write: String::new(),
                log: LOG_EVENT.to_owned(),
                timed_by: "the server (performance_schema)".to_owned(),
            },
            checkpoint: Some(format!(
                "by the server, in small steps; a cycle is over when all pages are written that \
                 were changed before it; innodb_io_capacity={}",
                get("innodb_io_capacity")
            )),
            notable_settings: advice::notable_settings(settings),
            advice: advice::advice(),
            log_files: log_files(get("datadir"), get("innodb_log_group_home_dir")),
            ..TargetDetails::default()
        }
    }

    fn is_timed(&self, client: &mut Client) -> bool {
        is_timed(client)
    }
}
/// Files of the redo log, or since MySQL 8.0.30 their folder.
fn log_files(data: &str, log: &str) -> Vec<PathBuf> {
    let folder = Path::new(data).join(log);
    let named = ["ib_logfile0", "ib_logfile1", "#innodb_redo"].map(|name| folder.join(name));
    named.into_iter().filter(|path| path.exists()).collect()
}
