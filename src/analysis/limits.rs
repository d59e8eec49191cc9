//! What ran out: processors, petal itself.

use super::judgement::{Judgement, is_in_process, unknown, warning};
use crate::record::Run;
use crate::stats::os::CpuShare;

const BUSY_PERCENT_MAX: f64 = 96.0;
const STEAL_PERCENT_MAX: f64 = 5.0;
/// Of the processors that petal may use.
const PETAL_REMOTE_SHARE_MAX: f64 = 0.90;
/// Of the busy time, where petal and the server share full processors.
const PETAL_LOCAL_SHARE_MAX: f64 = 0.30;

pub(super) fn judge(run: &Run) -> Vec<Judgement> {
    vec![processor_bound(run), steal(run), generator_bound(run)]
}

/// 100 - idle - iowait, in per cent.
pub(super) fn busy_percent(cpu: &CpuShare) -> f64 {
    (100.0 - cpu.idle - cpu.iowait).clamp(0.0, 100.0)
}

/// The processors of the database's host; None where they are not seen.
pub(super) fn server_cpu(run: &Run) -> Option<&CpuShare> {
    run.summary.cpu.as_ref().filter(|_| run.details.target.local)
}

pub(super) fn is_processor_bound(run: &Run) -> bool {
    server_cpu(run).is_some_and(|cpu| busy_percent(cpu) > BUSY_PERCENT_MAX)
}

fn processor_bound(run: &Run) -> Judgement {
    const ID: &str = "processor-bound";
    if !run.details.target.local {
        return unknown(ID, "the target is on another host: its processors are not seen");
    }
    let Some(cpu) = server_cpu(run) else {
        return unknown(ID, "no processor statistics in this record");
    };
    let busy = busy_percent(cpu);
    if busy <= BUSY_PERCENT_MAX {
        return Judgement::Clear;
    }
    let whose = if is_in_process(run) {
        "; petal and the database share one process, so their parts cannot be told apart"
    } else {
        ""
    };
    warning(
        ID,
        format!("the processors were {busy:.1} % busy: they were the limit, not storage{whose}"),
        "Use fewer sessions, or more or faster processors, to see what storage can do.",
    )
    .with("busy_percent", busy)
    .with("idle_percent", cpu.idle)
    .with("iowait_percent", cpu.iowait)
    .with("petal_cpu_s", run.summary.petal_cpu_s)
    .judged()
}

fn steal(run: &Run) -> Judgement {
    match &run.summary.cpu {
        Some(cpu) if cpu.steal > STEAL_PERCENT_MAX => warning(
            "steal",
            format!("{:.1} % of processor time was stolen by other virtual machines", cpu.steal),
            "Repeat at a quieter hour, or on a host of your own: latencies contain the theft.",
        )
        .with("steal_percent", cpu.steal)
        .judged(),
        Some(_) => Judgement::Clear,
        None => unknown("steal", "no processor statistics in this record"),
    }
}

fn generator_bound(run: &Run) -> Judgement {
    const ID: &str = "generator-bound";
    if is_in_process(run) {
        return unknown(ID, "petal and the database share one process: not separable");
    }
    let cpus = run.details.host.as_ref().map(|host| host.cpus).filter(|&cpus| cpus > 0);
    let Some((petal_cpu_s, cpus)) = run.summary.petal_cpu_s.zip(cpus) else {
        return unknown(ID, "petal's own processor time is not in this record");
    };
    let host_s = run.summary.elapsed_s * f64::from(cpus);
    if host_s <= 0.0 {
        return unknown(ID, "the run took no time");
    }
    let share = petal_cpu_s / host_s;
    let is_bound = if run.details.target.local {
        is_processor_bound(run) && share > PETAL_LOCAL_SHARE_MAX
    } else {
        share > PETAL_REMOTE_SHARE_MAX
    };
    if !is_bound {
        return Judgement::Clear;
    }
    warning(
        ID,
        format!("petal itself used {:.0} % of this host's processors", share * 100.0),
        "Run petal on a host of its own with more processors, or use LOOP=server.",
    )
    .with("petal_cpu_s", petal_cpu_s)
    .with("cpus", cpus)
    .with("elapsed_s", run.summary.elapsed_s)
    .judged()
}
