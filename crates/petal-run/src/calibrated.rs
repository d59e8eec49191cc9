//! Chooses the calibration for a run: the newest kept one of the same drives that has a curve for
//! the run's size and mix.

use std::path::Path;

use petal_judge::calibration;
use petal_record::Run;
use petal_record::calibration::{CalibratedShare, Calibration, of_drives};

/// Returns the newest calibration that fits, or `None` if no calibration of these drives is kept,
/// or the run's device was not counted.
pub fn find(kept_in: Option<&Path>, drives: &[String], run: &Run) -> Option<CalibratedShare> {
    let mut kept = of_drives(kept_in?, drives);
    // A loop device has its own cache, a volume its own path: prefer a calibration of exactly this
    // device.
    let is_same = |calibration: &Calibration| {
        let name = calibration.device.as_ref().map(|device| &device.name);
        name.is_some_and(|name| run.details.devices.contains(name))
    };
    if kept.iter().any(|(_, calibration)| is_same(calibration)) {
        kept.retain(|(_, calibration)| is_same(calibration));
    }
    let shares: Vec<CalibratedShare> = kept
        .into_iter()
        .filter_map(|(path, kept)| calibration::share(run, &path.display().to_string(), &kept))
        .collect();
    let with_curve = shares.iter().position(|share| share.curve.is_some());
    shares.into_iter().nth(with_curve.unwrap_or(0))
}
