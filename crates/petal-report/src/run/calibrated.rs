//! Compares the run with the calibration of its device.

use super::super::numbers::{decimal, or_dash, whole};
use super::super::table::Table;
use petal_judge::calibration;
use petal_record::calibration::CalibratedShare;

pub(crate) fn line(share: &CalibratedShare) -> String {
    if let Some(why) = calibration::too_low(share) {
        return why;
    }
    format!(
        "{} of the device at this depth, {} of its maximum",
        or_dash(share.of_depth, per_cent),
        or_dash(share.of_max, per_cent),
    )
}

pub(crate) fn per_cent(part: f64) -> String {
    format!("{} %", decimal(part * 100.0, 0))
}

pub(crate) fn table(share: &CalibratedShare) -> Table {
    let mut table = Table::of_figures(" | requests/s | in flight | reads %");
    table.row([
        "this run, by the device's counters".to_owned(),
        decimal(share.device_iops, 0),
        decimal(share.device_depth, 1),
        decimal(share.read_pct, 0),
    ]);
    let reads = or_dash(share.curve_read_pct, |reads| decimal(reads, 0));
    table.row([
        "calibrated, as many in flight".to_owned(),
        or_dash(share.curve_iops, |iops| decimal(iops, 0)),
        decimal(share.device_depth, 1),
        reads.clone(),
    ]);
    table.row([
        "calibrated, its maximum".to_owned(),
        or_dash(share.curve_iops_max, |iops| decimal(iops, 0)),
        or_dash(share.curve_depth_max, |depth| depth.to_string()),
        reads,
    ]);
    table
}

/// Lists figures that are not compared, with reasons; flushes; and the calibration's name.
pub(crate) fn notes(share: &CalibratedShare) -> Vec<String> {
    let unknown = share.unknown.as_ref().map(|unknown| format!("not compared: {unknown}"));
    let flushes = (share.flush_share > 0.0).then(|| {
        format!(
            "the run flushed the device {} times for each 100 requests; the curves have no flushes",
            decimal(share.flush_share * 100.0, 1)
        )
    });
    [unknown, flushes, Some(calibration_source(share))].into_iter().flatten().collect()
}

pub(crate) fn calibration_source(share: &CalibratedShare) -> String {
    format!(
        "calibrated {} on {} with blocks of {} bytes: {}",
        share.calibrated_at,
        share.path,
        whole(share.block_bytes),
        share.calibration
    )
}
