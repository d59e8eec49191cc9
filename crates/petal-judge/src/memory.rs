//! Memory: the pressure on it during a run, and the command that limits a server's page cache.

use petal_host::host::{HostFacts, ServerMemory};
use petal_host::numbers::decimal;
use petal_record::Run;
use petal_record::os_figures::HostFigures;
use petal_record::target::{Target, TargetDetails};
use serde_json::json;

use super::judgement::{FindingParts as _, Judgement, clear_if, known, seen, seen_on, warning};

/// Percent of the time in which all tasks that could work waited for memory.
pub const FULL_PERCENT_MAX: f64 = 5.0;
/// Page faults a second that waited for a device. Reads through a page cache that a control group
/// limits also count as waits for memory, but cause no such faults.
pub const MAJOR_FAULTS_MAX: f64 = 20.0;
/// Memory of a server's processes in addition to its cache.
const PROCESSES_BYTES: u64 = 256 << 20;
/// Page cache that is left to a server whose reads are to reach the device.
pub const PAGE_CACHE_BYTES: u64 = 512 << 20;

/// The least data whose reads reach the device past a limited page cache, which then holds at most a
/// tenth of them.
pub const LEAST_DATA_BYTES: u64 = data_beyond(PROCESSES_BYTES + PAGE_CACHE_BYTES);

/// Data of which a page cache of so many bytes holds at most a tenth: the most of a storage test.
pub(super) const fn data_beyond(page_cache_bytes: u64) -> u64 {
    page_cache_bytes.saturating_mul(10)
}

/// The least data of a server on this host that is read past the page cache, and whether its page
/// cache must be limited for that: a control group that the server is in may limit it already.
pub(super) fn least_data(target: &Target, host: Option<&HostFacts>) -> (u64, bool) {
    let limit_bytes = host.and_then(|host| host.server_memory.as_ref()?.limit_bytes);
    let page_cache = limit_bytes.map(|all| all.saturating_sub(target.cache_bytes.unwrap_or(0)));
    match page_cache.map(data_beyond).filter(|&bytes| bytes <= LEAST_DATA_BYTES) {
        Some(bytes) => (bytes, false),
        None => (LEAST_DATA_BYTES, true),
    }
}

/// Judges whether programs lacked memory.
pub(super) fn pressure(run: &Run) -> Judgement {
    seen(run, "memory")?;
    clear_if(run.details.target.reads_by_faults)?;
    let host = known(run.database_host(), "no memory statistics in this record")?;
    let figures = HostFigures::of(host);
    let faults = figures.per_second.major_faults;
    let faults = known(faults, "no page faults in this record")?;
    // Kernels may not count the pressure.
    let full = figures.pressure_percent.memory_full;
    clear_if(faults < MAJOR_FAULTS_MAX || full.is_some_and(|full| full <= FULL_PERCENT_MAX))?;
    let waited = full.map_or_else(String::new, |full| {
        format!("all tasks waited for memory {full:.0} % of the time, with ")
    });
    warning(
        format!(
            "the host ran out of memory{}: {waited}{} page faults a second that read from a device. \
             Programs waited for their own pages, and the device served these",
            seen_on(host),
            decimal(faults, 0)
        ),
        "Lock less of its memory, or end other programs, and run it again.",
    )
    .with(json!({ "memory_full_percent": full, "major_faults_per_second": faults }))
}

/// The commands that limit the memory of a server on this host to its cache and so much page cache,
/// and that empty the page cache of its files. None without such a server.
pub fn limit_command(
    target: &Target,
    details: &TargetDetails,
    host: &HostFacts,
    page_cache_bytes: u64,
) -> Option<String> {
    let ServerMemory { process, folder, is_separate, file, .. } = host.server_memory.as_ref()?;
    let cache_bytes = target.cache_bytes?;
    let bytes = cache_bytes.saturating_add(PROCESSES_BYTES).saturating_add(page_cache_bytes);
    let size = format!("{}M", bytes >> 20);
    let unit = folder.rsplit('/').next().filter(|name| name.ends_with(".service"));
    let limit = match (is_separate, unit) {
        (true, Some(unit)) => format!("systemctl set-property --runtime {unit} MemoryMax={size}"),
        (true, None) => format!("echo {size} > {folder}/{file}"),
        (false, _) => format!(
            "G={folder}/petal-server-{process}; mkdir -p $G; echo {size} > $G/{file}; for p in {process} \
             $(pgrep -P {process}); do echo $p > $G/cgroup.procs; done"
        ),
    };
    let data = details.data_files.first()?.display();
    Some(format!(
        "{limit}; find {data}/ -type f -exec dd if={{}} iflag=nocache count=0 status=none \\;"
    ))
}

/// The least data of a run's server that is read past the page cache.
pub(super) fn least_data_of(run: &Run) -> (u64, bool) {
    least_data(&run.summary.target, run.details.host.as_ref())
}

/// The commands for a run, with the usual page cache.
pub(super) fn limit_command_of(run: &Run) -> Option<String> {
    let host = run.details.host.as_ref()?;
    limit_command(&run.summary.target, &run.details.target, host, PAGE_CACHE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn waits_for_memory_with_faults_from_a_device_are_a_lack_of_it() {
        let found = |full_percent: Option<u64>, faults: u64| {
            let mut run = fixture::mixed_run();
            let sum = &mut run.details.os.as_mut().unwrap().whole.sum;
            sum.counts.memory_full_us = full_percent.map(|percent| percent * 10_000 * 60);
            sum.counts.major_faults = Some(faults * 60);
            (pressure(&run).ok().map(|finding| finding.message), run)
        };
        let (message, mut run) = found(Some(18), 102);
        let message = message.unwrap();
        assert!(message.contains("memory 18 % of the time, with 102 page faults"), "{message}");
        // A limited page cache alone, and programs that start.
        assert_eq!((found(Some(6), 3).0, found(Some(1), 500).0), (None, None));
        assert!(found(None, 102).0.is_some(), "the pressure is not counted");
        run.details.target.reads_by_faults = true;
        assert!(pressure(&run).is_err());
    }

    #[test]
    fn the_command_limits_a_separate_group_or_makes_one() {
        let target = Target { cache_bytes: Some(128 << 20), ..Target::default() };
        let data_files = vec!["/var/lib/db".into()];
        let details = TargetDetails { data_files, ..TargetDetails::default() };
        let command = |folder: &str, is_separate| {
            let (folder, file) = (folder.to_owned(), "memory.max".to_owned());
            let memory =
                ServerMemory { process: 71, folder, is_separate, file, ..ServerMemory::default() };
            let host = HostFacts { server_memory: Some(memory), ..HostFacts::default() };
            limit_command(&target, &details, &host, PAGE_CACHE_BYTES).unwrap()
        };
        let empty =
            "; find /var/lib/db/ -type f -exec dd if={} iflag=nocache count=0 status=none \\;";
        assert_eq!(
            command("/sys/fs/cgroup/system.slice/pg.service", true),
            format!("systemctl set-property --runtime pg.service MemoryMax=896M{empty}")
        );
        assert_eq!(
            command("/sys/fs/cgroup/db", true),
            format!("echo 896M > /sys/fs/cgroup/db/memory.max{empty}")
        );
        assert!(command("/sys/fs/cgroup", false).starts_with(
            "G=/sys/fs/cgroup/petal-server-71; mkdir -p $G; echo 896M > $G/memory.max; for p in 71"
        ));
        assert_eq!(limit_command(&target, &details, &HostFacts::default(), 1), None);
    }
}
