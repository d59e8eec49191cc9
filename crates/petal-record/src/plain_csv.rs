//! A plain CSV of figures as observations: published tables, spreadsheets, other tools' results.
//! Factor columns come first, figures after them; docs/numbers.md explains how columns are
//! recognised.

mod column;
mod header;
mod layout;
mod printed;

use std::collections::BTreeMap;
use std::path::Path;

use csv::StringRecord;

use petal_host::files;

use super::observation::{Observation, metric};
use super::{RecordError, Status, file_names, input};
use column::CsvColumn;
use layout::{Comma, TableParts, is_grouped};

/// Reads a file. `factors` names the factor columns; None decides by the columns' names.
pub fn read(path: &Path, factors: Option<&[String]>) -> Result<Vec<Observation>, RecordError> {
    // It may be a pipe.
    let file = files::named(path).map_err(|source| RecordError::io("read", path, source))?;
    let text = String::from_utf8(input::bounded(path, file, 0, input::BYTES_MAX)?);
    let text = text.map_err(|_| RecordError::Table {
        path: path.to_owned(),
        why: "it is not text in UTF-8".to_owned(),
    })?;
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    parse(&text, &name, factors).map_err(|why| RecordError::Table { path: path.to_owned(), why })
}

/// The rows of a text; `name` is its source. An error is a sentence and the next step.
pub fn parse(
    text: &str,
    name: &str,
    factors: Option<&[String]>,
) -> Result<Vec<Observation>, String> {
    let TableParts { header, rows, comma } = layout::lay_out(text)?;
    let is_number = |field: &str| number(field, comma).is_ok();
    let columns = header::recognise(&header, &rows, factors, is_number)?;
    rows.iter()
        .enumerate()
        .map(|(at, row)| {
            let number = at + 1;
            observation(&columns, row, comma)
                .map(|seen| match seen.source.is_empty() {
                    true => Observation { source: format!("{name} row {number}"), ..seen },
                    false => seen,
                })
                .map_err(|why| format!("row {number}: {why}"))
        })
        .collect()
}

fn observation(
    columns: &[CsvColumn],
    row: &StringRecord,
    comma: Comma,
) -> Result<Observation, String> {
    let mut seen = Observation::default();
    for (column, field) in columns.iter().zip(row) {
        let figure = || number(field, comma).map_err(|why| format!("{}: {why}", column.name()));
        match column {
            CsvColumn::Factor(name) => seen.factors.push((name.clone(), field.to_owned())),
            CsvColumn::Repeat => seen.repeat = whole("repeat", figure()?)?.map(|n| n as u32),
            CsvColumn::ActiveBytes => seen.active_bytes = whole("active_bytes", figure()?)?,
            CsvColumn::Elapsed => seen.elapsed_s = figure()?,
            CsvColumn::Source => seen.source = field.to_owned(),
            CsvColumn::Status => seen.status = status(field)?,
            CsvColumn::Cell | CsvColumn::Words(_) => {}
            CsvColumn::Findings => {
                seen.warnings = field.split_whitespace().map(str::to_owned).collect();
            }
            CsvColumn::ReportFile => seen.source = field.to_owned(),
            CsvColumn::Latency(name) => {
                let timed = figure()?.filter(|us| *us > 0.0);
                seen.metrics.extend(timed.map(|us| (name.clone(), us)));
            }
            CsvColumn::Started => {
                seen.started_at = Some(field.to_owned()).filter(|s| !s.is_empty())
            }
            CsvColumn::Figure { name, scale, endpoint } => {
                let Some(value) = figure()?.map(|value| value * scale) else { continue };
                match endpoint {
                    None => drop(seen.metrics.insert(name.clone(), value)),
                    Some(endpoint) => {
                        let by_endpoint = seen.endpoints.entry(name.clone()).or_default();
                        by_endpoint.insert(endpoint.clone(), value);
                    }
                }
            }
        }
    }
    if columns.contains(&CsvColumn::ReportFile) {
        name_sessions(&mut seen);
    }
    sum_endpoints(&mut seen, columns);
    derive(&mut seen);
    Ok(seen)
}

fn status(field: &str) -> Result<Option<Status>, String> {
    if field.is_empty() {
        return Ok(None);
    }
    let known = [Status::Complete, Status::Interrupted, Status::Failed, Status::Incomplete];
    let status = known.into_iter().find(|status| status.name() == field.to_lowercase());
    let why = || format!("status: {field:?} is not complete, interrupted or failed");
    status.ok_or_else(why).map(Some)
}

/// Sets the sessions from the end of the report's file name, if no column has them.
fn name_sessions(seen: &mut Observation) {
    seen.factors.retain(|(name, value)| name != "sessions" || !value.is_empty());
    if seen.factor("sessions").is_none() {
        let named = file_names::number_at_end(&seen.source);
        seen.factors.extend(named.map(|number| ("sessions".to_owned(), number.to_string())));
    }
}

/// `308185`, `308,185`, `1.5e3`; empty, `-`, `NA` and `null` are unknown.
fn number(field: &str, comma: Comma) -> Result<Option<f64>, String> {
    if ["", "-", "na", "n/a", "null", "nan"].contains(&field.to_ascii_lowercase().as_str()) {
        return Ok(None);
    }
    let plain = match comma {
        Comma::Unclear if field.contains(',') => {
            return Err(format!(
                "{field:?} may have thousands or decimals behind its comma; write it as 1234 or \
                 1.234"
            ));
        }
        Comma::Thousands if is_grouped(field, ',', '.') => field.replace(',', ""),
        Comma::Decimal if !field.contains('.') => field.replace(',', "."),
        Comma::Decimal if is_grouped(field, '.', ',') => field.replace('.', "").replace(',', "."),
        Comma::Decimal => {
            return Err(format!(
                "{field:?} has a point, and other numbers of the table have a comma before their \
                 decimals; write all alike"
            ));
        }
        _ => field.to_owned(),
    };
    match plain.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Some(value)),
        _ => Err(format!(
            "{field:?} is no number; write it as 1234.5, leave it empty if it is unknown, or \
             name the factor columns with --factors"
        )),
    }
}

fn whole(what: &str, value: Option<f64>) -> Result<Option<u64>, String> {
    match value {
        None => Ok(None),
        Some(value) if value >= 0.0 && value.fract() == 0.0 && value < 9e15 => {
            Ok(Some(value as u64))
        }
        Some(value) => Err(format!("{what}: {value} is no whole number from 0 on")),
    }
}

/// Adds up figures reported per node: rates add up, latencies are weighted by the rate of the timed
/// operations. If one node lacks a figure, the whole is unknown.
fn sum_endpoints(seen: &mut Observation, columns: &[CsvColumn]) {
    for (name, by_endpoint) in &seen.endpoints {
        let expected = columns.iter().filter(|column| column.is_of_endpoint(name)).count();
        if by_endpoint.len() < expected || seen.metrics.contains_key(name) {
            continue;
        }
        let whole = if name.ends_with("_us") {
            weighed(by_endpoint, seen.endpoints.get(weight(name)))
        } else if name.ends_with("_pct") {
            None
        } else {
            Some(by_endpoint.values().sum())
        };
        if let Some(whole) = whole {
            seen.metrics.insert(name.clone(), whole);
        }
    }
    let rates = seen.endpoints.get(metric::READS).zip(seen.endpoints.get(metric::WRITES));
    if let Some((reads, writes)) = rates.filter(|_| !seen.endpoints.contains_key(metric::PIOPS)) {
        let piops: BTreeMap<String, f64> = reads
            .iter()
            .filter_map(|(endpoint, read)| Some((endpoint.clone(), read + writes.get(endpoint)?)))
            .collect();
        seen.endpoints.insert(metric::PIOPS.to_owned(), piops);
    }
}

fn weight(latency: &str) -> &'static str {
    if latency.starts_with("read") {
        metric::READS
    } else if latency.starts_with("write") {
        metric::WRITES
    } else {
        metric::OPS
    }
}

fn weighed(values: &BTreeMap<String, f64>, rates: Option<&BTreeMap<String, f64>>) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (endpoint, value) in values {
        let rate = rates?.get(endpoint)?;
        sum += value * rate;
        weights += rate;
    }
    (weights > 0.0).then(|| sum / weights)
}

/// PIOPS and MB/s from their parts, if only those were reported.
fn derive(seen: &mut Observation) {
    let wholes = [
        (metric::PIOPS, metric::READS, metric::WRITES),
        (metric::MB, metric::READ_MB, metric::WRITE_MB),
    ];
    for (whole, read, write) in wholes {
        if let Some((read, write)) = seen.metric(read).zip(seen.metric(write)) {
            seen.metrics.entry(whole.to_owned()).or_insert(read + write);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TWO_NODES: &str = include_str!("../../../tests/samples/compression-two-nodes.csv");
    const PCIE: &str = include_str!("../../../tests/samples/flash-pcie.csv");

    #[test]
    fn nodes_are_summed_and_latencies_weighed() {
        let rows = parse(TWO_NODES, "t.csv", None).unwrap();
        assert_eq!(rows.len(), 18);
        let ninth = &rows[8];
        assert_eq!(ninth.source, "t.csv row 9");
        let factors = [("compression", "off"), ("update_pct", "50")];
        assert_eq!(ninth.factors, factors.map(|(key, value)| (key.into(), value.into())));
        assert_eq!(ninth.repeat, Some(3));
        assert_eq!(ninth.metric(metric::READS), Some(48508.0));
        assert_eq!(ninth.metric(metric::PIOPS), Some(48508.0 + 22871.0));
        // (22917 x 1900 us + 25591 x 2400 us) / 48508
        assert!((ninth.metric(metric::READ_US).unwrap() - 2163.78).abs() < 0.01);
        assert_eq!(ninth.endpoints[metric::PIOPS]["node2"], 37622.0);
    }

    #[test]
    fn a_table_of_readers() {
        let rows = parse(PCIE, "pcie.csv", None).unwrap();
        assert_eq!(rows[5].factor("readers"), Some("64"));
        assert_eq!(rows[5].metric(metric::PIOPS), Some(99_060.1));
        assert_eq!(rows[5].metric(metric::READ_US), Some(602.0));
        // 81,342,725 waits at 99,060.1 a second.
        assert!((rows[5].run_length_s().unwrap() - 821.1).abs() < 0.1);
    }

    #[test]
    fn csv_of_spreadsheets_is_read() {
        let text = "Array;UPDATE_PCT;Reads/s;Read ms;Note\nold;20;1000.5;0.5;x\nnew;20;-;NA;y\n";
        let rows = parse(text, "s", None).unwrap();
        assert_eq!(rows[0].factor("array"), Some("old"));
        assert_eq!(rows[0].factor("note"), Some("x"));
        assert_eq!(rows[0].metric(metric::READ_US), Some(500.0));
        assert!(rows[1].metrics.is_empty());
        let rows = parse("readers\tiops\n1\t\"308,185\"\n", "s", None).unwrap();
        assert_eq!(rows[0].metric(metric::PIOPS), Some(308_185.0));
    }

    #[test]
    fn a_column_of_numbers_stays_one_if_a_value_is_unknown_or_grouped() {
        let text = "mode,reads_s,watts\na,1,\"1,234\"\na,2,NA\na,3,7.5\n";
        let rows = parse(text, "s", None).unwrap();
        let watts = rows.iter().map(|row| row.metric("watts")).collect::<Vec<_>>();
        assert_eq!(watts, [Some(1234.0), None, Some(7.5)]);
        assert!(rows.iter().all(|row| row.factors.len() == 1));
    }

    fn points(text: &str) -> Vec<(Option<String>, Option<f64>, Option<f64>)> {
        let rows = parse(text, "t", None).unwrap();
        let point = |row: &Observation| {
            let sessions = row.factor("sessions").map(str::to_owned);
            (sessions, row.metric(metric::READS), row.metric(metric::READ_US))
        };
        rows.iter().map(point).collect()
    }

    #[test]
    fn one_table_in_every_layout_is_the_same_figures() {
        let expected = [("1", 1000.5, 100.2), ("8", 70_001.25, 1120.9)];
        let expected: Vec<_> =
            expected.map(|(n, reads, us)| (Some(n.to_owned()), Some(reads), Some(us))).into();
        for text in [
            "sessions,reads_s,read_us\n1,1000.5,100.2\n8,70001.25,1120.9\n",
            "\u{feff}sessions,reads_s,read_us\r\n1,1000.5,100.2\r\n8,\"70,001.25\",1120.9\r\n",
            "sep=;\r\nsessions;reads_s;read_us\r\n1;1000.5;100.2\r\n8;70001.25;1120.9\r\n",
            "sessions;reads_s;read_us\n1;1000,5;100,2\n8;70.001,25;1.120,9\n",
            "sessions\treads_s\tread_us\n1\t1000.5\t100.2\n8\t70,001.25\t1,120.9\n",
            "sessions|reads_s|read_us\n1|1000.5|100.2\n8|70001.25|1120.9\n",
            "| sessions | reads/s | read us |\n|---:|--:|--:|\n| 1 | 1000.5 | 100.2 |\n\
             | 8 | 70,001.25 | 1,120.9 |\n",
            "+----+-----+----+\n| sessions | reads_s | read_us |\n+----+----+----+\n\
             | 1 | 1000.5 | 100.2 |\n| 8 | 70001.25 | 1120.9 |\n+----+----+----+\n",
            " sessions | reads_s  | read_us\n----------+----------+---------\n        1 |   1000.5 \
             |   100.2\n        8 | 70001.25 |  1120.9\n",
            "sessions    reads/s   read us\n--------  ---------  -------\n       1     1000.5    \
             100.2\n       8  70,001.25  1,120.9\n",
            "sessions reads_s read_us\n\n1 1000.5 100.2\n8 70001.25 1120.9\n",
        ] {
            assert_eq!(points(text), expected, "{text}");
        }
    }

    #[test]
    fn awr_info_is_read_with_its_units() {
        let text = "FILE|SESSIONS|ELAPSED|DB CPU|DB Tm|EXECUTES|LIO|PREADS|READ_MBS|PWRITES|\
                    WRITE_MBS|REDO_MBS|DFSR_LAT|DPR_LAT|DFPR_LAT|DFPW_LAT|LFPW_LAT|TOP WAIT|\n\
                    awr.txt.1|1|300|0.1|1.0|100|8000|7000|55|10|1|0.1|130|0|0|0|500|\
                    db file sequential read 1,402 12.9K 75.77us 84.0 User I/O|\n\
                    awr.txt.16||300|0.1|1.0|100|8000|90000|100||1|0.1||0|0|0|500|log \"sync|\n";
        let sessions = |text: &str| Some(text.to_owned());
        let expected =
            [(sessions("1"), Some(7000.0), Some(130.0)), (sessions("16"), Some(90_000.0), None)];
        assert_eq!(points(text), expected);
        let rows = parse(text, "t", None).unwrap();
        assert_eq!((rows[0].source.as_str(), rows[0].elapsed_s), ("awr.txt.1", Some(300.0)));
        // Mebibytes; a latency of 0 is unknown; the top wait does not split cells.
        assert!((rows[1].metric(metric::READ_MB).unwrap() - 104.8576).abs() < 1e-9);
        assert_eq!(rows[0].metric(metric::PIOPS), Some(7010.0));
        assert_eq!((rows[0].metric(metric::WRITE_US), rows[1].metric(metric::PIOPS)), (None, None));
        assert_eq!(rows[0].factors.len(), 1);
    }

    #[test]
    fn the_table_of_events_is_read_with_its_units() {
        let text = "\
Filename    Event                          Waits  Time(s)  Latency       IOPS
----------  -----------------------  -----------  -------  -------  ---------
awr.txt.8   db file sequential read  170,402,113   12,912     75.8  710,000.1
awr.txt.16  db file sequential read       80,000      240    3,000          -
";
        let sessions = |text: &str| Some(text.to_owned());
        let expected =
            [(sessions("8"), Some(710_000.1), Some(75.8)), (sessions("16"), None, Some(3000.0))];
        assert_eq!(points(text), expected);
    }

    #[test]
    fn a_sweeps_own_table_is_read() {
        let text = "sessions,update_pct,repeat,cell,status,started_at,elapsed_s,active_bytes,\
                    folder,findings,served_by,limited_by,piops,read_us\n\
                    4,20,2,7,interrupted,2026-11-20T13:42:07Z,60.5,1073741824,cell007-r2,\
                    cached-by-os short-run,\"page cache 75 %, device 25 %\",processors,900,81.5\n";
        let rows = parse(text, "sweep.csv", None).unwrap();
        let factors = [("sessions", "4"), ("update_pct", "20")];
        assert_eq!(rows[0].factors, factors.map(|(key, value)| (key.into(), value.into())));
        assert_eq!((rows[0].source.as_str(), rows[0].elapsed_s), ("cell007-r2", Some(60.5)));
        assert_eq!((rows[0].repeat, rows[0].active_bytes), (Some(2), Some(1 << 30)));
        assert_eq!(rows[0].status, Some(Status::Interrupted));
        assert_eq!(rows[0].warnings, ["cached-by-os", "short-run"]);
    }

    #[test]
    fn factors_can_be_named() {
        let text = "mode,nodes,iops\na,2,10\n";
        let named = |factors: &[&str]| {
            let factors: Vec<String> = factors.iter().map(|&name| name.to_owned()).collect();
            parse(text, "s", Some(&factors))
        };
        // All other columns are figures then.
        assert_eq!(named(&["mode"]).unwrap()[0].metric("nodes"), Some(2.0));
        assert_eq!(named(&["mode", "Nodes"]).unwrap()[0].factor("nodes"), Some("2"));
        insta::assert_snapshot!(named(&["modes"]).unwrap_err(), @r#"there is no column "modes"; the columns are mode, nodes, iops"#);
    }

    #[test]
    fn an_unreadable_table_gives_a_reason_and_a_hint() {
        let why = |text: &str| parse(text, "s", None).unwrap_err();
        insta::assert_snapshot!(why("a,b\n"), @"it holds no rows; a header and a row per run are needed");
        insta::assert_snapshot!(why("a,b\nx,1\n"), @"no column is known as a figure: name the factor columns with --factors, or let the unit end a figure's name (reads_s, read_us, mb_s); the columns are a, b");
        insta::assert_snapshot!(why("a,reads_s\nx,many\n"), @r#"row 1: reads_s: "many" is no number; write it as 1234.5, leave it empty if it is unknown, or name the factor columns with --factors"#);
        insta::assert_snapshot!(why("a,reads_s\nx,1\ny\n"), @"CSV error: record 2 (line: 3, byte: 14): found record with 1 fields, but the previous record has 2 fields; every row needs as many fields as the header");
        insta::assert_snapshot!(why("a,reads_s,reads_s\nx,1,2\n"), @"two columns are called reads_s; a figure of several nodes ends in _node1, _node2");
        insta::assert_snapshot!(why("repeat,reads_s\n1.5,2\n"), @"row 1: repeat: 1.5 is no whole number from 0 on");
        insta::assert_snapshot!(why("a;reads_s\nx;1,234\n"), @r#"row 1: reads_s: "1,234" may have thousands or decimals behind its comma; write it as 1234 or 1.234"#);
        insta::assert_snapshot!(why("a;reads_s\nx;1,5\ny;12.5\n"), @r#"row 2: reads_s: "12.5" has a point, and other numbers of the table have a comma before their decimals; write all alike"#);
        insta::assert_snapshot!(why("sessions reads_s\n1 2 3\n"), @"row 1 has 3 fields, and the header 2, taken apart at blanks; put commas between the fields");
    }

    proptest! {
        #[test]
        fn figures_come_back_as_they_were_written(
            rows in prop::collection::vec((0u32..100, 0.0f64..1e9, prop::option::of(0.1f64..1e6)), 1..40),
        ) {
            let mut text = "sessions,repeat,piops,read_us\n".to_owned();
            for (sessions, piops, us) in &rows {
                let us = us.map_or(String::new(), |us| us.to_string());
                text.push_str(&format!("{sessions},1,{piops},{us}\n"));
            }
            let read = parse(&text, "s", None).unwrap();
            for (seen, (sessions, piops, us)) in read.iter().zip(&rows) {
                let sessions = sessions.to_string();
                prop_assert_eq!(seen.factor("sessions"), Some(sessions.as_str()));
                prop_assert_eq!(seen.metric(metric::PIOPS), Some(*piops));
                prop_assert_eq!(seen.metric(metric::READ_US), *us);
            }
        }

        #[test]
        fn no_text_breaks_it(text in ".{0,200}") {
            // A result or a sentence; never a panic.
            if let Err(why) = parse(&text, "s", None) {
                prop_assert!(!why.is_empty());
            }
        }
    }
}
