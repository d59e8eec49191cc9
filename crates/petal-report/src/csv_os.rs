//! The columns of `timeline.csv` that the operating system fills: a tool's name, then the figure's
//! name and unit as that tool prints it. docs/numbers.md describes every column.

use petal_host::os::iostat::DeviceRates;
use petal_host::os::{DeviceUse, OsInterval};
use petal_record::os::HostSeen;
use petal_record::os_figures::CpuPercents;
use petal_record::{Run, Second};

/// A figure of one interval, in the unit that its tool prints.
type OsFigure = fn(&OsInterval) -> Option<f64>;

const KIB: f64 = 1024.0;
/// Microseconds of a second in one percent of it.
const US_PER_PERCENT: f64 = 1e4;

fn processors(interval: &OsInterval) -> Option<CpuPercents> {
    CpuPercents::of(&interval.cpus.host?)
}

/// Columns of a host, except the columns of its devices. Processes are in percent of one processor,
/// as pidstat reports them.
const HOST: [(&str, OsFigure); 46] = [
    ("mpstat.%usr", |i| Some(processors(i)?.usr)),
    ("mpstat.%nice", |i| Some(processors(i)?.nice)),
    ("mpstat.%sys", |i| Some(processors(i)?.sys)),
    ("mpstat.%iowait", |i| Some(processors(i)?.iowait)),
    ("mpstat.%irq", |i| Some(processors(i)?.irq)),
    ("mpstat.%soft", |i| Some(processors(i)?.soft)),
    ("mpstat.%steal", |i| Some(processors(i)?.steal)),
    ("mpstat.%idle", |i| Some(processors(i)?.idle)),
    ("mpstat.busiest.CPU", |i| Some(f64::from(i.busiest_cpu?.0))),
    ("mpstat.busiest.%busy", |i| Some(i.busiest_cpu?.1)),
    ("vmstat.r", |i| Some(i.gauges.running? as f64)),
    ("vmstat.b", |i| Some(i.gauges.blocked? as f64)),
    ("vmstat.swpd", |i| Some(i.gauges.swap_used_bytes? as f64 / KIB)),
    ("vmstat.free", |i| Some(i.gauges.free_bytes? as f64 / KIB)),
    ("vmstat.buff", |i| Some(i.gauges.buffers_bytes? as f64 / KIB)),
    ("vmstat.cache", |i| Some(i.gauges.cached_bytes? as f64 / KIB)),
    ("vmstat.si", |i| i.per_second(i.counts.swap_in_bytes, KIB)),
    ("vmstat.so", |i| i.per_second(i.counts.swap_out_bytes, KIB)),
    ("vmstat.in", |i| i.per_second(i.counts.interrupts, 1.0)),
    ("vmstat.cs", |i| i.per_second(i.counts.context_switches, 1.0)),
    ("meminfo.MemAvailable", |i| Some(i.gauges.available_bytes? as f64 / KIB)),
    ("meminfo.Dirty", |i| Some(i.gauges.dirty_bytes? as f64 / KIB)),
    ("meminfo.Writeback", |i| Some(i.gauges.writeback_bytes? as f64 / KIB)),
    ("sar.majflt/s", |i| i.per_second(i.counts.major_faults, 1.0)),
    ("psi.cpu.some", |i| i.per_second(i.counts.cpu_some_us, US_PER_PERCENT)),
    ("psi.cpu.full", |i| i.per_second(i.counts.cpu_full_us, US_PER_PERCENT)),
    ("psi.io.some", |i| i.per_second(i.counts.io_some_us, US_PER_PERCENT)),
    ("psi.io.full", |i| i.per_second(i.counts.io_full_us, US_PER_PERCENT)),
    ("psi.memory.some", |i| i.per_second(i.counts.memory_some_us, US_PER_PERCENT)),
    ("psi.memory.full", |i| i.per_second(i.counts.memory_full_us, US_PER_PERCENT)),
    ("sar.rxpck/s", |i| i.per_second(i.counts.received_packets, 1.0)),
    ("sar.txpck/s", |i| i.per_second(i.counts.sent_packets, 1.0)),
    ("sar.rxkB/s", |i| i.per_second(i.counts.received_bytes, KIB)),
    ("sar.txkB/s", |i| i.per_second(i.counts.sent_bytes, KIB)),
    ("sar.rxerr/s", |i| i.per_second(i.counts.receive_errors, 1.0)),
    ("sar.txerr/s", |i| i.per_second(i.counts.send_errors, 1.0)),
    ("sar.retrans/s", |i| i.per_second(i.counts.resent_segments, 1.0)),
    ("petal.%CPU", |i| i.per_second(i.counts.petal_cpu_us, US_PER_PERCENT)),
    ("server.%CPU", |i| i.per_second(i.counts.server_cpu_us, US_PER_PERCENT)),
    ("log_writer.%CPU", |i| i.per_second(i.counts.log_writer_cpu_us, US_PER_PERCENT)),
    ("cgroup.%CPU", |i| i.per_second(i.counts.group_used_us, US_PER_PERCENT)),
    ("cgroup.nr_throttled", |i| Some(i.counts.group_throttled_periods? as f64)),
    ("cgroup.throttled_ms", |i| Some(i.counts.group_throttled_us? as f64 / 1e3)),
    ("petal.cgroup.%CPU", |i| i.per_second(i.counts.petal_group_used_us, US_PER_PERCENT)),
    ("petal.cgroup.nr_throttled", |i| Some(i.counts.petal_group_throttled_periods? as f64)),
    ("petal.cgroup.throttled_ms", |i| Some(i.counts.petal_group_throttled_us? as f64 / 1e3)),
];

/// A figure by the name of its column.
pub(super) fn figure(name: &str, interval: &OsInterval) -> Option<f64> {
    HOST.iter().find(|(known, _)| *known == name).and_then(|(_, figure)| figure(interval))
}

/// A figure of one device, from its counts or from the rates that iostat makes of them.
type DeviceFigure = fn(&DeviceUse, &DeviceRates) -> Option<f64>;

/// Columns of one of its devices.
const DEVICE: [(&str, DeviceFigure); 12] = [
    ("r/s", |_, d| d.reads),
    ("rkB/s", |_, d| d.read_kib),
    ("rrqm/s", |_, d| d.read_merges),
    ("r_await", |_, d| d.read_await_ms),
    ("w/s", |_, d| d.writes),
    ("wkB/s", |_, d| d.write_kib),
    ("wrqm/s", |_, d| d.write_merges),
    ("w_await", |_, d| d.write_await_ms),
    ("f/s", |_, d| d.flushes),
    ("aqu-sz", |_, d| d.queue),
    ("%util", |_, d| d.util_percent),
    ("in_flight", |device, _| Some(device.in_flight as f64)),
];

struct HostColumns<'a> {
    seen: Option<&'a HostSeen>,
    /// Prefix of each of its names.
    prefix: &'static str,
}

/// The names of all columns, and the fields of a second.
pub struct OsColumns<'a>(Vec<HostColumns<'a>>);

impl<'a> OsColumns<'a> {
    /// Columns of the database's host, whether it was seen or not; and of petal's own, if that is
    /// a different one.
    pub fn of(run: &'a Run) -> Self {
        let mut hosts = vec![HostColumns { seen: run.database_host(), prefix: "" }];
        let own = run.details.os.as_ref().filter(|_| !run.details.target.local);
        hosts.extend(own.map(|seen| HostColumns { seen: Some(seen), prefix: "petal-host." }));
        Self(hosts)
    }

    pub fn names(&self) -> impl Iterator<Item = String> {
        self.0.iter().flat_map(|host| {
            let of_host = HOST.iter().map(|(name, _)| (*name).to_owned());
            let of_devices = host.devices().flat_map(|device| {
                DEVICE.iter().map(move |(name, _)| format!("iostat.{device}.{name}"))
            });
            of_host.chain(of_devices).map(|name| format!("{}{name}", host.prefix))
        })
    }

    pub fn fields(&self, second: &Second) -> impl Iterator<Item = Option<String>> {
        self.0.iter().flat_map(|host| {
            // As everywhere, a short rest of a second does not count.
            let seen = host.seen.filter(|_| second.length_s > 0.5);
            let interval = seen.and_then(|seen| seen.second(second.from_s, second.length_s));
            let of_host = HOST.iter().map(move |(_, figure)| figure(interval?));
            let of_devices = host.devices().flat_map(move |name| {
                let device = interval.and_then(|interval| find(interval, name));
                DEVICE.iter().map(move |(_, figure)| {
                    let (device, seconds) = device?;
                    figure(device, &DeviceRates::of(device, seconds))
                })
            });
            of_host.chain(of_devices).map(|value| Some(format!("{:.3}", value?)))
        })
    }
}

impl HostColumns<'_> {
    /// The names of the devices that it was seen with.
    fn devices(&self) -> impl Iterator<Item = &str> {
        let devices =
            self.seen.into_iter().flat_map(|seen| seen.whole.sum.devices.iter().flatten());
        devices.map(|device| device.name.as_str())
    }
}

/// Returns an interval's figures of a device, and its seconds.
fn find<'a>(interval: &'a OsInterval, name: &str) -> Option<(&'a DeviceUse, f64)> {
    let device = interval.devices.as_ref()?.iter().find(|known| known.name == name)?;
    Some((device, interval.seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn every_column_is_described() {
        let docs = include_str!("../../../docs/numbers.md");
        let run = fixture::mixed_run();
        for name in OsColumns::of(&run).names() {
            let (tool, figure) = name.split_once('.').unwrap();
            let figure = figure.rsplit('.').next().unwrap();
            // Ranges are reported by their ends.
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
