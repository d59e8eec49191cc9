//! Accesses and system statistics for `petal costs`: a block that is read alone, and a range of blocks
//! that is read by several at a time.
//!
//! Sessions do not count the blocks that they read, so the database's own count of physical reads is
//! taken. petal prints the statements for DBMS_STATS and never sends them. No live database has
//! confirmed it yet.

use std::time::Instant;

use super::database::Database;
use super::link::{BindValue, Destination};
use super::meta::{cell, count, known};
use super::{Oracle, sql};
use petal_engine::costs::{
    COST_SCHEMAS, CostAccess, CostFacts, CostProbes, CostRead, CostSession, CostStretch, Price,
    PriceSetting, PriceUnit,
};
use petal_engine::server::failure::not_loaded;
use petal_engine::{EngineError, Result};

/// Rows, and so blocks, between two known row addresses of the scanned table.
pub const ROWID_STEP: u64 = 16;
/// Milliseconds of a microsecond: the unit of the times.
const MS: f64 = 0.001;
const PHYSICAL_READS: &str = "physical reads";
const SCAN_PARAMETER: &str = "db_file_multiblock_read_count";

const NOTES: [&str; 3] = [
    "no live Oracle database has proved these values yet: compare them with DBMS_STATS.GATHER_SYSTEM_STATS \
     of a usual hour before you set them",
    "SREADTIM and MREADTIM are in milliseconds, MBRC in blocks; the optimizer counts every block as read \
     from disk, so no cached share changes them",
    "Oracle uses workload statistics only if all three are set and MREADTIM is above SREADTIM; \
     DBMS_STATS.DELETE_SYSTEM_STATS takes them back",
];

impl Oracle {
    /// The system statistics in force, if the user may read them.
    fn system_statistics(&self, admin: &mut Database) -> Vec<(String, String)> {
        let rows = admin.look_if_allowed("system_statistics").into_iter();
        rows.map(|row| (cell(&row, 0).to_owned(), cell(&row, 1).to_owned())).collect()
    }
}

/// Settings for scans that read `scan_blocks` at a time; without that number only the single block's
/// time is known.
fn settings(scan_blocks: Option<u64>, present: &[(String, String)]) -> Vec<PriceSetting> {
    let setting = |name: &str, price, unit, factor| PriceSetting {
        name: name.to_owned(),
        price,
        unit,
        factor,
        fixed_pct: Some(0),
        present: present
            .iter()
            .find(|(of, value)| of == name && !value.is_empty())
            .map(|(_, value)| value.clone()),
        statement: Some(format!("EXEC DBMS_STATS.SET_SYSTEM_STATS('{name}', {{value}});")),
    };
    let mut settings = vec![setting("SREADTIM", Price::RandomRead, PriceUnit::Microsecond, MS)];
    if let Some(blocks) = scan_blocks.map(|blocks| blocks as f64) {
        settings.push(setting("MREADTIM", Price::BlockRead, PriceUnit::Microsecond, blocks * MS));
        settings.push(setting("MBRC", Price::ScanBlocks, PriceUnit::Blocks, blocks));
    }
    settings
}

impl CostProbes for Oracle {
    fn check(&self) -> Result<u64> {
        self.refuse_slobs("measures the costs of")?;
        if self.endpoints.len() > 1 {
            return Err(EngineError::Setting(format!(
                "{}: it names {} services, and costs are one server's; name one of them",
                self.url,
                self.endpoints.len()
            )));
        }
        let mut admin = self.connect_admin()?;
        let pools = admin.look("asking for its cache", "buffer_pools")?;
        let bytes: u64 = pools.iter().filter_map(|row| count(row, 2)).sum();
        match bytes {
            0 => Err(EngineError::Environment(format!(
                "{}: GV$BUFFER_POOL shows no buffer cache, so that petal cannot choose blocks outside \
                 of it; petal setup --print-grants has the missing grant",
                admin.place
            ))),
            bytes => Ok(bytes),
        }
    }

    fn facts(&self) -> Result<CostFacts> {
        let mut admin = self.connect_admin()?;
        let parameters = admin.look_if_allowed("parameters");
        let scan_blocks = parameters.iter().find(|row| cell(row, 0) == SCAN_PARAMETER);
        let scan_blocks = scan_blocks.and_then(|row| count(row, 1)).filter(|blocks| *blocks > 0);
        let present = self.system_statistics(&mut admin);
        Ok(CostFacts {
            // Files of a database are seldom seen from petal's host, and most are read past the page
            // cache.
            is_direct: true,
            settings: settings(scan_blocks, &present),
            notes: NOTES.map(str::to_owned).into(),
            ..CostFacts::default()
        })
    }

    fn open_session(&self, number: u32, _: u64) -> Result<Box<dyn CostSession>> {
        let link = self.timed.connect(Destination::Endpoint(0), &format!("petal costs {number}"));
        let database = Database::connected(link, self.place(), "connecting")?;
        let metas = self.metas()?;
        let of = |number| {
            let meta = metas.iter().find(|meta| meta.about.schema == number);
            meta.ok_or_else(|| not_loaded(&database.place, number))
        };
        let (random, scanned) = (&of(1)?.tables, &of(COST_SCHEMAS)?.tables);
        let [random, range] = [sql::select(random), sql::rowid_range(scanned)];
        let steps = sql::rowid_steps(scanned, ROWID_STEP);
        let mut session = OracleCosts {
            database,
            admin: self.connect_admin()?,
            random,
            range,
            steps: Vec::new(),
        };
        session.prepare(&steps)?;
        Ok(Box::new(session))
    }
}

/// A session with the statements of every access.
struct OracleCosts {
    database: Database,
    admin: Database,
    random: String,
    range: String,
    /// Address of each row whose number is a multiple of the step, in the order of the blocks.
    steps: Vec<String>,
}

impl OracleCosts {
    fn prepare(&mut self, steps: &str) -> Result<()> {
        let doing = "preparing a session of petal costs";
        // An account without the privilege reads past the cache, which the counts then show.
        let buffered = sql::section(sql::LOAD, "buffered_scans");
        let _ = self.database.link.execute(&buffered, &[]);
        let _ = super::session::use_hints(self.database.link.as_mut());
        let rows = self.database.query(doing, steps, &[])?;
        self.steps = rows.iter().map(|row| cell(row, 0).to_owned()).collect();
        match self.steps.is_empty() {
            false => Ok(()),
            true => Err(EngineError::Data(format!(
                "{}: {doing}: the scanned table has no row; load it again (petal setup)",
                self.database.place
            ))),
        }
    }

    /// Address of the row at a step, or of the last known one.
    fn rowid(&self, block: u64) -> &str {
        let at = usize::try_from(block / ROWID_STEP).unwrap_or(usize::MAX);
        self.steps.get(at).or(self.steps.last()).map_or("", String::as_str)
    }

    /// Executes a statement that counts, and times it.
    fn timed(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<CostRead> {
        let doing = "measuring an access";
        let begin = Instant::now();
        let rows = self.database.query(doing, sql, binds)?;
        let elapsed = begin.elapsed();
        let units = rows.first().map(|row| known(&self.database, doing, row, 0)).transpose()?;
        Ok(CostRead { elapsed, units: units.unwrap_or_default(), blocks: None })
    }
}

impl CostSession for OracleCosts {
    fn read(&mut self, access: CostAccess, stretch: CostStretch) -> Result<CostRead> {
        let end = stretch.first + stretch.length;
        match access {
            _ if stretch.length == 0 => Ok(CostRead::default()),
            CostAccess::Random => {
                let keys = [stretch.first + 1, end];
                let keys = keys.map(|key| BindValue::Number(key.cast_signed()));
                self.timed(&self.random.clone(), &keys)
            }
            CostAccess::Sequential => {
                let ends = [self.rowid(stretch.first), self.rowid(end)].map(str::to_owned);
                self.timed(&self.range.clone(), &ends.each_ref().map(BindValue::from))
            }
            _ => Err(EngineError::Database(format!(
                "Oracle's system statistics have no price for {}",
                access.name()
            ))),
        }
    }

    fn server_reads(&mut self) -> Result<Option<u64>> {
        let rows =
            self.admin.query("counting blocks", &sql::section(sql::COUNTERS, "statistics"), &[])?;
        let of_instances = rows.iter().filter(|row| cell(row, 1) == PHYSICAL_READS);
        let counts: Vec<Option<u64>> = of_instances.map(|row| count(row, 2)).collect();
        Ok(counts.into_iter().reduce(|sum, next| Some(sum? + next?)).flatten())
    }
}
