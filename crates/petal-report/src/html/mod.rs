//! report.html: one file that opens anywhere, fetches nothing and runs no script but its own. A
//! page of a run, of a sweep, of a comparison, of many records,
//! or of petals from elsewhere; the parts of a page are in [`page`], the values of its charts in [`time`], [`bars`]
//! and [`calibrated`].

mod bars;
mod calibrated;
mod compare;
mod fit;
mod gallery;
pub mod page;
mod published;
mod run;
mod sweep;
mod time;
pub mod traces;

pub use compare::comparison;
pub use fit::{fit, fit_svg};
pub use gallery::gallery;
pub use page::{link, moment, policy};
pub use run::run;
pub use sweep::{petals, reports, sweep};

pub const NAME: &str = "report.html";

/// A page that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the page could not be written: {0}")]
pub struct HtmlError(#[from] askama::Error);

#[cfg(test)]
mod tests;
