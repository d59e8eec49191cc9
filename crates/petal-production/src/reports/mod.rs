//! Converts reports that a database printed to points, profiles and series over time.

mod identity;
pub mod observation;
pub mod over_time;
mod time_parts;
pub mod to_profile;
