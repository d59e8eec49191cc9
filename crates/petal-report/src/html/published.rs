//! Results of the method that people published, next to a gallery's own: each one's description,
//! and the reasons against a comparison.

use super::super::charts::{
    Chart, ChartFrame, Color, Marker, Plot, PlotAxis, Scale, Variant, Word,
};
use super::super::numbers::{UNKNOWN, micros, or_dash, rate};
use crate::table::Table;

const TABLE: &str = include_str!("published.csv");
/// A row is a name, and the mark below it, so that a telephone shows both.
const ROW_PX: f64 = 36.0;
const NAME_PX: f64 = 16.0;
const WIDTH_PX: f64 = 420.0;
const OWN: &str = "this gallery";
const NOTE: &str = "As published, each by its own rules, on other hardware, databases and years: a \
                    scale to read by, no ranking. The values show the limits of each.";

/// A published result: a row of the table, by the names of its columns.
#[derive(serde::Deserialize)]
pub(super) struct Published {
    #[serde(rename = "result")]
    name: String,
    mix: String,
    sessions: String,
    pub(super) piops: f64,
    read_us: Option<f64>,
    caveat: String,
}

/// Returns all results, in the order of the table.
pub(super) fn all() -> Vec<Published> {
    csv::Reader::from_reader(TABLE.as_bytes()).deserialize().flatten().collect()
}

/// A strip: a row for each result, and one for the peaks of the gallery's own lines.
pub(super) fn strip(own: &[(String, f64)]) -> Chart {
    let published = all();
    let count = published.len() as f64 + 1.0;
    let middle = |at: usize| count - at as f64 - 0.7;
    let names = published.iter().map(|result| format!("{}, {}", result.name, result.mix));
    let names: Vec<String> = std::iter::once(OWN.to_owned()).chain(names).collect();
    let (id, title) = ("published", "Physical I/O and published figures");
    let all_piops = published.iter().map(|result| result.piops);
    let x = Scale::log(all_piops.chain(own.iter().map(|(_, piops)| *piops)));
    let all_from = x.from();
    let x = PlotAxis::new(x, "physical I/O requests per second");
    let said = "The most requests per second of each published result and of each line here.";
    let (height, y) = (46.0 + ROW_PX * count, PlotAxis::of_words([], count));
    let frame = ChartFrame::wide((id, title, said), height, x, y);
    let mut plot = Plot::new(&ChartFrame { width: WIDTH_PX, ..frame });
    let left = plot.edges()[0];
    for (at, name) in names.iter().enumerate() {
        let (_, y) = plot.at(all_from, middle(at));
        plot.word(left, y - NAME_PX, Word::new(name, Color::Muted));
    }
    for (row, (_, piops)) in own.iter().enumerate() {
        let at = (*piops, middle(0));
        plot.marker(at, Marker::Circle, Color::Series(0), false);
        plot.hit_point(at, row, "");
    }
    for (number, result) in published.iter().enumerate() {
        let at = (result.piops, middle(number + 1));
        plot.marker(at, Marker::Diamond, Color::Series(1), true);
        plot.hit_point(at, own.len() + number, "");
    }
    let of_own = own.iter().map(|(name, piops)| {
        let unknown = || UNKNOWN.to_owned();
        [name.clone(), unknown(), unknown(), rate(*piops), unknown(), OWN.to_owned()]
    });
    let of_published = published.iter().map(|result| {
        let Published { name, mix, sessions, piops, read_us, caveat } = result;
        let sessions = Some(sessions).filter(|sessions| !sessions.is_empty());
        [
            name.clone(),
            mix.clone(),
            or_dash(sessions, String::clone),
            rate(*piops),
            or_dash(*read_us, micros),
            caveat.clone(),
        ]
    });
    let heading = "result | mix | sessions | requests/s | read us | caveat";
    let values = Table::of_figures(heading).with_rows(of_own.chain(of_published));
    let variants = vec![Variant { name: "log", svg: plot.finish() }];
    Chart::new(id, title, NOTE, variants, values).narrow()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_a_result_with_a_caveat() {
        let all = all();
        assert_eq!(all.len(), TABLE.lines().count() - 1);
        assert!(all.iter().all(|result| result.piops > 1000.0 && !result.caveat.is_empty()));
        let drawn = strip(&[("a line".to_owned(), 5000.0)]);
        assert_eq!(drawn.values.rows().len(), all.len() + 1);
        assert!(
            drawn.values.texts(1)[5].contains("one run of each"),
            "{:?}",
            drawn.values.texts(1)
        );
    }
}
