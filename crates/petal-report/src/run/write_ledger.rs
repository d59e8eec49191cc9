//! The write ledger: bytes that UPDATEs caused, down to the device.

use petal_host::numbers::decimal;
use petal_record::conclusions::WriteLedger;

use crate::numbers::{or_dash, rate};
use crate::table::Table;

pub fn table(ledger: &WriteLedger) -> Table {
    let heading = "written | MB | bytes per UPDATE | x the changed bytes | layer";
    Table::headed(heading).with_rows(ledger.rows.iter().map(|row| {
        [
            row.written.clone(),
            or_dash(row.bytes, |bytes| decimal(bytes as f64 / 1e6, 1)),
            or_dash(row.bytes_per_update, rate),
            or_dash(row.of_changed, |factor| decimal(factor, 2)),
            row.layer.clone(),
        ]
    }))
}

/// The sums, and the reasons for missing figures.
pub fn notes(ledger: &WriteLedger) -> Vec<String> {
    let amplification = or_dash(ledger.amplification, |factor| decimal(factor, 1));
    let unexplained = or_dash(ledger.unexplained_share, |share| decimal(share * 100.0, 1));
    let mut notes = vec![format!(
        "write amplification {amplification}: bytes of this database at the device over bytes that \
         UPDATEs changed; \
         unexplained {unexplained} % of the device's bytes"
    )];
    notes.extend(ledger.notes.iter().cloned());
    notes
}
