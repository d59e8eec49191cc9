//! The workload: the order and kind of operations. Pure code, without I/O or a clock; all choices
//! follow from a seed.
//!
//! [`plan::Workload`] holds a run's choices as numbers, [`plan::seats`] the sessions' places,
//! [`picker::Picker`] one session's stream of operations. [`row`] and [`scatter`] define the data,
//! [`version`] names the UPDATE that wrote a row last. May not live here: anything that waits,
//! connects or measures.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod arrivals;
pub mod compression;
pub mod deck;
pub mod op;
pub mod picker;
pub mod plan;
pub mod row;
pub mod scatter;
pub mod seat;
pub mod share;
pub mod version;
