//! The meaning of a plain CSV's columns, by their names: a factor, a figure, or one of the few with
//! time and length.

use csv::StringRecord;

use super::printed;
use crate::record::observation::metric;
use crate::settings::table;

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
const NAMED: [(&str, CsvColumn); 15] = [
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

/// Every column, in order. Without `factors`, columns before the first figure are factors, and so
/// are later ones that `is_number` rejects.
pub(super) fn recognise(
    header: &StringRecord,
    rows: &[StringRecord],
    factors: Option<&[String]>,
    is_number: impl Fn(&str) -> bool,
) -> Result<Vec<CsvColumn>, String> {
    let names: Vec<String> = header.iter().map(normal).collect();
    if let Some(nameless) = names.iter().position(String::is_empty) {
        return Err(format!("column {} has no name; give it one", nameless + 1));
    }
    if let Some(columns) = printed::columns(&names).filter(|_| factors.is_none()) {
        return Ok(columns);
    }
    let columns = match factors {
        Some(factors) => by_factors(&names, factors)?,
        None => by_name(&names, |at| rows.iter().filter_map(|row| row.get(at)).all(&is_number)),
    };
    if !columns.iter().any(|column| matches!(column, CsvColumn::Figure { .. })) {
        return Err(format!(
            "no column is known as a figure: name the factor columns with --factors, or let the \
             unit end a figure's name (reads_s, read_us, mb_s); the columns are {}",
            names.join(", ")
        ));
    }
    let twice = columns.iter().enumerate().find(|(at, column)| columns[..*at].contains(column));
    match twice {
        Some((_, column)) => Err(format!(
            "two columns are called {}; a figure of several nodes ends in _node1, _node2",
            column.name()
        )),
        None => Ok(columns),
    }
}

fn by_factors(names: &[String], factors: &[String]) -> Result<Vec<CsvColumn>, String> {
    let factors: Vec<String> = factors.iter().map(|name| normal(name)).collect();
    if let Some(missing) = factors.iter().find(|name| !names.contains(name)) {
        return Err(format!(
            "there is no column {missing:?}; the columns are {}",
            names.join(", ")
        ));
    }
    let column = |name: &String| {
        if factors.contains(name) {
            CsvColumn::Factor(name.clone())
        } else {
            known(name).unwrap_or_else(|| figure(name))
        }
    };
    Ok(names.iter().map(column).collect())
}

fn by_name(names: &[String], is_numeric: impl Fn(usize) -> bool) -> Vec<CsvColumn> {
    let is_figure = |name: &String| matches!(known(name), Some(CsvColumn::Figure { .. }));
    let first = names.iter().position(is_figure).unwrap_or(names.len());
    names
        .iter()
        .enumerate()
        .map(|(at, name)| match known(name) {
            Some(column) => column,
            None if at > first && is_numeric(at) => figure(name),
            None => CsvColumn::Factor(name.clone()),
        })
        .collect()
}

/// The meaning of a name alone; None if the name could mean anything.
fn known(name: &str) -> Option<CsvColumn> {
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

fn figure(name: &str) -> CsvColumn {
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

/// `Reads/s` is `reads_s`.
fn normal(name: &str) -> String {
    let lower = name.trim().trim_start_matches('\u{feff}').to_lowercase();
    let words =
        lower.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '.');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}
