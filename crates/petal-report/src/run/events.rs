//! The time spent: wait events, the latency of operations and of single I/Os.

use super::super::json::word;
use super::super::numbers::{UNKNOWN, decimal, micros, or_dash, percent, whole};
use super::super::table::{Cell, Table};
use super::waterfall;
use petal_host::histogram::LatencySummary;
use petal_record::counters::WaitClass;
use petal_record::timeline::LATENESS;
use petal_record::{Run, Steady, WaitRow, Window};

const DB_TIME: &str = "DB time is the sum of the sessions' time in operations. System I/O is not \
                       in it and has no share of it. CPU + other is DB time without the waits of \
                       sessions: work, and waiting for a processor. Shares are `-` if waits \
                       overlap, as with IO_DEPTH blocks in flight, or if they took longer than DB \
                       time.";

/// Explains waits without shares, if the kernel divided the operations' time.
const DIVIDED: &str = "Waits by the database's clock have no share of the time here: the waterfall \
                       divides it, and a wait for a read includes the wait for a processor.";

/// A line under waits that are the division of the time.
pub(crate) const READS_INCLUDE: &str = "A wait for a read includes the wait for a processor.";

/// Lists wait events by time, and the rest of DB time, unless a waterfall divides the time.
pub(crate) fn top_events(run: &Run) -> Table {
    let db_time_us = run.details.db_time_s * 1e6;
    let is_divided = waterfall::dividing(run).is_some();
    let mut table =
        Table::headed("event | waits: | time s: | avg us: | % DB time: | class | source");
    let mut waited_us = 0.0;
    let is_cpu = |wait: &&WaitRow| wait.class == WaitClass::Cpu;
    for wait in run.summary.waits.iter().filter(|wait| !is_cpu(wait)) {
        let foreground = wait.class.is_foreground();
        if foreground {
            waited_us += wait.time_us;
        }
        let share = run.share_of_db_time(wait.time_us).filter(|_| foreground && !is_divided);
        table.row([
            wait.name.as_str().into(),
            or_dash(wait.waits, whole).into(),
            decimal(wait.time_us / 1e6, 2).into(),
            or_dash(wait.avg_us, micros).into(),
            shared(share),
            wait.class.label().into(),
            word(&wait.source).into(),
        ]);
    }
    if !is_divided {
        table.row(rest(run, db_time_us, waited_us));
    }
    let untimed = match run.is_read_untimed() || run.is_log_untimed() {
        true => " Waits that the database did not time are in CPU + other.",
        false => "",
    };
    let own = run.summary.waits.iter().filter(is_cpu).map(|wait| {
        let (time, source) = (decimal(wait.time_us / 1e6, 2), word(&wait.source));
        format!(" {}: {time} s ({source}).", wait.name)
    });
    let own: String = own.collect();
    match is_divided {
        true => table.with_note(format!("{DIVIDED}{own}")),
        false => table.with_note(format!("{DB_TIME} {READS_INCLUDE}{untimed}{own}")),
    }
}

/// The row of the rest of DB time.
fn rest(run: &Run, db_time_us: f64, waited_us: f64) -> [Cell; 7] {
    let waited = run.share_of_db_time(waited_us).filter(|_| run.is_counted());
    let rest_us = waited.map(|_| db_time_us - waited_us).filter(|rest_us| *rest_us >= 0.0);
    [
        remainder(run).into(),
        "-".into(),
        or_dash(rest_us, |us| decimal(us / 1e6, 2)).into(),
        "-".into(),
        shared(rest_us.and_then(|us| run.share_of_db_time(us))),
        "-".into(),
        "remainder".into(),
    ]
}

/// Names the rest of DB time: it includes waits that the database did not time.
fn remainder(run: &Run) -> String {
    let reads = if run.is_read_untimed() { ", reads" } else { "" };
    let log_waits = if run.is_log_untimed() { ", log waits" } else { "" };
    format!("CPU{reads}{log_waits} + other")
}

/// A share of DB time, with its bar on a page.
fn shared(share: Option<f64>) -> Cell {
    let share = share.filter(|share| share.is_finite());
    Cell { share, ..or_dash(share, percent).into() }
}

/// The longest waits with a share of DB time, and the rest of it, in at most this many rows.
pub(crate) fn longest(run: &Run, most: usize) -> Table {
    let all = top_events(run);
    let row = |cells: &Vec<Cell>| match cells.as_slice() {
        [wait, waits, _, avg_us, share, ..] if share.text != UNKNOWN => {
            Some([wait, waits, avg_us, share].map(|cell| cell.text.clone()))
        }
        _ => None,
    };
    let mut rows: Vec<[String; 4]> = all.rows().iter().filter_map(row).collect();
    if rows.len() > most {
        rows.drain(most - 1..rows.len() - 1);
    }
    Table::of_figures("wait | waits | avg us | % DB time").with_rows(rows)
}

/// The counted window, if the headline is of it.
fn counted(run: &Run) -> Option<&Steady> {
    let is_shown = matches!(run.headline_window().window, Window::Steady { .. });
    run.summary.steady.as_ref().filter(|_| is_shown)
}

/// Operation latency of the counted window; of the whole run if that is unknown.
pub(crate) fn operations_in_short(run: &Run) -> Table {
    let steady = counted(run).map(|steady| &steady.latency_us);
    let latencies = steady.filter(|all| !all.is_empty()).unwrap_or(&run.summary.latency_us);
    let rows = latencies.iter().map(|(name, of)| {
        let figures = [of.mean, of.p50, of.p99, of.p99_9, of.max];
        let figures = figures.map(|figure| or_dash(figure, micros));
        [name.clone(), whole(of.count)].into_iter().chain(figures).collect::<Vec<_>>()
    });
    Table::of_figures("operation | count | mean us | p50 us | p99 us | p99.9 us | max us")
        .with_rows(rows)
}

/// Operation latency, of the whole run and of its counted window.
pub(crate) fn operations(run: &Run) -> Table {
    let all = run.summary.latency_us.iter().chain(&run.summary.hot_latency_us);
    let all = all.map(|(name, latency)| latency_cells(name, latency));
    let steady = counted(run).into_iter().flat_map(|steady| &steady.latency_us);
    let steady = steady.map(|(kind, latency)| latency_cells(&format!("{kind}, counted"), latency));
    Table::of_figures("operation | count | mean | p50 | p90 | p95 | p99 | p99.9 | max")
        .with_rows(all.chain(steady))
        .with_note(operations_note(run))
}

/// Describes the start of operation latency.
fn operations_note(run: &Run) -> String {
    let mut note = "Closed loop: service time, from the moment petal asked.".to_owned();
    if run.summary.latency_us.keys().any(|kind| kind.ends_with("_response")) {
        note = response_note(run);
    }
    note.push_str(few_note(run.summary.latency_us.values()));
    if run.details.saturated > 0 {
        note.push_str(&format!(" {} values were past one hour.", run.details.saturated));
    }
    note
}

/// Explains percentiles that are unknown.
fn few_note<'a>(mut latencies: impl Iterator<Item = &'a LatencySummary>) -> &'static str {
    match latencies.any(LatencySummary::lacks_percentile) {
        true => {
            " A percentile is `-` with fewer than ten operations beyond it: p50 needs 20, p99 \
             1,000, p99.9 10,000."
        }
        false => "",
    }
}

/// Describes response times: the arrivals, the operations that were never begun, and lateness.
fn response_note(run: &Run) -> String {
    let arrivals = match run.summary.setting("arrivals").and_then(|value| value.as_str()) {
        Some("poisson") => "Poisson arrivals, each served by any free session",
        Some("even") => "even arrivals, each served by any free session",
        // Until petal had other arrivals.
        _ => "even arrivals, dealt to the sessions beforehand",
    };
    let mut note =
        format!("`_response` counts from the intended start of each operation (RATE): {arrivals}.");
    if let Some(count) = run.details.backlog.filter(|&count| count > 0) {
        note.push_str(&format!(
            " It includes {} operations that were never begun, with the time that they had waited.",
            whole(count)
        ));
    }
    if run.summary.latency_us.contains_key(LATENESS) {
        note.push_str(" lateness: how late petal itself awoke, which response times include.");
    }
    note
}

fn latency_cells(name: &str, latency: &LatencySummary) -> Vec<String> {
    let LatencySummary { count, mean, p50, p90, p95, p99, p99_9, max } = *latency;
    let figures = [mean, p50, p90, p95, p99, p99_9, max].map(|figure| or_dash(figure, micros));
    [name.to_owned(), whole(count)].into_iter().chain(figures).collect()
}

/// Percentiles of waits that the database counts by powers of two: each lies between two of them.
pub(crate) fn bounded(run: &Run) -> Table {
    const NAMES: [&str; 4] = ["p50", "p90", "p99", "p99_9"];
    const NOTE: &str = "The database's histogram, of all processes and of the whole run. A percentile \
         took more than the first figure and at most the second one.";
    let mut table = Table::headed("event | waits: | p50: | p90: | p99: | p99.9:");
    for (event, timed) in &run.details.wait_histograms {
        let bounds = &timed.percentile_bounds_us;
        if bounds.is_empty() {
            continue;
        }
        let between = NAMES.map(|name| {
            or_dash(bounds.get(name), |[above, most]| format!("{}-{}", whole(*above), whole(*most)))
        });
        table.row([event.clone(), whole(timed.latency_us.count)].into_iter().chain(between));
    }
    match table.is_empty() {
        true => table,
        false => table.with_note(NOTE),
    }
}

/// Latency of single reads, writes and syncs, with who timed them.
pub(crate) fn io(run: &Run) -> Table {
    let mut table = Table::headed("I/O | count: | mean: | p50: | p99: | max: | source");
    for (kind, latency) in &run.summary.io_latency_us {
        let [mean, p50, p99, max] = [latency.mean, latency.p50, latency.p99, latency.max]
            .map(|figure| or_dash(figure, micros));
        let count = whole(latency.count);
        table.row([kind.clone(), count, mean, p50, p99, max, latency.source.clone()]);
    }
    if let Some(device) = &run.details.device {
        let sides = [
            ("device read", device.read_requests, device.read_ms),
            ("device write", device.write_requests, device.write_ms),
        ];
        for (name, requests, time_ms) in sides {
            let mean = (requests > 0).then(|| time_ms as f64 * 1000.0 / requests as f64);
            let (requests, mean) = (whole(requests), or_dash(mean, micros));
            table.row([
                name,
                &requests,
                &mean,
                "-",
                "-",
                "-",
                "/proc/diskstats, including queueing",
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn sampled_processor_time_has_no_row_next_to_the_remainder() {
        let mut run = fixture::mixed_run();
        let first = run.summary.waits[0].clone();
        let of_cpu =
            WaitRow { name: "on CPU".to_owned(), class: WaitClass::Cpu, time_us: 20.36e6, ..first };
        let before = top_events(&run);
        run.summary.waits.push(of_cpu);
        let table = top_events(&run);
        assert_eq!(table.rows(), before.rows());
        assert!(table.note.contains(" on CPU: 20.36 s ("), "{}", table.note);
    }
}
