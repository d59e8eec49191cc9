//! `petal-prose [FILE...]`: checks the words of pages, doc comments and messages, as CONTRIBUTING.md asks for
//! them. Without a file it checks the whole project against `left.txt`, which holds the number of faults
//! that each file still has: a file may lose faults and never gain one. If `left.txt` is empty, it is written.

mod rules;
mod rust;
mod text;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rules::Fault;

const LEFT: &str = "tools/prose/left.txt";
/// Folders and pages of the project that are read.
const ROOTS: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs",
    "src",
    "crates",
    "tools",
];

fn main() -> ExitCode {
    let named: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let checked = match named.is_empty() {
        true => project(),
        false => files(&named),
    };
    match checked {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "petal-prose: {error}");
            ExitCode::from(2)
        }
    }
}

/// Prints every fault of these files; true without any.
fn files(named: &[PathBuf]) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let mut is_clean = true;
    for path in named {
        for fault in faults(path)? {
            is_clean = false;
            writeln!(out, "{}:{}: {}: {}", path.display(), fault.line, fault.rule, fault.text)?;
        }
    }
    Ok(is_clean)
}

/// Compares each file's number of faults with that of `left.txt`.
fn project() -> io::Result<bool> {
    let mut all = Vec::new();
    for root in ROOTS {
        collect(Path::new(root), &mut all)?;
    }
    all.sort();
    let left = left()?;
    let is_first = left.is_empty();
    let mut now = BTreeMap::new();
    let mut worse = Vec::new();
    for path in &all {
        let found = faults(path)?.len();
        let name = path.display().to_string();
        if !is_first && found > left.get(&name).copied().unwrap_or(0) {
            worse.push(path.clone());
        }
        if found > 0 {
            now.insert(name, found);
        }
    }
    if !worse.is_empty() {
        files(&worse)?;
        writeln!(io::stderr(), "petal-prose: these files have more faults than {LEFT} allows")?;
        return Ok(false);
    }
    if now != left {
        let lines: String = now.iter().map(|(name, count)| format!("{name} {count}\n")).collect();
        fs::write(LEFT, lines)?;
        writeln!(io::stderr(), "petal-prose: {LEFT} has fewer faults now: commit it")?;
    }
    Ok(true)
}

fn left() -> io::Result<BTreeMap<String, usize>> {
    let text = fs::read_to_string(LEFT).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(String::new()),
        _ => Err(error),
    })?;
    let entries = text.lines().filter_map(|line| line.rsplit_once(' '));
    Ok(entries.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect())
}

/// Finds the pages and the Rust files below a path, without tests.
fn collect(path: &Path, all: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        let name = path.file_name().unwrap_or_default();
        if name == "target" || name == "tests" || name == "images" {
            return Ok(());
        }
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), all)?;
        }
    } else if path.extension().is_some_and(|kind| kind == "md" || kind == "rs") {
        all.push(path.to_owned());
    }
    Ok(())
}

fn faults(path: &Path) -> io::Result<Vec<Fault>> {
    let text = fs::read_to_string(path)?;
    let is_page = path.extension().is_some_and(|kind| kind == "md");
    Ok(if is_page { text::page(&text) } else { rust::file(&text) })
}
