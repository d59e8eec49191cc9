//! Free space and settings of a tablespace before a load, from the views that the user may see.
//! Values that are not visible are unknown, with the reason, and never stop a load.

use super::database::Database;
use super::link::{BindValue, Row};
use super::meta::{self, Tables, cell, count};
use super::sql;
use petal_engine::{EngineError, LoadPlan, Placement, Result};
use petal_host::numbers::bytes;
use petal_host::numbers::whole;
use petal_record::target::{LoadFact, LoadVerdict};

/// Size of the undo tablespace below which petal warns.
const UNDO_BYTES_MIN: u64 = 1 << 30;
/// Size of an index entry while it is sorted: key, ROWID and overhead.
const SORTED_ENTRY_BYTES: u64 = 32;

/// Reason if a view may be read and has no row.
const NOTHING: &str = "the view shows nothing";

/// A figure, or the reason why it is unknown.
pub type Seen<T> = Result<T, String>;

/// Views of two users: petal's, and the administrator, who may see more.
pub struct Views<'a> {
    pub database: &'a mut Database,
    pub admin: Option<&'a mut Database>,
}

/// Files of a tablespace: their bytes, and their maximum by automatic extension.
struct FileRoom {
    bytes: u64,
    bytes_max: u64,
}

impl Views<'_> {
    /// Returns the first row of a section of `look.sql`, as petal's user sees it, else the
    /// administrator.
    fn row(&mut self, section: &str, binds: &[BindValue<'_>]) -> Seen<Row> {
        let query = sql::section(sql::LOOK, section);
        let mut reason = String::new();
        for database in std::iter::once(&mut *self.database).chain(self.admin.as_deref_mut()) {
            match database.link.query(&query, binds) {
                Ok(rows) => match rows.into_iter().next() {
                    Some(row) if !cell(&row, 0).is_empty() && cell(&row, 0) != "0" => {
                        return Ok(row);
                    }
                    _ if reason.is_empty() => NOTHING.clone_into(&mut reason),
                    _ => {}
                },
                Err(error) => reason = error.to_string(),
            }
        }
        Err(reason)
    }

    fn files(&mut self, section: &str, tablespace: &str) -> Seen<FileRoom> {
        let row = self.row(section, &[BindValue::from(tablespace)])?;
        let sizes = count(&row, 1).zip(count(&row, 2));
        sizes.map(|(bytes, bytes_max)| FileRoom { bytes, bytes_max }).ok_or_else(no_number)
    }

    /// Returns the free bytes inside the files of a tablespace.
    fn free_bytes(&mut self, tablespace: &str) -> Seen<u64> {
        let query = sql::section(sql::LOOK, "free_space");
        let rows = self.database.link.query(&query, &[BindValue::from(tablespace)]);
        match rows.map_err(|error| error.to_string())?.first() {
            Some(row) => count(row, 0).ok_or_else(no_number),
            None => Err(NOTHING.to_owned()),
        }
    }

    /// Returns the remaining bytes of the user's quota, or `None` without a limit.
    fn quota_bytes(&mut self, tablespace: &str) -> Seen<Option<u64>> {
        let binds = [BindValue::from(tablespace)];
        if !self.database.look_if_allowed("unlimited").is_empty() {
            return Ok(None);
        }
        let query = sql::section(sql::LOOK, "quota");
        let rows = self.database.link.query(&query, &binds).map_err(|error| error.to_string())?;
        let row = rows.first().ok_or(NOTHING)?;
        match cell(row, 1).starts_with('-') {
            true => Ok(None),
            false => {
                let both = count(row, 1).zip(count(row, 0)).ok_or_else(no_number)?;
                Ok(Some(both.0.saturating_sub(both.1)))
            }
        }
    }
}

fn no_number() -> String {
    "the view's sizes are not numbers".to_owned()
}

/// Returns the bytes of the blocks that a load fills with rows.
fn data_bytes(plan: &LoadPlan) -> u64 {
    let rows = (plan.rows + plan.scan_rows) * plan.schemas.len() as u64;
    rows.saturating_mul(plan.block_size.into())
}

/// Returns the statement that creates a tablespace for this many bytes of rows. `block_bytes` is
/// the data's block size, if known.
pub fn serving(
    database: &mut Database,
    tablespace: &str,
    data_bytes: u64,
    block_bytes: Option<u32>,
) -> String {
    let settings = database.look_if_allowed("managed_files");
    let value =
        |name: &str| settings.iter().find(|row| cell(row, 0) == name).map(|row| cell(row, 1));
    let has_managed_files = value("db_create_file_dest").is_some_and(|folder| !folder.is_empty());
    let own = value("db_block_size").and_then(|text| text.parse().ok());
    let others = block_bytes.filter(|bytes| own.is_some_and(|own: u32| own != *bytes));
    // Index, bitmaps and undersized extents.
    let size = data_bytes + data_bytes / 20;
    sql::create_tablespace(tablespace, size, has_managed_files, others)
}

/// Returns the statement that creates another tablespace than `tablespace`, which is there already.
pub fn another(
    database: &mut Database,
    tablespace: &str,
    data_bytes: u64,
    block_bytes: u32,
) -> String {
    let name = ["PETAL_DATA", "PETAL_DATA_2"].into_iter().find(|name| *name != tablespace);
    serving(database, name.unwrap_or_default(), data_bytes, Some(block_bytes))
}

/// Refuses a load that would certainly run out of space: the free space, the possible growth of
/// files and the data that the load drops first are all known, and too little.
pub fn refuse_if_short(database: &mut Database, plan: &LoadPlan, tablespace: &str) -> Result<()> {
    let needed = data_bytes(plan);
    let dropped = dropped_bytes(database, plan);
    let mut views = Views { database, admin: None };
    let free = views.free_bytes(tablespace);
    let files = views.files("file_room", tablespace);
    let quota = views.quota_bytes(tablespace);
    let room = free.ok().zip(files.ok()).map(|(free, files)| free + growth(&files));
    let short = [(room, "room", "add a file"), (quota.ok().flatten(), "quota", "raise the quota")];
    for (there, what, advice) in short {
        let Some(there) = there.map(|there| there + dropped).filter(|there| *there < needed) else {
            continue;
        };
        let statement = another(database, tablespace, needed, plan.block_size);
        return Err(EngineError::Environment(format!(
            "{}: tablespace {tablespace} has {what} for {}, and the rows of this load take {}; {advice}, \
             or make another tablespace and name it (?tablespace=NAME): {statement}",
            database.place,
            bytes(there),
            bytes(needed),
        )));
    }
    Ok(())
}

fn growth(files: &FileRoom) -> u64 {
    files.bytes_max.saturating_sub(files.bytes)
}

/// Returns the bytes of tables and indexes that the load drops before it begins.
fn dropped_bytes(database: &mut Database, plan: &LoadPlan) -> u64 {
    let segments = meta::segments(database).unwrap_or_default();
    let names = plan.schemas.iter().flat_map(|&schema| {
        let Tables { main, scan } = Tables::own(schema);
        [format!("{main}_custid"), main, scan]
    });
    names.filter_map(|name| segments.get(&name)).sum()
}

/// Returns facts about a tablespace before a load. `proof` is the result of the test table.
pub fn facts(
    views: &mut Views<'_>,
    plan: &LoadPlan,
    (tablespace, is_logged): (&str, bool),
    proof: Seen<Placement>,
) -> Vec<LoadFact> {
    let statement = another(views.database, tablespace, data_bytes(plan), plan.block_size);
    let make = format!("echo \"{statement};\" | sqlplus / as sysdba");
    let mut facts = vec![
        one_row_per_block(proof, &make),
        shape(views, tablespace, &make),
        data_room(views, plan, tablespace, &make),
        quota(views, plan, tablespace),
        undo(views),
        temporary(views, plan),
    ];
    facts.push(archived_logs(views, plan, is_logged));
    facts
}

/// Formats a fact; an unknown one is `-` with its reason.
fn fact(
    what: impl Into<String>,
    seen: Seen<(LoadVerdict, String)>,
    (why, advice): (&str, impl Into<String>),
) -> LoadFact {
    let unknown = |reason| (LoadVerdict::Unknown, format!("- ({reason})"));
    let (verdict, value) = seen.unwrap_or_else(unknown);
    LoadFact { what: what.into(), value, verdict, why: why.to_owned(), advice: advice.into() }
}

fn good_or(is_good: bool, otherwise: LoadVerdict) -> LoadVerdict {
    if is_good { LoadVerdict::Good } else { otherwise }
}

/// Adds the grant to a reason, if the reason is a missing grant.
fn ungranted(view: &str) -> impl Fn(String) -> String {
    move |reason| match reason == NOTHING {
        true => reason,
        false => format!("{reason}; GRANT SELECT ON {view}, see petal setup --print-grants"),
    }
}

fn one_row_per_block(proof: Seen<Placement>, make: &str) -> LoadFact {
    let seen = proof.map(|found| {
        let Placement { rows, blocks, rows_per_block_max, source, .. } = found;
        let verdict = good_or(found.is_one_row_per_block(), LoadVerdict::Bad);
        let most = format!("up to {rows_per_block_max} in one");
        (
            verdict,
            format!(
                "{rows} rows of a test table in {blocks} blocks, {most} ({source})",
                rows = whole(rows),
                blocks = whole(blocks)
            ),
        )
    });
    let why =
        "The method visits a block for each row; a load into this tablespace would be refused.";
    fact("one row per block", seen, (why, make))
}

fn shape(views: &mut Views<'_>, tablespace: &str, make: &str) -> LoadFact {
    let seen = views.row("tablespace", &[BindValue::from(tablespace)]).map(|row| {
        let of = |at| cell(&row, at);
        let files = match of(4) {
            "YES" => "BIGFILE",
            "NO" => "files of at most 4 million blocks",
            _ => "-",
        };
        let segments = match of(1) {
            "AUTO" => "ASSM",
            _ => "manual segment space management",
        };
        let (status, contents) = (of(5), of(6));
        let verdict = good_or(status == "ONLINE" && contents == "PERMANENT", LoadVerdict::Bad);
        (verdict, format!("blocks of {} bytes, {files}, {segments}, {status}, {contents}", of(0)))
    });
    let why = "Tables need a permanent tablespace that is online.";
    fact(format!("tablespace {tablespace}"), seen, (why, make))
}

fn data_room(views: &mut Views<'_>, plan: &LoadPlan, tablespace: &str, make: &str) -> LoadFact {
    let needed = data_bytes(plan);
    let free = views.free_bytes(tablespace);
    let files = views.files("file_room", tablespace).map_err(ungranted("sys.dba_data_files"));
    let schemas = match plan.schemas.len() {
        1 => "1 schema".to_owned(),
        more => format!("{more} schemas"),
    };
    let wanted = format!("{} needed for {schemas}", bytes(needed));
    let seen = free.and_then(|free| match files {
        Ok(files) => {
            let verdict = good_or(free + growth(&files) >= needed, LoadVerdict::Bad);
            let grows = match growth(&files) {
                0 => "its files do not extend".to_owned(),
                growth => format!("its files extend by {}", bytes(growth)),
            };
            Ok((verdict, format!("{wanted}; {} free, {grows}", bytes(free))))
        }
        Err(_) if free >= needed => {
            Ok((LoadVerdict::Good, format!("{wanted}; {} free", bytes(free))))
        }
        Err(reason) => Err(format!("{wanted}; {} free; growth of files: {reason}", bytes(free))),
    });
    let why = "The load ends with ORA-01653 when the tablespace is full.";
    fact("room for the data", seen, (why, make))
}

fn quota(views: &mut Views<'_>, plan: &LoadPlan, tablespace: &str) -> LoadFact {
    let needed = data_bytes(plan);
    let seen = views.quota_bytes(tablespace).map(|quota| match quota {
        None => (LoadVerdict::Good, "unlimited".to_owned()),
        Some(left) if left >= needed => (LoadVerdict::Good, format!("{} left", bytes(left))),
        Some(left) => {
            (LoadVerdict::Bad, format!("{} left of {} needed", bytes(left), bytes(needed)))
        }
    });
    let why = "The load ends with ORA-01536 at the quota.";
    let quota = format!("ALTER USER ... QUOTA UNLIMITED ON {tablespace};");
    let advice = format!("echo \"{quota}\" | sqlplus / as sysdba");
    fact("quota", seen, (why, advice))
}

fn undo(views: &mut Views<'_>) -> LoadFact {
    let seen = views.row("undo_tablespace", &[]).map_err(ungranted("sys.v_$parameter"));
    let seen = seen.and_then(|row| {
        let name = cell(&row, 0);
        let files = views.files("file_room", name).map_err(ungranted("sys.dba_data_files"))?;
        let verdict = good_or(files.bytes_max >= UNDO_BYTES_MIN, LoadVerdict::Note);
        Ok((verdict, format!("{name}: {}", grown(&files))))
    });
    let why =
        "Runs of UPDATEs keep old row versions there: ORA-30036 or ORA-01555 cost operations.";
    let advice = "echo \"ALTER TABLESPACE ... ADD DATAFILE SIZE 4G;\" | sqlplus / as sysdba";
    fact("room for undo", seen, (why, advice))
}

fn grown(files: &FileRoom) -> String {
    match growth(files) {
        0 => format!("{}, and it does not extend", bytes(files.bytes)),
        _ => format!("{}, extends to {}", bytes(files.bytes), bytes(files.bytes_max)),
    }
}

fn temporary(views: &mut Views<'_>, plan: &LoadPlan) -> LoadFact {
    let needed = plan.rows * SORTED_ENTRY_BYTES * plan.loaders() as u64;
    let name = views.database.look_if_allowed("temporary_tablespace");
    let name = name.first().map_or("", |row| cell(row, 0)).to_owned();
    let files = views.files("temporary_room", &name).map_err(ungranted("sys.dba_temp_files"));
    let seen = files.map(|files| {
        let verdict = good_or(files.bytes_max >= needed, LoadVerdict::Note);
        let sorts = format!("indexes sort up to {}", bytes(needed));
        (verdict, format!("{name}: {}; {sorts}", grown(&files)))
    });
    let why = "Index keys that do not fit into the PGA are sorted there: ORA-01652 ends the load.";
    let advice = "echo \"ALTER TABLESPACE ... ADD TEMPFILE SIZE 4G;\" | sqlplus / as sysdba";
    fact("temporary room", seen, (why, advice))
}

fn archived_logs(views: &mut Views<'_>, plan: &LoadPlan, is_logged: bool) -> LoadFact {
    let seen = archive_room(views, plan, is_logged);
    let why = "A full destination stops the whole database (ORA-00257).";
    let advice = "echo \"ALTER SYSTEM SET db_recovery_file_dest_size=...;\" | sqlplus / as sysdba";
    fact("room for archived logs", seen, (why, advice))
}

fn archive_room(
    views: &mut Views<'_>,
    plan: &LoadPlan,
    is_logged: bool,
) -> Seen<(LoadVerdict, String)> {
    let mode = views.row("log_mode", &[]).map_err(ungranted("sys.v_$database"))?;
    if cell(&mode, 0) == "NOARCHIVELOG" {
        return Ok((LoadVerdict::Good, "not needed: NOARCHIVELOG".to_owned()));
    }
    let in_ranges = plan.degree as usize > plan.schemas.len();
    let is_in_redo = is_logged || in_ranges || cell(&mode, 1) == "YES";
    let redo = if is_in_redo { data_bytes(plan) } else { 0 };
    let writes = match redo {
        0 => "the load writes little redo (NOLOGGING)".to_owned(),
        redo => format!("the load writes at least {} of redo", bytes(redo)),
    };
    let area = views.row("archive_room", &[]);
    let area = area.map_err(|reason| {
        let elsewhere = "logs may go to log_archive_dest_n, whose room no view shows";
        format!("{writes}; recovery area: {reason}; {elsewhere}")
    })?;
    let (size, used) = count(&area, 1).zip(count(&area, 2)).ok_or_else(no_number)?;
    let left = size.saturating_sub(used);
    let verdict = good_or(left >= redo, LoadVerdict::Bad);
    Ok((verdict, format!("{}: {} left; {writes}", cell(&area, 0), bytes(left))))
}
