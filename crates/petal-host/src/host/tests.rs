use super::facts::{raid_resyncs, runs_under_a_hypervisor};
use super::*;
use crate::cgroup::UNLIMITED_BYTES;
use crate::devices::BlockDevice;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The kernel's trees, recorded.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, link: &str, target: &str) {
        let link = self.0.path().join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(self.0.path().join(target), link).unwrap();
    }

    fn roots(&self) -> Roots {
        Roots { proc: self.0.path().join("proc"), sys: self.0.path().join("sys") }
    }

    fn host(&self) -> HostFacts {
        HostFacts::collect_under(&self.roots(), None)
    }

    fn devices(&self, name: &str, minor: u32, lies_on: &[&str]) -> Vec<HostDevice> {
        let block = BlockDevice {
            name: name.into(),
            major: 8,
            minor,
            file_system: Some("xfs".into()),
            mount_options: Some("rw,noatime".into()),
            lies_on: lies_on.iter().map(|name| (*name).to_owned()).collect(),
            ..BlockDevice::default()
        };
        let counted = vec![block];
        let found = DataDevices { roots: self.roots(), counted, ..DataDevices::default() };
        HostFacts::collect(Some(&found)).devices
    }

    fn disk(&self, folder: &str, queue: &[(&str, &str)]) {
        for (fact, text) in queue {
            self.write(&format!("sys/devices/{folder}/queue/{fact}"), text);
        }
        let name = Path::new(folder).file_name().unwrap().to_str().unwrap();
        self.link(&format!("sys/class/block/{name}"), &format!("sys/devices/{folder}"));
    }
}

const CPUINFO: &str = "processor\t: 0\nmodel name\t: Example CPU @ 2.30GHz\n\
    flags\t\t: fpu tsc hypervisor lm\n\nprocessor\t: 1\nmodel name\t: Another\n";

#[test]
fn a_host_is_read_from_its_trees() {
    let host = Tree::new(&[
        ("proc/cpuinfo", CPUINFO),
        ("proc/meminfo", "MemTotal: 1000 kB\nSwapTotal: 500 kB\nSwapFree:  480 kB\n"),
        ("proc/loadavg", "1.25 0.80 0.40 2/345 6789\n"),
        ("proc/sys/vm/dirty_ratio", "20\n"),
        ("proc/sys/vm/dirty_background_ratio", "10\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ("sys/class/dmi/id/product_name", "Standard PC\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpufreq/scaling_governor", "no processor\n"),
    ])
    .host();
    let expected = HostFacts {
        name: host.name.clone(),
        kernel: host.kernel.clone(),
        cpus: host.cpus,
        cpu_model: Some("Example CPU @ 2.30GHz".into()),
        memory_bytes: Some(1000 << 10),
        governor: Some("performance, schedutil".into()),
        swap_total_bytes: Some(500 << 10),
        swap_used_bytes: Some(20 << 10),
        huge_pages: Some("madvise".into()),
        load_average: Some(1.25),
        clock_source: Some("tsc".into()),
        virtual_machine: Some(true),
        product: Some("QEMU Standard PC".into()),
        dirty_ratio: Some(20),
        dirty_background_ratio: Some(10),
        ..HostFacts::default()
    };
    assert_eq!(host, expected);
    assert!(host.cpus >= 1 && !host.kernel.is_empty());
}

#[test]
fn a_missing_file_is_unknown() {
    let host = Tree::new(&[]).host();
    let (name, kernel) = (host.name.clone(), host.kernel.clone());
    assert_eq!(host, HostFacts { name, kernel, cpus: host.cpus, ..HostFacts::default() });
}

#[test]
fn a_processor_without_the_flag_is_no_virtual_machine() {
    assert_eq!(runs_under_a_hypervisor("flags\t: fpu tsc\n"), Some(false));
    assert_eq!(runs_under_a_hypervisor("Features\t: fp asimd\n"), None);
}

#[test]
fn the_deepest_idle_state_is_the_slowest_that_is_enabled() {
    let state = |cpu: u32, number: u32, facts: [&'static str; 3]| {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{number}");
        ["name", "latency", "disable"]
            .into_iter()
            .zip(facts)
            .map(move |(fact, text)| (format!("{folder}/{fact}"), text))
    };
    let tree = Tree::new(&[]);
    let states = [
        state(0, 0, ["POLL", "0", "0"]),
        state(0, 1, ["C1E", "10", "0"]),
        state(0, 2, ["C6", "133", "1"]),
        state(11, 2, ["C3", "50", "0"]),
    ];
    states.into_iter().flatten().for_each(|(path, text)| tree.write(&path, text));
    let deepest = tree.host().deepest_idle;
    assert_eq!(deepest, Some(IdleState { name: "C3".into(), latency_us: 50 }));
}

#[test]
fn limits_of_the_second_hierarchy_are_the_least_around_petal() {
    let host = Tree::new(&[
        ("proc/self/cgroup", "0::/system.slice/db.service\n"),
        ("sys/fs/cgroup/cgroup.procs", ""),
        ("sys/fs/cgroup/system.slice/cgroup.procs", ""),
        ("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"),
        ("sys/fs/cgroup/system.slice/memory.max", "max\n"),
        ("sys/fs/cgroup/system.slice/db.service/cgroup.procs", ""),
        ("sys/fs/cgroup/system.slice/db.service/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/system.slice/db.service/memory.max", "4194304\n"),
        ("sys/fs/cgroup/system.slice/db.service/memory.high", "2097152\n"),
    ])
    .host();
    assert_eq!(host.cgroup.as_deref(), Some("/system.slice/db.service"));
    assert_eq!(host.cpu_quota, Some(1.5));
    assert_eq!(host.cpu_quota_file.as_deref(), Some("/sys/fs/cgroup/system.slice/cpu.max"));
    assert_eq!(host.memory_limit_bytes, Some(2 << 20));
    assert_eq!(
        host.memory_limit_file.as_deref(),
        Some("/sys/fs/cgroup/system.slice/db.service/memory.high")
    );
}

#[test]
fn limits_of_the_first_hierarchy_are_found_by_controller() {
    let tree = Tree::new(&[
        ("proc/self/cgroup", "4:memory:/db\n2:cpu,cpuacct:/\n1:cpuset:/\n0::/\n"),
        ("sys/fs/cgroup/cpu,cpuacct/tasks", ""),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/memory/tasks", ""),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/memory/db/tasks", ""),
        ("sys/fs/cgroup/memory/db/memory.limit_in_bytes", "1048576\n"),
    ]);
    let host = tree.host();
    assert_eq!(host.cpu_quota, Some(0.5));
    assert_eq!(host.memory_limit_bytes, Some(1 << 20));
    assert_eq!(host.cgroup.as_deref(), Some("/db"));
    tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    tree.write("sys/fs/cgroup/memory/db/memory.limit_in_bytes", "9223372036854771712\n");
    let host = tree.host();
    assert_eq!((host.cpu_quota, host.memory_limit_bytes), (None, None));
    assert!(host.cgroup.is_some());
}

#[test]
fn in_a_container_the_top_is_its_own_group() {
    for path in ["/../../db.scope", "/docker/0123", "/"] {
        let host = Tree::new(&[
            ("proc/self/cgroup", &format!("0::{path}\n")),
            ("sys/fs/cgroup/cgroup.procs", ""),
            ("sys/fs/cgroup/cpu.max", "200000 100000\n"),
        ])
        .host();
        assert_eq!(host.cpu_quota, Some(2.0), "{path}");
        assert_eq!(host.cpu_quota_file.as_deref(), Some("/sys/fs/cgroup/cpu.max"));
    }
}

#[test]
fn without_a_cgroup_tree_limits_are_not_known() {
    assert_eq!(Tree::new(&[("proc/self/cgroup", "0::/\n")]).host().cgroup, None);
}

#[test]
fn resyncs_are_reported_by_array() {
    let text = "Personalities : [raid1] [raid6]\n\
        md1 : active raid1 sdb1[1] sda1[0]\n      \
        976630464 blocks super 1.2 [2/1] [_U]\n      \
        [==>..................]  recovery = 12.6% (37043392/292945152) finish=127.5min\n\n\
        md2 : active raid1 sdb2[1]\n      100 blocks\n      \tresync=DELAYED\n      \
        bitmap: 1/8 pages [4KB], 65536KB chunk\n\n\
        md3 : active raid1 sdb3[1]\n      100 blocks [1/1] [U]\n\nunused devices: <none>\n";
    let resync = |device: &str, work: &str| RaidResync { device: device.into(), work: work.into() };
    let expected = [resync("md1", "recovery 12.6%"), resync("md2", "resync DELAYED")];
    assert_eq!(raid_resyncs(text), expected);
    let idle = Tree::new(&[("proc/mdstat", "Personalities : \nunused devices: <none>\n")]);
    assert_eq!(idle.host().raid_resyncs, Some(Vec::new()));
}

#[test]
fn a_partition_reads_its_disks_queue() {
    let tree = Tree::new(&[
        ("sys/devices/nvme0n1/nvme0n1p2/partition", "2\n"),
        ("sys/devices/nvme0n1/nvme0n1p2/size", "2048\n"),
        ("sys/devices/nvme0n1/size", "9999\n"),
        ("sys/devices/nvme0n1/device/model", "Example SSD  \n"),
    ]);
    let queue = [
        ("scheduler", "none [mq-deadline] kyber\n"),
        ("rotational", "0\n"),
        ("write_cache", "write back\n"),
        ("read_ahead_kb", "128\n"),
        ("nr_requests", "256\n"),
        ("discard_max_bytes", "2199023255040\n"),
    ];
    tree.disk("nvme0n1", &queue);
    tree.link("sys/dev/block/8:2", "sys/devices/nvme0n1/nvme0n1p2");
    let expected = HostDevice {
        name: "nvme0n1p2".into(),
        model: Some("Example SSD".into()),
        file_system: Some("xfs".into()),
        scheduler: Some("mq-deadline".into()),
        rotational: Some(false),
        write_cache: Some("write back".into()),
        size_bytes: Some(1 << 20),
        mount_options: Some("rw,noatime".into()),
        read_ahead_bytes: Some(128 << 10),
        nr_requests: Some(256),
        lies_on: vec!["nvme0n1".into()],
        disk: Some("nvme0n1".into()),
        disk_bytes: Some(9999 * 512),
        discards: Some(true),
        ..HostDevice::default()
    };
    assert_eq!(tree.devices("nvme0n1p2", 2, &["nvme0n1"]), [expected]);
}

#[test]
fn a_volumes_members_follow_it_down_to_the_disks() {
    let tree = Tree::new(&[("sys/devices/sda/sda1/partition", "1\n")]);
    tree.disk("dm-0", &[("scheduler", "none\n")]);
    tree.disk("md0", &[]);
    tree.disk("sda", &[("scheduler", "[bfq] none\n")]);
    tree.disk("sda/sda1", &[]);
    tree.disk("sdb", &[("scheduler", "[none] bfq\n"), ("rotational", "1\n")]);
    tree.link("sys/dev/block/8:0", "sys/devices/dm-0");
    // Members that name each other must end as well.
    for (volume, member, folder) in [
        ("dm-0", "md0", "md0"),
        ("md0", "sda1", "sda/sda1"),
        ("md0", "sdb", "sdb"),
        ("sdb", "dm-0", "dm-0"),
    ] {
        let link = format!("sys/devices/{volume}/slaves/{member}");
        tree.link(&link, &format!("sys/devices/{folder}"));
    }
    let devices = tree.devices("dm-0", 0, &["md0"]);
    let seen: Vec<(&str, Option<&str>, &[String])> = devices
        .iter()
        .map(|device| {
            (device.name.as_str(), device.scheduler.as_deref(), device.lies_on.as_slice())
        })
        .collect();
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        seen,
        [
            ("dm-0", Some("none"), names(&["md0"]).as_slice()),
            ("md0", None, names(&["sda1", "sdb"]).as_slice()),
            ("sda1", Some("bfq"), names(&["sda"]).as_slice()),
            ("sdb", Some("none"), names(&["dm-0"]).as_slice()),
        ]
    );
}

#[test]
fn a_record_of_before_these_facts_is_still_read() {
    let old = r#"{"name":"a","kernel":"6","cpus":2,"cpu_model":null,"memory_bytes":1,
        "devices":[{"name":"vda","model":null,"file_system":"ext4","scheduler":null,
        "rotational":null,"write_cache":null,"size_bytes":null}]}"#;
    let host: HostFacts = serde_json::from_str(old).unwrap();
    assert_eq!((host.cpus, host.devices[0].name.as_str()), (2, "vda"));
    assert_eq!((host.cpu_quota, host.devices[0].read_ahead_bytes), (None, None));
}

#[test]
fn this_machine_is_understood() {
    let devices = super::super::devices::find(&[std::env::current_dir().unwrap()]);
    let host = HostFacts::collect(Some(&devices));
    assert!(host.memory_bytes.unwrap() > 0 && host.load_average.is_some());
    assert!(host.devices.len() >= devices.counted.len());
    assert!(host.devices.iter().all(|device| device.size_bytes.is_some()), "{host:?}");
}

const FILES: [&str; 26] = [
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/mdstat",
    "proc/loadavg",
    "proc/self/cgroup",
    "proc/sys/vm/dirty_ratio",
    "proc/sys/vm/dirty_background_ratio",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "sys/class/dmi/id/sys_vendor",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/name",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/latency",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/disable",
    "sys/fs/cgroup/cgroup.procs",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/memory.max",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us",
    "sys/devices/sda/size",
    "sys/devices/sda/device/model",
    "sys/devices/sda/queue/scheduler",
    "sys/devices/sda/queue/rotational",
    "sys/devices/sda/queue/write_cache",
    "sys/devices/sda/queue/read_ahead_kb",
    "sys/devices/sda/queue/nr_requests",
];

/// Near misses of the kernel's texts, and any other bytes, text or not.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        "\\PC{0,60}".prop_map(String::into_bytes),
        "(md0 : |resync|recovery|=|\\[|\\]|:|0::/|\\.\\./|cpu|,|flags|nan|inf|-1|max|\
            MemTotal:| |\n|[0-9]{1,25}){0,14}"
            .prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_garbage_upsets_the_readers(
        texts in prop::collection::vec(garbage(), FILES.len()..=FILES.len()),
    ) {
        let tree = Tree::new(&[]);
        for (path, text) in FILES.iter().zip(&texts) {
            tree.write(path, "");
            fs::write(tree.0.path().join(path), text).unwrap();
        }
        tree.link("sys/dev/block/8:0", "sys/devices/sda");
        let mut host = tree.host();
        host.devices = tree.devices("sda", 0, &["sda"]);
        prop_assert!(host.load_average.is_none_or(|load| load.is_finite() && load >= 0.0));
        prop_assert!(host.cpu_quota.is_none_or(|quota| quota.is_finite() && quota > 0.0));
        prop_assert_eq!(host.cpu_quota.is_some(), host.cpu_quota_file.is_some());
        let text = serde_json::to_string(&host).unwrap();
        // The exact value of a float may move by a last digit in text.
        host.load_average = None;
        host.cpu_quota = None;
        let mut back: HostFacts = serde_json::from_str(&text).unwrap();
        back.load_average = None;
        back.cpu_quota = None;
        prop_assert_eq!(back, host.clone());
        prop_assert!(sizes_are_sane(&host));
    }
}

fn sizes_are_sane(host: &HostFacts) -> bool {
    host.memory_limit_bytes.is_none_or(|limit| limit < UNLIMITED_BYTES)
        && host.devices.iter().all(|device| device.size_bytes.is_none_or(|n| n % 512 == 0))
        && host.governor.as_deref() != Some("")
        && host.huge_pages.as_deref() != Some("")
}
