//! The contract between petal and a database: [`Engine`] and [`Session`].
//!
//! An engine is one folder here and one line in [`registry`]. It knows workload, stats and
//! settings; never another engine, never runner, record or report. It does not choose operations
//! and does not judge results: it executes what it is handed and tells what the database saw.

mod contract;
#[cfg(feature = "device")]
pub mod device;
pub mod file_lock;
pub mod in_use;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "own-io")]
pub mod on_path;
#[cfg(feature = "oracle")]
pub mod oracle;
#[cfg(feature = "postgres")]
pub mod postgres;
mod registry;
#[cfg(any(test, feature = "scripted"))]
pub mod scripted;
pub mod server;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod threads;
pub mod url_option;

pub use contract::*;
pub use registry::{GRANTS, open};

#[cfg(test)]
pub mod names_tests;
