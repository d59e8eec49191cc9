//! What was tested: target, host, settings.

use super::super::numbers::{bytes, decimal, or_dash, whole};
use super::super::table::{Align, Table};
use super::{Facts, fact};
use crate::record::Run;
use crate::settings::{Given, Origin};
use crate::stats::host::{Device, Host};

/// What was tested, on what.
pub(in crate::report) fn facts(run: &Run) -> Facts {
    let mut facts = Facts::new();
    target(&mut facts, run);
    host(&mut facts, run);
    shape(&mut facts, run);
    facts
}

fn target(out: &mut Facts, run: &Run) {
    let (summary, details) = (&run.summary, &run.details);
    let target = &summary.target;
    let name = if run.is_bare_device() { "engine" } else { "database" };
    fact(out, name, &format!("{} {} (engine {})", target.product, target.version, summary.engine));
    fact(out, "URL", &target.url);
    fact(out, "block size", &bytes(target.block_size));
    fact(
        out,
        "cache",
        &or_dash(target.cache_bytes, |cache| format!("{} for all sessions together", bytes(cache))),
    );
    fact(
        out,
        "active data set",
        &format!(
            "{} in {} schemas of {} rows",
            bytes(summary.active_bytes),
            summary.schemas,
            whole(details.active_rows)
        ),
    );
    let index = details.loaded.iter().map(|schema| schema.index_bytes).reduce(|a, b| a + b);
    let index = or_dash(index, |index| format!("{} beside the data", bytes(index)));
    fact(out, "index", &index);
    fact(
        out,
        "data compresses",
        &or_dash(details.target.compression_ratio, |ratio| {
            format!("{} times (sampled blocks, LZ4)", decimal(ratio, 1))
        }),
    );
    let direct =
        details.target.direct_io.as_ref().map(|direct| match (direct.used, &direct.reason) {
            (true, _) => "yes: past the page cache".to_owned(),
            (false, Some(reason)) => format!("no: {reason}"),
            (false, None) => "no: through the page cache".to_owned(),
        });
    fact(out, "direct I/O", &or_dash(direct, |text| text));
    let durable = details.target.durability.as_ref().map(|durability| {
        let word = if durability.durable { "yes" } else { "NO" };
        format!("{word} ({})", durability.setting)
    });
    fact(out, "commits durable", &or_dash(durable, |text| text));
    fact(out, "checkpoint", &or_dash(details.target.checkpoint.clone(), |text| text));
    let plan = details.target.plan.as_ref().map(|plan| {
        format!("{}: {}", if plan.as_meant { "as meant" } else { "NOT as meant" }, plan.text)
    });
    fact(out, "plan of the SELECT", &or_dash(plan, |text| text));
    let settings: Vec<String> =
        details.target.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    fact(out, "its settings", &settings.join(", "));
}

fn host(out: &mut Facts, run: &Run) {
    match &run.details.host {
        Some(host) => host_facts(out, "host", host),
        None => fact(out, "host", "-"),
    }
    let is_seen = run.is_database_host_seen();
    if run.details.host.is_some() && !is_seen {
        let why = run.why_database_host_is_unseen();
        fact(out, "", &format!("{why}: its devices and processors are not seen"));
    }
    if let Some(host) = run.details.server_os.as_ref().and_then(|seen| seen.facts.as_ref()) {
        host_facts(out, "the database's host", host);
    }
}

fn host_facts(out: &mut Facts, name: &str, host: &Host) {
    fact(
        out,
        name,
        &format!(
            "{}, Linux {}, {} processors ({}), memory {}",
            host.name,
            host.kernel,
            host.cpus,
            host.cpu_model.as_deref().unwrap_or("model not known"),
            or_dash(host.memory_bytes, bytes)
        ),
    );
    for device in &host.devices {
        fact(out, "device", &described(device));
    }
    for reason in &host.unseen {
        fact(out, "device not seen", reason);
    }
}

/// `rotational` is the kernel's flag: virtual disks often set it whatever they are.
fn described(device: &Device) -> String {
    let kind = device.rotational.map(|spins| if spins { "rotating" } else { "not rotating" });
    let mut parts = vec![device.name.clone()];
    parts.extend(device.model.clone());
    parts.extend(device.size_bytes.map(bytes));
    parts.extend(kind.map(str::to_owned));
    parts.extend(device.file_system.clone());
    parts.extend(device.scheduler.as_ref().map(|name| format!("scheduler {name}")));
    parts.extend(device.write_cache.as_ref().map(|mode| format!("write cache: {mode}")));
    parts.join(", ")
}

fn shape(out: &mut Facts, run: &Run) {
    let (summary, details) = (&run.summary, &run.details);
    fact(out, "sessions", &format!("{} on {} schemas", summary.sessions, summary.schemas));
    fact(out, "seed", &summary.seed.to_string());
    fact(out, "repeat", &format!("{} of {}", details.repeat, details.repeats));
    fact(out, "started", &summary.started_at);
    fact(out, "connected in", &or_dash(details.connect_s, |s| format!("{} s", decimal(s, 3))));
    fact(out, "elapsed", &format!("{} s", decimal(summary.elapsed_s, 3)));
    fact(
        out,
        "DB time",
        &format!(
            "{} s in operations, {} s of think time",
            decimal(details.db_time_s, 3),
            decimal(details.think_time_s, 3)
        ),
    );
    let done = details.first_done_s.zip(details.last_done_s).map(|(first, last)| {
        format!("first session {} s, last session {} s", decimal(first, 3), decimal(last, 3))
    });
    fact(out, "done", &or_dash(done, |text| text));
    let settled = summary.settle.as_ref().map(|settle| {
        format!(
            "{} s; dirty pages {} before, {} after",
            decimal(settle.seconds, 2),
            or_dash(settle.dirty_bytes_before, bytes),
            or_dash(settle.dirty_bytes_after, bytes)
        )
    });
    fact(out, "settled", &or_dash(settled, |text| text));
    for line in details.settled.iter().flat_map(|settled| &settled.done) {
        fact(out, "", line);
    }
}

/// The parameters that somebody set, or those that are at their default.
pub(in crate::report) fn settings(run: &Run, at_default: bool) -> Table {
    let columns = [("parameter", Align::Left), ("value", Align::Right), ("set by", Align::Left)];
    let mut table = Table::new(&columns);
    for given in run.details.given.iter().filter(|given| is_default(given) == at_default) {
        table.row([given.key.clone(), value(given), origin(&given.origin)]);
    }
    table
}

pub(in crate::report) fn by_default(run: &Run) -> impl Iterator<Item = &Given> {
    run.details.given.iter().filter(|given| is_default(given))
}

fn is_default(given: &Given) -> bool {
    given.origin == Origin::Default
}

/// A parameter's value as a person writes it.
pub(in crate::report) fn value(given: &Given) -> String {
    match &given.value {
        serde_json::Value::Null => "unset".to_owned(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Who set it.
fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Flag => "flag".to_owned(),
        Origin::Environment(name) => format!("environment {name}"),
        Origin::File(path, line) => format!("{}:{line}", path.display()),
        Origin::Default => "default".to_owned(),
    }
}
