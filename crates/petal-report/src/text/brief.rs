//! A run's end on one screen of a terminal: the line to paste, its figures, the warnings, and the
//! path of the whole report.

use super::super::run::{events, interference, outages, waterfall};
use super::super::table::{SCREEN_LINES, fitting_paragraphs, paragraph};
use petal_host::numbers::decimal;
use petal_record::counters::WaitClass;
use petal_record::{Run, Severity};

/// Findings that are shown at most, the gravest; the rest is in the report.
const FINDINGS_MAX: usize = 3;
/// Rows of waits, with the rest of DB time.
const WAITS_MAX: usize = 4;

/// `place` is the run's folder. A run with neighbours begins with their price, one with outages with
/// these.
pub fn brief(run: &Run, place: &str) -> String {
    brief_with(run, place, "")
}

/// Lays out a run as [`brief`] does, with `end` as the last part.
pub fn brief_with(run: &Run, place: &str, end: &str) -> String {
    if run.summary.interference.is_some() {
        return brief_interference(run, place) + end;
    }
    let headline = petal_judge::headline(run);
    let answers = outages::lines(run).into_iter().chain([headline.to_string()]);
    let top = answers.map(|answer| paragraph("", "  ", &answer)).collect::<String>();
    let top = top + &super::verdict(&headline) + "\n";
    let mut out = String::new();
    super::status(&mut out, run);
    let end = record(place) + end;
    let taken = [&top, &out, &end].map(|text| text.lines().count());
    let taken = taken.iter().sum();
    out.push_str(&findings(run, SCREEN_LINES.saturating_sub(taken)));
    out.push_str(&end);
    let lines = SCREEN_LINES.saturating_sub(top.lines().count() + out.lines().count());
    top + &proof(run, lines) + &out
}

/// Latencies of operations and where their time went, in as many lines: figures behind the verdict.
/// The waterfall divides the time, if the kernel measured it, else the database's waits.
fn proof(run: &Run, lines: usize) -> String {
    let operations = events::operations_in_short(run);
    let mut out = String::new();
    let operations = if operations.is_empty() { String::new() } else { operations.render() };
    for table in [operations, time_spent(run), written(run)] {
        let is_fitting = out.lines().count() + table.lines().count() < lines;
        if !table.is_empty() && is_fitting {
            out.push_str(&(table + "\n"));
        }
    }
    out
}

/// Bytes that the device wrote for a changed one, and those of other programs, which are not counted.
fn written(run: &Run) -> String {
    let ledger = run.summary.write_ledger.as_ref();
    let Some((ledger, factor)) = ledger.and_then(|it| Some((it, it.amplification?))) else {
        return String::new();
    };
    let others = ledger.rows.iter().find(|row| row.written == "other programs");
    let others = others.and_then(|row| row.bytes).map(|bytes| {
        let share = " MB of other programs are not counted";
        format!("; {}{share}", decimal(bytes as f64 / 1e6, 1))
    });
    let others = others.unwrap_or_default();
    let words = format!("{} bytes at the device for each changed byte{others}", decimal(factor, 1));
    paragraph("written ", "  ", &words)
}

fn time_spent(run: &Run) -> String {
    if let Some(divided) = waterfall::dividing(run) {
        return waterfall::bar_text(divided);
    }
    let headline = run.headline_window().run;
    let waits = events::longest(&headline, WAITS_MAX);
    if waits.is_empty() {
        return String::new();
    }
    let has_reads = headline.summary.waits.iter().any(|wait| wait.class == WaitClass::UserIo);
    let note = if has_reads { paragraph("", "  ", events::READS_INCLUDE) } else { String::new() };
    waits.render() + &note
}

fn brief_interference(run: &Run, place: &str) -> String {
    let mut out = String::new();
    interference::lines(run).iter().for_each(|line| out.push_str(&paragraph("", "  ", line)));
    let table = interference::brief_table(run);
    if !table.is_empty() {
        let count = run.summary.interference.as_ref().map_or(0, Vec::len);
        let known = if count == 1 { "neighbour" } else { "layer" };
        out.push_str(&format!("\n{}", table.render_without(&[known]).0));
    }
    out.push('\n');
    super::status(&mut out, run);
    let record = record(place);
    let taken = out.lines().count() + record.lines().count();
    out + &findings(run, SCREEN_LINES.saturating_sub(taken)) + &record
}

fn record(place: &str) -> String {
    let whole = "report.txt and report.html there hold the whole report; --full prints it here";
    format!("\n{}", paragraph("record ", "  ", &format!("{place}: {whole}")))
}

/// Lists errors, then warnings, with their meaning, in as many lines.
fn findings(run: &Run, lines: usize) -> String {
    let findings = run.summary.findings.iter();
    let mut grave: Vec<_> = findings.filter(|finding| finding.severity != Severity::Info).collect();
    grave.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let texts = grave.iter().map(|finding| {
        let text = format!("{}. {}", finding.message, finding.advice);
        paragraph(&format!("- {}: ", finding.id), "  ", &text)
    });
    let texts: Vec<String> = texts.collect();
    let lines = lines.saturating_sub(1);
    let out = fitting_paragraphs(&texts, FINDINGS_MAX, lines, "finding", "in the report");
    if out.is_empty() { out } else { format!("\n{out}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::within;
    use petal_record::conclusions::{LedgerRow, WriteLedger};
    use petal_record::connections::Outage;
    use petal_record::fixture;

    /// Is it the array or the host? A device that takes its time, and others on the processors.
    #[test]
    fn the_time_of_an_operation_is_divided_once() {
        let mut run = fixture::mixed_run();
        fixture::time_threads(&mut run, 1.0);
        let seen = run.details.os.as_mut().unwrap();
        let sum = &mut seen.whole.sum;
        let ticks = petal_host::os::CpuTicks::from([170, 0, 10, 20, 0, 0, 0, 0]);
        sum.cpus.host = Some(ticks);
        sum.counts.petal_cpu_us = Some((sum.seconds * 1.1e6) as u64);
        petal_judge::conclude(&mut run);
        let shown = within(80, || brief(&run, "petal-results/x"));
        let place = shown.find("time of an operation").unwrap();
        insta::assert_snapshot!(&shown[place..shown.find("status ").unwrap()], @"
        time of an operation 8,640 us: # page cache, file system 61 %, = waiting for a
          processor 25 %, + processor 12 %, . rest 1 %
          [##############################################===================++++++++++.]
        ");
        assert!(!shown.contains("DB time"), "{shown}");
        let text = super::super::render(&run);
        let events = &text[text.find("TOP TIMED EVENTS").unwrap()..];
        let events = &events[..events.find("OPERATION LATENCY").unwrap()];
        assert!(!events.contains("CPU + other") && events.contains("the waterfall divides it"));
        assert_eq!(events.matches(" %").count(), 1, "the heading alone: {events}");
        // Parts that do not add up divide nothing.
        fixture::time_threads(&mut run, 0.8);
        petal_judge::conclude(&mut run);
        let shown = within(80, || brief(&run, "petal-results/x"));
        assert!(!shown.contains("time of an operation") && shown.contains("% DB time"), "{shown}");
        assert!(shown.contains("A wait for a read includes the wait for a processor."), "{shown}");
        let text = super::super::render(&run);
        assert!(text.contains("The parts do not add up to the operation"), "{text}");
    }

    #[test]
    fn the_screen_has_the_event_that_limits_and_the_bytes_written_for_a_changed_one() {
        let mut run = fixture::mixed_run();
        // A trigger sleeps.
        run.summary.waits.truncate(1);
        let wait = &mut run.summary.waits[0];
        (wait.name, wait.class) = ("Timeout:PgSleep".to_owned(), WaitClass::Other);
        wait.time_us = run.details.db_time_s * 0.97e6;
        petal_judge::conclude(&mut run);
        // Another program writes a third of all.
        let row = |written: &str, bytes| LedgerRow {
            written: written.to_owned(),
            bytes: Some(bytes),
            ..LedgerRow::default()
        };
        run.summary.write_ledger = Some(WriteLedger {
            rows: vec![row("device", 20_000_000), row("other programs", 10_000_000)],
            amplification: Some(25.8),
            ..WriteLedger::default()
        });
        let shown = within(200, || brief(&run, "petal-results/x"));
        let line = shown.replace("\n  ", " ");
        assert!(
            line.contains("limited by: wait event Timeout:PgSleep (97 % of DB time)"),
            "{shown}"
        );
        let written = "\nwritten 25.8 bytes at the device for each changed byte; 10.0 MB of other \
                       programs are not counted\n";
        assert!(shown.contains(written), "{shown}");
    }

    #[test]
    fn the_end_of_a_run_fits_on_a_screen() {
        let mut run = fixture::mixed_run();
        run.summary.findings = petal_judge::judge(&run);
        let shown = within(80, || brief(&run, "petal-results/20261120T140000Z-run"));
        insta::assert_snapshot!(shown, @r"
        valid test of the device | PIOPS 59,432 read + 10,000 write | single-block read
          84.3 us | redo 96.2 MB/s | served by: device | limited by: waiting for reads
          (63 % of DB time) | whole run 60.0 s (the counted window's counters are not
          known)
        next petal run -s 4 --update-pct 20 --scale 8192 --threads-per-schema 2 \
          --repeats 3 --db sqlite:petal-data

        operation   count  mean us  p50 us  p99 us  p99.9 us   max us
        ---------  ------  -------  ------  ------  --------  -------
        select     43,888    7,916   7,377  10,002    72,810   79,952
        update     10,972   13,195  12,698  16,351   105,644  106,496

        wait             waits  avg us  % DB time
        -----------  ---------  ------  ---------
        main read    3,565,900    84.3       63.4
        wal sync        10,972   412.0        1.0
        writer lock      5,486   520.0        0.6
        CPU + other          -       -       35.0
        A wait for a read includes the wait for a processor.

        status complete
        info: too-short-to-judge, single-run, small-log

        record petal-results/20261120T140000Z-run: report.txt and report.html there hold
          the whole report; --full prints it here
        ");
        let outage = Outage { first_error_s: 8.9, down_s: Some(2.3), ..Outage::default() };
        let mut disturbed = run.clone();
        disturbed.summary.outages = Some(vec![outage]);
        let shown = within(80, || brief(&disturbed, "petal-results/x"));
        assert!(shown.starts_with("outage at second 8.90: no success for 2.30 s;"), "{shown}");
        assert!(shown.contains("\nvalid test of the device | PIOPS 59,432 read + "), "{shown}");
        let finding = run.summary.findings[0].clone();
        let warning = petal_record::Finding { severity: Severity::Warning, ..finding };
        run.summary.findings = vec![warning; 30];
        let shown = within(80, || brief(&run, "petal-results/20261120T140000Z-run"));
        assert!(shown.lines().count() <= 40, "{shown}");
        assert!(shown.contains("27 more findings in the report"), "{shown}");
    }
}
