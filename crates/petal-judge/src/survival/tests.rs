use super::*;
use petal_record::ledger::{LedgerHeader, LedgerSchema};
use proptest::prelude::*;

const ROWS: u64 = 6;

fn ledger(commits: Vec<Acknowledged>) -> Ledger {
    let mut commits = commits;
    commits.sort_by_key(|commit| commit.version);
    Ledger {
        header: LedgerHeader {
            format: String::new(),
            petal_version: String::new(),
            url: String::new(),
            opened_at: String::new(),
            stamp_mask: 0x1234_5678_9abc,
            sessions: 4,
            share: None,
            heavy: false,
            rows: ROWS,
            schemas: vec![LedgerSchema { number: 1, load: String::new() }],
        },
        shares: BTreeSet::new(),
        commits,
        ending: Ending::Whole,
        trigger_utc_us: Some(1_700_000_000_000_000),
        triggers_apart_us: 0,
        last_ns: 1000,
    }
}

/// Builds a commit of key `first` and the next.
fn commit(session: u32, sequence: u64, first: u64, time: (u64, u64)) -> Acknowledged {
    let version = Version { session, sequence };
    Acknowledged { version, schema: 1, first, rows: 2, begin_ns: time.0, end_ns: time.1 }
}

/// The verdict if each row holds this version; None is the load's.
fn judged(ledger: &Ledger, rows: &[Option<(u32, u64)>]) -> Verification {
    let mut survival = Survival::new(ledger);
    let stamps = RunStamps::of_mask(ledger.header.stamp_mask);
    for (row, key) in rows.iter().zip(1..) {
        let loaded = load_stamp(1, key);
        let row =
            row.map_or(loaded, |(session, sequence)| stamps.stamp(Version { session, sequence }));
        survival.found(1, key, Ok(RowStamps { row, rest: loaded }));
    }
    survival.judge("db", None)
}

/// Lost commits and lost rows.
fn lost(ledger: &Ledger, rows: &[Option<(u32, u64)>]) -> (u64, u64) {
    let verdict = judged(ledger, rows);
    let all = verdict.survived_commits + verdict.lost_commits + verdict.unknown_commits;
    assert_eq!(verdict.acknowledged_commits, all);
    assert_eq!(verdict.is_kept(), verdict.lost_commits == 0 && verdict.bad_rows == 0);
    (verdict.lost_commits, verdict.lost_rows)
}

#[test]
fn a_row_that_holds_its_last_version_lost_nothing() {
    let ledger = ledger(vec![commit(1, 3, 1, (10, 20)), commit(2, 7, 2, (30, 40))]);
    let kept = [Some((1, 3)), Some((2, 7)), Some((2, 7))];
    assert_eq!(lost(&ledger, &kept), (0, 0));
    let verdict = judged(&ledger, &kept);
    assert_eq!((verdict.lost_span_ms, verdict.unacknowledged_rows), (None, 0));
    // An older version, the load's, and each of them for one row alone.
    assert_eq!(lost(&ledger, &[Some((1, 3)), Some((1, 3)), Some((2, 7))]), (1, 1));
    assert_eq!(lost(&ledger, &[None, Some((2, 7)), Some((2, 7))]), (1, 1));
    assert_eq!(lost(&ledger, &[None, None, None]), (2, 3));
}

#[test]
fn commits_that_overlap_may_be_in_either_order() {
    let ledger = ledger(vec![commit(1, 3, 1, (10, 30)), commit(2, 7, 1, (20, 40))]);
    for held in [(1, 3), (2, 7)] {
        assert_eq!(lost(&ledger, &[Some(held); 2]), (0, 0), "{held:?}");
    }
    assert_eq!(lost(&ledger, &[Some((1, 3)), None]), (2, 1));
}

#[test]
fn a_session_works_in_order_however_loose_its_bounds_are() {
    let ledger = ledger(vec![commit(1, 3, 1, (0, 100)), commit(1, 4, 1, (0, 100))]);
    assert_eq!(lost(&ledger, &[Some((1, 4)); 2]), (0, 0));
    assert_eq!(lost(&ledger, &[Some((1, 3)); 2]), (1, 2));
}

#[test]
fn a_version_that_was_never_acknowledged_is_allowed_while_it_may_have_been_in_flight() {
    let commits =
        vec![commit(1, 3, 1, (10, 20)), commit(2, 7, 1, (50, 60)), commit(1, 9, 3, (30, 40))];
    let ledger = ledger(commits);
    let rest = [Some((1, 9)), Some((1, 9))];
    // Its session did nothing later: it may be the last of all.
    let in_flight = [&[Some((1, 12)); 2][..], &rest].concat();
    assert_eq!(lost(&ledger, &in_flight), (0, 0));
    let verdict = judged(&ledger, &in_flight);
    assert_eq!((verdict.unacknowledged_rows, verdict.unacknowledged_versions), (2, 1));
    // It was over at 40, and the other session's commit began after that. In its session it is the
    // later commit on the row.
    let failed = [&[Some((1, 5)); 2][..], &rest].concat();
    assert_eq!(lost(&ledger, &failed), (1, 2));
    // A session that acknowledged nothing.
    assert_eq!(lost(&ledger, &[&[Some((4, 1)); 2][..], &rest].concat()), (0, 0));
}

#[test]
fn torn_missing_and_misplaced_blocks_are_bad() {
    let mut ledger = ledger(vec![commit(1, 3, 1, (10, 20)), commit(1, 4, 4, (20, 30))]);
    let verdict = judged(&ledger, &[Some((1, 3)), Some((1, 4))]);
    assert_eq!((verdict.bad_rows, verdict.lost_commits), (1, 0));
    insta::assert_snapshot!(verdict.bad[0].why, @"it holds session 1, operation 4, which changed keys 4 to 5 of schema 1");
    let mut survival = Survival::new(&ledger);
    survival.missing(1, 1);
    survival.found(1, 2, Err("c3 is no text of petal's".to_owned()));
    let verdict = survival.judge("db", None);
    // The content of a bad row is unknown; a missing row has none.
    assert_eq!((verdict.bad_rows, verdict.lost_commits, verdict.lost_rows), (2, 1, 1));
    // The commit of row 4 is not counted as kept: that row was not read.
    assert_eq!((verdict.survived_commits, verdict.unknown_commits), (0, 1));
    ledger.header.heavy = true;
    let verdict = judged(&ledger, &[Some((1, 3))]);
    assert!(verdict.bad[0].why.starts_with("torn"), "{:?}", verdict.bad);
}

#[test]
fn versions_of_other_runs_are_older_and_reported() {
    let ledger = ledger(vec![commit(1, 3, 1, (10, 20))]);
    let mut survival = Survival::new(&ledger);
    survival.found(1, 1, Ok(RowStamps { row: 77, rest: 77 }));
    survival.found(1, 2, Ok(RowStamps { row: load_stamp(1, 2), rest: 77 }));
    let verdict = survival.judge("db", None);
    assert_eq!((verdict.other_run_rows, verdict.lost_commits, verdict.lost_rows), (1, 1, 2));
    insta::assert_debug_snapshot!(verdict.lost[0], @r#"
    LostRow {
        schema: 1,
        key: 1,
        session: 1,
        sequence: 3,
        acknowledged_at: Some(
            "2023-11-14T22:13:20Z",
        ),
        before_last_ms: 0.0,
        found: "a version of another run",
    }
    "#);
    assert_eq!(verdict.lost[1].found, "the row as it was loaded");
    let mut survival = Survival::new(&ledger);
    survival.missing(1, 1);
    assert_eq!(survival.judge("db", None).lost[0].found, "no row");
}

#[test]
fn commits_of_another_host_are_judged_by_its_own_ledger() {
    // Sessions 1 and 3 are of share 1; the last commit of each row is session 1's.
    let late = 2 * HOSTS_APART_NS;
    let commits = vec![commit(1, 3, 1, (late, late + 5)), commit(1, 4, 3, (600, late + 9))];
    let mut share = ledger(commits.clone());
    share.header.share = Some(Share { number: 1, of: 2 });
    share.shares = [1].into();
    let held = [[Some((2, 7)); 2], [Some((2, 8)); 2]].concat();
    let alone = judged(&share, &held);
    assert_eq!((alone.lost_commits, alone.missing_share_rows), (0, 4));
    assert_eq!((alone.unacknowledged_rows, alone.missing_shares), (0, vec!["2/2".to_owned()]));
    let others = [commit(2, 7, 1, (50, 60)), commit(2, 8, 3, (70, 80))];
    let mut both = ledger([&commits[..], &others].concat());
    (both.header.share, both.shares) = (share.header.share, [1, 2].into());
    // The second commit began after the other host's was over, but by another clock.
    let merged = judged(&both, &held);
    assert_eq!((merged.lost_commits, merged.lost_rows, merged.missing_share_rows), (1, 2, 0));
    assert!(merged.missing_shares.is_empty());
    // With a trigger that was 3 s late, a commit that began 2 s after the other may have been
    // first.
    both.triggers_apart_us = 3_000_000;
    assert_eq!(lost(&both, &held), (0, 0));
    both.triggers_apart_us = 0;
    both.header.share = None;
    assert_eq!(lost(&both, &held), (2, 4));
}

#[test]
fn a_record_in_the_log_keeps_a_commit_whose_blocks_are_old() {
    let ledger = ledger(vec![commit(1, 3, 1, (10, 20)), commit(1, 4, 3, (20, 30))]);
    let stamps = RunStamps::of_mask(ledger.header.stamp_mask);
    let in_log = HashSet::from([stamps.stamp(Version { session: 1, sequence: 4 })]);
    let mut survival = Survival::new(&ledger);
    for key in 1..=4 {
        let stamp = load_stamp(1, key);
        survival.found(1, key, Ok(RowStamps { row: stamp, rest: stamp }));
    }
    let verdict = survival.judge("db", Some(&in_log));
    assert_eq!((verdict.lost_commits, verdict.in_log_commits), (1, Some(1)));
    assert_eq!((verdict.lost_rows, verdict.survived_commits), (2, 1));
}

/// Sessions that change one row by turns, each commit somewhere in the time that its bounds give.
fn history() -> impl Strategy<Value = Vec<(u32, u64, u64)>> {
    prop::collection::vec((1u32..4, 0u64..30, 0u64..30), 1..40)
}

proptest! {
    /// Tests that the last commit is never called lost, however late it was acknowledged, and
    /// whether or not its acknowledgement was kept.
    #[test]
    fn the_last_commit_of_a_row_is_never_lost(history in history(), heard in 0usize..40) {
        let (mut at, mut sequences) = (100, [0u64; 4]);
        let mut ended = [0u64; 4];
        let mut commits = Vec::new();
        for (session, before, after) in history {
            at += 3;
            let sequence = &mut sequences[session as usize];
            *sequence += 1;
            // A session begins nothing before its last operation was over.
            let over = ended[session as usize].max(at);
            let begin = (at - before.min(at)).max(commits_begin(&commits, session));
            ended[session as usize] = over;
            commits.push(commit(session, *sequence, 1, (begin.min(at), at + after)));
        }
        let last = commits.last().unwrap().version;
        let held = Some((last.session, last.sequence));
        let all = ledger(commits.clone());
        prop_assert_eq!(lost(&all, &[held; 2]), (0, 0));
        // A driver that was cut kept the first acknowledgements of each session.
        commits.truncate(heard);
        prop_assert_eq!(lost(&ledger(commits), &[held; 2]), (0, 0));
    }
}

/// A session's operations follow each other: the next does not begin before the one before did.
fn commits_begin(commits: &[Acknowledged], session: u32) -> u64 {
    let of_session = commits.iter().filter(|commit| commit.version.session == session);
    of_session.map(|commit| commit.begin_ns).max().unwrap_or(0)
}
