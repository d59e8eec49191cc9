//! Reads and writes of main files past the page cache: one O_DIRECT descriptor per file and
//! process. Pages pass through [`with_bounce`].
//!
//! POSIX locks belong to a process and a file: closing *any* descriptor of a file drops all locks
//! that the process holds on it, those of SQLite's own descriptor included. So descriptors are
//! kept here, by device and inode, and are closed only when petal has no connection to the file
//! ([`forget`]). For the same reason headers are read here and nowhere else.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, StatxFlags};

use super::bounce::with_bounce;
pub use petal_engine::in_use::FileId;

#[derive(Default)]
struct SharedFile {
    /// Connections of petal's that have the file open.
    connections: usize,
    /// The descriptor for headers and fsync.
    buffered: Option<Arc<File>>,
    direct: Option<Result<Arc<DirectFile>, String>>,
    /// Descriptors that turned out useless, kept open all the same.
    unused: Vec<File>,
}

impl SharedFile {
    /// Refuses a descriptor of another file, which took the place of this one at that moment. It stays
    /// open: the file may be SQLite's.
    fn refuse_other(&mut self, id: FileId, opened: File) -> io::Result<File> {
        if FileId::from(&opened.metadata()?) == id {
            return Ok(opened);
        }
        self.unused.push(opened);
        Err(io::Error::other("another file took its place while petal opened it"))
    }
}

static FILES: LazyLock<Mutex<HashMap<FileId, SharedFile>>> = LazyLock::new(Mutex::default);

/// A connection opened the file.
pub fn opened(file: FileId) {
    FILES.lock().entry(file).or_default().connections += 1;
}

/// A connection closed the file. Its descriptors stay. Returns how many connections are left.
pub fn closed(file: FileId) -> usize {
    FILES.lock().get_mut(&file).map_or(0, |entry| {
        entry.connections = entry.connections.saturating_sub(1);
        entry.connections
    })
}

/// Gives up the descriptors of a file that is being removed, if no connection has it open.
pub fn forget(file: FileId) {
    let mut files = FILES.lock();
    if files.get(&file).is_some_and(|entry| entry.connections == 0) {
        files.remove(&file);
    }
}

/// The file's kept descriptor through the page cache: for its header, samples and fsync.
pub fn buffered(path: &Path) -> io::Result<Arc<File>> {
    let id = FileId::of(path)?;
    let mut files = FILES.lock();
    let entry = files.entry(id).or_default();
    if let Some(file) = &entry.buffered {
        return Ok(Arc::clone(file));
    }
    let file = entry.refuse_other(id, File::open(path)?)?;
    Ok(Arc::clone(entry.buffered.insert(Arc::new(file))))
}

/// The file's O_DIRECT descriptor, or why it has none. An error is tried again next time.
pub fn direct(path: &Path) -> io::Result<Result<Arc<DirectFile>, String>> {
    let id = FileId::of(path)?;
    let mut files = FILES.lock();
    let entry = files.entry(id).or_default();
    if let Some(known) = &entry.direct {
        return Ok(known.clone());
    }
    let found = DirectFile::open(path, id, entry)?;
    entry.direct = Some(found.clone());
    Ok(found)
}

/// Serves every common device, for kernels before 6.1, which name none.
const ALIGNMENT_DEFAULT: usize = 4096;
/// Some file systems take O_DIRECT in open and refuse it in the first read.
const PROBE_BYTES: usize = 4096;
/// A call that was interrupted, refused for now or served in part is repeated so often.
const TRIES_MORE: u32 = 3;

/// An O_DIRECT descriptor, proved by a read.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    offset_alignment: usize,
}

impl DirectFile {
    /// The file, or why there is no direct I/O. A useless descriptor goes to `unused`.
    fn open(
        path: &Path,
        id: FileId,
        entry: &mut SharedFile,
    ) -> io::Result<Result<Arc<Self>, String>> {
        let file = match open_direct(path) {
            Ok(file) => entry.refuse_other(id, file)?,
            Err(error) if is_unsupported(&error) => {
                return Ok(Err(format!("O_DIRECT is refused at open: {error}")));
            }
            Err(error) => return Err(error),
        };
        let Some(offset_alignment) = offset_alignment(&file) else {
            entry.unused.push(file);
            return Ok(Err("the file system has no direct I/O for this file".into()));
        };
        let direct = Self { file, offset_alignment };
        let mut probe = vec![0; PROBE_BYTES.max(offset_alignment)];
        let Err(error) = direct.read(&mut probe, 0) else { return Ok(Ok(Arc::new(direct))) };
        entry.unused.push(direct.file);
        if !is_unsupported(&error) {
            return Err(error);
        }
        Ok(Err(format!("a direct read is refused: {error}")))
    }

    /// True when a call of this size at this place can go direct.
    pub fn takes(&self, offset: u64, bytes: usize) -> bool {
        offset.is_multiple_of(self.offset_alignment as u64)
            && bytes.is_multiple_of(self.offset_alignment)
    }

    /// Bytes read; fewer than asked at the end of the file.
    pub fn read(&self, page: &mut [u8], offset: u64) -> io::Result<usize> {
        with_bounce(page.len(), |bounce| {
            let bytes = repeated(bounce.len(), || self.file.read_at(bounce, offset))?;
            page[..bytes].copy_from_slice(&bounce[..bytes]);
            Ok(bytes)
        })
    }

    /// Writes all of it.
    pub fn write(&self, page: &[u8], offset: u64) -> io::Result<()> {
        let bytes = with_bounce(page.len(), |bounce| {
            bounce.copy_from_slice(page);
            repeated(bounce.len(), || self.file.write_at(bounce, offset))
        })?;
        if bytes == page.len() {
            return Ok(());
        }
        Err(io::Error::other(format!("{bytes} of {} bytes were written", page.len())))
    }
}

/// Makes a call again that may yet move all of its bytes: the end of a file stays where it is.
fn repeated(wanted: usize, mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    let mut tries_left = TRIES_MORE;
    loop {
        let answer = call();
        let is_final = match &answer {
            Ok(moved) => *moved == wanted || *moved == 0,
            Err(error) => {
                !matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
            }
        };
        if is_final || tries_left == 0 {
            return answer;
        }
        tries_left -= 1;
    }
}

/// Opens a file for reading and writing, or for reading only if it may not be written.
fn open_direct(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECT);
    options.clone().write(true).open(path).or_else(|error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => options.open(path),
        _ => Err(error),
    })
}

/// True for a file system's answer that it has no direct I/O.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

/// The alignment of offsets; None if the file cannot be read directly. That of memory is at most a
/// page's.
fn offset_alignment(file: &File) -> Option<usize> {
    match rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(found)
            if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN) =>
        {
            (found.stx_dio_offset_align > 0).then_some(found.stx_dio_offset_align as usize)
        }
        _ => Some(ALIGNMENT_DEFAULT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_yet_succeed_is_done_again() {
        let calls = |answers: &[Result<usize, i32>]| {
            let mut made = 0;
            let answer = repeated(4096, || {
                made += 1;
                let answer = answers[(made - 1).min(answers.len() - 1)];
                answer.map_err(io::Error::from_raw_os_error)
            });
            (made, answer.map_err(|error| error.raw_os_error().unwrap()))
        };
        assert_eq!(calls(&[Ok(4096)]), (1, Ok(4096)));
        assert_eq!(calls(&[Ok(0)]), (1, Ok(0)));
        assert_eq!(calls(&[Ok(512), Ok(4096)]), (2, Ok(4096)));
        assert_eq!(calls(&[Ok(512)]), (4, Ok(512)), "the file ends within the page");
        assert_eq!(calls(&[Err(libc::EINTR), Ok(4096)]), (2, Ok(4096)));
        assert_eq!(calls(&[Err(libc::EAGAIN)]), (4, Err(libc::EAGAIN)));
        assert_eq!(calls(&[Err(libc::EIO), Ok(4096)]), (1, Err(libc::EIO)));
    }
}
