//! Describes the target before a run.

use super::Shared;
use super::io::Event;
use super::layout::{self, PAGE_BYTES};
use petal_engine::keyed::meta::KeyedMeta;
use petal_engine::server::failure::none_loaded;
use petal_engine::{LoadPlan, Needs, Result};
use petal_record::target::{Durability, IoEvents, Target, TargetDetails};
use petal_settings::table::support;

/// Describes the files of `metas`, which must be the run's files.
pub fn describe(shared: &Shared, metas: &[KeyedMeta]) -> Result<(Target, TargetDetails)> {
    let otherwise = " or name the folder that has some (--db lmdb:DIR)";
    let none = || none_loaded(shared.folder.path().display(), otherwise);
    let first = metas.first().ok_or_else(none)?;
    let path = shared.folder.file(first.about.schema);
    let target = Target {
        product: support::LMDB.product.to_owned(),
        version: version(),
        block_size: first.block_bytes(),
        cache_bytes: None,
        url: shared.url.clone(),
    };
    let column_bytes = layout::column_bytes(first.about.block_bytes);
    let pages = if shared.keeps_pages { "kept" } else { "dropped after each visit" };
    let settings = [
        ("MDB_NOSYNC", "off".to_owned()),
        ("MDB_NORDAHEAD", "on".to_owned()),
        ("MDB_WRITEMAP", "off".to_owned()),
        ("rows in the page cache", pages.to_owned()),
        ("tree pages", first.branch_pages.to_string()),
        ("filler", first.about.filler.name()),
    ];
    let details = TargetDetails {
        local: true,
        in_process: true,
        reads_by_faults: true,
        settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
        data_files: metas.iter().map(|meta| shared.folder.file(meta.about.schema)).collect(),
        clock_resolution_ns: 1,
        compression_ratio: first.about.compression_ratio(column_bytes),
        durability: Some(petal_record::target::durability_on(
            &path,
            Durability { durable: true, setting: "MDB_NOSYNC off".to_owned() },
        )),
        io_events: IoEvents {
            read: Event::RowFault.name().to_owned(),
            write: String::new(),
            log: Event::Commit.name().to_owned(),
            timed_by: "petal, at the first touch of a page that is not in memory".to_owned(),
        },
        data_file_kind: Some("main".to_owned()),
        ..TargetDetails::default()
    };
    Ok((target, details))
}

/// The version of LMDB that this petal is built with.
fn version() -> String {
    let version = heed::lmdb_version();
    format!("{}.{}.{}", version.major, version.minor, version.patch)
}

/// Open files of each database: LMDB's data twice, its locks, petal's copy, and one to look at it.
const FILES_PER_SCHEMA: u64 = 5;

/// Files of the databases. Their pages are in the page cache.
pub fn needs(metas: &[KeyedMeta]) -> Needs {
    Needs { files: metas.len() as u64 * FILES_PER_SCHEMA, ..Needs::default() }
}

/// Files and memory of the loaders, and the locks on files that are loaded over.
pub fn load_needs(plan: &LoadPlan) -> Needs {
    let (loaders, schemas) = (plan.loaders() as u64, plan.schemas.len() as u64);
    let locks = if plan.replace { schemas } else { 0 };
    Needs {
        files: loaders * FILES_PER_SCHEMA + locks,
        memory_bytes: loaders * super::load::ROWS_PER_COMMIT * PAGE_BYTES,
        ..Needs::default()
    }
}
