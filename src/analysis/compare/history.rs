//! A figure over versions, days or another fact of its runs: what each group of runs measured, where
//! it changed by more than its runs vary, and whether it drifts. For tests that run every night.

use serde::Serialize;

use super::limits::{LimitOutcome, LimitResult, outcome};
use super::{
    CompareError, ComparedSide, ContextDifference, Figures, cells, figures, metrics, notes,
};
use crate::analysis::estimate::{CONFIDENCE, REPEATS_MIN, deviation, mean, t_p_value, t_quantile};
use crate::analysis::significance;
use crate::record::observation::Observation;
use crate::settings::limit::ChangeLimit;

pub const FORMAT: &str = "petal-history/1";
/// The name by which runs are grouped by the day on which they began.
pub const DAY: &str = "day";

/// All that is reported of a history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    pub format: String,
    /// The fact by which runs are grouped, or `day`.
    pub by: String,
    pub series: Vec<FigureHistory>,
    /// Facts that a reader must know first.
    pub notes: Vec<String>,
}

/// One figure of one cell, in the order of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureHistory {
    pub factors: Vec<(String, String)>,
    pub metric: String,
    pub steps: Vec<HistoryGroup>,
    /// From the first group to the newest, by the line through the groups' means.
    pub trend: Option<Shift>,
}

/// The runs of one day, or of one version.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryGroup {
    pub group: String,
    pub figures: Figures,
    /// From the runs since the last change; null of the first group, and where nothing is known of
    /// how much they vary.
    pub shift: Option<Shift>,
    /// True where it changed by more than chance explains, over all groups of the series.
    pub is_change: bool,
    /// What else is different from the group before.
    pub differences: Vec<ContextDifference>,
}

/// A change as a share of what was before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shift {
    pub share: f64,
    /// 95 %.
    pub interval: Option<(f64, f64)>,
    pub p: Option<f64>,
}

/// Groups runs by `by`, in the order in which the groups began, and follows each metric of each cell.
pub fn history(seen: &[Observation], by: &str, asked: &[String]) -> Result<History, CompareError> {
    let all = ComparedSide { name: "the records".to_owned(), observations: seen.to_vec() };
    let (mut sides, mut said) = notes::whole_runs(&[all]);
    let whole = sides.pop().unwrap_or_default();
    if whole.observations.is_empty() {
        return Err(CompareError::NoWholeRun { side: whole.name });
    }
    let groups = groups(whole.observations, by, &mut said);
    let metrics = metrics(&groups, asked)?;
    let keys: Vec<String> = cells::keys(&groups).into_iter().filter(|key| key != by).collect();
    let cells = cells::all(&groups, &keys);
    let mut series = Vec::new();
    for metric in &metrics {
        for cells::CellRuns { factors, sides } in &cells {
            let of_group = |(at, runs): (usize, &Vec<_>)| Some((at, figures(runs, metric)?));
            let known: Vec<(usize, Figures)> =
                sides.iter().enumerate().filter_map(of_group).collect();
            if !known.is_empty() {
                series.push(followed(metric, factors, known, &groups, &keys));
            }
        }
    }
    Ok(History { format: FORMAT.to_owned(), by: by.to_owned(), series, notes: said })
}

/// A side for each group, the one that began first before the others.
fn groups(mut seen: Vec<Observation>, by: &str, said: &mut Vec<String>) -> Vec<ComparedSide> {
    seen.sort_by_key(Observation::started);
    let mut groups: Vec<ComparedSide> = Vec::new();
    let mut unknown = 0;
    for seen in seen {
        let day =
            || seen.started_at.as_deref().and_then(|at| Some(at.split_once('T')?.0.to_owned()));
        let Some(name) = (if by == DAY { day() } else { cells::value(&seen, by) }) else {
            unknown += 1;
            continue;
        };
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.observations.push(seen),
            None => groups.push(ComparedSide { name, observations: vec![seen] }),
        }
    }
    if unknown > 0 {
        said.push(format!("left-out: {unknown} records tell no {by}"));
    }
    groups
}

fn followed(
    metric: &str,
    factors: &[(String, String)],
    known: Vec<(usize, Figures)>,
    groups: &[ComparedSide],
    keys: &[String],
) -> FigureHistory {
    let trend = trend(&known.iter().map(|(_, figures)| figures.mean).collect::<Vec<_>>());
    // A test for each group: by chance alone one in twenty would be past its interval.
    let tests = known.len().saturating_sub(1).max(1) as f64;
    let (mut stretch, mut before): (Vec<f64>, Option<usize>) = (Vec::new(), None);
    let mut steps = Vec::new();
    for (at, figures) in known {
        let shift = shift(&stretch, &figures.values);
        let p = shift.and_then(|shift| shift.p).map(|p| (p * tests).min(1.0));
        let is_change = p.is_some_and(significance::is_significant);
        if is_change {
            stretch.clear();
        }
        stretch.extend(&figures.values);
        let differences = before.map_or_else(Vec::new, |before| {
            cells::context_differences(&[groups[before].clone(), groups[at].clone()], keys)
        });
        before = Some(at);
        let group = groups[at].name.clone();
        steps.push(HistoryGroup { group, figures, shift, is_change, differences });
    }
    FigureHistory { factors: factors.to_vec(), metric: metric.to_owned(), steps, trend }
}

/// Runs against those before them. A single run is held against how far those lie apart.
fn shift(before: &[f64], now: &[f64]) -> Option<Shift> {
    if now.len() > 1 && before.len() > 1 {
        let found = significance::sequential(before, now)?;
        return Some(Shift { share: found.share, interval: found.interval, p: found.p });
    }
    let ([value], base) = (now, mean(before).filter(|base| *base != 0.0)?) else { return None };
    let share = (value - base) / base.abs();
    let n = before.len() as f64;
    let spread = deviation(before).filter(|_| before.len() >= REPEATS_MIN);
    let spread = spread.map(|spread| spread * (1.0 + 1.0 / n).sqrt() / base.abs());
    let reach = spread.zip(t_quantile(CONFIDENCE, n - 1.0)).map(|(spread, t)| spread * t);
    let p = spread.filter(|&spread| spread > 0.0).and_then(|s| t_p_value(share / s, n - 1.0));
    Some(Shift { share, interval: reach.map(|reach| (share - reach, share + reach)), p })
}

/// The straight line through the means, by least squares: its rise from the first to the last, as a
/// share of where it begins. None under four groups: three lie near a line too easily.
fn trend(means: &[f64]) -> Option<Shift> {
    const GROUPS_MIN: usize = 4;
    let n = means.len() as f64;
    let middle = (n - 1.0) / 2.0;
    let base = mean(means).filter(|_| means.len() >= GROUPS_MIN)?;
    let at = |position: usize| position as f64 - middle;
    let squares: f64 = (0..means.len()).map(|position| at(position).powi(2)).sum();
    let slope = means.iter().enumerate().map(|(x, y)| at(x) * (y - base)).sum::<f64>() / squares;
    let rest = means.iter().enumerate().map(|(x, y)| (y - base - slope * at(x)).powi(2));
    let error = (rest.sum::<f64>() / (n - 2.0) / squares).sqrt();
    let begin = base - slope * middle;
    let per_slope = (n - 1.0) / begin.abs();
    let share = Some(slope * per_slope).filter(|share| share.is_finite())?;
    let reach = t_quantile(CONFIDENCE, n - 2.0).map(|t| t * error * per_slope.abs());
    let p = (error > 0.0).then(|| t_p_value(slope / error, n - 2.0)).flatten();
    Some(Shift { share, interval: reach.map(|reach| (share - reach, share + reach)), p })
}

impl FigureHistory {
    /// The position of the newest change.
    pub fn changed_at(&self) -> Option<usize> {
        self.steps.iter().rposition(|step| step.is_change)
    }
}

impl History {
    /// Holds a limit against the newest group of each series, and against its trend, which can break a
    /// limit but leaves none open.
    pub fn hold(&self, limit: &ChangeLimit) -> LimitResult {
        let all = self.series.iter().filter(|series| series.metric == limit.metric);
        let judged = all.flat_map(|series| {
            let place = cells::label(&series.factors);
            let newest = series.steps.last();
            let changed = |shift: Shift| (shift.share, shift.interval);
            let shift = newest.and_then(|step| step.shift).map(changed);
            let name = newest.map_or("", |step| step.group.as_str());
            let trend = series.trend.map(changed);
            let has_drifted = outcome(limit, trend) == LimitOutcome::Failed;
            let drift = has_drifted.then(|| {
                (LimitOutcome::Failed, format!("{place}: trend {}", super::limits::words(trend)))
            });
            let reported = format!("{place}: {name} {}", super::limits::words(shift));
            [Some((outcome(limit, shift), reported)), drift].into_iter().flatten()
        });
        super::limits::worst(limit, judged.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::observation::metric;

    /// A run each night, or several, with so many PIOPS.
    fn nights(all: &[&[f64]]) -> Vec<Observation> {
        let run = |(night, value): (usize, &f64)| Observation {
            source: format!("night {night}"),
            started_at: Some(format!("2026-11-{:02}T02:00:00Z", night + 1)),
            metrics: [(metric::PIOPS.to_owned(), *value)].into(),
            context: [("petal".to_owned(), if night < 4 { "1" } else { "2" }.to_owned())].into(),
            ..Observation::default()
        };
        let runs = all.iter().enumerate();
        runs.flat_map(|(night, values)| values.iter().map(move |v| (night, v))).map(run).collect()
    }

    fn held(seen: &[Observation], limit: &str) -> LimitOutcome {
        let piops = [metric::PIOPS.to_owned()];
        history(seen, DAY, &piops).unwrap().hold(&limit.parse().unwrap()).outcome
    }

    #[test]
    fn a_step_is_found_where_it_is_with_what_changed_and_the_runs_after_it_are_no_change() {
        let level: [&[f64]; 4] = [
            &[100.0, 101.0, 99.0],
            &[100.5, 99.5, 101.0],
            &[99.0, 100.0, 101.0],
            &[100.0, 101.0, 99.5],
        ];
        let fallen: [&[f64]; 2] = [&[80.0, 81.0, 79.0], &[80.5, 79.5, 81.0]];
        let seen = nights(&[&level[..], &fallen].concat());
        let reported = history(&seen, DAY, &[]).unwrap();
        let series = &reported.series[0];
        let changes: Vec<bool> = series.steps.iter().map(|step| step.is_change).collect();
        assert_eq!(changes, [false, false, false, false, true, false]);
        assert_eq!(changes.iter().rposition(|is_change| *is_change), Some(4));
        let named: Vec<&str> =
            series.steps[4].differences.iter().map(|other| other.name.as_str()).collect();
        assert_eq!(named, ["petal"]);
        // The night of the step breaks the limit; the night after it is held against that night,
        // and the drift over all of them is not yet proven.
        assert_eq!(held(&seen[..15], "piops < -10%"), LimitOutcome::Failed);
        assert_eq!(held(&seen[..12], "piops < -10%"), LimitOutcome::Passed);
        let by_version = history(&seen, "petal", &[]).unwrap();
        assert_eq!(by_version.series[0].steps.len(), 2);
        assert!(by_version.series[0].steps[1].is_change);
    }

    #[test]
    fn a_slow_drift_breaks_a_limit_that_no_single_night_does() {
        let values: Vec<f64> =
            (0..12).map(|n| 100.0 - f64::from(n) + f64::from(n % 3) * 0.4).collect();
        let each: Vec<Vec<f64>> = values.iter().map(|v| vec![v - 2.0, *v, v + 2.0]).collect();
        let each: Vec<&[f64]> = each.iter().map(Vec::as_slice).collect();
        let reported = history(&nights(&each), DAY, &[]).unwrap();
        let trend = reported.series[0].trend.unwrap();
        assert!((trend.share + 0.11).abs() < 0.01, "{trend:?}");
        let held = reported.hold(&"piops < -5%".parse().unwrap());
        assert_eq!(held.outcome, LimitOutcome::Failed);
        assert!(held.because.iter().any(|why| why.contains("trend -1")), "{held:?}");
    }

    #[test]
    fn one_run_a_night_is_held_against_how_far_nights_lie_apart() {
        let quiet: Vec<[f64; 1]> = [100.0, 101.0, 99.0, 100.0, 100.5, 99.5].map(|v| [v]).into();
        let mut all: Vec<&[f64]> = quiet.iter().map(|v| &v[..]).collect();
        assert_eq!(held(&nights(&all), "piops < -10%"), LimitOutcome::Passed);
        assert_eq!(held(&nights(&all[..2]), "piops < -10%"), LimitOutcome::Inconclusive);
        all.push(&[70.0]);
        let reported = history(&nights(&all), DAY, &[]).unwrap();
        let steps = &reported.series[0].steps;
        assert_eq!(steps.iter().rposition(|step| step.is_change), Some(6));
        assert_eq!(held(&nights(&all), "piops < -10%"), LimitOutcome::Failed);
    }
}
