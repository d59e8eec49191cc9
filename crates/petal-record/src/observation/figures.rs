//! The figures of a run by name, for charts, comparisons and causes.

use std::collections::BTreeMap;

use super::metric;
use crate::Run;
use crate::counters::{IoCounts, WaitClass};
use petal_host::histogram::LatencySummary;
use petal_workload::op::Kind;

pub(super) fn of(run: &Run) -> BTreeMap<String, f64> {
    let summary = &run.summary;
    let per = &summary.per_second;
    let mb = |bytes: Option<f64>| bytes.map(|bytes| bytes / 1e6);
    let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
    let io = |kind: &str| summary.io_latency_us.get(kind).and_then(|latency| latency.mean);
    let mut metrics = BTreeMap::new();
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            // The sum of no waits is -0.
            metrics.insert(name.to_owned(), value + 0.0);
        }
    };
    put(metric::PIOPS, summary.piops());
    put(metric::READS, per.physical_read_requests);
    put(metric::WRITES, per.physical_write_requests);
    put(metric::MB, mb(both(per.physical_read_bytes, per.physical_write_bytes)));
    put(metric::READ_MB, mb(per.physical_read_bytes));
    put(metric::WRITE_MB, mb(per.physical_write_bytes));
    put(metric::REDO_MB, mb(per.redo_bytes));
    put(metric::LOGICAL_READS, per.logical_reads);
    put(metric::OPS, per.ops);
    put(metric::COMMITS, per.commits);
    put(metric::READ_US, io("read"));
    put(metric::WRITE_US, io("write"));
    put(metric::LOG_US, io("log"));
    put(metric::CPU_IDLE, summary.cpu.map(|cpu| cpu.idle));
    for (kind, latency) in &summary.latency_us {
        operation(kind, latency, &mut put);
    }
    if let Some(all) = all_operations(run) {
        operation("op", all, &mut put);
    }
    if let Some(all) = &run.details.op_response_us {
        operation("op_response", all, &mut put);
    }
    for (kind, latency) in &summary.io_latency_us {
        put(&format!("{kind}_p50_us"), latency.p50);
        put(&format!("{kind}_p99_us"), latency.p99);
    }
    processors(run, &mut put);
    device(run, &mut put);
    put(metric::PRICE, summary.setting_number(metric::PRICE));
    put(metric::HIT, hit_pct(&run.details.io));
    if let Some(served) = &summary.served_by {
        let pct = |bytes| served.share(bytes).map(|share| share * 100.0);
        put(metric::SERVED_DEVICE, pct(served.device_bytes));
        put(metric::SERVED_PAGE_CACHE, pct(served.page_cache_bytes));
        put(metric::SERVED_UNSEEN, pct(served.unseen_bytes));
    }
    waits(run, &mut put);
    for value in run.details.hooks.iter().flat_map(|hook| &hook.values) {
        put(&format!("hook_{}", value.name), Some(value.value));
    }
    metrics
}

/// Latencies of all operations together: from their merged histograms if the record has them, else
/// from the only kind.
fn all_operations(run: &Run) -> Option<&LatencySummary> {
    run.details.op_latency_us.as_ref().or_else(|| {
        let kinds = Kind::ALL.iter().filter_map(|kind| run.summary.latency(*kind));
        let mut known = kinds.filter(|latency| latency.count > 0);
        let first = known.next()?;
        known.next().is_none().then_some(first)
    })
}

type PutFigure<'a> = &'a mut dyn FnMut(&str, Option<f64>);

fn operation(kind: &str, latency: &LatencySummary, put: PutFigure<'_>) {
    let figures = [
        ("mean", latency.mean),
        ("p50", latency.p50),
        ("p90", latency.p90),
        ("p95", latency.p95),
        ("p99", latency.p99),
        ("p99_9", latency.p99_9),
    ];
    for (name, value) in figures {
        put(&format!("{kind}_{name}_us"), value);
    }
}

fn processors(run: &Run, put: PutFigure<'_>) {
    let (summary, details) = (&run.summary, &run.details);
    let server = summary.cpu.filter(|_| details.target.local);
    put(metric::CPU_BUSY, server.map(|cpu| cpu.busy().clamp(0.0, 100.0)));
    let host_s = details.host.as_ref().map(|host| f64::from(host.cpus) * summary.elapsed_s);
    let petal = match summary.hosts.is_empty() {
        true => summary.petal_cpu_s.zip(host_s.filter(|&s| s > 0.0)).map(|(own, all)| own / all),
        false => run.busiest_machine_share(),
    };
    let is_separate = !details.target.in_process;
    put(metric::PETAL_CPU, petal.filter(|_| is_separate).map(|share| share.min(1.0) * 100.0));
}

fn device(run: &Run, put: PutFigure<'_>) {
    let Some(counts) = &run.details.device else { return };
    let elapsed_ms = run.summary.elapsed_s * 1e3;
    let devices = run.details.devices.len().max(1) as f64;
    if elapsed_ms > 0.0 {
        let busy = counts.busy_ms as f64 / elapsed_ms / devices;
        put(metric::DEVICE_UTIL, Some((busy * 100.0).min(100.0)));
        let in_flight = (counts.read_ms + counts.write_ms) as f64 / elapsed_ms;
        put(metric::DEVICE_QUEUE, Some(in_flight));
    }
    let await_us =
        |ms: u64, requests: u64| (requests > 0).then(|| ms as f64 * 1e3 / requests as f64);
    put(metric::DEVICE_READ_AWAIT, await_us(counts.read_ms, counts.read_requests));
    put(metric::DEVICE_WRITE_AWAIT, await_us(counts.write_ms, counts.write_requests));
}

fn hit_pct(io: &IoCounts) -> Option<f64> {
    let (logical, physical) = io.logical_reads.zip(io.physical_read_blocks)?;
    let missed = physical + io.log_read_blocks.unwrap_or(0);
    (logical > 0).then(|| (100.0 - missed as f64 * 100.0 / logical as f64).max(0.0))
}

/// The share of DB time of each class of waits.
fn waits(run: &Run, put: PutFigure<'_>) {
    use WaitClass::{
        Application, Cluster, Commit, Concurrency, Configuration, Network, Other, Replica,
        Scheduler, UserIo,
    };
    let classes = [
        UserIo,
        Commit,
        Replica,
        Concurrency,
        Application,
        Configuration,
        Network,
        Scheduler,
        Cluster,
        Other,
    ];
    if run.summary.waits.is_empty() {
        return;
    }
    for class in classes {
        let of_class = run.summary.waits.iter().filter(|wait| wait.class == class);
        let time_us: f64 = of_class.map(|wait| wait.time_us).sum();
        put(&metric::wait(class), run.share_of_db_time(time_us).map(|share| share * 100.0));
    }
}

/// PIOPS per session of each endpoint; empty if there is only one, or one of them is unknown.
pub(super) fn by_endpoint(run: &Run) -> BTreeMap<String, BTreeMap<String, f64>> {
    let elapsed_s = run.summary.elapsed_s;
    let endpoints = &run.summary.endpoints;
    if endpoints.len() < 2 || elapsed_s <= 0.0 {
        return BTreeMap::new();
    }
    let piops: Option<BTreeMap<String, f64>> = endpoints
        .iter()
        .map(|endpoint| {
            let (io, sessions) = (&endpoint.io, f64::from(endpoint.sessions));
            let requests = io.physical_read_requests? + io.physical_write_requests?;
            let each = requests as f64 / elapsed_s / sessions;
            each.is_finite().then(|| (endpoint.endpoint.clone(), each))
        })
        .collect();
    piops.map(|piops| BTreeMap::from([(metric::PIOPS.to_owned(), piops)])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver_hosts::HostRun;
    use crate::{Status, fixture};

    #[test]
    fn of_several_hosts_petal_has_the_share_of_the_busiest_machine() {
        let mut run = fixture::mixed_run();
        run.details.target.in_process = false;
        let host = |name: &str, petal_cpu_s| {
            let mut host = HostRun {
                status: Some(Status::Complete),
                elapsed_s: run.summary.elapsed_s,
                petal_cpu_s: Some(petal_cpu_s),
                processors: Some(1.0),
                ..HostRun::default()
            };
            host.share.host = name.to_owned();
            host
        };
        let quarter_s = run.summary.elapsed_s / 4.0;
        run.summary.hosts = vec![host("a", quarter_s), host("b", quarter_s * 2.0)];
        run.summary.petal_cpu_s = Some(quarter_s * 3.0);
        run.details.host.as_mut().unwrap().cpus = 1;
        assert_eq!(of(&run)[metric::PETAL_CPU], 50.0);
        run.summary.hosts.clear();
        assert_eq!(of(&run)[metric::PETAL_CPU], 75.0);
    }
}
