//! A chart as a page shows it: one or more ways to draw it, its series to switch off, and the table
//! of its values. The script reads the values under the pointer from that table.

use super::marker::Marker;
use super::palette::Color;
use super::svg::{circle, fill, path, stroke};
use crate::table::Table;

/// A way to draw the chart, such as `linear` or `log`.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    pub name: &'static str,
    pub svg: String,
}

impl Variant {
    /// Drawn with a linear and with a logarithmic axis: `draw` is asked whether it is the latter.
    pub fn linear_and_log(draw: impl Fn(bool) -> String) -> Vec<Self> {
        vec![Self { name: "linear", svg: draw(false) }, Self { name: "log", svg: draw(true) }]
    }

    pub fn linear(svg: String) -> Vec<Self> {
        vec![Self { name: "linear", svg }]
    }
}

/// A series of the chart: `data-series` of its marks, and its look.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartSeries {
    pub number: usize,
    pub name: String,
    /// A drawing of its line or area.
    pub swatch: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chart {
    /// Unique in its page.
    pub id: String,
    pub title: String,
    /// Meaning of the chart, its layer, and warnings.
    pub note: String,
    pub is_wide: bool,
    /// A page folds the chart under its title and this reason; empty for an open one.
    pub folded: &'static str,
    pub variants: Vec<Variant>,
    pub series: Vec<ChartSeries>,
    pub values: Table,
}

impl Chart {
    /// A wide chart without a legend.
    pub fn new(
        id: &str,
        title: &str,
        note: impl Into<String>,
        variants: Vec<Variant>,
        values: Table,
    ) -> Self {
        let (id, title) = (id.to_owned(), title.to_owned());
        let (note, series) = (note.into(), Vec::new());
        Self { id, title, note, is_wide: true, folded: "", variants, series, values }
    }

    pub fn with_series(self, series: impl IntoIterator<Item = ChartSeries>) -> Self {
        Self { series: series.into_iter().collect(), ..self }
    }

    pub fn narrow(self) -> Self {
        Self { is_wide: false, ..self }
    }
}

impl ChartSeries {
    /// A line with its dash and marker.
    pub fn line(
        number: usize,
        name: &str,
        color: Color,
        dash: &str,
        marker: Option<(Marker, bool)>,
    ) -> Self {
        let dash =
            if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        let mark = marker
            .map_or(String::new(), |(marker, is_hollow)| swatch_marker(marker, color, is_hollow));
        let line = format!("<path d=\"M1 6L29 6\"{}{dash}/>{mark}", stroke(color, 2.0));
        Self { number, name: name.to_owned(), swatch: icon("swatch", (30, 12), &line) }
    }

    /// A filled area.
    pub fn area(number: usize, name: &str, color: Color) -> Self {
        let rect = "<rect x=\"1\" y=\"1\" width=\"12\" height=\"10\" rx=\"2\"";
        let area = format!("{rect}{}/>", fill(color, 1.0));
        Self { number, name: name.to_owned(), swatch: icon("swatch", (14, 12), &area) }
    }
}

/// A drawing in the size of a word, which adds nothing for a reader who does not see it.
fn icon(class: &str, (width, height): (u32, u32), drawn: &str) -> String {
    format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" aria-hidden=\"true\">{drawn}</svg>"
    )
}

/// A line in the size of a word, by places from 0 to 1 on either axis, with a ring about one of
/// them.
pub fn spark(places: &[(f64, f64)], ringed: Option<usize>) -> String {
    let at = |(x, y): &(f64, f64)| (6.0 + x * 108.0, 34.0 - y * 28.0);
    let (stroke, fill) = (stroke(Color::Series(0), 1.8), fill(Color::Series(0), 1.0));
    let mut drawn = format!("<path d=\"{}\" fill=\"none\"{stroke}/>", path(places.iter().map(at)));
    for (number, place) in places.iter().map(at).enumerate() {
        let radius = if ringed == Some(number) { 4.0 } else { 2.0 };
        drawn.push_str(&format!("{}{fill}/>", circle(place, radius)));
    }
    icon("spark", (120, 40), &drawn)
}

/// Width of the drawings of changes, and their space at either end.
const CHANGE_PX: f64 = 240.0;
const CHANGE_ROOM_PX: f64 = 14.0;

fn change_x(share: f64) -> f64 {
    CHANGE_ROOM_PX + share.clamp(0.0, 1.0) * (CHANGE_PX - 2.0 * CHANGE_ROOM_PX)
}

/// A change with the ends of its interval, by places from 0 to 1, next to the place of no change. An
/// end beyond the drawing has no cap.
pub fn change(
    (none, at, ends): (f64, f64, Option<(f64, f64)>),
    marker: Marker,
    color: Color,
    is_hollow: bool,
) -> String {
    let upright = |x: f64, half: f64| format!("M{x:.1} {:.1}V{:.1}", 9.0 - half, 9.0 + half);
    let mut drawn =
        format!("<path d=\"{}\"{}/>", upright(change_x(none), 9.0), stroke(Color::Axis, 1.2));
    if let Some((low, high)) = ends {
        let mut bar = format!("M{:.1} 9H{:.1}", change_x(low), change_x(high));
        let shown = [low, high].into_iter().filter(|end| (0.0..=1.0).contains(end));
        shown.for_each(|end| bar.push_str(&upright(change_x(end), 4.0)));
        drawn.push_str(&format!("<path d=\"{bar}\" fill=\"none\"{}/>", stroke(color, 1.6)));
    }
    drawn.push_str(&marker_at((change_x(at), 9.0), marker, color, is_hollow));
    icon("change", (CHANGE_PX as u32, 18), &drawn)
}

/// The scale of changes: places from 0 to 1 with their values.
pub fn axis(ticks: impl IntoIterator<Item = (f64, f64)>) -> String {
    let tick = |(share, value): (f64, f64)| {
        let (x, paint) = (change_x(share), fill(Color::Muted, 1.0));
        let line = format!("<path d=\"M{x:.1} 14V18\"{}/>", stroke(Color::Axis, 1.2));
        let label = super::scale::tick_label(value);
        format!(
            "{line}<text x=\"{x:.1}\" y=\"11\" font-size=\"11\" text-anchor=\"middle\"{paint}>{label}</text>"
        )
    };
    icon("change", (CHANGE_PX as u32, 18), &ticks.into_iter().map(tick).collect::<String>())
}

fn swatch_marker(marker: Marker, color: Color, is_hollow: bool) -> String {
    marker_at((15.0, 6.0), marker, color, is_hollow)
}

fn marker_at((x, y): (f64, f64), marker: Marker, color: Color, is_hollow: bool) -> String {
    let inner = if is_hollow { Color::Paper } else { color };
    let paint = format!(
        "class=\"f-{} l-{}\" fill=\"{}\" stroke=\"{}\" stroke-width=\"1.5\"",
        inner.class(),
        color.class(),
        inner.hex(),
        color.hex()
    );
    let corners: Vec<String> = marker
        .corners()
        .iter()
        .map(|(right, down)| format!("{:.1},{:.1}", x + right * 3.8, y + down * 3.8))
        .collect();
    if corners.is_empty() {
        format!("{} {paint}/>", circle((x, y), 3.8))
    } else {
        format!("<polygon points=\"{}\" {paint}/>", corners.join(" "))
    }
}
