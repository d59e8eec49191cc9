//! The page of a replay's break point, for whoever decides: production's load over time under what
//! the platform holds, the steps, and what was assumed.

use super::super::charts::{
    Chart, ChartFrame, ChartSeries, ChartUse, Color, Plot, PlotAxis, Scale, Variant, Word,
};
use super::super::numbers::{or_dash, rate};
use super::super::profile::length;
use super::super::replay::{DELIVERED, delivered_steps, steps};
use super::HtmlError;
use super::page::{Page, Section, SectionPart, Tile};
use petal_judge::break_point::BreakPoint;
use petal_model::record::profile::Profile;

const TITLE: &str = "Production's load over time, under what this platform holds";
const Y_TITLE: &str = "reads, writes and commits per second";
const NOTE: &str = "Reads, block writes and commits of production per second, as its profile tells \
                    them. The line above is what the platform held of the replayed load.";

/// The page; the chart stands alone beside it.
pub fn fit(found: &BreakPoint, profile: &Profile) -> Result<String, HtmlError> {
    let scale = |value: Option<f64>| or_dash(value, |scale| format!("{scale}"));
    let assumed = [found.of.how.clone(), found.notes.clone()].concat();
    let part = |lines: Vec<String>| vec![SectionPart::Notes(lines)];
    let section = |id, title, layer, parts| Section { id, title, layer, parts };
    let delivered = delivered_steps(found);
    let delivered = match delivered.is_empty() {
        true => Vec::new(),
        false => vec![SectionPart::Table(delivered.captioned(DELIVERED))],
    };
    let load = SectionPart::Figure(figure(found, profile));
    let mut sections = vec![
        section("load", "The load", "production's own counters", vec![load]),
        section(
            "steps",
            "Step by step",
            "means over the rounds",
            vec![SectionPart::Table(steps(found))],
        ),
        section(
            "delivered",
            "What was delivered",
            "the database's counters, means over the rounds",
            delivered,
        ),
        section("assumed", "How the load was made", "", part(assumed)),
        section("not-alike", "What is not alike", "", part(found.of.not_imitated.clone())),
        section("gaps", "What the profile lacks", "", part(profile.gaps.clone())),
    ];
    sections.retain(|section| {
        section
            .parts
            .iter()
            .any(|part| !matches!(part, SectionPart::Notes(lines) if lines.is_empty()))
    });
    let page = Page {
        title: format!("Will it fit? {} on {}", found.of.database, found.target),
        heading: format!("{} on {}", found.of.database, found.target),
        facts: vec![found.of.time.clone(), format!("{} of profile", length(profile.length_s()))],
        status: Some(match found.fits() {
            Some(true) => ("good", "it fits".into()),
            Some(false) => ("error", "it does not fit".into()),
            None => ("warning", "not known at 1x".into()),
        }),
        tiles: vec![
            Tile::figure("Holds", scale(found.holds), "x", "of production's load"),
            Tile::figure("Fails at", scale(found.fails), "x", fails_layer(found)),
            Tile::figure(
                "Room for",
                or_dash(found.room(), |room| format!("{room:.1}")),
                "more",
                "of this database",
            ),
        ],
        line: Some(found.line()),
        sections,
        version: profile.petal_version.clone(),
    };
    Ok(page.render()?)
}

fn fails_layer(found: &BreakPoint) -> String {
    found.interval_words().map_or_else(
        || "of production's load".to_owned(),
        |interval| format!("of production's load; breaks at {interval} (95 %)"),
    )
}

/// The chart as a drawing of its own.
pub fn fit_svg(found: &BreakPoint, profile: &Profile) -> String {
    draw(found, profile, ChartUse::Alone)
}

fn figure(found: &BreakPoint, profile: &Profile) -> Chart {
    let row =
        |(hours, load, begin): (f64, f64, String)| vec![begin, format!("{hours:.2}"), rate(load)];
    Chart {
        id: "fit".to_owned(),
        title: TITLE.to_owned(),
        note: NOTE.to_owned(),
        is_wide: true,
        variants: vec![Variant { name: "linear", svg: draw(found, profile, ChartUse::Page) }],
        series: vec![
            ChartSeries::line(0, "production", Color::Series(0), "", None),
            ChartSeries::line(1, "held", Color::Series(1), "", None),
        ],
        head: ["begin", "hours", "load per second"].map(str::to_owned).into(),
        rows: curve(profile).into_iter().map(row).collect(),
    }
}

/// Hours since the first interval, load, and when it was; those without times follow each other.
fn curve(profile: &Profile) -> Vec<(f64, f64, String)> {
    let first = profile.intervals.first().and_then(|interval| interval.begin_time());
    let mut after_s = 0.0;
    let mut points = Vec::new();
    for interval in &profile.intervals {
        let since =
            interval.begin_time().zip(first).map(|(at, first)| (at - first).as_seconds_f64());
        let from_s = since.unwrap_or(after_s);
        after_s = from_s + interval.length_s;
        let begin = interval.begin.clone().unwrap_or_else(|| "-".to_owned());
        points.push((from_s / 3600.0, interval.load(), begin.clone()));
        points.push((after_s / 3600.0, interval.load(), begin));
    }
    points
}

fn draw(found: &BreakPoint, profile: &Profile, shown: ChartUse) -> String {
    let points = curve(profile);
    let busiest = profile.busiest().map_or(0.0, |interval| interval.load());
    let limit = found.holds.map(|holds| holds * busiest);
    let end = points.last().map_or(1.0, |(hours, ..)| *hours);
    let (unit, per_hour) = match end {
        hours if hours < 0.1 => ("seconds", 3600.0),
        hours if hours < 5.0 => ("minutes", 60.0),
        _ => ("hours", 1.0),
    };
    let end = end * per_hour;
    // Room for the words above the line.
    let most = points.iter().map(|(_, load, _)| *load).chain(limit).map(|load| load * 1.08);
    let mut plot = Plot::new(&ChartFrame {
        id: "fit-linear",
        title: TITLE,
        description: &found.line(),
        width: 1080.0,
        height: if shown == ChartUse::Alone { 480.0 } else { 450.0 },
        x: PlotAxis::new(Scale::linear([0.0, end]), unit),
        y: PlotAxis::new(Scale::linear(most.chain([0.0])), Y_TITLE),
        shown,
    });
    let line: Vec<(f64, f64)> =
        points.iter().map(|(hours, load, _)| (*hours * per_hour, *load)).collect();
    plot.series(0, |plot| plot.line(&line, Color::Series(0), 2.0));
    if let Some((limit, holds)) = limit.zip(found.holds) {
        plot.series(1, |plot| {
            plot.line(&[(0.0, limit), (end, limit)], Color::Series(1), 2.5);
            let (x, y) = plot.at(0.0, limit);
            let said = format!("this platform holds {holds}x the busiest interval");
            plot.word(x + 6.0, y - 6.0, Word::new(&said, Color::Text));
        });
    }
    plot.finish()
}
