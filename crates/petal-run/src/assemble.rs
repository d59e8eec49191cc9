//! Puts a record together: every figure comes from raw counts and nanoseconds.

use std::collections::BTreeMap;

use time::OffsetDateTime;

use petal_host::histogram::{Latencies, LatencySummary};
use petal_host::host;
use petal_host::os::{GaugeRanges, OsInterval, Probe, Whole};
use petal_record::counters::{CommonCounter, Counters};
use petal_record::driver_hosts::HostShare;
use petal_record::moment;
use petal_record::os::{HostSeen, SecondSeen};
use petal_record::os_figures::OsFigures;
use petal_record::server_report::SeenReport;
use petal_record::target::{IoEvents, Target};
use petal_record::timeline::Tally;
use petal_record::{
    CountedUntil, Details, EndpointShare, FORMAT, IntervalTotals, LayerSeconds, Run, SessionLost,
    SettleTimes, Status, Steady, Summary, WaitRow,
};
use petal_workload::seat::Seat;

use super::job::{Job, Prepared};
use super::steady_window::{SteadyTally, WindowTally};

/// Raw results of a run.
pub struct RunMeasurements {
    pub elapsed_s: f64,
    /// Set if the closing snapshot was taken when all hosts of the run had ended.
    pub all_ended: bool,
    pub totals: Tally,
    pub steady: SteadyTally,
    /// Deltas per endpoint, to the end or until `counted_until`; `None` if unknown.
    pub counters: Option<Vec<Counters>>,
    /// End of the last good second, if the closing snapshot failed.
    pub counted_until: Option<CountedUntil>,
    pub os: Option<OsInterval>,
    pub os_ranges: GaugeRanges,
    pub os_intervals: u64,
    pub os_seconds: Vec<SecondSeen>,
    pub lost: Vec<SessionLost>,
    /// Database's own report of the run.
    pub server_reports: Vec<SeenReport>,
    /// Facts of the run, without these counts.
    pub details: Details,
}

/// Makes the record before the trigger, the first line of its seconds.
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

/// Describes this host's share; `None` if this host drives the run alone.
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

/// Makes the whole record, not yet judged.
pub fn run(
    job: &Job<'_>,
    prepared: &Prepared,
    measured: RunMeasurements,
    started_at: OffsetDateTime,
) -> Run {
    let opening = opening(job, prepared, started_at).summary;
    let (tally, elapsed_s) = (&measured.totals, measured.elapsed_s);
    let (is_whole, is_local) = (job.share.is_whole(), prepared.details.local);
    let counters = measured.counters.unwrap_or_default();
    let totals = IntervalTotals::of_tally(tally)
        .with_database(&counters, is_whole)
        .with_host(measured.os.as_ref(), is_local);
    let database = measured.counted_until.map_or(elapsed_s, |until| until.second);
    let rates = totals.rates(LayerSeconds { database, ..LayerSeconds::all(elapsed_s) });
    let summary = Summary {
        status: status(job, measured.lost.len(), &measured.details),
        elapsed_s,
        errors: tally.errors.clone(),
        counted_until: measured.counted_until,
        latency_us: summaries(tally.times_by_name()),
        hot_latency_us: summaries(tally.hot_by_name()),
        endpoints: endpoints(
            &job.plan,
            petal_engine::endpoints(job.engine),
            &prepared.details.io_events.read,
            &counters,
        ),
        sessions_lost: measured.lost,
        unknown_figures: unknown_figures(&counters, &prepared.details.io_events),
        server_reports: measured.server_reports,
        ..opening
    };
    // Of a run with experiments those before them.
    let own = if job.settings.elasticity { &measured.steady.seconds.tally } else { tally };
    let bars = own.service_by_kind().chain(own.hot_by_name());
    let seen = |seen: HostSeen| HostSeen {
        // Totals come from the samples around the run; the seconds add only the ranges of gauges.
        whole: Whole {
            sum: measured.os.unwrap_or_default(),
            ranges: measured.os_ranges,
            intervals: measured.os_intervals,
        },
        seconds: measured.os_seconds.into(),
        ..seen
    };
    let details = Details {
        os: measured.details.os.map(seen),
        histograms: bars.map(|(name, latencies)| (name, latencies.bars())).collect(),
        saturated: saturated(tally),
        ops_untimed: Some(tally.ops_untimed),
        ops_not_as_asked: Some(tally.ops_not_as_asked),
        ..measured.details
    };
    let mut run = Run { summary, details };
    run.set(totals, rates);
    set_steady(&mut run, &measured.steady, (is_whole, job.settings.elasticity));
    if let Some(share) = &mut run.summary.share {
        share.start = job.start.recorded(prepared, started_at).unwrap_or_default();
        share.counted_all = measured.all_ended && share.counts_database;
    }
    run.summary.os = OsFigures::of(&run);
    run
}

/// The reasons of unknown figures, by the record's names: waits that are an I/O latency have its name.
fn unknown_figures(counters: &[Counters], events: &IoEvents) -> BTreeMap<String, String> {
    let latencies = [(&events.read, "read"), (&events.write, "write"), (&events.log, "log")];
    let name = |name: String| match latencies.iter().find(|(event, _)| **event == name) {
        Some((_, kind)) => format!("io_latency_us.{kind}"),
        None => name,
    };
    let reasons = Counters::sum(counters).unwrap_or_default().reasons;
    reasons.into_iter().map(|(figure, why)| (name(figure), why)).collect()
}

/// Returns the facts known before the trigger, without counts.
pub fn details_known(job: &Job<'_>, prepared: &Prepared) -> Details {
    let devices = prepared.devices.as_ref().map(|devices| devices.names()).unwrap_or_default();
    let group = prepared.probe.as_ref().and_then(Probe::group_limit);
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
            group_quota: group.as_ref().map(|limit| limit.processors),
            group_file: group.map(|limit| limit.file),
            petal_group: probe.petal_group_limit(),
            before: prepared.before.clone(),
            requests_unseen: prepared.requests_unseen.clone(),
            calls_unseen: prepared.calls_unseen.clone(),
            threads_unseen: prepared.threads_unseen.clone(),
            ..HostSeen::default()
        }),
        server_clock_ahead_s: prepared.clock_ahead_s,
        server_round_trip_us: prepared.round_trip_us,
        clock: prepared.clock.clone(),
        data_bytes_before: prepared.data_bytes,
        ..Details::default()
    }
}

/// Returns every parameter as it was in effect: the target's decision replaces an unset one.
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

pub(crate) fn active_bytes(job: &Job<'_>, target: &Target) -> u64 {
    let schemas = u64::from(job.workload.schemas);
    let main = job.workload.rows * target.block_size * schemas;
    let scanned = if job.workload.scans(&job.plan) {
        job.loaded.iter().take(job.workload.schemas as usize).map(|schema| schema.scan_rows).sum()
    } else {
        0
    };
    main + scanned * target.block_size
}

fn status(job: &Job<'_>, lost: usize, details: &Details) -> Status {
    if job.is_interrupted() {
        Status::Interrupted
    } else if lost == job.seats.len() || details.has_changed_data() {
        Status::Failed
    } else {
        Status::Complete
    }
}

/// Sets the counted window: petal's figures over whole seconds, the others' over the time between
/// their samples.
fn set_steady(run: &mut Run, window: &SteadyTally, (is_whole, has_experiments): (bool, bool)) {
    let WindowTally { tally, from_s, to_s } = &window.seconds;
    let petal = to_s - from_s;
    if petal <= 0.0 {
        return;
    }
    let mut totals = totals_of(window, is_whole, run.details.target.local);
    let counted_s = totals.counted_s;
    run.summary.steady = Some(Steady {
        from_s: *from_s,
        to_s: *to_s,
        per_second: totals.rates(LayerSeconds { petal, ..LayerSeconds::all(counted_s) }),
        latency_us: summaries(tally.times_by_name()),
        io_latency_us: totals.io_latency(&run.details.target.io_events),
    });
    // A merge needs them, and a run whose second half has experiments.
    if is_whole && !has_experiments {
        totals.wait_histograms.clear();
    }
    run.details.steady = window.bounds.is_some().then_some(totals);
}

/// The totals of a window; of petal alone if the database was not sampled at its bounds.
fn totals_of(window: &SteadyTally, is_whole: bool, is_local: bool) -> IntervalTotals {
    let totals = IntervalTotals::of_tally(&window.seconds.tally);
    match window.between_samples() {
        None => totals,
        Some((counted_s, counters, os)) => IntervalTotals { counted_s, ..totals }
            .with_database(&counters, is_whole)
            .with_host(os.as_ref(), is_local),
    }
}

/// The totals of a slot with a neighbour, or without one. It keeps no single counters: there are many
/// slots.
pub fn totals_of_slot(window: &SteadyTally, is_local: bool) -> IntervalTotals {
    IntervalTotals {
        counters: BTreeMap::new(),
        endpoints: BTreeMap::new(),
        files: Vec::new(),
        ..totals_of(window, true, is_local)
    }
}

fn summaries<'a>(
    by_name: impl Iterator<Item = (String, &'a Latencies)>,
) -> BTreeMap<String, LatencySummary> {
    by_name.map(|(name, latencies)| (name, latencies.summary())).collect()
}

fn endpoints(
    seats: &[Seat],
    endpoints: u32,
    read_event: &str,
    counters: &[Counters],
) -> Vec<EndpointShare> {
    // A single entry covers all sessions.
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
            read_us: counters.wait(read_event).and_then(|wait| WaitRow::from(wait).avg_us),
        })
        .collect()
}

fn saturated(totals: &Tally) -> u64 {
    let all = totals.service.iter().chain(&totals.response).flatten();
    all.map(|latencies| latencies.saturated()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_workload::seat::Role;

    #[test]
    fn sessions_are_listed_with_their_endpoint() {
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
