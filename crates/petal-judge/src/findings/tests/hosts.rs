//! Runs of several driver hosts.

use super::{gains, message};
use petal_record::driver_hosts::{CommonStart, HostRun, HostShare, StartedBy};
use petal_record::{Run, Status, fixture};
use petal_workload::share::Share;

/// Four equal hosts, begun together by the database's clock.
pub(super) fn hosts(run: &mut Run) -> &mut Vec<HostRun> {
    let host = |number: u32| HostRun {
        share: HostShare {
            share: Share { number, of: 4 },
            plan_sessions: 8,
            host: format!("node{number}"),
            boot_id: Some(format!("boot{number}")),
            counts_database: number == 1,
            counted_all: false,
            start: CommonStart {
                by: StartedBy::DatabaseClock,
                clock_ahead_s: Some(0.001),
                ..CommonStart::default()
            },
        },
        status: Some(Status::Complete),
        sessions: 2,
        elapsed_s: 60.0,
        triggered_after_s: Some(0.002),
        ops_per_second: Some(500.0),
        petal_cpu_s: Some(6.0),
        processors: Some(2.0),
        ..HostRun::default()
    };
    run.summary.hosts = (1..=4).map(host).collect();
    &mut run.summary.hosts
}

fn changed(change: impl Fn(&mut Vec<HostRun>)) -> impl Fn(&mut Run) {
    move |run| change(hosts(run))
}

#[test]
fn equal_hosts_are_no_finding() {
    gains(&[], changed(|_| ()));
}

#[test]
fn a_host_without_a_whole_record_is_named() {
    let run = gains(
        &["incomplete-hosts"],
        changed(|hosts| {
            hosts[1] = HostRun {
                share: HostShare { share: Share { number: 2, of: 4 }, ..HostShare::default() },
                ..HostRun::default()
            };
            hosts[3].rebuilt = true;
            hosts[3].elapsed_s = 12.0;
        }),
    );
    let words = message(&run, "incomplete-hosts");
    assert!(words.contains("share 2 left no record"), "{words}");
    assert!(words.contains("killed on share 4 (node4) after 12 s"), "{words}");
}

#[test]
fn a_slower_host_is_named_from_five_percent_on() {
    gains(&[], changed(|hosts| hosts[2].ops_per_second = Some(480.0)));
    let run = gains(&["uneven-hosts"], changed(|hosts| hosts[2].ops_per_second = Some(300.0)));
    let words = message(&run, "uneven-hosts");
    assert!(words.contains("share 3 (node3)") && words.contains("-33 %"), "{words}");
    // A host with fewer sessions does less, and that is even.
    gains(
        &[],
        changed(|hosts| {
            (hosts[3].sessions, hosts[3].ops_per_second) = (1, Some(250.0));
        }),
    );
}

#[test]
fn hosts_that_began_apart_or_do_not_know_it_are_reported() {
    gains(&["uneven-start"], changed(|hosts| hosts[3].triggered_after_s = Some(0.4)));
    let by_own_clocks = |synchronised| {
        changed(move |hosts| {
            for host in hosts {
                host.share.start =
                    CommonStart { by: StartedBy::OwnClock, synchronised, ..CommonStart::default() };
            }
        })
    };
    gains(&[], by_own_clocks(Some(true)));
    gains(&["uneven-start"], by_own_clocks(Some(false)));
    let run = gains(&["uneven-start"], by_own_clocks(None));
    assert!(message(&run, "uneven-start").contains("unknown whether all hosts started"));
    // On one machine there is one clock.
    gains(&[], |run| {
        by_own_clocks(None)(run);
        for host in &mut run.summary.hosts {
            host.share.boot_id = Some("one".into());
        }
    });
}

#[test]
fn petal_is_the_limit_where_it_fills_one_machine() {
    let with = |petal_cpu_s: f64, boot_id: &'static str| {
        move |run: &mut Run| {
            run.details.target.in_process = false;
            for host in &mut hosts(run)[1..=2] {
                host.petal_cpu_s = Some(petal_cpu_s);
                host.share.boot_id = Some(boot_id.to_owned() + &host.share.host);
                if boot_id == "shared" {
                    host.share.boot_id = Some(boot_id.to_owned());
                }
            }
        }
    };
    let is_bound = |change: &dyn Fn(&mut Run)| {
        let mut run = fixture::mixed_run();
        change(&mut run);
        super::ids(&run).contains(&"generator-bound".to_owned())
    };
    assert!(!is_bound(&with(70.0, "own")));
    assert!(is_bound(&with(115.0, "own")));
    // Two shares of one machine fill it together.
    assert!(is_bound(&with(70.0, "shared")));
}

#[test]
fn one_share_alone_is_named_as_such() {
    let share = |counts_database| {
        move |run: &mut Run| {
            run.details.target.in_process = false;
            run.summary.share = Some(HostShare {
                share: Share { number: 2, of: 4 },
                plan_sessions: 8,
                counts_database,
                ..HostShare::default()
            });
        }
    };
    let mut run = fixture::mixed_run();
    share(false)(&mut run);
    assert!(message(&run, "one-share").contains("share 2 of 4"));
    assert!(message(&run, "one-share").contains("in the record of share 1"));
    // The database's work for all shares is not compared with this share's requests.
    run.details.io.physical_read_blocks = run.details.io.physical_read_blocks.map(|n| n * 4);
    assert!(!super::ids(&run).contains(&"extra-reads".to_owned()));
}
