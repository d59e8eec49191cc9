//! Checks of the data's devices that find problems for a test: queues, caches, free space, mounts,
//! arrays at work.

use super::{Check, CheckResult, FactCheck, good, judged};
use petal_host::cgroup::{IoLimit, IoLimitKind};
use petal_host::host::{HostDevice, HostFacts, RaidResync};
use petal_host::numbers::bytes;
use petal_host::numbers::whole;

/// The share of a file system that is free. The allocator scatters new blocks over the remaining
/// space, and flash needs room to rewrite.
const LITTLE_FREE: f64 = 0.1;
const VERY_LITTLE_FREE: f64 = 0.03;
/// Mount options that make a write cost more, or a flush nothing.
const SPOILING_OPTIONS: [&str; 6] =
    ["nobarrier", "barrier=0", "sync", "data=journal", "compress", "compress-force"];
/// Linux's own default.
const USUAL_READ_AHEAD_BYTES: u64 = 128 << 10;

pub(super) const RAID: FactCheck<HostFacts> = FactCheck {
    name: "RAID resync",
    why: "An array that is being rebuilt or checked reads and writes all of its disks during the \
          test.",
    judge: |host| {
        let resyncs = host.raid_resyncs.as_ref()?;
        let Some(RaidResync { device, .. }) = resyncs.first() else {
            return Some(good("none"));
        };
        let all: Vec<String> =
            resyncs.iter().map(|resync| format!("{} {}", resync.device, resync.work)).collect();
        let advice = format!("sudo mdadm --wait /dev/{device}   # ends when the array is done");
        Some((all.join(", "), CheckResult::Warn, advice))
    },
};

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
        IoLimitKind::ReadRequests => {
            format!("{per_second} reads a second", per_second = whole(per_second))
        }
        IoLimitKind::WriteRequests => {
            format!("{per_second} writes a second", per_second = whole(per_second))
        }
        IoLimitKind::ReadBytes => format!("{} read a second", bytes(per_second)),
        IoLimitKind::WriteBytes => format!("{} written a second", bytes(per_second)),
    }
}

/// Returns the device's name in commands that change its queue.
fn disk(device: &HostDevice) -> &str {
    device.disk.as_deref().unwrap_or(&device.name)
}

pub(super) const DEVICE: [FactCheck<HostDevice>; 3] = [
    FactCheck {
        name: "scheduler",
        why: "A scheduler that sorts and shares out requests costs processor time and a lock for \
              each of them, and holds some back: a flash device needs none.",
        judge: |device| {
            let name = device.scheduler.as_ref()?;
            let verdict = match name.as_str() {
                "bfq" | "cfq" => CheckResult::Warn,
                "none" | "noop" => return Some(good(name)),
                _ if device.rotational != Some(false) => return Some(good(name)),
                _ => CheckResult::Note,
            };
            let advice =
                format!("echo none | sudo tee /sys/block/{}/queue/scheduler", disk(device));
            Some((name.clone(), verdict, advice))
        },
    },
    FactCheck {
        name: "read-ahead",
        why: "Reads through the page cache that look sequential, as scans and loads do, fetch up \
              to so much more than was asked for; direct I/O does not.",
        judge: |device| {
            let ahead = device.read_ahead_bytes?;
            let value = bytes(ahead);
            if ahead <= USUAL_READ_AHEAD_BYTES {
                return Some(good(value));
            }
            let sectors = USUAL_READ_AHEAD_BYTES / 512;
            let advice = format!("sudo blockdev --setra {sectors} /dev/{}", disk(device));
            Some((value, CheckResult::Note, advice))
        },
    },
    FactCheck {
        name: "write cache",
        why: "Writes end in the device's own volatile memory and a commit pays with a flush: \
              compare writes only between devices in the same state.",
        judge: |device| {
            let mode = device.write_cache.as_ref()?;
            if mode == "write through" {
                return Some(good(mode));
            }
            let disk = disk(device);
            let advice = if disk.starts_with("nvme") {
                format!("sudo nvme get-feature /dev/{disk} -f 6 -H   # 0 as its value: off")
            } else if disk.starts_with("sd") {
                format!("sudo hdparm -W /dev/{disk}   # -W0 turns it off")
            } else {
                format!(
                    "cat /sys/block/{disk}/queue/write_cache   # set by the hypervisor: ask its administrator"
                )
            };
            Some((mode.clone(), CheckResult::Note, advice))
        },
    },
];

/// Checks of devices with a file system: members of a volume have no file system.
pub(super) const FILE_SYSTEM: [FactCheck<HostDevice>; 2] = [
    FactCheck {
        name: "free space",
        why: "Nearly full file systems scatter new files, nearly full flash drives rewrite while \
              they work, and loads or logs may run out of space.",
        judge: |device| {
            let (all, free) = device.file_system_bytes.zip(device.free_bytes)?;
            let value = format!("{} of {}", bytes(free), bytes(all));
            let verdict = match free as f64 / all.max(1) as f64 {
                share if share < VERY_LITTLE_FREE => CheckResult::Warn,
                share if share < LITTLE_FREE => CheckResult::Note,
                _ => return Some(good(value)),
            };
            let path = device.name.as_str();
            Some((
                value,
                verdict,
                format!("df -h /dev/{path}   # free some, or use another file system"),
            ))
        },
    },
    FactCheck {
        name: "mount options",
        why: "Without barriers a commit is acknowledged from a volatile cache, while sync, \
              data=journal and compression make each write more work than the database asked for. \
              With the last two the page cache may serve reads past it (O_DIRECT), too.",
        judge: |device| {
            let options = device.mount_options.as_ref()?;
            let is_spoiling = |option: &&str| {
                let name = option.split('=').next().unwrap_or_default();
                SPOILING_OPTIONS.contains(option) || SPOILING_OPTIONS.contains(&name)
            };
            let spoiling: Vec<&str> = options.split(',').filter(is_spoiling).collect();
            if spoiling.is_empty() {
                return Some(good(options));
            }
            let advice = format!("findmnt /dev/{}   # mount it without them", device.name);
            Some((spoiling.join(","), CheckResult::Warn, advice))
        },
    },
];

/// Builds a check from `file: reason`, the message of the search for devices.
pub(super) fn unseen(file: &str) -> Check {
    let (path, reason) = file.split_once(": ").unwrap_or((file, "it is not known why"));
    let why = format!("The device's reads and writes stay unknown in every figure: {reason}.");
    let seen = ("not seen", CheckResult::Warn, format!("findmnt -T {path}"));
    judged(format!("device of {path}"), &why, seen)
}
