//! Which files may speak of an engine by its name, or by the names of its parameters and views. A
//! new engine must need no other.

use std::fs;
use std::path::Path;

/// Folders and files below `src`, each with the reason.
const ALLOWED: [(&str, &str); 22] = [
    ("engine/postgres/", "the engine itself"),
    ("engine/oracle/", "the engine itself"),
    ("engine/mysql/", "the engine itself"),
    ("engine/sqlite/", "the engine itself"),
    ("engine/scripted/", "the engine itself"),
    ("engine/mod.rs", "its module, by its feature"),
    ("engine/registry.rs", "its line"),
    ("settings/table/", "its column of support, and its own parameters"),
    ("settings/table.rs", "the group of its own parameters"),
    ("settings/mod.rs", "its own parameters"),
    ("settings/read.rs", "its own parameters"),
    ("settings/url.rs", "examples in messages"),
    ("awr/", "reports of one product"),
    ("report/awr/", "reports of one product"),
    ("cli/awr.rs", "reports of one product"),
    ("cli/", "examples of commands"),
    ("runner/series.rs", "a hint leaves the default target out"),
    ("runner/powercut/", "what its guest runs"),
    ("report/run/server_report.rs", "what kind of report the database made"),
    ("runner/hooks.rs", "names of variables that hold passwords"),
    ("engine/device/safety.rs", "signatures of what others keep on a device"),
    ("lib.rs", "the list of rooms"),
];

/// Paths by which code calls one engine. What other rooms need of it stands in `registry.rs` or in
/// the table of support.
const CALLS: [&str; 5] = [
    "crate::engine::sqlite",
    "crate::engine::postgres",
    "crate::engine::mysql",
    "crate::engine::oracle",
    "crate::engine::scripted",
];

/// Names of products, and of what only one of them has.
const NAMES: [&str; 18] = [
    "scripted::",
    "postgres",
    "oracle",
    "sqlite",
    "mysql",
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

/// The lines below `folder` that hold one of these names, but for files with an allowed beginning.
fn look(folder: &Path, root: &Path, names: &[&str], allowed: &[&str], found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            look(&path, root, names, allowed, found);
        } else if name.ends_with(".rs")
            && !is_test(&name)
            && !allowed.iter().any(|allowed| name.starts_with(allowed))
        {
            let text = fs::read_to_string(&path).unwrap();
            for (number, line) in product_code(&text) {
                let lower = line.to_lowercase();
                if names.iter().any(|name| lower.contains(name)) {
                    found.push(format!("src/{name}:{number}: {}", line.trim()));
                }
            }
        }
    }
}

#[test]
fn no_other_file_speaks_of_an_engine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    look(&root, &root, &NAMES, &ALLOWED.map(|(allowed, _)| allowed), &mut found);
    assert!(found.is_empty(), "an engine supplies this itself:\n{}", found.join("\n"));
}

#[test]
fn no_other_room_calls_one_engine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    look(&root, &root, &CALLS, &["engine/"], &mut found);
    assert!(found.is_empty(), "ask the registry, or the table of support:\n{}", found.join("\n"));
}

#[test]
fn every_file_that_may_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (name, why) in ALLOWED {
        assert!(root.join(name).exists(), "{name} ({why}) is not there");
    }
}
