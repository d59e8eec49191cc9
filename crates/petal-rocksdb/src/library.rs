//! RocksDB's library, loaded when it is needed, through its interface for C: petal is built without it.
//! All of the engine's `unsafe` is here.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::LazyLock;

/// Names of the library that petal tries: the newest link, and the versions of Debian and Ubuntu.
const LIBRARIES: [&CStr; 6] = [
    c"librocksdb.so",
    c"librocksdb.so.9.10",
    c"librocksdb.so.8.9",
    c"librocksdb.so.7.8",
    c"librocksdb.so.6.11",
    c"librocksdb.so.10",
];

type LibraryHandle = *mut c_void;
type FailureText = *mut *mut c_char;

macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*) $(-> $answer:ty)?,)+) => {
        /// The functions that petal calls, by their names in the library after `rocksdb_`.
        struct LibraryFunctions { $($name: unsafe extern "C" fn($($argument),*) $(-> $answer)?),+ }

        impl LibraryFunctions {
            fn find(library: LibraryHandle) -> Result<Self, String> {
                $(
                    let found = symbol(library, concat!("rocksdb_", $symbol, "\0"))?;
                    // SAFETY: the header of every version gives this function this signature, and the
                    // library stays loaded as long as the process lives.
                    let $name = unsafe {
                        std::mem::transmute::<
                            LibraryHandle, unsafe extern "C" fn($($argument),*) $(-> $answer)?
                        >(found)
                    };
                )+
                Ok(Self { $($name),+ })
            }
        }
    };
}

functions! {
    options_create = "options_create": fn() -> LibraryHandle,
    options_destroy = "options_destroy": fn(LibraryHandle),
    get_options_from_string = "get_options_from_string": fn(LibraryHandle, *const c_char, LibraryHandle, FailureText),
    options_enable_statistics = "options_enable_statistics": fn(LibraryHandle),
    options_statistics_get_string = "options_statistics_get_string": fn(LibraryHandle) -> *mut c_char,
    open_column_families = "open_column_families":
        fn(LibraryHandle, *const c_char, c_int, *const *const c_char, *const LibraryHandle, *mut LibraryHandle, FailureText)
        -> LibraryHandle,
    column_family_handle_destroy = "column_family_handle_destroy": fn(LibraryHandle),
    close = "close": fn(LibraryHandle),
    readoptions_create = "readoptions_create": fn() -> LibraryHandle,
    readoptions_destroy = "readoptions_destroy": fn(LibraryHandle),
    readoptions_set_snapshot = "readoptions_set_snapshot": fn(LibraryHandle, LibraryHandle),
    create_snapshot = "create_snapshot": fn(LibraryHandle) -> LibraryHandle,
    release_snapshot = "release_snapshot": fn(LibraryHandle, LibraryHandle),
    get_pinned_cf = "get_pinned_cf": fn(LibraryHandle, LibraryHandle, LibraryHandle, *const c_char, usize, FailureText) -> LibraryHandle,
    pinnableslice_value = "pinnableslice_value": fn(LibraryHandle, *mut usize) -> *const c_char,
    pinnableslice_destroy = "pinnableslice_destroy": fn(LibraryHandle),
    create_iterator_cf = "create_iterator_cf": fn(LibraryHandle, LibraryHandle, LibraryHandle) -> LibraryHandle,
    iter_seek_to_first = "iter_seek_to_first": fn(LibraryHandle),
    iter_valid = "iter_valid": fn(LibraryHandle) -> c_uchar,
    iter_value = "iter_value": fn(LibraryHandle, *mut usize) -> *const c_char,
    iter_next = "iter_next": fn(LibraryHandle),
    iter_get_error = "iter_get_error": fn(LibraryHandle, FailureText),
    iter_destroy = "iter_destroy": fn(LibraryHandle),
    writeoptions_create = "writeoptions_create": fn() -> LibraryHandle,
    writeoptions_destroy = "writeoptions_destroy": fn(LibraryHandle),
    writeoptions_set_sync = "writeoptions_set_sync": fn(LibraryHandle, c_uchar),
    writeoptions_disable_wal = "writeoptions_disable_WAL": fn(LibraryHandle, c_int),
    writebatch_create = "writebatch_create": fn() -> LibraryHandle,
    writebatch_destroy = "writebatch_destroy": fn(LibraryHandle),
    writebatch_clear = "writebatch_clear": fn(LibraryHandle),
    writebatch_put_cf = "writebatch_put_cf": fn(LibraryHandle, LibraryHandle, *const c_char, usize, *const c_char, usize),
    writebatch_delete_cf = "writebatch_delete_cf": fn(LibraryHandle, LibraryHandle, *const c_char, usize),
    write = "write": fn(LibraryHandle, LibraryHandle, LibraryHandle, FailureText),
    flushoptions_create = "flushoptions_create": fn() -> LibraryHandle,
    flushoptions_destroy = "flushoptions_destroy": fn(LibraryHandle),
    flush_cf = "flush_cf": fn(LibraryHandle, LibraryHandle, LibraryHandle, FailureText),
    compactoptions_create = "compactoptions_create": fn() -> LibraryHandle,
    compactoptions_destroy = "compactoptions_destroy": fn(LibraryHandle),
    compactoptions_set_bottom = "compactoptions_set_bottommost_level_compaction": fn(LibraryHandle, c_uchar),
    compact_range_cf_opt = "compact_range_cf_opt":
        fn(LibraryHandle, LibraryHandle, LibraryHandle, *const c_char, usize, *const c_char, usize),
    property_value_cf = "property_value_cf": fn(LibraryHandle, LibraryHandle, *const c_char) -> *mut c_char,
    set_perf_level = "set_perf_level": fn(c_int),
    perfcontext_create = "perfcontext_create": fn() -> LibraryHandle,
    perfcontext_metric = "perfcontext_metric": fn(LibraryHandle, c_int) -> u64,
    perfcontext_destroy = "perfcontext_destroy": fn(LibraryHandle),
    free = "free": fn(LibraryHandle),
}

fn open_library(name: &CStr) -> Result<LibraryHandle, String> {
    // SAFETY: the name is a text of C; the library's own start is as safe as that of any that is linked.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() { Err(last_error()) } else { Ok(library) }
}

fn last_error() -> String {
    // SAFETY: the text, if there is one, is the loader's until its next call on this thread.
    let text = unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            None
        } else {
            Some(CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    };
    text.unwrap_or_else(|| "no reason is known".to_owned())
}

fn symbol(library: LibraryHandle, name: &str) -> Result<LibraryHandle, String> {
    // SAFETY: the library is loaded, and the name ends as a text of C does.
    let found = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
    if found.is_null() { Err(format!("it lacks {name}")) } else { Ok(found) }
}

static FUNCTIONS: LazyLock<Result<LibraryFunctions, String>> = LazyLock::new(|| {
    let mut first = None;
    for name in LIBRARIES {
        match open_library(name) {
            Ok(library) => return LibraryFunctions::find(library),
            Err(why) => first = first.or(Some(why)),
        }
    }
    Err(first.unwrap_or_default())
});

fn functions() -> Result<&'static LibraryFunctions, String> {
    FUNCTIONS.as_ref().map_err(|why| {
        format!("{why}; install RocksDB's library (on Debian apt-get install librocksdb-dev)")
    })
}

/// Takes over a text of the library's.
fn taken(functions: &LibraryFunctions, text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the library gave it as a text of C that the caller frees.
    unsafe {
        let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
        (functions.free)(text.cast());
        Some(owned)
    }
}

/// Makes a call that sets a text if it fails.
fn checked<T>(
    functions: &LibraryFunctions,
    call: impl FnOnce(FailureText) -> T,
) -> Result<T, String> {
    let mut failure = null_mut();
    let answer = call(&raw mut failure);
    taken(functions, failure).map_or(Ok(answer), Err)
}

/// A table of a database, which RocksDB calls a column family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnFamily {
    /// Rows in the order of their blocks.
    Main,
    Scan,
}

const TABLES: [&CStr; 2] = [c"default", c"cf2"];

/// Files that a compaction writes again, as RocksDB numbers them (`BottommostLevelCompaction`).
#[derive(Debug, Clone, Copy)]
pub enum CompactedFiles {
    /// Files that have keys in common with others.
    Overlapping = 1,
    /// All files, once. RocksDB moves files of rows in order as they are; it writes them again in the
    /// background after the first change elsewhere.
    All = 3,
}

/// A block's number as a key. Keys are in the order of the numbers.
fn key_of(block: u64) -> [u8; 8] {
    block.to_be_bytes()
}

/// An open database.
pub struct NativeDatabase {
    functions: &'static LibraryFunctions,
    options: LibraryHandle,
    database: LibraryHandle,
    tables: [LibraryHandle; 2],
    read: LibraryHandle,
    write: LibraryHandle,
}

// SAFETY: RocksDB allows calls on a database, its tables and unchanged options from many threads.
unsafe impl Send for NativeDatabase {}
// SAFETY: as above.
unsafe impl Sync for NativeDatabase {}

impl NativeDatabase {
    /// Opens a database in a folder, and makes it if the options say so. Commits are synced, unless
    /// it is a load.
    pub fn open(folder: &Path, options: &str, is_load: bool) -> Result<Self, String> {
        let functions = functions()?;
        let text = |text: &[u8]| CString::new(text).map_err(|error| error.to_string());
        let (folder, wanted) = (text(folder.as_os_str().as_bytes())?, text(options.as_bytes())?);
        // SAFETY: all texts live until the calls return; the handles are the library's own.
        unsafe {
            let base = (functions.options_create)();
            let options = (functions.options_create)();
            let set = checked(functions, |failure| {
                (functions.get_options_from_string)(base, wanted.as_ptr(), options, failure);
            });
            (functions.options_destroy)(base);
            (functions.options_enable_statistics)(options);
            let names = TABLES.map(CStr::as_ptr);
            let mut tables = [null_mut(); 2];
            let opened = set.and_then(|()| {
                checked(functions, |failure| {
                    (functions.open_column_families)(
                        options,
                        folder.as_ptr(),
                        TABLES.len() as c_int,
                        names.as_ptr(),
                        [options; 2].as_ptr(),
                        tables.as_mut_ptr(),
                        failure,
                    )
                })
            });
            let database = match opened {
                Ok(database) => database,
                Err(why) => {
                    (functions.options_destroy)(options);
                    return Err(why);
                }
            };
            let write = (functions.writeoptions_create)();
            (functions.writeoptions_set_sync)(write, c_uchar::from(!is_load));
            (functions.writeoptions_disable_wal)(write, c_int::from(is_load));
            let read = (functions.readoptions_create)();
            Ok(Self { functions, options, database, tables, read, write })
        }
    }

    fn table(&self, table: ColumnFamily) -> LibraryHandle {
        self.tables[table as usize]
    }

    /// A view of the data as they are now.
    pub fn snapshot(&self) -> Snapshot<'_> {
        let functions = self.functions;
        // SAFETY: the handles live as long as the snapshot, which borrows the database.
        unsafe {
            let snapshot = (functions.create_snapshot)(self.database);
            let read = (functions.readoptions_create)();
            (functions.readoptions_set_snapshot)(read, snapshot);
            Snapshot { database: self, snapshot, read }
        }
    }

    /// An empty batch of changes.
    pub fn changes(&self) -> Changes<'_> {
        // SAFETY: a new object of the library's.
        let batch = unsafe { (self.functions.writebatch_create)() };
        Changes { database: self, batch }
    }

    /// Writes the rows in memory into files.
    pub fn flush(&self, table: ColumnFamily) -> Result<(), String> {
        let functions = self.functions;
        // SAFETY: the options wait for the end by default; all handles are of this database.
        unsafe {
            let options = (functions.flushoptions_create)();
            let done = checked(functions, |failure| {
                (functions.flush_cf)(self.database, options, self.table(table), failure);
            });
            (functions.flushoptions_destroy)(options);
            done
        }
    }

    /// Merges all files of a table, and waits for it.
    pub fn compact(&self, table: ColumnFamily, files: CompactedFiles) {
        let functions = self.functions;
        // SAFETY: no bounds are null; all handles are of this database.
        unsafe {
            let options = (functions.compactoptions_create)();
            (functions.compactoptions_set_bottom)(options, files as c_uchar);
            let table = self.table(table);
            (functions.compact_range_cf_opt)(self.database, table, options, null(), 0, null(), 0);
            (functions.compactoptions_destroy)(options);
        }
    }

    /// A property of a table; None if this version of RocksDB does not have it.
    pub fn property(&self, table: ColumnFamily, name: &CStr) -> Option<String> {
        // SAFETY: the name is a text of C; the answer is the caller's.
        let text = unsafe {
            (self.functions.property_value_cf)(self.database, self.table(table), name.as_ptr())
        };
        taken(self.functions, text)
    }

    /// All tickers and histograms, a line each.
    pub fn statistics(&self) -> String {
        // SAFETY: the answer is the caller's.
        let text = unsafe { (self.functions.options_statistics_get_string)(self.options) };
        taken(self.functions, text).unwrap_or_default()
    }
}

impl Drop for NativeDatabase {
    fn drop(&mut self) {
        let functions = self.functions;
        // SAFETY: snapshots, batches and iterators borrow the database, so none is left.
        unsafe {
            self.tables
                .into_iter()
                .for_each(|table| (functions.column_family_handle_destroy)(table));
            (functions.close)(self.database);
            (functions.readoptions_destroy)(self.read);
            (functions.writeoptions_destroy)(self.write);
            (functions.options_destroy)(self.options);
        }
    }
}

/// The data as they were at one moment.
pub struct Snapshot<'a> {
    database: &'a NativeDatabase,
    snapshot: LibraryHandle,
    read: LibraryHandle,
}

impl Snapshot<'_> {
    /// Shows the row of a block to `found`; false without one.
    pub fn get(
        &self,
        table: ColumnFamily,
        block: u64,
        found: impl FnOnce(&[u8]),
    ) -> Result<bool, String> {
        let (functions, key) = (self.database.functions, key_of(block));
        // SAFETY: the key lives until the call returns; the value until its slice is destroyed.
        unsafe {
            let slice = checked(functions, |failure| {
                (functions.get_pinned_cf)(
                    self.database.database,
                    self.read,
                    self.database.table(table),
                    key.as_ptr().cast(),
                    key.len(),
                    failure,
                )
            })?;
            if slice.is_null() {
                return Ok(false);
            }
            let mut bytes = 0;
            let value = (functions.pinnableslice_value)(slice, &raw mut bytes);
            found(std::slice::from_raw_parts(value.cast(), bytes));
            (functions.pinnableslice_destroy)(slice);
            Ok(true)
        }
    }

    /// Shows all rows of a table to `found`, in order, until it returns false.
    pub fn each(
        &self,
        table: ColumnFamily,
        mut found: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), String> {
        let functions = self.database.functions;
        // SAFETY: the value is the iterator's until it moves.
        unsafe {
            let all = (functions.create_iterator_cf)(
                self.database.database,
                self.read,
                self.database.table(table),
            );
            (functions.iter_seek_to_first)(all);
            let mut goes_on = true;
            while goes_on && (functions.iter_valid)(all) != 0 {
                let mut bytes = 0;
                let value = (functions.iter_value)(all, &raw mut bytes);
                goes_on = found(std::slice::from_raw_parts(value.cast(), bytes));
                (functions.iter_next)(all);
            }
            let ended = checked(functions, |failure| (functions.iter_get_error)(all, failure));
            (functions.iter_destroy)(all);
            ended
        }
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let functions = self.database.functions;
        // SAFETY: no iterator is left, and the database is open.
        unsafe {
            (functions.readoptions_destroy)(self.read);
            (functions.release_snapshot)(self.database.database, self.snapshot);
        }
    }
}

/// Changes that are made together.
pub struct Changes<'a> {
    database: &'a NativeDatabase,
    batch: LibraryHandle,
}

impl Changes<'_> {
    pub fn put(&mut self, table: ColumnFamily, block: u64, row: &[u8]) {
        let key = key_of(block);
        // SAFETY: the library copies key and row.
        unsafe {
            (self.database.functions.writebatch_put_cf)(
                self.batch,
                self.database.table(table),
                key.as_ptr().cast(),
                key.len(),
                row.as_ptr().cast(),
                row.len(),
            );
        }
    }

    pub fn delete(&mut self, table: ColumnFamily, block: u64) {
        let key = key_of(block);
        // SAFETY: the library copies the key.
        unsafe {
            (self.database.functions.writebatch_delete_cf)(
                self.batch,
                self.database.table(table),
                key.as_ptr().cast(),
                key.len(),
            );
        }
    }

    /// Commits them, and empties the batch.
    pub fn commit(&mut self) -> Result<(), String> {
        let (functions, database) = (self.database.functions, self.database);
        // SAFETY: batch and options are of this database, which is open.
        unsafe {
            checked(functions, |failure| {
                (functions.write)(database.database, database.write, self.batch, failure);
            })?;
            (functions.writebatch_clear)(self.batch);
        }
        Ok(())
    }
}

impl Drop for Changes<'_> {
    fn drop(&mut self) {
        // SAFETY: it is this value's own.
        unsafe { (self.database.functions.writebatch_destroy)(self.batch) }
    }
}

/// Counts and, without those of mutexes, times.
const PERF_LEVEL_TIMES: c_int = 3;
const PERF_CACHE_HITS: c_int = 1;
const PERF_READS: c_int = 2;
const PERF_READ_BYTES: c_int = 3;
const PERF_READ_NS: c_int = 4;

/// Block reads of a thread so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockReads {
    pub cache_hits: u64,
    pub reads: u64,
    pub bytes: u64,
    pub time_ns: u64,
}

/// RocksDB's counts of one thread.
struct PerfContext {
    functions: &'static LibraryFunctions,
    context: LibraryHandle,
}

impl PerfContext {
    /// Makes the calling thread count and time its reads from now on.
    fn of_thread() -> Option<Self> {
        let functions = functions().ok()?;
        // SAFETY: the level and the context are the calling thread's own.
        let context = unsafe {
            (functions.set_perf_level)(PERF_LEVEL_TIMES);
            (functions.perfcontext_create)()
        };
        Some(Self { functions, context })
    }

    fn metric(&self, which: c_int) -> u64 {
        // SAFETY: the context is of this thread, in whose storage it is kept.
        unsafe { (self.functions.perfcontext_metric)(self.context, which) }
    }
}

impl Drop for PerfContext {
    fn drop(&mut self) {
        // SAFETY: it frees the handle alone, not the thread's counts.
        unsafe { (self.functions.perfcontext_destroy)(self.context) }
    }
}

thread_local! {
    static PERF_CONTEXT: Option<PerfContext> = PerfContext::of_thread();
}

/// The calling thread's block reads so far. The first call begins to count.
pub fn thread_reads() -> BlockReads {
    PERF_CONTEXT.with(|context| {
        context.as_ref().map_or_else(BlockReads::default, |context| BlockReads {
            cache_hits: context.metric(PERF_CACHE_HITS),
            reads: context.metric(PERF_READS),
            bytes: context.metric(PERF_READ_BYTES),
            time_ns: context.metric(PERF_READ_NS),
        })
    })
}

/// The version in the name of the library that is loaded.
pub fn version() -> Result<String, String> {
    functions()?;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let version = maps.lines().find_map(|line| line.split_once("/librocksdb.so"));
    Ok(version.map_or("unknown", |(_, version)| version.trim_start_matches('.')).to_owned())
}
