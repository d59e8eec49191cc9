//! Counters of the server: its statistics views as they are, and the figures made from them that
//! every engine has. Views differ by version; figures that a version does not count are unknown.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use tokio_postgres::Statement;

use super::answer::Columns as _;
use super::client::{Client, Error};
use super::connect::{Endpoint, is_refusal, server_version, words};
use super::figures::{self, COUNTED, IO_TIMED, LOG_TIMED, SINGLE_BLOCKS, SYNCS_COUNTED, TABLE};
use super::plan;
use petal_engine::Result;
use petal_engine::server::data_name::named;
use petal_engine::server::figure_table::{FigureNeed, Look, View};
use petal_engine::server::reset_watch::{ResetWatch, SERVER};
use petal_engine::server::wait_sampler::WaitSampler;
use petal_host::COUNT_MAX;
use petal_record::counters::{CommonCounter, Counters, IoCounts};

/// Maximum delay until the statistics collector of 14 and before shows the sessions' reports.
const COLLECTOR_DELAY: Duration = Duration::from_millis(600);
const ENDING_LIMIT: Duration = Duration::from_secs(10);

/// The raw counter that petal itself counts, by the changes of the position.
const CHECKPOINTS: &str = "checkpoint.lsn";
const POSITION: &str = "log.position";
/// Views with figures alone, which the record does not repeat.
const FIGURES_ALONE: [&str; 3] = ["log.", "checkpoint.", "server."];

/// A server's counters, on a separate connection.
pub struct CounterReader {
    endpoint: Endpoint,
    /// Some operations are scans.
    scans: bool,
    state: Mutex<ReaderState>,
}

#[derive(Default)]
struct ReaderState {
    client: Option<CountersClient>,
    /// Views and columns that the server refused, with its words; kept when the connection is lost.
    refused: BTreeMap<String, String>,
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
    version: u32,
    /// Conditions of figures that do not hold there.
    unmet: Vec<FigureNeed>,
    /// The name of each view that is asked.
    views: Vec<&'static str>,
    /// None if nothing is readable.
    all: Option<Statement>,
}

impl CountersClient {
    /// Asks each view alone once, and prepares one question to those that the role may read.
    fn new(endpoint: &Endpoint, refused: &mut BTreeMap<String, String>) -> Result<Self> {
        let doing = "preparing counters";
        let mut client = endpoint.connect_to_look("petal counters")?;
        let version = server_version(&mut client)?;
        let unmet = unmet(&mut client)?;
        let (mut views, mut asked) = (Vec::new(), Vec::new());
        for view in TABLE.views_of(figures::version(version)) {
            // A figure that was made of other columns once stays so.
            if refused.contains_key(view.name) {
                continue;
            }
            let mut columns = readable(&mut client, view, refused)?;
            columns.retain(|(name, _)| !refused.contains_key(&format!("{}.{name}", view.name)));
            if !columns.is_empty() {
                views.push(view.name);
                asked.push(question(view, &columns));
            }
        }
        let all = match asked.is_empty() {
            true => None,
            false => Some(client.prepare_for(doing, &together(&asked))?),
        };
        Ok(Self { client, version, unmet, views, all })
    }

    /// Reads every readable view, as one JSON object for each.
    fn ask(&mut self) -> Result<Vec<(&'static str, Value)>, Error> {
        let Some(all) = &self.all else { return Ok(Vec::new()) };
        let row = self.client.query_one(all, &[])?;
        let values: Vec<Value> = serde_json::from_str(row.try_get(0)?).unwrap_or_default();
        Ok(self.views.iter().copied().zip(values).collect())
    }
}

/// Returns the columns of a view that the role may read: all, or those that it may read alone.
fn readable(
    client: &mut Client,
    view: &View,
    refused: &mut BTreeMap<String, String>,
) -> Result<Vec<(&'static str, &'static str)>> {
    let mut refusal = |columns: &[(&str, &str)]| match client
        .query_one(together(&[question(view, columns)]).as_str(), &[])
    {
        Ok(_) => Ok(None),
        Err(error) if is_refusal(&error) => Ok(Some(words(&error))),
        Err(error) => Err(client.error("looking which counters it shows", &error)),
    };
    let Some(of_view) = refusal(view.columns)? else { return Ok(view.columns.to_vec()) };
    let (mut columns, mut of_columns) = (Vec::new(), Vec::new());
    for column in view.columns {
        match refusal(&[*column])? {
            None => columns.push(*column),
            Some(why) => of_columns.push((format!("{}.{}", view.name, column.0), why)),
        }
    }
    match columns.is_empty() {
        true => refused.extend([(view.name.to_owned(), of_view)]),
        false => refused.extend(of_columns),
    }
    Ok(columns)
}

fn question(view: &View, columns: &[(&str, &str)]) -> String {
    let columns: Vec<String> = columns
        .iter()
        .map(|(name, sql)| format!("{} AS {name}", if sql.is_empty() { name } else { sql }))
        .collect();
    let (columns, source) = (columns.join(", "), named(view.source));
    format!("(SELECT pg_catalog.row_to_json(v) FROM (SELECT {columns} {source}) AS v)")
}

fn together(questions: &[String]) -> String {
    let all = questions.join(",\n    ");
    format!("SELECT pg_catalog.json_build_array(\n    {all})::pg_catalog.text")
}

impl CounterReader {
    pub fn new(endpoint: &Endpoint, scans: bool) -> Self {
        Self { endpoint: endpoint.clone(), scans, state: Mutex::default() }
    }

    /// Everything. Connects again if the connection was lost, or a view is refused that was not before.
    pub fn read(&self, block_bytes: u64, waits: &WaitSampler<Endpoint>) -> Result<Counters> {
        let mut state = self.state.lock();
        let ReaderState { client, refused, .. } = &mut *state;
        let mut connected = match client.take().filter(|known| !known.client.is_closed()) {
            Some(connected) => connected,
            None => CountersClient::new(&self.endpoint, refused)?,
        };
        let mut answer = connected.ask();
        if answer.as_ref().is_err_and(is_refusal) {
            connected = CountersClient::new(&self.endpoint, refused)?;
            answer = connected.ask();
        }
        let connected = client.insert(connected);
        let views = answer.map_err(|error| connected.client.error("reading counters", &error))?;
        let version = figures::version(connected.version);
        let mut unmet = connected.unmet.clone();
        unmet.extend(self.scans.then_some(SINGLE_BLOCKS));
        unmet.extend((!counts_syncs(&views)).then_some(SYNCS_COUNTED));
        let (was_standby, is_standby) = state.note_standby(&views);
        state.note_checkpoint(&views);
        let mut raw = flatten(&views);
        let position = raw.remove(POSITION).filter(|_| was_standby == is_standby);
        state.resets.look(&raw, stamps(&views), group_of);
        raw.retain(|name, _| !state.resets.is_lost(group_of(name)));
        if !state.refused.contains_key("checkpoint") {
            raw.insert(CHECKPOINTS.to_owned(), state.checkpoints_ended);
        }
        // Of a standby that was promoted it would be all that the primary ever wrote.
        raw.extend(position.map(|bytes| (POSITION.to_owned(), bytes)));
        let (resets, restarted) = (state.resets.resets(), state.resets.restarted());
        let refused = state.refused.clone();
        drop(state);
        let look = Look {
            table: &TABLE,
            version,
            block_bytes: Some(block_bytes),
            raw: &raw,
            refused: &refused,
            unmet: &unmet,
        };
        let (io, reasons, counted) = (look.io(), look.reasons(), look.waits());
        let mut named: BTreeMap<String, u64> = look.counters().collect();
        let io = match was_standby {
            true => {
                let replayed = io.physical_write_blocks;
                let name = CommonCounter::ReplayedBlocks.name().to_owned();
                named.extend(replayed.map(|blocks| (name, blocks)));
                of_standby(io)
            }
            false => io,
        };
        raw.retain(|name, _| !FIGURES_ALONE.iter().any(|view| name.starts_with(view)));
        raw.remove("tables.vacuums");
        raw.extend(named);
        let endpoint = self.endpoint.name.clone();
        let resets = resets.into_iter().map(|why| format!("{endpoint}: {why}")).collect();
        let mut counters = Counters {
            endpoint,
            io,
            waits: counted,
            raw,
            resets,
            restarted,
            reasons,
            is_standby: was_standby,
            ..Counters::default()
        };
        waits.add_to(&mut counters, &self.endpoint.name);
        Ok(counters)
    }

    /// Asks on the connection for counters. Connects again if it was lost.
    pub fn ask<T>(&self, ask: impl FnOnce(&mut Client) -> Result<T>) -> Result<T> {
        let ReaderState { client, refused, .. } = &mut *self.state.lock();
        let connected = match client.take().filter(|known| !known.client.is_closed()) {
            Some(connected) => connected,
            None => CountersClient::new(&self.endpoint, refused)?,
        };
        ask(&mut client.insert(connected).client)
    }

    pub fn server(&self) -> &str {
        &self.endpoint.name
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
                "{} was a standby when the run began and was promoted during it: its data diverged \
                 from the primary's afterwards",
                self.endpoint.name
            )
        })
    }

    /// Ends sessions that report when they like, so that they do.
    pub fn settle(&self, processes: &[i32]) -> Result<()> {
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

impl ReaderState {
    /// Whether it was a standby when it was first asked, and is one now.
    fn note_standby(&mut self, views: &[(&str, Value)]) -> (bool, bool) {
        let is_standby = text(views, "server", "is_standby").is_some_and(|it| it == "true");
        let was_standby = self.standby.map_or(is_standby, |(was_standby, _)| was_standby);
        *self.standby.insert((was_standby, is_standby))
    }

    fn note_checkpoint(&mut self, views: &[(&str, Value)]) {
        let seen = text(views, "checkpoint", "lsn");
        if self.checkpoint.is_some() && self.checkpoint != seen {
            self.checkpoints_ended += 1;
        }
        self.checkpoint = seen;
    }
}

/// A column that is no counter, as text.
fn text(views: &[(&str, Value)], view: &str, column: &str) -> Option<String> {
    let (_, columns) = views.iter().find(|(name, _)| *name == view)?;
    match columns.get(column)? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// False if log files are opened so that writing is syncing, or fsync is off.
fn counts_syncs(views: &[(&str, Value)]) -> bool {
    let setting = |name| text(views, "server", name);
    let is_open = setting("sync_method").is_some_and(|method| method.starts_with("open"));
    !is_open && setting("fsync").is_none_or(|fsync| fsync == "on")
}

/// The kinds of I/O that the server does not count or time for this role's connections.
fn unmet(client: &mut Client) -> Result<Vec<FigureNeed>> {
    plan::apply_privileged(client)?;
    let sql = "SELECT coalesce(pg_catalog.current_setting('track_io_timing', true) = 'on', false), \
                      coalesce(pg_catalog.current_setting('track_wal_io_timing', true) = 'on', false), \
                      pg_catalog.current_setting('track_counts') = 'on'";
    let row = client.ask_row("asking which I/O it counts and times", sql, &[])?;
    let met = [(row.read(0)?, IO_TIMED), (row.read(1)?, LOG_TIMED), (row.read(2)?, COUNTED)];
    Ok(met.into_iter().filter(|(is_met, _): &(bool, _)| !is_met).map(|(_, need)| need).collect())
}

/// Returns the begin of each group's counters, as the views report it.
fn stamps(views: &[(&str, Value)]) -> BTreeMap<String, String> {
    let stamp = |(view, columns): &(&str, Value)| {
        let stamp = columns.get("stats_reset")?.as_str()?;
        Some((group_of(view).to_owned(), stamp.to_owned()))
    };
    views.iter().filter_map(stamp).collect()
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

/// `view.column`, numbers only that a counter can have; times, which the server gives in milliseconds,
/// in microseconds.
fn flatten(views: &[(&str, Value)]) -> BTreeMap<String, u64> {
    let mut raw = BTreeMap::new();
    for (view, columns) in views {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn views_are_kept_by_name_and_times_become_microseconds() {
        let views = [
            ("pg_stat_database", json!({"blks_read": 7, "blk_read_time": 1.5, "datname": "x"})),
            ("pg_stat_database", json!({"blks_hit": 8})),
            ("pg_stat_wal", Value::Null),
        ];
        let raw = flatten(&views);
        assert_eq!((raw["pg_stat_database.blks_read"], raw["pg_stat_database.blks_hit"]), (7, 8));
        assert_eq!(raw["pg_stat_database.blk_read_time_us"], 1500);
        assert_eq!(raw.len(), 3);
    }

    #[test]
    fn each_view_says_when_its_counters_began() {
        let views = [
            ("pg_stat_database", json!({"blks_read": 7, "stats_reset": null})),
            ("pg_stat_wal", json!({"wal_sync": 7, "stats_reset": "2026-11-25T10:00:00+00:00"})),
            ("server", json!({"stats_reset": "2026-11-01T10:00:00+00:00"})),
        ];
        let groups: Vec<String> = stamps(&views).into_keys().collect();
        assert_eq!(groups, ["pg_stat_wal", SERVER]);
        assert_eq!(group_of("cf1.heap_blks_read"), "pg_stat_database");
    }

    #[test]
    fn syncs_are_not_counted_if_writing_the_log_is_syncing_it() {
        let with = |method: &str, fsync: &str| {
            counts_syncs(&[("server", json!({"sync_method": method, "fsync": fsync}))])
        };
        assert!(with("fdatasync", "on") && counts_syncs(&[]));
        assert!(!with("open_datasync", "on") && !with("fdatasync", "off"));
    }
}
