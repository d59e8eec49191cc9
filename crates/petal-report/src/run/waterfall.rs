//! The waterfall of an operation: its time divided in parts.

use super::super::numbers::{decimal, micros, or_dash, percent, whole};
use crate::table::Table;
use petal_model::record::waterfall::{PartOfTime, Waterfall, WaterfallPart};

/// Meaning of the columns.
pub(crate) const NOTE: &str = "Means are sums over the operations, and add up. A p99 is of single \
                               events: stretches of a thread in that state, requests of the device. \
                               The percentiles do not add up.";

pub(crate) fn table(waterfall: &Waterfall) -> Table {
    let heading = "part of an operation | us | % | events | p99 us of an event | \
                   layer, or why unknown";
    let us = |value: Option<f64>| or_dash(value, micros);
    let all_us = waterfall.operation_us.filter(|&us| us > 0.0);
    let share = |us: Option<f64>| or_dash(us.zip(all_us).map(|(us, all)| us / all), percent);
    let row = |part: &WaterfallPart| {
        let (name, layer) = (part.part.name().to_owned(), part.layer.clone());
        let (events, p99) = (or_dash(part.events, whole), us(part.p99_us));
        [name, us(part.us), share(part.us), events, p99, layer]
    };
    let total = |name: &str, value: Option<f64>, layer: &str| {
        let none = || "-".to_owned();
        [name.to_owned(), us(value), share(value), none(), none(), layer.to_owned()]
    };
    let gap = total("gap", waterfall.gap_us, "operation less the parts");
    let clock = "the clock of the operations' latencies";
    let operation = [
        "operation".to_owned(),
        us(waterfall.operation_us),
        share(waterfall.operation_us),
        whole(waterfall.operations),
        "-".to_owned(),
        clock.to_owned(),
    ];
    let mut table = Table::headed(heading).with_rows(waterfall.parts.iter().map(row));
    table.row(gap);
    table.row(operation);
    table.with_note(NOTE)
}

/// Parts that a line of the largest ones names.
const LARGEST: usize = 4;

/// Smaller parts are not named.
const SHARE_MIN: f64 = 0.005;

/// The largest parts in one line: `device 61 %; processor 22 %; other parts 17 %`.
pub(crate) fn largest(waterfall: &Waterfall) -> String {
    let known = waterfall.parts.iter();
    let known = known.filter_map(|part| Some((part.part.name(), waterfall.share(part.part)?)));
    let mut parts: Vec<(&str, f64)> = known.filter(|(_, share)| *share >= SHARE_MIN).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let of = |(name, share): &(&str, f64)| format!("{name} {} %", decimal(share * 100.0, 0));
    let mut shown: Vec<String> = parts.iter().take(LARGEST).map(of).collect();
    let others: f64 = parts.iter().skip(LARGEST).map(|(_, share)| share).sum();
    if others >= SHARE_MIN {
        shown.push(of(&("other parts", others)));
    }
    shown.join("; ")
}

/// The names of all parts.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PartOfTime::ALL.into_iter().map(PartOfTime::name)
}
