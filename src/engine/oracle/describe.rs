//! What the engine states about its target before a run.

use std::net::ToSocketAddrs as _;
use std::path::PathBuf;

use super::counters::{LOG_EVENT, READ_EVENT, WRITE_EVENT};
use super::database::Database;
use super::link::{Row, Value};
use super::load::redo_advice;
use super::meta::{Meta, cell, number};
use super::session::SessionConfig;
use super::session_server::CLOCK_RESOLUTION_NS;
use super::{advice, sql};
use crate::engine::EngineError;
use crate::settings::LoopSide;
use crate::settings::table::support;
use crate::stats::compression;
use crate::stats::target::{Durability, IoEvents, PlanCheck, Target, TargetDetails};

/// Describes the target. `database`: as a session of the run; `admin`: as who may read the V$ views.
/// `url` is without its secrets, `metas` are those of the run: the first stands for all.
pub fn describe(
    url: &str,
    config: SessionConfig,
    metas: &[Meta],
    database: &mut Database,
    admin: &mut Database,
) -> Result<(Target, TargetDetails), EngineError> {
    let Some(first) = metas.first() else {
        return Err(EngineError::Data(format!(
            "{}: no petal schema is loaded there; load one (petal setup), or use SLOB's with \
             --use-slob-schemas",
            database.place
        )));
    };
    let parameters = parameters(admin);
    let version = database.look("asking for its version", "version")?;
    let cache = admin.look_if_allowed("cache");
    let cache = cache.first().filter(|row| !cell(row, 0).is_empty());
    let target = Target {
        product: support::ORACLE.product.to_owned(),
        version: version.first().map_or_else(String::new, |row| cell(row, 0).to_owned()),
        block_size: first.about.block_bytes.into(),
        cache_bytes: cache.map(|row| number(row, 0)),
        url: url.to_owned(),
    };
    let files = data_files(admin, &first.tablespace);
    let local = local_files(&database.place, &files);
    let details = TargetDetails {
        local: !local.is_empty(),
        settings: settings(config, first, admin, &parameters, &files),
        data_files: local,
        clock_resolution_ns: match config.loop_side {
            LoopSide::Client => 1,
            _ => CLOCK_RESOLUTION_NS,
        },
        plan: plan(database, first),
        compression_ratio: compression_ratio(first),
        durability: durability(config, parameters.as_deref()),
        io_events: IoEvents {
            read: READ_EVENT.to_owned(),
            write: WRITE_EVENT.to_owned(),
            log: LOG_EVENT.to_owned(),
            timed_by: "the database (V$SYSTEM_EVENT, microseconds over waits)".to_owned(),
        },
        checkpoint: Some(
            "by the database: incrementally, and at each log switch; a log switch and a checkpoint \
             before the run where the user may"
                .to_owned(),
        ),
        sync_per_commit: true,
        advice: advice::advice(),
        ..TargetDetails::default()
    };
    Ok((target, details))
}

/// None where the user may not see them.
fn parameters(admin: &mut Database) -> Option<Vec<(String, String)>> {
    let rows = admin.link.query(&sql::section(sql::LOOK, "parameters"), &[]).ok()?;
    let pair = |row: &Row| (cell(row, 0).to_owned(), cell(row, 1).to_owned());
    Some(rows.iter().map(pair).collect())
}

fn settings(
    config: SessionConfig,
    first: &Meta,
    admin: &mut Database,
    parameters: &Option<Vec<(String, String)>>,
    files: &[String],
) -> Vec<(String, String)> {
    let mut listed = match parameters {
        Some(parameters) => parameters.clone(),
        None => vec![(
            "V$ views".to_owned(),
            "not visible: docs/engines/oracle-grants.sql grants what petal reads".to_owned(),
        )],
    };
    let mut add = |name: &str, value: String| listed.push((name.to_owned(), value));
    if let Some(row) = admin.look_if_allowed("container").first() {
        add("container", cell(row, 0).to_owned());
    }
    add(
        "loop",
        match config.loop_side {
            LoopSide::Client => "client: one statement per operation, and one for its commit",
            _ => "server: a PL/SQL block, one execution per operation",
        }
        .to_owned(),
    );
    add("commit", commit_words(config).to_owned());
    add("tablespace", first.tablespace.clone());
    add("filler", first.filler_name());
    if first.is_slobs {
        add("schemas", "SLOB's own, used as they are; rows counted".to_owned());
        add("sizes", format!("from {}", first.sizes_from));
    }
    let groups: Vec<&str> = files
        .iter()
        .filter(|file| file.starts_with('+'))
        .filter_map(|file| file.split('/').next())
        .collect();
    match (groups.first(), files.first()) {
        (Some(group), _) => add(
            "data files",
            format!("{} in ASM disk group {group}: its devices are not watched", files.len()),
        ),
        (None, Some(file)) => add("data files", format!("{}, the first {file}", files.len())),
        (None, None) => {}
    }
    for line in redo_advice(admin) {
        listed.push(("redo".to_owned(), line));
    }
    listed
}

fn commit_words(config: SessionConfig) -> &'static str {
    match (config.commit_wait, config.loop_side) {
        (true, _) => "COMMIT WRITE IMMEDIATE WAIT (COMMIT_WAIT=TRUE)",
        (false, LoopSide::Client) => {
            "a client's COMMIT, which waits unless the instance's commit_wait says otherwise \
             (COMMIT_WAIT=FALSE)"
        }
        (false, _) => "a plain COMMIT in PL/SQL, which does not wait (COMMIT_WAIT=FALSE)",
    }
}

/// Commits may be lost where nobody waits: in PL/SQL, or by two parameters. None: unseen.
fn durability(
    config: SessionConfig,
    parameters: Option<&[(String, String)]>,
) -> Option<Durability> {
    let as_sent = |durable| Durability { durable, setting: commit_words(config).to_owned() };
    if config.commit_wait || config.loop_side != LoopSide::Client {
        return Some(as_sent(config.commit_wait));
    }
    let parameters = parameters?;
    let is_nowait = |(name, value): &&(String, String)| {
        ["commit_wait", "commit_write"].contains(&name.as_str())
            && value.to_uppercase().contains("NOWAIT")
    };
    Some(match parameters.iter().find(is_nowait) {
        Some((name, value)) => Durability { durable: false, setting: format!("{name}={value}") },
        None => as_sent(true),
    })
}

fn data_files(admin: &mut Database, tablespace: &str) -> Vec<String> {
    let query = sql::section(sql::LOOK, "data_files");
    let rows = admin.link.query(&query, &[Value::from(tablespace)]).unwrap_or_default();
    rows.iter().map(|row| cell(row, 0).to_owned()).collect()
}

/// Data files that can be seen from here: the host is this one, and they are files.
fn local_files(place: &str, files: &[String]) -> Vec<PathBuf> {
    let address = place.split(['/', ',']).next().unwrap_or_default();
    let is_here = address
        .to_socket_addrs()
        .is_ok_and(|mut addresses| addresses.all(|address| address.ip().is_loopback()));
    if !is_here {
        return Vec::new();
    }
    files.iter().map(PathBuf::from).filter(|file| file.is_file()).collect()
}

/// None where the user has no PLAN_TABLE, or the plan cannot be shown.
fn plan(database: &mut Database, meta: &Meta) -> Option<PlanCheck> {
    let link = &mut database.link;
    let rows = link
        .execute(&sql::explain(&meta.tables), &[])
        .and_then(|_| link.query(&sql::section(sql::LOOK, "explained"), &[]));
    let _ = link.execute(&sql::section(sql::LOOK, "forget_plan"), &[]);
    let _ = link.commit();
    let rows = rows.ok()?;
    // The table's lines, without its frame.
    let lines = rows.iter().map(|row| cell(row, 0).trim()).filter(|line| line.starts_with('|'));
    let text = lines.collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return None;
    }
    let as_meant =
        ["INDEX RANGE SCAN", "TABLE ACCESS BY INDEX ROWID"].iter().all(|step| text.contains(step))
            && !text.contains("BATCHED");
    Some(PlanCheck { text, as_meant })
}

/// None of SLOB's schemas, whose filler is not petal's.
fn compression_ratio(meta: &Meta) -> Option<f64> {
    let blocks = compression::sampled(
        (meta.about.schema, meta.about.rows),
        meta.about.filler,
        meta.about.block_bytes as usize,
        meta.width,
    );
    compression::ratio(&blocks).filter(|_| !meta.is_slobs)
}
