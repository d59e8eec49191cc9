//! Wait events. Averages are time over waits; the report's own average is also
//! kept, and preferred if it has more digits.

use super::cluster;
use super::figure::{Figure, more_precise, number};
use super::number;
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::report::{WaitEvent, event};
use super::topic::Topic;

/// Rows kept of a top list; reports have 5 to 20, clusters more.
const TOP_MAX: usize = 100;

pub struct Events {
    pub top: Vec<WaitEvent>,
    pub foreground: Vec<WaitEvent>,
    pub background: Vec<WaitEvent>,
    /// Top events of single instances, if the report also lists the cluster's.
    pub of_instances: Vec<WaitEvent>,
}

/// Instance name that means the whole cluster.
const CLUSTER: &str = "*";

pub fn read(page: &ParsedReport, notes: &mut Vec<String>) -> Events {
    let lists = [
        Topic::TopEvents,
        Topic::TopForegroundEvents,
        Topic::TopBackgroundEvents,
        Topic::ForegroundEvents,
        Topic::AllEvents,
        Topic::BackgroundEvents,
    ];
    for table in lists.into_iter().flat_map(|topic| page.tables_of(topic)) {
        let shifted = columns(table).map_or(0, |columns| {
            table.rows.iter().filter(|row| is_shifted(*row, &columns)).count()
        });
        if shifted > 0 {
            notes.push(format!(
                "{}: {shifted} rows with a time and no waits are shifted, and not read",
                table.title
            ));
        }
    }
    // A report that includes other reports has more than one top list.
    let title = page.first(Topic::TopEvents).map(|table| &table.title);
    let top = page.tables_of(Topic::TopEvents).filter(|table| Some(&table.title) == title);
    let (mut top, of_instances) = of_cluster(top.flat_map(events).collect());
    let all = |topic| of_cluster(page.tables_of(topic).flat_map(events).collect()).0;
    let first = |topics: &[Topic]| {
        let lists = topics.iter().map(|topic| all(*topic));
        lists.into_iter().find(|events: &Vec<WaitEvent>| !events.is_empty()).unwrap_or_default()
    };
    if top.is_empty() {
        top = all(Topic::TopForegroundEvents);
    }
    top.truncate(TOP_MAX);
    let foreground =
        first(&[Topic::ForegroundEvents, Topic::TopForegroundEvents, Topic::AllEvents]);
    let background = first(&[Topic::BackgroundEvents, Topic::TopBackgroundEvents]);
    top.iter_mut().for_each(|event| with_whole_count(event, &foreground));
    Events { top, foreground, background, of_instances }
}

/// Splits events into the cluster's and its instances'. Without cluster rows, all events are in the
/// first list, each with its instance.
fn of_cluster(events: Vec<WaitEvent>) -> (Vec<WaitEvent>, Vec<WaitEvent>) {
    let is_cluster = |event: &WaitEvent| event.instance.as_deref() == Some(CLUSTER);
    if events.iter().any(is_cluster) {
        events.into_iter().partition(is_cluster)
    } else {
        (events, Vec::new())
    }
}

/// True if all events are of the same instance, so that equal names mean the same counter.
pub fn is_of_one_population(events: &[WaitEvent]) -> bool {
    events.windows(2).all(|two| two[0].instance == two[1].instance)
}

/// Positions and units of a table's columns.
struct EventColumns {
    name: usize,
    instance: Option<usize>,
    class: Option<usize>,
    waits: Option<usize>,
    time: Option<(usize, f64)>,
    average: Option<(usize, Option<f64>)>,
    share: Option<usize>,
    each: Option<usize>,
}

fn columns(table: &PageTable) -> Option<EventColumns> {
    // Narrow columns truncate their headings: some releases print only `Tota Time`.
    let time = table.column_where(|key| {
        let is_other = is_share(key) || key.contains("avg") || key.contains("out");
        !is_other && (key == "totals" || key.contains("time"))
    });
    let key = |at: usize| table.columns.get(at).map_or("", |column| column.key.as_str());
    let time = time.map(|at| {
        let seconds = match key(at) {
            key if key.ends_with("cs") => 0.01,
            key if key.ends_with("ms") => 0.001,
            _ => 1.0,
        };
        (at, seconds)
    });
    let average = table.columns.iter().position(|column| {
        let is_summary = column.group.to_lowercase().contains("summary");
        !is_summary
            && column.key != "avg"
            && column.key.contains("avg")
            && !column.key.contains('%')
    });
    let average = average.map(|at| {
        let unit_us = match key(at) {
            key if key.ends_with("ms") => Some(1e3),
            key if key.ends_with("us") => Some(1.0),
            key if key.ends_with("cs") => Some(1e4),
            _ => None,
        };
        (at, unit_us)
    });
    Some(EventColumns {
        name: table.column_where(|key| key.starts_with("event"))?,
        instance: table.column(&["i"]),
        class: table.column(&["waitclass", "class"]),
        waits: table.column(&["waits", "totalwaits"]),
        time,
        average,
        share: table
            .column_where(|key| is_share(key) && key.contains("time") && !key.contains("out")),
        each: table.column(&["waitstxn"]),
    })
}

fn is_share(key: &str) -> bool {
    key.starts_with('%') || key.starts_with("percent")
}

fn events(table: &PageTable) -> Vec<WaitEvent> {
    let Some(columns) = columns(table) else { return Vec::new() };
    let mut named: Option<TableRow<'_>> = None;
    let mut events = Vec::new();
    for row in table.rows.iter() {
        let instance = columns.instance.map(|at| cell(row, Some(at)));
        // Rows of single instances follow the cluster's row and do not repeat its name.
        let is_below =
            cell(row, Some(columns.name)).is_empty() && instance.is_some_and(cluster::is_instance);
        if !is_below {
            named = Some(row);
        }
        if is_shifted(row, &columns) {
            continue;
        }
        if let Some(mut event) = of_row(row, named.unwrap_or(row), table, &columns) {
            event.instance = instance.filter(|it| !it.is_empty()).map(str::to_owned);
            events.push(event);
        }
    }
    events
}

/// True for a row whose cells are not under their headings: only processor time has no waits.
fn is_shifted(row: TableRow<'_>, columns: &EventColumns) -> bool {
    let is_number = |at| number::count(cell(row, Some(at))).is_some();
    let is_cpu = cell(row, Some(columns.name)).to_ascii_lowercase().contains("cpu");
    let lacks_waits = columns.waits.is_some_and(|at| cell(row, Some(at)).is_empty());
    lacks_waits && !is_cpu && columns.time.is_some_and(|(at, _)| is_number(at))
}

/// Reads the event of a row; `named` is the row with its name and class.
fn of_row(
    row: TableRow<'_>,
    named: TableRow<'_>,
    table: &PageTable,
    columns: &EventColumns,
) -> Option<WaitEvent> {
    let section = &table.title;
    let name = cell(named, Some(columns.name));
    let count = |at| Figure::read(cell(row, at), section, number::count);
    let time_s = columns.time.and_then(|(at, unit)| {
        let figure = count(Some(at))?;
        if unit == 1.0 { Some(figure) } else { figure.scaled(unit) }
    });
    let mut event = WaitEvent {
        name: name.to_owned(),
        is_cut: table.may_be_cut(columns.name, name),
        wait_class: Figure::text(cell(named, columns.class), section),
        waits: count(columns.waits),
        time_s,
        reported_avg_us: columns.average.and_then(|(at, unit)| {
            let parse = |text: &str| number::duration_us(text, unit);
            Figure::read(cell(row, Some(at)), section, parse)
        }),
        pct_db_time: columns.share.and_then(|at| count(Some(at))),
        waits_per_transaction: columns.each.and_then(|at| count(Some(at))),
        ..WaitEvent::default()
    };
    let is_event = !name.is_empty() && (event.waits.is_some() || event.time_s.is_some());
    average(&mut event);
    is_event.then_some(event)
}

/// Sets the averages: time over waits, and the more precise of that and the report's own.
pub fn average(event: &mut WaitEvent) {
    event.avg_us = match (&event.time_s, &event.waits) {
        (Some(time), Some(waits)) if waits.number() > Some(0.0) => time_over(time, waits),
        _ => None,
    };
    let best = more_precise(event.avg_us.clone(), event.reported_avg_us.clone());
    // A printed 0 means only that it was too short to be shown.
    event.latency_us = best.filter(|figure| figure.number() > Some(0.0));
}

fn time_over(time: &Figure, waits: &Figure) -> Option<Figure> {
    let (time_us, count) = (time.number()? * 1e6, waits.number()?);
    let average = time_us / count;
    let step = if time_us > 0.0 {
        2.0 * average * (time.uncertainty() + waits.uncertainty())
    } else {
        time.step * 1e6 / count
    };
    Figure::computed(average, step, format!("{}: time over waits", time.section))
}

/// Replaces a rounded count of the top list with the whole one from the longer list, if it is the
/// same.
fn with_whole_count(top: &mut WaitEvent, events: &[WaitEvent]) {
    let Some(waits) = &top.waits else { return };
    let whole = event(events, &top.name).and_then(|event| event.waits.clone());
    let is_same = |whole: &Figure| {
        let apart = whole.number().zip(waits.number()).map(|(one, two)| (one - two).abs());
        whole.step < waits.step && apart.is_some_and(|apart| apart < waits.step)
    };
    if let Some(whole) = whole.filter(is_same) {
        top.waits = Some(whole);
        average(top);
    }
}

/// Returns the mean of an event in microseconds, from the list that shows it with the most digits.
pub fn latency(lists: &[&[WaitEvent]], name: &str) -> Option<Figure> {
    let of = |list: &&[WaitEvent]| event(list, name).and_then(|event| event.latency_us.clone());
    lists.iter().filter_map(of).fold(None, |best, next| more_precise(best, Some(next)))
}

/// Sums the seconds waited for the events whose names start with `beginning`.
pub fn seconds_of(events: &[WaitEvent], beginning: &str) -> Option<f64> {
    let fitting = events.iter().filter(|event| event.name.starts_with(beginning));
    let seconds: Vec<f64> = fitting.filter_map(|event| number(&event.time_s)).collect();
    (!seconds.is_empty()).then(|| seconds.iter().sum())
}
