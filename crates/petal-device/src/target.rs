//! File or block device under test: its kind, opening, header, and aligned memory.

use std::fs::{File, Metadata};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::layout::{COPY_OFFSET, HEADER_BYTES, TargetContent, TargetHeader};
use super::safety;
use petal_engine::file_lock::{FileLock, LockRefused};
use petal_engine::in_use::{DataUse, FileId, unlink_same};
use petal_engine::on_path::{OnPath, unusable};
use petal_engine::{EngineError, Result};
use petal_host::files::{self, OFlags};
use petal_record::target::DirectIo;

/// Alignment of memory: one page, accepted by all common devices.
pub const MEMORY_ALIGNMENT: usize = 4096;
const PROBE_BYTES: usize = 4096;
/// Longest wait for a lock. The kernel lets the lock of a killed petal go only after its requests
/// have ended.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// Memory aligned to a page; empty by default.
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

/// Kind of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    File,
    BlockDevice,
}

/// File or block device that the path led to at first, open for reading. All later actions apply to
/// it; they fail if the path leads elsewhere by then.
#[derive(Debug, Clone)]
pub struct TargetFile {
    pub path: PathBuf,
    pub kind: TargetKind,
    pub file: Arc<File>,
    id: FileId,
}

impl TargetFile {
    /// Opens the existing file or device, or returns `None` if it does not exist.
    pub fn find(path: &Path) -> Result<Option<Self>> {
        // A folder or pipe is not even opened.
        match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            about => kind(path, &about.on(path)?)?,
        };
        let opened = files::open(path, OFlags::RDONLY | OFlags::NONBLOCK);
        opened.on(path).and_then(|file| Self::of(path, file)).map(Some)
    }

    /// Creates an empty file; fails if one exists.
    pub fn create(path: &Path) -> Result<Self> {
        safety::refuse_new_among_devices(path, Path::new("/dev"))?;
        if let Ok(leads_to) = std::fs::read_link(path) {
            return Err(EngineError::Environment(format!(
                "{}: it is a link to {}, where nothing is; name that place itself",
                path.display(),
                leads_to.display()
            )));
        }
        let created = files::open(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL);
        created.on(path).and_then(|file| Self::of(path, file))
    }

    fn of(path: &Path, file: File) -> Result<Self> {
        let about = file.metadata().on(path)?;
        let (path, kind, file) = (path.to_owned(), kind(path, &about)?, Arc::new(file));
        Ok(Self { path, kind, file, id: FileId::from(&about) })
    }

    /// Reads the header at the start.
    pub fn content(&self) -> Result<TargetContent> {
        let mut bytes = vec![0; HEADER_BYTES as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unusable(&self.path, &error)),
            }
        }
        Ok(TargetHeader::find(&bytes[..filled]))
    }

    pub fn bytes(&self) -> Result<u64> {
        length(&self.file).on(&self.path)
    }

    /// Opens the file again, for reading and writing.
    fn reopen(&self, how: OFlags) -> io::Result<File> {
        files::open(&self.path, OFlags::RDWR | how)
    }

    /// Refuses a file opened later through the path, if it is a different one.
    fn check_same(&self, opened: File) -> Result<File> {
        let about = opened.metadata().on(&self.path)?;
        if FileId::from(&about) == self.id { Ok(opened) } else { Err(self.path_changed_error()) }
    }

    /// Fails if the path leads elsewhere by now.
    pub fn check_path(&self) -> Result<()> {
        self.id.vanished(&self.path).map_or(Ok(()), |_| Err(self.path_changed_error()))
    }

    fn path_changed_error(&self) -> EngineError {
        EngineError::Environment(format!(
            "{}: it no longer leads to the file or device that petal opened first, so petal stops; \
             find the program that renames files or changes links there, then start again",
            self.path.display()
        ))
    }

    /// Removes the file from its folder. It removes neither another file in its place nor a link to
    /// it. Returns its path without links.
    pub fn remove(&self) -> Result<PathBuf> {
        let path = std::fs::canonicalize(&self.path).on(&self.path)?;
        unlink_same(&path, self.id).on(&path)?;
        Ok(path)
    }
}

/// Decides the kind of a file by its metadata.
fn kind(path: &Path, about: &Metadata) -> Result<TargetKind> {
    if about.file_type().is_block_device() {
        return Ok(TargetKind::BlockDevice);
    }
    if about.is_file() {
        return Ok(TargetKind::File);
    }
    Err(EngineError::Environment(format!(
        "{}: it is neither a file nor a block device; name one of these, or a file that is not \
         there yet, as in device:/data/petal.dat",
        path.display()
    )))
}

/// An open target.
#[derive(Debug, Clone)]
pub struct OpenTarget {
    pub path: PathBuf,
    pub file: Arc<File>,
    pub kind: TargetKind,
    pub bytes: u64,
    pub direct: DirectIo,
    pub there: TargetFile,
    /// File opened through the page cache, for the header.
    buffered: Arc<File>,
    /// Lock that excludes other petals while it is open.
    _lock: Arc<FileLock>,
}

impl OpenTarget {
    /// Opens the target for reading and writing, without the page cache if requested and possible;
    /// shared with the run's other hosts if there are any.
    pub fn open(there: &TargetFile, asked: bool, is_shared: bool) -> Result<Self> {
        let path = &there.path;
        let direct_file = asked.then(|| there.reopen(OFlags::DIRECT).and_then(proved));
        let (file, reason) = match direct_file {
            Some(Ok(file)) => (file, None),
            refused => {
                let file = there.reopen(OFlags::empty()).on(path)?;
                let reason = refused.and_then(Result::err);
                (file, reason.map(|error| format!("direct I/O is refused there: {error}")))
            }
        };
        let file = Arc::new(there.check_same(file)?);
        let bytes = length(&file).on(path)?;
        let buffered =
            Arc::new(there.check_same(there.reopen(claim(there.kind, is_shared)).on(path)?)?);
        let lock = Arc::new(lock(path, &buffered, is_shared)?);
        let direct = DirectIo { asked, used: asked && reason.is_none(), reason };
        let (path, kind, there) = (path.clone(), there.kind, there.clone());
        Ok(Self { path, file, kind, bytes, direct, there, buffered, _lock: lock })
    }

    /// Writes the header of a file that is still empty, before anything else: if the load is killed
    /// later, the file is recognised as petal's.
    pub fn mark_new(&self, header: &TargetHeader) -> Result<()> {
        if self.kind == TargetKind::File && self.there.bytes()? == 0 {
            self.overwrite(0, &self.encoded(header)?)?;
        }
        Ok(())
    }

    fn encoded(&self, header: &TargetHeader) -> Result<Vec<u8>> {
        header.encode().ok_or_else(|| {
            EngineError::Setting(format!(
                "{}: {} schemas do not fit into its header; load fewer",
                self.path.display(),
                header.schemas.len()
            ))
        })
    }

    /// Writes both copies of the header, each durable before the next.
    pub fn write_header(&self, header: &TargetHeader) -> Result<()> {
        let bytes = self.encoded(header)?;
        self.there.check_path()?;
        self.overwrite(COPY_OFFSET, &bytes)?;
        self.overwrite(0, &bytes)
    }

    /// Writes some bytes through the page cache and makes them durable.
    pub fn overwrite(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = self.buffered.write_all_at(bytes, offset);
        written.and_then(|()| self.buffered.sync_all()).on(&self.path)
    }
}

impl DataUse for OpenTarget {
    /// Reports whether the file vanished; a block device keeps its data, whatever its node is
    /// called.
    fn vanished(&self) -> Result<Option<String>> {
        match self.kind {
            TargetKind::BlockDevice => Ok(None),
            TargetKind::File => Ok(self.there.id.vanished(&self.path)),
        }
    }
}

/// Returns the flag that claims a block device: without O_CREAT, O_EXCL is the kernel's own claim
/// (open(2)), which excludes mounts, volumes and RAIDs.
fn claim(kind: TargetKind, is_shared: bool) -> OFlags {
    if kind == TargetKind::BlockDevice && !is_shared { OFlags::EXCL } else { OFlags::empty() }
}

/// Excludes other petals from a target. In a run of several hosts, it excludes only petals that do
/// not share the target. A lock of a killed petal is waited for.
fn lock(path: &Path, file: &Arc<File>, is_shared: bool) -> Result<FileLock> {
    let take = if is_shared { FileLock::shared_on } else { FileLock::on };
    let began = Instant::now();
    loop {
        match take(Arc::clone(file)) {
            Err(LockRefused::Held) if began.elapsed() < RELEASE_LIMIT => {
                thread::sleep(RELEASE_LIMIT / 40);
            }
            taken => {
                return taken.map_err(|refused| {
                    refused.at(path, "another petal uses it; wait until it is done")
                });
            }
        }
    }
}

/// Returns the size of a file or block device.
pub fn length(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

/// Reads once, because some file systems accept O_DIRECT in open and refuse the first read.
fn proved(file: File) -> io::Result<File> {
    let mut probe = AlignedBuffer::new(PROBE_BYTES);
    file.read_at(probe.bytes_mut(), 0)?;
    Ok(file)
}
