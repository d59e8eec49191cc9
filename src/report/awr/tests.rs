use super::*;
use crate::awr::derived::COLUMNS;
use crate::awr::tests::sample;

fn reports() -> Vec<Report> {
    let mut first = sample("sp_11g.txt");
    first.factors = vec![("sessions".into(), "32".into())];
    vec![first, sample("awr_19c.html"), sample("sp_9i.txt")]
}

#[test]
fn the_table() {
    insta::assert_snapshot!(table::render(&reports()), @"");
}

#[test]
fn csv_of_all_columns() {
    let text = csv::render(&reports()).unwrap();
    insta::assert_snapshot!(text, @"");
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().unwrap().clone();
    let unique: std::collections::BTreeSet<&str> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    assert!(reader.records().all(|row| row.unwrap().len() == names.len()));
}

#[test]
fn the_columns_of_awr_info() {
    insta::assert_snapshot!(info::render(&reports()), @"");
}

#[test]
fn the_table_of_events() {
    insta::assert_snapshot!(events::render(&reports()), @"");
}

#[test]
fn every_figure_is_explained() {
    insta::assert_snapshot!(explain::render(&[sample("awr_12c.txt")]), @"");
}

#[test]
fn json_has_the_promised_shape() {
    let text = json(&reports()).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let report = &all["reports"][0];
    for place in [
        "/file",
        "/kind",
        "/header/db",
        "/header/begin_snap",
        "/header/elapsed_min",
        "/load_profile/redo_bytes/per_second",
        "/load_profile/db_cpu/per_transaction",
        "/top_events/0/avg_us",
        "/foreground_events/0/waits",
        "/background_events/0/time_s",
        "/histograms/0/buckets/0/share",
        "/statistics/user commits/total",
        "/tablespaces/0/reads",
        "/findings/0/id",
    ] {
        assert!(report.pointer(place).is_some(), "{place} is not there");
    }
    let total = &report["statistics"]["physical read total bytes"]["total"];
    let expected = serde_json::json!({
        "value": 220_369_510_400_i64,
        "as_printed": "220,369,510,400",
        "section": "Instance Activity Stats",
    });
    assert_eq!(total, &expected);
    // A database without a name, and a column that was too narrow.
    assert!(report["header"]["db"].is_null());
    assert!(report["statistics"]["physical read total bytes"]["per_transaction"].is_null());
}

#[test]
fn the_page_describes_every_column() {
    let page = include_str!("../../../docs/awr.md");
    for column in COLUMNS {
        let line = format!("| `{}` | {} |", column.name, column.unit);
        assert!(page.contains(&line), "docs/awr.md has no line {line}");
    }
    for name in info::NAMES {
        assert!(page.contains(&format!("| {name} |")), "docs/awr.md has no line for {name}");
    }
}
