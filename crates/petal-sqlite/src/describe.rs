//! Describes the target before a run.

use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::Shared;
use super::io::Event;
use super::load::loader_bytes;
use super::meta::FileMeta;
use super::{advice, direct, plan};
use petal_engine::on_path::OnPath;
use petal_engine::server::failure::none_loaded;
use petal_engine::{LoadPlan, Needs, Result};
use petal_host::numbers::whole;
use petal_record::target::{DirectIo, Durability, IoEvents, Target, TargetDetails};
use petal_settings::size::format_bytes;
use petal_settings::table::support;
use petal_workload::compression;

/// Describes the files of `metas`, which must be the run's files.
pub fn describe(
    shared: &Shared,
    metas: &[FileMeta],
    sessions: u32,
) -> Result<(Target, TargetDetails)> {
    let otherwise = " or name the folder that has some (--db sqlite:DIR)";
    let none = || none_loaded(shared.folder.path().display(), otherwise);
    let first = metas.first().ok_or_else(none)?;
    let path = shared.folder.file(first.about.schema);
    let direct_io = direct_io(shared, &path)?;
    let synchronous = shared.options.synchronous;
    let target = Target {
        product: support::SQLITE.product.to_owned(),
        version: rusqlite::version().to_owned(),
        block_size: first.block_bytes(),
        cache_bytes: Some(sum_of_connections(shared, metas, sessions, &|meta| {
            cache_bytes_of(shared, meta)
        })),
        url: shared.url.clone(),
    };
    let details = TargetDetails {
        local: true,
        in_process: true,
        session_cache_bytes: metas.iter().map(|meta| cache_bytes_of(shared, meta)).min(),
        settings: settings(shared, first, &direct_io),
        data_files: metas.iter().map(|meta| shared.folder.file(meta.about.schema)).collect(),
        // Every file but the main ones.
        log_files: vec![shared.folder.path().to_owned()],
        clock_resolution_ns: 1,
        plan: plan::check(&shared.folder, metas.iter().map(|meta| meta.about.schema))?,
        compression_ratio: compression::ratio(&sample_blocks(&path, first)),
        direct_io: Some(direct_io),
        durability: Some(petal_record::target::durability_on(
            &path,
            Durability {
                durable: synchronous.is_durable(),
                setting: format!("synchronous={}", synchronous.name()),
            },
        )),
        io_events: IoEvents {
            read: Event::MainRead.name().to_owned(),
            write: Event::CheckpointWrite.name().to_owned(),
            log: Event::WalSync.name().to_owned(),
            timed_by: "petal's VFS shim".to_owned(),
        },
        data_file_kind: Some("main".to_owned()),
        advice: advice::advice(),
        checkpoint: Some(format!(
            "by petal, on separate threads, when a WAL reaches {}: PASSIVE, then RESTART",
            format_bytes(shared.options.checkpoint_bytes)
        )),
        ..TargetDetails::default()
    };
    Ok((target, details))
}

/// Open files of each connection: the database file and its WAL.
const FILES_PER_CONNECTION: u64 = 2;
/// Open files of each schema: direct, buffered and shared memory, and a checkpointer's connection.
const FILES_PER_SCHEMA: u64 = 5;
/// Open files of each loader: database file, folder, and the sorter's temporary files.
const FILES_PER_LOADER: u64 = 5;

/// Files and memory of the sessions' connections. A cache holds no more than there is.
pub fn needs(shared: &Shared, metas: &[FileMeta], sessions: u32) -> Needs {
    let connections = sum_of_connections(shared, metas, sessions, &|_| 1);
    let cache =
        |meta: &FileMeta| cache_bytes_of(shared, meta).min(meta.loaded().bytes.unwrap_or(u64::MAX));
    Needs {
        files: connections * FILES_PER_CONNECTION + metas.len() as u64 * FILES_PER_SCHEMA,
        memory_bytes: sum_of_connections(shared, metas, sessions, &cache),
        threads: std::thread::available_parallelism().map_or(1, usize::from) as u64,
    }
}

/// Files and caches of the loaders' connections, and the locks on files that are loaded over.
pub fn load_needs(plan: &LoadPlan) -> Needs {
    let (loaders, schemas) = (plan.loaders() as u64, plan.schemas.len() as u64);
    let locks = if plan.replace { schemas } else { 0 };
    Needs {
        files: loaders * FILES_PER_LOADER + locks,
        memory_bytes: loaders * loader_bytes(plan),
        threads: 0,
    }
}

fn cache_bytes_of(shared: &Shared, meta: &FileMeta) -> u64 {
    shared.cache_pages(meta) * meta.block_bytes()
}

/// Adds up a figure of all connections. A session has a connection to each schema that it visits: its
/// home, its share of the schemas if there are fewer sessions, and a hot schema.
fn sum_of_connections(
    shared: &Shared,
    metas: &[FileMeta],
    sessions: u32,
    of: &dyn Fn(&FileMeta) -> u64,
) -> u64 {
    let connections = metas.len().max(sessions as usize);
    let homes: u64 = metas.iter().cycle().take(connections).map(of).sum();
    let hot = if shared.hot_schema {
        let guests = (0..sessions as usize).filter(|session| session % metas.len() != 0).count();
        guests as u64 * metas.first().map_or(0, of)
    } else {
        0
    };
    homes + hot
}

fn direct_io(shared: &Shared, path: &Path) -> Result<DirectIo> {
    if !shared.direct {
        return Ok(DirectIo::default());
    }
    let found = direct::direct(path).on(path)?;
    Ok(DirectIo { asked: true, used: found.is_ok(), reason: found.err() })
}

fn settings(shared: &Shared, meta: &FileMeta, direct_io: &DirectIo) -> Vec<(String, String)> {
    let pages = shared.cache_pages(meta);
    let bytes = pages * meta.block_bytes();
    [
        ("journal_mode", "wal".to_owned()),
        ("synchronous", shared.options.synchronous.name().to_owned()),
        ("page_size", meta.about.block_bytes.to_string()),
        ("cache_size", format!("{} pages ({} bytes) per session", whole(pages), whole(bytes))),
        ("wal_autocheckpoint", "0 (petal checkpoints)".to_owned()),
        ("checkpoint", format_bytes(shared.options.checkpoint_bytes)),
        ("mmap_size", "0".to_owned()),
        ("locking_mode", "NORMAL".to_owned()),
        ("direct I/O on main files", if direct_io.used { "on" } else { "off" }.to_owned()),
        ("index", format!("{} pages, interior {}", meta.index_pages, meta.interior_pages)),
        ("filler", meta.about.filler.name()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

const SAMPLES: u64 = 64;
/// First byte of a leaf page of a table (<https://sqlite.org/fileformat2.html>, section 1.6).
const TABLE_LEAF: u8 = 0x0D;

/// Leaf pages spread over the main table, which comes first in the file, as far as readable.
fn sample_blocks(path: &Path, meta: &FileMeta) -> Vec<Vec<u8>> {
    let Ok(file) = direct::buffered(path) else { return Vec::new() };
    let block = meta.block_bytes();
    let step = (meta.main_pages / SAMPLES).max(1);
    (0..meta.main_pages)
        .step_by(step as usize)
        .filter_map(|page| {
            let mut bytes = vec![0; meta.about.block_bytes as usize];
            file.read_exact_at(&mut bytes, page * block).ok()?;
            (bytes.first() == Some(&TABLE_LEAF)).then_some(bytes)
        })
        .collect()
}
