//! The description of the target before a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::client::Client;
use super::connect::Endpoint;
use super::counters::{LOG_EVENT, READ_EVENT, WRITE_EVENT, is_timed};
use super::errors::engine_error;
use super::session::SESSION_SETTINGS;
use super::session_server::CLOCK_RESOLUTION_NS;
use super::work::Shared;
use super::{advice, plan, servers};
use crate::engine::server::meta_table::SchemaMeta;
use crate::engine::{EngineError, Result};
use crate::settings::LoopSide;
use crate::stats::compression;
use crate::stats::target::{DirectIo, Durability, IoEvents, Target, TargetDetails};

/// Settings of the server that decide durability, I/O and what is measured.
const SETTINGS: [&str; 36] = [
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
    "log_bin",
    "sync_binlog",
    "binlog_format",
    "binlog_row_image",
    "max_connections",
    "performance_schema",
    "optimizer_switch",
    "wsrep_on",
    "wsrep_slave_threads",
    "version_comment",
];

const UNTIMED: &str = "Start the server with performance_schema=ON, and let petal's user read it \
     (GRANT SELECT ON performance_schema.* TO the user).";

/// Of the first of `metas`, which must be those of the run.
pub fn describe(
    shared: &Shared,
    endpoint: &Endpoint,
    metas: &[SchemaMeta],
) -> Result<(Target, TargetDetails)> {
    let server = endpoint.name.as_str();
    let Some(first) = metas.first() else {
        return Err(EngineError::Data(format!(
            "{server}: no petal schema is loaded there; load one (petal setup) or name the \
             database that has some"
        )));
    };
    let mut client = endpoint.connect()?;
    client
        .run(SESSION_SETTINGS)
        .map_err(|error| engine_error(server, "setting up a session", &error))?;
    let settings = settings(&mut client, server)?;
    let get = |name: &str| settings.get(name).cloned().unwrap_or_default();
    let version = get("version");
    let target = Target {
        product: if version.contains("MariaDB") { "MariaDB" } else { "MySQL" }.to_owned(),
        version,
        block_size: first.block_bytes.into(),
        cache_bytes: get("innodb_buffer_pool_size").parse().ok(),
        url: shared.url.clone(),
    };
    let (data_files, host_unseen) = match endpoint.address.is_on_this_host() {
        true => {
            let files = data_files(&settings);
            let unseen = files.is_empty().then(|| {
                format!(
                    "the database's address is this host's, but its folder {} is not there, as in \
                     a container",
                    get("datadir")
                )
            });
            (files, unseen)
        }
        false => (Vec::new(), None),
    };
    let passes_page_cache = get("innodb_flush_method").starts_with("O_DIRECT");
    let details = TargetDetails {
        local: !data_files.is_empty() && servers::processes(endpoint).is_some(),
        host_unseen,
        io_untimed: (!is_timed(&mut client)).then(|| UNTIMED.to_owned()),
        in_process: false,
        session_cache_bytes: None,
        settings: listed(shared, first, &settings),
        data_files,
        clock_resolution_ns: match shared.loop_side {
            LoopSide::Client => 1,
            _ => CLOCK_RESOLUTION_NS,
        },
        plan: Some(plan::check(&mut client, server, first.schema, shared.loop_side)?),
        compression_ratio: compression::ratio(&compression::sampled(
            (first.schema, first.rows),
            first.filler,
            first.block_bytes as usize,
            first.column_bytes(),
        )),
        direct_io: passes_page_cache.then_some(DirectIo { asked: true, used: true, reason: None }),
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
            write: WRITE_EVENT.to_owned(),
            log: LOG_EVENT.to_owned(),
            timed_by: "the server (performance_schema)".to_owned(),
        },
        sync_per_commit: false,
        data_file_kind: None,
        notable_settings: advice::notable_settings(&settings),
        advice: advice::advice(),
        checkpoint: Some(format!(
            "by the server, in small steps; a cycle is over when all pages are written that were \
             changed before it; innodb_io_capacity={}",
            get("innodb_io_capacity")
        )),
    };
    Ok((target, details))
}

fn settings(client: &mut Client, server: &str) -> Result<BTreeMap<String, String>> {
    let more = ["version", "datadir", "innodb_log_group_home_dir", "innodb_data_home_dir"];
    let names: Vec<String> = SETTINGS.iter().chain(&more).map(|name| format!("'{name}'")).collect();
    let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", names.join(", "));
    let rows: Vec<(String, String)> = client
        .query(&sql)
        .map_err(|error| engine_error(server, "asking for its settings", &error))?;
    Ok(rows.into_iter().collect())
}

fn listed(
    shared: &Shared,
    meta: &SchemaMeta,
    settings: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let mut listed: Vec<(String, String)> = SETTINGS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), settings.get(*name)?.clone())))
        .collect();
    let isolation = "READ-COMMITTED (set by petal)";
    listed.push(("transaction_isolation".to_owned(), isolation.to_owned()));
    let side = match shared.loop_side {
        LoopSide::Server => "server: a stored procedure, one execution per operation",
        LoopSide::Client => "client: one prepared statement per operation",
        LoopSide::Set => "set: one statement for many SELECTs",
    };
    listed.push(("loop".to_owned(), side.to_owned()));
    listed.push(("filler".to_owned(), meta.filler.name()));
    listed
}

/// Folders of data and log where they can be seen from here; empty where they cannot.
fn data_files(settings: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let Some(data) = settings.get("datadir").map(Path::new).filter(|data| data.is_dir()) else {
        return Vec::new();
    };
    let mut folders = vec![data.to_owned()];
    for name in ["innodb_log_group_home_dir", "innodb_data_home_dir"] {
        let Some(folder) = settings.get(name).filter(|folder| !folder.is_empty()) else { continue };
        let folder = std::fs::canonicalize(data.join(folder));
        folders.extend(folder.into_iter().filter(|folder| !folder.starts_with(data)));
    }
    folders
}
