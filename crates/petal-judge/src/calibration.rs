//! Compares a run with the calibration of its device: the share that it reached of the rate at the
//! same depth, size and mix, and its share of the device's maximum.
//!
//! Only the share at the run's own depth can be a finding: a run that keeps few requests in flight
//! cannot reach the maximum, and that is no fault of the device.

use petal_host::numbers::{decimal, whole};
use serde_json::json;

use petal_record::Run;
use petal_record::calibration::{
    Best, CalibratedPoint, CalibratedShare, Calibration, CurvePoint, MIX, READ, WRITE,
};

use super::io_limits;
use super::judgement::{FindingParts, Judgement, advised, clear_if, info, known, unknown, warning};

/// A run's mix is a curve's if the reads differ by no more of all requests, in percent.
const MIX_DISTANCE_MAX: f64 = 15.0;
/// Requests are of the curve's size if their mean differs by no more than this part.
const SIZE_DIFFERENCE_MAX: f64 = 0.25;
/// Reads, or writes, that are fewer of all requests have no say in the size.
const KIND_SHARE_MIN: f64 = 0.15;
const REQUESTS_MIN: u64 = 1000;
/// Share of the calibrated device at the same depth below which something else limits the run.
const OF_DEPTH_MIN: f64 = 0.80;
/// A device cannot do more than itself: over this share its calibration is too low.
pub(crate) const OF_DEVICE_MAX: f64 = 1.10;
/// Highest number of flushes per request. The curves have none, so more are different work.
const FLUSH_SHARE_MAX: f64 = 0.01;

/// Requests per second at a depth, from a curve's points (depth, requests per second) sorted by
/// depth. At a measured depth it is the measured rate; between two, a straight line in logarithms
/// of both; under the first, in proportion, because latency then is that of an idle device
/// (Little's law). Past the last it is unknown.
pub fn at_depth(points: &[(f64, f64)], depth: f64) -> Option<f64> {
    let &(first_depth, first_iops) = points.first()?;
    if !(depth > 0.0 && first_depth > 0.0) {
        return None;
    }
    if depth <= first_depth {
        return Some(first_iops * depth / first_depth);
    }
    let pairs = points.windows(2).filter_map(|pair| <[_; 2]>::try_from(pair).ok());
    let [(below, below_iops), (above, above_iops)] =
        pairs.into_iter().find(|[below, above]| below.0 <= depth && depth <= above.0)?;
    let part = (depth / below).ln() / (above / below).ln();
    Some(below_iops * (above_iops / below_iops).powf(part))
}

/// A curve as [`at_depth`] takes it: by the depth that the kernel counted, as runs are counted too;
/// if that is unknown, by the requested depth, which is a little higher.
fn curve(points: &[CurvePoint]) -> Vec<(f64, f64)> {
    let mut curve: Vec<(f64, f64)> = points
        .iter()
        .map(|point| (point.device_depth.unwrap_or(point.depth.into()), point.iops))
        .filter(|(depth, iops)| *depth > 0.0 && *iops > 0.0)
        .collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    curve.dedup_by(|later, earlier| later.0 <= earlier.0 * 1.001);
    curve
}

/// The point with the most requests per second.
pub fn best(points: &[CurvePoint]) -> Option<Best> {
    let best = points.iter().max_by(|a, b| a.iops.total_cmp(&b.iops))?;
    Some(Best { iops: best.iops, depth: best.depth })
}

/// Returns the reason if a run proves its calibration too low; None if it does not.
pub fn too_low(share: &CalibratedShare) -> Option<String> {
    let over = |part: Option<f64>, of: &str| {
        let times = decimal(part.filter(|part| *part > OF_DEVICE_MAX)?, 1);
        Some(format!("the calibration is too low: the run did {times} times {of}"))
    };
    over(share.of_depth, "the calibrated rate with as many in flight")
        .or_else(|| over(share.of_max, "its maximum"))
}

/// Compares the run with one calibration; None if the run's device was not counted.
pub fn share(run: &Run, name: &str, calibration: &Calibration) -> Option<CalibratedShare> {
    let device = run.details.device?;
    let seconds = run.summary.elapsed_s;
    let reads = device.read_requests;
    let writes = device.write_requests.saturating_sub(device.flushes);
    let requests = reads + writes;
    if requests == 0 || seconds <= 0.0 {
        return None;
    }
    let read_share = reads as f64 / requests as f64;
    let mut share = CalibratedShare {
        calibration: name.to_owned(),
        calibrated_at: calibration.started_at.clone(),
        path: calibration.path.clone(),
        block_bytes: calibration.block_bytes,
        read_pct: read_share * 100.0,
        device_iops: requests as f64 / seconds,
        device_depth: (device.read_ms + device.write_ms) as f64 / 1000.0 / seconds,
        flush_share: device.flushes as f64 / requests as f64,
        ..CalibratedShare::default()
    };
    let kinds = [("reads", device.read_bytes, reads), ("writes", device.write_bytes, writes)];
    let few = requests < REQUESTS_MIN;
    let reason = few.then(|| {
        format!("{requests} requests are too few for an answer", requests = whole(requests))
    });
    let reason = reason.or_else(|| other_size(run, calibration, kinds));
    share.unknown = reason.or_else(|| compare_with_curve(&mut share, calibration));
    Some(share)
}

/// Returns the reason if the run's requests, by kind with bytes and count, are not of the
/// calibrated size; None if they are.
fn other_size(
    run: &Run,
    calibration: &Calibration,
    kinds: [(&str, u64, u64); 2],
) -> Option<String> {
    let requests: u64 = kinds.iter().map(|kind| kind.2).sum();
    let calibrated = calibration.block_bytes;
    let means = kinds.map(|(kind, bytes, count)| (kind, count, bytes as f64 / count.max(1) as f64));
    let (kind, _, mean) = means.into_iter().find(|&(_, count, mean)| {
        count as f64 / requests as f64 >= KIND_SHARE_MIN
            && (mean / calibrated as f64 - 1.0).abs() > SIZE_DIFFERENCE_MAX
    })?;
    let block_bytes = run.summary.target.block_size;
    // Only the run's own block size is a size that its requests would have.
    let hint = if block_bytes == calibrated {
        "log writes, write-back or others' requests are among them, and no calibration is like that \
         mix"
        .to_owned()
    } else {
        format!("petal calibrate --block-size {block_bytes}")
    };
    Some(format!(
        "the run's {kind} had {mean} bytes on average, and the device was calibrated with \
         {calibrated}: {hint}",
        mean = decimal(mean, 0)
    ))
}

/// Compares the run with the curve that has the most similar mix. Returns a reason if no comparison
/// is possible.
fn compare_with_curve(share: &mut CalibratedShare, calibration: &Calibration) -> Option<String> {
    let Some((name, read_pct, points)) = nearest_curve(calibration, share.read_pct) else {
        return Some(format!(
            "{:.0} % of the run's requests were reads, and no curve was made with so many: petal \
             calibrate --mix",
            share.read_pct
        ));
    };
    let best = best(points);
    share.points = points.iter().map(CalibratedPoint::from).collect();
    share.curve = Some(name.to_owned());
    share.curve_read_pct = Some(read_pct);
    share.curve_iops = at_depth(&curve(points), share.device_depth);
    share.curve_iops_max = best.map(|best| best.iops);
    share.curve_depth_max = best.map(|best| best.depth);
    share.of_depth = share.curve_iops.map(|iops| share.device_iops / iops);
    share.of_max = share.curve_iops_max.map(|iops| share.device_iops / iops);
    share.of_depth.is_none().then(|| {
        format!("{:.1} requests in flight are more than were calibrated", share.device_depth)
    })
}

/// Returns the curve with the nearest share of reads, with that share and its points; None if none
/// is near.
fn nearest_curve(
    calibration: &Calibration,
    read_pct: f64,
) -> Option<(&'static str, f64, &[CurvePoint])> {
    let distance = |curve_read_pct: f64| (read_pct - curve_read_pct).abs();
    [(READ, 100.0), (MIX, f64::from(calibration.mix_read_pct)), (WRITE, 0.0)]
        .into_iter()
        .filter_map(|(name, pct)| Some((name, pct, calibration.curves.get(name)?.as_slice())))
        .filter(|(_, pct, points)| !points.is_empty() && distance(*pct) <= MIX_DISTANCE_MAX)
        .min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)))
}

pub(super) fn under_device(run: &Run) -> Judgement {
    let share = known(
        run.details.calibrated.as_ref(),
        "no calibration of the data's device is known here (petal calibrate makes one)",
    )?;
    if let Some(why) = too_low(share) {
        return info(
            format!(
                "{why} ({} a second at {:.1})",
                decimal(share.device_iops, 0),
                share.device_depth
            ),
            "Calibrate again (petal calibrate), with nobody else at work on the device and with \
             the whole range of queue depths; compare nothing with this calibration.",
        )
        .with(json!({
            "of_depth": share.of_depth, "of_max": share.of_max, "device_iops": share.device_iops,
            "curve_iops": share.curve_iops, "device_depth": share.device_depth,
            "calibration": share.calibration,
        }))
        .named("calibration-too-low");
    }
    let why = share.unknown.as_deref().unwrap_or_default();
    let (of_depth, iops) = known(share.of_depth.zip(share.curve_iops), why)?;
    if share.flush_share > FLUSH_SHARE_MAX {
        return unknown(format!(
            "{:.1} flushes for each 100 requests: calibrated curves have none",
            share.flush_share * 100.0
        ));
    }
    clear_if(of_depth >= OF_DEPTH_MIN)?;
    let limit = io_limits::reached(run).into_iter().next();
    let why = match &limit {
        Some(limit) => format!("it was held to {}", limit.words()),
        None => "its requests took longer".to_owned(),
    };
    let advice = limit.map(|limit| limit.advice());
    warning(
        format!(
            "the device gave {:.0} % of its calibrated rate with as many requests in flight ({} \
             of {iops} a second at {:.1}): {why}",
            of_depth * 100.0,
            decimal(share.device_iops, 0),
            share.device_depth,
            iops = decimal(iops, 0)
        ),
        advised(
            &advice,
            "Look for other load on the device, heat, burst credit used up, a drive that collects \
         garbage; calibrate again to see whether the device itself has changed.",
        ),
    )
    .with(json!({
        "of_depth": of_depth, "device_iops": share.device_iops, "curve_iops": iops,
        "device_depth": share.device_depth, "curve": share.curve,
        "calibration": share.calibration,
    }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use petal_host::os::DeviceCounts;
    use petal_record::fixture;
    use petal_record::fixture::calibration;
    use proptest::prelude::*;

    fn points() -> impl Strategy<Value = Vec<(f64, f64)>> {
        prop::collection::vec((0.01f64..3.0, 1.0f64..1e6), 1..12).prop_map(|steps| {
            let mut depth = 0.0;
            let place = |(step, iops): (f64, f64)| {
                depth += step;
                (depth, iops)
            };
            steps.into_iter().map(place).collect()
        })
    }

    proptest! {
        #[test]
        fn what_was_measured_is_what_it_says(points in points()) {
            for &(depth, iops) in &points {
                let found = at_depth(&points, depth).unwrap();
                prop_assert!((found / iops - 1.0).abs() < 1e-9, "{} for {}", found, iops);
            }
        }

        #[test]
        fn between_two_points_it_is_between_their_figures(points in points(), part in 0.0f64..1.0) {
            for pair in points.windows(2) {
                let depth = pair[0].0 + (pair[1].0 - pair[0].0) * part;
                let found = at_depth(&points, depth).unwrap();
                let (low, high) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
                prop_assert!(found >= low * (1.0 - 1e-9) && found <= high * (1.0 + 1e-9));
            }
        }

        #[test]
        fn under_the_first_it_is_in_proportion_and_past_the_last_unknown(
            points in points(), part in 0.001f64..1.0,
        ) {
            let (first, last) = (points[0], points[points.len() - 1]);
            let found = at_depth(&points, first.0 * part).unwrap();
            prop_assert!((found / (first.1 * part) - 1.0).abs() < 1e-9);
            prop_assert_eq!(at_depth(&points, last.0 * 1.01), None);
            prop_assert_eq!(at_depth(&points, 0.0), None);
            prop_assert_eq!(at_depth(&[], part), None);
        }
    }

    /// A run of 100 s with these reads and writes of 8 KiB a second, and this number in flight.
    fn run(reads: u64, writes: u64, depth: f64) -> Run {
        let mut run = fixture::mixed_run();
        run.summary.elapsed_s = 100.0;
        run.details.device = Some(DeviceCounts {
            read_requests: reads * 100,
            read_bytes: reads * 100 * 8192,
            write_requests: writes * 100,
            write_bytes: writes * 100 * 8192,
            read_ms: (depth * 100.0 * 1000.0) as u64,
            ..DeviceCounts::default()
        });
        run
    }

    fn near(found: Option<f64>, wanted: f64) {
        let found = found.unwrap();
        assert!((found - wanted).abs() < 1e-6, "{found} for {wanted}");
    }

    #[test]
    fn a_run_is_compared_at_its_own_depth_and_mix() {
        let of = |run: &Run| share(run, "x.json", &calibration()).unwrap();
        let reading = of(&run(900, 0, 0.9));
        assert_eq!((reading.curve.as_deref(), reading.curve_depth_max), (Some(READ), Some(16)));
        near(reading.of_depth, 0.9);
        near(reading.of_max, 900.0 / 8000.0);
        // Half the requests in flight: half the curve's first point.
        near(of(&run(900, 0, 0.45)).of_depth, 1.8);
        assert_eq!(of(&run(660, 340, 3.6)).curve.as_deref(), Some(MIX));
        near(of(&run(700, 300, 3.6)).of_depth, 1000.0 / 3200.0);
        assert_eq!(of(&run(50, 950, 3.6)).curve.as_deref(), Some(WRITE));
    }

    #[test]
    fn a_mix_without_a_curve_is_unknown_with_its_reason() {
        let why = |run: &Run| {
            let share = share(run, "x.json", &calibration()).unwrap();
            assert_eq!(share.of_depth, None);
            share.unknown.unwrap()
        };
        assert!(why(&run(400, 600, 4.0)).contains("40 % of the run's requests were reads"));
        assert!(why(&run(900, 0, 15.0)).contains("more than were calibrated"));
        assert!(why(&run(9, 0, 1.0)).contains("too few"));
        let mut large = run(900, 100, 4.0);
        large.details.device.as_mut().unwrap().read_bytes *= 2;
        assert!(why(&large).contains("16,384 bytes"), "{}", why(&large));
        let mut unseen = run(900, 0, 1.0);
        unseen.details.device = None;
        assert_eq!(share(&unseen, "x.json", &calibration()), None);
    }

    #[test]
    fn only_the_share_at_the_same_depth_is_a_finding() {
        let judged = |reads: u64, depth: f64, flushes: u64| {
            let mut run = run(reads, 0, depth);
            let device = run.details.device.as_mut().unwrap();
            device.flushes = flushes;
            device.write_requests += flushes;
            run.details.calibrated = share(&run, "x.json", &calibration());
            crate::judge(&run).into_iter().find(|finding| finding.id == "under-device")
        };
        // An eighth of the maximum and nearly all at this depth.
        assert_eq!(judged(900, 0.9, 0), None);
        let finding = judged(700, 0.9, 0).unwrap();
        insta::assert_snapshot!(finding.message, @"the device gave 70 % of its calibrated rate with as many requests in flight (700 of 1,000 a second at 0.9): its requests took longer");
        let low = judged(3610, 0.9, 0);
        assert_eq!(low, None, "another finding says that the calibration is too low");
        // A run with syncs is different work.
        assert_eq!(judged(700, 0.9, 10_000), None);
    }

    #[test]
    fn a_run_that_is_faster_than_its_device_proves_the_calibration_too_low() {
        let found = |reads: u64, depth: f64| {
            let mut run = run(reads, 0, depth);
            run.details.calibrated = share(&run, "x.json", &calibration());
            let found = crate::judge(&run);
            found.into_iter().find(|finding| finding.id == "calibration-too-low")
        };
        let low = found(11_960, 0.9).unwrap();
        insta::assert_snapshot!(low.message, @"the calibration is too low: the run did 12.0 times the calibrated rate with as many in flight (11,960 a second at 0.9)");
        assert_eq!(found(1090, 0.9), None, "repeats differ by as much");
        // Deeper than the calibration, and above the device's maximum.
        assert!(found(9900, 15.0).unwrap().message.contains("1.2 times its maximum"));
    }
}
