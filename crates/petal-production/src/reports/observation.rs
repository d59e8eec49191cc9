//! A report among the points of sweeps, charts and comparisons.

use std::collections::BTreeMap;

use petal_awr::columns::value;
use petal_awr::derived::{begin_iso, rate};
use petal_awr::figure::number;
use petal_awr::report::Report;
use petal_record::observation::{Observation, metric};

/// The report as sweeps, charts and comparisons know one: its file, its factors, its figures.
pub fn observation(report: &Report) -> Observation {
    const METRICS: [(&str, &str, f64); 11] = [
        (metric::PIOPS, "piops", 1.0),
        (metric::READS, "read_requests_per_s", 1.0),
        (metric::WRITES, "write_requests_per_s", 1.0),
        (metric::READ_MB, "read_bytes_per_s", 1e-6),
        (metric::WRITE_MB, "write_bytes_per_s", 1e-6),
        (metric::REDO_MB, "redo_bytes_per_s", 1e-6),
        (metric::LOGICAL_READS, "logical_reads_per_s", 1.0),
        (metric::READ_US, "read_us", 1.0),
        (metric::WRITE_US, "write_us", 1.0),
        (metric::LOG_US, "log_write_us", 1.0),
        (metric::CPU_IDLE, "cpu_idle_pct", 1.0),
    ];
    let mut metrics: BTreeMap<String, f64> = METRICS
        .iter()
        .filter_map(|(metric, column, factor)| {
            Some(((*metric).to_owned(), value(report, column)? * factor))
        })
        .collect();
    let both = metrics.get(metric::READ_MB).zip(metrics.get(metric::WRITE_MB));
    if let Some(mb) = both.map(|(read, write)| read + write) {
        metrics.insert(metric::MB.to_owned(), mb);
    }
    if let Some(commits) = rate(report, "user commits").and_then(|figure| figure.number()) {
        metrics.insert(metric::COMMITS.to_owned(), commits);
    }
    Observation {
        source: report.file.clone(),
        factors: report.factors.clone(),
        // The report's own clock: it does not say in which zone.
        started_at: begin_iso(report).map(|time| time.shown()),
        elapsed_s: number(&report.header.elapsed_min).map(|minutes| minutes * 60.0),
        metrics,
        ..Observation::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use petal_awr::factors;

    use super::*;
    use petal_awr::samples::sample;

    #[test]
    fn observations_bear_the_charts_names() {
        let mut report = sample("awr_11g.html");
        report.factors = factors::of_name(Path::new("awr_20_16.html"), &report);
        let seen = observation(&report);
        assert_eq!((seen.factor("update_pct"), seen.factor("sessions")), (Some("20"), Some("16")));
        assert_eq!(seen.elapsed_s, Some(600.0));
        assert_eq!(seen.started_at.as_deref(), Some("2012-03-02T14:00:00"));
        let metric = |name: &str| seen.metric(name).unwrap();
        assert!((metric("piops") - 51_168.67).abs() < 0.02, "{}", metric("piops"));
        assert!((metric("read_us") - 17_680e6 / 29_988_001.0).abs() < 1e-6);
        assert_eq!(seen.metric("select_p99_us"), None);
    }
}
