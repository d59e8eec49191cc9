//! The waterfall of an operation: its time divided in parts.

use super::super::numbers::{decimal, micros, or_dash, percent, whole};
use crate::table::{Table, columns, line, paragraph};
use petal_record::Run;
use petal_record::waterfall::{PartOfTime, Waterfall, WaterfallPart};

/// Meaning of the columns.
pub(crate) const NOTE: &str = "Means are sums over the operations, and add up. A p99 is of single \
                               events: stretches of a thread in that state, requests of the device. \
                               The percentiles do not add up.";

/// Meaning of the columns for parts that do not add up.
const NOT_DIVIDED: &str = "The parts do not add up to the operation and have no share of it: the \
                           database's waits show where its time went.";

pub(crate) fn table(waterfall: &Waterfall) -> Table {
    let heading = "part of an operation | us | % | events | p99 us of an event | \
                   layer, or why unknown";
    let us = |value: Option<f64>| or_dash(value, micros);
    let all_us = waterfall.operation_us.filter(|_| waterfall.adds_up());
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
    table.with_note(match waterfall.adds_up() {
        true => NOTE,
        false => NOT_DIVIDED,
    })
}

/// The one division of the time of a run's operations, if the kernel made it.
pub(crate) fn dividing(run: &Run) -> Option<&Waterfall> {
    run.summary.waterfall.as_ref().filter(|it| it.adds_up())
}

/// Parts that a line of the largest ones names.
const LARGEST: usize = 4;

/// Smaller parts are not named.
const SHARE_MIN: f64 = 0.02;

/// The largest parts and the rest with the gap, as shares: together 1.
fn in_short(waterfall: &Waterfall) -> Vec<(&'static str, f64)> {
    let known = waterfall.parts.iter();
    let known = known.filter_map(|part| Some((part.part.name(), waterfall.share(part.part)?)));
    let mut parts: Vec<(&str, f64)> = known.filter(|(_, share)| *share >= SHARE_MIN).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts.truncate(LARGEST);
    let rest = 1.0 - parts.iter().map(|(_, share)| share).sum::<f64>();
    parts.push(("rest", rest));
    parts
}

fn with_percent((name, share): (&str, f64)) -> String {
    format!("{name} {} %", decimal(share * 100.0, 0))
}

/// The largest parts in one line: `device 61 %, processor 22 %, rest 17 %`.
pub(crate) fn largest(waterfall: &Waterfall) -> String {
    let parts: Vec<String> = in_short(waterfall).into_iter().map(with_percent).collect();
    parts.join(", ")
}

/// The time of an operation as one bar of letters, after the meaning of these.
pub(crate) fn bar_text(waterfall: &Waterfall) -> String {
    const LETTERS: [char; LARGEST] = ['#', '=', '+', '-'];
    let room = columns().saturating_sub(4) as f64;
    let parts = in_short(waterfall);
    let named = parts.len() - 1;
    let letter = |at: usize| if at < named { LETTERS[at] } else { '.' };
    let (mut bar, mut words) = (String::new(), Vec::new());
    let mut sum = 0.0;
    for (at, part) in parts.into_iter().enumerate() {
        sum += part.1.max(0.0);
        let end = (sum.min(1.0) * room).round() as usize;
        bar.extend(std::iter::repeat_n(letter(at), end.saturating_sub(bar.len())));
        words.push(format!("{} {}", letter(at), with_percent(part)));
    }
    let (us, words) = (or_dash(waterfall.operation_us, micros), words.join(", "));
    paragraph("", "  ", &format!("time of an operation {us} us: {words}"))
        + &line(&format!("  [{bar}]"))
}

/// The names of all parts.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PartOfTime::ALL.into_iter().map(PartOfTime::name)
}
