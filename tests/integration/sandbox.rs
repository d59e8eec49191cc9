//! A seccomp filter that refuses a system call of io_uring, as containers' default profiles do, LMDB's
//! files, and a socket's segments. The only `unsafe` of the tests is here and where it is called.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::Path;

/// Loads the system call's number; refuses this one with EPERM and allows the rest.
fn refusing(call: libc::c_long) -> [libc::sock_filter; 4] {
    [
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

const fn filter(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// For the calling process and what it becomes.
#[allow(unsafe_code)]
pub fn forbid(call: libc::c_long) -> io::Result<()> {
    let mut filter = refusing(call);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: both calls take plain numbers, and the second a program that lives until it returns.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) != 0
    };
    if refused { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the segments of an unconnected TCP socket so small that its peer's kernel holds little for it.
#[allow(unsafe_code)]
pub fn small_segments(socket: BorrowedFd<'_>) -> io::Result<()> {
    let bytes: libc::c_int = 536;
    // SAFETY: the option is read from a number that lives until the call returns.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Opens a file of LMDB's that no engine of this process has open.
#[cfg(feature = "lmdb")]
#[allow(unsafe_code)]
pub fn lmdb(path: &Path) -> heed::Env {
    let mut options = heed::EnvOpenOptions::new();
    options.max_dbs(2).map_size(1 << 30);
    // SAFETY: a single file instead of a folder, which changes no memory's meaning.
    unsafe { options.flags(heed::EnvFlags::NO_SUB_DIR) };
    // SAFETY: nobody replaces the file while the test reads it.
    unsafe { options.open(path) }.unwrap()
}
