//! A live Oracle Database, and a stand-in that speaks its protocol.

use petal_model::settings::{LoopSide, RedoStress, Settings};

use super::{Target, nobody_waits};
use crate::oracle_wire;
use crate::oracle_wire::stand_in::{Release, StandIn};
use crate::server_oracle;

pub const ORACLE: Target = Target {
    is_there: || true,
    turn: server_oracle::turn,
    url: |_| server_oracle::url(),
    flags: &[],
    settings: Settings::default,
    block_size: 8192,
    commits: ("user commits", true),
    look: |_, schema| server_oracle::rows(schema),
    delete_half: None,
    broken: |_| {
        // A port that nobody listens at.
        ("oracle://petal:s3cret@127.0.0.1:1/x".to_owned(), "127.0.0.1:1".to_owned())
    },
    data: None,
    is_traced: false,
    log: None,
    order: None,
    hold: None,
};

pub const ORACLE_CLIENT: Target = Target {
    flags: &["--loop", "client", "--redo-stress", "HEAVY"],
    settings: || Settings {
        loop_side: Some(LoopSide::Client),
        redo_stress: RedoStress::Heavy,
        ..Settings::default()
    },
    ..ORACLE
};

fn delete_half(stand_in: &StandIn) {
    let mut world = stand_in.shared.world();
    world.tables.get_mut("PETAL1_CF1").unwrap().rows.retain(|key, _| key % 2 == 1);
}

/// No database, but its protocol: a test of the wire and of what petal sends.
pub const ORACLE_WIRE: Target = Target {
    turn: nobody_waits,
    url: |work| oracle_wire::of(work, Release::Free23).url(),
    look: |work, schema| oracle_wire::of(work, Release::Free23).rows(schema),
    delete_half: Some(|work| delete_half(&oracle_wire::of(work, Release::Free23))),
    ..ORACLE
};

pub const ORACLE_WIRE_CLIENT: Target = Target {
    turn: nobody_waits,
    url: |work| oracle_wire::of(work, Release::Xe18).url(),
    look: |work, schema| oracle_wire::of(work, Release::Xe18).rows(schema),
    delete_half: Some(|work| delete_half(&oracle_wire::of(work, Release::Xe18))),
    ..ORACLE_CLIENT
};
