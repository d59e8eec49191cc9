//! The headline of a run or of a sweep's cell: its verdict, then its figures. It is made once, when
//! the run is judged, and every report shows this value.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::conclusions::{LimitedBy, ServedBy};
use petal_host::numbers::decimal;

/// A verdict and the figures that it allows. A figure that the verdict strikes out is null here and
/// in `struck_out`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    pub verdict: Verdict,
    #[serde(flatten)]
    pub figures: HeadlineFigures,
    /// Figures that are no result of this run; null if the verdict strikes none out.
    pub struck_out: Option<HeadlineFigures>,
    pub served_by: ServedBy,
    pub limited_by: LimitedBy,
    pub window: CoveredTime,
    /// The command to type next.
    pub next: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct HeadlineFigures {
    pub piops: Piops,
    /// Mean of one block read, as the database or the shim timed it; or its stand-in timed it.
    pub read_us: Option<f64>,
    /// The clock of `read_us`, if the database did not time its reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_us_stand_in: Option<ReadClock>,
    /// Parts of `read_us`, if the kernel measured them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_parts: Option<ReadParts>,
    pub redo: RedoRate,
    /// Blocks visited in the database; null if the run was not a test of logical reads.
    pub logical_reads: Option<LogicalReadRate>,
}

/// Parts of the mean time of one block read, in us.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadParts {
    pub device_us: f64,
    /// Waiting for a processor, which a database's clock has in its reads.
    pub run_queue_us: f64,
    pub rest_us: f64,
}

impl ReadParts {
    /// `device 175 + waiting for a processor 127 + rest 8`.
    pub fn words(&self) -> String {
        let digits = if self.device_us < 10.0 { 1 } else { 0 };
        let [device, queue, rest] =
            [self.device_us, self.run_queue_us, self.rest_us].map(|us| decimal(us, digits));
        format!("device {device} + waiting for a processor {queue} + rest {rest}")
    }
}

/// A clock of reads in place of the database's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadClock {
    ServerCalls,
    Device,
    /// petal's time of SELECTs over the blocks that they read: the work of the processors is in it, too.
    Operations,
}

impl ReadClock {
    pub fn words(self) -> &'static str {
        match self {
            Self::ServerCalls => "the server's calls",
            Self::Operations => "petal's operations",
            Self::Device => "the device",
        }
    }
}

/// Physical requests per second, as the database counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Piops {
    pub reads: Option<f64>,
    pub writes: Option<f64>,
    pub sum: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RedoRate {
    /// Millions of bytes of log per second.
    pub mb_s: Option<f64>,
    pub commits_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LogicalReadRate {
    pub per_s: f64,
    /// Rate of one processor that works for petal and the database; null if their use is unknown.
    pub per_core_s: Option<f64>,
}

/// The time that all figures of a headline cover.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CoveredTime {
    /// Seconds after the trigger.
    pub from_s: f64,
    pub to_s: f64,
    /// The time in words, with the reason if it is the whole run.
    pub words: String,
}

/// The resource that a run tested, and whether its figures are valid as that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub tested: Tested,
    pub validity: Validity,
    /// The verdict in a few words, such as `valid test of the device`.
    pub words: String,
    /// Reason for a verdict other than valid; null if it is valid.
    pub reason: Option<VerdictReason>,
    pub asked_for: AskedFor,
}

/// A finding that decided a verdict.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VerdictReason {
    /// The id of the finding.
    pub finding: String,
    pub sentence: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    #[default]
    Valid,
    /// The settings asked for physical reads, and a cache or memory served them.
    NotStorage,
    /// The figures do not belong to the requested test.
    Invalid,
}

/// The work that the settings asked for, with the data and the cache that they meet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedFor {
    /// Reads from storage: the database's cache cannot hold the data.
    #[default]
    PhysicalIo,
    /// Reads from the database's cache, which can hold the data.
    LogicalReads,
    /// UPDATEs alone, of data that the database's cache can hold.
    Redo,
}

/// The resource whose speed a run shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tested {
    Device,
    PageCache,
    StorageCache,
    /// Memory that a device of the data ends in, such as tmpfs below a loop device.
    Memory,
    DatabaseCache,
    Log,
    Processors,
    /// Processors that programs other than petal and the database use, too.
    SharedProcessors,
    /// Processors of petal itself.
    Petal,
    Network,
    /// Another server, for which commits wait.
    Replica,
    /// Locks and latches inside the database.
    Locks,
    /// Waits inside the database for something else, such as a timer.
    Waits,
    /// Latency at a rate that RATE or a replay asked for.
    Rate,
    ThinkTime,
    /// Storage whose counts petal does not see.
    #[default]
    UnseenStorage,
}

impl Tested {
    pub fn words(self) -> &'static str {
        match self {
            Self::Device => "the device",
            Self::PageCache => "the page cache",
            Self::StorageCache => "the storage's cache",
            Self::Memory => "memory",
            Self::DatabaseCache => "the database's cache",
            Self::Log => "the log",
            Self::Processors => "the processors",
            Self::SharedProcessors => "processors that others use, too",
            Self::Petal => "petal's own processors",
            Self::Network => "the network",
            Self::Replica => "the replica",
            Self::Locks => "locks in the database",
            Self::Waits => "waits in the database, not of the storage",
            Self::Rate => "the latency at the rate asked for",
            Self::ThinkTime => "the think time asked for",
            Self::UnseenStorage => "storage that petal does not see",
        }
    }
}

impl Verdict {
    pub fn is_valid(&self) -> bool {
        self.validity == Validity::Valid
    }

    /// The verdict with its reason.
    pub fn sentence(&self) -> String {
        match &self.reason {
            Some(reason) => format!("{}: {}", self.words, reason.sentence),
            None => self.words.clone(),
        }
    }
}

impl HeadlineFigures {
    /// Physical I/O in words.
    pub fn physical_words(&self) -> String {
        let Piops { reads, writes, .. } = self.piops;
        let clock = self.read_us_stand_in.map(|clock| format!(" ({})", clock.words()));
        let parts = self.read_parts.map(|parts| format!(" ({})", parts.words()));
        format!(
            "PIOPS {} read + {} write | single-block read {} us{}",
            shown(reads, 0),
            shown(writes, 0),
            shown(self.read_us, 1),
            clock.or(parts).unwrap_or_default()
        )
    }

    fn redo_words(&self) -> String {
        format!("redo {} MB/s", shown(self.redo.mb_s, 1))
    }

    /// All figures; the requested kind of test decides which come first.
    fn words(&self, asked_for: AskedFor) -> String {
        let mut parts = vec![self.physical_words(), self.redo_words()];
        if asked_for == AskedFor::Redo {
            parts.rotate_right(1);
            parts[0].push_str(&format!(", {} commits/s", shown(self.redo.commits_s, 0)));
        }
        if let Some(reads) = &self.logical_reads {
            let each = reads.per_core_s.map(|rate| format!(", {} per core", decimal(rate, 0)));
            let words = format!("logical reads {}/s", decimal(reads.per_s, 0));
            let at = usize::from(asked_for == AskedFor::Redo);
            parts.insert(at, words + &each.unwrap_or_default());
        }
        parts.join(" | ")
    }
}

impl Headline {
    /// The verdict and the figure of the requested kind of test.
    pub fn brief(&self) -> String {
        let reason = self.verdict.reason.as_ref();
        let reason = reason.map_or(String::new(), |it| format!(" ({}), no result", it.finding));
        let figures = self.struck_out.as_ref().unwrap_or(&self.figures);
        let figure = match (self.verdict.asked_for, figures.logical_reads) {
            (AskedFor::Redo, _) => {
                let RedoRate { mb_s, commits_s } = figures.redo;
                format!("{} MB/s of redo, {} commits/s", shown(mb_s, 1), shown(commits_s, 0))
            }
            (AskedFor::LogicalReads, Some(reads)) => {
                format!("{} logical reads/s", decimal(reads.per_s, 0))
            }
            _ => {
                let (piops, read_us) = (figures.piops.sum, figures.read_us);
                format!("{} PIOPS, {} us a read", shown(piops, 0), shown(read_us, 1))
            }
        };
        format!("{}{reason}: {figure}", self.verdict.words)
    }
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| decimal(value, digits))
}

/// The line to paste.
impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verdict, figures, served_by, limited_by, window, .. } = self;
        write!(f, "{}", verdict.words)?;
        if let Some(reason) = &verdict.reason {
            write!(f, " ({})", reason.finding)?;
        }
        match &self.struck_out {
            None => write!(f, " | {}", figures.words(verdict.asked_for))?,
            Some(out) if verdict.validity == Validity::NotStorage => {
                write!(f, " | no result: {} | {}", out.physical_words(), figures.redo_words())?;
            }
            Some(out) => write!(f, " | no result: {}", out.words(verdict.asked_for))?,
        }
        let (served_by, limited_by) = (&served_by.words, &limited_by.words);
        write!(f, " | served by: {served_by} | limited by: {limited_by} | {}", window.words)
    }
}
