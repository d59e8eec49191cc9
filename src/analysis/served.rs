//! Who served the reads. A device's bytes are everybody's: where the kernel tells what the processes
//! that serve the run had read, that decides; else a read far faster than the device's own.

use crate::record::Run;

/// The device served the reads if so much of the bytes came from it.
pub const DEVICE_SHARE_MIN: f64 = 0.90;
/// Requests in flight at the bounds, and the device's own rounding, stay under this.
const MISSING_SHARE_MAX: f64 = 0.10;
/// A device that moved no more than so many times the bytes worked for nobody else.
const DEVICE_EXCESS_MAX: f64 = 1.20;
/// A read that took less than that share of the device's own time was served by somebody else.
const READ_TO_AWAIT_MIN: f64 = 0.25;

/// Bytes that the database read, by who served them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadsServed {
    pub asked: u64,
    /// By the data's devices.
    pub device: u64,
    /// By the operating system's page cache.
    pub page_cache: u64,
    /// By storage that is not counted: memory, a network, a device that petal did not find.
    pub unseen: u64,
}

impl ReadsServed {
    pub fn share(&self, bytes: u64) -> f64 {
        bytes as f64 / self.asked.max(1) as f64
    }

    pub fn is_by_device(&self) -> bool {
        self.share(self.device) >= DEVICE_SHARE_MIN
    }
}

/// An error says why nobody can tell.
pub fn reads(run: &Run) -> Result<ReadsServed, String> {
    let Some(asked) = expected_device_bytes(run) else {
        return Err("how many bytes of data were read above the device is not known".to_owned());
    };
    let Some(counted) = run.details.device.as_ref().map(|device| device.read_bytes) else {
        return Err("no device statistics: the device was not found or not allowed".to_owned());
    };
    let by_device = counted.min(asked);
    if is_direct(run) {
        let unseen = asked - by_device;
        return Ok(ReadsServed { asked, device: by_device, page_cache: 0, unseen });
    }
    if let Some(own) = run.serving_bytes() {
        let stored = own.read.min(asked);
        let device = by_device.min(stored);
        let (page_cache, unseen) = (asked - stored, stored - device);
        return Ok(ReadsServed { asked, device, page_cache, unseen });
    }
    if by_device as f64 >= asked as f64 * DEVICE_SHARE_MIN {
        doubt(run, asked, counted)?;
    }
    Ok(ReadsServed { asked, device: by_device, page_cache: asked - by_device, unseen: 0 })
}

/// The bytes that the device should have served. Past the page cache, these are the data files';
/// the log is read through the page cache, which is no fault.
pub(super) fn expected_device_bytes(run: &Run) -> Option<u64> {
    let is_direct = is_direct(run);
    let data_kind = run.details.target.data_file_kind.as_ref();
    match run.details.files.iter().find(|file| Some(&file.kind) == data_kind) {
        Some(data) if is_direct => Some(data.read_bytes),
        // A journal does not keep data and log apart: all reads are an upper bound, which
        // proves something only where the device reached it.
        None if is_direct && run.details.rebuilt => {
            let served = run.details.device.as_ref()?.read_bytes as f64;
            let reached = |&all: &u64| served >= all as f64 * (1.0 - MISSING_SHARE_MAX);
            run.details.io.physical_read_bytes.filter(reached)
        }
        _ => run.details.io.physical_read_bytes,
    }
}

/// The page cache was passed by.
pub fn is_direct(run: &Run) -> bool {
    run.details.target.direct_io.as_ref().is_some_and(|direct| direct.used)
}

/// Enough bytes of the device, but perhaps somebody else's.
fn doubt(run: &Run, asked: u64, counted: u64) -> Result<(), String> {
    let read_us = run.summary.io_latency_us.get("read").and_then(|read| read.mean);
    let device = run.details.device.as_ref().filter(|device| device.read_requests > 0);
    let await_us = device.map(|d| d.read_ms as f64 * 1e3 / d.read_requests as f64);
    let who = run.serving_processes();
    match read_us.zip(await_us) {
        Some((read_us, await_us)) if read_us < await_us * READ_TO_AWAIT_MIN => Err(format!(
            "a read took {read_us:.1} us on average and the device's own {await_us:.1} us, so the \
             device's bytes may be somebody else's; what {who} had read is not seen"
        )),
        Some(_) if counted as f64 <= asked as f64 * DEVICE_EXCESS_MAX => Ok(()),
        _ => Err(format!(
            "the device read {:.1} times the bytes that {} read, and for whom is not known: what \
             {who} had read is not seen",
            counted as f64 / asked.max(1) as f64,
            run.reported_by()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;
    use crate::stats::os::DeviceCounts;
    use crate::stats::target::DirectIo;

    const ASKED: u64 = 4_000_000_000;

    /// A run through the page cache that asked for so much; what its process had read, and the device.
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
    fn the_devices_bytes_are_somebody_elses_where_the_process_had_nothing_read() {
        let served = reads(&run(Some(0), ASKED * 2, |_| {})).unwrap();
        assert_eq!((served.device, served.page_cache, served.unseen), (0, ASKED, 0));
        let served = reads(&run(Some(ASKED / 4), ASKED * 2, |_| {})).unwrap();
        assert_eq!((served.device, served.page_cache), (ASKED / 4, ASKED / 4 * 3));
        let served = reads(&run(Some(ASKED + 9), ASKED * 2, |_| {})).unwrap();
        assert!(served.is_by_device());
        // Fetched from storage that nobody counts.
        let served = reads(&run(Some(ASKED), ASKED / 2, |_| {})).unwrap();
        assert_eq!((served.device, served.page_cache, served.unseen), (ASKED / 2, 0, ASKED / 2));
    }

    #[test]
    fn past_the_page_cache_the_device_or_nobody_seen_served_them() {
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
    fn where_the_process_is_not_seen_a_read_faster_than_the_devices_is_doubted() {
        let why = |device, us| reads(&run(None, device, |run| read_us(run, us)));
        assert!(why(ASKED, 2.7).unwrap_err().contains("a read took 2.7 us"));
        assert!(why(ASKED, 90.0).unwrap().is_by_device());
        assert!(why(ASKED * 2, 90.0).unwrap_err().contains("2.0 times"));
        assert_eq!(why(ASKED / 4, 20.0).unwrap().page_cache, ASKED / 4 * 3);
        let untimed = run(None, ASKED, |run| run.summary.io_latency_us.clear());
        assert!(reads(&untimed).is_err());
    }
}
