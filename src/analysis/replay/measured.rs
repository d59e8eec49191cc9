//! What a trial of a replay found: reads, writes and redo of each row that petal visited, as the
//! target counted them.

use crate::record::Run;
use crate::settings::RedoStress;

/// Fewer reads of each row than this come mostly from a cache: visiting more rows would not help.
const READS_PER_ROW_MIN: f64 = 0.5;
/// Fewer writes than this are put off beyond the trial, or made of rows that were changed twice.
const WRITES_PER_ROW_MIN: f64 = 0.5;
const PER_ROW_MAX: f64 = 8.0;
/// Fewer rows tell nothing.
const ROWS_MIN: u64 = 200;

#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub seconds: f64,
    pub redo_stress: RedoStress,
    /// Blocks read for each row that SELECTs and UPDATEs visited.
    pub reads_per_row: Option<f64>,
    /// Blocks written, and bytes of log, for each row that UPDATEs changed.
    pub writes_per_row: Option<f64>,
    pub redo_per_row: Option<f64>,
}

impl Measured {
    pub fn of(run: &Run) -> Self {
        let (rows, io) = (&run.summary.rows, &run.details.io);
        let per = |count: Option<u64>, rows: u64| {
            count.filter(|_| rows >= ROWS_MIN).map(|count| count as f64 / rows as f64)
        };
        let reads = io.physical_read_blocks.map(|blocks| blocks.saturating_sub(rows.scan));
        let redo_stress = run.summary.setting("redo_stress").and_then(|value| value.as_str());
        Self {
            seconds: run.summary.elapsed_s,
            redo_stress: match redo_stress {
                Some("HEAVY") => RedoStress::Heavy,
                _ => RedoStress::Lite,
            },
            reads_per_row: per(reads, rows.select + rows.update),
            writes_per_row: per(io.physical_write_blocks, rows.update),
            redo_per_row: per(io.redo_bytes, rows.update),
        }
    }

    /// Reads per row by which more rows can be asked for; None where that would not help.
    pub fn usable_reads_per_row(&self) -> Option<f64> {
        self.reads_per_row.filter(|reads| (READS_PER_ROW_MIN..=PER_ROW_MAX).contains(reads))
    }

    pub fn usable_writes_per_row(&self) -> Option<f64> {
        self.writes_per_row.filter(|writes| (WRITES_PER_ROW_MIN..=PER_ROW_MAX).contains(writes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn a_trial_tells_what_each_row_costs() {
        let run = fixture::mixed_run();
        let found = Measured::of(&run);
        let (rows, io) = (&run.summary.rows, &run.details.io);
        let per_row = io.physical_write_blocks.unwrap() as f64 / rows.update as f64;
        assert_eq!(found.writes_per_row, Some(per_row));
        assert_eq!(found.reads_per_row.is_some(), rows.select + rows.update >= ROWS_MIN);
        let mut unseen = run.clone();
        unseen.details.io.redo_bytes = None;
        unseen.summary.rows.update = ROWS_MIN - 1;
        let found = Measured::of(&unseen);
        assert_eq!((found.redo_per_row, found.writes_per_row), (None, None));
    }

    #[test]
    fn what_a_cache_serves_or_puts_off_corrects_nothing() {
        let found = Measured {
            seconds: 10.0,
            redo_stress: RedoStress::Lite,
            reads_per_row: Some(0.02),
            writes_per_row: Some(0.1),
            redo_per_row: Some(300.0),
        };
        assert_eq!((found.usable_reads_per_row(), found.usable_writes_per_row()), (None, None));
    }
}
