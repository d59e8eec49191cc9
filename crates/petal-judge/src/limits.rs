//! Limits that a run met: processors, petal itself.

use serde_json::{Value, json};

use super::driver_hosts;
use super::judgement::{
    FindingParts, Judgement, NoFinding::Clear, clear_if, info, known, seen, seen_on, unknown,
    warning,
};
use super::limited_by::limited_by;
use super::other_processors::{self, Others};
use super::physical;
use petal_host::host::HostFacts;
use petal_host::numbers::decimal;
use petal_host::os::CpuShare;
use petal_record::Run;
use petal_record::conclusions::Limiter;
use petal_record::os::HostSeen;
use petal_record::os_figures::{GroupFigures, HostFigures};

const BUSY_PERCENT_MAX: f64 = 96.0;
const STEAL_PERCENT_MAX: f64 = 5.0;
/// The share of its periods in which a control group had to wait.
const THROTTLED_SHARE_MAX: f64 = 0.50;
/// The share from which on waits for a processor are the group's own.
const HELD_BACK_SHARE_MIN: f64 = 0.10;
/// The share of looks that found the log writer on the busiest processor.
const LOG_WRITER_SHARE_MIN: f64 = 0.50;
/// Petal's share of the busy time, if petal and the server share full processors.
const PETAL_LOCAL_SHARE_MAX: f64 = 0.30;

/// 100 - idle - iowait, in percent.
pub(super) fn busy_percent(cpu: &CpuShare) -> f64 {
    cpu.busy().clamp(0.0, 100.0)
}

/// Returns the processors of the database's host; None if they are not seen.
pub(super) fn server_cpu(run: &Run) -> Option<&CpuShare> {
    run.summary.cpu.as_ref().filter(|_| run.is_database_host_seen())
}

pub(super) fn is_processor_bound(run: &Run) -> bool {
    full(run).is_some()
}

/// Returns others' work on processors that were full.
pub(super) fn others_on_full_processors(run: &Run) -> Option<Others> {
    let is_all = matches!(full(run), Some(FullProcessors::All { .. }));
    other_processors::noticeable(run).filter(|_| is_all)
}

/// Returns others' work on the processors that limit a run. Waits for a quota of the own group are
/// not others' work.
pub(super) fn others_at_limit(run: &Run) -> Option<Others> {
    let unless_held_back =
        || other_processors::noticeable(run).filter(|_| own_quota(run).is_none());
    others_on_full_processors(run).or_else(unless_held_back)
}

/// The full processors as the limit of a run: whose work, and which limit.
pub(super) fn full_words(run: &Run) -> Option<String> {
    let words = match full(run)? {
        FullProcessors::All { .. } => match other_processors::noticeable(run) {
            Some(others) => format!("processors: {}", others.words()),
            None if other_processors::is_unknown(run) => {
                "processors (others' share unknown)".to_owned()
            }
            None => "processors".to_owned(),
        },
        FullProcessors::Group(granted) => {
            let file = run.database_host().and_then(|seen| seen.group_file.as_deref());
            let file = file.map_or_else(String::new, |file| format!(", {file}"));
            format!("processors (the control group grants {:.2}{file})", granted.quota)
        }
        FullProcessors::LogWriter { cpu, .. } => {
            format!("processors (processor {cpu}, which the log writer ran on, was full)")
        }
    };
    Some(words)
}

/// Reasons why the database ran out of processors.
enum FullProcessors {
    /// Limit of all processors that it may use.
    All { busy: f64 },
    /// Limit of its control group.
    Group(Granted),
    /// The one that carried the log writer.
    LogWriter { cpu: u32, busy: f64, share: f64 },
}

fn full(run: &Run) -> Option<FullProcessors> {
    let seen = run.database_host();
    let throttled =
        |seen| Granted::used_up(&HostFigures::of(seen).group?).map(FullProcessors::Group);
    let all = || {
        let busy = server_cpu(run).map(busy_percent).filter(|&busy| busy > BUSY_PERCENT_MAX)?;
        Some(FullProcessors::All { busy })
    };
    // A group that used up its own quota waits for that, however busy others keep the host.
    seen.and_then(throttled).or_else(all).or_else(|| log_writer(seen?))
}

/// The quota of the server's or petal's own control group, if it held them back: their waits for a
/// processor are then not others' work.
pub(super) fn own_quota(run: &Run) -> Option<String> {
    let words = |whose: &str, group: Option<GroupFigures>| {
        let granted = Granted::held_back(&group?)?;
        let of = decimal(granted.quota, 2);
        Some(format!("{whose} control group grants {of} processors"))
    };
    let seen = run.database_host()?;
    let whose = if run.details.target.in_process { "petal's" } else { "the server's" };
    let of_server = words(whose, HostFigures::of(seen).group);
    let own = run.details.os.as_ref();
    of_server.or_else(|| words("petal's", HostFigures::of(own?).petal_group))
}

/// Processors that a control group granted, and their use.
struct Granted {
    quota: f64,
    file: Option<String>,
    used_share: Option<f64>,
    throttled_share: Option<f64>,
}

impl Granted {
    /// Words for the processors granted `on` a host, and how much of them was used.
    fn words(&self, on: &str) -> String {
        format!(
            "control group granted {:.2} processors{on}: it used {} of them and was made to wait in \
             {} of its periods",
            self.quota,
            percent_or_dash(self.used_share),
            percent_or_dash(self.throttled_share)
        )
    }

    /// The file of this host with the quota; without one its names in both hierarchies.
    fn file(&self) -> &str {
        self.file.as_deref().unwrap_or("cpu.max or cpu.cfs_quota_us")
    }

    /// None if the grant was not used up.
    fn used_up(group: &GroupFigures) -> Option<Self> {
        Self::over(group, THROTTLED_SHARE_MAX)
    }

    /// None if the group hardly had to wait for its grant.
    fn held_back(group: &GroupFigures) -> Option<Self> {
        Self::over(group, HELD_BACK_SHARE_MIN)
    }

    /// None if the group used little of its grant, and waited in no larger share of its periods.
    fn over(group: &GroupFigures, throttled_share_max: f64) -> Option<Self> {
        let quota = group.granted_processors;
        let used_share = group.used_processors.filter(|_| quota > 0.0).map(|used| used / quota);
        let periods = group.throttled_periods.zip(group.periods).filter(|(_, all)| *all > 0);
        let throttled_share = periods.map(|(throttled, all)| throttled as f64 / all as f64);
        let is_used_up = used_share.is_some_and(|share| share > BUSY_PERCENT_MAX / 100.0)
            || throttled_share.is_some_and(|share| share > throttled_share_max);
        let file = group.file.clone();
        is_used_up.then_some(Self { quota, file, used_share, throttled_share })
    }
}

/// The control group that holds petal and not the database.
fn petal_throttled(run: &Run) -> Option<Granted> {
    let seen = run.details.os.as_ref()?;
    let group = HostFigures::of(seen).petal_group?;
    let is_database_too = run.details.target.local && seen.group_file == group.file;
    Granted::used_up(&group).filter(|_| !is_database_too)
}

fn log_writer(seen: &HostSeen) -> Option<FullProcessors> {
    let sum = &seen.whole.sum;
    let (cpu, busy) = sum.busiest_cpu.filter(|(_, busy)| *busy > BUSY_PERCENT_MAX)?;
    // The processor of each second; the whole run's own sample knows one processor only.
    let mut all_s = 0.0;
    let mut there_s = 0.0;
    for (on, seconds) in seen.seconds.iter().flat_map(|second| &second.interval.log_writer_on) {
        all_s += seconds;
        there_s += if *on == cpu { *seconds } else { 0.0 };
    }
    let share = there_s / all_s;
    (all_s > 0.0 && share >= LOG_WRITER_SHARE_MIN).then_some(FullProcessors::LogWriter {
        cpu,
        busy,
        share,
    })
}

pub(super) fn processor_bound(run: &Run) -> Judgement {
    seen(run, "processors")?;
    known(server_cpu(run), "no processor statistics in this record")?;
    let whose = match (run.details.target.in_process, run.is_bare_device()) {
        (true, true) => "; petal itself reads and writes",
        (true, false) => {
            "; petal and the database share one process, so their parts cannot be separated"
        }
        (false, _) => "",
    };
    let on = run.database_host().map_or(String::new(), seen_on);
    let found = match full(run).ok_or(Clear)? {
        FullProcessors::All { busy } if is_logical_test(run) && is_own_work(run) => info(
            format!(
                "the processors were {busy:.1} % busy{on}, as a test of logical reads is meant to \
                 keep them"
            ),
            "Compare logical reads for each second of processor time.",
        ),
        FullProcessors::Group(granted) if is_logical_test(run) => info(
            format!(
                "{}'s {}, as a test of logical reads is meant to",
                run.reported_by(),
                granted.words(&on)
            ),
            &format!("Name the control group's limit ({}) with the result.", granted.file()),
        ),
        FullProcessors::All { busy } => all_busy(run, busy, &on, whose),
        FullProcessors::Group(granted) => warning(
            format!("{}'s {}{whose}", run.reported_by(), granted.words(&on)),
            &format!(
                "Raise the control group's limit ({}), or use fewer sessions.",
                granted.file()
            ),
        ),
        FullProcessors::LogWriter { cpu, busy, share } => warning(
            format!(
                "processor {cpu} was {busy:.1} % busy{on}, and the log writer ran on it {:.0} % of \
                 the time: commits waited for a processor, not for storage",
                share * 100.0
            ),
            "Keep other work off the log writer's processor, or use fewer sessions.",
        ),
    };
    found.with(full_evidence(run))
}

/// The figures that full processors rest on, for the finding and for the limit. Others' work is null
/// if it is unknown.
pub(super) fn full_evidence(run: &Run) -> Value {
    let (Some(cpu), Some(found)) = (server_cpu(run), full(run)) else { return Value::Null };
    let mut evidence = match found {
        FullProcessors::All { busy } => match other_processors::noticeable(run) {
            Some(Others { processors, own, .. }) => json!({
                "busy_percent": busy, "other_processors": processors, "own_processors": own,
            }),
            None if other_processors::is_unknown(run) => {
                json!({ "busy_percent": busy, "other_processors": null })
            }
            None => json!({ "busy_percent": busy }),
        },
        FullProcessors::Group(granted) => json!({
            "group_quota_processors": granted.quota, "group_used_share": granted.used_share,
            "throttled_periods_share": granted.throttled_share,
        }),
        FullProcessors::LogWriter { cpu, busy, share } => {
            json!({ "processor": cpu, "busy_percent": busy, "log_writer_share": share })
        }
    };
    evidence["idle_percent"] = json!(cpu.idle);
    evidence["iowait_percent"] = json!(cpu.iowait);
    evidence["petal_cpu_s"] = json!(run.summary.petal_cpu_s);
    evidence
}

/// True if petal and the database did all noticeable work on the processors.
fn is_own_work(run: &Run) -> bool {
    other_processors::noticeable(run).is_none() && !other_processors::is_unknown(run)
}

/// A run that only reads, from a cache that holds all of its data: it is made to keep processors
/// busy.
fn is_logical_test(run: &Run) -> bool {
    run.summary.ops.update == 0 && physical::is_cached(run)
}

/// Judges full processors by the run's limit; the advice depends on the processes that used them.
fn all_busy(run: &Run, busy: f64, on: &str, whose: &str) -> Judgement {
    use Limiter::{OthersWork, Petal, Processors, SessionProcessorTime};
    let computed = || limited_by(run);
    let limit = run.summary.limited_by.clone().unwrap_or_else(computed);
    let is_of_processors =
        |by| matches!(by, Processors | SessionProcessorTime | OthersWork | Petal);
    let part = match (is_of_processors(limit.by), limit.shared_with.map(is_of_processors)) {
        (true, Some(false)) | (false, Some(true)) => "; they are a part of the limit",
        (false, _) => "; the sessions waited elsewhere",
        (true, _) if physical::is_cached(run) => "; the figures contain the wait for them",
        (true, _) => "; the storage's limit is not seen",
    };
    let Some(others) = other_processors::noticeable(run) else {
        let busy = format!("the processors were {busy:.1} % busy{on}{whose}");
        return match other_processors::is_unknown(run) {
            true => warning(
                format!("{busy}, and others' share of this is unknown{part}"),
                "Look with top if other programs work, and repeat on a quiet host. If petal and the \
                 database fill the processors alone, use fewer sessions, or more or faster \
                 processors.",
            ),
            false => warning(
                format!("{busy}{part}"),
                "Use fewer sessions, or more or faster processors, to see the storage's limit.",
            ),
        };
    };
    let Others { processors, of, own } = others;
    let mostly = if others.prevail() { ", mostly for others" } else { ", also for others" };
    let database = if run.is_bare_device() { "" } else { " and the database" };
    warning(
        format!(
            "the processors were {busy:.1} % busy{on}{mostly}: they used {processors:.2} of the \
             {of}, petal{database} {own:.2}{part}"
        ),
        "Repeat on a quiet host; top names the other programs.",
    )
}

/// A share of time. Clocks that end a moment apart give a little more than all of it.
fn percent_or_dash(share: Option<f64>) -> String {
    let percent = |share: f64| format!("{:.0} %", share.min(1.0) * 100.0);
    share.map_or_else(|| "an unknown share".to_owned(), percent)
}

/// Steal on the database's host, and on petal's own if it is a different one.
pub(super) fn steal(run: &Run) -> Judgement {
    let database = run.summary.cpu;
    let own = run.details.os.as_ref().and_then(|seen| seen.whole.sum.cpu());
    let hosts = [(database, "the database's host"), (own, "petal's host")].into_iter();
    let most = hosts
        .filter_map(|(cpu, whose)| Some((cpu?, whose)))
        .max_by(|a, b| a.0.steal.total_cmp(&b.0.steal));
    let (cpu, whose) = known(most, "no processor statistics in this record")?;
    clear_if(cpu.steal <= STEAL_PERCENT_MAX)?;
    let of = if run.details.target.local { String::new() } else { format!(" of {whose}") };
    warning(
        format!("{:.1} % of processor time{of} was stolen by other virtual machines", cpu.steal),
        "Repeat at a quieter hour, or on a host of your own: latencies contain the theft.",
    )
    .with(json!({ "steal_percent": cpu.steal }))
}

/// True if petal's own processors held a server back, whatever else kept the processors busy.
pub(super) fn is_petal_full(run: &Run) -> bool {
    let is_elsewhere = !run.details.target.local && generator_bound(run).is_ok();
    !run.details.target.in_process && (petal_throttled(run).is_some() || is_elsewhere)
}

pub(super) fn generator_bound(run: &Run) -> Judgement {
    if run.details.target.in_process {
        let why = match run.is_bare_device() {
            true => "petal itself reads and writes: its own cost is part of the figures",
            false => "petal and the database share one process: not separable",
        };
        return unknown(why);
    }
    if let Some(granted) = petal_throttled(run) {
        return warning(
            format!("petal's own {}", granted.words("")),
            &format!(
                "Raise the limit of the control group that petal runs in ({}), or start petal \
                 outside of it.",
                granted.file()
            ),
        )
        .with(json!({
            "petal_group_quota_processors": granted.quota,
            "petal_group_used_share": granted.used_share,
            "petal_throttled_periods_share": granted.throttled_share,
        }));
    }
    if !run.summary.hosts.is_empty() {
        return driver_hosts::generator_bound(run);
    }
    // No more than its control group grants.
    let cpus = run.details.host.as_ref().and_then(HostFacts::processors);
    let (petal_cpu_s, cpus) = known(
        run.summary.petal_cpu_s.zip(cpus),
        "petal's own processor time is not in this record",
    )?;
    let host_s = run.summary.elapsed_s * cpus;
    if host_s <= 0.0 {
        return unknown("the run took no time");
    }
    let share = (petal_cpu_s / host_s).min(1.0);
    let is_bound = if run.details.target.local {
        is_processor_bound(run) && share > PETAL_LOCAL_SHARE_MAX
    } else {
        share > driver_hosts::PETAL_REMOTE_SHARE_MAX
    };
    clear_if(!is_bound)?;
    warning(
        format!("petal itself used {:.0} % of this host's processors", share * 100.0),
        "Run petal on a separate host with more processors, or use LOOP=server.",
    )
    .with(json!({ "petal_cpu_s": petal_cpu_s, "cpus": cpus, "elapsed_s": run.summary.elapsed_s }))
}
