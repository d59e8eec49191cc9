//! Instance activity statistics, by name. A report has some hundreds, of which few are used: they
//! are kept as rows and converted to figures on request.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use super::figure::Figure;
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

#[derive(Debug, Clone, Copy)]
struct StatisticRow {
    table: u32,
    row: u32,
    /// Number of the entry among those with the same name, from 1: text reports truncate different
    /// names to the same text.
    occurrence: u32,
}

impl ReportStatistics {
    pub fn of(tables: Vec<PageTable>) -> Self {
        let tables: Vec<StatisticsTable> = tables.into_iter().filter_map(columns).collect();
        let mut all = Self { tables, ..Self::default() };
        let mut entries = Vec::new();
        for (at, columns) in all.tables.iter().enumerate() {
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

    fn rows(&self) -> impl Iterator<Item = (&StatisticsTable, TableRow<'_>, u32)> {
        self.entries.iter().filter_map(|entry| {
            let (columns, row) = self.row(entry)?;
            Some((columns, row, entry.occurrence))
        })
    }

    /// Iterates over statistics with their names; entries that share a truncated name get a number.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, str>, Statistic)> {
        self.rows().map(|(columns, row, occurrence)| {
            let name = columns.name(row);
            let name = match occurrence {
                1 => Cow::Borrowed(name),
                _ => Cow::Owned(format!("{name} [{occurrence}]")),
            };
            (name, columns.statistic(row))
        })
    }

    /// Returns a statistic by its full name; a truncated name matches if only one entry starts with
    /// it.
    pub fn get(&self, name: &str) -> Option<Statistic> {
        let found = self.by_name.partition_point(|entry| self.name(entry) < Some(name));
        if let Some(entry) = self.by_name.get(found).filter(|it| self.name(it) == Some(name)) {
            let (columns, row) = self.row(entry)?;
            return Some(columns.statistic(row));
        }
        if self.tables.iter().all(|columns| columns.table.widths.is_empty()) {
            // Only text reports truncate names.
            return None;
        }
        let mut fitting = self.rows().filter(|(columns, row, _)| {
            let printed = columns.name(*row);
            name.starts_with(printed) && columns.table.may_be_cut(columns.name, printed)
        });
        let (columns, row, _) = fitting.next()?;
        fitting.next().is_none().then(|| columns.statistic(row))
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
