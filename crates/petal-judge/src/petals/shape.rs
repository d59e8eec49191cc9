//! The shape of one line: peak, plateau, knee, bend-back, as METHOD defines them. Points that are no
//! storage test have no part in it.
//!
//! *Peak*: the point with the most PIOPS. *Plateau*: the points around the peak that the repeats do
//! not separate from it; the line is saturated from its first one. *Knee*: the largest PIOPS over
//! read latency (Kleinrock's power), if the intervals of four points show it. *Bend-back*: a fall after
//! the peak beyond the noise. Single runs show a peak alone.

use super::cause;
use super::rising::{self, Mean};
use super::{
    AfterPeak, BendBack, BeyondKnee, Estimate, Limit, Noise, PetalLine, Plateau, Point, RateLimit,
};
use crate::estimate::{CONFIDENCE, REPEATS_MIN, Uncertain, mean};
use crate::significance::{self, welch};
use crate::spread::{self, PooledSpread};
use petal_record::headline::AskedFor;
use petal_record::observation::metric;

/// The largest difference, as a share of the peak, that may hide on a plateau: if repeats vary that
/// much, almost every point would be on it.
const WIDE_SHARE: f64 = 0.25;
/// The points of a line share one variance unless a test refuses it at this level.
const ALIKE_P_MIN: f64 = 0.05;

/// Fewest points with intervals that show a knee, a plateau or a rate limit.
pub(crate) const POINTS_MIN: usize = 4;
/// The share of the rise in latency beyond the knee: throughput that rises by less gets a cause.
const GAIN_SHARE_MAX: f64 = 0.25;

pub(super) fn find(line: &mut PetalLine) {
    let is_known = |point: &Point| point.load(line.asked_for).is_some();
    line.peak = highest(&line.points, is_known, line.asked_for);
    let Some(peak) = line.peak else {
        line.struck_out = struck_out(&line.points);
        return;
    };
    let noise = LineNoise::of(&line.points, peak, line.asked_for);
    line.plateau = noise.as_ref().and_then(LineNoise::plateau);
    line.saturated_from =
        line.plateau.map(|plateau| plateau.from).filter(|from| Some(*from) < line.peak);
    line.knee = knee(&line.points);
    line.beyond_knee = line.knee.and_then(|knee| change_from(&line.points, knee));
    let bend = noise.as_ref().and_then(|noise| noise.bend_back);
    line.after_peak = after_peak(line, peak, noise.as_ref());
    if let Some(at) = bend {
        let (cause, evidence) = cause::of(&line.points[peak], &line.points[at]);
        line.limit = Some(Limit { cause: cause.clone(), evidence: evidence.clone() });
        line.bend_back = Some(BendBack { at, cause, evidence });
    } else {
        line.limit = saturation(line);
    }
    let is_storage = line.points.iter().all(|point| point.not_storage.is_none());
    line.rate_limit = is_storage.then(|| RateLimit::of(&line.points)).flatten();
    if let Some(RateLimit { evidence, .. }) = &line.rate_limit {
        let (cause, evidence) = (RateLimit::CAUSE.to_owned(), evidence.clone());
        line.limit = Some(Limit { cause, evidence });
    }
}

/// The points of a storage test, with their positions.
fn storage_points(points: &[Point]) -> impl DoubleEndedIterator<Item = (usize, &Point)> + Clone {
    points.iter().enumerate().filter(|(_, point)| point.not_storage.is_none())
}

/// The change from a point to the last one.
fn change_from(points: &[Point], at: usize) -> Option<BeyondKnee> {
    let (_, to) = storage_points(points).next_back()?;
    let from = &points[at];
    let change = |from: &Option<Estimate>, to: &Option<Estimate>| {
        Some(to.as_ref()?.mean / from.as_ref()?.mean - 1.0)
    };
    let changes = change(&from.piops, &to.piops).zip(change(&from.read_us, &to.read_us));
    let (piops_change, read_us_change) = changes.filter(|_| to.sessions > from.sessions)?;
    Some(BeyondKnee { from: at, piops_change, read_us_change })
}

/// The first point that bends back, else the lowest one after the peak.
fn after_peak(line: &PetalLine, peak: usize, noise: Option<&LineNoise<'_>>) -> Option<AfterPeak> {
    let top = line.points[peak].load(line.asked_for)?;
    let later = storage_points(&line.points).filter(|(at, _)| *at > peak);
    let known = later.filter_map(|(at, point)| Some((at, point.load(line.asked_for)?)));
    let lowest = known.clone().min_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
    let bend = noise.and_then(|noise| noise.bend_back);
    let (at, piops) = known.clone().find(|(at, _)| Some(*at) == bend).or(lowest)?;
    let noise = match (noise.and_then(|noise| noise.position(at)), bend) {
        (None, _) => Noise::Unknown,
        (Some(_), Some(_)) => Noise::Beyond,
        (Some(_), None) => Noise::Within,
    };
    (top.mean > 0.0).then(|| AfterPeak { at, lower_by: 1.0 - piops.mean / top.mean, noise })
}

/// Returns the cause if latency rises much faster than throughput from the largest PIOPS over
/// latency to the last point; None if it does not, and of fewer points than show it.
fn saturation(line: &PetalLine) -> Option<Limit> {
    let most =
        most_power(&line.points).filter(|_| storage_points(&line.points).count() >= POINTS_MIN)?;
    let BeyondKnee { from, piops_change, read_us_change } = change_from(&line.points, most)?;
    let (_, to) = storage_points(&line.points).next_back()?;
    let from = &line.points[from];
    let is_steep = read_us_change > 0.0 && piops_change <= read_us_change * GAIN_SHARE_MAX;
    let (cause, evidence) = is_steep.then(|| cause::of(from, to))?;
    Some(Limit { cause, evidence })
}

/// The position of the largest PIOPS over read latency; None for a single point.
fn most_power(points: &[Point]) -> Option<usize> {
    let power = |point: &Point| {
        let (piops, read_us) = (point.piops.as_ref()?.mean, point.read_us.as_ref()?.mean);
        (piops > 0.0 && read_us > 0.0).then(|| piops / read_us)
    };
    let known = storage_points(points).filter_map(|(at, point)| Some((at, power(point)?)));
    let known = known.filter(|_| points.len() > 1);
    known.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
}

/// The point with the largest PIOPS over read latency, if latency then grows faster than PIOPS, and
/// all points but its neighbours are below it by more than the intervals of the repeats.
fn knee(points: &[Point]) -> Option<usize> {
    let most = most_power(points)?;
    let interval = |point: &Point| {
        let both = point.piops.as_ref()?.values.iter().zip(&point.read_us.as_ref()?.values);
        Estimate::of(both.map(|(piops, read_us)| piops / read_us).collect())?.interval
    };
    let known: Option<Vec<_>> =
        storage_points(points).map(|(at, point)| Some((at, interval(point)?))).collect();
    let known = known.filter(|known| known.len() >= POINTS_MIN)?;
    let (_, (low, _)) = *known.iter().find(|(at, _)| *at == most)?;
    let is_below = |(at, (_, high)): &(usize, (f64, f64))| at.abs_diff(most) < 2 || *high < low;
    let is_last = known.last().is_some_and(|(at, _)| *at == most);
    (!is_last && known.iter().all(is_below)).then_some(most)
}

/// The highest of the points that are no storage test.
fn struck_out(points: &[Point]) -> Option<usize> {
    let struck = points.iter().enumerate().filter(|(_, point)| point.not_storage.is_some());
    let known = struck.filter_map(|(at, point)| Some((at, point.figure(metric::PIOPS)?)));
    known.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
}

/// The points of a line with enough repeats, and the noise of their means.
struct LineNoise<'a> {
    known: Vec<KnownPoint<'a>>,
    /// Position of the peak in `known`.
    peak: usize,
    /// The spread of the logarithms of all repeats.
    spread: PooledSpread,
    /// The points vary alike.
    is_alike: bool,
    /// Position in the line of the point that bends back.
    bend_back: Option<usize>,
}

struct KnownPoint<'a> {
    /// Position in the line.
    at: usize,
    piops: &'a Estimate,
    logarithms: Vec<f64>,
}

impl<'a> LineNoise<'a> {
    /// None if the peak has too few repeats, or if no repeat differs from another.
    fn of(points: &'a [Point], peak: usize, asked_for: AskedFor) -> Option<Self> {
        let known = storage_points(points).filter_map(|(at, point)| {
            let piops = point.load(asked_for)?;
            let is_known =
                piops.values.len() >= REPEATS_MIN && piops.values.iter().all(|v| *v > 0.0);
            let logarithms = || piops.values.iter().map(|value| value.ln()).collect();
            is_known.then(|| KnownPoint { at, piops, logarithms: logarithms() })
        });
        let known: Vec<KnownPoint<'_>> = known.collect();
        let peak = known.iter().position(|point| point.at == peak)?;
        let spreads = known.iter().filter_map(|point| PooledSpread::of(&point.logarithms));
        let spreads: Vec<PooledSpread> = spreads.collect();
        let is_alike = spread::p_of_alike(&spreads).is_none_or(|p| p > ALIKE_P_MIN);
        let spread = PooledSpread::pooled(&spreads)?;
        let mut noise = Self { known, peak, spread, is_alike, bend_back: None };
        noise.bend_back = noise.bend_back();
        Some(noise)
    }

    fn position(&self, at: usize) -> Option<usize> {
        self.known.iter().position(|point| point.at == at)
    }

    /// The first point after the peak that is lower by more than the noise, if the line falls at
    /// all; without one the lowest.
    fn bend_back(&self) -> Option<usize> {
        let means = self.known.iter().filter_map(|point| {
            let repeats = point.logarithms.len() as f64;
            Some(Mean { value: mean(&point.logarithms)?, repeats })
        });
        let means: Vec<Mean> = means.collect();
        let later = &self.known[self.peak + 1..];
        let lowest = later.iter().min_by(|a, b| a.piops.mean.total_cmp(&b.piops.mean))?;
        if !rising::falls(&means, self.spread) || !(self.is_alike || self.is_surely_lower(lowest)) {
            return None;
        }
        let first = later.iter().find(|point| self.lacks(point) > self.hidden(point));
        Some(first.unwrap_or(lowest).at)
    }

    /// Returns whether a point is lower than the peak by the variances of both alone.
    fn is_surely_lower(&self, point: &KnownPoint<'_>) -> bool {
        let test = welch(&self.known[self.peak].logarithms, &point.logarithms);
        test.is_some_and(|test| test.t < 0.0 && significance::is_significant(test.p / 2.0))
    }

    /// The share of the peak that a point lacks.
    fn lacks(&self, point: &KnownPoint<'_>) -> f64 {
        1.0 - point.piops.mean / self.known[self.peak].piops.mean
    }

    /// A point may be lower than the peak by up to this share unseen. It is one-sided, for all
    /// other points together (Bonferroni), so that the plateau has the true peak with 95 % (multiple
    /// comparisons with the best: Hsu 1984).
    fn hidden(&self, point: &KnownPoint<'_>) -> f64 {
        let peak = &self.known[self.peak];
        let both = [peak, point];
        let others = (self.known.len() as f64 - 1.0).max(1.0);
        if self.is_alike {
            let means: f64 = both.iter().map(|one| 1.0 / one.logarithms.len() as f64).sum();
            let (error, freedom) = ((self.spread.variance * means).sqrt(), self.spread.freedom);
            let known = Uncertain { mid: 0.0, error, freedom };
            let reach = known.half_width_at(1.0 - 2.0 * (1.0 - CONFIDENCE) / others);
            return reach.map_or(1.0, |reach| -(-reach).exp_m1());
        }
        let halves: Option<Vec<f64>> = both.iter().map(|one| one.piops.half_width).collect();
        halves.map_or(1.0, |halves| halves[0].hypot(halves[1]) / peak.piops.mean)
    }

    /// The points next to each other, with the peak among them, that are not surely lower than it.
    /// None if the peak is alone, or if too much may hide.
    fn plateau(&self) -> Option<Plateau> {
        let is_level = |point: &&KnownPoint<'_>| {
            self.bend_back.is_none_or(|bend| point.at < bend)
                && self.lacks(point) <= self.hidden(point)
        };
        let before = self.known[..self.peak].iter().rev().take_while(is_level).count();
        let after = self.known[self.peak + 1..].iter().take_while(is_level).count();
        let level = &self.known[self.peak - before..=self.peak + after];
        let hides = level.iter().map(|point| self.hidden(point)).fold(0.0, f64::max);
        let values = level.iter().flat_map(|point| point.piops.values.iter().copied());
        let piops = mean(&values.collect::<Vec<_>>())?;
        let (from, to) = (level.first()?.at, level.last()?.at);
        let is_shown = self.known.len() >= POINTS_MIN && hides <= WIDE_SHARE;
        (from < to && is_shown).then_some(Plateau { from, to, piops, hides })
    }
}

/// Returns the point with the highest load (operations if no point knows PIOPS) of the storage tests
/// that `fits`; if several are equal, the first.
pub(super) fn highest(
    points: &[Point],
    fits: impl Fn(&Point) -> bool,
    asked_for: AskedFor,
) -> Option<usize> {
    let knows_piops = points.iter().any(|point| point.piops.is_some());
    let load = match asked_for {
        AskedFor::LogicalReads => metric::LOGICAL_READS,
        AskedFor::Redo => metric::REDO_MB,
        AskedFor::PhysicalIo if knows_piops => metric::PIOPS,
        AskedFor::PhysicalIo => metric::OPS,
    };
    storage_points(points)
        .filter(|(_, point)| fits(point))
        .filter_map(|(at, point)| Some((at, point.figure(load)?)))
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
        .map(|(at, _)| at)
}
