//! One observation: a run reduced to what was varied and what was measured, by name. Sweeps,
//! comparisons, published tables and AWR reports all become these, so that statistics, petals and
//! charts are written once. Only figures; nothing here judges.

use std::collections::BTreeMap;

use super::Run;

/// The names of the metrics that charts and comparisons look for. A unit ends each name: `_s` is
/// per second, `_us` microseconds, `_mb_s` millions of bytes per second, `_pct` per cent.
pub mod metric {
    /// Physical read and write requests per second, as the database counted them.
    pub const PIOPS: &str = "piops";
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
}

/// A run, a published row or a report, as figures by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// Where it stands: a folder, a file, a row of a file.
    pub source: String,
    /// What was varied, in the order of its columns: parameters in lower case (`update_pct`),
    /// `sessions`, `db`. Observations with equal factors are repeats of one cell.
    pub factors: Vec<(String, String)>,
    /// The round it belongs to, from 1; pairs interleaved runs. None where nobody knows.
    pub repeat: Option<u32>,
    /// UTC, RFC 3339.
    pub started_at: Option<String>,
    pub elapsed_s: Option<f64>,
    pub active_bytes: Option<u64>,
    /// By the names of [`metric`], `select_p99_us` and its like, and what hooks printed
    /// (`hook_<name>`). A figure that is not known is not there.
    pub metrics: BTreeMap<String, f64>,
}

impl Observation {
    pub fn factor(&self, name: &str) -> Option<&str> {
        self.factors.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied()
    }

    /// The figures of a run, under the factors that its series gave it.
    pub fn of_run(source: &str, factors: Vec<(String, String)>, run: &Run) -> Self {
        let summary = &run.summary;
        Self {
            source: source.to_owned(),
            factors,
            repeat: Some(run.details.repeat).filter(|&repeat| repeat > 0),
            started_at: Some(summary.started_at.clone()),
            elapsed_s: Some(summary.elapsed_s),
            active_bytes: Some(summary.active_bytes),
            metrics: metrics(run),
        }
    }
}

fn metrics(run: &Run) -> BTreeMap<String, f64> {
    let summary = &run.summary;
    let per = &summary.per_second;
    let mb = |bytes: Option<f64>| bytes.map(|bytes| bytes / 1e6);
    let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
    let io = |kind: &str| summary.io_latency_us.get(kind).and_then(|latency| latency.mean);
    let mut metrics = BTreeMap::new();
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            metrics.insert(name.to_owned(), value);
        }
    };
    put(metric::PIOPS, summary.piops());
    put(metric::READS, per.physical_read_requests);
    put(metric::WRITES, per.physical_write_requests);
    put(metric::MB, mb(both(per.physical_read_bytes, per.physical_write_bytes)));
    put(metric::READ_MB, mb(per.physical_read_bytes));
    put(metric::WRITE_MB, mb(per.physical_write_bytes));
    put(metric::REDO_MB, mb(per.redo_bytes));
    put(metric::LOGICAL_READS, per.logical_reads);
    put(metric::OPS, per.ops);
    put(metric::COMMITS, per.commits);
    put(metric::READ_US, io("read"));
    put(metric::WRITE_US, io("write"));
    put(metric::LOG_US, io("log"));
    put(metric::CPU_IDLE, summary.cpu.map(|cpu| cpu.idle));
    for (kind, latency) in &summary.latency_us {
        put(&format!("{kind}_mean_us"), latency.mean);
        put(&format!("{kind}_p50_us"), latency.p50);
        put(&format!("{kind}_p99_us"), latency.p99);
    }
    for value in run.details.hooks.iter().flat_map(|hook| &hook.values) {
        put(&format!("hook_{}", value.name), Some(value.value));
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

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
    fn what_is_not_known_is_not_there() {
        let mut run = fixture::mixed_run();
        run.summary.per_second.physical_write_requests = None;
        run.summary.cpu = None;
        let seen = Observation::of_run("a", Vec::new(), &run);
        assert_eq!((seen.metric(metric::PIOPS), seen.metric(metric::CPU_IDLE)), (None, None));
        assert!(seen.metric(metric::READS).is_some());
    }
}
