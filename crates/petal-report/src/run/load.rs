//! The load: totals, per second and per operation, and the ratios that show its composition.

use super::super::numbers::{decimal, micros, or_dash, percent, rate, ratio, whole};
use super::super::table::Table;
use petal_record::Run;
use petal_workload::op::Hot;

enum Unit {
    Count,
    Bytes,
}

pub(crate) fn profile(run: &Run) -> Table {
    let (summary, io, per) = (&run.summary, &run.details.io, &run.summary.per_second);
    let device = run.details.device.as_ref();
    let (reads, writes) = device.map(|d| (d.read_requests, d.write_requests)).unzip();
    let (read, written) = device.map(|d| (d.read_bytes, d.write_bytes)).unzip();
    let (io_writes, per_io_writes) = (io.physical_write_requests, per.physical_write_requests);
    use Unit::{Bytes, Count};
    let rows = [
        ("operations", Some(summary.ops.total), per.ops, Count),
        ("rows visited", Some(summary.rows.total()), per.rows, Count),
        ("commits acknowledged", Some(summary.ops.update), per.commits, Count),
        ("log syncs", io.log_syncs, per.log_syncs, Count),
        ("logical reads, blocks", io.logical_reads, per.logical_reads, Count),
        ("physical reads, blocks", io.physical_read_blocks, per.physical_read_blocks, Count),
        ("physical reads, requests", io.physical_read_requests, per.physical_read_requests, Count),
        ("physical reads, MB", io.physical_read_bytes, per.physical_read_bytes, Bytes),
        ("blocks read from the log", io.log_read_blocks, None, Count),
        ("physical writes, blocks", io.physical_write_blocks, per.physical_write_blocks, Count),
        ("physical writes, requests", io_writes, per_io_writes, Count),
        ("physical writes, MB", io.physical_write_bytes, per.physical_write_bytes, Bytes),
        ("redo, MB", io.redo_bytes, per.redo_bytes, Bytes),
        ("device reads, requests", reads, per.device_read_requests, Count),
        ("device reads, MB", read, per.device_read_bytes, Bytes),
        ("device writes, requests", writes, per.device_write_requests, Count),
        ("device writes, MB", written, per.device_write_bytes, Bytes),
    ];
    let mut table = Table::of_figures(" | total | per second | per operation");
    for (name, total, per_second, unit) in rows {
        let seconds = Some(summary.elapsed_s).filter(|&seconds| seconds > 0.0);
        let per_second = per_second.or_else(|| Some(total? as f64 / seconds?));
        let per_operation = ratio(total, Some(summary.ops.total));
        let cells = match unit {
            Count => {
                [or_dash(total, whole), or_dash(per_second, rate), or_dash(per_operation, rate)]
            }
            Bytes => [
                or_dash(total, |bytes| decimal(bytes as f64 / 1e6, 1)),
                or_dash(per_second, |bytes| rate(bytes / 1e6)),
                or_dash(per_operation, |bytes| rate(bytes / 1e6)),
            ],
        };
        table.row([name.to_owned()].into_iter().chain(cells));
    }
    table
}

/// Lists the composition of the load, measured and intended.
pub(crate) fn ratios(run: &Run) -> Table {
    let (summary, io) = (&run.summary, &run.details.io);
    let (rows, updated) = (summary.rows.total(), summary.rows.update);
    let mut table = Table::of_figures("ratio | measured | meant");
    let mut row = |name: &str, measured: Option<f64>, show: fn(f64) -> String, meant: String| {
        table.row([name.to_owned(), or_dash(measured, show), meant]);
    };
    let thousandths = |value: f64| decimal(value, 3);
    // Scans are operations as well: UPDATE_PCT is a share of all.
    let ops = &summary.ops;
    let updates = ratio(Some(ops.update), Some(ops.select + ops.scan + ops.update));
    let asked = summary.setting_number("update_pct").filter(|_| !has_whole_sessions(run));
    row("UPDATEs in all operations, %", updates, percent, or_dash(asked, |p| decimal(p, 1)));
    for (name, hot, every) in [
        ("SELECTs and UPDATEs sent to the hot spot, %", Hot::Spot, "hotspot_frequency"),
        ("operations sent to the hot schema, %", Hot::Schema, "hot_schema_frequency"),
    ] {
        let Some(latency) = summary.hot_latency_us.get(hot.name()) else { continue };
        let all = if hot == Hot::Spot { ops.select + ops.update } else { ops.total };
        let share = ratio(Some(latency.count), Some(all));
        let meant = summary.setting_number(every).filter(|&every| every > 0.0);
        row(name, share, percent, or_dash(meant, |every| percent(1.0 / every)));
    }
    let (read, written, log) =
        (io.physical_read_blocks, io.physical_write_blocks, io.log_read_blocks);
    let share = read.zip(written).and_then(|(read, write)| ratio(Some(write), Some(read + write)));
    let meant = ratio(Some(updated), Some(rows + updated));
    row("writes in physical I/O, % of blocks", share, percent, or_dash(meant, percent));
    let meant = or_dash(ratio(Some(rows), Some(updated)), rate);
    row("blocks read per block written", ratio(read, written), rate, meant);
    let (rows, unset) = (Some(rows), String::new);
    row("physical reads per row visited", ratio(read, rows), thousandths, "1.000".into());
    if log.is_some() {
        row("reads from the log per row visited", ratio(log, rows), thousandths, unset());
    }
    row("logical reads per row visited", ratio(io.logical_reads, rows), thousandths, unset());
    let each = ratio(read, io.physical_read_requests);
    row("blocks per read request", each, thousandths, unset());
    let misses = ratio(read.map(|read| read + log.unwrap_or(0)), io.logical_reads);
    let hits = misses.map(|misses| 1.0 - misses);
    row("logical reads found in cache, %", hits, percent, unset());
    row("redo bytes per updated row", ratio(io.redo_bytes, Some(updated)), rate, unset());
    let each = ratio(Some(ops.update), io.log_syncs);
    row("commits per log sync", each, |value| decimal(value, 2), unset());
    row("host processor us per physical request", cpu_per_request(run), micros, unset());
    table
}

/// READERS and WRITERS set the mix, not UPDATE_PCT.
fn has_whole_sessions(run: &Run) -> bool {
    ["readers", "writers"].iter().any(|key| run.summary.setting_number(key).is_some())
}

/// Returns the work of the processors that the database may use, per physical request.
fn cpu_per_request(run: &Run) -> Option<f64> {
    let host = run.details.host.as_ref().filter(|_| run.details.target.local)?;
    let cpu = run.summary.cpu.as_ref()?;
    let piops = run.summary.piops().filter(|&piops| piops > 0.0)?;
    let busy = (100.0 - cpu.idle - cpu.iowait) / 100.0;
    // The shares are of the allowed processors, if the server is confined.
    let allowed = run.database_host().and_then(|seen| seen.allowed_cpus.as_ref());
    let cpus = allowed.map_or(f64::from(host.cpus), |cpus| cpus.len() as f64);
    Some(busy * cpus * 1e6 / piops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_host::histogram::LatencySummary;
    use petal_record::fixture;

    #[test]
    fn updates_are_counted_in_addition_to_scans() {
        let mut run = fixture::mixed_run();
        (run.summary.ops.select, run.summary.ops.scan, run.summary.ops.update) = (40, 40, 20);
        let ratios = ratios(&run);
        // 20 of 100, as was asked.
        assert_eq!(ratios.texts(0), ["UPDATEs in all operations, %", "20.0", "20.0"]);
    }

    #[test]
    fn hot_operations_are_reported_with_their_share() {
        let mut run = fixture::mixed_run();
        assert!(!ratios(&run).render().contains("hot"), "nothing was asked of it");
        let total = run.summary.ops.total;
        let hot = LatencySummary { count: total / 4, ..LatencySummary::default() };
        run.summary.hot_latency_us.insert("hot_spot".to_owned(), hot);
        run.summary.settings.insert("hotspot_frequency".to_owned(), 4.into());
        let ratios = ratios(&run);
        assert_eq!(
            ratios.texts(1),
            ["SELECTs and UPDATEs sent to the hot spot, %", "25.0", "25.0"]
        );
    }

    #[test]
    fn a_confined_database_is_charged_with_its_own_processors() {
        let mut run = fixture::mixed_run();
        let both = cpu_per_request(&run).unwrap();
        run.details.os.as_mut().unwrap().allowed_cpus = Some(vec![1]);
        assert!((cpu_per_request(&run).unwrap() - both / 2.0).abs() < 1e-9);
    }
}
