//! Charts as SVG: plotters draws them, over scales and colors of petal's own. A chart knows values
//! and words, never records; which figures it shows is for [`super::petals`] and [`super::html`].

pub mod figure;
mod labels;
pub mod marker;
pub mod palette;
pub mod plot;
pub mod scale;
mod svg;

pub use figure::{Figure, Series, Variant};
pub use labels::{LINE, Labels, Weight};
pub use marker::Marker;
pub use palette::Color;
pub use plot::{Axis, Frame, Plot, Use};
pub use scale::Scale;
pub use svg::escape;

/// A drawing that could not be made; the crate's own words.
#[derive(Debug, thiserror::Error)]
#[error("the chart {title:?} could not be drawn: {why}")]
pub struct ChartError {
    pub title: String,
    pub why: String,
}
