//! Checks of a host's processors that find problems for a test: clocks, sleep states, other users.

use super::{Check, CheckResult, FactCheck, JudgedValue, good, judged};
use petal_host::host::{GroupLimits, HostFacts, IdleState};

/// Wake-up times that are a noticeable, or a large, part of a read from flash.
const SLOW_WAKE_US: u64 = 10;
const VERY_SLOW_WAKE_US: u64 = 50;
/// The share of the processors that others use.
const SOME_LOAD: f64 = 0.1;
const MUCH_LOAD: f64 = 0.5;
/// Clocks that are read without a system call: the kernel's page for them is in every process.
const FAST_CLOCKS: [&str; 3] = ["tsc", "arch_sys_counter", "timebase"];
const FAST_VIRTUAL_CLOCKS: [&str; 2] = ["kvm-clock", "hyperv_clocksource_tsc_page"];

pub(super) const PROCESSORS: [FactCheck<HostFacts>; 6] = [
    FactCheck {
        name: "processor governor",
        why: "A processor that slows its clock while it waits for a device answers each request \
              later, most visibly with few sessions.",
        judge: |host| {
            let governor = host.governor.as_ref()?;
            if governor == "performance" {
                return Some(good(governor));
            }
            let advice = "sudo cpupower frequency-set -g performance";
            Some((governor.clone(), CheckResult::Warn, advice.to_owned()))
        },
    },
    FactCheck {
        name: "deepest C-state",
        why: "A session that waits for a device lets its processor sleep, and the time to wake it \
              is added to the latency of the request.",
        judge: |host| {
            let IdleState { name, latency_us } = host.deepest_idle.as_ref()?;
            let verdict = match *latency_us {
                wake_us if wake_us <= SLOW_WAKE_US => CheckResult::Good,
                wake_us if wake_us < VERY_SLOW_WAKE_US => CheckResult::Note,
                _ => CheckResult::Warn,
            };
            let advice = match verdict {
                CheckResult::Good => String::new(),
                _ => format!("sudo cpupower idle-set -D {}   # undo: -E", SLOW_WAKE_US + 1),
            };
            Some((format!("{name}, {latency_us} us to wake"), verdict, advice))
        },
    },
    FactCheck {
        name: "clock source",
        why: "Databases and petal read the clock around every request: nanoseconds with tsc, \
              somewhat more with a hypervisor's clock, and microseconds with any other.",
        judge: |host| {
            let clock = host.clock_source.as_ref()?;
            let advice = "echo tsc | sudo tee \
                      /sys/devices/system/clocksource/clocksource0/current_clocksource";
            let verdict = match clock.as_str() {
                name if FAST_CLOCKS.contains(&name) => return Some(good(clock)),
                name if FAST_VIRTUAL_CLOCKS.contains(&name) => CheckResult::Note,
                _ => CheckResult::Warn,
            };
            Some((clock.clone(), verdict, advice.to_owned()))
        },
    },
    FactCheck {
        name: "cgroup processor limit",
        why: "A control group that has used up its share stops until the next period, which shows \
              as stalls that no device caused.",
        judge: |host| processor_limit(host, &host.database_group()),
    },
    FactCheck {
        name: "virtual machine",
        why: "Processors and devices are shared with machines that cannot be seen from here: time \
              may be stolen, and the host may cache, limit or burst the I/O.",
        judge: |host| {
            let is_virtual = host.virtual_machine?;
            if !is_virtual {
                return Some(good("no"));
            }
            let product = host.product.as_ref().map(|name| format!(" ({name})"));
            let advice = "vmstat 1   # column st while a test runs; then repeat it at another hour";
            let value = format!("yes{}", product.unwrap_or_default());
            Some((value, CheckResult::Note, advice.to_owned()))
        },
    },
    FactCheck {
        name: "other load",
        why: "Others' work takes processors and devices from the test; the average is over the \
              last minute, so that work which has just ended still shows.",
        judge: |host| {
            let load = host.load_average.filter(|_| host.cpus > 0)?;
            let value = format!("load {load:.2} on {} processors", host.cpus);
            let verdict = match load / f64::from(host.cpus) {
                share if share < SOME_LOAD => return Some(good(value)),
                share if share < MUCH_LOAD => CheckResult::Note,
                _ => CheckResult::Warn,
            };
            Some((value, verdict, "top -b -n 1 -o %CPU | head -n 20".to_owned()))
        },
    },
];

/// A limit on petal's own processors, if a server on this host has another control group.
pub(super) fn own_limit(host: &HostFacts) -> Option<Check> {
    let own = host.own_group();
    let is_other = host.server_group.as_ref().is_some_and(|server| **server != own);
    let seen = processor_limit(host, &own).filter(|_| is_other && own.cpu_quota.is_some())?;
    let why =
        "petal waits until its control group's next period, while the server waits for petal.";
    Some(judged("petal's cgroup processor limit", why, seen))
}

fn processor_limit(host: &HostFacts, group: &GroupLimits) -> Option<JudgedValue> {
    let Some(quota) = group.cpu_quota else {
        return group.name.as_ref().map(|_| good("no limit"));
    };
    let value = format!("{quota:.2} of {} processors", host.cpus);
    if quota >= f64::from(host.cpus) {
        return Some(good(value));
    }
    let file = group.cpu_quota_file.as_deref().unwrap_or("cpu.max");
    let none = if file.ends_with("cpu.max") { "max" } else { "-1" };
    Some((value, CheckResult::Warn, format!("echo {none} | sudo tee {file}")))
}
