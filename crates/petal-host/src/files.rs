//! Files and folders are opened here, and nowhere else (`disallowed-methods` in clippy.toml). A file
//! in a folder is reached by the folder's descriptor, so that a folder or a link that takes a path's
//! place gets nothing, and no pipe holds petal up. Nobody but the owner may write a new file, whatever
//! the umask.

#![allow(clippy::disallowed_methods, reason = "the one place that opens files")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use rustix::fs::OFlags;
use rustix::fs::{AtFlags, Dir, Mode, RenameFlags, ResolveFlags};
use rustix::io::{Errno, retry_on_intr};

const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const FOLDER_MODE: u32 = 0o755;

/// Opens a path as these flags say: for devices, and for data files by their engine's own rules.
pub fn open(path: impl AsRef<Path>, how: OFlags) -> io::Result<File> {
    let access = how & OFlags::ACCMODE;
    let mut options = File::options();
    options.read(access != OFlags::WRONLY).write(access != OFlags::RDONLY);
    options.custom_flags(how.bits().cast_signed()).mode(FILE_MODE.as_raw_mode()).open(path)
}

/// Opens a regular file to read it.
pub fn regular(path: impl AsRef<Path>) -> io::Result<File> {
    checked_regular(open(path, OFlags::RDONLY | OFlags::NONBLOCK)?)
}

/// Opens a file that the caller named. It may be a pipe, for which the caller waits.
pub fn named(path: impl AsRef<Path>) -> io::Result<File> {
    open(path, OFlags::RDONLY)
}

/// Opens a pipe or a device to write to it. A pipe that no program reads is an error.
pub fn port(path: impl AsRef<Path>) -> io::Result<File> {
    open(path, OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK).map_err(in_words)
}

/// The system's refusals of links and pipes, as words.
pub fn in_words(error: io::Error) -> io::Error {
    io::Error::other(match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => "it is a link",
        Some(Errno::NXIO) => "no program reads from this pipe; start its reader first",
        _ => return error,
    })
}

/// Reads a regular file.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a regular file of text.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| not_text(error.as_bytes()))
}

/// Why these bytes are no text, if they are UTF-16; Windows writes such files.
pub fn utf16_words(bytes: &[u8]) -> Option<&'static str> {
    let is_marked = [[0xff, 0xfe], [0xfe, 0xff]].iter().any(|mark| bytes.starts_with(mark));
    is_marked.then_some("it is UTF-16 text; write it in UTF-8 (iconv -f UTF-16 -t UTF-8)")
}

fn not_text(bytes: &[u8]) -> io::Error {
    let words = utf16_words(bytes).unwrap_or("stream did not contain valid UTF-8");
    io::Error::new(io::ErrorKind::InvalidData, words)
}

/// Reads a text of the kernel or of root, such as `/proc/stat` or `/etc/passwd`. No other user can
/// put anything in its place.
pub fn system_text(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read_to_string(path)
}

/// Resolves a path in another root folder, whose links lead nowhere outside of it. The path that
/// comes back is below `root` and has no link.
pub fn resolved_in_root(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let above = open(root, flags | OFlags::DIRECTORY)?;
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let found = rustix::fs::openat2(&above, path, flags, Mode::empty(), how)?;
    // The kernel shows both from the top of the same mounts.
    let shown = [&above.into(), &found].map(|file: &OwnedFd| fs::read_link(by_descriptor(file)));
    let [above, found] = shown;
    let found = found?;
    Ok(root.join(found.strip_prefix(above?).map_err(io::Error::other)?))
}

/// Makes a folder and those above it.
pub fn make_folders(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Makes a folder that did not exist and that nobody else may read.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Renames a file or a folder.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Removes a file, or a link.
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// Removes an empty folder.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    fs::remove_dir(path)
}

/// Removes a folder of petal's own with all that is in it, by its name in the folder above.
pub fn remove_all(path: &Path) -> io::Result<()> {
    let (folder, name) = Folder::of_path(path)?;
    folder.remove_all(name)
}

/// Refuses all but a regular file; /dev/null counts as an empty one.
fn checked_regular(file: File) -> io::Result<File> {
    let found = file.metadata()?;
    let is_null = found.rdev() == fs::metadata("/dev/null").map_or(0, |null| null.rdev());
    match found.is_file() || found.file_type().is_char_device() && is_null {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Path of a file for as long as it is open, wherever it is moved.
fn by_descriptor(file: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A folder by its descriptor. A name in it is never followed if it is a link.
#[derive(Debug, Clone)]
pub struct Folder(Arc<File>);

impl Folder {
    /// The folder that a path's last name is in, and that name.
    pub fn of_path(path: &Path) -> io::Result<(Self, &OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((Self::open(path.parent().unwrap_or(Path::new("")))?, name))
    }

    pub fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Self(Arc::new(open(path, OFlags::RDONLY | OFlags::DIRECTORY)?)))
    }

    /// The open folder, to lock or to sync it.
    pub fn file(&self) -> &File {
        &self.0
    }

    fn open_at(&self, name: &OsStr, how: OFlags) -> io::Result<File> {
        let how = how | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(retry_on_intr(|| rustix::fs::openat(&self.0, name, how, FILE_MODE))?.into())
    }

    /// Makes a folder that did not exist, and opens it.
    pub fn make(&self, name: &OsStr) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(FOLDER_MODE))?;
        let made = self.inside(name)?;
        match made.names()?.is_empty() {
            true => Ok(made),
            false => Err(io::Error::other("another folder took the place of the one just made")),
        }
    }

    /// Opens a folder in this one.
    pub fn inside(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self(Arc::new(self.open_at(name, OFlags::RDONLY | OFlags::DIRECTORY)?)))
    }

    /// Names of everything in it.
    pub fn names(&self) -> io::Result<Vec<PathBuf>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(PathBuf::from(name));
            }
        }
        Ok(names)
    }

    /// Opens a regular file to read it.
    pub fn read(&self, name: &OsStr) -> io::Result<File> {
        checked_regular(self.open_at(name, OFlags::RDONLY | OFlags::NONBLOCK)?)
    }

    /// Makes a file that did not exist, to append to it.
    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        self.open_at(name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL)
    }

    /// Makes a new file in the place of an entry of this name: a file of a killed petal, or a link.
    pub fn create_anew(&self, name: &OsStr) -> io::Result<File> {
        match self.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.create(name),
        }
    }

    /// Opens a regular file that stays, to lock it or to append to it, or makes it. One with another
    /// name elsewhere is refused.
    pub fn keep(&self, name: &OsStr) -> io::Result<File> {
        let how = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        let file = checked_regular(self.open_at(name, how)?)?;
        match file.metadata()?.nlink() {
            1 => Ok(file),
            _ => Err(io::Error::other("it has another name, too")),
        }
    }

    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes a folder in this one with all that is in it.
    pub fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir_all(self.by_descriptor().join(name))
    }

    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Renames to a name that must be free.
    pub fn rename_to_nothing(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match rustix::fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
            // The file system does not support that rename.
            Err(Errno::INVAL | Errno::NOSYS) => self.rename(from, to),
            renamed => Ok(renamed?),
        }
    }

    /// Path of the folder for as long as it is open, wherever it is moved.
    pub fn by_descriptor(&self) -> PathBuf {
        by_descriptor(&self.0)
    }

    /// The path that it has now, if it is no longer `path`.
    pub fn moved_from(&self, path: &Path) -> Option<PathBuf> {
        let id = |about: fs::Metadata| (about.dev(), about.ino());
        let own = self.0.metadata().map(id).ok()?;
        let is_there = fs::metadata(path).is_ok_and(|there| id(there) == own);
        (!is_there).then(|| fs::read_link(self.by_descriptor()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    /// A folder with a victim outside, links to it, and a pipe.
    fn hostile() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("victim"), "mine").unwrap();
        fs::create_dir(place.path().join("folder")).unwrap();
        let inside = |name: &str| place.path().join("folder").join(name);
        symlink("../victim", inside("link")).unwrap();
        symlink("..", inside("up")).unwrap();
        fs::hard_link(place.path().join("victim"), inside("twin")).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, inside("pipe"), fifo, mode, 0).unwrap();
        let folder = Folder::open(&place.path().join("folder")).unwrap();
        (place, folder)
    }

    #[test]
    fn links_and_pipes_are_neither_followed_nor_waited_for() {
        let (place, folder) = hostile();
        for wrong in ["link", "pipe", "up"] {
            assert!(folder.read(name(wrong)).is_err(), "{wrong}");
            assert!(folder.create(name(wrong)).is_err(), "{wrong}");
            assert!(folder.keep(name(wrong)).is_err(), "{wrong}");
        }
        assert!(folder.keep(name("twin")).is_err());
        assert!(folder.inside(name("up")).is_err());
        assert!(regular(place.path().join("folder/pipe")).is_err());
        assert!(text(place.path().join("folder")).is_err());
        folder.create_anew(name("link")).unwrap().write_all(b"said").unwrap();
        folder.keep(name("lock")).unwrap();
        folder.keep(name("lock")).unwrap();
        assert_eq!(fs::read(place.path().join("victim")).unwrap(), b"mine");
    }

    #[test]
    fn a_folder_that_takes_the_place_of_another_gets_nothing() {
        let (place, folder) = hostile();
        let [path, moved] = ["folder", "moved"].map(|name| place.path().join(name));
        assert_eq!(folder.moved_from(&path), None);
        fs::rename(&path, &moved).unwrap();
        fs::create_dir(&path).unwrap();
        folder.create(name("new")).unwrap();
        folder.make(name("below")).unwrap().create(name("new")).unwrap();
        folder.rename(name("new"), name("renamed")).unwrap();
        assert!(folder.rename_to_nothing(name("renamed"), name("pipe")).is_err());
        assert!(moved.join("renamed").is_file() && moved.join("below/new").is_file());
        folder.remove_all(name("below")).unwrap();
        assert!(!moved.join("below").exists());
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        assert_eq!(folder.moved_from(&path), Some(moved));
    }

    #[test]
    fn a_file_of_utf_16_is_named_as_such() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        for (bytes, words) in [(&b"\xff\xfeA\0"[..], "UTF-16"), (b"\xfe\xff\0A", "UTF-16")] {
            fs::write(&path, bytes).unwrap();
            assert!(text(&path).unwrap_err().to_string().contains(words));
        }
        fs::write(&path, b"\xe4").unwrap();
        assert!(text(&path).unwrap_err().to_string().contains("valid UTF-8"));
    }

    #[test]
    fn a_link_in_another_root_stays_in_it() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir_all(root.join("data/pg")).unwrap();
        symlink("/data", root.join("var")).unwrap();
        symlink("../../..", root.join("up")).unwrap();
        let of = |path: &str| resolved_in_root(&root, Path::new(path)).ok();
        assert_eq!(of("/var/pg"), Some(root.join("data/pg")));
        assert_eq!(of("/up"), Some(root.join("")));
        assert_eq!(of("/var/none"), None);
    }

    #[test]
    fn nobody_else_may_write_a_new_file_or_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        folder.create(name("file")).unwrap();
        folder.make(name("made")).unwrap();
        make_folders(&place.path().join("a/b")).unwrap();
        for name in ["file", "made", "a", "a/b"] {
            let mode = fs::metadata(place.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o022, 0, "{name}");
        }
    }
}
