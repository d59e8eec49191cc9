//! The run second by second: extremes, the steady window, errors and lost sessions, what hooks
//! reported, what petal itself cost.

use std::collections::BTreeMap;

use super::super::numbers::{decimal, micros, or_dash, percent, rate, whole};
use super::super::table::Table;
use super::{Facts, fact};
use crate::record::{IoLatency, PerSecond, Run, Second, Steady};
use crate::stats::counters::CommonCounter;

/// A shorter interval at the end is no second to compare.
pub(in crate::report) const SECOND_S_MIN: f64 = 0.5;

type Figure<'a> = Box<dyn Fn(&Second) -> Option<f64> + 'a>;

/// The lowest, middle and highest second of each figure.
pub(in crate::report) fn extremes(run: &Run) -> Table {
    let per = |value: Option<u64>, second: &Second| Some(value? as f64 / second.length_s);
    let mut figures: Vec<(String, Figure<'_>)> = vec![
        ("operations/s".into(), Box::new(move |s| per(Some(s.ops.total), s))),
        ("PIOPS read".into(), Box::new(move |s| per(s.io?.physical_read_requests, s))),
        ("PIOPS write".into(), Box::new(move |s| per(s.io?.physical_write_requests, s))),
        ("redo MB/s".into(), Box::new(move |s| Some(per(s.io?.redo_bytes, s)? / 1e6))),
        (
            "device read MB/s".into(),
            Box::new(move |s| Some(per(Some(s.device?.read_bytes), s)? / 1e6)),
        ),
        (
            "device write MB/s".into(),
            Box::new(move |s| Some(per(Some(s.device?.write_bytes), s)? / 1e6)),
        ),
        ("processors idle %".into(), Box::new(|s| Some(s.cpu?.idle))),
    ];
    for kind in run.summary.latency_us.keys() {
        figures.push((
            format!("{kind} p99 us"),
            Box::new(move |s| s.latency_us.get(kind).and_then(|latency| latency.p99)),
        ));
    }
    let mut table = Table::of_figures(&["", "min", "at s", "median", "max", "at s", "seconds"]);
    for (name, figure) in &figures {
        table.row(extreme_cells(name, figure, &run.details.timeline));
    }
    table
}

fn extreme_cells(name: &str, figure: &Figure<'_>, timeline: &[Second]) -> Vec<String> {
    let mut values: Vec<(f64, f64)> = timeline
        .iter()
        .filter(|second| second.length_s >= SECOND_S_MIN)
        .filter_map(|second| Some((figure(second)?, second.from_s)))
        .collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let count = values.len();
    let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
        return [name, "-", "-", "-", "-", "-", "0"].map(str::to_owned).into();
    };
    vec![
        name.to_owned(),
        rate(min.0),
        decimal(min.1, 0),
        rate(values[(count - 1) / 2].0),
        rate(max.0),
        decimal(max.1, 0),
        whole(count as u64),
    ]
}

/// The rates of the steady window beside those of the whole run.
pub(in crate::report) fn steady_rates(run: &Run, steady: &Steady) -> Table {
    let mut table = Table::of_figures(&["per second", "steady window", "whole run"]);
    type Rate = fn(&PerSecond) -> Option<f64>;
    let rows: [(&str, Rate, f64); 7] = [
        ("operations", |p| p.ops, 1.0),
        ("rows", |p| p.rows, 1.0),
        ("commits", |p| p.commits, 1.0),
        ("physical read requests", |p| p.physical_read_requests, 1.0),
        ("physical write requests", |p| p.physical_write_requests, 1.0),
        ("redo MB", |p| p.redo_bytes, 1e6),
        ("device read MB", |p| p.device_read_bytes, 1e6),
    ];
    for (name, figure, divisor) in rows {
        let show = |rates: &PerSecond| or_dash(figure(rates), |value| rate(value / divisor));
        table.row([name.to_owned(), show(&steady.per_second), show(&run.summary.per_second)]);
    }
    let read = |latencies: &BTreeMap<String, IoLatency>| {
        or_dash(latencies.get("read").and_then(|read| read.mean), micros)
    };
    let reads = [&steady.io_latency_us, &run.summary.io_latency_us].map(read);
    table.row([vec!["single-block read us".to_owned()], reads.to_vec()].concat());
    table
}

/// The sessions that were lost, a line each.
pub(in crate::report) fn lost(run: &Run) -> Vec<String> {
    let lost = run.summary.sessions_lost.iter().map(|lost| {
        let at = decimal(lost.at_s, 2);
        format!("session {} lost at {at} s: {} ({})", lost.session, lost.message, lost.code)
    });
    lost.collect()
}

/// Errors, and how many operations and sessions did not come to their end.
pub(in crate::report) fn errors(run: &Run) -> Facts {
    let mut facts = Facts::new();
    let summary = &run.summary;
    let codes: Vec<String> =
        summary.errors.iter().map(|(code, count)| format!("{code} {}", whole(*count))).collect();
    let told = if codes.is_empty() { "none".to_owned() } else { codes.join(", ") };
    fact(&mut facts, "errors, gone on", &told);
    fact(&mut facts, "operations cut", &whole(summary.ops.cut));
    if let Some(backlog) = run.details.backlog {
        fact(&mut facts, "due and not begun", &whole(backlog));
    }
    fact(&mut facts, "sessions lost", &whole(summary.sessions_lost.len() as u64));
    facts
}

/// What the processors did, and petal's part of it.
pub(in crate::report) fn cost(run: &Run) -> Facts {
    let mut facts = Facts::new();
    let mut fact = |name: &str, value: &str| super::fact(&mut facts, name, value);
    let summary = &run.summary;
    let shares = summary.cpu.map(|cpu| {
        format!(
            "user {} %, system {} %, iowait {} %, idle {} %, steal {} %",
            decimal(cpu.user, 1),
            decimal(cpu.system, 1),
            decimal(cpu.iowait, 1),
            decimal(cpu.idle, 1),
            decimal(cpu.steal, 1)
        )
    });
    // What `petal os` recorded stands for the database's host, also where that is this one.
    let whose = if run.details.server_os.is_some() { "the database's host" } else { "this host" };
    fact(whose, &or_dash(shares, |text| text));
    let cpus = run.details.host.as_ref().map(|host| f64::from(host.cpus));
    let host_s = cpus.map(|cpus| cpus * summary.elapsed_s).filter(|&seconds| seconds > 0.0);
    let petal = summary.petal_cpu_s.map(|seconds| {
        let share = host_s.map(|host_s| seconds / host_s);
        let per_op = (summary.ops.total > 0).then(|| seconds * 1e6 / summary.ops.total as f64);
        format!(
            "{} s of processor time, {} % of this host, {} us an operation",
            decimal(seconds, 2),
            or_dash(share, percent),
            or_dash(per_op, micros)
        )
    });
    fact("petal's process", &or_dash(petal, |text| text));
    if run.details.target.in_process && !run.is_bare_device() {
        fact("", "the database runs inside petal's process: its work is in this figure");
    }
    if let Some(told) = verifying(run) {
        fact("of it, verifying", &told);
    }
    facts
}

/// What VERIFY=checksum cost; None where nothing of it was timed.
fn verifying(run: &Run) -> Option<String> {
    let count = |counter| run.summary.counter(counter).filter(|&count| count > 0);
    let (blocks, ns) = (count(CommonCounter::BlocksVerified)?, count(CommonCounter::VerifyNs)?);
    let petal_s = run.summary.petal_cpu_s.filter(|&seconds| seconds > 0.0);
    let seconds = ns as f64 / 1e9;
    Some(format!(
        "{} s, {} % of that, {} us a block: VERIFY=checksum, by petal's clock in the sessions",
        decimal(seconds, 2),
        or_dash(petal_s.map(|petal_s| seconds / petal_s), percent),
        decimal(ns as f64 / 1e3 / blocks as f64, 2)
    ))
}
