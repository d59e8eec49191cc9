//! The shim between SQLite and its own unix VFS: counts and times every read, write and sync,
//! takes whole pages of main files past the page cache, and gathers those of a load. All `unsafe`
//! of this engine is here, behind safe functions.
//!
//! A `ShimFile` lies in memory that SQLite allocates, with the unix VFS's own file right behind
//! it. Every method forwards to that one. The methods are of version 2, without xFetch: SQLite
//! then never maps a file, so that no read passes the counters by.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use rusqlite::{Connection, ffi};

use super::direct::{self, DirectFile, FileId};
use super::io::{self, ConnectionRecorder, Count, Event, FileCall, FileKind, IoContext};

/// The name under which connections ask for the shim.
pub const NAME: &CStr = c"petal";

/// SQLite's own VFS, which everything is forwarded to.
static REAL: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(ptr::null_mut());

/// Makes the shim known to SQLite, once per process, before any other use of SQLite. Memory
/// statistics are switched off first: they take a mutex of the whole process for every allocation.
pub fn register() -> Result<(), String> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    DONE.get_or_init(|| {
        // SAFETY: plain calls of SQLite's C interface with valid arguments. sqlite3_config fails
        // with SQLITE_MISUSE, without effect, if SQLite is in use already; that only costs speed.
        // The VFS structure and its name live for ever.
        unsafe {
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int);
            let code = ffi::sqlite3_initialize();
            if code != ffi::SQLITE_OK {
                return Err(format!("SQLite does not start (code {code})"));
            }
            let real = ffi::sqlite3_vfs_find(ptr::null());
            if real.is_null() {
                return Err("SQLite has no file system layer on this system".into());
            }
            REAL.store(real, Ordering::Release);
            let mut shim = *real;
            shim.szOsFile += SHIM_BYTES as c_int;
            shim.zName = NAME.as_ptr();
            shim.pNext = ptr::null_mut();
            shim.xOpen = Some(open);
            let code = ffi::sqlite3_vfs_register(Box::leak(Box::new(shim)), 0);
            if code != ffi::SQLITE_OK {
                return Err(format!("SQLite does not take petal's VFS (code {code})"));
            }
        }
        Ok(())
    })
    .clone()
}

/// Hits, misses, writes and spills of a connection's page cache since the last call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    pub hits: u64,
    pub misses: u64,
    pub writes: u64,
    pub spills: u64,
}

/// Reads and resets a connection's cache counters.
pub fn take_cache_counts(connection: &Connection) -> CacheCounts {
    let take = |what: c_int| {
        let (mut current, mut high): (c_int, c_int) = (0, 0);
        // SAFETY: the handle is valid while `connection` is borrowed, and this thread is the only
        // one that uses it; both outputs are valid integers.
        let code = unsafe {
            ffi::sqlite3_db_status(connection.handle(), what, &mut current, &mut high, 1)
        };
        if code == ffi::SQLITE_OK { u64::from(current.cast_unsigned()) } else { 0 }
    };
    CacheCounts {
        hits: take(ffi::SQLITE_DBSTATUS_CACHE_HIT),
        misses: take(ffi::SQLITE_DBSTATUS_CACHE_MISS),
        writes: take(ffi::SQLITE_DBSTATUS_CACHE_WRITE),
        spills: take(ffi::SQLITE_DBSTATUS_CACHE_SPILL),
    }
}

/// petal's part of an open file. The unix VFS's file follows it in memory.
#[repr(C)]
struct ShimFile {
    base: ffi::sqlite3_file,
    state: *mut FileState,
}

/// The offset of the real file's object; SQLite wants an alignment of eight bytes.
const SHIM_BYTES: usize = size_of::<ShimFile>();
const _: () = assert!(SHIM_BYTES.is_multiple_of(8));

/// The shim's state of an open file.
struct FileState {
    kind: FileKind,
    recorder: Option<Arc<ConnectionRecorder>>,
    direct: Option<Arc<DirectFile>>,
    id: Option<FileId>,
    gathered: Option<Mutex<Gathered>>,
    /// The highest offset of a read in an experiment.
    end: AtomicI64,
}

/// Pages of a load that the system does not have yet: those that follow one another go in one call,
/// which the system copies twice as fast. A commit asks for a flush, so that it fails if that does.
struct Gathered {
    /// Only to begin its writeback.
    file: Arc<File>,
    offset: u64,
    bytes: Vec<u8>,
    /// The end of the bytes on their way to the disk.
    writeback_end: u64,
    /// Pages could not be handed on. They stay, and the file fails from then on: a later flush that
    /// succeeded would leave a hole.
    failed: Option<CallFailed>,
}

/// SQLite's code of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CallFailed(c_int);

fn done(code: c_int) -> Result<(), CallFailed> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(CallFailed(code)) }
}

fn code_of(done: Result<(), CallFailed>) -> c_int {
    done.map_or_else(|failed| failed.0, |()| ffi::SQLITE_OK)
}

/// SQLite's unix VFS takes less than 128 KiB in one call.
const GATHERED_BYTES: usize = 120 << 10;
/// The disk gets this much at a time, so that it has little left to do when the load is made durable.
const WRITEBACK_BYTES: u64 = 8 << 20;

impl Gathered {
    fn new(file: Arc<File>) -> Self {
        let bytes = Vec::with_capacity(GATHERED_BYTES);
        Self { file, offset: 0, bytes, writeback_end: 0, failed: None }
    }

    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    fn takes(&self, offset: u64, bytes: usize) -> bool {
        self.bytes.is_empty()
            || (offset == self.end() && self.bytes.len() + bytes <= GATHERED_BYTES)
    }

    fn add(&mut self, page: &[u8], offset: u64) {
        if self.bytes.is_empty() {
            self.offset = offset;
        }
        self.bytes.extend_from_slice(page);
    }

    /// Starts writeback of pages that the system has and the disk has not.
    fn flushed(&mut self) {
        let end = self.end();
        self.bytes.clear();
        let bytes = end.saturating_sub(self.writeback_end);
        if bytes >= WRITEBACK_BYTES {
            let begin = self.writeback_end.cast_signed();
            // SAFETY: the descriptor is open. A failure costs nothing but time: fsync does it again.
            unsafe {
                let flags = libc::SYNC_FILE_RANGE_WRITE;
                libc::sync_file_range(self.file.as_raw_fd(), begin, bytes.cast_signed(), flags);
            }
            self.writeback_end = end;
        }
    }
}

thread_local! {
    /// A page that is read only for an experiment.
    static AGAIN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl FileState {
    fn record(&self, call: FileCall, begin: Instant, bytes: u64) {
        if let Some(recorder) = &self.recorder {
            let latency_ns = begin.elapsed().as_nanos() as u64;
            recorder.record(Event::of(recorder.source, self.kind, call), latency_ns, bytes);
        }
    }

    /// Makes an experiment's change after a session's read of the main file. A second read is of
    /// another page, as far from the end as this one from the begin.
    fn perturb_read(&self, bytes: usize, offset: i64, read: impl FnOnce(&mut [u8], i64)) {
        let recorder = self.recorder.as_ref().filter(|_| self.kind == FileKind::Main);
        let Some(perturbation) = recorder.and_then(|recorder| recorder.perturbation()) else {
            return;
        };
        if perturbation.after_read() {
            let end = self.end.fetch_max(offset, Ordering::Relaxed).max(offset);
            AGAIN.with_borrow_mut(|page| {
                page.resize(bytes, 0);
                read(page, end - offset);
            });
        }
    }

    /// Makes an experiment's change after a session's sync of the WAL, within the commit.
    fn perturb_sync(&self) {
        let recorder = self.recorder.as_ref().filter(|_| self.kind == FileKind::Wal);
        if let Some(perturbation) = recorder.and_then(|recorder| recorder.perturbation()) {
            perturbation.after_commit();
        }
    }

    /// Counts a call that failed, and keeps the system's words for it.
    fn failed(&self, doing: &str, error: &std::io::Error) {
        if let Some(recorder) = &self.recorder {
            recorder.count(Count::IoErrors, 1);
        }
        io::keep_failure(format!("{doing} {}: {error}", self.kind.words()));
    }

    /// Keeps the error of a call of the real VFS, which leaves it in errno.
    fn failed_below(&self, doing: &str) {
        self.failed(doing, &std::io::Error::last_os_error());
    }
}

impl Drop for FileState {
    fn drop(&mut self) {
        if let Some(id) = self.id
            && direct::closed(id) == 0
        {
            KEPT_LOCKS.lock().retain(|&kept| kept != id);
        }
    }
}

/// Files with a lock that could not be given back. SQLite believes that a session of this process
/// holds it, until the last of them closes the file.
static KEPT_LOCKS: Mutex<Vec<FileId>> = Mutex::new(Vec::new());

/// The object behind SQLite's file pointer.
///
/// # Safety
/// `file` was opened by [`open`] and is not closed.
unsafe fn state<'a>(file: *mut ffi::sqlite3_file) -> &'a FileState {
    // SAFETY: the caller's promise; `open` set `state` to a leaked box that `close` alone frees.
    unsafe { &*(*file.cast::<ShimFile>()).state }
}

/// The real file behind ours.
///
/// # Safety
/// `file` points at a ShimFile with room for the real file behind it.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: szOsFile of the registered VFS covers both.
    unsafe { file.cast::<u8>().add(SHIM_BYTES).cast() }
}

/// Calls a method of the real file's; `else` is the answer if it has none. The caller's `unsafe`
/// promises that the file is open, so that the real one has methods.
macro_rules! call_real {
    ($file:ident, $method:ident($($argument:expr),*) else $none:expr) => {{
        let real_file = real($file);
        match (*(*real_file).pMethods).$method {
            Some(method) => method(real_file $(, $argument)*),
            None => $none,
        }
    }};
}

fn kind_of(flags: c_int) -> FileKind {
    if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
        FileKind::Main
    } else if flags & ffi::SQLITE_OPEN_WAL != 0 {
        FileKind::Wal
    } else {
        FileKind::Temp
    }
}

/// Returns how a file is served, by this thread's context.
fn describe(path: Option<&Path>, flags: c_int) -> std::io::Result<FileState> {
    let kind = kind_of(flags);
    let context = IoContext::current();
    let main_path = path.filter(|_| kind == FileKind::Main);
    let id = main_path.and_then(|path| FileId::of(path).ok());
    let direct = match main_path.filter(|_| context.direct) {
        Some(path) => direct::direct(path)?.ok(),
        None => None,
    };
    let gathered = match main_path.filter(|_| context.gathers) {
        Some(path) => Some(Mutex::new(Gathered::new(direct::buffered(path)?))),
        None => None,
    };
    if let Some(id) = id {
        direct::opened(id);
    }
    let end = AtomicI64::new(0);
    Ok(FileState { kind, recorder: context.recorder, direct, id, gathered, end })
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite hands szOsFile bytes at `file`, ours and then the real file's, and a name
    // that is null or ends with a zero; the real VFS is registered for ever.
    unsafe {
        let (shim, real_file) = (file.cast::<ShimFile>(), real(file));
        (*shim).base.pMethods = ptr::null();
        let vfs = REAL.load(Ordering::Acquire);
        let Some(real_open) = (*vfs).xOpen else { return ffi::SQLITE_CANTOPEN };
        let code = real_open(vfs, name, real_file, flags, out_flags);
        let failed = |error: &std::io::Error| {
            io::keep_failure(format!("opening {}: {error}", kind_of(flags).words()));
            if let Some(methods) = (*real_file).pMethods.as_ref()
                && let Some(real_close) = methods.xClose
            {
                real_close(real_file);
            }
        };
        if code != ffi::SQLITE_OK {
            failed(&std::io::Error::last_os_error());
            return code;
        }
        let path = (!name.is_null())
            .then(|| Path::new(OsStr::from_bytes(CStr::from_ptr(name).to_bytes())));
        match describe(path, flags) {
            Ok(state) => {
                (*shim).state = Box::into_raw(Box::new(state));
                (*shim).base.pMethods = &METHODS;
                ffi::SQLITE_OK
            }
            Err(error) => {
                failed(&error);
                ffi::SQLITE_CANTOPEN
            }
        }
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once, and uses it no more; `state` came from Box::into_raw.
    unsafe {
        let flushed = flush(file);
        let closed = done(call_real!(file, xClose() else ffi::SQLITE_OK));
        drop(Box::from_raw((*file.cast::<ShimFile>()).state));
        code_of(flushed.and(closed))
    }
}

/// Hands gathered pages to the system.
///
/// # Safety
/// `file` was opened by [`open`] and is not closed.
unsafe fn flush(file: *mut ffi::sqlite3_file) -> Result<(), CallFailed> {
    // SAFETY: the caller's promise.
    unsafe {
        let state = state(file);
        let gathered = state.gathered.as_ref();
        gathered.map_or(Ok(()), |gathered| write_gathered(state, file, &mut gathered.lock()))
    }
}

/// # Safety
/// `file`, which was opened by [`open`] and is not closed, is that of `state`.
unsafe fn write_gathered(
    state: &FileState,
    file: *mut ffi::sqlite3_file,
    gathered: &mut Gathered,
) -> Result<(), CallFailed> {
    if let Some(failed) = gathered.failed {
        return Err(failed);
    }
    if gathered.bytes.is_empty() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let written = unsafe { write_below(state, file, &gathered.bytes, gathered.offset) };
    match written {
        Ok(()) => gathered.flushed(),
        Err(failed) => gathered.failed = Some(failed),
    }
    written
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    bytes: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: `file` is open, `buffer` has room for `bytes` bytes and is SQLite's to write to.
    unsafe {
        if flush(file).is_err() {
            return ffi::SQLITE_IOERR_READ;
        }
        let state = state(file);
        let begin = Instant::now();
        if let Some(direct) = &state.direct
            && direct.takes(offset.cast_unsigned(), bytes as usize)
        {
            let page = std::slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes as usize);
            match direct.read(page, offset.cast_unsigned()) {
                Ok(read) if read == page.len() => {
                    state.record(FileCall::Read, begin, read as u64);
                    state.perturb_read(page.len(), offset, |again, at| {
                        drop(direct.read(again, at.cast_unsigned()));
                    });
                    return ffi::SQLITE_OK;
                }
                Ok(read) => {
                    // SQLite wants zeros past the end of the file.
                    page[read..].fill(0);
                    return ffi::SQLITE_IOERR_SHORT_READ;
                }
                Err(error) => {
                    state.failed(&format!("reading at byte {offset} of"), &error);
                    return ffi::SQLITE_IOERR_READ;
                }
            }
        }
        let code = call_real!(file, xRead(buffer, bytes, offset) else ffi::SQLITE_IOERR_READ);
        match code {
            ffi::SQLITE_OK => {
                state.record(FileCall::Read, begin, bytes as u64);
                state.perturb_read(bytes as usize, offset, |again, at| {
                    let again = again.as_mut_ptr().cast();
                    call_real!(file, xRead(again, bytes, at) else ffi::SQLITE_IOERR_READ);
                });
            }
            ffi::SQLITE_IOERR_SHORT_READ => {}
            _ => {
                state.failed_below(&format!("reading at byte {offset} of"));
                // The unix VFS has another code for it, which SQLite calls a malformed database.
                return ffi::SQLITE_IOERR_READ;
            }
        }
        code
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    buffer: *const c_void,
    bytes: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: `file` is open, `buffer` holds `bytes` bytes.
    unsafe {
        let state = state(file);
        let begin = Instant::now();
        let page = std::slice::from_raw_parts(buffer.cast::<u8>(), bytes as usize);
        let written = write_now(state, file, page, offset.cast_unsigned());
        if written.is_ok() {
            state.record(FileCall::Write, begin, bytes as u64);
            if state.kind == FileKind::Wal
                && let Some(recorder) = &state.recorder
            {
                let begin = offset.cast_unsigned();
                recorder.wal_written(begin..begin + bytes as u64);
            }
        }
        code_of(written)
    }
}

/// Gathers the page of a load; writes others direct if possible, else as the real VFS. Keeps the
/// system's error of a failure.
///
/// # Safety
/// `file`, which was opened by [`open`] and is not closed, is that of `state`.
unsafe fn write_now(
    state: &FileState,
    file: *mut ffi::sqlite3_file,
    page: &[u8],
    offset: u64,
) -> Result<(), CallFailed> {
    if let Some(gathered) = &state.gathered {
        let mut gathered = gathered.lock();
        if gathered.failed.is_some() || !gathered.takes(offset, page.len()) {
            // SAFETY: the caller's promise.
            unsafe { write_gathered(state, file, &mut gathered) }?;
        }
        gathered.add(page, offset);
        return Ok(());
    }
    if let Some(direct) = &state.direct
        && direct.takes(offset, page.len())
    {
        let Err(error) = direct.write(page, offset) else { return Ok(()) };
        state.failed(&format!("writing at byte {offset} of"), &error);
        return Err(CallFailed(match error.kind() {
            std::io::ErrorKind::StorageFull => ffi::SQLITE_FULL,
            _ => ffi::SQLITE_IOERR_WRITE,
        }));
    }
    // SAFETY: the caller's promise.
    unsafe { write_below(state, file, page, offset) }
}

/// Writes as the real VFS.
///
/// # Safety
/// `file`, which was opened by [`open`] and is not closed, is that of `state`.
unsafe fn write_below(
    state: &FileState,
    file: *mut ffi::sqlite3_file,
    page: &[u8],
    offset: u64,
) -> Result<(), CallFailed> {
    let (bytes, from) = (page.len() as c_int, offset.cast_signed());
    // SAFETY: the caller's promise; the page lives until the call has returned.
    let code = unsafe {
        call_real!(file, xWrite(page.as_ptr().cast(), bytes, from) else ffi::SQLITE_IOERR_WRITE)
    };
    if code != ffi::SQLITE_OK {
        state.failed_below(&format!("writing at byte {offset} of"));
    }
    done(code)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: `file` is open.
    unsafe {
        if let Err(failed) = flush(file) {
            return failed.0;
        }
        let begin = Instant::now();
        let code = call_real!(file, xSync(flags) else ffi::SQLITE_IOERR_FSYNC);
        let state = state(file);
        state.record(FileCall::Sync, begin, 0);
        match code {
            ffi::SQLITE_OK => {
                if let (FileKind::Wal, Some(recorder)) = (state.kind, &state.recorder) {
                    recorder.wal_synced();
                }
                state.perturb_sync();
            }
            _ => state.failed_below("syncing"),
        }
        code
    }
}

/// ENOLCK: the system's table of locks is full, or a network's lock service is away.
const NO_LOCKS: Option<c_int> = Some(rustix::io::Errno::NOLCK.raw_os_error());

fn last_errno() -> Option<c_int> {
    std::io::Error::last_os_error().raw_os_error()
}

/// Methods that answer with a number and cannot return an error code: they neither flush nor fail.
macro_rules! answered {
    ($($name:ident $method:ident else $none:expr;)+) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file) -> c_int {
            // SAFETY: `file` is open, so the real file has methods.
            unsafe { call_real!(file, $method() else $none) }
        }
    )+};
}

answered! {
    sector_size xSectorSize else 4096;
    device_characteristics xDeviceCharacteristics else 0;
}

/// Methods that only hand the call on, and answer with a code.
macro_rules! forwarded {
    ($($name:ident $method:ident ($($argument:ident: $type:ty),*) else $code:expr;)+) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $argument: $type)*) -> c_int {
            // SAFETY: `file` is open, so the real file has methods; arguments pass unchanged.
            unsafe {
                if let Err(failed) = flush(file) {
                    return failed.0;
                }
                let code = call_real!(file, $method($($argument),*) else $code);
                // SQLite would take no locks to give for somebody's lock, and wait for ever.
                let has_no_locks = code == ffi::SQLITE_BUSY && last_errno() == NO_LOCKS;
                if has_no_locks || code & 0xff == ffi::SQLITE_IOERR {
                    state(file).failed_below(concat!("SQLite's ", stringify!($method), " on"));
                }
                if has_no_locks { $code } else { code }
            }
        }
    )+};
}

forwarded! {
    truncate xTruncate(size: i64) else ffi::SQLITE_IOERR_TRUNCATE;
    file_size xFileSize(size: *mut i64) else ffi::SQLITE_IOERR_FSTAT;
    lock xLock(level: c_int) else ffi::SQLITE_IOERR_LOCK;
    unlock xUnlock(level: c_int) else ffi::SQLITE_IOERR_UNLOCK;
    check_reserved_lock xCheckReservedLock(held: *mut c_int) else ffi::SQLITE_IOERR_LOCK;
    file_control xFileControl(what: c_int, argument: *mut c_void) else ffi::SQLITE_NOTFOUND;
    shm_map xShmMap(page: c_int, bytes: c_int, extend: c_int, at: *mut *mut c_void)
        else ffi::SQLITE_IOERR_SHMMAP;
    shm_lock_once xShmLock(first: c_int, count: c_int, flags: c_int) else ffi::SQLITE_IOERR_SHMLOCK;
    shm_unmap xShmUnmap(remove: c_int) else ffi::SQLITE_OK;
}

/// Retries a failed unlock: SQLite ignores the failure, and the lock would block every session of
/// this process until it ends. If it fails again, each blocked session gets an error.
unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: `file` is open, and arguments pass unchanged.
    let (state, call) = unsafe { (state(file), || shm_lock_once(file, first, count, flags)) };
    let is_unlock = flags & ffi::SQLITE_SHM_UNLOCK != 0;
    let mut more_tries = if is_unlock { 2 } else { 0 };
    let mut code = call();
    while code != ffi::SQLITE_OK && more_tries > 0 {
        code = call();
        more_tries -= 1;
    }
    let Some(id) = state.id.filter(|_| code != ffi::SQLITE_OK) else { return code };
    let mut kept = KEPT_LOCKS.lock();
    let is_kept = kept.contains(&id);
    if is_unlock && !is_kept {
        kept.push(id);
    } else if code == ffi::SQLITE_BUSY && is_kept {
        let error = std::io::Error::other("a session could not give it back");
        state.failed("a lock on", &error);
        return ffi::SQLITE_IOERR_SHMLOCK;
    }
    code
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: `file` is open, so the real file has methods.
    unsafe {
        call_real!(file, xShmBarrier() else ());
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI32;

    /// The answer of the file below to each write.
    static ANSWER: AtomicI32 = AtomicI32::new(ffi::SQLITE_OK);

    unsafe extern "C" fn answer(
        _: *mut ffi::sqlite3_file,
        _: *const c_void,
        _: c_int,
        _: i64,
    ) -> c_int {
        ANSWER.load(Ordering::Relaxed)
    }

    static BELOW: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
        iVersion: 1,
        xClose: None,
        xRead: None,
        xWrite: Some(answer),
        xTruncate: None,
        xSync: None,
        xFileSize: None,
        xLock: None,
        xUnlock: None,
        xCheckReservedLock: None,
        xFileControl: None,
        xSectorSize: None,
        xDeviceCharacteristics: None,
        xShmMap: None,
        xShmLock: None,
        xShmBarrier: None,
        xShmUnmap: None,
        xFetch: None,
        xUnfetch: None,
    };

    #[repr(C)]
    struct Opened {
        shim: ShimFile,
        below: ffi::sqlite3_file,
    }

    #[test]
    fn pages_that_could_not_be_handed_on_are_neither_forgotten_nor_a_number() {
        let gathered = Gathered::new(Arc::new(tempfile::tempfile().unwrap()));
        let state = FileState {
            kind: FileKind::Main,
            recorder: None,
            direct: None,
            id: None,
            end: AtomicI64::new(0),
            gathered: Some(Mutex::new(gathered)),
        };
        let base = ffi::sqlite3_file { pMethods: &METHODS };
        let shim = ShimFile { base, state: Box::into_raw(Box::new(state)) };
        let mut opened = Opened { shim, below: ffi::sqlite3_file { pMethods: &BELOW } };
        let file = (&raw mut opened).cast::<ffi::sqlite3_file>();
        let page = [7_u8; 4096];
        // SAFETY: `opened` is laid out as `open` leaves a file, and lives until after the close.
        unsafe {
            ANSWER.store(ffi::SQLITE_FULL, Ordering::Relaxed);
            assert_eq!(write(file, page.as_ptr().cast(), 4096, 0), ffi::SQLITE_OK, "gathered");
            assert_eq!((sector_size(file), device_characteristics(file)), (4096, 0));
            for answer in [ffi::SQLITE_FULL, ffi::SQLITE_OK] {
                // Once it failed, it does not succeed without the pages.
                ANSWER.store(answer, Ordering::Relaxed);
                assert_eq!(sync(file, 0), ffi::SQLITE_FULL);
                assert_eq!(write(file, page.as_ptr().cast(), 4096, 4096), ffi::SQLITE_FULL);
                assert_eq!(truncate(file, 0), ffi::SQLITE_FULL);
                assert_eq!((sector_size(file), device_characteristics(file)), (4096, 0));
            }
            assert_eq!(close(file), ffi::SQLITE_FULL);
        }
    }
}
