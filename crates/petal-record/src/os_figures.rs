//! Figures of the operating system: rates, shares and ranges made from the raw sums of
//! [`HostSeen`], under the names of iostat, mpstat, vmstat and sar. The text report and `--json`
//! show the same figures. Unknown figures are `None`, never 0.

use serde::{Deserialize, Serialize};

use super::Run;
use super::os::HostSeen;
use petal_host::histogram::LatencySummary;
use petal_host::os::calls::{CallKind, CalledFiles, ServerCalls};
use petal_host::os::iostat::DeviceRates;
use petal_host::os::requests::{RequestKind, RequestTimes, Requests};
use petal_host::os::time_buckets::GroupTimes as _;
use petal_host::os::{CpuTicks, GaugeRanges, OsInterval};

/// Both hosts of a run; petal's own only if the database is on another one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OsFigures {
    /// The host that the database runs on.
    pub database_host: Option<HostFigures>,
    pub petal_host: Option<HostFigures>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFigures {
    /// The host's own name.
    pub host: String,
    /// The file of `petal os` it was read from; null if petal watched the host itself.
    pub file: Option<String>,
    /// The seconds that the figures cover.
    pub seconds: f64,
    pub processors: Processors,
    /// Devices that hold the data, then the disks below them; null if a device of the data cannot
    /// be read, or the data has no device.
    pub devices: Option<Vec<DeviceFigures>>,
    /// Times of single requests, over the whole run and over its counted window; null if they were
    /// not timed, or without such a window.
    pub requests: Option<RequestFigures>,
    pub steady_requests: Option<RequestFigures>,
    /// Why they were not timed, if that is known.
    pub requests_unseen: Option<String>,
    /// Times of the server's own calls, likewise.
    pub calls: Option<CallFigures>,
    pub steady_calls: Option<CallFigures>,
    pub calls_unseen: Option<String>,
    /// Tasks and memory at each second's end: bytes, and counts of tasks.
    pub gauges: GaugeRanges,
    pub per_second: HostRates,
    pub pressure_percent: Pressure,
    /// Null if the network does not carry the work, or was not watched.
    pub network: Option<Network>,
    /// Processors' worth of time: petal's process, the server's, and the log writer's part of it.
    pub petal_processors: Option<f64>,
    pub server_processors: Option<f64>,
    pub log_writer_processors: Option<f64>,
    /// The control group with the lowest limit for the database, and the one with the lowest limit
    /// for petal; null without a limit.
    pub group: Option<GroupFigures>,
    pub petal_group: Option<GroupFigures>,
    /// The last sample before the run, when the host should have been idle.
    pub before: Option<Before>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Processors {
    /// Number of processors of the host.
    pub count: Option<u64>,
    /// Processors that the database may use, by number; null if unknown.
    pub allowed_cpus: Option<Vec<u32>>,
    pub all: Option<CpuPercents>,
    pub allowed: Option<CpuPercents>,
    /// The busiest processor that the database may use, and its 100 - idle - iowait.
    pub busiest_cpu: Option<u32>,
    pub busiest_percent: Option<f64>,
}

/// mpstat's columns; guest time is in `usr` and `nice`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuPercents {
    pub usr: f64,
    pub nice: f64,
    pub sys: f64,
    pub iowait: f64,
    pub irq: f64,
    pub soft: f64,
    pub steal: f64,
    pub idle: f64,
}

impl CpuPercents {
    /// None if no tick has passed.
    pub fn of(ticks: &CpuTicks) -> Option<Self> {
        // The kernel's order differs from mpstat's.
        let [usr, nice, sys, idle, iowait, irq, soft, steal] = ticks.percents()?;
        Some(Self { usr, nice, sys, iowait, irq, soft, steal, idle })
    }

    /// Percentages in mpstat's order.
    pub fn columns(&self) -> [f64; 8] {
        let Self { usr, nice, sys, iowait, irq, soft, steal, idle } = *self;
        [usr, nice, sys, iowait, irq, soft, steal, idle]
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceFigures {
    /// Name in /proc/diskstats.
    pub name: String,
    /// False for a disk below: it is reported for comparison, and not added up.
    pub data: bool,
    #[serde(flatten)]
    pub shown: DeviceRates,
}

/// Times of single requests, by device and kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestFigures {
    pub rows: Vec<RequestRow>,
    /// Requests without a time: their end was missed, or too many were in flight.
    pub lost: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestRow {
    /// Name in /proc/diskstats.
    pub device: String,
    pub kind: RequestKind,
    pub issued_by: Issuer,
    /// Time from issue to completion: the device's own.
    pub service_us: LatencySummary,
    /// Time from the start of the request to its issue.
    pub queue_us: LatencySummary,
    /// Time from start to completion.
    pub total_us: LatencySummary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Issuer {
    All,
    Database,
    Others,
}

impl Issuer {
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Database => "database",
            Self::Others => "others",
        }
    }

    fn is_of(self, times: &RequestTimes) -> bool {
        match self {
            Self::All => true,
            Self::Database => times.of_database == Some(true),
            Self::Others => times.of_database == Some(false),
        }
    }
}

impl RequestFigures {
    pub fn of(requests: &Requests) -> Self {
        let mut groups: Vec<(&str, RequestKind)> =
            requests.times.iter().map(|times| (times.device.as_str(), times.kind)).collect();
        groups.sort_unstable();
        groups.dedup();
        let rows = groups.iter().flat_map(|&(device, kind)| {
            let of_group =
                requests.times.iter().filter(move |t| t.device == device && t.kind == kind);
            [Issuer::All, Issuer::Database, Issuer::Others].into_iter().filter_map(
                move |issued_by| {
                    let each = of_group.clone().filter(|times| issued_by.is_of(times)).cloned();
                    each.reduce(|sum, times| sum.plus(&times)).map(|times| RequestRow {
                        device: times.device,
                        kind,
                        issued_by,
                        service_us: times.service.summary(),
                        queue_us: times.queue.summary(),
                        total_us: times.total.summary(),
                    })
                },
            )
        });
        Self { rows: rows.collect(), lost: requests.lost }
    }
}

/// Times of a server's calls that read, write and sync files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallFigures {
    pub rows: Vec<CallRow>,
    /// Calls without a time: more were in progress than the kernel's table holds.
    pub lost: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRow {
    pub call: CallKind,
    pub files: CalledFiles,
    pub time_us: LatencySummary,
}

impl CallFigures {
    pub fn of(calls: &ServerCalls) -> Self {
        let mut rows: Vec<CallRow> = calls
            .times
            .iter()
            .map(|times| CallRow {
                call: times.call,
                files: times.files,
                time_us: times.time.summary(),
            })
            .collect();
        rows.sort_by_key(|row| (row.files, row.call));
        Self { rows, lost: calls.lost }
    }
}

/// Counts per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct HostRates {
    pub interrupts: Option<f64>,
    pub context_switches: Option<f64>,
    pub swap_in_bytes: Option<f64>,
    pub swap_out_bytes: Option<f64>,
    pub major_faults: Option<f64>,
}

/// Shares of the time in which some task, or all tasks that were not idle, waited for it, percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    pub cpu_some: Option<f64>,
    pub cpu_full: Option<f64>,
    pub io_some: Option<f64>,
    pub io_full: Option<f64>,
    pub memory_some: Option<f64>,
    pub memory_full: Option<f64>,
}

/// Rates per second over all interfaces with hardware behind them; errors and segments are counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    pub received_packets: Option<f64>,
    pub received_bytes: Option<f64>,
    pub receive_errors: Option<u64>,
    pub sent_packets: Option<f64>,
    pub sent_bytes: Option<f64>,
    pub send_errors: Option<u64>,
    pub sent_segments: Option<u64>,
    pub resent_segments: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupFigures {
    /// Processors' worth of time that it allows, and the file with that limit.
    pub granted_processors: f64,
    pub file: Option<String>,
    pub used_processors: Option<f64>,
    /// Periods in which it ran, periods in which it was throttled, and the throttled time.
    pub periods: Option<u64>,
    pub throttled_periods: Option<u64>,
    pub throttled_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Before {
    /// Processors' worth of time at work.
    pub working_processors: Option<f64>,
    /// Requests per second at the data's devices.
    pub device_requests: Option<f64>,
}

impl OsFigures {
    /// None if no host was watched.
    pub fn of(run: &Run) -> Option<Self> {
        let own = run.details.os.as_ref().filter(|_| !run.details.target.local);
        let (database, own) = (run.database_host(), own);
        let figures = |seen: &HostSeen| {
            let steady = run.summary.steady.as_ref();
            let window = steady.map(|steady| seen.within(steady.from_s, steady.to_s).sum);
            let (requests, calls) = window.map_or((None, None), |sum| (sum.requests, sum.calls));
            HostFigures {
                steady_requests: requests.as_ref().map(RequestFigures::of),
                steady_calls: calls.as_ref().map(CallFigures::of),
                ..HostFigures::of(seen)
            }
        };
        (database.is_some() || own.is_some())
            .then(|| Self { database_host: database.map(figures), petal_host: own.map(figures) })
    }
}

impl HostFigures {
    pub fn of(seen: &HostSeen) -> Self {
        let sum = &seen.whole.sum;
        let counts = &sum.counts;
        let per = |count: Option<u64>| sum.per_second(count, 1.0);
        let processors = |us: Option<u64>| sum.per_second(us, 1e6);
        let share = |us: Option<u64>| sum.per_second(us, 1e4);
        let seconds = |us: Option<u64>| us.map(|us| us as f64 / 1e6);
        Self {
            host: seen.host.clone(),
            file: seen.file.clone(),
            seconds: sum.seconds,
            processors: Processors {
                count: seen.processors().map(|count| count as u64),
                allowed_cpus: seen.allowed_cpus.clone(),
                all: sum.cpus.host.as_ref().and_then(CpuPercents::of),
                allowed: sum.cpus.allowed.as_ref().and_then(CpuPercents::of),
                busiest_cpu: sum.busiest_cpu.map(|(cpu, _)| cpu),
                busiest_percent: sum.busiest_cpu.map(|(_, busy)| busy),
            },
            devices: sum.devices.as_ref().map(|all| {
                let figures = all.iter().map(|device| DeviceFigures {
                    name: device.name.clone(),
                    data: device.data,
                    shown: DeviceRates::of(device, sum.seconds),
                });
                figures.collect()
            }),
            requests: sum.requests.as_ref().map(RequestFigures::of),
            steady_requests: None,
            requests_unseen: seen.requests_unseen.clone(),
            calls: sum.calls.as_ref().map(CallFigures::of),
            steady_calls: None,
            calls_unseen: seen.calls_unseen.clone(),
            gauges: seen.whole.ranges,
            per_second: HostRates {
                interrupts: per(counts.interrupts),
                context_switches: per(counts.context_switches),
                swap_in_bytes: per(counts.swap_in_bytes),
                swap_out_bytes: per(counts.swap_out_bytes),
                major_faults: per(counts.major_faults),
            },
            pressure_percent: Pressure {
                cpu_some: share(counts.cpu_some_us),
                cpu_full: share(counts.cpu_full_us),
                io_some: share(counts.io_some_us),
                io_full: share(counts.io_full_us),
                memory_some: share(counts.memory_some_us),
                memory_full: share(counts.memory_full_us),
            },
            network: Network::of(sum),
            petal_processors: processors(counts.petal_cpu_us),
            server_processors: processors(counts.server_cpu_us),
            log_writer_processors: processors(counts.log_writer_cpu_us),
            group: seen.group_quota.map(|granted_processors| GroupFigures {
                granted_processors,
                file: seen.group_file.clone(),
                used_processors: processors(counts.group_used_us),
                periods: counts.group_periods,
                throttled_periods: counts.group_throttled_periods,
                throttled_s: seconds(counts.group_throttled_us),
            }),
            petal_group: seen.petal_group.as_ref().map(|limit| GroupFigures {
                granted_processors: limit.processors,
                file: Some(limit.file.clone()),
                used_processors: processors(counts.petal_group_used_us),
                periods: counts.petal_group_periods,
                throttled_periods: counts.petal_group_throttled_periods,
                throttled_s: seconds(counts.petal_group_throttled_us),
            }),
            before: seen.before.as_ref().map(|before| {
                let device = before.device();
                let requests = device.map(|device| device.read_requests + device.write_requests);
                Before {
                    working_processors: before.working_processors(),
                    device_requests: before.per_second(requests, 1.0),
                }
            }),
        }
    }
}

impl Network {
    fn of(sum: &OsInterval) -> Option<Self> {
        let counts = &sum.counts;
        let per = |count: Option<u64>| sum.per_second(count, 1.0);
        (counts.received_bytes.is_some() || counts.sent_segments.is_some()).then(|| Self {
            received_packets: per(counts.received_packets),
            received_bytes: per(counts.received_bytes),
            receive_errors: counts.receive_errors,
            sent_packets: per(counts.sent_packets),
            sent_bytes: per(counts.sent_bytes),
            send_errors: counts.send_errors,
            sent_segments: counts.sent_segments,
            resent_segments: counts.resent_segments,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn rates_are_sums_over_their_seconds() {
        let run = fixture::mixed_run();
        let figures = OsFigures::of(&run).unwrap();
        assert_eq!(figures.petal_host, None);
        let host = figures.database_host.unwrap();
        let sum = &run.details.os.as_ref().unwrap().whole.sum;
        assert_eq!(host.seconds, sum.seconds);
        let interrupts = sum.counts.interrupts.unwrap() as f64 / sum.seconds;
        assert_eq!(host.per_second.interrupts, Some(interrupts));
        let reads = sum.devices.as_ref().unwrap()[0].counts.read_requests as f64 / sum.seconds;
        assert_eq!(host.devices.unwrap()[0].shown.reads, Some(reads));
        let all: f64 = host.processors.all.unwrap().columns().iter().sum();
        assert!((all - 100.0).abs() < 1e-6, "{all}");
        let io_some = sum.counts.io_some_us.unwrap() as f64 / 1e4 / sum.seconds;
        assert!((host.pressure_percent.io_some.unwrap() - io_some).abs() < 1e-9);
        assert_eq!((host.network, host.group), (None, None));
    }

    #[test]
    fn requests_have_percentiles_by_kind_and_process() {
        let mut run = fixture::mixed_run();
        fixture::time_requests(&mut run);
        let host = OsFigures::of(&run).unwrap().database_host.unwrap();
        let rows = host.requests.unwrap().rows;
        let shown = |at: usize| (rows[at].kind.name(), rows[at].issued_by.name());
        assert_eq!([shown(0), shown(1)], [("read", "all"), ("read", "database")]);
        assert_eq!([shown(2), shown(3)], [("write", "all"), ("write", "others")]);
        let seconds = run.details.os.as_ref().unwrap().seconds.len() as u64;
        assert_eq!(rows[0].service_us.count, 1000 * seconds);
        assert_eq!((rows[0].service_us.p50, rows[0].service_us.p99), (Some(100.5), Some(900.5)));
        assert_eq!((rows[0].queue_us.count, rows[0].queue_us.p50), (1000 * seconds, Some(0.5)));
        assert_eq!(rows[0].total_us.p99_9, Some(900.5));
        let steady = host.steady_requests.unwrap().rows;
        assert!(steady[0].service_us.count < 1000 * seconds, "the counted window is shorter");
        let calls = host.calls.unwrap().rows;
        assert_eq!((calls[0].call, calls[0].files), (CallKind::Read, CalledFiles::Data));
        assert_eq!((calls[1].call, calls[1].files), (CallKind::Sync, CalledFiles::Log));
        assert_eq!((calls[0].time_us.count, calls[0].time_us.p99), (500 * seconds, Some(120.5)));
        assert!(host.steady_calls.unwrap().rows[0].time_us.count < 500 * seconds);
    }

    #[test]
    fn an_unwatched_host_has_no_figures() {
        let mut run = fixture::mixed_run();
        run.details.os = None;
        assert_eq!(OsFigures::of(&run), None);
        let nothing = HostFigures::of(&HostSeen::default());
        assert_eq!(nothing.per_second, HostRates::default());
        assert_eq!((nothing.devices, nothing.processors.all), (None, None));
    }
}
