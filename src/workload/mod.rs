//! What is asked, in pure code: no I/O, no clock, everything from a seed.

pub mod deck;
pub mod op;
pub mod picker;
pub mod plan;
pub mod row;
pub mod scatter;
pub mod seat;
