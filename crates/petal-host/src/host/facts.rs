//! Readers of single facts about a host, each from the file that has it.

use std::collections::BTreeSet;

use super::{IdleState, RaidResync};
use crate::devices::Roots;
use crate::tree::{number, numbered, read};

pub(super) fn usable_cpus() -> u32 {
    rustix::thread::sched_getaffinity(None).map_or_else(
        // More processors than the fixed set holds.
        |_| std::thread::available_parallelism().map_or(0, |count| count.get() as u32),
        |set| set.count(),
    )
}

/// The first line `key : value` of /proc/cpuinfo.
pub(super) fn cpuinfo_value(cpuinfo: &str, key: &str) -> Option<String> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

/// x86 processors have a flag for it; others have no such list.
pub(super) fn runs_under_a_hypervisor(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo_value(cpuinfo, "flags")?;
    Some(flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

pub(super) fn product(roots: &Roots) -> Option<String> {
    let folder = roots.sys.join("class/dmi/id");
    let words: Vec<String> =
        ["sys_vendor", "product_name"].iter().filter_map(|fact| read(&folder.join(fact))).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

pub(super) fn load_average(loadavg: &str) -> Option<f64> {
    let load: f64 = loadavg.split_ascii_whitespace().next()?.parse().ok()?;
    (load.is_finite() && load >= 0.0).then_some(load)
}

pub(super) fn governor(roots: &Roots) -> Option<String> {
    let cpus = numbered(&roots.sys.join("devices/system/cpu"), "cpu");
    let governors: BTreeSet<String> =
        cpus.iter().filter_map(|cpu| read(&cpu.join("cpufreq/scaling_governor"))).collect();
    (!governors.is_empty()).then(|| governors.into_iter().collect::<Vec<_>>().join(", "))
}

/// The idle state that takes longest to wake from, of those that any processor may enter.
pub(super) fn deepest_idle(roots: &Roots) -> Option<IdleState> {
    let cpus = numbered(&roots.sys.join("devices/system/cpu"), "cpu");
    let states = cpus.iter().flat_map(|cpu| numbered(&cpu.join("cpuidle"), "state"));
    let enabled = states.filter_map(|state| {
        // Kernels before the switch have no such file: then all are enabled.
        if number(&state.join("disable")).is_some_and(|disabled| disabled != 0) {
            return None;
        }
        let latency_us = number(&state.join("latency"))?;
        Some(IdleState { name: read(&state.join("name"))?, latency_us })
    });
    enabled.max_by(|a, b| (a.latency_us, &a.name).cmp(&(b.latency_us, &b.name)))
}

/// /proc/mdstat: a line `md0 : ...` for an array, and under it a line with its progress:
/// `[=>...]  recovery = 12.6% (...)`, or `resync=DELAYED`.
pub(super) fn raid_resyncs(mdstat: &str) -> Vec<RaidResync> {
    let mut device = "";
    let mut found = Vec::new();
    for line in mdstat.lines() {
        if let Some((name, _)) = line.split_once(" : ").filter(|_| line.starts_with("md")) {
            device = name;
            continue;
        }
        // A progress bar may come before, itself drawn with equals signs.
        let line = line.trim_start();
        let bar = line.strip_prefix('[').and_then(|bar| bar.split_once(']'));
        let Some((word, after)) = bar.map_or(line, |(_, rest)| rest).split_once('=') else {
            continue;
        };
        let word = word.trim();
        let is_work = ["resync", "recovery", "reshape", "check", "repair"].contains(&word);
        let Some(how_far) = after.split_ascii_whitespace().next().filter(|_| is_work) else {
            continue;
        };
        let device = device.to_owned();
        found.push(RaidResync { device, work: format!("{word} {how_far}") });
    }
    found
}
