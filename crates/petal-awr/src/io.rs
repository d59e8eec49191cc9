//! I/O by tablespace, file and function. In some releases the headings do not match their columns:
//! the release decides the order. If the release is unknown, so are these columns.

use super::figure::Figure;
use super::number as printed;
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::report::{IoFunction, IoRow};
use super::topic::Topic;

pub struct Io {
    pub tablespaces: Vec<IoRow>,
    pub files: Vec<IoRow>,
    pub functions: Vec<IoFunction>,
    pub file_types: Vec<IoFunction>,
    pub notes: Vec<String>,
}

pub fn read(page: &ParsedReport, release: &str) -> Io {
    let order = page.first(Topic::TablespaceIo).map(|table| order(table, release));
    let mut tablespaces: Vec<IoRow> = page.tables_of(Topic::TablespaceIo).flat_map(rows).collect();
    let note = match order.unwrap_or(ColumnOrder::AsHeaded) {
        ColumnOrder::AsHeaded => None,
        ColumnOrder::WritesFirst => {
            tablespaces.iter_mut().for_each(writes_first);
            Some(
                "Tablespace IO Stats: writes and single-block reads are under each other's headings",
            )
        }
        ColumnOrder::Unknown => {
            tablespaces.iter_mut().for_each(forget);
            Some(
                "Tablespace IO Stats: which of its figures are writes depends on the release, which is not known",
            )
        }
    };
    let files = page.tables_of(Topic::FileIo).flat_map(rows).collect();
    let mut notes: Vec<String> = note.into_iter().map(str::to_owned).collect();
    let mut of = |topic| {
        let tables = page.tables_of(topic);
        tables.flat_map(|table| possible(functions(table), &table.title, &mut notes)).collect()
    };
    let (functions, file_types) = (of(Topic::IoFunctions), of(Topic::IoFileTypes));
    Io { tablespaces, files, functions, file_types, notes }
}

fn rows(table: &PageTable) -> Vec<IoRow> {
    let Some(name) = table.column(&["tablespace"]) else { return Vec::new() };
    let file = table.column(&["filename", "file"]);
    table.rows.iter().filter_map(|row| io_row(row, table, name, file)).collect()
}

fn io_row(row: TableRow<'_>, table: &PageTable, name: usize, file: Option<usize>) -> Option<IoRow> {
    let figure = |keys: &[&str]| table.count(row, keys);
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

/// Order of the columns `1-bk Rds/s`, `Av 1-bk Rd(ms)` and `Writes` in a table of tablespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnOrder {
    AsHeaded,
    /// Writes, single-block reads per second, then their time in ms.
    WritesFirst,
    Unknown,
}

/// Decides the order by the release in the header: 11.2.0.4 prints these three columns in a
/// different order from their headings. Its table has no column between the single-block reads and
/// the writes; later releases have `% Opt Reads` there.
fn order(table: &PageTable, release: &str) -> ColumnOrder {
    let single = table.column(&["av1bkrdms"]);
    let is_suspect = single.is_some_and(|at| table.column(&["writes"]) == Some(at + 1));
    match release {
        _ if !is_suspect => ColumnOrder::AsHeaded,
        "" => ColumnOrder::Unknown,
        _ if release.starts_with("11.2.0.4") => ColumnOrder::WritesFirst,
        _ => ColumnOrder::AsHeaded,
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

/// Removes rows with a cell that cannot belong to its heading, and then all rows with blanks: their
/// cells may be shifted too.
fn possible(rows: Vec<IoFunction>, title: &str, notes: &mut Vec<String>) -> Vec<IoFunction> {
    let ends_in_letter = |printed: &str| printed.ends_with(|c: char| c.is_ascii_alphabetic());
    let is_possible = |row: &IoFunction| {
        let is_rate = |it: &Figure| it.number() != Some(0.0) || !ends_in_letter(&it.shown());
        let rates = [&row.read_requests_per_s, &row.write_requests_per_s];
        let is_count = |it: &Figure| !it.shown().contains('.') || ends_in_letter(&it.shown());
        let counts = [&row.read_bytes, &row.write_bytes, &row.waits];
        counts.into_iter().flatten().all(is_count) && rates.into_iter().flatten().all(is_rate)
    };
    if rows.iter().all(is_possible) {
        return rows;
    }
    let is_full = |row: &IoFunction| {
        row.read_bytes.is_some() && row.write_bytes.is_some() && row.waits.is_some()
    };
    let all = rows.len();
    let kept: Vec<IoFunction> =
        rows.into_iter().filter(|row| is_possible(row) && is_full(row)).collect();
    notes.push(format!(
        "{title}: {} of {all} rows have cells under other headings, or may have: theirs are unknown",
        all - kept.len()
    ));
    kept
}

fn functions(table: &PageTable) -> Vec<IoFunction> {
    let name = table.column(&["functionname", "function", "filetypename"]);
    let cluster = table.column(&["i"]);
    let reads = table.column(&["readsdata", "readdatavolume", "datavolume"]);
    let writes = table.column(&["writesdata", "writedatavolume"]).or_else(|| {
        // Statspack gives both the same name, under different groups.
        let same =
            table.columns.iter().enumerate().filter(|(_, column)| column.key == "datavolume");
        same.map(|(at, _)| at).nth(1)
    });
    let waits = table.column(&["waitscount", "count"]);
    let average = table.column_where(|key| key.starts_with("avgtm") || key.starts_with("avgtime"));
    let unit = average
        .and_then(|at| table.columns.get(at))
        .and_then(|column| column.key.ends_with("ms").then_some(1e3));
    // Milliseconds, in releases whose headings have no unit yet.
    let service = |row: TableRow<'_>, heading: &str| {
        let at = table.column_where(|key| key.starts_with(heading))?;
        let parse = |text: &str| printed::duration_us(text, Some(1e3));
        Figure::read(cell(row, Some(at)), &table.title, parse)
    };
    let of_row = |row: TableRow<'_>| {
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
            small_read_us: service(row, "smallread"),
            large_read_us: service(row, "largeread"),
        }
    };
    let is_kept = |row: &TableRow<'_>| cluster.is_none_or(|at| cell(*row, Some(at)) == "*");
    let rows = table.rows.iter().filter(is_kept).map(of_row);
    rows.filter(|function| !function.name.is_empty()).collect()
}
