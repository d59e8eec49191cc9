//! Wait events and their histograms. Averages are time over waits; the report's own average is also
//! kept, and preferred if it has more digits.

use super::cluster;
use super::figure::{Figure, more_precise, number};
use super::number;
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::report::{Bucket, Histogram, WaitEvent, event};
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

pub fn read(page: &ParsedReport) -> Events {
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
        if let Some(mut event) = of_row(row, named.unwrap_or(row), table, &columns) {
            event.instance = instance.filter(|it| !it.is_empty()).map(str::to_owned);
            events.push(event);
        }
    }
    events
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
        ..WaitEvent::default()
    };
    let is_event = !name.is_empty() && (event.waits.is_some() || event.time_s.is_some());
    average(&mut event);
    is_event.then_some(event)
}

/// Sets the averages: time over waits, and the more precise of that and the report's own.
fn average(event: &mut WaitEvent) {
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

/// Replaces a rounded count of the top list with the whole one from the longer list.
fn with_whole_count(top: &mut WaitEvent, events: &[WaitEvent]) {
    let Some(waits) = &top.waits else { return };
    let whole = event(events, &top.name).and_then(|event| event.waits.clone());
    if let Some(whole) = whole.filter(|whole| whole.step < waits.step) {
        top.waits = Some(whole);
        average(top);
    }
}

pub fn histograms(page: &ParsedReport) -> Vec<Histogram> {
    page.tables_of(Topic::Histogram).flat_map(of_table).collect()
}

fn of_table(table: &PageTable) -> Vec<Histogram> {
    let Some(name) = table.column(&["event"]) else { return Vec::new() };
    let waits = table.column_where(|key| key.starts_with("totalwaits") || key.starts_with("waits"));
    let ranges: Vec<(usize, &str, Option<f64>)> = table
        .columns
        .iter()
        .enumerate()
        .filter_map(|(at, column)| Some((at, column.name.as_str(), below_us(&column.name)?)))
        .map(|(at, name, below)| (at, name, Some(below).filter(|below| below.is_finite())))
        .collect();
    let is_counted = ranges.iter().any(|(_, name, _)| name.contains(" - "));
    let share = |text: &str| number::count(text.split('(').next().unwrap_or(text));
    let of_row = |row: TableRow<'_>| Histogram {
        name: cell(row, Some(name)).to_owned(),
        section: table.title.to_string(),
        waits: Figure::read(cell(row, waits), &table.title, number::count),
        unit: if is_counted { "waits" } else { "percent" },
        buckets: ranges
            .iter()
            .filter_map(|&(at, range, below_us)| {
                let share = Figure::read(cell(row, Some(at)), &table.title, share)?;
                Some(Bucket { range: range.to_owned(), below_us, share: Some(share) })
            })
            .collect(),
    };
    let histograms = table.rows.iter().map(of_row);
    histograms
        .filter(|histogram| !histogram.name.is_empty() && !histogram.buckets.is_empty())
        .collect()
}

/// Returns the upper bound in a heading such as `<8ms`, `<=1s`, `<1/8s`, `4 - 8 ms` or `32+ ms`. It
/// is infinite for the open range and `None` for any other heading. A second is 1024 ms, as in the
/// reports.
fn below_us(heading: &str) -> Option<f64> {
    let text: String = heading.chars().filter(|c| !c.is_whitespace()).collect();
    if text.starts_with('>') || text.ends_with("+ms") {
        return Some(f64::INFINITY);
    }
    let bound = match text.strip_prefix('<') {
        Some(rest) => rest.trim_start_matches('='),
        None if text.ends_with("ms") => text.split_once('-')?.1,
        None => return None,
    };
    let digits = bound.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &bound[digits.len()..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1.024e6,
        "m" => 60.0 * 1.024e6,
        "h" => 3600.0 * 1.024e6,
        _ => return None,
    };
    let value = match digits.split_once('/') {
        Some((over, under)) => number::count(over)?.number() / number::count(under)?.number(),
        None => number::count(digits)?.number(),
    };
    Some(value * unit).filter(|bound| bound.is_finite())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_histograms() {
        let bounds = ["<1ms", "<=1s", "<1/8s", "4 - 8 ms", "<512us"].map(below_us);
        assert_eq!(bounds, [1e3, 1.024e6, 128e3, 8e3, 512.0].map(Some));
        assert_eq!(below_us("32+ ms"), Some(f64::INFINITY));
        assert_eq!(below_us(">=2s"), Some(f64::INFINITY));
        assert_eq!(["Event", "Total Waits", "<", "<xms", "<1/0s"].map(below_us), [None; 5]);
    }
}
