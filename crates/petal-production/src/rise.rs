//! Rise of a total over its usual value, and the parts that explain it. The usual value follows the
//! load; the noise of the other hours is the measure. Knows names and values alone.

use std::ops::Range;

use crate::moments::{MAD_TO_SIGMA, ReportMoment, is_same_hour};
use petal_judge::estimate::median;

/// Values of other hours that a usual value needs.
const OTHERS_MIN: usize = 6;
/// Values of the same hour on other days from which on they count.
const SAME_HOURS_MIN: usize = 3;
/// Share of sorted values below one standard deviation over the median.
const ONE_SIGMA: f64 = 0.84;
/// The smallest noise, as a share of the median.
const NOISE_MIN: f64 = 0.03;
/// Noise of the total from which on a part's rise counts.
const SIGMAS_OF_TOTAL: f64 = 3.5;
/// Noise of a part's own, or of the total alone: there are many parts and hours to choose from.
const SIGMAS_OF_PART: f64 = 5.0;
/// An episode lasts less than this part of all moments.
const EPISODE_SHARE: usize = 3;
/// Smallest share of a rise that is named.
const SHARE_MIN: f64 = 0.05;

/// A total over time, in sessions or processors, and its parts.
#[derive(Debug, Clone, Default)]
pub struct Total {
    /// A value for each moment.
    pub values: Vec<Option<f64>>,
    pub parts: Vec<TotalPart>,
    /// Another division of the total. Classes describe a rise, and do not find it.
    pub classes: Vec<TotalPart>,
}

/// A part of a total. A moment that does not list it has none of it.
#[derive(Debug, Clone, PartialEq)]
pub struct TotalPart {
    pub name: String,
    pub values: Vec<f64>,
}

/// A moment at which a total is higher than usual.
#[derive(Debug, Clone, PartialEq)]
pub struct Rise {
    /// Index of the moment.
    pub at: usize,
    pub value: f64,
    pub usual: f64,
    /// Parts that explain it, the largest first.
    pub shares: Vec<RiseShare>,
    pub classes: Vec<RiseShare>,
    /// Rise in units of the total's noise.
    pub sigmas: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RiseShare {
    pub name: String,
    pub value: f64,
    pub usual: f64,
}

impl RiseShare {
    pub fn more(&self) -> f64 {
        self.value - self.usual
    }
}

/// Usual value of a figure at a moment, and its noise.
struct Usual {
    value: f64,
    noise: f64,
}

/// Returns the load of each moment, 1 if typical: the median of its counters over their own
/// medians. A storm of one counter does not change it.
pub fn loads(moments: usize, counters: &[Vec<Option<f64>>]) -> Vec<f64> {
    let known = counters.iter().filter_map(|values| {
        let values: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
        let typical = median(&values).filter(|typical| *typical > 0.0)?;
        Some(values.into_iter().map(move |value| value / typical).collect::<Vec<f64>>())
    });
    let known: Vec<Vec<f64>> = known.collect();
    let at = |at: usize| {
        let all: Vec<f64> = known.iter().filter_map(|values| values.get(at).copied()).collect();
        median(&all).unwrap_or(1.0).max(f64::MIN_POSITIVE)
    };
    (0..moments).map(at).collect()
}

/// Returns the largest rise that exceeds the noise; `None` on quiet days.
pub fn largest(moments: &[ReportMoment], loads: &[f64], total: &Total) -> Option<Rise> {
    let all = (0..moments.len()).filter_map(|at| rise(moments, loads, total, at));
    all.max_by(|one, two| one.sigmas.total_cmp(&two.sigmas))
}

fn rise(moments: &[ReportMoment], loads: &[f64], total: &Total, at: usize) -> Option<Rise> {
    let value = total.values.get(at).copied().flatten()?;
    let usual = usual(moments, loads, |other| total.values.get(other).copied().flatten(), at)?;
    let shares_of = |parts: &[TotalPart]| {
        let mut shares: Vec<RiseShare> =
            parts.iter().filter_map(|it| share(moments, loads, it, at)).collect();
        shares.sort_by(|one, two| two.more().total_cmp(&one.more()));
        shares
    };
    let (mut shares, mut classes) = (shares_of(&total.parts), shares_of(&total.classes));
    let lead = shares.first().map_or(0.0, RiseShare::more) / usual.noise;
    let whole = (value - usual.value) / usual.noise;
    if lead <= SIGMAS_OF_TOTAL && whole <= SIGMAS_OF_PART {
        return None;
    }
    // A part may rise while the others fall.
    let more = (value - usual.value).max(shares.first().map_or(0.0, RiseShare::more));
    for shares in [&mut shares, &mut classes] {
        shares.retain(|share| share.more() >= SHARE_MIN * more);
    }
    Some(Rise { at, value, usual: usual.value, shares, classes, sigmas: lead.max(whole) })
}

/// Returns a part's share of a rise, if the part's own rise is more than noise.
fn share(
    moments: &[ReportMoment],
    loads: &[f64],
    part: &TotalPart,
    at: usize,
) -> Option<RiseShare> {
    let value = part.values.get(at).copied()?;
    let own = usual(moments, loads, |other| part.values.get(other).copied(), at)?;
    let share = RiseShare { name: part.name.clone(), value, usual: own.value };
    (share.more() > SIGMAS_OF_PART * own.noise).then_some(share)
}

/// Returns the usual value at a moment's load, from the other moments. Below the typical load a
/// value is not expected to fall: some work does not follow it.
fn usual(
    moments: &[ReportMoment],
    loads: &[f64],
    value: impl Fn(usize) -> Option<f64>,
    at: usize,
) -> Option<Usual> {
    let scaled = |other: usize| Some(value(other)? / loads.get(other)?);
    let episode = episode(moments.len(), scaled, at);
    let others = (0..moments.len()).filter(|other| !episode.contains(other));
    let all: Vec<f64> = others.clone().filter_map(scaled).collect();
    if all.len() < OTHERS_MIN {
        return None;
    }
    let middle = median(&all)?;
    let begin = |at: usize| moments.get(at).and_then(|moment| moment.begin);
    let is_same = |other: &usize| {
        begin(at).zip(begin(*other)).is_some_and(|(one, two)| is_same_hour(one, two))
    };
    // Work of every night is usual at night.
    let same: Vec<f64> = others.filter(is_same).filter_map(scaled).collect();
    let same = median(&same).filter(|_| same.len() >= SAME_HOURS_MIN);
    let load = loads.get(at)?.max(1.0);
    let value = same.map_or(middle, |same| same.max(middle)) * load;
    Some(Usual { value, noise: noise(&all, middle) * load })
}

/// Returns the consecutive moments around one that are as high: hours of one incident are no noise of
/// each other. If another moment is as high, or if they are too many, it is the moment alone.
fn episode(moments: usize, scaled: impl Fn(usize) -> Option<f64>, at: usize) -> Range<usize> {
    let all: Vec<f64> = (0..moments).filter_map(&scaled).collect();
    let alone = at..at + 1;
    let Some((value, middle)) = scaled(at).zip(median(&all)) else { return alone };
    let half = (value + middle) / 2.0;
    let is_high = |at: &usize| value > middle && scaled(*at).is_some_and(|own| own > half);
    let from = (0..at).rev().take_while(is_high).last().unwrap_or(at);
    let to = (at + 1..moments).take_while(is_high).last().unwrap_or(at) + 1;
    let is_one = (0..moments).filter(is_high).count() == to - from;
    if is_one && (to - from) * EPISODE_SHARE < moments { from..to } else { alone }
}

/// Returns the noise of values: the larger of their median absolute deviation and of the distance
/// from the median that five of six stay below.
fn noise(values: &[f64], middle: f64) -> f64 {
    let apart: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let deviation = median(&apart).unwrap_or(0.0) * MAD_TO_SIGMA;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get((ONE_SIGMA * sorted.len() as f64) as usize).unwrap_or(&middle) - middle;
    deviation.max(upper).max(middle.abs() * NOISE_MIN)
}

#[cfg(test)]
mod tests;
