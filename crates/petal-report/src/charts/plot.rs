//! A chart: a frame with axes, and marks over it in the values of the axes. This file decides how a
//! chart of petal's looks; [`super::svg`] writes its elements.

use super::labels::{LINE, Labels};
use super::marker::Marker;
use super::palette::Color;
use super::scale::{Scale, tick_label};
use super::svg::{LETTER, circle, escape, fill, path, pixels, round_to_tenth, stroke};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartUse {
    /// A drawing inside a page whose script shows the values under the pointer.
    Page,
    /// A separate file: white paper, its title in it, values as the titles of its marks.
    Alone,
}

/// An axis and its quantity, with unit and layer.
#[derive(Debug, Clone)]
pub struct PlotAxis {
    pub scale: Scale,
    pub title: String,
    /// Words instead of the values of ticks.
    pub words: Option<Vec<(f64, String)>>,
    /// Pixels for the words next to it, at least: charts below each other line up.
    pub room: f64,
}

impl PlotAxis {
    pub fn new(scale: Scale, title: &str) -> Self {
        Self { scale, title: title.to_owned(), words: None, room: 0.0 }
    }

    /// Words at places from 0 to `to`, such as the names of bars.
    pub fn of_words(words: impl IntoIterator<Item = (f64, String)>, to: f64) -> Self {
        let words = Some(words.into_iter().collect());
        Self { words, ..Self::new(Scale::between(0.0, to), "") }
    }

    pub fn with_room(self, room: f64) -> Self {
        Self { room, ..self }
    }

    fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        match &self.words {
            Some(words) => words.clone(),
            None => {
                self.scale.ticks(most).into_iter().map(|value| (value, tick_label(value))).collect()
            }
        }
    }
}

/// An empty chart.
#[derive(Debug, Clone)]
pub struct ChartFrame<'a> {
    /// Unique in its page.
    pub id: &'a str,
    /// Title; further lines follow below it if the chart is a separate file.
    pub title: &'a str,
    /// Description for a reader who does not see the chart.
    pub description: &'a str,
    /// Width in pixels.
    pub width: f64,
    pub height: f64,
    pub x: PlotAxis,
    pub y: PlotAxis,
    pub shown: ChartUse,
}

impl<'a> ChartFrame<'a> {
    /// The frame of a wide chart in a page.
    pub fn wide(
        (id, title, description): (&'a str, &'a str, &'a str),
        height: f64,
        x: PlotAxis,
        y: PlotAxis,
    ) -> Self {
        Self { id, title, description, width: 1080.0, height, x, y, shown: ChartUse::Page }
    }
}

pub struct Plot {
    x: Scale,
    y: Scale,
    /// The markup so far.
    out: String,
    shown: ChartUse,
    /// Left, top, right, bottom of the axes, in pixels.
    edges: [f64; 4],
    /// Space at the left of everything except the axes' words.
    margin: f64,
}

const TEXT: f64 = 12.0;
const TITLE: f64 = 17.0;
/// Distance of two lines below the title.
const LINE_BELOW: f64 = 16.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Left,
    Center,
    Right,
}

/// Words, their color and size, how they hang at their point.
#[derive(Clone, Copy)]
pub struct Word<'a> {
    pub text: &'a str,
    pub color: Color,
    pub size: f64,
    pub is_bold: bool,
    pub anchor: Anchor,
}

impl<'a> Word<'a> {
    pub fn new(text: &'a str, color: Color) -> Self {
        Self { text, color, size: TEXT, is_bold: false, anchor: Anchor::Left }
    }
}

impl Plot {
    /// The frame: axes, grid, titles.
    pub fn new(frame: &ChartFrame<'_>) -> Self {
        let x_ticks = frame.x.ticks(((frame.width / 95.0) as usize).max(2));
        let y_ticks = frame.y.ticks(((frame.height / 46.0) as usize).max(2));
        let longest = y_ticks.iter().map(|(_, word)| word.chars().count()).max().unwrap_or(1);
        let margin = if frame.shown == ChartUse::Alone { 16.0 } else { 4.0 };
        let left = (margin + 10.0 + longest as f64 * TEXT * LETTER).max(frame.y.room);
        let top = match frame.shown {
            ChartUse::Alone => 56.0 + LINE_BELOW * frame.title.lines().count().max(1) as f64,
            ChartUse::Page if frame.y.title.is_empty() => 8.0,
            ChartUse::Page => 30.0,
        };
        // The last word below the axis reaches past its tick.
        let last = x_ticks.last().map_or(0, |(_, word)| word.chars().count());
        let right = (last as f64 * TEXT * LETTER / 2.0 + 3.0).max(16.0);
        let edges = [left, top, frame.width - right - margin + 4.0, frame.height - 38.0 - margin];
        let mut plot = Self {
            x: frame.x.scale.clone(),
            y: frame.y.scale.clone(),
            out: opening(frame),
            shown: frame.shown,
            edges,
            margin,
        };
        plot.draw_frame(frame, &x_ticks, &y_ticks);
        plot
    }

    fn draw_frame(&mut self, frame: &ChartFrame<'_>, x: &[(f64, String)], y: &[(f64, String)]) {
        let [left, top, right, bottom] = self.edges;
        self.write("<g aria-hidden=\"true\">");
        for (value, word) in y {
            let (_, level) = self.at(frame.x.scale.from(), *value);
            if frame.y.words.is_none() {
                self.pixel_line(&[(left, level), (right, level)], Color::Grid, 1.0);
            }
            let label = Word { anchor: Anchor::Right, ..Word::new(word, Color::Muted) };
            self.word(left - 7.0, level, label);
        }
        for (value, word) in x {
            let (across, _) = self.at(*value, frame.y.scale.from());
            // Bars are read against lines from their own axis.
            if frame.y.words.is_some() {
                self.pixel_line(&[(across, top), (across, bottom)], Color::Grid, 1.0);
            }
            self.pixel_line(&[(across, bottom), (across, bottom + 5.0)], Color::Axis, 1.0);
            let label = Word { anchor: Anchor::Center, ..Word::new(word, Color::Muted) };
            self.word(across, bottom + 14.0, label);
        }
        self.pixel_line(&[(left, bottom), (right, bottom)], Color::Axis, 1.0);
        let mut y_title = frame.y.title.clone();
        let mut x_title = frame.x.title.clone();
        for (title, axis) in [(&mut y_title, &frame.y), (&mut x_title, &frame.x)] {
            if axis.scale.is_log() && axis.words.is_none() {
                title.push_str(", log scale");
            }
        }
        let margin = self.margin;
        self.word(margin, top - 17.0, Word::new(&y_title, Color::Text));
        let label = Word { anchor: Anchor::Right, ..Word::new(&x_title, Color::Text) };
        self.word(right, bottom + 32.0, label);
        if frame.shown == ChartUse::Alone {
            let mut lines = frame.title.lines();
            let title = lines.next().unwrap_or_default();
            let title = Word { size: TITLE, is_bold: true, ..Word::new(title, Color::Text) };
            self.word(margin, 28.0, title);
            for (number, line) in (1..).zip(lines) {
                let below = Word { size: 11.5, ..Word::new(line, Color::Muted) };
                self.word(margin, 32.0 + LINE_BELOW * f64::from(number), below);
            }
        }
        self.write("</g>");
    }

    /// Left, top, right and bottom of the axes, in pixels.
    pub fn edges(&self) -> [f64; 4] {
        self.edges
    }

    /// Room for words within the axes.
    pub fn labels(&self) -> Labels {
        let [left, top, right, bottom] = self.edges;
        Labels::within(left + 2.0, top - 4.0, right + 12.0, bottom - 1.0)
    }

    /// Returns the place of values, in pixels.
    pub fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let [left, top, right, bottom] = self.edges;
        (self.x.place(x, left, right), self.y.place(y, bottom, top))
    }

    /// Wraps the output of `draw` in one group with these attributes.
    pub fn group(&mut self, attributes: &str, draw: impl FnOnce(&mut Self)) {
        self.write(&format!("<g {attributes}>"));
        draw(self);
        self.write("</g>");
    }

    /// The marks of one series, which the page's legend switches on and off.
    pub fn series(&mut self, number: usize, draw: impl FnOnce(&mut Self)) {
        self.group(&format!("class=\"series\" data-series=\"{number}\""), draw);
    }

    /// Draws lines with this dash; without a dash they are whole.
    pub fn dashed(&mut self, attributes: &str, dash: &str, draw: impl FnOnce(&mut Self)) {
        let dash = if dash.is_empty() { "none" } else { dash };
        self.group(&format!("{attributes}stroke-dasharray=\"{dash}\""), draw);
    }

    pub fn line(&mut self, points: &[(f64, f64)], color: Color, width: f64) {
        if points.len() > 1 {
            let points: Vec<(f64, f64)> = points.iter().map(|&(x, y)| self.at(x, y)).collect();
            self.pixel_line(&points, color, width);
        }
    }

    /// The area between two values at each place: (x, lower, upper).
    pub fn band(&mut self, points: &[(f64, f64, f64)], color: Color, opacity: f64) {
        if points.len() > 1 {
            let there = points.iter().map(|&(x, lower, _)| self.at(x, lower));
            let back = points.iter().rev().map(|&(x, _, upper)| self.at(x, upper));
            let corners = path(there.chain(back));
            self.write(&format!("<path d=\"{corners}Z\"{}/>", fill(color, opacity)));
        }
    }

    /// A rectangle from one corner to the other, in values.
    pub fn rectangle(&mut self, corners: [(f64, f64); 2], color: Color, opacity: f64) {
        let [(x, y), (other_x, other_y)] = corners.map(|(x, y)| self.at(x, y));
        let edges = [x.min(other_x), y.min(other_y), x.max(other_x), y.max(other_y)];
        self.patch(edges, color, opacity);
    }

    /// A rectangle in pixels: left, top, right, bottom.
    pub fn patch(&mut self, edges: [f64; 4], color: Color, opacity: f64) {
        self.write(&format!("{}{}/>", rect(edges), fill(color, opacity)));
    }

    /// Draws many rectangles of one color as one element, each from corner to corner in values.
    /// Edges are sharp, so that no seam shows between neighbours.
    pub fn rectangles(&mut self, all: &[[(f64, f64); 2]], color: Color, opacity: f64) {
        let mut path = String::new();
        for [from, to] in all {
            let ((x, y), (to_x, to_y)) = (self.at(from.0, from.1), self.at(to.0, to.1));
            let (across, up) = (
                pixels(round_to_tenth(to_x) - round_to_tenth(x)),
                pixels(round_to_tenth(to_y) - round_to_tenth(y)),
            );
            let back = pixels(round_to_tenth(x) - round_to_tenth(to_x));
            path.push_str(&format!("M{} {}h{across}v{up}h{back}z", pixels(x), pixels(y)));
        }
        if !path.is_empty() {
            let paint = fill(color, opacity);
            self.write(&format!("<path shape-rendering=\"crispEdges\" d=\"{path}\"{paint}/>"));
        }
    }

    pub fn pixel_line(&mut self, points: &[(f64, f64)], color: Color, width: f64) {
        let points = path(points.iter().copied());
        self.write(&format!("<path d=\"{points}\" fill=\"none\"{}/>", stroke(color, width)));
    }

    /// A marker at a value; a hollow one shows the paper.
    pub fn marker(&mut self, at: (f64, f64), marker: Marker, color: Color, is_hollow: bool) {
        const RADIUS: f64 = 4.2;
        let (x, y) = self.at(at.0, at.1);
        let inner = fill(if is_hollow { Color::Paper } else { color }, 1.0);
        let corners = marker.corners().iter();
        let mut corners: Vec<(f64, f64)> =
            corners.map(|(right, down)| (x + right * RADIUS, y + down * RADIUS)).collect();
        if corners.is_empty() {
            self.write(&format!("{}{inner}/>", circle((x, y), RADIUS)));
            let outer = stroke(color, 1.5);
            self.write(&format!("{} fill=\"none\"{outer}/>", circle((x, y), RADIUS)));
            return;
        }
        self.write(&format!("<path d=\"{}Z\"{inner}/>", path(corners.iter().copied())));
        corners.extend_from_within(..2);
        self.pixel_line(&corners, color, 1.5);
    }

    /// A ring about a value.
    pub fn ring(&mut self, at: (f64, f64), color: Color) {
        let ring = circle(self.at(at.0, at.1), 8.5);
        self.write(&format!("{ring} fill=\"none\"{}/>", stroke(color, 1.6)));
    }

    /// The reach of an interval about a value, in the values of either axis. An end that lies
    /// beyond the frame has no cap.
    pub fn reach(&mut self, at: (f64, f64), across: Option<f64>, up: Option<f64>, color: Color) {
        const CAP: f64 = 3.0;
        // One stroke each, back over itself at the caps: a third of the markup.
        let cap = |scale: &Scale, end: f64| if scale.shows(end) { CAP } else { 0.0 };
        if let Some(half) = across.filter(|&half| half > 0.0) {
            let ((from, y), (to, _)) = (self.at(at.0 - half, at.1), self.at(at.0 + half, at.1));
            let (low, high) = (cap(&self.x, at.0 - half), cap(&self.x, at.0 + half));
            let lower = [(from, y - low), (from, y + low), (from, y)];
            let upper = [(to, y), (to, y - high), (to, y + high)];
            self.pixel_line(&[lower, upper].concat(), color, 1.0);
        }
        if let Some(half) = up.filter(|&half| half > 0.0) {
            let ((x, from), (_, to)) = (self.at(at.0, at.1 - half), self.at(at.0, at.1 + half));
            let (low, high) = (cap(&self.y, at.1 - half), cap(&self.y, at.1 + half));
            let lower = [(x - low, from), (x + low, from), (x, from)];
            let upper = [(x, to), (x - high, to), (x + high, to)];
            self.pixel_line(&[lower, upper].concat(), color, 1.0);
        }
    }

    /// Words with their middle height at a place in pixels.
    pub fn word(&mut self, x: f64, y: f64, word: Word<'_>) {
        let anchor = match word.anchor {
            Anchor::Left => "",
            Anchor::Center => " text-anchor=\"middle\"",
            Anchor::Right => " text-anchor=\"end\"",
        };
        let weight = if word.is_bold { " font-weight=\"600\"" } else { "" };
        // Capitals and digits are about 0.72 of the size above the base line.
        let base = round_to_tenth(y) + round_to_tenth(word.size * 0.36);
        self.write(&format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{anchor}{weight}{}>{}</text>",
            pixels(x),
            pixels(base),
            pixels(word.size),
            fill(word.color, 1.0),
            escape(word.text)
        ));
    }

    /// Lines of words below each other, with paper about each letter, so that they are read over
    /// marks.
    pub fn words_over_marks<'a>(&mut self, words: impl IntoIterator<Item = (f64, f64, Word<'a>)>) {
        let halo = format!(
            "class=\"halo l-paper\" stroke=\"{}\" stroke-width=\"3\" paint-order=\"stroke\" \
             stroke-linejoin=\"round\"",
            Color::Paper.hex()
        );
        self.group(&halo, |plot| {
            for (x, y, word) in words {
                for (number, text) in word.text.lines().enumerate() {
                    plot.word(x, y + number as f64 * word.size * LINE, Word { text, ..word });
                }
            }
        });
    }

    /// Adds the target of the pointer about a point: a row of the chart's table.
    pub fn hit_point(&mut self, at: (f64, f64), row: usize, description: &str) {
        let shape = circle(self.at(at.0, at.1), 11.0);
        self.hit(&shape, "circle", row, description);
    }

    /// Adds the target of the pointer between two places of the x axis, from top to bottom.
    pub fn hit_column(&mut self, from: f64, to: f64, row: usize) {
        let [_, top, _, bottom] = self.edges;
        let ((left, _), (right, _)) = (self.at(from, 0.0), self.at(to, 0.0));
        self.hit_box([left, top, right.max(left + 0.5), bottom], row);
    }

    /// Adds the target of the pointer within a box in pixels: left, top, right, bottom.
    pub fn hit_box(&mut self, edges: [f64; 4], row: usize) {
        self.hit(&rect(edges), "rect", row, "");
    }

    fn hit(&mut self, shape: &str, name: &str, row: usize, description: &str) {
        let element = match self.shown {
            ChartUse::Page => format!("{shape} class=\"hit\" fill=\"none\" data-row=\"{row}\"/>"),
            ChartUse::Alone => format!(
                "{shape} fill=\"none\" pointer-events=\"all\"><title>{}</title></{name}>",
                escape(description)
            ),
        };
        self.write(&element);
    }

    pub fn finish(mut self) -> String {
        self.write("</svg>");
        self.out
    }

    fn write(&mut self, markup: &str) {
        self.out.push_str(markup);
    }
}

/// A rectangle's element without its paint and its end.
fn rect([left, top, right, bottom]: [f64; 4]) -> String {
    format!(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
        pixels(left),
        pixels(top),
        pixels(round_to_tenth(right) - round_to_tenth(left)),
        pixels(round_to_tenth(bottom) - round_to_tenth(top))
    )
}

/// Returns the element, with its text for a screen reader.
fn opening(frame: &ChartFrame<'_>) -> String {
    let (width, height) = (pixels(frame.width), pixels(frame.height));
    let (size, paper) = match frame.shown {
        ChartUse::Page => (String::new(), String::new()),
        ChartUse::Alone => (
            format!(" data-generator=\"petal\" width=\"{width}\" height=\"{height}\""),
            format!(
                "<rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>",
                Color::Paper.hex()
            ),
        ),
    };
    let id = escape(frame.id);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\"{size} viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-labelledby=\"{id}-title\" aria-describedby=\"{id}-desc\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, \
         sans-serif\"><title id=\"{id}-title\">{}</title><desc id=\"{id}-desc\">{}</desc>{paper}",
        escape(frame.title),
        escape(frame.description),
    )
}
