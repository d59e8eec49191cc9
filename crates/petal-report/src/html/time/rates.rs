//! Rates and means over time: a line for each, with a band if several seconds are one piece.

use super::super::super::charts::{Chart, ChartSeries, Color, PlotAxis, Scale, Variant};
use super::super::super::numbers::{UNKNOWN, decimal, or_dash, rate};
use super::super::super::run::seconds::SecondFigure;
use super::super::super::sources;
use super::{ChartPiece, ChartRange, HEIGHT, TimeAxis, dashed, known_runs, length, level};
use crate::table::Table;
use petal_record::{OneSecond, Rows, Second, SecondAmount};

/// A line of a chart of rates: its name, the amount in a second, and its divisor.
struct Rate<'a> {
    name: String,
    amount: SecondFigure<'a>,
    per: fn(&Second) -> Option<f64>,
    /// The amount as each second of a row has it, and its unit; None if it has none.
    of_each: Option<(SecondAmount, f64)>,
}

impl<'a> Rate<'a> {
    fn each_second(name: &str, amount: impl Fn(&Second) -> Option<f64> + 'a) -> Self {
        Self { name: name.to_owned(), amount: Box::new(amount), per: length, of_each: None }
    }

    /// The rate of an amount that outlives its second.
    fn of(name: &str, kept: SecondAmount, unit: f64) -> Self {
        let amount = move |row: &Second| Some(kept.of(row)? / unit);
        Self { of_each: Some((kept, unit)), ..Self::each_second(name, amount) }
    }
}

/// Titles of a chart of rates, and the color of its first line.
struct ChartTitles<'a> {
    id: &'a str,
    title: &'a str,
    y: &'a str,
    note: &'a str,
    color: usize,
}

const BY_LAYER: &str = "Asked: the rows of the operations that ended, a block each. Lines that \
                        part are blocks that a cache served, requests of other programs, or writes \
                        that come later.";

pub(super) fn reads_by_layer(axis: &TimeAxis<'_>) -> Option<Chart> {
    let titles = ("reads", "Reads on every layer over time", "MB read per second");
    let (physical, device) = (SecondAmount::ReadBytes, SecondAmount::DeviceReadBytes);
    by_layer(axis, titles, Rows::total, [physical, device], None)
}

/// None if nothing changes a block: there is nothing to compare.
pub(super) fn writes_by_layer(axis: &TimeAxis<'_>) -> Option<Chart> {
    let titles = ("writes", "Writes on every layer over time", "MB written per second");
    let layers = [SecondAmount::WriteBytes, SecondAmount::DeviceWriteBytes];
    let log = Some(SecondAmount::RedoBytes);
    let has_writes = axis.run.summary.rows.update > 0;
    has_writes.then(|| by_layer(axis, titles, |rows| rows.update, layers, log)).flatten()
}

/// The megabytes of each layer, one below the other.
fn by_layer(
    axis: &TimeAxis<'_>,
    (id, title, y): (&str, &str, &str),
    asked: fn(&Rows) -> u64,
    [physical, device]: [SecondAmount; 2],
    log: Option<SecondAmount>,
) -> Option<Chart> {
    let block = axis.run.summary.target.block_size as f64 / 1e6;
    let above = sources::of(axis.run).name;
    let mut rates = vec![
        Rate::each_second("asked by petal", move |s| Some(asked(&s.rows_asked?) as f64 * block)),
        Rate::of(&format!("{above}, physical"), physical, 1e6),
        Rate::of(&device_name(axis), device, 1e6),
    ];
    rates.extend(log.map(|log| Rate::of(&format!("{above}, log"), log, 1e6)));
    chart_of_rates(axis, &ChartTitles { id, title, y, note: BY_LAYER, color: 0 }, rates)
}

fn device_name(axis: &TimeAxis<'_>) -> String {
    format!("device {}", axis.run.details.devices.join(", "))
}

pub(super) fn io(axis: &TimeAxis<'_>) -> Option<Chart> {
    let rates = vec![
        Rate::of("reads", SecondAmount::Reads, 1.0),
        Rate::of("writes", SecondAmount::Writes, 1.0),
    ];
    let whose = axis.run.reported_by();
    let y = &format!("PIOPS: physical requests per second ({whose})");
    let note = &format!("As {whose} counted them, without the log.");
    let titles = ChartTitles { id: "io", title: "Physical I/O over time", y, note, color: 0 };
    chart_of_rates(axis, &titles, rates)
}

pub(super) fn operations(axis: &TimeAxis<'_>) -> Option<Chart> {
    let titles = ChartTitles {
        id: "operations",
        title: "Operations over time",
        y: "operations per second (petal)",
        note: "Operations that ended in each second, errors not among them.",
        color: 2,
    };
    let rate = Rate::of("operations", SecondAmount::Operations, 1.0);
    chart_of_rates(axis, &titles, vec![rate])
}

pub(super) fn device_wait(axis: &TimeAxis<'_>) -> Option<Chart> {
    let rates = vec![
        Rate {
            name: "read".to_owned(),
            amount: Box::new(|second| Some(second.device?.read_ms as f64 * 1000.0)),
            per: |second| Some(second.device?.read_requests as f64),
            of_each: None,
        },
        Rate {
            name: "write".to_owned(),
            amount: Box::new(|second| Some(second.device?.write_ms as f64 * 1000.0)),
            per: |second| Some(second.device?.write_requests as f64),
            of_each: None,
        },
    ];
    let titles = ChartTitles {
        id: "device-wait",
        title: &format!("Latency of {} over time", device_name(axis)),
        y: "mean of a request, us (the device, /proc/diskstats)",
        note: "With its time in the queue: time over requests. The kernel counts whole milliseconds.",
        color: 0,
    };
    chart_of_rates(axis, &titles, rates)
}

/// None if all lines are unknown; an unknown line is left out.
fn chart_of_rates(
    axis: &TimeAxis<'_>,
    titles: &ChartTitles<'_>,
    rates: Vec<Rate<'_>>,
) -> Option<Chart> {
    let pieces = &axis.pieces;
    let levels = |rate: Rate<'_>| {
        let of_each =
            |one: &OneSecond| rate.of_each.and_then(|(kept, unit)| Some(one.rate(kept)? / unit));
        let levels = pieces.iter().map(|piece| level(piece, &rate.amount, rate.per, of_each));
        (rate.name, levels.collect::<Vec<Option<ChartRange>>>())
    };
    let lines = rates.into_iter().map(levels);
    let (all_names, levels): (Vec<String>, Vec<_>) =
        lines.filter(|(_, levels)| levels.iter().any(Option::is_some)).unzip();
    let known = || levels.iter().flatten().flatten();
    known().next()?;
    let is_pieced = pieces.iter().any(|piece| piece.seconds.len() > 1 || piece.is_joined());
    let color = |number: usize| Color::Series(titles.color + number);
    let names = || all_names.iter().map(String::as_str);
    let description = described(titles.y, names().zip(&levels));
    let y = PlotAxis::new(Scale::linear(known().map(|level| level.most)), titles.y);
    let reported = (titles.id, titles.title, description.as_str());
    let svg = axis.drawing(reported, HEIGHT, y, |plot| {
        for (number, levels) in levels.iter().enumerate() {
            let attributes = format!("class=\"series\" data-series=\"{number}\" ");
            plot.dashed(&attributes, dashed(number), |plot| {
                for run in known_runs(pieces, levels) {
                    if is_pieced {
                        let band: Vec<_> = run.iter().map(|(x, l)| (*x, l.least, l.most)).collect();
                        plot.band(&band, color(number), 0.2);
                    }
                    let line: Vec<_> = run.iter().map(|(x, level)| (*x, level.mean)).collect();
                    plot.line(&line, color(number), 1.6);
                }
            });
        }
    });
    let mut head = vec!["from s".to_owned()];
    for name in names() {
        head.push(name.to_owned());
        if is_pieced {
            head.extend([format!("{name} least"), format!("{name} most")]);
        }
    }
    let row = |(at, piece): (usize, &ChartPiece<'_>)| {
        let mut cells = vec![decimal(piece.begin_s(), 0)];
        for levels in &levels {
            let level = levels[at];
            cells.push(or_dash(level, |level| rate(level.mean)));
            if is_pieced {
                cells.push(or_dash(level, |level| rate(level.least)));
                cells.push(or_dash(level, |level| rate(level.most)));
            }
        }
        cells
    };
    let what = "the line is the mean, the band its slowest and fastest second";
    let line =
        |(number, name)| ChartSeries::line(number, name, color(number), dashed(number), None);
    let note = format!("{}{}", titles.note, axis.note(what));
    let values = Table::of_columns(head).with_rows(pieces.iter().enumerate().map(row));
    let chart = Chart::new(titles.id, titles.title, note, Variant::linear(svg), values);
    Some(chart.with_series(names().enumerate().map(line)))
}

fn described<'a>(
    what: &str,
    series: impl Iterator<Item = (&'a str, &'a Vec<Option<ChartRange>>)>,
) -> String {
    let mut said = format!("{what}, over the seconds of the run.");
    for (name, levels) in series {
        let known = || levels.iter().flatten();
        let least = known().map(|level| level.least).fold(f64::MAX, f64::min);
        let most = known().map(|level| level.most).fold(f64::MIN, f64::max);
        match known().next() {
            Some(_) => said.push_str(&format!(" {name}: {} to {}.", rate(least), rate(most))),
            None => said.push_str(&format!(" {name}: {UNKNOWN}.")),
        }
    }
    said
}
