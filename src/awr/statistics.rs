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
    let mut times: HashMap<String, usize> = HashMap::new();
    let mut seen: HashSet<(String, String)> = HashSet::new();
    for (name, statistic) in page.tables_of(Topic::Statistics).flat_map(statistics) {
        let total = statistic.total.as_ref().map(Figure::shown).unwrap_or_default();
        if !seen.insert((name.clone(), total)) {
            continue;
        }
        let times = times.entry(name.clone()).or_default();
        *times += 1;
        let name = if *times > 1 { format!("{name} [{times}]") } else { name };
        all.push((name, statistic));
    }
    all
}

fn statistics(table: &Table) -> Vec<(String, Statistic)> {
    let name_at = table.column(&["statistic", "statisticname"]);
    let (Some(name_at), Some(total_at)) = (name_at, table.column(&["total"])) else {
        return Vec::new();
    };
    let second = table.column(&["persecond"]);
    let transaction = table.column(&["pertrans", "pertransaction"]);
    let of_row = |row: &Vec<String>| {
        let name = cell(row, Some(name_at));
        let figure =
            |at: Option<usize>| Figure::read(cell(row, Some(at?)), &table.title, number::count);
        let statistic = Statistic {
            total: figure(Some(total_at)),
            per_second: figure(second),
            per_transaction: figure(transaction),
            is_cut: table.may_be_cut(name_at, name),
        };
        (!name.is_empty() && statistic.total.is_some()).then(|| (name.to_owned(), statistic))
    };
    table.rows.iter().filter_map(of_row).collect()
}
