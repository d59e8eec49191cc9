//! An observation: a run reduced to its factors and figures, by name. Sweeps, comparisons,
//! published tables and AWR reports all become observations, so that statistics, petals and charts
//! are written once. Only figures; nothing here judges.

mod context;
mod figures;

use std::collections::BTreeMap;
use std::path::Path;

use time::OffsetDateTime;

use super::conclusions::{LimitedBy, ServedBy};
use super::headline::{Headline, Validity};
use super::{Finding, HeadlineWindow, Run, Severity, Status, Window, moment};

/// The names of the metrics that charts and comparisons look for. A unit ends each name: `_s` is
/// per second, `_us` microseconds, `_mb_s` millions of bytes per second, `_pct` percent.
pub mod metric {
    /// Physical read and write requests per second, as the database counted them.
    pub const PIOPS: &str = "piops";
    /// 1 if petals are drawn with the reads alone, because the writes are unknown.
    pub const READS_ONLY: &str = "piops_reads_only";
    pub const READS: &str = "reads_s";
    pub const WRITES: &str = "writes_s";
    /// Physical reads and writes together.
    pub const MB: &str = "mb_s";
    pub const READ_MB: &str = "read_mb_s";
    pub const WRITE_MB: &str = "write_mb_s";
    pub const REDO_MB: &str = "redo_mb_s";
    pub const LOGICAL_READS: &str = "logical_reads_s";
    pub const OPS: &str = "ops_s";
    pub const COMMITS: &str = "commits_s";
    /// Mean single-block read, write and log write as the database timed them.
    pub const READ_US: &str = "read_us";
    pub const WRITE_US: &str = "write_us";
    pub const LOG_US: &str = "log_us";
    pub const CPU_IDLE: &str = "cpu_idle_pct";
    /// All operations of a run together, petal's clock.
    pub const OP_P50: &str = "op_p50_us";
    pub const OP_P99: &str = "op_p99_us";
    /// 100 - idle - iowait of the database's host.
    pub const CPU_BUSY: &str = "cpu_busy_pct";
    /// petal's share of its host's processors, if the database is another process.
    pub const PETAL_CPU: &str = "petal_cpu_pct";
    /// Time with anything in flight, the mean over the devices behind the data.
    pub const DEVICE_UTIL: &str = "device_util_pct";
    /// Requests in the devices and their queues, on average.
    pub const DEVICE_QUEUE: &str = "device_queue";
    pub const DEVICE_READ_AWAIT: &str = "device_read_await_us";
    pub const DEVICE_WRITE_AWAIT: &str = "device_write_await_us";
    /// Logical reads from the database's cache.
    pub const HIT: &str = "hit_pct";
    /// Monthly cost of the platform, from PRICE_PER_MONTH.
    pub const PRICE: &str = "price_per_month";
    /// The parts of the bytes read from each known source.
    pub const SERVED_DEVICE: &str = "served_device_pct";
    pub const SERVED_PAGE_CACHE: &str = "served_page_cache_pct";
    pub const SERVED_UNSEEN: &str = "served_unseen_pct";
    /// Reads waited for, and the time that all sessions waited for them, in published tables.
    pub const READ_WAITS: &str = "read_waits";
    pub const READ_WAIT_S: &str = "read_wait_s";

    /// Returns true for a result that the source of the reads decides: physical I/O and its time as
    /// the database saw it, and the operations that wait for it.
    pub fn is_of_storage(name: &str) -> bool {
        let all =
            [PIOPS, READS, WRITES, MB, READ_MB, WRITE_MB, READ_US, WRITE_US, OPS, LOGICAL_READS];
        let is_percentile = |kind: &str| {
            name.strip_prefix(kind)
                .is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
        };
        all.contains(&name) || ["read_p", "write_p", "op_p"].into_iter().any(is_percentile)
    }

    /// Whether more of a figure is better; None if it depends.
    pub fn is_more_better(name: &str) -> Option<bool> {
        let rates = [PIOPS, READS, MB, READ_MB, LOGICAL_READS, OPS, COMMITS];
        match name {
            _ if rates.contains(&name) => Some(true),
            _ if name.ends_with("_us") => Some(false),
            _ => None,
        }
    }

    /// The share of DB time that a class of waits took: `wait_concurrency_pct`.
    pub fn wait(class: crate::counters::WaitClass) -> String {
        format!("wait_{}_pct", class.label().to_lowercase().replace("i/o", "io").replace(' ', "_"))
    }
}

/// A run, a published row or a report, as figures by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// Origin of the figures: a folder, a file, a row of a file.
    pub source: String,
    /// Factors in the order of their columns: parameters in lower case (`update_pct`), `sessions`,
    /// `db`. Observations with equal factors are repeats of one cell.
    pub factors: Vec<(String, String)>,
    /// The round it belongs to, from 1; pairs interleaved runs. None if unknown.
    pub repeat: Option<u32>,
    /// The figures of its cell decided how often it was repeated.
    pub is_repeated_by_figures: bool,
    /// UTC, RFC 3339.
    pub started_at: Option<String>,
    pub elapsed_s: Option<f64>,
    /// Number of sessions that ran, if the source states it.
    pub sessions: Option<u32>,
    /// Number of sessions that ended early.
    pub sessions_lost: Option<u32>,
    pub active_bytes: Option<u64>,
    /// Figures by the names in [`metric`], names such as `select_p99_us`, and the values that hooks
    /// printed (`hook_<name>`). An unknown figure is absent.
    pub metrics: BTreeMap<String, f64>,
    /// Figures by endpoint, if there are several: metric, endpoint, value.
    pub endpoints: BTreeMap<String, BTreeMap<String, f64>>,
    /// Settings in force (by their parameter's name) and the environment (`host`, `kernel`,
    /// `device`, `database`, `petal`), as text: the possible differences between two sides.
    pub context: BTreeMap<String, String>,
    /// The time of a run that the figures cover; None if the source is not a run.
    pub window: Option<Window>,
    /// The ids of the run's warnings and errors.
    pub warnings: Vec<String>,
    /// Findings in full, if the source is a record: a table has only their ids.
    pub findings: Vec<Finding>,
    /// The verdict and its figures; None if the source is not a judged run.
    pub headline: Option<Headline>,
    /// None if the source does not state it.
    pub served_by: Option<ServedBy>,
    pub limited_by: Option<LimitedBy>,
    /// `complete`, `interrupted` or `failed`; None if unknown.
    pub status: Option<Status>,
    /// The record cannot be read: only its place and its start are known.
    pub is_damaged: bool,
}

impl Observation {
    pub fn factor(&self, name: &str) -> Option<&str> {
        self.factors.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The start; None if the source does not state it.
    pub fn started(&self) -> Option<OffsetDateTime> {
        moment::parse(self.started_at.as_deref()?)
    }

    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied()
    }

    /// Reason why its figures cannot be used for its cell; None for a whole and valid run.
    pub fn why_unusable(&self) -> Option<String> {
        let of_status = match self.status {
            _ if self.is_damaged => Some("its record cannot be read"),
            Some(Status::Interrupted) => Some("it was interrupted"),
            Some(Status::Failed) => Some("it failed"),
            Some(Status::Incomplete) => Some("the record of a driver host is missing or cut off"),
            Some(Status::Complete) | None => None,
        };
        let verdict = self.headline.as_ref().map(|headline| &headline.verdict);
        let invalid = verdict.filter(|verdict| verdict.validity == Validity::Invalid);
        let reason = || invalid?.reason.as_ref().map(|reason| reason.finding.as_str());
        let of_verdict = || reason().map(|finding| format!("it is invalid: {finding}"));
        of_status.map(str::to_owned).or_else(of_verdict)
    }

    /// The length of the run, as its source states it. Published tables state waits and their rate:
    /// the length is their ratio.
    pub fn run_length_s(&self) -> Option<f64> {
        self.elapsed_s.or_else(|| {
            // A published table with only reads calls their rate IOPS.
            let rate = self.metric(metric::READS).or_else(|| self.metric(metric::PIOPS))?;
            let waits = self.metric(metric::READ_WAITS)?;
            (rate > 0.0).then_some(waits / rate)
        })
    }

    /// The figures of a run's counted window, with the factors that its series gave it.
    pub fn of_run(source: &str, factors: Vec<(String, String)>, run: &Run) -> Self {
        let summary = &run.summary;
        let HeadlineWindow { run: shown, window } = run.headline_window();
        let of_weight = summary.findings.iter().filter(|it| it.severity >= Severity::Warning);
        Self {
            source: source.to_owned(),
            factors,
            repeat: Some(run.details.repeat).filter(|&repeat| repeat > 0),
            is_repeated_by_figures: false,
            started_at: Some(summary.started_at.clone()),
            elapsed_s: Some(summary.elapsed_s),
            sessions: Some(summary.sessions),
            sessions_lost: Some(summary.sessions_lost.len() as u32),
            active_bytes: Some(summary.active_bytes),
            metrics: figures::of(&shown),
            endpoints: figures::by_endpoint(&shown),
            context: context::of(run),
            window: Some(window),
            warnings: of_weight.clone().map(|finding| finding.id.clone()).collect(),
            findings: of_weight.cloned().collect(),
            headline: summary.headline.clone(),
            served_by: summary.served_by.clone(),
            limited_by: summary.limited_by.clone(),
            status: Some(summary.status),
            is_damaged: false,
        }
    }

    /// A run whose record cannot be read, named by its folder.
    pub fn of_damaged(folder: &Path) -> Self {
        Self {
            source: folder.display().to_string(),
            started_at: super::folder::begun_at(folder).map(moment::exact),
            is_damaged: true,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_run_becomes_its_figures() {
        let run = fixture::mixed_run();
        let seen = Observation::of_run("a", vec![("sessions".into(), "8".into())], &run);
        assert_eq!(seen.metric(metric::PIOPS), run.summary.piops());
        assert_eq!(
            seen.metric(metric::REDO_MB),
            run.summary.per_second.redo_bytes.map(|b| b / 1e6)
        );
        assert_eq!(seen.factor("sessions"), Some("8"));
        assert_eq!(seen.metric("select_p99_us"), run.summary.latency_us["select"].p99);
    }

    #[test]
    fn figures_are_of_the_steady_window() {
        let run = fixture::windowed_run();
        let steady = run.summary.steady.clone().unwrap();
        let seen = Observation::of_run("a", Vec::new(), &run);
        assert_eq!(seen.metric(metric::OPS), steady.per_second.ops);
        assert_eq!(seen.metric(metric::READS), steady.per_second.physical_read_requests);
        assert_ne!(seen.metric(metric::OPS), run.summary.per_second.ops);
        assert_eq!(seen.elapsed_s, Some(60.0));
    }

    #[test]
    fn all_figures_end_where_the_database_stopped_reporting() {
        let mut run = fixture::mixed_run();
        run.summary.counted_until = Some(crate::CountedUntil {
            second: 7.0,
            of_s: 60.0,
            db_time_s: 50.0,
            think_time_s: 0.0,
        });
        let seen = Observation::of_run("a", Vec::new(), &run);
        let counted = run.counted();
        assert_eq!(seen.metric(metric::READS), counted.summary.per_second.physical_read_requests);
        assert_ne!(seen.metric(metric::READS), run.summary.per_second.physical_read_requests);
        let queue = run.details.timeline[..7].iter().filter_map(|second| second.device);
        let ms: u64 = queue.map(|device| device.read_ms + device.write_ms).sum();
        assert_eq!(seen.metric(metric::DEVICE_QUEUE), Some(ms as f64 / 7e3));
    }

    /// In Rust a sum of no waits is -0.
    #[test]
    fn nothing_is_zero_and_not_minus_zero() {
        let mut run = fixture::mixed_run();
        run.summary.waits.truncate(1);
        let seen = Observation::of_run("a", Vec::new(), &run);
        let zeros: Vec<_> = seen.metrics.iter().filter(|(_, value)| **value == 0.0).collect();
        assert!(!zeros.is_empty());
        assert!(zeros.iter().all(|(_, value)| value.is_sign_positive()), "{zeros:?}");
    }

    #[test]
    fn an_unknown_figure_is_absent() {
        let mut run = fixture::mixed_run();
        run.summary.per_second.physical_write_requests = None;
        run.summary.cpu = None;
        let seen = Observation::of_run("a", Vec::new(), &run);
        assert_eq!((seen.metric(metric::PIOPS), seen.metric(metric::CPU_IDLE)), (None, None));
        assert!(seen.metric(metric::READS).is_some());
    }
}
