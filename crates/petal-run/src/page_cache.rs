//! PAGE_CACHE_LIMIT: petal locks memory until about this much is left for the page cache, so that
//! the reads of a server on this host, which use the page cache, become physical. A limit on the
//! server's control group does the same and leaves other programs alone: petal locks only if their
//! memory fits, names the size first, and stops if the host lacks memory.
//!
//! The rest is the kernel's MemAvailable: free memory and reclaimable caches. The kernel frees the
//! lock when petal ends, however it ends.

use std::time::{Duration, Instant};

use memmap2::MmapMut;

use super::RunError;
use petal_engine::{EngineError, Progress, ProgressUnit, Stop};
use petal_host::files;
use petal_host::numbers::bytes as size;
use petal_host::os::{MemoryPressure, meminfo_bytes};
use petal_judge::memory::{FULL_PERCENT_MAX, MAJOR_FAULTS_MAX};

/// Memory that is always left: the kernel and the server need room to work.
pub const RESERVE_BYTES: u64 = 512 << 20;
/// Additional memory for petal itself, if a control group limits it.
const PETAL_BYTES: u64 = 256 << 20;
/// Bytes locked at a time, so that progress is visible and a signal is handled.
const CHUNK_BYTES: u64 = 128 << 20;
/// Time over which the pressure on memory is judged.
const PRESSURE_TIME: Duration = Duration::from_secs(1);

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

/// The memory of a host, and the claims on it, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostMemory {
    /// None if /proc/meminfo does not say.
    pub available: Option<u64>,
    /// Remaining limit of petal's control group, if it has one.
    pub group_room: Option<u64>,
    /// Files that programs have in memory, such as themselves.
    mapped: u64,
    /// Cache of the server that it has not used yet.
    unclaimed: u64,
}

impl HostMemory {
    /// Reads the memory of this host, with a server that may use so much cache.
    pub fn read(cache_bytes: Option<u64>, group_room: Option<u64>) -> Self {
        let meminfo = files::system_text("/proc/meminfo").unwrap_or_default();
        let of = |key: &str| meminfo_bytes(&meminfo, key);
        let shared = of("Shmem").unwrap_or(0);
        let in_use = shared.saturating_add(of("AnonPages").unwrap_or(0));
        Self {
            available: of("MemAvailable"),
            group_room,
            mapped: of("Mapped").unwrap_or(0).saturating_sub(shared),
            unclaimed: cache_bytes.unwrap_or(0).saturating_sub(in_use),
        }
    }

    /// The least limit in which the memory of others fits.
    fn needed(self) -> u64 {
        RESERVE_BYTES.saturating_add(self.mapped).saturating_add(self.unclaimed)
    }
}

/// Locks memory until about `limit_bytes` are available. Locks nothing if less is available already.
/// `otherwise` is the command that limits the server's page cache alone.
pub fn limit(
    limit_bytes: u64,
    memory: HostMemory,
    otherwise: Option<&str>,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<LockedMemory, RunError> {
    let needed = bytes_to_lock(limit_bytes, memory, otherwise)?;
    let mut locked = LockedMemory::default();
    if needed == 0 {
        return Ok(locked);
    }
    progress.note(&format!(
        "PAGE_CACHE_LIMIT={} locks {} of this host's memory until the run ends{}",
        size(limit_bytes),
        size(needed),
        instead(otherwise)
    ));
    progress.phase("locking memory", needed, ProgressUnit::Bytes);
    let mut pressure = PressureWatch::begin();
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
        if pressure.is_high() == Some(true) {
            return Err(RunError::Environment(format!(
                "PAGE_CACHE_LIMIT={}: with {} locked, programs on this host waited for their own \
                 pages; petal freed it; give a larger limit{}",
                size(limit_bytes),
                size(locked.bytes()),
                instead(otherwise)
            )));
        }
    }
    Ok(locked)
}

/// Pressure on the host's memory, judged about once a second.
pub struct PressureWatch {
    since: Instant,
    then: MemoryPressure,
}

impl PressureWatch {
    pub fn begin() -> Self {
        Self { since: Instant::now(), then: MemoryPressure::read() }
    }

    /// Whether programs lacked memory since the last judged second; None until a second has passed.
    pub fn is_high(&mut self) -> Option<bool> {
        let seconds = self.since.elapsed().as_secs_f64();
        if seconds < PRESSURE_TIME.as_secs_f64() {
            return None;
        }
        let now = MemoryPressure::read();
        let (full, faults) = now.since(self.then, seconds);
        *self = Self { since: Instant::now(), then: now };
        Some(faults >= MAJOR_FAULTS_MAX && full.is_none_or(|full| full > FULL_PERCENT_MAX))
    }
}

fn instead(command: Option<&str>) -> String {
    command.map_or_else(String::new, |command| {
        format!("; better, limit the server's control group alone: {command}")
    })
}

/// Returns the bytes to lock so that `limit_bytes` of the available memory are left.
fn bytes_to_lock(
    limit_bytes: u64,
    memory: HostMemory,
    otherwise: Option<&str>,
) -> Result<u64, RunError> {
    let asked = size(limit_bytes);
    if limit_bytes < RESERVE_BYTES {
        return Err(RunError::Setting(format!(
            "PAGE_CACHE_LIMIT={asked}: give at least {}",
            size(RESERVE_BYTES)
        )));
    }
    let Some(available) = memory.available else {
        return Err(RunError::Environment(format!(
            "PAGE_CACHE_LIMIT={asked}: cannot read MemAvailable from /proc/meminfo"
        )));
    };
    let to_lock = available.saturating_sub(limit_bytes);
    if to_lock == 0 {
        return Ok(0);
    }
    if limit_bytes < memory.needed() {
        return Err(RunError::Environment(format!(
            "PAGE_CACHE_LIMIT={asked}: {} would be locked, and the rest is too small for others: \
             {} of programs' files, and {} of the server's cache that it has not used yet; \
             give at least {}{}",
            size(to_lock),
            size(memory.mapped),
            size(memory.unclaimed),
            size(memory.needed()),
            instead(otherwise)
        )));
    }
    match memory.group_room {
        Some(allowed) if to_lock.saturating_add(PETAL_BYTES) > allowed => {
            Err(RunError::Environment(format!(
                "PAGE_CACHE_LIMIT: petal's control group allows {} more, of which petal itself needs \
                 some, and {} would have to be locked; run petal outside of it{}",
                size(allowed),
                size(to_lock),
                instead(otherwise)
            )))
        }
        _ => Ok(to_lock),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::Silent;
    use proptest::prelude::*;

    fn host(available: u64, group_room: Option<u64>) -> HostMemory {
        HostMemory { available: Some(available), group_room, ..HostMemory::default() }
    }

    proptest! {
        #[test]
        fn the_unlocked_rest_is_the_limit_or_all_memory(limit in 0u64..1 << 40, available in 0u64..1 << 40) {
            match bytes_to_lock(limit, host(available, None), None) {
                Ok(locked) => prop_assert_eq!(available - locked, available.min(limit)),
                Err(_) => prop_assert!(limit < RESERVE_BYTES),
            }
        }

        #[test]
        fn memory_is_locked_only_if_the_rest_holds_what_others_use(
            limit in RESERVE_BYTES..1 << 36,
            mapped in 0u64..1 << 35,
            unclaimed in 0u64..1 << 35,
        ) {
            let memory = HostMemory { mapped, unclaimed, ..host(1 << 40, None) };
            let fits = limit >= RESERVE_BYTES + mapped + unclaimed;
            prop_assert_eq!(bytes_to_lock(limit, memory, None).is_ok(), fits);
            // Nothing is locked, so that nothing needs to fit.
            let small = HostMemory { available: Some(limit), ..memory };
            prop_assert_eq!(bytes_to_lock(limit, small, None).unwrap(), 0);
        }
    }

    #[test]
    fn limits_that_cannot_be_kept_are_refused() {
        let text = |result: Result<u64, RunError>| result.unwrap_err().to_string();
        let small = bytes_to_lock(RESERVE_BYTES - 1, host(1 << 40, None), None);
        assert!(text(small).ends_with("give at least 512 MiB"));
        let unknown = HostMemory::default();
        assert!(text(bytes_to_lock(1 << 30, unknown, None)).contains("/proc/meminfo"));
        let small_group = text(bytes_to_lock(1 << 30, host(8 << 30, Some(2 << 30)), None));
        assert!(
            small_group.contains("7.00 GiB") && small_group.contains("2.00 GiB"),
            "{small_group}"
        );
        // Only if petal itself is not killed for lack of memory.
        let just = host(2 << 30, Some((1 << 30) + PETAL_BYTES));
        assert!(bytes_to_lock(1 << 30, just, None).is_ok());
        assert!(bytes_to_lock(1 << 30, host(2 << 30, Some(1 << 30)), None).is_err());
        assert!(bytes_to_lock(2 << 30, host(1 << 30, Some(0)), None).is_ok(), "nothing is locked");
        let busy = HostMemory { mapped: 1 << 30, ..host(8 << 30, None) };
        let refused = text(bytes_to_lock(1 << 30, busy, Some("echo 1G > FILE")));
        for words in ["7.00 GiB would be locked", "1.00 GiB of programs' files", "1.50 GiB"] {
            assert!(refused.contains(words), "{refused}");
        }
        assert!(refused.ends_with("the server's control group alone: echo 1G > FILE"), "{refused}");
    }

    #[test]
    fn memory_is_really_locked_and_freed() {
        let memory = HostMemory { mapped: 0, ..HostMemory::read(None, None) };
        let (wanted, stop) = (48 << 20, Stop::unlimited(Default::default()));
        let before = locked_kib();
        let left = memory.available.unwrap() - wanted;
        let locked = limit(left, memory, None, &Silent, &stop).unwrap();
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
