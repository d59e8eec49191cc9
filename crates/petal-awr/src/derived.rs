//! Figures computed from a [`Report`] for its columns.

use std::sync::Arc;

use super::events;
use super::figure::{Figure, more_precise, number};
use super::idle;
use super::load::{MIB, per_second};
use super::number::Scalar;
use super::report::{LoadLine, Report, ReportKind, WaitEvent, event};
use super::times;
use time::PrimitiveDateTime;

/// Single-block read events, including the names used if the storage itself answers.
pub const SINGLE_BLOCK_READS: [&str; 5] = [
    "db file sequential read",
    "cell single block physical read",
    "cell single block physical read: flash cache",
    "cell single block physical read: RDMA",
    "cell single block physical read: xrmem cache",
];

pub fn second(load: &LoadLine) -> Option<Figure> {
    load.per_second.clone()
}

pub fn total(report: &Report, name: &str) -> Option<Figure> {
    report.statistics.get(name)?.total
}

/// Returns a rate per second: as printed or the raw total over the time, whichever has more digits.
/// Returns `None` if the instance restarted in between.
pub fn rate(report: &Report, name: &str) -> Option<Figure> {
    let statistic = report.statistics.get(name)?;
    let computed = || {
        let total = statistic.total.as_ref().filter(|_| !report.spans_restart)?;
        per_second(total, report.header.elapsed_min.as_ref()?, name)
    };
    more_precise(statistic.per_second.clone(), computed())
}

/// Returns a rate from the statistics; without them, the load profile's rate, scaled to its unit.
fn rate_or(report: &Report, name: &str, load: &LoadLine, scale: f64) -> Option<Figure> {
    rate(report, name).or_else(|| match scale {
        1.0 => second(load),
        _ => second(load)?.scaled(scale),
    })
}

pub fn read_requests(report: &Report) -> Option<Figure> {
    rate_or(report, "physical read IO requests", &report.load_profile.read_requests, 1.0)
}

pub fn write_requests(report: &Report) -> Option<Figure> {
    rate_or(report, "physical write IO requests", &report.load_profile.write_requests, 1.0)
}

pub fn read_bytes(report: &Report) -> Option<Figure> {
    rate_or(report, "physical read bytes", &report.load_profile.read_mb, MIB)
}

pub fn write_bytes(report: &Report) -> Option<Figure> {
    rate_or(report, "physical write bytes", &report.load_profile.write_mb, MIB)
}

pub fn piops(report: &Report) -> Option<Figure> {
    let reads = read_requests(report)?;
    let writes = write_requests(report)?;
    let how = format!("{} + {}", reads.section, writes.section);
    Figure::computed(reads.number()? + writes.number()?, reads.step + writes.step, how)
}

/// Returns the event lists of one kind of processes: foreground, or all if the report has no other
/// list. The top list is included if it covers the same processes.
fn lists(report: &Report) -> [&[WaitEvent]; 2] {
    // The top lists of Statspack and of clusters include background processes.
    let is_mixed = matches!(report.kind, ReportKind::Sp | ReportKind::Awrg | ReportKind::Excerpt)
        && !report.foreground_events.is_empty();
    let is_usable = !is_mixed && events::is_of_one_population(&report.top_events);
    [&report.foreground_events, if is_usable { &report.top_events } else { &[] }]
}

/// Names the processes whose waits the report lists: `foreground` or `all`.
pub fn read_processes(report: &Report) -> Option<Figure> {
    processes(&single_block(report)?.waits.as_ref()?.section)
}

/// Names the processes whose time by wait class the report lists.
pub fn wait_processes(report: &Report) -> Option<Figure> {
    processes(&report.wait_classes.first()?.time_s.as_ref()?.section)
}

fn processes(section: &Arc<str>) -> Option<Figure> {
    let is_foreground = section.to_lowercase().contains("foreground");
    Figure::made(if is_foreground { "foreground" } else { "all" }, section)
}

pub fn waits(report: &Report, name: &str) -> Option<Figure> {
    lists(report).into_iter().find_map(|list| event(list, name)?.waits.clone())
}

/// Returns the waits of several events, each row of the report once: a truncated name may match
/// more than one event.
pub fn waits_of_all(report: &Report, names: &[&str]) -> Vec<Figure> {
    let is_one = |event: &&WaitEvent| {
        let is = |name: &&str| event.name == *name || event.is_cut && name.starts_with(&event.name);
        names.iter().any(is)
    };
    let of_list = |list: &[WaitEvent]| -> Vec<Figure> {
        let found: Vec<&WaitEvent> = list.iter().filter(is_one).collect();
        // In a report over several instances, only the rows of one instance count.
        let whose = found.first().and_then(|event| event.instance.as_ref());
        let of_one = found.iter().filter(|event| event.instance.as_ref() == whose);
        of_one.filter_map(|event| event.waits.clone()).collect()
    };
    lists(report).into_iter().map(of_list).find(|waits| !waits.is_empty()).unwrap_or_default()
}

pub fn foreground(report: &Report, name: &str) -> Option<Figure> {
    events::latency(&lists(report), name)
}

pub fn background(report: &Report, name: &str) -> Option<Figure> {
    let own = event(&report.background_events, name).is_some();
    let list = if own { &report.background_events } else { &report.top_events };
    events::latency(&[list], name)
}

/// Returns the single-block read event with the longest total time.
pub fn single_block(report: &Report) -> Option<&WaitEvent> {
    lists(report).into_iter().find_map(|list| {
        let known = SINGLE_BLOCK_READS.iter().filter_map(|name| event(list, name));
        known.max_by(|a, b| {
            let key = |event: &WaitEvent| {
                (number(&event.time_s).unwrap_or(0.0), number(&event.waits).unwrap_or(0.0))
            };
            key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal)
        })
    })
}

pub fn read_event(report: &Report) -> Option<Figure> {
    let event = single_block(report)?;
    let section: Arc<str> = event.waits.as_ref()?.section.clone();
    Figure::text(&event.name, &section)
}

pub fn read_us(report: &Report) -> Option<Figure> {
    events::latency(&lists(report), &single_block(report)?.name)
}

/// True for a size that a block of the database can have.
pub fn is_block(bytes: f64) -> bool {
    (11..=15).any(|power| bytes == f64::from(1 << power))
}

pub fn block_bytes(report: &Report) -> Option<Figure> {
    report.memory.block_bytes.clone().or_else(|| {
        let figure = super::host::parameter(&report.parameters, "db_block_size")?.clone();
        let bytes: i64 = figure.shown().parse().ok().filter(|bytes| is_block(*bytes as f64))?;
        Some(Figure { value: Scalar::Whole(bytes), step: 1.0, ..figure })
    })
}

/// Returns an event of the top list by its place, without idle ones.
pub fn top(report: &Report, place: usize) -> Option<&WaitEvent> {
    let is_busy =
        |event: &&WaitEvent| !idle::is_idle(event, &report.foreground_events, &report.header);
    report.top_events.iter().filter(is_busy).nth(place)
}

pub fn top_name(report: &Report, place: usize) -> Option<Figure> {
    let event = top(report, place)?;
    let section = &event.time_s.as_ref().or(event.waits.as_ref())?.section;
    Figure::text(&event.name, section)
}

pub fn class(report: &Report, name: &str) -> Option<Figure> {
    report.wait_classes.iter().find(|class| class.name == name)?.time_s.clone()
}

pub fn db_cpu(report: &Report) -> Option<Figure> {
    let over_elapsed = || {
        let total = report.time_model.db_cpu_s.as_ref().filter(|_| !report.spans_restart)?;
        per_second(total, report.header.elapsed_min.as_ref()?, "DB CPU")
    };
    second(&report.load_profile.db_cpu).or_else(over_elapsed)
}

/// Returns the average number of active sessions: database time over elapsed time.
pub fn average_active_sessions(report: &Report) -> Option<Figure> {
    let header = &report.header;
    let elapsed = header.elapsed_min.as_ref().filter(|_| !report.spans_restart);
    let of_header = || {
        let (time, elapsed) = (header.db_time_min.as_ref()?, elapsed?);
        let sessions = time.number()? / elapsed.number()?;
        let step = 2.0 * sessions * (time.uncertainty() + elapsed.uncertainty());
        Figure::computed(sessions, step, format!("{}: DB time over elapsed", time.section))
    };
    let of_model = || per_second(report.time_model.db_time_s.as_ref()?, elapsed?, "DB time");
    let printed = second(&report.load_profile.db_time);
    [of_header(), of_model(), printed].into_iter().fold(None, more_precise)
}

/// Returns the time when the report begins, the earliest over all instances.
pub fn begin_iso(report: &Report) -> Option<Figure> {
    iso(&report.header.begin_time, |times| times.iter().min().copied())
}

pub fn end_iso(report: &Report) -> Option<Figure> {
    iso(&report.header.end_time, |times| times.iter().max().copied())
}

fn iso(
    printed: &Option<Figure>,
    pick: fn(&[PrimitiveDateTime]) -> Option<PrimitiveDateTime>,
) -> Option<Figure> {
    let printed = printed.as_ref()?;
    // Different times of several instances are joined.
    let times: Option<Vec<PrimitiveDateTime>> =
        printed.shown().split('+').map(times::parse).collect();
    let shown = times::iso(pick(&times?)?);
    Figure::made(&shown, &printed.section)
}
