//! Checks of a host's processors, for what would spoil a test: their clocks, their sleep, who else
//! has them.

use super::{Check, CheckResult, good, judged_if_known};
use petal_model::stats::host::{HostFacts, IdleState};

/// Waking takes a noticeable, or a large, part of what a read from flash takes.
const SLOW_WAKE_US: u64 = 10;
const VERY_SLOW_WAKE_US: u64 = 50;
/// The share of the processors that others use.
const SOME_LOAD: f64 = 0.1;
const MUCH_LOAD: f64 = 0.5;
/// Read without a system call, as they are in the kernel's own page that every process maps.
const FAST_CLOCKS: [&str; 3] = ["tsc", "arch_sys_counter", "timebase"];
const FAST_VIRTUAL_CLOCKS: [&str; 2] = ["kvm-clock", "hyperv_clocksource_tsc_page"];

pub(super) fn governor(host: &HostFacts) -> Check {
    let seen = host.governor.as_ref().map(|governor| {
        if governor == "performance" {
            return good(governor);
        }
        let advice = "sudo cpupower frequency-set -g performance";
        (governor.clone(), CheckResult::Warn, advice.to_owned())
    });
    judged_if_known(
        "processor governor",
        "A processor that slows its clock while it waits for a device answers each request later, \
         and the more so the fewer sessions there are.",
        seen,
    )
}

pub(super) fn idle_states(host: &HostFacts) -> Check {
    let seen = host.deepest_idle.as_ref().map(|IdleState { name, latency_us }| {
        let verdict = match *latency_us {
            wake_us if wake_us <= SLOW_WAKE_US => CheckResult::Good,
            wake_us if wake_us < VERY_SLOW_WAKE_US => CheckResult::Note,
            _ => CheckResult::Warn,
        };
        let advice = match verdict {
            CheckResult::Good => String::new(),
            _ => format!("sudo cpupower idle-set -D {}   # undo: -E", SLOW_WAKE_US + 1),
        };
        (format!("{name}, {latency_us} us to wake"), verdict, advice)
    });
    judged_if_known(
        "deepest C-state",
        "A session that waits for a device lets its processor sleep, and the time to wake it is \
         added to the latency of the request.",
        seen,
    )
}

pub(super) fn clock_source(host: &HostFacts) -> Check {
    let seen = host.clock_source.as_ref().map(|clock| {
        let advice = "echo tsc | sudo tee \
                      /sys/devices/system/clocksource/clocksource0/current_clocksource";
        let verdict = match clock.as_str() {
            name if FAST_CLOCKS.contains(&name) => return good(clock),
            name if FAST_VIRTUAL_CLOCKS.contains(&name) => CheckResult::Note,
            _ => CheckResult::Warn,
        };
        (clock.clone(), verdict, advice.to_owned())
    });
    judged_if_known(
        "clock source",
        "Databases and petal ask for the time around every request, which costs nanoseconds with \
         tsc, somewhat more with a hypervisor's clock and microseconds with any other.",
        seen,
    )
}

pub(super) fn cpu_quota(host: &HostFacts) -> Check {
    let limited = host.cpu_quota.map(|quota| {
        let value = format!("{quota:.2} of {} processors", host.cpus);
        if quota >= f64::from(host.cpus) {
            return good(value);
        }
        let file = host.cpu_quota_file.as_deref().unwrap_or("cpu.max");
        let none = if file.ends_with("cpu.max") { "max" } else { "-1" };
        (value, CheckResult::Warn, format!("echo {none} | sudo tee {file}"))
    });
    let unlimited = host.cgroup.as_ref().map(|_| good("no limit"));
    judged_if_known(
        "cgroup processor limit",
        "A control group that has used up its share stands still until the next period, which \
         shows as stalls that no device caused.",
        limited.or(unlimited),
    )
}

pub(super) fn virtual_machine(host: &HostFacts) -> Check {
    let seen = host.virtual_machine.map(|is_virtual| {
        if !is_virtual {
            return good("no");
        }
        let product = host.product.as_ref().map(|name| format!(" ({name})"));
        let advice = "vmstat 1   # column st while a test runs; then repeat it at another hour";
        let value = format!("yes{}", product.unwrap_or_default());
        (value, CheckResult::Note, advice.to_owned())
    });
    judged_if_known(
        "virtual machine",
        "Processors and devices are shared with machines that cannot be seen from here: time may \
         be stolen, and the host may cache, limit or burst the I/O.",
        seen,
    )
}

pub(super) fn other_load(host: &HostFacts) -> Check {
    let seen = host.load_average.filter(|_| host.cpus > 0).map(|load| {
        let value = format!("load {load:.2} on {} processors", host.cpus);
        let verdict = match load / f64::from(host.cpus) {
            share if share < SOME_LOAD => return good(value),
            share if share < MUCH_LOAD => CheckResult::Note,
            _ => CheckResult::Warn,
        };
        (value, verdict, "top -b -n 1 -o %CPU | head -n 20".to_owned())
    });
    judged_if_known(
        "other load",
        "Others' work takes processors and devices from the test; the average is over the last \
         minute, so that work which has just ended still shows.",
        seen,
    )
}
