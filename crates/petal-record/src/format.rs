//! Files of JSON that name their own format: read into a value only when it is the wanted one.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{RecordError, RecordFolder, input};

/// Text of a value's file: indented JSON with a final line end.
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

impl RecordFolder {
    /// Writes a value as a file, whole or not at all; `what` names it in messages.
    pub fn write_json<T: Serialize>(
        &self,
        name: &str,
        what: &'static str,
        value: &T,
    ) -> Result<PathBuf, RecordError> {
        self.write_atomically(name, &text(&self.path().join(name), what, value)?)
    }
}

/// Reads a file of this format; `wanted` names it in messages.
pub fn read<T: DeserializeOwned>(
    path: &Path,
    format: &'static str,
    wanted: &'static str,
) -> Result<T, RecordError> {
    parse(path, &input::contents(path, input::BYTES_MAX)?, format, wanted)
}

/// Parses `text` in the wanted format; `wanted` describes the format in messages, and `path` names
/// the file in them.
pub(super) fn parse<T: DeserializeOwned>(
    path: &Path,
    text: &[u8],
    format: &'static str,
    wanted: &'static str,
) -> Result<T, RecordError> {
    // Read apart from the whole, which an hour's seconds make large: no second copy of it is held.
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
