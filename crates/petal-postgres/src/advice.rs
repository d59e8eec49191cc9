//! Advice for findings about PostgreSQL, as sentences for the record.

use petal_record::target::Advice;

pub fn advice() -> Advice {
    let some = |text: &str| Some(text.to_owned());
    Advice {
        enlarge_log: some("Make the log larger (max_wal_size), so that time and not size decides."),
        purge_faster: some(
            "Look for a long transaction in any database of the server (xact_start in \
             pg_stat_activity), and load the tables again that it made grow.",
        ),
        find_others: some("Repeat it alone in the database; pg_stat_activity lists the others."),
        ..Advice::default()
    }
}
