//! Zip archives of reports: each file in one as a text.

use std::fs::File;
use std::io::{self, BufReader};

use zip::ZipArchive;
use zip::result::ZipError;

use super::source::{self, Source};

/// The folder that macOS adds to an archive for its own attributes of each file.
const FORKS: &str = "__MACOSX/";

/// Hands each file of the archive to `take`, one after the other, by its name.
pub fn each(file: File, mut take: impl FnMut(&str, io::Result<Source>)) -> io::Result<()> {
    let mut archive = ZipArchive::new(BufReader::new(file))?;
    for at in 0..archive.len() {
        let name = archive
            .name_for_index(at)
            .and_then(Result::ok)
            .map_or_else(|| format!("file {}", at + 1), |name| name.into_owned());
        if name.ends_with('/') || name.starts_with(FORKS) {
            continue;
        }
        let unpacked = archive.by_index(at).map_err(reason);
        take(&name, unpacked.and_then(|file| source::unpacked(file.size(), file)));
    }
    Ok(())
}

fn reason(error: ZipError) -> io::Error {
    match error {
        ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) => io::Error::other(
            "is locked with a password; unpack the archive yourself, and name the folder",
        ),
        other => other.into(),
    }
}
