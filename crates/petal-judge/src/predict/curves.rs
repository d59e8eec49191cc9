//! Families of curves of one line: interpolation, the universal scalability law, and the shape of a
//! calibrated device.

use super::CellFigures;
use super::least_squares::{normal_equations, solve};
use crate::calibration::at_depth;
use petal_record::calibration::{CalibratedPoint, Calibration, CurvePoint, MIX, READ};

/// Throughput of a device over the requests in flight, as `petal calibrate` measured it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceCurves {
    /// Requests in flight and requests per second.
    read: Vec<(f64, f64)>,
    mix: Vec<(f64, f64)>,
}

impl DeviceCurves {
    /// None without a curve of reads.
    pub fn of(calibration: &Calibration) -> Option<Self> {
        let point = |point: &CurvePoint| (f64::from(point.depth), point.iops);
        let curve = |name: &str| -> Vec<(f64, f64)> {
            let all = calibration.curves.get(name).into_iter().flatten();
            all.map(point).filter(|(depth, iops)| *depth > 0.0 && *iops > 0.0).collect()
        };
        Some(Self { read: curve(READ), mix: curve(MIX) }).filter(|found| !found.read.is_empty())
    }

    /// The one curve that a run was compared with; None without points.
    pub fn of_points(points: &[CalibratedPoint]) -> Option<Self> {
        let point = |point: &CalibratedPoint| (point.in_flight(), point.iops);
        let read: Vec<(f64, f64)> =
            points.iter().map(point).filter(|(_, iops)| *iops > 0.0).collect();
        Some(Self { read, mix: Vec::new() }).filter(|found| !found.read.is_empty())
    }

    /// The curve of reads, or with UPDATEs the curve of the mix, if there is one.
    fn points(&self, has_updates: bool) -> &[(f64, f64)] {
        if has_updates && !self.mix.is_empty() { &self.mix } else { &self.read }
    }

    /// Throughput with so many requests in flight; past the last point it stays the same.
    pub fn at(&self, in_flight: f64, has_updates: bool) -> f64 {
        let points = self.points(has_updates);
        let last = points[points.len() - 1];
        at_depth(points, in_flight.min(last.0)).unwrap_or(last.1)
    }

    /// Speeds of a queue: throughput with 1, 2, ... requests over that with one.
    pub fn speeds(&self, has_updates: bool) -> Vec<f64> {
        let deepest = self.points(has_updates).last().map_or(1.0, |last| last.0) as u32;
        let at = |depth: u32| self.at(f64::from(depth), has_updates);
        (1..=deepest.max(1)).map(|depth| at(depth) / at(1)).collect()
    }
}

/// A figure between two cells, by the logarithms. None beyond the cells.
pub(super) fn between(
    cells: &[CellFigures],
    sessions: f64,
    figure: impl Fn(&CellFigures) -> Option<f64>,
) -> Option<f64> {
    let pair =
        cells.windows(2).find(|pair| (pair[0].sessions..=pair[1].sessions).contains(&sessions))?;
    let (low, high) = (figure(&pair[0])?, figure(&pair[1])?);
    let share = (sessions / pair[0].sessions).ln() / (pair[1].sessions / pair[0].sessions).ln();
    Some(low * (high / low).powf(share))
}

/// A figure between two cells, and beyond the cells the figure of the nearest one.
pub(super) fn nearest(
    cells: &[CellFigures],
    sessions: f64,
    figure: impl Fn(&CellFigures) -> Option<f64>,
) -> Option<f64> {
    let (first, last) = cells.first().zip(cells.last())?;
    match sessions {
        _ if sessions <= first.sessions => figure(first),
        _ if sessions >= last.sessions => figure(last),
        _ => between(cells, sessions, figure),
    }
}

/// Throughput of one session, waiting, crosstalk: the law through cells by least squares of relative
/// errors, because sessions over throughput is linear in its three parameters. A parameter that
/// would be negative is zero. None under three cells.
pub(super) fn usl(cells: &[CellFigures]) -> Option<[f64; 3]> {
    if cells.len() < 3 {
        return None;
    }
    let columns = |cell: &CellFigures| {
        let n = cell.sessions;
        [1.0, n - 1.0, n * (n - 1.0)].map(|column| column * cell.piops / n)
    };
    let rows: Vec<[f64; 3]> = cells.iter().map(columns).collect();
    let off = |found: &[f64; 3]| -> f64 {
        let errors = rows.iter().map(|row| {
            row.iter().zip(found).map(|(value, weight)| value * weight).sum::<f64>() - 1.0
        });
        errors.map(|error| error * error).sum()
    };
    let fit = |chosen: &[usize]| {
        let chosen_of = |row: &[f64; 3]| chosen.iter().map(|&at| row[at]).collect();
        let columns: Vec<Vec<f64>> = rows.iter().map(chosen_of).collect();
        let weights = solve(normal_equations(&columns, &vec![1.0; rows.len()]))?;
        let mut found = [0.0; 3];
        chosen.iter().zip(weights).for_each(|(&at, weight)| found[at] = weight);
        Some(found)
    };
    let fits = [&[0, 1, 2][..], &[0, 1], &[0, 2], &[0]].into_iter().filter_map(fit);
    let possible = fits.filter(|found| found[0] > 0.0 && found.iter().all(|value| *value >= 0.0));
    let [first, second, third] = possible.min_by(|a, b| off(a).total_cmp(&off(b)))?;
    Some([1.0 / first, second / first, third / first])
}

/// Throughput by the law.
pub(super) fn usl_piops([one, waiting, crosstalk]: [f64; 3], sessions: f64) -> f64 {
    let slower = 1.0 + waiting * (sessions - 1.0);
    one * sessions / (slower + crosstalk * sessions * (sessions - 1.0))
}
