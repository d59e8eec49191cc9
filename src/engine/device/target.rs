//! The file or block device under test: its kind, opening, header, and aligned memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::layout::{COPY_OFFSET, HEADER_BYTES, TargetContent, TargetHeader};
use crate::engine::file_lock::FileLock;
use crate::engine::in_use::{DataUse, FileId};
use crate::engine::on_path::{OnPath, unusable};
use crate::engine::{EngineError, Result};
use crate::stats::target::DirectIo;

/// The alignment of memory pages, which every common device accepts.
pub const MEMORY_ALIGNMENT: usize = 4096;
const PROBE_BYTES: usize = 4096;

/// Memory at a page's boundary. Empty by default.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl AlignedBuffer {
    pub fn new(bytes: usize) -> Self {
        let memory = vec![0u8; bytes + MEMORY_ALIGNMENT];
        let start = memory.as_ptr().align_offset(MEMORY_ALIGNMENT).min(MEMORY_ALIGNMENT);
        Self { memory, start, bytes }
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

/// The kind of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    Missing,
    File,
    BlockDevice,
}

pub fn kind(path: &Path) -> Result<TargetKind> {
    match std::fs::metadata(path) {
        Ok(about) if about.file_type().is_block_device() => Ok(TargetKind::BlockDevice),
        Ok(about) if about.is_file() => Ok(TargetKind::File),
        Ok(_) => Err(EngineError::Environment(format!(
            "{}: it is neither a file nor a block device; name one of these, or a file that is \
             not there yet, as in device:/data/petal.dat",
            path.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TargetKind::Missing),
        Err(error) => Err(unusable(path, &error)),
    }
}

/// The header at its start; None where there is none.
pub fn find(path: &Path) -> Result<Option<TargetContent>> {
    if kind(path)? == TargetKind::Missing {
        return Ok(None);
    }
    let file = File::open(path).on(path)?;
    let mut bytes = vec![0; HEADER_BYTES as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unusable(path, &error)),
        }
    }
    Ok(Some(TargetHeader::find(&bytes[..filled])))
}

/// Writes both copies of the header, one after the other, each durable before the next.
pub fn write_header(path: &Path, header: &TargetHeader) -> Result<()> {
    let bytes = header.encode().ok_or_else(|| {
        EngineError::Setting(format!(
            "{}: {} schemas do not fit into its header; load fewer",
            path.display(),
            header.schemas.len()
        ))
    })?;
    overwrite(path, COPY_OFFSET, &bytes)?;
    overwrite(path, 0, &bytes)
}

/// Writes some bytes through the page cache and makes them durable.
pub fn overwrite(path: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
    let write = || {
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(bytes, offset)?;
        file.sync_all()
    };
    write().on(path)
}

/// An open target.
#[derive(Debug, Clone)]
pub struct OpenTarget {
    pub path: PathBuf,
    pub file: Arc<File>,
    pub kind: TargetKind,
    pub bytes: u64,
    pub direct: DirectIo,
    /// Keeps others away as long as it is open.
    _lock: Arc<FileLock>,
}

impl OpenTarget {
    /// For reading and writing, past the page cache if asked for and possible; together with the
    /// other hosts of the run, if there are some.
    pub fn open(path: &Path, asked: bool, is_shared: bool) -> Result<Self> {
        let kind = kind(path)?;
        let open =
            |flags: i32| OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let direct_file = asked.then(|| open(libc::O_DIRECT).and_then(proved));
        let (file, reason) = match direct_file {
            Some(Ok(file)) => (file, None),
            refused => {
                let file = open(0).on(path)?;
                let reason = refused.and_then(Result::err);
                (file, reason.map(|error| format!("direct I/O is refused there: {error}")))
            }
        };
        let bytes = length(&file).on(path)?;
        let lock = lock(path, kind, is_shared)?;
        let direct = DirectIo { asked, used: asked && reason.is_none(), reason };
        let file = Arc::new(file);
        Ok(Self { path: path.to_owned(), file, kind, bytes, direct, _lock: Arc::new(lock) })
    }
}

impl DataUse for OpenTarget {
    /// A block device keeps its data, whatever its node is called.
    fn vanished(&self) -> Result<Option<String>> {
        if self.kind == TargetKind::BlockDevice {
            return Ok(None);
        }
        let open = self.file.metadata().on(&self.path)?;
        Ok(FileId::from(&open).vanished(&self.path))
    }
}

/// Keeps mounts, volumes, RAIDs and other petals from a block device, other petals from a file. Of
/// a run of several hosts only petals that do not share it are kept away.
fn lock(path: &Path, kind: TargetKind, is_shared: bool) -> Result<FileLock> {
    let mut how = OpenOptions::new();
    how.read(true).write(true);
    if kind == TargetKind::BlockDevice && !is_shared {
        // Without O_CREAT this is the kernel's own claim of a block device (open(2)).
        how.custom_flags(libc::O_EXCL);
    }
    let file = how.open(path).on(path)?;
    let lock = if is_shared { FileLock::shared_on(file) } else { FileLock::on(file) };
    lock.ok_or_else(|| {
        EngineError::Environment(format!(
            "{}: another petal uses it; wait until it is done",
            path.display()
        ))
    })
}

/// Bytes of the file or block device at a path.
pub fn length_at(path: &Path) -> Result<u64> {
    File::open(path).and_then(|file| length(&file)).on(path)
}

/// Bytes of a file or block device.
pub fn length(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

/// Some file systems take O_DIRECT in open and refuse it in the first read.
fn proved(file: File) -> io::Result<File> {
    let mut probe = AlignedBuffer::new(PROBE_BYTES);
    file.read_at(probe.bytes_mut(), 0)?;
    Ok(file)
}
