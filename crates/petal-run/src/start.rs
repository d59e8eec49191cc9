//! Common trigger of several driver hosts: a moment on one clock, or a barrier. The database's
//! clock is used if it can be read, so that hosts begin together even if their own clocks differ.

use std::thread;
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use petal_host::clock::ClockState;
use petal_host::numbers::decimal;
use petal_record::driver_hosts::{CommonStart, StartedBy};
use petal_record::moment;
use petal_record::target::TargetDetails;
use petal_workload::scatter::mix;

use super::RunError;
use super::job::{Job, Prepared, Start};

/// Time before the start at which the opening snapshot is taken.
const SNAPSHOT_BEFORE: Duration = Duration::from_secs(2);
/// Time before the start at which the operating system's counters are read.
const SAMPLE_BEFORE: Duration = Duration::from_millis(20);
/// Time that the counting share waits at the end for operations in flight on other hosts.
const OTHERS_END: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(100);
/// Clock difference from which petal warns.
const AHEAD_NOTED_S: f64 = 0.1;

impl Start<'_> {
    /// Decides which clock determines the start; `None` for a run that begins at once.
    pub fn common(
        self,
        details: &TargetDetails,
        clock_ahead_s: Option<f64>,
        note: &dyn Fn(&str),
    ) -> Option<CommonStart> {
        let at = match self {
            Self::AtOnce => return None,
            Self::At(at) => Some(moment::exact(at)),
            Self::Together(_) => {
                return Some(CommonStart { by: StartedBy::Barrier, ..CommonStart::default() });
            }
        };
        let is_server_here = details.local && !details.in_process;
        let common = match if is_server_here { Some(0.0) } else { clock_ahead_s } {
            Some(ahead_s) => CommonStart {
                by: StartedBy::DatabaseClock,
                at,
                clock_ahead_s: Some(ahead_s),
                ..CommonStart::default()
            },
            None => {
                let synchronised = ClockState::ask().map(|state| state.synchronised);
                CommonStart { by: StartedBy::OwnClock, at, synchronised, ..CommonStart::default() }
            }
        };
        match (common.clock_ahead_s, common.synchronised) {
            (Some(s), _) if s.abs() > AHEAD_NOTED_S => note(&format!(
                "the database's clock is {} s {} this host's: the run begins by the database's",
                decimal(s.abs(), 3),
                if s < 0.0 { "behind" } else { "ahead of" },
            )),
            (None, Some(false)) => note(
                "this host's clock is not synchronised: other hosts begin at another moment \
                 (chronyc waitsync, or timedatectl set-ntp true)",
            ),
            _ => {}
        }
        Some(common)
    }

    /// Waits until the opening snapshot is due. Fails if the moment has passed.
    pub fn wait_for_snapshot(self, job: &Job<'_>, prepared: &Prepared) -> Result<(), RunError> {
        let at = match self {
            Self::AtOnce => return Ok(()),
            Self::At(at) => at,
            Self::Together(hosts) => return Ok(hosts.agree(Ok(()))?),
        };
        let late = now(prepared) - at;
        if late.is_positive() {
            return Err(RunError::Environment(format!(
                "--start-at {}: all sessions were connected {} s after that, and other hosts \
                 have begun; give a later moment to all of them",
                moment::exact(at),
                decimal(late.as_seconds_f64(), 1),
            )));
        }
        let wait_s = (-late).as_seconds_f64();
        job.watch.note(&format!("connected; the run begins in {} s", decimal(wait_s, 0)));
        wait_until(job, prepared, at - SNAPSHOT_BEFORE)
    }

    /// Waits until the operating system's counters are due.
    pub fn wait_for_sample(self, job: &Job<'_>, prepared: &Prepared) -> Result<(), RunError> {
        match self {
            Self::AtOnce => Ok(()),
            Self::At(at) => wait_until(job, prepared, at - SAMPLE_BEFORE),
            Self::Together(hosts) => Ok(hosts.agree(Ok(()))?),
        }
    }

    /// Waits for the moment itself.
    pub fn wait_for_trigger(self, job: &Job<'_>, prepared: &Prepared) -> Result<(), RunError> {
        match self {
            Self::AtOnce => Ok(()),
            Self::At(at) => wait_until(job, prepared, at),
            Self::Together(hosts) => Ok(hosts.barrier()?),
        }
    }

    /// Waits, before the closing snapshot, for operations in flight on other hosts, which must end
    /// at `deadline`. Returns true if all hosts reported their end.
    pub fn wait_for_others(self, job: &Job<'_>, deadline: Instant) -> bool {
        match self {
            Self::AtOnce => false,
            Self::At(_) => {
                if job.counts_database() && !job.share.is_whole() {
                    thread::sleep(OTHERS_END);
                }
                false
            }
            Self::Together(hosts) => hosts.ended(deadline),
        }
    }

    /// Returns the expected trigger by this host's clock.
    pub fn expected(self, prepared: &Prepared) -> OffsetDateTime {
        match self {
            Self::AtOnce | Self::Together(_) => OffsetDateTime::now_utc(),
            Self::At(at) => at - clock_difference(prepared),
        }
    }

    /// Returns the record of the start, once the sessions were triggered.
    pub fn recorded(self, prepared: &Prepared, triggered: OffsetDateTime) -> Option<CommonStart> {
        let late_s = match self {
            Self::At(at) => Some((triggered + clock_difference(prepared) - at).as_seconds_f64()),
            Self::AtOnce | Self::Together(_) => None,
        };
        prepared.start.clone().map(|start| CommonStart { late_s, ..start })
    }
}

/// Derives the seed of a run whose hosts share only the moment of their start. It has 53 bits, so
/// that every JSON reader keeps it exactly.
pub fn seed(at: OffsetDateTime) -> u64 {
    mix(at.unix_timestamp_nanos() as u64) >> 11
}

/// Returns the time on the common clock.
fn now(prepared: &Prepared) -> OffsetDateTime {
    OffsetDateTime::now_utc() + clock_difference(prepared)
}

fn clock_difference(prepared: &Prepared) -> time::Duration {
    let ahead_s = prepared.start.as_ref().and_then(|start| start.clock_ahead_s);
    time::Duration::seconds_f64(ahead_s.unwrap_or(0.0))
}

fn wait_until(job: &Job<'_>, prepared: &Prepared, at: OffsetDateTime) -> Result<(), RunError> {
    loop {
        job.check_interrupted()?;
        let left = at - now(prepared);
        let Ok(left) = Duration::try_from(left) else { return Ok(()) };
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(POLL));
    }
}
