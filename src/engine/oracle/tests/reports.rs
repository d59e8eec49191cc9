//! The database's own reports.

use super::*;

#[test]
fn awr_is_fetched_for_each_instance_and_for_all() {
    let scripted = loaded()
        .answers("CREATE_SNAPSHOT", &[&["41"]])
        .answers("AWR_REPORT_TEXT", &[&["WORKLOAD REPOSITORY report"], &[""], &["end"]])
        .answers("AWR_REPORT_HTML", &[&["<html>"]])
        .answers("AWR_GLOBAL", &[&["RAC"]])
        .answers("FROM v$database", &[&["4711"]])
        .answers("gv$instance", &[&["1", "orcl1", "node1"], &["2", "orcl2", "node2"]]);
    let awr = Settings { database_statistics_type: StatisticsType::Awr, ..settings() };
    let engine = engine(&scripted, &awr);
    assert!(engine.begin_report().unwrap().unwrap().contains("licence"));
    let reports = engine.end_report().unwrap();
    let files: Vec<&str> = reports.iter().map(|report| report.file.as_str()).collect();
    assert_eq!(
        files,
        ["awr-1.txt", "awr-1.html", "awr-2.txt", "awr-2.html", "awr-global.txt", "awr-global.html"]
    );
    assert_eq!(reports[0].text, "WORKLOAD REPOSITORY report\n\nend\n");
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
    assert!(reports[0].text.contains("DEFINE begin_snap = 12\n"));
    assert!(reports[0].text.contains("petal made none itself"), "{}", reports[0].text);
    let missing = || loaded().fails("statspack.snap", 6550, "PLS-00201: must be declared");
    let default = engine(&missing(), &settings());
    assert_eq!(default.begin_report().unwrap(), None);
    assert!(default.end_report().unwrap().is_empty());
}

/// What PERFSTAT keeps of five minutes.
fn perfstat() -> Scripted {
    loaded()
        .answers("statspack.snap", &[&["102"]])
        .answers(
            "FROM perfstat.stats$snapshot",
            &[
                &[
                    "101",
                    "1200330044",
                    "1",
                    "IRIS",
                    "iris",
                    "flowerbed",
                    "19.0.0.0.0",
                    "NO",
                    "01-Jun-25 08:00:00",
                    "02-Jun-25 10:00:00",
                    "802173600",
                ],
                &[
                    "102",
                    "1200330044",
                    "1",
                    "IRIS",
                    "iris",
                    "flowerbed",
                    "19.0.0.0.0",
                    "NO",
                    "01-Jun-25 08:00:00",
                    "02-Jun-25 10:05:00",
                    "802173900",
                ],
            ],
        )
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

/// The same file is read back where reports are read.
#[test]
fn statspacks_report_is_made_of_its_tables() {
    const MADE: &str = include_str!("../../../../tests/data/awr/sp_petal.txt");
    let scripted = perfstat();
    let engine = engine(&scripted, &settings());
    engine.begin_report().unwrap();
    let reports = engine.end_report().unwrap();
    let files: Vec<&str> = reports.iter().map(|report| report.file.as_str()).collect();
    assert_eq!(files, ["statspack.txt", "statspack.sql"]);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write("tests/data/awr/sp_petal.txt", &reports[0].text).unwrap();
    }
    assert_eq!(reports[0].text, MADE, "UPDATE_DOCS=1 writes it anew");
}

#[test]
fn a_restart_between_the_snapshots_makes_no_report() {
    let row = |id, startup, time| {
        [id, "1", "1", "IRIS", "iris", "", "19.0.0.0.0", "NO", startup, "", time]
    };
    let [first, last] =
        [row("101", "01-Jun-25 08:00:00", "100"), row("102", "02-Jun-25 10:02:00", "400")];
    let restarted = perfstat().answers("FROM perfstat.stats$snapshot", &[&first, &last]);
    let engine = engine(&restarted, &settings());
    engine.begin_report().unwrap();
    let reports = engine.end_report().unwrap();
    assert_eq!(reports.len(), 1);
    let script = &reports[0].text;
    assert!(script.contains("instance iris was started at 02-Jun-25 10:02:00"), "{script}");
}

#[test]
fn snapshots_of_two_instances_make_no_report() {
    let two = perfstat().answers(
        "FROM perfstat.stats$snapshot",
        &[
            &["101", "1", "1", "IRIS", "iris1", "", "19.0.0.0.0", "YES", "", "", "100"],
            &["102", "1", "2", "IRIS", "iris2", "", "19.0.0.0.0", "YES", "", "", "400"],
        ],
    );
    let engine = engine(&two, &settings());
    engine.begin_report().unwrap();
    let reports = engine.end_report().unwrap();
    assert_eq!(reports.len(), 1);
    assert!(reports[0].text.contains("is of instance iris1"), "{}", reports[0].text);
}
