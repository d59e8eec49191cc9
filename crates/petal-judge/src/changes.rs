//! Judges facts that changed during a run: settings, limits, the server itself.

use petal_host::facts::{FactChange, FactKind};
use petal_record::Run;
use serde_json::{Value, json};

use super::and_more;
use super::judgement::{
    FindingParts as _, Judgement, NoFinding, clear_if, error, info, known, warning,
};

/// Changes that a finding names.
const SHOWN: usize = 4;

/// Changes that may have met an operation.
fn changes(
    run: &Run,
    is_meant: impl Fn(&FactChange) -> bool,
) -> Result<Vec<&FactChange>, NoFinding> {
    let proof = known(run.details.facts.as_ref(), "petal did not read the facts again")?;
    let in_time = |change: &&FactChange| change.between_s.0 < run.summary.elapsed_s;
    let all: Vec<_> = proof.changes.iter().filter(in_time).filter(|it| is_meant(it)).collect();
    clear_if(all.is_empty())?;
    Ok(all)
}

fn in_words(changes: &[&FactChange]) -> String {
    let words: Vec<String> = changes.iter().take(SHOWN).map(|change| change.words()).collect();
    let more = and_more("; ", changes.len().saturating_sub(SHOWN));
    format!("{}{more}", words.join("; "))
}

/// The changes, and their seconds, which charts mark.
fn evidence(changes: &[&FactChange]) -> Value {
    let at_s = changes.iter().map(|change| change.between_s.0.floor());
    json!({ "changes": changes, "changed_at_s": at_s.collect::<Vec<_>>() })
}

/// Settings of the server. The record states those that decide the figures.
pub(super) fn settings(run: &Run) -> Judgement {
    let is_stated = |change: &FactChange| {
        let name = change.name.rsplit(": ").next().unwrap_or_default();
        change.kind == FactKind::Table
            || run.details.target.settings.iter().any(|(stated, _)| stated == name)
    };
    let is_meant = |kind| matches!(kind, FactKind::Setting | FactKind::Table);
    let mut all = changes(run, |change| is_meant(change.kind))?;
    all.sort_by_key(|change| !is_stated(change));
    let what = match all.iter().any(|change| change.kind == FactKind::Table) {
        true => "petal's tables",
        false => "settings of the server",
    };
    let words = format!("{what} changed during the run: {}", in_words(&all));
    let figures = evidence(&all);
    match all.first().is_some_and(|first| is_stated(first)) {
        true => warning(
            format!("{words}. The figures mix both"),
            "Run it again while nobody changes the server.",
        ),
        false => info(words, "Run it again without the change if it may affect the figures."),
    }
    .with(figures)
}

/// Limits of the processes, and settings of the host.
pub(super) fn limits(run: &Run) -> Judgement {
    let since = run.details.facts.iter().flat_map(|proof| &proof.since_first_cell);
    let since: Vec<&FactChange> = since.collect();
    if !since.is_empty() {
        let values = since.iter().take(SHOWN).map(|change| change.values());
        let more = and_more("; ", since.len().saturating_sub(SHOWN));
        return warning(
            format!(
                "limits of the host differ from the sweep's first cell: {}{more}. The cells are \
                 not of one platform",
                values.collect::<Vec<_>>().join("; ")
            ),
            "Put the limit back, and begin the sweep again (--fresh).",
        )
        .with(json!({ "since_first_cell": since }));
    }
    let all = changes(run, |change| matches!(change.kind, FactKind::Limit | FactKind::Host))?;
    warning(
        format!(
            "limits of the host changed during the run: {}. The figures mix both",
            in_words(&all)
        ),
        "Run it again while nobody changes them; petal report --timeline writes each second's rate.",
    )
    .with(evidence(&all))
}

/// Another server or load at the address, or a restart that was not part of the test.
pub(super) fn server(run: &Run) -> Judgement {
    let others = changes(run, |change| change.kind == FactKind::Identity);
    if let Ok(others) = others {
        return error(
            format!(
                "another server or another load answered than at the start: {}",
                in_words(&others)
            ),
            "Use no figure of it. Find out which server answers at this address.",
        )
        .with(evidence(&others));
    }
    // Outages are a part of a test that connects again.
    clear_if(run.details.connections.is_some())?;
    let started = changes(run, |change| change.kind == FactKind::Start)?;
    warning(
        format!("the server started again during the run: {}", in_words(&started)),
        "Run it again; see the server's log for the reason.",
    )
    .with(evidence(&started))
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::facts::FactsProof;
    use petal_record::{Finding, Severity, fixture};

    fn change(kind: FactKind, name: &str, values: (&str, &str)) -> FactChange {
        FactChange {
            kind,
            name: name.to_owned(),
            before: Some(values.0.to_owned()),
            after: Some(values.1.to_owned()),
            between_s: (1.0, 2.0),
        }
    }

    fn changed(changes: Vec<FactChange>) -> Run {
        let mut run = fixture::mixed_run();
        run.details.target.settings = vec![("fsync".to_owned(), "on".to_owned())];
        run.details.keep_facts(FactsProof { count: 9, changes, ..FactsProof::default() });
        run
    }

    fn found(judged: Judgement) -> Finding {
        judged.unwrap_or_else(|why| panic!("{why:?}"))
    }

    #[test]
    fn a_changed_setting_is_named_with_its_second_and_weighed_by_its_effect() {
        use FactKind::Setting;
        let other = change(Setting, "work_mem", ("4MB", "8MB"));
        let fsync = change(Setting, "fsync", ("on", "off"));
        let both = found(settings(&changed(vec![other.clone(), fsync])));
        assert_eq!(both.severity, Severity::Warning);
        assert_eq!(
            both.message,
            "settings of the server changed during the run: fsync: on -> off in second 1; work_mem: \
             4MB -> 8MB in second 1. The figures mix both"
        );
        assert_eq!(both.evidence["changed_at_s"], json!([1.0, 1.0]));
        assert_eq!(found(settings(&changed(vec![other]))).severity, Severity::Info);
        let after =
            FactChange { between_s: (60.1, 61.0), ..change(Setting, "fsync", ("on", "off")) };
        assert!(matches!(settings(&changed(vec![after])), Err(NoFinding::Clear)), "after the end");
        assert!(matches!(settings(&fixture::mixed_run()), Err(NoFinding::Unknown(_))));
    }

    #[test]
    fn limits_and_servers_that_changed_are_named() {
        let quota = change(FactKind::Limit, "/sys/fs/cgroup/db/cpu.max", ("max", "15000 100000"));
        let run = changed(vec![quota]);
        assert!(found(limits(&run)).message.contains("cpu.max: max -> 15000 100000 in second 1"));
        assert!(settings(&run).is_err() && server(&run).is_err());
        let other = changed(vec![change(FactKind::Identity, "system identifier", ("1", "2"))]);
        assert_eq!(found(server(&other)).severity, Severity::Error);
        let mut restarted = changed(vec![change(FactKind::Start, "start", ("10:00", "10:01"))]);
        assert_eq!(found(server(&restarted)).severity, Severity::Warning);
        restarted.details.connections = Some(Default::default());
        assert!(server(&restarted).is_err(), "an outage is part of such a test");
        restarted.summary.outages = Some(vec![Default::default()]);
        let outage = found(crate::outages::judge(&restarted)).message;
        assert!(outage.ends_with("; the server started again in second 1"), "{outage}");
    }

    #[test]
    fn a_limit_that_differs_from_the_first_cells_makes_a_cell_invalid() {
        const QUOTA: &str = "/sys/fs/cgroup/cpu/petal/cpu.cfs_quota_us";
        let values = |quota: &str, cpus: &str| -> petal_host::facts::FactValues {
            let all = [(QUOTA, quota), (cpus, "0-1")];
            all.map(|(name, value)| ((FactKind::Limit, name.into()), value.into())).into()
        };
        let cell = |quota: &str, cpus: &str, first: &FactsProof| {
            let mut run = changed(Vec::new());
            let proof = run.details.facts.as_mut().unwrap();
            proof.keep_limits(&values(quota, cpus));
            proof.compare_with_first_cell(&first.limits);
            crate::conclude(&mut run);
            run
        };
        let first = cell("-1", "a", &FactsProof::default());
        let proof = first.details.facts.clone().unwrap();
        let verdict = |run: &Run| run.summary.headline.clone().unwrap().verdict;
        assert!(verdict(&first).is_valid() && proof.limits.len() == 2);
        let second = cell("30000", "a", &proof);
        let reason = verdict(&second).reason.unwrap();
        assert_eq!(reason.finding, "limits-changed");
        let words = "first cell: /sys/fs/cgroup/cpu/petal/cpu.cfs_quota_us: -1 -> 30000. ";
        assert!(reason.sentence.contains(words), "{}", reason.sentence);
        assert!(verdict(&cell("-1", "a", &proof)).is_valid(), "put back");
        assert!(verdict(&cell("-1", "b", &proof)).is_valid(), "another process");
        // So does that of another driver host, whose name is before it.
        let of_hosts = |other: &Run| {
            let mut run = cell("-1", "a", &FactsProof::default());
            let facts = run.details.facts.as_mut().unwrap();
            facts.add_host("share 2 (b)", other.details.facts.as_ref().unwrap());
            run
        };
        let first = of_hosts(&cell("-1", "a", &FactsProof::default()));
        let mut later = of_hosts(&cell("30000", "a", &FactsProof::default()));
        let facts = later.details.facts.as_mut().unwrap();
        facts.compare_with_first_cell(&first.details.facts.unwrap().limits);
        let sentence = found(limits(&later)).message;
        let words = format!("first cell: share 2 (b): {QUOTA}: -1 -> 30000. ");
        assert!(sentence.contains(&words), "{sentence}");
    }
}
