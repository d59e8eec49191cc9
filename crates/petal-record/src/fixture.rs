//! A hand-built run for tests: eight sessions on four SQLite schemas for a minute, one UPDATE in
//! five, a checkpoint every ten seconds, all figures derived from the same seconds.

// Only tests use it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::calibration::{Calibration, CurvePoint, MIX, READ, WRITE};
use super::figures;
use super::input::Lines;
use super::latency_log::LatencyLog;
use super::os::{HostSeen, SecondSeen};
use super::replay::ReplayOf;
use super::seconds::{self, Opening, SecondsFile, SecondsLine};
use super::sweep::{Axis, Sweep, SweepCell, SweepPlan, Swept};
use super::{
    EndpointShare, HookCall, HookValue, IntervalTotals, Ops, RecordFolder, Rows, Run, Second,
    SessionLost, SettleTimes, Status, Steady, WaitHistogram,
};
use crate::counters::{FileCounts, IoCounts, Wait, WaitClass, WaitSource};
use crate::target::{
    Advice, DirectIo, Durability, IoEvents, LoadedSchema, PlanCheck, Settled, Target, TargetDetails,
};
use petal_host::histogram::{Latencies, LatencySummary};
use petal_host::host::{HostDevice, HostFacts};
use petal_host::os::calls::{CallKind, CallTimes, CalledFiles, ServerCalls};
use petal_host::os::requests::{RequestKind, RequestTimes, Requests};
use petal_host::os::threads::{StateTimes, ThreadRole, ThreadState, ThreadTimes};
use petal_host::os::time_buckets::TimeBuckets;
use petal_host::os::{
    Counts, CpuShare, CpuTicks, Cpus, DeviceCounts, DeviceUse, Gauges, OsInterval, Whole,
};
use petal_settings::{GivenParameter, Origin};

const BLOCK: u64 = 8192;
const WORK_UNIT: u64 = 64;
pub const SECONDS: u64 = 60;

/// The run as known before the trigger.
pub fn opening() -> Run {
    let target = Target {
        product: "SQLite".into(),
        version: "3.54.1".into(),
        block_size: BLOCK,
        cache_bytes: Some(8 * 384 * 1024),
        url: "sqlite:petal-data".into(),
    };
    let mut run = Run::begin("sqlite", target);
    let summary = &mut run.summary;
    summary.sessions = 8;
    summary.schemas = 4;
    summary.active_bytes = 4 * 64 * 1024 * 1024;
    summary.seed = 0x5eed_0000_0000_0001;
    summary.started_at = "2026-11-20T13:42:07Z".into();
    summary.settle = Some(SettleTimes {
        seconds: 1.25,
        dirty_bytes_before: Some(9 << 20),
        dirty_bytes_after: Some(64 << 10),
    });
    let given = given();
    summary.settings =
        given.iter().map(|given| (given.key.to_lowercase(), given.value.clone())).collect();
    let details = &mut run.details;
    details.petal_version = "0.1.0".into();
    details.conf_file = Some("./slob.conf".into());
    details.given = given;
    details.repeat = 1;
    details.repeats = 1;
    details.host = Some(host());
    details.target = target_details();
    details.loaded = (1..=4).map(loaded).collect();
    details.active_rows = 8192;
    details.settled = Some(Settled {
        seconds: 1.25,
        dirty_bytes_before: Some(9 << 20),
        dirty_bytes_after: Some(64 << 10),
        done: vec!["checkpoint of 4 schemas".into(), "waited for an idle device".into()],
    });
    details.devices = vec!["vda".into()];
    details.os = Some(HostSeen {
        host: "dbhost".into(),
        allowed_cpus: Some(vec![0, 1]),
        before: Some(OsInterval { seconds: 0.5, ..idle() }),
        ..HostSeen::default()
    });
    details.connect_s = Some(0.042);
    details.data_bytes_before = Some(4 * 67_200_000);
    run
}

fn given() -> Vec<GivenParameter> {
    let row = |key: &str, value: Value, origin| GivenParameter { key: key.into(), value, origin };
    let file = |line| Origin::File(PathBuf::from("./slob.conf"), line);
    vec![
        row("UPDATE_PCT", json!(20), Origin::Flag),
        row("SCAN_PCT", json!(0), Origin::Default),
        row("RUN_TIME", json!(60), file(3)),
        row("WORK_LOOP", json!(0), Origin::Default),
        row("SCALE", json!(8192), Origin::Environment("SCALE".into())),
        row("WORK_UNIT", json!(64), Origin::Default),
        row("UPDATE_WORK_UNIT", json!(64), Origin::Default),
        row("REDO_STRESS", json!("LITE"), Origin::Default),
        row("THREADS_PER_SCHEMA", json!(2), Origin::Flag),
        row("READERS", Value::Null, Origin::Default),
        row("WRITERS", Value::Null, Origin::Default),
        row("PREFETCH", json!(0), Origin::Default),
        row("STORAGE_CACHE", Value::Null, Origin::Default),
        row("WARM_UP", json!(5), file(9)),
    ]
}

fn host() -> HostFacts {
    HostFacts {
        name: "dbhost".into(),
        kernel: "6.18.1".into(),
        cpus: 2,
        cpu_model: Some("Example CPU 3.0 GHz".into()),
        memory_bytes: Some(24 << 30),
        devices: vec![HostDevice {
            name: "vda".into(),
            model: Some("virtual disk".into()),
            file_system: Some("ext4".into()),
            scheduler: Some("none".into()),
            rotational: Some(false),
            write_cache: Some("write back".into()),
            size_bytes: Some(100 << 30),
            ..HostDevice::default()
        }],
        ..HostFacts::default()
    }
}

fn target_details() -> TargetDetails {
    TargetDetails {
        local: true,
        host_unseen: None,
        io_untimed: None,
        in_process: true,
        reads_by_faults: false,
        session_cache_bytes: None,
        settings: vec![
            ("journal_mode".into(), "wal".into()),
            ("synchronous".into(), "FULL".into()),
        ],
        data_files: vec!["petal-data".into()],
        server_files: Vec::new(),
        log_files: Vec::new(),
        pages_counted_late_bytes: 0,
        clock_resolution_ns: 1,
        io_events: IoEvents {
            read: "main read".into(),
            write: "checkpoint write".into(),
            log: "wal sync".into(),
            timed_by: "petal's VFS shim".into(),
        },
        plan: Some(PlanCheck {
            text: "SEARCH cf1 USING INDEX cf1_custid (custid>? AND custid<?)".into(),
            as_meant: true,
        }),
        compression_ratio: Some(48.5),
        direct_io: Some(DirectIo { asked: true, used: true, reason: None }),
        durability: Some(Durability { durable: true, setting: "synchronous=FULL".into() }),
        sync_per_commit: false,
        data_file_kind: Some("main".into()),
        notable_settings: Vec::new(),
        advice: Advice::default(),
        checkpoint: Some("by petal, at 64 MB of WAL".into()),
    }
}

fn loaded(number: u32) -> LoadedSchema {
    LoadedSchema {
        number,
        rows: 8192,
        scan_rows: 128,
        block_size: BLOCK,
        bytes: Some(67_108_864),
        index_bytes: Some(122_880),
        ..LoadedSchema::default()
    }
}

fn no_latencies() -> [(&'static str, Latencies); 2] {
    [("select", Latencies::new()), ("update", Latencies::new())]
}

/// Adds the latencies of one second, by kind.
fn record_latencies(into: &mut [(&'static str, Latencies); 2], index: u64, ops: &Ops) {
    let mut spread = |kind: usize, count: u64, base_us: u64| {
        for position in 0..count {
            // A long tail: one in a hundred takes eight times as long.
            let tail = if position % 100 == 99 { 8 } else { 1 };
            let latency_us = (base_us + (position * 37 + index * 11) % base_us) * tail;
            into[kind].1.record(latency_us * 1000);
        }
    };
    spread(0, ops.select, 5_000);
    spread(1, ops.update, 9_000);
}

/// The latencies of one second, by kind.
fn latencies(index: u64, ops: &Ops) -> [(&'static str, Latencies); 2] {
    let mut latencies = no_latencies();
    record_latencies(&mut latencies, index, ops);
    latencies
}

fn is_checkpoint(index: u64) -> bool {
    index % 10 == 9
}

fn second(index: u64) -> Second {
    // Decks are exact over the run: four SELECTs to an UPDATE in every second here.
    let quads = 180 + (index * 7) % 13 - if is_checkpoint(index) { 30 } else { 0 };
    let ops = Ops { select: quads * 4, scan: 0, update: quads, total: quads * 5, cut: 0 };
    let rows = Rows { select: ops.select * WORK_UNIT, scan: 0, update: ops.update * WORK_UNIT };
    let reads = rows.total() + ops.total;
    let checkpoint_blocks = if is_checkpoint(index) { 100_000 } else { 0 };
    let redo = ops.update * WORK_UNIT * (BLOCK + 24);
    let io = IoCounts {
        logical_reads: Some(rows.total() * 3),
        physical_read_blocks: Some(reads),
        physical_read_requests: Some(reads),
        physical_read_bytes: Some(reads * BLOCK),
        physical_write_blocks: Some(checkpoint_blocks),
        physical_write_requests: Some(checkpoint_blocks),
        physical_write_bytes: Some(checkpoint_blocks * BLOCK),
        log_read_blocks: Some(ops.update * 9),
        redo_bytes: Some(redo),
        commits: Some(ops.update),
        log_syncs: Some(ops.update),
    };
    let device = DeviceCounts {
        read_requests: reads,
        read_bytes: reads * BLOCK,
        read_ms: reads / 15,
        write_requests: checkpoint_blocks + ops.update * 3,
        write_bytes: checkpoint_blocks * BLOCK + redo,
        write_ms: 300,
        flushes: ops.update,
        busy_ms: 970,
    };
    Second {
        from_s: index as f64,
        length_s: 1.0,
        ops,
        rows,
        rows_asked: Some(rows),
        errors: u64::from(index == 30),
        sessions: 8,
        latency_us: latencies(index, &ops)
            .iter()
            .map(|(kind, latencies)| ((*kind).to_owned(), latencies.summary()))
            .collect(),
        io: Some(io),
        checkpoints: Some(u64::from(is_checkpoint(index))),
        vacuums: None,
        log_switches: None,
        block_images: None,
        device: Some(device),
        cpu: Some(CpuShare { user: 20.0, system: 24.5, iowait: 30.0, idle: 25.0, steal: 0.5 }),
        joined: Box::default(),
    }
}

/// A second of the operating system, from the same figures.
fn os_second(second: &Second, index: u64) -> SecondSeen {
    let device = second.device.unwrap();
    let disk = |name: &str, counts: DeviceCounts| DeviceUse {
        name: name.into(),
        data: true,
        counts,
        read_merges: 3,
        write_merges: 7,
        queue_ms: counts.read_ms + counts.write_ms,
        in_flight: 8,
        ..DeviceUse::default()
    };
    let cpus = [[21, 0, 6, 20, 31, 0, 21, 1], [19, 0, 4, 30, 29, 1, 17, 0]].map(CpuTicks::from);
    let host = cpus[0].plus(&cpus[1]);
    let gib = |gib: u64| Some(gib << 30);
    let interval = OsInterval {
        seconds: second.length_s,
        cpus: Cpus::new(Some(host), Some(host), vec![(0, cpus[0]), (1, cpus[1])]),
        busiest_cpu: Some((0, 49.0 + (index % 5) as f64)),
        counts: Counts {
            interrupts: Some(61_000),
            context_switches: Some(122_000),
            swap_in_bytes: Some(0),
            swap_out_bytes: Some(0),
            major_faults: Some(0),
            cpu_some_us: Some(120_000),
            cpu_full_us: Some(0),
            io_some_us: Some(930_000),
            io_full_us: Some(410_000),
            memory_some_us: Some(0),
            memory_full_us: Some(0),
            petal_cpu_us: Some(420_000),
            petal_read_bytes: Some(device.read_bytes),
            petal_write_bytes: Some(device.write_bytes),
            ..Counts::default()
        },
        gauges: Gauges {
            running: Some(2 + index % 3),
            blocked: Some(5),
            free_bytes: gib(2),
            available_bytes: gib(22),
            buffers_bytes: Some(43 << 20),
            cached_bytes: gib(20),
            dirty_bytes: Some(64 << 10),
            writeback_bytes: Some(0),
            swap_used_bytes: Some(0),
            ..Gauges::default()
        },
        devices: Some(vec![disk("vda", device)]),
        ..OsInterval::default()
    };
    SecondSeen { from_s: second.from_s, interval, ..SecondSeen::default() }
}

/// Adds times of single requests and calls to each second: reads of the database, writes of
/// others, and the server's reads and syncs.
pub fn time_requests(run: &mut Run) {
    let times = |kind, of_database, buckets: Vec<(u64, u64)>| RequestTimes {
        device: "vda".into(),
        kind,
        of_database,
        service: TimeBuckets { total_ns: 118_000_000, buckets: buckets.clone() },
        queue: TimeBuckets { total_ns: 500_000, buckets: vec![(500, 1000)] },
        total: TimeBuckets { total_ns: 118_500_000, buckets },
    };
    let requests = Requests {
        times: vec![
            times(RequestKind::Read, Some(true), vec![(100_500, 980), (900_500, 20)]),
            times(RequestKind::Write, Some(false), vec![(50_500, 1000)]),
        ],
        lost: 0,
    };
    let call = |call, files, buckets: Vec<(u64, u64)>| CallTimes {
        call,
        files,
        time: TimeBuckets { total_ns: 60_000_000, buckets },
    };
    let calls = ServerCalls {
        times: vec![
            call(CallKind::Sync, CalledFiles::Log, vec![(600_500, 50)]),
            call(CallKind::Read, CalledFiles::Data, vec![(120_500, 500)]),
        ],
        lost: 0,
    };
    let Some(seen) = &mut run.details.os else { return };
    for second in &mut seen.seconds {
        second.interval.requests = Some(requests.clone());
        second.interval.calls = Some(calls.clone());
    }
    let requests = seen.seconds.iter().filter_map(|second| second.interval.requests.clone());
    seen.whole.sum.requests = requests.reduce(|sum, second| sum.plus(&second));
    let calls = seen.seconds.iter().filter_map(|second| second.interval.calls.clone());
    seen.whole.sum.calls = calls.reduce(|sum, second| sum.plus(&second));
    run.summary.os = super::os_figures::OsFigures::of(run);
}

/// Adds times of threads to each second: in all the given share of DB time, of which an eighth is
/// spent on a processor, and the rest in calls that read.
pub fn time_threads(run: &mut Run, share: f64) {
    time_requests(run);
    let db_time_ns = run.details.db_time_s * 1e9;
    let Some(seen) = &mut run.details.os else { return };
    let each_ns = db_time_ns * share / seen.seconds.len() as f64;
    let time = |state, part: f64| StateTimes {
        role: ThreadRole::Session,
        state,
        time: TimeBuckets { total_ns: (each_ns * part) as u64, buckets: vec![(10_500, 2000)] },
    };
    let times = vec![
        time(ThreadState::Processor, 0.125),
        time(ThreadState::ReadProcessor, 0.125),
        time(ThreadState::ReadWait, 0.5),
        time(ThreadState::Queue, 0.25),
    ];
    let threads = ThreadTimes { times, lost: 0 };
    for second in &mut seen.seconds {
        second.interval.threads = Some(threads.clone());
    }
    let threads = seen.seconds.iter().filter_map(|second| second.interval.threads.clone());
    seen.whole.sum.threads = threads.reduce(|sum, second| sum.plus(&second));
}

fn idle() -> OsInterval {
    let ticks = CpuTicks::from([1, 0, 1, 98, 0, 0, 0, 0]);
    let device = DeviceUse { name: "vda".into(), data: true, ..DeviceUse::default() };
    OsInterval {
        cpus: Cpus::new(Some(ticks), Some(ticks), vec![(0, ticks), (1, ticks)]),
        counts: Counts { petal_cpu_us: Some(0), ..Counts::default() },
        devices: Some(vec![device]),
        ..OsInterval::default()
    }
}

pub fn timeline(seconds: u64) -> Vec<Second> {
    (0..seconds).map(second).collect()
}

/// The run over that many seconds, with the operations of each changed.
pub fn run_over(seconds: u64, change: impl Fn(usize, u64) -> u64) -> Run {
    let mut run = mixed_run();
    let mut timeline = timeline(seconds);
    for (at, second) in timeline.iter_mut().enumerate() {
        second.ops.total = change(at, second.ops.total);
    }
    fill(&mut run, timeline);
    run
}

/// Wait events since the trigger, made from the totals so far.
pub fn waits(totals: &IntervalTotals) -> Vec<Wait> {
    let reads = totals.io.physical_read_blocks.unwrap();
    let writes = totals.io.physical_write_blocks.unwrap();
    let updates = totals.ops.update;
    let wait = |name: &str, class, source, waits, time_ns| Wait {
        source,
        ..Wait::counted(name, class, waits, time_ns)
    };
    use WaitClass::{Commit, Concurrency, SystemIo, UserIo};
    vec![
        wait("main read", UserIo, WaitSource::Timed, Some(reads), reads * 84_300),
        wait("wal sync", Commit, WaitSource::Timed, Some(updates), updates * 412_000),
        wait("writer lock", Concurrency, WaitSource::Timed, Some(updates / 2), updates * 260_000),
        wait("checkpoint write", SystemIo, WaitSource::Timed, Some(writes), writes * 48_700),
        wait("page latch", Concurrency, WaitSource::Sampled, None, 31_000_000),
    ]
}

fn counters(totals: &IntervalTotals) -> BTreeMap<String, u64> {
    BTreeMap::from([
        ("checkpoints".to_owned(), totals.io.physical_write_blocks.unwrap() / 100_000),
        ("wal_frames".to_owned(), totals.rows.update),
        ("wal_reset_failures".to_owned(), 0),
    ])
}

/// The whole run, complete, with its findings not yet judged.
pub fn mixed_run() -> Run {
    static RUN: std::sync::LazyLock<Run> = std::sync::LazyLock::new(build_mixed_run);
    RUN.clone()
}

fn build_mixed_run() -> Run {
    let mut run = opening();
    run.summary.status = Status::Complete;
    fill(&mut run, timeline(SECONDS));
    run.details.first_done_s = Some(59.99);
    run.details.last_done_s = Some(60.0);
    run.details.suspended = Some(Vec::new());
    run.details.data_bytes_after = run.details.data_bytes_before;
    run.details.hooks = vec![HookCall {
        moment: "post".into(),
        exit_code: Some(0),
        seconds: 0.31,
        output: "hook-post.txt".into(),
        values: vec![HookValue { name: "array_cpu".into(), value: 37.5, unit: "%".into() }],
    }];
    run.summary.os = super::os_figures::OsFigures::of(&run);
    run
}

/// A mixed run with the database's counters at the bounds of its counted window.
pub fn windowed_run() -> Run {
    let mut run = mixed_run();
    let steady = run.summary.steady.as_mut().unwrap();
    let seconds = figures::seconds_within(&run.details.timeline, steady.from_s, steady.to_s);
    let totals = IntervalTotals::of(seconds);
    let totals = IntervalTotals {
        petal_cpu_s: Some(totals.counted_s * 0.42),
        db_time_s: totals.counted_s * 8.0,
        op_latency_us: run.details.op_latency_us.clone(),
        op_response_us: run.details.op_response_us.clone(),
        waits: figures::wait_rows(&waits(&totals)),
        counters: counters(&totals),
        files: run.details.files.clone(),
        endpoints: BTreeMap::from([("petal-data".to_owned(), totals.io)]),
        ..totals
    };
    steady.io_latency_us = totals.io_latency(&run.details.target.io_events);
    run.details.steady = Some(totals);
    run
}

/// Sets all figures from a timeline.
pub fn fill(run: &mut Run, timeline: Vec<Second>) {
    let totals = IntervalTotals::of(&timeline);
    fill_summary(run, &totals, &timeline);
    fill_details(run, &totals, &timeline);
    run.details.timeline = timeline.into();
}

fn fill_summary(run: &mut Run, totals: &IntervalTotals, timeline: &[Second]) {
    let summary = &mut run.summary;
    summary.elapsed_s = totals.counted_s;
    summary.ops = totals.ops;
    summary.rows = totals.rows;
    summary.rows_asked = totals.rows_asked;
    summary.per_second = totals.per_second();
    summary.cpu = totals.cpu;
    summary.petal_cpu_s = Some(totals.counted_s * 0.42);
    summary.errors = BTreeMap::from([("SQLITE_BUSY".to_owned(), 1)]);
    summary.counters = counters(totals);
    summary.endpoints = vec![EndpointShare {
        endpoint: "petal-data".into(),
        sessions: 8,
        is_beside: false,
        is_standby: false,
        replayed_blocks: None,
        io: totals.io,
        read_us: Some(84.3),
    }];
    summary.waits = figures::wait_rows(&waits(totals));
    let merged = merged(timeline);
    summary.latency_us = merged.iter().map(|(kind, l)| (kind.clone(), l.summary())).collect();
    let steady = figures::seconds_within(timeline, 5.0, totals.counted_s);
    summary.steady = (!steady.is_empty()).then(|| Steady {
        from_s: 5.0,
        to_s: totals.counted_s,
        per_second: IntervalTotals::of(steady).per_second(),
        latency_us: summary.latency_us.clone(),
        ..Steady::default()
    });
    let mut all = Latencies::new();
    merged.values().for_each(|latencies| all.add(latencies));
    run.details.op_latency_us = Some(all.summary());
    run.details.histograms = merged.iter().map(|(kind, l)| (kind.clone(), l.bars())).collect();
}

fn merged(timeline: &[Second]) -> BTreeMap<String, Latencies> {
    let mut merged = no_latencies();
    for (index, second) in timeline.iter().enumerate() {
        record_latencies(&mut merged, index as u64, &second.ops);
    }
    let known = merged.into_iter().filter(|_| !timeline.is_empty());
    known.map(|(kind, latencies)| (kind.to_owned(), latencies)).collect()
}

fn fill_details(run: &mut Run, totals: &IntervalTotals, timeline: &[Second]) {
    let mut reads = Latencies::new();
    for position in 0..1000_u64 {
        reads.record(60_000 + (position * 7919) % 48_600);
    }
    let details = &mut run.details;
    details.wait_histograms.insert("main read".into(), WaitHistogram::of(&reads));
    let timed = IntervalTotals {
        waits: run.summary.waits.clone(),
        wait_histograms: details.wait_histograms.clone(),
        ..IntervalTotals::default()
    };
    run.summary.io_latency_us = timed.io_latency(&details.target.io_events);
    details.io = totals.io;
    details.device = totals.device;
    fill_os(details, timeline);
    details.db_time_s = timeline.len() as f64 * 7.9;
    details.think_time_s = 0.0;
    let io = &totals.io;
    details.files = vec![
        FileCounts {
            kind: "main".into(),
            read_requests: io.physical_read_requests.unwrap(),
            read_bytes: io.physical_read_bytes.unwrap(),
            read_ns: io.physical_read_requests.unwrap() * 84_300,
            write_requests: io.physical_write_requests.unwrap(),
            write_bytes: io.physical_write_bytes.unwrap(),
            write_ns: io.physical_write_requests.unwrap() * 48_700,
            syncs: 24,
            sync_ns: 24_000_000,
        },
        FileCounts {
            kind: "wal".into(),
            write_requests: totals.rows.update * 2,
            write_bytes: io.redo_bytes.unwrap(),
            write_ns: totals.rows.update * 9_100,
            syncs: io.log_syncs.unwrap(),
            sync_ns: io.log_syncs.unwrap() * 412_000,
            ..FileCounts::default()
        },
    ];
}

fn fill_os(details: &mut super::Details, timeline: &[Second]) {
    let Some(seen) = &mut details.os else { return };
    let seconds = timeline.iter().zip(0..).map(|(second, index)| os_second(second, index));
    seen.seconds = seconds.collect();
    seen.whole = Whole::default();
    seen.seconds.iter().for_each(|second| seen.whole.add(&second.interval));
    seen.whole.settle(seen.allowed_cpus.as_deref());
}

/// Writes the files of a run killed after `seconds`: its seconds and a latency log, no `run.json`.
pub fn killed_run(folder: &Path, seconds: u64) {
    let folder = RecordFolder::open(folder);
    let mut file = SecondsFile::begin(&folder, &Opening::new(opening())).unwrap();
    let trigger = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_182_127);
    let mut log = LatencyLog::begin(&folder, trigger).unwrap();
    let timeline = timeline(seconds);
    for (index, second) in timeline.iter().enumerate() {
        let totals = IntervalTotals::of(&timeline[..=index]);
        let by_kind = latencies(index as u64, &second.ops);
        let by_tag = by_kind.iter().map(|(kind, latencies)| (*kind, latencies));
        log.second(second.from_s, second.length_s, by_tag).unwrap();
        let line = SecondsLine {
            second: Some(second.clone()),
            os: Some(os_second(second, index as u64)),
            waits: waits(&totals),
            counters: counters(&totals),
            sessions_lost: if index == 2 { vec![lost()] } else { Vec::new() },
            petal_cpu_s: Some(totals.counted_s * 0.42),
            db_time_s: totals.counted_s * 7.9,
            ..SecondsLine::default()
        };
        file.second(line).unwrap();
    }
}

/// Writes the files of a whole run.
pub fn save(folder: &Path, run: &Run) {
    let folder = RecordFolder::open(folder);
    super::save(&folder, run).unwrap();
    seconds::save(&folder, run).unwrap();
}

/// The lines of a compressed file.
pub fn lines(path: &Path) -> Vec<String> {
    let mut lines = Lines::open(path, u64::MAX).unwrap();
    let mut text = Vec::new();
    while lines.next(&mut text).unwrap() > 0 {}
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

/// Writes a compressed file of these lines.
pub fn write_lines(path: &Path, lines: &[String]) {
    let mut file = GzEncoder::new(File::create(path).unwrap(), Compression::default());
    file.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    file.finish().unwrap();
}

fn lost() -> SessionLost {
    SessionLost {
        session: 7,
        at_s: 2.5,
        code: "SQLITE_IOERR_READ".into(),
        message: "disk I/O error".into(),
    }
}

/// Has the page cache serve three quarters of the run's reads.
pub fn read_through_page_cache(run: &mut Run) {
    let read_bytes = run.details.io.physical_read_bytes.unwrap_or(0) / 4;
    run.details.device = run.details.device.map(|device| DeviceCounts { read_bytes, ..device });
    run.details.target.direct_io = Some(DirectIo { asked: false, used: false, reason: None });
    if let Some(seen) = &mut run.details.os {
        seen.whole.sum.counts.petal_read_bytes = Some(read_bytes);
    }
}

/// A point of a calibrated device's curve.
pub fn curve_point(depth: u32, iops: f64, p99: f64) -> CurvePoint {
    CurvePoint {
        depth,
        iops,
        device_depth: Some(f64::from(depth) * 0.9),
        latency_us: LatencySummary { p99: Some(p99), ..LatencySummary::default() },
        ..CurvePoint::default()
    }
}

/// A calibrated device of three depths.
pub fn calibration() -> Calibration {
    let curve = |scale: f64| {
        vec![
            curve_point(1, 1000.0 * scale, 100.0),
            curve_point(4, 4000.0 * scale, 200.0),
            curve_point(16, 8000.0 * scale, 900.0),
        ]
    };
    Calibration {
        block_bytes: 8192,
        mix_read_pct: 70,
        path: "/data/x".into(),
        curves: [(READ, curve(1.0)), (MIX, curve(0.8)), (WRITE, curve(0.5))]
            .map(|(name, points)| (name.to_owned(), points))
            .into(),
        ..Calibration::default()
    }
}

/// A round of runs at these scales, each with its backlog.
pub fn replay_sweep(cells: &[(f64, u32, u64)]) -> Swept {
    let mut runs = Vec::new();
    let mut kept = Vec::new();
    for (scale, repeat, backlog) in cells {
        let mut run = mixed_run();
        run.details.backlog = Some(*backlog);
        let of =
            ReplayOf { database: "PROD".into(), time: "busiest".into(), ..ReplayOf::default() };
        run.details.replay = Some(of);
        runs.push(run);
        kept.push(SweepCell {
            number: 1,
            repeat: *repeat,
            factors: vec![("rate_scale".to_owned(), scale.to_string())],
            folder: String::new(),
            status: Status::Complete,
        });
    }
    let axes = vec![Axis { key: "rate_scale".to_owned(), values: Vec::new() }];
    let sweep = Sweep {
        format: String::new(),
        petal_version: String::new(),
        engine: String::new(),
        started_at: String::new(),
        status: Status::Complete,
        plan: SweepPlan { axes, ..SweepPlan::default() },
        cells: kept,
        failures: Vec::new(),
        skipped: Vec::new(),
        replay: None,
    };
    Swept { sweep, runs, peak_run: None, is_at_work: false }
}
