//! Files that a command was asked for by name.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use petal_engine::in_use::FileId;
use petal_host::files::{self, OFlags};
use petal_record::{RecordFolder, own_file};
use rustix::fs::{fcntl_getfl, fcntl_setfl};

use super::failure::{CommandError, Exit};

/// Refuses a file that `flag` named if writing it would take something away: before petal reads or
/// measures anything. `inputs`: the command's inputs.
pub fn check(flag: &str, file: &Path, inputs: &[&PathBuf]) -> Result<(), CommandError> {
    if !is_replaced(file) {
        return Ok(());
    }
    let same = |input: &&&PathBuf| {
        FileId::of(file).is_ok_and(|own| FileId::of(input).is_ok_and(|input| own == input))
    };
    if let Some(input) = inputs.iter().find(same) {
        let what = format!(
            "{flag} {}: it is an input of this command ({}); name another file",
            file.display(),
            input.display()
        );
        return Err(CommandError::usage(what));
    }
    own_file::check(file).map_err(|error| failed(flag, file, &error))
}

/// Writes a file that `flag` named, in the place of petal's own alone.
pub fn write(flag: &str, file: &Path, bytes: impl AsRef<[u8]>) -> Result<(), CommandError> {
    let bytes = bytes.as_ref();
    let written = match is_replaced(file) {
        true => own_file::write(file, bytes),
        false => files::port(file).and_then(|mut port| {
            // It was opened without waiting, and takes its time for the bytes.
            fcntl_setfl(&port, fcntl_getfl(&port)? - OFlags::NONBLOCK)?;
            port.write_all(bytes)
        }),
    };
    written.map_err(|error| failed(flag, file, &error))
}

/// False of a pipe or a device, which takes any output.
fn is_replaced(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|about| about.is_file() || about.is_dir()) || !file.exists()
}

fn failed(flag: &str, file: &Path, error: &io::Error) -> CommandError {
    let next = match error.kind() {
        ErrorKind::AlreadyExists => "",
        _ => "; name a file in a folder that can be written",
    };
    CommandError::new(Exit::Environment, format!("{flag} {}: {error}{next}", file.display()))
}

/// The folder that `--out` named, made if it is absent.
pub fn folder(path: &Path) -> Result<RecordFolder, CommandError> {
    files::make_folders(path).map_err(|error| {
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
