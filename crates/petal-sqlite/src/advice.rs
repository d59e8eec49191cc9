//! Advice for findings about SQLite, as sentences for the record.

use petal_record::target::Advice;

pub fn advice() -> Advice {
    let some = |text: &str| Some(text.to_owned());
    Advice {
        checkpoints_by_log_size: some(
            "Normal for this engine. A larger WAL would write a block changed twice only once.",
        ),
        keep_cached: some(
            "Give the cache more room. A commit by another session of the same schema empties a \
             session's cache: more schemas with fewer sessions each avoid that.",
        ),
        ..Advice::default()
    }
}
