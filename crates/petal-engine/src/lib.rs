//! The contract between petal and a database: [`Engine`] and [`Session`], and the parts that
//! engines share.
//!
//! An engine is a separate crate and one line in petal's list of engines. It knows workload, stats
//! and settings; never another engine, never runner, record or report. It does not choose
//! operations and does not judge results: it executes the given operations and reports the
//! database's answers.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod bounce;
mod contract;
pub mod costs;
pub mod direct_file;
pub mod file_lock;
pub mod file_set;
pub mod in_use;
pub mod keyed;
pub mod neighbour;
pub mod on_path;
pub mod perturbation;
pub mod server;
pub mod server_settings;
pub mod threads;
pub mod url_option;
pub mod waits_now;

pub use contract::*;
