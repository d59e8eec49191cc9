//! The page of a replay's break point, for the person who decides: production's load over time and
//! the highest load that the platform holds, the steps, and the assumptions.

use super::super::charts::{
    Chart, ChartFrame, ChartSeries, ChartUse, Color, Plot, PlotAxis, Scale, Variant, Word,
};
use super::super::numbers::{or_dash, rate};
use super::super::replay::{DELIVERED, delivered_steps, length, steps};
use super::HtmlError;
use super::page::{Page, Section, Tile};
use crate::table::Table;
use petal_judge::break_point::BreakPoint;
use petal_record::profile::Profile;

const TITLE: &str = "Production's load over time, and the load that this platform holds";
const Y_TITLE: &str = "reads, writes and commits per second";
const NOTE: &str = "Reads, block writes and commits of production per second, from its profile. \
                    The line above is the replayed load that the platform held.";

/// Builds the page; the chart is also a separate file.
pub fn fit(found: &BreakPoint, profile: &Profile) -> Result<String, HtmlError> {
    let scale = |value: Option<f64>| or_dash(value, |scale| format!("{scale}"));
    let assumed = [found.of.how.clone(), found.notes.clone()].concat();
    let sections = vec![
        Section::new("load", "The load", "production's own counters")
            .charts([figure(found, profile)]),
        Section::new("steps", "Step by step", "means over the rounds")
            .table("", steps(&found.steps)),
        Section::new(
            "delivered",
            "Delivered load",
            "the database's counters, means over the rounds",
        )
        .table(DELIVERED, delivered_steps(found)),
        Section::new("assumed", "How the load was made", "").notes(assumed),
        Section::new("not-alike", "Not reproduced", "").notes(found.of.not_imitated.clone()),
        Section::new("gaps", "Gaps of the profile", "").notes(profile.gaps.clone()),
    ];
    let page = Page {
        title: format!("Will it fit? {} on {}", found.of.database, found.target),
        heading: format!("{} on {}", found.of.database, found.target),
        facts: vec![found.of.time.clone(), format!("{} of profile", length(profile.length_s()))],
        status: vec![match found.fits() {
            Some(true) => ("good", "it fits".into()),
            Some(false) => ("error", "it does not fit".into()),
            None => ("warning", "not known at 1x".into()),
        }],
        tiles: vec![
            Tile::figure("Holds", scale(found.holds), "x", "of production's load"),
            Tile::figure("Fails at", scale(found.fails), "x", fails_layer(found)),
            Tile::figure(
                "Room for",
                found.room_figure().unwrap_or_else(|| "-".to_owned()),
                "more",
                "of this database",
            ),
        ],
        line: Some(found.line()),
        sections,
        version: profile.petal_version.clone(),
        ..Page::default()
    };
    page.render()
}

fn fails_layer(found: &BreakPoint) -> String {
    found.interval_words().map_or_else(
        || "of production's load".to_owned(),
        |interval| format!("of production's load; breaks at {interval} (95 %)"),
    )
}

/// Draws the chart as a separate file.
pub fn fit_svg(found: &BreakPoint, profile: &Profile) -> String {
    draw(found, profile, ChartUse::Alone)
}

fn figure(found: &BreakPoint, profile: &Profile) -> Chart {
    let row = |(hours, load, begin): (f64, f64, String)| [begin, format!("{hours:.2}"), rate(load)];
    let rows = curve(profile).into_iter().map(row);
    let values = Table::of_figures("begin | hours | load per second").with_rows(rows);
    let series = ["production", "held"]
        .into_iter()
        .enumerate()
        .map(|(number, name)| ChartSeries::line(number, name, Color::Series(number), "", None));
    let svg = draw(found, profile, ChartUse::Page);
    Chart::new("fit", TITLE, NOTE, Variant::linear(svg), values).with_series(series)
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
    let x = PlotAxis::new(Scale::linear([0.0, end]), unit);
    let y = PlotAxis::new(Scale::linear(most.chain([0.0])), Y_TITLE);
    let height = if shown == ChartUse::Alone { 480.0 } else { 450.0 };
    let said = found.line();
    let frame = ChartFrame::wide(("fit-linear", TITLE, &said), height, x, y);
    let mut plot = Plot::new(&ChartFrame { shown, ..frame });
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
