//! Bytes that the processes which serve a run read and wrote themselves, as the kernel counts them
//! for each process: unlike a device's bytes, no other program's bytes are among them.

use super::Run;
use super::os::covers;
use petal_host::devices::{Bottom, StorageLayer};
use petal_host::os::DeviceCounts;

/// Bytes of the database server's processes, or of petal's own if the database runs within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServingBytes {
    /// Bytes requested from block devices, including read-ahead.
    pub read: u64,
    /// Bytes changed in the page cache, or written past it.
    pub write: u64,
}

impl Run {
    /// Bytes read and written by the serving processes, over the time of the database's totals.
    /// None if the kernel does not report them, or not to petal, and if only a part of that time
    /// was watched.
    pub fn serving_bytes(&self) -> Option<ServingBytes> {
        let counts = match self.summary.counted_until {
            None => self.database_host_sums()?.counts,
            Some(until) => {
                let first = self.database_host()?.within(0.0, until.second).sum;
                Some(first).filter(|first| covers(first, until.second))?.counts
            }
        };
        let (read, write) = match self.details.target.in_process {
            true => (counts.petal_read_bytes, counts.petal_write_bytes),
            false => (counts.server_read_bytes, counts.server_write_bytes),
        };
        read.zip(write).map(|(read, write)| ServingBytes { read, write })
    }

    /// Name of these processes, in words.
    pub fn serving_processes(&self) -> &'static str {
        if self.details.target.in_process { "petal's process" } else { "the server's processes" }
    }
}

/// The reads of the data's devices, and their sources below.
#[derive(Debug, Clone, PartialEq)]
pub struct BelowDevices {
    /// Read requests of the data's own devices, and of the drives at the bottom.
    pub data: DeviceCounts,
    pub drives: DeviceCounts,
    /// A layer that reads a file through the page cache, in words.
    pub page_cache: Option<String>,
    /// A bottom layer that is not a drive, in words.
    pub no_drive: Option<String>,
    /// The drives, by name.
    pub names: String,
}

impl BelowDevices {
    /// The share of the bytes that came from drives, at most 1.
    pub fn drive_share(&self) -> f64 {
        (self.drives.read_bytes as f64 / self.data.read_bytes.max(1) as f64).min(1.0)
    }
}

impl Run {
    /// Reads of the layers below the data's devices. None if the devices are drives themselves, and
    /// in records that do not keep the stack. An error gives the reason why it is unknown.
    pub fn below_devices(&self) -> Option<Result<BelowDevices, String>> {
        // The stack belongs to petal's own host.
        let own = self.details.server_os.is_none();
        let layers = &self.details.host.as_ref().filter(|_| own)?.storage;
        let layers = || layers.iter().filter(|layer| !layer.of_others);
        let sum = self.database_host_sums()?;
        let devices = sum.devices.as_ref()?;
        let is_drive = |layer: &&StorageLayer| layer.bottom == Some(Bottom::Hardware);
        let data = |name: &str| devices.iter().any(|device| device.data && device.name == name);
        let mut deeper = layers().filter(|layer| !(data(&layer.name) && is_drive(layer)));
        deeper.next()?;
        let drives: Vec<&str> =
            layers().filter(is_drive).map(|layer| layer.name.as_str()).collect();
        let counted = drives.iter().map(|name| {
            let device = devices.iter().find(|device| device.name == *name);
            device.map(|device| device.counts).ok_or_else(|| {
                format!("reads of {name}, which is below the data's device, are not counted")
            })
        });
        let counted = counted.collect::<Result<Vec<_>, _>>();
        let no_drive = layers().find_map(|layer| match &layer.bottom {
            Some(Bottom::Memory(words) | Bottom::Elsewhere(words)) => Some(words.clone()),
            _ => None,
        });
        let page_cache = layers().find_map(|layer| {
            let file = layer.cached_file.as_ref()?;
            Some(format!("{} reads its file {file} through the page cache", layer.name))
        });
        Some(counted.and_then(|counted| {
            let sum_of = |all: Vec<DeviceCounts>| all.into_iter().reduce(|sum, one| sum.plus(&one));
            Ok(BelowDevices {
                data: sum.device().ok_or("reads of the data's devices are not counted")?,
                drives: sum_of(counted).unwrap_or_default(),
                page_cache,
                no_drive,
                names: drives.join(", "),
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CountedUntil, fixture};
    use super::*;

    #[test]
    fn a_database_in_petal_has_petals_bytes_and_a_server_its_own() {
        let mut run = fixture::mixed_run();
        let sum = &mut run.details.os.as_mut().unwrap().whole.sum;
        sum.counts.petal_read_bytes = Some(7);
        sum.counts.petal_write_bytes = Some(8);
        assert_eq!(run.serving_bytes(), Some(ServingBytes { read: 7, write: 8 }));
        run.details.target.in_process = false;
        assert_eq!(run.serving_bytes(), None);
        let sum = &mut run.details.os.as_mut().unwrap().whole.sum;
        (sum.counts.server_read_bytes, sum.counts.server_write_bytes) = (Some(9), Some(1));
        assert_eq!(run.serving_bytes(), Some(ServingBytes { read: 9, write: 1 }));
    }

    #[test]
    fn of_a_part_of_the_run_they_are_not_known() {
        let mut run = fixture::mixed_run();
        let seen = run.details.os.as_mut().unwrap();
        seen.whole.sum.counts.petal_read_bytes = Some(7);
        seen.whole.sum.counts.petal_write_bytes = Some(8);
        seen.whole.sum.seconds = run.summary.elapsed_s * 0.9;
        assert_eq!(run.serving_bytes(), None);
        run.summary.counted_until =
            Some(CountedUntil { second: 7.0, of_s: 60.02, db_time_s: 50.0, think_time_s: 0.0 });
        let seen = run.details.os.as_mut().unwrap();
        for second in &mut seen.seconds {
            second.interval.counts.petal_read_bytes = Some(10);
            second.interval.counts.petal_write_bytes = Some(1);
        }
        assert!(run.serving_bytes().is_some(), "the first seconds are there");
        run.details.os.as_mut().unwrap().seconds.remove(0);
        assert_eq!(run.serving_bytes(), None);
    }

    #[test]
    fn they_end_where_the_databases_totals_end() {
        let mut run = fixture::mixed_run();
        let seen = run.details.os.as_mut().unwrap();
        for second in &mut seen.seconds {
            second.interval.counts.petal_read_bytes = Some(10);
            second.interval.counts.petal_write_bytes = Some(1);
        }
        run.summary.counted_until =
            Some(CountedUntil { second: 7.0, of_s: 60.02, db_time_s: 50.0, think_time_s: 0.0 });
        assert_eq!(run.serving_bytes(), Some(ServingBytes { read: 70, write: 7 }));
    }
}
