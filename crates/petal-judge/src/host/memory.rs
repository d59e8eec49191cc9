//! Checks of a host's memory that find problems for a test: swap, limits, dirty pages.

use super::{CheckResult, FactCheck, good};
use petal_host::host::HostFacts;
use petal_host::numbers::bytes;

/// The share of memory in swap. A smaller share is unused memory.
const MUCH_SWAPPED: f64 = 0.01;
/// Seconds' worth of writes, on most devices.
const MUCH_DIRTY_BYTES: u64 = 1 << 30;

pub(super) const MEMORY: [FactCheck<HostFacts>; 4] = [
    FactCheck {
        name: "swap",
        why: "A database whose cache is swapped out does I/O that it does not know of, and a hit \
              in its cache then costs a read.",
        judge: |host| {
            let (total, used) = host.swap_total_bytes.zip(host.swap_used_bytes)?;
            if total == 0 {
                return Some(good("none"));
            }
            let value = format!("{} of {} used", bytes(used), bytes(total));
            let much = host.memory_bytes.is_some_and(|all| used as f64 > all as f64 * MUCH_SWAPPED);
            let verdict = match used {
                0 => return Some(good(value)),
                _ if much => CheckResult::Warn,
                _ => CheckResult::Note,
            };
            let advice = "sudo swapoff -a && sudo swapon -a   # needs that much memory free";
            Some((value, verdict, advice.to_owned()))
        },
    },
    FactCheck {
        name: "transparent huge pages",
        why: "With `always` the kernel moves memory about to make huge pages, which now and then \
              stops a database for milliseconds.",
        judge: |host| {
            let mode = host.huge_pages.as_ref()?;
            if mode != "always" {
                return Some(good(mode));
            }
            let advice = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
            Some((mode.clone(), CheckResult::Note, advice.to_owned()))
        },
    },
    FactCheck {
        name: "cgroup memory limit",
        why: "Caches of this control group, the page cache for its files among them, end at the \
              limit: less is cached than the host's memory lets one expect.",
        judge: |host| {
            let group = host.database_group();
            let Some(limit) = group.memory_limit_bytes else {
                return group.name.as_ref().map(|_| good("no limit"));
            };
            let value = bytes(limit);
            if host.memory_bytes.is_some_and(|all| limit >= all) {
                return Some(good(format!("{value}: all there is")));
            }
            let file = group.memory_limit_file.as_deref().unwrap_or("memory.max");
            let none = if file.ends_with("limit_in_bytes") { "-1" } else { "max" };
            Some((value, CheckResult::Note, format!("echo {none} | sudo tee {file}")))
        },
    },
    FactCheck {
        name: "dirty pages before writing",
        why: "Writes through the page cache may gather so long before the kernel begins to write \
              them that a short run ends unpaid; direct I/O is not touched by this.",
        judge: |host| {
            let ratios = host.dirty_ratio.zip(host.dirty_background_ratio);
            // 0 means that the limit is set in bytes, which these files do not show.
            let known = ratios.filter(|(most, begin)| *most > 0 && *begin > 0);
            let ((most, begin), memory) = known.zip(host.memory_bytes)?;
            let gathered = u64::try_from(u128::from(memory) * u128::from(begin) / 100);
            let gathered = gathered.unwrap_or(u64::MAX);
            let value = format!("{begin} % ({}), at most {most} %", bytes(gathered));
            if gathered <= MUCH_DIRTY_BYTES {
                return Some(good(value));
            }
            let advice =
                "sudo sysctl vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824";
            Some((value, CheckResult::Note, advice.to_owned()))
        },
    },
];
