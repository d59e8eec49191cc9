//! The parts that every page is made of: a heading, tiles, findings, and sections of charts, tables
//! and facts. One template shows all of them and escapes every text; only the drawings, which
//! escape their own, are taken as they are.

use std::borrow::Cow;
use std::collections::BTreeSet;

use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};

use super::super::charts::{Chart, palette};
use super::super::numbers::{UNKNOWN, counted};
use super::super::table::Table;
use super::HtmlError;
use petal_judge::distinct;
use petal_record::headline::{Validity, Verdict};
use petal_record::{Finding, Severity, Status, as_text};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// The script of a page that follows work.
const LIVE_SCRIPT: &str = include_str!("live.js");

#[derive(Debug, Default)]
pub struct Page {
    pub title: String,
    pub heading: String,
    /// The answer in a sentence or two, if the page has one.
    pub answer: String,
    /// Facts under the heading, in one line.
    pub facts: Vec<String>,
    /// The status and the gravest findings, each with its class: `good`, `warning`, `error` or none.
    pub status: Vec<(&'static str, String)>,
    pub tiles: Vec<Tile>,
    /// The line to paste.
    pub line: Option<String>,
    /// The verdict in a sentence, and the command to type next; empty without one.
    pub verdict: String,
    pub next: String,
    pub sections: Vec<Section>,
    pub version: String,
    /// A browser fills the page from its server's events.
    pub is_live: bool,
}

#[derive(Debug)]
pub struct Tile {
    pub label: &'static str,
    pub value: String,
    pub unit: &'static str,
    pub layer: String,
    /// Page with more about it, by [`link`]; empty without one.
    pub more: String,
    /// True if the value is words instead of a number.
    pub is_text: bool,
    /// True if the figure is no result.
    pub is_struck: bool,
}

#[derive(Debug)]
pub struct ShownFinding {
    pub finding: Finding,
    /// Place where it was found, if not everywhere.
    pub place: String,
}

#[derive(Debug)]
pub struct Section {
    /// Unique in its page.
    pub id: Cow<'static, str>,
    pub title: Cow<'static, str>,
    /// Layer of these figures.
    pub layer: &'static str,
    pub parts: Vec<SectionPart>,
}

#[derive(Debug)]
pub enum SectionPart {
    Figure(Chart),
    /// A chart of many: a browser builds it when it comes near the window.
    FigureOnDemand(Chart),
    Table(Table),
    Facts(Vec<(String, String)>),
    Notes(Vec<String>),
    /// Buttons for the rows that are ticked: an address and words each.
    Actions(&'static [(&'static str, &'static str)]),
    Findings(Vec<ShownFinding>),
}

impl Section {
    pub fn new(
        id: impl Into<Cow<'static, str>>,
        title: impl Into<Cow<'static, str>>,
        layer: &'static str,
    ) -> Self {
        Self { id: id.into(), title: title.into(), layer, parts: Vec::new() }
    }

    fn with(mut self, part: SectionPart) -> Self {
        self.parts.push(part);
        self
    }

    pub fn charts(mut self, charts: impl IntoIterator<Item = Chart>) -> Self {
        self.parts.extend(charts.into_iter().map(SectionPart::Figure));
        self
    }

    pub fn charts_on_demand(mut self, charts: impl IntoIterator<Item = Chart>) -> Self {
        self.parts.extend(charts.into_iter().map(SectionPart::FigureOnDemand));
        self
    }

    /// A table under its caption; one without rows is left out, as are all further kinds of parts.
    pub fn table(self, caption: impl Into<String>, table: Table) -> Self {
        match table.is_empty() {
            true => self,
            false => self.with(SectionPart::Table(table.captioned(caption))),
        }
    }

    pub fn folded(self, caption: impl Into<String>, table: Table) -> Self {
        self.table(caption, table.folded())
    }

    pub fn facts(self, facts: Vec<(String, String)>) -> Self {
        if facts.is_empty() { self } else { self.with(SectionPart::Facts(facts)) }
    }

    pub fn notes(self, notes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let notes: Vec<String> = notes.into_iter().map(Into::into).collect();
        if notes.is_empty() { self } else { self.with(SectionPart::Notes(notes)) }
    }

    pub fn actions(self, actions: &'static [(&'static str, &'static str)]) -> Self {
        self.with(SectionPart::Actions(actions))
    }

    pub fn findings(self, findings: Vec<ShownFinding>) -> Self {
        self.with(SectionPart::Findings(findings))
    }
}

impl Tile {
    /// A figure with its unit, and the layer that it is from.
    pub fn figure(
        label: &'static str,
        value: String,
        unit: &'static str,
        layer: impl Into<String>,
    ) -> Self {
        let (layer, more) = (layer.into(), String::new());
        Self { label, value, unit, layer, more, is_text: false, is_struck: false }
    }

    pub fn words(label: &'static str, words: &str) -> Self {
        Self { is_text: true, ..Self::figure(label, words.to_owned(), "", "") }
    }
}

impl ShownFinding {
    pub fn of(finding: &Finding) -> Self {
        Self { finding: finding.clone(), place: String::new() }
    }

    fn evidence(&self) -> impl Iterator<Item = (&str, String)> {
        let evidence = self.finding.evidence.iter();
        evidence.map(|(name, value)| (name.as_str(), as_text(value, UNKNOWN)))
    }
}

pub fn class(status: Status) -> &'static str {
    match status {
        Status::Failed | Status::Incomplete => "error",
        Status::Interrupted => "warning",
        _ => "good",
    }
}

/// The status of runs behind each verdict that is not valid: it is shown as good only if all are.
pub fn status_after(
    verdicts: impl IntoIterator<Item = Verdict>,
    status: Status,
    words: String,
) -> Vec<(&'static str, String)> {
    let invalid = verdicts.into_iter().filter_map(|verdict| match verdict.validity {
        Validity::Valid => None,
        Validity::NotStorage => Some(("warning", verdict.words)),
        Validity::Invalid => Some(("error", verdict.words)),
    });
    let mut all = distinct(invalid);
    let class = match class(status) {
        "good" if !all.is_empty() => "",
        class => class,
    };
    all.push((class, words));
    all
}

/// Counts errors and warnings by their ids, each with its class: `1 error`, `2 warnings`.
pub fn graves<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Vec<(&'static str, String)> {
    let all: BTreeSet<(Severity, &str)> =
        findings.into_iter().map(|finding| (finding.severity, finding.id.as_str())).collect();
    let of = |severity: Severity| {
        let count = all.iter().filter(|(own, _)| *own == severity).count() as u64;
        (count > 0).then(|| (severity.name(), counted(count, severity.name())))
    };
    [Severity::Error, Severity::Warning].into_iter().filter_map(of).collect()
}

/// A time of RFC 3339 to its second, as people write it; anything else as it is.
pub fn moment(text: &str) -> String {
    let is_one = text.ends_with('Z') && text.is_ascii() && text.as_bytes().get(10) == Some(&b'T');
    match text.get(..19).and_then(|text| text.split_once('T')).filter(|_| is_one) {
        Some((day, time)) => format!("{day} {time} UTC"),
        None => text.to_owned(),
    }
}

/// A path as a link: only the unreserved letters stay, so that it never names a scheme.
pub fn link(path: &str) -> String {
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encoded: String = path
        .bytes()
        .map(|byte| if kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("./{}", encoded.trim_start_matches('/'))
}

#[derive(Template)]
#[template(path = "page.html")]
struct Markup<'a> {
    page: &'a Page,
    policy: String,
    style: String,
    script: &'static str,
    live_script: &'static str,
}

impl Page {
    fn has_verdict(&self) -> bool {
        self.line.is_some() || !self.tiles.is_empty()
    }

    /// The whole file, without sections that have no part. Nothing in it is fetched; its policy
    /// admits only its own script and style.
    pub fn render(mut self) -> Result<String, HtmlError> {
        self.sections.retain(|section| !section.parts.is_empty());
        // Numbers are a row, and sentences have the full width below it.
        self.tiles.sort_by_key(|tile| tile.is_text);
        let is_form = |part: &SectionPart| matches!(part, SectionPart::Actions(_));
        let has_form = self.sections.iter().flat_map(|section| &section.parts).any(is_form);
        Ok(Markup {
            page: &self,
            policy: policy(has_form, self.is_live),
            style: style(),
            script: SCRIPT,
            live_script: LIVE_SCRIPT,
        }
        .render()?)
    }
}

fn style() -> String {
    format!("{}{STYLE}", palette::css())
}

/// The content security policy of every page: its own scripts and style, and nothing that is fetched.
/// Only a page with a form, or of work that goes on, may ask its own server.
pub fn policy(has_form: bool, is_live: bool) -> String {
    let hash = |text: &str| BASE64.encode(Sha256::digest(text));
    let of_live = match is_live {
        true => format!(" 'sha256-{}'; connect-src 'self'", hash(LIVE_SCRIPT)),
        false => String::new(),
    };
    format!(
        "default-src 'none'; img-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'{of_live}; \
         base-uri 'none'; form-action '{}'",
        hash(&style()),
        hash(SCRIPT),
        if has_form { "self" } else { "none" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_to_the_second() {
        assert_eq!(moment("2026-11-20T13:42:07.123456789Z"), "2026-11-20 13:42:07 UTC");
        assert_eq!(moment("2026-11-20T13:42:07Z"), "2026-11-20 13:42:07 UTC");
        assert_eq!(["yesterday", "", "Z"].map(moment), ["yesterday", "", "Z"]);
    }

    #[test]
    fn a_link_stays_in_its_folder_and_names_no_scheme() {
        assert_eq!(link("cells/1-u20 a/report.html"), "./cells/1-u20%20a/report.html");
        assert_eq!(link("javascript:alert(1)"), "./javascript%3Aalert%281%29");
        assert_eq!(link("//host/x\"<"), "./host/x%22%3C");
    }
}
