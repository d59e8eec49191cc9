//! Room on the file systems of a server on this host. A server without room for its log stops for
//! all users and may not restart, so petal leaves room for the log and for other users' writes.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::{EngineError, LoadPlan, Result, file_set};
use petal_host::numbers::bytes;

/// Free space that petal leaves to the server's other users, its temporary files and its log's
/// peaks.
pub const RESERVE_BYTES: u64 = 256 << 20;
/// An index has about so much of its table's bytes, at the smallest block size that servers have.
const INDEX_SHARE: f64 = 0.01;

/// Space for one purpose in a folder.
pub struct Need {
    pub folder: PathBuf,
    pub what: String,
    pub bytes: u64,
}

impl Need {
    pub fn new(folder: impl Into<PathBuf>, what: impl Into<String>, bytes: u64) -> Self {
        Self { folder: folder.into(), what: what.into(), bytes }
    }
}

/// Tables and index of all schemas of a load.
pub fn data_bytes(plan: &LoadPlan) -> u64 {
    let block_bytes = u64::from(plan.block_size);
    let main_bytes = plan.rows.saturating_mul(block_bytes);
    let index_bytes = (main_bytes as f64 * INDEX_SHARE) as u64;
    let scan_bytes = plan.scan_rows.saturating_mul(block_bytes);
    let schema_bytes = main_bytes.saturating_add(index_bytes).saturating_add(scan_bytes);
    schema_bytes.saturating_mul(plan.schemas.len() as u64)
}

/// Refuses `work`, such as "the load", if a file system has less free than all needs on it
/// together. A folder that is not seen from here is left out.
pub fn check(server: &str, work: &str, needs: &[Need]) -> Result<()> {
    let seen = needs.iter().filter_map(|need| {
        let device = std::fs::metadata(&need.folder).ok()?.dev();
        Some((device, free_bytes(&need.folder)?, need))
    });
    let mut devices: BTreeMap<u64, (u64, Vec<&Need>)> = BTreeMap::new();
    for (device, free, need) in seen {
        devices.entry(device).or_insert((free, Vec::new())).1.push(need);
    }
    for (free, needs) in devices.values() {
        let total = needs.iter().fold(0u64, |sum, need| sum.saturating_add(need.bytes));
        if total <= *free {
            continue;
        }
        let each: Vec<String> =
            needs.iter().map(|need| format!("{} for {}", bytes(need.bytes), need.what)).collect();
        return Err(EngineError::Environment(format!(
            "{server}: {work} needs {} ({}), and {} are free in {}; make room there, use fewer or \
             smaller schemas, or move other files elsewhere",
            bytes(total),
            each.join(", "),
            bytes(*free),
            needs[0].folder.display()
        )));
    }
    Ok(())
}

fn free_bytes(folder: &Path) -> Option<u64> {
    rustix::fs::statvfs(folder).ok().map(|room| file_set::free_bytes(&room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_on_one_file_system_add_up_and_each_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let free = free_bytes(folder.path()).unwrap();
        let needs = |share: u64| {
            [
                Need::new(folder.path(), "data", free / share),
                Need::new(&inner, "the log", free / share),
                Need::new("/no/such/folder", "elsewhere", u64::MAX),
            ]
        };
        assert!(check("db1", "the load", &needs(4)).is_ok());
        let refused = check("db1", "the load", &needs(1)).unwrap_err().to_string();
        for words in ["db1: the load needs ", " for data, ", " for the log), and ", "are free in"] {
            assert!(refused.contains(words), "{refused}");
        }
        let all = [Need::new(folder.path(), "all", u64::MAX), Need::new(&inner, "more", 1)];
        assert!(check("db1", "the load", &all).is_err());
    }
}
