//! The description of the target before a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::answer::{Columns as _, NonNegative, pairs};
use super::client::Client;
use super::connect::{Endpoint, server_version};
use super::figures::{LOG_EVENT, PRODUCT, READ_EVENT, WRITE_EVENT};
use super::work::Shared;
use super::{advice, facts, plan};
use petal_engine::Result;
use petal_engine::server::batch_loop::clock_resolution_ns;
use petal_engine::server::data_name::named;
use petal_engine::server::failure::none_loaded;
use petal_engine::server::meta_table::SchemaMeta;
use petal_model::files;
use petal_model::settings::LoopSide;
use petal_model::stats::os::ServerProcesses;
use petal_model::stats::target::{IoEvents, Target, TargetDetails};

/// Settings of the server that decide durability, I/O and the figures.
const SETTINGS: [&str; 30] = [
    "shared_buffers",
    "effective_io_concurrency",
    "io_method",
    "io_workers",
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
/// The log's folder in the data directory.
const LOG_FOLDER: &str = "pg_wal";

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
    let (data_files, host_unseen) = if endpoint.is_on_this_host() {
        let shown = get("data_directory");
        let data_directory = match shown.is_empty() {
            true => data_directory(&mut client).unwrap_or_default(),
            false => shown.clone(),
        };
        let files = data_files(&mut client, &data_directory)?;
        let why = files.is_empty().then(|| unseen(&shown));
        (files, why)
    } else {
        (Vec::new(), None)
    };
    // The first one is the data directory.
    let log_folder = data_files.first().map(|data| data.join(LOG_FOLDER)).unwrap_or_default();
    let is_timed = get("track_io_timing") == "on";
    // Until 15 the checkpointer counts the writes of sessions when its queue is half full. The queue
    // has a place for each block of the cache.
    let counts_late = server_version(&mut client)? < 160_000;
    let details = TargetDetails {
        local: !data_files.is_empty(),
        host_unseen,
        io_untimed: (!is_timed).then(|| UNTIMED.to_owned()),
        settings: listed(shared, first, &settings),
        log_files: std::fs::canonicalize(log_folder).into_iter().collect(),
        data_files,
        pages_counted_late_bytes: if counts_late { cache_bytes / 2 } else { 0 },
        clock_resolution_ns: clock_resolution_ns(shared.loop_side),
        plan: plan::check(&mut client, metas.iter().map(|meta| meta.schema), shared.prefetch)?,
        compression_ratio: first.compression_ratio(first.column_bytes()),
        durability: Some(facts::durability(&settings)),
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

fn settings(client: &mut Client) -> Result<BTreeMap<String, String>> {
    // pg_settings leaves out settings that a role may not see.
    let names: Vec<&str> =
        SETTINGS.iter().copied().chain(["server_version", "data_directory"]).collect();
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

/// Why a server at one of this host's own addresses is not seen.
fn unseen(data_directory: &str) -> String {
    match data_directory {
        "" => {
            "the database's address is this host's, but the role may not know where its data lie \
               (GRANT pg_read_all_settings shows it)"
                .to_owned()
        }
        folder => format!(
            "the database's address is this host's, but its folder {folder} is not there, as in a \
             container"
        ),
    }
}

/// Folders of data and log if they can be seen from here, else empty.
fn data_files(client: &mut Client, data_directory: &str) -> Result<Vec<PathBuf>> {
    let data = Path::new(data_directory);
    if data_directory.is_empty() || !data.is_dir() {
        return Ok(Vec::new());
    }
    let mut folders = vec![data.to_owned()];
    folders.extend(std::fs::canonicalize(data.join(LOG_FOLDER)).ok());
    let sql = "SELECT DISTINCT pg_catalog.pg_tablespace_location(c.reltablespace) FROM \
        pg_catalog.pg_class c \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname ~ '^petal[1-9][0-9]*$' AND c.reltablespace <> 0";
    let rows = client.ask("asking for its tablespaces", &named(sql), &[])?;
    let tablespaces = rows.iter().map(|row| row.read::<String>(0).map(PathBuf::from));
    let tablespaces: Vec<PathBuf> = tablespaces.collect::<Result<_>>()?;
    folders.extend(tablespaces.into_iter().filter(|folder| folder.is_dir()));
    Ok(folders)
}

/// The data folder of a server on this host, from its process, if petal may see it. The role needs
/// no privilege at the server. None for a server in a container, whose process numbers are others
/// here.
pub fn data_directory(client: &mut Client) -> Option<String> {
    let row = client
        .query_one(
            "SELECT pg_catalog.pg_backend_pid(), \
        pg_catalog.current_setting('port')",
            &[],
        )
        .ok()?;
    let (process, port): (i32, String) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
    ServerProcesses::of_session(u32::try_from(process).ok()?, None)?;
    let folder = std::fs::read_link(format!("/proc/{process}/cwd")).ok()?;
    // Its fourth line is the port: it is this server's folder, and no other's.
    let known = files::text(folder.join("postmaster.pid")).ok()?;
    let is_its = known.lines().nth(3).is_some_and(|line| line.trim() == port);
    is_its.then(|| folder.display().to_string())
}
