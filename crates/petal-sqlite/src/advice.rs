//! Advice for findings about SQLite, as sentences for the record.

use petal_model::stats::target::Advice;

pub fn advice() -> Advice {
    Advice {
        checkpoints_by_log_size: Some(
            "That is this engine's way here; a larger WAL would write blocks changed twice once."
                .to_owned(),
        ),
        keep_cached: Some(
            "Give the cache more room. A commit by another session of the same schema empties a \
             session's cache: more schemas with fewer sessions each avoid that."
                .to_owned(),
        ),
        ..Advice::default()
    }
}
