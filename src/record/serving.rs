//! Bytes that the processes which serve a run read and wrote by themselves, as the kernel counts it
//! for each of them: unlike a device's bytes, these are nobody else's.

use super::Run;
use super::os::{HostSeen, SecondSeen, covers};
use crate::stats::os::{Counts, Whole};

/// Bytes of the database server's processes; of petal's own, where the database is within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServingBytes {
    /// That block devices were asked for, read-ahead included.
    pub read: u64,
    /// That were changed in the page cache, or written past it.
    pub write: u64,
}

impl Run {
    /// What the serving processes read and wrote, as far as the database's totals reach. None where
    /// the kernel does not tell, or not to petal, and where only a part of that time was seen.
    pub fn serving_bytes(&self) -> Option<ServingBytes> {
        let counts = match self.summary.counted_until {
            None => self.database_host_sums()?.counts,
            Some(until) => first_counts(self.database_host()?, until.second)?,
        };
        let (read, write) = match self.details.target.in_process {
            true => (counts.petal_read_bytes, counts.petal_write_bytes),
            false => (counts.server_read_bytes, counts.server_write_bytes),
        };
        read.zip(write).map(|(read, write)| ServingBytes { read, write })
    }

    /// Who they are, in words.
    pub fn serving_processes(&self) -> &'static str {
        if self.details.target.in_process { "petal's process" } else { "the server's processes" }
    }
}

/// The counts of a run's first seconds.
fn first_counts(seen: &HostSeen, until_s: f64) -> Option<Counts> {
    /// A look at a second's end comes a little after it.
    const SLACK_S: f64 = 0.1;
    let ends_s = |second: &&SecondSeen| second.from_s + second.interval.seconds;
    let mut first = Whole::default();
    let seconds = seen.seconds.iter().filter(|second| ends_s(second) <= until_s + SLACK_S);
    seconds.for_each(|second| first.add(&second.interval));
    covers(&first.sum, until_s).then_some(first.sum.counts)
}

#[cfg(test)]
mod tests {
    use super::super::{CountedUntil, fixture};
    use super::*;

    #[test]
    fn a_database_in_petal_has_petals_bytes_and_a_server_its_own() {
        let mut run = fixture::mixed_run();
        let sum = &mut run.details.os.as_mut().unwrap().whole.sum;
        sum.counts.petal_read_bytes = Some(7);
        sum.counts.petal_write_bytes = Some(8);
        assert_eq!(run.serving_bytes(), Some(ServingBytes { read: 7, write: 8 }));
        run.details.target.in_process = false;
        assert_eq!(run.serving_bytes(), None);
        let sum = &mut run.details.os.as_mut().unwrap().whole.sum;
        (sum.counts.server_read_bytes, sum.counts.server_write_bytes) = (Some(9), Some(1));
        assert_eq!(run.serving_bytes(), Some(ServingBytes { read: 9, write: 1 }));
    }

    #[test]
    fn of_a_part_of_the_run_they_are_not_known() {
        let mut run = fixture::mixed_run();
        let seen = run.details.os.as_mut().unwrap();
        seen.whole.sum.counts.petal_read_bytes = Some(7);
        seen.whole.sum.counts.petal_write_bytes = Some(8);
        seen.whole.sum.seconds = run.summary.elapsed_s * 0.9;
        assert_eq!(run.serving_bytes(), None);
        run.summary.counted_until =
            Some(CountedUntil { second: 7.0, of_s: 60.02, db_time_s: 50.0, think_time_s: 0.0 });
        let seen = run.details.os.as_mut().unwrap();
        for second in &mut seen.seconds {
            second.interval.counts.petal_read_bytes = Some(10);
            second.interval.counts.petal_write_bytes = Some(1);
        }
        assert!(run.serving_bytes().is_some(), "the first seconds are there");
        run.details.os.as_mut().unwrap().seconds.remove(0);
        assert_eq!(run.serving_bytes(), None);
    }

    #[test]
    fn they_end_where_the_databases_totals_end() {
        let mut run = fixture::mixed_run();
        let seen = run.details.os.as_mut().unwrap();
        for second in &mut seen.seconds {
            second.interval.counts.petal_read_bytes = Some(10);
            second.interval.counts.petal_write_bytes = Some(1);
        }
        run.summary.counted_until =
            Some(CountedUntil { second: 7.0, of_s: 60.02, db_time_s: 50.0, think_time_s: 0.0 });
        assert_eq!(run.serving_bytes(), Some(ServingBytes { read: 70, write: 7 }));
    }
}
