//! Bytes of a file as text: undoes gzip and MIME, finds the encoding, and reads never more than
//! [`LIMIT`] bytes. This module knows nothing about reports.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use flate2::read::MultiGzDecoder;

use super::mime;

/// Maximum bytes of a report, after gzip. The largest known report is a tenth of it. The rest is
/// not read, and a note says so.
pub const LIMIT: u64 = 128 << 20;

pub(super) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// First bytes of files that petal does not unpack, with the file type.
const FOREIGN: [(&[u8], &str); 8] = [
    (b"BZh", "packed with bzip2 (unpack it: bunzip2)"),
    (b"\xfd7zXZ\0", "packed with xz (unpack it: unxz)"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd (unpack it: unzstd)"),
    (b"\x1f\x9d", "packed with compress (unpack it: uncompress)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive (unpack it: 7z x)"),
    (b"Rar!\x1a\x07", "a RAR archive (unpack it: unrar x)"),
    (b"%PDF-", "a PDF document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document, or a mail of Outlook"),
];
/// Bytes used to detect an encoding without a mark.
const PROBE: usize = 4096;

/// A text and notes on how it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    pub text: String,
    pub notes: Vec<String>,
    /// Type of a file that is not a text, if it is one of the types in which reports are often
    /// wrapped.
    pub foreign: Option<&'static str>,
}

/// Opens a file for reading.
#[allow(
    clippy::disallowed_methods,
    reason = "this crate uses none of petal's; a named pipe will do"
)]
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
    }
    Ok(file)
}

/// Reads a text, gzip'd or not.
pub fn read(path: &Path) -> io::Result<Source> {
    let file = open(path)?;
    let mut bytes = Vec::with_capacity(file.metadata()?.len().min(LIMIT) as usize + 1);
    file.take(LIMIT + 1).read_to_end(&mut bytes)?;
    Ok(decode(bytes))
}

/// Decodes bytes, gzip'd or not, as a text.
pub fn decode(bytes: Vec<u8>) -> Source {
    decode_within(bytes, LIMIT)
}

fn decode_within(bytes: Vec<u8>, limit: u64) -> Source {
    let mut notes = Vec::new();
    let is_packed = bytes.starts_with(&GZIP_MAGIC);
    let bytes = if is_packed { gunzip(&bytes, limit, &mut notes) } else { bytes };
    if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Source { foreign: Some(what), notes, ..Source::default() };
    }
    let mut bytes = mime::text_part(&bytes).unwrap_or(bytes);
    if bytes.len() as u64 > limit {
        bytes.truncate(limit as usize);
        // A probe may end within a character.
        let valid = std::str::from_utf8(&bytes).err().map(|error| (error.valid_up_to(), error));
        if let Some((to, error)) = valid
            && error.error_len().is_none()
        {
            bytes.truncate(to);
        }
        notes.push(format!("only its first {} were read", mebibytes(limit)));
    }
    let encoding = encoding_of(&bytes);
    if encoding != UTF_8 {
        notes.push(format!("was read as {}", encoding.name()));
    }
    let text = if encoding == UTF_8 {
        // `encoding_of` has checked the bytes: nothing is copied.
        let mut text = String::from_utf8(bytes).unwrap_or_default();
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        text
    } else {
        encoding.decode(&bytes).0.into_owned()
    };
    Source { text, notes, foreign: None }
}

/// Unpacks gzip; a damaged archive gives its readable part and a note.
fn gunzip(packed: &[u8], limit: u64, notes: &mut Vec<String>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut decoder = MultiGzDecoder::new(packed).take(limit + 1);
    if let Err(error) = decoder.read_to_end(&mut bytes) {
        notes.push(format!(
            "the gzip archive is damaged ({error}): {} bytes of it could be unpacked",
            bytes.len()
        ));
    }
    bytes
}

/// Detects UTF-16 with or without a mark, UTF-8, or else Windows-1252, in which any bytes are
/// valid.
fn encoding_of(bytes: &[u8]) -> &'static Encoding {
    if let Some((encoding, _)) = Encoding::for_bom(bytes).filter(|(found, _)| *found != UTF_8) {
        return encoding;
    }
    let probe = bytes.get(..PROBE).unwrap_or(bytes);
    // In UTF-16 every other byte of Latin text is zero.
    let zeros = |parity| {
        let every_other = probe.iter().skip(parity).step_by(2);
        every_other.filter(|&&byte| byte == 0).count() * 4 > probe.len()
    };
    if zeros(1) {
        UTF_16LE
    } else if zeros(0) {
        UTF_16BE
    } else if std::str::from_utf8(bytes).is_ok() {
        UTF_8
    } else {
        WINDOWS_1252
    }
}

/// Rounds bytes to whole mebibytes, for notes.
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const TEXT: &str = "STATSPACK report for\r\nMüller";

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn encodings_are_detected() {
        let utf16le: Vec<u8> = TEXT.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let utf16be: Vec<u8> = TEXT.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let latin: Vec<u8> = TEXT.chars().map(|c| c as u32 as u8).collect();
        let marked = [b"\xff\xfe".as_slice(), &utf16le].concat();
        let utf8 = [b"\xef\xbb\xbf", TEXT.as_bytes()].concat();
        for bytes in [utf16le, utf16be, latin, marked, utf8, TEXT.into(), gzip(TEXT.as_bytes())] {
            assert_eq!(decode(bytes.clone()).text, TEXT, "{bytes:?}");
        }
    }

    #[test]
    fn an_unsupported_compression_is_named() {
        let foreign = |bytes: &[u8]| decode(bytes.to_vec()).foreign.unwrap_or("");
        assert!(foreign(b"BZh91AY&SY").contains("bunzip2"));
        assert!(foreign(&gzip(b"%PDF-1.4")).contains("PDF"));
        assert_eq!(foreign(TEXT.as_bytes()), "");
    }

    #[test]
    fn a_cut_archive_gives_what_can_be_unpacked() {
        let text = "0123456789 abcdefghij ".repeat(5000);
        let mut packed = gzip(text.as_bytes());
        packed.truncate(packed.len() - 9);
        let source = decode(packed);
        assert!(text.starts_with(&source.text) && !source.text.is_empty());
        assert!(source.notes[0].contains("damaged"), "{:?}", source.notes);
    }

    #[test]
    fn an_endless_archive_is_cut() {
        let source = decode_within(gzip(&vec![b' '; 5000]), 4096);
        assert_eq!(source.text.len(), 4096);
        assert_eq!(source.notes.len(), 1, "{:?}", source.notes);
        let source = decode_within("é".repeat(100).into(), 51);
        assert_eq!(source.text, "é".repeat(25));
    }
}
