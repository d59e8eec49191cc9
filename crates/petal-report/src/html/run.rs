//! The page of one run: what one pastes and what to beware of first, then the run over time, the
//! layers, where time went, all tables, and what was tested.

use super::super::numbers::{UNKNOWN, decimal, micros, or_dash, rate, whole};
use super::super::run::{
    Facts, counters, differences, drivers, events, layers, load, os, seconds, server_report, tested,
};
use super::super::sources;
use super::super::table::Table;
use super::page::{Page, Section, SectionPart, ShownFinding, Tile, class, moment};
use super::{HtmlError, bars, calibrated, time};
use petal_judge::server_report::compare;
use petal_model::record::latency_log::Spreads;
use petal_model::record::server_report::SeenReport;
use petal_model::record::{Run, as_text};

/// `spreads` are the latencies of each kind, second by second, as the run's interval log has them.
pub fn run(run: &Run, spreads: &Spreads) -> Result<String, HtmlError> {
    let summary = &run.summary;
    let target = &summary.target;
    let heading = format!("{} {}: {}", target.product, target.version, shape(run));
    let counted = run.counted();
    let over_time = time::figures(run, spreads).into_iter().map(SectionPart::Figure);
    let section = |id, title, layer, parts| Section { id, title, layer, parts };
    let facts = vec![SectionPart::Facts(joined(tested::facts(run)))];
    let mut sections = vec![
        section("findings", "Findings", "", vec![SectionPart::Findings(findings(run))]),
        section("time", "Over time", "one axis for all", over_time.collect()),
        layer_by_layer(&counted),
    ];
    sections.extend(calibrated::of_run(run));
    sections.extend([
        timed_events(&counted),
        own_report(&counted),
        work(run),
        driver_hosts(run),
        host_seen(run),
        section("tested", "What was tested", "as it was before the run", facts),
        settings(run),
        besides(run),
    ]);
    sections.retain(|section| !section.parts.is_empty());
    let page = Page {
        title: format!("petal: {heading}"),
        heading,
        facts: [
            Some(moment(&summary.started_at)),
            Some(format!("{} s", decimal(summary.elapsed_s, 1))),
            Some(format!("headline of the {}", petal_judge::verdict(run).window)),
            Some(target.url.clone()),
            run.details.host.as_ref().map(|host| host.name.clone()),
            Some(format!("repeat {} of {}", run.details.repeat, run.details.repeats)),
        ]
        .into_iter()
        .flatten()
        .collect(),
        status: Some(status(run)),
        tiles: tiles(run),
        line: Some(petal_judge::verdict(run).to_string()),
        sections,
        version: run.details.petal_version.clone(),
    };
    Ok(page.render()?)
}

fn shape(run: &Run) -> String {
    let summary = &run.summary;
    let sessions = format!("{} sessions", whole(u64::from(summary.sessions)));
    let number = |key: &str| summary.setting_number(key).map(|value| format!("{value:.0}"));
    match (number("readers"), number("writers")) {
        (None, None) if summary.has_kind_rates() => format!("{sessions}, a rate for each kind"),
        (None, None) => format!("{sessions}, UPDATE_PCT {}", or_dash(number("update_pct"), |p| p)),
        (readers, writers) => {
            let count = |count: Option<String>| count.unwrap_or_else(|| "0".to_owned());
            format!("{sessions}, {} readers and {} writers", count(readers), count(writers))
        }
    }
}

fn status(run: &Run) -> (&'static str, String) {
    let class = class(run.summary.status, &run.summary.findings);
    let partial = if run.details.rebuilt { ", rebuilt from its journal" } else { "" };
    let until = run.counted_until();
    let until = until.map_or_else(String::new, |until| format!(", database reported {until}"));
    (class, format!("{}{partial}{until}", run.status_words()))
}

fn tiles(run: &Run) -> Vec<Tile> {
    let verdict = petal_judge::verdict(run);
    let read = run.summary.io_latency_us.get("read");
    let timed_by = read.map_or("not timed", |read| &read.source);
    let of = |what: &str| format!("{}'s {what}", run.reported_by());
    let shown = |value: Option<f64>| or_dash(value, rate);
    let logical = verdict
        .logical_reads
        .map(|reads| Tile::figure("Logical reads", rate(reads), "/s", of("cache")));
    let physical = [
        Tile::figure("Physical reads", shown(verdict.read_piops), "/s", of("requests")),
        Tile::figure("Physical writes", shown(verdict.write_piops), "/s", of("requests")),
        Tile::figure("Single-block read", or_dash(verdict.read_us, micros), "us", timed_by),
        Tile::figure("Redo", shown(verdict.redo_mb), "MB/s", of("log")),
        Tile::words("Served by", &verdict.served_by),
        Tile::words("Limited by", &verdict.limited_by),
    ];
    logical.into_iter().chain(physical).collect()
}

fn findings(run: &Run) -> Vec<ShownFinding> {
    let mut shown: Vec<_> = run.summary.findings.iter().collect();
    shown.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    shown.into_iter().map(ShownFinding::of).collect()
}

fn layer_by_layer(run: &Run) -> Section {
    let mut parts = Vec::new();
    parts.extend(bars::layers(run).map(SectionPart::Figure));
    let steps = differences::steps(run);
    if !steps.is_empty() {
        parts.push(SectionPart::Notes(steps));
    }
    push(&mut parts, "Blocks, requests and bytes of each layer", layers::layers(run));
    push(&mut parts, "I/O by kind of file", layers::files(run));
    if run.summary.endpoints.len() > 1 {
        push(&mut parts, "Endpoints", layers::endpoints(run));
    }
    let layer = sources::of(run).layers;
    Section { id: "layers", title: "Layer by layer", layer, parts }
}

/// A folded table, if it has anything.
fn push(parts: &mut Vec<SectionPart>, caption: &str, table: Table) {
    if !table.is_empty() {
        parts.push(SectionPart::Table(table.captioned(caption).folded()));
    }
}

fn timed_events(run: &Run) -> Section {
    let mut parts = vec![SectionPart::Table(events::top_events(run).captioned("Top timed events"))];
    parts.extend(bars::histogram(run).map(SectionPart::Figure));
    let operations = events::operations(run).captioned("Operation latency, us (petal's clock)");
    parts.push(SectionPart::Table(operations));
    let io = events::io(run).captioned("I/O latency, us (the source beside each)");
    parts.push(SectionPart::Table(io));
    let bounded = events::bounded(run);
    if !bounded.is_empty() {
        let caption = "Bounds of percentiles, us (the database's histogram)";
        parts.push(SectionPart::Table(bounded.captioned(caption)));
    }
    let layer = sources::of(run).events;
    Section { id: "waits", title: "Where time went", layer, parts }
}

/// The database's own report of the run, beside petal's snapshots.
fn own_report(run: &Run) -> Section {
    let mut parts = Vec::new();
    let reports = &run.summary.server_reports;
    let named = |report: &SeenReport| (report.file.clone(), server_report::heading(report));
    if !reports.is_empty() {
        parts.push(SectionPart::Facts(reports.iter().map(named).collect()));
    }
    match compare(run) {
        None => {}
        Some(Err(why)) => parts.push(SectionPart::Notes(vec![format!("not compared: {why}")])),
        Some(Ok(comparison)) => {
            parts.push(SectionPart::Table(
                server_report::beside(&comparison).captioned("Both layers"),
            ));
        }
    }
    for report in reports {
        let caption = |what: &str| format!("{what} of {}", report.file);
        push(&mut parts, &caption("Top timed events"), server_report::top_events(report));
        push(&mut parts, &caption("Figures"), server_report::figures(report));
        let remarks = server_report::remarks(report);
        if !remarks.is_empty() {
            parts.push(SectionPart::Notes(remarks));
        }
    }
    let layer = "the database, between its own snapshots";
    Section { id: "server-report", title: "The database's own report", layer, parts }
}

fn work(run: &Run) -> Section {
    let mut parts = Vec::new();
    let counted = run.counted();
    push(&mut parts, "Load profile", load::profile(&counted));
    push(&mut parts, "Ratios, measured and meant", load::ratios(&counted));
    push(&mut parts, "Per-second extremes", seconds::extremes(run));
    push(&mut parts, sources::of(run).counters, counters::counters(&counted));
    let layer = sources::of(run).counts;
    Section { id: "load", title: "The load", layer, parts }
}

/// The hosts that drove the run, where there were several.
fn driver_hosts(run: &Run) -> Section {
    let hosts = drivers::table(run);
    let parts = if hosts.is_empty() { Vec::new() } else { vec![SectionPart::Table(hosts)] };
    Section { id: "drivers", title: "Driver hosts", layer: "petal on each of them", parts }
}

/// The figures of iostat, vmstat and mpstat.
fn host_seen(run: &Run) -> Section {
    let mut parts = Vec::new();
    let own = run.details.os.as_ref().filter(|_| !run.details.target.local);
    for seen in [run.database_host(), own].into_iter().flatten() {
        let sum = &seen.whole.sum;
        let place = os::place(seen);
        push(&mut parts, &format!("Processors, {place}"), os::processors(seen));
        if let Some(devices) = &sum.devices {
            let table = os::device_table(devices, sum.seconds);
            push(&mut parts, &format!("Devices, {place}"), table);
        }
        push(&mut parts, &format!("Memory and tasks, {place}"), os::gauges(seen));
        parts.push(SectionPart::Facts(joined(os::facts(seen))));
    }
    let title = "What the operating system saw";
    Section { id: "os", title, layer: "as iostat, vmstat and mpstat name it", parts }
}

/// A value without a name goes on with the one before.
fn joined(facts: Facts) -> Vec<(String, String)> {
    let mut joined: Vec<(String, String)> = Vec::new();
    for (name, value) in facts {
        match joined.last_mut() {
            Some((_, before)) if name.is_empty() => before.push_str(&format!("; {value}")),
            _ => joined.push((name, value)),
        }
    }
    joined
}

fn settings(run: &Run) -> Section {
    let (set, rest) = (tested::settings(run, false), tested::settings(run, true));
    let mut parts = Vec::new();
    if !set.is_empty() {
        parts.push(SectionPart::Table(set.captioned("Set")));
    }
    push(&mut parts, "By default", rest);
    // A record that tells no origins still tells its settings.
    if run.details.given.is_empty() && !run.summary.settings.is_empty() {
        let all = run.summary.settings.iter();
        parts.push(SectionPart::Facts(
            all.map(|(key, value)| (key.clone(), as_text(value, UNKNOWN))).collect(),
        ));
    }
    if let Some(file) = &run.details.conf_file {
        parts.push(SectionPart::Notes(vec![format!("settings file: {file}")]));
    }
    Section { id: "settings", title: "Settings", layer: "slob.conf, environment, flags", parts }
}

/// Errors, hooks, petal's own cost, what is missing and what was not judged.
fn besides(run: &Run) -> Section {
    let mut facts = joined([seconds::errors(run), seconds::cost(run)].concat());
    for call in &run.details.hooks {
        let code = or_dash(call.exit_code, |code| code.to_string());
        let values: Vec<String> = call
            .values
            .iter()
            .map(|value| format!("{} = {} {}", value.name, rate(value.value), value.unit))
            .collect();
        let printed =
            format!("exit {code} after {} s. {}", decimal(call.seconds, 2), values.join(", "));
        facts.push((format!("script, {}", call.moment), printed));
    }
    let mut parts = vec![SectionPart::Facts(facts)];
    let notes = [seconds::lost(run), run.details.gaps.clone()].concat();
    if !notes.is_empty() {
        parts.push(SectionPart::Notes(notes));
    }
    let mut not_judged = Table::headed("finding | why");
    for judged in petal_judge::not_judged(run) {
        not_judged.row([judged.id, judged.reason.as_str()]);
    }
    push(&mut parts, "Not judged here, and why", not_judged);
    parts.push(SectionPart::Notes(READING.map(str::to_owned).into()));
    Section { id: "besides", title: "Errors, scripts, how to read this", layer: "", parts }
}

pub(super) const READING: [&str; 4] = [
    "A dash is unknown: the engine or this host does not tell it. It is never a zero.",
    "us are microseconds. MB are millions of bytes; KiB, MiB, GiB are powers of 1024.",
    "Operation latency is petal's clock and covers a whole operation. I/O latency is that of one \
     read, write or sync as the source beside it timed it. The two are never mixed.",
    "docs/numbers.md of petal tells of every figure how it is computed.",
];
