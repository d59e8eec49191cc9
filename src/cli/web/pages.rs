//! Pages of records, made when a browser asks for them.

use std::path::{Path, PathBuf};

use petal_judge::petals::Petals;
use petal_record::{latency_log, sweep};
use petal_report::html;
use petal_settings::printable::printable;

use petal_web::http::HttpAnswer;

use crate::cli::failure::CommandError;
use crate::cli::record_kinds;

const HTML: &str = "text/html; charset=utf-8";

pub fn failed(error: CommandError) -> HttpAnswer {
    HttpAnswer::refusal("500 Internal Server Error", &printable(&error.message))
}

pub fn page_of(
    what: &str,
    page: Result<String, html::HtmlError>,
) -> Result<HttpAnswer, HttpAnswer> {
    let page = page.map_err(|error| failed(CommandError::failed(what)(error)))?;
    Ok(HttpAnswer::new(HTML, printable(&page).as_bytes()))
}

/// The folder of a sweep's cell, by the name that its index has.
pub fn cell_of(sweep: &Path, name: &str) -> Result<PathBuf, HttpAnswer> {
    let index = sweep::index(sweep).map_err(|error| failed(error.into()))?;
    let found = index.cells.iter().find(|cell| cell.folder == name);
    let cell = found.ok_or_else(|| HttpAnswer::not_found("the sweep has no such cell"))?;
    Ok(sweep.join(&cell.folder))
}

/// The page that `report.html` of the record is.
pub fn report_of(path: &Path) -> Result<HttpAnswer, HttpAnswer> {
    let made = || -> Result<_, CommandError> {
        Ok(if sweep::is_one(path) {
            let swept = sweep::load(path)?;
            html::sweep(&swept, &Petals::of(&swept.observations()))
        } else if let Some(kind) = record_kinds::of(path) {
            kind.page(path)?
        } else {
            html::run(&petal_report::load(path)?, &latency_log::spreads(path))
        })
    };
    page_of("the report", made().map_err(failed)?)
}

/// The page of work that goes on, which a browser fills from `events` next to it.
pub fn live(title: &str) -> Result<HttpAnswer, HttpAnswer> {
    page_of("the page", petal_web::live::live(title))
}
