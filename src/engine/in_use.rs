//! The mark of data in use, which a run holds so that they are not loaded over or dropped under it.

use super::EngineError;

/// Held by a run until its figures are taken: `setup --replace` and `drop` are refused.
pub trait DataUse: Send + Sync {
    /// Other petal runs that use the same data now, a line each.
    fn other_runs(&self) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }

    /// The reason why the data are no longer those that the run began with; None where they are.
    fn vanished(&self) -> Result<Option<String>, EngineError> {
        Ok(None)
    }
}

/// The mark for data that nobody can take away.
pub struct Unshared;

impl DataUse for Unshared {}
