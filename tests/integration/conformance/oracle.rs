//! A stand-in that speaks the protocol of Oracle Database: a test of the wire and of what petal sends.

use petal_settings::{LoopSide, RedoStress, Settings};

use super::{Target, nobody_waits};
use crate::oracle_wire;
use crate::oracle_wire::stand_in::{Release, StandIn};

fn delete_half(stand_in: &StandIn) {
    let mut world = stand_in.shared.world();
    world.tables.get_mut("PETAL1_CF1").unwrap().rows.retain(|key, _| key % 2 == 1);
}

pub const ORACLE_WIRE: Target = Target {
    is_there: || true,
    turn: nobody_waits,
    url: |work| oracle_wire::of(work, Release::Free23).url(),
    flags: &[],
    settings: Settings::default,
    block_size: 8192,
    commits: ("user commits", true),
    look: |work, schema| oracle_wire::of(work, Release::Free23).rows(schema),
    delete_half: Some(|work| delete_half(&oracle_wire::of(work, Release::Free23))),
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

pub const ORACLE_WIRE_CLIENT: Target = Target {
    url: |work| oracle_wire::of(work, Release::Xe18).url(),
    flags: &["--loop", "client", "--redo-stress", "HEAVY"],
    settings: || Settings {
        loop_side: Some(LoopSide::Client),
        redo_stress: RedoStress::Heavy,
        ..Settings::default()
    },
    look: |work, schema| oracle_wire::of(work, Release::Xe18).rows(schema),
    delete_half: Some(|work| delete_half(&oracle_wire::of(work, Release::Xe18))),
    ..ORACLE_WIRE
};
