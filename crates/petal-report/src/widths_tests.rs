//! Every text report on terminals of several widths: no line is longer than the terminal.

use std::collections::BTreeMap;

use petal_host::host::{HostDevice, HostFacts};
use petal_judge::compare::history::{DAY, history};
use petal_judge::compare::limits::hold;
use petal_judge::compare::{ComparedSide, Comparison, Rules, compare};
use petal_judge::petals::Petals;
use petal_judge::{break_point, host};
use petal_record::connections::Outage;
use petal_record::{Run, fixture, observation::Observation, plain_csv};

use super::widths::look;
use super::{checks, compare as compared, history as over_groups, one_screen, replay, sweep, text};

const TWO_NODES: &str = include_str!("../../../tests/samples/compression-two-nodes.csv");

fn judged(mut run: Run) -> Run {
    petal_judge::conclude(&mut run);
    run
}

fn runs() -> BTreeMap<&'static str, Run> {
    let mut timed = fixture::windowed_run();
    fixture::time_threads(&mut timed, 1.0);
    let mut disturbed = fixture::mixed_run();
    let outage = Outage {
        first_error_s: 10.25,
        last_success_s: Some(10.2),
        first_success_s: Some(43.9),
        down_s: Some(33.7),
        half_rate_after_s: Some(34.1),
        sessions: 8,
        lost_at: BTreeMap::from([("db-node-1.example.com:5432".to_owned(), 8)]),
        back_at: BTreeMap::from([("db-node-2.example.com:5432".to_owned(), 8)]),
        errors: BTreeMap::from([("57P01".to_owned(), 8)]),
        ..Outage::default()
    };
    disturbed.summary.outages = Some(vec![outage; 2]);
    let dir = tempfile::tempdir().unwrap();
    fixture::killed_run(dir.path(), 4);
    let killed = petal_record::load(dir.path()).unwrap();
    let neighbour = super::run::interference::fixture();
    [("run", timed), ("outages", disturbed), ("killed", killed), ("neighbour", neighbour)]
        .map(|(name, run)| (name, judged(run)))
        .into()
}

fn comparison() -> Comparison {
    let rows = plain_csv::parse(TWO_NODES, "two-nodes.csv", None).unwrap();
    let sides = ComparedSide::split("two-nodes.csv", rows, "compression", None).unwrap();
    compare(&sides, &Rules::default()).unwrap()
}

#[test]
fn no_line_of_a_report_is_longer_than_the_terminal() {
    for (name, run) in runs() {
        look(name, || text::render(&run));
        let place = format!("petal-results/20261120T140000Z-{name}");
        look(&format!("{name}, brief"), || text::brief(&run, &place));
        look(&format!("{name}, twice"), || {
            let named = [("20261120T140000Z-sqlite-8x-u20", &run), ("another", &run)];
            sweep::of_runs(&named) + &sweep::brief_of_runs(&named)
        });
    }

    let swept = sweep::tests::swept();
    let petals = Petals::of(&swept.observations());
    look("sweep", || sweep::render(&swept, &petals, None));
    look("sweep, brief", || sweep::brief(&swept, &petals, None, "results/sweep"));
    look("petals", || sweep::of_petals("results/sweep", &petals, None));

    let comparison = comparison();
    let held = ["reads_s < -25%"].map(|limit| hold(&limit.parse().unwrap(), &comparison));
    look("compare", || compared::render(&comparison, &held));
    look("compare, brief", || one_screen::of_comparison(&comparison, &held));

    let nights: Vec<Observation> = swept.observations();
    let nights = nights.into_iter().enumerate().map(|(night, seen)| {
        let day = format!("2026-11-{:02}T02:00:00Z", night + 1);
        Observation { started_at: Some(day), ..seen }
    });
    let over = history(&nights.collect::<Vec<_>>(), DAY, &[]).unwrap();
    look("history", || over_groups::render(&over, &held));
    look("history, brief", || one_screen::of_history(&over, &held));

    let replayed = fixture::replay_sweep(&[(1.0, 1, 0), (2.0, 1, 0), (4.0, 1, 900)]);
    let fit = break_point::of(&replayed, None).unwrap();
    look("replay", || replay::break_point(&fit) + &replay::brief(&fit));

    let host = HostFacts {
        cpus: 4,
        cpu_quota: Some(1.5),
        governor: Some("powersave".into()),
        product: Some("QEMU Standard PC".into()),
        virtual_machine: Some(true),
        devices: vec![HostDevice {
            name: "nvme0n1".into(),
            mount_options: Some(
                "rw,relatime,discard,resv_strict,resuid=65534,resgid=65534,data=ordered".into(),
            ),
            file_system: Some("ext4".into()),
            scheduler: Some("bfq".into()),
            ..HostDevice::default()
        }],
        ..HostFacts::default()
    };
    let checked = host::check(&host);
    look("check", || checks::render(&checked));
    look("check, brief", || checks::brief(&checked));
}
