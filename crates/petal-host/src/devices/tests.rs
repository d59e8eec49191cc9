use super::recorded::Recorded;
use super::*;

const DATA: (&str, (u32, u32)) = ("/data", (259, 2));
const SYSTEM: (&str, (u32, u32)) = ("/", (259, 1));
const IMAGE: (&str, (u32, u32)) = ("/image", (7, 0));

#[test]
fn a_partition_is_counted_itself_and_lies_on_its_disk() {
    let tree = Recorded::named("nvme-partitions");
    let found = tree.find(&["/data/petal/petal1.db", "/data/petal/petal2.db"], &[DATA]);
    let wanted = BlockDevice {
        name: "nvme0n1p2".into(),
        major: 259,
        minor: 2,
        path: "/data".into(),
        file_system: Some("ext4".into()),
        mount_options: Some("rw,noatime,data=ordered".into()),
        lies_on: vec!["nvme0n1".into()],
        flushed_at: vec![(259, 0)],
        ..BlockDevice::default()
    };
    assert_eq!(found.counted, [wanted]);
    assert!(found.unseen.is_empty(), "{:?}", found.unseen);
}

#[test]
fn two_partitions_of_a_disk_are_counted_apart_from_the_disk() {
    let tree = Recorded::named("nvme-partitions");
    assert_eq!(tree.find(&["/data/a", "/b"], &[DATA, SYSTEM]).names(), ["nvme0n1p2", "nvme0n1p1"]);
    let whole = ("/dev/nvme0n1", (259, 0));
    assert_eq!(tree.find(&["/data/a", "/dev/nvme0n1"], &[DATA, whole]).names(), ["nvme0n1"]);
}

#[test]
fn a_loop_device_lies_on_its_file_and_is_not_counted_twice() {
    let tree = Recorded::named("nvme-partitions");
    let alone = &tree.find(&["/image/a"], &[IMAGE]).counted[0];
    assert_eq!((&*alone.name, &*alone.lies_on), ("loop0", &["/data/disk.img".to_owned()][..]));
    assert_eq!(alone.flushed_at, [(7, 0)]);
    let numbers = [IMAGE, DATA, ("/data/disk.img", (259, 2))];
    let both = tree.find(&["/image/a", "/data/b"], &numbers);
    assert_eq!(both.names(), ["nvme0n1p2"]);
    let why = both.data_unseen.unwrap();
    assert!(why.starts_with("loop0 and nvme0n1p2, on which it lies, both have data"), "{why}");
}

#[test]
fn the_datas_own_device_is_counted_and_not_the_one_below_that_others_read() {
    let tree = Recorded::named("nvme-partitions");
    let numbers = [IMAGE, DATA, ("/data/disk.img", (259, 2)), SYSTEM];
    let found = tree.find_for(&["/image/a"], &["/data/pg_wal"], &numbers);
    assert_eq!((found.names(), below(&found)), (vec!["loop0".to_owned()], vec!["nvme0n1"]));
    assert!(found.data_unseen.is_none() && found.unseen[0].contains("below loop0"), "{found:?}");
    // A log on a loop device on the data's own device is counted there, a log elsewhere itself.
    let found = tree.find_for(&["/data/b"], &["/image/log"], &numbers);
    assert_eq!((found.names(), found.unseen), (vec!["nvme0n1p2".to_owned()], vec![]));
    let found = tree.find_for(&["/image/a"], &["/log"], &numbers);
    assert_eq!(found.names(), ["loop0", "nvme0n1p1"]);
    let of_others = |it: &BlockDevice| it.of_others;
    assert_eq!(found.counted.iter().map(of_others).collect::<Vec<_>>(), [false, true]);
    // The drive below is the data's, too.
    let of_others: Vec<_> = found.layers.iter().filter(|layer| layer.of_others).collect();
    assert_eq!(of_others.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["nvme0n1p1"]);
}

#[test]
fn a_file_system_in_a_folder_that_petal_may_not_enter_is_found_by_its_mount() {
    let tree = Recorded::named("nvme-partitions");
    let mounts = tree.text("proc/self/mountinfo");
    let inside = "90 27 7:0 / /data/pg/space rw - ext4 /dev/loop0 rw\n";
    tree.write("proc/self/mountinfo", &(mounts + inside));
    let numbers = [DATA, ("/data/pg", (259, 2)), ("/data/disk.img", (259, 2))];
    assert_eq!(tree.find(&["/data/pg/space/file"], &numbers).names(), ["loop0"]);
    assert_eq!(tree.find(&["/data/pg/spaces"], &numbers).names(), ["nvme0n1p2"]);
}

#[test]
fn a_volume_lies_on_its_raid_and_is_flushed_at_the_disks() {
    let tree = Recorded::named("lvm-on-raid");
    let found = tree.find(&["/data/a", "/log/b"], &[("/data", (253, 0)), ("/log", (253, 1))]);
    let [data, log] = &found.counted[..] else { panic!("{found:?}") };
    assert_eq!((&*data.name, &*data.lies_on), ("dm-0", &["md0".to_owned()][..]));
    assert_eq!(data.flushed_at, [(8, 0), (8, 16)]);
    assert_eq!((&*log.name, &*log.lies_on), ("dm-1", &["sdc".to_owned()][..]));
    let raid = tree.find(&["/dev/md0"], &[("/dev/md0", (9, 0))]);
    assert_eq!(raid.counted[0].lies_on, ["sda1", "sdb1"]);
    let both = tree.find(&["/data/a", "/dev/md0"], &[("/data", (253, 0)), ("/dev/md0", (9, 0))]);
    assert_eq!(both.names(), ["md0"]);
}

fn below(found: &DataDevices) -> Vec<&str> {
    found.below.iter().map(|device| device.name.as_str()).collect()
}

#[test]
fn the_disks_at_the_bottom_are_watched_and_not_added_up() {
    let tree = Recorded::named("lvm-on-raid");
    let volume = tree.find(&["/data/a"], &[("/data", (253, 0))]);
    assert_eq!((volume.names(), below(&volume)), (vec!["dm-0".into()], vec!["sda", "sdb"]));
    let both = tree.find(&["/data/a", "/log/b"], &[("/data", (253, 0)), ("/log", (253, 1))]);
    assert_eq!(below(&both), ["sda", "sdb", "sdc"]);
    let tree = Recorded::named("nvme-partitions");
    assert_eq!(below(&tree.find(&["/data/a"], &[DATA])), ["nvme0n1"]);
    // Through the file behind a loop device, and its partition.
    let numbers = [IMAGE, ("/data/disk.img", (259, 2))];
    assert_eq!(below(&tree.find(&["/image/a"], &numbers)), ["nvme0n1"]);
    // A whole disk has nothing below.
    let whole = tree.find(&["/dev/nvme0n1"], &[("/dev/nvme0n1", (259, 0))]);
    assert!(below(&whole).is_empty());
}

#[test]
fn every_disk_is_one_with_hardware_behind_it() {
    let tree = Recorded::of(
        "/sys/block/sda -> ../devices/sda\n/sys/block/sr0 -> ../devices/sr0\n\
         /sys/block/dm-0 -> ../devices/dm-0\n/sys/block/nvme0c0n1 -> ../devices/nvme0c0n1\n\
         /sys/block/sdb -> ../devices/sdb\n\
         /sys/devices/sda/device = x\n/sys/devices/sda/size = 8\n/sys/devices/sda/dev = 8:0\n\
         /sys/devices/sr0/device = x\n/sys/devices/sr0/size = 0\n\
         /sys/devices/dm-0/size = 8\n\
         /sys/devices/nvme0c0n1/device = x\n/sys/devices/nvme0c0n1/hidden = 1\n\
         /sys/devices/sdb/device = x\n/sys/devices/sdb/queue/iostats = 0\n",
    );
    let found = all_disks(tree.roots());
    assert_eq!(found.names(), ["sda"]);
    assert_eq!(
        (found.counted[0].major, found.counted[0].flushed_at.as_slice()),
        (8, &[(8, 0)][..])
    );
    assert!(found.unseen[0].contains("sdb") && found.unseen[0].contains("iostats"));
    assert!(all_disks(Recorded::of("").roots()).counted.is_empty());
}

#[test]
fn btrfs_is_counted_at_all_its_members() {
    let tree = Recorded::named("btrfs-two-disks");
    let found = tree.find(&["/home/a"], &[("/home", (0, 34)), ("/dev/sda2", (8, 2))]);
    assert_eq!(found.names(), ["sda2", "sdb"], "{found:?}");
    assert_eq!(found.counted[1].file_system.as_deref(), Some("btrfs"));
    let hidden = tree.find(&["/home/a"], &[("/home", (0, 34))]);
    assert!(hidden.counted.is_empty() && hidden.unseen[0].contains("btrfs"), "{hidden:?}");
}

#[test]
fn a_path_without_a_device_is_reported_with_its_reason() {
    let tree = Recorded::named("btrfs-two-disks");
    let found = tree
        .find(&["/nas/a", "/nas/b", "/container/c"], &[("/nas", (0, 52)), ("/container", (0, 53))]);
    insta::assert_snapshot!(found.unseen.join("\n"), @"
    /nas/a: its file system (nfs4) comes from another host, whose devices are not seen here
    /container/c: its file system (overlay) is a container's layers, which do not show their device; put the data on a volume
    ");
    assert!(tree.find(&["/nowhere"], &[]).unseen[0].contains("not there"));
    let memory = Recorded::named("nvme-partitions").find(&["/dev/shm/x"], &[("/dev/shm", (0, 25))]);
    assert!(memory.unseen[0].contains("memory"), "{:?}", memory.unseen);
    assert!(matches!(memory.layers[0].bottom, Some(Bottom::Memory(_))), "{:?}", memory.layers);
}

#[test]
fn a_device_in_memory_is_memory_also_if_it_is_not_counted() {
    let tree = Recorded::of(
        "/proc/self/mountinfo = 28 26 251:1 / /data rw - ext4 /dev/zram1 rw\n\
         /sys/dev/block/251:1 -> ../../devices/virtual/block/zram1\n\
         /sys/devices/virtual/block/zram1/queue/iostats = 0\n",
    );
    let found = tree.find(&["/data/a"], &[("/data", (251, 1))]);
    assert!(found.counted.is_empty());
    assert_eq!(found.unseen, ["/data/a: zram1 is this host's memory"]);
    assert_eq!(found.layers[0].name, "zram1");
    assert!(matches!(found.layers[0].bottom, Some(Bottom::Memory(_))), "{:?}", found.layers);
}

/// Another process with other mounts, as in a container, on a file system without a device number.
#[test]
fn files_of_a_process_are_looked_for_among_its_own_mounts() {
    let tree = Recorded::named("btrfs-two-disks");
    tree.write("proc/self/mountinfo", "27 1 254:0 / / rw - ext4 /dev/vda rw\n");
    tree.write("proc/77/mountinfo", "60 50 0:77 /pg /srv/pg rw - btrfs /dev/sda2 rw\n");
    let roots = tree.roots();
    let file = roots.proc.join("77/root/srv/pg/base");
    let folder = roots.proc.join("77/root/srv/pg");
    let number = |path: &Path| match path {
        path if path == folder => Some(rustix::fs::makedev(0, 77)),
        path if path == Path::new("/dev/sda2") => Some(rustix::fs::makedev(8, 2)),
        _ => None,
    };
    let found = find_under(roots, &[file], &[], number);
    assert_eq!(found.names(), ["sda2", "sdb"], "{found:?}");
    assert_eq!((&*found.counted[0].path, found.unseen.len()), (&*folder, 0));
}

#[test]
fn a_file_of_a_process_with_the_same_mounts_keeps_its_path() {
    let own = std::process::id();
    let here = std::env::current_dir().unwrap();
    assert_eq!(seen_by(&Roots::default(), own, &here), Ok(here));
    // Other mounts, and a root folder that is not there.
    let tree = Recorded::named("btrfs-two-disks");
    tree.write("proc/77/mountinfo", "60 50 8:1 / / rw - ext4 /dev/sda1 rw\n");
    let error = seen_by(&tree.roots(), 77, Path::new("/home/a")).unwrap_err();
    assert!(error.contains("/home/a is in other mounts than petal's"), "{error}");
}

#[test]
fn a_device_that_the_kernel_does_not_count_is_reported() {
    let tree = Recorded::named("nvme-partitions");
    tree.write("sys/devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1/queue/iostats", "0\n");
    let found = tree.find(&["/data/a"], &[DATA]);
    assert!(found.counted.is_empty() && found.unseen[0].contains("iostats"), "{found:?}");
}

#[test]
fn this_machine_is_counted_or_reported_as_unseen() {
    let found = find(&[std::env::current_dir().unwrap(), "not-there-yet".into()]);
    assert_eq!(found.counted.len() + found.unseen.len(), 1, "{found:?}");
}
