//! The figures of a server as a table: the views it asks, and for each figure and version the columns
//! it is made of. The engine's code reads by the table, its page in docs is written from it, and a
//! figure that is unknown has a reason. Dialects differ in data only.

#[cfg(any(test, feature = "testing"))]
mod page;

use std::collections::BTreeMap;

#[cfg(any(test, feature = "testing"))]
pub use page::check_page;
use petal_record::counters::{IoCounts, Wait, WaitClass};

/// Versions of a product, by the server's number: from the first on, before the second.
#[derive(Debug, Clone, Copy)]
pub struct VersionRange {
    pub product: &'static str,
    pub from: u32,
    pub before: u32,
}

impl VersionRange {
    pub const fn new(product: &'static str, from: u32, before: u32) -> Self {
        Self { product, from, before }
    }

    pub fn contain(self, version: ServerVersion) -> bool {
        self.product == version.product && (self.from..self.before).contains(&version.number)
    }
}

/// The version of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerVersion {
    pub product: &'static str,
    pub number: u32,
}

/// A statistics view, or a function that answers like one. A view that changed has an entry for each
/// of its forms.
#[derive(Debug)]
pub struct View {
    pub name: &'static str,
    pub versions: &'static [VersionRange],
    /// Columns by petal's names, each with the server's expression; an empty one is the name.
    pub columns: &'static [(&'static str, &'static str)],
    /// The FROM clause and the rest of the query; empty for functions alone.
    pub source: &'static str,
    /// The right that shows it; empty if everybody sees it.
    pub grant: &'static str,
}

impl View {
    pub fn is_of(&self, version: ServerVersion) -> bool {
        self.versions.iter().any(|versions| versions.contain(version))
    }
}

/// The unit of a counter, or of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountUnit {
    /// Blocks; requests too, if each is for one block.
    Blocks,
    Requests,
    Bytes,
    Count,
}

/// The work that a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Work on petal's tables, by all sessions.
    OwnTables,
    /// Work of all client sessions at the server.
    Sessions,
    /// Work of all sessions in the database.
    Database,
    /// Work of the whole server with its background processes.
    Server,
}

/// A condition of one source, in petal's name for it; the dialect decides if it holds.
pub type FigureNeed = &'static str;

/// Columns that make a figure in some versions: the sum of each column times its factor.
#[derive(Debug)]
pub struct FigureSource {
    pub versions: &'static [VersionRange],
    /// `view.column` with its factor.
    pub terms: &'static [(&'static str, i64)],
    /// The column with the time of a wait, and its unit.
    pub time: Option<(&'static str, Picoseconds)>,
    pub unit: CountUnit,
    pub work: Work,
    pub needs: &'static [FigureNeed],
}

/// Picoseconds in a unit of time.
pub type Picoseconds = u64;
pub const MICROSECOND: Picoseconds = 1_000_000;
pub const MILLISECOND: Picoseconds = 1_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// A field of [`IoCounts`].
    Io,
    /// A common counter.
    Counter,
    /// A wait with its time.
    Wait(WaitClass),
}

/// A figure with all its sources: the first one that is known counts.
#[derive(Debug)]
pub struct FigureEntry {
    pub name: &'static str,
    pub kind: FigureKind,
    pub unit: CountUnit,
    pub sources: &'static [FigureSource],
    /// Versions without a source, each with the reason.
    pub holes: &'static [(&'static [VersionRange], &'static str)],
    /// Replacement while it is unknown; empty without one.
    pub stand_in: &'static str,
}

/// All of a dialect.
#[derive(Debug)]
pub struct FigureTable {
    pub views: &'static [View],
    pub figures: &'static [FigureEntry],
    /// A server has all columns of its version: one that is missing was refused, or began again.
    pub has_all_columns: bool,
    /// Each need, and the reason of a figure without it; empty if the figure then has no meaning.
    pub needs: &'static [(FigureNeed, &'static str)],
}

/// A look at a server's counters, for its figures.
pub struct Look<'a> {
    pub table: &'static FigureTable,
    pub version: ServerVersion,
    pub block_bytes: Option<u64>,
    /// Counters by `view.column`.
    pub raw: &'a BTreeMap<String, u64>,
    /// Views, and columns as `view.column`, that the server refused, with its words.
    pub refused: &'a BTreeMap<String, String>,
    pub unmet: &'a [FigureNeed],
}

impl Look<'_> {
    /// The I/O counts; unknown ones have a reason.
    pub fn io(&self) -> IoCounts {
        let of = |name: &str| self.figure(name).and_then(|figure| self.value(figure).ok());
        IoCounts::by_name(of)
    }

    /// The common counters that are known.
    pub fn counters(&self) -> impl Iterator<Item = (String, u64)> {
        let counters = self.table.figures.iter().filter(|it| it.kind == FigureKind::Counter);
        counters.filter_map(|it| Some((it.name.to_owned(), self.value(it).ok()?)))
    }

    /// The waits that are counted and timed.
    pub fn waits(&self) -> Vec<Wait> {
        let wait = |figure: &FigureEntry| {
            let FigureKind::Wait(class) = figure.kind else { return None };
            let (count, time_ns) = self.count_and_time(figure).ok()?;
            Some(Wait::counted(figure.name, class, Some(count), time_ns))
        };
        self.table.figures.iter().filter_map(wait).collect()
    }

    /// Each unknown figure with the reason.
    pub fn reasons(&self) -> BTreeMap<String, String> {
        let figures = self.table.figures.iter();
        let reason = |figure: &FigureEntry| {
            let known = match figure.kind {
                FigureKind::Wait(_) => self.count_and_time(figure).map(|_| ()),
                _ => self.value(figure).map(|_| ()),
            };
            let why = known.err().filter(|why| !why.is_empty())?;
            Some((figure.name.to_owned(), why))
        };
        figures.filter_map(reason).collect()
    }

    fn figure(&self, name: &str) -> Option<&'static FigureEntry> {
        self.table.figures.iter().find(|figure| figure.name == name)
    }

    fn value(&self, figure: &FigureEntry) -> Result<u64, String> {
        self.first_known(figure, |source| self.of_source(figure, source))
    }

    fn count_and_time(&self, figure: &FigureEntry) -> Result<(u64, u64), String> {
        self.first_known(figure, |source| {
            let (column, unit) = source.time.ok_or("the server does not time it")?;
            let time_ps = u128::from(self.column(column)?) * u128::from(unit);
            let time_ns = u64::try_from(time_ps / 1000).map_err(|_| "its time is past counting")?;
            Ok((self.of_source(figure, source)?, time_ns))
        })
    }

    /// The value of the first source that is known, else the reason of the first one. A counter that began again
    /// has no stand-in, whose count would be another one.
    fn first_known<T>(
        &self,
        figure: &FigureEntry,
        value: impl Fn(&FigureSource) -> Result<T, String>,
    ) -> Result<T, String> {
        let sources = figure.sources.iter().filter(|it| contain(it.versions, self.version));
        let mut first_reason = None;
        for source in sources {
            match self.unmet(source).map_or_else(|| value(source), |why| Err(why.to_owned())) {
                Ok(value) => return Ok(value),
                Err(why) => {
                    let is_lost = self.unmet(source).is_none() && self.is_lost(source);
                    first_reason = first_reason.or(Some(why));
                    if is_lost {
                        break;
                    }
                }
            }
        }
        let hole = || figure.holes.iter().find(|(versions, _)| contain(versions, self.version));
        Err(first_reason.unwrap_or_else(|| {
            hole().map_or("petal knows no source of it in this version", |(_, why)| why).to_owned()
        }))
    }

    fn is_lost(&self, source: &FigureSource) -> bool {
        let is_refused = |(column, _): &(&str, i64)| self.refusal(column).is_some();
        self.table.has_all_columns && !source.terms.iter().any(is_refused)
    }

    fn refusal(&self, column: &str) -> Option<&String> {
        let view = column.rsplit_once('.').map_or(column, |(view, _)| view);
        self.refused.get(column).or_else(|| self.refused.get(view))
    }

    fn unmet(&self, source: &FigureSource) -> Option<&'static str> {
        let need = source.needs.iter().find(|need| self.unmet.contains(need))?;
        self.table.needs.iter().find(|(name, _)| name == need).map(|(_, why)| *why)
    }

    fn of_source(&self, figure: &FigureEntry, source: &FigureSource) -> Result<u64, String> {
        let mut sum: i128 = 0;
        for (column, factor) in source.terms {
            sum += i128::from(self.column(column)?) * i128::from(*factor);
        }
        let block_bytes = || self.block_bytes.ok_or("the server's block size is not known");
        let sum = match (source.unit, figure.unit) {
            (CountUnit::Blocks, CountUnit::Bytes) => sum * i128::from(block_bytes()?),
            (CountUnit::Bytes, CountUnit::Blocks) => sum / i128::from(block_bytes()?.max(1)),
            _ => sum,
        };
        u64::try_from(sum).map_err(|_| "its counters do not fit each other".to_owned())
    }

    fn column(&self, name: &str) -> Result<u64, String> {
        self.raw.get(name).copied().ok_or_else(|| match self.refusal(name) {
            Some(why) => why.clone(),
            None => format!("the server gives no {name}, or it began again"),
        })
    }
}

fn contain(versions: &[VersionRange], version: ServerVersion) -> bool {
    versions.iter().any(|versions| versions.contain(version))
}

impl FigureTable {
    /// The views of a version.
    pub fn views_of(&self, version: ServerVersion) -> impl Iterator<Item = &'static View> {
        self.views.iter().filter(move |view| view.is_of(version))
    }
}
