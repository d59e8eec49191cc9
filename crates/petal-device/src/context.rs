//! The context of a session, which all its parts share: the data, the target, the counts, and what
//! its errors are called. Blocks are looked at here, and nowhere else.

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
use petal_model::settings::Verify;
use petal_model::stats::event_stats::EventRecorder;

/// The code of an operation that met a block that is not what was asked for.
pub const BAD_BLOCK: &str = "bad-block";
/// A session that met more of them ends.
const BAD_BLOCKS_MAX: u64 = 100;
/// A block that looked torn is read so many times more.
const REREADS_MAX: usize = 3;

pub struct SessionContext {
    pub shared: Arc<Shared>,
    pub data: Arc<TargetData>,
    pub target: OpenTarget,
    /// A canceller asked to end the operation under way.
    pub is_cancelled: Arc<AtomicBool>,
    recorder: Arc<EventRecorder>,
    /// Counts since the last flush.
    pub visited: u64,
    pub dirty_hits: u64,
    pub commits: u64,
    /// In all of the session.
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

    /// The place of a schema among the areas.
    pub fn area(&self, schema: u32) -> Result<usize, SessionError> {
        Ok(self.data.position(schema, &self.target.path)?)
    }

    /// The operation under way should end now, whatever it waits for.
    pub fn is_cut(&self, stop: &Stop) -> bool {
        self.is_cancelled.load(Ordering::Relaxed) || stop.is_cutting()
    }

    pub fn record(&self, event: Event, begin: Instant, end: Instant, bytes: u64) {
        self.recorder.record(event as usize, (end - begin).as_nanos() as u64, bytes);
    }

    /// Makes the engine's statistics current.
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

    /// Verifies so many blocks, and counts its time where that is worth two looks at the clock.
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

    /// Checks that a block that was read is the one that was asked for, and new enough.
    pub fn check(
        &self,
        area: &Area,
        identity: &Identity,
        mark: u8,
        block: &[u8],
    ) -> Result<(), Flaw> {
        let verify = self.shared.verify;
        let version = self.verifying(1, || block::check(block, identity, verify))?;
        if verify == Verify::None || area.saw(identity, version, mark) {
            Ok(())
        } else {
            Err(Flaw::OldVersion { found: version })
        }
    }

    /// A read may have met a write of another session's: what a second look finds is true.
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
            "{}: the block at byte {} (schema {}, key {}) is not what was written there: {flaw}",
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

/// The system's name of an error number, as its manual pages have it.
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
