//! The description of the target before a run.

use std::collections::BTreeMap;

use super::answer::{NonNegative, pairs};
use super::client::Client;
use super::connect::{Endpoint, server_version};
use super::figures::{LOG_EVENT, PRODUCT, READ_EVENT, WRITE_EVENT};
use super::this_host::{LocalPostgres, ServerFolders};
use super::work::Shared;
use super::{advice, facts, plan};
use petal_engine::Result;
use petal_engine::server::batch_loop::clock_resolution_ns;
use petal_engine::server::failure::none_loaded;
use petal_engine::server::meta_table::SchemaMeta;
use petal_engine::server::own_files;
use petal_record::target::{IoEvents, Target, TargetDetails};
use petal_settings::LoopSide;

/// Settings of the server that decide durability, I/O and the figures.
const SETTINGS: [&str; 32] = [
    "shared_buffers",
    "effective_io_concurrency",
    "io_method",
    "io_workers",
    "io_min_workers",
    "io_max_workers",
    "debug_io_direct",
    "huge_pages",
    "fsync",
    "synchronous_commit",
    "synchronous_standby_names",
    "full_page_writes",
    "wal_level",
    "wal_sync_method",
    "wal_compression",
    "wal_buffers",
    "wal_init_zero",
    "wal_recycle",
    "commit_delay",
    "max_wal_size",
    "checkpoint_timeout",
    "checkpoint_completion_target",
    "bgwriter_lru_maxpages",
    "backend_flush_after",
    "checkpoint_flush_after",
    "autovacuum",
    "data_checksums",
    "max_connections",
    "track_io_timing",
    "track_wal_io_timing",
    "statement_timeout",
    "lock_timeout",
];

pub(super) const UNTIMED: &str = "Set track_io_timing and track_wal_io_timing on in the server, \
     or GRANT SET ON PARAMETER track_io_timing, track_wal_io_timing to the role (15 and later).";

/// Describes the target by the first of `metas`, which must belong to the run's schemas.
pub fn describe(
    shared: &Shared,
    endpoint: &Endpoint,
    metas: &[SchemaMeta],
) -> Result<(Target, TargetDetails)> {
    let none = || none_loaded(&endpoint.name, " or name the database that has some");
    let first = metas.first().ok_or_else(none)?;
    let mut client = endpoint.connect("petal describe")?;
    // As a session has them.
    plan::apply(&mut client, shared.prefetch)?;
    let settings = settings(&mut client)?;
    let get = |name: &str| settings.get(name).cloned().unwrap_or_default();
    let sql = "SELECT pg_catalog.pg_size_bytes(pg_catalog.current_setting('shared_buffers'))";
    let NonNegative(cache_bytes) = client.ask_value("asking for its cache", sql, &[])?;
    let target = Target {
        product: PRODUCT.to_owned(),
        version: get("server_version"),
        block_size: first.block_bytes.into(),
        cache_bytes: Some(cache_bytes),
        url: shared.url.clone(),
    };
    let here = LocalPostgres::find(endpoint, &mut client);
    let folders = match &here {
        Some(Ok(server)) => Some(server.folders(&mut client, first.schema)?),
        Some(Err(why)) => Some(Err(why.clone())),
        None => None,
    };
    let host_unseen = folders.as_ref().and_then(|folders| folders.as_ref().err());
    let host_unseen = host_unseen.map(|why| own_files::unseen(why));
    let ServerFolders { data, others } = folders.and_then(Result::ok).unwrap_or_default();
    let log_folder = here.and_then(|here| here.ok()?.log_folder());
    let is_timed = get("track_io_timing") == "on";
    // Until 15 the checkpointer counts the writes of sessions when its queue is half full. The queue
    // has a place for each block of the cache.
    let counts_late = server_version(&mut client)? < 160_000;
    let tables = facts::tables(&mut client, metas.len() as u32)?;
    let details = TargetDetails {
        local: !data.is_empty(),
        host_unseen,
        io_untimed: (!is_timed).then(|| UNTIMED.to_owned()),
        settings: listed(shared, first, &settings),
        log_files: log_folder.filter(|_| !data.is_empty()).into_iter().collect(),
        data_files: data,
        server_files: others,
        pages_counted_late_bytes: if counts_late { cache_bytes / 2 } else { 0 },
        clock_resolution_ns: clock_resolution_ns(shared.loop_side),
        plan: plan::check(&mut client, metas.iter().map(|meta| meta.schema), shared.prefetch)?,
        compression_ratio: first.compression_ratio(first.column_bytes()),
        durability: Some(facts::durability(&settings, &tables)),
        io_events: IoEvents {
            read: READ_EVENT.to_owned(),
            write: WRITE_EVENT.to_owned(),
            log: LOG_EVENT.to_owned(),
            timed_by: match shared.prefetch {
                0 => "the server (track_io_timing)".to_owned(),
                _ => "the server: only the waits that reading ahead did not avoid".to_owned(),
            },
        },
        advice: advice::advice(),
        checkpoint: Some(format!(
            "by the server, every {} or when the log nears {}",
            get("checkpoint_timeout"),
            get("max_wal_size")
        )),
        ..TargetDetails::default()
    };
    Ok((target, details))
}

/// Returns product and version.
pub fn version(client: &mut Client) -> Result<String> {
    let sql = "SELECT pg_catalog.current_setting('server_version')";
    let version: String = client.ask_value("asking for its version", sql, &[])?;
    Ok(format!("{PRODUCT} {version}"))
}

fn settings(client: &mut Client) -> Result<BTreeMap<String, String>> {
    // pg_settings leaves out settings that a role may not see.
    let names: Vec<&str> = SETTINGS.iter().copied().chain(["server_version"]).collect();
    let own: Vec<&str> = plan::session_settings(0).iter().map(|(name, _)| *name).collect();
    let sql = "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings \
               WHERE name = ANY($1) OR name = ANY($2)";
    let rows = client.ask("asking for its settings", sql, &[&names, &own])?;
    pairs(&rows)
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
    for (name, value) in plan::session_settings(shared.prefetch) {
        match listed.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = format!("{value} (set by petal)"),
            None => listed.push((name.to_owned(), format!("{value} (set by petal)"))),
        }
    }
    let side = match shared.loop_side {
        LoopSide::Server => {
            "server: petal_run; one statement runs about 10 ms of SELECTs, at least four, or one UPDATE"
        }
        LoopSide::Client => "client: one prepared statement per operation",
    };
    listed.push(("loop".to_owned(), side.to_owned()));
    listed.push(("filler".to_owned(), meta.filler.name()));
    listed
}
