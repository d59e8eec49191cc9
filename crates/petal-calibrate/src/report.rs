//! A calibration as a record with its reports.

use petal_record::calibration::{self, Calibration};
use petal_report::listed::ListedRecord;
use petal_report::numbers::or_dash;
use petal_report::own_record::OwnRecord;

use crate::{page, text};

pub const CALIBRATION: OwnRecord<Calibration> = OwnRecord {
    file: calibration::NAME,
    noun: "a calibration",
    load: calibration::load,
    text: text::render,
    brief: text::brief,
    page: page::page,
    listed,
};

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
        hostile::search(CALIBRATION.write(&folder, &hostile).unwrap());
    }

    #[test]
    fn no_line_of_it_is_longer_than_the_terminal() {
        let measured = fixture::calibration();
        widths::look("calibrate", || text::render(&measured));
        widths::look("calibrate, brief", || text::brief(&measured));
    }
}
