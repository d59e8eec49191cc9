//! Input files of records. They may come from strangers, or be damaged: a pipe or a device in the
//! place of a file is refused unread, and no more bytes are read than a real file has.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use flate2::bufread::GzDecoder;

use super::RecordError;
use petal_host::files;
use petal_host::numbers::bytes;

/// A day's seconds make a record of about a tenth of this.
pub const BYTES_MAX: u64 = 256 << 20;

pub fn open(path: &Path) -> Result<File, RecordError> {
    files::regular(path).map_err(|error| RecordError::io("read", path, error))
}

/// All of a regular file, if it holds no more than `bytes_max` bytes.
pub fn contents(path: &Path, bytes_max: u64) -> Result<Vec<u8>, RecordError> {
    let file = open(path)?;
    let about = file.metadata().map_err(|error| RecordError::io("read", path, error))?;
    if about.len() > bytes_max {
        return Err(too_large(path, bytes_max));
    }
    // Memory for the allocated blocks, not for holes.
    let expected = about.len().min(about.blocks().saturating_mul(512));
    bounded(path, file, expected, bytes_max)
}

/// All bytes of a reader, if they are no more than `bytes_max`; about `bytes_expected`.
pub fn bounded(
    path: &Path,
    mut reader: impl io::Read,
    bytes_expected: u64,
    bytes_max: u64,
) -> Result<Vec<u8>, RecordError> {
    let mut text = Vec::with_capacity(bytes_expected.min(bytes_max) as usize);
    let read = reader.by_ref().take(bytes_max + 1).read_to_end(&mut text);
    read.map_err(|error| RecordError::io("read", path, error))?;
    if text.len() as u64 > bytes_max { Err(too_large(path, bytes_max)) } else { Ok(text) }
}

fn too_large(path: &Path, bytes_max: u64) -> RecordError {
    RecordError::TooLarge { path: path.to_owned(), most: bytes(bytes_max) }
}

/// Lines of a regular file, each at most `line_bytes_max` long: a file of another kind, or a hole,
/// may have no line ends. A file whose name says so is decompressed.
pub struct Lines {
    reader: Box<dyn BufRead>,
    line_bytes_max: u64,
}

/// Whether the file of this name is compressed by gzip.
pub(super) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "gz")
}

impl Lines {
    pub fn open(path: &Path, line_bytes_max: u64) -> Result<Self, RecordError> {
        let file = BufReader::new(open(path)?);
        let reader: Box<dyn BufRead> = match is_compressed(path) {
            true => Box::new(BufReader::new(GzDecoder::new(file))),
            false => Box::new(file),
        };
        Ok(Self { reader, line_bytes_max })
    }

    /// Appends the next line with its line end, which a torn one lacks. Returns its length: 0 at
    /// the end, also of a compressed file that was cut off or is damaged.
    pub fn next(&mut self, line: &mut Vec<u8>) -> io::Result<usize> {
        let before = line.len();
        match self.reader.by_ref().take(self.line_bytes_max).read_until(b'\n', line) {
            Err(error) if is_cut(&error) => Ok(line.len() - before),
            read => read,
        }
    }
}

/// Whether compressed data end or are damaged here.
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn a_file_larger_than_any_real_one_is_refused_unread() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        File::create(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
        let error = contents(&path, BYTES_MAX).unwrap_err().to_string();
        assert!(error.contains("run.json") && error.contains("256 MiB"), "{error}");
    }

    #[test]
    fn only_a_regular_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let [endless, pipe] = ["endless", "pipe"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for path in [&endless, &pipe, folder.path()] {
            let error = contents(path, BYTES_MAX).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
            assert!(Lines::open(path, 1).is_err());
        }
        assert_eq!(contents(Path::new("/dev/null"), BYTES_MAX).unwrap(), b"");
    }

    #[test]
    fn a_file_that_grows_past_the_bound_is_refused_too() {
        let path = Path::new("run.json");
        assert!(matches!(bounded(path, io::repeat(0), 0, 100), Err(RecordError::TooLarge { .. })));
        assert_eq!(bounded(path, &[7; 100][..], 0, 100).unwrap(), [7; 100]);
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "short\nmuch too long").unwrap();
        let mut lines = Lines::open(file.path(), 8).unwrap();
        let mut text = Vec::new();
        assert_eq!([(); 2].map(|()| lines.next(&mut text).unwrap()), [6, 8]);
        assert_eq!(text, b"short\nmuch too");
    }
}
