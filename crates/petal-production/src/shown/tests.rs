use super::*;
use petal_awr::columns::{COLUMNS, column};
use petal_awr::samples::{SAMPLES, sample};
use petal_report::hostile::{self, HOSTILE};
use petal_report::widths;

fn reports() -> Vec<Report> {
    let mut first = sample("sp_11g.txt");
    first.factors = vec![("sessions".into(), "32".into())];
    vec![first, sample("awr_19c.html"), sample("sp_9i.txt")]
}

#[test]
fn the_table() {
    let shown = table::render(&reports(), false);
    let (rows, _) = shown.split_once("\n\n").unwrap();
    insta::assert_snapshot!(rows, @r"
    file          sessions  begin             instance    min   AAS    PIOPS   read/s  write/s  read us  log us  redo MB/s  idle %  top event
    ------------  --------  ----------------  --------  -----  ----  -------  -------  -------  -------  ------  ---------  ------  -----------------------
    sp_11g.txt          32  2015-06-02 10:00  iris       5.00  31.9   90,802   89,668    1,133    331.3   1,329       0.51    84.8  db file sequential read
    awr_19c.html         -  2024-06-02 10:00  tulip      4.00  64.0  710,003  710,000     3.00     75.8   187.0    0.00150    75.4  db file sequential read
    sp_9i.txt            -  2005-05-03 09:00  tulip1    10.00     -        -        -        -    7,000   3,987       0.61       -  db file sequential read
    ");
}

#[test]
fn findings_are_reported_once_with_the_number_of_their_reports() {
    let mut reports: Vec<Report> =
        (0..9).map(|at| Report { file: format!("{at}.txt"), ..sample("sp_11g.txt") }).collect();
    reports.push(sample("awr_11204.txt"));
    let shown = table::render(&reports, false);
    let (_, findings) = shown.split_once("\n\n").unwrap();
    let heads: Vec<&str> =
        findings.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
    assert_eq!(
        heads,
        [
            "ERROR spans-restart: 1 of 10 reports",
            "WARNING not-durable: 9 of 10 reports; advice for a SLOB test",
        ]
    );
    assert_eq!(findings.matches("redo synch writes").count(), 1, "{findings}");
    assert!(findings.contains("also in 1.txt, 2.txt, 3.txt, 4.txt, 5.txt and 3 more"));
    // Quiet: only findings that make the figures meaningless.
    let quiet = table::render(&reports, true);
    assert!(quiet.contains("ERROR spans-restart") && !quiet.contains("not-durable"), "{quiet}");
}

#[test]
fn each_instance_of_a_cluster_has_a_row() {
    let reports = [sample("awrg_19c.html")];
    let shown = table::render(&reports, true);
    let rows: Vec<Vec<&str>> =
        shown.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    let starts: Vec<_> = rows.iter().map(|row| row[1..6].to_vec()).collect();
    let begin = ["2023-02-15", "00:00"];
    assert_eq!(
        starts,
        [
            [&begin[..], &["clover1+clover2", "10.02", "126.8"]].concat(),
            [&begin[..], &["clover1", "10.00", "63.5"]].concat(),
            [&begin[..], &["clover2", "10.02", "63.4"]].concat(),
        ]
    );
    let csv = csv::table(&reports).csv().unwrap();
    let kinds: Vec<&str> =
        csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(kinds, ["awrg", "awrg_instance", "awrg_instance"]);
    assert!(explain::render(&reports).contains("awrg_19c.html, instance clover2"));
}

/// Columns of a report as the CSV shows them.
fn columns(report: &Report, names: &[&str]) -> String {
    let shown = |name: &&str| {
        let figure = (column(name).unwrap().value)(report);
        format!("{name}={}", csv::plain(figure))
    };
    names.iter().map(shown).collect::<Vec<_>>().join(" ")
}

const WHO: [&str; 12] = [
    "db",
    "instance",
    "host",
    "release",
    "rac",
    "pdb",
    "cpus",
    "begin_snap",
    "end_time",
    "elapsed_min",
    "db_time_min",
    "block_bytes",
];
const RATES: [&str; 8] = [
    "redo_bytes_per_s",
    "logical_reads_per_s",
    "user_calls_per_s",
    "executes_per_s",
    "piops",
    "read_bytes_per_s",
    "db_time_per_s",
    "transactions_per_s",
];
const WAITS: [&str; 8] = [
    "read_event",
    "read_waits",
    "read_us",
    "log_sync_us",
    "write_us",
    "log_write_us",
    "cpu_idle_pct",
    "top_event",
];

#[test]
fn who_and_when() {
    let all = SAMPLES.map(|(name, _)| format!("{name}: {}", columns(&sample(name), &WHO)));
    insta::assert_snapshot!(all.join("\n"), @r"
    sp_9i.txt: db=TULIP instance=tulip1 host=greenhouse01.example.com release=9.2.0.8.0 rac=NO pdb= cpus= begin_snap=11 end_time=03-May-05 09:10:00 elapsed_min=10 db_time_min= block_bytes=8192
    sp_10g.txt: db=CROCUS instance=crocus host=rockery release=10.2.0.4.0 rac=NO pdb= cpus=4 begin_snap=31 end_time=02-Mar-08 10:20:00 elapsed_min=20 db_time_min= block_bytes=8192
    sp_11g.txt: db=IRIS instance=iris host=flowerbed release=11.2.0.4.0 rac=NO pdb= cpus=16 begin_snap=101 end_time=02-Jun-15 10:05:00 elapsed_min=5 db_time_min=159.5 block_bytes=8192
    awr_10g.txt: db=ROSE instance=rose1 host=hedge01 release=10.2.0.4.0 rac=YES pdb= cpus=8 begin_snap=2200 end_time=14-Jul-09 13:30:20 elapsed_min=30.17 db_time_min=905.1 block_bytes=16384
    awr_11204.txt: db=PANSY instance=pansy host=window release=11.2.0.4.0 rac=NO pdb= cpus=4 begin_snap=20 end_time=05-Mar-16 10:30:00 elapsed_min=30 db_time_min=9 block_bytes=
    awr_12c.txt: db=LILY instance=lily2 host=pond02.example.c release=12.1.0.2.0 rac=YES pdb= cpus=72 begin_snap=310 end_time=02-Feb-17 11:10:01 elapsed_min=10 db_time_min=640.25 block_bytes=8192
    awrpdb_19c.txt: db=DAISY instance=daisy host=field01 release=19.0.0.0.0 rac=NO pdb=MEADOW cpus=32 begin_snap=51 end_time=10-Jan-24 12:05:00 elapsed_min=5 db_time_min=315 block_bytes=
    awrg_11g.txt: db=THISTLE instance=thistle1+thistle2 host=heath1+heath2 release=11.2.0.3.0 rac=YES pdb= cpus= begin_snap=60 end_time=15-Feb-13 09:10 elapsed_min=10.01 db_time_min=635.2 block_bytes=
    awrg_one.txt: db=NETTLE instance=nettle host=ditch release=11.2.0.3.0 rac=NO pdb= cpus=16 begin_snap=70 end_time=16-Feb-13 09:10 elapsed_min=10.03 db_time_min=160.5 block_bytes=
    awr_11g.html: db=ASTER instance=aster host=meadow.example.com release=11.2.0.2.0 rac=NO pdb= cpus=16 begin_snap=77 end_time=02-Mar-12 14:10:00 elapsed_min=10 db_time_min=319.5 block_bytes=8192
    awr_11g_browser.html: db=ASTER instance=aster host=meadow.example.com release=11.2.0.2.0 rac=NO pdb= cpus=16 begin_snap=77 end_time=02-Mar-12 14:10:00 elapsed_min=10 db_time_min=319.5 block_bytes=8192
    awr_19c.html: db=TULIP instance=tulip host=bed7.example.com release=19.0.0.0.0 rac=NO pdb= cpus=48 begin_snap=900 end_time=02-Jun-24 10:04:00 elapsed_min=4 db_time_min=255.98 block_bytes=8192
    awrpdb_23ai.html: db=TULIP instance=tulip host=bed7.example.com release=23.0.0.0.0 rac=NO pdb=GARDEN cpus=48 begin_snap=900 end_time=02-Jun-24 10:04:00 elapsed_min=4 db_time_min=255.98 block_bytes=8192
    awrg_19c.html: db=CLOVER instance=clover1+clover2 host=field1+field2 release=19.0.0.0.0 rac=YES pdb= cpus=56 begin_snap=40 end_time=15-Feb-23 00:10 elapsed_min=10.02 db_time_min=1270.4 block_bytes=8192
    ");
}

#[test]
fn rates() {
    let all = SAMPLES.map(|(name, _)| format!("{name}: {}", columns(&sample(name), &RATES)));
    insta::assert_snapshot!(all.join("\n"), @r"
    sp_9i.txt: redo_bytes_per_s=612000.5 logical_reads_per_s=9500.25 user_calls_per_s=75 executes_per_s=150 piops= read_bytes_per_s= db_time_per_s= transactions_per_s=50
    sp_10g.txt: redo_bytes_per_s=12400.5 logical_reads_per_s=4100.25 user_calls_per_s=1.1 executes_per_s=66.4 piops= read_bytes_per_s= db_time_per_s= transactions_per_s=0.2
    sp_11g.txt: redo_bytes_per_s=512345.6 logical_reads_per_s=92100.4 user_calls_per_s=3.5 executes_per_s=1480 piops=90801.6 read_bytes_per_s= db_time_per_s=31.9 transactions_per_s=20
    awr_10g.txt: redo_bytes_per_s=1045224510 logical_reads_per_s=45000.11 user_calls_per_s=11 executes_per_s=350 piops=24207.7 read_bytes_per_s= db_time_per_s= transactions_per_s=10
    awr_11204.txt: redo_bytes_per_s=10000 logical_reads_per_s=900 user_calls_per_s=30 executes_per_s=60 piops= read_bytes_per_s= db_time_per_s=0.3 transactions_per_s=2.5
    awr_12c.txt: redo_bytes_per_s=1048576 logical_reads_per_s=301200.5 user_calls_per_s=7 executes_per_s=1600 piops=303021 read_bytes_per_s=2447481241.6 db_time_per_s=64 transactions_per_s=10
    awrpdb_19c.txt: redo_bytes_per_s=1200 logical_reads_per_s=612000 user_calls_per_s=7 executes_per_s=2400 piops=605003 read_bytes_per_s= db_time_per_s=63 transactions_per_s=0
    awrg_11g.txt: redo_bytes_per_s=435456 logical_reads_per_s=51001 user_calls_per_s=14.5 executes_per_s=2010 piops= read_bytes_per_s= db_time_per_s= transactions_per_s=20.1
    awrg_one.txt: redo_bytes_per_s=215142.4 logical_reads_per_s=25000.5 user_calls_per_s=7 executes_per_s=1000 piops= read_bytes_per_s= db_time_per_s= transactions_per_s=10
    awr_11g.html: redo_bytes_per_s=204800 logical_reads_per_s=51000.4 user_calls_per_s=7 executes_per_s=800 piops=51168.7 read_bytes_per_s= db_time_per_s=31.9 transactions_per_s=10
    awr_11g_browser.html: redo_bytes_per_s=204800 logical_reads_per_s=51000.4 user_calls_per_s=7 executes_per_s=800 piops=51168.7 read_bytes_per_s= db_time_per_s=31.9 transactions_per_s=10
    awr_19c.html: redo_bytes_per_s=1500.5 logical_reads_per_s=720000.1 user_calls_per_s=7 executes_per_s=2900 piops=710003 read_bytes_per_s= db_time_per_s=64 transactions_per_s=0
    awrpdb_23ai.html: redo_bytes_per_s=1500.5 logical_reads_per_s=720000.1 user_calls_per_s=7 executes_per_s=2900 piops=710003 read_bytes_per_s= db_time_per_s=64 transactions_per_s=0
    awrg_19c.html: redo_bytes_per_s=435456 logical_reads_per_s=511001 user_calls_per_s=14.5 executes_per_s=2010 piops=502835 read_bytes_per_s= db_time_per_s= transactions_per_s=20.1
    ");
}

#[test]
fn waits() {
    let all = SAMPLES.map(|(name, _)| format!("{name}: {}", columns(&sample(name), &WAITS)));
    insta::assert_snapshot!(all.join("\n"), @r"
    sp_9i.txt: read_event=db file sequential read read_waits=742000 read_us=7000 log_sync_us=10000 write_us=5000 log_write_us=3986.71 cpu_idle_pct= top_event=db file sequential read
    sp_10g.txt: read_event=db file sequential read read_waits=4800050 read_us=3499.96 log_sync_us= write_us= log_write_us=10000 cpu_idle_pct= top_event=db file sequential read
    sp_11g.txt: read_event=db file sequential read read_waits=26899900 read_us=331.265 log_sync_us=3672.79 write_us=124.688 log_write_us=1328.9 cpu_idle_pct=84.8 top_event=db file sequential read
    awr_10g.txt: read_event=db file sequential read read_waits=39812345 read_us=1253.38 log_sync_us=11111.1 write_us=250 log_write_us=3000 cpu_idle_pct=1.9337 top_event=db file sequential read
    awr_11204.txt: read_event=db file sequential read read_waits=80000 read_us=3000 log_sync_us= write_us= log_write_us= cpu_idle_pct= top_event=db file sequential read
    awr_12c.txt: read_event=db file sequential read read_waits=179254321 read_us=201.953 log_sync_us=700 write_us=250.772 log_write_us=610 cpu_idle_pct=93.8 top_event=db file sequential read
    awrpdb_19c.txt: read_event=db file sequential read read_waits=181442001 read_us=90.9602 log_sync_us=311.2 write_us=0.74022 log_write_us=205.1 cpu_idle_pct= top_event=db file sequential read
    awrg_11g.txt: read_event=db file sequential read read_waits=29400100 read_us=1200 log_sync_us= write_us= log_write_us= cpu_idle_pct= top_event=db file sequential read
    awrg_one.txt: read_event=db file sequential read read_waits=14400200 read_us=500 log_sync_us=1597.34 write_us= log_write_us= cpu_idle_pct=75 top_event=db file sequential read
    awr_11g.html: read_event=db file sequential read read_waits=29988001 read_us=589.569 log_sync_us=1999.33 write_us=400 log_write_us=819.672 cpu_idle_pct=83.9 top_event=db file sequential read
    awr_11g_browser.html: read_event=db file sequential read read_waits=29988001 read_us=589.569 log_sync_us=1999.33 write_us=400 log_write_us=819.672 cpu_idle_pct=83.9 top_event=db file sequential read
    awr_19c.html: read_event=db file sequential read read_waits=170402113 read_us=75.7737 log_sync_us=301.12 write_us=0.22145 log_write_us=187.02 cpu_idle_pct=75.4 top_event=db file sequential read
    awrpdb_23ai.html: read_event=cell single block physical read: flash cache read_waits=170402113 read_us=75.7737 log_sync_us=301.12 write_us=0.22145 log_write_us=187.02 cpu_idle_pct=75.4 top_event=cell single block physical read: flash cache
    awrg_19c.html: read_event=db file sequential read read_waits=301000400 read_us=236.612 log_sync_us=1200 write_us= log_write_us=700 cpu_idle_pct=83 top_event=db file sequential read
    ");
}

#[test]
fn csv_of_all_columns() {
    let text = csv::table(&reports()).csv().unwrap();
    insta::assert_snapshot!(text, @"
    file,kind,format,sessions,db,db_id,instance,instance_number,host,release,rac,pdb,cpus,cores,memory_gb,begin_snap,end_snap,begin_time,end_time,begin_iso,end_iso,elapsed_min,db_time_min,aas,db_time_per_s,db_cpu_per_s,redo_bytes_per_s,logical_reads_per_s,block_changes_per_s,physical_read_blocks_per_s,physical_write_blocks_per_s,user_calls_per_s,executes_per_s,parses_per_s,hard_parses_per_s,transactions_per_s,read_requests_per_s,write_requests_per_s,piops,read_bytes_per_s,write_bytes_per_s,read_event,read_processes,read_waits,read_us,scattered_read_waits,scattered_read_us,direct_read_waits,direct_read_us,parallel_read_us,log_sync_us,write_us,log_write_us,user_commits,redo_synch_writes,cpu_idle_pct,cpu_iowait_pct,buffer_cache_bytes,log_buffer_bytes,block_bytes,wait_processes,wait_user_io_s,wait_system_io_s,wait_commit_s,wait_concurrency_s,wait_configuration_s,wait_cluster_s,wait_application_s,wait_network_s,wait_administrative_s,wait_scheduler_s,wait_other_s,top_event,top_event_time_s,top_event_us,top_event_2,top_event_2_time_s,top_event_2_us,top_event_3,top_event_3_time_s,top_event_3_us,top_event_4,top_event_4_time_s,top_event_4_us,top_event_5,top_event_5_time_s,top_event_5_us,platform,db_role,exadata,cpu_user_pct,cpu_system_pct,total_requests_per_s,total_read_requests_per_s,total_write_requests_per_s,total_bytes_per_s,total_read_bytes_per_s,total_write_bytes_per_s,database_requests_per_s,database_bytes_per_s,redo_writes_per_s,redo_io_bytes_per_s,flash_cache_requests_per_s,flash_cache_bytes_per_s,log_switches_per_h,read_p50_us,read_p95_us,read_p99_us,read_histogram,log_write_p50_us,log_write_p95_us,log_write_p99_us,log_write_histogram,log_write_waits,direct_write_waits,direct_write_us,direct_read_temp_waits,direct_read_temp_us,direct_write_temp_waits,direct_write_temp_us,wait_user_io_waits,wait_user_io_us,wait_system_io_waits,wait_system_io_us,wait_commit_waits,wait_commit_us,wait_concurrency_waits,wait_concurrency_us,wait_configuration_waits,wait_configuration_us,wait_cluster_waits,wait_cluster_us,wait_application_waits,wait_application_us,wait_network_waits,wait_network_us,wait_administrative_waits,wait_administrative_us,wait_scheduler_waits,wait_scheduler_us,wait_other_waits,wait_other_us,top_event_waits,top_event_class,top_event_pct_db_time,top_event_2_waits,top_event_2_class,top_event_2_pct_db_time,top_event_3_waits,top_event_3_class,top_event_3_pct_db_time,top_event_4_waits,top_event_4_class,top_event_4_pct_db_time,top_event_5_waits,top_event_5_class,top_event_5_pct_db_time,gc_blocks_lost,gc_cr_receive_us,gc_current_receive_us,ping_500b_us,ping_8k_us,top_sql_by_reads,top_sql_read_blocks,top_sql_read_pct,top_segment_by_reads,top_segment_read_blocks,top_segment_read_pct,findings
    sp_11g.txt,sp,text,32,IRIS,1200330044,iris,1,flowerbed,11.2.0.4.0,NO,,16,8,63.9,101,102,02-Jun-15 10:00:00,02-Jun-15 10:05:00,2015-06-02T10:00:00,2015-06-02T10:05:00,5,159.5,31.9,31.9,2,512345.6,92100.4,1005,90220.1,1210,3.5,1480,8,0.1,20,89668.3,1133.3,90801.6,,,db file sequential read,foreground,26899900,331.265,,,,,,3672.79,124.688,1328.9,6000,97,84.8,70.1,268435456,31989760,8192,,,,,,,,,,,,,db file sequential read,8912,331.3,CPU time,594,,log file sync,22,3672.79,db file parallel write,15,124.688,log file parallel write,8,1328.9,Linux x86 64-bit,,,11,4.2,,89677.7,,745231701,734565034.7,10666666.7,,,,,,,24,1000,1000,2000,<1ms:98.9 <2ms:0.9 <4ms:0.1 <8ms:0.1 <16ms:0 <32ms:0 <=1s:0,,,,,6020,,,,,,,,,,,,,,,,,,,,,,,,,,,,,26900120,,93.1,,,6.2,5990,,0.2,120300,,0.2,6020,,0.1,,,,,,,,,,,,not-durable
    awr_19c.html,awr,html,,TULIP,1800990011,tulip,1,bed7.example.com,19.0.0.0.0,NO,,48,24,377.1,900,901,02-Jun-24 10:00:00,02-Jun-24 10:04:00,2024-06-02T10:00:00,2024-06-02T10:04:00,4,255.98,64,64,9.9,1500.5,720000.1,,710000.9,4,7,2900,,,0,710000.1,3,710003,,,db file sequential read,foreground,170402113,75.7737,,,,,,301.12,0.22145,187.02,8,9,75.4,0,4294967296,129236992,8192,,,,,,,,,,,,,db file sequential read,12900,75.77,DB CPU,2378.9,,log file sync,0,301.12,,,,,,,Linux x86 64-bit,PRIMARY,,18.2,6.4,710010,710003,7,5816354167,5816320833.33,33333.33,,,,,,,,,,,<16us:0.1 <32us:2.2 <64us:30 >=64us:67.7,,,,,41,,,,,,,170402200,,,,,,,,,,,,,,,,,,,,,,170402113,User I/O,84.1,,,15.5,9,Commit,0,,,,,,,,,,,,,,,,,,short-run
    sp_9i.txt,sp,text,,TULIP,1100220033,tulip1,1,greenhouse01.example.com,9.2.0.8.0,NO,,,,,11,12,03-May-05 09:00:00,03-May-05 09:10:00,2005-05-03T09:00:00,2005-05-03T09:10:00,10,,,,,612000.5,9500.25,3000,1250,400,75,150,10,0.1,50,,,,,,db file sequential read,all,742000,7000,,,,,,10000,5000,3986.71,30000,29900,,,671088640,1048576,8192,,,,,,,,,,,,,db file sequential read,5194,7000,CPU time,610,,log file sync,299,10000,log file parallel write,120,3986.71,db file parallel write,45,5000,,,,,,,,,,,,,,,,,,,,,,,,,,,30100,,,,,,,,,,,,,,,,,,,,,,,,,,,,,742000,,82.1,,,9.64,29900,,4.73,30100,,1.9,9000,,0.71,,,,,,,,,,,,top-wait
    ");
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().unwrap().clone();
    let unique: std::collections::BTreeSet<&str> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    assert!(reader.records().all(|row| row.unwrap().len() == names.len()));
}

#[test]
fn the_columns_of_awr_info() {
    insta::assert_snapshot!(info::render(&reports()), @r"
    FILE|SESSIONS|ELAPSED|DB CPU|DB Tm|EXECUTES|LIO|PREADS|READ_MBS|PWRITES|WRITE_MBS|REDO_MBS|DFSR_LAT|DPR_LAT|DFPR_LAT|DFPW_LAT|LFPW_LAT|TOP WAIT|
    sp_11g.txt|32|300|2.0|31.9|1480|92100|89668|700.5|1133|10.2|0.5|331|||125|1329|db file sequential read 26,900,120 8,912 0 93.1|
    awr_19c.html||240|9.9|64.0|2900|720000|710000|5546.9|3|0.0|0.0|76|||0.221|187|db file sequential read 170,402,113 12.9K 75.77us 84.1 User I/O|
    sp_9i.txt||600|||150|9500|||||0.6|7000|||5000|3987|db file sequential read 742,000 5,194 82.10|
    ");
}

#[test]
fn the_table_of_events() {
    insta::assert_snapshot!(events::render(&reports()), @r"
    Filename      Event                          Waits  Time(s)  Latency       IOPS
    ------------  -----------------------  -----------  -------  -------  ---------
    sp_11g.txt    db file sequential read   26,899,900    8,911    331.3   89,668.3
    awr_19c.html  db file sequential read  170,402,113   12,912     75.8  710,000.1
    sp_9i.txt     db file sequential read      742,000    5,194    7,000          -
    ");
}

#[test]
fn every_figure_is_explained() {
    insta::assert_snapshot!(explain::render(&[sample("awr_12c.txt")]), @"
    awr_12c.txt

    figure                                                    value  unit                               as printed  from
    ---------------------------  ----------------------------------  -----------------  --------------------------  ---------------------------------------------------------------
    db                                                         LILY  name                                     LILY  report header
    db_id                                                1400550066  number                             1400550066  report header
    instance                                                  lily2  name                                    lily2  report header
    instance_number                                               2  number                                      2  report header
    host                                           pond02.example.c  name                         pond02.example.c  report header
    release                                              12.1.0.2.0  version                            12.1.0.2.0  report header
    rac                                                         YES  YES or NO                                 YES  report header
    pdb                                                           -  name                                           not in this report
    cpus                                                         72  count                                      72  report header
    cores                                                        36  count                                      36  report header
    memory_gb                                                503.75  GiB                                    503.75  report header
    begin_snap                                                  310  number                                    310  report header
    end_snap                                                    311  number                                    311  report header
    begin_time                                   02-Feb-17 11:00:01  as printed                 02-Feb-17 11:00:01  report header
    end_time                                     02-Feb-17 11:10:01  as printed                 02-Feb-17 11:10:01  report header
    begin_iso                                   2017-02-02T11:00:01  date and time                                  report header
    end_iso                                     2017-02-02T11:10:01  date and time                                  report header
    elapsed_min                                                  10  minutes                                 10.00  report header
    db_time_min                                              640.25  minutes                                640.25  report header
    aas                                                      64.025  sessions                                       report header: DB time over elapsed
    db_time_per_s                                                64  s/s                                      64.0  Load Profile
    db_cpu_per_s                                                4.1  s/s                                       4.1  Load Profile
    redo_bytes_per_s                                        1048576  bytes/s                           1,048,576.0  Load Profile
    logical_reads_per_s                                    301200.5  blocks/s                            301,200.5  Load Profile
    block_changes_per_s                                        6000  1/s                                   6,000.0  Load Profile
    physical_read_blocks_per_s                             298765.4  blocks/s                            298,765.4  Load Profile
    physical_write_blocks_per_s                              5432.1  blocks/s                              5,432.1  Load Profile
    user_calls_per_s                                              7  1/s                                       7.0  Load Profile
    executes_per_s                                             1600  1/s                                   1,600.0  Load Profile
    parses_per_s                                                  9  1/s                                       9.0  Load Profile
    hard_parses_per_s                                             0  1/s                                       0.0  Load Profile
    transactions_per_s                                           10  1/s                                      10.0  Load Profile
    read_requests_per_s                                    298700.1  1/s                                 298,700.1  Instance Activity Stats
    write_requests_per_s                                       4321  1/s                                   4,321.0  Instance Activity Stats
    piops                                                    303021  1/s                                            Instance Activity Stats + Instance Activity Stats
    read_bytes_per_s                                   2447481241.6  bytes/s                               2,334.1  Load Profile
    write_bytes_per_s                                    44459622.4  bytes/s                                  42.4  Load Profile
    read_event                              db file sequential read  name                  db file sequential read  Foreground Wait Events
    read_processes                                       foreground  foreground or all                              Foreground Wait Events
    read_waits                                            179254321  count                             179,254,321  Foreground Wait Events
    read_us                                                 201.953  us                                             Foreground Wait Events: time over waits
    scattered_read_waits                                          -  count                                          not in this report
    scattered_read_us                                             -  us                                             not in this report
    direct_read_waits                                            40  count                                      40  Foreground Wait Events
    direct_read_us                                              310  us                                       0.31  Foreground Wait Events
    parallel_read_us                                              -  us                                             not in this report
    log_sync_us                                                 700  us                                       0.70  Foreground Wait Events
    write_us                                                250.772  us                                             Background Wait Events: time over waits
    log_write_us                                                610  us                                       0.61  Background Wait Events
    user_commits                                               6000  count                                   6,000  Instance Activity Stats
    redo_synch_writes                                          6000  count                                   6,000  Instance Activity Stats
    cpu_idle_pct                                               93.8  percent                                        Operating System Statistics: a share of BUSY_TIME and IDLE_TIME
    cpu_iowait_pct                                               62  percent                                        Operating System Statistics: a share of BUSY_TIME and IDLE_TIME
    buffer_cache_bytes                                   1073741824  bytes                                  1,024M  Cache Sizes
    log_buffer_bytes                                      134217728  bytes                                131,072K  Cache Sizes
    block_bytes                                                8192  bytes                                      8K  Cache Sizes
    wait_processes                                              all  foreground or all                              Wait Classes by Total Wait Time
    wait_user_io_s                                            36201  s                                      36,201  Wait Classes by Total Wait Time
    wait_system_io_s                                              -  s                                              not in this report
    wait_commit_s                                                 -  s                                              not in this report
    wait_concurrency_s                                            -  s                                              not in this report
    wait_configuration_s                                          -  s                                              not in this report
    wait_cluster_s                                                -  s                                              not in this report
    wait_application_s                                            -  s                                              not in this report
    wait_network_s                                                -  s                                              not in this report
    wait_administrative_s                                         -  s                                              not in this report
    wait_scheduler_s                                              -  s                                              not in this report
    wait_other_s                                                  -  s                                              not in this report
    top_event                               db file sequential read  name                  db file sequential read  Top 10 Foreground Events by Total Wait Time
    top_event_time_s                                          36200  s                                       36.2K  Top 10 Foreground Events by Total Wait Time
    top_event_us                                            201.948  us                                             Top 10 Foreground Events by Total Wait Time: time over waits
    top_event_2                                              DB CPU  name                                   DB CPU  Top 10 Foreground Events by Total Wait Time
    top_event_2_time_s                                       2460.1  s                                      2460.1  Top 10 Foreground Events by Total Wait Time
    top_event_2_us                                                -  us                                             not in this report
    top_event_3                                       log file sync  name                            log file sync  Top 10 Foreground Events by Total Wait Time
    top_event_3_time_s                                          4.2  s                                         4.2  Top 10 Foreground Events by Total Wait Time
    top_event_3_us                                              700  us                                       0.70  Top 10 Foreground Events by Total Wait Time
    top_event_4                          log file switch completion  name               log file switch completion  Top 10 Foreground Events by Total Wait Time
    top_event_4_time_s                                          0.5  s                                          .5  Top 10 Foreground Events by Total Wait Time
    top_event_4_us                                            41670  us                                      41.67  Top 10 Foreground Events by Total Wait Time
    top_event_5                                                   -  name                                           not in this report
    top_event_5_time_s                                            -  s                                              not in this report
    top_event_5_us                                                -  us                                             not in this report
    platform                                       Linux x86 64-bit  name                         Linux x86 64-bit  report header
    db_role                                                       -  name                                           not in this report
    exadata                                                       -  YES                                            not in this report
    cpu_user_pct                                                4.6  percent                                   4.6  Host CPU
    cpu_system_pct                                              1.6  percent                                   1.6  Host CPU
    total_requests_per_s                                          -  1/s                                            not in this report
    total_read_requests_per_s                                     -  1/s                                            not in this report
    total_write_requests_per_s                                    -  1/s                                            not in this report
    total_bytes_per_s                                    2491451219  bytes/s                                        Instance Activity Stats + Instance Activity Stats
    total_read_bytes_per_s                               2446951219  bytes/s                        2,446,951,219.  Instance Activity Stats
    total_write_bytes_per_s                                44500000  bytes/s                          44,500,000.0  Instance Activity Stats
    database_requests_per_s                                       -  1/s                                            not in this report
    database_bytes_per_s                                          -  bytes/s                                        not in this report
    redo_writes_per_s                                             -  1/s                                            not in this report
    redo_io_bytes_per_s                                           -  bytes/s                                        not in this report
    flash_cache_requests_per_s                                    -  1/s                                            not in this report
    flash_cache_bytes_per_s                                       -  bytes/s                                        not in this report
    log_switches_per_h                                            -  1/h                                            not in this report
    read_p50_us                                                1000  us                                             Wait Event Histogram: upper bound of <1ms
    read_p95_us                                                1000  us                                             Wait Event Histogram: upper bound of <1ms
    read_p99_us                                                1000  us                                             Wait Event Histogram: upper bound of <1ms
    read_histogram               <1ms:99.6 <2ms:0.3 <4ms:0.1 <8ms:0  range:percent                                  Wait Event Histogram
    log_write_p50_us                                              -  us                                             not in this report
    log_write_p95_us                                              -  us                                             not in this report
    log_write_p99_us                                              -  us                                             not in this report
    log_write_histogram                                           -  range:percent                                  not in this report
    log_write_waits                                            6120  count                                   6,120  Background Wait Events
    direct_write_waits                                            -  count                                          not in this report
    direct_write_us                                               -  us                                             not in this report
    direct_read_temp_waits                                        -  count                                          not in this report
    direct_read_temp_us                                           -  us                                             not in this report
    direct_write_temp_waits                                       -  count                                          not in this report
    direct_write_temp_us                                          -  us                                             not in this report
    wait_user_io_waits                                    179300000  count                             179,300,000  Wait Classes by Total Wait Time
    wait_user_io_us                                         201.902  us                                             Wait Classes by Total Wait Time: time over waits
    wait_system_io_waits                                          -  count                                          not in this report
    wait_system_io_us                                             -  us                                             not in this report
    wait_commit_waits                                             -  count                                          not in this report
    wait_commit_us                                                -  us                                             not in this report
    wait_concurrency_waits                                        -  count                                          not in this report
    wait_concurrency_us                                           -  us                                             not in this report
    wait_configuration_waits                                      -  count                                          not in this report
    wait_configuration_us                                         -  us                                             not in this report
    wait_cluster_waits                                            -  count                                          not in this report
    wait_cluster_us                                               -  us                                             not in this report
    wait_application_waits                                        -  count                                          not in this report
    wait_application_us                                           -  us                                             not in this report
    wait_network_waits                                            -  count                                          not in this report
    wait_network_us                                               -  us                                             not in this report
    wait_administrative_waits                                     -  count                                          not in this report
    wait_administrative_us                                        -  us                                             not in this report
    wait_scheduler_waits                                          -  count                                          not in this report
    wait_scheduler_us                                             -  us                                             not in this report
    wait_other_waits                                              -  count                                          not in this report
    wait_other_us                                                 -  us                                             not in this report
    top_event_waits                                       179254321  count                             179,254,321  Foreground Wait Events
    top_event_class                                        User I/O  name                                 User I/O  Top 10 Foreground Events by Total Wait Time
    top_event_pct_db_time                                      94.2  percent                                  94.2  Top 10 Foreground Events by Total Wait Time
    top_event_2_waits                                             -  count                                          not in this report
    top_event_2_class                                             -  name                                           not in this report
    top_event_2_pct_db_time                                     6.4  percent                                   6.4  Top 10 Foreground Events by Total Wait Time
    top_event_3_waits                                          6001  count                                   6,001  Top 10 Foreground Events by Total Wait Time
    top_event_3_class                                        Commit  name                                   Commit  Top 10 Foreground Events by Total Wait Time
    top_event_3_pct_db_time                                       0  percent                                    .0  Top 10 Foreground Events by Total Wait Time
    top_event_4_waits                                            12  count                                      12  Top 10 Foreground Events by Total Wait Time
    top_event_4_class                                      Configur  name                                 Configur  Top 10 Foreground Events by Total Wait Time
    top_event_4_pct_db_time                                       0  percent                                    .0  Top 10 Foreground Events by Total Wait Time
    top_event_5_waits                                             -  count                                          not in this report
    top_event_5_class                                             -  name                                           not in this report
    top_event_5_pct_db_time                                       -  percent                                        not in this report
    gc_blocks_lost                                                -  count                                          not in this report
    gc_cr_receive_us                                              -  us                                             not in this report
    gc_current_receive_us                                         -  us                                             not in this report
    ping_500b_us                                                  -  us                                             not in this report
    ping_8k_us                                                    -  us                                             not in this report
    top_sql_by_reads                                              -  name                                           not in this report
    top_sql_read_blocks                                           -  blocks                                         not in this report
    top_sql_read_pct                                              -  percent                                        not in this report
    top_segment_by_reads                                          -  name                                           not in this report
    top_segment_read_blocks                                       -  blocks                                         not in this report
    top_segment_read_pct                                          -  percent                                        not in this report
    ");
}

#[test]
fn json_has_the_promised_shape() {
    let text = json(&reports()).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let report = &all["reports"][0];
    for place in [
        "/file",
        "/kind",
        "/header/db",
        "/header/begin_snap",
        "/header/elapsed_min",
        "/load_profile/redo_bytes/per_second",
        "/load_profile/db_cpu/per_transaction",
        "/top_events/0/avg_us",
        "/foreground_events/0/waits",
        "/background_events/0/time_s",
        "/histograms/0/buckets/0/share",
        "/statistics/user commits/total",
        "/tablespaces/0/reads",
        "/findings/0/id",
    ] {
        assert!(report.pointer(place).is_some(), "{place} is not there");
    }
    let total = &report["statistics"]["physical read total bytes"]["total"];
    let expected = serde_json::json!({
        "value": 220_369_510_400_i64,
        "as_printed": "220,369,510,400",
        "section": "Instance Activity Stats",
    });
    assert_eq!(total, &expected);
    // A database that only the titles of the sections name, and a column that was too narrow.
    assert_eq!(report["header"]["db"]["section"], "titles of sections");
    assert!(report["statistics"]["physical read total bytes"]["per_transaction"].is_null());
}

#[test]
fn the_page_describes_every_column() {
    let page = include_str!("../../../../docs/awr.md");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for column in COLUMNS {
        // Wait classes share an entry, and so do events of all ranks.
        let class = column.name.strip_prefix("wait_").and_then(|rest| rest.rsplit_once('_'));
        let name = match class {
            Some((_, figure)) => format!("wait_CLASS_{figure}"),
            None => (2..=5).fold(column.name.to_owned(), |name, rank| {
                name.replace(&format!("top_event_{rank}"), "top_event")
            }),
        };
        let entry = format!("`{name}` ({}", column.unit);
        let is_described = [")", ";"].iter().any(|end| page.contains(&format!("{entry}{end}")));
        assert!(is_described, "docs/awr.md has no {entry}) for {}", column.name);
        if let Some((class, _)) = class {
            assert!(page.contains(&format!("`{class}`")), "docs/awr.md has no class {class}");
        }
    }
    for name in info::HEADING.trim_end_matches('|').split('|') {
        assert!(page.contains(&format!("`{name}`")), "docs/awr.md has no {name}");
    }
}

#[test]
fn rises_are_shown_with_their_causes() {
    use crate::moments::OverTime;
    use crate::reports::over_time::ReportsOverTime;
    use crate::rise::{Rise, RiseShare};
    let share = |name: &str, value| RiseShare { name: name.to_owned(), value, usual: 0.5 };
    let rise = Rise {
        at: 0,
        value: 14.7,
        usual: 3.1,
        shares: vec![share("enq: TX - row lock contention", 11.5), share("DB CPU", 1.0)],
        classes: vec![share("Application", 11.5)],
        sigmas: 9.0,
    };
    let unexplained = Rise { shares: Vec::new(), classes: Vec::new(), ..rise.clone() };
    let moment = crate::moments::ReportMoment { begin: None, source: "a.txt".to_owned() };
    let values = vec![Some(1.0)];
    let found = OverTime::of(vec![moment], vec![("aas", "sessions", values)], &[]);
    let rises = vec![("active sessions", rise), ("busy processors", unexplained)];
    let of = ReportsOverTime {
        name: "SHOP shop1".to_owned(),
        found,
        rises,
        stopped: None,
        notes: Vec::new(),
    };
    insta::assert_snapshot!(over_time::render(&[of]), @r"
    SHOP shop1: 1 report, a.txt
    figure  unit      n  median  lowest  highest  highest at  outliers
    ------  --------  -  ------  ------  -------  ----------  --------
    aas     sessions  1    1.00    1.00     1.00  a.txt              -
    worst hour   a.txt: 14.7 active sessions, usually 3.10; more than usual: enq: TX - row lock
                 contention 11.0, DB CPU 0.50; by class: Application 11.0
    also         a.txt: 14.7 busy processors, usually 3.10; cause unknown
    ");
}

#[test]
fn outliers_are_never_denied() {
    use crate::moments::{OverTime, ReportMoment};
    use crate::reports::over_time::ReportsOverTime;
    let shown = |last: f64, stopped| {
        let moment = |at| ReportMoment { begin: None, source: format!("{at}.txt") };
        let values = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0, last].map(Some).to_vec();
        let series = vec![("log_write_us", "us", values)];
        let found = OverTime::of((0..8).map(moment).collect(), series, &[]);
        let name = String::new();
        over_time::rises(&ReportsOverTime { name, found, rises: vec![], stopped, notes: vec![] })
    };
    let no_rise = "no rise of active sessions or of busy processors exceeds the noise";
    let too_few = "or too few reports have these figures";
    assert_eq!(shown(100.0, None), [format!("none: {no_rise}, {too_few}")]);
    let near = "log_write_us 115 (100 otherwise)";
    assert_eq!(
        shown(115.0, None),
        [format!("none: {no_rise}; the farthest outliers are at 7.txt: {near}")]
    );
    let far = "log_write_us 900 (100 otherwise)";
    assert_eq!(shown(900.0, None), [format!("7.txt: {far}; {no_rise}")]);
    assert_eq!(
        shown(900.0, Some((7, 0.02))),
        [format!("7.txt: load 2.00 % of the usual; also {far}")]
    );
}

#[test]
fn texts_of_an_awr_report_do_nothing_in_what_is_made_of_it() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/awr/awr_19c.html");
    let page = std::fs::read_to_string(path).unwrap();
    let markup = HOSTILE.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut read = 0;
    for word in ["TULIP", "tulip", "bed7.example.com", "db file sequential read", "19.0.0.0.0"] {
        assert!(page.contains(word), "{word}");
        let source = petal_awr::source::decode(page.replace(word, &markup).into_bytes());
        let Ok(mut report) = petal_awr::parse(HOSTILE, source) else { continue };
        read += 1;
        report.factors.push((HOSTILE.to_owned(), HOSTILE.to_owned()));
        report.notes.push(HOSTILE.to_owned());
        let reports = [report];
        hostile::assert_no_formula(&csv::table(&reports).csv().unwrap(), "csv");
        for text in [
            table::render(&reports, false),
            info::render(&reports),
            events::render(&reports),
            explain::render(&reports),
            json(&reports).unwrap(),
        ] {
            let shown = petal_settings::printable::printable(&text);
            hostile::assert_plain(&shown, word);
            assert!(shown.contains("=cmd"), "{word}: {shown}");
        }
        assert!(info::render(&reports).lines().all(|line| line.matches('|').count() == 18));
    }
    assert!(read >= 3, "{read}");
}

#[test]
fn no_line_of_a_report_is_longer_than_the_terminal() {
    let reports: Vec<_> = SAMPLES.iter().map(|(name, _)| sample(name)).collect();
    widths::look("awr", || table::render(&reports, false));
    widths::look("awr, brief", || table::brief(&reports, false));
    widths::look("awr events", || events::render(&reports));
    let over_time = crate::reports::over_time::of(&reports);
    widths::look("awr over time", || over_time::render(&over_time));
    widths::look("awr over time, brief", || over_time::brief(&over_time));
    let parts = reports.iter().take(1).map(crate::reports::to_profile::part);
    let load = crate::profile::parts::profile(parts.collect()).unwrap();
    widths::look("profile", || crate::profile::text::render(&load));
}
