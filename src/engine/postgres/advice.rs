//! Advice for findings about PostgreSQL, as sentences for the record.

use crate::stats::target::Advice;

pub fn advice() -> Advice {
    Advice {
        enlarge_log: Some(
            "Make the log larger (max_wal_size), so that time and not size decides.".to_owned(),
        ),
        find_others: Some(
            "Repeat it alone in the database; pg_stat_activity tells who else works there."
                .to_owned(),
        ),
        ..Advice::default()
    }
}
