//! Finds folders of records.

use std::fs;
use std::path::{Path, PathBuf};

use petal_model::record::file_names::natural;
use petal_model::record::{self, calibration, costs, sweep};

/// True for a record of any kind.
pub(super) fn is_record(path: &Path) -> bool {
    let kinds = [sweep::is_one, record::is_one, calibration::is_one, costs::is_one];
    kinds.iter().any(|is_one| is_one(path))
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
