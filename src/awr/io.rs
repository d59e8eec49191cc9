//! I/O by tablespace, file and function. Where headings do not stand over their own columns, the
//! evidence of the figures decides, and without evidence nothing is claimed.

use std::collections::BTreeMap;

use super::figure::{Figure, number};
use super::number as printed;
use super::page::{Page, Table, cell};
use super::report::{IoFunction, IoRow};
use super::topic::Topic;

pub struct Io {
    pub tablespaces: Vec<IoRow>,
    pub files: Vec<IoRow>,
    pub functions: Vec<IoFunction>,
    pub note: Option<&'static str>,
}

pub fn read(page: &Page, release: &str) -> Io {
    let rows = |topic| page.tables_of(topic).flat_map(rows).collect::<Vec<_>>();
    let files = rows(Topic::FileIo);
    let mut tablespaces = rows(Topic::TablespaceIo);
    let note = match order(&tablespaces, &files, release) {
        Order::AsHeaded => None,
        Order::WritesFirst => {
            tablespaces.iter_mut().for_each(writes_first);
            Some(
                "Tablespace IO Stats: writes and single-block reads stand under each other's headings",
            )
        }
        Order::Unknown => {
            tablespaces.iter_mut().for_each(forget);
            Some(
                "Tablespace IO Stats: which of its figures are writes cannot be told in this release",
            )
        }
    };
    let functions = page.tables_of(Topic::IoFunctions).flat_map(functions).collect();
    Io { tablespaces, files, functions, note }
}

fn rows(table: &Table) -> Vec<IoRow> {
    let Some(name) = table.column(&["tablespace"]) else { return Vec::new() };
    let file = table.column(&["filename", "file"]);
    table.rows.iter().filter_map(|row| io_row(row, table, name, file)).collect()
}

fn io_row(row: &[String], table: &Table, name: usize, file: Option<usize>) -> Option<IoRow> {
    let figure = |keys: &[&str]| {
        Figure::read(cell(row, Some(table.column(keys)?)), &table.title, printed::count)
    };
    let headed = table.columns.iter().enumerate().filter(|(_, column)| !column.name.is_empty());
    let pdb = table.column(&["pdbname", "pdb"]);
    let found = IoRow {
        tablespace: cell(row, Some(name)).to_owned(),
        file: file.map(|at| cell(row, Some(at)).to_owned()),
        pdb: pdb.and_then(|at| Figure::text(cell(row, Some(at)), &table.title)),
        reads: figure(&["reads"]),
        reads_per_s: figure(&["avrdss", "avreadss"]),
        read_ms: figure(&["avrdms"]),
        blocks_per_read: figure(&["avblksrd"]),
        single_block_reads_per_s: figure(&["1bkrdss"]),
        single_block_read_ms: figure(&["av1bkrdms"]),
        writes: figure(&["writes"]),
        writes_per_s: figure(&["writesavgs", "avwritess"]),
        write_ms: figure(&["avwritesms", "writesavgms"]),
        buffer_waits: figure(&["bufferwaits"]),
        buffer_wait_ms: figure(&["avbufwtms", "avbuffwtms"]),
        as_headed: headed
            .map(|(at, column)| (column.name.clone(), cell(row, Some(at)).to_owned()))
            .collect(),
    };
    let is_row = !found.tablespace.is_empty() && (found.reads.is_some() || found.writes.is_some());
    is_row.then_some(found)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    AsHeaded,
    /// Writes, single-block reads per second, their ms: under the headings single-block reads per
    /// second, their ms, writes.
    WritesFirst,
    Unknown,
}

/// How 11.2.0.4 prints tablespaces, and what gives it away.
fn order(tablespaces: &[IoRow], files: &[IoRow], release: &str) -> Order {
    if tablespaces.iter().all(|row| row.single_block_reads_per_s.is_none()) {
        return Order::AsHeaded;
    }
    // Single-block reads are among the reads: more of them in a second cannot be.
    let impossible = tablespaces.iter().any(|row| {
        let rates = number(&row.single_block_reads_per_s).zip(number(&row.reads_per_s));
        rates.is_some_and(|(single, all)| single > all + 1.0)
    });
    if impossible {
        return Order::WritesFirst;
    }
    let mut writes: BTreeMap<&str, f64> = BTreeMap::new();
    for file in files {
        *writes.entry(&file.tablespace).or_default() += number(&file.writes).unwrap_or(0.0);
    }
    let of_files = |row: &IoRow| writes.get(row.tablespace.as_str()).copied();
    let agree = |of: fn(&IoRow) -> Option<f64>| {
        let known = tablespaces.iter().filter_map(|row| of(row).zip(of_files(row)));
        known.clone().any(|(one, other)| one == other && one > 0.0)
            && known.clone().all(|(one, other)| one == other)
    };
    if agree(|row| number(&row.writes)) {
        Order::AsHeaded
    } else if agree(|row| number(&row.single_block_reads_per_s)) {
        Order::WritesFirst
    } else if release.starts_with("11.2.0.4") {
        Order::Unknown
    } else {
        Order::AsHeaded
    }
}

fn writes_first(row: &mut IoRow) {
    let writes = row.single_block_reads_per_s.take();
    row.single_block_reads_per_s = row.single_block_read_ms.take();
    row.single_block_read_ms = row.writes.take();
    row.writes = writes;
}

fn forget(row: &mut IoRow) {
    row.single_block_reads_per_s = None;
    row.single_block_read_ms = None;
    row.writes = None;
}

fn functions(table: &Table) -> Vec<IoFunction> {
    let name = table.column(&["functionname", "function"]);
    let cluster = table.column(&["i#"]);
    let reads = table.column(&["readsdata", "readdatavolume", "datavolume"]);
    let writes = table.column(&["writesdata", "writedatavolume"]).or_else(|| {
        // Statspack names both alike, under different groups.
        let same =
            table.columns.iter().enumerate().filter(|(_, column)| column.key == "datavolume");
        same.map(|(at, _)| at).nth(1)
    });
    let waits = table.column(&["waitscount", "count"]);
    let average = table.column_where(|key| key.starts_with("avgtm") || key.starts_with("avgtime"));
    let unit = average
        .and_then(|at| table.columns.get(at))
        .and_then(|column| column.key.ends_with("ms").then_some(1e3));
    let of_row = |row: &Vec<String>| {
        let read = |at: Option<usize>, parse: fn(&str) -> Option<printed::Printed>| {
            Figure::read(cell(row, Some(at?)), &table.title, parse)
        };
        let rate = |at: Option<usize>, keys: &[&str]| {
            read(at.map(|at| at + 1).or_else(|| table.column(keys)), printed::count)
        };
        IoFunction {
            name: cell(row, name).to_owned(),
            read_bytes: read(reads, printed::data),
            read_requests_per_s: rate(reads, &["readss"]),
            write_bytes: read(writes, printed::data),
            write_requests_per_s: rate(writes, &["writess"]),
            waits: read(waits, printed::count),
            wait_us: average.and_then(|at| {
                let parse = |text: &str| printed::duration_us(text, unit);
                Figure::read(cell(row, Some(at)), &table.title, parse)
            }),
        }
    };
    let is_kept = |row: &&Vec<String>| cluster.is_none_or(|at| cell(row, Some(at)) == "*");
    let rows = table.rows.iter().filter(is_kept).map(of_row);
    rows.filter(|function| !function.name.is_empty()).collect()
}
