//! A page of many records: a row for each of their lines to sort and to filter, published figures
//! for comparison, and each record's petals in small, all on the same axes.

use super::super::charts::chart::spark;
use super::super::numbers::{bytes, counted, micros, or_dash, rate};
use super::super::petals::small::SharedAxes;
use super::super::records::{ShownRecord, lines};
use super::super::table::{Cell, Table};
use super::page::{Page, Section};
use super::{HtmlError, published};
use petal_judge::petals::{PetalLine, Point};
use petal_judge::price;
use petal_record::observation::metric;
use petal_settings::objective::Objective;

const READING: [&str; 5] = [
    "A row is a line of petals: runs that differ in sessions only. Its small picture and the \
     charts below have the same axes in every row, PIOPS across and the mean single-block read \
     upwards, both as logarithms. The ring is the peak.",
    "Rates are physical I/O as the engine counted it, of counted windows, means of repeats; +- is \
     half of a 95 % interval. A dash is unknown, never a zero.",
    "This page lists different data sets, mixes and platforms together: that alone does not make \
     them comparable. The reads' source and the warnings belong to the runs at the peak: read them \
     first. A figure that is no storage test is struck out: it has no ring, is sorted below all \
     others and is not among the published figures.",
    "The name of a record leads to its page, the mix to its petals below.",
    "petal compare shows whether two of these differ by more than their repeats do.",
];

/// `left_out`: runs that are in no line, each with the reason. `page_of` returns the address of the
/// page of a record with this name, if it has one.
pub fn gallery(
    shown: &[ShownRecord],
    left_out: &[String],
    objective: Option<&Objective>,
    page_of: &dyn Fn(&str) -> Option<String>,
) -> Result<String, HtmlError> {
    let axes = SharedAxes::of(shown.iter().map(|record| &record.petals));
    let lines: usize = shown.iter().map(|record| record.petals.lines.len()).sum();
    let figures = shown.iter().enumerate().map(|(at, record)| {
        let note = format!("{}; {}. {}", record.name, record.measured, trust(record));
        axes.figure(&record.petals, &id(at), &record.title(), note)
    });
    let peaks = shown.iter().flat_map(|record| {
        let of = |line: &PetalLine| {
            let point = peak(line).filter(|point| point.not_storage.is_none())?;
            Some((named(record, line), point.figure(metric::PIOPS)?))
        };
        record.petals.lines.iter().filter_map(of).collect::<Vec<_>>()
    });
    let peaks: Vec<(String, f64)> = peaks.collect();
    let page = Page {
        title: "petal gallery".to_owned(),
        heading: "Gallery".to_owned(),
        answer: answer(shown),
        facts: [counted(shown.len() as u64, "record"), counted(lines as u64, "line")]
            .into_iter()
            .chain(objective.map(|objective| format!("objective {objective}")))
            .collect(),
        sections: vec![
            Section::new("lines", "Every line", "sort by a name, filter above")
                .table("", table(shown, &axes, objective, page_of)),
            Section::new("multiples", "Petals", "all on the same axes").charts_on_demand(figures),
            Section::new("published-figures", "Published figures", "of others")
                .charts([published::strip(&peaks)]),
            Section::new("left-out", "Left out", "runs without figures that count").notes(left_out),
            Section::new("reading", "How to read this", "").notes(READING),
        ],
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Page::default()
    };
    page.render()
}

/// The verdict of all lines together.
fn answer(shown: &[ShownRecord]) -> String {
    let lines: Vec<&PetalLine> = shown.iter().flat_map(|record| &record.petals.lines).collect();
    let count = counted(lines.len() as u64, "line");
    match lines.iter().filter(|line| line.struck_out.is_some()).count() {
        _ if lines.is_empty() => String::new(),
        0 => format!("Valid tests: {count}."),
        struck if struck == lines.len() => format!("Not a storage test: {count}, all struck out."),
        struck => format!(
            "Not a storage test: {struck} of {count}, struck out. The others are valid tests."
        ),
    }
}

/// The source of the reads and the warnings at each line's peak.
fn trust(record: &ShownRecord) -> String {
    let lines = record.petals.lines.iter();
    lines.map(|line| format!("{}: {}", line.name, line.trust())).collect::<Vec<_>>().join(". ")
}

fn id(at: usize) -> String {
    format!("petal-{}", at + 1)
}

fn named(record: &ShownRecord, line: &PetalLine) -> String {
    format!("{}: {}", record.title(), line.name)
}

fn peak(line: &PetalLine) -> Option<&Point> {
    line.points.get(line.peak.or(line.struck_out)?)
}

fn table(
    shown: &[ShownRecord],
    axes: &SharedAxes,
    objective: Option<&Objective>,
    page_of: &dyn Fn(&str) -> Option<String>,
) -> Table {
    let all = || shown.iter().flat_map(|record| &record.petals.lines);
    let has_cost = all().any(|line| price::of_line(line, objective).is_some());
    let within = objective.map(|objective| format!(" | PIOPS within {objective}:"));
    let cost = if has_cost { " | a month for 1,000 PIOPS:" } else { "" };
    let mut table = Table::headed(&format!(
        "record | verdict, served by | peak PIOPS: | warnings at the peak | +-: | read us: | MB/s: | \
         sessions:{}{cost} | mix | database | device | host | active data | measured",
        within.unwrap_or_default()
    ));
    for (record, line) in lines(shown) {
        let at = shown.iter().position(|it| std::ptr::eq(it, record)).unwrap_or_default();
        let chart = format!("#fig-{}", id(at));
        let mut row = row(record, line, axes, objective, has_cost);
        row[0].link = page_of(record.record_of(line)).or_else(|| Some(chart.clone()));
        let mix = row.iter_mut().find(|cell| cell.text == line.name);
        mix.into_iter().for_each(|mix| mix.link = Some(chart.clone()));
        table.row(row);
    }
    table.sortable()
}

fn row(
    record: &ShownRecord,
    line: &PetalLine,
    axes: &SharedAxes,
    objective: Option<&Objective>,
    has_cost: bool,
) -> Vec<Cell> {
    let point = peak(line);
    let figure = |name: &str, show: fn(f64) -> String| {
        or_dash(point.and_then(|point| point.figure(name)), show)
    };
    let half = point.and_then(|point| point.piops.as_ref()?.half_width);
    let (places, peak_at) = axes.places(line);
    let is_struck_out = point.is_some_and(|point| point.not_storage.is_some());
    let warnings = point.map(|point| point.warnings.iter().cloned().collect::<Vec<_>>().join(", "));
    let judged = point.and_then(|point| point.verdict.as_deref());
    let verdict = if is_struck_out { "not a storage test" } else { judged.unwrap_or("not judged") };
    let served = or_dash(point.and_then(|point| point.served_by.clone()), |words| words);
    let of_peak = |text: String| Cell { is_muted: is_struck_out, ..text.into() };
    let mut cells = vec![
        Cell {
            text: record.name_of(line),
            picture: spark(&places, peak_at.filter(|_| !is_struck_out)),
            ..Cell::default()
        },
        format!("{verdict}: {served}").into(),
        of_peak(figure(metric::PIOPS, rate)),
        warnings.unwrap_or_default().into(),
        of_peak(or_dash(half, rate)),
        of_peak(figure(metric::READ_US, micros)),
        of_peak(figure(metric::MB, rate)),
        or_dash(point, |point| point.sessions.to_string()).into(),
    ];
    // The load that is priced, too.
    let met = line.within_objective.and_then(|at| line.points.get(at));
    let load = if objective.is_some() { met } else { point };
    let is_muted = load.is_some_and(|point| point.not_storage.is_some());
    if objective.is_some() {
        let piops = met.and_then(|point| point.figure(metric::PIOPS));
        cells.push(Cell { is_muted, ..or_dash(piops, rate).into() });
    }
    if has_cost {
        let cost = or_dash(price::of_line(line, objective), |cost| rate(cost.per_1000_piops));
        cells.push(Cell { is_muted, ..cost.into() });
    }
    let words = [&line.name, &record.database, &record.device, &record.host].map(String::clone);
    cells.extend(words.map(Cell::from));
    cells.push(or_dash(point.and_then(|point| point.active_bytes), bytes).into());
    cells.push(record.measured.clone().into());
    cells
}
