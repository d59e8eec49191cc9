//! The server's counters: its status variables as they are, and the figures that every engine answers
//! for, made from them. Figures that a product or version does not count are unknown.

use std::collections::BTreeMap;

use super::client::{Client, Error};
use super::page_layout::PAGE_BYTES;
use super::resets::{FILE_COUNTS, without_resets};
use petal_engine::server::reset_watch::ResetWatch;
use petal_model::stats::counters::{CommonCounter, Counters, IoCounts, Wait, WaitClass};
use petal_model::stats::{COUNT_MAX, delta};

/// The waits that petal names, as performance_schema counts them by kind of file: the reads by
/// sessions alone, the log's by all threads.
pub const READ_EVENT: &str = "innodb_data_file read";
pub const LOG_EVENT: &str = "innodb_log_file sync";
pub const ROW_LOCK_EVENT: &str = "InnoDB row lock";
/// A node of a cluster waits for the slowest one.
const FLOW_CONTROL_EVENT: &str = "Galera flow control";

/// Cumulative status variables, and the length of the undo history.
const STATUS: &str = "\
SHOW GLOBAL STATUS WHERE Variable_name IN (
'Innodb_buffer_pool_read_requests', 'Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_ahead',
'Innodb_buffer_pool_read_ahead_rnd', 'Innodb_buffer_pool_wait_free',
'Innodb_buffer_pool_write_requests', 'Innodb_buffer_pool_pages_flushed',
'Innodb_data_reads', 'Innodb_data_read', 'Innodb_data_writes', 'Innodb_data_written',
'Innodb_data_fsyncs', 'Innodb_pages_read', 'Innodb_pages_written', 'Innodb_pages_created',
'Innodb_dblwr_pages_written', 'Innodb_dblwr_writes', 'Innodb_os_log_written',
'Innodb_os_log_fsyncs', 'Innodb_log_writes', 'Innodb_log_waits', 'Innodb_log_write_requests',
'Innodb_lsn_current', 'Innodb_lsn_last_checkpoint', 'Innodb_redo_log_current_lsn',
'Innodb_redo_log_checkpoint_lsn', 'Innodb_row_lock_waits', 'Innodb_row_lock_time',
'Innodb_deadlocks', 'Innodb_history_list_length', 'Innodb_rows_read', 'Innodb_rows_updated', 'Handler_commit', 'Handler_update',
'Com_update', 'Com_select', 'Com_call_procedure', 'Binlog_commits', 'Binlog_group_commits',
'wsrep_local_commits', 'wsrep_local_cert_failures', 'wsrep_local_bf_aborts',
'wsrep_flow_control_paused_ns', 'wsrep_flow_control_recv', 'wsrep_received_bytes',
'wsrep_replicated_bytes', 'Performance_schema_accounts_lost',
'Performance_schema_thread_instances_lost', 'Uptime', 'Uptime_since_flush_status')";

/// Calls and times in picoseconds, by kind of file.
const FILES: &str = "\
SELECT event_name, count_read, sum_timer_read, count_write, sum_timer_write, count_misc, sum_timer_misc \
FROM performance_schema.file_summary_by_event_name \
WHERE event_name IN ('wait/io/file/innodb/innodb_data_file', 'wait/io/file/innodb/innodb_log_file')";

/// The sessions' part of the calls on data files, and their time in picoseconds. Background threads
/// have no user. Sessions read: the page cleaner writes and syncs.
const BY_SESSIONS: &str = "\
SELECT CAST(COALESCE(SUM(count_star), 0) AS UNSIGNED), CAST(COALESCE(SUM(sum_timer_wait), 0) AS UNSIGNED) \
FROM performance_schema.events_waits_summary_by_account_by_event_name \
WHERE event_name = 'wait/io/file/innodb/innodb_data_file' AND user IS NOT NULL";
/// Accounts and threads for which performance_schema had no room: it does not count their calls.
const LOST: [&str; 2] =
    ["Performance_schema_accounts_lost", "Performance_schema_thread_instances_lost"];

const HISTORY: &str = "Innodb_history_list_length";
const LOG_SYNCS: &str = "Innodb_os_log_fsyncs";
const PS_PER_NS: u64 = 1000;
const NS_PER_MS: u64 = 1_000_000;

/// The way to have the server time its reads.
pub const UNTIMED: &str = "Start the server with performance_schema=ON and room for all accounts \
    (Performance_schema_accounts_lost is 0). Let petal's user read it (GRANT SELECT ON \
    performance_schema.* TO the user).";

/// State of counting on one server, with the necessary facts of the snapshot before.
pub struct ServerCounters {
    /// None if the server does not name a size that InnoDB has.
    page_bytes: Option<u64>,
    is_timed: bool,
    /// None if it is not known.
    log_bytes: Option<u64>,
    /// Bytes of the log's blocks, which are written whole; None if it is not known.
    log_block_bytes: Option<u64>,
    cycles: CheckpointCycles,
}

impl ServerCounters {
    /// Starts counting on a connection.
    pub fn new(client: &mut Client) -> Result<Self, Error> {
        Ok(Self {
            page_bytes: Some(client.query_one::<u32>("SELECT @@innodb_page_size")?)
                .filter(|bytes| PAGE_BYTES.contains(bytes))
                .map(u64::from),
            is_timed: is_timed(client),
            log_bytes: log_bytes(client),
            log_block_bytes: log_block_bytes(client),
            cycles: CheckpointCycles::default(),
        })
    }

    /// Reads I/O, waits and raw counts. Those that `resets` knows to have begun again are left out.
    pub fn read(
        &mut self,
        client: &mut Client,
        resets: &mut ResetWatch,
    ) -> Result<Counters, Error> {
        let mut raw = status(client, STATUS)?;
        let history = raw.remove(HISTORY);
        let lost: u64 = LOST.iter().filter_map(|name| raw.remove(*name)).sum();
        let mut files: Vec<FileEvents> = match self.is_timed {
            true => client.query(FILES)?,
            false => Vec::new(),
        };
        let mut by_sessions: Option<(u64, u64)> = match self.is_timed && lost == 0 {
            true => Some(client.query_one(BY_SESSIONS)?),
            false => None,
        };
        let counts = files.iter().flat_map(file_counts).chain(session_counts(by_sessions));
        without_resets(&mut raw, counts, resets);
        if resets.is_lost(FILE_COUNTS) {
            files.clear();
            by_sessions = None;
        }
        let log_file_bytes = log_file_bytes(&raw, self.log_block_bytes);
        let mut waits = status_waits(&raw);
        waits.extend(by_sessions.map(read_wait));
        if !files.is_empty() {
            waits.extend(files.iter().flat_map(file_waits));
            if let Some(syncs) = log_syncs(&raw, &files) {
                raw.insert(LOG_SYNCS.to_owned(), syncs);
            }
        }
        let positions = log_position(&raw).zip(first_known(
            &raw,
            "Innodb_lsn_last_checkpoint",
            "Innodb_redo_log_checkpoint_lsn",
        ));
        if let Some((log, checkpoint)) = positions {
            self.cycles.look(log, checkpoint, self.log_bytes);
            raw.insert(CommonCounter::Checkpoints.name().to_owned(), self.cycles.ended);
            if self.log_bytes.is_some() {
                let forced = self.cycles.forced;
                raw.insert(CommonCounter::CheckpointsByLogSize.name().to_owned(), forced);
            }
        }
        let doublewrite = raw
            .get("Innodb_dblwr_pages_written")
            .and_then(|pages| pages.checked_mul(self.page_bytes?));
        let history = history.or_else(|| history_length(client));
        for (counter, value) in [
            (CommonCounter::UnpurgedTransactions, history),
            (CommonCounter::DoublewriteBytes, doublewrite),
            (CommonCounter::LogFileBytes, log_file_bytes),
            (CommonCounter::FreeBlockWaits, raw.get("Innodb_buffer_pool_wait_free").copied()),
        ] {
            raw.extend(value.map(|value| (counter.name().to_owned(), value)));
        }
        Ok(Counters { io: io_counts(&raw, self.page_bytes), waits, raw, ..Counters::default() })
    }
}

/// Status variables that are numbers, as a SHOW GLOBAL STATUS of some names answers.
fn status(client: &mut Client, sql: &str) -> Result<BTreeMap<String, u64>, Error> {
    let status: Vec<(String, String)> = client.query(sql)?;
    let number = |(name, value): (String, String)| {
        let count = value.parse().ok().filter(|count| *count <= COUNT_MAX);
        count.map(|count| (name, count))
    };
    Ok(status.into_iter().filter_map(number).collect())
}

/// True if the server times the sessions' reads and writes of data, and petal may see it.
pub fn is_timed(client: &mut Client) -> bool {
    // Users and accounts may be left out of the instrumentation: petal's thread shows its own.
    let sql = "SELECT COUNT(*) FROM performance_schema.setup_instruments AS instruments \
               JOIN performance_schema.threads AS own ON own.processlist_id = CONNECTION_ID() \
               WHERE instruments.name = 'wait/io/file/innodb/innodb_data_file' \
               AND enabled = 'YES' AND timed = 'YES' AND own.instrumented = 'YES' \
               AND (SELECT COUNT(*) FROM performance_schema.setup_consumers WHERE enabled = 'YES' \
               AND name IN ('global_instrumentation', 'thread_instrumentation')) = 2 \
               AND @@performance_schema = 1";
    client.query_one::<u64>(sql).is_ok_and(|found| found > 0)
        && lost(client).is_ok_and(|lost| lost == 0)
        && client.query::<(u64, u64)>(BY_SESSIONS).is_ok()
}

/// Returns how many accounts and threads performance_schema does not count.
fn lost(client: &mut Client) -> Result<u64, Error> {
    let [accounts, threads] = LOST;
    let sql = format!("SHOW GLOBAL STATUS WHERE Variable_name IN ('{accounts}', '{threads}')");
    Ok(status(client, &sql)?.values().sum())
}

/// Transactions whose old versions are still to be purged; None if the user may not know.
pub fn history_length(client: &mut Client) -> Option<u64> {
    let status = format!("SHOW GLOBAL STATUS LIKE '{HISTORY}'");
    if let Some((_, length)) = client.query::<(String, u64)>(&status).ok()?.pop() {
        return Some(length);
    }
    let metrics = "SELECT count FROM information_schema.innodb_metrics \
                   WHERE name = 'trx_rseg_history_len'";
    client.query(metrics).ok()?.pop()
}

/// The size of the redo log: one number in MySQL 8.0.30 and later, files of one size before, and one
/// file in MariaDB 10.5 and later.
fn log_bytes(client: &mut Client) -> Option<u64> {
    let sql = "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
               ('innodb_redo_log_capacity', 'innodb_log_file_size', 'innodb_log_files_in_group')";
    let rows: Vec<(String, u64)> = client.query(sql).ok()?;
    let get = |name: &str| rows.iter().find(|row| row.0 == name).map(|row| row.1);
    get("innodb_redo_log_capacity").or_else(|| {
        Some(get("innodb_log_file_size")? * get("innodb_log_files_in_group").unwrap_or(1))
    })
}

/// The unit of MariaDB's writes to the log. MySQL has a setting of the same name with another
/// meaning, and counts whole blocks.
fn log_block_bytes(client: &mut Client) -> Option<u64> {
    client.query_one("SELECT @@innodb_log_write_ahead_size").ok()
}

/// Bytes written to the log's files. MariaDB 10.8 and later count the log alone; each write begins
/// at a block, and ends with one that is written again.
fn log_file_bytes(raw: &BTreeMap<String, u64>, block_bytes: Option<u64>) -> Option<u64> {
    let written = raw.get("Innodb_os_log_written").copied()?;
    if raw.contains_key(LOG_SYNCS) {
        return Some(written);
    }
    written.checked_add(raw.get("Innodb_log_writes")?.checked_mul(block_bytes?)?)
}

/// A checkpoint of InnoDB moves in small steps. One cycle is over when it has passed all that was in
/// the log when the cycle began. The log's size forced it if three quarters of the log were in use
/// meanwhile: from about there on the server writes changed pages as fast as it can.
#[derive(Default)]
struct CheckpointCycles {
    begun_at: Option<u64>,
    is_forced: bool,
    ended: u64,
    forced: u64,
}

impl CheckpointCycles {
    fn look(&mut self, log: u64, checkpoint: u64, log_bytes: Option<u64>) {
        let begun_at = *self.begun_at.get_or_insert(log);
        let is_far = |bytes| log >= checkpoint.saturating_add(bytes / 4 * 3);
        self.is_forced |= log_bytes.is_some_and(is_far);
        if checkpoint >= begun_at && log > begun_at {
            self.begun_at = Some(log);
            self.ended += 1;
            self.forced += u64::from(std::mem::take(&mut self.is_forced));
        }
    }
}

/// Returns the syncs of the log. MariaDB 10.8 and later count the syncs of all files together: the
/// log's are the total without the data files'.
fn log_syncs(raw: &BTreeMap<String, u64>, files: &[FileEvents]) -> Option<u64> {
    let all = raw.get("Innodb_data_fsyncs").filter(|_| !raw.contains_key(LOG_SYNCS))?;
    let data = files.iter().find(|file| file.0.ends_with("innodb_data_file"))?;
    delta(data.5, *all)
}

fn first_known(raw: &BTreeMap<String, u64>, one: &str, other: &str) -> Option<u64> {
    raw.get(one).or_else(|| raw.get(other)).copied()
}

/// Bytes that were ever put into the log.
fn log_position(raw: &BTreeMap<String, u64>) -> Option<u64> {
    first_known(raw, "Innodb_lsn_current", "Innodb_redo_log_current_lsn")
}

/// Makes the I/O counts. InnoDB reads and writes each page of a data file by a separate request.
/// The doublewrite has its own counters and is not in here.
fn io_counts(raw: &BTreeMap<String, u64>, page_bytes: Option<u64>) -> IoCounts {
    let get = |name: &str| raw.get(name).copied();
    let (read, written) = (get("Innodb_pages_read"), get("Innodb_pages_written"));
    let bytes = |pages: Option<u64>| {
        pages.zip(page_bytes).and_then(|(pages, bytes)| pages.checked_mul(bytes))
    };
    IoCounts {
        logical_reads: get("Innodb_buffer_pool_read_requests"),
        physical_read_blocks: read,
        physical_read_requests: read,
        physical_read_bytes: bytes(read),
        physical_write_blocks: written,
        physical_write_requests: written,
        physical_write_bytes: bytes(written),
        log_read_blocks: None,
        redo_bytes: log_position(raw).or_else(|| get("Innodb_os_log_written")),
        commits: get("Handler_commit"),
        log_syncs: get(LOG_SYNCS),
    }
}

/// Waits that status variables count and time.
fn status_waits(raw: &BTreeMap<String, u64>) -> Vec<Wait> {
    let both = |waits: &str, time: &str| raw.get(waits).copied().zip(raw.get(time).copied());
    let row_lock = both("Innodb_row_lock_waits", "Innodb_row_lock_time").map(|(waits, time_ms)| {
        let time_ns = time_ms.saturating_mul(NS_PER_MS);
        Wait::counted(ROW_LOCK_EVENT, WaitClass::Application, Some(waits), time_ns)
    });
    let flow = both("wsrep_flow_control_recv", "wsrep_flow_control_paused_ns");
    let flow = flow.map(|(waits, time_ns)| {
        Wait::counted(FLOW_CONTROL_EVENT, WaitClass::Concurrency, Some(waits), time_ns)
    });
    [row_lock, flow].into_iter().flatten().collect()
}

/// A kind of file: its name, and count and time of reads, writes and all else (syncs).
type FileEvents = (String, u64, u64, u64, u64, u64, u64);

/// The counts and times of a kind of file by names of their own.
fn file_counts(file: &FileEvents) -> Vec<(String, u64)> {
    let (name, reads, read_ps, writes, write_ps, others, other_ps) = file;
    let columns = [("reads", reads), ("read_ps", read_ps), ("writes", writes)].into_iter();
    let columns =
        columns.chain([("write_ps", write_ps), ("others", others), ("other_ps", other_ps)]);
    columns.map(|(column, count)| (format!("{FILE_COUNTS}.{name}.{column}"), *count)).collect()
}

/// The sessions' calls by names of their own.
fn session_counts(by_sessions: Option<(u64, u64)>) -> impl Iterator<Item = (String, u64)> {
    let columns = by_sessions.map(|(calls, ps)| [("calls", calls), ("ps", ps)]);
    let name = |column| format!("{FILE_COUNTS}.by_sessions.{column}");
    columns.into_iter().flatten().map(move |(column, count)| (name(column), count))
}

fn read_wait((reads, read_ps): (u64, u64)) -> Wait {
    Wait::counted(READ_EVENT, WaitClass::UserIo, Some(reads), read_ps / PS_PER_NS)
}

/// Calls of all threads: those of background threads are not in DB time. How long sessions wait for
/// the log is sampled.
fn file_waits(file: &FileEvents) -> Vec<Wait> {
    let (name, _, _, writes, write_ps, others, other_ps) = file;
    let wait = |name, waits: u64, time_ps: u64| {
        Wait::counted(name, WaitClass::SystemIo, Some(waits), time_ps / PS_PER_NS)
    };
    if name.ends_with("innodb_log_file") {
        return vec![
            wait("innodb_log_file write", *writes, *write_ps),
            wait(LOG_EVENT, *others, *other_ps),
        ];
    }
    // Without reads, as these are the sessions' part; and without writes: a page's is handed over,
    // and the server times no more than that.
    vec![wait("innodb_data_file sync", *others, *other_ps)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_requests_and_what_is_not_counted_is_unknown() {
        let raw = BTreeMap::from([
            ("Innodb_pages_read".to_owned(), 10),
            ("Innodb_os_log_written".to_owned(), 700),
        ]);
        let io = io_counts(&raw, Some(16384));
        assert_eq!((io.physical_read_requests, io.physical_read_bytes), (Some(10), Some(163840)));
        assert_eq!((io.physical_write_bytes, io.commits), (None, None));
        assert_eq!(io.redo_bytes, Some(700));
        let raw = BTreeMap::from([
            ("Innodb_lsn_current".to_owned(), 900),
            ("Innodb_os_log_written".to_owned(), 700),
        ]);
        assert_eq!(io_counts(&raw, Some(16384)).redo_bytes, Some(900));
        assert_eq!(io_counts(&raw, None).physical_read_bytes, None);
    }

    #[test]
    fn a_checkpoint_cycle_ends_when_all_that_was_logged_before_it_is_behind_the_checkpoint() {
        let mut cycles = CheckpointCycles::default();
        let steps = [
            (100, 90, 0, 0),
            (200, 99, 0, 0),
            (300, 120, 1, 0),
            (400, 290, 1, 0),
            (500, 300, 2, 0),
            // Nothing is logged: no cycle begins.
            (500, 500, 2, 0),
            (600, 500, 3, 0),
            // Three quarters of a log of 400 are in use once.
            (900, 600, 4, 1),
            (1000, 850, 4, 1),
            (1100, 950, 5, 1),
        ];
        for (log, checkpoint, ended, forced) in steps {
            cycles.look(log, checkpoint, Some(400));
            assert_eq!((cycles.ended, cycles.forced), (ended, forced), "{log} {checkpoint}");
        }
    }

    #[test]
    fn syncs_of_the_log_are_counted_or_made_of_all_syncs() {
        let data = ("wait/io/file/innodb/innodb_data_file".to_owned(), 0, 0, 0, 0, 40, 0);
        let all = BTreeMap::from([("Innodb_data_fsyncs".to_owned(), 100)]);
        assert_eq!(log_syncs(&all, std::slice::from_ref(&data)), Some(60));
        assert_eq!(log_syncs(&all, &[]), None);
        let counted =
            BTreeMap::from([(LOG_SYNCS.to_owned(), 7), ("Innodb_data_fsyncs".to_owned(), 9)]);
        assert_eq!(log_syncs(&counted, &[data]), None);
    }

    #[test]
    fn each_write_of_the_log_writes_its_last_block_again() {
        let of = |names: &[(&str, u64)]| {
            let raw = names.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            log_file_bytes(&raw, Some(512))
        };
        let mariadb = [("Innodb_os_log_written", 7000), ("Innodb_log_writes", 10)];
        assert_eq!(of(&mariadb), Some(12_120));
        assert_eq!(of(&mariadb[..1]), None);
        assert_eq!(of(&[mariadb[0], mariadb[1], (LOG_SYNCS, 3)]), Some(7000));
    }

    #[test]
    fn row_locks_and_flow_control_are_waits_where_the_server_counts_them() {
        let of = |names: &[(&str, u64)]| {
            let raw = names.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            let waits = status_waits(&raw).into_iter();
            waits.map(|wait| (wait.name, wait.waits, wait.time_ns)).collect::<Vec<_>>()
        };
        let locks = [("Innodb_row_lock_waits", 3), ("Innodb_row_lock_time", 2)];
        assert_eq!(of(&locks), [(ROW_LOCK_EVENT.to_owned(), Some(3), 2_000_000)]);
        let flow = [("wsrep_flow_control_recv", 4), ("wsrep_flow_control_paused_ns", 50)];
        assert_eq!(of(&flow), [(FLOW_CONTROL_EVENT.to_owned(), Some(4), 50)]);
    }

    #[test]
    fn file_events_become_waits_in_nanoseconds() {
        let read = read_wait((4, 8000));
        assert_eq!((read.name.as_str(), read.waits, read.time_ns), (READ_EVENT, Some(4), 8));
        assert_eq!(read.class, WaitClass::UserIo);
        // The calls of background threads are in no session's time.
        let data = ("wait/io/file/innodb/innodb_data_file".to_owned(), 9, 9000, 1, 1000, 2, 3000);
        let waits = file_waits(&data);
        assert_eq!((waits.len(), waits[0].waits, waits[0].time_ns), (1, Some(2), 3));
        assert_eq!(waits[0].class, WaitClass::SystemIo);
        let log = ("wait/io/file/innodb/innodb_log_file".to_owned(), 0, 0, 2, 2000, 3, 9000);
        let waits = file_waits(&log);
        assert_eq!(
            (waits[1].name.as_str(), waits[1].waits, waits[1].time_ns),
            (LOG_EVENT, Some(3), 9)
        );
        assert!(waits.iter().all(|wait| wait.class == WaitClass::SystemIo));
    }
}
