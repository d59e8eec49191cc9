//! The shares of several driver hosts merged into one record: petal's counts are added up, the
//! database's counters are taken once, and each host keeps its share ([`HostRun`]).
//!
//! Shares are read one after the other; their seconds are added up at once ([`timeline`]), so
//! memory holds one run's seconds, no matter how many hosts there are.

mod checks;
mod database;
#[cfg(test)]
mod tests;
mod timeline;

use std::path::{Path, PathBuf};

use super::driver_hosts::{HostRun, HostShare, StartedBy};
use super::input;
use super::os::SERVER_NAME;
use super::os_figures::OsFigures;
use super::{Details, RecordError, RecordFolder, Run, SharedList, Status, moment, seconds};
use crate::target::PlanCheck;
use petal_host::host::HostFacts;
use petal_workload::share::Share;
use time::OffsetDateTime;

use timeline::{Latency, MergedSeconds};

/// A host's record, without its seconds.
struct HostRecord {
    folder: PathBuf,
    run: Run,
    share: HostShare,
}

impl HostRecord {
    fn name(&self) -> String {
        format!("share {} ({})", self.share.share.number, self.share.host)
    }

    fn steady_bounds(&self) -> Option<(f64, f64)> {
        self.run.summary.steady.as_ref().map(|own| (own.from_s, own.to_s))
    }

    /// The trigger by the common clock; None if the shares have no common clock.
    fn triggered(&self) -> Option<OffsetDateTime> {
        let started = started(&self.run)?;
        let start = &self.share.start;
        match start.by {
            StartedBy::DatabaseClock | StartedBy::OwnClock => {
                Some(moment::after(started, start.clock_ahead_s.unwrap_or(0.0)))
            }
            StartedBy::Barrier => None,
        }
    }
}

/// The trigger by the host's own clock.
fn started(run: &Run) -> Option<OffsetDateTime> {
    moment::parse(&run.summary.started_at)
}

/// Merges the shares in these folders. The merged latency log and seconds are written into a
/// folder, with the first host's operating system; the caller judges and writes the record.
pub fn merge(folders: &[PathBuf], into: &RecordFolder) -> Result<Run, RecordError> {
    let mut rows = MergedSeconds::default();
    let mut parts: Vec<HostRecord> = Vec::with_capacity(folders.len());
    for folder in folders {
        let mut part = read(folder)?;
        if let Some(first) = parts.first() {
            checks::same_run(first, &part)?;
        }
        if let Some(twice) = parts.iter().find(|other| other.share.share == part.share.share) {
            let (share, other) = (part.share.share, twice.folder.display());
            let why = format!("share {share} is in {other} as well; name each share once");
            return Err(RecordError::Share { path: folder.clone(), why });
        }
        rows.add(&std::mem::take(&mut part.run.details.timeline), &part.share);
        if let Some(seen) = part.run.details.os.as_mut().filter(|_| !part.share.share.is_first()) {
            seen.seconds = SharedList::default();
        }
        parts.push(part);
    }
    parts.sort_by_key(|part| part.share.share.number);
    let timeline = rows.into_timeline();
    let window = steady_bounds(&parts);
    let latency = timeline::latencies(&parts, timeline, window, into)?;
    let run = merged(&parts, latency, window);
    seconds::save(into, &run)?;
    keep_server_seconds(&parts, into)?;
    Ok(run)
}

fn read(folder: &Path) -> Result<HostRecord, RecordError> {
    let refused = |why: String| RecordError::Share { path: folder.to_owned(), why };
    let run = super::load_each_second(folder)?;
    if run.is_still_running() {
        return Err(refused("petal is still at work on it; merge when it has ended".to_owned()));
    }
    let Some(share) = run.summary.share.clone() else {
        return Err(refused(
            "it is no share of a run: it was run without --share K/N, or is merged already"
                .to_owned(),
        ));
    };
    Ok(HostRecord { folder: folder.to_owned(), run, share })
}

/// The whole record without its findings.
fn merged(parts: &[HostRecord], latency: Latency, window: Option<(f64, f64)>) -> Run {
    let Some(first) = parts.first() else { return Run::default() };
    let hosts = hosts(parts);
    let each = || parts.iter().map(|part| &part.run);
    let mut run = first.run.clone();
    let summary = &mut run.summary;
    summary.status = status(&hosts, parts);
    summary.share = None;
    summary.sessions = each().map(|run| run.summary.sessions).sum();
    summary.started_at = started_at(parts);
    summary.elapsed_s = each().map(|run| run.summary.elapsed_s).fold(0.0, f64::max);
    summary.errors = database::sum_by_name(each().map(|run| &run.summary.errors));
    summary.sessions_lost = each().flat_map(|run| run.summary.sessions_lost.clone()).collect();
    summary.sessions_lost.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    summary.hosts = hosts;
    run.details.rebuilt = false;
    run.details.rebuilt_because = None;
    add_up_details(&mut run.details, parts);
    run.details.timeline = latency.timeline.into();
    run.set_latencies(&latency.whole);
    database::fill(&mut run, parts, &latency.whole);
    (run.summary.steady, run.details.steady) = (None, None);
    if let Some(bounds) = window {
        database::fill_window(&mut run, parts, bounds, &latency.steady);
    }
    run.summary.os = OsFigures::of(&run);
    run
}

fn add_up_details(details: &mut Details, parts: &[HostRecord]) {
    let each = || parts.iter().map(|part| &part.run.details);
    let least = |of: fn(&Details) -> Option<f64>| each().filter_map(of).reduce(f64::min);
    let most = |of: fn(&Details) -> Option<f64>| each().filter_map(of).reduce(f64::max);
    details.first_done_s = least(|other| other.first_done_s);
    details.last_done_s = most(|other| other.last_done_s);
    details.connect_s = most(|other| other.connect_s);
    details.saturated = each().map(|other| other.saturated).sum();
    details.ops_untimed = each().map(|other| other.ops_untimed).sum();
    details.ops_not_as_asked = each().map(|other| other.ops_not_as_asked).sum();
    details.backlog = each().map(|other| other.backlog).sum();
    let suspended = each().map(|other| other.suspended.clone());
    details.suspended = suspended.reduce(|all, other| Some([all?, other?].concat())).flatten();
    details.bad_blocks = each().flat_map(|other| other.bad_blocks.clone()).collect();
    if details.target.in_process {
        // Each process counted only its own writes.
        details.written = None;
    }
    details.other_runs = Vec::new();
    for other in each().flat_map(|other| &other.other_runs) {
        if !details.other_runs.contains(other) {
            details.other_runs.push(other.clone());
        }
    }
    for part in parts.iter().skip(1) {
        // Changes of the server are seen by the first host alone, limits by each host.
        if let Some(other) = &part.run.details.facts {
            details.facts.get_or_insert_default().add_host(&part.name(), other);
        }
    }
    details.data_vanished = each().find_map(|other| other.data_vanished.clone());
    details.plan_after = PlanCheck::worst(each().filter_map(|other| other.plan_after.clone()));
    let gaps = parts.iter().flat_map(|part| {
        part.run.details.gaps.iter().map(move |gap| format!("{}: {gap}", part.name()))
    });
    details.gaps = gaps.collect();
}

/// A host without a whole record makes the run incomplete, even if the others are complete.
fn status(hosts: &[HostRun], parts: &[HostRecord]) -> Status {
    let is = |status| parts.iter().any(|part| part.run.summary.status == status);
    if hosts.iter().any(|host| !host.is_whole()) || is(Status::Incomplete) {
        Status::Incomplete
    } else if is(Status::Interrupted) {
        Status::Interrupted
    } else if parts.iter().any(|part| part.run.details.has_changed_data()) || !is(Status::Complete)
    {
        Status::Failed
    } else {
        Status::Complete
    }
}

/// The trigger of the first host.
fn started_at(parts: &[HostRecord]) -> String {
    let first = parts.iter().filter_map(HostRecord::triggered).min();
    let of_first_share = || parts.first().map(|part| part.run.summary.started_at.clone());
    first.map(moment::exact).or_else(of_first_share).unwrap_or_default()
}

/// Each share of the plan, including shares that left no record.
fn hosts(parts: &[HostRecord]) -> Vec<HostRun> {
    let Some(of) = parts.first().map(|part| part.share.share.of) else { return Vec::new() };
    let first = parts.iter().filter_map(HostRecord::triggered).min();
    let shares =
        (1..=of).map(|number| match parts.iter().find(|part| part.share.share.number == number) {
            Some(part) => host(part, &parts[0], first),
            None => {
                let share = HostShare { share: Share { number, of }, ..HostShare::default() };
                HostRun { share, ..HostRun::default() }
            }
        });
    shares.collect()
}

fn host(part: &HostRecord, first_share: &HostRecord, first: Option<OffsetDateTime>) -> HostRun {
    let Run { summary, details } = &part.run;
    let seen = details.os.as_ref().map(|seen| &seen.whole.sum);
    let busy = seen.and_then(|sum| sum.cpus.host?.share()).map(|cpu| cpu.busy());
    let mut share = part.share.clone();
    if share.start.by == StartedBy::Barrier {
        // All shares began at the same moment, so these times differ by the distance of the clocks.
        share.start.clock_ahead_s = started(&first_share.run)
            .zip(started(&part.run))
            .map(|(first, own)| (first - own).as_seconds_f64());
    }
    let after = part.triggered().zip(first).map(|(own, first)| (own - first).as_seconds_f64());
    HostRun {
        share,
        status: Some(summary.status),
        rebuilt: details.rebuilt,
        sessions: summary.sessions,
        sessions_lost: summary.sessions_lost.len() as u32,
        elapsed_s: summary.elapsed_s,
        triggered_after_s: after,
        ops: summary.ops,
        ops_per_second: summary.per_second.ops,
        errors: summary.errors.clone(),
        petal_cpu_s: summary.petal_cpu_s,
        processors: details.host.as_ref().and_then(HostFacts::processors),
        busy_percent: busy,
        received_bytes: seen.and_then(|sum| sum.counts.received_bytes),
        sent_bytes: seen.and_then(|sum| sum.counts.sent_bytes),
        folder: part.folder.display().to_string(),
    }
}

/// The time in which all surviving sessions of all hosts ran; None if one of them has no such time.
fn steady_bounds(parts: &[HostRecord]) -> Option<(f64, f64)> {
    let all: Option<Vec<(f64, f64)>> = parts.iter().map(HostRecord::steady_bounds).collect();
    let common = all?.into_iter().reduce(|(from, to), own| (from.max(own.0), to.min(own.1)))?;
    (common.1 - common.0 >= 1.0).then_some(common)
}

/// Keeps the seconds of the database's host.
fn keep_server_seconds(parts: &[HostRecord], into: &RecordFolder) -> Result<(), RecordError> {
    let counting = parts.iter().filter(|part| part.share.counts_database).count();
    // If several processes work on the data, the seconds cover only one of them.
    let Some(first) = parts.first().filter(|_| counting <= 1) else { return Ok(()) };
    let path = first.folder.join(SERVER_NAME);
    if path.is_file() {
        let text = input::contents(&path, input::BYTES_MAX)?;
        into.write_atomically(SERVER_NAME, &text)?;
    }
    Ok(())
}
