//! Times of a database server's own calls that read, write and sync its files.

use serde::{Deserialize, Serialize};

use super::time_buckets::{GroupTimes, TimeBuckets, TimedEvents};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallKind {
    Read,
    Write,
    Sync,
}

impl CallKind {
    /// All kinds, in the order of the kernel's program.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Sync];

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CalledFiles {
    /// All regular files but the log's.
    Data,
    Log,
}

impl CalledFiles {
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Log => "log",
        }
    }
}

/// Calls of the server's processes that succeeded, by kind and files.
pub type ServerCalls = TimedEvents<CallTimes>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallTimes {
    pub call: CallKind,
    pub files: CalledFiles,
    /// Time from the entry into the call until its exit.
    pub time: TimeBuckets,
}

impl GroupTimes for CallTimes {
    fn is_like(&self, other: &Self) -> bool {
        (self.call, self.files) == (other.call, other.files)
    }

    fn histograms(&mut self) -> Vec<&mut TimeBuckets> {
        vec![&mut self.time]
    }
}
