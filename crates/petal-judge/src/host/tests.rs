use super::*;
use petal_host::host::{GroupLimits, HostDevice, IdleState, RaidResync};
use proptest::prelude::*;

fn host() -> HostFacts {
    HostFacts {
        cpus: 8,
        memory_bytes: Some(64 << 30),
        devices: vec![HostDevice { name: "nvme0n1p1".into(), ..HostDevice::default() }],
        ..HostFacts::default()
    }
}

fn on_device(change: impl FnOnce(&mut HostDevice)) -> HostFacts {
    let mut host = host();
    host.devices[0].disk = Some("nvme0n1".into());
    change(&mut host.devices[0]);
    host
}

fn found<'a>(checks: &'a [Check], name: &str) -> &'a Check {
    checks.iter().find(|check| check.name == name).unwrap()
}

fn verdict(host: &HostFacts, name: &str) -> CheckResult {
    found(&check(host), name).verdict
}

#[test]
fn an_unknown_fact_is_not_held_against_the_host() {
    let checks = check(&host());
    assert_eq!(checks.len(), 14);
    assert!(checks.iter().all(|check| check.verdict == CheckResult::Unknown), "{checks:?}");
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
        (CheckResult::Good, CheckResult::Good)
    );
    assert_eq!(verdicts(99, "rw,barrier=0"), (CheckResult::Note, CheckResult::Warn));
    assert_eq!(verdicts(29, "rw,compress=zstd:1"), (CheckResult::Warn, CheckResult::Warn));
    assert_eq!(verdicts(30, "rw,lazytime,async"), (CheckResult::Note, CheckResult::Good));
    let host = HostFacts { unseen: vec!["/nas/x: its file system (nfs4) is far".into()], ..host() };
    let check = check(&host).pop().unwrap();
    assert_eq!((&*check.name, check.verdict), ("device of /nas/x", CheckResult::Warn));
    assert!(check.why.ends_with("its file system (nfs4) is far."), "{}", check.why);
}

#[test]
fn sleepy_processors_are_reported_by_their_time_to_wake() {
    let with = |latency_us| {
        let deepest_idle = Some(IdleState { name: "C6".into(), latency_us });
        verdict(&HostFacts { deepest_idle, ..host() }, "deepest C-state")
    };
    assert_eq!([0, 10, 11, 49, 50, 133].map(with), {
        use CheckResult::*;
        [Good, Good, Note, Note, Warn, Warn]
    });
}

#[test]
fn only_the_performance_governor_is_good() {
    let with = |name: &str| {
        let governor = Some(name.to_owned());
        verdict(&HostFacts { governor, ..host() }, "processor governor")
    };
    assert_eq!(with("performance"), CheckResult::Good);
    assert_eq!(with("performance, powersave"), CheckResult::Warn);
}

#[test]
fn clocks_that_cost_a_system_call_are_warned_of() {
    let with = |name: &str| {
        verdict(&HostFacts { clock_source: Some(name.into()), ..host() }, "clock source")
    };
    assert_eq!(["tsc", "arch_sys_counter", "kvm-clock", "hpet", "acpi_pm", "xen"].map(with), {
        use CheckResult::*;
        [Good, Good, Note, Warn, Warn, Warn]
    });
}

#[test]
fn a_quota_counts_only_below_the_processors_there_are() {
    let with = |cpu_quota, file: &str| {
        let cpu_quota_file = Some(file.to_owned());
        check(&HostFacts { cpu_quota, cpu_quota_file, cgroup: Some("/".into()), ..host() })
    };
    let name = "cgroup processor limit";
    assert_eq!(found(&with(None, ""), name).verdict, CheckResult::Good);
    assert_eq!(found(&with(Some(8.0), "x/cpu.max"), name).verdict, CheckResult::Good);
    let limited = with(Some(7.5), "/sys/fs/cgroup/db/cpu.max");
    assert_eq!(found(&limited, name).verdict, CheckResult::Warn);
    assert_eq!(found(&limited, name).advice, "echo max | sudo tee /sys/fs/cgroup/db/cpu.max");
    let first = with(Some(1.0), "/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    assert!(found(&first, name).advice.starts_with("echo -1 | "));
}

#[test]
fn a_memory_limit_is_a_note_only_below_the_memory_there_is() {
    let with = |memory_limit_bytes| {
        verdict(&HostFacts { memory_limit_bytes, ..host() }, "cgroup memory limit")
    };
    assert_eq!(with(None), CheckResult::Unknown);
    assert_eq!(with(Some(64 << 30)), CheckResult::Good);
    assert_eq!(with(Some(4 << 30)), CheckResult::Note);
}

#[test]
fn swap_counts_by_what_is_used() {
    let with = |total: u64, used: u64| {
        let (swap_total_bytes, swap_used_bytes) = (Some(total), Some(used));
        verdict(&HostFacts { swap_total_bytes, swap_used_bytes, ..host() }, "swap")
    };
    assert_eq!(with(0, 0), CheckResult::Good);
    assert_eq!(with(8 << 30, 0), CheckResult::Good);
    assert_eq!(with(8 << 30, 10 << 20), CheckResult::Note);
    assert_eq!(with(8 << 30, 1 << 30), CheckResult::Warn);
}

#[test]
fn load_counts_by_processor() {
    let with = |load| verdict(&HostFacts { load_average: Some(load), ..host() }, "other load");
    assert_eq!([0.7, 0.9, 3.9, 4.0].map(with), {
        use CheckResult::*;
        [Good, Note, Note, Warn]
    });
}

#[test]
fn dirty_pages_count_by_their_bytes() {
    let with = |begin, memory| {
        let host = HostFacts {
            memory_bytes: Some(memory),
            dirty_ratio: Some(20),
            dirty_background_ratio: Some(begin),
            ..host()
        };
        verdict(&host, "dirty pages before writing")
    };
    assert_eq!(with(10, 8 << 30), CheckResult::Good);
    assert_eq!(with(10, 64 << 30), CheckResult::Note);
    assert_eq!(with(0, 64 << 30), CheckResult::Unknown);
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
    assert_eq!(with("none", Some(false)), CheckResult::Good);
    assert_eq!(with("mq-deadline", Some(true)), CheckResult::Good);
    assert_eq!(with("mq-deadline", Some(false)), CheckResult::Note);
    assert_eq!(with("bfq", Some(true)), CheckResult::Warn);
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
    assert_eq!(verdict(&host, "nvme0n1p1: read-ahead"), CheckResult::Good);
    assert_eq!(verdict(&host, "nvme0n1p1: write cache"), CheckResult::Good);
}

#[test]
fn arrays_at_work_are_all_named() {
    let resync = |device: &str| RaidResync { device: device.into(), work: "check 1%".into() };
    let raid_resyncs = Some(vec![resync("md1"), resync("md2")]);
    let checks = check(&HostFacts { raid_resyncs, ..host() });
    let raid = found(&checks, "RAID resync");
    assert_eq!(
        (raid.verdict, raid.value.as_str()),
        (CheckResult::Warn, "md1 check 1%, md2 check 1%")
    );
    assert!(raid.advice.starts_with("sudo mdadm --wait /dev/md1"));
    let idle = HostFacts { raid_resyncs: Some(Vec::new()), ..host() };
    assert_eq!(verdict(&idle, "RAID resync"), CheckResult::Good);
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
        let device = HostDevice {
            name: "sda".into(),
            scheduler: word.clone(),
            write_cache: word.clone(),
            read_ahead_bytes: sizes[0],
            ..HostDevice::default()
        };
        let host = HostFacts {
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
            ..HostFacts::default()
        };
        for check in check(&host) {
            let has_advice = matches!(check.verdict, CheckResult::Note | CheckResult::Warn);
            prop_assert_eq!(!check.advice.is_empty(), has_advice, "{:?}", check);
        }
    }
}

#[test]
fn the_limits_are_those_of_the_servers_group() {
    let server = GroupLimits {
        name: Some("/s60".into()),
        cpu_quota: Some(1.5),
        cpu_quota_file: Some("/sys/fs/cgroup/cpu/s60/cpu.cfs_quota_us".into()),
        memory_limit_bytes: Some(110 << 20),
        memory_limit_file: Some("/sys/fs/cgroup/memory/s60/memory.limit_in_bytes".into()),
    };
    let with = |cpu_quota: Option<f64>| {
        let server_group = Some(Box::new(server.clone()));
        check(&HostFacts { cgroup: Some("/".into()), cpu_quota, server_group, ..host() })
    };
    let limited = with(None);
    let processors = found(&limited, "cgroup processor limit");
    assert_eq!(processors.verdict, CheckResult::Warn);
    assert!(processors.advice.ends_with("/cpu/s60/cpu.cfs_quota_us"), "{}", processors.advice);
    let memory = found(&limited, "cgroup memory limit");
    assert_eq!((memory.verdict, memory.value.as_str()), (CheckResult::Note, "110 MiB"));
    let own = |checks: &[Check]| checks.iter().any(|it| it.name.starts_with("petal's cgroup"));
    assert!(!own(&limited) && own(&with(Some(0.5))), "petal's own limit is another row");
}
