//! The shape of the data: a row's width and RocksDB's options. No database.

use petal_engine::keyed::rows::KEY_BYTES;
use petal_model::workload::row::COLUMNS;

/// The head of an entry with its key, the end of its block, and the block's check.
const ENTRY_BYTES: usize = 64;

/// Bytes of each filler column. A row takes nearly all of a data block, and the next one begins another
/// block.
pub fn column_bytes(block_bytes: u32) -> usize {
    (block_bytes as usize - ENTRY_BYTES - KEY_BYTES) / COLUMNS
}

/// The default cache of data blocks. Indexes and filters are not in it: they stay in memory.
pub const CACHE_BYTES: u64 = 1 << 20;
/// Rows in memory that are not in files yet.
pub const WRITE_BUFFER_BYTES: u64 = 16 << 20;
/// RocksDB begins a file after so many bytes.
pub const FILE_BYTES: u64 = 64 << 20;
/// Threads that write and merge files.
pub const BACKGROUND_JOBS: u64 = 2;

/// Choices of one open database.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseOptions {
    pub block_bytes: u32,
    pub cache_bytes: u64,
    pub direct: bool,
    /// A new database, whose files are merged at its end.
    pub is_load: bool,
}

impl DatabaseOptions {
    /// RocksDB's text of them.
    pub fn text(&self) -> String {
        let Self { block_bytes, cache_bytes, direct, is_load } = self;
        format!(
            "create_if_missing={is_load};error_if_exists={is_load};\
             create_missing_column_families={is_load};disable_auto_compactions={is_load};\
             compression=kNoCompression;max_open_files=-1;use_direct_reads={direct};\
             use_direct_io_for_flush_and_compaction={direct};write_buffer_size={WRITE_BUFFER_BYTES};\
             target_file_size_base={FILE_BYTES};max_background_jobs={BACKGROUND_JOBS};\
             stats_dump_period_sec=0;stats_persist_period_sec=0;keep_log_file_num=2;\
             block_based_table_factory={{block_size={block_bytes};block_align=true;\
             block_cache={cache_bytes};cache_index_and_filter_blocks=false;\
             filter_policy=bloomfilter:10:false;}}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::keyed::rows::columns;

    #[test]
    fn a_row_fills_a_block_and_leaves_room_for_its_key_and_check() {
        for block in [4096u32, 8192, 16384, 32768] {
            let row = columns(COLUMNS, column_bytes(block)).end;
            assert!(row + 48 <= block as usize && row * 10 > block as usize * 9, "{block}: {row}");
        }
    }
}
