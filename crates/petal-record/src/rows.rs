//! Rows of a run's seconds. A long run keeps some of them together, as its files keep their histograms,
//! so that a day fits into little memory. Totals of a row are exact, and a few amounts of each second stay.

use petal_host::histogram::LatencySummary;
use petal_host::os::{CpuShare, KernelTimes};
use petal_workload::op::Kind;

use super::interval::IntervalTotals;
use super::os::{SecondSeen, TimesOf};
use super::seconds::BOUND_SLACK_S;
use super::timeline::LATENESS;
use super::{ByName, Second, figures};

/// A run keeps each second alone for so long.
const ALONE_MAX_S: f64 = 600.0;
/// Later a row covers this share of the time before it: a killed run lacks no more than that of its
/// histograms, and a chart has more rows than points.
const ROW_SHARE: f64 = 0.005;
/// A row ends with the second that ends this close to its end.
const END_SLACK_S: f64 = 0.5;

/// Seconds of the row that begins at `begin_s`: one in the first ten minutes, 18 after an hour, 432 after a
/// day.
fn row_length_s(begin_s: f64) -> f64 {
    if begin_s < ALONE_MAX_S { 1.0 } else { (begin_s.round() * ROW_SHARE).ceil() }
}

/// The row of the newest second, with the same bounds in all files of a run.
#[derive(Debug, Default)]
pub struct RowBounds {
    begin_s: Option<f64>,
}

impl RowBounds {
    /// Takes the next second; true if its row ends with it.
    pub fn end_with(&mut self, from_s: f64, length_s: f64) -> bool {
        let begin_s = *self.begin_s.get_or_insert(from_s);
        let is_end = from_s + length_s - begin_s >= row_length_s(begin_s) - END_SLACK_S;
        if is_end {
            self.begin_s = None;
        }
        is_end
    }

    /// The begin of the row, if it holds a second already.
    pub fn begin_s(&self) -> Option<f64> {
        self.begin_s
    }
}

/// An amount in a second that outlives the second itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondAmount {
    Operations,
    Reads,
    Writes,
    ReadBytes,
    WriteBytes,
    RedoBytes,
    DeviceReadBytes,
    DeviceWriteBytes,
    DeviceRequests,
    /// Percent of the processors' time; no amounts, and so no rates.
    Idle,
    Steal,
    IoWait,
    Checkpoints,
    Vacuums,
    LogSwitches,
    Errors,
}

impl SecondAmount {
    const COUNT: usize = 16;
    const ALL: [Self; Self::COUNT] = [
        Self::Operations,
        Self::Reads,
        Self::Writes,
        Self::ReadBytes,
        Self::WriteBytes,
        Self::RedoBytes,
        Self::DeviceReadBytes,
        Self::DeviceWriteBytes,
        Self::DeviceRequests,
        Self::Idle,
        Self::Steal,
        Self::IoWait,
        Self::Checkpoints,
        Self::Vacuums,
        Self::LogSwitches,
        Self::Errors,
    ];

    /// The amount in a second or in a row; None if unknown.
    pub fn of(self, second: &Second) -> Option<f64> {
        let io = second.io.as_ref();
        let device = second.device.as_ref();
        let share = |part: fn(&CpuShare) -> f64| second.cpu.as_ref().map(part);
        let count = match self {
            Self::Operations => Some(second.ops.total),
            Self::Reads => io.and_then(|io| io.physical_read_requests),
            Self::Writes => io.and_then(|io| io.physical_write_requests),
            Self::ReadBytes => io.and_then(|io| io.physical_read_bytes),
            Self::WriteBytes => io.and_then(|io| io.physical_write_bytes),
            Self::RedoBytes => io.and_then(|io| io.redo_bytes),
            Self::DeviceReadBytes => device.map(|device| device.read_bytes),
            Self::DeviceWriteBytes => device.map(|device| device.write_bytes),
            Self::DeviceRequests => {
                device.map(|device| device.read_requests + device.write_requests)
            }
            Self::Idle => return share(|cpu| cpu.idle),
            Self::Steal => return share(|cpu| cpu.steal),
            Self::IoWait => return share(|cpu| cpu.iowait),
            Self::Checkpoints => second.checkpoints,
            Self::Vacuums => second.vacuums,
            Self::LogSwitches => second.log_switches,
            Self::Errors => Some(second.errors),
        };
        count.map(|count| count as f64)
    }
}

/// Kinds of operation, each with its service and its response times, and lateness.
const TIMES: usize = Kind::ALL.len() * 2 + 1;

/// A second with the amounts that outlive it. An amount is exact up to 16 million, and within one part in 16
/// million beyond.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneSecond {
    /// Seconds since the trigger.
    pub from_s: f64,
    length_s: f32,
    /// NaN if unknown.
    amounts: [f32; SecondAmount::COUNT],
    /// The 99th percentile and the slowest of each kind's times, in microseconds; NaN likewise.
    slowest_us: [[f32; 2]; TIMES],
}

impl OneSecond {
    pub fn of(second: &Second) -> Self {
        let known = |value: Option<f64>| value.map_or(f32::NAN, |value| value as f32);
        let mut slowest_us = [[f32::NAN; 2]; TIMES];
        for (name, latency) in second.latency_us.iter() {
            if let Some(place) = place_of_times(name) {
                slowest_us[place] = [known(latency.p99), known(latency.max)];
            }
        }
        Self {
            from_s: second.from_s,
            length_s: second.length_s as f32,
            amounts: SecondAmount::ALL.map(|amount| known(amount.of(second))),
            slowest_us,
        }
    }

    pub fn length_s(&self) -> f64 {
        f64::from(self.length_s)
    }

    pub fn end_s(&self) -> f64 {
        self.from_s + self.length_s()
    }

    pub fn amount(&self, amount: SecondAmount) -> Option<f64> {
        Some(f64::from(self.amounts[amount as usize])).filter(|value| !value.is_nan())
    }

    /// An amount per second; None in no time at all.
    pub fn rate(&self, amount: SecondAmount) -> Option<f64> {
        self.amount(amount).filter(|_| self.length_s > 0.0).map(|value| value / self.length_s())
    }

    /// Operations per second; 0 in no time at all.
    pub fn operations_rate(&self) -> f64 {
        self.rate(SecondAmount::Operations).unwrap_or(0.0)
    }

    /// The 99th percentile of a kind's latency, and the slowest, in microseconds.
    pub fn slowest_us(&self, name: &str) -> [Option<f64>; 2] {
        let known = |us: f32| Some(f64::from(us)).filter(|us| !us.is_nan());
        place_of_times(name).map_or([None; 2], |place| self.slowest_us[place].map(known))
    }
}

/// The place of a kind's times, by their name in records.
fn place_of_times(name: &str) -> Option<usize> {
    if name == LATENESS {
        return Some(TIMES - 1);
    }
    let (kind, of_response) = match name.strip_suffix("_response") {
        Some(kind) => (kind, Kind::ALL.len()),
        None => (name, 0),
    };
    Kind::ALL.iter().position(|known| known.name() == kind).map(|place| place + of_response)
}

impl Second {
    pub fn end_s(&self) -> f64 {
        self.from_s + self.length_s
    }

    /// Number of seconds in this row.
    pub fn seconds(&self) -> usize {
        self.joined.len().max(1)
    }

    /// Whether two seconds know the same figures, so that a sum of them lacks none.
    fn knows_as(&self, other: &Self) -> bool {
        let known = |second: &Self| {
            let io = second.io.map(|io| io.each().map(|count| count.is_some()));
            let events =
                [second.checkpoints, second.vacuums, second.log_switches, second.block_images];
            let layers =
                [second.rows_asked.is_some(), second.device.is_some(), second.cpu.is_some()];
            (io, events.map(|count| count.is_some()), layers, second.sessions)
        };
        known(self) == known(other)
    }

    /// Seconds that follow each other, as one row. p50, p90 and p95 are those of its middle second, and the
    /// higher percentiles those of its worst.
    fn of_row(mut seconds: Vec<Self>) -> Option<Self> {
        if seconds.len() < 2 {
            return seconds.pop();
        }
        let first = seconds.first()?;
        let totals = IntervalTotals::of(&seconds);
        let sum = |count: fn(&Self) -> Option<u64>| seconds.iter().map(count).sum();
        let mut names: Vec<&str> =
            seconds.iter().flat_map(|second| second.latency_us.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let latencies = |name: &str| {
            let all: Vec<&LatencySummary> =
                seconds.iter().filter_map(|second| second.latency_us.get(name)).collect();
            (name.to_owned(), latency_of_row(&all))
        };
        Some(Self {
            from_s: first.from_s,
            length_s: totals.counted_s,
            ops: totals.ops,
            rows: totals.rows,
            rows_asked: totals.rows_asked,
            errors: seconds.iter().map(|second| second.errors).sum(),
            sessions: first.sessions,
            latency_us: names.into_iter().map(latencies).collect::<ByName<_>>(),
            io: first.io.map(|_| totals.io),
            checkpoints: sum(|second| second.checkpoints),
            vacuums: sum(|second| second.vacuums),
            log_switches: sum(|second| second.log_switches),
            block_images: sum(|second| second.block_images),
            device: totals.device,
            cpu: totals.cpu,
            joined: seconds.iter().map(OneSecond::of).collect(),
        })
    }
}

fn latency_of_row(all: &[&LatencySummary]) -> LatencySummary {
    type Percentile = fn(&LatencySummary) -> Option<f64>;
    let middle = |of: Percentile| figures::lower_median(all.iter().filter_map(|one| of(one)));
    let worst = |of: Percentile| all.iter().filter_map(|one| of(one)).reduce(f64::max);
    let sum =
        all.iter().fold(LatencySummary::default(), |sum, one| sum.plus_without_percentiles(one));
    LatencySummary {
        p50: middle(|one| one.p50),
        p90: middle(|one| one.p90),
        p95: middle(|one| one.p95),
        p99: worst(|one| one.p99),
        p99_9: worst(|one| one.p99_9),
        ..sum
    }
}

/// The seconds of rows, one by one.
pub fn each_second<'a>(
    rows: impl IntoIterator<Item = &'a Second>,
) -> impl Iterator<Item = OneSecond> {
    rows.into_iter().flat_map(|row| {
        let alone = row.joined.is_empty().then(|| OneSecond::of(row));
        alone.into_iter().chain(row.joined.iter().copied())
    })
}

impl SecondSeen {
    /// Intervals that follow each other, as one.
    fn of_row(seen: Vec<Self>) -> Option<Self> {
        let begin_s = seen.first()?.from_s;
        let is_begin = |at_s: f64| (at_s - begin_s).abs() < END_SLACK_S;
        let busiest = seen.iter().filter_map(|one| one.interval.busiest_cpu);
        let busiest = busiest.reduce(|best, next| if next.1 > best.1 { next } else { best });
        // The last one has the times of those before it, if they were kept together.
        let last = seen.last()?;
        let (times, kept) = match last.times {
            TimesOf::Own => (TimesOf::Own, None),
            TimesOf::Later => (TimesOf::Later, Some(KernelTimes::default())),
            TimesOf::From(from_s) if is_begin(from_s) => {
                (TimesOf::Own, Some(last.interval.times()))
            }
            TimesOf::From(from_s) => (TimesOf::From(from_s), Some(last.interval.times())),
        };
        let mut row = seen
            .into_iter()
            .reduce(|sum, next| Self { interval: sum.interval.then(&next.interval), ..sum })?;
        if let Some(times) = kept {
            row.interval.set_times(times);
        }
        row.interval.busiest_cpu = busiest;
        Some(Self { times, ..row })
    }
}

/// The seconds of a run in rows, as they come.
#[derive(Debug, Default)]
pub struct RowList {
    /// Moments at which a row ends, because totals of a window begin or end there.
    cuts: Vec<f64>,
    bounds: RowBounds,
    rows: Vec<Second>,
    seen: Vec<SecondSeen>,
    open: Vec<Second>,
    open_seen: Vec<SecondSeen>,
    is_each: bool,
    count: usize,
}

impl RowList {
    pub fn cut_at(cuts: Vec<f64>) -> Self {
        Self { cuts, ..Self::default() }
    }

    /// Each second in a row alone.
    pub fn of_each_second() -> Self {
        Self { is_each: true, ..Self::default() }
    }

    /// Number of seconds.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The rows that are complete, and the seconds of the next one.
    pub fn rows_and_open(&self) -> [&[Second]; 2] {
        [&self.rows, &self.open]
    }

    pub fn push(&mut self, second: Second, seen: Option<SecondSeen>) {
        let is_cut = |at_s: &f64| (at_s - second.from_s).abs() < BOUND_SLACK_S;
        let follows = self.open.last().is_none_or(|last| last.knows_as(&second));
        let has_seen = self.open.len() == self.open_seen.len();
        if !follows || self.cuts.iter().any(is_cut) || has_seen != seen.is_some() {
            self.end_row();
        }
        let is_end = self.bounds.end_with(second.from_s, second.length_s);
        self.count += 1;
        self.open.push(second);
        self.open_seen.extend(seen);
        if is_end || self.is_each {
            self.end_row();
        }
    }

    /// Adds counts of the operating system that belong to no second.
    pub fn push_seen(&mut self, seen: SecondSeen) {
        self.end_row();
        self.seen.push(seen);
    }

    /// Ends the row, so that none holds seconds from before and after this moment.
    pub fn end_row(&mut self) {
        self.rows.extend(Second::of_row(std::mem::take(&mut self.open)));
        self.seen.extend(SecondSeen::of_row(std::mem::take(&mut self.open_seen)));
    }

    pub fn finish(mut self) -> (Vec<Second>, Vec<SecondSeen>) {
        self.end_row();
        (self.rows, self.seen)
    }
}

/// Seconds of another host in the rows of a run, as they come.
pub(super) struct SeenInRows<'a> {
    rows: &'a [Second],
    open: Vec<SecondSeen>,
    seen: Vec<SecondSeen>,
}

impl<'a> SeenInRows<'a> {
    pub fn of(rows: &'a [Second]) -> Self {
        Self { rows, open: Vec::new(), seen: Vec::new() }
    }

    pub fn push(&mut self, second: SecondSeen) {
        let middle_s = second.from_s + second.interval.seconds / 2.0;
        let past = self.rows.partition_point(|row| row.end_s() <= middle_s);
        // Without rows each second stays alone.
        if past > 0 || self.rows.is_empty() {
            self.end_row();
            self.rows = &self.rows[past..];
        }
        self.open.push(second);
    }

    fn end_row(&mut self) {
        self.seen.extend(SecondSeen::of_row(std::mem::take(&mut self.open)));
    }

    pub fn finish(mut self) -> Vec<SecondSeen> {
        self.end_row();
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use petal_host::os::OsInterval;
    use proptest::prelude::*;

    /// A run of so many seconds, each with counts of its own.
    fn long_run(seconds: usize) -> Vec<Second> {
        let minute = fixture::timeline(60);
        let all = minute.iter().cycle().take(seconds).cloned().enumerate();
        all.map(|(at, second)| Second { from_s: at as f64, ..second }).collect()
    }

    fn in_rows(seconds: &[Second], cuts: Vec<f64>) -> Vec<Second> {
        let mut rows = RowList::cut_at(cuts);
        seconds.iter().for_each(|second| rows.push(second.clone(), None));
        assert_eq!(rows.count(), seconds.len());
        rows.finish().0
    }

    #[test]
    fn a_day_has_few_rows_and_no_more_than_a_half_per_cent_in_one() {
        let mut bounds = RowBounds::default();
        let ends = (0..86_400).filter(|&at| bounds.end_with(f64::from(at), 1.0));
        let ends: Vec<i32> = ends.map(|at| at + 1).collect();
        assert_eq!(ends[..600], (1..=600).collect::<Vec<_>>());
        assert!((1_500..1_700).contains(&ends.len()), "{}", ends.len());
        let mut lengths = ends.windows(2).map(|two| (two[0], two[1] - two[0]));
        let too_long =
            lengths.find(|&(begin, length)| f64::from(length) > f64::from(begin) * 0.005 + 1.0);
        assert_eq!(too_long, None);
        assert!(86_400 - ends.last().unwrap() <= 432);
    }

    /// As a run keeps them until its end.
    #[test]
    fn a_day_of_seconds_takes_less_than_30_mb() {
        let mut rows = RowList::default();
        let minute = fixture::timeline(60);
        for at in 0..86_400_u32 {
            let second = minute[at as usize % 60].clone();
            rows.push(Second { from_s: f64::from(at), ..second }, None);
        }
        let size = |row: &Second| {
            let latencies = row.latency_us.iter();
            let named = latencies.map(|(name, latency)| name.len() + size_of_val(latency) + 32);
            size_of_val(row) + size_of_val(&*row.joined) + named.sum::<usize>()
        };
        let [whole, open] = rows.rows_and_open();
        let bytes: usize = whole.iter().chain(open).map(size).sum();
        assert!((1_000_000..30_000_000).contains(&bytes), "{bytes} bytes");
    }

    #[test]
    fn the_bounds_are_those_of_samples_that_come_late() {
        let (mut exact, mut late) = (RowBounds::default(), RowBounds::default());
        for at in 0..20_000 {
            let lag = |at: i32| f64::from(at) + 0.002 + f64::from(at % 7) * 0.004;
            let (from, to) = if at == 0 { (0.0, lag(1)) } else { (lag(at), lag(at + 1)) };
            let ends = exact.end_with(f64::from(at), 1.0);
            assert_eq!(late.end_with(from, to - from), ends, "second {at}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn totals_of_rows_are_those_of_the_seconds_in_them(
            length in 1usize..4000,
            cuts in prop::collection::vec(0usize..4000, 0..4),
        ) {
            let seconds = long_run(length);
            let rows = in_rows(&seconds, cuts.iter().map(|&cut| cut as f64).collect());
            prop_assert_eq!(rows.iter().map(Second::seconds).sum::<usize>(), length);
            let bounds = [vec![0, length], cuts].concat();
            for from in &bounds {
                for to in &bounds {
                    let [of_rows, of_seconds] = [&rows, &seconds].map(|timeline| {
                        IntervalTotals::of(figures::seconds_within(timeline, *from as f64, *to as f64))
                    });
                    prop_assert_eq!(of_rows.ops, of_seconds.ops);
                    prop_assert_eq!(of_rows.io, of_seconds.io);
                    prop_assert_eq!(of_rows.device, of_seconds.device);
                    prop_assert_eq!(of_rows.rows_asked, of_seconds.rows_asked);
                    prop_assert!((of_rows.counted_s - of_seconds.counted_s).abs() < 1e-6);
                }
            }
        }

        #[test]
        fn each_second_outlives_its_row(length in 600usize..3000) {
            let seconds = long_run(length);
            let rows = in_rows(&seconds, Vec::new());
            let kept: Vec<OneSecond> = each_second(&rows).collect();
            prop_assert_eq!(kept.len(), length);
            for (kept, second) in kept.iter().zip(&seconds) {
                prop_assert_eq!(kept.from_s, second.from_s);
                prop_assert_eq!(kept.amount(SecondAmount::Operations), Some(second.ops.total as f64));
                let bytes = second.io.unwrap().physical_read_bytes.unwrap() as f64;
                let close = |kept: f64, exact: f64| (kept / exact - 1.0).abs() < 1e-7;
                prop_assert!(close(kept.rate(SecondAmount::ReadBytes).unwrap(), bytes));
                let [_, slowest] = kept.slowest_us("update");
                let exact = second.latency_us.get("update").unwrap().max.unwrap();
                prop_assert!(close(slowest.unwrap(), exact));
            }
        }
    }

    #[test]
    fn a_row_ends_where_a_figure_is_no_longer_known_or_a_session_is_lost() {
        let mut seconds = long_run(3000);
        seconds[2010..].iter_mut().for_each(|second| second.io = None);
        seconds[2500..].iter_mut().for_each(|second| second.sessions = 7);
        let rows = in_rows(&seconds, Vec::new());
        for at_s in [2010.0, 2500.0] {
            assert!(rows.iter().any(|row| row.from_s == at_s), "{at_s}");
        }
        let known: u64 = rows.iter().filter_map(|row| row.io?.commits).sum();
        assert_eq!(known, seconds.iter().filter_map(|one| one.io?.commits).sum::<u64>());
    }

    #[test]
    fn a_row_of_the_operating_system_has_the_times_of_its_last_second() {
        let seen = |from_s: f64, times| {
            let interval = OsInterval { seconds: 1.0, ..OsInterval::default() };
            SecondSeen { from_s, times, interval }
        };
        let row = |times: TimesOf| {
            SecondSeen::of_row(vec![seen(700.0, TimesOf::Later), seen(701.0, times)]).unwrap()
        };
        let whole = row(TimesOf::From(700.0));
        assert_eq!((whole.from_s, whole.interval.seconds, whole.times), (700.0, 2.0, TimesOf::Own));
        assert_eq!(row(TimesOf::From(690.0)).times, TimesOf::From(690.0));
        assert_eq!(row(TimesOf::Later).times, TimesOf::Later);
    }
}
