//! Another cache: the reads that it saves.

use super::work::{MODEL_ERROR_MAX, OperationWork};
use petal_host::numbers::decimal;
use petal_judge::cache_share;
use petal_record::Run;

/// Reads of a row that a cache may save beyond its share of the data.
const HITS_BEYOND_SHARE_MAX: f64 = 0.1;

/// Assumptions on another cache that one run cannot check, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CacheEffect {
    /// The part of the cache that holds no rows: 0 if it keeps its size, 1 if it keeps its share.
    pub rest: f64,
    /// The part of the processor time that is for reads.
    pub processors: f64,
}

impl CacheEffect {
    pub const MIDDLE: Self = Self { rest: 0.5, processors: 0.5 };
}

impl OperationWork {
    /// Rows are visited at random, so that a cache saves its share of the reads.
    pub fn change_cache(&mut self, run: &Run, by: f64, effect: CacheEffect) -> Result<(), String> {
        let (share, misses) = cache_use(run)?;
        self.reads_s.as_ref().map_err(|why| format!("not known: {why}"))?;
        let most = misses.max(1.0);
        let rest_stays = misses - share * (by - 1.0);
        let rest_grows = most - (most - misses) * by;
        let changed = rest_stays + effect.rest * (rest_grows - rest_stays);
        let factor = changed.clamp(0.0, most) / misses;
        self.reads_s = self.reads_s.clone().map(|reads_s| reads_s * factor);
        if let Ok(work) = &mut self.processors {
            work.demand_s *= 1.0 + effect.processors * (factor - 1.0);
        }
        if let Some((_, demand_s)) = &mut self.curve {
            *demand_s *= factor;
        }
        if let Some((requests, _, true)) = &mut self.io_limit {
            *requests *= factor;
        }
        let writes = run.summary.per_second.physical_write_requests.unwrap_or(0.0);
        let all = run.summary.piops().unwrap_or(0.0);
        let reads = if all > 0.0 { 1.0 - writes / all } else { 1.0 };
        self.requests *= 1.0 - reads * (1.0 - factor);
        Ok(())
    }
}

/// Refuses another cache if its assumptions lead to different predictions. `predicted` returns the
/// operations per second with an effect.
pub(super) fn refuse_unlike(
    run: &Run,
    predicted: impl Fn(CacheEffect) -> Option<f64>,
) -> Result<(), String> {
    let differ = |effects: [CacheEffect; 2]| {
        let [a, b] = effects.map(&predicted);
        let (low, high) = a.zip(b).map(|(a, b)| (a.min(b), a.max(b)))?;
        let words = || format!("{} to {} operations a second", decimal(low, 0), decimal(high, 0));
        (high > low * (1.0 + MODEL_ERROR_MAX)).then(words)
    };
    let middle = CacheEffect::MIDDLE;
    if let Some(range) = differ([0.0, 1.0].map(|rest| CacheEffect { rest, ..middle })) {
        let (share, misses) = cache_use(run)?;
        return Err(format!(
            "--cache: a row took {} reads, and a cache for {} % of the data would leave {}: if \
             the rest of the cache changes with it is not known, which allows {range}",
            decimal(misses, 2),
            decimal(share * 100.0, 0),
            decimal(1.0 - share, 2)
        ));
    }
    let processors = [0.0, 1.0].map(|processors| CacheEffect { processors, ..middle });
    differ(processors).map_or(Ok(()), |range| {
        Err(format!(
            "--cache: the part of the processor time that is for reads is not in this record, \
             which allows {range}"
        ))
    })
}

/// The share of the data that the cache can hold, and the reads of a row.
fn cache_use(run: &Run) -> Result<(f64, f64), String> {
    let share = cache_share(run).ok_or("the size of the cache is not known")?;
    let rows = run.summary.rows.total() as f64;
    let misses = run.details.io.physical_read_blocks.map(|blocks| blocks as f64 / rows);
    let misses = misses.filter(|misses| misses.is_finite()).ok_or("reads are not counted")?;
    if misses < 1.0 - share - HITS_BEYOND_SHARE_MAX || share >= 1.0 || misses <= 0.0 {
        return Err(format!(
            "a row took {} reads, and a cache for {} % of the data would leave {}: hits do not \
             follow its size",
            decimal(misses, 2),
            decimal(share * 100.0, 0),
            decimal(1.0 - share, 2)
        ));
    }
    Ok((share, misses))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AskedChanges;
    use crate::work::ProcessorWork;
    use petal_record::fixture;

    /// A run with a cache for a quarter of its data, and so many reads of each row.
    fn cached(misses: f64) -> Run {
        let mut run = fixture::mixed_run();
        run.details.target.session_cache_bytes = None;
        run.summary.target.cache_bytes = Some(run.summary.active_bytes / 4);
        let blocks = misses * run.summary.rows.total() as f64;
        run.details.io.physical_read_blocks = Some(blocks as u64);
        run
    }

    #[test]
    fn more_cache_saves_its_share_of_the_data_and_the_rest_of_it_stays_or_grows() {
        let reads_s = |misses, by, rest| {
            let mut work = OperationWork { reads_s: Ok(misses), ..OperationWork::example() };
            let effect = CacheEffect { rest, processors: 0.0 };
            work.change_cache(&cached(misses), by, effect).map(|()| work.reads_s.unwrap())
        };
        let near = |found: Result<f64, String>, expected: f64| {
            let found = found.unwrap();
            assert!((found - expected).abs() < 1e-3, "{found}, not {expected}");
        };
        for rest in [0.0, 1.0] {
            near(reads_s(0.75, 2.0, rest), 0.5);
            near(reads_s(0.75, 0.5, rest), 0.875);
            near(reads_s(0.75, 8.0, rest), 0.0);
        }
        // InnoDB's free pages: 0.90 reads a row with 32 MB for 128 MB, and 0.65 with 64 MB.
        near(reads_s(0.9, 2.0, 0.0), 0.65);
        near(reads_s(0.9, 2.0, 1.0), 0.8);
        // Commits empty SQLite's caches, of any size.
        near(reads_s(1.05, 2.0, 1.0), 1.05);
        assert!(reads_s(0.5, 2.0, 0.0).unwrap_err().contains("hits do not follow its size"));
    }

    #[test]
    fn another_cache_is_refused_if_the_record_does_not_divide_processor_time_or_hits() {
        let asked = AskedChanges { cache: Some(2.0), ..AskedChanges::default() };
        let refused = |work: &OperationWork, misses| {
            let run = cached(misses);
            let predicted = |effect| work.ops_with(&run, &asked, effect);
            refuse_unlike(&run, predicted).err().unwrap_or_default()
        };
        let idle = OperationWork::example();
        assert_eq!(refused(&idle, 0.75), "");
        let busy = ProcessorWork { demand_s: 5e-3, processors: 1.0, granted: 1.0 };
        let busy = OperationWork { processors: Ok(busy), ..idle.clone() };
        assert!(refused(&busy, 0.75).contains("part of the processor time that is for reads"));
        assert!(refused(&idle, 1.0).contains("rest of the cache"), "{}", refused(&idle, 1.0));
        let of_reads = OperationWork { io_limit: Some((50.0, 1000.0, true)), ..idle };
        assert_eq!(refused(&of_reads, 0.75), "");
    }
}
