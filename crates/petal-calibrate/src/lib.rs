//! Calibration: every curve at every depth, in rounds, so that a drift affects all points equally.
//! After a stop it keeps the measurements up to then.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod bounds;
mod page;
mod report;
mod text;

pub use report::CALIBRATION;

use petal_host::numbers::whole;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use petal_device::Device;
use petal_device::calibration_target::{
    CalibrationTarget, LARGE_BYTES, LARGE_DEPTH, WantedStretch,
};
use petal_device::measure::{Durable, IoMeasurements, IoPattern, LOG_BYTES};
use petal_engine::{EngineError, Progress, ProgressUnit, Stop};
use petal_host::devices::{self, DataDevices};
use petal_host::histogram::{Latencies, LatencySummary};
use petal_host::host::HostFacts;
use petal_host::os::{DeviceCounts, Probe};
use petal_judge::calibration::best;
use petal_judge::log_writes::{self, LogDevice};
use petal_record::calibration::{
    self, Calibration, CurvePoint, FORMAT, InOrder, LogWrites, MIX, MeasuredDevice, READ, WRITE,
};
use petal_record::{RecordError, RecordFolder, Status, moment};
use petal_run::RunError;
use petal_run::noted_progress::NotedProgress;
use petal_settings::Settings;

use bounds::{LatencyBound, under};

/// Number of measurements of a point, if each lasts at least `LENGTH_MIN`.
const ROUNDS: u32 = 3;
const LENGTH_MIN: Duration = Duration::from_millis(500);
/// Minimum length of a single round; a shorter measurement has no value.
const LENGTH_LEAST: Duration = Duration::from_millis(50);
/// Numbers of writers of a log.
const LOG_WRITERS: [u32; 3] = [1, 8, 64];
/// Requests in flight of one thread before another one helps.
const DEPTH_PER_THREAD: u32 = 64;
/// CPU share of a thread above which it limits the measurement.
const THREAD_BUSY_SHARE: f64 = 0.95;

/// Measurements to take.
#[derive(Debug, Clone)]
pub struct CalibrationPlan {
    pub block_bytes: u32,
    /// Depths in ascending order.
    pub depths: Vec<u32>,
    pub mix_read_pct: u8,
    /// Time for all measurements together.
    pub length: Duration,
    /// Number of threads; `None` means chosen by depth and processors.
    pub threads: Option<u32>,
    pub storage_cache: Option<u64>,
    pub bounds: Vec<LatencyBound>,
    pub seed: u64,
}

/// Measurement of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Measurement {
    Curve(&'static str, u32),
    InOrder(&'static str),
    Log(Durable, u32),
}

/// Totals of a measurement over its rounds.
#[derive(Default)]
struct Sum {
    rounds: u32,
    seconds: f64,
    reads: Latencies,
    writes: Latencies,
    iops: Vec<f64>,
    thread_cpu_share: f64,
    device: Option<DeviceCounts>,
}

impl CalibrationPlan {
    fn measurements(&self) -> Vec<Measurement> {
        let curves = self
            .depths
            .iter()
            .flat_map(|&depth| [READ, WRITE, MIX].map(|curve| Measurement::Curve(curve, depth)));
        let log = Durable::ALL
            .into_iter()
            .flat_map(|durable| LOG_WRITERS.map(|writers| Measurement::Log(durable, writers)));
        curves.chain([READ, WRITE].map(Measurement::InOrder)).chain(log).collect()
    }

    /// Returns the number of rounds and the time of each measurement, or an error if there is no
    /// time for one.
    pub fn rounds(&self) -> Result<(u32, Duration), EngineError> {
        let count = self.measurements().len() as u32;
        let enough = |rounds: u32| if rounds > 1 { LENGTH_MIN } else { LENGTH_LEAST };
        (1..=ROUNDS)
            .rev()
            .map(|rounds| (rounds, self.length / (rounds * count)))
            .find(|&(rounds, length)| length >= enough(rounds))
            .ok_or_else(|| {
                EngineError::Setting(format!(
                    "--seconds {}: {count} measurements need at least {:.0}; give more time, or \
                     fewer --depths",
                    self.length.as_secs(),
                    (LENGTH_LEAST * count).as_secs_f64().ceil(),
                    count = whole(count.into())
                ))
            })
    }

    fn work(&self, measurement: Measurement) -> Option<IoPattern> {
        let at_random = |read_pct: u8, depth: u32| {
            let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
            let threads = self.threads.unwrap_or(depth.div_ceil(DEPTH_PER_THREAD).min(cpus));
            let request_bytes = self.block_bytes;
            IoPattern { read_pct, request_bytes, in_order: false, depth, threads }
        };
        let in_order = |read_pct: u8| IoPattern {
            read_pct,
            request_bytes: LARGE_BYTES,
            in_order: true,
            depth: LARGE_DEPTH,
            threads: 1,
        };
        match measurement {
            Measurement::Curve(READ, depth) => Some(at_random(100, depth)),
            Measurement::Curve(WRITE, depth) => Some(at_random(0, depth)),
            Measurement::Curve(_, depth) => Some(at_random(self.mix_read_pct, depth)),
            Measurement::InOrder(READ) => Some(in_order(100)),
            Measurement::InOrder(_) => Some(in_order(0)),
            Measurement::Log(..) => None,
        }
    }
}

impl Sum {
    fn add(&mut self, measured: &IoMeasurements, device: Option<DeviceCounts>) {
        self.iops.push(measured.requests() as f64 / measured.seconds.max(1e-9));
        self.device = match self.rounds {
            0 => device,
            _ => self.device.zip(device).map(|(sum, one)| sum.plus(&one)),
        };
        self.rounds += 1;
        self.seconds += measured.seconds;
        self.reads.add(&measured.reads);
        self.writes.add(&measured.writes);
        self.thread_cpu_share = self.thread_cpu_share.max(measured.thread_cpu_share);
    }

    fn all(&self) -> Latencies {
        let mut all = self.reads.clone();
        all.add(&self.writes);
        all
    }

    fn per_second(&self) -> f64 {
        (self.reads.count() + self.writes.count()) as f64 / self.seconds.max(1e-9)
    }

    fn mb_per_s(&self, request_bytes: u32) -> f64 {
        self.per_second() * f64::from(request_bytes) / 1e6
    }

    /// A point of requests of one size.
    fn point(&self, depth: u32, threads: u32, request_bytes: u32) -> CurvePoint {
        let summary = |latencies: &Latencies| -> Option<LatencySummary> {
            (latencies.count() > 0).then(|| latencies.summary())
        };
        let iops = self.per_second();
        CurvePoint {
            depth,
            threads,
            rounds: self.rounds,
            seconds: self.seconds,
            reads: self.reads.count(),
            writes: self.writes.count(),
            iops,
            iops_min: self.iops.iter().copied().fold(f64::INFINITY, f64::min),
            iops_max: self.iops.iter().copied().fold(0.0, f64::max),
            mb_per_s: self.mb_per_s(request_bytes),
            read_latency_us: summary(&self.reads),
            write_latency_us: summary(&self.writes),
            latency_us: self.all().summary(),
            // More than petal had in flight: requests of others were counted too, or slow ones that
            // ended outside the measured time.
            device_depth: self
                .device
                .and_then(|device| device_depth(&device, iops))
                .filter(|in_flight| *in_flight <= f64::from(depth)),
            thread_cpu_share: self.thread_cpu_share,
        }
    }
}

/// Computes rate x await. The rate covers the measured time; the kernel's counts include the ramp,
/// which does not affect the await.
fn device_depth(device: &DeviceCounts, iops: f64) -> Option<f64> {
    let requests = device.read_requests + device.write_requests.saturating_sub(device.flushes);
    let ms = (device.read_ms + device.write_ms) as f64;
    (requests > 0 && ms > 0.0).then(|| iops * ms / 1000.0 / requests as f64)
}

/// Measurements, and the error that ended them early.
pub struct Calibrated {
    pub calibration: Calibration,
    pub failure: Option<EngineError>,
}

/// Calibration and the files written for it.
pub struct WrittenCalibration {
    pub calibrated: Calibrated,
    /// File of the calibration itself.
    pub saved: Result<PathBuf, RecordError>,
    /// Files of the reports. Once the calibration is saved, `petal report` draws them again.
    pub drawn: Result<Vec<PathBuf>, RecordError>,
    /// Copy with which later runs on this device are compared; `None` if there is no such folder.
    pub kept: Result<Option<PathBuf>, RecordError>,
}

/// Calibrates into a new folder below OUT. An error means that nothing was measured.
pub fn run_once(
    settings: &Settings,
    wanted: &WantedStretch,
    plan: &CalibrationPlan,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<WrittenCalibration, RunError> {
    let device = Device::open(settings)?;
    let folder = RecordFolder::create(&settings.out, "calibrate", OffsetDateTime::now_utc())?;
    let noted = NotedProgress::new(progress, &folder);
    // The target is removed afterwards, unless it is to be kept.
    let calibrated = device
        .calibration_target(wanted, &noted, stop)
        .and_then(|target| calibrate(&target, plan, &noted, stop));
    drop(noted);
    let calibrated = calibrated.inspect_err(|_| folder.remove_if_empty())?;
    let calibration = &calibrated.calibration;
    let saved = calibration::save(&folder, calibration);
    let drawn = CALIBRATION.write(&folder, calibration);
    let kept = match settings.calibrations.as_deref().filter(|_| saved.is_ok()) {
        Some(kept_in) => calibration::keep(&folder, kept_in, calibration),
        None => Ok(None),
    };
    Ok(WrittenCalibration { calibrated, saved, drawn, kept })
}

/// Measures, round after round. An error means that nothing was measured; a later error keeps the
/// earlier measurements.
fn calibrate(
    target: &CalibrationTarget,
    plan: &CalibrationPlan,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<Calibrated, EngineError> {
    let timing = plan.rounds()?;
    let devices = devices::find(&[target.path().to_owned()]);
    let probe = (!devices.counted.is_empty()).then(|| Probe::new(&devices));
    let started_at = OffsetDateTime::now_utc();
    let began = Instant::now();
    let measurements = plan.measurements();
    let mut sums = BTreeMap::new();
    progress.phase(
        "measuring",
        u64::from(timing.0) * measurements.len() as u64,
        ProgressUnit::Items,
    );
    let measuring = Measuring { target, plan, timing, probe: probe.as_ref(), progress, stop };
    let failure = measuring.all_rounds(&measurements, &mut sums).err();
    if sums.is_empty() {
        return Err(failure.unwrap_or(EngineError::Interrupted));
    }
    let (rounds, _) = timing;
    let is_whole = measurements
        .iter()
        .all(|measurement| sums.get(measurement).is_some_and(|sum| sum.rounds == rounds));
    let mut calibration = Calibration {
        status: match &failure {
            Some(_) => Status::Failed,
            None if is_whole => Status::Complete,
            None => Status::Interrupted,
        },
        started_at: moment::exact(started_at),
        elapsed_s: began.elapsed().as_secs_f64(),
        rounds,
        ..new_calibration(target, plan, &devices)
    };
    for (measurement, sum) in &sums {
        put(&mut calibration, plan, *measurement, sum);
    }
    calibration.best = calibration
        .curves
        .iter()
        .filter_map(|(name, points)| Some((name.clone(), best(points)?)))
        .collect();
    calibration.under = plan.bounds.iter().map(|bound| under(bound, &calibration)).collect();
    calibration.notes = notes(&calibration, &devices);
    let host = HostFacts::collect(Some(&devices)).devices;
    let log_device = LogDevice {
        rotational: host.first().and_then(|device| device.rotational),
        write_cache: host.first().and_then(|device| device.write_cache.as_deref()),
    };
    calibration.notes.extend(log_writes::notes(&calibration, log_device));
    calibration.notes.extend(failure.as_ref().map(|error| format!("ended by an error: {error}")));
    Ok(Calibrated { calibration, failure })
}

/// Input of every measurement.
struct Measuring<'a> {
    target: &'a CalibrationTarget,
    plan: &'a CalibrationPlan,
    /// Number of rounds, and time of each measurement.
    timing: (u32, Duration),
    probe: Option<&'a Probe>,
    progress: &'a dyn Progress,
    stop: &'a Stop,
}

impl Measuring<'_> {
    fn all_rounds(
        &self,
        measurements: &[Measurement],
        sums: &mut BTreeMap<Measurement, Sum>,
    ) -> Result<(), EngineError> {
        for round in 0..self.timing.0 {
            for at in 0..measurements.len() {
                // There and back again: a drift does not favour one end.
                let measurement = if round % 2 == 0 {
                    measurements[at]
                } else {
                    measurements[measurements.len() - 1 - at]
                };
                if self.stop.is_requested() {
                    return Ok(());
                }
                let seed = self.plan.seed ^ u64::from(round) << 48 ^ (at as u64) << 40;
                let (measured, device) = self.measure_once(measurement, seed)?;
                if self.stop.is_requested() {
                    return Ok(()); // Cut short, it is no measurement like the others.
                }
                sums.entry(measurement).or_default().add(&measured, device);
                self.progress.advance(1);
            }
        }
        Ok(())
    }

    fn measure_once(
        &self,
        measurement: Measurement,
        seed: u64,
    ) -> Result<(IoMeasurements, Option<DeviceCounts>), EngineError> {
        let (target, length) = (self.target, self.timing.1);
        let before = self.probe.map(Probe::sample);
        let work = self.plan.work(measurement);
        let measured = match (measurement, &work) {
            (Measurement::Log(durable, writers), _) => {
                target.log(durable, writers, length, self.stop)?
            }
            (_, Some(work)) => target.measure(work, length, seed, self.stop)?,
            (_, None) => return Ok((IoMeasurements::default(), None)),
        };
        let after = self.probe.map(Probe::sample);
        if work.is_none_or(|work| work.read_pct < 100) {
            target.sync()?;
        }
        let device = before.zip(after).and_then(|(before, after)| after.since(&before).device());
        Ok((measured, device))
    }
}

fn new_calibration(
    target: &CalibrationTarget,
    plan: &CalibrationPlan,
    devices: &DataDevices,
) -> Calibration {
    let system = rustix::system::uname();
    let path = std::path::absolute(target.path()).unwrap_or_else(|_| target.path().to_owned());
    let name = devices.names().into_iter().next();
    Calibration {
        format: FORMAT.to_owned(),
        petal_version: env!("CARGO_PKG_VERSION").to_owned(),
        host: system.nodename().to_string_lossy().into_owned(),
        kernel: system.release().to_string_lossy().into_owned(),
        path: path.display().to_string(),
        kind: if target.is_block_device() { "block device" } else { "file" }.to_owned(),
        bytes: target.bytes(),
        storage_cache: plan.storage_cache,
        direct_io: target.direct_io().clone(),
        requests_by: target.requests_by(),
        device: name.zip(devices.drives()).map(|(name, drives)| MeasuredDevice { name, drives }),
        block_bytes: plan.block_bytes.into(),
        mix_read_pct: plan.mix_read_pct,
        ..Calibration::default()
    }
}

/// Inserts a step in the order of the depths.
fn put(calibration: &mut Calibration, plan: &CalibrationPlan, measurement: Measurement, sum: &Sum) {
    match (measurement, plan.work(measurement)) {
        (Measurement::Curve(name, _), Some(work)) => {
            calibration.curves.entry(name.to_owned()).or_default().push(sum.point(
                work.depth,
                work.threads.clamp(1, work.depth),
                work.request_bytes,
            ));
        }
        (Measurement::InOrder(name), Some(work)) => {
            let in_order = InOrder {
                request_bytes: work.request_bytes.into(),
                depth: work.depth,
                seconds: sum.seconds,
                mb_per_s: sum.mb_per_s(work.request_bytes),
                latency_us: sum.all().summary(),
            };
            calibration.in_order.insert(name.to_owned(), in_order);
        }
        (Measurement::Log(durable, writers), _) => {
            if (durable, writers) == (Durable::Fdatasync, 1) {
                calibration.log = Some(LogWrites {
                    bytes: LOG_BYTES,
                    seconds: sum.seconds,
                    per_second: sum.per_second(),
                    latency_us: sum.writes.summary(),
                });
            }
            let point = CurvePoint {
                device_depth: None, // A flush is no request that an average is over.
                ..sum.point(writers, writers, LOG_BYTES as u32)
            };
            calibration.log_curves.entry(durable.name().to_owned()).or_default().push(point);
        }
        (_, None) => {}
    }
}

fn notes(calibration: &Calibration, devices: &DataDevices) -> Vec<String> {
    let mut notes = Vec::new();
    if calibration.status != Status::Complete {
        notes.push("cut short: curves have fewer points, or points fewer rounds".to_owned());
    }
    if !calibration.direct_io.used {
        let reason = calibration.direct_io.reason.as_deref().unwrap_or("it was not asked for");
        notes.push(format!("no direct I/O ({reason}): the page cache was measured, not a device"));
    }
    let busiest = calibration.curves.values().flatten().map(|point| point.thread_cpu_share);
    if busiest.fold(0.0, f64::max) > THREAD_BUSY_SHARE {
        notes.push(
            "at some depths petal's own threads were busy all the time: the device may do more \
             (--threads)"
                .to_owned(),
        );
    }
    let unknown = |point: &&CurvePoint| point.device_depth.is_none();
    if calibration.device.is_some()
        && calibration.curves.values().flatten().filter(unknown).count() > 0
    {
        notes.push(
            "at some depths the kernel counted no requests in flight, or more than petal's: \
             another program used the device, or it stalled at the edge of a measurement; runs are \
             compared there by the depth that was asked for"
                .to_owned(),
        );
    }
    if calibration.device.is_none() {
        let several = || format!("it lies on several devices: {}", devices.names().join(", "));
        let why = devices.unseen.first().cloned().unwrap_or_else(several);
        notes.push(format!("runs cannot be compared with this: {why}"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::target::DirectIo;
    use proptest::prelude::*;

    fn plan(seconds: u64, depths: Vec<u32>) -> CalibrationPlan {
        CalibrationPlan {
            block_bytes: 8192,
            depths,
            mix_read_pct: 70,
            length: Duration::from_secs(seconds),
            threads: None,
            storage_cache: None,
            bounds: Vec::new(),
            seed: 1,
        }
    }

    proptest! {
        #[test]
        fn all_measurements_fit_the_time_they_were_given(seconds in 1u64..10_000, depths in 1usize..9) {
            let plan = plan(seconds, (0..depths).map(|n| 1 << n).collect());
            match plan.rounds() {
                Ok((rounds, length)) => {
                    prop_assert!((1..=ROUNDS).contains(&rounds) && length >= LENGTH_LEAST);
                    prop_assert!(length * rounds * plan.measurements().len() as u32 <= plan.length);
                    prop_assert!(rounds == ROUNDS || length < LENGTH_MIN * 2);
                }
                Err(_) => {
                    let least = LENGTH_LEAST * plan.measurements().len() as u32;
                    prop_assert!(plan.length < least);
                }
            }
        }
    }

    #[test]
    fn every_point_is_measured_once_a_round() {
        let plan = plan(100, vec![1, 16]);
        let measurements = plan.measurements();
        // Three curves at two depths, two orders, and three calls by three numbers of writers.
        assert_eq!(measurements.len(), 2 * 3 + 2 + 3 * 3);
        let reading = measurements
            .iter()
            .filter(|measurement| plan.work(**measurement).is_some_and(|work| work.read_pct == 100))
            .count();
        assert_eq!(reading, 3, "two points of the read curve, and reading in order");
        assert_eq!(plan.work(Measurement::Curve(MIX, 16)).unwrap().read_pct, 70);
    }

    #[test]
    fn a_depth_that_is_not_known_is_reported_with_all_that_may_be_why() {
        let calibration = Calibration {
            status: Status::Complete,
            direct_io: DirectIo { used: true, ..DirectIo::default() },
            device: Some(MeasuredDevice::default()),
            curves: [(READ.to_owned(), vec![CurvePoint::default()])].into(),
            ..Calibration::default()
        };
        insta::assert_snapshot!(notes(&calibration, &DataDevices::default()).join("\n"), @"at some depths the kernel counted no requests in flight, or more than petal's: another program used the device, or it stalled at the edge of a measurement; runs are compared there by the depth that was asked for");
    }

    #[test]
    fn depth_is_rate_times_await() {
        let device = DeviceCounts {
            read_requests: 900,
            write_requests: 110,
            flushes: 10,
            read_ms: 1800,
            write_ms: 200,
            ..DeviceCounts::default()
        };
        assert_eq!(device_depth(&device, 5000.0), Some(10.0));
        assert_eq!(device_depth(&DeviceCounts::default(), 5000.0), None);
    }
}
