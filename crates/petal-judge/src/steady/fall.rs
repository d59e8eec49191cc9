//! Finds when and how far the rate fell, and the other changes at that time. A candidate is named
//! with its evidence; the reader decides whether it is the cause.

use super::super::estimate;
use super::super::other_processors::Others;
use petal_host::numbers::decimal;
use petal_host::os::CpuShare;
use petal_record::{OneSecond, Second, SecondAmount, each_second};

/// Other processes' use of the processors between two moments of the run, in seconds; None if
/// unknown.
pub(super) type UsedBetween<'a> = &'a dyn Fn(f64, f64) -> Option<Others>;

/// A smaller fall is noise.
const FALL_SHARE_MIN: f64 = 0.10;
/// Growth of a latency or of written bytes below this factor does not explain a fall.
const CHANGED: f64 = 1.5;
/// Growth below this factor counts as none.
const SAME: f64 = 1.15;
/// A shorter stretch on either side of a step shows nothing.
const STRETCH_SECONDS_MIN: usize = 10;
/// Device requests that vary by less than this from second to second run against a ceiling.
const CEILING_VARIATION_MAX: f64 = 0.02;
const CEILING_SECONDS_MIN: usize = 30;
const STEAL_POINTS_MIN: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Fall between two seconds.
    Step,
    /// Fall over the whole stretch.
    Drift,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fall {
    pub shape: Shape,
    /// Time of the fall, or the begin of a drift.
    pub at_s: f64,
    /// Operations per second before and after; of a drift at the ends of the fitted line.
    pub before: f64,
    pub after: f64,
    /// Other changes, a phrase each with its figures; empty if nothing recorded changed.
    pub candidates: Vec<String>,
}

impl Fall {
    /// 0.25 is a quarter less.
    pub fn share(&self) -> f64 {
        1.0 - self.after / self.before
    }
}

/// The fall of a stretch of rows, if the rate of their seconds fell: as a step or as a drift, whichever
/// leaves less of the seconds' variance unexplained.
pub(super) fn fall(rows: &[&Second], used: UsedBetween<'_>) -> Option<Fall> {
    let seconds: Vec<OneSecond> = each_second(rows.iter().copied()).collect();
    let rates: Vec<f64> = seconds.iter().map(OneSecond::operations_rate).collect();
    if rates.len() < 2 * STRETCH_SECONDS_MIN {
        return None;
    }
    let (step_at, step_left) = best_step(&rates)?;
    let (line, drift_left) = fitted(&rates);
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let (shape, at, before, after) = if step_left <= drift_left {
        (Shape::Step, step_at, mean(&rates[..step_at]), mean(&rates[step_at..]))
    } else {
        (Shape::Drift, 0, line.0, line.1)
    };
    if before <= 0.0 || after > before * (1.0 - FALL_SHARE_MIN) {
        return None;
    }
    let (early_to, late_from) = match shape {
        Shape::Step => (step_at, step_at),
        Shape::Drift => (seconds.len() / 5, seconds.len() - seconds.len() / 5),
    };
    // A row lies where its middle is.
    let rows_before = |at: usize| {
        let at_s = seconds.get(at).map_or(f64::INFINITY, |second| second.from_s);
        rows.partition_point(|row| row.from_s + row.length_s / 2.0 < at_s)
    };
    let (early, late) = (&rows[..rows_before(early_to)], &rows[rows_before(late_from)..]);
    let candidates = Stretches { early, late, used }.candidates();
    Some(Fall { shape, at_s: seconds[at].from_s, before, after: after.max(0.0), candidates })
}

/// Finds where two levels explain the rates best, and the squares that remain.
fn best_step(rates: &[f64]) -> Option<(usize, f64)> {
    let total: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let count = rates.len() as f64;
    let mut sum = 0.0;
    let mut best: Option<(usize, f64)> = None;
    for (at, rate) in rates.iter().enumerate() {
        if at >= STRETCH_SECONDS_MIN && at + STRETCH_SECONDS_MIN <= rates.len() {
            let before = at as f64;
            let explained = sum * sum / before + (total - sum).powi(2) / (count - before);
            let left = squares - explained;
            if best.is_none_or(|(_, least)| left < least) {
                best = Some((at, left));
            }
        }
        sum += rate;
    }
    best
}

/// The line through the rates, at its two ends, and the squares that it leaves.
fn fitted(rates: &[f64]) -> ((f64, f64), f64) {
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let slope = super::slope(rates);
    let half = slope * (count - 1.0) / 2.0;
    let at = |position: usize| mean + slope * (position as f64 - (count - 1.0) / 2.0);
    let left = rates.iter().enumerate().map(|(position, rate)| (rate - at(position)).powi(2)).sum();
    ((mean - half, mean + half), left)
}

type SecondCount = fn(&Second) -> Option<u64>;

/// The seconds before and after.
struct Stretches<'a> {
    early: &'a [&'a Second],
    late: &'a [&'a Second],
    used: UsedBetween<'a>,
}

impl Stretches<'_> {
    /// Returns a figure of both stretches; None if one of them lacks it.
    fn both(&self, figure: impl Fn(&[&Second]) -> Option<f64>) -> Option<(f64, f64)> {
        figure(self.early).zip(figure(self.late))
    }

    /// Totals of a count over each stretch's time; None if one second lacks it.
    fn rates(&self, count: SecondCount) -> Option<(f64, f64)> {
        self.both(|seconds| {
            let total: Option<u64> = seconds.iter().map(|second| count(second)).sum();
            let time_s: f64 = seconds.iter().map(|second| second.length_s).sum();
            total.filter(|_| time_s > 0.0).map(|total| total as f64 / time_s)
        })
    }

    fn ratio(&self, over: SecondCount, under: SecondCount) -> Option<(f64, f64)> {
        let (over, under) = (self.rates(over)?, self.rates(under)?);
        (under.0 > 0.0 && under.1 > 0.0).then(|| (over.0 / under.0, over.1 / under.1))
    }

    /// The mean of a share of the processors; None if one second lacks it.
    fn cpu(&self, share: fn(&CpuShare) -> f64) -> Option<(f64, f64)> {
        self.both(|seconds| {
            let all: Option<Vec<f64>> =
                seconds.iter().map(|second| Some(share(&second.cpu?))).collect();
            estimate::mean(&all?)
        })
    }

    fn candidates(&self) -> Vec<String> {
        let all = [
            self.checkpoint(),
            self.vacuum(),
            self.log(),
            self.drive(),
            self.ceiling(),
            self.cache(),
            self.others(),
            self.clock(),
            self.steal(),
        ];
        all.into_iter().flatten().collect()
    }

    fn checkpoint(&self) -> Option<String> {
        let ended = self.rates(|second| second.checkpoints);
        let began = ended.is_some_and(|(early, late)| early == 0.0 && late > 0.0);
        let (early, late) = self.rates(|second| second.io?.physical_write_bytes)?;
        (began || (late > early * CHANGED && late > 0.0)).then(|| {
            format!(
                "checkpoint: {} MB/s were written above the device, {} before",
                decimal(late / 1e6, 1),
                decimal(early / 1e6, 1)
            )
        })
    }

    fn vacuum(&self) -> Option<String> {
        let (early, late) = self.rates(|second| second.vacuums)?;
        (late > early && early == 0.0).then(|| "vacuum: it ran, and had not before".to_owned())
    }

    /// Reports UPDATEs that became slower while SELECTs did not: only UPDATEs wait for the log.
    fn log(&self) -> Option<String> {
        let latency = |kind: &str| {
            self.both(|seconds| {
                let known = seconds.iter().filter_map(|second| second.latency_us.get(kind));
                let known = || known.clone().filter_map(|l| Some((l.mean?, l.count)));
                let count: u64 = known().map(|(_, count)| count).sum();
                let time: f64 = known().map(|(mean, count)| mean * count as f64).sum();
                (count > 0).then(|| time / count as f64)
            })
        };
        let (update, select) = (latency("update")?, latency("select")?);
        (update.1 > update.0 * CHANGED && select.1 < select.0 * SAME).then(|| {
            format!(
                "log stall: an UPDATE took {} us, {} before, while SELECTs did not slow down",
                decimal(update.1, 0),
                decimal(update.0, 0)
            )
        })
    }

    /// The device takes longer for no more work.
    fn drive(&self) -> Option<String> {
        let (early, late) = self.rates(|s| s.device.map(|d| d.read_bytes + d.write_bytes))?;
        if late > early * SAME {
            return None;
        }
        let waits = [
            ("read", self.ratio(|s| Some(s.device?.read_ms), |s| Some(s.device?.read_requests))),
            ("write", self.ratio(|s| Some(s.device?.write_ms), |s| Some(s.device?.write_requests))),
        ];
        let slower = waits.into_iter().filter_map(|(what, ms)| {
            let (early, late) = ms?;
            (late > early * CHANGED).then(|| {
                let us = |ms: f64| decimal(ms * 1e3, 0);
                format!("{what} took {} us, {} before", us(late), us(early))
            })
        });
        let slower: Vec<String> = slower.collect();
        (!slower.is_empty()).then(|| {
            format!(
                "drive cache full or garbage collection: a device {}, for no more bytes",
                slower.join(" and a ")
            )
        })
    }

    /// Requests that no longer vary: a limit of the volume, as when burst credit is spent.
    fn ceiling(&self) -> Option<String> {
        let variation = |rows: &[&Second]| {
            let whole = each_second(rows.iter().copied())
                .filter(|second| second.length_s() >= super::SECOND_S_MIN);
            let rates: Vec<f64> =
                whole.filter_map(|second| second.rate(SecondAmount::DeviceRequests)).collect();
            let mean = estimate::mean(&rates).filter(|mean| *mean > 0.0)?;
            let deviation = estimate::deviation(&rates)?;
            (rates.len() >= CEILING_SECONDS_MIN).then_some((deviation / mean, mean))
        };
        let (late, ceiling) = variation(self.late)?;
        let early = variation(self.early);
        let was_higher = early.is_none_or(|(varied, mean)| varied > late && mean > ceiling * SAME);
        (late <= CEILING_VARIATION_MAX && was_higher).then(|| {
            format!(
                "burst credit spent: the device served {} requests/s, within {:.1} % in every second",
                decimal(ceiling, 0),
                late * 100.0
            )
        })
    }

    fn cache(&self) -> Option<String> {
        let (early, late) = self.ratio(|s| s.io?.physical_read_requests, |s| Some(s.ops.total))?;
        (late > early * SAME).then(|| {
            format!("cache: an operation made {late:.1} reads from storage, {early:.1} before")
        })
    }

    /// Processes that used the processors before and after.
    fn used(&self) -> Option<(Others, Others)> {
        let of = |seconds: &[&Second]| {
            let (first, last) = seconds.first().zip(seconds.last())?;
            (self.used)(first.from_s, last.from_s + last.length_s)
        };
        of(self.early).zip(of(self.late))
    }

    fn others(&self) -> Option<String> {
        let (early, late) = self.used()?;
        (late.processors - early.processors >= late.processors_min()).then(|| {
            format!(
                "others' work: others used {:.1} of the {} processors, {:.1} before",
                late.processors, late.of, early.processors
            )
        })
    }

    /// Reports processors as busy as before for fewer operations: a lower clock causes that, if no
    /// other process was busy.
    fn clock(&self) -> Option<String> {
        if self.used().is_some_and(|(_, late)| late.processors >= late.processors_min()) {
            return None;
        }
        let (early, late) = self.cpu(CpuShare::busy)?;
        let ops = self.rates(|second| Some(second.ops.total))?;
        let dearer = (late / ops.1) / (early / ops.0);
        (late >= early * 0.95 && late > 50.0 && dearer > 1.25).then(|| {
            format!(
                "heat or a lower clock: the processors were {late:.0} % busy, {early:.0} before, \
                 for fewer operations"
            )
        })
    }

    fn steal(&self) -> Option<String> {
        let (early, late) = self.cpu(|cpu| cpu.steal)?;
        (late - early >= STEAL_POINTS_MIN).then(|| {
            format!(
                "other virtual machines: {late:.1} % of processor time stolen, {early:.1} before"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_host::histogram::LatencySummary;
    use petal_host::os::{CpuShare, DeviceCounts};
    use petal_record::Ops;
    use petal_record::counters::IoCounts;
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Seconds whose rate at each share of the run is `shape`, with 5 % of noise.
    fn simulated(seed: u64, seconds: u32, shape: impl Fn(f64) -> f64) -> Vec<Second> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..seconds)
            .map(|at| {
                let noise = 0.95 + 0.1 * random.random::<f64>();
                let total = (shape(f64::from(at) / f64::from(seconds)) * noise) as u64;
                Second {
                    from_s: f64::from(at),
                    length_s: 1.0,
                    ops: Ops { total, ..Ops::default() },
                    ..Second::default()
                }
            })
            .collect()
    }

    fn fallen(timeline: &[Second]) -> Option<Fall> {
        fall(&timeline.iter().collect::<Vec<_>>(), &|_, _| None)
    }

    proptest! {
        #[test]
        fn a_cliff_is_found_where_it_is(seed: u64, at in 0.1f64..0.9, left in 0.1f64..0.8) {
            let shape = |now: f64| if now < at { 10_000.0 } else { 10_000.0 * left };
            let fall = fallen(&simulated(seed, 400, shape)).unwrap();
            prop_assert_eq!(fall.shape, Shape::Step);
            prop_assert!((fall.at_s - at * 400.0).abs() <= 2.0, "{:?}", fall);
            prop_assert!((fall.share() - (1.0 - left)).abs() < 0.02, "{:?}", fall);
            prop_assert!(fall.candidates.is_empty());
        }

        #[test]
        fn a_drift_is_distinguished_from_a_cliff(seed: u64, drift in 0.3f64..0.9) {
            let fall = fallen(&simulated(seed, 400, |at| 10_000.0 * (1.0 - drift * at))).unwrap();
            prop_assert_eq!(fall.shape, Shape::Drift);
            prop_assert!((fall.share() - drift).abs() < 0.03, "{:?}", fall);
        }

        #[test]
        fn a_flat_or_rising_rate_has_not_fallen(seed: u64, rise in 0.0f64..2.0) {
            prop_assert_eq!(fallen(&simulated(seed, 400, |at| 10_000.0 * (1.0 + rise * at))), None);
        }
    }

    /// A cliff at half the run, with other figures before and after.
    fn cliff(change: impl Fn(&mut Second, bool)) -> Vec<String> {
        cliff_with(&|_, _| None, change)
    }

    fn cliff_with(used: UsedBetween<'_>, change: impl Fn(&mut Second, bool)) -> Vec<String> {
        let shape = |now: f64| if now < 0.5 { 10_000.0 } else { 5_000.0 };
        let mut timeline = simulated(3, 400, shape);
        for (at, second) in timeline.iter_mut().enumerate() {
            change(second, at >= 200);
        }
        fall(&timeline.iter().collect::<Vec<_>>(), used).unwrap().candidates
    }

    /// The device's work of a second: requests, and microseconds each.
    fn device(requests: u64, us: u64) -> DeviceCounts {
        DeviceCounts {
            read_requests: requests,
            read_bytes: requests * 8192,
            read_ms: requests * us / 1000,
            ..DeviceCounts::default()
        }
    }

    #[test]
    fn candidates_come_with_their_evidence() {
        let io = |bytes: u64| IoCounts { physical_write_bytes: Some(bytes), ..IoCounts::default() };
        let reported = cliff(|second, late| {
            second.io = Some(io(if late { 80_000_000 } else { 5_000_000 }));
        });
        insta::assert_snapshot!(reported.join("\n"), @"checkpoint: 80.0 MB/s were written above the device, 5.0 before");

        let reported = cliff(|second, late| {
            second.vacuums = Some(u64::from(late && second.from_s == 300.0));
        });
        insta::assert_snapshot!(reported.join("\n"), @"vacuum: it ran, and had not before");

        let reported = cliff(|second, late| {
            let latency =
                |mean| LatencySummary { count: 10, mean: Some(mean), ..Default::default() };
            let update = if late { 9000.0 } else { 2000.0 };
            second.latency_us = [("select", 500.0), ("update", update)]
                .map(|(kind, mean)| (kind.to_owned(), latency(mean)))
                .into_iter()
                .collect();
        });
        insta::assert_snapshot!(reported.join("\n"), @"log stall: an UPDATE took 9,000 us, 2,000 before, while SELECTs did not slow down");

        let reported = cliff(|second, late| {
            // It varies from second to second: no ceiling.
            let wave = (second.from_s as u64 % 7) * 300;
            second.device = Some(if late { device(5000 + wave, 900) } else { device(10_000, 200) });
        });
        insta::assert_snapshot!(reported.join("\n"), @"drive cache full or garbage collection: a device read took 900 us, 200 before, for no more bytes");

        let reported = cliff(|second, late| {
            let wave = (second.from_s as u64 % 7) * 100;
            second.device = Some(if late { device(3000, 200) } else { device(10_000 + wave, 200) });
        });
        insta::assert_snapshot!(reported.join("\n"), @"burst credit spent: the device served 3,000 requests/s, within 0.0 % in every second");

        let cpu = |busy: f64, steal: f64| CpuShare {
            user: busy,
            idle: 100.0 - busy,
            steal,
            ..CpuShare::default()
        };
        let reported =
            cliff(|second, late| second.cpu = Some(cpu(if late { 90.0 } else { 88.0 }, 0.0)));
        insta::assert_snapshot!(reported.join("\n"), @"heat or a lower clock: the processors were 90 % busy, 88 before, for fewer operations");
        let reported =
            cliff(|second, late| second.cpu = Some(cpu(40.0, if late { 12.0 } else { 0.5 })));
        insta::assert_snapshot!(reported.join("\n"), @"other virtual machines: 12.0 % of processor time stolen, 0.5 before");

        let reported = cliff(|second, late| {
            let each = if late { 60 } else { 30 };
            let reads = Some(second.ops.total * each);
            second.io = Some(IoCounts { physical_read_requests: reads, ..IoCounts::default() });
        });
        insta::assert_snapshot!(reported.join("\n"), @"cache: an operation made 60.0 reads from storage, 30.0 before");
    }

    #[test]
    fn others_at_work_are_nearer_than_a_lower_clock() {
        let busy = |second: &mut Second, _| {
            second.cpu = Some(CpuShare { user: 100.0, ..CpuShare::default() });
        };
        let others = |before: f64| {
            move |from_s: f64, _: f64| {
                let processors = if from_s < 150.0 { before } else { 1.7 };
                Some(Others { own: 2.0 - processors, processors, of: 2 })
            }
        };
        insta::assert_snapshot!(cliff_with(&others(0.1), busy).join("\n"), @"others' work: others used 1.7 of the 2 processors, 0.1 before");
        // Other processes were there all the time: their additional use is unknown, and no clock is
        // blamed.
        assert!(cliff_with(&others(1.6), busy).is_empty());
        let alone = |_, _| Some(Others { own: 2.0, processors: 0.0, of: 2 });
        assert!(cliff_with(&alone, busy)[0].starts_with("heat or a lower clock"));
    }

    #[test]
    fn an_unchanged_figure_is_no_candidate() {
        let reported = cliff(|second, _| {
            second.io =
                Some(IoCounts { physical_write_bytes: Some(1 << 20), ..IoCounts::default() });
            second.checkpoints = Some(1);
            second.vacuums = Some(0);
            second.cpu = Some(CpuShare { user: 30.0, idle: 70.0, ..CpuShare::default() });
        });
        assert!(reported.is_empty(), "{reported:?}");
    }
}
