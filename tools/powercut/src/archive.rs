//! The guest's first file system as the kernel accepts it: a cpio archive in "newc" format.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// An archive that is being written.
pub struct Archive<W: Write> {
    into: W,
    entries: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

impl<W: Write> Archive<W> {
    /// Writes these files, their parent folders, and the guest's mount points.
    pub fn write(into: W, files: &BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
        let mut archive = Self { into, entries: 0 };
        let above = files.keys().flat_map(|name| name.ancestors().skip(1));
        let mut folders: BTreeSet<&Path> = ["dev", "proc", "sys"].map(Path::new).into();
        folders.extend(above.filter(|folder| folder.parent().is_some()));
        for folder in folders {
            archive.entry(&folder.to_string_lossy(), FOLDER, &[])?;
        }
        for (name, bytes) in files {
            archive.entry(&name.to_string_lossy(), PROGRAM, bytes)?;
        }
        archive.entry("TRAILER!!!", 0, &[])?;
        archive.into.flush()
    }

    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let too_long = |_| io::Error::other(format!("{name} is too large for an archive"));
        let length = u32::try_from(bytes.len()).map_err(too_long)?;
        let name_length = name.len() as u32 + 1;
        let fields = [self.entries, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name_length, 0]
            .map(|field| format!("{field:08x}"));
        write!(self.into, "070701{}{name}\0", fields.concat())?;
        self.pad(110 + name.len() + 1)?;
        self.into.write_all(bytes)?;
        self.pad(bytes.len())
    }

    fn pad(&mut self, length: usize) -> io::Result<()> {
        self.into.write_all(&[0; 3][..length.wrapping_neg() % 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_begin_at_multiples_of_four_and_hold_what_was_put_in() {
        let mut bytes = Vec::new();
        let files = [("bin/one".into(), b"12345".to_vec()), ("init".into(), Vec::new())].into();
        Archive::write(&mut bytes, &files).unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let mut names = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let field = |number: usize| {
                let from = at + 6 + number * 8;
                let text = std::str::from_utf8(&bytes[from..from + 8]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (length, name) = (field(6), field(11));
            let name_at = at + 110;
            names.push(String::from_utf8(bytes[name_at..name_at + name - 1].to_vec()).unwrap());
            let from = (name_at + name).next_multiple_of(4);
            if length > 0 {
                assert_eq!(&bytes[from..from + length], b"12345");
            }
            at = (from + length).next_multiple_of(4);
        }
        assert_eq!(names, ["bin", "dev", "proc", "sys", "bin/one", "init", "TRAILER!!!"]);
    }
}
