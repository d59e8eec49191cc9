//! Two records of an optimizer's prices, such as before and after data moved to another storage: which
//! times and prices differ by more than their intervals.

use serde::Serialize;

use crate::prices::{Condition, Priced, conditions, time};
use crate::record::{Costs, PricedSetting};
use petal_engine::costs::{CostAccess, PriceUnit};
use petal_host::numbers::{counted, whole};
use petal_record::Status;

/// A time or price under one condition, in both records.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PriceChange {
    /// Name of an access or of a setting.
    pub name: String,
    /// Microseconds of times; of a price its setting's unit.
    pub unit: PriceUnit,
    pub is_setting: bool,
    pub sessions: u32,
    /// Share of cached blocks, percent; null if it does not depend on it.
    pub cached_pct: Option<u8>,
    pub before: Option<PriceRange>,
    pub after: Option<PriceRange>,
    /// Change of the value, percent; null if one of them is unknown.
    pub change_pct: Option<f64>,
    /// True if the 95 % intervals do not meet; null without both.
    pub differs: Option<bool>,
}

/// A value with its 95 % interval; null under three rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PriceRange {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// Both records' prices, and reasons why they may differ for another cause than the storage.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CostsComparison {
    pub changes: Vec<PriceChange>,
    pub warnings: Vec<String>,
}

impl PriceRange {
    fn of_time(time: Option<Priced>) -> Option<Self> {
        const NS_PER_US: f64 = 1000.0;
        time.map(|time| Self {
            value: time.value / NS_PER_US,
            low: time.interval.map(|(low, _)| low / NS_PER_US),
            high: time.interval.map(|(_, high)| high / NS_PER_US),
        })
    }
}

impl PriceChange {
    /// Sets both values against each other.
    fn judged(self) -> Self {
        let both = self.before.zip(self.after);
        let change = |(before, after): (PriceRange, PriceRange)| {
            (before.value != 0.0).then(|| (after.value / before.value - 1.0) * 100.0)
        };
        let apart = |(before, after): (PriceRange, PriceRange)| {
            let [low, high] = [before.low.zip(after.high)?, before.high.zip(after.low)?];
            Some(low.0 > low.1 || high.0 < high.1)
        };
        Self { change_pct: both.and_then(change), differs: both.and_then(apart), ..self }
    }
}

pub fn compare(before: &Costs, after: &Costs) -> CostsComparison {
    let mut changes = Vec::new();
    for access in [CostAccess::Random, CostAccess::Sequential] {
        changes.extend(conditions(before).into_iter().map(|at| {
            let Condition { sessions, cached_pct } = at;
            let of = |costs| PriceRange::of_time(time(costs, access, sessions, Some(cached_pct)));
            PriceChange {
                name: access.name(),
                unit: PriceUnit::Microsecond,
                sessions,
                cached_pct: Some(cached_pct),
                before: of(before),
                after: of(after),
                ..PriceChange::default()
            }
        }));
    }
    for access in
        [CostAccess::Rows, CostAccess::FilteredRows, CostAccess::IndexEntries, CostAccess::Lookups]
    {
        let of = |costs| PriceRange::of_time(time(costs, access, 1, None));
        changes.push(PriceChange {
            name: access.name(),
            unit: PriceUnit::Microsecond,
            sessions: 1,
            before: of(before),
            after: of(after),
            ..PriceChange::default()
        });
    }
    let added = after.settings.iter().filter(|added| before.setting(&added.name).is_none());
    for setting in before.settings.iter().chain(added) {
        changes.extend(of_setting(setting, before, after));
    }
    let is_known = |change: &PriceChange| change.before.is_some() || change.after.is_some();
    CostsComparison {
        changes: changes.into_iter().map(PriceChange::judged).filter(is_known).collect(),
        warnings: warnings(before, after),
    }
}

/// The values of a setting under every condition.
fn of_setting(setting: &PricedSetting, before: &Costs, after: &Costs) -> Vec<PriceChange> {
    let values = setting.values.iter().map(|value| {
        let of = |costs: &Costs| {
            let found = costs.setting(&setting.name)?.values.iter().find(|other| {
                (other.sessions, other.cached_pct) == (value.sessions, value.cached_pct)
            })?;
            Some(PriceRange { value: found.value?, low: found.low, high: found.high })
        };
        PriceChange {
            name: setting.name.clone(),
            unit: setting.unit,
            is_setting: true,
            sessions: value.sessions,
            cached_pct: value.cached_pct,
            before: of(before),
            after: of(after),
            ..PriceChange::default()
        }
    });
    values.collect()
}

fn warnings(before: &Costs, after: &Costs) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut differ = |what: &str, one: String, two: String, meaning: &str| {
        if one != two {
            warnings.push(format!("{what}: {one} before, {two} after: {meaning}"));
        }
    };
    let product = |costs: &Costs| format!("{} {}", costs.product, costs.version);
    let prices = "its processor's prices may differ, too";
    differ("server", product(before), product(after), prices);
    differ("host", before.host.clone(), after.host.clone(), prices);
    let bytes = |costs: &Costs| format!("{} bytes", whole(costs.block_bytes));
    differ("blocks", bytes(before), bytes(after), "times of a block are not comparable");
    let sessions = |costs: &Costs| costs.sessions.to_string();
    differ(
        "sessions",
        sessions(before),
        sessions(after),
        "compare the columns of one session only",
    );
    let page_cache = |costs: &Costs| {
        if costs.page_cache_kept.is_some() { "used" } else { "not used" }.to_owned()
    };
    differ(
        "page cache",
        page_cache(before),
        page_cache(after),
        "blocks that are not cached may come from it in one of them",
    );
    for (when, costs) in [("before", before), ("after", after)] {
        if costs.status != Status::Complete {
            let rounds = counted(costs.rounds, "round");
            warnings.push(format!("{when} ended early ({}, {rounds})", costs.status.name()));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{CostCell, CostSample, PriceValue};
    use petal_engine::costs::Price;

    /// Random blocks that took so many microseconds in each round, and a setting.
    fn costs(us: [u64; 3], setting: PriceValue) -> Costs {
        let sample = |(round, us): (u32, u64)| CostSample {
            round,
            units: 1000,
            elapsed_ns: us * 1_000_000,
            ..CostSample::default()
        };
        let random = CostCell {
            access: CostAccess::Random,
            sessions: 1,
            cached_pct: Some(0),
            samples: (1..).zip(us).map(sample).collect(),
            ..CostCell::default()
        };
        let setting = PricedSetting {
            name: "random_page_cost".to_owned(),
            price: Price::RandomBlock,
            values: vec![PriceValue { sessions: 1, cached_pct: Some(0), ..setting }],
            ..PricedSetting::default()
        };
        Costs {
            status: Status::Complete,
            sessions: 1,
            cells: vec![random],
            settings: vec![setting],
            ..Costs::default()
        }
    }

    fn value(value: f64, low: f64, high: f64) -> PriceValue {
        PriceValue { value: Some(value), low: Some(low), high: Some(high), ..PriceValue::default() }
    }

    #[test]
    fn a_price_differs_only_if_the_intervals_do_not_meet() {
        let before = costs([200, 201, 202], value(8.0, 7.0, 9.0));
        let after = costs([100, 101, 102], value(9.5, 8.5, 10.5));
        let found = compare(&before, &after);
        let shown: Vec<(&str, Option<bool>, Option<i64>)> = found
            .changes
            .iter()
            .map(|change| {
                (
                    change.name.as_str(),
                    change.differs,
                    change.change_pct.map(|pct| pct.round() as i64),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("random blocks, one at a time", Some(true), Some(-50)),
                ("random_page_cost", Some(false), Some(19)),
            ]
        );
        assert_eq!(found.warnings, [""; 0]);
        // Either side may be the larger one.
        assert_eq!(compare(&after, &before).changes[0].differs, Some(true));
    }

    #[test]
    fn an_unknown_value_is_no_change_and_no_equality() {
        let before = costs([200, 201, 202], value(8.0, 7.0, 9.0));
        let after = Costs {
            settings: Vec::new(),
            version: "16".to_owned(),
            status: Status::Interrupted,
            page_cache_kept: Some("not this host".to_owned()),
            ..costs([200, 201, 202], PriceValue::default())
        };
        let found = compare(&before, &after);
        let setting = &found.changes[1];
        assert_eq!((setting.change_pct, setting.differs, setting.after), (None, None, None));
        assert_eq!(found.changes[0].differs, Some(false), "the same times");
        let about: Vec<Option<&str>> =
            found.warnings.iter().map(|warning| warning.split(' ').next()).collect();
        assert_eq!(about, [Some("server:"), Some("page"), Some("after")]);
        // A setting of the later record alone is there, too.
        let setting = &compare(&after, &before).changes[1];
        assert!(setting.before.is_none() && setting.after.is_some(), "{setting:?}");
    }
}
