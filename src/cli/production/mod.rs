//! The commands of loads of production.

pub mod awr;
pub mod profile;
pub mod replay;
