//! Limits of a run: processors and petal itself.

use super::super::not_judged;
use super::{gains, ids, message, seen};
use petal_host::os::{CpuShare, GroupLimit};
use petal_record::{Run, Severity, fixture};

#[test]
fn processors() {
    let run = gains(&["processor-bound", "steal"], |run| {
        run.summary.cpu =
            Some(CpuShare { user: 60.0, system: 30.0, iowait: 2.0, idle: 1.0, steal: 7.0 });
    });
    assert!(message(&run, "processor-bound").contains("97.0 % busy"));
    // Full of others' work, it is for them to go; one finding says it.
    let run = gains(&["processor-bound"], |run| {
        // Reads waited above the device.
        run.details.device.as_mut().unwrap().read_ms = 0;
        run.summary.cpu = Some(CpuShare { user: 99.0, idle: 1.0, ..CpuShare::default() });
        let seen = seen(run);
        let ticks = petal_host::os::CpuTicks::from([198, 0, 0, 2, 0, 0, 0, 0]);
        seen.whole.sum.cpus.host = Some(ticks);
        let seconds = seen.whole.sum.seconds;
        seen.whole.sum.counts.petal_cpu_us = Some((seconds * 0.34e6) as u64);
    });
    let reported = message(&run, "processor-bound");
    assert!(
        reported.contains("they used 1.64 of the 2, petal and the database 0.34"),
        "{reported}"
    );
    assert_eq!(crate::headline(&run).limited_by.words, "processors: others used 1.6 of 2");
    // Waiting for the device is not being busy.
    gains(&[], |run| {
        run.summary.cpu =
            Some(CpuShare { user: 4.0, system: 1.0, iowait: 95.0, idle: 0.0, steal: 0.0 });
    });
    gains(&["generator-bound"], |run| {
        run.summary.engine = "postgres".into();
        run.details.target.in_process = false;
        run.details.target.local = false;
        run.summary.petal_cpu_s = Some(run.summary.elapsed_s * 1.9);
    });
}

#[test]
fn busy_processors_are_the_purpose_of_a_test_of_logical_reads() {
    let severity = |updates: u64, others: bool| {
        let mut run = fixture::mixed_run();
        run.summary.cpu = Some(CpuShare { user: 99.0, idle: 1.0, ..CpuShare::default() });
        run.summary.target.cache_bytes = Some(run.summary.active_bytes);
        run.summary.ops.update = updates;
        if others {
            let seen = seen(&mut run);
            let ticks = petal_host::os::CpuTicks::from([198, 0, 0, 2, 0, 0, 0, 0]);
            seen.whole.sum.cpus.host = Some(ticks);
            seen.whole.sum.counts.petal_cpu_us = Some((seen.whole.sum.seconds * 0.34e6) as u64);
        }
        let found = crate::judge(&run);
        found.into_iter().find(|found| found.id == "processor-bound").unwrap().severity
    };
    assert_eq!(severity(0, false), Severity::Info);
    // A test of commits should wait for its log, and others' work is never intended.
    assert_eq!(severity(9, false), Severity::Warning);
    assert_eq!(severity(0, true), Severity::Warning);
}

#[test]
fn a_remote_server_is_not_seen_and_not_judged() {
    let mut run = fixture::mixed_run();
    run.summary.engine = "postgres".into();
    run.details.target.local = false;
    run.summary.cpu =
        Some(CpuShare { user: 99.0, system: 1.0, iowait: 0.0, idle: 0.0, steal: 0.0 });
    assert!(!ids(&run).contains(&"processor-bound".to_owned()));
    let unseen: Vec<&str> = not_judged(&run).iter().map(|judged| judged.id).collect();
    for id in ["processor-bound", "cached-by-os", "other-load", "fresh-device"] {
        assert!(unseen.contains(&id), "{id} in {unseen:?}");
    }
}

#[test]
fn a_control_group_that_grants_too_little_is_the_limit() {
    let with = |quota: f64, used_us: u64, periods: (u64, u64)| {
        move |run: &mut Run| {
            let seen = seen(run);
            seen.group_quota = Some(quota);
            let counts = &mut seen.whole.sum.counts;
            counts.group_used_us = Some(used_us);
            (counts.group_throttled_periods, counts.group_periods) =
                (Some(periods.0), Some(periods.1));
        }
    };
    // 60 s of 1.5 processors are 90 s of processor time.
    let run = gains(&["processor-bound"], with(1.5, 89_000_000, (10, 600)));
    let reported = message(&run, "processor-bound");
    assert!(reported.contains("granted 1.50 processors: it used 99 %"), "{reported}");
    gains(&["processor-bound"], with(1.5, 60_000_000, (400, 600)));
    gains(&[], with(1.5, 80_000_000, (10, 600)));
    let limited_by = crate::verdict::headline(&run).limited_by.words;
    assert_eq!(limited_by, "processors (the control group grants 1.50)");
}

#[test]
fn petals_own_control_group_is_petals_limit_and_not_the_databases() {
    let with = |file: &'static str, local: bool| {
        move |run: &mut Run| {
            run.summary.engine = "postgres".into();
            (run.details.target.in_process, run.details.target.local) = (false, local);
            run.summary.petal_cpu_s = Some(15.0);
            let seen = seen(run);
            seen.petal_group = Some(GroupLimit { processors: 0.5, file: file.into() });
            seen.group_file = local.then(|| "/sys/fs/cgroup/db/cpu.max".into());
            seen.group_quota = local.then_some(1.5);
            let counts = &mut seen.whole.sum.counts;
            (counts.petal_group_throttled_periods, counts.petal_group_periods) =
                (Some(400), Some(600));
            (counts.group_throttled_periods, counts.group_periods) = (Some(0), Some(600));
        }
    };
    for local in [true, false] {
        let mut run = fixture::mixed_run();
        with("/sys/fs/cgroup/me/cpu.max", local)(&mut run);
        let found = ids(&run);
        assert!(found.contains(&"generator-bound".to_owned()), "{local}: {found:?}");
        assert!(!found.contains(&"processor-bound".to_owned()), "{local}: {found:?}");
    }
    // In the database's own group both were made to wait, and that is reported of the database.
    let mut run = fixture::mixed_run();
    with("/sys/fs/cgroup/db/cpu.max", true)(&mut run);
    assert!(!ids(&run).contains(&"generator-bound".to_owned()));
}

#[test]
fn one_full_processor_is_the_limit_where_the_log_writer_runs_on_it() {
    let full = |run: &mut Run, on: u32| {
        let seen = seen(run);
        seen.whole.sum.busiest_cpu = Some((1, 98.0));
        for second in &mut seen.seconds {
            second.interval.log_writer_on = vec![(on, 1.0)];
        }
    };
    let run = gains(&["processor-bound"], |run| full(run, 1));
    assert!(message(&run, "processor-bound").contains("log writer ran on it 100 %"));
    gains(&[], |run| full(run, 0));
    gains(&[], |run| {
        full(run, 1);
        seen(run).whole.sum.busiest_cpu = Some((1, 90.0));
    });
}

#[test]
fn a_file_of_the_remote_host_is_used_and_named() {
    let run = gains(&["processor-bound", "steal"], |run| {
        run.details.target.local = false;
        run.details.target.in_process = false;
        run.details.server_os = run
            .details
            .os
            .take()
            .map(|seen| petal_record::os::HostSeen { file: Some("dbhost.ndjson".into()), ..seen });
        run.summary.cpu =
            Some(CpuShare { user: 60.0, system: 30.0, iowait: 2.0, idle: 1.0, steal: 7.0 });
    });
    let reported = message(&run, "processor-bound");
    assert!(reported.contains("97.0 % busy (from dbhost.ndjson, host dbhost)"), "{reported}");
    assert!(message(&run, "steal").contains("of the database's host"));
}
