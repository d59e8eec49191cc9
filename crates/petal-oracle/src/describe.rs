//! Description of the target before a run.

use super::counters::{CELL_READ_EVENT, LOG_EVENT, READ_EVENT, WRITE_EVENT, is_pluggable};
use super::database::Database;
use super::link::{BindValue, LinkError, Row};
use super::load::redo_advice;
use super::meta::{OracleSchema, cell, count, number};
use super::session::use_hints;
use super::this_host::LocalInstance;
use super::work::SessionConfig;
use super::{advice, notable, sql};
use petal_engine::Result;
use petal_engine::server::batch_loop::clock_resolution_ns;
use petal_engine::server::failure::none_loaded;
use petal_record::target::{Durability, IoEvents, PlanCheck, Target, TargetDetails};
use petal_settings::LoopSide;
use petal_settings::table::support;
use petal_workload::row::changed_columns;

/// Buffer pool of a table that names none.
const DEFAULT_POOL: &str = "DEFAULT";

/// Describes the target. `database` is a session of the run; `admin` may read the V$ views. `url`
/// has no secrets. `metas` are the run's schemas; the first represents all.
pub fn describe(
    url: &str,
    config: SessionConfig,
    metas: &[OracleSchema],
    database: &mut Database,
    admin: &mut Database,
) -> Result<(Target, TargetDetails)> {
    let none = || none_loaded(&database.place, ", or use SLOB's with --use-slob-schemas");
    let first = metas.first().ok_or_else(none)?;
    let parameters = parameters(admin);
    let pool = buffer_pool(database, first);
    let hints = use_hints(database.link.as_mut());
    let ignored = database.look_if_allowed("ignored_hints");
    let target = Target {
        product: support::ORACLE.product.to_owned(),
        version: version(database)?,
        block_size: first.about.block_bytes.into(),
        cache_bytes: pool_bytes(admin, &pool, first.about.block_bytes),
        url: url.to_owned(),
    };
    // An administrator in the root sees only the root's files.
    let mut files = data_files(admin, &first.tablespace);
    if files.is_empty() {
        files = data_files(database, &first.tablespace);
    }
    let here = local_instance(admin);
    let disks = asm_disks(admin, &files);
    let local = here.as_ref().map(|here| [here.files(&files), here.disks(&disks)].concat());
    let is_in_files = !files.is_empty() && groups(&files).is_empty();
    let details = TargetDetails {
        local: here.is_some(),
        settings: [
            settings(config, first, admin, &parameters, (&files, &disks)),
            vec![
                ("buffer pool".to_owned(), format!("{pool}, by the table's BUFFER_POOL")),
                ("hints".to_owned(), hints_words(&hints, &ignored)),
            ],
            unknown_sizes(metas),
        ]
        .concat(),
        data_files: local.unwrap_or_default(),
        clock_resolution_ns: clock_resolution_ns(config.loop_side),
        plan: plan(database, metas, config),
        // SLOB's filler is not petal's.
        compression_ratio: first.about.compression_ratio(first.width).filter(|_| !first.is_slobs),
        durability: durability(config, parameters.as_deref()),
        io_events: IoEvents {
            read: read_event(admin).to_owned(),
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
        notable_settings: notable::settings(
            admin,
            &first.tablespace,
            is_in_files,
            parameters.as_deref(),
        ),
        advice: advice::advice(),
        ..TargetDetails::default()
    };
    Ok((target, details))
}

/// Returns the event of block reads: on Exadata the storage cells answer them, under a separate
/// event.
fn read_event(admin: &mut Database) -> &'static str {
    let cells = admin.look_if_allowed("cell_reads");
    match cells.first().is_some_and(|row| number(row, 0) > 0) {
        true => CELL_READ_EVENT,
        false => READ_EVENT,
    }
}

/// Returns parameters, or `None` if the user may not see them.
fn parameters(admin: &mut Database) -> Option<Vec<(String, String)>> {
    let rows = admin.link.query(&sql::section(sql::LOOK, "parameters"), &[]).ok()?;
    let pair = |row: &Row| (cell(row, 0).to_owned(), cell(row, 1).to_owned());
    Some(rows.iter().map(pair).collect())
}

/// Names the schemas whose size the database does not say.
fn unknown_sizes(metas: &[OracleSchema]) -> Vec<(String, String)> {
    let unknown = metas.iter().filter(|meta| meta.bytes.is_none() || meta.index_bytes.is_none());
    let names: Vec<&str> = unknown.clone().map(|meta| meta.tables.main.as_str()).collect();
    let from = unknown.map(|meta| meta.sizes_from).next();
    let reason = |from| format!("{from} has no bytes of {} or its index", names.join(", "));
    from.map(|from| ("unknown sizes".to_owned(), reason(from))).into_iter().collect()
}

fn settings(
    config: SessionConfig,
    first: &OracleSchema,
    admin: &mut Database,
    parameters: &Option<Vec<(String, String)>>,
    (files, disks): (&[String], &[String]),
) -> Vec<(String, String)> {
    let mut listed = match parameters {
        Some(parameters) => parameters.clone(),
        None => vec![(
            "V$ views".to_owned(),
            "not visible: docs/engines/oracle-grants.sql has the grants".to_owned(),
        )],
    };
    let mut add = |name: &str, value: String| listed.push((name.to_owned(), value));
    if let Some(row) = admin.look_if_allowed("container").first() {
        add("container", cell(row, 0).to_owned());
        if is_pluggable(row) {
            add(
                "background writes",
                "unknown: inside a pluggable database the views may miss the writes of DBWR and \
                 LGWR; the container's counts are kept under \"container: NAME\", as its AWR \
                 report prints them; for all writes, set a DBA_PRIV_USER in the root \
                 (ADMIN_SQLNET_SERVICE)"
                    .to_owned(),
            );
        }
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
    match (groups(files).first(), files.first()) {
        (Some(group), _) => {
            let disks = match disks {
                [] => "its devices are not visible".to_owned(),
                disks => format!("devices {}", disks.join(", ")),
            };
            add("data files", format!("{} in ASM disk group {group}: {disks}", files.len()));
        }
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

/// Decides durability: commits may be lost if nothing waits, in PL/SQL or by two parameters.
/// Returns `None` if they are not visible.
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
    let rows = admin.link.query(&query, &[BindValue::from(tablespace)]).unwrap_or_default();
    rows.iter().map(|row| cell(row, 0).to_owned()).collect()
}

/// Returns the ASM disk groups of data files, each with its `+`.
fn groups(files: &[String]) -> Vec<&str> {
    let in_groups = files.iter().filter(|file| file.starts_with('+'));
    let mut groups: Vec<&str> = in_groups.filter_map(|file| file.split('/').next()).collect();
    groups.dedup();
    groups
}

/// Returns the disks of the data files' disk groups, if the user may see them.
fn asm_disks(admin: &mut Database, files: &[String]) -> Vec<String> {
    let query = sql::section(sql::LOOK, "asm_disks");
    let of = |group: &&str| {
        let binds = [BindValue::from(group.trim_start_matches('+'))];
        admin.link.query(&query, &binds).unwrap_or_default()
    };
    let rows: Vec<Row> = groups(files).iter().flat_map(of).collect();
    rows.iter().map(|row| cell(row, 0).to_owned()).collect()
}

/// Returns the instance that runs on petal's host, if one does.
fn local_instance(admin: &mut Database) -> Option<LocalInstance> {
    let rows = admin.look_if_allowed("instances");
    let named = |row: &Row| (cell(row, 1).to_owned(), cell(row, 2).to_owned());
    LocalInstance::find(&rows.iter().map(named).collect::<Vec<_>>())
}

/// Returns the release with its update if the view has it (18c); else the base release.
pub fn version(database: &mut Database) -> Result<String> {
    let mut rows = database.look_if_allowed("version_full");
    if rows.first().is_none_or(|row| cell(row, 0).is_empty()) {
        rows = database.look("asking for its version", "version")?;
    }
    Ok(rows.first().map_or_else(String::new, |row| cell(row, 0).to_owned()))
}

/// Returns the name of the main table's buffer pool.
fn buffer_pool(database: &mut Database, meta: &OracleSchema) -> String {
    let table = meta.tables.main.to_uppercase();
    // Without an owner, the table is the user's own; an empty text is NULL.
    let (owner, table) = table.split_once('.').unwrap_or(("", &table));
    let query = sql::section(sql::LOOK, "buffer_pool");
    let rows = database.link.query(&query, &[BindValue::from(owner), BindValue::from(table)]);
    let rows = rows.unwrap_or_default();
    let name = rows.first().map(|row| cell(row, 0)).filter(|name| !name.is_empty());
    name.unwrap_or(DEFAULT_POOL).to_owned()
}

/// Returns the size of the cache for the data's blocks: the pool of their block size and that name.
/// Blocks of another size than the database's have only the default pool.
fn pool_bytes(admin: &mut Database, pool: &str, block_bytes: u32) -> Option<u64> {
    let pools = admin.look_if_allowed("buffer_pools");
    let of = |name: &str| {
        let is_it = |row: &&Row| cell(row, 0) == name && number(row, 1) == u64::from(block_bytes);
        pools.iter().find(is_it).and_then(|row| count(row, 2))
    };
    of(pool).filter(|bytes| *bytes > 0).or_else(|| of(DEFAULT_POOL))
}

/// Describes whether hints are used: the setting, and the session's view of it afterwards.
fn hints_words(used: &Result<bool, LinkError>, ignored: &[Row]) -> String {
    if let Some(row) = ignored.iter().find(|row| cell(row, 1) == "TRUE") {
        return format!("ignored: {} is TRUE in the session, though petal sets it", cell(row, 0));
    }
    let seen = if ignored.is_empty() { "; V$PARAMETER is not visible" } else { ", as read back" };
    match used {
        Ok(true) => format!("used: each session sets optimizer_ignore_hints=FALSE{seen}"),
        Ok(false) => "used: this version always does".to_owned(),
        Err(error) => format!("perhaps ignored: optimizer_ignore_hints cannot be set ({error})"),
    }
}

/// Returns plans of the sessions' statements, for every schema, or `None` if the user has no
/// PLAN_TABLE or a plan cannot be shown. The text shows a plan that is not as meant, else the
/// first.
pub fn plan(
    database: &mut Database,
    metas: &[OracleSchema],
    config: SessionConfig,
) -> Option<PlanCheck> {
    let link = &mut database.link;
    let mut ids = Vec::new();
    let mut explain = || {
        for meta in metas {
            let select = ("SELECT", sql::select(&meta.tables));
            let update = ("UPDATE", sql::update(&meta.tables, changed_columns(config.redo_stress)));
            for (kind, statement) in
                [Some(select), config.updates.then_some(update)].into_iter().flatten()
            {
                let id = format!("petal {kind} {}", meta.about.schema);
                link.execute(&sql::explain(&id, &statement), &[])?;
                ids.push((kind, id));
            }
        }
        link.query(&sql::section(sql::LOOK, "explained"), &[])
    };
    let rows = explain();
    let _ = link.execute(&sql::section(sql::LOOK, "forget_plan"), &[]);
    let _ = link.commit();
    let rows = rows.ok()?;
    let check = |(kind, id): &(&str, String)| {
        let steps = rows.iter().filter(|row| cell(row, 0) == id);
        let steps: Vec<String> = steps.map(step).collect();
        let id = id.trim_start_matches("petal ");
        (!steps.is_empty()).then(|| PlanCheck {
            text: format!("{id}: {}", steps.join(", ")),
            as_meant: is_as_meant(kind, &steps),
        })
    };
    let checks: Vec<PlanCheck> = ids.iter().map(check).collect::<Option<_>>()?;
    PlanCheck::worst(checks)
}

/// Describes a row of PLAN_TABLE: `INDEX RANGE SCAN PETAL1_CF1_CUSTID`.
fn step(row: &Row) -> String {
    let words = (1..4).map(|at| cell(row, at)).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// True for access by the index, one block at a time and without parallel servers. An UPDATE may
/// find its rows in the index alone.
fn is_as_meant(kind: &str, steps: &[String]) -> bool {
    let has = |words: &str| steps.iter().any(|step| step.contains(words));
    has("INDEX RANGE SCAN")
        && !has("BATCHED")
        && !has("PX ")
        && (kind == "UPDATE" || has("TABLE ACCESS BY INDEX ROWID"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_with_parallel_servers_is_not_as_meant() {
        let serial = ["SELECT STATEMENT", "TABLE ACCESS BY INDEX ROWID CF1", "INDEX RANGE SCAN I"];
        let steps = |first: &[&str]| -> Vec<String> {
            first.iter().chain(&serial).map(|step| (*step).to_owned()).collect()
        };
        assert!(is_as_meant("SELECT", &steps(&[])));
        let parallel = steps(&["PX COORDINATOR", "PX SEND QC (RANDOM) :TQ10000"]);
        assert!(!is_as_meant("SELECT", &parallel) && !is_as_meant("UPDATE", &parallel));
    }
}
