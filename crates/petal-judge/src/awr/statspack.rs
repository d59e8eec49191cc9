//! Statspack's tables as the engine reads them: made into the titled tables that a report has. From
//! these come the figures, and the text for people, which `petal awr` reads like any other.

use std::fmt::Write as _;

use petal_awr::number;
use petal_awr::page::{PageTable, ParsedReport, TableColumn, TableRows, cell};
use petal_awr::report::{Report, ReportKind};
use petal_awr::topic::{HEAD, Topic};
use petal_record::database_interval::{DatabaseInterval, DatabaseSnapshot, WaitDelta, WaitSum};

/// Rows of the top list, as Statspack has them.
const TOP: usize = 5;

/// Reads the figures of an interval.
pub fn report(file: &str, interval: &DatabaseInterval) -> Report {
    Report { file: file.to_owned(), ..petal_awr::judged(page(interval), ReportKind::Sp) }
}

/// Writes an interval in the layout of a text report.
pub fn text(interval: &DatabaseInterval) -> String {
    let DatabaseInterval { database, instance, begin, end, .. } = interval;
    let mut out = String::from(
        "Made by petal of PERFSTAT's tables: the parts that petal reads.\n\n\
         STATSPACK report for\n\n",
    );
    let place = format!("DB/Inst: {database}/{instance}  Snaps: {}-{}", begin.id, end.id);
    for table in &page(interval).tables {
        if &*table.title != HEAD {
            let _ = writeln!(out, "{}  {place}\n", table.title);
        }
        write_table(&mut out, table);
        out.push('\n');
    }
    let _ = writeln!(out, "End of Report ( statspack.txt, snapshots {} to {} )", begin.id, end.id);
    out
}

/// Headings over lines of dashes, numbers to the right.
fn write_table(out: &mut String, table: &PageTable) {
    let is_number = |text: &str| text.is_empty() || number::count(text).is_some();
    let columns: Vec<(usize, bool)> = (0..table.columns.len())
        .map(|at| {
            let name = table.columns.get(at).map_or("", |column| column.name.as_str());
            let cells = || table.rows.iter().map(|row| cell(row, Some(at)));
            let width = cells().chain([name]).map(|text| text.chars().count()).max();
            let is_number = cells().all(is_number);
            // A name that fills its column looks as if it had been cut.
            (width.unwrap_or(0) + if is_number { 0 } else { 2 }, is_number)
        })
        .collect();
    let line = |texts: &mut dyn Iterator<Item = &str>| {
        let padded = columns.iter().zip(texts).map(|(&(width, is_number), text)| {
            if is_number { format!("{text:>width$}") } else { format!("{text:<width$}") }
        });
        let line = padded.collect::<Vec<_>>().join(" ");
        format!("{}\n", line.trim_end())
    };
    if !columns.is_empty() {
        let dashes: Vec<String> = columns.iter().map(|(width, _)| "-".repeat(*width)).collect();
        out.push_str(&line(&mut table.columns.iter().map(|column| column.name.as_str())));
        out.push_str(&line(&mut dashes.iter().map(String::as_str)));
    }
    for row in table.rows.iter() {
        match columns.is_empty() {
            true => out.extend(row.cells().chain(["\n"])),
            false => out.push_str(&line(&mut row.cells())),
        }
    }
    if &*table.title != HEAD {
        let _ = writeln!(out, "          {}", "-".repeat(61));
    }
}

fn page(interval: &DatabaseInterval) -> ParsedReport {
    let foreground = waited(interval, |event| event.foreground);
    let background = waited(interval, |event| event.background);
    let top = top(interval, &foreground);
    let tables = [
        database(interval),
        host(interval),
        snapshots(interval),
        load_profile(interval),
        events(interval, Topic::TopEvents, "Top 5 Timed Events", top),
        events(interval, Topic::ForegroundEvents, "Foreground Wait Events", foreground),
        events(interval, Topic::BackgroundEvents, "Background Wait Events", background),
        statistics(interval),
        os(interval),
    ];
    let mut page = ParsedReport::default();
    page.is_ended = true;
    for table in tables.into_iter().filter(|table| !table.rows.is_empty()) {
        page.push(table);
    }
    page
}

fn table(topic: Topic, title: &str, columns: &[&str], rows: Vec<Vec<String>>) -> PageTable {
    let mut cells = TableRows::default();
    rows.iter().for_each(|row| cells.extend(row.iter().map(String::as_str)));
    PageTable {
        topic,
        title: title.into(),
        columns: columns.iter().map(|name| TableColumn::new("", name)).collect(),
        rows: cells,
        widths: Vec::new(),
    }
}

fn database(interval: &DatabaseInterval) -> PageTable {
    let DatabaseInterval { database, database_id, instance, instance_number, .. } = interval;
    let DatabaseInterval { startup, release, cluster, .. } = interval;
    let names = ["DB Name", "DB Id", "Instance", "Inst Num", "Startup Time", "Release", "RAC"];
    let row = [database, database_id, instance, instance_number, startup, release, cluster];
    table(Topic::Database, HEAD, &names, vec![row.map(String::clone).to_vec()])
}

fn host(interval: &DatabaseInterval) -> PageTable {
    let row = vec![interval.host.clone(), "-".to_owned(), "-".to_owned()];
    let rows = if interval.host.is_empty() { Vec::new() } else { vec![row] };
    table(Topic::Host, HEAD, &["Host Name", "Platform", "CPUs"], rows)
}

/// Lines that are read by their labels.
fn snapshots(interval: &DatabaseInterval) -> PageTable {
    let bound = |label: &str, snapshot: &DatabaseSnapshot| {
        format!("{label:>11} {:>10} {}", snapshot.id, snapshot.time)
    };
    let minutes =
        |label: &str, seconds: f64| format!("{label:>11} {:>10.4} (mins)", seconds / 60.0);
    let mut lines = vec![
        bound("Begin Snap:", &interval.begin),
        bound("End Snap:", &interval.end),
        minutes("Elapsed:", interval.elapsed_s),
    ];
    lines.extend(time_s(interval, "DB time").map(|seconds| minutes("DB time:", seconds)));
    table(Topic::Snapshots, HEAD, &[], lines.into_iter().map(|line| vec![line]).collect())
}

fn load_profile(interval: &DatabaseInterval) -> PageTable {
    let get = |name: &str| interval.statistics.get(name).copied();
    let commits = get("user commits");
    let transactions = commits.zip(get("user rollbacks")).map(|(commits, back)| commits + back);
    let totals = [
        ("DB time(s)", time_s(interval, "DB time")),
        ("DB CPU(s)", time_s(interval, "DB CPU")),
        ("Redo size", get("redo size")),
        ("Logical reads", get("session logical reads")),
        ("Block changes", get("db block changes")),
        ("Physical reads", get("physical reads")),
        ("Physical writes", get("physical writes")),
        ("User calls", get("user calls")),
        ("Parses", get("parse count (total)")),
        ("Hard parses", get("parse count (hard)")),
        ("Logons", get("logons cumulative")),
        ("Executes", get("execute count")),
        ("Rollbacks", get("user rollbacks")),
        ("Transactions", transactions),
    ];
    let rows = totals.into_iter().filter_map(|(name, total)| {
        let total = total?;
        let each = transactions.filter(|_| name != "Transactions");
        Some(vec![format!("{name}:"), rate(total, Some(interval.elapsed_s)), rate(total, each)])
    });
    let names = ["", "Per Second", "Per Transaction"];
    table(Topic::LoadProfile, "Load Profile", &names, rows.collect())
}

/// Blank if the divisor is unknown or 0.
fn rate(total: f64, over: Option<f64>) -> String {
    over.filter(|over| *over > 0.0).map_or(String::new(), |over| format!("{:.3}", total / over))
}

fn time_s(interval: &DatabaseInterval, name: &str) -> Option<f64> {
    interval.times_us.get(name).map(|micros| micros / 1e6)
}

/// An event's name, its waits (the processor has none) and its time in microseconds.
type Waited<'i> = (&'i str, Option<f64>, f64);

/// The events of some processes; those that took time first.
fn waited(interval: &DatabaseInterval, of: fn(&WaitDelta) -> WaitSum) -> Vec<Waited<'_>> {
    let totals = interval.events.iter().map(|event| (event.event.as_str(), of(event)));
    let waited = totals.filter(|(_, total)| total.waits > 0.0);
    let mut waited: Vec<Waited> =
        waited.map(|(name, total)| (name, Some(total.waits), total.time_us)).collect();
    waited.sort_by(|one, other| other.2.total_cmp(&one.2));
    waited
}

/// The first of the foreground's events, and the processor.
fn top<'i>(interval: &'i DatabaseInterval, foreground: &[Waited<'i>]) -> Vec<Waited<'i>> {
    let mut top: Vec<Waited> =
        foreground.iter().filter(|(_, _, micros)| *micros > 0.0).take(TOP).copied().collect();
    top.extend(interval.times_us.get("DB CPU").map(|micros| ("CPU time", None, *micros)));
    top.sort_by(|one, other| other.2.total_cmp(&one.2));
    top
}

fn events(interval: &DatabaseInterval, topic: Topic, title: &str, all: Vec<Waited>) -> PageTable {
    let db_time = time_s(interval, "DB time").filter(|all| *all > 0.0);
    let row = |(name, waits, micros): Waited| {
        let seconds = micros / 1e6;
        let average = waits.map(|waits| format!("{:.4}", micros / waits / 1e3));
        let waits = waits.map(|waits| format!("{waits:.0}"));
        let share = db_time.map(|all| format!("{:.1}", seconds / all * 100.0));
        let cells = [waits, Some(format!("{seconds:.6}")), average, share];
        [name.to_owned()].into_iter().chain(cells.map(Option::unwrap_or_default)).collect()
    };
    let names = ["Event", "Waits", "Total Wait Time (s)", "Avg wait (ms)", "%Total Call Time"];
    table(topic, title, &names, all.into_iter().map(row).collect())
}

fn statistics(interval: &DatabaseInterval) -> PageTable {
    let row = |(name, total): (&String, &f64)| {
        vec![name.clone(), format!("{total:.0}"), rate(*total, Some(interval.elapsed_s))]
    };
    let rows = interval.statistics.iter().map(row).collect();
    table(Topic::Statistics, "Instance Activity Stats", &["Statistic", "Total", "per Second"], rows)
}

fn os(interval: &DatabaseInterval) -> PageTable {
    let rows = interval.os.iter().map(|(name, total)| vec![name.clone(), format!("{total:.0}")]);
    table(Topic::OsStatistics, "OS Statistics", &["Statistic", "Total"], rows.collect())
}

#[cfg(test)]
mod tests;
