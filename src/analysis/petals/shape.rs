//! The shape of one line: peak, knee, bend-back, as METHOD defines them.
//!
//! *Peak*: the point with the most PIOPS. *Saturated from*: the point with the fewest sessions whose
//! PIOPS lie within the peak's interval, where that is another point. *Knee*: the largest PIOPS over
//! read latency (Kleinrock's power). *Bend-back*: the first point after the peak that is lower
//! beyond the interval; with single runs, which have none, lower by more than repeats may vary.

use super::super::estimate::VARIATION_MAX;
use super::cause;
use super::{BendBack, Estimate, Limit, PetalLine, Point};
use crate::record::observation::metric;

/// A peak's interval that is wider than this share of its mean, to each side, says nothing of where
/// the line became flat: almost every point lies in it.
const WIDE_SHARE: f64 = 0.25;

/// Beyond the knee, throughput that rises by less than this share of what latency does has met
/// its limit.
const FLAT_SHARE_MAX: f64 = 0.25;

pub(super) fn find(line: &mut PetalLine) {
    line.peak = highest(&line.points, |point| point.piops.is_some());
    line.saturated_from = line.peak.and_then(|peak| saturated_from(&line.points, peak));
    line.knee = knee(&line.points);
    let Some(peak) = line.peak else { return };
    if let Some(at) = bend_back(&line.points, peak) {
        let mut limit = cause::of(&line.points[peak], &line.points[at]);
        if half_width(&line.points[peak]).is_none() {
            let single = "single runs: how much another one would differ is not known";
            limit.evidence.push(single.to_owned());
        }
        let Limit { cause, evidence } = limit.clone();
        line.bend_back = Some(BendBack { at, cause, evidence });
        line.limit = Some(limit);
    } else {
        line.limit = saturation(line);
    }
}

/// Where the line no longer rises although latency does: from the knee to its last point.
fn saturation(line: &PetalLine) -> Option<Limit> {
    let (from, to) = (line.points.get(line.knee?)?, line.points.last()?);
    let gain = to.piops.as_ref()?.mean / from.piops.as_ref()?.mean - 1.0;
    let slower = to.read_us.as_ref()?.mean / from.read_us.as_ref()?.mean - 1.0;
    let flat = to.sessions > from.sessions && gain <= slower * FLAT_SHARE_MAX && slower > 0.0;
    flat.then(|| cause::of(from, to))
}

/// The first point within the peak's interval; None where that is the peak, where the interval is
/// too wide to say, and of single runs, which have none.
fn saturated_from(points: &[Point], peak: usize) -> Option<usize> {
    let top = points[peak].piops.as_ref()?;
    let half_width = top.half_width.filter(|half| *half <= top.mean * WIDE_SHARE)?;
    let lowest = top.mean - half_width;
    let within = |point: &Point| point.piops.as_ref().is_some_and(|piops| piops.mean >= lowest);
    points[..peak].iter().position(within)
}

fn knee(points: &[Point]) -> Option<usize> {
    let power = |point: &Point| {
        let (piops, read_us) = (point.piops.as_ref()?.mean, point.read_us.as_ref()?.mean);
        (piops > 0.0 && read_us > 0.0).then(|| piops / read_us)
    };
    let known = points.iter().enumerate().filter_map(|(at, point)| Some((at, power(point)?)));
    known.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
}

fn bend_back(points: &[Point], peak: usize) -> Option<usize> {
    let top = points[peak].piops.as_ref()?;
    (peak + 1..points.len()).find(|&at| {
        points[at].piops.as_ref().is_some_and(|low| top.mean - low.mean > beyond(top, low))
    })
}

/// How far apart two means must be to differ: both intervals together.
fn beyond(a: &Estimate, b: &Estimate) -> f64 {
    match a.half_width.zip(b.half_width) {
        Some((a, b)) => a.hypot(b),
        None => a.mean * VARIATION_MAX,
    }
}

fn half_width(point: &Point) -> Option<f64> {
    point.piops.as_ref().and_then(|piops| piops.half_width)
}

/// The point with the most PIOPS (operations where no point knows PIOPS) of those that `fits`;
/// of equal ones the first.
pub(super) fn highest(points: &[Point], fits: impl Fn(&Point) -> bool) -> Option<usize> {
    let knows_piops = points.iter().any(|point| point.piops.is_some());
    let load = if knows_piops { metric::PIOPS } else { metric::OPS };
    points
        .iter()
        .enumerate()
        .filter(|(_, point)| fits(point))
        .filter_map(|(at, point)| Some((at, point.figure(load)?)))
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
        .map(|(at, _)| at)
}
