//! The page of an optimizer's prices: their change with the share of cached blocks, the settings that
//! follow, and the times behind them.

use crate::prices::{Priced, significant, time};
use crate::record::{CACHED_PCTS, Costs, PriceValue, PricedSetting};
use crate::text::{facts, in_memory, notes, of_random, ratio, read_ahead, settings, times};
use petal_engine::costs::{CostAccess, PriceUnit};
use petal_report::charts::Chart;
use petal_report::html::HtmlError;
use petal_report::html::page::{Page, Section, Tile, class, moment};
use petal_report::html::traces::{ChartSubject, Trace, TraceChart, TraceRow, parts};
use petal_report::numbers::{counted, decimal, or_dash, percent};
use petal_report::table::Table;

const HEADING: &str = " | % cached | value | low | high";
const DESCRIPTION: &str = "A line for each time or price over the share of cached blocks.";
const TIMES_NOTE: &str = "By petal's clock, through the database, one session. Sequential at 50 and \
     90 %: computed.";
const PRICES_NOTE: &str = "One figure cannot be right for all: choose the share that your queries find \
     cached. Dashed: the ends of the 95 % interval.";

pub fn page(costs: &Costs) -> Result<String, HtmlError> {
    let mut set = Section::new("settings", "What to set", "the optimizer's own unit");
    if !costs.settings.is_empty() {
        let caption = format!("Values, {} % cached and others", costs.assumed_pct);
        set = set.table(caption, settings(costs));
    }
    if !costs.statements.is_empty() {
        set = set.table(
            format!(
                "To paste, for {} % of the blocks cached; petal changes no setting",
                costs.assumed_pct
            ),
            statements(costs),
        );
    }
    let layer = "petal's clock, through the database";
    let measured =
        Section::new("times", "Times", layer).table("Microseconds of a block", times(costs));
    let measured = match read_ahead(costs) {
        Some(table) => measured.table("Blocks asked for ahead", table),
        None => measured,
    };
    let mut about = facts(costs);
    about.push(("devices".to_owned(), costs.devices.join(", ")));
    let sections = vec![
        Section::new("shares", "By the share of cached blocks", layer).charts(charts(costs)),
        set.notes(notes(costs)),
        measured.notes([in_memory(costs)]),
        Section::new("tested", "Data, proof and devices", "").facts(about),
    ];
    let product = format!("{} {}", costs.product, costs.version);
    let page = Page {
        title: format!("petal costs: {product}"),
        heading: format!("{product}: the optimizer's prices"),
        facts: vec![
            moment(&costs.started_at),
            costs.url.clone(),
            costs.host.clone(),
            counted(costs.rounds, "round"),
            format!("{} s", decimal(costs.elapsed_s, 0)),
        ],
        status: vec![(class(costs.status), costs.status.name().to_owned())],
        tiles: tiles(costs),
        sections,
        version: costs.petal_version.clone(),
        ..Page::default()
    };
    page.render()
}

fn statements(costs: &Costs) -> Table {
    let rows = costs.statements.iter().map(|statement| vec![statement.clone()]);
    Table::headed("statement").with_rows(rows)
}

fn tiles(costs: &Costs) -> Vec<Tile> {
    let us =
        |access| or_dash(time(costs, access, 1, Some(0)), |time| significant(time.value / 1000.0));
    let mut tiles = vec![
        Tile::figure("A random block", us(CostAccess::Random), "us", "0 % cached".to_owned()),
        Tile::figure(
            "A sequential block",
            us(CostAccess::Sequential),
            "us",
            "0 % cached".to_owned(),
        ),
        Tile::figure("Ratio", or_dash(ratio(costs), significant), "", "of both times".to_owned()),
        Tile::figure(
            "Cached until now",
            or_dash(costs.database_hit_share, percent),
            "%",
            "of this database's block visits".to_owned(),
        ),
    ];
    if let Some(setting) = of_random(costs) {
        let at = setting.at(costs.assumed_pct);
        let value = or_dash(at.and_then(PriceValue::usable), significant);
        let of = format!("{}, {} % cached", setting.name, costs.assumed_pct);
        tiles.insert(0, Tile::figure("To set", value, unit(setting), of));
    }
    tiles
}

fn unit(setting: &PricedSetting) -> &'static str {
    match setting.unit {
        PriceUnit::Microsecond => "us",
        PriceUnit::SequentialBlock => "sequential blocks",
        PriceUnit::RandomRead => "random reads",
        PriceUnit::Blocks => "blocks",
        PriceUnit::Share => "",
    }
}

fn charts(costs: &Costs) -> Vec<Chart> {
    let mut rows = Vec::new();
    let times =
        [("random block", CostAccess::Random), ("sequential block", CostAccess::Sequential)];
    let us = times.into_iter().enumerate().map(|(number, (name, access))| {
        let values = CACHED_PCTS.map(|pct| (pct, of_time(time(costs, access, 1, Some(pct)))));
        let [middle, ..] = curves(number, name, values, &mut rows);
        middle
    });
    let us: Vec<Trace> = us.collect();
    let setting = of_random(costs);
    let prices: Vec<Trace> = setting
        .into_iter()
        .flat_map(|setting| {
            let values = CACHED_PCTS.map(|pct| (pct, setting.at(pct).copied().unwrap_or_default()));
            curves(0, &setting.name, values, &mut rows)
        })
        .collect();
    let x_title = "share of cached blocks, %";
    let subject = ChartSubject {
        description: DESCRIPTION,
        x_title,
        is_x_linear: true,
        heading: HEADING,
        rows: &rows,
    };
    let chart = |id, title, y_title, note, traces| TraceChart { id, title, y_title, note, traces };
    let title = "The price of a random block";
    let y_title = setting.map_or("", unit);
    parts(
        &subject,
        [
            chart("shares-price", title, y_title, PRICES_NOTE, prices),
            chart("shares-us", "Times of a block", "us for a block", TIMES_NOTE, us),
        ],
    )
}

/// A time in microseconds, in the form of a price.
fn of_time(time: Option<Priced>) -> PriceValue {
    let interval = time.and_then(|time| time.interval);
    PriceValue {
        value: time.map(|time| time.value / 1000.0),
        low: interval.map(|(low, _)| low / 1000.0),
        high: interval.map(|(_, high)| high / 1000.0),
        ..PriceValue::default()
    }
}

/// The values with the ends of their intervals, each a row of the table.
fn curves(
    number: usize,
    name: &str,
    values: [(u8, PriceValue); CACHED_PCTS.len()],
    rows: &mut Vec<TraceRow>,
) -> [Trace; 3] {
    let first = rows.len();
    rows.extend(values.iter().map(|(pct, value)| TraceRow {
        x: (*pct).into(),
        cells: vec![
            name.to_owned(),
            pct.to_string(),
            or_dash(value.value, significant),
            or_dash(value.low, significant),
            or_dash(value.high, significant),
        ],
    }));
    let trace = |name: String, dash, pick: fn(&PriceValue) -> Option<f64>| {
        let points = values.iter().map(|(_, value)| pick(value));
        Trace::curve(number, name, dash, (first..).zip(points))
    };
    [
        trace(name.to_owned(), "", |value| value.value),
        trace(format!("{name}, lower end"), "5 4", |value| value.low),
        trace(format!("{name}, upper end"), "5 4", |value| value.high),
    ]
}
