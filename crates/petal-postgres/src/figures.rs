//! PostgreSQL's figures and the views that they come from, by version, as data: `counters` reads by
//! this table, and docs/engines/postgres.md shows it.

use petal_engine::server::figure_table::CountUnit::{Blocks, Bytes, Count, Requests};
use petal_engine::server::figure_table::{
    CountUnit, FigureEntry, FigureKind, FigureNeed, FigureSource, FigureTable, MICROSECOND,
    ServerVersion, VersionRange, View, Work,
};
use petal_record::counters::{CommonCounter, WaitClass};

pub const PRODUCT: &str = "PostgreSQL";

/// The wait events that petal counts from the server's totals.
pub const READ_EVENT: &str = "DataFileRead";
pub const WRITE_EVENT: &str = "DataFileWrite";
pub const LOG_EVENT: &str = "WALSync";

/// The server times reads and writes of data for this role's connections.
pub const IO_TIMED: FigureNeed = "track_io_timing";
/// The server times writes and syncs of the log for them.
pub const LOG_TIMED: FigureNeed = "track_wal_io_timing";
/// Syncs of the log are calls: log files are not opened so that writing is syncing, and fsync is on.
pub const SYNCS_COUNTED: FigureNeed = "wal_sync_method";
/// No operation is a scan, so that each request reads one block.
pub const SINGLE_BLOCKS: FigureNeed = "no scans";
/// The server counts the role's work on tables and indexes.
pub const COUNTED: FigureNeed = "track_counts";

/// Bytes of a block of the log, as nearly all servers are built (`wal_block_size`).
const WAL_BLOCK_BYTES: i64 = 8192;

/// Major versions from one to another, both included.
const fn to(from: u32, last: u32) -> VersionRange {
    VersionRange::new(PRODUCT, from * 10_000, (last + 1) * 10_000)
}

const fn from(first: u32) -> VersionRange {
    VersionRange::new(PRODUCT, first * 10_000, u32::MAX)
}

const ALL: &[VersionRange] = &[from(12)];

pub fn version(number: u32) -> ServerVersion {
    ServerVersion { product: PRODUCT, number }
}

const fn view(
    name: &'static str,
    versions: &'static [VersionRange],
    columns: &'static [(&'static str, &'static str)],
    source: &'static str,
) -> View {
    View { name, versions, columns, source, grant: "SELECT on the view" }
}

/// The sums of pg_stat_io until 17, and those of sessions: their time must not be divided by the
/// checkpointer's counts.
const IO_COLUMNS: &[(&str, &str)] = &[
    ("stats_reset", "pg_catalog.max(stats_reset)"),
    ("reads", "pg_catalog.sum(reads)"),
    ("read_time", "pg_catalog.sum(read_time)"),
    ("writes", "pg_catalog.sum(writes)"),
    ("write_time", "pg_catalog.sum(write_time)"),
    ("extends", "pg_catalog.sum(extends)"),
    ("fsyncs", "pg_catalog.sum(fsyncs)"),
    ("fsync_time", "pg_catalog.sum(fsync_time)"),
    ("writebacks", "pg_catalog.sum(writebacks)"),
    ("hits", "pg_catalog.sum(hits)"),
    ("evictions", "pg_catalog.sum(evictions)"),
    ("session_reads", "pg_catalog.sum(reads) FILTER (WHERE backend_type = 'client backend')"),
    (
        "session_read_time",
        "pg_catalog.sum(read_time) FILTER (WHERE backend_type = 'client backend')",
    ),
    ("session_writes", "pg_catalog.sum(writes) FILTER (WHERE backend_type = 'client backend')"),
    (
        "session_write_time",
        "pg_catalog.sum(write_time) FILTER (WHERE backend_type = 'client backend')",
    ),
    ("session_fsyncs", "pg_catalog.sum(fsyncs) FILTER (WHERE backend_type = 'client backend')"),
    (
        "session_fsync_time",
        "pg_catalog.sum(fsync_time) FILTER (WHERE backend_type = 'client backend')",
    ),
];
/// More columns from 18 on: reads, writes and extends are then requests, with their bytes.
const IO_BYTES: &[(&str, &str)] = &[
    ("read_bytes", "pg_catalog.sum(read_bytes)"),
    ("write_bytes", "pg_catalog.sum(write_bytes)"),
    ("extend_bytes", "pg_catalog.sum(extend_bytes)"),
];
const OF_TABLES: &str = "FROM pg_catalog.pg_stat_io WHERE object = 'relation'";
const OF_LOG: &str = "FROM pg_catalog.pg_stat_io WHERE object = 'wal'";

/// The views, by name as in the record's counters. Tables are petal's own.
const VIEWS: &[View] = &[
    view(
        "pg_stat_database",
        ALL,
        &[
            ("blks_read", ""),
            ("blks_hit", ""),
            ("xact_commit", ""),
            ("xact_rollback", ""),
            ("deadlocks", ""),
            ("conflicts", ""),
            ("temp_bytes", ""),
            ("blk_read_time", ""),
            ("blk_write_time", ""),
            ("tup_inserted", ""),
            ("tup_updated", ""),
            ("tup_deleted", ""),
            ("stats_reset", ""),
        ],
        "FROM pg_catalog.pg_stat_database WHERE datname = pg_catalog.current_database()",
    ),
    view(
        "tables",
        ALL,
        &[
            ("n_tup_upd", "coalesce(pg_catalog.sum(n_tup_upd), 0)"),
            ("n_tup_hot_upd", "coalesce(pg_catalog.sum(n_tup_hot_upd), 0)"),
            ("seq_scan", "coalesce(pg_catalog.sum(seq_scan), 0)"),
            ("idx_scan", "coalesce(pg_catalog.sum(idx_scan), 0)"),
            ("idx_tup_fetch", "coalesce(pg_catalog.sum(idx_tup_fetch), 0)"),
            ("vacuums", "coalesce(pg_catalog.sum(vacuum_count + autovacuum_count), 0)"),
        ],
        "FROM pg_catalog.pg_stat_user_tables \
         WHERE schemaname ~ '^petal[1-9][0-9]*$' AND relname IN ('cf1', 'cf2')",
    ),
    view(
        "cf1",
        ALL,
        &[
            ("heap_blks_read", "coalesce(pg_catalog.sum(heap_blks_read), 0)"),
            ("heap_blks_hit", "coalesce(pg_catalog.sum(heap_blks_hit), 0)"),
        ],
        "FROM pg_catalog.pg_statio_user_tables \
         WHERE schemaname ~ '^petal[1-9][0-9]*$' AND relname = 'cf1'",
    ),
    // Without other indexes of the table: if one is dropped, the table's sum falls.
    view(
        "cf1",
        ALL,
        &[
            ("idx_blks_read", "coalesce(pg_catalog.sum(idx_blks_read), 0)"),
            ("idx_blks_hit", "coalesce(pg_catalog.sum(idx_blks_hit), 0)"),
        ],
        "FROM pg_catalog.pg_statio_user_indexes \
         WHERE schemaname ~ '^petal[1-9][0-9]*$' AND indexrelname = 'cf1_custid'",
    ),
    view(
        "cf2",
        ALL,
        &[
            ("heap_blks_read", "coalesce(pg_catalog.sum(heap_blks_read), 0)"),
            ("heap_blks_hit", "coalesce(pg_catalog.sum(heap_blks_hit), 0)"),
        ],
        "FROM pg_catalog.pg_statio_user_tables \
         WHERE schemaname ~ '^petal[1-9][0-9]*$' AND relname = 'cf2'",
    ),
    view(
        "pg_stat_bgwriter",
        &[to(12, 16)],
        &[
            ("checkpoints_timed", ""),
            ("checkpoints_req", ""),
            ("checkpoint_write_time", ""),
            ("checkpoint_sync_time", ""),
            ("buffers_checkpoint", ""),
            ("buffers_clean", ""),
            ("maxwritten_clean", ""),
            ("buffers_backend", ""),
            ("buffers_backend_fsync", ""),
            ("buffers_alloc", ""),
            ("stats_reset", ""),
        ],
        "FROM pg_catalog.pg_stat_bgwriter",
    ),
    view(
        "pg_stat_bgwriter",
        &[from(17)],
        &[
            ("buffers_clean", ""),
            ("maxwritten_clean", ""),
            ("buffers_alloc", ""),
            ("stats_reset", ""),
        ],
        "FROM pg_catalog.pg_stat_bgwriter",
    ),
    view(
        "pg_stat_checkpointer",
        &[from(17)],
        &[
            ("num_timed", ""),
            ("num_requested", ""),
            ("restartpoints_timed", ""),
            ("restartpoints_req", ""),
            ("restartpoints_done", ""),
            ("write_time", ""),
            ("sync_time", ""),
            ("buffers_written", ""),
            ("stats_reset", ""),
        ],
        "FROM pg_catalog.pg_stat_checkpointer",
    ),
    view(
        "pg_stat_wal",
        &[to(14, 17)],
        &[
            ("wal_records", ""),
            ("wal_fpi", ""),
            ("wal_bytes", ""),
            ("wal_buffers_full", ""),
            ("wal_write", ""),
            ("wal_sync", ""),
            ("wal_write_time", ""),
            ("wal_sync_time", ""),
            ("stats_reset", ""),
        ],
        "FROM pg_catalog.pg_stat_wal",
    ),
    view(
        "pg_stat_wal",
        &[from(18)],
        &[
            ("wal_records", ""),
            ("wal_fpi", ""),
            ("wal_bytes", ""),
            ("wal_buffers_full", ""),
            ("stats_reset", ""),
        ],
        "FROM pg_catalog.pg_stat_wal",
    ),
    view("pg_stat_io", &[from(16)], IO_COLUMNS, OF_TABLES),
    view("pg_stat_io", &[from(18)], IO_BYTES, OF_TABLES),
    view("pg_stat_io_wal", &[from(18)], IO_COLUMNS, OF_LOG),
    view("pg_stat_io_wal", &[from(18)], IO_BYTES, OF_LOG),
    View {
        name: "log",
        versions: ALL,
        // A standby makes no log of its own.
        columns: &[(
            "position",
            "CASE WHEN pg_catalog.pg_is_in_recovery() THEN 0 ELSE pg_catalog.pg_wal_lsn_diff(\
             pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint END",
        )],
        source: "",
        grant: "EXECUTE on pg_current_wal_insert_lsn",
    },
    View {
        name: "checkpoint",
        versions: ALL,
        columns: &[("lsn", "checkpoint_lsn::pg_catalog.text")],
        source: "FROM pg_catalog.pg_control_checkpoint()",
        grant: "EXECUTE on pg_control_checkpoint",
    },
    View {
        name: "server",
        versions: ALL,
        columns: &[
            ("stats_reset", "pg_catalog.pg_postmaster_start_time()"),
            ("is_standby", "pg_catalog.pg_is_in_recovery()"),
            ("sync_method", "pg_catalog.current_setting('wal_sync_method')"),
            ("fsync", "pg_catalog.current_setting('fsync')"),
        ],
        source: "",
        grant: "EXECUTE on the functions",
    },
];

const OWN_READ: &[(&str, i64)] =
    &[("cf1.heap_blks_read", 1), ("cf1.idx_blks_read", 1), ("cf2.heap_blks_read", 1)];
const OWN_VISITED: &[(&str, i64)] = &[
    ("cf1.heap_blks_hit", 1),
    ("cf1.idx_blks_hit", 1),
    ("cf2.heap_blks_hit", 1),
    ("cf1.heap_blks_read", 1),
    ("cf1.idx_blks_read", 1),
    ("cf2.heap_blks_read", 1),
];
/// Reads of the whole database, or of the server, for a role that may not see petal's tables.
const DATABASE_READ: FigureSource = FigureSource {
    needs: &[COUNTED],
    ..source(ALL, &[("pg_stat_database.blks_read", 1)], Blocks, Work::Database)
};
const SERVER_READ: FigureSource =
    source(&[to(16, 17)], &[("pg_stat_io.reads", 1)], Blocks, Work::Server);
const SERVER_READ_18: FigureSource =
    source(&[from(18)], &[("pg_stat_io.read_bytes", 1)], Bytes, Work::Server);
const READ: &[FigureSource] =
    &[source(ALL, OWN_READ, Blocks, Work::OwnTables), DATABASE_READ, SERVER_READ, SERVER_READ_18];
const READ_STAND_IN: &str = "reads of the whole database, or of the server (16 and later)";
const WRITTEN_12: &[(&str, i64)] = &[
    ("pg_stat_bgwriter.buffers_checkpoint", 1),
    ("pg_stat_bgwriter.buffers_clean", 1),
    ("pg_stat_bgwriter.buffers_backend", 1),
];
const WRITTEN_16: &[(&str, i64)] = &[("pg_stat_io.writes", 1), ("pg_stat_io.extends", 1)];
const WRITTEN_18: &[(&str, i64)] = &[("pg_stat_io.write_bytes", 1), ("pg_stat_io.extend_bytes", 1)];

const fn source(
    versions: &'static [VersionRange],
    terms: &'static [(&'static str, i64)],
    unit: CountUnit,
    work: Work,
) -> FigureSource {
    let needs: &[FigureNeed] = if matches!(work, Work::OwnTables) { &[COUNTED] } else { &[] };
    FigureSource { versions, terms, time: None, unit, work, needs }
}

const fn io(name: &'static str, unit: CountUnit, sources: &'static [FigureSource]) -> FigureEntry {
    FigureEntry { name, kind: FigureKind::Io, unit, sources, holes: &[], stand_in: "" }
}

const fn counter(counter: CommonCounter, sources: &'static [FigureSource]) -> FigureEntry {
    let (name, kind) = (counter.name(), FigureKind::Counter);
    FigureEntry { name, kind, unit: Count, sources, holes: &[], stand_in: "" }
}

/// Blocks written by checkpointer, background writer and sessions of the whole server.
const WRITTEN: &[FigureSource] = &[
    source(&[to(12, 15)], WRITTEN_12, Blocks, Work::Server),
    source(&[to(16, 17)], WRITTEN_16, Blocks, Work::Server),
    source(&[from(18)], WRITTEN_18, Bytes, Work::Server),
];

const FIGURES: &[FigureEntry] = &[
    FigureEntry {
        stand_in: "blocks of the whole database",
        ..io(
            "logical_reads",
            Blocks,
            &[
                source(ALL, OWN_VISITED, Blocks, Work::OwnTables),
                FigureSource {
                    needs: &[COUNTED],
                    ..source(
                        ALL,
                        &[("pg_stat_database.blks_hit", 1), ("pg_stat_database.blks_read", 1)],
                        Blocks,
                        Work::Database,
                    )
                },
            ],
        )
    },
    FigureEntry { stand_in: READ_STAND_IN, ..io("physical_read_blocks", Blocks, READ) },
    // The index scan that petal forces reads one block a request, in every version: requests are blocks.
    // Until 16 a scan of a table does so, too. From 17 on it reads several at once; 17 counts their blocks
    // (op_bytes), 18 the requests (read_bytes has the bytes). The calls of a scan of 15,000 blocks, by strace:
    // 16 made 14,722 and counted 14,726; 17 made 2,081 and counted 14,503; 18 made 4,840 and counted 4,844.
    io(
        "physical_read_requests",
        Requests,
        &[
            source(&[to(12, 16)], OWN_READ, Blocks, Work::OwnTables),
            FigureSource { versions: &[to(12, 16)], ..DATABASE_READ },
            FigureSource { versions: &[to(16, 16)], ..SERVER_READ },
            FigureSource {
                needs: &[SINGLE_BLOCKS, COUNTED],
                ..source(&[to(17, 17)], OWN_READ, Blocks, Work::OwnTables)
            },
            FigureSource {
                versions: &[to(17, 17)],
                needs: &[SINGLE_BLOCKS, COUNTED],
                ..DATABASE_READ
            },
            FigureSource { versions: &[to(17, 17)], needs: &[SINGLE_BLOCKS], ..SERVER_READ },
            source(&[from(18)], &[("pg_stat_io.reads", 1)], Requests, Work::Server),
            FigureSource {
                needs: &[SINGLE_BLOCKS, COUNTED],
                ..source(&[from(18)], OWN_READ, Blocks, Work::OwnTables)
            },
        ],
    ),
    FigureEntry { stand_in: READ_STAND_IN, ..io("physical_read_bytes", Bytes, READ) },
    io("physical_write_blocks", Blocks, WRITTEN),
    // Until 17 each request writes one block.
    io(
        "physical_write_requests",
        Requests,
        &[
            source(&[to(12, 15)], WRITTEN_12, Blocks, Work::Server),
            source(&[from(16)], WRITTEN_16, Requests, Work::Server),
        ],
    ),
    io("physical_write_bytes", Bytes, WRITTEN),
    FigureEntry {
        stand_in: "the log's bytes by pg_stat_wal (14 and later)",
        ..io(
            "redo_bytes",
            Bytes,
            &[
                source(ALL, &[("log.position", 1)], Bytes, Work::Server),
                source(&[from(14)], &[("pg_stat_wal.wal_bytes", 1)], Bytes, Work::Server),
            ],
        )
    },
    io(
        "commits",
        Count,
        &[source(ALL, &[("pg_stat_database.xact_commit", 1)], Count, Work::Database)],
    ),
    FigureEntry {
        holes: &[(&[to(12, 13)], "PostgreSQL counts syncs of the log from 14 on")],
        ..io(
            "log_syncs",
            Count,
            &[
                FigureSource {
                    needs: &[SYNCS_COUNTED],
                    ..source(&[to(14, 17)], &[("pg_stat_wal.wal_sync", 1)], Count, Work::Server)
                },
                FigureSource {
                    needs: &[SYNCS_COUNTED],
                    ..source(&[from(18)], &[("pg_stat_io_wal.fsyncs", 1)], Count, Work::Server)
                },
            ],
        )
    },
    counter(
        CommonCounter::Checkpoints,
        &[source(ALL, &[("checkpoint.lsn", 1)], Count, Work::Server)],
    ),
    // Checkpoints before their time: in a run the log's size asks for them, unless somebody did.
    counter(
        CommonCounter::CheckpointsByLogSize,
        &[
            source(&[to(12, 16)], &[("pg_stat_bgwriter.checkpoints_req", 1)], Count, Work::Server),
            source(&[from(17)], &[("pg_stat_checkpointer.num_requested", 1)], Count, Work::Server),
        ],
    ),
    // An UPDATE that is not HOT moves the row to another page: no indexed column changes.
    counter(
        CommonCounter::RowsMoved,
        &[source(
            ALL,
            &[("tables.n_tup_upd", 1), ("tables.n_tup_hot_upd", -1)],
            Count,
            Work::OwnTables,
        )],
    ),
    counter(
        CommonCounter::Vacuums,
        &[source(ALL, &[("tables.vacuums", 1)], Count, Work::OwnTables)],
    ),
    // Work in this database on tables that are not petal's. Less than petal's own share means that the two
    // were reported at different times.
    counter(
        CommonCounter::OtherLogicalReads,
        &[source(
            ALL,
            &[
                ("pg_stat_database.blks_hit", 1),
                ("pg_stat_database.blks_read", 1),
                ("cf1.heap_blks_hit", -1),
                ("cf1.idx_blks_hit", -1),
                ("cf2.heap_blks_hit", -1),
                ("cf1.heap_blks_read", -1),
                ("cf1.idx_blks_read", -1),
                ("cf2.heap_blks_read", -1),
            ],
            Count,
            Work::Database,
        )],
    ),
    counter(
        CommonCounter::OtherReadBlocks,
        &[source(
            ALL,
            &[
                ("pg_stat_database.blks_read", 1),
                ("cf1.heap_blks_read", -1),
                ("cf1.idx_blks_read", -1),
                ("cf2.heap_blks_read", -1),
            ],
            Count,
            Work::Database,
        )],
    ),
    counter(
        CommonCounter::OtherRowsChanged,
        &[source(
            ALL,
            &[
                ("pg_stat_database.tup_inserted", 1),
                ("pg_stat_database.tup_updated", 1),
                ("pg_stat_database.tup_deleted", 1),
                ("tables.n_tup_upd", -1),
            ],
            Count,
            Work::Database,
        )],
    ),
    counter(
        CommonCounter::RowsFetched,
        &[source(ALL, &[("tables.idx_tup_fetch", 1)], Count, Work::OwnTables)],
    ),
    counter(
        CommonCounter::RowBlocksVisited,
        &[source(
            ALL,
            &[("cf1.heap_blks_hit", 1), ("cf1.heap_blks_read", 1)],
            Count,
            Work::OwnTables,
        )],
    ),
    FigureEntry {
        holes: &[(&[to(12, 13)], "PostgreSQL counts blocks in the log from 14 on")],
        ..counter(
            CommonCounter::BlockImages,
            &[source(&[from(14)], &[("pg_stat_wal.wal_fpi", 1)], Count, Work::Server)],
        )
    },
    // Until 17 the server counts writes of the log. Each one begins with the block that the one before it
    // left incomplete, unless the log's buffers were full.
    FigureEntry {
        holes: &[(&[to(12, 13)], "PostgreSQL counts writes of the log from 14 on")],
        ..counter(
            CommonCounter::LogFileBytes,
            &[
                source(
                    &[to(14, 17)],
                    &[
                        ("log.position", 1),
                        ("pg_stat_wal.wal_write", WAL_BLOCK_BYTES),
                        ("pg_stat_wal.wal_buffers_full", -WAL_BLOCK_BYTES),
                    ],
                    Bytes,
                    Work::Server,
                ),
                source(&[from(18)], &[("pg_stat_io_wal.write_bytes", 1)], Bytes, Work::Server),
            ],
        )
    },
    // Until 15 the time of each read is cut to whole microseconds, and both are the whole database's.
    FigureEntry {
        name: READ_EVENT,
        kind: FigureKind::Wait(WaitClass::UserIo),
        unit: Requests,
        sources: &[
            FigureSource {
                time: Some(("pg_stat_database.blk_read_time_us", MICROSECOND)),
                needs: &[IO_TIMED, COUNTED],
                ..source(
                    &[to(12, 15)],
                    &[("pg_stat_database.blks_read", 1)],
                    Blocks,
                    Work::Database,
                )
            },
            FigureSource {
                time: Some(("pg_stat_io.session_read_time_us", MICROSECOND)),
                needs: &[IO_TIMED],
                ..source(&[to(16, 16)], &[("pg_stat_io.session_reads", 1)], Blocks, Work::Sessions)
            },
            FigureSource {
                time: Some(("pg_stat_io.session_read_time_us", MICROSECOND)),
                needs: &[IO_TIMED, SINGLE_BLOCKS],
                ..source(&[to(17, 17)], &[("pg_stat_io.session_reads", 1)], Blocks, Work::Sessions)
            },
            FigureSource {
                time: Some(("pg_stat_io.session_read_time_us", MICROSECOND)),
                needs: &[IO_TIMED],
                ..source(&[from(18)], &[("pg_stat_io.session_reads", 1)], Requests, Work::Sessions)
            },
        ],
        holes: &[],
        stand_in: "the server's calls (CALL_LATENCY), or the device's reads; shares of time by samples",
    },
    FigureEntry {
        name: WRITE_EVENT,
        kind: FigureKind::Wait(WaitClass::UserIo),
        unit: Requests,
        sources: &[FigureSource {
            time: Some(("pg_stat_io.session_write_time_us", MICROSECOND)),
            needs: &[IO_TIMED],
            ..source(&[from(16)], &[("pg_stat_io.session_writes", 1)], Requests, Work::Sessions)
        }],
        holes: &[(
            &[to(12, 15)],
            "PostgreSQL counts the writes of sessions with their time from 16 on",
        )],
        stand_in: "shares of time by samples",
    },
    // Before 18 syncs of the log writer are among them, timed only where it is set for all.
    FigureEntry {
        name: LOG_EVENT,
        kind: FigureKind::Wait(WaitClass::Commit),
        unit: Count,
        sources: &[
            FigureSource {
                time: Some(("pg_stat_wal.wal_sync_time_us", MICROSECOND)),
                needs: &[LOG_TIMED, SYNCS_COUNTED],
                ..source(&[to(14, 17)], &[("pg_stat_wal.wal_sync", 1)], Count, Work::Server)
            },
            FigureSource {
                time: Some(("pg_stat_io_wal.session_fsync_time_us", MICROSECOND)),
                needs: &[LOG_TIMED, SYNCS_COUNTED],
                ..source(
                    &[from(18)],
                    &[("pg_stat_io_wal.session_fsyncs", 1)],
                    Count,
                    Work::Sessions,
                )
            },
        ],
        holes: &[(&[to(12, 13)], "PostgreSQL counts syncs of the log from 14 on")],
        stand_in: "shares of time by samples",
    },
];

pub static TABLE: FigureTable = FigureTable {
    has_all_columns: true,
    views: VIEWS,
    figures: FIGURES,
    needs: &[
        (
            IO_TIMED,
            "the server does not time it: track_io_timing is off, and the role may not set it",
        ),
        (
            LOG_TIMED,
            "the server does not time it: track_wal_io_timing is off, and the role may not set it",
        ),
        (
            SYNCS_COUNTED,
            "the server counts no syncs: fsync is off, or wal_sync_method opens the log's files for syncing",
        ),
        (COUNTED, "the server does not count it: track_counts is off for the role"),
        (
            SINGLE_BLOCKS,
            "the server counts blocks, and from 17 on a scan reads several in one request",
        ),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::server::figure_table::{self, Look};
    use petal_record::counters::Wait;
    use std::collections::BTreeMap;

    const NUMBERS: [u32; 8] =
        [120_022, 130_022, 140_019, 150_014, 160_010, 170_006, 180_001, 190_000];

    /// What `then` sees of these counters.
    fn look<T>(
        number: u32,
        unmet: &[FigureNeed],
        raw: &[(&str, u64)],
        then: impl Fn(Look<'_>) -> T,
    ) -> T {
        let raw = raw.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let refused = BTreeMap::from([("log".to_owned(), "denied (42501)".to_owned())]);
        then(Look {
            table: &TABLE,
            version: version(number),
            block_bytes: Some(8192),
            raw: &raw,
            refused: &refused,
            unmet,
        })
    }

    #[test]
    fn each_figure_has_in_each_version_a_source_or_a_reason() {
        assert_eq!(TABLE.faults(&NUMBERS.map(version)), [""; 0]);
    }

    #[test]
    fn the_page_shows_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/engines/postgres.md");
        let table = TABLE.page(|number| (number / 10_000).to_string());
        figure_table::check_page(page.as_ref(), &table);
    }

    #[test]
    fn figures_that_a_version_does_not_count_are_unknown_with_a_reason() {
        let raw = [
            ("pg_stat_database.blks_read", 10),
            ("cf1.heap_blks_read", 8),
            ("cf1.heap_blks_hit", 40),
            ("cf1.idx_blks_read", 2),
            ("cf1.idx_blks_hit", 50),
            ("cf2.heap_blks_read", 0),
            ("cf2.heap_blks_hit", 0),
            ("pg_stat_wal.wal_sync", 5),
            ("pg_stat_wal.wal_bytes", 700),
        ];
        let io = |number, unmet: &[FigureNeed]| look(number, unmet, &raw, |look| look.io());
        let of_15 = io(150_014, &[]);
        assert_eq!((of_15.logical_reads, of_15.physical_read_bytes), (Some(100), Some(81_920)));
        assert_eq!((of_15.physical_read_requests, of_15.log_syncs), (Some(10), Some(5)));
        assert_eq!((of_15.physical_write_blocks, of_15.redo_bytes), (None, Some(700)));
        assert_eq!(io(170_006, &[]).physical_read_requests, Some(10), "of one block each");
        assert_eq!(io(170_006, &[SINGLE_BLOCKS]).physical_read_requests, None);
        assert_eq!(io(150_014, &[SYNCS_COUNTED]).log_syncs, None);
        let reasons = look(130_022, &[], &raw, |look| look.reasons());
        assert_eq!(reasons["log_syncs"], "PostgreSQL counts syncs of the log from 14 on");
        assert_eq!(reasons["redo_bytes"], "denied (42501)");
        assert!(reasons["physical_write_blocks"].contains("buffers_checkpoint"));
        assert!(!reasons.contains_key("logical_reads"));
        let uncounted = io(150_014, &[COUNTED]);
        assert_eq!((uncounted.logical_reads, uncounted.physical_read_requests), (None, None));
        assert_eq!(uncounted.redo_bytes, Some(700), "it is counted for all");
        let unseen = [("pg_stat_database.blks_read", 10), ("pg_stat_io.reads", 12)];
        let refused = |views: &[&str], unmet: &[FigureNeed]| {
            let raw = unseen.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            let refused = views.iter().map(|view| ((*view).to_owned(), "denied".to_owned()));
            let (version, refused) = (version(160_010), refused.collect());
            let of_role = Look {
                table: &TABLE,
                version,
                block_bytes: Some(8192),
                raw: &raw,
                refused: &refused,
                unmet,
            };
            of_role.io().physical_read_blocks
        };
        assert_eq!(refused(&["cf1"], &[]), Some(10), "of the database");
        assert_eq!(refused(&["cf1"], &[COUNTED]), Some(12), "of the server");
        assert_eq!(refused(&[], &[]), None, "a counter that began again has no stand-in");
        let untimed = look(150_014, &[IO_TIMED], &raw, |look| look.reasons());
        assert!(untimed[READ_EVENT].contains("track_io_timing is off"), "{untimed:?}");
    }

    #[test]
    fn each_write_of_the_log_writes_an_incomplete_block_again() {
        let raw = [
            ("log.position", 1000),
            ("pg_stat_wal.wal_write", 10),
            ("pg_stat_wal.wal_buffers_full", 2),
            ("pg_stat_io_wal.write_bytes", 77),
        ];
        let of = |number, raw: &[(&str, u64)]| {
            let counters: BTreeMap<_, _> = look(number, &[], raw, |look| look.counters().collect());
            counters.get("log_file_bytes").copied()
        };
        assert_eq!(of(150_014, &raw), Some(1000 + 8 * 8192));
        assert_eq!(of(150_014, &raw[1..]), None);
        assert_eq!(of(180_001, &raw), Some(77));
    }

    #[test]
    fn work_of_others_in_the_database_is_not_petals() {
        let raw = [
            ("pg_stat_database.blks_read", 500),
            ("pg_stat_database.blks_hit", 1000),
            ("pg_stat_database.tup_inserted", 3),
            ("pg_stat_database.tup_updated", 70),
            ("pg_stat_database.tup_deleted", 0),
            ("tables.n_tup_upd", 64),
            ("tables.idx_tup_fetch", 90),
            ("cf1.heap_blks_read", 80),
            ("cf1.heap_blks_hit", 10),
            ("cf1.idx_blks_read", 2),
            ("cf1.idx_blks_hit", 270),
            ("cf2.heap_blks_hit", 1),
            ("cf2.heap_blks_read", 5),
        ];
        let io = look(150_014, &[], &raw, |look| look.io());
        assert_eq!((io.logical_reads, io.physical_read_blocks), (Some(368), Some(87)));
        let of = |raw: &[(&str, u64)]| -> BTreeMap<String, u64> {
            look(150_014, &[], raw, |look| look.counters().collect())
        };
        let rest = of(&raw);
        assert_eq!(rest["other_logical_reads"] + 368, 1500);
        assert_eq!(rest["other_read_blocks"] + 87, 500);
        assert_eq!((rest["other_rows_changed"], rest["rows_fetched"]), (9, 90));
        assert_eq!(rest["row_blocks_visited"], 90);
        assert!(!of(&raw[..raw.len() - 1]).contains_key("other_read_blocks"));
    }

    #[test]
    fn a_waits_time_is_that_of_the_calls_that_are_counted() {
        let raw = [
            ("pg_stat_database.blks_read", 90),
            ("pg_stat_database.blk_read_time_us", 5),
            ("pg_stat_io.reads", 80),
            ("pg_stat_io.session_reads", 40),
            ("pg_stat_io.session_read_time_us", 4000),
            ("pg_stat_io.writes", 1000),
            ("pg_stat_io.session_writes", 10),
            ("pg_stat_io.session_write_time_us", 300),
            ("pg_stat_io_wal.fsyncs", 60),
            ("pg_stat_io_wal.session_fsyncs", 50),
            ("pg_stat_io_wal.session_fsync_time_us", 2500),
        ];
        let waits = |number, unmet: &[FigureNeed]| -> Vec<_> {
            let of = |wait: Wait| (wait.name, wait.waits, wait.time_ns / 1000);
            look(number, unmet, &raw, |look| look.waits()).into_iter().map(of).collect()
        };
        let expected = |name: &str, waits, time_us| (name.to_owned(), Some(waits), time_us);
        let reads = expected(READ_EVENT, 40, 4000);
        let writes = expected(WRITE_EVENT, 10, 300);
        assert_eq!(waits(150_014, &[])[0], expected(READ_EVENT, 90, 5));
        assert_eq!(waits(160_010, &[]), [reads.clone(), writes.clone()]);
        assert_eq!(waits(170_006, &[]), [reads.clone(), writes.clone()], "a request is a block");
        assert_eq!(waits(170_006, &[SINGLE_BLOCKS]), std::slice::from_ref(&writes));
        assert_eq!(waits(180_001, &[]), [reads, writes, expected(LOG_EVENT, 50, 2500)]);
        assert!(waits(180_001, &[IO_TIMED, LOG_TIMED]).is_empty(), "nothing was timed");
        let syncs = look(180_001, &[], &raw, |look| look.io().log_syncs);
        assert_eq!(syncs, Some(60), "whoever did them");
    }
}
