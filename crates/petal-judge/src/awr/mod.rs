//! What petal makes of reports that a database printed: points, profiles, records and series over time.

pub mod observation;
pub mod over_time;
pub mod statspack;
pub mod to_profile;
pub mod to_record;
