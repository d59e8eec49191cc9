//! Every text report on terminals of several widths: no line is longer than the terminal.

use std::collections::BTreeMap;

use petal_awr::samples::{SAMPLES, sample};
use petal_host::host::{HostDevice, HostFacts};
use petal_judge::compare::history::{DAY, history};
use petal_judge::compare::limits::hold;
use petal_judge::compare::{ComparedSide, Comparison, Rules, compare};
use petal_judge::petals::Petals;
use petal_judge::{break_point, host, predict};
use petal_record::connections::Outage;
use petal_record::costs::Costs;
use petal_record::{Run, fixture, observation::Observation, plain_csv};

use super::table::within;
use super::{
    awr, calibration, checks, compare as compared, costs, costs_compare, history as over_groups,
    one_screen, predict as predicted, profile, replay, sweep, text,
};

const WIDTHS: [usize; 8] = [60, 70, 80, 90, 100, 105, 112, 120];
const TWO_NODES: &str = include_str!("../../../tests/samples/compression-two-nodes.csv");
const FLASH: &str = include_str!("../../../tests/samples/flash-pcie.csv");

/// Lines that are longer than the terminal, but for those that nothing may break: a command or a
/// line to paste, and a single word.
fn long_lines(shown: &str, columns: usize) -> Vec<&str> {
    let is_whole = |line: &str| {
        let is_to_paste = line.contains(" | served by: ");
        is_to_paste || line.starts_with("    $ ") || !line.trim().contains(' ')
    };
    let is_long = |line: &&str| line.chars().count() > columns && !is_whole(line);
    shown.lines().filter(is_long).collect()
}

/// Lays the report out at each width, and adds its name and its long lines to `found`.
fn look(found: &mut Vec<String>, name: &str, report: impl Fn() -> String) {
    for columns in WIDTHS {
        let shown = within(columns, &report);
        assert!(!shown.trim().is_empty(), "{name}");
        let long = long_lines(&shown, columns);
        found.extend(long.iter().take(4).map(|line| format!("{name} at {columns}: {line}")));
    }
}

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
    let mut found = Vec::new();
    for (name, run) in runs() {
        look(&mut found, name, || text::render(&run));
        let place = format!("petal-results/20261120T140000Z-{name}");
        look(&mut found, &format!("{name}, brief"), || text::brief(&run, &place));
        look(&mut found, &format!("{name}, twice"), || {
            let named = [("20261120T140000Z-sqlite-8x-u20", &run), ("another", &run)];
            sweep::of_runs(&named) + &sweep::brief_of_runs(&named)
        });
    }

    let swept = sweep::tests::swept();
    let petals = Petals::of(&swept.observations());
    look(&mut found, "sweep", || sweep::render(&swept, &petals, None));
    look(&mut found, "sweep, brief", || sweep::brief(&swept, &petals, None, "results/sweep"));
    look(&mut found, "petals", || sweep::of_petals("results/sweep", &petals, None));

    let comparison = comparison();
    let held = ["reads_s < -25%"].map(|limit| hold(&limit.parse().unwrap(), &comparison));
    look(&mut found, "compare", || compared::render(&comparison, &held));
    look(&mut found, "compare, brief", || one_screen::of_comparison(&comparison, &held));

    let nights: Vec<Observation> = swept.observations();
    let nights = nights.into_iter().enumerate().map(|(night, seen)| {
        let day = format!("2026-11-{:02}T02:00:00Z", night + 1);
        Observation { started_at: Some(day), ..seen }
    });
    let over = history(&nights.collect::<Vec<_>>(), DAY, &[]).unwrap();
    look(&mut found, "history", || over_groups::render(&over, &held));
    look(&mut found, "history, brief", || one_screen::of_history(&over, &held));

    let priced = include_str!("../../../tests/data/costs/costs.json");
    let priced: Costs = serde_json::from_str(priced).unwrap();
    look(&mut found, "costs", || costs::render(&priced));
    let change = petal_judge::costs_compare::compare(&priced, &priced);
    look(&mut found, "two costs", || costs_compare::render(["A", "B"], &priced, &priced, &change));

    let measured = fixture::calibration();
    look(&mut found, "calibrate", || calibration::render(&measured));
    look(&mut found, "calibrate, brief", || calibration::brief(&measured));

    let rows = plain_csv::parse(FLASH, "flash-pcie.csv", None).unwrap();
    let lines = predict::predict(&Petals::of(&rows), &[12, 24, 48], None);
    look(&mut found, "predict", || predicted::render(&lines));
    look(&mut found, "predict, brief", || predicted::brief(&lines));

    let replayed = fixture::replay_sweep(&[(1.0, 1, 0), (2.0, 1, 0), (4.0, 1, 900)]);
    let fit = break_point::of(&replayed, None).unwrap();
    look(&mut found, "replay", || replay::break_point(&fit) + &replay::brief(&fit));

    let reports: Vec<_> = SAMPLES.iter().map(|(name, _)| sample(name)).collect();
    look(&mut found, "awr", || awr::table::render(&reports, false));
    look(&mut found, "awr, brief", || awr::table::brief(&reports, false));
    look(&mut found, "awr events", || awr::events::render(&reports));
    let over_time = petal_judge::awr::over_time::of(&reports);
    look(&mut found, "awr over time", || awr::over_time::render(&over_time));
    look(&mut found, "awr over time, brief", || awr::over_time::brief(&over_time));
    let parts = reports.iter().take(1).map(petal_judge::awr::to_profile::part);
    let load = petal_judge::profile::parts::profile(parts.collect()).unwrap();
    look(&mut found, "profile", || profile::render(&load));

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
    look(&mut found, "check", || checks::render(&checked));
    look(&mut found, "check, brief", || checks::brief(&checked));
    assert_eq!(found, [""; 0], "{}", found.join("\n"));
}
