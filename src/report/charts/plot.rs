//! One chart: a frame with axes, and marks over it in the values of the axes. The crate maps and
//! draws; this file decides how a chart of petal's looks.

use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;

use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::element::{Circle, PathElement, Polygon, Rectangle};
use plotters::prelude::{DrawingArea, IntoDrawingArea};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontDesc, FontFamily, FontStyle, ShapeStyle, TextStyle};

use super::marker::Marker;
use super::palette::Color;
use super::scale::{Scale, tick_label};
use super::svg::{LETTER, STEPS, Shared, Svg, escape, pixels};
use super::{ChartError, Labels};

/// Where a drawing is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Inside a page whose script shows the values of what is under the pointer.
    Page,
    /// A file of its own: white paper, its title in it, values as the titles of its marks.
    Alone,
}

/// An axis and what it counts, with its unit and layer.
#[derive(Debug, Clone)]
pub struct Axis {
    pub scale: Scale,
    pub title: String,
    /// Words instead of the values of ticks.
    pub words: Option<Vec<(f64, String)>>,
}

impl Axis {
    pub fn new(scale: Scale, title: &str) -> Self {
        Self { scale, title: title.to_owned(), words: None }
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

/// What a chart is before anything is drawn on it.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    /// Unique in its page.
    pub id: &'a str,
    pub title: &'a str,
    /// What one would say of it to somebody who does not see it.
    pub description: &'a str,
    /// In pixels.
    pub width: f64,
    pub height: f64,
    pub x: Axis,
    pub y: Axis,
    pub shown: Use,
}

pub struct Plot {
    root: DrawingArea<Svg, Shift>,
    area: DrawingArea<Svg, Cartesian2d<Scale, Scale>>,
    out: Shared,
    title: String,
    shown: Use,
    /// Left, top, right, bottom of the axes, in pixels.
    edges: [f64; 4],
    /// Left of everything but the axes' own words.
    margin: f64,
    failed: Option<String>,
}

const TEXT: f64 = 12.0;
const TITLE: f64 = 17.0;

/// Words, their color and size, how they hang at their point.
#[derive(Clone, Copy)]
pub struct Word<'a> {
    pub text: &'a str,
    pub color: Color,
    pub size: f64,
    pub is_bold: bool,
    pub across: HPos,
}

impl<'a> Word<'a> {
    pub fn new(text: &'a str, color: Color) -> Self {
        Self { text, color, size: TEXT, is_bold: false, across: HPos::Left }
    }
}

fn steps(pixels: f64) -> i32 {
    (pixels * STEPS).round() as i32
}

fn stroke(color: Color, width: f64) -> ShapeStyle {
    ShapeStyle { color: color.rgb().to_rgba(), filled: false, stroke_width: steps(width) as u32 }
}

fn fill(color: Color, opacity: f64) -> ShapeStyle {
    ShapeStyle { color: color.rgb().mix(opacity), filled: true, stroke_width: 0 }
}

impl Plot {
    /// The frame: axes, grid, titles.
    pub fn new(frame: &Frame<'_>) -> Self {
        let out: Shared = Rc::new(RefCell::new(opening(frame)));
        let svg = |size| Svg { out: Rc::clone(&out), size };
        let size = (steps(frame.width) as u32, steps(frame.height) as u32);
        let x_ticks = frame.x.ticks(((frame.width / 95.0) as usize).max(2));
        let y_ticks = frame.y.ticks(((frame.height / 46.0) as usize).max(2));
        let longest = y_ticks.iter().map(|(_, word)| word.chars().count()).max().unwrap_or(1);
        let margin = if frame.shown == Use::Alone { 16.0 } else { 4.0 };
        let left = margin + 10.0 + longest as f64 * TEXT * LETTER;
        let top = if frame.shown == Use::Alone { 72.0 } else { 30.0 };
        // The last word below the axis reaches past its tick.
        let last = x_ticks.last().map_or(0, |(_, word)| word.chars().count());
        let right = (last as f64 * TEXT * LETTER / 2.0 + 3.0).max(16.0);
        let edges = [left, top, frame.width - right - margin + 4.0, frame.height - 38.0 - margin];
        let coordinates = Cartesian2d::new(
            frame.x.scale.clone(),
            frame.y.scale.clone(),
            (steps(edges[0])..steps(edges[2]), steps(edges[3])..steps(edges[1])),
        );
        let root = svg(size).into_drawing_area();
        let area = svg(size).into_drawing_area().apply_coord_spec(coordinates);
        let mut plot = Self {
            root,
            area,
            out,
            title: frame.title.to_owned(),
            shown: frame.shown,
            edges,
            margin,
            failed: None,
        };
        plot.draw_frame(frame, &x_ticks, &y_ticks);
        plot
    }

    fn draw_frame(&mut self, frame: &Frame<'_>, x: &[(f64, String)], y: &[(f64, String)]) {
        let [left, top, right, bottom] = self.edges;
        self.write("<g aria-hidden=\"true\">");
        for (value, word) in y {
            let (_, level) = self.at(frame.x.scale.from(), *value);
            if frame.y.words.is_none() {
                self.pixel_line(&[(left, level), (right, level)], Color::Grid, 1.0);
            }
            let label = Word { across: HPos::Right, ..Word::new(word, Color::Muted) };
            self.word(left - 7.0, level, label);
        }
        for (value, word) in x {
            let (across, _) = self.at(*value, frame.y.scale.from());
            // Bars are read against lines from their own axis.
            if frame.y.words.is_some() {
                self.pixel_line(&[(across, top), (across, bottom)], Color::Grid, 1.0);
            }
            self.pixel_line(&[(across, bottom), (across, bottom + 5.0)], Color::Axis, 1.0);
            let label = Word { across: HPos::Center, ..Word::new(word, Color::Muted) };
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
        let label = Word { across: HPos::Right, ..Word::new(&x_title, Color::Text) };
        self.word(right, bottom + 32.0, label);
        if frame.shown == Use::Alone {
            let title = Word { size: TITLE, is_bold: true, ..Word::new(frame.title, Color::Text) };
            self.word(margin, 28.0, title);
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

    /// Where values are, in pixels.
    pub fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let (across, down) = self.area.map_coordinate(&(x, y));
        (f64::from(across) / STEPS, f64::from(down) / STEPS)
    }

    /// What is drawn by `draw` as one group with these attributes.
    pub fn group(&mut self, attributes: &str, draw: impl FnOnce(&mut Self)) {
        self.write(&format!("<g {attributes}>"));
        draw(self);
        self.write("</g>");
    }

    pub fn line(&mut self, points: &[(f64, f64)], color: Color, width: f64) {
        if points.len() > 1 {
            let drawn = self.area.draw(&PathElement::new(points.to_vec(), stroke(color, width)));
            self.note(drawn);
        }
    }

    /// The area between two values at each place: (x, lower, upper).
    pub fn band(&mut self, points: &[(f64, f64, f64)], color: Color, opacity: f64) {
        if points.len() > 1 {
            let there = points.iter().map(|&(x, lower, _)| (x, lower));
            let back = points.iter().rev().map(|&(x, _, upper)| (x, upper));
            let corners: Vec<(f64, f64)> = there.chain(back).collect();
            let drawn = self.area.draw(&Polygon::new(corners, fill(color, opacity)));
            self.note(drawn);
        }
    }

    /// A rectangle from one corner to the other, in values.
    pub fn rectangle(&mut self, corners: [(f64, f64); 2], color: Color, opacity: f64) {
        let drawn = self.area.draw(&Rectangle::new(corners, fill(color, opacity)));
        self.note(drawn);
    }

    /// A line in pixels.
    pub fn pixel_line(&mut self, points: &[(f64, f64)], color: Color, width: f64) {
        let points: Vec<(i32, i32)> = points.iter().map(|&(x, y)| (steps(x), steps(y))).collect();
        let drawn = self.root.draw(&PathElement::new(points, stroke(color, width)));
        self.note(drawn);
    }

    /// A marker at a value; a hollow one shows the paper.
    pub fn marker(&mut self, at: (f64, f64), marker: Marker, color: Color, is_hollow: bool) {
        let (x, y) = self.at(at.0, at.1);
        self.shape(x, y, 4.2, marker, if is_hollow { Color::Paper } else { color }, color);
    }

    /// A ring about a value.
    pub fn ring(&mut self, at: (f64, f64), color: Color) {
        let (x, y) = self.at(at.0, at.1);
        let circle = Circle::new((steps(x), steps(y)), steps(8.5), stroke(color, 1.6));
        let drawn = self.root.draw(&circle);
        self.note(drawn);
    }

    fn shape(&mut self, x: f64, y: f64, radius: f64, marker: Marker, inner: Color, outer: Color) {
        let corners: Vec<(i32, i32)> = marker
            .corners()
            .iter()
            .map(|(right, down)| (steps(x + right * radius), steps(y + down * radius)))
            .collect();
        if corners.is_empty() {
            let middle = (steps(x), steps(y));
            let filled = self.root.draw(&Circle::new(middle, steps(radius), fill(inner, 1.0)));
            self.note(filled);
            let drawn = self.root.draw(&Circle::new(middle, steps(radius), stroke(outer, 1.5)));
            self.note(drawn);
            return;
        }
        let filled = self.root.draw(&Polygon::new(corners.clone(), fill(inner, 1.0)));
        self.note(filled);
        let mut closed = corners;
        closed.extend_from_within(..2);
        let drawn = self.root.draw(&PathElement::new(closed, stroke(outer, 1.5)));
        self.note(drawn);
    }

    /// The reach of an interval about a value, in the values of either axis. An end that lies
    /// beyond the frame has no cap.
    pub fn reach(&mut self, at: (f64, f64), across: Option<f64>, up: Option<f64>, color: Color) {
        const CAP: f64 = 3.0;
        // One stroke each, back over itself at the caps: a third of the markup.
        if let Some(half) = across.filter(|&half| half > 0.0) {
            let ((from, y), (to, _)) = (self.at(at.0 - half, at.1), self.at(at.0 + half, at.1));
            let scale = self.area.as_coord_spec().x_spec();
            let cap = |end: f64| if scale.shows(end) { CAP } else { 0.0 };
            let (low, high) = (cap(at.0 - half), cap(at.0 + half));
            let lower = [(from, y - low), (from, y + low), (from, y)];
            let upper = [(to, y), (to, y - high), (to, y + high)];
            self.pixel_line(&[lower, upper].concat(), color, 1.0);
        }
        if let Some(half) = up.filter(|&half| half > 0.0) {
            let ((x, from), (_, to)) = (self.at(at.0, at.1 - half), self.at(at.0, at.1 + half));
            let scale = self.area.as_coord_spec().y_spec();
            let cap = |end: f64| if scale.shows(end) { CAP } else { 0.0 };
            let (low, high) = (cap(at.1 - half), cap(at.1 + half));
            let lower = [(x - low, from), (x + low, from), (x, from)];
            let upper = [(x, to), (x - high, to), (x + high, to)];
            self.pixel_line(&[lower, upper].concat(), color, 1.0);
        }
    }

    /// Words with their middle height at a place in pixels.
    pub fn word(&mut self, x: f64, y: f64, word: Word<'_>) {
        let weight = if word.is_bold { FontStyle::Bold } else { FontStyle::Normal };
        let font = FontDesc::new(FontFamily::SansSerif, word.size * STEPS, weight);
        let color = word.color.rgb();
        let style = TextStyle::from(font).color(&color).pos(Pos::new(word.across, VPos::Center));
        let drawn = self.root.draw_text(word.text, &style, (steps(x), steps(y)));
        self.note(drawn);
    }

    /// What the pointer finds about a point: a row of the chart's table.
    pub fn hit_point(&mut self, at: (f64, f64), row: usize, said: &str) {
        let (x, y) = self.at(at.0, at.1);
        let shape =
            format!("<circle cx=\"{}\" cy=\"{}\" r=\"11\"", pixels(steps(x)), pixels(steps(y)));
        self.hit(&shape, "circle", row, said);
    }

    /// What the pointer finds between two places of the x axis, from top to bottom.
    pub fn hit_column(&mut self, from: f64, to: f64, row: usize, said: &str) {
        let [_, top, _, bottom] = self.edges;
        let ((left, _), (right, _)) = (self.at(from, 0.0), self.at(to, 0.0));
        self.hit_box([left, top, right.max(left + 0.5), bottom], row, said);
    }

    /// The same in pixels: left, top, right, bottom.
    pub fn hit_box(&mut self, [left, top, right, bottom]: [f64; 4], row: usize, said: &str) {
        let size = |from: f64, to: f64| pixels(steps(to) - steps(from));
        let shape = format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            pixels(steps(left)),
            pixels(steps(top)),
            size(left, right),
            size(top, bottom)
        );
        self.hit(&shape, "rect", row, said);
    }

    fn hit(&mut self, shape: &str, name: &str, row: usize, said: &str) {
        let element = match self.shown {
            Use::Page => format!("{shape} class=\"hit\" fill=\"none\" data-row=\"{row}\"/>"),
            Use::Alone => format!(
                "{shape} fill=\"none\" pointer-events=\"all\"><title>{}</title></{name}>",
                escape(said)
            ),
        };
        self.write(&element);
    }

    pub fn finish(self) -> Result<String, ChartError> {
        if let Some(why) = self.failed {
            return Err(ChartError { title: self.title, why });
        }
        drop((self.root, self.area));
        let mut drawn = self.out.take();
        drawn.push_str("</svg>");
        Ok(drawn)
    }

    fn write(&mut self, markup: &str) {
        match self.out.try_borrow_mut() {
            Ok(mut out) => out.push_str(markup),
            Err(error) => self.failed = Some(error.to_string()),
        }
    }

    fn note(&mut self, drawn: Result<(), impl Display>) {
        if let Err(error) = drawn {
            self.failed.get_or_insert(error.to_string());
        }
    }
}

/// The element, with what a screen reader says of it.
fn opening(frame: &Frame<'_>) -> String {
    let (width, height) = (pixels(steps(frame.width)), pixels(steps(frame.height)));
    let (size, paper) = match frame.shown {
        Use::Page => (String::new(), String::new()),
        Use::Alone => (
            format!(" width=\"{width}\" height=\"{height}\""),
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
