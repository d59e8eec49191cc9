//! A load and a run pass if `petal check` passes. A server refuses a role something: a load or a run does
//! not need it, or goes on with an unknown figure and its reason, or `petal check` named it before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use serde_json::Value;

use crate::support::{Ended, Workplace, record};
use crate::versions::headline;

/// A right that a role lacks, or a setting that limits it.
#[derive(Debug, Clone, Default)]
pub struct Limit {
    /// The limit's name on the page.
    pub name: String,
    /// Statements of an administrator, in a database of its own. `{role}` and `{database}` are replaced.
    pub sql: Vec<String>,
    /// Words of which `petal check` has one if a command fails.
    pub words: Vec<String>,
    /// Words that `petal check` has although no command fails.
    pub passed: Vec<String>,
    /// Words that `petal check` does not have: no command fails.
    pub unnamed: Vec<String>,
}

impl Limit {
    pub fn new(name: &str, sql: &[&str], words: &[&str]) -> Self {
        let owned = |all: &[&str]| all.iter().map(|&it| it.to_owned()).collect();
        Self { name: name.to_owned(), sql: owned(sql), words: owned(words), ..Self::default() }
    }

    /// All of these limits at once.
    pub fn all(limits: &[Self]) -> Self {
        let names: Vec<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
        Self {
            name: names.join(" + "),
            sql: limits.iter().flat_map(|limit| limit.sql.clone()).collect(),
            words: limits.iter().flat_map(|limit| limit.words.clone()).collect(),
            passed: limits.iter().flat_map(|limit| limit.passed.clone()).collect(),
            // Any of them may be the reason for such words.
            unnamed: limits
                .first()
                .into_iter()
                .flat_map(|limit| limit.unnamed.clone())
                .filter(|words| limits.iter().all(|limit| limit.unnamed.contains(words)))
                .collect(),
        }
    }
}

/// The effect of a limit.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effect {
    /// Commands that fail, in words.
    pub refused: BTreeSet<&'static str>,
    /// Figures that a run lacks.
    pub unknown: BTreeSet<String>,
}

/// The commands of a role without limits.
#[derive(Debug, Default)]
pub struct Free {
    /// Figures that its runs lack.
    unknown: BTreeSet<String>,
    /// Texts of `petal check` for a database without data and one with them.
    checked: [String; 2],
}

/// A database without petal's data and one with them, both with the limit.
pub struct Limited<'a> {
    pub limit: &'a Limit,
    /// Name of the role, and the beginning of those of its databases.
    pub name: String,
    pub empty: String,
    pub loaded: String,
}

/// A name for the role of a limit.
pub fn name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("limited_{}", NEXT.fetch_add(1, Relaxed))
}

impl Limited<'_> {
    /// Runs the commands without any limit.
    pub fn free(&self) -> Free {
        let checked = [&self.empty, &self.loaded].map(|url| check(url));
        let free = Free { checked, unknown: BTreeSet::new() };
        let effect = self.hold_to(&free, &|_, _| ());
        assert!(effect.refused.is_empty(), "{effect:?}");
        Free { unknown: effect.unknown, ..free }
    }

    /// Runs petal's commands, and asserts that nothing is a surprise after `petal check`.
    pub fn holds(&self, free: &Free) -> Effect {
        self.hold_to(free, &|is_named, words| assert!(is_named, "{}: {words}", self.limit.name))
    }

    fn hold_to(&self, free: &Free, assert_named: &dyn Fn(bool, &str)) -> Effect {
        let mut effect = Effect::default();
        let work = Workplace::new();
        // None if it fails; a run's record.
        let mut command = |name: &'static str, arguments: &[&str], checked: [&str; 2]| {
            let ended = work.petal(arguments).ends();
            let out = arguments.iter().skip_while(|word| **word != "--out").nth(1);
            let runs = out.map(|out| work.path(out).read_dir());
            let run = runs.into_iter().flatten().flatten().next();
            let run = run.map(|run| record(&run.unwrap().path()));
            if ended.code == Some(0) && !run.as_ref().is_some_and(has_errors) {
                return Some(run);
            }
            effect.refused.insert(name);
            // A word that any check has names nothing, unless the check itself failed with it.
            let count = |text: &str, word: &String| text.matches(word.as_str()).count();
            let others = if checked[0].contains("privilege:") { checked[1] } else { "" };
            let is_named = |word: &String| count(checked[0], word) > count(others, word);
            let said = format!("{name}: {}\nafter the check: {}", words(&ended), checked[0]);
            assert_named(self.limit.words.iter().any(is_named), &said);
            None
        };
        let load = ["setup", "-s", "1", "--scale", "1024", "--scan-table-sz", "16", "--db"];
        let checked = check(&self.empty);
        self.assert_unnamed(&checked, assert_named);
        let before_load = [checked.as_str(), &free.checked[0]];
        if command("setup", &[&load[..], &[&self.empty]].concat(), before_load).is_some() {
            // The refusals of runs and of a drop are known before hours of a load.
            for (name, of_run) in RUNS {
                let out = format!("{name} after the load");
                let common = ["run", "-t", "1", "--work-loop", "5", "--out", &out, "--db"];
                let arguments = [&common[..], &[&self.empty], of_run].concat();
                command(name, &arguments, before_load);
            }
            command("drop", &["drop", "--db", &self.empty], before_load);
        }
        let checked = check(&self.loaded);
        self.assert_unnamed(&checked, assert_named);
        for words in &self.limit.passed {
            // Another limit may end the check before.
            let is_named = checked.contains(words) || !checked.contains("privilege:");
            assert_named(is_named, &format!("no {words}\n{checked}"));
        }
        let mut records = Vec::new();
        for (name, of_run) in RUNS {
            let common = ["run", "-t", "2", "--work-loop", "10", "--out", name, "--db"];
            let arguments = [&common[..], &[&self.loaded], of_run].concat();
            records.extend(command(name, &arguments, [&checked, &free.checked[1]]).flatten());
        }
        let sweep = ["sweep", "--sessions", "1,2", "--work-loop", "5", "--update-pct", "0", "--db"];
        command("sweep", &[&sweep[..], &[&self.loaded]].concat(), [&checked, &free.checked[1]]);
        for run in records {
            self.assert_reasons(&run);
            for (figure, why) in
                unknown(&run).into_iter().filter(|it| !free.unknown.contains(&it.0))
            {
                let reason = why.split_whitespace().collect::<Vec<_>>().join(" ");
                assert_named(checked.contains(&reason), &format!("{figure}: {why}\n{checked}"));
                effect.unknown.insert(figure);
            }
        }
        effect
    }

    fn assert_unnamed(&self, checked: &str, assert_named: &dyn Fn(bool, &str)) {
        for words in &self.limit.unnamed {
            assert_named(!checked.contains(words), &format!("{words}\n{checked}"));
        }
    }

    /// Each figure that the first line lacks has a reason.
    fn assert_reasons(&self, run: &Value) {
        let (unknown, headline) = (unknown(run), headline(run));
        // A finding names a snapshot that failed.
        if run["details"]["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty()) {
            return;
        }
        for (figure, cell, needs) in [
            ("PIOPS", "reads", "physical_read_requests"),
            ("PIOPS", "writes", "physical_write_requests"),
            ("redo", "known", "redo_bytes"),
        ] {
            // A run that only reads has no log.
            let is_missing =
                !headline[figure].contains(cell) && run["ops"]["update"].as_u64() != Some(0);
            assert!(
                !is_missing || unknown.contains_key(needs),
                "{}: {figure} {:#}",
                self.limit.name,
                run["headline"]
            );
        }
    }
}

/// Returns the text of `petal check` for a database.
fn check(url: &str) -> String {
    words(&Workplace::new().petal(["check", "--full", "--db", url]).ends())
}

/// Runs of a role, by their names.
pub const RUNS: [(&str, &[&str]); 3] = [
    ("LOOP=server", &["--update-pct", "20", "--scan-pct", "10"]),
    ("LOOP=client", &["--loop", "client", "--update-pct", "20"]),
    ("UPDATE_PCT=0", &["--loop", "client", "--update-pct", "0"]),
];

/// Tries limits, three at a time, and returns their effects.
pub fn hold(limits: &[Limit], hold_to: impl Fn(&Limit) -> Effect + Sync) -> Vec<(String, Effect)> {
    let next = AtomicUsize::new(0);
    let (failed, effects) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = || {
        while let Some(limit) = limits.get(next.fetch_add(1, Relaxed)) {
            match catch_unwind(AssertUnwindSafe(|| hold_to(limit))) {
                Ok(effect) => effects.lock().unwrap().push((limit.name.clone(), effect)),
                Err(_) => failed.lock().unwrap().push(limit.name.clone()),
            }
        }
    };
    thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:?}");
    effects.into_inner().unwrap()
}

/// Writes the effects of limits into docs/privileges.md, if UPDATE_DOCS is set: limits of one effect in a row.
pub fn write(server: &str, effects: Vec<(String, Effect)>) {
    if std::env::var_os("UPDATE_DOCS").is_none() {
        return;
    }
    let mut rows: BTreeMap<Effect, BTreeSet<String>> = BTreeMap::new();
    for (name, effect) in effects {
        rows.entry(effect).or_default().insert(name);
    }
    let list = |words: Vec<&str>| match words.is_empty() {
        true => "none".to_owned(),
        false => format!("`{}`", words.join(", ")),
    };
    let row = |(effect, names): (&Effect, &BTreeSet<String>)| {
        let names = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let unknown = effect.unknown.iter().map(String::as_str).collect();
        format!(
            "| `{names}` | {} | {} |\n",
            list(effect.refused.iter().copied().collect()),
            list(unknown)
        )
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/privileges.md");
    let text = fs::read_to_string(&path).unwrap();
    let begin = format!("<!-- {server}: written by the test. -->\n");
    let (before, rest) = text.split_once(&begin).unwrap();
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    let rows: String = rows.iter().map(row).collect();
    let heading = "| limit | refused | unknown figures |\n|---|---|---|\n";
    fs::write(&path, format!("{before}{begin}{heading}{rows}<!-- end -->{after}")).unwrap();
}

pub fn unknown(run: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(run["unknown_figures"].clone()).unwrap_or_default()
}

fn has_errors(run: &Value) -> bool {
    let findings = run["findings"].as_array().unwrap();
    findings.iter().any(|finding| finding["severity"] == "error")
}

/// All that a command printed, in one line.
fn words(ended: &Ended) -> String {
    let text = format!("{} {}", ended.stdout, ended.stderr);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
