//! The run over time, all charts on one axis with the run's events marked. A long run is drawn in a
//! few hundred pieces of whole seconds: rates are the mean of a piece with the least and the most
//! of its seconds kept; percentiles, which have no mean, are of its middle and of its worst
//! second. The note of each chart says so.

mod events;
mod heat;
mod latency;
mod processors;
mod rates;
mod requests;
pub(super) mod waterfall;

use super::super::charts::{Chart, ChartFrame, ChartUse, Color, Plot, PlotAxis, Scale};
use super::super::run::seconds::SECOND_S_MIN;
use events::Lane;
use petal_host::numbers::decimal;
use petal_host::os::requests::RequestKind;
use petal_record::latency_log::Spreads;
use petal_record::{OneSecond, Run, Second};

/// Pieces of a chart at most.
const PIECES_MAX: usize = 180;
const WIDTH: f64 = 1080.0;
const HEIGHT: f64 = 200.0;
/// Space at the left of every chart for the longest name of an event, so that all begin at one
/// place.
const ROOM: f64 = 122.0;

struct ChartPiece<'a> {
    seconds: &'a [Second],
}

impl ChartPiece<'_> {
    fn begin_s(&self) -> f64 {
        self.seconds.first().map_or(0.0, |second| second.from_s)
    }

    fn end_s(&self) -> f64 {
        self.seconds.last().map_or(0.0, |second| second.from_s + second.length_s)
    }

    fn is_joined(&self) -> bool {
        self.seconds.iter().any(|row| !row.joined.is_empty())
    }

    fn middle_s(&self) -> f64 {
        (self.begin_s() + self.end_s()) / 2.0
    }
}

fn pieces(timeline: &[Second]) -> Vec<ChartPiece<'_>> {
    // A short rest of the last second has no comparable rate.
    let whole = match timeline.split_last() {
        Some((last, before)) if last.length_s < SECOND_S_MIN => before,
        _ => timeline,
    };
    let begin_s = whole.first().map_or(0.0, |first| first.from_s);
    let number = |row: &Second| {
        let middle_s = row.from_s + row.length_s / 2.0 - begin_s;
        (middle_s / piece_s(whole)) as usize
    };
    let chunks = whole.chunk_by(|before, after| number(before) == number(after));
    chunks.map(|seconds| ChartPiece { seconds }).collect()
}

/// Length of a piece, in whole seconds.
fn piece_s(timeline: &[Second]) -> f64 {
    let ends = timeline.first().zip(timeline.last());
    let length_s = ends.map_or(0.0, |(first, last)| last.end_s() - first.from_s);
    (length_s.round() / PIECES_MAX as f64).ceil().max(1.0)
}

/// Mean, least and most of a figure in one piece; None if a second lacks it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ChartRange {
    mean: f64,
    least: f64,
    most: f64,
}

/// Computes a level: `amount` is the quantity in a row, divided by `per`: the row's length, or a count.
/// `of_each` are the rates of the seconds of a row, if it knows them.
fn level(
    piece: &ChartPiece<'_>,
    amount: impl Fn(&Second) -> Option<f64>,
    per: impl Fn(&Second) -> Option<f64>,
    of_each: impl Fn(&OneSecond) -> Option<f64>,
) -> Option<ChartRange> {
    let mut sum = (0.0, 0.0);
    let (mut least, mut most) = (f64::MAX, f64::MIN);
    for row in piece.seconds {
        let (amount, per) = (amount(row)?, per(row)?);
        if per > 0.0 {
            sum = (sum.0 + amount, sum.1 + per);
            for rate in row.joined.iter().filter_map(&of_each).chain([amount / per]) {
                (least, most) = (least.min(rate), most.max(rate));
            }
        }
    }
    (sum.1 > 0.0).then(|| ChartRange { mean: sum.0 / sum.1, least, most })
}

/// The time of a run, as all of its charts have it.
struct TimeAxis<'a> {
    run: &'a Run,
    pieces: Vec<ChartPiece<'a>>,
    lanes: Vec<Lane>,
}

fn length(second: &Second) -> Option<f64> {
    Some(second.length_s)
}

/// Returns all charts over time; charts without a known value are left out. `spreads` are by kind.
pub(super) fn figures(run: &Run, spreads: &Spreads) -> Vec<Chart> {
    let mut figures = Vec::new();
    let mut axis = TimeAxis { run, pieces: pieces(&run.details.timeline), lanes: Vec::new() };
    if axis.pieces.len() < 2 {
        return figures;
    }
    axis.lanes = events::lanes(run, axis.end_s());
    figures.extend(events::strip(&axis));
    for (number, kind) in run.summary.latency_us.keys().enumerate() {
        let spreads = spreads.get(kind).map_or(&[][..], Vec::as_slice);
        figures.extend(latency::of_kind(&axis, kind, spreads, number));
    }
    for kind in [RequestKind::Read, RequestKind::Write, RequestKind::Flush] {
        let is_others = kind != RequestKind::Read && run.summary.rows.update == 0;
        let folded = if is_others { "this run changed no row" } else { "" };
        figures.extend(latency::of_device(&axis, kind).map(|chart| Chart { folded, ..chart }));
    }
    figures.extend(waterfall::of_operations(&axis));
    figures.extend(rates::reads_by_layer(&axis));
    figures.extend(rates::writes_by_layer(&axis));
    figures.extend(rates::io(&axis));
    figures.extend(rates::operations(&axis));
    figures.extend(rates::device_wait(&axis));
    figures.extend(requests::of_device(&axis));
    figures.extend(processors::parts(&axis));
    figures
}

impl TimeAxis<'_> {
    fn begin_s(&self) -> f64 {
        self.pieces.first().map_or(0.0, ChartPiece::begin_s)
    }

    fn end_s(&self) -> f64 {
        self.pieces.last().map_or(self.run.summary.elapsed_s, ChartPiece::end_s)
    }

    /// Returns the part of a chart's note about its pieces.
    fn note(&self, what: &str) -> String {
        match piece_s(&self.run.details.timeline) {
            1.0 => String::new(),
            seconds => format!(" Drawn in pieces of {} s: {what}.", decimal(seconds, 0)),
        }
    }

    /// Draws a chart over the time of the run, in which a pointer finds the piece under it. Events
    /// are marked behind its figures.
    fn drawing(
        &self,
        (id, title, description): (&str, &str, &str),
        height: f64,
        y: PlotAxis,
        draw: impl FnOnce(&mut Plot),
    ) -> String {
        let is_of_events = y.words.is_some();
        let x =
            PlotAxis::new(Scale::between(self.begin_s(), self.end_s()), "seconds since the start");
        let (low, high) = (y.scale.from(), y.scale.to());
        let (y, width, shown) = (y.with_room(ROOM), WIDTH, ChartUse::Page);
        let mut plot =
            Plot::new(&ChartFrame { id, title, description, width, height, x, y, shown });
        let marked = self.lanes.iter().filter(|lane| lane.is_marked_everywhere());
        for lane in marked.filter(|_| !is_of_events) {
            let spans: Vec<_> = lane.spans.iter().map(|&(a, b)| [(a, low), (b, high)]).collect();
            plot.rectangles(&spans, lane.color, lane.tint());
        }
        draw(&mut plot);
        for (row, piece) in self.pieces.iter().enumerate() {
            plot.hit_column(piece.begin_s(), piece.end_s(), row);
        }
        plot.finish()
    }
}

/// A series' dash: color is never alone.
fn dashed(number: usize) -> &'static str {
    ["", "7 3", "2 3", "9 3 2 3"][number % 4]
}

/// The color of a kind's percentiles, over heat of another hue.
const PERCENTILES: Color = Color::Series(1);

/// The values in a row without a gap, each at the middle of its piece.
fn known_runs<T: Copy>(pieces: &[ChartPiece<'_>], values: &[Option<T>]) -> Vec<Vec<(f64, T)>> {
    let mut runs = vec![Vec::new()];
    for (piece, value) in pieces.iter().zip(values) {
        match (value, runs.last_mut()) {
            (Some(value), Some(run)) => run.push((piece.middle_s(), *value)),
            _ => runs.push(Vec::new()),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn pieces_keep_the_least_and_the_most_and_every_second() {
        let minute = fixture::timeline(60);
        let mut timeline: Vec<Second> = minute.iter().cycle().take(3600).cloned().collect();
        (0_u32..).zip(&mut timeline).for_each(|(at, second)| second.from_s = f64::from(at));
        timeline[1234].ops.total = 7;
        let pieces = pieces(&timeline);
        assert!(pieces.len() <= PIECES_MAX);
        assert_eq!(pieces.iter().map(|piece| piece.seconds.len()).sum::<usize>(), 3600);
        let amount = |second: &Second| Some(second.ops.total as f64);
        let levels: Vec<ChartRange> =
            pieces.iter().filter_map(|piece| level(piece, amount, length, |_| None)).collect();
        let least = levels.iter().map(|level| level.least).fold(f64::MAX, f64::min);
        assert_eq!(least, 7.0);
        assert!(levels.iter().all(|level| level.least <= level.mean && level.mean <= level.most));
    }

    #[test]
    fn an_unknown_second_is_a_gap() {
        let mut run = fixture::mixed_run();
        run.details.timeline[20].io = None;
        let figures = figures(&run, &Spreads::new());
        let shown = figures.iter().find(|figure| figure.id == "io").unwrap();
        assert_eq!(shown.values.texts(20)[1..], ["-", "-"]);
        // A line on either side, for reads and for writes.
        assert_eq!(shown.variants[0].svg.matches("stroke-width=\"1.6\"").count(), 4);
    }

    #[test]
    fn operations_and_requests_have_one_chart_if_requests_were_timed() {
        let mut run = fixture::mixed_run();
        let shown = |run: &Run| {
            let all = figures(run, &Spreads::new());
            all.into_iter().find(|figure| figure.id == "requests")
        };
        assert!(shown(&run).is_none());
        fixture::time_requests(&mut run);
        let chart = shown(&run).unwrap();
        let cells = chart.values.texts(3);
        assert_eq!(cells[1..4], ["100.5", "900.5", "50.5"], "{cells:?}");
        assert!(cells.len() > 4 && cells[4] != "-", "operations stand next to them: {cells:?}");
    }

    #[test]
    fn the_devices_requests_have_a_heat_map_under_that_of_the_operations() {
        let mut run = fixture::mixed_run();
        fixture::time_requests(&mut run);
        let charts = figures(&run, &Spreads::new());
        let ids: Vec<&str> = charts.iter().map(|chart| chart.id.as_str()).collect();
        let at = ids.iter().position(|id| *id == "latency-1").unwrap();
        assert_eq!(ids[at + 1..at + 3], ["device-read", "device-write"]);
        let reads = &charts[at + 1];
        assert_eq!(reads.variants[0].name, "heat map");
        // p50, p90, p99, slowest and count of a second.
        assert_eq!(reads.values.texts(3)[1..], ["100.5", "100.5", "900.5", "900.5", "1,000"]);
        let (heat, log) = (&reads.variants[0].svg, &reads.variants[1].svg);
        let shades = |svg: &str| svg.matches("<path shape-rendering").count();
        assert!(shades(heat) > shades(log), "two steps of latency have two shades");
    }

    #[test]
    fn unknown_figures_have_no_chart() {
        let mut run = fixture::mixed_run();
        run.details.timeline.iter_mut().for_each(|second| {
            second.device = None;
            second.cpu = None;
        });
        let ids: Vec<String> = figures(&run, &Spreads::new()).into_iter().map(|f| f.id).collect();
        let known = ["events", "latency-0", "latency-1", "reads", "writes", "io", "operations"];
        assert_eq!(ids, known);
    }
}
