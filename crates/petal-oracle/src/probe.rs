//! The small table with which `petal check` proves one row per block.

use super::database::Database;
use super::errors::AtPlace as _;
use super::load::{InsertRows, ROWS_PER_CALL, create_marked, filled, marked_tables, placement};
use super::room::Seen;
use super::sql::DataPlace;
use super::{meta, sql};
use petal_engine::server::row_layout::column_bytes;
use petal_engine::{EngineError, LoadPlan, Placement, Result};

/// Test table of `petal check`, as it is in the dictionary.
const PROBE: &str = "PETAL_PROBE";
const PROBE_TABLE: &str = "petal_probe";

/// Proves one row per block on a small table, and drops the table.
pub fn probe(database: &mut Database, plan: &LoadPlan, place: DataPlace<'_>) -> Seen<Placement> {
    let reason = |error: EngineError| error.to_string();
    if meta::own_tables(database).map_err(reason)?.iter().any(|table| table == PROBE) {
        if !marked_tables(database).map_err(reason)?.iter().any(|table| table == PROBE) {
            return Err("a table petal_probe without petal's mark is in the way".to_owned());
        }
        drop_probe(database).map_err(reason)?;
    }
    let placement = fill_probe(database, plan, place);
    let dropped = drop_probe(database);
    let placement = placement.map_err(reason)?;
    dropped.map_err(|error| format!("the test table petal_probe stays: {error}"))?;
    Ok(placement)
}

/// Creates the test table, and fills it like a load.
fn fill_probe(database: &mut Database, plan: &LoadPlan, place: DataPlace<'_>) -> Result<Placement> {
    let doing = format!("writing rows of {PROBE_TABLE}");
    create_marked(database, PROBE_TABLE, plan, place)?;
    let mut made = InsertRows::new(1, plan.filler, column_bytes(plan.block_size));
    for (insert, keys) in [("insert_rows", 1..2), ("insert_direct", 2..ROWS_PER_CALL + 2)] {
        made.make(keys);
        let link = &mut database.link;
        let sent = link.execute_many(&sql::insert(insert, PROBE_TABLE), &made.binds());
        sent.and_then(|_| link.commit()).at(&database.place, &doing)?;
        if insert == "insert_rows" {
            database.execute(&doing, &filled("minimize", PROBE_TABLE))?;
        }
    }
    placement(database, PROBE_TABLE)
}

fn drop_probe(database: &mut Database) -> Result<()> {
    database.execute(&format!("dropping {PROBE_TABLE}"), &filled("drop_table", PROBE_TABLE))
}
