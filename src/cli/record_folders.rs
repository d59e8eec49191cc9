//! Finds folders of records.

use std::fs;
use std::path::{Path, PathBuf};

use petal_record::file_names::natural;
use petal_record::sweep::Swept;
use petal_record::{self as record, RecordError, sweep};
use petal_report::listed::ListedRecord;

use super::live::follow::is_at_work;
use super::record_kinds;

/// Folders between a folder of results and a record in it, at most.
pub(super) const DEPTH_MAX: usize = 8;

/// True for a record of any kind.
pub(super) fn is_record(path: &Path) -> bool {
    sweep::is_one(path) || record::is_one(path) || record_kinds::of(path).is_some()
}

/// Reads a record of any kind for a list, without its seconds.
pub(super) fn listed(path: &Path, name: String) -> Result<ListedRecord, RecordError> {
    if sweep::is_one(path) {
        let mut sweep = sweep::index(path)?;
        let mut runs = Vec::new();
        // The sweep's own page names the cells that cannot be read.
        sweep.cells.retain(|cell| {
            let run = record::load_brief(&path.join(&cell.folder));
            run.map(|run| runs.push(run)).is_ok()
        });
        let swept = Swept { sweep, runs, peak_run: None, is_at_work: is_at_work(path) };
        return Ok(ListedRecord::of_sweep(name, &swept));
    }
    if let Some(kind) = record_kinds::of(path) {
        return kind.row(path, name);
    }
    let mut run = record::load_brief(path)?;
    if run.details.rebuilt {
        petal_judge::conclude(&mut run);
    }
    Ok(ListedRecord::of_run(name, &run))
}

/// Folders of records at this path or below it, in the order of their names. Links are not followed.
pub(super) fn records_below(
    path: &Path,
    depth: usize,
    skip: &mut dyn FnMut(String),
) -> Vec<PathBuf> {
    if is_record(path) {
        return vec![path.to_owned()];
    }
    match fs::read_dir(path) {
        Err(error) => skip(format!("{}: {error}", path.display())),
        Ok(entries) if depth > 0 => {
            let entries =
                entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let mut below: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            below.sort_by_cached_key(|path| natural(path));
            return below.iter().flat_map(|path| records_below(path, depth - 1, skip)).collect();
        }
        Ok(_) => {}
    }
    Vec::new()
}
