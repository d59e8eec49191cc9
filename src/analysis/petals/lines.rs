//! From observations to lines: what differs only in sessions stands on one line, repeats of a cell
//! are one point, and cells of different active data sets are never joined.

use std::collections::BTreeMap;

use super::{Estimate, PetalLine, Point};
use crate::analysis::level::Level;
use crate::analysis::{estimate, factor_words};
use crate::record::observation::{Observation, metric};
use crate::stats::units;

/// The factors that say how many sessions ran, the first that is there.
const SESSION_FACTORS: [&str; 5] =
    ["sessions", "threads_per_schema", "threads", "readers", "writers"];
/// Whole sessions of one kind: where they vary, the sum of both is `sessions`, and a line has one
/// number of the other kind.
const KINDS: [&str; 2] = ["readers", "writers"];

/// The lines, in the order of their factors, and what had to be left out or split.
pub(super) fn of(observations: &[Observation]) -> (Vec<PetalLine>, Vec<String>) {
    let mut notes = Vec::new();
    let axis = axis(observations);
    let kind = KINDS.into_iter().find(|kind| varies(observations, kind));
    let mut groups: Vec<LineGroup<'_>> = Vec::new();
    for seen in observations {
        if let Some(reason) = seen.why_unusable() {
            notes.push(format!("left-out: {} is not drawn: {reason}", seen.source));
            continue;
        }
        let Some(sessions) = sessions(seen, axis) else {
            notes.push(format!(
                "left-out: {} is not drawn: how many sessions ran is not known",
                seen.source
            ));
            continue;
        };
        let of_line = |key: &str| Some(key) != axis && Some(key) != kind;
        let factors: Vec<(String, String)> =
            seen.factors.iter().filter(|(key, _)| of_line(key)).cloned().collect();
        let active_bytes = seen.active_bytes;
        match groups.iter_mut().find(|g| g.factors == factors && g.active_bytes == active_bytes) {
            Some(group) => group.cells.entry(sessions).or_default().push(seen),
            None => groups.push(LineGroup {
                factors,
                active_bytes,
                cells: BTreeMap::from([(sessions, vec![seen])]),
            }),
        }
    }
    groups.sort_by_key(LineGroup::order);
    notes.extend(split(&groups));
    let names = names(&groups);
    let lines = groups.iter().zip(names).map(|(group, name)| group.line(name)).collect();
    (lines, notes)
}

/// Observations that share a line.
struct LineGroup<'a> {
    factors: Vec<(String, String)>,
    active_bytes: Option<u64>,
    cells: BTreeMap<u32, Vec<&'a Observation>>,
}

impl LineGroup<'_> {
    fn line(&self, name: String) -> PetalLine {
        let points = self.cells.iter().map(|(&sessions, repeats)| point(sessions, repeats));
        PetalLine {
            name,
            factors: self.factors.clone(),
            points: points.collect(),
            ..PetalLine::default()
        }
    }

    fn order(&self) -> (Vec<Level>, Option<u64>) {
        let levels = self.factors.iter().map(|(_, value)| Level::of(value));
        (levels.collect(), self.active_bytes)
    }
}

fn axis(observations: &[Observation]) -> Option<&'static str> {
    let is_there = |name: &&str| observations.iter().any(|seen| seen.factor(name).is_some());
    SESSION_FACTORS.into_iter().find(is_there)
}

fn varies(observations: &[Observation], key: &str) -> bool {
    observations.windows(2).any(|pair| pair[0].factor(key) != pair[1].factor(key))
}

/// The factor, where it is the sessions; else what the run says of itself, or the factor.
fn sessions(seen: &Observation, axis: Option<&str>) -> Option<u32> {
    let reported = || seen.factor(axis?)?.parse().ok();
    if axis == Some("sessions") {
        reported().or(seen.sessions)
    } else {
        seen.sessions.or_else(reported)
    }
}

/// A figure that one of the repeats does not know is no figure of the point.
fn point(sessions: u32, repeats: &[&Observation]) -> Point {
    let mut repeats = repeats.to_vec();
    repeats.sort_by_key(|seen| seen.repeat);
    let all = |name: &str| -> Option<Vec<f64>> { repeats.iter().map(|s| s.metric(name)).collect() };
    let plain = |name: &str| Estimate::of(all(name)?);
    let percentile = |name: &str| Estimate::of_percentile(all(name)?);
    let names = repeats.iter().flat_map(|seen| seen.metrics.keys());
    let means: BTreeMap<String, f64> =
        names.filter_map(|name| Some((name.clone(), estimate::mean(&all(name)?)?))).collect();
    Point {
        sessions,
        sources: repeats.iter().map(|seen| seen.source.clone()).collect(),
        active_bytes: repeats.first().and_then(|seen| seen.active_bytes),
        piops: plain(metric::PIOPS),
        mb_s: plain(metric::MB),
        read_us: plain(metric::READ_US),
        ops_s: plain(metric::OPS),
        op_p50_us: percentile(metric::OP_P50),
        op_p99_us: percentile(metric::OP_P99),
        warnings: repeats.iter().flat_map(|seen| seen.warnings.iter().cloned()).collect(),
        elapsed_s: Estimate::of(repeats.iter().filter_map(|seen| seen.run_length_s()).collect()),
        means,
    }
}

/// A note for each set of factors whose cells do not share one active data set.
fn split(groups: &[LineGroup<'_>]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let same: Vec<&LineGroup<'_>> =
            groups.iter().filter(|g| g.factors == group.factors).collect();
        let is_first = groups[..at].iter().all(|earlier| earlier.factors != group.factors);
        if !is_first || same.len() < 2 {
            continue;
        }
        let parts: Vec<String> = same
            .iter()
            .map(|group| {
                let sessions: Vec<String> = group.cells.keys().map(u32::to_string).collect();
                format!("{} at {} sessions", active(group.active_bytes), sessions.join(", "))
            })
            .collect();
        let whose = factor_words(&group.factors);
        let whose = if whose.is_empty() { whose } else { format!("{whose}: ") };
        notes.push(format!(
            "active-set-varies: {whose}the active data set is {}; cells that differ in it are not \
             joined by a line",
            parts.join(" and ")
        ));
    }
    notes
}

fn active(bytes: Option<u64>) -> String {
    bytes.map_or("unknown".to_owned(), units::bytes)
}

/// What tells each line from the others; of a single line all that is constant on it.
fn names(groups: &[LineGroup<'_>]) -> Vec<String> {
    let differs = |key: &str| {
        let of =
            |group: &LineGroup<'_>| group.factors.iter().find(|(name, _)| name == key).cloned();
        groups.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]))
    };
    groups
        .iter()
        .map(|group| {
            let telling = group.factors.iter().filter(|(key, _)| differs(key));
            let mut name = factor_words(telling);
            if name.is_empty() {
                name = factor_words(&group.factors);
            }
            let same = groups.iter().filter(|other| other.factors == group.factors).count();
            if same > 1 {
                let size = format!("active {}", active(group.active_bytes));
                name = if name.is_empty() { size } else { format!("{name}, {size}") };
            }
            if name.is_empty() { "all".to_owned() } else { name }
        })
        .collect()
}
