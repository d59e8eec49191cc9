//! The page of a calibration: the limits of the device alone, at every depth.

use super::text::{LOG_TITLE, READING, curve, facts, figures, latency_bounds, log_curves, title};
use petal_record::calibration::{Calibration, CurvePoint, MIX, READ, WRITE};
use petal_report::charts::Chart;
use petal_report::html::HtmlError;
use petal_report::html::page::{Page, Section, Tile, class, moment};
use petal_report::html::traces::{ChartSubject, Trace, TraceChart, TraceRow, parts};
use petal_report::numbers::{decimal, micros, or_dash, rate};

const HEADING: &str = " | depth | requests/s | MB/s | mean us | p50 us | p99 us";
const DESCRIPTION: &str = "A line for each of reads, mix and writes over the requests in flight.";
const NOTE: &str = "Requests in flight as they were asked for. Latency is petal's clock, from \
     submit to completion; all rounds together.";

pub fn page(calibration: &Calibration) -> Result<String, HtmlError> {
    let layer = "petal's clock; at the device: the kernel's";
    let measured = Section::new("figures", "Every figure", layer)
        .table("Main figures", figures(calibration))
        .notes(latency_bounds(calibration));
    let curves = [READ, MIX, WRITE].into_iter();
    let curves = curves.filter_map(|name| Some((name, calibration.curves.get(name)?)));
    let sections = vec![
        Section::new("curves", "By depth", "petal's clock").charts(charts(calibration)),
        curves
            .fold(measured, |measured, (name, points)| {
                measured.folded(title(calibration, name), curve(points))
            })
            .folded(LOG_TITLE.to_owned(), log_curves(calibration)),
        Section::new("tested", "Device and settings", "")
            .facts(facts(calibration))
            .notes([calibration.notes.clone(), vec![READING.to_owned()]].concat()),
    ];
    let class = class(calibration.status);
    let heading = format!("{} alone, by depth", calibration.path);
    let page = Page {
        title: format!("petal calibration: {}", calibration.path),
        heading,
        facts: vec![
            moment(&calibration.started_at),
            format!("{} s", decimal(calibration.elapsed_s, 0)),
            calibration.host.clone(),
            format!("blocks of {} bytes", calibration.block_bytes),
        ],
        status: vec![(class, calibration.status.name().to_owned())],
        tiles: tiles(calibration),
        sections,
        version: calibration.petal_version.clone(),
        ..Page::default()
    };
    page.render()
}

fn tiles(calibration: &Calibration) -> Vec<Tile> {
    let most = |name: &str| calibration.best.get(name);
    let at = |name: &str| or_dash(most(name), |best| format!("at depth {}", best.depth));
    let iops = |name: &str| or_dash(most(name), |best| rate(best.iops));
    let first = calibration.curves.get(READ).and_then(|points| points.first());
    let log = calibration.log.as_ref();
    let read_us = or_dash(first.and_then(|point| point.latency_us.p50), micros);
    let read_at = or_dash(first, |point| format!("p50 at depth {}", point.depth));
    let log_us = or_dash(log.and_then(|log| log.latency_us.p50), micros);
    let log_of = or_dash(log, |log| format!("p50, {} bytes", log.bytes));
    vec![
        Tile::figure("Most reads", iops(READ), "/s", at(READ)),
        Tile::figure("Most of the mix", iops(MIX), "/s", at(MIX)),
        Tile::figure("Most writes", iops(WRITE), "/s", at(WRITE)),
        Tile::figure("One read", read_us, "us", read_at),
        Tile::figure("Log write and sync", log_us, "us", log_of),
    ]
}

fn charts(calibration: &Calibration) -> Vec<Chart> {
    let (mut rows, mut iops, mut us) = (Vec::new(), Vec::new(), Vec::new());
    for (number, name) in [READ, MIX, WRITE].into_iter().enumerate() {
        let points = calibration.curves.get(name).map_or(&[][..], Vec::as_slice);
        let trace = |name: String, dash, pick: fn(&CurvePoint) -> Option<f64>| {
            Trace::curve(number, name, dash, (rows.len()..).zip(points.iter().map(pick)))
        };
        iops.push(trace(name.to_owned(), "", |point| Some(point.iops)));
        us.push(trace(format!("{name} p50"), "", |point| point.latency_us.p50));
        us.push(trace(format!("{name} p99"), "5 4", |point| point.latency_us.p99));
        rows.extend(points.iter().map(|point| row(name, point)));
    }
    let x_title = "requests in flight";
    let subject = ChartSubject {
        description: DESCRIPTION,
        x_title,
        is_x_linear: false,
        heading: HEADING,
        rows: &rows,
    };
    let chart = |id, title, y_title, traces| TraceChart { id, title, y_title, note: NOTE, traces };
    let titles = ["Requests per second by depth", "Latency by depth"];
    let iops = chart("curves-iops", titles[0], "requests per second", iops);
    parts(&subject, [iops, chart("curves-us", titles[1], "us for a request", us)])
}

fn row(name: &str, point: &CurvePoint) -> TraceRow {
    let latency = &point.latency_us;
    TraceRow {
        x: point.depth.into(),
        cells: vec![
            name.to_owned(),
            point.depth.to_string(),
            decimal(point.iops, 0),
            decimal(point.mb_per_s, 1),
            or_dash(latency.mean, micros),
            or_dash(latency.p50, micros),
            or_dash(latency.p99, micros),
        ],
    }
}
