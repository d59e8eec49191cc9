//! Reasons why cuts end early.

use std::io;

use petal_record::RecordError;

#[derive(Debug, thiserror::Error)]
pub enum CutError {
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Ledger(#[from] RecordError),
    #[error("interrupted")]
    Interrupted,
}

/// Makes an error from a system error and the failed action, for `map_err`.
pub fn failed(doing: &str) -> impl FnOnce(io::Error) -> CutError {
    move |error| CutError::Failed(format!("{doing} failed: {error}"))
}
