//! MySQL 8.0 and MariaDB 10.6, and later, with InnoDB: the tables of all petal schemas in one
//! database.
//!
//! - `options`, `option_files`, `connect`, `log_on`, `errors`, `servers`: connections and
//!   the meaning of errors; `client`: questions and answers on one connection
//! - `in_use`: the locks that keep setup and drop from the data of a run
//! - `schema`, `load`, `filling`: the data and how they are made; `page_layout`, `placement`: how each
//!   page gets one row, and its proof
//! - `before_run`, `plan`: questions before a run; `settle`: the server's pending work, done before a
//!   run; `trust`: foreign code that would run
//! - `session`, `session_server`, `session_client`: a session, and the sides of its loop; `work`: their
//!   common state
//! - `server_settings`: settings of the whole server that a sweep varies; `facts`: those that must hold
//!   through a run
//! - `server_counters`, `resets`, `counters`, `waits`, `describe`, `advice`: the server's reports
//! - `costs`: accesses and settings of the optimizer's prices
//!
//! A table is its primary key: a row is found through the index on the key, then through the tree of
//! the table itself. All counters are the whole server's.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod advice;
mod before_run;
mod client;
mod connect;
mod costs;
mod counters;
mod describe;
mod errors;
mod facts;
mod figures;
mod filling;
mod in_use;
mod load;
mod log_on;
mod neighbours;
mod option_files;
mod options;
mod page_layout;
pub mod permitted_settings;
mod placement;
mod plan;
mod privileges;
#[cfg(test)]
mod removed_words;
mod resets;
mod rows;
mod schema;
mod server_counters;
mod server_settings;
mod server_work;
mod servers;
mod session;
mod session_client;
mod session_server;
mod settle;
mod this_host;
mod trust;
mod waits;
mod work;

use std::any::Any;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use client::Client;
use connect::Endpoint;
use counters::CounterReader;
use errors::AtServer as _;
use in_use::TablesInUse;
use page_layout::RowGroup;
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
use petal_record::counters::Counters;
use petal_record::server_work::ServerWork;
use petal_record::target::{
    LoadedSchema, PlanCheck, Privilege, ServerIdentity, Settled, Target, TargetDetails,
};
use petal_record::verification::Recovery;
use petal_settings::table::{EngineSupport, support};
use petal_settings::{LoopSide, Settings};
use petal_workload::seat::Seat;
use session::{MysqlSession, SESSION_SETTINGS};
use settle::Settling;
use work::Shared;

/// A database, on one server or on the nodes of a cluster that hold the same data.
pub struct Mysql {
    servers: Servers<Endpoint>,
    /// Counters of the sessions' servers.
    counters: Vec<CounterReader>,
    /// Schemas of the run; None: all.
    schemas: Option<u32>,
    page_bytes: OnceLock<u32>,
    /// Server of all sessions, if they reconnect.
    followed: Option<FollowedServer>,
    shared: Arc<Shared>,
}

impl Mysql {
    pub fn open(settings: &Settings) -> Result<Self> {
        let servers = servers::of_run(settings)?;
        Ok(Self {
            counters: servers.of_sessions().iter().map(CounterReader::new).collect(),
            servers,
            schemas: settings.schemas,
            page_bytes: OnceLock::new(),
            followed: settings.reconnect.map(|_| FollowedServer::default()),
            shared: Arc::new(Shared {
                url: settings.db.redacted(),
                loop_side: settings.loop_side.unwrap_or(LoopSide::Server),
                redo_stress: settings.redo_stress,
                writes: !settings.only_reads(),
                waits: WaitSampler::default(),
                routines: Mutex::default(),
                known: KnownServer::new(settings.reconnect.is_some()),
            }),
        })
    }

    /// The server on which data are loaded, described and settled.
    fn first(&self) -> &Endpoint {
        let followed = || self.followed.as_ref().and_then(FollowedServer::place);
        &self.servers.all[self.servers.admin.or_else(followed).unwrap_or(0)]
    }

    fn connect_first(&self) -> Result<Client> {
        self.first().connect()
    }

    /// Every complete schema, or as many of them as the run asked for.
    fn numbers(&self, client: &mut Client) -> Result<Vec<u32>> {
        let tables = schema::tables(client)?;
        let marked = tables.iter().filter(|(_, is_marked)| *is_marked);
        let asked = self.schemas.map_or(usize::MAX, |schemas| schemas as usize);
        Ok(marked.filter_map(|(name, _)| schema::number_of(name)).take(asked).collect())
    }

    fn metas(&self) -> Result<Vec<SchemaMeta>> {
        let mut client = self.connect_first()?;
        let numbers = self.numbers(&mut client)?;
        if !numbers.is_empty() {
            trust::check_users(&mut client)?;
        }
        numbers.into_iter().map(|number| schema::read_meta(&mut client, number)).collect()
    }

    fn page_bytes(&self) -> Result<u32> {
        let ask = || {
            let mut client = self.connect_first()?;
            client.ask_row("asking for innodb_page_size", "SELECT @@innodb_page_size")
        };
        known(&self.page_bytes, ask).copied()
    }
}

impl Engine for Mysql {
    fn support(&self) -> &'static EngineSupport {
        &support::MYSQL
    }

    fn block_size(&self, asked: Option<u32>) -> Result<u32> {
        let there = self.page_bytes()?;
        RowGroup::in_pages_of(there)?;
        match asked {
            Some(asked) if asked != there => Err(EngineError::Setting(format!(
                "BLOCK_SZ={asked}: the server's blocks have {there} bytes (innodb_page_size), which is \
                 fixed when its data directory is made; leave BLOCK_SZ out or give {there}"
            ))),
            _ => Ok(there),
        }
    }

    fn loaded(&self) -> Result<Vec<LoadedSchema>> {
        let metas = self.metas()?;
        let mut client = self.connect_first()?;
        let of =
            |meta: &SchemaMeta| schema::with_sizes(meta, &mut client, &schema::name(meta.schema));
        metas.iter().map(of).collect()
    }

    fn describe(&self, schemas: u32, _: u32) -> Result<(Target, TargetDetails)> {
        let mut metas = self.metas()?;
        metas.truncate(schemas as usize);
        describe::describe(&self.shared, self.first(), &metas)
    }

    fn plan(&self, schemas: u32) -> Result<Option<PlanCheck>> {
        let mut client = self.first().connect_to_look()?;
        client.send("setting up a session", SESSION_SETTINGS)?;
        let checked = plan::check_again(&mut client, 1..=schemas);
        checked.at(&client.server, "explaining the SELECT")
    }

    fn load(&self, plan: &LoadPlan, progress: &dyn Progress, stop: &Stop) -> Result<LoadSummary> {
        self.block_size(Some(plan.block_size))?;
        self.counters.iter().for_each(CounterReader::disconnect);
        load::Loader { endpoint: self.first(), load: Load { plan, progress, stop } }.run()
    }

    fn begin_use(&self, schemas: u32) -> Result<Box<dyn DataUse>> {
        Ok(Box::new(TablesInUse::begin(self.first(), schemas)?))
    }

    fn settle(&self, progress: &dyn Progress, stop: &Stop) -> Result<Settled> {
        let numbers: Vec<u32> = self.metas()?.iter().map(|meta| meta.schema).collect();
        Settling { endpoint: self.first(), schemas: &numbers, progress, stop }.run()
    }

    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        if let Some(followed) = &self.followed {
            return followed.connect(self.servers.of_sessions(), |endpoint| {
                if self.shared.writes && self.servers.sessions > 1 {
                    servers::check_writable(endpoint)?;
                }
                Ok(Box::new(MysqlSession::connect(&self.shared, endpoint, seat)?))
            });
        }
        let endpoint = &self.servers.all[self.servers.place(seat.endpoint)];
        Ok(Box::new(MysqlSession::connect(&self.shared, endpoint, seat)?))
    }

    fn reconnect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        self.servers.all.iter().for_each(|endpoint| endpoint.state.begin_outage());
        self.connect(seat)
    }

    fn read_counters(&self, _in_full: bool) -> Result<Vec<Counters>> {
        self.counters.iter().map(|reader| reader.read(&self.shared.waits)).collect()
    }

    fn begin_counting(&self) {
        self.counters.iter().for_each(CounterReader::begin_counting);
    }

    fn quiesce(&self) -> Result<()> {
        self.shared.waits.stop();
        Ok(())
    }

    fn data_bytes(&self) -> Result<Option<u64>> {
        let mut client = self.first().connect_to_look()?;
        let mut bytes = Some(0);
        for number in self.numbers(&mut client)? {
            let of_one = placement::main_bytes(&mut client, &schema::name(number))?;
            bytes = bytes.zip(of_one).and_then(|(sum, one): (u64, u64)| sum.checked_add(one));
        }
        Ok(bytes)
    }

    fn placement(&self, schema: u32) -> Result<Placement> {
        placement::count(&mut self.connect_first()?, &schema::name(schema))
    }

    fn row_reader(&self, schema: u32) -> Result<Box<dyn RowReader>> {
        Ok(Box::new(rows::MysqlRows::open(self.first(), schema)?))
    }

    fn drop_data(&self) -> Result<Vec<String>> {
        let mut client = self.first().connect()?;
        in_use::hold_alone(&mut client)?;
        load::drop_marked(&mut client)
    }

    fn neighbours(&self) -> Option<&dyn KnownNeighbours> {
        Some(self)
    }

    fn cost_probes(&self) -> Option<&dyn CostProbes> {
        Some(self)
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(self)
    }
}

impl Server for Mysql {
    fn serve(&self, caller: &Caller) -> bool {
        self.servers.all.iter().for_each(|endpoint| endpoint.state.serve(caller));
        true
    }

    fn endpoints(&self) -> u32 {
        if self.followed.is_some() { 1 } else { self.servers.sessions as u32 }
    }

    fn check_run(&self, schemas: u32) -> Result<()> {
        if !self.shared.writes {
            return Ok(());
        }
        let check = |endpoint| match self.followed {
            Some(_) => servers::check_writable(endpoint)
                .and_then(|()| before_run::check_updates(endpoint, schemas)),
            None => before_run::check_updates(endpoint, schemas),
        };
        let checked: Vec<Result<()>> = self.servers.of_sessions().iter().map(check).collect();
        // Replicas only read until they are promoted.
        let one_is_enough = self.followed.is_some() && checked.iter().any(Result::is_ok);
        if !one_is_enough {
            checked.into_iter().collect::<Result<()>>()?;
        }
        self.check_room().map(|_| ())
    }

    fn check_replicas(&self) -> Result<()> {
        self.servers.of_sessions().iter().try_for_each(before_run::check_replicas)
    }

    fn check_room(&self) -> Result<bool> {
        let mut seen = true;
        for endpoint in self.servers.of_sessions() {
            seen &= servers::check_room(endpoint, "a run with UPDATEs", Vec::new())?;
        }
        Ok(seen)
    }

    fn privileges(&self) -> Result<Vec<Privilege>> {
        let mut client = self.connect_first()?;
        let numbers = self.numbers(&mut client)?;
        privileges::privileges(self.first(), &numbers)
    }

    fn sessions_max(&self) -> Result<Option<u32>> {
        self.servers.sessions_max(servers::free_connections)
    }

    fn version(&self) -> Result<Option<String>> {
        describe::version(&mut self.first().connect_to_look()?).map(Some)
    }

    /// A leaf of the index, and root and leaf of the table's tree: 3.0 on MariaDB, 4.7 on MySQL.
    fn visits_of_a_row(&self) -> RangeInclusive<f64> {
        2.1..=5.9
    }

    /// The new text, and the old one in the undo log: 2.0 on MariaDB, 2.2 on MySQL.
    fn redo_of_updates(&self, _: u64, changed_bytes: u64) -> Option<RangeInclusive<u64>> {
        Some(changed_bytes * 3 / 2..=changed_bytes * 39 / 10)
    }

    fn is_environment(&self, code: &str) -> bool {
        code.parse().is_ok_and(errors::is_environment)
    }

    fn hold_rows(&self, schema: u32) -> Result<Option<Box<dyn Any>>> {
        let mut client = self.first().connect()?;
        client.send("locking rows", "START TRANSACTION")?;
        let lock = format!("UPDATE {}_cf1 SET c2 = 'held'", schema::name(schema));
        client.send("locking rows", &lock)?;
        Ok(Some(Box::new(client)))
    }

    fn server_work(&self) -> Result<Vec<ServerWork>> {
        let mut all = self.read_counters(true)?;
        if all.iter().any(|counters| !counters.resets.is_empty()) {
            // The next interval begins with counters that are whole.
            self.begin_counting();
            all = self.read_counters(true)?;
        }
        let work = all.iter().zip(&self.counters).map(|(counters, reader)| ServerWork {
            counted_since: format!("reset {}", reader.resets_seen()),
            ..server_work::of_counters(counters)
        });
        Ok(work.collect())
    }

    fn server_processes(&self) -> Vec<ServerProcesses> {
        each_once(self.servers.of_sessions().iter().map(servers::processes))
    }

    fn clock(&self) -> Option<ClockReading> {
        servers::clock(self.first())
    }

    fn settings(&self) -> Option<&dyn ChangeableSettings> {
        Some(self)
    }

    fn identities(&self, schemas: u32) -> Result<Vec<ServerIdentity>> {
        let of_one = |endpoint: &Endpoint| {
            let mut client = endpoint.connect_to_look()?;
            let system = Some(server_settings::identity(&mut client)?);
            let load = |schema| Ok((schema, schema::read_meta(&mut client, schema)?.load));
            let loads = (1..=schemas).map(load).collect::<Result<_>>()?;
            Ok(ServerIdentity { server: endpoint.name.clone(), system, timeline: None, loads })
        };
        self.servers.of_sessions().iter().map(of_one).collect()
    }

    fn settings_now(&self, _schemas: u32) -> Result<ServerFacts> {
        let mut all = ServerFacts::default();
        for reader in &self.counters {
            let of_one = reader.ask(facts::of_server)?;
            all.add(if self.counters.len() > 1 { reader.server() } else { "" }, of_one);
        }
        Ok(all)
    }

    fn settings_mark(&self) -> Result<Option<String>> {
        let marks: Result<Vec<String>> =
            self.counters.iter().map(|reader| reader.ask(facts::mark)).collect();
        Ok(Some(marks?.join("; ")))
    }

    fn recovery(&self) -> Result<Option<Recovery>> {
        servers::recovery(self.first())
    }
}
