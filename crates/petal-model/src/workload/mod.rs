//! The workload: which operation comes next. Pure code, with no I/O and no clock; everything from a
//! seed.
//!
//! [`plan::Workload`] holds a run's choices as numbers, [`plan::seats`] who sits where,
//! [`picker::Picker`] one session's stream of operations. [`row`] and [`scatter`] say what the data
//! looks like, [`version`] which UPDATE wrote a row last. May not live here: anything that waits, connects or measures.

pub mod arrivals;
pub mod deck;
pub mod op;
pub mod picker;
pub mod plan;
pub mod row;
pub mod scatter;
pub mod seat;
pub mod share;
pub mod version;
