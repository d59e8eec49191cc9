//! The settings that petal changes for a sweep. Settings that risk data at a crash (fsync,
//! full_page_writes) or that name files, programs, addresses or roles are not among them.

use petal_engine::server_settings::PermittedSetting;

pub const PERMITTED: &[PermittedSetting] = &[
    // Memory.
    PermittedSetting::memory("shared_buffers", "128kB", "8TB").after_restart(),
    PermittedSetting::words("huge_pages", &["off", "try"]).after_restart(),
    PermittedSetting::numbers("work_mem", "64kB", "64GB"),
    PermittedSetting::numbers("maintenance_work_mem", "1MB", "64GB"),
    PermittedSetting::numbers("autovacuum_work_mem", "-1", "64GB"),
    PermittedSetting::numbers("effective_cache_size", "8kB", "8TB"),
    // Reads and writes of data.
    PermittedSetting::numbers("backend_flush_after", "0", "2MB"),
    PermittedSetting::numbers("bgwriter_delay", "10ms", "10s"),
    PermittedSetting::numbers("bgwriter_flush_after", "0", "2MB"),
    PermittedSetting::numbers("bgwriter_lru_maxpages", "0", "1073741823"),
    PermittedSetting::numbers("bgwriter_lru_multiplier", "0", "10"),
    PermittedSetting::numbers("io_combine_limit", "8kB", "1MB"),
    PermittedSetting::numbers("io_max_combine_limit", "8kB", "1MB").after_restart(),
    PermittedSetting::numbers("io_max_concurrency", "-1", "1024").after_restart(),
    PermittedSetting::words("io_method", &["sync", "worker", "io_uring"]).after_restart(),
    PermittedSetting::numbers("io_workers", "1", "32"),
    // In place of it from 19 on.
    PermittedSetting::numbers("io_min_workers", "1", "32"),
    PermittedSetting::numbers("io_max_workers", "1", "32"),
    PermittedSetting::numbers("maintenance_io_concurrency", "0", "1000"),
    // Checkpoints.
    PermittedSetting::numbers("checkpoint_completion_target", "0", "1"),
    PermittedSetting::numbers("checkpoint_flush_after", "0", "2MB"),
    PermittedSetting::numbers("checkpoint_timeout", "30s", "1d"),
    PermittedSetting::numbers("max_wal_size", "32MB", "8TB"),
    PermittedSetting::numbers("min_wal_size", "32MB", "8TB"),
    // The log and commits.
    PermittedSetting::numbers("commit_delay", "0", "100000"),
    PermittedSetting::numbers("commit_siblings", "0", "1000"),
    PermittedSetting::words(
        "synchronous_commit",
        &["off", "local", "remote_write", "on", "remote_apply"],
    ),
    PermittedSetting::memory("wal_buffers", "-1", "1GB").after_restart(),
    PermittedSetting::words("wal_compression", &["off", "on", "pglz", "lz4", "zstd"]),
    PermittedSetting::switch("wal_init_zero"),
    PermittedSetting::switch("wal_recycle"),
    PermittedSetting::numbers("wal_skip_threshold", "0", "8TB"),
    PermittedSetting::words(
        "wal_sync_method",
        &["fsync", "fdatasync", "open_sync", "open_datasync"],
    ),
    PermittedSetting::numbers("wal_writer_delay", "1ms", "10s"),
    PermittedSetting::numbers("wal_writer_flush_after", "0", "1GB"),
    // Vacuum.
    PermittedSetting::switch("autovacuum"),
    PermittedSetting::numbers("autovacuum_naptime", "1s", "1d"),
    PermittedSetting::numbers("autovacuum_vacuum_cost_delay", "-1", "100ms"),
    PermittedSetting::numbers("autovacuum_vacuum_cost_limit", "-1", "10000"),
    PermittedSetting::numbers("autovacuum_vacuum_insert_scale_factor", "0", "100"),
    PermittedSetting::numbers("autovacuum_vacuum_scale_factor", "0", "100"),
    PermittedSetting::numbers("autovacuum_vacuum_threshold", "0", "2147483647"),
    PermittedSetting::numbers("vacuum_buffer_usage_limit", "0", "16GB"),
    PermittedSetting::numbers("vacuum_cost_delay", "0", "100ms"),
    PermittedSetting::numbers("vacuum_cost_limit", "1", "10000"),
    // The planner's costs.
    PermittedSetting::numbers("random_page_cost", "0", "1000"),
    PermittedSetting::numbers("seq_page_cost", "0", "1000"),
];
