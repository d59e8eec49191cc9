//! Tests of the database's statistics: counters, settings, settling.

use super::*;

#[test]
fn counters_are_read_for_each_instance() {
    let scripted = loaded()
        .answers(
            "gv_$sysstat",
            &[
                &["1", "session logical reads", "5000"],
                &["1", "physical reads", "400"],
                &["1", "physical read IO requests", "390"],
                &["1", "physical read bytes", "3276800"],
                &["1", "redo size", "99"],
                &["1", "user commits", "6400"],
                &["1", "redo synch writes", "97"],
                &["1", "background checkpoints completed", "3"],
                &["2", "physical reads", "7"],
            ],
        )
        .answers(
            "gv_$system_event",
            &[
                &["1", "db file sequential read", "User I/O", "500", "90000", "400", "60000"],
                &["1", "log file sync", "Commit", "97", "970", "97", "970"],
            ],
        )
        .answers("gv_$sys_time_model", &[&["1", "DB CPU", "123"], &["1", "DB time", "456"]])
        .answers("gv_$event_histogram", &[&["1", "log file sync", "128", "90"]])
        .answers("gv_$iostat_function", &[&["1", "LGWR", "1", "2", "3", "4", "5", "6", "7", "8"]])
        .answers("gv_$osstat", &[&["1", "BUSY_TIME", "77"]])
        .answers("gv_$instance", &[&["1", "orcl1", "node1"], &["2", "orcl2", "node2"]])
        .answers("JOIN sys.gv_$instance", &[&["1", "41"], &["2", "40"]]);
    let counters = engine(&scripted, &settings()).read_counters(true).unwrap();
    assert_eq!(counters.len(), 2);
    let first = &counters[0];
    // Exadata counts reads of a block under its own event names.
    let sent = scripted.sent();
    let histograms = sent.iter().find(|line| line.contains("gv_$event_histogram_micro")).unwrap();
    assert!(histograms.ends_with("OR event LIKE 'cell single block physical read%'"));
    assert_eq!(first.endpoint, "orcl1@node1");
    let io = &first.io;
    assert_eq!((io.logical_reads, io.physical_read_blocks), (Some(5000), Some(400)));
    assert_eq!((io.physical_read_requests, io.redo_bytes), (Some(390), Some(99)));
    assert_eq!((io.commits, io.log_syncs), (Some(6400), Some(97)));
    assert_eq!(counters[1].io.commits, None, "unknown is not 0");
    let read = first.wait("db file sequential read").unwrap();
    // 60,000 microseconds over 400 waits of sessions: 150 us, not 0 ms.
    assert_eq!((read.class, read.waits, read.time_ns), (WaitClass::UserIo, Some(400), 60_000_000));
    assert_eq!(first.wait("DB CPU").unwrap().time_ns, 123_000);
    for (name, value) in [
        ("checkpoints", 3),
        ("histogram.log file sync.128us", 90),
        ("iostat.LGWR.small_write_reqs", 5),
        ("log_switches", 41),
        ("osstat.BUSY_TIME", 77),
        ("time_model.DB time", 456),
    ] {
        assert_eq!(first.raw.get(name), Some(&value), "{name}");
    }
}

#[test]
fn counters_that_are_no_counts_are_unknown_and_not_0() {
    for odd in ["", "-1", "much", "18446744073709551615", "1.8E+19"] {
        let scripted = loaded()
            .answers(
                "gv_$sysstat",
                &[
                    &["1", "physical reads", odd],
                    &["1", "user commits", "6"],
                    &[odd, "user commits", "9"],
                ],
            )
            .answers(
                "gv_$system_event",
                &[
                    &["1", "log file sync", "Commit", "9", "90", odd, "90"],
                    &["1", "db file sequential read", "User I/O", "9", "90", "9", odd],
                    &["1", "enq: TX - row lock contention", "Application", "9", "9", "9", "9"],
                ],
            )
            .answers("gv_$sys_time_model", &[&["1", "DB CPU", odd]])
            .answers("gv_$event_histogram", &[&["1", "enq: TX - row lock contention", "8", odd]])
            .answers(
                "gv_$iostat_function",
                &[&["1", "LGWR", odd, "2", "3", "4", "5", "6", "7", "8"]],
            )
            .answers("gv_$osstat", &[&["1", "BUSY_TIME", odd]])
            .answers("JOIN sys.gv_$instance", &[&["1", odd]]);
        let counters = engine(&scripted, &settings()).read_counters(true).unwrap();
        let [only] = &counters[..] else { panic!("{odd}: {counters:?}") };
        assert_eq!((only.io.physical_read_blocks, only.io.commits), (None, Some(6)), "{odd}");
        assert_eq!(only.waits.len(), 1, "{odd}: {:?}", only.waits);
        assert!(only.waits[0].buckets.is_empty(), "{odd}");
        let names: Vec<&str> = only.raw.keys().map(String::as_str).collect();
        let (first, rest) = names.split_at(1);
        assert_eq!((first, rest.len()), (&["iostat.LGWR.large_read_megabytes"][..], 7), "{rest:?}");
        assert_eq!(rest.last(), Some(&"user commits"), "{odd}");
    }
}

/// The rise of the counters of a second snapshot, with all figures, over a first one with this cell
/// of one view odd.
fn since_odd(view: &str, at: usize, odd: &str) -> petal_record::counters::Counters {
    let views: [(&str, &[&str]); 5] = [
        ("gv_$sysstat", &["1", "redo entries", "70"]),
        ("gv_$system_event", &["1", "log file sync", "Commit", "9", "90", "8", "80"]),
        ("gv_$sys_time_model", &["1", "DB CPU", "500"]),
        ("gv_$event_histogram", &["1", "log file sync", "8", "6"]),
        ("gv_$iostat_function", &["1", "LGWR", "1", "2", "3", "4", "5", "6", "7", "8"]),
    ];
    let snapshot = |is_odd: bool| {
        let scripted = views.into_iter().fold(loaded(), |scripted, (name, cells)| {
            let mut cells = cells.to_vec();
            if is_odd && name == view {
                cells[at] = odd;
            }
            let commits: &[&str] = &["1", "user commits", "3"];
            match name {
                "gv_$sysstat" => scripted.answers(name, &[&cells[..], commits]),
                _ => scripted.answers(name, &[&cells]),
            }
        });
        engine(&scripted, &settings()).read_counters(true).unwrap().remove(0)
    };
    snapshot(false).since(&snapshot(true))
}

#[test]
fn a_figure_that_only_the_first_snapshot_lacks_is_unknown_and_does_not_count_in_full() {
    let names = |since: &petal_record::counters::Counters| {
        let waits = since.waits.iter().map(|wait| wait.name.clone());
        waits.chain(since.raw.keys().cloned()).collect::<Vec<_>>()
    };
    let all = names(&since_odd("", 0, ""));
    assert!(all.len() >= 2 + 12, "{all:?}");
    for odd in ["", "-1", "much"] {
        let lost = |view, at| {
            let since = since_odd(view, at, odd);
            assert_eq!(since.io.commits, Some(0), "{view} {at} {odd}");
            let found = names(&since);
            let mut lost = all.clone();
            lost.retain(|name| !found.contains(name));
            lost.join(", ")
        };
        assert_eq!(lost("gv_$sysstat", 2), "redo entries", "{odd}");
        assert_eq!(lost("gv_$system_event", 5), "log file sync", "{odd}");
        assert_eq!(lost("gv_$system_event", 6), "log file sync", "{odd}");
        assert_eq!(lost("gv_$sys_time_model", 2), "DB CPU, time_model.DB CPU", "{odd}");
        assert_eq!(lost("gv_$event_histogram", 2), "histogram.log file sync.8us", "{odd}");
        assert_eq!(lost("gv_$event_histogram", 3), "histogram.log file sync.8us", "{odd}");
        assert_eq!(lost("gv_$iostat_function", 2), "iostat.LGWR.small_read_reqs", "{odd}");
        // A row of no instance, which may be of this one.
        assert_eq!(lost("gv_$event_histogram", 0), "histogram.log file sync.8us", "{odd}");
        let buckets =
            |view, at| since_odd(view, at, odd).wait("log file sync").unwrap().buckets.len();
        assert_eq!((buckets("", 0), buckets("gv_$event_histogram", 3)), (1, 0), "{odd}");
    }
    let lost_of = |view, at| all.len() - names(&since_odd(view, at, "")).len();
    // Without a name it may be any of the view.
    assert_eq!(lost_of("gv_$iostat_function", 1), 8);
    assert_eq!(lost_of("gv_$sys_time_model", 1), 2);
    assert_eq!(lost_of("gv_$event_histogram", 1), 1);
    assert_eq!(lost_of("gv_$system_event", 2), 1);
}

#[test]
fn views_that_may_not_be_seen_leave_figures_unknown() {
    let scripted = loaded().fails("gv_$", 942, "table or view does not exist");
    let counters = engine(&scripted, &settings()).read_counters(true).unwrap();
    assert_eq!(counters.len(), 1);
    assert_eq!(counters[0].io, Default::default());
    let nameless = loaded().answers("gv_$sysstat", &[&["1", "user commits", "3"]]).fails(
        "gv_$instance",
        942,
        "table or view does not exist",
    );
    assert_eq!(
        engine(&nameless, &settings()).read_counters(true).unwrap()[0].endpoint,
        "instance 1"
    );
    // Any other error is reported: an instance with a new name would count as another instance.
    for view in ["gv_$sysstat", "gv_$instance"] {
        let dying = loaded().answers("gv_$sysstat", &[&["1", "user commits", "3"]]).fails(
            view,
            3113,
            "end-of-file on communication channel",
        );
        assert!(engine(&dying, &settings()).read_counters(true).is_err(), "{view}");
    }
}

/// Returns names and commits of the shown counters, with the sessions of each endpoint on these
/// instances.
fn reported_with_sessions_on(instances: &[&str]) -> Vec<(String, Option<u64>)> {
    let endpoints = Endpoints {
        service_base: Some("slob".to_owned()),
        service_max: Some(instances.len() as u32),
        ..Endpoints::default()
    };
    let scripted = loaded()
        .answers("gv_$sysstat", &[&["1", "user commits", "3"], &["2", "user commits", "40"]])
        .answers("gv_$instance", &[&["1", "orcl1", "n1"], &["2", "orcl2", "n2"]]);
    let engine = engine(&scripted, &Settings { endpoints, ..settings() });
    for (endpoint, instance) in (0..).zip(instances) {
        let _ = scripted.clone().answers("'INSTANCE'", &[&[instance]]);
        drop(engine.connect(Seat { endpoint, ..seat(endpoint + 1, 1) }).unwrap());
    }
    let shown = engine.read_counters(true).unwrap();
    shown.into_iter().map(|counters| (counters.endpoint, counters.io.commits)).collect()
}

#[test]
fn an_endpoint_is_the_instance_that_its_sessions_came_to() {
    let of = |name: &str, commits| (name.to_owned(), Some(commits));
    assert_eq!(reported_with_sessions_on(&["2"]), [of("orcl2@n2", 40)]);
    assert_eq!(reported_with_sessions_on(&["2", "1"]), [of("orcl2@n2", 40), of("orcl1@n1", 3)]);
    assert_eq!(reported_with_sessions_on(&["1", "1"]), [of("orcl1@n1", 3)]);
    assert_eq!(reported_with_sessions_on(&["1", ""]), [of("orcl1@n1, orcl2@n2", 43)]);
}

#[test]
fn settling_reports_missing_privileges() {
    let settle = |scripted: &ScriptedOracle| {
        engine(scripted, &settings()).settle(&Silent, &unlimited()).unwrap().done
    };
    assert_eq!(settle(&loaded()), ["log switch", "checkpoint"]);
    let other = loaded().fails("ALTER SYSTEM", 1031, "insufficient privileges").fails(
        "rdsadmin",
        6550,
        "PLS-00201: identifier must be declared",
    );
    let done = settle(&other);
    assert!(done[0].starts_with("no log switch (ORA-01031): the user may not;"), "{done:?}");
    let pluggable = loaded().fails("ALTER SYSTEM SWITCH", 65040, "operation not allowed").fails(
        "rdsadmin",
        6550,
        "PLS-00201: identifier must be declared",
    );
    let done = settle(&pluggable);
    assert!(done[0].contains("only the root container may"), "{done:?}");
    assert_eq!(done[1], "checkpoint");
}

#[test]
fn a_database_that_is_open_read_only_is_not_settled_and_no_error() {
    for code in [16000, 16456] {
        let standby = loaded().fails("ALTER SYSTEM", code, "open for read-only access");
        let settled = engine(&standby, &settings()).settle(&Silent, &unlimited()).unwrap();
        let both = ["no log switch: the database is open", "no checkpoint: the database is open"];
        for (done, begin) in settled.done.iter().zip(both) {
            assert!(done.starts_with(begin), "{done}");
        }
        assert_eq!(settled.done.len(), 2);
    }
}

#[test]
fn every_log_group_is_switched_and_on_every_instance_that_archives() {
    let settle = |logs: &[&str], mode: &str| {
        let scripted = loaded()
            .answers("FROM sys.v_$log", &[logs])
            .answers("FROM sys.v_$database", &[&[mode, "NO"]]);
        let done = engine(&scripted, &settings()).settle(&Silent, &unlimited()).unwrap().done;
        let sent = scripted.sent();
        let count = |what: &str| sent.iter().filter(|sql| sql.contains(what)).count();
        (done[0].clone(), count("SWITCH LOGFILE"), count("ARCHIVE LOG CURRENT"))
    };
    let one = settle(&["4", "1", "1", "1"], "ARCHIVELOG");
    assert_eq!(one, ("4 log switches".to_owned(), 4, 0));
    let cluster = settle(&["6", "1", "1", "2"], "ARCHIVELOG");
    assert_eq!(cluster, ("3 log switches of all instances".to_owned(), 0, 3));
    let (done, switched, archived) = settle(&["40", "1", "1", "2"], "NOARCHIVELOG");
    assert!(done.contains("of the connected instance alone"), "{done}");
    assert_eq!((switched, archived), (16, 0));
}

/// Scripts plans of the SELECT and the UPDATE of three schemas. Those of schemas 1 and 2 are as
/// meant; schema 3's table is read by `access`, and its UPDATE finds rows by `search`.
fn explains(scripted: ScriptedOracle, access: &str, search: &str) -> ScriptedOracle {
    let by = format!("BY {access}");
    let mut rows: Vec<[&str; 4]> = Vec::new();
    for (select, update, by, search) in [
        ("petal SELECT 1", "petal UPDATE 1", "BY INDEX ROWID", "RANGE SCAN"),
        ("petal SELECT 2", "petal UPDATE 2", "BY INDEX ROWID", "RANGE SCAN"),
        ("petal SELECT 3", "petal UPDATE 3", &by, search),
    ] {
        rows.push([select, "SELECT STATEMENT", "", ""]);
        rows.push([select, "TABLE ACCESS", by, "CF1"]);
        rows.push([select, "INDEX", "RANGE SCAN", "CF1_CUSTID"]);
        rows.push([update, "UPDATE STATEMENT", "", ""]);
        rows.push([update, "INDEX", search, "CF1_CUSTID"]);
    }
    let rows: Vec<&[&str]> = rows.iter().map(|row| &row[..]).collect();
    scripted.answers("FROM sys.plan_table$", &rows)
}

#[test]
fn the_plans_of_every_schema_are_checked_and_of_the_update() {
    let plan = |access, search, update_pct| {
        let settings = Settings { update_pct, ..settings() };
        let scripted = explains(loaded(), access, search);
        let (_, details) = engine(&scripted, &settings).describe(3, 4).unwrap();
        let sent = scripted.sent();
        let explained = sent.iter().filter(|line| line.contains("EXPLAIN PLAN")).count();
        (details.plan.map(|plan| (plan.as_meant, plan.text)), explained)
    };
    let wrong = |text: &str| Some((false, text.to_owned()));
    let batched = "SELECT 3: SELECT STATEMENT, TABLE ACCESS BY INDEX ROWID BATCHED CF1, INDEX RANGE SCAN CF1_CUSTID";
    assert_eq!(plan("INDEX ROWID BATCHED", "RANGE SCAN", 25), (wrong(batched), 6));
    let full = "UPDATE 3: UPDATE STATEMENT, INDEX FULL SCAN CF1_CUSTID";
    assert_eq!(plan("INDEX ROWID", "FULL SCAN", 25), (wrong(full), 6));
    // A user who only reads need not be able to explain an UPDATE.
    let (read, explained) = plan("INDEX ROWID", "FULL SCAN", 0);
    assert_eq!((read.map(|(as_meant, _)| as_meant), explained), (Some(true), 3));
}

#[test]
fn the_cache_that_counts_is_the_pool_of_the_tables_blocks() {
    let cache = |pool: &str| {
        let scripted = loaded().answers("FROM sys.all_tables", &[&[pool]]).answers(
            "FROM sys.gv_$buffer_pool",
            &[
                &["DEFAULT", "8192", "1000"],
                &["KEEP", "8192", "200"],
                &["RECYCLE", "8192", "0"],
                &["DEFAULT", "16384", "30"],
            ],
        );
        engine(&scripted, &settings()).describe(1, 1).unwrap().0.cache_bytes
    };
    assert_eq!((cache("DEFAULT"), cache("KEEP")), (Some(1000), Some(200)));
    assert_eq!(cache("RECYCLE"), Some(1000), "a pool without memory is the default one");
    let sixteen = loaded()
        .answers("FROM petal_meta", &blocks_of_16_kib())
        .answers("FROM sys.all_tables", &[&["KEEP"]])
        .answers("gv_$buffer_pool", &[&["DEFAULT", "8192", "1000"], &["DEFAULT", "16384", "30"]]);
    assert_eq!(engine(&sixteen, &settings()).describe(1, 1).unwrap().0.cache_bytes, Some(30));
    assert_eq!(engine(&loaded(), &settings()).describe(1, 1).unwrap().0.cache_bytes, None);
}

fn blocks_of_16_kib() -> [&'static [&'static str]; 7] {
    [
        &["1", "format", "1"],
        &["1", "rows", "2048"],
        &["1", "scan_rows", "48"],
        &["1", "block_size", "16384"],
        &["1", "width", "128"],
        &["1", "filler", "constant"],
        &["1", "tablespace", "IOPS"],
    ]
}

#[test]
fn the_version_is_the_full_one_where_the_view_has_it() {
    let version =
        |scripted: ScriptedOracle| engine(&scripted, &settings()).describe(1, 1).unwrap().0.version;
    let release = || loaded().answers("SELECT version FROM", &[&["19.0.0.0.0"]]);
    assert_eq!(version(release().answers("version_full", &[&["19.24.0.0.0"]])), "19.24.0.0.0");
    let old = release().fails("version_full", 904, "\"VERSION_FULL\": invalid identifier");
    assert_eq!(version(old), "19.0.0.0.0");
}

#[test]
fn hints_that_may_be_ignored_are_reported() {
    let reported = |scripted: ScriptedOracle| {
        let (_, details) = engine(&scripted, &settings()).describe(1, 1).unwrap();
        let hints = details.settings.into_iter().find(|(name, _)| name == "hints");
        hints.unwrap().1
    };
    let missing = loaded().fails("ALTER SESSION", 2248, "invalid option for ALTER SESSION");
    assert_eq!(reported(missing), "used: this version always does");
    let refused = reported(loaded().fails("ALTER SESSION", 1031, "insufficient privileges"));
    assert!(refused.starts_with("perhaps ignored: ") && refused.contains("ORA-01031"), "{refused}");
}

#[test]
fn a_pluggable_databases_background_writes_are_unknown_and_its_part_is_marked() {
    let counted = |container: &str| {
        let scripted = loaded()
            .answers("'CON_ID'", &[&["NAME", container]])
            .answers(
                "gv_$sysstat",
                &[
                    &["1", "physical reads", "400"],
                    &["1", "physical writes", "2"],
                    &["1", "physical write IO requests", "2"],
                    &["1", "physical write bytes", "16384"],
                    &["1", "redo writes", "1"],
                    &["1", "redo size", "99"],
                    &["1", "redo synch writes", "97"],
                    &["1", "background checkpoints completed", "0"],
                ],
            )
            .answers(
                "gv_$system_event",
                &[
                    &["1", "db file sequential read", "User I/O", "5", "9", "4", "6"],
                    &["1", "log file parallel write", "System I/O", "5", "9", "0", "0"],
                ],
            );
        let engine = engine(&scripted, &settings());
        let (_, details) = engine.describe(1, 1).unwrap();
        let is_told = details.settings.iter().any(|(name, _)| name == "background writes");
        (engine.read_counters(true).unwrap().remove(0), is_told)
    };
    for whole in ["0", "1"] {
        let (counters, is_told) = counted(whole);
        assert_eq!((counters.io.physical_write_blocks, is_told), (Some(2), false));
        assert!(counters.wait("log file parallel write").is_some());
        assert_eq!(counters.raw.get("checkpoints"), Some(&0));
    }
    let (counters, is_told) = counted("3");
    let io = &counters.io;
    let writes = [io.physical_write_blocks, io.physical_write_requests, io.physical_write_bytes];
    assert_eq!((writes, is_told), ([None; 3], true));
    assert!(counters.wait("log file parallel write").is_none());
    for name in ["checkpoints", "physical writes", "redo writes"] {
        assert_eq!(counters.raw.get(name), None, "{name}");
    }
    // The container's part is kept under that name, as its AWR report prints it.
    assert_eq!(counters.raw.get("container: physical writes"), Some(&2));
    assert_eq!(counters.raw.get("container: redo writes"), Some(&1));
    // The sessions' own work is counted in their container.
    assert_eq!((io.physical_read_blocks, io.redo_bytes), (Some(400), Some(99)));
    assert_eq!(io.log_syncs, Some(97));
    assert!(counters.wait("db file sequential read").is_some());
}

#[test]
fn the_description_names_commits_files_and_redo() {
    let scripted = loaded()
        .answers("v_$parameter", &[&["filesystemio_options", "SETALL"]])
        .answers("FROM sys.gv_$buffer_pool", &[&["DEFAULT", "8192", "1073741824"]])
        .answers("dba_data_files", &[&["+DATA/x/1.dbf"], &["+DATA/x/2.dbf"]])
        .answers("v_$asm_disk", &[&["/dev/sdq"]])
        .answers("v_$log", &[&["3", "52428800", "52428800", "1"]])
        .answers("v_$database", &[&["ARCHIVELOG", "NO"]]);
    let scripted = explains(scripted, "INDEX ROWID", "RANGE SCAN");
    let (target, details) = engine(&scripted, &settings()).describe(3, 4).unwrap();
    assert_eq!((target.version.as_str(), target.cache_bytes), ("19.0.0.0.0", Some(1 << 30)));
    assert!(!target.url.contains("s3cret"));
    assert!(details.sync_per_commit);
    let plan = details.plan.unwrap();
    assert!(plan.as_meant && plan.text.starts_with("SELECT 1: SELECT STATEMENT, "), "{plan:?}");
    assert_eq!(details.durability.map(|d| d.durable), Some(true));
    let shown: Vec<String> =
        details.settings.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    for expected in [
        "filesystemio_options: SETALL",
        "data files: 2 in ASM disk group +DATA: devices /dev/sdq",
        "redo: 3 redo log groups, the smallest of 50.0 MiB",
        "redo: the database archives its redo",
        "buffer pool: DEFAULT",
        "hints: used: each session sets",
        "commit: COMMIT WRITE IMMEDIATE WAIT (COMMIT_WAIT=TRUE)",
    ] {
        assert!(shown.iter().any(|line| line.starts_with(expected)), "{expected} in {shown:#?}");
    }
    let not_waiting = Settings { commit_wait: false, ..settings() };
    let (_, details) = engine(&scripted, &not_waiting).describe(1, 1).unwrap();
    assert_eq!(details.durability.map(|d| d.durable), Some(false));
}

#[test]
fn limits_of_the_resource_manager_and_the_page_cache_are_said_before_a_run() {
    let notable = |parameters: &[&[&str]], file: &str| -> Vec<String> {
        let scripted =
            loaded().answers("v_$parameter", parameters).answers("dba_data_files", &[&[file]]);
        let (_, details) = engine(&scripted, &settings()).describe(1, 1).unwrap();
        details.notable_settings.into_iter().map(|setting| setting.effect).collect()
    };
    let said = notable(
        &[&["max_iops", "3000"], &["max_mbps", "0"], &["filesystemio_options", "none"]],
        "/u01/iops.dbf",
    );
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("max_iops=3000: the resource manager holds"), "{said:?}");
    assert!(said[1].starts_with("filesystemio_options=none: the operating system's"), "{said:?}");
    let said = notable(
        &[
            &["resource_manager_plan", "DAY"],
            &["cpu_count", "4"],
            &["filesystemio_options", "none"],
        ],
        "+DATA/iops.dbf",
    );
    assert_eq!(said.len(), 1, "no page cache in ASM: {said:?}");
    assert!(said[0].contains("and cpu_count=4 then limits the processors"), "{said:?}");
    let usual = [&["filesystemio_options", "SETALL"][..], &["max_iops", "0"]];
    assert_eq!(notable(&usual, "/u01/iops.dbf"), [""; 0]);
}

#[test]
fn a_view_that_fails_at_the_start_costs_its_figure_and_not_the_run() {
    for code in [12850, 12801, 942] {
        let scripted = loaded().answers("gv_$sysstat", &[&["1", "user commits", "7"]]).fails(
            "gv_$system_event",
            code,
            "not all slaves could be allocated",
        );
        let engine = engine(&scripted, &settings());
        let counters = engine.read_counters(true).unwrap();
        assert_eq!((counters[0].io.commits, counters[0].waits.len()), (Some(7), 0), "{code}");
        let scripted = loaded().fails("gv_$sysstat", code, "not all slaves could be allocated");
        let counters = super::engine(&scripted, &settings()).read_counters(true).unwrap();
        assert_eq!(counters[0].io.commits, None, "{code}");
    }
    // A connection that ends is a gap.
    let scripted = loaded().fails("gv_$sysstat", 3113, "end-of-file");
    assert!(engine(&scripted, &settings()).read_counters(true).is_err());
}

#[test]
fn whether_a_clients_plain_commit_waits_is_the_instances_to_say() {
    let durable = |scripted: ScriptedOracle| {
        let loop_side = Some(LoopSide::Client);
        let client = Settings { commit_wait: false, loop_side, ..settings() };
        let (_, details) = engine(&scripted, &client).describe(1, 1).unwrap();
        details.durability.map(|durability| (durability.durable, durability.setting))
    };
    let with = |name: &str, value: &str| loaded().answers("v_$parameter", &[&[name, value]]);
    let (waits, words) = durable(with("commit_wait", "")).unwrap();
    assert!(waits && words.starts_with("a client's COMMIT"), "{words}");
    let shown = |words: &str| Some((false, words.to_owned()));
    assert_eq!(durable(with("commit_wait", "NOWAIT")), shown("commit_wait=NOWAIT"));
    assert_eq!(durable(with("commit_write", "BATCH,NOWAIT")), shown("commit_write=BATCH,NOWAIT"));
    let unseen = loaded().fails("v_$parameter", 942, "table or view does not exist");
    assert_eq!(durable(unseen), None);
}

#[test]
fn without_alter_system_the_procedures_of_amazon_rds_are_called() {
    let settled = |scripted: &ScriptedOracle| {
        engine(scripted, &settings()).settle(&Silent, &unlimited()).unwrap().done
    };
    let rds = loaded().fails("ALTER SYSTEM", 1031, "insufficient privileges");
    assert_eq!(settled(&rds), ["log switch (rdsadmin)", "checkpoint (rdsadmin)"]);
}

#[test]
fn a_sessions_words_on_hints_are_read_back() {
    let hints = |value: &[&[&str]]| {
        let scripted = loaded().answers("'optimizer_ignore_hints', 'optimizer_ignore_par", value);
        let (_, details) = engine(&scripted, &settings()).describe(3, 3).unwrap();
        let found = details.settings.into_iter().find(|(name, _)| name == "hints");
        found.unwrap().1
    };
    let both =
        |value| [["optimizer_ignore_hints", value], ["optimizer_ignore_parallel_hints", value]];
    let read = |value: &'static str| {
        let both = both(value);
        hints(&[&both[0], &both[1]])
    };
    assert!(read("FALSE").ends_with("optimizer_ignore_hints=FALSE, as read back"));
    assert!(read("TRUE").starts_with("ignored: optimizer_ignore_hints is TRUE"));
    assert!(hints(&[]).contains("V$PARAMETER is not visible"));
}

#[test]
fn a_size_that_the_database_does_not_say_is_unknown_with_the_reason() {
    let sizes = |rows: &[&[&str]]| {
        let others = [["PETAL2_CF1", "PETAL2_CF1_CUSTID"], ["PETAL3_CF1", "PETAL3_CF1_CUSTID"]];
        let others: Vec<[&str; 2]> = others.concat().into_iter().map(|name| [name, "5"]).collect();
        let others = others.iter().map(|row| &row[..]);
        let rows: Vec<&[&str]> = rows.iter().copied().chain(others).collect();
        let scripted = loaded().answers("FROM sys.user_segments", &rows);
        let engine = engine(&scripted, &settings());
        let first = engine.loaded().unwrap().remove(0);
        let (_, details) = engine.describe(1, 1).unwrap();
        let reason = details.settings.into_iter().find(|(name, _)| name == "unknown sizes");
        let reason = reason.map(|(_, reason)| reason);
        (first.bytes, first.index_bytes, engine.data_bytes().unwrap(), reason)
    };
    let table: &[&str] = &["PETAL1_CF1", "17000000"];
    let index: &[&str] = &["PETAL1_CF1_CUSTID", "70000"];
    let all = (Some(17_000_000), Some(70_000), Some(17_070_020), None);
    assert_eq!(sizes(&[table, index]), all);
    let reason = Some("USER_SEGMENTS has no bytes of petal1_cf1 or its index".to_owned());
    assert_eq!(sizes(&[table]), (Some(17_000_000), None, None, reason.clone()));
    for odd in ["", "-1", "18446744073709551615"] {
        let odd = &["PETAL1_CF1", odd];
        assert_eq!(sizes(&[odd, index]), (None, Some(70_000), None, reason.clone()));
    }
}

#[test]
fn settings_that_shape_a_result_are_notable() {
    let notable = |scripted: ScriptedOracle| {
        let (_, details) = engine(&scripted, &settings()).describe(1, 1).unwrap();
        let effects = details.notable_settings.into_iter();
        effects.map(|setting| (setting.of_updates, setting.effect)).collect::<Vec<_>>()
    };
    assert_eq!(notable(loaded()), []);
    let plan = ["resource_manager_plan", "SCHEDULER[0x4ED6]:DEFAULT_MAINTENANCE_PLAN"];
    let scripted = loaded()
        .answers("'db_block_size', 'sga_target'", &[&plan])
        .answers("flashback_on", &[&["YES"]])
        .answers("SELECT encrypted", &[&["YES"]])
        .answers("FROM sys.v_$archive_dest", &[&["2", "SYNCHRONOUS"]]);
    let found = notable(scripted);
    let words = ["resource manager", "flashback", "encrypted", "log_archive_dest_2"];
    assert_eq!(found.len(), words.len(), "{found:?}");
    for word in words {
        assert!(found.iter().any(|(_, effect)| effect.contains(word)), "{word}: {found:?}");
    }
    assert_eq!(found.iter().filter(|(of_updates, _)| *of_updates).count(), 2);
}

#[test]
fn reads_on_exadata_are_those_of_the_cells() {
    let read = |scripted: ScriptedOracle| {
        engine(&scripted, &settings()).describe(1, 1).unwrap().1.io_events.read
    };
    assert_eq!(read(loaded()), "db file sequential read");
    let exadata = loaded().answers("'cell single block physical read%' AND", &[&["3"]]);
    assert_eq!(read(exadata), "cell single block physical read");
}

#[test]
fn sessions_of_all_instances_count_and_not_per_endpoint() {
    let scripted = loaded().answers("FROM sys.gv_$resource_limit", &[&["700"]]);
    let endpoints =
        Endpoints { service_base: Some("s".into()), service_max: Some(4), ..Endpoints::default() };
    let engine = engine(&scripted, &Settings { endpoints, ..settings() });
    assert_eq!((engine.endpoints(), engine.sessions_max().unwrap()), (4, Some(695)));
}

/// Locations of an Exadata block are one event, as in the waits; buckets of two snapshots are
/// subtracted.
#[test]
fn waits_by_powers_of_two_are_those_between_two_snapshots() {
    let cell = "cell single block physical read";
    let places = [cell.to_owned(), format!("{cell}: flash cache")];
    let snapshot = |counts: [&str; 3]| {
        let bucket = |event: &str, upper: &str, count: &str| {
            ["1", event, upper, count].map(str::to_owned).to_vec()
        };
        let rows = [
            bucket(&places[0], "256", counts[0]),
            bucket(&places[1], "256", counts[1]),
            bucket(&places[1], "512", counts[2]),
            bucket("never waited for", "1", "7"),
        ];
        let rows: Vec<Vec<&str>> =
            rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
        let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
        let events: [&[&str]; 2] = [
            &["1", &places[0], "User I/O", "9", "90", "9", "90"],
            &["1", &places[1], "User I/O", "9", "90", "9", "90"],
        ];
        let scripted = loaded()
            .answers("gv_$sysstat", &[&["1", "user commits", "3"]])
            .answers("gv_$system_event", &events)
            .answers("gv_$event_histogram", &rows);
        engine(&scripted, &settings()).read_counters(true).unwrap().remove(0)
    };
    let (then, now) = (snapshot(["5", "10", "1"]), snapshot(["6", "40", "4"]));
    assert_eq!(now.wait(cell).unwrap().buckets, [(256, 46), (512, 4)].into());
    let since = now.since(&then);
    assert_eq!(since.wait(cell).unwrap().buckets, [(256, 31), (512, 3)].into());
}
