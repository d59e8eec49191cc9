//! The run second by second: extremes, the counted window, errors and lost sessions, the results of
//! hooks, petal's own cost.

use std::collections::BTreeMap;

use super::super::numbers::{UNKNOWN, decimal, micros, or_dash, percent, rate, whole};
use super::super::table::Table;
use super::Facts;
use petal_record::counters::CommonCounter;
use petal_record::{
    IoLatency, OneSecond, PerSecond, Run, Second, SecondAmount, Summary, each_second,
};

/// Shortest second that is compared; a shorter interval at the end is left out.
pub(crate) const SECOND_S_MIN: f64 = 0.5;

/// A figure of a row of seconds; None if unknown.
pub(crate) type SecondFigure<'a> = Box<dyn Fn(&Second) -> Option<f64> + 'a>;

/// The lowest, middle and highest second of each figure.
pub(crate) fn extremes(run: &Run) -> Table {
    let rate_of = |amount: SecondAmount, unit: f64| -> OneSecondFigure {
        Box::new(move |second| Some(second.rate(amount)? / unit))
    };
    let mut figures: Vec<(String, OneSecondFigure)> = vec![
        ("operations/s".into(), rate_of(SecondAmount::Operations, 1.0)),
        ("PIOPS read".into(), rate_of(SecondAmount::Reads, 1.0)),
        ("PIOPS write".into(), rate_of(SecondAmount::Writes, 1.0)),
        ("redo MB/s".into(), rate_of(SecondAmount::RedoBytes, 1e6)),
        ("device read MB/s".into(), rate_of(SecondAmount::DeviceReadBytes, 1e6)),
        ("device write MB/s".into(), rate_of(SecondAmount::DeviceWriteBytes, 1e6)),
        ("processors idle %".into(), Box::new(|second| second.amount(SecondAmount::Idle))),
    ];
    for kind in run.summary.latency_us.keys() {
        let place = usize::from(!has_p99(run, kind));
        let name = format!("{kind} {} us", SLOWEST[place]);
        figures.push((name, Box::new(move |second| second.slowest_us(kind)[place])));
    }
    let seconds: Vec<OneSecond> = each_second(&run.details.timeline).collect();
    let rows = figures.iter();
    let rows = rows.map(|(name, figure)| extreme_cells(name, figure, &seconds));
    Table::of_figures(" | min | at s | median | max | at s | seconds").with_rows(rows)
}

/// The p99 of each second, or its slowest operation if no second has enough operations for a p99.
pub(crate) fn slowest<'a>(run: &Run, kind: &'a String) -> (String, SecondFigure<'a>) {
    let [p99, slowest] = SLOWEST.map(|figure| format!("{kind} {figure}"));
    match has_p99(run, kind) {
        true => (p99, Box::new(move |second| second.latency_us.get(kind)?.p99)),
        false => (slowest, Box::new(move |second| second.latency_us.get(kind)?.max)),
    }
}

const SLOWEST: [&str; 2] = ["p99", "slowest"];

fn has_p99(run: &Run, kind: &str) -> bool {
    let p99 = |second: &Second| second.latency_us.get(kind)?.p99;
    run.details.timeline.iter().any(|second| p99(second).is_some())
}

type OneSecondFigure<'a> = Box<dyn Fn(&OneSecond) -> Option<f64> + 'a>;

fn extreme_cells(name: &str, figure: &OneSecondFigure<'_>, seconds: &[OneSecond]) -> [String; 7] {
    let mut values: Vec<(f64, f64)> = seconds
        .iter()
        .filter(|second| second.length_s() >= SECOND_S_MIN)
        .filter_map(|second| Some((figure(second)?, second.from_s)))
        .collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let count = values.len();
    let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
        return [name, "-", "-", "-", "-", "-", "0"].map(str::to_owned);
    };
    [
        name.to_owned(),
        rate(min.0),
        decimal(min.1, 0),
        rate(values[(count - 1) / 2].0),
        rate(max.0),
        decimal(max.1, 0),
        whole(count as u64),
    ]
}

/// Lists the rates of the counted window and of the whole run.
pub(crate) fn window_rates(run: &Run, window: &Summary) -> Table {
    let mut table = Table::of_figures("per second | counted window | whole run");
    // Experiments are no part of the run's own figures.
    let has_experiments = run.details.experiments.is_some();
    let whole_run = |figure: String| if has_experiments { UNKNOWN.to_owned() } else { figure };
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
        table.row([
            name.to_owned(),
            show(&window.per_second),
            whole_run(show(&run.summary.per_second)),
        ]);
    }
    let read = |latencies: &BTreeMap<String, IoLatency>| {
        or_dash(latencies.get("read").and_then(|read| read.mean), micros)
    };
    let [of_window, of_run] = [&window.io_latency_us, &run.summary.io_latency_us].map(read);
    table.row(["single-block read us".to_owned(), of_window, whole_run(of_run)]);
    table
}

pub(crate) fn lost(run: &Run) -> Vec<String> {
    let lost = run.summary.sessions_lost.iter().map(|lost| {
        let at = decimal(lost.at_s, 2);
        format!("session {} lost at {at} s: {} ({})", lost.session, lost.message, lost.code)
    });
    lost.collect()
}

/// Lists errors, and the number of operations and sessions that did not finish.
pub(crate) fn errors(run: &Run) -> Facts {
    let summary = &run.summary;
    let codes: Vec<String> =
        summary.errors.iter().map(|(code, count)| format!("{code} {}", whole(*count))).collect();
    let codes = if codes.is_empty() { "none".to_owned() } else { codes.join(", ") };
    let all = [
        ("errors survived", Some(codes)),
        ("operations cut", Some(whole(summary.ops.cut))),
        ("due and not begun", run.details.backlog.map(whole)),
        ("sessions lost", Some(whole(summary.sessions_lost.len() as u64))),
    ];
    super::facts(all.into_iter().filter(|(_, value)| value.is_some()))
}

/// Reports the use of the processors, and petal's part of it.
pub(crate) fn cost(run: &Run) -> Facts {
    let summary = &run.summary;
    let shares = summary.cpu.map(|cpu| {
        let [user, system, iowait, idle, steal] =
            [cpu.user, cpu.system, cpu.iowait, cpu.idle, cpu.steal].map(|part| decimal(part, 1));
        format!(
            "user {user} %, system {system} %, iowait {iowait} %, idle {idle} %, steal {steal} %"
        )
    });
    let cpus = run.details.host.as_ref().map(|host| f64::from(host.cpus));
    let host_s = cpus.map(|cpus| cpus * summary.elapsed_s).filter(|&seconds| seconds > 0.0);
    let petal = summary.petal_cpu_s.map(|seconds| {
        let (of, share, whose) = match summary.hosts.is_empty() {
            true => ("", host_s.map(|host_s| seconds / host_s), "this host"),
            false => (" of all hosts", run.busiest_machine_share(), "the busiest one"),
        };
        let share = or_dash(share, percent);
        let per_op = (summary.ops.total > 0).then(|| seconds * 1e6 / summary.ops.total as f64);
        let (seconds, per_op) = (decimal(seconds, 2), or_dash(per_op, micros));
        format!("{seconds} s of processor time{of}, {share} % of {whose}, {per_op} us an operation")
    });
    // A recording of `petal os` is of the database's host, even if that is this host.
    let whose = if run.details.server_os.is_some() { "the database's host" } else { "this host" };
    let mut facts = super::facts([(whose, shares), ("petal's process", petal)]);
    if run.details.target.in_process && !run.is_bare_device() {
        let inside = "the database runs inside petal's process: its work is in this figure";
        facts.extend(super::facts([("", Some(inside.to_owned()))]));
    }
    facts.extend(verifying(run).map(|verifying| ("of it, verifying".to_owned(), verifying)));
    facts
}

/// Reports the cost of VERIFY=checksum; None if nothing of it was timed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::driver_hosts::HostRun;
    use petal_record::{Status, fixture};

    #[test]
    fn the_use_of_all_hosts_is_not_divided_by_the_size_of_one() {
        let mut run = fixture::mixed_run();
        let host = |name: &str, share: f64| {
            let mut host = HostRun {
                status: Some(Status::Complete),
                elapsed_s: 10.0,
                petal_cpu_s: Some(share * 10.0),
                processors: Some(1.0),
                ..HostRun::default()
            };
            host.share.host = name.to_owned();
            host
        };
        run.summary.hosts = vec![host("a", 0.9), host("b", 0.6)];
        run.summary.petal_cpu_s = Some(15.0);
        let reported = format!("{:?}", cost(&run));
        assert!(
            reported.contains("15.00 s of processor time of all hosts, 90.0 % of the"),
            "{reported}"
        );
        run.summary.hosts.clear();
        assert!(format!("{:?}", cost(&run)).contains("% of this host"));
    }
}
