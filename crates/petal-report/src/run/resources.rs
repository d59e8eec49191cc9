//! The table of resources: the used part of each, and its time for one operation.

use petal_host::numbers::decimal;
use petal_record::Run;

use crate::table::Table;

pub fn table(run: &Run) -> Table {
    let figure = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| decimal(value, digits))
    };
    let heading = "resource | used | of | in use % | us an operation | layer, or why unknown";
    Table::headed(heading).with_rows(run.summary.resources.iter().map(|of| {
        let percent = of.utilisation.map(|share| share * 100.0);
        let last = of.why_unknown.as_ref().unwrap_or(&of.layer);
        [
            of.resource.clone(),
            figure(of.used, 2),
            figure(of.capacity, 2),
            figure(percent, 0),
            figure(of.demand_us, 1),
            last.clone(),
        ]
    }))
}
