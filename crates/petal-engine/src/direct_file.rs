//! Reads and writes of a file past the page cache (O_DIRECT). Bytes pass through [`with_bounce`], so
//! a caller's memory needs no alignment.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;

use super::bounce::with_bounce;
use petal_host::files;

/// Serves every common device, for kernels before 6.1, which name none.
const ALIGNMENT_DEFAULT: usize = 4096;
/// Some file systems take O_DIRECT in open and refuse it in the first read.
const PROBE_BYTES: usize = 4096;
/// A call that was interrupted, refused for now or served in part is repeated so often.
const TRIES_MORE: u32 = 3;

/// An O_DIRECT descriptor, proved by a read.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    offset_alignment: usize,
}

/// A file that is not read directly.
#[derive(Debug)]
pub struct NotDirect {
    /// The descriptor that turned out useless, for callers that must not close it.
    pub file: Option<File>,
    what: &'static str,
    error: io::Error,
}

impl NotDirect {
    /// The reason if the file system has no direct I/O; else the error of the file or the device.
    pub fn reason(self) -> io::Result<String> {
        if is_unsupported(&self.error) {
            Ok(format!("{}: {}", self.what, self.error))
        } else {
            Err(self.error)
        }
    }
}

impl From<io::Error> for NotDirect {
    fn from(error: io::Error) -> Self {
        Self { file: None, what: "O_DIRECT is refused at open", error }
    }
}

impl DirectFile {
    /// Opens the file of another descriptor directly, whatever has its name now.
    pub fn again(file: &File) -> Result<Self, NotDirect> {
        Self::proved(open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))?)
    }

    /// Proves by a read that a descriptor of [`open`] reads directly.
    pub fn proved(file: File) -> Result<Self, NotDirect> {
        let refused = |file, what, error| Err(NotDirect { file: Some(file), what, error });
        let Some(offset_alignment) = offset_alignment(&file) else {
            let what = "the file system has no direct I/O for this file";
            return refused(file, what, Errno::OPNOTSUPP.into());
        };
        let direct = Self { file, offset_alignment };
        let mut probe = vec![0; PROBE_BYTES.max(offset_alignment)];
        match direct.read(&mut probe, 0) {
            Ok(_) => Ok(direct),
            Err(error) => refused(direct.file, "a direct read is refused", error),
        }
    }

    /// True when a call of this size at this place can go direct.
    pub fn takes(&self, offset: u64, bytes: usize) -> bool {
        offset.is_multiple_of(self.offset_alignment as u64)
            && bytes.is_multiple_of(self.offset_alignment)
    }

    /// Bytes read; fewer than asked at the end of the file.
    pub fn read(&self, page: &mut [u8], offset: u64) -> io::Result<usize> {
        with_bounce(page.len(), |bounce| {
            let bytes = repeated(bounce.len(), || self.file.read_at(bounce, offset))?;
            page[..bytes].copy_from_slice(&bounce[..bytes]);
            Ok(bytes)
        })
    }

    /// Writes all of it.
    pub fn write(&self, page: &[u8], offset: u64) -> io::Result<()> {
        let bytes = with_bounce(page.len(), |bounce| {
            bounce.copy_from_slice(page);
            repeated(bounce.len(), || self.file.write_at(bounce, offset))
        })?;
        if bytes == page.len() {
            return Ok(());
        }
        Err(io::Error::other(format!("{bytes} of {} bytes were written", page.len())))
    }
}

/// Repeats a call that moved too few bytes. At the end of a file it cannot move more.
fn repeated(wanted: usize, mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    let mut tries_left = TRIES_MORE;
    loop {
        let answer = call();
        let is_final = match &answer {
            Ok(moved) => *moved == wanted || *moved == 0,
            Err(error) => {
                !matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
            }
        };
        if is_final || tries_left == 0 {
            return answer;
        }
        tries_left -= 1;
    }
}

/// Opens a file for reading and writing, or for reading only if it may not be written.
pub fn open(path: &Path) -> io::Result<File> {
    files::open(path, OFlags::RDWR | OFlags::DIRECT).or_else(|error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            files::open(path, OFlags::RDONLY | OFlags::DIRECT)
        }
        _ => Err(error),
    })
}

/// True for a file system's answer that it has no direct I/O.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::OPNOTSUPP))
}

/// The alignment of offsets; None if the file cannot be read directly. That of memory is at most a
/// page's.
fn offset_alignment(file: &File) -> Option<usize> {
    match rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(found)
            if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN) =>
        {
            (found.stx_dio_offset_align > 0).then_some(found.stx_dio_offset_align as usize)
        }
        _ => Some(ALIGNMENT_DEFAULT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_yet_succeed_is_done_again() {
        let errno = |error: Errno| Err(error.raw_os_error());
        let calls = |answers: &[Result<usize, i32>]| {
            let mut made = 0;
            let answer = repeated(4096, || {
                made += 1;
                let answer = answers[(made - 1).min(answers.len() - 1)];
                answer.map_err(io::Error::from_raw_os_error)
            });
            (made, answer.map_err(|error| error.raw_os_error().unwrap()))
        };
        assert_eq!(calls(&[Ok(4096)]), (1, Ok(4096)));
        assert_eq!(calls(&[Ok(0)]), (1, Ok(0)));
        assert_eq!(calls(&[Ok(512), Ok(4096)]), (2, Ok(4096)));
        assert_eq!(calls(&[Ok(512)]), (4, Ok(512)), "the file ends within the page");
        assert_eq!(calls(&[errno(Errno::INTR), Ok(4096)]), (2, Ok(4096)));
        assert_eq!(calls(&[errno(Errno::AGAIN)]), (4, errno(Errno::AGAIN)));
        assert_eq!(calls(&[errno(Errno::IO), Ok(4096)]), (1, errno(Errno::IO)));
    }
}
