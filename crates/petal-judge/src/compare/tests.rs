use std::collections::BTreeMap;

use super::limits::{LimitOutcome, hold};
use super::*;
use petal_record::headline::{AskedFor, Tested, Validity, VerdictReason};
use petal_record::{Status, fixture, plain_csv};
use proptest::prelude::*;

const TWO_NODES: &str = include_str!("../../../../tests/samples/compression-two-nodes.csv");

/// The sides of a table by one of its factors, in the order in which they appear.
fn sides_of(text: &str, by: &str) -> Vec<ComparedSide> {
    ComparedSide::split("table.csv", plain_csv::parse(text, "table.csv", None).unwrap(), by, None)
        .unwrap()
}

fn side(name: &str, observations: Vec<Observation>) -> ComparedSide {
    ComparedSide { name: name.into(), observations }
}

/// A run of a round that began this number of minutes after noon.
fn run(round: u32, minute: u32, piops: f64) -> Observation {
    Observation {
        source: format!("run at {minute}"),
        repeat: Some(round),
        started_at: Some(format!("2026-11-20T12:{minute:02}:00Z")),
        metrics: BTreeMap::from([(metric::PIOPS.to_owned(), piops)]),
        ..Observation::default()
    }
}

fn only_change(comparison: &Comparison) -> &Change {
    let [cell] = comparison.cells.as_slice() else { panic!("{comparison:?}") };
    cell.figures[0].changes[0].as_ref().unwrap()
}

/// Compression off and on over two nodes: 28.3, 24.9 and 23.6 % fewer reads, and the ninth run,
/// whose nodes differ.
#[test]
fn the_published_cost_of_compression() {
    let sides = sides_of(TWO_NODES, "compression");
    let rules = Rules { metrics: vec![metric::READS.into()], ..Rules::default() };
    let comparison = compare(&sides, &rules).unwrap();
    let shown: Vec<String> = comparison
        .changes(metric::READS)
        .map(|(cell, side, change)| {
            let change = change.unwrap();
            let (low, high) = change.difference.interval.unwrap();
            format!(
                "{}: {side} {:+.1} % ({:+.1} to {:+.1}), {}",
                cells::label(&cell.factors),
                change.difference.share * 100.0,
                low * 100.0,
                high * 100.0,
                change.significance.words()
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    UPDATE_PCT 0: compression on -28.3 % (-30.6 to -26.1), significant
    UPDATE_PCT 30: compression on -24.9 % (-26.8 to -23.0), significant
    UPDATE_PCT 50: compression on -23.6 % (-25.9 to -21.0), significant
    ");
    insta::assert_snapshot!(comparison.notes.join("\n"), @"
    drift: the sides were not run in turn, so whatever else changed between them (other load, temperature, a fuller drive) is in the difference too; where the change can be switched, run a sweep with the sides as an axis
    uneven-endpoints: table.csv row 9: node1 is -5.4 % off in piops; over 5 % from the mean of the endpoints: look at paths, caches and other load before trusting these runs
    ");
    assert!(comparison.has(Method::Welch));
}

#[test]
fn sides_that_ran_in_turn_are_paired_and_others_are_not() {
    let a: Vec<Observation> =
        [(1, 0, 100.0), (2, 20, 150.0), (3, 40, 200.0)].map(|(r, m, p)| run(r, m, p)).into();
    let in_turn = [(1, 10, 103.0), (2, 30, 154.0), (3, 50, 206.5)].map(|(r, m, p)| run(r, m, p));
    let sides = [side("a", a.clone()), side("b", in_turn.into())];
    let comparison = compare(&sides, &Rules::default()).unwrap();
    let change = only_change(&comparison);
    assert_eq!(change.difference.method, Method::Paired);
    assert_eq!(change.significance, Significance::Significant);
    assert!(!comparison.notes.iter().any(|note| note.starts_with("drift")));

    // The same figures, measured after the last of the others.
    let after = [(1, 55, 103.0), (2, 57, 154.0), (3, 59, 206.5)].map(|(r, m, p)| run(r, m, p));
    let sides = [side("a", a.clone()), side("b", after.clone().into())];
    let comparison = compare(&sides, &Rules::default()).unwrap();
    let change = only_change(&comparison);
    assert_eq!(change.difference.method, Method::Welch);
    assert_eq!(change.significance, Significance::NotSignificant);
    assert!(comparison.notes.iter().any(|note| note.starts_with("drift")));
    // A caller who knows better is believed.
    let rules = Rules { in_turn: true, ..Rules::default() };
    let change = only_change(&compare(&sides, &rules).unwrap()).clone();
    assert_eq!(change.difference.method, Method::Paired);

    // Runs that do not say when they began prove nothing about their order.
    let timeless = |runs: &[Observation]| -> Vec<Observation> {
        runs.iter().map(|run| Observation { started_at: None, ..run.clone() }).collect()
    };
    let sides = [side("a", timeless(&a)), side("b", timeless(&after))];
    let comparison = compare(&sides, &Rules::default()).unwrap();
    assert_eq!(only_change(&comparison).difference.method, Method::Welch);
}

/// The number of runs is no proof that a figure is known if the figure decided it.
#[test]
fn sides_whose_figures_decided_their_runs_have_wider_intervals_and_no_whole() {
    let of = |is_repeated_by_figures, minute: u32, piops: [f64; 4]| -> Vec<Observation> {
        let runs = (1..).zip(piops).flat_map(|(round, piops)| {
            [8, 9].map(|cell: u32| Observation {
                factors: vec![("cell".to_owned(), cell.to_string())],
                is_repeated_by_figures,
                ..run(round, 2 * round + minute, piops)
            })
        });
        runs.collect()
    };
    let found = |is_repeated_by_figures| {
        let a = of(is_repeated_by_figures, 0, [100.0, 103.0, 101.0, 102.0]);
        let b = of(false, 1, [95.0, 96.0, 95.5, 94.0]);
        compare(&[side("a", a), side("b", b)], &Rules::default()).unwrap()
    };
    let (fixed, by_figures) = (found(false), found(true));
    assert!(fixed.has(Method::Paired) && by_figures.has(Method::Anytime));
    assert!(!by_figures.has(Method::Paired), "not even in turn");
    assert_eq!((fixed.wholes.len(), by_figures.wholes.len()), (1, 0));
    let half = |of: &Comparison| {
        let (low, high) = of.cells[0].figures[0].sides[0].as_ref().unwrap().interval.unwrap();
        high - low
    };
    assert!(half(&by_figures) > 1.2 * half(&fixed));
    let is_said =
        |of: &Comparison| of.notes.iter().any(|it| it.starts_with("repeated-by-figures: a;"));
    assert!(is_said(&by_figures) && !is_said(&fixed));
    let limit = "piops < -1%".parse().unwrap();
    assert_eq!(hold(&limit, &fixed).outcome, LimitOutcome::Failed);
    assert_eq!(hold(&limit, &by_figures).outcome, LimitOutcome::Inconclusive);
}

/// Runs that were started by hand in turn are all "repeat 1 of 1": they are paired by time.
#[test]
fn rounds_without_numbers_are_paired_by_time() {
    let of = |minutes: [u32; 3], piops: [f64; 3]| -> Vec<Observation> {
        minutes.into_iter().zip(piops).map(|(minute, piops)| run(1, minute, piops)).collect()
    };
    // The second side is given in another order than it was run.
    let sides = [
        side("a", of([0, 20, 40], [100.0, 150.0, 200.0])),
        side("b", of([50, 10, 30], [206.5, 103.0, 154.0])),
    ];
    let comparison = compare(&sides, &Rules::default()).unwrap();
    let change = only_change(&comparison);
    assert_eq!(change.difference.method, Method::Paired);
    assert_eq!(change.significance, Significance::Significant);
}

#[test]
fn one_run_a_side_is_shown_and_unknown() {
    let sides = [side("a", vec![run(1, 0, 100.0)]), side("b", vec![run(1, 5, 90.0)])];
    let comparison = compare(&sides, &Rules::default()).unwrap();
    let change = only_change(&comparison);
    assert!((change.difference.share + 0.1).abs() < 1e-12);
    assert_eq!(change.significance, Significance::Unknown);
    assert_eq!(change.difference.interval, None);
    insta::assert_snapshot!(comparison.notes.join("\n"), @"single-run: fewer than three runs on a side in 1 of 1 cells: the difference is shown, its significance is unknown; use --repeats 3 or more");
}

#[test]
fn runs_are_matched_by_what_varies_within_a_side() {
    let of = |pct: u8, sessions: u32, direct: bool, piops: f64| {
        let mut run = fixture::mixed_run();
        run.summary.settings.insert("update_pct".into(), pct.into());
        run.summary.settings.insert("direct_io".into(), direct.into());
        run.summary.settings.insert("seed".into(), (piops as u64).into());
        run.summary.sessions = sessions;
        let seen = Observation::of_run("x", Vec::new(), &run);
        with_piops(seen, piops)
    };
    // One setting a side is the subject of the comparison and makes no cells.
    let sides = [
        side("before", vec![of(20, 8, true, 100.0), of(20, 8, true, 101.0), of(20, 8, true, 99.0)]),
        side("after", vec![of(20, 8, false, 80.0), of(20, 8, false, 81.0), of(20, 8, false, 79.0)]),
    ];
    let comparison = compare(&sides, &Rules::default()).unwrap();
    assert_eq!(comparison.cells.len(), 1);
    assert!(comparison.cells[0].factors.is_empty());
    let differs: Vec<(&str, Vec<Option<&str>>)> = comparison
        .differences
        .iter()
        .map(|d| (d.name.as_str(), d.values.iter().map(Option::as_deref).collect()))
        .collect();
    assert_eq!(differs, [("direct_io", vec![Some("true"), Some("false")])]);

    // Two settings within a side make two cells; a cell of only one side is reported.
    let sides = [
        side("before", vec![of(20, 8, true, 100.0), of(0, 16, true, 200.0), of(30, 4, true, 5.0)]),
        side("after", vec![of(0, 16, true, 180.0), of(20, 8, true, 90.0)]),
    ];
    let comparison = compare(&sides, &Rules::default()).unwrap();
    let cells: Vec<String> = comparison.cells.iter().map(|c| cells::label(&c.factors)).collect();
    assert_eq!(cells, ["UPDATE_PCT 0, SESSIONS 16", "UPDATE_PCT 20, SESSIONS 8"]);
    assert!(
        comparison.notes.iter().any(|note| {
            note == "not-on-both-sides: UPDATE_PCT 30, SESSIONS 4 (only in before)"
        })
    );
    assert!(comparison.differences.is_empty(), "{:?}", comparison.differences);
}

#[test]
fn a_run_that_lost_sessions_is_reported() {
    let short = |lost| Observation { sessions: Some(8), sessions_lost: lost, ..run(1, 5, 900.0) };
    let notes = |lost| {
        let sides = [side("a", vec![run(1, 0, 1000.0)]), side("b", vec![short(lost)])];
        compare(&sides, &Rules::default()).unwrap().notes
    };
    let reported = |lost| notes(lost).into_iter().find(|note| note.starts_with("sessions-lost"));
    let note = reported(Some(2)).unwrap();
    assert!(note.contains("run at 5 lost 2 of 8; fewer sessions"), "{note}");
    assert_eq!((reported(Some(0)), reported(None)), (None, None));
}

#[test]
fn a_run_that_did_not_visit_all_rows_is_reported() {
    let short = |warning: &str| Observation {
        warnings: vec!["short-run".to_owned(), warning.to_owned()],
        ..run(1, 5, 900.0)
    };
    let reported = |warning| {
        let sides = [side("a", vec![run(1, 0, 1000.0)]), side("b", vec![short(warning)])];
        let notes = compare(&sides, &Rules::default()).unwrap().notes;
        notes.into_iter().find(|note| note.starts_with("rows-missing"))
    };
    let note = reported("rows-missing").unwrap();
    assert!(note.starts_with("rows-missing: run at 5; operations of these runs"), "{note}");
    assert_eq!(reported("other-load"), None);
}

fn with_piops(mut seen: Observation, piops: f64) -> Observation {
    seen.metrics.insert(metric::PIOPS.into(), piops);
    seen
}

#[test]
fn faults_of_a_comparison_are_reported() {
    let of = |active: u64, elapsed_s: f64, piops: f64| Observation {
        active_bytes: Some(active << 30),
        elapsed_s: Some(elapsed_s),
        source: format!("run of {piops}"),
        metrics: BTreeMap::from([(metric::PIOPS.to_owned(), piops)]),
        ..Observation::default()
    };
    let mut cut_off = of(1, 60.0, 1.0);
    cut_off.status = Some(Status::Interrupted);
    let mut sides = [
        side("a", [100.0, 100.1, 99.9, 100.2, 130.0].map(|piops| of(1, 60.0, piops)).into()),
        side("b", vec![of(2, 300.0, 100.0), of(2, 300.0, 101.0), of(2, 300.0, 102.0)]),
    ];
    sides[0].observations.push(cut_off);
    let notes = compare(&sides, &Rules::default()).unwrap().notes;
    insta::assert_snapshot!(notes.join("\n"), @"
    left-out: not compared: run of 1 (it was interrupted)
    drift: the sides were not run in turn, so whatever else changed between them (other load, temperature, a fuller drive) is in the difference too; where the change can be switched, run a sweep with the sides as an axis
    active-set-varies: all: 1.00 GiB and 2.00 GiB; caches serve them differently, so this is no comparison of like with like
    mixed-run-lengths: all: runs took from 60 to 300 s; short runs have not settled
    repeats-vary: a, all: piops by 12.6 %; their standard deviation is over 5 % of the mean: find out why before comparing
    outlying-repeat: a, all: piops of run of 130 is 130.0, the mean 106.0 (Grubbs' test, 5 %); they stay in every figure
    ");
}

#[test]
fn incomparable_sides_say_why() {
    let seen = |pct: &str| Observation {
        factors: vec![("update_pct".into(), pct.into())],
        metrics: BTreeMap::from([(metric::PIOPS.to_owned(), 1.0)]),
        ..Observation::default()
    };
    let why = |sides: &[ComparedSide], metrics: &[&str]| {
        let metrics = metrics.iter().map(|name| (*name).to_owned()).collect();
        compare(sides, &Rules { metrics, in_turn: false }).unwrap_err().to_string()
    };
    let apart = [side("a", vec![seen("0"), seen("10")]), side("b", vec![seen("20"), seen("30")])];
    insta::assert_snapshot!(why(&apart, &[]), @"no cell is on both sides: not-on-both-sides: \
                                                UPDATE_PCT 0 (only in a), UPDATE_PCT 10 (only in \
                                                a), UPDATE_PCT 20 (only in b), UPDATE_PCT 30 (only \
                                                in b). Compare runs of the same sessions and \
                                                settings, or put settings that differ on one side \
                                                only");
    let same = [side("a", vec![seen("0")]), side("b", vec![seen("0")])];
    insta::assert_snapshot!(why(&same, &["iops"]), @"no record has the metric iops; did you mean piops? petal help metrics lists all");
    let mut failed = seen("0");
    failed.status = Some(Status::Failed);
    let sides = [side("a", vec![failed]), side("b", vec![seen("0")])];
    let verdict = compare(&sides, &Rules::default()).unwrap().verdict.unwrap();
    assert_eq!(verdict.words, "Nothing is compared: no run of a is valid (it failed).");
}

#[test]
fn several_sides_are_each_set_against_the_first() {
    let of = |piops: [f64; 3]| piops.map(|p| with_piops(Observation::default(), p)).to_vec();
    let sides = [
        side("a", of([100.0, 101.0, 99.0])),
        side("b", of([90.0, 91.0, 89.0])),
        side("c", of([100.5, 99.5, 100.0])),
    ];
    let comparison = compare(&sides, &Rules::default()).unwrap();
    let shown: Vec<(&str, Significance)> = comparison
        .changes(metric::PIOPS)
        .map(|(_, side, change)| (side, change.unwrap().significance))
        .collect();
    assert_eq!(shown, [("b", Significance::Significant), ("c", Significance::NotSignificant)]);
}

#[test]
fn a_limit_fails_only_when_the_whole_interval_is_past_it() {
    let of = |piops: &[f64]| -> Vec<Observation> {
        piops.iter().map(|&p| with_piops(Observation::default(), p)).collect()
    };
    let held = |b: &[f64], limit: &str| {
        let sides = [side("a", of(&[100.0, 101.0, 99.0])), side("b", of(b))];
        let comparison = compare(&sides, &Rules::default()).unwrap();
        hold(&limit.parse().unwrap(), &comparison)
    };
    // 20 % less, give or take 2.
    let slower = [80.0, 80.5, 79.5];
    assert_eq!(held(&slower, "piops < -5%").outcome, LimitOutcome::Failed);
    assert_eq!(held(&slower, "piops < -20%").outcome, LimitOutcome::Inconclusive);
    assert_eq!(held(&slower, "piops < -30%").outcome, LimitOutcome::Passed);
    assert_eq!(held(&slower, "piops > 5%").outcome, LimitOutcome::Passed);
    assert_eq!(held(&[120.0, 121.0, 119.0], "piops > 5%").outcome, LimitOutcome::Failed);
    // One run proves nothing, however far it is off.
    let single = held(&[10.0], "piops < -5%");
    assert_eq!(single.outcome, LimitOutcome::Inconclusive);
    insta::assert_snapshot!(single.because.join("\n"), @"all: -90.0 %, interval unknown: fewer than three runs on a side; three or more make it known (--repeats 3)");
    insta::assert_snapshot!(held(&slower, "piops < -5%").because.join("\n"), @"all: -20.0 %, interval -21.6 % to -18.3 %");
    assert_eq!(held(&slower, "read_us > 5%").outcome, LimitOutcome::Inconclusive);
}

#[test]
fn a_cell_that_failed_on_one_side_is_no_pass() {
    let of = |sessions: &str, status, piops: [f64; 3]| -> Vec<Observation> {
        let run = |piops| Observation {
            factors: vec![("sessions".into(), sessions.to_owned())],
            status: Some(status),
            ..with_piops(Observation::default(), piops)
        };
        piops.map(run).into()
    };
    let good = |sessions| of(sessions, Status::Complete, [100.0, 101.0, 99.0]);
    let failed = of("16", Status::Failed, [1.0, 1.0, 1.0]);
    let held = |a: &[Vec<Observation>], b: &[Vec<Observation>]| {
        let sides = [side("a", a.concat()), side("b", b.concat())];
        let comparison = compare(&sides, &Rules::default()).unwrap();
        let held = hold(&"piops < -5%".parse().unwrap(), &comparison);
        (held.outcome, held.because.join("; "), comparison.notes.join("; "))
    };
    let both = [good("8"), good("16")];
    assert_eq!(held(&both, &both).0, LimitOutcome::Passed);
    for b in [vec![good("8"), failed.clone()], vec![good("8")]] {
        let (outcome, because, notes) = held(&both, &b);
        assert_eq!(outcome, LimitOutcome::Inconclusive);
        assert_eq!(because, "SESSIONS 16: not measured on both sides");
        assert!(notes.contains("not-on-both-sides: SESSIONS 16 (only in a)"), "{notes}");
    }
    let (outcome, _, notes) = held(&[good("8"), failed.clone()], &[good("8"), failed.clone()]);
    assert_eq!(outcome, LimitOutcome::Inconclusive);
    assert!(notes.contains("SESSIONS 16 (no whole run on any side)"), "{notes}");
    // A figure past the limit fails all the same.
    let slow = of("8", Status::Complete, [50.0, 51.0, 49.0]);
    assert_eq!(held(&both, &[slow, failed]).0, LimitOutcome::Failed);
}

/// Five runs of each of four cells.
#[test]
fn the_whole_decides_and_a_single_cell_past_the_limit_fails_too() {
    let of = |change: &dyn Fn(usize) -> f64| -> Vec<Observation> {
        let noise = [1.0, 1.02, 0.98, 1.01, 0.99];
        let cell = |at: usize| {
            let run = move |by: f64| Observation {
                factors: vec![("sessions".into(), at.to_string())],
                ..with_piops(Observation::default(), 100.0 * by * at as f64)
            };
            let change = change(at);
            noise.map(move |by| run(by * change))
        };
        (1..=4).flat_map(cell).collect()
    };
    let held = |change: &dyn Fn(usize) -> f64| {
        let sides = [side("a", of(&|_| 1.0)), side("b", of(change))];
        let comparison = compare(&sides, &Rules::default()).unwrap();
        let held = hold(&"piops < -5%".parse().unwrap(), &comparison);
        (comparison.wholes, held.outcome, held.because.join("; "))
    };
    // By hand: the geometric mean of 1, 1, 1 and 0.5.
    let (wholes, outcome, because) = held(&|at| if at == 3 { 0.5 } else { 1.0 });
    let [whole] = wholes.as_slice() else { panic!("{wholes:?}") };
    assert!((whole.share - (0.5_f64.powf(0.25) - 1.0)).abs() < 1e-9 && whole.cells == 4);
    assert!(whole.is_pooled && whole.p.unwrap() < 0.001);
    assert_eq!(outcome, LimitOutcome::Failed);
    assert!(because.contains("over 4 cells: -15.9 %") && because.contains("SESSIONS 3: -50.0 %"));
    let (.., outcome, because) = held(&|at| if at == 3 { 0.87 } else { 1.0 });
    assert_eq!(outcome, LimitOutcome::Failed);
    assert!(because.starts_with("SESSIONS 3: -13.0 %"), "{because}");
    // Each cell's own interval includes the limit, that of all does not.
    assert_eq!(held(&|_| 0.98).1, LimitOutcome::Passed);
    assert_eq!(held(&|_| 0.95).1, LimitOutcome::Inconclusive);
    assert_eq!(held(&|_| 0.93).1, LimitOutcome::Failed);
}

/// Tests that a cell in which no side counted anything neither passes nor leaves a limit open.
#[test]
fn a_cell_in_which_nothing_was_counted_leaves_no_limit_open() {
    let of = |counted: f64| -> Vec<Observation> {
        let run = |at: usize, by: f64| Observation {
            factors: vec![("sessions".into(), at.to_string())],
            ..with_piops(Observation::default(), 100.0 * by * counted * (at - 1) as f64)
        };
        (1..=3).flat_map(|at| [1.0, 1.01, 0.99].map(|by| run(at, by))).collect()
    };
    let held = |b: f64| {
        let sides = [side("a", of(1.0)), side("b", of(b))];
        hold(&"piops < -5%".parse().unwrap(), &compare(&sides, &Rules::default()).unwrap()).outcome
    };
    assert_eq!((held(1.0), held(0.8)), (LimitOutcome::Passed, LimitOutcome::Failed));
}

/// Plain runs have no series: a run that was called off with other settings makes no cells.
#[test]
fn a_run_that_cannot_be_used_does_not_distinguish_runs() {
    let of = |pct: &str, status, piops| Observation {
        context: BTreeMap::from([("update_pct".to_owned(), pct.to_owned())]),
        status: Some(status),
        ..with_piops(Observation::default(), piops)
    };
    let called_off = of("20", Status::Interrupted, 1.0);
    let damaged = Observation::of_damaged(std::path::Path::new("some/run"));
    let sides = [
        side("a", vec![of("20", Status::Complete, 100.0)]),
        side("b", vec![of("30", Status::Complete, 90.0), called_off, damaged]),
    ];
    let comparison = compare(&sides, &Rules::default()).unwrap();
    assert_eq!((comparison.cells.len(), comparison.not_on_both_sides.len()), (1, 0));
    let left_out = " (it was interrupted); some/run (its record cannot be read)";
    assert!(comparison.notes[0].contains(left_out), "{:?}", comparison.notes);
}

/// Tests that a run outside of a series makes no cell if it is unusable: limits apply to the other
/// cells.
#[test]
fn a_plain_run_that_cannot_be_used_makes_no_cell() {
    let of = |sessions, status| {
        let run = |piops| Observation {
            sessions: Some(sessions),
            status: Some(status),
            ..with_piops(Observation::default(), piops)
        };
        [100.0, 101.0, 99.0].map(run).to_vec()
    };
    let whole = [of(8, Status::Complete), of(16, Status::Complete)].concat();
    let damaged = vec![Observation::of_damaged(std::path::Path::new("some/run"))];
    for left_out in [of(32, Status::Interrupted), damaged] {
        let after = [whole.clone(), left_out].concat();
        let sides = [side("before", whole.clone()), side("after", after)];
        let comparison = compare(&sides, &Rules::default()).unwrap();
        assert_eq!((comparison.cells.len(), comparison.not_on_both_sides.len()), (2, 0));
        let held = hold(&"piops < -5%".parse().unwrap(), &comparison);
        assert_eq!(held.outcome, LimitOutcome::Passed, "{held:?}");
        assert!(comparison.notes[0].starts_with("left-out"), "{:?}", comparison.notes);
    }
}

#[test]
fn percentiles_are_known_by_their_names() {
    for name in ["op_p99_us", "select_p99_9_us", "p50_us"] {
        assert!(is_percentile(name), "{name}");
    }
    for name in ["piops", "op_mean_us", "reads_s", "hook_pool_pct"] {
        assert!(!is_percentile(name), "{name}");
    }
}

proptest! {
    /// Tests that no run is lost: each is in a cell, left out with a note, or in a cell that only
    /// one side has.
    #[test]
    fn every_run_is_somewhere(
        a in prop::collection::vec((0u8..4, 1.0f64..1e6), 1..20),
        b in prop::collection::vec((0u8..4, 1.0f64..1e6), 1..20),
    ) {
        let of = |runs: &[(u8, f64)]| -> Vec<Observation> {
            runs.iter()
                .map(|&(pct, piops)| Observation {
                    factors: vec![("update_pct".into(), pct.to_string())],
                    ..with_piops(Observation::default(), piops)
                })
                .collect()
        };
        let sides = [side("a", of(&a)), side("b", of(&b))];
        match compare(&sides, &Rules::default()) {
            Err(CompareError::NothingInCommon(_)) => {
                prop_assert!(a.iter().all(|(pct, _)| b.iter().all(|(other, _)| pct != other)));
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
            Ok(comparison) => {
                let values = |side: usize| -> usize {
                    let figures = comparison.cells.iter().map(|cell| &cell.figures[0]);
                    figures.map(|f| f.sides[side].as_ref().map_or(0, |s| s.values.len())).sum()
                };
                let varies = comparison.cells.first().is_some_and(|c| !c.factors.is_empty());
                let on_both = |pct: u8, other: &[(u8, f64)]| {
                    !varies || other.iter().any(|(there, _)| *there == pct)
                };
                prop_assert_eq!(values(0), a.iter().filter(|(pct, _)| on_both(*pct, &b)).count());
                prop_assert_eq!(values(1), b.iter().filter(|(pct, _)| on_both(*pct, &a)).count());
            }
        }
    }
}

#[test]
fn the_findings_of_each_side_and_what_they_do_to_the_answer_are_kept() {
    let runs = |ids: &[&str], piops: f64| -> Vec<Observation> {
        let run = |repeat: u32| Observation {
            factors: vec![("sessions".into(), "4".into())],
            repeat: Some(repeat),
            metrics: [(metric::PIOPS.to_owned(), piops + f64::from(repeat))].into(),
            warnings: ids.iter().map(|id| (*id).to_owned()).collect(),
            ..Observation::default()
        };
        (1..=3).map(run).collect()
    };
    let compared = |a: &[&str], b: &[&str]| {
        let side = |name: &str, ids| ComparedSide {
            name: name.to_owned(),
            observations: runs(ids, 100.0),
        };
        compare(&[side("old", a), side("new", b)], &Rules::default()).unwrap()
    };
    let both = compared(&["cached-by-os", "short-run"], &["cached-by-os"]);
    let of = |at: usize| -> Vec<(&str, usize)> {
        both.sides[at].findings.iter().map(|found| (found.id.as_str(), found.runs)).collect()
    };
    assert_eq!(of(0), [("cached-by-os", 3), ("short-run", 3)]);
    assert_eq!(of(1), [("cached-by-os", 3)]);
    assert!(both.effects.is_empty(), "the verdict says it: {:?}", both.effects);
    let one = compared(&["not-durable"], &["processor-bound"]);
    insta::assert_snapshot!(one.effects.join("\n"), @"
    processor-bound: new (3 of 3 runs): processors limited one side, so the difference is not one of storage alone
    not-durable: old (3 of 3 runs): commits waited for stable storage on one side and not on another, so UPDATE, commit, log and PIOPS figures cannot be compared
    ");
    assert!(compared(&[], &["short-run"]).effects.is_empty());
    let mut sides = [side("old", runs(&["not-durable"], 1.0)), side("new", runs(&[], 1.0))];
    sides[1].observations[0].warnings = vec!["not-durable".to_owned()];
    let some = compare(&sides, &Rules::default()).unwrap();
    let of_some = "not-durable: old (3 of 3 runs), new (1 of 3 runs): commits did not wait for stable storage in runs of ";
    assert!(some.effects[0].starts_with(of_some), "{:?}", some.effects);
}

/// Three runs with these PIOPS and operations, and these findings.
fn piops_and_ops(name: &str, piops: f64, ids: &[&str]) -> ComparedSide {
    let run = |repeat: u32| Observation {
        repeat: Some(repeat),
        metrics: [(metric::PIOPS, piops), (metric::OPS, piops / 10.0)]
            .map(|(name, value)| (name.to_owned(), value + f64::from(repeat)))
            .into(),
        warnings: ids.iter().map(|id| (*id).to_owned()).collect(),
        ..Observation::default()
    };
    side(name, (1..=3).map(run).collect())
}

#[test]
fn a_comparison_of_no_storage_tests_says_so_first_and_compares_no_piops() {
    let sides = [
        piops_and_ops("old", 1000.0, &["cached-by-os"]),
        piops_and_ops("new", 500.0, &["cached-by-os"]),
    ];
    let found = compare(&sides, &Rules::default()).unwrap();
    insta::assert_snapshot!(found.verdict.as_ref().unwrap().words, @"Not a storage test: a cache served the reads of every side: old (cached-by-os in 3 of 3 runs); new (cached-by-os in 3 of 3 runs). PIOPS, operations and their times are not compared.");
    let [piops, ops] = found.cells[0].figures.as_slice() else { panic!("{found:?}") };
    assert_eq!((piops.is_struck_out, &piops.changes[0]), (true, &None));
    assert!(piops.sides[0].is_some(), "the figures stay, struck out");
    // In a run that waits for reads, the operations are these reads by another name.
    assert!(ops.is_struck_out && ops.changes[0].is_none());
    let held = |limit: &str| limits::hold(&limit.parse().unwrap(), &found);
    let gate = held("piops < -5%");
    assert_eq!(gate.outcome, LimitOutcome::Inconclusive);
    assert_eq!(gate.because, ["all: not a storage test"]);
    assert_eq!(held("ops_s < -5%").because, ["all: not a storage test"]);
    let mut some = sides.clone();
    for side in &mut some {
        side.observations[0].warnings.clear();
    }
    let some = compare(&some, &Rules::default()).unwrap().verdict.unwrap().words;
    assert!(
        some.contains(": a cache served the reads of some runs: old (cached-by-os in 2"),
        "{some}"
    );
    let one = compare(&[piops_and_ops("old", 1.0, &[]), sides[1].clone()], &Rules::default());
    insta::assert_snapshot!(one.unwrap().verdict.unwrap().words, @"Not a storage test: a cache served the reads of some sides only, and the difference is one of caches: new (cached-by-os in 3 of 3 runs). PIOPS, operations and their times are not compared.");
    let none = [piops_and_ops("old", 1.0, &[]), piops_and_ops("new", 1.0, &["short-run"])];
    assert_eq!(compare(&none, &Rules::default()).unwrap().verdict, None);
}

#[test]
fn a_fall_to_zero_fails_whatever_the_noise() {
    let runs = |values: &[f64]| {
        side("a", values.iter().map(|&piops| with_piops(Observation::default(), piops)).collect())
    };
    let held = |a: &[f64], b: &[f64], in_turn| {
        let rules = Rules { in_turn, ..Rules::default() };
        let found = compare(&[runs(a), runs(b)], &rules).unwrap();
        limits::hold(&"piops < -5%".parse().unwrap(), &found)
    };
    for in_turn in [false, true] {
        let gate = held(&[100.0, 101.0, 99.0], &[0.0; 3], in_turn);
        assert_eq!(gate.outcome, LimitOutcome::Failed, "{in_turn} {gate:?}");
        assert_eq!(gate.because, ["all: -100.0 %, interval -100.0 % to -100.0 %"]);
        // Rounded figures, and a single run.
        for (a, b) in [(&[100.0; 3][..], &[0.0; 3][..]), (&[100.0], &[0.0])] {
            assert_eq!(held(a, b, in_turn).outcome, LimitOutcome::Failed, "{a:?} {in_turn}");
        }
        let some = held(&[100.0, 101.0, 99.0], &[0.0, 0.0, 100.0], in_turn);
        assert_eq!(some.outcome, LimitOutcome::Inconclusive, "{some:?}");
        let nothing = held(&[0.0; 3], &[0.0; 3], in_turn);
        assert_eq!(nothing.because, ["all: 0 in every run of every side"]);
        // A rise from nothing is no share, and no fall.
        let risen = held(&[0.0; 3], &[100.0, 101.0, 99.0], in_turn);
        assert_eq!(risen.outcome, LimitOutcome::Passed, "{risen:?}");
        let few = held(&[0.0], &[100.0], in_turn);
        assert_eq!(few.because, ["all: the baseline is 0 and has no share"]);
    }
}

#[test]
fn a_rise_from_zero_fails_a_limit_of_rises() {
    let runs = |values: &[f64]| {
        side("a", values.iter().map(|&piops| with_piops(Observation::default(), piops)).collect())
    };
    let found = compare(&[runs(&[0.0; 3]), runs(&[90.0; 3])], &Rules::default()).unwrap();
    let gate = limits::hold(&"piops > 5%".parse().unwrap(), &found);
    assert_eq!(
        (gate.outcome, gate.because),
        (LimitOutcome::Failed, vec!["all: rose from 0 in every run".to_owned()])
    );
}

#[test]
fn no_interval_of_a_rate_is_below_zero() {
    let noisy = [100.0, 101.0, 0.0];
    let change = crate::significance::sequential(&[100.0, 101.0, 99.0], &noisy).unwrap();
    assert_eq!(change.interval.unwrap().0, -1.0);
}

/// Three judged runs of this kind of test.
fn judged(name: &str, piops: f64, asked_for: AskedFor) -> ComparedSide {
    let mut run = fixture::mixed_run();
    crate::conclude(&mut run);
    let mut side = piops_and_ops(name, piops, &[]);
    for seen in &mut side.observations {
        seen.headline.clone_from(&run.summary.headline);
        seen.headline.as_mut().unwrap().verdict.asked_for = asked_for;
    }
    side
}

#[test]
fn sides_of_different_tests_have_no_difference_and_no_gate_of_piops() {
    let device = judged("old", 1000.0, AskedFor::PhysicalIo);
    let sides = [device.clone(), judged("new", 0.5, AskedFor::LogicalReads)];
    let found = compare(&sides, &Rules::default()).unwrap();
    insta::assert_snapshot!(found.verdict.as_ref().unwrap().words, @"The sides test different things: old: storage; new: the database's cache. PIOPS, operations and their times are not compared.");
    assert!(found.cells[0].figures.iter().all(|it| it.is_struck_out && it.changes[0].is_none()));
    let gate = limits::hold(&"piops < -5%".parse().unwrap(), &found);
    assert_eq!(gate.outcome, LimitOutcome::Inconclusive);
    assert_eq!(gate.because, ["all: different tests"]);
    let mut cached = judged("new", 5000.0, AskedFor::PhysicalIo);
    for seen in &mut cached.observations {
        let verdict = &mut seen.headline.as_mut().unwrap().verdict;
        verdict.validity = Validity::NotStorage;
        verdict.tested = Tested::PageCache;
        verdict.reason =
            Some(VerdictReason { finding: "cached-by-os".into(), sentence: String::new() });
    }
    let words =
        compare(&[device.clone(), cached], &Rules::default()).unwrap().verdict.unwrap().words;
    assert!(
        words.starts_with("The sides test different things: old: storage; new: the page cache.")
    );
    let same = compare(&[device.clone(), device], &Rules::default()).unwrap();
    assert_eq!(same.verdict, None);
    assert!(same.cells[0].figures[0].changes[0].is_some());
}

#[test]
fn a_side_without_a_valid_run_is_an_inconclusive_answer_with_its_reason() {
    let mut invalid = judged("new", 900.0, AskedFor::PhysicalIo);
    for seen in &mut invalid.observations {
        let headline = seen.headline.as_mut().unwrap();
        headline.verdict.validity = Validity::Invalid;
        let sentence = "32 rows were not there".to_owned();
        headline.verdict.reason = Some(VerdictReason { finding: "rows-missing".into(), sentence });
        headline.next = "petal check --db x".into();
    }
    let sides = [judged("old", 1000.0, AskedFor::PhysicalIo), invalid];
    let found = compare(&sides, &Rules::default()).unwrap();
    let verdict = found.verdict.clone().unwrap();
    insta::assert_snapshot!(verdict.words, @"Nothing is compared: no run of new is valid (it is invalid: rows-missing: 32 rows were not there).");
    assert_eq!((verdict.next.as_str(), found.cells.len()), ("petal check --db x", 0));
    let gate = limits::hold(&"piops < -5%".parse().unwrap(), &found);
    assert_eq!((gate.outcome, gate.cases.len()), (LimitOutcome::Inconclusive, 1));
    assert_eq!(gate.because, [format!("all: {}", verdict.words)]);
}

#[test]
fn processors_limit_the_runs_whose_verdict_says_so_and_the_others_are_compared() {
    use petal_record::headline::{Headline, Tested, Verdict};
    let run = |repeat: u32, piops: f64, tested: Tested| {
        let verdict = Verdict { tested, ..Verdict::default() };
        Observation {
            factors: vec![("sessions".to_owned(), "4".to_owned())],
            metrics: [("piops".to_owned(), piops)].into(),
            warnings: vec!["processor-bound".to_owned()],
            headline: Some(Headline { verdict, ..Headline::default() }),
            repeat: Some(repeat),
            ..Observation::default()
        }
    };
    let side = |name: &str, tested: [Tested; 4]| ComparedSide {
        name: name.to_owned(),
        observations: (1..)
            .zip(tested)
            .map(|(at, of)| run(at, 100.0 + f64::from(at), of))
            .collect(),
    };
    use Tested::{Device, Processors, SharedProcessors};
    let compared = |a, b| compare(&[side("old", a), side("new", b)], &Rules::default()).unwrap();
    let seen = compared([Device; 4], [Device; 4]);
    assert!(seen.effects.is_empty(), "they waited elsewhere: {:?}", seen.effects);
    let all = compared([Processors; 4], [Processors; 4]);
    let first = "Processors limited all runs, so this comparison does not show the storage: old (4 of 4 \
                 runs), new (4 of 4 runs).";
    assert_eq!(all.caveats, [first]);
    let one = compared([Device; 4], [Device, Device, Device, SharedProcessors]);
    assert_eq!((one.effects.len(), &one.verdict), (0, &None), "the others are compared");
    let values = |comparison: &Comparison| {
        comparison.cells[0].figures[0].sides[1].as_ref().unwrap().values.len()
    };
    assert_eq!((values(&one), values(&seen)), (3, 4));
    let note = "left-out: all: 1 run; others' work on the processors limited them";
    assert!(one.notes.iter().any(|it| it.starts_with(note)), "{:?}", one.notes);
    // A cell of such runs alone is no result, and nothing is compared with it.
    let whole = |a, b| {
        let found = compared(a, b);
        let figure = &found.cells[0].figures[0];
        assert_eq!((figure.changes[0].as_ref(), figure.is_struck_out), (None, true));
        (found.verdict.unwrap().words, found.wholes.len())
    };
    let (words, wholes) = whole([Device; 4], [SharedProcessors; 4]);
    let first =
        "The sides test different things: old: storage; new: processors that others use, too.";
    assert!(words.starts_with(first) && wholes == 0, "{words}");
    // Other cells are compared, and the verdict says how many are not.
    let mut sides = [side("old", [Device; 4]), side("new", [SharedProcessors; 4])];
    for side in &mut sides {
        for seen in side.observations.clone() {
            let mut other = seen;
            other.factors[0].1 = "8".to_owned();
            other.headline.as_mut().unwrap().verdict.tested = Device;
            side.observations.push(other);
        }
    }
    let words = compare(&sides, &Rules::default()).unwrap().verdict.unwrap().words;
    assert!(words.ends_with(" times are not compared in 1 of 2 cells."), "{words}");
    let (words, _) = whole([SharedProcessors; 4], [SharedProcessors; 4]);
    let first =
        "Not a storage test: others' work on the processors limited every side: old (other-load";
    assert!(words.starts_with(first), "{words}");
}
