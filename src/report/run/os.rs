//! What the operating system saw, under the names and units of iostat, vmstat and mpstat.

use super::super::numbers::{bytes, decimal, or_dash, rate, whole};
use super::super::table::Table;
use super::{Facts, fact};
use crate::record::os::HostSeen;
use crate::record::os_figures::{CpuPercents, GroupFigures, HostFigures, Network};
use crate::stats::os::iostat::DeviceRates;
use crate::stats::os::{CpuTicks, DeviceUse, Range};

/// So many processors are told one by one; of more, the busiest.
const CPUS_SHOWN: usize = 8;

/// Whose figures these are.
pub(in crate::report) fn place(seen: &HostSeen) -> String {
    match &seen.file {
        Some(file) => {
            let name = file.rsplit('/').next().unwrap_or(file);
            format!("from {name}, host {}", seen.host)
        }
        None => format!("host {}, every second", seen.host),
    }
}

/// As `mpstat` prints them.
pub(in crate::report) fn processors(seen: &HostSeen) -> Table {
    let sum = &seen.whole.sum;
    let mut table = Table::of_figures(&[
        "processors",
        "%usr",
        "%nice",
        "%sys",
        "%iowait",
        "%irq",
        "%soft",
        "%steal",
        "%idle",
    ]);
    let each = &sum.cpus.each;
    let mut row = |name: String, ticks: Option<CpuTicks>| {
        let cells = match ticks.and_then(|ticks| CpuPercents::of(&ticks)) {
            Some(percents) => percents.columns().map(|percent| decimal(percent, 1)),
            None => ["-"; 8].map(str::to_owned),
        };
        table.row(std::iter::once(name).chain(cells));
    };
    let count = if each.is_empty() { String::new() } else { format!(" {}", each.len()) };
    row(format!("all{count}"), sum.cpus.host);
    if sum.cpus.allowed != sum.cpus.host {
        let count = seen.allowed_cpus.as_ref().map_or(0, Vec::len);
        row(format!("allowed {count}"), sum.cpus.allowed);
    }
    let busiest = sum.busiest_cpu.map(|(number, _)| number);
    if each.len() > 1 && each.len() <= CPUS_SHOWN {
        each.iter().for_each(|(number, ticks)| row(format!("cpu {number}"), Some(*ticks)));
    } else if let Some(number) = busiest {
        let ticks = each.iter().find(|(known, _)| *known == number).map(|(_, ticks)| *ticks);
        row(format!("busiest: cpu {number}"), ticks);
    }
    table.with_note(busiest_second(seen).unwrap_or_default())
}

/// The busiest second of one processor.
fn busiest_second(seen: &HostSeen) -> Option<String> {
    let busy: Option<(f64, u32, f64)> = seen
        .seconds
        .iter()
        .filter(|second| second.interval.seconds > 0.5)
        .filter_map(|second| {
            let (cpu, busy) = second.interval.busiest_cpu?;
            Some((busy, cpu, second.from_s))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.2.total_cmp(&a.2)));
    let (busy, cpu, at_s) = busy?;
    Some(format!(
        "busiest second of one processor: cpu {cpu}, {} % at {} s",
        decimal(busy, 0),
        decimal(at_s, 0)
    ))
}

/// As `iostat -x` prints them.
pub(in crate::report) fn device_table(devices: &[DeviceUse], seconds: f64) -> Table {
    let mut table = Table::of_figures(&[
        "Device", "r/s", "rkB/s", "r_await", "w/s", "wkB/s", "w_await", "f/s", "aqu-sz", "%util",
    ]);
    for device in devices {
        table.row(std::iter::once(device.name.clone()).chain(device_cells(device, seconds)));
    }
    table
}

fn device_cells(device: &DeviceUse, seconds: f64) -> [String; 9] {
    let shown = DeviceRates::of(device, seconds);
    [
        or_dash(shown.reads, rate),
        or_dash(shown.read_kib, rate),
        or_dash(shown.read_await_ms, |ms| decimal(ms, 2)),
        or_dash(shown.writes, rate),
        or_dash(shown.write_kib, rate),
        or_dash(shown.write_await_ms, |ms| decimal(ms, 2)),
        or_dash(shown.flushes, rate),
        or_dash(shown.queue, |queue| decimal(queue, 2)),
        or_dash(shown.util_percent, |percent| decimal(percent, 1)),
    ]
}

/// As vmstat names them, with the range over the seconds.
pub(in crate::report) fn gauges(seen: &HostSeen) -> Table {
    let ranges = &seen.whole.ranges;
    let mut table = Table::of_figures(&["vmstat", "mean", "least", "most"]);
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

/// All else that it saw.
pub(in crate::report) fn facts(seen: &HostSeen) -> Facts {
    let figures = HostFigures::of(seen);
    let mut facts = Facts::new();
    let out = &mut facts;
    let per = &figures.per_second;
    fact(
        out,
        "in/s, cs/s",
        &format!(
            "{} interrupts, {} context switches a second",
            or_dash(per.interrupts, rate),
            or_dash(per.context_switches, rate)
        ),
    );
    fact(
        out,
        "si, so",
        &format!(
            "{} KiB/s from swap, {} KiB/s to swap; {} major faults a second",
            kib(per.swap_in_bytes),
            kib(per.swap_out_bytes),
            or_dash(per.major_faults, rate)
        ),
    );
    let pressure = &figures.pressure_percent;
    fact(
        out,
        "pressure, % of time",
        &format!(
            "cpu some {}, io some {} full {}, memory some {} full {}",
            or_dash(pressure.cpu_some, rate),
            or_dash(pressure.io_some, rate),
            or_dash(pressure.io_full, rate),
            or_dash(pressure.memory_some, rate),
            or_dash(pressure.memory_full, rate)
        ),
    );
    if let Some(seen) = &figures.network {
        network(out, seen);
    }
    // A file of `petal os` knows nothing of petal's own process.
    if figures.file.is_none() {
        let petal = or_dash(figures.petal_processors, rate);
        fact(out, "petal's process", &format!("{petal} processors"));
    }
    if let Some(processes) = figures.gauges.server_processes {
        let number = match (processes.least, processes.most) {
            (least, most) if least == most => most.to_string(),
            (least, most) => format!("{least} to {most}"),
        };
        fact(
            out,
            "server's processes",
            &format!(
                "{} processors in {number} processes; its log writer {}",
                or_dash(figures.server_processors, rate),
                or_dash(figures.log_writer_processors, rate)
            ),
        );
    }
    let (group, own) = (figures.group.as_ref(), figures.petal_group.as_ref());
    if let Some(limit) = group {
        fact(out, "control group", &group_line(limit));
    }
    let is_same = |own: &GroupFigures| group.is_some_and(|group| group.file == own.file);
    if let Some(limit) = own.filter(|own| !is_same(own)) {
        fact(out, "petal's own group", &group_line(limit));
    }
    if let Some(clock) = &seen.clock {
        fact(out, "clock", clock);
    }
    if let Some(before) = &figures.before {
        let told = format!(
            "{} processors at work, {} requests a second at the data's devices",
            or_dash(before.working_processors, rate),
            or_dash(before.device_requests, rate)
        );
        fact(out, "before the run", &told);
    }
    facts
}

fn kib(bytes: Option<f64>) -> String {
    or_dash(bytes.map(|bytes| bytes / 1024.0), rate)
}

fn network(out: &mut Facts, seen: &Network) {
    fact(
        out,
        "network",
        &format!(
            "rx {} packets/s, {} kB/s, {} errors; tx {} packets/s, {} kB/s, {} errors",
            or_dash(seen.received_packets, rate),
            kib(seen.received_bytes),
            or_dash(seen.receive_errors, whole),
            or_dash(seen.sent_packets, rate),
            kib(seen.sent_bytes),
            or_dash(seen.send_errors, whole)
        ),
    );
    fact(
        out,
        "",
        &format!(
            "TCP segments sent again: {} of {}",
            or_dash(seen.resent_segments, whole),
            or_dash(seen.sent_segments, whole)
        ),
    );
}

fn group_line(group: &GroupFigures) -> String {
    let file = group.file.as_deref().map(|file| format!(" ({file})")).unwrap_or_default();
    format!(
        "{} of {} processors used; made to wait in {} of {} periods, {} s{file}",
        or_dash(group.used_processors, rate),
        rate(group.granted_processors),
        or_dash(group.throttled_periods, whole),
        or_dash(group.periods, whole),
        or_dash(group.throttled_s, |s| decimal(s, 2))
    )
}
