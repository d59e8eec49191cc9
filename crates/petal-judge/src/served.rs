//! Finds the layers that served the reads. A device's bytes include other processes' reads: the
//! kernel's count of the serving processes' reads decides if it is known; else a read far faster
//! than the device's own.

use petal_host::devices::{Bottom, StorageLayer};
use petal_host::numbers::decimal;
use petal_host::os::{DeviceCounts, DeviceUse};
use petal_record::Run;
use petal_record::serving::BelowDevices;
use petal_settings::table::support::{self, ReadPath};

/// The device served the reads if so much of the bytes came from it.
pub const DEVICE_SHARE_MIN: f64 = 0.90;
/// Requests in flight at the bounds, and the device's own rounding, stay under this.
const MISSING_SHARE_MAX: f64 = 0.10;
/// A device that moved at most this multiple of the bytes worked for no other process.
const DEVICE_EXCESS_MAX: f64 = 1.20;
/// A read that took less than this share of the device's own time came from another layer.
const READ_TO_AWAIT_MIN: f64 = 0.25;
/// A loop device adds its own time to its drive's: if its reads took less than this share of the drive's, a page
/// cache served some of them.
const LOOP_TO_DRIVE_MIN: f64 = 0.75;

/// Bytes that the database read, by the layer that served them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadsServed {
    pub asked: u64,
    /// Read from the data's devices, down to their drives.
    pub device: u64,
    /// Read from the operating system's page cache.
    pub page_cache: u64,
    /// Read from storage that is not counted: memory, a network, a device that petal did not find.
    pub unseen: u64,
    /// The layer below the data's devices that served the unseen reads, or those in the page cache.
    pub layer: Option<String>,
}

impl ReadsServed {
    pub fn share(&self, bytes: u64) -> f64 {
        bytes as f64 / self.asked.max(1) as f64
    }

    pub fn is_by_device(&self) -> bool {
        self.share(self.device) >= DEVICE_SHARE_MIN
    }
}

/// Returns an error with the reason if the layers are unknown.
pub fn reads(run: &Run) -> Result<ReadsServed, String> {
    let served = at_the_devices(run)?;
    match run.below_devices() {
        Some(below) if served.device > 0 => below_the_devices(served, &below?),
        _ => Ok(served),
    }
    .map(|served| match served.is_by_device() {
        // No other layer has to be named.
        true => ReadsServed { layer: None, ..served },
        false => served,
    })
}

/// Returns the reads by the layer that served them, with the data's devices as drives.
pub fn at_the_devices(run: &Run) -> Result<ReadsServed, String> {
    let Some(asked) = expected_device_bytes(run) else {
        return Err("how many bytes of data were read above the device is not known".to_owned());
    };
    let own_host = run.details.host.as_ref().filter(|_| run.details.server_os.is_none());
    if let Some(why) = own_host.and_then(|host| host.data_unseen.clone()) {
        return Err(why);
    }
    if let Some(words) = memory_without_device(run) {
        let layer = Some(words.clone());
        return Ok(ReadsServed { asked, unseen: asked, layer, ..ReadsServed::default() });
    }
    let Some(counted) = run.details.device.as_ref().map(|device| device.read_bytes) else {
        return Err("no device statistics: the device was not found or not allowed".to_owned());
    };
    let by_device = counted.min(asked);
    if is_direct(run) {
        let missing = asked - by_device;
        let layer = cached_despite_direct_io(run);
        let (page_cache, unseen) = if layer.is_some() { (missing, 0) } else { (0, missing) };
        return Ok(ReadsServed { asked, device: by_device, page_cache, unseen, layer });
    }
    if let Some(own) = run.serving_bytes() {
        let stored = own.read.min(asked);
        let device = by_device.min(stored);
        let (page_cache, unseen) = (asked - stored, stored - device);
        return Ok(ReadsServed { asked, device, page_cache, unseen, layer: None });
    }
    if by_device as f64 >= asked as f64 * DEVICE_SHARE_MIN {
        check_device_bytes(run, asked, counted)?;
    }
    let page_cache = asked - by_device;
    Ok(ReadsServed { asked, device: by_device, page_cache, ..ReadsServed::default() })
}

/// The memory of this host in which all data lie, if it has no counted device: tmpfs, zram.
fn memory_without_device(run: &Run) -> Option<&String> {
    let own = run.details.server_os.is_none() && run.details.target.local;
    let layers = &run.details.host.as_ref().filter(|_| own)?.storage;
    let mut of_data = layers.iter().filter(|layer| !layer.of_others);
    let is_memory = |layer: &StorageLayer| matches!(layer.bottom, Some(Bottom::Memory(_)));
    match of_data.next()?.bottom.as_ref()? {
        // A device of the data itself has counts.
        Bottom::Memory(first) if of_data.all(is_memory) && !has_device(run) => Some(first),
        _ => None,
    }
}

/// True if a device of the data is counted.
fn has_device(run: &Run) -> bool {
    let devices = run.database_host_sums().and_then(|sum| sum.devices.as_ref());
    let has_rows = |device: &DeviceUse| device.data && !device.of_others;
    run.details.device.is_some() && devices.is_none_or(|all| all.iter().any(has_rows))
}

/// A file system that may serve reads past the page cache out of it all the same, in words.
/// Measured: of compressed data on btrfs O_DIRECT reads each block from the device once.
pub(super) fn cached_despite_direct_io(run: &Run) -> Option<String> {
    run.details.host.as_ref()?.devices.iter().find_map(|device| {
        let options = device.mount_options.as_deref().unwrap_or_default();
        let how = match device.file_system.as_deref()? {
            "btrfs" => "btrfs reads compressed data through the page cache",
            "ext3" | "ext4" if options.split(',').any(|option| option == "data=journal") => {
                "ext4 with data=journal reads through the page cache"
            }
            _ => return None,
        };
        Some(format!("{how}, with O_DIRECT, too ({})", device.name))
    })
}

/// Moves reads that the drives did not see from the device to the layer above them.
fn below_the_devices(served: ReadsServed, below: &BelowDevices) -> Result<ReadsServed, String> {
    let drives = (served.device as f64 * below.drive_share()) as u64;
    let missing = served.device - drives;
    if served.share(missing) <= MISSING_SHARE_MAX {
        // If the device served next to nothing, it matters little who read from the drives.
        if served.share(served.device) > MISSING_SHARE_MAX {
            doubt_drives(below)?;
        }
        return Ok(served);
    }
    // Memory and a network at the bottom serve all; a page cache above a drive serves the rest.
    let (page_cache, unseen, layer) = match (&below.no_drive, &below.page_cache) {
        (Some(words), _) => (0, missing, words.clone()),
        // The drives' bytes may be others' in part.
        (None, Some(words)) => {
            let bound =
                format!("{words}, at least so much: {} may have read for others", below.names);
            (missing, 0, bound)
        }
        (None, None) => (0, missing, format!("the drives below ({}) read less", below.names)),
    };
    Ok(ReadsServed {
        device: drives,
        page_cache: served.page_cache + page_cache,
        unseen: served.unseen + unseen,
        layer: Some(layer),
        ..served
    })
}

/// Doubts the drives' bytes: there are enough, but below a page cache they may be others'.
fn doubt_drives(below: &BelowDevices) -> Result<(), String> {
    let Some(layer) = &below.page_cache else { return Ok(()) };
    let (data, drives) = (&below.data, &below.drives);
    let mean_ms = |device: &DeviceCounts| {
        let requests = device.read_requests as f64;
        (requests > 0.0).then(|| device.read_ms as f64 / requests)
    };
    let is_faster = mean_ms(data)
        .zip(mean_ms(drives))
        .is_some_and(|(data_ms, drive_ms)| data_ms < drive_ms * LOOP_TO_DRIVE_MIN);
    let times = drives.read_bytes as f64 / data.read_bytes.max(1) as f64;
    if is_faster || times > DEVICE_EXCESS_MAX {
        return Err(format!(
            "{layer}, and {} read {} times the bytes of the data's device: it is not known \
             for which processes",
            below.names,
            decimal(times, 1)
        ));
    }
    Ok(())
}

/// True if the database maps its files into memory: only the kernel sees which visits left it.
pub fn is_mapped(run: &Run) -> bool {
    support::of(&run.summary.engine).is_some_and(|engine| engine.reads == ReadPath::Mapped)
}

/// The bytes that the database asked the system for: its reads; of mapped files every block that it
/// visited, because the page cache is its only cache.
pub(super) fn asked_bytes(run: &Run) -> Option<u64> {
    match is_mapped(run) {
        true => Some(run.details.io.logical_reads? * run.summary.target.block_size),
        false => run.details.io.physical_read_bytes,
    }
}

/// The bytes that the device should have served. Past the page cache, these are the data files';
/// the log is read through the page cache, which is not a fault.
pub(super) fn expected_device_bytes(run: &Run) -> Option<u64> {
    let is_direct = is_direct(run);
    let data_kind = run.details.target.data_file_kind.as_ref();
    match run.details.files.iter().find(|file| Some(&file.kind) == data_kind) {
        Some(data) if is_direct => Some(data.read_bytes),
        // A journal does not keep data and log apart: all reads are an upper bound, which proves
        // something only if the device reached it.
        None if is_direct && run.details.rebuilt => {
            let served = run.details.device.as_ref()?.read_bytes as f64;
            let reached = |&all: &u64| served >= all as f64 * (1.0 - MISSING_SHARE_MAX);
            run.details.io.physical_read_bytes.filter(reached)
        }
        _ => asked_bytes(run),
    }
}

/// The page cache was passed by.
pub fn is_direct(run: &Run) -> bool {
    run.details.target.direct_io.as_ref().is_some_and(|direct| direct.used)
}

/// Doubts the device's bytes: there are enough, but they may be others'.
fn check_device_bytes(run: &Run, asked: u64, counted: u64) -> Result<(), String> {
    let read_us = run.summary.io_latency_us.get("read").and_then(|read| read.mean);
    let device = run.details.device.as_ref().filter(|device| device.read_requests > 0);
    let await_us = device.map(|d| d.read_ms as f64 * 1e3 / d.read_requests as f64);
    let who = run.serving_processes();
    match read_us.zip(await_us) {
        Some((read_us, await_us)) if read_us < await_us * READ_TO_AWAIT_MIN => Err(format!(
            "a read took {read_us} us on average and the device's own {await_us} us, so the \
             device's bytes may belong to other programs; the storage reads of {who} are not seen",
            read_us = decimal(read_us, 1),
            await_us = decimal(await_us, 1)
        )),
        Some(_) if counted as f64 <= asked as f64 * DEVICE_EXCESS_MAX => Ok(()),
        _ => Err(format!(
            "the device read {} times the bytes that {} read, and it is not known for which \
             processes: the storage reads of {who} are not seen",
            decimal(counted as f64 / asked.max(1) as f64, 1),
            run.reported_by()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;
    use petal_record::target::DirectIo;

    const ASKED: u64 = 4_000_000_000;

    /// A run through the page cache with fixed reads; `own` are its process's bytes.
    fn run(own: Option<u64>, device_bytes: u64, change: impl Fn(&mut Run)) -> Run {
        let mut run = fixture::mixed_run();
        run.details.target.direct_io = Some(DirectIo { asked: false, used: false, reason: None });
        run.details.io.physical_read_bytes = Some(ASKED);
        let requests = device_bytes / 8192;
        run.details.device = run.details.device.map(|d| DeviceCounts {
            read_bytes: device_bytes,
            read_requests: requests,
            read_ms: requests / 12,
            ..d
        });
        run.details.os.as_mut().unwrap().whole.sum.counts.petal_read_bytes = own;
        change(&mut run);
        run
    }

    fn read_us(run: &mut Run, us: f64) {
        run.summary.io_latency_us.get_mut("read").unwrap().mean = Some(us);
    }

    #[test]
    fn the_devices_bytes_are_foreign_if_the_process_read_nothing() {
        let served = reads(&run(Some(0), ASKED * 2, |_| {})).unwrap();
        assert_eq!((served.device, served.page_cache, served.unseen), (0, ASKED, 0));
        let served = reads(&run(Some(ASKED / 4), ASKED * 2, |_| {})).unwrap();
        assert_eq!((served.device, served.page_cache), (ASKED / 4, ASKED / 4 * 3));
        let served = reads(&run(Some(ASKED + 9), ASKED * 2, |_| {})).unwrap();
        assert!(served.is_by_device());
        // The other half came from storage that is not counted.
        let served = reads(&run(Some(ASKED), ASKED / 2, |_| {})).unwrap();
        assert_eq!((served.device, served.page_cache, served.unseen), (ASKED / 2, 0, ASKED / 2));
    }

    /// The same run on a loop device, over a drive or over something else; the drive's own reads.
    fn on_loop(layers: [(&str, Option<&str>, Option<Bottom>); 2], drive_bytes: u64) -> Run {
        run(Some(ASKED), ASKED, |run| {
            let storage = layers.clone().map(|(name, file, bottom)| StorageLayer {
                name: name.into(),
                number: None,
                below: Vec::new(),
                bottom,
                cached_file: file.map(str::to_owned),
                of_others: false,
            });
            run.details.host.get_or_insert_default().storage = storage.into();
            let counts = |read_bytes: u64, read_ms: u64| DeviceCounts {
                read_bytes,
                read_requests: read_bytes / 8192,
                read_ms,
                ..DeviceCounts::default()
            };
            let device = |name: &str, data, counts| DeviceUse {
                name: name.into(),
                data,
                counts,
                ..DeviceUse::default()
            };
            run.details.os.as_mut().unwrap().whole.sum.devices = Some(vec![
                device("loop0", true, counts(ASKED, 50_000)),
                device("vda", false, counts(drive_bytes, 50_000)),
            ]);
        })
    }

    #[test]
    fn a_loop_devices_reads_are_the_devices_only_if_the_drive_below_read_them() {
        let layers = [("loop0", Some("/l.img"), None), ("vda", None, Some(Bottom::Hardware))];
        let served = reads(&on_loop(layers.clone(), 0)).unwrap();
        assert_eq!((served.device, served.page_cache), (0, ASKED));
        assert!(
            served.layer.unwrap().contains("loop0 reads its file /l.img through the page cache")
        );
        let served = reads(&on_loop(layers.clone(), ASKED)).unwrap();
        assert!(served.is_by_device() && served.layer.is_none());
        // Twice as much for another process, and a loop device that is faster than its drive.
        assert!(reads(&on_loop(layers.clone(), ASKED * 2)).unwrap_err().contains("2.0 times"));
        let mut quick = on_loop(layers.clone(), ASKED);
        let devices = &mut quick.details.os.as_mut().unwrap().whole.sum.devices;
        devices.as_mut().unwrap()[0].counts.read_ms = 500;
        assert!(reads(&quick).is_err());
        // Half of the image is cached, and others' reads of the drive are as many as that or fewer.
        let mut half = on_loop(layers.clone(), ASKED);
        let devices = &mut half.details.os.as_mut().unwrap().whole.sum.devices;
        devices.as_mut().unwrap()[0].counts.read_ms = 30_000;
        assert!(reads(&half).is_err());
        let served = reads(&on_loop(layers.clone(), ASKED / 10 * 7)).unwrap();
        assert_eq!(served.device, ASKED / 10 * 7);
        assert!(served.layer.unwrap().ends_with("at least so much: vda may have read for others"));
        // Without a page cache in between, the excess is others', and the answer is the same.
        let layers = [("loop0", None, None), ("vda", None, Some(Bottom::Hardware))];
        assert!(reads(&on_loop(layers.clone(), ASKED * 2)).unwrap().is_by_device());
        let served = reads(&on_loop(layers, ASKED / 2)).unwrap();
        assert_eq!((served.device, served.unseen), (ASKED / 2, ASKED / 2));
    }

    #[test]
    fn reads_of_the_drive_that_has_the_log_alone_are_not_the_datas() {
        let memory = Bottom::Memory("loop0 is the file /dev/shm/l".into());
        let layers = [("loop0", None, Some(memory)), ("vda", None, Some(Bottom::Hardware))];
        let mut run = on_loop(layers.clone(), ASKED);
        run.details.host.as_mut().unwrap().storage[1].of_others = true;
        let served = reads(&run).unwrap();
        assert_eq!((served.device, served.unseen), (0, ASKED));
        // Rows in a file system in memory, and a log on a drive that other programs read.
        let [memory, drive] = layers;
        let mut run = on_loop([drive, memory], ASKED);
        run.details.host.as_mut().unwrap().storage[0].of_others = true;
        let devices = run.details.os.as_mut().unwrap().whole.sum.devices.as_mut().unwrap();
        devices.remove(0);
        (devices[0].data, devices[0].of_others) = (true, true);
        let served = reads(&run).unwrap();
        assert_eq!((served.device, served.unseen), (0, ASKED));
    }

    #[test]
    fn file_systems_that_cache_direct_reads_are_named() {
        use petal_host::host::HostDevice;
        let on = |kind: &str, options: &str, device_bytes| {
            let run = run(Some(0), device_bytes, |run| {
                run.details.target.direct_io =
                    Some(DirectIo { asked: true, used: true, reason: None });
                run.details.files.clear();
                run.details.host.get_or_insert_default().devices = vec![HostDevice {
                    file_system: Some(kind.into()),
                    mount_options: Some(options.into()),
                    ..HostDevice::default()
                }];
            });
            let served = reads(&run).unwrap();
            (served.page_cache, served.unseen, served.layer.is_some())
        };
        assert_eq!(on("btrfs", "rw,compress=zstd:3", ASKED / 4), (ASKED / 4 * 3, 0, true));
        assert_eq!(on("ext4", "rw,data=journal", ASKED / 4), (ASKED / 4 * 3, 0, true));
        assert_eq!(on("ext4", "rw", ASKED / 4), (0, ASKED / 4 * 3, false));
        assert_eq!(on("btrfs", "rw", ASKED), (0, 0, false));
    }

    #[test]
    fn data_on_a_device_that_is_not_seen_have_no_known_source() {
        let run = run(Some(ASKED), ASKED, |run| {
            let unseen = Some("/space: its file system (nfs4) is far".to_owned());
            run.details.host.get_or_insert_default().data_unseen = unseen;
        });
        assert!(reads(&run).unwrap_err().starts_with("/space: "));
    }

    #[test]
    fn memory_without_a_counted_device_served_all_reads() {
        let memory = |name: &str| StorageLayer {
            name: name.into(),
            bottom: Some(Bottom::Memory(format!("{name} is memory"))),
            ..StorageLayer::default()
        };
        let on = |storage: Vec<StorageLayer>| {
            reads(&run(None, 0, |run| {
                run.details.device = None;
                run.details.host.get_or_insert_default().storage = storage.clone();
            }))
        };
        let served = on(vec![memory("zram1")]).unwrap();
        assert_eq!((served.unseen, served.layer.as_deref()), (ASKED, Some("zram1 is memory")));
        let disk =
            StorageLayer { name: "vda".into(), bottom: Some(Bottom::Hardware), ..memory("") };
        assert!(on(vec![memory("tmpfs"), disk]).is_err());
        assert!(on(Vec::new()).is_err());
    }

    #[test]
    fn a_stack_that_ends_in_memory_is_no_device() {
        let memory = Bottom::Memory("loop0 is the file /dev/shm/l.img: tmpfs".into());
        let run =
            on_loop([("loop0", None, Some(memory.clone())), ("zram0", None, Some(memory))], 0);
        let served = reads(&run).unwrap();
        assert_eq!((served.device, served.unseen), (0, ASKED));
        assert!(served.layer.unwrap().contains("tmpfs"));
        // A drive that is not counted proves nothing.
        let layers = [("loop0", None, None), ("sdz", None, Some(Bottom::Hardware))];
        assert!(reads(&on_loop(layers, ASKED)).unwrap_err().contains("sdz"));
    }

    #[test]
    fn direct_reads_come_from_the_device_or_from_an_unseen_layer() {
        let direct = |device| {
            reads(&run(Some(0), device, |run| {
                run.details.target.direct_io =
                    Some(DirectIo { asked: true, used: true, reason: None });
                run.details.files.clear();
            }))
        };
        assert!(direct(ASKED * 2).unwrap().is_by_device());
        assert_eq!(direct(ASKED / 4).unwrap().unseen, ASKED / 4 * 3);
    }

    #[test]
    fn of_mapped_files_each_visit_of_a_block_is_asked_for() {
        let mapped = |own, visits: u64| {
            reads(&run(own, ASKED / 100, |run| {
                let engine = support::ENGINES.iter().find(|it| it.reads == ReadPath::Mapped);
                run.summary.engine = engine.unwrap().scheme.into();
                run.details.io.physical_read_bytes = Some(ASKED / 100);
                run.details.io.logical_reads = Some(visits / run.summary.target.block_size);
                read_us(run, 90.0);
            }))
        };
        // One visit in a hundred was a page fault, and the device served that one.
        for own in [Some(ASKED / 100), None] {
            let served = mapped(own, ASKED).unwrap();
            assert_eq!((served.device, served.is_by_device()), (ASKED / 100, false));
            assert!(served.share(served.page_cache) > 0.98);
        }
        assert!(mapped(Some(ASKED / 100), ASKED / 100).unwrap().is_by_device());
    }

    #[test]
    fn without_process_counts_a_read_faster_than_the_devices_is_doubted() {
        let why = |device, us| reads(&run(None, device, |run| read_us(run, us)));
        assert!(why(ASKED, 2.7).unwrap_err().contains("a read took 2.7 us"));
        assert!(why(ASKED, 90.0).unwrap().is_by_device());
        assert!(why(ASKED * 2, 90.0).unwrap_err().contains("2.0 times"));
        assert_eq!(why(ASKED / 4, 20.0).unwrap().page_cache, ASKED / 4 * 3);
        let untimed = run(None, ASKED, |run| run.summary.io_latency_us.clear());
        assert!(reads(&untimed).is_err());
    }
}
