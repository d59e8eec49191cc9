//! Figures for sizing storage, computed from a [`Report`] for its columns: total I/O with redo,
//! percentiles of latency, the interconnect, the top statement and segment by reads.

use super::derived::{background, rate, single_block, total};
use super::figure::{self, Figure, more_precise};
use super::histogram;
use super::load::{MIB, per_second};
use super::report::{InterconnectPing, Report, ReportWaitClass, SegmentReads, SqlReads};

const LOG_WRITE: &str = "log file parallel write";

/// Returns a rate from the statistics, else from IO Profile.
fn rate_or(report: &Report, name: &str, line: &Option<Figure>) -> Option<Figure> {
    more_precise(rate(report, name), line.clone())
}

pub(super) fn mib(line: &Option<Figure>) -> Option<Figure> {
    line.clone()?.scaled(MIB)
}

fn sum(one: Figure, other: Figure) -> Option<Figure> {
    let how = format!("{} + {}", one.section, other.section);
    Figure::computed(one.number()? + other.number()?, one.step + other.step, how)
}

pub(super) fn total_read_requests(report: &Report) -> Option<Figure> {
    rate_or(report, "physical read total IO requests", &report.io_profile.total_requests.read)
}

pub(super) fn total_write_requests(report: &Report) -> Option<Figure> {
    rate_or(report, "physical write total IO requests", &report.io_profile.total_requests.write)
}

/// Returns requests of all kinds, with redo, control files and backups.
pub(super) fn total_requests(report: &Report) -> Option<Figure> {
    let printed = report.io_profile.total_requests.both.clone();
    let both = || sum(total_read_requests(report)?, total_write_requests(report)?);
    more_precise(both(), printed)
}

pub(super) fn total_read_bytes(report: &Report) -> Option<Figure> {
    rate_or(report, "physical read total bytes", &mib(&report.io_profile.total_mb.read))
}

pub(super) fn total_write_bytes(report: &Report) -> Option<Figure> {
    rate_or(report, "physical write total bytes", &mib(&report.io_profile.total_mb.write))
}

pub(super) fn total_bytes(report: &Report) -> Option<Figure> {
    let printed = mib(&report.io_profile.total_mb.both);
    let both = || sum(total_read_bytes(report)?, total_write_bytes(report)?);
    more_precise(both(), printed)
}

pub(super) fn redo_writes(report: &Report) -> Option<Figure> {
    rate_or(report, "redo writes", &report.io_profile.redo_requests.write)
}

pub(super) fn log_switches(report: &Report) -> Option<Figure> {
    let switches = total(report, "log switches (derived)").filter(|_| !report.spans_restart)?;
    let per_s = per_second(&switches, report.header.elapsed_min.as_ref()?, "log switches")?;
    let rate = Figure { as_printed: None, ..per_s.scaled(3600.0)? };
    // A count of zero switches is exact.
    let none = switches.number() == Some(0.0);
    if none { Some(Figure { step: 0.0, ..rate }) } else { Some(rate) }
}

pub(super) fn read_percentile(report: &Report, share_pct: f64) -> Result<Figure, String> {
    let read = single_block(report).ok_or("not in this report")?;
    histogram::percentile(report, &read.name, read.is_cut, share_pct)
}

pub(super) fn read_ranges(report: &Report) -> Option<Figure> {
    let read = single_block(report)?;
    histogram::shares(report, &read.name, read.is_cut)
}

pub(super) fn log_percentile(report: &Report, share_pct: f64) -> Result<Figure, String> {
    histogram::percentile(report, LOG_WRITE, false, share_pct)
}

pub(super) fn log_ranges(report: &Report) -> Option<Figure> {
    histogram::shares(report, LOG_WRITE, false)
}

pub(super) fn log_write_waits(report: &Report) -> Option<Figure> {
    let list = [&report.background_events, &report.top_events];
    background(report, LOG_WRITE)?;
    list.into_iter().find_map(|list| super::report::event(list, LOG_WRITE)?.waits.clone())
}

fn wait_class<'r>(report: &'r Report, name: &str) -> Option<&'r ReportWaitClass> {
    report.wait_classes.iter().find(|class| class.name == name)
}

pub(super) fn class_waits(report: &Report, name: &str) -> Option<Figure> {
    wait_class(report, name)?.waits.clone()
}

/// Returns time over waits of a class.
pub(super) fn class_us(report: &Report, name: &str) -> Option<Figure> {
    let class = wait_class(report, name)?;
    let (time, waits) = (class.time_s.as_ref()?, class.waits.as_ref()?);
    let mean = time.number()? * 1e6 / waits.number()?;
    let step = 2.0 * mean * (time.uncertainty() + waits.uncertainty());
    Figure::computed(mean, step, format!("{}: time over waits", time.section))
        .filter(|mean| mean.number() > Some(0.0))
}

/// Returns the time to receive a block from another instance: hundredths of a second over blocks.
pub(super) fn receive_us(report: &Report, time: &str, blocks: &str) -> Option<Figure> {
    let (time, blocks) = (total(report, time)?, total(report, blocks)?);
    let mean = time.number()? * 1e4 / blocks.number().filter(|blocks| *blocks > 0.0)?;
    Figure::computed(
        mean,
        2.0 * mean * time.uncertainty(),
        format!("{}: time over blocks", time.section),
    )
}

/// Returns the slowest mean round trip to another instance; an instance's messages to itself are
/// only a control.
pub(super) fn slowest_ping(
    report: &Report,
    latency: fn(&InterconnectPing) -> &Option<Figure>,
) -> Option<Figure> {
    let own = figure::shown(&report.header.instance_number);
    let between = report.interconnect_pings.iter().filter(|ping| {
        let source = ping.source.as_ref().map(Figure::shown).or_else(|| own.clone());
        source.is_some_and(|source| source != ping.target.shown())
    });
    let known = between.filter_map(|ping| latency(ping).clone());
    known.max_by(|one, other| number_of(one).total_cmp(&number_of(other)))
}

fn number_of(figure: &Figure) -> f64 {
    figure.number().unwrap_or(f64::NEG_INFINITY)
}

/// Returns the first statement of its list, which reports order by physical reads.
pub(super) fn top_sql(report: &Report) -> Option<&SqlReads> {
    report.sql_by_reads.first()
}

pub(super) fn top_segment(report: &Report) -> Option<&SegmentReads> {
    report.segments_by_reads.first()
}

/// Returns `OWNER.OBJECT`, with the partition name if the segment has one.
pub(super) fn top_segment_name(report: &Report) -> Option<Figure> {
    let segment = top_segment(report)?;
    let part = if segment.part.is_empty() { String::new() } else { format!(".{}", segment.part) };
    let name = format!("{}.{}{part}", segment.owner, segment.object);
    let section = segment.physical_reads.as_ref().or(segment.pct_total.as_ref())?.section.clone();
    Figure::made(&name, &section)
}

/// Reports that the storage is Exadata, if its own wait events are present; without them nothing is
/// known.
pub(super) fn exadata(report: &Report) -> Option<Figure> {
    let lists = [&report.foreground_events, &report.top_events, &report.background_events];
    let found = lists.into_iter().flatten().find(|event| event.name.starts_with("cell s"))?;
    let section = &found.waits.as_ref().or(found.time_s.as_ref())?.section;
    Figure::made("YES", section)
}

#[cfg(test)]
mod tests {
    use super::super::columns::value;
    use super::super::samples::sample;

    #[test]
    fn total_io_has_redo_and_its_own_name() {
        let report = sample("awr_19c.html");
        assert!(value(&report, "total_requests_per_s") >= value(&report, "piops"));
        assert_eq!(value(&report, "exadata"), None);
    }
}
