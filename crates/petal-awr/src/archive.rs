//! Files that hold reports: zip and tar archives, gzip'd or nested, and mails with attachments.
//! Each file inside one is passed on as a text with its name.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};

use flate2::read::MultiGzDecoder;
use zip::ZipArchive;
use zip::result::ZipError;

use super::mime;
use super::source::{self, GZIP_MAGIC, LIMIT, Source};

/// The folder that macOS adds to an archive for its own attributes of each file.
const FORKS: &str = "__MACOSX/";
/// Archives within archives.
const DEPTH_MAX: usize = 4;
/// Limit for one unpacked file, in bytes: enough for thousands of reports.
const UNPACKED_MAX: u64 = 32 * LIMIT;
/// First bytes of a zip archive; an empty archive has the second form.
const ZIP_MAGIC: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];
/// Offset of the mark in a tar archive, and the mark itself.
const TAR_MAGIC: (usize, &[u8]) = (257, b"ustar");
/// Bytes read to find out a file's type.
const HEAD: u64 = 64 << 10;
/// Documents that are zip archives, each with a file name that identifies it.
const DOCUMENTS: [(&str, &str); 3] = [
    ("word/document.xml", "a Word document"),
    ("xl/workbook.xml", "a workbook"),
    ("META-INF/manifest.xml", "a text document or workbook"),
];

/// Types of files that hold other files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArchiveKind {
    Zip,
    Tar,
    GzippedTar,
}

/// Passes each text in a file to `take`, with its name inside the file; the name is empty for the
/// file itself. Returns true if the file is an archive.
pub fn each(mut file: File, take: &mut dyn FnMut(&str, io::Result<Source>)) -> io::Result<bool> {
    let mut head = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut head)?;
    let mut walk = Walk { take, left: UNPACKED_MAX };
    let whole = Cursor::new(&head).chain(&file);
    match archive(&head) {
        Some(ArchiveKind::Zip) => walk.zip("", BufReader::new(&file), DEPTH_MAX)?,
        Some(ArchiveKind::Tar) => walk.tar("", whole, DEPTH_MAX)?,
        Some(ArchiveKind::GzippedTar) => walk.tar("", MultiGzDecoder::new(whole), DEPTH_MAX)?,
        None => {
            let size = file.metadata()?.len().min(LIMIT) as usize;
            let mut bytes = Vec::with_capacity(size + 1);
            whole.take(LIMIT + 1).read_to_end(&mut bytes)?;
            return Ok(walk.bytes("", bytes, DEPTH_MAX));
        }
    }
    Ok(true)
}

fn archive(head: &[u8]) -> Option<ArchiveKind> {
    let is_tar = |head: &[u8]| {
        let (at, mark) = TAR_MAGIC;
        head.get(at..).is_some_and(|rest| rest.starts_with(mark))
    };
    if ZIP_MAGIC.iter().any(|magic| head.starts_with(magic)) {
        Some(ArchiveKind::Zip)
    } else if is_tar(head) {
        Some(ArchiveKind::Tar)
    } else if head.starts_with(&GZIP_MAGIC) {
        let mut inner = Vec::new();
        // A truncated head still yields its first bytes.
        let _ = MultiGzDecoder::new(head).take(512).read_to_end(&mut inner);
        is_tar(&inner).then_some(ArchiveKind::GzippedTar)
    } else {
        None
    }
}

struct Walk<'t> {
    take: &'t mut dyn FnMut(&str, io::Result<Source>),
    /// Bytes that may still be unpacked.
    left: u64,
}

impl Walk<'_> {
    /// Reads a file in memory; returns true if it holds other files.
    fn bytes(&mut self, name: &str, bytes: Vec<u8>, depth: usize) -> bool {
        let inner = |name: &str| if name.is_empty() { String::new() } else { format!("{name}/") };
        let read = match archive(&bytes).filter(|_| depth > 0) {
            Some(ArchiveKind::Zip) => self.zip(&inner(name), Cursor::new(bytes), depth - 1),
            Some(ArchiveKind::Tar) => self.tar(&inner(name), bytes.as_slice(), depth - 1),
            Some(ArchiveKind::GzippedTar) => {
                self.tar(&inner(name), MultiGzDecoder::new(bytes.as_slice()), depth - 1)
            }
            None => {
                let attached = mime::attachments(&bytes).filter(|_| depth > 0);
                let Some(attached) = attached else {
                    (self.take)(name, Ok(source::decode(bytes)));
                    return false;
                };
                for (part, bytes) in attached {
                    self.bytes(&format!("{}{part}", inner(name)), bytes, depth - 1);
                }
                Ok(())
            }
        };
        if let Err(error) = read {
            (self.take)(name, Err(error));
        }
        true
    }

    fn zip(&mut self, prefix: &str, mut file: impl Read + Seek, depth: usize) -> io::Result<()> {
        let mut bytes_left = file.seek(SeekFrom::End(0))?;
        let mut archive = ZipArchive::new(file)?;
        for (inner, what) in DOCUMENTS {
            if archive.index_for_name(inner).is_some() {
                let name = prefix.trim_end_matches('/');
                (self.take)(name, Ok(Source { foreign: Some(what), ..Source::default() }));
                return Ok(());
            }
        }
        for at in 0..archive.len() {
            let name = archive
                .name_for_index(at)
                .and_then(Result::ok)
                .map_or_else(|| format!("file {}", at + 1), |name| name.into_owned());
            if name.ends_with('/') || name.starts_with(FORKS) {
                continue;
            }
            let name = format!("{prefix}{name}");
            let entry = archive.by_index(at);
            // A thousand entries that share the same bytes would take too long to unpack.
            let packed_bytes = entry.as_ref().map_or(0, |file| file.compressed_size());
            bytes_left = bytes_left.checked_sub(packed_bytes).ok_or_else(|| {
                io::Error::other(format!("its files overlap: it was read no further than {name}"))
            })?;
            match entry {
                Ok(file) => self.entry(&name, file, depth)?,
                Err(error) => (self.take)(&name, Err(reason(error))),
            }
        }
        Ok(())
    }

    fn tar(&mut self, prefix: &str, reader: impl Read, depth: usize) -> io::Result<()> {
        let mut archive = tar::Archive::new(reader);
        for entry in archive.entries()? {
            let entry = entry?;
            let name = entry.path()?.to_string_lossy().into_owned();
            let is_fork = name.rsplit('/').next().is_some_and(|last| last.starts_with("._"));
            if entry.header().entry_type().is_file() && !is_fork {
                self.entry(&format!("{prefix}{name}"), entry, depth)?;
            }
        }
        Ok(())
    }

    /// Reads one file of an archive; fails if the archive unpacks to more than the limit.
    fn entry(&mut self, name: &str, file: impl Read, depth: usize) -> io::Result<()> {
        let mut bytes = Vec::new();
        let read = file.take(LIMIT + 1).read_to_end(&mut bytes);
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(io::Error::other(format!(
                "unpacks to more than {}, and was read no further than {name}; unpack it yourself, \
                 and name the folder",
                super::source::mebibytes(UNPACKED_MAX)
            )));
        };
        self.left = left;
        match read {
            Ok(_) => _ = self.bytes(name, bytes, depth),
            Err(error) => (self.take)(name, Err(error)),
        }
        Ok(())
    }
}

fn reason(error: ZipError) -> io::Error {
    match error {
        ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) => io::Error::other(
            "is locked with a password; unpack the archive yourself, and name the folder",
        ),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const TEXT: &str = "STATSPACK report for\n";

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in files {
            archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(bytes).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, name, *bytes).unwrap();
        }
        archive.into_inner().unwrap()
    }

    /// Returns each name with its text or error.
    fn found(bytes: &[u8]) -> Vec<(String, String)> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let mut found = Vec::new();
        let mut take = |name: &str, source: io::Result<Source>| {
            let shown = match source {
                Ok(Source { foreign: Some(what), .. }) => what.to_owned(),
                Ok(source) => source.text,
                Err(error) => error.to_string(),
            };
            found.push((name.to_owned(), shown));
        };
        each(file, &mut take).unwrap();
        found
    }

    #[test]
    fn archives_in_archives_are_read_with_their_names() {
        let text = TEXT.as_bytes();
        let inner = zip(&[("a.txt", text), ("b.txt.gz", &gzip(text))]);
        let all =
            tar(&[("x/1.zip", &inner), ("x/2.tgz", &gzip(&tar(&[("c", text)]))), ("d", text)]);
        let names = ["x/1.zip/a.txt", "x/1.zip/b.txt.gz", "x/2.tgz/c", "d"];
        let expected: Vec<_> = names.map(|name| (name.to_owned(), TEXT.to_owned())).into();
        assert_eq!(found(&all), expected);
        assert_eq!(found(&gzip(&all)), expected);
        assert_eq!(found(&zip(&[("t.tar", &all)]))[0].0, "t.tar/x/1.zip/a.txt");
        assert_eq!(found(text), [(String::new(), TEXT.to_owned())]);
    }

    #[test]
    fn archives_without_end_are_not_followed() {
        let mut nested = TEXT.as_bytes().to_vec();
        for _ in 0..12 {
            nested = zip(&[("z", &nested)]);
        }
        let found = found(&nested);
        assert_eq!(found.len(), 1);
        assert!(found[0].0.matches('/').count() <= DEPTH_MAX, "{found:?}");
    }

    #[test]
    fn a_damaged_archive_says_so_and_gives_what_it_can() {
        let mut cut = tar(&[("a", TEXT.as_bytes()), ("b", TEXT.as_bytes())]);
        cut.truncate(1024 + 600);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&cut).unwrap();
        file.rewind().unwrap();
        let mut names = Vec::new();
        let read = each(file, &mut |name, source| names.push((name.to_owned(), source.is_ok())));
        assert_eq!(names[0], ("a".to_owned(), true));
        assert!(read.is_err() || names.iter().any(|(_, is_read)| !is_read), "{names:?}");
    }

    #[test]
    fn documents_are_named() {
        assert_eq!(found(&zip(&[("word/document.xml", b"<x>")]))[0].1, "a Word document");
    }
}
