//! The target opened for measuring it bare: a stretch of incompressible bytes that was written
//! whole. What `petal calibrate` stands on; the measuring itself is `measure`'s.
//!
//! The stretch is petal's own: a file that is made here and is removed with it unless it is kept,
//! one that an earlier calibration left, or a block device, under the same refusals as a load.

use std::io;
use std::path::Path;

use super::filling::{FilledPiece, Filling};
use super::layout::{HEADER_BYTES, TargetHeader};
use super::queue::{Backend, RequestQueue};
use super::target::{AlignedBuffer, OpenTarget, TargetFile, TargetKind};
use super::{Device, Shared, block, load, occupied, safety};
use petal_engine::on_path::{OnPath, unusable};
use petal_engine::{EngineError, Progress, ProgressUnit, Result, Stop};
use petal_model::settings::size::format_bytes;
use petal_model::settings::table::support;
use petal_model::stats::target::DirectIo;
use petal_model::workload::scatter::mix;

/// The stretch where nobody says how large: what fits the caches of most drives is far smaller.
const BYTES_DEFAULT: u64 = 8 << 30;
/// The stretch is so many times the storage's cache: three reads in four then miss it.
const CACHES: u64 = 4;
const BYTES_MIN: u64 = 16 << 20;
/// Bytes of the requests in order, and of those that fill the stretch.
pub const LARGE_BYTES: u32 = 1 << 20;
pub const LARGE_DEPTH: u32 = 8;
/// The stretch that is asked for.
#[derive(Debug, Clone, Copy)]
pub struct WantedStretch {
    pub bytes: Option<u64>,
    /// The storage's cache, which it must exceed.
    pub storage_cache: Option<u64>,
    /// A file that is made here stays.
    pub keep: bool,
}

/// An open target with a stretch that may be read and written.
pub struct CalibrationTarget {
    target: OpenTarget,
    backend: Backend,
    bytes: u64,
    removed_at_end: bool,
}

impl Device {
    /// Opens the target for measuring and fills what of it was not filled.
    pub fn calibration_target(
        &self,
        wanted: &WantedStretch,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<CalibrationTarget> {
        let shared = &self.shared;
        let there = shared.there()?;
        let is_new = there.is_none();
        let before = there.as_ref().map_or(Ok(None), |there| header_there(shared, there))?;
        let filled_bytes = before.as_ref().and_then(|header| header.gauge_bytes).unwrap_or(0);
        let left_behind = before.as_ref().is_some_and(|header| header.gauge_goes);
        let bytes = stretch(shared, there.as_ref(), wanted, filled_bytes, progress)?;
        // From here on a file that was made goes again, whatever happens.
        let mut made = Made(None);
        if is_new {
            shared.create()?;
            made.0 = shared.there()?;
        }
        let target = shared.target()?;
        let backend = shared.backend()?;
        let removed_at_end = (is_new || left_behind) && !wanted.keep;
        if left_behind {
            progress.note(&format!(
                "{}: a calibration that was killed left it; it goes when this one ends, unless \
                 --keep",
                shared.path.display()
            ));
        }
        let target = CalibrationTarget { target, backend, bytes, removed_at_end };
        if filled_bytes < bytes {
            load::make_room(&target.target, HEADER_BYTES + bytes)?;
            let header = TargetHeader::new(support::DEVICE.block_size_default, 0);
            let header = TargetHeader { gauge_goes: removed_at_end, ..header };
            load::wipe_end(&target.target)?;
            target.target.write_header(&header)?;
            target.fill(progress, stop)?;
            target.target.write_header(&TargetHeader { gauge_bytes: Some(bytes), ..header })?;
        } else if let Some(header) = before.filter(|_| left_behind && wanted.keep) {
            target.target.write_header(&TargetHeader { gauge_goes: false, ..header })?;
        }
        made.0 = None;
        Ok(target)
    }
}

/// Removes a file that was made and not finished.
struct Made(Option<TargetFile>);

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(made) = &self.0 {
            let _ = made.remove();
        }
    }
}

/// Petal's header, after all refusals; none where something else may be overwritten.
fn header_there(shared: &Shared, there: &TargetFile) -> Result<Option<TargetHeader>> {
    occupied::refuse_in_use(there, &shared.roots)?;
    let found = there.content()?;
    shared.refuse_foreign(there, &found)?;
    let Some(header) = found.petals() else { return Ok(None) };
    if !header.schemas.is_empty() {
        let numbers: Vec<String> =
            header.schemas.iter().map(|area| area.number.to_string()).collect();
        let found = format!("it bears petal's data (schema {})", numbers.join(", "));
        let given_up = shared.destroy_data.as_deref();
        safety::refuse_foreign(&shared.path, &shared.url_path, &found, given_up)?;
        return Ok(None);
    }
    // A stretch that was cut off is not there.
    let bytes = there.bytes()?;
    let is_whole = |filled: &u64| HEADER_BYTES + filled <= bytes;
    let gauge_bytes = header.gauge_bytes.filter(is_whole);
    Ok(Some(TargetHeader { gauge_bytes, ..header }))
}

/// Bytes to measure on.
fn stretch(
    shared: &Shared,
    there: Option<&TargetFile>,
    wanted: &WantedStretch,
    filled_bytes: u64,
    progress: &dyn Progress,
) -> Result<u64> {
    let cache = wanted.storage_cache.unwrap_or(0);
    let path = shared.path.display();
    if let Some(bytes) = wanted.bytes {
        if bytes < BYTES_MIN {
            return Err(EngineError::Setting(format!(
                "--size {}: it must be at least {}",
                format_bytes(bytes),
                format_bytes(BYTES_MIN)
            )));
        }
        let bytes = bytes.next_multiple_of(u64::from(LARGE_BYTES));
        if bytes <= cache {
            return Err(EngineError::Setting(format!(
                "--size {}: it must exceed STORAGE_CACHE ({}), or the cache is measured; give \
                 several times as much",
                format_bytes(bytes),
                format_bytes(cache)
            )));
        }
        return Ok(bytes);
    }
    if filled_bytes > cache {
        return Ok(filled_bytes);
    }
    let best = BYTES_DEFAULT.max(cache.saturating_mul(CACHES));
    let most = room(&shared.path, there)? / u64::from(LARGE_BYTES) * u64::from(LARGE_BYTES);
    let bytes = best.min(most);
    if bytes < BYTES_MIN || bytes <= cache {
        return Err(EngineError::Environment(format!(
            "{path}: {} may be used there (half of what is free), which is too little{}; make \
             room, name another place, or give --size",
            format_bytes(most),
            if cache > 0 { " beside STORAGE_CACHE" } else { "" }
        )));
    }
    if bytes < best {
        progress.note(&format!(
            "{path}: measuring on {} only: there is not room for {}",
            format_bytes(bytes),
            format_bytes(best)
        ));
    }
    Ok(bytes)
}

/// The most bytes to take: all of a block device, half of what is free of a file system.
fn room(path: &Path, there: Option<&TargetFile>) -> Result<u64> {
    if let Some(device) = there.filter(|there| there.kind == TargetKind::BlockDevice) {
        return Ok(device.bytes()?.saturating_sub(HEADER_BYTES));
    }
    let folder = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = folder.parent().unwrap_or(&folder);
    let about = rustix::fs::statvfs(folder).on(folder)?;
    Ok(about.f_bavail.saturating_mul(about.f_frsize) / 2)
}

impl CalibrationTarget {
    pub fn path(&self) -> &Path {
        &self.target.path
    }

    /// Bytes that requests go to.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_block_device(&self) -> bool {
        self.target.kind == TargetKind::BlockDevice
    }

    pub fn direct_io(&self) -> &DirectIo {
        &self.target.direct
    }

    /// The way in which requests reach the kernel, in words.
    pub fn requests_by(&self) -> String {
        self.backend.words()
    }

    /// Writes the whole stretch.
    fn fill(&self, progress: &dyn Progress, stop: &Stop) -> Result<()> {
        progress.phase("filling", self.bytes, ProgressUnit::Bytes);
        let filling = Filling {
            target: &self.target,
            backend: self.backend.clone(),
            threads: 1,
            depth: LARGE_DEPTH,
            piece_bytes: LARGE_BYTES as usize,
            progress,
            stop,
        };
        filling.write(self.bytes / u64::from(LARGE_BYTES), &|number, memory| {
            block::noise(memory, number, mix(number));
            let offset = HEADER_BYTES + number * u64::from(LARGE_BYTES);
            FilledPiece { offset, bytes: LARGE_BYTES }
        })?;
        self.sync()
    }

    /// Makes what was written durable: who wrote it pays for it.
    pub fn sync(&self) -> Result<()> {
        self.target.file.sync_data().map_err(|error| self.failed(&error))
    }

    /// A queue for this thread.
    pub(super) fn queue(&self, slots: Vec<AlignedBuffer>) -> io::Result<RequestQueue> {
        RequestQueue::new(&self.backend, &self.target.file, slots)
    }

    pub(super) fn failed(&self, error: &io::Error) -> EngineError {
        unusable(&self.target.path, error)
    }
}

impl Drop for CalibrationTarget {
    fn drop(&mut self) {
        if self.removed_at_end {
            let _ = self.target.there.remove();
        }
    }
}
