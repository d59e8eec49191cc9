//! Converts reports that a database printed to points, profiles, records and series over time.

mod identity;
pub mod observation;
pub mod over_time;
pub mod statspack;
mod time_parts;
pub mod to_profile;
pub mod to_record;
