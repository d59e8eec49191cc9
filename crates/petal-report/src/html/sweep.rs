//! The page of a sweep: the petals first, the results of each line, then every cell with a link to
//! its own report; and the page of petals from elsewhere, which has no runs to link to.

use super::super::charts::Chart;
use super::super::distinct;
use super::super::numbers::{UNKNOWN, counted, decimal, micros, or_dash, rate};
use super::super::petals as drawn;
use super::super::run::waterfall;
use super::super::sweep::{
    answer, design, findings::grouped, highest, load_unit, not_in_means, peak_run, targets,
};
use super::super::table::{Align, Cell, Table};
use super::page::{Page, Section, ShownFinding, Tile, graves, link, moment, status_after};
use super::run::READING;
use super::{HtmlError, NAME, calibrated};
use petal_judge::petals::{PetalLine, Petals, Point};
use petal_judge::{by_key, not_storage};
use petal_record::headline::AskedFor;
use petal_record::observation::{Observation, metric};
use petal_record::sweep::{PEAK_RUN, Swept};
use petal_record::{Run, Status, as_text};

pub fn sweep(swept: &Swept, petals: &Petals) -> Result<String, HtmlError> {
    let sweep = &swept.sweep;
    let axes = sweep.plan.axes.iter();
    let axes = axes.map(|axis| format!("{} {}", axis.key, axis.values.join(", ")));
    let axes: Vec<String> = axes.collect();
    let product = match targets(swept, |target| format!("{} {}", target.product, target.version)) {
        products if products.is_empty() => sweep.engine.clone(),
        products => products.join(", "),
    };
    let mut sections = petal_sections(petals, Some(findings(swept)));
    if let Some(run) = &swept.peak_run {
        sections.insert(1, limit(run));
    }
    let found = design::found(swept);
    if !found.is_empty() {
        sections.insert(1, Section::new("found", "Peak and knee", "").notes(found));
    }
    sections.extend(calibrated::of_sweep(swept));
    sections.push(cells(&swept.observations(), Some(swept)));
    sections.push(settings(swept));
    let found = graves(swept.runs.iter().flat_map(|run| &run.summary.findings));
    let verdicts = swept.runs.iter().map(|run| petal_judge::headline(run).verdict);
    let status = status_after(verdicts, sweep.status, swept.status_words().to_owned());
    let page = Page {
        title: format!("petal sweep: {product}"),
        heading: format!("{product}: a sweep over {}", axes.join("; ")),
        answer: answer(swept, petals).unwrap_or_default(),
        next: petals.next.clone(),
        facts: vec![
            moment(&sweep.started_at),
            targets(swept, |target| target.url.clone()).join(", "),
            design::runs_done(swept),
            design::repeats(&sweep.plan),
        ],
        status: status.into_iter().chain(found).collect(),
        tiles: with_limit(swept.peak_run.as_ref(), tiles(petals)),
        sections,
        version: sweep.petal_version.clone(),
        ..Page::default()
    };
    page.render()
}

/// The page of petals that petal did not measure itself: AWR reports, published tables.
pub fn petals(
    title: &str,
    petals: &Petals,
    observations: &[Observation],
) -> Result<String, HtmlError> {
    of_observations(title, tiles(petals), petal_sections(petals, None), observations)
}

/// The page of reports of which no number of sessions is known.
pub fn reports(
    title: &str,
    figure: Chart,
    observations: &[Observation],
) -> Result<String, HtmlError> {
    let section = Section::new("petals", "Latency by physical I/O", "").charts([figure]);
    of_observations(title, Vec::new(), vec![section], observations)
}

fn of_observations(
    title: &str,
    tiles: Vec<Tile>,
    mut sections: Vec<Section>,
    observations: &[Observation],
) -> Result<String, HtmlError> {
    sections.push(cells(observations, None));
    let page = Page {
        title: format!("petal: {title}"),
        heading: title.to_owned(),
        answer: highest(&Petals::of(observations)).unwrap_or_default(),
        facts: vec![counted(observations.len() as u64, "observation")],
        tiles,
        sections,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Page::default()
    };
    page.render()
}

/// The limit of the last run, with its experiment below.
fn limit_tile(run: &Run) -> Tile {
    let words = peak_run::limited_by(run);
    let (limit, proof) = words.split_once("; ").unwrap_or((words.as_str(), ""));
    let proof = if proof.is_empty() { String::new() } else { format!("{proof}; ") };
    Tile {
        layer: format!("{proof}{}.", peak_run::made(run)),
        more: link(&format!("{PEAK_RUN}/{NAME}")),
        ..Tile::words("Limited by", limit)
    }
}

/// Experiments of the last run, and where its time goes.
fn limit(run: &Run) -> Section {
    let (table, notes) = peak_run::experiments(run);
    let section = Section::new("limit", "What limits it", "the last run, at the peak");
    let section = section.table("Elasticity by experiment", table).notes(notes);
    let time = peak_run::time_goes_to(run).map(|parts| format!("Time goes to: {parts}."));
    let parts = run.summary.waterfall.as_ref().filter(|all| all.why_unknown.is_none());
    section
        .notes(time)
        .table("Waterfall of an operation", parts.map(waterfall::table).unwrap_or_default())
}

/// The tiles with the limit of the last run, if there is one, in place of the counted limit.
fn with_limit(peak_run: Option<&Run>, mut tiles: Vec<Tile>) -> Vec<Tile> {
    if let Some(run) = peak_run {
        tiles.retain(|tile| tile.label != LIMITED_AT_PEAK);
        tiles.insert(0, limit_tile(run));
    }
    tiles
}

const LIMITED_AT_PEAK: &str = "Limited by, at the peak";

fn tiles(petals: &Petals) -> Vec<Tile> {
    let Some((line, point)) = petals.highest_peak() else { return Vec::new() };
    if line.asked_for != AskedFor::PhysicalIo {
        return tiles_of_load(line, point);
    }
    let figure = |name: &str, show: fn(f64) -> String| or_dash(point.figure(name), show);
    let half = point.piops.as_ref().and_then(|seen| seen.half_width);
    let interval = or_dash(half, |half| format!("\u{b1} {} (95 % interval)", rate(half)));
    let served_by = or_dash(point.served_by.as_ref(), Clone::clone);
    let mut after = drawn::after_peak(line);
    if let Some(bend) = &line.bend_back {
        after.push_str(&format!("; cause: {}", bend.cause));
    }
    let limited_by = line.peak.and_then(|at| line.limited_by(at));
    let piops = figure(metric::PIOPS, rate);
    let (read_us, mb_s) = (figure(metric::READ_US, micros), figure(metric::MB, rate));
    vec![
        Tile::figure("Most physical I/O, at the peak", piops, "PIOPS", interval),
        Tile::figure("Single-block read at the peak", read_us, "us", "the engine's timing"),
        Tile::figure("Throughput at the peak", mb_s, "MB/s", "the engine's reads and writes"),
        Tile::figure("Sessions at the peak", point.sessions.to_string(), "", line.name.clone()),
        Tile::words(LIMITED_AT_PEAK, &or_dash(limited_by, str::to_owned)),
        Tile::words("Reads at the peak served by", &served_by),
        Tile::words("PIOPS after the peak", &after),
    ]
}

/// The peak of a test of logical reads or of redo.
fn tiles_of_load(line: &PetalLine, point: &Point) -> Vec<Tile> {
    let load = or_dash(point.load(line.asked_for), |seen| rate(seen.mean));
    let limited_by = line.peak.and_then(|at| line.limited_by(at));
    vec![
        Tile::figure("Most, at the peak", load, load_unit(line), ""),
        Tile::figure("Sessions at the peak", point.sessions.to_string(), "", line.name.clone()),
        Tile::words(LIMITED_AT_PEAK, &or_dash(limited_by, str::to_owned)),
    ]
}

/// Builds the sections of petals, warnings, results of each line, and the same over other axes.
fn petal_sections(petals: &Petals, findings: Option<Vec<ShownFinding>>) -> Vec<Section> {
    let (of_piops, others): (Vec<_>, Vec<_>) = drawn::ALL
        .into_iter()
        .filter(|chart| drawn::can_draw(petals, chart))
        .partition(|chart| chart.name == drawn::PIOPS.name);
    let figures = |charts: Vec<_>| charts.into_iter().map(|chart| drawn::figure(petals, chart));
    let mut found =
        Section::new("findings", "Findings", "all runs together, then those that have each");
    found = match petals.notes.len() {
        0..=NOTES_OPEN_MAX => found.notes(petals.notes.clone()),
        _ => found.folded(notes_caption(&petals.notes), notes_table(&petals.notes)),
    };
    if let Some(findings) = findings {
        found = found.findings(findings);
    }
    let title = "SELECT latency alone and with writers";
    let costs = Section::new("writers", title, "petal's clock, us");
    let lines = petals.lines.iter().map(drawn::summary);
    vec![
        Section::new("petals", "Petals", "").charts(figures(of_piops)),
        petals
            .writer_costs
            .iter()
            .map(drawn::writer_cost)
            .fold(costs, |costs, table| costs.table(table.caption.clone(), table)),
        found,
        Section::new("lines", "Result of each line", "the engine's counts and timing").table(
            "Peak, knee, the change after the peak and its cause, for each line",
            Table::headed(drawn::SUMMARY).with_rows(lines),
        ),
        Section::new("further", "By throughput, by operations", "").charts(figures(others)),
    ]
}

/// Largest number of open notes; more are folded.
const NOTES_OPEN_MAX: usize = 4;

/// Counts the notes, and each kind of them.
fn notes_caption(notes: &[String]) -> String {
    let kind = |note: &String| note.split_once(": ").map_or("other", |(id, _)| id).to_owned();
    let kinds = by_key(notes.iter().map(|note| (kind(note), note)));
    let counts: Vec<String> =
        kinds.iter().map(|(kind, notes)| format!("{kind} {}", notes.len())).collect();
    let findings = counted(notes.len() as u64, "finding");
    format!("{findings} to read before comparing: {}", counts.join(", "))
}

fn notes_table(notes: &[String]) -> Table {
    Table::headed("finding").with_rows(notes.iter().map(|note| [note.as_str()]))
}

type Show = fn(f64) -> String;

/// Name, metric and format of each column; columns without a known figure are left out.
const METRICS: [(&str, &str, Show); 13] = [
    ("reads/s", metric::READS, rate),
    ("writes/s", metric::WRITES, rate),
    ("MB/s", metric::MB, rate),
    ("read us", metric::READ_US, micros),
    ("redo MB/s", metric::REDO_MB, rate),
    ("operations/s", metric::OPS, rate),
    ("select p50 us", "select_p50_us", micros),
    ("select p99 us", "select_p99_us", micros),
    ("update p50 us", "update_p50_us", micros),
    ("update p99 us", "update_p99_us", micros),
    ("log write us", metric::LOG_US, micros),
    ("logical reads/s", metric::LOGICAL_READS, rate),
    ("CPU idle %", metric::CPU_IDLE, |value| decimal(value, 1)),
];

fn cells(observations: &[Observation], swept: Option<&Swept>) -> Section {
    let all = observations.iter().flat_map(|seen| &seen.factors);
    let factors = distinct(all.map(|(key, _)| key.as_str()));
    let known = |name: &str| observations.iter().any(|seen| seen.metric(name).is_some());
    let metrics: Vec<_> = METRICS.into_iter().filter(|(_, name, _)| known(name)).collect();
    let side = |key: &str| if key == "db" { Align::Left } else { Align::Right };
    let mut columns: Vec<(&str, Align)> = factors.iter().map(|&key| (key, side(key))).collect();
    columns.push(("repeat", Align::Right));
    columns.extend(metrics.iter().map(|(name, ..)| (*name, Align::Right)));
    columns.push((if swept.is_some() { "report" } else { "source" }, Align::Left));
    let mut table = Table::new(&columns);
    for (at, seen) in observations.iter().enumerate() {
        let of_factors = factors.iter().map(|key| or_dash(seen.factor(key), str::to_owned));
        let repeat = or_dash(seen.repeat, |repeat| repeat.to_string());
        let is_struck_out = not_storage(seen).is_some();
        let figures = metrics.iter().map(|(_, name, show)| {
            let figure = or_dash(seen.metric(name), show);
            Cell::figure(figure, is_struck_out && metric::is_of_storage(name))
        });
        let last = match swept {
            Some(swept) => linked(swept, at),
            None => seen.source.clone().into(),
        };
        let row = of_factors.chain([repeat]).map(Cell::from);
        table.row(row.chain(figures).chain([last]));
    }
    let table = table.sortable().with_note(
        "Rates and latencies of each run's counted window, but for those that the finding whole-run \
         names; latency of single reads as the engine timed it, of operations by petal's clock.",
    );
    Section::new("cells", "Cells", "")
        .table("Every cell, in the order of time", table)
        .notes(swept.map(not_in_means).unwrap_or_default())
}

/// Links to a cell's own report; adds its status if it is not complete.
fn linked(swept: &Swept, at: usize) -> Cell {
    let Some(cell) = swept.sweep.cells.get(at) else {
        return Cell::default();
    };
    let text = match cell.status {
        Status::Complete => "report".to_owned(),
        other => format!("report ({})", other.name()),
    };
    let link = link(&format!("{}/{NAME}", cell.folder.trim_end_matches('/')));
    Cell { text, link: Some(link), ..Cell::default() }
}

fn settings(swept: &Swept) -> Section {
    let plan = &swept.sweep.plan;
    let mut facts: Vec<(String, String)> =
        plan.axes.iter().map(|axis| (axis.key.clone(), axis.values.join(", "))).collect();
    facts.push(("repeats".to_owned(), plan.repeats.to_string()));
    facts.push(("seed".to_owned(), plan.seed.to_string()));
    let given = plan.settings.iter();
    facts.extend(given.map(|(key, value)| (key.clone(), as_text(value, UNKNOWN))));
    Section::new("settings", "Plan and settings", "").facts(facts).notes(READING)
}

/// Lists each finding once, with the cells in which it was found and the first one's message.
fn findings(swept: &Swept) -> Vec<ShownFinding> {
    let shown = grouped(swept).into_iter().map(|found| ShownFinding {
        place: format!("in {}", found.place()),
        ..ShownFinding::of(found.finding)
    });
    shown.collect()
}
