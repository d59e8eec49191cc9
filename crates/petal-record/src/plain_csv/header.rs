//! The columns of a plain CSV, by its header: of a known tool's table, or by their names.

use csv::StringRecord;

use super::column::{CsvColumn, figure, known};
use super::printed;

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

/// `Reads/s` is `reads_s`.
fn normal(name: &str) -> String {
    let lower = name.trim().trim_start_matches('\u{feff}').to_lowercase();
    let words =
        lower.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '.');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}
