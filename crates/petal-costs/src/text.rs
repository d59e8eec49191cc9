//! An optimizer's prices as text: one screen with the times, the settings that follow, and the
//! statements to paste.

use crate::prices::{Priced, conditions, significant, time};
use crate::record::{CACHED_PCTS, CostCell, CostSample, Costs, PriceValue, PricedSetting};
use petal_engine::costs::{CostAccess, FILTERS, Price, PriceUnit};
use petal_report::numbers::{bytes, counted, decimal, micros, or_dash, percent, whole};
use petal_report::table::{SCREEN_LINES, Table, WIDTH, columns, fitting_paragraphs, paragraph};

/// Lines of a screen.
const LINES_MAX: usize = SCREEN_LINES + 1;
/// Notes on the screen.
const NOTES_MAX: usize = 3;

pub fn render(costs: &Costs) -> String {
    let head = format!(
        "petal {} costs: {} {}, {}",
        costs.petal_version, costs.product, costs.version, costs.url
    );
    let mut out = paragraph("", "  ", &answer(costs)) + &paragraph("", "  ", &head);
    for (name, value) in facts(costs) {
        out.push_str(&paragraph(&format!("{name:<8}"), &" ".repeat(8), &value));
    }
    out.push('\n');
    let (times, has_all_times) = times(costs).render_fitting();
    out.push_str(&times);
    out.push_str(&paragraph("", "", &in_memory(costs)));
    let is_narrow = columns() < WIDTH;
    let ahead = read_ahead(costs);
    if let (Some(table), false) = (&ahead, is_narrow) {
        out.push_str(&table.render());
    }
    let mut has_all = has_all_times;
    if !costs.settings.is_empty() {
        out.push('\n');
        let (settings, has_all_settings) = settings_fitting(costs);
        out.push_str(&settings);
        has_all &= has_all_settings;
    }
    if !costs.statements.is_empty() {
        let to_paste = format!(
            "To paste, for {} % of the blocks cached (--cached); petal changes no setting:",
            costs.assumed_pct
        );
        out.push_str(&paragraph("", "", &to_paste));
        costs.statements.iter().for_each(|statement| out.push_str(&paragraph("", "", statement)));
    }
    let not_shown = match (has_all, ahead.is_some() && is_narrow) {
        (true, false) => "",
        (false, false) => "More conditions: in report.txt",
        (true, true) => "Times of blocks asked for ahead: in report.txt",
        (false, true) => "More conditions, and times of blocks asked for ahead: in report.txt",
    };
    if !not_shown.is_empty() {
        out.push_str(&paragraph("", "", not_shown));
    }
    out.push('\n');
    // Without prices the answer is the first note.
    let said = usize::from(of_random(costs).is_none() && ratio(costs).is_some());
    let notes = notes(costs).into_iter().skip(said);
    let notes = notes.map(|note| paragraph("- ", "  ", &note)).collect::<Vec<_>>();
    let room = LINES_MAX.saturating_sub(out.lines().count());
    out + &fitting_paragraphs(&notes, NOTES_MAX, room, "note", "in costs.json")
}

/// The price of a random block with its interval, or its time as a multiple of a sequential one.
fn answer(costs: &Costs) -> String {
    let priced = of_random(costs).and_then(|setting| {
        let value = setting.at(costs.assumed_pct)?;
        Some((setting, sure(setting, value)))
    });
    match priced {
        Some((setting, value)) => {
            let now =
                setting.present.as_ref().map_or_else(String::new, |now| format!("; now {now}"));
            let cached = costs.assumed_pct;
            format!("{}: {value} with {cached} % of the blocks cached{now}", setting.name)
        }
        None => format!(
            "a random block takes {} times as long as a sequential one, with none cached",
            or_dash(ratio(costs), significant)
        ),
    }
}

pub fn facts(costs: &Costs) -> Vec<(String, String)> {
    let table_bytes = costs.blocks.saturating_mul(costs.block_bytes);
    let status = format!(
        "{}, {} in {} s, on two tables of {} with a cache of {}",
        costs.status.name(),
        counted(costs.rounds, "round"),
        decimal(costs.elapsed_s, 0),
        bytes(table_bytes),
        bytes(costs.cache_bytes)
    );
    [("status", status), ("served", served(costs))]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

fn sum(samples: &[CostSample], of: impl Fn(&CostSample) -> Option<u64>) -> Option<u64> {
    samples.iter().try_fold(0u64, |sum, sample| Some(sum.saturating_add(of(sample)?)))
}

/// Proof of the layers: the cached share of the cells, and the device's own figures.
fn served(costs: &Costs) -> String {
    let of = |pct| costs.cell(CostAccess::Random, 1, Some(pct));
    let hits = CACHED_PCTS.map(|pct| or_dash(of(pct).and_then(hit_share), percent));
    let meant = CACHED_PCTS.map(|pct| pct.to_string());
    let proved = format!("by the cache {} % (meant: {})", hits.join(", "), meant.join(", "));
    let missed = of(0).and_then(|cell| {
        let read = sum(&cell.samples, |sample| sample.server_read_bytes)?;
        let missed =
            sum(&cell.samples, |sample| Some(sample.visited?.saturating_sub(sample.hits?)))?;
        (missed > 0).then(|| read as f64 / (missed as f64 * costs.block_bytes as f64))
    });
    let of_devices = match (missed, &costs.page_cache_kept) {
        (Some(share), _) => format!("at 0 % devices read {} % of the bytes", percent(share)),
        (None, Some(why)) => format!(
            "which other layer served the rest is unknown, and petal did not drop the page cache \
             ({why})"
        ),
        (None, None) => "which other layer served the rest is unknown".to_owned(),
    };
    let device = [("random", CostAccess::Random), ("sequential", CostAccess::Sequential)]
        .map(|(what, access)| Some((what, request(costs.cell(access, 1, Some(0))?)?)));
    let device = match device {
        [Some((random, one)), Some((sequential, many))] => {
            format!("; {}: {random} requests {one}, {sequential} {many}", costs.devices.join(", "))
        }
        _ => String::new(),
    };
    format!("{proved}; {of_devices}{device}")
}

fn hit_share(cell: &CostCell) -> Option<f64> {
    let visited = sum(&cell.samples, |sample| sample.visited).filter(|visited| *visited > 0)?;
    Some(sum(&cell.samples, |sample| sample.hits)? as f64 / visited as f64)
}

/// Mean size and time of the device's requests.
fn request(cell: &CostCell) -> Option<String> {
    let requests = sum(&cell.samples, |sample| sample.device_reads).filter(|reads| *reads > 0)?;
    let read = sum(&cell.samples, |sample| sample.device_read_bytes)?;
    let ms = sum(&cell.samples, |sample| sample.device_read_ms)?;
    let us = ms as f64 * 1000.0 / requests as f64;
    Some(format!("{} in {} us", bytes(read / requests), micros(us)))
}

/// Microseconds with their interval, such as `387 ±2 %`.
fn microseconds(time: Option<Priced>) -> String {
    or_dash(time, |time| spread(time.value / 1000.0, time.interval))
}

/// A value with half of its interval's width.
pub fn spread(value: f64, interval: Option<(f64, f64)>) -> String {
    let half = |(low, high): (f64, f64)| decimal(((high / low).sqrt() - 1.0) * 100.0, 0);
    let half = interval.map_or_else(String::new, |ends| format!(" ±{} %", half(ends)));
    format!("{}{half}", significant(value))
}

/// Processor microseconds of a block, over all rounds.
fn processor(cell: Option<&CostCell>) -> String {
    or_dash(
        cell.and_then(|cell| {
            let us = sum(&cell.samples, |sample| sample.server_cpu_us)?;
            let units =
                sum(&cell.samples, |sample| Some(sample.units)).filter(|units| *units > 0)?;
            Some(us as f64 / units as f64)
        }),
        significant,
    )
}

/// Times of a block with its row, by the share of cached blocks.
pub fn times(costs: &Costs) -> Table {
    let columns = conditions(costs).into_iter().map(|at| match at.sessions {
        1 => format!("{} % cached", at.cached_pct),
        several => format!("0 %, {}", counted(several, "session")),
    });
    let first = ["us a block".to_owned()];
    let names: Vec<String> =
        first.into_iter().chain(columns).chain(["processor, 0 %".to_owned()]).collect();
    let mut table = Table::of_columns(names);
    for access in [CostAccess::Random, CostAccess::Sequential] {
        let each = conditions(costs)
            .into_iter()
            .map(|at| microseconds(time(costs, access, at.sessions, Some(at.cached_pct))));
        let name = if access == CostAccess::Random { "random" } else { "sequential" };
        let row: Vec<String> = [name.to_owned()]
            .into_iter()
            .chain(each)
            .chain([processor(costs.cell(access, 1, Some(0)))])
            .collect();
        table.row(row);
    }
    table
}

/// Times of accesses in memory, in a sentence.
pub fn in_memory(costs: &Costs) -> String {
    let of =
        |access| or_dash(time(costs, access, 1, None), |time| significant(time.value / 1000.0));
    let computed = "Sequential at 50 and 90 %: computed";
    if costs.cell(CostAccess::Rows, 1, None).is_none() {
        return computed.to_owned();
    }
    format!(
        "In memory, us: a row {}, with {FILTERS} conditions {}, an index entry {}, a lookup {}. \
         {computed}",
        of(CostAccess::Rows),
        of(CostAccess::FilteredRows),
        of(CostAccess::IndexEntries),
        of(CostAccess::Lookups)
    )
}

/// Times of a random block that was asked for ahead, by the number of such blocks.
pub fn read_ahead(costs: &Costs) -> Option<Table> {
    let depths = costs.depths();
    if depths.is_empty() {
        return None;
    }
    let names = depths.iter().map(|depth| whole((*depth).into()));
    let first = ["us a random block, asked for ahead:".to_owned()];
    let mut table = Table::of_columns(first.into_iter().chain(names));
    for sessions in [1, costs.sessions] {
        let times = depths.iter().map(|depth| {
            let access = CostAccess::ReadAhead(*depth);
            or_dash(time(costs, access, sessions, Some(0)), |time| significant(time.value / 1000.0))
        });
        table.row([counted(sessions, "session")].into_iter().chain(times));
        if costs.sessions == 1 {
            break;
        }
    }
    Some(table)
}

/// Values of the settings by condition, with the interval of the assumed share.
pub fn settings(costs: &Costs) -> Table {
    let conditions = conditions(costs);
    let columns = conditions.iter().map(|at| match at.sessions {
        1 => format!("{} %", at.cached_pct),
        several => format!("0 %, {several}"),
    });
    let assumed = format!("at {} %, 95 % sure", costs.assumed_pct);
    let names: Vec<String> =
        ["setting".to_owned(), "now".to_owned(), assumed].into_iter().chain(columns).collect();
    let mut table = Table::of_columns(names);
    for setting in &costs.settings {
        let chosen = or_dash(setting.at(costs.assumed_pct), |value| sure(setting, value));
        let each = conditions.iter().map(|at| {
            let found = setting.values.iter().find(|value| {
                value.sessions == at.sessions && value.cached_pct == Some(at.cached_pct)
            });
            found.map_or_else(String::new, |value| match (value.value, value.high) {
                (None, Some(high)) => format!("<{}", significant(high)),
                (value, _) => or_dash(value, significant),
            })
        });
        let first = [setting.name.clone(), or_dash(setting.present.clone(), |now| now), chosen];
        let row: Vec<String> = first.into_iter().chain(each).collect();
        table.row(row);
    }
    table
}

/// Renders the settings without the conditions that a terminal has no room for, and says whether no
/// figure is left out. The assumed share's column is the first to go: its values are in the one with
/// the intervals.
fn settings_fitting(costs: &Costs) -> (String, bool) {
    let table = settings(costs);
    let names: Vec<&str> = table.columns().map(|(name, _)| name).collect();
    let assumed = format!("{} %", costs.assumed_pct);
    let (twice, others): (Vec<&str>, Vec<&str>) =
        names.iter().skip(3).partition(|name| **name == assumed);
    let optional = [twice.clone(), others.into_iter().rev().collect(), vec!["now"]].concat();
    let (text, left_out) = table.render_without(&optional);
    (text, left_out.iter().all(|name| twice.contains(name)))
}

/// A value with its interval.
fn sure(setting: &PricedSetting, value: &PriceValue) -> String {
    let show = |value: f64| match setting.unit {
        PriceUnit::Blocks => whole(value as u64),
        _ => significant(value),
    };
    match (value.value, value.low.zip(value.high)) {
        (Some(value), Some((low, high))) if show(low) == show(high) => show(value),
        (Some(value), Some((low, high))) => {
            format!("{} ({} to {})", show(value), show(low), show(high))
        }
        (None, None) if value.high.is_some() => format!("under {}", or_dash(value.high, show)),
        (value, _) => or_dash(value, show),
    }
}

/// Notes on the figures' meaning, then the record's.
pub fn notes(costs: &Costs) -> Vec<String> {
    let mut notes = Vec::new();
    let random = of_random(costs);
    let known = |pct| random.and_then(|setting| setting.at(pct)).and_then(PriceValue::usable);
    if let (Some(setting), Some(cold), Some(cached)) = (random, known(0), known(100)) {
        let cached_now = or_dash(costs.database_hit_share, percent);
        notes.push(format!(
            "one figure cannot be right for all: {} is {} if no block is cached, {} if all are; until \
             now this database found {cached_now} % cached",
            setting.name,
            significant(cold),
            significant(cached)
        ));
    }
    if let (None, Some(ratio)) = (random, ratio(costs)) {
        notes.push(format!(
            "a random block takes {} times as long as a sequential one at 0 % cached",
            significant(ratio)
        ));
    }
    notes.extend(costs.notes.clone());
    notes
}

/// The setting that prices a block read alone, by the share of cached blocks.
pub fn of_random(costs: &Costs) -> Option<&PricedSetting> {
    let is_it = |setting: &&PricedSetting| {
        matches!(setting.price, Price::RandomBlock | Price::RowLookup)
            && setting.fixed_pct.is_none()
    };
    costs.settings.iter().find(is_it)
}

/// Time of a random block over that of a sequential one, from devices.
pub fn ratio(costs: &Costs) -> Option<f64> {
    let of = |access| time(costs, access, 1, Some(0));
    Some(of(CostAccess::Random)?.value / of(CostAccess::Sequential)?.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compare, compare_text};
    use petal_report::widths;

    #[test]
    fn no_line_of_it_is_longer_than_the_terminal() {
        let text = include_str!("../../../tests/data/costs/costs.json");
        let costs: Costs = serde_json::from_str(text).unwrap();
        widths::look("costs", || render(&costs));
        let change = compare::compare(&costs, &costs);
        widths::look("two costs", || compare_text::render(["A", "B"], &costs, &costs, &change));
    }

    #[test]
    fn the_first_line_is_the_price_of_a_random_block() {
        let text = include_str!("../../../tests/data/costs/costs.json");
        let mut costs: Costs = serde_json::from_str(text).unwrap();
        let first = |costs: &Costs| render(costs).lines().next().unwrap().to_owned();
        let priced = "random_page_cost: 3.34 (1.53 to 7.29) with 90 % of the blocks cached; now 4";
        assert_eq!(first(&costs), priced);
        assert!(render(&costs).contains("served  by the cache 0"), "{}", render(&costs));
        costs.settings.clear();
        let unpriced = first(&costs);
        assert!(
            unpriced.starts_with("a random block takes ") && unpriced.ends_with(" none cached")
        );
    }
}
