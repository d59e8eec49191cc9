//! The page of work that goes on. It begins empty: a browser fills it from the events of its server,
//! which hold the record's own page, as it is then.

use petal_report::html::HtmlError;
use petal_report::html::page::Page;

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

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;
    use petal_record::latency_log::Spreads;
    use petal_report::html;

    #[test]
    fn only_the_page_of_work_that_goes_on_asks_its_server() {
        let page = live("<petal> run").unwrap().replace("&#39;", "'");
        assert!(page.contains("; connect-src 'self'; ") && page.contains("new EventSource"));
        assert!(page.contains("&#60;petal&#62; run") && !page.contains("fetches nothing"));
        let other = html::run(&fixture::mixed_run(), &Spreads::new()).unwrap();
        assert!(!other.contains("connect-src") && !other.contains("EventSource"));
    }
}
