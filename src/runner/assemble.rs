//! Puts a record together: every figure comes from raw counts and nanoseconds.

use std::collections::BTreeMap;

use time::OffsetDateTime;

use petal_model::record::driver_hosts::HostShare;
use petal_model::record::figures::{self, IntervalTotals};
use petal_model::record::journal::JournalWait;
use petal_model::record::moment;
use petal_model::record::os::{HostSeen, SecondSeen};
use petal_model::record::os_figures::OsFigures;
use petal_model::record::os_log::OsLogHeader;
use petal_model::record::server_report::SeenReport;
use petal_model::record::{
    CountedUntil, Details, EndpointShare, FORMAT, FileIo, Ops, PerSecond, Rows, Run, Second,
    SessionLost, SettleTimes, Status, Steady, Summary, WaitHistogram, WindowTotals,
};
use petal_model::stats::counters::{CommonCounter, Counters};
use petal_model::stats::histogram::{Bar, Latencies, LatencySummary};
use petal_model::stats::host;
use petal_model::stats::os::{GaugeRanges, OsInterval, Whole};
use petal_model::stats::target::{PlanCheck, Target};
use petal_model::stats::timeline::Tally;
use petal_model::workload::op::Hot;
use petal_model::workload::seat::Seat;

use super::job::{Job, Prepared};
use super::steady_window;

/// The raw results of a run.
pub struct RunMeasurements {
    pub elapsed_s: f64,
    /// The closing snapshot was taken when all hosts of the run had ended.
    pub all_ended: bool,
    pub totals: Tally,
    pub steady: steady_window::SteadyStretch,
    pub timeline: Vec<Second>,
    /// Deltas per endpoint, to the end or until `counted_until`; None when there are none.
    pub counters: Option<Vec<Counters>>,
    /// The end of the last good second, where the closing snapshot failed.
    pub counted_until: Option<CountedUntil>,
    pub os: Option<OsInterval>,
    pub os_ranges: GaugeRanges,
    pub os_seconds: Vec<SecondSeen>,
    pub data_bytes: Option<u64>,
    pub other_runs: Vec<String>,
    pub data_vanished: Option<String>,
    pub plan_after: Option<PlanCheck>,
    pub lost: Vec<SessionLost>,
    pub first_done_ns: Option<u64>,
    pub last_done_ns: Option<u64>,
    pub backlog: u64,
    pub gaps: Vec<String>,
    pub counter_resets: Vec<String>,
    /// The database's own report of the run.
    pub server_reports: Vec<SeenReport>,
    pub bad_blocks: Vec<String>,
}

/// The record as it stands before the trigger: the journal's first line.
pub fn opening(job: &Job<'_>, prepared: &Prepared, started_at: OffsetDateTime) -> Run {
    let summary = Summary {
        format: FORMAT.to_owned(),
        engine: job.engine.support().scheme.to_owned(),
        target: prepared.target.clone(),
        sessions: job.seats.len() as u32,
        schemas: job.workload.schemas,
        active_bytes: active_bytes(job, &prepared.target),
        settings: settings_in_force(job, prepared),
        seed: job.workload.seed,
        started_at: moment::exact(started_at),
        settle: Some(SettleTimes {
            seconds: prepared.settled.seconds,
            dirty_bytes_before: prepared.settled.dirty_bytes_before,
            dirty_bytes_after: prepared.settled.dirty_bytes_after,
        }),
        share: share(job, prepared),
        ..Summary::default()
    };
    Run { summary, details: details_known(job, prepared) }
}

/// None of a run that this host drives alone.
fn share(job: &Job<'_>, prepared: &Prepared) -> Option<HostShare> {
    let is_alone = job.share.is_whole() && prepared.start.is_none();
    (!is_alone).then(|| HostShare {
        share: job.share,
        plan_sessions: job.plan.len() as u32,
        host: host::own_name(),
        boot_id: host::boot_id(),
        counts_database: job.counts_database(),
        counted_all: false,
        start: prepared.start.clone().unwrap_or_default(),
    })
}

/// The whole record, not yet judged.
pub fn run(
    job: &Job<'_>,
    prepared: &Prepared,
    mut measured: RunMeasurements,
    started_at: OffsetDateTime,
) -> Run {
    let opening = opening(job, prepared, started_at);
    let all_ended = measured.all_ended;
    let start = job.start.recorded(prepared, started_at).unwrap_or_default();
    let total = measured.counters.as_deref().and_then(Counters::sum).unwrap_or_default();
    let details = details(job, opening.details, &mut measured, &total);
    let summary = summary(job, opening.summary, measured, &total, &details);
    let mut run = Run { summary, details };
    if let Some(share) = &mut run.summary.share {
        share.start = start;
        share.counted_all = all_ended && share.counts_database;
    }
    run.summary.os = OsFigures::of(&run);
    run
}

fn summary(
    job: &Job<'_>,
    opening: Summary,
    measured: RunMeasurements,
    total: &Counters,
    details: &Details,
) -> Summary {
    let totals = &measured.totals;
    let (ops, rows) = (Ops::from(totals), Rows::from(totals));
    let (seconds, device) = (measured.elapsed_s, details.device);
    let own = IntervalTotals { seconds, ops, rows, device, ..IntervalTotals::default() };
    let database_s = measured.counted_until.map_or(measured.elapsed_s, |until| until.second);
    let waits: Vec<JournalWait> = total.waits.iter().map(JournalWait::from).collect();
    let waits = figures::wait_rows(&waits);
    Summary {
        status: status(job, &measured, details),
        elapsed_s: measured.elapsed_s,
        ops,
        rows,
        rows_asked: Some(Rows::by_kind(&totals.rows_asked)),
        errors: totals.errors.clone(),
        per_second: own.per_second().with_database_over(&total.io, database_s),
        counted_until: measured.counted_until,
        steady: steady(&measured.steady, details),
        latency_us: latencies_us(totals),
        hot_latency_us: by_hot(totals, Latencies::summary),
        io_latency_us: figures::io_latencies(
            &details.target.io_events,
            &waits,
            &details.wait_histograms,
        ),
        waits,
        cpu: measured.os.as_ref().filter(|_| details.target.local).and_then(OsInterval::cpu),
        petal_cpu_s: measured.os.as_ref().and_then(OsInterval::petal_cpu_s),
        counters: total.raw.clone(),
        endpoints: endpoints(
            &job.plan,
            petal_engine::endpoints(job.engine),
            &details.target.io_events.read,
            measured.counters.as_deref().unwrap_or_default(),
        ),
        sessions_lost: measured.lost,
        server_reports: measured.server_reports,
        ..opening
    }
}

/// Takes the seconds out of `measured`: those of a day would not be held twice.
fn details(
    job: &Job<'_>,
    opening: Details,
    measured: &mut RunMeasurements,
    total: &Counters,
) -> Details {
    Details {
        io: total.io,
        device: measured.os.as_ref().and_then(OsInterval::device),
        os: opening.os.clone().map(|seen| os_seen(seen, measured)),
        histograms: histograms(&measured.totals),
        op_latency_us: figures::together(
            measured.totals.service.iter().flatten().map(AsRef::as_ref),
        ),
        op_response_us: figures::together(
            measured.totals.response.iter().flatten().map(AsRef::as_ref),
        ),
        steady: window_totals(job, &measured.steady, opening.target.local),
        wait_histograms: wait_histograms(total, job.share.is_whole()),
        files: total.files.iter().map(FileIo::from).collect(),
        first_done_s: measured.first_done_ns.map(|ns| ns as f64 / 1e9),
        last_done_s: measured.last_done_ns.map(|ns| ns as f64 / 1e9),
        db_time_s: measured.totals.busy_ns as f64 / 1e9,
        think_time_s: measured.totals.think_ns as f64 / 1e9,
        data_bytes_after: measured.data_bytes,
        other_runs: std::mem::take(&mut measured.other_runs),
        data_vanished: measured.data_vanished.clone(),
        plan_after: measured.plan_after.clone(),
        gaps: std::mem::take(&mut measured.gaps),
        counter_resets: std::mem::take(&mut measured.counter_resets),
        bad_blocks: std::mem::take(&mut measured.bad_blocks),
        saturated: saturated(&measured.totals),
        ops_untimed: Some(measured.totals.ops_untimed),
        ops_not_as_asked: Some(measured.totals.ops_not_as_asked),
        backlog: job.workload.rates.as_ref().map(|_| measured.backlog),
        timeline: std::mem::take(&mut measured.timeline),
        ..opening
    }
}

fn details_known(job: &Job<'_>, prepared: &Prepared) -> Details {
    let devices = prepared.devices.as_ref().map(|devices| devices.names()).unwrap_or_default();
    Details {
        petal_version: env!("CARGO_PKG_VERSION").to_owned(),
        conf_file: job.settings.conf_file.as_ref().map(|file| file.display().to_string()),
        given: job.settings.origins.clone(),
        repeat: job.workload.repeat,
        repeats: job.settings.repeats,
        host: prepared.host.clone(),
        target: prepared.details.clone(),
        loaded: job.loaded.clone(),
        active_rows: job.workload.rows,
        settled: Some(prepared.settled.clone()),
        devices,
        os: prepared.probe.as_ref().map(|probe| HostSeen {
            host: prepared.host.as_ref().map(|host| host.name.clone()).unwrap_or_default(),
            allowed_cpus: probe.allowed().map(<[u32]>::to_vec),
            group_quota: probe.group_limit().map(|limit| limit.processors),
            group_file: probe.group_limit().map(|limit| limit.file.clone()),
            petal_group: probe.petal_group_limit().cloned(),
            before: prepared.before.clone(),
            ..HostSeen::default()
        }),
        server_clock_ahead_s: prepared.clock_ahead_s,
        clock: prepared.clock.clone(),
        data_bytes_before: prepared.data_bytes,
        ..Details::default()
    }
}

/// The first line of what is kept of the operating system; None where it is not watched.
pub fn os_header(opening: &Run) -> Option<OsLogHeader> {
    let seen = opening.details.os.as_ref()?;
    Some(OsLogHeader {
        petal_version: opening.details.petal_version.clone(),
        started_at: opening.summary.started_at.clone(),
        host: opening.details.host.clone()?,
        devices: opening.details.devices.clone(),
        allowed_cpus: seen.allowed_cpus.clone(),
        group_quota: seen.group_quota,
        ..OsLogHeader::default()
    })
}

/// The whole from the samples around the run; the seconds add only how gauges moved.
fn os_seen(opening: HostSeen, measured: &mut RunMeasurements) -> HostSeen {
    let whole = Whole {
        sum: measured.os.clone().unwrap_or_default(),
        ranges: measured.os_ranges,
        intervals: measured.os_seconds.len() as u64,
    };
    HostSeen { whole, seconds: std::mem::take(&mut measured.os_seconds), ..opening }
}

/// Every parameter as it was in force: what the target decided stands for what was left open.
fn settings_in_force(
    job: &Job<'_>,
    prepared: &Prepared,
) -> serde_json::Map<String, serde_json::Value> {
    let mut settings = job.settings.record_map();
    settings.insert("scale".into(), job.workload.rows.into());
    settings.insert("block_sz".into(), prepared.target.block_size.into());
    settings.insert("seed".into(), job.workload.seed.into());
    if let Some(direct_io) = &prepared.details.direct_io {
        settings.insert("direct_io".into(), direct_io.used.into());
    }
    settings
}

pub(super) fn active_bytes(job: &Job<'_>, target: &Target) -> u64 {
    let schemas = u64::from(job.workload.schemas);
    let main = job.workload.rows * target.block_size * schemas;
    let scanned = if job.workload.scans(&job.plan) {
        job.loaded.iter().take(job.workload.schemas as usize).map(|schema| schema.scan_rows).sum()
    } else {
        0
    };
    main + scanned * target.block_size
}

fn status(job: &Job<'_>, measured: &RunMeasurements, details: &Details) -> Status {
    if job.is_interrupted() {
        Status::Interrupted
    } else if measured.lost.len() == job.seats.len() || details.has_changed_data() {
        Status::Failed
    } else {
        Status::Complete
    }
}

/// petal's figures over whole seconds, the others' over the time between their samples.
fn steady(window: &steady_window::SteadyStretch, details: &Details) -> Option<Steady> {
    let steady_window::Stretch { tally, from_s, to_s } = &window.seconds;
    let seconds = to_s - from_s;
    let (ops, rows) = (Ops::from(tally), Rows::from(tally));
    let own = IntervalTotals { seconds, ops, rows, ..IntervalTotals::default() }.per_second();
    let totals = details.steady.as_ref();
    let sampled = totals.map(|totals| {
        let (seconds, io, device) = (totals.counted_s, totals.io, totals.device);
        IntervalTotals { seconds, io, device, ..IntervalTotals::default() }.per_second()
    });
    let (ops, rows, commits) = (own.ops, own.rows, own.commits);
    let counters = window.counters().as_deref().and_then(Counters::sum).unwrap_or_default();
    let io_latency_us = totals.map(|totals| {
        let histograms = wait_histograms(&counters, true);
        figures::io_latencies(&details.target.io_events, &totals.waits, &histograms)
    });
    (seconds > 0.0).then(|| Steady {
        from_s: *from_s,
        to_s: *to_s,
        per_second: PerSecond { ops, rows, commits, ..sampled.unwrap_or_default() },
        latency_us: latencies_us(tally),
        io_latency_us: io_latency_us.unwrap_or_default(),
    })
}

fn window_totals(
    job: &Job<'_>,
    window: &steady_window::SteadyStretch,
    is_local: bool,
) -> Option<WindowTotals> {
    let counters = window.counters()?;
    let total = Counters::sum(&counters).unwrap_or_default();
    let tally = &window.seconds.tally;
    let os = window.os();
    let waits: Vec<JournalWait> = total.waits.iter().map(JournalWait::from).collect();
    Some(WindowTotals {
        counted_s: window.counted_s()?,
        ops: Ops::from(tally),
        rows: Rows::from(tally),
        rows_asked: Some(Rows::by_kind(&tally.rows_asked)),
        io: total.io,
        device: os.as_ref().and_then(OsInterval::device),
        cpu: os.as_ref().filter(|_| is_local).and_then(OsInterval::cpu),
        petal_cpu_s: os.as_ref().and_then(OsInterval::petal_cpu_s),
        db_time_s: tally.busy_ns as f64 / 1e9,
        think_time_s: tally.think_ns as f64 / 1e9,
        op_latency_us: figures::together(tally.service.iter().flatten().map(AsRef::as_ref)),
        op_response_us: figures::together(tally.response.iter().flatten().map(AsRef::as_ref)),
        waits: figures::wait_rows(&waits),
        // Only a merge needs them.
        wait_histograms: match job.share.is_whole() {
            true => BTreeMap::new(),
            false => wait_histograms(&total, false),
        },
        counters: total.raw,
        files: total.files.iter().map(FileIo::from).collect(),
        endpoints: counters.into_iter().map(|each| (each.endpoint, each.io)).collect(),
    })
}

fn latencies_us(tally: &Tally) -> BTreeMap<String, LatencySummary> {
    tally.times_by_name().map(|(name, latencies)| (name, latencies.summary())).collect()
}

fn endpoints(
    seats: &[Seat],
    endpoints: u32,
    read_event: &str,
    counters: &[Counters],
) -> Vec<EndpointShare> {
    // A single entry is that of all sessions.
    let is_of = |seat: &&Seat, at: usize| counters.len() == 1 || seat.endpoint as usize == at;
    let sessions = |at: usize| seats.iter().filter(|seat| is_of(seat, at)).count();
    counters
        .iter()
        .enumerate()
        .map(|(at, counters)| EndpointShare {
            endpoint: counters.endpoint.clone(),
            sessions: sessions(at) as u32,
            is_beside: at >= endpoints as usize,
            is_standby: counters.is_standby,
            replayed_blocks: counters.raw.get(CommonCounter::ReplayedBlocks.name()).copied(),
            io: counters.io,
            read_us: read_us(counters, read_event),
        })
        .collect()
}

/// Time over waits; None where they were not counted, or there were none.
fn read_us(counters: &Counters, read_event: &str) -> Option<f64> {
    let rows = counters.waits.iter().filter(|wait| wait.name == read_event).map(JournalWait::from);
    figures::wait_rows(&rows.collect::<Vec<_>>()).first()?.avg_us
}

fn histograms(totals: &Tally) -> BTreeMap<String, Vec<Bar>> {
    let by_kind = totals.service_by_kind().map(|(name, latencies)| (name, latencies.bars()));
    by_kind.chain(by_hot(totals, Latencies::bars)).collect()
}

/// Latencies of the operations that were sent to hot data, by name.
fn by_hot<T>(totals: &Tally, of: fn(&Latencies) -> T) -> BTreeMap<String, T> {
    Hot::ALL
        .iter()
        .zip(&totals.hot)
        .filter_map(|(hot, latencies)| Some((hot.name().to_owned(), of(latencies.as_ref()?))))
        .collect()
}

/// Of a share, with what a merge needs.
fn wait_histograms(total: &Counters, is_whole: bool) -> BTreeMap<String, WaitHistogram> {
    let timed = total.waits.iter().filter_map(|wait| {
        let latencies = wait.latencies.as_ref().filter(|latencies| latencies.count() > 0);
        let histogram = match (latencies, is_whole) {
            (None, _) => WaitHistogram::of_powers_of_two(&wait.buckets)?,
            (Some(latencies), true) => WaitHistogram::of(latencies),
            (Some(latencies), false) => WaitHistogram::with_buckets(latencies),
        };
        Some((wait.name.clone(), histogram))
    });
    timed.collect()
}

fn saturated(totals: &Tally) -> u64 {
    let all = totals.service.iter().chain(&totals.response).flatten();
    all.map(|latencies| latencies.saturated()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_model::workload::seat::Role;

    #[test]
    fn sessions_stand_with_the_endpoint_that_tells_of_them() {
        let seat = |endpoint| Seat { session: 1, schema: 1, endpoint, role: Role::Mixed };
        let seats = [seat(0), seat(1), seat(1)];
        let of = |names: &[&str]| -> Vec<(u32, bool)> {
            let counters = names
                .iter()
                .map(|name| Counters { endpoint: (*name).to_owned(), ..Counters::default() });
            let each = endpoints(&seats, 2, "read", &counters.collect::<Vec<_>>());
            each.into_iter().map(|endpoint| (endpoint.sessions, endpoint.is_beside)).collect()
        };
        assert_eq!(of(&["a", "b", "c"]), [(1, false), (2, false), (0, true)]);
        assert_eq!(of(&["a, b, c"]), [(3, false)], "two endpoints that share instances");
    }
}
