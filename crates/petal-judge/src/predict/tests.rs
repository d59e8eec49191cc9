//! Predictions of made and recorded lines.

use std::collections::BTreeMap;

use super::*;
use crate::petals::{Estimate, Point};
use crate::seeded_rng::SeededRng;
use petal_record::calibration::{Calibration, CurvePoint, READ};
use petal_record::plain_csv;

fn line(cells: &[(u32, f64)]) -> Petals {
    let point = |&(sessions, piops): &(u32, f64)| Point {
        sessions,
        piops: Estimate::of(vec![piops]),
        read_us: Estimate::of(vec![0.8 * f64::from(sessions) * 1e6 / piops]),
        ..Point::default()
    };
    let points = cells.iter().map(point).collect();
    let line = PetalLine { name: "all".to_owned(), points, ..PetalLine::default() };
    Petals { lines: vec![line], ..Petals::default() }
}

fn usl(n: u32) -> (u32, f64) {
    let n_f = f64::from(n);
    (n, 1000.0 * n_f / (1.0 + 0.05 * (n_f - 1.0) + 0.001 * n_f * (n_f - 1.0)))
}

#[test]
fn a_line_that_follows_the_law_is_predicted_by_it_also_beyond_its_cells() {
    let petals = line(&[1, 2, 4, 8, 16, 32].map(usl));
    let [found] = predict(&petals, &[12, 64, 128], None).try_into().unwrap();
    assert_eq!((found.used, &found.refused), (Some(Family::Usl), &None));
    let of = |sessions: u32| found.predicted.iter().find(|cell| cell.sessions == sessions).unwrap();
    for sessions in [4, 12, 64] {
        let (_, piops) = usl(sessions);
        assert!((of(sessions).piops.unwrap() / piops - 1.0).abs() < 1e-6, "{sessions}");
        let read_us = 0.8 * f64::from(sessions) * 1e6 / piops;
        assert!((of(sessions).read_us.unwrap() / read_us - 1.0).abs() < 1e-6);
    }
    assert_eq!(of(4).measured_piops, Some(usl(4).1));
    assert_eq!(of(128).piops, None);
    assert_eq!(of(128).unknown.as_deref(), Some("over twice 32 sessions"));
    assert!(of(1).piops.is_none() && of(1).unknown.is_some());
}

/// A line whose slope never changes has no USL: interpolation wins, and predicts nothing beyond.
#[test]
fn interpolation_is_used_where_it_has_the_least_error() {
    let power = |n: u32| (n, 1000.0 * f64::from(n).powf(0.5));
    let [found] = predict(&line(&[1, 4, 16, 64].map(power)), &[8], None).try_into().unwrap();
    assert_eq!(found.used, Some(Family::Interpolation));
    assert!(found.predicted.iter().all(|cell| cell.family.is_some() == cell.piops.is_some()));
    let cell = found.predicted.iter().find(|cell| cell.sessions == 8).unwrap();
    assert!((cell.piops.unwrap() / power(8).1 - 1.0).abs() < 1e-9);
    let [short] = predict(&line(&[1, 2].map(power)), &[], None).try_into().unwrap();
    let lines = [found.clone(), short.clone(), found];
    let over = over_lines(&lines, Family::Interpolation).unwrap();
    assert!(over.lines == 2 && over.median < 1e-9, "a line without errors does not count");
    assert_eq!(over_lines(&lines[1..], Family::Interpolation), None, "of one line");
}

#[test]
fn a_line_without_a_smooth_curve_or_enough_cells_is_refused() {
    let rough = [(1, 100.0), (2, 900.0), (4, 150.0), (8, 1200.0), (16, 200.0)];
    let [found] = predict(&line(&rough), &[3], None).try_into().unwrap();
    let why = found.refused.unwrap();
    assert!(why.starts_with("PIOPS do not follow a smooth curve") && found.predicted.is_empty());
    let [found] = predict(&line(&[1, 2, 4].map(usl)), &[], None).try_into().unwrap();
    assert!(found.refused.unwrap().starts_with("it has 3 cells"));
    assert!(found.held_out.is_empty());
}

#[test]
fn a_cell_that_is_no_storage_test_is_in_no_curve() {
    let mut cells = [1, 2, 4, 8, 16].map(usl);
    cells[2].1 *= 50.0;
    let mut petals = line(&cells);
    petals.lines[0].points[2].not_storage = Some("cached-by-os".to_owned());
    let [found] = predict(&petals, &[4], None).try_into().unwrap();
    let cell = found.predicted.iter().find(|cell| cell.sessions == 4).unwrap();
    assert!((cell.piops.unwrap() / usl(4).1 - 1.0).abs() < 0.1 && cell.measured_piops.is_none());
    petals.lines[0].points.truncate(3);
    let [found] = predict(&petals, &[], None).try_into().unwrap();
    let why = found.refused.unwrap();
    let words =
        "it has 2 cells with PIOPS of storage (others are not a storage test: cached-by-os)";
    assert!(why.starts_with(words), "{why}");
}

/// Lines of a sweep over UPDATE_PCT whose cells follow a network: a device of six channels, a lock
/// that one UPDATE holds at a time, and a commit that does not queue.
fn lines_of_a_network(sessions: &[u32]) -> Petals {
    let lines = [0u32, 20, 50].map(|update_pct| {
        let cell = |&sessions: &u32| (sessions, network_piops(update_pct, sessions));
        let cells: Vec<(u32, f64)> = sessions.iter().map(cell).collect();
        let mut line = line(&cells).lines.remove(0);
        line.factors = vec![("update_pct".to_owned(), update_pct.to_string())];
        line.name = format!("UPDATE_PCT {update_pct}");
        line
    });
    Petals { lines: lines.into(), ..Petals::default() }
}

fn network_piops(update_pct: u32, sessions: u32) -> f64 {
    let share = f64::from(update_pct) / 100.0;
    let queues = [
        queues::ServiceQueue::servers(1e-3 * (1.0 + share), 6.0),
        queues::ServiceQueue::servers(2e-4 * share, 1.0),
    ];
    let delay = 5e-4 + 4e-4 * share;
    queues::throughput(delay, &queues, sessions as usize)[sessions as usize - 1]
}

#[test]
fn lines_of_a_network_are_predicted_by_one_that_they_share() {
    let petals = lines_of_a_network(&[1, 3, 8, 20, 48]);
    let lines = predict(&petals, &[2, 5, 12, 32, 64], None);
    for (line, update_pct) in lines.iter().zip([0, 20, 50]) {
        let held = |family| line.held_out.iter().find(|held| held.family == family).unwrap();
        let network = held(Family::Network);
        assert!(network.median < held(Family::Interpolation).median / 2.0, "{line:?}");
        assert_eq!(line.used, Some(Family::Network), "{line:?}");
        for cell in line.predicted.iter().filter(|cell| cell.measured_piops.is_none()) {
            let truth = network_piops(update_pct, cell.sessions);
            assert!((cell.piops.unwrap() / truth - 1.0).abs() < 0.05, "{update_pct}: {cell:?}");
        }
    }
    // Lines of two targets are two groups, and one line alone has fewer cells than parameters.
    let mut apart = petals;
    apart.lines[1].factors.push(("db".to_owned(), "b".to_owned()));
    apart.lines[1].points.truncate(4);
    let lines = predict(&apart, &[], None);
    assert_eq!(
        lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(),
        ["UPDATE_PCT 0", "UPDATE_PCT 20", "UPDATE_PCT 50"]
    );
    assert!(lines[1].held_out.iter().all(|held| held.family != Family::Network), "{lines:?}");
}

#[test]
fn a_calibrated_curve_needs_two_cells_and_one_to_test_it() {
    let points =
        [(1u32, 1000.0), (2, 1900.0), (4, 3000.0), (8, 3300.0), (16, 9000.0), (32, 9100.0)];
    let curve = points.map(|(depth, iops)| CurvePoint { depth, iops, ..CurvePoint::default() });
    let calibration = Calibration {
        curves: BTreeMap::from([(READ.to_owned(), curve.to_vec())]),
        ..Calibration::default()
    };
    let device = DeviceCurves::of(&calibration).unwrap();
    let cell = |(depth, iops): (u32, f64)| (depth, 0.7 * iops);
    let petals = line(&[cell(points[0]), cell(points[3]), cell(points[5])]);
    let [found] = predict(&petals, &[2, 4, 16], Some(&device)).try_into().unwrap();
    assert_eq!((found.used, &found.refused), (Some(Family::Calibrated), &None));
    for (sessions, iops) in &points[1..5] {
        let cell = found.predicted.iter().find(|cell| cell.sessions == *sessions).unwrap();
        assert!((cell.piops.unwrap() / (0.7 * iops) - 1.0).abs() < 1e-9, "{cell:?}");
    }
    let [without] = predict(&petals, &[4], None).try_into().unwrap();
    assert!(without.refused.unwrap().starts_with("it has 3 cells"));
    assert_eq!(DeviceCurves::of(&Calibration::default()), None);
}

/// Lines with 5 % noise, and a cell that was left out of each.
#[test]
fn an_interval_holds_a_cell_as_often_as_it_says() {
    let mut rng = SeededRng::seeded(53);
    let (mut held, mut all) = (0, 0);
    for _ in 0..60 {
        let mut noisy =
            |(sessions, piops): (u32, f64)| (sessions, piops * (0.05 * rng.normal()).exp());
        let cells = [1, 2, 3, 4, 8, 12, 16, 24, 32].map(usl).map(&mut noisy);
        let (sessions, measured) = noisy(usl(6));
        let [found] = predict(&line(&cells), &[sessions], None).try_into().unwrap();
        let cell = found.predicted.iter().find(|cell| cell.sessions == sessions);
        let Some((low, high)) = cell.and_then(|cell| cell.interval) else { continue };
        all += 1;
        held += u32::from((low..=high).contains(&measured));
    }
    assert!(all > 50, "{all}");
    let share = f64::from(held) / f64::from(all);
    assert!((0.82..=0.99).contains(&share), "{share}");
}

#[test]
fn a_refused_line_says_which_assumption_its_cells_break() {
    let refused = |petals: &Petals| {
        let [found] = predict(petals, &[], None).try_into().unwrap();
        found.refused.unwrap()
    };
    let rough = [(1, 100.0), (2, 900.0), (4, 150.0), (8, 1200.0), (16, 200.0)];
    let mut petals = line(&rough);
    assert!(refused(&petals).ends_with("PIOPS fall at 4 sessions and rise again, which no network of queues does; add repeats there"));
    for (point, ops) in petals.lines[0].points.iter_mut().zip([1.0, 9.0, 3.0, 12.0, 2.0]) {
        point.ops_s = Estimate::of(vec![ops]);
    }
    let words = "an operation takes 50.0 to 100.0 physical requests along the line";
    assert!(refused(&petals).contains(words), "{}", refused(&petals));
    for point in &mut petals.lines[0].points {
        let piops = point.piops.as_ref().unwrap().mean;
        point.piops = Estimate::of(vec![0.5 * piops, 1.5 * piops]);
    }
    assert!(refused(&petals).contains("repeats of a cell differ by 71 %"), "{}", refused(&petals));
}

/// About `share` of the positions, at least four, the first and the last among them.
fn spread(count: usize, share: f64) -> Vec<usize> {
    let kept = ((count as f64 * share).ceil() as usize).clamp(CELLS_MIN, count);
    let mut kept: Vec<usize> = (0..kept)
        .map(|at| (at as f64 * (count - 1) as f64 / (kept - 1) as f64).round() as usize)
        .collect();
    kept.dedup();
    kept
}

/// A third of the cells of recorded and published sweeps predict the others. Prints the table of
/// docs/limits.md.
#[test]
#[expect(clippy::print_stdout, reason = "the table of docs/limits.md")]
fn errors_of_recorded_sweeps_are_small_and_in_their_intervals() {
    let sweeps = [
        ("SQLite", include_str!("../../../../tests/data/sweeps/quiet-sqlite.csv")),
        ("PostgreSQL", include_str!("../../../../tests/data/sweeps/quiet-postgres.csv")),
        ("MariaDB", include_str!("../../../../tests/data/sweeps/quiet-mariadb.csv")),
        ("device", include_str!("../../../../tests/data/sweeps/quiet-device.csv")),
        ("published, PCIe flash", include_str!("../../../../tests/samples/flash-pcie.csv")),
    ];
    let percent =
        |share: Option<f64>| share.map_or("-".to_owned(), |it| format!("{:.1}", 100.0 * it));
    println!(
        "| line | cells kept | repeats | interpolation | USL | network | used | largest | latency | in interval |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let (mut used_errors, mut latency_errors) = (Vec::new(), Vec::new());
    let (mut held, mut claimed) = (0, 0);
    for (name, text) in sweeps {
        let whole = Petals::of(&plain_csv::parse(text, name, None).unwrap());
        let mut reduced = whole.clone();
        for line in reduced.lines.iter_mut().filter(|line| line.points.len() > CELLS_MIN) {
            let kept = spread(line.points.len(), 1.0 / 3.0);
            let points = kept.iter().map(|&at| line.points[at].clone());
            line.points = points.collect();
        }
        let asked: Vec<u32> =
            whole.lines.iter().flat_map(|line| &line.points).map(|point| point.sessions).collect();
        let lines: Vec<LineCells> = reduced.lines.iter().map(LineCells::of).collect();
        let predicted = predict(&reduced, &asked, None);
        for (at, (line, found)) in whole.lines.iter().zip(&predicted).enumerate() {
            let all = LineCells::of(line);
            let truth: Vec<CellFigures> = all
                .cells
                .iter()
                .filter(|it| lines[at].position(it.sessions).is_none())
                .copied()
                .collect();
            let off = |piops: f64, cell: &CellFigures| (piops / cell.piops - 1.0).abs();
            let of_family = |family: Family| {
                let curves = family.fit(&lines, None, None);
                let errors = truth
                    .iter()
                    .map(|cell| Some(off(curves[at].as_ref()?.piops(cell.sessions)?, cell)));
                median(&errors.collect::<Option<Vec<f64>>>()?)
            };
            let (mut errors, mut of_latency) = (Vec::new(), Vec::new());
            let (mut inside, mut intervals) = (0, 0);
            for cell in &truth {
                let shown =
                    found.predicted.iter().find(|it| f64::from(it.sessions) == cell.sessions);
                let Some(shown) = shown else { continue };
                errors.extend(shown.piops.map(|piops| off(piops, cell)));
                let read_us = cell.in_reads.map(|share| 1e6 * share * cell.sessions / cell.piops);
                of_latency.extend(shown.read_us.zip(read_us).map(|(us, of)| (us / of - 1.0).abs()));
                if let Some((low, high)) = shown.interval {
                    intervals += 1;
                    inside += u32::from((low..=high).contains(&cell.piops));
                }
            }
            let used = found.used.map_or("refused", Family::words);
            println!(
                "| {name}, {} | {} of {} | {} | {} | {} | {} | {used}: {} | {} | {} | {inside} of {intervals} |",
                line.name,
                lines[at].cells.len(),
                all.cells.len(),
                percent(all.noise),
                percent(of_family(Family::Interpolation)),
                percent(of_family(Family::Usl)),
                percent(of_family(Family::Network)),
                percent(median(&errors)),
                percent(errors.iter().copied().reduce(f64::max)),
                percent(median(&of_latency)),
            );
            (held, claimed) = (held + inside, claimed + intervals);
            used_errors.extend(errors);
            latency_errors.extend(of_latency);
        }
    }
    println!();
    for (name, mut errors) in [("PIOPS", used_errors), ("read latency", latency_errors)] {
        errors.sort_by(f64::total_cmp);
        let (middle, high) = (median(&errors), errors.get(errors.len() * 95 / 100).copied());
        println!(
            "{name} of {} held-out cells: median {} %, 95th percentile {} %",
            errors.len(),
            percent(middle),
            percent(high),
        );
        assert!(middle.is_some_and(|it| it <= 0.07) && high.is_some_and(|it| it <= 0.2));
    }
    println!("{held} of {claimed} in their 90 % interval");
    assert!(f64::from(held) >= 0.9 * f64::from(claimed) && claimed > 30);
}
