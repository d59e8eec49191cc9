//! A lock of one petal against all others: an open file or folder with an advisory lock.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Let go when dropped.
#[derive(Debug)]
pub struct FileLock(Arc<File>);

impl FileLock {
    /// Takes the lock; None if another petal holds it. File systems without locks give it to all.
    pub fn on(file: impl Into<Arc<File>>) -> Option<Self> {
        Self::taken(file.into(), FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes it together with others that take it so; None if another petal holds it alone.
    pub fn shared_on(file: impl Into<Arc<File>>) -> Option<Self> {
        Self::taken(file.into(), FlockOperation::NonBlockingLockShared)
    }

    fn taken(file: Arc<File>, how: FlockOperation) -> Option<Self> {
        match flock(file.as_fd(), how) {
            Err(Errno::WOULDBLOCK) => None,
            _ => Some(Self(file)),
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

    #[test]
    fn it_is_free_again_though_a_copy_of_the_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::open(folder.path()).unwrap();
        let file = open();
        let copy = file.try_clone().unwrap();
        let lock = FileLock::on(file).unwrap();
        assert!(FileLock::on(open()).is_none());
        drop(lock);
        assert!(FileLock::on(open()).is_some());
        drop(copy);
    }

    #[test]
    fn several_share_it_and_none_has_it_alone_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::open(folder.path()).unwrap();
        let shared = [FileLock::shared_on(open()).unwrap(), FileLock::shared_on(open()).unwrap()];
        assert!(FileLock::on(open()).is_none());
        drop(shared);
        let _alone = FileLock::on(open()).unwrap();
        assert!(FileLock::shared_on(open()).is_none());
    }
}
