//! Describes the target before a run.

use super::Shared;
use super::files;
use super::io::Event;
use super::layout::{self, BACKGROUND_JOBS, FILE_BYTES, WRITE_BUFFER_BYTES};
use super::library;
use petal_engine::keyed::meta::KeyedMeta;
use petal_engine::server::failure::none_loaded;
use petal_engine::{EngineError, LoadPlan, Needs, Result};
use petal_model::settings::table::support;
use petal_model::stats::devices;
use petal_model::stats::target::{Durability, IoEvents, Target, TargetDetails};

/// Describes the databases of `metas`, which must be the run's.
pub fn describe(shared: &Shared, metas: &[KeyedMeta]) -> Result<(Target, TargetDetails)> {
    let otherwise = " or name the folder that has some (--db rocksdb:DIR)";
    let none = || none_loaded(shared.folder.path().display(), otherwise);
    let first = metas.first().ok_or_else(none)?;
    let path = shared.folder.file(first.about.schema);
    let direct_io = shared.direct_io(&path)?;
    let target = Target {
        product: support::ROCKSDB.product.to_owned(),
        version: library::version().map_err(EngineError::Environment)?,
        block_size: first.block_bytes(),
        cache_bytes: Some(shared.cache_bytes * metas.len() as u64),
        url: shared.url.clone(),
    };
    let on_off = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
    let settings = [
        ("sync of the log at commit", on_off(true)),
        ("use_direct_reads", on_off(direct_io.used)),
        ("use_direct_io_for_flush_and_compaction", on_off(direct_io.used)),
        ("compression", "kNoCompression".to_owned()),
        ("block_align", on_off(true)),
        ("block_cache", format!("{} bytes per database", shared.cache_bytes)),
        ("write_buffer_size", WRITE_BUFFER_BYTES.to_string()),
        ("filter_policy", "bloomfilter:10".to_owned()),
        ("filler", first.about.filler.name()),
    ];
    let folder = |meta: &KeyedMeta| {
        files::folder_of(&shared.folder.file(meta.about.schema), &meta.about.load)
    };
    let column_bytes = layout::column_bytes(first.about.block_bytes);
    let details = TargetDetails {
        local: true,
        in_process: true,
        settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
        data_files: metas.iter().map(folder).collect(),
        clock_resolution_ns: 1,
        compression_ratio: first.about.compression_ratio(column_bytes),
        direct_io: Some(direct_io),
        durability: Some(devices::durability_on(
            &path,
            Durability { durable: true, setting: "WriteOptions::sync on".to_owned() },
        )),
        io_events: IoEvents {
            read: Event::BlockRead.name().to_owned(),
            write: String::new(),
            log: Event::Commit.name().to_owned(),
            timed_by: "RocksDB's PerfContext; commits by petal".to_owned(),
        },
        checkpoint: Some(
            "none: memtables are flushed and files compacted in the background".to_owned(),
        ),
        ..TargetDetails::default()
    };
    Ok((target, details))
}

/// Log, locks and other files of a database, next to those of its data.
const OTHER_FILES: u64 = 16;

/// Files, memory and threads of the databases.
pub fn needs(shared: &Shared, metas: &[KeyedMeta]) -> Needs {
    let data =
        |meta: &KeyedMeta| (meta.main_bytes + meta.scan_bytes) / FILE_BYTES * 2 + OTHER_FILES;
    let memory_bytes = shared.cache_bytes + 2 * WRITE_BUFFER_BYTES;
    Needs {
        files: metas.iter().map(data).sum(),
        memory_bytes: memory_bytes * metas.len() as u64,
        threads: 2 * BACKGROUND_JOBS,
    }
}

/// Files, memory and threads of the loaders, and the locks on files that are loaded over.
pub fn load_needs(plan: &LoadPlan) -> Needs {
    let (loaders, schemas) = (plan.loaders() as u64, plan.schemas.len() as u64);
    let bytes = (plan.rows + plan.scan_rows).saturating_mul(u64::from(plan.block_size));
    let locks = if plan.replace { schemas } else { 0 };
    Needs {
        files: loaders * (bytes / FILE_BYTES * 2 + OTHER_FILES) + locks,
        memory_bytes: loaders * 2 * WRITE_BUFFER_BYTES,
        threads: 2 * BACKGROUND_JOBS,
    }
}
