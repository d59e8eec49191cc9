//! What would spoil an I/O test on a host: one check per fact, with the reason and the command that
//! changes it. Pure functions of a [`Host`]; nothing here reads, changes or prints anything. A fact
//! that is not known is never held against the host.
//!
//! A warning is for what distorts figures; a note for what a reader of them should know.

use serde::Serialize;

use crate::stats::host::{Device, Host, IdleState, RaidResync};
use crate::stats::units::bytes;

/// Waking takes a noticeable, or a large, part of what a read from flash takes.
const SLOW_WAKE_US: u64 = 10;
const VERY_SLOW_WAKE_US: u64 = 50;
/// Of memory: below it, what lies in swap is what nobody uses.
const MUCH_SWAPPED: f64 = 0.01;
/// Of the processors: what others use of them.
const SOME_LOAD: f64 = 0.1;
const MUCH_LOAD: f64 = 0.5;
/// Of a file system: the allocator scatters what is left, and flash needs room to rewrite.
const LITTLE_FREE: f64 = 0.1;
const VERY_LITTLE_FREE: f64 = 0.03;
/// They make a write cost more, or a flush nothing.
const SPOILING_OPTIONS: [&str; 6] =
    ["nobarrier", "barrier=0", "sync", "data=journal", "compress", "compress-force"];
/// Linux's own default.
const USUAL_READ_AHEAD_BYTES: u64 = 128 << 10;
/// Seconds' worth of writes, on most devices.
const MUCH_DIRTY_BYTES: u64 = 1 << 30;
/// Read without a system call, as they are in the kernel's own page that every process maps.
const FAST_CLOCKS: [&str; 3] = ["tsc", "arch_sys_counter", "timebase"];
const FAST_VIRTUAL_CLOCKS: [&str; 2] = ["kvm-clock", "hyperv_clocksource_tsc_page"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Good,
    Note,
    Warn,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: String,
    pub value: String,
    pub verdict: Verdict,
    /// One sentence: what it does to a test.
    pub why: String,
    /// A shell's line that changes it, or shows more; empty where there is nothing to do.
    pub advice: String,
}

/// What was seen, what it comes to, and the advice.
type Seen = (String, Verdict, String);

/// Every check, in the order of a report: processors, memory, others, devices.
pub fn check(host: &Host) -> Vec<Check> {
    let mut checks = vec![
        governor(host),
        idle_states(host),
        clock_source(host),
        cpu_quota(host),
        virtual_machine(host),
        other_load(host),
        swap(host),
        huge_pages(host),
        memory_limit(host),
        dirty_pages(host),
        raid(host),
    ];
    for device in &host.devices {
        checks.extend([scheduler(device), read_ahead(device), write_cache(device)]);
        // Members of a volume have no file system of their own.
        if device.file_system.is_some() {
            checks.extend([free_space(device), mount_options(device)]);
        }
    }
    checks.extend(host.unseen.iter().map(|file| unseen(file)));
    checks
}

fn judged(name: impl Into<String>, why: &str, seen: Option<Seen>) -> Check {
    let unknown = || ("not known".to_owned(), Verdict::Unknown, String::new());
    let (value, verdict, advice) = seen.unwrap_or_else(unknown);
    Check { name: name.into(), value, verdict, why: why.to_owned(), advice }
}

fn good(value: impl Into<String>) -> Seen {
    (value.into(), Verdict::Good, String::new())
}

fn governor(host: &Host) -> Check {
    let seen = host.governor.as_ref().map(|governor| {
        if governor == "performance" {
            return good(governor);
        }
        let advice = "sudo cpupower frequency-set -g performance";
        (governor.clone(), Verdict::Warn, advice.to_owned())
    });
    judged(
        "processor governor",
        "A processor that slows its clock while it waits for a device answers each request later, \
         and the more so the fewer sessions there are.",
        seen,
    )
}

fn idle_states(host: &Host) -> Check {
    let seen = host.deepest_idle.as_ref().map(|IdleState { name, latency_us }| {
        let verdict = match *latency_us {
            wake_us if wake_us <= SLOW_WAKE_US => Verdict::Good,
            wake_us if wake_us < VERY_SLOW_WAKE_US => Verdict::Note,
            _ => Verdict::Warn,
        };
        let advice = match verdict {
            Verdict::Good => String::new(),
            _ => format!("sudo cpupower idle-set -D {}   # undo: -E", SLOW_WAKE_US + 1),
        };
        (format!("{name}, {latency_us} us to wake"), verdict, advice)
    });
    judged(
        "deepest C-state",
        "A session that waits for a device lets its processor sleep, and the time to wake it is \
         added to the latency of the request.",
        seen,
    )
}

fn clock_source(host: &Host) -> Check {
    let seen = host.clock_source.as_ref().map(|clock| {
        let advice = "echo tsc | sudo tee \
                      /sys/devices/system/clocksource/clocksource0/current_clocksource";
        let verdict = match clock.as_str() {
            name if FAST_CLOCKS.contains(&name) => return good(clock),
            name if FAST_VIRTUAL_CLOCKS.contains(&name) => Verdict::Note,
            _ => Verdict::Warn,
        };
        (clock.clone(), verdict, advice.to_owned())
    });
    judged(
        "clock source",
        "Databases and petal ask for the time around every request, which costs nanoseconds with \
         tsc, somewhat more with a hypervisor's clock and microseconds with any other.",
        seen,
    )
}

fn cpu_quota(host: &Host) -> Check {
    let limited = host.cpu_quota.map(|quota| {
        let value = format!("{quota:.2} of {} processors", host.cpus);
        if quota >= f64::from(host.cpus) {
            return good(value);
        }
        let file = host.cpu_quota_file.as_deref().unwrap_or("cpu.max");
        let none = if file.ends_with("cpu.max") { "max" } else { "-1" };
        (value, Verdict::Warn, format!("echo {none} | sudo tee {file}"))
    });
    let unlimited = host.cgroup.as_ref().map(|_| good("no limit"));
    judged(
        "cgroup processor limit",
        "A control group that has used up its share stands still until the next period, which \
         shows as stalls that no device caused.",
        limited.or(unlimited),
    )
}

fn virtual_machine(host: &Host) -> Check {
    let seen = host.virtual_machine.map(|is_virtual| {
        if !is_virtual {
            return good("no");
        }
        let product = host.product.as_ref().map(|name| format!(" ({name})"));
        let advice = "vmstat 1   # column st while a test runs; then repeat it at another hour";
        let value = format!("yes{}", product.unwrap_or_default());
        (value, Verdict::Note, advice.to_owned())
    });
    judged(
        "virtual machine",
        "Processors and devices are shared with machines that cannot be seen from here: time may \
         be stolen, and the host may cache, limit or burst the I/O.",
        seen,
    )
}

fn other_load(host: &Host) -> Check {
    let seen = host.load_average.filter(|_| host.cpus > 0).map(|load| {
        let value = format!("load {load:.2} on {} processors", host.cpus);
        let verdict = match load / f64::from(host.cpus) {
            share if share < SOME_LOAD => return good(value),
            share if share < MUCH_LOAD => Verdict::Note,
            _ => Verdict::Warn,
        };
        (value, verdict, "top -b -n 1 -o %CPU | head -n 20".to_owned())
    });
    judged(
        "other load",
        "Others' work takes processors and devices from the test; the average is over the last \
         minute, so that work which has just ended still shows.",
        seen,
    )
}

fn swap(host: &Host) -> Check {
    let seen = host.swap_total_bytes.zip(host.swap_used_bytes).map(|(total, used)| {
        if total == 0 {
            return good("none");
        }
        let value = format!("{} of {} used", bytes(used), bytes(total));
        let much = host.memory_bytes.is_some_and(|all| used as f64 > all as f64 * MUCH_SWAPPED);
        let verdict = match used {
            0 => return good(value),
            _ if much => Verdict::Warn,
            _ => Verdict::Note,
        };
        let advice = "sudo swapoff -a && sudo swapon -a   # needs that much memory free";
        (value, verdict, advice.to_owned())
    });
    judged(
        "swap",
        "A database whose cache is swapped out does I/O that it does not know of, and a hit in \
         its cache then costs a read.",
        seen,
    )
}

fn huge_pages(host: &Host) -> Check {
    let seen = host.huge_pages.as_ref().map(|mode| {
        if mode != "always" {
            return good(mode);
        }
        let advice = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
        (mode.clone(), Verdict::Note, advice.to_owned())
    });
    judged(
        "transparent huge pages",
        "With `always` the kernel moves memory about to make huge pages, which now and then stops \
         a database for milliseconds.",
        seen,
    )
}

fn memory_limit(host: &Host) -> Check {
    let limited = host.memory_limit_bytes.map(|limit| {
        let value = bytes(limit);
        if host.memory_bytes.is_some_and(|all| limit >= all) {
            return good(format!("{value}: all there is"));
        }
        let file = host.memory_limit_file.as_deref().unwrap_or("memory.max");
        let none = if file.ends_with("limit_in_bytes") { "-1" } else { "max" };
        (value, Verdict::Note, format!("echo {none} | sudo tee {file}"))
    });
    let unlimited = host.cgroup.as_ref().map(|_| good("no limit"));
    judged(
        "cgroup memory limit",
        "Caches of this control group, the page cache for its files among them, end at the limit: \
         less is cached than the host's memory lets one expect.",
        limited.or(unlimited),
    )
}

fn dirty_pages(host: &Host) -> Check {
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
        (value, Verdict::Note, advice.to_owned())
    });
    judged(
        "dirty pages before writing",
        "Writes through the page cache may gather so long before the kernel begins to write them \
         that a short run ends unpaid; direct I/O is not touched by this.",
        seen,
    )
}

fn raid(host: &Host) -> Check {
    let seen = host.raid_resyncs.as_ref().map(|resyncs| {
        let Some(RaidResync { device, .. }) = resyncs.first() else {
            return good("none");
        };
        let all: Vec<String> =
            resyncs.iter().map(|resync| format!("{} {}", resync.device, resync.work)).collect();
        let advice = format!("sudo mdadm --wait /dev/{device}   # ends when the array is done");
        (all.join(", "), Verdict::Warn, advice)
    });
    judged(
        "RAID resync",
        "An array that is being rebuilt or checked reads and writes all of its disks beside the \
         test.",
        seen,
    )
}

/// What a command calls the device whose queue it changes.
fn disk(device: &Device) -> &str {
    device.disk.as_deref().unwrap_or(&device.name)
}

fn scheduler(device: &Device) -> Check {
    let seen = device.scheduler.as_ref().map(|name| {
        let verdict = match name.as_str() {
            "bfq" | "cfq" => Verdict::Warn,
            "none" | "noop" => return good(name),
            _ if device.rotational != Some(false) => return good(name),
            _ => Verdict::Note,
        };
        let advice = format!("echo none | sudo tee /sys/block/{}/queue/scheduler", disk(device));
        (name.clone(), verdict, advice)
    });
    judged(
        format!("{}: scheduler", device.name),
        "A scheduler that sorts and shares out requests costs processor time and a lock for each \
         of them, and holds some back: a flash device needs none.",
        seen,
    )
}

fn read_ahead(device: &Device) -> Check {
    let seen = device.read_ahead_bytes.map(|ahead| {
        let value = bytes(ahead);
        if ahead <= USUAL_READ_AHEAD_BYTES {
            return good(value);
        }
        let sectors = USUAL_READ_AHEAD_BYTES / 512;
        let advice = format!("sudo blockdev --setra {sectors} /dev/{}", disk(device));
        (value, Verdict::Note, advice)
    });
    judged(
        format!("{}: read-ahead", device.name),
        "Reads through the page cache that look sequential, as scans and loads do, fetch up to so \
         much more than was asked for; direct I/O does not.",
        seen,
    )
}

fn write_cache(device: &Device) -> Check {
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
        (mode.clone(), Verdict::Note, advice)
    });
    judged(
        format!("{}: write cache", device.name),
        "Writes end in the device's own volatile memory and a commit pays with a flush: compare \
         writes only between devices in the same state.",
        seen,
    )
}

fn free_space(device: &Device) -> Check {
    let seen = device.file_system_bytes.zip(device.free_bytes).map(|(all, free)| {
        let value = format!("{} of {}", bytes(free), bytes(all));
        let verdict = match free as f64 / all.max(1) as f64 {
            share if share < VERY_LITTLE_FREE => Verdict::Warn,
            share if share < LITTLE_FREE => Verdict::Note,
            _ => return good(value),
        };
        let path = device.name.as_str();
        (value, verdict, format!("df -h /dev/{path}   # free some, or use another file system"))
    });
    judged(
        format!("{}: free space", device.name),
        "A nearly full file system scatters new files, a nearly full flash drive rewrites while it \
         works, and a load or a log may end with no space left.",
        seen,
    )
}

fn mount_options(device: &Device) -> Check {
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
        (spoiling.join(","), Verdict::Warn, advice)
    });
    judged(
        format!("{}: mount options", device.name),
        "Without barriers a commit is acknowledged from a volatile cache, while sync, data=journal \
         and compression make each write more work than the database asked for.",
        seen,
    )
}

/// `file: reason`, as the search for devices tells it.
fn unseen(file: &str) -> Check {
    let (path, reason) = file.split_once(": ").unwrap_or((file, "it is not known why"));
    Check {
        name: format!("device of {path}"),
        value: "not seen".to_owned(),
        verdict: Verdict::Warn,
        why: format!("What reaches the device stays unknown in every figure: {reason}."),
        advice: format!("findmnt -T {path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host() -> Host {
        Host {
            cpus: 8,
            memory_bytes: Some(64 << 30),
            devices: vec![Device { name: "nvme0n1p1".into(), ..Device::default() }],
            ..Host::default()
        }
    }

    fn on_device(change: impl FnOnce(&mut Device)) -> Host {
        let mut host = host();
        host.devices[0].disk = Some("nvme0n1".into());
        change(&mut host.devices[0]);
        host
    }

    fn found<'a>(checks: &'a [Check], name: &str) -> &'a Check {
        checks.iter().find(|check| check.name == name).unwrap()
    }

    fn verdict(host: &Host, name: &str) -> Verdict {
        found(&check(host), name).verdict
    }

    #[test]
    fn what_is_not_known_is_not_held_against_the_host() {
        let checks = check(&host());
        assert_eq!(checks.len(), 14);
        assert!(checks.iter().all(|check| check.verdict == Verdict::Unknown), "{checks:?}");
        assert!(checks.iter().all(|check| check.advice.is_empty()));
    }

    #[test]
    fn every_reason_is_one_sentence() {
        for check in check(&host()) {
            assert!(check.why.ends_with('.'), "{}", check.why);
            assert_eq!(check.why.matches(". ").count(), 0, "{}", check.why);
            assert!(!check.why.contains("  "), "{}", check.why);
        }
    }

    #[test]
    fn space_options_and_unseen_files_count() {
        let verdicts = |free: u64, options: &str| {
            let host = on_device(|device| {
                device.file_system = Some("ext4".into());
                (device.file_system_bytes, device.free_bytes) = (Some(1000), Some(free));
                device.mount_options = Some(options.into());
            });
            let of = |name: &str| verdict(&host, &format!("nvme0n1p1: {name}"));
            (of("free space"), of("mount options"))
        };
        assert_eq!(
            verdicts(100, "rw,noatime,data=ordered,barrier=1"),
            (Verdict::Good, Verdict::Good)
        );
        assert_eq!(verdicts(99, "rw,barrier=0"), (Verdict::Note, Verdict::Warn));
        assert_eq!(verdicts(29, "rw,compress=zstd:1"), (Verdict::Warn, Verdict::Warn));
        assert_eq!(verdicts(30, "rw,lazytime,async"), (Verdict::Note, Verdict::Good));
        let host = Host { unseen: vec!["/nas/x: its file system (nfs4) is far".into()], ..host() };
        let check = check(&host).pop().unwrap();
        assert_eq!((&*check.name, check.verdict), ("device of /nas/x", Verdict::Warn));
        assert!(check.why.ends_with("its file system (nfs4) is far."), "{}", check.why);
    }

    #[test]
    fn sleepy_processors_are_told_by_their_time_to_wake() {
        let with = |latency_us| {
            let deepest_idle = Some(IdleState { name: "C6".into(), latency_us });
            verdict(&Host { deepest_idle, ..host() }, "deepest C-state")
        };
        assert_eq!([0, 10, 11, 49, 50, 133].map(with), {
            use Verdict::*;
            [Good, Good, Note, Note, Warn, Warn]
        });
    }

    #[test]
    fn only_the_performance_governor_is_good() {
        let with = |name: &str| {
            let governor = Some(name.to_owned());
            verdict(&Host { governor, ..host() }, "processor governor")
        };
        assert_eq!(with("performance"), Verdict::Good);
        assert_eq!(with("performance, powersave"), Verdict::Warn);
    }

    #[test]
    fn clocks_that_cost_a_system_call_are_warned_of() {
        let with = |name: &str| {
            verdict(&Host { clock_source: Some(name.into()), ..host() }, "clock source")
        };
        assert_eq!(["tsc", "arch_sys_counter", "kvm-clock", "hpet", "acpi_pm", "xen"].map(with), {
            use Verdict::*;
            [Good, Good, Note, Warn, Warn, Warn]
        });
    }

    #[test]
    fn a_quota_counts_only_below_the_processors_there_are() {
        let with = |cpu_quota, file: &str| {
            let cpu_quota_file = Some(file.to_owned());
            check(&Host { cpu_quota, cpu_quota_file, cgroup: Some("/".into()), ..host() })
        };
        let name = "cgroup processor limit";
        assert_eq!(found(&with(None, ""), name).verdict, Verdict::Good);
        assert_eq!(found(&with(Some(8.0), "x/cpu.max"), name).verdict, Verdict::Good);
        let limited = with(Some(7.5), "/sys/fs/cgroup/db/cpu.max");
        assert_eq!(found(&limited, name).verdict, Verdict::Warn);
        assert_eq!(found(&limited, name).advice, "echo max | sudo tee /sys/fs/cgroup/db/cpu.max");
        let first = with(Some(1.0), "/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
        assert!(found(&first, name).advice.starts_with("echo -1 | "));
    }

    #[test]
    fn a_memory_limit_is_a_note_only_below_the_memory_there_is() {
        let with = |memory_limit_bytes| {
            verdict(&Host { memory_limit_bytes, ..host() }, "cgroup memory limit")
        };
        assert_eq!(with(None), Verdict::Unknown);
        assert_eq!(with(Some(64 << 30)), Verdict::Good);
        assert_eq!(with(Some(4 << 30)), Verdict::Note);
    }

    #[test]
    fn swap_counts_by_what_is_used() {
        let with = |total: u64, used: u64| {
            let (swap_total_bytes, swap_used_bytes) = (Some(total), Some(used));
            verdict(&Host { swap_total_bytes, swap_used_bytes, ..host() }, "swap")
        };
        assert_eq!(with(0, 0), Verdict::Good);
        assert_eq!(with(8 << 30, 0), Verdict::Good);
        assert_eq!(with(8 << 30, 10 << 20), Verdict::Note);
        assert_eq!(with(8 << 30, 1 << 30), Verdict::Warn);
    }

    #[test]
    fn load_counts_by_processor() {
        let with = |load| verdict(&Host { load_average: Some(load), ..host() }, "other load");
        assert_eq!([0.7, 0.9, 3.9, 4.0].map(with), {
            use Verdict::*;
            [Good, Note, Note, Warn]
        });
    }

    #[test]
    fn dirty_pages_count_by_their_bytes() {
        let with = |begin, memory| {
            let host = Host {
                memory_bytes: Some(memory),
                dirty_ratio: Some(20),
                dirty_background_ratio: Some(begin),
                ..host()
            };
            verdict(&host, "dirty pages before writing")
        };
        assert_eq!(with(10, 8 << 30), Verdict::Good);
        assert_eq!(with(10, 64 << 30), Verdict::Note);
        assert_eq!(with(0, 64 << 30), Verdict::Unknown);
    }

    #[test]
    fn schedulers_count_by_the_device() {
        let with = |name: &str, rotational| {
            let host = on_device(|device| {
                device.scheduler = Some(name.to_owned());
                device.rotational = rotational;
            });
            verdict(&host, "nvme0n1p1: scheduler")
        };
        assert_eq!(with("none", Some(false)), Verdict::Good);
        assert_eq!(with("mq-deadline", Some(true)), Verdict::Good);
        assert_eq!(with("mq-deadline", Some(false)), Verdict::Note);
        assert_eq!(with("bfq", Some(true)), Verdict::Warn);
    }

    #[test]
    fn advice_names_the_disk_of_a_partition() {
        let host = on_device(|device| {
            device.scheduler = Some("bfq".into());
            device.read_ahead_bytes = Some(8 << 20);
            device.write_cache = Some("write back".into());
        });
        let checks = check(&host);
        let advice = |name: &str| found(&checks, &format!("nvme0n1p1: {name}")).advice.clone();
        assert_eq!(advice("scheduler"), "echo none | sudo tee /sys/block/nvme0n1/queue/scheduler");
        assert_eq!(advice("read-ahead"), "sudo blockdev --setra 256 /dev/nvme0n1");
        assert!(advice("write cache").starts_with("sudo nvme get-feature /dev/nvme0n1 "));
    }

    #[test]
    fn devices_at_their_best_are_good() {
        let host = on_device(|device| {
            device.read_ahead_bytes = Some(128 << 10);
            device.write_cache = Some("write through".into());
        });
        assert_eq!(verdict(&host, "nvme0n1p1: read-ahead"), Verdict::Good);
        assert_eq!(verdict(&host, "nvme0n1p1: write cache"), Verdict::Good);
    }

    #[test]
    fn arrays_at_work_are_all_named() {
        let resync = |device: &str| RaidResync { device: device.into(), work: "check 1%".into() };
        let raid_resyncs = Some(vec![resync("md1"), resync("md2")]);
        let checks = check(&Host { raid_resyncs, ..host() });
        let raid = found(&checks, "RAID resync");
        assert_eq!(
            (raid.verdict, raid.value.as_str()),
            (Verdict::Warn, "md1 check 1%, md2 check 1%")
        );
        assert!(raid.advice.starts_with("sudo mdadm --wait /dev/md1"));
        let idle = Host { raid_resyncs: Some(Vec::new()), ..host() };
        assert_eq!(verdict(&idle, "RAID resync"), Verdict::Good);
    }

    proptest! {
        #[test]
        fn no_figure_upsets_the_checks_and_what_is_not_good_has_advice(
            sizes in prop::collection::vec(prop::option::of(any::<u64>()), 8),
            load in prop::option::of(0.0..1e300f64),
            quota in prop::option::of(1e-9..1e300f64),
            word in prop::option::of("\\PC{1,20}"),
            cpus in any::<u32>(),
        ) {
            let device = Device {
                name: "sda".into(),
                scheduler: word.clone(),
                write_cache: word.clone(),
                read_ahead_bytes: sizes[0],
                ..Device::default()
            };
            let host = Host {
                cpus,
                memory_bytes: sizes[1],
                memory_limit_bytes: sizes[2],
                swap_total_bytes: sizes[3],
                swap_used_bytes: sizes[4],
                dirty_ratio: sizes[5],
                dirty_background_ratio: sizes[6],
                deepest_idle: sizes[7].map(|latency_us| IdleState { name: "C".into(), latency_us }),
                governor: word.clone(),
                clock_source: word.clone(),
                huge_pages: word,
                load_average: load,
                cpu_quota: quota,
                devices: vec![device],
                ..Host::default()
            };
            for check in check(&host) {
                let has_advice = matches!(check.verdict, Verdict::Note | Verdict::Warn);
                prop_assert_eq!(!check.advice.is_empty(), has_advice, "{:?}", check);
            }
        }
    }
}
