//! Checks of the data's devices, for what would spoil a test: queues, caches, room, mounts, arrays
//! at work.

use super::{Check, CheckResult, good, judged, judged_if_known};
use petal_model::stats::cgroup::{IoLimit, IoLimitKind};
use petal_model::stats::host::{HostDevice, HostFacts, RaidResync};
use petal_model::stats::units::bytes;

/// The share of a file system that is free. The allocator scatters what is left, and flash needs
/// room to rewrite.
const LITTLE_FREE: f64 = 0.1;
const VERY_LITTLE_FREE: f64 = 0.03;
/// They make a write cost more, or a flush nothing.
const SPOILING_OPTIONS: [&str; 6] =
    ["nobarrier", "barrier=0", "sync", "data=journal", "compress", "compress-force"];
/// Linux's own default.
const USUAL_READ_AHEAD_BYTES: u64 = 128 << 10;

pub(super) fn raid(host: &HostFacts) -> Check {
    let seen = host.raid_resyncs.as_ref().map(|resyncs| {
        let Some(RaidResync { device, .. }) = resyncs.first() else {
            return good("none");
        };
        let all: Vec<String> =
            resyncs.iter().map(|resync| format!("{} {}", resync.device, resync.work)).collect();
        let advice = format!("sudo mdadm --wait /dev/{device}   # ends when the array is done");
        (all.join(", "), CheckResult::Warn, advice)
    });
    judged_if_known(
        "RAID resync",
        "An array that is being rebuilt or checked reads and writes all of its disks beside the \
         test.",
        seen,
    )
}

pub(super) fn io_limit(limit: &IoLimit) -> Check {
    let advice = format!("echo \"{}\" | sudo tee {}", limit.lifted, limit.file);
    let seen = (limit_words(limit), CheckResult::Warn, advice);
    let whose = if limit.of_server { "server" } else { "petal" };
    judged(
        format!("{}: cgroup I/O limit ({whose})", limit.device),
        "A control group holds requests above its limit back: a test then measures the limit, and not \
         the device.",
        seen,
    )
}

/// A limit with its figure: `800 reads a second`.
pub fn limit_words(limit: &IoLimit) -> String {
    let per_second = limit.per_second;
    match limit.kind {
        IoLimitKind::ReadRequests => format!("{per_second} reads a second"),
        IoLimitKind::WriteRequests => format!("{per_second} writes a second"),
        IoLimitKind::ReadBytes => format!("{} read a second", bytes(per_second)),
        IoLimitKind::WriteBytes => format!("{} written a second", bytes(per_second)),
    }
}

/// What a command calls the device whose queue it changes.
fn disk(device: &HostDevice) -> &str {
    device.disk.as_deref().unwrap_or(&device.name)
}

pub(super) fn scheduler(device: &HostDevice) -> Check {
    let seen = device.scheduler.as_ref().map(|name| {
        let verdict = match name.as_str() {
            "bfq" | "cfq" => CheckResult::Warn,
            "none" | "noop" => return good(name),
            _ if device.rotational != Some(false) => return good(name),
            _ => CheckResult::Note,
        };
        let advice = format!("echo none | sudo tee /sys/block/{}/queue/scheduler", disk(device));
        (name.clone(), verdict, advice)
    });
    judged_if_known(
        format!("{}: scheduler", device.name),
        "A scheduler that sorts and shares out requests costs processor time and a lock for each \
         of them, and holds some back: a flash device needs none.",
        seen,
    )
}

pub(super) fn read_ahead(device: &HostDevice) -> Check {
    let seen = device.read_ahead_bytes.map(|ahead| {
        let value = bytes(ahead);
        if ahead <= USUAL_READ_AHEAD_BYTES {
            return good(value);
        }
        let sectors = USUAL_READ_AHEAD_BYTES / 512;
        let advice = format!("sudo blockdev --setra {sectors} /dev/{}", disk(device));
        (value, CheckResult::Note, advice)
    });
    judged_if_known(
        format!("{}: read-ahead", device.name),
        "Reads through the page cache that look sequential, as scans and loads do, fetch up to so \
         much more than was asked for; direct I/O does not.",
        seen,
    )
}

pub(super) fn write_cache(device: &HostDevice) -> Check {
    let seen = device.write_cache.as_ref().map(|mode| {
        if mode == "write through" {
            return good(mode);
        }
        let disk = disk(device);
        let advice = if disk.starts_with("nvme") {
            format!("sudo nvme get-feature /dev/{disk} -f 6 -H   # 0 as its value: off")
        } else if disk.starts_with("sd") {
            format!("sudo hdparm -W /dev/{disk}   # -W0 turns it off")
        } else {
            format!("cat /sys/block/{disk}/queue/write_cache   # its owner decides: ask there")
        };
        (mode.clone(), CheckResult::Note, advice)
    });
    judged_if_known(
        format!("{}: write cache", device.name),
        "Writes end in the device's own volatile memory and a commit pays with a flush: compare \
         writes only between devices in the same state.",
        seen,
    )
}

pub(super) fn free_space(device: &HostDevice) -> Check {
    let seen = device.file_system_bytes.zip(device.free_bytes).map(|(all, free)| {
        let value = format!("{} of {}", bytes(free), bytes(all));
        let verdict = match free as f64 / all.max(1) as f64 {
            share if share < VERY_LITTLE_FREE => CheckResult::Warn,
            share if share < LITTLE_FREE => CheckResult::Note,
            _ => return good(value),
        };
        let path = device.name.as_str();
        (value, verdict, format!("df -h /dev/{path}   # free some, or use another file system"))
    });
    judged_if_known(
        format!("{}: free space", device.name),
        "A nearly full file system scatters new files, a nearly full flash drive rewrites while it \
         works, and a load or a log may end with no space left.",
        seen,
    )
}

pub(super) fn mount_options(device: &HostDevice) -> Check {
    let seen = device.mount_options.as_ref().map(|options| {
        let is_spoiling = |option: &&str| {
            let name = option.split('=').next().unwrap_or_default();
            SPOILING_OPTIONS.contains(option) || SPOILING_OPTIONS.contains(&name)
        };
        let spoiling: Vec<&str> = options.split(',').filter(is_spoiling).collect();
        if spoiling.is_empty() {
            return good(options);
        }
        let advice = format!("findmnt /dev/{}   # mount it without them", device.name);
        (spoiling.join(","), CheckResult::Warn, advice)
    });
    judged_if_known(
        format!("{}: mount options", device.name),
        "Without barriers a commit is acknowledged from a volatile cache, while sync, data=journal \
         and compression make each write more work than the database asked for. With the last two \
         the page cache may serve reads past it (O_DIRECT), too.",
        seen,
    )
}

/// `file: reason`, as the search for devices tells it.
pub(super) fn unseen(file: &str) -> Check {
    let (path, reason) = file.split_once(": ").unwrap_or((file, "it is not known why"));
    let why = format!("What reaches the device stays unknown in every figure: {reason}.");
    let seen = ("not seen", CheckResult::Warn, format!("findmnt -T {path}"));
    judged(format!("device of {path}"), &why, seen)
}
