//! Work of whole instances for all their users, for a profile: computed from the counters that a
//! run reads.

use petal_host::delta;
use petal_record::counters::Counters;
use petal_record::server_work::{ServerWork, WorkCount, WorkTime};

use super::counters::{CELL_READ_EVENT, LOG_EVENT, READ_EVENT, WRITE_EVENT};

const MULTI: &str = "physical read total multi block requests";

pub fn of_counters(counters: &Counters) -> ServerWork {
    let raw = |name: &str| counters.raw.get(name).copied();
    let timed = |event: &str| counters.count_and_time(event);
    let block_bytes = counters.io.physical_read_bytes.zip(counters.io.physical_read_blocks);
    let block_bytes = block_bytes.filter(|(_, blocks)| *blocks > 0);
    let mut work = ServerWork {
        endpoint: counters.endpoint.clone(),
        product: "Oracle Database".to_owned(),
        block_bytes: block_bytes.and_then(|(bytes, blocks)| u32::try_from(bytes / blocks).ok()),
        ..ServerWork::default()
    };
    // On Exadata the cells answer most reads, and files the rest.
    let single_block = match (timed(READ_EVENT), timed(CELL_READ_EVENT)) {
        (Some((files, files_ns)), Some((cells, cells_ns))) => {
            Some((files + cells, files_ns + cells_ns))
        }
        (files, cells) => files.or(cells),
    };
    let single = single_block.map(|(waits, _)| waits);
    let source = "V$SYSTEM_EVENT: db file sequential read, cell single block physical read";
    work.count(WorkCount::SingleBlockReads, single, source);
    work.count(
        WorkCount::MultiBlockReads,
        raw(MULTI),
        "V$SYSSTAT: physical read total multi block requests",
    );
    let blocks = raw("physical reads").zip(single).and_then(|(all, single)| delta(single, all));
    let source = "V$SYSSTAT: physical reads, less single-block reads";
    work.count(WorkCount::MultiBlockReadBlocks, blocks, source);
    work.count(WorkCount::BlockWrites, raw("physical writes"), "V$SYSSTAT: physical writes");
    work.count(WorkCount::Commits, raw("user commits"), "V$SYSSTAT: user commits");
    work.count(WorkCount::RedoBytes, raw("redo size"), "V$SYSSTAT: redo size");
    let source = "V$SYSTEM_EVENT: time over waits";
    work.time(WorkTime::SingleBlockRead, single_block, source);
    work.time(WorkTime::BlockWrite, timed(WRITE_EVENT), source);
    work.time(WorkTime::LogWrite, timed(LOG_EVENT), source);
    work.time(WorkTime::Commit, timed("log file sync"), source);
    for figure in WorkCount::ALL {
        if !work.counts.contains_key(&figure) {
            work.gap(figure, "this user does not see it, or the instance does not count it");
        }
    }
    work
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::counters::{Wait, WaitClass};

    #[test]
    fn blocks_that_no_single_read_brought_came_in_several() {
        let mut counters = Counters::default();
        counters.raw.insert("physical reads".to_owned(), 1000);
        counters.raw.insert(MULTI.to_owned(), 20);
        for (name, waits) in [(READ_EVENT, 60), (CELL_READ_EVENT, 300)] {
            let (class, time_ns) = (WaitClass::UserIo, 2000 * waits);
            counters.waits.push(Wait::counted(name, class, Some(waits), time_ns));
        }
        let work = of_counters(&counters);
        let counts = [
            WorkCount::SingleBlockReads,
            WorkCount::MultiBlockReads,
            WorkCount::MultiBlockReadBlocks,
        ];
        assert_eq!(counts.map(|figure| work.counts[&figure]), [360, 20, 640]);
        assert_eq!(work.times[&WorkTime::SingleBlockRead], (360, 720_000));
        assert!(work.gaps.contains_key("redo_bytes"));
    }
}
