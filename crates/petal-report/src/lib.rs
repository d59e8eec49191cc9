//! Reports are pure functions of a [`Run`]: `petal report DIR` rebuilds all of them from a
//! record made last year. One file per report; a new one is a file and a line in [`write_all`], of
//! a sweep in [`write_sweep`], of another record in [`own_record`].

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod answer;
pub mod bmf;
pub mod card;
pub mod charts;
pub mod checks;
pub mod compare;
pub mod csv;
mod csv_os;
pub mod exact_rows;
#[cfg(test)]
mod formats_tests;
pub mod history;
#[cfg(any(test, feature = "testing"))]
pub mod hostile;
pub mod html;
pub mod json;
pub mod junit;
pub mod listed;
pub mod markdown;
pub mod one_screen;
mod os_text;
pub mod own_record;
pub mod petals;
pub mod petals_text;
pub mod records;
pub mod replay;
mod run;
mod sources;
pub mod sweep;
pub mod table;
pub mod text;
pub mod verification;
#[cfg(any(test, feature = "testing"))]
pub mod widths;
#[cfg(test)]
mod widths_tests;
#[cfg(feature = "xlsx")]
pub mod workbook;

pub use petal_host::numbers;

use petal_judge::break_point::{self, BreakPoint};
use petal_judge::distinct;
use petal_judge::petals::Petals;
use petal_record::sweep::Swept;
use petal_record::{self as record, RecordError, RecordFolder, Run, latency_log};
use petal_settings::objective::Objective;
use petal_settings::printable::printable;
use std::path::{Path, PathBuf};

pub const TEXT_NAME: &str = "report.txt";
pub use html::NAME as HTML_NAME;
pub const CSV_NAME: &str = "timeline.csv";
pub const SWEEP_CSV_NAME: &str = "sweep.csv";

/// Writes every report of a run into its folder, and returns their paths.
pub fn write_all(folder: &RecordFolder, run: &Run) -> Result<Vec<PathBuf>, RecordError> {
    let spreads = latency_log::spreads(folder.path());
    let page = made(folder, html::NAME, "the report as a page", html::run(run, &spreads))?;
    Ok(vec![write(folder, TEXT_NAME, &text::render(run))?, write(folder, html::NAME, &page)?])
}

/// Writes the seconds of a run as a table, and returns its path.
pub fn write_timeline(folder: &RecordFolder, run: &Run) -> Result<PathBuf, RecordError> {
    let timeline = made(folder, CSV_NAME, "the timeline", csv::timeline(run).csv())?;
    folder.write_atomically(CSV_NAME, timeline.as_bytes())
}

/// Writes the operating system's figures as the files that SLOB leaves, and returns their paths;
/// empty if it was not watched.
pub fn write_os_text(folder: &RecordFolder, run: &Run) -> Result<Vec<PathBuf>, RecordError> {
    let files = os_text::files(run).into_iter().flatten();
    files.map(|(name, text)| folder.write_atomically(name, text.as_bytes())).collect()
}

/// Writes every report of a sweep into its folder, and returns their paths.
pub fn write_sweep(
    folder: &RecordFolder,
    swept: &Swept,
    objective: Option<&Objective>,
) -> Result<Vec<PathBuf>, RecordError> {
    let petals = Petals::of(&swept.observations()).with_objective(objective);
    let rows = made(folder, SWEEP_CSV_NAME, "the sweep's table", sweep::csv::sweep(swept).csv())?;
    let page = made(folder, html::NAME, "the report as a page", html::sweep(swept, &petals))?;
    let text = sweep::render(swept, &petals, objective);
    let mut written = vec![
        write(folder, TEXT_NAME, &text)?,
        folder.write_atomically(SWEEP_CSV_NAME, rows.as_bytes())?,
        write(folder, html::NAME, &page)?,
    ];
    for chart in petals::ALL.into_iter().filter(|chart| petals::can_draw(&petals, chart)) {
        let drawn = petals::svg(&petals, chart);
        let name = format!("{}.svg", chart.name);
        written.push(write(folder, &name, &drawn)?);
    }
    if let Some(found) = break_point::of(swept, objective) {
        written.extend(write_fit(folder, &found)?);
    }
    Ok(written)
}

pub const FIT_HTML_NAME: &str = "will-it-fit.html";
const FIT_TEXT_NAME: &str = "will-it-fit.txt";
const FIT_SVG_NAME: &str = "will-it-fit.svg";

/// Writes the break point of a replay into the folder of its sweep, and returns the paths. The page
/// needs the profile that lies there.
fn write_fit(folder: &RecordFolder, found: &BreakPoint) -> Result<Vec<PathBuf>, RecordError> {
    let version = env!("CARGO_PKG_VERSION");
    let text = format!("{}\npetal {version} replay\n", replay::break_point(found));
    let mut written = vec![write(folder, FIT_TEXT_NAME, &text)?];
    let path = folder.path().join(record::profile::NAME);
    if path.is_file() {
        let profile = petal_judge::profile::resummarise(record::profile::load(&path)?);
        let page = made(folder, FIT_HTML_NAME, "the answer as a page", html::fit(found, &profile))?;
        let drawn = html::fit_svg(found, &profile);
        written.push(write(folder, FIT_HTML_NAME, &page)?);
        written.push(write(folder, FIT_SVG_NAME, &drawn)?);
    }
    Ok(written)
}

fn write(folder: &RecordFolder, name: &str, text: &str) -> Result<PathBuf, RecordError> {
    folder.write_atomically(name, printable(text).as_bytes())
}

/// Returns the text of a report, or the reason for its absence.
fn made<E: std::fmt::Display>(
    folder: &RecordFolder,
    name: &str,
    what: &'static str,
    text: Result<String, E>,
) -> Result<String, RecordError> {
    text.map_err(|cause| RecordError::encode(what, &folder.path().join(name), &cause))
}

/// Reads a record for reporting. A record that was rebuilt from its seconds is judged here, because
/// the killed petal could not do it.
pub fn load(path: &Path) -> Result<Run, RecordError> {
    Ok(judged(record::load(path)?))
}

/// Reads a record with each of its seconds alone, for exports.
pub fn load_each_second(path: &Path) -> Result<Run, RecordError> {
    Ok(judged(record::load_each_second(path)?))
}

fn judged(mut run: Run) -> Run {
    match run.details.rebuilt {
        true => petal_judge::conclude(&mut run),
        false => petal_judge::tell_gaps(&mut run),
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;
    use std::fs;

    #[test]
    fn reports_are_rebuilt_the_same_from_the_record() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RecordFolder::open(dir.path());
        let mut run = fixture::mixed_run();
        run.summary.findings = petal_judge::judge(&run);
        fixture::save(dir.path(), &run);
        let paths = write_all(&folder, &run).unwrap();
        let first: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
        paths.iter().for_each(|path| fs::remove_file(path).unwrap());
        let again = write_all(&folder, &load(dir.path()).unwrap()).unwrap();
        let second: Vec<Vec<u8>> = again.iter().map(|path| fs::read(path).unwrap()).collect();
        assert_eq!(paths, again);
        assert!(first == second, "a report depends on more than its record");
        assert!(first.iter().all(|text| !text.is_empty()));
    }

    #[test]
    fn a_killed_run_is_judged_when_it_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), 4);
        let run = load(dir.path()).unwrap();
        assert!(run.summary.finding("partial-record").is_some());
    }
}
