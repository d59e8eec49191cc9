//! The table of the findings that decide a verdict. A finding that is not in it leaves a run valid,
//! and so does one of severity info.

use super::next;
use crate::trust::TOO_FEW_OPERATIONS;
use petal_host::devices::Bottom;
use petal_record::headline::{AskedFor, Tested};
use petal_record::{Finding, Run, Severity};

/// A finding, and its effect on the verdict of a run.
pub struct Effect {
    /// The id of the finding.
    pub finding: &'static str,
    pub makes: Makes,
    /// The rule in words, for docs/numbers.md.
    pub rule: &'static str,
    /// A further condition on the run.
    when: fn(&Run) -> bool,
    /// The command to type next.
    pub(super) next: fn(&Run) -> String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Makes {
    /// A run whose figures do not belong to the requested test, whatever that was.
    Invalid,
    /// A test of a cache or of memory, if the settings ask for physical reads.
    NotStorage(Tested),
}

const ALWAYS: fn(&Run) -> bool = |_| true;

const fn invalid(finding: &'static str, rule: &'static str, next: fn(&Run) -> String) -> Effect {
    Effect { finding, makes: Makes::Invalid, rule, when: ALWAYS, next }
}

const fn not_storage(
    finding: &'static str,
    tested: Tested,
    rule: &'static str,
    next: fn(&Run) -> String,
) -> Effect {
    Effect { finding, makes: Makes::NotStorage(tested), rule, when: ALWAYS, next }
}

/// All effects, the gravest first.
pub const EFFECTS: &[Effect] = &[
    invalid("data-vanished", "data changed or vanished in the run", next::load_again),
    invalid(
        "server-changed",
        "another server or load in the run; a restart, unless ON_DISCONNECT is retry",
        next::check,
    ),
    invalid("rows-missing", "operations did not visit exactly the rows asked of them", next::check),
    invalid("wrong-plan", "a statement did not use the index on custid", next::load_again),
    invalid("fewer-reads-than-rows", "under 0.95 logical reads for each row visited", next::check),
    invalid("bad-blocks", "the database found damaged blocks", next::load_again),
    invalid("io-errors", "calls on the database's files or checkpoints failed", next::check),
    invalid("incomplete-hosts", "a driver host left no whole record", next::the_same),
    invalid(
        "memory-pressure",
        "all tasks waited for memory over 5 % of the time, with 20 major page faults a second or more",
        next::check,
    ),
    invalid(
        "settings-changed",
        "a listed setting of the server changed in the run",
        next::the_same,
    ),
    invalid(
        "limits-changed",
        "a limit or a setting of the host changed in the run",
        next::the_same,
    ),
    invalid("outage", "operations did not succeed again after an outage", next::check),
    invalid("lost-sessions", "sessions ended before their time", next::the_same),
    invalid("nothing-done", "no operation ended", next::check),
    invalid(
        TOO_FEW_OPERATIONS,
        "under 20 operations (rows of scans count), or under 100 of the physical reads asked for",
        next::longer,
    ),
    not_storage(
        "cached-by-os",
        Tested::PageCache,
        "over 10 % of the bytes read did not come from the device, most of these from the page cache",
        next::past_the_page_cache,
    ),
    not_storage(
        "cached-by-database",
        Tested::DatabaseCache,
        "the database's cache cannot hold the data, and served over half of the rows",
        next::load_beyond_cache,
    ),
    Effect {
        when: ends_in_memory,
        ..not_storage(
            "device-unseen",
            Tested::Memory,
            "over 10 % of the bytes read did not come from the device, and it ends in memory",
            next::check,
        )
    },
    not_storage(
        "cached-by-storage",
        Tested::StorageCache,
        "the active data set fits in STORAGE_CACHE",
        next::load_beyond_storage_cache,
    ),
];

fn ends_in_memory(run: &Run) -> bool {
    let layers = run.details.host.iter().flat_map(|host| &host.storage);
    layers.into_iter().any(|layer| matches!(layer.bottom, Some(Bottom::Memory(_))))
}

/// Returns true if a finding makes a row of a table no storage test.
pub(super) fn of_table(id: &str) -> bool {
    let of_id = EFFECTS.iter().filter(|effect| effect.finding == id);
    of_id.into_iter().any(|effect| effect.makes != Makes::Invalid && id != "device-unseen")
}

/// The finding that decides the verdict of a run, with its effect; None if the run is valid.
pub(super) fn gravest<'a>(
    run: &Run,
    findings: &'a [Finding],
    asked_for: AskedFor,
) -> Option<(&'static Effect, &'a Finding)> {
    let is_asked_for = |effect: &&Effect| match effect.makes {
        Makes::Invalid => true,
        Makes::NotStorage(_) => asked_for == AskedFor::PhysicalIo,
    };
    let effects = EFFECTS.iter().filter(is_asked_for).filter(|effect| (effect.when)(run));
    let mut found = effects.filter_map(|effect| {
        let of_weight = findings.iter().filter(|it| it.severity >= Severity::Warning);
        Some((effect, of_weight.into_iter().find(|it| it.id == effect.finding)?))
    });
    found.next()
}

/// The rules of valid tests, in words, by the resource that they show.
#[cfg(test)]
pub(super) const VALID: [(Tested, &str); 13] = [
    (
        Tested::SharedProcessors,
        "processors limit it, and others' work on them is enough for `other-load`; not if it asks for \
         logical reads",
    ),
    (Tested::Processors, "the same, without others' work"),
    (Tested::Petal, "petal's own processors limit it"),
    (Tested::Network, "the network limits it"),
    (Tested::Replica, "commits that wait for another server limit it"),
    (Tested::Locks, "locks or contention in the database limit it"),
    (Tested::Waits, "waits of another class limit it, such as a timer's"),
    (Tested::Rate, "RATE limits it"),
    (Tested::ThinkTime, "think time limits it"),
    (Tested::Log, "the log or its room limits it, or it asks for redo and no row above applies"),
    (Tested::DatabaseCache, "it asks for logical reads, and no row above applies"),
    (Tested::Device, "it asks for physical I/O, and no row above applies"),
    (Tested::UnseenStorage, "the same, and the source of the reads is unknown or not all counted"),
];

/// The effects, then the valid tests, as a table of Markdown.
#[cfg(test)]
pub(super) fn table() -> String {
    let row = |effect: &Effect| {
        let (verdict, tested) = match effect.makes {
            Makes::Invalid => ("invalid", "any"),
            Makes::NotStorage(tested) => ("not a storage test", tested.words()),
        };
        format!("| {verdict} | {tested} | `{}` | {} |\n", effect.finding, effect.rule)
    };
    let valid =
        |(tested, rule): &(Tested, &str)| format!("| valid | {} | - | {rule} |\n", tested.words());
    let head = "| verdict | a test of | finding | rule |\n|---|---|---|---|\n";
    let rows = EFFECTS.iter().map(row).chain(VALID.iter().map(valid));
    head.to_owned() + &rows.collect::<String>()
}
