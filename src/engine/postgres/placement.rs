//! How rows lie in pages, by the addresses that rows themselves have (`ctid`).

use postgres::GenericClient;

use super::connect::engine_error;
use super::meta::relation_bytes;
use super::schema;
use crate::engine::{EngineError, Placement};

/// Reads the whole main table.
pub fn count(
    client: &mut impl GenericClient,
    server: &str,
    name: &str,
    block_bytes: u32,
) -> Result<Placement, EngineError> {
    let row = client
        .query_one(&schema::placement(name), &[])
        .map_err(|error| engine_error(server, &format!("counting pages of {name}.cf1"), &error))?;
    let number = |at: usize| row.get::<_, i64>(at).cast_unsigned();
    let (rows, blocks) = (number(0), number(1));
    let size = relation_bytes(client, server, &format!("{name}.cf1"))?;
    Ok(Placement {
        rows,
        blocks,
        rows_per_block_max: number(2),
        // Pages of the table without a visible row.
        overflow_blocks: (size / u64::from(block_bytes.max(1))).saturating_sub(blocks),
        source: "ctid",
    })
}
