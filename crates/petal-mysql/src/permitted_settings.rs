//! The settings that petal changes for a sweep. Variables that risk data at a crash
//! (innodb_doublewrite) or that name files, statements or accounts are not among them.

use petal_engine::server_settings::PermittedSetting;

pub const PERMITTED: &[PermittedSetting] = &[
    // Memory.
    PermittedSetting::memory("innodb_buffer_pool_size", "5M", "16T"),
    PermittedSetting::numbers("innodb_buffer_pool_instances", "1", "64").after_restart(),
    PermittedSetting::numbers("innodb_old_blocks_pct", "5", "95"),
    PermittedSetting::numbers("innodb_old_blocks_time", "0", "4294967295"),
    PermittedSetting::numbers("table_open_cache", "1", "1048576"),
    PermittedSetting::numbers("thread_cache_size", "0", "16384"),
    // Reads and writes of data.
    PermittedSetting::switch("innodb_adaptive_flushing"),
    PermittedSetting::numbers("innodb_adaptive_flushing_lwm", "0", "70"),
    PermittedSetting::switch("innodb_adaptive_hash_index"),
    PermittedSetting::words(
        "innodb_change_buffering",
        &["none", "inserts", "deletes", "changes", "purges", "all"],
    ),
    PermittedSetting::words("innodb_flush_method", &["fsync", "O_DSYNC", "O_DIRECT"])
        .after_restart(),
    PermittedSetting::numbers("innodb_flush_neighbors", "0", "2"),
    PermittedSetting::switch("innodb_flush_sync"),
    PermittedSetting::numbers("innodb_flushing_avg_loops", "1", "1000"),
    PermittedSetting::numbers("innodb_io_capacity", "100", "4294967295"),
    PermittedSetting::numbers("innodb_io_capacity_max", "100", "4294967295"),
    PermittedSetting::numbers("innodb_lru_scan_depth", "100", "4294967295"),
    PermittedSetting::numbers("innodb_max_dirty_pages_pct", "0", "99.999"),
    PermittedSetting::numbers("innodb_max_dirty_pages_pct_lwm", "0", "99.999"),
    PermittedSetting::numbers("innodb_page_cleaners", "1", "64").after_restart(),
    PermittedSetting::switch("innodb_random_read_ahead"),
    PermittedSetting::numbers("innodb_read_ahead_threshold", "0", "64"),
    PermittedSetting::numbers("innodb_read_io_threads", "1", "64").after_restart(),
    PermittedSetting::switch("innodb_use_native_aio").after_restart(),
    PermittedSetting::numbers("innodb_write_io_threads", "2", "64").after_restart(),
    // The log and commits.
    PermittedSetting::numbers("binlog_commit_wait_count", "0", "1000000"),
    PermittedSetting::numbers("binlog_commit_wait_usec", "0", "1000000"),
    PermittedSetting::numbers("binlog_group_commit_sync_delay", "0", "1000000"),
    PermittedSetting::numbers("binlog_group_commit_sync_no_delay_count", "0", "1000000"),
    PermittedSetting::numbers("innodb_flush_log_at_trx_commit", "0", "2"),
    PermittedSetting::memory("innodb_log_buffer_size", "256K", "4G"),
    PermittedSetting::switch("innodb_log_file_buffering"),
    PermittedSetting::numbers("innodb_log_file_size", "4M", "512G").after_restart(),
    PermittedSetting::numbers("innodb_log_write_ahead_size", "512", "16K"),
    PermittedSetting::switch("innodb_log_writer_threads"),
    PermittedSetting::numbers("innodb_redo_log_capacity", "8M", "512G"),
    PermittedSetting::numbers("sync_binlog", "0", "4294967295"),
    // Threads.
    PermittedSetting::numbers("innodb_purge_threads", "1", "32").after_restart(),
    PermittedSetting::numbers("innodb_spin_wait_delay", "0", "1000"),
    PermittedSetting::numbers("innodb_sync_spin_loops", "0", "4294967295"),
    PermittedSetting::numbers("innodb_thread_concurrency", "0", "1000"),
];
