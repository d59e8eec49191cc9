//! Accesses and settings for `petal costs`: the statement of each access, the plan that it
//! must have, and the prices of each product's optimizer.
//!
//! Sessions do not count the blocks that they read, so the whole server's count of pages is taken.
//! Short rows are in temporary tables, which no other session sees.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use mysql_async::{Params, Row, Statement, Value};

use super::client::Client;
use super::connect::Endpoint;
use super::errors::AtServer as _;
use super::session::{SESSION_SETTINGS, read_tables};
use super::this_host::LocalMysql;
use super::{Mysql, plan, schema, servers};
use petal_engine::costs::{
    CostAccess, CostFacts, CostProbes, CostRead, CostSession, CostStretch, FILTERS, Price,
    PriceSetting, PriceUnit,
};
use petal_engine::{EngineError, Result};

/// Block for which MariaDB's optimizer has the price of a read.
const MARIADB_READ_BYTES: f64 = 4096.0;
/// Conditions of the WHERE clause for which MariaDB's optimizer has its price.
const MARIADB_WHERE: f64 = 2.0;

const MARIADB_NOTES: [&str; 3] = [
    "in petal's proof these prices chose no more right plans than the defaults: MariaDB knows no order of \
     a table's rows, and only join_cache_level makes hash joins",
    "MariaDB has one price for every block: here it is a scan's; the additional time of a block read alone \
     is in optimizer_row_lookup_cost",
    "tables opened later have the new prices; a restart forgets them: write them to an option file, too",
];
const OLD_MARIADB_NOTES: [&str; 1] =
    ["MariaDB before 11.0 has no prices to set: it counts a block as 1 on every storage. It has \
     optimizer_switch, optimizer_use_condition_selectivity and eq_range_index_dive_limit"];
const MYSQL_NOTES: [&str; 2] = [
    "MySQL has one price for every block: here it is that of a block read alone, so that scans are \
     priced too high, by the ratio of the first line's 0 % column",
    "the server itself estimates how much of a table is cached; sessions that connect later have the new \
     prices",
];

/// A setting's name, price and unit, the part of the price that it is, and its only cached share.
type Setting = (&'static str, Price, PriceUnit, f64, Option<u8>);

/// The prices of MariaDB 11 for blocks of so many bytes. A sum that petal cannot take apart is divided
/// as the server's own values divide it.
fn mariadb_settings(block_bytes: f64, present: impl Fn(&str) -> Option<f64>) -> Vec<Setting> {
    use PriceUnit::{Microsecond, Share};
    let part = |name: &str, other: &str| match (present(name), present(other)) {
        (Some(one), Some(two)) if one + two > 0.0 => one / (one + two),
        _ => 0.5,
    };
    let of_key = part("optimizer_key_next_find_cost", "optimizer_key_copy_cost");
    let of_row = part("optimizer_row_next_find_cost", "optimizer_row_copy_cost");
    let of_read = MARIADB_READ_BYTES / block_bytes.max(1.0);
    vec![
        ("optimizer_disk_read_ratio", Price::MissShare, Share, 1.0, None),
        ("optimizer_disk_read_cost", Price::BlockRead, Microsecond, of_read, Some(0)),
        ("optimizer_row_lookup_cost", Price::RowLookup, Microsecond, 1.0, None),
        ("optimizer_index_block_copy_cost", Price::SequentialBlock, Microsecond, 1.0, Some(100)),
        ("optimizer_key_lookup_cost", Price::Lookup, Microsecond, 1.0, Some(100)),
        ("optimizer_key_next_find_cost", Price::IndexRow, Microsecond, of_key, Some(100)),
        ("optimizer_row_next_find_cost", Price::Row, Microsecond, of_row, Some(100)),
        ("optimizer_row_copy_cost", Price::Row, Microsecond, 1.0 - of_row, Some(100)),
        ("optimizer_where_cost", Price::Operator, Microsecond, MARIADB_WHERE, Some(100)),
    ]
}

/// The prices of MySQL 8, with their tables.
const MYSQL_SETTINGS: [(&str, Setting); 4] = {
    use PriceUnit::RandomRead as Unit;
    [
        ("engine_cost", ("io_block_read_cost", Price::RandomBlock, Unit, 1.0, Some(0))),
        ("engine_cost", ("memory_block_read_cost", Price::RandomBlock, Unit, 1.0, Some(100))),
        ("server_cost", ("row_evaluate_cost", Price::Row, Unit, 1.0, Some(100))),
        ("server_cost", ("key_compare_cost", Price::Operator, Unit, 1.0, Some(100))),
    ]
};

fn priced(setting: Setting, present: Option<String>, statement: String) -> PriceSetting {
    let (name, price, unit, factor, fixed_pct) = setting;
    let (name, statement) = (name.to_owned(), Some(statement));
    PriceSetting { name, price, unit, factor, fixed_pct, present, statement }
}

/// The statement for all prices of MariaDB 11.
const MARIADB_STATEMENT: &str = "SET GLOBAL {settings};";

/// The part of the statement that sets a price: one is the optimizer's own, the others are the storage
/// engine's.
fn mariadb_statement(name: &str) -> String {
    let of_engine = if name == "optimizer_where_cost" { "" } else { "innodb." };
    format!("{of_engine}{name} = {{value}}")
}

fn mysql_statement(table: &str, name: &str) -> String {
    format!("UPDATE mysql.{table} SET cost_value = {{value}} WHERE cost_name = '{name}';")
}

impl CostProbes for Mysql {
    fn check(&self) -> Result<u64> {
        if self.servers.all.len() > 1 {
            return Err(EngineError::Setting(format!(
                "{}: it names {} servers, and costs are one server's; name one of them",
                self.shared.url,
                self.servers.all.len()
            )));
        }
        if servers::recovery(self.first())?.is_some() {
            return Err(EngineError::Environment(format!(
                "{}: it is a replica or read-only, so that petal can load no tables there, and changes \
                 that it applies are measured, too; name the primary, or another server on this \
                 storage",
                self.first().name
            )));
        }
        let mut client = self.connect_first()?;
        client.ask_row("asking for its cache", "SELECT @@innodb_buffer_pool_size")
    }

    fn facts(&self) -> Result<CostFacts> {
        let mut client = self.connect_first()?;
        let (version, method): (String, String) =
            client.ask_row("asking for its version", "SELECT VERSION(), @@innodb_flush_method")?;
        let block_bytes = f64::from(self.page_bytes()?);
        let sql = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_buffer_pool_reads', \
                   'Innodb_buffer_pool_read_requests')";
        let counts: Vec<(String, u64)> = client.ask("asking for its cache", sql)?;
        let of = |name: &str| counts.iter().find(|(of, _)| of == name).map(|(_, count)| *count);
        let visited = of("Innodb_buffer_pool_read_requests").filter(|visited| *visited > 0);
        let missed = of("Innodb_buffer_pool_reads");
        let Prices { settings, joint_statement, reload, notes } = match version.contains("MariaDB")
        {
            true => of_mariadb(&mut client, block_bytes)?,
            false => of_mysql(&mut client)?,
        };
        Ok(CostFacts {
            hit_share: visited
                .zip(missed)
                .map(|(visited, missed)| 1.0 - missed.min(visited) as f64 / visited as f64),
            data_files: data_files(self.first(), &mut client),
            is_direct: method.starts_with("O_DIRECT"),
            has_short_rows: true,
            readers: None,
            depths: Vec::new(),
            settings,
            joint_statement,
            reload,
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        })
    }

    fn open_session(&self, number: u32, rows: u64) -> Result<Box<dyn CostSession>> {
        let client = self.first().connect()?;
        Ok(Box::new(MysqlCosts::new(client, number, rows)?))
    }
}

/// The prices of a product.
struct Prices {
    settings: Vec<PriceSetting>,
    joint_statement: Option<String>,
    reload: Option<String>,
    notes: &'static [&'static str],
}

fn of_mariadb(client: &mut Client, block_bytes: f64) -> Result<Prices> {
    let sql = "SHOW GLOBAL VARIABLES LIKE 'optimizer\\_where\\_cost'";
    let own: Vec<(String, f64)> = client.ask("asking for its prices", sql)?;
    if own.is_empty() {
        let (settings, notes) = (Vec::new(), &OLD_MARIADB_NOTES);
        return Ok(Prices { settings, joint_statement: None, reload: None, notes });
    }
    let asked = "SELECT * FROM information_schema.optimizer_costs WHERE engine = 'InnoDB'";
    let rows: Vec<Row> = client.ask("asking for its prices", asked)?;
    let present = |name: &str| {
        let of_engine = || rows.first()?.get_opt::<f64, _>(name.to_uppercase().as_str())?.ok();
        own.iter().find(|(of, _)| of == name).map(|(_, value)| *value).or_else(of_engine)
    };
    let settings = mariadb_settings(block_bytes, present).into_iter();
    let settings = settings.map(|setting| {
        let now = present(setting.0).map(|value| value.to_string());
        priced(setting, now, mariadb_statement(setting.0))
    });
    Ok(Prices {
        settings: settings.collect(),
        joint_statement: Some(MARIADB_STATEMENT.to_owned()),
        reload: Some("FLUSH TABLES;".to_owned()),
        notes: &MARIADB_NOTES,
    })
}

fn of_mysql(client: &mut Client) -> Result<Prices> {
    // A user without the privilege to read them gets no present values. The columns are of the type
    // FLOAT, whose other digits mean nothing.
    let present = |client: &mut Client, table: &str, name: &str| {
        let sql = format!(
            "SELECT ROUND(COALESCE(cost_value, default_value), 6) + 0e0 FROM mysql.{table} WHERE \
             cost_name = '{name}'"
        );
        client.query_one::<f64>(&sql).ok().map(|value| value.to_string())
    };
    let settings = MYSQL_SETTINGS.into_iter().map(|(table, setting)| {
        let now = present(client, table, setting.0);
        priced(setting, now, mysql_statement(table, setting.0))
    });
    Ok(Prices {
        settings: settings.collect(),
        joint_statement: None,
        reload: Some("FLUSH OPTIMIZER_COSTS;".to_owned()),
        notes: &MYSQL_NOTES,
    })
}

/// Files of both main tables if they are seen from here, else none.
fn data_files(endpoint: &Endpoint, client: &mut Client) -> Vec<PathBuf> {
    let Some(Ok(server)) = LocalMysql::find(endpoint, client) else { return Vec::new() };
    // A file that all tables share has others' blocks, too.
    let is_own_file = |file: &PathBuf| file.extension().is_some_and(|it| it == "ibd");
    let mut file = |number| server.main_file(client, number).ok().filter(is_own_file);
    [file(1), file(2)].into_iter().collect::<Option<_>>().unwrap_or_default()
}

/// A session with the statements of every access.
struct MysqlCosts {
    client: Client,
    random: Statement,
    sequential: Statement,
    /// Difference of the primary keys of neighbouring rows.
    step: u64,
    /// Statements on short rows; `None` without such rows.
    rows: Option<ShortTables>,
}

struct ShortTables {
    rows: Statement,
    filtered: Statement,
    entries: Statement,
    lookups: Statement,
}

const PREPARING: &str = "preparing a session of petal costs";
/// The tables of short rows: the one whose rows are read, and the one that is read through its index.
/// No statement can name a temporary table twice.
const ROWS_TABLE: &str = "petal_costs_rows";
const KEYS_TABLE: &str = "petal_costs_keys";

impl MysqlCosts {
    fn new(mut client: Client, number: u32, rows: u64) -> Result<Self> {
        client.send(PREPARING, SESSION_SETTINGS)?;
        read_tables(&mut client).at(&client.server, "turning the query cache off")?;
        let [random, scanned] = [1, 2].map(schema::name);
        let ends: (u64, u64, u64) = client.ask_row(
            PREPARING,
            &format!(
                "SELECT CAST(COUNT(*) AS UNSIGNED), MIN(pos), MAX(pos) FROM {scanned}_cf1 FORCE INDEX \
                 (petal_custid)"
            ),
        )?;
        let (count, first, last) = ends;
        let step = last.saturating_sub(first) / count.saturating_sub(1).max(1);
        let sequential = format!(
            "SELECT COUNT(c2) FROM {scanned}_cf1 FORCE INDEX (PRIMARY) WHERE pos BETWEEN ? AND ?"
        );
        let random = schema::select(&random);
        let mut meant = vec![
            (random.clone(), ["range", "petal_custid"]),
            (sequential.clone(), ["range", "PRIMARY"]),
        ];
        let short =
            if rows > 0 { Some(ShortTables::make(&mut client, rows, &mut meant)?) } else { None };
        if number == 1 {
            for (sql, wanted) in &meant {
                check_plan(&mut client, sql, wanted)?;
            }
        }
        Ok(Self {
            random: prepare(&mut client, &random)?,
            sequential: prepare(&mut client, &sequential)?,
            step,
            rows: short,
            client,
        })
    }

    /// Executes a statement that counts, and times it.
    fn timed(&mut self, statement: &Statement, bounds: &[u64]) -> Result<CostRead> {
        let bounds = match bounds {
            [] => Params::Empty,
            bounds => Params::Positional(bounds.iter().map(|bound| Value::UInt(*bound)).collect()),
        };
        let begin = Instant::now();
        let counted = self.client.first::<u64>(statement, bounds);
        let elapsed: Duration = begin.elapsed();
        let units = counted.at(&self.client.server, "measuring an access")?.unwrap_or_default();
        Ok(CostRead { elapsed, units, blocks: None })
    }
}

fn prepare(client: &mut Client, sql: &str) -> Result<Statement> {
    client.prepare(sql).at(&client.server, PREPARING)
}

/// Refuses another plan than the access is measured by: the last step's access and index.
fn check_plan(client: &mut Client, sql: &str, [access, index]: &[&str; 2]) -> Result<()> {
    let sql = sql.replacen('?', "1", 1).replacen('?', "9", 1);
    let steps = plan::steps(client, &sql).at(&client.server, "explaining an access")?;
    let is_meant = steps
        .last()
        .is_some_and(|[_, by, key, _]| by == access && (index.is_empty() || key == index));
    if is_meant {
        return Ok(());
    }
    Err(EngineError::Database(format!(
        "{}: the plan is not {access} {index}, which petal measures, but {}; look at optimizer_switch",
        client.server,
        plan::shown(&steps)
    )))
}

impl CostSession for MysqlCosts {
    fn read(&mut self, access: CostAccess, stretch: CostStretch) -> Result<CostRead> {
        let (first, end) = (stretch.first, stretch.first + stretch.length);
        let missing = || EngineError::Database("this session has no short rows".to_owned());
        let short = self.rows.as_ref();
        match access {
            CostAccess::Random => {
                let statement = self.random.clone();
                self.timed(&statement, &[first + 1, end])
            }
            CostAccess::Sequential if stretch.length == 0 => Ok(CostRead::default()),
            CostAccess::Sequential => {
                let statement = self.sequential.clone();
                self.timed(&statement, &[first * self.step, (end - 1) * self.step])
            }
            CostAccess::ReadAhead(_) => {
                Err(EngineError::Database(format!("InnoDB has no price for {}", access.name())))
            }
            CostAccess::Rows => {
                let statement = short.ok_or_else(missing)?.rows.clone();
                self.timed(&statement, &[])
            }
            CostAccess::FilteredRows => {
                let statement = short.ok_or_else(missing)?.filtered.clone();
                self.timed(&statement, &[])
            }
            CostAccess::IndexEntries => {
                let statement = short.ok_or_else(missing)?.entries.clone();
                self.timed(&statement, &[])
            }
            CostAccess::Lookups => {
                let statement = short.ok_or_else(missing)?.lookups.clone();
                self.timed(&statement, &[])
            }
        }
    }

    fn server_reads(&mut self) -> Result<Option<u64>> {
        let sql = "SHOW GLOBAL STATUS LIKE 'Innodb_pages_read'";
        let found: Vec<(String, u64)> = self.client.ask("counting blocks", sql)?;
        Ok(found.first().map(|(_, count)| *count))
    }
}

impl ShortTables {
    /// Makes them in two temporary tables, and adds the plan of each statement to `meant`.
    fn make(
        client: &mut Client,
        rows: u64,
        meant: &mut Vec<(String, [&'static str; 2])>,
    ) -> Result<Self> {
        let doing = "making temporary tables of short rows";
        // Without the privilege for it the server may log them, which is outside of all times.
        let _ = client.run("SET SESSION sql_log_bin = 0");
        let digit = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION \
                     ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION \
                     ALL SELECT 8 UNION ALL SELECT 9)";
        let digits = rows.saturating_sub(1).max(1).ilog10() + 1;
        let names: Vec<String> = (0..digits).map(|at| format!("d{at}")).collect();
        let value: Vec<String> =
            (0..digits).map(|at| format!("d{at}.n * {}", 10u64.pow(at))).collect();
        let tables: Vec<String> = names.iter().map(|name| format!("{digit} {name}")).collect();
        let keys = format!("SELECT {} AS a FROM {}", value.join(" + "), tables.join(", "));
        let last = rows.saturating_sub(1);
        // 7919 is prime, so that the second column has every key once, scattered.
        for table in [ROWS_TABLE, KEYS_TABLE] {
            let index = if table == KEYS_TABLE { ", KEY petal_a (a)" } else { "" };
            let columns = format!("pos BIGINT UNSIGNED NOT NULL PRIMARY KEY, a INT, b INT{index}");
            let made = format!("CREATE TEMPORARY TABLE {table} ({columns}) ENGINE=InnoDB");
            client.send(doing, &made)?;
            let filled = format!(
                "INSERT INTO {table} SELECT k.a, k.a, k.a * 7919 % {rows} FROM ({keys}) k \
                 WHERE k.a <= {last} ORDER BY k.a"
            );
            client.send(doing, &filled)?;
            schema::analyze(client, table)?;
        }
        let filters: Vec<String> = (0..FILTERS).map(|at| format!("b >= -{at}")).collect();
        let from = format!("SELECT COUNT(b) FROM {ROWS_TABLE}");
        let filtered = format!("{from} WHERE {}", filters.join(" AND "));
        let entries = format!(
            "SELECT COUNT(*) FROM {KEYS_TABLE} FORCE INDEX (petal_a) WHERE a BETWEEN 0 AND {last}"
        );
        let lookups = format!(
            "SELECT STRAIGHT_JOIN COUNT(*) FROM {ROWS_TABLE} o JOIN {KEYS_TABLE} i FORCE INDEX \
             (petal_a) ON i.a = o.b"
        );
        meant.extend([
            (from.clone(), ["ALL", ""]),
            (filtered.clone(), ["ALL", ""]),
            (entries.clone(), ["range", "petal_a"]),
            (lookups.clone(), ["ref", "petal_a"]),
        ]);
        Ok(Self {
            rows: prepare(client, &from)?,
            filtered: prepare(client, &filtered)?,
            entries: prepare(client, &entries)?,
            lookups: prepare(client, &lookups)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_of_mariadb_divide_sums_as_the_server_does() {
        let present = |name: &str| match name {
            "optimizer_key_next_find_cost" => Some(0.09),
            "optimizer_key_copy_cost" => Some(0.01),
            _ => None,
        };
        let settings = mariadb_settings(16384.0, present);
        let factor =
            |name: &str| settings.iter().find(|setting| setting.0 == name).map(|setting| setting.3);
        let part = factor("optimizer_key_next_find_cost");
        assert!(part.is_some_and(|part| (part - 0.9).abs() < 1e-9), "{part:?}");
        assert_eq!(factor("optimizer_row_copy_cost"), Some(0.5), "the server does not say");
        assert_eq!(factor("optimizer_disk_read_cost"), Some(0.25), "a block is four reads");
    }

    #[test]
    fn statements_name_the_storage_engine_and_the_table() {
        let of_engine = mariadb_statement("optimizer_disk_read_cost");
        assert_eq!(of_engine, "innodb.optimizer_disk_read_cost = {value}");
        assert_eq!(mariadb_statement("optimizer_where_cost"), "optimizer_where_cost = {value}");
        insta::assert_snapshot!(
            mysql_statement("engine_cost", "io_block_read_cost"),
            @"UPDATE mysql.engine_cost SET cost_value = {value} WHERE cost_name = 'io_block_read_cost';"
        );
    }
}
