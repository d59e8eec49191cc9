//! Loading: writes every block and the log in large direct requests, several at once, makes them
//! durable, reads them back and proves them. Only then does the header name a schema. An
//! interrupted load leaves petal's mark and no schema.

use petal_host::numbers::whole;
use std::fs::File;
use std::time::Instant;

use rand::TryRng as _;

use super::block::Identity;
use super::data::{Area, TargetData};
use super::filling::{FilledPiece, Filling};
use super::layout::{HEADER_BYTES, SchemaArea, TargetHeader};
use super::placement::Proof;
use super::target::{OpenTarget, TargetFile, TargetKind};
use super::{Shared, block, occupied};
use petal_engine::file_set::free_bytes;
use petal_engine::on_path::OnPath;
use petal_engine::server::loader::{self, already_loaded};
use petal_engine::{
    EngineError, LoadPlan, LoadSummary, LoadedSchemaSummary, Needs, Progress, ProgressUnit, Result,
    Stop,
};
use petal_settings::table::support;
use petal_workload::row::load_stamp;
use petal_workload::scatter::Permutation;

/// Bytes of each write.
const CHUNK_BYTES: u64 = 1 << 20;
/// Writes in flight in each loader: the next is prepared while one is being written.
const CHUNKS_IN_FLIGHT: u32 = 2;
/// Single random blocks in flight over all loaders, enough to keep a fast drive busy.
const PRECONDITION_DEPTH: u32 = 64;
/// Distinguishes scan blocks from main blocks of the same number.
const SCAN_STAMP: u64 = 1 << 39;

/// Returns the needs of a load, in which LOAD_PARALLEL_DEGREE threads work on any number of schemas.
pub fn needs(shared: &Shared, plan: &LoadPlan) -> Needs {
    let fillers = u64::from(plan.degree.max(1));
    let threads =
        shared.backend().map_or(0, |backend| backend.threads(CHUNKS_IN_FLIGHT as usize)) as u64;
    Needs {
        files: fillers,
        memory_bytes: fillers * u64::from(CHUNKS_IN_FLIGHT) * CHUNK_BYTES,
        threads: fillers.saturating_sub(plan.loaders() as u64) + fillers * threads,
    }
}

pub struct Loader<'a> {
    pub shared: &'a Shared,
    pub plan: &'a LoadPlan,
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

/// Part of an area that is written at once.
struct Chunk<'a> {
    offset: u64,
    bytes: u64,
    what: What<'a>,
}

enum What<'a> {
    Log,
    /// Blocks of an area from this number on, prepared one by one.
    Blocks(fn(&mut [u8], &Area, u64) -> Identity, &'a Area, u64),
}

impl Loader<'_> {
    pub fn run(&self) -> Result<LoadSummary> {
        let begin = Instant::now();
        let there = self.shared.there()?;
        let is_new = there.is_none();
        let before = self.header_before(there.as_ref())?;
        let new = self.areas(&before)?;
        let after = TargetHeader {
            schemas: before.schemas.iter().chain(&new).cloned().collect(),
            ..before.clone()
        };
        self.shared.forget();
        if is_new {
            self.shared.create()?;
        }
        let loaded = self.fill(&before, &after, &new);
        self.shared.forget();
        if is_new && loaded.is_err() {
            // A file that petal just created and did not finish is of no use.
            let _ = self.shared.there()?.map(|made| made.remove());
            self.shared.forget_all();
        }
        let (schemas, durable) = loaded?;
        Ok(LoadSummary {
            schemas,
            seconds: begin.elapsed().as_secs_f64(),
            durable_seconds: Some((durable - begin).as_secs_f64()),
            afterwards: vec![("proof", durable.elapsed().as_secs_f64())],
        })
    }

    /// Returns the header to which schemas are added, after all checks.
    fn header_before(&self, there: Option<&TargetFile>) -> Result<TargetHeader> {
        let (path, plan) = (&self.shared.path, self.plan);
        loader::check_block_size(&support::DEVICE, plan)?;
        let new = || TargetHeader::new(plan.block_size, self.shared.options.log_bytes);
        let Some(there) = there else { return Ok(new()) };
        occupied::refuse_in_use(there, &self.shared.roots)?;
        let found = there.content()?;
        self.shared.refuse_foreign(there, &found)?;
        let Some(header) = found.petals() else { return Ok(new()) };
        let is_there = |number: &u32| header.schema(*number).is_some();
        if !plan.replace {
            return match plan.schemas.iter().find(|number| is_there(number)) {
                Some(&there) => Err(already_loaded(path.display(), there)),
                None if header.schemas.is_empty() => Ok(new()),
                None if header.block_bytes != plan.block_size => Err(EngineError::Data(format!(
                    "{}: its schemas have blocks of {} bytes, not {}; load with those, or drop the \
                     data first (petal drop)",
                    path.display(),
                    header.block_bytes,
                    plan.block_size
                ))),
                None => self.shared.refuse_cut_off(&header, there.bytes()?).map(|()| header),
            };
        }
        match header.schemas.iter().find(|area| !plan.schemas.contains(&area.number)) {
            None => Ok(new()),
            Some(other) => Err(EngineError::Data(format!(
                "{}: --replace loads the whole target again, and schema {} is there too; name it \
                 too (-s {0}), or drop the data first (petal drop)",
                path.display(),
                other.number
            ))),
        }
    }

    fn areas(&self, before: &TargetHeader) -> Result<Vec<SchemaArea>> {
        let plan = self.plan;
        let mut offset = before.end();
        let mut areas = Vec::new();
        for &number in &plan.schemas {
            let generation = rand::rngs::SysRng.try_next_u64().map_err(|error| {
                EngineError::Environment(format!("the system gives no random number: {error}"))
            })?;
            let about = SchemaArea {
                number,
                rows: plan.rows,
                scan_rows: plan.scan_rows,
                seed: plan.seed,
                generation,
                filler: plan.filler.name(),
                main_offset: 0,
                scan_offset: 0,
            };
            let area = SchemaArea::at(offset, plan.block_size, &about);
            offset = area.end(plan.block_size);
            areas.push(area);
        }
        Ok(areas)
    }

    pub(super) fn fill(
        &self,
        before: &TargetHeader,
        after: &TargetHeader,
        new: &[SchemaArea],
    ) -> Result<(Vec<LoadedSchemaSummary>, Instant)> {
        let begin = Instant::now();
        let target = self.shared.target()?;
        // Only now is it locked: an empty file may have been filled since petal looked.
        self.shared.refuse_foreign(&target.there, &target.there.content()?)?;
        target.mark_new(before)?;
        make_room(&target, after.end())?;
        if before.schemas.is_empty() {
            wipe_end(&target)?;
            target.write_header(before)?;
        }
        let data = TargetData::new(after.clone(), false);
        let chunks = self.chunks(before, new, &data)?;
        let bytes: u64 = chunks.iter().map(|chunk| chunk.bytes).sum();
        self.progress.phase("loading", bytes, ProgressUnit::Bytes);
        self.write_all(&target, &data, &chunks)?;
        self.precondition(&target, &data, new)?;
        target.file.sync_all().on(&target.path)?;
        let durable = Instant::now();
        let seconds = (durable - begin).as_secs_f64() / new.len().max(1) as f64;
        let mut schemas = Vec::new();
        self.progress.phase("proving", new.len() as u64 * self.main_bytes(), ProgressUnit::Bytes);
        for about in new {
            let area = self.area(&data, about)?;
            let (progress, stop) = (self.progress, self.stop);
            let proof = Proof { target: &target, data: &data, area, progress, stop };
            let placement = proof.count(self.plan.degree)?;
            let (place, what) = (target.path.display(), format!("schema {}", about.number));
            let otherwise = "the device does not keep its data";
            let placement = loader::prove(place, &what, placement, about.rows, otherwise)?;
            schemas.push(LoadedSchemaSummary {
                schema: about.loaded(after.block_bytes),
                scan_bytes: Some(about.scan_rows * u64::from(after.block_bytes)),
                seconds,
                placement,
            });
        }
        target.write_header(after)?;
        Ok((schemas, durable))
    }

    fn main_bytes(&self) -> u64 {
        self.plan.rows * u64::from(self.plan.block_size)
    }

    fn area<'a>(&self, data: &'a TargetData, about: &SchemaArea) -> Result<&'a Area> {
        Ok(&data.areas[data.position(about.number, &self.shared.path)?])
    }

    fn chunks<'a>(
        &self,
        before: &TargetHeader,
        new: &[SchemaArea],
        data: &'a TargetData,
    ) -> Result<Vec<Chunk<'a>>> {
        let mut chunks = Vec::new();
        let block_bytes = u64::from(data.header.block_bytes);
        let mut add = |offset: u64, bytes: u64, what: &dyn Fn(u64) -> What<'a>| {
            for from in (0..bytes).step_by(CHUNK_BYTES as usize) {
                let bytes = CHUNK_BYTES.min(bytes - from);
                chunks.push(Chunk { offset: offset + from, bytes, what: what(from / block_bytes) });
            }
        };
        if before.schemas.is_empty() {
            add(before.log_offset(), before.log_bytes, &|_| What::Log);
        }
        for about in new {
            let area = self.area(data, about)?;
            let main = |from| What::Blocks(make_main, area, from);
            add(about.main_offset, about.rows * block_bytes, &main);
            let scan = |from| What::Blocks(make_scan, area, from);
            add(about.scan_offset, about.scan_rows * block_bytes, &scan);
        }
        Ok(chunks)
    }

    fn write_all(
        &self,
        target: &OpenTarget,
        data: &TargetData,
        chunks: &[Chunk<'_>],
    ) -> Result<()> {
        let block_bytes = data.header.block_bytes as usize;
        let filling =
            self.filling(target, self.plan.degree, CHUNKS_IN_FLIGHT, CHUNK_BYTES as usize)?;
        filling.write(chunks.len() as u64, &|number, memory| {
            let chunk = &chunks[number as usize];
            let bytes = &mut memory[..chunk.bytes as usize];
            match chunk.what {
                What::Log => block::noise(bytes, chunk.offset, self.plan.seed ^ chunk.offset),
                What::Blocks(make, area, from) => {
                    for (block, number) in bytes.chunks_exact_mut(block_bytes).zip(from..) {
                        make(block, area, number);
                    }
                }
            }
            FilledPiece { offset: chunk.offset, bytes: chunk.bytes as u32 }
        })
    }

    /// Writes the main blocks again, in random order and one block at a time, until PRECONDITION is
    /// reached.
    fn precondition(
        &self,
        target: &OpenTarget,
        data: &TargetData,
        new: &[SchemaArea],
    ) -> Result<()> {
        let rows = self.plan.rows;
        let blocks = rows * new.len() as u64;
        let block_bytes = data.header.block_bytes;
        let areas: Vec<&Area> =
            new.iter().map(|about| self.area(data, about)).collect::<Result<_>>()?;
        let threads = self.plan.degree.clamp(1, PRECONDITION_DEPTH);
        let depth = PRECONDITION_DEPTH.div_ceil(threads);
        for pass in 1..self.shared.precondition {
            let what = format!("preconditioning, random, pass {} of", pass + 1);
            let what = format!("{what} {}", self.shared.precondition);
            self.progress.phase(&what, blocks * u64::from(block_bytes), ProgressUnit::Bytes);
            let order = Permutation::new(blocks.max(1), self.plan.seed ^ u64::from(pass));
            let filling = self.filling(target, threads, depth, block_bytes as usize)?;
            filling.write(blocks, &|number, memory| {
                let place = order.apply(number);
                let area = areas[(place / rows) as usize];
                let identity = make_main(memory, area, place % rows);
                FilledPiece { offset: identity.address, bytes: block_bytes }
            })?;
        }
        Ok(())
    }

    /// Sets up `depth` pieces in flight in each of `threads`.
    fn filling<'a>(
        &'a self,
        target: &'a OpenTarget,
        threads: u32,
        depth: u32,
        piece_bytes: usize,
    ) -> Result<Filling<'a>> {
        let (progress, stop) = (self.progress, self.stop);
        let backend = self.shared.backend()?;
        Ok(Filling { target, backend, threads, depth, piece_bytes, progress, stop })
    }
}

fn make_main(bytes: &mut [u8], area: &Area, number: u64) -> Identity {
    let identity = area.main_identity(number);
    block::make(bytes, &identity, area.filler, load_stamp(identity.schema, identity.key));
    identity
}

fn make_scan(bytes: &mut [u8], area: &Area, number: u64) -> Identity {
    let identity = area.scan_identity(number);
    let stamp = load_stamp(identity.schema, identity.key | SCAN_STAMP);
    block::make(bytes, &identity, area.filler, stamp);
    identity
}

/// Wipes signatures at the end, too, so that no tool takes the remaining part for a whole volume.
pub fn wipe_end(target: &OpenTarget) -> Result<()> {
    if target.kind == TargetKind::BlockDevice {
        let end = target.bytes.saturating_sub(HEADER_BYTES);
        target.overwrite(end, &vec![0; HEADER_BYTES as usize])?;
    }
    Ok(())
}

/// Checks that a device is large enough; allocates all of a file now, so that no later write fails.
pub fn make_room(target: &OpenTarget, bytes: u64) -> Result<()> {
    if target.kind == TargetKind::BlockDevice {
        if target.bytes >= bytes {
            return Ok(());
        }
        return Err(EngineError::Environment(format!(
            "{}: the load needs {bytes} bytes, it has {}; load less (SCALE, schemas, ?log=SIZE)",
            target.path.display(),
            target.bytes,
            bytes = whole(bytes)
        )));
    }
    let room = rustix::fs::fstatvfs(&*target.file).on(&target.path)?;
    let free_bytes = free_bytes(&room);
    let needed_bytes = bytes.saturating_sub(allocated_bytes(&target.file));
    if needed_bytes > free_bytes {
        return Err(EngineError::Environment(format!(
            "{}: the load needs {needed_bytes} bytes more, {free_bytes} are free there; load less \
             (SCALE, schemas, ?log=SIZE) or onto another file system",
            target.path.display(),
            needed_bytes = whole(needed_bytes),
            free_bytes = whole(free_bytes)
        )));
    }
    // On some file systems a signal may interrupt it; the next step checks for a stop.
    let allocated = rustix::io::retry_on_intr(|| {
        rustix::fs::fallocate(&*target.file, rustix::fs::FallocateFlags::empty(), 0, bytes)
    });
    // Some file systems cannot reserve space; they may fail at a later write.
    if allocated != Err(rustix::io::Errno::OPNOTSUPP) {
        allocated.on(&target.path)?;
    }
    target.file.set_len(bytes).on(&target.path)
}

fn allocated_bytes(file: &File) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    file.metadata().map_or(0, |about| about.blocks() * 512)
}
