//! Reports that a database printed of a run, in the run's record.

pub mod statspack;
pub mod to_record;
