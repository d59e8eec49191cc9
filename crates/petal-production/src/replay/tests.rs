use super::*;
use petal_record::profile::ProfileInterval;
use petal_record::server_work::WorkCount::*;

fn interval(begin: &str, rates: &[(WorkCount, f64)]) -> ProfileInterval {
    ProfileInterval {
        begin: Some(begin.to_owned()),
        length_s: 3600.0,
        inputs: vec![],
        per_second: rates.iter().copied().collect(),
        latency_us: BTreeMap::new(),
    }
}

fn profile(intervals: Vec<ProfileInterval>) -> Profile {
    let block_bytes = Some(8192);
    let profile = Profile { database: "PROD".into(), block_bytes, intervals, ..Profile::default() };
    petal_judge::profile::summarise(profile)
}

fn busy() -> Profile {
    profile(vec![
        interval("2026-11-22T09:00:00", &[(SingleBlockReads, 100.0), (Commits, 1.0)]),
        interval(
            "2026-11-22T10:00:00",
            &[
                (SingleBlockReads, 5000.0),
                (MultiBlockReads, 2.0),
                (MultiBlockReadBlocks, 100.0),
                (BlockWrites, 400.0),
                (Commits, 50.0),
                (RedoBytes, 150_000.0),
            ],
        ),
    ])
}

const TARGET: ReplayTarget = ReplayTarget {
    block_bytes: 8192,
    rows: 100_000,
    scan_rows: 1000,
    scan_bytes: 8_192_000,
    cache_bytes: Some(1 << 20),
    column_bytes: 128,
};

fn planned(profile: &Profile, trial: Option<&TrialMeasurements>) -> ReplayPlan {
    let time = (ReplayedPart::Busiest, Duration::from_secs(60));
    plan(profile, time, &TARGET, ReplayOptions::default(), trial).unwrap()
}

fn trial(reads: f64, writes: f64, redo: f64, redo_stress: RedoStress) -> TrialMeasurements {
    TrialMeasurements {
        seconds: 10.0,
        redo_stress,
        reads: Some(ReadCost { per_row: reads, per_operation: 0.0 }),
        writes_per_row: Some(writes),
        redo_per_row: Some(redo),
        other_redo_per_row: None,
    }
}

#[test]
fn the_busiest_interval_becomes_operations() {
    let plan = planned(&busy(), None);
    // 8 writes a commit; 5000 - 50 x 8 blocks left to SELECTs of 5.
    assert_eq!((plan.update_work_unit, plan.work_unit), (8, 5));
    let parameters = plan.parameters();
    let shown = |key: &str| parameters[key].as_str();
    assert_eq!(
        [shown("SELECT_RATE"), shown("UPDATE_RATE"), shown("SCAN_RATE")],
        ["920", "50", "0.1"]
    );
    // 3000 bytes a commit over 8 rows is nearer to two columns.
    assert_eq!(shown("REDO_STRESS"), "LITE");
    assert!(plan.of.time.starts_with("busiest interval, from 2026-11-22T10:00:00"));
    assert_eq!(plan.of.per_second[&Commits], 50.0);
    let lines = plan.of.not_imitated.join("\n");
    assert_eq!(plan.assumed, [SingleBlockReads, BlockWrites, RedoBytes]);
    assert!(
        lines.contains("no trial measured single-block reads, block writes, redo bytes")
            && lines.contains("redo bytes: 1.08x of production's: guessed by the width"),
        "{lines}"
    );
}

#[test]
fn a_trial_corrects_reads_and_writes_and_reports_the_rest() {
    // Half of the rows come from a cache, blocks are written twice, and redo is 16 times as much.
    let tried = trial(0.5, 2.0, 12_000.0, RedoStress::Lite);
    let plan = planned(&busy(), Some(&tried));
    assert_eq!(plan.update_work_unit, 4);
    let ratio = |figure| (plan.ratio(figure).unwrap() * 100.0).round() / 100.0;
    assert_eq!([SingleBlockReads, BlockWrites, Commits].map(ratio), [1.0, 1.0, 1.0]);
    assert_eq!(ratio(RedoBytes), 16.0);
    assert_eq!(
        plan.of.not_imitated[0],
        "redo bytes: 16.00x of production's: the target logs so much for the same changes"
    );
}

#[test]
fn reads_of_an_index_are_taken_from_those_of_the_rows() {
    let index = ReadCost { per_row: 1.0, per_operation: 2.0 };
    let tried =
        TrialMeasurements { reads: Some(index), ..trial(1.0, 1.0, 400.0, RedoStress::Lite) };
    let plan = planned(&busy(), Some(&tried));
    // 5000 - 50 x (8 + 2) blocks are left to SELECTs of 3 + 2.
    assert_eq!((plan.work_unit, plan.parameters()["SELECT_RATE"].as_str()), (3, "900"));
    assert_eq!(plan.ratio(SingleBlockReads), Some(1.0));
}

#[test]
fn a_cache_that_serves_the_reads_is_reported_and_not_outrun() {
    let tried = trial(0.01, 1.0, 400.0, RedoStress::Lite);
    let plan = planned(&busy(), Some(&tried));
    assert_eq!(plan.parameters()["SELECT_RATE"], "920");
    let reported = &plan.of.not_imitated[0];
    assert!(
        reported.starts_with("single-block reads: 0.01x") && reported.contains("from a cache"),
        "{reported}"
    );
}

#[test]
fn writes_that_are_no_whole_number_of_blocks_are_reported() {
    let odd = profile(vec![interval(
        "2026-11-22T10:00:00",
        &[(SingleBlockReads, 500.0), (BlockWrites, 24.0), (Commits, 10.0)],
    )]);
    let plan = planned(&odd, Some(&trial(1.0, 1.0, 400.0, RedoStress::Lite)));
    assert_eq!(plan.update_work_unit, 2);
    let reported =
        plan.of.not_imitated.iter().find(|line| line.starts_with("block writes")).unwrap();
    assert!(
        reported.contains("0.83x") && reported.ends_with("a whole number of blocks, 2"),
        "{reported}"
    );
    assert!(plan.of.not_imitated.iter().any(|line| line.starts_with("redo is not in the profile")));
}

#[test]
fn more_redo_takes_all_columns_and_scans_need_a_table() {
    let mut heavy = busy();
    heavy.intervals[1].per_second.insert(RedoBytes, 50.0 * 20_000.0);
    assert_eq!(planned(&heavy, None).redo_stress, RedoStress::Heavy);
    // A trial of LITE that logs much more than guessed needs no HEAVY.
    let tried = trial(1.0, 1.0, 2400.0, RedoStress::Lite);
    assert_eq!(planned(&heavy, Some(&tried)).redo_stress, RedoStress::Lite);
    let bare = ReplayTarget { scan_rows: 0, scan_bytes: 0, ..TARGET };
    let time = (ReplayedPart::Busiest, Duration::from_secs(60));
    let plan = plan(&busy(), time, &bare, ReplayOptions::default(), None).unwrap();
    assert!(plan.scan_rate.is_zero());
    assert!(plan.of.not_imitated.iter().any(|line| line.contains("100.0 blocks/s, are left out")));
}

#[test]
fn the_kind_of_update_whose_redo_is_nearer_is_taken_by_trials_of_both() {
    let mut paged = busy();
    paged.intervals[1].per_second.insert(RedoBytes, 50.0 * 8.0 * 2500.0);
    // A guess from the columns alone is HEAVY. A trial of it also finds page images, which the
    // other kind logs, too.
    assert_eq!(planned(&paged, None).redo_stress, RedoStress::Heavy);
    let heavy = trial(1.0, 1.0, 4000.0, RedoStress::Heavy);
    let second = planned(&paged, Some(&heavy));
    assert_eq!((second.redo_stress, &*second.assumed), (RedoStress::Lite, [RedoBytes].as_slice()));
    let lite = trial(1.0, 1.0, 2400.0, RedoStress::Lite).after(Some(&heavy));
    let last = planned(&paged, Some(&lite));
    assert_eq!((last.redo_stress, last.ratio(RedoBytes)), (RedoStress::Lite, Some(0.96)));
    // It logs much less than its columns reported: the kind that was tried before is nearer.
    let less = trial(1.0, 1.0, 500.0, RedoStress::Lite).after(Some(&heavy));
    let last = planned(&paged, Some(&less));
    assert_eq!((last.redo_stress, last.ratio(RedoBytes)), (RedoStress::Heavy, Some(1.6)));
}

#[test]
fn all_intervals_are_played_in_the_length_of_the_run() {
    let time = (ReplayedPart::All, Duration::from_secs(60));
    let plan = plan(&busy(), time, &TARGET, ReplayOptions::default(), None).unwrap();
    assert_eq!(plan.update_rate.to_string(), "0:1 30:50");
    // Commits are known of both hours, writes of one.
    assert_eq!(plan.of.per_second[&Commits], 25.5);
}

#[test]
fn an_idle_database_and_an_empty_profile_are_refused() {
    let time = (ReplayedPart::Busiest, Duration::from_secs(60));
    let refused = |profile: &Profile| {
        plan(profile, time, &TARGET, ReplayOptions::default(), None).unwrap_err().to_string()
    };
    let idle = profile(vec![interval("2026-11-22T10:00:00", &[(SingleBlockReads, 0.01)])]);
    assert!(refused(&idle).contains("nothing to scale"));
    let blind = profile(vec![interval("2026-11-22T10:00:00", &[(BlockWrites, 70.0)])]);
    assert!(refused(&blind).contains("neither single-block reads nor commits"));
}
