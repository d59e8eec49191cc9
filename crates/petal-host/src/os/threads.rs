//! The time of the threads that execute operations, by state: of petal's sessions, and of a
//! server's threads that receive requests.

use serde::{Deserialize, Serialize};

use super::time_buckets::{GroupTimes, TimeBuckets, TimedEvents};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadRole {
    /// A thread of petal that executes a session's operations.
    Session,
    /// A server's thread with a session of petal at the other end, from the arrival of a request
    /// until it begins to reply.
    Server,
    /// Another thread of the server that receives requests: of petal's own questions, of others, or
    /// of a session behind a relay.
    Others,
}

impl ThreadRole {
    /// All roles, in the order of the kernel's program.
    pub const ALL: [Self; 3] = [Self::Session, Self::Server, Self::Others];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// Running outside of calls for files; a session also outside of calls for sockets.
    Processor,
    /// Running in a call that reads a file.
    ReadProcessor,
    /// Blocked in a call that reads a file.
    ReadWait,
    /// Running or blocked in a call that writes or syncs a file.
    Write,
    /// Ready to run, waiting for a processor.
    Queue,
    /// Waiting for a processor from the moment a request arrives; of a server.
    Wake,
    /// Running or blocked in calls for sockets; of a session.
    Socket,
    /// Blocked outside of calls for files and sockets: locks, for example.
    Other,
    /// The whole time from the arrival of a request until the reply begins; of a server.
    Span,
}

impl ThreadState {
    /// All states, in the order of the kernel's program.
    pub const ALL: [Self; 9] = [
        Self::Processor,
        Self::ReadProcessor,
        Self::ReadWait,
        Self::Write,
        Self::Queue,
        Self::Wake,
        Self::Socket,
        Self::Other,
        Self::Span,
    ];
}

/// Stretches of time, each in one state.
pub type ThreadTimes = TimedEvents<StateTimes>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateTimes {
    pub role: ThreadRole,
    pub state: ThreadState,
    pub time: TimeBuckets,
}

impl GroupTimes for StateTimes {
    fn is_like(&self, other: &Self) -> bool {
        (self.role, self.state) == (other.role, other.state)
    }

    fn histograms(&mut self) -> Vec<&mut TimeBuckets> {
        vec![&mut self.time]
    }
}

impl ThreadTimes {
    /// The time of one role in some states; empty if no stretch was counted.
    pub fn of(&self, role: ThreadRole, states: &[ThreadState]) -> TimeBuckets {
        let wanted = self.times.iter().filter(|it| it.role == role && states.contains(&it.state));
        wanted.fold(TimeBuckets::default(), |sum, times| sum.plus(&times.time))
    }
}
