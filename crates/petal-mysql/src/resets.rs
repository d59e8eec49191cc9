//! Counters that begin again while petal counts: by a restart, a FLUSH STATUS or a truncated table.

use std::collections::BTreeMap;

use petal_engine::server::reset_watch::{ResetWatch, SERVER};

const UPTIME: &str = "Uptime";
/// Seconds since somebody flushed the status.
const SINCE_FLUSH: &str = "Uptime_since_flush_status";
/// The group of the counters that a FLUSH STATUS sets back.
const STATUS: &str = "the server's status";
/// Name prefix of counts by kind of file, for a [`ResetWatch`].
pub const FILE_COUNTS: &str = "performance_schema";

/// The group of counters that begin again together: those of InnoDB, of performance_schema, or of
/// the server's own status.
fn group_of(name: &str) -> &str {
    let begin =
        |prefix: &str| name.get(..prefix.len()).is_some_and(|it| it.eq_ignore_ascii_case(prefix));
    match name {
        UPTIME => SERVER,
        _ if begin("Innodb_") => "InnoDB's status",
        _ if begin(FILE_COUNTS) => FILE_COUNTS,
        _ => STATUS,
    }
}

/// Compares counters with the look before, and leaves out those that began again. `others` are
/// counters that are nowhere else.
pub fn without_resets(
    raw: &mut BTreeMap<String, u64>,
    others: impl IntoIterator<Item = (String, u64)>,
    resets: &mut ResetWatch,
) {
    let mut counts = raw.clone();
    counts.extend(others);
    let since_flush = counts.remove(SINCE_FLUSH);
    // Both are by one clock, read once: their difference changes only with a FLUSH STATUS.
    let flushed = counts.get(UPTIME).zip(since_flush).map(|(uptime, since)| uptime.abs_diff(since));
    let stamp = |at| (STATUS.to_owned(), format!("second {at} of its uptime"));
    // The server dates a FLUSH STATUS. These counters are sums over sessions at work: a fall alone
    // proves no reset, and a counter that fell has no rise.
    let summed = counts.iter_mut().filter(|(name, _)| group_of(name) == STATUS);
    summed.filter(|_| flushed.is_some()).for_each(|(_, count)| *count = 0);
    resets.look(&counts, flushed.map(stamp).into_iter().collect(), group_of);
    raw.retain(|name, _| ![UPTIME, SINCE_FLUSH].contains(&name.as_str()));
    raw.retain(|name, _| !resets.is_lost(group_of(name)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_of_the_servers_status_is_a_reset_only_if_the_server_dates_one() {
        let mut resets = ResetWatch::default();
        let mut look = |uptime: u64, since_flush: Option<u64>, commits: u64| {
            let mut raw = BTreeMap::from([
                (UPTIME.to_owned(), uptime),
                ("Handler_commit".to_owned(), commits),
                ("Innodb_data_reads".to_owned(), uptime),
            ]);
            raw.extend(since_flush.map(|since| (SINCE_FLUSH.to_owned(), since)));
            without_resets(&mut raw, [], &mut resets);
            raw.contains_key("Handler_commit")
        };
        assert!(look(10, Some(10), 100));
        // Lower, and no reset by the server.
        assert!(look(11, Some(11), 60));
        assert!(look(12, Some(12), 110));
        assert!(!look(13, Some(1), 120));
        // A server that does not date its resets.
        let mut resets = ResetWatch::default();
        let mut look = |commits: u64| {
            let mut raw = BTreeMap::from([
                ("Handler_commit".to_owned(), commits),
                ("Innodb_data_reads".to_owned(), 1),
            ]);
            without_resets(&mut raw, [], &mut resets);
            raw.contains_key("Handler_commit")
        };
        assert!(look(100) && !look(60));
    }
}
