//! Figures of the operating system, under the names and units of iostat, vmstat and mpstat.

use super::super::numbers::{bytes, decimal, micros, or_dash, rate, whole};
use super::super::table::Table;
use super::Facts;
use petal_host::histogram::LatencySummary;
use petal_host::os::calls::{CallKind, CalledFiles};
use petal_host::os::iostat::DeviceRates;
use petal_host::os::requests::Requests;
use petal_host::os::{CpuTicks, DeviceUse, Range};
use petal_record::Run;
use petal_record::os::HostSeen;
use petal_record::os_figures::{CpuPercents, GroupFigures, HostFigures, RequestFigures};

/// Number of processors that are reported one by one; if there are more, the busiest.
const CPUS_SHOWN: usize = 8;

/// The source of the figures: a host, or the file that `petal os` wrote there.
pub(crate) fn place(seen: &HostSeen) -> String {
    match &seen.file {
        Some(file) => {
            let name = file.rsplit('/').next().unwrap_or(file);
            format!("from {name}, host {}", seen.host)
        }
        None => format!("host {}, every second", seen.host),
    }
}

/// Builds a table as `mpstat` prints it.
pub(crate) fn processors(seen: &HostSeen) -> Table {
    let sum = &seen.whole.sum;
    let mut table = Table::of_figures(
        "processors | %usr | %nice | %sys | %iowait | %irq | %soft | %steal | %idle",
    );
    let each = &sum.cpus.each;
    let mut row = |name: String, ticks: Option<CpuTicks>| {
        let percents = ticks.and_then(|ticks| CpuPercents::of(&ticks));
        let cells = percents.map_or([None; 8], |percents| percents.columns().map(Some));
        let cells = cells.map(|percent| or_dash(percent, |percent| decimal(percent, 1)));
        table.row(std::iter::once(name).chain(cells));
    };
    let count = if each.is_empty() { String::new() } else { format!(" {}", each.len()) };
    row(format!("all{count}"), sum.cpus.host);
    if sum.cpus.allowed != sum.cpus.host {
        let count = seen.allowed_cpus.as_ref().map_or(0, Vec::len);
        row(format!("allowed {count}"), sum.cpus.allowed);
    }
    if each.len() > 1 && each.len() <= CPUS_SHOWN {
        each.iter().for_each(|(number, ticks)| row(format!("cpu {number}"), Some(*ticks)));
    } else if let Some((number, _)) = sum.busiest_cpu {
        let ticks = each.iter().find(|(known, _)| *known == number).map(|(_, ticks)| *ticks);
        row(format!("busiest: cpu {number}"), ticks);
    }
    table.with_note(busiest_second(seen).unwrap_or_default())
}

fn busiest_second(seen: &HostSeen) -> Option<String> {
    let whole = seen.seconds.iter().filter(|second| second.interval.seconds > 0.5);
    let known = whole.filter_map(|second| Some((second.from_s, second.interval.busiest_cpu?)));
    let (at_s, (cpu, busy)) =
        known.max_by(|a, b| a.1.1.total_cmp(&b.1.1).then(b.0.total_cmp(&a.0)))?;
    let (busy, at_s) = (decimal(busy, 0), decimal(at_s, 0));
    Some(format!("busiest second of one processor: cpu {cpu}, {busy} % at {at_s} s"))
}

/// Builds a table as `iostat -x` prints it.
pub(crate) fn device_table(devices: &[DeviceUse], seconds: f64) -> Table {
    let heading = "Device | r/s | rkB/s | r_await | w/s | wkB/s | w_await | f/s | aqu-sz | %util";
    let hundredths = |value: Option<f64>| or_dash(value, |value| decimal(value, 2));
    Table::of_figures(heading).with_rows(devices.iter().map(|device| {
        let shown = DeviceRates::of(device, seconds);
        [
            device.name.clone(),
            or_dash(shown.reads, rate),
            or_dash(shown.read_kib, rate),
            hundredths(shown.read_await_ms),
            or_dash(shown.writes, rate),
            or_dash(shown.write_kib, rate),
            hundredths(shown.write_await_ms),
            or_dash(shown.flushes, rate),
            hundredths(shown.queue),
            or_dash(shown.util_percent, |percent| decimal(percent, 1)),
        ]
    }))
}

/// Builds a table of the times of single requests.
pub(crate) fn request_table(requests: &Requests) -> Table {
    let heading = "request times, us | of | count | mean | p50 | p99 | p99.9 | max | \
                   queue p50 | queue p99 | total p50 | total p99 | total p99.9";
    let figures = RequestFigures::of(requests);
    let us = |value: Option<f64>| or_dash(value, micros);
    let table = Table::of_figures(heading).with_rows(figures.rows.iter().map(|row| {
        let (service, queue, total) = (&row.service_us, &row.queue_us, &row.total_us);
        [
            format!("{} {}", row.device, row.kind.name()),
            row.issued_by.name().to_owned(),
            whole(service.count),
            us(service.mean),
            us(service.p50),
            us(service.p99),
            us(service.p99_9),
            us(service.max),
            us(queue.p50),
            us(queue.p99),
            us(total.p50),
            us(total.p99),
            us(total.p99_9),
        ]
    }));
    match figures.lost {
        0 => table,
        lost => table.with_note(format!("{} requests without a time", whole(lost))),
    }
}

/// Builds a table of the times of the server's calls, with the server's own means.
pub(crate) fn call_table(run: &Run) -> Table {
    let heading = "calls, us | count | mean | p50 | p99 | p99.9 | max | server's mean";
    let host = run.summary.os.as_ref().and_then(|os| os.database_host.as_ref());
    let Some(figures) = host.and_then(|host| host.steady_calls.as_ref().or(host.calls.as_ref()))
    else {
        return Table::default();
    };
    let us = |value: Option<f64>| or_dash(value, micros);
    let table = Table::of_figures(heading).with_rows(figures.rows.iter().map(|row| {
        let kind = match (row.call, row.files) {
            (CallKind::Read, CalledFiles::Data) => "read",
            (CallKind::Write, CalledFiles::Data) => "write",
            (CallKind::Sync, CalledFiles::Log) => "log",
            _ => "",
        };
        let of_server = run.summary.io_latency_us.get(kind);
        let LatencySummary { count, mean, p50, p99, p99_9, max, .. } = row.time_us;
        [
            format!("{} {}", row.files.name(), row.call.name()),
            whole(count),
            us(mean),
            us(p50),
            us(p99),
            us(p99_9),
            us(max),
            us(of_server.and_then(|latency| latency.mean)),
        ]
    }));
    let note = "Calls of the server's processes, from entry to exit, in the same window as the \
                server's means.";
    match figures.lost {
        0 => table.with_note(note),
        lost => table.with_note(format!("{note} {} calls without a time.", whole(lost))),
    }
}

/// Lists gauges with vmstat's names, and the range over the seconds.
pub(crate) fn gauges(seen: &HostSeen) -> Table {
    let ranges = &seen.whole.ranges;
    let mut table = Table::of_figures("vmstat | mean | least | most");
    let mut row = |name: &str, range: Option<Range>, show: &dyn Fn(f64) -> String| {
        let cell = |value: Option<f64>| or_dash(value, show);
        let most = cell(range.map(|range| range.most as f64));
        let least = cell(range.map(|range| range.least as f64));
        table.row([name.to_owned(), cell(range.map(|range| range.mean)), least, most]);
    };
    let size = |value: f64| bytes(value.round() as u64);
    row("r (tasks running or ready)", ranges.running, &rate);
    row("b (tasks blocked, mostly by I/O)", ranges.blocked, &rate);
    row("free memory", ranges.free_bytes, &size);
    row("available without swapping", ranges.available_bytes, &size);
    row("buff", ranges.buffers_bytes, &size);
    row("cache", ranges.cached_bytes, &size);
    row("dirty pages", ranges.dirty_bytes, &size);
    row("pages being written", ranges.writeback_bytes, &size);
    row("swap used", ranges.swap_used_bytes, &size);
    table
}

pub(crate) fn facts(seen: &HostSeen) -> Facts {
    let figures = HostFigures::of(seen);
    let (per, pressure) = (&figures.per_second, &figures.pressure_percent);
    let shown = |value: Option<f64>| or_dash(value, rate);
    let kib = |bytes: Option<f64>| shown(bytes.map(|bytes| bytes / 1024.0));
    let mut facts = Facts::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    let (interrupts, switches) = (shown(per.interrupts), shown(per.context_switches));
    fact("in/s, cs/s", format!("{interrupts} interrupts, {switches} context switches a second"));
    let (from, to) = (kib(per.swap_in_bytes), kib(per.swap_out_bytes));
    let faults = shown(per.major_faults);
    fact(
        "si, so",
        format!("{from} KiB/s from swap, {to} KiB/s to swap; {faults} major faults a second"),
    );
    let (cpu_some, io_some) = (shown(pressure.cpu_some), shown(pressure.io_some));
    let (io_full, memory_some) = (shown(pressure.io_full), shown(pressure.memory_some));
    let memory_full = shown(pressure.memory_full);
    fact(
        "pressure, % of time",
        format!(
            "cpu some {cpu_some}, io some {io_some} full {io_full}, memory some {memory_some} full {memory_full}"
        ),
    );
    if let Some(seen) = &figures.network {
        let side = |packets, bytes, errors| {
            let (packets, errors) = (shown(packets), or_dash(errors, whole));
            format!("{packets} packets/s, {} kB/s, {errors} errors", kib(bytes))
        };
        let rx = side(seen.received_packets, seen.received_bytes, seen.receive_errors);
        let tx = side(seen.sent_packets, seen.sent_bytes, seen.send_errors);
        fact("network", format!("rx {rx}; tx {tx}"));
        let (again, all) =
            (or_dash(seen.resent_segments, whole), or_dash(seen.sent_segments, whole));
        fact("", format!("TCP segments sent again: {again} of {all}"));
    }
    // A file of `petal os` knows nothing of petal's own process.
    if figures.file.is_none() {
        fact("petal's process", format!("{} processors", shown(figures.petal_processors)));
    }
    if let Some(Range { least, most, .. }) = figures.gauges.server_processes {
        let number = if least == most { most.to_string() } else { format!("{least} to {most}") };
        let (server, log) =
            (shown(figures.server_processors), shown(figures.log_writer_processors));
        fact(
            "server's processes",
            format!("{server} processors in {number} processes; its log writer {log}"),
        );
    }
    let (group, own) = (figures.group.as_ref(), figures.petal_group.as_ref());
    if let Some(limit) = group {
        fact("control group", group_line(limit));
    }
    let is_same = |own: &GroupFigures| group.is_some_and(|group| group.file == own.file);
    if let Some(limit) = own.filter(|own| !is_same(own)) {
        fact("petal's own group", group_line(limit));
    }
    if let Some(clock) = &seen.clock {
        fact("clock", clock.clone());
    }
    if let Some(before) = &figures.before {
        let (working, requests) = (shown(before.working_processors), shown(before.device_requests));
        fact(
            "before the run",
            format!(
                "{working} processors at work, {requests} requests a second at the data's devices"
            ),
        );
    }
    facts
}

fn group_line(group: &GroupFigures) -> String {
    let file = group.file.as_deref().map(|file| format!(" ({file})")).unwrap_or_default();
    let (used, granted) = (or_dash(group.used_processors, rate), rate(group.granted_processors));
    let (throttled, periods) =
        (or_dash(group.throttled_periods, whole), or_dash(group.periods, whole));
    let waited_s = or_dash(group.throttled_s, |s| decimal(s, 2));
    format!(
        "{used} of {granted} processors used; made to wait in {throttled} of {periods} periods, \
         {waited_s} s{file}"
    )
}
