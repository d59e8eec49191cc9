//! The figures of MySQL and MariaDB and where they come from, by product and version, as data:
//! `server_counters` reads by this table, and docs/engines/mysql.md shows it.

use petal_engine::server::figure_table::CountUnit::{Blocks, Bytes, Count, Requests};
use petal_engine::server::figure_table::{
    CountUnit, FigureEntry, FigureKind, FigureNeed, FigureSource, FigureTable, MILLISECOND,
    Picoseconds, ServerVersion, VersionRange, View, Work,
};
use petal_record::counters::{CommonCounter, WaitClass};

const MARIADB: &str = "MariaDB";
const MYSQL: &str = "MySQL";

/// The waits that petal names, as performance_schema counts them by kind of file: the reads by
/// sessions alone, the log's by all threads.
pub const READ_EVENT: &str = "innodb_data_file read";
pub const LOG_EVENT: &str = "innodb_log_file sync";
const ROW_LOCK_EVENT: &str = "InnoDB row lock";
/// A node of a cluster waits for the slowest one.
const FLOW_CONTROL_EVENT: &str = "Galera flow control";

/// performance_schema times files for this user's sessions, and has room for all accounts.
pub const TIMED: FigureNeed = "performance_schema";
/// The server is a node of a Galera cluster.
pub const CLUSTER: FigureNeed = "Galera";

pub const STATUS: &str = "status";
/// Calls on files, as `data_others` or `log_write_ps`.
pub const FILES: &str = "files";
/// Calls of sessions on data files.
pub const SESSIONS: &str = "sessions";
/// The length of the undo history, if the status lacks it.
pub const HISTORY: &str = "metrics.history";
/// Bytes of the log's blocks that MariaDB's writes begin with and wrote before.
pub const AGAIN: &str = "status.Innodb_log_writes x innodb_log_write_ahead_size";
/// The second phases of commits: a commit in two phases, as with a binary log, counts for InnoDB and for the
/// log, and so does its prepare.
pub const SECOND_PHASES: &str = "status.Handler_prepare / 2";
/// Cycles of checkpoints, which petal counts by the log's positions.
pub const CYCLES: &str = "checkpoint.cycles";
pub const FORCED: &str = "checkpoint.forced";

const PICOSECOND: Picoseconds = 1;
const NANOSECOND: Picoseconds = 1000;

const fn maria(from: u32) -> VersionRange {
    VersionRange::new(MARIADB, from, u32::MAX)
}

const fn mysql(from: u32) -> VersionRange {
    VersionRange::new(MYSQL, from, u32::MAX)
}

const ALL: &[VersionRange] = &[maria(100_600), mysql(80_000)];
/// MariaDB counts the syncs of all files together from here on, and its log in exact bytes.
const ALL_SYNCS: u32 = 100_800;
/// MySQL shows the positions of its log from here on.
const POSITIONS: u32 = 80_030;
const WITH_POSITIONS: &[VersionRange] = &[maria(100_600), mysql(POSITIONS)];
const WITHOUT_POSITIONS: &[VersionRange] = &[VersionRange::new(MYSQL, 80_000, POSITIONS)];
const OWN_SYNCS: &[VersionRange] = &[VersionRange::new(MARIADB, 100_600, ALL_SYNCS), mysql(80_000)];

/// MariaDB's performance_schema has no instrument of the log's files from here on.
const NO_LOG_CALLS: &[(&[VersionRange], &str)] =
    &[(&[maria(ALL_SYNCS)], "MariaDB times no calls on its log from 10.8 on")];

/// The number in a version's text, such as 101115 or 80033, with its product.
pub fn version(text: &str) -> ServerVersion {
    let product = if text.contains(MARIADB) { MARIADB } else { MYSQL };
    // Some MariaDB servers put MySQL's number before their own.
    let text = text.trim_start_matches("5.5.5-");
    let mut parts = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0_u32).min(999);
    ServerVersion { product, number: next() * 10_000 + next().min(99) * 100 + next().min(99) }
}

/// A number of [`version`] in words.
#[cfg(test)]
fn words(number: u32) -> String {
    match number / 10_000 {
        major @ 10.. => format!("{major}.{}", number / 100 % 100),
        major => format!("{major}.{}.{}", number / 100 % 100, number % 100),
    }
}

const VIEWS: &[View] = &[
    View {
        name: STATUS,
        versions: ALL,
        columns: &[
            ("Innodb_buffer_pool_read_requests", ""),
            ("Innodb_buffer_pool_reads", ""),
            ("Innodb_buffer_pool_read_ahead", ""),
            ("Innodb_buffer_pool_read_ahead_rnd", ""),
            ("Innodb_buffer_pool_wait_free", ""),
            ("Innodb_buffer_pool_write_requests", ""),
            ("Innodb_buffer_pool_pages_flushed", ""),
            ("Innodb_data_reads", ""),
            ("Innodb_data_read", ""),
            ("Innodb_data_writes", ""),
            ("Innodb_data_written", ""),
            ("Innodb_data_fsyncs", ""),
            ("Innodb_pages_read", ""),
            ("Innodb_pages_written", ""),
            ("Innodb_pages_created", ""),
            ("Innodb_dblwr_pages_written", ""),
            ("Innodb_dblwr_writes", ""),
            ("Innodb_os_log_written", ""),
            ("Innodb_os_log_fsyncs", ""),
            ("Innodb_log_writes", ""),
            ("Innodb_log_waits", ""),
            ("Innodb_log_write_requests", ""),
            ("Innodb_lsn_current", ""),
            ("Innodb_lsn_last_checkpoint", ""),
            ("Innodb_redo_log_current_lsn", ""),
            ("Innodb_redo_log_checkpoint_lsn", ""),
            ("Innodb_row_lock_waits", ""),
            ("Innodb_row_lock_time", ""),
            ("Innodb_deadlocks", ""),
            ("Innodb_history_list_length", ""),
            ("Innodb_rows_read", ""),
            ("Innodb_rows_updated", ""),
            ("Handler_commit", ""),
            ("Handler_prepare", ""),
            ("Handler_prepare / 2", ""),
            ("Handler_update", ""),
            ("Com_update", ""),
            ("Com_select", ""),
            ("Com_call_procedure", ""),
            ("Binlog_cache_use", ""),
            ("Binlog_commits", ""),
            ("Binlog_group_commits", ""),
            ("wsrep_local_commits", ""),
            ("wsrep_local_cert_failures", ""),
            ("wsrep_local_bf_aborts", ""),
            ("wsrep_flow_control_paused_ns", ""),
            ("wsrep_flow_control_recv", ""),
            ("wsrep_received_bytes", ""),
            ("wsrep_replicated_bytes", ""),
            ("Performance_schema_accounts_lost", ""),
            ("Performance_schema_thread_instances_lost", ""),
            ("Uptime", ""),
            ("Uptime_since_flush_status", ""),
            ("Innodb_log_writes x innodb_log_write_ahead_size", ""),
        ],
        source: "SHOW GLOBAL STATUS",
        grant: "",
    },
    View {
        name: FILES,
        versions: ALL,
        columns: &[
            ("data_others", ""),
            ("data_other_ps", ""),
            ("log_writes", ""),
            ("log_write_ps", ""),
            ("log_others", ""),
            ("log_other_ps", ""),
        ],
        source: "FROM performance_schema.file_summary_by_event_name",
        grant: "SELECT ON performance_schema.*",
    },
    View {
        name: SESSIONS,
        versions: ALL,
        columns: &[("calls", ""), ("ps", "")],
        source: "FROM performance_schema.events_waits_summary_by_account_by_event_name",
        grant: "SELECT ON performance_schema.*",
    },
    View {
        name: "metrics",
        versions: ALL,
        columns: &[("history", "")],
        source: "FROM information_schema.innodb_metrics",
        grant: "PROCESS",
    },
    View {
        name: "checkpoint",
        versions: WITH_POSITIONS,
        columns: &[("cycles", ""), ("forced", "")],
        source: "SHOW GLOBAL STATUS: the log's positions",
        grant: "",
    },
];

const fn source(
    versions: &'static [VersionRange],
    terms: &'static [(&'static str, i64)],
    unit: CountUnit,
    needs: &'static [FigureNeed],
) -> FigureSource {
    FigureSource { versions, terms, time: None, unit, work: Work::Server, needs }
}

const fn io(name: &'static str, unit: CountUnit, sources: &'static [FigureSource]) -> FigureEntry {
    FigureEntry { name, kind: FigureKind::Io, unit, sources, holes: &[], stand_in: "" }
}

const fn counter(
    counter: CommonCounter,
    unit: CountUnit,
    sources: &'static [FigureSource],
) -> FigureEntry {
    let (name, kind) = (counter.name(), FigureKind::Counter);
    FigureEntry { name, kind, unit, sources, holes: &[], stand_in: "" }
}

const fn wait(
    name: &'static str,
    class: WaitClass,
    sources: &'static [FigureSource],
) -> FigureEntry {
    let kind = FigureKind::Wait(class);
    FigureEntry {
        name,
        kind,
        unit: Count,
        sources,
        holes: &[],
        stand_in: "shares of time by samples",
    }
}

const READ: &[FigureSource] = &[source(ALL, &[("status.Innodb_pages_read", 1)], Blocks, &[])];
const WRITTEN: &[FigureSource] = &[source(ALL, &[("status.Innodb_pages_written", 1)], Blocks, &[])];

/// InnoDB reads and writes each page of a data file by a separate request. The doublewrite has its own
/// counters and is not in them.
const FIGURES: &[FigureEntry] = &[
    io(
        "logical_reads",
        Blocks,
        &[source(ALL, &[("status.Innodb_buffer_pool_read_requests", 1)], Blocks, &[])],
    ),
    io("physical_read_blocks", Blocks, READ),
    io("physical_read_requests", Requests, READ),
    io("physical_read_bytes", Bytes, READ),
    io("physical_write_blocks", Blocks, WRITTEN),
    io("physical_write_requests", Requests, WRITTEN),
    io("physical_write_bytes", Bytes, WRITTEN),
    io(
        "redo_bytes",
        Bytes,
        &[
            source(&[maria(100_600)], &[("status.Innodb_lsn_current", 1)], Bytes, &[]),
            source(&[mysql(POSITIONS)], &[("status.Innodb_redo_log_current_lsn", 1)], Bytes, &[]),
            source(ALL, &[("status.Innodb_os_log_written", 1)], Bytes, &[]),
        ],
    ),
    io(
        "commits",
        Count,
        &[source(ALL, &[("status.Handler_commit", 1), (SECOND_PHASES, -1)], Count, &[])],
    ),
    // The log's syncs are then those of all files without the data files'.
    io(
        "log_syncs",
        Count,
        &[
            source(OWN_SYNCS, &[("status.Innodb_os_log_fsyncs", 1)], Count, &[]),
            source(
                &[maria(ALL_SYNCS)],
                &[("status.Innodb_data_fsyncs", 1), ("files.data_others", -1)],
                Count,
                &[TIMED],
            ),
        ],
    ),
    FigureEntry {
        holes: &[(WITHOUT_POSITIONS, "MySQL shows the positions of its log from 8.0.30 on")],
        ..counter(
            CommonCounter::Checkpoints,
            Count,
            &[source(WITH_POSITIONS, &[(CYCLES, 1)], Count, &[])],
        )
    },
    FigureEntry {
        holes: &[(WITHOUT_POSITIONS, "MySQL shows the positions of its log from 8.0.30 on")],
        ..counter(
            CommonCounter::CheckpointsByLogSize,
            Count,
            &[source(WITH_POSITIONS, &[(FORCED, 1)], Count, &[])],
        )
    },
    counter(
        CommonCounter::UnpurgedTransactions,
        Count,
        &[
            source(&[maria(100_600)], &[("status.Innodb_history_list_length", 1)], Count, &[]),
            source(ALL, &[(HISTORY, 1)], Count, &[]),
        ],
    ),
    counter(
        CommonCounter::DoublewriteBytes,
        Bytes,
        &[source(ALL, &[("status.Innodb_dblwr_pages_written", 1)], Blocks, &[])],
    ),
    // MariaDB counts the log alone: each write begins at a block, and ends with one that is written again.
    counter(
        CommonCounter::LogFileBytes,
        Bytes,
        &[
            source(OWN_SYNCS, &[("status.Innodb_os_log_written", 1)], Bytes, &[]),
            source(
                &[maria(ALL_SYNCS)],
                &[("status.Innodb_os_log_written", 1), (AGAIN, 1)],
                Bytes,
                &[],
            ),
        ],
    ),
    counter(
        CommonCounter::FreeBlockWaits,
        Count,
        &[source(ALL, &[("status.Innodb_buffer_pool_wait_free", 1)], Count, &[])],
    ),
    // Sessions read: the page cleaner writes and syncs.
    FigureEntry {
        stand_in: "the server's calls (CALL_LATENCY), or the device's reads",
        ..wait(
            READ_EVENT,
            WaitClass::UserIo,
            &[FigureSource {
                time: Some(("sessions.ps", PICOSECOND)),
                work: Work::Sessions,
                ..source(ALL, &[("sessions.calls", 1)], Requests, &[TIMED])
            }],
        )
    },
    // Calls of all threads: those of background threads are not in DB time. How long sessions wait for the
    // log is sampled.
    FigureEntry {
        holes: NO_LOG_CALLS,
        ..wait(
            "innodb_log_file write",
            WaitClass::SystemIo,
            &[FigureSource {
                time: Some(("files.log_write_ps", PICOSECOND)),
                ..source(OWN_SYNCS, &[("files.log_writes", 1)], Requests, &[TIMED])
            }],
        )
    },
    FigureEntry {
        holes: NO_LOG_CALLS,
        ..wait(
            LOG_EVENT,
            WaitClass::SystemIo,
            &[FigureSource {
                time: Some(("files.log_other_ps", PICOSECOND)),
                ..source(OWN_SYNCS, &[("files.log_others", 1)], Count, &[TIMED])
            }],
        )
    },
    // Without writes of data: a page's is handed over, and the server times no more than that.
    wait(
        "innodb_data_file sync",
        WaitClass::SystemIo,
        &[FigureSource {
            time: Some(("files.data_other_ps", PICOSECOND)),
            ..source(ALL, &[("files.data_others", 1)], Count, &[TIMED])
        }],
    ),
    wait(
        ROW_LOCK_EVENT,
        WaitClass::Application,
        &[FigureSource {
            time: Some(("status.Innodb_row_lock_time", MILLISECOND)),
            ..source(ALL, &[("status.Innodb_row_lock_waits", 1)], Count, &[])
        }],
    ),
    wait(
        FLOW_CONTROL_EVENT,
        WaitClass::Concurrency,
        &[FigureSource {
            time: Some(("status.wsrep_flow_control_paused_ns", NANOSECOND)),
            ..source(ALL, &[("status.wsrep_flow_control_recv", 1)], Count, &[CLUSTER])
        }],
    ),
];

pub static TABLE: FigureTable = FigureTable {
    has_all_columns: false,
    views: VIEWS,
    figures: FIGURES,
    needs: &[
        (
            TIMED,
            "the server does not time files for this user: performance_schema is off (MariaDB's default) \
             or lacks room, or the user may not read it",
        ),
        // Nothing is missing elsewhere.
        (CLUSTER, ""),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::server::figure_table::{self, Look};
    use std::collections::BTreeMap;

    fn look<T>(
        of: &str,
        unmet: &[FigureNeed],
        raw: &[(&str, u64)],
        then: impl Fn(Look<'_>) -> T,
    ) -> T {
        let raw = raw.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let refused = BTreeMap::new();
        let (table, version) = (&TABLE, version(of));
        then(Look { table, version, block_bytes: Some(16384), raw: &raw, refused: &refused, unmet })
    }

    #[test]
    fn versions_are_read_from_their_texts() {
        let of = |text| (version(text).product, version(text).number);
        assert_eq!(of("10.11.14-MariaDB-0+deb12u2"), (MARIADB, 101_114));
        assert_eq!(of("5.5.5-11.4.5-MariaDB"), (MARIADB, 110_405));
        assert_eq!(of("8.0.33"), (MYSQL, 80_033));
        assert_eq!(of("8.4.0-commercial"), (MYSQL, 80_400));
        assert_eq!(of("9.1"), (MYSQL, 90_100));
    }

    #[test]
    fn each_figure_has_in_each_version_a_source_or_a_reason() {
        let versions = ["10.6.20-MariaDB", "10.11.14-MariaDB", "11.4.5-MariaDB", "12.0.1-MariaDB"];
        let mysql = ["8.0.11", "8.0.33", "8.4.3", "9.1.0"];
        let versions: Vec<ServerVersion> = versions.into_iter().chain(mysql).map(version).collect();
        assert_eq!(TABLE.faults(&versions), [""; 0]);
    }

    #[test]
    fn the_page_shows_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/engines/mysql.md");
        figure_table::check_page(page.as_ref(), &TABLE.page(words));
    }

    #[test]
    fn pages_are_requests_and_what_is_not_counted_is_unknown() {
        let raw = [("status.Innodb_pages_read", 10), ("status.Innodb_os_log_written", 700)];
        let io = look("8.0.20", &[], &raw, |look| look.io());
        assert_eq!((io.physical_read_requests, io.physical_read_bytes), (Some(10), Some(163_840)));
        assert_eq!((io.physical_write_bytes, io.commits), (None, None));
        assert_eq!(io.redo_bytes, Some(700));
        let raw = [("status.Innodb_lsn_current", 900), ("status.Innodb_os_log_written", 700)];
        let redo = |of, raw| look(of, &[], raw, |look| look.io().redo_bytes);
        assert_eq!(
            (redo("11.4.5-MariaDB", &raw[..]), redo("8.0.33", &raw[..])),
            (Some(900), Some(700))
        );
    }

    #[test]
    fn a_commit_in_two_phases_is_one_commit() {
        // MariaDB 10.11 with a binary log: 101 UPDATEs, 50 SELECTs, and two questions.
        let raw = [("status.Handler_commit", 256), (SECOND_PHASES, 103)];
        assert_eq!(look("10.11.14-MariaDB", &[], &raw, |look| look.io().commits), Some(153));
    }

    #[test]
    fn syncs_of_the_log_are_counted_or_made_of_all_syncs() {
        let raw = [("status.Innodb_data_fsyncs", 100), ("files.data_others", 40)];
        let syncs =
            |of, unmet: &[FigureNeed], raw| look(of, unmet, raw, |look| look.io().log_syncs);
        assert_eq!(syncs("10.11.14-MariaDB", &[], &raw[..]), Some(60));
        assert_eq!(syncs("10.11.14-MariaDB", &[], &raw[..1]), None);
        assert_eq!(syncs("10.11.14-MariaDB", &[TIMED], &raw[..]), None);
        assert_eq!(syncs("8.0.33", &[], &[("status.Innodb_os_log_fsyncs", 7)]), Some(7));
        let reasons = look("11.4.5-MariaDB", &[TIMED], &raw, |look| look.reasons());
        assert!(reasons["log_syncs"].contains("performance_schema is off"), "{reasons:?}");
        assert!(reasons[READ_EVENT].contains("performance_schema is off"), "{reasons:?}");
    }

    #[test]
    fn each_write_of_the_log_writes_its_last_block_again() {
        let raw = [("status.Innodb_os_log_written", 7000), (AGAIN, 5120)];
        let bytes = |of, raw| -> Option<u64> {
            let counters: BTreeMap<_, _> = look(of, &[], raw, |look| look.counters().collect());
            counters.get("log_file_bytes").copied()
        };
        assert_eq!(bytes("10.11.14-MariaDB", &raw[..]), Some(12_120));
        assert_eq!(bytes("10.11.14-MariaDB", &raw[..1]), None);
        assert_eq!(bytes("8.0.33", &raw[..]), Some(7000));
    }

    #[test]
    fn waits_are_counted_and_timed_by_the_server() {
        let raw = [
            ("status.Innodb_row_lock_waits", 3),
            ("status.Innodb_row_lock_time", 2),
            ("status.wsrep_flow_control_recv", 4),
            ("status.wsrep_flow_control_paused_ns", 50),
            ("sessions.calls", 4),
            ("sessions.ps", 8000),
            ("files.log_others", 3),
            ("files.log_other_ps", 9000),
            ("files.data_others", 2),
            ("files.data_other_ps", 3000),
        ];
        let of_version =
            |version, unmet: &[FigureNeed]| -> Vec<(String, Option<u64>, u64, WaitClass)> {
                let waits = look(version, unmet, &raw, |look| look.waits()).into_iter();
                waits.map(|wait| (wait.name, wait.waits, wait.time_ns, wait.class)).collect()
            };
        let waits = |unmet: &[FigureNeed]| of_version("10.6.5-MariaDB", unmet);
        let of = |name: &str, count, ns, class| (name.to_owned(), Some(count), ns, class);
        let locks = of(ROW_LOCK_EVENT, 3, 2_000_000, WaitClass::Application);
        assert_eq!(waits(&[TIMED, CLUSTER]), std::slice::from_ref(&locks));
        // The calls of background threads are in no session's time.
        let all = [
            of(READ_EVENT, 4, 8, WaitClass::UserIo),
            of(LOG_EVENT, 3, 9, WaitClass::SystemIo),
            of("innodb_data_file sync", 2, 3, WaitClass::SystemIo),
            locks,
            of(FLOW_CONTROL_EVENT, 4, 50, WaitClass::Concurrency),
        ];
        assert_eq!(waits(&[]), all);
        let without_log: Vec<_> = all.into_iter().filter(|wait| wait.0 != LOG_EVENT).collect();
        assert_eq!(of_version("11.4.5-MariaDB", &[]), without_log);
        let reasons = look("11.4.5-MariaDB", &[], &raw, |look| look.reasons());
        assert_eq!(reasons[LOG_EVENT], "MariaDB times no calls on its log from 10.8 on");
    }
}
