//! The sections of the text report, in their order: the tables and facts of
//! [`run`](super::super::run), one below the other.

use super::super::numbers::{decimal, or_dash, percent, rate, whole};
use super::super::run::{
    Facts, calibrated, counters, differences, drivers, elasticity, events, interference, layers,
    load, os, outages, resources, seconds, server_report, tested, waterfall, write_ledger,
};
use super::super::sources;
use super::super::table::{Align, Table, columns, line, paragraph};
use super::{bullets, fact, section};
use petal_host::histogram::Bar;
use petal_judge::server_report::compare;
use petal_record::os::HostSeen;
use petal_record::{HeadlineWindow, Run, Window};

/// Returns a section's title, with its time if that is not the whole run.
fn titled(title: &str, run: &Run) -> String {
    run.counted_until().map_or(title.to_owned(), |until| format!("{title} {until}"))
}

fn facts(out: &mut String, facts: &Facts) {
    facts.iter().for_each(|(name, value)| fact(out, name, value));
}

pub(super) fn target(out: &mut String, run: &Run) {
    section(out, "target and host", "as they were before the run");
    facts(out, &tested::facts(run));
    section(out, "settings", "slob.conf, environment, flags");
    let set = tested::settings(run, false);
    if !set.is_empty() {
        out.push_str(&set.render());
    }
    let rest: Vec<String> = tested::by_default(run)
        .map(|given| format!("{}={}", given.key, tested::value(given)))
        .collect();
    if !rest.is_empty() {
        out.push_str(&paragraph("by default: ", "  ", &rest.join(", ")));
    }
    if let Some(file) = &run.details.conf_file {
        out.push_str(&paragraph("settings file: ", "  ", file));
    }
}

/// Writes the intended and the actual load of a replay.
pub(super) fn replay(out: &mut String, run: &Run) {
    if let Some(text) = super::super::replay::replayed_load(run) {
        section(out, "replay", "production's profile; this run's own counters");
        out.push_str(&text);
    }
}

/// Writes the load, the time spent and the layers, all of the time that the database counted.
pub(super) fn work(out: &mut String, run: &Run) {
    let sources = sources::of(run);
    section(out, &titled("load profile", run), sources.counts);
    out.push_str(&format!("{}\n{}", load::profile(run).render(), load::ratios(run).render()));
    section(out, &titled("top timed events", run), sources.events);
    out.push_str(&events::top_events(run).render());
    section(out, "operation latency, us", "petal's clock");
    out.push_str(&events::operations(run).render());
    section(out, "I/O latency, us", "with their sources");
    out.push_str(&events::io(run).render());
    let bounded = events::bounded(run);
    if !bounded.is_empty() {
        section(out, "bounds of percentiles, us", "the database's histogram");
        out.push_str(&bounded.render());
    }
    section(out, "latency histograms", sources.histograms);
    histograms(out, run);
    section(out, &titled("layer by layer", run), sources.layers);
    out.push_str(&layers::layers(run).render());
    bullets(out, differences::steps(run));
    if let Some(ledger) = &run.summary.write_ledger {
        section(out, "write ledger", "until all was on the device");
        out.push_str(&write_ledger::table(ledger).render());
        bullets(out, write_ledger::notes(ledger));
    }
    let files = layers::files(run);
    if !files.is_empty() {
        section(out, "I/O by kind of file", sources.events);
        out.push_str(&files.render());
    }
    if run.summary.endpoints.len() > 1 {
        section(out, "endpoints", "the database");
        out.push_str(&layers::endpoints(run).render());
    }
}

fn histograms(out: &mut String, run: &Run) {
    let operations = run.details.histograms.iter();
    let waits = run.details.wait_histograms.iter().map(|(name, wait)| (name, &wait.bars));
    let all: String = operations.chain(waits).map(|(name, bars)| histogram(name, bars)).collect();
    out.push_str(if all.is_empty() { "-\n" } else { &all });
}

fn histogram(name: &str, bars: &[Bar]) -> String {
    let total: u64 = bars.iter().map(|bar| bar.count).sum();
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
    let longest = columns() / 2;
    let mut table = Table::new(&[
        (name, Align::Left),
        ("up to us", Align::Right),
        ("count", Align::Right),
        ("%", Align::Right),
        ("", Align::Left),
    ]);
    for bar in bars {
        let length = (bar.count as f64 / most as f64 * longest as f64).round() as usize;
        // A bar with any count is drawn, however small.
        let length = length.max(usize::from(bar.count > 0));
        let share = if total > 0 { bar.count as f64 / total as f64 } else { 0.0 };
        let bar_of = "#".repeat(length);
        table.row([String::new(), whole(bar.upper_us), whole(bar.count), percent(share), bar_of]);
    }
    table.render()
}

pub(super) fn own_report(out: &mut String, run: &Run) {
    if run.summary.server_reports.is_empty() {
        return;
    }
    section(out, "the database's own report", "the database, between its own snapshots");
    for report in &run.summary.server_reports {
        let heading = server_report::heading(report);
        out.push_str(&paragraph(&format!("{}: ", report.file), "  ", &heading));
    }
    match compare(run) {
        None => {}
        Some(Err(why)) => out.push_str(&paragraph("not compared: ", "  ", &why)),
        Some(Ok(comparison)) => {
            out.push_str(&format!("\n{}", server_report::compared(&comparison).render()));
        }
    }
    for report in run.summary.server_reports.iter().filter(|report| report.unread.is_none()) {
        let figures = ("figures", server_report::figures(report));
        for (title, table) in [figures, ("top timed events", server_report::top_events(report))] {
            if !table.is_empty() {
                let title = line(&format!("{title} of {}", report.file));
                out.push_str(&format!("\n{title}{}", table.render()));
            }
        }
        bullets(out, server_report::remarks(report));
    }
}

pub(super) fn drivers(out: &mut String, run: &Run) {
    if !run.summary.hosts.is_empty() {
        section(out, "driver hosts", "petal on each of them");
        out.push_str(&drivers::table(run).render());
    }
}

pub(super) fn hosts(out: &mut String, run: &Run) {
    let own = run.details.os.as_ref().filter(|_| !run.details.target.local);
    let hosts =
        [("operating system", run.database_host()), ("operating system of petal's host", own)];
    for (title, seen) in hosts {
        if let Some(seen) = seen {
            section(out, title, &os::place(seen));
            host(out, run, seen);
        }
    }
    if hosts.iter().all(|(_, seen)| seen.is_none()) {
        section(out, "operating system", "the operating system");
        bullets(out, ["(not watched: NO_OS_PERF_DATA, or a record without it)"]);
    }
}

fn host(out: &mut String, run: &Run, seen: &HostSeen) {
    out.push_str(&os::processors(seen).render());
    if let Some(devices) = &seen.whole.sum.devices {
        let table = os::device_table(devices, seen.whole.sum.seconds);
        out.push_str(&format!("\n{}", table.render()));
        let below: Vec<&str> =
            devices.iter().filter(|device| !device.data).map(|d| d.name.as_str()).collect();
        if !below.is_empty() {
            let lie = if below.len() == 1 { "lies" } else { "lie" };
            let names = below.join(", ");
            let text =
                format!("{names} {lie} below the data's devices: not added up in other sections");
            out.push_str(&paragraph("", "", &text));
        }
    }
    match (&seen.whole.sum.requests, &seen.requests_unseen) {
        (Some(requests), _) => {
            out.push_str(&format!("\n{}", os::request_table(requests).render()));
        }
        (None, Some(why)) => {
            out.push_str(&paragraph("", "  ", &format!("request times: - (not timed: {why})")));
        }
        (None, None) => {}
    }
    match (&seen.whole.sum.calls, &seen.calls_unseen) {
        (Some(_), _) => out.push_str(&format!("\n{}", os::call_table(run).render())),
        (None, Some(why)) => {
            out.push_str(&paragraph("", "  ", &format!("server's calls: - (not timed: {why})")));
        }
        (None, None) => {}
    }
    out.push_str(&format!("\n{}\n", os::gauges(seen).render()));
    facts(out, &os::facts(seen));
}

pub(super) fn with_device(out: &mut String, run: &Run) {
    let Some(share) = &run.details.calibrated else { return };
    section(out, "compared with the calibrated device", "the device");
    out.push_str(&paragraph("", "", &calibrated::line(share)));
    out.push_str(&calibrated::table(share).render());
    for note in calibrated::notes(share) {
        out.push_str(&paragraph("", "  ", &note));
    }
}

pub(super) fn over_time(out: &mut String, run: &Run) {
    let sources = sources::of(run);
    section(out, "per-second extremes", sources.seconds);
    out.push_str(&seconds::extremes(run).render());
    section(out, "counted window", sources.window);
    counted_window(out, run);
    section(out, "errors and lost sessions", "petal");
    facts(out, &seconds::errors(run));
    for lost in seconds::lost(run) {
        out.push_str(&paragraph("  ", "    ", &lost));
    }
    if run.summary.interference.is_some() {
        section(out, "price of neighbours", "slots of the run, 95 %");
        for line in interference::lines(run) {
            out.push_str(&paragraph("", "  ", &line));
        }
        let table = interference::table(run);
        if !table.is_empty() {
            out.push_str(&format!("\n{}\n", table.render()));
        }
        bullets(out, interference::notes(run));
    }
    for (title, of_outage) in outages::facts(run) {
        section(out, &title, "petal");
        facts(out, &of_outage);
    }
    if let Some(answer) = outages::verified(run) {
        section(out, "ledger", "rows read after the run");
        out.push_str(&paragraph("", "  ", &answer));
    }
    if !run.summary.resources.is_empty() {
        section(out, "resources", "the headline's window");
        out.push_str(&resources::table(run).render());
    }
    if let Some(divided) = &run.summary.waterfall {
        section(out, "waterfall of an operation", "the headline's window");
        match &divided.why_unknown {
            Some(why) => out.push_str(&paragraph("", "  ", &format!("waterfall: - ({why})"))),
            None => {
                if divided.adds_up() {
                    out.push_str(&waterfall::bar_text(divided));
                }
                out.push_str(&waterfall::table(divided).render());
            }
        }
    }
    if run.details.experiments.is_some() {
        section(out, "elasticity", "change of throughput over the change of a resource, 95 %");
        out.push_str(&elasticity::table(run).render());
        bullets(out, elasticity::notes(run));
    }
    section(out, "processors and petal's own cost", "the operating system");
    facts(out, &seconds::cost(run));
    if !run.details.hooks.is_empty() {
        section(out, "external script", "its output");
        hooks(out, run);
    }
}

/// The one counted window of a run: the time of its headline.
fn counted_window(out: &mut String, run: &Run) {
    let HeadlineWindow { run: shown, window } = run.headline_window();
    let text = match &window {
        Window::Steady { from_s, to_s } => format!(
            "from {} s to {} s: all surviving sessions running, warm-up excluded; the headline is of it",
            decimal(*from_s, 1),
            decimal(*to_s, 1)
        ),
        Window::Until(until) => {
            format!("{until}: the database's counters end there; the headline is of this time")
        }
        Window::Whole { .. } => format!("none; the headline is of the {window}"),
    };
    out.push_str(&paragraph("", "  ", &text));
    if !matches!(window, Window::Whole { .. }) {
        out.push_str(&seconds::window_rates(run, &shown.summary).render());
    }
}

fn hooks(out: &mut String, run: &Run) {
    for call in &run.details.hooks {
        let code = or_dash(call.exit_code, |code| code.to_string());
        let text =
            format!("exit {code} after {} s, output in {}", decimal(call.seconds, 2), call.output);
        fact(out, &call.moment, &text);
        for value in &call.values {
            fact(out, "", &format!("{} = {} {}", value.name, rate(value.value), value.unit));
        }
    }
}

pub(super) fn own_counters(out: &mut String, run: &Run) {
    if run.summary.counters.is_empty() {
        return;
    }
    section(out, sources::of(run).counters, run.reported_by());
    out.push_str(&counters::counters(run).render());
    let zero: Vec<&str> =
        run.summary.counters.iter().filter(|&(_, &n)| n == 0).map(|(n, _)| n.as_str()).collect();
    if !zero.is_empty() {
        let names = format!("counted and zero: {}", zero.join(", "));
        out.push_str(&paragraph("", "  ", &names));
    }
}
