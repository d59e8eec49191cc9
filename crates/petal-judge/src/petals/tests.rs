use proptest::prelude::*;
use serde_json::json;

use super::*;
use petal_record::conclusions::{LimitedBy, Limiter, limit_clause};
use petal_record::{Status, plain_csv};

/// A run of a line: sessions, PIOPS, read latency.
fn seen(sessions: u32, repeat: u32, piops: f64, read_us: f64) -> Observation {
    Observation {
        source: format!("run-{sessions}-{repeat}"),
        factors: vec![
            ("update_pct".into(), "20".into()),
            ("sessions".into(), sessions.to_string()),
        ],
        repeat: Some(repeat),
        active_bytes: Some(1 << 30),
        metrics: BTreeMap::from([
            (metric::PIOPS.to_owned(), piops),
            (metric::READ_US.to_owned(), read_us),
        ]),
        ..Observation::default()
    }
}

fn with(mut observation: Observation, figures: &[(&str, f64)]) -> Observation {
    observation.metrics.extend(figures.iter().map(|(name, value)| ((*name).to_owned(), *value)));
    observation
}

/// Three repeats a cell, one percent apart.
fn thrice(cells: &[(u32, f64, f64)]) -> Vec<Observation> {
    let repeats = [(1, 0.99), (2, 1.0), (3, 1.01)];
    repeats
        .iter()
        .flat_map(|&(repeat, factor)| {
            cells
                .iter()
                .map(move |&(sessions, piops, us)| seen(sessions, repeat, piops * factor, us))
        })
        .collect()
}

#[test]
fn a_line_whose_writes_are_unknown_is_drawn_by_its_reads_and_says_so() {
    let unknown = |sessions, reads| {
        let mut seen = with(seen(sessions, 1, 0.0, 100.0), &[(metric::READS, reads)]);
        seen.metrics.remove(metric::PIOPS);
        seen
    };
    let petals = Petals::of(&[unknown(1, 900.0), unknown(4, 3000.0)]);
    let [line] = petals.lines.as_slice() else { panic!("{petals:?}") };
    assert!(line.name.ends_with(READS_ONLY), "{}", line.name);
    assert_eq!(line.points[line.peak.unwrap()].piops.as_ref().unwrap().mean, 3000.0);
    let known = Petals::of(&[seen(1, 1, 900.0, 100.0), seen(4, 1, 3000.0, 110.0)]);
    assert!(!known.lines[0].name.ends_with(READS_ONLY));
}

fn published(text: &str) -> Petals {
    Petals::of(&plain_csv::parse(text, "table.csv", None).unwrap())
}

/// The flash array over PCIe direct: 8k reads, 1 to 64 readers.
#[test]
fn a_published_line_of_single_runs_has_its_peak_and_limit_and_no_knee() {
    let petals = published(include_str!("../../../../tests/samples/flash-pcie.csv"));
    let [line] = petals.lines.as_slice() else { panic!("{petals:?}") };
    let sessions = |at: Option<usize>| line.points[at.unwrap()].sessions;
    // 70,121.9 / 160 = 438 is the largest of 67, 204, 306, 438, 335, 165; single runs prove no knee.
    assert_eq!((line.knee, sessions(line.peak)), (None, 64));
    assert_eq!(line.bend_back, None);
    assert_eq!(line.after_peak, None);
    assert_eq!(line.beyond_knee, None, "a knee in other words");
    // Its author says that his processors ran out, and the table has no processor figures.
    let limit = line.limit.as_ref().unwrap();
    assert_eq!(limit.cause, "storage or processors: not known");
    insta::assert_snapshot!(limit.evidence.join("\n"), @"
    from 16 to 64 sessions PIOPS went from 70,122 to 99,060 while a read went from 160.0 to 602.0 us: reads are slower
    how busy the processors were is not known, and a read's time holds its waits for a processor
    ");
    insta::assert_snapshot!(petals.notes.join("\n"), @"mixed-run-lengths: all: runs took from 43 to 821 s; short runs have not settled");
}

/// Three points show a peak alone, in no words more.
#[test]
fn three_points_show_no_knee_no_plateau_and_no_cause_of_saturation() {
    let three = thrice(&[(1, 100.0, 10.0), (4, 200.0, 20.0), (16, 201.0, 80.0)]);
    let [line] = &Petals::of(&three).lines[..] else { panic!() };
    assert_eq!(line.peak, Some(2));
    let shape = (line.knee, &line.beyond_knee, &line.plateau, line.saturated_from);
    assert_eq!(shape, (None, &None, &None, None));
    assert_eq!((&line.limit, &line.rate_limit), (&None, &None));
    let four = [(1, 100.0, 10.0), (4, 200.0, 20.0), (16, 201.0, 80.0), (64, 201.0, 320.0)];
    let [line] = &Petals::of(&thrice(&four)).lines[..] else { panic!() };
    assert!(line.limit.is_some() && line.plateau.is_some(), "{line:?}");
}

/// Runs of the same array over Infiniband: up to 32 readers with short fixed work, then another
/// method.
#[test]
fn a_change_of_method_is_pointed_at() {
    let petals = published(include_str!("../../../../tests/samples/flash-infiniband.csv"));
    insta::assert_snapshot!(petals.notes.join("\n"), @"mixed-run-lengths: all: runs took from 5 to 799 s, with a jump between 32 and 64 sessions (from 9 to 187 s): the method changed there, and its sides are not one curve; short runs have not settled");
}

#[test]
fn lengths_of_runs_below_a_second_differ_in_words() {
    let mut short = thrice(&[(1, 100.0, 10.0), (2, 190.0, 11.0)]);
    for (seen, elapsed_s) in short.iter_mut().zip([0.004, 0.012, 0.3]) {
        seen.elapsed_s = Some(elapsed_s);
    }
    let notes = Petals::of(&short).notes.join("\n");
    assert!(notes.contains("runs took from 0.004 to 0.30 s, "), "{notes}");
}

#[test]
fn equal_factors_are_repeats_and_other_factors_other_lines() {
    let mut observations = thrice(&[(1, 100.0, 10.0), (2, 190.0, 11.0)]);
    for mut other in thrice(&[(1, 80.0, 12.0)]) {
        other.factors[0].1 = "30".into();
        observations.push(other);
    }
    let petals = Petals::of(&observations);
    let names: Vec<&str> = petals.lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["UPDATE_PCT 20", "UPDATE_PCT 30"]);
    let point = &petals.lines[0].points[1];
    assert_eq!(point.sources, ["run-2-1", "run-2-2", "run-2-3"]);
    let piops = point.piops.as_ref().unwrap();
    assert_eq!(piops.values.len(), 3);
    assert!((piops.mean - 190.0).abs() < 1e-9 && piops.half_width.is_some());
    assert_eq!((&point.mb_s, &point.op_p99_us), (&None, &None));
}

#[test]
fn a_figure_unknown_in_one_repeat_is_unknown_at_the_point() {
    let mut runs = thrice(&[(8, 1000.0, 100.0)]);
    runs[1].metrics.remove(metric::PIOPS);
    let point = &Petals::of(&runs).lines[0].points[0];
    assert_eq!((&point.piops, point.figure(metric::PIOPS)), (&None, None));
    assert_eq!(point.read_us.as_ref().map(|read_us| read_us.values.len()), Some(3));
    assert!(point.figure(metric::READ_US).is_some());
}

#[test]
fn cells_of_other_active_data_are_never_joined() {
    let mut observations = thrice(&[(1, 100.0, 10.0), (2, 190.0, 11.0)]);
    for observation in &mut observations {
        if observation.factor("sessions") == Some("2") {
            observation.active_bytes = Some(2 << 30);
        }
    }
    let petals = Petals::of(&observations);
    assert_eq!(petals.lines.len(), 2);
    assert!(petals.lines.iter().all(|line| line.points.len() == 1));
    insta::assert_snapshot!(petals.notes.join("\n"), @"active-set-varies: UPDATE_PCT 20: the active data set is 1.00 GiB at 1 session and 2.00 GiB at 2 sessions; cells that differ in it are not joined by a line");
    assert_eq!(petals.lines[1].name, "UPDATE_PCT 20, active 2.00 GiB");
}

/// A run of these numbers of readers and writers, with the mean latency of its SELECTs.
fn kinds(readers: u32, writers: u32, repeat: u32, select_us: f64) -> Observation {
    let mut seen = seen(readers + writers, repeat, 100.0, 10.0);
    seen.factors[0] = ("readers".into(), readers.to_string());
    seen.factors.insert(1, ("writers".into(), writers.to_string()));
    with(seen, &[("select_mean_us", select_us), ("select_p99_us", select_us * 3.0)])
}

#[test]
fn a_line_joins_points_of_one_mix_of_readers_and_writers() {
    let shown = |cells: &[(u32, u32)]| -> Vec<(String, Vec<u32>)> {
        let runs: Vec<Observation> = cells.iter().map(|&(r, w)| kinds(r, w, 1, 10.0)).collect();
        let lines = Petals::of(&runs).lines;
        let points = |line: &PetalLine| line.points.iter().map(|p| p.sessions).collect();
        lines.iter().map(|line| (line.name.clone(), points(line))).collect()
    };
    // `--readers 0,4 --writers 0,2`.
    let three = ["MIX readers 2, writers 1", "MIX readers alone", "MIX writers alone"];
    let of = |name: &str, sessions: &[u32]| (name.to_owned(), sessions.to_vec());
    assert_eq!(
        shown(&[(0, 2), (4, 0), (4, 2)]),
        [of(three[0], &[6]), of(three[1], &[4]), of(three[2], &[2])]
    );
    // The same mix at twice the sessions is the same line.
    assert_eq!(
        shown(&[(1, 0), (4, 0), (4, 2), (8, 4), (8, 2)]),
        [of(three[0], &[6, 12]), of("MIX readers 4, writers 1", &[10]), of(three[1], &[1, 4])]
    );
    assert_eq!(shown(&[(1, 0), (4, 0)])[0].1, [1, 4]);
}

#[test]
fn writers_that_are_a_setting_and_no_axis_are_part_of_the_mix() {
    let runs = [1, 4].map(|readers| {
        let mut seen = kinds(readers, 2, 1, 10.0);
        seen.factors.retain(|(key, _)| key != "writers");
        seen.context.insert("writers".into(), "2".into());
        seen
    });
    assert_eq!(Petals::of(&runs).lines.len(), 2);
}

#[test]
fn the_cost_of_writers_is_the_select_latency_alone_and_with_them() {
    let repeats = |readers, writers, us: f64| {
        [(1, 0.99), (2, 1.0), (3, 1.01)].map(|(at, part)| kinds(readers, writers, at, us * part))
    };
    let mut runs = [repeats(4, 0, 100.0), repeats(4, 2, 150.0), repeats(0, 2, 0.0)].concat();
    let costs = Petals::of(&runs).writer_costs;
    let [cost] = costs.as_slice() else { panic!("{costs:?}") };
    assert_eq!((cost.readers, cost.rows.len()), (4, 2));
    let [alone, with] = [&cost.rows[0], &cost.rows[1]];
    assert_eq!((alone.writers, with.writers), (0, 2));
    assert_eq!(alone.change, None);
    let change = with.change.as_ref().unwrap();
    assert!((change.share - 0.5).abs() < 1e-9);
    assert!(change.interval.is_some_and(|(low, high)| low > 0.4 && high < 0.6));
    assert!((with.select_p99_us.as_ref().unwrap().mean - 450.0).abs() < 1e-9);
    // One repeat that does not know it leaves the figure unknown.
    runs[4].metrics.remove("select_mean_us");
    let row = Petals::of(&runs).writer_costs[0].rows[1].clone();
    assert_eq!((row.select_mean_us, row.change), (None, None));
    assert!(row.select_p99_us.is_some());
    // Nothing to compare without readers alone, or without writers.
    assert!(Petals::of(&repeats(4, 2, 150.0)).writer_costs.is_empty());
    assert!(Petals::of(&repeats(4, 0, 150.0)).writer_costs.is_empty());
}

#[test]
fn the_peak_has_the_most_piops_and_what_ties_with_it_saturates() {
    let cells = [(8, 900.0, 9.0), (16, 990.0, 16.0), (32, 1000.0, 32.0), (64, 995.0, 64.0)];
    let line = Petals::of(&thrice(&cells)).lines.remove(0);
    // 1 % of deviation is an interval of 2.5 %: 990 ties with 1000, 900 does not.
    assert_eq!((line.peak, line.saturated_from), (Some(2), Some(1)));
    assert_eq!(line.bend_back, None);
    let alone = Petals::of(&thrice(&cells[..1])).lines.remove(0);
    assert_eq!((alone.peak, alone.saturated_from, alone.knee), (Some(0), None, None));
    let single = [seen(16, 1, 990.0, 16.0), seen(32, 1, 1000.0, 32.0)];
    let line = Petals::of(&single).lines.remove(0);
    assert_eq!((line.peak, line.saturated_from), (Some(1), None));
}

#[test]
fn an_interval_that_reaches_almost_every_point_does_not_say_where_a_line_is_flat() {
    let repeats = |sessions, piops: [f64; 3]| piops.map(|piops| seen(sessions, 1, piops, 100.0));
    let few = [1, 2, 4].map(|sessions| repeats(sessions, [300.0, 301.0, 302.0])).concat();
    let many = |piops| [few.clone(), repeats(32, piops).into()].concat();
    let saturated_from = |runs: &[Observation]| Petals::of(runs).lines[0].saturated_from;
    assert_eq!(saturated_from(&many([500.0, 1000.0, 1500.0])), None);
    // If the interval is narrow, one session ties with the peak or does not.
    assert_eq!(saturated_from(&many([301.0, 302.0, 303.0])), Some(0));
    assert_eq!(saturated_from(&many([500.0, 502.0, 504.0])), None);
}

/// A line that bends back at 64 sessions, with more figures at 16 and at 64.
fn bent(at_peak: &[(&str, f64)], later: &[(&str, f64)], read_us: f64) -> BendBack {
    let cells = [(4, 500.0, 80.0), (16, 1000.0, 100.0), (64, 800.0, read_us)];
    let observations: Vec<Observation> = thrice(&cells)
        .into_iter()
        .map(|seen| match seen.factor("sessions") {
            Some("16") => with(seen, at_peak),
            Some("64") => with(seen, later),
            _ => seen,
        })
        .collect();
    let line = Petals::of(&observations).lines.remove(0);
    assert_eq!(line.peak, Some(1));
    let bend_back = line.bend_back.unwrap();
    assert_eq!(bend_back.at, 2);
    assert_eq!(line.limit.unwrap().cause, bend_back.cause);
    bend_back
}

#[test]
fn the_cause_of_a_bend_is_named_from_evidence() {
    let cause =
        |before: &[(&str, f64)], later: &[(&str, f64)], us: f64| bent(before, later, us).cause;
    const NOT_KNOWN: &str = "storage or processors: not known";
    // Latency alone proves neither.
    assert_eq!(cause(&[], &[], 60.0), "unknown");
    assert_eq!(cause(&[], &[], 400.0), NOT_KNOWN);
    assert_eq!(cause(&[], &[], 101.0), "unknown");
    let busy = ("cpu_busy_pct", 99.0);
    let room = ("cpu_busy_pct", 60.0);
    assert_eq!(cause(&[("cpu_busy_pct", 70.0)], &[busy], 101.0), "processor");
    assert_eq!(cause(&[], &[busy], 60.0), "processor");
    assert_eq!(cause(&[], &[busy], 400.0), "processor");
    assert_eq!(cause(&[], &[room], 400.0), "storage");
    assert_eq!(cause(&[], &[room], 60.0), "unknown");
    assert_eq!(cause(&[], &[("cpu_busy_pct", 93.0)], 400.0), NOT_KNOWN);
    // A report has the idle time alone.
    assert_eq!(cause(&[], &[("cpu_idle_pct", 40.0)], 400.0), "storage");
    assert_eq!(cause(&[], &[("cpu_idle_pct", 2.0)], 400.0), "processor");
    assert_eq!(cause(&[], &[busy, ("petal_cpu_pct", 45.0)], 60.0), "generator");
    assert_eq!(cause(&[], &[room, ("petal_cpu_pct", 45.0)], 400.0), "storage");
    let latches = |share| ("wait_concurrency_pct", share);
    assert_eq!(cause(&[latches(5.0)], &[latches(60.0)], 101.0), "locks");
    let log = |share| ("wait_commit_pct", share);
    assert_eq!(cause(&[log(20.0)], &[log(55.0), latches(15.0)], 400.0), "log");
    assert_eq!(cause(&[log(50.0)], &[log(55.0), room], 400.0), "storage");
    assert_eq!(cause(&[("hit_pct", 98.0)], &[("hit_pct", 60.0)], 101.0), "cache");
    // A device is always at work under enough sessions.
    let at_work = ("device_util_pct", 99.9);
    assert_eq!(cause(&[], &[at_work, room], 101.0), "unknown");
    assert_eq!(cause(&[], &[at_work, room], 400.0), "storage");
    assert_eq!(cause(&[], &[at_work], 400.0), NOT_KNOWN);
    // Reads are slower, and not on the device.
    let device_us = |us| ("device_read_await_us", us);
    assert_eq!(cause(&[device_us(90.0)], &[device_us(91.0), room], 400.0), "unknown");
    assert_eq!(cause(&[device_us(90.0)], &[device_us(350.0), room], 400.0), "storage");
}

#[test]
fn storage_is_not_the_cause_where_findings_contradict_it() {
    let cells = [(4, 500.0, 80.0), (16, 1000.0, 100.0), (64, 800.0, 400.0)];
    let bend = |warnings: &[(&str, &str)]| {
        let mut observations = thrice(&cells);
        for seen in &mut observations {
            let sessions = seen.factor("sessions").unwrap().to_owned();
            let here = warnings.iter().filter(|(at, _)| *at == sessions);
            seen.warnings = here.map(|(_, id)| (*id).to_owned()).collect();
            seen.metrics.insert("cpu_busy_pct".into(), 50.0);
        }
        Petals::of(&observations).lines.remove(0).bend_back.unwrap()
    };
    assert_eq!(bend(&[]).cause, "storage");
    // Elsewhere on the line it says nothing of these two points.
    assert_eq!(bend(&[("4", "other-load"), ("64", "short-run")]).cause, "storage");
    let contradicted = bend(&[("16", "other-load"), ("64", "other-load")]);
    assert_eq!(contradicted.cause, "unknown");
    assert!(contradicted.evidence[1].starts_with("other-load at 16 and 64 sessions: "));
    // A control group, or one full processor, on a host that is half idle.
    assert_eq!(bend(&[("64", "processor-bound")]).cause, "processor");
}

#[test]
fn figures_that_are_not_of_the_steady_window_are_named() {
    use petal_record::Window;
    let mut observations = thrice(&[(1, 100.0, 10.0), (2, 190.0, 11.0)]);
    for seen in &mut observations {
        seen.window = Some(Window::Steady { from_s: 5.0, to_s: 15.0 });
    }
    assert!(Petals::of(&observations).notes.is_empty());
    observations[1].window = Some(Window::Whole { elapsed_s: 10.0, why: "no counted window" });
    insta::assert_snapshot!(Petals::of(&observations).notes.join("\n"), @"whole-run: figures are of the whole run and not of its counted window in 1 of 6 runs (no counted window): run-2-1");
}

#[test]
fn every_piece_of_evidence_is_reported() {
    let bend_back = bent(
        &[("cpu_busy_pct", 81.0), ("wait_concurrency_pct", 3.0)],
        &[("cpu_busy_pct", 98.5), ("wait_concurrency_pct", 42.0)],
        60.0,
    );
    insta::assert_snapshot!(bend_back.evidence.join("\n"), @"
    the processors were 98.5 % busy at 64 sessions, 81.0 % at 16
    latches and locks inside the database took 42 % of DB time at 64 sessions, 3 % at 16
    from 16 to 64 sessions PIOPS went from 1,000 to 800 while a read went from 100.0 to 60.0 us: sessions ask for less although reads are faster
    ");
    assert_eq!(bend_back.cause, "processor");
}

#[test]
fn single_runs_prove_no_fall_and_no_plateau() {
    let single = [seen(16, 1, 1000.0, 100.0), seen(32, 1, 999.0, 150.0), seen(64, 1, 500.0, 300.0)];
    let line = Petals::of(&single).lines.remove(0);
    assert_eq!((line.peak, line.plateau, line.bend_back), (Some(0), None, None));
    assert_eq!(line.after_peak.unwrap().noise, Noise::Unknown);
    // A single run next to repeated ones, too.
    let cells = [(4, 990.0, 99.0), (8, 995.0, 99.0), (16, 1000.0, 100.0), (32, 999.0, 150.0)];
    let mut mixed = thrice(&cells);
    mixed.push(single[2].clone());
    let line = Petals::of(&mixed).lines.remove(0);
    assert_eq!((line.plateau.map(|plateau| plateau.to), line.bend_back), (Some(3), None));
}

#[test]
fn the_points_around_a_peak_that_repeats_do_not_separate_are_a_plateau() {
    let cells = [(4, 500.0, 9.0), (8, 990.0, 9.0), (16, 1000.0, 16.0), (32, 995.0, 32.0)];
    let plateau = |cells: &[(u32, f64, f64)]| Petals::of(&thrice(cells)).lines[0].plateau;
    let found = plateau(&cells).unwrap();
    assert_eq!((found.from, found.to), (1, 3));
    assert!((found.piops - 995.0).abs() < 1e-9 && found.hides > 0.01 && found.hides < 0.03);
    let larger: Vec<_> = cells.iter().map(|c| (c.0, c.1 * 2.0, c.2)).collect();
    assert_eq!(plateau(&larger).unwrap().to, 3);
    assert_eq!(plateau(&larger[..3]), None, "three points show no plateau");
    assert_eq!(plateau(&[cells[0], cells[2]]), None);
    // What bends back is no part of it.
    let bent = [(8, 1000.0, 9.0), (16, 1000.0, 16.0), (32, 970.0, 32.0), (64, 900.0, 64.0)];
    let line = Petals::of(&thrice(&bent)).lines.remove(0);
    let (to, bend) = (line.plateau.unwrap().to, line.bend_back.unwrap().at);
    assert!(to < bend, "{to} {bend}");
}

#[test]
fn a_fall_after_the_peak_has_its_figure_and_is_held_against_the_noise() {
    let after = |runs: &[Observation]| Petals::of(runs).lines[0].after_peak.unwrap();
    let noisy = |sessions, piops: [f64; 3]| piops.map(|piops| seen(sessions, 1, piops, 100.0));
    let within =
        after(&[noisy(8, [950.0, 1000.0, 1050.0]), noisy(16, [850.0, 920.0, 990.0])].concat());
    assert_eq!((within.at, within.noise), (1, Noise::Within));
    assert!((within.lower_by - 0.08).abs() < 1e-9);
    // The lowest of several within the noise; of those beyond it the first.
    let cells = [(8, 1000.0, 9.0), (16, 995.0, 16.0), (32, 985.0, 32.0), (64, 990.0, 64.0)];
    assert_eq!(after(&thrice(&cells)).at, 2);
    let cells = [(8, 1000.0, 9.0), (16, 995.0, 16.0), (32, 800.0, 32.0), (64, 700.0, 64.0)];
    let beyond = after(&thrice(&cells));
    assert_eq!((beyond.at, beyond.noise), (2, Noise::Beyond));
    let single = [seen(8, 1, 1000.0, 9.0), seen(16, 1, 970.0, 16.0)];
    assert_eq!(after(&single).noise, Noise::Unknown);
    assert_eq!(Petals::of(&single[..1]).lines[0].after_peak, None);
}

#[test]
fn the_highest_load_within_an_objective() {
    let p99 = |us| [(metric::OP_P99, us)];
    let observations: Vec<Observation> = [
        (4, 500.0, 900.0),
        (16, 1000.0, 1900.0),
        (32, 1100.0, 2600.0),
        // Slower, and within the objective again: not the highest load.
        (64, 800.0, 1950.0),
    ]
    .iter()
    .map(|&(sessions, piops, us)| with(seen(sessions, 1, piops, 100.0), &p99(us)))
    .collect();
    let within = |objective: &str| {
        let objective = objective.parse().unwrap();
        Petals::of(&observations).with_objective(Some(&objective)).lines[0].within_objective
    };
    assert_eq!(within("op.p99=2ms"), Some(1));
    assert_eq!(within("op.p99=3ms"), Some(2));
    assert_eq!(within("op.p99=100us"), None);
    assert_eq!(within("read.avg=100us"), Some(2));
    // An unmeasured figure meets no objective.
    assert_eq!(within("log.avg=1s"), None);
}

#[test]
fn runs_of_mixed_lengths_and_repeats_that_differ_are_noted() {
    let mut observations = thrice(&[(1, 100.0, 10.0), (2, 190.0, 11.0)]);
    for (observation, length) in observations.iter_mut().zip([60.0, 60.0, 60.0, 300.0, 60.0, 60.0])
    {
        observation.elapsed_s = Some(length);
    }
    observations[1].metrics.insert(metric::PIOPS.into(), 300.0);
    let notes = Petals::of(&observations).notes;
    insta::assert_snapshot!(notes.join("\n"), @"
    mixed-run-lengths: UPDATE_PCT 20: runs took from 60 to 300 s; short runs have not settled
    repeats-vary: the standard deviation of repeats is over 5 % of their mean at UPDATE_PCT 20, 2 sessions (PIOPS 27.7 %)
    ");
}

#[test]
fn failed_runs_are_left_out_and_reported() {
    let mut observations = thrice(&[(1, 100.0, 10.0)]);
    observations[1].status = Some(Status::Interrupted);
    observations[2].factors.clear();
    let petals = Petals::of(&observations);
    assert_eq!(petals.lines[0].points[0].sources, ["run-1-1"]);
    insta::assert_snapshot!(petals.notes.join("\n"), @"
    left-out: run-1-2 is not drawn: it was interrupted
    left-out: run-1-3 is not drawn: the number of its sessions is not known
    ");
}

proptest! {
    #[test]
    fn every_usable_observation_is_in_exactly_one_point(
        cells in prop::collection::vec((0u8..3, 1u32..6, 1u64..3, 1.0f64..1e6, 1.0f64..1e4), 0..60),
    ) {
        let observations: Vec<Observation> = cells
            .iter()
            .enumerate()
            .map(|(at, &(pct, sessions, active, piops, us))| {
                let mut seen = seen(sessions, at as u32, piops, us);
                seen.factors[0].1 = pct.to_string();
                seen.active_bytes = Some(active << 30);
                seen
            })
            .collect();
        let petals = Petals::of(&observations);
        let points = petals.lines.iter().flat_map(|line| &line.points);
        let mut sources: Vec<&String> = points.flat_map(|point| &point.sources).collect();
        sources.sort();
        let mut all: Vec<&String> = observations.iter().map(|seen| &seen.source).collect();
        all.sort();
        prop_assert_eq!(sources, all);
        for line in &petals.lines {
            prop_assert!(line.points.windows(2).all(|two| two[0].sessions < two[1].sessions));
            let active = line.points[0].active_bytes;
            prop_assert!(line.points.iter().all(|point| point.active_bytes == active));
            let top = line.points.iter().filter_map(|p| Some(p.piops.as_ref()?.mean));
            let top = top.fold(0.0, f64::max);
            let peak = &line.points[line.peak.unwrap()];
            let piops = peak.piops.as_ref().unwrap();
            prop_assert_eq!(piops.mean, top);
            let fewest = line.saturated_from.unwrap_or(line.peak.unwrap());
            prop_assert!(fewest <= line.peak.unwrap());
            prop_assert!(line.bend_back.as_ref().is_none_or(|bend| bend.at > line.peak.unwrap()));
        }
    }
}

#[test]
fn waits_that_the_better_point_does_not_know_are_no_evidence() {
    let waited = metric::wait(petal_record::counters::WaitClass::Commit);
    let bends = |before: &[(&str, f64)]| {
        let runs = thrice(&[(1, 1000.0, 100.0), (8, 500.0, 100.0)]);
        let line = runs.into_iter().map(|run| match run.factor("sessions") {
            Some("1") => with(run, before),
            _ => with(run, &[(&waited, 60.0)]),
        });
        Petals::of(&line.collect::<Vec<_>>()).lines[0].bend_back.clone().unwrap()
    };
    assert_eq!(bends(&[(&waited, 5.0)]).cause, "log");
    let unknown = bends(&[]);
    assert_eq!(unknown.cause, "unknown");
    assert!(unknown.evidence.iter().all(|sentence| !sentence.contains("DB time")));
}

/// The limit of a cell whose repeats met these, each with its words and figures.
fn limit_of(met: &[(Limiter, &str, serde_json::Value)]) -> String {
    let repeats: Vec<Observation> = (1..)
        .zip(met)
        .map(|(repeat, (by, words, figures))| Observation {
            limited_by: Some(LimitedBy {
                shared_with: None,
                by: *by,
                words: (*words).to_owned(),
                evidence: serde_json::from_value(figures.clone()).unwrap(),
            }),
            ..seen(4, repeat, 100.0, 10.0)
        })
        .collect();
    Petals::of(&repeats).lines[0].points[0].limited_by.clone().unwrap()
}

#[test]
fn the_limit_of_a_cell_has_the_mean_figure_of_the_repeats_that_met_it() {
    let busy =
        |percent: f64| (Limiter::Processors, "processors", json!({ "busy_percent": percent }));
    let reads =
        |s: f64, words| (Limiter::Reads, words, json!({ "wait_time_s": s, "db_time_s": 100.0 }));
    assert_eq!(limit_of(&[busy(97.0), busy(99.0)]), "processors (98 % busy)");
    let (first, other) =
        ("waiting for reads (60 % of DB time)", "waiting for reads (80 % of DB time)");
    assert_eq!(
        limit_of(&[busy(97.0), reads(60.0, first), reads(80.0, other)]),
        "waiting for reads (70 % of DB time; 2 of 3 repeats)"
    );
    let undecided = |s: f64, words| {
        let evidence = json!({ "wait_time_s": s, "db_time_s": 100.0 });
        (Limiter::NotDetermined, words, evidence)
    };
    let (first, other) = (
        "not determined (largest share: reads, 40 % of DB time)",
        "not determined (largest share: reads, 48 % of DB time)",
    );
    let limit = limit_of(&[busy(97.0), undecided(40.0, first), undecided(48.0, other)]);
    assert_eq!(limit, "not determined (largest share: reads, 44 % of DB time; 2 of 3 repeats)");
    assert_eq!(limit_clause(&limit), format!("limit {limit}"));
    assert_eq!(limit_clause("the log (60 %)"), "limited by the log (60 %)");
    // That processor carried the log writer: its share is not that of all.
    let log_writer = json!({ "busy_percent": 99.0, "processor": 3 });
    assert_eq!(limit_of(&[(Limiter::Processors, "processors", log_writer)]), "processors");
    let deep = json!({ "wait_time_s": 900.0, "db_time_s": 100.0 });
    let words = "waiting for reads (9.0 of 16 at once on average)";
    assert_eq!(limit_of(&[(Limiter::Reads, words, deep)]), words);
}

/// The knee of a line of four points and three repeats, whose reads vary by these shares.
fn knee(reads: &[f64], noise: f64) -> Option<u32> {
    let cells = [(1, 1000.0), (2, 1900.0), (4, 3400.0), (8, 3900.0), (16, 4000.0)];
    let cells: Vec<_> =
        cells.iter().zip(reads).map(|((sessions, piops), us)| (*sessions, *piops, *us)).collect();
    let runs = [-noise, 0.0, noise].into_iter().enumerate().flat_map(|(repeat, by)| {
        let run = |(sessions, piops, us): &(u32, f64, f64)| {
            seen(*sessions, repeat as u32 + 1, *piops, us * (1.0 + by))
        };
        cells.iter().map(run).collect::<Vec<_>>()
    });
    let line = Petals::of(&runs.collect::<Vec<_>>()).lines.remove(0);
    line.knee.map(|at| line.points[at].sessions)
}

#[test]
fn a_knee_takes_four_points_and_intervals_that_show_it() {
    let reads = [100.0, 105.0, 115.0, 205.0, 400.0];
    assert_eq!(knee(&reads, 0.01), Some(4));
    assert_eq!(knee(&reads[..3], 0.01), None, "three points");
    assert_eq!(knee(&reads, 0.3), None, "its neighbours' neighbours may be as high");
    // The largest ratio at the last point is not known to be the largest of all.
    assert_eq!(knee(&[100.0, 101.0, 102.0, 103.0], 0.01), None);
}

/// Runs of two targets with these means and 95 % intervals, of three repeats each.
fn targets(a: (f64, f64), b: (f64, f64)) -> Petals {
    // Half of the interval of x - d, x, x + d is 4.303 x d / sqrt(3).
    let runs = [("old", a), ("new", b)].into_iter().flat_map(|(db, (mean, half))| {
        let d = half * 3.0_f64.sqrt() / 4.302_65;
        [-d, 0.0, d].into_iter().enumerate().map(move |(repeat, by)| {
            let mut run = seen(8, repeat as u32 + 1, mean + by, 50.0);
            run.factors.push(("db".into(), db.into()));
            run
        })
    });
    Petals::of(&runs.collect::<Vec<_>>())
}

#[test]
fn targets_whose_intervals_overlap_have_no_winner() {
    let petals = targets((136_207.0, 55_484.0), (125_765.0, 73_173.0));
    let Some(Highest::NoWinner(peaks)) = petals.highest() else { panic!("a winner") };
    let half = peaks[0].1.piops.as_ref().unwrap().half_width.unwrap();
    assert!((half - 55_484.0).abs() < 1.0, "{half}");
    assert_eq!(peaks[0].0.name, "DB old");
    let apart = targets((136_207.0, 500.0), (125_765.0, 700.0));
    let Some(Highest::Peak(line, _)) = apart.highest() else { panic!("no winner") };
    assert_eq!(line.name, "DB old");
    // Another mix is another test, and no rival.
    let mut mixes = thrice(&[(8, 1000.0, 10.0)]);
    for mut run in thrice(&[(8, 1001.0, 10.0)]) {
        run.factors[0].1 = "30".into();
        mixes.push(run);
    }
    assert!(matches!(Petals::of(&mixes).highest(), Some(Highest::Peak(..))));
}

#[test]
fn points_that_are_no_storage_test_make_no_peak_knee_plateau_or_price() {
    let cells = [(1, 100e3, 9.0), (2, 190e3, 9.0), (4, 300e3, 16.0), (8, 300e3, 32.0)];
    let mut runs = thrice(&cells);
    for run in runs.iter_mut().filter(|run| run.factor("sessions") != Some("1")) {
        run.warnings.push("cached-by-os".into());
    }
    let petals = Petals::of(&runs);
    let line = &petals.lines[0];
    assert_eq!((line.peak, line.struck_out, line.knee), (Some(0), None, None), "the only result");
    let verdict = petals.verdict.unwrap().words;
    assert_eq!(verdict, "3 of 4 cells not a storage test: cached-by-os in 3 cells");
    runs[0].warnings.push("cached-by-storage".into());
    for run in &mut runs {
        run.warnings.push("cached-by-os".into());
        run.metrics.insert(metric::PRICE.into(), 900.0);
    }
    let petals = Petals::of(&runs);
    let line = &petals.lines[0];
    assert_eq!((line.peak, line.plateau, line.limit.clone()), (None, None, None));
    assert_eq!((line.struck_out, petals.highest_peak().is_none()), (Some(2), true));
    assert_eq!(crate::price::of_line(line, None), None);
}

#[test]
fn an_invalid_run_is_in_no_point() {
    let mut runs = thrice(&[(8, 1000.0, 10.0)]);
    let mut headline = petal_record::headline::Headline::default();
    headline.verdict.validity = petal_record::headline::Validity::Invalid;
    headline.verdict.reason = Some(Default::default());
    headline.verdict.reason.as_mut().unwrap().finding = "rows-missing".into();
    runs[0].headline = Some(headline);
    let petals = Petals::of(&runs);
    assert_eq!(petals.lines[0].points[0].sources.len(), 2);
    assert!(petals.notes[0].ends_with("it is invalid: rows-missing"), "{:?}", petals.notes);
    // Without another run the petals begin with the reason and the command.
    let headline = runs[0].headline.as_mut().unwrap();
    (headline.verdict.words, headline.next) = ("invalid".into(), "petal run".into());
    let petals = Petals::of(&runs[..1]);
    assert_eq!(
        (petals.tested.as_str(), petals.next.as_str()),
        ("invalid (rows-missing)", "petal run")
    );
    assert_eq!(petals.lines, []);
}

/// A run with this verdict.
fn tested(piops: f64, repeat: u32, tested: petal_record::headline::Tested) -> Observation {
    use petal_record::headline::{Headline, Verdict};
    let verdict = Verdict { tested, words: tested.words().to_owned(), ..Verdict::default() };
    Observation {
        factors: vec![("sessions".to_owned(), "4".to_owned())],
        metrics: [(metric::PIOPS.to_owned(), piops)].into(),
        repeat: Some(repeat),
        source: format!("run {repeat}"),
        headline: Some(Headline { verdict, next: "petal run again".into(), ..Headline::default() }),
        ..Observation::default()
    }
}

#[test]
fn a_point_is_made_of_tests_of_the_same_thing_and_counts_the_others() {
    use petal_record::headline::Tested::{Device, SharedProcessors};
    let runs = [tested(40_000.0, 1, Device), tested(28_000.0, 2, SharedProcessors)];
    let runs = [&runs[..], &[tested(42_000.0, 3, Device)]].concat();
    let petals = Petals::of(&runs);
    let point = &petals.lines[0].points[0];
    assert_eq!((point.piops.as_ref().unwrap().mean, point.left_out), (41_000.0, 1));
    assert_eq!(point.sources, ["run 1", "run 3"]);
    let note = petals.notes.iter().find(|note| note.starts_with("left-out: ")).unwrap();
    assert!(note.contains("1 of 3 runs with 4 sessions: others' work"), "{note}");
    assert_eq!(petals.next, "petal run again", "also after a valid sweep");
    // A cell of such runs alone keeps them and is no result, however high it is.
    let mut alone = tested(90_000.0, 4, SharedProcessors);
    alone.factors[0].1 = "8".to_owned();
    let petals = Petals::of(&[&runs[..], &[alone.clone()]].concat());
    let line = &petals.lines[0];
    assert_eq!((line.points[1].sources.len(), line.points[1].left_out), (1, 0));
    assert_eq!((line.peak, line.points[1].not_storage.as_deref()), (Some(0), Some("other-load")));
    let words = "1 of 2 cells not a storage test: other-load in 1 cell";
    assert_eq!(petals.verdict.unwrap().words, words);
    let petals = Petals::of(&[alone]);
    assert_eq!((petals.lines[0].peak, petals.lines[0].struck_out), (None, Some(0)));
    assert!(petals.highest().is_none());
}

#[test]
fn loads_of_other_kinds_of_test_are_no_rivals() {
    use petal_record::headline::{AskedFor, Tested};
    let run = |asked_for, metric: &str, value: f64| {
        let mut seen = tested(100.0, 1, Tested::Log);
        seen.headline.as_mut().unwrap().verdict.asked_for = asked_for;
        seen.metrics.insert(metric.to_owned(), value);
        seen.factors.push(("update_pct".to_owned(), metric.to_owned()));
        seen
    };
    let physical = run(AskedFor::PhysicalIo, metric::PIOPS, 90.0);
    let logical = run(AskedFor::LogicalReads, metric::LOGICAL_READS, 1e6);
    let petals = Petals::of(&[physical, logical]);
    assert!(petals.lines.iter().all(|line| line.peak.is_some()));
    let (line, _) = petals.highest_peak().unwrap();
    assert_eq!(line.asked_for, AskedFor::PhysicalIo);
}
