//! Simulated sweeps: the ladder and the adaptive choice find peak and knee as well as a grid of 36
//! runs.

use super::*;
use crate::petals::Petals;
use petal_record::plain_csv;
use petal_record::sweep::{Axis, CellRun, SweepPlan};
use petal_record::sweep_design::Design;

const GRID: [u32; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
/// Run-to-run noise of the simulated lines.
const NOISE: f64 = 0.05;
const SEED: u64 = 50;

/// PIOPS of a line at each number of sessions of [`GRID`].
struct TrueLine {
    name: String,
    piops: Vec<f64>,
}

impl TrueLine {
    fn of(name: &str, piops: impl Fn(f64) -> f64) -> Self {
        let piops = GRID.iter().map(|&sessions| piops(f64::from(sessions))).collect();
        Self { name: name.to_owned(), piops }
    }

    /// A line between measured points, by the logarithms; it falls slowly after the last.
    fn between(name: &str, points: &[(f64, f64)]) -> Self {
        let (last, end) = points[points.len() - 1];
        Self::of(name, |n| {
            let pair = points.windows(2).find(|pair| n <= pair[1].0);
            pair.map_or(end * 0.997_f64.powf(n - last), |pair| {
                let share = (n / pair[0].0).ln() / (pair[1].0 / pair[0].0).ln();
                pair[0].1 * (pair[1].1 / pair[0].1).powf(share)
            })
        })
    }

    /// Throughput over response time of a closed loop.
    fn power(&self, at: usize) -> f64 {
        self.piops[at].powi(2) / f64::from(GRID[at])
    }

    fn most(&self, of: impl Fn(usize) -> f64) -> f64 {
        (0..GRID.len()).map(of).fold(0.0, f64::max)
    }

    fn read(&self, cell: usize, at: usize, rng: &mut SeededRng) -> LineReading {
        let piops = self.piops[cell] * (NOISE * rng.normal()).exp();
        LineReading {
            at,
            load: Some(piops),
            power: Some(piops * piops / f64::from(GRID[cell])),
            latency_share: None,
        }
    }
}

/// Published tables, two recorded sweeps, and curves, bad ones among them.
fn lines() -> Vec<TrueLine> {
    let mut lines = vec![
        TrueLine::between(
            "published, PCIe flash",
            &[(1., 7139.), (4., 24883.), (8., 41569.), (16., 70122.), (32., 92185.), (64., 99060.)],
        ),
        TrueLine::between(
            "published, cluster 1",
            &[(1., 0.64), (2., 1.3), (4., 2.4), (8., 4.6), (16., 9.1), (24., 11.8), (40., 15.5)],
        ),
        TrueLine::between(
            "published, cluster 2",
            &[(1., 0.81), (2., 1.5), (4., 2.8), (8., 5.7), (12., 7.1), (16., 8.6)],
        ),
        TrueLine::between(
            "published, cluster 3",
            &[(1., 0.75), (2., 1.3), (4., 3.2), (8., 6.2), (16., 11.2), (32., 16.6), (36., 16.5)],
        ),
    ];
    for (name, text) in [
        ("recorded, device", include_str!("../../../../tests/data/sweeps/device.csv")),
        ("recorded, SQLite", include_str!("../../../../tests/data/sweeps/sqlite.csv")),
    ] {
        for line in Petals::of(&plain_csv::parse(text, name, None).unwrap()).lines {
            let points = line.points.iter().filter_map(|point| {
                let median = crate::estimate::median(&point.piops.as_ref()?.values)?;
                Some((f64::from(point.sessions), median))
            });
            let points: Vec<(f64, f64)> = points.collect();
            lines.push(TrueLine::between(&format!("{name}, {}", line.name), &points));
        }
    }
    let saturating = |knee: f64, sharp: f64, bend: f64| {
        move |n: f64| {
            n / (1.0 + (n / knee).powf(sharp)).powf(1.0 / sharp) / (1.0 + bend * n.powf(1.5))
        }
    };
    let usl = |wait: f64, crosstalk: f64| {
        move |n: f64| n / (1.0 + wait * (n - 1.0) + crosstalk * n * (n - 1.0))
    };
    let hump = |n: f64, at: f64, width: f64| (-(n / at).ln().powi(2) / width).exp();
    lines.extend([
        TrueLine::of("sharp corner at 8", saturating(8.0, 6.0, 0.0)),
        TrueLine::of("soft corner at 20", saturating(20.0, 1.2, 0.0)),
        TrueLine::of("bend after 10", saturating(10.0, 2.5, 6e-4)),
        TrueLine::of("early bend", saturating(2.0, 2.0, 1e-4)),
        TrueLine::of("early and steep bend", saturating(3.0, 4.0, 3e-3)),
        TrueLine::of("waits 2 %, crosstalk 0.05 %", usl(0.02, 5e-4)),
        TrueLine::of("waits 10 %, crosstalk 0.2 %", usl(0.1, 2e-3)),
        TrueLine::of("waits 30 %, crosstalk 1 %", usl(0.3, 0.01)),
        TrueLine::of("not saturated", usl(0.001, 0.0)),
        TrueLine::of("flat", |_| 5.0),
        TrueLine::of("falling", |n| 1.0 / n.powf(0.2)),
        TrueLine::of("two humps, higher second", |n| {
            4.5 * hump(n, 4.0, 0.5) + 5.5 * hump(n, 32.0, 0.6) + 0.6
        }),
        TrueLine::of("two humps, higher first", |n| {
            5.5 * hump(n, 4.0, 0.7) + 4.2 * hump(n, 24.0, 0.5) + 0.6
        }),
        TrueLine::of("dip at 16", |n| n.min(12.0) * (1.0 - 0.3 * hump(n, 16.0, 0.1))),
    ]);
    lines
}

/// Averages over lines or trials.
#[derive(Default, Clone, Copy)]
struct Score {
    trials: f64,
    runs: f64,
    /// Error of the peak, as a share.
    peak_off: f64,
    /// Share of the most power that the knee lacks.
    knee_off: f64,
}

impl Score {
    fn add(&mut self, other: Self) {
        self.trials += other.trials;
        self.runs += other.runs;
        self.peak_off += other.peak_off;
        self.knee_off += other.knee_off;
    }

    fn means(self) -> [f64; 3] {
        [self.runs, 100.0 * self.peak_off, 100.0 * self.knee_off].map(|sum| sum / self.trials)
    }
}

/// A trial: the number of runs, and the peak and knee (as a position in [`GRID`]) that it finds.
type Way = fn(&TrueLine, &mut SeededRng) -> (usize, f64, usize);

const WAYS: [(&str, Way); 3] =
    [("grid", of_grid), ("ladder", of_ladder), ("adaptive", of_adaptive)];

/// The cell with the most PIOPS and the cell with the most power, by means.
fn by_means(readings: &[LineReading], cells: &[usize]) -> (usize, f64, usize) {
    let load = |at| {
        let own = readings.iter().filter(|reading| reading.at == at);
        mean(&own.filter_map(|reading| reading.load).collect::<Vec<_>>()).unwrap()
    };
    let peak = best(cells.len(), readings, |reading| reading.load).unwrap();
    let knee = best(cells.len(), readings, |reading| reading.power).unwrap();
    (readings.len(), load(peak), cells[knee])
}

fn of_grid(line: &TrueLine, rng: &mut SeededRng) -> (usize, f64, usize) {
    let cells: Vec<usize> = (0..GRID.len()).collect();
    let runs = cells.iter().flat_map(|&at| [at; 3]);
    by_means(&runs.map(|at| line.read(at, at, rng)).collect::<Vec<_>>(), &cells)
}

fn of_ladder(line: &TrueLine, rng: &mut SeededRng) -> (usize, f64, usize) {
    let cells = doublings(&GRID);
    let mut readings = Vec::new();
    while let Some(at) = ladder(cells.len(), &readings, 3) {
        readings.push(line.read(cells[at], at, rng));
    }
    by_means(&readings, &cells)
}

fn of_adaptive(line: &TrueLine, rng: &mut SeededRng) -> (usize, f64, usize) {
    let mut readings = Vec::new();
    while let Some(at) = adaptive(&GRID, &readings, 0.02, 16) {
        readings.push(line.read(at, at, rng));
    }
    let found = LineCurves::through(&GRID, &readings).unwrap().peak_and_knee();
    (readings.len(), found.load, found.knee.unwrap())
}

/// Prints a row for each line; returns the means of each way over all lines.
#[expect(clippy::print_stdout, reason = "the table of docs/limits.md")]
fn compare(trials: usize) -> [[f64; 3]; 3] {
    let lines = lines();
    assert!(lines.len() >= 20);
    let mut totals = [Score::default(); 3];
    for line in &lines {
        let mut row = format!("| {} |", line.name);
        for ((_, way), total) in WAYS.iter().zip(&mut totals) {
            let mut rng = SeededRng::seeded(SEED);
            let mut score = Score::default();
            for _ in 0..trials {
                let (runs, peak, knee) = way(line, &mut rng);
                score.add(Score {
                    trials: 1.0,
                    runs: runs as f64,
                    peak_off: (peak / line.most(|at| line.piops[at]) - 1.0).abs(),
                    knee_off: 1.0 - line.power(knee) / line.most(|at| line.power(at)),
                });
            }
            total.add(score);
            let [runs, peak, knee] = score.means();
            row.push_str(&format!(" {runs:.0} | {peak:.1} | {knee:.1} |"));
        }
        println!("{row}");
    }
    let means = totals.map(Score::means);
    println!("{means:.2?}");
    means
}

#[test]
fn fewer_runs_find_peak_and_knee_as_well_as_a_grid() {
    let [grid, ladder, adaptive] = compare(2);
    for [runs, peak, knee] in [ladder, adaptive] {
        assert!((13.0..=16.0).contains(&runs), "{runs}");
        assert!(peak <= grid[1] + 0.5 && knee <= grid[2] + 2.0, "{peak} {knee}");
    }
}

/// The table of docs/limits.md.
#[test]
#[ignore = "cargo test -p petal-judge --lib sessions_table -- --ignored --nocapture"]
fn sessions_table() {
    compare(20);
}

#[test]
fn a_quiet_line_ends_within_its_precision_after_few_runs() {
    let mut readings = Vec::new();
    let line = TrueLine::of("quiet", |n| n / (1.0 + n / 10.0));
    while let Some(at) = adaptive(&GRID, &readings, 0.02, 1000) {
        let power = line.power(at);
        readings.push(LineReading {
            at,
            load: Some(line.piops[at]),
            power: Some(power),
            latency_share: None,
        });
    }
    let found = LineCurves::through(&GRID, &readings).unwrap().peak_and_knee();
    assert!(readings.len() <= 16, "{}", readings.len());
    assert!(found.is_within(0.02) && found.power_off.is_some(), "{found:?}");
    assert!((found.load / line.piops[11] - 1.0).abs() < 0.02, "{found:?}");
    assert_eq!(GRID[found.peak], 64);
}

#[test]
fn a_cell_that_measured_nothing_is_not_tried_for_ever() {
    let failed = |at| LineReading { at, load: None, power: None, latency_share: None };
    let good = |at| LineReading {
        at,
        load: Some(100.0 + at as f64),
        power: Some(10.0),
        latency_share: None,
    };
    let mut readings: Vec<LineReading> = Vec::new();
    while let Some(at) = ladder(4, &readings, 3) {
        readings.push(if at == 2 { failed(at) } else { good(at) });
        assert!(readings.len() < 20);
    }
    assert_eq!(readings.iter().filter(|reading| reading.at == 2).count(), 1);
    readings.clear();
    while let Some(at) = adaptive(&[1, 2, 4, 8], &readings, 0.001, 50) {
        readings.push(if at == 2 { failed(at) } else { good(at) });
    }
    assert_eq!(readings.iter().filter(|reading| reading.at == 2).count(), 1);
    let all: Vec<LineReading> = (0..4).map(failed).collect();
    assert_eq!(ladder(4, &all, 3), None);
    assert_eq!(adaptive(&[1, 2, 4, 8], &all, 0.02, 16), None);
}

#[test]
fn a_line_of_more_doublings_than_runs_ends_at_its_most_runs() {
    let mut readings = Vec::new();
    while let Some(at) = adaptive(&GRID, &readings, 0.02, 3) {
        readings.push(LineReading { at, load: Some(100.0), power: None, latency_share: None });
    }
    assert_eq!(readings.len(), 3);
    let found = LineCurves::through(&GRID, &readings).unwrap().peak_and_knee();
    assert_eq!((found.knee, found.power_off), (None, None), "no read latency, no knee");
}

#[test]
fn cells_are_repeated_in_rounds_until_each_is_known_or_has_its_most_runs() {
    let values = [1, 2, 4].map(|value: u32| value.to_string()).into();
    let plan = SweepPlan {
        axes: vec![Axis { key: "sessions".to_owned(), values }],
        repeats: 12,
        design: Design::Repeated { precision: 0.02, runs_max: 12 },
        ..SweepPlan::default()
    };
    let mut readings: Vec<CellReading> = Vec::new();
    while let Some(cell) = next(&plan, &readings) {
        let noise = [0.001, 0.01, 0.2][cell.number as usize - 1];
        let load = if cell.repeat % 2 == 0 { 1.0 + noise } else { 1.0 - noise };
        readings.push(CellReading { cell, load: Some(load), power: None, latency_share: None });
    }
    let of = |number| readings.iter().filter(|reading| reading.cell.number == number).count();
    assert_eq!([1, 2, 3].map(of), [3, 8, 12]);
    // Until the first cell is known, each round has all cells.
    for round in readings[..9].chunks(3) {
        let repeat = round[0].cell.repeat;
        assert!(round.iter().all(|reading| reading.cell.repeat == repeat));
    }
    let more = SweepPlan { design: Design::Repeated { precision: 0.02, runs_max: 13 }, ..plan };
    assert_eq!(next(&more, &readings), Some(CellRun { number: 3, repeat: 13 }));
    readings.push(CellReading::failed(CellRun { number: 3, repeat: 13 }));
    assert_eq!(next(&more, &readings), None, "a run without figures");
}

#[test]
fn a_ladder_repeats_peak_knee_and_its_neighbours_only() {
    let loads = [10.0, 19.0, 30.0, 33.0, 34.0];
    let mut readings = Vec::new();
    while let Some(at) = ladder(5, &readings, 3) {
        let load: f64 = loads[at];
        let power = load * load / f64::from(1 << at);
        readings.push(LineReading {
            at,
            load: Some(load),
            power: Some(power),
            latency_share: None,
        });
    }
    let runs = |at| readings.iter().filter(|reading| reading.at == at).count();
    assert_eq!([0, 1, 2, 3, 4].map(runs), [1, 3, 3, 3, 3]);
    let first: Vec<usize> = readings[..5].iter().map(|reading| reading.at).collect();
    assert_eq!(first, [0, 1, 2, 3, 4]);
}
