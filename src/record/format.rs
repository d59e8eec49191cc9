//! Files of JSON that name their own format: read into a value only when it is the wanted one, and
//! never more of them than any real one holds.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::RecordError;
use crate::stats::units::bytes;

/// A day's seconds make a record of about a tenth of this.
pub(super) const BYTES_MAX: u64 = 256 << 20;

/// All of a regular file, if it holds no more than `bytes_max` bytes.
pub(super) fn contents(path: &Path, bytes_max: u64) -> Result<Vec<u8>, RecordError> {
    let metadata = std::fs::metadata(path).map_err(|error| RecordError::io("read", path, error))?;
    // What is none may have no end, or hold petal up when it is opened.
    if !metadata.is_file() {
        let why = io::Error::other("it is not a regular file");
        return Err(RecordError::io("read", path, why));
    }
    let file = File::open(path).map_err(|error| RecordError::io("read", path, error))?;
    bounded(path, file, metadata.len(), bytes_max)
}

/// All that a reader gives, if that is no more than `bytes_max` bytes; about `bytes_expected`.
pub(super) fn bounded(
    path: &Path,
    mut reader: impl io::Read,
    bytes_expected: u64,
    bytes_max: u64,
) -> Result<Vec<u8>, RecordError> {
    let too_large = || RecordError::TooLarge { path: path.to_owned(), most: bytes(bytes_max) };
    if bytes_expected > bytes_max {
        return Err(too_large());
    }
    let mut text = Vec::with_capacity(bytes_expected as usize);
    let read = reader.by_ref().take(bytes_max + 1).read_to_end(&mut text);
    read.map_err(|error| RecordError::io("read", path, error))?;
    if text.len() as u64 > bytes_max { Err(too_large()) } else { Ok(text) }
}

/// A value as a file's text: indented JSON with a line's end.
pub(super) fn text<T: Serialize>(
    path: &Path,
    what: &'static str,
    value: &T,
) -> Result<Vec<u8>, RecordError> {
    let text = serde_json::to_vec_pretty(value);
    let mut text = text.map_err(|cause| RecordError::encode(what, path, &cause))?;
    text.push(b'\n');
    Ok(text)
}

/// `text` as what `wanted` says in words. The file at `path` is for messages.
pub(super) fn parse<T: DeserializeOwned>(
    path: &Path,
    text: &[u8],
    format: &'static str,
    wanted: &'static str,
) -> Result<T, RecordError> {
    // Apart from the whole, which an hour's seconds make large: no second copy of it is held.
    #[derive(Deserialize)]
    struct Named {
        format: Option<String>,
    }
    let damaged = |why: String| RecordError::Damaged { path: path.to_owned(), wanted, why };
    let named: Named = serde_json::from_slice(text).map_err(|cause| damaged(cause.to_string()))?;
    match named.format {
        Some(found) if found == format => {
            serde_json::from_slice(text).map_err(|cause| damaged(cause.to_string()))
        }
        Some(found) => Err(RecordError::Format { path: path.to_owned(), found, wanted: format }),
        None => Err(damaged("it has no \"format\"".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_larger_than_any_real_one_is_refused_unread() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        File::create(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
        let error = contents(&path, BYTES_MAX).unwrap_err().to_string();
        assert!(error.contains("run.json") && error.contains("256 MiB"), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = contents(&path, BYTES_MAX).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    #[test]
    fn what_grows_beyond_its_size_is_refused_too() {
        let path = Path::new("run.json");
        assert!(matches!(bounded(path, io::repeat(0), 0, 100), Err(RecordError::TooLarge { .. })));
        assert_eq!(bounded(path, &[7; 100][..], 0, 100).unwrap(), [7; 100]);
    }
}
