//! Profiles of a database's work over time. [`parts`] joins several sources of one database into
//! one profile, [`add`] adds profiles of several databases up by time of day, [`of_run`] makes one
//! of a run's record, [`of_work`] of a server's counters, which [`watch`] reads. Nothing here knows an
//! engine: sources hand over typed counts.

pub mod add;
pub mod of_run;
pub mod of_work;
pub mod parts;
pub mod text;
pub mod watch;

use std::collections::BTreeMap;

use petal_record::profile::ProfileInterval;
use petal_record::server_work::{WorkCount, WorkTime};

/// Reason why no profile can be made.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("{what}: {names}; make a profile of each, then add them: petal profile A.json B.json")]
    Mixed { what: &'static str, names: String },
    #[error("nothing here gives a profile: {}", .0.join("; "))]
    Nothing(Vec<String>),
    #[error("{0}")]
    Other(String),
}

/// The count that a latency is the mean of.
fn weight_of(figure: WorkTime) -> WorkCount {
    match figure {
        WorkTime::SingleBlockRead => WorkCount::SingleBlockReads,
        WorkTime::MultiBlockRead => WorkCount::MultiBlockReads,
        WorkTime::BlockWrite => WorkCount::BlockWrites,
        WorkTime::LogWrite | WorkTime::Commit => WorkCount::Commits,
    }
}

/// Adds rates that ran at the same time; latencies are weighted by their counts. A rate that one
/// part lacks is unknown for all.
fn together(parts: &[&ProfileInterval]) -> (BTreeMap<WorkCount, f64>, BTreeMap<WorkTime, f64>) {
    let mut rates = BTreeMap::new();
    for figure in WorkCount::ALL {
        let sum: Option<f64> = parts.iter().map(|part| part.rate(figure)).sum();
        rates.extend(sum.filter(|_| !parts.is_empty()).map(|sum| (figure, sum)));
    }
    let mut latencies = BTreeMap::new();
    for figure in WorkTime::ALL {
        let known = parts.iter().filter_map(|part| {
            Some((part.latency(figure)?, part.rate(weight_of(figure)).filter(|n| *n > 0.0)?))
        });
        let known: Vec<(f64, f64)> = known.collect();
        let weight: f64 = known.iter().map(|(_, weight)| weight).sum();
        let time: f64 = known.iter().map(|(latency, weight)| latency * weight).sum();
        if weight > 0.0 {
            latencies.insert(figure, time / weight);
        }
    }
    (rates, latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interval with as many reads, writes and commits a second.
    pub fn interval(begin: &str, length_s: f64, reads: f64, commits: f64) -> ProfileInterval {
        ProfileInterval {
            begin: Some(begin.to_owned()),
            length_s,
            inputs: vec![0],
            per_second: BTreeMap::from([
                (WorkCount::SingleBlockReads, reads),
                (WorkCount::Commits, commits),
            ]),
            latency_us: BTreeMap::from([(WorkTime::SingleBlockRead, reads)]),
        }
    }

    #[test]
    fn a_figure_that_one_part_lacks_is_unknown_for_all() {
        let one = interval("2026-11-22T10:00:00", 60.0, 100.0, 3.0);
        let mut other = interval("2026-11-22T10:00:00", 60.0, 300.0, 3.0);
        other.per_second.remove(&WorkCount::Commits);
        let (rates, latencies) = together(&[&one, &other]);
        assert_eq!(rates[&WorkCount::SingleBlockReads], 400.0);
        assert!(!rates.contains_key(&WorkCount::Commits));
        // 100 reads of 100 us and 300 of 300 us.
        assert_eq!(latencies[&WorkTime::SingleBlockRead], 250.0);
    }
}
