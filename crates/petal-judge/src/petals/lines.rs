//! Groups observations into lines: a line joins observations that differ in sessions only. Repeats
//! of a cell are one point. Cells of different active data sets, or of other shares of readers and
//! writers, are never joined.

use std::collections::BTreeMap;

use super::{Estimate, PetalLine, Point};
use crate::by_key;
use crate::level::Level;
use crate::verdict::{not_storage, of_one_test};
use crate::{estimate, factor_words};
use petal_host::numbers;
use petal_record::conclusions::{LimitedBy, Limiter};
use petal_record::headline::AskedFor;
use petal_record::observation::{Observation, metric};

/// The factors that say how many sessions ran, the first that is there.
const SESSION_FACTORS: [&str; 5] = ["sessions", "threads_per_schema", "threads", READERS, WRITERS];
const READERS: &str = "readers";
const WRITERS: &str = "writers";
/// The factor that READERS and WRITERS become on a line.
const MIX: &str = "mix";

/// Returns true for a factor that is a number of sessions, of all or of one kind.
pub(super) fn is_sessions(key: &str) -> bool {
    SESSION_FACTORS.contains(&key)
}

/// Number of sessions that only read and that only write, if a run has such sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) readers: u32,
    pub(super) writers: u32,
}

impl Kinds {
    /// Factors first; a kind that was not varied is among the run's settings.
    pub(super) fn of(seen: &Observation) -> Option<Self> {
        let number = |key: &str| -> Option<u32> {
            let value = seen.factor(key).or_else(|| seen.context.get(key).map(String::as_str))?;
            value.parse().ok()
        };
        let (readers, writers) = (number(READERS), number(WRITERS));
        let kinds = Self { readers: readers.unwrap_or(0), writers: writers.unwrap_or(0) };
        (kinds.sessions() > 0).then_some(kinds)
    }

    fn sessions(self) -> u32 {
        self.readers.saturating_add(self.writers)
    }

    /// The share of each kind, in words: the same for every number of sessions of one mix.
    fn mix(self) -> String {
        match self {
            Self { writers: 0, .. } => "readers alone".to_owned(),
            Self { readers: 0, .. } => "writers alone".to_owned(),
            Self { readers, writers } => {
                let (mut divisor, mut rest) = (readers, writers);
                while rest > 0 {
                    (divisor, rest) = (rest, divisor % rest);
                }
                format!("readers {}, writers {}", readers / divisor, writers / divisor)
            }
        }
    }
}

/// Returns the lines, sorted by their factors, and the observations that were left out or split.
pub(super) fn of(observations: &[Observation]) -> (Vec<PetalLine>, Vec<String>) {
    let mut left_out: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let axis = axis(observations);
    let has_writers =
        observations.iter().any(|seen| Kinds::of(seen).is_some_and(|kinds| kinds.writers > 0));
    let mut drawn = Vec::new();
    for seen in observations {
        if let Some(reason) = seen.why_unusable() {
            left_out.entry(reason).or_default().push(&seen.source);
            continue;
        }
        let Some(sessions) = sessions(seen, axis) else {
            let reason = "the number of its sessions is not known";
            left_out.entry(reason.to_owned()).or_default().push(&seen.source);
            continue;
        };
        let kinds = Kinds::of(seen);
        let of_line = |key: &str| {
            Some(key) != axis && (kinds.is_none() || ![READERS, WRITERS].contains(&key))
        };
        let factors = seen.factors.iter().filter(|(key, _)| of_line(key)).cloned();
        let mix = kinds.filter(|_| has_writers).map(|kinds| (MIX.to_owned(), kinds.mix()));
        let factors: Vec<(String, String)> = factors.chain(mix).collect();
        drawn.push(((factors, seen.active_bytes), (sessions, seen)));
    }
    let groups = by_key(drawn).into_iter().map(|((factors, active_bytes), runs)| LineGroup {
        factors,
        active_bytes,
        cells: by_key(runs).into_iter().collect(),
    });
    let mut groups: Vec<LineGroup<'_>> = groups.collect();
    groups.sort_by_key(LineGroup::order);
    let mut notes: Vec<String> = left_out.iter().map(|(why, of)| not_drawn(why, of)).collect();
    notes.extend(split(&groups));
    let names = names(&groups);
    let lines = groups.iter().zip(names).map(|(group, name)| group.line(name)).collect();
    (lines, notes)
}

/// A note on the records that are not drawn for the same reason.
fn not_drawn(reason: &str, sources: &[&str]) -> String {
    match sources {
        [source] => format!("left-out: {source} is not drawn: {reason}"),
        several => {
            let (count, first) = (numbers::whole(several.len() as u64), several[0]);
            format!("left-out: {count} records are not drawn, {first} the first: {reason}")
        }
    }
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
            asked_for: self.asked_for(),
            ..PetalLine::default()
        }
    }

    /// The kind of test that all of its runs are; of physical I/O if they differ or do not say.
    fn asked_for(&self) -> AskedFor {
        let of = |seen: &&Observation| {
            seen.headline.as_ref().map_or(AskedFor::PhysicalIo, |it| it.verdict.asked_for)
        };
        let mut kinds = self.cells.values().flatten().map(of);
        let first = kinds.next().unwrap_or_default();
        if kinds.all(|kind| kind == first) { first } else { AskedFor::PhysicalIo }
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

/// Returns the factor if it is the sessions; else the run's own number, or the factors.
fn sessions(seen: &Observation, axis: Option<&str>) -> Option<u32> {
    let reported = || seen.factor(axis?)?.parse().ok();
    match axis {
        Some("sessions") => reported().or(seen.sessions),
        Some(READERS | WRITERS) => seen.sessions.or_else(|| Kinds::of(seen).map(Kinds::sessions)),
        _ => seen.sessions.or_else(reported),
    }
}

/// A figure that one of the repeats lacks is unknown for the point.
fn point(sessions: u32, repeats: &[&Observation]) -> Point {
    let (mut repeats, left_out) = of_one_test(repeats);
    repeats.sort_by_key(|seen| seen.repeat);
    let all = |name: &str| -> Option<Vec<f64>> { repeats.iter().map(|s| s.metric(name)).collect() };
    let is_by_figures = repeats.iter().any(|seen| seen.is_repeated_by_figures);
    let ended = |of: Estimate| if is_by_figures { of.anytime() } else { of };
    let plain = |name: &str| Estimate::of(all(name)?).map(ended);
    let percentile = |name: &str| Estimate::of_percentile(all(name)?).map(ended);
    let names = repeats.iter().flat_map(|seen| seen.metrics.keys());
    let means: BTreeMap<String, f64> =
        names.filter_map(|name| Some((name.clone(), estimate::mean(&all(name)?)?))).collect();
    Point {
        sessions,
        sources: repeats.iter().map(|seen| seen.source.clone()).collect(),
        left_out: left_out.len(),
        active_bytes: repeats.first().and_then(|seen| seen.active_bytes),
        piops: plain(metric::PIOPS),
        mb_s: plain(metric::MB),
        read_us: plain(metric::READ_US),
        ops_s: plain(metric::OPS),
        logical_reads_s: plain(metric::LOGICAL_READS),
        redo_mb_s: plain(metric::REDO_MB),
        op_p50_us: percentile(metric::OP_P50),
        op_p99_us: percentile(metric::OP_P99),
        warnings: repeats.iter().flat_map(|seen| seen.warnings.iter().cloned()).collect(),
        served_by: served_by(&repeats),
        limited_by: limited_by(&repeats),
        verdict: verdict(&repeats),
        not_storage: repeats.iter().find_map(|seen| not_storage(seen)).map(str::to_owned),
        elapsed_s: Estimate::of(repeats.iter().filter_map(|seen| seen.run_length_s()).collect()),
        means,
    }
}

/// The verdict that most of the repeats have, the first of equally frequent ones.
fn verdict(repeats: &[&Observation]) -> Option<String> {
    let known = repeats.iter().filter_map(|seen| Some(&seen.headline.as_ref()?.verdict.words));
    let counts = crate::by_key(known.map(|words| (words, ())));
    let most = counts.iter().rev().max_by_key(|(_, repeats)| repeats.len());
    most.map(|(words, _)| (*words).clone())
}

/// Returns the layers of the repeat to which the device served the least.
fn served_by(repeats: &[&Observation]) -> Option<String> {
    let known = repeats.iter().filter_map(|seen| Some((seen, seen.served_by.as_ref()?)));
    let device = |seen: &Observation| seen.metric(metric::SERVED_DEVICE).unwrap_or(0.0);
    let least = known.min_by(|a, b| device(a.0).total_cmp(&device(b.0)));
    least.map(|(_, served)| served.words.clone())
}

/// The limit that most of the repeats met, with the mean of its figure over these repeats.
fn limited_by(repeats: &[&Observation]) -> Option<String> {
    let known: Vec<&LimitedBy> =
        repeats.iter().filter_map(|seen| seen.limited_by.as_ref()).collect();
    let alike = |by: Limiter| known.iter().copied().filter(move |limit| limit.by == by);
    // The first of those that are as frequent.
    let limit = known.iter().rev().max_by_key(|limit| alike(limit.by).count())?;
    if limit.shared_with.is_some() {
        let (times, all) = (alike(limit.by).count(), repeats.len());
        let times =
            if times < all { format!(" ({times} of {all} repeats)") } else { String::new() };
        return Some(format!("{}{times}", limit.words));
    }
    let figures: Option<Vec<f64>> = alike(limit.by).map(figure).collect();
    let (name, more) = limit.words.split_once(" (").unwrap_or((&limit.words, ""));
    let of = if limit.by == Limiter::Processors { "busy" } else { "of DB time" };
    // The class of waits with the largest share, if none is a limit.
    let largest = more.split_once(", ").filter(|_| limit.by == Limiter::NotDetermined);
    let largest = largest.map_or_else(String::new, |(class, _)| format!("{class}, "));
    let figure = match figures.and_then(|figures| estimate::mean(&figures)) {
        Some(mean) => format!("{largest}{mean:.0} % {of}"),
        None if alike(limit.by).all(|other| other.words == limit.words) => {
            more.trim_end_matches(')').to_owned()
        }
        None => String::new(),
    };
    let (times, all) = (alike(limit.by).count(), repeats.len());
    let times = (times < all).then(|| format!("{times} of {all} repeats"));
    let more: Vec<String> = [figure].into_iter().filter(|it| !it.is_empty()).chain(times).collect();
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join("; ")) };
    Some(format!("{name}{more}"))
}

/// The percentage that a limit rests on: of all processors, or of DB time; None if it has no such figure.
fn figure(limit: &LimitedBy) -> Option<f64> {
    let of = |name: &str| limit.evidence.get(name)?.as_f64();
    let is_part_of_db_time = limit.words.ends_with("% of DB time)");
    let share = || {
        let waited = || Some(of("wait_time_s")? / of("db_time_s")?);
        Some(100.0 * of("share_of_db_time").or_else(waited)?)
    };
    match limit.by {
        // The log writer's processor is one of them.
        Limiter::Processors => of("busy_percent").filter(|_| of("processor").is_none()),
        _ => share().filter(|_| is_part_of_db_time),
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
                let plural = if sessions == ["1"] { "" } else { "s" };
                format!("{} at {} session{plural}", active(group.active_bytes), sessions.join(", "))
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
    bytes.map_or("unknown".to_owned(), numbers::bytes)
}

/// Returns names by the factors that distinguish the lines; for a single line all constant factors.
fn names(groups: &[LineGroup<'_>]) -> Vec<String> {
    let differs = |key: &str| {
        let of =
            |group: &LineGroup<'_>| group.factors.iter().find(|(name, _)| name == key).cloned();
        groups.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]))
    };
    groups
        .iter()
        .map(|group| {
            let distinct = group.factors.iter().filter(|(key, _)| differs(key));
            let mut name = factor_words(distinct);
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
