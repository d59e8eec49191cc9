//! Follows a figure over versions, days or another fact of its runs: each group's measurement,
//! changes of level that exceed the variation of groups, and drift. For tests that run every night.
//!
//! All groups are judged together each time, so that petal may find a change some groups later. An
//! odd group is not a change.
//!
//! The group is the unit of evidence: the runs of one night, however many, do not show the
//! differences of nights.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::limits::{HeldChange, LimitCase, LimitOutcome, LimitResult, NOT_STORAGE, outcome};
use super::{
    CompareError, ComparedSide, ComparisonVerdict, ContextDifference, Figures, cells, figures,
    metrics, notes,
};
use crate::estimate::{REPEATS_MIN, Uncertain, mean};
use crate::spread::PooledSpread;
use crate::verdict::not_storage;
use crate::{by_key, change_points, significance};
use petal_host::numbers::whole;
use petal_record::folder;
use petal_record::headline::Headline;
use petal_record::observation::{Observation, metric};
use petal_settings::limit::{ChangeLimit, ForbiddenSide};

/// A history without any change shows a lasting one with this probability, and a change of its
/// newest groups with that: 5 % together.
const LASTING_LEVEL: f64 = 0.04;
const NEWEST_LEVEL: f64 = 0.01;
/// The newest groups, fewer than which are rarely found as a lasting change.
const NEWEST_MAX: usize = 3;

const FEW_GROUPS: &str = "fewer than three groups, or none differ; more groups make it known";

pub const FORMAT: &str = "petal-history/1";
/// The name that groups runs by the day on which they began.
pub const DAY: &str = "day";
/// The names that make a group of each run, and of the runs of each `--name`.
pub const RUN: &str = "run";
pub const NAME: &str = "name";

/// Contents of the report of a history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    pub format: String,
    /// Null if the figures of storage can be followed.
    pub verdict: Option<ComparisonVerdict>,
    /// Fact that groups the runs, or `day`, `run`, `name`.
    pub by: String,
    /// The group that began last, whether its runs can be used or not. Limits are held against it.
    pub newest: String,
    pub series: Vec<FigureHistory>,
    /// Cells of the newest group without a usable run, by their factors.
    #[serde(skip)]
    failed: Vec<(Vec<(String, String)>, LimitCase)>,
    /// The headline of each run that has one, by the place of its record.
    pub headlines: BTreeMap<String, Headline>,
    /// Facts that a reader must know first.
    pub notes: Vec<String>,
}

/// A figure of one cell, sorted by time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FigureHistory {
    pub factors: Vec<(String, String)>,
    pub metric: String,
    /// The newest group of its database, whether its runs can be used or not.
    #[serde(skip)]
    newest: String,
    pub steps: Vec<HistoryGroup>,
    /// Changes of level, the oldest first.
    pub changes: Vec<LevelChange>,
    /// Change of the newest groups, up to three, from the groups before them at the same level.
    pub recent: Option<Shift>,
    /// Change from the first groups to the newest: by the line through the groups' means, or between
    /// the first and the present level if levels fit better.
    pub trend: Option<Shift>,
}

/// A change of level: the first group at the new level, and the size of the change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelChange {
    pub group: String,
    /// Position of the group in the steps.
    pub at: usize,
    /// Number of groups at the level before, and since the change at the new one.
    pub groups_before: usize,
    pub groups_after: usize,
    /// The new level compared with the level before.
    pub shift: Option<Shift>,
    /// False if the newest groups alone show it: later groups have to confirm it.
    pub is_lasting: bool,
}

/// The runs of one day, or of one version.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryGroup {
    pub group: String,
    pub figures: Figures,
    /// Change from the earlier groups at its level, or from the level before if a level begins here;
    /// null for the first group. Its interval is null until three groups that differ show the
    /// spread of groups.
    pub shift: Option<Shift>,
    /// True if a level begins here.
    pub is_change: bool,
    /// Other differences from the previous group.
    pub differences: Vec<ContextDifference>,
}

/// A change as a share of the earlier value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shift {
    pub share: f64,
    /// 95 %.
    pub interval: Option<(f64, f64)>,
    pub p: Option<f64>,
}

/// Groups runs by `by`, in the order in which the groups began, and follows each metric of each
/// cell, for each database apart.
pub fn history(seen: &[Observation], by: &str, asked: &[String]) -> Result<History, CompareError> {
    let Some(key) = key_of_databases(seen).filter(|key| *key != by) else {
        return of_one_database(seen, by, asked);
    };
    let value = |seen: &Observation| cells::value(seen, key).unwrap_or_else(|| "-".to_owned());
    let databases = by_key(seen.iter().map(|seen| (value(seen), seen.clone())));
    let parts = databases.iter().map(|(database, runs)| {
        let mut part = of_one_database(runs, by, asked)?;
        let factor = (key.to_owned(), database.clone());
        part.series.iter_mut().for_each(|series| series.factors.insert(0, factor.clone()));
        for (factors, case) in &mut part.failed {
            factors.insert(0, factor.clone());
            case.place = cells::label(factors);
        }
        if part.series.is_empty() && part.failed.is_empty() {
            let place = cells::label(std::slice::from_ref(&factor));
            let words = part.verdict.map_or_else(String::new, |verdict| verdict.words);
            let case = LimitCase { outcome: LimitOutcome::Inconclusive, place, words };
            part.failed.push((vec![factor], case));
        }
        Ok(History { verdict: None, ..part })
    });
    let (known, unknown): (Vec<_>, Vec<_>) = parts.partition(Result::is_ok);
    let mut all: Vec<History> = known.into_iter().flatten().collect();
    // A metric of one database alone is one of the history.
    let Some(mut first) = (!all.is_empty()).then(|| all.remove(0)) else {
        return unknown.into_iter().next().unwrap_or_else(|| of_one_database(seen, by, asked));
    };
    for part in all {
        first.series.extend(part.series);
        first.failed.extend(part.failed);
        first.headlines.extend(part.headlines);
        first.notes.extend(part.notes);
    }
    let last = seen.iter().max_by_key(|seen| seen.started());
    let newest =
        first.series.iter().find(|it| last.is_some_and(|last| it.is_of(key, &value(last))));
    let records = ComparedSide { name: "the records".to_owned(), observations: seen.to_vec() };
    let (mut whole, _) = notes::whole_runs(std::slice::from_ref(&records));
    Ok(History {
        verdict: match whole[0].observations.is_empty() {
            true => Some(super::verdict::without_a_side(&[records])),
            false => super::verdict::of_records(&whole.remove(0)),
        },
        newest: newest.map_or(first.newest, |series| series.newest.clone()),
        notes: crate::distinct(first.notes),
        ..first
    })
}

fn of_one_database(
    seen: &[Observation],
    by: &str,
    asked: &[String],
) -> Result<History, CompareError> {
    let all = [ComparedSide { name: "the records".to_owned(), observations: seen.to_vec() }];
    let (whole, mut said) = notes::whole_runs(&all);
    let is_without_runs = whole.iter().all(|side| side.observations.is_empty());
    if is_without_runs && !seen.is_empty() {
        return Ok(History {
            format: FORMAT.to_owned(),
            verdict: Some(super::verdict::without_a_side(&all)),
            headlines: super::headlines(seen),
            by: by.to_owned(),
            newest: String::new(),
            series: Vec::new(),
            failed: Vec::new(),
            notes: said,
        });
    }
    // Groups and cells are of all runs: a night whose runs all failed is the newest all the same.
    let groups = groups(seen.to_vec(), by, &mut said);
    if groups.is_empty() {
        return Err(CompareError::NoSuchKey {
            key: by.to_owned(),
            known: cells::known_keys(seen, Some(DAY).filter(|day| *day != by)),
        });
    }
    let (whole, _) = notes::whole_runs(&groups);
    let metrics = metrics(&whole, asked)?;
    let verdict = super::verdict::of_records(&all[0]);
    let groups = without_struck_out(groups);
    let (whole, _) = notes::whole_runs(&groups);
    let keys: Vec<String> = cells::keys(&groups).into_iter().filter(|key| key != by).collect();
    let cells = cells::all(&groups, &keys);
    // The fact that makes the groups differs between any two of them.
    let known_facts = [&keys[..], &[by.to_owned()]].concat();
    let (mut series, mut different) = (Vec::new(), Vec::new());
    for metric in &metrics {
        for cells::CellRuns { factors, sides, .. } in &cells {
            let runs = sides.iter().flatten().copied();
            if metric::is_of_storage(metric) && super::verdict::are_different(runs) {
                different.push(factors.clone());
                continue;
            }
            let of_group = |(at, runs): (usize, &Vec<_>)| Some((at, figures(runs, metric)?));
            let known: Vec<(usize, Figures)> =
                sides.iter().enumerate().filter_map(of_group).collect();
            if !known.is_empty() {
                series.push(followed(metric, factors, known, &whole, &known_facts));
            }
        }
    }
    let newest = &groups[groups.len().saturating_sub(1)..];
    let newest_name = newest.first().map_or_else(String::new, |group| group.name.clone());
    series.iter_mut().for_each(|series: &mut FigureHistory| series.newest.clone_from(&newest_name));
    let failed = cells::all(newest, &keys).into_iter().filter(|cell| cell.sides[0].is_empty());
    let failed = failed.map(|cell| (cell.factors.clone(), why_failed(&cell, by, &newest_name)));
    let different = crate::distinct(different).into_iter().map(|factors| {
        let (outcome, place) = (LimitOutcome::Inconclusive, cells::label(&factors));
        (factors, LimitCase { outcome, place, words: super::verdict::DIFFERENT_TESTS.to_owned() })
    });
    Ok(History {
        format: FORMAT.to_owned(),
        verdict,
        headlines: super::headlines(seen),
        by: by.to_owned(),
        failed: failed.chain(different).collect(),
        newest: newest_name,
        series,
        notes: said,
    })
}

/// The fact that separates records of different databases, which have no common level. Targets are
/// different databases if one is used on several days, or again after another: a test that makes
/// its data in a new place each night is one database.
fn key_of_databases(seen: &[Observation]) -> Option<&'static str> {
    const TARGET: &str = "target";
    const ENGINE: &str = "engine";
    let mut seen: Vec<&Observation> = seen.iter().collect();
    seen.sort_by_key(|seen| seen.started());
    let used = seen.iter().filter_map(|seen| Some((cells::value(seen, TARGET)?, seen)));
    let mut in_turn: Vec<_> = used.clone().map(|(target, _)| target).collect();
    in_turn.dedup();
    let targets = by_key(used);
    let day = |seen: &&&Observation| seen.started().map(|moment| moment.date());
    let is_lasting = |(_, runs): &(_, Vec<&&Observation>)| {
        runs.iter().filter_map(day).collect::<BTreeSet<_>>().len() > 1
    };
    let is_several =
        targets.len() > 1 && (in_turn.len() > targets.len() || targets.iter().any(is_lasting));
    let engines: BTreeSet<_> = seen.iter().filter_map(|seen| cells::value(seen, ENGINE)).collect();
    match (is_several, engines.len()) {
        (true, _) => Some(TARGET),
        (false, 0 | 1) => None,
        (false, _) => Some(ENGINE),
    }
}

/// A group's name with its key; a day needs none.
fn named(by: &str, group: &str) -> String {
    if by == DAY { group.to_owned() } else { format!("{by} {group}") }
}

/// An open case for a cell of the newest group without a figure. Unreadable records have no factors.
fn why_failed(cell: &cells::CellRuns<'_>, by: &str, newest: &str) -> LimitCase {
    let outcome = LimitOutcome::Inconclusive;
    if !cell.unusable.iter().all(|seen| seen.is_damaged && seen.factors.is_empty()) {
        let words = format!("{} not measured", named(by, newest));
        return LimitCase { outcome, place: cells::label(&cell.factors), words };
    }
    let sources: Vec<&str> = cell.unusable.iter().map(|seen| seen.source.as_str()).collect();
    let words = format!("no record can be read of {}", sources.join(", "));
    LimitCase { outcome, place: newest.to_owned(), words }
}

/// The groups without the figures of storage of runs that are no storage test.
fn without_struck_out(mut groups: Vec<ComparedSide>) -> Vec<ComparedSide> {
    for seen in groups.iter_mut().flat_map(|group| &mut group.observations) {
        if not_storage(seen).is_some() {
            seen.metrics.retain(|name, _| !metric::is_of_storage(name));
        }
    }
    groups
}

/// A side for each group, the one that began first before the others.
fn groups(mut seen: Vec<Observation>, by: &str, said: &mut Vec<String>) -> Vec<ComparedSide> {
    seen.sort_by_key(Observation::started);
    let day = |seen: &Observation| Some(seen.started_at.as_deref()?.split_once('T')?.0.to_owned());
    let name = |seen: &Observation| match by {
        DAY => day(seen),
        RUN => Some(seen.source.clone()),
        NAME => Some(folder::name_of(Path::new(&seen.source))),
        _ => cells::value(seen, by),
    };
    let all = seen.len();
    let named = seen.into_iter().filter_map(|seen| Some((name(&seen)?, seen)));
    let groups = by_key(named).into_iter();
    let groups: Vec<ComparedSide> =
        groups.map(|(name, observations)| ComparedSide { name, observations }).collect();
    let unknown = all - groups.iter().map(|group| group.observations.len()).sum::<usize>();
    if unknown > 0 {
        said.push(format!("left-out: {} records have no {by}", whole(unknown as u64)));
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
    let means: Vec<f64> = known.iter().map(|(_, figures)| figures.mean).collect();
    let mut begins = change_points::find(&means, LASTING_LEVEL);
    let newest = newest_change(&means, &begins);
    begins.extend(newest);
    let levels = change_points::levels(&means, &begins);
    let spread = spread(&levels);
    let changes = (1..).zip(&begins).map(|(level, &at)| LevelChange {
        group: groups[known[at].0].name.clone(),
        at,
        groups_before: levels[level - 1].len(),
        groups_after: levels[level].len(),
        shift: between(&levels[level - 1], &levels[level], spread),
        is_lasting: Some(at) != newest,
    });
    let changes: Vec<LevelChange> = changes.collect();
    let (line, left_by_line) = trend(&means).unzip();
    // A slow fall is not one of levels, however many are fitted to it.
    let left_by_levels: f64 = levels.iter().map(|level| squares(level)).sum();
    let is_line = begins.is_empty() || left_by_line.is_some_and(|left| left <= left_by_levels);
    let trend = match (is_line, levels.first(), levels.last()) {
        (false, Some(first), Some(last)) => between(first, last, spread),
        _ => line,
    };
    let (mut steps, mut before) = (Vec::new(), None);
    for (position, (at, figures)) in known.into_iter().enumerate() {
        let begin = begins.iter().rposition(|&begin| begin <= position);
        let own = begin.map_or(0, |level| begins[level]);
        // A level's first group is compared with the level before, the others with its own.
        let earlier = match begin {
            Some(level) if own == position => levels[level].as_slice(),
            _ => &levels[begin.map_or(0, |level| level + 1)][..position - own],
        };
        let shift = between(earlier, &[figures.mean], spread);
        let differences = before.map_or_else(Vec::new, |before: usize| {
            cells::context_differences(&[groups[before].clone(), groups[at].clone()], keys)
        });
        before = Some(at);
        let group = groups[at].name.clone();
        let is_change = position > 0 && own == position;
        steps.push(HistoryGroup { group, figures, shift, is_change, differences });
    }
    let recent = recent(&means, &begins);
    FigureHistory {
        newest: String::new(),
        factors: factors.to_vec(),
        metric: metric.to_owned(),
        steps,
        changes,
        recent,
        trend,
    }
}

/// Returns the first of the newest groups, if they are apart from the level before by more than
/// chance explains: one, two or three of them, too few to be found as a lasting change.
fn newest_change(means: &[f64], begins: &[usize]) -> Option<usize> {
    let of_level = begins.last().copied().unwrap_or(0);
    let apart = |newest: &usize| {
        let at = means.len().checked_sub(*newest).filter(|&at| at > of_level)?;
        let levels = change_points::levels(means, &[begins, &[at]].concat());
        let [.., before, after] = levels.as_slice() else { return None };
        let p = between(before, after, spread(&levels))?.p?;
        (p < NEWEST_LEVEL / NEWEST_MAX as f64).then_some((p, at))
    };
    let found = (1..=NEWEST_MAX).filter_map(|newest| apart(&newest));
    found.reduce(|best, next| if next.0 < best.0 { next } else { best }).map(|(_, at)| at)
}

/// The change of the newest groups, up to three, from the groups before them at the same level. They
/// are better known than the newest group alone.
fn recent(means: &[f64], begins: &[usize]) -> Option<Shift> {
    let of_level = means.len() - begins.last().copied().unwrap_or(0);
    let newest = NEWEST_MAX.min(of_level / 2);
    let levels = change_points::levels(means, &[begins, &[means.len() - newest]].concat());
    let [.., before, after] = levels.as_slice() else { return None };
    between(before, after, spread(&levels)).filter(|_| newest > 0)
}

/// The spread of groups as a share of the mean of their level. It is a property of the platform, so
/// that all levels show it. None if there are too few groups, or if none differ.
fn spread(levels: &[Vec<f64>]) -> Option<PooledSpread> {
    let spreads = levels.iter().filter_map(|level| {
        let base = mean(level).filter(|base| *base != 0.0)?;
        PooledSpread::of(&level.iter().map(|value| value / base).collect::<Vec<_>>())
    });
    let spreads: Vec<PooledSpread> = spreads.collect();
    PooledSpread::pooled(&spreads).filter(|spread| spread.freedom >= REPEATS_MIN as f64 - 1.0)
}

/// The change from one level to another. Its interval includes zero if it may be none.
fn between(before: &[f64], after: &[f64], spread: Option<PooledSpread>) -> Option<Shift> {
    let base = mean(before).filter(|base| *base != 0.0)?;
    let share = (mean(after)? - base) / base.abs();
    let means = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
    let known = spread.map(|spread| {
        let error = (spread.variance * means).sqrt();
        Uncertain { mid: share, error, freedom: spread.freedom }
    });
    let (interval, p) = (known.and_then(Uncertain::interval), known.and_then(Uncertain::p));
    Some(Shift { share, interval, p })
}

/// The straight line through the means, by least squares: its rise from the first to the last, as a
/// share of its first value, and the squares that it leaves. None under four groups: three lie near a
/// line too easily.
fn trend(means: &[f64]) -> Option<(Shift, f64)> {
    const GROUPS_MIN: usize = 4;
    let n = means.len() as f64;
    let middle = (n - 1.0) / 2.0;
    let base = mean(means).filter(|_| means.len() >= GROUPS_MIN)?;
    let at = |position: usize| position as f64 - middle;
    let squares: f64 = (0..means.len()).map(|position| at(position).powi(2)).sum();
    let slope = means.iter().enumerate().map(|(x, y)| at(x) * (y - base)).sum::<f64>() / squares;
    let rest = means.iter().enumerate().map(|(x, y)| (y - base - slope * at(x)).powi(2));
    let left = rest.sum::<f64>();
    let error = (left / (n - 2.0) / squares).sqrt();
    let begin = base - slope * middle;
    let per_slope = (n - 1.0) / begin.abs();
    let share = Some(slope * per_slope).filter(|share| share.is_finite())?;
    let known = Uncertain { mid: share, error: error * per_slope, freedom: n - 2.0 };
    let p = known.p().filter(|_| error > 0.0);
    Some((Shift { share, interval: known.interval(), p }, left))
}

/// The squares of values around their mean.
fn squares(values: &[f64]) -> f64 {
    let middle = mean(values).unwrap_or(0.0);
    values.iter().map(|value| (value - middle).powi(2)).sum()
}

impl History {
    /// Returns the cells of the newest group without a usable run, each as an open case.
    pub fn not_measured(&self) -> impl Iterator<Item = &LimitCase> {
        self.failed.iter().map(|(_, case)| case)
    }

    /// Holds a limit against the newest change of each series, lasting or of the newest groups alone.
    /// The newest groups must not be past it either, and a slow fall from the first groups to the
    /// newest can break it. A cell that the newest group has no whole run of leaves it open.
    pub fn hold(&self, limit: &ChangeLimit) -> LimitResult {
        if let Some(open) = super::limits::without_a_side(limit, self.verdict.as_ref()) {
            return open;
        }
        let series = || self.series.iter().filter(|series| series.metric == limit.metric);
        let of_series = series().flat_map(|series| self.against(limit, series));
        let is_followed = |cell: &Vec<_>| series().any(|series| series.factors == *cell);
        let failed = self.failed.iter().filter(|(cell, _)| !is_followed(cell));
        let failed = failed.map(|(_, case)| case.clone());
        let mut cases: Vec<LimitCase> = of_series.chain(failed).collect();
        if self.verdict.is_some() && metric::is_of_storage(&limit.metric) {
            for case in &mut cases {
                case.words = case.words.replace("not measured", NOT_STORAGE);
            }
        }
        super::limits::worst(limit, cases)
    }

    fn against(&self, limit: &ChangeLimit, series: &FigureHistory) -> Vec<LimitCase> {
        let place = cells::label(&series.factors);
        let case = |place: String, of: &str, shift: Option<Shift>| {
            let changed = shift.map(|shift| HeldChange {
                share: shift.share,
                interval: shift.interval,
                unknown: Some(FEW_GROUPS),
            });
            let words = format!("{of}{}", super::limits::words(changed));
            LimitCase { outcome: outcome(limit, changed), place, words }
        };
        let judged = |shift: Option<Shift>, group: &str| {
            case(place.clone(), &format!("{} ", named(&self.by, group)), shift)
        };
        let last = series.at_newest();
        let mut cases = match last.map(|last| last.shift) {
            None => vec![judged(None, &series.newest)],
            Some(None) => {
                let words =
                    format!("{} has nothing to be held against", named(&self.by, &series.newest));
                let outcome = LimitOutcome::Inconclusive;
                vec![LimitCase { outcome, place: place.clone(), words }]
            }
            Some(_) if series.fell_to_zero() && limit.side == ForbiddenSide::Below => {
                let words = format!("{} fell to 0 in every run", named(&self.by, &series.newest));
                vec![LimitCase { outcome: LimitOutcome::Failed, place: place.clone(), words }]
            }
            Some(newest) => {
                let change = series.changes.last();
                let of_change = change.map(|change| judged(change.shift, &change.group));
                // A young level is known by its change; its newest groups alone show less.
                let is_settled = change.is_none_or(|it| it.groups_after >= 2 * NEWEST_MAX);
                let recent = series
                    .recent
                    .filter(|_| is_settled)
                    .map(|shift| case(format!("{place}, newest groups"), "", Some(shift)));
                let known: Vec<LimitCase> = of_change.into_iter().chain(recent).collect();
                if known.is_empty() { vec![judged(newest, &series.newest)] } else { known }
            }
        };
        let is_said = series.changes.last().is_some_and(|change| change.shift == series.trend);
        let drift = case(format!("{place}, first to newest"), "", series.trend);
        cases.extend(Some(drift).filter(|it| it.outcome == LimitOutcome::Failed && !is_said));
        cases
    }
}

impl FigureHistory {
    /// Returns true if every run of the newest group is 0, and no run of the group before.
    fn fell_to_zero(&self) -> bool {
        let [.., before, newest] = self.steps.as_slice() else { return false };
        significance::is_fall_to_zero(&before.figures.values, &newest.figures.values)
    }

    /// Returns the last group, if it is the newest of its database.
    pub fn at_newest(&self) -> Option<&HistoryGroup> {
        self.steps.last().filter(|step| step.group == self.newest)
    }

    fn is_of(&self, key: &str, value: &str) -> bool {
        self.factors.iter().any(|(name, own)| name == key && own == value)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rand::{RngExt as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use statrs::distribution::{Binomial, ContinuousCDF as _, DiscreteCDF as _, Normal};

    use super::LimitOutcome::{Failed, Inconclusive, Passed};
    use super::*;
    use petal_record::Status;
    use petal_record::headline::AskedFor;
    use petal_record::observation::metric;

    /// A run each night, or several, with these PIOPS.
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

    #[test]
    fn groups_are_made_by_run_and_by_name() {
        let run = |at: u32, name: &str| Observation {
            source: format!("results/202611{at:02}T020000Z-{name}"),
            started_at: Some(format!("2026-11-{at:02}T02:00:00Z")),
            metrics: [(metric::PIOPS.to_owned(), f64::from(at))].into(),
            ..Observation::default()
        };
        let seen = [run(1, "before"), run(2, "before"), run(3, "after")];
        let groups = |by: &str| -> Vec<(String, usize)> {
            let steps = history(&seen, by, &[]).unwrap().series.remove(0).steps;
            steps.into_iter().map(|step| (step.group, step.figures.values.len())).collect()
        };
        assert_eq!(groups(NAME), [("before".to_owned(), 2), ("after".to_owned(), 1)]);
        assert_eq!(groups(RUN).len(), 3);
        assert_eq!(groups(RUN)[0].0, "results/20261101T020000Z-before");
    }

    #[test]
    fn a_night_of_zeros_fails_and_one_from_the_page_cache_is_no_storage_test() {
        let level: [&[f64]; 2] = [&[100.0, 101.0, 99.0], &[100.0, 99.5, 100.5]];
        let fallen = nights(&[level[0], level[1], &[0.0, 0.0, 0.0]]);
        assert_eq!(held(&fallen, "piops < -5%"), Failed);
        assert_eq!(held(&fallen[3..], "piops < -5%"), Failed, "two groups show no spread");
        let mut cached = nights(&[level[0], level[1], &[200.0, 201.0, 202.0]]);
        for seen in cached.iter_mut().rev().take(3) {
            seen.warnings.push("cached-by-os".to_owned());
        }
        let piops = [metric::PIOPS.to_owned()];
        let found = history(&cached, DAY, &piops).unwrap();
        assert!(found.verdict.as_ref().unwrap().words.contains(" no storage test: "));
        assert_eq!(found.series[0].steps.len(), 2, "it is in no figure");
        let held = found.hold(&"piops < -5%".parse().unwrap());
        assert_eq!(held.outcome, Inconclusive);
        assert_eq!(held.because, ["all: 2026-11-03 not a storage test"]);
    }

    #[test]
    fn each_database_of_a_folder_has_a_history_of_its_kind() {
        let mut seen =
            nights(&[&[100.0], &[101.0], &[99.0], &[100.0], &[30.0], &[31.0], &[29.0], &[30.0]]);
        let on = |seen: &mut Observation, engine: &str, target: &str| {
            seen.context.insert("engine".to_owned(), engine.to_owned());
            seen.context.insert("target".to_owned(), target.to_owned());
        };
        let found = |seen: &[Observation], by: &str| {
            let history = history(seen, by, &[metric::PIOPS.to_owned()]).unwrap();
            let steps = history.series.iter().map(|series| series.steps.len()).collect::<Vec<_>>();
            let changes = history.series.iter().any(|series| !series.changes.is_empty());
            (steps, changes, history.hold(&"piops < -20%".parse().unwrap()))
        };
        // One after the other, each on several nights; in places that are new each night; in turn.
        for (at, seen) in seen.iter_mut().enumerate() {
            on(seen, "postgres", ["postgres://a/x", "postgres://b/x"][at / 4]);
        }
        assert!(matches!(found(&seen, DAY), (steps, false, _) if steps == [4, 4]));
        for (at, seen) in seen.iter_mut().enumerate() {
            on(seen, "sqlite", &format!("sqlite:/tmp/{at}"));
        }
        let (steps, is_changed, gate) = found(&seen, DAY);
        assert_eq!((steps, is_changed, gate.outcome), (vec![8], true, Failed));
        for (at, seen) in seen.iter_mut().enumerate() {
            let engine = ["sqlite", "postgres"][at % 2];
            on(seen, engine, &format!("{engine}:x"));
            seen.metrics.insert(metric::PIOPS.to_owned(), [100.0, 30.0][at % 2] + at as f64 / 9.0);
        }
        for by in [DAY, RUN] {
            let (steps, is_changed, gate) = found(&seen, by);
            assert_eq!((steps, is_changed, gate.outcome), (vec![4, 4], false, Passed), "{gate:?}");
        }
        // A database without a valid run leaves its limits open.
        for seen in seen.iter_mut().filter(|seen| seen.context["engine"] == "postgres") {
            seen.status = Some(Status::Failed);
        }
        let (steps, _, gate) = found(&seen, DAY);
        assert_eq!((steps, gate.outcome), (vec![4], Inconclusive), "{gate:?}");
        assert!(gate.because[0].contains("TARGET postgres:x: Nothing is compared"), "{gate:?}");
    }

    #[test]
    fn nights_of_another_kind_of_test_are_no_change_and_invalid_ones_no_usage_error() {
        let mut run = petal_record::fixture::mixed_run();
        crate::conclude(&mut run);
        let judged = run.summary.headline.clone();
        let mut seen = nights(&[&[100.0, 101.0], &[100.0, 99.0], &[100.0, 99.0], &[1.0, 1.1]]);
        for (at, seen) in seen.iter_mut().enumerate() {
            seen.headline.clone_from(&judged);
            let verdict = &mut seen.headline.as_mut().unwrap().verdict;
            verdict.asked_for = [AskedFor::PhysicalIo, AskedFor::LogicalReads][at / 6];
        }
        let piops = [metric::PIOPS.to_owned()];
        let found = history(&seen, DAY, &piops).unwrap();
        assert_eq!(found.series, []);
        let words = found.verdict.as_ref().unwrap().words.clone();
        let begin = "The records test different things: storage in 6 of 8 records, the database's \
                     cache in 2 of 8 records.";
        assert!(words.starts_with(begin), "{words}");
        let gate = found.hold(&"piops < -5%".parse().unwrap());
        assert_eq!(
            (gate.outcome, &gate.because[..]),
            (Inconclusive, &["all: different tests".to_owned()][..])
        );
        for seen in &mut seen {
            seen.status = Some(Status::Failed);
        }
        let found = history(&seen, DAY, &piops).unwrap();
        let gate = found.hold(&"piops < -5%".parse().unwrap());
        assert_eq!(gate.outcome, Inconclusive);
        assert!(gate.because[0].contains("no run of the records is valid (it failed)"), "{gate:?}");
    }

    fn held(seen: &[Observation], limit: &str) -> LimitOutcome {
        let piops = [metric::PIOPS.to_owned()];
        history(seen, DAY, &piops).unwrap().hold(&limit.parse().unwrap()).outcome
    }

    /// The positions of the changes of PIOPS.
    fn changes(seen: &[Observation]) -> Vec<usize> {
        let reported = history(seen, DAY, &[]).unwrap();
        let steps = reported.series[0].steps.iter().enumerate();
        steps.filter(|(_, step)| step.is_change).map(|(at, _)| at).collect()
    }

    #[test]
    fn a_key_that_no_record_has_is_refused_with_the_known_ones() {
        let mut seen = nights(&[&[100.0], &[101.0]]);
        let why = |seen: &[Observation], by: &str| history(seen, by, &[]).unwrap_err().to_string();
        let unknown = "--by nonsense: no record has it; name one of: day, petal";
        assert_eq!(why(&seen, "nonsense"), unknown);
        for (night, seen) in (0..).zip(&mut seen) {
            seen.context.insert("cache".to_owned(), night.to_string());
            seen.context.insert("rate".to_owned(), "9".to_owned());
        }
        let unknown = "--by nonsense: no record has it; name one of: day, cache, petal; or a setting \
                       (1 is alike in all records)";
        assert_eq!(why(&seen, "nonsense"), unknown);
        seen.iter_mut().for_each(|seen| seen.context.retain(|key, _| key == "petal"));
        seen.iter_mut().for_each(|seen| seen.started_at = None);
        assert_eq!(why(&seen, DAY), "--by day: no record has it; name one of: petal");
    }

    #[test]
    fn a_step_is_found_where_it_is_with_what_changed_and_the_runs_after_it_are_no_change() {
        let level: [&[f64]; 4] = [
            &[100.0, 101.0, 99.0],
            &[100.5, 99.5, 101.0],
            &[99.0, 100.0, 101.0],
            &[100.0, 101.0, 99.5],
        ];
        let fallen: [&[f64]; 4] =
            [&[80.0, 81.0, 79.0], &[80.5, 79.5, 81.0], &[80.0, 80.5, 79.0], &[79.5, 80.5, 80.0]];
        let seen = nights(&[&level[..], &fallen].concat());
        let reported = history(&seen, DAY, &[]).unwrap();
        let series = &reported.series[0];
        assert_eq!(changes(&seen), [4]);
        let named: Vec<&str> =
            series.steps[4].differences.iter().map(|other| other.name.as_str()).collect();
        assert_eq!(named, ["petal"]);
        let shares: Vec<f64> = series.steps[4..]
            .iter()
            .map(|step| (step.shift.unwrap().share * 100.0).round())
            .collect();
        assert_eq!(shares, [-20.0, 0.0, 0.0, 0.0], "each is compared with its own level");
        let [change] = series.changes.as_slice() else { panic!("{:?}", series.changes) };
        assert_eq!((change.group.as_str(), change.is_lasting), ("2026-11-05", true));
        assert_eq!((change.groups_before, change.groups_after), (4, 4));
        let held = |nights: usize| held(&seen[..nights * 3], "piops < -10%");
        assert_eq!([4, 5, 6, 7].map(held), [Passed, Failed, Failed, Failed]);
        let because = reported.hold(&"piops < -10%".parse().unwrap()).because;
        assert!(because[0].contains("2026-11-05 -20.1 %, interval"), "{because:?}");
        let by_version = history(&seen, "petal", &[]).unwrap();
        let [first, second] = by_version.series[0].steps.as_slice() else { panic!() };
        assert_eq!((first.shift, second.is_change), (None, false), "two groups prove nothing");
        assert_eq!(second.shift.and_then(|shift| shift.interval), None);
    }

    #[test]
    fn one_odd_night_is_no_new_level() {
        let quiet = (0..20).map(|n| [100.0, 101.0, 99.0][n % 3]);
        let all: Vec<[f64; 1]> =
            quiet.chain([60.0, 100.5, 99.5, 60.5]).map(|value| [value]).collect();
        let nights = nights(&all.iter().map(|v| &v[..]).collect::<Vec<_>>());
        // The newest night may be the first of a level; the one before was not.
        assert_eq!(changes(&nights), [23]);
        let held = [21, 22, 23].map(|last| held(&nights[..last], "piops < -10%"));
        assert_eq!(held, [Failed, Passed, Passed]);
    }

    #[test]
    fn a_repair_after_three_bad_nights_is_found() {
        let good = (0..20).map(|n| [100.0, 101.0, 99.0][n % 3]);
        let all: Vec<[f64; 1]> =
            good.chain([80.0, 81.0, 79.0, 100.0, 101.0, 99.0, 100.0]).map(|v| [v]).collect();
        let nights = nights(&all.iter().map(|v| &v[..]).collect::<Vec<_>>());
        assert_eq!(changes(&nights), [20, 23]);
        let after = [20, 21, 22, 23, 24, 27].map(|last| held(&nights[..last], "piops < -10%"));
        assert_eq!(after, [Passed, Failed, Failed, Failed, Passed, Passed]);
    }

    #[test]
    fn nights_on_both_sides_of_a_level_are_no_new_one() {
        let odd = [100.0, 101.0, 99.0, 100.0, 100.5, 60.0, 140.0, 60.0, 100.0].map(|v| [v]);
        let nights = nights(&odd.each_ref().map(|v| &v[..]));
        assert_eq!(changes(&nights), Vec::<usize>::new());
    }

    /// Nights of one level, or with a last one apart, each with three runs that vary by 0.5 %.
    fn drawn(random: &mut Xoshiro256PlusPlus, between: f64, last: f64) -> Vec<Observation> {
        let normal = Normal::new(0.0, 1.0).unwrap();
        let mut draw = || normal.inverse_cdf(random.random::<f64>().max(1e-12));
        let mut of_night = |night: u32| {
            let share = if night == 13 { last } else { 1.0 };
            let level = 50_000.0 * share * (1.0 + between * draw());
            [(); 3].map(|()| level * (1.0 + 0.005 * draw()))
        };
        let all: Vec<[f64; 3]> = (0..14).map(&mut of_night).collect();
        nights(&all.iter().map(|night| &night[..]).collect::<Vec<_>>())
    }

    /// Histories of 14 nights without any change show one in no more than 5 %, however much nights
    /// differ: of 200 no more than the most that a true 5 % would show in 999 of 1,000 such counts.
    #[test]
    fn nights_that_vary_change_no_more_often_than_stated() {
        const HISTORIES: u64 = 200;
        let allowed = Binomial::new(0.05, HISTORIES).unwrap().inverse_cdf(0.999);
        assert_eq!(allowed, 21);
        for (seed, between) in [(1, 0.0), (2, 0.01), (3, 0.05)] {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let found: Vec<usize> =
                (0..HISTORIES).map(|_| changes(&drawn(&mut random, between, 1.0)).len()).collect();
            let wrong = found.iter().filter(|found| **found > 0).count() as u64;
            assert!(wrong <= allowed, "{wrong} of {HISTORIES} histories, {between} between nights");
            assert!(wrong > 0, "a test that never fires would pass too");
            // A false change occurs about once, not from then on.
            assert!(found.iter().sum::<usize>() as u64 <= wrong * 2, "{found:?}");
        }
    }

    #[test]
    fn a_real_step_is_found_however_many_runs_a_night_has() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
        for _ in 0..20 {
            let all = drawn(&mut random, 0.01, 0.6);
            for runs in 1..=3 {
                let kept = all.iter().enumerate().filter(|(at, _)| at % 3 < runs);
                let seen: Vec<Observation> = kept.map(|(_, seen)| seen.clone()).collect();
                assert_eq!(changes(&seen).last(), Some(&13), "{runs} runs a night");
                assert_eq!(held(&seen, "piops < -10%"), Failed, "{runs} runs a night");
                let before = &seen[..13 * runs];
                assert_eq!(held(before, "piops < -10%"), Passed, "{runs} runs a night");
            }
        }
    }

    #[test]
    fn a_newest_night_that_failed_is_no_pass() {
        let night = |runs: &[(&str, f64)], night: u32, status| -> Vec<Observation> {
            let run = |&(sessions, piops): &(&str, f64)| Observation {
                source: format!("night {night}"),
                factors: vec![("sessions".to_owned(), sessions.to_owned())],
                started_at: Some(format!("2026-11-{night:02}T02:00:00Z")),
                metrics: [(metric::PIOPS.to_owned(), piops)].into(),
                status: Some(status),
                ..Observation::default()
            };
            runs.iter().map(run).collect()
        };
        let good: Vec<Observation> = (1..=5)
            .flat_map(|n| {
                let piops = 100.0 + f64::from(n % 3);
                night(&[("8", piops), ("16", piops)], n, Status::Complete)
            })
            .collect();
        let held = |newest: Vec<Observation>| {
            let reported = history(&[good.clone(), newest].concat(), DAY, &[]).unwrap();
            let held = reported.hold(&"piops < -20%".parse().unwrap());
            (held.outcome, held.because.join("; "))
        };
        assert_eq!(held(Vec::new()).0, Passed);
        assert_eq!(held(night(&[("8", 101.0), ("16", 101.0)], 6, Status::Complete)).0, Passed);
        let lacks_16 = "SESSIONS 16: 2026-11-06 not measured".to_owned();
        let all_failed = held(night(&[("8", 1.0), ("16", 1.0)], 6, Status::Failed));
        let both = format!("SESSIONS 8: 2026-11-06 not measured; {lacks_16}");
        assert_eq!(all_failed, (Inconclusive, both));
        // A cell that failed, and one that is not there at all.
        let half = night(&[("8", 101.0)], 6, Status::Complete);
        let failed = night(&[("16", 1.0)], 6, Status::Failed);
        assert_eq!(held([half.clone(), failed].concat()), (Inconclusive, lacks_16.clone()));
        assert_eq!(held(half.clone()), (Inconclusive, lacks_16.clone()));
        // A cell that was never measured, and an unreadable record.
        let whole = night(&[("8", 101.0), ("16", 101.0)], 6, Status::Complete);
        let never = night(&[("32", 1.0)], 6, Status::Failed);
        let lacks_32 = "SESSIONS 32: 2026-11-06 not measured".to_owned();
        assert_eq!(held([whole, never].concat()), (Inconclusive, lacks_32));
        let damaged = Observation::of_damaged(Path::new("nightly/20261106T020000Z-run"));
        let (outcome, because) = held(vec![damaged]);
        assert_eq!(outcome, Inconclusive);
        let unread = "2026-11-06: no record can be read of nightly/20261106T020000Z-run";
        assert!(because.contains(unread) && !because.contains("SESSIONS -"), "{because}");
        // It fails all the same if another cell is past the limit.
        assert_eq!(held(night(&[("8", 50.0)], 6, Status::Complete)).0, Failed);
    }

    #[test]
    fn a_group_that_lacks_a_cell_is_named_with_its_key() {
        let run = |threads: &str, sessions: &str, minute: u32| Observation {
            source: format!("run {minute}"),
            factors: [("threads_per_schema", threads), ("sessions", sessions)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .to_vec(),
            started_at: Some(format!("2026-11-01T02:{minute:02}:00Z")),
            metrics: [(metric::PIOPS.to_owned(), 100.0)].into(),
            status: Some(Status::Complete),
            ..Observation::default()
        };
        let seen = [run("4", "8", 1), run("4", "16", 2), run("2", "8", 3)];
        let history = history(&seen, "threads_per_schema", &[]).unwrap();
        let because = history.hold(&"piops < -20%".parse().unwrap()).because.join("; ");
        let wanted = "SESSIONS 16: threads_per_schema 2 not measured";
        assert!(because.contains(wanted), "{because}");
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
        let drift = "all, first to newest: -1";
        assert!(held.because.iter().any(|why| why.contains(drift)), "{held:?}");
    }

    #[test]
    fn the_first_nights_and_rounded_ones_prove_nothing() {
        let quiet = [100.0, 101.0, 99.0, 100.0, 70.0].map(|v| [v]);
        let all = nights(&quiet.each_ref().map(|v| &v[..]));
        let held_after = |nights: usize| held(&all[..nights], "piops < -10%");
        assert_eq!(
            [1, 2, 3, 4, 5].map(held_after),
            [Inconclusive, Inconclusive, Inconclusive, Passed, Failed]
        );
        let first = history(&all[..1], DAY, &[]).unwrap();
        let because = first.hold(&"piops < -10%".parse().unwrap()).because;
        assert_eq!(because, ["all: 2026-11-01 has nothing to be held against"]);
        let rounded = nights(&[&[1.6][..], &[1.6], &[1.6], &[1.6], &[3.2]]);
        assert_eq!(held(&rounded, "piops > 10%"), Inconclusive);
        assert_eq!(changes(&rounded), Vec::<usize>::new());
    }
}
