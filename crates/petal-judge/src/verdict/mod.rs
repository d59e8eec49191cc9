//! The headline of a run: the tested resource, the validity of the test, and the figures that this
//! allows. It is made once from the record and its findings; every report reads the stored one.
//!
//! [`effects`] is the table of the findings that decide a verdict, [`next`] makes the command to
//! type next, [`source`] names the source of the reads.

use std::borrow::Cow;

pub mod effects;
pub(crate) mod next;
mod source;
#[cfg(test)]
mod tests;

use super::limited_by::limited_by;
use super::{
    elasticity, findings, interference, limits, other_processors, outages, physical, read_time,
    resources, waterfall, write_ledger,
};
use effects::Makes;
use petal_record::conclusions::{LimitedBy, Limiter, ReadSource, ServedBy};
use petal_record::headline::{
    AskedFor, CoveredTime, Headline, HeadlineFigures, LogicalReadRate, Piops, RedoRate, Tested,
    Validity, Verdict, VerdictReason,
};
use petal_record::observation::Observation;
use petal_record::{Finding, HeadlineWindow, Run, Status, Window};
use serde_json::json;

/// Judges a run: puts its findings, the source of its reads, its limit and its headline into its
/// summary.
pub fn conclude(run: &mut Run) {
    run.summary.outages = outages::of(run);
    run.summary.interference = interference::of(run);
    conclude_shown(run);
    run.summary.findings = findings::judge(run);
    run.summary.write_ledger = write_ledger::of(run);
    run.summary.headline = Some(made(run));
}

/// Puts the conclusions about the time of the headline into a run's summary.
fn conclude_shown(run: &mut Run) {
    let HeadlineWindow { run: shown, .. } = run.headline_window();
    let (served_by, limited_by) = (served_by(run, &shown), limited_by(&shown));
    let elasticity = elasticity::of(run);
    let (resources, waterfall) = (resources::of(&shown), waterfall::of(&shown));
    let limited_by = elasticity::proven(&elasticity, limited_by, waterfall.as_ref());
    (run.summary.served_by, run.summary.limited_by) = (Some(served_by), Some(limited_by));
    (run.summary.resources, run.summary.elasticity) = (resources, elasticity);
    run.summary.waterfall = waterfall;
}

/// Adds the finding on missing parts of a record to a run that was judged before.
pub fn tell_gaps(run: &mut Run) {
    const GAPS: &str = "gaps";
    let gaps = json!(run.details.gaps);
    let is_told = match run.summary.finding(GAPS) {
        Some(finding) => finding.evidence.get(GAPS) == Some(&gaps),
        None => run.details.gaps.is_empty(),
    };
    if !is_told {
        let found = findings::judge(run).into_iter().find(|finding| finding.id == GAPS);
        run.summary.findings.retain(|finding| finding.id != GAPS);
        run.summary.findings.extend(found);
    }
}

/// The headline of a run: the recorded one, or a new one if the run was not judged.
pub fn headline(run: &Run) -> Headline {
    run.summary.headline.clone().unwrap_or_else(|| made(run))
}

/// The finding that makes a run no storage test, although it asked for one: a cache or memory served
/// it, or others' work on the processors limited it. None for any other run. A row of a table has no
/// verdict, but the ids of its findings or the source of its reads.
pub fn not_storage(seen: &Observation) -> Option<&str> {
    if let Some(headline) = &seen.headline {
        if is_of_others_alone(seen) {
            return Some(OTHER_LOAD);
        }
        let is_one = headline.verdict.validity == Validity::NotStorage;
        return headline.verdict.reason.as_ref().filter(|_| is_one).map(|it| it.finding.as_str());
    }
    let is_one = |id: &&String| effects::of_table(id);
    let by_source = || seen.served_by.as_ref().filter(|served| served.is_by_cache());
    let found = seen.warnings.iter().find(is_one).map(String::as_str);
    found.or_else(|| by_source().map(|_| "served by a cache"))
}

/// The source of the reads in the window that is shown; if its counts are too few to say, of the whole run, as the
/// findings have it.
fn served_by(run: &Run, shown: &Run) -> ServedBy {
    let served_by = source::served_by(shown);
    match served_by.by {
        ReadSource::Unknown => source::served_by(run),
        _ => served_by,
    }
}

/// The finding on others' work.
pub(crate) const OTHER_LOAD: &str = "other-load";
/// Reason why some runs are in no mean of storage.
pub(crate) const OF_OTHERS_ALONE: &str =
    "others' work on the processors limited them, so they are no tests of the storage";

/// True for a valid run whose limit is processors that others use, too, and nothing else: it asked
/// for storage and says nothing of it.
pub(crate) fn is_of_others_alone(seen: &Observation) -> bool {
    seen.headline.as_ref().is_some_and(|Headline { verdict, limited_by, .. }| {
        let Verdict { tested, asked_for, .. } = verdict;
        verdict.is_valid()
            && (*tested, *asked_for) == (Tested::SharedProcessors, AskedFor::PhysicalIo)
            && limited_by.shared_with.is_none()
    })
}

/// The runs that are tests of the same thing: without those of others' processors alone, unless all
/// are. Returns the others, too.
pub fn of_one_test<'a>(runs: &[&'a Observation]) -> (Vec<&'a Observation>, Vec<&'a Observation>) {
    let (of_others, kept): (Vec<_>, Vec<_>) =
        runs.iter().copied().partition(|seen| is_of_others_alone(seen));
    if kept.is_empty() { (of_others, kept) } else { (kept, of_others) }
}

fn made(run: &Run) -> Headline {
    let HeadlineWindow { run: shown, window } = run.headline_window();
    let served_by = run.summary.served_by.clone().unwrap_or_else(|| served_by(run, &shown));
    let limited_by = run.summary.limited_by.clone().unwrap_or_else(|| limited_by(&shown));
    let decided = decide(run, &shown, &served_by, &limited_by);
    let is_steady = matches!(window, Window::Steady { .. });
    let (figures, struck_out) = allowed(figures(&shown, is_steady), decided.verdict.validity);
    let (from_s, to_s) = window.seconds(run);
    let window = CoveredTime { from_s, to_s, words: window.to_string() };
    let Decided { verdict, next } = decided;
    Headline { verdict, figures, struck_out, served_by, limited_by, window, next }
}

struct Decided {
    verdict: Verdict,
    next: String,
}

/// Judges by the gravest finding with an effect; without one the run is a valid test of its limit, and one
/// host's share of a run is not judged.
fn decide(run: &Run, shown: &Run, served_by: &ServedBy, limited_by: &LimitedBy) -> Decided {
    let asked_for = asked_for(shown);
    let is_shared = is_of_others(shown, limited_by.by);
    let judged = findings_of(run);
    let Some((effect, finding)) = effects::gravest(run, &judged, asked_for) else {
        let tested = tested(asked_for, served_by, limited_by, is_shared);
        let second = second_tested(shown, asked_for, served_by, limited_by);
        let is_others = [Some(tested), second].contains(&Some(Tested::SharedProcessors));
        let what = tested_words(tested, second, asked_for);
        let words = match limited_by.by {
            // One driver host's share: findings about the database's work are of the merged run.
            Limiter::NotJudged => limited_by.words.clone(),
            _ => format!("valid test of {what}{}", ended(run)),
        };
        let verdict = Verdict { tested, words, asked_for, ..Verdict::default() };
        return Decided { verdict, next: next::after_valid(run, limited_by, is_others) };
    };
    let (validity, tested, words) = match effect.makes {
        Makes::Invalid => {
            let tested = tested(asked_for, served_by, limited_by, is_shared);
            (Validity::Invalid, tested, "invalid")
        }
        Makes::NotStorage(tested) => (Validity::NotStorage, tested, "not a storage test"),
    };
    let (finding, sentence) = (finding.id.clone(), finding.message.clone());
    let reason = Some(VerdictReason { finding, sentence });
    let verdict = Verdict { tested, validity, words: words.to_owned(), reason, asked_for };
    Decided { verdict, next: (effect.next)(run) }
}

/// The resource that shares the limit, if a verdict names it.
fn second_tested(
    shown: &Run,
    asked_for: AskedFor,
    served_by: &ServedBy,
    limited_by: &LimitedBy,
) -> Option<Tested> {
    let by = limited_by.shared_with?;
    let second = LimitedBy { by, ..LimitedBy::default() };
    Some(tested(asked_for, served_by, &second, is_of_others(shown, by)))
}

/// The tested resource in words, with the second one of a shared limit if others work on either.
/// Processors of others alone say nothing about the storage.
fn tested_words(first: Tested, second: Option<Tested>, asked_for: AskedFor) -> String {
    let words = first.words();
    let is_of_others = |tested: Tested| tested == Tested::SharedProcessors;
    match second.filter(|second| is_of_others(first) != is_of_others(*second)) {
        Some(second) if is_of_others(second) => format!("{words} and of {}", second.words()),
        Some(second) => format!("{words}, and of {}", second.words()),
        None if is_of_others(first) && asked_for == AskedFor::PhysicalIo => {
            format!("{words}, not of the storage")
        }
        None => words.to_owned(),
    }
}

/// Words for a valid run that did not end as planned.
fn ended(run: &Run) -> &'static str {
    match run.summary.status {
        Status::Interrupted if run.is_still_running() => ", so far",
        Status::Interrupted => ", interrupted",
        _ => "",
    }
}

/// The recorded findings, or those of a run that was not judged.
fn findings_of(run: &Run) -> Cow<'_, [Finding]> {
    match run.summary.findings.is_empty() {
        true => findings::judge(run).into(),
        false => run.summary.findings.as_slice().into(),
    }
}

/// The kind of test that the settings ask for, with the data and the cache that they meet.
fn asked_for(run: &Run) -> AskedFor {
    let ops = &run.summary.ops;
    match physical::is_cached(run) {
        false => AskedFor::PhysicalIo,
        true if ops.update > 0 && ops.select + ops.scan == 0 => AskedFor::Redo,
        true => AskedFor::LogicalReads,
    }
}

/// The resource whose speed a valid run shows: the one that limited it, unless that is the work
/// which was asked for. `is_shared`: others' work is a part of a limit on processors.
fn tested(
    asked_for: AskedFor,
    served_by: &ServedBy,
    limited_by: &LimitedBy,
    is_shared: bool,
) -> Tested {
    let by_source = match (asked_for, served_by.by) {
        (AskedFor::LogicalReads, _) => Tested::DatabaseCache,
        (AskedFor::Redo, _) => Tested::Log,
        (AskedFor::PhysicalIo, ReadSource::Unknown | ReadSource::Several) => Tested::UnseenStorage,
        (AskedFor::PhysicalIo, _) => Tested::Device,
    };
    match limited_by.by {
        Limiter::Processors | Limiter::SessionProcessorTime | Limiter::OthersWork => {
            match asked_for {
                AskedFor::LogicalReads => by_source,
                _ if is_shared => Tested::SharedProcessors,
                _ => Tested::Processors,
            }
        }
        Limiter::Petal => Tested::Petal,
        Limiter::ThinkTime => Tested::ThinkTime,
        Limiter::Rate => Tested::Rate,
        Limiter::Log | Limiter::LogRoom => Tested::Log,
        Limiter::Replica => Tested::Replica,
        Limiter::Contention | Limiter::Locks => Tested::Locks,
        Limiter::Network => Tested::Network,
        Limiter::OtherWaits => Tested::Waits,
        Limiter::IoLimit | Limiter::Reads | Limiter::NotJudged | Limiter::NotDetermined => {
            by_source
        }
    }
}

/// True if others' work is a part of the limit on processors.
fn is_of_others(run: &Run, limiter: Limiter) -> bool {
    match limiter {
        Limiter::OthersWork => true,
        Limiter::Processors => limits::others_at_limit(run).is_some(),
        _ => false,
    }
}

fn figures(shown: &Run, is_steady: bool) -> HeadlineFigures {
    let (summary, per_second) = (&shown.summary, &shown.summary.per_second);
    let (reads, writes) = (per_second.physical_read_requests, per_second.physical_write_requests);
    let per_s = per_second.logical_reads.filter(|_| physical::is_cached(shown));
    let read = read_time::of(shown, is_steady);
    HeadlineFigures {
        piops: Piops { reads, writes, sum: summary.piops() },
        read_us: read.map(|(us, _)| us),
        read_us_stand_in: read.and_then(|(_, clock)| clock),
        read_parts: read.and_then(|(us, clock)| match clock {
            None => waterfall::of_read(shown, us),
            Some(_) => None,
        }),
        redo: RedoRate {
            mb_s: per_second.redo_bytes.map(|bytes| bytes / 1e6),
            commits_s: per_second.commits,
        },
        logical_reads: per_s.map(|per_s| LogicalReadRate {
            per_s,
            per_core_s: own_processors(shown).map(|own| per_s / own),
        }),
    }
}

/// Processors' worth of work of petal and the database.
fn own_processors(shown: &Run) -> Option<f64> {
    let in_petal = || {
        let own_s = shown.summary.petal_cpu_s.filter(|_| shown.details.target.in_process)?;
        Some(own_s / shown.summary.elapsed_s)
    };
    let at_work = other_processors::at_work(shown).map(|at_work| at_work.own);
    at_work.or_else(in_petal).filter(|own| *own > 0.0)
}

/// The figures that are results, and those that are struck out.
fn allowed(all: HeadlineFigures, validity: Validity) -> (HeadlineFigures, Option<HeadlineFigures>) {
    let none = HeadlineFigures::default();
    match validity {
        Validity::Valid => (all, None),
        Validity::NotStorage => (
            HeadlineFigures { redo: all.redo, ..none },
            Some(HeadlineFigures { redo: none.redo, ..all }),
        ),
        Validity::Invalid => (none, Some(all)),
    }
}
