//! The server's counters: its status variables as they are, and the figures that every engine answers
//! for, by the table in `figures`.

use std::collections::BTreeMap;

use super::client::{Client, Error};
use super::errors::{is_refusal, words};
use super::figures::{
    self, AGAIN, CLUSTER, CYCLES, FILES, FORCED, HISTORY, SECOND_PHASES, SESSIONS, STATUS, TABLE,
    TIMED,
};
use super::page_layout::PAGE_BYTES;
use super::resets::{FILE_COUNTS, without_resets};
use petal_engine::server::figure_table::{FigureNeed, Look, ServerVersion};
use petal_engine::server::reset_watch::ResetWatch;
use petal_host::COUNT_MAX;
use petal_record::counters::Counters;

/// Calls and times in picoseconds, by kind of file.
const CALLS: &str = "\
SELECT event_name, count_write, sum_timer_write, count_misc, sum_timer_misc \
FROM performance_schema.file_summary_by_event_name \
WHERE event_name IN ('wait/io/file/innodb/innodb_data_file', 'wait/io/file/innodb/innodb_log_file')";

/// The sessions' part of the calls on data files, and their time in picoseconds. Background threads
/// have no user.
const BY_SESSIONS: &str = "\
SELECT CAST(COALESCE(SUM(count_star), 0) AS UNSIGNED), CAST(COALESCE(SUM(sum_timer_wait), 0) AS UNSIGNED) \
FROM performance_schema.events_waits_summary_by_account_by_event_name \
WHERE event_name = 'wait/io/file/innodb/innodb_data_file' AND user IS NOT NULL";
/// Accounts and threads for which performance_schema had no room: it does not count their calls.
const LOST: [&str; 2] =
    ["Performance_schema_accounts_lost", "Performance_schema_thread_instances_lost"];

const HISTORY_LENGTH: &str = "Innodb_history_list_length";
const LOG_SYNCS: &str = "Innodb_os_log_fsyncs";
const METRICS: &str =
    "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'";

/// The way to have the server time its reads.
pub const UNTIMED: &str = "Start the server with performance_schema=ON and room for all accounts \
    (Performance_schema_accounts_lost is 0). Let petal's user read it (GRANT SELECT ON \
    performance_schema.* TO the user).";

/// State of counting on one server, with the necessary facts of the snapshot before.
pub struct ServerCounters {
    version: ServerVersion,
    /// The question for the status variables of the table.
    status: String,
    /// None if the server does not name a size that InnoDB has.
    page_bytes: Option<u64>,
    is_timed: bool,
    /// Views that the server refused, with its words.
    refused: BTreeMap<String, String>,
    /// None if it is not known.
    log_bytes: Option<u64>,
    /// Bytes of the log's blocks, which are written whole; None if it is not known.
    log_block_bytes: Option<u64>,
    cycles: CheckpointCycles,
}

impl ServerCounters {
    /// Starts counting on a connection.
    pub fn new(client: &mut Client) -> Result<Self, Error> {
        let version = figures::version(&client.query_one::<String>("SELECT VERSION()")?);
        let status = TABLE.views_of(version).filter(|view| view.name == STATUS);
        let names = status.flat_map(|view| view.columns).map(|(name, _)| format!("'{name}'"));
        let names: Vec<String> = names.collect();
        Ok(Self {
            version,
            status: format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({})", names.join(", ")),
            page_bytes: Some(client.query_one::<u32>("SELECT @@innodb_page_size")?)
                .filter(|bytes| PAGE_BYTES.contains(bytes))
                .map(u64::from),
            is_timed: is_timed(client),
            refused: BTreeMap::new(),
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
        let mut raw = status(client, &self.status)?;
        let history = raw.remove(HISTORY_LENGTH);
        let lost: u64 = LOST.iter().filter_map(|name| raw.remove(*name)).sum();
        let mut others = self.file_counts(client, lost)?;
        let named = |(name, count): (&String, &u64)| (format!("{FILE_COUNTS}.{name}"), *count);
        without_resets(&mut raw, others.iter().map(named), resets);
        if resets.is_lost(FILE_COUNTS) {
            others.clear();
        }
        self.add_derived(client, &raw, history, &mut others)?;
        others.extend(raw.iter().map(|(name, count)| (format!("{STATUS}.{name}"), *count)));
        let mut unmet: Vec<FigureNeed> = Vec::new();
        unmet.extend((!self.is_timed || lost > 0).then_some(TIMED));
        unmet.extend((!raw.contains_key("wsrep_flow_control_recv")).then_some(CLUSTER));
        let look = Look {
            table: &TABLE,
            version: self.version,
            block_bytes: self.page_bytes,
            raw: &others,
            refused: &self.refused,
            unmet: &unmet,
        };
        let (io, waits, reasons) = (look.io(), look.waits(), look.reasons());
        raw.extend(look.counters());
        if let Some(syncs) = io.log_syncs {
            raw.insert(LOG_SYNCS.to_owned(), syncs);
        }
        Ok(Counters { io, waits, raw, reasons, ..Counters::default() })
    }

    /// Calls on files and their times; without those that the server refuses from now on.
    fn file_counts(
        &mut self,
        client: &mut Client,
        lost: u64,
    ) -> Result<BTreeMap<String, u64>, Error> {
        let mut counts = BTreeMap::new();
        if !self.is_timed {
            return Ok(counts);
        }
        let rows = self.ask::<(String, u64, u64, u64, u64)>(client, FILES, CALLS)?;
        for (name, writes, write_ps, others, other_ps) in rows {
            let kind = if name.ends_with("innodb_log_file") { "log" } else { "data" };
            let columns = [
                ("writes", writes),
                ("write_ps", write_ps),
                ("others", others),
                ("other_ps", other_ps),
            ];
            let named = |(column, count)| (format!("{FILES}.{kind}_{column}"), count);
            counts.extend(columns.map(named));
        }
        if lost == 0 {
            let rows = self.ask::<(u64, u64)>(client, SESSIONS, BY_SESSIONS)?;
            let columns = rows.into_iter().flat_map(|(calls, ps)| [("calls", calls), ("ps", ps)]);
            counts.extend(columns.map(|(column, count)| (format!("{SESSIONS}.{column}"), count)));
        }
        Ok(counts)
    }

    /// The rows of a view; none, and the reason is kept, if the server refuses it.
    fn ask<T: mysql_async::prelude::FromRow + Send + 'static>(
        &mut self,
        client: &mut Client,
        view: &str,
        sql: &str,
    ) -> Result<Vec<T>, Error> {
        if self.refused.contains_key(view) {
            return Ok(Vec::new());
        }
        match client.query(sql) {
            Err(error) if is_refusal(&error) => {
                self.refused.insert(view.to_owned(), words(&error));
                Ok(Vec::new())
            }
            answer => answer,
        }
    }

    /// Adds counts that petal makes of others: the undo history, blocks of the log that are written
    /// again, second phases of commits, cycles of checkpoints.
    fn add_derived(
        &mut self,
        client: &mut Client,
        raw: &BTreeMap<String, u64>,
        history: Option<u64>,
        others: &mut BTreeMap<String, u64>,
    ) -> Result<(), Error> {
        match history {
            Some(length) => others.extend([(format!("{STATUS}.{HISTORY_LENGTH}"), length)]),
            None => {
                let rows = self.ask::<u64>(client, "metrics", METRICS)?;
                others.extend(rows.first().map(|length| (HISTORY.to_owned(), *length)));
            }
        }
        let again = raw.get("Innodb_log_writes").zip(self.log_block_bytes);
        let again = again.and_then(|(writes, bytes)| writes.checked_mul(bytes));
        others.extend(again.map(|bytes| (AGAIN.to_owned(), bytes)));
        let prepares = raw.get("Handler_prepare");
        others.extend(prepares.map(|count| (SECOND_PHASES.to_owned(), count / 2)));
        let first = |one: &str, other: &str| raw.get(one).or_else(|| raw.get(other)).copied();
        let log = first("Innodb_lsn_current", "Innodb_redo_log_current_lsn");
        let checkpoint = first("Innodb_lsn_last_checkpoint", "Innodb_redo_log_checkpoint_lsn");
        if let Some((log, checkpoint)) = log.zip(checkpoint) {
            self.cycles.look(log, checkpoint, self.log_bytes);
            others.insert(CYCLES.to_owned(), self.cycles.ended);
            others.extend(self.log_bytes.map(|_| (FORCED.to_owned(), self.cycles.forced)));
        }
        Ok(())
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
    let status = format!("SHOW GLOBAL STATUS LIKE '{HISTORY_LENGTH}'");
    if let Some((_, length)) = client.query::<(String, u64)>(&status).ok()?.pop() {
        return Some(length);
    }
    client.query(METRICS).ok()?.pop()
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
