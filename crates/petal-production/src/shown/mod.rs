//! AWR and Statspack reports as petal shows them: a table, CSV, JSON, the columns of awr_info, the
//! table of events, and the source of each figure. Pure functions of [`Report`]s; docs/awr.md
//! describes every column.

pub mod csv;
pub mod events;
pub mod explain;
pub mod info;
pub mod io_rows;
pub mod over_time;
pub mod page;
pub mod table;
#[cfg(feature = "xlsx")]
pub mod workbook;

use petal_awr::report::Report;

/// Returns all figures as indented JSON, with a final newline.
pub fn json(reports: &[Report]) -> Result<String, serde_json::Error> {
    petal_report::json::pretty(&std::collections::BTreeMap::from([("reports", reports)]))
}

/// The factors of all reports, in the order in which they first appear.
fn factor_names(reports: &[Report]) -> Vec<&str> {
    let all = reports.iter().flat_map(|report| &report.factors);
    petal_judge::distinct(all.map(|(name, _)| name.as_str()))
}

#[cfg(test)]
mod mutations;
#[cfg(test)]
mod tests;
