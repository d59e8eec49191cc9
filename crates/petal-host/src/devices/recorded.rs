//! Trees of /proc and /sys for tests, kept as text in tests/data/sysfs: a line `PATH = TEXT` is a
//! file of one line, `PATH -> TARGET` a link, and a line PATH alone a file of the indented lines
//! that follow. `#` begins a comment.

// Only tests use it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{DataDevices, Roots, find_under};

/// A recorded tree, unpacked; it goes when this goes.
pub struct Recorded(tempfile::TempDir);

impl Recorded {
    /// The tree of tests/data/sysfs/NAME.txt.
    pub fn named(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/sysfs");
        Self::of(&fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap())
    }

    pub fn of(text: &str) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
        while let Some(line) = lines.next() {
            if let Some((path, target)) = line.split_once(" -> ") {
                let path = tree.path(path);
                symlink(target, path).unwrap();
            } else if let Some((path, text)) = line.split_once(" = ") {
                tree.write(path, &format!("{text}\n"));
            } else if !line.is_empty() {
                let mut text = String::new();
                while let Some(more) = lines.next_if(|line| line.starts_with("  ")) {
                    text.push_str(&more[2..]);
                    text.push('\n');
                }
                tree.write(line, &text);
            }
        }
        tree
    }

    /// Changes a file of the tree as the kernel would: a reader finds the old text or the new.
    pub fn write(&self, path: &str, text: &str) {
        let draft = self.0.path().join("draft");
        fs::write(&draft, text).unwrap();
        fs::rename(draft, self.path(path)).unwrap();
    }

    /// Text of a file of the tree.
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Path of a file in the tree; makes its folder.
    fn path(&self, path: &str) -> std::path::PathBuf {
        let path = self.0.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub fn roots(&self) -> Roots {
        Roots { proc: self.0.path().join("proc"), sys: self.0.path().join("sys") }
    }

    /// The devices of files, if stat answers as `numbers` says for paths above them.
    pub fn find(&self, files: &[&str], numbers: &[(&str, (u32, u32))]) -> DataDevices {
        self.find_for(files, &[], numbers)
    }

    /// The devices of the data's files and of a server's other files.
    pub fn find_for(
        &self,
        data: &[&str],
        others: &[&str],
        numbers: &[(&str, (u32, u32))],
    ) -> DataDevices {
        let [data, others] =
            [data, others].map(|files| files.iter().map(Into::into).collect::<Vec<_>>());
        find_under(self.roots(), &data, &others, |path| {
            let (_, (major, minor)) = numbers.iter().find(|(known, _)| path == Path::new(known))?;
            Some(rustix::fs::makedev(*major, *minor))
        })
    }
}
