//! The rounds: each measures every cell once, in random order. A sample prepares the caches, reads,
//! and keeps its counts only if the layers show the cached share that it is for.

use std::time::{Duration, Instant};

use super::prices::is_at_its_share;
use super::record::{CACHED_PCTS, CostCell, CostSample, Costs};
use super::{CostPlan, PageCache, ROUNDS_MIN};
use petal_engine::costs::{CostAccess, CostFacts, CostRead, CostSession, CostStretch};
use petal_engine::threads::Thread;
use petal_engine::{EngineError, ProgressUnit, Result, Stop};
use petal_host::os::{OsInterval, Probe};
use petal_run::WorkContext;
use petal_workload::scatter::{Permutation, mix};

/// Time that a sample of reads from devices should take; less if the whole time is short. Limits of
/// storage give credit in steps of about 0.1 s.
const SAMPLE_MOST: Duration = Duration::from_secs(1);
/// Rounds that should fit into the whole time.
const ROUNDS_WANTED: u32 = 10;
/// Phases of the first rounds, of which the last one holds for all others.
const PHASES: [&str; 3] = [
    "trying each measurement",
    "first round (a stop keeps no result yet)",
    "further rounds (a stop keeps the whole ones)",
];
const SAMPLE_LEAST: Duration = Duration::from_millis(10);
/// Accesses in memory are repeated until they took so long.
const REPEAT_LENGTH: Duration = Duration::from_millis(30);
const REPEATS_MAX: u32 = 200;
/// Blocks of the first sample of a cell, from which the later ones get their length. A scan's
/// read-ahead needs more blocks to begin.
const FIRST_BLOCKS: u64 = 64;
const FIRST_SEQUENTIAL_BLOCKS: u64 = 1024;
/// Most of a scan's bytes that its read-ahead may move out of the sample or into it, as a share.
const READ_AHEAD_MAX: f64 = 0.1;
/// Blocks that are read before those that are timed: one for each so many.
const UNTIMED_PART: u64 = 2;
/// Most blocks of a sample.
const BLOCKS_MAX: u64 = 32_768;
/// Scans of a table, of all sessions together, until a block is read again: a database's cache may keep
/// a part of the table from scans, which then spoils only some of them.
const SCANS_MIN: u64 = 6;
/// A read in block order visits at most every Nth block, so that it is no scan.
const DENSITY_MAX: u64 = 32;
/// Most of the database's cache that sessions together keep warm.
const WARM_SHARE: u64 = 8;

/// Position of the next stretch in each table. Each block is read again only after all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TableWalk {
    random: u64,
    sequential: u64,
}

impl TableWalk {
    fn next(&mut self, access: CostAccess, length: u64, blocks: u64) -> CostStretch {
        let position = match access {
            CostAccess::Sequential => &mut self.sequential,
            _ => &mut self.random,
        };
        let length = length.min(blocks);
        let first = if *position + length > blocks { 0 } else { *position };
        *position = first + length;
        CostStretch { first, length }
    }
}

pub(super) struct CostRounds<'a> {
    pub plan: &'a CostPlan,
    pub sessions: Vec<Box<dyn CostSession>>,
    pub page_cache: Option<PageCache>,
    pub probe: Option<Probe>,
    pub is_in_process: bool,
    pub walk: TableWalk,
    pub cache_blocks: u64,
    pub costs: &'a mut Costs,
}

/// Every cell, without samples. Random reads come with each cached share; scans, and several
/// sessions, with none and all blocks cached.
fn cells(sessions: u32, facts: &CostFacts) -> Vec<CostCell> {
    let cell = |access, sessions, cached_pct| CostCell {
        access,
        sessions,
        cached_pct,
        ..CostCell::default()
    };
    let mut cells = Vec::new();
    for (access, pcts) in
        [(CostAccess::Random, &CACHED_PCTS[..]), (CostAccess::Sequential, &[0, 100])]
    {
        cells.extend(pcts.iter().map(|pct| cell(access, 1, Some(*pct))));
        if sessions > 1 {
            cells.extend([0, 100].map(|pct| cell(access, sessions, Some(pct))));
        }
    }
    for depth in &facts.depths {
        let access = CostAccess::ReadAhead(*depth);
        cells.push(cell(access, 1, Some(0)));
        if sessions > 1 {
            cells.push(cell(access, sessions, Some(0)));
        }
    }
    if facts.has_short_rows {
        let in_memory = [
            CostAccess::Rows,
            CostAccess::FilteredRows,
            CostAccess::IndexEntries,
            CostAccess::Lookups,
        ];
        cells.extend(in_memory.map(|access| cell(access, 1, None)));
    }
    cells
}

/// Time of a sample, so that the wanted rounds fit into `length`, each with as much time again for
/// every second sample's preparation.
fn sample_length(length: Duration, cells: usize) -> Duration {
    let samples = (ROUNDS_WANTED + ROUNDS_WANTED / 2) * cells as u32;
    (length / samples.max(1)).clamp(SAMPLE_LEAST, SAMPLE_MOST)
}

/// Blocks of the next sample of a cell whose last one had `blocks` and took `elapsed`.
fn next_blocks(blocks: u64, elapsed: Duration, wanted: Duration, most: u64) -> u64 {
    let wanted = blocks as f64 * wanted.as_secs_f64() / elapsed.as_secs_f64().max(1e-6);
    // A single fast or slow sample moves it little.
    (wanted as u64).clamp(blocks / 4, blocks.saturating_mul(16)).clamp(FIRST_BLOCKS.min(most), most)
}

impl CostRounds<'_> {
    /// Measures until the time is over, and at least so many rounds that there is an interval. The
    /// first round only finds the lengths of the samples.
    pub fn all_rounds(
        &mut self,
        facts: &CostFacts,
        context: &WorkContext<'_>,
        stop: &Stop,
    ) -> Result<()> {
        self.costs.cells = cells(self.plan.sessions, facts);
        let count = self.costs.cells.len();
        let mut lengths: Vec<u64> =
            self.costs.cells.iter().map(|cell| self.first_blocks(cell)).collect();
        let began = Instant::now();
        let planned = self.plan.length;
        let wanted = sample_length(planned, count);
        let (mut left, mut shown) = (planned.as_secs(), 0);
        for round in 0.. {
            let begun = Instant::now();
            if let Some(words) = PHASES.get(round as usize) {
                (left, shown) = (left - shown, 0);
                context.watch.phase(words, left, ProgressUnit::Seconds);
            }
            let order = Permutation::new(count as u64, mix(self.plan.seed ^ u64::from(round)));
            let mut samples = vec![None; count];
            for at in (0..count as u64).map(|at| order.apply(at) as usize) {
                if stop.is_requested() {
                    return Err(EngineError::Interrupted);
                }
                let cell = self.costs.cells[at].clone();
                let sample = self.sample(&cell, lengths[at], round)?;
                if cell.cached_pct.is_some_and(|pct| pct < 100) {
                    let each = sample.elapsed_ns / u64::from(cell.sessions).max(1);
                    let most = self.most_blocks(&cell);
                    let each = Duration::from_nanos(each);
                    lengths[at] =
                        match cell.access == CostAccess::Sequential && self.is_short(&sample) {
                            true => lengths[at].saturating_mul(2).min(most),
                            false => next_blocks(lengths[at], each, wanted, most),
                        };
                }
                samples[at] = Some(sample);
                let seconds = left.min(began.elapsed().as_secs() - (planned.as_secs() - left));
                context.watch.advance(seconds - shown);
                shown = seconds;
            }
            if round > 0 {
                self.keep(samples);
            }
            let is_last = began.elapsed() + begun.elapsed() > planned;
            if is_last && self.costs.rounds >= ROUNDS_MIN {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Keeps the samples of a whole round, but for those that another layer served.
    fn keep(&mut self, samples: Vec<Option<CostSample>>) {
        let mut cells = std::mem::take(&mut self.costs.cells);
        for (cell, sample) in cells.iter_mut().zip(samples) {
            let Some(sample) = sample else { continue };
            match is_at_its_share(cell, &sample, self.costs) {
                true => cell.samples.push(sample),
                false => cell.left_out += 1,
            }
        }
        self.costs.cells = cells;
        self.costs.rounds += 1;
    }

    /// True of a scan without cached blocks that is short compared with its read-ahead: devices read
    /// more or fewer bytes than its own.
    fn is_short(&self, sample: &CostSample) -> bool {
        let own_bytes = sample.units as f64 * self.costs.block_bytes as f64;
        let is_off = |bytes: u64| (bytes as f64 / own_bytes - 1.0).abs() > READ_AHEAD_MAX;
        sample.server_read_bytes.is_some_and(is_off)
    }

    fn first_blocks(&self, cell: &CostCell) -> u64 {
        let first = match (cell.cached_pct, cell.access) {
            (Some(100), _) => self.most_blocks(cell),
            (_, CostAccess::Sequential) => FIRST_SEQUENTIAL_BLOCKS,
            _ => FIRST_BLOCKS,
        };
        first.min(self.most_blocks(cell))
    }

    /// Most blocks of one session in a sample of this cell.
    fn most_blocks(&self, cell: &CostCell) -> u64 {
        let sessions = u64::from(cell.sessions).max(1);
        let of_table = match cell.access {
            CostAccess::Sequential => (self.costs.blocks / (SCANS_MIN * sessions))
                .max(FIRST_SEQUENTIAL_BLOCKS.min(self.costs.blocks / (2 * sessions))),
            _ => self.costs.blocks / DENSITY_MAX.max(2 * sessions),
        };
        let of_cache = match cell.cached_pct {
            Some(0) | None => u64::MAX,
            Some(_) => self.cache_blocks / (WARM_SHARE * sessions),
        };
        of_table.min(of_cache).clamp(1, BLOCKS_MAX)
    }

    fn sample(&mut self, cell: &CostCell, blocks: u64, round: u32) -> Result<CostSample> {
        // Each stretch begins with an untimed part: it uses up the credit of a limited storage, and
        // begins the read-ahead of a scan.
        let is_cold = cell.cached_pct.is_some_and(|pct| pct < 100);
        let untimed = if is_cold { blocks / UNTIMED_PART } else { 0 };
        let (before, stretches): (Vec<CostStretch>, Vec<CostStretch>) = (0..cell.sessions)
            .map(|_| self.walk.next(cell.access, blocks + untimed, self.costs.blocks))
            .map(|all| {
                let untimed = untimed.min(all.length / UNTIMED_PART);
                let first = all.first + untimed;
                let before = CostStretch { length: untimed, ..all };
                (before, CostStretch { first, length: all.length - untimed })
            })
            .unzip();
        self.prepare(cell, &stretches)?;
        if untimed > 0 {
            self.read(cell.access, &before, false)?;
        }
        let server_reads = self.server_reads(cell)?;
        let before = self.probe.as_ref().map(Probe::sample);
        let is_repeated = cell.cached_pct.is_none_or(|pct| pct == 100);
        let reads = self.read(cell.access, &stretches, is_repeated)?;
        let os =
            self.probe.as_ref().zip(before).map(|(probe, before)| probe.sample().since(&before));
        let mut sample = sample(round, &reads, os.as_ref(), self.is_in_process);
        let server_reads = server_reads.zip(self.server_reads(cell)?);
        if let (None, Some((before, after))) = (sample.visited, server_reads) {
            // Each row is a block, and what others read meanwhile counts as read here.
            sample.visited = Some(sample.units);
            sample.hits = Some(sample.units.saturating_sub(after.saturating_sub(before)));
        }
        Ok(sample)
    }

    fn server_reads(&mut self, cell: &CostCell) -> Result<Option<u64>> {
        match self.sessions.first_mut() {
            Some(session) if cell.access.reads_blocks() => session.server_reads(),
            _ => Ok(None),
        }
    }

    /// Brings the caches into the cell's state: the wanted share of the blocks into the database's, and
    /// the others out of the page cache. The last blocks are the cached ones: read-ahead that is still
    /// under way after them belongs to no block of this sample.
    fn prepare(&mut self, cell: &CostCell, stretches: &[CostStretch]) -> Result<()> {
        // Of accesses in memory the first execution makes the plan.
        let pct = cell.cached_pct.unwrap_or(100);
        let warm = |stretch: &CostStretch| {
            let length = stretch.length * u64::from(pct) / 100;
            CostStretch { first: stretch.first + stretch.length - length, length }
        };
        if pct > 0 {
            let warm: Vec<CostStretch> = stretches.iter().map(warm).collect();
            self.read(cell.access, &warm, false)?;
        }
        match &self.page_cache {
            Some(page_cache) if pct < 100 => page_cache.drop_pages(),
            _ => {}
        }
        Ok(())
    }

    /// Reads one stretch with each of the first sessions, all at once.
    fn read(
        &mut self,
        access: CostAccess,
        stretches: &[CostStretch],
        is_repeated: bool,
    ) -> Result<Vec<CostRead>> {
        let work = self.sessions.iter_mut().zip(stretches);
        if let [stretch] = stretches {
            let Some(session) = self.sessions.first_mut() else { return Ok(Vec::new()) };
            return repeated(session.as_mut(), access, *stretch, is_repeated)
                .map(|read| vec![read]);
        }
        std::thread::scope(|scope| {
            let started: Vec<_> = work
                .map(|(session, stretch)| {
                    Thread::named("costs").start_in(scope, move || {
                        repeated(session.as_mut(), access, *stretch, is_repeated)
                    })
                })
                .collect::<Result<_, _>>()?;
            let ended = started.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| {
                    Err(EngineError::Database("a session of petal costs panicked".to_owned()))
                })
            });
            ended.collect()
        })
    }
}

/// Reads a stretch once, or until it took long enough to be timed.
fn repeated(
    session: &mut dyn CostSession,
    access: CostAccess,
    stretch: CostStretch,
    is_repeated: bool,
) -> Result<CostRead> {
    let mut sum = session.read(access, stretch)?;
    let mut reads = 1;
    while is_repeated && sum.elapsed < REPEAT_LENGTH && reads < REPEATS_MAX {
        let next = session.read(access, stretch)?;
        sum = CostRead {
            elapsed: sum.elapsed + next.elapsed,
            units: sum.units + next.units,
            blocks: sum.blocks.zip(next.blocks).map(|(sum, next)| (sum.0 + next.0, sum.1 + next.1)),
        };
        reads += 1;
    }
    Ok(sum)
}

/// The sum of the sessions' reads, with the operating system's counts.
fn sample(
    round: u32,
    reads: &[CostRead],
    os: Option<&OsInterval>,
    is_in_process: bool,
) -> CostSample {
    let sum = |of: fn(&CostRead) -> Option<u64>| {
        reads.iter().try_fold(0u64, |sum, read| Some(sum.saturating_add(of(read)?)))
    };
    let counts = os.map(|os| &os.counts);
    let device = os.and_then(OsInterval::device);
    CostSample {
        round,
        units: sum(|read| Some(read.units)).unwrap_or_default(),
        elapsed_ns: sum(|read| Some(read.elapsed.as_nanos() as u64)).unwrap_or_default(),
        visited: sum(|read| read.blocks.map(|(visited, _)| visited)),
        hits: sum(|read| read.blocks.map(|(_, hits)| hits)),
        server_read_bytes: counts.and_then(|counts| match is_in_process {
            true => counts.petal_read_bytes,
            false => counts.server_read_bytes,
        }),
        server_cpu_us: counts.and_then(|counts| match is_in_process {
            true => counts.petal_cpu_us,
            false => counts.server_cpu_us,
        }),
        device_reads: device.map(|device| device.read_requests),
        device_read_bytes: device.map(|device| device.read_bytes),
        device_read_ms: device.map(|device| device.read_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_other_block_is_read_before_one_is_read_again(
            blocks in 64u64..10_000,
            lengths in prop::collection::vec(1u64..64, 1..200),
        ) {
            let (mut walk, mut read_at) = (TableWalk::default(), std::collections::BTreeMap::new());
            let mut read = 0;
            for length in lengths {
                let stretch = walk.next(CostAccess::Random, length, blocks);
                prop_assert!(stretch.first + stretch.length <= blocks && stretch.length == length);
                for block in stretch.first..stretch.first + stretch.length {
                    if let Some(before) = read_at.insert(block, read) {
                        // A rest that is shorter than a stretch is skipped.
                        prop_assert!(read - before >= blocks - 64);
                    }
                    read += 1;
                }
            }
        }

        #[test]
        fn a_sample_has_at_least_one_block_and_never_more_than_it_may(
            blocks in 1u64..40_000,
            us in 0u64..100_000_000,
            most in 1u64..40_000,
        ) {
            let wanted = sample_length(Duration::from_secs(300), 28);
            let next = next_blocks(blocks, Duration::from_micros(us), wanted, most);
            prop_assert!((1..=most).contains(&next));
        }
    }

    #[test]
    fn every_cell_is_another_one() {
        let facts = CostFacts { has_short_rows: true, depths: vec![1, 16], ..CostFacts::default() };
        let cells = cells(8, &facts);
        let mut keys: Vec<_> =
            cells.iter().map(|cell| (cell.access, cell.sessions, cell.cached_pct)).collect();
        keys.sort();
        keys.dedup();
        assert_eq!((keys.len(), cells.len()), (18, 18));
        assert!(super::cells(1, &CostFacts::default()).iter().all(|cell| cell.sessions == 1));
    }
}
