//! Processors that other programs kept busy on the database's host.

use petal_host::os::OsInterval;
use petal_record::Run;
use petal_record::os::HostSeen;

/// Others' share of the host's processors from which on they are reported, and the least part of
/// one processor: the kernel's own threads work too.
const PROCESSORS_SHARE_MIN: f64 = 0.10;
const PROCESSORS_MIN: f64 = 0.25;

/// Processors' worth of work that is neither petal's nor the database's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Others {
    pub processors: f64,
    pub of: usize,
    /// Petal's and the database's.
    pub own: f64,
}

/// Returns others' work on the database's host over the whole run; None if a part of it is unknown.
pub fn at_work(run: &Run) -> Option<Others> {
    let seen = run.database_host()?;
    of(run, seen, &seen.whole.sum)
}

/// Returns others' work over the time that is shown; over the whole run, if the seconds of that time
/// lack a part. None if both are unknown.
fn known(run: &Run) -> Option<Others> {
    let of_run = || {
        let seen = run.database_host()?;
        of(run, seen, seen.over_run.as_deref()?)
    };
    at_work(run).or_else(of_run)
}

/// Returns others' work, if it is enough to be reported.
pub(super) fn noticeable(run: &Run) -> Option<Others> {
    known(run).filter(|others| others.processors >= others.processors_min())
}

/// True if nobody knows how much others worked.
pub(super) fn is_unknown(run: &Run) -> bool {
    known(run).is_none()
}

/// Returns others' work in an interval of a host.
pub(super) fn of(run: &Run, seen: &HostSeen, interval: &OsInterval) -> Option<Others> {
    let working = interval.working_processors()?;
    let own_s = own_cpu_s(run, seen, interval)?;
    let own = own_s / interval.seconds;
    (interval.seconds > 0.0).then(|| Others {
        own,
        processors: (working - own).max(0.0),
        of: interval.cpus.each.len(),
    })
}

/// Returns the processors that others used in a part of the run; None if the seconds lack them. The
/// number of processors is the whole run's, because seconds do not keep processors one by
/// one.
pub(super) fn between(run: &Run, from_s: f64, to_s: f64) -> Option<Others> {
    let seen = run.database_host()?;
    let of = seen.whole.sum.cpus.each.len();
    let within = seen.seconds.iter().filter(|second| {
        let middle_s = second.from_s + second.interval.seconds / 2.0;
        (from_s..to_s).contains(&middle_s)
    });
    let (mut seconds, mut own_s, mut worked, mut all) = (0.0, 0.0, 0, 0);
    for second in within {
        let host = second.interval.cpus.host?;
        seconds += second.interval.seconds;
        own_s += own_cpu_s(run, seen, &second.interval)?;
        worked += host.user + host.nice + host.system;
        all += host.all();
    }
    (seconds > 0.0 && all > 0 && of > 0).then(|| {
        let own = own_s / seconds;
        let working = worked as f64 / all as f64 * of as f64;
        Others { own, processors: (working - own).max(0.0), of }
    })
}

impl Others {
    /// `others used 0.9 of 2`.
    pub fn words(self) -> String {
        format!("others used {:.1} of {}", self.processors, self.of)
    }

    /// True if others used more than petal and the database.
    pub fn prevail(self) -> bool {
        self.processors > self.own
    }

    /// The number of processors that others must use, or use in addition, to be reported.
    pub fn processors_min(self) -> f64 {
        PROCESSORS_MIN.max(PROCESSORS_SHARE_MIN * self.of as f64)
    }
}

/// Processor time of petal and the database there; None if a part is unknown.
fn own_cpu_s(run: &Run, seen: &HostSeen, interval: &OsInterval) -> Option<f64> {
    match (run.details.target.in_process, seen.file.is_some()) {
        (true, false) => interval.petal_cpu_s(),
        (true, true) => None,
        (false, false) => Some(interval.petal_cpu_s()? + interval.server_cpu_s()?),
        (false, true) => interval.server_cpu_s(),
    }
}
