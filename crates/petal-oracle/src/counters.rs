//! Counters of the instances: their V$ views as they are, and the figures common to every engine. A
//! value that the user may not see, or that a version lacks, is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::database::Database;
use super::figures::{self, CountedColumns};
use super::link::{Connector, Destination, LinkErrorKind, Row};
use super::meta::{cell, count, number};
use super::sql;
use petal_engine::Result;
use petal_record::counters::{CommonCounter, Counters, IoCounts, Wait, WaitClass};

/// Names of the waits that every engine has.
pub const READ_EVENT: &str = "db file sequential read";
/// Event of a block read that an Exadata cell answers. Newer releases append the location of the
/// block after a colon: flash cache, RDMA, xrmem cache.
pub const CELL_READ_EVENT: &str = "cell single block physical read";
pub const WRITE_EVENT: &str = "db file parallel write";
pub const LOG_EVENT: &str = "log file parallel write";

const NS_PER_US: u64 = 1000;

type AddRow = fn(&mut Instance, &Row);

/// Views, each with the function that reads its rows.
const VIEWS: [(&str, AddRow); 6] = [
    ("events", Instance::add_wait),
    ("time_model", Instance::add_time),
    ("histograms", Instance::add_bucket),
    ("functions", Instance::add_function),
    ("os", Instance::add_os),
    ("log_switches", Instance::add_log_switches),
];
/// Views that are read every second.
const CHEAP: [&str; 3] = ["events", "time_model", "log_switches"];

/// Reader of the instances' counters, on a separate connection.
pub struct CounterReader {
    connector: Arc<dyn Connector>,
    place: String,
    connection: Mutex<Option<CountersConnection>>,
    views: Mutex<SeenViews>,
}

/// Each view that was asked for, with the reason if it could not be read the first time. A later failure
/// is a gap.
type SeenViews = BTreeMap<&'static str, Option<String>>;

/// Connection for statistics.
struct CountersConnection {
    database: Database,
    /// Set in a pluggable database, whose views may miss the work of background processes.
    is_pluggable: bool,
}

impl CounterReader {
    pub fn new(connector: &Arc<dyn Connector>, place: &str) -> Self {
        let (connector, place) = (Arc::clone(connector), place.to_owned());
        Self { connector, place, connection: Mutex::default(), views: Mutex::default() }
    }

    /// Reads a set of counters for each instance, with its number. With `in_full`, it includes
    /// views that are too expensive for every second. Reconnects if the connection was lost.
    pub fn read(&self, in_full: bool) -> Result<Vec<(u64, Counters)>> {
        let mut held = self.connection.lock();
        let mut connection = match held.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let mut counters = read(&mut connection, in_full, &mut self.views.lock())?;
        if connection.is_pluggable {
            counters.iter_mut().for_each(|(_, counters)| mark_background(counters));
        }
        *held = Some(connection);
        Ok(counters)
    }

    fn connect(&self) -> Result<CountersConnection> {
        let link = self.connector.connect(Destination::Admin, "petal counters");
        let mut database = Database::connected(link, &self.place, "connecting for statistics")?;
        let container = database.look("asking for its container", "container")?;
        let is_pluggable = container.first().is_some_and(is_pluggable);
        Ok(CountersConnection { database, is_pluggable })
    }

    /// Closes the connection, for example before a long load.
    pub fn disconnect(&self) {
        *self.connection.lock() = None;
        self.views.lock().clear();
    }
}

/// Prefix for the counters of a pluggable database itself.
pub const CONTAINER: &str = "container: ";

/// True if a row of `container` is from a pluggable database.
pub fn is_pluggable(container: &Row) -> bool {
    number(container, 1) > 1
}

/// Marks the counters of background processes. These write for a pluggable database in the root,
/// which counts the writes; the container's part would look like a small total. The container's counts
/// are kept under names with a prefix.
fn mark_background(counters: &mut Counters) {
    const BACKGROUND: [&str; 11] = [
        "physical write",
        "DBWR ",
        "background checkpoints ",
        "redo writes",
        "redo blocks written",
        "redo wastage",
        "redo write time",
        "histogram.db file parallel write",
        "histogram.log file parallel write",
        "iostat.DBWR",
        "iostat.LGWR",
    ];
    counters.waits.retain(|wait| wait.class != WaitClass::SystemIo);
    let is_background = |name: &str| BACKGROUND.iter().any(|begin| name.starts_with(begin));
    let checkpoints = CommonCounter::Checkpoints.name();
    let is_marked = |name: &str| is_background(name) || name == checkpoints;
    let names: Vec<_> = counters.raw.keys().filter(|name| is_marked(name)).cloned().collect();
    for name in names {
        if let Some(count) = counters.raw.remove(&name) {
            counters.raw.insert(format!("{CONTAINER}{name}"), count);
        }
    }
    let unknown: Vec<_> =
        counters.unknown.iter().map(|name| format!("{CONTAINER}{name}")).collect();
    counters.unknown.extend(unknown);
}

/// Returns the rows of one view, or `None` if it could not be read the first time: this user or
/// version has none, or not all instances of a cluster answered.
fn view(
    database: &mut Database,
    file: &str,
    section: &'static str,
    seen: &mut SeenViews,
) -> Result<Option<Vec<Row>>> {
    if seen.get(section).is_some_and(Option::is_some) {
        return Ok(None);
    }
    match database.link.query(&sql::section(file, section), &[]) {
        Ok(rows) => {
            seen.insert(section, None);
            Ok(Some(rows))
        }
        Err(error) if error.kind == LinkErrorKind::Database && !seen.contains_key(section) => {
            seen.insert(section, Some(error.to_string()));
            Ok(None)
        }
        Err(error) => Err(database.error("reading statistics", &error)),
    }
}

/// Returns the reason of each view that could not be read.
fn refused(seen: &SeenViews) -> BTreeMap<String, String> {
    let refused = seen.iter().filter_map(|(section, why)| Some((*section, why.clone()?)));
    refused.map(|(section, why)| (figures::view_of(section).to_owned(), why)).collect()
}

fn read(
    connection: &mut CountersConnection,
    in_full: bool,
    seen: &mut SeenViews,
) -> Result<Vec<(u64, Counters)>> {
    let CountersConnection { database, is_pluggable } = connection;
    let Some(statistics) = view(database, sql::COUNTERS, "statistics", seen)? else {
        // Nothing is visible: the run has only petal's own figures.
        let counters =
            Instance::default().counters(database.place.clone(), &refused(seen), *is_pluggable);
        return Ok(vec![(0, Counters { unknown: [String::new()].into(), ..counters })]);
    };
    // Two readings are matched by the instance's name, so a failed reading must not change it.
    let names = view(database, sql::LOOK, "instances", seen)?.unwrap_or_default();
    let names: BTreeMap<u64, String> = names
        .iter()
        .filter_map(|row| Some((count(row, 0)?, format!("{}@{}", cell(row, 1), cell(row, 2)))))
        .collect();
    let mut instances: BTreeMap<u64, Instance> = BTreeMap::new();
    // A row that names no instance may be of any.
    let mut all_are_known = true;
    let mut add_all = |rows: Vec<Row>, add: AddRow| {
        for row in rows {
            match count(&row, 0) {
                Some(id) => add(instances.entry(id).or_default(), &row),
                None => all_are_known = false,
            }
        }
    };
    add_all(statistics, Instance::add_statistic);
    for (name, add) in VIEWS.into_iter().filter(|(name, _)| in_full || CHEAP.contains(name)) {
        add_all(view(database, sql::COUNTERS, name, seen)?.unwrap_or_default(), add);
    }
    if !all_are_known {
        instances.values_mut().for_each(|instance| instance.lose(""));
    }
    let named = |id: u64| names.get(&id).cloned().unwrap_or_else(|| format!("instance {id}"));
    let refused = refused(seen);
    let counters = |(id, instance): (u64, Instance)| {
        (id, instance.counters(named(id), &refused, *is_pluggable))
    };
    Ok(instances.into_iter().map(counters).collect())
}

#[derive(Default)]
struct Instance {
    raw: BTreeMap<String, u64>,
    waits: Vec<Wait>,
    /// Same as in [`Counters`].
    unknown: BTreeSet<String>,
    /// Names of waits with a bucket that is unknown; an empty one means all.
    without_buckets: BTreeSet<String>,
}

impl Instance {
    /// Keeps a raw counter if the column holds one.
    fn keep(&mut self, name: String, row: &Row, at: usize) {
        match count(row, at).filter(|_| !cell(row, 1).is_empty()) {
            Some(count) => {
                self.raw.insert(name, count);
            }
            None => self.lose(name),
        }
    }

    fn lose(&mut self, name: impl Into<String>) {
        self.unknown.insert(name.into());
    }

    /// Reads V$SYSSTAT.
    fn add_statistic(&mut self, row: &Row) {
        self.keep(cell(row, 1).to_owned(), row, 2);
    }

    /// Reads V$SYSTEM_EVENT, in microseconds. The waits of sessions exclude those of background
    /// processes, whose I/O is counted in full. Events that never occurred are left out.
    fn add_wait(&mut self, row: &Row) {
        let class = wait_class(cell(row, 2));
        let (waits_at, time_at) = if class == WaitClass::SystemIo { (3, 4) } else { (5, 6) };
        let event = cell(row, 1);
        // The class decides which columns count.
        let counted = count(row, waits_at).zip(count(row, time_at));
        let counted = counted.filter(|_| !event.is_empty() && !cell(row, 2).is_empty());
        let Some((waits, micros)) = counted else {
            self.lose(format!("event.{event}."));
            return self.lose(wait_name(event));
        };
        if waits == 0 {
            return;
        }
        let time_ns = micros.saturating_mul(NS_PER_US);
        if !is_cell_read(event) {
            self.waits.push(Wait::counted(event, class, Some(waits), time_ns));
            return;
        }
        // One event for all locations of the block; each location is also kept in the raw counters.
        self.raw.insert(format!("event.{event}.waits"), waits);
        self.raw.insert(format!("event.{event}.time_us"), time_ns / NS_PER_US);
        match self.waits.iter_mut().find(|wait| wait.name == CELL_READ_EVENT) {
            Some(wait) => {
                wait.waits = wait.waits.map(|others| others + waits);
                wait.time_ns = wait.time_ns.saturating_add(time_ns);
            }
            None => {
                self.waits.push(Wait::counted(CELL_READ_EVENT, class, Some(waits), time_ns));
            }
        }
    }

    /// Reads V$SYS_TIME_MODEL, in microseconds. CPU time is listed with the waits, as in reports.
    fn add_time(&mut self, row: &Row) {
        const CPU: &str = "DB CPU";
        let name = cell(row, 1);
        let Some(micros) = count(row, 2).filter(|_| !name.is_empty()) else {
            if ["", CPU].contains(&name) {
                self.lose(CPU);
            }
            return self.lose(format!("time_model.{name}"));
        };
        self.raw.insert(format!("time_model.{name}"), micros);
        if name == CPU {
            let time_ns = micros.saturating_mul(NS_PER_US);
            self.waits.push(Wait::counted(name, WaitClass::Cpu, None, time_ns));
        }
    }

    /// Reads V$EVENT_HISTOGRAM_MICRO: waits of all processes.
    fn add_bucket(&mut self, row: &Row) {
        let event = cell(row, 1);
        let counted = count(row, 2).zip(count(row, 3)).filter(|_| !event.is_empty());
        let Some((upper_us, count)) = counted else {
            match event {
                "" => self.lose("histogram."),
                _ => self.lose(format!("histogram.{event}.")),
            }
            self.without_buckets.insert(wait_name(event).to_owned());
            return;
        };
        self.raw.insert(format!("histogram.{event}.{upper_us}us"), count);
        let event = wait_name(event);
        if let Some(wait) = self.waits.iter_mut().find(|wait| wait.name == event) {
            let waits = wait.buckets.entry(upper_us).or_default();
            *waits = waits.saturating_add(count);
        }
    }

    fn add_os(&mut self, row: &Row) {
        self.keep(format!("osstat.{}", cell(row, 1)), row, 2);
    }

    /// Reads V$LOG: the sequence number of the instance's current log, which grows by one with each
    /// switch.
    fn add_log_switches(&mut self, row: &Row) {
        self.keep(CommonCounter::LogSwitches.name().to_owned(), row, 1);
    }

    /// Reads V$IOSTAT_FUNCTION: requests and whole megabytes, by the function that did the I/O.
    fn add_function(&mut self, row: &Row) {
        const COLUMNS: [&str; 8] = [
            "small_read_reqs",
            "small_read_megabytes",
            "large_read_reqs",
            "large_read_megabytes",
            "small_write_reqs",
            "small_write_megabytes",
            "large_write_reqs",
            "large_write_megabytes",
        ];
        if cell(row, 1).is_empty() {
            return self.lose("iostat.");
        }
        for (column, at) in COLUMNS.into_iter().zip(2..) {
            self.keep(format!("iostat.{}.{column}", cell(row, 1)), row, at);
        }
    }

    /// Makes the figures by the table.
    fn counters(
        mut self,
        endpoint: String,
        refused: &BTreeMap<String, String>,
        is_pluggable: bool,
    ) -> Counters {
        for wait in &mut self.waits {
            if ["", &wait.name].iter().any(|name| self.without_buckets.contains(*name)) {
                wait.buckets.clear();
            }
        }
        let mut columns = CountedColumns::default();
        self.raw.iter().for_each(|(name, count)| columns.statistic(name, *count));
        if let Some(sequence) = self.raw.get(CommonCounter::LogSwitches.name()) {
            columns.log_sequence(*sequence);
        }
        for wait in &self.waits {
            columns.event(&wait.name, wait.waits.unwrap_or(0), wait.time_ns / NS_PER_US);
        }
        let (io, common, reasons) = columns.look(refused, is_pluggable, |look| {
            (look.io(), look.counters().collect::<Vec<_>>(), look.reasons())
        });
        let Self { mut raw, waits, unknown, .. } = self;
        raw.extend(common);
        let counters =
            Counters { endpoint, io, waits, raw, unknown, reasons, ..Counters::default() };
        Counters { omits_zeros: true, ..counters }
    }
}

/// True for the read of a single block that a storage cell answered.
fn is_cell_read(event: &str) -> bool {
    let place = event.strip_prefix(CELL_READ_EVENT);
    place.is_some_and(|place| place.is_empty() || place.starts_with(':'))
}

/// Returns the name under which an event is listed with the waits.
fn wait_name(event: &str) -> &str {
    if is_cell_read(event) { CELL_READ_EVENT } else { event }
}

fn wait_class(name: &str) -> WaitClass {
    match name {
        "User I/O" => WaitClass::UserIo,
        "System I/O" => WaitClass::SystemIo,
        "Commit" => WaitClass::Commit,
        "Application" => WaitClass::Application,
        "Concurrency" => WaitClass::Concurrency,
        "Configuration" => WaitClass::Configuration,
        "Network" => WaitClass::Network,
        "Scheduler" => WaitClass::Scheduler,
        "Cluster" => WaitClass::Cluster,
        "Idle" => WaitClass::Idle,
        // Administrative, Queueing, Other.
        _ => WaitClass::Other,
    }
}

/// Instances of each endpoint's sessions; `None` is an unknown instance.
pub type ServedInstances = BTreeMap<usize, BTreeSet<Option<u64>>>;

/// Instances that have sessions of a run: only their work is counted.
#[derive(Default)]
pub struct Served {
    now: ServedInstances,
    /// Instances in the opening snapshot. A sum over other instances has no difference with it.
    counted: Option<ServedInstances>,
}

impl Served {
    pub fn add(&mut self, endpoint: usize, instance: Option<u64>) {
        self.now.entry(endpoint).or_default().insert(instance);
    }

    /// The counters of a run begin.
    pub fn begin_counting(&mut self) {
        self.counted = Some(self.now.clone());
    }

    /// Returns the counters of the instances that have sessions. They are unknown if a session was
    /// connected again at another instance.
    pub fn counters(&self, counters: Vec<(u64, Counters)>) -> Vec<Counters> {
        let counted = self.counted.as_ref().unwrap_or(&self.now);
        let all: BTreeSet<&Option<u64>> = counted.values().flatten().collect();
        let moved = self.now.values().flatten().find(|instance| !all.contains(instance));
        let moved = moved.filter(|_| !all.is_empty());
        let mut counters = by_endpoint(counters, counted);
        if let Some(instance) = moved {
            let instance = instance.map_or("-".to_owned(), |number| number.to_string());
            for of_instance in &mut counters {
                of_instance.io = IoCounts::default();
                of_instance.waits.clear();
                of_instance.raw.clear();
                of_instance.unknown.insert(String::new());
                of_instance.resets.push(format!(
                    "a session moved to instance {instance}, which the figures of the others lack"
                ));
            }
        }
        counters
    }
}

/// Sorts counters in the order of the run's endpoints if each endpoint's sessions have a separate
/// instance. Otherwise it returns one sum, because sessions cannot be distinguished. Instances
/// without sessions are left out, unless a session's instance is unknown.
fn by_endpoint(counters: Vec<(u64, Counters)>, served: &ServedInstances) -> Vec<Counters> {
    let mut counters = counters;
    let instances: BTreeSet<Option<u64>> = served.values().flatten().copied().collect();
    let is_counted = |id: &u64| counters.iter().any(|(counted, _)| counted == id);
    let are_known = instances.iter().all(|it| it.as_ref().is_some_and(is_counted));
    if are_known && !instances.is_empty() {
        counters.retain(|(id, _)| instances.contains(&Some(*id)));
    }
    if counters.len() > 1 {
        let Some(endpoint_of) = endpoints_by_instance(&counters, served) else {
            return vec![in_one(counters)];
        };
        // The sort is stable: instances without an endpoint keep their order.
        counters.sort_by_key(|(id, _)| endpoint_of.get(id).copied().unwrap_or(usize::MAX));
    }
    counters.into_iter().map(|(_, counters)| counters).collect()
}

/// Returns the endpoint of each instance, or `None` unless each endpoint has its own counted
/// instance.
fn endpoints_by_instance(
    counters: &[(u64, Counters)],
    served: &ServedInstances,
) -> Option<BTreeMap<u64, usize>> {
    let only = |instances: &BTreeSet<Option<u64>>| {
        let first = instances.first().copied().flatten()?;
        let is_counted = counters.iter().any(|(id, _)| *id == first);
        (instances.len() == 1 && is_counted).then_some(first)
    };
    let pairs = served.iter().map(|(&endpoint, instances)| Some((only(instances)?, endpoint)));
    let by_instance: BTreeMap<u64, usize> = pairs.collect::<Option<_>>()?;
    (by_instance.len() == served.len()).then_some(by_instance)
}

fn in_one(counters: Vec<(u64, Counters)>) -> Counters {
    let names: Vec<&str> = counters.iter().map(|(_, it)| it.endpoint.as_str()).collect();
    let endpoint = names.join(", ");
    let all = counters.into_iter().map(|(_, counters)| counters);
    let sum = all.reduce(|mut sum, other| {
        sum.add(&other);
        sum
    });
    Counters { endpoint, ..sum.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Counters {
        let io = IoCounts { commits: Some(3), ..IoCounts::default() };
        Counters { endpoint: name.to_owned(), io, ..Counters::default() }
    }

    fn names(counters: &[Counters]) -> Vec<&str> {
        counters.iter().map(|counters| counters.endpoint.as_str()).collect()
    }

    #[test]
    fn instances_are_in_the_order_of_endpoints() {
        let three = || vec![(1, named("a")), (2, named("b")), (3, named("c"))];
        let on = |endpoints: &[&[u64]]| -> Vec<Counters> {
            let instances = endpoints.iter().map(|on| on.iter().copied().map(Some).collect());
            by_endpoint(three(), &instances.enumerate().collect())
        };
        assert_eq!(names(&on(&[&[3], &[1]])), ["c", "a"]);
        assert_eq!(names(&on(&[&[2]])), ["b"]);
        assert_eq!(names(&on(&[])), ["a", "b", "c"]);
    }

    #[test]
    fn instances_without_separate_endpoints_are_summed() {
        let three = || vec![(1, named("a")), (2, named("b")), (3, named("c"))];
        let all: [(&[Option<u64>], &str); 5] = [
            // Two endpoints on one instance, one endpoint on two, an unknown instance, and one that
            // is not counted.
            (&[Some(1)], "a"),
            (&[Some(1), Some(3)], "a, c"),
            (&[Some(2), Some(3)], "a, b, c"),
            (&[None], "a, b, c"),
            (&[Some(9)], "a, b, c"),
        ];
        for (second, named) in all {
            let served = [[Some(1)].into(), second.iter().copied().collect()];
            let shared = by_endpoint(three(), &served.into_iter().enumerate().collect());
            assert_eq!(names(&shared), [named], "{second:?}");
            let commits = 3 * named.split(", ").count() as u64;
            assert_eq!(shared[0].io.commits, Some(commits));
        }
    }

    #[test]
    fn figures_are_unknown_after_a_session_moved_to_another_instance() {
        let three = || vec![(1, named("a")), (2, named("b")), (3, named("c"))];
        let mut served = Served::default();
        served.add(0, Some(2));
        served.begin_counting();
        assert_eq!(served.counters(three())[0].io.commits, Some(3));
        served.add(0, Some(2));
        assert_eq!(served.counters(three())[0].io.commits, Some(3));
        served.add(0, Some(3));
        let moved = served.counters(three());
        assert_eq!((names(&moved), moved[0].io.commits), (vec!["b"], None));
        assert!(moved[0].resets[0].contains("instance 3"));
    }

    #[test]
    fn one_instance_stays_separate_for_any_endpoints() {
        let served = [(0, [None].into()), (1, [Some(1)].into())].into();
        assert_eq!(names(&by_endpoint(vec![(1, named("a"))], &served)), ["a"]);
    }

    #[test]
    fn reads_of_storage_cells_are_one_event_whichever_place_held_the_block() {
        let mut instance = Instance::default();
        for (event, waits) in [
            ("cell single block physical read", "2"),
            ("cell single block physical read: flash cache", "30"),
            ("cell single block physical read: RDMA", "400"),
            ("cell multiblock physical read", "5000"),
            (READ_EVENT, "60000"),
        ] {
            let cells = ["1", event, "User I/O", waits, waits, waits, waits];
            instance.add_wait(&cells.iter().map(|cell| Some((*cell).to_owned())).collect());
        }
        let counters = instance.counters("i".to_owned(), &BTreeMap::new(), false);
        assert_eq!(counters.count_and_time(CELL_READ_EVENT), Some((432, 432_000)));
        assert_eq!(counters.count_and_time(READ_EVENT), Some((60000, 60_000_000)));
        assert_eq!(counters.waits.len(), 3);
        assert_eq!(counters.raw["event.cell single block physical read: RDMA.waits"], 400);
    }

    #[test]
    fn background_waits_count_only_for_background_io() {
        let row = |event: &str, class: &str| -> Row {
            let cells = ["1", event, class, "10", "5000", "4", "1000"];
            cells.iter().map(|cell| Some((*cell).to_owned())).collect()
        };
        let mut instance = Instance::default();
        instance.add_wait(&row(READ_EVENT, "User I/O"));
        instance.add_wait(&row(LOG_EVENT, "System I/O"));
        instance.add_wait(&row("gc cr request", "Cluster"));
        instance.add_wait(&row("resmgr: I/O rate limit", "Scheduler"));
        instance.add_wait(&row("enq: SV - contention", "Queueing"));
        let [read, log, rest @ ..] = &instance.waits[..] else { panic!("{:?}", instance.waits) };
        assert_eq!((read.waits, read.time_ns), (Some(4), 1_000_000));
        assert_eq!((log.waits, log.time_ns), (Some(10), 5_000_000));
        let classes: Vec<_> = rest.iter().map(|wait| wait.class).collect();
        assert_eq!(classes, [WaitClass::Cluster, WaitClass::Scheduler, WaitClass::Other]);
    }
}
