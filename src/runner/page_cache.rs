//! PAGE_CACHE_LIMIT: petal locks memory until about this much is left for the page cache, so that
//! the reads of a server on this host, which use the page cache, become physical.
//!
//! The rest is the kernel's MemAvailable: free memory and reclaimable caches. Memory that others
//! claim later, such as a server's cache that it has not touched yet, comes out of it too. The
//! kernel frees the lock when petal ends, however it ends.

use memmap2::MmapMut;

use super::RunError;
use petal_engine::{EngineError, Progress, ProgressUnit, Stop};
use petal_model::numbers::bytes as size;

/// Memory that is always left: the kernel and the server need room to work.
pub const RESERVE_BYTES: u64 = 512 << 20;
/// Additional memory for petal itself, if a control group limits it.
const PETAL_BYTES: u64 = 256 << 20;
/// Bytes locked at a time, so that progress is visible and a signal is handled.
const CHUNK_BYTES: u64 = 128 << 20;

/// Locked memory, freed on drop.
#[derive(Debug, Default)]
pub struct LockedMemory {
    chunks: Vec<MmapMut>,
}

impl LockedMemory {
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.len() as u64).sum()
    }
}

/// Locks memory until about `limit_bytes` of `available_bytes` are available. Locks nothing if less
/// is available already. `group_bytes` is the remaining limit of petal's control group, if it has
/// one.
pub fn limit(
    limit_bytes: u64,
    available_bytes: Option<u64>,
    group_bytes: Option<u64>,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<LockedMemory, RunError> {
    let needed = bytes_to_lock(limit_bytes, available_bytes, group_bytes)?;
    let mut locked = LockedMemory::default();
    if needed == 0 {
        return Ok(locked);
    }
    progress.phase("locking memory", needed, ProgressUnit::Bytes);
    while locked.bytes() < needed {
        if stop.is_requested() {
            return Err(EngineError::Interrupted.into());
        }
        let bytes = CHUNK_BYTES.min(needed - locked.bytes());
        let chunk = MmapMut::map_anon(bytes as usize)
            .and_then(|chunk| chunk.lock().map(|()| chunk))
            .map_err(|error| {
                RunError::Environment(format!(
                    "PAGE_CACHE_LIMIT: {} could not be locked: {error}; raise the limit of locked \
                     memory (ulimit -l) or run petal as root",
                    size(needed)
                ))
            })?;
        locked.chunks.push(chunk);
        progress.advance(bytes);
    }
    Ok(locked)
}

/// Returns the bytes to lock so that `limit_bytes` of `available_bytes` are left.
fn bytes_to_lock(
    limit_bytes: u64,
    available_bytes: Option<u64>,
    group_bytes: Option<u64>,
) -> Result<u64, RunError> {
    let asked = size(limit_bytes);
    if limit_bytes < RESERVE_BYTES {
        return Err(RunError::Setting(format!(
            "PAGE_CACHE_LIMIT={asked}: less than {} would be left for everything on this host; give \
             at least that",
            size(RESERVE_BYTES)
        )));
    }
    let Some(available) = available_bytes else {
        return Err(RunError::Environment(format!(
            "PAGE_CACHE_LIMIT={asked}: cannot read MemAvailable from /proc/meminfo"
        )));
    };
    let needed = available.saturating_sub(limit_bytes);
    match group_bytes {
        Some(allowed) if needed > 0 && needed.saturating_add(PETAL_BYTES) > allowed => {
            Err(RunError::Environment(format!(
                "PAGE_CACHE_LIMIT: petal's control group allows {} more, of which petal itself needs \
                 some, and {} would have to be locked; run petal outside of it, or put the server \
                 into a group with a memory limit instead",
                size(allowed),
                size(needed)
            )))
        }
        _ => Ok(needed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::Silent;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_unlocked_rest_is_the_limit_or_all_memory(limit in 0u64..1 << 40, available in 0u64..1 << 40) {
            match bytes_to_lock(limit, Some(available), None) {
                Ok(locked) => prop_assert_eq!(available - locked, available.min(limit)),
                Err(_) => prop_assert!(limit < RESERVE_BYTES),
            }
        }
    }

    #[test]
    fn limits_that_cannot_be_kept_are_refused() {
        let text = |result: Result<u64, RunError>| result.unwrap_err().to_string();
        assert!(text(bytes_to_lock(RESERVE_BYTES - 1, Some(1 << 40), None)).contains("512 MiB"));
        assert!(text(bytes_to_lock(1 << 30, None, None)).contains("/proc/meminfo"));
        let small_group = text(bytes_to_lock(1 << 30, Some(8 << 30), Some(2 << 30)));
        // Only if petal itself is not killed for lack of memory.
        assert!(bytes_to_lock(1 << 30, Some(2 << 30), Some((1 << 30) + PETAL_BYTES)).is_ok());
        assert!(bytes_to_lock(1 << 30, Some(2 << 30), Some(1 << 30)).is_err());
        assert!(bytes_to_lock(2 << 30, Some(1 << 30), Some(0)).is_ok(), "nothing is locked");
        assert!(
            small_group.contains("7.00 GiB") && small_group.contains("2.00 GiB"),
            "{small_group}"
        );
    }

    #[test]
    fn memory_is_really_locked_and_freed() {
        let available = petal_model::stats::os::available_bytes().unwrap();
        let (wanted, stop) = (48 << 20, Stop::unlimited(Default::default()));
        let before = locked_kib();
        let locked = limit(available - wanted, Some(available), None, &Silent, &stop).unwrap();
        assert_eq!(locked.bytes(), wanted);
        assert!(locked_kib() >= before + (wanted >> 10), "{} KiB", locked_kib());
        drop(locked);
        assert!(locked_kib() < before + (wanted >> 10));
    }

    fn locked_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmLck:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}
