//! The page of a calibration: what the device alone can do, at every depth.

use super::super::calibration::{READING, curve, facts, figures, title, unders};
use super::super::numbers::{decimal, micros, or_dash, rate};
use super::HtmlError;
use super::page::{Page, Section, SectionPart, Tile, class, moment};
use super::traces::{ChartSubject, Trace, TraceChart, TraceRow, parts};
use petal_model::record::calibration::{Calibration, CurvePoint, MIX, READ, WRITE};

const HEAD: [&str; 7] = ["", "depth", "requests/s", "MB/s", "mean us", "p50 us", "p99 us"];
const DESCRIPTION: &str = "A line for each of reads, mix and writes over the requests in flight.";
const NOTE: &str = "Requests in flight as they were asked for. Latency is petal's clock, from \
     submit to completion; all rounds together.";

pub fn calibration(calibration: &Calibration) -> Result<String, HtmlError> {
    let mut measured =
        vec![SectionPart::Table(figures(calibration).captioned("What one asks for first"))];
    let under = unders(calibration);
    if !under.is_empty() {
        measured.push(SectionPart::Notes(under));
    }
    for name in [READ, MIX, WRITE] {
        if let Some(points) = calibration.curves.get(name) {
            let table = curve(points).captioned(title(calibration, name));
            measured.push(SectionPart::Table(table.folded()));
        }
    }
    let section = |id, title, layer, parts| Section { id, title, layer, parts };
    let mut sections = vec![
        section("curves", "By depth", "petal's clock", charts(calibration)),
        section("figures", "Every figure", "petal's clock; at the device: the kernel's", measured),
        section(
            "tested",
            "What was measured",
            "",
            vec![
                SectionPart::Facts(facts(calibration)),
                SectionPart::Notes([calibration.notes.clone(), vec![READING.to_owned()]].concat()),
            ],
        ),
    ];
    sections.retain(|section| !section.parts.is_empty());
    let class = class(calibration.status, []);
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
        status: Some((class, calibration.status.name().to_owned())),
        tiles: tiles(calibration),
        sections,
        version: calibration.petal_version.clone(),
        ..Page::default()
    };
    Ok(page.render()?)
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

fn charts(calibration: &Calibration) -> Vec<SectionPart> {
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
    let subject = ChartSubject { description: DESCRIPTION, x_title, head: &HEAD, rows: &rows };
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
