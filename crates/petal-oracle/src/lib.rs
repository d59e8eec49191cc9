//! Oracle Database, 19c and later (12.2 and 18c are unproven), for which the SLOB method was made.
//!
//! - `options`, `tns`, `errors`: connecting, and the classification of errors
//! - `link`: the narrow interface to a session; `driver` implements it, and `scripted` for tests
//! - `timeouts`: links with a timeout for a silent database; `database`: a link and its
//!   name, for errors
//! - `sql` with `sql/*.sql`: every text that petal sends
//! - `meta`, `load`, `room`, `slob`: loaded schemas, loading and its proof, free space, SLOB's
//!   own schemas
//! - `session`, `session_server`, `session_client`: a session, and the two sides of its loop;
//!   `work`: their shared state
//! - `costs`: accesses for `petal costs`
//! - `this_host`: an instance on petal's own host, and its files there
//! - `before_run`, `counters`, `figures`, `describe`, `notable`, `reports`, `statspack`: petal's queries and
//!   requests to the database around a run
//!
//! petal stores only tables in the database, owned by the user who connects: no users, no
//! procedures. Three traits of Oracle affect every result. A COMMIT inside PL/SQL does not wait for
//! the log unless it says so (COMMIT_WAIT). Oracle may collect rows of an index range and read
//! several blocks at once, which underscore parameters turn off. And its own clock measures the
//! operations of the loop inside it.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod advice;
mod before_run;
mod costs;
mod counters;
mod database;
mod describe;
mod driver;
mod errors;
mod figures;
mod link;
mod load;
mod meta;
mod notable;
mod options;
mod probe;
mod received;
mod reports;
mod room;
mod rows;
#[cfg(test)]
mod scripted;
mod server_work;
mod session;
mod session_client;
mod session_server;
mod slob;
mod sql;
mod statspack;
#[cfg(test)]
mod tests;
mod this_host;
mod timeouts;
mod tns;
mod work;

use std::any::Any;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;

use counters::{CounterReader, Served};
use database::Database;
use driver::Driver;
use errors::AtPlace;
use link::{Connector, Destination, Link};
use meta::{OracleSchema, Tables, cell, count};
use options::{Options, OracleService, TableStorage};
use petal_engine::costs::CostProbes;
use petal_engine::in_use::{DataUse, Unshared};
use petal_engine::server::failure::not_loaded;
use petal_engine::server::identity::KnownServer;
use petal_engine::server::liveness::SILENCE;
use petal_engine::server::loader::Load;
use petal_engine::{
    Engine, EngineError, LoadPlan, LoadSummary, Needs, OwnReport, Placement, Progress, Result,
    RowReader, Server, Session, Stop,
};
use petal_record::counters::Counters;
use petal_record::server_report::ServerReport;
use petal_record::server_work::ServerWork;
use petal_record::target::{LoadFact, LoadedSchema, PlanCheck, Settled, Target, TargetDetails};
use petal_settings::rules::SETUP_SCALE;
use petal_settings::size::Extent;
use petal_settings::table::{EngineSupport, support};
use petal_settings::{LoopSide, Settings, StatisticsType};
use petal_workload::seat::Seat;
use session::OracleSession;
use sql::DataPlace;
use timeouts::{TimedConnector, answered};
use work::SessionConfig;

/// Grants that petal needs, for a DBA to read and run.
pub const GRANTS: &str = include_str!("../../../docs/engines/oracle-grants.sql");

/// Oracle database, through one service or several.
pub struct Oracle {
    /// Connector for sessions of a run, which the runner aborts.
    connector: Arc<dyn Connector>,
    /// Connector for work around a run, with a timeout for a silent database.
    timed: Arc<dyn Connector>,
    /// Connector for looks, with a short timeout.
    looking: Arc<dyn Connector>,
    endpoints: Vec<OracleService>,
    admin_place: OracleService,
    storage: TableStorage,
    url: String,
    use_slob_schemas: bool,
    /// Number of schemas of the run; `None` means all.
    schemas: Option<u32>,
    /// Extents of the main and scan table of a schema to load.
    extents: [Extent; 2],
    config: SessionConfig,
    statistics: StatisticsType,
    statistics_asked: bool,
    counters: CounterReader,
    served: Mutex<Served>,
    /// Loaded schemas, read once for all sessions of a run.
    metas: Mutex<Option<Vec<OracleSchema>>>,
    /// The database of sessions that reconnect.
    known: KnownServer,
    report: Mutex<Option<reports::OpeningSnapshot>>,
}

impl Oracle {
    pub fn open(settings: &Settings) -> Result<Self> {
        let mut options = Options::of(settings)?;
        tns::resolve(&mut options)?;
        let (endpoints, admin_place) = (options.endpoints.clone(), options.admin_place.clone());
        let storage = options.storage.clone();
        let connector: Arc<dyn Connector> = Arc::new(Driver::new(options));
        Ok(Self::over(connector, settings, endpoints, admin_place, storage))
    }

    fn over(
        connector: Arc<dyn Connector>,
        settings: &Settings,
        endpoints: Vec<OracleService>,
        admin_place: OracleService,
        storage: TableStorage,
    ) -> Self {
        let (looking, timed) = TimedConnector::pair(&connector);
        Self {
            counters: CounterReader::new(&looking, &admin_place.name),
            timed,
            looking,
            connector,
            endpoints,
            admin_place,
            storage,
            url: settings.db.redacted(),
            use_slob_schemas: settings.use_slob_schemas,
            schemas: settings.schemas,
            extents: [settings.scale.unwrap_or(SETUP_SCALE), settings.scan_table_sz],
            config: SessionConfig {
                loop_side: settings.loop_side.unwrap_or(LoopSide::Server),
                redo_stress: settings.redo_stress,
                commit_wait: settings.commit_wait,
                updates: !settings.only_reads(),
            },
            statistics: settings.database_statistics_type,
            statistics_asked: settings.is_given("DATABASE_STATISTICS_TYPE"),
            served: Mutex::default(),
            metas: Mutex::default(),
            known: KnownServer::new(settings.reconnect.is_some()),
            report: Mutex::default(),
        }
    }

    fn place(&self) -> &str {
        self.endpoints.first().map_or("", |place| place.name.as_str())
    }

    fn connect_first(&self) -> Result<Database> {
        let link = self.timed.connect(Destination::Endpoint(0), "petal");
        Database::connected(link, self.place(), "connecting")
    }

    fn connect_admin(&self) -> Result<Database> {
        let link = self.timed.connect(Destination::Admin, "petal");
        Database::connected(link, &self.admin_place.name, "connecting as administrator")
    }

    /// Reads all complete schemas.
    fn read_metas(&self) -> Result<Vec<OracleSchema>> {
        let mut database = self.connect_first()?;
        let metas = match self.use_slob_schemas {
            true => slob::schemas(&mut database)?,
            false => meta::petals(&mut database)?,
        };
        *self.metas.lock() = Some(metas.clone());
        Ok(metas)
    }

    fn metas(&self) -> Result<Vec<OracleSchema>> {
        let known = self.metas.lock().clone();
        known.map_or_else(|| self.read_metas(), Ok)
    }

    /// Returns schemas with their current sizes, except SLOB's: counting its keys again would read
    /// all of its indexes.
    fn metas_now(&self) -> Result<Vec<OracleSchema>> {
        if self.use_slob_schemas { self.metas() } else { self.read_metas() }
    }

    /// Returns the tablespace for setup: the requested one, else the user's default.
    fn load_tablespace(&self, database: &mut Database) -> Result<String> {
        if let Some(name) = &self.storage.tablespace {
            return Ok(sql::dictionary_name(name));
        }
        let rows = database.look("asking for its tablespaces", "default_tablespace")?;
        Ok(rows.first().map_or_else(String::new, |row| cell(row, 0).to_owned()))
    }

    /// Adds the statement that creates a tablespace to the error that it is missing.
    fn without_tablespace(
        &self,
        database: &mut Database,
        tablespace: &str,
        asked: Option<u32>,
        error: EngineError,
    ) -> EngineError {
        let EngineError::Environment(text) = error else { return error };
        let block_bytes = u64::from(asked.unwrap_or(support::ORACLE.block_size_default));
        let blocks: u64 = self.extents.iter().map(|extent| extent.blocks(block_bytes)).sum();
        let bytes = blocks * block_bytes * u64::from(self.schemas.unwrap_or(1));
        let statement = room::serving(database, tablespace, bytes, asked);
        EngineError::Environment(format!("{text}; this makes one that serves: {statement}"))
    }

    /// Refuses a database with other loads, which may answer after an outage.
    fn with_known_loads(&self, mut link: Box<dyn Link>, place: &str) -> Result<Box<dyn Link>> {
        if !self.known.is_compared() || self.use_slob_schemas {
            return Ok(link);
        }
        let asked =
            answered(SILENCE, move || meta::loads(link.as_mut()).map(|loads| (link, loads)));
        let (link, loads) = asked.at(place, "reading petal_meta")?;
        for meta in self.metas()? {
            let schema = meta.about.schema;
            let load = loads.get(&schema).ok_or_else(|| not_loaded(place, schema))?;
            self.known.check_load(place, schema, load)?;
        }
        Ok(link)
    }

    fn data_place<'a>(&'a self, tablespace: &'a str) -> DataPlace<'a> {
        DataPlace {
            tablespace,
            buffer_pool: self.storage.buffer_pool.as_deref(),
            is_index_in_default_pool: self.storage.is_index_in_default_pool,
            is_logged: self.storage.is_logged,
        }
    }

    fn refuse_slobs(&self, doing: &str) -> Result<()> {
        match self.use_slob_schemas {
            false => Ok(()),
            true => Err(EngineError::Setting(format!(
                "USE_SLOB_SCHEMAS=TRUE: petal uses SLOB's schemas and never {doing} them; leave it \
                 out for schemas of petal's own"
            ))),
        }
    }
}

impl Engine for Oracle {
    fn support(&self) -> &'static EngineSupport {
        &support::ORACLE
    }

    fn block_size(&self, asked: Option<u32>) -> Result<u32> {
        let mut database = self.connect_first()?;
        let tablespace = self.load_tablespace(&mut database)?;
        let there = meta::block_bytes(&mut database, &tablespace)
            .map_err(|error| self.without_tablespace(&mut database, &tablespace, asked, error))?;
        match asked {
            Some(asked) if asked != there => Err(EngineError::Setting(format!(
                "BLOCK_SZ={asked}: the blocks of tablespace {tablespace} have {there} bytes; name \
                 a tablespace of that block size (petal setup TABLESPACE N), or leave BLOCK_SZ out"
            ))),
            _ => Ok(there),
        }
    }

    fn loaded(&self) -> Result<Vec<LoadedSchema>> {
        Ok(self.read_metas()?.iter().map(OracleSchema::loaded).collect())
    }

    fn describe(&self, schemas: u32, _: u32) -> Result<(Target, TargetDetails)> {
        let mut metas = self.metas_now()?;
        metas.truncate(schemas as usize);
        let (mut database, mut admin) = (self.connect_first()?, self.connect_admin()?);
        describe::describe(&self.url, self.config, &metas, &mut database, &mut admin)
    }

    fn plan(&self, schemas: u32) -> Result<Option<PlanCheck>> {
        let mut metas = self.metas()?;
        metas.truncate(schemas as usize);
        // With a short timeout: a database that falls silent must not delay the end of a run.
        let link = self.looking.connect(Destination::Endpoint(0), "petal plans");
        let mut database = Database::connected(link, self.place(), "connecting")?;
        Ok(describe::plan(&mut database, &metas, self.config))
    }

    /// Returns the needs of a load. Each loading connection has three threads: the loader, the
    /// driver's and one that cancels.
    fn load_needs(&self, plan: &LoadPlan) -> Needs {
        let connections = u64::from(plan.degree);
        Needs { files: connections, threads: 3 * connections, ..Needs::default() }
    }

    fn load(&self, plan: &LoadPlan, progress: &dyn Progress, stop: &Stop) -> Result<LoadSummary> {
        self.refuse_slobs("loads")?;
        self.block_size(Some(plan.block_size))?;
        self.counters.disconnect();
        *self.metas.lock() = None;
        let tablespace = self.load_tablespace(&mut self.connect_first()?)?;
        load::Loader {
            connector: self.timed.as_ref(),
            place: self.place(),
            data_place: self.data_place(&tablespace),
            copies_schemas: self.storage.copies_schemas,
            load: Load { plan, progress, stop },
        }
        .run()
    }

    /// Locks the data for a run. SLOB's schemas have no petal_meta, and petal drops none of them. A
    /// read-only database takes no locks, and cannot be loaded or dropped either.
    fn begin_use(&self, _: u32) -> Result<Box<dyn DataUse>> {
        const READ_ONLY: [&str; 2] = ["ORA-16000", "ORA-16456"];
        *self.served.lock() = Served::default();
        if self.use_slob_schemas {
            return Ok(Box::new(Unshared));
        }
        match before_run::begin_use(self.connect_first()?) {
            Ok(held) => Ok(Box::new(held)),
            Err(error) if READ_ONLY.iter().any(|code| error.to_string().contains(code)) => {
                Ok(Box::new(Unshared))
            }
            Err(error) => Err(error),
        }
    }

    fn settle(&self, progress: &dyn Progress, stop: &Stop) -> Result<Settled> {
        before_run::settle(&mut self.connect_admin()?, progress, stop)
    }

    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        let metas = self.metas()?;
        let at = seat.endpoint as usize % self.endpoints.len().max(1);
        let place = self.endpoints.get(at).map_or("", |place| place.name.as_str());
        let purpose = format!("petal session {}", seat.session);
        let link =
            self.connector.connect(Destination::Endpoint(at), &purpose).at(place, "connecting")?;
        let link = self.with_known_loads(link, place)?;
        let session = OracleSession::new(link, place, seat, self.config, &metas, &self.looking)?;
        self.served.lock().add(at, session.instance());
        Ok(Box::new(session))
    }

    fn read_counters(&self, in_full: bool) -> Result<Vec<Counters>> {
        let counters = self.counters.read(in_full)?;
        Ok(self.served.lock().counters(counters))
    }

    fn begin_counting(&self) {
        self.served.lock().begin_counting();
    }

    fn data_bytes(&self) -> Result<Option<u64>> {
        let mut metas = self.metas_now()?;
        metas.truncate(self.schemas.map_or(usize::MAX, |schemas| schemas as usize));
        if self.use_slob_schemas {
            return Ok(slob::bytes(&mut self.connect_first()?, &metas));
        }
        let mut sizes = metas.iter().flat_map(|meta| [meta.bytes, meta.index_bytes]);
        Ok(sizes.try_fold(0_u64, |sum, size| Some(sum.saturating_add(size?))))
    }

    fn placement(&self, schema: u32) -> Result<Placement> {
        let tables = match self.use_slob_schemas {
            true => Tables::of_slob(schema),
            false => Tables::own(schema),
        };
        load::placement(&mut self.connect_first()?, &tables.main)
    }

    fn row_reader(&self, schema: u32) -> Result<Box<dyn RowReader>> {
        let database = self.connect_first()?;
        let meta = self.metas()?.into_iter().find(|meta| meta.about.schema == schema);
        let meta = meta.ok_or_else(|| not_loaded(&database.place, schema))?;
        Ok(Box::new(rows::OracleRows::new(database, meta)?))
    }

    fn drop_data(&self) -> Result<Vec<String>> {
        self.refuse_slobs("drops")?;
        self.counters.disconnect();
        *self.metas.lock() = None;
        load::drop_all(&mut self.connect_first()?)
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(self)
    }

    fn own_report(&self) -> Option<&dyn OwnReport> {
        Some(self)
    }

    fn cost_probes(&self) -> Option<&dyn CostProbes> {
        Some(self)
    }
}

impl Server for Oracle {
    fn version(&self) -> Result<Option<String>> {
        let version = describe::version(&mut self.connect_first()?)?;
        Ok(Some(format!("{} {version}", self.support().product)))
    }

    /// The new text, and the old one in undo.
    fn redo_of_updates(&self, _: u64, changed_bytes: u64) -> Option<RangeInclusive<u64>> {
        Some(changed_bytes * 12 / 10..=changed_bytes * 4)
    }

    fn endpoints(&self) -> u32 {
        self.endpoints.len() as u32
    }

    fn is_environment(&self, code: &str) -> bool {
        let number = code.strip_prefix("ORA-").and_then(|number| number.parse().ok());
        number.map_or(code == "timeout", errors::is_environment)
    }

    fn check_run(&self, _: u32) -> Result<()> {
        match self.statistics_asked && self.statistics == StatisticsType::Awr {
            true => reports::refuse_locked_pack(&mut self.connect_admin()?),
            false => Ok(()),
        }
    }

    fn check_load(&self, plan: &LoadPlan) -> Result<Vec<LoadFact>> {
        if self.use_slob_schemas {
            return Ok(Vec::new());
        }
        let mut database = self.connect_first()?;
        let tablespace = self.load_tablespace(&mut database)?;
        let proof = probe::probe(&mut database, plan, self.data_place(&tablespace));
        let mut admin = self.connect_admin().ok();
        let mut views = room::Views { database: &mut database, admin: admin.as_mut() };
        Ok(room::facts(&mut views, plan, (&tablespace, self.storage.is_logged), proof))
    }

    /// Returns the free sessions of all open instances: a SCAN address or a service spreads
    /// sessions over them.
    fn sessions_max(&self) -> Result<Option<u32>> {
        // Counters, reports, the lock of a run, a connection between two steps, and the liveness
        // check.
        const PETALS_OWN: u64 = 5;
        let rows = self.connect_admin()?.look_if_allowed("free_sessions");
        let free = rows.first().and_then(|row| count(row, 0));
        let free = free.map(|free| free.saturating_sub(PETALS_OWN));
        Ok(free.map(|free| u32::try_from(free).unwrap_or(u32::MAX)))
    }

    fn hold_rows(&self, schema: u32) -> Result<Option<Box<dyn Any>>> {
        let mut database = self.connect_first()?;
        let table = Tables::own(schema).main;
        database
            .execute("locking rows", &sql::filled(sql::LOAD, "lock_rows", &[("table", &table)]))?;
        Ok(Some(Box::new(database)))
    }

    fn server_work(&self) -> Result<Vec<ServerWork>> {
        let counters = self.counters.read(true)?;
        Ok(counters.iter().map(|(_, counters)| server_work::of_counters(counters)).collect())
    }
}

impl OwnReport for Oracle {
    fn begin_report(&self) -> Result<Option<&'static str>> {
        match reports::begin(&mut self.connect_admin()?, self.statistics) {
            Ok(begun) => {
                *self.report.lock() = Some(begun);
                Ok((self.statistics == StatisticsType::Awr).then_some(reports::LICENCE))
            }
            Err(error) if self.statistics_asked => Err(error),
            // The default is Statspack, which most databases lack.
            Err(_) => Ok(None),
        }
    }

    fn end_report(&self) -> Result<Vec<ServerReport>> {
        let begun = self.report.lock().take();
        let Some(begun) = begun else { return Ok(Vec::new()) };
        reports::end(&mut self.connect_admin()?, &begun)
    }
}
