//! The shape of one line: peak, knee, bend-back, as METHOD defines them.
//!
//! *Peak*: the point with the most PIOPS. *Saturated from*: the point with the fewest sessions
//! whose PIOPS lie within the peak's interval, if that is another point. *Knee*: the largest PIOPS
//! over read latency (Kleinrock's power). *Bend-back*: the first point after the peak that is lower
//! beyond the interval; with single runs, which have none, lower by more than repeats may vary.

use super::super::estimate::VARIATION_MAX;
use super::cause;
use super::{AfterPeak, BendBack, BeyondKnee, Estimate, Limit, Noise, PetalLine, Point};
use petal_model::record::observation::metric;

/// The widest interval of a peak, as a share of its mean to each side, that can show where the line
/// became flat: almost every point lies in a wider one.
const WIDE_SHARE: f64 = 0.25;

/// The share of the rise in latency beyond the knee: throughput that rises by less gets a cause.
const GAIN_SHARE_MAX: f64 = 0.25;

pub(super) fn find(line: &mut PetalLine) {
    line.peak = highest(&line.points, |point| point.piops.is_some());
    line.saturated_from = line.peak.and_then(|peak| saturated_from(&line.points, peak));
    line.knee = knee(&line.points);
    line.beyond_knee = beyond_knee(line);
    let Some(peak) = line.peak else { return };
    let bend = bend_back(&line.points, peak);
    line.after_peak = after_peak(&line.points, peak, bend);
    if let Some(at) = bend {
        let (cause, mut evidence) = cause::of(&line.points[peak], &line.points[at]);
        if half_width(&line.points[peak]).is_none() {
            let single = "single runs: how much another one would differ is not known";
            evidence.push(single.to_owned());
        }
        line.limit = Some(Limit { cause: cause.clone(), evidence: evidence.clone() });
        line.bend_back = Some(BendBack { at, cause, evidence });
    } else {
        line.limit = saturation(line);
    }
}

fn beyond_knee(line: &PetalLine) -> Option<BeyondKnee> {
    let (from, to) = (line.points.get(line.knee?)?, line.points.last()?);
    let change = |from: &Option<Estimate>, to: &Option<Estimate>| {
        Some(to.as_ref()?.mean / from.as_ref()?.mean - 1.0)
    };
    let changes = change(&from.piops, &to.piops).zip(change(&from.read_us, &to.read_us));
    let (piops_change, read_us_change) = changes.filter(|_| to.sessions > from.sessions)?;
    Some(BeyondKnee { piops_change, read_us_change })
}

/// The first point that bends back, else the lowest one after the peak.
fn after_peak(points: &[Point], peak: usize, bend: Option<usize>) -> Option<AfterPeak> {
    let top = points[peak].piops.as_ref()?;
    let later = points.iter().enumerate().skip(peak + 1);
    let known = later.filter_map(|(at, point)| Some((at, point.piops.as_ref()?)));
    let lowest = known.clone().min_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
    let (at, piops) = known.clone().find(|(at, _)| Some(*at) == bend).or(lowest)?;
    let noise = match (top.half_width.zip(piops.half_width), bend) {
        (None, _) => Noise::Unknown,
        (Some(_), Some(_)) => Noise::Beyond,
        (Some(_), None) => Noise::Within,
    };
    (top.mean > 0.0).then(|| AfterPeak { at, lower_by: 1.0 - piops.mean / top.mean, noise })
}

/// Returns the cause if latency rises much faster than throughput from the knee to the last point;
/// None if it does not.
fn saturation(line: &PetalLine) -> Option<Limit> {
    let BeyondKnee { piops_change, read_us_change } = line.beyond_knee?;
    let (from, to) = (line.points.get(line.knee?)?, line.points.last()?);
    let is_steep = read_us_change > 0.0 && piops_change <= read_us_change * GAIN_SHARE_MAX;
    let (cause, evidence) = is_steep.then(|| cause::of(from, to))?;
    Some(Limit { cause, evidence })
}

/// Returns the first point within the peak's interval; None if that is the peak, if the interval is
/// too wide, or for single runs, which have none.
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
    // A single point has no knee.
    let known = known.filter(|_| points.len() > 1);
    known.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
}

fn bend_back(points: &[Point], peak: usize) -> Option<usize> {
    let top = points[peak].piops.as_ref()?;
    (peak + 1..points.len()).find(|&at| {
        points[at].piops.as_ref().is_some_and(|low| top.mean - low.mean > beyond(top, low))
    })
}

/// The smallest difference of two means that counts: both intervals together.
fn beyond(a: &Estimate, b: &Estimate) -> f64 {
    match a.half_width.zip(b.half_width) {
        Some((a, b)) => a.hypot(b),
        None => a.mean * VARIATION_MAX,
    }
}

fn half_width(point: &Point) -> Option<f64> {
    point.piops.as_ref().and_then(|piops| piops.half_width)
}

/// Returns the point with the most PIOPS (operations if no point knows PIOPS) of those that `fits`;
/// if several are equal, the first.
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
