//! Times of single requests at block devices ([`requests.bpf.c`](../bpf/requests.bpf.c)).

use std::fmt;

use petal_host::devices::DataDevices;
use petal_host::os::DatabaseLocation;
use petal_host::os::requests::{RequestKind, RequestTimes, Requests};
use petal_host::os::time_buckets::{BUCKETS, TimeSource};

use super::counting::{BpfHistograms, DatabasePids, ProgramFor, bytes, may_load};

/// The program, compiled by `bpf/build.sh`.
pub const OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/requests.bpf.o");

// The same numbers are in requests.bpf.c.
const DEVICES_MAX: usize = 16;
/// Service, queue and total.
const TIMES: usize = 3;
/// Read, write, flush and discard, each by the database's processes and by others.
const SERIES_PER_DEVICE: usize = 8;
const SERIES_MAX: usize = DEVICES_MAX * SERIES_PER_DEVICE;
/// The number of no device.
const NO_DEVICE: u32 = u32::MAX;

struct RequestWatch {
    /// Names of the devices, in the program's order.
    devices: Vec<String>,
    knows_database: bool,
    counting: BpfHistograms<{ TIMES * (1 + BUCKETS) }, { 1 + SERIES_MAX }>,
}

/// Begins to time the requests of these devices and of the disks below them. An error is the
/// reason in a line: rights, kernel or devices are missing.
pub fn watch(
    devices: &DataDevices,
    database: &DatabaseLocation,
) -> Result<Box<dyn TimeSource<Requests>>, String> {
    let watched: Vec<(String, u32)> = devices
        .counted
        .iter()
        .chain(&devices.below)
        .map(|device| (device.name.clone(), device.major << 20 | device.minor))
        .collect();
    let all = devices.counted.iter().chain(&devices.below);
    if let Some(device) = all.into_iter().find(|device| !device.paths.is_empty()) {
        return Err(format!(
            "the kernel shows requests of {} only at its hidden paths {}",
            device.name,
            device.paths.join(", ")
        ));
    }
    if watched.is_empty() {
        return Err("the data have no device that is seen here".to_owned());
    }
    if watched.len() > DEVICES_MAX {
        return Err(format!("the data lie on {} devices, over {DEVICES_MAX}", watched.len()));
    }
    may_load()?;
    let mut numbers = [NO_DEVICE; DEVICES_MAX];
    numbers.iter_mut().zip(&watched).for_each(|(place, (_, number))| *place = *number);
    let owners = DatabasePids::of(database);
    let mut programs = vec![
        ProgramFor { event: "block_rq_complete", name: "complete" },
        ProgramFor { event: "block_rq_issue", name: "issue" },
    ];
    if owners.are_known() {
        programs.push(ProgramFor { event: "block_rq_insert", name: "insert" });
    }
    let numbers = bytes(numbers.map(u32::to_ne_bytes));
    let series = watched.len() * SERIES_PER_DEVICE;
    let counting =
        BpfHistograms::load(OBJECT, series, &owners, &programs, &[("devices", numbers)])?;
    let devices = watched.into_iter().map(|(name, _)| name).collect();
    Ok(Box::new(RequestWatch { devices, knows_database: owners.are_known(), counting }))
}

impl fmt::Debug for RequestWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestWatch").field("devices", &self.devices).finish_non_exhaustive()
    }
}

impl TimeSource<Requests> for RequestWatch {
    fn sample(&self) -> Option<Requests> {
        let (all, lost) = self.counting.read().ok()?;
        let times = all.into_iter().filter_map(|series| {
            let [service, queue, total] = series.times.try_into().ok()?;
            let (device, place) =
                (series.number / SERIES_PER_DEVICE, series.number % SERIES_PER_DEVICE);
            Some(RequestTimes {
                device: self.devices.get(device)?.clone(),
                kind: RequestKind::ALL[place / 2],
                of_database: self.knows_database.then_some(place % 2 == 1),
                service,
                queue,
                total,
            })
        });
        Some(Requests { times: times.collect(), lost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_without_a_device_have_no_times() {
        let error = watch(&DataDevices::default(), &DatabaseLocation::InPetal).unwrap_err();
        assert!(error.contains("no device"), "{error}");
    }
}
