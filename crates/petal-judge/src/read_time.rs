//! The mean time of one block read, for a headline: by the database's clock, or by another one.

use super::served::{self, ReadsServed};
use petal_host::os::calls::{CallKind, CalledFiles};
use petal_record::headline::ReadClock;
use petal_record::{Run, Summary};
use petal_workload::op::Kind;

/// A SELECT's time is that of its reads if so many of its rows were read from outside the database.
const ROWS_READ_MIN: f64 = 0.5;

/// Returns the time with its clock, unless this is the database's: the server's calls replace it, then
/// the device, if it served the reads, then petal's operations.
pub fn of(run: &Run, is_steady: bool) -> Option<(f64, Option<ReadClock>)> {
    let by = |clock| move |us| (us, clock);
    let database = run.summary.io_latency_us.get("read").and_then(|read| read.mean);
    let calls = || of_calls(run, is_steady).map(by(Some(ReadClock::ServerCalls)));
    database
        .map(by(None))
        .or_else(calls)
        .or_else(|| of_device(run).map(by(Some(ReadClock::Device))))
        .or_else(|| of_operations(run).map(by(Some(ReadClock::Operations))))
}

fn of_calls(run: &Run, is_steady: bool) -> Option<f64> {
    let host = run.summary.os.as_ref()?.database_host.as_ref()?;
    let calls = if is_steady { &host.steady_calls } else { &host.calls };
    let rows = &calls.as_ref()?.rows;
    let is_read = |call, files| (call, files) == (CallKind::Read, CalledFiles::Data);
    rows.iter().find(|row| is_read(row.call, row.files))?.time_us.mean
}

fn of_device(run: &Run) -> Option<f64> {
    // A part is not the mean: the page cache answers the other reads in a microsecond.
    served::reads(run).ok().filter(ReadsServed::is_by_device)?;
    let device = run.details.device.filter(|device| device.read_requests > 0)?;
    Some(device.read_ms as f64 * 1e3 / device.read_requests as f64)
}

/// The mean time of a SELECT over its blocks read, if petal's operations alone read from the server's files.
fn of_operations(run: &Run) -> Option<f64> {
    let Summary { ops, rows, share, .. } = &run.summary;
    let is_share = share.as_ref().is_some_and(|share| share.share.of > 1);
    if run.details.target.in_process || is_share || ops.scan > 0 || ops.select == 0 {
        return None;
    }
    let reads = run.details.io.physical_read_requests?;
    let reads_per_row = reads as f64 / rows.total().max(1) as f64;
    let rows_per_select = rows.select as f64 / ops.select as f64;
    let select_us = run.summary.latency(Kind::Select)?.mean?;
    (reads_per_row >= ROWS_READ_MIN).then(|| select_us / (reads_per_row * rows_per_select))
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn operations_replace_the_clock_of_a_server_that_times_nothing() {
        let untimed = |change: &dyn Fn(&mut Run)| {
            let mut run = fixture::mixed_run();
            run.summary.io_latency_us.clear();
            run.details.device = None;
            run.details.target.in_process = false;
            run.details.io.physical_read_requests = Some(run.summary.rows.total() * 2);
            change(&mut run);
            of(&run, false)
        };
        let run = fixture::mixed_run();
        let select_us = run.summary.latency(Kind::Select).unwrap().mean.unwrap();
        let rows = run.summary.rows.select as f64 / run.summary.ops.select as f64;
        let (us, clock) = untimed(&|_| ()).unwrap();
        assert_eq!(clock, Some(ReadClock::Operations));
        assert!((us - select_us / rows / 2.0).abs() < 1e-9, "{us}");
        let few = |run: &mut Run| {
            run.details.io.physical_read_requests = Some(run.summary.rows.total() / 4);
        };
        assert_eq!(untimed(&few), None, "the database's cache answered most");
        assert_eq!(untimed(&|run| run.details.io.physical_read_requests = None), None);
        assert_eq!(untimed(&|run| run.details.target.in_process = true), None);
    }

    #[test]
    fn a_read_is_divided_as_the_kernel_measured_it() {
        let mut run = fixture::mixed_run();
        run.summary.ops.select += run.summary.ops.update;
        run.summary.ops.update = 0;
        fixture::time_threads(&mut run, 1.0);
        let (us, _) = of(&run, false).unwrap();
        let parts = crate::waterfall::of_read(&run, us).unwrap();
        let sum_us = parts.device_us + parts.run_queue_us + parts.rest_us;
        assert!((sum_us - us).abs() < 1e-9 && parts.rest_us >= 0.0, "{parts:?}");
        assert!(parts.device_us > 0.0 && parts.run_queue_us > 0.0, "{parts:?}");
        let headline = crate::headline(&run);
        let words = format!("single-block read {us:.1} us (device ");
        assert!(headline.to_string().contains(&words), "{headline}");
        // What waited for a processor after an UPDATE's sync is no part of a read.
        let mut mixed = run.clone();
        mixed.summary.ops.update = 1;
        assert_eq!(crate::waterfall::of_read(&mixed, us), None);
        fixture::time_threads(&mut run, 0.8);
        assert_eq!(crate::waterfall::of_read(&run, us), None);
    }

    #[test]
    fn calls_and_then_the_device_stand_in_for_a_database_that_does_not_time_its_reads() {
        let mut run = fixture::mixed_run();
        assert_eq!(of(&run, false).unwrap().1, None);
        run.summary.io_latency_us.clear();
        let device = run.details.device.unwrap();
        let (us, clock) = of(&run, false).unwrap();
        assert_eq!(clock, Some(ReadClock::Device));
        let mean_us = device.read_ms as f64 * 1e3 / device.read_requests as f64;
        assert!((us - mean_us).abs() < 1e-9);
        // Of reads from the page cache, the device's time says nothing.
        let mut buffered = run.clone();
        fixture::read_through_page_cache(&mut buffered);
        assert_eq!(of(&buffered, false), None);
        fixture::time_requests(&mut buffered);
        buffered.summary.os = petal_record::os_figures::OsFigures::of(&buffered);
        let (us, clock) = of(&buffered, false).unwrap();
        assert_eq!(clock, Some(ReadClock::ServerCalls));
        assert!(us > 0.0);
    }
}
