//! Reports of loads whose number of sessions is not known: a point for each, which no line joins.

use super::super::charts::{
    Chart, ChartFrame, ChartSeries, ChartUse, Color, Marker, Plot, PlotAxis, Scale, Variant,
    Weight, Word,
};
use super::super::distinct;
use super::super::numbers::{micros, rate};
use super::PIOPS;
use crate::table::Table;

const ID: &str = "reports";
const TITLE: &str = "Single-block read latency by physical I/O, a point for each report";
const NOTE: &str = "Each point is a report. How many sessions ran is not known, so that no line joins \
                    them, and neither a peak nor a knee can be seen.";
/// Highest number of points that are named; with more, the table and the pointer identify them.
const NAMED_MAX: usize = 40;
const NAME_SIZE: f64 = 11.0;

#[derive(Debug, Clone, PartialEq)]
pub struct ScatterPoint {
    /// Group of points of the same color.
    pub group: String,
    pub name: String,
    pub piops: f64,
    pub read_us: f64,
}

pub fn svg(spots: &[ScatterPoint]) -> String {
    draw(spots, ChartUse::Alone, false)
}

/// Builds the chart of a page: linear and log, and the table of values.
pub fn figure(spots: &[ScatterPoint]) -> Chart {
    let series = groups(spots).into_iter().enumerate().map(|(number, group)| {
        let mark = Some((Marker::of(number), false));
        ChartSeries::line(number, group, Color::Series(number), "", mark)
    });
    let row = |ScatterPoint { group, name, piops, read_us }: &ScatterPoint| {
        [group.clone(), name.clone(), rate(*piops), micros(*read_us)]
    };
    let values = Table::of_figures("database | report | PIOPS | single-block read us");
    let values = values.with_rows(spots.iter().map(row));
    let variants = Variant::linear_and_log(|is_log| draw(spots, ChartUse::Page, is_log));
    Chart::new(ID, TITLE, NOTE, variants, values).with_series(series)
}

fn groups(spots: &[ScatterPoint]) -> Vec<&str> {
    distinct(spots.iter().map(|spot| spot.group.as_str()))
}

fn draw(spots: &[ScatterPoint], shown: ChartUse, is_log: bool) -> String {
    let x = Scale::over(spots.iter().map(|spot| spot.piops), is_log);
    let y = Scale::over(spots.iter().map(|spot| spot.read_us), is_log);
    let id = format!("{ID}-{}", if is_log { "log" } else { "linear" });
    let description = format!("{TITLE}; {} reports.", spots.len());
    let height = if shown == ChartUse::Alone { 610.0 } else { 580.0 };
    let (x, y) = (PlotAxis::new(x, PIOPS.x_title), PlotAxis::new(y, PIOPS.y_title));
    let frame = ChartFrame::wide((&id, TITLE, &description), height, x, y);
    let mut plot = Plot::new(&ChartFrame { shown, ..frame });
    let mut labels = plot.labels();
    for spot in spots {
        let (x, y) = plot.at(spot.piops, spot.read_us);
        labels.marker(x, y, 5.0);
    }
    for (number, group) in groups(spots).into_iter().enumerate() {
        let color = Color::Series(number);
        plot.series(number, |plot| {
            let own = spots.iter().enumerate().filter(|(_, spot)| spot.group == group);
            for (at, spot) in own {
                let place = (spot.piops, spot.read_us);
                plot.marker(place, Marker::of(number), color, false);
                if spots.len() <= NAMED_MAX
                    && let Some((x, y)) =
                        labels.place(plot.at(place.0, place.1), &spot.name, NAME_SIZE, Weight::May)
                {
                    let word = Word { size: NAME_SIZE, ..Word::new(&spot.name, Color::Text) };
                    plot.word(x, y, word);
                }
                let said = format!(
                    "{}, {}: {} PIOPS, {} us",
                    spot.group,
                    spot.name,
                    rate(spot.piops),
                    micros(spot.read_us)
                );
                plot.hit_point(place, at, &said);
            }
        });
    }
    plot.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(group: &str, name: &str, piops: f64, read_us: f64) -> ScatterPoint {
        ScatterPoint { group: group.into(), name: name.into(), piops, read_us }
    }

    #[test]
    fn each_report_is_a_point_of_its_databases_colour() {
        let spots = [
            spot("ROSE", "monday.html", 1200.0, 480.0),
            spot("LILY", "tuesday.html", 2400.0, 900.0),
            spot("ROSE", "friday.html", 4800.0, 510.0),
        ];
        let drawn = svg(&spots);
        for reported in
            ["<title>ROSE, monday.html: 1,200 PIOPS, 480.0 us<", "tuesday.html", "friday.html"]
        {
            assert!(drawn.contains(reported), "{reported}: {drawn}");
        }
        assert_eq!(drawn.matches("class=\"series\"").count(), 2);
        let figure = figure(&spots);
        assert_eq!(
            (figure.series.len(), figure.values.rows().len(), figure.variants.len()),
            (2, 3, 2)
        );
    }
}
