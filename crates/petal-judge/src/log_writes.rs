//! Judges a calibration's log writes: the call that was fastest, and whether the device can have
//! written a record when it said so. Time shows a cache, but not whether the cache keeps its content
//! through a power cut.

use petal_host::numbers::{decimal, whole};
use petal_record::calibration::{Calibration, CurvePoint, FDATASYNC, FSYNC, O_DSYNC, WRITE};

/// A disk at 15,000 rpm turns 250 times a second. Records that follow one after the other need a
/// turn each, so that twice as many a second come from a cache.
const TURNS_PER_S_MAX: f64 = 500.0;
/// A write and its sync take at least this multiple of a write alone if the sync waits for anything.
const SYNC_COSTS_MIN: f64 = 1.25;

/// Facts of the device that are not in the calibration.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogDevice<'a> {
    pub rotational: Option<bool>,
    /// queue/write_cache of the kernel: `write back` or `write through`.
    pub write_cache: Option<&'a str>,
}

/// Returns sentences on the log's curves; none without direct I/O, because a write only fills memory then.
pub fn notes(calibration: &Calibration, device: LogDevice<'_>) -> Vec<String> {
    if !calibration.direct_io.used {
        return Vec::new();
    }
    [cache(calibration, device), fastest(calibration)].into_iter().flatten().collect()
}

fn of_one(points: &[CurvePoint]) -> Option<&CurvePoint> {
    points.iter().find(|point| point.depth == 1)
}

/// Says whether the syncs of one writer wait for the device.
fn cache(calibration: &Calibration, device: LogDevice<'_>) -> Option<String> {
    let log = of_one(calibration.log_curves.get(FDATASYNC)?)?;
    let per_second = whole(log.iops.round() as u64);
    if device.rotational == Some(true) && log.iops > TURNS_PER_S_MAX {
        return Some(format!(
            "the kernel calls the device a rotating disk, which cannot write {per_second} log records a \
             second one after the other: a cache answered them, or it is a virtual disk. If the cache \
             loses its content in a power cut, commits are lost (docs/recipes/power-cut.md)"
        ));
    }
    let write = of_one(calibration.curves.get(WRITE)?)?;
    let (log_us, write_us) = (log.latency_us.p50?, write.latency_us.p50?);
    let figures = format!("{} us, a write alone {} us", decimal(log_us, 1), decimal(write_us, 1));
    if log_us >= write_us * SYNC_COSTS_MIN {
        return Some(format!(
            "a log write with its sync took {figures} (p50): the sync waited for something. Only a \
             power cut shows whether the data are safe then"
        ));
    }
    let claim = match device.write_cache {
        Some("write through") => {
            " The kernel sends it no flush, because it says that it has no volatile cache."
        }
        _ => "",
    };
    Some(format!(
        "a log write with its sync took {figures} (p50): the sync waited for nothing.{claim} That is \
         right if the device's cache keeps its content through a power cut. If not, commits are lost. \
         Only a power cut shows it (docs/recipes/power-cut.md)"
    ))
}

/// Names the fastest call of one writer, if its slowest round was faster than any round of another
/// call. With single rounds nothing is claimed.
fn fastest(calibration: &Calibration) -> Option<String> {
    let mut calls: Vec<(&str, &CurvePoint)> = [FDATASYNC, FSYNC, O_DSYNC]
        .into_iter()
        .filter_map(|name| Some((name, of_one(calibration.log_curves.get(name)?)?)))
        .collect();
    calls.sort_by(|a, b| b.1.iops.total_cmp(&a.1.iops));
    let [(name, best), rest @ ..] = calls.as_slice() else { return None };
    let next = rest.iter().map(|(_, point)| point.iops_max).reduce(f64::max)?;
    let is_sure = best.rounds > 1 && rest.iter().all(|(_, point)| point.rounds > 1);
    (is_sure && best.iops_min > next).then(|| {
        format!(
            "of the calls that make a log durable, {name} was the fastest with one writer, in every \
             round: {} records a second",
            whole(best.iops.round() as u64)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_host::histogram::LatencySummary;
    use petal_record::target::DirectIo;

    fn point(iops: f64, p50: f64) -> CurvePoint {
        CurvePoint {
            depth: 1,
            rounds: 3,
            iops,
            iops_min: iops * 0.95,
            iops_max: iops * 1.05,
            latency_us: LatencySummary { p50: Some(p50), ..LatencySummary::default() },
            ..CurvePoint::default()
        }
    }

    fn calibration(log: [(f64, f64); 3], write_us: f64) -> Calibration {
        let names = [FDATASYNC, FSYNC, O_DSYNC].map(str::to_owned);
        let points = log.map(|(iops, p50)| vec![point(iops, p50)]);
        Calibration {
            direct_io: DirectIo { asked: true, used: true, reason: None },
            log_curves: names.into_iter().zip(points).collect(),
            curves: [(WRITE.to_owned(), vec![point(10_000.0, write_us)])].into(),
            ..Calibration::default()
        }
    }

    const SAME: [(f64, f64); 3] = [(5000.0, 200.0), (5000.0, 200.0), (5000.0, 200.0)];

    #[test]
    fn a_sync_that_waits_for_nothing_is_named() {
        let text = |write_us, device| notes(&calibration(SAME, write_us), device).concat();
        let device = LogDevice::default();
        assert!(text(100.0, device).contains("waited for something"));
        assert!(text(190.0, device).contains("waited for nothing. That"));
        let through = LogDevice { write_cache: Some("write through"), ..device };
        assert!(text(190.0, through).contains("sends it no flush"));
    }

    #[test]
    fn a_disk_that_is_faster_than_it_turns_has_a_cache() {
        let device = LogDevice { rotational: Some(true), ..LogDevice::default() };
        let text = |iops| notes(&calibration([(iops, 8000.0); 3], 100.0), device).concat();
        assert!(text(501.0).contains("cannot write 501 log"));
        assert!(text(120.0).contains("waited for something"));
    }

    #[test]
    fn the_fastest_call_is_named_only_if_every_round_agrees() {
        let text = |third| {
            let log = [(5000.0, 200.0), (4000.0, 250.0), (third, 200.0)];
            notes(&calibration(log, 100.0), LogDevice::default()).concat()
        };
        assert!(text(6000.0).contains("o_dsync was the fastest"));
        assert!(!text(5200.0).contains("fastest"), "their rounds overlap");
        let mut single = calibration(SAME, 100.0);
        single.log_curves.get_mut(O_DSYNC).unwrap()[0] =
            CurvePoint { rounds: 1, ..point(9000.0, 100.0) };
        assert!(!notes(&single, LogDevice::default()).concat().contains("fastest"));
    }

    #[test]
    fn of_the_page_cache_nothing_is_said() {
        let cached = Calibration { direct_io: DirectIo::default(), ..calibration(SAME, 190.0) };
        assert!(notes(&cached, LogDevice::default()).is_empty());
    }
}
