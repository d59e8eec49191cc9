//! The description of the target before a run.

use std::path::{Path, PathBuf};

use super::client::Client;
use super::connect::Endpoint;
use super::errors::AtServer as _;
use super::session::SESSION_SETTINGS;
use super::storage::{ServerSettings, Storage};
use super::work::Shared;
use super::{plan, servers, storage_engines};
use petal_engine::Result;
use petal_engine::server::batch_loop::clock_resolution_ns;
use petal_engine::server::failure::none_loaded;
use petal_engine::server::meta_table::SchemaMeta;
use petal_model::settings::LoopSide;
use petal_model::stats::target::{Target, TargetDetails};
use petal_model::workload::row::COLUMNS;

/// Settings of the server that decide durability and the figures, for every storage engine.
const SETTINGS: [&str; 10] = [
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
const FOLDERS: [&str; 4] =
    ["innodb_log_group_home_dir", "innodb_data_home_dir", "rocksdb_datadir", "rocksdb_wal_dir"];

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
    let storage = storage_engines::of_data(&mut client)?;
    let mut settings = settings(&mut client, storage)?;
    let more = storage.more_settings(&mut client);
    settings.extend(more.iter().cloned());
    let get = |name: &str| settings.get(name).cloned().unwrap_or_default();
    let version = get("version");
    let target = Target {
        product: if version.contains("MariaDB") { "MariaDB" } else { "MySQL" }.to_owned(),
        version,
        block_size: first.block_bytes.into(),
        cache_bytes: get(storage.texts().cache_setting).parse().ok(),
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
    let group = storage.row_group(first.block_bytes)?;
    let details = TargetDetails {
        local: !data_files.is_empty() && servers::processes(endpoint).is_some(),
        host_unseen,
        io_untimed: (!storage.is_timed(&mut client)).then(|| storage.texts().untimed.to_owned()),
        settings: listed(shared, first, &settings, storage, more),
        data_files,
        clock_resolution_ns: clock_resolution_ns(shared.loop_side),
        plan: plan::check(&mut client, metas.iter().map(|meta| meta.schema))
            .at(&client.server, "explaining the SELECT")?,
        compression_ratio: first.compression_ratio(match group.padding {
            0 => first.column_bytes(),
            // The padding is filler text, too.
            _ => first.block_bytes as usize / COLUMNS,
        }),
        ..storage.facts(&settings)
    };
    Ok((target, details))
}

fn settings(client: &mut Client, storage: Storage) -> Result<ServerSettings> {
    let more = ["version", "datadir", QUERY_CACHE];
    let all = storage.texts().settings.iter().chain(&SETTINGS).chain(&more).chain(&FOLDERS);
    let names: Vec<String> = all.map(|name| format!("'{name}'")).collect();
    let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", names.join(", "));
    let rows: Vec<(String, String)> = client.ask("asking for its settings", &sql)?;
    Ok(rows.into_iter().collect())
}

fn listed(
    shared: &Shared,
    meta: &SchemaMeta,
    settings: &ServerSettings,
    storage: Storage,
    more: Vec<(String, String)>,
) -> Vec<(String, String)> {
    let names = storage.texts().settings.iter().chain(&SETTINGS);
    let stated = |name: &&str| {
        let value = settings.get(*name)?;
        let value = if *name == SWITCHES { range_switches(value) } else { value.clone() };
        Some(((*name).to_owned(), value))
    };
    let mut listed: Vec<(String, String)> = names.filter_map(stated).collect();
    listed.push(("storage_engine".to_owned(), storage.texts().name.to_owned()));
    listed.extend(more);
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

/// Folders of data and log if they can be seen from here, else empty.
fn data_files(settings: &ServerSettings) -> Vec<PathBuf> {
    let Some(data) = settings.get("datadir").map(Path::new).filter(|data| data.is_dir()) else {
        return Vec::new();
    };
    let mut folders = vec![data.to_owned()];
    for name in FOLDERS {
        let Some(folder) = settings.get(name).filter(|folder| !folder.is_empty()) else { continue };
        let folder = std::fs::canonicalize(data.join(folder));
        folders.extend(folder.into_iter().filter(|folder| !folder.starts_with(data)));
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
