//! Every number that a report prints in the sections that petal reads, compared with petal's own
//! table of the report. The reading is independent: [`independent`](super::independent).

use std::collections::{BTreeMap, BTreeSet};

use super::independent::{PrintedCell, cells, flat, is_number};
use super::*;

/// A row of the independent reading.
struct PrintedRow {
    section: String,
    cells: Vec<(String, String)>,
}

impl PrintedRow {
    /// Returns the first cell whose column's name has this end.
    fn under(&self, ends: &[&str]) -> Option<&str> {
        let is = |column: &str| ends.iter().any(|end| column.ends_with(end));
        self.cells.iter().find(|(column, _)| is(column)).map(|(_, cell)| cell.as_str())
    }

    fn first(&self) -> &str {
        self.cells.first().map_or("", |(_, cell)| cell)
    }
}

fn rows(text: &str) -> Vec<PrintedRow> {
    let mut rows: Vec<PrintedRow> = Vec::new();
    let mut open: Option<(String, usize)> = None;
    for PrintedCell { section, number, column, cell, .. } in cells(text) {
        let place = (section.clone(), number);
        if open.as_ref() != Some(&place) {
            rows.push(PrintedRow { section: flat(&section), cells: Vec::new() });
            open = Some(place);
        }
        rows.last_mut().unwrap().cells.push((flat(&column), cell));
    }
    rows
}

/// Numbers of a report, or of all, compared with petal's.
#[derive(Default)]
struct NumberTally {
    right: usize,
    wrong: Vec<String>,
    missing: Vec<String>,
    /// Numbers of columns that petal does not keep, by section and column.
    not_kept: BTreeMap<String, usize>,
    /// Sections with numbers that are not compared.
    others: BTreeSet<String>,
}

const DIGITS: fn(char) -> bool = |c| c.is_ascii_digit();

impl NumberTally {
    /// Compares a number with the figures of that name, of which one must print it.
    fn check(&mut self, what: &str, cell: &str, found: &[&Value]) {
        let printed = |figure: &&&Value| {
            let printed = figure["as_printed"].as_str().map(|text| text.trim_end_matches(" (k)"));
            printed == Some(cell)
        };
        // Oracle cuts the K or M of a histogram's waits, if they need more than five characters.
        let is_cut = what.ends_with("totalwaits") && cell.contains('.') && cell.ends_with(DIGITS);
        let is_decimal_comma = cell
            .split_once(',')
            .is_some_and(|(_, rest)| rest.trim_end_matches(char::is_alphabetic).len() < 3);
        let is_unprintable = cell.starts_with('#') || is_cut || is_decimal_comma;
        if found.iter().any(|figure| printed(&figure)) != is_unprintable {
            self.right += 1;
        } else if is_unprintable || found.iter().any(|figure| figure.is_null()) || found.is_empty()
        {
            self.missing.push(format!("{what}: {cell}"));
        } else {
            let shown: Vec<&str> =
                found.iter().filter_map(|it| it["as_printed"].as_str()).collect();
            self.wrong.push(format!("{what}: {cell}, and not {shown:?}"));
        }
    }

    fn skip(&mut self, row: &PrintedRow, column: &str) {
        *self.not_kept.entry(format!("{}: {column}", row.section)).or_default() += 1;
    }
}

/// Entries of a list in petal's table that have this name.
fn named<'v>(report: &'v Value, list: &str, field: &str, name: &str) -> Vec<&'v Value> {
    let all = report[list].as_array().into_iter().flatten();
    all.filter(|entry| entry[field].as_str().is_some_and(|own| squeezed(own) == name)).collect()
}

/// A name with single blanks between its words.
fn squeezed(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn compare(report: &Value, row: &PrintedRow, last: &mut String, tally: &mut NumberTally) {
    let section = row.section.as_str();
    let begins = |title: &str| section.starts_with(title);
    match section {
        _ if begins("loadprofile") => load_profile(report, row, tally),
        "ioprofile" => io_profile(report, row, tally),
        _ if begins("segmentsbyphysicalreads") && !section.contains("requests") => {
            by_reads(report, row, "segments_by_reads", "objectname", "object", tally);
        }
        "sqlorderedbyreads" => sql_by_reads(report, row, tally),
        "interconnectpinglatencystats" => pings(report, row, tally),
        _ if begins("initora") || section == "modifiedparameters" => {
            parameters(report, row, tally);
        }
        "waitclass" | "foregroundwaitclass" | "waitclassesbytotalwaittime" => {
            classes(report, row, tally);
        }
        _ if section.contains("activitystats") || begins("systemstatisticsglobal") => {
            statistics(report, row, tally);
        }
        _ if begins("tablespaceiostats") || begins("fileiostats") => io(report, row, tally),
        "iostatbyfunctionsummary" | "iostatbyfiletypesummary" => functions(report, row, tally),
        _ if begins("waiteventhistogram") => histogram(report, row, tally),
        _ if begins("timemodels") => time_model(report, row, tally),
        _ if begins("hostcpu") => host_cpu(report, row, tally),
        "operatingsystemstatistics" | "osstatistics" => os_statistics(report, row, tally),
        _ if section.contains("waitevents")
            || begins("top")
                && (section.contains("timed") || section.contains("foregroundevents")) =>
        {
            events(report, row, last, tally);
        }
        "" | "host" => header(report, row, tally),
        _ if begins("workloadrepository") => header(report, row, tally),
        _ if READ_ELSEWHERE.contains(&section) => {}
        _ if row.cells.iter().any(|(_, cell)| is_number(cell)) => {
            tally.others.insert(section.to_owned());
        }
        _ => {}
    }
}

/// Beginnings of sections that are not read on purpose: the names in italics in that part of
/// docs/awr.md.
fn unread() -> Vec<String> {
    let docs = include_str!("../../../../docs/awr.md");
    let (_, rest) = docs.split_once("\n## Sections not read\n").unwrap();
    let (part, _) = rest.split_once("\n## ").unwrap();
    part.split('*').skip(1).step_by(2).map(flat).collect()
}

/// Sections that petal reads, and other tests check.
const READ_ELSEWHERE: [&str; 14] = [
    "cachesizes",
    "databaseinstancesincludedinreport",
    "databasesummary",
    "foregroundwaitclasses",
    "ioprofileglobal",
    "iostatbyfiletype",
    "iostatbyfunction",
    "memorystatistics",
    "osstatisticsbyinstance",
    "pingstatistics",
    "snapshot",
    "systemstatisticspersecond",
    "timemodel",
    "timemodelstatistics",
];
/// Beginnings of parameters that petal keeps: its figures depend on them.
const PARAMETERS: [&str; 11] = [
    "db_block_size",
    "db_cache_size",
    "db_writer",
    "log_buffer",
    "sga_",
    "memory_target",
    "cpu_count",
    "processes",
    "filesystemio_options",
    "disk_asynch_io",
    "pga_aggregate",
];

const LOADS: [(&str, &str); 19] = [
    ("dbtime", "db_time"),
    ("dbcpu", "db_cpu"),
    ("backgroundcpu", "background_cpu"),
    ("redosize", "redo_bytes"),
    ("logicalread", "logical_reads"),
    ("blockchanges", "block_changes"),
    ("physicalread", "physical_reads"),
    ("physicalwrite", "physical_writes"),
    ("readiorequests", "read_requests"),
    ("writeiorequests", "write_requests"),
    ("readiomb", "read_mb"),
    ("writeiomb", "write_mb"),
    ("usercalls", "user_calls"),
    ("parses", "parses"),
    ("hardparses", "hard_parses"),
    ("logons", "logons"),
    ("executes", "executes"),
    ("rollbacks", "rollbacks"),
    ("transactions", "transactions"),
];

fn load_profile(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    let name = flat(row.first());
    let Some((_, field)) = LOADS.iter().find(|(begin, _)| name.starts_with(begin)) else { return };
    for (column, cell) in row.cells.iter().skip(1).filter(|(_, cell)| is_number(cell)) {
        let place = match column.as_str() {
            "persecond" => "per_second",
            "pertransaction" => "per_transaction",
            _ => {
                tally.skip(row, column);
                continue;
            }
        };
        tally.check(&format!("{name} {column}"), cell, &[&report["load_profile"][field][place]]);
    }
}

fn io_profile(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    const LINES: [(&str, &str); 8] = [
        ("totalrequests", "total_requests"),
        ("databaserequests", "database_requests"),
        ("optimizedrequests", "optimized_requests"),
        ("redorequests", "redo_requests"),
        ("totalmb", "total_mb"),
        ("databasemb", "database_mb"),
        ("optimizedtotalmb", "optimized_mb"),
        ("redomb", "redo_mb"),
    ];
    let name = flat(row.first());
    let Some((_, field)) = LINES.iter().find(|(known, _)| *known == name) else { return };
    for ((column, cell), place) in row.cells.iter().skip(1).zip(["both", "read", "write"]) {
        tally.check(&format!("{name} {column}"), cell, &[&report["io_profile"][field][place]]);
    }
}

fn by_reads(
    report: &Value,
    row: &PrintedRow,
    list: &str,
    heading: &str,
    field: &str,
    tally: &mut NumberTally,
) {
    let name = row.under(&[heading]).unwrap_or_default();
    let entries = named(report, list, field, name);
    for (column, place) in [("physicalreads", "physical_reads"), ("%total", "pct_total")] {
        if let Some(cell) = row.under(&[column]).filter(|cell| is_number(cell)) {
            let found: Vec<&Value> = entries.iter().map(|entry| &entry[place]).collect();
            tally.check(&format!("{list} {name} {column}"), cell, &found);
        }
    }
}

/// Entries of a list in petal's table in which a figure is printed so.
fn with_figure<'v>(report: &'v Value, list: &str, field: &str, shown: &str) -> Vec<&'v Value> {
    let all = report[list].as_array().into_iter().flatten();
    all.filter(|entry| entry[field]["as_printed"].as_str() == Some(shown)).collect()
}

fn sql_by_reads(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    const ID: usize = 13;
    // The text of a statement is below its row.
    let Some(id) = row.under(&["sqlid"]).filter(|id| id.len() == ID && !id.contains(' ')) else {
        return;
    };
    let entries = with_figure(report, "sql_by_reads", "sql_id", id);
    for (column, cell) in row.cells.iter().filter(|(_, cell)| is_number(cell)) {
        let place = match column.as_str() {
            "physicalreads" => "physical_reads",
            "executions" => "executions",
            "%total" => "pct_total",
            "elapsedtimes" => "elapsed_s",
            _ => {
                tally.skip(row, column);
                continue;
            }
        };
        let found: Vec<&Value> = entries.iter().map(|entry| &entry[place]).collect();
        tally.check(&format!("{} {id} {column}", row.section), cell, &found);
    }
}

fn pings(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    let target = row.under(&["targetinstance", "target", "instance"]).unwrap_or_default();
    let entries = with_figure(report, "interconnect_pings", "target", target);
    for (column, cell) in row.cells.iter().skip(1).filter(|(_, cell)| is_number(cell)) {
        let place = match column.as_str() {
            // Too short for the digits: unknown.
            _ if cell == "0.00" => "",
            it if it.contains("count") && it.contains("500") => "pings_500b",
            it if it.contains("count") && it.contains("8k") => "pings_8k",
            it if it.contains("avg") && it.contains("500") => "latency_500b_us",
            it if it.contains("avg") && it.contains("8k") => "latency_8k_us",
            _ => "",
        };
        if place.is_empty() {
            tally.skip(row, column);
            continue;
        }
        let found: Vec<&Value> = entries.iter().map(|entry| &entry[place]).collect();
        tally.check(&format!("{} {target} {column}", row.section), cell, &found);
    }
}

fn parameters(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    let name = row.first();
    let entries = named(report, "parameters", "name", name);
    if entries.is_empty() && PARAMETERS.iter().any(|own| name.starts_with(own)) {
        tally.missing.push(format!("{} {name}", row.section));
    }
    for (column, cell) in row.cells.iter().skip(1).filter(|(_, cell)| is_number(cell)) {
        let place = match column.as_str() {
            // petal keeps those that its figures depend on.
            _ if entries.is_empty() => "",
            it if it.starts_with("begin") => "value",
            it if it.starts_with("end") => "end_value",
            _ => "",
        };
        if place.is_empty() {
            tally.skip(row, column);
            continue;
        }
        let found: Vec<&Value> = entries.iter().map(|entry| &entry[place]).collect();
        tally.check(&format!("{} {name} {column}", row.section), cell, &found);
    }
}

fn classes(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    // Of foreground processes, if the report has them.
    let is_all = row.section != "foregroundwaitclass";
    let own = report["wait_classes"][0]["time_s"]["section"].as_str().unwrap_or_default();
    if row.first() == "DB CPU" || is_all == (flat(own) == "foregroundwaitclass") {
        return;
    }
    let entries = named(report, "wait_classes", "name", row.first());
    for (column, cell) in row.cells.iter().skip(1).filter(|(_, cell)| is_number(cell)) {
        let place = match column.as_str() {
            "waits" => "waits",
            it if it.contains("%") && it.contains("dbtime") => "pct_db_time",
            it if it.contains("total") => "time_s",
            _ => {
                tally.skip(row, column);
                continue;
            }
        };
        let found: Vec<&Value> = entries.iter().map(|entry| &entry[place]).collect();
        tally.check(&format!("{} {} {column}", row.section, row.first()), cell, &found);
    }
}

fn statistics(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    let is_total = row.cells.get(1).is_some_and(|(column, _)| column.ends_with("total"));
    if !is_total {
        return;
    }
    let name = row.first();
    let all = report["statistics"].as_object().unwrap();
    let is_it = |known: &str| {
        let known = squeezed(known);
        known == name
            || known
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(" [") && rest.ends_with(']'))
    };
    let entries: Vec<&Value> =
        all.iter().filter(|(known, _)| is_it(known)).map(|(_, entry)| entry).collect();
    for (column, cell) in row.cells.iter().skip(1).filter(|(_, cell)| is_number(cell)) {
        let place = match column.as_str() {
            "total" => "total",
            "persecond" => "per_second",
            "pertrans" | "pertxn" => "per_transaction",
            _ => {
                tally.skip(row, column);
                continue;
            }
        };
        let found: Vec<&Value> = entries.iter().map(|entry| &entry[place]).collect();
        tally.check(&format!("{} {name} {column}", row.section), cell, &found);
    }
}

fn io(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    let is_file = row.section.starts_with("file");
    let (list, heading, field) = if is_file {
        ("files", "filename", "file")
    } else {
        ("tablespaces", "tablespace", "tablespace")
    };
    let name = row.under(&[heading]).unwrap_or_default();
    let release = report["header"]["release"]["value"].as_str().unwrap_or_default();
    let entries = named(report, list, field, name);
    for (column, cell) in row.cells.iter().skip(1).filter(|(_, cell)| is_number(cell)) {
        let is_single = column.contains("1bk");
        let place = match column.as_str() {
            // Headings that do not match their columns.
            it if release.starts_with("11.2.0.4") && !is_file && (is_single || it == "writes") => {
                continue;
            }
            "reads" => "reads",
            "writes" => "writes",
            "bufferwaits" => "buffer_waits",
            it if it.starts_with("avblks") => "blocks_per_read",
            it if it.starts_with("avbuf") => "buffer_wait_ms",
            "1bkrds/s" => "single_block_reads_per_s",
            it if is_single && it.ends_with("ms") => "single_block_read_ms",
            it if it.starts_with("avr") && it.ends_with("/s") => "reads_per_s",
            it if it.starts_with("avrd") && it.ends_with("ms") => "read_ms",
            it if it.contains("writes") && it.ends_with("/s") => "writes_per_s",
            it if it.contains("writes") && it.ends_with("ms") => "write_ms",
            _ => {
                tally.skip(row, column);
                continue;
            }
        };
        let found: Vec<&Value> = entries.iter().map(|entry| &entry[place]).collect();
        tally.check(&format!("{list} {name} {column}"), cell, &found);
    }
}

fn functions(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    let is_function = row.section.contains("function");
    let list = if is_function { "io_functions" } else { "io_file_types" };
    let ends = if is_function { ["waits", "wait_us"] } else { ["small_read_us", "large_read_us"] };
    let places = [
        "read_bytes",
        "read_requests_per_s",
        "",
        "write_bytes",
        "write_requests_per_s",
        "",
        ends[0],
        ends[1],
    ];
    // Reports over several instances have other columns.
    if row.cells.len() != places.len() + 1 {
        return;
    }
    let entries = named(report, list, "name", row.first());
    for ((column, cell), place) in row.cells.iter().skip(1).zip(places) {
        if !is_number(cell) || place.is_empty() {
            continue;
        }
        let found: Vec<&Value> = entries.iter().map(|entry| &entry[place]).collect();
        tally.check(&format!("{list} {} {column} {place}", row.first()), cell, &found);
    }
}

fn histogram(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    let name = row.under(&["event"]).unwrap_or_default();
    let entries = named(report, "histograms", "name", name);
    let own = |entry: &&&Value| flat(entry["section"].as_str().unwrap()) == row.section;
    let entries: Vec<&Value> = entries.iter().filter(own).copied().collect();
    for (column, cell) in row.cells.iter().skip(1).filter(|(_, cell)| is_number(cell)) {
        let range = column.find(['<', '>']).map(|at| &column[at..]);
        let is_range = range.is_some() || column.ends_with("ms") && !column.starts_with("waits");
        let found: Vec<&Value> = if is_range {
            let range = range.unwrap_or(column);
            let buckets = entries.iter().flat_map(|entry| entry["buckets"].as_array().unwrap());
            let is_it =
                |bucket: &&Value| flat(bucket["range"].as_str().unwrap()).starts_with(range);
            buckets.filter(is_it).map(|bucket| &bucket["share"]).collect()
        } else {
            entries.iter().map(|entry| &entry["waits"]).collect()
        };
        tally.check(&format!("{} {name} {column}", row.section), cell, &found);
    }
}

fn time_model(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    let place = match row.first() {
        "DB time" => "db_time_s",
        "DB CPU" => "db_cpu_s",
        _ => return,
    };
    if let Some((column, cell)) = row.cells.get(1) {
        tally.check(&format!("{} {column}", row.first()), cell, &[&report["time_model"][place]]);
    }
}

fn host_cpu(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    for (ends, field) in [("user", "user_pct"), ("system", "system_pct"), ("wio", "iowait_pct")] {
        if let Some(cell) = row.under(&[ends]) {
            let found = &report["cpu"][field];
            // The operating system's statistics have more digits.
            if !found["as_printed"].is_null() || found.is_null() {
                tally.check(&format!("host cpu {ends}"), cell, &[found]);
            }
        }
    }
}

fn os_statistics(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    let found = match row.first() {
        "BUSY_TIME" => &report["cpu"]["busy_s"],
        "IDLE_TIME" => &report["cpu"]["idle_s"],
        "IOWAIT_TIME" => &report["cpu"]["iowait_s"],
        "NUM_CPUS" => &report["header"]["cpus"],
        _ => return,
    };
    tally.check(row.first(), &row.cells[1].1, &[found]);
}

fn header(report: &Value, row: &PrintedRow, tally: &mut NumberTally) {
    const FIELDS: [(&str, &str); 9] = [
        ("dbid", "db_id"),
        ("instnum", "instance_number"),
        ("release", "release"),
        ("cpus", "cpus"),
        ("cores", "cores"),
        ("sockets", "sockets"),
        ("memorygb", "memory_gb"),
        ("memoryg", "memory_gb"),
        ("startuptime", "startup_time"),
    ];
    for (column, cell) in row.cells.iter().filter(|(_, cell)| is_number(cell)) {
        if let Some((_, field)) = FIELDS.iter().find(|(known, _)| known == column) {
            tally.check(&format!("header {column}"), cell, &[&report["header"][field]]);
        }
    }
}

fn events(report: &Value, row: &PrintedRow, last: &mut String, tally: &mut NumberTally) {
    let section = row.section.as_str();
    let is_background = section.starts_with("background");
    let is_top = section.starts_with("top");
    let Some(name) = row.under(&["event"]) else { return };
    if !name.is_empty() {
        name.clone_into(last);
    }
    let list = match section {
        "toptimedforegroundevents" | "toptimedbackgroundevents" => return,
        _ if is_top => "top_events",
        _ if is_background => "background_events",
        _ if section.contains("fgandbg") || section == "waiteventsstatistics" => return,
        _ => "foreground_events",
    };
    let instance =
        row.cells.iter().find(|(column, _)| column == "i").map(|(_, cell)| cell.as_str());
    let of = |report: &'_ Value| -> Vec<Value> {
        named(report, list, "name", last).into_iter().cloned().collect()
    };
    let entries: Vec<Value> = match instance {
        Some("*") | None => of(report),
        Some(_) => report["instances"].as_array().into_iter().flatten().flat_map(of).collect(),
    };
    if instance.is_some_and(|it| it != "*") && report["instances"].is_null() {
        return;
    }
    for (column, cell) in row.cells.iter().filter(|(_, cell)| is_number(cell)) {
        let place = match column.as_str() {
            "i" => continue,
            it if it.contains("out") || it.contains("summary") || it.contains("/txn") => "",
            it if it.contains('%') => "pct_db_time",
            it if it.contains("avg") => "reported_avg_us",
            it if it.ends_with("waits") => "waits",
            it if it.contains("time") || it.ends_with("totals") => "time_s",
            _ => "",
        };
        let found: Vec<&Value> = entries.iter().map(|entry| &entry[place]).collect();
        // The longer list has the whole count.
        let is_other =
            |figure: &&Value| figure["section"].as_str().map(flat) != Some(section.to_owned());
        if place.is_empty() {
            tally.skip(row, column);
        } else if !(is_top
            && place == "waits"
            && found.iter().any(is_other)
            && !found.iter().any(|it| it.is_null()))
        {
            tally.check(&format!("{section} {last} {column}"), cell, &found);
        }
    }
}

/// Reports with their names: the samples, and published ones if they are here.
pub fn reports() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        SAMPLES.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let folder = folder();
    if folder.is_none() {
        log_line("SKIPPED: no real reports: set PETAL_AWR_DIR to a folder with truth.json");
    }
    let files = folder.into_iter().flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten());
    let mut files: Vec<_> = files.map(|file| file.path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".txt") || name.ends_with(".html") {
            all.push((name, source::read(&file).unwrap().text));
        }
    }
    all
}

#[test]
fn every_number_that_a_report_prints_is_in_petals_table_of_it() {
    let mut all = NumberTally::default();
    for (name, text) in reports() {
        let report = serde_json::to_value(of_text(&text).unwrap()).unwrap();
        let mut tally = NumberTally::default();
        let mut last = String::new();
        rows(&text).iter().for_each(|row| compare(&report, row, &mut last, &mut tally));
        let NumberTally { right, wrong, missing, not_kept, others: sections } = tally;
        let others: usize = not_kept.values().sum();
        log_line(&format!(
            "{right:>5} right, {} wrong, {} missing, {others} not kept: {name}",
            wrong.len(),
            missing.len()
        ));
        all.right += right;
        all.wrong.extend(wrong.into_iter().map(|what| format!("{name}: {what}")));
        all.missing.extend(missing.into_iter().map(|what| format!("{name}: {what}")));
        all.others.extend(sections);
        not_kept
            .into_iter()
            .for_each(|(what, count)| *all.not_kept.entry(what).or_default() += count);
    }
    let counts = (all.right, all.wrong.len(), all.missing.len());
    log_line(&format!("{counts:?} right, wrong, missing"));
    assert!(
        all.wrong.is_empty() && all.missing.is_empty(),
        "{counts:?}\nwrong:\n{}\nmissing:\n{}\nnot kept: {:#?}",
        all.wrong.join("\n"),
        all.missing.join("\n"),
        all.not_kept
    );
    let unread = unread();
    let is_unread = |title: &String| unread.iter().any(|it| title.starts_with(it.as_str()));
    let unknown: Vec<&String> = all.others.iter().filter(|title| !is_unread(title)).collect();
    assert!(unknown.is_empty(), "neither read nor in docs/awr.md: {unknown:#?}");
}

#[test]
fn no_report_that_a_database_made_breaks_a_law() {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut broken = Vec::new();
    for (name, text) in reports() {
        let source = Source { text, ..Source::default() };
        let (text, layout) = shape::of(&source.text);
        let page = page(&text, layout);
        let kind = kind(&page).unwrap();
        let warnings = page.warnings.clone();
        let mut report = extract(page, kind);
        report.spans_restart = findings::spans_restart(&report, &warnings);
        for (law, holds) in laws::checked(&report) {
            let count = counts.entry(law).or_default();
            count.0 += 1;
            count.1 += usize::from(!holds);
        }
        let before = report.notes.len();
        laws::apply(&mut report);
        // Cut by Oracle; see `check`.
        let is_cut = |note: &str| note.contains("Histogram") && note.ends_with("is no count");
        let notes = report.notes.iter().skip(before).filter(|note| !is_cut(note));
        broken.extend(notes.map(|note| format!("{name}: {note}")));
    }
    for (law, (checks, broken)) in counts {
        log_line(&format!("{checks:>6} checks, {broken} broken: {law}"));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
