//! Reads and writes of main files past the page cache: one O_DIRECT descriptor per file and
//! process.
//!
//! POSIX locks belong to a process and a file: closing *any* descriptor of a file drops all locks
//! that the process holds on it, those of SQLite's own descriptor included. So descriptors are
//! kept here, by device and inode, and are closed only when petal has no connection to the file
//! ([`forget`]). For the same reason headers are read here and nowhere else.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

pub use petal_engine::direct_file::DirectFile;
use petal_engine::direct_file::{self, NotDirect};
pub use petal_engine::in_use::FileId;
use petal_host::files;

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
    let file = entry.refuse_other(id, files::regular(path)?)?;
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
    let found = match open_direct(path, id, entry) {
        Ok(direct) => Ok(Arc::new(direct)),
        Err(mut refused) => {
            entry.unused.extend(refused.file.take());
            Err(refused.reason()?)
        }
    };
    entry.direct = Some(found.clone());
    Ok(found)
}

fn open_direct(path: &Path, id: FileId, entry: &mut SharedFile) -> Result<DirectFile, NotDirect> {
    DirectFile::proved(entry.refuse_other(id, direct_file::open(path)?)?)
}
