//! Judges a target's own facts before a test is run on it.

use std::collections::BTreeMap;

use super::host::{Check, CheckResult, judged};
use super::memory;
use super::verdict::next::{replaces, setup};
use petal_host::host::HostFacts;
use petal_host::numbers::{bytes, counted, whole};
use petal_record::target::{
    LoadFact, LoadVerdict, LoadedSchema, Privilege, RowsFound, Target, TargetDetails,
};

/// Multiple of the database's cache: with larger data it serves few rows.
const TIMES_CACHE: f64 = 2.0;

/// Checks facts of the target that distort a test, or that its reader must know.
pub fn check(target: &Target, details: &TargetDetails) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(direct_io) = &details.direct_io {
        let reason = direct_io.reason.as_deref().unwrap_or_default();
        let (verdict, value) = match (direct_io.used, direct_io.asked) {
            (true, _) => (CheckResult::Good, "past the page cache".to_owned()),
            (false, true) => (CheckResult::Warn, format!("not possible: {reason}")),
            (false, false) => (CheckResult::Note, "off, as asked".to_owned()),
        };
        let why = "reads through the page cache are served from memory, not from the device";
        let advice = "df -T .   # put the data on ext4, xfs or another with O_DIRECT, or load \
                      several times the memory";
        checks.push(judged("direct I/O", why, (value, verdict, advice)));
    }
    if let Some(durability) = &details.durability {
        let setting = &durability.setting;
        let verdict = good_if(durability.durable);
        let advice =
            format!("petal run   # with that changed, or named with every figure: {setting}");
        let why = "a commit that is not flushed costs no device write";
        checks.push(judged("durability", why, (setting, verdict, advice)));
    }
    if let Some(plan) = &details.plan {
        let why = "another plan than an index range visits other blocks than the method counts";
        let seen = (&plan.text, good_if(plan.as_meant), replaces("petal setup --replace"));
        checks.push(judged("plan of the SELECT", why, seen));
    }
    checks.push(compression(details));
    let Target { product, version, block_size, .. } = target;
    let value = format!("{product} {version}, blocks of {} bytes", whole(*block_size));
    checks.push(judged("database", "", (value, CheckResult::Good, "")));
    checks
}

fn good_if(is_good: bool) -> CheckResult {
    if is_good { CheckResult::Good } else { CheckResult::Warn }
}

/// Compares the data with the memory that may hold them.
pub fn data(
    target: &Target,
    details: &TargetDetails,
    loaded: &[LoadedSchema],
    host: &HostFacts,
) -> Check {
    let mut sizes = loaded.iter().flat_map(|schema| [schema.bytes, schema.index_bytes]);
    let data_bytes = sizes.try_fold(0_u64, |sum, size| Some(sum.saturating_add(size?)));
    let memory_bytes = host.memory_bytes.filter(|_| details.local);
    // The limit of a control group holds its page cache, too.
    let group_bytes = match details.in_process {
        true => host.memory_limit_bytes,
        false => host.server_memory.as_ref().and_then(|memory| memory.limit_bytes),
    };
    let limited_bytes = memory_bytes.map(|all| all.min(group_bytes.unwrap_or(all)));
    let limit = match limited_bytes.filter(|limit| Some(*limit) < memory_bytes) {
        Some(limit) => format!(", of which the control group allows {}", bytes(limit)),
        None => String::new(),
    };
    let cache = target.cache_bytes.map_or_else(|| "-".to_owned(), bytes);
    let value = format!(
        "{} in {}; the database's cache {cache}, memory {}{limit}",
        data_bytes.map_or_else(|| "-".to_owned(), bytes),
        counted(loaded.len() as u64, "schema"),
        memory_bytes.map_or_else(|| "-".to_owned(), bytes)
    );
    let passes_page_cache = details.direct_io.as_ref().is_some_and(|direct_io| direct_io.used);
    let is_cached = target.cache_bytes.zip(data_bytes).is_some_and(|(cache, data)| cache >= data);
    // A group's limit holds the database's own cache, too.
    let in_group = limited_bytes < memory_bytes && !details.in_process;
    let own_bytes = target.cache_bytes.filter(|_| in_group).unwrap_or(0);
    let page_cache_bytes = limited_bytes.map(|all| all.saturating_sub(own_bytes));
    let holder_bytes = if passes_page_cache { target.cache_bytes } else { page_cache_bytes };
    let verdict = match holder_bytes.zip(data_bytes) {
        _ if is_cached => CheckResult::Note,
        Some((holder, data)) if data <= holder => CheckResult::Warn,
        Some((holder, data)) if !passes_page_cache && data < memory::data_beyond(holder) => {
            CheckResult::Warn
        }
        Some((holder, data)) if (data as f64) < holder as f64 * TIMES_CACHE => CheckResult::Note,
        Some(_) => CheckResult::Good,
        None => CheckResult::Unknown,
    };
    let share = holder_bytes.zip(data_bytes).filter(|_| verdict == CheckResult::Warn);
    let value = value
        + &share.map_or_else(String::new, |(holder, data)| {
            let share = (holder as f64 / data.max(1) as f64).min(1.0) * 100.0;
            format!("; the page cache can serve up to {share:.0} % of the reads")
        });
    let why = match (is_cached, verdict) {
        (true, _) => {
            "The database's cache can hold the data: a run is a test of logical reads, or of redo."
        }
        (_, CheckResult::Warn) => {
            "A run would not be a storage test: at most 10 % of its reads may come from the page \
             cache."
        }
        _ => {
            "Reads of data that fit into a cache do not reach the device: a test of physical reads \
             needs several times as much as the memory that may hold them."
        }
    };
    // A page cache can be limited for a server on this host that uses it.
    let can_limit = details.local && !details.in_process && !passes_page_cache;
    let (least_bytes, needs_limit) = match can_limit {
        true => memory::least_data(target, Some(host)),
        false => (memory::data_beyond(holder_bytes.unwrap_or(0)), false),
    };
    let limit = memory::limit_command(target, details, host, memory::PAGE_CACHE_BYTES);
    let setup = setup(loaded.len() as u32, least_bytes, &target.url);
    let is_enough = data_bytes.is_none_or(|bytes| bytes >= least_bytes);
    let advice = match (can_limit && needs_limit, is_enough, limit) {
        (true, false, Some(limit)) => replaces(&format!("{setup}; {limit}")),
        (true, true, Some(limit)) => limit,
        (true, true, None) => "run with PAGE_CACHE_LIMIT=512M".to_owned(),
        _ => replaces(&setup),
    };
    judged("data", why, (value, verdict, advice.as_str()))
}

/// Checks whether the database times its reads for petal; None if petal times them.
pub fn timing(details: &TargetDetails) -> Option<Check> {
    let timed_by = &details.io_events.timed_by;
    let (verdict, value, advice) = match &details.io_untimed {
        Some(advice) => (CheckResult::Warn, "reads and log writes are not timed", advice.as_str()),
        None if timed_by.is_empty() => return None,
        None => (CheckResult::Good, timed_by.as_str(), ""),
    };
    let why = "Without it single-block read is by another clock: the server's calls, the device, or petal's operations.";
    Some(judged("I/O timing", why, (value, verdict, advice)))
}

/// Names other runs on the data, or why they are unknown; None if petal is alone.
pub fn other_runs(found: Result<Vec<String>, String>) -> Option<Check> {
    let why = "Two runs on the same data measure each other.";
    let (verdict, value) = match found {
        Ok(runs) if runs.is_empty() => return None,
        Ok(runs) => (CheckResult::Note, runs.join("; ")),
        Err(unknown) => (CheckResult::Unknown, unknown),
    };
    Some(judged("other runs", why, (value, verdict, "")))
}

/// Names the reason why a run cannot use the data.
pub fn not_usable(refused: String) -> Check {
    let why = "A run holds a lock on the data, so that nobody replaces them.";
    judged("use of the data", why, (refused, CheckResult::Warn, ""))
}

/// Names the figures that a run will lack, by reason; or why it cannot count at all.
pub fn figures(reasons: Result<BTreeMap<String, String>, String>) -> Vec<Check> {
    let why = "A run shows these figures as -, and names the reason.";
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    match reasons {
        Err(refused) => {
            let why = "A run without the database's counters is refused.";
            return vec![judged("counters", why, (refused, CheckResult::Warn, ""))];
        }
        Ok(reasons) => {
            reasons
                .into_iter()
                .for_each(|(name, why)| by_reason.entry(why).or_default().push(name));
        }
    }
    let check = |(reason, names): (String, Vec<String>)| {
        let value = format!("unknown: {}: {reason}", names.join(", "));
        judged("figures", why, (value, CheckResult::Unknown, ""))
    };
    by_reason.into_iter().map(check).collect()
}

/// Checks the largest number of sessions of a run; None if there is no limit.
pub fn sessions(most: Option<u32>, schemas: u32) -> Option<Check> {
    let most = most?;
    let value = format!("at most {} more are admitted", whole(most.into()));
    let advice = "end other connections, or raise the server's limit (max_connections) and the \
                  role's and the database's CONNECTION LIMIT";
    let why = "A run with more sessions than are free is refused.";
    Some(judged("sessions", why, (value, good_if(most >= schemas.max(1)), advice)))
}

/// Checks whether a run with UPDATEs has room for its log, or why not; None if that is unknown.
pub fn room(found: Result<bool, String>) -> Option<Check> {
    let why = "A server whose log finds no room stops for everybody and may not start again.";
    let (verdict, value) = match found {
        Ok(false) => return None,
        Ok(true) => (CheckResult::Good, "free, with a reserve".to_owned()),
        Err(refused) => (CheckResult::Warn, refused),
    };
    let advice = "make room there, or run with UPDATE_PCT=0";
    Some(judged("room for the log", why, (value, verdict, advice)))
}

/// Names a replica that commits would wait for and that is not there.
pub fn replicas(found: Result<(), String>) -> Option<Check> {
    let why = "Each commit waits for it, and a load or a run with UPDATEs is refused.";
    Some(judged("replicas", why, (found.err()?, CheckResult::Warn, "")))
}

/// Judges a fact about a target before a load.
pub fn before_load(fact: &LoadFact) -> Check {
    let verdict = match fact.verdict {
        LoadVerdict::Good => CheckResult::Good,
        LoadVerdict::Note => CheckResult::Note,
        LoadVerdict::Bad => CheckResult::Warn,
        LoadVerdict::Unknown => CheckResult::Unknown,
    };
    judged(fact.what.as_str(), &fact.why, (fact.value.as_str(), verdict, fact.advice.as_str()))
}

/// Shows which privileges the role has.
pub fn privilege(privilege: &Privilege) -> Check {
    let seen = match privilege.is_granted {
        true => ("granted", CheckResult::Good, ""),
        false => {
            let verdict = if privilege.is_needed { CheckResult::Warn } else { CheckResult::Note };
            ("missing", verdict, privilege.advice.as_str())
        }
    };
    judged(format!("privilege: {}", privilege.what), &privilege.without, seen)
}

/// Checks whether the rows of one schema are all there; `found` has the reason if that is unknown.
pub fn rows(schema: u32, found: Result<RowsFound, String>) -> Check {
    let (verdict, value) = match &found {
        Err(why) => (CheckResult::Unknown, why.clone()),
        Ok(RowsFound { loaded, looked_for, found }) => {
            let of = match looked_for == loaded {
                true => format!(
                    "{looked_for} rows, each looked for by its key",
                    looked_for = whole(*looked_for)
                ),
                false => format!(
                    "{looked_for} of {loaded} rows, looked for all over the data",
                    looked_for = whole(*looked_for),
                    loaded = whole(*loaded)
                ),
            };
            match found == looked_for {
                true => (CheckResult::Good, format!("{of}: all there")),
                false => (CheckResult::Warn, format!("{of}: {found} found", found = whole(*found))),
            }
        }
    };
    let why = "an operation that does not find its rows visits fewer blocks than it is counted for";
    judged(
        format!("rows of schema {schema}"),
        why,
        (value, verdict, replaces("petal setup --replace")),
    )
}

/// Constant filler measures compression on storage that compresses.
fn compression(details: &TargetDetails) -> Check {
    let ratio = details.compression_ratio;
    let value = ratio.map(|ratio| format!("sampled blocks shrink {ratio:.1} times"));
    let verdict = match ratio {
        None => CheckResult::Unknown,
        Some(ratio) if ratio > 2.0 => CheckResult::Note,
        Some(_) => CheckResult::Good,
    };
    let why = "storage that compresses or deduplicates writes less than petal sends, so its \
               figures look too good";
    let advice = replaces("petal setup --replace --obfuscate-columns TRUE");
    judged("filler", why, (value.unwrap_or_else(|| "-".to_owned()), verdict, advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_host::host::ServerMemory;
    use petal_record::target::DirectIo;

    fn loaded(gib: u64) -> Vec<LoadedSchema> {
        let bytes = gib << 30;
        vec![LoadedSchema {
            number: 1,
            rows: bytes / 8192,
            block_size: 8192,
            bytes: Some(bytes),
            index_bytes: Some(0),
            ..LoadedSchema::default()
        }]
    }

    #[test]
    fn data_are_compared_with_the_memory_that_may_hold_them() {
        let host = HostFacts { memory_bytes: Some(8 << 30), ..HostFacts::default() };
        let target = Target { cache_bytes: Some(1 << 30), ..Target::default() };
        let local = TargetDetails { local: true, ..TargetDetails::default() };
        let verdict =
            |gib, details: &TargetDetails| data(&target, details, &loaded(gib), &host).verdict;
        assert_eq!(verdict(80, &local), CheckResult::Good);
        assert_eq!(verdict(79, &local), CheckResult::Warn, "over a tenth from the page cache");
        assert_eq!(verdict(8, &local), CheckResult::Warn, "no storage test");
        assert_eq!(verdict(1, &local), CheckResult::Note, "a logical test");
        let own = HostFacts { memory_limit_bytes: Some(2 << 30), ..host.clone() };
        let of_server = ServerMemory { limit_bytes: Some(2 << 30), ..ServerMemory::default() };
        let of_server = HostFacts { server_memory: Some(of_server), ..host.clone() };
        let in_process = TargetDetails { in_process: true, ..local.clone() };
        for (details, host, of_another) in
            [(&local, &of_server, &own), (&in_process, &own, &of_server)]
        {
            let check = data(&target, details, &loaded(20), host);
            assert_eq!(check.verdict, CheckResult::Good, "the control group holds less");
            let words = "memory 8.00 GiB, of which the control group allows 2.00 GiB";
            assert!(check.value.ends_with(words), "{}", check.value);
            let check = data(&target, details, &loaded(20), of_another);
            assert_eq!(check.verdict, CheckResult::Warn, "another group's limit");
        }
        // Another host's memory is not known.
        assert_eq!(verdict(8, &TargetDetails::default()), CheckResult::Unknown);
        let direct_io = Some(DirectIo { asked: true, used: true, reason: None });
        assert_eq!(verdict(8, &TargetDetails { direct_io, ..local.clone() }), CheckResult::Good);
        // The size of one schema is not known, so that of all is not either.
        let unsized_too = [loaded(32), vec![LoadedSchema { bytes: None, ..loaded(1).remove(0) }]];
        let check = data(&target, &local, &unsized_too.concat(), &host);
        assert_eq!(check.verdict, CheckResult::Unknown);
        assert!(check.value.starts_with("- in 2 schemas"), "{}", check.value);
    }

    #[test]
    fn the_commands_for_a_storage_test_have_numbers_and_the_servers_limit() {
        let target = Target {
            cache_bytes: Some(16 << 20),
            url: "postgres://h/d".into(),
            ..Target::default()
        };
        let data_files = vec!["/pg".into()];
        let local = TargetDetails { local: true, data_files, ..TargetDetails::default() };
        let check = |limit_bytes: Option<u64>| {
            let folder = "/sys/fs/cgroup/memory/s60".to_owned();
            let file = "memory.limit_in_bytes".to_owned();
            let memory = ServerMemory {
                process: 71,
                folder,
                file,
                is_separate: true,
                limit_bytes,
                ..ServerMemory::default()
            };
            let host = HostFacts {
                memory_bytes: Some(24 << 30),
                server_memory: Some(memory),
                ..HostFacts::default()
            };
            let mut loaded = loaded(1);
            loaded[0].bytes = Some(160 << 20);
            data(&target, &local, &loaded, &host)
        };
        // In a group: ten times the page cache that its limit leaves.
        let limited = check(Some(110 << 20));
        assert_eq!(limited.verdict, CheckResult::Warn, "the run's own rule");
        assert!(limited.value.ends_with("serve up to 59 % of the reads"), "{}", limited.value);
        let setup = "petal setup --replace -s 1 --scale 960M --db postgres://h/d  # replaces";
        assert!(limited.advice.starts_with(setup), "{}", limited.advice);
        // Without a limit: the data and the limit.
        let advice = check(None).advice;
        let both = "petal setup --replace -s 1 --scale 8G --db postgres://h/d; echo 784M > \
                    /sys/fs/cgroup/memory/s60/memory.limit_in_bytes; find /pg/ ";
        assert!(advice.starts_with(both), "{advice}");
    }

    #[test]
    fn fewer_free_connections_than_schemas_are_a_warning() {
        assert_eq!(sessions(None, 4), None);
        assert_eq!(sessions(Some(3), 4).unwrap().verdict, CheckResult::Warn);
        assert_eq!(sessions(Some(4), 4).unwrap().verdict, CheckResult::Good);
    }

    #[test]
    fn untimed_reads_are_a_warning() {
        assert_eq!(timing(&TargetDetails::default()), None);
        let untimed =
            TargetDetails { io_untimed: Some("SET it".into()), ..TargetDetails::default() };
        let check = timing(&untimed).unwrap();
        assert_eq!((check.verdict, check.advice.as_str()), (CheckResult::Warn, "SET it"));
    }
}
