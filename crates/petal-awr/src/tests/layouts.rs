//! Tests for layouts beyond the samples: clusters of one and several instances, several reports in
//! a text, session output around them, pages that a browser saved, and files that are refused.

use super::*;
use crate::report::WaitEvent;

fn value(report: &Report, column: &str) -> Option<f64> {
    columns::value(report, column)
}

fn texts(text: &str) -> Vec<Result<Report, AwrError>> {
    parse_all("a.txt", Source { text: text.to_owned(), ..Source::default() })
}

#[test]
fn a_cluster_of_one_instance_has_no_sum() {
    let report = sample("awrg_one.txt");
    assert_eq!((report.kind, report.instances.len()), (ReportKind::Awrg, 0));
    let expected = [
        ("logical_reads_per_s", 25_000.5),
        ("physical_read_blocks_per_s", 24_000.25),
        ("redo_bytes_per_s", 210.1 * 1024.0),
        ("transactions_per_s", 10.0),
        ("cpus", 16.0),
        ("cpu_iowait_pct", 60.0),
        ("buffer_cache_bytes", f64::from(2u32 << 30)),
        ("log_buffer_bytes", f64::from(32u32 << 20)),
        ("wait_user_io_s", 7200.5),
        ("wait_commit_s", 9.6),
    ];
    for (column, expected) in expected {
        assert_eq!(value(&report, column), Some(expected), "{column}");
    }
    assert_eq!(value(&report, "wait_cluster_s"), None);
    let near = |column: &str, expected: f64| {
        let found = value(&report, column).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-3, "{column}: {found}");
    };
    near("aas", 160.5 / 10.03);
    near("db_cpu_per_s", 2_406.0 / 601.8);
    near("cpu_idle_pct", 75.0);
}

#[test]
fn reads_of_a_cluster_are_counted_and_timed_among_the_same_processes() {
    let report = sample("awrg_one.txt");
    // The top list has 14,440,400 waits of 505.6 us, including background processes.
    assert_eq!(value(&report, "read_waits"), Some(14_400_200.0));
    let read_us = value(&report, "read_us").unwrap();
    assert!((read_us - 7_200.1e6 / 14_400_200.0).abs() < 1e-6, "{read_us}");
    let whose = |report: &Report| {
        let figure = (columns::column("read_processes").unwrap().value)(report).unwrap();
        (figure.shown(), figure.section.to_string())
    };
    assert_eq!(whose(&report), ("foreground".into(), "Foreground Wait Events (Global)".into()));
    let before_11g = whose(&sample("awr_10g.txt"));
    assert_eq!(before_11g, ("all".into(), "Wait Events".into()));
}

#[test]
fn each_instance_of_a_cluster_is_a_row_of_its_own() {
    let report = sample("awrg_19c.html");
    let [one, two] = &report.instances[..] else { panic!("{:?}", report.instances) };
    assert_eq!(
        (one.kind, one.header.host.as_ref().unwrap().shown()),
        (ReportKind::AwrgInstance, "field1".into())
    );
    for (column, figures) in [
        ("instance_number", [1.0, 2.0]),
        ("cpus", [28.0, 28.0]),
        ("elapsed_min", [10.0, 10.02]),
        ("logical_reads_per_s", [255_000.5, 256_000.5]),
        ("cpu_iowait_pct", [0.1, 0.1]),
        ("top_event_time_s", [34_500.0, 36_720.4]),
        ("begin_snap", [40.0, 40.0]),
    ] {
        assert_eq!([one, two].map(|it| value(it, column)), figures.map(Some), "{column}");
    }
    assert_eq!(two.top_events[0].name, "db file sequential read");
    // The hosts differ, so their processors are added.
    assert_eq!(value(&report, "cpus"), Some(56.0));
    let near = (value(&report, "aas").unwrap() - 1_270.4 / 10.02).abs();
    assert!(near < 1e-9, "{near}");
    // On one host they are not.
    let text = sample_text("awrg_19c.html").replace("field2", "field1");
    assert_eq!(value(&of_text(&text).unwrap(), "cpus"), None);
}

#[test]
fn top_events_of_instances_without_the_clusters_own_stay_separate() {
    let text = sample_text("awrg_11g.txt");
    let text = text.replace("   * User I/O        db file", "   1 User I/O        db file");
    let text = text.replace(
        "   1                                                 14,400,100",
        "   2                                                 14,400,100",
    );
    let text = text.replace("   *                 DB CPU  ", "   1                 DB CPU  ");
    let report = of_text(&text).unwrap();
    let shown = |event: &WaitEvent| {
        let waits = event.waits.as_ref().map(figure::Figure::shown).unwrap_or_default();
        (event.instance.clone().unwrap(), event.name.clone(), waits)
    };
    let rows: Vec<_> = report.top_events.iter().map(shown).collect();
    let row =
        |instance: &str, name: &str, waits: &str| (instance.into(), name.into(), waits.into());
    assert_eq!(
        rows,
        [
            row("1", "db file sequential read", "29,400,100"),
            row("2", "db file sequential read", "14,400,100"),
            row("1", "DB CPU", ""),
        ]
    );
    // Neither instance's mean is the cluster's.
    assert_eq!(value(&report, "read_us"), None);
}

#[test]
fn statspack_of_10_2_has_its_host_in_one_line_and_its_time_in_the_time_model() {
    let report = sample("sp_10g.txt");
    let host = |name: &str| (columns::column(name).unwrap().value)(&report).unwrap();
    assert_eq!((host("host").shown(), host("cpus").shown()), ("rockery".into(), "4".into()));
    assert_eq!(value(&report, "memory_gb"), Some(8.0));
    assert_eq!(value(&report, "aas"), Some(18_036.0 / 1_200.0));
    assert_eq!(value(&report, "db_cpu_per_s"), Some(1_140.6 / 1_200.0));
    assert_eq!(value(&report, "db_time_min"), None);
}

const SESSION: &str = "
Current Instance
~~~~~~~~~~~~~~~~
   DB Id    DB Name      Inst Num Instance
----------- ------------ -------- ------------
 1400550066 LILY                2 lily2

Instances in this Workload Repository schema
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~

   DB Id     Inst Num DB Name      Instance     Host
------------ -------- ------------ ------------ ------------
* 1400550066        2 LILY         lily2        pond02

Specify the Report Name
~~~~~~~~~~~~~~~~~~~~~~~
Using the report name awrrpt_2_310_311.txt

";

#[test]
fn output_before_a_report_hides_nothing() {
    let plain = sample("awr_12c.txt");
    let mut found = of_text(&format!("{SESSION}{}", sample_text("awr_12c.txt"))).unwrap();
    found.file.clone_from(&plain.file);
    assert_eq!(found, plain);
}

#[test]
fn each_report_of_a_text_is_read() {
    let parts = ["awr_12c.txt", "sp_10g.txt", "awrg_one.txt"].map(sample_text);
    let restart = "ERROR: Snapshots chosen span an instance shutdown: RESULTS ARE INVALID\n";
    let text = format!("{}\n{SESSION}{restart}{}{}", parts[0], parts[1], parts[2]);
    let reports: Vec<Report> = texts(&text).into_iter().map(Result::unwrap).collect();
    let files: Vec<&str> = reports.iter().map(|report| report.file.as_str()).collect();
    assert_eq!(files, ["a.txt", "a.txt#2", "a.txt#3"]);
    let restarts = reports.iter().map(|report| report.spans_restart).collect::<Vec<_>>();
    assert_eq!(restarts, [false, true, false], "the warning belongs to the report behind it");
    for (report, name) in reports.iter().zip(["awr_12c.txt", "sp_10g.txt", "awrg_one.txt"]) {
        let alone = sample(name);
        assert_eq!((&report.header, &report.top_events), (&alone.header, &alone.top_events));
        assert_eq!(report.statistics, alone.statistics);
    }
    // A broken report does not affect the others.
    let broken = texts(&format!("{}WORKLOAD REPOSITORY report for\n\n{}", parts[0], parts[1]));
    assert_eq!(broken.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn pages_saved_by_a_browser_are_read() {
    let html = sample_text("awr_19c.html");
    let body = html.replace('=', "=3D").replace("</tr>", "</t=\r\nr>");
    let saved = format!(
        "MIME-Version: 1.0\r\nContent-Type: text/html; charset=\"utf-8\"\r\n\
         Content-Transfer-Encoding: quoted-printable\r\n\r\n{body}"
    );
    let mut report = parse("x", source::decode(saved.into_bytes())).unwrap();
    report.file = "awr_19c.html".into();
    assert_eq!(report, sample("awr_19c.html"));
}

#[test]
fn a_page_made_of_statspack_is_no_report_of_oracles() {
    let page = "<html><head><title>StatsPack Report</title></head><body><h1>StatsPack Report for \
                ORCL</h1><table><tr><th>DB Name</th><th>DB Id</th><th>Release</th></tr><tr>\
                <td>ORCL</td><td>1</td><td>9.2.0.1.0</td></tr></table></body></html>";
    let error = of_text(page).unwrap_err().to_string();
    assert!(error.contains("that another program made of a Statspack report"), "{error}");
}

#[test]
fn a_decimal_comma_is_refused() {
    let of = |name: &str, printed: [&str; 2]| {
        assert!(sample_text(name).contains(printed[0]), "{name}");
        of_text(&sample_text(name).replace(printed[0], printed[1])).unwrap_err().to_string()
    };
    for (name, printed) in [
        ("awr_12c.txt", ["10.00 (mins)", "10,00 (mins)"]),
        ("sp_10g.txt", ["20.00 (mins)", "1.020,00 (mins)"]),
        ("awr_19c.html", ["4.00 (mins)", "4,00 (mins)"]),
        ("awrg_19c.html", [">10.02<", ">10,02<"]),
    ] {
        let error = of(name, printed);
        let reads = printed[1].trim_end_matches(" (mins)").trim_matches(['<', '>']);
        assert!(error.contains(&format!("prints {reads}, with a decimal comma")), "{error}");
        assert!(error.contains("NLS_NUMERIC_CHARACTERS='.,'"), "{error}");
    }
    // An unreadable value does not mean a decimal comma.
    let hashes = sample_text("awr_12c.txt").replace("10.00 (mins)", "##### (mins)");
    assert_eq!(of_text(&hashes).unwrap().header.elapsed_min, None);
}

/// Returns the page without the section under this heading.
fn without(html: &str, heading: &str) -> String {
    let (before, rest) = html.split_once(&format!("<h3 class=\"awr\">{heading}</h3>")).unwrap();
    let (_, after) = rest.split_once("</table>").unwrap();
    format!("{before}{after}")
}

#[test]
fn a_cluster_before_12_2_has_other_headings_and_only_top_lists() {
    let whole = sample("awrg_19c.html");
    let mut text = sample_text("awrg_19c.html").to_owned();
    for (later, earlier) in [
        ("#CPUs", "Num CPUs"),
        ("#Cores", "CPU Cores"),
        ("Busy", "Busy Time (s)"),
        ("Idle", "Idle Time (s)"),
    ] {
        text = text.replace(&format!(">{later}</th>"), &format!(">{earlier}</th>"));
    }
    let text = without(&text, "Foreground Wait Events (Global)");
    let text = without(&text, "Background Wait Events (Global)");
    let report = of_text(&text).unwrap();
    for column in ["cpus", "cores", "cpu_idle_pct", "cpu_iowait_pct", "log_write_us", "read_waits"]
    {
        let of = |report: &Report| value(report, column);
        assert!(of(&report).is_some() && of(&report) == of(&whole), "{column}: {:?}", of(&report));
    }
    let list = |events: &[WaitEvent]| {
        events.first().and_then(|event| event.waits.as_ref()).map(|it| it.section.to_string())
    };
    let section = |name: &str| Some(format!("Top Timed {name} Events"));
    assert_eq!(list(&report.foreground_events), section("Foreground"));
    assert_eq!(list(&report.background_events), section("Background"));
    assert_eq!(list(&report.top_events), Some("Top Timed Events".to_owned()));
    // The instances have their own processors, too.
    assert_eq!(
        report.instances.iter().map(|it| value(it, "cpus")).collect::<Vec<_>>(),
        [Some(28.0); 2]
    );
}

fn data(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/");
    std::fs::read_to_string(format!("{folder}{name}")).unwrap()
}

/// File of another program, or a dump of a report.
fn foreign(name: &str) -> String {
    data(&format!("awr_foreign/{name}"))
}

fn shown_of(report: &Report, names: &[&str]) -> Vec<String> {
    let shown = |name: &&str| (columns::column(name).unwrap().value)(report);
    names.iter().map(|name| shown(name).map_or_else(String::new, |it| it.shown())).collect()
}

const HEAD: [&str; 7] = ["db", "instance", "release", "rac", "host", "cpus", "cores"];

#[test]
fn a_head_with_other_names_or_broken_lines_is_read_by_its_forms() {
    let edited = include_str!("../../../../tests/data/awr/sp_anonymised.txt");
    let report = of_text(edited).unwrap();
    let expected = ["SHOP", "customerdb1", "19.0.0.0.0", "NO", "h1", "16", "8"];
    assert_eq!(shown_of(&report, &HEAD), expected);
    assert!(report.notes[0].contains("cells are taken by their form"), "{:?}", report.notes);
    let broken = include_str!("../../../../tests/data/awr/sp_wrapped_head.txt");
    let report = of_text(broken).unwrap();
    let expected = ["", "shop1", "12.1.0.2.0", "NO", "dbh1.example.org", "22", "11"];
    assert_eq!(shown_of(&report, &HEAD), expected);
}

#[test]
fn collapsed_blanks_leave_the_head_and_a_note() {
    let report = of_text(&data("awr/other/awr_collapsed.txt")).unwrap();
    let expected = ["SHOP", "shop1", "19.0.0.0.0", "NO", "dbh1", "16", "8"];
    assert_eq!(shown_of(&report, &HEAD), expected);
    assert_eq!((report.foreground_events.len(), report.histograms.len()), (0, 0));
    assert!(report.notes.iter().any(|note| note.contains("single blanks")), "{:?}", report.notes);
}

#[test]
fn a_row_that_an_edit_has_shifted_is_read_by_its_numbers() {
    let text = sample_text("awr_12c.txt");
    let whole = sample("awr_12c.txt");
    let row = "log file sync    ";
    for (new, is_read) in [("log sync", true), ("log file synchronisation", true)] {
        let edited = text.replace(row, &format!("{new}    "));
        assert_ne!(edited, text);
        let report = of_text(&edited).unwrap();
        let found = report::event(&report.foreground_events, new);
        let expected = report::event(&whole.foreground_events, "log file sync").unwrap();
        assert_eq!(found.is_some(), is_read, "{new}");
        assert_eq!(found.unwrap().waits, expected.waits, "{new}");
        assert!(report.notes.iter().any(|note| note.contains("as after an edit")), "{new}");
    }
}

#[test]
fn functions_of_statspack_have_their_waits() {
    let report = sample("sp_11g.txt");
    let waits = report.io_functions.iter().map(|it| figure::shown(&it.waits).unwrap());
    assert_eq!(waits.collect::<Vec<_>>(), ["26.9M", "6020"]);
}

#[test]
fn files_of_other_programs_are_refused_by_name() {
    for (file, name) in [
        ("mysql_awr.html", "a report on MySQL"),
        ("wdr.html", "a WDR report"),
        ("sql_monitor.txt", "a SQL Monitor report"),
        ("sql_monitor.html", "a SQL Monitor report"),
        ("sql_monitor_active.html", "a SQL Monitor report"),
        ("perfhub.html", "a Performance Hub page"),
        ("awr_miner.out", "a file of AWR-Miner"),
        ("sprepsql.txt", "sprepsql.sql"),
        ("awrinfo.txt", "awrinfo.sql"),
        ("utlestat.txt", "utlbstat.sql and utlestat.sql"),
        ("jas_min.json", "JSON of jas-min"),
        ("slob_awr_info.csv", "petal compare reads it as a table"),
        ("system_event.txt", "views such as v$system_event"),
        ("sysstat.txt", "a query of v$ views"),
    ] {
        let error = of_text(&foreign(file)).unwrap_err().to_string();
        let is_named = error.contains(name) && error.contains("petal awr does not read");
        assert!(is_named, "{file}: {error}");
    }
}

#[test]
fn dumps_of_a_page_give_its_head_and_are_named() {
    let named = "a dump by lynx, w3m or pdftotext";
    for (file, page) in [
        ("lynx.txt", "awr_11g.html"),
        ("w3m.txt", "awr_19c.html"),
        ("pdftotext_layout.txt", "awr_19c.html"),
    ] {
        let report = of_text(&foreign(file)).unwrap();
        assert!(report.notes.iter().any(|note| note.contains(named)), "{file}: {:?}", report.notes);
        let (own, whole) = (report.header, sample(page).header);
        let shown = |figure: &Option<Figure>| figure.as_ref().map(Figure::shown);
        assert_eq!(shown(&own.elapsed_min), shown(&whole.elapsed_min), "{file}");
        assert_eq!(shown(&own.db_time_min), shown(&whole.db_time_min), "{file}");
        assert_eq!(shown(&own.begin_time), shown(&whole.begin_time), "{file}");
        assert!(report.top_events.is_empty() && report.statistics.iter().next().is_none());
    }
    let error = of_text(&foreign("pdftotext.txt")).unwrap_err().to_string();
    assert!(error.contains(named), "{error}");
}
