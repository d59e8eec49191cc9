//! The page of a folder's records: to search, to open, and to tick for a comparison. A server of
//! petal's own answers its links.

use petal_judge::by_key;
use petal_record::headline::Validity;
use petal_report::html::HtmlError;
use petal_report::html::page::{Page, Section, moment};
use petal_report::listed::{ListedRecord, differing};
use petal_report::numbers::{counted, micros, or_dash, rate};
use petal_report::table::{Cell, Table};

const READING: [&str; 2] = [
    "PIOPS are the headline of a run, the highest peak of a sweep, and the most reads per second of a \
     calibration. A dash is unknown. Read the verdict first: a cache is not the storage.",
    "Tick two runs or sweeps and compare them, as petal compare A B does. Tick any number to see their \
     petals on the same axes.",
];
/// Actions on the ticked records: an address, and a button's words.
const ACTIONS: [(&str, &str); 2] =
    [("compare", "Compare the two ticked"), ("petals", "Petals of the ticked")];

/// Shows the records below `folder`, and a line for each thing that is not listed.
pub fn list(
    folder: &str,
    listed: &[ListedRecord],
    problems: &[String],
) -> Result<String, HtmlError> {
    let keys = differing(listed);
    let mut table = Table::headed(
        "record | verdict | PIOPS: | state | kind | read us: | sessions | settings that differ | \
         database | target | host | started | figures | workbook",
    );
    for record in listed {
        let file = |name: &str, text: &str| match record.has_table() {
            true => Cell { link: Some(at(record, name)), ..text.into() },
            false => "".into(),
        };
        table.row([
            Cell {
                tick: Some(record.key.clone()),
                link: Some(at(record, "")),
                ..record.name.clone().into()
            },
            record.verdict.clone().into(),
            or_dash(record.piops, rate).into(),
            record.state.clone().into(),
            record.kind.into(),
            or_dash(record.read_us, micros).into(),
            record.sessions.clone().into(),
            record.setting(&keys).into(),
            record.database.clone().into(),
            record.target.clone().into(),
            record.host.clone().into(),
            moment(&record.measured).into(),
            file("figures.csv", "CSV"),
            if cfg!(feature = "xlsx") { file("workbook.xlsx", "XLSX") } else { "".into() },
        ]);
    }
    let page = Page {
        title: "petal serve".to_owned(),
        heading: "Records".to_owned(),
        answer: answer(listed),
        facts: vec![folder.to_owned(), counted(listed.len() as u64, "record")],
        sections: vec![
            Section::new("records", "Every record", "sort by a name, search above")
                .actions(&ACTIONS)
                .table("", table.sortable()),
            Section::new("problems", "Not listed", "").notes(problems),
            Section::new("reading", "How to read this", "").notes(READING),
        ],
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Page::default()
    };
    page.render()
}

/// The verdicts of the runs and sweeps, each with its number.
fn answer(listed: &[ListedRecord]) -> String {
    let verdicts = listed.iter().filter_map(|record| Some((record.validity?, ())));
    let words = |validity| match validity {
        Validity::Valid => "valid",
        Validity::NotStorage => "not a storage test",
        Validity::Invalid => "invalid",
    };
    let mut counts = by_key(verdicts);
    counts.sort_by_key(|(validity, _)| words(*validity));
    let counts =
        counts.iter().rev().map(|(validity, all)| format!("{} {}", words(*validity), all.len()));
    let counts = counts.collect::<Vec<_>>().join(", ");
    if counts.is_empty() { counts } else { format!("Verdicts: {counts}.") }
}

fn at(record: &ListedRecord, name: &str) -> String {
    format!("record/{}/{name}", record.key)
}
