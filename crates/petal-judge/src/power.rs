//! Error rates and power of each rule of judgement, measured with petal's own code on simulated
//! runs. The benchmark `judgement` prints the shares of docs/judgement.md and fails if
//! one is not kept; a unit test runs a short form.

use statrs::distribution::{Binomial, DiscreteCDF as _};

use crate::compare::history::{self, FigureHistory, History};
use crate::compare::limits::{LimitOutcome, hold};
use crate::compare::{ComparedSide, Comparison, Rules, Significance, compare};
use crate::next_cell::repeats;
use crate::petals::{PetalLine, Petals};
use crate::seeded_rng::SeededRng;
use petal_record::observation::{Observation, metric};
use petal_settings::Arrivals;
use petal_workload::arrivals::simulated;

/// A count of trials that is rarer than this in either direction breaks a claim.
const CHANCE: f64 = 0.001;
const LIMIT: &str = "piops < -5%";
const REPEATS: u32 = 3;

/// The share of trials in which a rule answers, as it is stated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stated {
    AtMost(f64),
    AtLeast(f64),
}

/// A rule, the simulated runs that it judges, and its stated share of answers.
pub struct Claim {
    pub rule: &'static str,
    pub runs: &'static str,
    pub stated: Stated,
    trial: fn(&mut SeededRng) -> bool,
}

impl Claim {
    /// Returns the number of trials with this answer.
    pub fn count(&self, trials: u64, seed: u64) -> u64 {
        let mut rng = SeededRng::seeded(seed);
        (0..trials).map(|_| u64::from((self.trial)(&mut rng))).sum()
    }

    /// Returns whether a count is past the stated share, be it by chance.
    pub fn is_past(&self, count: u64, trials: u64) -> bool {
        let share = count as f64 / trials as f64;
        match self.stated {
            Stated::AtMost(most) => share > most,
            Stated::AtLeast(least) => share < least,
        }
    }

    /// Returns whether a count is one that the stated share may have by chance.
    pub fn is_kept(&self, count: u64, trials: u64) -> bool {
        let quantile =
            |share, at| Binomial::new(share, trials).map_or(0, |binomial| binomial.inverse_cdf(at));
        match self.stated {
            Stated::AtMost(share) => count <= quantile(share, 1.0 - CHANCE),
            Stated::AtLeast(share) => count >= quantile(share, CHANCE),
        }
    }
}

const GATE: &str = "compare `--fail-if 'piops < -5%'`";
const REPEATED: &str = "compare, sides of `--precision 2%`";
const BEND: &str = "petals, bend-back";
const STEPS: &str = "history, lasting change";
const NIGHTLY: &str = "history `--fail-if 'piops < -5%'`";

pub const CLAIMS: [Claim; 27] = [
    Claim {
        rule: GATE,
        runs: "12 cells, 3 repeats, 2 % noise, no change: passed",
        stated: Stated::AtLeast(0.95),
        trial: |rng| gate(rng, 12, 0.02, &|_| 1.0) == LimitOutcome::Passed,
    },
    Claim {
        rule: GATE,
        runs: "the same, -8 % in every cell: failed",
        stated: Stated::AtLeast(0.95),
        trial: |rng| gate(rng, 12, 0.02, &|_| 0.92) == LimitOutcome::Failed,
    },
    Claim {
        rule: GATE,
        runs: "the same, -5 % in every cell, which is the limit: failed",
        stated: Stated::AtMost(0.05),
        trial: |rng| gate(rng, 12, 0.02, &|_| 0.95) == LimitOutcome::Failed,
    },
    Claim {
        rule: GATE,
        runs: "the same, -25 % in one cell: failed, and the cell is named",
        stated: Stated::AtLeast(0.80),
        trial: |rng| {
            let change = |cell| if cell == 5 { 0.75 } else { 1.0 };
            gate(rng, 12, 0.02, &change) == LimitOutcome::Failed
        },
    },
    Claim {
        rule: "compare, change over all cells",
        runs: "12 cells, no change, one cell with three times the noise: significant",
        stated: Stated::AtMost(0.05),
        trial: |rng| {
            let noise = |cell| if cell == 0 { 0.06 } else { 0.02 };
            let compared = compared(rng, 12, &noise, &|_| 1.0);
            compared.wholes[0].p.is_some_and(crate::significance::is_significant)
        },
    },
    Claim {
        rule: "compare, differing cells",
        runs: "12 cells, no change: one or more significant",
        stated: Stated::AtMost(0.05),
        trial: |rng| has_significant(&compared(rng, 12, &|_| 0.02, &|_| 1.0)),
    },
    Claim {
        rule: BEND,
        runs: "10 % lower at the end, 3 repeats, 3 % noise: found",
        stated: Stated::AtLeast(0.97),
        trial: |rng| bends(rng, &knee(0.10), 0.03, REPEATS),
    },
    Claim {
        rule: BEND,
        runs: "5 % lower at the end, 3 % noise: found",
        stated: Stated::AtLeast(0.45),
        trial: |rng| bends(rng, &knee(0.05), 0.03, REPEATS),
    },
    Claim {
        rule: BEND,
        runs: "5 % lower at the end, 1 % noise: found",
        stated: Stated::AtLeast(0.97),
        trial: |rng| bends(rng, &knee(0.05), 0.01, REPEATS),
    },
    Claim {
        rule: BEND,
        runs: "a line that becomes flat, 3 % noise: found",
        stated: Stated::AtMost(0.05),
        trial: |rng| bends(rng, &knee(0.0), 0.03, REPEATS),
    },
    Claim {
        rule: BEND,
        runs: "a line that is flat from one session on, 3 % noise: found",
        stated: Stated::AtMost(0.05),
        trial: |rng| bends(rng, &[60_000.0; 8], 0.03, REPEATS),
    },
    Claim {
        rule: BEND,
        runs: "the same, its last point with three times the noise: found",
        stated: Stated::AtMost(0.12),
        trial: |rng| {
            let noise = |at| if at == 7 { 0.06 } else { 0.02 };
            line(rng, &[60_000.0; 8], &noise, REPEATS).bend_back.is_some()
        },
    },
    Claim {
        rule: BEND,
        runs: "a flat line of single runs, 3 % noise: found",
        stated: Stated::AtMost(0.0),
        trial: |rng| bends(rng, &knee(0.0), 0.03, 1),
    },
    Claim {
        rule: "petals, plateau",
        runs: "a line that becomes flat, 3 % noise: it has the true peak",
        stated: Stated::AtLeast(0.95),
        trial: |rng| has_peak(rng, &knee(0.0)),
    },
    Claim {
        rule: "petals, plateau",
        runs: "a line that is flat from one session on: it has any one point",
        stated: Stated::AtLeast(0.85),
        trial: |rng| has_peak(rng, &[60_000.0; 8]),
    },
    Claim {
        rule: STEPS,
        runs: "30 nights, then 7 that are 5 % lower, 2 % noise: found within 2 nights",
        stated: Stated::AtLeast(0.95),
        trial: |rng| is_near(&followed(rng, &[(30, 1.0), (7, 0.95)], 0.02), &[30]),
    },
    Claim {
        rule: STEPS,
        runs: "the same with 3 %: found within 2 nights",
        stated: Stated::AtLeast(0.50),
        trial: |rng| is_near(&followed(rng, &[(30, 1.0), (7, 0.97)], 0.02), &[30]),
    },
    Claim {
        rule: STEPS,
        runs: "30 nights, 10 that are 8 % lower, 10 repaired: both found within 2 nights",
        stated: Stated::AtLeast(0.95),
        trial: |rng| {
            let parts = [(30, 1.0), (10, 0.92), (10, 1.0)];
            is_near(&followed(rng, &parts, 0.02), &[30, 40])
        },
    },
    Claim {
        rule: STEPS,
        runs: "the 5 % step, when it is found: another one is found with it",
        stated: Stated::AtMost(0.05),
        trial: |rng| {
            let series = followed(rng, &[(30, 1.0), (7, 0.95)], 0.02);
            series.changes.iter().filter(|change| change.is_lasting).count() > 1
        },
    },
    Claim {
        rule: STEPS,
        runs: "the 5 % step, when it is found: its size is in the 95 % interval",
        stated: Stated::AtLeast(0.90),
        trial: |rng| {
            let series = followed(rng, &[(30, 1.0), (7, 0.95)], 0.02);
            let newest = series.changes.last().and_then(|change| change.shift?.interval);
            newest.is_none_or(|(low, high)| low <= -0.05 && -0.05 <= high)
        },
    },
    Claim {
        rule: "history, any change",
        runs: "60 nights of one level: found",
        stated: Stated::AtMost(0.05),
        trial: |rng| !followed(rng, &[(60, 1.0)], 0.02).changes.is_empty(),
    },
    Claim {
        rule: "history, any change",
        runs: "14 nights of one level: found",
        stated: Stated::AtMost(0.05),
        trial: |rng| !followed(rng, &[(14, 1.0)], 0.02).changes.is_empty(),
    },
    Claim {
        rule: NIGHTLY,
        runs: "31 nights of one level, 2 % noise: passed",
        stated: Stated::AtLeast(0.95),
        trial: |rng| nightly(rng, &[(31, 1.0)]) == LimitOutcome::Passed,
    },
    Claim {
        rule: NIGHTLY,
        runs: "30 nights, then 7 that are 8 % lower: failed",
        stated: Stated::AtLeast(0.90),
        trial: |rng| nightly(rng, &[(30, 1.0), (7, 0.92)]) == LimitOutcome::Failed,
    },
    Claim {
        rule: NIGHTLY,
        runs: "30 nights, then 7 that are 5 % lower, which is the limit: failed",
        stated: Stated::AtMost(0.05),
        trial: |rng| nightly(rng, &[(30, 1.0), (7, 0.95)]) == LimitOutcome::Failed,
    },
    Claim {
        rule: REPEATED,
        runs: "equal sides with 2 % noise: significant",
        stated: Stated::AtMost(0.05),
        trial: |rng| repeated_differ(rng, 1.0),
    },
    Claim {
        rule: REPEATED,
        runs: "the same, the second 6 % lower: significant",
        stated: Stated::AtLeast(0.90),
        trial: |rng| repeated_differ(rng, 0.94),
    },
];

/// The mean errors of the peak and of the plateau's PIOPS, on a line that becomes flat, with 5 %
/// noise and three repeats: the highest of several means is too high.
pub fn errors_of_the_peak(trials: u64, seed: u64) -> (f64, f64) {
    let mut rng = SeededRng::seeded(seed);
    let truth = knee(0.0);
    let (mut of_peak, mut of_plateau) = (0.0, 0.0);
    for _ in 0..trials {
        let line = line(&mut rng, &truth, &|_| 0.05, REPEATS);
        let peak = line.peak.and_then(|at| line.points[at].piops.as_ref());
        let peak = peak.map_or(0.0, |piops| piops.mean);
        of_peak += peak / truth[7] - 1.0;
        of_plateau += line.plateau.map_or(peak, |plateau| plateau.piops) / truth[7] - 1.0;
    }
    (of_peak / trials as f64, of_plateau / trials as f64)
}

fn run(key: &str, value: usize, repeat: u32, piops: f64) -> Observation {
    Observation {
        factors: vec![(key.to_owned(), value.to_string())],
        repeat: Some(repeat),
        metrics: [(metric::PIOPS.to_owned(), piops)].into(),
        ..Observation::default()
    }
}

fn compared(
    rng: &mut SeededRng,
    cells: usize,
    noise: &dyn Fn(usize) -> f64,
    change: &dyn Fn(usize) -> f64,
) -> Comparison {
    let mut side = |name: &str, change: &dyn Fn(usize) -> f64| {
        let mut observations = Vec::new();
        for cell in 0..cells {
            let level = 1000.0 * (cell + 1) as f64 * change(cell);
            let repeats = (1..=REPEATS).map(|repeat| {
                run("cell", cell, repeat, level * (noise(cell) * rng.normal()).exp())
            });
            observations.extend(repeats);
        }
        ComparedSide { name: name.to_owned(), observations }
    };
    let sides = [side("before", &|_| 1.0), side("after", change)];
    compare(&sides, &Rules::default()).unwrap_or_default()
}

/// Returns whether two sides differ, each repeated as a sweep with `--precision 2%` repeats it.
fn repeated_differ(rng: &mut SeededRng, change: f64) -> bool {
    let mut side = |name: &str, level: f64| {
        let mut values = Vec::new();
        while repeats::end(&values, 0.02, 16).is_none() {
            values.push(level * (0.02 * rng.normal()).exp());
        }
        let observations = (1..).zip(values).map(|(repeat, piops)| Observation {
            is_repeated_by_figures: true,
            ..run("cell", 0, repeat, piops)
        });
        ComparedSide { name: name.to_owned(), observations: observations.collect() }
    };
    let sides = [side("before", 1000.0), side("after", 1000.0 * change)];
    let compared = compare(&sides, &Rules::default()).unwrap_or_default();
    has_significant(&compared)
}

fn has_significant(compared: &Comparison) -> bool {
    let mut changes = compared.changes(metric::PIOPS);
    changes.any(|(.., of)| of.is_some_and(|it| it.significance == Significance::Significant))
}

fn gate(
    rng: &mut SeededRng,
    cells: usize,
    noise: f64,
    change: &dyn Fn(usize) -> f64,
) -> LimitOutcome {
    let compared = compared(rng, cells, &|_| noise, change);
    LIMIT.parse().map_or(LimitOutcome::Inconclusive, |limit| hold(&limit, &compared).outcome)
}

/// PIOPS of 1, 2, 4 ... 128 sessions: a tenth of a session's work each, up to a limit, and lower by
/// this share at the last point and by half of it at the one before.
fn knee(drop: f64) -> [f64; 8] {
    std::array::from_fn(|at| {
        let alone = 10_000.0 * f64::from(1_u32 << at);
        let share = [1.0, 1.0 - drop / 2.0, 1.0 - drop][at.saturating_sub(5)];
        share * alone / (1.0 + (alone / 60_000.0).powi(3)).cbrt()
    })
}

fn line(
    rng: &mut SeededRng,
    truth: &[f64; 8],
    noise: &dyn Fn(usize) -> f64,
    repeats: u32,
) -> PetalLine {
    let mut seen = Vec::new();
    for (at, level) in truth.iter().enumerate() {
        for repeat in 1..=repeats {
            let piops = level * (noise(at) * rng.normal()).exp();
            seen.push(run("sessions", 1 << at, repeat, piops));
        }
    }
    Petals::of(&seen).lines.pop().unwrap_or_default()
}

fn bends(rng: &mut SeededRng, truth: &[f64; 8], noise: f64, repeats: u32) -> bool {
    line(rng, truth, &|_| noise, repeats).bend_back.is_some()
}

/// Whether the plateau, or the peak if it is alone, has the point at 128 sessions.
fn has_peak(rng: &mut SeededRng, truth: &[f64; 8]) -> bool {
    let line = line(rng, truth, &|_| 0.03, REPEATS);
    let last = line.plateau.map(|plateau| plateau.to).or(line.peak);
    last == Some(7)
}

/// Whether an open loop with Poisson arrivals has the mean response time of a pool of servers, within
/// 3 %.
pub fn is_a_pool() -> bool {
    let (mean_s, _) = simulated::of_busy_sessions(Arrivals::Poisson);
    (mean_s / simulated::expected_mean_s() - 1.0).abs() < 0.03
}

/// Response times of the same operations by pattern of arrivals.
pub fn open_loop_words() -> String {
    let patterns =
        [("dealt", Arrivals::Dealt), ("even", Arrivals::Even), ("Poisson", Arrivals::Poisson)];
    let words = patterns.map(|(name, pattern)| {
        let (mean_s, p99_s) = simulated::of_busy_sessions(pattern);
        format!("{name} mean {:.1} ms, p99 {:.1} ms", mean_s * 1000.0, p99_s * 1000.0)
    });
    words.join("; ")
}

/// A run a night, at these levels for so many nights each.
fn nights(rng: &mut SeededRng, parts: &[(usize, f64)], noise: f64) -> Option<History> {
    let levels = parts.iter().flat_map(|&(count, level)| std::iter::repeat_n(level, count));
    let runs = levels.enumerate().map(|(night, level)| {
        let mut seen = run("night", night, 1, 1000.0 * level * (noise * rng.normal()).exp());
        seen.factors.clear();
        seen.context.insert("night".to_owned(), night.to_string());
        seen
    });
    let runs: Vec<Observation> = runs.collect();
    history::history(&runs, "night", &[metric::PIOPS.to_owned()]).ok()
}

fn followed(rng: &mut SeededRng, parts: &[(usize, f64)], noise: f64) -> FigureHistory {
    let history = nights(rng, parts, noise);
    history.and_then(|mut history| history.series.pop()).unwrap_or_default()
}

/// Whether the lasting changes are these, within two nights.
fn is_near(series: &FigureHistory, known: &[usize]) -> bool {
    let near = |at: &usize| {
        series.changes.iter().any(|change| change.is_lasting && change.at.abs_diff(*at) <= 2)
    };
    known.iter().all(near)
}

fn nightly(rng: &mut SeededRng, parts: &[(usize, f64)]) -> LimitOutcome {
    let history = nights(rng, parts, 0.02);
    let held = history.and_then(|history| Some(history.hold(&LIMIT.parse().ok()?).outcome));
    held.unwrap_or(LimitOutcome::Inconclusive)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fiftieth of the benchmark's trials, each claim with a seed of its own.
    #[test]
    fn every_rule_keeps_its_stated_shares() {
        const TRIALS: u64 = 40;
        for (seed, claim) in (1..).zip(&CLAIMS) {
            let count = claim.count(TRIALS, seed);
            let (rule, runs, stated) = (claim.rule, claim.runs, claim.stated);
            assert!(
                claim.is_kept(count, TRIALS),
                "{rule}: {runs}: {count} of {TRIALS}, {stated:?}"
            );
        }
        let (of_peak, of_plateau) = errors_of_the_peak(TRIALS, 1);
        assert!(of_peak > 0.01 && of_plateau.abs() < 0.015, "{of_peak} {of_plateau}");
    }

    #[test]
    fn the_page_of_judgement_has_the_open_loop() {
        assert!(is_a_pool());
        let page = include_str!("../../../docs/judgement.md");
        let words = open_loop_words();
        assert!(page.contains(&words), "docs/judgement.md lacks {words}");
    }

    /// The page states what the rules state.
    #[test]
    fn the_page_of_judgement_has_every_claim() {
        let page = include_str!("../../../docs/judgement.md");
        for claim in &CLAIMS {
            let stated = match claim.stated {
                Stated::AtMost(share) => format!("at most {:.0} %", share * 100.0),
                Stated::AtLeast(share) => format!("at least {:.0} %", share * 100.0),
            };
            let entry = format!("- {} in {stated}, measured ", claim.runs);
            let list = page.split_once(&format!("\n{}:\n", claim.rule)).map(|(_, after)| after);
            assert!(list.is_some_and(|it| it.contains(&entry)), "docs/judgement.md lacks {entry}");
        }
    }
}
