//! The page of one run: the line to paste and warnings first, then the run over time, the layers,
//! the time spent, all tables, and the tested system.

use super::super::numbers::{UNKNOWN, counted, decimal, micros, or_dash, rate};
use super::super::run::{
    Facts, counters, differences, drivers, elasticity, events, interference, layers, load, os,
    outages, resources, seconds, server_report, tested, waterfall, write_ledger,
};
use super::super::sources;
use super::super::table::Table;
use super::page::{Page, Section, ShownFinding, Tile, graves, moment, status_after};
use super::{HtmlError, bars, calibrated, time};
use petal_judge::server_report::compare;
use petal_record::conclusions::limit_clause;
use petal_record::headline::{AskedFor, Headline, ReadClock, Validity, Verdict};
use petal_record::latency_log::Spreads;
use petal_record::server_report::SeenReport;
use petal_record::{Run, as_text};

/// `spreads` are the latencies of each kind, second by second, as the run's interval log has them.
pub fn run(run: &Run, spreads: &Spreads) -> Result<String, HtmlError> {
    let summary = &run.summary;
    let target = &summary.target;
    let heading = format!("{} {}: {}", target.product, target.version, shape(run));
    let (counted, own) = (run.counted(), run.without_experiments());
    let headline = petal_judge::headline(run);
    let over_time = time::figures(run, spreads);
    let mut sections = vec![Section::new("findings", "Findings", "").findings(findings(run))];
    sections.extend(of_neighbours(run));
    sections.extend([
        layer_by_layer(&counted),
        Section::new("time", "Over time", "one axis for all").charts(over_time),
    ]);
    sections.extend(calibrated::of_run(run));
    sections.extend(of_outages(run));
    sections.extend([
        Section::new("resources", "Use of resources", "in the headline's window")
            .table("", resources::table(run)),
        Section::new(
            "elasticity",
            "Elasticity by experiment",
            "change of throughput over the change of a resource",
        )
        .notes(elasticity::notes(run))
        .table("", elasticity::table(run)),
        ledger(run),
        divided(run),
        timed_events(&counted),
        own_report(&counted),
        work(&own),
        Section::new("drivers", "Driver hosts", "petal on each of them")
            .table("", drivers::table(run)),
        host_seen(&own),
        Section::new("tested", "Settings and target", "as it was before the run")
            .facts(joined(tested::facts(run))),
        settings(run),
        remarks(run),
    ]);
    let page = Page {
        title: format!("petal: {heading}"),
        heading,
        answer: interference::lines(run).join(". "),
        facts: [
            Some(moment(&summary.started_at)),
            Some(format!("{} s", decimal(summary.elapsed_s, 1))),
            Some(format!("headline of the {}", headline.window.words)),
            Some(target.url.clone()),
            run.details.host.as_ref().map(|host| host.name.clone()),
            Some(format!("repeat {} of {}", run.details.repeat, run.details.repeats)),
        ]
        .into_iter()
        .flatten()
        .collect(),
        status: status(run, &headline.verdict)
            .into_iter()
            .chain(graves(&run.summary.findings))
            .collect(),
        tiles: tiles(run, &headline),
        line: Some(headline.to_string()),
        verdict: sentence(&headline),
        next: headline.next.clone(),
        sections,
        version: run.details.petal_version.clone(),
        ..Page::default()
    };
    page.render()
}

fn ledger(run: &Run) -> Section {
    let section = Section::new("ledger", "Write ledger", "until all was on the device");
    match &run.summary.write_ledger {
        Some(ledger) => {
            section.table("", write_ledger::table(ledger)).notes(write_ledger::notes(ledger))
        }
        None => section,
    }
}

/// The price of neighbours; None of a run without them.
fn of_neighbours(run: &Run) -> Option<Section> {
    run.summary.interference.as_ref()?;
    let section = Section::new("interference", "Price of neighbours", "slots of the run, 95 %")
        .charts(interference::chart(run))
        .notes(interference::lines(run).into_iter().chain(interference::notes(run)));
    Some(section.table("", interference::table(run)))
}

/// Outages, each with its facts; None if no connection was lost.
fn of_outages(run: &Run) -> Option<Section> {
    let outages = outages::facts(run);
    if outages.is_empty() {
        return None;
    }
    let section = Section::new("outages", "Outages", "petal's clock; the ledger's rows")
        .charts(outages::chart(run))
        .notes(outages::verified(run));
    Some(outages.into_iter().fold(section, |section, (title, facts)| {
        let heading = "figure | value";
        section.table(
            &title,
            Table::headed(heading).with_rows(facts.into_iter().map(|(name, value)| [name, value])),
        )
    }))
}

fn shape(run: &Run) -> String {
    let summary = &run.summary;
    let sessions = counted(summary.sessions, "session");
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

/// The verdict with its reason, and the limit, in sentences.
fn sentence(headline: &Headline) -> String {
    let mut words = headline.verdict.sentence();
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    format!("{words}; {}.", limit_clause(&headline.limited_by.words))
}

/// The status. Only a valid run is shown as good.
fn status(run: &Run, verdict: &Verdict) -> Vec<(&'static str, String)> {
    let partial = if run.details.rebuilt { ", rebuilt from its seconds" } else { "" };
    let until = run.counted_until();
    let until = until.map_or_else(String::new, |until| format!(", database reported {until}"));
    let words = format!("{}{partial}{until}", run.status_words());
    status_after([verdict.clone()], run.summary.status, words)
}

/// The figures of the headline; the requested kind of test decides which come first.
fn tiles(run: &Run, headline: &Headline) -> Vec<Tile> {
    let Headline { verdict, figures, struck_out, .. } = headline;
    let log = match verdict.validity {
        Validity::Invalid => struck_out.as_ref().unwrap_or(figures).redo,
        _ => figures.redo,
    };
    let shown_figures = struck_out.as_ref().unwrap_or(figures);
    let own = run.summary.io_latency_us.get("read").map(|read| read.source.as_str());
    let stand_in = shown_figures.read_us_stand_in.map(ReadClock::words);
    let timed_by = stand_in.or(own).unwrap_or("not timed").to_owned();
    let parts = shown_figures.read_parts.map(|parts| parts.words());
    let of = |what: &str| format!("{}'s {what}", run.reported_by());
    let shown = |value: Option<f64>| or_dash(value, rate);
    let is_struck = struck_out.is_some();
    let struck = |tile: Tile| Tile { is_struck, ..tile };
    let logical = shown_figures.logical_reads.iter().flat_map(|reads| {
        let figure = |label, value| Tile::figure(label, value, "/s", of("cache"));
        let per_core = reads.per_core_s.map(|each| figure("Logical reads per core", rate(each)));
        std::iter::once(figure("Logical reads", rate(reads.per_s))).chain(per_core).map(struck)
    });
    let piops = shown_figures.piops;
    let physical = [
        Tile::figure("Physical reads", shown(piops.reads), "/s", of("requests")),
        Tile::figure("Physical writes", shown(piops.writes), "/s", of("requests")),
        Tile::figure(
            "Single-block read",
            or_dash(shown_figures.read_us, micros),
            "us",
            parts.unwrap_or(timed_by),
        ),
    ];
    let is_redo = verdict.asked_for == AskedFor::Redo;
    let commits = is_redo.then(|| Tile::figure("Commits", shown(log.commits_s), "/s", "petal"));
    let redo =
        [Tile::figure("Redo", shown(log.mb_s), "MB/s", of("log"))].into_iter().chain(commits);
    let is_log_struck = verdict.validity == Validity::Invalid;
    let redo = redo.map(|tile| Tile { is_struck: is_log_struck, ..tile }).collect::<Vec<_>>();
    let (first, last) = if is_redo { (redo, Vec::new()) } else { (Vec::new(), redo) };
    first.into_iter().chain(logical).chain(physical.map(struck)).chain(last).collect()
}

fn findings(run: &Run) -> Vec<ShownFinding> {
    let mut shown: Vec<_> = run.summary.findings.iter().collect();
    shown.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    shown.into_iter().map(ShownFinding::of).collect()
}

fn layer_by_layer(run: &Run) -> Section {
    let section = Section::new("layers", "Layer by layer", sources::of(run).layers)
        .charts(bars::layers(run))
        .notes(differences::steps(run))
        .folded("Blocks, requests and bytes of each layer", layers::layers(run))
        .folded("I/O by kind of file", layers::files(run));
    match run.summary.endpoints.len() {
        0 | 1 => section,
        _ => section.folded("Endpoints", layers::endpoints(run)),
    }
}

fn timed_events(run: &Run) -> Section {
    Section::new("waits", "Where time went", sources::of(run).events)
        .table("Top timed events", events::top_events(run))
        .charts(bars::histogram(run))
        .table("Operation latency, us (petal's clock)", events::operations(run))
        .table("I/O latency, us (with their sources)", events::io(run))
        .table("Bounds of percentiles, us (the database's histogram)", events::bounded(run))
}

/// The time of a mean operation; empty if nobody asked for it.
fn divided(run: &Run) -> Section {
    let layer = "in the headline's window";
    let section = Section::new("waterfall-table", "Waterfall of an operation", layer);
    match &run.summary.waterfall {
        None => section,
        Some(waterfall) => match &waterfall.why_unknown {
            Some(why) => section.notes([format!("waterfall: - ({why})")]),
            None => match bars::waterfall(waterfall) {
                Some(chart) => section.charts([chart]),
                None => section.table("", waterfall::table(waterfall)),
            },
        },
    }
}

/// Compares the database's own report of the run with petal's snapshots.
fn own_report(run: &Run) -> Section {
    let layer = "the database, between its own snapshots";
    let reports = &run.summary.server_reports;
    let named = |report: &SeenReport| (report.file.clone(), server_report::heading(report));
    let mut section = Section::new("server-report", "The database's own report", layer)
        .facts(reports.iter().map(named).collect());
    section = match compare(run) {
        None => section,
        Some(Err(why)) => section.notes([format!("not compared: {why}")]),
        Some(Ok(comparison)) => section.table("Both layers", server_report::compared(&comparison)),
    };
    reports.iter().fold(section, |section, report| {
        let caption = |what: &str| format!("{what} of {}", report.file);
        section
            .folded(caption("Top timed events"), server_report::top_events(report))
            .folded(caption("Figures"), server_report::figures(report))
            .notes(server_report::remarks(report))
    })
}

fn work(run: &Run) -> Section {
    let counted = run.counted();
    Section::new("load", "The load", sources::of(run).counts)
        .folded("Load profile", load::profile(&counted))
        .folded("Ratios, measured and meant", load::ratios(&counted))
        .folded("Per-second extremes", seconds::extremes(run))
        .folded(sources::of(run).counters, counters::counters(&counted))
}

/// The figures of iostat, vmstat and mpstat.
fn host_seen(run: &Run) -> Section {
    let layer = "as iostat, vmstat and mpstat name it";
    let section = Section::new("os", "Operating system", layer);
    let own = run.details.os.as_ref().filter(|_| !run.details.target.local);
    [run.database_host(), own].into_iter().flatten().fold(section, |section, seen| {
        let (sum, place) = (&seen.whole.sum, os::place(seen));
        let devices = sum.devices.as_ref().map(|devices| os::device_table(devices, sum.seconds));
        let requests = sum.requests.as_ref().map(os::request_table);
        let requests_unseen = seen.requests_unseen.as_ref();
        let calls_unseen = seen.calls_unseen.as_ref();
        let calls = sum.calls.as_ref().map(|_| os::call_table(run));
        section
            .notes(requests_unseen.map(|why| format!("request times: - (not timed: {why})")))
            .notes(calls_unseen.map(|why| format!("server's calls: - (not timed: {why})")))
            .folded(format!("Processors, {place}"), os::processors(seen))
            .folded(format!("Devices, {place}"), devices.unwrap_or_default())
            .folded(format!("Request times, {place}"), requests.unwrap_or_default())
            .folded(format!("Server's calls, {place}"), calls.unwrap_or_default())
            .folded(format!("Memory and tasks, {place}"), os::gauges(seen))
            .facts(joined(os::facts(seen)))
    })
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
    let section = Section::new("settings", "Settings", "slob.conf, environment, flags")
        .table("Set", tested::settings(run, false))
        .folded("By default", tested::settings(run, true));
    // A record without origins still has its settings.
    let all = run.summary.settings.iter().filter(|_| run.details.given.is_empty());
    section
        .facts(all.map(|(key, value)| (key.clone(), as_text(value, UNKNOWN))).collect())
        .notes(run.details.conf_file.as_ref().map(|file| format!("settings file: {file}")))
}

/// Lists errors, hooks, petal's own cost, missing facts and rules that were not judged.
fn remarks(run: &Run) -> Section {
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
    let judged = petal_judge::not_judged(run);
    let judged = judged.iter().map(|judged| [judged.id, judged.reason.as_str()]);
    Section::new("besides", "Errors, scripts, how to read this", "")
        .facts(facts)
        .notes([seconds::lost(run), run.details.gaps.clone()].concat())
        .folded("Not judged here, and why", Table::headed("finding | why").with_rows(judged))
        .notes(READING)
}

pub(super) const READING: [&str; 4] = [
    "A dash is unknown: the engine or this host does not report it. It is never a zero.",
    "us are microseconds. MB are millions of bytes; KiB, MiB, GiB are powers of 1024.",
    "Operation latency is petal's clock and covers a whole operation. I/O latency is that of one \
     read, write or sync by the named source. The two are never mixed.",
    "docs/numbers.md of petal has the formula of every figure.",
];
