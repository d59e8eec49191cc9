//! Tests of findings on the record: whole, long enough, steady.

use super::super::{judge, not_judged};
use super::{gains, ids, message};
use petal_host::histogram::LatencySummary;
use petal_record::counters::IoCounts;
use petal_record::{EndpointShare, Run, SessionLost, Severity, Suspended, fixture};
use serde_json::json;

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
fn counters_that_began_again_and_latencies_that_are_unknown_are_warnings() {
    let reset = || vec!["db: pg began again".to_owned()];
    let run = gains(&["counters-reset"], |run| run.details.counter_resets = reset());
    assert!(message(&run, "counters-reset").contains("db: pg began again"));
    let run = gains(&["latencies-unknown"], |run| run.details.ops_untimed = Some(12));
    assert!(message(&run, "latencies-unknown").contains("of 12 of "));
    gains(&[], |run| run.details.ops_untimed = Some(0));
}

#[test]
fn a_run_is_as_short_as_it_was_not_as_was_asked() {
    // RUN_TIME is 60.
    let run = gains(&["short-run"], |run| {
        run.summary.elapsed_s = 4.0;
        run.details.last_done_s = Some(4.0);
    });
    // One finding for one fact.
    assert!(!ids(&run).contains(&"too-short-to-judge".to_owned()));
    // The sessions thought, or waited for their turn, until the end.
    gains(&[], |run| run.summary.elapsed_s = 29.0);
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
    for id in ["cached-by-os", "processor-bound", "deferred-writes", "moved-rows", "wrong-plan"] {
        assert!(unseen.contains(&id), "{id} in {unseen:?}");
    }
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
fn a_run_whose_operations_were_all_cut_has_an_error() {
    let run = gains(&["nothing-done"], |run| {
        run.summary.ops = petal_record::Ops { cut: 8, ..Default::default() };
    });
    let said = message(&run, "nothing-done");
    assert!(said.starts_with("no operation ended: 8 operations waited"), "{said}");
    assert!(said.contains("most of the time sessions waited for"), "{said}");
    gains(&[], |run| run.summary.ops.cut = 8);
}

#[test]
fn calls_that_failed_are_counted() {
    let run = gains(&["io-errors"], |run| {
        run.summary.counters.insert("io_errors".into(), 3);
        run.summary.counters.insert("checkpoint_errors".into(), 1);
    });
    let reported = message(&run, "io-errors");
    assert!(reported.contains("locks): 3; checkpoints that failed: 1"), "{reported}");
    gains(&[], |run| {
        run.summary.counters.insert("io_errors".into(), 0);
    });
}

#[test]
fn wrong_blocks_are_an_error_and_no_gap() {
    let run = gains(&["bad-blocks"], |run| {
        run.details.bad_blocks =
            vec!["2 times petal read a block that is not the one it wrote".into()];
        run.summary.counters.insert("bad_blocks".into(), 2);
    });
    assert!(message(&run, "bad-blocks").starts_with("2 times"));
}

#[test]
fn a_short_time_is_a_short_run_and_fixed_work_is_not() {
    gains(&["short-run"], |run| {
        run.summary.settings.insert("run_time".into(), json!(10));
    });
    gains(&[], |run| {
        run.summary.settings.insert("work_loop".into(), json!(1000));
        run.summary.settings.insert("run_time".into(), json!(10));
        run.summary.elapsed_s = 12.0;
    });
}

#[test]
fn steadiness_over_five_minutes() {
    let timeline = fixture::timeline(310);
    let long = |shape: fn(u64) -> u64| {
        let mut run = fixture::mixed_run();
        run.details.timeline = timeline.clone().into();
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
fn stalls_name_unusual_figures() {
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
fn seconds_in_which_petal_did_not_run_are_reported() {
    let lost = |machine_s| Suspended { at_s: 3.0, lost_s: 6.1, machine_s };
    let run = gains(&["petal-suspended"], |run| {
        run.details.suspended = Some(vec![lost(0.0), Suspended { at_s: 9.0, ..lost(0.0) }]);
    });
    let reported = message(&run, "petal-suspended");
    assert!(reported.starts_with("petal did not run for 12.2 s of the run (2 times"), "{reported}");
    let run = gains(&["petal-suspended"], |run| {
        run.details.suspended = Some(vec![lost(6.0)]);
    });
    let reported = message(&run, "petal-suspended");
    assert!(reported.contains("machine was suspended for 6.0 s"), "{reported}");
    gains(&[], |run| run.details.suspended = Some(Vec::new()));
}

#[test]
fn uneven_endpoints_and_a_backlog() {
    let endpoint = |name: &str, requests| EndpointShare {
        endpoint: name.into(),
        sessions: 4,
        is_beside: false,
        is_standby: false,
        replayed_blocks: None,
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
            run.summary.endpoints.push(EndpointShare {
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
    // A primary does the UPDATEs of the sessions on its standbys.
    let roles = |second: u64| {
        move |run: &mut Run| {
            let standby = |name, requests| EndpointShare {
                is_standby: true,
                replayed_blocks: Some(7),
                ..endpoint(name, requests)
            };
            run.summary.endpoints =
                vec![endpoint("primary", 9000), standby("one", 1000), standby("two", second)];
        }
    };
    gains(&[], roles(1010));
    let run = gains(&["uneven-endpoints"], roles(1500));
    assert!(message(&run, "uneven-endpoints").ends_with("the mean of all standbys"));
    let run = gains(&["standby-replay"], |run| {
        roles(1010)(run);
        run.summary.counters.insert("blocks_written_by_replay".into(), 14);
    });
    assert!(message(&run, "standby-replay").starts_with("standbys (one, two) wrote 14 blocks"));
    gains(&["backlog"], |run| run.details.backlog = Some(17));
}

#[test]
fn time_that_no_session_accounts_for_is_named() {
    // DB time and think time are half of this share each.
    let spent = |share: f64| {
        let mut run = fixture::windowed_run();
        run.summary.settings.insert("think_tm_max".to_owned(), json!(0.001));
        let steady = run.summary.steady.as_ref().unwrap();
        let sessions_s = f64::from(run.summary.sessions) * (steady.to_s - steady.from_s);
        let totals = run.details.steady.as_mut().unwrap();
        (totals.db_time_s, totals.think_time_s) =
            (sessions_s * share / 2.0, sessions_s * share / 2.0);
        run
    };
    let found = |run: Run| {
        let found = judge(&run).into_iter().find(|finding| finding.id == "time-missing");
        found.map(|finding| (finding.severity, finding.message))
    };
    assert_eq!(found(spent(0.985)), None);
    assert_eq!(found(spent(1.015)), None);
    let (severity, message) = found(spent(0.95)).unwrap();
    assert!(severity == Severity::Info && message.contains("5.0 % of their time"), "{message}");
    let (severity, message) = found(spent(1.04)).unwrap();
    assert!(severity == Severity::Warning && message.contains("4.0 % more"), "{message}");
    let without = |share: f64, change: &dyn Fn(&mut Run)| {
        let mut run = spent(share);
        change(&mut run);
        assert_eq!(found(run), None);
    };
    // A long sleep may count on the other side of a bound. A run without think time has no sleep.
    let sleeps_long = |run: &mut Run| {
        run.summary.settings.insert("think_tm_max".to_owned(), json!(3.0));
    };
    without(1.04, &sleeps_long);
    let mut busy = spent(0.95);
    sleeps_long(&mut busy);
    let totals = busy.details.steady.as_mut().unwrap();
    totals.db_time_s += std::mem::take(&mut totals.think_time_s);
    assert!(found(busy).is_some());
    // A session of an open loop waits for the next arrival, which is in neither.
    without(0.5, &|run| run.details.backlog = Some(0));
    without(0.5, &|run| {
        let steady = run.summary.steady.as_mut().unwrap();
        steady.to_s = steady.from_s + 9.0;
    });
    // A lost session has no time from then on.
    let lost = SessionLost { session: 2, at_s: 20.0, code: "7".into(), message: "gone".into() };
    without(0.9, &|run| run.summary.sessions_lost = vec![lost.clone()]);
    without(0.9, &|run| run.details.rebuilt = true);
    // Operations in flight together take longer than the time of their session.
    without(8.0, &|run| {
        run.summary.settings.insert("io_depth".to_owned(), json!(8));
    });
}

#[test]
fn lateness_matters_only_beside_response_times() {
    let late_by = |late_us: f64| {
        move |run: &mut Run| {
            let all = LatencySummary { count: 5, p50: Some(late_us), ..LatencySummary::default() };
            run.summary.latency_us.insert("lateness".to_owned(), all.clone());
            run.details.op_response_us = Some(LatencySummary { p50: Some(200.0), ..all });
        }
    };
    gains(&[], late_by(20.0));
    gains(&["late-start"], late_by(21.0));
}

/// Judged by the planned length: the first seconds of a run are no fault, and others' work in them is
/// seen.
#[test]
fn a_run_that_goes_on_names_others_work_and_not_its_own_first_seconds() {
    let run = super::gains(&["other-load"], |run| {
        run.details.rebuilt = true;
        run.details.rebuilt_because = Some(petal_record::RebuiltBecause::StillRunning);
        run.summary.elapsed_s = 3.0;
        run.details.last_done_s = Some(3.0);
        run.summary.ops = petal_record::Ops { select: 6, total: 6, ..run.summary.ops };
        run.details.other_runs.push("another petal run".into());
    });
    let ids = super::ids(&run);
    let hidden = ["short-run", "partial-record", "too-few-operations"];
    assert!(hidden.iter().all(|id| !ids.contains(&(*id).to_owned())), "{ids:?}");
}
