//! Checks of a host's memory, for what would spoil a test: swap, limits, pages that wait to be
//! written.

use super::{Check, CheckResult, good, judged_if_known};
use petal_model::stats::host::HostFacts;
use petal_model::stats::units::bytes;

/// The share of memory that lies in swap. Below it, that is what nobody uses.
const MUCH_SWAPPED: f64 = 0.01;
/// Seconds' worth of writes, on most devices.
const MUCH_DIRTY_BYTES: u64 = 1 << 30;

pub(super) fn swap(host: &HostFacts) -> Check {
    let seen = host.swap_total_bytes.zip(host.swap_used_bytes).map(|(total, used)| {
        if total == 0 {
            return good("none");
        }
        let value = format!("{} of {} used", bytes(used), bytes(total));
        let much = host.memory_bytes.is_some_and(|all| used as f64 > all as f64 * MUCH_SWAPPED);
        let verdict = match used {
            0 => return good(value),
            _ if much => CheckResult::Warn,
            _ => CheckResult::Note,
        };
        let advice = "sudo swapoff -a && sudo swapon -a   # needs that much memory free";
        (value, verdict, advice.to_owned())
    });
    judged_if_known(
        "swap",
        "A database whose cache is swapped out does I/O that it does not know of, and a hit in \
         its cache then costs a read.",
        seen,
    )
}

pub(super) fn huge_pages(host: &HostFacts) -> Check {
    let seen = host.huge_pages.as_ref().map(|mode| {
        if mode != "always" {
            return good(mode);
        }
        let advice = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
        (mode.clone(), CheckResult::Note, advice.to_owned())
    });
    judged_if_known(
        "transparent huge pages",
        "With `always` the kernel moves memory about to make huge pages, which now and then stops \
         a database for milliseconds.",
        seen,
    )
}

pub(super) fn memory_limit(host: &HostFacts) -> Check {
    let limited = host.memory_limit_bytes.map(|limit| {
        let value = bytes(limit);
        if host.memory_bytes.is_some_and(|all| limit >= all) {
            return good(format!("{value}: all there is"));
        }
        let file = host.memory_limit_file.as_deref().unwrap_or("memory.max");
        let none = if file.ends_with("limit_in_bytes") { "-1" } else { "max" };
        (value, CheckResult::Note, format!("echo {none} | sudo tee {file}"))
    });
    let unlimited = host.cgroup.as_ref().map(|_| good("no limit"));
    judged_if_known(
        "cgroup memory limit",
        "Caches of this control group, the page cache for its files among them, end at the limit: \
         less is cached than the host's memory lets one expect.",
        limited.or(unlimited),
    )
}

pub(super) fn dirty_pages(host: &HostFacts) -> Check {
    let ratios = host.dirty_ratio.zip(host.dirty_background_ratio);
    // 0 stands for a limit in bytes, which these do not tell.
    let known = ratios.filter(|(most, begin)| *most > 0 && *begin > 0);
    let seen = known.zip(host.memory_bytes).map(|((most, begin), memory)| {
        let gathered = u64::try_from(u128::from(memory) * u128::from(begin) / 100);
        let gathered = gathered.unwrap_or(u64::MAX);
        let value = format!("{begin} % ({}), at most {most} %", bytes(gathered));
        if gathered <= MUCH_DIRTY_BYTES {
            return good(value);
        }
        let advice = "sudo sysctl vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824";
        (value, CheckResult::Note, advice.to_owned())
    });
    judged_if_known(
        "dirty pages before writing",
        "Writes through the page cache may gather so long before the kernel begins to write them \
         that a short run ends unpaid; direct I/O is not touched by this.",
        seen,
    )
}
