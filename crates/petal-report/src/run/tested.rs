//! The system under test: target, host, settings.

use super::super::numbers::{bytes, counted, decimal, or_dash, whole};
use super::super::table::Table;
use super::Facts;
use petal_host::host::{HostDevice, HostFacts};
use petal_record::{Run, as_text};
use petal_settings::{GivenParameter, Origin};

pub(crate) fn facts(run: &Run) -> Facts {
    [target(run), host(run), shape(run)].concat()
}

fn target(run: &Run) -> Facts {
    let (summary, details) = (&run.summary, &run.details);
    let (target, stated) = (&summary.target, &details.target);
    let mut index = details.loaded.iter().map(|schema| schema.index_bytes);
    let index = index.try_fold(0_u64, |sum, one| Some(sum.saturating_add(one?)));
    let index = index.filter(|_| !details.loaded.is_empty());
    let direct = stated.direct_io.as_ref().map(|direct| match (direct.used, &direct.reason) {
        (true, _) => "yes: past the page cache".to_owned(),
        (false, Some(reason)) => format!("no: {reason}"),
        (false, None) => "no: through the page cache".to_owned(),
    });
    let durable = stated.durability.as_ref().map(|durability| {
        let word = if durability.durable { "yes" } else { "NO" };
        format!("{word} ({})", durability.setting)
    });
    let plan = stated.plan.as_ref().map(|plan| {
        format!("{}: {}", if plan.as_meant { "as meant" } else { "NOT as meant" }, plan.text)
    });
    let settings: Vec<String> =
        stated.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let (active, rows) = (bytes(summary.active_bytes), whole(details.active_rows));
    let compresses = |ratio| format!("{} times (sampled blocks, LZ4)", decimal(ratio, 1));
    let whose = match summary.endpoints.len() {
        0 | 1 => String::new(),
        count => format!(", of the first of {count} endpoints"),
    };
    let cache = |cache| format!("{} for all sessions together{whose}", bytes(cache));
    super::facts([
        (
            if run.is_bare_device() { "engine" } else { "database" },
            Some(format!("{} {} (engine {})", target.product, target.version, summary.engine)),
        ),
        ("URL", Some(target.url.clone())),
        ("block size", Some(bytes(target.block_size))),
        ("cache", target.cache_bytes.map(cache)),
        (
            "active data set",
            Some(format!("{active} in {} of {rows} rows", counted(summary.schemas, "schema"))),
        ),
        ("index", index.map(|index| format!("{} next to the data", bytes(index)))),
        ("data compresses", stated.compression_ratio.map(compresses)),
        ("direct I/O", direct),
        ("commits durable", durable),
        ("checkpoint", stated.checkpoint.clone()),
        ("plan of the SELECT", plan),
        ("its settings", Some(settings.join(", "))),
    ])
}

fn host(run: &Run) -> Facts {
    let own = run.details.host.as_ref();
    let mut facts =
        own.map_or_else(|| super::facts([("host", None)]), |host| of_host("host", host));
    if own.is_some() && !run.is_database_host_seen() {
        let why = run.why_database_host_is_unseen();
        facts.push((String::new(), format!("{why}: its devices and processors are not seen")));
    }
    let other = run.details.server_os.as_ref().and_then(|seen| seen.facts.as_ref());
    facts.extend(other.into_iter().flat_map(|host| of_host("the database's host", host)));
    facts
}

fn of_host(name: &str, host: &HostFacts) -> Facts {
    let model = host.cpu_model.as_deref().unwrap_or("model not known");
    let HostFacts { name: own, kernel, cpus, .. } = host;
    let memory = or_dash(host.memory_bytes, bytes);
    let first = format!("{own}, Linux {kernel}, {cpus} processors ({model}), memory {memory}");
    let devices = host.devices.iter().map(|device| ("device", Some(described(device))));
    let unseen = host.unseen.iter().map(|reason| ("device not seen", Some(reason.clone())));
    super::facts([(name, Some(first))].into_iter().chain(devices).chain(unseen))
}

/// `rotational` is the kernel's flag: virtual disks often set it whatever they are.
fn described(device: &HostDevice) -> String {
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

fn shape(run: &Run) -> Facts {
    let (summary, details) = (&run.summary, &run.details);
    let seconds = |s: f64| format!("{} s", decimal(s, 3));
    let (db_time, think_time) = (seconds(details.db_time_s), seconds(details.think_time_s));
    let done = details.first_done_s.zip(details.last_done_s).map(|(first, last)| {
        format!("first session {}, last session {}", seconds(first), seconds(last))
    });
    let settled = summary.settle.as_ref().map(|settle| {
        format!(
            "{} s; dirty pages {} before, {} after",
            decimal(settle.seconds, 2),
            or_dash(settle.dirty_bytes_before, bytes),
            or_dash(settle.dirty_bytes_after, bytes)
        )
    });
    let steps = details.settled.iter().flat_map(|settled| &settled.done);
    let all = [
        (
            "sessions",
            Some(format!(
                "{} on {}",
                whole(summary.sessions.into()),
                counted(summary.schemas, "schema")
            )),
        ),
        ("seed", Some(summary.seed.to_string())),
        ("repeat", Some(format!("{} of {}", details.repeat, details.repeats))),
        ("started", Some(summary.started_at.clone())),
        ("connected in", details.connect_s.map(seconds)),
        ("elapsed", Some(seconds(summary.elapsed_s))),
        ("DB time", Some(format!("{db_time} in operations, {think_time} of think time"))),
        ("done", done),
        ("settled", settled),
    ];
    super::facts(all.into_iter().chain(steps.map(|step| ("", Some(step.clone())))))
}

/// Lists the parameters that were set, or the ones at their default.
pub(crate) fn settings(run: &Run, at_default: bool) -> Table {
    let given = run.details.given.iter().filter(|given| is_default(given) == at_default);
    let rows = given.map(|given| [given.key.clone(), value(given), origin(&given.origin)]);
    Table::headed("parameter | value: | set by").with_rows(rows)
}

pub(crate) fn by_default(run: &Run) -> impl Iterator<Item = &GivenParameter> {
    run.details.given.iter().filter(|given| is_default(given))
}

fn is_default(given: &GivenParameter) -> bool {
    given.origin == Origin::Default
}

/// A parameter's value as a person writes it.
pub(crate) fn value(given: &GivenParameter) -> String {
    as_text(&given.value, "unset")
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Flag => "flag".to_owned(),
        Origin::Environment(name) => format!("environment {name}"),
        Origin::File(path, line) => format!("{}:{line}", path.display()),
        Origin::Default => "default".to_owned(),
    }
}
