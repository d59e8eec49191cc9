//! The meaning of a plain CSV's column, by its name: a factor, a figure, or one of the few with
//! time and length.

use crate::observation::metric;
use petal_settings::table;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum CsvColumn {
    Factor(String),
    Repeat,
    Elapsed,
    Started,
    ActiveBytes,
    /// `complete`, `interrupted` or `failed`.
    Status,
    /// Source of the figures.
    Source,
    /// The number of a sweep's cell: redundant, because its factors identify it.
    Cell,
    /// The ids of its warnings and errors.
    Findings,
    /// A sentence about a run: the time of its figures, the source of its reads, its limit.
    Words(&'static str),
    /// The file of a report: its name may end in the number of sessions.
    ReportFile,
    /// Microseconds; 0 if nothing was timed.
    Latency(String),
    Figure {
        name: String,
        /// Factor to the unit of the name.
        scale: f64,
        endpoint: Option<String>,
    },
}

/// Common names of figures, and petal's names.
const ALIASES: [(&str, &str); 13] = [
    ("iops", metric::PIOPS),
    ("piops", metric::PIOPS),
    ("reads", metric::READS),
    ("read_iops", metric::READS),
    ("writes", metric::WRITES),
    ("write_iops", metric::WRITES),
    ("us", metric::READ_US),
    ("ms", "read_ms"),
    ("ops", metric::OPS),
    ("mbps", metric::MB),
    ("waits", metric::READ_WAITS),
    ("wait_s", metric::READ_WAIT_S),
    ("time_waited_s", metric::READ_WAIT_S),
];

/// Units that may end a figure's name.
const UNITS: [&str; 6] = ["_s", "_us", "_ms", "_pct", "_mb", "_iops"];
const NODES: [&str; 5] = ["node", "endpoint", "instance", "inst", "n"];

/// Columns that are known by their whole name. Messages use the first name of a column.
const NAMED: [(&str, CsvColumn); 18] = [
    ("repeat", CsvColumn::Repeat),
    ("round", CsvColumn::Repeat),
    ("run", CsvColumn::Repeat),
    ("elapsed_s", CsvColumn::Elapsed),
    ("run_time_s", CsvColumn::Elapsed),
    ("started_at", CsvColumn::Started),
    ("active_bytes", CsvColumn::ActiveBytes),
    ("status", CsvColumn::Status),
    ("folder", CsvColumn::Source),
    ("source", CsvColumn::Source),
    ("cell", CsvColumn::Cell),
    ("findings", CsvColumn::Findings),
    ("verdict", CsvColumn::Words("verdict")),
    ("reason", CsvColumn::Words("reason")),
    ("next", CsvColumn::Words("next")),
    ("window", CsvColumn::Words("window")),
    ("served_by", CsvColumn::Words("served_by")),
    ("limited_by", CsvColumn::Words("limited_by")),
];

impl CsvColumn {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Factor(name) | Self::Latency(name) | Self::Figure { name, .. } => name,
            Self::Words(name) => name,
            _ => NAMED.iter().find(|(_, column)| column == self).map_or("file", |(name, _)| name),
        }
    }

    pub(super) fn is_of_endpoint(&self, of: &str) -> bool {
        matches!(self, Self::Figure { name, endpoint: Some(_), .. } if name == of)
    }
}

/// The meaning of a name alone; None if the name could mean anything.
pub(super) fn known(name: &str) -> Option<CsvColumn> {
    if let Some((_, column)) = NAMED.iter().find(|(known, _)| *known == name) {
        return Some(column.clone());
    }
    if name == metric::PRICE {
        return Some(figure(name));
    }
    if table::find(&name.to_uppercase()).is_some() {
        return Some(CsvColumn::Factor(name.to_owned()));
    }
    let (bare, _) = split_endpoint(name);
    let is_alias = ALIASES.iter().any(|(alias, _)| *alias == bare);
    (is_alias || UNITS.iter().any(|unit| bare.ends_with(unit))).then(|| figure(name))
}

pub(super) fn figure(name: &str) -> CsvColumn {
    let (bare, endpoint) = split_endpoint(name);
    let alias = ALIASES.iter().find(|(alias, _)| *alias == bare);
    let bare = alias.map_or(bare, |(_, name)| name);
    let (name, scale) = match bare.strip_suffix("_ms") {
        Some(stem) => (format!("{stem}_us"), 1000.0),
        None => (bare.to_owned(), 1.0),
    };
    CsvColumn::Figure { name, scale, endpoint }
}

/// `reads_s_node1` and `reads_s_node_1` are the figure `reads_s` of `node1`.
fn split_endpoint(name: &str) -> (&str, Option<String>) {
    let digits = name.len() - name.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let (stem, number) = name.split_at(name.len() - digits);
    let stem = stem.strip_suffix('_').unwrap_or(stem);
    let Some((bare, word)) = stem.rsplit_once('_').filter(|_| digits > 0) else {
        return (name, None);
    };
    if NODES.contains(&word) { (bare, Some(format!("{word}{number}"))) } else { (name, None) }
}
