//! Compares runs of a database with a run of the bare device with the same parameters: the share of
//! the device's requests that the database reached. Lines below a table of runs.

use super::super::numbers::rate;
use petal_record::{Run, Status};

/// Parameters that must be equal if one run is to be the other's limit.
const ALIKE: &str = "update_pct scan_pct scan_table_sz work_unit update_work_unit redo_stress \
    readers writers rate do_hotspot hotspot_mb hotspot_offset_mb hotspot_frequency \
    hot_schema_frequency think_tm_frequency think_tm_min think_tm_max prefetch io_depth";

/// Builds a line for each complete run of a database with a matching complete run of the bare
/// device.
pub fn lines(runs: &[&Run]) -> Vec<String> {
    let databases = (1..).zip(runs).filter(|(_, run)| !run.is_bare_device() && is_whole(run));
    databases.filter_map(|(row, run)| line(row, run, runs)).collect()
}

fn line(row: usize, run: &Run, runs: &[&Run]) -> Option<String> {
    let of_device = |(_, other): &(usize, &&Run)| other.is_bare_device() && is_whole(other);
    let mut devices = (1..).zip(runs).filter(of_device);
    let (device_row, device) = devices.find(|(_, other)| are_alike(run, other))?;
    let piops = |run: &Run| run.headline_window().run.summary.piops();
    let (reached, limit) = (piops(run)?, piops(device).filter(|limit| *limit > 0.0)?);
    Some(format!(
        "row {row}: {} {}, {} reads and writes a second, {:.0} % of the {} on the bare device with the \
         same parameters (row {device_row})",
        run.summary.target.product,
        run.summary.target.version,
        rate(reached),
        reached / limit * 100.0,
        rate(limit),
    ))
}

fn is_whole(run: &Run) -> bool {
    run.summary.status == Status::Complete
}

fn are_alike(run: &Run, other: &Run) -> bool {
    let data = |run: &Run| {
        let summary = &run.summary;
        let block_size = summary.target.block_size;
        (summary.schemas, summary.sessions, run.details.active_rows, block_size)
    };
    data(run) == data(other)
        && ALIKE
            .split_whitespace()
            .all(|key| run.summary.setting(key) == other.summary.setting(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn a_database_is_reported_its_share_of_the_same_run_on_the_device() {
        let database = fixture::mixed_run();
        let mut device = fixture::mixed_run();
        device.summary.engine = "device".into();
        let per_second = &mut device.summary.per_second;
        per_second.physical_read_requests = per_second.physical_read_requests.map(|n| n * 2.0);
        per_second.physical_write_requests = per_second.physical_write_requests.map(|n| n * 2.0);
        insta::assert_snapshot!(lines(&[&device, &database]).join("\n"), @"row 2: SQLite 3.54.1, 69,432 reads and writes a second, 50 % of the 138,863 on the bare device with the same parameters (row 1)");
        let changes: [fn(&mut Run); 6] = [
            |run| run.summary.sessions += 1,
            |run| run.details.active_rows += 1,
            |run| run.summary.status = Status::Interrupted,
            |run| run.summary.per_second.physical_read_requests = None,
            |run| {
                run.summary.settings.insert("update_pct".into(), 99.into());
            },
            |run| {
                run.summary.settings.insert("hotspot_mb".into(), 99.into());
            },
        ];
        for change in changes {
            let mut other = device.clone();
            change(&mut other);
            assert!(lines(&[&database, &other]).is_empty());
        }
        assert!(lines(&[&device, &device]).is_empty());
    }
}
