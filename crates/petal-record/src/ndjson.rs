//! Files of JSON, a line each: the first line names the format and the subject of all others. A
//! line is handed to the operating system as soon as it is known, without fsync: a killed petal
//! loses only the unfinished line, a power cut the last seconds.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::input::{self, Lines};
use super::{RecordError, RecordFolder, format};

/// The longest line that is read: a file of another kind may have no line ends.
pub(super) const LINE_BYTES_MAX: u64 = 64 << 20;

/// A file that grows by appends. It is compressed if its name says so; each append can be read when
/// it is done.
#[derive(Debug)]
pub(super) struct AppendedFile {
    path: PathBuf,
    /// None after an error: a full disk is reported once, and the run goes on.
    pub(super) file: Option<OpenFile>,
}

#[derive(Debug)]
pub(super) enum OpenFile {
    Plain(File),
    Compressed(Box<GzEncoder<File>>),
}

impl OpenFile {
    fn of(path: &Path, file: File) -> Self {
        match input::is_compressed(path) {
            true => Self::Compressed(Box::new(GzEncoder::new(file, Compression::default()))),
            false => Self::Plain(file),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file: &mut dyn Write = match self {
            Self::Plain(file) => file,
            Self::Compressed(file) => file.as_mut(),
        };
        file.write_all(bytes)?;
        file.flush()
    }
}

impl AppendedFile {
    /// Makes a file that did not exist.
    pub fn create(folder: &RecordFolder, name: &OsStr) -> Result<Self, RecordError> {
        let path = folder.path().join(name);
        match folder.opened().and_then(|folder| folder.create(name)) {
            Ok(file) => Ok(Self { file: Some(OpenFile::of(&path, file)), path }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(RecordError::FileThere { path })
            }
            Err(source) => Err(RecordError::io("make", &path, source)),
        }
    }

    /// Appends the bytes from `encode`. An error is returned once; later calls do nothing.
    pub fn append(
        &mut self,
        encode: impl FnOnce(&Path) -> Result<Vec<u8>, RecordError>,
    ) -> Result<(), RecordError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = encode(&self.path).and_then(|bytes| {
            let written = file.append(&bytes);
            written.map_err(|source| RecordError::io("append to", &self.path, source))
        });
        if written.is_err() {
            self.file = None;
        }
        written
    }
}

/// A file of lines that grows.
#[derive(Debug)]
pub(super) struct LinesFile {
    file: AppendedFile,
    /// Name of a line, for messages.
    what: &'static str,
}

impl LinesFile {
    /// Makes a file that did not exist.
    pub fn begin<T: Serialize>(
        (folder, name): (&RecordFolder, &OsStr),
        what: &'static str,
        first: &T,
    ) -> Result<Self, RecordError> {
        let mut lines = Self { file: AppendedFile::create(folder, name)?, what };
        lines.append(first)?;
        Ok(lines)
    }

    /// Appends a value. An error is returned once; later calls do nothing.
    pub fn append<T: Serialize>(&mut self, value: &T) -> Result<(), RecordError> {
        self.file.append(|path| encoded(path, self.what, value))
    }

    #[cfg(test)]
    pub fn append_text(&mut self, text: &str) -> Result<(), RecordError> {
        self.file.append(|_| Ok(text.as_bytes().to_vec()))
    }
}

/// A line with its line end.
pub(super) fn encoded<T: Serialize>(
    path: &Path,
    what: &'static str,
    value: &T,
) -> Result<Vec<u8>, RecordError> {
    let bytes = serde_json::to_vec(value);
    let mut bytes = bytes.map_err(|cause| RecordError::encode(what, path, &cause))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Passes each further line to `each`, in the file's order, up to the first that is torn or
/// damaged. Returns the first line, which must be of this format, and whether another one was torn.
pub(super) fn read<F: DeserializeOwned, L: DeserializeOwned>(
    path: &Path,
    format: &'static str,
    wanted: &'static str,
    mut each: impl FnMut(&F, L),
) -> Result<(F, bool), RecordError> {
    let io = |source| RecordError::io("read", path, source);
    let mut lines = Lines::open(path, LINE_BYTES_MAX)?;
    let mut line = Vec::new();
    lines.next(&mut line).map_err(io)?;
    let first = format::parse(path, &line, format, wanted)?;
    loop {
        line.clear();
        if lines.next(&mut line).map_err(io)? == 0 {
            return Ok((first, false));
        }
        match serde_json::from_slice(&line) {
            Ok(value) => each(&first, value),
            Err(_) => return Ok((first, true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_reported_once_and_then_it_is_quiet() {
        // /dev/full accepts no bytes: a real full disk.
        for name in ["os.ndjson", "seconds.ndjson.gz"] {
            let file = File::options().write(true).open("/dev/full").unwrap();
            let path = Path::new(name);
            let file = AppendedFile { path: path.into(), file: Some(OpenFile::of(path, file)) };
            let mut lines = LinesFile { file, what: "a line" };
            let error = lines.append(&1).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("free some space"), "{error}");
            assert!(lines.append(&1).is_ok());
        }
    }
}
