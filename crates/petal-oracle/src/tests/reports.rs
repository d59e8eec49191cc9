//! Tests of the database's own reports.

use super::*;
use petal_record::database_interval::WaitSum;
use petal_record::server_report::{ReportContent, ServerReport};

fn text(report: &ServerReport) -> &str {
    let ReportContent::Text(text) = &report.content else { panic!("{report:?}") };
    text
}

#[test]
fn awr_is_fetched_for_each_instance_and_for_all() {
    let scripted = loaded()
        .answers("CREATE_SNAPSHOT", &[&["41"]])
        .answers("AWR_REPORT_TEXT", &[&["WORKLOAD REPOSITORY report"], &[""], &["end"]])
        .answers("AWR_REPORT_HTML", &[&["<html>"]])
        .answers("AWR_GLOBAL", &[&["RAC"]])
        .answers("FROM sys.v_$database", &[&["4711"]])
        .answers("gv_$instance", &[&["1", "orcl1", "node1"], &["2", "orcl2", "node2"]]);
    let awr = Settings { database_statistics_type: StatisticsType::Awr, ..settings() };
    let engine = engine(&scripted, &awr);
    assert!(engine.begin_report().unwrap().unwrap().contains("licence"));
    let reports = engine.end_report().unwrap();
    let files: Vec<&str> = reports.iter().map(|report| report.file.as_str()).collect();
    assert_eq!(
        files,
        ["awr-1.txt", "awr-1.html", "awr-2.txt", "awr-2.html", "awr-global.txt", "awr-global.html"]
    );
    assert_eq!(text(&reports[0]), "WORKLOAD REPOSITORY report\n\nend\n");
    let sent = scripted.sent();
    assert!(
        sent.iter()
            .any(|line| line.contains("AWR_REPORT_TEXT") && line.ends_with("[4711, 2, 41, 41]"))
    );
    assert!(
        sent.iter().any(|line| line.contains("AWR_GLOBAL_REPORT_HTML")
            && line.ends_with("[4711, '1,2', 41, 41]"))
    );
    assert!(engine.end_report().unwrap().is_empty(), "once");
}

#[test]
fn statspack_leaves_its_script_or_nothing_where_it_is_not_installed() {
    let there = loaded().answers("statspack.snap", &[&["12"]]);
    let engine_there = engine(&there, &settings());
    assert_eq!(engine_there.begin_report().unwrap(), None);
    let reports = engine_there.end_report().unwrap();
    assert_eq!(reports.len(), 1, "its tables are not to be seen");
    assert_eq!(reports[0].file, "statspack.sql");
    assert!(text(&reports[0]).contains("DEFINE begin_snap = 12\n"));
    assert!(text(&reports[0]).contains("petal made none itself"), "{reports:?}");
    let missing = || loaded().fails("statspack.snap", 6550, "PLS-00201: must be declared");
    let default = engine(&missing(), &settings());
    assert_eq!(default.begin_report().unwrap(), None);
    assert!(default.end_report().unwrap().is_empty());
}

#[test]
fn a_package_that_would_run_with_petals_rights_is_not_called() {
    let hostile = |owner: &str, package: &str| {
        loaded().answers("sys.all_procedures", &[&[package]]).answers(owner, &[&["12"]]).fails(
            "ALTER SYSTEM",
            1031,
            "insufficient privileges",
        )
    };
    let statspack = hostile("perfstat.statspack", "STATSPACK");
    assert_eq!(engine(&statspack, &settings()).begin_report().unwrap(), None);
    let rds = hostile("rdsadmin.", "RDSADMIN_UTIL");
    let settled = engine(&rds, &settings()).settle(&Silent, &unlimited()).unwrap();
    assert!(settled.done[0].starts_with("no log switch (ORA-01031)"), "{settled:?}");
    for sent in [statspack.sent(), rds.sent()] {
        let is_call = |line: &&String| line.contains("perfstat.") || line.contains("rdsadmin.");
        assert_eq!(sent.iter().find(is_call), None);
        let looked = sent.iter().find(|line| line.contains("all_procedures")).unwrap();
        assert!(looked.contains("authid = 'CURRENT_USER'"), "{looked}");
    }
}

/// Returns a snapshot as PERFSTAT stores it: instance, start, time and seconds.
fn snapshot<'t>(id: &'t str, instance: [&'t str; 2], at: [&'t str; 3]) -> [&'t str; 11] {
    let ([number, name], [startup, time, seconds]) = (instance, at);
    let (host, release) = ("flowerbed", "19.0.0.0.0");
    [id, "1200330044", number, "IRIS", name, host, release, "NO", startup, time, seconds]
}

const IRIS: [&str; 2] = ["1", "iris"];
const START: &str = "01-Jun-25 08:00:00";

/// Returns PERFSTAT's data of five minutes.
fn perfstat() -> ScriptedOracle {
    let first = snapshot("101", IRIS, [START, "02-Jun-25 10:00:00", "802173600"]);
    let last = snapshot("102", IRIS, [START, "02-Jun-25 10:05:00", "802173900"]);
    loaded()
        .answers("statspack.snap", &[&["102"]])
        .answers("FROM perfstat.stats$snapshot", &[&first, &last])
        .answers(
            "FROM perfstat.stats$sysstat",
            &[
                &["execute count", "444000"],
                &["physical read IO requests", "26900500"],
                &["physical read bytes", "220368896000"],
                &["physical reads", "26900500"],
                &["redo size", "153703680"],
                &["redo synch writes", "97"],
                &["session logical reads", "27630120"],
                &["user commits", "6000"],
                &["user rollbacks", "0"],
            ],
        )
        .answers(
            "FROM perfstat.stats$system_event",
            &[
                &["db file sequential read", "26900120", "8911700000", "26899900", "8911600000"],
                &["log file sync", "5990", "21700000", "5990", "21700000"],
                &["db file parallel write", "120300", "15100000", "0", "0"],
                &["log file parallel write", "6020", "8050000", "0", "0"],
            ],
        )
        .answers(
            "FROM perfstat.stats$sys_time_model",
            &[&["DB CPU", "594000000"], &["DB time", "9570000000"]],
        )
        .answers(
            "FROM perfstat.stats$osstat",
            &[&["BUSY_TIME", "72960"], &["IDLE_TIME", "407040"], &["IOWAIT_TIME", "336480"]],
        )
}

#[test]
fn statspacks_tables_are_differences_between_two_snapshots() {
    let scripted = perfstat();
    let engine = engine(&scripted, &settings());
    engine.begin_report().unwrap();
    let reports = engine.end_report().unwrap();
    let files: Vec<&str> = reports.iter().map(|report| report.file.as_str()).collect();
    assert_eq!(files, ["statspack.txt", "statspack.sql"]);
    let ReportContent::Interval(interval) = &reports[0].content else { panic!("{reports:?}") };
    assert_eq!((interval.database.as_str(), interval.instance.as_str()), ("IRIS", "iris"));
    assert_eq!((interval.host.as_str(), interval.startup.as_str()), ("flowerbed", START));
    assert_eq!((interval.begin.id.as_str(), interval.end.id.as_str()), ("101", "102"));
    assert_eq!(interval.end.time, "02-Jun-25 10:05:00");
    assert_eq!(interval.elapsed_s, 300.0);
    assert_eq!(interval.statistics["redo size"], 153_703_680.0);
    assert_eq!((interval.times_us["DB CPU"], interval.os["BUSY_TIME"]), (594e6, 72_960.0));
    let read = &interval.events[0];
    assert_eq!(read.event, "db file sequential read");
    assert_eq!(read.foreground, WaitSum { waits: 26_899_900.0, time_us: 8_911.6e6 });
    assert_eq!(read.background, WaitSum { waits: 220.0, time_us: 1e5 });
}

/// Returns the script's text if these two snapshots give no report.
fn script_of(first: [&str; 11], last: [&str; 11]) -> String {
    let scripted = perfstat().answers("FROM perfstat.stats$snapshot", &[&first, &last]);
    let engine = engine(&scripted, &settings());
    engine.begin_report().unwrap();
    let reports = engine.end_report().unwrap();
    assert_eq!(reports.len(), 1);
    text(&reports[0]).to_owned()
}

#[test]
fn a_restart_between_the_snapshots_makes_no_report() {
    let first = snapshot("101", IRIS, [START, "", "100"]);
    let script = script_of(first, snapshot("102", IRIS, ["02-Jun-25 10:02:00", "", "400"]));
    assert!(script.contains("instance iris was started at 02-Jun-25 10:02:00"), "{script}");
}

#[test]
fn snapshots_of_two_instances_make_no_report() {
    let first = snapshot("101", ["1", "iris1"], [START, "", "100"]);
    let script = script_of(first, snapshot("102", ["2", "iris2"], [START, "", "400"]));
    assert!(script.contains("is of instance iris1"), "{script}");
}
