//! Instance activity statistics, by name. A report has some hundreds, of which few are used: they
//! are kept as rows and converted to figures on request.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use super::figure::Figure;
use super::laws::checks::{self, Doubtful, Part};
use super::number;
use super::page::{PageTable, TableRow, cell};

/// A statistic over the interval of a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Statistic {
    pub total: Option<Figure>,
    pub per_second: Option<Figure>,
    pub per_transaction: Option<Figure>,
}

/// Statistics of a report, in its order. A statistic that two sections print with the same value is
/// given once.
#[derive(Debug, Clone, Default)]
pub struct ReportStatistics {
    tables: Vec<StatisticsTable>,
    entries: Vec<StatisticRow>,
    /// Entries sorted by name, then by position, for a fast lookup: many names asked for are
    /// missing.
    by_name: Vec<StatisticRow>,
    /// Rows and columns of figures that break a law.
    forgotten: BTreeSet<(StatisticRow, usize)>,
}

/// Figures of a statistic, for laws.
pub struct StatisticPlace<'s> {
    pub name: &'s str,
    pub total: Option<Part>,
    pub per_second: Option<Part>,
    pub per_transaction: Option<Part>,
}

/// A table with the positions of its columns.
#[derive(Debug, Clone)]
struct StatisticsTable {
    table: PageTable,
    name: usize,
    total: usize,
    second: Option<usize>,
    transaction: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct StatisticRow {
    table: u32,
    row: u32,
    /// Number of the entry among those with the same name, from 1: text reports truncate different
    /// names to the same text.
    occurrence: u32,
}

impl ReportStatistics {
    /// Reads the tables, and notes rows whose cells are not under their headings.
    pub fn of(tables: Vec<PageTable>, notes: &mut Vec<String>) -> Self {
        let tables: Vec<StatisticsTable> = tables.into_iter().filter_map(columns).collect();
        let mut all = Self { tables, ..Self::default() };
        let mut entries = Vec::new();
        for (at, columns) in all.tables.iter().enumerate() {
            let has_rate = |row: &TableRow<'_>| {
                let number = |at| number::count(cell(*row, at)).is_some();
                cell(*row, Some(columns.total)).is_empty()
                    && (number(columns.second) || number(columns.transaction))
            };
            let shifted = columns.table.rows.iter().filter(has_rate).count();
            if shifted > 0 {
                notes.push(format!(
                    "{}: {shifted} rows with a rate and no total are shifted, and not read",
                    columns.table.title
                ));
            }
            let is_statistic = |row: TableRow<'_>| {
                let total = number::count(cell(row, Some(columns.total)));
                total.is_some() && !cell(row, Some(columns.name)).is_empty()
            };
            let rows = columns.table.rows.iter().enumerate().filter(|(_, row)| is_statistic(*row));
            let entry = |row| StatisticRow { table: at as u32, row: row as u32, occurrence: 0 };
            entries.extend(rows.map(|(row, _)| entry(row)));
        }
        all.by_name = all.count(&mut entries);
        all.entries = entries;
        all
    }

    /// Removes exact duplicates and numbers the entries that share a name; returns the entries
    /// sorted by name.
    fn count(&self, entries: &mut Vec<StatisticRow>) -> Vec<StatisticRow> {
        let key = |entry: &StatisticRow| {
            let columns = self.tables.get(entry.table as usize);
            let row = columns.and_then(|it| Some((it, it.table.rows.get(entry.row as usize)?)));
            row.map(|(it, row)| (cell(row, Some(it.name)), cell(row, Some(it.total))))
        };
        let place = |entry: &StatisticRow| (entry.table, entry.row);
        entries.sort_by(|one, two| key(one).cmp(&key(two)).then(place(one).cmp(&place(two))));
        entries.dedup_by(|next, first| key(next) == key(first));
        let name = |entry: &StatisticRow| key(entry).map(|(name, _)| name);
        entries.sort_by(|one, two| name(one).cmp(&name(two)).then(place(one).cmp(&place(two))));
        let mut before = (None, 0);
        for entry in entries.iter_mut() {
            let name = name(entry);
            before = (name, if name == before.0 { before.1 + 1 } else { 1 });
            entry.occurrence = before.1;
        }
        let by_name = entries.clone();
        entries.sort_by_key(place);
        by_name
    }

    fn row(&self, entry: &StatisticRow) -> Option<(&StatisticsTable, TableRow<'_>)> {
        let columns = self.tables.get(entry.table as usize)?;
        Some((columns, columns.table.rows.get(entry.row as usize)?))
    }

    fn name(&self, entry: &StatisticRow) -> Option<&str> {
        self.row(entry).map(|(columns, row)| columns.name(row))
    }

    /// Iterates over the figures that laws check.
    pub fn places(&self) -> impl Iterator<Item = StatisticPlace<'_>> {
        (0..self.entries.len()).filter_map(|at| self.place_at(at))
    }

    /// Returns the figures of a statistic with exactly this name.
    pub fn place(&self, name: &str) -> Option<StatisticPlace<'_>> {
        let at = self.by_name.partition_point(|entry| self.name(entry) < Some(name));
        let entry = self.by_name.get(at).filter(|entry| self.name(entry) == Some(name))?;
        self.place_at(self.entries.iter().position(|known| known == entry)?)
    }

    fn place_at(&self, at: usize) -> Option<StatisticPlace<'_>> {
        let entry = self.entries.get(at)?;
        let (columns, row) = self.row(entry)?;
        let Statistic { total, per_second, per_transaction } = self.statistic(entry)?;
        let part = |column, name, figure: Option<Figure>| {
            let range = if column == 0 { checks::counted } else { checks::interval };
            let value = range(&figure?)?;
            Some(Part { figure: Doubtful::Statistic(at, column), name, value })
        };
        Some(StatisticPlace {
            name: columns.name(row),
            total: part(0, "total", total),
            per_second: part(1, "per second", per_second),
            per_transaction: part(2, "per transaction", per_transaction),
        })
    }

    /// Iterates over totals that two sections print under one name. Text reports cut names, so that
    /// equal ones may be different statistics.
    pub fn doubles(&self) -> impl Iterator<Item = (&str, Part, Part)> {
        let is_whole = self.tables.iter().all(|columns| columns.table.widths.is_empty());
        let later = self.entries.iter().filter(move |entry| is_whole && entry.occurrence > 1);
        later.filter_map(|entry| {
            let name = self.name(entry)?;
            let other = self.entries.iter().position(|known| known == entry)?;
            Some((name, self.place(name)?.total?, self.place_at(other)?.total?))
        })
    }

    /// Makes a figure unknown, by the position of its statistic and its column.
    pub fn forget(&mut self, at: usize, column: usize) {
        self.forgotten.extend(self.entries.get(at).map(|entry| (*entry, column)));
    }

    fn statistic(&self, entry: &StatisticRow) -> Option<Statistic> {
        let (columns, row) = self.row(entry)?;
        let mut statistic = columns.statistic(row);
        let Statistic { total, per_second, per_transaction } = &mut statistic;
        for (column, figure) in [total, per_second, per_transaction].into_iter().enumerate() {
            if !self.forgotten.is_empty() && self.forgotten.contains(&(*entry, column)) {
                *figure = None;
            }
        }
        Some(statistic)
    }

    /// Iterates over statistics with their names; entries that share a truncated name get a number.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, str>, Statistic)> {
        self.entries.iter().filter_map(|entry| {
            let name = match (self.name(entry)?, entry.occurrence) {
                (name, 1) => Cow::Borrowed(name),
                (name, occurrence) => Cow::Owned(format!("{name} [{occurrence}]")),
            };
            Some((name, self.statistic(entry)?))
        })
    }

    /// Returns a statistic by its full name; a truncated name matches if only one entry starts with
    /// it.
    pub fn get(&self, name: &str) -> Option<Statistic> {
        let found = self.by_name.partition_point(|entry| self.name(entry) < Some(name));
        if let Some(entry) = self.by_name.get(found).filter(|it| self.name(it) == Some(name)) {
            return self.statistic(entry);
        }
        if self.tables.iter().all(|columns| columns.table.widths.is_empty()) {
            // Only text reports truncate names.
            return None;
        }
        let mut fitting = self.entries.iter().filter(|entry| {
            self.row(entry).is_some_and(|(columns, row)| {
                let printed = columns.name(row);
                name.starts_with(printed) && columns.table.may_be_cut(columns.name, printed)
            })
        });
        let entry = fitting.next()?;
        if fitting.next().is_none() { self.statistic(entry) } else { None }
    }
}

fn columns(table: PageTable) -> Option<StatisticsTable> {
    Some(StatisticsTable {
        name: table.column(&["statistic", "statisticname"])?,
        total: table.column(&["total"])?,
        second: table.column(&["persecond"]),
        transaction: table.column(&["pertrans", "pertransaction"]),
        table,
    })
}

impl StatisticsTable {
    fn name<'t>(&self, row: TableRow<'t>) -> &'t str {
        cell(row, Some(self.name))
    }

    fn statistic(&self, row: TableRow<'_>) -> Statistic {
        let figure = |at| self.table.count_at(row, at);
        Statistic {
            total: figure(Some(self.total)),
            per_second: figure(self.second),
            per_transaction: figure(self.transaction),
        }
    }
}

impl PartialEq for ReportStatistics {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Serialize for ReportStatistics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}
