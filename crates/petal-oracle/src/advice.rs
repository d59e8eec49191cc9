//! Advice for findings about Oracle Database, as sentences for the record.

use petal_model::stats::target::Advice;

pub fn advice() -> Advice {
    Advice {
        wait_for_commits: Some(
            "Set COMMIT_WAIT=TRUE (a COMMIT inside PL/SQL does not wait by itself), and look for \
             commit_wait=NOWAIT."
                .to_owned(),
        ),
        enlarge_log: Some(
            "Make the redo logs larger, so that fewer log switches force a checkpoint.".to_owned(),
        ),
        stop_prefetch: Some(
            "On a test instance set _db_block_prefetch_limit=0, _db_block_prefetch_quota=0 and \
             _db_file_noncontig_mblock_read_count=0, as SLOB's own init file does."
                .to_owned(),
        ),
        find_others: Some(
            "Repeat it alone in the database; V$SESSION tells who else works there.".to_owned(),
        ),
        ..Advice::default()
    }
}
