//! Advice for findings about Oracle Database, as sentences for the record.

use petal_record::target::Advice;

pub fn advice() -> Advice {
    let some = |text: &str| Some(text.to_owned());
    Advice {
        wait_for_commits: some(
            "Set COMMIT_WAIT=TRUE (a COMMIT inside PL/SQL does not wait by itself), and look for \
             commit_wait=NOWAIT.",
        ),
        enlarge_log: some(
            "Make the redo logs larger, so that fewer log switches force a checkpoint.",
        ),
        stop_prefetch: some(
            "On a test instance set _db_block_prefetch_limit=0, _db_block_prefetch_quota=0 and \
             _db_file_noncontig_mblock_read_count=0, as SLOB's own init file does.",
        ),
        find_others: some("Repeat it alone in the database; V$SESSION lists the others."),
        ..Advice::default()
    }
}
