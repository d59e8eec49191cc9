//! The work of a whole server for all its users, for a profile: made of the counters that a run
//! reads.

use petal_host::delta;
use petal_record::counters::Counters;
use petal_record::server_work::{ServerWork, WorkCount, WorkTime};

use super::figures::{LOG_EVENT, READ_EVENT};

const READ_AHEAD: &str = "Innodb_buffer_pool_read_ahead";

pub fn of_counters(counters: &Counters) -> ServerWork {
    let raw = |name: &str| counters.raw.get(name).copied();
    let ahead = raw(READ_AHEAD);
    let pages = raw("Innodb_pages_read");
    let bytes = counters.io.physical_read_bytes.zip(pages).filter(|(_, pages)| *pages > 0);
    let mut work = ServerWork {
        endpoint: counters.endpoint.clone(),
        product: "MySQL or MariaDB".to_owned(),
        block_bytes: bytes.and_then(|(bytes, pages)| u32::try_from(bytes / pages).ok()),
        ..ServerWork::default()
    };
    let single = pages.and_then(|pages| delta(ahead.unwrap_or(0), pages));
    let source = "Innodb_pages_read less Innodb_buffer_pool_read_ahead";
    work.count(WorkCount::SingleBlockReads, single, source);
    work.count(WorkCount::MultiBlockReadBlocks, ahead, READ_AHEAD);
    work.gap(
        WorkCount::MultiBlockReads,
        "InnoDB counts the pages that it reads ahead, not its requests for several of them",
    );
    work.count(WorkCount::BlockWrites, raw("Innodb_pages_written"), "Innodb_pages_written");
    // The binary log counts transactions that change something, each once.
    match raw("Binlog_cache_use").filter(|&count| count > 0) {
        Some(count) => work.count(WorkCount::Commits, Some(count), "Binlog_cache_use"),
        None => {
            work.count(WorkCount::Commits, counters.io.commits, "Handler_commit");
            let more = "transactions that only read are in it, and each statement of a transaction";
            work.gap(WorkCount::Commits, more);
        }
    }
    let source = "the log's sequence number, else Innodb_os_log_written";
    work.count(WorkCount::RedoBytes, counters.io.redo_bytes, source);
    for (figure, event, view) in [
        (WorkTime::SingleBlockRead, READ_EVENT, "events_waits_summary_by_account_by_event_name"),
        (WorkTime::LogWrite, LOG_EVENT, "file_summary_by_event_name"),
    ] {
        let source = format!("performance_schema.{view}: time over count");
        let time = counters.count_and_time(event);
        work.time(figure, time, &source);
        if time.is_none() {
            work.time_gap(figure, "performance_schema does not time files on this server");
        }
    }
    work.time_gap(
        WorkTime::BlockWrite,
        "the server times how long it takes to hand a page's write over, not the write",
    );
    work
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use petal_record::counters::IoCounts;

    #[test]
    fn pages_read_ahead_are_no_single_reads() {
        let raw = [("Innodb_pages_read", 100), (READ_AHEAD, 30), ("Innodb_pages_written", 7)];
        let raw: BTreeMap<String, u64> =
            raw.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        let io = IoCounts { physical_read_bytes: Some(100 << 14), ..IoCounts::default() };
        let work = of_counters(&Counters { raw, io, ..Counters::default() });
        assert_eq!(work.counts[&WorkCount::SingleBlockReads], 70);
        assert_eq!(work.counts[&WorkCount::MultiBlockReadBlocks], 30);
        assert_eq!(work.block_bytes, Some(16384));
        let logged = BTreeMap::from([("Binlog_cache_use".to_owned(), 101)]);
        let io = IoCounts { commits: Some(153), ..IoCounts::default() };
        let logged = of_counters(&Counters { raw: logged, io, ..Counters::default() });
        assert_eq!(logged.counts[&WorkCount::Commits], 101);
        // What it does not count is not there, and the reason is.
        assert!(!work.counts.contains_key(&WorkCount::Commits));
        assert!(work.gaps.contains_key("multi_block_reads"));
        assert!(work.gaps["log_write_us"].contains("performance_schema"));
    }
}
