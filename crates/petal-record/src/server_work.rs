//! The work of a whole database server, for all its users, since it was started: the counts for a
//! profile of its load, each with its source in the server. Plain values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

macro_rules! figures {
    ($(#[$outer:meta])* pub enum $enum:ident { $($(#[$doc:meta])* $figure:ident => $words:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $enum { $($(#[$doc])* $figure),+ }

        impl $enum {
            pub const ALL: [Self; [$($words),+].len()] = [$(Self::$figure),+];

            /// Name in a profile: `single_block_reads`.
            pub fn name(self) -> String {
                name_of(&self)
            }

            /// Words for a person, in the plural.
            pub fn words(self) -> &'static str {
                match self { $(Self::$figure => $words),+ }
            }
        }
    };
}

figures! {
    /// Work that is counted; a profile has it per second.
    pub enum WorkCount {
        /// Read requests of one block.
        SingleBlockReads => "single-block reads",
        /// Read requests of several blocks at once.
        MultiBlockReads => "multi-block reads",
        /// Blocks that those requests carried.
        MultiBlockReadBlocks => "blocks of multi-block reads",
        /// Blocks of data written by any process, without the log.
        BlockWrites => "block writes",
        /// Transactions that changed data and were committed.
        Commits => "commits",
        /// Bytes put into the log.
        RedoBytes => "redo bytes",
    }
}

figures! {
    /// Work that is timed; a profile has the mean of one.
    pub enum WorkTime {
        SingleBlockRead => "single-block reads",
        MultiBlockRead => "multi-block reads",
        BlockWrite => "block writes",
        LogWrite => "log writes",
        /// A session waits until its commit is durable.
        Commit => "commits",
    }
}

fn name_of<T: Serialize>(figure: &T) -> String {
    let value = serde_json::to_value(figure).ok();
    value.as_ref().and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

/// Cumulative work of one server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerWork {
    /// The server as a person names it.
    pub endpoint: String,
    /// Product and version.
    pub product: String,
    pub block_bytes: Option<u32>,
    /// Start of the counters: another value means that they restarted.
    pub counted_since: String,
    pub counts: BTreeMap<WorkCount, u64>,
    /// Count and total nanoseconds.
    pub times: BTreeMap<WorkTime, (u64, u64)>,
    /// Source of each figure, by its name.
    pub sources: BTreeMap<String, String>,
    /// Why a figure is not known, or is other than its name says, by its name.
    pub gaps: BTreeMap<String, String>,
}

impl ServerWork {
    /// Takes a count that the server may not keep; `source` is its place in the server.
    pub fn count(&mut self, figure: WorkCount, value: Option<u64>, source: &str) {
        if let Some(value) = value {
            self.counts.insert(figure, value);
            self.sources.insert(figure.name(), source.to_owned());
        }
    }

    pub fn time(&mut self, figure: WorkTime, counted: Option<(u64, u64)>, source: &str) {
        if let Some(counted) = counted {
            self.times.insert(figure, counted);
            self.sources.insert(format!("{}_us", figure.name()), source.to_owned());
        }
    }

    pub fn gap(&mut self, figure: WorkCount, why: &str) {
        self.gaps.insert(figure.name(), why.to_owned());
    }

    pub fn time_gap(&mut self, figure: WorkTime, why: &str) {
        self.gaps.insert(format!("{}_us", figure.name()), why.to_owned());
    }
}
