//! A sweep's order and its remaining runs: pure functions of its plan.

use std::time::Duration;

use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::sweep::{CellRun, Sweep, SweepPlan};
use petal_settings::read::SERVER_AXIS;
use petal_workload::deck::shuffle;
use petal_workload::scatter::mix;

/// Settling and connecting of a cell, before the first one is measured.
pub const OVERHEAD_GUESSED: Duration = Duration::from_secs(3);

/// Distinguishes this stream from the sessions' streams.
const ORDER: u64 = 0x006f_7264_6572;

/// The order of a round (from 1): all cells, from 1, shuffled, so that a drift over time meets each
/// cell at another moment of each round.
pub fn round(seed: u64, cells: u32, round: u32) -> Vec<u32> {
    let before = if round > 1 { shuffled(seed, cells, round - 1) } else { Vec::new() };
    let mut order = shuffled(seed, cells, round);
    if cells > 1 && order == before {
        order.rotate_left(1);
    }
    order
}

fn shuffled(seed: u64, cells: u32, round: u32) -> Vec<u32> {
    let mut stream =
        Xoshiro256PlusPlus::seed_from_u64(mix(seed ^ mix(ORDER ^ u64::from(round) << 48)));
    let mut order: Vec<u32> = (1..=cells).collect();
    shuffle(&mut order, &mut stream);
    order
}

/// A plan with the order of all its rounds; existing rounds stay. A design that chooses each next
/// cell has no order.
pub fn with_order(plan: SweepPlan) -> SweepPlan {
    if !plan.design.is_grid() {
        return plan;
    }
    let cells = plan.cells().len() as u32;
    let order = (1..=plan.repeats)
        .map(|number| match plan.order.get(number as usize - 1) {
            Some(known) => known.clone(),
            None if plan.step_by_step => (1..=cells).collect(),
            None => in_blocks(&plan, round(plan.seed, cells, number)),
        })
        .collect();
    SweepPlan { order, ..plan }
}

/// Moves cells with the same settings of the server together, because a change may restart it. The
/// blocks come in the order in which the round first meets them.
fn in_blocks(plan: &SweepPlan, mut order: Vec<u32>) -> Vec<u32> {
    let cells = plan.cells();
    let settings = |number: u32| -> Vec<&(String, String)> {
        let factors = cells.get(number as usize - 1).into_iter().flatten();
        factors.filter(|(key, _)| key.starts_with(SERVER_AXIS)).collect()
    };
    let mut blocks: Vec<Vec<&(String, String)>> = Vec::new();
    for number in &order {
        let block = settings(*number);
        if !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    order.sort_by_cached_key(|number| blocks.iter().position(|b| *b == settings(*number)));
    order
}

/// All runs of cells in the order in which they are run.
pub fn cell_runs(plan: &SweepPlan) -> Vec<CellRun> {
    (1..)
        .zip(&plan.order)
        .flat_map(|(repeat, round)| round.iter().map(move |&number| CellRun { number, repeat }))
        .collect()
}

/// The runs that are not done yet, in order.
pub fn left(sweep: &Sweep) -> Vec<CellRun> {
    let mut runs = cell_runs(&sweep.plan);
    runs.retain(|run| !sweep.is_settled(run.number, run.repeat));
    runs
}

/// Time that the cells so far took in addition to their runs, to predict the end of the sweep.
#[derive(Debug, Default, Clone, Copy)]
pub struct Pace {
    cells: u32,
    overhead: Duration,
}

impl Pace {
    /// Adds a cell that took `whole`, of which its run took `run`.
    pub fn add(&mut self, whole: Duration, run: Duration) {
        self.cells += 1;
        self.overhead += whole.saturating_sub(run);
    }

    /// Settling, connecting and writing of one cell; a guess before the first.
    pub fn overhead(&self) -> Duration {
        self.overhead.checked_div(self.cells).unwrap_or(OVERHEAD_GUESSED)
    }

    /// Remaining time of `cells` runs of `run`.
    pub fn left(&self, cells: usize, run: Duration) -> Duration {
        (run + self.overhead()) * u32::try_from(cells).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;
    use crate::sweep::{Axis, FORMAT, SweepCell};
    use proptest::prelude::*;

    fn sweep(cells: usize, repeats: u32, seed: u64) -> Sweep {
        let values = (0..cells).map(|value| value.to_string()).collect();
        let axes = vec![Axis { key: "sessions".to_owned(), values }];
        Sweep {
            format: FORMAT.to_owned(),
            petal_version: String::new(),
            engine: String::new(),
            started_at: String::new(),
            status: Status::Interrupted,
            plan: with_order(SweepPlan { axes, repeats, seed, ..SweepPlan::default() }),
            cells: Vec::new(),
            failures: Vec::new(),
            skipped: Vec::new(),
            replay: None,
        }
    }

    proptest! {
        #[test]
        fn every_round_is_a_permutation_and_another_order(cells in 2u32..60, seed: u64) {
            let rounds: Vec<Vec<u32>> = (1..=4).map(|n| round(seed, cells, n)).collect();
            for order in &rounds {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert!(sorted.into_iter().eq(1..=cells));
            }
            prop_assert_ne!(&rounds[0], &rounds[1]);
        }

        #[test]
        fn rounds_are_interleaved_and_come_out_the_same(
            cells in 1usize..20, repeats in 1u32..5, seed: u64,
        ) {
            let sweep = sweep(cells, repeats, seed);
            prop_assert_eq!(&with_order(sweep.plan.clone()), &sweep.plan);
            let runs = cell_runs(&sweep.plan);
            prop_assert_eq!(runs.len(), cells * repeats as usize);
            // No cell repeats before every other has run.
            let in_round = |(round, runs): (usize, &[CellRun])| {
                runs.iter().all(|run| run.repeat as usize == round + 1)
            };
            prop_assert!(runs.chunks(cells).enumerate().all(in_round));
        }

        #[test]
        fn remaining_and_finished_cells_are_the_whole(
            cells in 1usize..12, repeats in 1u32..4, seed: u64, done in any::<[bool; 48]>(),
        ) {
            let mut sweep = sweep(cells, repeats, seed);
            let all = cell_runs(&sweep.plan);
            let cell = |run: &CellRun| SweepCell {
                number: run.number,
                repeat: run.repeat,
                factors: Vec::new(),
                folder: String::new(),
                status: Status::Complete,
            };
            sweep.cells =
                all.iter().zip(done).filter(|(_, done)| *done).map(|(run, _)| cell(run)).collect();
            let left = left(&sweep);
            prop_assert_eq!(left.len() + sweep.cells.len(), all.len());
            prop_assert!(left.iter().all(|run| !sweep.has(run.number, run.repeat)));
            // The remaining runs keep the order of all runs.
            let order: Vec<CellRun> = all.into_iter().filter(|run| left.contains(run)).collect();
            prop_assert_eq!(order, left);
        }
    }

    #[test]
    fn cells_of_one_server_setting_run_in_blocks_of_random_order() {
        let axis = |key: &str, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            Axis { key: key.to_owned(), values }
        };
        let axes = vec![axis("server.a", &["x", "y", "z"]), axis("sessions", &["1", "2", "4"])];
        let plan = with_order(SweepPlan { axes, repeats: 20, seed: 5, ..SweepPlan::default() });
        let block = |number: &u32| (number - 1) / 3;
        let mut firsts = [0; 3];
        for round in &plan.order {
            firsts[block(&round[0]) as usize] += 1;
            let changes = round.windows(2).filter(|pair| block(&pair[0]) != block(&pair[1]));
            assert_eq!((round.len(), changes.count()), (9, 2), "{round:?}");
        }
        assert!(firsts.iter().all(|&times| times > 0), "{firsts:?}");
        let within: std::collections::BTreeSet<&[u32]> =
            plan.order.iter().flat_map(|round| round.chunks(3)).collect();
        assert!(within.len() > 3, "the order within a block is drawn, too: {within:?}");
    }

    #[test]
    fn rounds_can_be_added_without_changing_those_that_are_there() {
        let two = sweep(7, 2, 11).plan;
        let four = with_order(SweepPlan { repeats: 4, ..two.clone() });
        assert_eq!(four.order[..2], two.order[..]);
        assert_eq!(four.order.len(), 4);
    }

    #[test]
    fn remaining_time_follows_from_the_cells_so_far() {
        let run = Duration::from_secs(10);
        let mut pace = Pace::default();
        assert_eq!(pace.left(2, run), (run + OVERHEAD_GUESSED) * 2);
        pace.add(Duration::from_secs(11), run);
        pace.add(Duration::from_secs(13), run);
        assert_eq!(pace.left(3, run), Duration::from_secs(36));
    }
}
