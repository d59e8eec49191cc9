//! A lock of one petal against all others: an open file or folder with an advisory lock.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::EngineError;

/// Let go when dropped.
#[derive(Debug)]
pub struct FileLock(Arc<File>);

/// The reason why a lock was not taken.
#[derive(Debug)]
pub enum LockRefused {
    /// Another petal holds it.
    Held,
    /// The system gave no lock: it is unknown whether another petal is at work.
    Failed(io::Error),
}

impl LockRefused {
    /// The reason in words; `held` if another petal holds it.
    pub fn words(&self, held: &str) -> String {
        match self {
            Self::Held => held.to_owned(),
            Self::Failed(error) => format!(
                "it cannot be locked (flock: {error}), so another petal at work there would not be \
                 noticed; put it on a file system with locks, or mount this one with them"
            ),
        }
    }

    /// The error of an engine whose file is not locked; `held` if another petal holds the lock.
    pub fn at(&self, path: &Path, held: &str) -> EngineError {
        EngineError::Environment(format!("{}: {}", path.display(), self.words(held)))
    }
}

impl FileLock {
    /// Takes the lock.
    pub fn on(file: impl Into<Arc<File>>) -> Result<Self, LockRefused> {
        Self::taken(file.into(), FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes it together with others that take it so.
    pub fn shared_on(file: impl Into<Arc<File>>) -> Result<Self, LockRefused> {
        Self::taken(file.into(), FlockOperation::NonBlockingLockShared)
    }

    fn taken(file: Arc<File>, how: FlockOperation) -> Result<Self, LockRefused> {
        match rustix::io::retry_on_intr(|| flock(file.as_fd(), how)) {
            Ok(()) => Ok(Self(file)),
            Err(Errno::WOULDBLOCK) => Err(LockRefused::Held),
            Err(error) => Err(LockRefused::Failed(error.into())),
        }
    }
}

impl Drop for FileLock {
    /// Closing is not enough: a program that another thread just starts has the file open, too.
    fn drop(&mut self) {
        let _ = flock(self.0.as_fd(), FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};

    #[test]
    fn it_is_free_again_though_a_copy_of_the_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::open(folder.path()).unwrap();
        let file = open();
        let copy = file.try_clone().unwrap();
        let lock = FileLock::on(file).unwrap();
        assert!(matches!(FileLock::on(open()), Err(LockRefused::Held)));
        drop(lock);
        assert!(FileLock::on(open()).is_ok());
        drop(copy);
    }

    #[test]
    fn several_share_it_and_none_has_it_alone_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::open(folder.path()).unwrap();
        let shared = [FileLock::shared_on(open()).unwrap(), FileLock::shared_on(open()).unwrap()];
        assert!(matches!(FileLock::on(open()), Err(LockRefused::Held)));
        drop(shared);
        let _alone = FileLock::on(open()).unwrap();
        assert!(matches!(FileLock::shared_on(open()), Err(LockRefused::Held)));
    }

    #[test]
    fn an_error_of_the_system_is_neither_held_nor_taken() {
        // A descriptor that names a place only cannot be locked (EBADF).
        let path_only = OFlags::PATH | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open("/", path_only, Mode::empty()).unwrap());
        let refused = FileLock::on(file).unwrap_err();
        assert!(matches!(refused, LockRefused::Failed(_)));
        let words = refused.words("held");
        assert!(words.contains("Bad file descriptor") && words.contains("mount"), "{words}");
    }
}
