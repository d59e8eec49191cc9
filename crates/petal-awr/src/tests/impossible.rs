//! Tests for values that cannot be: they are unknown, and a note says so.

use super::*;

const EUROPEAN: &str = "\
Foreground Wait Events           DB/Inst: X/x  Snaps: 1-2

                                                             Avg
                                        %Time Total Wait    wait    Waits   % DB
Event                             Waits -outs   Time (s)    (ms)     /txn   time
-------------------------- ------------ ----- ---------- ------- -------- ------
db file sequential read         520.207     0      4.568       9      2,8   71,3
log file sync                   182.738     0         94       1      1,0    1,5
          -------------------------------------------------------------
";

#[test]
fn a_decimal_comma_of_an_excerpt_is_refused() {
    let error = of_text(EUROPEAN).unwrap_err().to_string();
    assert!(error.contains("prints 2,8, with a decimal comma"), "{error}");
    let points = EUROPEAN.replace(',', ";").replace('.', ",").replace(';', ".");
    assert_eq!(number(&of_text(&points).unwrap().foreground_events[0].waits), Some(520_207.0));
}

fn has_note(report: &Report, note: &str) -> bool {
    report.notes.iter().any(|it| it.contains(note))
}

#[test]
fn a_count_has_no_fraction() {
    let text = sample_text("awr_12c.txt").replace("298,667        0.2", "298,667.5      0.2");
    assert_ne!(text, sample_text("awr_12c.txt"));
    let report = of_text(&text).unwrap();
    let reads: Vec<_> = report.files.iter().chain(&report.tablespaces).collect();
    assert!(reads.iter().all(|it| number(&it.reads).is_none_or(|it| it.fract() == 0.0)));
    let mut report = sample("awr_11g.html");
    report.histograms[0].waits = Figure::read("99.8", &"Histogram".into(), number::count);
    laws::apply(&mut report);
    assert_eq!(report.histograms[0].waits, None);
    assert!(has_note(&report, "waits unknown: 99.8 is no count"), "{:?}", report.notes);
}

#[test]
fn a_block_has_a_size_that_oracle_has() {
    let sizes = ["Std Block Size:         8K", "Std Block Size:       176M"];
    let report = of_text(&sample_text("awr_12c.txt").replace(sizes[0], sizes[1])).unwrap();
    assert_eq!(report.memory.block_bytes, None);
    assert!(has_note(&report, "block size unknown: \"176M\""), "{:?}", report.notes);
}

#[test]
fn a_time_and_a_name_have_their_form() {
    let mut report = sample("awr_12c.txt");
    report.header.db = Figure::text("58,744.58", &"Database Summary".into());
    report.header.begin_time = Figure::text("134 05-Apr-15 03:00:21", &"report header".into());
    laws::apply(&mut report);
    assert_eq!((&report.header.begin_time, &report.header.db), (&None, &None));
    assert!(has_note(&report, "begin unknown: \"134 05-Apr-15 03:00:21\""), "{:?}", report.notes);
}

const PARAMETERS: &str = "
init.ora Parameters  DB/Inst: X/x  Snaps: 1-2

                                                       End value
Parameter Name                Begin value              (if different)
----------------------------- ------------------------ --------------
db_block_size                 8192
db_create_file_dest           /u00/app/oracle/oradata/
                              x/data
dml_locks                     2496                     512
sga_target                    1073741824
                              /x/trace
                              /of/another/parameter/01
                              .ctl
          -------------------------------------------------------------
";

#[test]
fn a_parameters_value_is_its_own() {
    let page = |below: &str| {
        let text = sample_text("awr_12c.txt");
        let (before, after) = text.split_once("End of Report").unwrap();
        of_text(&format!("{before}{below}\nEnd of Report{after}")).unwrap()
    };
    let value = |report: &Report, name: &str| {
        let found = report.parameters.iter().find(|it| it.name == name).unwrap().clone();
        [found.value, found.end_value].map(|it| {
            it.map(|it| match it.value {
                number::Scalar::Text(text) => text,
                _ => String::new(),
            })
            .unwrap_or_default()
        })
    };
    let report = page(PARAMETERS);
    assert_eq!(value(&report, "db_create_file_dest")[0], "/u00/app/oracle/oradata/x/data");
    // Only a value that fills its column goes on.
    assert_eq!(value(&report, "sga_target")[0], "1073741824");
    assert!(has_note(&report, "/x/trace is of no parameter"), "{:?}", report.notes);
    // Blanks at the beginning of lines are lost.
    let stripped: Vec<&str> = PARAMETERS.lines().map(str::trim_start).collect();
    let report = page(&stripped.join("\n"));
    assert_eq!(value(&report, "db_block_size"), ["8192", ""]);
    assert_eq!(value(&report, "dml_locks"), ["2496", "512"]);
}

/// Names were made shorter, which moves the cells behind them to the left.
const FUNCTIONS: &str = "\
IO Stat by Function - summary  DB/Inst: X/x  Snaps: 1-2

               ---------- Read --------- --------- Write -------- --- Wait ----
                 Data  Requests    Data   Data  Requests    Data          Avg
Function        Volume   /sec  Vol/sec Volume     /sec  Vol/sec  Count Tm(ms)
--------------- ------ -------- -------- ------ -------- -------- ------ ------
Buffer Cache Re  4074M 578.1      4.5M                            520K    0.0
LGWR                4M    .3       .0M   807M   398.5       .9M   179K    0.0
Others             37M   2.7       .0M    15M     1.1       .0M  2882     0.0
Streams AQ          1M    .0       .0M                              8     0.0
Direct Reads        1M    .1       .0M             .0                     0.0
          -------------------------------------------------------------
";

#[test]
fn volumes_are_no_rates() {
    let text = sample_text("sp_11g.txt");
    let (before, rest) = text.split_once("IO Stat by Function").unwrap();
    let (_, after) = rest.split_once("Tablespace IO Stats").unwrap();
    let report = of_text(&format!("{before}{FUNCTIONS}Tablespace IO Stats{after}")).unwrap();
    for row in &report.io_functions {
        let volumes = [&row.read_bytes, &row.write_bytes];
        assert!(volumes.into_iter().flatten().all(|it| it.shown().ends_with('M')), "{row:?}");
        assert!(row.waits.as_ref().is_none_or(|it| !it.shown().contains('.')), "{row:?}");
    }
    assert!(has_note(&report, "rows have cells under other headings"), "{:?}", report.notes);
}

#[test]
fn a_section_whose_rows_cannot_be_read_is_named() {
    let text = sample_text("awr_12c.txt");
    let (before, rest) = text.split_once("Load Profile").unwrap();
    let (profile, after) = rest.split_once("\n\n").unwrap();
    let of =
        |profile: String| of_text(&format!("{before}Load Profile{profile}\n\n{after}")).unwrap();
    let lines = profile.lines();
    let one = lines.map(|line| line.replace(':', ": ") + "\n").collect::<String>();
    assert_eq!(of(one).load_profile, sample("awr_12c.txt").load_profile);
    let report = of(profile.replace(':', ":        "));
    assert_eq!(report.load_profile.executes, report::LoadLine::default());
    assert!(has_note(&report, "Load Profile: 1,600.0 is shifted"), "{:?}", report.notes);
    let report = of(profile.replace(['e', 'o', 'a'], "x"));
    assert_eq!(report.load_profile, report::LoadProfile::default());
    let note = "Load Profile: is printed, but its rows could not be read";
    assert!(has_note(&report, note), "{:?}", report.notes);
    // The source of a page instead of the page.
    let source = include_str!("../../../../tests/data/awr/awr_cut_headings.txt");
    let report = of_text(&source.replace('<', "&lt;")).unwrap();
    assert!(report.histograms.is_empty());
    assert!(has_note(&report, "Histogram: is printed, but"), "{:?}", report.notes);
}

#[test]
fn an_addm_report_behind_a_report_does_not_change_its_layout() {
    let mut text = "# WORKLOAD REPOSITORY report for\n\nLoad Profile\n\n| | Per Second | Per Transaction |\n|---|---|---|\n".to_owned();
    for name in ["Redo size", "Logical reads", "Executes", "Transactions", "Parses", "Logons"] {
        text.push_str(&format!("| {name}: | 1,234.5 | 12.5 |\n"));
    }
    let rows = "| x | 1 | 2 |\n".repeat(40);
    let addm = "\nADDM Report for Task 'x'\n\n   Description    Active Sessions\n   -------------  ------------\n1  Top SQL        1.2\n";
    for text in [format!("{text}\n\n{rows}"), format!("{text}\n\n{rows}{addm}")] {
        let report = of_text(&text).unwrap();
        assert_eq!(number(&report.load_profile.executes.per_second), Some(1234.5));
    }
}

#[test]
fn the_summary_of_a_cluster_is_the_row_with_its_id() {
    let mut page = page::ParsedReport::default();
    let mut rows = page::TableRows::default();
    rows.extend(["Report", "Total"]);
    rows.extend(["3128649325", "DBU"]);
    let columns = ["Id", "Name"].map(|name| page::TableColumn::new("", name)).to_vec();
    let table = page::PageTable {
        topic: Topic::Cluster,
        title: "Database Summary".into(),
        columns,
        rows,
        widths: Vec::new(),
    };
    page.push(table);
    let header = header::read(&page, ReportKind::Awrg);
    assert_eq!(header.db.map(|it| it.shown()), Some("DBU".to_owned()));
}

#[test]
fn a_report_without_its_last_columns_has_a_note() {
    let text = sample_text("sp_11g.txt");
    let cut: Vec<&str> = text.lines().map(|line| line.get(..79).unwrap_or(line)).collect();
    let cut = of_text(&cut.join("\n")).unwrap();
    assert!(has_note(&cut, "its lines have at most 79 characters"), "{:?}", cut.notes);
    let whole = of_text(text).unwrap();
    assert!(!has_note(&whole, "characters"), "{:?}", whole.notes);
}

#[test]
fn a_heading_that_a_program_wrapped_is_one() {
    let heading = "Event| Waits| %Time -outs| Total Wait Time (s)| Avg wait (ms)| Waits /txn| %";
    let rows = "---|---|---|---|---|---|---\nlog file sync| 182,738| 0| 94| 1| 1.00| 1.47\n";
    for wrapped in [" DB time", "\nDB time"] {
        let text = format!(
            "# WORKLOAD REPOSITORY report for\n\n### Foreground Wait Events\n\n{heading}{wrapped}\n{rows}"
        );
        let report = of_text(&text).unwrap();
        let waits: Vec<_> =
            report.foreground_events.iter().map(|event| number(&event.waits)).collect();
        assert_eq!(waits, [Some(182_738.0)], "{wrapped:?}: {:?}", report.notes);
    }
}
