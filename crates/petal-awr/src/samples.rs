//! Sample reports for tests, here and in other crates.

// Only tests use it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::io::Write as _;
use std::path::PathBuf;

use super::report::Report;
use super::source::Source;
use super::{AwrError, parse};

/// Writes a line to standard error, past the test harness's capture.
pub fn log_line(line: &str) {
    // A failed write does not fail the test.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Returns `PETAL_AWR_DIR`, or the folder next to the project.
pub fn folder() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/awr");
    let folder = std::env::var_os("PETAL_AWR_DIR").map_or_else(beside, PathBuf::from);
    folder.join("truth.json").exists().then_some(folder)
}

/// Reports written for these tests, in the layouts of the releases in their names.
pub const SAMPLES: [(&str, &str); 14] = [
    ("sp_9i.txt", include_str!("../../../tests/data/awr/sp_9i.txt")),
    ("sp_10g.txt", include_str!("../../../tests/data/awr/sp_10g.txt")),
    ("sp_11g.txt", include_str!("../../../tests/data/awr/sp_11g.txt")),
    ("awr_10g.txt", include_str!("../../../tests/data/awr/awr_10g.txt")),
    ("awr_11204.txt", include_str!("../../../tests/data/awr/awr_11204.txt")),
    ("awr_12c.txt", include_str!("../../../tests/data/awr/awr_12c.txt")),
    ("awrpdb_19c.txt", include_str!("../../../tests/data/awr/awrpdb_19c.txt")),
    ("awrg_11g.txt", include_str!("../../../tests/data/awr/awrg_11g.txt")),
    ("awrg_one.txt", include_str!("../../../tests/data/awr/awrg_one.txt")),
    ("awr_11g.html", include_str!("../../../tests/data/awr/awr_11g.html")),
    ("awr_11g_browser.html", include_str!("../../../tests/data/awr/awr_11g_browser.html")),
    ("awr_19c.html", include_str!("../../../tests/data/awr/awr_19c.html")),
    ("awrpdb_23ai.html", include_str!("../../../tests/data/awr/awrpdb_23ai.html")),
    ("awrg_19c.html", include_str!("../../../tests/data/awr/awrg_19c.html")),
];

pub fn of_text(text: &str) -> Result<Report, AwrError> {
    parse("a report", Source { text: text.to_owned(), ..Source::default() })
}

pub fn sample_text(name: &str) -> &'static str {
    SAMPLES.iter().find(|(known, _)| *known == name).unwrap().1
}

pub fn sample(name: &str) -> Report {
    let mut report = of_text(sample_text(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    report.file = name.to_owned();
    report
}
