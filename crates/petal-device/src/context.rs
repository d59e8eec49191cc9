//! Context that all parts of a session share: the data, the target, the counts, and the names of
//! its errors. Only this module checks blocks.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::Shared;
use super::block::{self, Flaw, Identity};
use super::data::{Area, TargetData};
use super::statistics::{Count, Event};
use super::target::{AlignedBuffer, OpenTarget};
use petal_engine::{Result, SessionError, Stop};
use petal_record::event_stats::EventRecorder;
use petal_settings::Verify;

/// Code of an operation that met a bad block.
pub const BAD_BLOCK: &str = "bad-block";
/// Number of bad blocks after which a session ends.
const BAD_BLOCKS_MAX: u64 = 100;
/// Number of times a block that looked torn is read again.
const REREADS_MAX: usize = 3;

pub struct SessionContext {
    pub shared: Arc<Shared>,
    pub data: Arc<TargetData>,
    pub target: OpenTarget,
    /// Set if a canceller asked to end the current operation.
    pub is_cancelled: Arc<AtomicBool>,
    recorder: Arc<EventRecorder>,
    /// Counts since the last flush.
    pub visited: u64,
    pub dirty_hits: u64,
    pub commits: u64,
    /// Bad blocks of the whole session.
    bad_blocks: u64,
}

impl SessionContext {
    pub fn new(shared: &Arc<Shared>) -> Result<Self> {
        Ok(Self {
            shared: Arc::clone(shared),
            data: shared.data()?,
            target: shared.target()?,
            is_cancelled: Arc::default(),
            recorder: shared.statistics.recorder(),
            visited: 0,
            dirty_hits: 0,
            commits: 0,
            bad_blocks: 0,
        })
    }

    /// Returns the index of a schema among the areas.
    pub fn area(&self, schema: u32) -> Result<usize, SessionError> {
        Ok(self.data.position(schema, &self.target.path)?)
    }

    /// True if the current operation should end now, even while it waits.
    pub fn is_cut(&self, stop: &Stop) -> bool {
        self.is_cancelled.load(Ordering::Relaxed) || stop.is_cutting()
    }

    pub fn record(&self, event: Event, begin: Instant, end: Instant, bytes: u64) {
        self.recorder.record(event as usize, (end - begin).as_nanos() as u64, bytes);
    }

    /// Updates the engine's statistics.
    pub fn flush(&mut self) {
        for (count, more) in [
            (Count::Visited, &mut self.visited),
            (Count::DirtyHits, &mut self.dirty_hits),
            (Count::Commits, &mut self.commits),
        ] {
            self.shared.statistics.count(count, std::mem::take(more));
        }
        self.recorder.fold();
    }

    /// Verifies blocks, and counts the time if it is worth two clock reads.
    pub fn verifying<T>(&self, blocks: u64, verify: impl FnOnce() -> T) -> T {
        if self.shared.verify != Verify::Checksum {
            return verify();
        }
        let begin = Instant::now();
        let verified = verify();
        let statistics = &self.shared.statistics;
        statistics.count(Count::VerifyNs, begin.elapsed().as_nanos() as u64);
        statistics.count(Count::BlocksVerified, blocks);
        verified
    }

    /// Checks that a block is the requested one, and new enough.
    pub fn check(
        &self,
        area: &Area,
        identity: &Identity,
        mark: u8,
        block: &[u8],
    ) -> Result<(), Flaw> {
        let verify = self.shared.verify;
        let version = self.verifying(1, || block::check(block, identity, verify))?;
        if verify == Verify::None || area.note_version(identity, version, mark) {
            Ok(())
        } else {
            Err(Flaw::OldVersion { found: version })
        }
    }

    /// Reads a block again, because the first read may have overlapped another session's write. The
    /// result of the repeated read counts.
    pub fn read_again(
        &self,
        area: usize,
        identity: &Identity,
        mut flaw: Flaw,
    ) -> Result<Result<Box<[u8]>, Flaw>, SessionError> {
        let mut buffer = AlignedBuffer::new(self.data.header.block_bytes as usize);
        for _ in 0..REREADS_MAX {
            self.shared.statistics.count(Count::Rereads, 1);
            if let Some(image) = self.shared.dirty.get(identity.address) {
                return Ok(Ok((**image).into()));
            }
            let area = &self.data.areas[area];
            let mark = area.version_mark(identity);
            let begin = Instant::now();
            self.target
                .file
                .read_exact_at(buffer.bytes_mut(), identity.address)
                .map_err(|error| self.failed_read(identity, &error))?;
            self.record(Event::BlockRead, begin, Instant::now(), buffer.len() as u64);
            match self.check(area, identity, mark, buffer.bytes()) {
                Ok(()) => return Ok(Ok(buffer.bytes().into())),
                Err(again) => flaw = again,
            }
        }
        Ok(Err(flaw))
    }

    /// Counts a bad block; too many end the session.
    pub fn bad_block(&mut self, identity: &Identity, flaw: Flaw) -> Result<(), SessionError> {
        let what = format!(
            "{}: the block at byte {} (schema {}, key {}) is not the one that petal wrote: {flaw}",
            self.target.path.display(),
            identity.address,
            identity.schema,
            identity.key,
        );
        self.shared.bad_block(&what);
        self.bad_blocks += 1;
        if self.bad_blocks <= BAD_BLOCKS_MAX {
            return Ok(());
        }
        Err(SessionError {
            code: BAD_BLOCK.into(),
            message: format!(
                "{what}; it is bad block number {} in this session; check the device, then load \
                 again (petal setup --replace)",
                self.bad_blocks
            ),
        })
    }

    pub fn failed_read(&self, identity: &Identity, error: &std::io::Error) -> SessionError {
        let what = format!(
            "reading at byte {} (schema {}, key {})",
            identity.address, identity.schema, identity.key
        );
        self.fatal(&what, error)
    }

    pub fn fatal(&self, what: &str, error: &std::io::Error) -> SessionError {
        SessionError {
            code: error.raw_os_error().map_or_else(|| "device-error".to_owned(), error_name),
            message: format!(
                "{}: {what} failed: {error}; look into the system's log for the device",
                self.target.path.display()
            ),
        }
    }
}

/// Returns the system's name of an error number, as in its manual pages.
fn error_name(number: i32) -> String {
    let name = match number {
        libc::EIO => "EIO",
        libc::ENOSPC => "ENOSPC",
        libc::EDQUOT => "EDQUOT",
        libc::EFBIG => "EFBIG",
        libc::EROFS => "EROFS",
        libc::EINVAL => "EINVAL",
        libc::EAGAIN => "EAGAIN",
        libc::EBUSY => "EBUSY",
        libc::EINTR => "EINTR",
        libc::ENOMEM => "ENOMEM",
        libc::ENXIO => "ENXIO",
        libc::ENODEV => "ENODEV",
        libc::EBADF => "EBADF",
        libc::EPERM => "EPERM",
        libc::EACCES => "EACCES",
        libc::EILSEQ => "EILSEQ",
        libc::ENODATA => "ENODATA",
        libc::EREMOTEIO => "EREMOTEIO",
        libc::ETIMEDOUT => "ETIMEDOUT",
        _ => return format!("errno {number}"),
    };
    name.to_owned()
}
