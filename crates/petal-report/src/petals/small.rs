//! Petals in small, many next to each other: on shared axes, without words next to the points.

use super::super::charts::{Chart, ChartFrame, ChartUse, Plot, PlotAxis, Scale, Variant};
use super::{Drawing, PIOPS, Petals, captions, joined};
use petal_judge::petals::PetalLine;

/// Axes on which all of these are comparable.
pub struct SharedAxes {
    x: Scale,
    y: Scale,
}

impl SharedAxes {
    pub fn of<'a>(all: impl Iterator<Item = &'a Petals> + Clone) -> Self {
        let dots = all.flat_map(|petals| {
            let drawing = Drawing::new(petals, &PIOPS);
            drawing.dots().map(|dot| (dot.x, dot.y)).collect::<Vec<_>>()
        });
        let (x, y): (Vec<f64>, Vec<f64>) = dots.unzip();
        Self { x: Scale::log(x), y: Scale::log(y) }
    }

    /// Returns the points of a line, as shares of the axes, and the index of its peak.
    pub fn places(&self, line: &PetalLine) -> (Vec<(f64, f64)>, Option<usize>) {
        let mut peak = None;
        let mut places = Vec::new();
        for (at, point) in line.points.iter().enumerate() {
            let (Some(x), Some(y)) = (&point.piops, &point.read_us) else { continue };
            if line.peak == Some(at) {
                peak = Some(places.len());
            }
            places.push((self.x.share(x.mean), self.y.share(y.mean)));
        }
        (places, peak)
    }

    /// Builds one of the small charts, with the table of its values.
    pub fn figure(&self, petals: &Petals, id: &str, title: &str, note: String) -> Chart {
        let drawing = Drawing::new(petals, &PIOPS);
        let mut plot = Plot::new(&ChartFrame {
            id,
            title,
            description: &captions::description(petals, &PIOPS),
            width: 360.0,
            height: 250.0,
            x: PlotAxis::new(self.x.clone(), "PIOPS"),
            y: PlotAxis::new(self.y.clone(), "single-block read, us").with_room(52.0),
            shown: ChartUse::Page,
        });
        for (number, curve) in drawing.curves.iter().enumerate() {
            let (color, dash) = (curve.look.color, curve.look.dash);
            plot.series(number, |plot| {
                plot.dashed("", dash, |plot| {
                    for run in joined(&curve.dots) {
                        let points: Vec<_> = run.iter().map(|dot| (dot.x, dot.y)).collect();
                        plot.line(&points, color, 1.8);
                    }
                });
                for dot in curve.dots.iter().flatten() {
                    plot.marker((dot.x, dot.y), curve.look.marker, color, dot.is_struck_out);
                    if curve.line.peak == Some(dot.position) {
                        plot.ring((dot.x, dot.y), color);
                    }
                    plot.hit_point((dot.x, dot.y), dot.row, "");
                }
            });
        }
        let variants = vec![Variant { name: "log", svg: plot.finish() }];
        let chart = Chart::new(id, title, note, variants, captions::values(petals, &PIOPS));
        chart.with_series(drawing.series()).narrow()
    }
}
