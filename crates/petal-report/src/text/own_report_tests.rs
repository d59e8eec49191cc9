//! The section of the database's own report.

use super::sections::own_report;
use petal_judge::awr::to_record;
use petal_record::{IoLatency, Run, fixture};

const STATSPACK: &str = include_str!("../../../../tests/data/awr/sp_11g.txt");

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
fn both_layers_are_side_by_side() {
    let mut shown = String::new();
    own_report(&mut shown, &run(STATSPACK));
    insta::assert_snapshot!(shown, @"
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
    apart, and it includes the work of taking its snapshots. Counts agree from 2 % less to 15 % more: 10
    %, plus the longer window. A latency may differ by as much either way, beyond the report's rounding.

    figures of statspack.txt
    figure                             value  unit      section
    ---------------------------  -----------  --------  ------------------------------------------------
    aas                                 31.9  sessions  report header: DB time over elapsed
    block_bytes                        8,192  bytes     Cache Sizes
    block_changes_per_s                1,005  1/s       Load Profile
    buffer_cache_bytes           268,435,456  bytes     Cache Sizes
    cores                               8.00  count     report header
    cpu_idle_pct                        84.8  percent   OS Statistics: a share of BUSY_TIME and IDLE_TIM
    cpu_iowait_pct                      70.1  percent   OS Statistics: a share of BUSY_TIME and IDLE_TIM
    cpu_system_pct                      4.20  percent   Host CPU
    cpu_user_pct                        11.0  percent   Host CPU
    cpus                                16.0  count     report header
    db_cpu_per_s                        2.00  s/s       Load Profile
    db_time_min                          160  minutes   report header
    db_time_per_s                       31.9  s/s       Load Profile
    elapsed_min                         5.00  minutes   report header
    executes_per_s                     1,480  1/s       Load Profile
    hard_parses_per_s                   0.10  1/s       Load Profile
    log_buffer_bytes              31,989,760  bytes     Cache Sizes
    log_switches_per_h                  24.0  1/h       Instance Activity Stats: log switches, total ove
    log_sync_us                        3,673  us        Foreground Wait Events: time over waits
    log_write_us                       1,329  us        Background Wait Events: time over waits
    log_write_waits                    6,020  count     Background Wait Events
    logical_reads_per_s               92,100  blocks/s  Load Profile
    memory_gb                           63.9  GiB       report header
    parses_per_s                        8.00  1/s       Load Profile
    physical_read_blocks_per_s        90,220  blocks/s  Load Profile
    physical_write_blocks_per_s        1,210  blocks/s  Load Profile
    piops                             90,802  1/s       Instance Activity Stats + Instance Activity Stat
    read_p50_us                        1,000  us        Wait Event Histogram: upper bound of <1ms
    read_p95_us                        1,000  us        Wait Event Histogram: upper bound of <1ms
    read_p99_us                        2,000  us        Wait Event Histogram: upper bound of <2ms
    read_requests_per_s               89,668  1/s       Instance Activity Stats
    read_us                              331  us        Foreground Wait Events: time over waits
    read_waits                    26,899,900  count     Foreground Wait Events
    redo_bytes_per_s                 512,346  bytes/s   Load Profile
    redo_synch_writes                   97.0  count     Instance Activity Stats
    total_bytes_per_s            745,231,701  bytes/s   Instance Activity Stats + Instance Activity Stat
    total_read_bytes_per_s       734,565,035  bytes/s   Instance Activity Stats
    total_read_requests_per_s         89,678  1/s       Instance Activity Stats
    total_write_bytes_per_s       10,666,667  bytes/s   Instance Activity Stats
    transactions_per_s                  20.0  1/s       Load Profile
    user_calls_per_s                    3.50  1/s       Load Profile
    user_commits                       6,000  count     Instance Activity Stats
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
    ");
}

#[test]
fn an_unread_report_is_named_and_a_run_without_reports_says_nothing() {
    let mut shown = String::new();
    own_report(&mut shown, &run("STATSPACK report for\n"));
    assert!(shown.contains("statspack.txt: not read: it ends behind its title"), "{shown}");
    let mut none = String::new();
    own_report(&mut none, &fixture::mixed_run());
    assert_eq!(none, "");
}
