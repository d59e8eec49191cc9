//! A calibration as a record with its reports.

use std::path::Path;

use petal_record::RecordError;
use petal_record::calibration::{self, Calibration};
use petal_report::html::HtmlError;
use petal_report::listed::ListedRecord;
use petal_report::numbers::or_dash;
use petal_report::own_record::OwnRecord;

use crate::{page, text};

pub struct CalibrationRecord;

impl OwnRecord for CalibrationRecord {
    type Record = Calibration;

    const FILE: &'static str = calibration::NAME;
    const NOUN: &'static str = "a calibration";

    fn load(path: &Path) -> Result<Calibration, RecordError> {
        calibration::load(path)
    }

    fn text(measured: &Calibration) -> String {
        text::render(measured)
    }

    fn brief(measured: &Calibration) -> String {
        text::brief(measured)
    }

    fn page(measured: &Calibration) -> Result<String, HtmlError> {
        page::page(measured)
    }

    fn listed(name: String, measured: &Calibration) -> ListedRecord {
        let best = measured.best.get(calibration::READ);
        ListedRecord {
            name,
            kind: "calibration",
            state: measured.status.name().to_owned(),
            measured: measured.started_at.clone(),
            target: measured.path.clone(),
            host: measured.host.clone(),
            piops: best.map(|best| best.iops),
            verdict: or_dash(best, |best| format!("most reads at depth {}", best.depth)),
            ..ListedRecord::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::{RecordFolder, fixture};
    use petal_report::{hostile, widths};

    #[test]
    fn texts_of_a_calibration_do_nothing_in_its_reports() {
        let hostile = hostile::poisoned(&fixture::calibration());
        let dir = tempfile::tempdir().unwrap();
        let folder = RecordFolder::open(dir.path());
        hostile::search(CalibrationRecord::write_reports(&folder, &hostile).unwrap());
    }

    #[test]
    fn no_line_of_it_is_longer_than_the_terminal() {
        let measured = fixture::calibration();
        widths::look("calibrate", || text::render(&measured));
        widths::look("calibrate, brief", || text::brief(&measured));
    }
}
