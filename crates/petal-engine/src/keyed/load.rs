//! The end of a schema's load.

use std::time::Instant;

use super::folder::KeyedFormat;
use super::meta::KeyedMeta;
use crate::file_set::LoadingFile;
use crate::on_path::OnPath as _;
use crate::server::loader;
use crate::{LoadPlan, LoadedSchemaSummary, Placement, Result};

/// Proves that each row of a filled table has a block, and writes the load's metadata.
pub fn prove<F: KeyedFormat>(
    file: &LoadingFile<'_, F>,
    plan: &LoadPlan,
    meta: &KeyedMeta,
    placement: Placement,
    begin: Instant,
) -> Result<LoadedSchemaSummary> {
    let (path, otherwise) = (&file.path, "please report this with petal's version");
    let placement = loader::prove(path.display(), "cf1", placement, plan.rows, otherwise)?;
    meta.write(F::NOTES, &file.file, plan).and_then(|()| file.file.sync_all()).on(path)?;
    Ok(LoadedSchemaSummary {
        schema: meta.loaded(),
        scan_bytes: Some(meta.scan_bytes),
        seconds: begin.elapsed().as_secs_f64(),
        placement,
    })
}
