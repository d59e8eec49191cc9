//! Counters of the server: its statistics views as they are, and the figures made from them that
//! every engine has. Views differ by version; figures that a version does not count are unknown.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use tokio_postgres::Statement;

use super::answer::{Columns as _, NonNegative};
use super::client::Client;
use super::connect::{Endpoint, FLUSH_VERSION_MIN, server_version};
use super::plan;
use petal_engine::server::reset_watch::{ResetWatch, SERVER};
use petal_engine::server::wait_sampler::WaitSampler;
use petal_engine::{EngineError, Result};
use petal_model::stats::counters::{CommonCounter, Counters, IoCounts, Wait, WaitClass};
use petal_model::stats::{COUNT_MAX, delta};

/// Maximum delay until the statistics collector of 14 and before shows the sessions' reports.
const COLLECTOR_DELAY: Duration = Duration::from_millis(600);
/// Bytes of a block of the log, as nearly all servers are built (`wal_block_size`).
const WAL_BLOCK_BYTES: u64 = 8192;
const ENDING_LIMIT: Duration = Duration::from_secs(10);

/// The wait events that petal counts from the server's totals.
pub const READ_EVENT: &str = "DataFileRead";
pub const WRITE_EVENT: &str = "DataFileWrite";
pub const LOG_EVENT: &str = "WALSync";

/// Columns of pg_stat_io that are kept separately for sessions: their time must not be divided by
/// the checkpointer's counts.
const SESSION_COLUMNS: [&str; 6] =
    ["reads", "read_time", "writes", "write_time", "fsyncs", "fsync_time"];

/// The kinds of I/O that the server times for this role's connections.
#[derive(Clone, Copy)]
struct Timing {
    version: u32,
    /// Reads and writes of data.
    io: bool,
    /// Writes and syncs of the log.
    log: bool,
}

/// A server's counters, on a separate connection.
pub struct CounterReader {
    endpoint: Endpoint,
    state: Mutex<ReaderState>,
}

#[derive(Default)]
struct ReaderState {
    client: Option<CountersClient>,
    checkpoint: Option<String>,
    /// Whether it was a standby when it was first asked, and when it was last.
    standby: Option<(bool, bool)>,
    /// Checkpoints that were seen to end; two between two looks count as one.
    checkpoints_ended: u64,
    resets: ResetWatch,
}

/// The connection with its question, which is asked once a second, prepared.
struct CountersClient {
    client: Client,
    timing: Timing,
    all: Statement,
}

impl CountersClient {
    fn new(endpoint: &Endpoint) -> Result<Self> {
        let mut client = endpoint.connect_to_look("petal counters")?;
        let timing = timing(&mut client)?;
        let all = client.prepare_for("preparing counters", &sql(timing.version))?;
        Ok(Self { client, timing, all })
    }
}

impl CounterReader {
    pub fn new(endpoint: &Endpoint) -> Self {
        Self { endpoint: endpoint.clone(), state: Mutex::default() }
    }

    /// Everything. Connects again if the connection was lost.
    pub fn read(&self, block_bytes: u64, waits: &WaitSampler<Endpoint>) -> Result<Counters> {
        let mut state = self.state.lock();
        if state.client.as_ref().is_none_or(|connected| connected.client.is_closed()) {
            state.client = Some(CountersClient::new(&self.endpoint)?);
        }
        let Some(CountersClient { client, timing, all }) = &mut state.client else {
            return Err(EngineError::Database("no connection for counters".to_owned()));
        };
        let timing = *timing;
        let row = client.ask_row("reading counters", all, &[])?;
        let json: Value = serde_json::from_str(row.read(0)?).map_err(|error| {
            EngineError::Database(format!("{}: odd counters: {error}", self.endpoint.name))
        })?;
        let is_standby: bool = row.read(5)?;
        let was_standby = state.standby.map_or(is_standby, |(was_standby, _)| was_standby);
        state.standby = Some((was_standby, is_standby));
        let seen: Option<String> = row.read(2)?;
        if state.checkpoint.is_some() && state.checkpoint != seen {
            state.checkpoints_ended += 1;
        }
        state.checkpoint = seen;
        let mut raw = flatten(&json);
        let checkpoints = state.checkpoints_ended;
        state.resets.look(&raw, stamps(&json), group_of);
        raw.retain(|name, _| !state.resets.is_lost(group_of(name)));
        let (resets, restarted) = (state.resets.resets(), state.resets.restarted());
        drop(state);
        raw.extend(common_counters(&raw, checkpoints));
        raw.remove("tables.vacuums");
        let sync_is_counted = row.read::<bool>(4)? && !row.read::<&str>(3)?.starts_with("open");
        let facts = RawCounters { raw: &raw, timing, block_bytes, sync_is_counted };
        let io = IoCounts {
            // Of a standby that was promoted it would be all that the primary ever wrote.
            redo_bytes: row
                .read::<Option<NonNegative>>(1)?
                .filter(|_| was_standby == is_standby)
                .map(|NonNegative(bytes)| bytes),
            ..facts.io()
        };
        let (io, replayed) = match was_standby {
            true => (of_standby(io), io.physical_write_blocks),
            false => (io, None),
        };
        let log_file_bytes = facts.log_file_bytes(io.redo_bytes);
        let counted = facts.waits();
        raw.extend(
            replayed.map(|blocks| (CommonCounter::ReplayedBlocks.name().to_owned(), blocks)),
        );
        raw.extend(
            log_file_bytes.map(|bytes| (CommonCounter::LogFileBytes.name().to_owned(), bytes)),
        );
        let endpoint = self.endpoint.name.clone();
        let resets = resets.into_iter().map(|why| format!("{endpoint}: {why}")).collect();
        let mut counters = Counters {
            endpoint,
            io,
            waits: counted,
            raw,
            resets,
            restarted,
            is_standby: was_standby,
            ..Counters::default()
        };
        waits.add_to(&mut counters, &self.endpoint.name);
        Ok(counters)
    }

    /// Forgets resets of the server's statistics until now: a run begins.
    pub fn begin_counting(&self) {
        self.state.lock().resets.begin();
    }

    /// Reports a standby that became a primary since it was first asked.
    pub fn promoted(&self) -> Option<String> {
        let state = self.state.lock();
        (state.standby == Some((true, false))).then(|| {
            format!(
                "{} was a standby when the run began and was promoted in it: from then on its \
                 data were others than the primary's",
                self.endpoint.name
            )
        })
    }

    /// True for a server whose sessions report when they like: 14 and before.
    pub fn is_delayed(&self) -> bool {
        let state = self.state.lock();
        let connected = state.client.as_ref();
        connected.is_some_and(|connected| connected.timing.version < FLUSH_VERSION_MIN)
    }

    /// Ends the sessions of such a server, which then report. Later versions have reported.
    pub fn settle(&self, processes: &[i32]) -> Result<()> {
        if !self.is_delayed() {
            return Ok(());
        }
        let mut state = self.state.lock();
        let Some(CountersClient { client, .. }) = &mut state.client else { return Ok(()) };
        let doing = "ending sessions";
        let end = "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.unnest($1::int[]) \
            AS pid";
        client.ask(doing, end, &[&processes])?;
        let left = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE pid = \
            ANY($1)";
        let begin = Instant::now();
        while client.ask_value::<i64>(doing, left, &[&processes])? > 0
            && begin.elapsed() < ENDING_LIMIT
        {
            std::thread::sleep(COLLECTOR_DELAY / 10);
        }
        // The collector writes the reports that it got.
        std::thread::sleep(COLLECTOR_DELAY);
        Ok(())
    }

    /// Lets the connection go, as before a load of hours.
    pub fn disconnect(&self) {
        self.state.lock().client = None;
    }
}

/// Figures of a standby: its sessions only read, and its writes are replay's.
fn of_standby(io: IoCounts) -> IoCounts {
    IoCounts {
        physical_write_blocks: Some(0),
        physical_write_requests: Some(0),
        physical_write_bytes: Some(0),
        ..io
    }
}

/// Blocks of petal's own tables that the database found in its cache, and that it read.
fn own_blocks(raw: &BTreeMap<String, u64>) -> Option<(u64, u64)> {
    let sum = |what: &str| -> Option<u64> {
        let of = ["cf1.heap_blks", "cf1.idx_blks", "cf2.heap_blks"];
        of.iter().map(|name| raw.get(&format!("{name}_{what}")).copied()).sum()
    };
    sum("hit").zip(sum("read"))
}

/// Counters under the names that every engine may use: checkpoints, moved rows, vacuums, the work in
/// this database that was not on petal's tables, and all rows that anybody fetched from these with the
/// blocks that were visited for it.
fn common_counters(raw: &BTreeMap<String, u64>, checkpoints: u64) -> Vec<(String, u64)> {
    let get = |name: &str| raw.get(name).copied();
    let database = |name: &str| get(&format!("pg_stat_database.{name}"));
    let own = own_blocks(raw);
    // Less than petal's own share means that the two were reported at different times.
    let rest = |all: Option<u64>, own: Option<u64>| delta(own?, all?);
    let visited = database("blks_hit").zip(database("blks_read")).map(|(hit, read)| hit + read);
    let changed: Option<u64> =
        ["tup_inserted", "tup_updated", "tup_deleted"].into_iter().map(database).sum();
    // Checkpoints before their time: in a run the log's size asks for them, unless somebody did.
    let requested = ["pg_stat_checkpointer.num_requested", "pg_stat_bgwriter.checkpoints_req"];
    // An UPDATE that is not HOT moves the row to another page: no indexed column changes.
    let moved = rest(get("tables.n_tup_upd"), get("tables.n_tup_hot_upd"));
    let row_blocks: Option<u64> =
        ["cf1.heap_blks_hit", "cf1.heap_blks_read"].into_iter().map(get).sum();
    let named = [
        (CommonCounter::Checkpoints, Some(checkpoints)),
        (CommonCounter::CheckpointsByLogSize, requested.into_iter().find_map(get)),
        (CommonCounter::RowsMoved, moved),
        (CommonCounter::Vacuums, get("tables.vacuums")),
        (CommonCounter::OtherLogicalReads, rest(visited, own.map(|(hit, read)| hit + read))),
        (CommonCounter::OtherReadBlocks, rest(database("blks_read"), own.map(|(_, read)| read))),
        (CommonCounter::OtherRowsChanged, rest(changed, get("tables.n_tup_upd"))),
        (CommonCounter::RowsFetched, get("tables.idx_tup_fetch")),
        (CommonCounter::RowBlocksVisited, row_blocks),
        (CommonCounter::BlockImages, get("pg_stat_wal.wal_fpi")),
    ];
    named
        .into_iter()
        .filter_map(|(counter, count)| Some((counter.name().to_owned(), count?)))
        .collect()
}

/// Returns the timing of I/O, as the run's sessions have it.
fn timing(client: &mut Client) -> Result<Timing> {
    let version = server_version(client)?;
    plan::apply_privileged(client)?;
    let sql = "SELECT coalesce(pg_catalog.current_setting('track_io_timing', true) = 'on', false), \
                      coalesce(pg_catalog.current_setting('track_wal_io_timing', true) = 'on', false)";
    let row = client.ask_row("asking which I/O it times", sql, &[])?;
    Ok(Timing { version, io: row.read(0)?, log: row.read(1)? })
}

fn sql(version: u32) -> String {
    let mut views = vec![(
        "pg_stat_bgwriter",
        "SELECT * FROM \
        pg_catalog.pg_stat_bgwriter"
            .to_owned(),
    )];
    if version >= 140_000 {
        views.push(("pg_stat_wal", "SELECT * FROM pg_catalog.pg_stat_wal".to_owned()));
    }
    if version >= 160_000 {
        let bytes = if version >= 180_000 {
            "pg_catalog.sum(read_bytes) AS read_bytes, pg_catalog.sum(write_bytes) AS write_bytes, \
             pg_catalog.sum(extend_bytes) AS extend_bytes, "
        } else {
            ""
        };
        let io = |object: &str| {
            let of_sessions = SESSION_COLUMNS.map(|column| {
                format!(
                    ", pg_catalog.sum({column}) FILTER (WHERE backend_type = 'client backend') \
                     AS session_{column}"
                )
            });
            format!(
                "SELECT pg_catalog.max(stats_reset) AS stats_reset, {bytes}pg_catalog.sum(reads) AS reads, \
                 pg_catalog.sum(read_time) AS read_time, \
                 pg_catalog.sum(writes) AS writes, pg_catalog.sum(write_time) AS write_time, \
                 pg_catalog.sum(extends) AS extends, \
                 pg_catalog.sum(fsyncs) AS fsyncs, pg_catalog.sum(fsync_time) AS fsync_time, \
                 pg_catalog.sum(writebacks) AS writebacks, pg_catalog.sum(hits) AS hits, \
                 pg_catalog.sum(evictions) AS evictions\
                 {} FROM pg_catalog.pg_stat_io WHERE object = '{object}'",
                of_sessions.concat()
            )
        };
        views.push(("pg_stat_io", io("relation")));
        if version >= 180_000 {
            views.push(("pg_stat_io_wal", io("wal")));
        }
    }
    if version >= 170_000 {
        views.push((
            "pg_stat_checkpointer",
            "SELECT * FROM \
            pg_catalog.pg_stat_checkpointer"
                .to_owned(),
        ));
    }
    let views: Vec<String> = views
        .iter()
        .map(|(name, sql)| {
            format!(
                "'{name}', (SELECT pg_catalog.row_to_json(v) FROM ({sql}) AS \
            v),"
            )
        })
        .collect();
    include_str!("sql/counters.sql").replace("{views}", &views.join("\n    "))
}

/// Returns the begin of each group's counters, as the views report it.
fn stamps(json: &Value) -> BTreeMap<String, String> {
    let stamp = |(view, columns): (&String, &Value)| {
        let stamp = columns.get("stats_reset")?.as_str()?;
        Some((group_of(view).to_owned(), stamp.to_owned()))
    };
    json.as_object().into_iter().flatten().filter_map(stamp).collect()
}

/// The view whose reset begins a counter again: those of tables begin again with the database's.
fn group_of(name: &str) -> &str {
    match name.split('.').next().unwrap_or(name) {
        "tables" | "cf1" | "cf2" => "pg_stat_database",
        "pg_stat_io_wal" => "pg_stat_io",
        "server" => SERVER,
        view => view,
    }
}

/// `view.column`, numbers only that a counter can have; times, which the server gives in milliseconds, in microseconds.
fn flatten(json: &Value) -> BTreeMap<String, u64> {
    let mut raw = BTreeMap::new();
    for (view, columns) in json.as_object().into_iter().flatten() {
        for (column, value) in columns.as_object().into_iter().flatten() {
            let Some(number) = value.as_f64().filter(|number| *number >= 0.0) else { continue };
            let (name, count) = match column.ends_with("_time") {
                true => (format!("{view}.{column}_us"), (number * 1000.0) as u64),
                false => (format!("{view}.{column}"), value.as_u64().unwrap_or(number as u64)),
            };
            if count <= COUNT_MAX {
                raw.insert(name, count);
            }
        }
    }
    raw
}

/// Raw counters and the facts that their reading needs.
struct RawCounters<'a> {
    raw: &'a BTreeMap<String, u64>,
    timing: Timing,
    block_bytes: u64,
    /// False if log files are opened so that writing is syncing, or fsync is off.
    sync_is_counted: bool,
}

impl RawCounters<'_> {
    fn get(&self, name: &str) -> Option<u64> {
        self.raw.get(name).copied()
    }

    fn sum(&self, names: &[&str]) -> Option<u64> {
        names.iter().map(|name| self.get(name)).sum()
    }

    fn io(&self) -> IoCounts {
        let bytes =
            |blocks: Option<u64>| blocks.and_then(|blocks| blocks.checked_mul(self.block_bytes));
        // Of petal's own tables: others' reads in the same database are not in it.
        let own = own_blocks(self.raw);
        let read_blocks = own.map(|(_, read)| read);
        let written = self.written_blocks();
        IoCounts {
            logical_reads: own.map(|(hit, read)| hit + read),
            physical_read_blocks: read_blocks,
            // Until 16 every block is a separate read; 17 merges them and counts blocks.
            physical_read_requests: match self.timing.version {
                180_000.. => self.get("pg_stat_io.reads"),
                170_000.. => None,
                _ => read_blocks,
            },
            physical_read_bytes: bytes(read_blocks),
            physical_write_blocks: written,
            physical_write_requests: match self.timing.version {
                180_000.. => self.sum(&["pg_stat_io.writes", "pg_stat_io.extends"]),
                170_000.. => None,
                _ => written,
            },
            physical_write_bytes: bytes(written),
            log_read_blocks: None,
            redo_bytes: None,
            commits: self.get("pg_stat_database.xact_commit"),
            log_syncs: self.log_syncs(),
        }
    }

    /// Blocks written by checkpointer, background writer and sessions of the whole server.
    fn written_blocks(&self) -> Option<u64> {
        match self.timing.version {
            180_000.. => self
                .sum(&["pg_stat_io.write_bytes", "pg_stat_io.extend_bytes"])
                .map(|bytes| bytes / self.block_bytes.max(1)),
            160_000.. => self.sum(&["pg_stat_io.writes", "pg_stat_io.extends"]),
            _ => self.sum(&[
                "pg_stat_bgwriter.buffers_checkpoint",
                "pg_stat_bgwriter.buffers_clean",
                "pg_stat_bgwriter.buffers_backend",
            ]),
        }
    }

    /// Bytes written to the log's files. Until 17 the server counts writes. Each one begins with the
    /// block that the one before it left incomplete, unless the log's buffers were full.
    fn log_file_bytes(&self, redo_bytes: Option<u64>) -> Option<u64> {
        if self.timing.version >= 180_000 {
            return self.get("pg_stat_io_wal.write_bytes");
        }
        let full = self.get("pg_stat_wal.wal_buffers_full")?;
        let again = self.get("pg_stat_wal.wal_write")?.saturating_sub(full);
        redo_bytes?.checked_add(again.checked_mul(WAL_BLOCK_BYTES)?)
    }

    fn log_syncs(&self) -> Option<u64> {
        let name = match self.timing.version {
            180_000.. => "pg_stat_io_wal.fsyncs",
            _ => "pg_stat_wal.wal_sync",
        };
        self.get(name).filter(|_| self.sync_is_counted)
    }

    /// Waits of sessions with counts and times: none if the server did not time them.
    fn waits(&self) -> Vec<Wait> {
        let timed = |is_timed: bool, name: &str, class, waits: Option<u64>, time: &str| {
            let time_us = self.get(time).filter(|_| is_timed)?;
            Some(Wait::counted(name, class, Some(waits?), time_us.saturating_mul(1000)))
        };
        let Timing { io, log, .. } = self.timing;
        // Until 15 the time of each read is cut to whole microseconds. 17 counts blocks, not reads.
        let (reads, read_time) = match self.timing.version {
            170_000..180_000 => (None, ""),
            160_000.. => (self.get("pg_stat_io.session_reads"), "pg_stat_io.session_read_time_us"),
            // Of the whole database, as its time is.
            _ => (self.get("pg_stat_database.blks_read"), "pg_stat_database.blk_read_time_us"),
        };
        let writes = self.get("pg_stat_io.session_writes");
        // Before 18 syncs of the log writer are among them, timed only where it is set for all.
        let (syncs, sync_time) = match self.timing.version {
            180_000.. => {
                (self.get("pg_stat_io_wal.session_fsyncs"), "pg_stat_io_wal.session_fsync_time_us")
            }
            _ => (self.log_syncs(), "pg_stat_wal.wal_sync_time_us"),
        };
        let syncs = syncs.filter(|_| self.sync_is_counted);
        [
            timed(io, READ_EVENT, WaitClass::UserIo, reads, read_time),
            timed(io, WRITE_EVENT, WaitClass::UserIo, writes, "pg_stat_io.session_write_time_us"),
            timed(log, LOG_EVENT, WaitClass::Commit, syncs, sync_time),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_kept_by_name_and_times_become_microseconds() {
        let json = serde_json::json!({
            "pg_stat_database": {"blks_read": 7, "blk_read_time": 1.5, "datname": "x"},
            "pg_stat_wal": null,
        });
        let raw = flatten(&json);
        assert_eq!(raw["pg_stat_database.blks_read"], 7);
        assert_eq!(raw["pg_stat_database.blk_read_time_us"], 1500);
        assert_eq!(raw.len(), 2);
    }

    #[test]
    fn each_view_says_when_its_counters_began() {
        let json = serde_json::json!({
            "pg_stat_wal": {"wal_sync": 7, "stats_reset": "2026-11-25T10:00:00+00:00"},
            "pg_stat_database": {"blks_read": 7, "stats_reset": null},
            "server": {"stats_reset": "2026-11-01T10:00:00+00:00"},
        });
        let groups: Vec<String> = stamps(&json).into_keys().collect();
        assert_eq!(groups, ["pg_stat_wal", SERVER]);
        assert_eq!(group_of("cf1.heap_blks_read"), "pg_stat_database");
        for version in [130_000, 140_000, 150_000, 160_000, 170_000, 180_000] {
            let (sql, views) = (sql(version), ["pg_stat_io'", "pg_stat_io_wal'"]);
            let of_io = views.into_iter().filter(|view| sql.contains(view)).count();
            assert_eq!(sql.matches("pg_catalog.max(stats_reset)").count(), of_io, "{version}");
        }
    }

    #[test]
    fn each_version_is_asked_only_what_it_has() {
        assert!(!sql(130_000).contains("pg_stat_wal'"));
        assert!(sql(150_000).contains("pg_stat_wal") && !sql(150_000).contains("pg_stat_io"));
        assert!(sql(160_000).contains("pg_stat_io") && !sql(160_000).contains("read_bytes"));
        assert!(sql(170_000).contains("pg_stat_checkpointer"));
        assert!(sql(180_000).contains("read_bytes"));
    }

    #[test]
    fn figures_that_a_version_does_not_count_are_unknown() {
        let raw: BTreeMap<String, u64> = [
            ("pg_stat_database.blks_read", 10),
            ("cf1.heap_blks_read", 8),
            ("cf1.heap_blks_hit", 40),
            ("cf1.idx_blks_read", 2),
            ("cf1.idx_blks_hit", 50),
            ("cf2.heap_blks_read", 0),
            ("cf2.heap_blks_hit", 0),
            ("pg_stat_wal.wal_sync", 5),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let facts = |version, sync_is_counted| RawCounters {
            raw: &raw,
            timing: Timing { version, io: true, log: false },
            block_bytes: 8192,
            sync_is_counted,
        };
        let io = facts(150_000, true).io();
        assert_eq!((io.logical_reads, io.physical_read_bytes), (Some(100), Some(81_920)));
        assert_eq!((io.physical_read_requests, io.log_syncs), (Some(10), Some(5)));
        assert_eq!(io.physical_write_blocks, None);
        assert_eq!(facts(170_000, true).io().physical_read_requests, None);
        assert_eq!(facts(150_000, false).io().log_syncs, None);
        assert!(facts(150_000, true).waits().is_empty(), "nothing was timed");
    }

    #[test]
    fn each_write_of_the_log_writes_an_incomplete_block_again() {
        let raw: BTreeMap<String, u64> = [
            ("pg_stat_wal.wal_write", 10),
            ("pg_stat_wal.wal_buffers_full", 2),
            ("pg_stat_io_wal.write_bytes", 77),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let facts = |version| RawCounters {
            raw: &raw,
            timing: Timing { version, io: false, log: false },
            block_bytes: 8192,
            sync_is_counted: true,
        };
        assert_eq!(facts(150_000).log_file_bytes(Some(1000)), Some(1000 + 8 * 8192));
        assert_eq!(facts(150_000).log_file_bytes(None), None);
        assert_eq!(facts(180_000).log_file_bytes(Some(1000)), Some(77));
    }

    #[test]
    fn work_of_others_in_the_database_is_not_petals() {
        let mut raw: BTreeMap<String, u64> = [
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
            ("cf2.heap_blks_read", 5),
            ("cf2.heap_blks_hit", 1),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let timing = Timing { version: 150_000, io: true, log: true };
        let facts = RawCounters { raw: &raw, timing, block_bytes: 8192, sync_is_counted: true };
        let io = facts.io();
        assert_eq!((io.logical_reads, io.physical_read_blocks), (Some(368), Some(87)));
        let rest: BTreeMap<String, u64> = common_counters(&raw, 0).into_iter().collect();
        assert_eq!(rest["other_logical_reads"] + 368, 1500);
        assert_eq!(rest["other_read_blocks"] + 87, 500);
        assert_eq!((rest["other_rows_changed"], rest["rows_fetched"]), (9, 90));
        assert_eq!(rest["row_blocks_visited"], 90);
        raw.remove("cf2.heap_blks_hit");
        assert!(common_counters(&raw, 0).iter().all(|(name, _)| name != "other_read_blocks"));
    }

    #[test]
    fn a_waits_time_is_that_of_the_calls_that_are_counted() {
        let raw: BTreeMap<String, u64> = [
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
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let facts = |version| RawCounters {
            raw: &raw,
            timing: Timing { version, io: true, log: true },
            block_bytes: 8192,
            sync_is_counted: true,
        };
        let waits = |version| -> Vec<_> {
            let facts_of = |wait: Wait| (wait.name, wait.waits, wait.time_ns / 1000);
            facts(version).waits().into_iter().map(facts_of).collect()
        };
        let expected = |name: &str, waits, time_us| (name.to_owned(), Some(waits), time_us);
        let reads = expected(READ_EVENT, 40, 4000);
        let writes = expected(WRITE_EVENT, 10, 300);
        assert_eq!(waits(150_000)[0], expected(READ_EVENT, 90, 5));
        assert_eq!(waits(160_000), [reads.clone(), writes.clone()]);
        assert_eq!(waits(170_000), std::slice::from_ref(&writes));
        assert_eq!(waits(180_000), [reads, writes, expected(LOG_EVENT, 50, 2500)]);
        assert_eq!(facts(180_000).io().log_syncs, Some(60), "whoever did them");
    }
}
