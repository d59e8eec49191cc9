//! Tests for several reports in one file, and for the parts of a page that are skipped.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::samples::{SAMPLES, sample_text};
use crate::source::Source;
use crate::{parse_all, report::Report};

fn all(text: String) -> Vec<Report> {
    let read = parse_all("all.html", Source { text, ..Source::default() });
    read.into_iter().map(|report| report.unwrap_or_else(|error| panic!("{error}"))).collect()
}

#[test]
fn reports_one_after_the_other_are_read_each() {
    let names = ["awr_11g.html", "awr_11g_browser.html", "awrg_19c.html", "awr_19c.html"];
    let texts = names.map(sample_text);
    let alone = texts.map(|text| all(text.to_owned()).remove(0));
    // The session's output is between them, and the elements around a page are missing.
    let bare = texts.map(|text| {
        let begin = text.to_lowercase().find("<h1").unwrap();
        text.get(begin..).unwrap().replace("</html>", "").replace("</HTML>", "")
    });
    for together in [texts.concat(), texts.join("\nSQL> @awrrpt\n"), bare.concat()] {
        let reports = all(together);
        let files: Vec<&str> = reports.iter().map(|report| report.file.as_str()).collect();
        assert_eq!(files, ["all.html", "all.html#2", "all.html#3", "all.html#4"]);
        for (mut report, alone) in reports.into_iter().zip(&alone) {
            report.file.clone_from(&alone.file);
            assert_eq!(&report, alone);
        }
    }
}

#[test]
fn the_end_of_a_report_is_not_that_of_the_next() {
    let text = sample_text("awr_19c.html");
    let cut = text.get(..text.len() / 2).unwrap();
    let whole: Vec<bool> =
        all(format!("{text}{cut}{text}")).iter().map(|report| report.is_whole).collect();
    assert_eq!(whole, [true, false, true]);
}

#[test]
fn a_title_a_cell_and_a_link_begin_no_report() {
    let text = sample_text("awr_11g.html")
        .replace("<title>AWR Report", "<title>WORKLOAD REPOSITORY report for")
        .replacen("<p />", "<p /><ul><li><a href='#x'>WORKLOAD REPOSITORY report for</a></ul>", 1)
        .replacen("<td", "<td>WORKLOAD REPOSITORY report for</td><td", 1);
    assert_eq!(reports(&text), [text.as_str()]);
}

/// Returns pieces of HTML to insert between the tags of a page.
fn markup() -> Vec<&'static str> {
    "<|>|\"|'|&|/|=| |\n|\r|é|<td>|</td>|<TD>|<tr>|<table>|</table>|<h3>|<li>|<br>|<p/>\
     |<!--|-->|<style>|</style>|<script>|<![CDATA[|<td colspan=2>|<TD COLSPAN='3'>|&#160;"
        .split('|')
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn text_that_is_left_out_changes_nothing(
        sample in 0..5usize,
        damages in vec((0.0..1.0f64, select(markup())), 0..4),
    ) {
        let mut texts = SAMPLES.iter().filter(|(name, _)| name.ends_with("html"));
        let mut text = texts.nth(sample).unwrap().1.to_owned();
        for (at, markup) in damages {
            let ends: Vec<usize> = text.match_indices('>').map(|(at, _)| at + 1).collect();
            text.insert_str(ends[(at * ends.len() as f64) as usize], markup);
        }
        let (page, whole) = (page(&text), page_of(&text, false));
        prop_assert_eq!(page.tables, whole.tables);
        prop_assert_eq!((page.heading, page.is_ended), (whole.heading, whole.is_ended));
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]
    #[test]
    fn a_tag_ends_where_the_tokenizer_ends_it(attributes in "[ a=\"'/>n]{0,16}") {
        let rows = format!("<tr><td{attributes}>Redo size:<td>1<tr><td>Rollbacks:<td title=\"\">2");
        let known = "<h3>Load Profile</h3><table><tr><th>Name<th>Per Second";
        let text = format!("{known}{rows}</table>'>\">{known}<tr><td>Redo size:<td>3</table>");
        prop_assert_eq!(page(&text).tables, page_of(&text, false).tables);
    }
}

#[test]
fn rows_that_are_left_out_change_nothing() {
    let other = "<h3>SQL ordered by Gets</h3><table><tr><th>Gets<th>SQL Text";
    let rows = "<tr><td>1<td>select 1<tr><td>2<td>select a<b from t &lt; 2</tr>";
    let known = "<h3>Load Profile</h3><table><tr><th><th>Per Second<tr><td>Redo size:<td>1</table>";
    for (between, tables) in [
        ("</table>", 1),
        // A truncated table, a table within a cell, and a heading in the rows.
        ("", 1),
        ("<tr><td>", 1),
        ("<tr><td></table></table>", 1),
        ("<!-- </table> <h3>Load Profile</h3><table> --></table>", 1),
    ] {
        let text = format!("{other}{rows}{between}{known}");
        let page = page(&text);
        assert_eq!(page.tables.len(), tables, "{text}");
        assert_eq!(page.tables, page_of(&text, false).tables, "{text}");
    }
}
