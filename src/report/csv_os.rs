//! The columns of `timeline.csv` that the operating system fills: a tool's name, then the figure's
//! name and unit as that tool prints it. docs/numbers.md describes every column.

use super::iostat::Shown;
use crate::record::os::HostSeen;
use crate::record::{Run, Second};
use crate::stats::os::{Counts, DeviceUse, Interval};

type Figure = Box<dyn Fn(&Interval) -> Option<f64>>;

/// Columns of one host.
struct Columns<'a> {
    seen: Option<&'a HostSeen>,
    figures: Vec<(String, Figure)>,
}

/// The names of all columns, and the fields of a second.
pub struct OsColumns<'a>(Vec<Columns<'a>>);

impl<'a> OsColumns<'a> {
    /// The database's host, whether it was seen or not; petal's own where that is another one.
    pub fn of(run: &'a Run) -> Self {
        let mut hosts = vec![Columns::of(run.database_host(), "")];
        let own = run.details.os.as_ref().filter(|_| !run.details.target.local);
        hosts.extend(own.map(|seen| Columns::of(Some(seen), "petal-host.")));
        Self(hosts)
    }

    pub fn names(&self) -> impl Iterator<Item = String> {
        self.0.iter().flat_map(|host| host.figures.iter().map(|(name, _)| name.clone()))
    }

    pub fn fields(&self, second: &Second) -> impl Iterator<Item = Option<String>> {
        self.0.iter().flat_map(|host| {
            // As everywhere, a short rest of a second is none.
            let interval = host.seen.filter(|_| second.length_s > 0.5);
            let interval = interval.and_then(|seen| seen.second(second.from_s, second.length_s));
            host.figures
                .iter()
                .map(move |(_, figure)| figure(interval?).map(|value| format!("{value:.3}")))
        })
    }
}

impl<'a> Columns<'a> {
    fn of(seen: Option<&'a HostSeen>, prefix: &str) -> Self {
        let mut figures = processors();
        figures.extend(tasks_and_memory());
        figures.extend(pressure());
        figures.extend(network());
        figures.extend(processes());
        let devices = seen.into_iter().flat_map(|seen| seen.whole.sum.devices.iter().flatten());
        devices.for_each(|device| figures.extend(iostat(&device.name)));
        let figures = figures.into_iter().map(|(name, figure)| (format!("{prefix}{name}"), figure));
        Self { seen, figures: figures.collect() }
    }
}

fn column(name: &str, figure: impl Fn(&Interval) -> Option<f64> + 'static) -> (String, Figure) {
    (name.to_owned(), Box::new(figure))
}

/// A count as a rate, in units of so many.
fn per_second(name: &str, unit: f64, count: fn(&Counts) -> Option<u64>) -> (String, Figure) {
    column(name, move |interval| interval.per_second(count(&interval.counts), unit))
}

fn processors() -> Vec<(String, Figure)> {
    // mpstat's order; the kernel's is another.
    const STATES: [(&str, usize); 8] = [
        ("%usr", 0),
        ("%nice", 1),
        ("%sys", 2),
        ("%iowait", 4),
        ("%irq", 5),
        ("%soft", 6),
        ("%steal", 7),
        ("%idle", 3),
    ];
    let mut columns: Vec<(String, Figure)> = STATES
        .map(|(name, at)| {
            column(&format!("mpstat.{name}"), move |interval| {
                Some(interval.cpus.host?.percents()?[at])
            })
        })
        .into();
    columns.push(column("mpstat.busiest.CPU", |interval| Some(f64::from(interval.busiest_cpu?.0))));
    columns.push(column("mpstat.busiest.%busy", |interval| Some(interval.busiest_cpu?.1)));
    columns
}

fn tasks_and_memory() -> Vec<(String, Figure)> {
    let kib = |bytes: Option<u64>| Some(bytes? as f64 / 1024.0);
    let number = |value: Option<u64>| Some(value? as f64);
    vec![
        column("vmstat.r", move |i| number(i.gauges.running)),
        column("vmstat.b", move |i| number(i.gauges.blocked)),
        column("vmstat.swpd", move |i| kib(i.gauges.swap_used_bytes)),
        column("vmstat.free", move |i| kib(i.gauges.free_bytes)),
        column("vmstat.buff", move |i| kib(i.gauges.buffers_bytes)),
        column("vmstat.cache", move |i| kib(i.gauges.cached_bytes)),
        per_second("vmstat.si", 1024.0, |c| c.swap_in_bytes),
        per_second("vmstat.so", 1024.0, |c| c.swap_out_bytes),
        per_second("vmstat.in", 1.0, |c| c.interrupts),
        per_second("vmstat.cs", 1.0, |c| c.context_switches),
        column("meminfo.MemAvailable", move |i| kib(i.gauges.available_bytes)),
        column("meminfo.Dirty", move |i| kib(i.gauges.dirty_bytes)),
        column("meminfo.Writeback", move |i| kib(i.gauges.writeback_bytes)),
        per_second("sar.majflt/s", 1.0, |c| c.major_faults),
    ]
}

/// In per cent of the time.
fn pressure() -> Vec<(String, Figure)> {
    const US_PER_PERCENT: f64 = 1e4;
    vec![
        per_second("psi.cpu.some", US_PER_PERCENT, |c| c.cpu_some_us),
        per_second("psi.cpu.full", US_PER_PERCENT, |c| c.cpu_full_us),
        per_second("psi.io.some", US_PER_PERCENT, |c| c.io_some_us),
        per_second("psi.io.full", US_PER_PERCENT, |c| c.io_full_us),
        per_second("psi.memory.some", US_PER_PERCENT, |c| c.memory_some_us),
        per_second("psi.memory.full", US_PER_PERCENT, |c| c.memory_full_us),
    ]
}

fn network() -> Vec<(String, Figure)> {
    vec![
        per_second("sar.rxpck/s", 1.0, |c| c.received_packets),
        per_second("sar.txpck/s", 1.0, |c| c.sent_packets),
        per_second("sar.rxkB/s", 1024.0, |c| c.received_bytes),
        per_second("sar.txkB/s", 1024.0, |c| c.sent_bytes),
        per_second("sar.rxerr/s", 1.0, |c| c.receive_errors),
        per_second("sar.txerr/s", 1.0, |c| c.send_errors),
        per_second("sar.retrans/s", 1.0, |c| c.resent_segments),
    ]
}

/// In per cent of one processor, as pidstat does.
fn processes() -> Vec<(String, Figure)> {
    const US_PER_PERCENT: f64 = 1e4;
    vec![
        per_second("petal.%CPU", US_PER_PERCENT, |c| c.petal_cpu_us),
        per_second("server.%CPU", US_PER_PERCENT, |c| c.server_cpu_us),
        per_second("log_writer.%CPU", US_PER_PERCENT, |c| c.log_writer_cpu_us),
        per_second("cgroup.%CPU", US_PER_PERCENT, |c| c.group_used_us),
        column("cgroup.nr_throttled", |i| Some(i.counts.group_throttled_periods? as f64)),
        column("cgroup.throttled_ms", |i| Some(i.counts.group_throttled_us? as f64 / 1000.0)),
    ]
}

fn iostat(device: &str) -> Vec<(String, Figure)> {
    type Of = fn(&Shown) -> Option<f64>;
    let figures: [(&str, Of); 11] = [
        ("r/s", |d| d.reads),
        ("rkB/s", |d| d.read_kib),
        ("rrqm/s", |d| d.read_merges),
        ("r_await", |d| d.read_await_ms),
        ("w/s", |d| d.writes),
        ("wkB/s", |d| d.write_kib),
        ("wrqm/s", |d| d.write_merges),
        ("w_await", |d| d.write_await_ms),
        ("f/s", |d| d.flushes),
        ("aqu-sz", |d| d.queue),
        ("%util", |d| d.util_percent),
    ];
    let mut columns: Vec<(String, Figure)> = figures
        .map(|(name, of)| {
            let wanted = device.to_owned();
            column(&format!("iostat.{device}.{name}"), move |interval| {
                of(&Shown::of(find(interval, &wanted)?, interval.seconds))
            })
        })
        .into();
    let wanted = device.to_owned();
    columns.push(column(&format!("iostat.{device}.in_flight"), move |interval| {
        Some(find(interval, &wanted)?.in_flight as f64)
    }));
    columns
}

fn find<'a>(interval: &'a Interval, device: &str) -> Option<&'a DeviceUse> {
    interval.devices.as_ref()?.iter().find(|known| known.name == device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn every_column_is_described() {
        let docs = include_str!("../../docs/numbers.md");
        let run = fixture::mixed_run();
        for name in OsColumns::of(&run).names() {
            let (tool, figure) = name.split_once('.').unwrap();
            let figure = figure.rsplit('.').next().unwrap();
            // Ranges are told by their ends.
            let is_state = ["mpstat", "psi"].contains(&tool) || figure.ends_with("/s");
            assert!(is_state || docs.contains(figure), "{name} is not in docs/numbers.md");
            assert!(docs.contains(tool), "{name} is not in docs/numbers.md");
        }
    }

    #[test]
    fn a_remote_databases_host_and_petals_own_have_columns_each() {
        let mut run = fixture::mixed_run();
        run.details.target.local = false;
        run.details.server_os = run.details.os.clone();
        let columns = OsColumns::of(&run);
        let names: Vec<String> = columns.names().collect();
        let fields: Vec<_> = columns.fields(&run.details.timeline[3]).collect();
        assert_eq!(names.len(), fields.len());
        let field = |name: &str| {
            fields[names.iter().position(|known| known == name).unwrap()].clone().unwrap()
        };
        assert_eq!(
            (field("vmstat.b"), field("petal-host.vmstat.b")),
            ("5.000".into(), "5.000".into())
        );
        let short = Second { length_s: 0.2, ..run.details.timeline[3].clone() };
        assert!(columns.fields(&short).all(|field| field.is_none()));
    }

    #[test]
    fn figures_are_rates_and_shares_of_the_second() {
        let run = fixture::mixed_run();
        let columns = OsColumns::of(&run);
        let shown: Vec<String> = columns
            .names()
            .zip(columns.fields(&run.details.timeline[0]))
            .filter_map(|(name, field)| Some(format!("{name}={}", field?)))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @"
        mpstat.%usr=20.000
        mpstat.%nice=0.000
        mpstat.%sys=5.000
        mpstat.%iowait=30.000
        mpstat.%irq=0.500
        mpstat.%soft=19.000
        mpstat.%steal=0.500
        mpstat.%idle=25.000
        mpstat.busiest.CPU=0.000
        mpstat.busiest.%busy=49.000
        vmstat.r=2.000
        vmstat.b=5.000
        vmstat.swpd=0.000
        vmstat.free=2097152.000
        vmstat.buff=44032.000
        vmstat.cache=20971520.000
        vmstat.si=0.000
        vmstat.so=0.000
        vmstat.in=61000.000
        vmstat.cs=122000.000
        meminfo.MemAvailable=23068672.000
        meminfo.Dirty=64.000
        meminfo.Writeback=0.000
        sar.majflt/s=0.000
        psi.cpu.some=12.000
        psi.cpu.full=0.000
        psi.io.some=93.000
        psi.io.full=41.000
        psi.memory.some=0.000
        psi.memory.full=0.000
        petal.%CPU=42.000
        iostat.vda.r/s=58500.000
        iostat.vda.rkB/s=468000.000
        iostat.vda.rrqm/s=3.000
        iostat.vda.r_await=0.067
        iostat.vda.w/s=540.000
        iostat.vda.wkB/s=92430.000
        iostat.vda.wrqm/s=7.000
        iostat.vda.w_await=0.556
        iostat.vda.f/s=180.000
        iostat.vda.aqu-sz=4.200
        iostat.vda.%util=97.000
        iostat.vda.in_flight=8.000
        ");
    }
}
