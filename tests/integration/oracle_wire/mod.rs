//! A stand-in for Oracle Database that speaks its protocol, so that petal's own program can connect,
//! load, run, be cut and fail over a real connection. It is a test of the wire and no database: what
//! statements mean stands in `model` and `block`, for petal's own texts alone. What it sends is held
//! against recordings of real servers, in `tests/data/oracle-wire`.

mod block;
pub mod buffer;
mod connection;
pub mod logon;
pub mod model;
pub mod request;
pub mod response;
pub mod stand_in;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::support::Workplace;
use stand_in::{Release, StandIn};

/// A recording, by its name.
pub fn capture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle-wire");
    let text = std::fs::read_to_string(folder.join(format!("{name}.hex"))).unwrap();
    logon::unhex(&text).unwrap()
}

/// The stand-in of a workplace, which begins when it is first asked for.
pub fn of(work: &Workplace, release: Release) -> StandIn {
    static ALL: Mutex<BTreeMap<PathBuf, StandIn>> = Mutex::new(BTreeMap::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.entry(work.path("")).or_insert_with(|| StandIn::start(release)).clone()
}
