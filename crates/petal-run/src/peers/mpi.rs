//! MPI, loaded when it is needed: the standard ABI of MPI 5.0 (`libmpi_abi.so`) gives symbols and
//! handles that are the same in every library, so that one petal speaks to all of them and needs
//! none to be built. Open MPI 3 to 5 have an ABI of their own ([`Abi`]). All of the `unsafe` for
//! both is here. Calls are made one at a time.
//!
//! Every message waits by asking again ([`MPI_Test`](Functions::test)), never in a call that
//! blocks: a rank that hangs is given up in time. The memory of a request that was given up is
//! leaked, because the library may still use it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr::{null, null_mut};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::{MessageTag, PeerError, PeerWait, Peers};

/// Name of the library in the standard, and the other names that petal tries.
pub const LIBRARY: &str = "libmpi_abi.so";
const LIBRARIES: [&str; 4] = [LIBRARY, "libmpi_abi.so.1", "libmpi_abi.so.0", OPEN_MPI];
/// The library of Open MPI 3 to 5.
pub const OPEN_MPI: &str = "libmpi.so.40";

type Handle = *mut c_void;

// Constants of both ABIs.
const ANY_SOURCE: c_int = -1;
const SUCCESS: c_int = 0;
/// The longest text of an error: 512 in the standard, 256 in Open MPI.
const ERROR_STRING_BYTES: usize = 512;
/// The version of the standard ABI that petal knows.
const ABI_MAJOR: c_int = 1;

/// Differences between the ABIs: handles, as addresses, and the level of threads.
#[derive(Debug, Clone, Copy)]
struct Abi {
    comm_world: usize,
    errors_return: usize,
    byte: usize,
    thread_serialized: c_int,
}

impl Abi {
    /// The constants of the standard ABI, version 1.
    const STANDARD: Self =
        Self { comm_world: 0x101, errors_return: 0x143, byte: 0x247, thread_serialized: 2048 };

    /// The ABI of a library. In Open MPI's own, handles are the addresses of objects that it
    /// exports; its status begins with source, tag and error, too, and is shorter.
    fn of(library: Handle) -> Result<Self, String> {
        if let Ok(found) = symbol(library, c"MPI_Abi_get_version") {
            let (major, minor) = abi_version(found)?;
            return match major {
                ABI_MAJOR => Ok(Self::STANDARD),
                _ => Err(format!("its ABI is of version {major}.{minor}, and petal knows 1")),
            };
        }
        let object = |name| Ok::<_, String>(symbol(library, name)?.expose_provenance());
        Ok(Self {
            comm_world: object(c"ompi_mpi_comm_world")?,
            errors_return: object(c"ompi_mpi_errors_return")?,
            byte: object(c"ompi_mpi_byte")?,
            thread_serialized: 2,
        })
    }
}

/// The handle whose address an ABI names.
fn handle(address: usize) -> Handle {
    std::ptr::with_exposed_provenance_mut(address)
}

/// A message goes in parts of so many bytes.
const PART_BYTES: usize = 8 << 20;
/// Messages that nobody waits for are taken within this.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);
/// Time before a request is polled again: at first, and when it has waited
/// for a while.
const POLL_SOON: Duration = Duration::from_micros(20);
const POLL_LATER: Duration = Duration::from_millis(1);
const FAST_POLLS: u32 = 5000;

#[repr(C)]
#[derive(Default)]
struct MpiStatus {
    source: c_int,
    tag: c_int,
    error: c_int,
    internal: [c_int; 5],
}

macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*),)+) => {
        /// The few functions that petal calls, each with the signature of the standard.
        struct Functions { $($name: unsafe extern "C" fn($($argument),*) -> c_int),+ }

        impl Functions {
            fn find(library: Handle) -> Result<Self, String> {
                $(
                    let found = symbol(library, $symbol)?;
                    // SAFETY: both ABIs give a function of this name this signature, and the
                    // library stays loaded as long as the process lives.
                    let $name = unsafe {
                        std::mem::transmute::<Handle, unsafe extern "C" fn($($argument),*) -> c_int>(found)
                    };
                )+
                Ok(Self { $($name),+ })
            }
        }
    };
}

functions! {
    init = c"MPI_Init_thread": fn(*mut c_int, *mut c_void, c_int, *mut c_int),
    finalize = c"MPI_Finalize": fn(),
    abort = c"MPI_Abort": fn(Handle, c_int),
    set_errors = c"MPI_Comm_set_errhandler": fn(Handle, Handle),
    error_string = c"MPI_Error_string": fn(c_int, *mut c_char, *mut c_int),
    rank = c"MPI_Comm_rank": fn(Handle, *mut c_int),
    size = c"MPI_Comm_size": fn(Handle, *mut c_int),
    barrier = c"MPI_Ibarrier": fn(Handle, *mut Handle),
    send = c"MPI_Isend": fn(*const c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle),
    receive = c"MPI_Irecv": fn(*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle),
    test = c"MPI_Test": fn(*mut Handle, *mut c_int, *mut MpiStatus),
    probe = c"MPI_Iprobe": fn(c_int, c_int, Handle, *mut c_int, *mut MpiStatus),
}

/// The ranks of one `mpiexec`.
pub struct Mpi {
    abi: Abi,
    functions: Mutex<Functions>,
    rank: u32,
    size: u32,
}

impl Mpi {
    /// Loads the library, the one at `path` if one is named, and joins the other ranks.
    pub fn join(path: Option<&OsStr>) -> Result<Self, String> {
        let library = open(path)?;
        let abi = Abi::of(library)?;
        let functions = Functions::find(library)?;
        let mut provided = 0;
        // SAFETY: argc and argv may be null; `provided` is written before the call returns.
        let code = unsafe {
            (functions.init)(null_mut(), null_mut(), abi.thread_serialized, &raw mut provided)
        };
        check(&functions, code, "MPI_Init_thread")?;
        if provided < abi.thread_serialized {
            return Err("it serves one thread only (MPI_THREAD_SERIALIZED is needed)".to_owned());
        }
        let (mut rank, mut size) = (0, 0);
        // SAFETY: handles belong to the library's ABI; rank and size are written by the calls.
        let codes = unsafe {
            [
                (functions.set_errors)(handle(abi.comm_world), handle(abi.errors_return)),
                (functions.rank)(handle(abi.comm_world), &raw mut rank),
                (functions.size)(handle(abi.comm_world), &raw mut size),
            ]
        };
        codes.into_iter().try_for_each(|code| check(&functions, code, "asking for the rank"))?;
        let number = |value: c_int| u32::try_from(value).map_err(|_| "no rank".to_owned());
        let (rank, size) = (number(rank)?, number(size)?);
        Ok(Self { abi, rank, size, functions: Mutex::new(functions) })
    }

    /// Leaves the other ranks, which must all come to this. Messages that nobody waits for any
    /// more, such as seconds of progress, are taken first: with one left the library does not let
    /// go.
    pub fn leave(&self) {
        let soon = PeerWait::uninterrupted(LEAVE_LIMIT);
        for tag in MessageTag::ALL {
            while let Ok(Some(from)) = self.probe(None, tag) {
                if self.receive(from, tag, &soon).is_err() {
                    break;
                }
            }
        }
        // SAFETY: it was initialised, and every request that did not end was given up for good.
        let _ = unsafe { (self.functions.lock().finalize)() };
    }

    /// Ends all ranks, this one with `code`, as the launcher does it: one of them does not answer.
    pub fn abort(&self, code: u8) {
        // SAFETY: it was initialised; the handle is the ABI's.
        let _ = unsafe { (self.functions.lock().abort)(handle(self.abi.comm_world), code.into()) };
    }

    /// Makes a call, one at a time.
    fn call(&self, what: &str, call: impl FnOnce(&Functions) -> c_int) -> Result<(), PeerError> {
        let functions = self.functions.lock();
        check(&functions, call(&functions), what).map_err(PeerError::Failed)
    }

    /// Asks for a request until it has ended; one that has not when the wait is over goes on.
    fn wait(&self, mut request: Handle, what: &str, wait: &PeerWait<'_>) -> Result<(), PeerError> {
        let mut asked = 0;
        loop {
            let (mut done, mut status) = (0, MpiStatus::default());
            // SAFETY: the request is of this communicator and not yet ended; flag and status are
            // written before the call returns.
            self.call(what, |functions| unsafe {
                (functions.test)(&raw mut request, &raw mut done, &raw mut status)
            })?;
            if done != 0 {
                return Ok(());
            }
            pause(&mut asked, wait)?;
        }
    }

    fn send_part(
        &self,
        to: u32,
        tag: MessageTag,
        part: Vec<u8>,
        wait: &PeerWait<'_>,
    ) -> Result<(), PeerError> {
        // Until the request has ended the memory is the library's.
        let part = Box::leak(part.into_boxed_slice());
        let whole = std::ptr::from_mut(part);
        let mut request = null_mut();
        // SAFETY: the memory lives until it is taken back below, after the request has ended.
        self.call("sending to another rank", |functions| unsafe {
            (functions.send)(
                part.as_ptr().cast(),
                part.len() as c_int,
                handle(self.abi.byte),
                to as c_int,
                tag as c_int,
                handle(self.abi.comm_world),
                &raw mut request,
            )
        })?;
        self.wait(request, "sending to another rank", wait)?;
        // SAFETY: it was leaked above, and the request that used it has ended.
        drop(unsafe { Box::from_raw(whole) });
        Ok(())
    }

    fn receive_part(
        &self,
        from: u32,
        tag: MessageTag,
        bytes: usize,
        wait: &PeerWait<'_>,
    ) -> Result<Vec<u8>, PeerError> {
        let part = Box::leak(vec![0_u8; bytes].into_boxed_slice());
        let whole = std::ptr::from_mut(part);
        let mut request = null_mut();
        // SAFETY: the memory lives until it is taken back below, after the request has ended.
        self.call("receiving from another rank", |functions| unsafe {
            (functions.receive)(
                whole.cast(),
                bytes as c_int,
                handle(self.abi.byte),
                from as c_int,
                tag as c_int,
                handle(self.abi.comm_world),
                &raw mut request,
            )
        })?;
        self.wait(request, "receiving from another rank", wait)?;
        // SAFETY: it was leaked above, and the request that filled it has ended.
        Ok(unsafe { Box::from_raw(whole) }.into_vec())
    }

    /// Returns the sender of a message of this kind, if one has come.
    fn probe(&self, from: Option<u32>, tag: MessageTag) -> Result<Option<u32>, PeerError> {
        let (mut flag, mut status) = (0, MpiStatus::default());
        let (source, tag) = (from.map_or(ANY_SOURCE, |from| from as c_int), tag as c_int);
        let world = handle(self.abi.comm_world);
        // SAFETY: flag and status are written before the call returns.
        self.call("looking for messages", |functions| unsafe {
            (functions.probe)(source, tag, world, &raw mut flag, &raw mut status)
        })?;
        Ok((flag != 0).then(|| u32::try_from(status.source).unwrap_or(0)))
    }
}

impl Peers for Mpi {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn send(
        &self,
        to: u32,
        tag: MessageTag,
        bytes: &[u8],
        wait: &PeerWait<'_>,
    ) -> Result<(), PeerError> {
        self.send_part(to, tag, (bytes.len() as u64).to_le_bytes().to_vec(), wait)?;
        bytes.chunks(PART_BYTES).try_for_each(|part| self.send_part(to, tag, part.to_vec(), wait))
    }

    fn receive(
        &self,
        from: u32,
        tag: MessageTag,
        wait: &PeerWait<'_>,
    ) -> Result<Vec<u8>, PeerError> {
        let mut asked = 0;
        while self.probe(Some(from), tag)?.is_none() {
            pause(&mut asked, wait)?;
        }
        let length = self.receive_part(from, tag, 8, wait)?;
        let length = length.try_into().map(u64::from_le_bytes).unwrap_or(0) as usize;
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let part = PART_BYTES.min(length - bytes.len());
            bytes.extend(self.receive_part(from, tag, part, wait)?);
        }
        Ok(bytes)
    }

    fn arrived(&self, tag: MessageTag) -> Result<Option<u32>, PeerError> {
        self.probe(None, tag)
    }

    fn barrier(&self, wait: &PeerWait<'_>) -> Result<(), PeerError> {
        let mut request = null_mut();
        // SAFETY: the request is written before the call returns.
        self.call("the barrier", |functions| unsafe {
            (functions.barrier)(handle(self.abi.comm_world), &raw mut request)
        })?;
        self.wait(request, "the barrier", wait)
    }
}

/// Leaves the processor to others; an error when it is time to give up.
fn pause(asked: &mut u32, wait: &PeerWait<'_>) -> Result<(), PeerError> {
    wait.check()?;
    thread::sleep(if *asked < FAST_POLLS { POLL_SOON } else { POLL_LATER });
    *asked += 1;
    Ok(())
}

fn check(functions: &Functions, code: c_int, what: &str) -> Result<(), String> {
    if code == SUCCESS {
        return Ok(());
    }
    let mut text = [0_u8; ERROR_STRING_BYTES + 1];
    let mut length = 0;
    // SAFETY: the standard's longest text and its end fit.
    unsafe { (functions.error_string)(code, text.as_mut_ptr().cast(), &raw mut length) };
    let words = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
    Err(format!("{what}: {words} (MPI error {code})"))
}

/// Major and minor version of the standard ABI, from its own function.
fn abi_version(found: Handle) -> Result<(c_int, c_int), String> {
    type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the standard gives MPI_Abi_get_version this signature; both are written before the
    // call returns.
    let code =
        unsafe { std::mem::transmute::<Handle, Version>(found)(&raw mut major, &raw mut minor) };
    if code == SUCCESS { Ok((major, minor)) } else { Err("it does not report its ABI".to_owned()) }
}

/// The library, by the path or by the names under which it is found; or why it cannot be loaded.
fn open(path: Option<&OsStr>) -> Result<Handle, String> {
    let named = path.map(|path| vec![path]);
    let names = named.unwrap_or_else(|| LIBRARIES.iter().map(OsStr::new).collect());
    let mut why = String::new();
    for name in names {
        let Ok(name) = CString::new(name.as_bytes()) else { continue };
        // SAFETY: the name ends with a zero; the library's own initialisers are trusted as those
        // of any library that a user installed to be loaded.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if !library.is_null() {
            return Ok(library);
        }
        if why.is_empty() {
            why = last_error();
        }
    }
    Err(why)
}

fn symbol(library: Handle, name: &CStr) -> Result<Handle, String> {
    // SAFETY: the library is loaded and the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() { Err(last_error()) } else { Ok(found) }
}

fn last_error() -> String {
    // SAFETY: the text is the loader's, and is copied before the next call of it.
    let text = unsafe { libc::dlerror() };
    if std::ptr::eq(text, null()) {
        return "the loader does not say why".to_owned();
    }
    // SAFETY: it is not null, and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
