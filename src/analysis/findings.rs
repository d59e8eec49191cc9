//! All findings of a run, in the order in which a person should read them, and what this record
//! cannot judge. The rules are in the files of the families; a rule never judges from a figure
//! that is unknown.

use super::judgement::{Judgement, NotJudged};
use super::{calibration, limits, others, physical, server_report, trust, writes};
use crate::record::{Finding, Run};

/// Every finding of a run; errors first, then warnings, then facts.
pub fn judge(run: &Run) -> Vec<Finding> {
    let mut findings: Vec<Finding> = judgements(run)
        .into_iter()
        .filter_map(|judgement| match judgement {
            Judgement::Found(finding) => Some(finding),
            _ => None,
        })
        .collect();
    // Stable: within a severity the families keep their order.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// The rules that this record cannot answer.
pub fn not_judged(run: &Run) -> Vec<NotJudged> {
    judgements(run)
        .into_iter()
        .filter_map(|judgement| match judgement {
            Judgement::Unknown(not_judged) => Some(not_judged),
            _ => None,
        })
        .collect()
}

fn judgements(run: &Run) -> Vec<Judgement> {
    // Rules that set layers beside each other see all of them over the same time.
    let counted = run.counted();
    let mut all = trust::judge(run);
    all.extend(physical::judge(&counted));
    all.extend(limits::judge(run));
    all.extend(calibration::judge(run));
    all.extend(others::judge(&counted));
    all.extend(writes::judge(&counted));
    all.extend(server_report::judge(&counted));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Severity;
    use crate::record::{CountedUntil, Endpoint, SessionLost, Suspended, figures, fixture};
    use crate::stats::counters::{IoCounts, WaitClass, WaitSource};
    use crate::stats::os::GroupLimit;
    use crate::stats::os::{CpuShare, DeviceCounts};
    use crate::stats::target::{DirectIo, Durability, PlanCheck};
    use serde_json::json;

    fn ids(run: &Run) -> Vec<String> {
        judge(run).into_iter().map(|finding| finding.id).collect()
    }

    /// The fixture changed by `change` must differ from it by exactly these findings.
    fn gains(expected: &[&str], change: impl Fn(&mut Run)) -> Run {
        let plain = ids(&fixture::mixed_run());
        let mut run = fixture::mixed_run();
        change(&mut run);
        let gained: Vec<String> = ids(&run).into_iter().filter(|id| !plain.contains(id)).collect();
        assert_eq!(gained, expected);
        run
    }

    fn message(run: &Run, id: &str) -> String {
        judge(run).into_iter().find(|finding| finding.id == id).unwrap().message
    }

    #[test]
    fn a_good_short_run_carries_only_facts() {
        let findings = judge(&fixture::mixed_run());
        let shown: Vec<String> = findings.iter().map(|f| f.id.clone()).collect();
        assert_eq!(shown, ["too-short-to-judge", "single-run", "small-log"]);
        assert!(findings.iter().all(|finding| finding.severity == Severity::Info));
        assert!(findings.iter().all(|f| !f.evidence.is_empty() && !f.advice.is_empty()));
    }

    #[test]
    fn rows_that_are_not_there_are_an_error() {
        let run = gains(&["rows-missing"], |run| {
            run.summary.rows.select -= 50;
            run.details.ops_not_as_asked = Some(3);
        });
        let finding = judge(&run).remove(0);
        assert_eq!((finding.id.as_str(), finding.severity), ("rows-missing", Severity::Error));
        assert!(finding.message.contains(", in 3 of "), "{}", finding.message);
        // Too few in one operation and as many too many in another.
        gains(&["rows-missing"], |run| run.details.ops_not_as_asked = Some(2));
        let mut old = fixture::mixed_run();
        old.summary.rows_asked = None;
        assert!(not_judged(&old).iter().any(|judged| judged.id == "rows-missing"));
    }

    #[test]
    fn work_of_others_in_the_database_is_told_with_its_figures() {
        let counted = |name: &'static str, count: u64| {
            move |run: &mut Run| {
                run.summary.counters.insert(name.into(), count);
            }
        };
        let plain = fixture::mixed_run();
        let read = plain.details.io.physical_read_blocks.unwrap();
        let run = gains(&["other-load"], counted("other_read_blocks", read / 10));
        let told = message(&run, "other-load");
        assert!(told.contains(&format!("{} blocks read of other tables", read / 10)), "{told}");
        gains(&[], counted("other_read_blocks", read / 25));
        // petal's own looks at the counters visit blocks, too.
        gains(&[], counted("other_logical_reads", 100_000));
        gains(&["other-load"], counted("other_logical_reads", 5_000_000));
        gains(&["other-load"], counted("other_rows_changed", plain.summary.rows.update));
        // Another run on petal's tables: its rows are visited as petal's are.
        let visited = plain.summary.rows.total();
        gains(&["other-load"], |run| {
            counted("rows_fetched", visited * 2)(run);
            run.details.io.physical_read_blocks = Some(visited * 2);
            run.details.io.physical_read_requests = Some(visited * 2);
        });
        gains(&[], counted("rows_fetched", visited));
        gains(&["other-load"], |run| run.details.other_runs.push("another petal run".into()));
    }

    #[test]
    fn data_that_went_in_the_run_have_not_moved() {
        gains(&["data-vanished"], |run| {
            run.details.data_vanished = Some("petal1.db: No such file or directory".into());
            run.details.data_bytes_after = Some(0);
        });
    }

    #[test]
    fn a_run_is_as_short_as_it_was_not_as_was_asked() {
        // RUN_TIME is 60.
        gains(&["short-run"], |run| {
            run.summary.elapsed_s = 4.0;
            run.details.last_done_s = Some(4.0);
        });
        // Its sessions thought, or waited for their turn, to the end.
        gains(&[], |run| run.summary.elapsed_s = 29.0);
    }

    #[test]
    fn waits_that_nobody_told_are_not_taken_for_none() {
        let mut run = fixture::mixed_run();
        run.summary.waits.clear();
        run.details.io = IoCounts::default();
        let unknown: Vec<_> =
            not_judged(&run).into_iter().filter(|n| n.id == "small-log").collect();
        assert!(unknown.iter().any(|n| n.reason.contains("waited for")), "{unknown:?}");
    }

    #[test]
    fn reads_from_the_page_cache_are_told() {
        let buffered = |run: &mut Run, percent: u64| {
            run.details.target.direct_io =
                Some(DirectIo { asked: false, used: false, reason: None });
            let read_bytes = run.details.io.physical_read_bytes.unwrap() / 100 * percent;
            seen(run).whole.sum.counts.petal_read_bytes = Some(read_bytes);
            run.details.device = run.details.device.map(|d| DeviceCounts { read_bytes, ..d });
        };
        let run = gains(&["cached-by-os"], |run| buffered(run, 10));
        let message = message(&run, "cached-by-os");
        assert!(message.starts_with("90 % of the bytes") && message.contains("page cache"));
        // Within the tolerance it is silent.
        gains(&[], |run| buffered(run, 91));
        gains(&["device-unseen"], |run| {
            let read_bytes = run.details.io.physical_read_bytes.unwrap() / 4;
            run.details.device = run.details.device.map(|d| DeviceCounts { read_bytes, ..d });
        });
    }

    #[test]
    fn a_foreign_reader_does_not_turn_the_page_cache_into_the_device() {
        let run = gains(&["cached-by-os", "other-load"], |run| {
            run.details.target.direct_io =
                Some(DirectIo { asked: false, used: false, reason: None });
            seen(run).whole.sum.counts.petal_read_bytes = Some(4096);
        });
        assert_eq!(crate::analysis::verdict(&run).served_by, "page cache 100 %, device 0 %");
    }

    #[test]
    fn reads_that_were_not_timed_are_said_with_the_engines_hint() {
        let run = gains(&["untimed-io"], |run| {
            run.details.target.io_untimed = Some("grant it".into());
        });
        let finding = judge(&run).into_iter().find(|finding| finding.id == "untimed-io");
        assert_eq!(finding.unwrap().advice, "grant it");
        gains(&[], |run| {
            run.details.target.io_untimed = Some("grant it".into());
            run.details.io.physical_read_blocks = None;
        });
    }

    #[test]
    fn log_reads_through_the_page_cache_are_no_fault_of_direct_runs() {
        gains(&[], |run| {
            // The WAL served as much as the main file, and no device saw it.
            let io = &mut run.details.io;
            io.physical_read_bytes = io.physical_read_bytes.map(|bytes| bytes * 2);
        });
    }

    #[test]
    fn a_journal_that_mixes_data_and_log_accuses_nobody() {
        let mut run = fixture::mixed_run();
        run.details.rebuilt = true;
        run.details.files.clear();
        run.details.io.physical_read_bytes = run.details.io.physical_read_bytes.map(|b| b * 2);
        assert!(!ids(&run).iter().any(|id| id == "cached-by-os" || id == "device-unseen"));
        assert!(not_judged(&run).iter().any(|judged| judged.id == "cached-by-os"));
    }

    #[test]
    fn caches_that_hold_the_data_are_told() {
        gains(&["cached-by-storage"], |run| {
            run.summary.settings.insert("storage_cache".into(), json!(1_u64 << 40));
        });
        let run = gains(&["cache-misses", "cached-by-database"], |run| {
            run.summary.target.cache_bytes = Some(run.summary.active_bytes);
        });
        assert!(message(&run, "cached-by-database").contains("logical reads"));
        gains(&["cached-by-database"], |run| {
            run.summary.target.cache_bytes = Some(run.summary.active_bytes);
            let io = &mut run.details.io;
            io.logical_reads = io.physical_read_blocks.map(|blocks| blocks * 1001);
        });
    }

    #[test]
    fn misses_of_the_warm_up_are_no_cache_misses() {
        let cached = |in_window: u64| {
            let mut run = fixture::windowed_run();
            run.summary.target.cache_bytes = Some(run.summary.active_bytes);
            let window = &mut run.details.steady.as_mut().unwrap().io;
            window.logical_reads = Some(1_000_000);
            window.physical_read_blocks = Some(in_window);
            run
        };
        assert!(!ids(&cached(1)).iter().any(|id| id == "cache-misses"));
        assert!(message(&cached(2_000), "cache-misses").starts_with("0.20 %"));
    }

    #[test]
    fn a_cache_of_each_sessions_own_is_judged_by_one_session() {
        let schemas = u64::from(fixture::mixed_run().summary.schemas);
        let own = |run: &mut Run, bytes: u64| {
            // All sessions' together could hold the data many times.
            run.summary.target.cache_bytes = Some(run.summary.active_bytes * 64);
            run.details.target.session_cache_bytes = Some(bytes);
        };
        gains(&[], |run| own(run, run.summary.active_bytes / schemas - 1));
        let run = gains(&["cache-misses", "cached-by-database"], |run| {
            own(run, run.summary.active_bytes / schemas);
        });
        assert!(message(&run, "cache-misses").contains("sessions' own caches"));
        assert!(message(&run, "cached-by-database").contains("each session's own cache"));
    }

    #[test]
    fn processors() {
        let run = gains(&["processor-bound", "steal"], |run| {
            run.summary.cpu =
                Some(CpuShare { user: 60.0, system: 30.0, iowait: 2.0, idle: 1.0, steal: 7.0 });
        });
        assert!(message(&run, "processor-bound").contains("97.0 % busy"));
        // Full of others' work, it is for them to go.
        let run = gains(&["processor-bound", "other-load"], |run| {
            run.summary.cpu = Some(CpuShare { user: 99.0, idle: 1.0, ..CpuShare::default() });
            let seen = seen(run);
            let ticks = crate::stats::os::CpuTicks::from([198, 0, 0, 2, 0, 0, 0, 0]);
            seen.whole.sum.cpus.host = Some(ticks);
            let seconds = seen.whole.sum.seconds;
            seen.whole.sum.counts.petal_cpu_us = Some((seconds * 0.34e6) as u64);
        });
        let told = message(&run, "processor-bound");
        assert!(told.contains("they used 1.64 of the 2, petal and the database 0.34"), "{told}");
        assert_eq!(crate::analysis::verdict(&run).limited_by, "processors (others' work)");
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
    fn unknown_figures_judge_nothing() {
        let mut run = fixture::mixed_run();
        run.details.io = IoCounts::default();
        run.details.device = None;
        run.details.os = None;
        run.summary.cpu = None;
        run.summary.counters.clear();
        run.details.data_bytes_after = None;
        run.details.target.durability = None;
        run.details.target.plan = None;
        run.details.target.direct_io = None;
        assert_eq!(ids(&run), ["too-short-to-judge", "single-run"]);
        let unseen: Vec<&str> = not_judged(&run).iter().map(|judged| judged.id).collect();
        for id in ["cached-by-os", "processor-bound", "deferred-writes", "moved-rows", "wrong-plan"]
        {
            assert!(unseen.contains(&id), "{id} in {unseen:?}");
        }
    }

    #[test]
    fn durability() {
        gains(&["not-durable"], |run| {
            let setting = "synchronous=OFF".to_owned();
            run.details.target.durability = Some(Durability { durable: false, setting });
        });
        let syncs = |run: &mut Run, syncs: u64| run.details.io.log_syncs = Some(syncs);
        // 8 sessions: one sync covers at most 8 commits.
        let run = gains(&["not-durable"], |run| syncs(run, run.summary.ops.update / 16 - 1));
        assert!(message(&run, "not-durable").contains("at least 50."));
        gains(&["not-durable"], |run| syncs(run, run.summary.ops.update / 8 - 2));
        let run = gains(&["group-commit"], |run| syncs(run, run.summary.ops.update / 8));
        assert!(message(&run, "group-commit").starts_with("8.0 commits per log sync"));
        gains(&["not-durable"], |run| {
            run.summary.settings.insert("writers".into(), json!(2));
            syncs(run, run.summary.ops.update / 8);
        });
    }

    #[test]
    fn a_database_that_counts_each_waited_commit_tells_those_that_did_not_wait() {
        let syncs = |run: &mut Run, syncs: u64| {
            run.details.target.sync_per_commit = true;
            run.details.io.log_syncs = Some(syncs);
        };
        // Enough for group commit anywhere else.
        let run = gains(&["not-durable"], |run| syncs(run, run.summary.ops.update / 8));
        assert!(message(&run, "not-durable").contains("so 87.5 % did not wait"));
        gains(&[], |run| syncs(run, run.summary.ops.update));
    }

    #[test]
    fn prefetched_blocks_are_told_where_they_are_counted() {
        let prefetch = |run: &mut Run, prefetched: u64| {
            run.summary.counters.insert("blocks_read_into_cache".into(), 1000);
            run.summary.counters.insert("blocks_prefetched".into(), prefetched);
        };
        let run = gains(&["not-single-block"], |run| prefetch(run, 51));
        assert!(message(&run, "not-single-block").starts_with("5.1 %"));
        gains(&[], |run| prefetch(run, 50));
    }

    #[test]
    fn rows_that_cost_more_than_a_read() {
        let run = gains(&["extra-reads"], |run| {
            run.details.io.physical_read_blocks = Some(run.summary.rows.total() * 3 / 2);
            run.details.io.physical_read_requests = run.details.io.physical_read_blocks;
        });
        assert!(
            message(&run, "extra-reads").starts_with("1.5"),
            "{}",
            message(&run, "extra-reads")
        );
    }

    #[test]
    fn writes_that_were_not_paid_for() {
        let checkpoints = |run: &mut Run, count: u64| {
            run.summary.counters.insert("checkpoints".into(), count);
        };
        gains(&["deferred-writes"], |run| checkpoints(run, 0));
        // Nothing is owed by a run without updates.
        gains(&[], |run| {
            checkpoints(run, 0);
            run.summary.ops.update = 0;
        });
        gains(&["moved-rows"], |run| {
            run.details.data_bytes_after = run.details.data_bytes_before.map(|bytes| bytes + 8192);
        });
        // Rows may move into blocks that are there, which no size shows.
        for (share, severity) in [(0.0004, Severity::Info), (0.02, Severity::Warning)] {
            let run = gains(&["moved-rows"], |run| {
                let rows = (run.summary.rows.update as f64 * share).ceil() as u64;
                run.summary.counters.insert("rows_moved".into(), rows);
            });
            let found = judge(&run).into_iter().find(|found| found.id == "moved-rows").unwrap();
            assert_eq!(found.severity, severity, "{}", found.message);
        }
        gains(&[], |run| {
            run.summary.counters.insert("rows_moved".into(), 0);
        });
        let followed = |run: &mut Run, fetches: u64| {
            (run.details.data_bytes_before, run.details.data_bytes_after) = (None, None);
            run.summary.counters.insert("rows_followed".into(), fetches);
        };
        let one_in_a_hundred = fixture::mixed_run().summary.rows.total() / 100;
        gains(&[], |run| followed(run, one_in_a_hundred));
        let run = gains(&["moved-rows"], |run| followed(run, one_in_a_hundred + 1));
        assert!(message(&run, "moved-rows").contains("into a second block"));
        let run = gains(&["wal-not-reset"], |run| {
            run.summary.counters.insert("wal_reset_failures".into(), 3);
            run.summary.counters.insert("wal_bytes_max".into(), 1 << 30);
        });
        assert!(message(&run, "wal-not-reset").contains("1.00 GiB"));
    }

    #[test]
    fn log_waits() {
        let mut run = fixture::mixed_run();
        run.summary.waits.push(crate::record::WaitRow::from_totals(
            "log file switch",
            WaitClass::Configuration,
            WaitSource::Counted,
            Some(4),
            (run.details.db_time_s * 0.02 * 1e9) as u64,
        ));
        let found = judge(&run).into_iter().find(|f| f.severity == Severity::Warning).unwrap();
        assert_eq!(found.id, "small-log");
        assert!(found.message.starts_with("2.0 % of DB time"), "{}", found.message);
        // A server that counts the checkpoints that its log's size forced.
        let by_size = |checkpoints: u64| {
            let mut run = fixture::mixed_run();
            run.details.target.in_process = false;
            let every_s = 29.0;
            run.summary.elapsed_s = every_s * checkpoints as f64;
            run.summary.counters.insert("checkpoints_by_log_size".into(), checkpoints);
            judge(&run).into_iter().find(|found| found.id == "small-log")
        };
        let found = by_size(2).unwrap();
        assert_eq!(found.severity, Severity::Warning);
        assert_eq!(found.message, "the log's size made a checkpoint every 29.0 s");
        assert!(by_size(1).is_none(), "one alone has no distance");
    }

    #[test]
    fn plans_prefetch_and_direct_io() {
        let run = gains(&["wrong-plan"], |run| {
            run.details.target.plan = Some(PlanCheck { text: "SCAN cf1".into(), as_meant: false });
        });
        assert_eq!(judge(&run)[0].id, "wrong-plan", "errors come first");
        let two_a_request = |run: &mut Run| {
            let io = &mut run.details.io;
            io.physical_read_requests = io.physical_read_blocks.map(|blocks| blocks / 2);
        };
        gains(&["not-single-block"], two_a_request);
        gains(&[], |run| {
            two_a_request(run);
            run.summary.settings.insert("prefetch".into(), json!(64));
        });
        let run = gains(&["not-direct"], |run| {
            let reason = Some("the file system (overlay) refused O_DIRECT".to_owned());
            run.details.target.direct_io = Some(DirectIo { asked: true, used: false, reason });
        });
        assert!(message(&run, "not-direct").contains("overlay"));
    }

    #[test]
    fn somebody_else_used_the_device() {
        gains(&["other-load"], |run| {
            run.details.device = run
                .details
                .device
                .map(|device| DeviceCounts { write_bytes: device.write_bytes * 4, ..device });
        });
    }

    fn seen(run: &mut Run) -> &mut crate::record::os::HostSeen {
        run.details.os.as_mut().unwrap()
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
        let told = message(&run, "processor-bound");
        assert!(told.contains("granted 1.50 processors: it used 99 %"), "{told}");
        gains(&["processor-bound"], with(1.5, 60_000_000, (400, 600)));
        gains(&[], with(1.5, 80_000_000, (10, 600)));
        assert_eq!(crate::analysis::verdict(&run).limited_by, "processors");
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
        // In the database's own group both were made to wait, and that is told of the database.
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
    fn others_on_the_processors_are_told_before_and_during_the_run() {
        let ticks =
            |user: u64| crate::stats::os::CpuTicks::from([user, 0, 0, 200 - user, 0, 0, 0, 0]);
        let run = gains(&["other-load"], |run| {
            seen(run).whole.sum.cpus.host = Some(ticks(90));
        });
        let told = message(&run, "other-load");
        assert!(told.starts_with("during the run others used 0.5 of the 2 processors"), "{told}");
        let run = gains(&["other-load"], |run| {
            seen(run).before.as_mut().unwrap().cpus.host = Some(ticks(60));
        });
        assert!(message(&run, "other-load").starts_with("before the run others used 0.6"));
        let run = gains(&["other-load"], |run| {
            let before = seen(run).before.as_mut().unwrap();
            before.devices.as_mut().unwrap()[0].counts.read_requests = 300;
        });
        assert!(message(&run, "other-load").contains("600 requests a second before the run"));
        // A server's own processes are no others, and unknown ones judge nothing.
        let mut run = fixture::mixed_run();
        run.details.target.in_process = false;
        seen(&mut run).whole.sum.cpus.host = Some(ticks(90));
        assert!(!ids(&run).contains(&"other-load".to_owned()));
        assert!(not_judged(&run).iter().any(|judged| judged.id == "other-load"));
        seen(&mut run).whole.sum.counts.server_cpu_us = Some(30_000_000);
        assert!(!ids(&run).contains(&"other-load".to_owned()));
    }

    #[test]
    fn another_partition_of_the_same_disk_is_somebody_elses() {
        let with_disk = |more: u64| {
            move |run: &mut Run| {
                let devices = seen(run).whole.sum.devices.as_mut().unwrap();
                let mut disk = devices[0].clone();
                disk.name = "sda".into();
                disk.data = false;
                disk.counts.write_bytes += more;
                devices.push(disk);
            }
        };
        let run = gains(&["other-load"], with_disk(40 << 30));
        assert!(message(&run, "other-load").starts_with("the disk sda moved 40.0 GiB more"));
        gains(&[], with_disk(0));
    }

    #[test]
    fn what_a_file_of_the_remote_host_tells_is_used_and_named() {
        let run = gains(&["processor-bound", "steal"], |run| {
            run.details.target.local = false;
            run.details.target.in_process = false;
            run.details.server_os = run.details.os.take().map(|seen| crate::record::os::HostSeen {
                file: Some("dbhost.ndjson".into()),
                ..seen
            });
            run.summary.cpu =
                Some(CpuShare { user: 60.0, system: 30.0, iowait: 2.0, idle: 1.0, steal: 7.0 });
        });
        let told = message(&run, "processor-bound");
        assert!(told.contains("97.0 % busy (from dbhost.ndjson, host dbhost)"), "{told}");
        assert!(message(&run, "steal").contains("of the database's host"));
    }

    #[test]
    fn lost_sessions_gaps_and_partial_records() {
        let run = gains(&["lost-sessions", "partial-record", "gaps"], |run| {
            run.summary.sessions_lost = vec![SessionLost {
                session: 3,
                at_s: 12.5,
                code: "SQLITE_FULL".into(),
                message: "database or disk is full".into(),
            }];
            run.details.rebuilt = true;
            run.details.gaps = vec!["no closing snapshot".into()];
        });
        assert_eq!(
            message(&run, "lost-sessions"),
            "1 of 8 sessions ended before their time; the first was session 3 after 12.5 s: \
             database or disk is full (SQLITE_FULL)"
        );
    }

    #[test]
    fn calls_that_failed_are_counted() {
        let run = gains(&["io-errors"], |run| {
            run.summary.counters.insert("io_errors".into(), 3);
            run.summary.counters.insert("checkpoint_errors".into(), 1);
        });
        let told = message(&run, "io-errors");
        assert!(told.contains("locks): 3; checkpoints that failed: 1"), "{told}");
        gains(&[], |run| {
            run.summary.counters.insert("io_errors".into(), 0);
        });
    }

    #[test]
    fn wrong_blocks_are_an_error_and_no_gap() {
        let run = gains(&["bad-blocks"], |run| {
            run.details.bad_blocks = vec!["2 times a block was not what was written there".into()];
            run.summary.counters.insert("bad_blocks".into(), 2);
        });
        assert!(message(&run, "bad-blocks").starts_with("2 times"));
    }

    #[test]
    fn short_runs_by_time_or_by_work() {
        gains(&["short-run"], |run| {
            run.summary.settings.insert("run_time".into(), json!(10));
        });
        // Fixed work is judged by the time it took, not by the limit.
        gains(&["short-run"], |run| {
            run.summary.settings.insert("work_loop".into(), json!(1000));
            run.summary.elapsed_s = 12.0;
        });
    }

    #[test]
    fn steadiness_over_five_minutes() {
        let timeline = fixture::timeline(310);
        let long = |shape: fn(u64) -> u64| {
            let mut run = fixture::mixed_run();
            run.details.timeline = timeline.clone();
            for (index, second) in run.details.timeline.iter_mut().enumerate() {
                second.ops.total = second.ops.total * shape(index as u64) / 100;
            }
            if let Some(steady) = &mut run.summary.steady {
                steady.to_s = 310.0;
            }
            ids(&run)
        };
        let steady = long(|_| 100);
        assert!(!steady.iter().any(|id| id == "unstable" || id == "too-short-to-judge"));
        let falling = long(|index| 100 - index / 6);
        assert!(falling.contains(&"unstable".to_owned()), "{falling:?}");
        assert!(long(|index| if index == 100 { 10 } else { 100 }).contains(&"stalls".to_owned()));
    }

    #[test]
    fn stalls_name_what_stands_out() {
        let mut run = fixture::mixed_run();
        for second in &mut run.details.timeline {
            // The checkpoint of every tenth second now stops the sessions.
            if second.from_s as u64 % 10 == 9 {
                second.ops.total /= 10;
            }
        }
        let message = message(&run, "stalls");
        assert!(message.starts_with("6 of 55 seconds") && message.contains("(at 9 s, 19 s"));
        assert!(message.contains("more was written above the device (checkpoint)"), "{message}");
    }

    #[test]
    fn layers_are_compared_until_the_database_stopped_telling() {
        let whole = fixture::mixed_run();
        // Half of the run was counted: beside the whole of the device's work half would be missing.
        let half = |run: &mut Run| {
            let totals = figures::Totals::of(&whole.details.timeline[..30]);
            run.details.io = totals.io;
            run.details.files.iter_mut().for_each(|file| file.read_bytes /= 2);
            run.summary.counted_until = Some(CountedUntil {
                second: 30.0,
                of_s: run.summary.elapsed_s,
                db_time_s: run.details.db_time_s / 2.0,
                think_time_s: 0.0,
            });
        };
        gains(&[], half);
        let run = gains(&["other-load", "group-commit"], |run| {
            half(run);
            run.summary.counted_until = None;
            seen(run).whole.sum.counts.petal_read_bytes = None;
        });
        assert!(message(&run, "other-load").contains("more than the database asked for"));
    }

    #[test]
    fn seconds_in_which_petal_did_not_run_are_told() {
        let lost = |machine_s| Suspended { at_s: 3.0, lost_s: 6.1, machine_s };
        let run = gains(&["petal-suspended"], |run| {
            run.details.suspended = Some(vec![lost(0.0), Suspended { at_s: 9.0, ..lost(0.0) }]);
        });
        let told = message(&run, "petal-suspended");
        assert!(told.starts_with("petal did not run for 12.2 s of the run (2 times"), "{told}");
        let run = gains(&["petal-suspended"], |run| {
            run.details.suspended = Some(vec![lost(6.0)]);
        });
        let told = message(&run, "petal-suspended");
        assert!(told.contains("machine was suspended for 6.0 s"), "{told}");
        gains(&[], |run| run.details.suspended = Some(Vec::new()));
    }

    #[test]
    fn uneven_endpoints_and_a_backlog() {
        let endpoint = |name: &str, requests| Endpoint {
            endpoint: name.into(),
            sessions: 4,
            is_beside: false,
            read_us: None,
            io: IoCounts {
                physical_read_requests: Some(requests),
                physical_write_requests: Some(0),
                ..IoCounts::default()
            },
        };
        let with = |second: u64| {
            move |run: &mut Run| {
                run.summary.endpoints = vec![endpoint("node1", 1000), endpoint("node2", second)];
            }
        };
        gains(&["uneven-endpoints"], with(1120));
        gains(&[], with(1080));
        let without_sessions = |is_beside: bool| {
            move |run: &mut Run| {
                with(1080)(run);
                run.summary.endpoints.push(Endpoint {
                    sessions: 0,
                    is_beside,
                    ..endpoint("node3", 0)
                });
            }
        };
        let run = gains(&["uneven-endpoints"], without_sessions(false));
        assert!(message(&run, "uneven-endpoints").starts_with("no session ran on node3: "));
        let mut run = gains(&[], without_sessions(true));
        run.summary.endpoints[0].io.physical_read_requests = Some(2000);
        assert_eq!(
            message(&run, "uneven-endpoints"),
            "node2: requests per session are 29.9 % below the mean of all endpoints"
        );
        gains(&["backlog"], |run| run.details.backlog = Some(17));
    }
}
