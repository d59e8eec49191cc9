//! Names in the code. Which files may speak of an engine by its name, or by the names of its
//! parameters and views: a new engine must need no other. And no two types have one name, unless
//! they are one thing, of several engines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use petal_settings::table::support::{ENGINES, SCRIPTED};

/// Folders and files, each with the reason; next to an engine's own crate.
const ALLOWED: [(&str, &str); 17] = [
    ("src/engines.rs", "its line"),
    ("crates/petal-settings/src/table/", "its column of support, and its own parameters"),
    ("crates/petal-settings/src/table.rs", "the group of an engine's parameters"),
    ("crates/petal-settings/src/lib.rs", "its own parameters"),
    ("crates/petal-settings/src/read.rs", "its own parameters"),
    ("crates/petal-settings/src/url.rs", "examples in messages"),
    ("crates/petal-awr/", "reports of one product"),
    ("crates/petal-judge/src/awr/", "reports of one product"),
    ("crates/petal-production/", "reports of one product"),
    ("src/cli/", "examples of commands"),
    ("crates/petal-prove/src/live/", "examples of names that are hidden"),
    ("crates/petal-run/src/series.rs", "a hint leaves the default target out"),
    ("crates/petal-run/src/server_report.rs", "which reports the database made"),
    ("crates/petal-report/src/run/server_report.rs", "the kind of report that the database made"),
    ("crates/petal-run/src/hooks.rs", "names of variables that hold passwords"),
    ("crates/petal-device/src/safety.rs", "signatures of others' data on a device"),
    ("src/lib.rs", "the list of rooms"),
];

/// The schemes of all engines, from the table of support.
fn schemes() -> impl Iterator<Item = &'static str> {
    ENGINES.iter().copied().chain([&SCRIPTED]).map(|engine| engine.scheme)
}

/// The schemes that are no common words.
fn own_words() -> impl Iterator<Item = &'static str> {
    schemes().filter(|scheme| !["device", "scripted"].contains(scheme))
}

/// Names that only one product has.
const NAMES: [&str; 14] = [
    "scripted::",
    "innodb",
    "pg_stat",
    "wal_size",
    "synchronous_commit",
    "track_io",
    "shared_buffers",
    "commit_wait=",
    "pl/sql",
    "v$",
    "_db_block",
    "_db_file",
    "physical reads cache",
    "continued row",
];

/// The crate of an engine.
fn crate_of(scheme: &str) -> String {
    format!("petal-{scheme}")
}

fn is_engine(crate_name: &str) -> bool {
    schemes().any(|scheme| crate_of(scheme) == crate_name)
}

/// Names of types that several engines have, one each, or share: the same thing everywhere.
const OF_EACH_ENGINE: [&str; 28] = [
    "Address",
    "Answer",
    "Arguments",
    "Blocks",
    "Canceller",
    "Client",
    "CounterReader",
    "Endpoint",
    "Error",
    "Filling",
    "Loader",
    "LockedSettings",
    "LoginRules",
    "OpenDatabase",
    "Options",
    "ReaderState",
    "Result",
    "Row",
    "ServerLoop",
    "ServerPlace",
    "Settling",
    "Shared",
    "SslMode",
    "Statistics",
    "TablePages",
    "TablesInUse",
    "TlsOptions",
    "Work",
];

/// The text without its tests and without comments.
fn product_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // The module of a file's tests is its last item.
    let code = text.split("mod tests {").next().unwrap_or(text);
    let lines = (1..).zip(code.lines());
    lines.filter(|(_, line)| {
        let line = line.trim_start();
        !line.starts_with("//") && !line.starts_with("#[cfg(")
    })
}

fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.contains("/tests/") || ["tests.rs", "fixture.rs"].iter().any(|end| name.ends_with(end))
}

/// Calls `look` with the name and the text of each file of the project that is no test.
fn each_file(look: &mut impl FnMut(&str, &str)) {
    fn visit(folder: &Path, root: &Path, look: &mut impl FnMut(&str, &str)) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                visit(&path, root, look);
            } else if name.ends_with(".rs") && !is_test(&name) {
                look(&name, &fs::read_to_string(&path).unwrap());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    visit(&root.join("src"), root, look);
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        visit(&entry.unwrap().path().join("src"), root, look);
    }
}

/// The lines that hold one of these names, but for files with an allowed beginning.
fn lines_with(names: &[impl AsRef<str>], is_allowed: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    each_file(&mut |file, text| {
        if is_allowed(file) {
            return;
        }
        for (number, line) in product_code(text) {
            let lower = line.to_lowercase();
            if names.iter().any(|name| lower.contains(name.as_ref())) {
                found.push(format!("{file}:{number}: {}", line.trim()));
            }
        }
    });
    found
}

/// The crate of a file, below `crates`.
fn crate_name(file: &str) -> Option<&str> {
    Some(file.strip_prefix("crates/")?.split_once('/')?.0)
}

#[test]
fn no_other_file_speaks_of_an_engine() {
    let is_listed = |file: &str| ALLOWED.iter().any(|(allowed, _)| file.starts_with(allowed));
    let is_engines = |file: &str| crate_name(file).is_some_and(is_engine);
    let mut found = lines_with(&NAMES, |file| is_listed(file) || is_engines(file));
    for word in own_words() {
        let own = crate_of(word);
        let is_own = |file: &str| crate_name(file).is_some_and(|name| name == own);
        found.extend(lines_with(&[word], |file| is_listed(file) || is_own(file)));
    }
    assert!(found.is_empty(), "an engine supplies this itself:\n{}", found.join("\n"));
}

#[test]
fn no_other_room_calls_one_engine() {
    // Calibrations are the device engine's, whose crate they call.
    let calls = schemes().filter(|scheme| *scheme != "device");
    let calls: Vec<String> = calls.map(|scheme| format!("petal_{scheme}")).collect();
    let found = lines_with(&calls, |file| ["src/engines.rs", "src/lib.rs"].contains(&file));
    assert!(found.is_empty(), "ask the registry, or the table of support:\n{}", found.join("\n"));
}

/// The slices: features with a crate that is no engine's.
fn slices(manifest: &str) -> Vec<&str> {
    let of_feature = |line: &'_ str| line.contains("\"dep:petal-").then_some(line.find(" = ")?);
    let names = manifest.lines().filter_map(|line| Some(&line[..of_feature(line)?]));
    names.filter(|name| !schemes().any(|scheme| scheme == *name)).collect()
}

/// A slice can be removed: its folder, its command, and its lines in two tables.
#[test]
fn only_its_command_and_the_tables_name_a_slice() {
    const TABLES: [&str; 2] = ["src/cli/mod.rs", "src/cli/record_kinds.rs"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let slices = slices(&manifest);
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
    assert!(makefile.contains(&format!("\nSLICES = {}\n", slices.join(" "))), "{slices:?}");
    let mut found = Vec::new();
    for slice in slices {
        let own = [format!("crates/petal-{slice}/"), format!("src/cli/{slice}")];
        let (code, feature) = (format!("petal_{slice}::"), format!("feature = \"{slice}\""));
        each_file(&mut |file, text| {
            let is_own = own.iter().any(|own| file.starts_with(own)) || TABLES.contains(&file);
            if !is_own && (text.contains(&code) || text.contains(&feature)) {
                found.push(format!("{file}: {slice}"));
            }
        });
        for entry in fs::read_dir(root.join("crates")).unwrap() {
            let path = entry.unwrap().path().join("Cargo.toml");
            let text = fs::read_to_string(&path).unwrap();
            if text.lines().any(|line| line.starts_with(&format!("petal-{slice}"))) {
                found.push(format!("{}: {slice}", path.display()));
            }
        }
    }
    assert!(found.is_empty(), "a slice is removable only if nothing else names it: {found:#?}");
}

#[test]
fn every_file_that_may_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, why) in ALLOWED {
        assert!(root.join(name).exists(), "{name} ({why}) is not there");
    }
}

/// The name of the type that this line of a module begins.
fn type_begun(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let (kind, rest) = line.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric()).next()?;
    ["struct", "enum", "trait", "type", "union"].contains(&kind).then_some(name)
}

#[test]
fn no_two_types_have_one_name() {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    each_file(&mut |file, text| {
        for name in product_code(text).filter_map(|(_, line)| type_begun(line)) {
            files.entry(name.to_owned()).or_default().push(file.to_owned());
        }
    });
    files.retain(|_, files| files.len() > 1);
    // The engine's crate, or the file or folder that engines share.
    let place = |file: &str| {
        let (name, file) = file.strip_prefix("crates/")?.split_once("/src/")?;
        match name {
            "petal-engine" => Some(file.split('/').next().unwrap_or(file).to_owned()),
            _ => is_engine(name).then(|| name.to_owned()),
        }
    };
    let is_of_each = |name: &str, files: &[String]| {
        let places: BTreeSet<Option<String>> = files.iter().map(|file| place(file)).collect();
        OF_EACH_ENGINE.contains(&name) && places.len() == files.len() && !places.contains(&None)
    };
    let unneeded: Vec<&str> =
        OF_EACH_ENGINE.into_iter().filter(|name| !files.contains_key(*name)).collect();
    assert!(unneeded.is_empty(), "no two engines have these any more: {unneeded:?}");
    files.retain(|name, files| !is_of_each(name, files));
    assert!(files.is_empty(), "different things by one name: {files:#?}");
}

/// A driver's own way to read a column panics at a value of another type, or at NULL.
#[test]
fn no_column_of_an_answer_is_read_by_a_call_that_panics() {
    let names = ["row.get(", "row.get::<", "row.take(", "row.take::<", ".from_row(", "from_row::<"];
    // SQLite's and Oracle's columns are results already.
    let is_result = ["petal-sqlite", "petal-oracle"];
    let found = lines_with(&names, |file| {
        let name = crate_name(file).filter(|name| !is_result.contains(name));
        !name.is_some_and(|name| is_engine(name) || name == "petal-engine")
    });
    assert!(found.is_empty(), "read it by a call that returns a Result: {found:#?}");
}

/// Every file with `unsafe` in it, also in tests.
fn files_with_unsafe(folder: &str) -> BTreeSet<String> {
    files_with(folder, &["unsafe", " {"].concat())
}

/// Every file below a folder of the project that holds a text.
fn files_with(folder: &str, text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs")
                && fs::read_to_string(&path).unwrap().contains(text)
            {
                found.insert(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    found
}

#[test]
fn the_pages_name_and_count_every_file_with_unsafe() {
    const COUNTS: [&str; 8] = ["no", "one", "two", "three", "four", "five", "six", "seven"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = |name: &str| fs::read_to_string(root.join(name)).unwrap().replace('\n', " ");
    let (architecture, contributing) = (page("ARCHITECTURE.md"), page("CONTRIBUTING.md"));
    let mut found = files_with_unsafe("src");
    found.append(&mut files_with_unsafe("crates"));
    let count = format!("`unsafe` is in {} files", COUNTS[found.len()]);
    assert!(architecture.contains(&count), "ARCHITECTURE.md does not say: {count}: {found:?}");
    for file in &found {
        assert!(architecture.contains(file.as_str()), "{file} is not in ARCHITECTURE.md");
        assert!(contributing.contains(file.as_str()), "{file} is not in CONTRIBUTING.md");
    }
    for file in files_with_unsafe("tests") {
        assert!(contributing.contains(&file), "{file} is not in CONTRIBUTING.md");
    }
}

/// Each entry of the threat model ends with its tests, and a test that goes away leaves none behind.
#[test]
fn every_entry_of_the_threat_model_ends_with_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/security.md")).unwrap();
    let entries: Vec<&str> = page.split("\n- ").skip(1).collect();
    assert!(entries.len() > 40, "{} entries", entries.len());
    let mut tests = BTreeSet::new();
    for entry in entries {
        let entry = entry.split("\n\n").next().unwrap_or_default();
        let words = entry.split_whitespace().rev().map(|word| word.trim_end_matches(','));
        let names: Vec<&str> =
            words.map_while(|word| word.strip_prefix('`')?.strip_suffix('`')).collect();
        assert!(!names.is_empty(), "no test: {entry}");
        tests.extend(names);
    }
    tests.retain(|test| {
        let is_there = |folder| !files_with(folder, &format!("fn {test}(")).is_empty();
        !["src", "crates", "tests"].into_iter().any(is_there)
    });
    assert!(tests.is_empty(), "these tests are not there: {tests:?}");
}

/// A new reader's first files stay few and short.
#[test]
fn the_files_to_read_first_are_twelve_and_have_under_3000_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let table = page.split("## Twelve files to read first").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let files: Vec<&str> =
        table.lines().filter_map(|line| line.split("](").nth(1)?.split(')').next()).collect();
    assert_eq!(files.len(), 12, "{files:?}");
    let lines = |file: &str| {
        let text = fs::read_to_string(root.join(file)).unwrap();
        product_code(&text).filter(|(_, line)| !line.trim().is_empty()).count()
    };
    let sum: usize = files.iter().map(|file| lines(file)).sum();
    assert!(sum < 3000, "{sum} lines: {files:?}");
}
