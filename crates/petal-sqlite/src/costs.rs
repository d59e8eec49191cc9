//! Accesses for `petal costs`. SQLite's planner has fixed prices, so that only times and their ratio
//! follow. Each session has a separate cache, which SQLite counts exactly.
//!
//! Data are read without locks, as they never change meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rusqlite::Connection;

use super::connection::{Access, AtFile as _, open, set_cache_pages};
use super::io::{ConnectionRecorder, IoContext, IoSource};
use super::meta::FileMeta;
use super::vfs::take_cache_counts;
use super::{Sqlite, layout};
use petal_engine::costs::{
    COST_SCHEMAS, CostAccess, CostFacts, CostProbes, CostRead, CostSession, CostStretch, FILTERS,
};
use petal_engine::{EngineError, Result};

/// Cache of each connection unless the URL says another: room for the upper levels of a large table.
const CACHE_BYTES: u64 = 32 << 20;
/// Consecutive rows of the main table, in the order of its blocks.
const SEQUENTIAL: &str = "SELECT COUNT(c2) FROM cf1 WHERE rowid BETWEEN ?1 AND ?2";
const NOTES: [&str; 2] = [
    "SQLite's planner has fixed prices; ANALYZE gives it the number of rows, and INDEXED BY or a unary + \
     in a condition chooses a plan",
    "SQLite reads a block at a time; only the operating system reads ahead, which needs DIRECT_IO=off",
];

impl CostProbes for Sqlite {
    fn check(&self) -> Result<u64> {
        Ok(self.shared.options.cache_bytes.unwrap_or(CACHE_BYTES))
    }

    fn facts(&self) -> Result<CostFacts> {
        let files = (1..=COST_SCHEMAS).map(|number| self.shared.folder.loaded_file(number));
        Ok(CostFacts {
            has_short_rows: true,
            data_files: files.collect::<Result<_>>()?,
            is_direct: self.shared.direct,
            notes: NOTES.map(str::to_owned).into(),
            ..CostFacts::default()
        })
    }

    fn open_session(&self, number: u32, rows: u64) -> Result<Box<dyn CostSession>> {
        let cache_bytes = self.check()?;
        let of = |schema| {
            let path = self.shared.folder.loaded_file(schema)?;
            let (recorder, context) = self.shared.recorded(IoSource::Session);
            let connection = open(&path, Access::Unchanging, &context)?;
            context.during(|| {
                let block_bytes = FileMeta::read(&connection, &path)?.block_bytes();
                set_cache_pages(&connection, cache_bytes / block_bytes.max(1))
                    .at(&path, "sizing the cache")
            })?;
            let name = path.display().to_string();
            Ok::<_, EngineError>(CostFile { connection, context, _recorder: recorder, name })
        };
        let session = SqliteCosts { random: of(1)?, sequential: of(2)?, rows };
        if rows > 0 {
            session.random.during(|connection| make_rows(connection, rows))?;
        }
        if number == 1 {
            session.check_plans()?;
        }
        Ok(Box::new(session))
    }
}

/// A connection to one file.
struct CostFile {
    connection: Connection,
    context: IoContext,
    /// Counts go here as long as it is kept.
    _recorder: Arc<ConnectionRecorder>,
    name: String,
}

impl CostFile {
    fn during<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        self.context
            .during(|| work(&self.connection))
            .at(Path::new(&self.name), "measuring an access")
    }
}

struct SqliteCosts {
    /// Also has the short rows, in memory.
    random: CostFile,
    sequential: CostFile,
    rows: u64,
}

/// Short rows in a temporary table in memory, with an index.
fn make_rows(connection: &Connection, rows: u64) -> rusqlite::Result<()> {
    // 7919 is prime, so that the second column has every key once, scattered.
    connection.execute_batch(&format!(
        "PRAGMA temp_store = MEMORY;
         CREATE TEMP TABLE petal_costs(a INTEGER, b INTEGER);
         WITH RECURSIVE n(a) AS (SELECT 0 UNION ALL SELECT a + 1 FROM n LIMIT {rows})
         INSERT INTO petal_costs SELECT a, a * 7919 % {rows} FROM n;
         CREATE INDEX temp.petal_costs_a ON petal_costs(a)"
    ))
}

/// The statement of an access. Accesses to the large tables have two bounds.
fn statement(access: CostAccess, rows: u64) -> Option<String> {
    let from = "SELECT COUNT(b) FROM petal_costs";
    let filters: Vec<String> = (0..FILTERS).map(|at| format!("b >= -{at}")).collect();
    Some(match access {
        CostAccess::Random => layout::SELECT.to_owned(),
        CostAccess::Sequential => SEQUENTIAL.to_owned(),
        CostAccess::Rows => from.to_owned(),
        CostAccess::FilteredRows => format!("{from} WHERE {}", filters.join(" AND ")),
        CostAccess::IndexEntries => format!(
            "SELECT COUNT(a) FROM petal_costs INDEXED BY petal_costs_a WHERE a BETWEEN 0 AND {}",
            rows.saturating_sub(1)
        ),
        CostAccess::Lookups => "SELECT COUNT(i.a) FROM petal_costs o CROSS JOIN \
                                petal_costs i INDEXED BY petal_costs_a ON i.a = o.b"
            .to_owned(),
        CostAccess::ReadAhead(_) => return None,
    })
}

impl SqliteCosts {
    fn file(&self, access: CostAccess) -> &CostFile {
        if access == CostAccess::Sequential { &self.sequential } else { &self.random }
    }

    /// Refuses another plan than each access is measured by.
    fn check_plans(&self) -> Result<()> {
        let mut meant = vec![
            (CostAccess::Random, "SEARCH cf1 USING INDEX cf1_custid"),
            (CostAccess::Sequential, "SEARCH cf1 USING INTEGER PRIMARY KEY"),
        ];
        if self.rows > 0 {
            meant.extend([
                (CostAccess::Rows, "SCAN petal_costs"),
                (CostAccess::IndexEntries, "SEARCH petal_costs USING COVERING INDEX petal_costs_a"),
                (CostAccess::Lookups, "SEARCH i USING COVERING INDEX petal_costs_a"),
            ]);
        }
        for (access, wanted) in meant {
            let Some(sql) = statement(access, self.rows) else { continue };
            let file = self.file(access);
            let steps = file.during(|connection| {
                let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
                for at in 1..=explained.parameter_count() {
                    explained.raw_bind_parameter(at, at as i64)?;
                }
                let mut rows = explained.raw_query();
                let mut steps = Vec::new();
                while let Some(row) = rows.next()? {
                    steps.push(row.get::<_, String>(3)?);
                }
                Ok(steps)
            })?;
            if !steps.iter().any(|step| step.starts_with(wanted)) {
                return Err(EngineError::Database(format!(
                    "{}: the plan is not \"{wanted}\", which petal measures, but: {}; please report \
                     this",
                    file.name,
                    steps.join("; ")
                )));
            }
        }
        Ok(())
    }
}

impl CostSession for SqliteCosts {
    fn read(&mut self, access: CostAccess, stretch: CostStretch) -> Result<CostRead> {
        let Some(sql) = statement(access, self.rows) else {
            let text = "SQLite asks for no blocks ahead".to_owned();
            return Err(EngineError::Database(text));
        };
        let file = self.file(access);
        let (first, end) = (stretch.first + 1, stretch.first + stretch.length);
        let counted = |connection: &Connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            if access.reads_blocks() {
                statement.raw_bind_parameter(1, first.cast_signed())?;
                statement.raw_bind_parameter(2, end.cast_signed())?;
            }
            take_cache_counts(connection);
            let begin = Instant::now();
            let mut rows = statement.raw_query();
            let units = match rows.next()? {
                Some(row) => row.get::<_, i64>(0)?.cast_unsigned(),
                None => 0,
            };
            // To the end, or the statement would stay open.
            while rows.next()?.is_some() {}
            let elapsed = begin.elapsed();
            // Each row is in another block; the few other blocks are of the index and the upper levels.
            let hits = units.saturating_sub(take_cache_counts(connection).misses);
            let blocks = access.reads_blocks().then_some((units, hits));
            Ok(CostRead { elapsed, units, blocks })
        };
        file.during(counted)
    }
}
