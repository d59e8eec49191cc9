//! Runs on the curve of their calibrated device: requests per second and latency over the number in
//! flight, at the device. A separate point for each run, in the section of a run or a sweep.

use super::super::charts::{Chart, Color, Marker};
use super::super::numbers::{decimal, micros, or_dash};
use super::super::run::calibrated::{calibration_source, line, notes, per_cent, table};
use super::page::Section;
use super::traces::{self, ChartSubject, Trace, TraceChart, TraceRow};
use petal_judge::calibration;
use petal_record::Run;
use petal_record::calibration::{CalibratedPoint, CalibratedShare, MIX, READ, WRITE};
use petal_record::sweep::Swept;

const HEADING: &str = " | in flight at the device | requests/s | us at the device | \
                       p99 us (petal's clock) | of the device at this depth";
const X_TITLE: &str = "requests in flight at the device (rate x await)";
const NOTE_IOPS: &str = "By the kernel's counters of the device, for the curve and the run alike, \
                         without flushes. A point under the curve took longer than the device \
                         alone did with as many in flight.";
const NOTE_US: &str = "At the device: requests in flight over their rate, by the kernel's \
                       counters, for the curve and the run alike. The curve's p99 is petal's \
                       clock, from submit to completion; the kernel has no percentiles of a run's \
                       requests.";

/// None if no calibration of the device is known.
pub(super) fn of_run(run: &Run) -> Option<Section> {
    let share = run.details.calibrated.as_ref()?;
    let table = table(share).with_note(notes(share).join(". "));
    let charts = figures(&[("this run".to_owned(), share)]);
    Some(section().notes([line(share)]).charts(charts).table("The run and its curve", table))
}

/// Draws each cell on the curve that it was compared with.
pub(super) fn of_sweep(swept: &Swept) -> Option<Section> {
    let cells = swept.sweep.cells.iter().zip(&swept.runs);
    let shares: Vec<(String, &CalibratedShare)> = cells
        .filter_map(|(cell, run)| {
            let factors = cell.factors.iter();
            let named: Vec<String> = factors.map(|(key, value)| format!("{key} {value}")).collect();
            let name = format!("{}, repeat {}", named.join(", "), cell.repeat);
            Some((name, run.details.calibrated.as_ref()?))
        })
        .collect();
    if shares.is_empty() {
        return None;
    }
    let reasons = shares.iter().filter_map(|(name, share)| {
        Some(format!("{name}: not compared: {}", share.unknown.as_ref()?))
    });
    let mut reasons: Vec<String> = reasons.collect();
    // A calibration may have been made while the sweep went on.
    let mut calibrations: Vec<String> =
        shares.iter().map(|(_, share)| calibration_source(share)).collect();
    calibrations.dedup();
    reasons.extend(calibrations);
    Some(section().charts(figures(&shares)).notes(reasons))
}

fn section() -> Section {
    let layer = "the device, by the kernel's counters";
    Section::new("device", "Compared with the calibrated device", layer)
}

/// Draws a line for each curve that a run was compared with, and a point for each run.
fn figures(shares: &[(String, &CalibratedShare)]) -> Vec<Chart> {
    let mut rows = Vec::new();
    let (mut iops, mut us) = (Vec::new(), Vec::new());
    for (number, (curve, points)) in curves(shares).into_iter().enumerate() {
        let trace = |name: String, dash, pick: fn(&CalibratedPoint) -> Option<f64>| {
            Trace::curve(number, name, dash, (rows.len()..).zip(points.iter().map(pick)))
        };
        iops.push(trace(format!("calibrated {curve}"), "", |point| Some(point.iops)));
        us.push(trace(format!("calibrated {curve}"), "", CalibratedPoint::device_us));
        us.push(trace(format!("its p99, {curve}"), "5 4", |point| point.latency_us.p99));
        rows.extend(points.iter().map(|point| curve_row(curve, point)));
        let on = shares.iter().filter(|(_, share)| share.curve.as_deref() == Some(curve));
        let on: Vec<_> = on.filter(|(_, share)| share.device_depth > 0.0).collect();
        let (name, label) = match (shares, on.as_slice()) {
            ([(name, _)], [(_, share)]) => {
                (name.clone(), Some(format!("{name}\n{}", share_words(share))))
            }
            _ => (format!("runs, {curve}"), None),
        };
        let marks = |pick: fn(&CalibratedShare) -> Option<f64>| Trace {
            name: name.clone(),
            color: Color::Series(number + 3),
            marker: Marker::Diamond,
            is_hollow: false,
            dash: None,
            points: (rows.len()..)
                .zip(&on)
                .filter_map(|(row, (_, share))| Some((row, pick(share)?)))
                .collect(),
            label: label.clone(),
        };
        iops.push(marks(|share| Some(share.device_iops)));
        us.push(Trace { label: None, ..marks(run_us) });
        rows.extend(on.iter().map(|(name, share)| run_row(name, share)));
    }
    let described = shares.iter().map(|(name, share)| format!("{name}: {}.", line(share)));
    let description = &described.collect::<Vec<_>>().join(" ");
    let subject = ChartSubject {
        description,
        x_title: X_TITLE,
        is_x_linear: false,
        heading: HEADING,
        rows: &rows,
    };
    let iops = TraceChart {
        id: "device-iops",
        title: "Requests per second on the device's curve",
        y_title: "requests per second at the device",
        note: NOTE_IOPS,
        traces: iops,
    };
    let us = TraceChart {
        id: "device-us",
        title: "Latency on the device's curve",
        y_title: "us for a request",
        note: NOTE_US,
        traces: us,
    };
    traces::parts(&subject, [iops, us])
}

/// The curves that there are points of, each once: of several calibrations the newest.
fn curves<'a>(shares: &'a [(String, &CalibratedShare)]) -> Vec<(&'a str, &'a [CalibratedPoint])> {
    let of = |name: &'static str| {
        let on = shares.iter().filter(|(_, share)| share.curve.as_deref() == Some(name));
        let drawn = on.filter(|(_, share)| !share.points.is_empty());
        let newest = drawn.max_by(|a, b| a.1.calibrated_at.cmp(&b.1.calibrated_at));
        newest.map(|(_, share)| (name, share.points.as_slice()))
    };
    [READ, MIX, WRITE].into_iter().filter_map(of).collect()
}

fn share_words(share: &CalibratedShare) -> String {
    let of_curve = |part| format!("{} of the curve", per_cent(part));
    match calibration::too_low(share) {
        Some(_) => "calibration too low".to_owned(),
        None => or_dash(share.of_depth, of_curve),
    }
}

/// Returns the time of a request at the device, by Little's law.
fn run_us(share: &CalibratedShare) -> Option<f64> {
    (share.device_iops > 0.0).then(|| share.device_depth / share.device_iops * 1e6)
}

fn curve_row(curve: &str, point: &CalibratedPoint) -> TraceRow {
    TraceRow {
        x: point.in_flight(),
        cells: vec![
            format!("calibrated {curve}, depth {}", point.depth),
            decimal(point.in_flight(), 1),
            decimal(point.iops, 0),
            or_dash(point.device_us(), micros),
            or_dash(point.latency_us.p99, micros),
            String::new(),
        ],
    }
}

fn run_row(name: &str, share: &CalibratedShare) -> TraceRow {
    TraceRow {
        x: share.device_depth,
        cells: vec![
            name.to_owned(),
            decimal(share.device_depth, 1),
            decimal(share.device_iops, 0),
            or_dash(run_us(share), micros),
            or_dash(None, micros),
            or_dash(share.of_depth, per_cent),
        ],
    }
}
