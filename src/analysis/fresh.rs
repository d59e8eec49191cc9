//! Whether a drive was so empty that it writes as an empty drive does: flash with few blocks in use
//! has nothing to collect. Blocks never written are not met: setup writes every one.

use super::judgement::{Judgement, size, unknown, unseen, warning};
use crate::record::Run;
use crate::stats::host::Device;

const ID: &str = "fresh-device";
/// Of the drive, or of the file system on it, in use.
const USED_SHARE_MIN: f64 = 0.10;

pub(super) fn judge(run: &Run) -> Judgement {
    if run.summary.ops.update == 0 {
        return Judgement::Clear; // What it read was all written by setup.
    }
    if !run.details.target.local {
        return unseen(ID, run, "devices");
    }
    let host = run.details.host.as_ref();
    let devices = host.map_or(&[][..], |host| &host.devices);
    // What lies below another device follows it, and has no file system.
    let counted = devices.iter().filter(|device| run.details.devices.contains(&device.name));
    let mut reasons = Vec::new();
    for device in counted {
        let Some((used, all)) = in_use(device, run) else {
            reasons.push(format!("how much of {} is in use is not known", device.name));
            continue;
        };
        match device.rotational {
            Some(false) if (used as f64) < all as f64 * USED_SHARE_MIN => {
                return found(device, used, all);
            }
            // Virtual disks are often called rotating, whatever they are.
            Some(true) if host.is_some_and(|host| host.virtual_machine != Some(false)) => {
                reasons.push(format!("what {} is made of is not known", device.name));
            }
            None => reasons.push(format!("what {} is made of is not known", device.name)),
            Some(_) => return Judgement::Clear,
        }
    }
    let none = || "no device is known that holds the data".to_owned();
    unknown(ID, reasons.into_iter().next().unwrap_or_else(none))
}

/// Bytes in use, of all: of the file system; without one petal's own, of the device.
fn in_use(device: &Device, run: &Run) -> Option<(u64, u64)> {
    if device.file_system.is_some() {
        let (all, free) = device.file_system_bytes.zip(device.free_bytes)?;
        return Some((all.saturating_sub(free), all));
    }
    let own = run
        .details
        .loaded
        .iter()
        .map(|schema| schema.bytes + schema.index_bytes + schema.scan_rows * schema.block_size);
    Some((own.sum(), device.size_bytes?))
}

fn found(device: &Device, used: u64, all: u64) -> Judgement {
    let whose = if device.file_system.is_some() { "its file system uses" } else { "petal fills" };
    warning(
        ID,
        format!(
            "{} is nearly empty ({whose} {} of {}): a flash drive with so little in use writes \
             faster than it will when it is full",
            device.name,
            size(used),
            size(all)
        ),
        "Load most of the drive, or fill the rest of it first (a device: target takes \
         --precondition 2x), and repeat.",
    )
    .with("used_bytes", used)
    .with("device_bytes", all)
    .judged()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    fn judged(change: impl Fn(&mut Device)) -> Judgement {
        let mut run = fixture::mixed_run();
        let host = run.details.host.as_mut().unwrap();
        host.virtual_machine = Some(true);
        let device = host.devices.first_mut().unwrap();
        device.file_system_bytes = Some(1000);
        device.free_bytes = Some(950);
        device.rotational = Some(false);
        change(device);
        run.details.devices = vec![device.name.clone()];
        judge(&run)
    }

    #[test]
    fn an_empty_flash_drive_is_found_and_a_full_one_is_not() {
        assert!(matches!(judged(|_| {}), Judgement::Found(_)));
        assert!(matches!(judged(|device| device.free_bytes = Some(850)), Judgement::Clear));
        let raw = |size: u64| {
            move |device: &mut Device| {
                device.file_system = None;
                device.size_bytes = Some(size);
            }
        };
        assert!(matches!(judged(raw(u64::MAX)), Judgement::Found(_)));
        assert!(matches!(judged(raw(1 << 20)), Judgement::Clear));
    }

    #[test]
    fn what_is_not_known_is_no_finding() {
        for change in [
            (|device| device.free_bytes = None) as fn(&mut Device),
            |device| device.rotational = None,
            |device| device.rotational = Some(true),
        ] {
            assert!(matches!(judged(change), Judgement::Unknown(_)));
        }
    }

    #[test]
    fn a_run_that_only_reads_meets_no_empty_blocks() {
        let mut run = fixture::mixed_run();
        run.summary.ops.update = 0;
        assert!(matches!(judge(&run), Judgement::Clear));
    }
}
