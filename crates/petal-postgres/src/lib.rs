//! PostgreSQL, 12 and later: one schema of a database per petal schema.
//!
//! - `options`, `libpq`, `tls`, `connect`: connections and the meaning of errors; `stream`: the
//!   limit of a message's length, and the program that answers; `login_watch`: the servers that get the password
//! - `client`: questions and answers on one connection; `long_work`: those of unknown length;
//!   `locks`: holders of a lock that petal waits for
//! - `in_use`: the lock that keeps setup and drop from the data of a run
//! - `schema`, `load`, `filling`, `placement`: the data, their making and its progress, and
//!   their proof
//! - `servers`, `publications`, `plan`: questions and preparations before a run
//! - `rights`: functions and views that a role may be refused; `trust`: foreign code that a role would run in a schema
//! - `session`, `session_server`, `session_client`: a session, and the sides of its loop; `work`: their
//!   common state
//! - `costs`: accesses and settings of the planner's prices
//! - `server_settings`: settings of the whole server that a sweep varies; `permitted_settings`: their list
//! - `counters` by the table in `figures`, `waits`, `describe`, `facts`: the server's reports;
//!   `server_work`: everybody's work
//!
//! Three traits of PostgreSQL shape every result. It reads through the page cache of the operating
//! system: a miss in shared_buffers need not reach the device. Its statistics come from sessions,
//! which report when petal asks them to. And the first change of a block after a checkpoint logs all of it.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod advice;
mod answer;
mod client;
mod connect;
mod costs;
mod counters;
mod describe;
mod facts;
mod figures;
mod filling;
mod in_use;
mod libpq;
mod load;
mod locks;
mod login_watch;
mod long_work;
mod neighbours;
mod options;
pub mod permitted_settings;
mod placement;
mod plan;
mod privileges;
mod publications;
mod rights;
mod rows;
mod schema;
mod server_settings;
mod server_work;
mod servers;
mod session;
mod session_client;
mod session_server;
mod stream;
mod this_host;
mod tls;
mod trust;
mod waits;
mod work;

use std::any::Any;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use client::Client;
use connect::{Endpoint, check_version};
use counters::CounterReader;
use in_use::TablesInUse;
use petal_engine::costs::CostProbes;
use petal_engine::in_use::DataUse;
use petal_engine::neighbour::KnownNeighbours;
use petal_engine::server::clock::ClockReading;
use petal_engine::server::identity::KnownServer;
use petal_engine::server::loader::Load;
use petal_engine::server::meta_table::SchemaMeta;
use petal_engine::server::servers::{FollowedServer, Servers, each_once, known};
use petal_engine::server::wait_sampler::WaitSampler;
use petal_engine::server_settings::ChangeableSettings;
use petal_engine::{
    Caller, Engine, EngineError, LoadPlan, LoadSummary, Placement, Progress, Result, RowReader,
    Server, ServerFacts, Session, Stop,
};
use petal_host::os::ServerProcesses;
use petal_record::counters::{Counters, IoCounts};
use petal_record::server_work::ServerWork;
use petal_record::target::{
    LoadedSchema, PlanCheck, Privilege, ServerIdentity, Settled, Target, TargetDetails,
};
use petal_record::verification::Recovery;
use petal_settings::table::{EngineSupport, support};
use petal_settings::{LoopSide, Settings};
use petal_workload::seat::{Role, Seat};
use schema::relation_bytes;
use servers::is_standby;
use session::PostgresSession;
use work::Shared;

/// The most that a server takes for effective_io_concurrency.
const PREFETCH_MAX: u32 = 1000;

/// A database, on one server or on several that hold the same data.
pub struct Postgres {
    servers: Servers<Endpoint>,
    /// Counters of every server.
    counters: Vec<CounterReader>,
    tablespace: Option<String>,
    /// Autovacuum is to work on the tables that are updated.
    autovacuum: bool,
    /// Schemas of the run; None: all.
    schemas: Option<u32>,
    block_bytes: OnceLock<u32>,
    /// True for each server that is a standby; asked once.
    standbys: OnceLock<Vec<bool>>,
    /// Some session may write.
    writes: bool,
    /// Server of all sessions, if they reconnect.
    followed: Option<FollowedServer>,
    shared: Arc<Shared>,
}

impl Postgres {
    pub fn open(settings: &Settings) -> Result<Self> {
        if settings.prefetch > PREFETCH_MAX {
            return Err(EngineError::Setting(format!(
                "PREFETCH={}: PostgreSQL reads at most {PREFETCH_MAX} blocks ahead \
                 (effective_io_concurrency); give 0 to {PREFETCH_MAX}",
                settings.prefetch
            )));
        }
        let servers = servers::of_run(settings)?;
        Ok(Self {
            counters: servers
                .all
                .iter()
                .map(|server| CounterReader::new(server, settings.scan_pct > 0))
                .collect(),
            servers,
            tablespace: settings.db.options.get("tablespace").cloned(),
            autovacuum: options::autovacuum(&settings.db)?,
            schemas: settings.schemas,
            block_bytes: OnceLock::new(),
            standbys: OnceLock::new(),
            writes: !settings.only_reads(),
            followed: settings.reconnect.map(|_| FollowedServer::default()),
            shared: Arc::new(Shared {
                url: settings.db.redacted(),
                loop_side: settings.loop_side.unwrap_or(LoopSide::Server),
                redo_stress: settings.redo_stress,
                prefetch: settings.prefetch,
                routines: Mutex::default(),
                waits: WaitSampler::default(),
                known: KnownServer::new(settings.reconnect.is_some()),
                reports_late: AtomicBool::default(),
            }),
        })
    }

    /// The server on which data are loaded, described and settled.
    fn first(&self) -> Result<&Endpoint> {
        let at = self.servers.admin.map_or_else(|| self.primary(), Ok)?;
        Ok(&self.servers.all[at])
    }

    /// The server of UPDATEs: the first that is no standby, or else the first.
    fn primary(&self) -> Result<usize> {
        if let Some(place) = self.followed.as_ref().and_then(FollowedServer::place) {
            return Ok(place);
        }
        Ok(self.standbys()?.iter().position(|is_standby| !is_standby).unwrap_or(0))
    }

    /// The number of servers of the sessions, plus the primary if it is another one and gets
    /// writes.
    fn counted(&self) -> Result<usize> {
        match self.writes && self.primary()? >= self.servers.sessions {
            true => Ok(self.servers.all.len()),
            false => Ok(self.servers.sessions),
        }
    }

    /// True for each server that only reads. A single server need not be asked.
    fn standbys(&self) -> Result<&[bool]> {
        let ask = || match self.servers.all.as_slice() {
            [_] => Ok(vec![false]),
            several => several.iter().map(is_standby).collect(),
        };
        known(&self.standbys, ask).map(Vec::as_slice)
    }

    fn connect_to(&self, endpoint: &Endpoint, seat: Seat) -> Result<Box<dyn Session>> {
        // The server of a single address says itself that it takes no UPDATEs.
        if self.writes && self.servers.sessions > 1 && is_standby(endpoint)? {
            let name = &endpoint.name;
            return Err(EngineError::Environment(format!(
                "{name}: is a standby, which only reads"
            )));
        }
        Ok(Box::new(PostgresSession::connect(&self.shared, endpoint, None, seat)?))
    }

    fn connect_first(&self) -> Result<Client> {
        let mut client = self.first()?.connect("petal")?;
        check_version(&mut client)?;
        Ok(client)
    }

    /// Every complete schema of the run: others may be closed to this role.
    fn metas(&self) -> Result<Vec<SchemaMeta>> {
        let mut client = self.connect_first()?;
        let numbers = self.numbers(&mut client)?;
        numbers.into_iter().map(|number| schema::read_meta(&mut client, number)).collect()
    }

    fn numbers(&self, client: &mut Client) -> Result<Vec<u32>> {
        let marked = load::marked_schemas(client)?;
        let numbers = marked.iter().filter(|(_, petals)| *petals);
        let asked = self.schemas.map_or(usize::MAX, |schemas| schemas as usize);
        Ok(numbers.filter_map(|(name, _)| schema::number(name)).take(asked).collect())
    }

    /// The server's, fixed when it was built.
    fn block_bytes(&self) -> Result<u32> {
        known(&self.block_bytes, || load::block_bytes(&mut self.connect_first()?)).copied()
    }
}

impl Engine for Postgres {
    fn support(&self) -> &'static EngineSupport {
        &support::POSTGRES
    }

    fn block_size(&self, asked: Option<u32>) -> Result<u32> {
        let there = self.block_bytes()?;
        match asked {
            Some(asked) if asked != there => Err(EngineError::Setting(format!(
                "BLOCK_SZ={asked}: the server's blocks have {there} bytes, which is fixed when it \
                 is built; leave BLOCK_SZ out or give {there}"
            ))),
            _ => Ok(there),
        }
    }

    fn loaded(&self) -> Result<Vec<LoadedSchema>> {
        let metas = self.metas()?;
        let mut client = self.connect_first()?;
        let of = |meta| schema::with_sizes(meta, &mut client, &schema::name(meta.schema));
        metas.iter().map(of).collect()
    }

    fn describe(&self, schemas: u32, _: u32) -> Result<(Target, TargetDetails)> {
        let mut metas = self.metas()?;
        metas.truncate(schemas as usize);
        describe::describe(&self.shared, self.first()?, &metas)
    }

    fn plan(&self, schemas: u32) -> Result<Option<PlanCheck>> {
        let mut client = self.first()?.connect_to_look("petal check")?;
        plan::apply(&mut client, self.shared.prefetch)?;
        plan::check(&mut client, 1..=schemas, self.shared.prefetch)
    }

    fn load(&self, plan: &LoadPlan, progress: &dyn Progress, stop: &Stop) -> Result<LoadSummary> {
        self.block_size(Some(plan.block_size))?;
        let endpoint = self.first()?;
        self.counters.iter().for_each(CounterReader::disconnect);
        let tablespace = self.tablespace.as_deref();
        load::Loader { endpoint, tablespace, load: Load { plan, progress, stop } }.run()
    }

    fn begin_use(&self, schemas: u32) -> Result<Box<dyn DataUse>> {
        Ok(Box::new(TablesInUse::begin(self.first()?, schemas)?))
    }

    fn settle(&self, progress: &dyn Progress, stop: &Stop) -> Result<Settled> {
        let numbers: Vec<u32> = self.metas()?.iter().map(|meta| meta.schema).collect();
        servers::Settling { endpoint: self.first()?, autovacuum: self.autovacuum, progress, stop }
            .run(&numbers)
    }

    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        if let Some(followed) = &self.followed {
            let servers = self.servers.of_sessions();
            return followed.connect(servers, |endpoint| self.connect_to(endpoint, seat));
        }
        let at = self.servers.place(seat.endpoint);
        let is_standby = self.standbys()?.get(at).copied().unwrap_or(false);
        let may_write = self.writes && seat.role != Role::Reader;
        let primary = match is_standby && may_write {
            true => Some(&self.servers.all[self.primary()?]),
            false => None,
        };
        Ok(Box::new(PostgresSession::connect(&self.shared, &self.servers.all[at], primary, seat)?))
    }

    fn reconnect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        self.servers.all.iter().for_each(|endpoint| endpoint.state.begin_outage());
        Engine::connect(self, seat)
    }

    fn begin_counting(&self) {
        self.counters.iter().for_each(CounterReader::begin_counting);
    }

    fn read_counters(&self, in_full: bool) -> Result<Vec<Counters>> {
        let block_bytes = self.block_bytes()?;
        let is_late = self.shared.reports_late.load(Ordering::Relaxed);
        let read = |reader: &CounterReader| {
            let mut counters = reader.read(block_bytes.into(), &self.shared.waits)?;
            if !in_full && is_late {
                // Only the log's position is of this second.
                let redo_bytes = counters.io.redo_bytes;
                counters.io = IoCounts { redo_bytes, ..IoCounts::default() };
            }
            Ok(counters)
        };
        self.counters.iter().take(self.counted()?).map(read).collect()
    }

    fn quiesce(&self) -> Result<()> {
        let mut readers = self.counters.iter().zip(&self.servers.all);
        let is_late = self.shared.reports_late.load(Ordering::Relaxed);
        let settled = readers.try_for_each(|(reader, endpoint)| match is_late {
            true => reader.settle(&self.shared.waits.sessions(&endpoint.name)),
            false => Ok(()),
        });
        self.shared.waits.stop();
        settled?;
        let promoted = self.counters.iter().find_map(CounterReader::promoted);
        promoted.map_or(Ok(()), |what| Err(EngineError::Environment(what)))
    }

    fn data_bytes(&self) -> Result<Option<u64>> {
        let mut client = self.first()?.connect_to_look("petal")?;
        let mut bytes = 0;
        for number in self.numbers(&mut client)? {
            let name = schema::name(number);
            for relation in ["cf1", "cf1_custid"] {
                bytes += relation_bytes(&mut client, &format!("{name}.{relation}"))?;
            }
        }
        Ok(Some(bytes))
    }

    fn placement(&self, schema: u32) -> Result<Placement> {
        let mut client = self.connect_first()?;
        let block_bytes = load::block_bytes(&mut client)?;
        placement::count(&mut client, &schema::name(schema), block_bytes, &|_| ())
    }

    fn row_reader(&self, schema: u32) -> Result<Box<dyn RowReader>> {
        Ok(Box::new(rows::PostgresRows::open(self.first()?, schema)?))
    }

    fn drop_data(&self) -> Result<Vec<String>> {
        self.shared.waits.stop();
        let mut client = long_work::open(self.first()?, "petal drop")?.client;
        check_version(&mut client)?;
        // What is dropped needs no standby's answer, and with none there the drop would wait for ever.
        client.ask("dropping", NO_STANDBY, &[])?;
        in_use::hold_alone(&mut client)?;
        load::drop_marked(&mut client)
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(self)
    }

    fn neighbours(&self) -> Option<&dyn KnownNeighbours> {
        Some(self)
    }

    fn cost_probes(&self) -> Option<&dyn CostProbes> {
        Some(self)
    }
}

/// Lowers synchronous_commit to the own disk, unless it is lower.
const NO_STANDBY: &str = "\
SELECT pg_catalog.set_config('synchronous_commit', 'local', false)
WHERE pg_catalog.current_setting('synchronous_commit') NOT IN ('off', 'local')";

impl Server for Postgres {
    fn version(&self) -> Result<Option<String>> {
        describe::version(&mut self.first()?.connect_to_look("petal prove")?).map(Some)
    }

    /// The row's block; a leaf of the index has hundreds of entries.
    fn visits_of_a_row(&self) -> RangeInclusive<f64> {
        1.0..=1.9
    }

    /// The new text, and an image of each block that is changed for the first time after a checkpoint: 1.4.
    fn redo_of_updates(&self, _: u64, changed_bytes: u64) -> Option<RangeInclusive<u64>> {
        Some(changed_bytes * 95 / 100..=changed_bytes * 19 / 10)
    }

    fn serve(&self, caller: &Caller) -> bool {
        self.servers.all.iter().for_each(|endpoint| endpoint.state.serve(caller));
        true
    }

    fn endpoints(&self) -> u32 {
        if self.followed.is_some() { 1 } else { self.servers.sessions as u32 }
    }

    fn check_run(&self, schemas: u32) -> Result<()> {
        if self.servers.all.len() > 1 {
            servers::check_one_primary(&self.servers.all)?;
        }
        if !self.writes {
            return Ok(());
        }
        let schemas: Vec<u32> = (1..=schemas).collect();
        servers::check_updates(&self.servers.all[self.primary()?], &schemas)?;
        self.check_room().map(|_| ())
    }

    fn check_replicas(&self) -> Result<()> {
        servers::check_standbys(&self.servers.all[self.primary()?])
    }

    fn check_room(&self) -> Result<bool> {
        servers::check_log_room(&self.servers.all[self.primary()?])
    }

    fn privileges(&self) -> Result<Vec<Privilege>> {
        let endpoint = self.first()?;
        let numbers = self.numbers(&mut endpoint.connect("petal")?)?;
        privileges::privileges(endpoint, &numbers)
    }

    /// Connections that are left for this role, petal's own aside.
    fn sessions_max(&self) -> Result<Option<u32>> {
        self.servers.sessions_max(servers::free_connections)
    }

    fn is_environment(&self, code: &str) -> bool {
        connect::is_environment(code)
    }

    fn snapshot_holder(&self) -> Result<Option<String>> {
        servers::snapshot_holder(self.first()?)
    }

    fn end_left_sessions(&self) -> Result<()> {
        locks::end_left_sessions(&mut self.first()?.connect_to_look("petal check")?)
    }

    fn hold_rows(&self, schema: u32) -> Result<Option<Box<dyn Any>>> {
        let mut client = self.first()?.connect("petal")?;
        let lock = format!("BEGIN; LOCK TABLE {}.cf1 IN EXCLUSIVE MODE", schema::name(schema));
        client.run("locking rows", &lock)?;
        Ok(Some(Box::new(client)))
    }

    fn server_work(&self) -> Result<Vec<ServerWork>> {
        self.servers.of_sessions().iter().map(server_work::look).collect()
    }

    fn server_processes(&self) -> Vec<ServerProcesses> {
        let counted = self.counted().unwrap_or(self.servers.sessions);
        each_once(self.servers.all.iter().take(counted).map(servers::processes))
    }

    fn clock(&self) -> Option<ClockReading> {
        servers::clock(self.first().ok()?)
    }

    fn settings(&self) -> Option<&dyn ChangeableSettings> {
        Some(self)
    }

    fn identities(&self, schemas: u32) -> Result<Vec<ServerIdentity>> {
        let of_one = |endpoint: &Endpoint| {
            let mut client = endpoint.connect_to_look("petal check")?;
            let (system, timeline) = servers::identity(&mut client)?;
            let load = |schema| Ok((schema, schema::read_meta(&mut client, schema)?.load));
            let loads = (1..=schemas).map(load).collect::<Result<_>>()?;
            Ok(ServerIdentity { server: endpoint.name.clone(), system, timeline, loads })
        };
        self.servers.of_sessions().iter().map(of_one).collect()
    }

    fn settings_now(&self, schemas: u32) -> Result<ServerFacts> {
        let counted = self.counters.iter().take(self.counted()?);
        let mut all = ServerFacts::default();
        for (server, of_one) in counted
            .map(|reader| (reader.server(), reader.ask(|client| facts::of_server(client, schemas))))
        {
            all.add(if self.servers.all.len() > 1 { server } else { "" }, of_one?);
        }
        Ok(all)
    }

    fn settings_mark(&self) -> Result<Option<String>> {
        let counted = self.counters.iter().take(self.counted()?);
        let marks: Result<Vec<String>> = counted.map(|reader| reader.ask(facts::mark)).collect();
        Ok(Some(marks?.join("; ")))
    }

    fn recovery(&self) -> Result<Option<Recovery>> {
        servers::recovery(self.first()?)
    }
}
