//! Runs of several driver hosts: whether each did its share, all began together, and none was the
//! limit.

use std::collections::BTreeMap;

use serde_json::json;

use super::judgement::{
    FindingParts, Judgement,
    NoFinding::{self, Clear},
    clear_if, error, info, unknown, warning,
};
use super::trust::ENDPOINT_SHARE_MAX;
use petal_host::numbers::{decimal, whole};
use petal_record::Run;
use petal_record::driver_hosts::{HostRun, MachineLoad, StartedBy};

/// Hosts that begin further apart drive other seconds of the run than their own.
const START_APART_MAX_S: f64 = 0.1;
/// petal's share of the processors that it may use on a host without the database.
pub(super) const PETAL_REMOTE_SHARE_MAX: f64 = 0.90;

/// The record of one share alone is not a record of the whole run.
pub(super) fn one_share(run: &Run) -> Judgement {
    let share = run.summary.share.as_ref().filter(|share| share.share.of > 1).ok_or(Clear)?;
    let (number, of) = (share.share.number, share.share.of);
    let database = match (share.counts_database, run.details.target.in_process) {
        (true, false) => "; the database's figures are those of all hosts",
        (true, true) => "",
        (false, _) => "; the database's figures are in the record of share 1",
    };
    info(
        format!(
            "this is share {number} of {of}: {} of the run's {} sessions{database}",
            whole(run.summary.sessions.into()),
            whole(share.plan_sessions.into())
        ),
        "Merge all shares: petal merge DIR DIR ...",
    )
    .with(json!({ "share": number, "of": of, "plan_sessions": share.plan_sessions }))
}

pub(super) fn incomplete(run: &Run) -> Judgement {
    let hosts = &run.summary.hosts;
    let cut: Vec<String> = hosts.iter().filter(|host| !host.is_whole()).map(how_it_ended).collect();
    clear_if(cut.is_empty())?;
    let plan = hosts.iter().map(|host| host.share.plan_sessions).max().unwrap_or(0);
    error(
        format!(
            "{}: these figures are of {} of the run's {} sessions, or of a part of its time",
            cut.join("; "),
            whole(run.summary.sessions.into()),
            whole(plan.into())
        ),
        "Do not compare it with whole runs. If the missing record is on another host, merge again \
         with it; otherwise find out why petal ended there, and run again.",
    )
    .with(json!({
        "shares": hosts.len(), "cut": cut.len(),
        "sessions": run.summary.sessions, "plan_sessions": plan,
    }))
}

fn how_it_ended(host: &HostRun) -> String {
    match host.status {
        None => format!("{} left no record", host.name()),
        Some(_) => {
            format!("petal was killed on {} after {} s", host.name(), decimal(host.elapsed_s, 0))
        }
    }
}

/// Sessions of one host that did more or less than sessions of the others.
pub(super) fn uneven(run: &Run) -> Judgement {
    let whole = run.summary.hosts.iter().filter(|host| host.is_whole() && host.sessions > 0);
    let each: Option<Vec<(String, f64)>> = whole
        .map(|host| Some((host.name(), host.ops_per_second? / f64::from(host.sessions))))
        .collect();
    let each = each.filter(|each| each.len() > 1).ok_or(Clear)?;
    let mean = each.iter().map(|(_, rate)| rate).sum::<f64>() / each.len() as f64;
    if mean <= 0.0 {
        return unknown("no host did an operation");
    }
    let furthest = each.iter().max_by(|a, b| (a.1 - mean).abs().total_cmp(&(b.1 - mean).abs()));
    let (name, rate) = furthest.ok_or(Clear)?;
    let difference = rate / mean - 1.0;
    clear_if(difference.abs() <= ENDPOINT_SHARE_MAX)?;
    let rates: BTreeMap<&str, f64> =
        each.iter().map(|(name, rate)| (name.as_str(), *rate)).collect();
    warning(
        format!(
            "a session on {name} did {:+.0} % operations per second against the mean of all hosts",
            difference * 100.0
        ),
        "Compare the hosts' processors, network paths and load (the table of driver hosts). Give \
         slower hardware fewer sessions.",
    )
    .with(json!({ "ops_per_second_per_session": rates }))
}

pub(super) fn start(run: &Run) -> Judgement {
    let there: Vec<&HostRun> = run.summary.hosts.iter().filter(|h| h.status.is_some()).collect();
    clear_if(
        there.len() < 2 || there.iter().any(|host| host.share.start.by == StartedBy::Barrier),
    )?;
    let is_one_machine = there[0].share.boot_id.is_some()
        && there.iter().all(|host| host.share.boot_id == there[0].share.boot_id);
    let unsure: Vec<String> = there
        .iter()
        .filter(|host| {
            host.share.start.clock_ahead_s.is_none() && host.share.start.synchronised != Some(true)
        })
        .map(|host| host.name())
        .collect();
    if !is_one_machine && !unsure.is_empty() {
        return warning(
            format!(
                "it is unknown whether all hosts started together: no clock source reports a \
                 synchronised clock on {}",
                unsure.join(", ")
            ),
            "Run chronyd or systemd-timesyncd on every driver host, or use a database whose \
             clock petal can read.",
        )
        .with(json!({ "hosts": unsure }));
    }
    let last = there.iter().filter_map(|host| Some((host.triggered_after_s?, host.name())));
    let last = last.max_by(|a, b| a.0.total_cmp(&b.0));
    let (apart_s, name) = last.filter(|last| last.0 > START_APART_MAX_S).ok_or(Clear)?;
    warning(
        format!(
            "{name} began {apart_s:.2} s after the first host: its seconds are aligned with later ones of the others"
        ),
        "Give --start-at more time, so that every host has connected before it.",
    )
    .with(json!({ "apart_s": apart_s }))
}

/// petal's own cost, machine by machine, of a run of several hosts.
pub(super) fn generator_bound(run: &Run) -> Judgement {
    let unseen = |host| format!("petal's own processor time on {host} is not in this record");
    let machines = run.machine_loads().map_err(|host| NoFinding::Unknown(unseen(host)))?;
    let bound = machines.iter().filter(|machine| machine.petal_share > PETAL_REMOTE_SHARE_MAX);
    let bound: Vec<&MachineLoad> = bound.collect();
    let most = bound.iter().max_by(|a, b| a.petal_share.total_cmp(&b.petal_share));
    let MachineLoad { name, petal_share, processors } = most.copied().ok_or(Clear)?;
    warning(
        format!(
            "petal itself used {:.0} % of the {processors:.0} processors of {name}{}",
            petal_share.min(1.0) * 100.0,
            super::and_more(" ", bound.len() - 1),
        ),
        "Drive from more hosts, or from hosts with more processors, or use LOOP=server.",
    )
    .with(json!({ "petal_cpu_share": petal_share, "machines_bound": bound.len() }))
}
