//! Accesses and settings for `petal costs`: the statement of each access, the session settings that
//! force its plan, and the server's own count of the blocks.
//!
//! Short rows are in a temporary table, which no other role sees and which ends with its session.

use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use tokio_postgres::Statement;

use super::answer::{Columns as _, NonNegative, pairs};
use super::client::Client;
use super::connect::{Endpoint, server_version};
use super::this_host::LocalPostgres;
use super::{Postgres, schema, servers};
use petal_engine::costs::{
    CostAccess, CostFacts, CostProbes, CostRead, CostSession, CostStretch, FILTERS, Price,
    PriceSetting, PriceUnit,
};
use petal_engine::{EngineError, Result};

/// The first server that reads a range of blocks by their numbers.
const RANGE_VERSION_MIN: u32 = 140_000;
/// Numbers of blocks to ask for ahead.
const DEPTHS: [u32; 6] = [1, 4, 16, 64, 256, 1000];
/// Buffers for the short rows of a session and their index.
const ROW_BUFFERS: &str = "64MB";

const SETTINGS: [(&str, Price, PriceUnit); 7] = [
    ("seq_page_cost", Price::SequentialBlock, PriceUnit::SequentialBlock),
    ("random_page_cost", Price::RandomBlock, PriceUnit::SequentialBlock),
    ("cpu_tuple_cost", Price::Row, PriceUnit::SequentialBlock),
    ("cpu_index_tuple_cost", Price::IndexEntry, PriceUnit::SequentialBlock),
    ("cpu_operator_cost", Price::Operator, PriceUnit::SequentialBlock),
    ("effective_io_concurrency", Price::DepthOfSessions, PriceUnit::Blocks),
    ("maintenance_io_concurrency", Price::Depth, PriceUnit::Blocks),
];

/// Settings of PostgreSQL 18 and later: who reads ahead.
const IO_METHOD: &str = "io_method";
/// Their number, and from 19 on its most.
const IO_WORKERS: [&str; 2] = ["io_workers", "io_max_workers"];

const NOTES: [&str; 2] = [
    "effective_io_concurrency is of several sessions (queries), maintenance_io_concurrency of one",
    "the planner prices no read-ahead: it may choose a scan where a bitmap scan is faster",
];

/// Plans are forced by these; each access sets all of them.
const SWITCHES: [&str; 10] = [
    "enable_seqscan",
    "enable_indexscan",
    "enable_indexonlyscan",
    "enable_bitmapscan",
    "enable_tidscan",
    "enable_hashjoin",
    "enable_mergejoin",
    "enable_material",
    "enable_sort",
    "enable_nestloop",
];

impl CostProbes for Postgres {
    fn check(&self) -> Result<u64> {
        if self.servers.all.len() > 1 {
            return Err(EngineError::Setting(format!(
                "{}: it names {} servers, and costs are one server's; name one of them",
                self.shared.url,
                self.servers.all.len()
            )));
        }
        let mut client = self.connect_first()?;
        let (server, version) = (client.server.clone(), server_version(&mut client)?);
        if version < RANGE_VERSION_MIN {
            return Err(EngineError::Environment(format!(
                "{server}: PostgreSQL {} reads no range of blocks by their numbers, which petal costs \
                 needs; name a server of version {} or later",
                version / 10_000,
                RANGE_VERSION_MIN / 10_000
            )));
        }
        if servers::is_standby(self.first()?)? {
            return Err(EngineError::Environment(format!(
                "{server}: it is a standby, which makes no temporary table for petal costs; name the \
                 primary, or another server on this storage"
            )));
        }
        let sql = "SELECT pg_catalog.pg_size_bytes(pg_catalog.current_setting('shared_buffers'))";
        let NonNegative(cache_bytes) = client.ask_value("asking for its cache", sql, &[])?;
        Ok(cache_bytes)
    }

    fn facts(&self) -> Result<CostFacts> {
        let mut client = self.connect_first()?;
        let names = SETTINGS.iter().map(|(name, ..)| *name);
        let names: Vec<&str> = names.chain([IO_METHOD]).chain(IO_WORKERS).collect();
        let asked = "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings \
                     WHERE name = ANY($1)";
        let rows = client.ask("asking for its prices", asked, &[&names])?;
        let present: Vec<(String, String)> = pairs(&rows)?;
        let find = |name: &str| present.iter().find(|(of, _)| of == name).map(|(_, to)| to.clone());
        let settings = SETTINGS.iter().map(|(name, price, unit)| PriceSetting {
            name: (*name).to_owned(),
            price: *price,
            unit: *unit,
            factor: 1.0,
            fixed_pct: None,
            present: find(name),
            statement: Some(format!("ALTER SYSTEM SET {name} = {{value}};")),
        });
        let method = find(IO_METHOD);
        let readers = method.as_ref().filter(|method| *method == "worker").and_then(|_| {
            IO_WORKERS.iter().find_map(|name| Some((*name, find(name)?.parse::<u32>().ok()?)))
        });
        let of_method = method.map(|method| {
            format!(
                "{IO_METHOD} is {method}{}: the numbers of blocks to ask for ahead are for it. Another one \
                 needs a restart; measure again after it",
                readers.map_or_else(String::new, |(name, count)| format!(", with {name} {count}"))
            )
        });
        let about = "SELECT coalesce(pg_catalog.current_setting('debug_io_direct', true), ''), \
             d.blks_hit, d.blks_read FROM pg_catalog.pg_stat_database d \
             WHERE d.datname = pg_catalog.current_database()";
        let row = client.ask_row("asking for its cache", about, &[])?;
        let [NonNegative(hits), NonNegative(reads)] = [row.read(1)?, row.read(2)?];
        let visited = hits.saturating_add(reads);
        Ok(CostFacts {
            hit_share: (visited > 0).then(|| hits as f64 / visited as f64),
            data_files: data_files(self.first()?, &mut client)?,
            is_direct: row.read::<String>(0)?.contains("data"),
            has_short_rows: true,
            readers: readers.map(|(name, count)| (name.to_owned(), count)),
            depths: DEPTHS.to_vec(),
            settings: settings.collect(),
            joint_statement: None,
            reload: Some("SELECT pg_reload_conf();".to_owned()),
            notes: of_method.into_iter().chain(NOTES.map(str::to_owned)).collect(),
        })
    }

    fn open_session(&self, number: u32, rows: u64) -> Result<Box<dyn CostSession>> {
        let client = self.first()?.connect(&format!("petal costs {number}"))?;
        Ok(Box::new(PostgresCosts::new(client, rows)?))
    }
}

/// Files of both main tables if the server's folder is seen from here, else none.
fn data_files(endpoint: &Endpoint, client: &mut Client) -> Result<Vec<PathBuf>> {
    let Some(Ok(server)) = LocalPostgres::find(endpoint, client) else {
        return Ok(Vec::new());
    };
    let mut files = Vec::new();
    for number in 1..=2 {
        let sql = "SELECT pg_catalog.pg_relation_filepath(pg_catalog.to_regclass($1))";
        let table = format!("{}.cf1", schema::name(number));
        let path: String = client.ask_value("asking for its files", sql, &[&table])?;
        // Never outside of the server's folder.
        let is_below =
            Path::new(&path).components().all(|part| matches!(part, Component::Normal(_)));
        let Some(first) = server.see(&path).ok().filter(|first| is_below && first.is_file()) else {
            return Ok(Vec::new());
        };
        let later = (1..).map_while(|segment| server.see(format!("{path}.{segment}")).ok());
        let later: Vec<PathBuf> = later.take_while(|file| file.is_file()).collect();
        files.push(first);
        files.extend(later);
    }
    Ok(files)
}

/// A session with the statements of every access.
struct PostgresCosts {
    client: Client,
    random: Statement,
    sequential: Statement,
    /// Blocks of a table visited and found in this transaction.
    counted: Statement,
    /// Statements on short rows; `None` without such rows.
    rows: Option<ShortRows>,
}

struct ShortRows {
    rows: Statement,
    filtered: Statement,
    entries: Statement,
    lookups: Statement,
}

impl PostgresCosts {
    fn new(mut client: Client, rows: u64) -> Result<Self> {
        let doing = "preparing a session of petal costs";
        client.run(
            doing,
            "SET jit = off; SET max_parallel_workers_per_gather = 0; \
             SET plan_cache_mode = force_generic_plan; SET synchronize_seqscans = off",
        )?;
        let [random, sequential] = [1, 2].map(schema::name);
        let count = "SELECT pg_catalog.count(*) FROM";
        let tid = |number: u32| format!("${number}::pg_catalog.text::pg_catalog.tid");
        let mut prepare = |sql: &str| client.prepare_for(doing, sql);
        let mut session = Self {
            random: prepare(&format!("{count} {random}.cf1 WHERE custid BETWEEN $1 AND $2"))?,
            sequential: prepare(&format!(
                "{count} {sequential}.cf1 WHERE ctid >= {} AND ctid < {}",
                tid(1),
                tid(2)
            ))?,
            counted: prepare(
                "SELECT pg_catalog.pg_stat_get_xact_blocks_fetched(c.oid), \
                 pg_catalog.pg_stat_get_xact_blocks_hit(c.oid) FROM pg_catalog.pg_class c \
                 WHERE c.oid = pg_catalog.to_regclass($1)",
            )?,
            rows: None,
            client,
        };
        if rows > 0 {
            session.rows = Some(ShortRows::make(&mut session.client, rows)?);
        }
        session.check_plans()?;
        Ok(session)
    }

    /// Refuses another plan than each access is measured by.
    fn check_plans(&mut self) -> Result<()> {
        let [random, sequential] = [1, 2].map(schema::name);
        let by_key = format!("{random}.cf1 WHERE custid BETWEEN 1 AND 2");
        let by_block = format!("{sequential}.cf1 WHERE ctid >= '(0,0)' AND ctid < '(1,0)'");
        let rows = "pg_temp.petal_costs";
        let mut meant = vec![
            (CostAccess::Random, by_key.clone(), "Index Scan using cf1_custid on cf1"),
            (CostAccess::ReadAhead(1), by_key, "Bitmap Heap Scan on cf1"),
            (CostAccess::Sequential, by_block, "Tid Range Scan on cf1"),
        ];
        if self.rows.is_some() {
            meant.extend([
                (CostAccess::Rows, rows.to_owned(), "Seq Scan on petal_costs"),
                (
                    CostAccess::IndexEntries,
                    format!("{rows} WHERE a BETWEEN 0 AND 1"),
                    "Index Only Scan using petal_costs_a on petal_costs",
                ),
                (
                    CostAccess::Lookups,
                    format!("{rows} o JOIN {rows} i ON i.a = o.b"),
                    "Index Only Scan using petal_costs_a on petal_costs i",
                ),
            ]);
        }
        for (access, from, wanted) in meant {
            self.switch(access)?;
            let sql = format!("EXPLAIN (COSTS OFF) SELECT pg_catalog.count(*) FROM {from}");
            let lines = self.client.ask("explaining an access", &sql, &[])?;
            let lines: Vec<String> = lines.iter().map(|row| row.read(0)).collect::<Result<_>>()?;
            if !lines.iter().any(|line| line.trim().trim_start_matches("->").trim() == wanted) {
                return Err(EngineError::Database(format!(
                    "{}: the plan is not \"{wanted}\", which petal measures, but: {}; look for \
                     settings of the role or the database that forbid it",
                    self.client.server,
                    lines.join("; ")
                )));
            }
        }
        Ok(())
    }

    /// Forces the plan of this access.
    fn switch(&mut self, access: CostAccess) -> Result<()> {
        let on: &[&str] = match access {
            CostAccess::Random => &["enable_indexscan"],
            CostAccess::ReadAhead(_) => &["enable_bitmapscan"],
            CostAccess::Sequential => &["enable_tidscan"],
            CostAccess::Rows | CostAccess::FilteredRows => &["enable_seqscan"],
            CostAccess::IndexEntries => &["enable_indexonlyscan", "enable_indexscan"],
            CostAccess::Lookups => {
                &["enable_seqscan", "enable_indexonlyscan", "enable_indexscan", "enable_nestloop"]
            }
        };
        let switches = SWITCHES.map(|name| {
            format!("SET {name} = {}; ", if on.contains(&name) { "on" } else { "off" })
        });
        let depth = match access {
            CostAccess::ReadAhead(depth) => depth,
            _ => 0,
        };
        let sql = format!("{}SET effective_io_concurrency = {depth}", switches.concat());
        self.client.run("forcing a plan", &sql)
    }

    fn counted(&mut self, schema: u32) -> Result<(u64, u64)> {
        let table = format!("{}.cf1", schema::name(schema));
        let row = self.client.ask_row("counting blocks", &self.counted, &[&table])?;
        Ok((row.read::<NonNegative>(0)?.0, row.read::<NonNegative>(1)?.0))
    }

    /// Executes a statement that counts, and times it.
    fn timed(
        &mut self,
        statement: &Statement,
        parameters: super::client::Parameters<'_>,
    ) -> Result<(Duration, u64)> {
        let begin = Instant::now();
        let row = self.client.ask_row("measuring an access", statement, parameters)?;
        let elapsed = begin.elapsed();
        Ok((elapsed, row.read::<NonNegative>(0)?.0))
    }

    /// Reads blocks of a main table, in a transaction of which the server counts them.
    fn read_blocks(&mut self, access: CostAccess, stretch: CostStretch) -> Result<CostRead> {
        let schema = if access == CostAccess::Sequential { 2 } else { 1 };
        let [first, end] = [stretch.first, stretch.first + stretch.length].map(u64::cast_signed);
        self.client.run("beginning to count", "BEGIN")?;
        let before = self.counted(schema)?;
        let (elapsed, units) = match access {
            CostAccess::Sequential => {
                let statement = self.sequential.clone();
                self.timed(&statement, &[&tid(first), &tid(end)])?
            }
            _ => {
                let statement = self.random.clone();
                self.timed(&statement, &[&(first + 1), &end])?
            }
        };
        let after = self.counted(schema)?;
        self.client.run("ending to count", "COMMIT")?;
        let blocks = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        Ok(CostRead { elapsed, units, blocks: Some(blocks) })
    }
}

impl CostSession for PostgresCosts {
    fn read(&mut self, access: CostAccess, stretch: CostStretch) -> Result<CostRead> {
        self.switch(access)?;
        if access.reads_blocks() {
            return self.read_blocks(access, stretch);
        }
        let Some(rows) = &self.rows else {
            return Err(EngineError::Database("this session has no short rows".to_owned()));
        };
        let statement = match access {
            CostAccess::FilteredRows => rows.filtered.clone(),
            CostAccess::IndexEntries => rows.entries.clone(),
            CostAccess::Lookups => rows.lookups.clone(),
            _ => rows.rows.clone(),
        };
        let (elapsed, units) = self.timed(&statement, &[])?;
        Ok(CostRead { elapsed, units, blocks: None })
    }
}

/// A position before the first row of a block.
fn tid(block: i64) -> String {
    format!("({block},0)")
}

impl ShortRows {
    /// Makes them in a temporary table, with every row visible to index-only scans.
    fn make(client: &mut Client, rows: u64) -> Result<Self> {
        let doing = "making a temporary table of short rows";
        client.run(doing, &format!("SET temp_buffers = '{ROW_BUFFERS}'"))?;
        let last = rows.saturating_sub(1);
        // 7919 is prime, so that the second column has every key once, scattered.
        client.run(
            doing,
            &format!(
                "CREATE TEMPORARY TABLE petal_costs AS SELECT i::pg_catalog.int4 AS a, \
                 (i * 7919 % {rows})::pg_catalog.int4 AS b \
                 FROM pg_catalog.generate_series(0::pg_catalog.int8, {last}) AS i"
            ),
        )?;
        client.run(doing, "CREATE INDEX petal_costs_a ON pg_temp.petal_costs (a)")?;
        client.run(doing, "VACUUM (FREEZE, ANALYZE) pg_temp.petal_costs")?;
        let from = "SELECT pg_catalog.count(*) FROM pg_temp.petal_costs";
        let filters: Vec<String> = (0..FILTERS).map(|at| format!("b >= -{at}")).collect();
        let mut prepare = |sql: String| client.prepare_for(doing, &sql);
        Ok(Self {
            rows: prepare(from.to_owned())?,
            filtered: prepare(format!("{from} WHERE {}", filters.join(" AND ")))?,
            entries: prepare(format!("{from} WHERE a BETWEEN 0 AND {last}"))?,
            lookups: prepare(format!("{from} o JOIN pg_temp.petal_costs i ON i.a = o.b"))?,
        })
    }
}
