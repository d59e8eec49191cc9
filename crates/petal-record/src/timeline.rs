//! Operations folded into seconds: [`Tally`] for operations that ended in one second, [`Shards`]
//! for many sessions folding at once without waiting for each other.
//!
//! A session folds a whole batch under one lock. The sampler harvests a second when it is over; an
//! operation that is folded later than that counts in the oldest second still open, so that none is
//! lost. Its time counts where it passed: the time of a batch under way is counted before a harvest
//! ([`Shards::count_under_way`]).

use std::collections::{BTreeMap, VecDeque};

use parking_lot::{Mutex, MutexGuard};

use petal_workload::op::{Hot, Kind};

use petal_host::histogram::Latencies;

/// Name of [`Tally::lateness`] in records.
pub const LATENESS: &str = "lateness";

const SECOND_NS: u64 = 1_000_000_000;

/// An operation that ended.
#[derive(Debug, Clone, Copy)]
pub struct EndedOperation<'a> {
    pub kind: Kind,
    /// None if it is unknown.
    pub latency_ns: Option<u64>,
    /// Time of the session: the latency, or else by petal's own clock.
    pub busy_ns: u64,
    /// Time from the intended start to the end, with RATE.
    pub response_ns: Option<u64>,
    pub end_ns: u64,
    pub rows: u64,
    /// Whether it was sent to hot data: by [`Hot::index`].
    pub hot: [bool; Hot::ALL.len()],
    /// Rows that the operation was to visit.
    pub rows_asked: u64,
    pub result: EndedAs<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedAs<'a> {
    Done,
    /// The session goes on; by the database's code.
    Failed(&'a str),
    /// Cancelled after the stop.
    Cut,
}

/// Counts of the operations that ended in a stretch of time. A histogram is made with its first
/// value.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub ops: [u64; Kind::ALL.len()],
    pub rows: [u64; Kind::ALL.len()],
    /// Rows that the operations in `ops` were to visit.
    pub rows_asked: [u64; Kind::ALL.len()],
    /// Operations in `ops` that visited fewer or more rows than they were to.
    pub ops_not_as_asked: u64,
    /// Operations in `ops` whose latency is unknown: they are in no histogram.
    pub ops_untimed: u64,
    pub cut: u64,
    pub errors: BTreeMap<String, u64>,
    pub service: [Option<Box<Latencies>>; Kind::ALL.len()],
    pub response: [Option<Box<Latencies>>; Kind::ALL.len()],
    /// Service times of operations that were sent to hot data, by [`Hot::index`].
    pub hot: [Option<Box<Latencies>>; Hot::ALL.len()],
    /// Sum of all operations' times, including failed and cut ones, and of work under way when a
    /// session was lost: DB time.
    pub busy_ns: u64,
    /// Slept in think time.
    pub think_ns: u64,
    /// Time from when an operation of RATE was due until a session that waited for it awoke.
    /// Response times contain it.
    pub lateness: Option<Box<Latencies>>,
}

impl Tally {
    /// Counts an operation, but not its time: see [`Shards::fold`].
    fn record(&mut self, ended: EndedOperation<'_>) {
        match ended.result {
            EndedAs::Done => {
                let kind = ended.kind.index();
                self.ops[kind] += 1;
                self.rows[kind] = self.rows[kind].saturating_add(ended.rows);
                self.rows_asked[kind] += ended.rows_asked;
                self.ops_not_as_asked += u64::from(ended.rows != ended.rows_asked);
                let Some(latency_ns) = ended.latency_ns else {
                    self.ops_untimed += 1;
                    return;
                };
                self.service[kind].get_or_insert_default().record(latency_ns);
                for (is_hot, latencies) in ended.hot.into_iter().zip(&mut self.hot) {
                    if is_hot {
                        latencies.get_or_insert_default().record(latency_ns);
                    }
                }
                if let Some(response_ns) = ended.response_ns {
                    self.response[kind].get_or_insert_default().record(response_ns);
                }
            }
            EndedAs::Failed(code) => match self.errors.get_mut(code) {
                Some(count) => *count += 1,
                None => drop(self.errors.insert(code.to_owned(), 1)),
            },
            EndedAs::Cut => self.cut += 1,
        }
    }

    pub fn add(&mut self, other: &Self) {
        for kind in Kind::ALL.map(Kind::index) {
            self.ops[kind] += other.ops[kind];
            self.rows[kind] = self.rows[kind].saturating_add(other.rows[kind]);
            self.rows_asked[kind] += other.rows_asked[kind];
            add_latencies(&mut self.service[kind], other.service[kind].as_deref());
            add_latencies(&mut self.response[kind], other.response[kind].as_deref());
        }
        for (sum, part) in self.hot.iter_mut().zip(&other.hot) {
            add_latencies(sum, part.as_deref());
        }
        add_latencies(&mut self.lateness, other.lateness.as_deref());
        self.cut += other.cut;
        self.ops_not_as_asked += other.ops_not_as_asked;
        self.ops_untimed += other.ops_untimed;
        self.busy_ns += other.busy_ns;
        self.think_ns += other.think_ns;
        for (code, count) in &other.errors {
            *self.errors.entry(code.clone()).or_default() += count;
        }
    }

    /// Adds `count` operations that were due and never begun: each response time is at least the
    /// time that it had waited at the end, so that a percentile cannot leave them out.
    pub fn add_never_begun(&mut self, kind: Kind, waited_ns: u64, count: u64) {
        self.response[kind.index()].get_or_insert_default().record_many(waited_ns, count);
    }

    /// Service times of each kind that ended, by its name.
    pub fn service_by_kind(&self) -> impl Iterator<Item = (String, &Latencies)> {
        let of =
            |kind: Kind| Some((kind.name().to_owned(), self.service[kind.index()].as_deref()?));
        Kind::ALL.into_iter().filter_map(of)
    }

    /// Service times of each kind, response times of those that have any, and lateness, by name.
    pub fn times_by_name(&self) -> impl Iterator<Item = (String, &Latencies)> {
        let response = |kind: Kind| {
            let latencies = self.response[kind.index()].as_deref()?;
            Some((format!("{}_response", kind.name()), latencies))
        };
        let lateness = self.lateness.iter().map(|all| (LATENESS.to_owned(), all.as_ref()));
        self.service_by_kind().chain(Kind::ALL.into_iter().filter_map(response)).chain(lateness)
    }

    /// Service times of the operations that were sent to hot data, by name.
    pub fn hot_by_name(&self) -> impl Iterator<Item = (String, &Latencies)> {
        let hot = Hot::ALL.iter().zip(&self.hot);
        hot.filter_map(|(hot, latencies)| Some((hot.name().to_owned(), latencies.as_deref()?)))
    }

    pub fn ops_total(&self) -> u64 {
        self.ops.iter().sum()
    }

    pub fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }
}

fn add_latencies(sum: &mut Option<Box<Latencies>>, part: Option<&Latencies>) {
    if let Some(part) = part {
        sum.get_or_insert_default().add(part);
    }
}

/// Tallies by second, spread over a few locks.
#[derive(Debug)]
pub struct Shards {
    shards: Vec<Mutex<TimelineShard>>,
}

/// The seconds not yet harvested, oldest first, without gaps.
#[derive(Debug, Default)]
struct TimelineShard {
    oldest: u64,
    seconds: VecDeque<Tally>,
    /// Batches under way, by session.
    under_way: BTreeMap<u32, UnderWay>,
}

/// Time of a session's batch that was counted before the batch ended.
#[derive(Debug, Default)]
struct UnderWay {
    /// The begin of the time not yet counted; None between batches.
    since_ns: Option<u64>,
    /// Counted already: the batch's first operations took it.
    counted_ns: u64,
}

impl UnderWay {
    /// Returns the rest of an operation's time that is not counted yet.
    fn rest_ns(&mut self, busy_ns: u64) -> u64 {
        let counted_ns = self.counted_ns.min(busy_ns);
        self.counted_ns -= counted_ns;
        busy_ns - counted_ns
    }
}

impl Shards {
    /// A few locks are enough: a session folds ten times a second.
    pub fn new(sessions: usize) -> Self {
        Self { shards: (0..sessions.clamp(1, 8)).map(|_| Mutex::default()).collect() }
    }

    fn of(&self, session: u32) -> MutexGuard<'_, TimelineShard> {
        self.shards[session as usize % self.shards.len()].lock()
    }

    /// Marks a session as busy with a batch, until it folds it.
    pub fn begin(&self, session: u32, begin_ns: u64) {
        let begun = UnderWay { since_ns: Some(begin_ns), counted_ns: 0 };
        self.of(session).under_way.insert(session, begun);
    }

    /// Folds a batch of one session.
    pub fn fold<'a>(&self, session: u32, batch: impl Iterator<Item = EndedOperation<'a>>) {
        let mut shard = self.of(session);
        let mut under_way = shard.ended(session);
        for ended in batch {
            let rest_ns = under_way.rest_ns(ended.busy_ns);
            shard.add_time(ended.end_ns, rest_ns, |tally| &mut tally.busy_ns);
            shard.second_of(ended.end_ns).record(ended);
        }
        shard.under_way.insert(session, under_way);
    }

    /// Adds the time of work under way when a session was lost.
    pub fn add_lost(&self, session: u32, lost_ns: u64, busy_ns: u64) {
        let mut shard = self.of(session);
        let rest_ns = shard.ended(session).rest_ns(busy_ns);
        shard.add_time(lost_ns, rest_ns, |tally| &mut tally.busy_ns);
    }

    /// Adds think time to the seconds in which it passed.
    pub fn add_think_time(&self, session: u32, end_ns: u64, time_ns: u64) {
        self.of(session).add_time(end_ns, time_ns, |tally| &mut tally.think_ns);
    }

    /// Counts the time of all batches under way up to the begin of the second `before`.
    pub fn count_under_way(&self, before: u64) {
        let until_ns = before * SECOND_NS;
        for shard in &self.shards {
            let mut shard = shard.lock();
            let mut sessions = std::mem::take(&mut shard.under_way);
            for batch in sessions.values_mut() {
                let Some(since_ns) = batch.since_ns.filter(|&since_ns| since_ns < until_ns) else {
                    continue;
                };
                let passed_ns = until_ns - since_ns;
                shard.add_time(until_ns, passed_ns, |tally| &mut tally.busy_ns);
                batch.since_ns = Some(until_ns);
                batch.counted_ns += passed_ns;
            }
            shard.under_way = sessions;
        }
    }

    /// Counts something of one session in the second of its end.
    pub fn count(&self, session: u32, end_ns: u64, count: impl FnOnce(&mut Tally)) {
        count(self.of(session).second_of(end_ns));
    }

    /// Takes out all seconds before `before`, merged over the shards: (second, tally), in order,
    /// without gaps.
    pub fn harvest(&self, before: u64) -> Vec<(u64, Tally)> {
        let mut harvested: BTreeMap<u64, Tally> = BTreeMap::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            while shard.oldest < before {
                let second = shard.oldest;
                let tally = shard.seconds.pop_front().unwrap_or_default();
                shard.oldest += 1;
                harvested.entry(second).or_default().add(&tally);
            }
        }
        harvested.into_iter().collect()
    }

    /// The first second after all that hold anything: harvesting before it empties the shards.
    pub fn end(&self) -> u64 {
        let ends = self.shards.iter().map(|shard| {
            let shard = shard.lock();
            shard.oldest + shard.seconds.len() as u64
        });
        ends.max().unwrap_or(0)
    }
}

impl TimelineShard {
    fn second_of(&mut self, end_ns: u64) -> &mut Tally {
        let offset = (end_ns / SECOND_NS).saturating_sub(self.oldest) as usize;
        if self.seconds.len() <= offset {
            self.seconds.resize_with(offset + 1, Tally::default);
        }
        &mut self.seconds[offset]
    }

    /// Ends a session's batch, and returns its time that is counted already.
    fn ended(&mut self, session: u32) -> UnderWay {
        let begun = self.under_way.get_mut(&session);
        begun.map(|begun| UnderWay { since_ns: None, ..std::mem::take(begun) }).unwrap_or_default()
    }

    /// Adds time to the seconds in which it passed. The oldest second still open gets the time that
    /// passed before it.
    fn add_time(&mut self, end_ns: u64, time_ns: u64, part: fn(&mut Tally) -> &mut u64) {
        let (mut end_ns, mut left_ns) = (end_ns, time_ns);
        while left_ns > 0 {
            let second = end_ns.saturating_sub(1) / SECOND_NS;
            let within_ns = end_ns - second * SECOND_NS;
            let is_first = second <= self.oldest;
            let added_ns = if is_first { left_ns } else { left_ns.min(within_ns) };
            *part(self.second_of(second * SECOND_NS)) += added_ns;
            (end_ns, left_ns) = (second * SECOND_NS, left_ns - added_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn done(end_ns: u64) -> EndedOperation<'static> {
        let result = EndedAs::Done;
        let (kind, rows) = (Kind::Select, 2);
        let hot = [end_ns.is_multiple_of(2), false];
        EndedOperation {
            kind,
            latency_ns: Some(5),
            busy_ns: 5,
            response_ns: None,
            end_ns,
            rows,
            rows_asked: rows,
            hot,
            result,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn parts_sum_to_the_whole(
            ends in prop::collection::vec((0u32..20, 0u64..20 * SECOND_NS), 0..300),
            harvests in prop::collection::vec(0u64..25, 0..10),
        ) {
            let shards = Shards::new(5);
            let mut whole = Tally::default();
            let mut at = 0;
            for (chunk, &(session, end_ns)) in ends.iter().enumerate() {
                shards.fold(session, std::iter::once(done(end_ns)));
                if let Some(&before) = harvests.get(chunk / 30).filter(|_| chunk % 30 == 0) {
                    shards.harvest(before).iter().for_each(|(_, tally)| whole.add(tally));
                    at = at.max(before);
                }
            }
            shards.harvest(shards.end()).iter().for_each(|(_, tally)| whole.add(tally));
            prop_assert_eq!(whole.ops_total(), ends.len() as u64);
            prop_assert_eq!(whole.rows[0], 2 * ends.len() as u64);
            prop_assert_eq!(whole.busy_ns, 5 * ends.len() as u64);
            let counted = whole.service[0].as_ref().map_or(0, |latencies| latencies.count());
            prop_assert_eq!(counted, ends.len() as u64);
            let hot = whole.hot.map(|part| part.map_or(0, |latencies| latencies.count()));
            let sent = ends.iter().filter(|(_, end_ns)| end_ns.is_multiple_of(2)).count();
            prop_assert_eq!(hot, [sent as u64, 0]);
        }
    }

    #[test]
    fn too_few_rows_here_and_too_many_there_are_not_as_asked() {
        let mut tally = Tally::default();
        for (rows, rows_asked) in [(2, 2), (1, 2), (3, 2)] {
            tally.record(EndedOperation { rows, rows_asked, ..done(1) });
        }
        tally.record(EndedOperation { rows: 0, result: EndedAs::Failed("busy"), ..done(1) });
        let mut sum = tally.clone();
        sum.add(&tally);
        assert_eq!((sum.rows, sum.rows_asked), ([12, 0, 0], [12, 0, 0]));
        assert_eq!(sum.ops_not_as_asked, 4);
    }

    #[test]
    fn an_unknown_latency_is_counted_and_in_no_histogram() {
        let mut tally = Tally::default();
        tally.record(EndedOperation { latency_ns: None, response_ns: Some(1), ..done(2) });
        tally.record(done(2));
        let mut sum = tally.clone();
        sum.add(&tally);
        assert_eq!((sum.ops_total(), sum.ops_untimed), (4, 2));
        let counted = |part: &Option<Box<Latencies>>| part.as_ref().map_or(0, |all| all.count());
        assert_eq!((counted(&sum.service[0]), counted(&sum.hot[0])), (2, 2));
        assert_eq!(counted(&sum.response[0]), 0);
    }

    #[test]
    fn time_counts_in_the_seconds_in_which_it_passed() {
        let shards = Shards::new(1);
        let half = SECOND_NS / 2;
        let long = EndedOperation { busy_ns: 5 * half, ..done(3 * SECOND_NS + half / 2) };
        shards.fold(0, std::iter::once(long));
        shards.add_think_time(0, 2 * SECOND_NS, SECOND_NS);
        let seconds = shards.harvest(4);
        let of = |time: fn(&Tally) -> u64| -> Vec<u64> {
            seconds.iter().map(|(_, tally)| time(tally) / (half / 2)).collect()
        };
        assert_eq!(of(|tally| tally.busy_ns), [1, 4, 4, 1]);
        assert_eq!(of(|tally| tally.think_ns), [0, 4, 0, 0]);
        // Seconds 0 to 3 are harvested: their part is not lost.
        shards.fold(
            0,
            std::iter::once(EndedOperation { busy_ns: 4 * SECOND_NS, ..done(5 * SECOND_NS) }),
        );
        let late: Vec<u64> = shards.harvest(6).iter().map(|(_, tally)| tally.busy_ns).collect();
        assert_eq!(late, [4 * SECOND_NS, 0]);
    }

    #[test]
    fn a_slow_operation_fills_each_second_of_its_time() {
        let shards = Shards::new(1);
        let quarter = SECOND_NS / 4;
        shards.begin(0, quarter);
        let mut seconds = Vec::new();
        let mut harvest = |before, shards: &Shards| {
            shards.count_under_way(before);
            let parts = shards.harvest(before);
            seconds.extend(parts.iter().map(|(_, tally)| tally.busy_ns / quarter));
        };
        harvest(1, &shards);
        harvest(3, &shards);
        // Two operations, of which the second is the slow one.
        let short = EndedOperation { busy_ns: quarter, ..done(2 * quarter) };
        let long = EndedOperation { busy_ns: 12 * quarter, ..done(14 * quarter) };
        shards.fold(0, [short, long].into_iter());
        // Between batches nothing is under way.
        harvest(5, &shards);
        // A lost session's last operation is counted once.
        shards.begin(0, 21 * quarter);
        harvest(6, &shards);
        shards.add_lost(0, 26 * quarter, 5 * quarter);
        harvest(8, &shards);
        assert_eq!(seconds, [3, 4, 4, 2, 0, 3, 2, 0]);
    }

    #[test]
    fn seconds_come_in_order_without_gaps() {
        let shards = Shards::new(2);
        shards.fold(0, [done(0), done(3 * SECOND_NS)].into_iter());
        shards.fold(1, [done(SECOND_NS)].into_iter());
        let seconds: Vec<_> =
            shards.harvest(4).iter().map(|(second, tally)| (*second, tally.ops_total())).collect();
        assert_eq!(seconds, [(0, 1), (1, 1), (2, 0), (3, 1)]);
    }

    #[test]
    fn late_operations_are_not_lost() {
        let shards = Shards::new(1);
        shards.harvest(5);
        shards.fold(0, std::iter::once(done(SECOND_NS)));
        assert_eq!(shards.harvest(6)[0].1.ops_total(), 1);
    }

    #[test]
    fn failed_and_cut_operations_are_not_counted_as_done() {
        let mut tally = Tally::default();
        tally.record(EndedOperation { result: EndedAs::Failed("busy"), ..done(1) });
        tally.record(EndedOperation { result: EndedAs::Cut, ..done(1) });
        assert_eq!((tally.ops_total(), tally.errors_total(), tally.cut), (0, 1, 1));
    }
}
