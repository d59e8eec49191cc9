//! petal's engine on a test's PostgreSQL server, without petal's command line: opened, loaded, handed
//! operations. No test of its own.

use std::sync::Arc;

use petal_engine::{Engine, LoadPlan, Silent, Stop};
use petal_settings::Settings;
use petal_settings::url::TargetUrl;
use petal_workload::op::{Kind, Operation};
use petal_workload::row::Filler;
use petal_workload::seat::{Role, Seat};

pub const ROWS: u64 = 2048;

pub fn open(url: &str) -> Arc<dyn Engine> {
    open_with(url, Settings::default())
}

pub fn open_with(url: &str, settings: Settings) -> Arc<dyn Engine> {
    petal::engines::open(&Settings { db: TargetUrl::parse(url).unwrap(), ..settings }).unwrap()
}

pub fn plan(schemas: u32) -> LoadPlan {
    LoadPlan {
        id: 7,
        schemas: (1..=schemas).collect(),
        rows: ROWS,
        scan_rows: 32,
        block_size: 8192,
        degree: 2,
        unique_index: false,
        filler: Filler::Constant,
        seed: 7,
        replace: false,
    }
}

pub fn load(url: &str, schemas: u32) {
    open(url).load(&plan(schemas), &Silent, &unlimited()).unwrap();
}

pub fn unlimited() -> Stop {
    Stop::unlimited(Arc::default())
}

/// Session 1, in schema 1.
pub const SEAT: Seat = Seat { session: 1, schema: 1, endpoint: 0, role: Role::Mixed };

pub fn update(first: u64, rows: u32, stamp: u64) -> Operation {
    Operation { kind: Kind::Update, schema: 1, first, rows, stamp, due: None, hot: [false; 2] }
}

pub fn select(first: u64, rows: u32) -> Operation {
    Operation { kind: Kind::Select, ..update(first, rows, 0) }
}
