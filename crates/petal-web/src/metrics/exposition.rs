//! The names of the metrics, and the source of each. All carry the labels `run`,
//! `engine` and `cell`: a run's own, also while the next one settles. None of them holds a URL.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::{Metrics, MetricsState, RunState};
use petal_engine::ProgressUnit;
use petal_host::histogram::Latencies;
use petal_record::Finding;
use petal_record::counters::IoCounts;
use petal_run::Subject;
use petal_workload::op::Kind;

/// Upper bounds of a histogram's buckets are powers of two from 1 us to 67 s.
const BUCKETS: usize = 27;

/// The text that is served.
pub fn text(metrics: &Metrics) -> Result<String, Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics.clone()));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

type Label<'a> = (&'a str, String);

/// Writes metrics with the labels that all of them have.
struct MetricsWriter<'a> {
    encoder: DescriptorEncoder<'a>,
    common: [Label<'static>; 3],
}

impl MetricsWriter<'_> {
    fn labels<'l>(&self, own: &[(&'l str, &str)]) -> Vec<Label<'l>> {
        let own = own.iter().map(|&(name, value)| (name, value.to_owned()));
        self.common.iter().cloned().chain(own).collect()
    }

    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        own: &[(&str, &str)],
        value: f64,
    ) -> Result<(), Error> {
        let labels = self.labels(own);
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_family(&labels)?.encode_gauge(&value)
    }

    /// A counter with a value for each of the label's values.
    fn counters<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> Result<(), Error> {
        let values: Vec<(Vec<Label<'_>>, u64)> = values
            .into_iter()
            .map(|(value, count)| (self.labels(&[(label, value)]), count))
            .collect();
        if values.is_empty() {
            return Ok(());
        }
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, count) in &values {
            metric.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, help: &str, count: u64) -> Result<(), Error> {
        let labels = self.labels(&[]);
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)
    }

    fn histograms(
        &mut self,
        name: &str,
        help: &str,
        of: &[Option<Box<Latencies>>; Kind::ALL.len()],
    ) -> Result<(), Error> {
        let there = Kind::ALL.iter().filter_map(|kind| Some((kind, of[kind.index()].as_deref()?)));
        let there: Vec<(Vec<Label<'_>>, &Latencies)> =
            there.map(|(kind, of)| (self.labels(&[("kind", kind.name())]), of)).collect();
        if there.is_empty() {
            return Ok(());
        }
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, latencies) in &there {
            metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(
                latencies.total_ns() as f64 / 1e9,
                latencies.count(),
                &buckets(latencies),
                None,
            )?;
        }
        Ok(())
    }
}

/// Counts by upper bound in seconds, always the same bounds.
fn buckets(latencies: &Latencies) -> Vec<(f64, u64)> {
    let mut counts = [0; BUCKETS + 1];
    for bar in latencies.bars() {
        counts[(bar.upper_us.ilog2() as usize).min(BUCKETS)] += bar.count;
    }
    let bounds = (0..BUCKETS).map(|power| (1_u64 << power) as f64 / 1e6).chain([f64::INFINITY]);
    bounds.zip(counts).collect()
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let state = self.0.lock();
        let mut writer = MetricsWriter { encoder, common: common(&state.subject) };
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        writer.gauge("petal_build", "The petal that serves this", &version, 1.0)?;
        phase(&mut writer, &state)?;
        let Some(run) = &state.run else { return Ok(()) };
        writer.common = common(&run.subject);
        self::run(&mut writer, run)?;
        findings(&mut writer, &run.findings)
    }
}

/// The labels of all metrics of a piece of work.
fn common(subject: &Subject) -> [Label<'static>; 3] {
    [
        ("run", subject.run.clone()),
        ("engine", subject.engine.to_owned()),
        ("cell", subject.cell.to_string()),
    ]
}

fn phase(writer: &mut MetricsWriter<'_>, state: &MetricsState) -> Result<(), Error> {
    let Some(phase) = &state.phase else { return Ok(()) };
    let unit = match phase.unit {
        ProgressUnit::Bytes => "bytes",
        ProgressUnit::Items => "items",
        ProgressUnit::Seconds => "seconds",
    };
    let own = [("phase", phase.what.as_str()), ("unit", unit)];
    writer.gauge("petal_phase_done", "How far the present phase is", &own, phase.done as f64)?;
    writer.gauge("petal_phase_planned", "Its length; 0: unknown", &own, phase.total as f64)
}

fn run(writer: &mut MetricsWriter<'_>, run: &RunState) -> Result<(), Error> {
    let by_kind =
        |counts: [u64; Kind::ALL.len()]| Kind::ALL.map(|kind| (kind.name(), counts[kind.index()]));
    let totals = &run.totals;
    writer.gauge("petal_run_planned_seconds", "RUN_TIME", &[], run.planned_s)?;
    writer.gauge("petal_run_elapsed_seconds", "Since the trigger", &[], run.elapsed_s)?;
    writer.gauge("petal_sessions", "Sessions that run", &[], run.sessions.into())?;
    writer.counters("petal_operations", "Ended without an error", "kind", by_kind(totals.ops))?;
    writer.counters("petal_rows", "Rows visited", "kind", by_kind(totals.rows))?;
    let errors = totals.errors.iter().map(|(code, count)| (code.as_str(), *count));
    writer.counters("petal_operation_errors", "Failed operations, by code", "code", errors)?;
    writer.histograms(
        "petal_operation_duration_seconds",
        "Service time of an operation, by petal's clock or the server's",
        &totals.service,
    )?;
    writer.histograms(
        "petal_response_duration_seconds",
        "From the intended begin of an operation to its end (RATE)",
        &totals.response,
    )?;
    if let Some(io) = &run.io {
        let known = IoCounts::NAMES.iter().zip(io.each());
        for (name, count) in known.filter_map(|(name, count)| Some((name, count?))) {
            let name = format!("petal_database_{name}");
            writer.counter(&name, "Counted by the database since the trigger", count)?;
        }
    }
    if let Some(device) = &run.device {
        let by_way = |reads, writes| [("read", reads), ("write", writes)];
        let requests = by_way(device.read_requests, device.write_requests);
        writer.counters(
            "petal_device_requests",
            "Served by the data's devices",
            "way",
            requests,
        )?;
        let bytes = by_way(device.read_bytes, device.write_bytes);
        writer.counters("petal_device_bytes", "Served by the data's devices", "way", bytes)?;
    }
    if let Some(cpu) = &run.cpu {
        let help = "Share of the processors' time that is neither idle nor iowait";
        writer.gauge("petal_cpu_busy_ratio", help, &[], cpu.busy() / 100.0)?;
    }
    Ok(())
}

/// Findings of the last judged run, until the next trigger.
fn findings(writer: &mut MetricsWriter<'_>, findings: &[Finding]) -> Result<(), Error> {
    if findings.is_empty() {
        return Ok(());
    }
    let labels: Vec<Vec<Label<'_>>> = findings
        .iter()
        .map(|finding| writer.labels(&[("id", &finding.id), ("severity", finding.severity.name())]))
        .collect();
    let help = "Findings of the last run";
    let mut metric =
        writer.encoder.encode_descriptor("petal_finding", help, None, MetricType::Gauge)?;
    labels.iter().try_for_each(|labels| metric.encode_family(labels)?.encode_gauge(&1.0_f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::timeline::Tally;
    use petal_record::{Second, Severity};
    use petal_run::Watch as _;

    #[test]
    fn a_run_is_served_with_its_labels_and_cumulative_buckets() {
        let metrics = Metrics(Default::default());
        metrics.begins(&Subject { engine: "sqlite", run: "r1".into(), cell: 2, folder: None });
        metrics.triggered(8, 60.0);
        let mut latencies = Latencies::new();
        [900, 3_000, 3_000_000, 200_000_000_000].into_iter().for_each(|ns| latencies.record(ns));
        let mut totals = Tally { ops: [4, 0, 0], rows: [32, 0, 0], ..Tally::default() };
        totals.service[0] = Some(Box::new(latencies));
        totals.errors.insert("busy".into(), 3);
        let io = IoCounts { physical_read_requests: Some(7), ..IoCounts::default() };
        let second = |from_s| Second {
            from_s,
            length_s: 1.0,
            sessions: 8,
            io: Some(io),
            ..Second::default()
        };
        metrics.second(&second(0.0), &totals, 59.0);
        metrics.second(&second(1.0), &totals, 58.0);
        let text = text(&metrics).unwrap();
        let is_shown = |line: &&str| {
            !line.starts_with('#') && !line.contains("_bucket") && !line.ends_with(" 0")
        };
        let shown: Vec<&str> = text.lines().filter(is_shown).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        petal_build{run="r1",engine="sqlite",cell="2",version="0.1.0"} 1.0
        petal_phase_done{run="r1",engine="sqlite",cell="2",phase="running",unit="seconds"} 2.0
        petal_phase_planned{run="r1",engine="sqlite",cell="2",phase="running",unit="seconds"} 60.0
        petal_run_planned_seconds{run="r1",engine="sqlite",cell="2"} 60.0
        petal_run_elapsed_seconds{run="r1",engine="sqlite",cell="2"} 2.0
        petal_sessions{run="r1",engine="sqlite",cell="2"} 8.0
        petal_operations_total{run="r1",engine="sqlite",cell="2",kind="select"} 4
        petal_rows_total{run="r1",engine="sqlite",cell="2",kind="select"} 32
        petal_operation_errors_total{run="r1",engine="sqlite",cell="2",code="busy"} 3
        petal_operation_duration_seconds_sum{run="r1",engine="sqlite",cell="2",kind="select"} 200.0030039
        petal_operation_duration_seconds_count{run="r1",engine="sqlite",cell="2",kind="select"} 4
        petal_database_physical_read_requests_total{run="r1",engine="sqlite",cell="2"} 14
        "#);
        let bucket = |le: &str| {
            let start = format!("petal_operation_duration_seconds_bucket{{le=\"{le}\",");
            text.lines().find(|line| line.starts_with(&start)).unwrap().rsplit_once(' ').unwrap().1
        };
        let bounds = ["0.000001", "0.000002", "0.000004", "0.004096", "67.108864", "+Inf"];
        assert_eq!(bounds.map(bucket), ["1", "1", "2", "3", "3", "4"]);
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_run_is_served_to_its_end_and_until_the_next_one_is_triggered() {
        let metrics = Metrics(Default::default());
        let subject =
            |cell| Subject { engine: "sqlite", run: format!("r{cell}"), cell, folder: None };
        let totals = |ops| Tally { ops: [ops, 0, 0], ..Tally::default() };
        let io = IoCounts { physical_read_requests: Some(7), ..IoCounts::default() };
        let second = |from_s, length_s, io| Second { from_s, length_s, io, ..Second::default() };
        metrics.begins(&subject(1));
        metrics.triggered(8, 2.0);
        metrics.second(&second(0.0, 1.0, Some(io)), &totals(5), 1.0);
        metrics.ended(&[second(1.0, 1.0, Some(io)), second(2.0, 0.25, None)], &totals(9));
        metrics.judged(&[Finding {
            id: "steal".into(),
            severity: Severity::Warning,
            message: String::new(),
            advice: String::new(),
            evidence: Default::default(),
        }]);
        let at_the_end = [
            "petal_run_elapsed_seconds{run=\"r1\",engine=\"sqlite\",cell=\"1\"} 2.25",
            "petal_sessions{run=\"r1\",engine=\"sqlite\",cell=\"1\"} 0",
            "petal_operations_total{run=\"r1\",engine=\"sqlite\",cell=\"1\",kind=\"select\"} 9",
            "physical_read_requests_total{run=\"r1\",engine=\"sqlite\",cell=\"1\"} 14",
            "petal_finding{run=\"r1\",engine=\"sqlite\",cell=\"1\",id=\"steal\"",
        ];
        let shows = |metrics: &Metrics| {
            let text = text(metrics).unwrap();
            at_the_end.iter().for_each(|line| assert!(text.contains(line), "{line}: {text}"));
        };
        shows(&metrics);
        metrics.begins(&subject(2));
        shows(&metrics);
        assert!(text(&metrics).unwrap().contains("petal_build{run=\"r2\""));
        metrics.triggered(8, 2.0);
        let text = text(&metrics).unwrap();
        assert!(!text.contains("petal_finding") && !text.contains("r1"), "{text}");
    }

    #[test]
    fn nothing_is_served_of_what_is_not_known() {
        let text = text(&Metrics(Default::default())).unwrap();
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 1, "{text}");
    }
}
