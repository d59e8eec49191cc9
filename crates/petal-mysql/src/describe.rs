//! The description of the target before a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::client::Client;
use super::connect::Endpoint;
use super::errors::AtServer as _;
use super::figures::{LOG_EVENT, READ_EVENT};
use super::server_counters::{UNTIMED, is_timed};
use super::session::SESSION_SETTINGS;
use super::this_host::LocalMysql;
use super::work::Shared;
use super::{advice, plan};
use petal_engine::Result;
use petal_engine::server::batch_loop::clock_resolution_ns;
use petal_engine::server::failure::none_loaded;
use petal_engine::server::meta_table::SchemaMeta;
use petal_engine::server::own_files;
use petal_record::target::{DirectIo, Durability, IoEvents, Target, TargetDetails};
use petal_settings::LoopSide;

/// The server's settings by name.
pub type ServerSettings = BTreeMap<String, String>;

/// Settings of the server that decide durability, I/O and the figures.
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
    SWITCHES,
    "wsrep_on",
    "wsrep_slave_threads",
    "version_comment",
];

/// The optimizer's many switches in one setting.
const SWITCHES: &str = "optimizer_switch";

/// Whether SELECTs may be answered from results of earlier ones. Not every server has such a cache.
const QUERY_CACHE: &str = "query_cache_type";

/// Settings that name folders which may be elsewhere than `datadir`.
const FOLDERS: [&str; 2] = ["innodb_log_group_home_dir", "innodb_data_home_dir"];

/// Describes the target by the first of `metas`, which must belong to the run's schemas.
pub fn describe(
    shared: &Shared,
    endpoint: &Endpoint,
    metas: &[SchemaMeta],
) -> Result<(Target, TargetDetails)> {
    let none = || none_loaded(&endpoint.name, " or name the database that has some");
    let first = metas.first().ok_or_else(none)?;
    let mut client = endpoint.connect()?;
    client.send("setting up a session", SESSION_SETTINGS)?;
    let settings = settings(&mut client)?;
    let get = |name: &str| settings.get(name).cloned().unwrap_or_default();
    let version = get("version");
    let target = Target {
        product: product(&version).to_owned(),
        version,
        block_size: first.block_bytes.into(),
        cache_bytes: get("innodb_buffer_pool_size").parse().ok(),
        url: shared.url.clone(),
    };
    let mut host_unseen = None;
    let here = LocalMysql::find(endpoint, &mut client).and_then(|here| {
        let found = here.and_then(|server| {
            let mut file = |meta: &SchemaMeta| server.main_file(&mut client, meta.schema);
            let files = metas.iter().map(&mut file).collect::<Result<BTreeSet<_>, _>>()?;
            Ok((server, files))
        });
        found.map_err(|why| host_unseen = Some(own_files::unseen(&why))).ok()
    });
    let (here, files) = here.unzip();
    let server_files = here.as_ref().map(|server| server_files(server, &settings));
    let details = TargetDetails {
        local: here.is_some(),
        host_unseen,
        io_untimed: (!is_timed(&mut client)).then(|| UNTIMED.to_owned()),
        settings: listed(shared, first, &settings),
        data_files: files.map(folders).unwrap_or_default(),
        server_files: server_files.unwrap_or_default(),
        log_files: here.map(|server| log_files(&server, &settings)).unwrap_or_default(),
        clock_resolution_ns: clock_resolution_ns(shared.loop_side),
        plan: plan::check(&mut client, metas.iter().map(|meta| meta.schema))
            .at(&client.server, "explaining the SELECT")?,
        compression_ratio: first.compression_ratio(first.column_bytes()),
        ..facts(&settings)
    };
    Ok((target, details))
}

/// Facts that the server's settings decide.
fn facts(settings: &ServerSettings) -> TargetDetails {
    let get = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
    TargetDetails {
        direct_io: get("innodb_flush_method").starts_with("O_DIRECT").then_some(DirectIo {
            asked: true,
            used: true,
            reason: None,
        }),
        durability: Some(durability(settings)),
        io_events: IoEvents {
            read: READ_EVENT.to_owned(),
            write: String::new(),
            log: LOG_EVENT.to_owned(),
            timed_by: "the server (performance_schema)".to_owned(),
        },
        checkpoint: Some(format!(
            "by the server, in small steps; a cycle is over when all pages are written that were \
             changed before it; innodb_io_capacity={}",
            get("innodb_io_capacity")
        )),
        notable_settings: advice::notable_settings(settings),
        advice: advice::advice(),
        ..TargetDetails::default()
    }
}

/// Durability by the server's settings.
pub fn durability(settings: &ServerSettings) -> Durability {
    const LOG: &str = "innodb_flush_log_at_trx_commit";
    let get = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
    let names = [LOG, "innodb_doublewrite", "log_bin", "sync_binlog"];
    Durability {
        durable: get(LOG) == "1",
        setting: names.map(|name| format!("{name}={}", get(name))).join(", "),
    }
}

fn product(version: &str) -> &'static str {
    if version.contains("MariaDB") { "MariaDB" } else { "MySQL" }
}

/// Returns product and version.
pub fn version(client: &mut Client) -> Result<String> {
    let settings = settings(client)?;
    let version = settings.get("version").map(String::as_str).unwrap_or_default();
    Ok(format!("{} {version}", product(version)))
}

fn settings(client: &mut Client) -> Result<ServerSettings> {
    let more = ["version", "datadir", QUERY_CACHE];
    let all = SETTINGS.iter().chain(&more).chain(&FOLDERS);
    let names: Vec<String> = all.map(|name| format!("'{name}'")).collect();
    let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", names.join(", "));
    let rows: Vec<(String, String)> = client.ask("asking for its settings", &sql)?;
    Ok(rows.into_iter().collect())
}

fn listed(shared: &Shared, meta: &SchemaMeta, settings: &ServerSettings) -> Vec<(String, String)> {
    let stated = |name: &&str| {
        let value = settings.get(*name)?;
        let value = if *name == SWITCHES { range_switches(value) } else { value.clone() };
        Some(((*name).to_owned(), value))
    };
    let mut listed: Vec<(String, String)> = SETTINGS.iter().filter_map(stated).collect();
    let isolation = "READ-COMMITTED (set by petal)";
    listed.push(("transaction_isolation".to_owned(), isolation.to_owned()));
    if let Some(of_server) = settings.get(QUERY_CACHE) {
        listed.push((
            QUERY_CACHE.to_owned(),
            format!("OFF (set by petal; the server's: {of_server})"),
        ));
    }
    let side = match shared.loop_side {
        LoopSide::Server if settings.get("version").is_some_and(|it| it.contains("MariaDB")) => {
            "server: a stored procedure, one execution per SELECT or scan; one prepared statement per \
             UPDATE"
        }
        LoopSide::Server => "server: a stored procedure, one execution per operation",
        LoopSide::Client => "client: one prepared statement per operation",
    };
    listed.push(("loop".to_owned(), side.to_owned()));
    listed.push(("filler".to_owned(), meta.filler.name()));
    listed
}

/// The optimizer's switches that concern a read of a range of keys.
fn range_switches(all: &str) -> String {
    let concerns = |switch: &&str| {
        ["mrr", "index_condition_pushdown"].iter().any(|name| switch.starts_with(name))
    };
    all.split(',').filter(concerns).collect::<Vec<_>>().join(",")
}

/// Files of the redo log, or since MySQL 8.0.30 their folder.
fn log_files(server: &LocalMysql, settings: &ServerSettings) -> Vec<PathBuf> {
    let folder = settings.get("innodb_log_group_home_dir").map(Path::new).unwrap_or(Path::new(""));
    let named = ["ib_logfile0", "ib_logfile1", "#innodb_redo"];
    named.into_iter().filter_map(|name| server.see(folder.join(name))).collect()
}

/// The folders of the tables' files, each once.
fn folders(files: BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let folders: BTreeSet<PathBuf> =
        files.iter().filter_map(|file| Some(file.parent()?.to_owned())).collect();
    folders.into_iter().collect()
}

/// The data directory and the log's folder.
fn server_files(server: &LocalMysql, settings: &ServerSettings) -> Vec<PathBuf> {
    let mut folders = vec![server.folder.clone()];
    for name in FOLDERS {
        let Some(folder) = settings.get(name).filter(|folder| !folder.is_empty()) else { continue };
        let folder = server.see(folder);
        folders.extend(folder.into_iter().filter(|folder| !folder.starts_with(&server.folder)));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_of_other_plans_are_left_out() {
        let all =
            "index_merge=on,index_condition_pushdown=on,mrr=off,mrr_cost_based=on,hash_join=on";
        assert_eq!(range_switches(all), "index_condition_pushdown=on,mrr=off,mrr_cost_based=on");
    }
}
