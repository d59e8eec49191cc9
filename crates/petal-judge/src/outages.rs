//! Outages of a run whose sessions reconnect: how long no operation succeeded, when the rate was
//! back, and which commits were lost or in doubt.

use std::collections::{BTreeMap, HashMap};

use serde_json::json;

use petal_host::facts::FactKind;
use petal_host::numbers::{decimal, whole};
use petal_record::Run;
use petal_record::connections::{
    CommitOutcome, ConnectionLoss, ConnectionLosses, DoubtfulCommit, KindOutage, Outage, Silence,
};
use petal_record::ledger::Ledger;
use petal_workload::op::Kind;
use petal_workload::version::{RunStamps, Version};

use super::judgement::{FindingParts as _, Judgement, NoFinding, error, info, warning};

/// Losses are of one outage if no more time passed since the one before was over.
const OUTAGE_MERGE_GAP_S: f64 = 1.0;
/// Time before an outage in which its rate is taken, and its least part.
const BEFORE_S: f64 = 10.0;
const BEFORE_MIN_S: f64 = 1.0;
/// Time in which a rate must be back.
const BACK_S: f64 = 1.0;

/// The outages of a run, in order; None if sessions that lose their connection are lost.
pub(crate) fn of(run: &Run) -> Option<Vec<Outage>> {
    let seen = run.details.connections.as_ref()?;
    let mut groups: Vec<Vec<&ConnectionLoss>> = Vec::new();
    let mut over_s = f64::NEG_INFINITY;
    for loss in &seen.losses {
        match groups.last_mut().filter(|_| loss.at_s <= over_s + OUTAGE_MERGE_GAP_S) {
            Some(group) => group.push(loss),
            None => groups.push(vec![loss]),
        }
        over_s = over_s.max(loss.back_s.unwrap_or(f64::INFINITY));
    }
    Some(groups.iter().map(|losses| outage(seen, losses)).collect())
}

fn outage(seen: &ConnectionLosses, losses: &[&ConnectionLoss]) -> Outage {
    let first_error_s = losses.iter().map(|loss| loss.at_s).fold(f64::INFINITY, f64::min);
    let ends = losses.iter().map(|loss| loss.back_s.unwrap_or(f64::INFINITY));
    let until_s = ends.fold(first_error_s, f64::max);
    let length =
        |silence: &Silence| silence.until_s.unwrap_or(seen.end_s) - silence.from_s.unwrap_or(0.0);
    let longest = |kind| {
        let of_kind = seen.silences.iter().filter(move |silence| {
            silence.kind == kind
                && silence.from_s.unwrap_or(0.0) <= until_s
                && silence.until_s.unwrap_or(f64::INFINITY) >= first_error_s
        });
        of_kind.max_by(|a, b| length(a).total_cmp(&length(b)))
    };
    let of_kind = |silence: Option<&Silence>| KindOutage {
        last_success_s: silence.and_then(|it| it.from_s),
        first_success_s: silence.and_then(|it| it.until_s),
        down_s: match silence {
            None => Some(0.0),
            Some(silence) => silence.from_s.zip(silence.until_s).map(|(from, until)| until - from),
        },
    };
    let all = of_kind(longest(None));
    let kinds = Kind::ALL.into_iter().filter_map(|kind| Some((kind, longest(Some(kind))?)));
    let back_after = |share| rate_back_after_s(seen, &all, share);
    let mut in_doubt = BTreeMap::new();
    for doubt in losses.iter().filter_map(|loss| loss.in_doubt.as_ref()) {
        *in_doubt.entry(doubt.outcome).or_default() += 1;
    }
    let mut sessions: Vec<u32> = losses.iter().map(|loss| loss.session).collect();
    sessions.sort_unstable();
    sessions.dedup();
    Outage {
        first_error_s,
        last_success_s: all.last_success_s,
        first_success_s: all.first_success_s,
        down_s: all.down_s,
        by_kind: kinds.map(|(kind, it)| (kind.name().to_owned(), of_kind(Some(it)))).collect(),
        half_rate_after_s: back_after(0.5),
        full_rate_after_s: back_after(0.95),
        sessions: sessions.len() as u32,
        not_back: losses.iter().filter(|loss| loss.back_s.is_none()).count() as u32,
        lost_at: counted(losses.iter().filter_map(|loss| loss.server.clone())),
        back_at: counted(losses.iter().filter_map(|loss| loss.back_at.clone())),
        errors: counted(losses.iter().map(|loss| loss.code.clone())),
        wrong_servers: counted(losses.iter().filter_map(|loss| loss.wrong_server.clone()))
            .into_keys()
            .collect(),
        in_doubt,
    }
}

fn counted(names: impl Iterator<Item = String>) -> BTreeMap<String, u64> {
    names.fold(BTreeMap::new(), |mut counts, name| {
        *counts.entry(name).or_default() += 1;
        counts
    })
}

/// Time from the last success until a second began in which successes came at this share of the
/// rate before.
fn rate_back_after_s(seen: &ConnectionLosses, all: &KindOutage, share: f64) -> Option<f64> {
    let (last_s, first_s) = all.last_success_s.zip(all.first_success_s)?;
    let successes = |from_s: f64, until_s: f64| {
        let within = seen.steps.iter().filter(|step| (from_s..until_s).contains(&step.at_s));
        within.map(|step| step.successes).sum::<u64>() as f64 / (until_s - from_s)
    };
    let whole = |at_s: f64| (at_s / seen.step_s).floor() * seen.step_s;
    let known_s = seen.steps.first()?.at_s;
    let (from_s, until_s) = ((last_s - BEFORE_S).max(known_s), whole(last_s));
    if until_s - from_s < BEFORE_MIN_S {
        return None;
    }
    let before = successes(from_s, until_s);
    let mut at_s = whole(first_s);
    let end_s = seen.steps.last()?.at_s - BACK_S;
    while at_s <= end_s {
        if successes(at_s, at_s + BACK_S) >= before * share {
            return Some(at_s.max(first_s) - last_s);
        }
        at_s += seen.step_s;
    }
    None
}

/// Names the time without a success.
pub(super) fn judge(run: &Run) -> Judgement {
    let outages = run.summary.outages.clone().or_else(|| of(run)).unwrap_or_default();
    let first = outages.first().ok_or(NoFinding::Clear)?;
    let down: Vec<Option<f64>> = outages.iter().map(|outage| outage.down_s).collect();
    let longest_s = down.iter().copied().collect::<Option<Vec<f64>>>();
    let longest_s = longest_s.map(|all| all.into_iter().fold(0.0, f64::max));
    let times = match outages.len() {
        1 => {
            format!("sessions lost their connections at second {}", decimal(first.first_error_s, 1))
        }
        more => format!("sessions lost their connections {} times", whole(more as u64)),
    };
    let (message, is_over) = match longest_s {
        Some(0.0) => (format!("{times}; others went on meanwhile"), true),
        Some(longest_s) => (
            format!("{times}; no operation succeeded for {} s at most", decimal(longest_s, 2)),
            true,
        ),
        None => (format!("{times}; operations did not succeed again before the end"), false),
    };
    let changes = run.details.facts.iter().flat_map(|proof| &proof.changes);
    let mut started = changes.filter(|change| change.kind == FactKind::Start);
    let started = started.next().map(|it| format!("; the server started again {}", it.when()));
    let message = message + &started.unwrap_or_default();
    let advice =
        "The section of outages has the times. Rates and latencies of the run contain them.";
    let judged = if is_over { info(message, advice) } else { error(message, advice) };
    judged.with(json!({ "outages": outages.len(), "down_s": down }))
}

/// Names commits that are lost by the ledger, which was verified after the run.
pub(super) fn lost_commits(run: &Run) -> Judgement {
    let verified = run.details.verification.as_ref().ok_or(NoFinding::Clear)?;
    let advice = "These commits were acknowledged. Look at the durability of commits and at the \
                  replication's mode, synchronous or not.";
    if verified.is_kept() {
        return Err(NoFinding::Clear);
    }
    let first_s = verified.first_lost_s;
    let figures = json!({
        "acknowledged_commits": verified.acknowledged_commits,
        "lost_commits": verified.lost_commits, "first_lost_s": first_s,
        "overwritten_commits": verified.overwritten_commits,
    });
    let since = first_s.map_or_else(String::new, |s| format!(", from second {} on", decimal(s, 2)));
    let more = match verified.overwritten_commits.unwrap_or(0) {
        0 => String::new(),
        more => format!("; {} more may be, because others changed their rows again", whole(more)),
    };
    let message = format!(
        "{} of {} acknowledged commits are lost{since}{more}; {} rows are damaged",
        whole(verified.lost_commits),
        whole(verified.acknowledged_commits),
        whole(verified.bad_rows)
    );
    match verified.lost_commits {
        0 => warning(message, advice),
        _ => error(message, advice),
    }
    .with(figures)
}

/// Decides commits in doubt by the stamps that their rows hold after the run.
pub struct InDoubtResolver {
    stamps: RunStamps,
    sessions: u32,
    /// Time of the acknowledgement of each commit of the ledger.
    acknowledged_ns: HashMap<Version, u64>,
}

impl InDoubtResolver {
    pub fn new(stamps: RunStamps, sessions: u32, ledger: Option<&Ledger>) -> Self {
        let commits = ledger.iter().flat_map(|ledger| &ledger.commits);
        let acknowledged_ns = commits.map(|commit| (commit.version, commit.end_ns)).collect();
        Self { stamps, sessions, acknowledged_ns }
    }

    /// The outcome by the stamps of the commit's rows.
    pub fn outcome(&self, doubt: &DoubtfulCommit, found: &[u64]) -> CommitOutcome {
        if found.contains(&doubt.stamp) {
            return CommitOutcome::Committed;
        }
        let Some(own) = self.stamps.version(doubt.stamp, self.sessions) else {
            return CommitOutcome::Unknown;
        };
        let is_older = |&stamp: &u64| {
            let Some(there) = self.stamps.version(stamp, self.sessions) else {
                // Of the load, or of a run before.
                return true;
            };
            if there.session == own.session {
                return there.sequence < own.sequence;
            }
            let acknowledged_ns = self.acknowledged_ns.get(&there);
            acknowledged_ns.is_some_and(|&ns| (ns as f64) < doubt.begin_s * 1e9)
        };
        match found.iter().any(is_older) {
            true => CommitOutcome::NotCommitted,
            false => CommitOutcome::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::connections::SuccessStep;

    fn loss(session: u32, at_s: f64, first_success_s: Option<f64>) -> ConnectionLoss {
        ConnectionLoss {
            session,
            at_s,
            code: "57P01".to_owned(),
            server: Some("one".to_owned()),
            back_s: first_success_s,
            back_at: first_success_s.map(|_| "two".to_owned()),
            first_success_s,
            ..ConnectionLoss::default()
        }
    }

    fn silence(kind: Option<Kind>, from_s: f64, until_s: Option<f64>) -> Silence {
        Silence { kind, from_s: Some(from_s), until_s }
    }

    /// A hundred successes a second, none from second 10 to 14, half as many up to 16.
    fn seen() -> ConnectionLosses {
        let successes = |at: u64| match at {
            0..100 => 10,
            100..140 => 0,
            140..160 => 5,
            _ => 10,
        };
        let step = |at| SuccessStep { at_s: at as f64 / 10.0, successes: successes(at) };
        ConnectionLosses {
            losses: vec![loss(1, 10.0, Some(14.0)), loss(2, 10.1, Some(14.2))],
            end_s: 25.0,
            losses_total: 2,
            silences: vec![
                silence(None, 9.99, Some(14.0)),
                silence(Some(Kind::Select), 9.9, Some(14.2)),
                silence(Some(Kind::Select), 3.0, Some(3.1)),
            ],
            step_s: 0.1,
            steps: (0..250).map(step).collect(),
            ..ConnectionLosses::default()
        }
    }

    fn run(seen: ConnectionLosses) -> Run {
        let mut run = Run::default();
        run.details.connections = Some(seen);
        run
    }

    #[test]
    fn an_outage_has_its_length_and_the_time_until_the_rate_was_back() {
        let outages = of(&run(seen())).unwrap();
        let [outage] = outages.as_slice() else { panic!("{outages:?}") };
        assert_eq!((outage.first_error_s, outage.last_success_s), (10.0, Some(9.99)));
        assert!((outage.down_s.unwrap() - 4.01).abs() < 1e-9);
        assert!((outage.by_kind["select"].down_s.unwrap() - 4.3).abs() < 1e-9);
        assert!((outage.half_rate_after_s.unwrap() - 4.01).abs() < 0.11, "{outage:?}");
        assert!((outage.full_rate_after_s.unwrap() - 6.01).abs() < 0.11, "{outage:?}");
        assert_eq!((outage.sessions, outage.not_back), (2, 0));
        assert_eq!(
            (outage.lost_at["one"], outage.back_at["two"], outage.errors["57P01"]),
            (2, 2, 2)
        );
    }

    #[test]
    fn losses_that_are_apart_are_several_outages_and_one_without_a_silence_has_no_length() {
        let mut seen = seen();
        seen.losses.push(loss(1, 18.0, Some(18.01)));
        let outages = of(&run(seen)).unwrap();
        assert_eq!(outages.len(), 2);
        assert_eq!(outages[1].down_s, Some(0.0));
    }

    #[test]
    fn an_outage_without_an_end_is_an_error_and_its_length_is_unknown() {
        let mut seen = seen();
        seen.losses = vec![loss(1, 10.0, None)];
        seen.silences = vec![silence(None, 9.0, Some(9.9)), silence(None, 9.99, None)];
        let run = run(seen);
        let outages = of(&run).unwrap();
        assert_eq!((outages[0].down_s, outages[0].not_back), (None, 1));
        let finding = judge(&run).unwrap();
        assert_eq!(finding.severity, petal_record::Severity::Error);
        assert!(judge(&Run::default()).is_err());
    }

    #[test]
    fn a_commit_in_doubt_is_decided_by_its_rows() {
        let stamps = RunStamps::of_mask(7);
        let stamp = |session, sequence| stamps.stamp(Version { session, sequence });
        let doubt =
            DoubtfulCommit { stamp: stamp(1, 10), begin_s: 5.0, ..DoubtfulCommit::default() };
        let mut judge = InDoubtResolver::new(stamps, 2, None);
        let other = stamp(2, 4);
        judge.acknowledged_ns.insert(Version { session: 2, sequence: 4 }, 4_000_000_000);
        for (found, outcome) in [
            (vec![stamp(1, 10), stamp(1, 12)], CommitOutcome::Committed),
            (vec![stamp(1, 9)], CommitOutcome::NotCommitted),
            // Of the load.
            (vec![u64::MAX], CommitOutcome::NotCommitted),
            // Acknowledged before it began.
            (vec![other], CommitOutcome::NotCommitted),
            (vec![stamp(1, 11)], CommitOutcome::Unknown),
            (vec![stamp(2, 5)], CommitOutcome::Unknown),
            (vec![], CommitOutcome::Unknown),
        ] {
            assert_eq!(judge.outcome(&doubt, &found), outcome, "{found:?}");
        }
    }
}
