//! The mapped file: opening it, whether a row's page is in memory, and its way out of the page cache.
//! All of the engine's `unsafe` is here.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use heed::{Env, EnvFlags, EnvOpenOptions};
use rustix::fs::Advice;

use super::layout::PAGE_BYTES;
use petal_engine::in_use::FileId;
use petal_host::files;

/// A process may open so many read transactions of one file at once.
const READERS: u32 = 16_384;
/// Tables of a file.
const TABLES: u32 = 2;

/// Opens a file as LMDB's environment. Nobody else in this process has it open: [`heed`] refuses
/// that.
pub fn open(path: &Path, map_bytes: u64, flags: EnvFlags) -> heed::Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(map_bytes.next_multiple_of(PAGE_BYTES) as usize);
    options.max_dbs(TABLES).max_readers(READERS);
    // SAFETY: without read-ahead and as a single file, both of which change no memory's meaning; a
    // load's missing syncs are made up for before its end.
    unsafe { options.flags(EnvFlags::NO_SUB_DIR | EnvFlags::NO_READ_AHEAD | flags) };
    // SAFETY: the lock file keeps other users of LMDB from changing pages that a transaction reads,
    // and petal's lock keeps other petals from replacing the file.
    unsafe { options.open(path) }
}

/// Refuses a file that took the place of petal's while LMDB opened it by its path, which it does twice:
/// for pages and for commits. LMDB has written nothing to it yet.
pub fn refuse_other(environment: &Env, file: &File) -> heed::Result<()> {
    let own = FileId::from(&file.metadata()?);
    let opened = environment.try_clone_inner_file()?;
    if FileId::from(&opened.metadata()?) == own && FileId::of(environment.path())? == own {
        return Ok(());
    }
    Err(io::Error::other("another file has taken its place; find out who renames files there")
        .into())
}

/// The first address of the page of a row.
fn page_of(row: &[u8]) -> usize {
    row.as_ptr().addr() & !(PAGE_BYTES as usize - 1)
}

/// True if the page of a mapped row is in memory, mapped or in the page cache.
pub fn is_resident(row: &[u8]) -> bool {
    let mut state = 0u8;
    let page = row.as_ptr().map_addr(|_| page_of(row)).cast_mut().cast::<c_void>();
    // SAFETY: the kernel writes one byte for the one page, which is mapped as long as `row` lives.
    let answer = unsafe { libc::mincore(page, PAGE_BYTES as usize, &raw mut state) };
    answer != 0 || state & 1 == 1
}

/// Major page faults of this thread so far: pages that were read from storage.
pub fn thread_faults() -> u64 {
    // SAFETY: all zeros are a value of this plain structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    if answer == 0 { usage.ru_majflt.unsigned_abs() } else { 0 }
}

/// Takes pages out of this process's map and out of the page cache. Changed pages stay there.
pub struct PageDropper {
    file: File,
    map: Range<usize>,
}

impl PageDropper {
    pub fn of(environment: &Env) -> heed::Result<Self> {
        let file = environment.try_clone_inner_file()?;
        let map = map_of(&file, environment.path())?;
        Ok(Self { file, map })
    }

    /// Takes the page of a row out.
    pub fn drop_page(&self, row: &[u8]) -> io::Result<()> {
        let page = page_of(row);
        match self.map.contains(&page) {
            true => self.drop_range(page..page + PAGE_BYTES as usize),
            // A row that the transaction itself has written is in its own memory.
            false => Ok(()),
        }
    }

    /// Takes the whole file out.
    pub fn drop_all(&self) -> io::Result<()> {
        self.drop_range(self.map.clone())
    }

    fn drop_range(&self, range: Range<usize>) -> io::Result<()> {
        let (offset, bytes) = (range.start - self.map.start, range.len());
        let begin = std::ptr::with_exposed_provenance_mut::<c_void>(range.start);
        // SAFETY: the range is of LMDB's shared map of the file, which is read-only: the next read
        // gets the same bytes, from the page cache or from the file.
        let answer = unsafe { libc::madvise(begin, bytes, libc::MADV_DONTNEED) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        let bytes = std::num::NonZeroU64::new(bytes as u64);
        Ok(rustix::fs::fadvise(&self.file, offset as u64, bytes, Advice::DontNeed)?)
    }
}

/// The addresses at which this process maps a file. LMDB has no call for them.
fn map_of(file: &File, path: &Path) -> io::Result<Range<usize>> {
    let number = file.metadata()?.ino().to_string();
    let maps = files::system_text("/proc/self/maps")?;
    let path = path.as_os_str().to_string_lossy();
    let found = maps.lines().filter(|line| line.ends_with(&*path)).find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (range, offset) = (fields.next()?, fields.nth(1)?);
        let is_whole = fields.nth(1)? == number && offset.bytes().all(|digit| digit == b'0');
        let (begin, end) = range.split_once('-').filter(|_| is_whole)?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some(address(begin)?..address(end)?)
    });
    found.ok_or_else(|| io::Error::other("/proc/self/maps does not show its map"))
}
