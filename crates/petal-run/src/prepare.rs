//! Steps before a run connects its sessions: describes the target, chooses the counters of the
//! host, locks the memory for PAGE_CACHE_LIMIT, and waits for the writes of earlier runs.

use std::time::{Duration, Instant};

use petal_engine::{EngineError, ProgressUnit, Stop};
use petal_host::cgroup::Groups;
use petal_host::clock::ClockState;
use petal_host::devices::{self, DataDevices, Roots};
use petal_host::host::HostFacts;
use petal_host::numbers::bytes;
use petal_host::os::{DatabaseLocation, OsInterval, Probe};
use petal_judge::memory;
use petal_record::target::{Settled, Target, TargetDetails};
use petal_settings::error::where_from;
use petal_settings::{WarmUp, trust};

use super::facts::FirstFacts;
use super::job::{Job, Prepared};
use super::page_cache::{HostMemory, LockedMemory};
use super::written::{self, Writing};
use super::{RunError, limits, page_cache, quiet};

const QUIET_LIMIT: Duration = Duration::from_secs(30);

/// Asks, looks and settles. Nothing is connected yet.
pub fn prepare(job: &Job<'_>) -> Result<Prepared, RunError> {
    if job.seats.is_empty() {
        return Err(RunError::Setting(format!(
            "share {}: the run has {} sessions, so that this share has none; use fewer shares, or \
             more sessions",
            job.share,
            job.plan.len()
        )));
    }
    check_script(job)?;
    limits::check(job)?;
    limits::check_admission(job.engine, job.settings, job.seats.len() as u32)?;
    if let Some(server) = job.engine.server() {
        server.check_run(job.workload.schemas)?;
        if job.workload.writes(&job.plan) {
            server.check_replicas()?;
        }
    }
    let data_use = job.engine.begin_use(job.workload.schemas)?;
    let mut gaps = Vec::new();
    let other_runs = match data_use.other_runs() {
        Ok(runs) => unexpected_runs(job, runs),
        Err(EngineError::Interrupted) => return Err(EngineError::Interrupted.into()),
        Err(error) => {
            gaps.push(format!("who else uses the same data is not known: {error}"));
            Vec::new()
        }
    };
    for run in &other_runs {
        job.watch.note(&format!("{run} uses the same data: the figures are of both"));
    }
    let (target, details) = job.engine.describe(job.workload.schemas, job.seats.len() as u32)?;
    let first_facts = FirstFacts::read(job);
    let cache_blocks = cache_blocks_per_session(job, &target)?;
    let watched = job.settings.os_perf_data;
    if let Some(file) = job.os_data.filter(|_| watched && details.local) {
        return Err(RunError::Setting(format!(
            "--os-data {}: this run sees the database's host itself; --os-data is for a database on \
             another host: leave it out",
            file.display()
        )));
    }
    let devices = (watched && details.local)
        .then(|| devices::find_for(&details.data_files, &details.server_files));
    let watched_host = match watched {
        true => watched_host(job, &details, devices.as_ref()),
        false => WatchedHost::default(),
    };
    let WatchedHost { probe, requests_unseen, calls_unseen, writes_unseen, threads_unseen } =
        watched_host;
    let host = watched.then(|| {
        HostFacts::collect_with(devices.as_ref(), &petal_engine::server_processes(job.engine))
    });
    let locked = limit_page_cache(job, &target, &details, host.as_ref())?;
    let server_clock = job.engine.server().and_then(|server| server.clock());
    let clock_ahead_s = server_clock.filter(|_| !details.local).map(|clock| clock.ahead_s);
    let clock = if details.local || !watched { None } else { ClockState::ask() };
    let start = job.start.common(&details, clock_ahead_s, &|line| job.watch.note(line));
    let local_probe = probe.as_ref().filter(|_| details.local);
    let (mut settled, before) = settle(job, local_probe, &details, &mut gaps)?;
    if let Some(locked) = &locked {
        settled.done.push(format!("{} of memory locked: PAGE_CACHE_LIMIT", bytes(locked.bytes())));
    }
    let data_bytes = job.engine.data_bytes().unwrap_or_else(|error| {
        gaps.push(format!("how large the data were at the start is unknown: {error}"));
        None
    });
    Ok(Prepared {
        data_use,
        other_runs,
        target,
        details,
        first_facts,
        cache_blocks,
        host,
        devices,
        probe,
        requests_unseen,
        calls_unseen,
        writes_unseen,
        threads_unseen,
        before,
        clock_ahead_s,
        round_trip_us: server_clock.map(|clock| clock.round_trip_s * 1e6),
        clock,
        start,
        settled,
        data_bytes,
        gaps,
        locked,
    })
}

/// Names the script that will run with petal's rights, and refuses one that others can change.
fn check_script(job: &Job<'_>) -> Result<(), RunError> {
    let script = job.settings.external_script.as_deref().filter(|_| job.share.is_first());
    // A missing script is reported when it is called.
    let Some(script) = script.filter(|script| script.exists() && job.folder.is_some()) else {
        return Ok(());
    };
    let from = job.settings.origin("EXTERNAL_SCRIPT");
    let named =
        format!("EXTERNAL_SCRIPT={} ({})", script.display(), where_from("EXTERNAL_SCRIPT", &from));
    let path = trust::script(script).map_err(|why| {
        RunError::Setting(format!(
            "{named}: petal does not run it, because others can change it: {why}"
        ))
    })?;
    job.watch.note(&format!("{named}: {} will run at pre, post and end", path.display()));
    Ok(())
}

/// The probe of this host, and why it does not time single requests, calls and threads, or count the bytes
/// written by their origin.
#[derive(Default)]
struct WatchedHost {
    probe: Option<Probe>,
    requests_unseen: Option<String>,
    calls_unseen: Option<String>,
    writes_unseen: Option<String>,
    threads_unseen: Option<String>,
}

/// Watches this host: if the database is on another one, this covers petal itself and the network.
fn watched_host(
    job: &Job<'_>,
    details: &TargetDetails,
    devices: Option<&DataDevices>,
) -> WatchedHost {
    let database = match (details.local, details.in_process) {
        (true, true) => DatabaseLocation::InPetal,
        (true, false) => match petal_engine::server_processes(job.engine) {
            none if none.is_empty() => DatabaseLocation::Unseen,
            servers => DatabaseLocation::In(servers),
        },
        (false, _) => DatabaseLocation::Unseen,
    };
    let none = DataDevices::default();
    let devices = devices.unwrap_or(&none);
    let (requests, requests_unseen) = match (job.settings.device_latency, details.local) {
        (false, _) => (None, Some("DEVICE_LATENCY=FALSE".to_owned())),
        (true, false) => (None, None),
        (true, true) => timed(petal_latency::requests::watch(devices, &database)),
    };
    // petal itself times the calls of a database in its process.
    let has_server = matches!(database, DatabaseLocation::In(_));
    let (calls, calls_unseen) = match job.settings.call_latency && has_server {
        true => timed(petal_latency::calls::watch(&database, &details.log_files)),
        false => (None, None),
    };
    let (writes, writes_unseen) = match (job.settings.device_latency, details.local) {
        (false, _) => (None, Some("DEVICE_LATENCY=FALSE".to_owned())),
        (true, false) => (None, None),
        (true, true) => timed(petal_latency::writes::watch(
            devices,
            &database,
            &[&details.data_files[..], &details.server_files].concat(),
            &details.log_files,
        )),
    };
    let (threads, threads_unseen) = match (job.settings.waterfall, details.local) {
        (false, _) => (None, None),
        (true, false) => (None, Some("the database is on another host".to_owned())),
        (true, true) => timed(petal_latency::threads::watch(&database)),
    };
    let probe = Probe::watching(devices, database, !details.local);
    let probe =
        probe.with_requests(requests).with_calls(calls).with_writes(writes).with_threads(threads);
    WatchedHost { probe: Some(probe), requests_unseen, calls_unseen, writes_unseen, threads_unseen }
}

fn timed<T>(source: Result<T, String>) -> (Option<T>, Option<String>) {
    match source {
        Ok(source) => (Some(source), None),
        Err(why) => (None, Some(why)),
    }
}

/// Locks memory for PAGE_CACHE_LIMIT, if it is set, until the record is put together. A server whose
/// control group limits its page cache as much needs no lock.
fn limit_page_cache(
    job: &Job<'_>,
    target: &Target,
    details: &TargetDetails,
    host: Option<&HostFacts>,
) -> Result<Option<LockedMemory>, RunError> {
    let Some(limit_bytes) = job.settings.page_cache_limit else { return Ok(None) };
    if !details.local {
        return Err(RunError::Setting(format!(
            "PAGE_CACHE_LIMIT={}: {} is not seen on this host, and petal can limit no other page \
             cache{}; leave it out",
            bytes(limit_bytes),
            job.settings.db.redacted(),
            details.host_unseen.as_ref().map_or_else(String::new, |why| format!(" ({why})")),
        )));
    }
    let watched;
    let host = match host {
        Some(host) => host,
        None => {
            let servers = petal_engine::server_processes(job.engine);
            watched = HostFacts::collect_with(None, &servers);
            &watched
        }
    };
    let group = host.server_memory.as_ref();
    if let Some(room) = group.and_then(|group| group.room_bytes).filter(|room| *room <= limit_bytes)
    {
        job.watch.note(&format!(
            "PAGE_CACHE_LIMIT={}: the server's control group leaves {} to the page cache, so petal \
             locks nothing",
            bytes(limit_bytes),
            bytes(room)
        ));
        return Ok(None);
    }
    let group_room = Groups::of(&Roots::default(), "self").memory_room().map(|(bytes, _)| bytes);
    let memory = HostMemory::read(target.cache_bytes, group_room);
    let otherwise = memory::limit_command(target, details, host, limit_bytes);
    let stop = Stop::unlimited(job.signals.clone());
    Ok(Some(page_cache::limit(limit_bytes, memory, otherwise.as_deref(), job.watch, &stop)?))
}

/// Returns other petal runs on the same data, without the expected number of other shares of this
/// run.
pub(crate) fn unexpected_runs(job: &Job<'_>, runs: Vec<String>) -> Vec<String> {
    if runs.len() < job.share.of as usize { Vec::new() } else { runs }
}

/// Completes writes of earlier runs: the database's own, then the operating system's. With several
/// hosts, only the first one does this. Returns the host's activity at the end.
fn settle(
    job: &Job<'_>,
    probe: Option<&Probe>,
    details: &TargetDetails,
    gaps: &mut Vec<String>,
) -> Result<(Settled, Option<OsInterval>), RunError> {
    if !job.share.is_first() {
        return Ok((Settled::default(), None));
    }
    let began = Instant::now();
    let stop = Stop::unlimited(job.signals.clone());
    job.watch.phase("settling", 0, ProgressUnit::Items);
    let dirty_bytes_before = probe.and_then(|probe| probe.sample().dirty_bytes());
    let mut settled = job.engine.settle(job.watch, &stop)?;
    job.check_interrupted()?;
    let mut before = None;
    if let Some(probe) = probe {
        // The write ledger's bytes are all of the run.
        if probe.sees_writes() && Writing::is_counted(job) {
            let why = written::write_out(job, details);
            gaps.extend(
                why.map(|why| format!("the write ledger has bytes of before the run: {why}")),
            );
            job.check_interrupted()?;
        }
        let quiet = quiet::wait_until_quiet(probe, QUIET_LIMIT, job.watch, &stop);
        settled.dirty_bytes_after = quiet.dirty_bytes_after;
        settled.done.extend(quiet.note);
        before = Some(quiet.last);
        job.check_interrupted()?;
    }
    settled.dirty_bytes_before = dirty_bytes_before;
    settled.seconds = began.elapsed().as_secs_f64();
    Ok((settled, before))
}

/// Returns the number of cache blocks that one session fills for WARM_UP=cache; 0 if none.
fn cache_blocks_per_session(job: &Job<'_>, target: &Target) -> Result<u64, RunError> {
    if job.settings.warm_up != WarmUp::Cache {
        return Ok(0);
    }
    let Some(cache_bytes) = target.cache_bytes else {
        return Err(RunError::Setting(format!(
            "WARM_UP=cache: {} does not report the size of its cache, so petal cannot know when \
             it is full; give WARM_UP in seconds",
            job.settings.db.redacted(),
        )));
    };
    let blocks = cache_bytes / target.block_size.max(1);
    let sessions = if job.engine.support().cache_per_session { job.plan.len() } else { 1 };
    Ok(blocks / (sessions as u64).max(1))
}
