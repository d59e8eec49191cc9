//! Compares the needs of a run or a load with the system's limits for petal's process: open files,
//! threads and memory. A shortage is reported before anything is connected.

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use super::RunError;
use super::job::Job;
use petal_engine::{Engine, EngineError, LoadPlan, Needs, Result, Server};
use petal_host::cgroup::Groups;
use petal_host::devices::Roots;
use petal_host::files;
use petal_host::numbers::{bytes, whole};
use petal_host::os;
use petal_settings::Settings;

/// Files that every run opens: its record, the host's counters, and files of libraries.
const FILES_OF_A_RUN: u64 = 64;
/// Minimum bytes of a session, for stack and bookkeeping.
const BYTES_PER_SESSION: u64 = 64 << 10;
/// Minimum bytes of a loader, for rows in progress.
const BYTES_PER_LOADER: u64 = 4 << 20;
/// Address space of a thread's stack.
const STACK_BYTES: u64 = 2 << 20;
/// Address space that glibc's allocator reserves for the heap of a thread.
const HEAP_BYTES: u64 = if cfg!(target_env = "gnu") { 64 << 20 } else { 0 };
/// Heaps for each processor, at most.
const HEAPS_PER_PROCESSOR: u64 = 8;

/// Threads of the process in addition to those of sessions or loaders.
const THREADS_OF_A_RUN: u64 = 8;

/// Workers that need the resources.
struct Workers {
    count: u64,
    name: &'static str,
    /// Setting to lower instead.
    fewer: &'static str,
}

/// Limits of the system for this process.
struct Allowed {
    /// Limit of open files; `None` means no limit.
    files: Option<u64>,
    /// Lowest limit of threads, and its name; `None` means no limit.
    threads: Option<(u64, String)>,
    /// Least available memory, and what limits it; `None` means unknown.
    memory: Option<(u64, String)>,
    /// Remaining address space; `None` means no limit, or unknown.
    address_bytes: Option<u64>,
    /// Heaps of threads, at most.
    heaps: u64,
}

/// Checks how many sessions the server admits, before any is opened.
pub fn check_admission(
    engine: &dyn Engine,
    settings: &Settings,
    sessions: u32,
) -> Result<(), RunError> {
    match engine.server().map(Server::sessions_max).transpose()?.flatten() {
        Some(most) if sessions > most => Err(RunError::Setting(format!(
            "{sessions} sessions: {} admits {most}; use fewer schemas or threads, or raise its limit",
            settings.db.redacted(),
        ))),
        _ => Ok(()),
    }
}

/// Raises the limit of open files as far as possible, and refuses a run that needs more files,
/// threads or memory than are available.
pub fn check(job: &Job<'_>) -> Result<(), RunError> {
    let sessions = job.seats.len() as u64;
    let needs = job.engine.needs(&job.seats, job.workload.schemas)?;
    let who = Workers { count: sessions, name: "sessions", fewer: "fewer sessions" };
    Ok(refuse(&who, needs)?)
}

/// Does the same for a load.
pub fn check_load(engine: &dyn Engine, plan: &LoadPlan) -> Result<()> {
    let loaders = plan.loaders() as u64;
    let who = Workers { count: loaders, name: "loaders", fewer: "a lower LOAD_PARALLEL_DEGREE" };
    let mut needs = engine.load_needs(plan);
    needs.memory_bytes = needs.memory_bytes.saturating_add(loaders * BYTES_PER_LOADER);
    refuse(&who, needs)
}

/// Refuses needs that certainly exceed the limits.
fn refuse(who: &Workers, mut needs: Needs) -> Result<()> {
    needs.files += FILES_OF_A_RUN;
    needs.threads += who.count + THREADS_OF_A_RUN;
    needs.memory_bytes = needs.memory_bytes.saturating_add(who.count * BYTES_PER_SESSION);
    let groups = Groups::of(&Roots::default(), "self");
    let host = os::available_bytes().map(|bytes| (bytes, "this host's memory".to_owned()));
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let allowed = Allowed {
        files: raise_file_limit(),
        threads: thread_limits().chain(groups.thread_room()).min(),
        memory: host.into_iter().chain(groups.memory_room()).min(),
        address_bytes: address_room(),
        heaps: processors * HEAPS_PER_PROCESSOR,
    };
    refusal(who, needs, &allowed).map_or(Ok(()), |text| Err(EngineError::Environment(text)))
}

fn refusal(who: &Workers, needs: Needs, allowed: &Allowed) -> Option<String> {
    let Needs { files, memory_bytes, threads } = needs;
    let Workers { count, name: workers, fewer } = who;
    let who = format!("{} {workers}", whole(*count));
    if let Some(limit) = allowed.files.filter(|limit| files > *limit) {
        return Some(format!(
            "the limit of open files (ulimit -n) is {}, and {who} need about {}: raise it \
             (ulimit -Hn {files}; LimitNOFILE= of a service), or use {fewer}",
            whole(limit),
            whole(files)
        ));
    }
    if let Some((limit, name)) = allowed.threads.as_ref().filter(|(limit, _)| threads > *limit) {
        return Some(format!(
            "{name} allows {} threads, and {who} need about {}: raise it, use fewer sessions or a lower \
             IO_DEPTH, or leave io=pread, which takes a thread for each request",
            whole(*limit),
            whole(threads)
        ));
    }
    let heap_bytes = threads.min(allowed.heaps) * HEAP_BYTES;
    let address_bytes = memory_bytes.saturating_add(threads * STACK_BYTES + heap_bytes);
    if let Some(left) = allowed.address_bytes.filter(|left| address_bytes > *left) {
        return Some(format!(
            "the limit of address space (ulimit -v) leaves {}, and {who} need about {}: raise it, or \
             use {fewer}",
            bytes(left),
            bytes(address_bytes)
        ));
    }
    let (available, limit) = allowed.memory.as_ref().filter(|(most, _)| memory_bytes > *most)?;
    Some(format!(
        "{who} need at least {} of memory for their caches and buffers, and {limit} leaves {}: use \
         {fewer}, a smaller cache or a lower IO_DEPTH, or raise the limit",
        bytes(memory_bytes),
        bytes(*available)
    ))
}

/// Returns the system's own limits of threads, each with its name.
fn thread_limits() -> impl Iterator<Item = (u64, String)> {
    // The superuser has no limit of processes. A thread's stack and its guard are two areas.
    let user = getrlimit(Resource::Nproc).current.filter(|_| !geteuid().is_root());
    let user = user.map(|limit| (limit, "the limit of processes (ulimit -u)".to_owned()));
    let kernel =
        [("kernel", "threads-max", 1), ("kernel", "pid_max", 1), ("vm", "max_map_count", 2)];
    let kernel = kernel.into_iter().filter_map(|(folder, name, each)| {
        let text = files::system_text(format!("/proc/sys/{folder}/{name}")).ok()?;
        Some((text.trim().parse::<u64>().ok()? / each, format!("sysctl {folder}.{name}")))
    });
    user.into_iter().chain(kernel)
}

/// Returns the remaining address space of the process; a map that fails ends it.
fn address_room() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let text = files::system_text("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(pages.saturating_mul(rustix::param::page_size() as u64)))
}

/// Raises the file limit to the allowed maximum; a shell often sets 1024.
fn raise_file_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_limit_is_named_with_the_needed_amount() {
        let needs = Needs { files: 464, memory_bytes: 3 << 30, threads: 200 };
        let allowed = |files, memory_bytes: Option<u64>| Allowed {
            files,
            memory: memory_bytes.map(|bytes| (bytes, "/sys/fs/cgroup/db/memory.max".to_owned())),
            threads: None,
            address_bytes: None,
            heaps: 16,
        };
        let who = Workers { count: 200, name: "sessions", fewer: "fewer sessions" };
        let refusal = |allowed| refusal(&who, needs, &allowed);
        assert_eq!(refusal(allowed(Some(464), Some(3 << 30))), None);
        assert_eq!(refusal(allowed(None, None)), None);
        insta::assert_snapshot!(
            refusal(allowed(Some(256), None)).unwrap(),
            @"the limit of open files (ulimit -n) is 256, and 200 sessions need about 464: raise it (ulimit -Hn 464; LimitNOFILE= of a service), or use fewer sessions"
        );
        insta::assert_snapshot!(
            refusal(allowed(None, Some(1 << 30))).unwrap(),
            @"200 sessions need at least 3.00 GiB of memory for their caches and buffers, and /sys/fs/cgroup/db/memory.max leaves 1.00 GiB: use fewer sessions, a smaller cache or a lower IO_DEPTH, or raise the limit"
        );
        let left = Allowed { address_bytes: Some(3 << 30), ..allowed(None, None) };
        insta::assert_snapshot!(
            refusal(left).unwrap(),
            @"the limit of address space (ulimit -v) leaves 3.00 GiB, and 200 sessions need about 4.39 GiB: raise it, or use fewer sessions"
        );
        let threads = |limit| Some((limit, "the limit of processes (ulimit -u)".to_owned()));
        assert_eq!(refusal(Allowed { threads: threads(200), ..allowed(None, None) }), None);
        insta::assert_snapshot!(
            refusal(Allowed { threads: threads(199), ..allowed(None, None) }).unwrap(),
            @"the limit of processes (ulimit -u) allows 199 threads, and 200 sessions need about 200: raise it, use fewer sessions or a lower IO_DEPTH, or leave io=pread, which takes a thread for each request"
        );
    }
}
