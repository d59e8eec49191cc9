//! Driver hosts that can speak with each other: the ranks of an MPI launcher are the shares of a
//! run. They agree before the trigger, begin by a barrier, and hand their records to the first one.

mod exchange;
pub mod mpi;
mod progress;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use petal_workload::share::Share;

pub use exchange::{ExchangeLimits, HostSecond, SharedPlan, Together};
pub use progress::{CombinedProgress, ProgressShare};

/// Messages between ranks: a few, before a run and after it, and one a second of progress.
pub trait Peers: Send + Sync {
    /// Number of the rank, from 0.
    fn rank(&self) -> u32;

    fn size(&self) -> u32;

    fn send(
        &self,
        to: u32,
        tag: MessageTag,
        bytes: &[u8],
        wait: &PeerWait<'_>,
    ) -> Result<(), PeerError>;

    fn receive(
        &self,
        from: u32,
        tag: MessageTag,
        wait: &PeerWait<'_>,
    ) -> Result<Vec<u8>, PeerError>;

    /// Returns the sender of a message of this kind, if one has arrived.
    fn arrived(&self, tag: MessageTag) -> Result<Option<u32>, PeerError>;

    /// Returns when every rank has called it.
    fn barrier(&self, wait: &PeerWait<'_>) -> Result<(), PeerError>;

    /// Returns this rank's share; ranks are the shares.
    fn share(&self) -> Share {
        Share { number: self.rank() + 1, of: self.size() }
    }
}

/// Kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum MessageTag {
    /// Next step of all ranks, as the first one decides it.
    Next = 1,
    /// Plan of a run, from the first rank.
    Plan,
    /// Readiness of a rank.
    Ready,
    /// Decision of the first rank on readiness.
    Verdict,
    /// Progress of one second.
    Second,
    /// Signal at a rank during the run: all of them stop.
    Stop,
    /// End of a rank's sessions.
    Ended,
    /// Files of a rank's record.
    Record,
}

impl MessageTag {
    pub const ALL: [Self; 8] = [
        Self::Next,
        Self::Plan,
        Self::Ready,
        Self::Verdict,
        Self::Second,
        Self::Stop,
        Self::Ended,
        Self::Record,
    ];

    /// The content of such a message.
    fn words(self) -> &'static str {
        match self {
            Self::Next => "the next step",
            Self::Plan => "the plan of the run",
            Self::Ready => "its readiness",
            Self::Verdict => "the decision to begin",
            Self::Second => "its progress",
            Self::Stop => "a stop",
            Self::Ended => "the end of its sessions",
            Self::Record => "its record",
        }
    }
}

/// Time limit for other ranks.
pub struct PeerWait<'a> {
    until: Instant,
    limit: Duration,
    give_up: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> PeerWait<'a> {
    /// Waits until that time is over, or the caller gives up.
    pub fn at_most(limit: Duration, give_up: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { until: Instant::now() + limit, limit, give_up }
    }

    /// Waits until that time is over, despite any signal: for a short message at the end.
    pub fn uninterrupted(limit: Duration) -> Self {
        Self::at_most(limit, &|| false)
    }

    /// Returns an error when it is time to stop waiting.
    pub fn check(&self) -> Result<(), PeerError> {
        if (self.give_up)() {
            return Err(PeerError::Interrupted);
        }
        if Instant::now() >= self.until {
            return Err(PeerError::Silent(self.limit));
        }
        Ok(())
    }
}

/// Reason why a message was not sent or received.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    #[error("a signal ended the wait for other hosts")]
    Interrupted,
    #[error("no answer from another host within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("{0}")]
    Failed(String),
    /// Refusal by another host, which cannot run.
    #[error("{0}")]
    CalledOff(String),
}
