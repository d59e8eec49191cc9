//! The placement of row versions in data blocks, by the properties that RocksDB keeps of its files.
//! A data block holds at least one entry; so files with as many entries as data blocks have one in
//! each. The files of a table may hold rows of other schemas too, which are of the same kind.
//! Nothing is known of rows that are still in memory, so they are flushed first.

use std::time::Duration;

use super::super::client::{Client, Error};
use super::super::errors::AtServer as _;
use super::super::schema;
use petal_engine::{EngineError, Placement, Result};

const SOURCE: &str = "COUNT(*), information_schema.rocksdb_index_file_map and rocksdb_sst_props";
/// Time between looks at files that compaction replaces.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
const LOOKS_MAX: u32 = 100;

/// Writes rows in memory into files.
pub fn flush(client: &mut Client) -> Result<(), Error> {
    client.run("SET GLOBAL rocksdb_force_flush_memtable_now = 1")
}

/// Compaction as it was seen last.
#[derive(Default)]
pub struct Compaction {
    written: Option<u64>,
}

impl Compaction {
    /// True when no flush or compaction is pending and none has written since the call before; also
    /// if the server does not show it to the user.
    pub fn is_over(&mut self, client: &mut Client) -> bool {
        let pending = "SELECT CAST(COALESCE(SUM(value), 0) AS UNSIGNED) \
                       FROM information_schema.rocksdb_cfstats \
                       WHERE stat_type IN ('COMPACTION_PENDING', 'MEM_TABLE_FLUSH_PENDING')";
        let written = "SHOW GLOBAL STATUS LIKE 'rocksdb_compact_write_bytes'";
        let Ok(pending) = client.query_one::<u64>(pending) else { return true };
        let Ok((_, written)) = client.query_one::<(String, u64)>(written) else { return true };
        let before = self.written.replace(written);
        pending == 0 && before == Some(written)
    }
}

/// Counts versions of the rows of the main table under this name, and the blocks that they lie in.
pub fn count(client: &mut Client, name: &str) -> Result<Placement> {
    let table = format!("{name}_cf1");
    let doing = format!("counting blocks of {table}");
    flush(client).at(&client.server, &doing)?;
    schema::analyze(client, &table)?;
    let rows: u64 =
        client.query_one(&format!("SELECT COUNT(*) FROM {table}")).at(&client.server, &doing)?;
    let sql = format!(
        "SELECT CAST(COALESCE(SUM(map.num_rows), 0) AS UNSIGNED), \
                CAST(COALESCE(SUM(props.entries), 0) AS UNSIGNED), \
                CAST(COALESCE(SUM(props.data_blocks), 0) AS UNSIGNED) \
         FROM information_schema.rocksdb_ddl AS ddl \
         JOIN information_schema.rocksdb_index_file_map AS map USING (index_number) \
         JOIN information_schema.rocksdb_sst_props AS props USING (sst_name) \
         WHERE ddl.table_schema = DATABASE() AND ddl.table_name = '{table}' \
         AND ddl.index_name = 'PRIMARY'"
    );
    // Files that come and go between the views' own looks are counted twice or not at all.
    let mut compaction = Compaction::default();
    let mut counted: (u64, u64, u64) = client.ask_row(&doing, &sql)?;
    for _ in 0..LOOKS_MAX {
        let placement = placement(rows, counted);
        if placement.is_one_row_per_block() && placement.rows == rows || compaction.is_over(client)
        {
            break;
        }
        std::thread::sleep(LOOK_INTERVAL);
        counted = client.ask_row(&doing, &sql)?;
    }
    if counted.0 == 0 && rows > 0 {
        return Err(EngineError::Data(format!(
            "{}: information_schema.rocksdb_index_file_map knows no file of {table}, so that \
             its blocks cannot be counted; see whether the user may (GRANT PROCESS, SUPER)",
            client.server
        )));
    }
    Ok(placement(rows, counted))
}

/// Makes the placement from a table's rows, their versions in files, and all entries and data
/// blocks of these files.
fn placement(rows: u64, (versions, entries, blocks): (u64, u64, u64)) -> Placement {
    let shared = entries.saturating_sub(blocks);
    Placement {
        // A row that is in no file is in no block.
        rows: versions.max(rows),
        blocks: versions.saturating_sub(shared),
        rows_per_block_max: entries.div_ceil(blocks.max(1)),
        overflow_blocks: None,
        source: SOURCE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_as_many_blocks_as_entries_are_one_version_a_block() {
        for (rows, versions, entries, blocks, is_one) in [
            (100, 100, 100, 100, true),
            // After UPDATEs, beside rows of another schema.
            (100, 130, 400, 400, true),
            (100, 100, 400, 399, false),
            (100, 100, 100, 50, false),
            // Ten rows are in no file.
            (100, 90, 90, 90, false),
        ] {
            let placement = placement(rows, (versions, entries, blocks));
            assert_eq!(placement.is_one_row_per_block(), is_one, "{placement:?}");
        }
    }
}
