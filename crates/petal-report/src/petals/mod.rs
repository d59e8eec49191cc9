//! Draws petals: a line per UPDATE_PCT, a point per number of sessions, its peak, knee and
//! bend-back marked, with the intervals of its repeats. For a page, or for a separate file.

mod captions;
mod look;
pub mod scatter;
pub mod small;

use super::charts::{
    Chart, ChartFrame, ChartSeries, ChartUse, Color, Labels, Plot, PlotAxis, Scale, Variant,
    Weight, Word,
};
use look::LineStyle;
use petal_judge::petals::{Estimate, PetalLine, Petals, Point};
use petal_judge::predict::{PredictedCell, predict};

pub use captions::{SUMMARY, after_peak, beyond_knee, met, plateau, summary, writer_cost};

type EstimateOf = fn(&Point) -> Option<&Estimate>;

/// A chart of petals: the figures across and up, and its descriptions of them.
#[derive(Debug)]
pub struct PetalChart {
    /// Name of the file next to the report, without its ending.
    pub name: &'static str,
    title: &'static str,
    x_title: &'static str,
    y_title: &'static str,
    note: &'static str,
    /// The columns of its table of values.
    columns: &'static str,
    x: EstimateOf,
    /// The figures upwards, and how the names of their lines end.
    heights: &'static [(&'static str, EstimateOf)],
    /// True if it shows peak, knee and bend-back, which are of PIOPS and reads.
    has_marks: bool,
}

const READ_TITLE: &str = "mean single-block read, us (the engine's timing)";
const READ_NOTE: &str = "A line joins the points that differ in sessions only; the number at a \
                         point is its sessions. Bars are 95 % t intervals of the mean over the \
                         repeats, if there are three or more; one without a cap goes on beyond the \
                         frame. Peak: most throughput; knee: most PIOPS for its latency. If \
                         throughput falls back after the peak and there is evidence, the cause is \
                         named. Hollow: not a storage test.";

const PREDICTED_WIDTH: f64 = 1.8;
const PREDICTED_NOTE: &str = " Dotted: each cell as predicted from the line's other cells, and twice \
                              the most sessions, if a prediction is not refused (petal predict).";

/// Mean single-block read latency against physical requests per second.
pub static PIOPS: PetalChart = PetalChart {
    name: "petals",
    title: "Petals: single-block read latency by physical I/O",
    x_title: "PIOPS: physical read and write requests per second (the engine)",
    y_title: READ_TITLE,
    note: READ_NOTE,
    columns: "line|sessions|PIOPS|+-|single-block read us|+-|repeats|mark",
    x: |point| point.piops.as_ref(),
    heights: &[("", |point| point.read_us.as_ref())],
    has_marks: true,
};

/// Mean single-block read latency against megabytes per second.
static MEGABYTES: PetalChart = PetalChart {
    name: "petals-mb",
    title: "Petals: single-block read latency by throughput",
    x_title: "physical reads and writes, MB/s (the engine)",
    columns: "line|sessions|MB/s|+-|single-block read us|+-|repeats",
    x: |point| point.mb_s.as_ref(),
    has_marks: false,
    ..PIOPS
};

/// Operation p50 and p99, petal's clock, against operations per second.
static OPERATIONS: PetalChart = PetalChart {
    name: "petals-operations",
    title: "Operation latency by operations per second",
    x_title: "operations per second (petal)",
    y_title: "operation latency, us (petal's clock)",
    note: "p50 and p99 of all operations of each run; a point is their mean over the repeats, no percentile of \
           all their operations. In a closed loop this latency is sessions over \
           throughput: it cannot bend back, and it says nothing of single reads.",
    columns: "line|sessions|operations/s|+-|mean p50 us|+-|mean p99 us|+-|repeats",
    x: |point| point.ops_s.as_ref(),
    heights: &[
        (", mean p50 of the runs", |point| point.op_p50_us.as_ref()),
        (", mean p99 of the runs", |point| point.op_p99_us.as_ref()),
    ],
    has_marks: false,
};

pub static ALL: [&PetalChart; 3] = [&PIOPS, &MEGABYTES, &OPERATIONS];

/// The frame reaches so far beyond the largest mean, for the sake of intervals.
const ROOM: f64 = 1.2;

/// Draws a separate file: white paper, values as the titles of its points.
pub fn svg(petals: &Petals, chart: &PetalChart) -> String {
    Drawing::new(petals, chart).with_predicted().draw(ChartUse::Alone, false)
}

/// Draws a smaller separate file, with another title.
pub fn svg_titled(petals: &Petals, title: &str) -> String {
    let drawing = Drawing::new(petals, &PIOPS);
    let (x, y) = drawing.scales(false);
    drawing.draw_in(&ChartFrame {
        id: "card",
        title,
        description: &captions::description(petals, &PIOPS),
        width: 820.0,
        height: 480.0,
        x: PlotAxis::new(x, PIOPS.x_title),
        y: PlotAxis::new(y, PIOPS.y_title),
        shown: ChartUse::Alone,
    })
}

/// Builds the chart of a page: linear and log, the series, and the table of values.
pub fn figure(petals: &Petals, chart: &PetalChart) -> Chart {
    let drawing = Drawing::new(petals, chart).with_predicted();
    let variants = Variant::linear_and_log(|is_log| drawing.draw(ChartUse::Page, is_log));
    let is_predicted = drawing.predicted().next().is_some();
    let note = format!("{}{}", chart.note, if is_predicted { PREDICTED_NOTE } else { "" });
    Chart::new(chart.name, chart.title, &note, variants, captions::values(petals, chart))
        .with_series(drawing.series())
}

/// Returns true if at least one point can be drawn.
pub fn can_draw(petals: &Petals, chart: &PetalChart) -> bool {
    Drawing::new(petals, chart).dots().next().is_some()
}

/// A line as it is drawn; two for each line of percentiles.
struct DrawnLine<'a> {
    line: &'a PetalLine,
    name: String,
    look: LineStyle,
    is_hollow: bool,
    /// A point that lacks a figure is a gap.
    dots: Vec<Option<Dot>>,
    /// The line as predicted; empty if the prediction is refused.
    predicted: Vec<(f64, f64)>,
}

struct Dot {
    x: f64,
    y: f64,
    x_half: Option<f64>,
    y_half: Option<f64>,
    /// Position in the line's points, and in the table's rows.
    position: usize,
    row: usize,
    active_bytes: Option<u64>,
    /// The point is no storage test.
    is_struck_out: bool,
}

struct Drawing<'a> {
    petals: &'a Petals,
    chart: &'a PetalChart,
    curves: Vec<DrawnLine<'a>>,
}

impl<'a> Drawing<'a> {
    fn new(petals: &'a Petals, chart: &'a PetalChart) -> Self {
        let looks = look::looks(&petals.lines);
        let mut first_row = 0;
        let mut curves = Vec::new();
        for (line, look) in petals.lines.iter().zip(looks) {
            for (position, (suffix, height)) in chart.heights.iter().enumerate() {
                curves.push(DrawnLine {
                    line,
                    name: format!("{}{suffix}", line.name),
                    look: look.clone(),
                    is_hollow: position > 0,
                    dots: dots(line, chart, *height, first_row),
                    predicted: Vec::new(),
                });
            }
            first_row += line.points.len();
        }
        Self { petals, chart, curves }
    }

    /// Adds the predicted lines to a chart of PIOPS.
    fn with_predicted(mut self) -> Self {
        let predicted = if self.chart.has_marks { predicted(self.petals) } else { Vec::new() };
        for (curve, predicted) in self.curves.iter_mut().zip(predicted) {
            curve.predicted = predicted;
        }
        self
    }

    /// The ends of the frame: one wild interval must not squash all points into a corner.
    fn most(&self) -> (f64, f64) {
        let most = |pick: fn(&Dot) -> f64| self.dots().map(pick).fold(0.0, f64::max) * ROOM;
        (most(|dot| dot.x), most(|dot| dot.y))
    }

    fn predicted(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.curves.iter().flat_map(|curve| &curve.predicted)
    }

    fn dots(&self) -> impl Iterator<Item = &Dot> {
        self.curves.iter().flat_map(|curve| curve.dots.iter().flatten())
    }

    fn series(&self) -> Vec<ChartSeries> {
        let all = self.curves.iter().enumerate();
        all.map(|(number, curve)| {
            let look = &curve.look;
            let mark = Some((look.marker, curve.is_hollow));
            ChartSeries::line(number, &curve.name, look.color, look.dash, mark)
        })
        .collect()
    }

    fn scales(&self, is_log: bool) -> (Scale, Scale) {
        let (x_most, y_most) = self.most();
        let x_values = self.dots().map(|dot| (dot.x + dot.x_half.unwrap_or(0.0)).min(x_most));
        let y_values = self.dots().map(|dot| (dot.y + dot.y_half.unwrap_or(0.0)).min(y_most));
        let x_values = x_values.chain(self.predicted().map(|place| place.0));
        let y_values = y_values.chain(self.predicted().map(|place| place.1));
        if is_log {
            let lower = |value: f64, half: Option<f64>| {
                half.map(|half| value - half).filter(|&low| low > value / 2.0).unwrap_or(value)
            };
            let x_low = self.dots().map(|dot| lower(dot.x, dot.x_half));
            let y_low = self.dots().map(|dot| lower(dot.y, dot.y_half));
            (Scale::log(x_values.chain(x_low)), Scale::log(y_values.chain(y_low)))
        } else {
            (Scale::linear(x_values), Scale::linear(y_values))
        }
    }

    fn draw(&self, shown: ChartUse, is_log: bool) -> String {
        let (x, y) = self.scales(is_log);
        let id = format!("{}-{}", self.chart.name, if is_log { "log" } else { "linear" });
        let description = captions::description(self.petals, self.chart);
        let texts = (&*id, self.chart.title, &*description);
        let height = if shown == ChartUse::Alone { 610.0 } else { 580.0 };
        let x = PlotAxis::new(x, self.chart.x_title);
        let y = PlotAxis::new(y, self.chart.y_title);
        self.draw_in(&ChartFrame { shown, ..ChartFrame::wide(texts, height, x, y) })
    }

    fn draw_in(&self, frame: &ChartFrame<'_>) -> String {
        let mut plot = Plot::new(frame);
        let mut labels = plot.labels();
        for curve in &self.curves {
            take(&plot, &mut labels, curve, |dot| self.is_marked(curve, dot));
        }
        let words = self.words(&plot, &mut labels);
        for (number, curve) in self.curves.iter().enumerate() {
            plot.series(number, |plot| {
                self.draw_curve(plot, curve, &words[number]);
            });
        }
        plot.finish()
    }

    fn draw_curve(&self, plot: &mut Plot, curve: &DrawnLine<'_>, words: &[Placed]) {
        let look = &curve.look;
        let width = if curve.is_hollow { 1.4 } else { 2.2 };
        plot.group("opacity=\"0.55\"", |plot| {
            for dot in curve.dots.iter().flatten() {
                plot.reach((dot.x, dot.y), dot.x_half, dot.y_half, look.color);
            }
        });
        let dash = if look.dash.is_empty() { "none" } else { look.dash };
        plot.group(&format!("stroke-dasharray=\"{dash}\" stroke-linejoin=\"round\""), |plot| {
            for run in joined(&curve.dots) {
                let points: Vec<(f64, f64)> = run.iter().map(|dot| (dot.x, dot.y)).collect();
                plot.line(&points, look.color, width);
            }
        });
        if !curve.predicted.is_empty() {
            plot.dashed("opacity=\"0.8\" stroke-linecap=\"round\" ", "1 5", |plot| {
                plot.line(&curve.predicted, look.color, PREDICTED_WIDTH);
            });
        }
        for dot in curve.dots.iter().flatten() {
            let is_hollow = curve.is_hollow || dot.is_struck_out;
            plot.marker((dot.x, dot.y), look.marker, look.color, is_hollow);
            if self.is_marked(curve, dot) {
                plot.ring((dot.x, dot.y), look.color);
            }
        }
        plot.words_over_marks(words.iter().map(|word| {
            let color = if word.is_bold { look.color } else { Color::Text };
            let Placed { size, is_bold, .. } = *word;
            (word.x, word.y, Word { size, is_bold, ..Word::new(&word.text, color) })
        }));
        for dot in curve.dots.iter().flatten() {
            let said = captions::point_words(curve.line, &curve.name, dot.position, self.chart);
            plot.hit_point((dot.x, dot.y), dot.row, &said);
        }
    }

    /// Returns peak, knee and bend-back on the petals, the only chart with these figures.
    fn marks(&self, curve: &DrawnLine<'_>, dot: &Dot) -> Vec<String> {
        match self.chart.has_marks {
            true => captions::marks(curve.line, dot.position),
            false => Vec::new(),
        }
    }

    fn is_marked(&self, curve: &DrawnLine<'_>, dot: &Dot) -> bool {
        !self.marks(curve, dot).is_empty()
    }

    /// The words of each curve: first the marks, then the names, then all other sessions.
    fn words(&self, plot: &Plot, labels: &mut Labels) -> Vec<Vec<Placed>> {
        let mut words: Vec<Vec<Placed>> = self.curves.iter().map(|_| Vec::new()).collect();
        let mut put = |at: usize, dot: &Dot, text: String, size: f64, weight: Weight| {
            let place = labels.place(plot.at(dot.x, dot.y), &text, size, weight);
            let is_bold = weight == Weight::Must;
            if let (Some((x, y)), Some(words)) = (place, words.get_mut(at)) {
                words.push(Placed { x, y, text, size, is_bold });
            }
        };
        for (at, curve) in self.curves.iter().enumerate() {
            // The last point has the name: lines are farthest apart there.
            let last = curve.dots.iter().flatten().last().map(|dot| dot.position);
            for dot in curve.dots.iter().flatten() {
                let marks = self.marks(curve, dot);
                let mark = format!("{} {}", sessions(curve, dot), marks.join(", "));
                match (last == Some(dot.position), marks.is_empty()) {
                    (true, true) => put(at, dot, curve.name.clone(), 12.5, Weight::Must),
                    (true, false) => {
                        put(at, dot, format!("{}\n{mark}", curve.name), 12.5, Weight::Must);
                    }
                    (false, false) => put(at, dot, mark, 12.0, Weight::Must),
                    (false, true) => {}
                }
            }
        }
        for (at, curve) in self.curves.iter().enumerate() {
            for dot in curve.dots.iter().flatten().filter(|dot| !self.is_marked(curve, dot)) {
                put(at, dot, sessions(curve, dot).to_string(), 11.0, Weight::May);
            }
        }
        words
    }
}

/// A word at its final place, in pixels.
struct Placed {
    x: f64,
    y: f64,
    text: String,
    size: f64,
    is_bold: bool,
}

fn sessions(curve: &DrawnLine<'_>, dot: &Dot) -> u32 {
    curve.line.points.get(dot.position).map_or(0, |point| point.sessions)
}

fn dots(
    line: &PetalLine,
    chart: &PetalChart,
    height: EstimateOf,
    first_row: usize,
) -> Vec<Option<Dot>> {
    let points = line.points.iter().enumerate();
    points
        .map(|(position, point)| {
            let (x, y) = (chart.x)(point).zip(height(point))?;
            Some(Dot {
                x: Some(x.mean).filter(|mean| mean.is_finite() && *mean > 0.0)?,
                y: Some(y.mean).filter(|mean| mean.is_finite() && *mean > 0.0)?,
                x_half: x.half_width,
                y_half: y.half_width,
                position,
                row: first_row + position,
                active_bytes: point.active_bytes,
                is_struck_out: point.not_storage.is_some(),
            })
        })
        .collect()
}

/// PIOPS and read latency of each line at its sessions and at twice the most, as predicted without the
/// cell, as far as they are within the frame of the chart. Empty for a line whose prediction is refused.
pub fn predicted(petals: &Petals) -> Vec<Vec<(f64, f64)>> {
    let (x_most, y_most) = Drawing::new(petals, &PIOPS).most();
    let beyond = |line: &PetalLine| Some(line.points.last()?.sessions.saturating_mul(2));
    let asked: Vec<u32> = petals.lines.iter().filter_map(beyond).collect();
    let of_line = petals.lines.iter().zip(predict(petals, &asked, None));
    let drawn = of_line.map(|(line, predicted)| {
        let end = beyond(line);
        let is_drawn =
            |cell: &PredictedCell| cell.measured_piops.is_some() || Some(cell.sessions) == end;
        let cells = predicted.predicted.into_iter().filter(is_drawn);
        let places = cells.filter_map(|cell| cell.piops.zip(cell.read_us));
        places.filter(|(x, y)| *x <= x_most && *y <= y_most).collect()
    });
    drawn.collect()
}

/// The runs of points that a line may join: no gap, and the same active data set.
fn joined(dots: &[Option<Dot>]) -> Vec<Vec<&Dot>> {
    let mut runs: Vec<Vec<&Dot>> = vec![Vec::new()];
    for dot in dots {
        let last = runs.last().and_then(|run| run.last());
        let is_apart = last.zip(dot.as_ref()).is_some_and(|(last, dot)| {
            last.active_bytes.zip(dot.active_bytes).is_some_and(|(a, b)| a != b)
        });
        if dot.is_none() || is_apart {
            runs.push(Vec::new());
        }
        if let (Some(dot), Some(run)) = (dot, runs.last_mut()) {
            run.push(dot);
        }
    }
    runs
}

/// Adds the area that the curve covers to the labels.
fn take(plot: &Plot, labels: &mut Labels, curve: &DrawnLine<'_>, is_marked: impl Fn(&Dot) -> bool) {
    for run in joined(&curve.dots) {
        for pair in run.windows(2) {
            if let [from, to] = pair {
                labels.stroke(plot.at(from.x, from.y), plot.at(to.x, to.y));
            }
        }
    }
    for dot in curve.dots.iter().flatten() {
        let (x, y) = plot.at(dot.x, dot.y);
        labels.marker(x, y, if is_marked(dot) { 10.0 } else { 5.0 });
        let half = |half: Option<f64>| half.unwrap_or(0.0);
        let ends = (
            plot.at(dot.x - half(dot.x_half), dot.y),
            plot.at(dot.x + half(dot.x_half), dot.y),
            plot.at(dot.x, dot.y - half(dot.y_half)),
            plot.at(dot.x, dot.y + half(dot.y_half)),
        );
        labels.stroke(ends.0, ends.1);
        labels.stroke(ends.2, ends.3);
    }
}

#[cfg(test)]
pub mod fixture;
#[cfg(test)]
mod tests;
