//! The time of a mean operation, divided in parts that add up to it.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waterfall {
    /// Operations that the means are of.
    pub operations: u64,
    /// Mean time of an operation, by the clock of the operations' latencies.
    pub operation_us: Option<f64>,
    pub parts: Vec<WaterfallPart>,
    /// `operation_us` less the sum of the parts; negative if they are more.
    pub gap_us: Option<f64>,
    /// Reason why nothing is divided; null if the parts are known.
    pub why_unknown: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaterfallPart {
    pub part: PartOfTime,
    /// Exact sum over the operations; null if unknown, or if it is in no operation.
    pub us: Option<f64>,
    /// Single events, and their 99th percentile, which is no part of an operation's. Null for a
    /// difference of sums.
    pub events: Option<u64>,
    pub p99_us: Option<f64>,
    /// Clock or counter of the figure, or the reason why it is unknown.
    pub layer: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartOfTime {
    /// petal's session on a processor.
    Petal,
    /// The way between petal's call to send and the server, and back.
    Wire,
    /// The database on a processor, outside of calls for files.
    Processor,
    /// Ready to run, but waiting for a processor.
    RunQueue,
    /// Reads in the page cache or the file system.
    FileSystem,
    BlockQueue,
    Device,
    /// Calls that read files, if they cannot be divided.
    Reads,
    /// Calls that write or sync files.
    Writes,
    /// Blocked outside of calls for files and sockets.
    Other,
}

impl PartOfTime {
    /// All parts, from the top layer down.
    pub const ALL: [Self; 10] = [
        Self::Petal,
        Self::Wire,
        Self::Processor,
        Self::RunQueue,
        Self::FileSystem,
        Self::BlockQueue,
        Self::Device,
        Self::Reads,
        Self::Writes,
        Self::Other,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Petal => "petal",
            Self::Wire => "wire",
            Self::Processor => "processor",
            Self::RunQueue => "waiting for a processor",
            Self::FileSystem => "page cache, file system",
            Self::BlockQueue => "block queue",
            Self::Device => "device",
            Self::Reads => "reads, not divided",
            Self::Writes => "writes and syncs",
            Self::Other => "locks and other waits",
        }
    }
}

/// Share of an operation's time that the parts may lack, or have too much.
pub const GAP_SHARE_MAX: f64 = 0.05;

impl Waterfall {
    /// Whether the parts are known and divide the time of the operation.
    pub fn adds_up(&self) -> bool {
        let figures = self.operation_us.zip(self.gap_us);
        figures
            .is_some_and(|(all_us, gap_us)| all_us > 0.0 && gap_us.abs() <= all_us * GAP_SHARE_MAX)
    }

    /// A waterfall that is not known, with the reason.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self { why_unknown: Some(why.into()), ..Self::default() }
    }

    pub fn part(&self, part: PartOfTime) -> Option<f64> {
        self.parts.iter().find(|known| known.part == part)?.us
    }

    /// Returns a part over the time of the operation.
    pub fn share(&self, part: PartOfTime) -> Option<f64> {
        let all_us = self.operation_us.filter(|&us| us > 0.0)?;
        Some(self.part(part)? / all_us)
    }
}
