//! InnoDB: pages of one size with exactly one row in each, a redo log. Pages are written twice
//! (doublewrite), in small steps of the server's own choice.
//!
//! - `page_layout`, `placement`: how one row comes to lie in each page, and its proof
//! - `counters`, `advice`: what the server reports; `settle`: what is paid before a run

mod advice;
pub mod counters;
mod page_layout;
mod placement;
mod settle;

use super::before_run::Settling;
use super::client::{Client, Error};
use super::row_group::RowGroup;
use super::storage::{ServerSettings, StorageCounters, StorageEngine, StorageFacts};
use crate::engine::{Placement, Result};
use crate::stats::target::{Durability, IoEvents, Privilege};
use counters::{InnodbCounters, LOG_EVENT, READ_EVENT, WRITE_EVENT, is_timed};

const SETTINGS: [&str; 26] = [
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
];

const UNTIMED: &str = "Start the server with performance_schema=ON, and let petal's user read it \
     (GRANT SELECT ON performance_schema.* TO the user).";

pub struct Innodb;

impl StorageEngine for Innodb {
    fn name(&self) -> &'static str {
        "innodb"
    }

    fn block_setting(&self) -> (&'static str, &'static str) {
        ("innodb_page_size", "which is fixed when its data directory is made")
    }

    fn row_group(&self, block_bytes: u32) -> Result<RowGroup> {
        Ok(page_layout::row_group(block_bytes))
    }

    fn tables_sql(&self) -> &'static str {
        include_str!("tables.sql")
    }

    fn index_in_place(&self) -> &'static str {
        "ALGORITHM=INPLACE, LOCK=NONE"
    }

    fn placement(&self, client: &mut Client, server: &str, name: &str) -> Result<Placement> {
        placement::count(client, server, name)
    }

    fn placement_hint(&self) -> &'static str {
        "please report this with the server's version and innodb_page_size"
    }

    fn main_bytes(&self, client: &mut Client, server: &str, name: &str) -> Result<Option<u64>> {
        placement::main_bytes(client, server, name).map(Some)
    }

    fn table_bytes(&self, told: u64, _: u64) -> u64 {
        told
    }

    fn settle(
        &self,
        settling: &Settling<'_>,
        client: &mut Client,
        schemas: &[u32],
    ) -> Result<Vec<String>> {
        settle::settle(settling, client, schemas)
    }

    fn privileges(&self, client: &mut Client, first: Option<u32>) -> Vec<Privilege> {
        let statistics = "SELECT 1 FROM mysql.innodb_index_stats LIMIT 1";
        let mut privileges = vec![Privilege {
            what: "page statistics".to_owned(),
            is_granted: client.query::<i64>(statistics).is_ok(),
            without: "A load cannot be proved, so the user cannot load here.".to_owned(),
            advice: "GRANT SELECT ON mysql.innodb_index_stats TO the user".to_owned(),
        }];
        privileges.push(match first {
            None => Privilege {
                what: "I/O timing".to_owned(),
                is_granted: is_timed(client),
                without: "The latency of a single-block read is then unknown.".to_owned(),
                advice: "start the server with performance_schema=ON; GRANT SELECT ON \
                         performance_schema.* TO the user"
                    .to_owned(),
            },
            Some(first) => Privilege {
                what: "flush".to_owned(),
                is_granted: settle::flush(client, first).is_ok(),
                without: "Dirty pages of a run are then written in the next one, within its \
                          figures."
                    .to_owned(),
                advice: "GRANT RELOAD ON *.*, LOCK TABLES ON the database TO the user".to_owned(),
            },
        });
        privileges
    }

    fn counters(&self, client: &mut Client) -> Result<Box<dyn StorageCounters>, Error> {
        Ok(Box::new(InnodbCounters::new(client)?))
    }

    fn settings(&self) -> &'static [&'static str] {
        &SETTINGS
    }

    fn more_settings(&self, _: &mut Client) -> Vec<(String, String)> {
        Vec::new()
    }

    fn facts(&self, settings: &ServerSettings) -> StorageFacts {
        let get = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
        StorageFacts {
            cache_bytes: get("innodb_buffer_pool_size").parse().ok(),
            passes_page_cache: get("innodb_flush_method").starts_with("O_DIRECT"),
            durability: Durability {
                durable: get("innodb_flush_log_at_trx_commit") == "1",
                setting: format!(
                    "innodb_flush_log_at_trx_commit={}, innodb_doublewrite={}, log_bin={}, \
                     sync_binlog={}",
                    get("innodb_flush_log_at_trx_commit"),
                    get("innodb_doublewrite"),
                    get("log_bin"),
                    get("sync_binlog")
                ),
            },
            io_events: IoEvents {
                read: READ_EVENT.to_owned(),
                write: WRITE_EVENT.to_owned(),
                log: LOG_EVENT.to_owned(),
                timed_by: "the server (performance_schema)".to_owned(),
            },
            checkpoint: format!(
                "by the server, in small steps; a cycle is over when all pages are written that \
                 were changed before it; innodb_io_capacity={}",
                get("innodb_io_capacity")
            ),
            notable_settings: advice::notable_settings(settings),
            advice: advice::advice(),
        }
    }

    fn untimed(&self, client: &mut Client) -> Option<&'static str> {
        (!is_timed(client)).then_some(UNTIMED)
    }
}
