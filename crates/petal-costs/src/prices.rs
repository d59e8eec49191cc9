//! Prices of an optimizer from measured accesses. Each round gives one value of each price, so that
//! a drift of the machine affects both sides of a ratio; rounds give the interval.
//!
//! The arithmetic is the planner's own: a row of an index scan is a block, an index entry, a row and
//! three operators (two of the range, one of the count); a row of a scan is a block, a row and one
//! operator.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{CACHED_PCTS, CostCell, CostSample, Costs, PriceValue, PricedSetting};
use petal_engine::costs::{CostAccess, FILTERS, Price, PriceUnit};
use petal_judge::estimate::Estimate;

/// Samples whose cached share differs by more from the meant one are left out.
const SHARE_OFF_MAX: f64 = 0.05;
/// The limit for a scan, whose read-ahead moves blocks into the sample and out of it.
const SCAN_SHARE_OFF_MAX: f64 = 0.1;
/// Devices must have read at least this share of the blocks that the cache did not serve.
const DEVICE_SHARE_MIN: f64 = 0.9;
/// Least such share of a scan, because its read-ahead may have read blocks before the sample.
const SCAN_SHARE_MIN: f64 = 0.5;
/// Most time that fewer blocks ahead may lose against the best number.
const DEPTH_LOSS_MAX: f64 = 0.05;
/// Asking ahead must be this many times as fast as reading alone: it makes a request of each block, where
/// the operating system reads neighbours together.
const AHEAD_GAIN_MIN: f64 = 1.5;
const NS_PER_US: f64 = 1000.0;

/// A value with its 95 % interval over the rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Priced {
    pub value: f64,
    pub interval: Option<(f64, f64)>,
}

impl Priced {
    /// The geometric mean, of which a single slow round moves little; `None` if a value is not
    /// above 0, because it is then too small to be measured.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.iter().any(|value| *value <= 0.0 || !value.is_finite()) {
            return None;
        }
        let of_logs = Estimate::of(values.iter().map(|value| value.ln()).collect())?;
        let interval = of_logs.interval.map(|(low, high)| (low.exp(), high.exp()));
        Some(Self { value: of_logs.mean.exp(), interval })
    }
}

/// True if the layers show the cached share that the cell is for.
pub fn is_at_its_share(cell: &CostCell, sample: &CostSample, costs: &Costs) -> bool {
    let Some(pct) = cell.cached_pct else { return true };
    let meant = f64::from(pct) / 100.0;
    let (least, off) = match cell.access {
        CostAccess::Sequential => (SCAN_SHARE_MIN, SCAN_SHARE_OFF_MAX),
        _ => (DEVICE_SHARE_MIN, SHARE_OFF_MAX),
    };
    let is_share = |share: f64| (share - meant).abs() <= off;
    let of_device = sample.device_share(costs.block_bytes).filter(|_| pct < 100);
    sample.hit_share().is_none_or(is_share) && of_device.is_none_or(|share| share >= least)
}

/// The most that a value can be which is too small to be measured.
fn most(values: Vec<f64>) -> Option<f64> {
    let (_, high) = Estimate::of(values)?.interval?;
    Some(high).filter(|high| *high > 0.0 && high.is_finite())
}

/// The condition of a price: sessions, and the cached share of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    pub sessions: u32,
    pub cached_pct: u8,
}

/// Nanoseconds of an access by round. A scan finds its cached blocks together, so that it takes as long
/// as its parts: between 0 and 100 % nothing is measured.
fn times(costs: &Costs, access: CostAccess, sessions: u32, pct: Option<u8>) -> BTreeMap<u32, f64> {
    if let (CostAccess::Sequential, Some(pct @ 1..100)) = (access, pct) {
        let cached = times(costs, access, sessions, Some(100));
        let share = f64::from(pct) / 100.0;
        let mixed = |(round, cold): (u32, f64)| {
            Some((round, cold * (1.0 - share) + cached.get(&round)? * share))
        };
        return times(costs, access, sessions, Some(0)).into_iter().filter_map(mixed).collect();
    }
    let samples = costs.cell(access, sessions, pct).into_iter().flat_map(|cell| &cell.samples);
    samples.filter_map(|sample| Some((sample.round, sample.unit_ns()?))).collect()
}

/// Nanoseconds of an access.
pub fn time(costs: &Costs, access: CostAccess, sessions: u32, pct: Option<u8>) -> Option<Priced> {
    let times = times(costs, access, sessions, pct);
    Priced::of(&times.into_values().collect::<Vec<_>>())
}

/// Nanoseconds of each part of a plan in one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanParts {
    pub operator: f64,
    pub row: f64,
    pub index_entry: f64,
}

impl PlanParts {
    /// Parts of accesses that took these times: a row, one with all filters, and an entry of an
    /// index.
    pub fn of(row: f64, filtered: f64, entry: f64) -> Self {
        let operator = (filtered - row) / f64::from(FILTERS);
        let tuple = row - operator;
        Self { operator, row: tuple, index_entry: entry - tuple - 3.0 * operator }
    }

    /// Time of an entry of a scan of the index alone, without the count.
    pub fn index_row(&self) -> f64 {
        self.index_entry + self.row + 2.0 * self.operator
    }

    /// Time of the block alone, of a row that was found by an index.
    pub fn random_block(&self, row: f64) -> f64 {
        row - self.index_entry - self.row - 3.0 * self.operator
    }

    /// Time of the block alone, of a row of a scan.
    pub fn sequential_block(&self, row: f64) -> f64 {
        row - self.row - self.operator
    }
}

/// Parts by round.
fn parts(costs: &Costs) -> BTreeMap<u32, PlanParts> {
    let of = |access| times(costs, access, 1, None);
    let (filtered, entries) = (of(CostAccess::FilteredRows), of(CostAccess::IndexEntries));
    let rows = of(CostAccess::Rows).into_iter();
    rows.filter_map(|(round, row)| {
        Some((round, PlanParts::of(row, *filtered.get(&round)?, *entries.get(&round)?)))
    })
    .collect()
}

/// Values of a price, one for each round.
fn values(costs: &Costs, price: Price, unit: PriceUnit, at: Condition) -> Vec<f64> {
    let pct = Some(at.cached_pct);
    let random = times(costs, CostAccess::Random, at.sessions, pct);
    let alone = times(costs, CostAccess::Random, at.sessions, Some(0));
    let sequential = times(costs, CostAccess::Sequential, at.sessions, pct);
    let [scanned, cached] =
        [0, 100].map(|pct| times(costs, CostAccess::Sequential, at.sessions, Some(pct)));
    let lookups = times(costs, CostAccess::Lookups, 1, None);
    let random_cached = times(costs, CostAccess::Random, at.sessions, Some(100));
    let parts = parts(costs);
    let of_round = |round: u32| {
        let part = || parts.get(&round).copied();
        let unit = match unit {
            PriceUnit::SequentialBlock => part()?.sequential_block(*sequential.get(&round)?),
            PriceUnit::RandomRead => part()?.random_block(*alone.get(&round)?),
            PriceUnit::Microsecond | PriceUnit::Blocks => NS_PER_US,
            PriceUnit::Share => 1.0,
        };
        let value = match price {
            Price::RandomBlock => part()?.random_block(*random.get(&round)?),
            Price::SequentialBlock => part()?.sequential_block(*sequential.get(&round)?),
            Price::Row => part()?.row,
            Price::IndexEntry => part()?.index_entry,
            Price::IndexRow => part()?.index_row(),
            Price::Lookup => lookups.get(&round)? - part()?.row - part()?.operator,
            Price::RowLookup => random.get(&round)? - sequential.get(&round)? - part()?.index_row(),
            Price::BlockRead => scanned.get(&round)? - cached.get(&round)?,
            Price::RandomRead => alone.get(&round)? - random_cached.get(&round)?,
            Price::Operator => part()?.operator,
            Price::ScanBlocks | Price::MissShare | Price::Depth | Price::DepthOfSessions => {
                return None;
            }
        };
        Some(value / unit)
    };
    let rounds = parts.keys().chain(alone.keys()).copied().collect::<BTreeSet<u32>>();
    rounds.into_iter().filter_map(of_round).collect()
}

/// A price under one condition.
#[cfg(test)]
fn price(costs: &Costs, price: Price, unit: PriceUnit, at: Condition) -> Option<Priced> {
    Priced::of(&values(costs, price, unit, at))
}

/// The fewest blocks to ask for ahead that lose little against the best number, with the fewest and
/// the most for which the rounds do not exclude it. It is 0 if asking ahead gains less than half.
pub fn depth(costs: &Costs, sessions: u32) -> Option<(u32, u32, u32)> {
    let measured = costs.depths();
    let depths: Vec<u32> =
        measured.first().map(|_| 0).into_iter().chain(measured.iter().copied()).collect();
    let by_round = |depth: u32| {
        let access = if depth == 0 { CostAccess::Random } else { CostAccess::ReadAhead(depth) };
        times(costs, access, sessions, Some(0))
    };
    let mean = |depth: u32| {
        Priced::of(&by_round(depth).into_values().collect::<Vec<_>>()).map(|priced| priced.value)
    };
    let (best, _) = depths
        .iter()
        .filter_map(|depth| Some((*depth, mean(*depth)?)))
        .min_by(|one, other| one.1.total_cmp(&other.1))?;
    let of_best = by_round(best);
    let loss = |depth: u32| {
        let ratios = by_round(depth).into_iter();
        let ratios = ratios.filter_map(|(round, time)| Some(time / of_best.get(&round)?));
        Priced::of(&ratios.collect::<Vec<_>>())
    };
    let most = |depth: u32| if depth == 0 { AHEAD_GAIN_MIN } else { 1.0 + DEPTH_LOSS_MAX };
    let may_be = |depth: &&u32| {
        let least = |loss: Priced| loss.interval.map_or(loss.value, |of| of.0);
        loss(**depth).is_some_and(|loss| least(loss) <= most(**depth))
    };
    let is_as_good = |depth: &&u32| loss(**depth).is_some_and(|loss| loss.value <= most(**depth));
    Some((
        *depths.iter().find(is_as_good)?,
        *depths.iter().find(may_be)?,
        *depths.iter().rev().find(may_be)?,
    ))
}

/// The depth with which the devices had the most reads in flight on average, and their number, with the
/// most sessions.
pub fn most_in_flight(costs: &Costs) -> Option<(u32, f64)> {
    let in_flight = |depth: u32| {
        let cell = costs.cell(CostAccess::ReadAhead(depth), costs.sessions, Some(0))?;
        let busy_ms: u64 = cell.samples.iter().map(|of| of.device_read_ms).sum::<Option<u64>>()?;
        let elapsed_ns: u64 = cell.samples.iter().map(|of| of.elapsed_ns).sum();
        let elapsed_ms = elapsed_ns as f64 / f64::from(costs.sessions) / 1e6;
        (elapsed_ms > 0.0).then(|| (depth, busy_ms as f64 / elapsed_ms))
    };
    let all = costs.depths().into_iter().filter_map(in_flight);
    all.max_by(|one, other| one.1.total_cmp(&other.1))
}

/// Computes the values of every setting under every measured condition, and the statements for the
/// assumed cached share that change a setting. A price that is too small to be measured keeps its
/// present value, unless that is above the most that it can be.
pub fn conclude(costs: &mut Costs) {
    let settings = std::mem::take(&mut costs.settings);
    costs.settings = settings
        .into_iter()
        .map(|setting| PricedSetting { values: setting_values(costs, &setting), ..setting })
        .collect();
    let statement = |setting: &PricedSetting| {
        let found = setting.at(costs.assumed_pct)?;
        let present: Option<f64> = setting.present.as_ref().and_then(|value| value.parse().ok());
        if found.value.is_none() && present.zip(found.high).is_some_and(|(now, most)| now <= most) {
            return None;
        }
        let value = significant(found.usable()?);
        let is_new = setting.present.as_ref() != Some(&value);
        is_new.then(|| Some(setting.statement.as_ref()?.replace("{value}", &value)))?
    };
    // A size that is known without a measurement is set only together with measured times.
    let is_known = |setting: &PricedSetting| {
        setting.values.iter().any(|found| found.value.is_some() || found.high.is_some())
    };
    let mut others = costs.settings.iter().filter(|setting| setting.price != Price::ScanBlocks);
    let is_any = others.any(is_known);
    let settings = costs.settings.iter();
    let settings = settings.filter(|setting| setting.price != Price::ScanBlocks || is_any);
    costs.statements = settings.filter_map(statement).collect();
    if let Some(joint) = costs.joint_statement.as_ref().filter(|_| !costs.statements.is_empty()) {
        costs.statements = vec![joint.replace("{settings}", &costs.statements.join(", "))];
    }
    if !costs.statements.is_empty() {
        costs.statements.extend(costs.reload.clone());
    }
}

/// A number with three digits that matter, as a statement takes it.
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let whole_digits = value.abs().log10().floor() as i32 + 1;
    let decimals = usize::try_from((3 - whole_digits).clamp(0, 12)).unwrap_or_default();
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Conditions under which a setting has a value: each cached share with one session, then the first
/// with several.
pub fn conditions(costs: &Costs) -> Vec<Condition> {
    let one = CACHED_PCTS.map(|cached_pct| Condition { sessions: 1, cached_pct });
    let several = Condition { sessions: costs.sessions, cached_pct: CACHED_PCTS[0] };
    one.into_iter().chain((costs.sessions > 1).then_some(several)).collect()
}

fn setting_values(costs: &Costs, setting: &PricedSetting) -> Vec<PriceValue> {
    let of_depth = |sessions: u32| {
        let found = depth(costs, sessions);
        PriceValue {
            sessions,
            cached_pct: None,
            value: found.map(|(best, ..)| best.into()),
            low: found.map(|(_, low, _)| low.into()),
            high: found.map(|(.., high)| high.into()),
        }
    };
    // It is known without a measurement, also at 0.
    let missing = |at: Condition| PriceValue {
        sessions: at.sessions,
        cached_pct: Some(at.cached_pct),
        value: Some(f64::from(100 - at.cached_pct.min(100)) / 100.0),
        ..PriceValue::default()
    };
    let known =
        |value: f64| PriceValue { sessions: 1, value: Some(value), ..PriceValue::default() };
    match setting.price {
        Price::ScanBlocks => vec![known(setting.factor)],
        Price::Depth => vec![of_depth(1)],
        Price::DepthOfSessions => vec![of_depth(costs.sessions)],
        Price::MissShare => conditions(costs).into_iter().map(missing).collect(),
        price_of => {
            let of = |at: Condition, cached_pct: Option<u8>| {
                let values = values(costs, price_of, setting.unit, at);
                let found = Priced::of(&values);
                let interval = found.and_then(|priced| priced.interval);
                let high = interval.map(|(_, high)| high).or_else(|| most(values));
                PriceValue {
                    sessions: at.sessions,
                    cached_pct,
                    value: found.map(|priced| priced.value * setting.factor),
                    low: interval.map(|(low, _)| low * setting.factor),
                    high: high.map(|high| high * setting.factor),
                }
            };
            match setting.fixed_pct {
                Some(cached_pct) => vec![of(Condition { sessions: 1, cached_pct }, None)],
                None => {
                    let each = conditions(costs).into_iter();
                    each.map(|at| of(at, Some(at.cached_pct))).collect()
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Costs whose accesses take exactly these times in three rounds, each `drift` times longer
    /// than the one before.
    fn measured(parts: PlanParts, random: f64, sequential: f64, drift: f64) -> Costs {
        let row = parts.row + parts.operator;
        let times = [
            (CostAccess::Rows, None, row),
            (CostAccess::FilteredRows, None, row + f64::from(FILTERS) * parts.operator),
            (CostAccess::IndexEntries, None, row + parts.index_entry + 2.0 * parts.operator),
            (
                CostAccess::Random,
                Some(0),
                random + parts.index_entry + parts.row + 3.0 * parts.operator,
            ),
            (CostAccess::Sequential, Some(0), sequential + row),
        ];
        let units = 1_000_000;
        let cells = times.map(|(access, cached_pct, ns)| {
            let sample = |round: u32| CostSample {
                round,
                units,
                elapsed_ns: (ns * units as f64 * drift.powi(round as i32)).round() as u64,
                ..CostSample::default()
            };
            let samples = (1..=3).map(sample).collect();
            CostCell { access, sessions: 1, cached_pct, samples, ..CostCell::default() }
        });
        Costs { cells: cells.into(), sessions: 1, ..Costs::default() }
    }

    const COLD: Condition = Condition { sessions: 1, cached_pct: 0 };

    proptest! {
        #[test]
        fn prices_are_found_again_whatever_the_machine_drifts(
            operator in 2.0..50.0f64,
            row in 5.0..500.0f64,
            index_entry in 5.0..500.0f64,
            sequential in 500.0..100_000.0f64,
            ratio in 1.0..100.0f64,
            drift in 0.5..2.0f64,
        ) {
            let parts = PlanParts { operator, row, index_entry };
            let costs = measured(parts, sequential * ratio, sequential, drift);
            let of = |price_of| {
                price(&costs, price_of, PriceUnit::SequentialBlock, COLD).unwrap()
            };
            for (price_of, expected) in [
                (Price::SequentialBlock, 1.0),
                (Price::RandomBlock, ratio),
                (Price::Row, row / sequential),
                (Price::IndexEntry, index_entry / sequential),
                (Price::Operator, operator / sequential),
            ] {
                let found = of(price_of);
                prop_assert!((found.value / expected - 1.0).abs() < 1e-3, "{price_of:?} {found:?}");
                let (low, high) = found.interval.unwrap();
                prop_assert!(low <= found.value && found.value <= high);
                prop_assert!(high / low < 1.01, "a drift that is common to both is no spread");
            }
        }
    }

    #[test]
    fn a_scan_of_partly_cached_blocks_takes_as_long_as_its_parts() {
        let parts = PlanParts { operator: 10.0, row: 20.0, index_entry: 30.0 };
        let mut costs = measured(parts, 9000.0, 2000.0, 1.0);
        assert_eq!(time(&costs, CostAccess::Sequential, 1, Some(50)), None, "nothing cached");
        let cold = costs.cell(CostAccess::Sequential, 1, Some(0)).unwrap().clone();
        let cached = cold
            .samples
            .iter()
            .map(|sample| CostSample { elapsed_ns: sample.elapsed_ns / 10, ..*sample });
        costs.cells.push(CostCell { cached_pct: Some(100), samples: cached.collect(), ..cold });
        for (pct, ns) in [(0, 2030.0), (50, 1116.5), (90, 385.7), (100, 203.0)] {
            let found = time(&costs, CostAccess::Sequential, 1, Some(pct)).unwrap().value;
            assert!((found / ns - 1.0).abs() < 1e-3, "{pct} %: {found} ns");
        }
    }

    #[test]
    fn statements_have_three_digits_that_matter() {
        let shown: Vec<String> =
            [0.0, 1.0, 9.234, 25.01, 256.0, 1000.0, 0.012_34, 0.000_5].map(significant).into();
        assert_eq!(shown, ["0", "1", "9.23", "25", "256", "1000", "0.0123", "0.0005"]);
        let parts = PlanParts { operator: 10.0, row: 20.0, index_entry: 30.0 };
        let mut costs = measured(parts, 4000.0, 1000.0, 1.0);
        let setting = |name: &str, price, statement: Option<&str>| PricedSetting {
            name: name.to_owned(),
            price,
            factor: 1.0,
            statement: statement.map(str::to_owned),
            ..PricedSetting::default()
        };
        costs.settings = vec![
            setting("a", Price::RandomBlock, Some("SET a = {value};")),
            setting("b", Price::Row, None),
            setting("c", Price::Depth, Some("SET c = {value};")),
        ];
        costs.reload = Some("RELOAD;".to_owned());
        conclude(&mut costs);
        assert_eq!(costs.statements, ["SET a = 4;", "RELOAD;"], "no depth was measured");
        costs.settings[0].statement = Some("a = {value}".to_owned());
        costs.settings[1].statement = Some("b = {value}".to_owned());
        costs.joint_statement = Some("SET {settings};".to_owned());
        conclude(&mut costs);
        assert_eq!(costs.statements, ["SET a = 4, b = 0.02;", "RELOAD;"], "one for both");
        costs.assumed_pct = 90;
        conclude(&mut costs);
        assert_eq!(costs.statements, [""; 0], "not measured at this share");
        costs.settings = vec![setting("missing", Price::MissShare, Some("missing = {value}"))];
        for (pct, statement) in [(90, "SET missing = 0.1;"), (100, "SET missing = 0;")] {
            costs.assumed_pct = pct;
            conclude(&mut costs);
            assert_eq!(costs.statements[0], statement, "nothing missing is 0, not unknown");
        }
    }

    #[test]
    fn nothing_measured_leaves_nothing_to_paste() {
        let setting = |price| PricedSetting {
            price,
            factor: 8.0,
            statement: Some("SET {value};".to_owned()),
            ..PricedSetting::default()
        };
        let settings = vec![setting(Price::RandomBlock), setting(Price::ScanBlocks)];
        let parts = PlanParts { operator: 10.0, row: 20.0, index_entry: 30.0 };
        let all = measured(parts, 4000.0, 1000.0, 1.0);
        for (costs, statements) in [(all, 2), (Costs::default(), 0)] {
            let mut costs = Costs { settings: settings.clone(), ..costs };
            conclude(&mut costs);
            assert_eq!(costs.statements.len(), statements, "{:?}", costs.statements);
        }
    }

    #[test]
    fn a_price_that_is_not_above_zero_is_unknown_and_not_zero() {
        assert_eq!(Priced::of(&[1.0, 0.0, 2.0]), None);
        assert_eq!(Priced::of(&[]), None);
        let parts = PlanParts { operator: 10.0, row: 20.0, index_entry: -5.0 };
        let costs = measured(parts, 1000.0, 500.0, 1.0);
        assert_eq!(price(&costs, Price::IndexEntry, PriceUnit::SequentialBlock, COLD), None);
        let us = price(&costs, Price::SequentialBlock, PriceUnit::Microsecond, COLD).unwrap();
        assert!((us.value - 0.5).abs() < 1e-3, "{us:?}");
    }

    #[test]
    fn a_price_that_is_too_small_to_be_measured_is_set_to_the_most_that_it_can_be() {
        assert_eq!(most(vec![-3.0, -3.1, -2.9]), None);
        let high = most(vec![-1.0, 0.0, 2.0]).unwrap();
        assert!((4.1..4.2).contains(&high), "{high}");
        let unmeasured = PriceValue { high: Some(0.5), ..PriceValue::default() };
        assert_eq!(unmeasured.usable(), Some(0.5));
        assert_eq!(PriceValue { value: Some(0.1), ..unmeasured }.usable(), Some(0.1));
    }

    #[test]
    fn a_price_that_is_too_small_to_be_measured_stays_unless_it_is_above_the_most() {
        let parts = PlanParts { operator: 10.0, row: 20.0, index_entry: 30.0 };
        let mut costs = measured(parts, 4000.0, 1000.0, 1.0);
        let entries = costs.cells.iter_mut().find(|of| of.access == CostAccess::IndexEntries);
        // An entry of -30, -30 and 90 ns: at most 0.18 of a block.
        for (sample, ns) in entries.unwrap().samples.iter_mut().zip([20, 20, 140]) {
            sample.elapsed_ns = ns * sample.units;
        }
        for (present, statement) in
            [(None, Some("SET a = 0.")), (Some("0.005"), None), (Some("1"), Some("SET a = 0."))]
        {
            costs.settings = vec![PricedSetting {
                price: Price::IndexEntry,
                factor: 1.0,
                present: present.map(str::to_owned),
                statement: Some("SET a = {value};".to_owned()),
                ..PricedSetting::default()
            }];
            conclude(&mut costs);
            assert_eq!(costs.settings[0].values[0].value, None);
            match (statement, costs.statements.first()) {
                (Some(begin), Some(found)) => assert!(found.starts_with(begin), "{found}"),
                (expected, found) => assert_eq!(expected, found.map(String::as_str), "{present:?}"),
            }
        }
    }

    #[test]
    fn prices_of_lookups_are_differences_of_measured_times() {
        let parts = PlanParts { operator: 10.0, row: 20.0, index_entry: 30.0 };
        let mut costs = measured(parts, 9000.0, 2000.0, 1.0);
        let times =
            [(CostAccess::Lookups, None, 400.0), (CostAccess::Sequential, Some(100), 130.0)];
        for (access, cached_pct, ns) in times {
            let template = costs.cells[0].clone();
            let samples = template.samples.iter();
            let samples = samples.map(|of| CostSample { units: 1, elapsed_ns: ns as u64, ..*of });
            costs.cells.push(CostCell {
                access,
                cached_pct,
                samples: samples.collect(),
                ..template
            });
        }
        let us = |price_of| {
            price(&costs, price_of, PriceUnit::Microsecond, COLD).unwrap().value * NS_PER_US
        };
        let near =
            |found: f64, ns: f64| assert!((found / ns - 1.0).abs() < 1e-3, "{found} for {ns}");
        // An entry, a row and two operators of the range.
        near(us(Price::IndexRow), 70.0);
        near(us(Price::Lookup), 370.0);
        // 9,080 of a random row, less 2,030 of a scan's and the entry.
        near(us(Price::RowLookup), 6980.0);
        near(us(Price::BlockRead), 1900.0);
        // A unit of one read alone, and a setting for one share only.
        let setting = PricedSetting {
            price: Price::SequentialBlock,
            unit: PriceUnit::RandomRead,
            factor: 2.0,
            fixed_pct: Some(100),
            ..PricedSetting::default()
        };
        let found = setting_values(&costs, &setting);
        assert_eq!((found.len(), found[0].cached_pct), (1, None));
        near(found[0].value.unwrap(), 2.0 * 100.0 / 9000.0);
    }

    fn depths(times: &[(u32, [f64; 3])]) -> Costs {
        let cell = |(depth, times): &(u32, [f64; 3])| CostCell {
            access: CostAccess::ReadAhead(*depth),
            sessions: 1,
            cached_pct: Some(0),
            samples: (1u32..)
                .zip(times)
                .map(|(round, ns)| CostSample {
                    round,
                    units: 1000,
                    elapsed_ns: (ns * 1000.0) as u64,
                    ..CostSample::default()
                })
                .collect(),
            left_out: 0,
        };
        Costs { cells: times.iter().map(cell).collect(), ..Costs::default() }
    }

    #[test]
    fn reads_in_flight_are_the_devices_time_over_the_sessions() {
        let mut costs = depths(&[(1, [20_000.0; 3]), (16, [10_000.0; 3])]);
        costs.sessions = 1;
        assert_eq!(most_in_flight(&costs), None, "no device is seen");
        for (cell, busy_ms) in costs.cells.iter_mut().zip([20, 28]) {
            cell.samples.iter_mut().for_each(|sample| sample.device_read_ms = Some(busy_ms));
        }
        // 1,000 units of 10 us each are 10 ms.
        assert_eq!(most_in_flight(&costs), Some((16, 2.8)));
    }

    #[test]
    fn times_of_reads_need_no_rows_in_memory() {
        let parts = PlanParts { operator: 10.0, row: 20.0, index_entry: 30.0 };
        let mut costs = measured(parts, 9000.0, 2000.0, 1.0);
        costs.cells.retain(|cell| cell.cached_pct.is_some());
        for (access, ns) in [(CostAccess::Random, 1080.0), (CostAccess::Sequential, 230.0)] {
            let cell = costs.cell(access, 1, Some(0)).unwrap().clone();
            let samples = cell
                .samples
                .iter()
                .map(|of| CostSample { elapsed_ns: (ns * of.units as f64) as u64, ..*of });
            let samples = samples.collect();
            costs.cells.push(CostCell { cached_pct: Some(100), samples, ..cell });
        }
        let setting = |price, factor| PricedSetting {
            price,
            unit: PriceUnit::Microsecond,
            factor,
            fixed_pct: Some(0),
            ..PricedSetting::default()
        };
        for (price, factor, expected) in [
            (Price::RandomRead, 0.001, 8.0),
            (Price::BlockRead, 0.128, 1.8 * 128.0),
            (Price::ScanBlocks, 128.0, 128_000.0),
        ] {
            let found = setting_values(&costs, &setting(price, factor));
            let value = found[0].value.unwrap() * 1000.0;
            assert!((value / expected - 1.0).abs() < 1e-3, "{price:?}: {value}");
            assert_eq!((found.len(), found[0].cached_pct), (1, None));
        }
        assert_eq!(price(&costs, Price::RandomBlock, PriceUnit::Microsecond, COLD), None);
    }

    #[test]
    fn the_fewest_blocks_ahead_that_lose_little_are_the_answer() {
        let steady = |ns: f64| [ns, ns * 1.001, ns * 0.999];
        let curve =
            [(1, steady(400.0)), (16, steady(40.0)), (64, steady(20.4)), (256, steady(20.0))];
        assert_eq!(depth(&depths(&curve), 1), Some((64, 64, 256)));
        // Rounds that differ leave more of them possible.
        let unsteady = [(16, [30.0, 19.0, 25.0]), (64, [20.0, 22.0, 21.0])];
        assert_eq!(depth(&depths(&unsteady), 1), Some((64, 16, 64)));
        assert_eq!(depth(&Costs::default(), 1), None);
        // Storage that limits requests per second gains nothing.
        let mut limited = depths(&[(1, steady(1000.0)), (16, steady(990.0)), (256, steady(980.0))]);
        let alone = limited.cells[0].clone();
        limited.cells.push(CostCell { access: CostAccess::Random, ..alone });
        assert_eq!(depth(&limited, 1), Some((0, 0, 256)));
        limited.cells[2] = depths(&[(256, steady(700.0))]).cells.remove(0);
        assert_eq!(depth(&limited, 1), Some((0, 0, 256)), "1.43 times as fast");
        limited.cells[2] = depths(&[(256, steady(500.0))]).cells.remove(0);
        assert_eq!(depth(&limited, 1), Some((256, 256, 256)));
    }

    #[test]
    fn a_sample_that_another_layer_served_is_not_at_its_share() {
        let costs = Costs { block_bytes: 8192, ..Costs::default() };
        let cell = |pct| CostCell { cached_pct: Some(pct), ..CostCell::default() };
        let sample = |hits, read: Option<u64>| CostSample {
            visited: Some(100),
            hits: Some(hits),
            server_read_bytes: read.map(|blocks| blocks * 8192),
            ..CostSample::default()
        };
        for (pct, hits, read, expected) in [
            (0, 0, Some(100), true),
            (0, 0, Some(80), false),
            (0, 6, Some(94), false),
            (0, 0, None, true),
            (50, 52, Some(60), true),
            (50, 70, Some(30), false),
            (100, 100, Some(0), true),
            (100, 90, Some(10), false),
        ] {
            let found = is_at_its_share(&cell(pct), &sample(hits, read), &costs);
            assert_eq!(found, expected, "{pct} % with {hits} hits, {read:?} read");
        }
        let scan = CostCell { access: CostAccess::Sequential, ..cell(0) };
        assert!(is_at_its_share(&scan, &sample(0, Some(60)), &costs));
        assert!(is_at_its_share(&scan, &sample(9, Some(91)), &costs), "its read-ahead");
        assert!(!is_at_its_share(&scan, &sample(11, Some(89)), &costs));
        assert!(!is_at_its_share(&scan, &sample(0, Some(40)), &costs));
        assert!(is_at_its_share(&CostCell::default(), &sample(0, None), &costs));
    }
}
