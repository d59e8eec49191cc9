//! What petal counts of a block device, against known I/O past the page cache. On a loop device of
//! the test's own nothing else is counted; on the real device others only add.

use std::fs::{File, OpenOptions};
use std::io::{Write as _, stderr};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use petal_host::devices::{self, DataDevices};
use petal_host::os::requests::{RequestKind, Requests};
use petal_host::os::time_buckets::GroupTimes as _;
use petal_host::os::{DatabaseLocation, DeviceCounts, OsInterval, Probe};

use crate::fuse::{BACKGROUND, Fuse};
use crate::support::{Loop, Mount, Workplace, record, run, say, skip};
use crate::{server_mysql, server_postgres};

const BLOCK: usize = 8192;
const BLOCKS: u64 = 1024;
const READS: u64 = 2000;
const WRITES: u64 = 200;

/// The bytes of so many blocks.
fn bytes(blocks: u64) -> u64 {
    blocks * BLOCK as u64
}

/// Reads blocks in an order that no read-ahead follows, then writes and syncs some, one by one.
fn work(file: &File) {
    // O_DIRECT wants memory that begins at a device's block.
    let mut memory = vec![7; BLOCK + 4096];
    let from = memory.as_ptr().align_offset(4096);
    let buffer = &mut memory[from..from + BLOCK];
    let place = |number: u64| bytes(number * 397 % BLOCKS);
    (0..READS).for_each(|read| file.read_exact_at(buffer, place(read)).unwrap());
    for write in 0..WRITES {
        file.write_all_at(buffer, place(write)).unwrap();
        file.sync_data().unwrap();
    }
}

fn direct(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path)
}

fn counted(found: &DataDevices, path: &Path) -> DeviceCounts {
    let probe = Probe::new(found);
    let file = direct(path).unwrap();
    let before = probe.sample();
    work(&file);
    probe.sample().since(&before).device().unwrap()
}

#[test]
fn the_real_device_counts_no_less_than_was_read() {
    let place = Workplace::new();
    let path = place.write("blocks", vec![1; bytes(BLOCKS) as usize]);
    File::open(&path).unwrap().sync_all().unwrap();
    let found = devices::find(std::slice::from_ref(&path));
    if found.counted.is_empty() || direct(&path).is_err() {
        return skip(&format!("the source's device is not seen: {:?}", found.unseen));
    }
    let counts = counted(&found, &path);
    assert!(counts.read_bytes as f64 >= bytes(READS) as f64 * 0.97, "{counts:?}");
    assert!(counts.read_requests as f64 >= READS as f64 * 0.97, "{counts:?}");
    assert!(counts.write_bytes as f64 >= bytes(WRITES) as f64 * 0.97, "{counts:?}");
}

#[test]
fn a_device_of_its_own_and_its_partition_agree_within_three_per_cent() {
    let Some(disk) = Loop::new(12) else { return };
    agrees(disk.device());
    match Partition::of(disk.device()) {
        Ok(partition) => agrees(&partition.name),
        Err(why) => skip(&why),
    }
}

fn agrees(device: &str) {
    let path = Path::new(device);
    let found = devices::find(&[PathBuf::from(device)]);
    assert_eq!(found.names(), [path.file_name().unwrap().to_str().unwrap()]);
    let counts = counted(&found, path);
    let pairs = [
        (counts.read_bytes, bytes(READS)),
        (counts.read_requests, READS),
        (counts.write_bytes, bytes(WRITES)),
        (counts.flushes, WRITES),
        // A flush is counted among the writes as well, with no bytes.
        (counts.write_requests, WRITES + counts.flushes),
    ];
    for (counted, known) in pairs {
        let ratio = counted as f64 / known as f64;
        assert!((0.97..=1.03).contains(&ratio), "{counted} of {known}: {counts:?}");
    }
}

/// The difference of two samples around some work on a device, with times of its requests. None if
/// they cannot be timed here: a skip.
fn timed(device: &Path, work: impl FnOnce()) -> Option<(OsInterval, Requests)> {
    let found = devices::find(&[device.to_owned()]);
    let source = match petal_latency::requests::watch(&found, &DatabaseLocation::InPetal) {
        Ok(source) => source,
        Err(why) => {
            skip(&format!("requests cannot be timed: {why}"));
            return None;
        }
    };
    let probe = Probe::new(&found).with_requests(Some(source));
    let before = probe.sample();
    work();
    let interval = probe.sample().since(&before);
    // The disk below a loop device's file is timed, too.
    let mut requests = interval.requests.clone().unwrap();
    requests.times.retain(|times| found.names().contains(&times.device));
    Some((interval, requests))
}

#[test]
fn every_request_that_a_device_counts_is_timed() {
    let Some(disk) = Loop::new(12) else { return };
    let path = Path::new(disk.device());
    let file = direct(path).unwrap();
    let began = Instant::now();
    let Some((interval, requests)) = timed(path, || work(&file)) else { return };
    let elapsed_us = began.elapsed().as_secs_f64() * 1e6;
    let counts = interval.device().unwrap();
    let times = |kind| requests.service(kind, |_| true).summary();
    let (read, write) = (times(RequestKind::Read), times(RequestKind::Write));
    assert!(counts.read_requests >= READS, "{counts:?}");
    // On a busy machine the kernel runs no program for a few of them.
    let all_but_few = |timed: u64, counted: u64| timed <= counted && timed * 100 >= counted * 99;
    assert!(all_but_few(read.count, counts.read_requests), "{read:?} of {counts:?}");
    assert!(all_but_few(times(RequestKind::Flush).count, counts.flushes), "{requests:?}");
    // The kernel counts a flush among the writes, too.
    assert!(all_but_few(write.count, counts.write_requests - counts.flushes), "{write:?}");
    let total_us = read.mean.unwrap() * read.count as f64 + write.mean.unwrap() * WRITES as f64;
    assert!(total_us > 0.0 && total_us < elapsed_us, "{total_us} of {elapsed_us} us");
    // The kernel adds up the same time of all reads, until a moment later.
    let reads = requests.times.iter().filter(|times| times.kind == RequestKind::Read);
    let sum = reads.cloned().reduce(|sum, times| sum.plus(&times)).unwrap();
    assert_eq!((sum.queue.count(), sum.total.count()), (read.count, read.count));
    assert_eq!(sum.total.total_ns, sum.service.total_ns + sum.queue.total_ns);
    let total_ms = sum.total.total_ns as f64 / 1e6;
    let kernel_ms = counts.read_ms as f64;
    assert!(total_ms < kernel_ms + 1.0, "{total_ms} of {kernel_ms} ms");
    assert!(total_ms > kernel_ms / 2.0 - 1.0, "{total_ms} of {kernel_ms} ms");
    let others = requests.times.iter().filter(|times| times.of_database == Some(false));
    let others: u64 =
        others.filter(|t| t.kind == RequestKind::Read).map(|t| t.service.count()).sum();
    assert!(others < READS / 100, "{others} reads of this process were counted as others'");
}

#[test]
fn a_device_that_answers_late_is_seen_late() {
    const DELAY: Duration = Duration::from_millis(20);
    let fuse = match Fuse::mounted() {
        Ok(fuse) => fuse,
        Err(why) => return skip(&why),
    };
    let image = fuse.path("image");
    File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let Some(disk) = Loop::over(&image) else { return };
    let path = Path::new(disk.device());
    let file = direct(path).unwrap();
    let mut memory = vec![0; BLOCK + 4096];
    let from = memory.as_ptr().align_offset(4096);
    let buffer = &mut memory[from..from + BLOCK];
    // Apart, so that none is read ahead; a median needs ten values beyond it.
    let reads = |buffer: &mut [u8], first: u64| {
        (0..24).for_each(|read| file.read_exact_at(buffer, (first + read) << 19).unwrap());
    };
    let median = |requests: &Requests| requests.service(RequestKind::Read, |_| true).summary().p50;
    let Some((_, fast)) = timed(path, || reads(buffer, 0)) else { return };
    fuse.delay_reads(DELAY);
    let (_, slow) = timed(path, || reads(buffer, 24)).unwrap();
    fuse.delay_reads(Duration::ZERO);
    let (fast, slow) = (median(&fast).unwrap(), median(&slow).unwrap());
    // Within the width of a bucket.
    assert!(slow >= DELAY.as_secs_f64() * 1e6 * 0.98, "{slow} us");
    assert!(slow > fast, "{slow} us, and {fast} us without the delay");
}

/// A loop device that answers each read late, and knows how late: 975 of 1,000 around `typical`, 20
/// around five times as late, 5 around fifteen times.
struct SlowDisk {
    disk: Loop,
    fuse: Fuse,
}

impl SlowDisk {
    /// None if it cannot be made here: a skip.
    fn answering_in(typical: Duration) -> Option<Self> {
        let fuse = Fuse::mounted().map_err(|why| skip(&why)).ok()?;
        let image = fuse.path("image");
        File::create(&image).unwrap().set_len(1 << 30).unwrap();
        let disk = Loop::over(&image)?;
        // So that it serves many reads at once.
        run("losetup", &["--direct-io=on", disk.device()]).map_err(|why| skip(&why)).ok()?;
        // From 0.8 to 1.2 of it, each length once, in no order.
        let length = |at: u32| {
            let times = match at % 1000 {
                0..5 => 15.0,
                5..25 => 5.0,
                _ => 1.0,
            };
            typical.mul_f64(times * (0.8 + 0.4 * f64::from(at * 397 % 1009) / 1009.0))
        };
        fuse.delay_reads_in_turn((0..10_007).map(|at| length(at * 7919 % 10_007)).collect());
        Some(Self { disk, fuse })
    }

    /// p50, p99 and p99.9 of the times for which it held the reads, in us.
    fn percentiles_us(&self) -> [f64; 3] {
        let mut held = self.fuse.held();
        held.sort();
        let at = |share: f64| held[(held.len() as f64 * share) as usize].as_secs_f64() * 1e6;
        [0.5, 0.99, 0.999].map(at)
    }
}

/// p50, p99 and p99.9 of the time from the start of a read to its end, in us.
fn read_percentiles_us(requests: &Requests) -> [f64; 3] {
    let times = requests.times.iter().filter(|times| times.kind == RequestKind::Read);
    let total = times.map(|times| times.total.clone()).reduce(|sum, one| sum.plus(&one)).unwrap();
    let total = total.summary();
    [total.p50, total.p99, total.p99_9].map(Option::unwrap)
}

fn agree(ours: [f64; 3], known: [f64; 3]) -> bool {
    let ratios = [0, 1, 2].map(|at| ours[at] / known[at]);
    let _ = writeln!(stderr(), "p50, p99, p99.9 are {ratios:.3?} of {known:.0?} us");
    ratios.iter().all(|ratio| (ratio - 1.0).abs() < 0.03)
}

/// The device does not see for how long its requests waited for a busy processor: one measurement of
/// three must agree.
#[test]
fn percentiles_are_those_of_the_times_that_a_device_took() {
    assert!((0..3).any(|_| reads_of_a_slow_disk_agree().unwrap_or(true)));
}

/// None if it cannot be measured here.
fn reads_of_a_slow_disk_agree() -> Option<bool> {
    const READS_EACH: u64 = 240;
    let slow = SlowDisk::answering_in(Duration::from_millis(30))?;
    let path = Path::new(slow.disk.device());
    let file = direct(path).unwrap();
    let read = |reader: u64| {
        let mut memory = vec![0; BLOCK + 4096];
        let from = memory.as_ptr().align_offset(4096);
        let place = |read: u64| bytes((reader * READS_EACH + read) * 397 % (1 << 16));
        let buffer = &mut memory[from..from + BLOCK];
        (0..READS_EACH).for_each(|at| file.read_exact_at(buffer, place(at)).unwrap());
    };
    let readers = u64::from(BACKGROUND) * 3 / 4;
    let work = || {
        std::thread::scope(|scope| {
            (0..readers).for_each(|reader| drop(scope.spawn(move || read(reader))));
        });
    };
    let (_, requests) = timed(path, work)?;
    Some(agree(read_percentiles_us(&requests), slow.percentiles_us()))
}

/// fio adds the file system, the wake-up and itself: little next to a slow device.
#[test]
#[ignore = "a comparison of times, which needs fio and a quiet machine"]
fn percentiles_agree_with_fios_at_a_slow_device() {
    run("fio", &["--version"]).expect("fio is installed");
    let Some(slow) = SlowDisk::answering_in(Duration::from_millis(2)) else { return };
    let filename = format!("--filename={}", slow.disk.device());
    let mut fio = String::new();
    let work = || {
        let job = ["--name=reads", "--rw=randread", "--bs=4k", "--direct=1", "--runtime=20"];
        let shown = ["--time_based", "--percentile_list=50:99:99.9", "--output-format=json"];
        let jobs = ["--numjobs=4", "--thread", "--group_reporting"];
        // Its own waiting for a processor is not the device's.
        let fio_first = ["-f", "50", "fio"];
        let all = [&fio_first[..], &job, &shown, &jobs, &[&filename]].concat();
        fio = say("chrt", &all).unwrap_or_default();
    };
    let Some((_, requests)) = timed(Path::new(slow.disk.device()), work) else { return };
    let fio: serde_json::Value = serde_json::from_str(&fio[fio.find('{').unwrap()..]).unwrap();
    let fio = &fio["jobs"][0]["read"]["clat_ns"]["percentile"];
    // fio reads a little to see the partitions' table, and others do.
    let of_fio =
        ["50.000000", "99.000000", "99.900000"].map(|name| fio[name].as_f64().unwrap() / 1e3);
    let ours = read_percentiles_us(&requests);
    let _ = writeln!(stderr(), "the device: {:.0?} us", slow.percentiles_us());
    assert!(agree(ours, of_fio), "{ours:?} and {of_fio:?} us");
}

const TIMED_RUN: [&str; 6] = ["run", "--run-time", "4", "--update-pct", "20", "--json"];

#[test]
fn a_run_keeps_the_times_of_its_requests_or_the_reason() {
    let work = Workplace::loaded(1, "16M");
    work.petal(TIMED_RUN).watching().exits(0);
    let whole = record(&work.run_folder());
    let host = &whole["os"]["database_host"];
    if let Some(why) = host["requests_unseen"].as_str() {
        return skip(&format!("requests cannot be timed: {why}"));
    }
    let rows = host["requests"]["rows"].as_array().unwrap();
    let device = host["devices"].as_array().unwrap().last().unwrap();
    let of = |issuer: &str| {
        rows.iter().find(|row| {
            (&row["device"], &row["kind"]) == (&device["name"], &"read".into())
                && row["issued_by"] == issuer
        })
    };
    let timed = of("all").unwrap()["service_us"]["count"].as_f64().unwrap();
    let counted = device["reads"].as_f64().unwrap() * host["seconds"].as_f64().unwrap();
    assert!((timed / counted - 1.0).abs() < 0.03, "{timed} of {counted} reads");
    if let Some(own) = of("database") {
        assert!(own["service_us"]["p99"].as_f64().unwrap() > 0.0, "{own}");
    }
    let steady = host["steady_requests"]["rows"].as_array().unwrap();
    assert!(!steady.is_empty());
    let report = std::fs::read_to_string(work.run_folder().join("report.txt")).unwrap();
    assert!(report.contains("request times, us"), "{report}");
    let page = std::fs::read_to_string(work.run_folder().join("report.html")).unwrap();
    assert!(page.contains("Latency of operations and of the device"));
}

#[test]
fn a_run_without_rights_or_with_the_switch_off_names_the_reason() {
    let without = ["--bounding-set=-all", "--inh-caps=-all"];
    let reason = |petal: crate::support::Petal, work: &Workplace| {
        petal.watching().exits(0);
        let folder = work.run_folder();
        let host = record(&folder)["os"]["database_host"].clone();
        assert!(host["requests"].is_null(), "{host}");
        let report = std::fs::read_to_string(folder.join("report.txt")).unwrap();
        assert!(report.contains("request times: - (not timed: "), "{report}");
        host["requests_unseen"].as_str().unwrap().to_owned()
    };
    let work = Workplace::loaded(1, "16M");
    let petal = work.petal(TIMED_RUN).env("DEVICE_LATENCY", "FALSE");
    assert_eq!(reason(petal, &work), "DEVICE_LATENCY=FALSE");
    if run("setpriv", &[without[0], without[1], "true"]).is_err() {
        return skip("rights cannot be dropped: setpriv");
    }
    let work = Workplace::loaded(1, "16M");
    let petal = work.petal(TIMED_RUN).under("setpriv", &without);
    let reason = reason(petal, &work);
    assert!(reason.contains("CAP_BPF"), "{reason}");
}

/// The object in the tree is compiled from the source next to it. The compiler of that version
/// makes the same bytes.
#[test]
fn the_programs_of_the_kernel_are_those_in_the_source() {
    use sha2::{Digest as _, Sha256};
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/petal-latency/bpf");
    let file = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let programs = [
        ("requests", petal_latency::requests::OBJECT),
        ("calls", petal_latency::calls::OBJECT),
        ("writes", petal_latency::writes::OBJECT),
        ("threads", petal_latency::threads::OBJECT),
    ];
    for (name, object) in programs {
        let source = [file("common.bpf.h"), file(&format!("{name}.bpf.c"))].concat();
        let digest = Sha256::digest(&source);
        let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let has = |text: &[u8]| object.windows(text.len()).any(|part| part == text);
        assert!(has(hash.as_bytes()), "{name}: bpf/build.sh was not run after a change");
    }
    let version = Command::new("clang-14").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        let _ = writeln!(stderr(), "the objects are not built again: clang-14 is missing");
        return;
    }
    let place = Workplace::new();
    let built = place.path("");
    run(folder.join("build.sh").to_str().unwrap(), &[built.to_str().unwrap()]).unwrap();
    for (name, object) in programs {
        let built = std::fs::read(built.join(format!("{name}.bpf.o"))).unwrap();
        assert!(built == object, "another object of {name} is built");
    }
}

/// The first partition of a disk, deleted when dropped.
struct Partition<'a> {
    disk: &'a str,
    name: String,
}

impl<'a> Partition<'a> {
    fn of(disk: &'a str) -> Result<Self, String> {
        let sectors = (bytes(BLOCKS) / 512).to_string();
        run("addpart", &[disk, "1", "2048", &sectors])?;
        Ok(Self { disk, name: format!("{disk}p1") })
    }
}

impl Drop for Partition<'_> {
    fn drop(&mut self) {
        let _ = run("delpart", &[self.disk, "1"]);
    }
}

/// The host has a folder of the same name, with files, on another device.
fn assert_found_in_its_mounts(inside: &Mount, url: &str) {
    let work = Workplace::new();
    work.petal(["setup", "-s", "1", "--scale", "16M", "--db", url]).exits(0);
    let run = || work.petal(["run", "--run-time", "2", "--db", url]).watching();
    run().exits(0);
    let (folder, device) = (work.run_folder(), inside.device());
    let facts = &record(&folder)["details"]["host"]["storage"];
    assert_eq!(Some(facts[0]["name"].as_str().unwrap()), device.strip_prefix("/dev/"), "{facts}");
    // Without these rights petal may not look into the mounts of another user's process.
    run().under("setpriv", &NO_RIGHTS).exits(0);
    let last = work.runs().into_iter().find(|run| *run != folder).unwrap();
    let run = record(&last);
    assert!(run["details"]["device"].is_null(), "{}", run["details"]["device"]);
    let report = std::fs::read_to_string(last.join("report.txt")).unwrap();
    assert!(report.contains("is in other mounts than petal's, as in a container"), "{report}");
    let checked = work.petal(["check", "--full", "--db", url]).under("setpriv", &NO_RIGHTS).ends();
    let words: Vec<&str> = checked.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("place of the data missing"), "{}", checked.stdout);
}

/// Arguments of setpriv for a process of root without its rights.
const NO_RIGHTS: [&str; 2] = ["--bounding-set=-all", "--inh-caps=-all"];

#[test]
fn a_server_in_a_container_has_the_device_of_its_own_mounts() {
    if !server_postgres::is_there() {
        return;
    }
    let Some(inside) = Mount::ext4(640) else { return };
    let server = server_postgres::Server::start(&["max_wal_size=80MB", "shared_buffers=16MB"]);
    let Some(server) = server.into_container(&inside) else { return };
    assert_found_in_its_mounts(&inside, &server.tcp_url("petal"));
}

#[test]
fn a_mysql_server_in_a_container_has_the_device_of_its_own_mounts() {
    if !server_mysql::is_there() {
        return;
    }
    let Some(inside) = Mount::ext4(960) else { return };
    let Some(server) = server_mysql::Server::start(&[]).into_container(&inside) else { return };
    let _of_the_same_age = server_mysql::Server::start(&[]);
    assert_found_in_its_mounts(&inside, &server.tcp_url("contained", server.port));
}

/// The tables are on a loop device, whose file lies on the device of the data directory.
#[test]
fn data_in_a_tablespace_have_the_tablespaces_device_and_not_the_one_below() {
    if !server_postgres::is_there() {
        return;
    }
    let Some(space) = Mount::ext4(320) else { return };
    let settings = ["max_wal_size=80MB", "shared_buffers=16MB"];
    let server = server_postgres::Server::start_below(Path::new("/var/tmp"), &settings);
    server.tablespace("apart", &space.path(""));
    let work = Workplace::new();
    let url = format!("{}?tablespace=apart", server.tcp_url("petal"));
    work.petal(["setup", "-s", "1", "--scale", "64M", "--db", &url]).exits(0);
    let (name, args) =
        (space.device(), ["run", "--run-time", "2", "--update-pct", "0", "--db", &url]);
    let name = name.strip_prefix("/dev/").unwrap().to_owned();
    work.petal(args).watching().exits(0);
    let run = record(&work.run_folder());
    let storage = &run["details"]["host"]["storage"];
    assert_eq!(storage[0]["name"], name.as_str(), "{storage}");
    assert!(run["details"]["host"]["data_unseen"].is_null(), "{}", run["details"]["host"]);
    // Others' reads of the device below are not the server's: its file is in the page cache.
    let device = &run["details"]["device"]["read_bytes"];
    let asked = run["details"]["io"]["physical_read_bytes"].as_f64().unwrap();
    assert!(device.as_f64().unwrap() <= asked * 1.2, "{device} of {asked}");
    // Who may not look at the server's processes has the same device.
    let checked = work.petal(["check", "--full", "--db", &url]).under("setpriv", &NO_RIGHTS).ends();
    let words: Vec<&str> = checked.stdout.split_whitespace().collect();
    let words = words.join(" ");
    for seen in ["place of the data granted", "reads of the server's processes missing", &name] {
        assert!(words.contains(seen), "{seen}: {}", checked.stdout);
    }
}
