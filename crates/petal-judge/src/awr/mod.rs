//! Converts reports that a database printed to points, profiles, records and series over time.

pub mod observation;
pub mod over_time;
pub mod statspack;
pub mod to_profile;
pub mod to_record;
