//! The placement of rows in pages, by the server's own statistics of a table: an analysis counts
//! the leaf pages of its clustered index exactly. As InnoDB keeps no empty leaf pages, as many rows
//! as leaf pages are one row in each.

use super::client::Client;
use super::errors::AtServer as _;
use super::schema;
use petal_engine::{EngineError, Placement, Result};

/// The view with which a load is proved.
pub const PROOF_VIEW: &str = "mysql.innodb_index_stats";
const SOURCE: &str = "COUNT(*) and mysql.innodb_index_stats";

/// Analyzes the main table under this name, and counts its rows and leaf pages.
pub fn count(client: &mut Client, name: &str) -> Result<Placement> {
    let table = format!("{name}_cf1");
    let doing = format!("counting pages of {table}");
    schema::analyze(client, &table)?;
    let rows: u64 =
        client.query_one(&format!("SELECT COUNT(*) FROM {table}")).at(&client.server, &doing)?;
    let sql = format!(
        "SELECT stat_value FROM mysql.innodb_index_stats WHERE database_name = DATABASE() \
         AND table_name = '{table}' AND index_name = 'PRIMARY' AND stat_name = 'n_leaf_pages'"
    );
    let pages: Vec<u64> = client.ask(&doing, &sql)?;
    let Some(&blocks) = pages.first() else {
        return Err(EngineError::Data(format!(
            "{}: mysql.innodb_index_stats knows nothing of {table}, so that its pages cannot \
             be counted; petal needs a server with persistent statistics",
            client.server
        )));
    };
    Ok(Placement {
        rows,
        blocks,
        rows_per_block_max: rows.div_ceil(blocks.max(1)),
        overflow_blocks: Some(blocks.saturating_sub(rows)),
        source: SOURCE,
    })
}

/// Bytes of the main table's file with its index: it grows when pages are split. Without the
/// privilege to see files, the statistics' value.
pub fn main_bytes(client: &mut Client, name: &str) -> Result<Option<u64>> {
    let table = format!("{name}_cf1");
    if let Some(bytes) = schema::file_bytes(client, &table) {
        return Ok(Some(bytes));
    }
    let (data, index) = schema::table_bytes(client, &table)?;
    Ok(index.map(|index| data.saturating_add(index)))
}
