//! Describes the target before a run.

use super::Shared;
use super::io::Event;
use super::layout;
use petal_engine::keyed::meta::KeyedMeta;
use petal_engine::server::failure::none_loaded;
use petal_engine::{LoadPlan, Needs, Result};
use petal_record::target::{Durability, IoEvents, Target, TargetDetails};
use petal_settings::table::support;

/// The version of redb that this petal is built with.
const VERSION: &str = "4.6";

/// Describes the files of `metas`, which must be the run's files.
pub fn describe(shared: &Shared, metas: &[KeyedMeta]) -> Result<(Target, TargetDetails)> {
    let otherwise = " or name the folder that has some (--db redb:DIR)";
    let none = || none_loaded(shared.folder.path().display(), otherwise);
    let first = metas.first().ok_or_else(none)?;
    let path = shared.folder.file(first.about.schema);
    let direct_io = shared.folder.direct_io(&path, shared.direct)?;
    let caches = || metas.iter().map(|meta| shared.cache_bytes(meta));
    let target = Target {
        product: support::REDB.product.to_owned(),
        version: VERSION.to_owned(),
        block_size: first.block_bytes(),
        cache_bytes: Some(caches().sum()),
        url: shared.url.clone(),
    };
    let settings = [
        ("durability", "Immediate".to_owned()),
        ("commit", "one phase".to_owned()),
        ("cache size", format!("{} bytes per file", shared.cache_bytes(first))),
        ("direct I/O", if direct_io.used { "on" } else { "off" }.to_owned()),
        ("branch pages", first.branch_pages.to_string()),
        ("filler", first.about.filler.name()),
    ];
    let details = TargetDetails {
        local: true,
        in_process: true,
        settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
        data_files: metas.iter().map(|meta| shared.folder.file(meta.about.schema)).collect(),
        clock_resolution_ns: 1,
        compression_ratio: first
            .about
            .compression_ratio(layout::column_bytes(first.about.block_bytes)),
        direct_io: Some(direct_io),
        durability: Some(petal_record::target::durability_on(
            &path,
            Durability { durable: true, setting: "durability=Immediate".to_owned() },
        )),
        io_events: IoEvents {
            read: Event::PageRead.name().to_owned(),
            write: Event::PageWrite.name().to_owned(),
            log: Event::FileSync.name().to_owned(),
            timed_by: "petal's storage below redb".to_owned(),
        },
        data_file_kind: Some("main".to_owned()),
        ..TargetDetails::default()
    };
    Ok((target, details))
}

/// Open files of each database: direct, through the page cache, and one to look at it.
const FILES_PER_SCHEMA: u64 = 3;

/// Files and memory of the databases. A cache holds no more than there is.
pub fn needs(shared: &Shared, metas: &[KeyedMeta]) -> Needs {
    let cache = |meta: &KeyedMeta| shared.cache_bytes(meta).min(meta.main_bytes + meta.scan_bytes);
    Needs {
        files: metas.len() as u64 * FILES_PER_SCHEMA,
        memory_bytes: metas.iter().map(cache).sum(),
        ..Needs::default()
    }
}

/// Files of the loaders, and the locks on files that are loaded over.
pub fn load_needs(plan: &LoadPlan) -> Needs {
    let (loaders, schemas) = (plan.loaders() as u64, plan.schemas.len() as u64);
    let locks = if plan.replace { schemas } else { 0 };
    Needs { files: loaders * FILES_PER_SCHEMA + locks, ..Needs::default() }
}
