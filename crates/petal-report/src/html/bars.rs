//! The run as a whole: how latency is spread, and the same work on every layer.

use std::collections::BTreeSet;

use super::super::charts::{
    Chart, ChartFrame, ChartSeries, Color, Plot, PlotAxis, Scale, Variant, Word,
};
use super::super::numbers::{decimal, micros, or_dash, percent, whole};
use super::super::run::waterfall;
use super::super::sources;
use super::super::table::Table;
use super::time::waterfall::look;
use petal_host::histogram::Bar;
use petal_record::Run;
use petal_record::waterfall::{Waterfall, WaterfallPart};

/// Spreads in one chart at most; the longest waits first.
const SPREADS_MAX: usize = 7;

/// Draws the spread of latency: operations, and waits that were timed one by one.
pub(super) fn histogram(run: &Run) -> Option<Chart> {
    let spreads = spreads(run);
    let uppers = uppers(&spreads);
    let (&least, &most) = uppers.first().zip(uppers.last())?;
    let shares = spreads.iter().flat_map(|(_, bars)| bars.iter().map(|bar| share(bar, bars)));
    let (lowest, top) = shares
        .map(|share| share * 100.0)
        .fold((100.0, 0.0), |(low, high): (f64, f64), share| (low.min(share), high.max(share)));
    let floor = 10_f64.powf(lowest.max(1e-6).log10().floor());
    let (title, description) = ("How latency is spread", described(&spreads));
    let svg = |is_log: bool| {
        let y = if is_log { Scale::log([floor, top]) } else { Scale::linear([top]) };
        let floor = y.from();
        let id = if is_log { "histogram-log" } else { "histogram-linear" };
        let x = Scale::doublings((least as f64 / 2.0).max(0.5), most as f64);
        let (x, y) = (PlotAxis::new(x, "latency, us"), PlotAxis::new(y, "percent of a series"));
        let mut plot = Plot::new(&ChartFrame::wide((id, title, &description), 330.0, x, y));
        for (number, (_, bars)) in spreads.iter().enumerate() {
            plot.series(number, |plot| draw_spread(plot, bars, Color::Series(number), floor));
        }
        for (row, &upper) in uppers.iter().enumerate() {
            plot.hit_column(upper as f64 / 2.0, upper as f64, row);
        }
        plot.finish()
    };
    let names = spreads.iter().enumerate();
    let series =
        names.map(|(number, (name, _))| ChartSeries::area(number, name, Color::Series(number)));
    let heads = spreads.iter().flat_map(|(name, _)| [format!("{name} %"), format!("{name} count")]);
    let row = |&upper: &u64| {
        let cells = spreads.iter().flat_map(move |(_, bars)| {
            let bar = bars.iter().find(|bar| bar.upper_us == upper);
            let (part, count) = bar.map_or((0.0, 0), |bar| (share(bar, bars), bar.count));
            [percent(part), whole(count)]
        });
        std::iter::once(whole(upper)).chain(cells)
    };
    let note = format!(
        "By their source ({}). A bar counts events that took longer than half its right edge, up \
         to that edge.",
        sources::of(run).histograms
    );
    let names = std::iter::once("up to us".to_owned()).chain(heads);
    let values = Table::of_columns(names).with_rows(uppers.iter().map(row));
    let variants = Variant::linear_and_log(svg);
    Some(Chart::new("histogram", title, note, variants, values).with_series(series))
}

type BarGroup<'a> = (&'a str, &'a [Bar]);

fn spreads(run: &Run) -> Vec<BarGroup<'_>> {
    let operations = run.details.histograms.iter();
    let waits = run.summary.waits.iter().filter_map(|wait| {
        run.details.wait_histograms.get(&wait.name).map(|timed| (&wait.name, &timed.bars))
    });
    operations
        .chain(waits)
        .filter(|(_, bars)| bars.iter().any(|bar| bar.count > 0))
        .take(SPREADS_MAX)
        .map(|(name, bars)| (name.as_str(), bars.as_slice()))
        .collect()
}

fn uppers(spreads: &[BarGroup<'_>]) -> Vec<u64> {
    let all = spreads.iter().flat_map(|(_, bars)| bars.iter().map(|bar| bar.upper_us));
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

fn share(bar: &Bar, bars: &[Bar]) -> f64 {
    let total: u64 = bars.iter().map(|bar| bar.count).sum();
    if total > 0 { bar.count as f64 / total as f64 } else { 0.0 }
}

fn draw_spread(plot: &mut Plot, bars: &[Bar], color: Color, floor: f64) {
    for bar in bars.iter().filter(|bar| bar.count > 0) {
        let (from, to) = (bar.upper_us as f64 / 2.0, bar.upper_us as f64);
        let height = share(bar, bars) * 100.0;
        plot.rectangle([(from, height), (to, floor)], color, 0.22);
        plot.line(&[(from, floor), (from, height), (to, height), (to, floor)], color, 1.5);
    }
}

fn described(spreads: &[BarGroup<'_>]) -> String {
    let mut said = "Share of operations and waits by latency, in doublings.".to_owned();
    for (name, bars) in spreads {
        if let Some(bar) = bars.iter().max_by_key(|bar| bar.count) {
            let share = percent(share(bar, bars));
            let upper = whole(bar.upper_us);
            said.push_str(&format!(" {name}: most, {share} %, within {upper} us."));
        }
    }
    said
}

/// A layer: read and written bytes; None is unknown.
struct Layer {
    name: String,
    read: Option<u64>,
    written: Option<u64>,
}

/// Draws the same work on each layer: petal's requests, the database's counts, the device's counts.
pub(super) fn layers(run: &Run) -> Option<Chart> {
    let layers = layers_of(run);
    let known = layers.iter().flat_map(|layer| [layer.read, layer.written]).flatten();
    let most = known.map(|bytes| bytes as f64 / 1e6).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let count = layers.len() as f64;
    let words = layers.iter().enumerate();
    let words = words.map(|(at, layer)| (count - at as f64 - 0.5, layer.name.clone()));
    // Room at the right for the figure at the end of a bar.
    let x = Scale::between(0.0, most * 1.14);
    let x = PlotAxis::new(x, "MB over the run (millions of bytes)");
    let (id, title) = ("layers", "The same work on every layer");
    let texts = (id, title, &*layers_described(&layers));
    let y = PlotAxis::of_words(words, count);
    let mut plot = Plot::new(&ChartFrame::wide(texts, 72.0 + 58.0 * count, x, y));
    for (number, shift) in [0.17, -0.17].into_iter().enumerate() {
        plot.series(number, |plot| {
            for (at, layer) in layers.iter().enumerate() {
                let level = count - at as f64 - 0.5 + shift;
                let bytes = if number == 0 { layer.read } else { layer.written };
                let megabytes = bytes.map(|bytes| bytes as f64 / 1e6);
                let figure = or_dash(megabytes, |mb| decimal(mb, usize::from(mb < 10.0)));
                let ends = megabytes.map(|mb| (0.0, mb));
                draw_bar(plot, ends, (level, 0.145), (Color::Series(number), 0.85), &figure);
            }
        });
    }
    hit_rows(&mut plot, layers.len());
    let row = |layer: &Layer| {
        let megabytes = |bytes: Option<u64>| or_dash(bytes, |bytes| decimal(bytes as f64 / 1e6, 1));
        [layer.name.clone(), megabytes(layer.read), megabytes(layer.written)]
    };
    let area = |(number, name)| ChartSeries::area(number, name, Color::Series(number));
    let note = "In bytes, for requests split and merge on their way down. Reads that the device \
                did not serve came from a cache above it; more than was asked is read-ahead, the \
                log, or another program.";
    let values =
        Table::of_figures("layer | read MB | written MB").with_rows(layers.iter().map(row));
    let chart = Chart::new(id, title, note, Variant::linear(plot.finish()), values);
    Some(chart.with_series(["read", "written"].into_iter().enumerate().map(area)))
}

/// A bar between two values with its figure at the end; a dash if they are unknown.
fn draw_bar(
    plot: &mut Plot,
    ends: Option<(f64, f64)>,
    (level, half): (f64, f64),
    paint: (Color, f64),
    figure: &str,
) {
    let word = |color| Word { size: 11.0, ..Word::new(figure, color) };
    let Some((from, to)) = ends else {
        let (x, y) = plot.at(0.0, level);
        return plot.word(x + 6.0, y, word(Color::Muted));
    };
    plot.rectangle([(from, level + half), (to, level - half)], paint.0, paint.1);
    let (x, y) = plot.at(from.max(to), level);
    plot.word(x + 6.0, y, word(Color::Text));
}

/// Makes each row of the values a band of the plot that the pointer finds.
fn hit_rows(plot: &mut Plot, rows: usize) {
    let [left, top, right, bottom] = plot.edges();
    let height = (bottom - top) / rows as f64;
    for row in 0..rows {
        let from = top + height * row as f64;
        plot.hit_box([left, from, right, from + height], row);
    }
}

/// Draws the time of a mean operation: each part begins where the one above it ends. None if the
/// parts do not add up.
pub(super) fn waterfall(waterfall: &Waterfall) -> Option<Chart> {
    let all_us = waterfall.operation_us.filter(|_| waterfall.adds_up())?;
    let part = |part: &WaterfallPart| (part.part.name(), part.us, look(part.part));
    let gap = ("gap", waterfall.gap_us, (Color::Muted, 0.5));
    let parts: Vec<_> = waterfall.parts.iter().map(part).chain([gap]).collect();
    let count = parts.len() as f64 + 1.0;
    let names = parts.iter().map(|(name, ..)| *name).chain(["operation"]).enumerate();
    let words = names.map(|(at, name)| (count - at as f64 - 0.5, name.to_owned()));
    let (id, title) = ("operation-parts", "Parts of an operation's time");
    let described = format!("{} us: {}.", micros(all_us), waterfall::largest(waterfall));
    // Room at the right for the figure at the end of a bar.
    let x = PlotAxis::new(Scale::between(0.0, all_us * 1.22), "us of a mean operation");
    let y = PlotAxis::of_words(words, count);
    let mut plot = Plot::new(&ChartFrame::wide((id, title, &described), 62.0 + 24.0 * count, x, y));
    let mut begin_us = 0.0;
    for (at, (_, us, paint)) in parts.into_iter().enumerate() {
        let ends = us.map(|us| (begin_us, begin_us + us));
        let figure = or_dash(us, |us| format!("{} us, {} %", micros(us), percent(us / all_us)));
        draw_bar(&mut plot, ends, (count - at as f64 - 0.5, 0.34), paint, &figure);
        begin_us += us.unwrap_or(0.0);
    }
    let figure = format!("{} us", micros(all_us));
    draw_bar(&mut plot, Some((0.0, all_us)), (0.5, 0.34), (Color::Text, 0.8), &figure);
    hit_rows(&mut plot, count as usize);
    let values = waterfall::table(waterfall);
    Some(Chart::new(id, title, waterfall::NOTE, Variant::linear(plot.finish()), values))
}

fn layers_of(run: &Run) -> Vec<Layer> {
    let (rows, io) = (&run.summary.rows, &run.details.io);
    let bytes = |blocks: u64| blocks * run.summary.target.block_size;
    let (device_read, device_written) =
        run.details.device.map(|device| (device.read_bytes, device.write_bytes)).unzip();
    let above = sources::of(run).name;
    let layer = |name: String, read, written| Layer { name, read, written };
    vec![
        layer("visited by petal".into(), Some(bytes(rows.total())), Some(bytes(rows.update))),
        layer(format!("{above}, logical"), io.logical_reads.map(bytes), None),
        layer(format!("{above}, physical"), io.physical_read_bytes, io.physical_write_bytes),
        layer(format!("{above}, log"), io.log_read_blocks.map(bytes), io.redo_bytes),
        layer(format!("device {}", run.details.devices.join(", ")), device_read, device_written),
    ]
}

fn layers_described(layers: &[Layer]) -> String {
    let megabytes = |bytes: Option<u64>| or_dash(bytes, |bytes| decimal(bytes as f64 / 1e6, 0));
    let each = layers.iter().map(|Layer { name, read, written }| {
        format!("{name}: read {} MB, written {} MB.", megabytes(*read), megabytes(*written))
    });
    each.collect::<Vec<_>>().join(" ")
}
