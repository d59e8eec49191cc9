//! Instance activity statistics, by name.

use std::collections::{HashMap, HashSet};

use super::figure::Figure;
use super::number;
use super::page::{Page, Table, cell};
use super::report::Statistic;
use super::topic::Topic;

/// A statistic that stands in two sections alike is given once; two that a text report cut to the
/// same name are told apart by a number behind it.
pub fn read(page: &Page) -> Vec<(String, Statistic)> {
    let mut all: Vec<(String, Statistic)> = Vec::new();
    let mut times: HashMap<&str, usize> = HashMap::new();
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    for table in page.tables_of(Topic::Statistics) {
        for (name, total, statistic) in statistics(table) {
            if !seen.insert((name, total)) {
                continue;
            }
            let times = times.entry(name).or_default();
            *times += 1;
            let name = if *times > 1 { format!("{name} [{times}]") } else { name.to_owned() };
            all.push((name, statistic));
        }
    }
    all
}

/// Each statistic with its name and its total, as printed.
fn statistics(table: &Table) -> impl Iterator<Item = (&str, &str, Statistic)> {
    let name_at = table.column(&["statistic", "statisticname"]);
    let total_at = table.column(&["total"]);
    let second = table.column(&["persecond"]);
    let transaction = table.column(&["pertrans", "pertransaction"]);
    table.rows.iter().filter_map(move |row| {
        let (name, total) = (cell(row, name_at), cell(row, total_at));
        let figure =
            |at: Option<usize>| Figure::read(cell(row, Some(at?)), &table.title, number::count);
        let statistic = Statistic {
            total: Some(figure(total_at)?),
            per_second: figure(second),
            per_transaction: figure(transaction),
            is_cut: table.may_be_cut(name_at?, name),
        };
        (!name.is_empty()).then_some((name, total, statistic))
    })
}
