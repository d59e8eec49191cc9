//! The rows of a cluster's tables: those of its instances by their number, and what stands for all.

use super::figure::Figure;
use super::number as printed;
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::topic::Topic;

/// The cluster's row of a table: `Sum`, or the only one of a report over a single instance, which
/// has no `Sum`.
pub fn total(table: &PageTable) -> Option<TableRow<'_>> {
    let at = number_column(table);
    let sum = table.rows.iter().find(|row| cell(*row, at) == "Sum");
    sum.or_else(|| {
        let [only] = instance_rows(table)[..] else { return None };
        Some(only)
    })
}

/// The row of one instance.
pub fn row_of<'t>(table: &'t PageTable, instance: &str) -> Option<TableRow<'t>> {
    let at = number_column(table);
    table.rows.iter().find(|row| cell(*row, at) == instance)
}

pub fn number_column(table: &PageTable) -> Option<usize> {
    table.column(&["i"]).or(Some(0))
}

/// True of the number of an instance, false of `Sum`, `Avg`, `*` and blanks.
pub fn is_instance(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The rows of single instances.
pub fn instance_rows(table: &PageTable) -> Vec<TableRow<'_>> {
    let at = number_column(table);
    table.rows.iter().filter(|row| is_instance(cell(*row, at))).collect()
}

/// The rows of the instances in the report, as it lists them.
pub fn listed(page: &ParsedReport) -> Option<(&PageTable, Vec<TableRow<'_>>)> {
    let table = page.first(Topic::ClusterInstances)?;
    Some((table, instance_rows(table)))
}

/// The sum of a column over some rows, if each of them has it.
pub fn sum(
    table: &PageTable,
    rows: &[TableRow<'_>],
    column: Option<usize>,
    parse: impl Fn(&str) -> Option<printed::Printed>,
) -> Option<Figure> {
    let read = |row: &TableRow<'_>| Figure::read(cell(*row, column), &table.title, &parse);
    let figures: Vec<Figure> = rows.iter().map(read).collect::<Option<_>>()?;
    match figures.as_slice() {
        [one] => Some(one.clone()),
        all => Figure::sum(all, format!("{}: sum of the instances", table.title)),
    }
}
