//! Where the time went: wait events, the latency of operations and of single I/Os.

use super::super::numbers::{decimal, micros, or_dash, percent, whole};
use super::super::sources;
use super::super::table::{Align, Table, columns, paragraph};
use super::{section, titled};
use crate::analysis::verdict::is_foreground;
use crate::record::Run;
use crate::stats::counters::WaitSource;
use crate::stats::histogram::{Bar, LatencySummary};

pub(in crate::report) const DB_TIME: &str = "DB time is the sum of the sessions' time in operations. System I/O is done beside them and has \
     no share of it. CPU + other is what DB time leaves after the waits of sessions: work, and \
     waiting for a processor. Shares are `-` if waits overlap, as those of IO_DEPTH blocks in flight \
     do.";

pub(super) fn render(out: &mut String, run: &Run) {
    section(out, &titled("top timed events", run), sources::of(run).events);
    out.push_str(&top_events(run).render());
    out.push_str(&paragraph("", "", DB_TIME));
    section(out, "operation latency, us", "petal's clock");
    out.push_str(&operations(run).render());
    out.push_str(&paragraph("", "", &operations_note(run)));
    section(out, "I/O latency, us", "the source beside each");
    out.push_str(&io(run).render());
    section(out, "latency histograms", sources::of(run).histograms);
    histograms(out, run);
}

/// Wait events by time, and what they leave of DB time.
pub(in crate::report) fn top_events(run: &Run) -> Table {
    let db_time_us = run.details.db_time_s * 1e6;
    let of_db_time = |time_us: f64| run.share_of_db_time(time_us).map(percent);
    let mut table = Table::new(&[
        ("event", Align::Left),
        ("waits", Align::Right),
        ("time s", Align::Right),
        ("avg us", Align::Right),
        ("% DB time", Align::Right),
        ("class", Align::Left),
        ("source", Align::Left),
    ]);
    let mut waited_us = 0.0;
    for wait in &run.summary.waits {
        let foreground = is_foreground(wait.class);
        if foreground {
            waited_us += wait.time_us;
        }
        let share = of_db_time(wait.time_us).filter(|_| foreground);
        table.row([
            wait.name.clone(),
            or_dash(wait.waits, whole),
            decimal(wait.time_us / 1e6, 2),
            or_dash(wait.avg_us, micros),
            or_dash(share, |text| text),
            wait.class.label().to_owned(),
            source(wait.source).to_owned(),
        ]);
    }
    let waited = run.share_of_db_time(waited_us).filter(|share| run.is_counted() && *share <= 1.0);
    let rest_us = waited.map(|_| db_time_us - waited_us);
    table.row([
        "CPU + other".to_owned(),
        "-".to_owned(),
        or_dash(rest_us, |us| decimal(us / 1e6, 2)),
        "-".to_owned(),
        or_dash(rest_us.and_then(of_db_time), |text| text),
        "-".to_owned(),
        "remainder".to_owned(),
    ]);
    table
}

fn source(source: WaitSource) -> &'static str {
    match source {
        WaitSource::Counted => "counted",
        WaitSource::Timed => "timed",
        WaitSource::Sampled => "sampled",
    }
}

/// Operation latency, of the whole run and of its steady window.
pub(in crate::report) fn operations(run: &Run) -> Table {
    let names = ["operation", "count", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"];
    let mut table = Table::of_figures(&names);
    for (kind, latency) in &run.summary.latency_us {
        table.row(latency_cells(kind, latency));
    }
    for (hot, latency) in &run.summary.hot_latency_us {
        table.row(latency_cells(hot, latency));
    }
    if let Some(steady) = &run.summary.steady {
        for (kind, latency) in &steady.latency_us {
            table.row(latency_cells(&format!("{kind}, steady"), latency));
        }
    }
    table
}

/// From when operation latency counts.
pub(in crate::report) fn operations_note(run: &Run) -> String {
    let mut note = "Closed loop: service time, from the moment petal asked.".to_owned();
    if run.summary.latency_us.keys().any(|kind| kind.ends_with("_response")) {
        note = "`_response` counts from the intended start of each operation (RATE).".to_owned();
    }
    if run.details.saturated > 0 {
        note.push_str(&format!(" {} values were past one hour.", run.details.saturated));
    }
    note
}

fn latency_cells(name: &str, latency: &LatencySummary) -> Vec<String> {
    let figures = [
        latency.mean,
        latency.p50,
        latency.p90,
        latency.p95,
        latency.p99,
        latency.p99_9,
        latency.max,
    ];
    [name.to_owned(), whole(latency.count)]
        .into_iter()
        .chain(figures.map(|figure| or_dash(figure, micros)))
        .collect()
}

/// Latency of single reads, writes and syncs, with who timed them.
pub(in crate::report) fn io(run: &Run) -> Table {
    let mut table = Table::new(&[
        ("I/O", Align::Left),
        ("count", Align::Right),
        ("mean", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("source", Align::Left),
    ]);
    for (kind, latency) in &run.summary.io_latency_us {
        let figures = [latency.mean, latency.p50, latency.p99, latency.max];
        let cells = [kind.clone(), whole(latency.count)]
            .into_iter()
            .chain(figures.map(|figure| or_dash(figure, micros)))
            .chain([latency.source.clone()]);
        table.row(cells);
    }
    if let Some(device) = &run.details.device {
        let sides = [
            ("device read", device.read_requests, device.read_ms),
            ("device write", device.write_requests, device.write_ms),
        ];
        for (name, requests, time_ms) in sides {
            let mean = (requests > 0).then(|| time_ms as f64 * 1000.0 / requests as f64);
            let dash = || "-".to_owned();
            table.row([
                name.to_owned(),
                whole(requests),
                or_dash(mean, micros),
                dash(),
                dash(),
                dash(),
                "/proc/diskstats, with its queue".to_owned(),
            ]);
        }
    }
    table
}

fn histograms(out: &mut String, run: &Run) {
    let operations = run.details.histograms.iter();
    let waits = run.details.wait_histograms.iter().map(|(name, wait)| (name, &wait.bars));
    let mut any = false;
    for (name, bars) in operations.chain(waits) {
        any = true;
        out.push_str(&histogram(name, bars));
    }
    if !any {
        out.push_str("-\n");
    }
}

fn histogram(name: &str, bars: &[Bar]) -> String {
    let total: u64 = bars.iter().map(|bar| bar.count).sum();
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
    let longest = columns() / 2;
    let mut table = Table::new(&[
        (name, Align::Left),
        ("up to us", Align::Right),
        ("count", Align::Right),
        ("%", Align::Right),
        ("", Align::Left),
    ]);
    for bar in bars {
        let length = (bar.count as f64 / most as f64 * longest as f64).round() as usize;
        // What happened at all is seen, however rare.
        let length = length.max(usize::from(bar.count > 0));
        let share = if total > 0 { bar.count as f64 / total as f64 } else { 0.0 };
        table.row([
            String::new(),
            whole(bar.upper_us),
            whole(bar.count),
            percent(share),
            "#".repeat(length),
        ]);
    }
    table.render()
}
