//! Explains the source of each figure of a report: its section, as printed, and the computation.

use petal_awr::columns::COLUMNS;
use petal_awr::report::{Report, ReportKind};
use petal_report::numbers::UNKNOWN;
use petal_report::table::{Table, line};

use super::csv::plain;

const ABSENT: &str = "not in this report";

pub fn render(reports: &[Report]) -> String {
    reports
        .iter()
        .flat_map(Report::with_instances)
        .map(|report| of(&report))
        .collect::<Vec<_>>()
        .join("\n")
}

fn of(report: &Report) -> String {
    let mut table = Table::headed("figure | value: | unit | as printed: | from");
    for (name, value) in &report.factors {
        table.row([name.as_str(), value, "", "", "the file's name"]);
    }
    for column in COLUMNS {
        let figure = (column.value)(report);
        let (printed, from) = match &figure {
            Some(figure) => (figure.as_printed.clone(), figure.section.to_string()),
            None => (None, (column.reason)(report).unwrap_or_else(|| ABSENT.to_owned())),
        };
        let value = if figure.is_some() { plain(figure) } else { UNKNOWN.to_owned() };
        table.row([column.name, &value, column.unit, &printed.unwrap_or_default(), &from]);
    }
    let instance = match (report.kind, &report.header.instance) {
        (ReportKind::AwrgInstance, Some(name)) => format!(", instance {}", name.shown()),
        _ => String::new(),
    };
    let name = format!("{}{instance}", report.file);
    format!("{}\n{}", line(&name), table.render())
}
