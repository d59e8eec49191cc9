use super::*;
use crate::{conclude, headline};
use petal_host::cgroup::{IoLimit, IoLimitKind};
use petal_host::host::HostFacts;
use petal_host::os::threads::ThreadState;
use petal_host::os::{CpuShare, CpuTicks};
use petal_record::counters::WaitSource;
use petal_record::driver_hosts::HostShare;
use petal_record::{WaitRow, fixture};
use petal_workload::share::Share;

/// Makes the device's own time this share of the reads' waiting.
fn at_the_device(run: &mut Run, share: f64) {
    let waits = run.summary.waits.iter().filter(|wait| wait.class == WaitClass::UserIo);
    let waited_us: f64 = waits.map(|wait| wait.time_us).sum();
    run.details.device.as_mut().unwrap().read_ms = (waited_us * share / 1e3) as u64;
}

#[test]
fn reads_that_wait_above_the_device_do_not_wait_for_it() {
    let limited = |share: f64, busy: f64| {
        let mut run = fixture::mixed_run();
        at_the_device(&mut run, share);
        run.summary.cpu = Some(CpuShare { user: busy, idle: 100.0 - busy, ..CpuShare::default() });
        conclude(&mut run);
        let limited = run.summary.limited_by.unwrap();
        (limited.by, limited.words)
    };
    let (by, words) = limited(0.3, 90.0);
    assert_eq!(by, Limiter::Processors);
    assert_eq!(words, "processors (90 % busy; reads waited 70 % of their time above the device)");
    let (by, words) = limited(0.3, 40.0);
    assert_eq!(by, Limiter::Reads);
    assert!(words.ends_with("of DB time, 70 % of it above the device)"), "{words}");
    let (by, words) = limited(0.9, 90.0);
    assert_eq!((by, words.as_str()), (Limiter::Reads, "waiting for reads (63 % of DB time)"));
}

/// Other programs' slow reads at the device are not part of the database's, if the kernel timed each.
#[test]
fn reads_of_others_do_not_hide_a_wait_above_the_device() {
    let mut run = fixture::mixed_run();
    at_the_device(&mut run, 0.9);
    run.summary.cpu = Some(CpuShare { user: 90.0, idle: 10.0, ..CpuShare::default() });
    let mut limited = |own_us: u64| {
        fixture::time_requests(&mut run);
        let sum = &mut run.details.os.as_mut().unwrap().whole.sum;
        for times in sum.requests.iter_mut().flat_map(|all| &mut all.times) {
            let is_own = times.of_database == Some(true);
            let us = if is_own { own_us } else { 500 };
            times.total.total_ns = times.total.count() * us * 1000;
        }
        limited_by(&run).words
    };
    // The database waited for 84.3 us a read.
    assert_eq!(limited(80), "waiting for reads (63 % of DB time)");
    let words = limited(25);
    assert!(words.starts_with("processors (90 % busy; reads waited 7"), "{words}");
}

#[test]
fn full_processors_of_others_do_not_limit_reads_that_wait_at_the_device() {
    let limited = |share: f64| {
        let mut run = fixture::mixed_run();
        at_the_device(&mut run, share);
        run.summary.cpu = Some(CpuShare { user: 98.0, idle: 2.0, ..CpuShare::default() });
        let cpus = &mut run.details.os.as_mut().unwrap().whole.sum.cpus;
        cpus.host = Some(CpuTicks::from([196, 0, 0, 4, 0, 0, 0, 0]));
        limited_by(&run).by
    };
    // Reads take 63 % of DB time.
    assert_eq!(limited(0.9), Limiter::Reads);
    assert_eq!(limited(0.7), Limiter::OthersWork);
}

#[test]
fn full_processors_do_not_limit_sessions_that_sleep() {
    let mut run = fixture::mixed_run();
    others_use(&mut run, 0.1, 98.0);
    assert_eq!(limited_by(&run).by, Limiter::Processors);
    let longest = run.summary.waits.iter_mut().max_by(|a, b| a.time_us.total_cmp(&b.time_us));
    longest.unwrap().class = WaitClass::Other;
    assert_eq!(limited_by(&run).by, Limiter::OtherWaits);
}

/// Makes other programs use so many of the two processors, which are busy to this percentage.
fn others_use(run: &mut Run, processors: f64, busy: f64) {
    run.summary.cpu = Some(CpuShare { user: busy, idle: 100.0 - busy, ..CpuShare::default() });
    let sum = &mut run.details.os.as_mut().unwrap().whole.sum;
    let user = busy.round() as u64 * 2;
    sum.cpus.host = Some(CpuTicks::from([user, 0, 0, 200 - user, 0, 0, 0, 0]));
    let own = busy / 100.0 * 2.0 - processors;
    sum.counts.petal_cpu_us = Some((sum.seconds * own * 1e6) as u64);
}

/// The verdict of a judged run in words.
fn verdict(run: &Run) -> &str {
    &run.summary.headline.as_ref().unwrap().verdict.words
}

#[test]
fn others_work_is_in_the_words_of_each_limit_that_is_of_processors() {
    let limited = |run: &mut Run| {
        run.summary.limited_by = None;
        conclude(run);
        let found = run.summary.findings.iter().find(|it| it.id == "processor-bound");
        let advice = found.map_or_else(String::new, |it| it.advice.clone());
        (run.summary.limited_by.clone().unwrap(), advice)
    };
    let mut run = fixture::mixed_run();
    // Reads waited above the device.
    at_the_device(&mut run, 0.1);
    for (processors, by) in [(0.9, Limiter::Processors), (1.2, Limiter::OthersWork)] {
        others_use(&mut run, processors, 98.0);
        let (limit, advice) = limited(&mut run);
        let words = format!("processors: others used {processors:.1} of 2");
        assert_eq!((limit.by, limit.words), (by, words));
        assert_eq!(
            verdict(&run),
            "valid test of processors that others use, too, not of the storage"
        );
        assert!(advice.starts_with("Repeat on a quiet host"), "{advice}");
    }
    others_use(&mut run, 0.1, 98.0);
    let (limit, advice) = limited(&mut run);
    assert_eq!(limit.words, "processors");
    assert_eq!(verdict(&run), "valid test of the processors");
    assert!(advice.contains("more or faster processors"), "{advice}");
    others_use(&mut run, 0.7, 90.0);
    let words = limited(&mut run).0.words;
    assert!(words.ends_with("above the device; others used 0.7 of 2 processors)"), "{words}");
    // A quota of the own group is not others' work.
    let mut held = run.clone();
    let seen = held.details.os.as_mut().unwrap();
    seen.group_quota = Some(0.5);
    let counts = &mut seen.whole.sum.counts;
    (counts.group_throttled_periods, counts.group_periods) = (Some(200), Some(600));
    let words = limited(&mut held).0.words;
    assert_eq!(verdict(&held), "valid test of the processors");
    let end = "above the device; petal's control group grants 0.50 processors)";
    assert!(words.ends_with(end), "{words}");
    // A quota that is used up is the limit, however busy others keep the host.
    others_use(&mut held, 1.2, 98.0);
    let seconds = held.details.os.as_ref().unwrap().whole.sum.seconds;
    let counts = &mut held.details.os.as_mut().unwrap().whole.sum.counts;
    counts.group_used_us = Some((seconds * 0.5e6) as u64);
    let limit = limited(&mut held).0;
    let words = "processors (the control group grants 0.50)";
    assert_eq!((limit.by, limit.words.as_str()), (Limiter::Processors, words));
    assert_eq!(verdict(&held), "valid test of the processors");
    let mut timed = fixture::mixed_run();
    fixture::time_threads(&mut timed, 1.0);
    others_use(&mut timed, 0.7, 90.0);
    let all = timed.details.os.as_mut().unwrap().whole.sum.threads.as_mut().unwrap();
    all.times.iter_mut().for_each(|it| it.state = ThreadState::Queue);
    let words = limited(&mut timed).0.words;
    let end = "of their time for one; others used 0.7 of 2 processors)";
    assert!(words.starts_with("processors (operations waited ") && words.ends_with(end), "{words}");
}

#[test]
fn resources_whose_shares_are_level_are_both_named() {
    // The array or the host: a device of 200 us, and others at work on the processors.
    let mut run = fixture::mixed_run();
    others_use(&mut run, 0.7, 90.0);
    at_the_device(&mut run, 0.58);
    let limit = limited_by(&run);
    assert_eq!((limit.by, limit.shared_with), (Limiter::Reads, Some(Limiter::Processors)));
    let end = "reads at the device and processors above it (37 % and 27 % of DB time; others used \
               0.7 of 2 processors)";
    assert_eq!(limit.words, end);
    // The kernel's parts, and the database's waits.
    fixture::time_threads(&mut run, 1.0);
    let all = run.details.os.as_mut().unwrap().whole.sum.threads.as_mut().unwrap();
    let mut times = all.times.iter_mut();
    times.find(|it| it.state == ThreadState::ReadProcessor).unwrap().state = ThreadState::Processor;
    let limit = by_residence(&run).unwrap();
    assert_eq!((limit.by, limit.shared_with), (Limiter::Processors, Some(Limiter::Reads)));
    let words = "processors and reads (50 % and 50 % of an operation's time; others used 0.7 of 2 \
                 processors)";
    assert_eq!(limit.words, words);
    let mut waits = fixture::mixed_run();
    waits.details.db_time_s = 100.0;
    for (commit, shared) in [(44.0, Some(Limiter::Log)), (20.0, None)] {
        waits_of(&mut waits, &[(WaitClass::UserIo, 45.0), (WaitClass::Commit, commit)]);
        waits.summary.petal_cpu_s = Some(5.0);
        let limit = limited_by(&waits);
        assert_eq!(limit.shared_with, shared, "{}", limit.words);
        let both = "reads and log writes and syncs (45 % and 44 % of DB time)";
        assert_eq!(limit.words == both, shared.is_some(), "{}", limit.words);
    }
}

#[test]
fn a_waterfall_decides_where_the_time_goes() {
    let mut run = fixture::mixed_run();
    fixture::time_threads(&mut run, 1.0);
    let limited = |run: &mut Run| {
        conclude(run);
        run.summary.limited_by.clone().unwrap()
    };
    let by_parts = limited(&mut run);
    assert_eq!(by_parts.by, Limiter::Reads, "{by_parts:?}");
    assert!(by_parts.words.contains("of an operation's time"), "{}", by_parts.words);
    let shares = by_parts.evidence["time_shares"].as_object().unwrap();
    let together: f64 = shares.values().filter_map(Value::as_f64).sum();
    assert!((together - 1.0).abs() < 1e-6, "{shares:?}");
    let threads = |run: &mut Run, to: ThreadState| {
        let all = run.details.os.as_mut().unwrap().whole.sum.threads.as_mut().unwrap();
        let of_reads = [ThreadState::ReadWait, ThreadState::ReadProcessor];
        let reads = all.times.iter_mut().filter(|it| of_reads.contains(&it.state));
        reads.for_each(|it| it.state = to);
    };
    for (state, by) in [
        (ThreadState::Write, Limiter::Log),
        // The database's clock has most of it in reads: another thread makes them.
        (ThreadState::Other, Limiter::Reads),
        (ThreadState::Processor, Limiter::Processors),
    ] {
        let mut other = run.clone();
        threads(&mut other, state);
        assert_eq!(limited(&mut other).by, by, "{:?}", other.summary.limited_by);
    }
    let mut unnamed = run.clone();
    threads(&mut unnamed, ThreadState::Other);
    unnamed.summary.waits.clear();
    let words = "waits that the database does not name (62 % of an operation's time)";
    assert_eq!(limited(&mut unnamed).words, words);
    // The parts do not add up: the waits decide.
    fixture::time_threads(&mut run, 0.8);
    assert!(limited(&mut run).words.ends_with("% of DB time)"));
    // The use of processors and of the device is that of this run's threads and requests.
    let used = |name: &str| {
        let found = run.summary.resources.iter().find(|of| of.resource == name);
        found.unwrap_or_else(|| panic!("no {name}")).clone()
    };
    let (own, all) = (used("processors, by operations"), used("processors"));
    assert_eq!(own.capacity, all.capacity);
    assert_eq!(own.demand_us.is_some(), own.capacity.is_some());
    assert!(own.layer.contains("threads"), "{own:?}");
    assert!(used("device").layer.contains("service alone"));
}

#[test]
fn the_way_to_the_server_and_petal_itself_limit() {
    let mut run = fixture::mixed_run();
    run.details.target.in_process = false;
    run.summary.waits.clear();
    run.summary.settings.insert("loop".into(), "client".into());
    run.details.os = None;
    run.summary.petal_cpu_s = Some(0.0);
    let mean_us = run.details.db_time_s / run.summary.ops.total as f64 * 1e6;
    let limited = |run: &mut Run, share: Option<f64>| {
        run.details.server_round_trip_us = share.map(|share| mean_us * share);
        limited_by(run)
    };
    let network = limited(&mut run, Some(0.9));
    assert_eq!(network.by, Limiter::Network);
    assert!(network.words.starts_with("network (at least 90 % of DB time;"), "{network:?}");
    for share in [Some(0.4), None] {
        assert_eq!(limited(&mut run, share).by, Limiter::NotDetermined);
    }
    // On this host an answer may be processor time alone.
    let mut near = run.clone();
    near.summary.petal_cpu_s = Some(run.details.db_time_s * 0.6);
    assert_eq!(limited(&mut near, Some(0.9)).by, Limiter::NotDetermined);
    // A server that loops itself makes no round trip for an operation.
    let mut inside = run.clone();
    inside.summary.settings.insert("loop".into(), "server".into());
    assert_eq!(limited(&mut inside, Some(0.9)).by, Limiter::NotDetermined);
    // Petal on another host, whose processors are full.
    run.details.target.local = false;
    run.details.host = Some(HostFacts { cpus: 2, ..HostFacts::default() });
    run.summary.petal_cpu_s = Some(run.summary.elapsed_s * 1.9);
    assert_eq!(limited(&mut run, Some(0.9)).by, Limiter::Petal);
    // On the server's host full processors are named before petal, as others' if most is theirs.
    run.details.target.local = true;
    assert_ne!(limited(&mut run, Some(0.9)).by, Limiter::Petal);
}

#[test]
fn the_limit_is_named() {
    let limited = |change: &dyn Fn(&mut Run)| {
        let mut run = fixture::mixed_run();
        change(&mut run);
        headline(&run).limited_by.words
    };
    let all = |class: WaitClass| {
        move |run: &mut Run| run.summary.waits.iter_mut().for_each(|wait| wait.class = class)
    };
    assert!(limited(&all(WaitClass::Commit)).starts_with("log writes and syncs ("));
    assert!(limited(&all(WaitClass::Concurrency)).starts_with("contention"));
    // Untimed reads are in no wait.
    let untimed = |run: &mut Run| {
        all(WaitClass::Network)(run);
        run.details.db_time_s *= 4.0;
        run.details.target.io_untimed = Some("set it".to_owned());
    };
    assert_eq!(limited(&untimed), "not determined (the database does not time its reads)");
    let untimed_at_the_device = |run: &mut Run| {
        at_the_device(run, 0.9);
        untimed(run);
        run.details.db_time_s /= 4.0;
        run.summary.waits.iter_mut().for_each(|wait| wait.time_us /= 4.0);
    };
    assert_eq!(limited(&untimed_at_the_device), "reads at the device (57 % of DB time)");
    let share = |run: &mut Run| {
        run.details.target.in_process = false;
        let share = Share { number: 2, of: 4 };
        run.summary.share = Some(HostShare { share, ..HostShare::default() });
    };
    assert_eq!(limited(&share), "not judged, share 2 of 4");
    // Background work limits no session by itself.
    assert_eq!(limited(&all(WaitClass::SystemIo)), "not determined");
    assert_eq!(limited(&|run| run.details.db_time_s = 0.0), "not determined");
    // Blocks in flight at once: their waits have no share of the time.
    let deep = |run: &mut Run| {
        run.summary.settings.insert("io_depth".into(), 8.into());
        run.summary.waits.retain(|wait| wait.class == WaitClass::UserIo);
        let most_us = run.summary.elapsed_s * 8.0 * f64::from(run.summary.sessions) * 1e6;
        run.summary.waits[0].time_us = most_us * 0.75;
        run.summary.waits.truncate(1);
        at_the_device(run, 1.0);
    };
    assert_eq!(limited(&deep), "waiting for reads (48.0 of 64 at once on average)");
    // A little over DB time is caused by two clocks; much over it is not a share.
    let of_db_time = |share: f64| {
        move |run: &mut Run| {
            run.summary.waits.retain(|wait| wait.class == WaitClass::UserIo);
            run.summary.waits.truncate(1);
            run.summary.waits[0].time_us = run.details.db_time_s * share * 1e6;
            at_the_device(run, 1.0);
        }
    };
    assert_eq!(limited(&of_db_time(1.01)), "waiting for reads (100 % of DB time)");
    assert_eq!(
        limited(&of_db_time(1.4)),
        "not determined (waits of class User I/O took longer than DB time)"
    );
    let spread = |run: &mut Run| run.details.db_time_s *= 4.0;
    assert!(limited(&spread).starts_with("not determined (largest share: reads, "));
    let busy = |run: &mut Run| {
        run.summary.cpu = Some(CpuShare { user: 99.0, idle: 1.0, ..CpuShare::default() });
    };
    assert_eq!(limited(&busy), "processors");
    // One session that never waits keeps one processor of many busy.
    let cached = |run: &mut Run| {
        run.summary.waits.clear();
        run.summary.petal_cpu_s = Some(run.details.db_time_s * 0.98);
    };
    assert_eq!(limited(&cached), "processor time of the sessions (98 % of DB time)");
    let elsewhere = |run: &mut Run| {
        cached(run);
        run.details.target.in_process = false;
    };
    assert_eq!(limited(&elsewhere), "not determined");
    assert_eq!(
        limited(&|run| run.details.think_time_s = run.details.db_time_s * 3.0),
        "think time (75 % of the sessions' time)"
    );
}

/// Replaces the run's waits: their classes and seconds.
pub(super) fn waits_of(run: &mut Run, waits: &[(WaitClass, f64)]) {
    let row = |&(class, s): &(WaitClass, f64)| WaitRow {
        name: class.label().to_owned(),
        class,
        source: WaitSource::Timed,
        waits: None,
        time_us: s * 1e6,
        avg_us: None,
    };
    run.summary.waits = waits.iter().map(row).collect();
}

/// Limits the device's requests of these kinds, each used to this share.
fn limit_io(run: &mut Run, limits: &[(IoLimitKind, f64)]) {
    let device = run.details.device.unwrap();
    let limit = |&(kind, share): &(IoLimitKind, f64)| {
        let count = match kind {
            IoLimitKind::WriteRequests => device.write_requests,
            _ => device.read_requests,
        };
        IoLimit {
            device: "vda".into(),
            kind,
            per_second: (count as f64 / run.summary.elapsed_s / share) as u64,
            file: "/sys/fs/cgroup/db/io.max".into(),
            lifted: "254:0 wiops=max".into(),
            of_server: false,
        }
    };
    run.details.host.get_or_insert_default().io_limits = limits.iter().map(limit).collect();
}

#[test]
fn a_limit_that_requests_of_the_background_reach_does_not_limit() {
    let limited = |kind, waits: &[(WaitClass, f64)], petal_cpu_s| {
        let mut run = fixture::mixed_run();
        run.details.db_time_s = 60.0;
        run.summary.petal_cpu_s = Some(petal_cpu_s);
        limit_io(&mut run, &[(kind, 0.96)]);
        waits_of(&mut run, waits);
        limited_by(&run).by
    };
    use IoLimitKind::{ReadRequests, WriteRequests};
    use WaitClass::{Commit, Concurrency, SystemIo, UserIo};
    // SQLite: a checkpoint's writes, and the syncs behind them.
    let syncs = [(SystemIo, 142.0), (Commit, 51.0), (UserIo, 8.0)];
    assert_eq!(limited(WriteRequests, &syncs, 7.0), Limiter::IoLimit);
    let background = [(SystemIo, 142.0), (Commit, 6.0), (UserIo, 48.0)];
    assert_eq!(limited(WriteRequests, &background, 7.0), Limiter::Reads);
    let processors = [(SystemIo, 142.0), (Commit, 6.0)];
    assert_eq!(limited(WriteRequests, &processors, 50.0), Limiter::SessionProcessorTime);
    // Sessions wait for a lock: its holder waits for the syncs.
    let locked = [(Concurrency, 40.0), (Commit, 12.0), (UserIo, 8.0)];
    assert_eq!(limited(WriteRequests, &locked, 35.0), Limiter::IoLimit);
    // Their time is not known: the limit was reached, and nothing speaks against it.
    assert_eq!(limited(WriteRequests, &[(SystemIo, 142.0)], 7.0), Limiter::IoLimit);
    assert_eq!(limited(WriteRequests, &[(Commit, 6.0)], 7.0), Limiter::IoLimit);
    let reads = [(UserIo, 3.0), (Commit, 50.0)];
    assert_eq!(limited(ReadRequests, &reads, 7.0), Limiter::Log);
    assert_eq!(limited(ReadRequests, &[(UserIo, 50.0)], 7.0), Limiter::IoLimit);
    // SQLite, 8 sessions, 2 % UPDATEs: without the limit of writes it did as many operations.
    let mut both = fixture::mixed_run();
    both.details.db_time_s = 480.0;
    waits_of(&mut both, &[(UserIo, 477.0), (Commit, 0.6)]);
    limit_io(&mut both, &[(ReadRequests, 1.05), (WriteRequests, 3.9)]);
    let found = limited_by(&both);
    assert!(found.words.contains("reads a second on vda"), "{}", found.words);
    both.summary.waits.clear();
    let found = limited_by(&both);
    assert!(found.words.contains("writes a second on vda"), "the closest: {}", found.words);
}

#[test]
fn a_limit_is_never_a_class_without_its_event() {
    let limited = |waits: &[(WaitClass, &str, f64)]| {
        let mut run = fixture::mixed_run();
        run.details.db_time_s = 100.0;
        waits_of(&mut run, &waits.iter().map(|&(class, _, s)| (class, s)).collect::<Vec<_>>());
        run.summary.waits.iter_mut().zip(waits).for_each(|(row, of)| row.name = of.1.to_owned());
        limited_by(&run)
    };
    // PostgreSQL: a trigger sleeps. Oracle: max_iops. SQLite: one writer.
    let slept = limited(&[(WaitClass::Other, "Timeout:PgSleep", 97.0)]);
    assert_eq!(slept.words, "wait event Timeout:PgSleep (97 % of DB time)");
    assert_eq!(slept.evidence["wait_event"], "Timeout:PgSleep");
    let held = limited(&[(WaitClass::Scheduler, "resmgr: I/O rate limit", 90.0)]);
    let words = "the database's resource manager: resmgr: I/O rate limit (90 % of DB time)";
    assert_eq!((held.by, held.words.as_str()), (Limiter::OtherWaits, words));
    let writer = limited(&[(WaitClass::Concurrency, "writer lock", 89.0)]);
    assert_eq!(writer.words, "contention inside the database: writer lock (89 % of DB time)");
    let cluster = (WaitClass::Cluster, "gc cr request", 40.0);
    let both = limited(&[cluster, (WaitClass::Cluster, "gc buffer busy", 30.0)]);
    assert_eq!(both.words, "other servers of the cluster, longest gc cr request (70 % of DB time)");
    let few = limited(&[(WaitClass::Other, "Timeout:PgSleep", 30.0)]);
    let words = "not determined (largest share: wait event Timeout:PgSleep, 30 % of DB time)";
    assert_eq!(few.words, words);
    // Others' work on all processors does not make a session sleep.
    let mut busy = fixture::mixed_run();
    busy.details.db_time_s = 3.0;
    waits_of(&mut busy, &[(WaitClass::Other, 2.0)]);
    others_fill_the_processors(&mut busy);
    assert_eq!(limited_by(&busy).by, Limiter::OtherWaits);
    waits_of(&mut busy, &[(WaitClass::Concurrency, 2.0)]);
    assert_eq!(limited_by(&busy).by, Limiter::OthersWork);
    for class in [WaitClass::Application, WaitClass::Configuration, WaitClass::Replica] {
        assert!(limited(&[(class, "its event", 80.0)]).words.contains(": its event ("));
    }
}

/// Other programs than petal and the database use all processors.
pub(super) fn others_fill_the_processors(run: &mut Run) {
    run.summary.cpu = Some(CpuShare { user: 98.0, idle: 2.0, ..CpuShare::default() });
    let cpus = &mut run.details.os.as_mut().unwrap().whole.sum.cpus;
    cpus.host = Some(CpuTicks::from([196, 0, 0, 4, 0, 0, 0, 0]));
}

/// The line, the finding and the advice of a judged run, as one text.
fn all_words_of_processors(run: &Run) -> String {
    let found = run.summary.findings.iter().find(|it| it.id == "processor-bound").unwrap();
    let limited = run.summary.limited_by.as_ref().unwrap();
    format!("{} | {} | {}", limited.words, found.message, found.advice)
}

#[test]
fn an_unknown_share_of_others_is_said_in_the_line_and_in_the_finding() {
    let mut run = fixture::mixed_run();
    at_the_device(&mut run, 0.1);
    others_use(&mut run, 1.2, 98.0);
    run.details.os.as_mut().unwrap().whole.sum.counts.petal_cpu_us = None;
    conclude(&mut run);
    let words = all_words_of_processors(&run);
    assert!(words.starts_with("processors (others' share unknown) | "), "{words}");
    assert!(
        words.contains(
            "98.0 % busy; petal and the database share one process, so their parts \
                            cannot be separated, and others' share of this is unknown; the \
                            storage's limit is not seen"
        ),
        "{words}"
    );
    assert!(words.contains(" | Look with top if other programs work"), "{words}");
    let limited = run.summary.limited_by.unwrap();
    assert_eq!(
        (limited.by, &limited.evidence["other_processors"]),
        (Limiter::Processors, &Value::Null)
    );
}

#[test]
fn others_work_that_the_windows_seconds_lack_is_known_from_the_whole_run() {
    let mut run = fixture::windowed_run();
    at_the_device(&mut run, 0.1);
    others_use(&mut run, 1.2, 98.0);
    run.details.steady.as_mut().unwrap().cpu = run.summary.cpu;
    run.details.os.as_mut().unwrap().seconds.clear();
    conclude(&mut run);
    let limited = run.summary.limited_by.clone().unwrap();
    assert_eq!(
        (limited.by, limited.words.as_str()),
        (Limiter::OthersWork, "processors: others used 1.2 of 2")
    );
    let words = all_words_of_processors(&run);
    assert!(words.contains("mostly for others: they used 1.20 of the 2"), "{words}");
}

#[test]
fn the_finding_says_of_the_storage_only_what_the_verdict_says() {
    // A device that waits for others' processors half of the time.
    let mut run = fixture::mixed_run();
    others_use(&mut run, 1.2, 98.0);
    at_the_device(&mut run, 0.9);
    conclude(&mut run);
    let words = all_words_of_processors(&run);
    assert_eq!(verdict(&run), "valid test of the device");
    assert!(words.contains("; the sessions waited elsewhere | "), "{words}");
    at_the_device(&mut run, 0.1);
    run.summary.limited_by = None;
    conclude(&mut run);
    let words = all_words_of_processors(&run);
    assert_eq!(verdict(&run), "valid test of processors that others use, too, not of the storage");
    assert!(words.contains("; the storage's limit is not seen | "), "{words}");
    others_use(&mut run, 0.7, 90.0);
    at_the_device(&mut run, 0.58);
    conclude(&mut run);
    assert_eq!(verdict(&run), "valid test of the device and of processors that others use, too");
}
