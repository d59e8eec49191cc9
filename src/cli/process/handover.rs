//! Arguments that one image of petal hands to the next one in a file in memory, so that the list of
//! processes shows none of their secrets. The same user and root can read that file, as they can
//! read petal's memory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, getpid, getppid, kill_process, set_parent_process_death_signal};

use super::this_program;
use petal_host::files::{self, OFlags};
use petal_run::secrets::HANDOVER;

const NAME: &str = "petal-arguments";

/// Arguments in a file in memory.
pub struct Handover {
    file: OwnedFd,
}

impl Handover {
    pub fn of(arguments: &[OsString]) -> io::Result<Self> {
        let file = memfd_create(NAME, MemfdFlags::CLOEXEC)?;
        let mut file = File::from(file);
        for argument in arguments {
            file.write_all(argument.as_bytes())?;
            file.write_all(&[0])?;
        }
        Ok(Self { file: file.into() })
    }

    /// Replaces this program by the same one, whose command line is `shown`. Returns only if that
    /// fails.
    pub fn replace_by(self, shown: &[OsString]) -> io::Error {
        if let Err(error) = fcntl_setfd(&self.file, FdFlags::empty()) {
            return error.into();
        }
        this_program(shown).env(HANDOVER, self.named()).exec()
    }

    /// The value of [`HANDOVER`] for a worker, which obeys the signals from that pipe.
    pub fn for_worker(&self, orders: &impl std::os::fd::AsRawFd) -> String {
        format!("{} {}", self.named(), orders.as_raw_fd())
    }

    fn named(&self) -> String {
        format!("{} {}", getpid().as_raw_nonzero(), self.file.as_raw_fd())
    }
}

/// Arguments that were handed over.
pub struct Received {
    pub arguments: Vec<OsString>,
    /// The signals of the petal that waits for this one; None of a petal that waits for itself.
    pub orders: Option<File>,
}

/// Takes the arguments that another image of petal left for this one; None of a petal that was
/// started by somebody else.
pub fn received() -> Option<Received> {
    let variable = std::env::var(HANDOVER).ok()?;
    let mut words = variable.split(' ').map(|word| word.parse::<i32>().ok());
    let (from, file) = (words.next()??, words.next()??);
    let orders = words.next().map(|word| word.ok_or(())).transpose().ok()?;
    let me = getpid().as_raw_nonzero().get();
    let starter = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if from != (if orders.is_some() { starter } else { me }) {
        // Hooks do not inherit the variable: a worker with another parent has lost its supervisor.
        if orders.is_some() {
            end_as_orphan();
        }
        return None;
    }
    if orders.is_some() {
        // Without its supervisor nobody would hear how it ends.
        set_parent_process_death_signal(Some(Signal::KILL)).ok()?;
        if getppid().map_or(0, |pid| pid.as_raw_nonzero().get()) != starter {
            end_as_orphan();
        }
        // The program's file is known to the system as `exe`.
        let _ = rustix::thread::set_name(c"petal");
    }
    let place = |fd: i32| format!("/proc/{from}/fd/{fd}");
    let arguments = read(&place(file), orders.is_some()).ok()?;
    let orders = orders.map(|fd| files::open(place(fd), OFlags::RDONLY)).transpose().ok()?;
    Some(Received { arguments, orders })
}

/// Ends a worker whose supervisor was killed before the worker followed it, as that signal would have
/// done: otherwise it would do the whole command, and nobody would wait for it.
fn end_as_orphan() {
    let _ = kill_process(getpid(), Signal::KILL);
}

/// Reads a file of arguments. The image that took its process over shares it with all children, and
/// so leaves nothing in it.
fn read(place: &str, is_kept: bool) -> io::Result<Vec<OsString>> {
    if !fs::read_link(place)?.to_string_lossy().starts_with(&format!("/memfd:{NAME}")) {
        return Err(io::Error::other("it is not a file of arguments"));
    }
    let mut file = files::open(place, OFlags::RDWR)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    if !is_kept {
        file.set_len(0)?;
    }
    let arguments = bytes.split(|byte| *byte == 0).map(|text| OsString::from_vec(text.to_vec()));
    let mut arguments: Vec<OsString> = arguments.collect();
    arguments.pop(); // After the last end there is nothing.
    Ok(arguments)
}
