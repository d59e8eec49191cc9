//! A host's operating system during a run: totals for the record, and the seconds: petal's host is
//! in [`seconds`], the database's host in another file ([`super::os_log`]).

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::load::MakeRows;
use super::os_log::{self, OsLogHeader};
use super::rows::SeenInRows;
use super::seconds::{self, UnreadOpening};
use super::{Run, SharedList, os_merge};
use petal_host::host::HostFacts;
use petal_host::os::{GroupLimit, KernelTimes, OsInterval, Whole};

/// The seconds of the database's host, as `petal os` recorded them there.
pub const SERVER_NAME: &str = "os-server.ndjson";

/// Sums cover a time if at most this share of it is missing.
const MISSING_SHARE_MAX: f64 = 0.01;
/// Largest distance between a sample and the end of its second.
pub(super) const SLACK_S: f64 = 0.1;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSeen {
    /// The host's own name.
    pub host: String,
    /// The file of `petal os` it was read from; null if petal watched the host itself.
    pub file: Option<String>,
    /// The host's facts, if it is not petal's host.
    pub facts: Option<HostFacts>,
    /// Processors that the database may use, by number; null if unknown.
    pub allowed_cpus: Option<Vec<u32>>,
    /// Processors' worth of time that the database's control group grants.
    pub group_quota: Option<f64>,
    /// The file with that quota.
    pub group_file: Option<String>,
    /// Limit of the control group around petal; null without a limit, or on another host.
    pub petal_group: Option<GroupLimit>,
    /// Alignment of its clock with petal's, in words; null if petal watched the host itself.
    pub clock: Option<String>,
    /// The last sample before the run, when the host should have been idle.
    pub before: Option<OsInterval>,
    /// Why single requests were not timed; null if they were, or in older records.
    pub requests_unseen: Option<String>,
    /// Why the server's calls were not timed; null if they were, or if nobody asked
    /// for it.
    pub calls_unseen: Option<String>,
    /// Why threads were not timed, likewise.
    pub threads_unseen: Option<String>,
    pub whole: Whole,
    /// The sums of the whole run, if `whole` is reduced to a part of it.
    #[serde(skip)]
    pub over_run: Option<Box<OsInterval>>,
    /// Seconds of the run, which `run.json` leaves out because a long run has many.
    #[serde(skip)]
    pub seconds: SharedList<SecondSeen>,
}

/// Counts between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SecondSeen {
    /// Start of the interval, in seconds since the trigger.
    pub from_s: f64,
    /// The time that its requests, calls and threads cover.
    #[serde(default, skip_serializing_if = "TimesOf::is_own")]
    pub times: TimesOf,
    pub interval: OsInterval,
}

/// Requests, calls and threads of a long run are kept for some seconds together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimesOf {
    /// The interval itself.
    #[default]
    Own,
    /// None: a later interval has them.
    Later,
    /// The time from this second to the end of the interval.
    From(f64),
}

impl TimesOf {
    fn is_own(&self) -> bool {
        *self == Self::Own
    }
}

impl SecondSeen {
    pub fn end_s(&self) -> f64 {
        self.from_s + self.interval.seconds
    }
}

impl HostSeen {
    /// Takes the facts of a file's first line.
    pub fn from_header(header: &OsLogHeader) -> Self {
        Self {
            host: header.host.name.clone(),
            allowed_cpus: header.allowed_cpus.clone(),
            group_quota: header.group_quota,
            ..Self::default()
        }
    }

    /// The first line of a file of its seconds, of a run on this host.
    pub fn header(&self, run: &Run, host: HostFacts) -> OsLogHeader {
        OsLogHeader {
            petal_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: run.summary.started_at.clone(),
            host,
            devices: run.details.devices.clone(),
            allowed_cpus: self.allowed_cpus.clone(),
            group_quota: self.group_quota,
            ..OsLogHeader::default()
        }
    }

    /// The interval of the same second of the run.
    pub fn second(&self, from_s: f64, length_s: f64) -> Option<&OsInterval> {
        let at = self.seconds.partition_point(|second| second.from_s < from_s - SLACK_S);
        let second = self.seconds.get(at)?;
        let agrees = (second.from_s - from_s).abs() <= SLACK_S
            && (second.interval.seconds - length_s).abs() <= 2.0 * SLACK_S;
        agrees.then_some(&second.interval)
    }

    /// Sums of the seconds that lie within `from_s..to_s`. A second that was sampled late, as on a
    /// busy host, counts by its part within.
    pub(super) fn within(&self, from_s: f64, to_s: f64) -> Whole {
        let mut whole = Whole::default();
        for SecondSeen { from_s: at_s, interval, .. } in &self.seconds {
            let end_s = at_s + interval.seconds;
            let inside_s = end_s.min(to_s) - at_s.max(from_s);
            if *at_s > from_s - SLACK_S && end_s < to_s + SLACK_S {
                whole.add(interval);
            } else if inside_s > SLACK_S {
                whole.add(&interval.part(inside_s / interval.seconds));
            }
        }
        if self.seconds.iter().any(|second| !second.times.is_own()) {
            whole.sum.set_times(times_within(&self.seconds, from_s, to_s));
        }
        whole
    }

    /// The data's own devices if their requests were timed, else the disks below them: a partition
    /// or a volume has none.
    pub fn timed_devices(&self) -> Vec<&str> {
        let sum = &self.whole.sum;
        let timed: BTreeSet<&str> = sum
            .requests
            .iter()
            .flat_map(|all| &all.times)
            .map(|times| times.device.as_str())
            .collect();
        let is_data = |name: &str| sum.devices.iter().flatten().any(|d| d.data && d.name == name);
        let data: Vec<&str> = timed.iter().copied().filter(|name| is_data(name)).collect();
        if data.is_empty() { timed.into_iter().collect() } else { data }
    }

    /// Number of its processors.
    pub fn processors(&self) -> Option<usize> {
        Some(self.whole.sum.cpus.each.len()).filter(|&count| count > 0)
    }
}

impl Run {
    /// The bounds of the times that have totals of their own.
    pub(super) fn window_bounds(&self) -> Vec<f64> {
        let window = self.summary.steady.as_ref().map(|steady| [steady.from_s, steady.to_s]);
        let until = self.summary.counted_until.map(|until| until.second);
        let experiments = self.details.experiments.as_ref().map(|made| made.from_s);
        window.into_iter().flatten().chain(until).chain(experiments).collect()
    }

    /// The host that the database runs on, if it was watched.
    pub fn database_host(&self) -> Option<&HostSeen> {
        let own = self.details.os.as_ref().filter(|_| self.details.target.local);
        self.details.server_os.as_ref().or(own)
    }

    /// The database host's sums; None if they cover only a part of the run.
    pub fn database_host_sums(&self) -> Option<&OsInterval> {
        let sum = &self.database_host()?.whole.sum;
        covers(sum, self.summary.elapsed_s).then_some(sum)
    }

    /// Whether the devices and processors of the database's host can be in this record.
    pub fn is_database_host_seen(&self) -> bool {
        self.details.target.local || self.details.server_os.is_some()
    }

    /// Why the devices and processors of the database's host are not in this record.
    pub fn why_database_host_is_unseen(&self) -> &str {
        self.details.target.host_unseen.as_deref().unwrap_or("the database is on another host")
    }
}

/// Times of the kernel's programs in an interval; unknown if they cover only a part of it.
pub(super) fn times_within(seconds: &[SecondSeen], from_s: f64, to_s: f64) -> KernelTimes {
    let mut covered_s = 0.0;
    let parts = seconds.iter().filter_map(|second| {
        let (end_s, begin_s) = (
            second.end_s(),
            match second.times {
                TimesOf::Own => second.from_s,
                TimesOf::From(begin_s) => begin_s,
                TimesOf::Later => return None,
            },
        );
        let inside_s = end_s.min(to_s) - begin_s.max(from_s);
        let is_within = begin_s > from_s - SLACK_S && end_s < to_s + SLACK_S;
        (is_within || inside_s > SLACK_S).then(|| {
            covered_s += inside_s;
            let times = second.interval.times();
            if is_within { times } else { times.part(inside_s / (end_s - begin_s)) }
        })
    });
    let sum = parts.reduce(|sum, part| sum.then(&part)).unwrap_or_default();
    let is_covered = covered_s >= (to_s - from_s) * (1.0 - MISSING_SHARE_MAX);
    if is_covered { sum } else { KernelTimes::default() }
}

/// Whether these sums cover that many seconds, and not only a part of them.
pub(super) fn covers(sum: &OsInterval, seconds: f64) -> bool {
    sum.seconds >= seconds * (1.0 - MISSING_SHARE_MAX)
}

/// Reads the seconds next to a whole record. A damaged file leaves a gap.
pub(super) fn attach(folder: &Path, run: &mut Run, rows: MakeRows) {
    let begin = |_: &UnreadOpening| rows(run.window_bounds());
    match seconds::read(&folder.join(seconds::NAME), begin) {
        Ok(read) => {
            let cut = read.torn.then(|| "they end with a line that is cut off".to_owned());
            let gaps = [read.gap, cut].into_iter().flatten();
            run.details.gaps.extend(gaps.map(|why| format!("not all seconds are known: {why}")));
            run.details.timeline = read.rows.into();
            if let Some(seen) = &mut run.details.os {
                seen.seconds = read.os_rows.into();
            }
        }
        Err(error) => run.details.gaps.push(format!("no seconds: {error}")),
    }
}

/// Reads the seconds of the database's host, from the file that was merged.
pub(super) fn attach_server(folder: &Path, run: &mut Run) {
    let details = &mut run.details;
    let path = folder.join(SERVER_NAME);
    let Some(seen) = details.server_os.as_mut().filter(|_| path.exists()) else { return };
    let mut rows = SeenInRows::of(&details.timeline);
    let read = os_log::read(&path, |_, line| {
        if let Some(from_s) = line.from_s {
            let mut interval = line.interval;
            interval.cpus.each = Vec::new();
            rows.push(SecondSeen { from_s, interval, ..SecondSeen::default() });
        }
    });
    seen.seconds = rows.finish().into();
    os_merge::fill_rows(&mut details.timeline, seen);
    if let Err(error) = read {
        details.gaps.push(format!("no seconds of the database's host: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use proptest::prelude::*;

    /// Seconds whose times are kept together, as in a long run.
    fn together(seconds: &[SecondSeen], lengths: &[usize]) -> Vec<SecondSeen> {
        let mut kept = seconds.to_vec();
        let mut left = kept.as_mut_slice();
        for &length in lengths.iter().cycle() {
            let (some, rest) = left.split_at_mut(length.min(left.len()));
            let Some((last, before)) = some.split_last_mut() else { break };
            let begin_s = before.first().map(|first| first.from_s);
            let times = before.iter_mut().map(|second| {
                second.times = TimesOf::Later;
                second.interval.take_times()
            });
            if let Some(sum) = times.reduce(|sum, part| sum.then(&part)) {
                last.interval.set_times(sum.then(&last.interval.times()));
                last.times = TimesOf::From(begin_s.unwrap());
            }
            left = rest;
        }
        kept
    }

    proptest! {
        #[test]
        fn sums_do_not_change_if_times_are_kept_together(
            lengths in prop::collection::vec(1usize..9, 1..5),
        ) {
            let mut run = fixture::mixed_run();
            fixture::time_requests(&mut run);
            let seen = run.details.os.unwrap();
            let long = HostSeen { seconds: together(&seen.seconds, &lengths).into(), ..seen.clone() };
            prop_assert_eq!(long.within(0.0, 60.0), seen.within(0.0, 60.0));
            // At its bounds a window takes a share.
            let [short, long] = [&seen, &long].map(|seen| seen.within(5.0, 59.0).sum.requests.unwrap());
            let count = |requests: &petal_host::os::requests::Requests| {
                requests.times.iter().map(|times| times.service.count() as f64).sum::<f64>()
            };
            prop_assert!((count(&long) / count(&short) - 1.0).abs() < 0.15);
        }
    }

    #[test]
    fn times_that_cover_only_a_part_are_unknown() {
        let mut run = fixture::mixed_run();
        fixture::time_requests(&mut run);
        let mut seen = run.details.os.unwrap();
        seen.seconds = together(&seen.seconds, &[10]).into();
        assert!(seen.within(0.0, 60.0).sum.requests.is_some());
        for second in seen.seconds.iter_mut().skip(50) {
            second.times = TimesOf::Later; // The run was killed.
            second.interval.take_times();
        }
        assert_eq!(seen.within(0.0, 60.0).sum.requests, None);
        assert!(seen.within(0.0, 50.0).sum.requests.is_some());
    }
}
