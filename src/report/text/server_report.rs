//! What the database's own report of the run says, beside what petal counted.

use super::super::numbers::{decimal, micros, or_dash, rate};
use super::super::table::{Align, Table, line, paragraph};
use super::section;
use crate::analysis::server_report::{Comparison, compare};
use crate::record::Run;
use crate::record::server_report::SeenReport;

pub(super) fn render(out: &mut String, run: &Run) {
    if run.summary.server_reports.is_empty() {
        return;
    }
    section(out, "the database's own report", "the database, between its own snapshots");
    for report in &run.summary.server_reports {
        out.push_str(&paragraph(&format!("{}: ", report.file), "  ", &heading(report)));
    }
    match compare(run) {
        None => {}
        Some(Err(why)) => out.push_str(&paragraph("not compared: ", "  ", &why)),
        Some(Ok(comparison)) => {
            out.push('\n');
            out.push_str(&beside(&comparison).render());
            out.push_str(&paragraph("", "", &explained(&comparison)));
        }
    }
    for report in run.summary.server_reports.iter().filter(|report| report.unread.is_none()) {
        for (title, table) in
            [("figures", figures(report)), ("top timed events", top_events(report))]
        {
            if !table.is_empty() {
                out.push('\n');
                out.push_str(&line(&format!("{title} of {}", report.file)));
                out.push_str(&table.render());
            }
        }
        remarks(report).iter().for_each(|line| out.push_str(&paragraph("- ", "  ", line)));
    }
}

/// What it is and of which time.
pub(in crate::report) fn heading(report: &SeenReport) -> String {
    if let Some(why) = &report.unread {
        return format!("not read: {why}");
    }
    let kind = match report.kind.as_deref() {
        Some("awrg") => "AWR of several instances",
        Some("awrpdb") => "AWR of a pluggable database",
        Some("sp") => "Statspack",
        _ => "AWR",
    };
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    format!(
        "{kind}, release {}, instance {}, snapshots {} ({}) to {} ({}), {} s between them",
        or(&report.release),
        or(&report.instance),
        or(&report.begin_snap),
        or(&report.begin_time),
        or(&report.end_snap),
        or(&report.end_time),
        or_dash(report.elapsed_s, |s| decimal(s, 1)),
    )
}

/// The same figures as both saw them.
pub(in crate::report) fn beside(comparison: &Comparison) -> Table {
    let mut table = Table::new(&[
        ("over the run, and over the report's window", Align::Left),
        ("petal's snapshots", Align::Right),
        ("the report", Align::Right),
        ("report more by %", Align::Right),
        ("judged", Align::Left),
    ]);
    for row in &comparison.rows {
        let show = |value: f64| match row.what.ends_with("average") {
            true => micros(value),
            false => decimal(value, 0),
        };
        let judged = match row.agrees {
            None => "too little",
            Some(true) => "alike",
            Some(false) => "differs",
        };
        table.row([
            row.what.clone(),
            show(row.petal),
            show(row.report),
            or_dash(row.share, |share| decimal(share * 100.0, 1)),
            judged.to_owned(),
        ]);
    }
    table
}

/// Why the two differ, and by how much they may.
pub(in crate::report) fn explained(comparison: &Comparison) -> String {
    format!(
        "petal's snapshots lie close around the run of {} s; the report's lie outside of them, {} s \
         apart, and it counts the work of its own snapshots. Alike is a count from {} % less to {} % \
         more: 10 %, and what its window is longer by; a latency may be off by as much either way, \
         beyond the report's rounding.",
        decimal(comparison.run_s, 1),
        or_dash(comparison.report_s, |s| decimal(s, 1)),
        decimal(comparison.allowed.0 * 100.0, 0),
        decimal(comparison.allowed.1 * 100.0, 0),
    )
}

/// Load profile, I/O and the rest, each with the section it stood in.
pub(in crate::report) fn figures(report: &SeenReport) -> Table {
    let mut table = Table::new(&[
        ("figure", Align::Left),
        ("value", Align::Right),
        ("unit", Align::Left),
        ("section", Align::Left),
    ]);
    for (name, figure) in &report.figures {
        let section: String = figure.section.chars().take(SECTION_WIDTH).collect();
        table.row([name.clone(), rate(figure.value), figure.unit.clone(), section]);
    }
    table
}

const SECTION_WIDTH: usize = 48;

pub(in crate::report) fn top_events(report: &SeenReport) -> Table {
    let mut table = Table::new(&[
        ("event", Align::Left),
        ("waits", Align::Right),
        ("time s", Align::Right),
        ("avg us", Align::Right),
        ("% DB time", Align::Right),
        ("class", Align::Left),
    ]);
    for event in &report.top_events {
        table.row([
            event.name.clone(),
            or_dash(event.waits, |waits| decimal(waits, 0)),
            or_dash(event.time_s, |s| decimal(s, 2)),
            or_dash(event.avg_us, micros),
            or_dash(event.pct_db_time, |share| decimal(share, 1)),
            event.class.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}

/// Its findings and what was odd about it, each with its origin.
pub(in crate::report) fn remarks(report: &SeenReport) -> Vec<String> {
    let findings = report.findings.iter().map(|found| {
        let severity = found.severity.name();
        format!("{severity} {} (judged from {}): {}", found.id, report.file, found.message)
    });
    let notes = report.notes.iter().map(|note| format!("{}: {note}", report.file));
    findings.chain(notes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::awr::to_record;
    use crate::record::{IoLatency, fixture};

    const STATSPACK: &str = include_str!("../../../tests/data/awr/sp_11g.txt");

    fn run(text: &str) -> Run {
        let mut run = fixture::mixed_run();
        run.summary.elapsed_s = 285.0;
        let counted = [
            ("physical read IO requests", 26_200_000),
            ("physical reads", 20_000_000),
            ("user commits", 5800),
        ];
        run.summary.counters.extend(counted.map(|(name, count)| (name.to_owned(), count)));
        let read = IoLatency {
            count: 26_100_000,
            mean: Some(331.4),
            p50: None,
            p99: None,
            max: None,
            source: "the database".into(),
        };
        run.summary.io_latency_us = [("read".to_owned(), read)].into();
        run.summary.server_reports = to_record::of_texts([("statspack.txt", text)].into_iter());
        run
    }

    #[test]
    fn both_layers_stand_side_by_side() {
        let mut shown = String::new();
        render(&mut shown, &run(STATSPACK));
        insta::assert_snapshot!(shown, @r#"

        THE DATABASE'S OWN REPORT                                  [the database, between its own snapshots]
        ====================================================================================================
        statspack.txt: Statspack, release 11.2.0.4.0, instance iris, snapshots 101 (02-Jun-15 10:00:00) to
          102 (02-Jun-15 10:05:00), 300.0 s between them

        over the run, and over the report's window  petal's snapshots  the report  report more by %  judged
        ------------------------------------------  -----------------  ----------  ----------------  ----------
        physical read IO requests                          26,200,000  26,900,500               2.7  alike
        physical reads                                     20,000,000  27,066,030              35.3  differs
        user commits                                            5,800       6,000               3.4  too little
        read, us on average                                     331.4       331.3               0.0  alike
        petal's snapshots lie close around the run of 285.0 s; the report's lie outside of them, 300.0 s
        apart, and it counts the work of its own snapshots. Alike is a count from 2 % less to 15 % more: 10
        %, and what its window is longer by; a latency may be off by as much either way, beyond the report's
        rounding.

        figures of statspack.txt
        figure                             value  unit      section
        ---------------------------  -----------  --------  ------------------------------------------------
        aas                                 31.9  sessions  report header: DB time over elapsed
        block_bytes                        8,192  bytes     Cache Sizes
        block_changes_per_s                1,005  1/s       Load Profile
        buffer_cache_bytes           268,435,456  bytes     Cache Sizes
        cores                               8.00  count     report header
        cpu_idle_pct                        84.8  per cent  OS Statistics: a share of BUSY_TIME and IDLE_TIM
        cpu_iowait_pct                      70.1  per cent  OS Statistics: a share of BUSY_TIME and IDLE_TIM
        cpus                                16.0  count     report header
        db_cpu_per_s                        2.00  s/s       Load Profile
        db_time_min                          160  minutes   report header
        db_time_per_s                       31.9  s/s       Load Profile
        elapsed_min                         5.00  minutes   report header
        executes_per_s                     1,480  1/s       Load Profile
        log_buffer_bytes              31,989,760  bytes     Cache Sizes
        log_sync_us                        3,673  us        Foreground Wait Events: time over waits
        log_write_us                       1,329  us        Background Wait Events: time over waits
        logical_reads_per_s               92,100  blocks/s  Load Profile
        memory_gb                           63.9  GiB       report header
        physical_read_blocks_per_s        90,220  blocks/s  Load Profile
        physical_write_blocks_per_s        1,210  blocks/s  Load Profile
        piops                             90,802  1/s       Instance Activity Stats + Instance Activity Stat
        read_bytes_per_s             734,565,035  bytes/s   Instance Activity Stats
        read_requests_per_s               89,668  1/s       Instance Activity Stats
        read_us                              331  us        Foreground Wait Events: time over waits
        read_waits                    26,899,900  count     Foreground Wait Events
        redo_bytes_per_s                 512,346  bytes/s   Load Profile
        redo_synch_writes                   97.0  count     Instance Activity Stats
        transactions_per_s                  20.0  1/s       Load Profile
        user_calls_per_s                    3.50  1/s       Load Profile
        user_commits                       6,000  count     Instance Activity Stats
        write_bytes_per_s             10,666,667  bytes/s   Instance Activity Stats
        write_requests_per_s               1,133  1/s       Instance Activity Stats
        write_us                             125  us        Background Wait Events: time over waits

        top timed events of statspack.txt
        event                         waits    time s  avg us  % DB time  class
        -----------------------  ----------  --------  ------  ---------  -----
        db file sequential read  26,900,120  8,912.00   331.3       93.1  -
        CPU time                          -    594.00       -        6.2  -
        log file sync                 5,990     22.00   3,673        0.2  -
        db file parallel write      120,300     15.00   124.7        0.2  -
        log file parallel write       6,020      8.00   1,329        0.1  -
        - warning not-durable (judged from statspack.txt): 97 redo synch writes for 6000 user commits: 98.4
          % of the commits did not wait for their redo
        "#);
    }

    #[test]
    fn what_was_not_read_is_told_and_a_run_without_one_says_nothing() {
        let mut shown = String::new();
        render(&mut shown, &run("STATSPACK report for\n"));
        assert!(shown.contains("statspack.txt: not read: it ends behind its title"), "{shown}");
        let mut none = String::new();
        render(&mut none, &fixture::mixed_run());
        assert_eq!(none, "");
    }
}
