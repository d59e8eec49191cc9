//! Target opened for a calibration without a database: an area of incompressible bytes, fully
//! written. `measure` does the measuring.
//!
//! The area belongs to petal: a file created here, and removed with the target unless kept; a file
//! from an earlier calibration; or a block device, under the same checks as a load.

use std::fs::File;
use std::io;
use std::path::Path;

use super::filling::{FilledPiece, Filling};
use super::layout::{HEADER_BYTES, TargetHeader};
use super::queue::Backend;
use super::request::RequestQueue;
use super::target::{AlignedBuffer, OpenTarget, TargetFile, TargetKind};
use super::{Device, Shared, block, load, occupied, safety};
use petal_engine::file_set::free_bytes;
use petal_engine::on_path::{OnPath, unusable};
use petal_engine::{EngineError, Progress, ProgressUnit, Result, Stop};
use petal_record::target::DirectIo;
use petal_settings::size::format_bytes;
use petal_settings::table::support;
use petal_workload::scatter::mix;

/// Default size of the area: far larger than the caches of most drives.
const BYTES_DEFAULT: u64 = 8 << 30;
/// Size of the area as a multiple of the storage's cache: three reads in four then miss it.
const CACHES: u64 = 4;
const BYTES_MIN: u64 = 16 << 20;
/// Size of sequential requests, and of those that fill the area.
pub const LARGE_BYTES: u32 = 1 << 20;
pub const LARGE_DEPTH: u32 = 8;
/// Requested size of the area.
#[derive(Debug, Clone, Copy)]
pub struct WantedStretch {
    pub bytes: Option<u64>,
    /// Size of the storage's cache, which the area must exceed.
    pub storage_cache: Option<u64>,
    /// Set if a file created here is kept.
    pub keep: bool,
}

/// An open target with an area that may be read and written.
pub struct CalibrationTarget {
    target: OpenTarget,
    backend: Backend,
    bytes: u64,
    removed_at_end: bool,
}

impl Device {
    /// Opens the target for measuring, and fills the part that was not filled.
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
        let filled_bytes = before.as_ref().and_then(|header| header.calibrated_bytes).unwrap_or(0);
        let left_behind = before.as_ref().is_some_and(|header| header.remove_after_calibration);
        let bytes = stretch(shared, there.as_ref(), wanted, filled_bytes, progress)?;
        // From here on, a created file is removed on any error.
        let mut made = UnfinishedFile(None);
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
            let header = TargetHeader { remove_after_calibration: removed_at_end, ..header };
            load::wipe_end(&target.target)?;
            target.target.write_header(&header)?;
            target.fill(progress, stop)?;
            target
                .target
                .write_header(&TargetHeader { calibrated_bytes: Some(bytes), ..header })?;
        } else if let Some(header) = before.filter(|_| left_behind && wanted.keep) {
            target
                .target
                .write_header(&TargetHeader { remove_after_calibration: false, ..header })?;
        }
        made.0 = None;
        Ok(target)
    }
}

/// Removes a file that was created but not finished.
struct UnfinishedFile(Option<TargetFile>);

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if let Some(made) = &self.0 {
            let _ = made.remove();
        }
    }
}

/// Reads petal's header, after all checks; returns `None` if other data may be overwritten.
fn header_there(shared: &Shared, there: &TargetFile) -> Result<Option<TargetHeader>> {
    occupied::refuse_in_use(there, &shared.roots)?;
    let found = there.content()?;
    shared.refuse_foreign(there, &found)?;
    let Some(header) = found.petals() else { return Ok(None) };
    if !header.schemas.is_empty() {
        let numbers: Vec<String> =
            header.schemas.iter().map(|area| area.number.to_string()).collect();
        let found = format!("it contains petal's data (schema {})", numbers.join(", "));
        let given_up = shared.destroy_data.as_deref();
        safety::refuse_foreign(&shared.path, &shared.url_path, &found, given_up)?;
        return Ok(None);
    }
    // A truncated area counts as missing.
    let bytes = there.bytes()?;
    let is_whole = |filled: &u64| HEADER_BYTES + filled <= bytes;
    let calibrated_bytes = header.calibrated_bytes.filter(is_whole);
    Ok(Some(TargetHeader { calibrated_bytes, ..header }))
}

/// Decides the size of the area.
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
            "{path}: {} may be used there (half of the free space), which is too little{}; make \
             room, name another place, or give --size",
            format_bytes(most),
            if cache > 0 { " for STORAGE_CACHE" } else { "" }
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

/// Returns the maximum size: all of a block device, half of a file system's free space.
fn room(path: &Path, there: Option<&TargetFile>) -> Result<u64> {
    if let Some(device) = there.filter(|there| there.kind == TargetKind::BlockDevice) {
        return Ok(device.bytes()?.saturating_sub(HEADER_BYTES));
    }
    let folder = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = folder.parent().unwrap_or(&folder);
    let about = rustix::fs::statvfs(folder).on(folder)?;
    Ok(free_bytes(&about) / 2)
}

impl CalibrationTarget {
    pub fn path(&self) -> &Path {
        &self.target.path
    }

    /// Size of the area that requests use.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_block_device(&self) -> bool {
        self.target.kind == TargetKind::BlockDevice
    }

    pub fn direct_io(&self) -> &DirectIo {
        &self.target.direct
    }

    /// Describes how requests reach the kernel.
    pub fn requests_by(&self) -> String {
        self.backend.words()
    }

    /// Writes the whole area.
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

    /// Makes the written data durable, so that its cost falls to the writer.
    pub fn sync(&self) -> Result<()> {
        self.target.file.sync_data().map_err(|error| self.failed(&error))
    }

    /// Creates a queue for this thread.
    pub(super) fn queue(&self, slots: Vec<AlignedBuffer>) -> io::Result<Box<dyn RequestQueue>> {
        self.backend.queue(&self.target.file, slots)
    }

    pub(super) fn file(&self) -> &File {
        &self.target.file
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
