//! Tests of the engine's logic over a scripted database, and of real failures to connect.

mod costs;
mod grammar;
mod load;
mod names;
mod operations;
mod parameters;
mod reports;
mod rows;
mod slob;
mod statistics;
mod way_in;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use super::link::LinkError;
use super::scripted::{ScriptedOracle, error};
use super::*;
use petal_engine::server::scripted::operation;
use petal_engine::{Batch, Outcomes, Silent};
use petal_record::counters::WaitClass;
use petal_settings::url::TargetUrl;
use petal_settings::{Endpoints, Reconnect, RedoStress};
use petal_workload::op::{Kind, Operation};
use petal_workload::plan::seats;
use petal_workload::row::Filler;
use petal_workload::seat::Role;

fn settings() -> Settings {
    let db = TargetUrl::parse("oracle://petal:s3cret@db1/svc").unwrap();
    Settings { db, commit_wait: true, ..Settings::default() }
}

fn engine(scripted: &ScriptedOracle, settings: &Settings) -> Oracle {
    let options = Options::of(settings).unwrap();
    let connector: Arc<dyn Connector> = Arc::new(scripted.clone());
    let storage = options.storage.clone();
    Oracle::over(connector, settings, options.endpoints, options.admin_place, storage)
}

/// Returns a database with schemas 1 to 3 of 2048 rows.
fn loaded() -> ScriptedOracle {
    let keys = [
        ("format", "1"),
        ("rows", "2048"),
        ("scan_rows", "48"),
        ("block_size", "8192"),
        ("width", "128"),
        ("filler", "constant"),
        ("tablespace", "IOPS"),
    ];
    let meta: Vec<Vec<&str>> = ["1", "2", "3"]
        .iter()
        .flat_map(|schema| keys.iter().map(|(key, value)| vec![*schema, *key, *value]))
        .collect();
    let meta: Vec<&[&str]> = meta.iter().map(Vec::as_slice).collect();
    let tables = ["PETAL_META", "PETAL1_CF1", "PETAL1_CF2", "PETAL2_CF1", "PETAL2_CF2"];
    let tables = [&tables[..], &["PETAL3_CF1", "PETAL3_CF2"]].concat();
    let tables: Vec<[&str; 1]> = tables.into_iter().map(|table| [table]).collect();
    let tables: Vec<&[&str]> = tables.iter().map(|table| &table[..]).collect();
    ScriptedOracle::default()
        .answers("FROM sys.user_tables", &tables)
        .answers("FROM sys.user_tab_comments", &tables)
        .answers("FROM petal_meta", &meta)
        .answers("FROM sys.user_segments", &[&["PETAL1_CF1", "17000000"]])
        .answers("FROM sys.user_users", &[&["IOPS"]])
        .answers("FROM sys.user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("FROM sys.product_component_version", &[&["19.0.0.0.0"]])
}

fn seat(session: u32, schema: u32) -> Seat {
    Seat { session, schema, endpoint: 0, role: Role::Mixed }
}

fn unlimited() -> Stop {
    Stop::unlimited(Arc::default())
}

type Ended = (u64, u64, Option<String>);

/// Runs a batch; returns latencies in microseconds, rows and errors of ended operations.
fn execute(engine: &Oracle, seat: Seat, batch: &[Operation]) -> (Vec<Ended>, Result<(), String>) {
    let mut done = Outcomes::default();
    let mut session = engine.connect(seat).unwrap();
    let result = session.execute(Batch::new(batch, &unlimited(), &mut done));
    assert!(done.ended.iter().enumerate().all(|(at, ended)| ended.operation as usize == at));
    assert!(done.ended.is_sorted_by_key(|ended| ended.end_ns));
    let ended = done
        .ended
        .into_iter()
        .map(|ended| (ended.busy_ns / 1000, ended.rows, ended.error.map(String::from)));
    (ended.collect(), result.map_err(|error| error.to_string()))
}

fn plan_of(schema: u32, replace: bool) -> LoadPlan {
    LoadPlan {
        schemas: vec![schema],
        rows: 1024,
        scan_rows: 0,
        block_size: 8192,
        degree: 1,
        unique_index: false,
        filler: Filler::Random,
        seed: 1,
        id: 7,
        replace,
    }
}
