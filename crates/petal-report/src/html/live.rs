//! The page of work that goes on. It begins empty: a browser fills it from the events of its server,
//! which hold the record's own page, as it is then.

use super::HtmlError;
use super::page::Page;

/// The page of the work that `title` names, until the record has a page.
pub fn live(title: &str) -> Result<String, HtmlError> {
    let page = Page {
        title: title.to_owned(),
        heading: title.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        is_live: true,
        ..Page::default()
    };
    page.render()
}
