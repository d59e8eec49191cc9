//! Advice for findings about PostgreSQL, as sentences for the record.

use petal_model::stats::target::Advice;

pub fn advice() -> Advice {
    Advice {
        enlarge_log: Some(
            "Make the log larger (max_wal_size), so that time and not size decides.".to_owned(),
        ),
        purge_faster: Some(
            "Look for a transaction that stays open for long, in any database of the server \
             (xact_start in pg_stat_activity), and load again what it made grow."
                .to_owned(),
        ),
        find_others: Some(
            "Repeat it alone in the database; pg_stat_activity tells who else works there."
                .to_owned(),
        ),
        ..Advice::default()
    }
}
