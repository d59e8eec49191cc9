//! Files that a command was asked for by name.

use std::fs;
use std::path::Path;

use crate::record::RecordFolder;

use super::failure::{CommandError, Exit};

/// Writes a file that `flag` named.
pub fn write(flag: &str, file: &Path, bytes: impl AsRef<[u8]>) -> Result<(), CommandError> {
    fs::write(file, bytes).map_err(|error| {
        let what = format!("{flag} {}: {error}; name a folder that can be written", file.display());
        CommandError::new(Exit::Environment, what)
    })
}

/// The folder that `--out` named, made where it is not there.
pub fn folder(path: &Path) -> Result<RecordFolder, CommandError> {
    fs::create_dir_all(path).map_err(|error| {
        let what = format!("--out {}: {error}; name a folder that can be made", path.display());
        CommandError::new(Exit::Environment, what)
    })?;
    Ok(RecordFolder::open(path))
}

/// Refuses a name that ends otherwise, before anything is read.
pub fn check_ending(flag: &str, file: &Path, endings: &[&str]) -> Result<(), CommandError> {
    if endings.iter().any(|ending| file.extension().is_some_and(|own| own == *ending)) {
        return Ok(());
    }
    let endings: Vec<String> = endings.iter().map(|ending| format!(".{ending}")).collect();
    let what = format!("{flag} {}: the name must end in {}", file.display(), endings.join(" or "));
    Err(CommandError::usage(what))
}
