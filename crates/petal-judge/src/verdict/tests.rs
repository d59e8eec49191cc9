use super::*;
use crate::trust::{ROWS_MISSING, TOO_FEW_OPERATIONS};
use petal_host::devices::{Bottom, StorageLayer};
use petal_host::os::{CpuShare, DeviceCounts};
use petal_record::conclusions::Limiter;
use petal_record::counters::{IoCounts, WaitClass};
use petal_record::driver_hosts::HostShare;
use petal_record::fixture;
use petal_workload::share::Share;

#[test]
fn the_line_of_a_physical_run() {
    insta::assert_snapshot!(
        headline(&fixture::mixed_run()),
        @"valid test of the device | PIOPS 59,432 read + 10,000 write | single-block read 84.3 us | redo 96.2 MB/s | served by: device | limited by: waiting for reads (63 % of DB time) | whole run 60.0 s (the counted window's counters are not known)"
    );
}

#[test]
fn the_line_is_of_the_steady_window() {
    let run = fixture::windowed_run();
    let steady = run.summary.steady.as_ref().unwrap();
    let headline = headline(&run);
    let figures = headline.figures;
    assert_eq!(figures.piops.reads, steady.per_second.physical_read_requests);
    assert_eq!(figures.read_us, steady.io_latency_us["read"].mean);
    assert_eq!(figures.redo.mb_s, steady.per_second.redo_bytes.map(|bytes| bytes / 1e6));
    assert!(headline.to_string().ends_with(&headline.window.words));
    assert_eq!((headline.window.from_s, headline.window.to_s), (5.0, 60.0));
    assert_ne!(figures.piops.reads, run.summary.per_second.physical_read_requests);
}

#[test]
fn a_cached_run_is_reported_by_its_logical_reads() {
    let mut run = fixture::mixed_run();
    run.details.target.session_cache_bytes = Some(run.summary.active_bytes);
    let headline = headline(&run);
    assert_eq!(headline.verdict.asked_for, AskedFor::LogicalReads);
    assert!(headline.verdict.is_valid(), "{}", headline.verdict.sentence());
    let line = headline.to_string();
    // petal worked on 0.42 processors.
    assert!(line.contains(" | logical reads 175,552/s, 417,981 per core | PIOPS "), "{line}");
}

#[test]
fn unknown_is_a_dash_and_nothing_is_guessed() {
    let mut run = fixture::mixed_run();
    run.summary.per_second = Default::default();
    run.summary.io_latency_us.clear();
    run.summary.waits.clear();
    run.details.io = IoCounts::default();
    run.details.device = None;
    insta::assert_snapshot!(headline(&run), @"valid test of storage that petal does not see | PIOPS - read + - write | single-block read - us | redo - MB/s | served by: not seen | limited by: not determined | whole run 60.0 s (the counted window's counters are not known)");
}

#[test]
fn who_served_it() {
    let served = |change: &dyn Fn(&mut Run)| {
        let mut run = fixture::mixed_run();
        change(&mut run);
        headline(&run).served_by.words
    };
    let quarter = |run: &mut Run| {
        let read_bytes = run.details.io.physical_read_bytes.unwrap() / 4;
        run.details.device = run.details.device.map(|d| DeviceCounts { read_bytes, ..d });
    };
    assert_eq!(served(&quarter), "device 25 %, the rest not seen");
    let buffered = fixture::read_through_page_cache;
    assert_eq!(served(&buffered), "page cache 75 %, device 25 %");
    let cached = |run: &mut Run| {
        run.details.io.physical_read_bytes = Some(8192);
        run.summary.target.cache_bytes = Some(u64::MAX);
    };
    assert_eq!(served(&cached), "database cache");
    assert_eq!(served(&|run| run.details.target.local = false), "not seen (another host)");
    let hidden = |run: &mut Run| {
        run.details.target.local = false;
        run.details.target.host_unseen = Some("hidden".into());
    };
    assert_eq!(served(&hidden), "not seen");
    let memory = |run: &mut Run| {
        run.details.device = None;
        run.details.host.as_mut().unwrap().storage = vec![StorageLayer {
            bottom: Some(Bottom::Memory("zram1 is this host's memory".into())),
            ..StorageLayer::default()
        }];
    };
    assert_eq!(served(&memory), "device 0 % (zram1 is this host's memory)");
    let mut run = fixture::mixed_run();
    memory(&mut run);
    crate::conclude(&mut run);
    assert_eq!(run.summary.headline.unwrap().verdict.tested, Tested::Memory);
}

#[test]
fn the_conclusions_are_fields_made_once_and_read_by_the_line() {
    let mut run = fixture::mixed_run();
    conclude(&mut run);
    let (served, limited) =
        (run.summary.served_by.clone().unwrap(), run.summary.limited_by.clone().unwrap());
    assert_eq!((served.by, served.words.as_str()), (ReadSource::Device, "device"));
    assert_eq!(served.asked_bytes, served.device_bytes);
    assert_eq!(served.page_cache_bytes, Some(0));
    assert_eq!(limited.by, Limiter::Reads);
    assert_eq!(limited.evidence["wait_class"], "User I/O");
    let line = headline(&run);
    assert_eq!((&line.served_by, &line.limited_by), (&served, &limited));
    // The record's answer is quoted, not computed again.
    run.details.device = None;
    run.summary.waits.clear();
    assert_eq!(headline(&run), line);
    // Judged again it is made again.
    conclude(&mut run);
    let (served, limited) =
        (run.summary.served_by.take().unwrap(), run.summary.limited_by.take().unwrap());
    assert_eq!((served.by, limited.by), (ReadSource::Unknown, Limiter::NotDetermined));
    assert!(served.why_unknown.is_some());
}

/// A fixture changed and judged: its verdict, with the line.
fn judged(change: impl Fn(&mut Run)) -> Headline {
    let mut run = fixture::mixed_run();
    change(&mut run);
    conclude(&mut run);
    run.summary.headline.unwrap()
}

#[test]
fn reads_of_the_page_cache_are_no_result_of_a_storage_test() {
    let headline = judged(fixture::read_through_page_cache);
    let verdict = &headline.verdict;
    assert_eq!((verdict.validity, verdict.tested), (Validity::NotStorage, Tested::PageCache));
    assert_eq!(verdict.asked_for, AskedFor::PhysicalIo);
    assert_eq!(verdict.reason.as_ref().unwrap().finding, "cached-by-os");
    assert_eq!((headline.figures.piops, headline.figures.read_us), (Piops::default(), None));
    assert!(headline.struck_out.unwrap().piops.sum.is_some());
    assert!(headline.figures.redo.mb_s.is_some(), "the log was written all the same");
    let line = headline.to_string();
    assert!(
        line.starts_with("not a storage test (cached-by-os) | no result: PIOPS 59,432 read + "),
        "{line}"
    );
}

#[test]
fn a_run_that_did_other_work_than_asked_is_invalid_whatever_it_tested() {
    let rows_missing = |run: &mut Run| {
        run.summary.rows_asked = Some(run.summary.rows);
        run.summary.rows.select /= 2;
    };
    let headline = judged(|run| {
        fixture::read_through_page_cache(run);
        rows_missing(run);
    });
    let reason = headline.verdict.reason.unwrap();
    assert_eq!(headline.verdict.validity, Validity::Invalid);
    assert_eq!(reason.finding, "rows-missing", "the graver one");
    assert_eq!(headline.figures, HeadlineFigures::default());
    assert!(headline.next.starts_with("petal check --db "), "{}", headline.next);
    let cached = judged(|run| {
        run.details.target.session_cache_bytes = Some(run.summary.active_bytes);
        rows_missing(run);
    });
    assert_eq!(cached.verdict.validity, Validity::Invalid, "a logical test, too");
}

#[test]
fn a_test_of_updates_alone_begins_with_its_redo() {
    let headline = judged(|run| {
        run.details.target.session_cache_bytes = Some(run.summary.active_bytes);
        run.summary.ops.select = 0;
        run.summary.waits.retain(|wait| wait.class == WaitClass::Commit);
        run.summary.waits[0].time_us = run.details.db_time_s * 0.8e6;
    });
    assert_eq!(headline.verdict.asked_for, AskedFor::Redo);
    let line = headline.to_string();
    assert!(line.starts_with("valid test of the log | redo 96.2 MB/s, 183 commits/s | "), "{line}");
}

#[test]
fn what_limited_a_storage_test_is_what_it_tested() {
    assert_eq!(judged(|_| ()).verdict.tested, Tested::Device);
    let busy = judged(|run| {
        run.summary.cpu = Some(CpuShare { user: 99.0, idle: 1.0, ..CpuShare::default() })
    });
    assert_eq!(busy.verdict.words, "valid test of the processors");
    let elsewhere = judged(|run| run.details.target.local = false);
    assert_eq!(elsewhere.verdict.words, "valid test of storage that petal does not see");
}

#[test]
fn the_next_command_has_the_flags_of_the_run() {
    let headline = judged(|_| ());
    let next =
        "petal run -s 4 --update-pct 20 --scale 8192 --threads-per-schema 2 --repeats 3 --db ";
    assert!(headline.next.starts_with(next), "{}", headline.next);
    let with_rate = judged(|run| {
        run.details.given.push(petal_settings::GivenParameter {
            key: "RATE".to_owned(),
            value: 400.0.into(),
            origin: petal_settings::Origin::Flag,
        });
    });
    assert!(with_rate.next.contains(" --rate 400 "), "{}", with_rate.next);
}

/// A limit that leaves the page cache as large as the data helps nobody, however often it is typed.
#[test]
fn the_next_command_for_data_within_a_limits_page_cache_loads_more() {
    let next = |active_bytes: u64| {
        let cached = judged(|run| {
            fixture::read_through_page_cache(run);
            run.summary.engine = "postgres".into();
            run.details.target.direct_io = None;
            run.summary.active_bytes = active_bytes;
        });
        assert_eq!(cached.verdict.validity, Validity::NotStorage);
        cached.next
    };
    assert!(
        next(128 << 20).starts_with("petal setup --replace -s 4 --scale 2G --db "),
        "{}",
        next(128 << 20)
    );
    assert!(next(8 << 30).contains("--page-cache-limit 512M"), "{}", next(8 << 30));
}

#[test]
fn a_handful_of_operations_or_reads_is_invalid_and_the_next_command_is_longer() {
    let few = |ops: u64, reads: u64| {
        judged(|run| {
            let summary = &mut run.summary;
            (summary.ops.select, summary.ops.update, summary.ops.total) = (ops, 0, ops);
            summary.rows.select = ops * 64;
            summary.rows.update = 0;
            summary.rows_asked = Some(summary.rows);
            run.details.io.physical_read_requests = Some(reads);
            run.details.io.physical_read_blocks = Some(reads);
        })
    };
    let six = few(6, 384);
    assert_eq!(six.verdict.validity, Validity::Invalid);
    let reason = six.verdict.reason.clone().unwrap();
    assert_eq!(reason.finding, "too-few-operations");
    assert!(reason.sentence.starts_with("6 operations in the time"), "{}", reason.sentence);
    assert_eq!(six.figures, HeadlineFigures::default());
    // 60 s gave 6 operations: 60 are more than enough.
    assert!(six.next.contains(" --run-time 600 "), "{}", six.next);
    assert_eq!(few(15, 60).verdict.reason.unwrap().finding, "too-few-operations");
    assert!(few(20, 1280).verdict.is_valid());
}

#[test]
fn hot_data_in_the_cache_leave_a_storage_test_if_the_cold_part_is_read() {
    let hot = |every: u32, reads_per_row: f64| {
        judged(|run| {
            let rows = run.summary.rows.total() as f64;
            run.details.io.log_read_blocks = None;
            run.details.io.physical_read_blocks = Some((rows * reads_per_row) as u64);
            run.summary.settings.insert("do_hotspot".into(), true.into());
            run.summary.settings.insert("hotspot_frequency".into(), every.into());
        })
    };
    let spot = hot(2, 0.45);
    assert_eq!(spot.verdict.words, "valid test of the device");
    let cached = hot(2, 0.2);
    assert_eq!(cached.verdict.validity, Validity::NotStorage, "the cold part, too");
    assert!(
        cached.next.ends_with("  # replaces the data that petal loaded there"),
        "{}",
        cached.next
    );
    assert_eq!(hot(1, 0.2).verdict.validity, Validity::NotStorage, "all data are hot");
    let schema = judged(|run| {
        let rows = run.summary.rows.total() as f64;
        run.details.io.log_read_blocks = None;
        run.details.io.physical_read_blocks = Some((rows * 0.45) as u64);
        run.summary.settings.insert("hot_schema_frequency".into(), 2.into());
    });
    assert!(schema.verdict.is_valid());
}

#[test]
fn a_share_of_a_run_is_no_valid_test_by_itself() {
    let share = judged(|run| {
        run.details.target.in_process = false;
        let share = Share { number: 1, of: 2 };
        run.summary.share = Some(HostShare { share, ..HostShare::default() });
    });
    assert_eq!(share.verdict.words, "not judged, share 1 of 2");
}

#[test]
fn each_effect_is_of_a_finding_and_has_its_rule() {
    let rules = include_str!("../findings.rs").to_owned() + include_str!("../physical.rs");
    for effect in effects::EFFECTS {
        let is_known = rules.contains(&format!("(\"{}\", ", effect.finding))
            || rules.contains(&format!("(\"{}\")", effect.finding))
            || [ROWS_MISSING, TOO_FEW_OPERATIONS].contains(&effect.finding);
        assert!(is_known && !effect.rule.is_empty(), "{}", effect.finding);
    }
}

/// The table in docs/numbers.md. `UPDATE_DOCS=1` writes it.
#[test]
fn the_table_of_verdicts_in_the_docs_is_that_of_the_code() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/numbers.md");
    const BOUNDS: (&str, &str) =
        ("<!-- Verdicts: written by a test. -->\n", "<!-- End of the verdicts. -->");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BOUNDS.0).unwrap();
    let (_, after) = rest.split_once(BOUNDS.1).unwrap();
    let made = format!("{before}{}{}{}{after}", BOUNDS.0, effects::table(), BOUNDS.1);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(PAGE, &made).unwrap();
    }
    assert!(page == made, "docs/numbers.md: UPDATE_DOCS=1 writes the table of verdicts");
}

#[test]
fn each_resource_that_a_valid_run_may_test_has_a_rule_in_the_table() {
    use Limiter::*;
    let limiters = [
        Processors,
        OthersWork,
        SessionProcessorTime,
        Petal,
        IoLimit,
        ThinkTime,
        Rate,
        Reads,
        Log,
        Replica,
        Contention,
        Locks,
        LogRoom,
        Network,
        OtherWaits,
        NotJudged,
        NotDetermined,
    ];
    let sources =
        [ReadSource::Device, ReadSource::Several, ReadSource::Unknown, ReadSource::Nobody];
    let mut found = Vec::new();
    for asked_for in [AskedFor::PhysicalIo, AskedFor::LogicalReads, AskedFor::Redo] {
        for (by, source) in limiters.iter().flat_map(|by| sources.iter().map(move |it| (*by, *it)))
        {
            let limited_by = LimitedBy { by, ..LimitedBy::default() };
            let served_by = ServedBy { by: source, ..ServedBy::default() };
            let all = [false, true].map(|it| tested(asked_for, &served_by, &limited_by, it));
            found.extend(all);
        }
    }
    let ruled = effects::VALID.map(|(tested, _)| tested);
    assert!(found.iter().all(|tested| ruled.contains(tested)), "{found:?}");
    assert!(ruled.iter().all(|tested| found.contains(tested)), "a row without a case");
}

#[test]
fn the_next_command_is_the_remedy_of_the_gravest_warning() {
    let short = judged(|run| {
        run.summary.elapsed_s = 12.0;
        run.details.last_done_s = Some(12.0);
        run.summary.settings.insert("run_time".into(), 12.into());
    });
    assert!(short.next.contains(" --run-time 300 --repeats 3 --db "), "{}", short.next);
    // The same run would meet the others again.
    let busy = judged(|run| {
        run.summary.cpu = Some(CpuShare { user: 98.0, idle: 2.0, ..CpuShare::default() });
        let sum = &mut run.details.os.as_mut().unwrap().whole.sum;
        sum.cpus.host = Some(petal_host::os::CpuTicks::from([196, 0, 0, 4, 0, 0, 0, 0]));
        let waits = run.summary.waits.iter_mut();
        waits.for_each(|wait| wait.time_us = 0.0);
    });
    assert_eq!(busy.verdict.tested, Tested::SharedProcessors);
    assert!(busy.next.starts_with("petal check --db "), "{}", busy.next);
}

#[test]
fn the_next_command_keeps_the_size_of_the_data_and_the_options_of_the_run() {
    let connected = judged(|run| run.details.connections = Some(Default::default()));
    assert!(connected.next.contains(" --on-disconnect retry "), "{}", connected.next);
    let gone = judged(|run| {
        run.summary.settings.insert("scale".into(), 7680.into());
        run.details.data_vanished = Some("an index is gone".into());
    });
    let next = "petal setup --replace -s 4 --scale 60M --db ";
    assert!(gone.next.starts_with(next), "{}", gone.next);
}

#[test]
fn a_hot_spot_stays_small_in_any_load_so_the_next_run_has_none() {
    let hot = judged(|run| {
        let rows = run.summary.rows.total() as f64;
        run.details.io.log_read_blocks = None;
        run.details.io.physical_read_blocks = Some((rows * 0.1) as u64);
        run.summary.settings.insert("do_hotspot".into(), true.into());
        run.summary.settings.insert("hotspot_frequency".into(), 1.into());
    });
    assert_eq!(hot.verdict.validity, Validity::NotStorage);
    assert!(
        hot.next.starts_with("petal run ") && hot.next.contains("--do-hotspot false"),
        "{}",
        hot.next
    );
    let reason = hot.verdict.reason.unwrap().sentence;
    assert!(reason.ends_with("; the settings sent all operations to hot spots"), "{reason}");
}

#[test]
fn an_outage_that_did_not_end_is_the_reason_before_the_sessions_that_it_ended() {
    let lost = || petal_record::SessionLost {
        session: 1,
        at_s: 14.1,
        code: "57P01".to_owned(),
        message: "gone".to_owned(),
    };
    let out = judged(|run| {
        run.summary.sessions_lost = vec![lost()];
        let loss = petal_record::connections::ConnectionLoss {
            session: 1,
            at_s: 4.4,
            ..Default::default()
        };
        let silence =
            petal_record::connections::Silence { kind: None, from_s: Some(4.3), until_s: None };
        run.details.connections = Some(petal_record::connections::ConnectionLosses {
            losses: vec![loss],
            losses_total: 1,
            silences: vec![silence],
            end_s: 14.1,
            ..Default::default()
        });
    });
    let reason = out.verdict.reason.unwrap();
    assert_eq!(reason.finding, "outage", "{}", reason.sentence);
    assert!(
        reason.sentence.contains("at second 4.4; operations did not succeed again before the end")
    );
    assert!(out.next.starts_with("petal check --db "), "a look at the server: {}", out.next);
    let alone = judged(|run| run.summary.sessions_lost = vec![lost()]);
    assert_eq!(alone.verdict.reason.unwrap().finding, "lost-sessions");
}

#[test]
fn a_logical_test_has_no_warning_about_its_storage() {
    let mut run = fixture::mixed_run();
    fixture::read_through_page_cache(&mut run);
    run.summary.target.cache_bytes = Some(run.summary.active_bytes);
    conclude(&mut run);
    assert!(run.summary.findings.iter().all(|it| it.id != "cached-by-os"));
}

#[test]
fn a_redo_test_without_times_names_the_log_and_not_the_reads() {
    let limited = |is_cached: bool| {
        judged(|run| {
            run.details.target.io_untimed = Some("untimed".into());
            run.summary.waits.clear();
            run.summary.io_latency_us.clear();
            run.details.device = None;
            run.summary.petal_cpu_s = None;
            if is_cached {
                run.summary.target.cache_bytes = Some(run.summary.active_bytes);
            }
        })
        .limited_by
        .words
    };
    assert_eq!(limited(false), "not determined (the database does not time its reads)");
    assert_eq!(limited(true), "not determined (the database does not time its log)");
}
