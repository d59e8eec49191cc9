//! Results of a replay's trial: reads, writes and redo of each row that petal visited, as the
//! target counted them.

use serde::Deserialize as _;

use petal_record::Run;
use petal_settings::RedoStress;

/// Blocks that the target reads from storage for operations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadCost {
    /// Reads per row; under 1 if a cache serves some.
    pub per_row: f64,
    /// Reads per operation in addition to its rows, such as those of an index.
    pub per_operation: f64,
}

impl ReadCost {
    /// A block for each row: the assumption before a trial.
    pub const PLAIN: Self = Self { per_row: 1.0, per_operation: 0.0 };

    /// Returns the reads of an operation on this number of rows.
    pub fn of(&self, rows: f64) -> f64 {
        rows * self.per_row + self.per_operation
    }
}

/// Fewest reads per row: below it most come from a cache, and visiting more rows would not help.
const READS_PER_ROW_MIN: f64 = 0.5;
/// Fewest writes per row: below it some follow after the trial, or rows were changed twice.
const WRITES_PER_ROW_MIN: f64 = 0.5;
const PER_ROW_MAX: f64 = 8.0;
/// Fewest rows that give a result.
const ROWS_MIN: u64 = 200;

#[derive(Debug, Clone, PartialEq)]
pub struct TrialMeasurements {
    pub seconds: f64,
    pub redo_stress: RedoStress,
    /// Blocks read for SELECTs and UPDATEs.
    pub reads: Option<ReadCost>,
    /// Blocks written, and bytes of log, for each row that UPDATEs changed.
    pub writes_per_row: Option<f64>,
    pub redo_per_row: Option<f64>,
    /// Bytes of log for a row in an earlier trial, with the other REDO_STRESS.
    pub other_redo_per_row: Option<f64>,
}

impl TrialMeasurements {
    /// Adds figures that an earlier trial measured and this one lacks: redo per row under the other
    /// REDO_STRESS, and figures with too few rows now.
    pub fn after(self, earlier: Option<&Self>) -> Self {
        let Some(earlier) = earlier else { return self };
        let other = |redo_stress| match redo_stress {
            RedoStress::Lite => RedoStress::Heavy,
            RedoStress::Heavy => RedoStress::Lite,
        };
        Self {
            reads: self.reads.or(earlier.reads),
            writes_per_row: self.writes_per_row.or(earlier.writes_per_row),
            redo_per_row: self.redo_per_row.or(earlier.redo_of(self.redo_stress)),
            other_redo_per_row: earlier.redo_of(other(self.redo_stress)),
            ..self
        }
    }

    /// Bytes of log for each row that UPDATEs changed; None of a kind that was not tried.
    pub fn redo_of(&self, redo_stress: RedoStress) -> Option<f64> {
        match redo_stress == self.redo_stress {
            true => self.redo_per_row,
            false => self.other_redo_per_row,
        }
    }

    /// Measures a trial in its counted window. At the start of a trial a cache takes the writes, so
    /// that storage sees too few.
    pub fn of(run: &Run) -> Self {
        let run = &*run.headline_window().run;
        let (rows, io) = (&run.summary.rows, &run.details.io);
        let per = |count: Option<u64>, rows: u64| {
            count.filter(|_| rows >= ROWS_MIN).map(|count| count as f64 / rows as f64)
        };
        let reads = io.physical_read_blocks.map(|blocks| blocks.saturating_sub(rows.scan));
        let redo_stress = run.summary.setting("redo_stress");
        Self {
            seconds: run.summary.elapsed_s,
            redo_stress: redo_stress
                .and_then(|value| RedoStress::deserialize(value).ok())
                .unwrap_or_default(),
            reads: reads.and_then(|reads| {
                let ops = &run.summary.ops;
                read_cost(reads, rows.select + rows.update, ops.select + ops.update)
            }),
            writes_per_row: per(io.physical_write_blocks, rows.update),
            redo_per_row: per(io.redo_bytes, rows.update),
            other_redo_per_row: None,
        }
    }

    /// Returns the reads that can correct the requested rates; None if that would not help.
    pub fn usable_reads(&self) -> Option<ReadCost> {
        self.reads.filter(|cost| cost.per_row >= READS_PER_ROW_MIN)
    }

    pub fn usable_writes_per_row(&self) -> Option<f64> {
        self.writes_per_row.filter(|writes| (WRITES_PER_ROW_MIN..=PER_ROW_MAX).contains(writes))
    }
}

/// Reads beyond the rows are the operations' own; fewer reads than rows come of a cache.
fn read_cost(reads: u64, rows: u64, operations: u64) -> Option<ReadCost> {
    if rows < ROWS_MIN || operations == 0 {
        return None;
    }
    Some(match reads.checked_sub(rows) {
        Some(beside) => ReadCost { per_row: 1.0, per_operation: beside as f64 / operations as f64 },
        None => ReadCost { per_row: reads as f64 / rows as f64, per_operation: 0.0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn a_trial_measures_the_cost_of_each_row() {
        let run = fixture::mixed_run();
        let found = TrialMeasurements::of(&run);
        let (rows, io) = (&run.summary.rows, &run.details.io);
        let per_row = io.physical_write_blocks.unwrap() as f64 / rows.update as f64;
        assert_eq!(found.writes_per_row, Some(per_row));
        assert!(found.reads.is_some());
        let mut unseen = run.clone();
        unseen.details.io.redo_bytes = None;
        unseen.summary.rows.update = ROWS_MIN - 1;
        let found = TrialMeasurements::of(&unseen);
        assert_eq!((found.redo_per_row, found.writes_per_row), (None, None));
    }

    #[test]
    fn a_trial_of_few_rows_keeps_the_earlier_trials_figures() {
        let found = TrialMeasurements::of(&fixture::mixed_run());
        let few = TrialMeasurements {
            reads: None,
            writes_per_row: None,
            redo_per_row: None,
            ..found.clone()
        };
        assert_eq!(few.clone().after(Some(&found)), found);
        let heavy = TrialMeasurements { redo_stress: RedoStress::Heavy, ..few };
        let both = heavy.after(Some(&found));
        assert_eq!(
            (both.redo_of(RedoStress::Lite), both.redo_of(RedoStress::Heavy)),
            (found.redo_per_row, None)
        );
    }

    #[test]
    fn cached_reads_and_deferred_writes_correct_nothing() {
        let found = TrialMeasurements {
            seconds: 10.0,
            redo_stress: RedoStress::Lite,
            reads: read_cost(20, 1000, 100),
            writes_per_row: Some(0.1),
            redo_per_row: Some(300.0),
            other_redo_per_row: None,
        };
        assert_eq!((found.usable_reads(), found.usable_writes_per_row()), (None, None));
    }

    #[test]
    fn reads_beyond_the_rows_are_the_operations_own() {
        let cost = read_cost(1500, 1000, 100).unwrap();
        assert_eq!((cost.per_row, cost.per_operation, cost.of(4.0)), (1.0, 5.0, 9.0));
        assert_eq!(read_cost(800, 1000, 100).unwrap().of(10.0), 8.0);
        assert_eq!((read_cost(50, ROWS_MIN - 1, 9), read_cost(0, 1000, 0)), (None, None));
    }
}
