//! Use of each resource by a run, by the utilisation law (Denning and Buzen, *The Operational
//! Analysis of Queueing Network Models*, 1978): utilisation is throughput times demand. No model
//! is needed. A resource of unknown capacity has no utilisation, but a reason.

use petal_host::os::requests::RequestKind;
use petal_record::Run;
use petal_record::conclusions::ResourceUse;
use petal_record::os_figures::HostFigures;

use super::limits::{busy_percent, server_cpu};
use super::{io_limits, served, waterfall};

/// The resources of a run, each once.
pub(super) fn of(run: &Run) -> Vec<ResourceUse> {
    let own_host = (!run.details.target.local).then(|| petals_processors(run));
    let found = [
        Some(processors(run)),
        of_operations(run),
        group(run),
        own_host,
        Some(device(run)),
        log(run),
        io_limit(run),
        rate(run),
    ];
    found.into_iter().flatten().collect()
}

/// Builds a use from the part in use and the capacity.
fn used(run: &Run, resource: &str, layer: &str, used: f64, capacity: f64) -> ResourceUse {
    ResourceUse {
        resource: resource.to_owned(),
        layer: layer.to_owned(),
        used: Some(used),
        capacity: Some(capacity),
        utilisation: (capacity > 0.0).then(|| (used / capacity).clamp(0.0, 1.0)),
        demand_us: demand_us(run, used),
        why_unknown: None,
    }
}

fn unknown(resource: &str, layer: &str, why: impl Into<String>) -> ResourceUse {
    ResourceUse {
        resource: resource.to_owned(),
        layer: layer.to_owned(),
        why_unknown: Some(why.into()),
        ..ResourceUse::default()
    }
}

/// Time in use for each operation: the mean part in use, times the time, over the operations.
fn demand_us(run: &Run, used: f64) -> Option<f64> {
    let operations = run.summary.ops.total;
    (operations > 0).then(|| used * run.summary.elapsed_s * 1e6 / operations as f64)
}

const OPERATING_SYSTEM: &str = "the operating system";

/// All processors that the database may use.
fn processors(run: &Run) -> ResourceUse {
    let name = "processors";
    let Some(cpu) = server_cpu(run) else {
        let why = match run.is_database_host_seen() {
            true => "no processor statistics in this record",
            false => run.why_database_host_is_unseen(),
        };
        return unknown(name, OPERATING_SYSTEM, why);
    };
    let figures = run.database_host().map(|seen| HostFigures::of(seen).processors);
    let allowed = |it: petal_record::os_figures::Processors| {
        it.allowed_cpus.map(|cpus| cpus.len() as u64).or(it.count)
    };
    let Some(count) = figures.and_then(allowed).filter(|&count| count > 0) else {
        let share = busy_percent(cpu) / 100.0;
        let why = "the number of processors is not known";
        let unknown = unknown(name, OPERATING_SYSTEM, why);
        return ResourceUse { utilisation: Some(share), ..unknown };
    };
    let of = count as f64;
    used(run, name, OPERATING_SYSTEM, busy_percent(cpu) / 100.0 * of, of)
}

/// The part of the processors that operations use, by the kernel's times of their threads: without
/// others' work on the host.
fn of_operations(run: &Run) -> Option<ResourceUse> {
    let name = "processors, by operations";
    let (processor_s, layer) = waterfall::processor_s(run)?;
    let elapsed_s = Some(run.summary.elapsed_s).filter(|&s| s > 0.0)?;
    Some(match processors(run).capacity {
        Some(capacity) => used(run, name, layer, processor_s / elapsed_s, capacity),
        None => unknown(name, layer, "the number of processors is not known"),
    })
}

/// The processors that a control group grants the database.
fn group(run: &Run) -> Option<ResourceUse> {
    let group = HostFigures::of(run.database_host()?).group?;
    let name = "processors of the control group";
    Some(match group.used_processors {
        Some(busy) => used(run, name, OPERATING_SYSTEM, busy, group.granted_processors),
        None => unknown(name, OPERATING_SYSTEM, "the group's processor time is not known"),
    })
}

/// The processors of petal's host, if the database has another one.
fn petals_processors(run: &Run) -> ResourceUse {
    let name = "processors of petal's host";
    let seen = run.details.os.as_ref();
    let busy = seen.and_then(|seen| Some((seen.whole.sum.cpu()?, seen.processors()?)));
    match busy {
        Some((cpu, count)) => {
            let of = count as f64;
            used(run, name, OPERATING_SYSTEM, busy_percent(&cpu) / 100.0 * of, of)
        }
        None => unknown(name, OPERATING_SYSTEM, "petal's host was not watched"),
    }
}

/// The data's device: requests in service, or in flight if single requests were not timed. Its
/// capacity is another for each mix of requests.
fn device(run: &Run) -> ResourceUse {
    let (name, layer) = ("device", "the device");
    let calibrated = run.details.calibrated.as_ref();
    if let Some((share, most)) = calibrated.and_then(|it| Some((it, it.curve_iops_max?))) {
        let (name, layer) = ("device, requests/s", "the calibration's largest rate");
        return ResourceUse { demand_us: None, ..used(run, name, layer, share.device_iops, most) };
    }
    let elapsed_s = run.summary.elapsed_s;
    let Some(counts) = run.details.device.filter(|_| elapsed_s > 0.0) else {
        return unknown(name, layer, "the data's device is not counted");
    };
    let counted_s = (counts.read_ms + counts.write_ms) as f64 / 1e3;
    let (used_s, layer) = match service_s(run) {
        Some(service_s) => (service_s, "the kernel's block layer, service alone"),
        None => (counted_s, layer),
    };
    let in_flight = used_s / elapsed_s;
    let uncalibrated = "the device's capacity is not in this record: petal calibrate measures it";
    let why = calibrated.and_then(|share| share.unknown.as_deref()).unwrap_or(uncalibrated);
    ResourceUse {
        used: Some(in_flight),
        demand_us: demand_us(run, in_flight),
        ..unknown(name, layer, why)
    }
}

/// Time between issue and completion, of all requests of the data's devices.
fn service_s(run: &Run) -> Option<f64> {
    let seen = run.database_host()?;
    let (requests, devices) = (seen.whole.sum.requests.as_ref()?, seen.timed_devices());
    let of_data = requests.times.iter().filter(|one| devices.contains(&one.device.as_str()));
    Some(of_data.map(|one| one.service.total_ns).sum::<u64>() as f64 / 1e9)
}

/// The logs: syncs in flight. Each endpoint has a log, and with some engines each schema.
fn log(run: &Run) -> Option<ResourceUse> {
    let log = run.summary.io_latency_us.get("log").filter(|log| log.count > 0)?;
    let elapsed_s = run.summary.elapsed_s;
    let in_flight = (elapsed_s > 0.0).then_some(log.count as f64 * log.mean? / 1e6 / elapsed_s)?;
    let why = "how many logs can sync at once is not in this record";
    Some(ResourceUse {
        used: Some(in_flight),
        demand_us: demand_us(run, in_flight),
        ..unknown("log", &log.source, why)
    })
}

/// The control group's limit of I/O that is nearest.
fn io_limit(run: &Run) -> Option<ResourceUse> {
    let nearest = io_limits::nearest(run)?;
    let name = nearest.words();
    let use_of = used(run, &name, nearest.layer, nearest.per_second, nearest.limit_per_second());
    Some(ResourceUse { demand_us: None, ..use_of })
}

/// The asked rate.
fn rate(run: &Run) -> Option<ResourceUse> {
    let asked = run.summary.setting_number("rate").filter(|&rate| rate > 0.0)?;
    let done = run.summary.per_second.ops?;
    Some(ResourceUse { demand_us: None, ..used(run, "the asked RATE", "petal", done, asked) })
}

/// The share of the reads' waiting that passed above the device: in a queue for a processor, in a
/// control group's throttle, in a lock of the file system. None if the device
/// did not serve them.
pub(super) fn above_the_device(run: &Run, waited_us: f64) -> Option<f64> {
    let at_device_us = reads_at_the_device_us(run)?;
    (waited_us > 0.0).then(|| (1.0 - at_device_us / waited_us).clamp(0.0, 1.0))
}

/// The time of the reads in the device's queue and at the device, in us: that of all reads
/// together. None if the device did not serve them.
pub(super) fn reads_at_the_device_us(run: &Run) -> Option<f64> {
    let served = served::reads(run).ok().filter(served::ReadsServed::is_by_device)?;
    let counts = run.details.device?;
    if let Some((mean_us, own)) = own_read_us(run).zip(run.details.io.physical_read_requests) {
        let by_device = own as f64 * served.device as f64 / served.asked.max(1) as f64;
        return Some(mean_us * by_device.min(counts.read_requests as f64));
    }
    // Reads of others count there, too: their time is at most the share of their bytes.
    let own = (served.device as f64 / counts.read_bytes.max(1) as f64).min(1.0);
    Some(counts.read_ms as f64 * 1e3 * own)
}

/// The mean time of the database's own reads in the queue and at the device; None if the kernel did not
/// time them one by one.
fn own_read_us(run: &Run) -> Option<f64> {
    let requests = run.database_host()?.whole.sum.requests.as_ref()?;
    let mut own = requests.times.iter().filter(|it| it.kind == RequestKind::Read);
    let own = own.try_fold((0, 0), |(ns, count), it| match it.of_database? {
        true => Some((ns + it.total.total_ns, count + it.total.count())),
        false => Some((ns, count)),
    });
    own.filter(|(_, count)| *count > 0).map(|(ns, count)| ns as f64 / 1e3 / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::calibration::CalibratedShare;
    use petal_record::fixture;

    #[test]
    fn a_calibrated_device_has_its_capacity() {
        let of_device = |calibrated: Option<CalibratedShare>| {
            let mut run = fixture::mixed_run();
            run.details.calibrated = calibrated;
            of(&run).into_iter().find(|it| it.resource.starts_with("device")).unwrap()
        };
        let why = of_device(None).why_unknown.unwrap();
        assert!(why.ends_with("petal calibrate measures it"), "{why}");
        let share = CalibratedShare { device_iops: 4e3, ..CalibratedShare::default() };
        let most = CalibratedShare { curve_iops_max: Some(8e3), ..share.clone() };
        let device = of_device(Some(most));
        assert_eq!((device.capacity, device.utilisation), (Some(8e3), Some(0.5)));
        assert_eq!(device.why_unknown, None);
        let unlike = CalibratedShare { unknown: Some("no curve is near".into()), ..share };
        assert_eq!(of_device(Some(unlike)).why_unknown.as_deref(), Some("no curve is near"));
    }

    #[test]
    fn utilisation_is_throughput_times_demand() {
        let run = fixture::mixed_run();
        let rate = run.summary.ops.total as f64 / run.summary.elapsed_s;
        for of in of(&run).iter().filter(|of| of.demand_us.is_some()) {
            let used = rate * of.demand_us.unwrap() / 1e6;
            assert!((used - of.used.unwrap()).abs() < 1e-9 * used.max(1.0), "{of:?}");
            assert!(of.utilisation.is_some() || of.why_unknown.is_some(), "{of:?}");
        }
    }
}
