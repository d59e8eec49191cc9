//! The mean time of one block read, for a headline: by the database's clock, or by another one.

use super::served::{self, ReadsServed};
use petal_host::os::calls::{CallKind, CalledFiles};
use petal_record::Run;
use petal_record::headline::ReadClock;

/// Returns the time with its clock, unless this is the database's: the server's calls replace it, then
/// the device, if it served the reads.
pub fn of(run: &Run, is_steady: bool) -> Option<(f64, Option<ReadClock>)> {
    let by = |clock| move |us| (us, clock);
    let database = run.summary.io_latency_us.get("read").and_then(|read| read.mean);
    let calls = || of_calls(run, is_steady).map(by(Some(ReadClock::ServerCalls)));
    database
        .map(by(None))
        .or_else(calls)
        .or_else(|| of_device(run).map(by(Some(ReadClock::Device))))
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

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

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
