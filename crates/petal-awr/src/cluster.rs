//! Rows of a cluster's tables: one per instance, by instance number, and one for the whole cluster.

use super::figure::Figure;
use super::number as printed;
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::topic::Topic;

/// Returns the cluster's row of a table: `Sum`, or the only row of a single-instance report, which
/// has no `Sum`.
pub fn total(table: &PageTable) -> Option<TableRow<'_>> {
    let at = number_column(table);
    let sum = table.rows.iter().find(|row| cell(*row, at) == "Sum");
    sum.or_else(|| {
        let [only] = instance_rows(table)[..] else { return None };
        Some(only)
    })
}

/// Returns the row of one instance.
pub fn row_of<'t>(table: &'t PageTable, instance: &str) -> Option<TableRow<'t>> {
    let at = number_column(table);
    table.rows.iter().find(|row| cell(*row, at) == instance)
}

pub fn number_column(table: &PageTable) -> Option<usize> {
    table.column(&["i"]).or(Some(0))
}

/// True for an instance number; false for `Sum`, `Avg`, `*` and blanks.
pub fn is_instance(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the rows of single instances.
pub fn instance_rows(table: &PageTable) -> Vec<TableRow<'_>> {
    let at = number_column(table);
    table.rows.iter().filter(|row| is_instance(cell(*row, at))).collect()
}

/// Returns the rows of the instances in the report, in the report's order.
pub fn listed(page: &ParsedReport) -> Option<(&PageTable, Vec<TableRow<'_>>)> {
    let table = page.first(Topic::ClusterInstances)?;
    Some((table, instance_rows(table)))
}

/// Sums a column over some rows, or returns `None` if a row lacks it.
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
