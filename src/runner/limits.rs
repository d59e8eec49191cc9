//! What a run needs of petal's own process, and what the system allows it: open files and memory.
//! Too little of either is told before anything is connected.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::RunError;
use super::job::Job;
use crate::engine::{EngineError, Needs};
use crate::stats::cgroup::Groups;
use crate::stats::devices::Roots;
use crate::stats::os::Memory;
use crate::stats::units::bytes;

/// What every run opens: its record, the host's counters, a library's own.
const FILES_OF_A_RUN: u64 = 64;
/// Stack and bookkeeping of a session, at least.
const BYTES_PER_SESSION: u64 = 64 << 10;

/// What the system allows petal.
struct Allowed {
    /// None: no limit.
    files: Option<u64>,
    /// None: unknown.
    memory_bytes: Option<u64>,
}

/// Raises the limit of open files as far as it goes, and refuses a run that needs more, or more
/// memory than is available.
pub fn check(job: &Job<'_>) -> Result<(), RunError> {
    let sessions = job.seats.len() as u64;
    let mut needs = job.engine.needs(&job.seats, job.workload.schemas)?;
    needs.files += FILES_OF_A_RUN;
    needs.memory_bytes = needs.memory_bytes.saturating_add(sessions * BYTES_PER_SESSION);
    let group_bytes = Groups::of(&Roots::default(), "self").memory_room();
    let host_bytes = Memory::read().available_bytes;
    let allowed = Allowed {
        files: raise_file_limit(),
        memory_bytes: host_bytes.into_iter().chain(group_bytes).min(),
    };
    match refusal(sessions, needs, &allowed) {
        Some(text) => Err(EngineError::Environment(text).into()),
        None => Ok(()),
    }
}

fn refusal(sessions: u64, needs: Needs, allowed: &Allowed) -> Option<String> {
    let Needs { files, memory_bytes } = needs;
    if let Some(limit) = allowed.files.filter(|limit| files > *limit) {
        return Some(format!(
            "the limit of open files (ulimit -n) is {limit}, and {sessions} sessions need about \
             {files}: raise it (ulimit -Hn {files}; LimitNOFILE= of a service), or use fewer sessions"
        ));
    }
    let available = allowed.memory_bytes.filter(|available| memory_bytes > *available)?;
    Some(format!(
        "{sessions} sessions need at least {} of memory for their caches and buffers, and {} is \
         available: use fewer sessions, a smaller cache or a lower IO_DEPTH",
        bytes(memory_bytes),
        bytes(available)
    ))
}

/// The limit that a shell sets is often 1024, the allowed one higher.
fn raise_file_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_is_named_with_how_much_is_needed() {
        let needs = Needs { files: 464, memory_bytes: 3 << 30 };
        let allowed = |files, memory_bytes| Allowed { files, memory_bytes };
        assert_eq!(refusal(200, needs, &allowed(Some(464), Some(3 << 30))), None);
        assert_eq!(refusal(200, needs, &allowed(None, None)), None);
        insta::assert_snapshot!(
            refusal(200, needs, &allowed(Some(256), None)).unwrap(),
            @"the limit of open files (ulimit -n) is 256, and 200 sessions need about 464: raise it (ulimit -Hn 464; LimitNOFILE= of a service), or use fewer sessions"
        );
        insta::assert_snapshot!(
            refusal(200, needs, &allowed(None, Some(1 << 30))).unwrap(),
            @"200 sessions need at least 3.00 GiB of memory for their caches and buffers, and 1.00 GiB is available: use fewer sessions, a smaller cache or a lower IO_DEPTH"
        );
    }
}
