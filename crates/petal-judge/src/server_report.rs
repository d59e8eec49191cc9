//! Compares petal's own two snapshots with the database's report of the run: two layers that should
//! agree, the same statistics read by two parties. The report's window is the wider one, since its
//! snapshots are taken before and after petal's, and making them is work that it counts too; so its
//! totals may be larger, within a stated tolerance, and hardly be smaller.

use petal_host::numbers::decimal;
use serde_json::json;

use super::judgement::{
    FindingParts, Judgement,
    NoFinding::{self, Clear},
    warning,
};
use petal_record::Run;
use petal_record::server_report::SeenReport;

/// A report that counts so much less than petal did within its window.
const LESS_MAX: f64 = 0.02;
/// The largest excess of a report's figures, in addition to the excess of its window's length.
const MORE_MAX: f64 = 0.10;
/// Longest window, as a multiple of the run: in a longer one any total would be within the
/// tolerance.
const WINDOW_MAX: f64 = 2.0;
/// Counts below these, and means of so few, are the report's own work as much as the run's, and are
/// not judged.
const COUNT_MIN: f64 = 10_000.0;
const BYTES_MIN: f64 = 64.0 * 1024.0 * 1024.0;
/// Latencies of the run, and the report's figures of the same.
const LATENCIES: [(&str, &str); 3] =
    [("read", "read_us"), ("write", "write_us"), ("log", "log_write_us")];

/// A figure in both sources.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportRow {
    pub what: String,
    pub petal: f64,
    pub report: f64,
    /// Excess of the report's figure as a share; negative if it is less.
    pub share: Option<f64>,
    /// Agreement, or `None` if the counts are too small to judge.
    pub agrees: Option<bool>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ReportComparison {
    /// Files that cover the whole run.
    pub files: Vec<String>,
    pub run_s: f64,
    pub report_s: Option<f64>,
    /// Shares that the report's totals may be less and more.
    pub allowed: (f64, f64),
    pub rows: Vec<ReportRow>,
}

/// Compares petal's counters with the database's own report. None if the record has no report; the
/// error says why a report could not be compared.
pub fn compare(run: &Run) -> Option<Result<ReportComparison, String>> {
    let reports = &run.summary.server_reports;
    (!reports.is_empty()).then(|| {
        let chosen = chosen(run, reports)?;
        let comparison = of(run, &chosen);
        check_window(&comparison)?;
        if comparison.rows.is_empty() {
            return Err("petal's own counters and the report have no figure in common".to_owned());
        }
        Ok(comparison)
    })
}

/// Refuses a window that is too wide to separate the run from other work.
fn check_window(comparison: &ReportComparison) -> Result<(), String> {
    let ReportComparison { files, run_s, report_s, .. } = comparison;
    let Some(report_s) = report_s.filter(|report_s| *report_s > run_s * WINDOW_MAX) else {
        return Ok(());
    };
    Err(format!(
        "{} covers {report_s} s and the run lasted {run_s} s: over {WINDOW_MAX} times as long, \
         so that its totals say little of the run",
        files.join(", "),
        report_s = decimal(report_s, 0),
        run_s = decimal(*run_s, 0)
    ))
}

/// Chooses the reports that together cover petal's counters.
fn chosen<'r>(run: &Run, reports: &'r [SeenReport]) -> Result<Vec<&'r SeenReport>, String> {
    let read: Vec<&SeenReport> = reports.iter().filter(|report| report.unread.is_none()).collect();
    if read.is_empty() {
        let why: Vec<String> = reports
            .iter()
            .map(|it| format!("{}: {}", it.file, it.unread.as_deref().unwrap_or_default()))
            .collect();
        return Err(format!("the database's report could not be read ({})", why.join("; ")));
    }
    let is_restart =
        |report: &&&SeenReport| report.findings.iter().any(|f| f.id == "spans-restart");
    if let Some(report) = read.iter().find(is_restart) {
        return Err(format!("{} spans a restart of the instance", report.file));
    }
    if let Some(cluster) = read.iter().find(|report| report.is_of_cluster()) {
        return Ok(vec![cluster]);
    }
    // Endpoints that share instances are one entry.
    let endpoints = run.summary.endpoints.iter();
    let counted: usize = endpoints.map(|endpoint| endpoint.endpoint.split(", ").count()).sum();
    if counted > 1 && counted != read.len() {
        return Err(format!("there are reports of {} of {counted} instances", read.len()));
    }
    if counted <= 1 && read.len() > 1 {
        return Err(
            "several reports lie in the run's folder, and petal counted one instance".into()
        );
    }
    Ok(read)
}

fn of(run: &Run, chosen: &[&SeenReport]) -> ReportComparison {
    let run_s = run.summary.elapsed_s;
    let report_s = chosen.iter().filter_map(|report| report.elapsed_s).reduce(f64::max);
    let wider = report_s.filter(|_| run_s > 0.0).map_or(0.0, |s| (s / run_s - 1.0).max(0.0));
    let allowed = (LESS_MAX, MORE_MAX + wider);
    let mut rows = Vec::new();
    if let [first, rest @ ..] = chosen {
        for (name, &total) in &first.totals {
            let others: Option<Vec<f64>> =
                rest.iter().map(|report| report.totals.get(name).copied()).collect();
            if let Some((&petal, others)) = run.summary.counters.get(name).zip(others) {
                let report = total + others.iter().sum::<f64>();
                rows.push(count(name, petal as f64, report, allowed));
            }
        }
    }
    if let [only] = chosen {
        rows.extend(LATENCIES.iter().filter_map(|(ours, theirs)| {
            let seen = run.summary.io_latency_us.get(*ours)?;
            let petal = seen.mean?;
            let is_enough = petal > 0.0 && seen.count as f64 >= COUNT_MIN;
            let figure = only.figure(theirs)?;
            let share = (petal > 0.0).then(|| figure.value / petal - 1.0);
            let off = (figure.value - petal).abs() - figure.rounded_to;
            Some(ReportRow {
                what: format!("{ours}, us on average"),
                petal,
                report: figure.value,
                share,
                agrees: is_enough.then_some(off <= petal * allowed.1),
            })
        }));
    }
    let files = chosen.iter().map(|report| report.file.clone()).collect();
    ReportComparison { files, run_s, report_s, allowed, rows }
}

fn count(name: &str, petal: f64, report: f64, (less, more): (f64, f64)) -> ReportRow {
    let is_bytes = name.contains("bytes") || name.contains("size");
    let least = if is_bytes { BYTES_MIN } else { COUNT_MIN };
    let share = (petal > 0.0).then(|| report / petal - 1.0);
    let is_enough = petal.max(report) >= least;
    ReportRow {
        what: name.to_owned(),
        petal,
        report,
        share,
        agrees: is_enough.then(|| {
            // A difference below the least value is not reported.
            (report - petal).abs() < least / 2.0
                || share.is_some_and(|share| share >= -less && share <= more)
        }),
    }
}

pub(super) fn judge(run: &Run) -> Judgement {
    let comparison = compare(run).ok_or(Clear)?.map_err(NoFinding::Unknown)?;
    let differ: Vec<&ReportRow> =
        comparison.rows.iter().filter(|row| row.agrees == Some(false)).collect();
    let worst = differ.first().ok_or(Clear)?;
    let names: Vec<&str> = differ.iter().map(|row| row.what.as_str()).collect();
    let mut found = warning(
        format!(
            "{} and petal's own snapshots disagree by more than the report's wider window \
             explains: {} (by {})",
            comparison.files.join(", "),
            names.join(", "),
            worst.share.map_or("all of it".to_owned(), |share| format!("{:+.1} %", share * 100.0)),
        ),
        "Look for other work between the report's snapshots and the run, for another instance or \
         container, and for a clock that was set: petal's figures cover the run alone.",
    )
    .with(json!({
        "run_s": comparison.run_s, "report_s": comparison.report_s,
        "allowed_less": comparison.allowed.0, "allowed_more": comparison.allowed.1,
    }));
    for ReportRow { what, petal, report, .. } in differ {
        let (ours, theirs) = (format!("petal: {what}"), format!("report: {what}"));
        found = found.with(json!({ ours: petal, theirs: report }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    const ID: &str = "server-report-differs";
    use petal_record::counters::IoCounts;
    use petal_record::server_report::ReportFigure;
    use petal_record::{EndpointShare, IoLatency, fixture};

    const READS: &str = "physical read IO requests";

    fn report(instance: &str, reads: f64) -> SeenReport {
        let figure = |value| ReportFigure {
            value,
            unit: "us".into(),
            as_printed: None,
            section: "Foreground Wait Events".into(),
            rounded_to: 0.0,
        };
        SeenReport {
            file: format!("awr-{instance}.html"),
            kind: Some("awr".into()),
            instance: Some(instance.into()),
            elapsed_s: Some(66.0),
            totals: [(READS.to_owned(), reads)].into(),
            figures: [("read_us".to_owned(), figure(80.0))].into(),
            ..SeenReport::default()
        }
    }

    /// A minute in which petal counted a million reads of 80 us.
    fn run(reports: Vec<SeenReport>) -> Run {
        let mut run = fixture::mixed_run();
        run.summary.elapsed_s = 60.0;
        run.summary.counters.insert(READS.into(), 1_000_000);
        let read = IoLatency {
            count: 1_000_000,
            mean: Some(80.0),
            p50: None,
            p99: None,
            max: None,
            source: String::new(),
        };
        run.summary.io_latency_us.insert("read".into(), read);
        run.summary.server_reports = reports;
        run
    }

    fn found(run: &Run) -> Option<String> {
        crate::judge(run).into_iter().find(|f| f.id == ID).map(|f| f.message)
    }

    #[test]
    fn a_wider_window_may_count_more_but_hardly_less() {
        let with = |reads| found(&run(vec![report("a", reads)]));
        // Ten percent longer, and ten percent of tolerance.
        assert_eq!(with(1_190_000.0), None);
        assert_eq!(with(990_000.0), None);
        let more = with(1_300_000.0).unwrap();
        assert!(more.contains(READS) && more.contains("+30.0 %"), "{more}");
        assert!(with(950_000.0).unwrap().contains("-5.0 %"));
    }

    #[test]
    fn a_window_of_over_twice_the_run_is_not_compared() {
        let over = |seconds: f64| {
            let report = SeenReport { elapsed_s: Some(seconds), ..report("a", 1_900_000.0) };
            run(vec![report])
        };
        assert!(compare(&over(120.0)).unwrap().is_ok());
        let wide = over(3600.0);
        let why = compare(&wide).unwrap().unwrap_err();
        insta::assert_snapshot!(why, @"awr-a.html covers 3,600 s and the run lasted 60 s: over 2 times as long, so that its totals say little of the run");
        assert_eq!(found(&wide), None);
        assert!(crate::not_judged(&wide).iter().any(|judged| judged.id == ID));
    }

    #[test]
    fn latencies_are_compared_too() {
        let mut slow = report("a", 1_000_000.0);
        slow.figures.get_mut("read_us").unwrap().value = 200.0;
        assert!(found(&run(vec![slow.clone()])).unwrap().contains("read, us"));
        // A report that rounds to whole milliseconds cannot disagree about 80 us.
        slow.figures.get_mut("read_us").unwrap().rounded_to = 1000.0;
        assert_eq!(found(&run(vec![slow.clone()])), None);
        // Nor do a few waits of the run that the report's own snapshots have as many of.
        slow.figures.get_mut("read_us").unwrap().rounded_to = 0.0;
        let mut few = run(vec![slow]);
        few.summary.io_latency_us.get_mut("read").unwrap().count = 40;
        assert_eq!(found(&few), None);
    }

    #[test]
    fn little_is_not_judged() {
        let mut run = run(vec![report("a", 5000.0)]);
        run.summary.counters.insert(READS.into(), 100);
        assert_eq!(found(&run), None);
        assert_eq!(compare(&run).unwrap().unwrap().rows[0].agrees, None);
    }

    #[test]
    fn instances_are_summed_if_all_are_there() {
        let endpoint = |name: &str| EndpointShare {
            endpoint: name.into(),
            sessions: 4,
            is_beside: false,
            is_standby: false,
            replayed_blocks: None,
            read_us: None,
            io: IoCounts::default(),
        };
        let mut both = run(vec![report("a", 500_000.0), report("b", 510_000.0)]);
        both.summary.endpoints = vec![endpoint("a@n1"), endpoint("b@n2")];
        assert_eq!(compare(&both).unwrap().unwrap().rows[0].report, 1_010_000.0);
        both.summary.server_reports.pop();
        let why = compare(&both).unwrap().unwrap_err();
        assert_eq!(why, "there are reports of 1 of 2 instances");
        let cluster = SeenReport { kind: Some("awrg".into()), ..report("a+b", 1_020_000.0) };
        both.summary.server_reports.push(cluster);
        assert_eq!(compare(&both).unwrap().unwrap().rows[0].report, 1_020_000.0);
    }

    #[test]
    fn a_report_that_could_not_be_read_is_reported_and_judges_nothing() {
        let run = run(vec![SeenReport::unread("awr.html", "it ends behind its title".into())]);
        assert_eq!(found(&run), None);
        let unknown = crate::not_judged(&run);
        let reported = unknown.iter().find(|judged| judged.id == ID).unwrap();
        assert!(
            reported.reason.contains("awr.html: it ends behind its title"),
            "{}",
            reported.reason
        );
        assert_eq!(compare(&fixture::mixed_run()), None);
    }
}
