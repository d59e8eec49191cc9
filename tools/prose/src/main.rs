//! `petal-prose [FILE...]`: checks the words of pages, doc comments and messages, as CONTRIBUTING.md asks for
//! them. Without a file it checks the whole project. It prints each fault and exits with 1 if there is one.

#![allow(clippy::disallowed_methods, reason = "a tool for developers")]

mod rules;
mod rust;
mod text;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rules::Fault;

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

/// Prints every fault of the project's files; true without any.
fn project() -> io::Result<bool> {
    let mut all = Vec::new();
    for root in ROOTS {
        collect(Path::new(root), &mut all)?;
    }
    all.sort();
    files(&all)
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
