//! The verdict of a sweep before its peaks: cells that are no storage tests, and the line that is
//! higher than all others, if there is one.

use serde::Serialize;

use super::{PetalLine, Petals, Point};
use crate::by_key;
use crate::compare::is_workload;
use crate::verdict::not_storage;
use petal_host::numbers::counted;
use petal_record::headline::Verdict;
use petal_record::observation::Observation;

/// Factor of the numbers of readers and writers, which is no platform.
const MIX: &str = "mix";

/// Points that are no result.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PetalsVerdict {
    /// The verdict in a sentence without its end.
    pub words: String,
    /// The command to type next; empty if no record has one.
    pub next: String,
}

/// None if all points are storage tests.
pub(super) fn of(lines: &[PetalLine], observations: &[Observation]) -> Option<PetalsVerdict> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let ids = by_key(all().filter_map(|point| Some((point.not_storage.as_deref()?, ()))));
    let struck: usize = ids.iter().map(|(_, cells)| cells.len()).sum();
    let parts =
        ids.iter().map(|(id, cells)| format!("{id} in {}", counted(cells.len() as u64, "cell")));
    let parts = parts.collect::<Vec<_>>().join(", ");
    let words = match (struck, all().count()) {
        (0, _) => return None,
        (struck, count) if struck == count => format!("not a storage test: {parts}"),
        (struck, count) => format!("{struck} of {count} cells not a storage test: {parts}"),
    };
    let mut struck_out = observations.iter().filter(|seen| not_storage(seen).is_some());
    let next = struck_out.find_map(|seen| Some(seen.headline.as_ref()?.next.clone()));
    Some(PetalsVerdict { words, next: next.unwrap_or_default() })
}

/// The verdicts of the runs in words: `valid test of the device`, with the number of runs of each if
/// they differ. Figures of a table have no verdict.
pub(super) fn tested(observations: &[Observation]) -> String {
    let words = |seen: &Observation| match seen.headline.as_ref().map(|it| &it.verdict) {
        Some(Verdict { words, reason: Some(why), .. }) => format!("{words} ({})", why.finding),
        Some(verdict) => verdict.words.clone(),
        None => "not judged by petal".to_owned(),
    };
    let groups = by_key(observations.iter().map(|seen| (words(seen), ())));
    match groups.as_slice() {
        [(words, _)] => words.clone(),
        groups => {
            let counted = |(words, runs): &(String, Vec<()>)| {
                format!("{words} ({})", counted(runs.len() as u64, "run"))
            };
            groups.iter().map(counted).collect::<Vec<_>>().join(", ")
        }
    }
}

impl Petals {
    /// The command to type next: from the verdict, else from a run at the highest peak, or an
    /// invalid one if there is no peak, if it is not another sweep.
    pub(super) fn next_of(&self, observations: &[Observation]) -> String {
        if let Some(verdict) = &self.verdict {
            return verdict.next.clone();
        }
        let sources = self.highest_peak().map(|(_, point)| point.sources.as_slice());
        let is_at_peak = |seen: &&Observation| match sources {
            Some(sources) => sources.contains(&seen.source),
            None => seen.why_unusable().is_some(),
        };
        let next = observations
            .iter()
            .filter(is_at_peak)
            .find_map(|seen| Some(seen.headline.as_ref()?.next.clone()));
        next.filter(|next| !next.starts_with("petal sweep ")).unwrap_or_default()
    }
}

/// The highest peak of several lines.
pub enum Highest<'a> {
    /// A peak that no other line contests: it is the only line, the others are other workloads, or
    /// their intervals are below it.
    Peak(&'a PetalLine, &'a Point),
    /// Peaks of several platforms whose intervals meet or are not known, the highest mean first.
    NoWinner(Vec<(&'a PetalLine, &'a Point)>),
}

impl Petals {
    /// The lines of one kind of test with their peaks, the highest first: loads of other kinds have
    /// other units. Physical I/O is before logical reads and redo.
    fn peaks(&self) -> Vec<(&PetalLine, &Point, &super::Estimate)> {
        let of = |line| {
            let PetalLine { points, peak, asked_for, .. }: &PetalLine = line;
            let point = points.get((*peak)?)?;
            Some((line, point, point.load(*asked_for)?))
        };
        let mut peaks: Vec<_> = self.lines.iter().filter_map(of).collect();
        let kind = peaks.iter().map(|(line, ..)| line.asked_for).min();
        peaks.retain(|(line, ..)| Some(line.asked_for) == kind);
        peaks.sort_by(|a, b| b.2.mean.total_cmp(&a.2.mean));
        peaks
    }

    /// Returns the line with the highest peak, and the point of that peak.
    pub fn highest_peak(&self) -> Option<(&PetalLine, &Point)> {
        self.peaks().first().map(|(line, point, _)| (*line, *point))
    }

    /// Returns the highest peak; None without any.
    pub fn highest(&self) -> Option<Highest<'_>> {
        let peaks = self.peaks();
        let (line, point, best) = *peaks.first()?;
        let is_below = |load: &super::Estimate| {
            let both = best.interval.zip(load.interval);
            both.is_some_and(|((low, _), (_, high))| low > high)
        };
        let are_rivals = peaks.len() > 1 && self.are_platforms();
        Some(match are_rivals && !peaks[1..].iter().all(|(.., load)| is_below(load)) {
            true => {
                Highest::NoWinner(peaks.iter().map(|(line, point, _)| (*line, *point)).collect())
            }
            false => Highest::Peak(line, point),
        })
    }

    /// Returns true if the lines differ in a factor other than the workload: a target, a setting.
    fn are_platforms(&self) -> bool {
        let keys = self.lines.iter().flat_map(|line| &line.factors).map(|(key, _)| key);
        let value = |line: &PetalLine, name: &str| {
            line.factors.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
        };
        let differs = |key: &String| {
            let mut pairs = self.lines.windows(2);
            pairs.any(|two| value(&two[0], key) != value(&two[1], key))
        };
        keys.into_iter().any(|key| key != MIX && !is_workload(key) && differs(key))
    }
}
