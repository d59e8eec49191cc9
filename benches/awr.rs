//! How many AWR reports are read in a second, on one core: a text report of 200 kB and an HTML one
//! of 600 kB, made here, from bytes in memory to figures and CSV.
//!
//! `cargo bench --bench awr` prints medians of rounds.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use petal_awr::{parse, source};
use petal_production::shown::csv;

const ROUNDS: usize = 9;
const READS: usize = 20;
const TEXT: &str = include_str!("../tests/data/awr/awr_12c.txt");
const HTML: &str = include_str!("../tests/data/awr/awr_11g.html");

fn main() {
    println!("{:<12} {:>9} {:>12} {:>10}", "report", "bytes", "reports/s", "MB/s");
    for (name, report) in [("text", text(200_000)), ("html", html(600_000))] {
        let mut rates: Vec<f64> = (0..ROUNDS).map(|_| rate(&report)).collect();
        rates.sort_by(f64::total_cmp);
        let median = rates[ROUNDS / 2];
        let megabytes = median * report.len() as f64 / 1e6;
        println!("{name:<12} {:>9} {median:>12.0} {megabytes:>10.0}", report.len());
    }
}

fn rate(report: &str) -> f64 {
    let begun = Instant::now();
    for _ in 0..READS {
        let source = source::decode(report.as_bytes().to_vec());
        let report = parse("report", source).unwrap();
        black_box(csv::table(&[report]).csv().unwrap());
    }
    READS as f64 / begun.elapsed().as_secs_f64()
}

/// The sample, with as many statistics, and as much SQL, as real reports of that size have.
fn text(bytes: usize) -> String {
    let (head, end) = TEXT.rsplit_once("End of Report").unwrap();
    let mut report = head.to_owned();
    let title = |name: &str| format!("\n{name:<44}DB/Inst: LILY/lily2  Snaps: 310-311\n");
    for page in 0.. {
        if report.len() >= bytes {
            break;
        }
        report.push_str(&title("SQL ordered by Reads"));
        for line in 0..60 {
            let _ = writeln!(
                report,
                "SELECT COUNT(c{line}) FROM cf{page} WHERE custid BETWEEN :1 AND :2"
            );
        }
        report.push_str(&title("Instance Activity Stats"));
        report.push_str(
            "\nStatistic                                     Total     per Second     per Trans\n",
        );
        report.push_str(
            "-------------------------------- ------------------ -------------- -------------\n",
        );
        for line in 0..40 {
            let name = format!("statistic {line} of page {page}");
            let _ = writeln!(
                report,
                "{name:<32} {:>18} {:>14} {:>13}",
                "1,234,567", "2,057.6", "205.8"
            );
        }
        report.push_str(&format!("{:26}{}\n", "", "-".repeat(54)));
    }
    report + "End of Report" + end
}

fn html(bytes: usize) -> String {
    let (head, end) = HTML.rsplit_once("End of Report").unwrap();
    let mut report = head.to_owned();
    for page in 0.. {
        if report.len() >= bytes {
            break;
        }
        report.push_str("<h3 class=\"awr\">SQL ordered by Reads</h3><table border=\"0\"><tr><th>Reads</th><th>SQL Text</th></tr>");
        for line in 0..20 {
            let _ = writeln!(
                report,
                "<tr><td align=\"right\" class='awrc'>1,234</td><td class='awrc'>SELECT COUNT(c{line}) FROM cf{page} WHERE custid &gt; :1</td></tr>"
            );
        }
        report.push_str("</table><h3 class=\"awr\">Instance Activity Stats</h3><table border=\"0\" class=\"tdiff\" summary=\"This table displays Instance activity statistics\"><tr><th class=\"awrbg\" scope=\"col\">Statistic</th><th class=\"awrbg\" scope=\"col\">Total</th><th class=\"awrbg\" scope=\"col\">per Second</th><th class=\"awrbg\" scope=\"col\">per Trans</th></tr>");
        for line in 0..40 {
            let _ = writeln!(
                report,
                "<tr><td scope=\"row\" class='awrnc'>statistic {line} of page {page}</td><td align=\"right\" class='awrnc'>1,234,567</td><td align=\"right\" class='awrnc'>2,057.61</td><td align=\"right\" class='awrnc'>205.76</td></tr>"
            );
        }
        report.push_str("</table>");
    }
    report + "End of Report" + end
}
