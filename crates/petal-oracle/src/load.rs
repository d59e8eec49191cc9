//! Loading: fills tables by array INSERTs past the buffer cache, in scattered order, then makes the
//! index and statistics, and proves the placement. Rows of `petal_meta`, written for all schemas in
//! one transaction at the end, make them complete. An interrupted load leaves marked tables without
//! such rows; these do not count as data, and the next setup or drop removes them.
//!
//! If there are more connections than schemas, ranges of a schema are loaded in parallel. Direct
//! path locks a table for one session, so ranges use plain INSERTs. Alternatively, the database
//! copies the first schema.

use petal_host::numbers::whole;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::database::Database;
use super::errors::AtPlace;
use super::link::{BindValue, Connector, Destination};
use super::meta::{self, Tables, cell, number};
use super::session::{CancelStatements, use_hints};
use super::sql::DataPlace;
use super::work::Batches;
use super::{before_run, room, sql};
use petal_engine::server::liveness;
use petal_engine::server::loader::{
    self, Load, LoadState, ProvedSchema, already_loaded, without_mark,
};
use petal_engine::server::meta_table::SchemaMeta;
use petal_engine::server::row_layout::column_bytes;
use petal_engine::{EngineError, LoadPlan, LoadSummary, LoadedSchemaSummary, Placement, Result};
use petal_workload::row::{COLUMNS, Filler, load_stamp};
use petal_workload::scatter::Permutation;

/// Time for a cancelled statement of a load to end: it may undo the work of an hour.
const KILL_AFTER: Duration = Duration::from_secs(15);
/// Rows of one INSERT: about 1.2 MB.
pub const ROWS_PER_CALL: u64 = 500;
/// Minimum size of redo logs; smaller ones switch too often for a test.
const LOG_BYTES_MIN: u64 = 1 << 30;

const COPIES: &str = "the further schemas are copies of the first one: their rows hold the same texts, \
    which storage that deduplicates may keep once";

/// A load in progress.
pub struct Loader<'a> {
    pub connector: &'a dyn Connector,
    pub place: &'a str,
    pub data_place: DataPlace<'a>,
    /// Set if petal loads only the first schema, and the database copies it for the others.
    pub copies_schemas: bool,
    pub load: Load<'a>,
}

impl Loader<'_> {
    pub fn run(&self) -> Result<LoadSummary> {
        let mut database = self.connect("petal setup")?;
        self.check_names(&mut database)?;
        room::refuse_if_short(&mut database, self.load.plan, self.data_place.tablespace)?;
        let advice = redo_advice(&mut database).into_iter().chain(self.logging(&mut database));
        advice.for_each(|line| self.load.progress.note(&line));
        drop(database);
        self.load.show_loading();
        let plan = self.load.plan;
        let (first, further) = plan.schemas.split_at(plan.schemas.len().min(1));
        let rounds: &[&[u32]] = match self.copies_schemas {
            true => &[first, further],
            false => &[&plan.schemas],
        };
        if self.copies_schemas && !further.is_empty() {
            self.load.progress.note(COPIES);
        }
        let loaded = self.load.run_in_rounds(
            rounds,
            &|schema, state| self.load_schema(schema, state),
            || self.complete(),
            || self.clean_up(),
        )?;
        // Schemas are indexed while others load, so that phases have no separate times.
        Ok(loaded.summary(self.load.plan))
    }

    fn connect(&self, purpose: &str) -> Result<Database> {
        let link = self.connector.connect(Destination::Endpoint(0), purpose);
        Database::connected(link, self.place, "connecting")
    }

    /// Returns a note if the database archives its redo and lacks the rows, or if nothing archives
    /// them.
    fn logging(&self, database: &mut Database) -> Option<String> {
        let mode = database.look_if_allowed("log_mode");
        let mode = mode.first()?;
        let line = match (cell(mode, 0), cell(mode, 1), self.data_place.is_logged) {
            ("ARCHIVELOG", "NO", false) => {
                "the load is NOLOGGING: standbys and archived logs lack its rows; for these, load \
                 with ?load=logged"
            }
            ("NOARCHIVELOG", _, true) => {
                "?load=logged: the database archives nothing (NOARCHIVELOG), and direct path \
                 writes no redo there"
            }
            _ => return None,
        };
        Some(line.to_owned())
    }

    /// Refuses table names that belong to others, or to petal data that must stay. Drops the tables
    /// of an interrupted load.
    fn check_names(&self, database: &mut Database) -> Result<()> {
        let marked = marked_tables(database)?;
        let there = meta::own_tables(database)?;
        let complete = match meta::petals(database) {
            // Entries that cannot be read, for example from a later petal, are not overwritten
            // without a request.
            Err(error) if !self.load.plan.replace => return Err(error),
            complete => complete.unwrap_or_default(),
        };
        for &schema in &self.load.plan.schemas {
            let is_complete = complete.iter().any(|meta| meta.about.schema == schema);
            if is_complete && !self.load.plan.replace {
                return Err(already_loaded(self.place, schema));
            }
            let tables = Tables::own(schema);
            for table in [tables.main, tables.scan] {
                if !there.contains(&table.to_uppercase()) {
                    continue;
                }
                if !marked.contains(&table.to_uppercase()) {
                    let instead = "rename it or load as another user";
                    return Err(without_mark(self.place, &format!("a table {table}"), instead));
                }
            }
        }
        let has_meta = there.iter().any(|table| meta::is_meta(table));
        if has_meta {
            before_run::refuse_in_use(database)?;
        } else {
            let making = "making petal_meta";
            database.execute(making, &sql::create_meta(self.data_place.tablespace))?;
            database.execute(making, &filled("comment_meta", ""))?;
        }
        for &schema in &self.load.plan.schemas {
            self.forget(database, schema)?;
            let tables = Tables::own(schema);
            for table in [tables.main, tables.scan] {
                if there.contains(&table.to_uppercase()) {
                    let doing = format!("dropping {table}");
                    database.execute(&doing, &filled("drop_table", &table))?;
                }
            }
        }
        Ok(())
    }

    /// Marks the schema as incomplete. Its tables then count as petal's before they have a mark.
    fn forget(&self, database: &mut Database, schema: u32) -> Result<()> {
        let number = BindValue::Number(schema.into());
        let intent = [number.clone(), BindValue::from(meta::LOADING), BindValue::from("TRUE")];
        let link = &mut database.link;
        link.execute(&sql::section(sql::LOAD, "delete_meta"), &[number])
            .and_then(|_| link.execute(&sql::section(sql::LOAD, "insert_meta"), &intent))
            .and_then(|_| link.commit())
            .at(self.place, "writing petal_meta")
    }

    fn load_schema(&self, schema: u32, state: &LoadState<'_>) -> Result<ProvedSchema> {
        let begin = Instant::now();
        let (plan, tables) = (self.load.plan, Tables::own(schema));
        let filling = Filling { loader: self, schema, state };
        let first = plan.schemas.first().filter(|&&first| self.copies_schemas && first != schema);
        let source = first.map(|&first| Tables::own(first));
        let source = source.as_ref();
        filling.fill(&tables.main, source.map(|source| &*source.main), plan.rows)?;
        filling.fill(&tables.scan, source.map(|source| &*source.scan), plan.scan_rows)?;
        self.connected(schema, state, |database| {
            let (summary, durable) = (self.finish(database, &tables, schema, state)?, None);
            let seconds = begin.elapsed().as_secs_f64();
            Ok(ProvedSchema { summary: LoadedSchemaSummary { seconds, ..summary }, durable })
        })
    }

    /// Works on a separate connection. When the load is over, it asks the database to cancel the
    /// current statement, which may be an index, a copy or a proof of a terabyte.
    fn connected<T>(
        &self,
        schema: u32,
        state: &LoadState<'_>,
        work: impl FnOnce(&mut Database) -> Result<T>,
    ) -> Result<T> {
        let mut database = self.connect(&format!("petal setup {schema}"))?;
        let _ = use_hints(database.link.as_mut());
        let statements = CancelStatements::of(database.link.as_mut());
        let connection = database.link.abort_handle();
        let batches = Batches::default();
        let cancel = || statements.send(self.connector, &batches, KILL_AFTER, || ());
        let is_over = || state.is_over();
        let work = || batches.during(|| work(&mut database));
        liveness::until_over(&connection, &cancel, &is_over, &|| (), work)
    }

    /// Makes index and statistics of a schema's rows, and proves one row per block.
    fn finish(
        &self,
        database: &mut Database,
        tables: &Tables,
        schema: u32,
        state: &LoadState<'_>,
    ) -> Result<LoadedSchemaSummary> {
        let plan = self.load.plan;
        let is_unlogged = !self.data_place.is_logged;
        for table in [&tables.main, &tables.scan].into_iter().filter(|_| is_unlogged) {
            database.execute(&format!("finishing {table}"), &filled("logging", table))?;
        }
        let index = sql::create_index(&tables.main, plan.unique_index, self.data_place);
        let doing = format!("indexing {}", tables.main);
        database.execute(&doing, &index)?;
        if is_unlogged {
            database.execute(&doing, &filled("index_logging", &tables.main))?;
        }
        for table in [&tables.main, &tables.scan] {
            state.go_on()?;
            let doing = format!("gathering statistics of {table}");
            database.execute(&doing, &filled("gather", table))?;
        }
        state.go_on()?;
        self.clean(database, &tables.scan, plan.scan_rows)?;
        state.go_on()?;
        let placement = placement(database, &tables.main)?;
        let otherwise = "this tablespace does not keep one row per block";
        let placement = loader::prove(self.place, &tables.main, placement, plan.rows, otherwise)?;
        let segments = meta::segments(database)?;
        let size = |name: &str| segments.get(name).copied();
        let index_bytes = size(&format!("{}_custid", tables.main));
        Ok(LoadedSchemaSummary {
            schema: SchemaMeta::of_plan(plan, schema).loaded(size(&tables.main), index_bytes),
            // An empty table may have no segment.
            scan_bytes: size(&tables.scan).or((plan.scan_rows == 0).then_some(0)),
            seconds: 0.0,
            placement,
        })
    }

    /// Lets full scans of this session finish the blocks that the load left uncommitted: here the
    /// scan table's blocks, and in the proof the main table's. Without it the first read-only run
    /// would write each block.
    fn clean(&self, database: &mut Database, table: &str, rows: u64) -> Result<()> {
        let buffered = database.link.execute(&sql::section(sql::LOAD, "buffered_scans"), &[]);
        if let Err(error) = buffered {
            self.load.progress.note(&format!(
                "block cleanout after the load may not reach the disk ({error}): the first run \
                 may write; its finding reads-wrote counts it"
            ));
        }
        if rows > 0 {
            database.query(
                &format!("finishing blocks of {table}"),
                &filled("clean", table),
                &[],
            )?;
        }
        Ok(())
    }

    /// Marks all schemas as proved, in one transaction of a fresh session, which was not idle for
    /// hours.
    fn complete(&self) -> Result<()> {
        let link = &mut self.connect("petal setup")?.link;
        let insert = sql::section(sql::LOAD, "insert_meta");
        let delete = sql::section(sql::LOAD, "delete_meta");
        let entries = meta::entries(self.load.plan, self.data_place.tablespace);
        let mut write = || {
            for &schema in &self.load.plan.schemas {
                let number = BindValue::Number(schema.into());
                link.execute(&delete, std::slice::from_ref(&number))?;
                for (key, value) in &entries {
                    let entry = [number.clone(), BindValue::from(key), BindValue::from(value)];
                    link.execute(&insert, &entry)?;
                }
            }
            link.commit()
        };
        write().at(self.place, "writing petal_meta")
    }

    /// Removes the remains of a failure.
    fn clean_up(&self) -> Result<()> {
        let mut database = self.connect("petal setup")?;
        let marked = marked_tables(&mut database)?;
        let tables = self.load.plan.schemas.iter().map(|&schema| Tables::own(schema));
        let tables = tables.flat_map(|tables| [tables.main, tables.scan]);
        let mut drop = |table: String| {
            database.execute(&format!("removing {table}"), &filled("drop_table", &table))
        };
        let left = tables.filter(|table| marked.contains(&table.to_uppercase()));
        left.map(&mut drop).fold(Ok(()), Result::and)
    }
}

pub fn filled(name: &str, table: &str) -> String {
    sql::filled(sql::LOAD, name, &[("table", table), ("mark", sql::MARK)])
}

/// Returns tables with a name of petal's that have its mark or belong to a load that did not end.
pub fn marked_tables(database: &mut Database) -> Result<Vec<String>> {
    let query = sql::filled(sql::LOOK, "marked_tables", &[("mark", sql::MARK)]);
    let rows = database.query("looking for petal's tables", &query, &[])?;
    let there = meta::own_tables(database)?;
    let mut names: Vec<String> = rows.iter().map(|row| cell(row, 0).to_owned()).collect();
    names.retain(|name| there.contains(name));
    if names.iter().any(|name| meta::is_meta(name)) {
        for schema in meta::loading(database)? {
            let tables = Tables::own(schema);
            for table in [tables.main.to_uppercase(), tables.scan.to_uppercase()] {
                if there.contains(&table) && !names.contains(&table) {
                    names.push(table);
                }
            }
        }
    }
    Ok(names)
}

/// Drops tables with petal's mark; petal_meta last, so that an interrupted drop can be repeated.
pub fn drop_all(database: &mut Database) -> Result<Vec<String>> {
    let mut marked = marked_tables(database)?;
    if marked.iter().any(|table| meta::is_meta(table)) {
        before_run::refuse_in_use(database)?;
    }
    marked.sort_by_key(|table| meta::is_meta(table));
    let mut dropped = Vec::new();
    for table in marked {
        let name = table.to_lowercase();
        database.execute(&format!("dropping {table}"), &filled("drop_table", &name))?;
        dropped.push(format!("table {name} at {}", database.place));
    }
    Ok(dropped)
}

/// Creates a table with petal's mark.
pub fn create_marked(
    database: &mut Database,
    table: &str,
    plan: &LoadPlan,
    place: DataPlace<'_>,
) -> Result<()> {
    let create = sql::create_table(table, column_bytes(plan.block_size), place);
    database.execute(&format!("making {table}"), &create)?;
    database.execute(&format!("marking {table}"), &filled("comment_table", table))
}

pub fn placement(database: &mut Database, table: &str) -> Result<Placement> {
    let doing = format!("counting blocks of {table}");
    let rows = database.query(&doing, &filled("placement", table), &[])?;
    let count = |at| rows.first().map_or(Ok(0), |row| meta::known(database, &doing, row, at));
    Ok(Placement {
        rows: count(0)?,
        blocks: count(1)?,
        rows_per_block_max: count(2)?,
        // A ROWID names the block where a row begins, not whether the row continues elsewhere.
        overflow_blocks: None,
        source: "DBMS_ROWID",
    })
}

/// Returns a line for each redo setting that would spoil a test, if the user may see it.
pub fn redo_advice(database: &mut Database) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(row) = database.look_if_allowed("redo_logs").first()
        && number(row, 1) > 0
    {
        let (groups, smallest) = (number(row, 0), number(row, 1));
        let size = petal_host::numbers::bytes(smallest);
        if smallest < LOG_BYTES_MIN {
            lines.push(format!(
                "{groups} redo log groups, the smallest of {size}: logs under 1 GiB switch too \
                 often for a write test; ALTER DATABASE ADD LOGFILE SIZE 4G, then drop the small \
                 ones"
            ));
        }
    }
    if let Some(row) = database.look_if_allowed("log_mode").first() {
        if cell(row, 0) == "ARCHIVELOG" {
            lines.push(
                "the database archives its redo: archiving reads and writes as much again, during \
                 the test"
                    .to_owned(),
            );
        }
        if cell(row, 1) == "YES" {
            lines.push("FORCE LOGGING: the load writes redo although it is NOLOGGING".to_owned());
        }
    }
    lines
}

/// A schema being filled.
struct Filling<'a> {
    loader: &'a Loader<'a>,
    schema: u32,
    state: &'a LoadState<'a>,
}

impl Filling<'_> {
    /// Creates a table and fills it, with scattered keys: by one session in the order of its
    /// blocks, by several in parallel, or from `source` in the database.
    fn fill(&self, table: &str, source: Option<&str>, rows: u64) -> Result<()> {
        let (loader, state) = (self.loader, self.state);
        let is_parted = source.is_none() && state.sessions > 1;
        loader.connected(self.schema, state, |database| {
            self.create(database, table, rows)?;
            match source {
                _ if is_parted => Ok(()),
                Some(source) => self.copy(database, table, source, rows),
                None => self.write(database, table, rows, 1..rows),
            }
        })?;
        if !is_parted {
            return Ok(());
        }
        state.in_ranges(1..rows, |range| {
            loader
                .connected(self.schema, state, |database| self.write(database, table, rows, range))
        })
    }

    /// Creates a table with its first row, which determines the number of rows per block.
    fn create(&self, database: &mut Database, table: &str, rows: u64) -> Result<()> {
        create_marked(database, table, self.loader.load.plan, self.loader.data_place)?;
        if rows == 0 {
            return Ok(());
        }
        self.write(database, table, rows, 0..1)?;
        database.execute(&format!("preparing {table}"), &filled("minimize", table))
    }

    /// Writes the rows at these positions: by direct path if one session writes all but the first.
    fn write(
        &self,
        database: &mut Database,
        table: &str,
        rows: u64,
        places: Range<u64>,
    ) -> Result<()> {
        let (loader, plan) = (self.loader, self.loader.load.plan);
        let doing = format!("writing rows of {table}");
        let keys = Permutation::new(rows.max(1), plan.seed);
        let mut made = InsertRows::new(self.schema, plan.filler, column_bytes(plan.block_size));
        let is_direct = self.state.sessions == 1 && places.start > 0;
        let insert = sql::insert(if is_direct { "insert_direct" } else { "insert_rows" }, table);
        let mut at = places.start;
        while at < places.end {
            self.state.go_on()?;
            let count = ROWS_PER_CALL.min(places.end - at);
            made.make((at..at + count).map(|row| keys.apply(row) + 1));
            let binds = made.binds();
            let link = &mut database.link;
            let sent = match binds.as_slice() {
                [row] => link.execute(&insert, row),
                rows => link.execute_many(&insert, rows),
            };
            sent.and_then(|_| link.commit()).at(loader.place, &doing)?;
            loader.load.progress.advance(count * u64::from(plan.block_size));
            at += count;
            let is_first = places.start == 1 && at == 1 + count;
            if is_first && at < places.end {
                self.prove_early(database, table)?;
            }
        }
        Ok(())
    }

    /// Stops a load at its first rows if the tablespace does not keep one in each block.
    fn prove_early(&self, database: &mut Database, table: &str) -> Result<()> {
        let (plan, tablespace) = (self.loader.load.plan, self.loader.data_place.tablespace);
        let Placement { rows, blocks, rows_per_block_max, source, .. } =
            match placement(database, table)? {
                placement if placement.is_one_row_per_block() => return Ok(()),
                placement => placement,
            };
        let all = (plan.rows + plan.scan_rows) * plan.schemas.len() as u64;
        let bytes = all * u64::from(plan.block_size);
        let statement = room::another(database, tablespace, bytes, plan.block_size);
        Err(EngineError::Data(format!(
            "{}: {table}: not one row per block after the first rows: {rows} rows in {blocks} \
             blocks, up to {rows_per_block_max} in one ({source}); the load ends here, because \
             tablespace {tablespace} does not keep one row per block; one that does: {statement}",
            self.loader.place,
            rows = whole(rows),
            blocks = whole(blocks)
        )))
    }

    /// Copies the missing rows, all but the first, inside the database.
    fn copy(&self, database: &mut Database, table: &str, source: &str, rows: u64) -> Result<()> {
        let (loader, plan) = (self.loader, self.loader.load.plan);
        let first = Permutation::new(rows.max(1), plan.seed).apply(0) + 1;
        let copy = sql::filled(sql::LOAD, "copy_rows", &[("table", table), ("source", source)]);
        let link = &mut database.link;
        let copied = link.execute(&copy, &[BindValue::Number(first.cast_signed())]);
        let copied = copied.and_then(|_| link.commit());
        copied.at(loader.place, &format!("copying {source} to {table}"))?;
        loader.load.progress.advance(rows.saturating_sub(1) * u64::from(plan.block_size));
        Ok(())
    }
}

/// Rows of one INSERT, with reused memory.
pub struct InsertRows {
    schema: u32,
    filler: Filler,
    width: usize,
    keys: Vec<i64>,
    /// Text of all columns of all rows, without separators.
    text: Vec<u8>,
}

impl InsertRows {
    pub fn new(schema: u32, filler: Filler, width: usize) -> Self {
        Self { schema, filler, width, keys: Vec::new(), text: Vec::new() }
    }

    pub fn make(&mut self, keys: impl Iterator<Item = u64>) {
        self.keys.clear();
        self.keys.extend(keys.map(u64::cast_signed));
        self.text.resize(self.keys.len() * COLUMNS * self.width, 0);
        let rows = self.text.chunks_exact_mut(COLUMNS * self.width);
        for (&key, row) in self.keys.iter().zip(rows) {
            let stamp = load_stamp(self.schema, key.cast_unsigned());
            for (column, number) in row.chunks_exact_mut(self.width).zip(2..) {
                self.filler.fill(column, stamp, number);
            }
        }
    }

    pub fn binds(&self) -> Vec<Vec<BindValue<'_>>> {
        let rows = self.text.chunks_exact(COLUMNS * self.width);
        let texts = |row| -> Vec<BindValue<'_>> {
            let columns = <[u8]>::chunks_exact(row, self.width);
            // Filler is ASCII.
            columns
                .map(|text| BindValue::from(std::str::from_utf8(text).unwrap_or_default()))
                .collect()
        };
        self.keys
            .iter()
            .zip(rows)
            .map(|(&key, row)| {
                let mut binds = Vec::with_capacity(COLUMNS + 1);
                binds.push(BindValue::Number(key));
                binds.extend(texts(row));
                binds
            })
            .collect()
    }
}
