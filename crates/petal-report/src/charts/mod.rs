//! Charts as SVG, over scales and colors of petal's own. A chart knows values and words, never
//! records; which figures it shows is for [`super::petals`] and [`super::html`].

pub mod chart;
mod labels;
pub mod marker;
pub mod palette;
pub mod plot;
pub mod scale;
mod svg;

pub use chart::{Chart, ChartSeries, Variant};
pub use labels::{Labels, Weight};
pub use marker::Marker;
pub use palette::Color;
pub use plot::{ChartFrame, ChartUse, Plot, PlotAxis, Word};
pub use scale::Scale;
pub(crate) use svg::escape;
