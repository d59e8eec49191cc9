//! Judges whether a drive was so empty that it writes as an empty drive does: flash with few blocks
//! in use has nothing to collect. Setup writes every block, so reads never meet unwritten blocks.
//!
//! The drive counts, not the file system. The use of other partitions and volumes is unknown, so
//! all of their space counts as in use. Only a drive that is nearly empty even so is a finding.

use serde_json::json;

use super::judgement::{
    FindingParts, Judgement, NoFinding::Clear, clear_if, unknown, unseen, warning,
};
use petal_host::host::HostDevice;
use petal_host::numbers::bytes as size;
use petal_record::Run;

/// A drive of which less is in use is nearly fresh.
const USED_SHARE_MIN: f64 = 0.10;
/// Volumes on partitions on a disk: no real stack is deeper, and a circle must end.
const DEEPEST: usize = 8;

pub(super) fn judge(run: &Run) -> Judgement {
    clear_if(run.summary.ops.update == 0)?; // What it read was all written by setup.
    if !run.details.target.local {
        return unseen(run, "devices");
    }
    let host = run.details.host.as_ref();
    let devices = host.map_or(&[][..], |host| &host.devices);
    let is_virtual = host.is_some_and(|host| host.virtual_machine != Some(false));
    // A device below another one follows it in the list, and has no file system.
    let counted = devices.iter().filter(|device| run.details.devices.contains(&device.name));
    let mut reasons = Vec::new();
    for device in counted {
        match drive_of(device, devices, run) {
            Ok(drive) => match drive.state(is_virtual) {
                DriveState::Empty => return found(device, &drive),
                DriveState::InUse => return Err(Clear),
                DriveState::Unknown(reason) => reasons.push(reason),
            },
            Err(reason) => reasons.push(reason),
        }
    }
    let none = || "no device is known that holds the data".to_owned();
    unknown(reasons.into_iter().next().unwrap_or_else(none))
}

/// The single drive below a device, and its space in use.
struct Drive<'a> {
    name: &'a str,
    bytes: u64,
    /// Space in use by the data's file system, or by petal's own data on a bare device.
    used_bytes: u64,
    /// Space outside of that device, whose use is unknown.
    outside_bytes: u64,
    rotational: Option<bool>,
    discards: Option<bool>,
}

enum DriveState {
    Empty,
    InUse,
    Unknown(String),
}

impl Drive<'_> {
    fn state(&self, is_virtual: bool) -> DriveState {
        let is_little = |bytes: u64| (bytes as f64) < self.bytes as f64 * USED_SHARE_MIN;
        if !is_little(self.used_bytes) {
            return DriveState::InUse;
        }
        match self.rotational {
            // Virtual disks are often called rotating, whatever they are.
            Some(true) if !is_virtual => DriveState::InUse,
            Some(true) | None => DriveState::Unknown(format!(
                "it is not known whether {} is flash or rotating",
                self.name
            )),
            Some(false) if !is_little(self.used_bytes.saturating_add(self.outside_bytes)) => {
                DriveState::Unknown(format!(
                    "{} of {} lie outside of the data's device, and it is not known how much of it \
                     is in use",
                    size(self.outside_bytes),
                    self.name
                ))
            }
            Some(false) if self.discards == Some(false) => DriveState::Unknown(format!(
                "{} takes no discards: a block that was written once stays in use for the drive, \
                 even if it is free again",
                self.name
            )),
            Some(false) => DriveState::Empty,
        }
    }
}

fn drive_of<'a>(
    device: &'a HostDevice,
    devices: &'a [HostDevice],
    run: &Run,
) -> Result<Drive<'a>, String> {
    let name = &device.name;
    let used_bytes =
        used(device, run).ok_or_else(|| format!("how much of {name} is in use is not known"))?;
    let unknown_size = || format!("the size of {name}'s drive is not known");
    let mut outside_bytes = 0;
    let mut lowest = device;
    for _ in 0..DEEPEST {
        let own = lowest.size_bytes.ok_or_else(unknown_size)?;
        let disk = lowest.disk.as_deref().unwrap_or(&lowest.name);
        let HostDevice { rotational, discards, .. } = *lowest;
        let drive = |bytes, outside_bytes| {
            Ok(Drive { name: disk, bytes, used_bytes, outside_bytes, rotational, discards })
        };
        if disk != lowest.name {
            let bytes = lowest.disk_bytes.ok_or_else(unknown_size)?;
            return drive(bytes, outside_bytes + bytes.saturating_sub(own));
        }
        match lowest.lies_on.as_slice() {
            [] => return drive(own, outside_bytes),
            [below] if *below == lowest.name => return drive(own, outside_bytes),
            [below] => {
                let next = devices.iter().find(|known| known.name == *below);
                // The file of a loop device is not a device.
                let next = next.ok_or_else(|| format!("the device below {name} is not known"))?;
                outside_bytes += next.size_bytes.ok_or_else(unknown_size)?.saturating_sub(own);
                lowest = next;
            }
            _ => return Err(format!("{name} lies on several drives")),
        }
    }
    Err(format!("the device below {name} is not known"))
}

/// Bytes in use of the file system; without one petal's own, of the device.
fn used(device: &HostDevice, run: &Run) -> Option<u64> {
    if device.file_system.is_some() {
        let (all, free) = device.file_system_bytes.zip(device.free_bytes)?;
        return Some(all.saturating_sub(free));
    }
    let loaded = run.details.loaded.iter();
    let mut parts = loaded.flat_map(|it| {
        let scan_bytes = it.scan_rows.saturating_mul(it.block_size);
        [it.bytes, it.index_bytes, Some(scan_bytes)]
    });
    parts.try_fold(0_u64, |sum, part| Some(sum.saturating_add(part?)))
}

fn found(device: &HostDevice, drive: &Drive<'_>) -> Judgement {
    let whose = if device.file_system.is_some() { "the file system" } else { "petal" };
    let outside = match drive.outside_bytes {
        0 => String::new(),
        bytes => format!(", and {} at most outside of {}", size(bytes), device.name),
    };
    warning(
        format!(
            "{} is nearly empty ({whose} uses {} of {}{outside}): a flash drive with so little in \
             use writes faster than it will when it is full",
            drive.name,
            size(drive.used_bytes),
            size(drive.bytes)
        ),
        "Load most of the drive (SCALE, more schemas), or fill the rest of it with files that stay, \
         and repeat.",
    )
    .with(json!({
        "used_bytes": drive.used_bytes, "outside_bytes": drive.outside_bytes,
        "device_bytes": drive.bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgement::NoFinding;
    use petal_record::fixture;

    fn judged(change: impl Fn(&mut HostDevice)) -> Judgement {
        judge(&run_on(change))
    }

    fn run_on(change: impl Fn(&mut HostDevice)) -> Run {
        let mut run = fixture::mixed_run();
        let host = run.details.host.as_mut().unwrap();
        host.virtual_machine = Some(true);
        let device = host.devices.first_mut().unwrap();
        (device.size_bytes, device.disk) = (Some(1000), Some(device.name.clone()));
        device.lies_on = vec![device.name.clone()];
        device.file_system_bytes = Some(990);
        device.free_bytes = Some(940);
        device.rotational = Some(false);
        change(device);
        run.details.devices = vec![device.name.clone()];
        run
    }

    #[test]
    fn an_empty_flash_drive_is_found_and_a_full_one_is_not() {
        assert!(judged(|_| {}).is_ok());
        assert!(matches!(judged(|device| device.free_bytes = Some(850)), Err(Clear)));
        let raw = |size: u64| {
            move |device: &mut HostDevice| {
                device.file_system = None;
                device.size_bytes = Some(size);
                device.disk_bytes = Some(size);
            }
        };
        assert!(judged(raw(u64::MAX)).is_ok());
        assert!(matches!(judged(raw(1 << 20)), Err(Clear)));
    }

    fn why(change: impl Fn(&mut HostDevice)) -> String {
        match judged(change) {
            Err(NoFinding::Unknown(reason)) => reason,
            Ok(finding) => panic!("{}", finding.message),
            Err(Clear) => panic!("clear"),
        }
    }

    /// Tests that a small file system says nothing about the other partitions of a large drive.
    #[test]
    fn the_drive_counts_and_not_the_file_system_on_a_part_of_it() {
        let partition = |disk_bytes: u64| {
            move |device: &mut HostDevice| {
                (device.disk, device.disk_bytes) = (Some("disk".into()), Some(disk_bytes));
                device.lies_on = vec!["disk".into()];
            }
        };
        // 50 of 1,000 in use, and 40 at most outside of it: nearly empty in any case.
        let Ok(finding) = judged(partition(1040)) else { panic!("not found") };
        assert!(finding.message.starts_with("disk is nearly empty"), "{}", finding.message);
        assert!(why(partition(2000)).contains("lie outside of the data's device"));
        // As much as a tenth of a small drive is in use by the data's own file system alone.
        let small = |device: &mut HostDevice| {
            partition(1000)(device);
            device.free_bytes = Some(890);
        };
        assert!(matches!(judged(small), Err(Clear)));
        let several = |device: &mut HostDevice| device.lies_on = vec!["a".into(), "b".into()];
        assert!(why(several).contains("several drives"));
        let file = |device: &mut HostDevice| device.lies_on = vec!["/data/disk.img".into()];
        assert!(why(file).contains("is not known"));
    }

    #[test]
    fn a_drive_without_discards_may_be_full() {
        assert!(why(|device| device.discards = Some(false)).contains("takes no discards"));
        assert!(judged(|device| device.discards = Some(true)).is_ok());
    }

    #[test]
    fn an_unknown_figure_is_no_finding() {
        for change in [
            (|device| device.free_bytes = None) as fn(&mut HostDevice),
            |device| device.rotational = None,
            |device| device.rotational = Some(true),
        ] {
            assert!(matches!(judged(change), Err(NoFinding::Unknown(_))));
        }
        let mut run = run_on(|device| {
            (device.file_system, device.size_bytes) = (None, Some(u64::MAX));
            device.disk_bytes = device.size_bytes;
        });
        assert!(judge(&run).is_ok());
        run.details.loaded[0].index_bytes = None;
        assert!(matches!(judge(&run), Err(NoFinding::Unknown(_))));
    }

    #[test]
    fn a_run_that_only_reads_meets_no_empty_blocks() {
        let mut run = fixture::mixed_run();
        run.summary.ops.update = 0;
        assert!(matches!(judge(&run), Err(Clear)));
    }
}
