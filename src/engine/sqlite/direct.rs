//! Reads and writes of main files past the page cache: one O_DIRECT descriptor per file and
//! process, and the aligned buffer that pages pass through.
//!
//! POSIX locks belong to a process and a file: closing *any* descriptor of a file drops all locks
//! that the process holds on it, those of SQLite's own descriptor included. So descriptors are
//! kept here, by device and inode, and are closed only when petal has no connection to the file
//! ([`forget`]). For the same reason headers are read here and nowhere else.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use rustix::fs::{AtFlags, StatxFlags};

use super::io::locked;

/// A file by device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId(u64, u64);

impl FileId {
    pub fn of(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(Self(metadata.dev(), metadata.ino()))
    }
}

#[derive(Default)]
struct Entry {
    /// Connections of petal's that have the file open.
    connections: usize,
    /// For headers and fsync.
    buffered: Option<Arc<File>>,
    direct: Option<Result<Arc<DirectFile>, String>>,
    /// A descriptor that turned out useless, kept open all the same.
    _unused: Option<File>,
}

static FILES: LazyLock<Mutex<HashMap<FileId, Entry>>> = LazyLock::new(Mutex::default);

/// A connection opened the file.
pub fn opened(file: FileId) {
    locked(&FILES).entry(file).or_default().connections += 1;
}

/// A connection closed the file. Its descriptors stay.
pub fn closed(file: FileId) {
    if let Some(entry) = locked(&FILES).get_mut(&file) {
        entry.connections = entry.connections.saturating_sub(1);
    }
}

/// Gives up the descriptors of a file that is being removed, if no connection has it open.
pub fn forget(file: FileId) {
    let mut files = locked(&FILES);
    if files.get(&file).is_some_and(|entry| entry.connections == 0) {
        files.remove(&file);
    }
}

/// The file's kept descriptor through the page cache: for its header, samples and fsync.
pub fn buffered(path: &Path) -> io::Result<Arc<File>> {
    let id = FileId::of(path)?;
    let mut files = locked(&FILES);
    let entry = files.entry(id).or_default();
    if let Some(file) = &entry.buffered {
        return Ok(Arc::clone(file));
    }
    let file = Arc::new(File::open(path)?);
    entry.buffered = Some(Arc::clone(&file));
    Ok(file)
}

/// The file's O_DIRECT descriptor, or why there is none.
pub fn direct(path: &Path) -> Result<Arc<DirectFile>, String> {
    let id = FileId::of(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut files = locked(&FILES);
    let entry = files.entry(id).or_default();
    if let Some(known) = &entry.direct {
        return known.clone();
    }
    let (found, unused) = DirectFile::open(path);
    entry._unused = unused;
    entry.direct = Some(found.clone());
    found
}

/// Where the kernel does not say (before 6.1), this serves every common device.
const ALIGNMENT_DEFAULT: usize = 4096;
/// Some file systems take O_DIRECT in open and refuse it in the first read.
const PROBE_BYTES: usize = 4096;

/// An O_DIRECT descriptor, proved by a read.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    offset_alignment: usize,
    memory_alignment: usize,
}

impl DirectFile {
    /// The file if it works; else why not, and the descriptor, which must stay open.
    fn open(path: &Path) -> (Result<Arc<Self>, String>, Option<File>) {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)
            .or_else(|_| OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path));
        let file = match opened {
            Ok(file) => file,
            Err(error) => return (Err(format!("O_DIRECT is refused at open: {error}")), None),
        };
        let Some((offset_alignment, memory_alignment)) = alignments(&file) else {
            return (Err("the file system has no direct I/O for this file".into()), Some(file));
        };
        let direct = Self { file, offset_alignment, memory_alignment };
        let mut probe = vec![0; PROBE_BYTES.max(offset_alignment)];
        match direct.read(&mut probe, 0) {
            Ok(_) => (Ok(Arc::new(direct)), None),
            Err(error) => (Err(format!("a direct read is refused: {error}")), Some(direct.file)),
        }
    }

    /// Whether a call of this size at this place can go direct.
    pub fn takes(&self, offset: u64, bytes: usize) -> bool {
        offset.is_multiple_of(self.offset_alignment as u64)
            && bytes.is_multiple_of(self.offset_alignment)
    }

    /// Bytes read; fewer than asked at the end of the file.
    pub fn read(&self, page: &mut [u8], offset: u64) -> io::Result<usize> {
        if (page.as_ptr() as usize).is_multiple_of(self.memory_alignment) {
            return self.file.read_at(page, offset);
        }
        with_bounce(page.len(), self.memory_alignment, |bounce| {
            let bytes = self.file.read_at(bounce, offset)?;
            page[..bytes].copy_from_slice(&bounce[..bytes]);
            Ok(bytes)
        })
    }

    pub fn write(&self, page: &[u8], offset: u64) -> io::Result<usize> {
        if (page.as_ptr() as usize).is_multiple_of(self.memory_alignment) {
            return self.file.write_at(page, offset);
        }
        with_bounce(page.len(), self.memory_alignment, |bounce| {
            bounce.copy_from_slice(page);
            self.file.write_at(bounce, offset)
        })
    }
}

/// Alignment of offsets and of memory; None where the file cannot be read directly.
fn alignments(file: &File) -> Option<(usize, usize)> {
    match rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(found)
            if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN) =>
        {
            (found.stx_dio_offset_align > 0).then_some((
                found.stx_dio_offset_align as usize,
                (found.stx_dio_mem_align as usize).max(1),
            ))
        }
        _ => Some((ALIGNMENT_DEFAULT, ALIGNMENT_DEFAULT)),
    }
}

thread_local! {
    static BOUNCE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends this thread's aligned buffer. It grows to the largest page once.
fn with_bounce<T>(bytes: usize, alignment: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    BOUNCE.with(|buffer| {
        let mut buffer = buffer.borrow_mut();
        if buffer.len() < bytes + alignment {
            buffer.resize(bytes + alignment, 0);
        }
        let start = buffer.as_ptr().align_offset(alignment).min(alignment);
        work(&mut buffer[start..start + bytes])
    })
}
